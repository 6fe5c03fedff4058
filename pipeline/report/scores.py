"""Scores on the page: tables, curves over the number of annotations, centroid index, relative NMI.

Beside them what annotations that were held out say: shapes of covariances that cells chose, and how well
models predict.
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

from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import elements, figures, look
from sweep_clustering.pipeline.report.content import Content, Part
from sweep_clustering.pipeline.report.elements import (
    NOTHING,
    WORDS,
    Reading,
    Table,
    Value,
    listed,
    number,
    spread,
    words,
)
from sweep_clustering.pipeline.scoring.ranking import RANKED
from sweep_clustering.pipeline.scoring.scores import LABELS, QUALITIES, SCORES
from sweep_clustering.pipeline.scoring.tables import choice_table, over_datasets, pooled_means, summary_table
from sweep_clustering.sweeps.file.spec import base_name
from sweep_clustering.sweeps.plan import DatasetPlan
from sweep_clustering.sweeps.shapes import CANDIDATES
from sweep_clustering.sweeps.words import BASELINES, baseline_of, is_model

# Of a score; the published ones have four digits.
FORM, PAPER_FORM = ".3f", ".4f"
# Has every mean.
WHOLE = "summary.csv"
# Columns of models that fit a page.
MOST_MODELS = 9
PAPER_SCORES = (*RANKED, "goldberger_kl")

# Width and height of a panel in inches: of curves, of boxes, and of shapes chosen.
PANEL, BOX_PANEL, CHOICE_PANEL = (1.95, 1.5), (2.3, 1.8), (2.3, 1.6)

INDEX, AGREEMENT = "centroid_index", "annotation_agreement"
# Indices with a column of their own; that of the last one holds larger ones, too.
MOST_INDEX = 3

# Cells of a box below which each of them is a point as well.
FEW = 10
# Numbers of annotations in a panel of boxes, and models in one of that width; those of more are wider.
MOST_COUNTS, MOST_BOXES = 8, 6
# Rows of the summary by score, data set, p and m where they have any, and model.
Rows = Mapping[tuple[Any, ...], Any]
# What is said in place of a standard error where there is none.
ONE_DRAW = "One draw of the annotations, which has no standard error."
ONE_MIXTURE = "One mixture at each K, which has no standard error: a mean over its redraws."
OBJECTIVES_OF_METHODS = (
    "The objective of a model is in nats, that of a method is its own (of k-means minus the inertia)."
)
# Cells that had no choice, apart from those that chose the simplest shape.
UNABLE = "too few annotations"


def means(content: Content) -> Iterator[Part]:
    """Every table of scores: of mixtures as in the paper, of real data sets a row per p and m."""
    missing = int(content.summary["n_missing"].sum())
    said = "No score of a cell that is done is missing."
    if missing:
        cells = plural(missing, "score")
        said = WORDS["scores"]["missing"].format(cells=cells, are=elements.are(missing))
    yield f"Objectives compare within one model on one data set only. {said}"
    # models and methods without annotations have neither p nor m
    rows = {
        (row.score, row.dataset, *(() if pd.isna(row.p) else (row.p, row.m)), row.model): row
        for row in content.summary.itertuples()
    }
    found = set(content.summary["score"])
    for score in [score for score in QUALITIES if score in found] or [AGREEMENT]:
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
    """Tables of a column for each model, and for each K of a family, as many side by side as fit a page.

    Places are rows: their first entries, and what `entry` takes of them before the model, and the plan.
    """
    n = max(1, math.ceil(len(models) / MOST_MODELS))
    for k in range(n):
        part = models[len(models) * k // n : len(models) * (k + 1) // n]
        beside = f", {part[0]} to {part[-1]}" if n > 1 else ""
        keys: list[tuple[Any, ...]] = [
            (model, *of) for of in family for model in part if all(model in plan.models for plan in of)
        ]
        sizes = Counter(f"K = {plan.n_clusters}" for _, *of in keys for plan in of)
        groups = ((("", len(heads)), *sizes.items()),) if sizes else ()
        rows = tuple((*lead, *(entry(*place, *key) for key in keys)) for lead, place in places)
        yield Table(
            f"{title}{beside}", (*heads, *(key[0] for key in keys)), rows, groups, pinned=True, **more
        )


def pooled(content: Content, score: str, form: str) -> tuple[dict[tuple[float, str, str], Value], list[str]]:
    """Means over the real data sets, where there are several, each with the number of them.

    Returns
    -------
    found : dict of tuple to Value
        By p, m as written and model.
    alone : list of str
        Words on each model without annotations.
    """
    real = [name for name, plan in content.manifest.plans.items() if plan.mixtures is None]
    rows = content.summary[content.summary["dataset"].isin(real)]
    means = pooled_means(rows, content.written, score)
    found = {
        (row.p, row.m, row.model): Value(f"{row.mean:{form}} ({row.n_datasets})", row.mean)
        for row in means.itertuples()
        if means["n_datasets"].max() > 1
    }
    alone = rows[rows["p"].isna() & (rows["score"] == score)].dropna(subset="mean").groupby("model")["mean"]
    return found, [f"{model}: {levels.mean():{form}} ({len(levels)})" for model, levels in alone]


def _pooled(content: Content, score: str) -> Iterator[Table]:
    """Rows p and m, columns models, over the real data sets."""
    found, alone = pooled(content, score, FORM)
    if found:
        places = [((number(p, "g"), words(m)), (p, m)) for p, m in dict.fromkeys(key[:2] for key in found)]
        title, models = f"{LABELS[score].short}: mean over real data sets", sorted({key[2] for key in found})
        note = f"In brackets: data sets. {'; '.join(alone)}"
        yield from _wide(title, ("p", "m"), places, models, lambda *key: found.get(key, NOTHING), note=note)


def _real(content: Content, rows: Rows, score: str) -> Iterator[Table]:
    """Rows data set, p and m, columns models, of real data sets."""
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
    more: dict[str, Any] = {"note": note, "folded": score not in RANKED, "whole": WHOLE}
    yield from _wide(title, ("data set", "p", "m"), places, models, partial(_entry, rows, score), **more)


def _mixtures(content: Content, rows: Rows, score: str) -> Iterator[Table]:
    """Rows m, columns K × model, of mixtures that differ in K alone; m = 0 is the baseline of a shape."""

    def entry(p: float, m: int, model: str, plan: DatasetPlan) -> Value:
        return _entry(rows, score, plan, p, m, model if m else baseline_of(model), PAPER_FORM)

    families: dict[str, list[DatasetPlan]] = {}
    for plan in content.manifest.plans.values():
        if plan.mixtures is not None and plan.supervised:
            families.setdefault(base_name(plan.name, plan.n_clusters), []).append(plan)
    for name, family in families.items():
        family.sort(key=lambda plan: plan.n_clusters)
        sizes = ", ".join(f"{plan.mixtures} at K = {plan.n_clusters}" for plan in family)
        is_one = max(plan.mixtures or 0 for plan in family) == 1
        means = f"Mean ± standard error over mixtures ({sizes}), each of them a mean over its redraws first."
        note = f"{ONE_MIXTURE if is_one else means} m = 0 is the model without annotations."
        ms = {m: elements.count_of(content.written, plan.name, m) for plan in family[::-1] for m in plan.m}
        models = sorted({model for plan in family for model in plan.models})
        more: dict[str, Any] = {"note": note, "folded": score not in RANKED}
        for p in sorted({p for plan in family for p in plan.p}):
            places = [((Value(text, m),), (p, m)) for m, text in sorted({0: "0", **ms}.items())]
            title = f"{LABELS[score].short}: {name}, p = {p:g}"
            yield from _wide(title, ("m",), places, models, entry, [(plan,) for plan in family], **more)


def _baselines(content: Content, rows: Rows) -> Iterator[Table]:
    """Rows data set and model, columns scores, without annotations."""
    alone = [key for key in rows if len(key) == len(("score", "data set", "model"))]
    scores = [score for score in (*PAPER_SCORES, INDEX, "objective") if any(key[0] == score for key in alone)]
    plans = [plan for plan in content.manifest.plans.values() if plan.baselines]
    table = tuple(
        (words(plan.name), words(model), *(_entry(rows, score, plan, 0, 0, model) for score in scores))
        for plan, model in product(plans, sorted({model for *_, model in alone}))
    )
    if table:
        heads = ("data set", "model", *(LABELS[score].short for score in scores))
        once = "Nothing draws a real data set again: one cell, no error."
        note = f"Mean ± standard error over mixtures. {once}"
        if "objective" in scores and not all(is_model(model) for *_, model in alone):
            note += f" {OBJECTIVES_OF_METHODS}"
        yield Table("Without annotations", heads, table, note=note, pinned=True, whole=WHOLE)


def _entry(
    rows: Rows, score: str, plan: DatasetPlan, p: float, m: int, model: str, form: str = FORM
) -> Value:
    row = rows.get((score, plan.name, p, m, model), rows.get((score, plan.name, model)))
    return NOTHING if row is None else elements.mean_and_error(row.mean, row.se, form)


def _models(rows: Rows, score: str, plans: Iterable[DatasetPlan]) -> list[str]:
    """Models that have a value of the score, baselines first."""
    names = {plan.name for plan in plans}
    found = {key[-1]: len(key) for key in rows if key[0] == score and key[1] in names}
    return sorted(found, key=lambda model: (found[model], model))


def curves(content: Content) -> Iterator[Part]:
    """NMI, ARI and KL divergence, with published means where there are any."""
    names, n = content.cells["dataset"].unique(), content.cells["p"].nunique()
    if len(shown := elements.some(names)) < len(names):
        yield WORDS["curves"]["many"].format(n=len(names), shown=len(shown))
    if n > look.MOST_ACCURACIES:
        yield f"Figures show {look.MOST_ACCURACIES} of {n} accuracies; summary.csv and cells.csv hold all."
    said, summary = WORDS["curves"], content.summary
    text = said["over"].format(over=over(summary))
    if summary["p"].isna().any():
        text += f" {said['baseline']}"
    for score, name in (("nmi", "nmi"), ("adjusted_rand", "ari"), ("goldberger_kl", "kl")):
        figure = draw_curves(summary, score, content.compared, content.written)
        yield name, figure, f"{LABELS[score].short}: {text}"


def agreement(content: Content) -> Iterator[Part]:
    """Share of the annotations that a solution takes for correct."""
    figure = draw_curves(content.summary, AGREEMENT, written=content.written)
    yield "agreement", figure, WORDS["curves"]["agreement"].format(over=over(content.summary))


def over(means: pd.DataFrame) -> str:
    """What the lines and bands are over; there is no band where every line is of one draw."""
    drawn = means[means["p"].notna()]
    if drawn["se"].isna().all():
        return "one draw, which has no standard error"
    return f"mean over {elements.units(drawn['unit'])}, with a band or a bar of one standard error"


def draw_curves(
    summary: pd.DataFrame,
    score: str,
    published: pd.DataFrame | None = None,
    written: elements.Written | None = None,
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
        A row of panels per data set, a column per accuracy; None if no supervised cell has the score.
    """
    rows = summary[(summary["score"] == score) & (summary["n"] > 0)]
    supervised, written = rows[rows["p"].notna()], written or {}
    panels = elements.by_dataset(rows, supervised["dataset"])
    if len(panels) < supervised["dataset"].nunique():
        whole, texts = _over_all(rows, written)
        panels, written = elements.by_dataset(whole, whole["dataset"]) | panels, {**written, **texts}
    # published baselines are those of a line
    theirs = pd.DataFrame() if published is None else published[published["score"] == score]
    if len(theirs):
        theirs = theirs[~theirs["model"].isin(BASELINES)]

    def panel(axes: Axes, name: str, p: float) -> None:
        there = panels[name]
        for row in there[there["p"].isna()].itertuples():
            how, error = look.mark(str(row.model)), 0.0 if pd.isna(row.se) else row.se
            axes.axhline(row.mean, color=how.color, linestyle=how.line, linewidth=1.2, label=row.model)
            axes.axhspan(row.mean - error, row.mean + error, color=how.color, alpha=0.14, linewidth=0)
        names = {m: elements.count_of(written, name, m) for m in sorted(there["m"].dropna().unique())}
        figures.curves(axes, there[there["p"] == p], "m", lambda row: f"m = {names[row.m]}", 0.22)
        look.tick_counts(axes, list(names), names)
        if score == AGREEMENT:
            axes.axhline(p, color=look.GREY, linestyle="-.", linewidth=1.2, label="accuracy p")
        if len(theirs):
            here = theirs[(theirs["dataset"] == name) & (theirs["p"] == p)]
            for model, points in here[here["model"].isin(there["model"])].groupby("model", sort=True):
                x, y = points["m"].to_numpy(dtype=float), points["published"].to_numpy(dtype=float)
                axes.plot(x, y, "x", color=look.PAPER, markersize=7.5, markeredgewidth=3.2)
                axes.plot(x, y, "x", color=look.mark(str(model)).color, markersize=6, markeredgewidth=1.5)

    cross = Line2D([], [], color=look.GREY, marker="x", linestyle="", markeredgewidth=1.5, label="published")
    return figures.facets(
        list(panels),
        supervised["p"],
        panel,
        PANEL,
        lambda name: f"{look.short(name)}\n{up or LABELS[score].axis}",
        also=() if published is None else (cross,),
    )


def _over_all(
    rows: pd.DataFrame, written: elements.Written
) -> tuple[pd.DataFrame, dict[tuple[str, Any], str]]:
    """Means over data sets of one score, along m / N, where m is the same where it is written alike."""
    places = zip(rows["dataset"], rows["m"], strict=True)
    texts = ["" if pd.isna(m) else elements.count_of(written, name, m) for name, m in places]
    keyed = rows.assign(text=texts)
    ratios = keyed.groupby("text")["m_over_n"].mean().astype(float).round(3)
    whole = over_datasets(keyed, ["p", "text", "model"]).reset_index()
    name = f"mean of {plural(rows['dataset'].nunique(), 'data set')}"
    whole = whole.assign(dataset=name, m=whole["text"].map(ratios), score=rows["score"].iloc[0])
    return whole, {(name, ratio): str(text) for text, ratio in ratios.items() if text}


def index(content: Content) -> Iterator[Part]:
    """Share of cells with each centroid index, by data set and model, and with the index 0."""
    known = content.cells[content.cells[INDEX].notna()]
    rows = []
    for names, found in known.groupby(["dataset", "model"], sort=False):
        shares = found[INDEX].clip(upper=MOST_INDEX).value_counts(normalize=True)
        numbers = (number(100 * shares.get(index, 0.0), ".0f") for index in range(MOST_INDEX + 1))
        rows.append((*map(words, names), number(len(found)), *numbers))
    if rows:
        indices = (*(f"{index}, %" for index in range(MOST_INDEX)), f"{MOST_INDEX} or more, %")
        note = "Share of cells by centroid index, over all p, m and draws."
        heads = ("data set", "model", "cells", *indices)
        yield Table(
            "Centroid index", heads, tuple(rows), note=note, pinned=True, folded=True, whole="cells.csv"
        )
    table = share_table(content.cells)
    lowest = table[table["score"] == INDEX].groupby("dataset", sort=False)["mean"].min()
    found = list(lowest.index[lowest == 1])
    if found:
        yield WORDS["index"]["found"].format(names=listed(found))
    others = table[~table["dataset"].isin(found)]
    figure = draw_curves(others, INDEX, written=content.written, up="cells with index 0 (share)")
    for axes in figure.axes if figure is not None else ():
        axes.set_ylim(-0.04, 1.04)
    yield "centroid-index", figure, WORDS["index"]["share"].format(over=over(table))


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


def relative(content: Content) -> Iterator[Part]:
    """Relative NMI, a figure for each accuracy."""
    for p in content.accuracies:
        text = WORDS["relative"]["boxes"].format(p=p, few=FEW, least=look.LEAST_BOX)
        yield f"relative-nmi-p{p:.9g}", draw_boxes(content.cells, p, content.written), text


def draw_boxes(cells: pd.DataFrame, p: float, written: elements.Written) -> Figure | None:
    """Draw relative NMI of one accuracy: a panel per data set, a box per number of annotations and model.

    Boxes are quartiles, whiskers reach to the last value within 1.5 of their height, points lie beyond. If a
    box is of fewer than `FEW` cells, each of them is a point. Fewer than `look.LEAST_BOX` cells have no box.

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
    size = (min(BOX_PANEL[0] * times, look.PAGE - look.BESIDE), BOX_PANEL[1])
    shown = [(look.short(name), name) for name in elements.some(rows["dataset"])]

    def panel(axes: Axes, dataset: str) -> None:
        there = rows[rows["dataset"] == dataset]
        counts = spread(sorted(there["m"].unique()), MOST_COUNTS)
        names = [elements.count_of(written, dataset, m) for m in counts]
        width = 0.7 / len(models)
        for position, model in enumerate(models):
            how, one = look.mark(model), there[there["model"] == model]
            values = [one.loc[one["m"] == m, "relative_nmi"].to_numpy() for m in counts]
            places = np.arange(len(counts)) + (position - (len(models) - 1) / 2) * width
            looks: dict[str, Any] = {"patch_artist": True, "showfliers": False, "widths": width * 0.85}
            looks |= {key: {"color": how.color} for key in ("whiskerprops", "capprops")}
            looks |= {"medianprops": {"color": look.INK, "linewidth": 1.6}}
            boxed = [found if len(found) >= look.LEAST_BOX else [] for found in values]
            drawn = axes.boxplot(boxed, positions=places, **looks)
            for box in drawn["boxes"]:
                box.set(facecolor=how.area, edgecolor=how.color, hatch=how.hatch, alpha=0.75)
            for place, found, name in zip(places, values, names, strict=True):
                # all cells of a small box, or of none, and those beyond the whiskers of a larger one
                outside = found if len(found) < FEW else cbook.boxplot_stats(found)[0]["fliers"]
                if len(outside):
                    (points,) = axes.plot([place] * len(outside), outside, linestyle="", color=how.color)
                    points.set(zorder=3, marker=how.marker, markersize=3, markerfacecolor=look.PAPER)
                    look.hover(points, [f"{model}, m = {name}: {value:.3f}" for value in outside])
            drawn["boxes"][0].set_label(model)
        axes.axhline(0, color=look.GREY, linewidth=1, linestyle="--")
        _count_axis(axes, names)
        axes.grid(axis="y")
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))

    up = LABELS["relative_nmi"].axis
    return figures.wrapped(shown, panel, size, up)


def _count_axis(axes: Axes, names: list[str]) -> None:
    """Places of numbers of annotations along x, 0.6 beyond the first and the last of them."""
    axes.set_xticks(range(len(names)), names)
    axes.set(xlim=(-0.6, len(names) - 0.4), xlabel=look.COUNTS_LABEL)


def choice_title(content: Content) -> str:
    """By what was asked for."""
    held_out = "held-out annotations"
    if not content.chooses:
        return held_out.capitalize()
    title = "Shapes chosen" if len(content.choices) else "What classes are made of"
    return f"{title}, {held_out}" if content.holds_out else title


def choices(content: Content) -> Iterator[Part]:
    """How shapes were chosen, what a prediction is worth, and both by data set and each, and in figures."""
    chosen, predictions, said = content.choices, content.predictions, WORDS["choices"]
    if chosen.empty and predictions.empty and content.structures.empty:
        yield "No cell that holds annotations out is done."
    else:
        texts = {"rule": len(chosen) > 0, "held_out": True, "compared": content.holds_out}
        yield from (Reading(said[key]) for key, shown in texts.items() if shown)
    if len(chosen):
        whole = choice_table(content.cells, ("dataset", "model"))
        yield elements.declared("chosen_whole", whole.assign(predicted=100 * whole["predicted"]))
        yield elements.declared("chosen", _written(chosen, content))
    if len(content.structures):
        yield said["structures"]
        table = _written(content.structures, content)
        yield elements.declared("structures", table.assign(share=100 * table["share"]))
    if len(predictions):
        yield elements.declared("predicted", _written(predictions, content))
    for p in content.accuracies:
        text = f"p = {p:g}: share of the cells that chose each shape of covariances."
        yield f"choices-p{p:.9g}", draw_choices(chosen[chosen["p"] == p], content.written), text


def _written(table: pd.DataFrame, content: Content) -> pd.DataFrame:
    """Rows of a table of predictions with m as the sweep file has it, and shares in per cent."""
    places = zip(table["dataset"], table["m"], strict=True)
    m = [elements.count(content.written, dataset, count) for dataset, count in places]
    return table.assign(m=m, predicted=100 * table["predicted"])


def draw_choices(table: pd.DataFrame, written: elements.Written) -> Figure | None:
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
    names = elements.some(table["dataset"])

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
            looks: dict[str, Any] = {"color": area, "edgecolor": look.GREY, "linewidth": 1.2, "hatch": hatch}
            axes.bar(places, share, 0.7, below, label=label, **looks)
            below += share
        _count_axis(axes, [elements.count_of(written, item[0], m) for m in rows["m"]])
        axes.set(ylim=(0, 1.02), yticks=[0, 0.5, 1])

    shown = [(f"{look.short(name)}, {model}", (name, model)) for name, model in product(names, models)]
    return figures.wrapped(shown, panel, CHOICE_PANEL, "cells (share)", each=len(models))
