"""Types of the values in a profile: how each is checked, and what schema and messages say it should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from dask.utils import parse_bytes, parse_timedelta

from pipeline.jobs.walltime import walltime_seconds
from sweeps.keytypes import Checked
from sweeps.validation import refusal


def size(value: Any) -> int:
    """Bytes of a size such as "4GiB"."""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        try:
            # dask takes an empty text for one byte
            found = 0 if value == "" else int(parse_bytes(value))
        except ValueError:
            found = 0
        if found > 0:
            return found
    raise refusal('a size such as "4GiB"')


def time_span(value: Any) -> float:
    """Seconds of a time such as "12h"."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            seconds = float(parse_timedelta(value))
        except (ValueError, KeyError, IndexError):  # the last for an empty text
            seconds = 0.0
        if seconds > 0:
            return seconds
    raise refusal('a time such as "30min" or "12h"')


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
Plain = Annotated[Any, Checked(plain, {"type": ["string", "number", "boolean"]})]
Word = Annotated[str, Checked(word, TEXT)]
SlurmTime = Annotated[str, Checked(walltime("slurm"), {**TEXT, "examples": ["10:00:00", "2-00:00:00"]})]
OtherTime = Annotated[str, Checked(walltime(""), {**TEXT, "examples": ["10:00:00"]})]
