"""The report of a cube: text for a terminal, tables in CSV, and the page, from whatever is there of it."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sweep_clustering.pipeline.common import Progress, cells_left_out, plural, silent
from sweep_clustering.pipeline.report import against, effort, elements, kinds, look, scores, variants, winners
from sweep_clustering.pipeline.report.cell import choose_cell, named_cell
from sweep_clustering.pipeline.report.content import Content
from sweep_clustering.pipeline.report.elements import NOTHING
from sweep_clustering.pipeline.report.figures import USUAL
from sweep_clustering.pipeline.report.legend import legend
from sweep_clustering.pipeline.report.page import write_page
from sweep_clustering.pipeline.scoring import tables as scored
from sweep_clustering.pipeline.scoring.kinds import rank_published
from sweep_clustering.pipeline.scoring.ranking import RANKED
from sweep_clustering.pipeline.scoring.scores import LABELS, QUALITIES
from sweep_clustering.storage.cube.manifest import Manifest
from sweep_clustering.storage.cube.parts import Places, read_parts
from sweep_clustering.storage.cube.schema import NO_SOLUTION, STATUS_WORDS
from sweep_clustering.storage.cube.store import open_parts
from sweep_clustering.storage.errors import StorageError, storage_errors
from sweep_clustering.storage.provenance import PROMISE
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.lease import read_lease
from sweep_clustering.storage.runfolder.records import FailureRecord, read_failures
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, present
from sweep_clustering.sweeps.shapes import CANDIDATES

logger = logging.getLogger(__name__)

# Scores of the text tables; the objective, which compares within one cell only, is in the CSV files.
TITLES = {name: LABELS[name].short for name in QUALITIES}
OBJECTIVES = "Objectives, which the CSV files hold, compare within one model on one data set only."
INCOMPLETE = "This sweep is not complete: every number below is over the cells that are done."

# What the head of the text says of the last run.
VERSIONS = ("sweep", "python", "numba", "numpy")

# Entries of a score that is 0 in every cell: a block of nothing else is one line.
ZEROS = {"0.000 ± 0.000 (0.000)", "0.000 ± - (0.000)"}

# Lines that a terminal shows at once; and widths of the text tables, and of their columns. A table of more
# models continues below.
SCREEN = 36
WIDTH, LABEL, COUNT, COLUMN = 100, 16, 7, 25
MODELS_ACROSS = 3
# Name, p, m, model, then counts, and last what was predicted: of shapes chosen, and of all models.
CHOSEN = (f"<{LABEL}", ">5", ">6", ">17", ">10", ">9", ">5", ">5", ">8", ">10", ">9")
PREDICTED = (f"<{LABEL}", ">5", ">6", ">21", ">10", ">10", ">10", ">9")


@dataclass(frozen=True)
class Report:
    """The report of a cube.

    Parameters
    ----------
    text : str
        Summary and tables, at most 100 columns wide.
    screen : str
        The beginning of it, which a terminal shows at once.
    page : Path
        The page, which needs none of the other files.
    files : tuple of Path
        Everything that was written.
    cells, summary : pandas.DataFrame
        From `pipeline.scoring.tables`.
    """

    text: str
    screen: str
    page: Path
    files: tuple[Path, ...]
    cells: pd.DataFrame
    summary: pd.DataFrame

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
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
    formats: Sequence[str] = USUAL,
    progress: Progress = silent,
) -> Report:
    """Score a cube; write its tables as text and CSV, its figures, and a page with all of it.

    Parameters
    ----------
    cube : Path, str or sequence of them
        The cube, or its address; a sweep may be writing to it. Several are read as one.
    folder : Path
        Gets `report.html`, `report.txt`, `summary.csv`, `cells.csv`, `times.csv`, with two models or more
        `winners.csv`, `ranks.csv`, `pairs.csv` and `robustness.csv`, with several searches `searches.csv`
        and `search-costs.csv`, with models that choose their shape `choices.csv`, where every model holds
        annotations out `predictions.csv`, with published means `against.csv`, and `figures/`. Made if it is
        not there.
    published : Path, optional
        Table of published means to show beside those of the cube, as `read_published` takes it.
    cell : str, optional
        Cell to be drawn as scatter plots; else `pipeline.report.cell.choose_cell` takes one.
    formats : sequence of str
        Of the figures, as `pipeline.report.figures.save` takes them.
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
    parts, manifest, theirs, named = None, None, None, None
    with collecting(problems):
        elements.check_folder(folder)
    with collecting(problems):
        theirs = against.read_published(published) if published is not None else None
    with collecting(problems):
        parts = read_parts(cube)
        manifest = parts.manifest
        named = named_cell(manifest.plans, cell) if cell is not None else None
    if parts is None or manifest is None or problems:
        raise InputError(problems)
    tree = open_parts(parts)
    if parts.missing:
        logger.warning(parts.missing)
    every = scored.cell_table(tree, manifest.plans, progress)
    whole = scored.summary_table(every)
    # means are of one design and search, never over several: what compares models does so in one of them
    chosen = scored.compared(every)
    cells, summary = scored.rows_of(every, chosen), scored.rows_of(whole, chosen)
    means = theirs is not None and "ari" not in theirs
    beside = against.compare(summary, manifest.plans, present(theirs)) if means else None
    among = rank_published(cells, present(theirs)) if theirs is not None and not means else None
    failures: tuple[FailureRecord, ...] = ()
    holder = None
    # the directory of a run is its owner's alone; a cube is for everybody
    for each in (Path(part.path) for part in parts.cubes):
        with suppress(PermissionError):
            failures += tuple(read_failures(RunFolder(each)))
        with suppress(PermissionError, StorageError):
            lease = read_lease(each)
            holder = str(lease.holder) if lease is not None and not lease.free else holder
    content = Content(
        manifest=manifest,
        tree=tree,
        cells=cells,
        summary=summary,
        cell=choose_cell(cells if named is None else every, named),
        compared=beside,
        published=among,
        failures=failures,
        holder=holder,
        all_cells=every,
        chosen=chosen,
    )
    text = render(content)
    tables = {"summary": whole, "cells": every, "times": scored.time_table(every)}
    tables["restarts"] = scored.restart_table(cells)
    tables |= winners.winner_files(content) | kinds.kind_files(content)
    tables |= variants.design_files(content.designs) | content.searches
    if content.chooses:
        chosen_tables = {"choices": scored.choice_table(every), "structures": scored.structure_table(every)}
        tables |= {name: table for name, table in chosen_tables.items() if len(table)}
    if content.holds_out:
        tables["predictions"] = scored.prediction_table(every)
    if beside is not None:
        lines = elements.wrapped(against.summarise(beside), WIDTH)
        text += "\n".join(["", *lines, ""])
        tables["against"] = beside
    if among is not None:
        tables |= {"published": among.scores, "published-methods": among.methods}
        tables["published-ranks"] = among.ranking.table()
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        plain, page = folder / "report.txt", folder / "report.html"
        plain.write_text(text, encoding="utf-8")
        files = [plain, *elements.csv(folder, tables), *write_page(content, page, formats, progress)]
    return Report(text, first_screen(text), page, tuple(files), every, whole)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, which has no NaN."""
    plain = table.astype(object).where(table.notna(), None)
    return [
        {str(key): value.item() if isinstance(value, np.generic) else value for key, value in row.items()}
        for row in plain.to_dict("records")
    ]


def render(content: Content) -> str:
    """Text of a report: how much is there, who wins, what choosing pairs gains, then the tables."""
    manifest, summary = content.manifest, content.summary
    parts = [_head(content), winners.winner_lines(content, WIDTH)]
    parts += [against.label_lines(content.published, WIDTH), variants.design_lines(content.designs)]
    parts.append(variants.search_lines(content.searches, WIDTH))
    parts += [_pooled(content, score) for score in RANKED]
    alone = summary[summary["p"].isna()]
    for (dataset, p), rows in summary[summary["p"].notna()].groupby(["dataset", "p"], sort=False):
        told = "told p" if manifest.plans[dataset].n_annotations else "p"
        over = (
            f"s.e. over {elements.names(rows['unit'])}" if rows["se"].notna().any() else "one draw, no s.e."
        )
        title = f"{_size(manifest, dataset)}, {told} = {p:g}, {over}"
        parts.append(_block(title, rows, alone[alone["dataset"] == dataset], content.written))
    for dataset, plan in manifest.plans.items():
        if not plan.supervised:
            title = f"{_size(manifest, dataset)}{', s.e. over mixtures' if plan.mixtures is not None else ''}"
            parts.append(_block(title, summary.iloc[:0], alone[alone["dataset"] == dataset], content.written))
    if len(content.choices):
        title = "shapes of covariances chosen (cells), and held-out annotations predicted by the shape chosen"
        shapes = dict(zip(CANDIDATES, CANDIDATES, strict=True))
        parts.append(_held_out(title, content.choices, shapes, CHOSEN, content.written))
    if len(content.structures):
        parts.append(_structures(content.structures, content.written))
    if content.holds_out:
        title = "held-out annotations predicted (means over cells), and their log loss in nats"
        parts.append(_held_out(title, content.predictions, {"n": "cells"}, PREDICTED, content.written))
    parts.append(_legend(content))
    return "\n\n".join(filter(None, map("\n".join, parts))) + "\n"


def _legend(content: Content) -> Iterator[str]:
    """What the words of a report mean."""
    yield "what the words mean"
    for name, meaning in legend(content):
        yield from elements.wrapped(f"{name}: {meaning}", WIDTH, first="  ", others="    ")


def first_screen(text: str) -> str:
    """The first lines of a report, up to the end of a part where one ends in their second half."""
    lines = text.splitlines()
    if len(lines) <= SCREEN:
        return text
    ends = [place for place in range(SCREEN // 2, SCREEN) if not lines[place]]
    shown = lines[: max(ends, default=SCREEN)]
    more = plural(len(lines) - len(shown), "more line")
    return "\n".join([*shown, "", f"{more} in report.txt, or with --full"]) + "\n"


def _head(content: Content) -> Iterator[str]:
    manifest, cells = content.manifest, content.all_cells
    spec, counts = manifest.spec, cells["status"].value_counts()
    without = STATUS_WORDS[NO_SOLUTION]
    words = ["done", "failed", "pending", *([without] if without in counts else [])]
    missing = cells_left_out(spec, manifest.skipped)
    beside, total = f", {missing:,} left out," if missing else "", len(cells) + missing
    yield f"sweep {spec.name}, seed {spec.seed}, features scaled: {effort.scaling(manifest)}"
    yield f"cube {manifest.path}"
    yield f"cells: {', '.join(f'{counts.get(word, 0):,} {word}' for word in words)}{beside} of {total:,}"
    if (gone := effort.without_data(manifest)) is not None:
        yield from elements.wrapped(gone, WIDTH, others="  ")
    if manifest.runs:
        last = manifest.runs[-1]
        ordinal = "run 1" if len(manifest.runs) == 1 else f"the last of {len(manifest.runs)} runs"
        yield f"{ordinal}: started {last.started} on {last.host}"
        found = last.made_with
        versions = [f"{name} {found[name]}" for name in VERSIONS if name in found]
        if versions:
            yield f"  {', '.join(versions)}, {found.get('cpu', 'unknown CPU')}"
    if manifest.software:
        yield from elements.wrapped(f"{manifest.software}; {PROMISE}", WIDTH, others="  ")
    yield OBJECTIVES
    known = set(content.summary["score"])
    if said := elements.explained(*(title for score, title in TITLES.items() if score in known)):
        yield from elements.wrapped(said, WIDTH)
    if counts.get("done", 0) + counts.get(without, 0) != len(cells):
        yield INCOMPLETE
    for line in effort.of_one(manifest, content.chosen):
        yield from elements.wrapped(line, WIDTH)


def _size(manifest: Manifest, dataset: str) -> str:
    plan = manifest.plans[dataset]
    mixtures = f" × {plural(plan.mixtures, 'mixture')}" if plan.mixtures is not None else ""
    own = f", m of {plural(plan.n_annotations, 'annotation')} of a file" if plan.n_annotations else ""
    return f"{dataset}: N = {plan.n_samples}, D = {plan.n_features}, K = {plan.n_clusters}{mixtures}{own}"


def _pooled(content: Content, score: str) -> Iterator[str]:
    """Mean of a score over the real data sets, where there are several."""
    found, alone = scores.pooled(content, score, scores.PAPER_FORM)
    if found:
        yield f"{LABELS[score].short}, mean over real data sets (number of them)"
        for models in _across(sorted({model for *_, model in found})):
            yield _row("", "m", list(map(look.short, models)))
            for p, m in dict.fromkeys(place[:2] for place in found):
                values = [found.get((p, m, model), NOTHING).text for model in models]
                yield _row(f"p = {p:g}", m, values)
        yield from alone


def _block(title: str, rows: pd.DataFrame, alone: pd.DataFrame, written: elements.Written) -> Iterator[str]:
    """Lines of one table: a row per score and m, a column per model; `alone` have no annotations."""
    yield title
    every = pd.concat([alone, rows])
    # models without annotations have 0 for m, and their means in the first row of a score alone
    found = {(row.score, row.model, 0 if pd.isna(row.m) else row.m): _cell(row) for row in every.itertuples()}
    baselines, drawn = sorted(alone["model"].unique()), sorted(rows["model"].unique())
    places = set(zip(rows["score"], rows["model"], rows["m"], strict=True))
    for models in _across(baselines + drawn):
        lead = f"{'mean ± s.e. (median)':<{LABEL + COUNT - 2}} m"
        yield lead + "".join(f"{look.short(model):>{COLUMN}}" for model in models)
        for score, label in TITLES.items():
            counts = sorted({m for of, model, m in places if of == score and model in models})
            shown = [text for (of, model, _), text in found.items() if of == score and model in models]
            if len(shown) > 1 and set(shown) <= ZEROS:
                yield _row(label, "all", ["0" for _ in models])
                continue
            for place, m in enumerate(counts or [0]):
                keys = [(score, model, 0 if model in baselines else m) for model in models]
                values = ["" if place and key[1] in baselines else found.get(key, "-") for key in keys]
                if counts or set(values) != {"-"}:
                    text = elements.count_of(written, rows["dataset"].iloc[0], m) if m else ""
                    yield _row("" if place else label, text, values)
    # which means leave out cells that are done: a line per score, broken where it grows too wide
    for score, label in TITLES.items():
        missing = []
        for row in every[(every["n_missing"] > 0) & (every["score"] == score)].itertuples():
            m = "" if pd.isna(row.m) else f" m = {elements.count_of(written, row.dataset, row.m)}"
            missing.append(f"{row.model}{m}: {row.n_missing} of {row.n_cells}")
        if missing:
            reason = "the baseline is not done" if score == "relative_nmi" else "it is not defined"
            line = f"{label} leaves out cells where {reason} ({'; '.join(missing)})"
            yield from elements.wrapped(line, WIDTH, first="  ", others="    ")


def _held_out(
    title: str,
    table: pd.DataFrame,
    counts: dict[str, str],
    layout: tuple[str, ...],
    written: elements.Written,
) -> Iterator[str]:
    """A row for each data set, p, m and model, with some counts by their heads, and what was predicted."""
    yield title
    heads = ("data set", "p", "m", "model", *counts.values(), scored.TOO_FEW, "predicted", "log loss")
    yield elements.text(heads, layout)
    for row in table.itertuples():
        m = elements.count_of(written, row.dataset, row.m)
        share = "-" if pd.isna(row.predicted) else f"{row.predicted:.0%}"
        loss = "-" if pd.isna(row.log_loss) else f"{row.log_loss:.3f}"
        numbers = (*(getattr(row, name) for name in counts), row.too_few, share, loss)
        name = look.short(row.dataset, LABEL - 1, table["dataset"])
        yield elements.text((name, f"{row.p:g}", m, row.model, *numbers), layout)


def _structures(table: pd.DataFrame, written: elements.Written) -> Iterator[str]:
    """A line for each data set, p, m and model: what most of its cells are made of."""
    yield "what classes are made of in most cells, and held-out annotations predicted"
    for row in table.itertuples():
        m = elements.count_of(written, row.dataset, row.m)
        loss = (
            "" if pd.isna(row.log_loss) else f", {row.predicted:.0%} predicted, log loss {row.log_loss:.3f}"
        )
        few = f"; in {row.too_few} the features chose" if row.too_few else ""
        cells = f"{row.share * row.n:.0f} of {plural(row.n, 'cell')}"
        name = look.short(row.dataset, among=table["dataset"])
        yield f"  {name}, p = {row.p:g}, m = {m}, {row.model}: {cells}{loss}{few}:"
        yield f"    {row.structure}"


def _across(models: list[str]) -> list[list[str]]:
    """Models side by side, as many as a line takes."""
    return [models[start : start + MODELS_ACROSS] for start in range(0, len(models), MODELS_ACROSS)]


def _cell(row: Any) -> str:
    if row.n == 0:
        return "-"
    error = "-" if pd.isna(row.se) else f"{row.se:.3f}"
    return f"{row.mean:.3f} ± {error} ({row.median:.3f})"


def _row(label: str, m: str, values: list[str]) -> str:
    return elements.text((label, m, *values), (f"<{LABEL}", f">{COUNT}", *[f">{COLUMN}"] * len(values)))
