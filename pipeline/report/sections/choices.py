"""What held-out annotations say: shapes of covariances that cells chose, and how well models predict."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.parts.ink import (
    COUNTS_LABEL,
    GREY,
    MOST_DATASETS,
    PAPER,
    SHAPES,
    legend,
    short,
    titled_panels,
)
from pipeline.report.parts.parts import Section, Table, Value, number, spread, words
from pipeline.report.parts.wording import count_of
from pipeline.report.sections.content import Content
from pipeline.scoring.tables import TOO_FEW, choice_table, prediction_table
from sweeps.models import chooses
from sweeps.shapes import CANDIDATES

PANEL = (2.75, 1.8)
MOST_COUNTS = 8
"""Numbers of annotations in a panel."""
UNABLE = "too few annotations"
"""Cells that had no choice, apart from those that chose the simplest shape."""
RULE = (
    "Each cell of a model that chooses took the simplest shape whose predictions of held-out annotations are"
    " within half a standard error of the best."
)
HELD_OUT = (
    "Annotations were held out in five folds: each was predicted by a short search that saw those of the"
    " other folds. A log loss of 0.69 nats is that of a guess."
)
COMPARED = (
    "Annotations of accuracy p, above one half, are wrong with probability 1 - p: nobody can expect to"
    " predict more than a share p. All models of a data set, p and m saw the same annotations; which of them"
    " were held out together was drawn for each model."
)


def section(content: Content) -> Section | None:
    """Shapes that were chosen, and annotations predicted; None if nothing was held out."""
    choosing = any(content.cells["model"].map(chooses))
    asked = any(plan.held_out for plan in content.manifest.plans.values())
    if not choosing and not asked:
        return None
    title = "Shapes chosen" if choosing else "Held-out annotations"
    title += ", held-out annotations" if choosing and asked else ""
    chosen = choice_table(content.cells)
    predicted = prediction_table(content.cells) if asked else pd.DataFrame()
    if chosen.empty and predicted.empty:
        return Section("choices", title, ("No cell that holds annotations out is done.",))
    pictures = tuple(
        picture
        for p in content.accuracies
        for picture in content.save(
            draw_choices(chosen[chosen["p"] == p], content.written),
            f"choices-p{p:.9g}",
            f"p = {p:g}: share of the cells that chose each shape of covariances.",
        )
    )
    text = [RULE] * (not chosen.empty) + [HELD_OUT] + [COMPARED] * asked
    tables = () if chosen.empty else entries(chosen, content.written)
    tables += () if predicted.empty else (predictions(predicted, content.written),)
    return Section("choices", title, tuple(text), tables, pictures)


def entries(table: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> tuple[Table, ...]:
    """Tables of shapes and predictions: by data set, then of everything.

    Parameters
    ----------
    table : pandas.DataFrame
        From `pipeline.scoring.tables.choice_table`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.
    """
    overall = [
        (words(dataset), words(model), *_amounts(rows))
        for (dataset, model), rows in table.groupby(["dataset", "model"], sort=False)
    ]
    each = [(*_names(row, written), *_amounts(table.loc[[at]])) for at, row in table.iterrows()]
    head = ("cells", *CANDIDATES, TOO_FEW, "predicted, %", "log loss, nats")
    note = (
        "Predicted are held-out annotations whose answer the shape chosen holds for the more probable one;"
        f" the log loss is of all that were held out. {TOO_FEW.capitalize()}: cells that are spherical as"
        " they have too few annotations to choose, and are left out of both."
    )
    return (
        Table("Shapes chosen, by data set", ("data set", "model", *head), tuple(overall), note=note),
        Table("Shapes chosen", ("data set", "p", "m", "model", *head), tuple(each)),
    )


def predictions(table: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> Table:
    """Table of how well each model predicted held-out annotations.

    Parameters
    ----------
    table : pandas.DataFrame
        From `pipeline.scoring.tables.prediction_table`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.
    """
    rows = [(*_names(row, written), *_amounts(table.loc[[at]])) for at, row in table.iterrows()]
    note = (
        "Means over cells. Predicted are held-out annotations whose answer the model, fitted to the others,"
        f" holds for the more probable one. {TOO_FEW.capitalize()}: cells with fewer than 20 annotated pairs,"
        " which hold none out and are left out of both means."
    )
    head = ("data set", "p", "m", "model", "cells", TOO_FEW, "predicted, %", "log loss, nats")
    return Table("Held-out annotations predicted", head, tuple(rows), note=note)


def _names(row: pd.Series, written: Mapping[tuple[str, int], str]) -> tuple[Value, ...]:
    """Data set, p, m and model."""
    m = row["m"]
    count = Value(count_of(written, row["dataset"], m), m)
    return words(row["dataset"]), number(row["p"], "g"), count, words(row["model"])


def _amounts(rows: pd.DataFrame) -> tuple[Value, ...]:
    """Sums of counts, and means over the cells that held annotations out."""
    named = (name for name in ("n", *CANDIDATES, "too_few") if name in rows)
    counts = [number(float(rows[name].sum())) for name in named]
    weights = (rows["n"] - rows["too_few"]).to_numpy(dtype=float)
    means = [
        float(np.average(rows[name].fillna(0.0), weights=weights)) if weights.any() else np.nan
        for name in ("predicted", "log_loss")
    ]
    return (*counts, number(100 * means[0], ".1f"), number(means[1], ".3f"))


def draw_choices(table: pd.DataFrame, written: Mapping[tuple[str, int], str]) -> Figure | None:
    """Draw how often each shape was chosen: a panel per data set and model, a bar per number of annotations.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of one accuracy, from `pipeline.scoring.tables.choice_table`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.

    Returns
    -------
    Figure or None
        None without any row.
    """
    if table.empty:
        return None
    datasets = spread(list(table["dataset"].unique()), MOST_DATASETS)
    models = sorted(table["model"].unique())
    shown = [(name, model) for name in datasets for model in models]
    figure, flat = titled_panels(
        [short(name, model) for name, model in shown], PANEL, "cells (share)", across=min(3, len(models))
    )
    for axes, (name, model) in zip(flat, shown, strict=True):
        rows = table[(table["dataset"] == name) & (table["model"] == model)].sort_values("m")
        _bars(axes, rows[rows["m"].isin(spread(rows["m"].tolist(), MOST_COUNTS))], name, written)
    legend(figure, flat)
    return figure


def _bars(axes: Axes, rows: pd.DataFrame, name: str, written: Mapping[tuple[str, int], str]) -> None:
    places, below = np.arange(len(rows)), np.zeros(len(rows))
    unable = rows["too_few"]
    parts = {shape: rows[shape] - (unable if shape == CANDIDATES[0] else 0) for shape in CANDIDATES}
    looks = {shape: (SHAPES[shape].hatch, PAPER if SHAPES[shape].hatch else GREY) for shape in CANDIDATES}
    for label, counts in {UNABLE: unable, **parts}.items():
        hatch, area = looks.get(label, ("", PAPER))
        share = (counts / rows["n"]).to_numpy(dtype=float)
        for bar in axes.bar(places, share, 0.7, below, color=area, edgecolor=GREY, label=label):
            bar.set(linewidth=1.2, hatch=hatch)
        below += share
    axes.set_xticks(places, [count_of(written, name, m) for m in rows["m"]])
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(COUNTS_LABEL)
    axes.set_yticks([0, 0.5, 1])
