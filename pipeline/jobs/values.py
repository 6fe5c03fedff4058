"""What the values of a profile's keys must look like."""

from __future__ import annotations

import re
from typing import Any

from dask.utils import parse_bytes, parse_timedelta

from sweeps.file.toml import Bad, Check


def size(value: Any) -> int:
    """Bytes of a size such as "4GiB"."""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        try:
            found = int(parse_bytes(value))
        except ValueError:
            found = 0
        if found > 0:
            return found
    raise Bad('a size such as "4GiB"')


def same_as(cores: int) -> Check[int]:
    """A number of processes: as many as cores."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or value != cores:
            raise Bad(f"{cores}, as many as cores: a process has one thread", 'to book more cores, "job_cpu"')
        return cores

    return check


def walltime(system: str) -> Check[str]:
    """A walltime as the system writes it."""

    def check(value: Any) -> str:
        # YAML 1.1 reads an unquoted 10:00:00 as the number 36000, which SLURM would take for minutes.
        if not isinstance(value, str):
            raise Bad('a time in quotes, such as "10:00:00"')
        if system == "slurm" and walltime_seconds(system, value) is None:
            raise Bad('a time such as "10:00:00" or "2-00:00:00"')
        return str(plain(value))

    return check


def lines(value: Any) -> list[str]:
    """Texts of one line each."""
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise Bad("a list of texts")
    for line in value:
        plain(line)
    return value


def pairs(value: Any) -> dict[str, Any]:
    """A table of plain values."""
    if not isinstance(value, dict):
        raise Bad("a table of texts")
    for item in (*value, *value.values()):
        plain(item)
    return value


def plain(value: Any) -> Any:
    """A number, or a text of one line."""
    if not isinstance(value, (str, int, float)):
        raise Bad("a text or a number")
    if isinstance(value, str) and not (value.isprintable() and value.strip()):
        raise Bad("a text of one line")
    return value


def word(value: Any) -> str:
    """A text without blanks: it stands in a line of a script."""
    if not isinstance(value, str) or not value.isprintable() or value.split() != [value]:
        raise Bad("a text without blanks")
    return value


def time_span(value: Any) -> float:
    """Seconds of a time such as "12h"."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            seconds = float(parse_timedelta(value))
        except (ValueError, KeyError):
            seconds = 0.0
        if seconds > 0:
            return seconds
    raise Bad('a time such as "30min" or "12h"')


def yes_or_no(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Bad("true or false")
    return value


SLURM_TIME = re.compile(
    r"(?:(?P<days>\d+)-(?P<hours>\d+)(?::(?P<minutes>\d+)(?::(?P<seconds>\d+))?)?"
    r"|(?P<h>\d+):(?P<m>\d+):(?P<s>\d+)|(?P<min>\d+)(?::(?P<sec>\d+))?)"
)
CLOCK_TIME = re.compile(r"(?P<h>\d+):(?P<m>\d+):(?P<s>\d+)")
UNITS = {
    **dict.fromkeys(("seconds", "s", "sec"), 1),
    **dict.fromkeys(("minutes", "m", "min"), 60),
    **dict.fromkeys(("hours", "h"), 3600),
    "days": 86400,
}


def walltime_seconds(system: str, text: str) -> float | None:
    """Seconds of a walltime as the system writes it, None where it says no number.

    SLURM reads `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`; of
    the other systems only `hours:minutes:seconds` is understood.
    """
    match = (SLURM_TIME if system == "slurm" else CLOCK_TIME).fullmatch(text.strip())
    if match is None:
        return None
    return float(sum(UNITS[unit] * int(number) for unit, number in match.groupdict().items() if number))
