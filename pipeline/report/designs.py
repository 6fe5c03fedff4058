"""What choosing pairs gains over drawing them, on the page, in text and in files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report import elements, figures, look
from pipeline.report.content import Content
from pipeline.report.elements import NOTHING, Table, Value, listed, number, with_error, words
from pipeline.report.figures import Drawn
from pipeline.report.look import DESIGN_LOOKS, GREY, MOST_ACCURACIES, PAPER, mark, short
from pipeline.scoring.ranking import ERRORS, ROUNDING
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import MIXTURES
from pipeline.scoring.worth import COVERAGE, Budget, DesignScores, Group, budget_table, design_table
from sweeps.words import UNIFORM

# Of a score.
FORM = ".3f"
# Coverage of an interval, in words.
PER_CENT = f"{COVERAGE * 100:g} %"
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
RATIO = f"chosen pairs for each uniform one, with an interval of {PER_CENT}"
# Of the columns of the text: p, model, design, then numbers.
MODEL = 21
LAYOUT = ("<6", f"<{MODEL}", "<15", ">5", ">6", ">15", ">12", ">20")

PANEL = (2.6, 1.9)
MOST_ROWS = 24
MOST_TICKS = 5
# Where what uniform pairs do not reach is drawn, in lengths of their curve.
ABOVE = 1.12
EQUAL = "as many uniform pairs"
X_LABEL = "annotations m (pairs a sample)"


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

    value = one(float(found.worth[place]))
    if math.isnan(found.low[place]):
        return value
    # many uniform pairs are few chosen ones for each
    ends = [one(float(end[place])) for end in (found.high, found.low)]
    return value if ends == [value, value] else f"{value} ({ends[0]}–{ends[1]})"


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
    if not found:
        return ()
    groups = tuple({id(each.group): each.group for each in found[0].shown_first}.values())
    if len({(group.title, group.model) for group in groups}) != 1:
        return ()
    beyond = 0
    for group in groups:
        ahead = np.zeros(len(group.counts), dtype=bool)
        for design in group.chosen:
            less, error = group.difference(design)
            ahead |= (less > ROUNDING) & (less > ERRORS * error)
        beyond += int(ahead.sum())
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
            f"p = {p:g}" if len(counts) == every[p] else f"p = {p:g} with m = {listed(counts)}"
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
    for place, each in enumerate(found):
        if place:
            yield ""
        label = LABELS[each.score].short
        yield f"pairs that were chosen, against uniform ones: {label}"
        yield elements.text(("  p", "model", "design", "m", label, "less uniform", "worth", "ratio"), LAYOUT)
        for title in dict.fromkeys(budget.group.title for budget in each.shown_first):
            yield title
            for budget in each.shown_first:
                if budget.group.title == title:
                    yield from _budget_lines(budget)
        yield f"worth: uniform pairs with the same mean {label}; none: not above that without annotations"
        yield f"ratio: {RATIO}"


def _budget_lines(found: Budget) -> Iterator[str]:
    group, model = found.group, short(found.group.model, longest=MODEL - 1)
    means, (less, errors) = group.mean(found.design), group.difference(found.design)
    for place, count in enumerate(group.counts):
        m = count if count.endswith("N") else pairs(float(group.x[place]))
        gain = with_error(less[place], errors[place], f"+{FORM}")
        gains = f"{means[place]:{FORM}}", gain, worth(found, place), ratio(found, place)
        yield elements.text((f"  {group.p:g}", model, found.design, m, *gains), LAYOUT)


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
    frames: dict[str, list[pd.DataFrame]] = {}
    for each in found:
        for name, table in (("designs", design_table(each.groups)), ("budget", budget_table(each.budgets))):
            table.insert(0, "score", each.score)
            frames.setdefault(name, []).append(table)
    return {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}


def design_words(content: Content) -> Iterator[str]:
    """A finding for each design and score, and how to read them."""
    for each in content.designs:
        yield from findings(each)
    yield READING


def findings(found: DesignScores) -> Iterator[str]:
    """A sentence for each design: what its pairs are worth with the model that scores best.

    Parameters
    ----------
    found : DesignScores
        Of one score.
    """
    shown = found.shown_first
    for title, design in dict.fromkeys((each.group.title, each.design) for each in shown):
        of_model: dict[str, list[Budget]] = {}
        for each in shown:
            if (each.group.title, each.design) == (title, design):
                of_model.setdefault(each.group.model, []).append(each)
        best = max(
            of_model, key=lambda model: float(np.mean([e.group.mean(design) for e in of_model[model]]))
        )
        parts = " ".join(map(_worth_words, of_model[best]))
        yield f"{LABELS[found.score].short}, {title}: {design} pairs with {best}. {parts}"


def _worth_words(found: Budget) -> str:
    """At the largest m that uniform pairs reach on the grid, or at the smallest."""
    inside = np.flatnonzero(np.isfinite(found.worth))
    place = int(inside[-1]) if len(inside) else 0
    said = f"At p = {found.group.p:g}, {pairs(float(found.group.x[place]))} are worth"
    reached = worth(found, place) if found.worth[place] or found.least else "no"
    return f"{said} {reached} uniform ones, ratio {ratio(found, place)}."


def design_figures(content: Content) -> Iterator[Drawn]:
    """Curves of scores, and of what pairs are worth."""
    for each in content.designs:
        name = LABELS[each.score].short.lower()
        yield f"designs-{name}", draw_designs(each.groups, each.score), CURVES
        yield f"budget-{name}", draw_budgets(each.budgets, each.score), BUDGET


def design_tables(content: Content) -> Iterator[Table]:
    """Differences to uniform pairs, and worths with ratios, a row for each design and a column for each m."""
    for found in content.designs:
        label, less, budget = LABELS[found.score].short, [], []
        # every m, as the file writes it, in ascending order of pairs a sample
        sizes = {count: x for each in found.groups for count, x in zip(each.counts, each.x, strict=True)}
        counts = sorted(sizes, key=lambda count: sizes[count])
        for each in found.budgets:
            group = each.group
            heads = (words(group.title), number(group.p, "g"), words(group.model), words(each.design))
            gains = zip(group.counts, *group.difference(each.design), strict=True)
            gain = {count: Value(with_error(mean, se, f"+{FORM}"), float(mean)) for count, mean, se in gains}
            value = {count: _worth_values(each, place) for place, count in enumerate(group.counts)}
            less.append((*heads, *(gain.get(count, NOTHING) for count in counts)))
            budget.append(
                (*heads, *(entry for count in counts for entry in value.get(count, (NOTHING, NOTHING))))
            )
        columns = ("data set", "p", "model", "design")
        note = f"Mean ± standard error over units ({MIXTURES}, or redraws), paired."
        title = f"{label} of a design less that of uniform pairs"
        heads_m = (*columns, *(f"m = {count}" for count in counts))
        yield Table(title, heads_m, tuple(less), note=note, pinned=True)
        over = (("", 4), *((f"m = {count}", 2) for count in counts))
        title = f"Uniform pairs that reach the {label} of m chosen ones"
        heads_m = (*columns, *(("uniform pairs", "ratio") * len(counts)))
        yield Table(title, heads_m, tuple(budget), (over,), NOTE, pinned=True)


def _worth_values(found: Budget, place: int) -> tuple[Value, Value]:
    value = float(found.worth[place])
    order = float(found.group.x[place]) / value if value > 0 else math.inf
    return Value(worth(found, place), value), Value(ratio(found, place), order)


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
    panels = {(group.dataset, group.model, group.p): group for group in groups}
    titles = {group.dataset: group.title for group in groups}

    def panel(axes: Axes, item: tuple[str, str], p: float) -> None:
        if (*item, p) in panels:
            _curves(axes, panels[*item, p])

    def up(item: tuple[str, str]) -> str:
        return f"{short(titles[item[0]])}\n{short(item[1])}\n{LABELS[score].axis}"

    return _facets(
        [(group.dataset, group.model) for group in groups], [group.p for group in groups], panel, up
    )


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
    titles = {each.group.dataset: each.group.title for each in found}

    def panel(axes: Axes, item: tuple[str, str], p: float) -> None:
        _worths(
            axes, [each for each in found if (each.group.dataset, each.design, each.group.p) == (*item, p)]
        )

    def up(item: tuple[str, str]) -> str:
        return f"{short(titles[item[0]])}\n{short(item[1])} by {LABELS[score].short}\nuniform pairs"

    items = [(each.group.dataset, each.design) for each in found]
    return _facets(items, [each.group.p for each in found], panel, up)


def _facets(items: list[tuple[str, str]], accuracies: list[float], panel: Any, up: Any) -> Figure | None:
    if not items:
        return None
    rows = elements.spread(list(dict.fromkeys(items)), MOST_ROWS)
    columns = elements.spread(sorted(set(accuracies)), MOST_ACCURACIES)
    return figures.facets(rows, columns, panel, PANEL, up, across=X_LABEL)


def _curves(axes: Axes, group: Group) -> None:
    for design in (UNIFORM, *group.chosen):
        mean, (less, error) = group.mean(design), group.difference(design)
        tips = [f"{design}, m = {count}: {at:{FORM}}" for count, at in zip(group.counts, mean, strict=True)]
        if design != UNIFORM:
            gains = (with_error(*gain, f"+{FORM}") for gain in zip(less, error, strict=True))
            tips = [f"{tip}, {gain} to {UNIFORM}" for tip, gain in zip(tips, gains, strict=True)]
        band = None if design == UNIFORM else error
        figures.curve(axes, group.x, mean, band, DESIGN_LOOKS[design], design, tips, 0.2)
    axes.grid()
    _ticks(axes, group)


def _worths(axes: Axes, found: Sequence[Budget]) -> None:
    for each in found:
        how, x, model = mark(each.group.model), each.group.x, each.group.model
        top = ABOVE * each.most
        reached, low, high = (np.minimum(ends, top) for ends in (each.worth, each.low, each.high))
        tips = [
            f"{model}, m = {count}: worth {worth(each, place)} uniform pairs, ratio {ratio(each, place)}"
            for place, count in enumerate(each.group.counts)
        ]
        figures.curve(axes, x, reached, None, how, model, tips, 0)
        beyond = np.isinf(each.worth)
        (hollow,) = axes.plot(x[beyond], reached[beyond], linestyle="", color=how.color)
        hollow.set(marker=how.marker, markersize=4.5, markerfacecolor=PAPER)
        look.hover(hollow, [tip for tip, at_top in zip(tips, beyond, strict=True) if at_top])
        axes.fill_between(x, low, high, where=~np.isnan(low), color=how.color, alpha=0.16, linewidth=0)
    if found:
        most = found[0].most
        axes.plot([0, most], [0, most], color=GREY, linestyle="--", linewidth=1.2, label=EQUAL)
        axes.axhline(most, color=GREY, linestyle=":", linewidth=1.0)
        axes.grid()
        _ticks(axes, found[0].group)


def _ticks(axes: Axes, group: Group) -> None:
    """As the sweep file writes m, where there are few: N of several data sets are rounded differently."""
    look.tick_counts(axes, group.x.tolist())
    if len(group.x) <= MOST_TICKS:
        axes.set_xticks(group.x.tolist(), group.counts, fontsize="small")
