"""One cell as scatter plots: without annotations, with them, the truth, and the components of its classes.

`choose_cell` takes the cell, `read_cell` its data. `draw_matrix` draws one partition, in which wrong samples
and contradicted links are marked. `draw_components` draws classes of any shape.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Floats, estimate_accuracies
from sweep_clustering.kernels.structure import DISCRIMINATIVE
from sweep_clustering.pipeline import looks
from sweep_clustering.pipeline.report import figures
from sweep_clustering.pipeline.report.elements import Content, Part, are, subset
from sweep_clustering.pipeline.scoring.scores import gaussians_of
from sweep_clustering.pipeline.scoring.tables import row_cell
from sweep_clustering.pipeline.work.records import Chosen, Science
from sweep_clustering.storage.cube.manifest import Manifest
from sweep_clustering.sweeps.errors import plural, present, refused
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.inputs import cell_accuracies
from sweep_clustering.sweeps.plan import AXES, Cell, DatasetPlan, find_cell
from sweep_clustering.sweeps.words import BASELINES, CROWD, baseline_of, is_any

Labels = NDArray[np.int64]

# Inches of a panel, and of all panels of a row together if they are few.
PANEL = 1.05
LEAST_WIDTH = 3.0
# Letters of a line beside a panel.
LABEL_LETTERS = 13
# Inches of a line of the legend, which are added to those of the panels.
LEGEND_ROW = 0.2
# Points of a figure above which they are drawn as an image, because each would be an element of the SVG.
MOST_POINTS = 2500
# Samples from which points are small and see-through, in an image, so that it shows where they are dense.
MANY_SAMPLES = 1000
# Contradicted links that are marked. More of them, through the whole panel, would hide the samples.
MOST_LINKS = 60
# Name of the partition that is the truth.
TRUE = "true"
# Partitions in which contradicted links are marked: the solution that saw them, and the truth, which tells
# wrong ones.
LINKED = ("annotated", TRUE)
# Colour of marks within an image, which does not follow the page. It is visible on white and in the dark.
SHADE = "#858b93"
NO_CLUSTER = "no cluster"
# Name and line of each kind of link that a partition contradicts.
LINKS: dict[int, tuple[str, Literal["-", "--"]]] = {MUST: ("must-link", "-"), CANNOT: ("cannot-link", "--")}

# Features of a matrix. If there are more, it has those whose means differ most between the classes.
FEATURES = 6
# Data set of the published matrix, so that a report shows the same one.
PAPER_DATASET = "vertebral"
# Units of features, by scaling.
UNITS = {"none": "data units", "standard": "s.d.", "minmax": "of range"}

RING: dict[str, Any] = {
    "linestyle": "",
    "marker": "o",
    "markerfacecolor": "none",
    "markeredgecolor": looks.INK,
    "markeredgewidth": 0.8,
}

# Standard deviations at which a Gaussian is drawn, and inches of the picture of components.
DEVIATIONS = 1.5
SIDE = 4.1
# Least share of a component in a sample, which counts if all components are far away.
TINY = 1e-12


def partitions(content: Content) -> Iterator[Part]:
    """Yield the partitions of the chosen cell, and what colours and panels mean; nothing without a cell."""
    if content.cell is None:
        return
    figure, plan = read_cell(content.tree, content.cell), content.manifest.plans[content.cell.dataset]
    has_truth = TRUE in figure.partitions
    guide = "the classes that they share most samples with" if has_truth else "each other where they can"
    yield f"{figure.name}. Clusters have the colours of {guide}, matched one to one."
    if len(figure.features) < figure.X.shape[1]:
        group_noun = "classes" if has_truth else "clusters"
        count = f"{len(figure.features)} of {plural(figure.X.shape[1], 'feature')}"
        yield f"Shown are {count}: those whose means differ most between the {group_noun}."
    if content.cell.design == CROWD:
        yield crowd_words(content.tree, content.manifest.spec, content.cell)
    for key in figure.partitions:
        yield f"cell-{key}", draw_matrix(figure, key, UNITS[plan.scale]), figure.caption(key)
    if is_any(content.cell.model):
        place = _select(content.tree, content.cell.dataset, content.cell)
        labels, stored = place["labels"].values.astype(np.int64), gaussians_of(place)
        union = stored or _fit_again(place, content.manifest, content.cell)
        # a cluster without a sample keeps a colour that no other has
        colors = np.arange(plan.n_clusters)
        colors[labels] = figure.partitions["annotated"]
        text = (
            f"components: {figure.name}. Its classes are made of {union.structure}:"
            f" {plural(len(union.weights), 'Gaussian')} at {DEVIATIONS} standard deviations,"
            " in a plane of these coordinates"
        )
        text += "." if stored else ", fitted again: a cube of format 2 has none, and labels may differ."
        yield "cell-components", draw_components(figure.X, labels, union, colors), text


def crowd_words(tree: xr.DataTree, spec: SweepSpec, cell: Cell) -> str:
    """Say who annotated a cell of the design "crowd", and how well clusters tell their accuracies."""
    place, m = _select(tree, cell.dataset, cell), present(cell.m)
    annotations, annotators = place["annotations"].values[:m], place["annotator"].values[:m]
    accuracies = cell_accuracies(spec.seed, cell, spec.crowd)

    def error(name: str) -> float:
        i, j, kind = annotations[is_sure].T
        is_together = 1.0 * (place[name].values[i] == place[name].values[j])
        estimates = estimate_accuracies(annotators[is_sure], kind == MUST, np.ones(len(i)), is_together)
        return float(np.abs(estimates.accuracies - accuracies[estimates.annotators]).mean())

    is_sure = np.isin(annotations[:, 2], list(LINKS))
    quartiles = ", ".join(f"{value:.2f}" for value in np.quantile(accuracies.mean(axis=1), (0.25, 0.5, 0.75)))
    return (
        f"Its {plural(m, 'answer')}, {(~is_sure).sum()} of them unsure, are of"
        f" {plural(len(accuracies), 'annotator')}; the quartiles of their accuracies are {quartiles}. The two"
        " accuracies of an annotator, for pairs that belong together and for others, follow from the clusters"
        f" with a mean error of {error('labels'):.3f}, and from the true classes with"
        f" {error('labels_true'):.3f}."
    )


def named_cell(plans: Mapping[str, DatasetPlan], name: str) -> Cell:
    """Return the cell of a name such as `iris/p=0.9/m=75/replicate=0/posterior`.

    Raises
    ------
    InputError
        If no cell with annotations, and with data, has that name.
    """
    cell = find_cell(name, plans.values())
    if cell.p is None or plans[cell.dataset].left_out:
        expected = "a cell with annotations" if cell.p is None else "a cell of data that were not left out"
        raise refused("--cell", repr(name), expected)
    return cell


def choose_cell(cells: pd.DataFrame, request: Cell | None) -> Cell | None:
    """Return the cell that was asked for with `named_cell`, or the most informative one, if any is done.

    That is, among cells with annotations that are done, the published data set before other real ones and
    these before mixtures, then the model with priors, the highest accuracy, and m nearest to N.

    Raises
    ------
    InputError
        If the cell that was asked for is not done.
    """
    if request is not None:
        is_same = cells["model"] == request.model
        for key in ("dataset", *AXES):
            if (value := getattr(request, key)) is not None:
                is_same &= (cells[key] == value).fillna(False)
        if (status := cells.loc[is_same, "status"].iloc[0]) != "done":
            raise refused("--cell", f"{request}, which is {status}", "a cell that is done")
        return request
    rows = cells[(cells["status"] == "done") & cells["p"].notna()]
    if rows.empty:
        return None
    kinds = (rows["dataset"] != PAPER_DATASET, rows["mixture"].notna(), rows["model"] != "posterior")
    # the last key of a lexical sort is the first that counts
    order = np.lexsort(((rows["m_over_n"] - 1).abs(), -rows["p"], *kinds[::-1]))
    return row_cell(rows.iloc[order[0]])


def _select(tree: xr.DataTree, path: str, cell: Cell) -> xr.Dataset:
    """Select the place of a cell in a node."""
    node = tree[path].to_dataset()
    return node.sel({axis: getattr(cell, axis) for axis in AXES if axis in node.dims})


def read_cell(tree: xr.DataTree, cell: Cell) -> CellFigure:
    """Read features and labels of a cell, and nothing else of the cube."""
    place = _select(tree, cell.dataset, cell)

    def names(name: str) -> tuple[str, ...]:
        return tuple(map(str, place[name].values)) if name in place.coords else ()

    sources = {"annotated": "labels", TRUE: "labels_true"}
    partitions = {key: place[name].values.astype(np.int64) for key, name in sources.items() if name in place}
    guide = partitions.get(TRUE, partitions["annotated"])
    # a baseline that is done, if possible with the same shape
    for model in sorted(BASELINES, key=lambda name: name != baseline_of(cell.model)):
        if model in tree[cell.dataset].children:
            labels = _select(tree, f"{cell.dataset}/{model}", cell)["labels"].values
            if labels.min() >= 0:
                partitions = {"unsupervised": labels.astype(np.int64), **partitions}
                break
    X = place["X"].values.astype(np.float64)
    links = place["annotations"].values.astype(np.int64).reshape(-1, 3)
    return CellFigure(
        name=str(cell),
        X=X,
        features=most_separating(X, guide),
        partitions={key: match(labels, guide) for key, labels in partitions.items()},
        links=links[np.isin(links[:, 2], list(LINKS))],
        feature_names=names("feature"),
        class_names=tuple(map(str, place.attrs.get("class_names", ()))),
        sample_names=names("sample"),
    )


def match(labels: Labels, guide: Labels) -> Labels:
    """Rename labels one to one so that as many samples as possible have that of the guide; -1 stays."""
    size = max(0, int(max(labels.max(), guide.max()))) + 1
    counts, is_labelled = np.zeros((size, size)), (labels >= 0) & (guide >= 0)
    np.add.at(counts, (labels[is_labelled], guide[is_labelled]), 1)
    # scipy.optimize has the same matching, and takes a fifth of a second to load; a sparse zero is no edge
    _, names = min_weight_full_bipartite_matching(csr_array(counts + 1), maximize=True)
    return np.where(labels >= 0, np.asarray(names)[labels], -1).astype(np.int64)


def most_separating(X: Floats, labels: Labels) -> tuple[int, ...]:
    """Return the columns with the largest share of variance between the labels, in rising order."""
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
        Name of the cell.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    features : tuple of int
        Columns of `X` that are drawn, from 0.
    partitions : dict of str to ndarray of shape (n_samples,)
        Labels by their source. Codes agree with those of `TRUE` as far as they can one to one; -1 is none.
    links : ndarray of shape (n_links, 3)
        Annotations of the cell: samples i and j, kind 0 must-link, 1 cannot-link.
    feature_names, class_names, sample_names : tuple of str
        Names of all columns and rows of `X` and of true labels; empty if the cube has no names.
    """

    name: str
    X: Floats
    features: tuple[int, ...]
    partitions: dict[str, Labels]
    links: Labels = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    feature_names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    sample_names: tuple[str, ...] = ()

    def feature(self, column: int) -> str:
        """Return the name of a feature, cut to a panel's width, or its number from 1."""
        if not self.feature_names:
            return f"feature {column + 1}"
        return figures.short(self.feature_names[column], 20, self.feature_names)

    def label(self, key: str, code: int) -> str:
        """Return the class that a label is, or is matched to, by name or by number from 1."""
        if code < 0:
            return NO_CLUSTER
        if TRUE in self.partitions and code < len(self.class_names):
            return figures.short(self.class_names[code], other_names=self.class_names)
        return f"{'class' if key == TRUE else 'cluster'} {code + 1}"

    def sample(self, row: int) -> str:
        """Return the name of a sample, or its number from 1, as tables of labels have it."""
        return self.sample_names[row] if self.sample_names else f"sample {row + 1}"

    def wrong(self, key: str) -> Labels:
        """Return the rows whose cluster is matched to another class than theirs; none without a truth."""
        truth = self.partitions.get(TRUE, np.full(len(self.X), -1))
        return np.flatnonzero((self.partitions[key] != truth) & (truth >= 0))

    def contradicted(self, key: str) -> Labels:
        """Return the must-links across clusters of a partition, and the cannot-links within one."""
        i, j, kind = self.links.T
        is_together = self.partitions[key][i] == self.partitions[key][j]
        links: Labels = self.links[is_together != (kind == MUST)]
        return links

    def marked_links(self, key: str) -> dict[int, Labels]:
        """Return a subset of the contradicted links of each kind, if the partition has them marked."""
        links = self.contradicted(key) if key in LINKED else self.links[:0]
        links = links[subset(range(len(links)), MOST_LINKS)]
        return {kind: links[links[:, 2] == kind] for kind in LINKS if (links[:, 2] == kind).any()}

    def caption(self, key: str) -> str:
        """Return what a figure of a partition shows, with the counts of its marks.

        The solution without annotations saw no links, so none are marked in it.
        """
        parts, marks = [f"{key}: {self.name}"], []
        if TRUE in self.partitions and key != TRUE:
            n_true = int((self.partitions[TRUE] >= 0).sum())
            marks.append((len(self.wrong(key)), plural(n_true, "sample"), "wrong", "a ring"))
        if len(self.links) and key in LINKED:
            links = plural(len(self.links), "link")
            marks.append((len(self.contradicted(key)), links, "contradicted", "a line"))
        for count, total, fault, mark in marks:
            mark_text = f", marked by {mark}" if count else ""
            limit = f" ({MOST_LINKS:,} of them)" if fault == "contradicted" and count > MOST_LINKS else ""
            parts.append(f"{count:,} of {total} {are(count)} {fault}{mark_text}{limit}")
        return "; ".join(parts) + "."


def draw_matrix(cell: CellFigure, key: str, unit: str) -> Figure:
    """Draw one partition of a cell, with a panel for each pair of features, whose unit stands beside them."""
    features, labels = cell.features, cell.partitions[key]
    size = max(1, len(features) - 1)
    is_image = len(labels) >= MANY_SAMPLES or len(labels) * size * (size + 1) / 2 > MOST_POINTS
    handles = list(_handles(cell, key))
    longest = max(len(str(handle.get_label())) for handle in handles)
    width, height = (max(PANEL, LEAST_WIDTH / size) * size + 0.9,) * 2
    columns = int(width / max(figures.LEGEND_WIDTH / 2, figures.HANDLE + figures.LETTER * longest))
    columns = max(1, min(len(handles), columns))
    height += LEGEND_ROW * ceil(len(handles) / columns)
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(size, size, squeeze=False, sharex="col", sharey="row")
    for (row, column), axes in np.ndenumerate(grid):
        if column > row:
            axes.remove()
            continue
        x_feature, y_feature = features[column], features[min(row + 1, len(features) - 1)]
        _panel(axes, cell, key, (x_feature, y_feature), is_image=is_image)
        if row == size - 1:
            axes.set_xlabel(_axis_label(cell.feature(x_feature), unit), fontsize="small")
        if column == 0:
            axes.set_ylabel(_axis_label(cell.feature(y_feature), unit), fontsize="small")
    figure.legend(handles=handles, ncols=columns, loc="outside lower center", handletextpad=0.5)
    return figure


def _axis_label(feature: str, unit: str) -> str:
    """Return a feature and its unit in lines that a panel has room for."""
    return textwrap.fill(f"{feature} ({unit})", LABEL_LETTERS)


def _panel(axes: Axes, cell: CellFigure, key: str, pair: tuple[int, int], *, is_image: bool) -> None:
    labels, is_large = cell.partitions[key], len(cell.X) >= MANY_SAMPLES
    x, y = cell.X[:, pair].T
    for kind, links in cell.marked_links(key).items():
        name, style = LINKS[kind]
        # one path for all: a gap after each link
        ends, gap = links[:, [0, 1, 0]], np.array([0.0, 0.0, np.nan])
        line_x, line_y = ((coordinates[ends] + gap).ravel() for coordinates in (x, y))
        (line,) = axes.plot(line_x, line_y, linestyle=style, alpha=0.8, rasterized=is_image)
        line.set(color=SHADE if is_image else looks.GREY, linewidth=0.6 if is_large else 0.8)
        if not is_image:
            middle = ends[:, :2]
            tips = [f"{cell.sample(i)} and {cell.sample(j)}: contradicted {name}" for i, j in middle]
            figures.points(axes, x[middle].mean(axis=1), y[middle].mean(axis=1), tips)
    for label in np.unique(labels):
        (points,) = axes.plot(
            x[labels == label], y[labels == label], **_look(int(label)), rasterized=is_image
        )
        # white edges of an image would stay white in the dark
        points.set(markeredgewidth=0 if is_image else 0.3)
        points.set(markersize=2.6 if is_large else 3.6, alpha=0.4 if is_large else 0.85)
    if len(wrong := cell.wrong(key)):
        (rings,) = axes.plot(x[wrong], y[wrong], **RING, rasterized=is_image)
        rings.set(markeredgecolor=SHADE if is_image else looks.INK)
        rings.set(markersize=4.4 if is_large else 6.4, alpha=0.6 if is_large else 1.0)
        if not is_image:
            clusters, classes = (
                [cell.label(name, cell.partitions[name][row]) for row in wrong] for name in (key, TRUE)
            )
            names = zip(wrong, clusters, classes, strict=True)
            figures.hover(
                rings, [f"{cell.sample(row)}: in {cluster}, truly {label}" for row, cluster, label in names]
            )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=3))
    axes.grid()


def _handles(cell: CellFigure, key: str) -> Iterator[Line2D]:
    """Yield the entries of the legend: labels, then marks."""
    for code in np.unique(cell.partitions[key]).tolist():
        yield Line2D([], [], **_look(code), markersize=5.8, label=cell.label(key, code))
    if len(cell.wrong(key)):
        yield Line2D([], [], label="wrong sample", markersize=7, **RING)
    for name, line in (LINKS[kind] for kind in cell.marked_links(key)):
        yield Line2D([], [], color=looks.GREY, linewidth=1.0, linestyle=line, label=f"contradicted {name}")


def _look(code: int) -> dict[str, Any]:
    colors, markers = looks.CLASS_COLORS, looks.CLASS_MARKERS
    marker, color = (".", SHADE) if code < 0 else (markers[code % len(markers)], colors[code % len(colors)])
    return {"linestyle": "", "marker": marker, "color": color, "markeredgecolor": looks.PAPER}


class Gaussian(NamedTuple):
    """A component in a plane, and the class that it belongs to."""

    center: Floats
    covariance: Floats
    cluster: int


def _fit_again(place: xr.Dataset, manifest: Manifest, cell: Cell) -> Gaussians:
    """Return the Gaussians of a cell of classes of any shape, from its best restart."""
    # The solver is loaded only if it is needed.
    from sweep_clustering.pipeline.work import tasks

    science = Science.of(manifest.spec, manifest.plans[cell.dataset])
    annotations = place["annotations"].values
    solver = tasks.solver_of(
        science,
        cell,
        place["X"].values.astype(np.float64),
        annotations[(annotations >= 0).all(axis=1)].astype(np.int32),
        Chosen("spherical", (), (), structure=tuple(place["structure"].values.tolist())),
    )
    return present(solver.restart(tasks.stream_of(science, cell, int(place["best_restart"]))).gaussians)


def in_a_plane(X: Floats, union: Gaussians) -> tuple[Floats, list[Gaussian]]:
    """Place samples and Gaussians in two coordinates of the fit, or in one and a component of the rest."""
    Z, means, matrices = union.place(X), union.means, union.matrices
    if Z.shape[1] == 1:
        residuals = X - X.mean(axis=0)
        direction = Z / np.linalg.norm(Z)
        residuals = residuals - direction @ (direction.T @ residuals)
        side = residuals @ np.linalg.svd(residuals, full_matrices=False)[2][0]
        plane = np.column_stack([Z[:, 0], side])
        variances = matrices[:, 0, 0]
        shares = union.weights / np.sqrt(variances) * np.exp(-0.5 * np.square(Z - means[:, 0]) / variances)
        shares = (shares + TINY) / (shares + TINY).sum(axis=1, keepdims=True)
        height = (shares * side[:, None]).sum(axis=0) / shares.sum(axis=0)
        centers = np.column_stack([means[:, 0], height])
        matrices = np.array([np.diag([variance, float(side.var())]) for variance in variances])
    elif union.structure.subspace == DISCRIMINATIVE or Z.shape[1] == 2:
        plane, centers, matrices = Z[:, :2], means[:, :2], matrices[:, :2, :2]
    else:
        axes = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2][:2].T
        plane, centers = Z @ axes, means @ axes
        matrices = np.array([axes.T @ matrix @ axes for matrix in matrices])
    return plane, list(map(Gaussian, centers, matrices, union.class_of.tolist()))


def draw_ellipses(axes: Axes, gaussians: Sequence[Gaussian], colors: Sequence[str]) -> None:
    """Draw each Gaussian as an ellipse, in the colour of its class."""
    for gaussian in gaussians:
        values, vectors = np.linalg.eigh(gaussian.covariance)
        width, height = 2.0 * DEVIATIONS * np.sqrt(values[::-1])
        ellipse = Ellipse((gaussian.center[0], gaussian.center[1]), width, height)
        ellipse.set_angle(float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))))
        ellipse.set(fill=False, edgecolor=colors[gaussian.cluster], linewidth=1.2)
        axes.add_patch(ellipse)


def draw_components(X: Floats, labels: Labels, union: Gaussians, codes: Labels) -> Figure:
    """Draw the samples and the components of a solution.

    `codes` has the number of the colour of each cluster.
    """
    plane, gaussians = in_a_plane(X, union)
    colors = [looks.CLASS_COLORS[code % len(looks.CLASS_COLORS)] for code in codes.tolist()]
    figure, axes = figures.panel(SIDE, SIDE)
    for cluster in np.unique(labels).tolist():
        mark = looks.CLASS_MARKERS[int(codes[cluster]) % len(looks.CLASS_MARKERS)]
        (points,) = axes.plot(
            *plane[labels == cluster].T, color=colors[cluster], linestyle="", rasterized=True
        )
        points.set(marker=mark, markersize=3.2, alpha=0.6, markeredgewidth=0)
    draw_ellipses(axes, gaussians, colors)
    axes.set(xlabel="first coordinate", ylabel="second coordinate")
    axes.grid()
    return figure
