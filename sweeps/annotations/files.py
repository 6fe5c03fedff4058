"""Annotations in files: links, annotations of several annotators, answers to questions.

`read_links`, `read_annotations` and `read_answers` read them, `read_pool` those that cells draw from.
Whatever the file, a row becomes cells by name, which one function reads. A `PairFile` is one that is open:
what it calls samples is seen before its rows are read, from which `sweeps.annotations.numbering` says whether
the files of a command count rows from 0 or from 1.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.settings import LARGEST_WEIGHT, LEAST_WEIGHT, WEIGHTS
from sweep_clustering.sweeps.annotations.distinct import Distinct, plain
from sweep_clustering.sweeps.annotations.draw import CANNOT, MOST_ANNOTATIONS, MUST
from sweep_clustering.sweeps.annotations.rows import (
    LINKS,
    OUTSIDE,
    SELF_PAIR_WEIGHT,
    Annotation,
    AnnotationRows,
    Row,
    Skip,
)
from sweep_clustering.sweeps.annotations.samples import MOST_COMPARED, WHOLE, Samples
from sweep_clustering.sweeps.annotations.stored import Stored, is_stored, read_stored
from sweep_clustering.sweeps.data import lines
from sweep_clustering.sweeps.data.lines import Lines
from sweep_clustering.sweeps.data.table import TableChoice, identity
from sweep_clustering.sweeps.data.text import BLANK, rows_of
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, did_you_mean, plural, refused

T = TypeVar("T")

ANNOTATOR, ACCURACY, FIRST_ROW = "annotator", "accuracy", "first_row"

LINK_CELLS = ("i", "j", "weight")
CELLS = ("i", "j", "kind", "weight", ANNOTATOR, ACCURACY)

# Columns that a header has if its file is one of questions; of others annotator, accuracy and first_row are
# read.
NEEDED = ("i", "j", "answer")

# Headers of files of questions as `sweep ask` wrote them before they had the column first_row.
SETTLES, UNMARKED = "settles", ["i", "j", ANNOTATOR, "answer"]

# Of the columns of a file of questions.
SEPARATORS = (",", ";", "\t")

# Annotator of answers that name none.
ASKED = "asked"

ANSWERS = {
    **dict.fromkeys(("yes", "ye", "y", "must", "m", "+", "1", "1.0", "true"), MUST),
    **dict.fromkeys(("no", "n", "cannot", "c", "-", "0", "0.0", "false"), CANNOT),
}
SKIPS = ("skip", "ski", "sk", "s")

# Kinds are answers, and words of other programs.
KINDS = ANSWERS | {
    **dict.fromkeys(("must-link", "must_link", "mustlink", "ml", "same", "together", "+1"), MUST),
    **dict.fromkeys(("cannot-link", "cannot_link", "cannotlink", "cl", "different", "apart", "-1"), CANNOT),
}

# Of the cells that say the kind of an annotation: what is known, in words, and what may be misspelt.
WORDS = {
    "kind": (
        KINDS,
        "must or cannot (m or c, yes or no, same or different, 1 or 0, + or -)",
        ("must", "cannot", "must-link", "cannot-link", "yes", "no", "same", "different"),
    ),
    "answer": (
        ANSWERS,
        "yes or no (must or cannot, y or n, 1 or 0, + or -), skip, or nothing",
        ("yes", "no", "must", "cannot", "skip"),
    ),
}

# Other names of columns: of the two samples in pairs, so that no name of one stands beside one of another.
ENDS = (
    ("i", "j"),
    ("first", "second"),
    ("a", "b"),
    ("left", "right"),
    ("source", "target"),
    ("row1", "row2"),
    ("sample1", "sample2"),
    ("id1", "id2"),
)
SYNONYMS = {
    **dict.fromkeys(("type", "link", "label", "relation", "constraint"), "kind"),
    **dict.fromkeys(("count",), "weight"),
    **dict.fromkeys(("worker", "rater", "user", "who"), ANNOTATOR),
}

# A column that pandas writes before the others, without a name, and calls so when it reads it, once or again.
UNNAMED = re.compile(r"(unnamed: \d+(\.\d+)?)?")


def read_links(path: Path, samples: Samples | int, kind: int) -> list[Annotation]:
    """Read a link file.

    A line holds two numbers of samples, or names of samples, and a weight, separated by blanks, commas,
    semicolons or tabs. Without a weight the line is one annotation. A self pair carries weight 2 per
    annotation. `#` begins a comment. A first line that names the columns is a header: columns then come in
    any order. Lines of the same pair, in either order, add up when they are laid out for the kernels. An
    empty file is an empty annotation graph.

    Parameters
    ----------
    path : Path
        The file.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are, counted from 1.
    kind : int
        `sweeps.annotations.draw.MUST` or `CANNOT`, what the file holds.

    Returns
    -------
    list of Annotation
        In the order of the lines.

    Raises
    ------
    InputError
        With every line that is not a link.
    """
    return _answered(PairFile.of(path, kind).rows(Samples.of(samples)))


def read_annotations(path: Path, samples: Samples | int) -> list[Annotation]:
    """Read an annotation file, or the answers of a question file: `read_answers` without skipped pairs."""
    return _answered(read_answers(path, samples))


def read_answers(path: Path, samples: Samples | int) -> list[Row]:
    """Read an annotation file, or a file of questions with the pairs that were skipped.

    A file whose first line is a header with the columns `i`, `j` and `answer` is one of questions. A row
    without an answer says nothing. Answers are words of `ANSWERS`, skipped pairs words of `SKIPS`, in any
    case. The column `annotator` names who answered, the column `accuracy` the probability that the answer is
    right; without a name it is `ASKED`. A last line without a line end may break off: what is missing of it
    was never answered.

    A line of any other file holds two numbers of samples (or names of samples, where they have names), the
    kind (a word of `KINDS`, in any case), a weight, the annotator's name and, if the line has a sixth cell
    that is not empty, the probability that it is right. Cells are separated by blanks, commas, semicolons or
    tabs; `#` begins a comment. With a header, columns come in any order, and only `i`, `j` and `kind` are
    needed; in it `#` begins a comment where blanks separate, and at the begin of a line. Weights are those of
    link files: a self pair carries 2 per annotation. Lines of the same pair may repeat and contradict each
    other. An empty file is an empty annotation graph.

    Where a file of any kind has a column `first_row`, each row says by 0 or 1 how it counts samples.

    Parameters
    ----------
    path : Path
        The file.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are, counted from 1.

    Returns
    -------
    list of Annotation or Skip
        In the order of the lines.

    Raises
    ------
    InputError
        With every problem of every line.
    """
    return PairFile.of(path).rows(Samples.of(samples))


def separator_of(header: str) -> str | None:
    """What separates the columns of a question file, of its first line; None if it is no such header."""
    return next((mark for mark in SEPARATORS if {*NEEDED} <= {*_names(header, mark)}), None)


def columns_of(header: str) -> list[str]:
    """Names of the columns in the header of a question file, in small letters."""
    return _names(header, separator_of(header) or ",")


def _names(header: str, separator: str) -> list[str]:
    return [cell.lower() for cell in lines.split_cells(header, separator)]


class Seen(NamedTuple):
    """What a file calls samples, before it is known which there are.

    Parameters
    ----------
    row_0 : int
        First line that names row 0, and does not say from where it counts; 0 if there is none.
    marks : frozenset of int
        What its rows say of the number of the first row.
    is_asked : bool
        Whether `sweep ask` wrote it before its files said that: it counted from 1.
    has_numbers : bool
        Whether any sample is called by a number.
    largest, largest_line : int
        The largest number of a row that does not say from where it counts, and the first line that names it;
        0 if there is none.
    texts : frozenset of str
        The first of what is no number.
    """

    row_0: int = 0
    marks: frozenset[int] = frozenset()
    is_asked: bool = False
    has_numbers: bool = False
    largest: int = 0
    largest_line: int = 0
    texts: frozenset[str] = frozenset()


class _Reads(NamedTuple):
    """What is read of a file with a header: names of all its columns, those that are read, and its kind."""

    columns: list[str]
    known: tuple[str, ...]
    is_questions: bool


# Cells of a row by name, and the number of its line; None if it says nothing.
Cells = tuple[int, dict[str, str]] | None


@dataclass(frozen=True)
class PairFile:
    """A link file, an annotation file or a file of questions, with its content: a pipe is read once.

    Parameters
    ----------
    read : Lines or Stored
        The content.
    kind : int or None
        Of all rows, `sweeps.annotations.draw.MUST` or `CANNOT`; None if each row says its own.
    """

    read: Lines | Stored
    kind: int | None = None

    @classmethod
    def of(cls, path: Path, kind: int | None = None) -> PairFile:
        """Read a file of columns (.parquet, .pq, .feather, .arrow, .npz), or a text under any other name.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        return cls(read_stored(path) if is_stored(path) else lines.read_lines(path), kind)

    @property
    def path(self) -> Path:
        """Where it was read."""
        return self.read.path

    @property
    def unit(self) -> str:
        """What its rows are called in messages."""
        return "row" if isinstance(self.read, Stored) else "line"

    def rows(self, samples: Samples) -> list[Row]:
        """Its rows in the order of the lines, see `read_links` and `read_answers`.

        Raises
        ------
        InputError
            With every problem of every line, equal ones as one.
        """
        if isinstance(self.read, Stored):
            return list(self.table(samples))
        by_number = _by_number(samples)
        items, cells_of = self._table(self.read, samples)
        complaints, rows = lines.Complaints(self.path), list[Row]()
        problems: list[Problem] = []
        with collecting(problems):
            for item in items:
                found: list[Problem] = []
                with collecting(found):
                    if cells := cells_of(item):
                        counted = by_number.get(cells[1].get(FIRST_ROW, ""), samples)
                        row = _row(self.path, *cells, counted, self.kind)
                        rows += [] if row is None else [row]
                complaints.add(found)
        complaints.add(problems)
        if problems := complaints.shown():
            raise InputError(problems, AnnotationRows.of(rows).inside)
        return rows

    def table(self, samples: Samples) -> AnnotationRows:
        """The same as columns: in seconds for millions of rows, if its lines are plain ones.

        Raises
        ------
        InputError
            As `rows`. Its `rest` is the rows that are right.
        """
        distinct = self._distinct(samples)
        if distinct is None:
            return AnnotationRows.of(self.rows(samples)).inside
        return self._read(distinct, samples)

    def some(self, samples: Samples, most: int) -> AnnotationRows:
        """Some of its rows as columns, the same at every call: at most so many of a file of plain lines.

        Raises
        ------
        InputError
            As `rows`.
        """
        distinct = self._distinct(samples)
        if distinct is None or len(distinct) <= most:
            return self.table(samples)
        rng = np.random.default_rng(len(distinct))
        return self._read(distinct.at(np.sort(rng.choice(len(distinct), most, replace=False))), samples)

    def _read(self, distinct: Distinct, samples: Samples) -> AnnotationRows:
        by_number = _by_number(samples)

        def find(cell: str, mark: str) -> int | None:
            return by_number.get(mark, samples).find(cell)

        def read(number: int, cells: Mapping[str, str]) -> Row | None:
            counted = by_number.get(cells.get(FIRST_ROW, ""), samples)
            return _row(self.path, number, cells, counted, self.kind, self.unit)

        return distinct.rows(self.path, FIRST_ROW, find, read)

    def _distinct(self, samples: Samples) -> Distinct | None:
        """Its rows by their distinct cells; None if they have to be read one by one.

        Raises
        ------
        InputError
            If there are columns that are not known, or are missing.
        """
        if isinstance(self.read, Stored):
            columns = self.read.columns
            words = [name.strip().lower() for name in columns.codes]
            reads = self._reads(words, str(self.path))
            return self._as_asked(
                columns.called(reads.columns).only(reads.known), reads.is_questions, samples
            )
        content, header = self.read.content, self._header(self.read, samples)
        if header is None:
            names: tuple[str, ...] = CELLS if self.kind is None else LINK_CELLS
            least = 3 if self.kind is None else 2
            skip = _lines_before(content)
            marks = (mark for mark in (",", "\t", " ", ";") if mark.encode() in content)
            separator = next(marks, "")
            is_questions = False
        else:
            line, separator, words = header
            reads = self._reads(words, f"{self.path}, line {line}")
            names, known, is_questions = tuple(reads.columns), reads.known, reads.is_questions
            least, skip = len(names), line
            if is_questions and not content.endswith(b"\n"):
                return None  # its last line may break off
        named = [name for name in names if name]
        if not separator or len({*named}) < len(named):
            return None
        key = separator, names
        if key not in self._parsed:
            self._parsed[key] = plain(content, separator, names, least, skip)
        found = self._parsed[key]
        if found is None or header is None:
            return found
        return self._as_asked(found.only(known), is_questions, samples)

    @cached_property
    def _parsed(self) -> dict[tuple[str, tuple[str, ...]], Distinct | None]:
        return {}

    def _as_asked(self, found: Distinct, is_questions: bool, samples: Samples) -> Distinct:
        """Cells as a file with a header has them: those of questions as spreadsheets keep them."""
        if FIRST_ROW in found.codes:
            found = found.changed(FIRST_ROW, identity)
        if is_questions:  # see `Samples.cell`
            for end in ENDS[0]:
                found = found.changed(end, samples.named_by)
            if ANNOTATOR in found.codes:
                return found.changed(ANNOTATOR, lambda cell: lines.of_cell(cell) or ASKED)
        if self.kind is None and ANNOTATOR not in found.codes:
            return found.with_all(ANNOTATOR, ASKED)
        return found

    def _reads(self, words: Sequence[str], where: str) -> _Reads:
        """What is read of the columns of a header.

        Raises
        ------
        InputError
            With columns that are not known, come twice, or are missing.
        """
        is_questions = self.kind is None and "answer" in words
        needed = NEEDED if is_questions else LINK_CELLS[:2] if self.kind is not None else CELLS[:3]
        known = CELLS if self.kind is None else LINK_CELLS
        read = (*((*NEEDED, ANNOTATOR, ACCURACY) if is_questions else known), FIRST_ROW)
        columns = usual_names(words)
        if problems := [*header_problems(where, words, columns, needed, read, is_questions)]:
            raise InputError(problems)
        return _Reads(columns, read, is_questions)

    @cached_property
    def seen(self) -> Seen:
        """What it calls samples, as far as its rows can be read."""
        row_0, marks, texts, has_numbers = 0, set[int](), set[str](), False
        largest = largest_line = 0
        cells: list[tuple[int, str, str]] = []
        with suppress(InputError):  # what is wrong is said when it is read
            cells = sorted(self._named(), key=lambda each: each[0])
        for line, each, mark in cells:
            number = int(text) if WHOLE.fullmatch(text := identity(each)) else None
            has_numbers |= number is not None
            if mark in ("0", "1"):
                marks |= {int(mark)} if number is not None else set()
            elif number == 0:
                row_0 = row_0 or line
            elif number is not None and number > largest:
                largest, largest_line = number, line
            if len(texts) < MOST_COMPARED and lines.to_number(each) is None:
                texts.add(each)
        header = self.read.first if isinstance(self.read, Lines) else None
        columns = columns_of(header.text) if header and separator_of(header.text) else []
        is_asked = FIRST_ROW not in columns and (SETTLES in columns or columns == UNMARKED)
        return Seen(row_0, frozenset(marks), is_asked, has_numbers, largest, largest_line, frozenset(texts))

    def _named(self) -> list[tuple[int, str, str]]:
        """Each text that stands for a sample, with its first line and what that says of the first row."""
        nobody = Samples.of(0)
        if (distinct := self._distinct(nobody)) is not None and FIRST_ROW not in distinct.codes:
            ends = (distinct.firsts(end) for end in ENDS[0])
            return [(distinct.begin + place, text, "") for each in ends for place, text in each]
        known = dict[tuple[str, str], int]()
        if distinct is not None:
            rows = ((distinct.begin + place, distinct.row(place)) for place in range(len(distinct)))
            for line, cells in rows:
                for end in ENDS[0]:
                    known.setdefault((cells[end], cells[FIRST_ROW]), line)
        elif isinstance(self.read, Lines):
            items, cells_of = self._table(self.read, nobody)
            with suppress(InputError):  # of a row that ends nowhere
                for item in items:
                    found: Cells = None
                    with suppress(InputError):
                        found = cells_of(item)
                    if found is not None:
                        line, cells = found
                        mark = cells.get(FIRST_ROW, "")
                        for end in ENDS[0]:
                            known.setdefault((cells[end], mark), line)
        return [(line, *each) for each, line in known.items()]

    def _header(self, read: Lines, samples: Samples) -> tuple[int, str, list[str]] | None:
        """The header of a text, see `_header`; None if it has none.

        Raises
        ------
        InputError
            If its columns may have another meaning than they have without a header.
        """
        header = _header(read, samples)
        if header is None and self.kind is not None and _counts_lines(read):
            found, expected = "a first column that counts the lines from 0", "a header that says what it is"
            hint = "begin the file with the header i,j,weight, or with ,i,j if the first column is an index"
            raise refused(read.path, found, expected, hint)
        return header

    def _table(self, read: Lines, samples: Samples) -> tuple[Iterable[Any], Callable[[Any], Cells]]:
        """Rows, and what makes cells by name of one."""
        header = self._header(read, samples)
        if header is not None:
            return self._with_header(read.content, *header, samples)
        names, least = (CELLS, 3) if self.kind is None else (LINK_CELLS, 2)

        def cells_of(line: lines.Line) -> Cells:
            text = line.text.partition("#")[0].strip()
            # a text may hold a semicolon
            for separator in ("", ";"):
                cells = lines.split_cells(text, separator)
                if len(cells) in range(least, len(names) + 1):
                    return line.number, dict(zip(names, cells, strict=False))
            more = "".join(f" [{name}]" for name in names[least:])
            raise refused(line.where, repr(text[:60]), f"{' '.join(names[:least])}{more}")

        return read, cells_of

    def _with_header(
        self, content: bytes, line: int, separator: str, words: list[str], samples: Samples
    ) -> tuple[Iterable[Any], Callable[[Any], Cells]]:
        path = self.path
        columns, read, is_questions = self._reads(words, f"{path}, line {line}")
        last = 0 if content.endswith(b"\n") or not is_questions else content.count(b"\n") + 1

        def rows() -> Iterator[tuple[list[str], int, int]]:
            found = rows_of(path, content, separator)
            next(found)
            try:
                yield from found
            except InputError as error:
                # a quote that is not closed by the last line: what broke off was never answered
                if error.problems[0].where != f"{path}, line {last}":
                    raise

        def cells_of(row: tuple[list[str], int, int]) -> Cells:
            cells, line, _ = row
            if separator == BLANK:
                comment = next((place for place, cell in enumerate(cells) if cell[:1] == "#"), None)
                cells = cells[:comment]
            if not any(cells):  # as spreadsheets leave them
                return None
            if len(cells) != len(columns):
                if line == last and len(cells) < len(columns):
                    return None
                raise refused(
                    f"{path}, line {line}", plural(len(cells), "cell"), f"{len(columns)} as in the header"
                )
            found = {name: cell for name, cell in zip(columns, cells, strict=True) if name in read}
            found |= {key: identity(found[key]) for key in (FIRST_ROW,) if key in found}
            if is_questions:  # as spreadsheets keep them, see `Samples.cell`
                found |= {key: samples.named_by(found[key]) for key in ENDS[0]}
                found[ANNOTATOR] = lines.of_cell(found.get(ANNOTATOR, "")) or ASKED
            elif self.kind is None:
                found.setdefault(ANNOTATOR, ASKED)
            return line, found

        return rows(), cells_of


def _header(read: Lines, samples: Samples) -> tuple[int, str, list[str]] | None:
    """Line, separator, and names of the columns in small letters, of a first line that is a header.

    It has no number, and names both samples, or any other column. Rows may be called as columns are: i and j
    are a header then, and any other pair of such names alone is refused, as it may be either.

    Raises
    ------
    InputError
        If a first line may be a header or a link.
    """
    best: tuple[int, str, list[str]] | None = None
    most = 0
    for separator in (*SEPARATORS, BLANK):
        row: tuple[list[str], int, int] | None = None
        with suppress(InputError):  # is said when its lines are read
            row = next(rows_of(read.path, read.content, separator), None)
        if row is not None and separator != BLANK and _counts_columns(row[0]):
            found = f"{separator.join(row[0])[:60]!r}, as pandas writes columns without names"
            hint = "write the header i,j in its place, or above it if it is a link"
            raise refused(f"{read.path}, line {row[1]}", found, "names of columns", hint)
        if row is None or any(lines.to_number(cell) is not None for cell in row[0]):
            continue
        words = [cell.lower() for cell in row[0]]
        columns = set(usual_names(words)) & {*CELLS, *NEEDED, FIRST_ROW}
        is_pair, names = {"i", "j"} <= columns, [cell in samples for cell in row[0][:2]]
        is_data = any(names)
        if is_pair and {*row[0][:2]} == {"i", "j"}:
            is_data = False
        elif is_pair:
            # a third cell is a kind, or the name of a column
            is_data = all(names) and len(words) > 2 and words[2] in KINDS
            if all(names) and len(words) == 2:
                found = f"{separator.join(row[0])[:60]!r}, which names two rows, and two columns as well"
                hint = "begin the file with the header i,j, and the links below it"
                raise refused(f"{read.path}, line {row[1]}", found, "a header or a link", hint)
        if not is_data and len(columns) > most:
            best, most = (row[1], separator, words), len(columns)
    return best


def _counts_columns(cells: Sequence[str]) -> bool:
    """Whether a first row counts the columns from 0: links of rows that count from 0 may look the same."""
    numbers = [cell for cell in cells if not UNNAMED.fullmatch(cell.lower())]
    return len(numbers) > 1 and numbers == [str(number) for number in range(len(numbers))]


def _counts_lines(read: Lines) -> bool:
    """Whether the first of three columns counts the lines from 0, and the third may be rows or weights."""
    others = set[str]()
    for number, line in enumerate(read):
        cells = lines.split_cells(line.text.partition("#")[0].strip(), "")
        if len(cells) != len(LINK_CELLS) or cells[0] != str(number) or not WHOLE.fullmatch(cells[2]):
            return False
        others.add(cells[2])
    return len(others) > 1


def usual_names(words: Sequence[str]) -> list[str]:
    """What columns are by their names; empty for one without a name, as it is where it is not known.

    Another name counts only where no column has the usual one.
    """
    ends = next((pair for pair in ENDS if {*pair} <= {*words}), ENDS[0])
    usual = dict(zip(ends, ENDS[0], strict=True))
    usual |= {word: name for word, name in SYNONYMS.items() if name not in words}
    if "answer" in words:  # a file of questions has columns of its own beside those that are read
        usual = dict(zip(ends, ENDS[0], strict=True))
    return [usual.get(word, "" if UNNAMED.fullmatch(word) else word) for word in words]


def header_problems(
    where: str,
    words: Sequence[str],
    columns: Sequence[str],
    needed: Sequence[str],
    read: Sequence[str],
    may_have_others: bool,
) -> Iterator[Problem]:
    """Columns that are not known, come twice, or are not there."""
    meant = set[str]()
    for word, name in zip(words, columns, strict=True):
        if name and name not in read and not may_have_others:
            free = [each for each in read if each not in columns]
            hint = did_you_mean(word, free or read)
            meant |= {each for each in free if repr(each) in hint}
            if not hint and name in (*CELLS, "answer"):
                hint = "an annotation file may have it"
            yield Problem(where, f"column {word!r}", f"one of {', '.join(read)}", hint)
    for name in (each for each in read if columns.count(each) > 1):
        found = [word for word, column in zip(words, columns, strict=True) if column == name]
        said = (
            f"several columns {name!r}" if len({*found}) == 1 else f"columns {' and '.join(map(repr, found))}"
        )
        yield Problem(where, said, "one of each name")
    lacking = [each for each in needed if each not in columns and each not in meant]
    if lacking:
        yield Problem(
            where, f"no column {' and '.join(map(repr, lacking))}", f"a header with {', '.join(needed)}"
        )


def _answered(rows: Iterable[Row]) -> list[Annotation]:
    return [row for row in rows if isinstance(row, Annotation)]


def _by_number(samples: Samples) -> dict[str, Samples]:
    """Samples by what a row says of the number of the first row."""
    return {str(first): samples.counted_from(first) for first in (0, 1)}


def _lines_before(content: bytes) -> int:
    """Comments and blank lines before the first row."""
    found = takewhile(lambda line: not line.strip() or line.strip().startswith(b"#"), io.BytesIO(content))
    return sum(1 for _ in found)


_meant = lru_cache(maxsize=1000)(did_you_mean)


def _row(
    path: Path,
    line: int,
    cells: Mapping[str, str],
    samples: Samples,
    kind: int | None = None,
    unit: str = "line",
) -> Row | None:
    """What the cells of a row say, by name; `kind` is that of all rows, where no cell has it."""
    where, problems, ends = f"{path}, {unit} {line}", list[Problem](), list[int]()
    count, accuracy, word = 1.0, None, ""
    for end in (cells["i"], cells["j"]):
        try:  # `collecting` would take as long as all else
            ends.append(samples.position(end, where))
        except InputError as error:
            problems += error.problems
    # Not a self pair, so that the weight is checked even if the samples are invalid.
    pair = (ends[0], ends[1]) if len(ends) == 2 else (0, 1)
    if (mark := cells.get(FIRST_ROW, "")) not in ("", "0", "1"):
        problems.append(Problem(where, f"{FIRST_ROW} {mark[:60]!r}", "0 or 1"))
    for key in WORDS.keys() & cells.keys():
        known, expected, words = WORDS[key]
        word = lines.of_cell(cells[key]).lower()
        kind = known.get(word)
        if kind is None and not (key == "answer" and word in ("", *SKIPS)):
            hint = _meant(word, words)
            problems.append(Problem(where, f"{key} {cells[key][:60]!r}", expected, hint))
    if (text := cells.get("weight")) is not None:
        weight, is_self = lines.to_number(text), pair[0] == pair[1] != OUTSIDE
        if weight is None or not LEAST_WEIGHT <= weight <= LARGEST_WEIGHT:
            problems.append(Problem(where, f"weight {text}", WEIGHTS))
        elif is_self and weight % 2 == 1:
            found = f"weight {weight:g} for the self pair of sample {samples.text(pair[0])}"
            hint = "a self pair carries weight 2 per annotation"
            problems.append(Problem(where, found, "an even weight", hint))
        else:
            count = weight / SELF_PAIR_WEIGHT if is_self else weight
    if not cells.get(ANNOTATOR, LINKS):
        problems.append(Problem(where, "no annotator", "a name"))
    if cell := cells.get(ACCURACY, ""):
        accuracy = lines.to_number(cell)
        if accuracy is None or not 0 < accuracy <= 1:
            problems.append(Problem(where, f"accuracy {cell[:60]}", "a number above 0, at most 1"))
    if problems:
        raise InputError(problems)
    if kind is None:
        return Skip(*pair) if word else None
    return Annotation(path, line, *pair, kind, count, cells.get(ANNOTATOR, LINKS), accuracy)


# Annotations of one's own as cells draw them: single ones, without replacement, from a file.

Pool = NDArray[np.int32]

HINT = "a cell draws single annotations; a line of weight w stands for w of them, and a self pair for w / 2"


def outside_note(rows: AnnotationRows, choice: TableChoice) -> tuple[str, ...]:
    """Return how many annotations were left out with rows of the table; nothing if none were."""
    total, said = len(rows) + rows.n_outside, choice.said("links_outside", "drop")
    text = f"{rows.n_outside:,} of {total:,} annotations, which are of rows that are left out ({said})"
    return (text,) if rows.n_outside else ()


def read_pool(file: PairFile, samples: Samples | int) -> tuple[Pool, tuple[str, ...]]:
    """Read an annotation file as the single annotations that cells of a sweep draw from.

    A line stands for as many annotations as its weight says. Those of all annotators are taken together, and
    what a line says of its own accuracy is not used: every model and method of a cell is told the same `p`.

    Parameters
    ----------
    file : PairFile
        The file, see `read_annotations`.
    samples : Samples or int
        What the first two cells refer to; or how many samples there are, counted from 1.

    Returns
    -------
    pool : ndarray of shape (n_annotations, 3), int32
        Columns i, j and kind, samples from 0, in the order of the lines.
    notes : tuple of str
        What to know of it.

    Raises
    ------
    InputError
        With every problem of every line; a part of an annotation is one, and so are more than
        `MOST_ANNOTATIONS`.
    """
    problems: list[Problem] = []
    path, of_table = file.path, Samples.of(samples)
    found = file.table(of_table).answered
    counts = found.columns["count"].astype(np.int64)
    for place in np.flatnonzero(counts != found.columns["count"]):
        each = found.annotation(int(place))
        where, expected = f"{path}, {file.unit} {each.line}", "a whole number of annotations"
        problems.append(Problem(where, f"weight {each.weight:g}", expected, HINT))
    total = int(counts.sum())
    if total > MOST_ANNOTATIONS:
        problems.append(Problem(str(path), f"{total:,} annotations", f"at most {MOST_ANNOTATIONS:,}", HINT))
    if problems:
        raise InputError(lines.shortened(path, problems))
    rows = np.column_stack([found.columns[name] for name in ("first", "second", "kind")]).astype(np.int32)
    return np.repeat(rows, counts, axis=0), outside_note(found, of_table.choice)


def pool_checksum(pool: Pool) -> str:
    """Sha256 over the annotations in their order, little-endian: comments and names do not change it."""
    return hashlib.sha256(np.ascontiguousarray(pool, dtype="<i4").tobytes()).hexdigest()
