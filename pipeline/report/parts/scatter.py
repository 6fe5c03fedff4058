"""Scatter-plot matrices of one partition, in which wrong samples and contradicted links are marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pipeline.common import plural
from pipeline.report.parts.ink import (
    CLASS_COLORS,
    CLASS_MARKERS,
    GREY,
    HANDLE,
    INK,
    LEGEND_WIDTH,
    LETTER,
    PAPER,
    hover,
    hover_unseen,
    short,
)
from pipeline.report.parts.parts import spread

Labels = NDArray[np.int64]

PANEL, LEAST_WIDTH = 1.35, 3.0
"""Inches of a panel, and of all panels of a row together where they are few."""
LEGEND_ROW = 0.2
"""Inches of a line of the legend, which the panels do not pay for."""
MOST_POINTS = 2500
"""Points of a figure above which they are drawn as an image, as each would be an element of the SVG."""
MANY = 1000
"""Samples from which they are small and see-through, in an image, so that it shows where they are dense."""
TRUE = "true"
"""Name of the partition that is the truth."""
MOST_LINKS = 60
"""Contradicted links that are marked: more of them, through the whole panel, would hide the samples."""
SHADE = "#858b93"
"""Of marks within an image, which does not follow the page: seen on white and in the dark."""
NO_CLUSTER = "no cluster"
MUST, CANNOT = 0, 1
LINKS: dict[int, tuple[str, Literal["-", "--"]]] = {MUST: ("must-link", "-"), CANNOT: ("cannot-link", "--")}
"""Name and line of each kind of link that a partition contradicts."""


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
        return short(self.feature_names[column], longest=20)

    def label(self, key: str, code: int) -> str:
        """A label of a partition: the class that it is, or is matched to, by name or by number from 1."""
        if code < 0:
            return NO_CLUSTER
        if TRUE in self.partitions and code < len(self.class_names):
            return short(self.class_names[code])
        return f"{'class' if key == TRUE else 'cluster'} {code + 1}"

    def sample(self, row: int) -> str:
        """A sample by its name, or by its number from 1, as tables of labels have it."""
        return self.sample_names[row] if self.sample_names else f"sample {row + 1}"

    def wrong(self, key: str) -> Labels:
        """Rows of the samples whose cluster is matched to another class than theirs; none without a truth."""
        truth = self.partitions.get(TRUE)
        if truth is None:
            return np.empty(0, dtype=np.int64)
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
        parts = [f"{key}: {self.name}"]
        if TRUE in self.partitions and key != TRUE:
            wrong, known = len(self.wrong(key)), int((self.partitions[TRUE] >= 0).sum())
            parts.append(_counted(wrong, plural(known, "sample"), "wrong", "a ring"))
        if len(self.links) and key in LINKED:
            of = plural(len(self.links), "link")
            found = len(self.contradicted(key))
            said = _counted(found, of, "contradicted", "a line")
            parts.append(said if found <= MOST_LINKS else f"{said} ({MOST_LINKS:,} of them)")
        return "; ".join(parts) + "."


RING: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 0.8}
LINKED = ("annotated", TRUE)
"""Where contradicted links are marked: the solution that saw them, and the truth, which tells wrong ones."""


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
    panel = max(PANEL, LEAST_WIDTH / size)
    as_image = len(labels) >= MANY or len(labels) * size * (size + 1) / 2 > MOST_POINTS
    handles = list(_handles(shown, key))
    width = panel * size + 0.9
    entry = max(LEGEND_WIDTH / 2, HANDLE + LETTER * max(len(str(each.get_label())) for each in handles))
    columns = max(1, min(len(handles), int(width / entry)))
    rows = ceil(len(handles) / columns)
    figure = Figure(figsize=(width, panel * size + 0.9 + LEGEND_ROW * rows), layout="constrained")
    grid = figure.subplots(size, size, squeeze=False, sharex="col", sharey="row")
    for row in range(size):
        for column in range(size):
            axes = grid[row][column]
            if column > row:
                axes.remove()
                continue
            across, up = chosen[column], chosen[min(row + 1, len(chosen) - 1)]
            _panel(axes, shown, key, (across, up), as_image=as_image)
            if row == size - 1:
                axes.set_xlabel(f"{shown.feature(across)}\n({unit})")
            if column == 0:
                axes.set_ylabel(f"{shown.feature(up)}\n({unit})")
    figure.legend(
        handles=handles, loc="outside lower center", ncols=columns, frameon=False, handletextpad=0.5
    )
    return figure


def _panel(axes: Axes, shown: CellFigure, key: str, pair: tuple[int, int], *, as_image: bool) -> None:
    labels = shown.partitions[key]
    x, y = shown.X[:, pair[0]], shown.X[:, pair[1]]
    many = len(labels) >= MANY
    for kind, links in _links(shown, key):
        # one path for all: a gap after each link
        ends = np.column_stack([links[:, :2], links[:, 0]])
        gap = np.where(np.arange(3) < 2, 0.0, np.nan)
        (line,) = axes.plot((x[ends] + gap).ravel(), (y[ends] + gap).ravel(), linestyle=LINKS[kind][1])
        line.set(color=SHADE if as_image else GREY, linewidth=0.6 if many else 0.8)
        line.set(alpha=0.8, rasterized=as_image)
        if not as_image:
            middle = ends[:, :2]
            told = [
                f"{shown.sample(i)} and {shown.sample(j)}: contradicted {LINKS[kind][0]}" for i, j in middle
            ]
            hover_unseen(axes, x[middle].mean(axis=1), y[middle].mean(axis=1), told)
    for label in np.unique(labels):
        (points,) = axes.plot(x[labels == label], y[labels == label], **_look(int(label)))
        points.set(
            # White edges of an image would stay white in the dark.
            markeredgewidth=0 if as_image else 0.3,
            markersize=2.6 if many else 3.6,
            alpha=0.4 if many else 0.85,
            rasterized=as_image,
        )
    wrong = shown.wrong(key)
    if len(wrong):
        (rings,) = axes.plot(x[wrong], y[wrong], linestyle="", marker="o")
        rings.set(**RING, markersize=4.4 if many else 6.4, alpha=0.6 if many else 1.0)
        if as_image:
            rings.set(markeredgecolor=SHADE, rasterized=True)
        else:
            hover(rings, [_mistake(shown, key, int(row)) for row in wrong])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
    axes.grid()


def _mistake(shown: CellFigure, key: str, row: int) -> str:
    found, truth = (shown.label(name, int(shown.partitions[name][row])) for name in (key, TRUE))
    return f"{shown.sample(row)}: in {found}, truly {truth}"


def _links(shown: CellFigure, key: str) -> Iterator[tuple[int, Labels]]:
    """Contradicted links of each kind that has any, where they are marked."""
    links = shown.contradicted(key) if key in LINKED else shown.links[:0]
    links = links[spread(range(len(links)), MOST_LINKS)]
    for kind in LINKS:
        if (links[:, 2] == kind).any():
            yield kind, links[links[:, 2] == kind]


def _handles(shown: CellFigure, key: str) -> Iterator[Line2D]:
    """Entries of the legend: labels, then what is marked."""
    for code in np.unique(shown.partitions[key]).tolist():
        yield Line2D([], [], **_look(code), markersize=5.8, label=shown.label(key, code))
    if len(shown.wrong(key)):
        (ring := Line2D([], [], linestyle="", marker="o", label="wrong sample")).set(**RING, markersize=7)
        yield ring
    for kind, _ in _links(shown, key):
        name, line = LINKS[kind]
        yield Line2D([], [], color=GREY, linewidth=1.0, linestyle=line, label=f"contradicted {name}")


def _look(code: int) -> dict[str, Any]:
    if code < 0:
        return {"linestyle": "", "marker": ".", "color": SHADE, "markeredgecolor": PAPER}
    marker, color = CLASS_MARKERS[code % len(CLASS_MARKERS)], CLASS_COLORS[code % len(CLASS_COLORS)]
    return {"linestyle": "", "marker": marker, "color": color, "markeredgecolor": PAPER}


def _counted(count: int, of: str, what: str, mark: str) -> str:
    said = f"{count:,} of {of} {'is' if count == 1 else 'are'} {what}"
    return f"{said}, marked by {mark}" if count else said
