"""When one objective is as good as another, and which restart is the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def best_of(objectives: Sequence[float]) -> int:
    """Position of the largest objective, the lowest on ties.

    Raises
    ------
    ArithmeticError
        If an objective is not a finite number.
    """
    if not np.all(np.isfinite(objectives)):
        raise ArithmeticError(f"an objective that is not finite: {list(objectives)}")
    return int(np.argmax(objectives))
