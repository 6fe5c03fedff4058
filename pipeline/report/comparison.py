"""The page of two cubes side by side: what B gains over A, then what the two have differently."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.report.parts.html import render
from pipeline.report.parts.parts import Picture, Section, Table, Value, number, words
from pipeline.report.parts.wording import count_of, units
from pipeline.scoring.scores import LABELS
from pipeline.scoring.tables import titled
from pipeline.text import plural

BETTER = {1: "more is better", -1: "less is better", 0: "the larger one wins"}
MOST_CELLS = 200
"""Rows of the table of cells without a partner; unpaired.csv has all."""
DIGITS = 12
"""Of a difference, beyond which it is rounding."""
HEAD = ("data set", "p", "m", "model", "cells", "n", "A", "B", "B - A", "B wins, %", "A wins, %", "ties, %")
NOTE = (
    "Mean ± standard error over {units}, n of them; differences are paired by cell. Wins and ties are shares"
    " of the cells. Rows of all data sets are means over these, each of which counts alike, with the error of"
    " their draws."
)


def write_comparison_page(
    path: Path,
    cubes: tuple[Path, Path],
    table: pd.DataFrame,
    total: pd.DataFrame,
    unpaired: pd.DataFrame,
    *,
    settings: Sequence[str],
    pictures: Mapping[str, Picture],
    written: Mapping[tuple[str, int], str],
) -> None:
    """Write the page.

    Parameters
    ----------
    path : Path
        Of the page.
    cubes : tuple of Path
        A and B.
    table, total : pandas.DataFrame
        From `pipeline.scoring.pairs.difference_table` and `total_table`.
    unpaired : pandas.DataFrame
        `cell` and `why` of every cell without a partner that is done.
    settings : sequence of str
        From `pipeline.report.settings.differences`.
    pictures : mapping of str to Picture
        Figures by score.
    written : mapping
        From `pipeline.scoring.tables.written_counts`.
    """
    sections = []
    for score, rows in table.groupby("score", sort=False):
        label = LABELS[str(score)]
        title = f"{label.short}, B minus A"
        shown = tuple(pictures[str(score)] for _ in range(str(score) in pictures))
        whole = total[total["score"] == score]
        text = f"{label.short}: {BETTER[label.better]}."
        found = Section(f"by-{score}", title, (text,), (_table(title, rows, whole, written),), shown)
        sections.append(found)
    if len(unpaired):
        sections.append(_unpaired(unpaired))
    what = tuple(settings) or ("Both sweep files ask for the same, but for names.",)
    places = tuple((words(name), words(path)) for name, path in zip("AB", cubes, strict=True))
    cubes_table = Table("Cubes", ("which", "path"), places)
    sections.append(Section("settings", "What the two have differently", what, (cubes_table,)))
    title = f"{cubes[1].stem} against {cubes[0].stem}"
    path.write_text(render(title, sections, lead(table, total)), encoding="utf-8")


def lead(table: pd.DataFrame, total: pd.DataFrame) -> tuple[str, ...]:
    """A sentence for each score, of the model whose difference is largest; how many cells were paired."""
    lines = []
    for score, rows in total.groupby("score", sort=False):
        known = rows[rows["difference"].notna()]
        if known.empty:
            continue
        row = known.loc[known["difference"].abs().idxmax()]
        error = "" if pd.isna(row["se"]) else f" ± {row['se']:.2g}"
        over = plural(int(row["n_datasets"]), "data set")
        lines.append(
            f"{LABELS[str(score)].short}, B minus A: {row['difference']:+.3g}{error} for {row['model']}, the"
            f" largest difference of {plural(len(known), 'model')}, over {over}"
        )
    first = next(iter(table["score"]), None)
    cells = int(table.loc[table["score"] == first, ["n_cells", "n_missing"]].sum().sum())
    done = f"{plural(cells, 'cell')} {'is' if cells == 1 else 'are'} done in both."
    return (*(f"{line}." for line in lines), done)


def _table(
    title: str, rows: pd.DataFrame, total: pd.DataFrame, written: Mapping[tuple[str, int], str]
) -> Table:
    body = [_row(row, "all data sets", {}) for row in total.itertuples()]
    body += [_row(row, row.dataset, written) for row in rows.itertuples()]
    note = NOTE.format(units=units(rows["unit"]))
    missing = int(rows["n_missing"].sum())
    if missing:
        note += f" {plural(missing, 'cell')} left out: the score is not defined in one of the two."
    return Table(title, HEAD, tuple(body), note=note, pinned=True)


def _row(row: object, dataset: str, written: Mapping[tuple[str, int], str]) -> tuple[Value, ...]:
    values = row._asdict()  # type: ignore[attr-defined]
    p, m = values.get("p", math.nan), values.get("m")
    count = Value("", None) if m is None or pd.isna(m) else Value(count_of(written, dataset, int(m)), int(m))
    error = "" if pd.isna(values["se"]) else f" ± {round(values['se'], DIGITS):.2g}"
    difference = round(float(values["difference"]), DIGITS) + 0.0  # no negative zero
    shown = Value("-", None) if math.isnan(difference) else Value(f"{difference:+.3g}{error}", difference)
    return (
        words(titled(dataset, values)),
        Value("", None) if pd.isna(p) else number(float(p), "g"),
        count,
        words(values["model"]),
        number(float(values["n_cells"])),
        number(float(values["n"])),
        *(number(float(values[key]), ".4g") for key in ("mean_a", "mean_b")),
        shown,
        *(number(100 * float(values[key]), ".0f") for key in ("wins_b", "wins_a", "ties")),
    )


def _unpaired(unpaired: pd.DataFrame) -> Section:
    counts = unpaired["why"].value_counts()
    parts = [f"{plural(int(count), 'cell')} {why}" for why, count in counts.items()]
    text = f"{'; '.join(parts)}."
    rows = tuple((words(row.cell), words(row.why)) for row in unpaired.head(MOST_CELLS).itertuples())
    beyond = len(unpaired) - len(rows)
    note = f"{plural(beyond, 'more cell')} in unpaired.csv." if beyond > 0 else ""
    table = Table("Cells without a partner", ("cell", "why"), rows, note=note, folded=True)
    return Section("unpaired", "Cells without a partner", (text,), (table,))
