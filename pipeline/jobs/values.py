"""Types of the values in a profile: how each is checked, and what schema and messages say it should be."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from dask.utils import parse_bytes, parse_timedelta

from pipeline.jobs.walltime import walltime_seconds
from sweeps.records import Checked, refusal

SIZES = 2**20, 2**60
"""Bytes: less is a unit that was forgotten, and dask-jobqueue cannot write it; no machine has more."""

LONGEST_TIME = 10 * 366 * 86_400.0
"""Seconds: what is longer overflows where it is added to a date."""


def size(value: Any) -> int:
    """Bytes of a size such as "4GiB"."""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        try:
            found = int(parse_bytes(value)) if _has_number(value) else 0
        except (ValueError, OverflowError):
            found = 0
        if SIZES[0] <= found <= SIZES[1]:
            return found
        if 0 < found < SIZES[0]:
            raise refusal('a size such as "4GiB"', "a number without a unit counts bytes")
    raise refusal('a size such as "4GiB"')


def time_span(value: Any) -> float:
    """Seconds of a time such as "12h"."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            seconds = float(parse_timedelta(value)) if _has_number(value) else 0.0
        except (ValueError, KeyError, OverflowError):
            seconds = 0.0
        if 0 < seconds <= LONGEST_TIME:
            return seconds
    raise refusal('a time such as "30min" or "12h"')


def _has_number(value: str | float) -> bool:
    # dask takes "GB" for one gigabyte, "h" for one hour and an empty text for one byte
    return not isinstance(value, str) or re.match(r"\s*\.?\d", value, re.ASCII) is not None


def walltime(system: str) -> Callable[[Any], str]:
    """A walltime as the system writes it."""

    def check(value: Any) -> str:
        # YAML 1.1 reads an unquoted 10:00:00 as the number 36000, which SLURM would take for minutes.
        if not isinstance(value, str):
            raise refusal('a time in quotes, such as "10:00:00"')
        if system == "slurm" and walltime_seconds(system, value) is None:
            raise refusal('a time such as "10:00:00" or "2-00:00:00"')
        return str(plain(value))

    return check


def lines(value: Any) -> list[str]:
    """Texts of one line each."""
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise refusal("a list of texts")
    for line in value:
        plain(line)
    return value


def pairs(value: Any) -> dict[str, Any]:
    """A table of plain values."""
    if not isinstance(value, dict):
        raise refusal("a table of texts")
    for item in (*value, *value.values()):
        plain(item)
    return value


def plain(value: Any) -> Any:
    """A number, or a text of one line."""
    if not isinstance(value, (str, int, float)):
        raise refusal("a text or a number")
    if isinstance(value, str) and not (value.isprintable() and value.strip()):
        raise refusal("a text of one line")
    return value


def name(value: Any) -> str:
    """A text of one line, which may be written as a whole number."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise refusal("a text")
    return str(plain(value))


def word(value: Any) -> str:
    """A text without blanks, because it becomes part of a line of a script."""
    if not isinstance(value, str) or not value.isprintable() or value.split() != [value]:
        raise refusal("a text without blanks")
    return value


TEXT = {"type": "string"}
Size = Annotated[int, Checked(size, {"type": ["string", "integer"], "examples": ["4GiB"]})]
TimeSpan = Annotated[float, Checked(time_span, {"type": ["string", "number"], "examples": ["30min", "12h"]})]
Lines = Annotated[list[str], Checked(lines, {"type": "array", "items": TEXT})]
Pairs = Annotated[dict[str, Any], Checked(pairs, {"type": "object"})]
Label = Annotated[str, Checked(name, {"type": ["string", "integer"]})]
Plain = Annotated[Any, Checked(plain, {"type": ["string", "number", "boolean"]})]
Word = Annotated[str, Checked(word, TEXT)]
SlurmTime = Annotated[str, Checked(walltime("slurm"), {**TEXT, "examples": ["10:00:00", "2-00:00:00"]})]
OtherTime = Annotated[str, Checked(walltime(""), {**TEXT, "examples": ["10:00:00"]})]
