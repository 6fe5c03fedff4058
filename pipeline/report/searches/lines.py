"""Searches side by side, in sentences: on the page and in text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence

import pandas as pd

from pipeline.scoring.pairs import ALL, OBJECTIVE, Compared
from pipeline.scoring.scores import LABELS
from pipeline.text import plural

INDENT = 2


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
            yield from textwrap.wrap(
                sentence, width, initial_indent=" " * INDENT, subsequent_indent=" " * 2 * INDENT
            )


def findings(found: Compared) -> Iterator[str]:
    """A sentence for each model, over all data sets: objectives, scores, time.

    Parameters
    ----------
    found : Compared
        Of one search.
    """
    for row in found.costs[found.costs["dataset"] == ALL].itertuples():
        of = found.differences[
            (found.differences["dataset"] == ALL) & (found.differences["model"] == row.model)
        ].set_index("score")
        parts = [_objectives(of.loc[OBJECTIVE], row.n_cells)] if OBJECTIVE in of.index else []
        parts += [_score(score, of.loc[score]) for score in of.index if score != OBJECTIVE]
        yield f"{row.model}, {plural(row.n_cells, 'cell')}: {'; '.join([*parts, _time(row)])}."


def _objectives(row: pd.Series, cells: int) -> str:
    shares = (row["wins_b"], row["ties"], row["wins_a"])
    higher, same, lower = (f"{share:.0%}" for share in shares)
    text = f"best objective higher in {higher}, the same in {same} and lower in {lower}"
    if row["n_cells"] < cells:
        text += f" (of {plural(int(row['n_cells']), 'cell')} for which both chose the same shape)"
    return text


def _score(score: str, row: pd.Series) -> str:
    error = "" if pd.isna(row["se"]) else f" ± {row['se']:.3f}"
    difference = round(float(row["difference"]), 3) + 0.0  # no negative zero
    return f"{LABELS[score].short} {difference:+.3f}{error}"


def _time(row: object) -> str:
    values = row._asdict()  # type: ignore[attr-defined]
    text = f"{values['cpu']:.2f} times the CPU time"
    if not math.isnan(values["to_best"]):
        text += f", {values['to_best']:.2f} times for each restart that found the best"
    return text
