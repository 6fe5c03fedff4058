"""Who wins, for a terminal: the findings and one line for each model."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import pandas as pd

from pipeline.report.parts.ink import short
from pipeline.report.winners.cost import cost_table
from pipeline.report.winners.findings import comparable, findings
from pipeline.scoring.ranking import Ranking
from pipeline.scoring.scores import LABELS

RULE = "won–tied–lost: against every other model, over data sets; s: CPU seconds of a cell"


def winner_lines(rankings: Sequence[Ranking], cells: pd.DataFrame, width: int) -> Iterator[str]:
    """Findings, and under them mean rank, mean score, wins and time of each model.

    Parameters
    ----------
    rankings : sequence of Ranking
        From `pipeline.scoring.ranking.rankings`.
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    width : int
        Letters of a line.
    """
    yield "who wins"
    for paragraph in findings(rankings):
        yield from textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="    ")
    found = [ranking for ranking in comparable(rankings) if ranking.datasets]
    if found:
        yield from _table(found, cost_table(found[0], cells).set_index("model")["cpu_seconds"])


def _table(found: list[Ranking], seconds: pd.Series) -> Iterator[str]:
    labels = [LABELS[ranking.score].short for ranking in found]
    heads = [f"{f'{label} rank':>10}{'mean':>7}{'won–tied–lost':>16}" for label in labels]
    yield f"{'':<22}{''.join(heads)}{'s':>9}".rstrip()
    tables = [ranking.table().set_index("model") for ranking in found]
    for model in found[0].models:
        entries = ""
        for row in (table.loc[model] for table in tables):
            duels = f"{row['wins']:.0f}–{row['ties']:.0f}–{row['losses']:.0f}"
            entries += f"{row['mean_rank']:>10.2f}{row['mean']:>7.3f}{duels:>16}"
        time = seconds.get(model)
        yield f"{short(model):<22}{entries}{'-' if time is None else f'{time:.3g}':>9}"
    yield RULE
