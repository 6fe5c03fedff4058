"""Walltimes as queueing systems write them."""

from __future__ import annotations

import re

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
