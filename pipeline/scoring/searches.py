"""Searches side by side: objectives, scores and time of the same cells, in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernels.settings import ObjectiveSettings
from pipeline.common import SAME_OPTIMUM
from pipeline.scoring.pairs import COUNTED, FOUND, difference_table, pair, total_table
from pipeline.scoring.variants import SEARCH, values_of
from pipeline.scoring.winners.common import RANKED
from sweeps.file.search import Search
from sweeps.words import is_model

OBJECTIVE = "objective"
PLACE = ["dataset", "mixture", "p", "m", "replicate", "model"]
ALL = "all data sets"
COSTS = ("dataset", "model", "n_cells", "cpu", "hit_rate", "reference_hit_rate", "to_best")


def compared_scores(one: Search, other: Search) -> tuple[str, ...]:
    """Scores that two searches are compared by: objectives too, if both maximise the same one."""
    same = all(getattr(one, name) == getattr(other, name) for name in ObjectiveSettings.__dataclass_fields__)
    return (OBJECTIVE, *RANKED) if same else RANKED


@dataclass(frozen=True)
class Compared:
    """A search beside the first one of its sweep, cell by cell.

    Parameters
    ----------
    search, reference : str
        The search, and the first one.
    differences : pandas.DataFrame
        Columns of `pipeline.scoring.pairs.difference_table`, where A is the reference and B the search: a row
        for each score, data set and model, over all p and m, after one for each score and model over data
        sets, which is of data set `ALL`. Objectives, in nats, are left out where the two searches maximise
        different ones, as in a cell whose shape of covariances each chose otherwise.
    costs : pandas.DataFrame
        `COSTS`, a row for each data set and model, after one for each model over all data sets: `n_cells`
        that are done in both; `cpu`, the CPU time of all of them as a multiple of the reference's; `hit_rate`
        and `reference_hit_rate`, the mean share of restarts that found the best objective of their cell;
        `to_best`, the CPU time for each such restart as a multiple of the reference's, a median over cells
        whose best is the same in both.
    """

    search: str
    reference: str
    differences: pd.DataFrame
    costs: pd.DataFrame

    @property
    def title(self) -> str:
        """What is compared."""
        return f"{self.search} beside {self.reference}"


def compared_searches(cells: pd.DataFrame, searches: Sequence[Search]) -> tuple[Compared, ...]:
    """Compare each search with the first one.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`, of one design.
    searches : sequence of Search
        Of the sweep.

    Returns
    -------
    tuple of Compared
        In the order of the file; without searches that have no cell in common with the first.
    """
    there = {each.name: each for each in searches}
    first, *others = [there[name] for name in values_of(cells, SEARCH)] or [Search()]
    pairs = ((other, _wide(cells, first, other)) for other in others)
    return tuple(_compared(cells, first, other, wide) for other, wide in pairs if len(wide))


def search_tables(found: Sequence[Compared]) -> dict[str, pd.DataFrame]:
    """Every number that is said of searches, by the name of its file; nothing where there is one search."""
    if not found:
        return {}
    parts = {
        "searches": [_headed(each.differences, each) for each in found],
        "search-costs": [_headed(each.costs, each) for each in found],
    }
    return {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}


def _headed(table: pd.DataFrame, each: Compared) -> pd.DataFrame:
    heads = pd.DataFrame({SEARCH: each.search, "reference": each.reference}, index=table.index)
    return pd.concat([heads, table], axis=1)


def _compared(cells: pd.DataFrame, reference: Search, search: Search, wide: pd.DataFrame) -> Compared:
    scores = compared_scores(reference, search)
    pairs = _pairs(cells, reference, search, scores)
    total = total_table(pairs).assign(dataset=ALL)
    table = pd.concat([total, difference_table(pairs, ("dataset", "model"))], ignore_index=True)
    table = table[table["n_cells"] > 0]
    rows = [(ALL, model, of) for model, of in wide.groupby("model", sort=False)]
    rows += [(name, model, of) for (name, model), of in wide.groupby(["dataset", "model"], sort=False)]
    costs = [(name, model, len(of), *_cost(of, OBJECTIVE in scores)) for name, model, of in rows]
    return Compared(
        str(search.name),
        str(reference.name),
        table[["score", "dataset", "model", *COUNTED, *FOUND]].reset_index(drop=True),
        pd.DataFrame(costs, columns=list(COSTS)),
    )


def _rows(cells: pd.DataFrame, search: Search) -> pd.DataFrame:
    """Cells of a search; those of methods, which do not search, are left out."""
    return cells[(cells[SEARCH] == search.name) & cells["model"].map(is_model)]


def _pairs(cells: pd.DataFrame, one: Search, other: Search, scores: Sequence[str]) -> pd.DataFrame:
    sides = [_rows(cells, each).assign(**{SEARCH: np.nan}) for each in (one, other)]
    # models that choose their shape maximise different objectives where they chose differently
    shapes = [side.set_index(PLACE)["covariance_shape"].fillna("") for side in sides]
    same = shapes[0].eq(shapes[1].reindex(shapes[0].index))
    for side in sides:
        alike = same.reindex(pd.MultiIndex.from_frame(side[PLACE])).fillna(True).to_numpy(dtype=bool)
        side[OBJECTIVE] = side[OBJECTIVE].where(alike)
    return pair(sides[0], sides[1], scores)[0]


def _wide(cells: pd.DataFrame, one: Search, other: Search) -> pd.DataFrame:
    """What cells that are done in both took and found, `_a` of one search and `_b` of the other."""
    kept = [*PLACE, "cpu_seconds", "restarts_done", "hits", OBJECTIVE]
    sides = []
    for each in (one, other):
        rows = _rows(cells, each)
        rows = rows[(rows["status"] == "done") & (rows["hits"].fillna(0) > 0)][kept]
        sides.append(rows.astype({"restarts_done": float, "hits": float}))
    return sides[0].merge(sides[1], on=PLACE, suffixes=("_a", "_b"))


def _cost(wide: pd.DataFrame, same_objective: bool) -> tuple[float, float, float, float]:
    """Ratio of the CPU time, both hit rates, and the ratio of the time to the best."""
    rates = [float((wide[f"hits_{side}"] / wide[f"restarts_done_{side}"]).mean()) for side in "ba"]
    agree = wide[(wide[f"{OBJECTIVE}_a"] - wide[f"{OBJECTIVE}_b"]).abs() <= SAME_OPTIMUM]
    to_best = np.nan
    if same_objective and len(agree):
        times = [agree[f"cpu_seconds_{side}"] / agree[f"hits_{side}"] for side in "ba"]
        to_best = float((times[0] / times[1]).median())
    return float(wide["cpu_seconds_b"].sum() / wide["cpu_seconds_a"].sum()), rates[0], rates[1], to_best
