"""Draws from a Generator that come out the same compiled and as plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.jit import jit_part


def below(seed: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """A stream below another, without counting up the other's children."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))


@jit_part
def draw_below(rng: np.random.Generator, n: int) -> int:
    """Whole number, uniform on 0 to n - 1."""
    return min(int(rng.random() * n), n - 1)


@jit_part
def shuffle(rng: np.random.Generator, items: NDArray[Any]) -> None:
    """Put `items` in random order, in place."""
    for last in range(len(items) - 1, 0, -1):
        chosen = draw_below(rng, last + 1)
        kept = items[last]
        items[last] = items[chosen]
        items[chosen] = kept
