"""Which model wins: findings in words, scores and ranks, duels, robustness, kinds of data, and costs.

Everything follows from the rankings of `pipeline.scoring.ranking`, one for each score that compares models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from sweep_clustering.pipeline import looks
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import elements, figures
from sweep_clustering.pipeline.report.elements import FORM, WORDS, Content, Part, Table, Value, words
from sweep_clustering.pipeline.scoring import ranking as stats
from sweep_clustering.pipeline.scoring.ranking import MEAN, ROUNDING, Ranking
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.pipeline.scoring.tables import MIXTURES, REDRAWS, time_table

# Origins of units, in the words of a note.
ORIGINS = {REDRAWS: "the annotations of a real data set", MIXTURES: "a set of them"}
# Most ranks that are written along the diagram.
TICKS = 18
# Heights in inches: a line of labels, the step from bar to bar, and the axis with its title.
ROW = 0.22
BAR = 0.13
HEAD = 0.5
# Least inches of the axis between the names, and letters of a mean rank beside each name.
LEAST_SCALE = 3.5
RANK_LETTERS = 6

# Heights in inches of a row of points, and of the axis with the legend below them.
STRIP = 0.17
STRIP_ENDS = 1.6
# Letters of a name beside a row of points.
LONG_NAME = 34
# Width and height of a panel of robustness in inches.
PANEL = (1.95, 1.6)
# Heights in inches of the figure of costs, and of a label in its column of labels.
LEAST_HEIGHT = 2.6
COST_ROW = 0.21
# Properties of a name beside a figure, and of the line from it to its point.
NAME: dict[str, Any] = {"va": "center", "annotation_clip": False}
LEADER = {
    "arrowstyle": "-",
    "color": looks.GREY,
    "linewidth": 0.5,
    "shrinkA": 0,
    "shrinkB": 4,
    "relpos": (0, 0.5),
}
RULE = "Won–tied–lost: against every other model, over data sets. s: CPU seconds of a cell (geometric mean)."

# Width and height in inches of a cell of the map of kinds, and of the names beside and above it.
CELL = (0.5, 0.22)
NAME_WIDTH = 2.2
NAME_HEIGHT = 1.5
# Opacity of the best possible rank. The last rank has none.
DEEPEST = 0.75


def findings(rankings: Sequence[Ranking]) -> tuple[str, ...]:
    """Say in plain words who wins, with a paragraph for each ranking of `ranking.rankings`."""
    rankings = [ranking for ranking in rankings if ranking.models]
    if not rankings:
        return ("Nothing to compare: no cell of a data set with true labels is done.",)
    if not any(ranking.is_comparable for ranking in rankings):
        return (f"Nothing to compare: {rankings[0].models[0]} is the only model with a score.",)
    return (*(" ".join(_result(ranking)) for ranking in rankings), *_gaps(rankings[0]))


def _result(ranking: Ranking) -> Iterator[str]:
    if not ranking.datasets:
        yield f"{ranking.label}: no data set has a score of every model, so there are no ranks."
        return
    first, count = _first(ranking), plural(len(ranking.datasets), "data set")
    have = f"{first[0]} has" if len(first) == 1 else f"{elements.enumeration(first)} share"
    best = f"{ranking.ranks[first[0]].mean():.2f} of {len(ranking.models)}"
    so_far = "so far " if ranking.is_partial else ""
    losers = [model for model in ranking.models if model not in first]
    means = ranking.means.mean()
    behind = f", before {ranking.ranks[losers[0]].mean():.2f} of {losers[0]}" if losers else ""
    rank = f"{ranking.label}: {so_far}{have} the best mean rank, {best}{behind}, over {count}"
    if len(first) > 1:
        yield f"{rank} (the same)."
    elif n_judged := len(ranking.judged_datasets):
        good = int(ranking.as_good.loc[ranking.judged_datasets, first[0]].sum())
        tolerance = f"or one within {stats.ERRORS:g} paired standard errors of it"
        judged_text = "them" if n_judged == len(ranking.datasets) else f"the {n_judged} with standard errors"
        single_text = "on that set" if good else "not on that set"
        share_text = f"on {good} of {judged_text}" if len(ranking.datasets) > 1 else single_text
        yield f"{rank}, and the best score, {tolerance}, {share_text}."
    else:
        yield f"{rank}."
    if losers and (higher := means[losers].idxmax()) and means[higher] > means[first].max() + ROUNDING:
        yield f"{higher} has the higher mean, {means[higher]:{FORM}} against {means[first].max():{FORM}}."
    yield from _unjudged(ranking)
    if ranking.is_tested:
        yield from _test_result(ranking, first)
    else:
        tell = f"{count} cannot tell models apart, it takes {stats.FEWEST_DATASETS}"
        set_text = "this data set" if len(ranking.datasets) == 1 else "these data sets"
        yield f"There is no test: {tell}. These are the scores of {set_text}; nothing follows for others."


def _unjudged(ranking: Ranking) -> Iterator[str]:
    """Say which data sets have no standard errors."""
    unjudged = [name for name in ranking.datasets if name not in ranking.judged_datasets]
    if unjudged:
        sets = elements.enumeration(unjudged) if ranking.judged_datasets else "No data set"
        have = "has" if len(unjudged) == 1 or not ranking.judged_datasets else "have"
        errors = "no standard errors" if ranking.judged_datasets else "standard errors"
        yield (
            f"{sets} {have} {errors}, which take two draws or more: no score is marked as the best there, and"
            " no win is counted."
        )


def _test_result(ranking: Ranking, first: list[str]) -> Iterator[str]:
    n_datasets, n_models, pairs = len(ranking.datasets), len(ranking.models), ranking.pairs
    if n_models >= stats.FEWEST_MODELS:
        p = "p < 0.0001" if ranking.p < 1e-4 else f"p = {ranking.p:.2g}"
        test = f"Friedman's test: χ² = {ranking.statistic:.1f}, {n_models - 1} degrees of freedom, {p}"
        if ranking.p >= stats.LEVEL:
            yield f"{test}: it does not show that the models differ, in any order."
            return
        yield f"{test}: the models do not all rank alike."
    if not ranking.is_decisive:
        yield (
            f"It takes more data sets to say which: {n_datasets} cannot tell any of the {len(pairs)} pairs of"
            f" {n_models} models apart, as the least p they can give after Holm's correction is"
            f" {stats.least_p(n_datasets, len(pairs)):.2g}."
        )
        return
    different_pairs = ranking.different_pairs
    count = f"{len(different_pairs)} of {plural(len(pairs), 'pair')}" if different_pairs else "no pair"
    sentence = f"Wilcoxon's signed ranks with Holm's correction tell {count} apart ({stats.LEVEL:g} in all)"
    beaten = _beaten(ranking)
    if len(first) == 1 and beaten:
        n_undecided = n_models - 1 - len(beaten)
        sentence += f": {first[0]} from {elements.enumeration(beaten)}"
        sentence += f", not from {plural(n_undecided, 'other')}" if n_undecided else ""
    yield f"{sentence}."


def _first(ranking: Ranking) -> list[str]:
    """Return the models that share the best mean rank."""
    ranks = ranking.ranks.mean()
    return list(ranks.index[np.isclose(ranks, ranks.iloc[0])])


def _beaten(ranking: Ranking) -> list[str]:
    """Return the models that the tests tell from the first one."""
    return [model for model in ranking.models if (ranking.models[0], model) in ranking.different_pairs]


def _gaps(ranking: Ranking) -> Iterator[str]:
    """Say what is missing, and how it counts."""
    if ranking.unranked_datasets and ranking.datasets:
        yield f"Not ranked: {elements.enumeration(ranking.unranked_datasets)}, where some model has no score."
    values = ranking.values
    unscored_models = [model for model in values["model"].unique() if model not in ranking.models]
    if unscored_models:
        yield f"Without any score, and so not here: {elements.enumeration(unscored_models)}."
    n_unsolved, n_failed, n_pending = values[["no_solution", "failed", "pending"]].sum()
    if n_unsolved:
        yield (
            f"{plural(n_unsolved, 'cell')} without a solution {'counts' if n_unsolved == 1 else 'count'} with"
            " a score of 0, that of all samples in one cluster."
        )
    gaps = [f"{plural(n_failed, 'cell')} failed"] if n_failed else []
    gaps += [f"{plural(n_pending, 'cell')} {elements.are(n_pending)} pending"] if n_pending else []
    if gaps:
        yield (
            f"On data sets with a score {' and '.join(gaps)}. If one model has no result, the cells of the"
            " others at the same p, m and draw are left out too."
        )


def headline(rankings: Sequence[Ranking]) -> tuple[str, ...]:
    """Return a sentence on the best model by the first score, its neighbours, the last, and the test.

    `rankings` are the rankings of two models or more that have ranks. Without any there is no sentence.
    """
    if not rankings:
        return ()
    ranking = rankings[0]
    best_models, label = _first(ranking), ranking.label
    means, ranks = ranking.means.mean(), ranking.ranks.mean()
    first, *losers = ranking.models
    extent = f"over {plural(len(ranking.datasets), 'data set')}"
    so_far = "So far " if ranking.is_partial else ""
    certainty = _certainty(ranking)
    if len(best_models) > 1:
        scores = ", ".join(f"{means[model]:{FORM}}" for model in best_models[:4])
        best = f"{elements.enumeration(best_models)} share the best mean rank ({scores}) {extent}"
        return (f"{so_far}{'by' if so_far else 'By'} {label} {best}; {certainty}.",)
    # the next by rank, the best of the others by score, and the last
    neighbours = dict.fromkeys((losers[0], means[losers].idxmax(), losers[-1]))
    other_means = " and ".join(f"{means[model]:{FORM}} of {model}" for model in neighbours)
    order = f"by mean rank, {ranks[first]:.2f} before {ranks[losers[0]]:.2f}"
    higher = max(neighbours, key=means.__getitem__)
    although = f", although {higher} has the higher mean" if means[higher] > means[first] + ROUNDING else ""
    return (
        f"{so_far}{first} ranks best {order}: mean {label} {means[first]:{FORM}} {extent}, against"
        f" {other_means}{although}; {certainty}.",
    )


def _certainty(ranking: Ranking) -> str:
    """Say whether a test tells the first model from others."""
    n_datasets, beaten = len(ranking.datasets), _beaten(ranking)
    if not ranking.is_tested:
        set_count = plural(n_datasets, "data set is too few", "data sets are too few")
        sentence = f"{set_count} for a test, so this holds for {'it' if n_datasets == 1 else 'them'} alone"
        return sentence + ("" if ranking.judged_datasets else ", and one draw has no standard error")
    if beaten:
        other_count = plural(len(ranking.models) - 1, "other model")
        return f"a test over data sets tells it from {len(beaten)} of {other_count}"
    pronoun = "it" if len(_first(ranking)) == 1 else "them"
    return f"a test over data sets does not tell {pronoun} from any other model"


def _overview(rankings: Sequence[Ranking], cells: pd.DataFrame) -> Iterator[Table]:
    """Yield mean rank, mean score, duels and time of each model, best mean rank by the first score first."""
    if not rankings:
        return
    columns: list[elements.Column] = [("model", str, "")]
    for ranking in rankings:
        rows = ranking.table().set_index("model")
        duels = {model: _duel(row) for model, row in rows.iterrows()}
        columns.append((f"{ranking.label} rank", rows["mean_rank"].get, ".2f"))
        columns += [("mean", rows["mean"].get, FORM), ("won–tied–lost", duels.get, "")]
    outcomes = rankings[0].table().set_index("model")[["done", "no_solution"]]
    if outcomes["no_solution"].any():
        columns.append(("solved", (outcomes["done"] / outcomes.sum(axis="columns")).get, ".0%"))
    seconds = cost_table(rankings[0], cells).set_index("model")["cpu_seconds"]
    columns.append(("s", seconds.get, ".3g"))
    yield elements.table("All models", rankings[0].models, columns, note=RULE, n_lead=1, file="ranks.csv")


def winner_files(content: Content) -> dict[str, pd.DataFrame]:
    """Return every number that compares models, by the name of its file; nothing without two models.

    `winners` has data sets × models, `ranks` models, `pairs` and `robustness` accuracies, and `kinds` ranks
    by kind of data, each for every score.
    """
    tables = {
        ranking.score: _files(ranking, content.cells) for ranking in content.rankings if ranking.is_comparable
    }
    names = next(iter(tables.values()), {})
    by_name = {name: {score: files[name] for score, files in tables.items()} for name in names}
    if content.kinds:
        by_name["kinds"] = content.kinds
    return {name: elements.by_score(by_name[name]) for name in by_name}


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
    """Yield who wins and how far that reaches, models by data sets, and diagrams of mean ranks."""
    texts, comparable = WORDS["winners"], [ranking for ranking in content.rankings if ranking.is_comparable]
    yield from findings(content.rankings)
    if comparable:
        yield elements.Reading(texts["reading"])
    yield from _overview(content.full_rankings, content.cells)
    for ranking in comparable:
        yield from _standing(ranking)
    # all diagrams of a single data set say the same: which score is higher
    is_single = len(content.rankings[0].places) == 1 if content.rankings else False
    for ranking in content.rankings[: 1 if is_single else None]:
        bars = texts["bars"].format(level=stats.LEVEL) if ranking.is_tested else texts["no_bars"]
        if ranking.is_tested and not ranking.is_decisive:
            bars += f" {texts['powerless']}"
        set_count = plural(len(ranking.datasets), "data set")
        text = texts["ranks"].format(label=ranking.label, datasets=set_count, bars=bars)
        yield f"ranks-{ranking.label.lower()}", draw_ranks(ranking), text
    for ranking in content.full_rankings:
        text = WORDS["strip"]["points"].format(label=ranking.label, csv="winners.csv")
        yield f"standing-{ranking.label.lower()}", draw_standing(ranking), text


def draw_standing(ranking: Ranking) -> Figure | None:
    """Draw a row of points for each data set, with one for each model; nothing for a single data set."""
    names, means = ranking.datasets, ranking.means
    if len(names) < 2:
        return None
    figure, axes = figures.panel(figures.HALF, STRIP * len(names) + STRIP_ENDS)
    for model in ranking.models:
        tips = [f"{model}, {name}: {means.at[name, model]:{FORM}}" for name in names]
        figures.points(axes, means[model], range(len(names)), tips, looks.mark(model), 5.5, label=model)
    axes.set(ylim=(len(names) - 0.4, -0.6), xlabel=LABELS[ranking.score].axis)
    axes.set_yticks(range(len(names)), [figures.short(name, longest=LONG_NAME) for name in names])
    axes.grid()
    figures.legend(figure, [axes])
    return figure


def _standing(ranking: Ranking) -> Iterator[Table]:
    """Yield models, best mean rank first, by data sets, which go down if they are many.

    A model that no other ties with is underlined, and those that tie with the best are coloured.
    """
    values, texts = ranking.values.set_index(["dataset", "model"]), WORDS["winners"]
    n_good = ranking.as_good.sum(axis="columns")

    def entry(name: str, model: str) -> Value:
        row = values.loc[(name, model)]
        value = elements.mean_and_error(row["mean"], row["se"])
        if not ranking.as_good.at[name, model]:
            return value
        return replace(value, kind="best" if n_good[name] == 1 else "good")

    names = {name: name + " (not ranked)" * (name in ranking.unranked_datasets) for name in ranking.places}
    unit_texts = []
    for unit, origin in ORIGINS.items():
        if len(counts := values.loc[(values["n"] > 0) & (values["unit"] == unit), "n"]):
            low, high = counts.min(), counts.max()
            count = plural(high, unit.removesuffix("s")) if low == high else f"{low} to {high} {unit}"
            unit_texts.append(f"{count} of {origin}")
    marks = texts["marks" if ranking.judged_datasets else "unmarked"].format(errors=stats.ERRORS)
    means = "Mean ± standard error" if ranking.judged_datasets else "Mean"
    note = texts["note"].format(means=means, units="; ".join(unit_texts), marks=marks)
    if len(names) <= elements.MOST_DATASETS:
        heads = ("model", *names.values())
        rows = [(words(model), *(entry(name, model) for name in names)) for model in ranking.models]
    else:
        heads = ("data set", *ranking.models)
        rows = [(words(names[name]), *(entry(name, model) for model in ranking.models)) for name in names]
    title = f"{ranking.label} of each model on each data set"
    yield Table(title, heads, tuple(rows), note=note, n_lead=1, file="winners.csv")


def draw_ranks(ranking: Ranking) -> Figure | None:
    """Draw the mean rank of each model, the best at the left, each labelled at the nearer side.

    Bars join models that are not told apart, so this is a diagram of critical differences. There is none
    without two models that have ranks.
    """
    models, ranks = ranking.models, ranking.ranks.mean()
    if len(models) < 2 or not ranking.datasets:
        return None
    n_left = (len(models) + 1) // 2
    longest = (max(map(len, side)) for side in (models[:n_left], models[n_left:]))
    letters = sum(min(length, figures.LONGEST_MODEL) + RANK_LETTERS for length in longest)
    levels = bar_levels(ranking.groups)
    deep = BAR * (max(levels, default=-1) + 2)
    height = HEAD + deep + ROW * n_left + 0.1
    figure, axes = figures.panel(max(figures.HALF, LEAST_SCALE + figures.LETTER * letters), height)
    ticks = range(1, len(models) + 1, -(-len(models) // TICKS))
    axes.set(xlim=(1, len(models)), ylim=(deep + ROW * n_left, 0), xticks=ticks, yticks=[])
    axes.set_xlabel("mean rank (1 is best)")
    axes.xaxis.set(ticks_position="top", label_position="top")
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    for group, level in zip(ranking.groups, levels, strict=True):
        first, last = ranks.iloc[list(group)]
        # A round or square end would reach a neighbour that the bar does not join.
        ends, y = [first - 0.04, last + 0.04], BAR * (level + 1)
        axes.plot(ends, [y, y], color=looks.INK, linewidth=4, solid_capstyle="butt")
    label, means = ranking.label, ranking.means.mean()
    for place, model in enumerate(models):
        rank, is_left = float(ranks[model]), place < n_left
        name = figures.short(model, longest=figures.LONGEST_MODEL)
        y = deep + ROW * ((place if is_left else len(models) - 1 - place) + 0.5)
        side = 1.0 if is_left else float(len(models))
        axes.plot([rank, rank, side], [0, y, y], color=looks.GREY, linewidth=0.9, clip_on=False)
        tip = f"{model}: mean rank {rank:.2f}, mean {label} {means[model]:{FORM}}"
        figures.points(axes, [rank], [0], [tip], looks.mark(model), 6, clip_on=False, zorder=5)
        text, ha = (f"{name}  {rank:.2f}", "right") if is_left else (f"{rank:.2f}  {name}", "left")
        offset = (-4 if is_left else 4, 0)
        axes.annotate(text, (side, y), offset, textcoords="offset points", ha=ha, **NAME)
    return figure


def bar_levels(groups: list[tuple[int, int]]) -> list[int]:
    """Return the first free height of each bar, so that none touches another."""
    ends: list[int] = []
    levels = []
    for first, last in groups:
        level = next((place for place, end in enumerate(ends) if end < first), len(ends))
        ends[level : level + 1] = [last]
        levels.append(level)
    return levels


def duels(content: Content) -> Iterator[Part]:
    """Yield each model against each other, by each score, best mean rank first."""
    if not content.full_rankings:
        return
    texts = WORDS["duels"]
    yield texts["reading"]
    for ranking in content.full_rankings:
        if not ranking.judged_datasets:
            yield f"{ranking.label}: {texts['unjudged']}"
            continue
        matrix, rows = ranking.matrix(), []
        for place, row in enumerate(ranking.table().itertuples(), start=1):
            pairs = [(row.model, other) for other in ranking.models]
            duels = (
                elements.DASH
                if model == other
                else _duel(matrix.loc[model, other], (model, other) in ranking.different_pairs)
                for model, other in pairs
            )
            counts = row.wins, row.ties, row.losses
            shares = (elements.number(count / sum(counts), ".0%") for count in counts)
            rows.append((Value(f"{place} {row.model}", f"{place:02}"), _duel(row), *shares, *duels))
        places = (str(place) for place, _ in enumerate(ranking.models, start=1))
        heads = ("model", "all", "won", "tied", "lost", *places)
        note = texts["note"].format(errors=stats.ERRORS) + f" {texts['tested']}" * ranking.is_tested
        title = f"Data sets won – tied – lost by {ranking.label}"
        yield Table(title, heads, tuple(rows), note=note, n_lead=1, file="pairs.csv")


def _duel(row: Any, is_best: bool = False) -> Value:
    """Return an entry of data sets won, tied and lost, or a dash if nothing has a standard error."""
    if pd.isna(row.wins):
        return Value(elements.DASH.text, None, "best" * is_best)
    text = f"{row.wins:.0f}–{row.ties:.0f}–{row.losses:.0f}"
    return Value(text, int(row.wins - row.losses), "best" * is_best)


def robustness(content: Content) -> Iterator[Part]:
    """Yield means over the ranked data sets by accuracy, for scores at two accuracies or more."""
    texts = WORDS["robustness"]
    for ranking in content.full_rankings:
        table = stats.by_accuracy(ranking)
        if table["p"].nunique() < 2:
            continue
        wide = table[table["dataset"] == MEAN].pivot(index="model", columns="p", values="mean")
        low, *_, high = wide.columns
        drop = (wide[high] - wide[low]).mask(wide.index.isin(ranking.baselines))
        columns: list[elements.Column] = [("model", str, "")]
        columns += [(f"p = {p:g}", wide[p].get, FORM) for p in wide.columns]
        columns.append((f"p = {high:g} less p = {low:g}", drop.get, f"+{FORM}"))
        title, file = f"{ranking.label} by accuracy", "robustness.csv"
        yield elements.table(title, ranking.models, columns, note=texts["drop"], file=file)
        figure = draw_robustness(table, ranking.score)
        text = texts["curves"].format(band=texts["band"] if table["se"].notna().any() else "")
        yield f"robustness-{ranking.label.lower()}", figure, f"{ranking.label} {text}"


def draw_robustness(table: pd.DataFrame, score: str) -> Figure | None:
    """Draw the scores of `ranking.by_accuracy` over p, for the mean of all data sets and some data sets."""
    mean_rows = table[table["dataset"] == MEAN]
    names = [name for name in table["dataset"].unique() if name != MEAN]
    if len(names) > 1:
        names = [MEAN, *elements.panel_datasets(names)]
    title = {MEAN: f"mean of {plural(int(mean_rows['n'].max()), 'data set')}"}
    panels = [(figures.short(title.get(name, name)), table[table["dataset"] == name]) for name in names]

    def panel(axes: Axes, rows: pd.DataFrame) -> None:
        figures.curves(axes, rows.sort_values("p", kind="stable"), "p", lambda row: f"p = {row.p:g}", 0.16)
        figures.tick_counts(axes, sorted(rows["p"].unique()))
        axes.set_xlabel("accuracy p")

    return figures.panel_grid(panels, panel, PANEL, LABELS[score].axis)


def cost(content: Content) -> Iterator[Part]:
    """Yield scores beside times, in numbers and drawn, if any model has a time."""
    texts = WORDS["cost"]
    for ranking in content.full_rankings:
        table = cost_table(ranking, content.cells)
        if table.empty:
            continue
        # a mark on every model would say nothing
        is_best = table["best"] & ~table["best"].all() & bool(ranking.judged_datasets)
        means = [
            replace(elements.number(mean, FORM), kind="best" * best)
            for mean, best in zip(table["mean"], is_best, strict=True)
        ]
        columns: list[elements.Column] = [("model", "model", ""), (f"mean {ranking.label}", "mean", "")]
        columns += [("CPU s a cell", "cpu_seconds", ".3g"), ("s a cell", "seconds", ".3g")]
        key = "quicker" if is_best.any() else "all_quicker" if ranking.judged_datasets else "unjudged"
        title, rows = f"{ranking.label} and time", table.assign(mean=means)
        yield elements.table(title, rows, columns, note=texts[key], file="ranks.csv")
        text = f"{ranking.label}, {texts['points']}"
        yield f"cost-{ranking.label.lower()}", draw_costs(table, ranking.score), text


def cost_table(ranking: Ranking, cells: pd.DataFrame) -> pd.DataFrame:
    """Return score and time of each model that has a time, over the ranked data sets.

    Its columns are `model`, `mean` score, and `cpu_seconds` and `seconds` of a cell, which are geometric
    means over data sets of the mean over cells. `best` is true if no other model is as quick and better, or
    quicker and as good.
    """
    times = time_table(cells)
    times = times[times["dataset"].isin(ranking.datasets) & (times["cpu_seconds"] > 0)]
    logs = np.log(times.set_index("model")[["cpu_seconds", "seconds"]].astype(float))
    means = np.exp(logs.groupby(level="model").mean())
    table = means.reindex([model for model in ranking.models if model in means.index])
    table.insert(0, "mean", ranking.means.mean().reindex(table.index))
    score, cost = table["mean"].to_numpy()[:, None], table["cpu_seconds"].to_numpy()[:, None]
    is_beaten = (score <= score.T) & (cost >= cost.T) & ((score < score.T) | (cost > cost.T))
    return table.assign(best=~is_beaten.any(axis=1)).rename_axis("model").reset_index()


def draw_costs(table: pd.DataFrame, score: str) -> Figure:
    """Draw a point for each model of a `cost_table`, with its name in a column beside the panel.

    The line is the frontier: the best score that any model reaches in this time.
    """
    rows = table.sort_values("mean", kind="stable")
    height = max(LEAST_HEIGHT, COST_ROW * len(rows) + 0.9)
    figure, axes = figures.panel(figures.HALF, height)
    low, high = rows["cpu_seconds"].agg(["min", "max"])
    figures.log_axis(axes, (1.0,) if high > 200 * low else (1, 2, 5))
    means = rows["mean"].to_numpy(dtype=float)
    pad = max(0.01, 0.06 * float(np.ptp(means)))
    bottom, top = means.min() - pad, means.max() + pad
    axes.set(xlim=(low / 1.6, high * 1.6), ylim=(bottom, top))
    heights = separate((means - bottom) / (top - bottom), min(COST_ROW / (height - 0.9), 1 / len(rows)))
    for row, level in zip(rows.itertuples(), heights, strict=True):
        model, point = str(row.model), (row.cpu_seconds, row.mean)
        tip = f"{model}: {LABELS[score].short} {row.mean:{FORM}}, {row.cpu_seconds:.3g} CPU s a cell"
        figures.points(axes, *point, [tip], looks.mark(model), 7, zorder=3)
        text = figures.short(model, longest=figures.LONGEST_MODEL)
        axes.annotate(text, point, (1.04, level), textcoords="axes fraction", arrowprops=LEADER, **NAME)
    best = rows[rows["best"]].sort_values("cpu_seconds", kind="stable")
    ends = [*best["cpu_seconds"], high * 1.6], [*best["mean"], best["mean"].iloc[-1]]
    axes.step(*ends, where="post", color=looks.BLUE, linewidth=1.2, alpha=0.7)
    axes.set(xlabel="CPU seconds of a cell (log)", ylabel=LABELS[score].axis)
    axes.grid()
    return figure


def separate(places: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
    """Move places in ascending order within 0 to 1 until neighbours are `distance` apart.

    The largest move is as small as possible.
    """
    steps = distance * np.arange(len(places))
    # Without the steps, neighbours need only stay in order: half way between the highest place before and the
    # lowest place after is best.
    shifted_places = places - steps
    rising = (np.maximum.accumulate(shifted_places) + np.minimum.accumulate(shifted_places[::-1])[::-1]) / 2
    return np.clip(rising, 0.0, 1.0 - steps[-1]) + steps


def kinds(content: Content) -> Iterator[Part]:
    """Yield mean ranks by each score, at each p and m and on each kind of data that has several values."""
    texts = WORDS["kinds"]
    tables = [(ranking, content.kinds[ranking.score]) for ranking in content.full_rankings]
    tables = [(ranking, rows) for ranking, rows in tables if rows["kind"].nunique() > 1]
    if tables:
        yield elements.Reading(texts["reading"])
    for ranking, rows in tables:
        is_judged, models, table = bool(ranking.judged_datasets), list(rows["model"].unique()), []
        for (property_name, kind, n), group in rows.groupby(["what", "kind", "n_datasets"], sort=False):
            ranks = group.set_index("model")["mean_rank"]
            is_first = ranks == ranks.min()
            marks = is_first.map({True: "best" if is_judged and is_first.sum() == 1 else "", False: ""})
            entries = (Value(f"{ranks[model]:.2f}", ranks[model], marks[model]) for model in models)
            table.append((words(property_name), words(kind), elements.number(n), *entries))
        note = f"{texts['note']} {texts['best' if is_judged else 'unjudged']}"
        heads, title = ("", "kind", "data sets", *models), f"Mean rank by {ranking.label}"
        yield Table(title, heads, tuple(table), note=note, folded=True, file="kinds.csv")
        text = texts["map"].format(label=ranking.label)
        yield f"kinds-{ranking.label.lower()}", draw_kinds(rows), text


def draw_kinds(rows: pd.DataFrame) -> Figure:
    """Draw one score of `ranks_by_kind` as a map of kinds by models, the best model first."""
    models, heads = list(rows["model"].unique()), rows.drop_duplicates(["what", "kind"])
    figure, axes = figures.panel(CELL[0] * len(models) + NAME_WIDTH, CELL[1] * len(heads) + NAME_HEIGHT)
    groups = list(heads["what"])
    lines = {kind: line for line, kind in enumerate(zip(heads["what"], heads["kind"], strict=True))}
    for row in rows.itertuples():
        x, y = models.index(row.model), lines[row.what, row.kind]
        share = (len(models) - row.mean_rank) / max(1, len(models) - 1)
        axes.add_patch(Rectangle((x, y), 1, 1, facecolor=looks.BLUE, alpha=DEEPEST * share**2, linewidth=0))
        axes.text(x + 0.5, y + 0.5, f"{row.mean_rank:.1f}", ha="center", va="center_baseline", fontsize=8)
    for line in range(1, len(groups)):
        if groups[line] != groups[line - 1]:
            axes.axhline(line, color=looks.GREY, linewidth=0.8)
    names = [f"{row.kind}  ({row.n_datasets})" for row in heads.itertuples()]
    axes.set(xlim=(0, len(models)), ylim=(len(heads), 0))
    axes.set_yticks([line + 0.5 for line in range(len(heads))], names)
    labels = [figures.short(model, longest=figures.LONGEST_MODEL) for model in models]
    axes.set_xticks([place + 0.5 for place in range(len(models))], labels, rotation=45, ha="left")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure
