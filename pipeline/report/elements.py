"""What reports are made of: tables and chapters, and how they become HTML, text and CSV.

A section declares its tables by columns (`table`); `html` makes a page of chapters, `text` lines for a
terminal, and `csv` files. Words on what means are over, and on numbers of annotations, are the same in all.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import jinja2
import pandas as pd
from markupsafe import Markup

from pipeline.common import plural
from pipeline.report.look import VARIABLES
from pipeline.scoring.tables import MIXTURES, REDRAWS
from storage.provenance import package_version
from sweeps.data.lines import as_cell
from sweeps.words import SHAPE_CODES, is_model, shape_of

Item = TypeVar("Item")

# Of all designs, searches, m: how the sweep file writes each m, by data set and number.
Written = Mapping[tuple[str, int], str]

KINDS = {MIXTURES: "mixtures", REDRAWS: "redraws of the annotations"}
SINGULAR = {MIXTURES: "mixture", REDRAWS: "redraw"}

# Group of what is no model.
METHODS = "methods"
# Shapes whose models share a panel, or a table; each of more shapes has its own.
MOST_SHAPES = 2
# Names of a list in a sentence.
MOST_NAMES = 4

STYLED = re.compile(r'(<[a-zA-Z][^<>]*?) style="([^"]*)"')
# Elements of a style that share a class of the page.
OFTEN = 3


@dataclass(frozen=True)
class Value:
    """One entry of a table.

    Parameters
    ----------
    text : str
        As shown.
    order : float, str or None
        What sorting goes by; None for a missing one, which stays last either way.
    kind : str
        Class of the entry in the style sheet, such as "good".
    """

    text: str
    order: float | str | None
    kind: str = ""

    @property
    def numeric(self) -> bool:
        """Whether it stands under others as a number does."""
        return not isinstance(self.order, str)


@dataclass(frozen=True)
class Table:
    """A table that can be sorted by any column.

    Parameters
    ----------
    title : str
        Above it.
    columns : tuple of str
        Heads.
    rows : tuple of tuple of Value
        As long as `columns`.
    groups : tuple of tuple of (str, int)
        Rows of heads above `columns`, each with the number of columns it spans.
    note : str
        Below it.
    pinned : bool
        Whether the first column stays in sight where the table is wider than the page.
    folded : bool
        Whether it is shown when asked for; printing shows it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    groups: tuple[tuple[tuple[str, int], ...], ...] = ()
    note: str = ""
    pinned: bool = False
    folded: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure.

    Parameters
    ----------
    name : str
        Of its files, without suffix.
    caption : str
        What it shows.
    svg : str
        For the page; colours are variables of the style sheet.
    """

    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Chapter:
    """A part of a page; one without tables and pictures says why there are none."""

    key: str
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


NOTHING = Value("-", None)
EMPTY = Value("", None)

# Head of a column; the column of a frame that it shows, or a function of a row, which may give a `Value`; and
# the form of a number, without which it is text.
Column = tuple[str, str | Callable[[Any], object], str]


def table(title: str, frame: pd.DataFrame, columns: Iterable[Column], **more: Any) -> Table:
    """A table of the rows of a frame.

    Parameters
    ----------
    title : str
        Above it.
    frame : pandas.DataFrame
        Columns may be of names of attributes alone.
    columns : iterable of Column
        In order.
    **more
        As in `Table`.
    """
    columns = tuple(columns)
    rows = tuple(
        tuple(
            entry(getattr(row, what) if isinstance(what, str) else what(row), form)
            for _, what, form in columns
        )
        for row in frame.itertuples()
    )
    return Table(title, tuple(head for head, *_ in columns), rows, **more)


def entry(value: object, form: str) -> Value:
    """Entry of what a column gives."""
    if isinstance(value, Value):
        return value
    return number(None if pd.isna(value) else float(value), form) if form else words(value)  # type: ignore[arg-type]


def words(text: object) -> Value:
    """Entry of text."""
    return Value(str(text), str(text))


def number(value: float | None, form: str = ",.0f") -> Value:
    """Entry of a number; a dash where there is none."""
    if value is None or math.isnan(value):
        return NOTHING
    return Value(format(value, form), float(value))


def count(written: Written, dataset: str, m: int) -> Value:
    """Entry of a number of annotations."""
    return Value(count_of(written, dataset, m), m)


def with_error(mean: float, se: float, form: str = ".3f") -> str:
    """A number and its standard error, which a single draw does not have."""
    return f"{mean:{form}}" + ("" if pd.isna(se) else f" ± {se:{form.lstrip('+')}}")


def mean_and_error(mean: float, se: float, form: str = ".4f") -> Value:
    """Entry of the same; a dash where there is no mean."""
    return NOTHING if math.isnan(mean) else Value(with_error(mean, se, form), mean)


def units(kinds: Iterable[object]) -> str:
    """What means are over, of a column `unit`, in which models that nothing draws again have none.

    Parameters
    ----------
    kinds : iterable of object
        `MIXTURES`, `REDRAWS`, or missing.
    """
    found = [KINDS[kind] for kind in KINDS if kind in set(kinds)]
    return ", and of a real data set ".join(found) or "nothing that is drawn"


def names(kinds: Iterable[object]) -> str:
    """The same in one word each."""
    return " and ".join(kind for kind in KINDS if kind in set(kinds)) or "nothing"


def drawn(number: int, kind: object) -> str:
    """A number of units: `"3 mixtures"`, `"1 redraw"`; `"1 cell"` of what nothing draws again."""
    return plural(number, SINGULAR.get(str(kind), "cell"))


def count_of(written: Written, dataset: str, m: int) -> str:
    """A number of annotations as the sweep file writes it: `"1.5N"`, or a number."""
    return written.get((dataset, m), str(m))


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first few of many."""
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def spread(values: Sequence[Item], most: int) -> list[Item]:
    """At most so many of the values, evenly spread, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    step = (len(values) - 1) / (most - 1)
    return [values[round(position * step)] for position in range(most)]


def shape_groups(models: Iterable[str]) -> dict[str, list[str]]:
    """Models that share a panel, or a table, by what is said of them there: their shape, or nothing.

    Parameters
    ----------
    models : iterable of str
        Of a cube, in any order.

    Returns
    -------
    dict of str to list of str
        Names in order: all under "" if they are of few shapes, otherwise those of each shape; methods are a
        group of their own.
    """
    found: dict[str, list[str]] = {}
    for model in sorted(set(models)):
        found.setdefault(shape_of(model) if is_model(model) else METHODS, []).append(model)
    if len(found) <= MOST_SHAPES:
        return {"": sorted(set(models))}
    return {group: found[group] for group in (*SHAPE_CODES, METHODS) if group in found}


def html(title: str, chapters: Sequence[Chapter], lead: Sequence[str] = ()) -> str:
    """One HTML document that needs nothing else; all text of chapters is escaped, it loads nothing.

    Parameters
    ----------
    title : str
        Of the page.
    chapters : sequence of Chapter
        In order.
    lead : sequence of str
        Paragraphs before the first of them: what is found, and how much of it is there.
    """
    folder = files("pipeline.report")
    texts = {
        name: folder.joinpath(f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")
    }
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    digest = base64.b64encode(hashlib.sha256(texts["js"].encode()).digest()).decode()
    svgs, ink = _classes([picture.svg for chapter in chapters for picture in chapter.pictures])
    shown = iter(svgs)
    return environment.from_string(texts["html"]).render(
        title=title,
        sections=chapters,
        lead=lead,
        style=Markup(texts["css"]),
        ink=Markup(ink),
        palette=json.dumps({name: color for color, name in VARIABLES.items()}),
        script=Markup(texts["js"]),
        digest=digest,
        version=package_version(),
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        next_svg=lambda: Markup(next(shown)),
    )


def _classes(svgs: list[str]) -> tuple[list[str], str]:
    """The figures with a class in the place of each style that they repeat, and the rules of these."""
    counts = Counter(style for svg in svgs for _, style in STYLED.findall(svg))
    names = {style: f"f{place}" for place, (style, n) in enumerate(counts.most_common()) if n >= OFTEN}

    def named(found: re.Match[str]) -> str:
        name = names.get(found[2])
        return f'{found[1]} class="{name}"' if name else found[0]

    rules = "\n".join(f".{name} {{{style}}}" for style, name in names.items())
    return [STYLED.sub(named, svg) for svg in svgs], rules


def text(row: Iterable[object], layout: Iterable[str]) -> str:
    """A line of a table for a terminal: entries, each in the format of its column."""
    return "".join(f"{value:{form}}" for value, form in zip(row, layout, strict=True)).rstrip()


def cells_of(table: pd.DataFrame) -> pd.DataFrame:
    """A table for spreadsheets, in which no text is a formula."""
    texts = {
        str(name): column.map(lambda cell: as_cell(cell) if isinstance(cell, str) else cell)
        for name, column in table.items()
        if not pd.api.types.is_numeric_dtype(column)
    }
    return table.assign(**texts)


def csv(folder: Path, tables: Mapping[str, pd.DataFrame]) -> list[Path]:
    """Write tables as CSV.

    Parameters
    ----------
    folder : Path
        It is there.
    tables : mapping of str to pandas.DataFrame
        By name of the file, without suffix.
    """
    files = []
    for name, table in tables.items():
        files.append(folder / f"{name}.csv")
        cells_of(table).to_csv(files[-1], index=False)
    return files
