"""Designs and searches of one sweep side by side: what choosing pairs gains, and what another search finds.

Each is set beside the one that models are compared in, cell by cell, in sentences, lines for a terminal,
tables, figures and files. A design is worth so many uniform pairs; a search has objectives, scores and times.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.common import plural
from pipeline.report import elements, figures, look
from pipeline.report.content import Content
from pipeline.report.elements import NOTHING, Table, Value, listed, number, with_error, words
from pipeline.scoring.pairs import ALL, OBJECTIVE, TIE, Compared
from pipeline.scoring.ranking import ERRORS, RANKED, ROUNDING
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import MIXTURES, REDRAWS
from pipeline.scoring.worth import COVERAGE, Budget, DesignScores, Group, budget_table, design_table
from sweeps.words import UNIFORM

# Of a score.
FORM = ".3f"

# Coverage of an interval, in words.
PER_CENT = f"{COVERAGE * 100:g} %"
DESIGN_READING = (
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
WORTH_NOTE = (
    "The curve of uniform pairs is the largest mean so far, straight between the m of the grid, from the"
    " baseline of the same shape at m = 0 where there is one. Ratio: chosen pairs for each uniform one, below"
    f" 1 where choosing saves pairs; in brackets an interval of {PER_CENT}. < and >: the curve ends"
    " before."
)
RATIO = f"chosen pairs for each uniform one, with an interval of {PER_CENT}"
# Of the columns of the text: p, model, design, then numbers.
MODEL = 21
LAYOUT = ("<6", f"<{MODEL}", "<15", ">5", ">6", ">15", ">12", ">20")

PANEL = (2.6, 1.9)
MOST_ROWS = 24
# Where what uniform pairs do not reach is drawn, in lengths of their curve.
ABOVE = 1.12
EQUAL = "as many uniform pairs"
X_LABEL = "annotations m (pairs a sample)"


SEARCH_READING = (
    "Cells are compared in pairs, of the same data, annotations and random streams. searches.csv and"
    " search-costs.csv hold these numbers in full."
)
CAPTION = (
    "{search}. Left: cells whose best objective is higher, the same (within {same:g} nats) and lower than"
    " with {reference}. Middle: difference of {score}, and a standard error over {units}. Right: CPU time of"
    " a cell, and of each restart that found the best objective, as multiples of those with {reference}."
)
SEARCH_NOTE = (
    "Objectives: shares of the cells, in %, whose best one is higher, the same, lower. Differences are means"
    " ± s.e. over {units}. Hit rate: share of restarts that found the best objective of their cell, of this"
    " search and of the first. Time to the best: CPU time for each such restart as a multiple, a"
    " median over cells whose best is the same in both; - where there are none."
)
DIFFERENT = " The two maximise different objectives, which do not compare."
# One unit; of what nothing draws again it is a cell.
SINGULAR = {MIXTURES: "mixture", REDRAWS: "redraw"}
# Shares of cells by their best objective: column, colour, and words in a table and in a figure.
SHARES = (
    ("wins_b", look.GREEN, "higher", "higher"),
    ("ties", look.RULE, "same", "the same"),
    ("wins_a", look.VERMILLION, "lower", "lower"),
)

# Times: column, marker, colour, and words.
TIMES = (
    ("cpu", "o", look.BLUE, "a cell"),
    ("to_best", "D", look.VERMILLION, "a restart that found the best"),
)

# Models and data sets in one figure.
MOST_LINES = 48
# Inches of a panel and of a line; share of a line that its bar takes.
WIDTH, LINE, BAR = 2.9, 0.24, 0.62
# Of the legend of a panel, above it.
KEYS: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False}
KEYS |= {"handlelength": 1, "columnspacing": 1}


def pairs(value: float) -> str:
    """Pairs a sample, as sweep files write them."""
    return f"{value:.2f}".rstrip("0").rstrip(".") + "N"


def worth(found: Budget, place: int) -> str:
    """Uniform pairs that reach the score at one m: a number, or beyond which end of the curve they lie."""
    value = float(found.worth[place])
    if math.isinf(value):
        return f"over {pairs(found.most)}"
    if value == 0:
        return f"under {pairs(found.least)}" if found.least else "none"
    return pairs(value)


def ratio(found: Budget, place: int) -> str:
    """Chosen pairs for each uniform one, with the interval; `<` and `>` where the curve ends before."""
    x = float(found.group.x[place])

    def one(worth: float) -> str:
        if math.isinf(worth):
            return f"<{x / found.most:.2f}"
        if worth == 0:
            return f">{x / found.least:.2f}" if found.least else "∞"
        return f"{x / worth:.2f}"

    # many uniform pairs are few chosen ones for each
    value, low, high = (one(float(end[place])) for end in (found.worth, found.high, found.low))
    return value if math.isnan(found.low[place]) or low == high == value else f"{value} ({low}–{high})"


def design_headline(found: Sequence[DesignScores]) -> tuple[str, ...]:
    """Say by the first score which design is best at each m and p, if one model alone uses the pairs.

    Parameters
    ----------
    found : sequence of DesignScores
        From `pipeline.scoring.worth.design_scores`.

    Returns
    -------
    tuple of str
        One sentence; none of several models, or of several data sets that have no mean.
    """
    groups = tuple({id(each.group): each.group for one in found[:1] for each in one.shown_first}.values())
    if len({(group.title, group.model) for group in groups}) != 1:
        return ()
    beyond = 0
    for group in groups:
        gains = (group.difference(design) for design in group.chosen)
        beyond += np.any([(less > ROUNDING) & (less > ERRORS * error) for less, error in gains], axis=0).sum()
    total = sum(len(group.counts) for group in groups)
    return (
        f"By {LABELS[found[0].score].short} of {groups[0].model}, {groups[0].title}:"
        f" {'; '.join(_places(groups))}. Some chosen pairs are ahead of uniform ones by more than {ERRORS:g}"
        f" paired standard errors at {beyond} of {total} such places.",
    )


def _places(groups: Sequence[Group]) -> Iterator[str]:
    """Where each design, or several alike, is best: the one that is best most often first."""
    places: dict[tuple[str, ...], dict[float, list[str]]] = {}
    for group in groups:
        means = {design: group.mean(design) for design in (UNIFORM, *group.chosen)}
        highest = np.max(list(means.values()), axis=0)
        for place, count in enumerate(group.counts):
            best = tuple(name for name, mean in means.items() if mean[place] >= highest[place] - ROUNDING)
            places.setdefault(best, {}).setdefault(group.p, []).append(count)
    if len(places) == 1:
        yield f"{listed(next(iter(places)))} pairs are best at every m and p"
        return
    every = {group.p: len(group.counts) for group in groups}
    for best, there in sorted(places.items(), key=lambda item: -sum(map(len, item[1].values()))):
        said = [
            f"p = {p:g}" + ("" if len(counts) == every[p] else f" with m = {listed(counts)}")
            for p, counts in there.items()
        ]
        yield f"{listed(best)} pairs are best at {', '.join(said)}"


def design_lines(found: Sequence[DesignScores]) -> Iterator[str]:
    """A table for each score: over all data sets where there are several; the files hold each of them.

    Parameters
    ----------
    found : sequence of DesignScores
        From `pipeline.scoring.worth.design_scores`.
    """
    for each in found:
        if each is not found[0]:
            yield ""
        label = LABELS[each.score].short
        yield f"pairs that were chosen, against uniform ones: {label}"
        yield elements.text(("  p", "model", "design", "m", label, "less uniform", "worth", "ratio"), LAYOUT)
        for title, rows in tidy(each.shown_first).groupby("title", sort=False):
            yield str(title)
            for row in rows.itertuples():
                m = row.m if row.m.endswith("N") else pairs(row.x)
                gains = (
                    f"{row.mean:{FORM}}",
                    with_error(row.less, row.error, f"+{FORM}"),
                    row.worth,
                    row.ratio,
                )
                name = look.short(row.model, longest=MODEL - 1)
                yield elements.text((f"  {row.p:g}", name, row.design, m, *gains), LAYOUT)
        yield f"worth: uniform pairs with the same mean {label}; none: not above that without annotations"
        yield f"ratio: {RATIO}"


def tidy(found: Sequence[Budget]) -> pd.DataFrame:
    """A row for each design and m: its place, means, and worth and ratio in numbers and as they are shown."""
    frames = []
    for each in found:
        group, places = each.group, range(len(each.group.counts))
        less, error = group.difference(each.design)
        columns = {
            "title": group.title,
            "p": group.p,
            "model": group.model,
            "design": each.design,
            "m": group.counts,
            "x": group.x,
            "mean": group.mean(each.design),
            "less": less,
            "error": error,
            "value": each.worth,
            "worth": [worth(each, place) for place in places],
            "ratio": [ratio(each, place) for place in places],
        }
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def design_files(found: Sequence[DesignScores]) -> dict[str, pd.DataFrame]:
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
        "designs": {each.score: design_table(each.groups) for each in found},
        "budget": {each.score: budget_table(each.budgets) for each in found},
    }
    return {
        name: pd.concat(parts, names=["score"]).reset_index(level="score").reset_index(drop=True)
        for name, parts in tables.items()
    }


def design_words(content: Content) -> Iterator[str]:
    """What the pairs of each design are worth with the model that scores best, by each score."""
    for each in content.designs:
        yield from design_findings(each)
    yield DESIGN_READING


def design_findings(found: DesignScores) -> Iterator[str]:
    """A sentence for each design: at each p the largest m that uniform pairs reach on the grid, or the first.

    Parameters
    ----------
    found : DesignScores
        Of one score.
    """
    for (title, design), rows in tidy(found.shown_first).groupby(["title", "design"], sort=False):
        best = rows.groupby("model", sort=False)["mean"].mean().idxmax()
        said = []
        for p, points in rows[rows["model"] == best].groupby("p", sort=False):
            inside = points[np.isfinite(points["value"])]
            row = (inside.iloc[-1:] if len(inside) else points.iloc[:1]).squeeze()
            reached = "no" if row["worth"] == "none" else row["worth"]
            said.append(
                f"At p = {p:g}, {pairs(row['x'])} are worth {reached} uniform ones, ratio {row['ratio']}."
            )
        label = LABELS[found.score].short
        yield f"{label}, {title}: {design} pairs with {best}. {' '.join(said)}"


def design_figures(content: Content) -> Iterator[figures.Drawn]:
    """Curves of scores, and of what pairs are worth."""
    for each in content.designs:
        name = LABELS[each.score].short.lower()
        yield f"designs-{name}", draw_designs(each.groups, each.score), CURVES
        yield f"budget-{name}", draw_budgets(each.budgets, each.score), BUDGET


def design_tables(content: Content) -> Iterator[Table]:
    """Differences to uniform pairs, and worths with ratios, a row for each design and a column for each m."""
    for found in content.designs:
        label, rows = LABELS[found.score].short, tidy(found.budgets)
        # every m, as the file writes it, in ascending order of pairs a sample
        sizes = {count: x for each in found.groups for count, x in zip(each.counts, each.x, strict=True)}
        counts = sorted(sizes, key=lambda count: sizes[count])
        less, budget = [], []
        for (title, p, model, design), points in rows.groupby(["title", "p", "model", "design"], sort=False):
            heads = (words(title), number(p, "g"), words(model), words(design))
            there = {row.m: row for row in points.itertuples()}
            every = [there.get(count) for count in counts]
            less.append((*heads, *(_gain(row) for row in every)))
            budget.append((*heads, *(entry for row in every for entry in _worth_entries(row))))
        columns = ("data set", "p", "model", "design")
        heads_m = tuple(f"m = {count}" for count in counts)
        note = f"Mean ± standard error over units ({MIXTURES}, or redraws), paired."
        title = f"{label} of a design less that of uniform pairs"
        yield Table(title, (*columns, *heads_m), tuple(less), note=note, pinned=True)
        over = (("", len(columns)), *((head, 2) for head in heads_m))
        title = f"Uniform pairs that reach the {label} of m chosen ones"
        heads_m = ("uniform pairs", "ratio") * len(counts)
        yield Table(title, (*columns, *heads_m), tuple(budget), (over,), WORTH_NOTE, pinned=True)


def _gain(row: Any) -> Value:
    """Entry of a paired difference, which is missing at an m that a data set does not have."""
    return NOTHING if row is None else Value(with_error(row.less, row.error, f"+{FORM}"), row.less)


def _worth_entries(row: Any) -> tuple[Value, Value]:
    if row is None:
        return NOTHING, NOTHING
    order = row.x / row.value if row.value > 0 else math.inf
    return Value(row.worth, row.value), Value(row.ratio, order)


def draw_designs(groups: Sequence[Group], score: str) -> Figure | None:
    """Draw a row of panels for each data set and model, a column for each accuracy.

    Parameters
    ----------
    groups : sequence of Group
        Of one score.
    score : str
        Which.

    Returns
    -------
    Figure or None
        None without any group.
    """

    def panel(axes: Axes, found: Sequence[Group]) -> None:
        for group in found:
            for design in (UNIFORM, *group.chosen):
                mean, (less, error) = group.mean(design), group.difference(design)
                tips = [
                    f"{design}, m = {count}: {at:{FORM}}"
                    + ("" if design == UNIFORM else f", {with_error(gain, se, f'+{FORM}')} to {UNIFORM}")
                    for count, at, gain, se in zip(group.counts, mean, less, error, strict=True)
                ]
                band = None if design == UNIFORM else error
                figures.curve(axes, group.x, mean, band, look.DESIGN_LOOKS[design], design, tips, 0.2)
            _grid(axes, group)

    def up(title: str, model: str) -> str:
        return f"{look.short(title)}\n{look.short(model)}\n{LABELS[score].axis}"

    return _facets([(group, group.model, group) for group in groups], panel, up)


def draw_budgets(found: Sequence[Budget], score: str) -> Figure | None:
    """Draw the worth of chosen pairs: a row of panels for each data set and design, a column per accuracy.

    Parameters
    ----------
    found : sequence of Budget
        Of one score.
    score : str
        Which.

    Returns
    -------
    Figure or None
        None without any.
    """

    def panel(axes: Axes, found: Sequence[Budget]) -> None:
        for each in found:
            how, x, model = look.mark(each.group.model), each.group.x, each.group.model
            top = ABOVE * each.most
            reached, low, high = (np.minimum(ends, top) for ends in (each.worth, each.low, each.high))
            tips = [
                f"{model}, m = {count}: worth {worth(each, place)} uniform pairs, ratio {ratio(each, place)}"
                for place, count in enumerate(each.group.counts)
            ]
            figures.curve(axes, x, reached, None, how, model, tips, 0)
            beyond = np.isinf(each.worth)
            (hollow,) = axes.plot(x[beyond], reached[beyond], linestyle="", color=how.color)
            hollow.set(marker=how.marker, markersize=4.5, markerfacecolor=look.PAPER)
            look.hover(hollow, list(compress(tips, beyond)))
            axes.fill_between(x, low, high, where=~np.isnan(low), color=how.color, alpha=0.16, linewidth=0)
        for each in found[:1]:
            equal = [0, each.most]
            axes.plot(equal, equal, color=look.GREY, linestyle="--", linewidth=1.2, label=EQUAL)
            axes.axhline(each.most, color=look.GREY, linestyle=":", linewidth=1.0)
            _grid(axes, each.group)

    def up(title: str, design: str) -> str:
        return f"{look.short(title)}\n{look.short(design)} by {LABELS[score].short}\nuniform pairs"

    return _facets([(each.group, each.design, each) for each in found], panel, up)


def _facets(
    shown: list[tuple[Group, str, Any]],
    panel: Callable[[Axes, Sequence[Any]], None],
    up: Callable[[str, str], str],
) -> Figure | None:
    """A row of panels for each data set and model, or design, with what is there of it at each accuracy."""
    titles = {(group.dataset, name): group.title for group, name, _ in shown}

    def draw(axes: Axes, item: tuple[str, str], p: float) -> None:
        panel(axes, [each for group, name, each in shown if (group.dataset, name, group.p) == (*item, p)])

    return figures.facets(
        elements.spread(list(titles), MOST_ROWS),
        pd.Series([group.p for group, *_ in shown], dtype=float),
        draw,
        PANEL,
        lambda item: up(titles[item], item[1]),
        across=X_LABEL,
    )


def _grid(axes: Axes, group: Group) -> None:
    """As the sweep file writes m, where there are few: N of several data sets are rounded differently."""
    axes.grid()
    look.tick_counts(axes, group.x.tolist())
    if len(group.x) <= look.MOST_TICKS:
        axes.set_xticks(group.x.tolist(), group.counts, fontsize="small")


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
        for sentence in search_findings(each):
            yield from textwrap.wrap(sentence, width, initial_indent="  ", subsequent_indent="    ")


def search_words(content: Content) -> Iterator[str]:
    """The same for the page."""
    for each in content.searches:
        yield from (f"{each.title}: {line}" for line in search_findings(each))
    yield SEARCH_READING


def search_findings(found: Compared) -> Iterator[str]:
    """A sentence for each model, over all data sets: objectives, scores, time.

    Parameters
    ----------
    found : Compared
        Of one search.
    """
    whole = found.differences[found.differences["dataset"] == ALL]
    for cost in found.costs[found.costs["dataset"] == ALL].itertuples():
        parts = []
        for row in whole[whole["model"] == cost.model].itertuples():
            if row.score != OBJECTIVE:
                parts.append(f"{LABELS[row.score].short} {_difference(row).text}")
                continue
            text = f"higher in {row.wins_b:.0%}, the same in {row.ties:.0%} and lower in {row.wins_a:.0%}"
            if row.n_cells < cost.n_cells:
                text += f" (of {plural(row.n_cells, 'cell')} for which both chose the same shape)"
            parts.append(f"best objective {text}")
        parts.append(f"{cost.cpu:.2f} times the CPU time")
        if not math.isnan(cost.to_best):
            parts[-1] += f", {cost.to_best:.2f} times for each restart that found the best"
        yield f"{cost.model}, {plural(cost.n_cells, 'cell')}: {'; '.join(parts)}."


def _difference(row: Any) -> Value:
    """Entry of a paired difference, without a negative zero."""
    gain = round(float(row.difference), 3) + 0.0
    return Value(with_error(gain, row.se, "+.3f"), gain)


def search_figures(content: Content) -> Iterator[figures.Drawn]:
    """Objectives, a score and time, a figure for each search."""
    for each in content.searches:
        names = {"search": each.search, "reference": each.reference, "score": LABELS[RANKED[0]].short}
        text = CAPTION.format(same=TIE, units=elements.units(each.differences["unit"]), **names)
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
            of = [keyed.get((score, cost.dataset, cost.model)) for score in scores]
            costs = (cost.cpu, cost.hit_rate, cost.reference_hit_rate, cost.to_best)
            rows.append(
                (
                    words(cost.dataset),
                    words(cost.model),
                    number(cost.n_cells),
                    next((_units(row) for row in of if row is not None), NOTHING),
                    *(entry for score, row in zip(scores, of, strict=True) for entry in _entries(score, row)),
                    *(number(value, ".2f") for value in costs),
                )
            )
        note = SEARCH_NOTE.format(units=elements.units(found.differences["unit"]))
        note += "" if OBJECTIVE in scores else DIFFERENT
        yield Table(found.title, tuple(heads), tuple(rows), note=note, pinned=True)


def _units(row: Any) -> Value:
    noun = SINGULAR.get(row.unit, "cell")
    return Value(str(row.n) if row.dataset == ALL else plural(row.n, noun), int(row.n))


def _entries(score: str, row: Any) -> list[Value]:
    if score == OBJECTIVE:
        return [NOTHING if row is None else number(100 * getattr(row, key), ".0f") for key, *_ in SHARES]
    return [NOTHING if row is None or math.isnan(row.difference) else _difference(row)]


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
    costs = found.costs[found.costs["dataset"] != ALL].set_index(["dataset", "model"])
    if costs.empty:
        return None
    lines = elements.spread(list(costs.index), MOST_LINES)
    tables = dict(list(found.differences.set_index(["dataset", "model"]).groupby("score")))
    scored = [score for score in (OBJECTIVE, RANKED[0]) if score in tables]
    figure, [grid] = look.panels(1, len(scored) + 1, (WIDTH, max(1.2, LINE * len(lines))))
    for score, axes in zip(scored, grid, strict=False):
        draw = _shares if score == OBJECTIVE else _differences
        draw(axes, tables[score].reindex(lines))
    last = grid[-1]
    last.axvline(1, color=look.GREY, linewidth=1)
    for key, marker, color, label in TIMES:
        times = costs.loc[lines, key]
        (drawn,) = last.plot(times, range(len(lines)), marker, color=color, markersize=4.5, label=label)
        tips = (f"{', '.join(name)}, {label}: {value:.2f} times" for name, value in times.items())
        look.hover(drawn, list(tips))
    figures.log_axis(last, (1.0, 2.0, 5.0), numticks=8)
    last.set_xlabel("CPU time, times")
    last.legend(ncols=2, **KEYS)
    for axes in grid:
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_yticks(range(len(lines)), [""] * len(lines))
        axes.grid(axis="x")
    grid[0].set_yticks(range(len(lines)), [f"{look.short(dataset)}, {model}" for dataset, model in lines])
    return figure


def _shares(axes: Axes, table: pd.DataFrame) -> None:
    start = pd.Series(0.0, index=table.index)
    for key, color, _, label in SHARES:
        share = 100 * table[key].fillna(0.0)
        axes.barh(range(len(table)), share, left=start, height=BAR, color=color, label=label)
        start = start + share
    axes.set_xlim(0, 100)
    axes.set_xlabel("cells by best objective, %")
    axes.legend(ncols=3, **KEYS)


def _differences(axes: Axes, table: pd.DataFrame) -> None:
    axes.axvline(0, color=look.GREY, linewidth=1)
    tips = [
        f"{', '.join(row.Index)}: {with_error(row.difference, row.se, '+.3f')}" for row in table.itertuples()
    ]
    looks = {"color": look.BLUE, "linestyle": "", "marker": "o"}
    figures.bars(axes, table["difference"], range(len(table)), {"xerr": table["se"].fillna(0.0)}, looks, tips)
    axes.set_xlabel(f"{LABELS[RANKED[0]].short}, difference")
