"""Which model wins: ranks over data sets, what a test says of them, and each model against each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.scoring.units import by_unit
from pipeline.scoring.winners.common import RANKED, Common, common_scores
from pipeline.scoring.winners.significance import (
    FEWEST_DATASETS,
    FEWEST_MODELS,
    LEVEL,
    ROUNDING,
    alike,
    best_first,
    friedman,
    holm,
    least_p,
    signed_ranks,
)

ERRORS = 2.0
"""Paired standard errors up to which two models tie on a data set."""
PAIRS = ("a", "b", "wins_a", "ties", "wins_b", "difference", "p", "p_holm", "different")


@dataclass(frozen=True)
class Ranking:
    """Models in the order of their mean ranks.

    Parameters
    ----------
    common : Common
        What they are ranked by.
    means, ranks : pandas.DataFrame
        Score and rank (1 is best) by data set, of those on which every model has a score, and model.
    as_good : pandas.DataFrame of bool
        Of all data sets and models: whether the model has the best mean there, or ties with it.
    pairs : pandas.DataFrame
        A row for every two models, the one of the better mean rank as `a`: data sets on which each wins, and
        `ties`; `difference`, mean over data sets of a minus b; `p` of the signed-rank test, `p_holm` after
        Holm's correction over all pairs, missing without a test; `different` if the tests say so.
    statistic, p : float
        Of Friedman's test; missing where there was none.
    groups : list of (int, int)
        From `pipeline.scoring.winners.significance.alike`; empty without a test.
    """

    common: Common
    means: pd.DataFrame
    ranks: pd.DataFrame
    as_good: pd.DataFrame
    pairs: pd.DataFrame
    statistic: float
    p: float
    groups: list[tuple[int, int]]

    @property
    def score(self) -> str:
        """What the models are ranked by."""
        return self.common.score

    @property
    def models(self) -> list[str]:
        """Best mean rank first."""
        return list(self.means.columns)

    @property
    def datasets(self) -> list[str]:
        """Those that count: every model has a score on them."""
        return list(self.means.index)

    @property
    def left_out(self) -> list[str]:
        """Data sets with the score, on which some model has none."""
        return [name for name in self.common.datasets if name not in self.datasets]

    @property
    def mean_ranks(self) -> pd.Series:
        """By model, best first."""
        return self.ranks.mean()

    @property
    def tested(self) -> bool:
        """Whether there were data sets enough for a test."""
        return len(self.datasets) >= FEWEST_DATASETS and len(self.models) > 1

    @property
    def differ(self) -> bool:
        """Whether the first test says that the models are not all alike."""
        return self.tested and (len(self.models) < FEWEST_MODELS or self.p < LEVEL)

    @property
    def decisive(self) -> bool:
        """Whether a pair could be told apart at all: whether the data sets are enough for so many models."""
        return self.tested and least_p(len(self.datasets), len(self.pairs)) < LEVEL

    def table(self) -> pd.DataFrame:
        """One row per model, best first.

        Returns
        -------
        pandas.DataFrame
            `score`, `model`, `n_datasets` that count, `mean_rank`, `mean` of the score over them, `wins`,
            `ties` and `losses` against all other models, `best` (data sets on which it is best or ties with
            the best), and the number of cells `done`, with `no_solution`, `failed` and `pending`.
        """
        counted = self.common.values.groupby("model")[["done", "no_solution", "failed", "pending"]].sum()
        duels = self.matrix().groupby(level="a").sum().reindex(self.models)
        return pd.DataFrame(
            {
                "score": self.score,
                "model": self.models,
                "n_datasets": len(self.datasets),
                "mean_rank": self.mean_ranks.to_numpy(),
                "mean": self.means.mean().to_numpy(),
                **{
                    name: duels[name].groupby(level="a").sum().reindex(self.models).to_numpy()
                    for name in duels
                },
                "best": self.as_good.loc[self.datasets, self.models].sum().to_numpy(),
                **{name: counted[name].reindex(self.models).to_numpy() for name in counted},
            }
        )

    def matrix(self) -> pd.DataFrame:
        """Data sets that each model `wins`, `ties` and `losses` against each other, by `a` and `b`."""
        names = {"wins_a": "wins", "ties": "ties", "wins_b": "losses"}
        ahead = self.pairs[["a", "b", *names]].rename(columns=names)
        behind = ahead.rename(columns={"a": "b", "b": "a", "wins": "losses", "losses": "wins"})
        return pd.concat([ahead, behind]).set_index(["a", "b"])[["wins", "ties", "losses"]]


def rankings(cells: pd.DataFrame) -> tuple[Ranking, ...]:
    """Rank the models of a table from `pipeline.scoring.tables.cell_table` by each of `RANKED`."""
    return tuple(rank(common_scores(cells, score)) for score in RANKED)


def rank(common: Common) -> Ranking:
    """Rank the models of a cube by one score.

    A rank needs every model on a data set: data sets on which one has no score do not count. A test needs
    `FEWEST_DATASETS`. Friedman's test comes first, where there are `FEWEST_MODELS`; if it does not find that
    the models differ, no pair does.

    Parameters
    ----------
    common : Common
        From `pipeline.scoring.winners.common.common_scores`.
    """
    every = common.wide("mean").astype(float)
    means = every.dropna()
    ranks = pd.DataFrame(best_first(means.to_numpy()), means.index, means.columns)
    order = ranks.mean().sort_values(kind="stable").index if len(ranks) else means.columns
    means, ranks = means[order], ranks[order]
    tested = len(means) >= FEWEST_DATASETS and len(order) > 1
    statistic, p = np.nan, np.nan
    if tested and len(order) >= FEWEST_MODELS:
        statistic, p = friedman(ranks.to_numpy())
    verdicts = {name: _verdicts(common, name, list(order)) for name in means.index}
    pairs = _pairs(means, verdicts, tested, may_differ=not p >= LEVEL)
    groups = alike(_different(pairs, list(order))) if tested else []
    return Ranking(common, means, ranks, _as_good(common, every), pairs, statistic, p, groups)


def _verdicts(common: Common, dataset: str, models: list[str]) -> np.ndarray:
    """1 where the model of the row wins on a data set, -1 where that of the column does, 0 for a tie.

    A tie is a difference within `ERRORS` standard errors of the mean over units, paired. Where there is one
    unit alone, or nothing was redrawn, only equal scores tie.
    """
    units = by_unit(common.places[dataset])[models].to_numpy()
    differences = units[:, :, None] - units[:, None, :]
    mean = differences.mean(axis=0)
    error = differences.std(axis=0, ddof=1) / np.sqrt(len(units)) if len(units) > 1 else 0.0
    return np.asarray(np.where(np.abs(mean) <= np.maximum(ROUNDING, ERRORS * error), 0, np.sign(mean)))


def _pairs(
    means: pd.DataFrame, verdicts: dict[str, np.ndarray], tested: bool, *, may_differ: bool
) -> pd.DataFrame:
    models = list(means.columns)
    stacked = np.array(list(verdicts.values())).reshape(len(verdicts), len(models), len(models))
    rows = []
    for i, a in enumerate(models):
        for j in range(i + 1, len(models)):
            found, b = stacked[:, i, j], models[j]
            differences = (means[a] - means[b]).to_numpy()
            p = signed_ranks(differences) if tested else np.nan
            counts = [int((found == sign).sum()) for sign in (1, 0, -1)]
            rows.append((a, b, *counts, differences.mean() if len(found) else np.nan, p))
    table = pd.DataFrame(rows, columns=list(PAIRS[:-2]))
    table["p_holm"] = holm(table["p"].to_numpy(dtype=float)) if tested else np.nan
    table["different"] = (table["p_holm"] < LEVEL) & may_differ
    return table


def _different(pairs: pd.DataFrame, models: list[str]) -> np.ndarray:
    place = {model: position for position, model in enumerate(models)}
    found = np.zeros((len(models), len(models)), dtype=bool)
    for a, b in pairs.loc[pairs["different"], ["a", "b"]].itertuples(index=False):
        found[place[a], place[b]] = found[place[b], place[a]] = True
    return found


def _as_good(common: Common, every: pd.DataFrame) -> pd.DataFrame:
    """Models that no other wins against by the best mean, also on data sets that do not count."""
    found = pd.DataFrame(False, every.index, every.columns)
    for dataset, means in every.iterrows():
        there = list(means.dropna().index)
        if there:
            best = there.index(means.idxmax())
            found.loc[dataset, there] = _verdicts(common, str(dataset), there)[best] <= 0
    return found
