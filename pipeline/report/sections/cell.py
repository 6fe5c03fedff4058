"""Scatter-plot matrices of one cell: without annotations, with them, and the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from pipeline.report.parts.ink import CLASS_COLORS, CLASS_MARKERS, PAPER
from pipeline.report.parts.parts import Picture, Section
from pipeline.report.sections.content import Content, pictured
from pipeline.scoring.tables import row_cell
from sweeps.cellnames import find_cell
from sweeps.errors import InputError, Problem
from sweeps.models import BASELINES, baseline_of
from sweeps.plan import Cell, DatasetPlan

FEATURES = 6
"""Features of a matrix; of more, those are taken whose means differ most between the classes."""
PANEL = 1.35
LONGEST_NAME = 20
"""Characters of a feature's name at an axis."""
MOST_POINTS = 2500
"""Points of a figure above which they are drawn as an image, as each would be an element of the SVG."""
PAPER_DATASET = "vertebral"
"""Data set of the published matrix, so that a report shows the same one."""
UNITS = {"none": "data units", "standard": "s.d.", "minmax": "of range"}
"""Units of features, by scaling."""


def section(content: Content) -> Section:
    """The partitions of the chosen cell."""
    if content.cell is None:
        return pictured("cell", "One cell", ())
    shown = read_cell(content.tree, content.cell)
    text = f"{content.cell}. Labels have the colours that agree best with the truth."
    return Section("cell", "One cell", (text,), pictures=tuple(_pictures(content, shown)))


def _pictures(content: Content, shown: CellFigure) -> Iterator[Picture]:
    unit = UNITS[content.manifest.plans[shown.cell.dataset].scale]
    for key, labels in shown.partitions.items():
        caption = f"{key}: {shown.cell}"
        if key != "true" and "true" in shown.partitions:
            wrong = int((labels != shown.partitions["true"]).sum())
            caption += f"; {wrong} of {len(labels)} samples have another label than in truth"
        yield from content.save(draw_matrix(shown, labels, unit), f"cell-{key}", caption)


@dataclass(frozen=True)
class CellFigure:
    """A cell to be drawn.

    Parameters
    ----------
    cell : Cell
        Which.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    features : tuple of int
        Columns of `X` that are drawn, from 0.
    partitions : dict of str to ndarray of shape (n_samples,)
        Labels by what they are; codes agree as far as they can.
    feature_names : tuple of str
        Of all columns of `X`; empty if the cube has no names.
    """

    cell: Cell
    X: NDArray[np.float64]
    features: tuple[int, ...]
    partitions: dict[str, NDArray[np.int64]]
    feature_names: tuple[str, ...] = ()

    def named(self, feature: int) -> str:
        """A feature by its name, cut to a panel's width, or by its number from 1."""
        if not self.feature_names:
            return f"feature {feature + 1}"
        name = self.feature_names[feature]
        return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


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
    if "design" in data.dims:
        data = data.sel(design=cell.design)
    one = data.sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
    partitions = {}
    baseline = _baseline(tree, cell)
    if baseline is not None:
        partitions["unsupervised"] = baseline
    partitions["annotated"] = one["labels"].values.astype(np.int64)
    if "labels_true" in data:
        partitions["true"] = data["labels_true"].values.astype(np.int64)
    guide = partitions.get("true", partitions["annotated"])
    partitions = {key: match(labels, guide) for key, labels in partitions.items()}
    X = data["X"].values
    names = tuple(map(str, data["feature"].values)) if "feature" in data.coords else ()
    return CellFigure(cell, X, most_separating(X, guide), partitions, names)


def draw_matrix(shown: CellFigure, labels: NDArray[np.int64], unit: str) -> Figure:
    """Draw one partition: a panel for each pair of features, coloured and marked by label.

    Parameters
    ----------
    shown : CellFigure
        The cell.
    labels : ndarray of shape (n_samples,)
        One of its partitions.
    unit : str
        Of the features.
    """
    chosen = shown.features
    size = max(1, len(chosen) - 1)
    figure = Figure(figsize=(PANEL * size + 0.9, PANEL * size + 1.1), layout="constrained")
    grid = figure.subplots(size, size, squeeze=False, sharex="col", sharey="row")
    as_image = len(labels) * size * (size + 1) / 2 > MOST_POINTS
    for row in range(size):
        for column in range(size):
            axes = grid[row][column]
            if column > row:
                axes.remove()
                continue
            across, up = chosen[column], chosen[min(row + 1, len(chosen) - 1)]
            _points(axes, shown.X[:, across], shown.X[:, up], labels, as_image)
            if row == size - 1:
                axes.set_xlabel(f"{shown.named(across)}\n({unit})")
            if column == 0:
                axes.set_ylabel(f"{shown.named(up)}\n({unit})")
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=min(6, len(names)),
        frameon=False,
        markerscale=1.6,
    )
    return figure


def match(labels: NDArray[np.int64], guide: NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels renamed so that as many samples as possible have the label of the guide."""
    size = int(max(labels.max(), guide.max())) + 1
    counts = np.zeros((size, size))
    np.add.at(counts, (labels, guide), 1)
    _, renamed = linear_sum_assignment(counts, maximize=True)
    return np.asarray(renamed)[labels].astype(np.int64)


def most_separating(X: NDArray[np.float64], labels: NDArray[np.int64]) -> tuple[int, ...]:
    """Columns to draw, in rising order: those with the largest share of variance between the labels."""
    total = X.var(axis=0)
    classes, inverse = np.unique(labels, return_inverse=True)
    means = np.stack([X[labels == label].mean(axis=0) for label in classes])
    share = np.divide(means[inverse].var(axis=0), total, out=np.zeros(X.shape[1]), where=total > 0)
    return tuple(sorted(np.argsort(-share, kind="stable")[:FEATURES].tolist()))


def _points(
    axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], labels: NDArray[np.int64], as_image: bool
) -> None:
    for label in np.unique(labels):
        axes.plot(
            x[labels == label],
            y[labels == label],
            linestyle="",
            marker=CLASS_MARKERS[label % len(CLASS_MARKERS)],
            color=CLASS_COLORS[label % len(CLASS_COLORS)],
            markeredgecolor=PAPER,
            # White edges of an image would stay white in the dark.
            markeredgewidth=0 if as_image else 0.3,
            markersize=3.6,
            alpha=0.85,
            rasterized=as_image,
            label=f"label {label + 1}",
        )
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.grid()


def _require_done(cells: pd.DataFrame, cell: Cell) -> None:
    same = cells["model"] == cell.model
    for key in ("dataset", "mixture", "p", "m", "design", "replicate"):
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
            labels = (node if cell.mixture is None else node.sel(mixture=cell.mixture))["labels"].values
            if labels.min() >= 0:
                return np.asarray(labels, dtype=np.int64)
    return None
