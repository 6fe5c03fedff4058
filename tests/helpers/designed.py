"""Cells of made-up sweeps with several designs show what is gained by choosing pairs."""

from collections.abc import Callable
from itertools import product

import pandas as pd
from contests import cell, table

WRITTEN = {50: "0.5N", 100: "1N", 150: "1.5N"}

Score = Callable[[str, float, int], float]
"""Of the design, m / N and the unit."""


def designed_cells(
    score: Score,
    *,
    datasets: tuple[str, ...] = ("a",),
    draws: int = 4,
    mixtures: int = 0,
    accuracies: tuple[float, ...] = (0.8,),
    models: tuple[str, ...] = ("conditional",),
    designs: tuple[str, ...] = ("uniform", "active"),
    baseline: float | None = None,
) -> pd.DataFrame:
    """Return cells of N = 100 samples at m = 0.5N, 1N and 1.5N; scores depend on design, m / N and unit."""
    rows: list[dict[str, object]] = []
    units = [{"mixture": mixture} for mixture in range(mixtures)] or [{}]
    for dataset in datasets:
        if baseline is not None:
            rows += [cell(dataset, "unsupervised", baseline, **unit) for unit in units]
        grid = product(accuracies, models, designs, WRITTEN, units, range(draws))
        for p, model, design, m, unit, draw in grid:
            x = m / 100
            more = {"p": p, "m": m, "m_over_n": x, "replicate": draw, "design": design, **unit}
            rows.append(cell(dataset, model, score(design, x, unit.get("mixture", draw)), **more))
    return table(rows).assign(**{name: [row.get(name) for row in rows] for name in ("design", "m_over_n")})


def rising_curve(design: str, x: float, unit: int) -> float:
    """Return a score that rises with m / N, with active pairs twice as fast."""
    return (0.4 + 0.01 * unit if design == "active" else 0.2) * x


def written_m(*datasets: str) -> dict[tuple[str, int], str]:
    """Return the text of each m in a sweep file."""
    return {(dataset, m): text for dataset in datasets for m, text in WRITTEN.items()}
