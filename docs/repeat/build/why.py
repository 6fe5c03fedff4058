"""Explain differences from published values: other mixtures, fewer restarts, another scaling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from claims import MODELS
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sweep_clustering.pipeline.common import SAME_OPTIMUM
from sweep_clustering.pipeline.looks import BLUE, INK, VERMILLION, mark
from sweep_clustering.pipeline.report.figures import legend, panels
from sweep_clustering.pipeline.report.scores import LIMIT
from sweep_clustering.pipeline.scoring.tables import KEYS, over_units, unit_of

# Draws of fifty mixtures among those at hand, which show how far a mean of fifty may lie.
DRAWS = 10_000


def same_cells(cells: pd.DataFrame, row: Any) -> pd.DataFrame:
    """Return the cells whose mean is a compared value; a baseline has neither p nor m."""
    rows = cells[(cells["n_clusters"] == row.n_clusters) & (cells["model"] == row.model)]
    return rows[rows["p"].isna() | ((rows["p"] == row.p) & (rows["m"] == row.m))]


def values_elsewhere(
    against: pd.DataFrame, other_cells: pd.DataFrame, single: pd.DataFrame
) -> Iterator[dict[str, Any]]:
    """Yield the values that differ, with those of other mixtures and of single restarts.

    Parameters
    ----------
    against : pandas.DataFrame
        Published means beside the repeated ones.
    other_cells : pandas.DataFrame
        Cells of other mixtures, at some of the grid's places.
    single : pandas.DataFrame
        Cells of the same mixtures with one restart, at some accuracies.

    Yields
    ------
    dict
        The compared value; the mean and the standard error over `n` other mixtures; `share`, the share of
        draws of fifty of them whose mean is at least as far on the published side; `given`, the same share
        among draws that are as hard as the published mixtures without annotations; and the mean of single
        restarts. Unknown values are NaN.
    """
    keys = set()
    for row in against[against["verdict"].isin(["above", "below"])].itertuples():
        p = row.p if row.m else None  # the tables repeat the baseline
        values = by_mixture(other_cells, row)
        if not len(values) or (key := (row.score, row.n_clusters, p, row.m, row.model)) in keys:
            continue
        keys.add(key)
        draws = np.random.default_rng(0).integers(0, len(values), (DRAWS, 50))
        sign = np.sign(row.published - row.mean)
        is_beyond = sign * (values[draws].mean(axis=1) - row.published) >= 0
        is_hard = hard_draws(against, other_cells, row.n_clusters, draws)
        yield {
            **row._asdict(),
            "p": p,
            "n": len(values),
            "elsewhere": values.mean(),
            "elsewhere_se": values.std(ddof=1) / np.sqrt(len(values)),
            "share": is_beyond.mean(),
            "given": is_beyond[is_hard].mean() if is_hard.any() and p else np.nan,
            "single": same_cells(single, row)[row.score].mean(),
        }


def by_mixture(cells: pd.DataFrame, row: Any) -> NDArray[np.float64]:
    """Return the scores behind a compared value, in the order of mixtures."""
    return same_cells(cells, row).sort_values("mixture")[row.score].to_numpy(dtype=float)


def hard_draws(
    against: pd.DataFrame, other_cells: pd.DataFrame, n_clusters: int, draws: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which draws have a KL without annotations of at least the published one."""
    rows = against[(against["n_clusters"] == n_clusters) & (against["m"] == 0)]
    row = next(rows[rows["score"] == "goldberger_kl"].itertuples())
    values = by_mixture(other_cells, row)
    if not len(values):
        return np.zeros(len(draws), dtype=bool)
    return np.asarray(values[draws].mean(axis=1) >= row.published)


def by_direction(against: pd.DataFrame, direction: pd.DataFrame) -> dict[str, int]:
    """Count the published KL values within 2√2 standard errors by the direction of the divergence."""
    published = against[(against["score"] == "goldberger_kl") & (against["m"] > 0)]
    rows = published.merge(direction, on=["n_clusters", "p", "m", "model"])
    counts = {"all": len(rows)}
    for name in ("of_solution", "of_truth"):
        distance = (rows[f"{name}_mean"] - rows["published"]).abs()
        counts[name] = int((distance <= LIMIT * rows[f"{name}_sem"]).sum())
    return counts


def changes(cells: pd.DataFrame, other: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the changes by another search, cell by cell.

    Parameters
    ----------
    cells, other : pandas.DataFrame
        The same cells by the published search and by another one.

    Yields
    ------
    dict
        `dataset`, `model`, number of `cells`, in how many the other objective is `better` or `worse` by more
        than `SAME_OPTIMUM`, its mean change, the change of each score with its standard error over mixtures
        or redraws, and the ratio of times.
    """
    pairs = cells.merge(other, on=list(KEYS), suffixes=("", "_other"))
    for (dataset, model), rows in pairs.groupby(["dataset", "model"], sort=False):
        if len(rows) == 1:  # the baseline of a real data set
            continue
        gain = rows["objective_other"] - rows["objective"]
        entry: dict[str, Any] = {"dataset": dataset, "model": model, "cells": len(rows)}
        entry |= {
            "better": (gain > SAME_OPTIMUM).sum(),
            "worse": (gain < -SAME_OPTIMUM).sum(),
            "gain": gain.mean(),
        }
        entry["time"] = rows["seconds_other"].sum() / rows["seconds"].sum()
        for score in ("nmi", "goldberger_kl"):
            change = (rows[f"{score}_other"] - rows[score]).rename(score).to_frame()
            means = over_units(change, pd.Series(0, rows.index), unit_of(rows))
            mean, error = means.mean[score].item(), means.se[score].item()
            entry[score] = f"{round(mean, 4) + 0.0:+.4f} ± {error:.4f}"
        yield entry


def three_ways(against: pd.DataFrame, stronger: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield mean NMI at p = 1.0 as published, by the same search, and by a stronger one.

    Parameters
    ----------
    against : pandas.DataFrame
        Published means beside the repeated ones.
    stronger : pandas.DataFrame
        Cells of the stronger search.

    Yields
    ------
    dict
        `k`, `m`, and by model the three means.
    """
    rows = against[(against["score"] == "nmi") & (against["p"] == 1.0) & (against["m"] > 0)]
    for (k, m), group in rows.groupby(["n_clusters", "m"]):
        entry: dict[str, Any] = {"k": k, "m": m}
        for row in group.itertuples():
            values = same_cells(stronger, row)["nmi"]
            entry[row.model] = (
                f"{row.published:.4f}",
                f"{row.mean:.4f} ± {row.se:.4f}",
                f"{values.mean():.4f} ± {values.sem():.4f}",
            )
        yield entry


def wins_of_truth(truth: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Count the cells in which the true labels have the larger objective.

    Parameters
    ----------
    truth : pandas.DataFrame
        The table that `truth.py` writes.

    Yields
    ------
    dict
        `data` (mixtures of one K, or an evaluation of real data), `p`, and by model, for the `published` and
        the `stronger` search, "n of m": the true labels have the larger objective in n of m cells.
    """
    rows = truth[truth["p"].notna()].copy()
    stronger = rows["sweep"].str.contains("stronger")
    rows["search"] = stronger.map({True: "stronger", False: "published"})
    scaling = rows["sweep"].str.replace(r"-(stronger|p\d+)$", "", regex=True)
    rows["data"] = rows["dataset"].where(rows["dataset"].str.startswith("mixtures"), scaling)
    for (data, p), group in rows.groupby(["data", "p"], sort=False):
        entry: dict[str, Any] = {"data": data, "p": p}
        for search in ("published", "stronger"):
            counts = group[group["search"] == search].groupby("model")[["truth_is_better", "cells"]].sum()
            texts = {model: f"{count.truth_is_better} of {count.cells}" for model, count in counts.iterrows()}
            entry[search] = {model: texts.get(model, "") for model in MODELS}
        yield entry


def draw_searches(repeated: pd.DataFrame, stronger: pd.DataFrame, against: pd.DataFrame) -> Figure:
    """Draw NMI at p = 1.0 against m by two searches, published values as crosses.

    Parameters
    ----------
    repeated, stronger : pandas.DataFrame
        Summaries of the mixtures by the published and by the stronger search.
    against : pandas.DataFrame
        Published means beside the repeated ones.
    """
    published = against[(against["p"] == 1.0) & (against["score"] == "nmi")]
    clusters = sorted(published["n_clusters"].unique())
    figure, grid = panels(len(MODELS), len(clusters), (2.6, 1.9), share="col")
    for line, model in zip(grid, MODELS, strict=True):
        for axes, k in zip(line, clusters, strict=True):
            for name, summary, color, marker in (
                ("published search", repeated, VERMILLION, "s"),
                ("stronger search", stronger, BLUE, "o"),
            ):
                rows = summary[(summary["score"] == "nmi") & (summary["p"] == 1.0)]
                rows = rows[(rows["model"] == model) & (rows["n_clusters"] == k)]
                m, mean, error = (rows[key].to_numpy(dtype=float) for key in ("m", "mean", "se"))
                axes.plot(m, mean, color=color, marker=marker, markersize=4.5, label=name)
                axes.fill_between(m, mean - error, mean + error, color=color, alpha=0.22, linewidth=0)
            crosses = published[(published["model"] == model) & (published["n_clusters"] == k)]
            axes.plot(
                crosses["m"], crosses["published"], "x", color=INK, markeredgewidth=1.5, label="published"
            )
            axes.set_title(f"K = {k}" if line is grid[0] else "")
            axes.grid()
        line[0].set_ylabel(f"{model}\nNMI (0 to 1)")
    for axes in grid[-1]:
        axes.set_xlabel("annotations m (pairs), p = 1")
    legend(figure, grid[0])
    return figure


def draw_indices(cells: pd.DataFrame, p: float) -> Figure:
    """Draw histograms of the centroid index like the published ones: a panel for each of four m.

    Parameters
    ----------
    cells : pandas.DataFrame
        Cells of the mixtures of one K.
    p : float
        Accuracy of the annotations.
    """
    counts = (0, 200, 400, 600)
    figure, (line,) = panels(1, len(counts), (2.4, 1.8), share="row")
    for axes, m in zip(line, counts, strict=True):
        rows = cells[cells["p"].isna() if m == 0 else (cells["p"] == p) & (cells["m"] == m)]
        names = sorted(rows["model"].unique())
        width = 0.8 / len(names)
        for position, model in enumerate(names):
            look = mark(model)
            heights = np.bincount(rows.loc[rows["model"] == model, "centroid_index"].to_numpy(dtype=np.int64))
            places = np.arange(len(heights)) + (position - (len(names) - 1) / 2) * width
            axes.bar(places, heights, width * 0.9, color=look.area, edgecolor=look.color, label=model)
        axes.set_title(f"m = {m}" + (", no annotations" if m == 0 else ""))
        axes.set_xlabel("centroid index")
        axes.grid(axis="y")
    line[0].set_ylabel("mixtures (number)")
    legend(figure, line)
    return figure
