"""Curves: a score against the number of annotations, a row of panels per data set, a column per accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pipeline.report.parts.ink import (
    GREY,
    MOST_ACCURACIES,
    MOST_DATASETS,
    PAPER,
    accuracy_panels,
    hover,
    legend,
    mark,
    short,
    tick_counts,
)
from pipeline.report.parts.parts import Section, shape_groups, spread
from pipeline.report.parts.wording import count_of, units
from pipeline.report.sections.content import Content, pictured
from pipeline.scoring.scores import LABELS
from sweeps.models import BASELINES

PANEL = (2.6, 1.75)
"""Width and height of a panel in inches."""
BASELINE = " The grey line is the model without annotations."
AGREEMENT = " A solution that knows the truth would meet the accuracy p."


def section(content: Content) -> Section:
    """NMI, ARI and KL divergence, with published means where there are any."""
    text = caption(content.summary) + (BASELINE if content.summary["p"].isna().any() else "")
    pictures = tuple(
        picture
        for score, name in (("nmi", "nmi"), ("adjusted_rand", "ari"), ("goldberger_kl", "kl"))
        for picture in content.save(
            draw_curves(content.summary, score, content.compared, content.written),
            name,
            f"{LABELS[score].short}: {text[0].lower()}{text[1:]}",
        )
    )
    title = "NMI, ARI and KL divergence against annotations"
    return pictured("curves", title, pictures, *not_drawn(content.cells))


def agreement(content: Content) -> Section:
    """Share of the annotations that a solution takes for correct."""
    text = f"Share of annotations that the solution takes for correct. {caption(content.summary)}{AGREEMENT}"
    pictures = content.save(
        draw_curves(content.summary, "annotation_agreement", written=content.written), "agreement", text
    )
    return pictured("agreement", "Correct annotations", pictures)


def caption(summary: pd.DataFrame) -> str:
    """What the lines and bands are over."""
    over = units(summary.loc[summary["p"].notna(), "unit"])
    return f"Mean over {over}, with a band of one standard error."


def not_drawn(cells: pd.DataFrame) -> Iterator[str]:
    """Say where the figures of the page show a part of a large grid."""
    counts = {"data sets": MOST_DATASETS, "accuracies": MOST_ACCURACIES}
    found = {"data sets": cells["dataset"].nunique(), "accuracies": cells["p"].nunique()}
    large = [f"{most} of {found[what]} {what}" for what, most in counts.items() if found[what] > most]
    if large:
        yield f"Figures show {' and '.join(large)}, evenly spread; summary.csv and cells.csv hold all."


def draw_curves(
    summary: pd.DataFrame,
    score: str,
    published: pd.DataFrame | None = None,
    written: Mapping[tuple[str, int], str] | None = None,
    up: str = "",
) -> Figure | None:
    """Draw the mean of a score with its standard error.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `pipeline.scoring.tables.summary_table`.
    score : str
        One of `pipeline.scoring.scores.SCORES`. Correct annotations get the accuracy as a line.
    published : pandas.DataFrame, optional
        From `pipeline.report.sections.against.compare`; drawn as crosses.
    written : mapping, optional
        From `pipeline.scoring.tables.written_counts`: how m is written.
    up : str, optional
        Label of the y axes, where it is not that of the score.

    Returns
    -------
    Figure or None
        None if no supervised cell has the score.
    """
    rows = summary[(summary["score"] == score) & (summary["n"] > 0)]
    supervised = rows[rows["p"].notna()]
    if supervised.empty:
        return None
    datasets = spread(list(supervised["dataset"].unique()), MOST_DATASETS)
    accuracies = spread(sorted(supervised["p"].unique()), MOST_ACCURACIES)
    groups = shape_groups(rows["model"].unique())
    shown = list(product(datasets, groups))
    figure, grid = accuracy_panels(len(shown), accuracies, PANEL, share="row")
    for line, (dataset, group) in zip(grid, shown, strict=True):
        there = rows[(rows["dataset"] == dataset) & rows["model"].isin(groups[group])]
        for axes, p in zip(line, accuracies, strict=True):
            _panel(axes, there, float(p), written or {})
            if score == "annotation_agreement":
                axes.axhline(p, color=GREY, linestyle="-.", linewidth=1.2, label="accuracy p")
            if published is not None:
                of_panel = (published["dataset"] == dataset) & (published["p"] == p)
                _crosses(axes, published[of_panel & published["model"].isin(groups[group])], score)
        line[0].set_ylabel(f"{short(dataset, group)}\n{up or LABELS[score].axis}")
    # the divergence is one of Gaussians of the shape: those of other shapes may have another order
    if score != "goldberger_kl":
        _same_heights([line[0] for line in grid], len(groups))
    legend(figure, (axes for line in grid for axes in line), _published_entry(published))
    return figure


def _same_heights(rows: list[Axes], n_groups: int) -> None:
    """Give the rows of each data set, which follow each other, the same range of the score."""
    for first in range(0, len(rows), n_groups):
        of_dataset = rows[first : first + n_groups]
        ends = [axes.get_ylim() for axes in of_dataset]
        for axes in of_dataset if n_groups > 1 else ():
            axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))


def _panel(axes: Axes, rows: pd.DataFrame, p: float, written: Mapping[tuple[str, int], str]) -> None:
    names = dict(zip(rows["m"], map(partial(count_of, written), rows["dataset"], rows["m"]), strict=True))
    for row in rows[rows["p"].isna()].itertuples():
        look = mark(str(row.model))
        level, error = float(row.mean), 0.0 if pd.isna(row.se) else float(row.se)
        axes.axhline(level, color=look.color, linestyle=look.line, linewidth=1.2, label=str(row.model))
        axes.axhspan(level - error, level + error, color=look.color, alpha=0.14, linewidth=0)
    for model, points in rows[rows["p"] == p].groupby("model", sort=True):
        look = mark(str(model))
        m, mean = points["m"].to_numpy(dtype=float), points["mean"].to_numpy(dtype=float)
        error = points["se"].fillna(0.0).to_numpy(dtype=float)
        (drawn,) = axes.plot(m, mean, label=str(model), color=look.color, linestyle=look.line)
        drawn.set(**look.markers, markersize=4.5, linewidth=1.6)
        hover(drawn, [f"{model}, m = {names[row.m]}: {_words(row)}" for row in points.itertuples()])
        axes.fill_between(m, mean - error, mean + error, color=look.color, alpha=0.22, linewidth=0)
    axes.grid()
    tick_counts(axes, sorted(rows["m"].dropna().unique()), names)


def _words(row: Any) -> str:
    return f"{row.mean:.3f}" + ("" if pd.isna(row.se) else f" ± {row.se:.3f}")


def _crosses(axes: Axes, published: pd.DataFrame, score: str) -> None:
    rows = published[(published["score"] == score) & ~published["model"].isin(BASELINES)]
    for model, points in rows.groupby("model", sort=True):
        m, values = points["m"].to_numpy(dtype=float), points["published"].to_numpy(dtype=float)
        axes.plot(m, values, "x", color=PAPER, markersize=7.5, markeredgewidth=3.2)
        axes.plot(m, values, "x", color=mark(str(model)).color, markersize=6, markeredgewidth=1.5)


def _published_entry(published: pd.DataFrame | None) -> list[Line2D]:
    if published is None:
        return []
    return [Line2D([], [], color=GREY, marker="x", linestyle="", markeredgewidth=1.5, label="published")]
