"""Cells of two cubes in pairs, and the differences between their scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.scoring.catalogue import LABELS
from pipeline.scoring.designs import designs_of, with_design
from pipeline.scoring.tables import row_cell
from sweeps.designs import UNIFORM

PLACE = ("dataset", "mixture", "p", "m", "design", "replicate", "model")
"""Coordinates of a cell: equal in both cubes, they make a pair."""
GROUP = ("dataset", "p", "m", "design", "model")
ONLY_A, ONLY_B, LEFT_A, LEFT_B = "only in A", "only in B", "not done in A", "not done in B"
TIE = 1e-6
"""Differences up to this come from rounding, or do not matter."""


def pair(a: pd.DataFrame, b: pd.DataFrame, scores: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Match cells by their coordinates.

    Parameters
    ----------
    a, b : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    scores : sequence of str
        Columns to compare.

    Returns
    -------
    pairs, unpaired : pandas.DataFrame
        As in `Comparison`. A score that is not defined in either cube stays, with a missing difference.
    """
    wanted = [*PLACE, "status", *dict.fromkeys(scores)]
    # p is compared as seeds are: to nine decimals.
    tables = [with_design(table)[wanted].assign(p=table["p"].round(9)) for table in (a, b)]
    named = [bool(designs_of(table)) for table in tables]
    if any(named):
        # a sweep that names no design drew its pairs uniformly
        tables = [table.assign(design=_named_design(table)) for table in tables]
    both = tables[0].merge(tables[1], on=list(PLACE), how="outer", suffixes=("_a", "_b"), sort=False)
    why = np.select(
        [
            both["status_b"].isna(),
            both["status_a"].isna(),
            both["status_a"] != "done",
            both["status_b"] != "done",
        ],
        [ONLY_A, ONLY_B, LEFT_A, LEFT_B],
        default="",
    )
    rest = both[why != ""]
    of_a = why[why != ""] == ONLY_A
    names = [
        str(row_cell(row if named[0 if is_a else 1] or not any(named) else row.drop("design")))
        for (_, row), is_a in zip(rest.iterrows(), of_a, strict=True)
    ]
    unpaired = pd.DataFrame({"cell": names, "why": why[why != ""]}, dtype=object)
    done = both[why == ""]
    frames = []
    for score in dict.fromkeys(scores):
        values = done[list(PLACE)].assign(score=score)
        for side in ("a", "b"):
            values[side] = done[f"{score}_{side}"].astype(float)
        frames.append(values.assign(difference=values["b"] - values["a"]))
    return pd.concat(frames, ignore_index=True), unpaired


def difference_table(pairs: pd.DataFrame) -> pd.DataFrame:
    """Paired differences by data set, accuracy, annotations, design and model.

    Parameters
    ----------
    pairs : pandas.DataFrame
        From `pair`.

    Returns
    -------
    pandas.DataFrame
        `score`, `dataset`, `p`, `m`, `design`, `model`, `n` (pairs with a difference), `n_missing` (not
        defined in one of the two), `mean_a`, `mean_b`, `difference` (mean of B minus A), `se` (missing for
        n = 1), `wins_b`, `wins_a`, `ties` (shares of n; B wins where it is better by more than `TIE`: less,
        for a divergence).
    """
    return _differences(pairs, ["score", *GROUP])


def total_table(pairs: pd.DataFrame) -> pd.DataFrame:
    """As `difference_table`, over all pairs of a score, design and model."""
    return _differences(pairs, ["score", "design", "model"])


def _named_design(table: pd.DataFrame) -> pd.Series:
    return table["design"].mask(table["design"].isna() & table["p"].notna(), UNIFORM)


def _differences(pairs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    # Of a score where neither direction is better, the larger value wins.
    sign = pairs["score"].map({name: label.better or 1 for name, label in LABELS.items()})
    known = pairs["difference"].notna()
    gain = (pairs["difference"] * sign).where(known)
    marked = with_design(pairs).assign(
        missing=~known,
        a=pairs["a"].where(known),
        b=pairs["b"].where(known),
        won=(gain > TIE).where(known).astype(float),
        lost=(gain < -TIE).where(known).astype(float),
        tied=(gain.abs() <= TIE).where(known).astype(float),
    )
    groups = marked.groupby(keys, dropna=False, sort=False)
    table = groups.agg(
        n=("difference", "count"),
        n_missing=("missing", "sum"),
        mean_a=("a", "mean"),
        mean_b=("b", "mean"),
        difference=("difference", "mean"),
        se=("difference", "sem"),
        wins_b=("won", "mean"),
        wins_a=("lost", "mean"),
        ties=("tied", "mean"),
    )
    return table.reset_index()
