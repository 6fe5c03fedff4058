"""Scores of every model where all have been: one mean for each data set, over the cells in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.scoring.units import NAMES, by_unit, unit_level
from storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING, STATUS_WORDS

RANKED = ("nmi", "adjusted_rand")
"""Scores that models are compared by: 1 is the truth, and 0 what a division without any meaning has."""
UNSOLVED = 0.0
"""Score of a cell without a solution: that of all samples in one cluster."""
PLACE = ["mixture", "p", "m", "replicate"]
COUNTS = {"done": DONE, "no_solution": NO_SOLUTION, "failed": FAILED, "pending": PENDING}
COLUMNS = ("dataset", "model", "mean", "se", "n", "unit", "n_places", *COUNTS)


@dataclass(frozen=True)
class Common:
    """One score of every model on every data set, over the places that all models share.

    Parameters
    ----------
    score : str
        One of `RANKED`.
    values : pandas.DataFrame
        A row for each data set with the score, and model of the cube: `dataset`, `model`, `mean`, `se`
        (missing for n = 1, and for a model without annotations on a real data set, which nothing redraws),
        `n` units, `unit` (mixtures, or redraws of the annotations), `n_places` in common, and how many cells
        of the model are `done`, have `no_solution`, `failed` or are `pending`.
    places : mapping of str to pandas.DataFrame
        Of each data set the values at every place in common: an index of `PLACE`, a column for each model.
    alone : frozenset of str
        Models without annotations, which have no p, m and replicate of their own.
    """

    score: str
    values: pd.DataFrame
    places: Mapping[str, pd.DataFrame]
    alone: frozenset[str]

    @property
    def datasets(self) -> list[str]:
        """Data sets that have the score, in the order of the file."""
        return list(self.values["dataset"].unique())

    @property
    def models(self) -> list[str]:
        """Models that have a value on any data set, those without annotations first."""
        known = set(self.values.loc[self.values["mean"].notna(), "model"])
        return [model for model in self.values["model"].unique() if model in known]

    def wide(self, column: str) -> pd.DataFrame:
        """A column of `values` by data set and model."""
        table = self.values.pivot(index="dataset", columns="model", values=column)
        return table.reindex(index=self.datasets, columns=self.models)


def common_scores(cells: pd.DataFrame, score: str) -> Common:
    """Average a score over the places that all models share.

    A place is a mixture, p, m and replicate, and a model without annotations has the same value at every p, m
    and replicate. A cell without a solution has the score 0. A place where some model's cell failed, is
    pending or has no score is left out for all of them; a model without any result on a data set does not
    count there. The mean is over units that were drawn independently, each of them a mean over its
    places first: of mixtures each mixture, of a real data set each redraw of the annotations.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    score : str
        One of `RANKED`.
    """
    marked = cells.assign(value=solved_values(cells, score))
    # a data set without true labels has no score, whatever its cells have found
    labelled = [name for name, rows in marked.groupby("dataset", sort=False) if rows[score].notna().any()]
    alone = list(cells["model"][cells["p"].isna()].unique())
    models = list(dict.fromkeys([*alone, *cells["model"]]))
    places = {name: _places(marked[marked["dataset"] == name]) for name in labelled}
    frames = [_values(marked[marked["dataset"] == name], places[name], models, alone) for name in labelled]
    values = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COLUMNS))
    return Common(score, values, places, frozenset(alone))


def solved_values(cells: pd.DataFrame, score: str) -> pd.Series:
    """Score of each cell that was computed to the end, `UNSOLVED` without a solution; missing of others."""
    done, without = (cells["status"] == STATUS_WORDS[code] for code in (DONE, NO_SOLUTION))
    return cells[score].where(done).mask(without, UNSOLVED).astype(float)


def by_accuracy(common: Common) -> pd.DataFrame:
    """Mean score of each data set and model at every accuracy p.

    Parameters
    ----------
    common : Common
        From `common_scores`.

    Returns
    -------
    pandas.DataFrame
        `dataset`, `p`, `model`, `mean`, `se` and `n` as in `Common.values`, over the places of that p; the p
        of a model without annotations is the one it is compared at.
    """
    frames = []
    for dataset, places in common.places.items():
        for p, rows in places.groupby(level="p"):
            means = _means(rows, common.alone)
            frames.append(means.rename_axis("model").reset_index().assign(dataset=dataset, p=p))
    columns = ["dataset", "p", "model", "mean", "se", "n"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def _places(rows: pd.DataFrame) -> pd.DataFrame:
    """Values of the models that have any, at the places where all of these do."""
    keyed = rows.assign(mixture=rows["mixture"].fillna(-1).astype(int))
    drawn = keyed[keyed["p"].notna()]
    alone = keyed[keyed["p"].isna()].pivot(index="mixture", columns="model", values="value")
    if drawn.empty:
        wide = alone.assign(p=np.nan, m=-1, replicate=-1).set_index(PLACE[1:], append=True)
    else:
        whole = drawn.astype({"m": int, "replicate": int})
        wide = whole.pivot(index=PLACE, columns="model", values="value").join(alone, on="mixture")
    complete: pd.DataFrame = wide.dropna(axis="columns", how="all").dropna(axis="index")
    return complete.rename_axis(columns=None)


def _means(places: pd.DataFrame, alone: Collection[str]) -> pd.DataFrame:
    """Mean and standard error over units, by model; what nothing draws again has no error."""
    units = by_unit(places)
    table = pd.DataFrame({"mean": units.mean(), "se": units.sem(), "n": len(units)})
    if unit_level(places.index) == "replicate":
        table.loc[table.index.isin(list(alone)), "se"] = np.nan
    return table


def _values(
    rows: pd.DataFrame, places: pd.DataFrame, models: list[str], alone: Collection[str]
) -> pd.DataFrame:
    table = _means(places, alone).reindex(models)
    table["n"] = table["n"].where(table["mean"].notna(), 0).astype(int)
    table["unit"] = NAMES["mixture" if rows["mixture"].notna().any() else "replicate"]
    table["n_places"] = np.where(table["n"] > 0, len(places), 0)
    states = rows.groupby(["model", "status"]).size().unstack(fill_value=0).reindex(models, fill_value=0)
    for name, code in COUNTS.items():
        table[name] = states.get(STATUS_WORDS[code], pd.Series(0, index=models)).astype(int)
    table.insert(0, "dataset", rows["dataset"].iloc[0])
    return table.rename_axis("model").reset_index()[list(COLUMNS)]
