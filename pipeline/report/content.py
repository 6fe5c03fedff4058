"""The content of a page, the declaration of its sections, and how sections become a page."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pandas as pd
import xarray as xr

from sweep_clustering.pipeline.report.elements import (
    Chapter,
    Picture,
    Reading,
    Table,
    enumeration,
    html,
    score_notes,
    subset,
)
from sweep_clustering.pipeline.report.figures import (
    JOINS_LETTERS,
    MOST_ACCURACIES,
    USUAL,
    Drawing,
    is_right_to_left,
    save,
)
from sweep_clustering.pipeline.scoring import tables
from sweep_clustering.pipeline.scoring.kinds import PublishedRanking, facts, ranks_by_kind
from sweep_clustering.pipeline.scoring.pairs import compared_searches
from sweep_clustering.pipeline.scoring.ranking import Ranking, rankings
from sweep_clustering.pipeline.scoring.worth import design_scores
from sweep_clustering.storage.cube.manifest import Manifest
from sweep_clustering.storage.runfolder.records import FailureRecord
from sweep_clustering.sweeps.plan import Cell
from sweep_clustering.sweeps.words import chooses

logger = logging.getLogger(__name__)

NO_CELLS = "Nothing to show: no cell that is done has what this needs."

# A section consists of paragraphs, perhaps one on how to read it, tables and figures.
Part = str | Table | Drawing


@dataclass(frozen=True)
class Content:
    """Everything that a page is made from.

    Parameters
    ----------
    manifest : Manifest
        Manifest of the cube.
    tree : xarray.DataTree
        The opened cube, of which the gaps of restarts and one cell are read.
    cells, summary : pandas.DataFrame
        Tables of `pipeline.scoring.tables`, for one design and one search.
    cell : Cell or None
        Cell that is drawn as a matrix of scatter plots.
    compared : pandas.DataFrame or None
        Table of `pipeline.report.against.compare`.
    published : PublishedRanking or None
        Ranking of `pipeline.scoring.kinds.rank_published`.
    failures : tuple of FailureRecord
        Records beside the cube.
    holder : str or None
        Process that runs the sweep now.
    all_cells : pandas.DataFrame
        Cells of all designs and searches.
    chosen : mapping of str to str
        Design and search of `cells`, from `pipeline.scoring.tables.compared`.
    """

    manifest: Manifest
    tree: xr.DataTree
    cells: pd.DataFrame
    summary: pd.DataFrame
    cell: Cell | None
    compared: pd.DataFrame | None
    published: PublishedRanking | None
    failures: tuple[FailureRecord, ...]
    holder: str | None
    all_cells: pd.DataFrame
    chosen: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def written(self) -> dict[tuple[str, int], str]:
        """Return each m as the sweep file writes it."""
        return tables.written_counts(self.manifest.plans, self.manifest.spec.grid.m)

    @cached_property
    def accuracies(self) -> list[float]:
        """Return the accuracies in figures, which are a subset of many."""
        return subset(sorted(self.cells["p"].dropna().unique().tolist()), MOST_ACCURACIES)

    @cached_property
    def rankings(self) -> tuple[Ranking, ...]:
        """Return a ranking of the models by each score that compares them."""
        return rankings(self.cells)

    @cached_property
    def ranked(self) -> list[Ranking]:
        """Return the rankings of two models or more that have ranks."""
        return [ranking for ranking in self.rankings if ranking.is_comparable and ranking.datasets]

    @cached_property
    def kinds(self) -> dict[str, pd.DataFrame]:
        """Return ranks by kind of data, by score."""
        if not self.ranked:
            return {}
        properties = facts(self.manifest.plans, self.tree)
        return {ranking.score: ranks_by_kind(ranking, properties, self.written) for ranking in self.ranked}

    @cached_property
    def designs(self) -> dict[str, pd.DataFrame]:
        """Return the scores of designs under one search, which are empty with a single design."""
        return design_scores(self.timed_cells, self.written)

    @property
    def timed_cells(self) -> pd.DataFrame:
        """Return the cells of all designs under one search."""
        return tables.rows_of(self.all_cells, {k: v for k, v in self.chosen.items() if k == tables.SEARCH})

    @cached_property
    def searches(self) -> dict[str, pd.DataFrame]:
        """Return the tables of each search beside the first, for one design; empty with a single search."""
        design = {key: value for key, value in self.chosen.items() if key == tables.DESIGN}
        return compared_searches(tables.rows_of(self.all_cells, design), self.manifest.spec.search)

    @cached_property
    def choices(self) -> pd.DataFrame:
        """Return the shapes of covariances that models chose; empty without a model that chooses."""
        return tables.choice_table(self.cells)

    @cached_property
    def structures(self) -> pd.DataFrame:
        """Return what classes of any shape are made of; empty without such a model."""
        return tables.structure_table(self.cells)

    @property
    def chooses(self) -> bool:
        """Whether a model chooses its shape of covariances, or what its classes are made of."""
        return any(map(chooses, self.cells["model"].unique()))

    @property
    def holds_out(self) -> bool:
        """Whether every model of some data set held annotations out."""
        return any(plan.held_out for plan in self.manifest.plans.values())

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """Return how well models predict annotations, if every model held some out."""
        return tables.prediction_table(self.cells) if self.holds_out else pd.DataFrame()


@dataclass(frozen=True)
class Section:
    """A declared part of the page.

    Parameters
    ----------
    key, title : str
        Address within the page, and head, which may depend on the content.
    parts : callable
        Returns paragraphs, tables and figures of a content. The page has these kinds in this order, and each
        kind as it comes.
    needs : callable
        Whether the section has a place on this page. One without any part has none either.
    says_why : bool
        Whether it says so if there is nothing to draw.
    """

    key: str
    title: str | Callable[[Content], str]
    parts: Callable[[Content], Iterable[Part]]
    needs: Callable[[Content], object] = lambda content: True
    says_why: bool = False


def write_chapters(
    path: Path,
    title: str,
    sections: Iterable[tuple[str, str, Iterable[Part], bool]],
    lead: Sequence[str],
    formats: Sequence[str] = USUAL,
    legend: Iterable[tuple[str, str]] = (),
) -> list[Path]:
    """Write a page, and its figures to the folder `figures` beside it.

    Parameters
    ----------
    path : Path
        File of the page.
    title : str
        Title of the page.
    sections : iterable of tuple
        Key, title and parts of each section, and whether it says so if there is nothing to draw. One without
        parts has no place.
    lead : sequence of str
        Paragraphs before the first section.
    formats : sequence of str
        Formats of figures for `figures.save`.
    legend : iterable of tuple of str
        Words and their meanings for `elements.html`.

    Returns
    -------
    list of Path
        Files of the figures.
    """
    folder = path.with_name("figures")
    chapters = [
        chapter
        for key, head, parts, says_why in sections
        if (chapter := _chapter(key, head, parts, says_why, folder, formats)) is not None
    ]
    path.write_text(html(title, chapters, lead, legend), encoding="utf-8")
    pictures = [picture for chapter in chapters for picture in chapter.pictures]
    _warn_of_letters(pictures)
    return [folder / f"{picture.name}.{suffix}" for picture in pictures for suffix in picture.formats]


def _chapter(
    key: str, title: str, parts: Iterable[Part], says_why: bool, folder: Path, formats: Sequence[str]
) -> Chapter | None:
    """Write the figures of a section and return its chapter, unless it has no part."""
    text: list[str] = []
    reading: list[str] = []
    tables: list[Table] = []
    pictures: list[Picture] = []
    notes = {""}
    for part in parts:
        if isinstance(part, str):
            (reading if isinstance(part, Reading) else text).append(str(part))
        elif isinstance(part, Table):
            entries = (value.text for row in part.rows for value in row)
            heads = (head for group in part.groups for head, _ in group)
            more = score_notes(part.title, *heads, *part.columns, *entries, part.note)
            # a note that stands below an open table of the section is not repeated
            note = part.note if part.note not in notes else ""
            tables.append(replace(part, note=" ".join(filter(None, (note, more)))).on_page())
            notes |= set() if tables[-1].folded else {part.note}
        elif (figure := part[1]) is not None:
            labels = (text for axes in figure.axes for text in (axes.get_xlabel(), axes.get_ylabel()))
            caption = " ".join(filter(None, (part[2], score_notes(part[2], *labels))))
            pictures.append(save(figure, folder, part[0], caption, formats))
    if says_why and not pictures and not text:
        text.insert(0, NO_CELLS)
    if not (text or tables or pictures):
        return None
    return Chapter(key, title, tuple(text), tuple(tables), tuple(pictures), tuple(reading))


def _warn_of_letters(pictures: Sequence[Picture]) -> None:
    """Log names that no font can write, and names that an old matplotlib writes in the wrong order."""
    where = (
        "in PNG and PDF figures; the page and SVG figures have the letters as the reader's fonts show them"
    )
    if names := sorted({name for picture in pictures for name in picture.without_font}):
        logger.warning(
            "no installed font has all letters of %s: boxes stand for them %s", enumeration(names), where
        )
    if not JOINS_LETTERS and any(is_right_to_left(picture.svg) for picture in pictures):
        fault = "matplotlib before 3.11 writes right-to-left names from left to right"
        logger.warning("%s, with letters that are not joined, %s", fault, where)
