"""The figure of a report: NMI against the number of annotations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from sweeps.models import BASELINES, baseline_of, split_model

# Okabe and Ito's palette, told apart with every common colour blindness; markers differ for grey print.
STYLES = {"posterior": ("#0072B2", "o"), "likelihood": ("#D55E00", "s"), "conditional": ("#009E73", "^")}
"""Colour and marker of each annotation term; a common variance has a dotted line and a hollow marker."""
BASELINE_COLOR = "#404040"
BASELINE_LINES = dict(zip(BASELINES, ("--", ":"), strict=True))
LEGEND_WIDTH = 2.1
"""Inches of the longest entry of a legend; up to three of the short ones fit any figure."""
PANEL = (2.6, 1.75)
"""Width and height of a panel in inches."""


def draw_nmi(summary: pd.DataFrame, path: Path, *, title: str) -> bool:
    """Draw mean NMI with standard errors: a row of panels per data set, a column per accuracy.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `pipeline.tables.summary_table`.
    path : Path
        PNG file to write.
    title : str
        Line above the panels.

    Returns
    -------
    bool
        Whether there was anything to draw: NMI of supervised cells.
    """
    rows = summary[(summary["score"] == "nmi") & (summary["n"] > 0)]
    supervised = rows[rows["p"].notna()]
    if supervised.empty:
        return False
    datasets = list(supervised["dataset"].unique())
    accuracies = sorted(supervised["p"].unique())
    width, height = PANEL[0] * len(accuracies) + 0.9, PANEL[1] * len(datasets) + 1.1
    figure = Figure(figsize=(max(width, 4.2), height), layout="constrained")
    grid = figure.subplots(len(datasets), len(accuracies), squeeze=False, sharex="row", sharey="row")
    for axes_row, dataset in zip(grid, datasets, strict=True):
        for axes, p in zip(axes_row, accuracies, strict=True):
            _panel(axes, rows[rows["dataset"] == dataset], p)
        axes_row[0].set_ylabel(f"{dataset}\nNMI")
    for axes, p in zip(grid[0], accuracies, strict=True):
        axes.set_title(f"accuracy p = {p:g}", fontsize="medium")
    for axes in grid[-1]:
        axes.set_xlabel("annotations m")
    _legend(figure, grid.flat)
    figure.suptitle(title, fontsize="medium")
    figure.savefig(path, dpi=150)
    return True


def _panel(axes: Axes, rows: pd.DataFrame, p: float) -> None:
    for row in rows[rows["model"].isin(BASELINES)].itertuples():
        level, error = float(row.mean), 0.0 if pd.isna(row.se) else float(row.se)
        line = BASELINE_LINES[str(row.model)]
        axes.axhline(level, color=BASELINE_COLOR, linestyle=line, linewidth=1.2, label=str(row.model))
        axes.axhspan(level - error, level + error, color=BASELINE_COLOR, alpha=0.12, linewidth=0)
    for model, points in rows[rows["p"] == p].groupby("model", sort=True):
        color, marker = STYLES[split_model(str(model))[0]]
        line, fill = (":", "white") if baseline_of(str(model)) != BASELINES[0] else ("-", color)
        m, mean = points["m"].to_numpy(dtype=float), points["mean"].to_numpy(dtype=float)
        error = points["se"].fillna(0.0).to_numpy(dtype=float)
        (drawn,) = axes.plot(m, mean, label=model, color=color, linestyle=line, linewidth=1.6)
        drawn.set(marker=marker, markerfacecolor=fill, markersize=4.5)
        axes.fill_between(m, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
    axes.grid(color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    counts = sorted(rows["m"].dropna().unique())
    axes.xaxis.set_major_locator(
        FixedLocator(counts) if len(counts) <= 5 else MaxNLocator(nbins=5, integer=True)
    )
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, panels: Iterable[Axes]) -> None:
    """One legend for all panels, which need not show the same models."""
    entries: dict[str, Artist] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    handles, labels = list(entries.values()), list(entries)
    columns = len(entries) if len(entries) <= 3 else int(figure.get_figwidth() / LEGEND_WIDTH)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
