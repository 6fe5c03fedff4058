"""Scores of a cube as tables: one row per cell, and one per group of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from pipeline.scoring.catalogue import SCORES
from pipeline.scoring.lazy import all_baseline_scores, relative_nmi, scores
from pipeline.scoring.restarts import hits
from pipeline.scoring.units import kind_of, over_units, unit_of
from pipeline.scoring.variants import DESIGN, SEARCH, VARIANTS, values_of, with_variants
from storage.cube.schema import DONE, STATUS_WORDS
from sweeps.file.spec import AnnotationCount
from sweeps.plan import Cell, DatasetPlan
from sweeps.shapes import CODES
from sweeps.words import baseline_of, shape_of

GROUP = ("dataset", "n_clusters", "p", "m", "m_over_n", *VARIANTS, "model")
SUMMARY = (*GROUP, "score", "n_cells", "n_values", "n_missing", "n", "unit", "mean", "se", "median")
KEYS = ("dataset", "n_clusters", "mixture", "p", "m", "m_over_n", "replicate", "model")
STATE = ("status", "restarts_done", "best_restart", "seconds", "cpu_seconds")
FOUND = ("hits", "unseen_mass")
"""Restarts that found the best objective of their cell; the estimate where a rule ended them."""
CHOICE = ("covariance_shape", "log_loss", "predicted")
"""The shape of covariances that a cell chose, and how well it predicted held-out annotations with its shape.

Their log loss is minus their mean log-probability in nats; predicted is a share."""

COLUMNS = (*KEYS, *VARIANTS, *STATE, *FOUND, *CHOICE, *SCORES)


def cell_table(tree: xr.DataTree, plans: Mapping[str, DatasetPlan]) -> pd.DataFrame:
    """Compute every score of every cell.

    Parameters
    ----------
    tree : xarray.DataTree
        An opened cube.
    plans : mapping of str to DatasetPlan
        Grid of each data set, from the cube's manifest.

    Returns
    -------
    pandas.DataFrame
        One row per cell: `KEYS`, `VARIANTS`, `STATE`, `FOUND`, `CHOICE`, `SCORES`. A coordinate that a cell
        does not have is missing, as design and search are where the sweep names none, and so is a score that
        is not defined or not there yet.
    """
    frames = [frame for plan in plans.values() for frame in _frames(tree, plan)]
    if not frames:
        return pd.DataFrame(columns=list(COLUMNS))
    table = pd.concat([_complete(frame) for frame in frames], ignore_index=True)
    table["status"] = table["status"].map(STATUS_WORDS)
    return table


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
    found = [score for score in SCORES if score in cells]
    groups = cells.groupby(list(GROUP), dropna=False, sort=False).ngroup().rename("group")
    heads = cells[list(GROUP)].assign(n_cells=groups.groupby(groups).transform("size"), unit=kind_of(cells))
    heads = heads.set_axis(groups)[~groups.duplicated().to_numpy()]
    values, means = cells[found].astype(float), over_units(cells[found].astype(float), groups, unit_of(cells))
    done = cells["status"] == STATUS_WORDS[DONE]
    medians, counts = values.groupby(groups).median(), values.groupby(groups).count()
    undefined = values.isna().mul(done, axis="index").groupby(groups).sum()
    parts = [
        heads.assign(
            score=score,
            n_values=counts[score],
            n_missing=undefined[score],
            n=means.n[score],
            mean=means.mean[score],
            se=means.se[score],
            median=medians[score],
        )
        for score in found
    ]
    table = pd.concat([part[_is_defined(part)] for part in parts], ignore_index=True)[list(SUMMARY)]
    table["score"] = pd.Categorical(table["score"], SCORES)
    table = in_file_order(table, ["dataset", "p", "m", *VARIANTS, "model", "score"], cells)
    return table.astype({"score": str})


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
    orders = {"dataset": cells["dataset"].unique(), **{key: values_of(cells, key) for key in VARIANTS}}
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


def row_cell(row: pd.Series) -> Cell:
    """The cell of a row from `cell_table`."""
    whole = {key: None if pd.isna(row[key]) else int(row[key]) for key in ("mixture", "m", "replicate")}
    p = None if pd.isna(row["p"]) else float(row["p"])
    design, search = (None if pd.isna(row.get(key)) else str(row[key]) for key in (DESIGN, SEARCH))
    model = str(row["model"])
    return Cell(
        str(row["dataset"]), whole["mixture"], p, whole["m"], whole["replicate"], model, design, search
    )


def _frames(tree: xr.DataTree, plan: DatasetPlan) -> list[pd.DataFrame]:
    """Frames of the baselines and of the supervised cells of one data set, as far as there are any."""
    found, baselines = scores(tree, plan.name), all_baseline_scores(tree, plan.name)
    if "nmi" in found and baselines:
        found["relative_nmi"] = relative_nmi(found, baselines)
    frames = []
    for model, baseline in baselines.items():
        node = tree[f"{plan.name}/{model}"].to_dataset()
        frames.append(_frame(baseline, node, plan).assign(model=model))
    if plan.supervised:
        frame = _frame(found, tree[plan.name].to_dataset(), plan)
        frames.append(frame if plan.has_designs else frame.assign(**{DESIGN: plan.cell_designs[0]}))
    return frames


def _frame(found: xr.Dataset, node: xr.Dataset, plan: DatasetPlan) -> pd.DataFrame:
    kept = {name: node[name] for name in (*STATE, "unseen_mass") if name in node}
    both = found.assign(kept | _choice(node)).assign(hits=hits(node)).compute()
    if both.dims:
        frame = both.to_dataframe().reset_index()
    else:
        frame = pd.DataFrame({name: [array.item()] for name, array in both.data_vars.items()})
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
    scored = {"log_loss": node["held_out"], "predicted": node["held_out_right"]}
    return found | {name: values.where(own).sum("candidate", min_count=1) for name, values in scored.items()}


def _complete(frame: pd.DataFrame) -> pd.DataFrame:
    """All columns, in order, whole numbers that can be missing."""
    frame = frame.reindex(columns=list(COLUMNS))
    names = {code: shape for shape, code in CODES.items()}
    for key in VARIANTS:
        frame[key] = frame[key].astype(object).where(frame[key].notna(), np.nan)
    frame["covariance_shape"] = frame["covariance_shape"].map(names).astype(object)
    whole = dict.fromkeys(
        ("n_clusters", "mixture", "m", "replicate", "restarts_done", "best_restart", "hits"), "Int64"
    )
    real = dict.fromkeys(
        ("p", "m_over_n", "seconds", "cpu_seconds", "unseen_mass", *CHOICE[1:], *SCORES), np.float64
    )
    return frame.astype({**whole, **real, "model": str, "dataset": str})


def _is_defined(table: pd.DataFrame) -> pd.Series:
    """Groups where the score is defined for some cell of the data set and kind of model."""
    baseline = table["p"].isna()
    variance = table["model"].map(baseline_of)
    return table.groupby([table["dataset"], baseline, variance])["n"].transform("sum") > 0
