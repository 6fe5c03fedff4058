"""Score against time: what a model's score costs in CPU seconds of a cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from scipy.optimize import isotonic_regression

from pipeline.report.parts.ink import GREY, LONGEST_MODEL, hover, mark, short
from pipeline.report.parts.parts import Section, Table, Value, number, words
from pipeline.report.sections.content import Content
from pipeline.report.winners.findings import comparable
from pipeline.scoring.ranking import Ranking
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import time_table

WIDTH, LEAST_HEIGHT, ROW = 6.6, 3.0, 0.21
"""Inches: of the figure, and of a label in the column of labels."""
LEADER = {
    "arrowstyle": "-",
    "color": GREY,
    "linewidth": 0.5,
    "shrinkA": 0,
    "shrinkB": 4,
    "relpos": (0, 0.5),
}
"""From a name to its point."""
CAPTION = (
    "mean over the data sets that are ranked, against CPU seconds of a cell, all of its restarts (geometric"
    " mean over data sets)."
)
NOTE = (
    "Underlined: no other model is both quicker and better. Time is in kernels or in the method, on the"
    " machines that this sweep ran on; times.csv has every data set."
)


def section(content: Content) -> Section | None:
    """A figure for each score and a table; None where there is nothing to compare."""
    found = [ranking for ranking in comparable(content.rankings) if ranking.datasets]
    costs = [cost_table(ranking, content.cells) for ranking in found]
    if not found or all(table.empty for table in costs):
        return None
    pictures = tuple(
        picture
        for ranking, table in zip(found, costs, strict=True)
        for picture in content.save(
            draw_costs(table, ranking.score),
            f"cost-{LABELS[ranking.score].short.lower()}",
            f"{LABELS[ranking.score].short}, {CAPTION}",
        )
    )
    tables = tuple(_shown(ranking, table) for ranking, table in zip(found, costs, strict=True))
    return Section("cost", "Score against time", tables=tables, pictures=pictures)


def cost_table(ranking: Ranking, cells: pd.DataFrame) -> pd.DataFrame:
    """Score and time of each model that has a time, over the data sets that are ranked.

    Parameters
    ----------
    ranking : Ranking
        Of one score.
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    pandas.DataFrame
        `model`, `mean` score, `cpu_seconds` and `seconds` of a cell (geometric means over data sets of the
        mean over cells), `best` if no other model is as quick and better, or quicker and as good.
    """
    times = time_table(cells)
    times = times[times["dataset"].isin(ranking.datasets) & (times["cpu_seconds"] > 0)]
    logs = np.log(times.set_index("model")[["cpu_seconds", "seconds"]].astype(float))
    means = np.exp(logs.groupby(level="model").mean())
    table = means.reindex([model for model in ranking.models if model in means.index])
    table.insert(0, "mean", ranking.means.mean().reindex(table.index))
    score, cost = table["mean"].to_numpy()[:, None], table["cpu_seconds"].to_numpy()[:, None]
    beaten = (score <= score.T) & (cost >= cost.T) & ((score < score.T) | (cost > cost.T))
    return table.assign(best=~beaten.any(axis=1)).rename_axis("model").reset_index()


def draw_costs(table: pd.DataFrame, score: str) -> Figure | None:
    """Draw a point for each model, with its name in a column beside the panel.

    Parameters
    ----------
    table : pandas.DataFrame
        From `cost_table`.
    score : str
        What its means are of.

    Returns
    -------
    Figure or None
        None without any model.
    """
    if table.empty:
        return None
    rows = table.sort_values("mean", kind="stable")
    height = max(LEAST_HEIGHT, ROW * len(rows) + 0.9)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    means = rows["mean"].to_numpy(dtype=float)
    pad = max(0.01, 0.06 * float(np.ptp(means)))
    axes.set_ylim(means.min() - pad, means.max() + pad)
    axes.set_xscale("log")
    low, high = float(rows["cpu_seconds"].min()), float(rows["cpu_seconds"].max())
    axes.set_xlim(low / 1.6, high * 1.6)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 200 * low else (1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    fractions = (means - means.min() + pad) / (np.ptp(means) + 2 * pad)
    heights = apart(fractions.tolist(), min(ROW / (height - 0.9), 1 / len(rows)))
    for row, level in zip(rows.itertuples(), heights, strict=True):
        look = mark(str(row.model))
        (point,) = axes.plot([row.cpu_seconds], [row.mean], color=look.color, linestyle="", zorder=3)
        point.set(**look.markers, markersize=7)
        told = f"{LABELS[score].short} {row.mean:.3f}"
        hover(point, [f"{row.model}: {told}, {row.cpu_seconds:.3g} CPU s a cell"])
        axes.annotate(
            short(str(row.model), longest=LONGEST_MODEL),
            (row.cpu_seconds, row.mean),
            (1.04, level),
            textcoords="axes fraction",
            va="center",
            arrowprops=LEADER,
            annotation_clip=False,
        )
    axes.set_xlabel("CPU seconds of a cell (log)")
    axes.set_ylabel(f"{LABELS[score].axis}")
    axes.grid()
    return figure


def apart(places: Sequence[float], least: float) -> list[float]:
    """Places in ascending order within 0 to 1, moved as little as keeps neighbours `least` apart."""
    steps = least * np.arange(len(places))
    if not len(steps):
        return []
    # Without the steps, neighbours need only stay in order: the nearest such places are a known problem.
    nearest = isotonic_regression(np.asarray(places) - steps).x
    return [float(place) for place in np.clip(nearest, 0.0, 1.0 - steps[-1]) + steps]


def _shown(ranking: Ranking, table: pd.DataFrame) -> Table:
    label = LABELS[ranking.score].short
    rows = tuple(
        (
            words(row.model),
            Value(f"{row.mean:.3f}", float(row.mean), "best" if row.best else ""),
            *(number(float(seconds), ".3g") for seconds in (row.cpu_seconds, row.seconds)),
        )
        for row in table.itertuples()
    )
    heads = ("model", f"mean {label}", "CPU s a cell", "s a cell")
    return Table(f"{label} and time", heads, rows, note=NOTE)
