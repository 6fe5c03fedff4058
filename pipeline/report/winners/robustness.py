"""Robustness to wrong annotations: the score against their accuracy p."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.parts.ink import MOST_DATASETS, hover, legend, mark, short, tick_counts, titled_panels
from pipeline.report.parts.parts import NOTHING, Section, Table, Value, number, shape_groups, spread, words
from pipeline.report.sections.content import Content
from pipeline.report.winners.findings import comparable
from pipeline.scoring.ranking import Ranking, by_accuracy
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import over_datasets

PANEL = (2.75, 2.1)
ROOM = 0.04
"""Of the height of a panel, for markers at its ends."""
DIGITS = 3
MEAN = "mean of all"
"""Stands for a data set in the rows of means over data sets."""
CAPTION = (
    "against the accuracy p of the annotations: means over m and draws, with a band of one standard error"
    " over draws, the data sets being given. A model without annotations is level."
)
NOTE = "Mean over the data sets that are ranked, and how much of it the least accurate annotations cost."


def section(content: Content) -> Section | None:
    """A figure and a table for each score; None where there is nothing to compare."""
    found = [ranking for ranking in comparable(content.rankings) if ranking.datasets]
    tables = [robustness_table(ranking) for ranking in found]
    if not found or all(table["p"].nunique() < 2 for table in tables):
        return None
    pictures = tuple(
        picture
        for ranking, table in zip(found, tables, strict=True)
        for picture in content.save(
            draw_robustness(table, ranking.score),
            f"robustness-{LABELS[ranking.score].short.lower()}",
            f"{LABELS[ranking.score].short} {CAPTION}",
        )
    )
    shown = tuple(_shown(ranking, table) for ranking, table in zip(found, tables, strict=True))
    return Section("robustness", "Robustness to wrong annotations", (), shown, pictures)


def robustness_table(ranking: Ranking) -> pd.DataFrame:
    """Score of each model at each p, by data set, and then over the data sets that are ranked.

    Parameters
    ----------
    ranking : Ranking
        Of one score.

    Returns
    -------
    pandas.DataFrame
        `dataset` (`MEAN` for the mean of all), `p`, `model`, `mean`, `se`, `n` draws, or data sets. The
        error of the mean of all is that of its draws, for these data sets; a part without one adds nothing.
    """
    table = by_accuracy(ranking.common)
    ranked = table[table["dataset"].isin(ranking.datasets)]
    every = over_datasets(ranked, ["p", "model"]).reset_index().assign(dataset=MEAN)[list(table.columns)]
    return pd.concat([table, every], ignore_index=True)


def draw_robustness(table: pd.DataFrame, score: str) -> Figure | None:
    """Draw lines over p: the mean of all data sets, and each of them where models are of few shapes.

    Parameters
    ----------
    table : pandas.DataFrame
        From `robustness_table`.
    score : str
        What its means are of.

    Returns
    -------
    Figure or None
        None without two accuracies.
    """
    if table["p"].nunique() < 2:
        return None
    groups = shape_groups(table["model"].unique())
    names = [name for name in table["dataset"].unique() if name != MEAN]
    if len(groups) > 1 or len(names) == 1:
        shown = [(MEAN if len(names) > 1 else names[0], group) for group in groups]
    else:
        shown = [(name, "") for name in (MEAN, *spread(names, MOST_DATASETS))]
    ranked = table.loc[table["dataset"] == MEAN, "n"].max()
    titles = [short(_titled(name, int(ranked)), group) for name, group in shown]
    figure, flat = titled_panels(titles, PANEL, LABELS[score].axis)
    for axes, (name, group) in zip(flat, shown, strict=True):
        _lines(axes, table[(table["dataset"] == name) & table["model"].isin(groups[group])])
    if len(groups) > 1:
        # panels of one mean compare; a shared axis would take the ticks from those above an empty place
        ends = [axes.get_ylim() for axes in flat]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        for axes in flat:
            axes.set_ylim(low - ROOM * (high - low), high + ROOM * (high - low))
    legend(figure, flat)
    return figure


def _titled(name: str, count: int) -> str:
    return f"mean of {count} data sets" if name == MEAN else name


def _lines(axes: Axes, rows: pd.DataFrame) -> None:
    for model, points in rows.groupby("model", sort=True):
        look = mark(str(model))
        points = points.sort_values("p")
        p, mean = points["p"].to_numpy(dtype=float), points["mean"].to_numpy(dtype=float)
        error = points["se"].fillna(0.0).to_numpy(dtype=float)
        (drawn,) = axes.plot(p, mean, color=look.color, linestyle=look.line, label=str(model))
        drawn.set(**look.markers, markersize=4.5, linewidth=1.6)
        hover(drawn, [f"{model}, p = {row.p:g}: {_words(row)}" for row in points.itertuples()])
        axes.fill_between(p, mean - error, mean + error, color=look.color, alpha=0.16, linewidth=0)
    axes.grid()
    tick_counts(axes, sorted(rows["p"].unique()))
    axes.set_xlabel("accuracy p")


def _words(row: Any) -> str:
    return f"{row.mean:.{DIGITS}f}" + ("" if pd.isna(row.se) else f" ± {row.se:.{DIGITS}f}")


def _shown(ranking: Ranking, table: pd.DataFrame) -> Table:
    rows_of = table[table["dataset"] == MEAN].pivot(index="model", columns="p", values="mean")
    label, accuracies = LABELS[ranking.score].short, list(rows_of.columns)
    rows = []
    for model in ranking.models:
        entries = [number(float(rows_of.loc[model, p]), f".{DIGITS}f") for p in accuracies]
        cost = NOTHING
        if model not in ranking.common.alone:
            drop = float(rows_of.loc[model, accuracies[-1]] - rows_of.loc[model, accuracies[0]])
            cost = Value(f"{drop:+.{DIGITS}f}", drop)
        rows.append((words(model), *entries, cost))
    heads = (
        "model",
        *(f"p = {p:g}" for p in accuracies),
        f"p = {accuracies[-1]:g} less p = {accuracies[0]:g}",
    )
    return Table(f"{label} by accuracy", heads, tuple(rows), note=NOTE)
