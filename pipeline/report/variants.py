"""Designs and searches of one sweep side by side: what choosing pairs gains, and what another search finds.

They are set beside the one that models are compared in, cell by cell, in sentences, lines for a terminal,
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

from sweep_clustering.pipeline import looks
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import elements, figures
from sweep_clustering.pipeline.report.elements import FORM, WORDS, Table, Value, number, with_error, words
from sweep_clustering.pipeline.scoring import pairs as paired
from sweep_clustering.pipeline.scoring.ranking import ERRORS, MEAN, RANKED, ROUNDING
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.pipeline.scoring.tables import SEARCH
from sweep_clustering.sweeps.words import UNIFORM

# Coverage of an interval, in words.
PER_CENT = f"{paired.COVERAGE * 100:g} %"

# Width and height of a panel of designs in inches.
PANEL = (2.6, 1.9)
MOST_ROWS = 24
# Height at which a worth stands that uniform pairs do not reach, in lengths of their curve.
UNREACHED_HEIGHT = 1.12
EQUAL = "as many uniform pairs"
X_LABEL = "annotations m (pairs a sample)"

# Shares of cells by their best objective: column, colour, and words in a table and in a figure.
SHARES = (
    ("wins_b", looks.GREEN, "higher", "higher"),
    ("ties", looks.RULE, "same", "the same"),
    ("wins_a", looks.VERMILLION, "lower", "lower"),
)
# Times: column, marker, colour, and words.
TIMES = (
    ("cpu", "o", looks.BLUE, "a cell"),
    ("to_best", "D", looks.VERMILLION, "a restart that found the best"),
)
# Columns of what a search costs, and their heads.
RATIOS = {
    "cpu": "CPU time, times",
    "hit_rate": "hit rate",
    "reference_hit_rate": "hit rate, first",
    "to_best": "time to the best, times",
}

# Models and data sets in one figure of a search.
MOST_LINES = 48
# Inches of a panel of a search, and of a line in it.
WIDTH = 2.9
LINE = 0.24
# Share of a line that its bar takes.
BAR = 0.62
# Place of the legend of a panel, above it.
KEYS: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "handlelength": 1, "columnspacing": 1}


def pairs(value: float) -> str:
    """Return pairs a sample as sweep files write them."""
    return f"{value:.2f}".rstrip("0").rstrip(".") + "N"


def overall_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the rows over all data sets if there are several, else all rows."""
    means = scores[scores["dataset"] == MEAN]
    return means if len(means) else scores


def chosen_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of designs other than uniform pairs."""
    return scores[scores["design"] != UNIFORM]


def worth(row: Any) -> Value:
    """Return the uniform pairs that reach the score at one m, or the end of the curve before them."""
    if math.isinf(row.worth):
        text = f"over {pairs(row.most)}"
    elif row.worth == 0:
        text = f"under {pairs(row.least)}" if row.least else "none"
    else:
        text = pairs(row.worth)
    return Value(text, row.worth)


def ratio(row: Any) -> Value:
    """Return an entry of the chosen pairs for each uniform one, with the interval.

    `<` and `>` if the curve ends before.
    """

    def text(worth: float) -> str:
        if math.isinf(worth):
            return f"<{row.m_over_n / row.most:.2f}"
        if worth == 0:
            return f">{row.m_over_n / row.least:.2f}" if row.least else "∞"
        return f"{row.m_over_n / worth:.2f}"

    # many uniform pairs are few chosen ones for each
    value, low, high = map(text, (row.worth, row.worth_high, row.worth_low))
    is_exact = math.isnan(row.worth_low) or low == high == value
    order = row.m_over_n / row.worth if row.worth > 0 else math.inf
    return Value(value if is_exact else f"{value} ({low}–{high})", order)


def gain(row: Any) -> Value:
    """Return an entry of the paired difference of a design to uniform pairs."""
    return Value(with_error(row.difference, row.difference_se, f"+{FORM}"), row.difference)


def design_headline(designs: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
    """Say by the first score of `design_scores` which design is best at each m and p.

    There is one sentence for one model. Several models, or several data sets that have no mean, have none.
    """
    if not designs:
        return ()
    score, rows = next(iter(designs.items()))
    rows = overall_rows(rows)
    names = rows[["model", "title"]].drop_duplicates()
    if len(names) > 1:
        return ()
    design_rows = chosen_rows(rows)
    places = pd.MultiIndex.from_frame(
        design_rows.loc[design_rows["difference_se"].notna(), ["p", "m"]].drop_duplicates()
    )
    best = f"By {LABELS[score].short} of {', '.join(names.iloc[0])}: {'; '.join(_places(rows))}."
    # without a standard error, as in a single draw, nothing is ahead
    if places.empty:
        return (f"{best} These are means of one draw, which has no standard error.",)
    is_ahead = rows["difference"] > np.maximum(ROUNDING, ERRORS * rows["difference_se"])
    n_ahead = len(rows.loc[is_ahead, ["p", "m"]].drop_duplicates())
    certainty = f"more than {ERRORS:g} paired standard errors at {n_ahead} of {len(places)} such places"
    return (f"{best} Some chosen pairs are ahead of uniform ones by {certainty}.",)


def _places(rows: pd.DataFrame) -> Iterator[str]:
    """Say where each design, or several alike, is best, with the one that is best most often first."""
    places: dict[tuple[str, ...], dict[float, list[str]]] = {}
    for (p, m), points in rows.groupby(["p", "m"], sort=False):
        best = tuple(points.loc[points["mean"] >= points["mean"].max() - ROUNDING, "design"])
        places.setdefault(best, {}).setdefault(p, []).append(m)
    if len(places) == 1:
        yield f"{elements.enumeration(next(iter(places)))} pairs are best at every m and p"
        return
    n_counts = rows.groupby("p")["m"].nunique()
    for best, by_p in sorted(places.items(), key=lambda item: -sum(map(len, item[1].values()))):
        texts = [
            f"p = {p:g}" + ("" if len(counts) == n_counts[p] else f" with m = {elements.enumeration(counts)}")
            for p, counts in by_p.items()
        ]
        yield f"{elements.enumeration(best)} pairs are best at {', '.join(texts)}"


def design_files(designs: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the differences of `design_scores` for designs.csv, and the worths for budget.csv."""
    if not designs:
        return {}
    all_scores = elements.by_score(designs)
    worths = chosen_rows(all_scores)[["score", *paired.BUDGETS]]
    return {"designs": all_scores[["score", *paired.DIFFERENCES]], "budget": worths}


def designs(content: elements.Content) -> Iterator[elements.Part]:
    """Yield what pairs of each design are worth with the best model, then with all, by each score."""
    if not content.designs:
        return
    texts = WORDS["designs"]
    for score, scores in content.designs.items():
        yield from design_findings(scores, score)
        yield from _design_tables(scores, LABELS[score].short)
        name = LABELS[score].short.lower()
        yield f"designs-{name}", draw_designs(scores, score), texts["curves"]
        yield f"budget-{name}", draw_budgets(scores, score), texts["budget"].format(coverage=PER_CENT)
    yield elements.Reading(texts["reading"])


def design_findings(scores: pd.DataFrame, score: str) -> Iterator[str]:
    """Say for each design, at each p, what its pairs are worth at the largest m on the grid of uniform pairs.

    If no m is on that grid, it is the first m. The rows are those of one score in `design_scores`.
    """
    for (title, design), rows in chosen_rows(overall_rows(scores)).groupby(["title", "design"], sort=False):
        best = rows.groupby("model", sort=False)["mean"].mean().idxmax()
        texts = []
        for p, points in rows[rows["model"] == best].groupby("p", sort=False):
            reached_points = points[np.isfinite(points["worth"])]
            row = reached_points.iloc[-1] if len(reached_points) else points.iloc[0]
            uniform = worth(row).text.replace("none", "no")
            worth_text = f"At p = {p:g}, {pairs(row.m_over_n)} are worth {uniform} uniform ones"
            texts.append(f"{worth_text}, ratio {ratio(row).text}.")
        yield f"{LABELS[score].short}, {title}: {design} pairs with {best}. {' '.join(texts)}"


def _design_tables(scores: pd.DataFrame, label: str) -> Iterator[Table]:
    """Yield differences to uniform pairs, and worths with ratios: a row per design, a column per m."""
    # every m, as the file writes it, in ascending order of pairs a sample
    sizes = dict(zip(scores["m"], scores["m_over_n"], strict=True))
    counts = sorted(sizes, key=lambda count: sizes[count])
    differences, budgets = [], []
    rows = chosen_rows(scores)
    for (title, p, model, design), points in rows.groupby(["title", "p", "model", "design"], sort=False):
        place = words(title), number(p, "g"), words(model), words(design)
        # an m that a data set does not have has no entry
        by_count = {row.m: row for row in points.itertuples()}
        at_counts = [by_count.get(count) for count in counts]
        differences.append((*place, *(elements.DASH if row is None else gain(row) for row in at_counts)))
        pairs = [(elements.DASH,) * 2 if row is None else (worth(row), ratio(row)) for row in at_counts]
        budgets.append((*place, *(value for pair in pairs for value in pair)))
    heads, texts = ("data set", "p", "model", "design"), WORDS["designs"]
    columns = tuple(f"m = {count}" for count in counts)
    title, note = f"{label} of a design less that of uniform pairs", texts["differences"]
    yield Table(title, (*heads, *columns), tuple(differences), note=note, n_lead=4, full_file="designs.csv")
    groups = (("", len(heads)), *((column, 2) for column in columns))
    title, note = f"Uniform pairs that reach the {label} of m chosen ones", texts["worth"]
    columns, note = (*heads, *("uniform pairs", "ratio") * len(counts)), note.format(coverage=PER_CENT)
    yield Table(title, columns, tuple(budgets), (groups,), note, n_lead=4, full_file="budget.csv")


def draw_designs(scores: pd.DataFrame, score: str) -> Figure | None:
    """Draw one score of `design_scores`: panels for each data set and model, a column per accuracy."""

    def panel(axes: Axes, rows: pd.DataFrame) -> None:
        for design, points in rows.groupby("design", sort=False):
            is_chosen = design != UNIFORM
            tips = [
                f"{design}, m = {row.m}: {row.mean:{FORM}}" + is_chosen * f", {gain(row).text} to {UNIFORM}"
                for row in points.itertuples()
            ]
            band = points["difference_se"] if is_chosen else None
            look = looks.DESIGN_LOOKS[str(design)]
            figures.curve(axes, points["m_over_n"], points["mean"], band, look, str(design), tips, 0.2)

    return _facets(scores, "model", panel, lambda model: f"{figures.short(model)}\n{LABELS[score].axis}")


def draw_budgets(scores: pd.DataFrame, score: str) -> Figure | None:
    """Draw what chosen pairs are worth: panels for each data set and design, a column per accuracy."""

    def panel(axes: Axes, rows: pd.DataFrame) -> None:
        for model, points in rows.groupby("model", sort=False):
            look, x = looks.mark(str(model)), points["m_over_n"]
            worths = points[list(paired.WORTHS)].clip(upper=UNREACHED_HEIGHT * points["most"], axis="index")
            value, low, high = (worths[name] for name in paired.WORTHS)
            tips = [
                f"{model}, m = {row.m}: worth {worth(row).text} uniform pairs, ratio {ratio(row).text}"
                for row in points.itertuples()
            ]
            figures.curve(axes, x, value, None, look, str(model), tips, 0)
            is_beyond = np.isinf(points["worth"])
            (hollow,) = axes.plot(x[is_beyond], value[is_beyond], linestyle="", color=look.color)
            hollow.set(marker=look.marker, markersize=4.5, markerfacecolor=looks.PAPER)
            figures.hover(hollow, list(compress(tips, is_beyond)))
            axes.fill_between(x, low, high, where=low.notna(), color=look.color, alpha=0.16, linewidth=0)
        for limit in rows["most"].head(1):
            axes.plot([0, limit], [0, limit], color=looks.GREY, linestyle="--", linewidth=1.2, label=EQUAL)
            axes.axhline(limit, color=looks.GREY, linestyle=":", linewidth=1.0)

    y_label = f"by {LABELS[score].short}\nuniform pairs"
    return _facets(chosen_rows(scores), "design", panel, lambda design: f"{figures.short(design)} {y_label}")


def _facets(
    scores: pd.DataFrame, key: str, draw: Callable[[Axes, pd.DataFrame], None], y_label: Callable[[str], str]
) -> Figure | None:
    """Return a figure with panels for each data set and each value of a key, and a column per accuracy."""
    panels = dict(list(scores.groupby(["dataset", key], sort=False)))

    def panel(axes: Axes, item: tuple[str, str], p: float) -> None:
        rows = panels[item][panels[item]["p"] == p]
        draw(axes, rows)
        if len(rows):
            # Few m stand as the sweep file writes them, because N of several data sets are rounded
            # differently.
            counts = dict(zip(rows["m_over_n"], rows["m"], strict=True))
            axes.grid()
            figures.tick_counts(axes, list(counts))
            if len(counts) <= figures.MOST_TICKS:
                axes.set_xticks(list(counts), list(counts.values()), fontsize="small")

    def label(item: tuple[str, str]) -> str:
        return f"{figures.short(panels[item]['title'].iloc[0])}\n{y_label(item[1])}"

    items = elements.subset(list(panels), MOST_ROWS)
    return figures.facets(items, scores["p"], panel, PANEL, label, x_label=X_LABEL)


def searches(content: elements.Content) -> Iterator[elements.Part]:
    """Yield how each search compares with the first one, with tables, and a figure for each search."""
    if not content.searches:
        return
    texts, tables = WORDS["searches"], content.searches
    for (search, reference), costs in tables["search-costs"].groupby([SEARCH, "reference"], sort=False):
        title, differences = f"{search} beside {reference}", tables["searches"]
        differences = differences[differences[SEARCH] == search]
        yield from (f"{title}: {line}" for line in search_findings(differences, costs))
        yield _search_table(title, differences, costs)
        names = {"search": search, "reference": reference, "score": LABELS[RANKED[0]].short}
        text = texts["lines"].format(same=paired.TIE, units=elements.units(differences["unit"]), **names)
        yield f"search-{search}", draw_search(differences, costs), text
    yield texts["reading"]


def search_findings(differences: pd.DataFrame, costs: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence for each model of one search, over all data sets: objectives, scores, time."""
    overall = differences[differences["dataset"] == paired.ALL_SETS]
    for cost in costs[costs["dataset"] == paired.ALL_SETS].itertuples():
        parts = []
        for row in overall[overall["model"] == cost.model].itertuples():
            if row.score != paired.OBJECTIVE:
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
    """Return an entry of a paired difference, without a negative zero."""
    gain = round(float(row.difference), 3) + 0.0
    return Value(with_error(gain, row.se, "+.3f"), gain)


def _search_table(title: str, differences: pd.DataFrame, costs: pd.DataFrame) -> Table:
    """Return a row for each model over all data sets, then for each data set and model."""
    keys = ["dataset", "model"]
    units = differences.drop_duplicates(keys).assign(units=lambda rows: [*map(_units, rows.itertuples())])
    table = costs.merge(units[[*keys, "units"]], "left", keys)
    columns: list[elements.Column] = [("data set", "dataset", ""), ("model", "model", "")]
    columns += [("cells", "n_cells", ",.0f"), ("units", "units", ",.0f")]
    for score, rows in differences.groupby("score", sort=False):
        if score == paired.OBJECTIVE:
            shares = [key for key, *_ in SHARES]
            table = table.merge(rows[keys].join(100 * rows[shares]), "left", keys)
            columns += [(head, key, ",.0f") for key, _, head, _ in SHARES]
        else:
            entries = rows[keys].assign(**{str(score): [*map(_difference, rows.itertuples())]})
            table = table.merge(entries, "left", keys)
            columns.append((LABELS[str(score)].short, str(score), FORM))
    columns += [(head, key, ".2f") for key, head in RATIOS.items()]
    note = WORDS["searches"]["note"].format(units=elements.units(differences["unit"]))
    note += "" if "wins_b" in table else f" {WORDS['searches']['different']}"
    return elements.table(title, table, columns, note=note, n_lead=2)


def _units(row: Any) -> Value:
    # if nothing is drawn again, a unit is a cell
    noun = "cell" if pd.isna(row.unit) else row.unit.removesuffix("s")
    return Value(str(row.n) if row.dataset == paired.ALL_SETS else plural(row.n, noun), int(row.n))


def draw_search(differences: pd.DataFrame, costs: pd.DataFrame) -> Figure:
    """Draw a line for each data set and model of one search in `compared_searches`.

    Panels show objectives, if they compare, the first ranked score, if true labels are known, and time.
    """
    costs = costs[costs["dataset"] != paired.ALL_SETS].set_index(["dataset", "model"])
    lines = elements.subset(list(costs.index), MOST_LINES)
    tables = dict(list(differences.set_index(["dataset", "model"]).groupby("score")))
    scores = [score for score in (paired.OBJECTIVE, RANKED[0]) if score in tables]
    figure, [grid] = figures.panels(1, len(scores) + 1, (WIDTH, max(1.2, LINE * len(lines))))
    for score, axes in zip(scores, grid, strict=False):
        draw = _draw_shares if score == paired.OBJECTIVE else _draw_differences
        draw(axes, tables[score].reindex(lines))
    last = grid[-1]
    last.axvline(1, color=looks.GREY, linewidth=1)
    for key, marker, color, label in TIMES:
        times = costs.loc[lines, key]
        (points,) = last.plot(times, range(len(lines)), marker, color=color, markersize=4.5, label=label)
        tips = (f"{', '.join(name)}, {label}: {value:.2f} times" for name, value in times.items())
        figures.hover(points, list(tips))
    figures.log_axis(last, (1.0, 2.0, 5.0), numticks=8)
    last.set_xlabel("CPU time, times")
    last.legend(ncols=2, **KEYS)
    for axes in grid:
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_yticks(range(len(lines)), [""] * len(lines))
        axes.grid(axis="x")
    grid[0].set_yticks(range(len(lines)), [f"{figures.short(dataset)}, {model}" for dataset, model in lines])
    return figure


def _draw_shares(axes: Axes, table: pd.DataFrame) -> None:
    start = pd.Series(0.0, index=table.index)
    for key, color, _, label in SHARES:
        share = 100 * table[key].fillna(0.0)
        axes.barh(range(len(table)), share, left=start, height=BAR, color=color, label=label)
        start = start + share
    axes.set(xlim=(0, 100), xlabel="cells by best objective, %")
    axes.legend(ncols=3, **KEYS)


def _draw_differences(axes: Axes, table: pd.DataFrame) -> None:
    axes.axvline(0, color=looks.GREY, linewidth=1)
    tips = [
        f"{', '.join(row.Index)}: {with_error(row.difference, row.se, '+.3f')}" for row in table.itertuples()
    ]
    style: dict[str, Any] = {"color": looks.BLUE, "linestyle": "", "marker": "o", "markersize": 4.5}
    bars = axes.errorbar(table["difference"], range(len(table)), xerr=table["se"].fillna(0.0), **style)
    figures.hover(bars[0], tips)
    axes.set_xlabel(f"{LABELS[RANKED[0]].short}, difference")
