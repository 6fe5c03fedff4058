"""What reports are made of: tables and chapters, and how they become HTML, text and CSV.

A section declares its tables by columns (`table`, or `declared` with those of `page.toml`, whose texts are
`WORDS`); `html` makes a page of chapters, `text` lines for a terminal, and `csv` files. Words on what means
are over, and on numbers of annotations, are the same in all.
"""

import base64
import hashlib
import json
import re
import textwrap
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import jinja2
import pandas as pd

from sweep_clustering.pipeline.report.look import EXAMPLES, MOST_DATASETS, VARIABLES
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.pipeline.scoring.tables import MIXTURES, REDRAWS
from sweep_clustering.storage.provenance import package_version
from sweep_clustering.sweeps.data.lines import as_cell
from sweep_clustering.sweeps.errors import InputError, Problem

Item = TypeVar("Item")

# Of all designs, searches, m: how the sweep file writes each m, by data set and number.
Written = Mapping[tuple[str, int], str]

KINDS = {MIXTURES: "mixtures", REDRAWS: "redraws of the annotations"}

# Rows from which on a table is folded, and those of one that stands in a file as well: the page stays small.
LONG, MOST_ROWS = 20, 100
# A score in a table, and one that is zero: a table of nothing else is folded.
SCORE, ZERO = re.compile(r"[-+]?\d+\.\d{3,}( ± .*)?"), re.compile(r"[-+]?0\.0+( ± 0\.0+)?")
# Names of a list in a sentence.
MOST_NAMES = 4

# Where page.html, page.css, page.js and page.toml are.
FOLDER = files("sweep_clustering.pipeline.report")
DECLARED = tomllib.loads((FOLDER / "page.toml").read_text(encoding="utf-8"))
# Texts by section and name.
WORDS = {
    section: {name: " ".join(text.split()) for name, text in texts.items()}
    for section, texts in DECLARED["words"].items()
}

# What is to be said of a score where its short name stands, and not the words of its axis, which say it.
NOTES = {label.short: label.note for label in LABELS.values() if label.note}
NOTED = [*NOTES, *(label.axis for label in LABELS.values() if label.note)]
NAMED = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(NOTED, key=len, reverse=True)))})\b")

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


class Reading(str):
    """A paragraph on how to read a section: the page shows it when asked for, and printing shows it."""


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
        Whether it is shown when asked for, as all tables of more than `LONG` rows are; printing shows it.
    whole : str
        Name of a file that has all rows; the page then has the first `MOST_ROWS` of them.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    groups: tuple[tuple[tuple[str, int], ...], ...] = ()
    note: str = ""
    pinned: bool = False
    folded: bool = False
    whole: str = ""

    def on_page(self) -> "Table":
        """What a page has of it."""
        zero, n = self.is_zero, len(self.rows)
        folded, title = self.folded or zero or n > LONG, f"{self.title}: all 0" if zero else self.title
        if not self.whole or n <= MOST_ROWS:
            return replace(self, folded=folded, title=title)
        note = f"{self.note} The first {MOST_ROWS} of {n:,} rows; {self.whole} has all."
        return replace(self, rows=self.rows[:MOST_ROWS], folded=folded, title=title, note=note.strip())

    @property
    def is_zero(self) -> bool:
        """Whether it has scores with errors, and all of its scores are 0.000 ± 0.000."""
        found = [value.text for row in self.rows for value in row if SCORE.fullmatch(value.text)]
        return any("±" in text for text in found) and all(map(ZERO.fullmatch, found))


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
    formats : tuple of str
        Of its files.
    folded : bool
        Whether it is shown when asked for; printing shows it.
    without_font : frozenset of str
        Names with letters that no installed font has.
    """

    name: str
    caption: str
    svg: str
    formats: tuple[str, ...]
    folded: bool
    without_font: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Chapter:
    """A part of a page; one without tables and pictures says why there are none."""

    key: str
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    reading: tuple[str, ...] = ()


NOTHING = Value("-", None)
EMPTY = Value("", None)

# Head of a column; the attribute of a row that it shows, or a function of a row, which may give a `Value`;
# and the form of a number, without which it is text.
Column = tuple[str, str | Callable[[Any], object], str]


def table(title: str, rows: pd.DataFrame | Iterable[Any], columns: Iterable[Column], **more: Any) -> Table:
    """A table declared by its columns.

    Parameters
    ----------
    title : str
        Above it.
    rows : pandas.DataFrame or iterable
        What each row is of; columns of a frame may have names of attributes alone.
    columns : iterable of Column
        In order.
    **more
        As in `Table`.
    """
    heads, whats, forms = zip(*columns, strict=True)
    body = []
    for row in rows.itertuples() if isinstance(rows, pd.DataFrame) else rows:
        values = [getattr(row, what) if isinstance(what, str) else what(row) for what in whats]
        body.append(
            tuple(
                value if isinstance(value, Value) else number(value, form) if form else words(value)
                for value, form in zip(values, forms, strict=True)
            )
        )
    return Table(title, heads, tuple(body), **more)


def declared(key: str, rows: pd.DataFrame | Iterable[Any], more: str = "") -> Table:
    """A table of `page.toml`; `more` is added to its note."""
    found = DECLARED["tables"][key]
    whole = found.get("whole", "")
    note = " ".join([*found["note"].split(), *more.split()])
    columns = [(head, what, form) for head, (what, form) in found["columns"].items()]
    return table(found["title"], rows, columns, note=note, whole=whole, folded=found.get("folded", False))


def explained(*texts: str) -> str:
    """What is to be said, once, of the scores that some texts name: that NMI is normalised, and by what."""
    named = dict.fromkeys(name for text in texts for name in NAMED.findall(text))
    return " ".join(NOTES[name] for name in named if name in NOTES)


def words(text: object) -> Value:
    """Entry of text."""
    return Value(str(text), str(text))


def number(value: Any, form: str = ",.0f") -> Value:
    """Entry of a number; a dash where there is none."""
    return NOTHING if pd.isna(value) else Value(format(float(value), form), float(value))


def count(written: Written, dataset: str, m: int) -> Value:
    """Entry of a number of annotations."""
    return Value(count_of(written, dataset, m), m)


def with_error(mean: float, se: float, form: str = ".3f", of_error: str = "") -> str:
    """A number and its standard error, which a single draw does not have."""
    return f"{mean:{form}}" + ("" if pd.isna(se) else f" ± {se:{of_error or form.lstrip('+')}}")


def mean_and_error(mean: float, se: float, form: str = ".4f") -> Value:
    """Entry of the same; a dash where there is no mean."""
    return NOTHING if pd.isna(mean) else Value(with_error(mean, se, form), mean)


def units(kinds: Iterable[object]) -> str:
    """What means are over, of a column `unit`, in which models that nothing draws again have none.

    Parameters
    ----------
    kinds : iterable of object
        `MIXTURES`, `REDRAWS`, or missing.
    """
    found = set(kinds)
    return (
        ", and of a real data set ".join(KINDS[kind] for kind in KINDS if kind in found)
        or "nothing that is drawn"
    )


def names(kinds: Iterable[object]) -> str:
    """The same in one word each."""
    found = set(kinds)
    return " and ".join(kind for kind in KINDS if kind in found) or "nothing"


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


def some(datasets: Iterable[str]) -> list[str]:
    """Data sets that a figure has a panel for: all of them, or of many a few examples."""
    names = list(dict.fromkeys(datasets))
    return names if len(names) <= MOST_DATASETS else spread(names, EXAMPLES)


def by_dataset(rows: pd.DataFrame, datasets: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Rows of each panel: of a data set, of many of some."""
    return {name: rows[rows["dataset"] == name] for name in some(datasets)}


def are(count: int) -> str:
    """The verb after a number of things."""
    return "is" if count == 1 else "are"


def html(
    title: str,
    chapters: Sequence[Chapter],
    lead: Sequence[str] = (),
    legend: Iterable[tuple[str, str]] = (),
) -> str:
    """One HTML document that needs nothing else; all text of chapters is escaped, it loads nothing.

    Parameters
    ----------
    title : str
        Of the page.
    chapters : sequence of Chapter
        In order.
    lead : sequence of str
        Paragraphs before the first of them: what is found, and how much of it is there.
    legend : iterable of tuple of str
        Words of the page and what each means, after the lead.
    """
    texts = {name: (FOLDER / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    strict: dict[str, Any] = {"autoescape": True, "undefined": jinja2.StrictUndefined}
    page = jinja2.Template(texts["html"], trim_blocks=True, lstrip_blocks=True, **strict)
    # the policy of the page runs this script and no other
    digest = base64.b64encode(hashlib.sha256(texts["js"].encode()).digest()).decode()
    palette = json.dumps({name: color for color, name in VARIABLES.items()})
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    shown = {"title": title, "sections": chapters, "lead": lead, "palette": palette, "digest": digest}
    shown["legend"] = list(legend)
    svgs, ink = _classes([picture.svg for chapter in chapters for picture in chapter.pictures])
    shown |= {"ink": ink, "version": package_version(), "made": made}
    return str(page.render(shown, **texts, next_svg=partial(next, iter(svgs))))


def _classes(svgs: list[str]) -> tuple[list[str], str]:
    """The figures with a class in the place of each style that they repeat, and the rules of these."""
    counts = Counter(style for svg in svgs for _, style in STYLED.findall(svg))
    names = {style: f"f{place}" for place, (style, n) in enumerate(counts.most_common()) if n >= OFTEN}

    def named(found: re.Match[str]) -> str:
        return f'{found[1]} class="{names[found[2]]}"' if found[2] in names else found[0]

    rules = "\n".join(f".{name} {{{style}}}" for style, name in names.items())
    return [STYLED.sub(named, svg) for svg in svgs], rules


def wrapped(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    """Give the lines of a paragraph for a terminal, in which names with hyphens stay whole."""
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def text(row: Iterable[object], layout: Iterable[str]) -> str:
    """A line of a table for a terminal: entries, each in the format of its column."""
    return "".join(f"{value:{form}}" for value, form in zip(row, layout, strict=True)).rstrip()


def cells_of(table: pd.DataFrame) -> pd.DataFrame:
    """A table for spreadsheets, in which no text is a formula."""
    texts = table.select_dtypes(exclude="number")
    return table.assign(**texts.map(lambda cell: as_cell(cell) if isinstance(cell, str) else cell))


def check_folder(folder: Path) -> None:
    """Refuse a folder for output that cannot be one, before anything is computed.

    Raises
    ------
    InputError
        If it, or a folder above it, is a file.
    """
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise InputError([Problem(str(place), "a file", "a folder to write to")])


def by_score(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Tables of several scores as one, with the score in its first column."""
    return pd.concat(tables, names=["score", None]).reset_index("score").reset_index(drop=True)


def csv(folder: Path, tables: Mapping[str, pd.DataFrame]) -> list[Path]:
    """Write tables as CSV.

    Parameters
    ----------
    folder : Path
        It is there.
    tables : mapping of str to pandas.DataFrame
        By name of the file, without suffix.
    """
    written = {folder / f"{name}.csv": table for name, table in tables.items()}
    for file, table in written.items():
        cells_of(table).to_csv(file, index=False)
    return list(written)
