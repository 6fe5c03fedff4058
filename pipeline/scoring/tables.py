"""Scores of a cube as tables: a row for each cell, and counts and means over groups of them.

`cell_table` computes every score of every cell; all other tables of a report follow from that one. Means are
over *units* that were drawn independently (`over_units`), never over cells, and within one design and one
search (`compared_variants`, `rows_of`), because a mean over several would mean nothing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import dask
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sweep_clustering.kernels.structure import Structure
from sweep_clustering.pipeline.common import SAME_OPTIMUM, Progress, silent
from sweep_clustering.pipeline.scoring.scores import SCORES, SHAPES, score_nodes, shape_codes
from sweep_clustering.storage.cube.schema import DONE, STATUS_WORDS
from sweep_clustering.sweeps.file.spec import AnnotationCount
from sweep_clustering.sweeps.plan import AXES, VARIANTS, Cell, DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES, CODES
from sweep_clustering.sweeps.words import AUTO, UNIFORM, baseline_of, is_any, is_model, shape_of

DESIGN = VARIANTS[0]
SEARCH = VARIANTS[1]

GROUP = ("dataset", "n_clusters", "p", "m", "m_over_n", *VARIANTS, "model")
SUMMARY = (*GROUP, "score", "n_cells", "n_values", "n_missing", "n", "unit", "mean", "se", "median")
KEYS = ("dataset", "n_clusters", "mixture", "p", "m", "m_over_n", "replicate", "model")
STATE = ("status", "restarts_done", "best_restart", "seconds", "cpu_seconds")
# Restarts that found the best objective of their cell; the estimate where a rule ended them.
HIT_COLUMNS = ("hits", "unseen_mass")
# The shape of covariances that a cell chose, and how well its shape predicted held-out annotations:
# minus their mean log-probability in nats, and the share predicted.
CHOICE = ("covariance_shape", "log_loss", "predicted")
COLUMNS = (*KEYS, *VARIANTS, *STATE, *HIT_COLUMNS, *CHOICE, *SCORES)

# Bytes: the arrays of a data set are read at once up to this size.
SMALL = 2**28

REDRAWS = "redraws"
MIXTURES = "mixtures"
# Names of units, by the coordinate of cells that numbers them.
NAMES = {"mixture": MIXTURES, "replicate": REDRAWS}

TENTHS = ("seconds_10", "seconds_50", "seconds_90")
TIMES = ("n", "cpu_seconds", "seconds", *TENTHS, "restart_seconds", "cpu_hours")
TIMED = ("dataset", SEARCH, "model", *TIMES)

CHOICES_OF = ("dataset", "p", "m", "m_over_n", *VARIANTS, "model")

RATES = ("hit_rate", "once", "most", "for_95", "for_99", "unseen")
RESTARTS = ("dataset", "model", "cells", "restarts", *RATES)
# Upper edges of the classes of gaps, in nats.
GAPS = np.concatenate([[SAME_OPTIMUM], np.logspace(-4, 5, 19)])


def cell_table(
    tree: xr.DataTree, plans: Mapping[str, DatasetPlan], progress: Progress = silent
) -> pd.DataFrame:
    """Compute every score of every cell of an opened cube, one row per cell with the columns `COLUMNS`.

    A coordinate that a cell does not have is missing, such as design and search if the sweep names none,
    and so is a score that is not defined or not there yet.
    """
    frames = []
    for plan in progress(list(plans.values()), "scores of data sets"):
        data = _one_dataset(tree, plan.name)
        nodes = score_nodes(data, plan.name)
        supervised = nodes.pop(plan.name)
        frames += [
            _frame(scores, data[path].to_dataset(), plan).assign(model=path.rpartition("/")[2])
            for path, scores in nodes.items()
        ]
        if plan.supervised:
            frame = _frame(supervised, data[plan.name].to_dataset(), plan)
            # a coordinate with one value is no dimension of the cube
            frames.append(frame.assign(**{dim.name: dim.values[0] for dim in plan.dims if not dim.stored}))
    if not frames:
        return pd.DataFrame(columns=list(COLUMNS))
    # pandas 2 warns of columns without a value; `_complete` adds them again.
    filled = [frame.dropna(axis="columns", how="all") for frame in frames]
    table = _complete(pd.concat(filled, ignore_index=True))
    table["status"] = table["status"].map(STATUS_WORDS)
    return table


def _one_dataset(tree: xr.DataTree, name: str) -> xr.DataTree:
    """Return one data set of a cube, in memory if it is small: a lazy one takes twice as long to score."""
    nodes = {path: node.to_dataset() for path, node in tree[name].subtree_with_keys}
    if sum(node.nbytes for node in nodes.values()) <= SMALL:
        nodes = dict(zip(nodes, dask.compute(*nodes.values(), scheduler=dask.get), strict=True))
    renamed = {f"{name}/{path}" if path != "." else name: node for path, node in nodes.items()}
    return xr.DataTree.from_dict({"/": tree.to_dataset(), **renamed})


def _frame(scores: xr.Dataset, node: xr.Dataset, plan: DatasetPlan) -> pd.DataFrame:
    state = {name: node[name] for name in (*STATE, "unseen_mass") if name in node}
    table = scores.assign(state | _choice(node)).assign(hits=hits(node)).compute()
    # a baseline of a real data set is one cell without any dimension, which makes no frame
    frame = table.expand_dims("cell").to_dataframe().reset_index()
    return frame.assign(dataset=plan.name, n_clusters=plan.n_clusters)


def _choice(node: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the shape that each cell chose, as its code, and the held-out scores of its shape; lazy."""
    if "held_out" not in node:
        return {}
    choice = {name: node[name] for name in ("covariance_shape",) if name in node}
    candidates = xr.DataArray([CODES[shape] for shape in node["candidate"].values.tolist()], dims="candidate")
    is_own_shape = candidates == shape_codes(node, node["model"])
    if "structure" in node:
        choice["structure"] = xr.apply_ufunc(
            _structure_text,
            node["structure"],
            input_core_dims=[["part"]],
            vectorize=True,
            dask="parallelized",
            output_dtypes=[object],
            dask_gufunc_kwargs={"allow_rechunk": True},
        )
    for name, values in (("log_loss", node["held_out"]), ("predicted", node["held_out_right"])):
        choice[name] = values.where(is_own_shape).sum("candidate", min_count=1)
    return choice


def _structure_text(codes: NDArray[np.int32]) -> str:
    return str(Structure.from_codes(codes.tolist())) if codes[1] > 0 else ""


def _complete(frame: pd.DataFrame) -> pd.DataFrame:
    """Return all columns, in order, whole numbers with a type that can be missing."""
    frame = frame.reindex(columns=[*COLUMNS, *(["structure"] if "structure" in frame else [])])
    for key in VARIANTS:
        frame[key] = frame[key].astype(object).where(frame[key].notna(), np.nan)
    frame["covariance_shape"] = frame["covariance_shape"].map(SHAPES).astype(object)
    integers = ("n_clusters", "mixture", "m", "replicate", "restarts_done", "best_restart", "hits")
    reals = ("p", "m_over_n", "seconds", "cpu_seconds", "unseen_mass", *CHOICE[1:], *SCORES)
    types = dict.fromkeys(integers, "Int64") | dict.fromkeys(reals, np.float64)
    return frame.astype(types | {"model": str, "dataset": str})


def row_cell(row: pd.Series) -> Cell:
    """Return the cell of a row from `cell_table`."""
    kinds: dict[str, type] = {"mixture": int, "p": float, "m": int, "replicate": int}
    values = {axis: kinds.get(axis, str)(row[axis]) for axis in AXES if not pd.isna(row.get(axis))}
    no_values: dict[str, Any] = dict.fromkeys(AXES)
    return Cell(**no_values | values | {"dataset": str(row["dataset"])})


def summary_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard error and median of each score in each group of cells.

    Columns: `GROUP`, then `score`, `n_cells` (of the grid), `n_values` (cells with a value), `n_missing`
    (done, but the score is not defined, such as the divergence of a degenerate cluster), `n` (units with a
    value), `unit` (missing without annotations on a real data set, which is not drawn), `mean` and `se`
    over units (missing for n = 1), and `median` over cells. A score that no cell of a data set can have,
    without true labels for instance, has no row.
    """
    # A stored table may be older than variants, and than some of the scores.
    cells = with_variants(cells)
    values = cells.filter(SCORES).astype(float)
    groups = Groups.of(cells, GROUP)
    is_done = cells["status"] == STATUS_WORDS[DONE]
    columns = groups.means(values)._asdict() | {
        "n_values": values.groupby(groups.numbers).count(),
        "n_missing": values.isna().mul(is_done, axis="index").groupby(groups.numbers).sum(),
        "median": values.groupby(groups.numbers).median(),
    }
    heads = groups.heads.assign(n_cells=groups.numbers.groupby(groups.numbers).size())
    long = pd.concat(columns, axis="columns", names=["column", "score"]).stack(
        level="score", future_stack=True
    )
    table = heads.join(long.reset_index("score")).reset_index(drop=True)
    # groups where the score is defined for some cell of the data set and kind of model
    kinds = [table["dataset"], table["p"].isna(), table["model"].map(baseline_of), table["score"]]
    table = table[table.groupby(kinds)["n"].transform("sum") > 0][list(SUMMARY)]
    return in_file_order(table, ["dataset", "p", "m", *VARIANTS, "model", "score"], cells)


class Means(NamedTuple):
    """Means over units, each a table of groups by columns."""

    mean: pd.DataFrame
    # standard error of the mean, missing for one unit
    se: pd.DataFrame
    # number of units with a value
    n: pd.DataFrame


class Groups(NamedTuple):
    """Groups of cells."""

    # The group of each cell, and its unit within its data set.
    numbers: pd.Series
    units: pd.Series
    # The keys of each group, and the kind of its `unit`.
    heads: pd.DataFrame

    @classmethod
    def of(cls, cells: pd.DataFrame, keys: Sequence[str]) -> Self:
        """Group cells by some columns, in which a missing value is a value of its own."""
        numbers = cells.groupby(list(keys), dropna=False, sort=False).ngroup().rename("group")
        heads = cells[list(keys)].assign(unit=kind_of(cells)).set_axis(numbers)
        return cls(numbers, unit_of(cells), heads[~numbers.duplicated().to_numpy()])

    def means(self, values: pd.DataFrame) -> Means:
        """Return the means of some values of the cells over the units of each group."""
        return over_units(values, self.numbers, self.units)


def in_file_order(table: pd.DataFrame, order: Sequence[str], cells: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by some columns: data sets, designs and searches as in a table of cells, and baselines
    first.
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
    """Return how the sweep file writes each m (`"1.5N"`), by data set and number."""
    return {
        (plan.name, count.resolve(plan.n_samples)): count.text for plan in plans.values() for count in counts
    }


def written_m(rows: pd.DataFrame, m_texts: Mapping[tuple[str, int], str], default: str = "") -> list[str]:
    """Return the m of each row as the sweep file writes it, and a text where there is none."""
    places = zip(rows["dataset"], rows["m"], strict=True)
    return [default if pd.isna(m) else m_texts.get((name, int(m)), str(int(m))) for name, m in places]


def pooled_means(summary: pd.DataFrame, m_texts: Mapping[tuple[str, int], str], score: str) -> pd.DataFrame:
    """Return the mean of a score over data sets, each counting once, by p, m as written and model.

    Baselines, which have no p and m, have no rows.
    """
    rows = summary[(summary["score"] == score) & summary["p"].notna() & summary["mean"].notna()]
    groups = rows.assign(m=written_m(rows, m_texts)).groupby(["p", "m", "model"], sort=False, observed=True)[
        "mean"
    ]
    return groups.agg(n_datasets="count", mean="mean").reset_index()


# Cells of one mixture share its data, whatever annotations were drawn for it, so its redraws, p and m
# say nothing new about other mixtures: the unit is the mixture. A real data set is not drawn, and
# there the unit is a redraw of the annotations. n is a number of units, never of cells.


def unit_of(cells: pd.DataFrame) -> pd.Series:
    """Return the mixture or redraw of each cell, missing for a baseline on a real data set, which is not
    drawn.
    """
    return cells["mixture"].astype("Int64").fillna(cells["replicate"].astype("Int64"))


def kind_of(cells: pd.DataFrame) -> pd.Series:
    """Return the kind of the unit of each cell, `MIXTURES` or `REDRAWS`; missing where nothing is drawn."""
    unit_kinds = pd.Series(np.nan, cells.index, dtype=object).mask(cells["replicate"].notna(), REDRAWS)
    return unit_kinds.mask(cells["mixture"].notna(), MIXTURES)


def over_units(values: pd.DataFrame, groups: pd.Series, units: pd.Series) -> Means:
    """Return means of some columns within groups: over the cells of each unit first, then over units.

    With the mean x_u of the cells of unit u = 1, ..., n, the mean is x = sum x_u / n, and its standard error
    sqrt(sum (x_u - x)² / (n (n - 1))).
    """
    means = values.groupby([groups.rename("group"), units.rename("unit")], dropna=False, sort=False).mean()
    by_group = means.groupby(level="group", sort=False)
    return Means(by_group.mean(), by_group.sem(), by_group.count())


def complete_places(
    rows: pd.DataFrame, places: list[str], column_keys: str | list[str], baselines: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return values side by side, a row for each place where all columns with any value have one.

    The `value` of a cell stands in the row of its `places` (`mixture` is -1 for none) and the column of its
    `column_keys`; `baselines` has further columns by mixture, with the same value at all places of a mixture.
    """
    wide = rows.astype({"m": int, "replicate": int}).pivot(index=places, columns=column_keys, values="value")
    if baselines is not None:
        wide = wide.join(baselines, on="mixture")
    return wide.dropna(axis="columns", how="all").dropna(axis="index")


def unit_level(places: pd.Index) -> str:
    """Return the level of an index, `mixture` (-1 for none) or `replicate`, that numbers units."""
    return "mixture" if (places.get_level_values("mixture") >= 0).any() else "replicate"


def by_unit(places: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over the places of each unit, a mixture or a redraw."""
    return places.groupby(level=unit_level(places.index)).mean()


def over_datasets(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return `mean`, `se` and the number `n` over data sets, in which each counts alike, by some keys.

    For standard errors s_d of D data sets it is sqrt(sum s_d²) / D, that of their draws; one without adds 0.
    """
    groups = table.assign(square=table["se"] ** 2).groupby(keys, sort=False, dropna=False)
    means = groups.agg(mean=("mean", "mean"), n=("mean", "size"))
    means["se"] = np.sqrt(groups["square"].sum(min_count=1).astype(float)) / means["n"]
    return means


def with_variants(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a column of each variant: a stored one may be older than they are."""
    missing_keys = [key for key in VARIANTS if key not in table]
    return table.assign(**{key: pd.Series(np.nan, table.index, dtype=object) for key in missing_keys})


def values_of(cells: pd.DataFrame, key: str) -> list[str]:
    """Return the designs or searches of a table of cells, in the order of the file."""
    return list(with_variants(cells)[key].dropna().unique())


def compared_variants(cells: pd.DataFrame) -> dict[str, str]:
    """Return the design, uniform if it is there, and the search, the first, in which models are compared."""
    names = {key: values_of(cells, key) for key in VARIANTS}
    if UNIFORM in names[DESIGN]:
        names[DESIGN] = [UNIFORM]
    return {key: values[0] for key, values in names.items() if values}


def titled(title: str, row: Mapping[str, object]) -> str:
    """Return a title with the design and the search of a row of a table, if it has them."""
    return ", ".join([title, *(str(row[key]) for key in VARIANTS if not pd.isna(row[key]))])


def rows_of(table: pd.DataFrame, variants: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of the design and search from `compared_variants`, and of models that have none."""
    for key, value in variants.items():
        table = table[(table[key] == value) | table[key].isna()]
    return table


def time_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return times of cells with a result, a row for each data set, search and model.

    Columns: `n` cells; mean `cpu_seconds` and `seconds` of a cell, with all its restarts; its quickest tenth,
    median and slowest tenth; `restart_seconds`, the seconds of all cells per restart that is done; and
    `cpu_hours`.
    """
    timed = with_variants(cells[cells["seconds"].notna()])
    groups = timed.groupby(["dataset", SEARCH, "model"], sort=False, dropna=False)
    table = groups[["cpu_seconds", "seconds"]].mean().assign(n=groups.size())
    for name, share in zip(TENTHS, (0.1, 0.5, 0.9), strict=True):
        table[name] = groups["seconds"].quantile(share)
    table["restart_seconds"] = groups["seconds"].sum() / groups["restarts_done"].sum().astype(float).clip(1)
    table["cpu_hours"] = groups["cpu_seconds"].sum() / 3600
    return table.reset_index()[list(TIMED)]


def choice_table(cells: pd.DataFrame, keys: Sequence[str] = CHOICES_OF) -> pd.DataFrame:
    """Count the shapes that cells chose, in groups by some of `CHOICES_OF` with any cell done.

    Columns: the group; `n` cells that are done; how many of them chose each of `CANDIDATES`; `too_few`, those
    with too few annotations to choose; and the means of `predicted` and `log_loss` over all others.
    """
    rows = cells[cells["model"].map(shape_of) == AUTO]
    is_shape = {shape: rows["covariance_shape"] == shape for shape in CANDIDATES}
    return _count_choices(rows.assign(**is_shape), cells, keys)


def structure_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the structures of classes of any shape, in groups by `CHOICES_OF` with any cell done.

    Columns as in `choice_table`, without shapes, and `structure`, that of most cells, the first of equals;
    `share` of the cells that have it, and how many `others` there are.
    """
    rows, keys = cells[cells["model"].map(is_any)], list(CHOICES_OF)
    table = _count_choices(rows, cells, keys)
    done_rows = with_variants(rows[rows["status"] == STATUS_WORDS[DONE]])
    if "structure" not in done_rows:
        return table.assign(structure="", share=np.nan, others=0)
    counts = done_rows.groupby(keys, sort=False, dropna=False)["structure"].value_counts()
    groups = counts.reset_index().groupby(keys, sort=False, dropna=False)
    share = groups["count"].max() / groups["count"].sum()
    common_structures = groups.first().assign(others=groups.size() - 1, share=share)
    return table.merge(common_structures.drop(columns="count").reset_index(), how="left", on=keys)


def prediction_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return how well each model predicted held-out annotations, with columns as in `choice_table`, without
    shapes.

    Methods, which hold no annotations out, have no row.
    """
    return _count_choices(cells[cells["p"].notna() & cells["model"].map(is_model)], cells, CHOICES_OF)


def _count_choices(rows: pd.DataFrame, cells: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Count done cells and chosen shapes by some columns, and average the held-out scores."""
    rows = rows[rows["status"] == STATUS_WORDS[DONE]]
    marked_rows = with_variants(rows).assign(too_few=rows["log_loss"].isna())
    groups = marked_rows.groupby(list(keys), sort=False, dropna=False)
    counts = groups[[*(shape for shape in CANDIDATES if shape in rows), "too_few"]].sum().astype(int)
    counts.insert(0, "n", groups.size())
    table = counts.join(groups[["predicted", "log_loss"]].mean()).reset_index()
    return in_file_order(table, [key for key in keys if key != "m_over_n"], cells)


def count_within(node: xr.Dataset, gaps: NDArray[np.float64]) -> xr.DataArray:
    """Count, lazily, the restarts of each cell within each gap (nats) of its best one, along a last dim
    `gap`.
    """
    # a cell without any objective has a best of -inf, and NaN for the distances to it
    objectives = node["log_likelihood"]
    distances = objectives.fillna(-np.inf).max("restart") - objectives
    return (distances <= xr.DataArray(gaps, dims="gap")).sum("restart")


def hits(node: xr.Dataset) -> xr.DataArray:
    """Return how many restarts of each cell found the best objective, within `SAME_OPTIMUM`; lazy."""
    return count_within(node, GAPS[:1]).isel(gap=0)


def cells_with_hits(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells that are done and have objectives, unlike those of some methods."""
    return cells[(cells["status"] == STATUS_WORDS[DONE]) & (cells["hits"].fillna(0) > 0)]


def chance_of_best(restarts: NDArray[np.int64], hits: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean over cells of the probability that the first r restarts hold the best one, in any
    order.

    If k of n restarts found the best that is known, it is 1 - C(n - k, r) / C(n, r), for r = 1, ..., max n.
    """
    pairs, weights = np.unique(np.stack([restarts, hits], axis=1), axis=0, return_counts=True)
    n, k = pairs[:, :1], pairs[:, 1:]
    r = np.arange(1, int(restarts.max(initial=0)) + 1)
    # none of the k among r of n, draw by draw: a cell has no more than all of its restarts
    missed = np.where(r <= n, np.maximum(n - k - r + 1, 0) / np.maximum(n - r + 1, 1), 1.0).cumprod(axis=1)
    return np.asarray(1.0 - np.average(missed, axis=0, weights=weights))


def restart_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return hit rates by data set and model.

    Columns: `dataset`, `model`, `cells` (done), `restarts` (mean of a cell), `hit_rate` (mean share of
    restarts that found the best of their cell), `once` (share of cells whose best was found only once),
    `most` (restarts of the cell that ran most), `for_95`, `for_99` (restarts that hold the best with that
    probability, infinite if only all are enough, NaN for cells of one restart), `unseen` (mean estimate of
    the probability of a new optimum, if a rule ended the restarts).
    """
    rows = []
    for names, group in cells_with_hits(cells).groupby(["dataset", "model"], sort=False):
        n, k = group["restarts_done"].to_numpy(np.int64), group["hits"].to_numpy(np.int64)
        # all restarts of a cell always hold its best, which says nothing
        chance = chance_of_best(n, k)[:-1]
        enough = [_first(chance >= probability - 1e-12) for probability in (0.95, 0.99)]
        rates = n.mean(), (k / n).mean(), (k == 1).mean(), n.max()
        rows.append((*names, len(group), *rates, *enough, group["unseen_mass"].mean()))
    return pd.DataFrame(rows, columns=list(RESTARTS))


def _first(values: NDArray[np.bool_]) -> float:
    """Return the position, from 1, at which the first true value stands: infinity without any, NaN without
    values.
    """
    if values.any():
        return float(np.argmax(values)) + 1.0
    return math.inf if len(values) else math.nan


def gap_table(
    tree: xr.DataTree, names: Mapping[str, tuple[str, ...]], variants: Mapping[str, str]
) -> pd.DataFrame:
    """Return the `share` of restarts within each `gap` (nats) of the best of their cell, by data set and
    model, for cells of the design and search from `compared_variants`.
    """
    columns = ["dataset", "model", "gap", "share"]
    frames = []
    for dataset, baselines in names.items():
        for path in (*(f"{dataset}/{baseline}" for baseline in baselines), dataset):
            node = tree[path].to_dataset()
            if "log_likelihood" not in node:
                continue
            node = node.sel({key: value for key, value in variants.items() if key in node.dims})
            counts = xr.Dataset({"near": count_within(node, GAPS), "runs": node["restarts_done"]})
            counts = counts.sum([dim for dim in node["status"].dims if dim != "model"]).compute()
            share = (counts["near"] / counts["runs"].where(counts["runs"] > 0)).assign_coords(gap=GAPS)
            if "model" not in share.dims:
                share = share.assign_coords(model=path.rpartition("/")[2])
            frame = share.to_dataframe("share").dropna(subset="share").reset_index()
            frames.append(frame.assign(dataset=dataset)[columns])
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)
