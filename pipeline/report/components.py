"""What the classes of a cell are made of: samples and Gaussians in a plane of the coordinates chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from sweep_clustering.kernels.structure import DISCRIMINATIVE, Structure
from sweep_clustering.pipeline.report import look
from sweep_clustering.pipeline.scoring import components
from sweep_clustering.pipeline.work.records import Science
from sweep_clustering.sweeps.plan import AXES, Cell
from sweep_clustering.sweeps.unions import Gaussians

if TYPE_CHECKING:
    from sweep_clustering.storage.cube.manifest import Manifest

Floats = NDArray[np.float64]

# Deviations at which a Gaussian is drawn, and inches of the picture.
DEVIATIONS, SIDE = 1.5, 4.1

# Of a component in a sample, where all are far away.
TINY = 1e-12


class Gaussian(NamedTuple):
    """A component in a plane, and the class that it belongs to."""

    center: Floats
    covariance: Floats
    cluster: int


class Shown(NamedTuple):
    """Labels and Gaussians of a cell, and whether these are in the cube, or were fitted again."""

    labels: NDArray[np.int64]
    union: Gaussians
    is_stored: bool


def solution_of(tree: xr.DataTree, manifest: Manifest, cell: Cell) -> Shown:
    """What is drawn of a cell of classes of any shape."""
    node = tree[cell.dataset].to_dataset()
    one = node.sel({axis: getattr(cell, axis) for axis in AXES if axis in node.dims})
    labels = one["labels"].values.astype(np.int64)
    if (stored := components.gaussians_of(one)) is not None:
        return Shown(labels, stored, is_stored=True)
    # The solver is loaded where it is needed alone.
    from sweep_clustering.pipeline.work import tasks

    annotations = one["annotations"].values
    found = tasks.refit(
        Science.of(manifest.spec, manifest.plans[cell.dataset]),
        cell,
        one["X"].values.astype(np.float64),
        annotations[(annotations >= 0).all(axis=1)].astype(np.int32),
        Structure.of(one["structure"].values.tolist()),
    )
    return Shown(labels, tasks.gaussians_of(found(int(one["best_restart"]))), is_stored=False)


def in_a_plane(X: Floats, union: Gaussians) -> tuple[Floats, list[Gaussian]]:
    """Two coordinates of the fit; beside a single one, the principal component that it leaves."""
    Z, means, matrices = union.place(X), union.means, union.matrices
    if Z.shape[1] == 1:  # one direction: the other axis is the principal component of what it leaves
        rest = X - X.mean(axis=0)
        along = Z / np.linalg.norm(Z)
        rest = rest - along @ (along.T @ rest)
        side = rest @ np.linalg.svd(rest, full_matrices=False)[2][0]
        plane = np.column_stack([Z[:, 0], side])
        variances = matrices[:, 0, 0]
        shares = union.weights / np.sqrt(variances) * np.exp(-0.5 * np.square(Z - means[:, 0]) / variances)
        shares = (shares + TINY) / (shares + TINY).sum(axis=1, keepdims=True)
        height = (shares * side[:, None]).sum(axis=0) / shares.sum(axis=0)
        spread = float(side.var())
        centres = np.column_stack([means[:, 0], height])
        matrices = np.array([np.diag([each[0, 0], spread]) for each in matrices])
    elif union.structure.subspace == DISCRIMINATIVE or Z.shape[1] == 2:
        plane, centres, matrices = Z[:, :2], means[:, :2], matrices[:, :2, :2]
    else:
        axes = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2][:2].T
        plane, centres = Z @ axes, means @ axes
        matrices = np.array([axes.T @ each @ axes for each in matrices])
    found = zip(centres, matrices, union.class_of.tolist(), strict=True)
    return plane, [Gaussian(*each) for each in found]


def draw_ellipses(axes: Axes, gaussians: Sequence[Gaussian], colors: Sequence[str]) -> None:
    """Draw each Gaussian as an ellipse, in the colour of its class."""
    for each in gaussians:
        values, vectors = np.linalg.eigh(each.covariance)
        width, height = 2.0 * DEVIATIONS * np.sqrt(values[::-1])
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        edge: dict[str, Any] = {"fill": False, "edgecolor": colors[each.cluster], "linewidth": 1.2}
        axes.add_patch(Ellipse((each.center[0], each.center[1]), width, height, angle=angle, **edge))


def draw_components(
    X: Floats, labels: NDArray[np.int64], union: Gaussians, renamed: NDArray[np.int64]
) -> Figure:
    """Draw the samples of a solution and its components.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    labels : ndarray of shape (n_samples,)
        Cluster of each.
    union : Gaussians
        What was fitted.
    renamed : ndarray of shape (n_clusters,)
        Number of the colour of each cluster.
    """
    plane, gaussians = in_a_plane(X, union)
    colors = [look.CLASS_COLORS[code % len(look.CLASS_COLORS)] for code in renamed.tolist()]
    figure = Figure(figsize=(SIDE, SIDE), layout="constrained")
    axes = figure.subplots()
    for cluster in np.unique(labels).tolist():
        mark = look.CLASS_MARKERS[int(renamed[cluster]) % len(look.CLASS_MARKERS)]
        dots: dict[str, Any] = {"linestyle": "", "marker": mark, "markersize": 3.2, "alpha": 0.6}
        axes.plot(
            *plane[labels == cluster].T, color=colors[cluster], markeredgewidth=0, rasterized=True, **dots
        )
    draw_ellipses(axes, gaussians, colors)
    axes.set(xlabel="first coordinate", ylabel="second coordinate")
    axes.grid()
    return figure
