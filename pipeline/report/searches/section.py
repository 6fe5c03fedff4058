"""The part of a page on searches: what each finds beside the first one, and what it costs."""

from __future__ import annotations

import math

from pipeline.report.parts.parts import Picture, Section, Table, Value, number, words
from pipeline.report.parts.wording import drawn, units
from pipeline.report.searches.figures import draw_search
from pipeline.report.searches.lines import findings
from pipeline.report.sections.content import Content
from pipeline.scoring.pairs import ALL, OBJECTIVE, TIE, Compared
from pipeline.scoring.ranking import RANKED
from pipeline.scoring.scores import LABELS

READING = (
    "Cells are compared in pairs, of the same data, annotations and random streams. searches.csv and"
    " search-costs.csv hold these numbers in full."
)
CAPTION = (
    "Left: cells whose best objective is higher, the same (within {same:g} nats) and lower than with"
    " {reference}. Middle: difference of {score}, and a standard error over {units}. Right: CPU time of a"
    " cell, and of each restart that found the best objective, as multiples of those with {reference}."
)
NOTE = (
    "Objectives: shares of the cells, in %, whose best one is higher, the same, lower. Differences are means"
    " ± s.e. over {units}. Hit rate: share of restarts that found the best objective of their cell, of this"
    " search and of the first. Time to the best: CPU time for each such restart as a multiple, a"
    " median over cells whose best is the same in both; - where there are none."
)
DIFFERENT = " The two maximise different objectives, which do not compare."


def section(content: Content) -> Section | None:
    """Sentences, a figure and a table for each search; None where there is one alone."""
    found = content.searches
    if not found:
        return None
    text = tuple(f"{each.title}: {line}" for each in found for line in findings(each))
    pictures = tuple(picture for each in found for picture in _pictures(content, each))
    tables = tuple(map(_table, found))
    return Section("searches", "How solutions were searched for", (*text, READING), tables, pictures)


def _pictures(content: Content, found: Compared) -> tuple[Picture, ...]:
    caption = CAPTION.format(
        same=TIE,
        reference=found.reference,
        score=LABELS[RANKED[0]].short,
        units=units(found.differences["unit"]),
    )
    return content.save(draw_search(found), f"search-{found.search}", f"{found.search}. {caption}")


def _table(found: Compared) -> Table:
    keyed = {
        (row.score, row.dataset, row.model): row._asdict()
        for row in found.differences.itertuples(index=False)
    }
    scores = list(dict.fromkeys(found.differences["score"]))
    heads = ["data set", "model", "cells", "units"]
    for score in scores:
        heads += ["higher", "same", "lower"] if score == OBJECTIVE else [LABELS[score].short]
    heads += ["CPU time, times", "hit rate", "hit rate, first", "time to the best, times"]
    rows = []
    for cost in found.costs.itertuples(index=False):
        of = [keyed.get((score, cost.dataset, cost.model)) for score in scores]
        first = next(filter(None, of), None)
        counted = Value("-", None) if first is None else _units(first)
        entries = [value for score, row in zip(scores, of, strict=True) for value in _entries(score, row)]
        rows.append(
            (
                words(cost.dataset),
                words(cost.model),
                number(float(cost.n_cells)),
                counted,
                *entries,
                *(number(value, ".2f") for value in (cost.cpu, cost.hit_rate, cost.reference_hit_rate)),
                number(cost.to_best, ".2f"),
            )
        )
    note = NOTE.format(units=units(found.differences["unit"])) + ("" if OBJECTIVE in scores else DIFFERENT)
    return Table(found.title, tuple(heads), tuple(rows), note=note, pinned=True)


def _units(row: dict[str, object]) -> Value:
    count = int(row["n"])  # type: ignore[call-overload]
    kind = row["unit"]
    return Value(str(count) if row["dataset"] == ALL else drawn(count, kind), count)


def _entries(score: str, row: dict[str, object] | None) -> list[Value]:
    if score == OBJECTIVE:
        if row is None:
            return [Value("-", None)] * 3
        return [number(100 * float(str(row[key])), ".0f") for key in ("wins_b", "ties", "wins_a")]
    if row is None or math.isnan(float(str(row["difference"]))):
        return [Value("-", None)]
    value, error = round(float(str(row["difference"])), 3) + 0.0, float(str(row["se"]))  # no negative zero
    return [Value(f"{value:+.3f}" + ("" if math.isnan(error) else f" ± {error:.3f}"), value)]
