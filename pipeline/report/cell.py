"""One cell as scatter plots: which one; without annotations, with them, and the truth.

`choose_cell` takes the cell, `read_cell` what is drawn of it; `draw_matrix` draws one partition, in which
wrong samples and contradicted links are marked.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import look
from sweep_clustering.pipeline.report.components import DEVIATIONS, draw_components, solution_of
from sweep_clustering.pipeline.report.content import Content, Part
from sweep_clustering.pipeline.report.elements import are, spread
from sweep_clustering.pipeline.scoring.tables import row_cell
from sweep_clustering.sweeps.errors import InputError, Problem
from sweep_clustering.sweeps.plan import AXES, Cell, DatasetPlan, find_cell
from sweep_clustering.sweeps.words import BASELINES, baseline_of, is_any

Labels = NDArray[np.int64]

# Inches of a panel, and of all panels of a row together where they are few.
PANEL, LEAST_WIDTH = 1.05, 3.0
# Letters of a line beside a panel.
LABEL_LETTERS = 13
# Inches of a line of the legend, which the panels do not pay for.
LEGEND_ROW = 0.2
# Points of a figure above which they are drawn as an image, as each would be an element of the SVG.
MOST_POINTS = 2500
# Samples from which they are small and see-through, in an image, so that it shows where they are dense.
MANY = 1000
# Name of the partition that is the truth.
TRUE = "true"
# Contradicted links that are marked: more of them, through the whole panel, would hide the samples.
MOST_LINKS = 60
# Of marks within an image, which does not follow the page: seen on white and in the dark.
SHADE = "#858b93"
NO_CLUSTER = "no cluster"
MUST, CANNOT = 0, 1
# Name and line of each kind of link that a partition contradicts.
LINKS: dict[int, tuple[str, Literal["-", "--"]]] = {MUST: ("must-link", "-"), CANNOT: ("cannot-link", "--")}

# Features of a matrix; of more, those are taken whose means differ most between the classes.
FEATURES = 6
# Data set of the published matrix, so that a report shows the same one.
PAPER_DATASET = "vertebral"
# Units of features, by scaling.
UNITS = {"none": "data units", "standard": "s.d.", "minmax": "of range"}

RING: dict[str, Any] = {"linestyle": "", "marker": "o", "markerfacecolor": "none"}
RING |= {"markeredgecolor": look.INK, "markeredgewidth": 0.8}
# Where contradicted links are marked: the solution that saw them, and the truth, which tells wrong ones.
LINKED = ("annotated", TRUE)


def partitions(content: Content) -> Iterator[Part]:
    """The partitions of the chosen cell, and what colours and panels are; nothing without a cell."""
    if content.cell is None:
        return
    shown = read_cell(content.tree, content.cell)
    known = TRUE in shown.partitions
    guide = "the classes that they share most samples with" if known else "each other where they can"
    yield f"{shown.name}. Clusters have the colours of {guide}, matched one to one."
    if len(shown.features) < shown.X.shape[1]:
        by = "classes" if known else "clusters"
        count = f"{len(shown.features)} of {plural(shown.X.shape[1], 'feature')}"
        yield f"Shown are {count}: those whose means differ most between the {by}."
    unit = UNITS[content.manifest.plans[content.cell.dataset].scale]
    for key in shown.partitions:
        yield f"cell-{key}", draw_matrix(shown, key, unit), shown.caption(key)
    if is_any(content.cell.model):
        labels, union, is_stored = solution_of(content.tree, content.manifest, content.cell)
        # a cluster without a sample keeps a colour that no other has
        renamed = np.arange(content.manifest.plans[content.cell.dataset].n_clusters)
        renamed[labels] = shown.partitions["annotated"]
        many = plural(len(union.weights), "Gaussian")
        text = (
            f"components: {shown.name}. Its classes are made of {union.structure}: {many} at"
            f" {DEVIATIONS} standard deviations, in a plane of these coordinates"
        )
        text += "." if is_stored else ", fitted again: a cube of format 2 has none, and labels may differ."
        yield "cell-components", draw_components(shown.X, labels, union, renamed), text


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
        same = cells["model"] == named.model
        for key in ("dataset", *AXES):
            if (value := getattr(named, key)) is not None:
                same &= (cells[key] == value).fillna(False)
        if (status := cells.loc[same, "status"].iloc[0]) != "done":
            raise InputError([Problem("--cell", f"{named}, which is {status}", "a cell that is done")])
        return named
    rows = cells[(cells["status"] == "done") & cells["p"].notna()]
    if rows.empty:
        return None
    kinds = (rows["dataset"] != PAPER_DATASET, rows["mixture"].notna(), rows["model"] != "posterior")
    # the last key of a lexical sort is the first that counts
    order = np.lexsort(((rows["m_over_n"] - 1).abs(), -rows["p"], *kinds[::-1]))
    return row_cell(rows.iloc[order[0]])


def read_cell(tree: xr.DataTree, cell: Cell) -> CellFigure:
    """Read what is drawn of a cell: its features and labels, nothing else of the cube."""

    def of_cell(path: str) -> xr.Dataset:
        node = tree[path].to_dataset()
        return node.sel({axis: getattr(cell, axis) for axis in AXES if axis in node.dims})

    def named(name: str) -> tuple[str, ...]:
        return tuple(map(str, one[name].values)) if name in one.coords else ()

    one = of_cell(cell.dataset)
    given = {"annotated": "labels", TRUE: "labels_true"}
    partitions = {key: one[name].values.astype(np.int64) for key, name in given.items() if name in one}
    guide = partitions.get(TRUE, partitions["annotated"])
    # a baseline that is done, of the same shape if there is one
    for model in sorted(BASELINES, key=lambda name: name != baseline_of(cell.model)):
        if model in tree[cell.dataset].children:
            labels = of_cell(f"{cell.dataset}/{model}")["labels"].values
            if labels.min() >= 0:
                partitions = {"unsupervised": labels.astype(np.int64), **partitions}
                break
    X, links = one["X"].values.astype(np.float64), one["annotations"].values.astype(np.int64).reshape(-1, 3)
    return CellFigure(
        name=str(cell),
        X=X,
        features=most_separating(X, guide),
        partitions={key: match(labels, guide) for key, labels in partitions.items()},
        links=links[(links >= 0).all(axis=1)],
        feature_names=named("feature"),
        class_names=tuple(map(str, one.attrs.get("class_names", ()))),
        sample_names=named("sample"),
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


@dataclass(frozen=True)
class CellFigure:
    """A cell to be drawn.

    Parameters
    ----------
    name : str
        Of the cell.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    features : tuple of int
        Columns of `X` that are drawn, from 0.
    partitions : dict of str to ndarray of shape (n_samples,)
        Labels by what they are; codes agree with those of `TRUE` as far as they can one to one. -1 is none.
    links : ndarray of shape (n_links, 3)
        Annotations of the cell: samples i and j, kind 0 must-link, 1 cannot-link.
    feature_names, class_names, sample_names : tuple of str
        Of all columns of `X`, of true labels, and of the rows of `X`; empty if the cube has no names.
    """

    name: str
    X: NDArray[np.float64]
    features: tuple[int, ...]
    partitions: dict[str, Labels]
    links: Labels = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    feature_names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    sample_names: tuple[str, ...] = ()

    def feature(self, column: int) -> str:
        """A feature by its name, cut to a panel's width, or by its number from 1."""
        if not self.feature_names:
            return f"feature {column + 1}"
        return look.short(self.feature_names[column], 20, self.feature_names)

    def label(self, key: str, code: int) -> str:
        """A label of a partition: the class that it is, or is matched to, by name or by number from 1."""
        if code < 0:
            return NO_CLUSTER
        if TRUE in self.partitions and code < len(self.class_names):
            return look.short(self.class_names[code], among=self.class_names)
        return f"{'class' if key == TRUE else 'cluster'} {code + 1}"

    def sample(self, row: int) -> str:
        """A sample by its name, or by its number from 1, as tables of labels have it."""
        return self.sample_names[row] if self.sample_names else f"sample {row + 1}"

    def wrong(self, key: str) -> Labels:
        """Rows of the samples whose cluster is matched to another class than theirs; none without a truth."""
        truth = self.partitions.get(TRUE, np.full(len(self.X), -1))
        return np.flatnonzero((self.partitions[key] != truth) & (truth >= 0))

    def contradicted(self, key: str) -> Labels:
        """Links that a partition contradicts: must-links across clusters, cannot-links within one."""
        i, j, kind = self.links.T
        together = self.partitions[key][i] == self.partitions[key][j]
        found: Labels = self.links[together != (kind == MUST)]
        return found

    def caption(self, key: str) -> str:
        """What a figure of a partition shows, with the counts of what is marked in it.

        Of the solution without annotations, which saw no links, none are marked.
        """
        parts, marks = [f"{key}: {self.name}"], []
        if TRUE in self.partitions and key != TRUE:
            known = int((self.partitions[TRUE] >= 0).sum())
            marks.append((len(self.wrong(key)), plural(known, "sample"), "wrong", "a ring"))
        if len(self.links) and key in LINKED:
            marks.append(
                (len(self.contradicted(key)), plural(len(self.links), "link"), "contradicted", "a line")
            )
        for count, of, what, mark in marks:
            marked = f", marked by {mark}" if count else ""
            some = f" ({MOST_LINKS:,} of them)" if what == "contradicted" and count > MOST_LINKS else ""
            parts.append(f"{count:,} of {of} {are(count)} {what}{marked}{some}")
        return "; ".join(parts) + "."


def draw_matrix(shown: CellFigure, key: str, unit: str) -> Figure:
    """Draw one partition: a panel for each pair of features, coloured and marked by label.

    Parameters
    ----------
    shown : CellFigure
        The cell.
    key : str
        One of its partitions.
    unit : str
        Of the features.
    """
    chosen, labels = shown.features, shown.partitions[key]
    size = max(1, len(chosen) - 1)
    as_image = len(labels) >= MANY or len(labels) * size * (size + 1) / 2 > MOST_POINTS
    handles = list(_handles(shown, key))
    longest = max(len(str(each.get_label())) for each in handles)
    width, height = (max(PANEL, LEAST_WIDTH / size) * size + 0.9,) * 2
    columns = int(width / max(look.LEGEND_WIDTH / 2, look.HANDLE + look.LETTER * longest))
    columns = max(1, min(len(handles), columns))
    height += LEGEND_ROW * ceil(len(handles) / columns)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(size, size, squeeze=False, sharex="col", sharey="row")
    for (row, column), axes in np.ndenumerate(grid):
        if column > row:
            axes.remove()
            continue
        across, up = chosen[column], chosen[min(row + 1, len(chosen) - 1)]
        _panel(axes, shown, key, (across, up), as_image=as_image)
        if row == size - 1:
            axes.set_xlabel(_name(shown.feature(across), unit), fontsize="small")
        if column == 0:
            axes.set_ylabel(_name(shown.feature(up), unit), fontsize="small")
    place: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "handletextpad": 0.5}
    figure.legend(handles=handles, ncols=columns, **place)
    return figure


def _name(feature: str, unit: str) -> str:
    """A feature and its unit in lines that a panel has room for."""
    return textwrap.fill(f"{feature} ({unit})", LABEL_LETTERS)


def _panel(axes: Axes, shown: CellFigure, key: str, pair: tuple[int, int], *, as_image: bool) -> None:
    labels, many = shown.partitions[key], len(shown.X) >= MANY
    x, y = shown.X[:, pair].T
    lines: dict[str, Any] = {"color": SHADE if as_image else look.GREY, "linewidth": 0.6 if many else 0.8}
    for kind, links in _links(shown, key).items():
        name, style = LINKS[kind]
        # one path for all: a gap after each link
        ends, gap = links[:, [0, 1, 0]], np.array([0.0, 0.0, np.nan])
        across, up = ((along[ends] + gap).ravel() for along in (x, y))
        (line,) = axes.plot(across, up, linestyle=style, alpha=0.8, rasterized=as_image)
        line.set(**lines)
        if not as_image:
            middle = ends[:, :2]
            told = [f"{shown.sample(i)} and {shown.sample(j)}: contradicted {name}" for i, j in middle]
            look.hover_unseen(axes, x[middle].mean(axis=1), y[middle].mean(axis=1), told)
    # white edges of an image would stay white in the dark
    dots: dict[str, Any] = {"markeredgewidth": 0 if as_image else 0.3, "markersize": 2.6 if many else 3.6}
    dots |= {"alpha": 0.4 if many else 0.85, "rasterized": as_image}
    for label in np.unique(labels):
        axes.plot(x[labels == label], y[labels == label], **_look(int(label)), **dots)
    if len(wrong := shown.wrong(key)):
        edge = {"markeredgecolor": SHADE if as_image else look.INK, "rasterized": as_image}
        size = {"markersize": 4.4 if many else 6.4, "alpha": 0.6 if many else 1.0}
        (rings,) = axes.plot(x[wrong], y[wrong], **RING | edge | size)
        if not as_image:
            found, truth = (
                [shown.label(name, shown.partitions[name][at]) for at in wrong] for name in (key, TRUE)
            )
            names = zip(wrong, found, truth, strict=True)
            look.hover(rings, [f"{shown.sample(at)}: in {one}, truly {other}" for at, one, other in names])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=3))
    axes.grid()


def _links(shown: CellFigure, key: str) -> dict[int, Labels]:
    """Contradicted links of each kind that has any, some of many, where they are marked."""
    links = shown.contradicted(key) if key in LINKED else shown.links[:0]
    links = links[spread(range(len(links)), MOST_LINKS)]
    return {kind: links[links[:, 2] == kind] for kind in LINKS if (links[:, 2] == kind).any()}


def _handles(shown: CellFigure, key: str) -> Iterator[Line2D]:
    """Entries of the legend: labels, then what is marked."""
    for code in np.unique(shown.partitions[key]).tolist():
        yield Line2D([], [], **_look(code), markersize=5.8, label=shown.label(key, code))
    if len(shown.wrong(key)):
        yield Line2D([], [], label="wrong sample", markersize=7, **RING)
    for name, line in (LINKS[kind] for kind in _links(shown, key)):
        yield Line2D([], [], color=look.GREY, linewidth=1.0, linestyle=line, label=f"contradicted {name}")


def _look(code: int) -> dict[str, Any]:
    colors, markers = look.CLASS_COLORS, look.CLASS_MARKERS
    marker, color = (".", SHADE) if code < 0 else (markers[code % len(markers)], colors[code % len(colors)])
    return {"linestyle": "", "marker": marker, "color": color, "markeredgecolor": look.PAPER}
