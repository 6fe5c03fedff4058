"""Scores of a cube as tables: a row for each cell, and what is counted over groups of them.

`cell_table` computes every score of every cell; all other tables of a report follow from that one. Means are
over *units* that were drawn independently (`over_units`), never over cells, and within one design and one
search (`compared`, `rows_of`): a mean over several would mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dask
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import hypergeom

from sweep_clustering.kernels.settings import Structure
from sweep_clustering.pipeline.common import SAME_OPTIMUM, Progress, silent
from sweep_clustering.pipeline.scoring.scores import SCORES, SHAPES, score_nodes
from sweep_clustering.storage.cube.schema import DONE, STATUS_WORDS
from sweep_clustering.sweeps.file.spec import AnnotationCount
from sweep_clustering.sweeps.plan import AXES, VARIANTS, Cell, DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES, CODES
from sweep_clustering.sweeps.words import UNIFORM, baseline_of, chooses_shape, is_any, is_model, shape_of

DESIGN, SEARCH = VARIANTS

GROUP = ("dataset", "n_clusters", "p", "m", "m_over_n", *VARIANTS, "model")
SUMMARY = (*GROUP, "score", "n_cells", "n_values", "n_missing", "n", "unit", "mean", "se", "median")
KEYS = ("dataset", "n_clusters", "mixture", "p", "m", "m_over_n", "replicate", "model")
STATE = ("status", "restarts_done", "best_restart", "seconds", "cpu_seconds")
# Restarts that found the best objective of their cell; the estimate where a rule ended them.
FOUND = ("hits", "unseen_mass")
# The shape of covariances that a cell chose, and how well it predicted held-out annotations with its shape.
# Their log loss is minus their mean log-probability in nats; predicted is a share.
CHOICE = ("covariance_shape", "log_loss", "predicted")
COLUMNS = (*KEYS, *VARIANTS, *STATE, *FOUND, *CHOICE, *SCORES)

# Bytes of the arrays of a data set that are read at once.
SMALL = 2**28

REDRAWS, MIXTURES = "redraws", "mixtures"
# Of a unit, by the coordinate of cells that numbers it.
NAMES = {"mixture": MIXTURES, "replicate": REDRAWS}

TENTHS = ("seconds_10", "seconds_50", "seconds_90")
TIMES = ("n", "cpu_seconds", "seconds", *TENTHS, "restart_seconds", "cpu_hours")
TIMED = ("dataset", SEARCH, "model", *TIMES)

CHOICES_OF = ("dataset", "p", "m", "m_over_n", *VARIANTS, "model")
# Head of the column of cells whose annotations were too few to tell: those that choose are spherical.
TOO_FEW = "too few"

RATES = ("hit_rate", "once", "most", "for_95", "for_99", "unseen")
RESTARTS = ("dataset", "model", "cells", "restarts", *RATES)
# Upper edges, in nats, of the gaps that are counted.
GAPS = np.concatenate([[SAME_OPTIMUM], np.logspace(-4, 5, 19)])


def cell_table(
    tree: xr.DataTree, plans: Mapping[str, DatasetPlan], progress: Progress = silent
) -> pd.DataFrame:
    """Compute every score of every cell.

    Parameters
    ----------
    tree : xarray.DataTree
        An opened cube.
    plans : mapping of str to DatasetPlan
        Grid of each data set, from the cube's manifest.
    progress : callable
        Goes through the data sets.

    Returns
    -------
    pandas.DataFrame
        One row per cell: `KEYS`, `VARIANTS`, `STATE`, `FOUND`, `CHOICE`, `SCORES`. A coordinate that a cell
        does not have is missing, as design and search are where the sweep names none, and so is a score that
        is not defined or not there yet.
    """
    frames = []
    for plan in progress(list(plans.values()), "scores of data sets"):
        there = _at_hand(tree, plan.name)
        nodes = score_nodes(there, plan.name)
        supervised = nodes.pop(plan.name)
        frames += [
            _frame(found, there[path].to_dataset(), plan).assign(model=path.rpartition("/")[2])
            for path, found in nodes.items()
        ]
        if plan.supervised:
            frame = _frame(supervised, there[plan.name].to_dataset(), plan)
            # what has one value is no dimension of the cube
            frames.append(frame.assign(**{dim.name: dim.values[0] for dim in plan.dims if not dim.stored}))
    if not frames:
        return pd.DataFrame(columns=list(COLUMNS))
    # pandas 2 warns of columns without a value; `_complete` adds them again.
    known = [frame.dropna(axis="columns", how="all") for frame in frames]
    table = _complete(pd.concat(known, ignore_index=True))
    table["status"] = table["status"].map(STATUS_WORDS)
    return table


def _at_hand(tree: xr.DataTree, name: str) -> xr.DataTree:
    """A data set of a cube alone, in memory where it is small: a lazy one takes twice as long to score."""
    nodes = {path: node.to_dataset() for path, node in tree[name].subtree_with_keys}
    if sum(node.nbytes for node in nodes.values()) <= SMALL:
        nodes = dict(zip(nodes, dask.compute(*nodes.values(), scheduler="synchronous"), strict=True))
    whole = {f"{name}/{path}" if path != "." else name: node for path, node in nodes.items()}
    return xr.DataTree.from_dict({"/": tree.to_dataset(), **whole})


def _frame(found: xr.Dataset, node: xr.Dataset, plan: DatasetPlan) -> pd.DataFrame:
    kept = {name: node[name] for name in (*STATE, "unseen_mass") if name in node}
    both = found.assign(kept | _choice(node)).assign(hits=hits(node)).compute()
    # a baseline of a real data set is one cell without any dimension, which makes no frame
    frame = both.expand_dims("cell").to_dataframe().reset_index()
    return frame.assign(dataset=plan.name, n_clusters=plan.n_clusters)


def _choice(node: xr.Dataset) -> dict[str, xr.DataArray]:
    """Code of the shape that each cell chose, and the scores of its own shape among all; lazy."""
    if "held_out" not in node:
        return {}
    models = node["model"].values.tolist()
    shapes = xr.DataArray([CODES.get(shape_of(model), -1) for model in models], dims="model")
    found = {}
    if "covariance_shape" in node:
        found["covariance_shape"] = chosen = node["covariance_shape"]
        shapes = chosen.where(chosen >= 0, shapes)
    candidates = xr.DataArray([CODES[shape] for shape in node["candidate"].values.tolist()], dims="candidate")
    own = candidates == shapes
    if "structure" in node:
        found["structure"] = xr.apply_ufunc(
            _made_of,
            node["structure"],
            input_core_dims=[["part"]],
            vectorize=True,
            dask="parallelized",
            output_dtypes=[object],
            dask_gufunc_kwargs={"allow_rechunk": True},
        )
    scored = {"log_loss": node["held_out"], "predicted": node["held_out_right"]}
    return found | {name: values.where(own).sum("candidate", min_count=1) for name, values in scored.items()}


def _made_of(codes: NDArray[np.int32]) -> str:
    return str(Structure.of(codes.tolist())) if codes[1] > 0 else ""


def _complete(frame: pd.DataFrame) -> pd.DataFrame:
    """All columns, in order, whole numbers that can be missing."""
    frame = frame.reindex(columns=[*COLUMNS, *(["structure"] if "structure" in frame else [])])
    for key in VARIANTS:
        frame[key] = frame[key].astype(object).where(frame[key].notna(), np.nan)
    frame["covariance_shape"] = frame["covariance_shape"].map(SHAPES).astype(object)
    whole = ("n_clusters", "mixture", "m", "replicate", "restarts_done", "best_restart", "hits")
    real = ("p", "m_over_n", "seconds", "cpu_seconds", "unseen_mass", *CHOICE[1:], *SCORES)
    types = dict.fromkeys(whole, "Int64") | dict.fromkeys(real, np.float64)
    return frame.astype(types | {"model": str, "dataset": str})


def row_cell(row: pd.Series) -> Cell:
    """The cell of a row from `cell_table`."""
    kinds: dict[str, type] = {"mixture": int, "p": float, "m": int, "replicate": int}
    values = {axis: kinds.get(axis, str)(row[axis]) for axis in AXES if not pd.isna(row.get(axis))}
    none: dict[str, Any] = dict.fromkeys(AXES)
    return Cell(**none | values | {"dataset": str(row["dataset"])})


def summary_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Mean, standard error and median of each score, within a design and search, over mixtures or redraws.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `cell_table`.

    Returns
    -------
    pandas.DataFrame
        Tidy: `GROUP`, then `score`, `n_cells` (of the grid), `n_values` (cells with a value), `n_missing`
        (done, but the score is not defined: the divergence of a degenerate cluster), `n` (units with a
        value), `unit` (`mixtures`, or `redraws` of the annotations of a real data set; missing without
        annotations on a real data set, where nothing is drawn), `mean` and `se` over units, each of them a
        mean over its cells first, `median` over cells. An error is missing for n = 1. A score that no cell
        of a data set can have, without true labels for instance, gives no row.
    """
    # A table that was kept may be older than variants, and than some of the scores.
    cells = with_variants(cells)
    values = cells.filter(SCORES).astype(float)
    groups, heads, means = grouped(cells, GROUP, values)
    done = cells["status"] == STATUS_WORDS[DONE]
    columns = means._asdict() | {
        "n_values": values.groupby(groups).count(),
        "n_missing": values.isna().mul(done, axis="index").groupby(groups).sum(),
        "median": values.groupby(groups).median(),
    }
    heads["n_cells"] = groups.groupby(groups).size()
    long = pd.concat(columns, axis="columns", names=["column", "score"]).stack(
        level="score", future_stack=True
    )
    table = heads.join(long.reset_index("score")).reset_index(drop=True)
    # groups where the score is defined for some cell of the data set and kind of model
    kinds = [table["dataset"], table["p"].isna(), table["model"].map(baseline_of), table["score"]]
    table = table[table.groupby(kinds)["n"].transform("sum") > 0][list(SUMMARY)]
    return in_file_order(table, ["dataset", "p", "m", *VARIANTS, "model", "score"], cells)


def grouped(
    cells: pd.DataFrame, keys: Sequence[str], values: pd.DataFrame
) -> tuple[pd.Series, pd.DataFrame, Means]:
    """Group of each cell; by group its keys and what its `unit` is; the means of some values over units.

    Parameters
    ----------
    cells : pandas.DataFrame
        With `keys`, `mixture` and `replicate`.
    keys : sequence of str
        Columns that make a group; a missing one is a value of its own.
    values : pandas.DataFrame of shape (n_cells, n_columns)
        Of these cells.
    """
    groups = cells.groupby(list(keys), dropna=False, sort=False).ngroup().rename("group")
    heads = cells[list(keys)].assign(unit=kind_of(cells)).set_axis(groups)[~groups.duplicated().to_numpy()]
    return groups, heads, over_units(values, groups, unit_of(cells))


def in_file_order(table: pd.DataFrame, order: Sequence[str], cells: pd.DataFrame) -> pd.DataFrame:
    """Rows sorted by some columns: data sets, designs and searches as in the file, and baselines first.

    Parameters
    ----------
    table : pandas.DataFrame
        Any, with a column `dataset`.
    order : sequence of str
        Its columns, the most important first.
    cells : pandas.DataFrame
        From `cell_table`, which has these in the order of the file.
    """
    orders = {key: values_of(cells, key) for key in VARIANTS}
    orders |= {"dataset": list(cells["dataset"].unique()), "score": list(SCORES)}
    ranks = {key: {name: place for place, name in enumerate(names)} for key, names in orders.items()}
    return table.sort_values(
        list(order),
        key=lambda column: column.map(ranks[column.name]) if column.name in ranks else column,
        na_position="first",
        kind="stable",
        ignore_index=True,
    )


def written_counts(
    plans: Mapping[str, DatasetPlan], counts: Sequence[AnnotationCount]
) -> dict[tuple[str, int], str]:
    """How the sweep file writes each m (`"1.5N"`), by data set and number."""
    return {
        (plan.name, count.resolve(plan.n_samples)): count.text for plan in plans.values() for count in counts
    }


def pooled_means(summary: pd.DataFrame, written: Mapping[tuple[str, int], str], score: str) -> pd.DataFrame:
    """Mean over data sets of their mean score, by p, m as written and model.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `summary_table`; every data set counts once, whatever its number of cells.
    written : mapping
        From `written_counts`.
    score : str
        One of its scores.

    Returns
    -------
    pandas.DataFrame
        Columns `p`, `m` (text), `model`, `n_datasets`, `mean`; not for baselines, which have no p and m.
    """
    rows = summary[(summary["score"] == score) & summary["p"].notna() & summary["mean"].notna()]
    texts = [
        written.get((name, int(m)), str(int(m))) for name, m in zip(rows["dataset"], rows["m"], strict=True)
    ]
    groups = rows.assign(m=texts).groupby(["p", "m", "model"], sort=False, observed=True)["mean"]
    return groups.agg(n_datasets="count", mean="mean").reset_index()


# Units: cells of one mixture share its data, whatever annotations were drawn for it; so its redraws, p and m
# say nothing new of other mixtures. Of a real data set, which nothing draws, the annotations are drawn: there
# the unit is the redraw. n counts these, never cells.


class Means(NamedTuple):
    """Means over units, each a table of groups by columns.

    Parameters
    ----------
    mean, se : pandas.DataFrame
        Mean of the units' means, and its standard error, which is missing for one unit.
    n : pandas.DataFrame
        Units with a value.
    """

    mean: pd.DataFrame
    se: pd.DataFrame
    n: pd.DataFrame


def unit_of(cells: pd.DataFrame) -> pd.Series:
    """Number of the unit of each cell within its data set.

    Parameters
    ----------
    cells : pandas.DataFrame
        With the columns `mixture` and `replicate`.

    Returns
    -------
    pandas.Series of Int64
        The mixture where there is one, else the redraw of the annotations; missing for a model without
        annotations on a real data set, of which nothing is drawn.
    """
    return cells["mixture"].astype("Int64").fillna(cells["replicate"].astype("Int64"))


def kind_of(cells: pd.DataFrame) -> pd.Series:
    """What the unit of each cell is: `MIXTURES` or `REDRAWS`; missing where nothing is drawn."""
    drawn = pd.Series(np.nan, cells.index, dtype=object).mask(cells["replicate"].notna(), REDRAWS)
    return drawn.mask(cells["mixture"].notna(), MIXTURES)


def over_units(values: pd.DataFrame, groups: pd.Series, units: pd.Series) -> Means:
    """Means of some columns within groups: over the cells of each unit first, then over units.

    With the mean x_u of the cells of unit u = 1, ..., n, the mean is x = sum x_u / n, and its standard error
    sqrt(sum (x_u - x)² / (n (n - 1))).

    Parameters
    ----------
    values : pandas.DataFrame of shape (n_cells, n_columns)
        Missing ones count nowhere.
    groups, units : pandas.Series of shape (n_cells,)
        What each cell belongs to. Groups are rows of the result, in the order in which they come.
    """
    means = values.groupby([groups.rename("group"), units.rename("unit")], dropna=False, sort=False).mean()
    whole = means.groupby(level="group", sort=False)
    return Means(whole.mean(), whole.sem(), whole.count())


def complete_places(
    rows: pd.DataFrame, places: list[str], along: str | list[str], alone: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Values side by side: a row for each place at which all that have any value have one.

    Parameters
    ----------
    rows : pandas.DataFrame
        Cells with a `value`; places have a `mixture`, -1 for none.
    places, along : list of str
        What makes a place, and what is told apart at each: columns of `rows`.
    alone : pandas.DataFrame, optional
        By mixture, further columns with the same value at all places of it.
    """
    wide = rows.astype({"m": int, "replicate": int}).pivot(index=places, columns=along, values="value")
    if alone is not None:
        wide = wide.join(alone, on="mixture")
    return wide.dropna(axis="columns", how="all").dropna(axis="index")


def unit_level(places: pd.Index) -> str:
    """Name of the level that numbers units, of an index with `mixture` (-1 for none) and `replicate`."""
    return "mixture" if (places.get_level_values("mixture") >= 0).any() else "replicate"


def by_unit(places: pd.DataFrame) -> pd.DataFrame:
    """Mean over the places of each unit: a row per mixture, or per redraw where there are no mixtures."""
    return places.groupby(level=unit_level(places.index)).mean()


def over_datasets(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Mean over data sets, in which each counts alike, and its error; the data sets are given.

    With the standard errors s_d of D data sets it is sqrt(sum s_d²) / D: that of their draws. A data set
    without an error adds nothing to it.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each data set and `keys`, with `mean` and `se`.
    keys : list of str
        Columns within which the mean is taken.

    Returns
    -------
    pandas.DataFrame
        An index of `keys`; `mean`, `se`, missing without any, and `n`, the number of data sets.
    """
    groups = table.assign(square=table["se"] ** 2).groupby(keys, sort=False, dropna=False)
    whole = groups.agg(mean=("mean", "mean"), n=("mean", "size"))
    whole["se"] = np.sqrt(groups["square"].sum(min_count=1).astype(float)) / whole["n"]
    return whole


def with_variants(table: pd.DataFrame) -> pd.DataFrame:
    """The table, with a column of each variant: one that was kept may be older than they are."""
    missing = [key for key in VARIANTS if key not in table]
    return table.assign(**{key: pd.Series(np.nan, table.index, dtype=object) for key in missing})


def values_of(cells: pd.DataFrame, key: str) -> list[str]:
    """Designs or searches of a table of cells, in the order of the file; none where the sweep names none.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `cell_table`.
    key : str
        One of `VARIANTS`.
    """
    return list(with_variants(cells)[key].dropna().unique())


def compared(cells: pd.DataFrame) -> dict[str, str]:
    """The design and the search in which models are compared, as far as the sweep names them.

    The design is "uniform", or the first one where that is not there; the search is the first one.
    """
    names = {key: values_of(cells, key) for key in VARIANTS}
    if UNIFORM in names[DESIGN]:
        names[DESIGN] = [UNIFORM]
    return {key: found[0] for key, found in names.items() if found}


def titled(title: str, row: Mapping[str, object]) -> str:
    """A title with the design and the search of a row of a table, as far as it has them."""
    return ", ".join([title, *(str(row[key]) for key in VARIANTS if not pd.isna(row[key]))])


def rows_of(table: pd.DataFrame, chosen: Mapping[str, str]) -> pd.DataFrame:
    """Rows of the design and search from `compared`, and of models that have none."""
    for key, value in chosen.items():
        table = table[(table[key] == value) | table[key].isna()]
    return table


def tree_of(tree: xr.DataTree, chosen: Mapping[str, str]) -> xr.DataTree:
    """An opened cube without its dimensions `design` and `search`, if it has them: cells of one of each."""
    nodes = tree.to_dict()
    one = {path: {key: chosen[key] for key in chosen if key in nodes[path].dims} for path in nodes}
    return xr.DataTree.from_dict({path: node.sel(one[path], drop=True) for path, node in nodes.items()})


def time_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Measure what a cell takes, over cells with a result.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `cell_table`.

    Returns
    -------
    pandas.DataFrame
        A row for each data set, search and model with a time: `n` cells; means of `cpu_seconds` and of
        `seconds` of a cell, all of its restarts; its quickest tenth, median and slowest tenth as
        `seconds_10`, `seconds_50`, `seconds_90`; `restart_seconds`, the seconds of all cells per restart
        that is done; and `cpu_hours` of all cells.
    """
    timed = with_variants(cells[cells["seconds"].notna()])
    groups = timed.groupby(["dataset", SEARCH, "model"], sort=False, dropna=False)
    table = groups[["cpu_seconds", "seconds"]].mean().assign(n=groups.size())
    for name, share in zip(TENTHS, (0.1, 0.5, 0.9), strict=True):
        table[name] = groups["seconds"].quantile(share)
    table["restart_seconds"] = groups["seconds"].sum() / groups["restarts_done"].sum().astype(float).clip(1)
    table["cpu_hours"] = groups["cpu_seconds"].sum() / 3600
    return table.reset_index()[list(TIMED)]


def choice_table(cells: pd.DataFrame, by: Sequence[str] = CHOICES_OF) -> pd.DataFrame:
    """Count the shapes chosen, over mixtures and replicates.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `cell_table`.
    by : sequence of str
        Of `CHOICES_OF`, what has a row.

    Returns
    -------
    pandas.DataFrame
        A row for each data set, p, m, design, search and model that chooses, where any cell is done:
        `CHOICES_OF`; `n` cells that are done; how many of them chose each of `CANDIDATES`; `too_few`, those
        of them that had too few annotations to choose; and over all others the means of `predicted`, the
        share of held-out annotations that the shape chosen predicted, and of `log_loss`, minus their mean
        log-probability in nats.
    """
    rows = cells[cells["model"].map(chooses_shape)]
    chosen = {shape: rows["covariance_shape"] == shape for shape in CANDIDATES}
    return _counted(rows.assign(**chosen), cells, by)


def structure_table(cells: pd.DataFrame, by: Sequence[str] = CHOICES_OF) -> pd.DataFrame:
    """What the classes of cells are made of, over mixtures and replicates.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `cell_table`.
    by : sequence of str
        Of `CHOICES_OF`, what has a row.

    Returns
    -------
    pandas.DataFrame
        A row for each data set, p, m, design, search and model of classes of any shape, where any cell is
        done: `CHOICES_OF`; `n` cells that are done; `too_few`, those of them where annotations could not
        choose; the means of `predicted` and `log_loss` over all others; `structure`, that of most cells, the
        first of those that tie; `share` of the cells that have it, and how many `others` there are.
    """
    rows = cells[cells["model"].map(is_any)]
    table = _counted(rows, cells, by)
    made_of = with_variants(rows[rows["status"] == STATUS_WORDS[DONE]])
    if "structure" not in made_of:
        return table.assign(structure="", share=np.nan, others=0)
    counts = made_of.groupby(list(by), sort=False, dropna=False)["structure"].value_counts()
    groups = counts.reset_index().groupby(list(by), sort=False, dropna=False)
    most = groups.first().assign(
        others=groups.size() - 1, share=groups["count"].max() / groups["count"].sum()
    )
    return table.merge(most.drop(columns="count").reset_index(), how="left", on=list(by))


def prediction_table(cells: pd.DataFrame) -> pd.DataFrame:
    """How well each model predicted held-out annotations, over mixtures and replicates.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `cell_table`, of data sets where every model holds annotations out.

    Returns
    -------
    pandas.DataFrame
        A row for each data set, p, m, design, search and model with annotations, where any cell is done,
        but none of methods, which hold no annotations out: `CHOICES_OF`; `n` cells that are done; `too_few`,
        those of them that had too few annotations to hold some out; and the means over all others of
        `predicted` and `log_loss`, as of `choice_table`.
    """
    return _counted(cells[cells["p"].notna() & cells["model"].map(is_model)], cells, CHOICES_OF)


def _counted(rows: pd.DataFrame, cells: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Cells that are done and shapes counted by some columns, and the means of what was predicted."""
    rows = rows[rows["status"] == STATUS_WORDS[DONE]]
    marked = with_variants(rows).assign(too_few=rows["log_loss"].isna())
    groups = marked.groupby(list(by), sort=False, dropna=False)
    counts = groups[[*(shape for shape in CANDIDATES if shape in rows), "too_few"]].sum().astype(int)
    counts.insert(0, "n", groups.size())
    table = counts.join(groups[["predicted", "log_loss"]].mean()).reset_index()
    return in_file_order(table, [key for key in by if key != "m_over_n"], cells)


def within(node: xr.Dataset, gaps: NDArray[np.float64]) -> xr.DataArray:
    """How many restarts of each cell come as close to the best one.

    Parameters
    ----------
    node : xarray.Dataset
        Node of an opened cube, with `log_likelihood`; restarts that were not run are NaN.
    gaps : ndarray of shape (n_gaps,)
        In nats.

    Returns
    -------
    xarray.DataArray
        Whole numbers, lazy, with a last dim `gap`; 0 where a cell is not done.
    """
    # a cell without any objective has a best of -inf, and NaN for the distances to it
    objectives = node["log_likelihood"]
    distances = objectives.fillna(-np.inf).max("restart") - objectives
    return (distances <= xr.DataArray(gaps, dims="gap")).sum("restart")


def hits(node: xr.Dataset) -> xr.DataArray:
    """How many restarts of each cell found the best objective, within `SAME_OPTIMUM`; lazy."""
    return within(node, GAPS[:1]).isel(gap=0)


def cells_with_hits(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells that are done and have objectives, which those of some methods have not."""
    return cells[(cells["status"] == STATUS_WORDS[DONE]) & (cells["hits"].fillna(0) > 0)]


def chance_of_best(restarts: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over cells of the probability that the first r restarts hold the best one, in any order.

    With n restarts of which k found the best that is known, 1 - C(n - k, r) / C(n, r).

    Parameters
    ----------
    restarts, found : ndarray of shape (n_cells,)
        n and k of each cell, 1 <= k <= n.

    Returns
    -------
    ndarray of shape (max n,)
        For r = 1, 2, ...; 1 for a cell that ran no more than r.
    """
    pairs, weights = np.unique(np.stack([restarts, found], axis=1), axis=0, return_counts=True)
    n, k = pairs[:, :1], pairs[:, 1:]
    r = np.arange(1, int(restarts.max(initial=0)) + 1)
    # none of the k among r of n: a cell has no more than all of its restarts
    missed = hypergeom.pmf(0, n, k, np.minimum(r, n))
    return np.asarray(1.0 - np.average(missed, axis=0, weights=weights))


def restart_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Hit rates by data set and model.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `cell_table`.

    Returns
    -------
    pandas.DataFrame
        `dataset`, `model`, `cells` (done), `restarts` (mean of a cell), `hit_rate` (mean share of restarts
        that found the best of their cell), `once` (share of cells whose best was found once only), `most`
        (restarts of the cell that ran most), `for_95`, `for_99` (restarts that hold the best with that
        probability, over cells and orders), `unseen` (mean estimate of the probability of a new optimum,
        where a rule ended the restarts). All restarts of a cell hold their best in any case: where no fewer
        are enough, more than `most` are, which is infinity; NaN of cells of one restart.
    """
    rows = []
    for names, group in cells_with_hits(cells).groupby(["dataset", "model"], sort=False):
        n, k = group["restarts_done"].to_numpy(np.int64), group["hits"].to_numpy(np.int64)
        # that all restarts hold the best of all is no finding
        chance = chance_of_best(n, k)[:-1]
        enough = [_first(chance >= wanted - 1e-12) for wanted in (0.95, 0.99)]
        rates = n.mean(), (k / n).mean(), (k == 1).mean(), n.max()
        rows.append((*names, len(group), *rates, *enough, group["unseen_mass"].mean()))
    return pd.DataFrame(rows, columns=list(RESTARTS))


def _first(reached: NDArray[np.bool_]) -> float:
    """Number, from 1, of the first that holds; infinity if none does, and NaN of nothing."""
    if reached.any():
        return float(np.argmax(reached)) + 1.0
    return math.inf if len(reached) else math.nan


def gap_table(tree: xr.DataTree, names: dict[str, tuple[str, ...]]) -> pd.DataFrame:
    """Distribution of the gap to the best of a cell.

    Parameters
    ----------
    tree : xarray.DataTree
        An opened cube.
    names : dict of str to tuple of str
        Data sets, and the baselines of each.

    Returns
    -------
    pandas.DataFrame
        `dataset`, `model`, `gap` (nats), `share` of all restarts that come as close. Read block by block.
    """
    columns = ["dataset", "model", "gap", "share"]
    frames = []
    for dataset, baselines in names.items():
        for path in (*(f"{dataset}/{baseline}" for baseline in baselines), dataset):
            node = tree[path].to_dataset()
            if "log_likelihood" not in node:
                continue
            both = xr.Dataset({"near": within(node, GAPS), "runs": node["restarts_done"]})
            both = both.sum([dim for dim in node["status"].dims if dim != "model"]).compute()
            found = (both["near"] / both["runs"].where(both["runs"] > 0)).assign_coords(gap=GAPS)
            if "model" not in found.dims:
                found = found.assign_coords(model=path.rpartition("/")[2])
            frame = found.to_dataframe("share").dropna(subset="share").reset_index()
            frames.append(frame.assign(dataset=dataset)[columns])
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)
