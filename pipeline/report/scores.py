"""Scores on the page: tables, curves over the number of annotations, centroid index, relative NMI.

Beside them stands what held-out annotations say: shapes of covariances that cells chose, and how well models
predict.

`read_published` reads published values, which stand beside those of a cube: `compare` sets means beside its
means with a verdict for each, and scores of labels enter the ranks.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
from matplotlib import cbook
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from pydantic import model_validator

from sweep_clustering.pipeline import looks
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import elements, figures, winners
from sweep_clustering.pipeline.report.elements import FORM, WORDS, Content, Part, Table, Value, number, words
from sweep_clustering.pipeline.scoring import tables
from sweep_clustering.pipeline.scoring.ranking import MOST_PUBLISHED, RANKED
from sweep_clustering.pipeline.scoring.scores import LABELS, QUALITIES, SCORES
from sweep_clustering.sweeps.data.lines import read_lines, read_typed, split_cells
from sweep_clustering.sweeps.file.spec import base_name
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.records import Choice, Real, Record, Text, Whole, refusal
from sweep_clustering.sweeps.shapes import CANDIDATES
from sweep_clustering.sweeps.words import BASELINES, MODEL_CODES, baseline_of, is_model

# Form of the published scores.
PAPER_FORM = ".4f"
# File with every mean.
SUMMARY = "summary.csv"
# Columns of models that fit a page.
MOST_MODELS = 9
PAPER_SCORES = (*RANKED, "goldberger_kl")

# Widths and heights in inches of panels for curves, boxes, and shapes that were chosen.
PANEL = (1.95, 1.5)
BOX_PANEL = (2.3, 1.8)
CHOICE_PANEL = (2.3, 1.6)

INDEX = "centroid_index"
AGREEMENT = "annotation_agreement"
# Indices with a column each. The column of the last one holds larger ones, too.
MOST_INDEX = 3

# Cells of a box below which each of them is a point as well.
SMALL_BOX = 10
# Numbers of annotations in a panel of boxes.
MOST_COUNTS = 8
# Models in a panel of the usual width. A panel of more models is wider.
MOST_BOXES = 6
# Rows of the summary by score, data set, p and m if they have any, and model.
Rows = Mapping[tuple[Any, ...], Any]
# Notes in place of a standard error.
ONE_DRAW = "One draw of the annotations, which has no standard error."
ONE_MIXTURE = "One mixture at each K, which has no standard error: a mean over its redraws."
OBJECTIVES_OF_METHODS = (
    "The objective of a model is in nats, that of a method is its own (of k-means minus the inertia)."
)
# Part of a bar for cells that had no choice, apart from those that chose the simplest shape.
UNABLE = "too few annotations"


def means(content: Content) -> Iterator[Part]:
    """Yield every table of scores: mixtures as in the paper, real data sets with a row per p and m."""
    n_missing = int(content.summary["n_missing"].sum())
    gap_text = "No score of a cell that is done is missing."
    if n_missing:
        cells = plural(n_missing, "score")
        gap_text = WORDS["scores"]["missing"].format(cells=cells, are=elements.are(n_missing))
    yield f"Objectives compare within one model on one data set only. {gap_text}"
    # models and methods without annotations have neither p nor m
    rows = {
        (row.score, row.dataset, *(() if pd.isna(row.p) else (row.p, row.m)), row.model): row
        for row in content.summary.itertuples()
    }
    score_names = set(content.summary["score"])
    for score in [score for score in QUALITIES if score in score_names] or [AGREEMENT]:
        if score in RANKED:
            yield from _pooled(content, score)
        yield from _real(content, rows, score)
        yield from _mixtures(content, rows, score)
    yield from _baselines(content, rows)


def _pages(models: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the models of each table, as many as fit a page, after the words that tell the tables apart."""
    n = max(1, math.ceil(len(models) / MOST_MODELS))
    for k in range(n):
        part = models[len(models) * k // n : len(models) * (k + 1) // n]
        yield f", {part[0]} to {part[-1]}" if n > 1 else "", part


def _pooled(content: Content, score: str) -> Iterator[Table]:
    """Yield rows p and m and columns models, over the real data sets; nothing if no mean is over several."""
    real = [name for name, plan in content.manifest.plans.items() if plan.mixtures is None]
    rows = content.summary[content.summary["dataset"].isin(real)]
    means = tables.pooled_means(rows, content.m_texts, score)
    if not (means["n_datasets"] > 1).any():
        return
    entries = {
        (row.p, row.m, row.model): Value(f"{row.mean:{FORM}} ({row.n_datasets})", row.mean)
        for row in means.itertuples()
    }
    groups = rows[rows["p"].isna() & (rows["score"] == score)].dropna(subset="mean").groupby("model")["mean"]
    baselines = [f"{model}: {values.mean():{FORM}} ({len(values)})" for model, values in groups]
    title = f"{LABELS[score].short}: mean over real data sets"
    note = f"In brackets: data sets. {'; '.join(baselines)}"
    for model_range, part in _pages(sorted({model for *_, model in entries})):
        body = tuple(
            (number(p, "g"), words(m), *(entries.get((p, m, model), elements.DASH) for model in part))
            for p, m in dict.fromkeys(key[:2] for key in entries)
        )
        yield Table(f"{title}{model_range}", ("p", "m", *part), body, note=note, n_lead=2)


def _real(content: Content, rows: Rows, score: str) -> Iterator[Table]:
    """Yield rows data set, p and m and columns models for real data sets."""
    real = [plan for plan in content.manifest.plans.values() if plan.mixtures is None and plan.supervised]
    if not real:
        return
    low, high = (pick(plan.replicates for plan in real) for pick in (min, max))
    redraws = f"{low} to {high} redraws" if low < high else plural(high, "redraw")
    note = f"Mean ± standard error over {redraws} of the annotations." if high > 1 else ONE_DRAW
    places = [
        ((words(plan.name), number(p, "g"), elements.count(content.m_texts, plan.name, m)), (plan, p, m))
        for plan in real
        for p, m in product(sorted(plan.p), sorted(plan.m))
    ]
    is_folded = score not in RANKED
    for model_range, part in _pages(_models(rows, score, real)):
        title, heads = f"{LABELS[score].short}: real data sets{model_range}", ("data set", "p", "m", *part)
        body = tuple(
            (*lead, *(_entry(rows, score, *place, model) for model in part)) for lead, place in places
        )
        yield Table(title, heads, body, note=note, n_lead=3, folded=is_folded, full_file=SUMMARY)


def _mixtures(content: Content, rows: Rows, score: str) -> Iterator[Table]:
    """Yield rows m and columns K × model for mixtures that differ in K alone.

    M = 0 is the baseline of a shape.
    """

    def entry(p: float, m: int, model: str, plan: DatasetPlan) -> Value:
        return _entry(rows, score, plan, p, m, model if m else baseline_of(model), PAPER_FORM)

    families: dict[str, list[DatasetPlan]] = {}
    for plan in content.manifest.plans.values():
        if plan.mixtures is not None and plan.supervised:
            families.setdefault(base_name(plan.name, plan.n_clusters), []).append(plan)
    for name, family in families.items():
        family.sort(key=lambda plan: plan.n_clusters)
        sizes = ", ".join(f"{plan.mixtures} at K = {plan.n_clusters}" for plan in family)
        is_single = max(plan.mixtures or 0 for plan in family) == 1
        means = f"Mean ± standard error over mixtures ({sizes}), each of them a mean over its redraws first."
        note = f"{ONE_MIXTURE if is_single else means} m = 0 is the model without annotations."
        counts = {
            m: elements.count_text(content.m_texts, plan.name, m) for plan in family[::-1] for m in plan.m
        }
        models = sorted({model for plan in family for model in plan.models})
        accuracies = sorted({p for plan in family for p in plan.p})
        for p, (model_range, part) in product(accuracies, _pages(models)):
            title = f"{LABELS[score].short}: {name}, p = {p:g}{model_range}"
            keys = [(model, plan) for plan in family for model in part if model in plan.models]
            spans = Counter(f"K = {plan.n_clusters}" for _, plan in keys)
            heads, groups = ("m", *(model for model, _ in keys)), (("", 1), *spans.items())
            body = tuple(
                (Value(text, m), *(entry(p, m, *key) for key in keys))
                for m, text in sorted({0: "0", **counts}.items())
            )
            yield Table(title, heads, body, (groups,), note, n_lead=1, folded=score not in RANKED)


def _baselines(content: Content, rows: Rows) -> Iterator[Table]:
    """Yield rows data set and model and columns scores, without annotations."""
    keys = [key for key in rows if len(key) == len(("score", "data set", "model"))]
    scores = [score for score in (*PAPER_SCORES, INDEX, "objective") if any(key[0] == score for key in keys)]
    plans = [plan for plan in content.manifest.plans.values() if plan.baselines]
    table = tuple(
        (words(plan.name), words(model), *(_entry(rows, score, plan, 0, 0, model) for score in scores))
        for plan, model in product(plans, sorted({model for *_, model in keys}))
    )
    if table:
        heads = ("data set", "model", *(LABELS[score].short for score in scores))
        single_cell = "Nothing draws a real data set again: one cell, no error."
        note = f"Mean ± standard error over mixtures. {single_cell}"
        if "objective" in scores and not all(is_model(model) for *_, model in keys):
            note += f" {OBJECTIVES_OF_METHODS}"
        yield Table("Without annotations", heads, table, note=note, n_lead=2, full_file=SUMMARY)


def _entry(
    rows: Rows, score: str, plan: DatasetPlan, p: float, m: int, model: str, form: str = FORM
) -> Value:
    row = rows.get((score, plan.name, p, m, model), rows.get((score, plan.name, model)))
    return elements.DASH if row is None else elements.mean_and_error(row.mean, row.se, form)


def _models(rows: Rows, score: str, plans: Iterable[DatasetPlan]) -> list[str]:
    """Return the models that have a value of the score, baselines first."""
    names = {plan.name for plan in plans}
    lengths = {key[-1]: len(key) for key in rows if key[0] == score and key[1] in names}
    return sorted(lengths, key=lambda model: (lengths[model], model))


def curves(content: Content) -> Iterator[Part]:
    """Yield NMI, ARI and KL divergence, with published means if there are any."""
    texts, summary = WORDS["curves"], content.summary
    names, n = content.cells["dataset"].unique(), content.cells["p"].nunique()
    if len(examples := elements.panel_datasets(names)) < len(names):
        yield texts["many"].format(n=len(names), shown=len(examples))
    if n > elements.MOST_ACCURACIES:
        yield (
            f"Figures show {elements.MOST_ACCURACIES} of {n} accuracies; summary.csv and cells.csv hold all."
        )
    text = texts["over"].format(over=band_words(summary))
    if summary["p"].isna().any():
        text += f" {texts['baseline']}"
    for score, name in (("nmi", "nmi"), ("adjusted_rand", "ari"), ("goldberger_kl", "kl")):
        figure = draw_curves(summary, score, content.comparison, content.m_texts)
        yield name, figure, f"{LABELS[score].short}: {text}"


def agreement(content: Content) -> Iterator[Part]:
    """Yield the share of the annotations that a solution takes for correct."""
    figure = draw_curves(content.summary, AGREEMENT, m_texts=content.m_texts)
    yield "agreement", figure, WORDS["curves"]["agreement"].format(over=band_words(content.summary))


def band_words(means: pd.DataFrame) -> str:
    """Say what the lines and bands are over; there is no band if every line is of one draw."""
    means = means[means["p"].notna()]
    if means["se"].isna().all():
        return "one draw, which has no standard error"
    return f"mean over {elements.units(means['unit'])}, with a band or a bar of one standard error"


def draw_curves(
    summary: pd.DataFrame,
    score: str,
    published: pd.DataFrame | None = None,
    m_texts: elements.MTexts | None = None,
    y_label: str = "",
) -> Figure | None:
    """Draw the mean of a score with its standard error.

    Parameters
    ----------
    summary : pandas.DataFrame
        Table of `pipeline.scoring.tables.summary_table`.
    score : str
        A score of `pipeline.scoring.scores.SCORES`. Correct annotations get the accuracy as a line.
    published : pandas.DataFrame, optional
        Table of `pipeline.report.scores.compare`, drawn as crosses.
    m_texts : mapping, optional
        Each m as the sweep file writes it, from `pipeline.scoring.tables.written_counts`.
    y_label : str, optional
        Label of the y axes, if it is not that of the score.

    Returns
    -------
    Figure or None
        A row of panels per data set, a column per accuracy; None if no supervised cell has the score.
    """
    rows = summary[(summary["score"] == score) & (summary["n"] > 0)]
    supervised, m_texts = rows[rows["p"].notna()], m_texts or {}
    panels = elements.by_dataset(rows, supervised["dataset"])
    if len(panels) < supervised["dataset"].nunique():
        mean_rows, texts = _means_over_datasets(rows, m_texts)
        panels, m_texts = elements.by_dataset(mean_rows, mean_rows["dataset"]) | panels, {**m_texts, **texts}
    crosses = pd.DataFrame()
    if published is not None:  # published baselines are those of a line
        crosses = published[(published["score"] == score) & ~published["model"].isin(BASELINES)]

    def panel(axes: Axes, name: str, p: float) -> None:
        panel_rows = panels[name]
        for row in panel_rows[panel_rows["p"].isna()].itertuples():
            look, error = looks.mark(str(row.model)), 0.0 if pd.isna(row.se) else row.se
            axes.axhline(row.mean, color=look.color, linestyle=look.line, linewidth=1.2, label=row.model)
            axes.axhspan(row.mean - error, row.mean + error, color=look.color, alpha=0.14, linewidth=0)
        names = {m: elements.count_text(m_texts, name, m) for m in sorted(panel_rows["m"].dropna().unique())}
        supervised_rows = panel_rows[panel_rows["p"] == p]
        figures.curves(axes, supervised_rows, "m", lambda row: f"m = {names[row.m]}", 0.22)
        figures.tick_counts(axes, list(names), names)
        if score == AGREEMENT:
            axes.axhline(p, color=looks.GREY, linestyle="-.", linewidth=1.2, label="accuracy p")
        if len(crosses):
            panel_crosses = crosses[(crosses["dataset"] == name) & (crosses["p"] == p)]
            panel_crosses = panel_crosses[panel_crosses["model"].isin(panel_rows["model"])]
            for model, points in panel_crosses.groupby("model", sort=True):
                x, y = points["m"].to_numpy(dtype=float), points["published"].to_numpy(dtype=float)
                axes.plot(x, y, "x", color=looks.PAPER, markersize=7.5, markeredgewidth=3.2)
                axes.plot(x, y, "x", color=looks.mark(str(model)).color, markersize=6, markeredgewidth=1.5)

    cross = Line2D([], [], color=looks.GREY, marker="x", linestyle="", markeredgewidth=1.5, label="published")
    return figures.facets(
        list(panels),
        supervised["p"],
        panel,
        PANEL,
        lambda name: f"{figures.short(name)}\n{y_label or LABELS[score].axis}",
        entries=() if published is None else (cross,),
    )


def _means_over_datasets(
    rows: pd.DataFrame, m_texts: elements.MTexts
) -> tuple[pd.DataFrame, dict[tuple[str, Any], str]]:
    """Return means over data sets along m / N, where equal texts are one m, and the texts of these m."""
    rows = rows.assign(text=tables.written_m(rows, m_texts))
    ratios = rows.groupby("text")["m_over_n"].mean().astype(float).round(3)
    mean_rows = tables.over_datasets(rows, ["p", "text", "model"]).reset_index()
    name = f"mean of {plural(rows['dataset'].nunique(), 'data set')}"
    mean_rows = mean_rows.assign(dataset=name, m=mean_rows["text"].map(ratios), score=rows["score"].iloc[0])
    return mean_rows, {(name, ratio): str(text) for text, ratio in ratios.items() if text}


def index(content: Content) -> Iterator[Part]:
    """Yield the share of cells with each centroid index, by data set and model, and with the index 0."""
    cells = content.cells[content.cells[INDEX].notna()]
    if len(cells):
        indices = cells[INDEX].clip(upper=MOST_INDEX)
        is_index = pd.DataFrame({f"index_{index}": indices == index for index in range(MOST_INDEX + 1)})
        groups = is_index.groupby([cells["dataset"], cells["model"]], sort=False)
        table = (100 * groups.mean()).assign(cells=groups.size()).reset_index()
        yield elements.declared_table("index", table)
    shares = share_table(content.cells)
    lowest = shares[shares["score"] == INDEX].groupby("dataset", sort=False)["mean"].min()
    perfect_names = list(lowest.index[lowest == 1])
    if perfect_names:
        yield WORDS["index"]["found"].format(names=elements.enumeration(perfect_names))
    other_shares = shares[~shares["dataset"].isin(perfect_names)]
    figure = draw_curves(other_shares, INDEX, m_texts=content.m_texts, y_label="cells with index 0 (share)")
    for axes in figure.axes if figure is not None else ():
        axes.set_ylim(-0.04, 1.04)
    yield "centroid-index", figure, WORDS["index"]["share"].format(over=band_words(shares))


def share_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the share of cells with the centroid index 0, in the form of `tables.summary_table`.

    Cells without an index do not count.
    """
    is_zero = (cells[INDEX] == 0).astype(float).where(cells[INDEX].notna())
    other_scores = [score for score in SCORES if score != INDEX and score in cells]
    return tables.summary_table(cells.drop(columns=other_scores).assign(**{INDEX: is_zero}))


def relative(content: Content) -> Iterator[Part]:
    """Yield relative NMI, with a figure for each accuracy."""
    for p in content.accuracies:
        text = WORDS["relative"]["boxes"].format(p=p, few=SMALL_BOX, least=figures.LEAST_BOX)
        yield f"relative-nmi-p{p:.9g}", draw_boxes(content.cells, p, content.m_texts), text


def draw_boxes(cells: pd.DataFrame, p: float, m_texts: elements.MTexts) -> Figure | None:
    """Draw relative NMI at one accuracy: a panel per data set, a box per number of annotations and model.

    Boxes are quartiles, whiskers reach to the last value within 1.5 of their height, points lie beyond. If a
    box is of fewer than `SMALL_BOX` cells, each of them is a point. Fewer than `figures.LEAST_BOX` cells have
    no box.
    """
    rows = cells[(cells["p"] == p) & cells["relative_nmi"].notna()]
    models = sorted(rows["model"].unique())
    widening = max(1, math.ceil(len(models) / MOST_BOXES))
    size = (min(BOX_PANEL[0] * widening, figures.WIDTH.get() - figures.LABEL_WIDTH), BOX_PANEL[1])
    panels = [(figures.short(name), name) for name in elements.panel_datasets(rows["dataset"])]

    def panel(axes: Axes, dataset: str) -> None:
        panel_rows = rows[rows["dataset"] == dataset]
        counts = elements.subset(sorted(panel_rows["m"].unique()), MOST_COUNTS)
        names = [elements.count_text(m_texts, dataset, m) for m in counts]
        width = 0.7 / len(models)
        for position, model in enumerate(models):
            model_rows = panel_rows[panel_rows["model"] == model]
            values = [model_rows.loc[model_rows["m"] == m, "relative_nmi"].to_numpy() for m in counts]
            places = np.arange(len(counts)) + (position - (len(models) - 1) / 2) * width
            _boxes(axes, values, places, width * 0.85, model, names)
        axes.axhline(0, color=looks.GREY, linewidth=1, linestyle="--")
        _count_axis(axes, names)
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))

    return figures.panel_grid(panels, panel, size, LABELS["relative_nmi"].axis)


def _boxes(
    axes: Axes, values: Sequence[Any], places: Any, width: float, model: str, names: Sequence[str]
) -> None:
    """Draw the boxes of a model, one for each number of annotations, and the points outside of them."""
    look = looks.mark(model)
    boxes = axes.boxplot(
        [cells if len(cells) >= figures.LEAST_BOX else [] for cells in values],
        positions=places,
        widths=width,
        whiskerprops={"color": look.color},
        capprops={"color": look.color},
    )["boxes"]
    for box in boxes:
        box.set(facecolor=look.area, edgecolor=look.color, hatch=look.hatch, alpha=0.75)
    for place, cells, name in zip(places, values, names, strict=True):
        # all cells of a small box, or of none, and those beyond the whiskers of a larger one
        point_values = cells if len(cells) < SMALL_BOX else cbook.boxplot_stats(cells)[0]["fliers"]
        if len(point_values):
            (points,) = axes.plot([place] * len(point_values), point_values, linestyle="", color=look.color)
            points.set(zorder=3, marker=look.marker, markersize=3, markerfacecolor=looks.PAPER)
            figures.hover(points, [f"{model}, m = {name}: {value:.3f}" for value in point_values])
    boxes[0].set_label(model)


def _count_axis(axes: Axes, names: list[str]) -> None:
    """Give the x axis places of numbers of annotations, with 0.6 beyond the first and the last of them."""
    axes.set_xticks(range(len(names)), names)
    axes.set(xlim=(-0.6, len(names) - 0.4), xlabel=figures.COUNTS_LABEL)


def choices(content: Content) -> Iterator[Part]:
    """Yield how shapes were chosen and what a prediction is worth, with tables and figures of both."""
    if not (content.chooses or content.holds_out):
        return
    shapes, predictions, texts = content.choices, content.predictions, WORDS["choices"]
    structures = tables.structure_table(content.cells)
    if shapes.empty and predictions.empty and structures.empty:
        yield "No cell that holds annotations out is done."
    else:
        if len(shapes):
            yield elements.Reading(texts["rule"])
        yield elements.Reading(texts["held_out"])
        if content.holds_out:
            yield elements.Reading(texts["compared"])
    if len(shapes):
        totals = tables.choice_table(content.cells, ("dataset", "model"))
        yield elements.declared_table("chosen_whole", totals.assign(predicted=100 * totals["predicted"]))
        yield elements.declared_table("chosen", with_counts(shapes, content.m_texts))
    if len(structures):
        yield texts["structures"]
        table = with_counts(structures, content.m_texts)
        yield elements.declared_table("structures", table.assign(share=100 * table["share"]))
    if len(predictions):
        yield elements.declared_table("predicted", with_counts(predictions, content.m_texts))
    for p in content.accuracies:
        text = f"p = {p:g}: share of the cells that chose each shape of covariances."
        yield f"choices-p{p:.9g}", draw_choices(shapes[shapes["p"] == p], content.m_texts), text


def with_counts(table: pd.DataFrame, m_texts: elements.MTexts) -> pd.DataFrame:
    """Return a table of predictions with m as the sweep file has it, and shares in per cent."""
    m = [elements.count(m_texts, name, m) for name, m in zip(table["dataset"], table["m"], strict=True)]
    return table.assign(m=m, predicted=100 * table["predicted"])


def draw_choices(table: pd.DataFrame, m_texts: elements.MTexts) -> Figure | None:
    """Draw how often each shape was chosen at one accuracy, from rows of `tables.choice_table`.

    There is a panel per data set and model, with a bar per number of annotations.
    """
    models = sorted(table["model"].unique())
    names = elements.panel_datasets(table["dataset"])

    def panel(axes: Axes, item: tuple[str, str]) -> None:
        rows = table[(table["dataset"] == item[0]) & (table["model"] == item[1])].sort_values("m")
        rows = rows[rows["m"].isin(elements.subset(rows["m"].tolist(), MOST_COUNTS))]
        places, heights = np.arange(len(rows)), np.zeros(len(rows))
        first, *other_shapes = CANDIDATES
        # cells that could not choose have the simplest shape, and a part of their own
        parts = {UNABLE: rows["too_few"], first: rows[first] - rows["too_few"], **rows[other_shapes]}
        for label, counts in parts.items():
            hatch = "" if label == UNABLE else looks.SHAPES[label].hatch
            share = (counts / rows["n"]).to_numpy(dtype=float)
            color = looks.PAPER if hatch or label == UNABLE else looks.GREY
            edge: dict[str, Any] = {"edgecolor": looks.GREY, "linewidth": 1.2, "hatch": hatch}
            axes.bar(places, share, 0.7, heights, label=label, color=color, **edge)
            heights += share
        _count_axis(axes, [elements.count_text(m_texts, item[0], m) for m in rows["m"]])
        axes.set(ylim=(0, 1.02), yticks=[0, 0.5, 1])

    panels = [(f"{figures.short(name)}, {model}", (name, model)) for name, model in product(names, models)]
    return figures.panel_grid(panels, panel, CHOICE_PANEL, "cells (share)", group=len(models))


# Scores of the cube by their names in a table of published values.
METRICS = {"nmi": "nmi", "kl": "goldberger_kl"}
# Digits of a value that is not printed as a decimal.
EXACT = 15

# Values of z up to which a mean agrees.
Z_LIMIT = 2.0
# The same in standard errors of the cube's mean, because the published mean is taken to have an equal error.
LIMIT = Z_LIMIT * math.sqrt(2)
VERDICT_WITHIN = "within"
VERDICT_ABOVE = "above"
VERDICT_BELOW = "below"
NO_ERROR = "no standard error"
NOT_DONE = "not done"
NOT_IN_CUBE = "not in this cube"
JUDGED = (VERDICT_WITHIN, VERDICT_ABOVE, VERDICT_BELOW)
KINDS = {VERDICT_WITHIN: "good", VERDICT_ABOVE: "bad", VERDICT_BELOW: "bad"}

# Width and height of a panel in inches.
VERDICT_PANEL = (3.0, 2.3)
# The axis is linear up to this z. If an error is tiny, z may be anything.
LINEAR = 4.0
TICKS = (-1000, -100, -30, -10, -6, -4, -2, 0, 2, 4, 6, 10, 30, 100, 1000)
# Distance between the models at one number of annotations, as a share of the step to the next.
MODEL_DISTANCE = 0.36


class PublishedMean(Record):
    """A line of a table of published values, with a column for each key."""

    p: Annotated[float, Real("a number from 0 to 1", ge=0, le=1)]
    n_clusters: Annotated[int, Whole(1)]
    m: Annotated[int, Whole(0)]
    model: Annotated[str, Choice(tuple(MODEL_CODES))]
    metric: Annotated[str, Choice(tuple(METRICS))]
    value: Annotated[float, Real("a number, 0 or more", ge=0)]

    @model_validator(mode="after")
    def _check_m(self) -> Self:
        if (self.m == 0) != (self.model in BASELINES):
            expected = "m = 0 for a model without annotations, and for no other"
            raise refusal(expected, value=f"m = {self.m} for {self.model}")
        return self

    def place(self) -> tuple[float | str, ...]:
        """Return what it is the mean of: p, K, m, model and score."""
        return round(self.p, 9), self.n_clusters, self.m, self.model, METRICS[self.metric]


class PublishedScore(Record):
    """A line of a table of scores of published labels, on data sets of the benchmark suite."""

    battery: Annotated[str, Text("the battery of a data set", min_length=1)]
    dataset: Annotated[str, Text("the name of a data set in its battery", min_length=1)]
    method: Annotated[str, Text("a method, with its settings", min_length=1)]
    ari: Annotated[float, Real("a number from -1 to 1", ge=-1, le=1)]

    def place(self) -> tuple[str, ...]:
        """Return battery, data set and method."""
        return self.battery, self.dataset, self.method


# Columns of a published score.
SCORE_COLUMNS = ("battery", "name", "method", "ari")
# Columns of a published mean: `score` as the cube calls it, and the digits behind the point in print.
MEAN_COLUMNS = ("p", "n_clusters", "m", "model", "score", "published", "digits")
PLACE = ("of_p", "of_m")
COMPARED_COLUMNS = ("dataset", "n_clusters", "p", "m", "model", "score", "mean", "se", "n")


def read_published(path: Path) -> pd.DataFrame:
    """Read a CSV with the columns of `PublishedMean` or of `PublishedScore`, in any order, and perhaps more.

    The result has the columns `MEAN_COLUMNS` of means, where m is 0 for a model without annotations, or
    `SCORE_COLUMNS` of scores. An `InputError` has every line that is wrong.
    """
    lines = list(read_lines(path))
    names = split_cells(lines[0].text) if lines else []
    kinds: tuple[type[Record], ...] = (PublishedMean, PublishedScore)
    if max(kinds, key=lambda kind: len(kind.model_fields.keys() & set(names))) is PublishedScore:
        labels = read_typed(path, lines, PublishedScore, PublishedScore.place, "value")
        scores = [(*row.record.place(), row.record.ari) for row in labels]
        return pd.DataFrame(scores, columns=list(SCORE_COLUMNS))
    means = [
        (row.record.p, *row.record.place()[1:], row.record.value, _digits(row.cells["value"]))
        for row in read_typed(path, lines, PublishedMean, PublishedMean.place, "value")
    ]
    return pd.DataFrame(means, columns=list(MEAN_COLUMNS))


def _digits(text: str) -> int:
    return EXACT if "e" in text.lower() else len(text.partition(".")[2])


def compare(summary: pd.DataFrame, plans: Mapping[str, DatasetPlan], published: pd.DataFrame) -> pd.DataFrame:
    """Set published means beside those of the mixtures of a cube.

    Parameters
    ----------
    summary : pandas.DataFrame
        Table of `pipeline.scoring.tables.summary_table`.
    plans : mapping of str to DatasetPlan
        Grid of each data set.
    published : pandas.DataFrame
        Means of `read_published`.

    Returns
    -------
    pandas.DataFrame
        A row per value, and per set of mixtures of that K if there are several: `dataset`, `n_clusters`, `p`,
        `m`, `model`, `score`, `mean`, `se`, `n`, `published`, `difference` (cube minus published), `z`
        (difference by √2 standard errors, 0 where both print alike), `verdict`.
    """
    mixtures = [(plan.name, plan.n_clusters) for plan in plans.values() if plan.mixtures is not None]
    rows = published.merge(pd.DataFrame(mixtures, columns=["dataset", "n_clusters"]), "left", "n_clusters")
    means = _with_place(summary).drop(columns=["p", "m"])
    means = means[["dataset", "model", "score", *PLACE, "mean", "se", "n"]]
    keys = ["dataset", "model", "score", *PLACE]
    table = _with_place(rows.fillna({"dataset": ""})).merge(means, "left", keys, indicator=True)
    mean, se, value = table["mean"], table["se"], table["published"]
    difference = mean - value
    # a mean that equals the published value in its printed digits needs no error
    is_alike = value == [round(x, digits) for x, digits in zip(mean, table["digits"], strict=True)]
    verdicts = {
        NOT_IN_CUBE: table["_merge"] == "left_only",
        NOT_DONE: mean.isna(),
        VERDICT_WITHIN: is_alike | (difference.abs() <= LIMIT * se),
        NO_ERROR: se.isna(),
        VERDICT_ABOVE: difference > 0,
    }
    return table.assign(n=table["n"].fillna(0).astype(int))[[*COMPARED_COLUMNS, "published"]].assign(
        difference=difference,
        z=(difference / (math.sqrt(2) * se)).where(se > 0).mask(is_alike, 0.0),
        verdict=np.select(list(verdicts.values()), list(verdicts), VERDICT_BELOW),
    )


def _with_place(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with `PLACE`, in which a model without annotations has one value for all p and m."""
    is_alone = rows["model"].isin(BASELINES)
    columns = {f"of_{key}": rows[key].astype(float).round(9).mask(is_alone) for key in ("p", "m")}
    return rows.assign(**columns)


def summarise(comparison: pd.DataFrame) -> str:
    """Say in a sentence how many published values agree."""
    counts = comparison["verdict"].value_counts()
    n_near, n_high, n_low = (int(counts.get(word, 0)) for word in JUDGED)
    n_judged = n_near + n_high + n_low
    means = f"{plural(n_high, 'mean')} of this cube {'lies' if n_high == 1 else 'lie'} above, {n_low:,} below"
    text = (
        f"{n_near:,} of {plural(n_judged, 'published value')} {'lies' if n_near == 1 else 'lie'} within 2√2"
        f" standard errors of the mean in this cube ({means})"
        if n_judged
        else "No published value has a mean with a standard error in this cube to be judged by"
    )
    remainders = [f"{counts[word]} {word}" for word in (NO_ERROR, NOT_DONE, NOT_IN_CUBE) if word in counts]
    return f"{text}; of {len(comparison)} in the table {', '.join(remainders)}." if remainders else f"{text}."


def ranks_beside_labels(content: Content) -> Iterator[Part]:
    """Yield who ranks best among models and published labels, all of them by mean rank, and the diagram."""
    if (published := content.published) is None:
        return
    texts = WORDS["labels"]
    ranking, methods = published.ranking, published.methods
    n_ranked = int(methods["ranked"].sum())
    if not n_ranked or not ranking.datasets:
        yield texts["none"]
    else:
        yield from winners.findings([ranking])
        yield elements.Reading(texts["reading"].format(ranked=n_ranked, n=len(methods), most=MOST_PUBLISHED))
        yield elements.declared_table("ranked_beside", ranking.table())
        text = texts["diagram"].format(datasets=plural(len(ranking.datasets), "data set"))
        yield "ranks-published", winners.draw_ranks(ranking), text
    marks = ["yes" if is_ranked else "" for is_ranked in methods["ranked"]]
    yield elements.declared_table("labels", methods.assign(ranked=marks))


def published_comparison(content: Content) -> Iterator[Part]:
    """Yield how many values agree and how that is judged, verdicts by score, K and p, then every value."""
    if (table := content.comparison) is None:
        return
    texts = WORDS["against"]
    yield summarise(table)
    yield elements.Reading(texts["reading"])
    rows = []
    for (score, clusters, p), group in table.groupby(["score", "n_clusters", "p"]):
        counts, z = group["verdict"].value_counts(), group.loc[group["verdict"].isin(JUDGED), "z"]
        place = words(LABELS[str(score)].short), number(clusters), number(p, "g"), number(len(group))
        means = number(z.mean(), "+.2f"), number(np.sqrt((z**2).mean()), ".2f")
        rows.append((*place, *(number(counts.get(word, 0)) for word in JUDGED), *means))
    rows.sort(key=lambda row: tuple(str(value.order) for value in row[:3]))
    heads = ("score", "K", "p", "values", *JUDGED, "mean z", "root mean square z")
    yield Table("Verdicts", heads, tuple(rows))
    verdicts = [Value(verdict, verdict, KINDS.get(verdict, "")) for verdict in table["verdict"]]
    names, scores = table["dataset"].replace("", "-"), [LABELS[score].short for score in table["score"]]
    yield elements.declared_table("against", table.assign(dataset=names, score=scores, verdict=verdicts))
    yield "z", draw_verdicts(table), texts["points"]


def draw_verdicts(comparison: pd.DataFrame) -> Figure | None:
    """Draw every z of `compare` as the digit of its K: a row of panels per score, a column per accuracy."""
    rows = comparison[comparison["z"].notna()]
    models = list(rows["model"].unique())
    supervised = [model for model in models if model not in BASELINES]

    def panel(axes: Axes, score: str, p: float) -> None:
        panel_points = rows[(rows["score"] == score) & (rows["p"] == p)]
        axes.axhspan(-Z_LIMIT, Z_LIMIT, color=looks.GREY, alpha=0.14, linewidth=0)
        axes.axhline(0, color=looks.GREY, linewidth=1)
        step = min(np.diff(sorted(panel_points["m"].unique())), default=1)
        for (model, clusters), points in panel_points.groupby(["model", "n_clusters"], sort=True):
            place = supervised.index(str(model)) - (len(supervised) - 1) / 2 if model in supervised else 0
            shifted_m = points["m"].to_numpy(dtype=float) + place * MODEL_DISTANCE * step
            color, z = looks.mark(str(model)).color, points["z"]
            axes.plot(shifted_m, z, "o", markersize=9, markerfacecolor=looks.PAPER, markeredgecolor=color)
            for x, y in zip(shifted_m, z, strict=True):
                axes.text(x, y, str(clusters), color=color, fontsize=7.5, ha="center", va="center_baseline")
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        axes.tick_params(labelbottom=True, labelleft=True)

    def y_label(score: str) -> str:
        return f"{LABELS[score].short.partition(',')[0]}: z, this cube less published"

    entries = [
        Line2D([], [], color=looks.mark(model).color, label=model, marker="s", linestyle="")
        for model in models
    ]
    scores = list(rows["score"].unique())
    figure = figures.facets(scores, rows["p"], panel, VERDICT_PANEL, y_label, share="all", entries=entries)
    if figure is not None:
        first, limit = figure.axes[0], max(LINEAR, rows["z"].abs().max())
        first.set_yscale("symlog", linthresh=LINEAR)
        ticks = [z for z in TICKS if abs(z) <= limit]
        first.set_yticks(ticks, [f"{z:g}" for z in ticks])
        first.minorticks_off()
    return figure
