"""Tables of scores, one for each of them: mixtures as in the paper, real data sets a row per p and m."""

from __future__ import annotations

import math
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
    words,
)
from pipeline.report.parts.wording import count_of
from pipeline.report.sections.content import Content
from pipeline.scoring.ranking import RANKED
from pipeline.scoring.scores import LABELS, QUALITIES
from pipeline.scoring.tables import pooled_means
from pipeline.text import plural
from sweeps.file.datasets import base_name
from sweeps.models import baseline_of
from sweeps.plan import DatasetPlan

ALONE = -1.0
"""Accuracy of a baseline, which has none, as a key."""
DIGITS, PAPER_DIGITS = 3, 4
"""Of a score; the published ones have four."""
MOST_MODELS = 9
"""Columns of models that fit a page."""
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

    def entry(
        self, score: str, dataset: str, p: float, m: int, model: str, digits: int = PAPER_DIGITS
    ) -> Value:
        """Entry of a table; baselines have neither p nor m."""
        key = (score, dataset, ALONE, 0, model) if model in self.alone else (score, dataset, p, m, model)
        mean, se = self._found.get(key, (float("nan"), float("nan")))
        return mean_and_error(mean, se, digits)

    def models(self, score: str, datasets: Iterable[str], *, alone: bool = False) -> list[str]:
        """Models that have a value of the score, baselines first, or these alone."""
        rows = self.summary[(self.summary["score"] == score) & self.summary["dataset"].isin(list(datasets))]
        found = [model for model in rows["model"].unique() if model in self.alone or not alone]
        return sorted(found, key=lambda model: (model not in self.alone, model))


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
    shown = [score for score in QUALITIES if (summary["score"] == score).any()] or ["annotation_agreement"]
    tables: list[Table] = []
    for score in shown:
        if score in RANKED:
            tables += _pooled(summary, plans, written, score)
        tables += _real_tables(means, plans, written, score)
        if score in PAPER_SCORES:
            tables += _paper_tables(means, plans, written, score)
    tables += _baseline_table(means, plans)
    return tables


def families(plans: Mapping[str, DatasetPlan]) -> dict[str, list[DatasetPlan]]:
    """Sets of mixtures that differ in K alone, by the name they have in the sweep file."""
    found: dict[str, list[DatasetPlan]] = {}
    for plan in plans.values():
        if plan.mixtures is not None and plan.supervised:
            found.setdefault(base_name(plan.name, plan.n_clusters), []).append(plan)
    return {name: sorted(group, key=lambda plan: plan.n_clusters) for name, group in found.items()}


def _paper_tables(
    means: Means, plans: Mapping[str, DatasetPlan], written: Mapping[tuple[str, int], str], score: str
) -> Iterator[Table]:
    for name, group in families(plans).items():
        for p in sorted({p for plan in group for p in plan.p}):
            every = sorted({model for plan in group for model in plan.models})
            for part, models in _beside(every).items():
                title = f"{LABELS[score].short}: {name}, p = {p:g}{part}"
                yield _paper_table(means, title, group, p, models, written, score)


def _beside(models: Iterable[str]) -> dict[str, list[str]]:
    """Models in tables that fit a page, in equal shares, by what is added to the title of each."""
    found = list(models)
    count = max(1, math.ceil(len(found) / MOST_MODELS))
    parts = [found[len(found) * k // count : len(found) * (k + 1) // count] for k in range(count)]
    if count == 1:
        return {"": found}
    return {f", {part[0]} to {part[-1]}": part for part in parts}


def _paper_table(
    means: Means,
    title: str,
    group: list[DatasetPlan],
    p: float,
    models: list[str],
    written: Mapping[tuple[str, int], str],
    score: str,
) -> Table:
    """Rows m, columns K × model; m = 0 is the baseline of the model's shape."""
    of_plan = {plan.name: [model for model in models if model in plan.models] for plan in group}
    columns = [(plan, model) for plan in group for model in of_plan[plan.name]]
    rows = []
    for m in sorted({0, *(m for plan in group for m in plan.m)}):
        entries = [
            means.entry(score, plan.name, p, m, model if m else baseline_of(model)) for plan, model in columns
        ]
        texts = [written[plan.name, m] for plan in group if (plan.name, m) in written]
        rows.append((Value((texts or [str(m)])[0], m), *entries))
    clusters = tuple(
        (f"K = {plan.n_clusters}", len(of_plan[plan.name])) for plan in group if of_plan[plan.name]
    )
    counts = ", ".join(f"{plan.mixtures} at K = {plan.n_clusters}" for plan in group)
    return Table(
        title,
        ("m", *(model for _, model in columns)),
        tuple(rows),
        ((("", 1), *clusters),),
        f"Mean ± standard error over mixtures ({counts}), each of them a mean over its redraws first."
        " m = 0 is the model without annotations.",
        pinned=True,
        folded=score not in RANKED,
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
    levels = rows[rows["p"].isna() & (rows["score"] == score) & rows["mean"].notna()]
    note = "In brackets: data sets. " + "; ".join(
        f"{model}: {group['mean'].mean():.{DIGITS}f} ({len(group)})"
        for model, group in levels.groupby("model")
    )
    for part, models in _beside(sorted(pooled["model"].unique())).items():
        body = []
        for (p, m), group in pooled.groupby(["p", "m"], sort=False):
            found = {row.model: row for row in group.itertuples()}
            entries = [
                Value(f"{found[model].mean:.{DIGITS}f} ({found[model].n_datasets})", found[model].mean)
                if model in found
                else NOTHING
                for model in models
            ]
            body.append((number(p, "g"), words(m), *entries))
        title = f"{LABELS[score].short}: mean over real data sets{part}"
        yield Table(title, ("p", "m", *models), tuple(body), note=note, pinned=True)


def _real_tables(
    means: Means, plans: Mapping[str, DatasetPlan], written: Mapping[tuple[str, int], str], score: str
) -> Iterator[Table]:
    """Rows data set, p and m, columns models."""
    real = [plan for plan in plans.values() if plan.mixtures is None and plan.supervised]
    if not real:
        return
    counts = sorted({plan.replicates for plan in real})
    for part, models in _beside(means.models(score, [plan.name for plan in real])).items():
        rows = [
            (
                words(plan.name),
                number(p, "g"),
                Value(count_of(written, plan.name, m), m),
                *(means.entry(score, plan.name, p, m, model, DIGITS) for model in models),
            )
            for plan in real
            for p, m in product(sorted(plan.p), sorted(plan.m))
        ]
        redraws = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        title = f"{LABELS[score].short}: real data sets{part}"
        note = f"Mean ± standard error over redraws of the annotations ({redraws})."
        head = ("data set", "p", "m", *models)
        yield Table(title, head, tuple(rows), note=note, pinned=True, folded=score not in RANKED)


def _baseline_table(means: Means, plans: Mapping[str, DatasetPlan]) -> Iterator[Table]:
    """Rows data set and model, columns scores."""
    names = [name for name, plan in plans.items() if plan.baselines]
    scores = [
        score
        for score in (*PAPER_SCORES, "centroid_index", "objective")
        if means.models(score, names, alone=True)
    ]
    if names and scores:
        models = dict.fromkeys(model for score in scores for model in means.models(score, names, alone=True))
        rows = tuple(
            (
                words(name),
                words(model),
                *(means.entry(score, name, ALONE, 0, model, DIGITS) for score in scores),
            )
            for name in names
            for model in models
        )
        head = ("data set", "model", *(LABELS[score].short for score in scores))
        note = "Mean ± standard error over mixtures. Nothing draws a real data set again: one cell, no error."
        yield Table("Without annotations", head, rows, note=note, pinned=True)
