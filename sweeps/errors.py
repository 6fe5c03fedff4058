"""Problems of an input, all reported at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input.

    Parameters
    ----------
    where : str
        File, table and key, line, or cell.
    found, expected : str
        What is there, and what should be.
    hint : str
        A remedy, for example a did-you-mean.
    """

    where: str
    found: str
    expected: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.where}: found {self.found}, expected {self.expected}{hint}"


class InputError(ValueError):
    """Invalid input: nothing was started and nothing was written.

    Parameters
    ----------
    problems : iterable of Problem
        Everything found wrong, not only the first.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        return InputError, (self.problems,)


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` may be a misspelling of, or an empty text."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), "")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Hint naming the known word closest to `word`, or an empty text."""
    close = closest(word, known)
    return f"did you mean {close!r}?" if close else ""


def not_one_of(where: str, word: object, known: Iterable[str]) -> Problem:
    """Problem of a value that is none of the known ones, with the closest word as its hint."""
    words = tuple(known)
    hint = did_you_mean(word, words) if isinstance(word, str) else ""
    return Problem(where, repr(word), f"one of {', '.join(words)}", hint)


def shown(value: object) -> str:
    """Short text of a value of TOML, YAML or JSON for a message."""
    try:
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


@contextmanager
def collecting(problems: list[Problem]) -> Iterator[None]:
    """Add the problems of an `InputError` raised inside to a list, and continue after the block.

    Parameters
    ----------
    problems : list of Problem
        Is extended; the caller raises them once everything has been checked.
    """
    try:
        yield
    except InputError as error:
        problems += error.problems
