"""Draws that come out the same compiled and not."""

from __future__ import annotations

import itertools

import numpy as np
from solving.from_python import from_python

from kernels.rng import draw_below, shuffle

draw_below = from_python(draw_below)
shuffle = from_python(shuffle)


def test_draws_are_uniform() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount([draw_below(rng, 3) for _ in range(3000)], minlength=3)
    assert counts.sum() == 3000
    assert (np.abs(counts / 3000 - 1 / 3) < 0.04).all()
    seen = dict.fromkeys(itertools.permutations(range(3)), 0)
    items = np.arange(3)
    for _ in range(3000):
        shuffle(rng, items)
        seen[tuple(items.tolist())] += 1
    assert max(abs(count / 3000 - 1 / 6) for count in seen.values()) < 0.04
