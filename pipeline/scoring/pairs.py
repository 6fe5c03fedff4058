"""Cells of two cubes in pairs, and the differences between their scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.scoring.catalogue import LABELS
from pipeline.scoring.tables import row_cell
from pipeline.scoring.units import kind_of, over_datasets, over_units, unit_of
from pipeline.scoring.variants import DESIGN, SEARCH, VARIANTS, values_of, with_variants
from sweeps.words import UNIFORM, is_model

PLACE = ("dataset", "mixture", "p", "m", "design", "replicate", "search", "model")
"""Coordinates of a cell: equal in both cubes, they make a pair."""
GROUP = ("dataset", "p", "m", *VARIANTS, "model")
COUNTED = ("n_cells", "n_missing", "n", "unit")
FOUND = ("mean_a", "mean_b", "difference", "se", "wins_b", "wins_a", "ties")
ONLY_A, ONLY_B, LEFT_A, LEFT_B = "only in A", "only in B", "not done in A", "not done in B"
TIE = 1e-6
"""Differences up to this come from rounding, or do not matter."""


def pair(
    a: pd.DataFrame, b: pd.DataFrame, scores: Sequence[str], searches: tuple[str, str] = ("", "")
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Match cells by their coordinates.

    Parameters
    ----------
    a, b : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    scores : sequence of str
        Columns to compare.
    searches : tuple of str
        What the only search of A, and that of B, is called in the other where that has several.

    Returns
    -------
    pairs, unpaired : pandas.DataFrame
        As in `Comparison`. A score that is not defined in either cube stays, with a missing difference.
    """
    wanted = [*PLACE, "status", *dict.fromkeys(scores)]
    # p is compared as seeds are: to nine decimals.
    tables = [with_variants(table)[wanted].assign(p=table["p"].round(9)) for table in (a, b)]
    added: list[list[str]] = [[], []]
    # a sweep that names no design drew its pairs uniformly
    for key, called in ((DESIGN, (UNIFORM, UNIFORM)), (SEARCH, searches)):
        named = [bool(values_of(table, key)) for table in tables]
        for one, name in enumerate(called):
            if named[1 - one]:
                added[one] += [] if named[one] else [key]
                tables[one] = _with_name(tables[one], key, name)
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
        str(row_cell(row.drop(added[0 if is_a else 1])))
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


def difference_table(pairs: pd.DataFrame, groups: Sequence[str] = GROUP) -> pd.DataFrame:
    """Paired differences by data set, accuracy, annotations, design, search and model.

    Parameters
    ----------
    pairs : pandas.DataFrame
        From `pair`.
    groups : sequence of str
        What pairs are told apart by, beside the score.

    Returns
    -------
    pandas.DataFrame
        `score`, `dataset`, `p`, `m`, `design`, `search`, `model`, `n_cells` (pairs with a difference),
        `n_missing` (not defined in one of the two), `n` and `unit` (mixtures, or redraws of the annotations;
        missing where nothing is drawn), `mean_a`, `mean_b`, `difference` (B minus A) and its `se`, all over
        units, each of them a mean over its cells first (`se` missing for n = 1), `wins_b`, `wins_a`, `ties`
        (shares of the pairs; B wins where it is better by more than `TIE`: less, for a divergence).
    """
    return _differences(_judged(pairs), ["score", *groups])


def total_table(pairs: pd.DataFrame) -> pd.DataFrame:
    """As `difference_table`, over all pairs of a score, design, search and model.

    Means are over data sets, in which each counts alike, of their means over units; the error is that of
    their draws, the data sets being given. `n` counts the units of all of them, and `n_datasets` these.
    """
    judged, keys = _judged(pairs), ["score", *VARIANTS, "model"]
    each = _differences(judged, [*keys, "dataset"])
    each = each[each["n_cells"] > 0]
    groups = each.groupby(keys, dropna=False, sort=False)
    whole = over_datasets(each.assign(mean=each["difference"]), keys)
    whole = whole.rename(columns={"mean": "difference", "n": "n_datasets"})
    means = groups[["mean_a", "mean_b"]].mean()
    counts = groups[["n_cells", "n_missing", "n"]].sum()
    units = groups["unit"].agg(lambda kinds: " and ".join(sorted(set(kinds.dropna()))) or np.nan)
    won = judged.groupby(keys, dropna=False, sort=False)[["wins_b", "wins_a", "ties"]].mean()
    # pairs without a difference in any data set have no row
    return whole.join([counts, means, units, won]).reset_index()[[*keys, "n_datasets", *COUNTED, *FOUND]]


def _with_name(table: pd.DataFrame, key: str, name: str) -> pd.DataFrame:
    """Cells without a design or search that would have had one, with its name."""
    alone = table["p"].isna()
    has_none = alone if key == DESIGN else alone & ~table["model"].map(is_model)
    return table.assign(**{key: table[key].mask(table[key].isna() & ~has_none, name)})


def _judged(pairs: pd.DataFrame) -> pd.DataFrame:
    """Pairs with what each of them says: which is better, or that one lacks the score."""
    # Of a score where neither direction is better, the larger value wins.
    sign = pairs["score"].map({name: label.better or 1 for name, label in LABELS.items()}).astype(float)
    known = pairs["difference"].notna()
    gain = (pairs["difference"] * sign).where(known)
    return with_variants(pairs).assign(
        missing=~known,
        mean_a=pairs["a"].where(known),
        mean_b=pairs["b"].where(known),
        wins_b=(gain > TIE).where(known).astype(float),
        wins_a=(gain < -TIE).where(known).astype(float),
        ties=(gain.abs() <= TIE).where(known).astype(float),
    )


def _differences(judged: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    groups = judged.groupby(keys, dropna=False, sort=False).ngroup().rename("group")
    means = over_units(judged[["mean_a", "mean_b", "difference"]], groups, unit_of(judged))
    of_pairs = judged.groupby(groups)
    heads = judged[keys].assign(unit=kind_of(judged)).set_axis(groups)[~groups.duplicated().to_numpy()]
    table = heads.assign(
        n_cells=of_pairs["difference"].count(),
        n_missing=of_pairs["missing"].sum(),
        n=means.n["difference"],
        se=means.se["difference"],
        **means.mean,
        **of_pairs[["wins_b", "wins_a", "ties"]].mean(),
    )
    return table.reset_index(drop=True)[[*keys, *COUNTED, *FOUND]]
