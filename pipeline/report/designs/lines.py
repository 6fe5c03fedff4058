"""What choosing pairs gains, for a terminal and in files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd

from pipeline.report.designs.entries import PER_CENT, pairs, ratio, worth
from pipeline.report.parts.ink import short
from pipeline.scoring.scores import LABELS
from pipeline.scoring.worth import Budget, DesignScores, budget_table, design_table

MODEL, DESIGN = 21, 15
"""Widths of columns."""
DIGITS = 3
"""Of a score."""
RATIO = f"chosen pairs for each uniform one, with an interval of {PER_CENT}"


def design_lines(found: Sequence[DesignScores]) -> Iterator[str]:
    """A table for each score: over all data sets where there are several; the files hold each of them.

    Parameters
    ----------
    found : sequence of DesignScores
        From `pipeline.scoring.worth.design_scores`.
    """
    for number, each in enumerate(found):
        if number:
            yield ""
        shown, label = each.shown_first, LABELS[each.score].short
        yield f"pairs that were chosen, against uniform ones: {label}"
        yield _row("p", "model", "design", "m", label, "less uniform", "worth", "ratio")
        for title in dict.fromkeys(budget.group.title for budget in shown):
            yield title
            for budget in shown:
                if budget.group.title == title:
                    yield from _budget_lines(budget)
        yield f"worth: uniform pairs with the same mean {label}; none: not above that without annotations"
        yield f"ratio: {RATIO}"


def design_tables(found: Sequence[DesignScores]) -> dict[str, pd.DataFrame]:
    """Every number that is said of designs, by the name of its file; nothing where there are none.

    Parameters
    ----------
    found : sequence of DesignScores
        From `pipeline.scoring.worth.design_scores`.

    Returns
    -------
    dict of str to pandas.DataFrame
        `designs` and `budget`: those of `design_table` and `budget_table`, of every score.
    """
    if not found:
        return {}
    tables = {
        "designs": [(each.score, design_table(each.groups)) for each in found],
        "budget": [(each.score, budget_table(each.budgets)) for each in found],
    }
    return {
        name: pd.concat([frame.assign(score=score) for score, frame in frames], ignore_index=True)[
            ["score", *frames[0][1].columns]
        ]
        for name, frames in tables.items()
    }


def _budget_lines(found: Budget) -> Iterator[str]:
    group = found.group
    means, (less, errors) = group.mean(found.design), group.difference(found.design)
    for place, count in enumerate(group.counts):
        error = "" if math.isnan(errors[place]) else f" ± {errors[place]:.{DIGITS}f}"
        yield _row(
            f"{group.p:g}",
            short(group.model, longest=MODEL - 1),
            found.design,
            count if count.endswith("N") else pairs(float(group.x[place])),
            f"{means[place]:.{DIGITS}f}",
            f"{less[place]:+.{DIGITS}f}{error}",
            worth(found, place),
            ratio(found, place),
        )


def _row(*entries: str) -> str:
    p, model, design, *rest = entries
    widths = (5, 6, 15, 12, 20)
    numbers = "".join(f"{text:>{width}}" for text, width in zip(rest, widths, strict=True))
    return f"  {p:<4}{model:<{MODEL}}{design:<{DESIGN}}{numbers}".rstrip()
