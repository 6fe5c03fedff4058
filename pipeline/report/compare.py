"""Two cubes in pairs: the same cell in both, what differs in its scores, and what the two were asked for.

`write_comparison` writes tables, figures and a page; `differences` says which keys of the sweep files differ,
each at its value or its default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kernels.settings import LENGTHS, method_words
from pipeline.common import plural
from pipeline.report import elements, figures, look
from pipeline.report.elements import (
    EMPTY,
    NOTHING,
    Chapter,
    Picture,
    Table,
    Value,
    Written,
    count_of,
    number,
    words,
)
from pipeline.report.look import GREY, MOST_ACCURACIES, MOST_DATASETS, house_style, mark, short
from pipeline.report.scores import PANEL
from pipeline.report.write import check_folder, records
from pipeline.scoring.pairs import PLACE, difference_table, pair, total_table
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import cell_table, titled, with_variants, written_counts
from storage.cube.growth import open_cube
from storage.cube.manifest import Manifest, read_manifest
from storage.errors import storage_errors
from storage.remote import Place
from sweeps.errors import InputError, Problem, collecting
from sweeps.file.search import BY_METHOD, HELD_OUT, Search
from sweeps.file.spec import SweepSpec

BETTER = {1: "more is better", -1: "less is better", 0: "the larger one wins"}
TEXT_HEAD = ("data set", "p", "m", "model", "cells", "n", "B - A", "B wins", "A wins", "ties")
HEAD = ("data set", "p", "m", "model", "cells", "n", "A", "B", "B - A", "B wins, %", "A wins, %", "ties, %")
NOTE = (
    "Mean ± standard error over {units}, n of them; differences are paired by cell. Wins and ties are shares"
    " of the cells. Rows of all data sets are means over these, each of which counts alike, with the error of"
    " their draws."
)
# Unpaired cells named in the text, and rows of their table on the page; unpaired.csv has all.
SHOWN, MOST_CELLS = 5, 200
# Of a difference, beyond which it is rounding.
DIGITS = 12
# A table or a list that a sweep file leaves out, and that has no keys by default.
NONE = "none"


@dataclass(frozen=True)
class Comparison:
    """Scores of the same cells in two cubes.

    Parameters
    ----------
    first, second : Path or str
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

    first: Place
    second: Place
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
            f"{plural(self._cells, 'cell')} {_are(self._cells)} done in both",
            *self._unpaired_lines(),
            *self._table_lines(),
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

    def _table_lines(self) -> Iterator[str]:
        total = total_table(self.pairs)
        for score, rows in self.table.groupby("score", sort=False):
            label = LABELS[str(score)]
            yield ""
            over = elements.names(rows["unit"])
            yield f"{label.short}, B minus A: mean ± s.e. over {over} ({BETTER[label.better]})"
            entries: list[tuple[str, ...]] = [TEXT_HEAD]
            for row in [*rows.itertuples(), *total[total["score"] == score].itertuples()]:
                entries.append(_text_row(row, self.written))
            yield from aligned(entries)
            missing = int(rows["n_missing"].sum())
            if missing:
                yield f"  {_left_out(missing)}"


def _text_row(row: Any, written: Written) -> tuple[str, ...]:
    """A row of a table of differences, or of their total, which has neither data set nor p nor m."""
    p, m = getattr(row, "p", math.nan), getattr(row, "m", math.nan)
    difference = "-" if math.isnan(row.difference) else f"{row.difference:+.4g}"
    error = "" if math.isnan(row.difference) or math.isnan(row.se) else f" ± {row.se:.2g}"
    return (
        titled(getattr(row, "dataset", "all"), row._asdict()),
        "" if pd.isna(p) else f"{p:g}",
        "" if pd.isna(m) else count_of(written, row.dataset, int(m)),
        str(row.model),
        str(row.n_cells),
        str(row.n),
        difference + error,
        *("-" if pd.isna(share) else f"{share:.0%}" for share in (row.wins_b, row.wins_a, row.ties)),
    )


def aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Lines of a table of differences; names are never cut off."""
    named, modelled = (max(18, *(len(row[at]) for row in rows)) for at in (0, 3))
    layout = (f"<{named}", ">6", ">7", " <1", f"<{modelled}", ">5", ">5", " <1", ">18", ">7", ">7", ">7")
    for row in rows:
        yield elements.text((*row[:3], "", *row[3:6], "", *row[6:]), layout)


def write_comparison(first: Place, second: Place, folder: Path, scores: Sequence[str]) -> Comparison:
    """Compare two cubes; write `pairs.csv`, `differences.csv`, `unpaired.csv`, figures and a page.

    Parameters
    ----------
    first, second : Path or str
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
    counts = [count for manifest in manifests for count in manifest.spec.grid.m]
    plans = {name: plan for manifest in reversed(manifests) for name, plan in manifest.plans.items()}
    written = written_counts(plans, counts)
    compared = Comparison(first, second, tuple(differences(*manifests)), pairs, table, unpaired, written, ())
    with storage_errors(folder), house_style():
        folder.mkdir(parents=True, exist_ok=True)
        files = elements.csv(folder, {"pairs": pairs, "differences": table, "unpaired": unpaired})
        pictures: dict[str, Picture] = {}
        for score in dict.fromkeys(scores):
            over = elements.units(table.loc[table["score"] == score, "unit"])
            text = f"B minus A, paired by cell. Mean over {over}, with bars of one standard error."
            drawn = score, draw_differences(table, score, written), f"{LABELS[score].axis}: {text}"
            pictures |= {each.name: each for each in figures.save_all([drawn], folder / "figures")}
        files += [
            folder / "figures" / f"{score}.{suffix}" for score in pictures for suffix in figures.SUFFIXES
        ]
        files.append(folder / "compare.html")
        title = f"{Path(second).stem} against {Path(first).stem}"
        page = elements.html(title, list(_chapters(compared, pictures)), list(_lead(compared)))
        files[-1].write_text(page, encoding="utf-8")
    return replace(compared, files=tuple(files))


def _manifests(first: Place, second: Place, folder: Path) -> list[Manifest]:
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


def _chapters(compared: Comparison, pictures: Mapping[str, Picture]) -> Iterator[Chapter]:
    """Differences of each score first, then cells without a partner, and what the two were asked for."""
    total = total_table(compared.pairs)
    for score, rows in compared.table.groupby("score", sort=False):
        label = LABELS[str(score)]
        title, text = f"{label.short}, B minus A", f"{label.short}: {BETTER[label.better]}."
        whole = total[total["score"] == score]
        body = [_row(row, "all data sets", {}) for row in whole.itertuples()]
        body += [_row(row, row.dataset, compared.written) for row in rows.itertuples()]
        note = NOTE.format(units=elements.units(rows["unit"]))
        missing = int(rows["n_missing"].sum())
        if missing:
            note += f" {_left_out(missing)}."
        table = Table(title, HEAD, tuple(body), note=note, pinned=True)
        shown = tuple(picture for name, picture in pictures.items() if name == score)
        yield Chapter(f"by-{score}", title, (text,), (table,), shown)
    if len(compared.unpaired):
        counts = compared.unpaired["why"].value_counts()
        text = "; ".join(f"{plural(int(count), 'cell')} {why}" for why, count in counts.items())
        beyond = len(compared.unpaired) - MOST_CELLS
        table = elements.table(
            "Cells without a partner",
            compared.unpaired.head(MOST_CELLS),
            (("cell", "cell", ""), ("why", "why", "")),
            note=f"{plural(beyond, 'more cell')} in unpaired.csv." if beyond > 0 else "",
            folded=True,
        )
        yield Chapter("unpaired", table.title, (f"{text}.",), (table,))
    what = compared.settings or ("Both sweep files ask for the same, but for names.",)
    places = zip("AB", (compared.first, compared.second), strict=True)
    cubes = Table("Cubes", ("which", "path"), tuple((words(name), words(path)) for name, path in places))
    yield Chapter("settings", "What the two have differently", what, (cubes,))


def _lead(compared: Comparison) -> Iterator[str]:
    """A sentence for each score, of the model whose difference is largest; how many cells were paired."""
    for score, rows in total_table(compared.pairs).groupby("score", sort=False):
        known = rows[rows["difference"].notna()]
        if known.empty:
            continue
        row = known.loc[known["difference"].abs().idxmax()]
        error = "" if pd.isna(row["se"]) else f" ± {row['se']:.2g}"
        yield (
            f"{LABELS[str(score)].short}, B minus A: {row['difference']:+.3g}{error} for {row['model']}, the"
            f" largest difference of {plural(len(known), 'model')}, over"
            f" {plural(int(row['n_datasets']), 'data set')}."
        )
    of_first = compared.table["score"] == next(iter(compared.table["score"]), None)
    cells = int(compared.table.loc[of_first, ["n_cells", "n_missing"]].sum().sum())
    yield f"{plural(cells, 'cell')} {_are(cells)} done in both."


def _row(row: Any, dataset: str, written: Written) -> tuple[Value, ...]:
    p, m = getattr(row, "p", math.nan), getattr(row, "m", math.nan)
    error = "" if pd.isna(row.se) else f" ± {round(row.se, DIGITS):.2g}"
    difference = round(float(row.difference), DIGITS) + 0.0  # no negative zero
    return (
        words(titled(dataset, row._asdict())),
        EMPTY if pd.isna(p) else number(float(p), "g"),
        EMPTY if pd.isna(m) else elements.count(written, dataset, int(m)),
        words(row.model),
        number(float(row.n_cells)),
        number(float(row.n)),
        number(float(row.mean_a), ".4g"),
        number(float(row.mean_b), ".4g"),
        NOTHING if math.isnan(difference) else Value(f"{difference:+.3g}{error}", difference),
        *(number(100 * float(share), ".0f") for share in (row.wins_b, row.wins_a, row.ties)),
    )


def _left_out(missing: int) -> str:
    return f"{plural(missing, 'cell')} left out: the score is not defined in one of the two"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def draw_differences(table: pd.DataFrame, score: str, written: Written | None = None) -> Figure | None:
    """Draw the mean difference of a score, B minus A, with its standard error.

    Parameters
    ----------
    table : pandas.DataFrame
        From `pipeline.scoring.pairs.difference_table`.
    score : str
        One of its scores.
    written : mapping, optional
        From `pipeline.scoring.tables.written_counts`: how m is written.

    Returns
    -------
    Figure or None
        A row of panels per data set, design and search, and per shape where there are many, a column per
        accuracy, baselines at m = 0; None without any pair.
    """
    rows = table[(table["score"] == score) & (table["n_cells"] > 0)]
    if rows.empty:
        return None
    # rows of one panel are of one design and search
    named = [titled(row["dataset"], row) for row in with_variants(rows).to_dict("records")]
    texts = [
        "0" if pd.isna(m) else count_of(written or {}, str(name), int(m))
        for name, m in zip(rows["dataset"], rows["m"], strict=True)
    ]
    rows = rows.assign(dataset=named, text=texts)
    groups = elements.shape_groups(rows["model"].unique())

    def panel(axes: Axes, item: tuple[str, str], p: float) -> None:
        there = rows[(rows["dataset"] == item[0]) & rows["model"].isin(groups[item[1]])]
        _bars(axes, there[there["p"].isna() | (there["p"] == p)])

    return figures.facets(
        list(product(elements.spread(list(rows["dataset"].unique()), MOST_DATASETS), groups)),
        elements.spread(sorted(rows["p"].dropna().unique()), MOST_ACCURACIES) or [np.nan],
        panel,
        PANEL,
        lambda item: f"{short(*item)}\n{LABELS[score].short}, B minus A",
    )


def _bars(axes: Axes, rows: pd.DataFrame) -> None:
    axes.axhline(0, color=GREY, linewidth=1)
    for model, points in rows.groupby("model", sort=True):
        how = mark(str(model))
        drawn = axes.errorbar(
            points["m"].astype(float).fillna(0.0),
            points["difference"],
            points["se"].fillna(0.0),
            color=how.color,
            linestyle=how.line,
            **how.markers,
            markersize=4.5,
            capsize=2.5,
            linewidth=1.4,
        )
        drawn.set_label(str(model))
        if drawn.lines[0] is not None:
            tips = [
                f"{model}, m = {row.text}: {elements.with_error(row.difference, row.se, '+.3f')}"
                for row in points.itertuples()
            ]
            look.hover(drawn.lines[0], tips)
    axes.grid()
    names = dict(zip(rows["m"].fillna(0).astype(int), rows["text"], strict=True))
    look.tick_counts(axes, sorted({0, *names}), {0: "0"} | names)


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
    for side, mine, its in (("A", a.spec, b.spec), ("B", b.spec, a.spec)):
        called = search_called(mine, its)
        if not mine.search_names and called in its.search_names:
            yield f"search: the one of {side} is {called} of {'B' if side == 'A' else 'A'}"
    searches = [_searches(a.spec, b.spec), _searches(b.spec, a.spec)]
    shared = {name for name in searches[0] if name in searches[1]}
    sides = zip((a, b), searches, strict=True)
    found = [_keys(each.spec, {name: side[name] for name in side if name in shared}) for each, side in sides]
    for key in dict.fromkeys([*found[0], *found[1]]):
        values = [side.get(key, NONE) for side in found]
        if values[0] != values[1]:
            yield f"{key}: A {values[0]}, B {values[1]}"
    for name in dict.fromkeys([*searches[0], *searches[1]]):
        if name not in shared:
            where = "B" if name in searches[1] else "A"
            told = {**searches[0], **searches[1]}[name].named()
            yield f"search {name}: only in {where} ({', '.join(f'{key} {told[key]}' for key in told)})"
    entries = [_datasets(each.spec) for each in (a, b)]
    for name in dict.fromkeys([*entries[0], *entries[1]]):
        lacking = [name not in side for side in entries]
        if any(lacking):
            yield f"data set {name}: only in {'B' if lacking[0] else 'A'}"
            continue
        one, other = (side[name] for side in entries)
        for key in dict.fromkeys([*one, *other]):
            values = [side.get(key, NONE) for side in (one, other)]
            if values[0] != values[1]:
                yield f"{name}.{key}: A {values[0]}, B {values[1]}"
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


def _searches(spec: SweepSpec, other: SweepSpec) -> dict[str | None, Search]:
    """Searches by name; the only one of a sweep has one where the other sweep has several."""
    called = search_called(spec, other) if other.search_names else None
    return {each.name or called: each for each in spec.search}


def _keys(spec: SweepSpec, searches: Mapping[str | None, Search]) -> dict[str, str]:
    """Every key but those of the data sets, by its path; a search by its method and what that leaves open."""
    plain = spec.model_dump(mode="json", exclude={"name"})
    every = {name: _every(each) for name, each in searches.items()}
    plain["search"] = every.get(None, every)
    del plain["grid"]["datasets"]
    return dict(_flat(plain))


def _every(search: Search) -> dict[str, Any]:
    told = set(BY_METHOD) - LENGTHS
    others = {name: value for name, value in vars(search.settings).items() if name not in told}
    return {**search.named(), **others, HELD_OUT: search.held_out}


def _datasets(spec: SweepSpec) -> dict[str, dict[str, str]]:
    plain = spec.model_dump(mode="json")["grid"]["datasets"]
    return {entry["name"]: dict(_flat({k: v for k, v in entry.items() if k != "name"})) for entry in plain}


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        elif value is not None:
            yield above + key, _words(value)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_words(each) for each in value) or NONE
    if isinstance(value, Mapping):
        return str(value.get("name", dict(value)))
    return str(value).lower() if isinstance(value, bool) else str(value)
