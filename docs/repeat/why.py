"""What may explain a difference from a published value: other mixtures, fewer restarts, another scaling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

DRAWS = 10_000
"""Of fifty mixtures among those at hand, to see how far a mean of fifty may lie."""

CELL = ("dataset", "n_clusters", "mixture", "p", "m", "replicate", "model")


def same_cells(cells: pd.DataFrame, row: Any) -> pd.DataFrame:
    """Cells of the group that a compared value is the mean of; a baseline has neither p nor m."""
    rows = cells[(cells["n_clusters"] == row.n_clusters) & (cells["model"] == row.model)]
    return rows[rows["p"].isna() | ((rows["p"] == row.p) & (rows["m"] == row.m))]


def elsewhere(against: pd.DataFrame, others: pd.DataFrame, single: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Values that differ, of mixtures drawn anew and of single restarts.

    Parameters
    ----------
    against : pandas.DataFrame
        Published means beside ours.
    others : pandas.DataFrame
        Cells of other mixtures, at some of the grid's places.
    single : pandas.DataFrame
        Cells of the same mixtures with one restart, at some accuracies.

    Yields
    ------
    dict
        The compared value; mean and standard error over `n` other mixtures; `share` of draws of fifty of them
        with a mean at least as far on the published side; the mean of single restarts, missing at other p.
    """
    rng = np.random.default_rng(0)
    seen = set()
    for row in against[against["verdict"].isin(["above", "below"])].itertuples():
        p = row.p if row.m else None  # the tables repeat the baseline
        values = same_cells(others, row)[row.score].dropna().to_numpy()
        if not len(values) or (key := (row.score, row.n_clusters, p, row.m, row.model)) in seen:
            continue
        seen.add(key)
        means = rng.choice(values, (DRAWS, 50)).mean(axis=1)
        sign = np.sign(row.published - row.mean)
        yield {
            **row._asdict(),
            "p": p,
            "n": len(values),
            "elsewhere": values.mean(),
            "elsewhere_se": values.std(ddof=1) / np.sqrt(len(values)),
            "share": (sign * (means - row.published) >= 0).mean(),
            "single": same_cells(single, row)[row.score].mean(),
        }


def weaker(cells: pd.DataFrame, single: pd.DataFrame, group: str) -> Iterator[dict[str, Any]]:
    """What one restart costs: single restarts less the best of all, cell by cell.

    Parameters
    ----------
    cells, single : pandas.DataFrame
        The same cells with many restarts, and with one.
    group : str
        Column to tell groups by, beside the model.

    Yields
    ------
    dict
        `group`, `model`, the share of cells with a worse objective by more than 1e-6 nats, and the mean
        difference with its standard error of each score.
    """
    pairs = cells.merge(single, on=list(CELL), suffixes=("", "_single"))
    for (name, model), rows in pairs.groupby([group, "model"], sort=False):
        found: dict[str, Any] = {"group": name, "model": model}
        found["worse"] = (rows["objective_single"] < rows["objective"] - 1e-6).mean()
        for score in ("nmi", "goldberger_kl"):
            change = (rows[f"{score}_single"] - rows[score]).dropna()
            found[score] = f"{change.mean():+.4f} ± {change.sem():.4f}"
        yield found
