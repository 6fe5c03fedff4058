"""Numbers and times in words, as logs, commands and pages write them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds as `h:mm:ss`."""
    whole = max(0, round(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def span(seconds: float) -> str:
    """Seconds in the largest unit that fits: `3 hours`."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return plural(int(seconds // length), unit)
    return plural(max(0, int(seconds)), "second")


def plural(count: int, noun: str) -> str:
    """A number and its noun: `1 block`, `2 blocks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
