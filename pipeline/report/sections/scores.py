"""Tables of scores: mixtures in the layout of the paper, real data sets a row per number of annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import pandas as pd

from pipeline.report.parts.parts import (
    NOTHING,
    Section,
    Table,
    Value,
    mean_and_error,
    number,
    shape_groups,
    spans,
    words,
)
from pipeline.report.sections.content import Content
from pipeline.scoring.catalogue import LABELS, QUALITIES
from pipeline.scoring.tables import pooled_means
from pipeline.scoring.winners.common import RANKED
from pipeline.text import plural
from sweeps.file.datasets import base_name
from sweeps.models import baseline_of
from sweeps.plan import DatasetPlan

ALONE = -1.0
"""Accuracy of a baseline, which has none, as a key."""
PAPER_SCORES = (*RANKED, "goldberger_kl")


def section(content: Content) -> Section:
    """Every table of scores."""
    text = f"Objectives compare within one model on one data set only. {_undefined(content.summary)}"
    tables = score_tables(content.summary, content.manifest.plans, content.written)
    return Section("scores", "Scores", (text,), tuple(tables))


def _undefined(summary: pd.DataFrame) -> str:
    missing = int(summary["n_missing"].sum())
    if not missing:
        return "Every score of every cell that is done is defined."
    left = f"{plural(missing, 'score')} of cells that are done {'is' if missing == 1 else 'are'} left"
    return (
        f"{left} out of the means: the divergence of a degenerate cluster is not defined, and relative NMI"
        " needs the baseline. summary.csv counts them."
    )


@dataclass(frozen=True)
class Means:
    """Means of a cube by their coordinates.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `pipeline.scoring.tables.summary_table`.
    """

    summary: pd.DataFrame
    alone: frozenset[str] = field(init=False)  # models and methods without annotations
    _found: dict[tuple[str, str, float, int, str], tuple[float, float]] = field(init=False)

    def __post_init__(self) -> None:
        found = {}
        for row in self.summary.itertuples():
            p, m = (ALONE, 0) if pd.isna(row.p) else (row.p, row.m)
            found[row.score, row.dataset, p, m, row.model] = (float(row.mean), float(row.se))
        object.__setattr__(self, "_found", found)
        alone = self.summary.loc[self.summary["p"].isna(), "model"]
        object.__setattr__(self, "alone", frozenset(alone))

    def entry(self, score: str, dataset: str, p: float, m: int, model: str) -> Value:
        """Entry of a table; baselines have neither p nor m."""
        key = (score, dataset, ALONE, 0, model) if model in self.alone else (score, dataset, p, m, model)
        mean, se = self._found.get(key, (float("nan"), float("nan")))
        return mean_and_error(mean, se)

    def models(self, score: str, datasets: Iterable[str]) -> list[str]:
        """Models that have a value of the score, baselines first."""
        rows = self.summary[(self.summary["score"] == score) & self.summary["dataset"].isin(list(datasets))]
        return sorted(rows["model"].unique(), key=lambda model: (model not in self.alone, model))


def score_tables(
    summary: pd.DataFrame, plans: Mapping[str, DatasetPlan], written: Mapping[tuple[str, int], str]
) -> list[Table]:
    """All tables of a cube.

    Parameters
    ----------
    summary : pandas.DataFrame
        From `pipeline.scoring.tables.summary_table`.
    plans : mapping of str to DatasetPlan
        Grid of each data set.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.
    """
    means = Means(summary)
    tables = list(_paper_tables(means, plans))
    for score in RANKED:
        tables += _pooled(summary, plans, written, score)
    tables += _real_tables(means, plans, written)
    tables += _baseline_table(means, plans)
    return tables


def families(plans: Mapping[str, DatasetPlan]) -> dict[str, list[DatasetPlan]]:
    """Sets of mixtures that differ in K alone, by the name they have in the sweep file."""
    found: dict[str, list[DatasetPlan]] = {}
    for plan in plans.values():
        if plan.mixtures is not None and plan.supervised:
            found.setdefault(base_name(plan.name, plan.n_clusters), []).append(plan)
    return {name: sorted(group, key=lambda plan: plan.n_clusters) for name, group in found.items()}


def _paper_tables(means: Means, plans: Mapping[str, DatasetPlan]) -> Iterator[Table]:
    for name, group in families(plans).items():
        for p in sorted({p for plan in group for p in plan.p}):
            for shape, models in shape_groups(model for plan in group for model in plan.models).items():
                yield _paper_table(means, _titled(f"{name}, p = {p:g}", shape), group, p, models)


def _titled(title: str, shape: str) -> str:
    """Title of a table, with the shape that all of its models have, if they are one of several groups."""
    return f"{title}, {shape} covariances" if shape else title


def _paper_table(means: Means, title: str, group: list[DatasetPlan], p: float, models: list[str]) -> Table:
    """Rows m, columns score × K × model; m = 0 is the baseline of the model's shape."""
    of_plan = {plan.name: [model for model in models if model in plan.models] for plan in group}
    columns = [
        (score, plan, model) for score in PAPER_SCORES for plan in group for model in of_plan[plan.name]
    ]
    rows = []
    for m in sorted({0, *(m for plan in group for m in plan.m)}):
        entries = [
            means.entry(score, plan.name, p, m, model if m else baseline_of(model))
            for score, plan, model in columns
        ]
        rows.append((number(m), *entries))
    heads = spans(["", *(LABELS[score].short for score, _, _ in columns)])
    clusters = tuple(
        (f"K = {plan.n_clusters}", len(of_plan[plan.name]))
        for _ in PAPER_SCORES
        for plan in group
        if of_plan[plan.name]
    )
    counts = ", ".join(f"{plan.mixtures} at K = {plan.n_clusters}" for plan in group)
    return Table(
        title,
        ("m", *(model for _, _, model in columns)),
        tuple(rows),
        (heads, (("", 1), *clusters)),
        f"Mean ± standard error over mixtures ({counts}), each of them a mean over its redraws first."
        " m = 0 is the model without annotations.",
    )


def _pooled(
    summary: pd.DataFrame,
    plans: Mapping[str, DatasetPlan],
    written: Mapping[tuple[str, int], str],
    score: str,
) -> Iterator[Table]:
    real = [name for name, plan in plans.items() if plan.mixtures is None]
    rows = summary[summary["dataset"].isin(real)]
    pooled = pooled_means(rows, written, score)
    if pooled.empty or pooled["n_datasets"].max() < 2:
        return
    models = sorted(pooled["model"].unique())
    body = []
    for (p, m), group in pooled.groupby(["p", "m"], sort=False):
        found = {row.model: row for row in group.itertuples()}
        entries = [
            Value(f"{found[model].mean:.4f} ({found[model].n_datasets})", found[model].mean)
            if model in found
            else NOTHING
            for model in models
        ]
        body.append((number(p, "g"), words(m), *entries))
    levels = rows[rows["p"].isna() & (rows["score"] == score) & rows["mean"].notna()]
    note = "; ".join(
        f"{model}: {group['mean'].mean():.4f} ({len(group)})" for model, group in levels.groupby("model")
    )
    title = f"Real data sets: mean of their mean {LABELS[score].short} (number of data sets)"
    yield Table(title, ("p", "m", *models), tuple(body), note=note)


def _real_tables(
    means: Means, plans: Mapping[str, DatasetPlan], written: Mapping[tuple[str, int], str]
) -> Iterator[Table]:
    real = [plan for plan in plans.values() if plan.mixtures is None and plan.supervised]
    names = [plan.name for plan in real]
    every = [(score, model) for score in QUALITIES for model in means.models(score, names)]
    if not every:
        every = [("annotation_agreement", model) for plan in real[:1] for model in sorted(plan.models)]
    groups = shape_groups(model for _, model in every)
    for p, shape in product(sorted({p for plan in real for p in plan.p}), groups):
        rows = []
        columns = [(score, model) for score, model in every if model in groups[shape]]
        for plan in real:
            for m in sorted(plan.m):
                entries = [means.entry(score, plan.name, p, m, model) for score, model in columns]
                count = Value(f"{m} ({written[plan.name, m]})" if (plan.name, m) in written else str(m), m)
                rows.append((words(plan.name), count, *entries))
        heads = spans(["", "", *(LABELS[score].short for score, _ in columns)])
        head = ("data set", "m", *(model for _, model in columns))
        counts = sorted({plan.replicates for plan in real})
        redraws = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        note = f"Mean ± standard error over redraws of the annotations ({redraws})."
        yield Table(_titled(f"Real data sets, p = {p:g}", shape), head, tuple(rows), (heads,), note)


def _baseline_table(means: Means, plans: Mapping[str, DatasetPlan]) -> Iterator[Table]:
    names = [name for name, plan in plans.items() if plan.baselines]
    scores = (*PAPER_SCORES, "centroid_index", "objective")
    columns = [
        (score, model) for score in scores for model in means.models(score, names) if model in means.alone
    ]
    if names and columns:
        rows = tuple(
            (words(name), *(means.entry(score, name, ALONE, 0, model) for score, model in columns))
            for name in names
        )
        heads = spans(["", *(LABELS[score].short for score, _ in columns)])
        head = ("data set", *(model for _, model in columns))
        note = "Mean ± standard error over mixtures. Nothing draws a real data set again: one cell, no error."
        yield Table("Without annotations", head, rows, (heads,), note)
