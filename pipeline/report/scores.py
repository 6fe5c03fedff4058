"""Scores on the page: tables, curves over the number of annotations, centroid index, relative NMI.

Beside them stands what held-out annotations say: shapes of covariances that cells chose, and how well models
predict.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import cbook
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sweep_clustering.pipeline import looks
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import elements, figures
from sweep_clustering.pipeline.report.content import Content, Part
from sweep_clustering.pipeline.report.elements import (
    NOTHING,
    WORDS,
    Reading,
    Table,
    Value,
    Written,
    enumeration,
    number,
    subset,
    words,
)
from sweep_clustering.pipeline.scoring.ranking import RANKED
from sweep_clustering.pipeline.scoring.scores import LABELS, QUALITIES, SCORES
from sweep_clustering.pipeline.scoring.tables import choice_table, over_datasets, pooled_means, summary_table
from sweep_clustering.sweeps.file.spec import base_name
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES
from sweep_clustering.sweeps.words import BASELINES, baseline_of, is_model

# Form of a score.
FORM = ".3f"
# Form of the published scores.
PAPER_FORM = ".4f"
# File with every mean.
WHOLE = "summary.csv"
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
FEW = 10
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
    missing = "No score of a cell that is done is missing."
    if n_missing:
        cells = plural(n_missing, "score")
        missing = WORDS["scores"]["missing"].format(cells=cells, are=elements.are(n_missing))
    yield f"Objectives compare within one model on one data set only. {missing}"
    # models and methods without annotations have neither p nor m
    rows = {
        (row.score, row.dataset, *(() if pd.isna(row.p) else (row.p, row.m)), row.model): row
        for row in content.summary.itertuples()
    }
    computed = set(content.summary["score"])
    for score in [score for score in QUALITIES if score in computed] or [AGREEMENT]:
        if score in RANKED:
            yield from _pooled(content, score)
        yield from _real(content, rows, score)
        if score in PAPER_SCORES:
            yield from _mixtures(content, rows, score)
    yield from _baselines(content, rows)


def _wide(
    title: str,
    heads: tuple[str, ...],
    places: Sequence[tuple[tuple[Value, ...], tuple[Any, ...]]],
    models: Sequence[str],
    entry: Callable[..., Value],
    family: Sequence[tuple[DatasetPlan, ...]] = ((),),
    **more: Any,
) -> Iterator[Table]:
    """Yield tables with a column for each model and each K of a family, as many side by side as fit a page.

    A place is a row: its first entries, and the arguments of `entry` before the model and the plan.
    """
    n = max(1, math.ceil(len(models) / MOST_MODELS))
    for k in range(n):
        part = models[len(models) * k // n : len(models) * (k + 1) // n]
        beside = f", {part[0]} to {part[-1]}" if n > 1 else ""
        keys: list[tuple[Any, ...]] = [
            (model, *plans)
            for plans in family
            for model in part
            if all(model in plan.models for plan in plans)
        ]
        sizes = Counter(f"K = {plan.n_clusters}" for _, *plans in keys for plan in plans)
        groups = ((("", len(heads)), *sizes.items()),) if sizes else ()
        rows = tuple((*lead, *(entry(*place, *key) for key in keys)) for lead, place in places)
        columns = (*heads, *(key[0] for key in keys))
        yield Table(f"{title}{beside}", columns, rows, groups, pinned=True, **more)


def pooled_entries(content: Content, score: str, form: str) -> dict[tuple[float, str, str], Value]:
    """Return means over several real data sets, with their number, by p, m in the sweep file, and model."""
    means = pooled_means(_real_rows(content), content.written, score)
    return {
        (row.p, row.m, row.model): Value(f"{row.mean:{form}} ({row.n_datasets})", row.mean)
        for row in means.itertuples()
        if means["n_datasets"].max() > 1
    }


def baseline_means(content: Content, score: str, form: str) -> list[str]:
    """Return the mean over the real data sets of each model without annotations, in words."""
    rows = _real_rows(content)
    rows = rows[rows["p"].isna() & (rows["score"] == score)].dropna(subset="mean")
    return [
        f"{model}: {values.mean():{form}} ({len(values)})" for model, values in rows.groupby("model")["mean"]
    ]


def _real_rows(content: Content) -> pd.DataFrame:
    real = [name for name, plan in content.manifest.plans.items() if plan.mixtures is None]
    return content.summary[content.summary["dataset"].isin(real)]


def _pooled(content: Content, score: str) -> Iterator[Table]:
    """Yield rows p and m and columns models, over the real data sets."""
    entries = pooled_entries(content, score, FORM)
    if entries:
        places = [((number(p, "g"), words(m)), (p, m)) for p, m in dict.fromkeys(key[:2] for key in entries)]
        title, models = (
            f"{LABELS[score].short}: mean over real data sets",
            sorted({key[2] for key in entries}),
        )
        note = f"In brackets: data sets. {'; '.join(baseline_means(content, score, FORM))}"
        yield from _wide(title, ("p", "m"), places, models, lambda *key: entries.get(key, NOTHING), note=note)


def _real(content: Content, rows: Rows, score: str) -> Iterator[Table]:
    """Yield rows data set, p and m and columns models for real data sets."""
    real = [plan for plan in content.manifest.plans.values() if plan.mixtures is None and plan.supervised]
    if not real:
        return
    least, most = (pick(plan.replicates for plan in real) for pick in (min, max))
    redraws = f"{least} to {most} redraws" if least < most else plural(most, "redraw")
    note = f"Mean ± standard error over {redraws} of the annotations." if most > 1 else ONE_DRAW
    places = [
        ((words(plan.name), number(p, "g"), elements.count(content.written, plan.name, m)), (plan, p, m))
        for plan in real
        for p, m in product(sorted(plan.p), sorted(plan.m))
    ]
    title, models = f"{LABELS[score].short}: real data sets", _models(rows, score, real)
    entry, heads = partial(_entry, rows, score), ("data set", "p", "m")
    yield from _wide(title, heads, places, models, entry, note=note, folded=score not in RANKED, whole=WHOLE)


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
            m: elements.count_text(content.written, plan.name, m) for plan in family[::-1] for m in plan.m
        }
        models = sorted({model for plan in family for model in plan.models})
        more: dict[str, Any] = {"note": note, "folded": score not in RANKED}
        for p in sorted({p for plan in family for p in plan.p}):
            places = [((Value(text, m),), (p, m)) for m, text in sorted({0: "0", **counts}.items())]
            title = f"{LABELS[score].short}: {name}, p = {p:g}"
            yield from _wide(title, ("m",), places, models, entry, [(plan,) for plan in family], **more)


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
        once = "Nothing draws a real data set again: one cell, no error."
        note = f"Mean ± standard error over mixtures. {once}"
        if "objective" in scores and not all(is_model(model) for *_, model in keys):
            note += f" {OBJECTIVES_OF_METHODS}"
        yield Table("Without annotations", heads, table, note=note, pinned=True, whole=WHOLE)


def _entry(
    rows: Rows, score: str, plan: DatasetPlan, p: float, m: int, model: str, form: str = FORM
) -> Value:
    row = rows.get((score, plan.name, p, m, model), rows.get((score, plan.name, model)))
    return NOTHING if row is None else elements.mean_and_error(row.mean, row.se, form)


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
    if n > figures.MOST_ACCURACIES:
        yield (
            f"Figures show {figures.MOST_ACCURACIES} of {n} accuracies; summary.csv and cells.csv hold all."
        )
    text = texts["over"].format(over=over(summary))
    if summary["p"].isna().any():
        text += f" {texts['baseline']}"
    for score, name in (("nmi", "nmi"), ("adjusted_rand", "ari"), ("goldberger_kl", "kl")):
        figure = draw_curves(summary, score, content.compared, content.written)
        yield name, figure, f"{LABELS[score].short}: {text}"


def agreement(content: Content) -> Iterator[Part]:
    """Yield the share of the annotations that a solution takes for correct."""
    figure = draw_curves(content.summary, AGREEMENT, written=content.written)
    yield "agreement", figure, WORDS["curves"]["agreement"].format(over=over(content.summary))


def over(means: pd.DataFrame) -> str:
    """Say what the lines and bands are over; there is no band if every line is of one draw."""
    means = means[means["p"].notna()]
    if means["se"].isna().all():
        return "one draw, which has no standard error"
    return f"mean over {elements.units(means['unit'])}, with a band or a bar of one standard error"


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
        Table of `pipeline.scoring.tables.summary_table`.
    score : str
        A score of `pipeline.scoring.scores.SCORES`. Correct annotations get the accuracy as a line.
    published : pandas.DataFrame, optional
        Table of `pipeline.report.against.compare`, drawn as crosses.
    written : mapping, optional
        Each m as the sweep file writes it, from `pipeline.scoring.tables.written_counts`.
    up : str, optional
        Label of the y axes, if it is not that of the score.

    Returns
    -------
    Figure or None
        A row of panels per data set, a column per accuracy; None if no supervised cell has the score.
    """
    rows = summary[(summary["score"] == score) & (summary["n"] > 0)]
    supervised, written = rows[rows["p"].notna()], written or {}
    panels = elements.by_dataset(rows, supervised["dataset"])
    if len(panels) < supervised["dataset"].nunique():
        whole, texts = _over_all(rows, written)
        panels, written = elements.by_dataset(whole, whole["dataset"]) | panels, {**written, **texts}
    crosses = pd.DataFrame() if published is None else published[published["score"] == score]
    if len(crosses):
        # published baselines are those of a line
        crosses = crosses[~crosses["model"].isin(BASELINES)]

    def panel(axes: Axes, name: str, p: float) -> None:
        panel_rows = panels[name]
        for row in panel_rows[panel_rows["p"].isna()].itertuples():
            look, error = looks.mark(str(row.model)), 0.0 if pd.isna(row.se) else row.se
            axes.axhline(row.mean, color=look.color, linestyle=look.line, linewidth=1.2, label=row.model)
            axes.axhspan(row.mean - error, row.mean + error, color=look.color, alpha=0.14, linewidth=0)
        names = {m: elements.count_text(written, name, m) for m in sorted(panel_rows["m"].dropna().unique())}
        supervised_rows = panel_rows[panel_rows["p"] == p]
        figures.curves(axes, supervised_rows, "m", lambda row: f"m = {names[row.m]}", 0.22)
        figures.tick_counts(axes, list(names), names)
        if score == AGREEMENT:
            axes.axhline(p, color=looks.GREY, linestyle="-.", linewidth=1.2, label="accuracy p")
        if len(crosses):
            here = crosses[(crosses["dataset"] == name) & (crosses["p"] == p)]
            here = here[here["model"].isin(panel_rows["model"])]
            for model, points in here.groupby("model", sort=True):
                x, y = points["m"].to_numpy(dtype=float), points["published"].to_numpy(dtype=float)
                axes.plot(x, y, "x", color=looks.PAPER, markersize=7.5, markeredgewidth=3.2)
                axes.plot(x, y, "x", color=looks.mark(str(model)).color, markersize=6, markeredgewidth=1.5)

    cross = Line2D([], [], color=looks.GREY, marker="x", linestyle="", markeredgewidth=1.5, label="published")
    return figures.facets(
        list(panels),
        supervised["p"],
        panel,
        PANEL,
        lambda name: f"{figures.short(name)}\n{up or LABELS[score].axis}",
        also=() if published is None else (cross,),
    )


def _over_all(rows: pd.DataFrame, written: Written) -> tuple[pd.DataFrame, dict[tuple[str, Any], str]]:
    """Return means over data sets along m / N, where equal texts are one m, and the texts of these m."""
    places = zip(rows["dataset"], rows["m"], strict=True)
    texts = ["" if pd.isna(m) else elements.count_text(written, name, m) for name, m in places]
    rows = rows.assign(text=texts)
    ratios = rows.groupby("text")["m_over_n"].mean().astype(float).round(3)
    whole = over_datasets(rows, ["p", "text", "model"]).reset_index()
    name = f"mean of {plural(rows['dataset'].nunique(), 'data set')}"
    whole = whole.assign(dataset=name, m=whole["text"].map(ratios), score=rows["score"].iloc[0])
    return whole, {(name, ratio): str(text) for text, ratio in ratios.items() if text}


def index(content: Content) -> Iterator[Part]:
    """Yield the share of cells with each centroid index, by data set and model, and with the index 0."""
    cells = content.cells[content.cells[INDEX].notna()]
    rows = []
    for names, group in cells.groupby(["dataset", "model"], sort=False):
        shares = group[INDEX].clip(upper=MOST_INDEX).value_counts(normalize=True)
        numbers = (number(100 * shares.get(index, 0.0), ".0f") for index in range(MOST_INDEX + 1))
        rows.append((*map(words, names), number(len(group)), *numbers))
    if rows:
        indices = (*(f"{index}, %" for index in range(MOST_INDEX)), f"{MOST_INDEX} or more, %")
        heads = ("data set", "model", "cells", *indices)
        note = "Share of cells by centroid index, over all p, m and draws."
        more: dict[str, Any] = {"note": note, "pinned": True, "folded": True, "whole": "cells.csv"}
        yield Table("Centroid index", heads, tuple(rows), **more)
    shares = share_table(content.cells)
    lowest = shares[shares["score"] == INDEX].groupby("dataset", sort=False)["mean"].min()
    perfect = list(lowest.index[lowest == 1])
    if perfect:
        yield WORDS["index"]["found"].format(names=enumeration(perfect))
    others = shares[~shares["dataset"].isin(perfect)]
    figure = draw_curves(others, INDEX, written=content.written, up="cells with index 0 (share)")
    for axes in figure.axes if figure is not None else ():
        axes.set_ylim(-0.04, 1.04)
    yield "centroid-index", figure, WORDS["index"]["share"].format(over=over(shares))


def share_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the share of cells with the centroid index 0, in the form of `tables.summary_table`.

    Cells without an index do not count.
    """
    is_zero = (cells[INDEX] == 0).astype(float).where(cells[INDEX].notna())
    others = [score for score in SCORES if score != INDEX and score in cells]
    return summary_table(cells.drop(columns=others).assign(**{INDEX: is_zero}))


def relative(content: Content) -> Iterator[Part]:
    """Yield relative NMI, with a figure for each accuracy."""
    for p in content.accuracies:
        text = WORDS["relative"]["boxes"].format(p=p, few=FEW, least=figures.LEAST_BOX)
        yield f"relative-nmi-p{p:.9g}", draw_boxes(content.cells, p, content.written), text


def draw_boxes(cells: pd.DataFrame, p: float, written: Written) -> Figure | None:
    """Draw relative NMI at one accuracy: a panel per data set, a box per number of annotations and model.

    Boxes are quartiles, whiskers reach to the last value within 1.5 of their height, points lie beyond. If a
    box is of fewer than `FEW` cells, each of them is a point. Fewer than `figures.LEAST_BOX` cells have no
    box.
    """
    rows = cells[(cells["p"] == p) & cells["relative_nmi"].notna()]
    models = sorted(rows["model"].unique())
    widening = max(1, math.ceil(len(models) / MOST_BOXES))
    size = (min(BOX_PANEL[0] * widening, figures.PAGE - figures.BESIDE), BOX_PANEL[1])
    panels = [(figures.short(name), name) for name in elements.panel_datasets(rows["dataset"])]

    def panel(axes: Axes, dataset: str) -> None:
        panel_rows = rows[rows["dataset"] == dataset]
        counts = subset(sorted(panel_rows["m"].unique()), MOST_COUNTS)
        names = [elements.count_text(written, dataset, m) for m in counts]
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
        outside = cells if len(cells) < FEW else cbook.boxplot_stats(cells)[0]["fliers"]
        if len(outside):
            (points,) = axes.plot([place] * len(outside), outside, linestyle="", color=look.color)
            points.set(zorder=3, marker=look.marker, markersize=3, markerfacecolor=looks.PAPER)
            figures.hover(points, [f"{model}, m = {name}: {value:.3f}" for value in outside])
    boxes[0].set_label(model)


def _count_axis(axes: Axes, names: list[str]) -> None:
    """Give the x axis places of numbers of annotations, with 0.6 beyond the first and the last of them."""
    axes.set_xticks(range(len(names)), names)
    axes.set(xlim=(-0.6, len(names) - 0.4), xlabel=figures.COUNTS_LABEL)


def choice_title(content: Content) -> str:
    """Return the title of the section of choices, which depends on what the sweep file asks for."""
    held_out = "held-out annotations"
    if not content.chooses:
        return held_out.capitalize()
    title = "Shapes chosen" if len(content.choices) else "What classes are made of"
    return f"{title}, {held_out}" if content.holds_out else title


def choices(content: Content) -> Iterator[Part]:
    """Yield how shapes were chosen and what a prediction is worth, with tables and figures of both."""
    chosen, predictions, texts = content.choices, content.predictions, WORDS["choices"]
    if chosen.empty and predictions.empty and content.structures.empty:
        yield "No cell that holds annotations out is done."
    else:
        if len(chosen):
            yield Reading(texts["rule"])
        yield Reading(texts["held_out"])
        if content.holds_out:
            yield Reading(texts["compared"])
    if len(chosen):
        whole = choice_table(content.cells, ("dataset", "model"))
        yield elements.declared_table("chosen_whole", whole.assign(predicted=100 * whole["predicted"]))
        yield elements.declared_table("chosen", with_counts(chosen, content.written))
    if len(content.structures):
        yield texts["structures"]
        table = with_counts(content.structures, content.written)
        yield elements.declared_table("structures", table.assign(share=100 * table["share"]))
    if len(predictions):
        yield elements.declared_table("predicted", with_counts(predictions, content.written))
    for p in content.accuracies:
        text = f"p = {p:g}: share of the cells that chose each shape of covariances."
        yield f"choices-p{p:.9g}", draw_choices(chosen[chosen["p"] == p], content.written), text


def with_counts(table: pd.DataFrame, written: Written) -> pd.DataFrame:
    """Return a table of predictions with m as the sweep file has it, and shares in per cent."""
    m = [elements.count(written, name, m) for name, m in zip(table["dataset"], table["m"], strict=True)]
    return table.assign(m=m, predicted=100 * table["predicted"])


def draw_choices(table: pd.DataFrame, written: Written) -> Figure | None:
    """Draw how often each shape was chosen at one accuracy, from rows of `tables.choice_table`.

    There is a panel per data set and model, with a bar per number of annotations.
    """
    models = sorted(table["model"].unique())
    names = elements.panel_datasets(table["dataset"])

    def panel(axes: Axes, item: tuple[str, str]) -> None:
        rows = table[(table["dataset"] == item[0]) & (table["model"] == item[1])].sort_values("m")
        rows = rows[rows["m"].isin(subset(rows["m"].tolist(), MOST_COUNTS))]
        places, below = np.arange(len(rows)), np.zeros(len(rows))
        first, *others = CANDIDATES
        # cells that could not choose have the simplest shape, and a part of their own
        parts = {UNABLE: rows["too_few"], first: rows[first] - rows["too_few"], **rows[others]}
        for label, counts in parts.items():
            hatch = "" if label == UNABLE else looks.SHAPES[label].hatch
            share = (counts / rows["n"]).to_numpy(dtype=float)
            color = looks.PAPER if hatch or label == UNABLE else looks.GREY
            edge: dict[str, Any] = {"edgecolor": looks.GREY, "linewidth": 1.2, "hatch": hatch}
            axes.bar(places, share, 0.7, below, label=label, color=color, **edge)
            below += share
        _count_axis(axes, [elements.count_text(written, item[0], m) for m in rows["m"]])
        axes.set(ylim=(0, 1.02), yticks=[0, 0.5, 1])

    panels = [(f"{figures.short(name)}, {model}", (name, model)) for name, model in product(names, models)]
    return figures.panel_grid(panels, panel, CHOICE_PANEL, "cells (share)", group=len(models))
