"""Mean ranks of models on kinds of data sets, and published labels ranked among the models of a cube.

`ranks_by_kind` has mean ranks on all data sets, at each accuracy p and number of annotations m, and on each
kind of data; `rank_published` ranks the labels that others have published beside the models.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sweep_clustering.pipeline.scoring.ranking import RANKED, Ranking, best_first, rank
from sweep_clustering.pipeline.scoring.tables import by_unit
from sweep_clustering.storage.cube.schema import DONE, STATUS_WORDS
from sweep_clustering.sweeps.plan import DatasetPlan

# Data sets of the clustering benchmark suite: its batteries are kinds of data.
SUITE_NAME = re.compile(r"suite[/.-](?P<battery>[^/.-]+)[/.-](?P<name>.+)")
MIXTURES = "mixtures"
TABLES = "other tables"

# By column of `facts`: what it counts, and the largest value of each kind but the last. There are few kinds,
# so that each has enough data sets for a mean. Imbalance is the size of the largest class over that of the
# smallest.
BOUNDS = {
    "D": ("features", (2, 9)),
    "K": ("classes", (2, 5)),
    "N": ("samples", (499, 1999)),
    "imbalance": ("largest by smallest class", (1.5, 5)),
}
BATTERY = "battery"
ALL = "all"
COLUMNS = ("what", "kind", "n_datasets", "model", "mean_rank", "mean", "best")

# Settings that follow the name of a published method, such as `_T0.05_BF10` and `_Arbf_G5`.
SETTINGS = re.compile(r"(?:_[A-Z]+[a-z]*[\d.]*)+")
# Number of published methods that are ranked, the best by mean.
MOST_PUBLISHED = 15
# This follows the name of a published method.
STAR = "*"


def suite_name(name: str) -> tuple[str, str] | None:
    """Return battery and name of a data set of the benchmark suite, None for any other."""
    match = SUITE_NAME.fullmatch(name)
    return (match["battery"], match["name"]) if match else None


def facts(plans: Mapping[str, DatasetPlan], tree: xr.DataTree) -> pd.DataFrame:
    """Return `battery`, `N`, `D`, `K` and `imbalance` of each data set; without true labels the last is
    missing.
    """
    rows = {}
    for name, plan in plans.items():
        suite = suite_name(name)
        battery = suite[0] if suite else TABLES if plan.mixtures is None else MIXTURES
        sizes = (plan.n_samples, plan.n_features, plan.n_clusters)
        rows[name] = (battery, *sizes, _imbalance(tree[name].to_dataset()) if plan.has_labels else np.nan)
    return pd.DataFrame.from_dict(rows, "index", columns=[BATTERY, "N", "D", "K", "imbalance"])


def _imbalance(node: xr.Dataset) -> float:
    """Return the size of the largest class over that of the smallest, over all mixtures."""
    counts = np.unique(node["labels_true"].to_numpy(), return_counts=True)[1]
    return float(counts.max() / counts.min())


def kinds(dataset_facts: pd.DataFrame) -> Iterator[tuple[str, str, list[str]]]:
    """Yield a property with several kinds, such as "features", each kind, such as "D > 9", and its data
    sets.
    """
    columns = {BATTERY: dataset_facts[BATTERY]}
    for key, (title, bounds) in BOUNDS.items():
        edges = [-np.inf, *bounds, np.inf]
        names = [f"{key} ≤ {bounds[0]}", f"{bounds[0]} < {key} ≤ {bounds[1]}", f"{key} > {bounds[1]}"]
        columns[title] = pd.cut(dataset_facts[key], edges, labels=names)
    for title, column in columns.items():
        groups = [(str(kind), list(rows.index)) for kind, rows in column.groupby(column, observed=True)]
        if len(groups) > 1:
            yield from ((title, kind, names) for kind, names in groups)


def ranks_by_kind(
    ranking: Ranking, dataset_facts: pd.DataFrame, written: Mapping[tuple[str, int], str]
) -> pd.DataFrame:
    """Return mean ranks and scores on all data sets, at each p and at each m alone, and on each kind of data.

    Columns are `COLUMNS`: the property, the kind, its number of ranked data sets, the model, its mean rank
    and score over them, and on how many of them it has the best mean. Values of m that are written alike are
    the same.
    """
    parts = [(ALL, ALL, ranking.means)]
    parts += [("accuracy", f"p = {p:g}", means) for p, means in _means_along(ranking, lambda name, p, m: p)]
    by_m = _means_along(ranking, lambda name, p, m: written.get((name, m), str(m)))
    parts += [("annotations", f"m = {m}", means) for m, means in by_m]
    ranked = dataset_facts.loc[ranking.datasets]
    parts += [(title, kind, ranking.means.loc[names]) for title, kind, names in kinds(ranked)]
    frames = [_rows_of_kind(*part) for part in parts if len(part[2])]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COLUMNS))


def _rows_of_kind(title: str, kind: str, means: pd.DataFrame) -> pd.DataFrame:
    ranks = best_first(means.to_numpy())
    best = (ranks == ranks.min(axis=1, keepdims=True)).sum(axis=0)
    numbers = {"mean_rank": ranks.mean(axis=0), "mean": means.mean().to_numpy(), "best": best}
    head = {"what": title, "kind": kind, "n_datasets": len(means), "model": means.columns}
    return pd.DataFrame(head | numbers)


def _means_along(ranking: Ranking, key: Callable[[str, float, int], Any]) -> list[tuple[Any, pd.DataFrame]]:
    """Return scores by data set and model over the places of each value of a key, if it has several
    values.
    """
    means: dict[Any, dict[str, pd.Series]] = {}
    for name in ranking.datasets:
        places = ranking.places[name]
        levels = map(places.index.get_level_values, ("p", "m"))
        values = [key(name, p, m) for p, m in zip(*levels, strict=True)]
        for value, rows in places.groupby(np.array(values, dtype=object)):
            means.setdefault(value, {})[name] = by_unit(rows).mean()[ranking.models]
    # the p of models without annotations is NaN, which is no value
    groups = [(value, pd.DataFrame(rows).T) for value, rows in means.items() if value == value]
    return groups if len(groups) > 1 else []


@dataclass(frozen=True)
class PublishedRanking:
    """Models of a cube and published labels, ranked together."""

    # The ranking by ARI over the data sets that both have.
    ranking: Ranking
    # Published scores of the data sets of the cube: `dataset`, `method`, `ari`.
    scores: pd.DataFrame
    # A row for each published method, best mean first: `method`, `family`, `n_datasets`, `mean`, and whether
    # it is `ranked`.
    methods: pd.DataFrame


def rank_published(cells: pd.DataFrame, published: pd.DataFrame) -> PublishedRanking:
    """Rank published labels, read by `read_published`, among the models of a table of cells, by ARI.

    Published labels have one score on each data set, as a model without annotations has. The setting of a
    method with the best mean is ranked, so it is chosen with hindsight, which the models are not. A
    method counts if it has a score on every data set that any method has, so that all have the same ones.
    """
    names = {suite: name for name in cells["dataset"].unique() if (suite := suite_name(str(name)))}
    suites = zip(published["battery"], published["name"], strict=True)
    scores = published.assign(dataset=[names.get(suite) for suite in suites]).dropna(subset="dataset")
    scores = scores[["dataset", "method", "ari"]]
    methods = scores.groupby("method").agg(n_datasets=("ari", "size"), mean=("ari", "mean")).reset_index()
    methods = methods.sort_values("mean", ascending=False, kind="stable", ignore_index=True)
    methods.insert(1, "family", [SETTINGS.sub("", method) for method in methods["method"]])
    complete = methods[methods["n_datasets"] == scores["dataset"].nunique()]
    best = complete.drop_duplicates("family").head(MOST_PUBLISHED)["method"]
    methods["ranked"] = methods["method"].isin(best)
    rows = scores[scores["method"].isin(best)].rename(columns={"method": "model", "ari": RANKED[1]})
    rows = rows.assign(model=rows["model"] + STAR, status=STATUS_WORDS[DONE])
    models = cells[cells["dataset"].isin(scores["dataset"])]
    return PublishedRanking(rank(pd.concat([models, rows], ignore_index=True), RANKED[1]), scores, methods)
