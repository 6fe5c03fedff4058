"""Cells of made-up sweeps with several designs, for the tests of what choosing pairs gains."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from contests import cell, table

N = 100
COUNTS = (50, 100, 150)
WRITTEN = {50: "0.5N", 100: "1N", 150: "1.5N"}
DESIGNS = ("uniform", "active")

Score = Callable[[str, float, int], float]
"""Of the design, m / N and the unit."""


def designed(
    score: Score,
    *,
    datasets: tuple[str, ...] = ("a",),
    draws: int = 4,
    mixtures: int = 0,
    accuracies: tuple[float, ...] = (0.8,),
    models: tuple[str, ...] = ("conditional",),
    designs: tuple[str, ...] = DESIGNS,
    baseline: float | None = None,
) -> pd.DataFrame:
    """Cells of N = 100 samples at m = 0.5N, 1N and 1.5N, scores a function of design, m / N and unit."""
    rows: list[dict[str, object]] = []
    places = [(mixture, draw) for mixture in range(mixtures or 1) for draw in range(draws)]
    for dataset in datasets:
        for mixture in range(mixtures or 1):
            if baseline is not None:
                rows.append(cell(dataset, "unsupervised", baseline, **_mixture(mixtures, mixture)))
        for p in accuracies:
            for model in models:
                for design in designs:
                    for m in COUNTS:
                        for mixture, draw in places:
                            value = score(design, m / N, mixture if mixtures else draw)
                            more = {"p": p, "m": m, "m_over_n": m / N, "replicate": draw, "design": design}
                            rows.append(cell(dataset, model, value, **more, **_mixture(mixtures, mixture)))
    return table(rows).assign(**{name: [row.get(name) for row in rows] for name in ("design", "m_over_n")})


def written(*datasets: str) -> dict[tuple[str, int], str]:
    """How the sweep file would write each m."""
    return {(dataset, m): text for dataset in datasets for m, text in WRITTEN.items()}


def _mixture(mixtures: int, mixture: int) -> dict[str, object]:
    return {"mixture": mixture} if mixtures else {}
