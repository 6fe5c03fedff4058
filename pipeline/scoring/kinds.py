"""Kinds of data sets and of places, and how models rank on each of them.

`facts` says what a cube knows of its data sets, `kinds` which of them are alike in something, and
`ranks_by_kind` has mean ranks on all of them, at each accuracy p and number of annotations m, and on each
kind.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sweep_clustering.pipeline.scoring.ranking import Ranking, best_first
from sweep_clustering.pipeline.scoring.tables import by_unit
from sweep_clustering.sweeps.plan import DatasetPlan

# Data sets of the clustering benchmark suite: its batteries are kinds of data.
OF_SUITE = re.compile(r"suite[/.-](?P<battery>[^/.-]+)[/.-](?P<name>.+)")
MIXTURES, TABLES = "mixtures", "other tables"

# What data sets differ in, and up to which value they are of each kind but the last: a few kinds with data
# sets enough for a mean. Imbalance is the size of the largest class over that of the smallest.
BOUNDS = {
    "D": ("features", (2, 9)),
    "K": ("classes", (2, 5)),
    "N": ("samples", (499, 1999)),
    "imbalance": ("largest by smallest class", (1.5, 5)),
}
BATTERY, ALL = "battery", "all"
COLUMNS = ("what", "kind", "n_datasets", "model", "mean_rank", "mean", "best")


def suite_name(name: str) -> tuple[str, str] | None:
    """Battery and name within it of a data set of the benchmark suite; None of any other."""
    found = OF_SUITE.fullmatch(name)
    return (found["battery"], found["name"]) if found else None


def facts(plans: Mapping[str, DatasetPlan], tree: xr.DataTree) -> pd.DataFrame:
    """What a cube knows of its data sets.

    Parameters
    ----------
    plans : mapping of str to DatasetPlan
        Grid of each data set.
    tree : xarray.DataTree
        The cube, opened; read for sizes of classes.

    Returns
    -------
    pandas.DataFrame
        By data set: `battery`, `N`, `D`, `K`, and `imbalance`, missing without true labels.
    """
    rows = {}
    for name, plan in plans.items():
        suite = suite_name(name)
        battery = suite[0] if suite else TABLES if plan.mixtures is None else MIXTURES
        sizes = (plan.n_samples, plan.n_features, plan.n_clusters)
        rows[name] = (battery, *sizes, _imbalance(tree[name].to_dataset()) if plan.has_labels else np.nan)
    return pd.DataFrame.from_dict(rows, "index", columns=[BATTERY, "N", "D", "K", "imbalance"])


def _imbalance(node: xr.Dataset) -> float:
    """Largest class over the smallest, of all mixtures together."""
    counts = np.unique(node["labels_true"].to_numpy(), return_counts=True)[1]
    return float(counts.max() / counts.min())


def kinds(known: pd.DataFrame) -> Iterator[tuple[str, str, list[str]]]:
    """Data sets that are alike in something, where there are several kinds of it.

    Parameters
    ----------
    known : pandas.DataFrame
        From `facts`.

    Yields
    ------
    what, kind : str
        Such as "features" and "D > 9".
    names : list of str
        Of the data sets.
    """
    columns = {BATTERY: known[BATTERY]}
    for key, (what, bounds) in BOUNDS.items():
        low = [-np.inf, *bounds]
        names = [f"{key} ≤ {bounds[0]}", f"{bounds[0]} < {key} ≤ {bounds[1]}", f"{key} > {bounds[1]}"]
        columns[what] = pd.cut(known[key], [*low, np.inf], labels=names)
    for what, column in columns.items():
        groups = [(str(kind), list(rows.index)) for kind, rows in column.groupby(column, observed=True)]
        if len(groups) > 1:
            yield from ((what, kind, names) for kind, names in groups)


def ranks_by_kind(
    ranking: Ranking, known: pd.DataFrame, written: Mapping[tuple[str, int], str]
) -> pd.DataFrame:
    """Mean ranks and scores on all data sets, at each p and at each m alone, and on each kind of data.

    Parameters
    ----------
    ranking : Ranking
        Of one score.
    known : pandas.DataFrame
        From `facts`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`: m is the same where it is written alike.

    Returns
    -------
    pandas.DataFrame
        `COLUMNS`: what is alike, the kind, its ranked data sets, model, mean rank and mean score over
        them, and on how many of them it has the best mean of all.
    """
    parts = [(ALL, ALL, ranking.means)]
    parts += [("accuracy", f"p = {p:g}", means) for p, means in _along(ranking, lambda name, p, m: p)]
    by_m = _along(ranking, lambda name, p, m: written.get((name, m), str(m)))
    parts += [("annotations", f"m = {m}", means) for m, means in by_m]
    ranked = known.loc[ranking.datasets]
    parts += [(what, kind, ranking.means.loc[names]) for what, kind, names in kinds(ranked)]
    frames = [_of_part(*part) for part in parts if len(part[2])]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COLUMNS))


def _of_part(what: str, kind: str, means: pd.DataFrame) -> pd.DataFrame:
    """Rows of one kind, of scores by data set and model."""
    ranks = best_first(means.to_numpy())
    best = (ranks == ranks.min(axis=1, keepdims=True)).sum(axis=0)
    numbers = {"mean_rank": ranks.mean(axis=0), "mean": means.mean().to_numpy(), "best": best}
    head = {"what": what, "kind": kind, "n_datasets": len(means), "model": means.columns}
    return pd.DataFrame(head | numbers)


def _along(ranking: Ranking, key: Callable[[str, float, int], Any]) -> list[tuple[Any, pd.DataFrame]]:
    """Scores by data set and model over places that are alike in something, where there are several kinds."""
    found: dict[Any, dict[str, pd.Series]] = {}
    for name in ranking.datasets:
        places = ranking.places[name]
        at = [key(name, p, m) for p, m in zip(*map(places.index.get_level_values, ("p", "m")), strict=True)]
        for value, rows in places.groupby(np.array(at, dtype=object)):
            found.setdefault(value, {})[name] = by_unit(rows).mean()[ranking.models]
    known = {
        value: rows for value, rows in found.items() if value == value
    }  # no p of models without annotations
    return [(value, pd.DataFrame(rows).T) for value, rows in known.items()] if len(known) > 1 else []
