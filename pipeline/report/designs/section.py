"""The chapter of the page on how pairs were chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pipeline.report.designs.entries import PER_CENT, pairs, ratio, worth
from pipeline.report.designs.figures import draw_budgets, draw_designs
from pipeline.report.parts.parts import NOTHING, Picture, Section, Table, Value, words
from pipeline.report.sections.content import Content
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import MIXTURES
from pipeline.scoring.worth import Budget, DesignScores

DIGITS = 3
READING = (
    "Differences are paired: a design and uniform pairs are compared on the same mixture and replicate."
    " Units are mixtures, and of real data sets redraws of the annotations; a place where a cell of any"
    " design failed, or is pending, is left out for all."
)
CURVES = (
    "Mean over units. The band of a design is one standard error of its difference to uniform pairs, paired"
    " by unit: where it holds the grey line, the two are about as far apart as chance puts them."
)
BUDGET = (
    f"Uniform pairs that reach the mean score of so many chosen ones, with an interval of {PER_CENT}"
    " (bootstrap over units). Above the dashed line a chosen pair is worth more than one drawn."
    " Hollow marks at the top: more than the grid holds, whose end is dotted."
)
NOTE = (
    "The curve of uniform pairs is the largest mean so far, straight between the m of the grid, from the"
    " baseline of the same shape at m = 0 where there is one. Ratio: chosen pairs for each uniform one, below"
    f" 1 where choosing saves pairs; in brackets an interval of {PER_CENT}. < and >: the curve ends"
    " before."
)


def section(content: Content) -> Section | None:
    """Figures, tables and findings; None where all pairs were chosen alike."""
    found = content.designs
    if not found:
        return None
    tables = tuple(table for each in found for table in (_differences(each), _budgets(each)))
    text = (*(line for each in found for line in findings(each)), READING)
    pictures = tuple(picture for each in found for picture in _pictures(content, each))
    return Section("designs", "How the pairs were chosen", text, tables, pictures)


def findings(found: DesignScores) -> Iterator[str]:
    """A sentence for each design: what its pairs are worth with the model that scores best.

    Parameters
    ----------
    found : DesignScores
        Of one score.
    """
    shown = found.shown_first
    for title, design in dict.fromkeys((each.group.title, each.design) for each in shown):
        there = [each for each in shown if (each.group.title, each.design) == (title, design)]
        score = dict.fromkeys(dict.fromkeys(each.group.model for each in there), 0.0)
        for model in score:
            score[model] = float(np.mean([e.group.mean(design) for e in there if e.group.model == model]))
        best = max(score, key=lambda model: score[model])
        parts = [_worth_words(each) for each in there if each.group.model == best]
        yield f"{LABELS[found.score].short}, {title}: {design} pairs with {best}. {' '.join(parts)}"


def _worth_words(found: Budget) -> str:
    """At the largest m that uniform pairs reach on the grid, or at the smallest."""
    inside = np.flatnonzero(np.isfinite(found.worth))
    place = int(inside[-1]) if len(inside) else 0
    said = f"At p = {found.group.p:g}, {pairs(float(found.group.x[place]))} are worth"
    reached = worth(found, place) if found.worth[place] or found.least else "no"
    return f"{said} {reached} uniform ones, ratio {ratio(found, place)}."


def _pictures(content: Content, found: DesignScores) -> Iterator[Picture]:
    name = LABELS[found.score].short.lower()
    yield from content.save(draw_designs(found.groups, found.score), f"designs-{name}", CURVES)
    yield from content.save(draw_budgets(found.budgets, found.score), f"budget-{name}", BUDGET)


def _differences(found: DesignScores) -> Table:
    label = LABELS[found.score].short
    counts = _counts(found)
    rows = []
    for each in found.budgets:
        less, errors = each.group.difference(each.design)
        values = dict(zip(each.group.counts, map(_difference, less, errors), strict=True))
        rows.append((*_heads(each), *(values.get(count, NOTHING) for count in counts)))
    heads = ("data set", "p", "model", "design", *(f"m = {count}" for count in counts))
    note = f"Mean ± standard error over units ({MIXTURES}, or redraws), paired."
    return Table(
        f"{label} of a design less that of uniform pairs", heads, tuple(rows), note=note, pinned=True
    )


def _difference(less: float, error: float) -> Value:
    spread = "" if math.isnan(error) else f" ± {error:.{DIGITS}f}"
    return Value(f"{less:+.{DIGITS}f}{spread}", float(less))


def _budgets(found: DesignScores) -> Table:
    counts, rows = _counts(found), []
    for each in found.budgets:
        entries = {count: _worth_values(each, place) for place, count in enumerate(each.group.counts)}
        values = [value for count in counts for value in entries.get(count, (NOTHING, NOTHING))]
        rows.append((*_heads(each), *values))
    heads = ("data set", "p", "model", "design", *(("uniform pairs", "ratio") * len(counts)))
    groups = (("", 4), *((f"m = {count}", 2) for count in counts))
    title = f"Uniform pairs that reach the {LABELS[found.score].short} of m chosen ones"
    return Table(title, heads, tuple(rows), (groups,), NOTE, pinned=True)


def _worth_values(found: Budget, place: int) -> tuple[Value, Value]:
    value = float(found.worth[place])
    order = float(found.group.x[place]) / value if value > 0 else math.inf
    return Value(worth(found, place), value), Value(ratio(found, place), order)


def _heads(found: Budget) -> tuple[Value, ...]:
    group = found.group
    return words(group.title), Value(f"{group.p:g}", group.p), words(group.model), words(found.design)


def _counts(found: DesignScores) -> list[str]:
    """Every m, as the file writes it, in ascending order of pairs a sample."""
    sizes = {count: x for each in found.groups for count, x in zip(each.counts, each.x, strict=True)}
    return sorted(sizes, key=lambda count: sizes[count])
