"""Scores on the page: tables, curves against the number of annotations, centroid index, and relative NMI."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pipeline.common import plural
from pipeline.report import elements, figures, look
from pipeline.report.content import Content
from pipeline.report.elements import NOTHING, Table, Value, Written, count_of, number, spread, words
from pipeline.report.figures import Drawn
from pipeline.report.look import GREY, MOST_ACCURACIES, MOST_DATASETS, PAPER, mark, short
from pipeline.scoring.ranking import RANKED
from pipeline.scoring.scores import LABELS, QUALITIES, SCORES
from pipeline.scoring.tables import pooled_means, summary_table
from sweeps.file.spec import base_name
from sweeps.plan import DatasetPlan
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


def score_words(content: Content) -> Iterator[str]:
    """What the tables of scores leave out."""
    missing = int(content.summary["n_missing"].sum())
    said = "Every score of every cell that is done is defined."
    if missing:
        said = (
            f"{plural(missing, 'score')} of cells that are done {'is' if missing == 1 else 'are'} left"
            " out of the means: the divergence of a degenerate cluster is not defined, and relative NMI"
            " needs the baseline. summary.csv counts them."
        )
    yield f"Objectives compare within one model on one data set only. {said}"


def score_tables(content: Content) -> list[Table]:
    """Every table of scores."""
    return list(ScoreTables(content.summary, content.manifest.plans, content.written).every())


class ScoreTables:
    """Tables of the means of a cube: mixtures as in the paper, real data sets a row per p and m.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `pipeline.scoring.tables.summary_table`.
    plans : mapping of str to DatasetPlan
        Grid of each data set.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.
    """

    def __init__(self, summary: pd.DataFrame, plans: Mapping[str, DatasetPlan], written: Written) -> None:
        self.summary, self.plans, self.written = summary, plans, written
        self.alone = frozenset(summary.loc[summary["p"].isna(), "model"])
        # models and methods without annotations have neither p nor m
        self._means = {
            (row.score, row.dataset, *(() if pd.isna(row.p) else (row.p, row.m)), row.model): row
            for row in summary.itertuples()
        }

    def every(self) -> Iterator[Table]:
        """All tables of the cube."""
        found = self.summary["score"].unique()
        for score in [score for score in QUALITIES if score in found] or ["annotation_agreement"]:
            if score in RANKED:
                yield from self._pooled(score)
            yield from self._real(score)
            if score in PAPER_SCORES:
                yield from self._mixtures(score)
        yield from self._baselines()

    def _entry(self, score: str, plan: DatasetPlan, p: float, m: int, model: str, form: str) -> Value:
        place = () if model in self.alone else (p, m)
        row = self._means.get((score, plan.name, *place, model))
        return NOTHING if row is None else elements.mean_and_error(float(row.mean), float(row.se), form)

    def _models(self, score: str, plans: Iterable[DatasetPlan]) -> list[str]:
        """Models that have a value of the score, baselines first."""
        of = self.summary["dataset"].isin([plan.name for plan in plans])
        found = self.summary.loc[of & (self.summary["score"] == score), "model"].unique()
        return sorted(found, key=lambda model: (model not in self.alone, model))

    def _mixtures(self, score: str) -> Iterator[Table]:
        """Rows m, columns K × model, of mixtures that differ in K alone; m = 0 is the baseline of a shape."""
        families: dict[str, list[DatasetPlan]] = {}
        for plan in self.plans.values():
            if plan.mixtures is not None and plan.supervised:
                families.setdefault(base_name(plan.name, plan.n_clusters), []).append(plan)
        for name, found in families.items():
            family = sorted(found, key=lambda plan: plan.n_clusters)
            drawn = ", ".join(f"{plan.mixtures} at K = {plan.n_clusters}" for plan in family)
            note = (
                f"Mean ± standard error over mixtures ({drawn}), each of them a mean over its redraws first."
                " m = 0 is the model without annotations."
            )
            every = sorted({model for plan in family for model in plan.models})
            for p, (part, models) in product(sorted({p for plan in family for p in plan.p}), _beside(every)):
                columns = [(plan, model) for plan in family for model in models if model in plan.models]
                rows = []
                for m in sorted({0, *(m for plan in family for m in plan.m)}):
                    texts = [self.written[plan.name, m] for plan in family if (plan.name, m) in self.written]
                    entries = (
                        self._entry(score, plan, p, m, model if m else baseline_of(model), PAPER_FORM)
                        for plan, model in columns
                    )
                    rows.append((Value((texts or [str(m)])[0], m), *entries))
                sizes = [(plan.n_clusters, sum(each is plan for each, _ in columns)) for plan in family]
                clusters = tuple((f"K = {k}", size) for k, size in sizes if size)
                yield Table(
                    f"{LABELS[score].short}: {name}, p = {p:g}{part}",
                    ("m", *(model for _, model in columns)),
                    tuple(rows),
                    ((("", 1), *clusters),),
                    note,
                    pinned=True,
                    folded=score not in RANKED,
                )

    def _pooled(self, score: str) -> Iterator[Table]:
        real = [name for name, plan in self.plans.items() if plan.mixtures is None]
        rows = self.summary[self.summary["dataset"].isin(real)]
        pooled = pooled_means(rows, self.written, score)
        if pooled.empty or pooled["n_datasets"].max() < 2:
            return
        levels = rows[rows["p"].isna() & (rows["score"] == score) & rows["mean"].notna()]
        note = "In brackets: data sets. " + "; ".join(
            f"{model}: {group['mean'].mean():{FORM}} ({len(group)})"
            for model, group in levels.groupby("model")
        )
        for part, models in _beside(sorted(pooled["model"].unique())):
            body = []
            for (p, m), group in pooled.groupby(["p", "m"], sort=False):
                found = {
                    row.model: Value(f"{row.mean:{FORM}} ({row.n_datasets})", row.mean)
                    for row in group.itertuples()
                }
                body.append((number(p, "g"), words(m), *(found.get(model, NOTHING) for model in models)))
            title = f"{LABELS[score].short}: mean over real data sets{part}"
            yield Table(title, ("p", "m", *models), tuple(body), note=note, pinned=True)

    def _real(self, score: str) -> Iterator[Table]:
        """Rows data set, p and m, columns models."""
        real = [plan for plan in self.plans.values() if plan.mixtures is None and plan.supervised]
        if not real:
            return
        counts = sorted({plan.replicates for plan in real})
        redraws = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        note = f"Mean ± standard error over redraws of the annotations ({redraws})."
        for part, models in _beside(self._models(score, real)):
            rows = tuple(
                (
                    words(plan.name),
                    number(p, "g"),
                    elements.count(self.written, plan.name, m),
                    *(self._entry(score, plan, p, m, model, FORM) for model in models),
                )
                for plan in real
                for p, m in product(sorted(plan.p), sorted(plan.m))
            )
            title = f"{LABELS[score].short}: real data sets{part}"
            heads = ("data set", "p", "m", *models)
            yield Table(title, heads, rows, note=note, pinned=True, folded=score not in RANKED)

    def _baselines(self) -> Iterator[Table]:
        """Rows data set and model, columns scores."""
        plans = [plan for plan in self.plans.values() if plan.baselines]
        models = {
            score: [model for model in self._models(score, plans) if model in self.alone]
            for score in (*PAPER_SCORES, INDEX, "objective")
        }
        scores = [score for score in models if models[score]]
        every = dict.fromkeys(model for score in scores for model in models[score])
        rows = tuple(
            (
                words(plan.name),
                words(model),
                *(self._entry(score, plan, 0, 0, model, FORM) for score in scores),
            )
            for plan, model in product(plans, every)
        )
        if rows:
            heads = ("data set", "model", *(LABELS[score].short for score in scores))
            once = "Nothing draws a real data set again: one cell, no error."
            note = f"Mean ± standard error over mixtures. {once}"
            yield Table("Without annotations", heads, rows, note=note, pinned=True)


def _beside(models: list[str]) -> list[tuple[str, list[str]]]:
    """Models in tables that fit a page, in equal shares, after what is added to the title of each."""
    n = max(1, math.ceil(len(models) / MOST_MODELS))
    parts = [models[len(models) * k // n : len(models) * (k + 1) // n] for k in range(n)]
    return [(f", {part[0]} to {part[-1]}" if n > 1 else "", part) for part in parts]


def curve_figures(content: Content) -> Iterator[Drawn]:
    """NMI, ARI and KL divergence, with published means where there are any."""
    text = caption(content.summary) + (BASELINE if content.summary["p"].isna().any() else "")
    for score, name in (("nmi", "nmi"), ("adjusted_rand", "ari"), ("goldberger_kl", "kl")):
        figure = draw_curves(content.summary, score, content.compared, content.written)
        yield name, figure, f"{LABELS[score].short}: {text[0].lower()}{text[1:]}"


def agreement_figures(content: Content) -> Iterator[Drawn]:
    """Share of the annotations that a solution takes for correct."""
    text = f"Share of annotations that the solution takes for correct. {caption(content.summary)}{AGREEMENT}"
    yield "agreement", draw_curves(content.summary, "annotation_agreement", written=content.written), text


def caption(summary: pd.DataFrame) -> str:
    """What the lines and bands are over."""
    over = elements.units(summary.loc[summary["p"].notna(), "unit"])
    return f"Mean over {over}, with a band of one standard error."


def not_drawn(content: Content) -> Iterator[str]:
    """Say where the figures of the page show a part of a large grid."""
    most = {"data sets": ("dataset", MOST_DATASETS), "accuracies": ("p", MOST_ACCURACIES)}
    found = {what: (content.cells[key].nunique(), limit) for what, (key, limit) in most.items()}
    large = [f"{limit} of {n} {what}" for what, (n, limit) in found.items() if n > limit]
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
    supervised = rows[rows["p"].notna()]
    if supervised.empty:
        return None
    accuracies = spread(sorted(supervised["p"].unique()), MOST_ACCURACIES)
    groups = elements.shape_groups(rows["model"].unique())
    shown = list(product(spread(list(supervised["dataset"].unique()), MOST_DATASETS), groups))

    def panel(axes: Axes, item: tuple[str, str], p: float) -> None:
        dataset, group = item
        _curves(
            axes,
            rows[(rows["dataset"] == dataset) & rows["model"].isin(groups[group])],
            float(p),
            written or {},
        )
        if score == "annotation_agreement":
            axes.axhline(p, color=GREY, linestyle="-.", linewidth=1.2, label="accuracy p")
        if published is not None:
            there = published[(published["dataset"] == dataset) & (published["p"] == p)]
            _crosses(axes, there[there["model"].isin(groups[group]) & (there["score"] == score)])

    also = []
    if published is not None:
        also = [Line2D([], [], color=GREY, marker="x", linestyle="", markeredgewidth=1.5, label="published")]
    figure = figures.facets(
        shown, accuracies, panel, PANEL, lambda item: f"{short(*item)}\n{up or LABELS[score].axis}", also=also
    )
    # the divergence is one of Gaussians of the shape: those of other shapes may have another order
    if score != "goldberger_kl" and len(groups) > 1:
        first = figure.axes[:: len(accuracies)]
        for start in range(0, len(first), len(groups)):
            figures.same_heights(first[start : start + len(groups)])
    return figure


def _curves(axes: Axes, rows: pd.DataFrame, p: float, written: Written) -> None:
    names = dict(zip(rows["m"], map(partial(count_of, written), rows["dataset"], rows["m"]), strict=True))
    for row in rows[rows["p"].isna()].itertuples():
        how = mark(str(row.model))
        level, error = float(row.mean), 0.0 if pd.isna(row.se) else float(row.se)
        axes.axhline(level, color=how.color, linestyle=how.line, linewidth=1.2, label=str(row.model))
        axes.axhspan(level - error, level + error, color=how.color, alpha=0.14, linewidth=0)
    for model, points in rows[rows["p"] == p].groupby("model", sort=True):
        m, mean = points["m"].to_numpy(dtype=float), points["mean"].to_numpy(dtype=float)
        tips = [
            f"{model}, m = {names[row.m]}: {elements.with_error(row.mean, row.se)}"
            for row in points.itertuples()
        ]
        figures.curve(axes, m, mean, points["se"], mark(str(model)), str(model), tips, 0.22)
    axes.grid()
    look.tick_counts(axes, sorted(rows["m"].dropna().unique()), names)


def _crosses(axes: Axes, published: pd.DataFrame) -> None:
    for model, points in published[~published["model"].isin(BASELINES)].groupby("model", sort=True):
        m, values = points["m"].to_numpy(dtype=float), points["published"].to_numpy(dtype=float)
        axes.plot(m, values, "x", color=PAPER, markersize=7.5, markeredgewidth=3.2)
        axes.plot(m, values, "x", color=mark(str(model)).color, markersize=6, markeredgewidth=1.5)


def index_figures(content: Content) -> Iterator[Drawn]:
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
    for (dataset, model), found in known.groupby(["dataset", "model"], sort=False):
        shares = found[INDEX].clip(upper=MOST_INDEX).value_counts(normalize=True)
        numbers = (number(100 * float(shares.get(index, 0.0)), ".0f") for index in range(MOST_INDEX + 1))
        rows.append((words(dataset), words(model), number(len(found)), *numbers))
    if rows:
        heads = (*(f"{index}, %" for index in range(MOST_INDEX)), f"{MOST_INDEX} or more, %")
        note = "Share of cells by centroid index, over all p, m and draws."
        heads = ("data set", "model", "cells", *heads)
        yield Table("Centroid index", heads, tuple(rows), note=note, pinned=True, folded=True)


def relative_figures(content: Content) -> Iterator[Drawn]:
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
    if rows.empty:
        return None
    models = sorted(rows["model"].unique())
    times = math.ceil(len(models) / MOST_BOXES)
    size = (BOX_PANEL[0] * min(times, look.ACROSS), BOX_PANEL[1])
    shown = [(short(name), name) for name in spread(list(rows["dataset"].unique()), MOST_DATASETS)]

    def panel(axes: Axes, dataset: str) -> None:
        _boxes(axes, rows[rows["dataset"] == dataset], models, partial(count_of, written, dataset))

    up = LABELS["relative_nmi"].axis
    return figures.wrapped(shown, panel, size, up, across=max(1, look.ACROSS // times))


def _boxes(axes: Axes, rows: pd.DataFrame, models: list[str], name: partial[str]) -> None:
    counts = spread(sorted(rows["m"].unique()), MOST_COUNTS)
    width = 0.7 / len(models)
    for position, model in enumerate(models):
        how = mark(model)
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
        for place, found, m in zip(places, values, counts, strict=True):
            outside = _outside(found)
            if len(outside):
                (points,) = axes.plot(
                    [float(place)] * len(outside), outside, linestyle="", color=how.color, zorder=3
                )
                points.set(marker=how.marker, markersize=3, markerfacecolor=PAPER)
                look.hover(points, [f"{model}, m = {name(m)}: {value:.3f}" for value in outside])
        drawn["boxes"][0].set_label(model)
    axes.axhline(0, color=GREY, linewidth=1, linestyle="--")
    axes.set_xticks(np.arange(len(counts)), [name(m) for m in counts])
    axes.set_xlim(-0.6, len(counts) - 0.4)
    axes.set_xlabel(look.COUNTS_LABEL)
    axes.grid(axis="y")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))


def _outside(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """All values of a small box, those beyond the whiskers of a larger one."""
    if len(values) < FEW:
        return values
    low, high = np.quantile(values, [0.25, 0.75])
    return np.asarray(values[(values < low - 1.5 * (high - low)) | (values > high + 1.5 * (high - low))])
