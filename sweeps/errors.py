"""Problems of an input, all reported at once, and text of strangers as a line that anything can show."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")

# Characters of a line of text that somebody else has made.
LONGEST_LINE = 500

# Characters that are kept of a traceback: those of its end.
LONGEST_TRACEBACK = 20_000


def one_line(text: object, limit: int = LONGEST_LINE) -> str:
    """Return text of anything on one line that terminals, logs and pages can show, and files can hold.

    Line breaks become blanks. Other characters that cannot be printed become escapes: controls, halves of
    characters (of file names that are not UTF-8), marks that turn the direction of reading. `text` may be an
    exception whose `__str__` fails.
    """
    words = _words(text).strip()[: 4 * limit]  # more than could be shown, and no more work than that
    line = _printable(re.sub(r"\s*[^\S ]\s*", " ", words))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def cause_of(error: BaseException) -> str:
    """Return kind and message of an error on one line, as failures are recorded."""
    return one_line(f"{type(error).__name__}: {_words(error)}")


def plain_lines(text: str, limit: int = LONGEST_TRACEBACK) -> str:
    """Return the end of a text of several lines, with the escapes of `one_line`; the last is not empty."""
    lines = (_printable(line.expandtabs()) for line in text[-limit:].splitlines())
    return "\n".join(lines)[-limit:].rstrip("\n")


def _words(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return "<its text cannot be made>"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


# Fault of a missing key, whose message needs no expected value.
MISSING_KEY = "missing key"


@dataclass(frozen=True)
class Problem:
    """One fault of an input."""

    where: str  # file, table and key, line, or cell
    value: str  # content of that place
    expected: str  # may be empty
    hint: str = ""  # a remedy
    count: int = 1  # number of problems for which this one stands

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        if self.value == MISSING_KEY or not self.expected:
            return unstyled(f"{self.where}: {self.value}{hint}")
        return unstyled(f"{self.where}: found {self.value}, expected {self.expected}{hint}")


# Control characters except line ends and tabs, and characters that no terminal can show.
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def unstyled(text: str) -> str:
    """Return a text without characters that a terminal obeys; names of a user's files may have some."""
    return OBEYED.sub("\ufffd", text)


class InputError(ValueError):
    """Invalid input: nothing was started and nothing was written.

    Parameters
    ----------
    problems : iterable of Problem
        all faults, not only the first
    rest : object, optional
        Readable part of the input: further checks use it to find their problems in the same try.
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


def refused(location: object, value: str, expected: str, hint: str = "") -> InputError:
    """Return an error with a single problem."""
    return InputError([Problem(str(location), value, expected, hint)])


def plural(count: int, noun: str, several: str = "") -> str:
    """Return a number and its noun, such as `1 block` and `2 blocks`; `several` is an irregular plural."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"


def present(value: T | None) -> T:
    """Return a value that may be None elsewhere, but not here."""
    if value is None:
        raise TypeError("a value is missing that is always there")
    return value


def closest(word: str, words: Iterable[str]) -> str:
    """Return the known word of which `word` may be a misspelling, or an empty text."""
    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)), "")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return a hint with the known word closest to `word`, or an empty text."""
    close = closest(word, words)
    return f"did you mean {close!r}?" if close else ""


def not_one_of(location: str, word: object, words: Iterable[str]) -> Problem:
    """Return the problem of a value that is none of the known ones, with the closest word as its hint."""
    options = tuple(words)
    hint = did_you_mean(word, options) if isinstance(word, str) else ""
    return Problem(location, repr(word), f"one of {', '.join(options)}", hint)


def short_text(value: object, limit: int = 60) -> str:
    """Return a short text of a value of TOML, YAML or JSON for a message."""
    try:
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def text_or_nothing(value: object) -> str:
    """Return a text of a value for a message, "nothing" for None."""
    return "nothing" if value is None else short_text(value, LONGEST_LINE)


def key_changes(
    place: str, values: Mapping[str, Any], expected: Mapping[str, Any], origin: object, hint: str = ""
) -> Iterator[Problem]:
    """Yield a problem for each key at which a table is not as expected, and within tables that both have.

    A key that a table lacks has the value None, whose text is "nothing".
    """
    for key in dict.fromkeys([*expected, *values]):
        value, reference = values.get(key), expected.get(key)
        if isinstance(value, Mapping) and isinstance(reference, Mapping):
            yield from key_changes(f"{place}{key}.", value, reference, origin, hint)
        elif value != reference:
            text = f"{text_or_nothing(reference)}, as in {origin}"
            yield Problem(f"{place}{key}", text_or_nothing(value), text, hint)


@contextmanager
def collecting(problems: list[Problem]) -> Iterator[None]:
    """Add the problems of an `InputError` in the block to a list, and continue after the block."""
    try:
        yield
    except InputError as error:
        problems += error.problems


def raise_all(problems: Iterable[Problem]) -> None:
    """Raise an `InputError` of all problems, if there are any."""
    if items := tuple(problems):
        raise InputError(items)


def rest_of(problems: list[Problem], function: Callable[[], T]) -> T | None:
    """Return the value of a function; after an `InputError`, whose problems are added to a list, its rest."""
    try:
        return function()
    except InputError as error:
        problems += error.problems
        readable_part: T | None = error.rest
        return readable_part


def collected(function: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Return the values of a function; the problems of all items are one InputError."""
    values, problems = list[T](), list[Problem]()
    for item in items:
        with collecting(problems):
            values.append(function(item))
    raise_all(problems)
    return values
