"""Two cubes in pairs: the same cell in both, and what differs between its scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.report.comparison import write_comparison_page
from pipeline.report.differences import caption, draw_differences
from pipeline.report.parts.ink import house_style
from pipeline.report.parts.parts import Picture
from pipeline.report.parts.saving import SUFFIXES, save
from pipeline.report.parts.wording import count_of, names
from pipeline.report.settings import differences, search_called
from pipeline.report.write import check_folder, records, write_tables
from pipeline.scoring.pairs import PLACE, difference_table, pair, total_table
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import cell_table, titled, written_counts
from pipeline.text import plural
from storage.cube.cube import open_cube
from storage.cube.manifest import Manifest, read_manifest
from storage.errors import storage_errors
from sweeps.errors import InputError, Problem, collecting

HEAD = ("data set", "p", "m", "model", "cells", "n", "B - A", "B wins", "A wins", "ties")
SHOWN = 5
"""Unpaired cells named in the text; the file has all."""


@dataclass(frozen=True)
class Comparison:
    """Scores of the same cells in two cubes.

    Parameters
    ----------
    first, second : Path
        Cubes A and B; differences are B minus A.
    settings : tuple of str
        What their sweep files have differently.
    pairs : pandas.DataFrame
        A row per score and cell that is done in both: `PLACE`, `score`, `a`, `b`, `difference`.
    table : pandas.DataFrame
        From `difference_table`.
    unpaired : pandas.DataFrame
        `cell` and `why` of every cell without a partner that is done.
    written : mapping
        How the sweep files write each m, from `pipeline.scoring.tables.written_counts`.
    files : tuple of Path
        What was written.
    """

    first: Path
    second: Path
    settings: tuple[str, ...]
    pairs: pd.DataFrame
    table: pd.DataFrame
    unpaired: pd.DataFrame
    written: Mapping[tuple[str, int], str]
    files: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "a": str(self.first),
            "b": str(self.second),
            "settings": list(self.settings),
            "cells": self._cells,
            "unpaired": self.unpaired["why"].value_counts().to_dict(),
            "total": records(total_table(self.pairs)),
            "table": records(self.table),
            "files": [str(file) for file in self.files],
        }

    def lines(self) -> list[str]:
        """Text for people."""
        return [
            f"A: {self.first}",
            f"B: {self.second}",
            *(f"  {line}" for line in self.settings),
            f"{plural(self._cells, 'cell')} {'is' if self._cells == 1 else 'are'} done in both",
            *self._unpaired_lines(),
            *_table_lines(self.table, total_table(self.pairs), self.written),
            *(f"written: {file}" for file in self.files),
        ]

    @property
    def _cells(self) -> int:
        return len(self.pairs[list(PLACE)].drop_duplicates())

    def _unpaired_lines(self) -> Iterator[str]:
        for why, group in self.unpaired.groupby("why", sort=True):
            yield f"{len(group):,} {why}:"
            yield from (f"  {cell}" for cell in group["cell"].head(SHOWN))
            if len(group) > SHOWN:
                yield f"  and {len(group) - SHOWN:,} more, in unpaired.csv"


def write_comparison(first: Path, second: Path, folder: Path, scores: Sequence[str]) -> Comparison:
    """Compare two cubes; write `pairs.csv`, `differences.csv`, `unpaired.csv`, figures and a page.

    Parameters
    ----------
    first, second : Path
        Cubes A and B; sweeps may be writing to them.
    folder : Path
        Made if it is not there.
    scores : sequence of str
        Some of `pipeline.scoring.scores.LABELS`.

    Raises
    ------
    InputError
        If one is no cube, or `folder` is a file.
    StorageError
        If the file system refuses.
    """
    manifests = _manifests(first, second, folder)
    cells = [cell_table(open_cube(manifest.path), manifest.plans) for manifest in manifests]
    a, b = manifests
    searches = search_called(a.spec, b.spec), search_called(b.spec, a.spec)
    pairs, unpaired = pair(cells[0], cells[1], scores, searches)
    table = difference_table(pairs)
    settings = tuple(differences(*manifests))
    counts = [count for manifest in manifests for count in manifest.spec.grid.m]
    plans = {name: plan for manifest in reversed(manifests) for name, plan in manifest.plans.items()}
    written = written_counts(plans, counts)
    pictures: dict[str, Picture] = {}
    with storage_errors(folder), house_style():
        folder.mkdir(parents=True, exist_ok=True)
        files = write_tables(folder, {"pairs": pairs, "differences": table, "unpaired": unpaired})
        for score in dict.fromkeys(scores):
            figure = draw_differences(table, score, written)
            if figure is not None:
                text = caption(LABELS[score].axis, table[table["score"] == score])
                pictures[score] = save(figure, folder / "figures", score, text)
                files += [folder / "figures" / f"{score}.{suffix}" for suffix in SUFFIXES]
        files.append(folder / "compare.html")
        write_comparison_page(
            files[-1],
            (first, second),
            table,
            total_table(pairs),
            unpaired,
            settings=settings,
            pictures=pictures,
            written=written,
        )
    return Comparison(first, second, settings, pairs, table, unpaired, written, tuple(files))


def _manifests(first: Path, second: Path, folder: Path) -> list[Manifest]:
    problems: list[Problem] = []
    manifests = []
    for cube in (first, second):
        with collecting(problems):
            manifests.append(read_manifest(cube))
    with collecting(problems):
        check_folder(folder)
    if problems:
        raise InputError(problems)
    return manifests


def _table_lines(
    table: pd.DataFrame, total: pd.DataFrame, written: Mapping[tuple[str, int], str]
) -> Iterator[str]:
    for score, rows in table.groupby("score", sort=False):
        label = LABELS[str(score)]
        rule = {1: "more is better", -1: "less is better", 0: "the larger one wins"}[label.better]
        yield ""
        yield f"{label.short}, B minus A: mean ± s.e. over {names(rows['unit'])} ({rule})"
        lines: list[tuple[str, ...]] = [HEAD]
        for row in [*rows.itertuples(), *total[total["score"] == score].itertuples()]:
            p, m = getattr(row, "p", math.nan), getattr(row, "m", math.nan)
            fields = (
                titled(getattr(row, "dataset", "all"), row._asdict()),
                "" if pd.isna(p) else f"{p:g}",
                "" if pd.isna(m) else count_of(written, row.dataset, int(m)),
                str(row.model),
                str(row.n_cells),
                str(row.n),
                _mean(float(row.difference), float(row.se)),
                *("-" if pd.isna(share) else f"{share:.0%}" for share in (row.wins_b, row.wins_a, row.ties)),
            )
            lines.append(fields)
        yield from _rows(lines)
        missing = int(rows["n_missing"].sum())
        if missing:
            yield f"  {plural(missing, 'cell')} left out: the score is not defined in one of the two"


def _mean(mean: float, se: float) -> str:
    if math.isnan(mean):
        return "-"
    return f"{mean:+.4g}" if math.isnan(se) else f"{mean:+.4g} ± {se:.2g}"


def _rows(lines: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Lines of a table; names are never cut off."""
    named, modelled = (max(18, *(len(line[at]) for line in lines)) for at in (0, 3))
    for line in lines:
        left = f"{line[0]:<{named}} {line[1]:>5} {line[2]:>6} {line[3]:<{modelled}}"
        shares = "".join(f"{field:>7}" for field in line[7:])
        yield f"{left}{line[4]:>5}{line[5]:>5} {line[6]:>18}{shares}"
