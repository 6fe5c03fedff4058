"""Problems of an input, all reported at once, and text of others as a line that anything can show."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

# Characters of a line of text that somebody else has made.
LONGEST_LINE = 500

# Characters that are kept of a traceback: those of its end.
LONGEST_TRACEBACK = 20_000


def one_line(text: object, most: int = LONGEST_LINE) -> str:
    """Text of anything on one line that terminals, logs and pages can show, and files can hold.

    Line breaks become blanks. Whatever else cannot be printed is written as an escape: controls, halves of
    characters (of file names that are not UTF-8), marks that turn the direction of reading.

    Parameters
    ----------
    text : object
        An exception for instance, even one whose `__str__` fails.
    most : int
        Characters of the result.
    """
    words = _words(text).strip()[: 4 * most]  # more than could be shown, and no more work than that
    line = _printable(re.sub(r"\s*[^\S ]\s*", " ", words))
    return line if len(line) <= most else line[: most - 3] + "..."


def cause_of(error: BaseException) -> str:
    """Kind and message of an error on one line, as failures are recorded."""
    return one_line(f"{type(error).__name__}: {_words(error)}")


def plain_lines(text: str, most: int = LONGEST_TRACEBACK) -> str:
    """The end of a text of several lines, each as `one_line` writes it but for its length."""
    return "\n".join(_printable(line.expandtabs()) for line in text[-most:].splitlines())[-most:]


def _words(thing: object) -> str:
    try:
        return str(thing)
    except Exception:
        return "<its text cannot be made>"


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


# What is found where a key is not there; no more has to be said.
MISSING = "missing key"


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input.

    Parameters
    ----------
    where : str
        File, table and key, line, or cell.
    found, expected : str
        What is there, and what should be; what is found alone says enough where nothing is expected.
    hint : str
        A remedy, for example a did-you-mean.
    count : int
        Problems that this one stands for.
    """

    where: str
    found: str
    expected: str
    hint: str = ""
    count: int = 1

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        if self.found == MISSING or not self.expected:
            return unstyled(f"{self.where}: {self.found}{hint}")
        return unstyled(f"{self.where}: found {self.found}, expected {self.expected}{hint}")


# Control characters but for line ends and tabs, and what no terminal can show.
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def unstyled(text: str) -> str:
    """A text without what a terminal would obey; names of a user's files may hold it."""
    return OBEYED.sub("\ufffd", text)


class InputError(ValueError):
    """Invalid input: nothing was started and nothing was written.

    Parameters
    ----------
    problems : iterable of Problem
        Everything found wrong, not only the first.
    rest : object, optional
        What could be read in spite of the problems: further checks need it to find theirs in the same try.
    """

    def __init__(self, problems: Iterable[Problem], rest: Any = None) -> None:
        self.problems, self.rest = tuple(problems), rest
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @property
    def n_problems(self) -> int:
        """Number of problems, with those that one of them stands for."""
        return sum(problem.count for problem in self.problems)

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        return InputError, (self.problems,)


def refused(where: object, found: str, expected: str, hint: str = "") -> InputError:
    """Error of one problem."""
    return InputError([Problem(str(where), found, expected, hint)])


def plural(count: int, noun: str, several: str = "") -> str:
    """A number and its noun: `1 block`, `2 blocks`, or `several` of them where an s is not enough."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"


def present(value: T | None) -> T:
    """A value that may be None elsewhere, and never is here."""
    if value is None:
        raise TypeError("a value is missing that is always there")
    return value


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


def short_text(value: object) -> str:
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
