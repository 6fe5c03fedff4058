"""What a page is made from, and how a section saves its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from pipeline.report.parts.ink import MOST_ACCURACIES
from pipeline.report.parts.parts import Picture, Section, spread
from pipeline.report.parts.saving import save
from pipeline.scoring.pairs import Compared, compared_searches
from pipeline.scoring.ranking import Ranking, rankings
from pipeline.scoring.tables import DESIGN, SEARCH, rows_of, written_counts
from pipeline.scoring.worth import DesignScores, design_scores
from storage.cube.manifest import Manifest
from storage.runfolder.failures import FailureRecord
from sweeps.plan import Cell


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
    figures : Path
        Folder of the figures.
    every : pandas.DataFrame or None
        Cells of all designs and searches, where there are several: `cells` and `summary` are then of one of
        each.
    chosen : mapping of str to str
        Which, from `pipeline.scoring.tables.compared`.
    """

    manifest: Manifest
    tree: xr.DataTree
    cells: pd.DataFrame
    summary: pd.DataFrame
    cell: Cell | None
    compared: pd.DataFrame | None
    failures: tuple[FailureRecord, ...]
    holder: str | None
    figures: Path
    every: pd.DataFrame | None = None
    chosen: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_cells(self) -> pd.DataFrame:
        """Cells of all designs and searches."""
        return self.cells if self.every is None else self.every

    @cached_property
    def written(self) -> dict[tuple[str, int], str]:
        """How the sweep file writes each m."""
        return written_counts(self.manifest.plans, self.manifest.spec.grid.m)

    @cached_property
    def accuracies(self) -> list[float]:
        """Those that are shown."""
        return spread(sorted(self.cells["p"].dropna().unique().tolist()), MOST_ACCURACIES)

    @cached_property
    def rankings(self) -> tuple[Ranking, ...]:
        """Models ranked by each of the scores that they are compared by."""
        return rankings(self.cells)

    @cached_property
    def designs(self) -> tuple[DesignScores, ...]:
        """Scores by how pairs were chosen, of one search; empty where all were chosen alike."""
        return design_scores(self.timed_cells, self.written)

    @property
    def timed_cells(self) -> pd.DataFrame:
        """Cells of all designs, of one search."""
        return self._of_all(DESIGN)

    @cached_property
    def searches(self) -> tuple[Compared, ...]:
        """Each search beside the one that models are compared in, of one design; empty where there is one."""
        return compared_searches(self._of_all(SEARCH), self.manifest.spec.search)

    def _of_all(self, key: str) -> pd.DataFrame:
        """Cells of all designs, or of all searches."""
        others = {other: value for other, value in self.chosen.items() if other != key}
        return rows_of(self.all_cells, others)

    def save(self, figure: Figure | None, name: str, caption: str) -> tuple[Picture, ...]:
        """Write a figure, if there was anything to draw."""
        return () if figure is None else (save(figure, self.figures, name, caption),)


def pictured(key: str, title: str, pictures: tuple[Picture, ...], *text: str) -> Section:
    """Section of figures, which says so when there is nothing to draw."""
    nothing = () if pictures else ("Nothing to show: no cell that is done has what this needs.",)
    return Section(key, title, nothing + text, pictures=pictures)
