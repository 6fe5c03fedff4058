"""The page of a cube: its sections, in order, in one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import xarray as xr

from pipeline.report.parts.html import render
from pipeline.report.parts.ink import house_style, save
from pipeline.report.parts.parts import Picture, Section, spread
from pipeline.report.sections import against
from pipeline.report.sections.against import draw_verdicts
from pipeline.report.sections.cell import draw_matrix, read_pose
from pipeline.report.sections.curves import MOST_ACCURACIES, MOST_DATASETS, draw_curves
from pipeline.report.sections.heading import failures, heading
from pipeline.report.sections.relative import draw_boxes, draw_indices, index_datasets
from pipeline.report.sections.restarts import (
    draw_chances,
    draw_gaps,
    draw_times,
    restart_entries,
    time_entries,
)
from pipeline.report.sections.scores import score_tables
from pipeline.scoring.restarts import gap_table
from pipeline.scoring.tables import written_counts
from storage.cube.manifest import Manifest
from storage.runfolder.failures import FailureRecord
from sweeps.plan import Cell

UNITS = {"none": "data units", "standard": "s.d.", "minmax": "of range"}
"""Units of features, by scaling."""


@dataclass(frozen=True)
class Content:
    """What a page is made from.

    Parameters
    ----------
    manifest : Manifest
        Of the cube.
    tree : xarray.DataTree
        The cube, opened; read for gaps of restarts and one cell.
    cells, summary : pandas.DataFrame
        From `pipeline.scoring.tables`.
    cell : Cell or None
        Drawn as a matrix of scatter plots.
    compared : pandas.DataFrame or None
        From `pipeline.report.sections.against.compare`.
    failures : tuple of FailureRecord
        On record beside the cube.
    holder : str or None
        Who runs the sweep now.
    """

    manifest: Manifest
    tree: xr.DataTree
    cells: pd.DataFrame
    summary: pd.DataFrame
    cell: Cell | None
    compared: pd.DataFrame | None
    failures: tuple[FailureRecord, ...]
    holder: str | None

    @property
    def written(self) -> dict[tuple[str, int], str]:
        """How the sweep file writes each m."""
        return written_counts(self.manifest.plans, self.manifest.spec["grid"].get("m", []))

    @property
    def accuracies(self) -> list[float]:
        """Those that are shown."""
        return spread(sorted(self.cells["p"].dropna().unique().tolist()), MOST_ACCURACIES)


def write_page(content: Content, folder: Path) -> list[Path]:
    """Write the page and its figures.

    Parameters
    ----------
    content : Content
        What to show.
    folder : Path
        Gets `report.html` and `figures/`.

    Returns
    -------
    list of Path
        What was written.
    """
    figures = folder / "figures"
    with house_style():
        sections = [section for section in _sections(content, figures) if section is not None]
    page = folder / "report.html"
    page.write_text(render(str(content.manifest.spec["name"]), sections), encoding="utf-8")
    pictures = [picture.name for section in sections for picture in section.pictures]
    return [page, *(figures / f"{name}.{suffix}" for name in pictures for suffix in ("svg", "png"))]


def _sections(content: Content, folder: Path) -> Iterator[Section | None]:
    yield heading(content.manifest, content.cells, content.holder)
    yield failures(content.cells, content.failures)
    yield _scores(content)
    if content.compared is not None:
        yield _against(content.compared, folder)
    yield _curves(content, folder)
    yield _agreement(content, folder)
    yield _relative(content, folder)
    yield _indices(content, folder)
    yield _matrices(content, folder)
    yield _restarts(content, folder)
    yield _times(content, folder)


def _scores(content: Content) -> Section:
    text = ["Objectives compare within one model on one data set only. " + _undefined(content.summary)]
    tables = score_tables(content.summary, content.manifest.plans, content.written)
    return Section("scores", "Scores", tuple(text), tuple(tables))


def _undefined(summary: pd.DataFrame) -> str:
    missing = int(summary["n_missing"].sum())
    if not missing:
        return "Every score of every cell that is done is defined."
    return (
        f"{missing:,} scores of cells that are done are left out of the means: the divergence of a degenerate"
        " cluster is not defined, and relative NMI needs the baseline. summary.csv counts them."
    )


def _against(compared: pd.DataFrame, folder: Path) -> Section:
    figure = draw_verdicts(compared)
    caption = "z of every published value, shown as the digit of its K; within the grey band ours agrees."
    pictures = [save(figure, folder, "z", caption)] if figure is not None else []
    text, tables = against.entries(compared)
    return Section("against", "Beside the published values", text, tables, tuple(pictures))


def _curves(content: Content, folder: Path) -> Section:
    pictures = []
    for score, name in (("nmi", "nmi"), ("goldberger_kl", "kl")):
        figure = draw_curves(content.summary, score, content.compared)
        if figure is not None:
            caption = "Mean over cells, with a band of one standard error. The grey line is the baseline."
            pictures.append(save(figure, folder, name, caption))
    curves = _pictured("curves", "NMI and KL divergence against annotations", pictures)
    return replace(curves, text=curves.text + tuple(_not_drawn(content.cells)))


def _not_drawn(cells: pd.DataFrame) -> Iterator[str]:
    """Say where the figures of the page show a part of a large grid."""
    counts = {"data sets": MOST_DATASETS, "accuracies": MOST_ACCURACIES}
    found = {"data sets": cells["dataset"].nunique(), "accuracies": cells["p"].nunique()}
    large = [f"{most} of {found[what]} {what}" for what, most in counts.items() if found[what] > most]
    if large:
        yield f"Figures show {' and '.join(large)}, evenly spread; summary.csv and cells.csv hold all."


def _agreement(content: Content, folder: Path) -> Section:
    pictures = []
    figure = draw_curves(content.summary, "annotation_agreement")
    if figure is not None:
        caption = (
            "Share of annotations that the solution takes for correct, mean and standard error. A solution"
            " that knows the truth would meet the accuracy p."
        )
        pictures.append(save(figure, folder, "agreement", caption))
    return _pictured("agreement", "Correct annotations", pictures)


def _relative(content: Content, folder: Path) -> Section:
    pictures = []
    for p in content.accuracies:
        figure = draw_boxes(content.cells, p, content.written)
        if figure is not None:
            caption = (
                f"p = {p:g}: NMI above the model without annotations on the same data. Boxes are quartiles,"
                " whiskers end at the last value within 1.5 of their height."
            )
            pictures.append(save(figure, folder, f"relative-nmi-p{p:.9g}", caption))
    return _pictured("relative", "Relative NMI", pictures)


def _indices(content: Content, folder: Path) -> Section:
    pictures = []
    datasets = index_datasets(content.cells)
    for p in content.accuracies:
        figure = draw_indices(content.cells, p, datasets)
        if figure is not None:
            caption = (
                f"p = {p:g}: cells by centroid index. 0 is a solution with a centroid for each true class."
            )
            pictures.append(save(figure, folder, f"centroid-index-p{p:.9g}", caption))
    return _pictured("index", "Centroid index", pictures)


def _matrices(content: Content, folder: Path) -> Section:
    if content.cell is None:
        return _pictured("cell", "One cell", [])
    pose = read_pose(content.tree, content.cell)
    unit = UNITS[content.manifest.plans[content.cell.dataset].scale]
    pictures = []
    for key, labels in pose.partitions.items():
        caption = f"{key}: {content.cell}"
        if key != "true" and "true" in pose.partitions:
            wrong = int((labels != pose.partitions["true"]).sum())
            caption += f"; {wrong} of {len(labels)} samples have another label than in truth"
        pictures.append(save(draw_matrix(pose, labels, unit), folder, f"cell-{key}", caption))
    text = f"{content.cell}. Labels have the colours that agree best with the truth."
    return Section("cell", "One cell", (text,), pictures=tuple(pictures))


def _restarts(content: Content, folder: Path) -> Section:
    names = {name: plan.baselines for name, plan in content.manifest.plans.items()}
    drawn = {
        "gaps": (
            draw_gaps(gap_table(content.tree, names)),
            "Share of restarts whose objective is no further from the best of its cell.",
        ),
        "restarts": (
            draw_chances(content.cells),
            "Probability that so many restarts hold the best that all of a cell's restarts found, over cells"
            " and over all orders of the restarts.",
        ),
    }
    pictures = [
        save(figure, folder, name, text) for name, (figure, text) in drawn.items() if figure is not None
    ]
    text, tables = restart_entries(content.cells)
    return Section("restarts", "Restarts", text, tables, tuple(pictures))


def _times(content: Content, folder: Path) -> Section:
    figure = draw_times(content.cells)
    caption = "Time in kernels: boxes are quartiles, whiskers the slowest and the quickest tenth."
    pictures = [save(figure, folder, "seconds", caption)] if figure is not None else []
    text, tables = time_entries(content.cells)
    return Section("times", "Time", text, tables, tuple(pictures))


def _pictured(key: str, title: str, pictures: list[Picture]) -> Section:
    """Section of figures alone, which says so when there is nothing to draw."""
    text = () if pictures else ("Nothing to show: no cell that is done has what this needs.",)
    return Section(key, title, text, pictures=tuple(pictures))
