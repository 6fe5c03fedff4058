"""The report of a cube: text for a terminal, tables in CSV, and the page, from whatever is there of it.

`write_report` writes all of it, `sections` are the parts of the page, and `write_page` writes any page.
`write_export` writes tables and grids of a cube for other programs.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sweep_clustering.pipeline.common import Progress, plural, silent
from sweep_clustering.pipeline.report import cell, effort, elements, figures, scores, variants, winners
from sweep_clustering.pipeline.report.cell import choose_cell, named_cell
from sweep_clustering.pipeline.report.elements import WORDS, Chapter, Content, Section, enumeration, html
from sweep_clustering.pipeline.report.figures import JOINS_LETTERS, SVG, house_style, is_right_to_left, save
from sweep_clustering.pipeline.scoring import tables as scored
from sweep_clustering.pipeline.scoring.ranking import rank_published
from sweep_clustering.pipeline.scoring.raw import raw_text, scored_cells, scored_tree
from sweep_clustering.pipeline.scoring.scores import QUALITIES, plain, score_datasets
from sweep_clustering.storage.cube.manifest import Parts, Places, read_parts
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.storage.cube.store import open_parts
from sweep_clustering.storage.files import StorageError, building, storage_errors
from sweep_clustering.storage.runfolder.folder import FailureRecord, RunFolder, read_failures
from sweep_clustering.storage.runfolder.lease import read_lease
from sweep_clustering.sweeps import words
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, present, refused
from sweep_clustering.sweeps.plan import Cell, DatasetPlan
from sweep_clustering.sweeps.words import SHIPPED, chooses, has_groups, is_any, is_model, shape_of

logger = logging.getLogger(__name__)

# Lines that a terminal shows at once.
SCREEN = 36


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
        return {
            "page": str(self.page),
            "files": [str(file) for file in self.files],
            "cells": self.cells["status"].value_counts().to_dict(),
            "summary": records(self.summary),
        }


def write_report(
    cube: Places | Parts,
    folder: Path,
    *,
    published: Path | None = None,
    cell: str | None = None,
    formats: Sequence[str] = figures.SVG,
    for_paper: bool = False,
    cells: pd.DataFrame | None = None,
    progress: Progress = silent,
) -> Report:
    """Score a cube; write its tables as text and CSV, its figures, and a page with all of it.

    Parameters
    ----------
    cube : Path, str, sequence of them or Parts
        The cube, or its address, to which a sweep may be writing. Several are read as one.
    folder : Path
        Folder of `report.html`, `report.txt`, `summary.csv`, `cells.csv`, `times.csv`, with two models or
        more `winners.csv`, `ranks.csv`, `pairs.csv` and `robustness.csv`, with several searches
        `searches.csv` and `search-costs.csv`, with models that choose their shape `choices.csv`, where every
        model holds annotations out `predictions.csv`, with published means `scores.csv`, and `figures/`. It
        is made if it is missing.
    published : Path, optional
        Table of published means to show beside those of the cube, as `read_published` takes it.
    cell : str, optional
        Cell to be drawn as scatter plots, instead of that of `pipeline.report.cell.choose_cell`.
    formats : sequence of str
        Formats of figures for `pipeline.report.figures.save`.
    for_paper : bool
        Whether a folder `paper` has the tables in LaTeX and the figures in PDF, too.
    cells : pandas.DataFrame, optional
        `scored_cells` of the cube, if they are known.
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
    sweep_clustering.storage.files.StorageError
        If the file system refuses.
    """
    # everything that may be bad input is read before anything is computed
    problems: list[Problem] = []
    parts, table, request = None, None, None
    with collecting(problems):
        elements.check_folder(folder)
    with collecting(problems):
        table = scores.read_published(published) if published is not None else None
    with collecting(problems):
        parts = cube if isinstance(cube, Parts) else read_parts(cube)
        request = named_cell(parts.manifest.plans, cell) if cell is not None else None
    if parts is None or problems:
        raise InputError(problems)
    if parts.missing:
        logger.warning(parts.missing)
    tree = open_parts(parts)
    cells = scored_cells(tree, parts.manifest.plans, parts.paths, progress) if cells is None else cells
    summary = scored.summary_table(cells)
    content = _content(parts, tree, cells, summary, table, request)
    tables = {"summary": summary, "cells": cells, **_tables(content)}
    with storage_errors(folder), house_style(parts.manifest.plans):
        folder.mkdir(parents=True, exist_ok=True)
        plain, page = folder / "report.txt", folder / "report.html"
        chapters = write_figures(folder, progress(sections(content), "sections of the page"), formats)
        text = render(content, chapters)
        plain.write_text(text, encoding="utf-8")
        files = [plain, *elements.write_csv(folder, tables)]
        files += write_page(page, parts.manifest.spec.name, chapters, lead(content), list(legend(content)))
    if for_paper:
        with storage_errors(folder), house_style(parts.manifest.plans, in_paper=True):
            paper_sections = progress(sections(content), "sections of the paper")
            chapters = write_figures(folder / "paper", paper_sections, ("pdf",))
            files += elements.write_paper(folder / "paper", chapters)
    return Report(text, first_screen(text), page, tuple(files), cells, summary)


def _content(
    parts: Parts,
    tree: xr.DataTree,
    all_cells: pd.DataFrame,
    full_summary: pd.DataFrame,
    published: pd.DataFrame | None,
    request: Cell | None,
) -> Content:
    """Take one design and search of all cells and their whole summary, and read what is beside the cube."""
    manifest = parts.manifest
    # means are of one design and search, never over several: what compares models does so in one of them
    chosen_variants = scored.compared_variants(all_cells)
    cells, summary = scored.rows_of(all_cells, chosen_variants), scored.rows_of(full_summary, chosen_variants)
    left_out = [plan.name for plan in manifest.plans.values() if plan.left_out]
    has_means = published is not None and "ari" not in published
    failures: tuple[FailureRecord, ...] = ()
    holder = None
    # the directory of a run is its owner's alone; a cube is for everybody
    for place in (Path(part.path) for part in parts.cubes):
        with suppress(PermissionError):
            failures += tuple(read_failures(RunFolder(place)))
        with suppress(PermissionError, StorageError):
            lease = read_lease(place)
            holder = str(lease.holder) if lease is not None and not lease.is_free else holder
    return Content(
        manifest=manifest,
        tree=tree,
        cells=cells,
        summary=summary,
        cell=choose_cell(cells[~cells["dataset"].isin(left_out)] if request is None else all_cells, request),
        comparison=scores.compare(summary, manifest.plans, present(published)) if has_means else None,
        published=None if published is None or has_means else rank_published(cells, published),
        failures=failures,
        holder=holder,
        all_cells=all_cells,
        variants=chosen_variants,
    )


def _tables(content: Content) -> dict[str, pd.DataFrame]:
    """Return the tables of the CSV files by name, without cells and their summary."""
    cells = content.all_cells
    tables = {
        "times": scored.time_table(cells),
        "restarts": scored.restart_table(content.cells),
        **winners.winner_files(content),
        **variants.design_files(content.designs),
        **content.searches,
    }
    if content.chooses:
        choices = {"choices": scored.choice_table(cells), "structures": scored.structure_table(cells)}
        tables |= {name: table for name, table in choices.items() if len(table)}
    if content.holds_out:
        tables["predictions"] = scored.prediction_table(cells)
    if content.comparison is not None:
        tables["against"] = content.comparison
    if content.published is not None:
        tables["published"] = content.published.scores
        tables["published-methods"] = content.published.methods
        tables["published-ranks"] = content.published.ranking.table()
    return tables


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for JSON, which has no NaN."""
    return list(table.astype(object).where(table.notna(), None).to_dict("records"))


def render(content: Content, chapters: Iterable[Chapter]) -> str:
    """Return the text of a report: how much is there, then words and tables of the page."""
    manifest = content.manifest
    parts = [[f"sweep {manifest.spec.name}, seed {manifest.spec.seed}", f"cube {manifest.path}"]]
    parts[0] += chain.from_iterable(map(elements.paragraph_lines, lead(content)))
    parts += [elements.chapter_lines(chapter) for chapter in chapters if chapter.n_in_text is not None]
    meanings = (
        elements.paragraph_lines(f"{name}: {meaning}", "  ", "    ") for name, meaning in legend(content)
    )
    parts.append(["what the words mean", *chain.from_iterable(meanings)])
    return "\n\n".join(map("\n".join, parts)) + "\n"


def first_screen(text: str) -> str:
    """Return the first lines of a report, up to the end of a part if one ends in their second half.

    The whole first part is shown, because it has the warnings.
    """
    lines = text.splitlines()
    if len(lines) <= SCREEN:
        return text
    lead = lines.index("") if "" in lines else 0
    ends = [place for place in range(max(SCREEN // 2, lead), SCREEN) if not lines[place]]
    first = lines[: max(ends, default=max(SCREEN, lead))]
    rest_text = plural(len(lines) - len(first), "more line")
    return "\n".join([*first, "", f"{rest_text} in report.txt, or with --full"]) + "\n"


# Results come first, and what made them last. To add a section, add a row with a function in the module of
# its subject, which returns its paragraphs, tables and figures. A section that has no part has no place.
# Sections take scores from the catalogue, and models and designs from their looks, so
# they need not know new ones.
def sections(content: Content) -> tuple[Section, ...]:
    """Return the sections of the page in order, whose parts are made when they are asked for."""
    return (
        Section("winners", "Who wins", winners.standing(content), n_in_text=1),
        Section("designs", "How the pairs were chosen", variants.designs(content), n_in_text=2),
        Section("searches", "How solutions were searched for", variants.searches(content), n_in_text=0),
        Section("labels", "Among published labels", scores.ranks_beside_labels(content), n_in_text=0),
        Section("kinds", "Ranks by p, m and kind of data", winners.kinds(content)),
        Section(
            "curves", "NMI, ARI and KL divergence against annotations", scores.curves(content), has_note=True
        ),
        Section("scores", "Scores", scores.means(content), n_in_text=elements.ALL_TABLES),
        Section("relative", "Relative NMI", scores.relative(content), has_note=True),
        Section("index", "Centroid index", scores.index(content), has_note=True),
        Section("robustness", "Robustness to wrong annotations", winners.robustness(content)),
        Section("duels", "Wins, ties and losses", winners.duels(content)),
        Section("cost", "Score against time", winners.cost(content)),
        Section("against", "Beside the published values", scores.published_comparison(content), n_in_text=0),
        Section("agreement", "Correct annotations", scores.agreement(content), has_note=True),
        Section("choices", "Held-out annotations", scores.choices(content), n_in_text=elements.ALL_TABLES),
        Section("cell", "One cell", cell.partitions(content), has_note=True),
        Section("failures", "Failures", effort.failures(content)),
        Section("restarts", "Restarts", effort.restarts(content)),
        Section("times", "Time", effort.times(content)),
        Section("head", "What ran", effort.head(content), n_in_text=elements.ALL_TABLES),
    )


def lead(content: Content) -> tuple[str, ...]:
    """Return the paragraphs before the first section: the result, then how much of the sweep is there."""
    return (
        # the result comes after the design and the search that it holds for
        *effort.single_variants(content.manifest, content.variants),
        *winners.headline(content.full_rankings),
        *variants.design_headline(content.designs),
        *effort.state(content),
    )


def legend(content: Content) -> Iterator[tuple[str, str]]:
    """Yield each word of the page that a new reader needs, with its meaning in this cube."""
    texts, spec = WORDS["legend"], content.manifest.spec
    accuracies = enumeration([f"p = {p:g}" for p in spec.grid.p])
    if accuracies:
        yield "p", texts["p"].format(values=accuracies)
        yield "m", texts["m"].format(values=enumeration([f"m = {count.text}" for count in spec.grid.m]))
    yield "cell", texts["cell"]
    largest = max((plan.restarts for plan in content.manifest.plans.values()), default=0)
    yield "restart", texts["restart"].format(restarts=f"{largest} restarts" if largest > 1 else "restarts")
    models = list(content.cells["model"].unique())
    meanings = [f"{model}: {model_words(model)}" for model in models[: elements.MOST_NAMES + 2]]
    if meanings:
        n_more = len(models) - len(meanings)
        yield "models", "; ".join(meanings) + (f"; and {n_more} more." if n_more else ".")
    score_names = set(content.summary["score"])
    scores = [texts[score] for score in QUALITIES if score in score_names and score in texts]
    if scores:
        yield "scores", " ".join(scores)


def model_words(model: str) -> str:
    """Describe a model or a method in a few words."""
    if not is_model(model):
        return SHIPPED[model].text if model in SHIPPED else "a user-defined method"
    term, _ = words.split_model(model)
    if is_any(model):
        shape = f"classes of one Gaussian or several{' or of merged groups' if has_groups(model) else ''}"
    elif chooses(model):
        shape = "covariances as held-out annotations choose"
    else:
        shape = f"{shape_of(model)} covariances"
    return f"{WORDS['terms'][term]}, {shape}"


# Folder of the figures beside a page.
FIGURES = "figures"
NO_CELLS = "Nothing to show: no cell that is done has what this needs."


def write_page(
    path: Path,
    title: str,
    chapters: Sequence[Chapter],
    lead: Sequence[str],
    legend: Iterable[tuple[str, str]] = (),
    foot: str = "",
) -> list[Path]:
    """Write a page of the chapters of `write_figures`, and return its file and those of its figures.

    Other parameters are those of `html`.
    """
    path.write_text(html(title, chapters, lead, legend, foot), encoding="utf-8")
    pictures = [picture for chapter in chapters for picture in chapter.pictures]
    _warn_of_letters(pictures)
    names = [f"{picture.name}.{suffix}" for picture in pictures for suffix in picture.formats]
    return [path, *(path.with_name(FIGURES) / name for name in names)]


def write_figures(folder: Path, sections: Iterable[Section], formats: Sequence[str] = SVG) -> list[Chapter]:
    """Write the figures of sections, below a folder, and return the chapters of those that have a part."""
    notes = set[str]()
    chapters = (_chapter(section, folder / FIGURES, formats, notes) for section in sections)
    return [chapter for chapter in chapters if chapter is not None]


def _chapter(section: Section, folder: Path, formats: Sequence[str], on_page: set[str]) -> Chapter | None:
    """Return a section with its figures written, and add its notes on scores to those on the page."""

    def new_notes(*texts: str) -> list[str]:
        notes = [note for note in elements.score_notes(*texts) if note not in on_page]
        on_page.update(notes)
        return notes

    text: list[str] = []
    reading: list[str] = []
    tables: list[elements.Table] = []
    pictures: list[elements.Picture] = []
    notes = {""}
    for part in section.parts:
        if isinstance(part, str):
            (reading if isinstance(part, elements.Reading) else text).append(str(part))
        elif isinstance(part, elements.Table):
            entries = (value.text for row in part.rows for value in row)
            heads = (head for group in part.groups for head, _ in group)
            score_notes = new_notes(part.title, *heads, *part.columns, *entries, part.note)
            # a note that stands below an open table of the section is not repeated
            note = part.note if part.note not in notes else ""
            tables.append(replace(part, note=" ".join(filter(None, (note, *score_notes)))).on_page())
            notes |= set() if tables[-1].folded else {part.note}
        elif (figure := part[1]) is not None:
            labels = (text for axes in figure.axes for text in (axes.get_xlabel(), axes.get_ylabel()))
            caption = " ".join(filter(None, (part[2], *new_notes(part[2], *labels))))
            pictures.append(save(figure, folder, part[0], caption, formats))
    if section.has_note and not pictures and not text:
        text.insert(0, NO_CELLS)
    if not (text or tables or pictures):
        return None
    parts = tuple(text), tuple(tables), tuple(pictures), tuple(reading)
    return Chapter(section.key, section.title, *parts, section.n_in_text)


def _warn_of_letters(pictures: Sequence[elements.Picture]) -> None:
    """Log names that no font can write, and names that an old matplotlib writes in the wrong order."""
    formats = (
        "in PNG and PDF figures; the page and SVG figures have the letters as the reader's fonts show them"
    )
    if names := sorted({name for picture in pictures for name in picture.without_font}):
        logger.warning(
            "no installed font has all letters of %s: boxes stand for them %s", enumeration(names), formats
        )
    if not JOINS_LETTERS and any(is_right_to_left(picture.svg) for picture in pictures):
        fault = "matplotlib before 3.11 writes right-to-left names from left to right"
        logger.warning("%s, with letters that are not joined, %s", fault, formats)


# End of a file's name, by format.
FORMATS = {"csv": ".csv", "parquet": ".parquet", "netcdf": ".nc", "raw": ".csv"}

EXTRA = "pip install 'sweep-clustering[tables]'"
# Coordinates of a cell beside its model.
CELL = ("mixture", "p", "m", "m_over_n", "design", "replicate", "search")


def write_export(cube: Places, folder: Path, form: str, *, overwrite: bool = False) -> list[Path]:
    """Write labels, scores and summaries of a cube to a folder, each file whole or not at all.

    Parameters
    ----------
    cube : Path, str or sequence of them
        The cube, or its address, to which a sweep may be writing. Several are read as one.
    folder : Path
        Output folder, which is made if it is missing.
    form : {"csv", "parquet", "netcdf", "raw"}
        Tables with one row for each cell (`cells`), for each group of cells and score (`summary`), and for
        each sample of each cell (`labels-<data set>`); or grids, a file for each node of the
        cube with the scores and labels of its cells; or, "raw", one table of the scores of all cells
        (`scores`) with what another needs to compute them again.
    overwrite : bool
        Whether files of these names may be there.

    Returns
    -------
    list of Path
        Files that were written.

    Raises
    ------
    InputError
        If this is not a cube, or something is there already.
    StorageError
        If the file system refuses.
    """
    elements.check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        hint = "--force overwrites the files of these names in it"
        raise refused(folder, "files", "an empty folder, or none", hint)
    if form == "parquet" and find_spec("pyarrow") is None:
        raise refused("--format parquet", "no pyarrow", "pyarrow", EXTRA)
    parts = read_parts(cube)
    manifest, tree = parts.manifest, open_parts(parts)
    if parts.missing:
        logger.warning(parts.missing)
    with building(folder) as temporary:
        if form == "raw":
            names = [f"scores{FORMATS[form]}"]
            text = raw_text(scored_cells(tree, manifest.plans, parts.paths), manifest)
            (temporary / names[0]).write_text(text, encoding="utf-8")
        else:
            write = _write_grids if form == "netcdf" else _write_tables
            names = list(write(tree, parts, temporary, FORMATS[form]))
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (temporary / name).replace(folder / name)
    return [folder / name for name in names]


def _write_tables(tree: xr.DataTree, parts: Parts, folder: Path, suffix: str) -> Iterator[str]:
    cells = scored_cells(tree, parts.manifest.plans, parts.paths)
    tables: dict[str, Iterable[pd.DataFrame]] = {"cells": [cells], "summary": [scored.summary_table(cells)]}
    tables |= {f"labels-{name}": _label_tables(tree, plan) for name, plan in parts.manifest.plans.items()}
    for name, rows in tables.items():
        write_rows(folder / f"{name}{suffix}", rows)
        yield f"{name}{suffix}"


def _label_tables(tree: xr.DataTree, plan: DatasetPlan) -> Iterator[pd.DataFrame]:
    """Yield labels of all cells of a data set that are done, with a table for some of them at a time.

    Columns are the coordinates of the cell, `model`, `sample` (its name, or its number from 1), `label` from
    0, and `label_true`, the name of the class or its code, if it is known.
    """
    data = tree[plan.name].to_dataset()
    nodes = [tree[plan.name][model].to_dataset().assign_coords(model=model) for model in plan.baselines]
    if plan.supervised:
        places = product(range(len(plan.p)), range(len(plan.m)))
        nodes += [data.isel(p=[i], m=[j]) for i, j in places]
    for place, node in enumerate(nodes):
        table = _labels(node, data, plan)
        if len(table) or place == 0:  # a table without rows has the columns
            yield table


def _labels(node: xr.Dataset, data: xr.Dataset, plan: DatasetPlan) -> pd.DataFrame:
    """Return rows of the samples of each cell that is done, with all columns."""
    labels = node[["labels", "status"]]
    has_labels = "labels_true" in data
    if has_labels:
        labels = labels.assign(label_true=data["labels_true"])
    if "sample" not in data.coords:
        labels = labels.assign_coords(sample=np.arange(1, plan.n_samples + 1))
    cell = [dim for dim in labels["labels"].dims if dim != "sample"]
    rows = labels.to_dataframe([*cell, "sample"]).reset_index()
    rows = rows[rows["status"] == DONE].rename(columns={"labels": "label"}).assign(dataset=plan.name)
    if plan.class_names and has_labels:
        rows["label_true"] = np.array(plan.class_names, dtype=object)[rows["label_true"]]
    ints = dict.fromkeys(("mixture", "m", "replicate"), "Int64")
    floats = dict.fromkeys(("p", "m_over_n"), "Float64")
    last = ("model", "sample", "label", *(["label_true"] if has_labels else []))
    table = rows.reindex(columns=["dataset", *CELL, *last]).reset_index(drop=True)
    return table.astype({**ints, **floats, "design": object, "search": object, "dataset": str, "model": str})


def write_rows(path: Path, tables: Iterable[pd.DataFrame]) -> None:
    """Write tables with the same columns, one after the other, to one file of CSV or Parquet."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            for number, table in enumerate(tables):
                elements.spreadsheet(table).to_csv(file, index=False, header=number == 0, lineterminator="\n")
        return
    import pyarrow as pa
    import pyarrow.parquet as parquet

    # a part may have no value in one of these columns, and so not its type
    types = {"design": pa.string(), "search": pa.string()}
    with ExitStack() as closing:
        writer = None
        for table in tables:
            part = pa.Table.from_pandas(table, preserve_index=False)
            fields = [field.with_type(types.get(field.name, field.type)) for field in part.schema]
            part = part.cast(pa.schema(fields, metadata=part.schema.metadata))
            writer = writer or closing.enter_context(parquet.ParquetWriter(path, part.schema))
            writer.write_table(part)


def _write_grids(tree: xr.DataTree, parts: Parts, folder: Path, suffix: str) -> Iterator[str]:
    tree = scored_tree(tree, parts.manifest.plans, parts.paths)
    for plan in parts.manifest.plans.values():
        for path, values in score_datasets(tree, plan.name).items():
            node = tree[path].to_dataset()
            grid = plain(values.assign(labels=node["labels"], status=node["status"]))
            if plan.class_names:
                grid.attrs["class_names"] = "\n".join(plan.class_names)
            file = f"{path.replace('/', '-')}{suffix}"
            # version 3 of the format, which every reader has, needs no library of its own
            grid.drop_encoding().to_netcdf(folder / file, engine="scipy")
            yield file
