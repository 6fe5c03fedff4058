"""Two cubes in pairs: the same cell in both, what differs in its scores, and what the two were asked for.

`write_comparison` writes tables, figures and a page; `differences` says which keys of the sweep files differ,
each at its value or its default.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sweep_clustering.kernels.settings import LENGTHS, method_words
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.report import elements, figures, look
from sweep_clustering.pipeline.report.content import Part, write_chapters
from sweep_clustering.pipeline.report.elements import (
    EMPTY,
    NOTHING,
    WORDS,
    Table,
    Value,
    Written,
    number,
    with_error,
    words,
)
from sweep_clustering.pipeline.report.figures import USUAL
from sweep_clustering.pipeline.report.scores import PANEL
from sweep_clustering.pipeline.report.write import records
from sweep_clustering.pipeline.scoring.pairs import PLACE, difference_table, pair, total_table
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.pipeline.scoring.tables import cell_table, titled, with_variants, written_counts
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import Manifest, read_manifest
from sweep_clustering.storage.errors import storage_errors
from sweep_clustering.storage.remote import Place
from sweep_clustering.sweeps.errors import InputError, Problem, collecting
from sweep_clustering.sweeps.file.search import BY_METHOD, HELD_OUT
from sweep_clustering.sweeps.file.spec import SweepSpec

BETTER = {1: "more is better", -1: "less is better", 0: "the larger one wins"}
TEXT_HEAD = ("data set", "p", "m", "model", "cells", "n", "B - A", "B wins", "A wins", "ties")
# Unpaired cells named in the text, and rows of their table on the page; unpaired.csv has all.
SHOWN, MOST_CELLS = 5, 200
# Of a difference, beyond which it is rounding.
DIGITS = 12
# A table or a list that a sweep file leaves out, and that has no keys by default.
NONE = "none"


# Of what a sweep file asks for, in this order: before the words of its keys stand the path above them, and
# what is said of it where the other file lacks it.
KINDS = ("", "search", "data set")
Told = tuple[str, str, dict[str, str]]
# A score, its rows of `difference_table`, and those of `total_table`, without p and m.
Scored = tuple[str, pd.DataFrame, pd.DataFrame]
UNPAIRED = "Cells without a partner"


class Comparison(NamedTuple):
    """Scores of the same cells in two cubes.

    Parameters
    ----------
    pairs : pandas.DataFrame
        A row per score and cell that is done in both: `PLACE`, `score`, `a`, `b`, `difference`.
    text : list of str
        For people.
    document : dict
        Plain values for JSON.
    """

    pairs: pd.DataFrame
    text: list[str]
    document: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return self.document

    def lines(self) -> list[str]:
        """Text for people."""
        return self.text


def _lines(parts: Sequence[Scored], unpaired: pd.DataFrame, written: Written) -> Iterator[str]:
    """Cells without a partner, then a table of each score."""
    for why, group in unpaired.groupby("why", sort=True):
        yield f"{len(group):,} {why}:"
        yield from (f"  {cell}" for cell in group["cell"].head(SHOWN))
        if len(group) > SHOWN:
            yield f"  and {len(group) - SHOWN:,} more, in unpaired.csv"
    for score, rows, total in parts:
        label = LABELS[score]
        yield ""
        over = elements.names(rows["unit"])
        yield f"{label.short}, B minus A: mean ± s.e. over {over} ({BETTER[label.better]})"
        if label.note:
            yield label.note
        found = pd.concat([rows, total.assign(dataset="all")])
        yield from aligned([TEXT_HEAD, *(_text_row(row, written) for row in found.itertuples())])
        if left_out := _left_out(rows):
            yield f"  {left_out}"


def _left_out(rows: pd.DataFrame) -> str:
    missing = int(rows["n_missing"].sum())
    said = f"{plural(missing, 'cell')} left out: the score is not defined in one of the two"
    return said if missing else ""


def _text_row(row: Any, written: Written) -> tuple[str, ...]:
    """A row of a table of differences, or of their total, which has neither p nor m."""
    return (
        titled(row.dataset, row._asdict()),
        "" if pd.isna(row.p) else f"{row.p:g}",
        "" if pd.isna(row.m) else elements.count_of(written, row.dataset, int(row.m)),
        row.model,
        str(row.n_cells),
        str(row.n),
        "-" if math.isnan(row.difference) else with_error(row.difference, row.se, "+.4g", ".2g"),
        *("-" if pd.isna(share) else f"{share:.0%}" for share in (row.wins_b, row.wins_a, row.ties)),
    )


def aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Lines of a table of differences; names are never cut off."""
    named, modelled = (max(18, *(len(row[at]) for row in rows)) for at in (0, 3))
    layout = (f"<{named}", ">6", ">7", " <1", f"<{modelled}", ">5", ">5", " <1", ">18", ">7", ">7", ">7")
    for row in rows:
        yield elements.text((*row[:3], "", *row[3:6], "", *row[6:]), layout)


def write_comparison(
    first: Place, second: Place, folder: Path, scores: Sequence[str], formats: Sequence[str] = USUAL
) -> Comparison:
    """Compare two cubes; write `pairs.csv`, `differences.csv`, `unpaired.csv`, figures and a page.

    Parameters
    ----------
    first, second : Path or str
        Cubes A and B; sweeps may be writing to them.
    folder : Path
        Made if it is not there.
    scores : sequence of str
        Some of `pipeline.scoring.scores.LABELS`.
    formats : sequence of str
        Of the figures, as `figures.save` takes them.

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
    if problems:
        raise InputError(problems)
    a, b = manifests
    searches = search_called(a.spec, b.spec), search_called(b.spec, a.spec)
    cells = [cell_table(open_cube(manifest.path), manifest.plans) for manifest in manifests]
    pairs, unpaired = pair(cells[0], cells[1], scores, searches)
    table, total = difference_table(pairs), total_table(pairs)
    wholes = total.assign(p=np.nan, m=pd.NA)
    # the last bits of a mean are no difference: 0 is shown for them, and the files have them
    exact = dict.fromkeys(("difference", "se"), DIGITS)
    parts: list[Scored] = [
        (str(score), rows.round(exact), wholes[wholes["score"] == score].round(exact))
        for score, rows in table.groupby("score", sort=False)
    ]
    written = written_counts(b.plans | a.plans, [*a.spec.grid.m, *b.spec.grid.m])
    n_cells, settings = len(pairs[list(PLACE)].drop_duplicates()), list(differences(a, b))
    count = f"{plural(n_cells, 'cell')} {elements.are(n_cells)} done in both"
    with storage_errors(folder), look.house_style(dict.fromkeys([*a.plans, *b.plans])):
        folder.mkdir(parents=True, exist_ok=True)
        files = elements.csv(folder, {"pairs": pairs, "differences": table, "unpaired": unpaired})
        cubes = tuple((words(name), words(path)) for name, path in (("A", first), ("B", second)))
        what = settings or ["Both sweep files ask for the same, except for names."]
        sections: list[tuple[str, str, Iterable[Part], bool]] = [
            (f"by-{part[0]}", f"{LABELS[part[0]].short}, B minus A", _by_score(*part, written), False)
            for part in parts
        ]
        sections.append(("unpaired", UNPAIRED, _unpaired(unpaired), False))
        asked: list[Part] = [*what, Table("Cubes", ("which", "path"), cubes)]
        sections.append(("settings", "What the two have differently", asked, False))
        title, page = f"{Path(second).stem} against {Path(first).stem}", folder / "compare.html"
        files += [*write_chapters(page, title, sections, [*_lead(parts), f"{count}."], formats), page]
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
    lines = [f"A: {first}", f"B: {second}", *(f"  {line}" for line in settings), count]
    lines += [*_lines(parts, unpaired, written), *(f"written: {file}" for file in files)]
    return Comparison(pairs, lines, document)


def _by_score(score: str, rows: pd.DataFrame, total: pd.DataFrame, written: Written) -> Iterator[Part]:
    """Differences of a score, over all data sets first."""
    label, texts = LABELS[score], WORDS["compare"]
    note, points = (texts[key].format(units=elements.units(rows["unit"])) for key in ("note", "points"))
    if left_out := _left_out(rows):
        note += f" {left_out}."
    title, found = f"{label.short}, B minus A", pd.concat([total.assign(dataset="all data sets"), rows])
    yield f"{label.short}: {BETTER[label.better]}."
    yield elements.table(title, found, _columns(written), note=note, pinned=True)
    yield score, draw_differences(rows, label.short, written), f"{label.axis}: {points}"


def _unpaired(unpaired: pd.DataFrame) -> Iterator[Part]:
    """Cells without a partner, where there are any."""
    if len(unpaired):
        counts, beyond = unpaired["why"].value_counts(), len(unpaired) - MOST_CELLS
        text = "; ".join(f"{plural(count, 'cell')} {why}" for why, count in counts.items())
        yield f"{text}."
        note = f"{plural(beyond, 'more cell')} in unpaired.csv." if beyond > 0 else ""
        columns = (("cell", "cell", ""), ("why", "why", ""))
        yield elements.table(UNPAIRED, unpaired.head(MOST_CELLS), columns, note=note, folded=True)


def _lead(parts: Sequence[Scored]) -> Iterator[str]:
    """A sentence for each score, of the model whose difference is largest."""
    for score, _, total in parts:
        known = total[total["difference"].notna()]
        if len(known):
            row = known.loc[known["difference"].abs().idxmax()]
            gain = with_error(row["difference"], row["se"], "+.3g", ".2g")
            most = f", the largest difference of {len(known):,} models" if len(known) > 1 else ""
            without = "" if pd.notna(row["se"]) else " One draw has no standard error."
            yield (
                f"{LABELS[score].short}, B minus A: {gain} for {row['model']}{most}, over"
                f" {plural(row['n_datasets'], 'data set')}.{without}"
            )


def _columns(written: Written) -> Iterator[elements.Column]:
    """Of a table of differences on the page."""
    yield "data set", lambda row: titled(row.dataset, row._asdict()), ""
    yield "p", lambda row: EMPTY if pd.isna(row.p) else number(row.p, "g"), ""
    yield "m", lambda row: EMPTY if pd.isna(row.m) else elements.count(written, row.dataset, row.m), ""
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
    return NOTHING if pd.isna(difference) else Value(text, difference)


def draw_differences(rows: pd.DataFrame, label: str, written: Written) -> Figure | None:
    """Draw the mean difference of a score, B minus A, with its standard error.

    Parameters
    ----------
    rows : pandas.DataFrame
        Of the score, from `pipeline.scoring.pairs.difference_table`.
    label : str
        What it is called.
    written : mapping
        From `pipeline.scoring.tables.written_counts`: how m is written.

    Returns
    -------
    Figure or None
        A row of panels per data set, design and search, a column per accuracy, baselines at m = 0; None
        without any pair.
    """
    rows = rows[rows["n_cells"] > 0]
    texts = [
        "0" if pd.isna(m) else elements.count_of(written, name, int(m))
        for name, m in zip(rows["dataset"], rows["m"], strict=True)
    ]
    # rows of one panel are of one design and search
    named = [titled(row["dataset"], row) for row in with_variants(rows).to_dict("records")]
    rows = rows.assign(dataset=named, text=texts)
    panels = elements.by_dataset(rows, rows["dataset"])

    def panel(axes: Axes, item: str, p: float) -> None:
        there = panels[item][panels[item]["p"].isna() | (panels[item]["p"] == p)]
        axes.axhline(0, color=look.GREY, linewidth=1)
        for model, points in there.groupby("model", sort=True):
            tips = [
                f"{model}, m = {row.text}: {with_error(row.difference, row.se, '+.3f')}"
                for row in points.itertuples()
            ]
            how = look.mark(str(model))
            looks = {"color": how.color, "linestyle": how.line, **how.markers}
            looks |= {"linewidth": 1.4, "label": model}
            m, error = points["m"].astype(float).fillna(0.0), {"yerr": points["se"].fillna(0.0)}
            figures.bars(axes, m, points["difference"], error, looks, tips)
        axes.grid()
        names = dict(zip(there["m"].fillna(0).astype(int), there["text"], strict=True))
        look.tick_counts(axes, sorted({0, *names}), {0: "0"} | names)

    def up(item: str) -> str:
        return f"{look.short(item)}\n{label}, B minus A"

    return figures.facets(list(panels), rows["p"], panel, PANEL, up)


def differences(a: Manifest, b: Manifest) -> Iterator[str]:
    """Lines on what the sweeps of two cubes have differently, and what that means for pairs.

    Parameters
    ----------
    a, b : Manifest
        Of the two cubes.

    Yields
    ------
    str
        A key with both of its values, which are those that the runs used: a default is a value too. A data
        set or a search that one of them lacks is named.
    """
    for spec, other, sides in ((a.spec, b.spec, "AB"), (b.spec, a.spec, "BA")):
        if not spec.search_names and (called := search_called(spec, other)) in other.search_names:
            yield f"search: the one of {sides[0]} is {called} of {sides[1]}"
    first, second = _settings(a.spec, b.spec), _settings(b.spec, a.spec)
    both, shared = first | second, first.keys() & second.keys()
    for place in sorted(both, key=lambda place: (KINDS.index(place[0]), place not in shared)):
        above, told, keys = first.get(place, both[place])
        if place not in shared:
            yield f"{' '.join(place)}: only in {'A' if place in first else 'B'}{told}"
        theirs = both[place][-1]
        for key in keys | theirs:
            values = keys.get(key, NONE), theirs.get(key, NONE)
            if values[0] != values[1]:
                yield f"{above}{key}: A {values[0]}, B {values[1]}"
    if a.spec.seed != b.spec.seed:
        yield "the seeds differ: pairs have the same coordinates, but not the same draws"
    for name in a.plans:
        if name in b.plans and a.plans[name].checksum != b.plans[name].checksum:
            yield f"{name} is not the same data in both: the checksums differ"


def search_called(spec: SweepSpec, other: SweepSpec) -> str:
    """What the only search of a sweep is called in another: by its settings, else by its method."""
    first = spec.search[0]
    names = (each.name for each in other.search if each.name and each.settings == first.settings)
    return next(names, method_words(first))


def _settings(spec: SweepSpec, other: SweepSpec) -> dict[tuple[str, str], Told]:
    """What a sweep file asks for, by kind and name; its only search has one where the other has several."""
    plain = spec.model_dump(mode="json", exclude={"name", "search"})
    datasets = plain["grid"].pop("datasets")
    found = {("", ""): ("", "", _flat(plain))}
    called = search_called(spec, other) if other.search_names else ""
    for search in spec.search:
        named, name = search.summary(), search.name or called
        told = ", ".join(f"{key} {value}" for key, value in named.items())
        # a search is said by its method, and what that leaves open
        left = {
            key: value for key, value in vars(search.settings).items() if key not in set(BY_METHOD) - LENGTHS
        }
        keys = _flat({**named, **left, HELD_OUT: search.held_out})
        found["search", name] = f"search.{name}.".replace("..", "."), f" ({told})", keys
    for entry in datasets:
        name = entry.pop("name")
        found["data set", name] = f"{name}.", "", _flat(entry)
    return found


def _flat(table: Mapping[str, Any]) -> dict[str, str]:
    """Words of all values that are there, by the path of their keys."""
    (row,) = pd.json_normalize(dict(table)).to_dict("records")
    return {str(key): _words(value) for key, value in row.items() if value is not None}


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or NONE
    if isinstance(value, Mapping):
        return str(value.get("name", dict(value)))
    return str(value).lower() if isinstance(value, bool) else str(value)
