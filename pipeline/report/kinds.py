"""How models rank at each p and m, and on each kind of data: a table, and the same as a map of colours."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sweep_clustering.pipeline.report import elements, look
from sweep_clustering.pipeline.report.content import Content, Part
from sweep_clustering.pipeline.report.elements import WORDS, Column, Reading, Value
from sweep_clustering.pipeline.scoring.scores import LABELS

# Inches of a cell of the map, and of what stands beside and above it.
CELL, LEFT, TOP = (0.5, 0.22), 2.2, 1.5
# Of the colour of the best possible rank; the last one has none.
DEEPEST = 0.75


def kinds(content: Content) -> Iterator[Part]:
    """Mean ranks by each score, at each p and m and on each kind of data, where there are several."""
    said, found = WORDS["kinds"], content.kinds
    tables = {score: rows for score, rows in found.items() if rows["kind"].nunique() > 1}
    if not tables:
        return
    yield Reading(said["reading"])
    judged = {ranking.score: bool(ranking.judged_datasets) for ranking in content.ranked}
    for score, rows in tables.items():
        wide = rows.pivot(index=["what", "kind", "n_datasets"], columns="model", values="mean_rank")
        wide = wide.reindex(index=pd.MultiIndex.from_frame(rows[wide.index.names].drop_duplicates()))
        columns: list[Column] = [(head, partial(_level, at), "") for at, head in enumerate(("", "kind"))]
        columns.append(("data sets", partial(_level, 2), ",.0f"))
        columns += [
            (model, partial(_rank, at, judged[score]), "")
            for at, model in enumerate(rows["model"].unique(), start=1)
        ]
        title = f"Mean rank by {LABELS[score].short}"
        ordered = wide[list(rows["model"].unique())]
        note = f"{said['note']} {said['best' if judged[score] else 'unjudged']}"
        yield elements.table(title, ordered, columns, note=note, folded=True)
    for score, rows in tables.items():
        label = LABELS[score].short
        yield f"kinds-{label.lower()}", draw_kinds(rows), said["map"].format(label=label)


def kind_files(content: Content) -> dict[str, pd.DataFrame]:
    """Every number of it, by the name of its file; nothing without two models."""
    return {"kinds": elements.by_score(content.kinds)} if content.kinds else {}


def _level(at: int, row: Any) -> object:
    return row.Index[at]


def _rank(at: int, is_judged: bool, row: Any) -> Value:
    first = sorted(row[1:])
    return Value(f"{row[at]:.2f}", row[at], "best" * (is_judged and row[at] == first[0] < first[1]))


def draw_kinds(rows: pd.DataFrame) -> Figure:
    """Draw mean ranks as a map: a row for each kind, a column for each model, the best of all first.

    Parameters
    ----------
    rows : pandas.DataFrame
        From `pipeline.scoring.kinds.ranks_by_kind`, of one score.
    """
    models, heads = list(rows["model"].unique()), rows.drop_duplicates(["what", "kind"])
    width, height = CELL[0] * len(models) + LEFT, CELL[1] * len(heads) + TOP
    figure, axes = look.panel(width, height)
    whats = list(heads["what"])
    lines = {kind: line for line, kind in enumerate(zip(heads["what"], heads["kind"], strict=True))}
    for row in rows.itertuples():
        x, y = models.index(row.model), lines[row.what, row.kind]
        share = (len(models) - row.mean_rank) / max(1, len(models) - 1)
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=look.BLUE, alpha=DEEPEST * share**2, linewidth=0))
        axes.text(x + 0.5, y + 0.5, f"{row.mean_rank:.1f}", ha="center", va="center_baseline", fontsize=8)
    for line in range(1, len(whats)):
        if whats[line] != whats[line - 1]:
            axes.axhline(line, color=look.GREY, linewidth=0.8)
    names = [f"{row.kind}  ({row.n_datasets})" for row in heads.itertuples()]
    axes.set(xlim=(0, len(models)), ylim=(len(heads), 0))
    axes.set_yticks([line + 0.5 for line in range(len(heads))], names)
    shown = [look.short(model, longest=look.LONGEST_MODEL) for model in models]
    axes.set_xticks([place + 0.5 for place in range(len(models))], shown, rotation=45, ha="left")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure
