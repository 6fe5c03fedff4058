"""When two objectives count as the same optimum, and which restart is the best."""

from __future__ import annotations

import math
from collections.abc import Sequence

SAME_OPTIMUM = 1e-6
"""Nats. Objectives that differ by no more belong to one optimum: sums in another order differ by less."""


def best_of(objectives: Sequence[float]) -> int:
    """Position of the largest objective, the lowest on ties.

    Raises
    ------
    ArithmeticError
        If an objective is not a finite number.
    """
    if not all(map(math.isfinite, objectives)):
        raise ArithmeticError(f"an objective that is not finite: {list(objectives)}")
    return max(range(len(objectives)), key=objectives.__getitem__)
