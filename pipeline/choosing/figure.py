"""A figure of a criterion against the number of clusters."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pipeline.choosing.clusters import HELD_OUT, ClusterChoice
from pipeline.report.parts.ink import (
    BLUE,
    GREY,
    IMAGE_DPI,
    PAPER,
    PNG_DPI,
    VERMILLION,
    house_style,
    legend,
    panels,
)

PANEL = (3.6, 2.3)
"""Width and height of a panel in inches."""


def draw_choice(choice: ClusterChoice) -> Figure:
    """Draw what decides, and BIC and ICL beside it where that is neither; the number taken is marked.

    Parameters
    ----------
    choice : ClusterChoice
        Two candidates or more.

    Returns
    -------
    matplotlib.figure.Figure
        Made in the style of the report; `write_figure` writes it.
    """
    counts = [each.n_clusters for each in choice.candidates]
    chosen = counts.index(choice.chosen.n_clusters)
    with_loss = choice.criterion == HELD_OUT
    with house_style():
        figure, grid = panels(1, 1 + with_loss, PANEL)
        first, last = grid[0][0], grid[0][-1]
        if with_loss:
            loss = choice.values
            first.errorbar(
                counts,
                loss,
                yerr=choice.errors,
                color=BLUE,
                marker="o",
                markersize=4,
                elinewidth=1.0,
                capsize=2.5,
                label="log loss",
            )
            first.set_ylabel("log loss of an annotation, nats")
            first.set_title("held-out annotations: less is better")
        bic = np.array([each.criteria.bic for each in choice.candidates])
        icl = np.array([each.criteria.icl for each in choice.candidates])
        last.plot(counts, bic, color=GREY if with_loss else BLUE, marker="s", markersize=4, label="BIC")
        last.plot(
            counts,
            icl,
            color=GREY,
            marker="^",
            markersize=4,
            linestyle="--",
            markerfacecolor=PAPER,
            label="ICL",
        )
        last.set_ylabel("criterion, nats")
        last.set_title("BIC and ICL: more is better")
        for axes in grid[0]:
            axes.set_xlabel("number of clusters K")
            axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
            axes.grid(axis="y")
        first.plot(
            counts[chosen],
            choice.values[chosen],
            color=VERMILLION,
            marker="o",
            markersize=11,
            markerfacecolor="none",
            markeredgewidth=1.8,
            linestyle="",
            label=f"taken: K = {counts[chosen]}",
        )
        legend(figure, grid[0])
    return figure


def picture(figure: Figure, path: Path) -> bytes:
    """The file of a figure: the same bits whenever it is made.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        From `draw_choice`.
    path : Path
        Its ending, svg, png or pdf, is the format.
    """
    form = path.suffix[1:].lower()
    undated = {
        "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
        "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
        "png": {"Software": None},
    }
    buffer = io.BytesIO()
    with house_style():
        dpi = PNG_DPI if form == "png" else IMAGE_DPI
        figure.savefig(buffer, format=form, dpi=dpi, metadata=undated[form])
    return buffer.getvalue()
