"""Which model wins: findings in words, scores and ranks, duels, robustness, and what a score costs.

All of it follows from the rankings of `pipeline.scoring.ranking`, one for each score that compares models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import elements, figures, look
from sweep_clustering.pipeline.report.content import Content, Part
from sweep_clustering.pipeline.report.elements import (
    NOTHING,
    WORDS,
    Column,
    Reading,
    Table,
    Value,
    listed,
    number,
)
from sweep_clustering.pipeline.scoring import ranking as stats
from sweep_clustering.pipeline.scoring.ranking import MEAN, ROUNDING, Ranking
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.pipeline.scoring.tables import MIXTURES, REDRAWS, time_table

# Of a score.
FORM = ".3f"

# Units, one and several, as a note says them.
KINDS = {
    REDRAWS: (
        "redraw of the annotations of a real data set",
        "redraws of the annotations of a real data set",
    ),
    MIXTURES: ("mixture of a set of them", "mixtures of a set of them"),
}
# Most ranks that are written along the diagram.
TICKS = 18
# Inches: of a line of labels, from bar to bar, and of the axis with its title.
ROW, BAR, HEAD = 0.22, 0.13, 0.5
# Inches of the axis between the names, and letters of a mean rank beside each name.
LEAST_SCALE, RANK_LETTERS = 3.5, 6

# Inches of a row of points, and of the axis and the legend below them; letters of a name beside a row.
STRIP, STRIP_ENDS, LONG_NAME = 0.17, 1.6, 34
PANEL = (1.95, 1.6)
# Inches: of the figure of costs, and of a label in the column of labels.
LEAST_HEIGHT, COST_ROW = 2.6, 0.21
# Of a name beside a figure, and of the line from it to its point.
NAME: dict[str, Any] = {"va": "center", "annotation_clip": False}
LEADER = {"arrowstyle": "-", "color": look.GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 4}
LEADER |= {"relpos": (0, 0.5)}
RULE = "won–tied–lost: against every other model, over data sets; s: CPU seconds of a cell"


def findings(rankings: Sequence[Ranking]) -> tuple[str, ...]:
    """Plain words on who wins, a paragraph for each score.

    Parameters
    ----------
    rankings : sequence of Ranking
        From `pipeline.scoring.ranking.rankings`.
    """
    known = [ranking for ranking in rankings if ranking.models]
    if not known:
        return ("Nothing to compare: no cell of a data set with true labels is done.",)
    if not any(ranking.is_comparable for ranking in known):
        return (f"Nothing to compare: {known[0].models[0]} is the only model with a score.",)
    return (*(" ".join(_of_score(ranking)) for ranking in known), *_gaps(known[0]))


def _of_score(ranking: Ranking) -> Iterator[str]:
    if not ranking.datasets:
        yield f"{ranking.label}: no data set has a score of every model, so there are no ranks."
        return
    first, count = _first(ranking), plural(len(ranking.datasets), "data set")
    have = f"{first[0]} has" if len(first) == 1 else f"{listed(first)} share"
    best = f"{ranking.ranks[first[0]].mean():.2f} of {len(ranking.models)}"
    so_far = "so far " if ranking.is_partial else ""
    others = [model for model in ranking.models if model not in first]
    means = ranking.means.mean()
    behind = f", before {ranking.ranks[others[0]].mean():.2f} of {others[0]}" if others else ""
    rank = f"{ranking.label}: {so_far}{have} the best mean rank, {best}{behind}, over {count}"
    if len(first) > 1:
        yield f"{rank} (the same)."
    elif judged := len(ranking.judged_datasets):
        good = int(ranking.as_good.loc[ranking.judged_datasets, first[0]].sum())
        near = f"or one within {stats.ERRORS:g} paired standard errors of it"
        among = "them" if judged == len(ranking.datasets) else f"the {judged} with standard errors"
        where = f"on {good} of {among}" if len(ranking.datasets) > 1 else "on it" if good else "not on it"
        yield f"{rank}, and the best score, {near}, {where}."
    else:
        yield f"{rank}."
    if others and (higher := means[others].idxmax()) and means[higher] > means[first].max() + ROUNDING:
        yield f"{higher} has the higher mean, {means[higher]:{FORM}} against {means[first].max():{FORM}}."
    yield from _unjudged(ranking)
    if ranking.is_tested:
        yield from _of_test(ranking, first)
    else:
        tell = f"{count} cannot tell models apart, it takes {stats.FEWEST_DATASETS}"
        these = "this data set" if len(ranking.datasets) == 1 else "these data sets"
        yield f"There is no test: {tell}. These are the scores of {these}; nothing follows for others."


def _unjudged(ranking: Ranking) -> Iterator[str]:
    """A sentence on data sets without standard errors; none if every data set has them."""
    without = [name for name in ranking.datasets if name not in ranking.judged_datasets]
    if without:
        where = listed(without) if ranking.judged_datasets else "No data set"
        have = "has" if len(without) == 1 or not ranking.judged_datasets else "have"
        lacks = "no standard errors" if ranking.judged_datasets else "standard errors"
        yield (
            f"{where} {have} {lacks}, which take two draws or more: no score is marked as the best there, and"
            " no win is counted."
        )


def _of_test(ranking: Ranking, first: list[str]) -> Iterator[str]:
    n_datasets, n_models, pairs = len(ranking.datasets), len(ranking.models), ranking.pairs
    if n_models >= stats.FEWEST_MODELS:
        p = "p < 0.0001" if ranking.p < 1e-4 else f"p = {ranking.p:.2g}"
        found = f"Friedman's test: χ² = {ranking.statistic:.1f}, {n_models - 1} degrees of freedom, {p}"
        if ranking.p >= stats.LEVEL:
            yield f"{found}: it does not show that the models differ, in any order."
            return
        yield f"{found}: the models do not all rank alike."
    if not ranking.is_decisive:
        yield (
            f"It takes more data sets to say which: {n_datasets} cannot tell any of the {len(pairs)} pairs of"
            f" {n_models} models apart, as the least p they can give after Holm's correction is"
            f" {stats.least_p(n_datasets, len(pairs)):.2g}."
        )
        return
    apart = ranking.different_pairs
    few = f"{len(apart)} of {plural(len(pairs), 'pair')}" if apart else "no pair"
    surely = f"Wilcoxon's signed ranks with Holm's correction tell {few} apart ({stats.LEVEL:g} in all)"
    beaten = _beaten(ranking)
    if len(first) == 1 and beaten:
        rest = n_models - 1 - len(beaten)
        surely += f": {first[0]} from {listed(beaten)}" + (
            f", not from {plural(rest, 'other')}" if rest else ""
        )
    yield f"{surely}."


def _first(ranking: Ranking) -> list[str]:
    """Models that share the best mean rank."""
    ranks = ranking.ranks.mean()
    return list(ranks.index[np.isclose(ranks, ranks.iloc[0])])


def _beaten(ranking: Ranking) -> list[str]:
    """Models that the tests tell from the first one."""
    return [model for model in ranking.models if (ranking.models[0], model) in ranking.different_pairs]


def _gaps(ranking: Ranking) -> Iterator[str]:
    """Sentences on what does not count, and how; none if everything is there."""
    if ranking.unranked_datasets and ranking.datasets:
        yield f"Not ranked: {listed(ranking.unranked_datasets)}, where some model has no score."
    values = ranking.values
    absent = [model for model in values["model"].unique() if model not in ranking.models]
    if absent:
        yield f"Without any score, and so not here: {listed(absent)}."
    without, failed, pending = values[["no_solution", "failed", "pending"]].sum()
    if without:
        yield (
            f"{plural(without, 'cell')} without a solution {'counts' if without == 1 else 'count'} with a"
            " score of 0, that of all samples in one cluster."
        )
    missing = [f"{plural(failed, 'cell')} failed"] if failed else []
    missing += [f"{plural(pending, 'cell')} {elements.are(pending)} pending"] if pending else []
    if missing:
        yield (
            f"On data sets with a score {listed(missing)}. If one model has no result, the cells of the"
            " others at the same p, m and draw are left out too."
        )


def headline(ranked: Sequence[Ranking]) -> tuple[str, ...]:
    """The best model by the first score that ranks, beside its neighbours and the last, and what a test says.

    Parameters
    ----------
    ranked : sequence of Ranking
        Those of two models or more that have ranks.

    Returns
    -------
    tuple of str
        One sentence; none without any.
    """
    if not ranked:
        return ()
    ranking, shared, beaten = ranked[0], _first(ranked[0]), _beaten(ranked[0])
    label, means, ranks = ranking.label, ranking.means.mean(), ranking.ranks.mean()
    first, *others = ranking.models
    over = f"over {plural(len(ranking.datasets), 'data set')}"
    so_far = "So far " if ranking.is_partial else ""
    if not ranking.is_tested:
        few = plural(len(ranking.datasets), "data set is too few", "data sets are too few")
        surely = f"{few} for a test, so this holds for {'it' if len(ranking.datasets) == 1 else 'them'} alone"
        surely += "" if ranking.judged_datasets else ", and one draw has no standard error"
    elif beaten:
        surely = f"a test over data sets tells it from {len(beaten)} of {plural(len(others), 'other model')}"
    else:
        it = "it" if len(shared) == 1 else "them"
        surely = f"a test over data sets does not tell {it} from any other model"
    if len(shared) > 1:
        scores = ", ".join(f"{means[model]:{FORM}}" for model in shared[:4])
        best = f"{listed(shared)} share the best mean rank ({scores}) {over}"
        return (f"{so_far}{'by' if so_far else 'By'} {label} {best}; {surely}.",)
    # the next by rank, the best of the others by score, and the last
    named = dict.fromkeys((others[0], means[others].idxmax(), others[-1]))
    rest = " and ".join(f"{means[model]:{FORM}} of {model}" for model in named)
    order = f"by mean rank, {ranks[first]:.2f} before {ranks[others[0]]:.2f}"
    higher = max(named, key=means.__getitem__)
    although = f", although {higher} has the higher mean" if means[higher] > means[first] + ROUNDING else ""
    return (
        f"{so_far}{first} ranks best {order}: mean {label} {means[first]:{FORM}} {over}, against"
        f" {rest}{although}; {surely}.",
    )


def winner_lines(content: Content, width: int) -> Iterator[str]:
    """Findings for a terminal, and under them mean rank, mean score, wins and time of each model.

    Parameters
    ----------
    content : Content
        What to show.
    width : int
        Letters of a line.
    """
    yield "who wins"
    for paragraph in findings(content.rankings):
        yield from elements.wrapped(paragraph, width, first="  ", others="    ")
    if not content.ranked:
        return
    found = content.ranked
    seconds = cost_table(found[0], content.cells).set_index("model")["cpu_seconds"]
    layout = ("<22", *(">10", ">7", ">16") * len(found), ">9")
    heads = [head for each in found for head in (f"{each.label} rank", "mean", "won–tied–lost")]
    yield elements.text(("", *heads, "s"), layout)
    tables = [ranking.table().set_index("model") for ranking in found]
    for model in found[0].models:
        line = [look.short(model)]
        for row in (table.loc[model] for table in tables):
            line += [f"{row['mean_rank']:.2f}", f"{row['mean']:{FORM}}", _counts(row)]
        yield elements.text((*line, f"{seconds[model]:.3g}" if model in seconds else "-"), layout)
    yield RULE


def winner_files(content: Content) -> dict[str, pd.DataFrame]:
    """Every number that is said of models against each other, by the name of its file.

    Returns
    -------
    dict of str to pandas.DataFrame
        `winners` (data sets × models), `ranks` (models), `pairs` and `robustness` (p), each for every score;
        nothing without two models.
    """
    found = {
        ranking.score: _files(ranking, content.cells) for ranking in content.rankings if ranking.is_comparable
    }
    names = next(iter(found.values()), {})
    return {
        name: elements.by_score({score: tables[name] for score, tables in found.items()}) for name in names
    }


def _files(ranking: Ranking, cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    values = ranking.values.set_index(["dataset", "model"])
    values["rank"], values["as_good_as_best"] = ranking.ranks.stack(), ranking.as_good.stack()
    cost = cost_table(ranking, cells).set_index("model")[["cpu_seconds", "seconds"]]
    ranks = ranking.table().join(cost, on="model")
    return {
        "winners": values.reset_index(),
        "ranks": ranks.assign(friedman=ranking.statistic, friedman_p=ranking.p),
        "pairs": ranking.pairs,
        "robustness": stats.by_accuracy(ranking),
    }


def standing(content: Content) -> Iterator[Part]:
    """Who wins and how far that reaches, models by data sets, and diagrams of mean ranks."""
    said, compared = WORDS["winners"], [ranking for ranking in content.rankings if ranking.is_comparable]
    yield from findings(content.rankings)
    if compared:
        yield Reading(said["reading"])
    for ranking in compared:
        yield from _standing(ranking)
    # of a single data set all diagrams say the same: which score is higher
    alone = len(content.rankings[0].places) == 1 if content.rankings else False
    for ranking in content.rankings[: 1 if alone else None]:
        bars = said["bars"].format(level=stats.LEVEL) if ranking.is_tested else said["no_bars"]
        if ranking.is_tested and not ranking.is_decisive:
            bars += f" {said['powerless']}"
        over = plural(len(ranking.datasets), "data set")
        text = said["ranks"].format(label=ranking.label, datasets=over, bars=bars)
        yield f"ranks-{ranking.label.lower()}", draw_ranks(ranking), text
    for ranking in content.ranked:
        text = WORDS["strip"]["points"].format(label=ranking.label, csv="winners.csv")
        yield f"standing-{ranking.label.lower()}", draw_standing(ranking), text


def draw_standing(ranking: Ranking) -> Figure | None:
    """Draw a row of points for each data set, one for each model; none of a single data set.

    Parameters
    ----------
    ranking : Ranking
        That has ranks.
    """
    names, means = ranking.datasets, ranking.means
    if len(names) < 2:
        return None
    figure, axes = look.panel(look.HALF, STRIP * len(names) + STRIP_ENDS)
    for model in ranking.models:
        how = look.mark(model)
        (drawn,) = axes.plot(means[model], range(len(names)), color=how.color, linestyle="", label=model)
        drawn.set(**how.markers, markersize=5.5)
        look.hover(drawn, [f"{model}, {name}: {means.at[name, model]:{FORM}}" for name in names])
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel=LABELS[ranking.score].axis)
    axes.set_yticks(range(len(names)), [look.short(name, longest=LONG_NAME) for name in names])
    axes.grid()
    look.legend(figure, [axes])
    return figure


def _standing(ranking: Ranking) -> Iterator[Table]:
    """Models, best mean rank first, by data sets, which go down where they are many; the best are marked.

    A model that no other ties with is underlined, and those that tie with the best are coloured.
    """
    values, said = ranking.values.set_index(["dataset", "model"]), WORDS["winners"]
    n_good = ranking.as_good.sum(axis="columns")

    def entry(name: str, model: str) -> Value:
        mean, se = values.at[(name, model), "mean"], values.at[(name, model), "se"]
        found = elements.mean_and_error(mean, se, FORM)
        if not ranking.as_good.at[name, model]:
            return found
        return replace(found, kind="best" if n_good[name] == 1 else "good")

    def on(name: str, row: Any) -> Value:
        return entry(name, row.model)

    columns: list[Column] = [("model", "model", ""), ("mean rank", "mean_rank", ".2f")]
    columns.append((f"mean {ranking.label}", "mean", FORM))
    if values["no_solution"].any():
        columns.append(("solved", lambda row: row.done / ((row.done + row.no_solution) or np.nan), ".0%"))
    names = {name: name + " (not ranked)" * (name in ranking.unranked_datasets) for name in ranking.places}
    across = len(names) <= look.MOST_DATASETS
    columns += [(names[name], partial(on, name), "") for name in names if across]
    over = []
    for unit, kind in KINDS.items():
        if len(known := values.loc[(values["n"] > 0) & (values["unit"] == unit), "n"]):
            low, high = known.min(), known.max()
            over.append(plural(high, *kind) if low == high else f"{low} to {high} {kind[1]}")
    marks = said["marks" if ranking.judged_datasets else "unmarked"].format(errors=stats.ERRORS)
    means = "Mean ± standard error" if ranking.judged_datasets else "Mean"
    note = said["note"].format(means=means, units="; ".join(over), marks=marks)
    title = f"{ranking.label} of each model on each data set"
    whole = f"{ranking.label} of each model over data sets"
    first, text = (title, note) if across else (whole, said["over"])
    yield elements.table(first, ranking.table(), columns, note=text, pinned=True)
    if not across:
        heads = ("data set", *ranking.models)
        rows = [(elements.words(names[name]), *(entry(name, model) for model in heads[1:])) for name in names]
        yield Table(title, heads, tuple(rows), note=note, pinned=True, folded=True)


def _point(axes: Axes, x: float, y: float, model: str, size: float, tip: str, **more: Any) -> None:
    """A point of a model, with words on it."""
    how = look.mark(model)
    (point,) = axes.plot([x], [y], color=how.color, linestyle="", markersize=size, **how.markers, **more)
    look.hover(point, [f"{model}: {tip}"])


def draw_ranks(ranking: Ranking) -> Figure | None:
    """Draw the mean rank of each model, the best at the left, each labelled at the nearer side.

    Bars join models that are not told apart: a diagram of critical differences.

    Parameters
    ----------
    ranking : Ranking
        Of any number of models.

    Returns
    -------
    Figure or None
        None without two models that have ranks.
    """
    models, ranks = ranking.models, ranking.ranks.mean()
    if len(models) < 2 or not ranking.datasets:
        return None
    left = (len(models) + 1) // 2
    longest = (max(map(len, side)) for side in (models[:left], models[left:]))
    names = sum(min(letters, look.LONGEST_MODEL) + RANK_LETTERS for letters in longest)
    levels = _levels(ranking.groups)
    deep = BAR * (max(levels, default=-1) + 2)
    figure, axes = look.panel(
        max(look.HALF, LEAST_SCALE + look.LETTER * names), HEAD + deep + ROW * left + 0.1
    )
    axes.set(
        xlim=(1, len(models)),
        ylim=(deep + ROW * left, 0),
        xticks=range(1, len(models) + 1, -(-len(models) // TICKS)),
        yticks=[],
    )
    axes.set_xlabel("mean rank (1 is best)")
    axes.xaxis.set(ticks_position="top", label_position="top")
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    for ends, level in zip(ranking.groups, levels, strict=True):
        first, last = ranks.iloc[list(ends)]
        # Cut off at its ends: a round or square end would reach a neighbour that the bar does not join.
        axes.plot(
            [first - 0.04, last + 0.04],
            [BAR * (level + 1)] * 2,
            color=look.INK,
            linewidth=4,
            solid_capstyle="butt",
        )
    label, means = ranking.label, ranking.means.mean()
    for place, model in enumerate(models):
        rank, name, to_left = float(ranks[model]), look.short(model, longest=look.LONGEST_MODEL), place < left
        y = deep + ROW * ((place if to_left else len(models) - 1 - place) + 0.5)
        side = 1.0 if to_left else float(len(models))
        axes.plot([rank, rank, side], [0, y, y], color=look.GREY, linewidth=0.9, clip_on=False)
        tip = f"mean rank {rank:.2f}, mean {label} {means[model]:{FORM}}"
        _point(axes, rank, 0, model, 6, tip, clip_on=False, zorder=5)
        text, ha = (f"{name}  {rank:.2f}", "right") if to_left else (f"{rank:.2f}  {name}", "left")
        off = (-4 if to_left else 4, 0)
        axes.annotate(text, (side, y), off, textcoords="offset points", ha=ha, **NAME)
    return figure


def _levels(groups: list[tuple[int, int]]) -> list[int]:
    """Height of each bar, so that none touches another: the first that is free."""
    ends: list[int] = []
    levels = []
    for first, last in groups:
        level = next((place for place, end in enumerate(ends) if end < first), len(ends))
        ends[level : level + 1] = [last]
        levels.append(level)
    return levels


def duels(content: Content) -> Iterator[Part]:
    """Each model against each other, by each score, best mean rank first."""
    said = WORDS["duels"]
    yield said["reading"]
    for ranking in content.ranked:
        if not ranking.judged_datasets:
            yield f"{ranking.label}: {said['unjudged']}"
            continue
        found = ranking.matrix()
        columns: list[Column] = [("model", _placed, ""), ("all", _duel, "")]
        for place, model in enumerate(ranking.models, start=1):
            columns.append((str(place), partial(_beside, found, ranking.different_pairs, model), ""))
        note = said["note"].format(errors=stats.ERRORS) + f" {said['tested']}" * ranking.is_tested
        title = f"Data sets won – tied – lost by {ranking.label}"
        yield elements.table(title, ranking.table(), columns, note=note, pinned=True)


def _placed(row: Any) -> Value:
    return Value(f"{row.Index + 1} {row.model}", f"{row.Index + 1:02}")


def _beside(found: pd.DataFrame, told: set[tuple[str, str]], other: str, row: Any) -> Value:
    pair = row.model, other
    return NOTHING if row.model == other else _duel(found.loc[pair], "best" * (pair in told))


def _duel(row: Any, kind: str = "") -> Value:
    return Value(_counts(row), None if pd.isna(row.wins) else int(row.wins - row.losses), kind)


def _counts(row: Any) -> str:
    """Data sets won, tied and lost; a dash where nothing has a standard error."""
    if pd.isna(row.wins):
        return NOTHING.text
    return f"{row.wins:.0f}–{row.ties:.0f}–{row.losses:.0f}"


def robustness(content: Content) -> Iterator[Part]:
    """Means over the data sets that are ranked, by accuracy, of scores that are known at two or more."""
    found = [(ranking, stats.by_accuracy(ranking)) for ranking in content.ranked]
    found = [(ranking, table) for ranking, table in found if table["p"].nunique() > 1]
    said = WORDS["robustness"]
    for ranking, table in found:
        wide = table[table["dataset"] == MEAN].pivot(index="model", columns="p", values="mean")
        low, *_, high = wide.columns
        columns: list[Column] = [(f"p = {p:g}", itemgetter(at), FORM) for at, p in enumerate(wide.columns, 1)]
        columns.append((f"p = {high:g} less p = {low:g}", "drop", f"+{FORM}"))
        rows = wide.assign(drop=(wide[high] - wide[low]).mask(wide.index.isin(ranking.baselines)))
        title, columns = f"{ranking.label} by accuracy", [("model", "Index", ""), *columns]
        yield elements.table(title, rows.loc[ranking.models], columns, note=said["drop"])
    for ranking, table in found:
        figure = draw_robustness(table, ranking.score)
        text = said["curves"].format(band=said["band"] if table["se"].notna().any() else "")
        yield f"robustness-{ranking.label.lower()}", figure, f"{ranking.label} {text}"


def draw_robustness(table: pd.DataFrame, score: str) -> Figure | None:
    """Draw lines over p: the mean of all data sets, and each of some of them.

    Parameters
    ----------
    table : pandas.DataFrame
        From `pipeline.scoring.ranking.by_accuracy`.
    score : str
        What its means are of.

    Returns
    -------
    Figure or None
        None without any row.
    """
    whole = table[table["dataset"] == MEAN]
    names = [name for name in table["dataset"].unique() if name != MEAN]
    if len(names) > 1:
        names = [MEAN, *elements.some(names)]
    title = {MEAN: f"mean of {plural(int(whole['n'].max()), 'data set')}"}
    shown = [(look.short(title.get(name, name)), table[table["dataset"] == name]) for name in names]

    def panel(axes: Axes, rows: pd.DataFrame) -> None:
        figures.curves(axes, rows.sort_values("p", kind="stable"), "p", lambda row: f"p = {row.p:g}", 0.16)
        look.tick_counts(axes, sorted(rows["p"].unique()))
        axes.set_xlabel("accuracy p")

    return figures.wrapped(shown, panel, PANEL, LABELS[score].axis)


def cost(content: Content) -> Iterator[Part]:
    """Scores beside times, in numbers and drawn, where any model has a time."""
    found = [(ranking, cost_table(ranking, content.cells)) for ranking in content.ranked]
    found = [(ranking, table) for ranking, table in found if len(table)]
    said = WORDS["cost"]
    for ranking, table in found:
        # a mark on every model would say nothing
        marked = table.assign(best=table["best"] & ~table["best"].all() & bool(ranking.judged_datasets))
        columns: list[Column] = [("model", "model", ""), (f"mean {ranking.label}", _marked, "")]
        columns += [("CPU s a cell", "cpu_seconds", ".3g"), ("s a cell", "seconds", ".3g")]
        key = "quicker" if marked["best"].any() else "all_quicker" if ranking.judged_datasets else "unjudged"
        note = said[key]
        yield elements.table(f"{ranking.label} and time", marked, columns, note=note)
    for ranking, table in found:
        text = f"{ranking.label}, {said['points']}"
        yield f"cost-{ranking.label.lower()}", draw_costs(table, ranking.score), text


def _marked(row: Any) -> Value:
    return replace(number(row.mean, FORM), kind="best" * row.best)


def cost_table(ranking: Ranking, cells: pd.DataFrame) -> pd.DataFrame:
    """Score and time of each model that has a time, over the data sets that are ranked.

    Parameters
    ----------
    ranking : Ranking
        Of one score.
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    pandas.DataFrame
        `model`, `mean` score, `cpu_seconds` and `seconds` of a cell (geometric means over data sets of the
        mean over cells), `best` if no other model is as quick and better, or quicker and as good.
    """
    times = time_table(cells)
    times = times[times["dataset"].isin(ranking.datasets) & (times["cpu_seconds"] > 0)]
    logs = np.log(times.set_index("model")[["cpu_seconds", "seconds"]].astype(float))
    means = np.exp(logs.groupby(level="model").mean())
    table = means.reindex([model for model in ranking.models if model in means.index])
    table.insert(0, "mean", ranking.means.mean().reindex(table.index))
    score, cost = table["mean"].to_numpy()[:, None], table["cpu_seconds"].to_numpy()[:, None]
    beaten = (score <= score.T) & (cost >= cost.T) & ((score < score.T) | (cost > cost.T))
    return table.assign(best=~beaten.any(axis=1)).rename_axis("model").reset_index()


def draw_costs(table: pd.DataFrame, score: str) -> Figure:
    """Draw a point for each model, with its name in a column beside the panel.

    Parameters
    ----------
    table : pandas.DataFrame
        From `cost_table`; not empty.
    score : str
        What its means are of.
    """
    rows = table.sort_values("mean", kind="stable")
    height = max(LEAST_HEIGHT, COST_ROW * len(rows) + 0.9)
    figure, axes = look.panel(look.HALF, height)
    low, high = rows["cpu_seconds"].agg(["min", "max"])
    figures.log_axis(axes, (1.0,) if high > 200 * low else (1, 2, 5))
    means = rows["mean"].to_numpy(dtype=float)
    pad = max(0.01, 0.06 * float(np.ptp(means)))
    bottom, top = means.min() - pad, means.max() + pad
    axes.set(xlim=(low / 1.6, high * 1.6), ylim=(bottom, top))
    heights = apart((means - bottom) / (top - bottom), min(COST_ROW / (height - 0.9), 1 / len(rows)))
    for row, level in zip(rows.itertuples(), heights, strict=True):
        tip = f"{LABELS[score].short} {row.mean:{FORM}}, {row.cpu_seconds:.3g} CPU s a cell"
        _point(axes, row.cpu_seconds, row.mean, str(row.model), 7, tip, zorder=3)
        text, point = look.short(str(row.model), longest=look.LONGEST_MODEL), (row.cpu_seconds, row.mean)
        axes.annotate(text, point, (1.04, level), textcoords="axes fraction", arrowprops=LEADER, **NAME)
    axes.set(xlabel="CPU seconds of a cell (log)", ylabel=LABELS[score].axis)
    axes.grid()
    return figure


def apart(places: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Places in ascending order within 0 to 1, moved as little as keeps neighbours `least` apart."""
    steps = least * np.arange(len(places))
    # Without the steps, neighbours need only stay in order: the nearest such places are a known problem.
    return np.asarray(np.clip(isotonic_regression(places - steps).x, 0.0, 1.0 - steps[-1]) + steps)
