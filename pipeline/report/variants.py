"""Designs and searches of one sweep side by side: what choosing pairs gains, and what another search finds.

Each is set beside the one that models are compared in, cell by cell, in sentences, lines for a terminal,
tables, figures and files. A design is worth so many uniform pairs; a search has objectives, scores and times.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
    with_error,
    words,
)
from sweep_clustering.pipeline.scoring.pairs import ALL, OBJECTIVE, TIE
from sweep_clustering.pipeline.scoring.ranking import ERRORS, MEAN, RANKED, ROUNDING
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.pipeline.scoring.tables import MIXTURES, REDRAWS, SEARCH
from sweep_clustering.pipeline.scoring.worth import BUDGETS, COVERAGE, DIFFERENCES, WORTHS
from sweep_clustering.sweeps.words import UNIFORM

# Of a score.
FORM = ".3f"

# Coverage of an interval, in words.
PER_CENT = f"{COVERAGE * 100:g} %"
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

# What a search costs, a column for each.
RATIOS = {"cpu": "CPU time, times", "hit_rate": "hit rate", "reference_hit_rate": "hit rate, first"}
RATIOS |= {"to_best": "time to the best, times"}

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


def shown_first(found: pd.DataFrame) -> pd.DataFrame:
    """Rows over all data sets, where there are several; else all of them."""
    whole = found[found["dataset"] == MEAN]
    return whole if len(whole) else found


def worth(row: Any) -> str:
    """Uniform pairs that reach the score at one m: a number, or beyond which end of the curve they lie."""
    if math.isinf(row.worth):
        return f"over {pairs(row.most)}"
    if row.worth == 0:
        return f"under {pairs(row.least)}" if row.least else "none"
    return pairs(row.worth)


def ratio(row: Any) -> str:
    """Chosen pairs for each uniform one, with the interval; `<` and `>` where the curve ends before."""

    def one(worth: float) -> str:
        if math.isinf(worth):
            return f"<{row.m_over_n / row.most:.2f}"
        if worth == 0:
            return f">{row.m_over_n / row.least:.2f}" if row.least else "∞"
        return f"{row.m_over_n / worth:.2f}"

    # many uniform pairs are few chosen ones for each
    value, low, high = map(one, (row.worth, row.worth_high, row.worth_low))
    return value if math.isnan(row.worth_low) or low == high == value else f"{value} ({low}–{high})"


def gain(row: Any) -> str:
    """Paired difference of a design to uniform pairs."""
    return with_error(row.difference, row.difference_se, f"+{FORM}")


def design_headline(found: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
    """Say by the first score which design is best at each m and p, if one model alone uses the pairs.

    Parameters
    ----------
    found : mapping of str to pandas.DataFrame
        From `pipeline.scoring.worth.design_scores`.

    Returns
    -------
    tuple of str
        One sentence; none of several models, or of several data sets that have no mean.
    """
    if not found:
        return ()
    score, rows = next(iter(found.items()))
    rows = shown_first(rows)
    names = rows[["model", "title"]].drop_duplicates()
    if len(names) > 1:
        return ()
    # without a standard error, as of one draw, nothing is ahead
    ahead = rows["difference"] > np.maximum(ROUNDING, ERRORS * rows["difference_se"])
    known = _chosen(rows)["difference_se"].notna()
    judged = rows[rows.set_index(["p", "m"]).index.isin(_chosen(rows)[known].set_index(["p", "m"]).index)]
    beyond, total = (len(each.groupby(["p", "m"])) for each in (rows[ahead], judged))
    best = f"By {LABELS[score].short} of {', '.join(names.iloc[0])}: {'; '.join(_places(rows))}."
    if not total:
        return (f"{best} These are means of one draw, which has no standard error.",)
    surely = f"more than {ERRORS:g} paired standard errors at {beyond} of {total} such places"
    return (f"{best} Some chosen pairs are ahead of uniform ones by {surely}.",)


def _places(rows: pd.DataFrame) -> Iterator[str]:
    """Where each design, or several alike, is best: the one that is best most often first."""
    places: dict[tuple[str, ...], dict[float, list[str]]] = {}
    for (p, m), points in rows.groupby(["p", "m"], sort=False):
        best = tuple(points.loc[points["mean"] >= points["mean"].max() - ROUNDING, "design"])
        places.setdefault(best, {}).setdefault(p, []).append(m)
    if len(places) == 1:
        yield f"{listed(next(iter(places)))} pairs are best at every m and p"
        return
    every = rows.groupby("p")["m"].nunique()
    for best, there in sorted(places.items(), key=lambda item: -sum(map(len, item[1].values()))):
        said = [
            f"p = {p:g}" + ("" if len(counts) == every[p] else f" with m = {listed(counts)}")
            for p, counts in there.items()
        ]
        yield f"{listed(best)} pairs are best at {', '.join(said)}"


def design_lines(found: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """A table for each score: over all data sets where there are several; the files hold each of them.

    Parameters
    ----------
    found : mapping of str to pandas.DataFrame
        From `pipeline.scoring.worth.design_scores`.
    """
    for place, (score, each) in enumerate(found.items()):
        if place:
            yield ""
        label = LABELS[score].short
        yield f"pairs that were chosen, against uniform ones: {label}"
        yield elements.text(("  p", "model", "design", "m", label, "less uniform", "worth", "ratio"), LAYOUT)
        for title, rows in _chosen(shown_first(each)).groupby("title", sort=False):
            yield str(title)
            for row in rows.itertuples():
                m = row.m if row.m.endswith("N") else pairs(row.m_over_n)
                name = look.short(row.model, longest=MODEL - 1)
                entries = (f"{row.mean:{FORM}}", gain(row), worth(row), ratio(row))
                yield elements.text((f"  {row.p:g}", name, row.design, m, *entries), LAYOUT)
        yield f"worth: uniform pairs with the same mean {label}; none: not above that without annotations"
        yield f"ratio: {RATIO}"


def _chosen(rows: pd.DataFrame) -> pd.DataFrame:
    """Designs beside uniform pairs."""
    return rows[rows["design"] != UNIFORM]


def design_files(found: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Every number that is said of designs, by the name of its file; nothing where there are none.

    Parameters
    ----------
    found : mapping of str to pandas.DataFrame
        From `pipeline.scoring.worth.design_scores`.

    Returns
    -------
    dict of str to pandas.DataFrame
        `designs`, a row for each of them, and `budget`, one for each beside uniform pairs, of every score.
    """
    if not found:
        return {}
    whole = elements.by_score(found)
    return {"designs": whole[["score", *DIFFERENCES]], "budget": _chosen(whole)[["score", *BUDGETS]]}


def designs(content: Content) -> Iterator[Part]:
    """What pairs of each design are worth with the model that scores best, then with all, by each score."""
    said = WORDS["designs"]
    for score, found in content.designs.items():
        yield from design_findings(found, score)
    yield Reading(said["reading"])
    for score, found in content.designs.items():
        yield from _design_tables(found, LABELS[score].short)
    for score, found in content.designs.items():
        name = LABELS[score].short.lower()
        yield f"designs-{name}", draw_designs(found, score), said["curves"]
        yield f"budget-{name}", draw_budgets(found, score), said["budget"].format(coverage=PER_CENT)


def design_findings(found: pd.DataFrame, score: str) -> Iterator[str]:
    """A sentence for each design: at each p the largest m that uniform pairs reach on the grid, or the first.

    Parameters
    ----------
    found : pandas.DataFrame
        Of one score, from `pipeline.scoring.worth.design_scores`.
    score : str
        Which.
    """
    for (title, design), rows in _chosen(shown_first(found)).groupby(["title", "design"], sort=False):
        best = rows.groupby("model", sort=False)["mean"].mean().idxmax()
        said = []
        for p, points in rows[rows["model"] == best].groupby("p", sort=False):
            inside = points[np.isfinite(points["worth"])]
            row = inside.iloc[-1] if len(inside) else points.iloc[0]
            reached = worth(row).replace("none", "no")
            said.append(
                f"At p = {p:g}, {pairs(row.m_over_n)} are worth {reached} uniform ones, ratio {ratio(row)}."
            )
        yield f"{LABELS[score].short}, {title}: {design} pairs with {best}. {' '.join(said)}"


def _design_tables(found: pd.DataFrame, label: str) -> Iterator[Table]:
    """Differences to uniform pairs, and worths with ratios, a row for each design and a column for each m."""
    # every m, as the file writes it, in ascending order of pairs a sample
    sizes = dict(zip(found["m"], found["m_over_n"], strict=True))
    counts = sorted(sizes, key=lambda count: sizes[count])
    less, budget = [], []
    for names, points in _chosen(found).groupby(["title", "p", "model", "design"], sort=False):
        title, p, model, design = names
        less.append([words(title), number(p, "g"), words(model), words(design)])
        budget.append([*less[-1]])
        # an m that a data set does not have has no entry
        there = {row.m: row for row in points.itertuples()}
        for row in map(there.get, counts):
            less[-1].append(NOTHING if row is None else Value(gain(row), row.difference))
            budget[-1] += [NOTHING] * 2 if row is None else [Value(worth(row), row.worth), _ratio(row)]
    columns: tuple[str, ...] = ("data set", "p", "model", "design")
    of = tuple(f"m = {count}" for count in counts)
    said = WORDS["designs"]
    title = f"{label} of a design less that of uniform pairs"
    yield Table(title, (*columns, *of), tuple(map(tuple, less)), note=said["differences"], pinned=True)
    over = (("", len(columns)), *((head, 2) for head in of))
    title = f"Uniform pairs that reach the {label} of m chosen ones"
    columns += ("uniform pairs", "ratio") * len(counts)
    note = said["worth"].format(coverage=PER_CENT)
    yield Table(title, columns, tuple(map(tuple, budget)), (over,), note, pinned=True)


def _ratio(row: Any) -> Value:
    return Value(ratio(row), row.m_over_n / row.worth if row.worth > 0 else math.inf)


def draw_designs(found: pd.DataFrame, score: str) -> Figure | None:
    """Draw a row of panels for each data set and model, a column for each accuracy.

    Parameters
    ----------
    found : pandas.DataFrame
        Of one score, from `pipeline.scoring.worth.design_scores`.
    score : str
        Which.
    """

    def panel(axes: Axes, rows: pd.DataFrame) -> None:
        for design, points in rows.groupby("design", sort=False):
            is_chosen = design != UNIFORM
            tips = [
                f"{design}, m = {row.m}: {row.mean:{FORM}}" + is_chosen * f", {gain(row)} to {UNIFORM}"
                for row in points.itertuples()
            ]
            band = points["difference_se"] if is_chosen else None
            how = look.DESIGN_LOOKS[str(design)]
            figures.curve(axes, points["m_over_n"], points["mean"], band, how, str(design), tips, 0.2)

    return _facets(found, "model", panel, lambda model: f"{look.short(model)}\n{LABELS[score].axis}")


def draw_budgets(found: pd.DataFrame, score: str) -> Figure | None:
    """Draw the worth of chosen pairs: a row of panels for each data set and design, a column per accuracy.

    Parameters
    ----------
    found : pandas.DataFrame
        Of one score, from `pipeline.scoring.worth.design_scores`.
    score : str
        Which.
    """

    def panel(axes: Axes, rows: pd.DataFrame) -> None:
        for model, points in rows.groupby("model", sort=False):
            how, x = look.mark(str(model)), points["m_over_n"]
            worths = points[list(WORTHS)].clip(upper=ABOVE * points["most"], axis="index")
            reached, low, high = (worths[name] for name in WORTHS)
            tips = [
                f"{model}, m = {row.m}: worth {worth(row)} uniform pairs, ratio {ratio(row)}"
                for row in points.itertuples()
            ]
            figures.curve(axes, x, reached, None, how, str(model), tips, 0)
            beyond = np.isinf(points["worth"])
            (hollow,) = axes.plot(x[beyond], reached[beyond], linestyle="", color=how.color)
            hollow.set(marker=how.marker, markersize=4.5, markerfacecolor=look.PAPER)
            look.hover(hollow, list(compress(tips, beyond)))
            axes.fill_between(x, low, high, where=low.notna(), color=how.color, alpha=0.16, linewidth=0)
        for most in rows["most"].head(1):
            axes.plot([0, most], [0, most], color=look.GREY, linestyle="--", linewidth=1.2, label=EQUAL)
            axes.axhline(most, color=look.GREY, linestyle=":", linewidth=1.0)

    up = f"by {LABELS[score].short}\nuniform pairs"
    return _facets(_chosen(found), "design", panel, lambda design: f"{look.short(design)} {up}")


def _facets(
    found: pd.DataFrame,
    key: str,
    draw: Callable[[Axes, pd.DataFrame], None],
    up: Callable[[str], str],
) -> Figure | None:
    """A row of panels for each data set and model, or design, with what is there of it at each accuracy."""
    panels = dict(list(found.groupby(["dataset", key], sort=False)))

    def panel(axes: Axes, item: tuple[str, str], p: float) -> None:
        rows = panels[item][panels[item]["p"] == p]
        draw(axes, rows)
        if len(rows):
            # As the sweep file writes m, where there are few: N of several data sets are rounded differently.
            counts = dict(zip(rows["m_over_n"], rows["m"], strict=True))
            axes.grid()
            look.tick_counts(axes, list(counts))
            if len(counts) <= look.MOST_TICKS:
                axes.set_xticks(list(counts), list(counts.values()), fontsize="small")

    def label(item: tuple[str, str]) -> str:
        return f"{look.short(panels[item]['title'].iloc[0])}\n{up(item[1])}"

    items = elements.spread(list(panels), MOST_ROWS)
    return figures.facets(items, found["p"], panel, PANEL, label, across=X_LABEL)


def _by_search(found: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Each search beside the first one: a title, its differences and its costs."""
    if found:
        for (search, reference), costs in found["search-costs"].groupby([SEARCH, "reference"], sort=False):
            differences = found["searches"]
            yield f"{search} beside {reference}", differences[differences[SEARCH] == search], costs


def search_lines(found: Mapping[str, pd.DataFrame], width: int) -> Iterator[str]:
    """Say of each search how it compares with the first one, for a terminal.

    Parameters
    ----------
    found : mapping of str to pandas.DataFrame
        From `pipeline.scoring.pairs.compared_searches`.
    width : int
        Of a line.
    """
    for title, differences, costs in _by_search(found):
        yield f"search {title}, the same cells in pairs"
        for sentence in search_findings(differences, costs):
            yield from elements.wrapped(sentence, width, first="  ", others="    ")


def searches(content: Content) -> Iterator[Part]:
    """The same for the page, with tables, and a figure for each search."""
    said, found = WORDS["searches"], list(_by_search(content.searches))
    for title, differences, costs in found:
        yield from (f"{title}: {line}" for line in search_findings(differences, costs))
    yield said["reading"]
    for title, differences, costs in found:
        yield _search_table(title, differences, costs)
    for _, differences, costs in found:
        names = differences[[SEARCH, "reference"]].iloc[0].to_dict() | {"score": LABELS[RANKED[0]].short}
        text = said["lines"].format(same=TIE, units=elements.units(differences["unit"]), **names)
        yield f"search-{names[SEARCH]}", draw_search(differences, costs), text


def search_findings(differences: pd.DataFrame, costs: pd.DataFrame) -> Iterator[str]:
    """A sentence for each model, over all data sets: objectives, scores, time.

    Parameters
    ----------
    differences, costs : pandas.DataFrame
        Of one search, from `pipeline.scoring.pairs.compared_searches`.
    """
    whole = differences[differences["dataset"] == ALL]
    for cost in costs[costs["dataset"] == ALL].itertuples():
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


def _search_table(title: str, differences: pd.DataFrame, costs: pd.DataFrame) -> Table:
    """A row for each model over all data sets, then for each data set and model."""
    of = ["dataset", "model"]
    units = differences.drop_duplicates(of).assign(units=lambda rows: [*map(_units, rows.itertuples())])
    found = costs.merge(units[[*of, "units"]], "left", of)
    columns: list[Column] = [("data set", "dataset", ""), ("model", "model", "")]
    columns += [("cells", "n_cells", ",.0f"), ("units", "units", ",.0f")]
    for score, rows in differences.groupby("score", sort=False):
        if score == OBJECTIVE:
            shares = [key for key, *_ in SHARES]
            found = found.merge(rows[of].join(100 * rows[shares]), "left", of)
            columns += [(head, key, ",.0f") for key, _, head, _ in SHARES]
        else:
            entries = rows[of].assign(**{str(score): [*map(_difference, rows.itertuples())]})
            found = found.merge(entries, "left", of)
            columns.append((LABELS[str(score)].short, str(score), FORM))
    columns += [(head, key, ".2f") for key, head in RATIOS.items()]
    note = WORDS["searches"]["note"].format(units=elements.units(differences["unit"]))
    note += "" if "wins_b" in found else f" {WORDS['searches']['different']}"
    return elements.table(title, found, columns, note=note, pinned=True)


def _units(row: Any) -> Value:
    noun = SINGULAR.get(row.unit, "cell")
    return Value(str(row.n) if row.dataset == ALL else plural(row.n, noun), int(row.n))


def draw_search(differences: pd.DataFrame, costs: pd.DataFrame) -> Figure:
    """Draw a line for each data set and model.

    Parameters
    ----------
    differences, costs : pandas.DataFrame
        Of one search, from `pipeline.scoring.pairs.compared_searches`.

    Returns
    -------
    Figure
        Panels of objectives, where they compare, of the first ranked score, where true labels are known, and
        of time.
    """
    costs = costs[costs["dataset"] != ALL].set_index(["dataset", "model"])
    lines = elements.spread(list(costs.index), MOST_LINES)
    tables = dict(list(differences.set_index(["dataset", "model"]).groupby("score")))
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
    axes.set(xlim=(0, 100), xlabel="cells by best objective, %")
    axes.legend(ncols=3, **KEYS)


def _differences(axes: Axes, table: pd.DataFrame) -> None:
    axes.axvline(0, color=look.GREY, linewidth=1)
    tips = [
        f"{', '.join(row.Index)}: {with_error(row.difference, row.se, '+.3f')}" for row in table.itertuples()
    ]
    looks = {"color": look.BLUE, "linestyle": "", "marker": "o"}
    figures.bars(axes, table["difference"], range(len(table)), {"xerr": table["se"].fillna(0.0)}, looks, tips)
    axes.set_xlabel(f"{LABELS[RANKED[0]].short}, difference")
