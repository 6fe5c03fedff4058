"""Two cubes in pairs: the same cell in both, what differs in its scores, and what the two were asked for.

`write_comparison` writes tables, figures and a page. `differences` names the keys of the sweep files that
differ, each at its value or its default.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweep_clustering.kernels.settings import LENGTHS, method_words
from sweep_clustering.pipeline import looks
from sweep_clustering.pipeline.report import elements, figures
from sweep_clustering.pipeline.report.elements import EMPTY, MTexts, Part, Section, Value, with_error, words
from sweep_clustering.pipeline.report.scores import PANEL
from sweep_clustering.pipeline.report.write import records, write_figures, write_page
from sweep_clustering.pipeline.scoring.pairs import PLACE, difference_table, pair, total_table
from sweep_clustering.pipeline.scoring.raw import scored_cells
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.pipeline.scoring.tables import titled, with_variants, written_counts, written_m
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.files import Place, storage_errors
from sweep_clustering.sweeps.errors import Problem, collecting, plural, raise_all
from sweep_clustering.sweeps.file.search import BY_METHOD, HELD_OUT
from sweep_clustering.sweeps.file.spec import SweepSpec

BETTER = {1: "more is better", -1: "less is better", 0: "the larger one wins"}
# Unpaired cells that the text names, and rows of their table on the page. unpaired.csv has all.
MOST_NAMED = 5
MOST_CELLS = 200
# Digits of a difference, beyond which it is rounding.
DIGITS = 12
# Value of a table or a list that a sweep file leaves out, and that has no keys by default.
EMPTY_TEXT = "none"
# Kinds of the parts of a sweep file, in the order of their differences.
KINDS = ("", "search", "data set")
UNPAIRED = "Cells without a partner"


@dataclass(frozen=True)
class ScorePairs:
    """Differences of one score: rows of `difference_table`, and those of `total_table`, without p and m."""

    score: str
    rows: pd.DataFrame
    total: pd.DataFrame

    @property
    def title(self) -> str:
        """Return a title in words."""
        return f"{LABELS[self.score].short}, B minus A"


class Comparison(NamedTuple):
    """Scores of the same cells in two cubes.

    Parameters
    ----------
    pairs : pandas.DataFrame
        A row per score and cell that is done in both: `PLACE`, `score`, `a`, `b`, `difference`.
    text : list of str
        Lines for people.
    document : dict
        Plain values for JSON.
    """

    pairs: pd.DataFrame
    text: list[str]
    document: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return self.document

    def lines(self) -> list[str]:
        """Return text for people."""
        return self.text


def write_comparison(
    first: Place, second: Place, folder: Path, scores: Sequence[str], formats: Sequence[str] = figures.SVG
) -> Comparison:
    """Compare two cubes; write `pairs.csv`, `differences.csv`, `unpaired.csv`, figures and a page.

    Parameters
    ----------
    first, second : Path or str
        Cubes A and B, to which sweeps may be writing.
    folder : Path
        Output folder, which is made if it is missing.
    scores : sequence of str
        Some of `pipeline.scoring.scores.LABELS`.
    formats : sequence of str
        Formats of figures for `figures.save`.

    Raises
    ------
    InputError
        If one is no cube, or `folder` is a file.
    StorageError
        If the file system refuses.
    """
    problems: list[Problem] = []
    manifests: list[Manifest] = []
    for cube in (first, second):
        with collecting(problems):
            manifests.append(read_manifest(cube))
    with collecting(problems):
        elements.check_folder(folder)
    raise_all(problems)
    a, b = manifests
    searches = search_name_in(a.spec, b.spec), search_name_in(b.spec, a.spec)
    cells = [scored_cells(open_cube(cube.path), cube.plans, [cube.path]) for cube in manifests]
    pairs, unpaired = pair(cells[0], cells[1], scores, searches)
    table, total = difference_table(pairs), total_table(pairs)
    totals = total.assign(p=np.nan, m=pd.NA)
    # the last bits of a mean are no difference: text and page have 0 for them, and the files have them
    exact = dict.fromkeys(("difference", "se"), DIGITS)
    parts = [
        ScorePairs(str(score), rows.round(exact), totals[totals["score"] == score].round(exact))
        for score, rows in table.groupby("score", sort=False)
    ]
    m_texts = written_counts(b.plans | a.plans, [*a.spec.grid.m, *b.spec.grid.m])
    n_cells, settings = len(pairs[list(PLACE)].drop_duplicates()), list(differences(a, b))
    count = f"{plural(n_cells, 'cell')} {elements.are(n_cells)} done in both"
    with storage_errors(folder), figures.house_style(dict.fromkeys([*a.plans, *b.plans])):
        folder.mkdir(parents=True, exist_ok=True)
        files = elements.write_csv(folder, {"pairs": pairs, "differences": table, "unpaired": unpaired})
        cubes = tuple((words(name), words(path)) for name, path in (("A", first), ("B", second)))
        setting_lines = settings or ["Both sweep files ask for the same, except for names."]
        sections = [
            Section(f"by-{part.score}", part.title, _by_score(part, m_texts), n_in_text=1) for part in parts
        ]
        requests: list[Part] = [*setting_lines, elements.Table("Cubes", ("which", "path"), cubes)]
        sections += [
            Section("unpaired", UNPAIRED, _unpaired(unpaired), n_in_text=0),
            Section("settings", "What the two have differently", requests, n_in_text=0),
        ]
        title, page = f"{Path(second).stem} against {Path(first).stem}", folder / "compare.html"
        chapters = write_figures(folder, sections, formats)
        _, *page_files = write_page(page, title, chapters, [*_lead(parts), f"{count}."])
        files += [*page_files, page]
    document = {
        "a": str(first),
        "b": str(second),
        "settings": settings,
        "cells": n_cells,
        "unpaired": unpaired["why"].value_counts().to_dict(),
        "total": records(total),
        "table": records(table),
        "files": [str(file) for file in files],
    }
    lines = [f"A: {first}", f"B: {second}", count]
    lines += chain.from_iterable(["", *elements.chapter_lines(chapter)] for chapter in chapters)
    return Comparison(pairs, [*lines, *(f"written: {file}" for file in files)], document)


def _by_score(part: ScorePairs, m_texts: MTexts) -> Iterator[Part]:
    """Yield differences of a score, over all data sets first."""
    label, texts, rows = LABELS[part.score], elements.WORDS["compare"], part.rows
    note, points = (texts[key].format(units=elements.units(rows["unit"])) for key in ("note", "points"))
    if n_missing := int(rows["n_missing"].sum()):
        note += f" {plural(n_missing, 'cell')} left out: the score is not defined in one of the two."
    all_rows = pd.concat([part.total.assign(dataset="all data sets"), rows])
    yield f"{label.short}: {BETTER[label.better]}."
    yield elements.table(part.title, all_rows, _columns(m_texts), note=note, n_lead=4)
    yield part.score, draw_differences(rows, label.short, m_texts), f"{label.axis}: {points}"


def _unpaired(unpaired: pd.DataFrame) -> Iterator[Part]:
    """Yield cells without a partner, if there are any."""
    if len(unpaired):
        n_beyond = len(unpaired) - MOST_CELLS
        for reason, cells in unpaired.groupby("why")["cell"]:
            rest_text = f" and {len(cells) - MOST_NAMED:,} more" if len(cells) > MOST_NAMED else ""
            yield f"{plural(len(cells), 'cell')} {reason}: {', '.join(cells.head(MOST_NAMED))}{rest_text}."
        note = f"{plural(n_beyond, 'more cell')} in unpaired.csv." if n_beyond > 0 else ""
        columns = (("cell", "cell", ""), ("why", "why", ""))
        yield elements.table(UNPAIRED, unpaired.head(MOST_CELLS), columns, note=note, folded=True)


def _lead(parts: Sequence[ScorePairs]) -> Iterator[str]:
    """Yield a sentence for each score, about the model whose difference is largest."""
    for part in parts:
        total = part.total[part.total["difference"].notna()]
        if len(total):
            row = total.loc[total["difference"].abs().idxmax()]
            gain = with_error(row["difference"], row["se"], "+.3g", ".2g")
            largest_text = f", the largest difference of {len(total):,} models" if len(total) > 1 else ""
            error_text = "" if pd.notna(row["se"]) else " One draw has no standard error."
            yield (
                f"{part.title}: {gain} for {row['model']}{largest_text}, over"
                f" {plural(row['n_datasets'], 'data set')}.{error_text}"
            )


def _columns(m_texts: MTexts) -> Iterator[elements.Column]:
    """Yield the columns of a table of differences."""
    yield "data set", lambda row: titled(row.dataset, row._asdict()), ""
    yield "p", lambda row: EMPTY if pd.isna(row.p) else elements.number(row.p, "g"), ""
    yield "m", lambda row: EMPTY if pd.isna(row.m) else elements.count(m_texts, row.dataset, row.m), ""
    yield "model", "model", ""
    yield from (("cells", "n_cells", ",.0f"), ("n", "n", ",.0f"))
    yield from (("A", "mean_a", ".4g"), ("B", "mean_b", ".4g"))
    yield "B - A", _difference, ""
    yield "B wins, %", lambda row: 100 * row.wins_b, ".0f"
    yield "A wins, %", lambda row: 100 * row.wins_a, ".0f"
    yield "ties, %", lambda row: 100 * row.ties, ".0f"


def _difference(row: Any) -> Value:
    difference = round(row.difference, DIGITS) + 0.0  # no negative zero
    text = with_error(difference, round(row.se, DIGITS), "+.3g", ".2g")
    return elements.DASH if pd.isna(difference) else Value(text, difference)


def draw_differences(rows: pd.DataFrame, label: str, m_texts: MTexts) -> Figure | None:
    """Draw the mean difference of a score, B minus A, with its standard error.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of the score in `pipeline.scoring.pairs.difference_table`.
    label : str
        Name of the score.
    m_texts : mapping
        Each m as the sweep files write it, from `pipeline.scoring.tables.written_counts`.

    Returns
    -------
    Figure or None
        A row of panels per data set, design and search, a column per accuracy, baselines at m = 0; None
        without any pair.
    """
    rows = rows[rows["n_cells"] > 0]
    # rows of one panel are of one design and search
    names = [titled(row["dataset"], row) for row in with_variants(rows).to_dict("records")]
    rows = rows.assign(dataset=names, text=written_m(rows, m_texts, default="0"))
    panels = elements.by_dataset(rows, rows["dataset"])

    def panel(axes: Axes, item: str, p: float) -> None:
        panel_rows = panels[item][panels[item]["p"].isna() | (panels[item]["p"] == p)]
        axes.axhline(0, color=looks.GREY, linewidth=1)
        for model, points in panel_rows.groupby("model", sort=True):
            tips = [
                f"{model}, m = {row.text}: {with_error(row.difference, row.se, '+.3f')}"
                for row in points.itertuples()
            ]
            look = looks.mark(str(model))
            m, error = points["m"].astype(float).fillna(0.0), points["se"].fillna(0.0)
            bars = axes.errorbar(m, points["difference"], error, color=look.color, label=model, linewidth=1.4)
            bars[0].set(linestyle=look.line, markersize=4.5, **look.markers)
            figures.hover(bars[0], tips)
        axes.grid()
        names = dict(zip(panel_rows["m"].fillna(0).astype(int), panel_rows["text"], strict=True))
        figures.tick_counts(axes, sorted({0, *names}), {0: "0"} | names)

    def y_label(item: str) -> str:
        return f"{figures.short(item)}\n{label}, B minus A"

    return figures.facets(list(panels), rows["p"], panel, PANEL, y_label)


class Settings(NamedTuple):
    """Values of a part of a sweep file by key, its path, and a note if the other file lacks it."""

    path: str
    note: str
    values: dict[str, str]


def differences(a: Manifest, b: Manifest) -> Iterator[str]:
    """Yield lines on what the sweeps of two cubes have differently, and what that means for pairs.

    A line names a key with both of its values, which are those that the runs used: a default is a value too.
    Data sets and searches that one of the sweeps lacks have a line each.
    """
    for spec, other, sides in ((a.spec, b.spec, "AB"), (b.spec, a.spec, "BA")):
        if not spec.search_names and (name := search_name_in(spec, other)) in other.search_names:
            yield f"search: the one of {sides[0]} is {name} of {sides[1]}"
    first, second = _settings(a.spec, b.spec), _settings(b.spec, a.spec)
    parts, shared_parts = first | second, first.keys() & second.keys()
    for place in sorted(parts, key=lambda place: (KINDS.index(place[0]), place not in shared_parts)):
        path, note, values = first.get(place, parts[place])
        if place not in shared_parts:
            yield f"{' '.join(place)}: only in {'A' if place in first else 'B'}{note}"
        values_b = parts[place].values
        for key in values | values_b:
            value, value_b = values.get(key, EMPTY_TEXT), values_b.get(key, EMPTY_TEXT)
            if value != value_b:
                yield f"{path}{key}: A {value}, B {value_b}"
    if a.spec.seed != b.spec.seed:
        yield "the seeds differ: pairs have the same coordinates, but not the same draws"
    for name, plan in a.plans.items():
        plan_b = b.plans.get(name, plan)
        if (plan.checksum, plan.annotations_checksum) != (plan_b.checksum, plan_b.annotations_checksum):
            yield f"{name} is not the same data in both: the checksums differ"


def search_name_in(spec: SweepSpec, other: SweepSpec) -> str:
    """Return the name that another sweep gives to the only search of a sweep, or the name of its method."""
    first = spec.search[0]
    names = (search.name for search in other.search if search.name and search.settings == first.settings)
    return next(names, method_words(first))


def _settings(spec: SweepSpec, other: SweepSpec) -> dict[tuple[str, str], Settings]:
    """Return what a sweep file asks for, by kind and name.

    Its only search has a name if the other has several.
    """
    plain = spec.model_dump(mode="json", exclude={"name", "search"})
    datasets = plain["grid"].pop("datasets")
    settings = {("", ""): Settings("", "", _flat(plain))}
    only_name = search_name_in(spec, other) if other.search_names else ""
    for search in spec.search:
        method, name = search.summary(), search.name or only_name
        note = ", ".join(f"{key} {value}" for key, value in method.items())
        # a search has its method, and the keys that the method leaves open
        keys = {
            key: value for key, value in vars(search.settings).items() if key not in set(BY_METHOD) - LENGTHS
        }
        values = _flat({**method, **keys, HELD_OUT: search.held_out})
        settings["search", name] = Settings(f"search.{name}.".replace("..", "."), f" ({note})", values)
    for entry in datasets:
        name = entry.pop("name")
        # data are compared by checksums, wherever their files are
        files = {key: PurePath(entry[key]).name for key in ("path", "annotations") if entry.get(key)}
        settings["data set", name] = Settings(f"{name}.", "", _flat(entry | files))
    return settings


def _flat(table: Mapping[str, Any]) -> dict[str, str]:
    """Return all values of a table in words, by the path of their keys."""
    (row,) = pd.json_normalize(dict(table)).to_dict("records")
    return {str(key): _words(value) for key, value in row.items() if value is not None}


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or EMPTY_TEXT
    if isinstance(value, Mapping):
        return str(value.get("name", dict(value)))
    return str(value).lower() if isinstance(value, bool) else str(value)
