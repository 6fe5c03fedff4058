"""Published means beside those of the cube, and a verdict for each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from pipeline.report.parts.ink import GREY, MOST_ACCURACIES, PAPER, accuracy_panels, legend, mark
from pipeline.report.parts.parts import Section, Table, Value, number, spread, words
from pipeline.report.parts.published import Published
from pipeline.report.sections.content import Content
from pipeline.scoring.scores import LABELS
from sweeps.models import BASELINES
from sweeps.plan import DatasetPlan

Z_LIMIT = 2.0
"""Values of z up to which a mean agrees."""
LIMIT = Z_LIMIT * math.sqrt(2)
"""The same in standard errors of the cube's mean: the published mean is taken to have an equal error."""
WITHIN, ABOVE, BELOW = "within", "above", "below"
NO_ERROR, NOT_DONE, ABSENT = "no standard error", "not done", "not in this cube"
JUDGED = (WITHIN, ABOVE, BELOW)
KINDS = {WITHIN: "good", ABOVE: "bad", BELOW: "bad"}

PANEL = (3.0, 2.3)
LINEAR, TICKS = 4.0, (-1000, -100, -30, -10, -6, -4, -2, 0, 2, 4, 6, 10, 30, 100, 1000)
"""Up to this z the axis is linear; where an error is tiny, z may be anything."""
APART = 0.36
"""Distance between the models at one number of annotations, as a share of the step to the next."""
CAPTION = "z of every published value, shown as the digit of its K; within the grey band this cube agrees."


def section(content: Content) -> Section | None:
    """Verdicts on published values; None without any."""
    compared = content.compared
    if compared is None:
        return None
    pictures = content.save(draw_verdicts(compared), "z", CAPTION)
    text, tables = entries(compared)
    return Section("against", "Beside the published values", text, tables, pictures)


def compare(
    summary: pd.DataFrame, plans: Mapping[str, DatasetPlan], published: list[Published]
) -> pd.DataFrame:
    """Set published means beside those of the mixtures of a cube.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `pipeline.scoring.tables.summary_table`.
    plans : mapping of str to DatasetPlan
        Grid of each data set.
    published : list of Published
        From `pipeline.report.parts.published.read_published`.

    Returns
    -------
    pandas.DataFrame
        A row per value, and per set of mixtures of that K if there are several: `dataset`, `n_clusters`, `p`,
        `m`, `model`, `score`, `mean`, `se`, `n`, `published`, `difference` (cube minus published), `z`
        (difference by √2 standard errors, 0 where both print alike), `verdict`.
    """
    means = {(row.dataset, *_place(row)): row for row in summary.itertuples()}
    rows = []
    for value in published:
        names = [
            p.name for p in plans.values() if p.mixtures is not None and p.n_clusters == value.n_clusters
        ]
        rows += [_judged(value, name, means.get((name, *_place(value)))) for name in names or [""]]
    return pd.DataFrame(rows)


def summarise(compared: pd.DataFrame) -> str:
    """One sentence: how many published values agree."""
    counts = compared["verdict"].value_counts()
    judged = int(sum(counts.get(word, 0) for word in JUDGED))
    text = (
        f"{counts.get(WITHIN, 0)} of {judged} published values lie within 2√2 standard errors of the mean in"
        f" this cube ({counts.get(ABOVE, 0)} means of this cube lie above, {counts.get(BELOW, 0)} below)"
    )
    rest = [f"{counts[word]} {word}" for word in (NO_ERROR, NOT_DONE, ABSENT) if word in counts]
    return f"{text}; of {len(compared)} in the table {', '.join(rest)}." if rest else f"{text}."


def entries(compared: pd.DataFrame) -> tuple[tuple[str, ...], tuple[Table, ...]]:
    """Words and tables of the comparison."""
    text = (
        summarise(compared),
        "The published means have no standard errors and come from other mixtures, so the standard error of"
        " this cube's mean is used for both: z is the difference divided by √2 times that error. Beyond ±2"
        " the mean of this cube counts as above or below; if both were means of the same quantity, about one"
        " value in twenty would.",
    )
    return text, (_totals(compared), _values(compared))


def _totals(compared: pd.DataFrame) -> Table:
    rows = []
    for (score, clusters, p), group in compared.groupby(["score", "n_clusters", "p"], sort=False):
        counts = group["verdict"].value_counts()
        numbers = [float(counts.get(word, 0)) for word in JUDGED]
        z = group.loc[group["verdict"].isin(JUDGED), "z"]
        rows.append(
            (
                words(LABELS[str(score)].short),
                number(float(clusters)),
                number(float(p), "g"),
                number(float(len(group))),
                *(number(value) for value in numbers),
                number(float(z.mean()), "+.2f"),
                number(float(np.sqrt((z**2).mean())), ".2f"),
            )
        )
    rows.sort(key=lambda row: tuple(str(value.order) for value in row[:3]))
    head = ("score", "K", "p", "values", *JUDGED, "mean z", "root mean square z")
    return Table("Verdicts", head, tuple(rows))


def _values(compared: pd.DataFrame) -> Table:
    rows = tuple(
        (
            words(row.dataset or "-"),
            number(row.p, "g"),
            number(row.n_clusters),
            number(row.m),
            words(row.model),
            words(LABELS[row.score].short),
            number(row.mean, ".4f"),
            number(row.se, ".4f"),
            number(float(row.n)),
            number(row.published, ".4f"),
            number(row.difference, "+.4f"),
            number(row.z, "+.2f"),
            Value(row.verdict, row.verdict, KINDS.get(row.verdict, "")),
        )
        for row in compared.itertuples()
    )
    head = ("data set", "p", "K", "m", "model", "score", "this cube", "s.e.", "mixtures", "published")
    return Table("Every value", (*head, "difference", "z", "verdict"), rows)


def _place(row: Any) -> tuple[object, ...]:
    """What a mean is of; a model without annotations has one value for all p and m."""
    over = (None, None) if row.model in BASELINES or pd.isna(row.p) else (round(row.p, 9), row.m)
    return (*over, row.model, row.score)


def _judged(value: Published, dataset: str, found: object) -> dict[str, object]:
    mean, se, n = (float(getattr(found, key, math.nan)) for key in ("mean", "se", "n"))
    row = {
        "dataset": dataset,
        "n_clusters": value.n_clusters,
        "p": value.p,
        "m": value.m,
        "model": value.model,
        "score": value.score,
        "mean": mean,
        "se": se,
        "n": 0 if math.isnan(n) else int(n),
        "published": value.value,
        "difference": mean - value.value,
        "z": _z(value, mean, se),
    }
    return {**row, "verdict": _verdict(value, found is not None, mean, se)}


def _prints_alike(value: Published, mean: float) -> bool:
    """Whether the mean, rounded to the digits of the published value, equals it: then no error is needed."""
    return not math.isnan(mean) and round(mean, value.digits) == value.value


def _z(value: Published, mean: float, se: float) -> float:
    if _prints_alike(value, mean):
        return 0.0
    return (mean - value.value) / (math.sqrt(2) * se) if se > 0 else math.nan


def _verdict(value: Published, there: bool, mean: float, se: float) -> str:
    if math.isnan(mean):
        return NOT_DONE if there else ABSENT
    if _prints_alike(value, mean):
        return WITHIN
    if math.isnan(se):
        return NO_ERROR
    if abs(mean - value.value) <= LIMIT * se:
        return WITHIN
    return ABOVE if mean > value.value else BELOW


def draw_verdicts(compared: pd.DataFrame) -> Figure | None:
    """Draw z of every value: a row of panels per score, a column per accuracy, the digit of K in each point.

    Parameters
    ----------
    compared : pandas.DataFrame
        From `pipeline.report.sections.against.compare`.

    Returns
    -------
    Figure or None
        None if no value has a z.
    """
    rows = compared[compared["z"].notna()]
    if rows.empty:
        return None
    scores = list(rows["score"].unique())
    accuracies = spread(sorted(rows["p"].unique()), MOST_ACCURACIES)
    figure, grid = accuracy_panels(len(scores), accuracies, PANEL, share="all")
    models = list(rows["model"].unique())
    for line, score in zip(grid, scores, strict=True):
        for axes, p in zip(line, accuracies, strict=True):
            _panel(axes, rows[(rows["score"] == score) & (rows["p"] == p)], models)
            axes.tick_params(labelbottom=True, labelleft=True)
        line[0].set_ylabel(f"{LABELS[score].short.partition(',')[0]}: z, this cube less published")
    grid[0][0].set_yscale("symlog", linthresh=LINEAR)
    most = max(LINEAR, float(rows["z"].abs().max()))
    grid[0][0].set_yticks([z for z in TICKS if abs(z) <= most], [f"{z:g}" for z in TICKS if abs(z) <= most])
    grid[0][0].minorticks_off()
    legend(figure, [], (_entry(model) for model in models))
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    axes.axhspan(-Z_LIMIT, Z_LIMIT, color=GREY, alpha=0.14, linewidth=0)
    axes.axhline(0, color=GREY, linewidth=1)
    counts = sorted(rows["m"].unique())
    step = min((right - left for left, right in pairwise(counts)), default=1)
    supervised = [model for model in models if model not in BASELINES]
    for (model, clusters), points in rows.groupby(["model", "n_clusters"], sort=True):
        place = supervised.index(str(model)) - (len(supervised) - 1) / 2 if model in supervised else 0
        across = points["m"].to_numpy(dtype=float) + place * APART * step
        color = mark(str(model)).color
        axes.plot(across, points["z"], "o", markersize=9, markerfacecolor=PAPER, markeredgecolor=color)
        for x, y in zip(across, points["z"], strict=True):
            axes.text(x, y, str(clusters), color=color, fontsize=7.5, ha="center", va="center_baseline")
    axes.grid(axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))


def _entry(model: str) -> Line2D:
    return Line2D([], [], color=mark(model).color, marker="s", linestyle="", label=model)
