"""A board: a static site of the lines of one or more cubes or bundles, in the style of the report.

A line is a model or a method as one cube has it. `write_board` writes the folder: a page of ranks, scores
and costs, a page for each data set, and the CSV file behind each table. Lines of the same name are one line
only if they were made alike and agree on every cell that both have. The first cube sets the places at which
all lines are compared, so what others add changes none of its scores.
"""

import hashlib
import json
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import escape
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sweep_clustering.pipeline.check import VerificationRecord, published_hash, read_records
from sweep_clustering.pipeline.common import Progress, plural, silent
from sweep_clustering.pipeline.publish.description import Origin, data_origins
from sweep_clustering.pipeline.report import elements, winners, write
from sweep_clustering.pipeline.report.elements import WORDS, Content, Section, Table, Value, number, words
from sweep_clustering.pipeline.report.figures import house_style
from sweep_clustering.pipeline.scoring import tables
from sweep_clustering.pipeline.scoring.ranking import RANKED, facts, n_lacking, rank
from sweep_clustering.pipeline.scoring.raw import head_of, scored_cells
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.cube.schema import ANSWERED_WORDS
from sweep_clustering.storage.cube.store import open_cube
from sweep_clustering.storage.files import LONGEST_ROOT, building, sync_directory
from sweep_clustering.storage.provenance import package_version
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, key_changes, raise_all, refused
from sweep_clustering.sweeps.files import read_file
from sweep_clustering.sweeps.words import UNIFORM

FORMAT = "sweep board"
FORMAT_VERSION = 1
# The file of a board that lists all others.
MANIFEST = "board.json"
INDEX = "index.html"
DATASETS = "datasets"

# Settings by which annotations are drawn. Cubes that differ in them are not of the same cells.
DRAWS = ("seed", "ask", "crowd")
# Variables of a cube that a board needs: with all others it would take twice as long.
VARIABLES = ("labels", "labels_true", "status", "restarts_done", "seconds", "cpu_seconds", "log_likelihood")
# A model or a method is a line on a board.
LINE = {"model": "line"}
# Coordinates of a cell on a board, without its line.
PLACE = ["dataset", "mixture", "p", "m", "replicate"]
# Scores that differ by no more are equal: other orders of summation give other last digits.
SAME_SCORE = 1e-9
# This stands for a licence.
NO_LICENCE = "not known"
# Letters of the name of a file.
LONGEST_FILE = 80


@dataclass(frozen=True)
class Source:
    """A cube or a bundle by its name on the board; its cells are those of one design and search."""

    name: str
    manifest: Manifest
    tree: xr.DataTree
    cells: pd.DataFrame
    digest: str = ""
    records: Sequence[VerificationRecord] = ()

    def science(self, model: str) -> object:
        """Return what the answers of a model or method depend on, beside data and annotations."""
        head = head_of(self.manifest.spec, self.manifest.plans)
        if model in head["methods"]:
            return head["methods"][model]
        settings = {key: value for key, value in head["settings"].items() if key not in DRAWS}
        search = settings["search"]
        first = dict(search[0] if isinstance(search, list) else search)
        return settings | {"search": {key: value for key, value in first.items() if key != "name"}}


@dataclass(frozen=True)
class Line:
    """A model or a method on the board, from one source or several; `note` says why a namesake is not it."""

    name: str
    model: str
    sources: tuple[str, ...]
    science: object
    cells: pd.DataFrame
    note: str = ""


def write_board(
    places: Sequence[Path], target: Path, records: Iterable[Path] = (), progress: Progress = silent
) -> Path:
    """Write the board of some cubes or bundles to a folder in one step, and return its first page.

    Parameters
    ----------
    places : sequence of Path
        Cubes and bundles. The first one sets the places at which all are compared.
    target : Path
        Folder, in which a board is replaced.
    records : iterable of Path
        Records of verifications, beside those that lie at `NAME.verified*.json` beside a cube NAME.
    progress : callable
        Goes through the data sets of each cube, then through the sections of the first page.

    Raises
    ------
    InputError
        If something is no cube, annotations or data differ between cubes, or something else is at `target`;
        nothing is written then.
    StorageError
        If the file system refuses.
    """
    target = target.resolve()
    problems = list[Problem]()
    with collecting(problems):
        _check_out(target)
    manifests, hashes = dict[str, Manifest](), dict[Path, str]()
    with collecting(problems):
        manifests = read_manifests(places)
        hashes = {place: published_hash(place) for place in places}
        neighbours = (place.parent.glob(f"{escape(place.stem)}.verified*.json") for place in places)
        claims = read_records(records, hashes, chain(*neighbours))
    raise_all(problems)
    sources = [
        replace(source_of(manifest, name, progress), digest=hashes[place], records=claims[place])
        for place, (name, manifest) in zip(places, manifests.items(), strict=True)
    ]
    with building(target) as folder, house_style(chain(*(manifest.plans for manifest in manifests.values()))):
        site, replaced_board = folder / "site", folder / "before"
        site.mkdir()
        _write(site, sources, progress)
        if target.exists():
            target.rename(replaced_board)
        try:
            site.rename(target)
        except OSError:
            if replaced_board.exists():
                replaced_board.rename(target)
            raise
        sync_directory(target.parent)
    return target / INDEX


def _check_out(target: Path) -> None:
    """Raise InputError if anything but a whole board, or an empty folder, is in the place of a new one."""
    elements.check_folder(target)
    files = {path.relative_to(target).as_posix() for path in target.rglob("*") if not path.is_dir()}
    listed_files = set[str]()
    with suppress(InputError, ValueError, TypeError, KeyError):
        listing = json.loads(read_file(target / MANIFEST, LONGEST_ROOT)) if files else {"format": ""}
        listed_files = {*listing["files"], MANIFEST} if listing["format"] == FORMAT else listed_files
    if foreign := sorted(files - listed_files):
        expected = f"a board ({MANIFEST} lists its files), an empty folder, or nothing"
        fault = f"files of something else: {elements.enumeration(foreign)}"
        raise refused(target, fault, expected, "name another --out")


def read_manifests(places: Iterable[Path]) -> dict[str, Manifest]:
    """Read the states of cubes or bundles by their names on a board, which are those of the files.

    One InputError has all that is no cube, and all differences in data, and in settings of annotations.
    """
    problems, manifests = list[Problem](), dict[str, Manifest]()
    first_values = dict[str, tuple[object, Path]]()
    for place in places:
        with collecting(problems):
            manifest, name, n = read_manifest(place), place.stem, 1
            while name in manifests:
                name, n = f"{place.stem}-{n + 1}", n + 1
            manifests[name] = manifest
            head, designs = head_of(manifest.spec, manifest.plans), manifest.spec.grid.design
            facts = {f"data set {name}": value for name, value in head["data"].items()}
            facts |= {f"setting {key}": head["settings"][key] for key in DRAWS if key in head["settings"]}
            facts |= {"setting design": UNIFORM if UNIFORM in designs else designs[0]}
            for key, value in facts.items():
                expected, first = first_values.setdefault(key, (value, place))
                problems += key_changes(f"{place}: ", {key: value}, {key: expected}, first)
    raise_all(problems)
    return manifests


def source_of(manifest: Manifest, name: str, progress: Progress = silent) -> Source:
    """Score the cells of a cube or a bundle for a board; `progress` goes through the data sets."""
    nodes = open_cube(manifest.path).to_dict()
    small_nodes = {path: node[[name for name in VARIABLES if name in node]] for path, node in nodes.items()}
    tree = xr.DataTree.from_dict(small_nodes)
    cells = scored_cells(tree, manifest.plans, [manifest.path], progress)
    cells = tables.rows_of(cells, tables.compared_variants(cells)).assign(design=np.nan, search=np.nan)
    return Source(name, manifest, tree, cells)


def _lines(sources: Sequence[Source]) -> list[Line]:
    """Return the lines of all sources; namesakes that are not the same line have the name of their source."""
    lines = dict[str, Line]()
    for source in sources:
        for model, cells in source.cells.groupby("model", sort=False):
            science, name, note = source.science(str(model)), str(model), ""
            for namesake in [line for line in lines.values() if line.model == model]:
                is_alike = namesake.science == science
                conflict = _conflict(namesake.cells, cells) if is_alike else "other settings, or other code"
                if not conflict:
                    rows = pd.concat([namesake.cells, cells])
                    # what has an answer comes before what failed or is pending
                    rows = rows.iloc[np.argsort(~rows["status"].isin(ANSWERED_WORDS), kind="stable")]
                    name, cells = namesake.name, rows.drop_duplicates(PLACE, ignore_index=True)
                    break
                note, name = f"not {namesake.name}: {conflict}", f"{model} ({source.name})"
            line = lines.get(name, Line(name, str(model), (), science, cells, note))
            origins = (*line.sources, source.name)
            lines[name] = replace(line, sources=origins, cells=cells.assign(model=name))
    return list(lines.values())


def _conflict(old_cells: pd.DataFrame, new_cells: pd.DataFrame) -> str:
    """Say in how many cells that both have two tables differ; an empty text if in none."""
    pairs = old_cells.merge(new_cells, on=PLACE, suffixes=("", "_after"))
    pairs = pairs[pairs["status"].isin(ANSWERED_WORDS) & pairs["status_after"].isin(ANSWERED_WORDS)]
    is_different = pairs["status"] != pairs["status_after"]
    for score in RANKED:
        pair = pairs[score], pairs[f"{score}_after"]
        is_different |= ~np.isclose(*pair, rtol=0.0, atol=SAME_SCORE, equal_nan=True)
    if not is_different.any():
        return ""
    first = tables.row_cell(pairs[is_different].iloc[0])
    return f"{int(is_different.sum()):,} of {plural(len(pairs), 'common cell')} differ, first {first}"


def _write(folder: Path, sources: Sequence[Source], progress: Progress) -> None:
    board = Board.of(sources)
    (folder / DATASETS).mkdir()
    chapters = write.write_figures(folder, progress(board.sections(), "sections of the board"))
    content, title = board.content, board.title
    lead = (*winners.headline(content.full_rankings), *board.lead())
    # a table has what each line is
    legend = [(word, meaning) for word, meaning in write.legend(content) if word != "models"]
    write.write_page(folder / INDEX, title, chapters, lead, legend, foot=board.foot)
    tables = [table for chapter in chapters for table in chapter.tables]
    frames = {table.file.removesuffix(".csv"): elements.frame(table) for table in tables}
    elements.write_csv(folder, frames | board.files())
    for name, file in board.pages.items():
        links = [Value(title, title, link=f"../{INDEX}#{DATASETS}")]
        page = elements.html(name, board.page(name), foot=board.foot, links=links)
        (folder / DATASETS / f"{file}.html").write_text(page, encoding="utf-8")
        rows = board.summary[board.summary["dataset"] == name]
        elements.write_csv(folder / DATASETS, {file: rows.rename(columns=LINE)})
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    listing: dict[str, object] = {"format": FORMAT, "format_version": FORMAT_VERSION}
    listing |= {"sources": {source.name: source.digest for source in sources}, "files": files}
    (folder / MANIFEST).write_text(json.dumps(listing, indent=1) + "\n", encoding="utf-8")


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name of a file for each data set, without an ending; no two are alike on any file system."""
    plain = {name: name.replace("/", "-")[:LONGEST_FILE] for name in names}
    counts = Counter(map(str.casefold, plain.values()))
    return {
        name: f"{text}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        if counts[text.casefold()] > 1
        else text
        for name, text in plain.items()
    }


@dataclass(frozen=True)
class Board:
    """Everything that the pages show.

    `content` has the ranked lines, as a report has the models of a cube; `gaps` has how many results each
    line lacks that all lines of the first source have, and `summary` the means of all lines. `pages` are the
    names of the pages of data sets.
    """

    sources: Sequence[Source]
    lines: Sequence[Line]
    gaps: Mapping[str, int]
    content: Content
    cells: pd.DataFrame
    summary: pd.DataFrame
    pages: Mapping[str, str]

    @classmethod
    def of(cls, sources: Sequence[Source]) -> "Board":
        """Join the lines of some sources."""
        first, lines = sources[0], _lines(sources)
        first_lines = [line for line in lines if first.name in line.sources]
        reference = rank(pd.concat([line.cells for line in first_lines]), RANKED[0])
        gaps = {line.name: 0 if line in first_lines else n_lacking(reference, line.cells) for line in lines}
        names = list(dict.fromkeys(chain(*(source.manifest.plans for source in sources))))
        cells = pd.concat([line.cells for line in lines])
        cells = cells.iloc[np.argsort(cells["dataset"].map(names.index), kind="stable")]
        cells = cells.reset_index(drop=True)
        summary = tables.summary_table(cells)
        summary = summary[summary["score"].isin(RANKED)]
        ranked_cells = cells[cells["model"].map(gaps) == 0]
        content = Content(first.manifest, first.tree, ranked_cells, summary, cells)
        return cls(sources, lines, gaps, content, cells, summary, file_names(names))

    @property
    def title(self) -> str:
        """Head of the first page."""
        return f"Board of {self.sources[0].manifest.spec.name}"

    @property
    def foot(self) -> str:
        """Last words of each page."""
        return WORDS["board"]["foot"].format(version=package_version())

    def lead(self) -> Iterator[str]:
        """Yield paragraphs on what the board has, and which lines have ranks."""
        texts, names = WORDS["board"], [source.name for source in self.sources]
        lines, datasets = plural(len(self.lines), "line"), plural(len(self.pages), "data set")
        answers = f"{self.cells['status'].isin(ANSWERED_WORDS).sum():,} of {plural(len(self.cells), 'cell')}"
        yield f"{lines} on {datasets}, from {elements.enumeration(names)}: {answers} have an answer."
        if len(names) > 1:
            yield texts["ranked"].format(first=names[0])
        if unranked := [f"{name} lacks {plural(n, 'result')}" for name, n in self.gaps.items() if n]:
            yield f"Not ranked: {'; '.join(unranked)}."

    def sections(self) -> tuple[Section, ...]:
        """Return the sections of the first page, most of them those of a report."""
        content, processors = self.content, [WORDS["board"]["processors"]] * (len(self.sources) > 1)
        return (
            Section("winners", "Who wins", winners.standing(content)),
            Section("cost", "Score against time", chain(processors, winners.cost(content))),
            Section("duels", "Wins, ties and losses", winners.duels(content)),
            Section("kinds", "Ranks by p, m and kind of data", winners.kinds(content)),
            Section("robustness", "Robustness to wrong annotations", winners.robustness(content)),
            Section("datasets", "Data sets", [self._datasets()]),
            Section("lines", "Lines", [self._lines()]),
            Section("verified", "What was verified", self._verified()),
            Section("frozen", "What is frozen", [self._bundles(), self._software()]),
        )

    def files(self) -> dict[str, pd.DataFrame]:
        """Return the tables of the CSV files that have more than the first page, by name."""
        columns = [*PLACE, "model", "status", "restarts_done", "seconds", "cpu_seconds", *RANKED]
        files = {
            **winners.winner_files(self.content),
            "times": tables.time_table(self.cells),
            "cells": self.cells[columns],
        }
        return {name: table.rename(columns=LINE) for name, table in files.items()}

    def _datasets(self) -> Table:
        rows = []
        for name, file in self.pages.items():
            plan = self._sources_of(name)[0].manifest.plans[name]
            sizes = [number(size) for size in (plan.n_samples, plan.n_features, plan.n_clusters)]
            entry = [Value(name, name, link=f"{DATASETS}/{file}.html"), *sizes]
            for ranking in self.content.rankings:
                means = ranking.values[ranking.values["dataset"] == name].set_index("model")["mean"].dropna()
                best = (number(means.max(), elements.FORM), words(means.idxmax())) if len(means) else ()
                entry += best or (elements.DASH, elements.DASH)
            rows.append((*entry, words(self.origin(name).licence or NO_LICENCE)))
        heads = ["data set", "samples", "features", "classes"]
        for ranking in self.content.rankings:
            heads += [f"best {ranking.label}", f"line by {ranking.label}"]
        note = WORDS["board"]["datasets"]
        return Table("Data sets", (*heads, "licence"), tuple(rows), note=note, n_lead=1, file="datasets.csv")

    def origin(self, dataset: str) -> Origin:
        """Return where a data set is from, as its first source says."""
        origins = data_origins(self._sources_of(dataset)[0].manifest)
        return origins.get(dataset, Origin(dataset, "drawn by the sweep", "", {}))

    def _sources_of(self, dataset: str) -> list[Source]:
        return [source for source in self.sources if dataset in source.manifest.plans]

    def _lines(self) -> Table:
        columns: list[elements.Column] = [
            ("line", "name", ""),
            ("what", lambda line: write.model_words(line.model), ""),
            ("from", lambda line: ", ".join(line.sources), ""),
            ("cells", lambda line: len(line.cells), ",.0f"),
            ("results lacking for a rank", lambda line: self.gaps[line.name], ",.0f"),
            ("note", "note", ""),
        ]
        note = WORDS["board"]["lines"].format(first=self.sources[0].name)
        return elements.table("Lines", self.lines, columns, note=note, n_lead=1, file="lines.csv")

    def _verified(self) -> Iterator[elements.Part]:
        yield WORDS["board"]["verified"]
        rows = [(source.name, record) for source in self.sources for record in source.records]
        columns: list[elements.Column] = [
            ("bundle", lambda row: row[0], ""),
            ("by", lambda row: row[1].by, ""),
            ("when", lambda row: row[1].at, ""),
            ("result", lambda row: " ".join(row[1].statements), ""),
            ("cells left out", lambda row: row[1].left_out, ",.0f"),
            ("on", lambda row: row[1].made_with.get("cpu", elements.DASH), ""),
        ]
        if rows:
            yield elements.table("Verifications", rows, columns, n_lead=1, file="verified.csv")
        if unverified := [source.name for source in self.sources if not source.records]:
            yield f"No verification of {elements.enumeration(unverified)} is here."

    def _bundles(self) -> Table:
        columns: list[elements.Column] = [
            ("bundle", "name", ""),
            ("data sets", lambda source: len(source.manifest.plans), ",.0f"),
            ("lines", lambda source: source.cells["model"].nunique(), ",.0f"),
            ("cells", lambda source: len(source.cells), ",.0f"),
            ("with an answer", lambda source: source.cells["status"].isin(ANSWERED_WORDS).sum(), ",.0f"),
            ("hash", "digest", ""),
        ]
        note = WORDS["board"]["bundles"]
        return elements.table("Bundles", self.sources, columns, note=note, n_lead=1, file="bundles.csv")

    def _software(self) -> Table:
        fingerprints = {source.name: source.manifest.made_with for source in self.sources}
        keys = dict.fromkeys(chain.from_iterable(chain.from_iterable(fingerprints.values())))
        columns: list[elements.Column] = [("what", str, "")]
        for name, runs in fingerprints.items():
            values = {key: "; ".join(dict.fromkeys(run[key] for run in runs if key in run)) for key in keys}
            columns.append((name, values.get, ""))
        return elements.table("Software and processors", keys, columns, n_lead=1, file="software.csv")

    def page(self, dataset: str) -> list[elements.Chapter]:
        """Return what the page of a data set shows: its scores at each p and m, and where it comes from."""
        means = tuple(self._means(dataset, ranking.score) for ranking in self.content.rankings)
        origin = self._origin(dataset)
        scores = elements.Chapter("scores", "Scores", (), means)
        return [scores, elements.Chapter("data", "Origin", (), (origin,))]

    def _means(self, dataset: str, score: str) -> Table:
        """Return the mean of each line at each p and m, the best first; the highest of a column is marked."""
        rows = self.summary[(self.summary["dataset"] == dataset) & (self.summary["score"] == score)]
        rows = rows.dropna(subset="mean")
        places = sorted({(row.p, row.m) for row in rows.dropna(subset="p").itertuples()})
        values = self.content.rankings[RANKED.index(score)].values
        overall = values[values["dataset"] == dataset].set_index("model")["mean"].dropna()
        seconds = tables.time_table(self.cells[self.cells["dataset"] == dataset]).set_index("model")
        names = [line.name for line in self.lines if (rows["model"] == line.name).any()]
        names.sort(key=lambda name: overall.get(name, -np.inf), reverse=True)
        manifests = [source.manifest for source in self._sources_of(dataset)]
        m_texts = ChainMap(*(tables.written_counts(cube.plans, cube.spec.grid.m) for cube in manifests))
        columns: list[elements.Column] = [("line", str, ""), ("all", overall.get, elements.FORM)]
        for p, m in places or [(np.nan, 0)]:
            # a line without annotations has one value, wherever others have theirs
            means = rows[rows["p"].isna() | ((rows["p"] == p) & (rows["m"] == m))].set_index("model")
            entries = dict.fromkeys(names, elements.DASH)
            for row in means.itertuples():
                kind = "best" if row.mean == means["mean"].max() else ""
                entries[row.Index] = replace(elements.mean_and_error(row.mean, row.se), kind=kind)
            head = f"m = {elements.count_text(m_texts, dataset, m)}" if places else LABELS[score].short
            columns.append((head, entries.get, ""))
        columns.append(("CPU s", seconds["cpu_seconds"].get, ".3g"))
        groups = (("", 2), *Counter(f"p = {p:g}" for p, _ in places).items(), ("", 1))
        return elements.table(
            f"{LABELS[score].short} of each line",
            names,
            columns,
            groups=(groups,) if places else (),
            note=WORDS["board"]["means"],
            n_lead=1,
            file=f"{self.pages[dataset]}.csv",
        )

    def _origin(self, dataset: str) -> Table:
        sources = self._sources_of(dataset)
        plan = sources[0].manifest.plans[dataset]
        properties = facts({dataset: plan}, sources[0].tree).iloc[0]
        origin = self.origin(dataset)
        entries = {
            "kind": words(properties["battery"]),
            "samples, features, classes": words(
                f"{plan.n_samples:,}, {plan.n_features:,}, {plan.n_clusters:,}"
            ),
            "largest by smallest class": number(properties["imbalance"], ".3g"),
            "features scaled": words(plan.scale),
            "source": words(origin.fields.get("title", "")),
            "home": Value(origin.address, origin.address, link=origin.address),
            "licence": words(origin.licence or NO_LICENCE),
            "checksum": words(plan.checksum),
            "in": words(", ".join(source.name for source in sources)),
        }
        rows = tuple(
            (words(key), replace(value, order=value.text)) for key, value in entries.items() if value.text
        )
        return Table("Data", ("what", "value"), rows, n_lead=1)
