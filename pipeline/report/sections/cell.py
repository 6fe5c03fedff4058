"""One cell as scatter plots: which one, without annotations, with them, and the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from pipeline.report.parts.parts import Picture, Section
from pipeline.report.parts.scatter import TRUE, CellFigure, draw_matrix
from pipeline.report.sections.content import Content, pictured
from pipeline.scoring.tables import VARIANTS, row_cell
from pipeline.text import plural
from sweeps.cellnames import find_cell
from sweeps.errors import InputError, Problem, given
from sweeps.models import BASELINES, baseline_of
from sweeps.plan import Cell, DatasetPlan

FEATURES = 6
"""Features of a matrix; of more, those are taken whose means differ most between the classes."""
PAPER_DATASET = "vertebral"
"""Data set of the published matrix, so that a report shows the same one."""
UNITS = {"none": "data units", "standard": "s.d.", "minmax": "of range"}
"""Units of features, by scaling."""


def section(content: Content) -> Section:
    """The partitions of the chosen cell."""
    if content.cell is None:
        return pictured("cell", "One cell", ())
    shown = read_cell(content.tree, content.cell)
    return Section("cell", "One cell", tuple(_words(shown)), pictures=tuple(_pictures(content, shown)))


def _words(shown: CellFigure) -> Iterator[str]:
    """What colours and panels are."""
    known = TRUE in shown.partitions
    guide = "the classes that they share most samples with" if known else "each other where they can"
    yield f"{shown.name}. Clusters have the colours of {guide}, matched one to one."
    if len(shown.features) < shown.X.shape[1]:
        by = "classes" if known else "clusters"
        count = f"{len(shown.features)} of {plural(shown.X.shape[1], 'feature')}"
        yield f"Shown are {count}: those whose means differ most between the {by}."


def _pictures(content: Content, shown: CellFigure) -> Iterator[Picture]:
    unit = UNITS[content.manifest.plans[given(content.cell).dataset].scale]
    for key in shown.partitions:
        yield from content.save(draw_matrix(shown, key, unit), f"cell-{key}", shown.caption(key))


def named_cell(plans: Mapping[str, DatasetPlan], name: str) -> Cell:
    """The cell of a name such as `iris/p=0.9/m=75/replicate=0/posterior`.

    Raises
    ------
    InputError
        If no cell with annotations has that name.
    """
    cell = find_cell(name, plans.values())
    if cell.p is None:
        raise InputError([Problem("--cell", repr(name), "a cell with annotations")])
    return cell


def choose_cell(cells: pd.DataFrame, named: Cell | None) -> Cell | None:
    """The cell that is named, or the most informative one.

    Without a name: among cells with annotations that are done, the published data set before other real ones
    and these before mixtures, then the model with priors, the highest accuracy, and m nearest to N.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    named : Cell or None
        From `named_cell`.

    Returns
    -------
    Cell or None
        None if no cell is named and no such cell is done.

    Raises
    ------
    InputError
        If the cell that is named is not done.
    """
    if named is not None:
        _require_done(cells, named)
        return named
    rows = cells[(cells["status"] == "done") & cells["p"].notna()]
    if rows.empty:
        return None
    rank = pd.DataFrame(
        {
            "published": rows["dataset"] != PAPER_DATASET,
            "drawn": rows["mixture"].notna(),
            "model": rows["model"] != "posterior",
            "p": -rows["p"],
            "m": (rows["m_over_n"] - 1).abs(),
        }
    )
    return row_cell(rows.loc[rank.sort_values(list(rank.columns), kind="stable").index[0]])


def read_cell(tree: xr.DataTree, cell: Cell) -> CellFigure:
    """Read what is drawn of a cell: its features and labels, nothing else of the cube."""
    node = tree[cell.dataset].to_dataset()
    data = node if cell.mixture is None else node.sel(mixture=cell.mixture)
    variants = {key: getattr(cell, key) for key in VARIANTS if key in data.dims}
    data = data.sel(variants)
    one = data.sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
    partitions = {}
    baseline = _baseline(tree, cell)
    if baseline is not None:
        partitions["unsupervised"] = baseline
    partitions["annotated"] = one["labels"].values.astype(np.int64)
    if "labels_true" in data:
        partitions[TRUE] = data["labels_true"].values.astype(np.int64)
    guide = partitions.get(TRUE, partitions["annotated"])
    partitions = {key: match(labels, guide) for key, labels in partitions.items()}
    X, links = data["X"].values, one["annotations"].values.astype(np.int64).reshape(-1, 3)
    return CellFigure(
        name=str(cell),
        X=X,
        features=most_separating(X, guide),
        partitions=partitions,
        links=links[(links >= 0).all(axis=1)],
        feature_names=_names(data, "feature"),
        class_names=tuple(map(str, data.attrs.get("class_names", ()))),
        sample_names=_names(data, "sample"),
    )


def match(labels: NDArray[np.int64], guide: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels renamed one to one so that as many samples as possible have that of the guide; -1 stays."""
    size = max(0, int(max(labels.max(), guide.max()))) + 1
    counts, known = np.zeros((size, size)), (labels >= 0) & (guide >= 0)
    np.add.at(counts, (labels[known], guide[known]), 1)
    _, renamed = linear_sum_assignment(counts, maximize=True)
    return np.where(labels >= 0, np.asarray(renamed)[labels], -1).astype(np.int64)


def most_separating(X: NDArray[np.float64], labels: NDArray[np.int64]) -> tuple[int, ...]:
    """Columns to draw, in rising order: those with the largest share of variance between the labels."""
    total = X.var(axis=0)
    classes, inverse = np.unique(labels, return_inverse=True)
    means = np.stack([X[labels == label].mean(axis=0) for label in classes])
    share = np.divide(means[inverse].var(axis=0), total, out=np.zeros(X.shape[1]), where=total > 0)
    return tuple(sorted(np.argsort(-share, kind="stable")[:FEATURES].tolist()))


def _names(data: xr.Dataset, name: str) -> tuple[str, ...]:
    return tuple(map(str, data[name].values)) if name in data.coords or name in data else ()


def _require_done(cells: pd.DataFrame, cell: Cell) -> None:
    same = cells["model"] == cell.model
    for key in ("dataset", "mixture", "p", "m", "design", "replicate", "search"):
        value = getattr(cell, key)
        if value is not None:
            same &= (cells[key] == value).fillna(False)
    status = cells.loc[same, "status"].iloc[0]
    if status != "done":
        raise InputError([Problem("--cell", f"{cell}, which is {status}", "a cell that is done")])


def _baseline(tree: xr.DataTree, cell: Cell) -> NDArray[np.int64] | None:
    """Labels of the baseline of the same shape, else of any that is done."""
    for model in sorted(BASELINES, key=lambda name: name != baseline_of(cell.model)):
        if model in tree[cell.dataset].children:
            node = tree[f"{cell.dataset}/{model}"].to_dataset()
            places = {"mixture": cell.mixture, "search": cell.search}
            there = {key: value for key, value in places.items() if key in node["labels"].dims}
            labels = node["labels"].sel(there).values
            if labels.min() >= 0:
                return np.asarray(labels, dtype=np.int64)
    return None
