"""Numbers and times in words, as logs, commands and pages write them."""

from __future__ import annotations

import logging
from collections.abc import Container
from typing import TYPE_CHECKING

from sweeps.errors import plain_lines

if TYPE_CHECKING:  # what only shows a log reads no sweep file
    from sweeps.file.spec import SweepSpec


class PlainFormatter(logging.Formatter):
    """A log of which each line begins as a line of ours does, whatever the message has from others."""

    def format(self, record: logging.LogRecord) -> str:
        """Lines of a message, each with what goes before it."""
        whole = _BARE.format(record)
        lines = plain_lines(whole).split("\n")
        return "\n".join(super(PlainFormatter, self).format(_with(record, line)) for line in lines)


_BARE = logging.Formatter()
"""Message and traceback alone."""


def _with(record: logging.LogRecord, line: str) -> logging.LogRecord:
    said = dict.fromkeys(("args", "exc_info", "exc_text", "stack_info"))
    return logging.makeLogRecord(record.__dict__ | said | {"msg": line})


def duration(seconds: float) -> str:
    """Seconds as `h:mm:ss`."""
    whole = max(0, round(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def at_hand(spec: SweepSpec, skipped: Container[str]) -> str | None:
    """How many data sets of a sweep are at hand, and what that leaves out; None where all of them are."""
    cells = cells_left_out(spec, skipped)
    if not cells:
        return None
    names = [entry.name for entry in spec.grid.datasets]
    there = sum(name not in skipped for name in names)
    return (
        f"{there} of {plural(len(names), 'data set')} at hand, {plural(cells, 'cell')} left out:"
        " sweep datasets fetch"
    )


def cells_left_out(spec: SweepSpec, skipped: Container[str]) -> int:
    """Cells of the data sets of a sweep that are not at hand."""
    return spec.grid.n_cells * sum(entry.name in skipped for entry in spec.grid.datasets)


def span(seconds: float) -> str:
    """Seconds in the largest unit that fits: `3 hours`."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return plural(int(seconds // length), unit)
    return plural(max(0, int(seconds)), "second")


def plural(count: int, noun: str, several: str = "") -> str:
    """A number and its noun: `1 block`, `2 blocks`, or `several` of them where an s is not enough."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"
