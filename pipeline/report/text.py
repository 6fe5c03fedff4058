"""The report of a cube as text for a terminal: how much is there, then the tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from pipeline.report.designs.lines import design_lines
from pipeline.report.parts.ink import short
from pipeline.report.parts.wording import count_of, names
from pipeline.report.searches.lines import search_lines
from pipeline.report.sections.content import Content
from pipeline.report.sections.heading import of_one, scaling, without_data
from pipeline.report.winners.lines import winner_lines
from pipeline.scoring.ranking import RANKED
from pipeline.scoring.scores import LABELS, QUALITIES
from pipeline.scoring.tables import TOO_FEW, choice_table, pooled_means, prediction_table, written_counts
from pipeline.text import cells_left_out, plural
from storage.cube.manifest import Manifest
from storage.cube.schema import NO_SOLUTION, STATUS_WORDS
from sweeps.shapes import CANDIDATES

TITLES = {name: LABELS[name].short for name in QUALITIES}
"""Scores of the text tables; the objective, which compares within one cell only, is in the CSV files."""

Written = Mapping[tuple[str, int], str]
"""How the sweep file writes each m."""

OBJECTIVES = "Objectives, which the CSV files hold, compare within one model on one data set only."

WIDTH, LABEL, COUNT, COLUMN = 100, 16, 7, 25
"""Widths of the text tables, and of their columns."""
MODELS_ACROSS = 3
"""A table of more models continues below."""


def render(content: Content) -> str:
    """Text of a report: how much is there, who wins, what choosing pairs gains, then the tables."""
    manifest, cells, summary, written = content.manifest, content.cells, content.summary, content.written
    head = _head(manifest, content.all_cells)
    for line in of_one(manifest, content.chosen):
        head += "\n" + textwrap.fill(line, WIDTH)
    parts = [head, "\n".join(winner_lines(content.rankings, cells, WIDTH))]
    parts.append("\n".join(design_lines(content.designs)))
    parts.append("\n".join(search_lines(content.searches, WIDTH)))
    parts += [_pooled(manifest, summary, score) for score in RANKED]
    for (dataset, p), rows in summary[summary["p"].notna()].groupby(["dataset", "p"], sort=False):
        baseline = summary[(summary["dataset"] == dataset) & summary["p"].isna()]
        told = "told p" if manifest.plans[str(dataset)].n_annotations else "p"
        title = f"{_size(manifest, str(dataset))}, {told} = {p:g}, s.e. over {names(rows['unit'])}"
        parts.append("\n".join(_block(title, rows, baseline, written)))
    alone = [name for name, plan in manifest.plans.items() if not plan.supervised]
    for dataset in alone:
        rows = summary[summary["dataset"] == dataset]
        parts.append("\n".join(_block(_alone(manifest, dataset), rows.iloc[:0], rows, written)))
    parts.append("\n".join(_choices(choice_table(cells), written)))
    if any(plan.held_out for plan in manifest.plans.values()):
        parts.append("\n".join(_predictions(prediction_table(cells), written)))
    return "\n\n".join(filter(None, parts)) + "\n"


def _head(manifest: Manifest, cells: pd.DataFrame) -> str:
    spec, counts = manifest.spec, cells["status"].value_counts()
    without = STATUS_WORDS[NO_SOLUTION]
    words = ["done", "failed", "pending", *([without] if without in counts else [])]
    missing = cells_left_out(spec, manifest.skipped)
    beside, total = f", {missing:,} left out," if missing else "", len(cells) + missing
    lines = [
        f"sweep {spec.name}, seed {spec.seed}, features scaled: {scaling(manifest)}",
        f"cube {manifest.path}",
        f"cells: {', '.join(f'{counts.get(word, 0):,} {word}' for word in words)}{beside} of {total:,}",
    ]
    if (gone := without_data(manifest)) is not None:
        lines += textwrap.wrap(gone, WIDTH, subsequent_indent="  ")
    if manifest.runs:
        lines += _last_run(manifest)
    lines.append(OBJECTIVES)
    if counts.get("done", 0) + counts.get(without, 0) != len(cells):
        lines.append("This sweep is not complete: every number below is over the cells that are done.")
    return "\n".join(lines)


def _last_run(manifest: Manifest) -> list[str]:
    run = manifest.runs[-1]
    fingerprint = run.fingerprint
    versions = ", ".join(
        f"{name} {fingerprint[name]}" for name in ("sweep", "numba", "numpy") if name in fingerprint
    )
    ordinal = "run 1" if len(manifest.runs) == 1 else f"the last of {len(manifest.runs)} runs"
    lines = [f"{ordinal}: started {run.started} on {run.host}"]
    if versions:
        lines.append(f"  {versions}, {fingerprint.get('cpu', 'unknown CPU')}")
    return lines


def _alone(manifest: Manifest, dataset: str) -> str:
    drawn = manifest.plans[dataset].mixtures is not None
    return f"{_size(manifest, dataset)}{', s.e. over mixtures' if drawn else ''}"


def _size(manifest: Manifest, dataset: str) -> str:
    plan = manifest.plans[dataset]
    mixtures = f" × {plural(plan.mixtures, 'mixture')}" if plan.mixtures is not None else ""
    own = f", m of {plural(plan.n_annotations, 'annotation')} of a file" if plan.n_annotations else ""
    return f"{dataset}: N = {plan.n_samples}, D = {plan.n_features}, K = {plan.n_clusters}{mixtures}{own}"


def _pooled(manifest: Manifest, summary: pd.DataFrame, score: str) -> str:
    """Mean of a score over the real data sets, where there are several."""
    real = [name for name, plan in manifest.plans.items() if plan.mixtures is None]
    rows = summary[summary["dataset"].isin(real)]
    pooled = pooled_means(rows, written_counts(manifest.plans, manifest.spec.grid.m), score)
    if pooled.empty or pooled["n_datasets"].max() < 2:
        return ""
    lines = [f"{LABELS[score].short}, mean over real data sets (number of them)"]
    for models in _across(sorted(pooled["model"].unique())):
        lines.append(_row("", "m", models))
        for (p, m), group in pooled.groupby(["p", "m"], sort=False):
            found = {row.model: f"{row.mean:.4f} ({row.n_datasets})" for row in group.itertuples()}
            lines.append(_row(f"p = {p:g}", str(m), [found.get(model, "-") for model in models]))
    alone = rows[rows["p"].isna() & (rows["score"] == score) & rows["mean"].notna()]
    for baseline, levels in alone.groupby("model", sort=True)["mean"]:
        lines.append(f"{baseline}: {levels.mean():.4f} ({len(levels)})")
    return "\n".join(lines)


def _block(title: str, rows: pd.DataFrame, baseline: pd.DataFrame, written: Written) -> Iterator[str]:
    """Lines of one table: a row per score and m, a column per model."""
    yield title
    for models in _across(sorted(baseline["model"].unique()) + sorted(rows["model"].unique())):
        yield from _columns(rows, baseline, models, written)
    yield from _gaps(pd.concat([baseline, rows]), written)


def _choices(table: pd.DataFrame, written: Written) -> Iterator[str]:
    """Lines on the shapes that cells chose; none without a model that chooses."""
    if table.empty:
        return
    yield "shapes of covariances chosen (cells), and held-out annotations predicted by the shape chosen"
    yield _choice_row("data set", "p", "m", "model", *CANDIDATES, TOO_FEW, "predicted", "log loss")
    for row in table.itertuples():
        yield _choice_row(
            row.dataset,
            f"{row.p:g}",
            count_of(written, row.dataset, row.m),
            row.model,
            *(str(getattr(row, name)) for name in (*CANDIDATES, "too_few")),
            *_predicted(row),
        )


def _predictions(table: pd.DataFrame, written: Written) -> Iterator[str]:
    """Lines on how well each model predicted held-out annotations."""
    yield "held-out annotations predicted (means over cells), and their log loss in nats"
    yield _choice_row("data set", "p", "m", "model", "cells", TOO_FEW, "predicted", "log loss")
    for row in table.itertuples():
        counts = str(row.n), str(row.too_few)
        m = count_of(written, row.dataset, row.m)
        yield _choice_row(row.dataset, f"{row.p:g}", m, row.model, *counts, *_predicted(row))


def _predicted(row: Any) -> tuple[str, str]:
    share = "-" if pd.isna(row.predicted) else f"{row.predicted:.0%}"
    return share, "-" if pd.isna(row.log_loss) else f"{row.log_loss:.3f}"


def _choice_row(*fields: str) -> str:
    """Name, p, m, model, then counts, of which there may be fewer, and last what was predicted."""
    counts, ends = (10, 9, 5, 5, 8), (10, 9)
    widths = (5, 6, 21, 10, 10, *ends) if len(fields) < 9 else (5, 6, 17, *counts, *ends)
    rest = zip(fields[1:], widths, strict=True)
    return f"{short(fields[0]):<{LABEL}.{LABEL}}" + "".join(f"{text:>{width}}" for text, width in rest)


def _across(models: list[str]) -> list[list[str]]:
    """Models side by side, as many as a line takes."""
    return [models[start : start + MODELS_ACROSS] for start in range(0, len(models), MODELS_ACROSS)]


def _columns(
    rows: pd.DataFrame, baseline: pd.DataFrame, models: list[str], written: Written
) -> Iterator[str]:
    """Lines of some columns of a table, baselines before the others."""
    alone = set(baseline["model"])
    supervised = [model for model in models if model not in alone]
    yield _row("mean ± s.e. (median)", "m", models, join=True)
    for score, label in TITLES.items():
        levels = baseline[baseline["score"] == score]
        level = [_cell(levels[levels["model"] == model]) for model in models if model in alone]
        found = rows[(rows["score"] == score) & rows["model"].isin(supervised)]
        if found.empty and set(level) - {"-"}:
            yield _row(label, "", level)
        for m, group in found.groupby("m", sort=True):
            values = [_cell(group[group["model"] == model]) for model in supervised]
            count = count_of(written, group["dataset"].iloc[0], m)
            yield _row(label, count, [*level, *values])
            label, level = "", [""] * len(level)


def _gaps(rows: pd.DataFrame, written: Written) -> Iterator[str]:
    """Which means leave out cells that are done: a line per score, broken where it grows too wide."""
    gaps = rows[rows["n_missing"] > 0]
    for score, label in TITLES.items():
        found = [
            f"{_column(row, written)}: {row.n_missing} of {row.n_cells}"
            for row in gaps[gaps["score"] == score].itertuples()
        ]
        if found:
            reason = "the baseline is not done" if score == "relative_nmi" else "it is not defined"
            line = f"{label} leaves out cells where {reason} ({'; '.join(found)})"
            yield from textwrap.wrap(line, WIDTH, initial_indent="  ", subsequent_indent="    ")


def _column(row: Any, written: Written) -> str:
    m = "" if pd.isna(row.m) else f" m = {count_of(written, row.dataset, row.m)}"
    return f"{row.model}{m}"


def _cell(rows: pd.DataFrame) -> str:
    if rows.empty or rows["n"].iloc[0] == 0:
        return "-"
    mean, se, median = (rows[name].iloc[0] for name in ("mean", "se", "median"))
    error = "-" if pd.isna(se) else f"{se:.3f}"
    return f"{mean:.3f} ± {error} ({median:.3f})"


def _row(label: str, m: str, values: list[str], *, join: bool = False) -> str:
    lead = f"{label:<{LABEL + COUNT - 1 - len(m)}} {m}" if join else f"{label:<{LABEL}}{m:>{COUNT}}"
    return (lead + "".join(f"{value:>{COLUMN}}" for value in values)).rstrip()
