"""Critical-difference diagram: models on an axis of mean ranks, with bars over those not told apart."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pipeline.report.parts.ink import GREY, INK, LONGEST_MODEL, hover, mark, short
from pipeline.scoring.ranking import Ranking
from pipeline.scoring.scores import LABELS

WIDTH, ROW, BAR, HEAD = 8.2, 0.25, 0.13, 0.55
"""Inches: of the figure, of a line of labels, from bar to bar, and of the axis with its title."""


def draw_ranks(ranking: Ranking) -> Figure | None:
    """Draw the mean rank of each model, the best at the left, each labelled at the nearer side.

    Parameters
    ----------
    ranking : Ranking
        Of any number of models.

    Returns
    -------
    Figure or None
        None without two models that have ranks.
    """
    models, ranks = ranking.models, ranking.mean_ranks
    if len(models) < 2 or not ranking.datasets:
        return None
    left = (len(models) + 1) // 2
    levels = _levels(ranking.groups)
    deep = BAR * (max(levels, default=-1) + 2)
    figure = Figure(figsize=(WIDTH, HEAD + deep + ROW * left + 0.1), layout="constrained")
    axes = figure.subplots()
    _axis(axes, len(models), deep + ROW * left)
    for (first, last), level in zip(ranking.groups, levels, strict=True):
        ends = [float(ranks.iloc[first]), float(ranks.iloc[last])]
        axes.plot([ends[0] - 0.04, ends[1] + 0.04], [BAR * (level + 1)] * 2, color=INK, linewidth=4)
    label, means = LABELS[ranking.score].short, ranking.means.mean()
    for place, model in enumerate(models):
        row = place if place < left else len(models) - 1 - place
        side = 1.0 if place < left else float(len(models))
        point = _model(axes, model, float(ranks[model]), side, deep + ROW * (row + 0.5), to_left=place < left)
        hover(point, [f"{model}: mean rank {ranks[model]:.2f}, mean {label} {means[model]:.3f}"])
    return figure


def _axis(axes: Axes, count: int, depth: float) -> None:
    axes.set_xlim(1, count)
    axes.set_ylim(depth, 0)
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    axes.set_xticks(range(1, count + 1))
    axes.set_xlabel("mean rank (1 is best)")
    axes.set_yticks([])
    for side, spine in axes.spines.items():
        spine.set_visible(side == "top")


def _model(axes: Axes, model: str, rank: float, side: float, y: float, *, to_left: bool) -> Line2D:
    look = mark(model)
    axes.plot([rank, rank, side], [0, y, y], color=GREY, linewidth=0.9, clip_on=False)
    (point,) = axes.plot([rank], [0], color=look.color, linestyle="", clip_on=False, zorder=5)
    point.set(**look.markers, markersize=6)
    text = (
        f"{short(model, longest=LONGEST_MODEL)}  {rank:.2f}"
        if to_left
        else f"{rank:.2f}  {short(model, longest=LONGEST_MODEL)}"
    )
    offset, align = ((-4, 0), "right") if to_left else ((4, 0), "left")
    axes.annotate(
        text, (side, y), offset, textcoords="offset points", ha=align, va="center", annotation_clip=False
    )
    return point


def _levels(groups: list[tuple[int, int]]) -> list[int]:
    """Height of each bar, so that none touches another: the first that is free."""
    ends: list[int] = []
    levels = []
    for first, last in groups:
        level = next((place for place, end in enumerate(ends) if end < first), len(ends))
        ends[level : level + 1] = [last]
        levels.append(level)
    return levels
