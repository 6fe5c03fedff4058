"""What held-out annotations say: shapes of covariances that cells chose, and how well models predict."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report import elements, figures, look
from pipeline.report.content import Content
from pipeline.report.elements import Table, Value, Written, count_of, number, spread, words
from pipeline.report.figures import Drawn
from pipeline.report.look import GREY, MOST_DATASETS, PAPER, short
from pipeline.scoring.tables import TOO_FEW
from sweeps.shapes import CANDIDATES
from sweeps.words import chooses

PANEL = (2.75, 1.8)
# Numbers of annotations in a panel.
MOST_COUNTS = 8
# Cells that had no choice, apart from those that chose the simplest shape.
UNABLE = "too few annotations"
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
CHOSEN = (
    "Predicted are held-out annotations whose answer the shape chosen holds for the more probable one;"
    f" the log loss is of all that were held out. {TOO_FEW.capitalize()}: cells that are spherical as"
    " they have too few annotations to choose, and are left out of both."
)
PREDICTED = (
    "Means over cells. Predicted are held-out annotations whose answer the model, fitted to the others,"
    f" holds for the more probable one. {TOO_FEW.capitalize()}: cells with fewer than 20 annotated pairs,"
    " which hold none out and are left out of both means."
)
LOSSES = (TOO_FEW, "predicted, %", "log loss, nats")


def needed(content: Content) -> bool:
    """Whether anything was held out."""
    return content.holds_out or bool(content.cells["model"].map(chooses).any())


def title(content: Content) -> str:
    """By what was asked for."""
    if not content.cells["model"].map(chooses).any():
        return "Held-out annotations"
    return "Shapes chosen" + (", held-out annotations" if content.holds_out else "")


def choice_words(content: Content) -> Iterator[str]:
    """How shapes were chosen, and what a prediction is worth."""
    if content.choices.empty and content.predictions.empty:
        yield "No cell that holds annotations out is done."
        return
    if len(content.choices):
        yield RULE
    yield HELD_OUT
    if content.holds_out:
        yield COMPARED


def choice_figures(content: Content) -> Iterator[Drawn]:
    """Shapes that were chosen, a figure for each accuracy."""
    for p in content.accuracies:
        text = f"p = {p:g}: share of the cells that chose each shape of covariances."
        rows = content.choices[content.choices["p"] == p]
        yield f"choices-p{p:.9g}", draw_choices(rows, content.written), text


def choice_tables(content: Content) -> Iterator[Table]:
    """Shapes that were chosen, and annotations predicted."""
    if len(content.choices):
        yield from chosen_tables(content.choices, content.written)
    if len(content.predictions):
        yield predicted_table(content.predictions, content.written)


def chosen_tables(table: pd.DataFrame, written: Written) -> tuple[Table, Table]:
    """Tables of shapes and predictions: by data set, then of everything.

    Parameters
    ----------
    table : pandas.DataFrame
        From `pipeline.scoring.tables.choice_table`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.
    """
    overall = tuple(
        (words(dataset), words(model), *_amounts(rows))
        for (dataset, model), rows in table.groupby(["dataset", "model"], sort=False)
    )
    heads = ("cells", *CANDIDATES, *LOSSES)
    return (
        Table("Shapes chosen, by data set", ("data set", "model", *heads), overall, note=CHOSEN),
        Table("Shapes chosen", ("data set", "p", "m", "model", *heads), _each(table, written)),
    )


def predicted_table(table: pd.DataFrame, written: Written) -> Table:
    """Table of how well each model predicted held-out annotations.

    Parameters
    ----------
    table : pandas.DataFrame
        From `pipeline.scoring.tables.prediction_table`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.
    """
    heads = ("data set", "p", "m", "model", "cells", *LOSSES)
    return Table("Held-out annotations predicted", heads, _each(table, written), note=PREDICTED)


def _each(table: pd.DataFrame, written: Written) -> tuple[tuple[Value, ...], ...]:
    """A row for each data set, p, m and model."""
    return tuple(
        (
            words(row.dataset),
            number(row.p, "g"),
            elements.count(written, row.dataset, row.m),
            words(row.model),
            *_amounts(table.loc[[row.Index]]),
        )
        for row in table.itertuples()
    )


def _amounts(rows: pd.DataFrame) -> tuple[Value, ...]:
    """Sums of counts, and means over the cells that held annotations out."""
    counts = [number(float(rows[name].sum())) for name in ("n", *CANDIDATES, "too_few") if name in rows]
    weights = (rows["n"] - rows["too_few"]).to_numpy(dtype=float)
    means = [
        float(np.average(rows[name].fillna(0.0), weights=weights)) if weights.any() else np.nan
        for name in ("predicted", "log_loss")
    ]
    return (*counts, number(100 * means[0], ".1f"), number(means[1], ".3f"))


def draw_choices(table: pd.DataFrame, written: Written) -> Figure | None:
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
    models = sorted(table["model"].unique())
    names = spread(list(table["dataset"].unique()), MOST_DATASETS)
    shown = [(short(name, model), (name, model)) for name in names for model in models]

    def panel(axes: Axes, item: tuple[str, str]) -> None:
        rows = table[(table["dataset"] == item[0]) & (table["model"] == item[1])].sort_values("m")
        rows = rows[rows["m"].isin(spread(rows["m"].tolist(), MOST_COUNTS))]
        _bars(axes, rows, [count_of(written, item[0], m) for m in rows["m"]])

    return figures.wrapped(shown, panel, PANEL, "cells (share)", across=min(3, len(models)))


def _bars(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    places, below = np.arange(len(rows)), np.zeros(len(rows))
    unable = rows["too_few"]
    parts = {UNABLE: (unable, "")}
    for shape in CANDIDATES:
        counts = rows[shape] - unable if shape == CANDIDATES[0] else rows[shape]
        parts[shape] = counts, look.SHAPES[shape].hatch
    for label, (counts, hatch) in parts.items():
        area = PAPER if hatch or label == UNABLE else GREY
        share = (counts / rows["n"]).to_numpy(dtype=float)
        for bar in axes.bar(places, share, 0.7, below, color=area, edgecolor=GREY, label=label):
            bar.set(linewidth=1.2, hatch=hatch)
        below += share
    axes.set_xticks(places, names)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(look.COUNTS_LABEL)
    axes.set_yticks([0, 0.5, 1])
