"""Numbers and times in words, as logs, commands and pages write them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds as `h:mm:ss`."""
    whole = max(0, round(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
