"""The report of a cube: tables in text and CSV, and the page, from whatever of the sweep is there."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report.designs.lines import design_tables
from pipeline.report.page import write_page
from pipeline.report.parts.published import Published, read_published
from pipeline.report.parts.saving import cells_of
from pipeline.report.sections import against
from pipeline.report.sections.cell import choose_cell, named_cell
from pipeline.report.sections.content import Content
from pipeline.report.text import WIDTH, render
from pipeline.report.winners.files import winner_tables
from pipeline.scoring.pairs import search_tables
from pipeline.scoring.tables import (
    VARIANTS,
    cell_table,
    choice_table,
    compared,
    prediction_table,
    rows_of,
    summary_table,
    time_table,
    values_of,
)
from storage.cube.cube import open_cube
from storage.cube.manifest import Manifest, read_manifest
from storage.errors import StorageError, storage_errors
from storage.runfolder.failures import FailureRecord, read_failures
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import read_lease
from sweeps.errors import InputError, Problem, collecting
from sweeps.models import chooses
from sweeps.plan import Cell


@dataclass(frozen=True)
class Report:
    """The report of a cube.

    Parameters
    ----------
    text : str
        Summary and tables, at most 100 columns wide.
    files : tuple of Path
        Everything that was written.
    cells, summary : pandas.DataFrame
        From `pipeline.scoring.tables`.
    """

    text: str
    files: tuple[Path, ...]
    cells: pd.DataFrame
    summary: pd.DataFrame

    @property
    def page(self) -> Path:
        """The page, which needs none of the other files."""
        return next(file for file in self.files if file.suffix == ".html")

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
    cube: Path, folder: Path, *, published: Path | None = None, cell: str | None = None
) -> Report:
    """Score a cube; write its tables as text and CSV, its figures, and a page with all of it.

    Parameters
    ----------
    cube : Path
        The cube; a sweep may be writing to it.
    folder : Path
        Gets `report.html`, `report.txt`, `summary.csv`, `cells.csv`, `times.csv`, with two models or more
        `winners.csv`, `ranks.csv`, `pairs.csv` and `robustness.csv`, with several searches `searches.csv`
        and `search-costs.csv`, with models that choose their shape `choices.csv`, where every model holds
        annotations out `predictions.csv`, with published means `against.csv`, and `figures/`. Made if it is
        not there.
    published : Path, optional
        Table of published means to show beside those of the cube, as `read_published` takes it.
    cell : str, optional
        Cell to be drawn as scatter plots; else `pipeline.report.sections.cell.choose_cell` takes one.

    Returns
    -------
    Report

    Raises
    ------
    sweeps.errors.InputError
        If there is no cube at `cube`, the table is wrong, or there is no such cell that is done, or
        `folder` is a file; nothing is written then.
    storage.errors.StorageError
        If the file system refuses.
    """
    manifest, theirs, named = _inputs(cube, folder, published, cell)
    tree = open_cube(cube)
    every = cell_table(tree, manifest.plans)
    whole = summary_table(every)
    # means are of one design and search, never over several: what compares models does so in one of them
    chosen = compared(every)
    cells, summary = rows_of(every, chosen), rows_of(whole, chosen)
    several = every if any(len(values_of(every, key)) > 1 for key in VARIANTS) else None
    beside = None if theirs is None else against.compare(summary, manifest.plans, theirs)
    content = Content(
        manifest=manifest,
        tree=tree,
        cells=cells,
        summary=summary,
        cell=choose_cell(cells if named is None else every, named),
        compared=beside,
        failures=_failures(cube),
        holder=_holder(cube),
        figures=folder / "figures",
        every=several,
        chosen=chosen,
    )
    text = render(content)
    tables = {"summary": whole, "cells": every, "times": time_table(every)}
    tables |= winner_tables(content.rankings, cells) | design_tables(content.designs)
    tables |= search_tables(content.searches)
    if any(cells["model"].map(chooses)):
        tables["choices"] = choice_table(every)
    if any(plan.held_out for plan in manifest.plans.values()):
        tables["predictions"] = prediction_table(every)
    if beside is not None:
        text += f"\n{textwrap.fill(against.summarise(beside), WIDTH)}\n"
        tables["against"] = beside
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        plain = folder / "report.txt"
        plain.write_text(text, encoding="utf-8")
        files = [plain, *write_tables(folder, tables), *write_page(content, folder / "report.html")]
    return Report(text, tuple(files), every, whole)


def _inputs(
    cube: Path, folder: Path, published: Path | None, cell: str | None
) -> tuple[Manifest, list[Published] | None, Cell | None]:
    """Everything that may be bad input, read before anything is computed."""
    problems: list[Problem] = []
    manifest, theirs, named = None, None, None
    with collecting(problems):
        check_folder(folder)
    with collecting(problems):
        theirs = read_published(published) if published is not None else None
    with collecting(problems):
        manifest = read_manifest(cube)
        named = named_cell(manifest.plans, cell) if cell is not None else None
    if manifest is None or problems:
        raise InputError(problems)
    return manifest, theirs, named


def _failures(cube: Path) -> tuple[FailureRecord, ...]:
    # The directory of a run is its owner's alone; a cube is for everybody.
    with suppress(PermissionError):
        return tuple(read_failures(RunFolder(cube)))
    return ()


def _holder(cube: Path) -> str | None:
    with suppress(PermissionError, StorageError):
        lease = read_lease(cube)
        return str(lease.holder) if lease is not None and not lease.free else None
    return None


def check_folder(folder: Path) -> None:
    """Refuse a folder for output that cannot be one, before anything is computed.

    Raises
    ------
    InputError
        If it, or a folder above it, is a file.
    """
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise InputError([Problem(str(place), "a file", "a folder to write to")])


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> list[Path]:
    """Write tables as CSV.

    Parameters
    ----------
    folder : Path
        It is there.
    tables : mapping of str to pandas.DataFrame
        By name of the file, without suffix.
    """
    files = []
    for name, table in tables.items():
        files.append(folder / f"{name}.csv")
        cells_of(table).to_csv(files[-1], index=False)
    return files


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, which has no NaN."""
    plain = table.astype(object).where(table.notna(), None)
    return [{str(key): _plain(value) for key, value in row.items()} for row in plain.to_dict("records")]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
