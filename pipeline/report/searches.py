"""Searches of one sweep side by side, in sentences, tables, figures: what each finds, and what it costs."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.common import plural
from pipeline.report import elements, figures, look
from pipeline.report.content import Content
from pipeline.report.elements import NOTHING, Table, Value, number, units, with_error, words
from pipeline.report.figures import Drawn
from pipeline.report.look import BLUE, GREEN, GREY, RULE, VERMILLION, short
from pipeline.scoring.pairs import ALL, OBJECTIVE, TIE, Compared
from pipeline.scoring.ranking import RANKED
from pipeline.scoring.scores import LABELS

READING = (
    "Cells are compared in pairs, of the same data, annotations and random streams. searches.csv and"
    " search-costs.csv hold these numbers in full."
)
CAPTION = (
    "{search}. Left: cells whose best objective is higher, the same (within {same:g} nats) and lower than"
    " with {reference}. Middle: difference of {score}, and a standard error over {units}. Right: CPU time of"
    " a cell, and of each restart that found the best objective, as multiples of those with {reference}."
)
NOTE = (
    "Objectives: shares of the cells, in %, whose best one is higher, the same, lower. Differences are means"
    " ± s.e. over {units}. Hit rate: share of restarts that found the best objective of their cell, of this"
    " search and of the first. Time to the best: CPU time for each such restart as a multiple, a"
    " median over cells whose best is the same in both; - where there are none."
)
DIFFERENT = " The two maximise different objectives, which do not compare."
# Shares of cells by their best objective: column, colour, and words in a table and in a figure.
SHARES = (
    ("wins_b", GREEN, "higher", "higher"),
    ("ties", RULE, "same", "the same"),
    ("wins_a", VERMILLION, "lower", "lower"),
)

# Models and data sets in one figure.
MOST_LINES = 48
# Inches of a panel and of a line; share of a line that its bar takes.
WIDTH, LINE, BAR = 2.9, 0.24, 0.62
# Of the legend of a panel, above it.
KEYS: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False}
KEYS |= {"handlelength": 1, "columnspacing": 1}


def search_lines(found: Sequence[Compared], width: int) -> Iterator[str]:
    """Say of each search how it compares with the first one, for a terminal.

    Parameters
    ----------
    found : sequence of Compared
        From `pipeline.scoring.pairs.compared_searches`.
    width : int
        Of a line.
    """
    for each in found:
        yield f"search {each.title}, the same cells in pairs"
        for sentence in findings(each):
            yield from textwrap.wrap(sentence, width, initial_indent="  ", subsequent_indent="    ")


def search_words(content: Content) -> Iterator[str]:
    """The same for the page."""
    for each in content.searches:
        yield from (f"{each.title}: {line}" for line in findings(each))
    yield READING


def findings(found: Compared) -> Iterator[str]:
    """A sentence for each model, over all data sets: objectives, scores, time.

    Parameters
    ----------
    found : Compared
        Of one search.
    """
    whole = found.differences[found.differences["dataset"] == ALL]
    for row in found.costs[found.costs["dataset"] == ALL].itertuples():
        parts = [
            _objectives(each, row.n_cells)
            if each.score == OBJECTIVE
            else _gain(each, LABELS[each.score].short)
            for each in whole[whole["model"] == row.model].itertuples()
        ]
        time = f"{row.cpu:.2f} times the CPU time"
        if not math.isnan(row.to_best):
            time += f", {row.to_best:.2f} times for each restart that found the best"
        yield f"{row.model}, {plural(row.n_cells, 'cell')}: {'; '.join([*parts, time])}."


def _objectives(row: Any, cells: int) -> str:
    text = (
        f"best objective higher in {row.wins_b:.0%}, the same in {row.ties:.0%} and lower in {row.wins_a:.0%}"
    )
    if row.n_cells < cells:
        text += f" (of {plural(int(row.n_cells), 'cell')} for which both chose the same shape)"
    return text


def _gain(row: Any, name: str) -> str:
    return f"{name} {with_error(_rounded(row.difference), row.se, '+.3f')}"


def _rounded(difference: float) -> float:
    return round(float(difference), 3) + 0.0  # no negative zero


def search_figures(content: Content) -> Iterator[Drawn]:
    """Objectives, a score and time, a figure for each search."""
    for each in content.searches:
        text = CAPTION.format(
            search=each.search,
            same=TIE,
            reference=each.reference,
            score=LABELS[RANKED[0]].short,
            units=units(each.differences["unit"]),
        )
        yield f"search-{each.search}", draw_search(each), text


def search_tables(content: Content) -> Iterator[Table]:
    """A row for each model over all data sets, then for each data set and model."""
    for found in content.searches:
        keyed = {(row.score, row.dataset, row.model): row for row in found.differences.itertuples()}
        scores = list(dict.fromkeys(found.differences["score"]))
        heads = ["data set", "model", "cells", "units"]
        for score in scores:
            heads += [head for _, _, head, _ in SHARES] if score == OBJECTIVE else [LABELS[score].short]
        heads += ["CPU time, times", "hit rate", "hit rate, first", "time to the best, times"]
        rows = []
        for cost in found.costs.itertuples():
            of = {score: keyed.get((score, cost.dataset, cost.model)) for score in scores}
            first = next((row for row in of.values() if row is not None), None)
            costs = (cost.cpu, cost.hit_rate, cost.reference_hit_rate, cost.to_best)
            rows.append(
                (
                    words(cost.dataset),
                    words(cost.model),
                    number(float(cost.n_cells)),
                    NOTHING if first is None else _units(first),
                    *(value for score, row in of.items() for value in _entries(score, row)),
                    *(number(value, ".2f") for value in costs),
                )
            )
        note = NOTE.format(units=units(found.differences["unit"]))
        note += "" if OBJECTIVE in scores else DIFFERENT
        yield Table(found.title, tuple(heads), tuple(rows), note=note, pinned=True)


def _units(row: Any) -> Value:
    n = int(row.n)
    return Value(str(n) if row.dataset == ALL else elements.drawn(n, row.unit), n)


def _entries(score: str, row: Any) -> list[Value]:
    if score == OBJECTIVE:
        return [NOTHING if row is None else number(100 * getattr(row, key), ".0f") for key, *_ in SHARES]
    if row is None or math.isnan(row.difference):
        return [NOTHING]
    gain = _rounded(row.difference)
    return [Value(with_error(gain, row.se, "+.3f"), gain)]


def draw_search(found: Compared) -> Figure | None:
    """Draw a line for each data set and model.

    Parameters
    ----------
    found : Compared
        Of one search.

    Returns
    -------
    Figure or None
        Panels of objectives, where they compare, of the first ranked score, where true labels are known, and
        of time; None without any line.
    """
    costs = found.costs[found.costs["dataset"] != ALL]
    if costs.empty:
        return None
    lines = elements.spread(list(zip(costs["dataset"], costs["model"], strict=True)), MOST_LINES)
    keyed = found.differences.set_index(["score", "dataset", "model"])
    scored = [score for score in (OBJECTIVE, RANKED[0]) if score in keyed.index.get_level_values("score")]
    figure, [grid] = look.panels(1, len(scored) + 1, (WIDTH, max(1.2, LINE * len(lines))))
    for score, axes in zip(scored, grid, strict=False):
        draw = _shares if score == OBJECTIVE else _differences
        draw(axes, keyed.loc[score].reindex(lines), LABELS[score].short)
    _times(grid[-1], costs.set_index(["dataset", "model"]).loc[lines])
    for axes in grid:
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_yticks(range(len(lines)), [""] * len(lines))
        axes.grid(axis="x")
    grid[0].set_yticks(range(len(lines)), [f"{short(dataset)}, {model}" for dataset, model in lines])
    return figure


def _shares(axes: Axes, table: pd.DataFrame, name: str) -> None:
    start = pd.Series(0.0, index=table.index)
    for key, color, _, label in SHARES:
        share = 100 * table[key].fillna(0.0)
        axes.barh(range(len(table)), share, left=start, height=BAR, color=color, label=label)
        start = start + share
    axes.set_xlim(0, 100)
    axes.set_xlabel("cells by best objective, %")
    axes.legend(ncols=3, **KEYS)


def _differences(axes: Axes, table: pd.DataFrame, name: str) -> None:
    axes.axvline(0, color=GREY, linewidth=1)
    drawn = axes.errorbar(
        table["difference"],
        list(range(len(table))),
        xerr=table["se"].fillna(0.0),
        linestyle="",
        marker="o",
        color=BLUE,
        markersize=4.5,
        capsize=2.5,
    )
    if drawn.lines[0] is not None:
        tips = [
            f"{', '.join(row.Index)}: {with_error(row.difference, row.se, '+.3f')}"
            for row in table.itertuples()
        ]
        look.hover(drawn.lines[0], tips)
    axes.set_xlabel(f"{name}, difference")


def _times(axes: Axes, table: pd.DataFrame) -> None:
    axes.axvline(1, color=GREY, linewidth=1)
    for key, marker, color, label in (
        ("cpu", "o", BLUE, "a cell"),
        ("to_best", "D", VERMILLION, "a restart that found the best"),
    ):
        (drawn,) = axes.plot(table[key], range(len(table)), marker, color=color, markersize=4.5, label=label)
        tips = [f"{', '.join(name)}, {label}: {value:.2f} times" for name, value in table[key].items()]
        look.hover(drawn, tips)
    figures.log_axis(axes, (1.0, 2.0, 5.0), numticks=8)
    axes.set_xlabel("CPU time, times")
    axes.legend(ncols=2, **KEYS)
