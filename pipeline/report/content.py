"""What a page is made from, and how a section of it is declared."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pandas as pd
import xarray as xr

from sweep_clustering.pipeline.report.elements import Chapter, Reading, Table, explained, html, listed, spread
from sweep_clustering.pipeline.report.figures import USUAL, Drawn, save
from sweep_clustering.pipeline.report.look import JOINS_LETTERS, MOST_ACCURACIES, is_right_to_left
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

# What a section shows: a paragraph, perhaps one on how to read it, a table or a figure.
Part = str | Table | Drawn


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
        From `pipeline.report.against.compare`.
    published : Beside or None
        From `pipeline.scoring.kinds.rank_published`.
    failures : tuple of FailureRecord
        On record beside the cube.
    holder : str or None
        Who runs the sweep now.
    all_cells : pandas.DataFrame
        Cells of all designs and searches; `cells` and `summary` are of one of each.
    chosen : mapping of str to str
        Which, from `pipeline.scoring.tables.compared`.
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
        """How the sweep file writes each m."""
        return tables.written_counts(self.manifest.plans, self.manifest.spec.grid.m)

    @cached_property
    def accuracies(self) -> list[float]:
        """Those that are shown."""
        return spread(sorted(self.cells["p"].dropna().unique().tolist()), MOST_ACCURACIES)

    @cached_property
    def rankings(self) -> tuple[Ranking, ...]:
        """Models ranked by each of the scores that they are compared by."""
        return rankings(self.cells)

    @cached_property
    def ranked(self) -> list[Ranking]:
        """Those of two models or more that have ranks."""
        return [ranking for ranking in self.rankings if ranking.is_comparable and ranking.datasets]

    @cached_property
    def kinds(self) -> dict[str, pd.DataFrame]:
        """Ranks by kind of data, by score."""
        if not self.ranked:
            return {}
        known = facts(self.manifest.plans, self.tree)
        return {each.score: ranks_by_kind(each, known, self.written) for each in self.ranked}

    @cached_property
    def designs(self) -> dict[str, pd.DataFrame]:
        """Scores by how pairs were chosen, of one search; empty where all were chosen alike."""
        return design_scores(self.timed_cells, self.written)

    @property
    def timed_cells(self) -> pd.DataFrame:
        """Cells of all designs, of one search."""
        return tables.rows_of(self.all_cells, {k: v for k, v in self.chosen.items() if k == tables.SEARCH})

    @cached_property
    def searches(self) -> dict[str, pd.DataFrame]:
        """Each search beside the one that models are compared in, of one design; empty where there is one."""
        design = {key: value for key, value in self.chosen.items() if key == tables.DESIGN}
        return compared_searches(tables.rows_of(self.all_cells, design), self.manifest.spec.search)

    @cached_property
    def choices(self) -> pd.DataFrame:
        """Shapes of covariances that were chosen; empty without a model that chooses."""
        return tables.choice_table(self.cells)

    @cached_property
    def structures(self) -> pd.DataFrame:
        """What classes of any shape are made of; empty without a model of them."""
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
        """Held-out annotations that were predicted, where every model held some out."""
        return tables.prediction_table(self.cells) if self.holds_out else pd.DataFrame()


@dataclass(frozen=True)
class Section:
    """A part of the page, declared.

    Parameters
    ----------
    key, title : str
        Its address within the page, and its head, which may depend on what there is.
    shows : callable
        From the content to paragraphs, tables, and figures with the names of their files and captions. The
        page has these kinds in this order, and each kind as it comes.
    needs : callable
        Whether it has a place on this page; one that shows nothing has none either.
    says_why : bool
        Whether it says so when there is nothing to draw.
    """

    key: str
    title: str | Callable[[Content], str]
    shows: Callable[[Content], Iterable[Part]]
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
        Of the page.
    title : str
        Of the page.
    sections : iterable of tuple
        In order the key and the title of each, what it shows, and whether it says so when there is nothing to
        draw; one that shows nothing has no place.
    lead : sequence of str
        Paragraphs before the first of them.
    formats : sequence of str
        Of the figures, as `figures.save` takes them.
    legend : iterable of tuple of str
        As `elements.html` takes it.

    Returns
    -------
    list of Path
        Files of the figures.
    """
    folder, chapters = path.with_name("figures"), []
    for key, head, parts, says_why in sections:
        text: list[str] = []
        reading: list[str] = []
        tables, pictures, notes = [], [], {""}
        for part in parts:
            if isinstance(part, str):
                (reading if isinstance(part, Reading) else text).append(str(part))
            elif isinstance(part, Table):
                entries = (value.text for row in part.rows for value in row)
                heads = (head for group in part.groups for head, _ in group)
                more = explained(part.title, *heads, *part.columns, *entries, part.note)
                # a note that stands below a table of the section in sight is not said again
                note = part.note if part.note not in notes else ""
                tables.append(replace(part, note=" ".join(filter(None, (note, more)))).on_page())
                notes |= set() if tables[-1].folded else {part.note}
            elif (figure := part[1]) is not None:
                axes = (text for each in figure.axes for text in (each.get_xlabel(), each.get_ylabel()))
                caption = " ".join(filter(None, (part[2], explained(part[2], *axes))))
                pictures.append(save(figure, folder, part[0], caption, formats))
        if says_why and not pictures and not text:
            text.insert(0, "Nothing to show: no cell that is done has what this needs.")
        if text or tables or pictures:
            seen = tuple(tables), tuple(pictures)
            chapters.append(Chapter(key, head, tuple(text), *seen, tuple(reading)))
    path.write_text(html(title, chapters, lead, legend), encoding="utf-8")
    pictures = [picture for chapter in chapters for picture in chapter.pictures]
    instead = (
        "in PNG and PDF figures; the page and SVG figures have the letters as the reader's fonts show them"
    )
    if names := sorted({name for picture in pictures for name in picture.without_font}):
        logger.warning(
            "no installed font has all letters of %s: boxes stand for them %s", listed(names), instead
        )
    if not JOINS_LETTERS and any(is_right_to_left(picture.svg) for picture in pictures):
        wrong = "matplotlib before 3.11 writes right-to-left names from left to right"
        logger.warning("%s, with letters that are not joined, %s", wrong, instead)
    return [folder / f"{picture.name}.{suffix}" for picture in pictures for suffix in picture.formats]
