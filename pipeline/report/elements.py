"""Content and parts of reports: tables, words and chapters, and how they become HTML, text, CSV and LaTeX.

A `Section` has parts made of a `Content`, which has everything that a page is made from.
A section declares its tables by columns (`table`, or `declared_table` with those of `page.toml`, whose texts
are `WORDS`). `html` makes a page of chapters, `text_lines` the lines of a table for a terminal, `write_csv`
files, and `write_paper` the source of a paper.
"""

import base64
import hashlib
import io
import json
import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar

import jinja2
import pandas as pd
import rich.table
import xarray as xr
from matplotlib.figure import Figure
from rich.cells import cell_len
from rich.console import Console

from sweep_clustering.pipeline.common import ESCAPES
from sweep_clustering.pipeline.looks import COLORS, PALETTE
from sweep_clustering.pipeline.scoring import ranking as stats
from sweep_clustering.pipeline.scoring import tables
from sweep_clustering.pipeline.scoring.pairs import compared_searches, design_scores
from sweep_clustering.pipeline.scoring.scores import LABELS
from sweep_clustering.storage.cube.manifest import Manifest
from sweep_clustering.storage.provenance import package_version
from sweep_clustering.storage.runfolder.folder import FailureRecord
from sweep_clustering.sweeps.data.lines import as_cell
from sweep_clustering.sweeps.errors import refused
from sweep_clustering.sweeps.plan import Cell
from sweep_clustering.sweeps.words import chooses

Item = TypeVar("Item")

# Each m as the sweep file writes it, by data set and number.
MTexts = Mapping[tuple[str, int], str]

KINDS = {tables.MIXTURES: "mixtures", tables.REDRAWS: "redraws of the annotations"}

# Form of a score.
FORM = ".3f"

# Rows from which on a table is folded.
LONG = 20
# Rows on the page of a table that stands in a file as well, so that the page stays small.
MOST_ROWS = 100
# A score in a table, and one that is zero. A table of nothing else is folded.
SCORE = re.compile(r"[-+]?\d+\.\d{3,}( ± .*)?")
ZERO = re.compile(r"[-+]?0\.0+( ± 0\.0+)?")
# Names of a list in a sentence.
MOST_NAMES = 4
# Data sets in one figure, and data sets that a figure has as examples if there are more.
MOST_DATASETS = 8
EXAMPLES = 3
# Accuracies in one figure. The CSV files hold all of a larger grid.
MOST_ACCURACIES = 6
# Letters of a line of text, and of an entry of a table in it: a longer one goes on below, its words whole.
WIDTH = 100
LONGEST_ENTRY = 48
# More tables than any section has.
ALL_TABLES = 1000
# Columns of a terminal without an end, so that no table is cut off.
ENDLESS = 10_000

# Folder of page.html, page.css, page.js and page.toml.
FOLDER = files("sweep_clustering.pipeline.report")
DECLARED = tomllib.loads((FOLDER / "page.toml").read_text(encoding="utf-8"))
# Texts by section and name.
WORDS = {
    section: {name: " ".join(text.split()) for name, text in texts.items()}
    for section, texts in DECLARED["words"].items()
}

# Notes that a page has once, at the first short name of their score. The words of an axis say the same.
NOTES = {label.short: label.note for label in LABELS.values() if label.note}
SCORE_NAMES = [*NOTES, *(label.axis for label in LABELS.values() if label.note)]
SCORE_NAME = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(SCORE_NAMES, key=len, reverse=True)))})\b")

STYLED = re.compile(r'(<[a-zA-Z][^<>]*?) style="([^"]*)"')
# Elements from which on a style becomes a class of the page.
OFTEN = 3


@dataclass(frozen=True)
class Value:
    """An entry of a table: its text, the number or text it is sorted by, its class, such as "good", and the
    address of the page that it leads to.

    A missing entry has no order, and stays last either way.
    """

    text: str
    order: float | str | None
    kind: str = ""
    link: str = ""


class Reading(str):
    """A paragraph on how to read a section, which the page shows on a click. Printing shows it."""


@dataclass(frozen=True)
class Table:
    """A table that can be sorted by any column.

    Parameters
    ----------
    title : str
        Text above it.
    columns : tuple of str
        Heads.
    rows : tuple of tuple of Value
        As long as `columns`.
    groups : tuple of tuple of (str, int)
        Rows of heads above `columns`, each with the number of columns it spans.
    note : str
        Text below it.
    n_lead : int
        Number of first columns that name a row. On a wide page one stays in sight, a wide text repeats them.
    folded : bool
        Whether it opens on a click, as all tables of more than `LONG` rows do. Printing shows it.
    full_file : str
        Name of a file that has all rows. The page then has the first `MOST_ROWS` of them.
    file : str
        Name of a CSV file with the numbers, to which a page of a site leads. A report may stand alone.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    groups: tuple[tuple[tuple[str, int], ...], ...] = ()
    note: str = ""
    n_lead: int = 0
    folded: bool = False
    full_file: str = ""
    file: str = ""

    def on_page(self) -> "Table":
        """Return the table as the page has it."""
        is_zero, n = self.is_zero, len(self.rows)
        title = f"{self.title}: all 0" if is_zero else self.title
        table = replace(self, folded=self.folded or is_zero or n > LONG, title=title)
        if not self.full_file or n <= MOST_ROWS:
            return table
        note = f"{self.note} The first {MOST_ROWS} of {n:,} rows; {self.full_file} has all."
        return replace(table, rows=self.rows[:MOST_ROWS], note=note.strip())

    @property
    def is_zero(self) -> bool:
        """Whether the table has scores with errors, and all of its scores are 0.000 ± 0.000."""
        scores = [value.text for row in self.rows for value in row if SCORE.fullmatch(value.text)]
        return any("±" in text for text in scores) and all(map(ZERO.fullmatch, scores))


@dataclass(frozen=True)
class Picture:
    """A figure on a page: the stem of its files, its caption, and SVG whose colours are variables.

    `formats` are those of its files, `folded` whether it opens on a click, and `without_font` the names with
    letters that no installed font has.
    """

    name: str
    caption: str
    svg: str
    formats: tuple[str, ...]
    folded: bool
    without_font: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        """Name that pictures of one kind share before the last hyphen; empty without one."""
        return self.name.rpartition("-")[0]


@dataclass(frozen=True)
class Chapter:
    """A part of a page, and of a text with its words and `n_in_text` tables, if that is not None."""

    key: str
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    reading: tuple[str, ...] = ()
    n_in_text: int | None = None


DASH = Value("-", None)
EMPTY = Value("", None)

# Head of a column; the attribute of a row that it shows, or a function of a row, which may return a `Value`;
# and the form of a number, without which it is text.
Column = tuple[str, str | Callable[[Any], object], str]


def table(title: str, rows: pd.DataFrame | Iterable[Any], columns: Iterable[Column], **options: Any) -> Table:
    """Return a table that is declared by its columns.

    Parameters
    ----------
    title : str
        Text above it.
    rows : pandas.DataFrame or iterable
        Objects that rows show. Columns of a frame must have the names of attributes.
    columns : iterable of Column
        Columns in order.
    **options
        Other fields of `Table`.
    """
    columns = list(columns)
    body = (
        tuple(_entry(row, column) for column in columns)
        for row in (rows.itertuples() if isinstance(rows, pd.DataFrame) else rows)
    )
    return Table(title, tuple(head for head, *_ in columns), tuple(body), **options)


def _entry(row: object, column: Column) -> Value:
    """Return the entry of a row in a column."""
    _, source, form = column
    value = getattr(row, source) if isinstance(source, str) else source(row)
    if isinstance(value, Value):
        return value
    return number(value, form) if form else words(value)


def declared_table(key: str, rows: pd.DataFrame | Iterable[Any], note_end: str = "") -> Table:
    """Return a table of `page.toml`, with `note_end` at the end of its note."""
    declaration = DECLARED["tables"][key]
    note = " ".join([*declaration["note"].split(), *note_end.split()])
    columns = [(head, source, form) for head, (source, form) in declaration["columns"].items()]
    options = {name: declaration[name] for name in ("full_file", "folded", "n_lead") if name in declaration}
    return table(declaration["title"], rows, columns, note=note, **options)


def score_notes(*texts: str) -> list[str]:
    """Return the notes on the scores that some texts name, each once, such as how NMI is normalised."""
    names = dict.fromkeys(name for text in texts for name in SCORE_NAME.findall(text))
    return [NOTES[name] for name in names if name in NOTES]


def words(text: object) -> Value:
    """Return an entry of text."""
    return Value(str(text), str(text))


def number(value: Any, form: str = ",.0f") -> Value:
    """Return an entry of a number, or a dash if there is none."""
    return DASH if pd.isna(value) else Value(format(float(value), form), float(value))


def count(m_texts: MTexts, dataset: str, m: int) -> Value:
    """Return an entry of a number of annotations."""
    return Value(count_text(m_texts, dataset, m), m)


def count_text(m_texts: MTexts, dataset: str, m: int) -> str:
    """Return a number of annotations as the sweep file writes it, such as `"1.5N"`."""
    return m_texts.get((dataset, m), str(m))


def with_error(mean: float, se: float, form: str = FORM, form_of_error: str = "") -> str:
    """Return a number and its standard error, which a single draw does not have."""
    return f"{mean:{form}}" + ("" if pd.isna(se) else f" ± {se:{form_of_error or form.lstrip('+')}}")


def mean_and_error(mean: float, se: float, form: str = FORM) -> Value:
    """Return an entry of a mean and its standard error, or a dash if there is no mean."""
    return DASH if pd.isna(mean) else Value(with_error(mean, se, form), mean)


def units(kinds: Iterable[object]) -> str:
    """Name what means are over, from a column `unit`. It is missing for models that nothing draws again."""
    kinds = set(kinds)
    texts = [text for kind, text in KINDS.items() if kind in kinds]
    return ", and of a real data set ".join(texts) or "nothing that is drawn"


def enumeration(names: Sequence[str]) -> str:
    """Join names for a sentence, the first few if they are many."""
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def subset(values: Sequence[Item], limit: int) -> list[Item]:
    """Return at most so many of the values, evenly spaced, with the first and the last."""
    if len(values) <= limit:
        return list(values)
    step = (len(values) - 1) / (limit - 1)
    return [values[round(position * step)] for position in range(limit)]


def panel_datasets(datasets: Iterable[str]) -> list[str]:
    """Return the data sets that have a panel in a figure: all of them, or a few examples of many."""
    names = list(dict.fromkeys(datasets))
    return names if len(names) <= MOST_DATASETS else subset(names, EXAMPLES)


def by_dataset(rows: pd.DataFrame, datasets: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Return the rows of each panel, by data set."""
    return {name: rows[rows["dataset"] == name] for name in panel_datasets(datasets)}


def are(count: int) -> str:
    """Return the verb after a number of things."""
    return "is" if count == 1 else "are"


def html(
    title: str,
    chapters: Sequence[Chapter],
    lead: Sequence[str] = (),
    legend: Iterable[tuple[str, str]] = (),
    foot: str = "",
    links: Sequence[Value] = (),
) -> str:
    """Return one HTML document that loads nothing, in which all text of chapters is escaped.

    `lead` has the paragraphs before the first chapter. `legend` follows it, with words of the page and their
    meanings. A page of a site, whose files stand beside it, ends with `foot`; `links` lead to other pages.
    """
    texts = {name: (FOLDER / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    page = jinja2.Template(
        texts["html"], trim_blocks=True, lstrip_blocks=True, autoescape=True, undefined=jinja2.StrictUndefined
    )
    svgs, ink = _classes([picture.svg for chapter in chapters for picture in chapter.pictures])
    text: str = page.render(
        title=title,
        sections=chapters,
        lead=lead,
        legend=list(legend),
        palette=json.dumps({f"--{name}": color for name, color in COLORS.items()}),
        # the policy of the page runs this script and no other
        digest=base64.b64encode(hashlib.sha256(texts["js"].encode()).digest()).decode(),
        ink=ink,
        version=package_version(),
        foot=foot,
        links=links,
        next_svg=partial(next, iter(svgs)),
        css=PALETTE + texts["css"],
        js=texts["js"],
    )
    return text


def _classes(svgs: list[str]) -> tuple[list[str], str]:
    """Return the figures with classes in place of styles that they repeat, and the rules of these classes."""
    counts = Counter(style for svg in svgs for _, style in STYLED.findall(svg))
    names = {style: f"f{place}" for place, (style, n) in enumerate(counts.most_common()) if n >= OFTEN}

    def with_class(match: re.Match[str]) -> str:
        return f'{match[1]} class="{names[match[2]]}"' if match[2] in names else match[0]

    rules = "\n".join(f".{name} {{{style}}}" for style, name in names.items())
    return [STYLED.sub(with_class, svg) for svg in svgs], rules


def paragraph_lines(text: str, first: str = "", indent: str = "") -> list[str]:
    """Return the lines of a paragraph for a terminal, in which names with hyphens stay whole."""
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)


def chapter_lines(chapter: Chapter) -> list[str]:
    """Return the words of a chapter, and those of its tables that the text has, for a terminal."""
    lines = [chapter.title]
    for text in chapter.text:
        lines += paragraph_lines(text, "  ", "    ")
    for table in chapter.tables[: chapter.n_in_text]:
        lines += ["", *([] if table.title == chapter.title else paragraph_lines(table.title))]
        lines += [] if table.is_zero else text_lines(table)
        lines += paragraph_lines(table.note, "  ", "  ")
    return lines


def text_lines(table: Table) -> list[str]:
    """Return heads and rows of a table for a terminal, with numbers aligned to the right.

    Columns that a line has no room for follow below, after the first ones again.
    """
    heads = list(table.columns)
    for group in reversed(table.groups):
        group_names = [name for name, span in group for _ in range(span)]
        heads = [f"{name}\n{head}" if name else head for name, head in zip(group_names, heads, strict=True)]
    columns = [[row[place] for row in table.rows] for place in range(len(heads))]
    texts = [
        [*head.split("\n"), *(value.text for value in column)]
        for head, column in zip(heads, columns, strict=True)
    ]
    words = [[cell_len(word) for text in column for word in text.split()] for column in texts]
    limits = [max(LONGEST_ENTRY, *lengths) for lengths in words]
    widths = [min(limit, max(map(cell_len, column))) + 2 for limit, column in zip(limits, texts, strict=True)]
    text = io.StringIO()
    console = Console(file=text, width=ENDLESS, color_system=None, markup=False, emoji=False, highlight=False)
    for line in _fitting_lines(widths, table.n_lead):
        grid = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
        for place in line:
            is_text = all(isinstance(value.order, str | None) for value in columns[place])
            justify: Literal["left", "right"] = "left" if is_text else "right"
            grid.add_column(heads[place], justify=justify, max_width=limits[place] if len(line) > 1 else None)
        for row in table.rows:
            grid.add_row(*(row[place].text for place in line))
        console.print(grid)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def _fitting_lines(widths: Sequence[int], n_lead: int) -> list[list[int]]:
    """Return places of columns for each line, about equally many if the first ones are repeated in each."""
    lines = _fill_lines(widths, n_lead, WIDTH + 2)
    options = (_fill_lines(widths, n_lead, width) for width in range(WIDTH + 2 if n_lead else 0))
    return next((option for option in options if len(option) == len(lines)), lines)


def _fill_lines(widths: Sequence[int], n_lead: int, width: int) -> list[list[int]]:
    lines = [list(range(n_lead))]
    for place in range(n_lead, len(widths)):
        if len(lines[-1]) > n_lead and sum(widths[column] for column in (*lines[-1], place)) > width:
            lines.append(list(range(n_lead)))
        lines[-1].append(place)
    return lines


def frame(table: Table) -> pd.DataFrame:
    """Return the texts and the numbers of a table of a page, with all their digits."""
    rows = [[value.order for value in row] for row in table.rows]
    return pd.DataFrame(rows, columns=list(table.columns)).convert_dtypes()


def spreadsheet(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table for spreadsheets, in which no text is a formula."""
    table, texts = table.copy(), table.select_dtypes(exclude="number")
    table[texts.columns] = texts.map(lambda cell: as_cell(cell) if isinstance(cell, str) else cell)
    return table.rename(columns=as_cell)


def check_folder(folder: Path) -> None:
    """Raise InputError, before anything is computed, if an output folder or a folder above it is a file."""
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise refused(place, "a file", "a folder to write to")


def by_score(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Join tables of several scores, with the score in the first column."""
    return pd.concat(tables, names=["score", None]).reset_index("score").reset_index(drop=True)


def write_csv(folder: Path, tables: Mapping[str, pd.DataFrame]) -> list[Path]:
    """Write tables to an existing folder, each under its name, and return the files."""
    paths = {folder / f"{name}.csv": table for name, table in tables.items()}
    for path, table in paths.items():
        spreadsheet(table).to_csv(path, index=False)
    return list(paths)


# Characters that mean something else to LaTeX, or that it lacks, and how it writes them.
LATEX = ESCAPES | str.maketrans(
    {"<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "−": "$-$", "±": r"$\pm$"}
)
LATEX |= str.maketrans({"≤": r"$\le$", "≥": r"$\ge$", "×": r"$\times$", "√": r"$\surd$", "π": r"$\pi$"})
NEGATIVE = re.compile(r"(?<!\S)-(?=\d)")

# How entries of a kind are marked, and the words for it in notes.
MARKUP = {"best": r"\textbf{%s}", "good": r"\textit{%s}"}
IN_PRINT = {"underlined": "bold", "coloured": "in italics"}

# Sections that say what ran, and nothing of results, which a paper lacks.
NOT_IN_PAPER = ("failures", "head")

LATEX_HEAD = r"""% Tables and figures of sweep report --paper. Copy what a paper needs, with these packages.
\documentclass{article}
\usepackage{booktabs,graphicx}
\usepackage[textwidth=7.16in,textheight=9.5in]{geometry}
\graphicspath{{figures/}}
% no wider than the page
\newcommand\fitted[1]{\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{#1}}
\begin{document}
"""


def write_paper(folder: Path, chapters: Iterable[Chapter]) -> list[Path]:
    """Write `paper.tex`, whose figures are in the same folder, and return the files."""
    parts, files = [LATEX_HEAD], [folder / "paper.tex"]
    for chapter in chapters:
        if chapter.key in NOT_IN_PAPER or not (chapter.tables or chapter.pictures):
            continue
        parts.append(rf"\section*{{{escaped(chapter.title)}}}")
        for number, table in enumerate(chapter.tables, start=1):
            label = f"tab:{chapter.key}-{number}"
            parts.append(floating("table", table.title, label, latex(table), table.note))
        for picture in chapter.pictures:
            body = rf"\fitted{{\includegraphics{{{picture.name}.pdf}}}}"
            parts.append(floating("figure", picture.caption, f"fig:{picture.name}", body))
            files.append(folder / "figures" / f"{picture.name}.pdf")
    files[0].write_text("\n".join([*parts, "\\end{document}\n"]), encoding="utf-8")
    return files


def escaped(text: str) -> str:
    """Return a text in which LaTeX sees letters alone."""
    return NEGATIVE.sub("−", text).translate(LATEX)


def floating(kind: str, caption: str, label: str, body: str, note: str = "") -> str:
    """Return a table or a figure with its caption, over both columns of a page that has two."""
    lines = [rf"\begin{{{kind}*}}[!htbp]", r"\centering"]
    text = rf"\caption{{{escaped(caption)}}}\label{{{label}}}"
    lines += [text, body] if kind == "table" else [body, text]
    for word, in_print in IN_PRINT.items():
        note = note.replace(word, in_print)
    lines += [rf"\par\smallskip{{\footnotesize {escaped(note)}}}"] if note else []
    return "\n".join([*lines, rf"\end{{{kind}*}}", ""])


def latex(table: Table) -> str:
    """Return the rows of a table with the rules of booktabs."""
    first_row = table.rows[0] if table.rows else ()
    columns = "".join("l" if isinstance(cell.order, str) else "r" for cell in first_row)
    columns = columns or "l" * len(table.columns)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    for group in table.groups:
        cells, rules, first = [], "", 1
        for text, span in group:
            cells.append(rf"\multicolumn{{{span}}}{{c}}{{{escaped(text)}}}")
            rules += rf"\cmidrule(lr){{{first}-{first + span - 1}}}" if text else ""
            first += span
        lines += [" & ".join(cells) + r" \\", rules]
    lines += [" & ".join(map(escaped, table.columns)) + r" \\", r"\midrule"]
    for row in table.rows:
        lines.append(" & ".join(MARKUP.get(cell.kind, "%s") % escaped(cell.text) for cell in row) + r" \\")
    return "\n".join([r"\fitted{%", *filter(None, lines), r"\bottomrule", r"\end{tabular}}"])


# Name of the files, the figure unless there is nothing to draw, and the caption.
Drawing = tuple[str, Figure | None, str]

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
    all_cells : pandas.DataFrame
        Cells of all designs and searches.
    cell : Cell or None
        Cell that is drawn as a matrix of scatter plots.
    comparison : pandas.DataFrame or None
        Table of `pipeline.report.scores.compare`.
    published : PublishedRanking or None
        Ranking of `pipeline.scoring.ranking.rank_published`.
    failures : tuple of FailureRecord
        Records beside the cube.
    holder : str or None
        Process that runs the sweep now.
    variants : mapping of str to str
        Design and search of `cells`, from `pipeline.scoring.tables.compared_variants`.
    """

    manifest: Manifest
    tree: xr.DataTree
    cells: pd.DataFrame
    summary: pd.DataFrame
    all_cells: pd.DataFrame
    cell: Cell | None = None
    comparison: pd.DataFrame | None = None
    published: stats.PublishedRanking | None = None
    failures: tuple[FailureRecord, ...] = ()
    holder: str | None = None
    variants: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def m_texts(self) -> dict[tuple[str, int], str]:
        """Return each m as the sweep file writes it."""
        return tables.written_counts(self.manifest.plans, self.manifest.spec.grid.m)

    @cached_property
    def accuracies(self) -> list[float]:
        """Return the accuracies in figures, which are a subset of many."""
        return subset(sorted(self.cells["p"].dropna().unique().tolist()), MOST_ACCURACIES)

    @cached_property
    def rankings(self) -> tuple[stats.Ranking, ...]:
        """Return a ranking of the models by each score that compares them."""
        return stats.rankings(self.cells)

    @cached_property
    def full_rankings(self) -> list[stats.Ranking]:
        """Return the rankings of two models or more that have ranks."""
        return [ranking for ranking in self.rankings if ranking.is_comparable and ranking.datasets]

    @cached_property
    def kinds(self) -> dict[str, pd.DataFrame]:
        """Return ranks by kind of data, by score."""
        if not self.full_rankings:
            return {}
        traits = stats.facts(self.manifest.plans, self.tree)
        comparable = self.full_rankings
        return {ranking.score: stats.ranks_by_kind(ranking, traits, self.m_texts) for ranking in comparable}

    @cached_property
    def designs(self) -> dict[str, pd.DataFrame]:
        """Return the scores of designs under one search, which are empty with a single design."""
        return design_scores(self.timed_cells, self.m_texts)

    @property
    def timed_cells(self) -> pd.DataFrame:
        """Return the cells of all designs under one search."""
        return tables.rows_of(self.all_cells, {k: v for k, v in self.variants.items() if k == tables.SEARCH})

    @cached_property
    def searches(self) -> dict[str, pd.DataFrame]:
        """Return the tables of each search beside the first, for one design; empty with a single search."""
        design = {key: value for key, value in self.variants.items() if key == tables.DESIGN}
        return compared_searches(tables.rows_of(self.all_cells, design), self.manifest.spec.search)

    @cached_property
    def choices(self) -> pd.DataFrame:
        """Return the shapes of covariances that models chose; empty without a model that chooses."""
        return tables.choice_table(self.cells)

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
    """A declared part of a page.

    Parameters
    ----------
    key, title : str
        Address within the page, and head.
    parts : iterable
        Paragraphs, tables and figures. The page has these kinds in this order, and each kind as it comes. A
        section without any part has no place.
    has_note : bool
        Whether it says so if there is nothing to draw.
    n_in_text : int or None
        Number of its tables that the text for a terminal has, with its words; None if the text has none.
    """

    key: str
    title: str
    parts: Iterable[Part]
    has_note: bool = False
    n_in_text: int | None = None
