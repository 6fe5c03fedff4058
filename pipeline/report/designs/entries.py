"""Worths and budget ratios as the page and the text write them."""

from __future__ import annotations

import math

from pipeline.scoring.worth import COVERAGE, Budget

DIGITS = 2
"""Of pairs a sample, and of their ratios."""
PER_CENT = f"{COVERAGE * 100:g} %"
"""Coverage of an interval, in words."""


def pairs(value: float) -> str:
    """Pairs a sample, as sweep files write them."""
    return f"{value:.{DIGITS}f}".rstrip("0").rstrip(".") + "N"


def worth(found: Budget, place: int) -> str:
    """Uniform pairs that reach the score at one m: a number, or beyond which end of the curve they lie."""
    value = float(found.worth[place])
    if math.isinf(value):
        return f"over {pairs(found.most)}"
    if value == 0:
        return f"under {pairs(found.least)}" if found.least else "none"
    return pairs(value)


def ratio(found: Budget, place: int) -> str:
    """Chosen pairs for each uniform one, with the interval; `<` and `>` where the curve ends before."""
    value = _ratio(found, place, float(found.worth[place]))
    if math.isnan(found.low[place]):
        return value
    # many uniform pairs are few chosen ones for each
    ends = [_ratio(found, place, float(end[place])) for end in (found.high, found.low)]
    return value if ends == [value, value] else f"{value} ({ends[0]}–{ends[1]})"


def _ratio(found: Budget, place: int, worth: float) -> str:
    x = float(found.group.x[place])
    if math.isinf(worth):
        return f"<{x / found.most:.{DIGITS}f}"
    if worth == 0:
        return f">{x / found.least:.{DIGITS}f}" if found.least else "∞"
    return f"{x / worth:.{DIGITS}f}"
