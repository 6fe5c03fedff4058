"""The report of a cube: text for a terminal, tables in CSV, and the page, from whatever is there of it."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sweep_clustering.pipeline.common import Progress, cells_left_out, plural, silent
from sweep_clustering.pipeline.report import against, effort, elements, figures, scores, variants, winners
from sweep_clustering.pipeline.report.cell import choose_cell, named_cell
from sweep_clustering.pipeline.report.content import Content
from sweep_clustering.pipeline.report.elements import NOTHING, Table, Value, Written, words
from sweep_clustering.pipeline.report.page import legend, write_page
from sweep_clustering.pipeline.scoring import tables as scored
from sweep_clustering.pipeline.scoring.kinds import rank_published
from sweep_clustering.pipeline.scoring.ranking import RANKED
from sweep_clustering.pipeline.scoring.scores import LABELS, QUALITIES
from sweep_clustering.storage.cube.parts import Parts, Places, read_parts
from sweep_clustering.storage.cube.schema import NO_SOLUTION, STATUS_WORDS
from sweep_clustering.storage.cube.store import open_parts
from sweep_clustering.storage.errors import StorageError, storage_errors
from sweep_clustering.storage.provenance import PROMISE
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.lease import read_lease
from sweep_clustering.storage.runfolder.records import FailureRecord, read_failures
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, present
from sweep_clustering.sweeps.plan import Cell, DatasetPlan

logger = logging.getLogger(__name__)

# Scores of the text tables. The objective, which compares within one cell only, is in the CSV files.
TITLES = {name: LABELS[name].short for name in QUALITIES}
OBJECTIVES = "Objectives, which the CSV files hold, compare within one model on one data set only."
INCOMPLETE = "This sweep is not complete: every number below is over the cells that are done."
CHOICES = (
    "shapes of covariances chosen (cells), and held-out annotations predicted by them (log loss in nats)"
)
PREDICTIONS = "held-out annotations predicted (means over cells), and their log loss in nats"

# Versions of the last run that the head of the text has.
VERSIONS = ("sweep", "python", "numba", "numpy")

# Entries of a score that is 0 in every cell. A block of nothing else is one line.
ZEROS = {"0.000 ± 0.000 (0.000)", "0.000 ± - (0.000)"}

# Lines that a terminal shows at once, and letters of a line.
SCREEN = 36
WIDTH = 100
# Letters of a data set in a table of the text.
LABEL = 14
# Models side by side. A table of more models continues below.
MODELS_ACROSS = 3


@dataclass(frozen=True)
class Report:
    """The report of a cube.

    Parameters
    ----------
    text : str
        Summary and tables, at most 100 columns wide.
    screen : str
        The beginning of the text, which a terminal shows at once.
    page : Path
        The page, which needs none of the other files.
    files : tuple of Path
        All files that were written.
    cells, summary : pandas.DataFrame
        Tables of `pipeline.scoring.tables`.
    """

    text: str
    screen: str
    page: Path
    files: tuple[Path, ...]
    cells: pd.DataFrame
    summary: pd.DataFrame

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        counts = self.cells["status"].value_counts()
        return {
            "page": str(self.page),
            "files": [str(file) for file in self.files],
            "cells": {str(status): int(count) for status, count in counts.items()},
            "summary": records(self.summary),
        }


def write_report(
    cube: Places,
    folder: Path,
    *,
    published: Path | None = None,
    cell: str | None = None,
    formats: Sequence[str] = figures.USUAL,
    progress: Progress = silent,
) -> Report:
    """Score a cube; write its tables as text and CSV, its figures, and a page with all of it.

    Parameters
    ----------
    cube : Path, str or sequence of them
        The cube, or its address, to which a sweep may be writing. Several are read as one.
    folder : Path
        Folder of `report.html`, `report.txt`, `summary.csv`, `cells.csv`, `times.csv`, with two models or
        more `winners.csv`, `ranks.csv`, `pairs.csv` and `robustness.csv`, with several searches
        `searches.csv` and `search-costs.csv`, with models that choose their shape `choices.csv`, where every
        model holds annotations out `predictions.csv`, with published means `against.csv`, and `figures/`. It
        is made if it is missing.
    published : Path, optional
        Table of published means to show beside those of the cube, as `read_published` takes it.
    cell : str, optional
        Cell to be drawn as scatter plots, instead of that of `pipeline.report.cell.choose_cell`.
    formats : sequence of str
        Formats of figures for `pipeline.report.figures.save`.
    progress : callable
        Goes through the data sets, then through the sections of the page.

    Returns
    -------
    Report

    Raises
    ------
    sweep_clustering.sweeps.errors.InputError
        If there is no cube at `cube`, the table is wrong, or there is no such cell that is done, or
        `folder` is a file; nothing is written then.
    sweep_clustering.storage.errors.StorageError
        If the file system refuses.
    """
    # everything that may be bad input is read before anything is computed
    problems: list[Problem] = []
    parts, table, request = None, None, None
    with collecting(problems):
        elements.check_folder(folder)
    with collecting(problems):
        table = against.read_published(published) if published is not None else None
    with collecting(problems):
        parts = read_parts(cube)
        request = named_cell(parts.manifest.plans, cell) if cell is not None else None
    if parts is None or problems:
        raise InputError(problems)
    if parts.missing:
        logger.warning(parts.missing)
    tree = open_parts(parts)
    cells = scored.cell_table(tree, parts.manifest.plans, progress)
    summary = scored.summary_table(cells)
    content = _content(parts, tree, cells, summary, table, request)
    text = render(content)
    if content.compared is not None:
        lines = elements.paragraph_lines(against.summarise(content.compared), WIDTH)
        text += "\n".join(["", *lines, ""])
    tables = {"summary": summary, "cells": cells, **_tables(content)}
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        plain, page = folder / "report.txt", folder / "report.html"
        plain.write_text(text, encoding="utf-8")
        files = [plain, *elements.write_csv(folder, tables), *write_page(content, page, formats, progress)]
    return Report(text, first_screen(text), page, tuple(files), cells, summary)


def _content(
    parts: Parts,
    tree: xr.DataTree,
    all_cells: pd.DataFrame,
    whole: pd.DataFrame,
    published: pd.DataFrame | None,
    request: Cell | None,
) -> Content:
    """Take one design and search of all cells and their whole summary, and read what is beside the cube."""
    manifest = parts.manifest
    # means are of one design and search, never over several: what compares models does so in one of them
    chosen = scored.compared(all_cells)
    cells, summary = scored.rows_of(all_cells, chosen), scored.rows_of(whole, chosen)
    has_means = published is not None and "ari" not in published
    failures: tuple[FailureRecord, ...] = ()
    holder = None
    # the directory of a run is its owner's alone; a cube is for everybody
    for place in (Path(part.path) for part in parts.cubes):
        with suppress(PermissionError):
            failures += tuple(read_failures(RunFolder(place)))
        with suppress(PermissionError, StorageError):
            lease = read_lease(place)
            holder = str(lease.holder) if lease is not None and not lease.free else holder
    return Content(
        manifest=manifest,
        tree=tree,
        cells=cells,
        summary=summary,
        cell=choose_cell(cells if request is None else all_cells, request),
        compared=against.compare(summary, manifest.plans, present(published)) if has_means else None,
        published=None if published is None or has_means else rank_published(cells, published),
        failures=failures,
        holder=holder,
        all_cells=all_cells,
        chosen=chosen,
    )


def _tables(content: Content) -> dict[str, pd.DataFrame]:
    """Return the tables of the CSV files by name, without cells and their summary."""
    cells = content.all_cells
    tables = {
        "times": scored.time_table(cells),
        "restarts": scored.restart_table(content.cells),
        **winners.winner_files(content),
        **winners.kind_files(content),
        **variants.design_files(content.designs),
        **content.searches,
    }
    if content.chooses:
        choices = {"choices": scored.choice_table(cells), "structures": scored.structure_table(cells)}
        tables |= {name: table for name, table in choices.items() if len(table)}
    if content.holds_out:
        tables["predictions"] = scored.prediction_table(cells)
    if content.compared is not None:
        tables["against"] = content.compared
    if content.published is not None:
        tables["published"] = content.published.scores
        tables["published-methods"] = content.published.methods
        tables["published-ranks"] = content.published.ranking.table()
    return tables


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for JSON, which has no NaN."""
    plain = table.astype(object).where(table.notna(), None)
    return [
        {str(key): value.item() if isinstance(value, np.generic) else value for key, value in row.items()}
        for row in plain.to_dict("records")
    ]


def render(content: Content) -> str:
    """Return the text of a report: how much is there, who wins, what chosen pairs gain, then the tables."""
    summary, written = content.summary, content.written
    parts = [_head(content), winners.winner_lines(content, WIDTH)]
    parts += [against.label_lines(content.published, WIDTH), variants.design_lines(content.designs)]
    parts.append(variants.search_lines(content.searches, WIDTH))
    parts += [_pooled(content, score) for score in RANKED]
    baselines = summary[summary["p"].isna()]
    plans = content.manifest.plans
    for (dataset, p), rows in summary[summary["p"].notna()].groupby(["dataset", "p"], sort=False):
        plan = plans[dataset]
        name = "told p" if plan.n_annotations else "p"
        has_error = rows["se"].notna().any()
        over = f"s.e. over {elements.unit_names(rows['unit'])}" if has_error else "one draw, no s.e."
        title = f"{_size(plan)}, {name} = {p:g}, {over}"
        parts.append(_block(title, rows, baselines[baselines["dataset"] == dataset], written))
    for dataset, plan in plans.items():
        if not plan.supervised:
            title = f"{_size(plan)}{', s.e. over mixtures' if plan.mixtures is not None else ''}"
            parts.append(_block(title, summary.iloc[:0], baselines[baselines["dataset"] == dataset], written))
    if len(content.choices):
        parts.append(_held_out(CHOICES, "chosen", content.choices, written))
    if len(content.structures):
        parts.append(_structures(content.structures, written))
    if content.holds_out:
        parts.append(_held_out(PREDICTIONS, "predicted", content.predictions, written))
    parts.append(_legend(content))
    return "\n\n".join(filter(None, map("\n".join, parts))) + "\n"


def _legend(content: Content) -> Iterator[str]:
    """Yield what the words of a report mean."""
    yield "what the words mean"
    for name, meaning in legend(content):
        yield from elements.paragraph_lines(f"{name}: {meaning}", WIDTH, first="  ", others="    ")


def first_screen(text: str) -> str:
    """Return the first lines of a report, up to the end of a part if one ends in their second half."""
    lines = text.splitlines()
    if len(lines) <= SCREEN:
        return text
    ends = [place for place in range(SCREEN // 2, SCREEN) if not lines[place]]
    first = lines[: max(ends, default=SCREEN)]
    more = plural(len(lines) - len(first), "more line")
    return "\n".join([*first, "", f"{more} in report.txt, or with --full"]) + "\n"


def _head(content: Content) -> Iterator[str]:
    manifest, cells = content.manifest, content.all_cells
    spec, counts = manifest.spec, cells["status"].value_counts()
    without = STATUS_WORDS[NO_SOLUTION]
    states = ["done", "failed", "pending", *([without] if without in counts else [])]
    missing = cells_left_out(spec, manifest.skipped)
    beside, total = f", {missing:,} left out," if missing else "", len(cells) + missing
    yield f"sweep {spec.name}, seed {spec.seed}, features scaled: {effort.scaling(manifest)}"
    yield f"cube {manifest.path}"
    yield f"cells: {', '.join(f'{counts.get(state, 0):,} {state}' for state in states)}{beside} of {total:,}"
    if (text := effort.missing_data(manifest)) is not None:
        yield from elements.paragraph_lines(text, WIDTH, others="  ")
    if manifest.runs:
        last = manifest.runs[-1]
        ordinal = "run 1" if len(manifest.runs) == 1 else f"the last of {len(manifest.runs)} runs"
        yield f"{ordinal}: started {last.started} on {last.host}"
        versions = [f"{name} {last.made_with[name]}" for name in VERSIONS if name in last.made_with]
        if versions:
            yield f"  {', '.join(versions)}, {last.made_with.get('cpu', 'unknown CPU')}"
    if manifest.software:
        yield from elements.paragraph_lines(f"{manifest.software}; {PROMISE}", WIDTH, others="  ")
    yield OBJECTIVES
    computed = set(content.summary["score"])
    if notes := elements.score_notes(*(title for score, title in TITLES.items() if score in computed)):
        yield from elements.paragraph_lines(notes, WIDTH)
    if counts.get("done", 0) + counts.get(without, 0) != len(cells):
        yield INCOMPLETE
    for line in effort.single_variants(manifest, content.chosen):
        yield from elements.paragraph_lines(line, WIDTH)


def _size(plan: DatasetPlan) -> str:
    mixtures = f" × {plural(plan.mixtures, 'mixture')}" if plan.mixtures is not None else ""
    file = f", m of {plural(plan.n_annotations, 'annotation')} of a file" if plan.n_annotations else ""
    return f"{plan.name}: N = {plan.n_samples}, D = {plan.n_features}, K = {plan.n_clusters}{mixtures}{file}"


def _pooled(content: Content, score: str) -> Iterator[str]:
    """Yield the mean of a score over the real data sets, if there are several."""
    entries = scores.pooled_entries(content, score, scores.PAPER_FORM)
    if entries:
        yield f"{LABELS[score].short}, mean over real data sets (number of them)"
        for models in _across(sorted({model for *_, model in entries})):
            rows = [
                (words(f"p = {p:g}"), words(m), *(entries.get((p, m, model), NOTHING) for model in models))
                for p, m in dict.fromkeys(place[:2] for place in entries)
            ]
            yield from _text_table(("", "m"), models, rows)
        yield from scores.baseline_means(content, score, scores.PAPER_FORM)


def _text_table(
    heads: tuple[str, ...], models: Sequence[str], rows: Sequence[tuple[Value, ...]]
) -> list[str]:
    return elements.text_lines(Table("", (*heads, *map(figures.short, models)), tuple(rows)))


def _block(title: str, rows: pd.DataFrame, baselines: pd.DataFrame, written: Written) -> Iterator[str]:
    """Yield the lines of one table: a row per score and m, a column per model."""
    yield title
    summary = pd.concat([baselines, rows])
    # models without annotations have 0 for m, and their means in the first row of a score alone
    values = {
        (row.score, row.model, 0 if pd.isna(row.m) else row.m): _value(row) for row in summary.itertuples()
    }
    alone, supervised = sorted(baselines["model"].unique()), sorted(rows["model"].unique())
    places = set(zip(rows["score"], rows["model"], rows["m"], strict=True))
    for models in _across(alone + supervised):
        lines: list[tuple[Value, ...]] = []
        for score, label in TITLES.items():
            counts = sorted({m for name, model, m in places if name == score and model in models})
            texts = [
                value.text for (name, model, _), value in values.items() if name == score and model in models
            ]
            if len(texts) > 1 and set(texts) <= ZEROS:
                lines.append((words(label), words("all"), *(Value("0", 0.0) for _ in models)))
                continue
            for place, m in enumerate(counts or [0]):
                entries = [
                    elements.EMPTY
                    if place and model in alone
                    else values.get((score, model, 0 if model in alone else m), NOTHING)
                    for model in models
                ]
                if counts or any(entry != NOTHING for entry in entries):
                    count = elements.count(written, rows["dataset"].iloc[0], m) if m else elements.EMPTY
                    lines.append((words("" if place else label), count, *entries))
        yield from _text_table(("mean ± s.e. (median)", "m"), models, lines)
    # a line per score on means that leave out cells that are done
    for score, label in TITLES.items():
        missing = []
        for row in summary[(summary["n_missing"] > 0) & (summary["score"] == score)].itertuples():
            m = "" if pd.isna(row.m) else f" m = {elements.count_text(written, row.dataset, row.m)}"
            missing.append(f"{row.model}{m}: {row.n_missing} of {row.n_cells}")
        if missing:
            reason = "the baseline is not done" if score == "relative_nmi" else "it is not defined"
            line = f"{label} leaves out cells where {reason} ({'; '.join(missing)})"
            yield from elements.paragraph_lines(line, WIDTH, first="  ", others="    ")


def _across(models: list[str]) -> list[list[str]]:
    """Return models side by side, as many as a line takes."""
    return [models[start : start + MODELS_ACROSS] for start in range(0, len(models), MODELS_ACROSS)]


def _value(row: Any) -> Value:
    if row.n == 0:
        return NOTHING
    error = "-" if pd.isna(row.se) else f"{row.se:.3f}"
    return Value(f"{row.mean:.3f} ± {error} ({row.median:.3f})", row.mean)


def _held_out(title: str, key: str, table: pd.DataFrame, written: Written) -> Iterator[str]:
    """Yield choices and predictions for each data set, p, m and model, in a declared table of the page."""
    yield title
    names = [figures.short(name, LABEL, table["dataset"]) for name in table["dataset"]]
    whole = elements.declared_table(key, scores.with_counts(table, written).assign(dataset=names))
    # the counts of the shapes add up to the cells
    places = [place for place, head in enumerate(whole.columns) if head != "cells" or key == "predicted"]
    heads = tuple(whole.columns[place].removesuffix(", nats") for place in places)
    rows = tuple(tuple(row[place] for place in places) for row in whole.rows)
    yield from elements.text_lines(Table("", heads, rows), gap=1)


def _structures(table: pd.DataFrame, written: Written) -> Iterator[str]:
    """Yield what most cells are made of, for each data set, p, m and model."""
    yield "what classes are made of in most cells, and held-out annotations predicted"
    for row in table.itertuples():
        m = elements.count_text(written, row.dataset, row.m)
        loss = (
            "" if pd.isna(row.log_loss) else f", {row.predicted:.0%} predicted, log loss {row.log_loss:.3f}"
        )
        few = f"; in {row.too_few} the features chose" if row.too_few else ""
        cells = f"{row.share * row.n:.0f} of {plural(row.n, 'cell')}"
        name = figures.short(row.dataset, among=table["dataset"])
        yield f"  {name}, p = {row.p:g}, m = {m}, {row.model}: {cells}{loss}{few}:"
        yield f"    {row.structure}"
