"""Each model against each other: data sets won, tied and lost."""

from __future__ import annotations

from pipeline.report.parts.parts import NOTHING, Section, Table, Value
from pipeline.report.sections.content import Content
from pipeline.report.winners.findings import comparable
from pipeline.scoring.ranking import ERRORS, Ranking
from pipeline.scoring.scores import LABELS

NOTE = (
    "Data sets on which the model of the row wins, ties and loses against that of the column, which has the"
    f" number of its row. A tie is a difference within {ERRORS:g} standard errors, paired by draw."
)
TESTED = " Underlined: the test over data sets tells the two apart, for the model of the row."


def section(content: Content) -> Section | None:
    """A table for each score; None where there is nothing to compare."""
    found = [ranking for ranking in comparable(content.rankings) if ranking.datasets]
    if not found:
        return None
    text = "pairs.csv has every pair with the mean difference, the p of the test and that after correction."
    return Section("duels", "Wins, ties and losses", (text,), tuple(map(table, found)))


def table(ranking: Ranking) -> Table:
    """Matrix of one score, best mean rank first."""
    duels = ranking.matrix()
    better = set(ranking.pairs.loc[ranking.pairs["different"], ["a", "b"]].itertuples(index=False, name=None))
    rows = []
    for place, model in enumerate(ranking.models, start=1):
        entries = [
            NOTHING
            if other == model
            else _entry(duels.loc[(model, other)].tolist(), marked=(model, other) in better)
            for other in ranking.models
        ]
        total = _entry(duels.loc[model].sum().tolist(), marked=False)
        rows.append((Value(f"{place} {model}", f"{place:02}"), total, *entries))
    heads = ("model", "all", *(str(place) for place in range(1, len(rows) + 1)))
    title = f"Data sets won – tied – lost by {LABELS[ranking.score].short}"
    return Table(title, heads, tuple(rows), note=NOTE + (TESTED if ranking.tested else ""), pinned=True)


def _entry(counts: list[int], *, marked: bool) -> Value:
    wins, ties, losses = counts
    return Value(f"{wins}–{ties}–{losses}", wins - losses, "best" if marked else "")
