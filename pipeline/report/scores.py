"""Scores on the page: tables, curves over the number of annotations, centroid index, relative NMI.

Beside them what annotations that were held out say: shapes of covariances that cells chose, and how well
models predict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pipeline.common import plural
from pipeline.report import elements, figures, look
from pipeline.report.content import Content
from pipeline.report.elements import NOTHING, Column, Table, Value, Written, count_of, number, spread, words
from pipeline.scoring.ranking import RANKED
from pipeline.scoring.scores import LABELS, QUALITIES, SCORES
from pipeline.scoring.tables import TOO_FEW, summary_table
from sweeps.file.spec import base_name
from sweeps.plan import DatasetPlan
from sweeps.shapes import CANDIDATES
from sweeps.words import BASELINES, baseline_of

# Of a score; the published ones have four digits.
FORM, PAPER_FORM = ".3f", ".4f"
# Columns of models that fit a page.
MOST_MODELS = 9
PAPER_SCORES = (*RANKED, "goldberger_kl")

# Width and height of a panel of curves, and of one of boxes, in inches.
PANEL, BOX_PANEL = (2.6, 1.75), (2.75, 2.0)
BASELINE = " The grey line is the model without annotations."
AGREEMENT = " A solution that knows the truth would meet the accuracy p."

INDEX = "centroid_index"
# Indices with a column of their own; that of the last one holds larger ones, too.
MOST_INDEX = 3
INDEX_CAPTION = (
    "Share of the cells whose centroid index is 0: those whose solution has one centroid for each true class."
    " Mean over {units}, with a band of one standard error. All panels have the same axes."
)

# Cells of a box below which each is a point.
FEW = 10
BOXES = (
    "Boxes are quartiles, the line in them is the median; whiskers end at the last value within 1.5 of their"
    f" height, beyond which cells are points. Of fewer than {FEW} cells each is a point. Dashed: no gain."
)
# Numbers of annotations in a panel of boxes, and models in one of that width; those of more are wider.
MOST_COUNTS, MOST_BOXES = 8, 6

CHOICE_PANEL = (2.75, 1.8)
# Cells that had no choice, apart from those that chose the simplest shape.
UNABLE = "too few annotations"
CHOSEN_RULE = (
    "Each cell of a model that chooses took the simplest shape whose predictions of held-out annotations are"
    " within half a standard error of the best."
)
HELD_OUT = (
    "Annotations were held out in five folds: each was predicted by a short search that saw those of the"
    " other folds. A log loss of 0.69 nats is that of a guess."
)
COMPARED = (
    "Annotations of accuracy p, above one half, are wrong with probability 1 - p: nobody can expect to"
    " predict more than a share p. All models of a data set, p and m saw the same annotations; which of them"
    " were held out together was drawn for each model."
)
CHOSEN = (
    "Predicted are held-out annotations whose answer the shape chosen holds for the more probable one;"
    f" the log loss is of all that were held out. {TOO_FEW.capitalize()}: cells that are spherical as"
    " they have too few annotations to choose, and are left out of both."
)
PREDICTED = (
    "Means over cells. Predicted are held-out annotations whose answer the model, fitted to the others,"
    f" holds for the more probable one. {TOO_FEW.capitalize()}: cells with fewer than 20 annotated pairs,"
    " which hold none out and are left out of both means."
)


def score_words(content: Content) -> Iterator[str]:
    """What the tables of scores leave out."""
    missing = int(content.summary["n_missing"].sum())
    said = "Every score of every cell that is done is defined."
    if missing:
        said = (
            f"{plural(missing, 'score')} of cells that are done {elements.are(missing)} left"
            " out of the means: the divergence of a degenerate cluster is not defined, and relative NMI"
            " needs the baseline. summary.csv counts them."
        )
    yield f"Objectives compare within one model on one data set only. {said}"


def score_tables(content: Content) -> Iterator[Table]:
    """Every table of scores: of mixtures as in the paper, of real data sets a row per p and m."""
    means, found = Means(content), set(content.summary["score"])
    for score in [score for score in QUALITIES if score in found] or ["annotation_agreement"]:
        if score in RANKED:
            yield from _pooled(content, score)
        yield from means.real(score)
        if score in PAPER_SCORES:
            yield from means.mixtures(score)
    yield from means.baselines()


def _pooled(content: Content, score: str) -> Iterator[Table]:
    """Rows p and m, columns models, over the real data sets."""
    pooled, alone = content.pooled(score)
    if pooled.empty:
        return
    levels = [
        f"{model}: {found.mean():{FORM}} ({len(found)})" for model, found in alone.groupby("model")["mean"]
    ]
    note = f"In brackets: data sets. {'; '.join(levels)}"
    for part, models in _beside(sorted(pooled["model"].unique())):
        body = []
        for (p, m), group in pooled.groupby(["p", "m"], sort=False):
            rows = {row.model: row for row in group.itertuples()}
            entries = (
                Value(f"{rows[model].mean:{FORM}} ({rows[model].n_datasets})", rows[model].mean)
                if model in rows
                else NOTHING
                for model in models
            )
            body.append((number(p, "g"), words(m), *entries))
        title = f"{LABELS[score].short}: mean over real data sets{part}"
        yield Table(title, ("p", "m", *models), tuple(body), note=note, pinned=True)


class Means:
    """Tables of the means of a cube, each with the models that have a value.

    Parameters
    ----------
    content : Content
        Its summary, plans, and how the sweep file writes each m.
    """

    def __init__(self, content: Content) -> None:
        self.summary, self.written = content.summary, content.written
        self.plans = list(content.manifest.plans.values())
        self.alone = frozenset(self.summary.loc[self.summary["p"].isna(), "model"])
        # models and methods without annotations have neither p nor m
        self.rows = {
            (row.score, row.dataset, *(() if pd.isna(row.p) else (row.p, row.m)), row.model): row
            for row in self.summary.itertuples()
        }

    def real(self, score: str) -> Iterator[Table]:
        """Rows data set, p and m, columns models, of real data sets."""
        real = [plan for plan in self.plans if plan.mixtures is None and plan.supervised]
        if not real:
            return
        counts = sorted(plan.replicates for plan in real)
        redraws = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        note = f"Mean ± standard error over redraws of the annotations ({redraws})."
        places = [(plan, p, m) for plan in real for p, m in product(sorted(plan.p), sorted(plan.m))]
        for part, models in _beside(self._models(score, real)):
            rows = tuple(
                (
                    words(plan.name),
                    number(p, "g"),
                    elements.count(self.written, plan.name, m),
                    *(self._entry(score, plan, p, m, model) for model in models),
                )
                for plan, p, m in places
            )
            title = f"{LABELS[score].short}: real data sets{part}"
            heads = ("data set", "p", "m", *models)
            yield Table(title, heads, rows, note=note, pinned=True, folded=score not in RANKED)

    def mixtures(self, score: str) -> Iterator[Table]:
        """Rows m, columns K × model, of mixtures that differ in K alone; m = 0 is the baseline of a shape."""
        families: dict[str, list[DatasetPlan]] = {}
        for plan in self.plans:
            if plan.mixtures is not None and plan.supervised:
                families.setdefault(base_name(plan.name, plan.n_clusters), []).append(plan)
        for name, found in families.items():
            family = sorted(found, key=lambda plan: plan.n_clusters)
            drawn = ", ".join(f"{plan.mixtures} at K = {plan.n_clusters}" for plan in family)
            note = (
                f"Mean ± standard error over mixtures ({drawn}), each of them a mean over its redraws first."
                " m = 0 is the model without annotations."
            )
            accuracies = sorted({p for plan in family for p in plan.p})
            counts = sorted({0, *(m for plan in family for m in plan.m)})
            every = sorted({model for plan in family for model in plan.models})
            for p, (part, models) in product(accuracies, _beside(every)):
                columns = [(plan, model) for plan in family for model in models if model in plan.models]
                rows = []
                for m in counts:
                    texts = (self.written.get((plan.name, m)) for plan in family)
                    entries = (
                        self._entry(score, plan, p, m, model if m else baseline_of(model), PAPER_FORM)
                        for plan, model in columns
                    )
                    rows.append((Value(next(filter(None, texts), str(m)), m), *entries))
                sizes = Counter(f"K = {plan.n_clusters}" for plan, _ in columns)
                yield Table(
                    f"{LABELS[score].short}: {name}, p = {p:g}{part}",
                    ("m", *(model for _, model in columns)),
                    tuple(rows),
                    ((("", 1), *sizes.items()),),
                    note,
                    pinned=True,
                    folded=score not in RANKED,
                )

    def baselines(self) -> Iterator[Table]:
        """Rows data set and model, columns scores, without annotations."""
        plans = [plan for plan in self.plans if plan.baselines]
        models = {
            score: [model for model in self._models(score, plans) if model in self.alone]
            for score in (*PAPER_SCORES, INDEX, "objective")
        }
        scores = [score for score, found in models.items() if found]
        rows = tuple(
            (words(plan.name), words(model), *(self._entry(score, plan, 0, 0, model) for score in scores))
            for plan, model in product(plans, dict.fromkeys(chain.from_iterable(models.values())))
        )
        if rows:
            heads = ("data set", "model", *(LABELS[score].short for score in scores))
            once = "Nothing draws a real data set again: one cell, no error."
            note = f"Mean ± standard error over mixtures. {once}"
            yield Table("Without annotations", heads, rows, note=note, pinned=True)

    def _entry(self, score: str, plan: DatasetPlan, p: float, m: int, model: str, form: str = FORM) -> Value:
        row = self.rows.get((score, plan.name, *(() if model in self.alone else (p, m)), model))
        return NOTHING if row is None else elements.mean_and_error(row.mean, row.se, form)

    def _models(self, score: str, plans: Iterable[DatasetPlan]) -> list[str]:
        """Models that have a value of the score, baselines first."""
        of = self.summary["dataset"].isin([plan.name for plan in plans])
        found = self.summary.loc[of & (self.summary["score"] == score), "model"].unique()
        return sorted(found, key=lambda model: (model not in self.alone, model))


def _beside(models: list[str]) -> list[tuple[str, list[str]]]:
    """Models in tables that fit a page, in equal shares, after what is added to the title of each."""
    n = max(1, math.ceil(len(models) / MOST_MODELS))
    parts = [models[len(models) * k // n : len(models) * (k + 1) // n] for k in range(n)]
    return [(f", {part[0]} to {part[-1]}" if n > 1 else "", part) for part in parts]


def curve_figures(content: Content) -> Iterator[figures.Drawn]:
    """NMI, ARI and KL divergence, with published means where there are any."""
    text = caption(content.summary) + (BASELINE if content.summary["p"].isna().any() else "")
    for score, name in (("nmi", "nmi"), ("adjusted_rand", "ari"), ("goldberger_kl", "kl")):
        figure = draw_curves(content.summary, score, content.compared, content.written)
        yield name, figure, f"{LABELS[score].short}: {text[0].lower()}{text[1:]}"


def agreement_figures(content: Content) -> Iterator[figures.Drawn]:
    """Share of the annotations that a solution takes for correct."""
    text = f"Share of annotations that the solution takes for correct. {caption(content.summary)}{AGREEMENT}"
    yield "agreement", draw_curves(content.summary, "annotation_agreement", written=content.written), text


def caption(summary: pd.DataFrame) -> str:
    """What the lines and bands are over."""
    over = elements.units(summary.loc[summary["p"].notna(), "unit"])
    return f"Mean over {over}, with a band of one standard error."


def not_drawn(content: Content) -> Iterator[str]:
    """Say where the figures of the page show a part of a large grid."""
    most = (("data sets", "dataset", look.MOST_DATASETS), ("accuracies", "p", look.MOST_ACCURACIES))
    large = [
        f"{limit} of {n} {what}" for what, key, limit in most if (n := content.cells[key].nunique()) > limit
    ]
    if large:
        yield f"Figures show {' and '.join(large)}, evenly spread; summary.csv and cells.csv hold all."


def draw_curves(
    summary: pd.DataFrame,
    score: str,
    published: pd.DataFrame | None = None,
    written: Written | None = None,
    up: str = "",
) -> Figure | None:
    """Draw the mean of a score with its standard error.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `pipeline.scoring.tables.summary_table`.
    score : str
        One of `pipeline.scoring.scores.SCORES`. Correct annotations get the accuracy as a line.
    published : pandas.DataFrame, optional
        From `pipeline.report.against.compare`; drawn as crosses.
    written : mapping, optional
        From `pipeline.scoring.tables.written_counts`: how m is written.
    up : str, optional
        Label of the y axes, where it is not that of the score.

    Returns
    -------
    Figure or None
        A row of panels per data set, and per shape where there are many, a column per accuracy; None if no
        supervised cell has the score.
    """
    rows = summary[(summary["score"] == score) & (summary["n"] > 0)]
    supervised, groups = rows[rows["p"].notna()], elements.shape_groups(rows["model"])
    panels = elements.by_shape(rows, supervised["dataset"])

    def panel(axes: Axes, item: tuple[str, str], p: float) -> None:
        there = panels[item]
        for row in there[there["p"].isna()].itertuples():
            how, error = look.mark(str(row.model)), 0.0 if pd.isna(row.se) else row.se
            axes.axhline(row.mean, color=how.color, linestyle=how.line, linewidth=1.2, label=row.model)
            axes.axhspan(row.mean - error, row.mean + error, color=how.color, alpha=0.14, linewidth=0)
        names = {m: count_of(written or {}, item[0], m) for m in sorted(there["m"].dropna().unique())}
        figures.curves(axes, there[there["p"] == p], "m", lambda row: f"m = {names[row.m]}", 0.22)
        look.tick_counts(axes, list(names), names)
        if score == "annotation_agreement":
            axes.axhline(p, color=look.GREY, linestyle="-.", linewidth=1.2, label="accuracy p")
        if published is not None:
            theirs = published[(published["dataset"] == item[0]) & (published["p"] == p)]
            _crosses(axes, theirs[theirs["model"].isin(groups[item[1]]) & (theirs["score"] == score)])

    cross = Line2D([], [], color=look.GREY, marker="x", linestyle="", markeredgewidth=1.5, label="published")
    figure = figures.facets(
        list(panels),
        supervised["p"],
        panel,
        PANEL,
        lambda item: f"{look.short(*item)}\n{up or LABELS[score].axis}",
        also=() if published is None else (cross,),
    )
    # the divergence is one of Gaussians of the shape: those of other shapes may have another order
    if figure is not None and score != "goldberger_kl" and len(groups) > 1:
        first = [axes for axes in figure.axes if axes.get_ylabel()]
        for start in range(0, len(first), len(groups)):
            figures.same_heights(first[start : start + len(groups)])
    return figure


def _crosses(axes: Axes, published: pd.DataFrame) -> None:
    for model, points in published[~published["model"].isin(BASELINES)].groupby("model", sort=True):
        m, values = points["m"].to_numpy(dtype=float), points["published"].to_numpy(dtype=float)
        axes.plot(m, values, "x", color=look.PAPER, markersize=7.5, markeredgewidth=3.2)
        axes.plot(m, values, "x", color=look.mark(str(model)).color, markersize=6, markeredgewidth=1.5)


def index_figures(content: Content) -> Iterator[figures.Drawn]:
    """Share of cells with the centroid index 0."""
    table = share_table(content.cells)
    text = INDEX_CAPTION.format(units=elements.units(table.loc[table["p"].notna(), "unit"]))
    figure = draw_curves(table, INDEX, written=content.written, up="cells with index 0 (share)")
    for axes in figure.axes if figure is not None else ():
        axes.set_ylim(-0.04, 1.04)
    yield "centroid-index", figure, text


def share_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Share of cells with the centroid index 0, as `pipeline.scoring.tables.summary_table` has means.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`; cells without an index do not count.
    """
    zero = (cells[INDEX] == 0).astype(float).where(cells[INDEX].notna())
    others = [score for score in SCORES if score != INDEX and score in cells]
    return summary_table(cells.drop(columns=others).assign(**{INDEX: zero}))


def index_tables(content: Content) -> Iterator[Table]:
    """Shares of each index, by data set and model; none without any."""
    known = content.cells[content.cells[INDEX].notna()]
    rows = []
    for names, found in known.groupby(["dataset", "model"], sort=False):
        shares = found[INDEX].clip(upper=MOST_INDEX).value_counts(normalize=True)
        numbers = (number(100 * shares.get(index, 0.0), ".0f") for index in range(MOST_INDEX + 1))
        rows.append((*map(words, names), number(len(found)), *numbers))
    if rows:
        heads = (*(f"{index}, %" for index in range(MOST_INDEX)), f"{MOST_INDEX} or more, %")
        note = "Share of cells by centroid index, over all p, m and draws."
        heads = ("data set", "model", "cells", *heads)
        yield Table("Centroid index", heads, tuple(rows), note=note, pinned=True, folded=True)


def relative_figures(content: Content) -> Iterator[figures.Drawn]:
    """Relative NMI, a figure for each accuracy."""
    for p in content.accuracies:
        text = f"p = {p:g}: NMI above the model without annotations on the same data, of each cell. {BOXES}"
        yield f"relative-nmi-p{p:.9g}", draw_boxes(content.cells, p, content.written), text


def draw_boxes(cells: pd.DataFrame, p: float, written: Written) -> Figure | None:
    """Draw relative NMI of one accuracy: a panel per data set, a box per number of annotations and model.

    Boxes are quartiles, whiskers reach to the last value within 1.5 of their height, points lie beyond; of
    fewer than `FEW` cells each is a point.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    p : float
        The accuracy.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.

    Returns
    -------
    Figure or None
        None if no cell has a relative NMI.
    """
    rows = cells[(cells["p"] == p) & cells["relative_nmi"].notna()]
    models = sorted(rows["model"].unique())
    times = max(1, math.ceil(len(models) / MOST_BOXES))
    size = (BOX_PANEL[0] * min(times, look.ACROSS), BOX_PANEL[1])
    shown = [(look.short(name), name) for name in spread(list(rows["dataset"].unique()), look.MOST_DATASETS)]

    def panel(axes: Axes, dataset: str) -> None:
        _boxes(axes, rows[rows["dataset"] == dataset], models, written)

    up = LABELS["relative_nmi"].axis
    return figures.wrapped(shown, panel, size, up, across=max(1, look.ACROSS // times))


def _boxes(axes: Axes, rows: pd.DataFrame, models: list[str], written: Written) -> None:
    counts = spread(sorted(rows["m"].unique()), MOST_COUNTS)
    names = [count_of(written, rows["dataset"].iloc[0], m) for m in counts]
    width = 0.7 / len(models)
    for position, model in enumerate(models):
        how = look.mark(model)
        one = rows[rows["model"] == model]
        values = [one.loc[one["m"] == m, "relative_nmi"].to_numpy() for m in counts]
        places = np.arange(len(counts)) + (position - (len(models) - 1) / 2) * width
        drawn = axes.boxplot(
            values, positions=places, widths=width * 0.85, whis=1.5, patch_artist=True, showfliers=False
        )
        for box in drawn["boxes"]:
            box.set(facecolor=how.area, edgecolor=how.color, hatch=how.hatch, alpha=0.75)
        for drawing in (*drawn["whiskers"], *drawn["caps"]):
            drawing.set(color=how.color)
        for median in drawn["medians"]:
            median.set(color=look.INK, linewidth=1.6)
        for place, found, name in zip(places, values, names, strict=True):
            low, high = np.quantile(found, [0.25, 0.75]) if len(found) else (0.0, 0.0)
            reach = 1.5 * (high - low)
            # all cells of a small box, those beyond the whiskers of a larger one
            outside = found[(found < low - reach) | (found > high + reach) | (len(found) < FEW)]
            if len(outside):
                (points,) = axes.plot([place] * len(outside), outside, linestyle="", color=how.color)
                points.set(zorder=3, marker=how.marker, markersize=3, markerfacecolor=look.PAPER)
                look.hover(points, [f"{model}, m = {name}: {value:.3f}" for value in outside])
        drawn["boxes"][0].set_label(model)
    axes.axhline(0, color=look.GREY, linewidth=1, linestyle="--")
    axes.set_xticks(np.arange(len(counts)), names)
    axes.set_xlim(-0.6, len(counts) - 0.4)
    axes.set_xlabel(look.COUNTS_LABEL)
    axes.grid(axis="y")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))


def choice_title(content: Content) -> str:
    """By what was asked for."""
    held_out = "held-out annotations"
    if not content.chooses:
        return held_out.capitalize()
    return f"Shapes chosen, {held_out}" if content.holds_out else "Shapes chosen"


def choice_words(content: Content) -> Iterator[str]:
    """How shapes were chosen, and what a prediction is worth."""
    if content.choices.empty and content.predictions.empty:
        yield "No cell that holds annotations out is done."
        return
    if len(content.choices):
        yield CHOSEN_RULE
    yield HELD_OUT
    if content.holds_out:
        yield COMPARED


def choice_tables(content: Content) -> Iterator[Table]:
    """Shapes that were chosen, by data set and each, and annotations predicted by all models."""
    dataset, model, cells = ("data set", "dataset", ""), ("model", "model", ""), ("cells", "n", ",.0f")
    m: Column = ("m", lambda row: elements.count(content.written, row.dataset, row.m), "")
    places = (dataset, ("p", "p", "g"), m, model)
    losses: tuple[Column, ...] = (
        (TOO_FEW, "too_few", ",.0f"),
        ("predicted, %", lambda row: 100 * row.predicted, ".1f"),
        ("log loss, nats", "log_loss", ".3f"),
    )
    chosen = content.choices
    if len(chosen):
        counts = (cells, *((shape, shape, ",.0f") for shape in CANDIDATES), *losses)
        # means over the cells that held annotations out
        held, means = chosen["n"] - chosen["too_few"], ["predicted", "log_loss"]
        sums = chosen.assign(**chosen[means].fillna(0.0).mul(held, axis="index"), held=held)
        summed = ["n", *CANDIDATES, "too_few", "held", *means]
        whole = sums.groupby(["dataset", "model"], sort=False)[summed].sum()
        whole[means] = whole[means].div(whole["held"], axis="index")
        title = "Shapes chosen, by data set"
        yield elements.table(title, whole.reset_index(), (dataset, model, *counts), note=CHOSEN)
        yield elements.table("Shapes chosen", chosen, (*places, *counts))
    if len(content.predictions):
        title = "Held-out annotations predicted"
        yield elements.table(title, content.predictions, (*places, cells, *losses), note=PREDICTED)


def choice_figures(content: Content) -> Iterator[figures.Drawn]:
    """Shapes that were chosen, a figure for each accuracy."""
    for p in content.accuracies:
        text = f"p = {p:g}: share of the cells that chose each shape of covariances."
        rows = content.choices[content.choices["p"] == p]
        yield f"choices-p{p:.9g}", draw_choices(rows, content.written), text


def draw_choices(table: pd.DataFrame, written: Written) -> Figure | None:
    """Draw how often each shape was chosen: a panel per data set and model, a bar per number of annotations.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of one accuracy, from `pipeline.scoring.tables.choice_table`.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.

    Returns
    -------
    Figure or None
        None without any row.
    """
    models = sorted(table["model"].unique())
    names = spread(list(table["dataset"].unique()), look.MOST_DATASETS)

    def panel(axes: Axes, item: tuple[str, str]) -> None:
        rows = table[(table["dataset"] == item[0]) & (table["model"] == item[1])].sort_values("m")
        rows = rows[rows["m"].isin(spread(rows["m"].tolist(), MOST_COUNTS))]
        places, below = np.arange(len(rows)), np.zeros(len(rows))
        first, *others = CANDIDATES
        # cells that could not choose have the simplest shape, and a part of their own
        parts = {UNABLE: rows["too_few"], first: rows[first] - rows["too_few"], **rows[others]}
        for label, counts in parts.items():
            hatch = "" if label == UNABLE else look.SHAPES[label].hatch
            area = look.PAPER if hatch or label == UNABLE else look.GREY
            share = (counts / rows["n"]).to_numpy(dtype=float)
            for bar in axes.bar(places, share, 0.7, below, color=area, edgecolor=look.GREY, label=label):
                bar.set(linewidth=1.2, hatch=hatch)
            below += share
        axes.set_xticks(places, [count_of(written, item[0], m) for m in rows["m"]])
        axes.set_xlim(-0.6, len(rows) - 0.4)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(look.COUNTS_LABEL)
        axes.set_yticks([0, 0.5, 1])

    shown = [(look.short(*item), item) for item in product(names, models)]
    return figures.wrapped(shown, panel, CHOICE_PANEL, "cells (share)", across=min(3, len(models)))
