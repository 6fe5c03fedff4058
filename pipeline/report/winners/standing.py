"""First on the page: findings, every model's score on every data set, and the diagram of mean ranks."""

from __future__ import annotations

import pandas as pd

from pipeline.report.parts.parts import NOTHING, Section, Table, Value, mean_and_error, number, words
from pipeline.report.sections.content import Content
from pipeline.report.winners.diagram import draw_ranks
from pipeline.report.winners.findings import READING, comparable, findings
from pipeline.scoring.ranking import ERRORS, LEVEL, Ranking
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import MIXTURES, REDRAWS
from pipeline.text import plural

DIGITS = 3
"""Of a score, and of its error."""
KINDS = {REDRAWS: "redraws of the annotations of a real data set", MIXTURES: "mixtures of a set of them"}
"""Units, as a note says them."""
BARS = (
    "A bar joins models of which no two can be told apart (Friedman, then Wilcoxon with Holm's correction,"
    f" {LEVEL:g})."
)
POWERLESS = " So few data sets can tell no two of so many models apart: the bar says no more than that."
NO_BARS = "There are too few data sets for a test: that no bar joins two models says nothing."


def section(content: Content) -> Section:
    """Who wins; short where there is nothing to compare."""
    found = comparable(content.rankings)
    text = findings(content.rankings)
    if not found:
        return Section("winners", "Who wins", text)
    pictures = tuple(
        picture
        for ranking in found
        for picture in content.save(
            draw_ranks(ranking), f"ranks-{LABELS[ranking.score].short.lower()}", caption(ranking)
        )
    )
    return Section("winners", "Who wins", (*text, READING), tuple(map(table, found)), pictures)


def caption(ranking: Ranking) -> str:
    """What the diagram shows, and what its bars mean."""
    label, count = LABELS[ranking.score].short, len(ranking.datasets)
    bars = BARS + ("" if ranking.decisive else POWERLESS) if ranking.tested else NO_BARS
    return f"Mean rank by {label} over {plural(count, 'data set')}, 1 is best. {bars}"


def table(ranking: Ranking) -> Table:
    """Models, best mean rank first, by data sets; the best of each data set is marked."""
    common, label = ranking.common, LABELS[ranking.score].short
    values = common.values.set_index(["dataset", "model"])
    order = ranking.models if ranking.datasets else common.models
    unsolved = bool(common.values["no_solution"].sum())
    heads = ["model", "mean rank", f"mean {label}", *(["solved"] if unsolved else [])]
    rows = []
    for model in order:
        ranked = bool(ranking.datasets)
        lead = [
            number(float(ranking.mean_ranks[model]), ".2f") if ranked else NOTHING,
            number(float(ranking.means[model].mean()), f".{DIGITS}f") if ranked else NOTHING,
            *([_solved(common.values[common.values["model"] == model])] if unsolved else []),
        ]
        entries = [_entry(ranking, values, name, model) for name in common.datasets]
        rows.append((words(model), *lead, *entries))
    names = [name if name in ranking.datasets else f"{name} (not ranked)" for name in common.datasets]
    title = f"{label} of each model on each data set"
    return Table(title, (*heads, *names), tuple(rows), note=_note(ranking), pinned=True)


def _entry(ranking: Ranking, values: pd.DataFrame, dataset: str, model: str) -> Value:
    row = values.loc[(dataset, model)]
    entry = mean_and_error(float(row["mean"]), float(row["se"]), DIGITS)
    if not ranking.as_good.loc[dataset, model]:
        return entry
    best = ranking.common.wide("mean").loc[dataset].astype(float).idxmax() == model
    return Value(entry.text, entry.order, "best" if best else "good")


def _solved(rows: pd.DataFrame) -> Value:
    done, without = int(rows["done"].sum()), int(rows["no_solution"].sum())
    return number(done / (done + without), ".0%") if done + without else NOTHING


def _note(ranking: Ranking) -> str:
    values = ranking.common.values
    over = []
    for unit, kind in KINDS.items():
        counts = values.loc[(values["unit"] == unit) & (values["n"] > 0), "n"]
        if len(counts):
            least, most = int(counts.min()), int(counts.max())
            over.append(f"{least if least == most else f'{least} to {most}'} {kind}")
    return (
        f"Mean ± standard error over n draws: {'; '.join(over)}; a mean over p and m is taken within each"
        " draw first. Where nothing is redrawn there is no error. Underlined is the best of a data set, in"
        f" colour what ties with it: the difference is within {ERRORS:g} standard errors, paired by draw."
    )
