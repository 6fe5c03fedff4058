"""Annotations in files: links, annotations of several annotators, answers to questions.

`PairFile` and `read_answers` read them, `read_pool` those that cells draw from. The rows of any file become
cells by name, and one function judges each kind of row. How a `PairFile` names samples is known before its
rows are read: by that `sweeps.annotations.numbering` says whether the files of a command count rows from 0 or
from 1.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.settings import LARGEST_WEIGHT, LEAST_WEIGHT, WEIGHTS
from sweep_clustering.sweeps.annotations.draw import CANNOT, MOST_ANNOTATIONS, MUST
from sweep_clustering.sweeps.annotations.rows import (
    COUNTS,
    DROPPED_ROW,
    ENDS,
    FIRST_ROW,
    LINKS,
    MOST_COMPARED,
    NO_ANNOTATOR,
    SELF_PAIR_WEIGHT,
    WHOLE_NUMBER,
    Annotation,
    AnnotationRows,
    Row,
    Samples,
    Skip,
    marks_of,
    read_rows,
)
from sweep_clustering.sweeps.data import lines
from sweep_clustering.sweeps.data.columns import NO_CELL, Columns, RowFile, parse_plain, read_content
from sweep_clustering.sweeps.data.reading import BLANK, rows_of
from sweep_clustering.sweeps.data.table import Coding, TableChoice, identity
from sweep_clustering.sweeps.errors import (
    InputError,
    Problem,
    collecting,
    did_you_mean,
    plural,
    raise_all,
    refused,
)

ANNOTATOR = "annotator"
ACCURACY = "accuracy"

LINK_CELLS = ("i", "j", "weight")
CELLS = ("i", "j", "kind", "weight", ANNOTATOR, ACCURACY)

# Columns that the header of a file of questions has; annotator, accuracy and first_row are read as well.
QUESTION_COLUMNS = ("i", "j", "answer")

# Headers of files of questions as `sweep ask` wrote them before they had the column first_row.
SETTLES = "settles"
UNMARKED = ["i", "j", ANNOTATOR, "answer"]

# Separators of the columns of a file of questions.
SEPARATORS = (",", ";", "\t")

ANSWERS = {
    **dict.fromkeys(("yes", "ye", "y", "must", "m", "+", "1", "1.0", "true"), MUST),
    **dict.fromkeys(("no", "n", "cannot", "c", "-", "0", "0.0", "false"), CANNOT),
}
# Words for no answer; those of a last line may break off.
UNSURES = ("unsure", "?", "na", "n/a", "nan", "skip")
SKIPS = (*UNSURES, *(word[:end] for word in ("unsure", "skip") for end in range(1, len(word))))

# Kinds are answers, and words of other programs.
KINDS = ANSWERS | {
    **dict.fromkeys(("must-link", "must_link", "mustlink", "ml", "same", "together", "+1"), MUST),
    **dict.fromkeys(("cannot-link", "cannot_link", "cannotlink", "cl", "different", "apart", "-1"), CANNOT),
}

# End of the kind of a link that every partition must obey, as a weight of inf makes it, too.
HARD = "!"

# Cells that say the kind of an annotation: known words, what messages expect, and words that may be misspelt.
WORDS = {
    "kind": (
        KINDS,
        "must or cannot (m or c, yes or no, same or different, 1 or 0, + or -), or unsure",
        ("must", "cannot", "must-link", "cannot-link", "yes", "no", "same", "different", "unsure"),
    ),
    "answer": (
        ANSWERS,
        "yes or no (must or cannot, y or n, 1 or 0, + or -), skip, or nothing",
        ("yes", "no", "must", "cannot", "skip"),
    ),
}

# Other names of columns: of the two samples in pairs, so that no name of one stands beside one of another.
OTHER_ENDS = (
    ENDS,
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

# Column of what stands in place of the cells of a line that has too few of them, or too many.
MALFORMED = "malformed"

# Different ones that are kept: a message shows fewer.
MOST_MALFORMED = 10


# Names of columns.
Names = Sequence[str]


def read_answers(path: Path, samples: Samples | int) -> list[Row]:
    """Read a file one row after the other, see `PairFile.table`."""
    return list(PairFile.of(path).table(Samples.of(samples)))


def separator_of(header: str) -> str | None:
    """Find the separator of columns in the header of a file of questions; None if it is no such header."""
    return next((mark for mark in SEPARATORS if {*QUESTION_COLUMNS} <= {*_names(header, mark)}), None)


def columns_of(header: str) -> list[str]:
    """Return the names of the columns in the header of a file of questions, in small letters."""
    return _names(header, separator_of(header) or ",")


def _names(header: str, separator: str) -> list[str]:
    return [cell.lower() for cell in lines.split_cells(header, separator)]


class Mentions(NamedTuple):
    """Samples as a file names them, before it is known which there are.

    Parameters
    ----------
    row_0 : int
        First line that names row 0, and does not say from where it counts; 0 if there is none.
    marks : frozenset of int
        Numbers of the first row that its rows tell.
    is_asked : bool
        Whether `sweep ask` wrote it before its files had such marks: it counted from 1.
    has_numbers : bool
        Whether any sample is called by a number.
    largest, largest_line : int
        The largest number of a row that does not say from where it counts, and the first line that names it;
        0 if there is none.
    texts : frozenset of str
        Some names that are no numbers.
    """

    row_0: int = 0
    marks: frozenset[int] = frozenset()
    is_asked: bool = False
    has_numbers: bool = False
    largest: int = 0
    largest_line: int = 0
    texts: frozenset[str] = frozenset()

    @classmethod
    def from_cells(cls, cells: Iterable[tuple[int, str, int]]) -> Mentions:
        """Return what cells mention, by line and text of each, and 1 or 2 if it says how it counts."""
        row_0, marks, texts, has_numbers = 0, set[int](), set[str](), False
        largest = largest_line = 0
        for line, cell, mark in sorted(cells, key=lambda item: item[0]):
            number = int(text) if WHOLE_NUMBER.fullmatch(text := identity(cell)) else None
            has_numbers |= number is not None
            if mark:
                marks |= {mark - 1} if number is not None else set()
            elif number == 0:
                row_0 = row_0 or line
            elif number is not None and number > largest:
                largest, largest_line = number, line
            if len(texts) < MOST_COMPARED and lines.to_number(cell) is None:
                texts.add(cell)
        return cls(row_0, frozenset(marks), False, has_numbers, largest, largest_line, frozenset(texts))


class Header(NamedTuple):
    """First line with names of columns: its number, its separator, and the names in small letters."""

    line: int
    separator: str
    words: tuple[str, ...]


class _Cells(NamedTuple):
    """Cells of a file.

    Parameters
    ----------
    columns : Columns
        Columns by their usual names, those that are read alone.
    is_questions : bool
        Whether it is a file of questions.
    expected : str
        Cells that are expected in place of a malformed line.
    problems : tuple of Problem
        Problems that ended reading before the file.
    """

    columns: Columns
    is_questions: bool = False
    expected: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class PairFile(RowFile):
    """A link file, an annotation file or a file of questions.

    Parameters
    ----------
    kind : int or None
        Kind of all rows, `sweeps.annotations.draw.MUST` or `CANNOT`; None if each row has its own.
    """

    kind: int | None = None
    _parsed: dict[Header | None, _Cells] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, path: Path, kind: int | None = None) -> PairFile:
        """Read a file of columns (.parquet, .pq, .feather, .arrow, .npz), or a text under any other name.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        return cls(read_content(path), kind)

    def table(self, samples: Samples) -> AnnotationRows:
        """Return the rows in the order of the lines.

        A line of a link file holds two numbers of samples, or names of samples, and a weight, separated by
        blanks, commas, semicolons or tabs. Without a weight the line is one annotation. A self pair carries
        weight 2 per annotation. `#` begins a comment. In an annotation file the kind (a word of `KINDS`, in
        any case, or of `UNSURES`, or nothing) stands before the weight. Then come the name of the annotator
        and, if the line has a sixth cell that is not empty, the probability that the annotation is right.
        Lines of the same pair, in either order, add up or contradict each other. An empty file is an empty
        annotation graph.

        A first line that names the columns is a header: columns then come in any order, and `#` begins a
        comment if blanks separate, and at the begin of a line. A file whose header has the columns `i`, `j`
        and `answer` is one of questions. A row without an answer says nothing. Answers are words of
        `ANSWERS`, skipped pairs words of `SKIPS`, in any case; without a name the annotator is
        `NO_ANNOTATOR`. A last line without a line end may break off: what is missing of it was never
        answered. In a column `first_row`, each row says by 0 or 1 how it counts samples.

        Raises
        ------
        InputError
            With every problem of every line, equal ones as one. Its `rest` is the rows that are right.
        """
        return self._judge(self._cells(samples), samples)

    def random_rows(self, samples: Samples, limit: int) -> AnnotationRows:
        """Return at most so many of the rows, the same at every call.

        Raises
        ------
        InputError
            As `table`.
        """
        cells = self._cells(samples)
        if (n_rows := len(cells.columns)) > limit:
            places = np.sort(np.random.default_rng(n_rows).choice(n_rows, limit, replace=False))
            cells = cells._replace(columns=cells.columns.select(places))
        return self._judge(cells, samples)

    def _judge(self, cells: _Cells, samples: Samples) -> AnnotationRows:
        by_number = {mark: samples.counted_from(int(mark)) for mark in COUNTS}

        def find(cell: str, mark: str) -> int | None:
            return by_number.get(mark, samples).find(cell)

        def read(line: int, row: Mapping[str, str]) -> Row | None:
            if MALFORMED in row:
                raise refused(f"{self.path}, {self.unit} {line}", row[MALFORMED], cells.expected)
            samples_of_row = by_number.get(row.get(FIRST_ROW, ""), samples)
            return self._row(line, row, samples_of_row, cells.is_questions)

        rows, problems = None, list[Problem]()
        try:
            rows = read_rows(cells.columns, find, read)
        except InputError as error:
            rows, problems = error.rest, [*error.problems]
        if problems or cells.problems:
            raise InputError(lines.shortened(self.path, [*problems, *cells.problems]), rows)
        return rows

    def _row(self, line: int, cells: Mapping[str, str], samples: Samples, is_question: bool) -> Row | None:
        """Judge the cells of a row by name."""
        location, problems, ends = f"{self.path}, {self.unit} {line}", list[Problem](), list[int]()
        kind, count, accuracy, word, is_hard = self.kind, 1.0, None, "", False
        for end in (cells["i"], cells["j"]):
            try:  # `collecting` would take as long as all else
                ends.append(samples.position(end, location))
            except InputError as error:
                problems += error.problems
        # Not a self pair, so that the weight is checked even if the samples are invalid.
        pair = (ends[0], ends[1]) if len(ends) == 2 else (0, 1)
        if (mark := cells.get(FIRST_ROW, "")) not in ("", "0", "1"):
            problems.append(Problem(location, f"{FIRST_ROW} {mark[:60]!r}", "0 or 1"))
        for key in WORDS.keys() & cells.keys():
            kinds, expected, words = WORDS[key]
            word = lines.of_cell(cells[key]).lower()
            kind, is_hard = kinds.get(word.removesuffix(HARD)), word.endswith(HARD)
            if kind is None and word not in ("", *(SKIPS if key == "answer" else UNSURES)):
                hint = suggestion(word, words)
                problems.append(Problem(location, f"{key} {cells[key][:60]!r}", expected, hint))
        if (text := cells.get("weight")) is not None and (text or not is_hard):
            weight, is_self = lines.to_number(text), pair[0] == pair[1] != DROPPED_ROW
            if weight == math.inf:
                is_hard = True
            elif weight is None or not LEAST_WEIGHT <= weight <= LARGEST_WEIGHT:
                problems.append(Problem(location, f"weight {text}" if text else "no weight", WEIGHTS))
            elif is_self and not is_hard and weight % 2 == 1:
                fault = f"weight {weight:g} for the self pair of sample {samples.text(pair[0])}"
                hint = "a self pair carries weight 2 per annotation"
                problems.append(Problem(location, fault, "an even weight", hint))
            else:
                count = weight / SELF_PAIR_WEIGHT if is_self else weight
        if not cells.get(ANNOTATOR, LINKS):
            problems.append(Problem(location, "no annotator", "a name"))
        if cell := cells.get(ACCURACY, ""):
            accuracy = lines.to_number(cell)
            if accuracy is None or not 0 < accuracy <= 1:
                problems.append(Problem(location, f"accuracy {cell[:60]}", "a number above 0, at most 1"))
        if problems:
            raise InputError(problems)
        if kind is None:  # an empty answer is a question that nobody was asked yet
            annotator = cells.get(ANNOTATOR, LINKS)
            return None if is_question and not word else Skip(*pair, annotator, count)
        return Annotation(self.path, line, *pair, kind, count, cells.get(ANNOTATOR, LINKS), accuracy, is_hard)

    def _cells(self, samples: Samples) -> _Cells:
        """Return the cells of the rows, those of questions as they were before a spreadsheet kept them.

        Raises
        ------
        InputError
            If columns are unknown or missing, or the first line may be a header or links.
        """
        if isinstance(self.content, Columns):
            names, is_questions = self._names([name.strip().lower() for name in self.content.codings], "")
            new_names = {old: name for old, name in zip(self.content.codings, names, strict=True) if name}
            cells, has_header = _Cells(self.content.renamed(new_names), is_questions), True
        else:
            header = _header(self.content, samples)
            has_header = header is not None
            if not has_header and self.kind is not None and _counts_lines(self.content):
                fault = "a first column that counts the lines from 0"
                expected = "a header that says what it is"
                hint = (
                    "begin the file with the header i,j,weight, or with ,i,j if the first column is an index"
                )
                raise refused(self.path, fault, expected, hint)
            if header not in self._parsed:
                self._parsed[header] = self._parse(self.content, header)
            cells = self._parsed[header]
        columns = cells.columns
        if FIRST_ROW in columns.codings:
            columns = columns.with_texts(FIRST_ROW, identity)
        if cells.is_questions:  # see `Samples.cell`
            for end in ENDS:
                columns = columns.with_texts(end, samples.named_by)
            if ANNOTATOR in columns.codings:
                columns = columns.with_texts(ANNOTATOR, lambda cell: lines.of_cell(cell) or NO_ANNOTATOR)
        if has_header and self.kind is None and ANNOTATOR not in columns.codings:
            columns = columns.with_column(ANNOTATOR, NO_ANNOTATOR)
        return cells._replace(columns=columns)

    def _names(self, words: Sequence[str], line: str) -> tuple[list[str], bool]:
        """Return the usual names of columns, empty where unread, and whether it is a file of questions.

        Raises
        ------
        InputError
            With columns that are not known, come twice, or are missing.
        """
        is_questions = self.kind is None and "answer" in words
        demands: Names = CELLS[:3] if self.kind is None else LINK_CELLS[:2]
        options: Names = CELLS if self.kind is None else LINK_CELLS
        if is_questions:
            demands, options = QUESTION_COLUMNS, (*QUESTION_COLUMNS, ANNOTATOR, ACCURACY)
        options, names = (*options, FIRST_ROW), usual_names(words)
        raise_all(header_problems(f"{self.path}{line}", words, names, demands, options, is_questions))
        return [name if name in options else "" for name in names], is_questions

    def _parse(self, text: lines.Lines, header: Header | None) -> _Cells:
        """Split the lines of a text into columns: at once if they are all alike, else one by one."""
        content, last_line = text.content, 0
        names: Sequence[str] = CELLS if self.kind is None else LINK_CELLS
        if header is None:
            is_questions, min_cells, skip = False, 3 if self.kind is None else 2, _lines_before(content)
            separator = next((mark for mark in (",", "\t", " ", ";") if mark.encode() in content), "")
            optional_cells = "".join(f" [{name}]" for name in names[min_cells:])
            expected = f"{' '.join(names[:min_cells])}{optional_cells}"
        else:
            names, is_questions = self._names(header.words, f", line {header.line}")
            separator, min_cells, skip = header.separator, len(names), header.line
            expected = f"{len(names)} as in the header"
            if is_questions and not content.endswith(b"\n"):  # its last line may break off
                last_line = content.count(b"\n") + 1
        has_columns = bool(separator) and not last_line
        if has_columns and (columns := parse_plain(text, separator, names, min_cells, skip, ENDS)):
            return _Cells(columns, is_questions)
        rows = split_rows(text, header, last_line) if header else split_lines(text, min_cells, len(names))
        columns_read = [*filter(None, names), MALFORMED]
        numbers, codes = array("i"), {name: array("i") for name in columns_read}
        texts: dict[str, dict[str, int]] = {name: {} for name in columns_read}
        malformed, problems = "", list[Problem]()
        with collecting(problems):
            for line, cells in rows:
                if isinstance(cells, str):
                    malformed = cells if len(texts[MALFORMED]) <= MOST_MALFORMED else malformed
                    row = {MALFORMED: malformed}
                else:
                    row = dict(zip(names, cells, strict=False))
                numbers.append(line)
                for name in columns_read:
                    codes[name].append(texts[name].setdefault(row.get(name, NO_CELL), len(texts[name])))
        keys = (name for name in columns_read if name in ENDS or {*texts[name]} - {NO_CELL})
        codings = {name: Coding(np.array(codes[name], dtype=np.int32), [*texts[name]]) for name in keys}
        columns = Columns(text.path, np.array(numbers, dtype=np.int32), codings)
        return _Cells(columns, is_questions, expected, tuple(problems))

    @cached_property
    def mentions(self) -> Mentions:
        """Samples as the file names them, as far as its rows can be read."""
        cells: list[tuple[int, str, int]] = []
        with suppress(InputError):  # problems come when rows are read
            columns = self._cells(Samples.of(0)).columns
            if MALFORMED in columns.codings:
                codes, words = columns.codings[MALFORMED]
                columns = columns.select(np.array([word == NO_CELL for word in words], dtype=np.bool_)[codes])
            mark_of = marks_of(columns)
            for end in ENDS:
                codes, words = columns.codings[end]
                cells += (
                    (int(columns.lines[place]), words[codes[place]], int(mark_of[place]))
                    for place in columns.first_places(end, mark_of)
                )
        first = self.content.first if isinstance(self.content, lines.Lines) else None
        names = columns_of(first.text) if first and separator_of(first.text) else []
        is_asked = FIRST_ROW not in names and (SETTLES in names or names == UNMARKED)
        return Mentions.from_cells(cells)._replace(is_asked=is_asked)


def split_lines(text: lines.Lines, min_cells: int, max_cells: int) -> Iterator[tuple[int, list[str] | str]]:
    """Split each line of a text without a header; a line with too few cells, or too many, stays a text."""
    for line in text:
        content = line.text.partition("#")[0].strip()
        # a text may hold a semicolon
        for separator in ("", ";"):
            cells = lines.split_cells(content, separator)
            if min_cells <= len(cells) <= max_cells:
                yield line.number, cells
                break
        else:
            yield line.number, repr(content[:60])


def split_rows(text: lines.Lines, header: Header, last_line: int) -> Iterator[tuple[int, list[str] | str]]:
    """Split each row below a header; one with too few cells, or too many, gives their number in words.

    Cells that the last line lacks are no problem if it may break off: what broke off was never answered.
    """
    rows = rows_of(text.path, text.content, header.separator)
    next(rows)
    try:
        for cells, line, _ in rows:
            if header.separator == BLANK:
                cells = [*takewhile(lambda cell: cell[:1] != "#", cells)]
            if not any(cells):  # as spreadsheets leave them
                continue
            if len(cells) == len(header.words):
                yield line, cells
            elif line != last_line or len(cells) > len(header.words):
                yield line, plural(len(cells), "cell")
    except InputError as error:
        # a quote that is not closed by the last line
        if error.problems[0].where != f"{text.path}, line {last_line}":
            raise


def _header(text: lines.Lines, samples: Samples) -> Header | None:
    """Return the first line of a text if it is a header.

    A header has no number, and names both samples, or any other column. Rows may be called as columns are: i
    and j are a header then, and any other pair of such names alone is refused, because it may be either.

    Raises
    ------
    InputError
        If a first line may be a header or a link.
    """
    best: Header | None = None
    best_count = 0
    for separator in (*SEPARATORS, BLANK):
        row: tuple[list[str], int, int] | None = None
        with suppress(InputError):  # the problem comes when its lines are read
            row = next(rows_of(text.path, text.content, separator), None)
        if row is None:
            continue
        cells, line, _ = row
        location, content = f"{text.path}, line {line}", repr(separator.join(cells)[:60])
        if separator != BLANK and _counts_columns(cells):
            hint = "write the header i,j in its place, or above it if it is a link"
            raise refused(
                location, f"{content}, as pandas writes columns without names", "names of columns", hint
            )
        if any(lines.to_number(cell) is not None for cell in cells):
            continue
        words = tuple(cell.lower() for cell in cells)
        columns = {*usual_names(words)} & {*CELLS, *QUESTION_COLUMNS, FIRST_ROW}
        are_rows = [cell in samples for cell in cells[:2]]
        is_data = any(are_rows)
        if {*ENDS} <= columns:
            if all(are_rows) and len(words) == 2 and {*cells} != {*ENDS}:
                hint = "begin the file with the header i,j, and the links below it"
                fault = f"{content}, which names two rows, and two columns as well"
                raise refused(location, fault, "a header or a link", hint)
            # a third cell is a kind, or the name of a column
            has_kind = len(words) > 2 and words[2].removesuffix(HARD) in {*KINDS, *UNSURES}
            is_data = all(are_rows) and has_kind and {*cells[:2]} != {*ENDS}
        if not is_data and len(columns) > best_count:
            best, best_count = Header(line, separator, words), len(columns)
    return best


def _counts_columns(cells: Sequence[str]) -> bool:
    """Say whether a first row counts the columns from 0, as links of rows that count from 0 may do."""
    numbers = [cell for cell in cells if not UNNAMED.fullmatch(cell.lower())]
    return len(numbers) > 1 and numbers == [str(number) for number in range(len(numbers))]


def _counts_lines(text: lines.Lines) -> bool:
    """Say whether the first of three columns counts lines from 0, and the third may be rows or weights."""
    thirds = set[str]()
    for number, line in enumerate(text):
        cells = lines.split_cells(line.text.partition("#")[0].strip(), "")
        if len(cells) != len(LINK_CELLS) or cells[0] != str(number) or not WHOLE_NUMBER.fullmatch(cells[2]):
            return False
        thirds.add(cells[2])
    return len(thirds) > 1


def usual_names(words: Sequence[str]) -> list[str]:
    """Return the usual names of columns; an unnamed one stays empty, and an unknown name stays as it is.

    Another name counts only where no column has the usual one.
    """
    ends = next((pair for pair in OTHER_ENDS if {*pair} <= {*words}), ENDS)
    name_of_word = dict(zip(ends, ENDS, strict=True))
    if "answer" not in words:  # a file of questions has columns of its own beside those that are read
        name_of_word |= {word: name for word, name in SYNONYMS.items() if name not in words}
    return [name_of_word.get(word, "" if UNNAMED.fullmatch(word) else word) for word in words]


def header_problems(
    location: str, words: Names, columns: Names, demands: Names, options: Names, may_have_others: bool
) -> Iterator[Problem]:
    """Find the columns that are not known, come twice, or are lacking."""
    suggestions = set[str]()
    for word, name in zip(words, columns, strict=True):
        if name and name not in options and not may_have_others:
            free = [column for column in options if column not in columns]
            hint = did_you_mean(word, free or options)
            suggestions |= {column for column in free if repr(column) in hint}
            if not hint and name in (*CELLS, "answer"):
                hint = "an annotation file may have it"
            yield Problem(location, f"column {word!r}", f"one of {', '.join(options)}", hint)
    for name in (column for column in options if columns.count(column) > 1):
        words_of_name = [word for word, column in zip(words, columns, strict=True) if column == name]
        is_one = len({*words_of_name}) == 1
        fault = f"several columns {name!r}" if is_one else f"columns {' and '.join(map(repr, words_of_name))}"
        yield Problem(location, fault, "one of each name")
    if missing_names := [name for name in demands if name not in {*columns, *suggestions}]:
        fault = f"no column {' and '.join(map(repr, missing_names))}"
        yield Problem(location, fault, f"a header with {', '.join(demands)}")


def _lines_before(content: bytes) -> int:
    """Count the comments and blank lines before the first row."""
    comments = takewhile(lambda line: not line.strip() or line.strip().startswith(b"#"), io.BytesIO(content))
    return sum(1 for _ in comments)


suggestion = lru_cache(maxsize=1000)(did_you_mean)


# Annotations of a file as cells draw them: single ones, without replacement.

Pool = NDArray[np.int32]

HINT = "a cell draws single annotations; a line of weight w stands for w of them, and a self pair for w / 2"


def outside_note(rows: AnnotationRows, choice: TableChoice) -> tuple[str, ...]:
    """Say how many annotations were left out with rows of the table; nothing if none were."""
    total, reason = len(rows) + rows.n_outside, choice.phrase("links_outside", "drop")
    text = f"{rows.n_outside:,} of {total:,} annotations, which are of rows that are left out ({reason})"
    return (text,) if rows.n_outside else ()


def read_pool(file: PairFile, samples: Samples | int) -> tuple[Pool, tuple[str, ...]]:
    """Read an annotation file as the single annotations that cells of a sweep draw from.

    A line stands for as many annotations as its weight says. Those of all annotators are taken together, and
    the accuracy of a line is not used: every model and method of a cell gets the same `p`.

    Parameters
    ----------
    file : PairFile
        The file.
    samples : Samples or int
        Samples that the first two cells name, or their number if they are counted from 1.

    Returns
    -------
    pool : ndarray of shape (n_annotations, 3), int32
        Columns i, j and kind, samples from 0, in the order of the lines.
    notes : tuple of str
        Sentences about annotations that were left out.

    Raises
    ------
    InputError
        With every problem of every line; a part of an annotation is one, and so are more than
        `MOST_ANNOTATIONS`.
    """
    problems: list[Problem] = []
    path, table_samples = file.path, Samples.of(samples)
    rows = file.table(table_samples).answers
    for index in np.flatnonzero(rows.columns["is_hard"]):
        place, expected = f"{path}, {file.unit} {rows.columns['line'][index]}", "links that may be wrong"
        problems.append(Problem(place, "a hard link", expected, "a cell draws links, and takes them as such"))
    counts = rows.columns["count"].astype(np.int64)
    for index in np.flatnonzero(counts != rows.columns["count"]):
        annotation = rows.annotation(int(index))
        place, expected = f"{path}, {file.unit} {annotation.line}", "a whole number of annotations"
        problems.append(Problem(place, f"weight {annotation.weight:g}", expected, HINT))
    total = int(counts.sum())
    if total > MOST_ANNOTATIONS:
        problems.append(Problem(str(path), f"{total:,} annotations", f"at most {MOST_ANNOTATIONS:,}", HINT))
    if problems:
        raise InputError(lines.shortened(path, problems))
    pairs = np.column_stack([rows.columns[name] for name in ("first", "second", "kind")]).astype(np.int32)
    return np.repeat(pairs, counts, axis=0), outside_note(rows, table_samples.choice)


def pool_checksum(pool: Pool) -> str:
    """Return the sha256 of the annotations, little-endian: comments and names do not change it."""
    return hashlib.sha256(np.ascontiguousarray(pool, dtype="<i4").tobytes()).hexdigest()
