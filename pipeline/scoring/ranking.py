"""Ranks of models: one mean for each data set over the cells in common, ranks, and tests over data sets.

`rank` averages a score over the places that all models share, and orders the models by it, with ties on
each data set and tests over data sets; `by_accuracy` has the same means at each p. The tests are those of
Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7 (2006), with the pairwise
ones of Benavoli, Corani and Mangili, JMLR 17 (2016), which depend on the two models alone.

`ranks_by_kind` has mean ranks on all data sets, at each accuracy p and number of annotations m, and on each
kind of data; `rank_published` ranks the labels that others have published beside the models.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sweep_clustering.pipeline.scoring import tables
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING, STATUS_WORDS
from sweep_clustering.sweeps.plan import DatasetPlan

# Level of every test, a probability.
LEVEL = 0.05
# Scores that differ by no more are equal: the difference comes from the order of a sum.
ROUNDING = 1e-12
# A test needs so many: the p of signed ranks of fewer cannot fall below `LEVEL` (5 give 1/16 at least).
FEWEST_DATASETS = 6
# Friedman's test needs so many; for two models there is the test of signed ranks alone.
FEWEST_MODELS = 3
# Scores that models are compared by: 1 is the truth, and 0 a partition without any meaning.
RANKED = ("nmi", "adjusted_rand")
# Score of a cell without a solution: that of all samples in one cluster.
UNSOLVED = 0.0
# Paired standard errors up to which two models tie on a data set.
ERRORS = 2.0
# This stands for a data set in the rows of means over data sets.
MEAN = "mean of all"
PLACE = ["mixture", "p", "m", "replicate"]
COUNTS = {"done": DONE, "no_solution": NO_SOLUTION, "failed": FAILED, "pending": PENDING}
COLUMNS = ("dataset", "model", "mean", "se", "n", "unit", "n_places", *COUNTS)
PAIRS = ("a", "b", "wins_a", "ties", "wins_b", "difference", "p", "p_holm", "different")


@dataclass(frozen=True)
class Ranking:
    """Models in the order of their mean ranks by one score.

    A place is a mixture, p, m and replicate, and a model without annotations has the same value at every p, m
    and replicate. A cell without a solution has the score 0. A place where some model's cell failed, is
    pending or has no score is left out for all of them; a model without any result on a data set does not
    count there. A mean is over units that were drawn independently, each of them a mean over its places
    first.
    """

    # One of `RANKED`.
    score: str
    # A row for each data set with the score, and model: `COLUMNS`. `se` is missing for n = 1, and for a
    # baseline on a real data set, which nothing redraws; the last columns count cells by their state.
    values: pd.DataFrame
    # Values of each data set at every place in common: an index of `PLACE`, a column for each model.
    places: Mapping[str, pd.DataFrame]
    # Models without annotations, which have no p, m and replicate.
    baselines: frozenset[str]
    # Score and rank (1 is best) by model, and by data set on which every model has a score.
    means: pd.DataFrame
    ranks: pd.DataFrame
    # Whether a model has the best mean on a data set, or ties with the one that has; false for every model
    # where the data set is not ranked, or has no standard error.
    as_good: pd.DataFrame
    # A row for every two models, the one of the better mean rank as `a`: data sets on which each wins, and
    # `ties`, missing where no data set has a standard error of their difference; `difference`, mean over
    # data sets of a minus b; `p` of the signed-rank test, `p_holm` after Holm's correction over all pairs,
    # missing without a test; `different` if the tests say so.
    pairs: pd.DataFrame
    # Results of Friedman's test, missing without one.
    statistic: float
    p: float
    # Whether a cell of the sweep is pending, also on a data set without any score so far.
    is_partial: bool = False

    @property
    def label(self) -> str:
        """Return the short name of the score."""
        return LABELS[self.score].short

    @property
    def models(self) -> list[str]:
        """Return the models with a value on any data set, best mean rank first."""
        return list(self.means.columns)

    @property
    def datasets(self) -> list[str]:
        """Return the data sets that count: every model has a score on them."""
        return list(self.means.index)

    @property
    def unranked_datasets(self) -> list[str]:
        """Return the data sets with the score on which some model has none."""
        return [name for name in self.places if name not in self.means.index]

    @property
    def judged_datasets(self) -> list[str]:
        """Return the data sets that count and have standard errors."""
        return [name for name in self.datasets if self.as_good.loc[name].any()]

    @property
    def is_comparable(self) -> bool:
        """Whether there are two models or more."""
        return len(self.models) > 1

    @property
    def is_tested(self) -> bool:
        """Whether there were enough data sets for a test."""
        return len(self.datasets) >= FEWEST_DATASETS and self.is_comparable

    @property
    def is_decisive(self) -> bool:
        """Whether the tests could separate two models: the data sets are enough for so many models."""
        return self.is_tested and least_p(len(self.datasets), len(self.pairs)) < LEVEL

    @property
    def different_pairs(self) -> set[tuple[str, str]]:
        """Return the pairs of models that the tests separate, the better one first."""
        different = self.pairs.loc[self.pairs["different"], ["a", "b"]]
        return set(different.itertuples(index=False, name=None))

    @property
    def groups(self) -> list[tuple[int, int]]:
        """Return the groups of `equal_groups`; none without a test."""
        return equal_groups(self.models, self.different_pairs) if self.is_tested else []

    def table(self) -> pd.DataFrame:
        """Return one row per model, best first.

        Columns: `model`, `n_datasets` that count, `mean_rank`, `mean` over them, `wins`, `ties` and `losses`
        against all other models, `best` (data sets on which it is as good as the best), and counts of cells
        by state.
        """
        heads = {"mean_rank": self.ranks.mean(), "mean": self.means.mean()}
        table = pd.DataFrame({"n_datasets": len(self.datasets), **heads})
        duels = self.matrix().groupby(level="a").sum(min_count=1).reindex(self.models)
        best = self.as_good.loc[self.judged_datasets].astype("Int64").sum(min_count=1).rename("best")
        counts = self.values.groupby("model")[list(COUNTS)].sum()
        return table.join([duels, best, counts]).rename_axis("model").reset_index()

    def matrix(self) -> pd.DataFrame:
        """Return on how many data sets each model `wins`, `ties` and `losses` against each other, by `a`
        and `b`.
        """
        names = {"wins_a": "wins", "ties": "ties", "wins_b": "losses"}
        ahead = self.pairs[["a", "b", *names]].rename(columns=names)
        behind = ahead.rename(columns={"a": "b", "b": "a", "wins": "losses", "losses": "wins"})
        return pd.concat([ahead, behind]).set_index(["a", "b"])[["wins", "ties", "losses"]]


def rankings(cells: pd.DataFrame) -> tuple[Ranking, ...]:
    """Rank the models of a table from `pipeline.scoring.tables.cell_table` by each of `RANKED`."""
    return tuple(rank(cells, score) for score in RANKED)


def rank(cells: pd.DataFrame, score: str) -> Ranking:
    """Rank the models of a table from `pipeline.scoring.tables.cell_table` by one of `RANKED`.

    A rank needs every model on a data set: data sets on which one has no score do not count. A test needs
    `FEWEST_DATASETS`. Friedman's test comes first, for `FEWEST_MODELS` or more; if it does not find
    that the models differ, no pair does.
    """
    cells = cells.assign(value=solved_values(cells, score))
    baselines = list(cells["model"][cells["p"].isna()].unique())
    models = list(dict.fromkeys([*baselines, *cells["model"]]))
    places, frames = {}, [pd.DataFrame(columns=list(COLUMNS))]
    for name, rows in cells.groupby("dataset", sort=False):
        # a data set without true labels has no score
        if rows[score].notna().any():
            places[str(name)] = _places(rows)
            frames.append(_values(rows, places[str(name)], models, baselines))
    values = pd.concat(frames[1:] or frames, ignore_index=True)
    all_means = values.pivot(index="dataset", columns="model", values="mean").astype(float)
    all_means = all_means.reindex(index=list(places), columns=models).dropna(axis="columns", how="all")
    means = all_means.dropna()
    ranks = pd.DataFrame(best_first(means.to_numpy()), means.index, means.columns)
    order = list(ranks.mean().sort_values(kind="stable").index) if len(ranks) else list(means.columns)
    verdicts = {name: _verdicts(rows, baselines) for name, rows in places.items() if len(rows)}
    signs = [verdicts[name].loc[order, order].to_numpy() for name in means.index if order]
    is_tested = len(means) >= FEWEST_DATASETS and len(order) > 1
    statistic, p = (
        friedman(ranks.to_numpy()) if is_tested and len(order) >= FEWEST_MODELS else (np.nan, np.nan)
    )
    duels = []
    for i, j in combinations(range(len(order)), 2):
        a, b = order[i], order[j]
        differences = (means[a] - means[b]).to_numpy()
        pair_signs = [dataset_signs[i, j] for dataset_signs in signs]
        p_signed = signed_ranks(differences) if is_tested else np.nan
        mean = differences.mean() if len(differences) else np.nan
        is_judged = not np.isnan(pair_signs).all()
        counts = [pair_signs.count(sign) if is_judged else pd.NA for sign in (1, 0, -1)]
        duels.append((a, b, *counts, mean, p_signed))
    pairs = pd.DataFrame(duels, columns=list(PAIRS[:-2])).astype(dict.fromkeys(PAIRS[2:5], "Int64"))
    pairs["p_holm"] = holm(pairs["p"].to_numpy(dtype=float)) if is_tested else np.nan
    # if the first test does not find that the models differ, no pair does
    pairs["different"] = (pairs["p_holm"] < LEVEL) & (not p >= LEVEL)
    as_good = pd.DataFrame(False, all_means.index, all_means.columns)
    for name in means.index if order else ():
        first = means.loc[name].idxmax()
        beaten = verdicts[name].loc[first]
        if beaten.drop(first).notna().any():
            # without a verdict only equal means tie
            is_equal = means.loc[name, beaten.index] >= means.at[name, first] - ROUNDING
            as_good.loc[name, beaten.index] = is_equal | (beaten == 0)
    is_partial = bool((cells["status"] == STATUS_WORDS[PENDING]).any())
    tests = pairs, statistic, p
    return Ranking(
        score, values, places, frozenset(baselines), means[order], ranks[order], as_good, *tests, is_partial
    )


def n_lacking(ranking: Ranking, cells: pd.DataFrame) -> int:
    """Return at how many places of a ranking another model has no result, from a table of its cells.

    A model without annotations has a result at every p, m and replicate of a mixture, or at none.
    """
    rows = cells.assign(mixture=cells["mixture"].fillna(-1), value=solved_values(cells, ranking.score))
    keys = ["mixture"] if rows["p"].isna().all() else PLACE
    rows, count = rows.dropna(subset="value"), 0
    for name in ranking.datasets:
        places = ranking.places[name].index.to_frame(index=False)[keys]
        results = rows.loc[rows["dataset"] == name, keys].astype(places.dtypes)
        count += int(places.merge(results, how="left", indicator="where")["where"].eq("left_only").sum())
    return count


def solved_values(cells: pd.DataFrame, score: str) -> pd.Series:
    """Return the score of each cell that was computed to the end, `UNSOLVED` without a solution."""
    is_done, is_unsolved = (cells["status"] == STATUS_WORDS[code] for code in (DONE, NO_SOLUTION))
    return cells[score].where(is_done).mask(is_unsolved, UNSOLVED).astype(float)


def by_accuracy(ranking: Ranking) -> pd.DataFrame:
    """Return the mean score of each data set and model at every accuracy p, and then over the ranked data
    sets.

    Columns are `dataset` (`MEAN` for the mean of all), `p`, `model`, `mean`, `se` and `n` as in `values`,
    over the places of that p, at which a model without annotations is compared. The error of the mean of all
    is that of its draws, for these data sets; a part without an error adds nothing.
    """
    columns = ["dataset", "p", "model", "mean", "se", "n"]
    frames = [
        _means(rows, ranking.baselines).rename_axis("model").reset_index().assign(dataset=dataset, p=p)
        for dataset, places in ranking.places.items()
        for p, rows in places.groupby(level="p")
    ]
    if not frames:
        return pd.DataFrame(columns=columns)
    table = pd.concat(frames, ignore_index=True)
    ranked_rows = table[table["dataset"].isin(ranking.datasets)]
    means = tables.over_datasets(ranked_rows, ["p", "model"]).reset_index().assign(dataset=MEAN)
    return pd.concat([table, means], ignore_index=True)[columns]


def _places(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the values of the models that have any, at the places where all of these models do."""
    keyed = rows.assign(mixture=rows["mixture"].fillna(-1).astype(int))
    annotated_rows = keyed[keyed["p"].notna()]
    baselines = keyed[keyed["p"].isna()].pivot(index="mixture", columns="model", values="value")
    if not annotated_rows.empty:
        return tables.complete_places(annotated_rows, PLACE, "model", baselines).rename_axis(columns=None)
    wide = baselines.assign(p=np.nan, m=-1, replicate=-1).set_index(PLACE[1:], append=True)
    return wide.dropna(axis="columns", how="all").dropna(axis="index").rename_axis(columns=None)


def _means(places: pd.DataFrame, baselines: Collection[str]) -> pd.DataFrame:
    """Return mean and standard error over units by model; models that nothing draws again have no error."""
    units = tables.by_unit(places)
    table = pd.DataFrame({"mean": units.mean(), "se": units.sem(), "n": len(units)})
    if tables.unit_level(places.index) == "replicate":
        table.loc[table.index.isin(list(baselines)), "se"] = np.nan
    return table


def _values(
    rows: pd.DataFrame, places: pd.DataFrame, models: list[str], baselines: Collection[str]
) -> pd.DataFrame:
    table = _means(places, baselines).reindex(models)
    table["n"] = table["n"].where(table["mean"].notna(), 0).astype(int)
    table["unit"] = tables.NAMES["mixture" if rows["mixture"].notna().any() else "replicate"]
    table["n_places"] = np.where(table["n"] > 0, len(places), 0)
    names = {STATUS_WORDS[code]: name for name, code in COUNTS.items()}
    states = pd.crosstab(rows["model"], rows["status"]).reindex(models, columns=list(names), fill_value=0)
    table = table.join(states.rename(columns=names)).assign(dataset=rows["dataset"].iloc[0])
    return table.rename_axis("model").reset_index()[list(COLUMNS)]


def _verdicts(places: pd.DataFrame, baselines: Collection[str]) -> pd.DataFrame:
    """Return 1 where the model of the row wins on a data set, -1 where that of the column does, 0 for a
    tie.

    A tie is a difference within `ERRORS` standard errors of the mean over units, paired. Without a standard
    error, for one unit or two models that nothing draws again, there is no verdict.
    """
    units, models = tables.by_unit(places).to_numpy(), places.columns
    differences = units[:, :, None] - units[:, None, :]
    mean = differences.mean(axis=0)
    error = differences.std(axis=0, ddof=1) / np.sqrt(len(units)) if len(units) > 1 else np.nan
    verdicts = np.where(np.abs(mean) <= np.maximum(ROUNDING, ERRORS * error), 0.0, np.sign(mean))
    is_fixed = models.isin(list(baselines)) & (tables.unit_level(places.index) == "replicate")
    verdicts[is_fixed[:, None] & is_fixed | np.isnan(error)] = np.nan
    return pd.DataFrame(verdicts, models, models)


def best_first(values: np.ndarray) -> np.ndarray:
    """Rank the models (columns) on each data set (rows): 1 is the largest value, and equal values share
    the mean of their ranks.
    """
    levels = np.empty(values.shape)
    for row, level in zip(values, levels, strict=True):
        order = np.argsort(-row)
        steps = np.concatenate([[0], np.cumsum(-np.diff(row[order]) > ROUNDING)])
        level[order] = pd.Series(steps[: len(row)]).rank()
    return levels


def friedman(ranks: np.ndarray) -> tuple[float, float]:
    """Return statistic and p of Friedman's test that all models (columns) rank alike, corrected for ties."""
    if (ranks == ranks[:, :1]).all():
        return 0.0, 1.0
    from scipy.stats import friedmanchisquare  # slow to load, and few data sets have no test

    result = friedmanchisquare(*ranks.T)
    return float(result.statistic), float(result.pvalue)


def signed_ranks(differences: np.ndarray) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test, exact with ties too; differences of 0 do not
    count.

    Given the sizes of the differences, every combination of signs is equally likely if the models are
    alike. Sums of twice the ranks are whole numbers, so their distribution is a convolution.
    """
    nonzero = differences[np.abs(differences) > ROUNDING]
    if not len(nonzero):
        return 1.0
    sizes = np.abs(nonzero)
    double_ranks = np.rint(2 * (len(nonzero) + 1 - best_first(sizes[None])[0])).astype(np.int64)
    chances = np.ones(1)
    for rank in double_ranks:
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    positive = int(double_ranks[nonzero > 0].sum())
    tail = min(positive, int(double_ranks.sum()) - positive)
    return min(1.0, 2 * float(chances[: tail + 1].sum()))


def holm(p: np.ndarray) -> np.ndarray:
    """Adjust the p of several tests by Holm's method: the chance that any test below a level is false is
    below it.
    """
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def least_p(n_datasets: int, n_tests: int) -> float:
    """Return the least adjusted p: that of one model better on all data sets."""
    return min(1.0, n_tests * 2.0 ** (1 - n_datasets))


def equal_groups(models: Sequence[str], different: set[tuple[str, str]]) -> list[tuple[int, int]]:
    """Return the first and last model of the longest runs of neighbours of which no two differ.

    Models are in the order of their mean ranks. A run has two models or more, and none lies within another.
    """
    places = range(len(models))
    runs = [
        (first, last)
        for first, last in combinations(places, 2)
        if different.isdisjoint(combinations(models[first : last + 1], 2))
    ]
    return [run for run in runs if not any(a <= run[0] and run[1] <= b for a, b in runs if (a, b) != run)]


# Data sets of the clustering benchmark suite: its batteries are kinds of data.
SUITE_NAME = re.compile(r"suite[/.-](?P<battery>[^/.-]+)[/.-](?P<name>.+)")
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
ALL_DATA = "all"
KIND_COLUMNS = ("what", "kind", "n_datasets", "model", "mean_rank", "mean", "best")

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
        battery = suite[0] if suite else TABLES if plan.mixtures is None else tables.MIXTURES
        sizes = (plan.n_samples, plan.n_features, plan.n_clusters)
        rows[name] = (battery, *sizes, _imbalance(tree[name].to_dataset()))
    return pd.DataFrame.from_dict(rows, "index", columns=[BATTERY, "N", "D", "K", "imbalance"])


def _imbalance(node: xr.Dataset) -> float:
    """Return the size of the largest class over that of the smallest, over all mixtures, if it is known."""
    if "labels_true" not in node:
        return np.nan
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
    ranking: Ranking, dataset_facts: pd.DataFrame, m_texts: Mapping[tuple[str, int], str]
) -> pd.DataFrame:
    """Return mean ranks and scores on all data sets, at each p and at each m alone, and on each kind of data.

    Columns are `KIND_COLUMNS`: the property, the kind, its number of ranked data sets, the model, its mean
    rank and score over them, and on how many of them it has the best mean. Values of m that are written
    alike are the same.
    """
    parts = [(ALL_DATA, ALL_DATA, ranking.means)]
    parts += [("accuracy", f"p = {p:g}", means) for p, means in _means_along(ranking, lambda name, p, m: p)]
    by_m = _means_along(ranking, lambda name, p, m: m_texts.get((name, m), str(m)))
    parts += [("annotations", f"m = {m}", means) for m, means in by_m]
    ranked_facts = dataset_facts.loc[ranking.datasets]
    parts += [(title, kind, ranking.means.loc[names]) for title, kind, names in kinds(ranked_facts)]
    frames = [_rows_of_kind(*part) for part in parts if len(part[2])]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(KIND_COLUMNS))


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
        # in the order of the places, where 1N comes before 1.5N
        for value, rows in places.groupby(np.array(values, dtype=object), sort=False):
            means.setdefault(value, {})[name] = tables.by_unit(rows).mean()[ranking.models]
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
