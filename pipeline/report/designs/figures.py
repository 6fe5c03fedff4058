"""Figures of designs: scores against m / N, and the uniform pairs that chosen ones are worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.designs.entries import ratio, worth
from pipeline.report.parts.ink import (
    DESIGN_LOOKS,
    GREY,
    MOST_ACCURACIES,
    PAPER,
    accuracy_panels,
    hover,
    legend,
    mark,
    short,
    tick_counts,
)
from pipeline.report.parts.parts import spread
from pipeline.scoring.scores import LABELS
from pipeline.scoring.worth import Budget, Group
from sweeps.designs import UNIFORM

PANEL = (2.6, 1.9)
MOST_ROWS = 24
MOST_TICKS = 5
ABOVE = 1.12
"""Where what uniform pairs do not reach is drawn, in lengths of their curve."""
EQUAL = "as many uniform pairs"
X_LABEL = "annotations m (pairs a sample)"


def draw_designs(groups: Sequence[Group], score: str) -> Figure | None:
    """Draw a row of panels for each data set and model, a column for each accuracy.

    Parameters
    ----------
    groups : sequence of Group
        Of one score.
    score : str
        Which.

    Returns
    -------
    Figure or None
        None without any group.
    """
    if not groups:
        return None
    accuracies = spread(sorted({group.p for group in groups}), MOST_ACCURACIES)
    rows = spread(list(dict.fromkeys((group.dataset, group.model) for group in groups)), MOST_ROWS)
    figure, grid = accuracy_panels(len(rows), accuracies, PANEL, share="row")
    panels = {(group.dataset, group.model, group.p): group for group in groups}
    for line, (dataset, model) in zip(grid, rows, strict=True):
        for axes, p in zip(line, accuracies, strict=True):
            if (dataset, model, p) in panels:
                _curves(axes, panels[dataset, model, p])
        first = next(group for group in groups if (group.dataset, group.model) == (dataset, model))
        line[0].set_ylabel(f"{short(first.title)}\n{short(model)}\n{LABELS[score].axis}")
    for axes in grid[-1]:
        axes.set_xlabel(X_LABEL)
    legend(figure, (axes for line in grid for axes in line))
    return figure


def draw_budgets(found: Sequence[Budget], score: str) -> Figure | None:
    """Draw the worth of chosen pairs: a row of panels for each data set and design, a column per accuracy.

    Parameters
    ----------
    found : sequence of Budget
        Of one score.
    score : str
        Which.

    Returns
    -------
    Figure or None
        None without any.
    """
    if not found:
        return None
    accuracies = spread(sorted({each.group.p for each in found}), MOST_ACCURACIES)
    rows = spread(list(dict.fromkeys((each.group.dataset, each.design) for each in found)), MOST_ROWS)
    figure, grid = accuracy_panels(len(rows), accuracies, PANEL, share="row")
    for line, (dataset, design) in zip(grid, rows, strict=True):
        for axes, p in zip(line, accuracies, strict=True):
            there = [e for e in found if (e.group.dataset, e.design, e.group.p) == (dataset, design, p)]
            _worths(axes, there)
        title = short(next(each.group.title for each in found if each.group.dataset == dataset))
        line[0].set_ylabel(f"{title}\n{short(design)} by {LABELS[score].short}\nuniform pairs")
    for axes in grid[-1]:
        axes.set_xlabel(X_LABEL)
    legend(figure, (axes for line in grid for axes in line))
    return figure


def _curves(axes: Axes, group: Group) -> None:
    for design in (UNIFORM, *group.chosen):
        look = DESIGN_LOOKS[design]
        mean = group.mean(design)
        (drawn,) = axes.plot(group.x, mean, label=design, color=look.color, linestyle=look.line)
        drawn.set(marker=look.marker, markersize=4.5, linewidth=1.6)
        hover(drawn, list(_scores(group, design)))
        if design != UNIFORM:
            error = np.nan_to_num(group.difference(design)[1])
            axes.fill_between(group.x, mean - error, mean + error, color=look.color, alpha=0.2, linewidth=0)
    axes.grid()
    _ticks(axes, group)


def _worths(axes: Axes, found: Sequence[Budget]) -> None:
    for each in found:
        look, x = mark(each.group.model), each.group.x
        top = ABOVE * each.most
        reached, low, high = (np.minimum(ends, top) for ends in (each.worth, each.low, each.high))
        (drawn,) = axes.plot(x, reached, color=look.color, linestyle=look.line, label=each.group.model)
        drawn.set(**look.markers, markersize=4.5, linewidth=1.6)
        hover(drawn, list(_worth_words(each)))
        beyond = np.isinf(each.worth)
        (hollow,) = axes.plot(x[beyond], reached[beyond], linestyle="", color=look.color)
        hollow.set(marker=look.marker, markersize=4.5, markerfacecolor=PAPER)
        hover(hollow, [text for text, at_top in zip(_worth_words(each), beyond, strict=True) if at_top])
        axes.fill_between(x, low, high, where=~np.isnan(low), color=look.color, alpha=0.16, linewidth=0)
    if found:
        most = found[0].most
        axes.plot([0, most], [0, most], color=GREY, linestyle="--", linewidth=1.2, label=EQUAL)
        axes.axhline(most, color=GREY, linestyle=":", linewidth=1.0)
        axes.grid()
        _ticks(axes, found[0].group)


def _scores(group: Group, design: str) -> Iterator[str]:
    """Words on the points of a curve: the score, and how far it is from that of uniform pairs."""
    less, errors = group.difference(design)
    for count, mean, gap, error in zip(group.counts, group.mean(design), less, errors, strict=True):
        said = f"{design}, m = {count}: {mean:.3f}"
        beside = "" if np.isnan(error) else f" ± {error:.3f}"
        yield said if design == UNIFORM else f"{said}, {gap:+.3f}{beside} to {UNIFORM}"


def _worth_words(found: Budget) -> Iterator[str]:
    for place, count in enumerate(found.group.counts):
        said = f"{found.group.model}, m = {count}: worth {worth(found, place)} uniform pairs"
        yield f"{said}, ratio {ratio(found, place)}"


def _ticks(axes: Axes, group: Group) -> None:
    """As the sweep file writes m, where there are few: N of several data sets are rounded differently."""
    tick_counts(axes, group.x.tolist())
    if len(group.x) <= MOST_TICKS:
        axes.set_xticks(group.x.tolist(), group.counts, fontsize="small")
