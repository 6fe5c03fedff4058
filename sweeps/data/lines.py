"""Lines, cells and numbers of a user's text files."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.errors import Problem, collecting, did_you_mean, plural, raise_all, refused
from sweep_clustering.sweeps.files import opened
from sweep_clustering.sweeps.records import Record, read

R = TypeVar("R", bound=Record)

PROBLEMS_SHOWN = 20

# Problems of one kind that are made one by one; the last stands for those beyond.
MOST_SINGLE = 1000

# Bytes of a file of labels, links or annotations.
MOST_BYTES = 2**28

# Lines of any text file: each takes some 16 bytes beside its text.
MOST_LINES = 10**7

# Bytes of a line of such a file.
LONGEST_LINE = 2**23

BOM = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"


class Line(NamedTuple):
    """A line with content: its file, its number from 1, and its text, stripped."""

    path: Path
    number: int
    text: str

    @property
    def location(self) -> str:
        """File and line number for messages."""
        return f"{self.path}, line {self.number}"


@dataclass(frozen=True)
class Lines:
    """The lines with content of a text, made when they are asked for: a large file has millions.

    Parameters
    ----------
    path : Path
        File that the text comes from.
    content : bytes
        The text in valid UTF-8. A line ends at a line feed and nowhere else: what `str.splitlines` does would
        also break at characters that editors do not count as line ends.
    """

    path: Path
    content: bytes

    def __iter__(self) -> Iterator[Line]:
        for number, content in enumerate(io.BytesIO(self.content), start=1):
            line = Line(self.path, number, content.decode().strip())
            if len(content) > LONGEST_LINE:
                raise refused(line.location, f"{len(content):,} bytes", f"at most {LONGEST_LINE:,} in a line")
            if line.text and not line.text.startswith("#"):
                yield line

    @property
    def first(self) -> Line | None:
        """First line, if there is one."""
        return next(iter(self), None)


def read_lines(path: Path) -> Lines:
    """Read the lines of a UTF-8 file, packed by gzip or not, without blank lines and comments."""
    return Lines(path, read_text(path, MOST_BYTES))


def read_text(path: Path, limit: int) -> bytes:
    """Content of a UTF-8 file, packed by gzip or not, with line feeds at line ends and no byte order mark.

    Parameters
    ----------
    path : Path
        The file.
    limit : int
        Largest size in bytes, packed and unpacked.

    Raises
    ------
    InputError
        If the file cannot be read, is too large or no text, or has more than `MOST_LINES`.
    """
    with opened(path, limit, pipe=True) as file:
        is_packed = file.peek(len(GZIP)).startswith(GZIP)
        try:
            content = (gzip.GzipFile(fileobj=file) if is_packed else file).read(limit + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise refused(path, f"a broken file ({error})", "a file of gzip") from error
    if len(content) > limit:
        fault = f"more than {limit:,} bytes{' once unpacked' if is_packed else ''}"
        raise refused(path, fault, f"at most {limit:,}")
    return plain_text(path, content)


def plain_text(path: Path, content: bytes) -> bytes:
    """Return the content of a UTF-8 file with line feeds at line ends and no byte order mark.

    An `InputError` says that it is no text, or has more than `MOST_LINES`.
    """
    content = content.removeprefix(BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line, fault = content.count(b"\n", 0, error.start) + 1, f"byte {content[error.start]:#04x}"
        hint = "save it again as UTF-8; spreadsheets call that CSV UTF-8"
        raise refused(f"{path}, line {line}", fault, "a text file in UTF-8", hint) from error
    if b"\0" in content:
        raise refused(path, "NUL characters", "a text file")
    if content.count(b"\n") >= MOST_LINES:
        raise refused(path, f"more than {MOST_LINES:,} lines", f"at most {MOST_LINES:,}")
    return content


def split_cells(text: str, separator: str = "") -> list[str]:
    """Split a line, where quotes group, by a separator; by default commas, else tabs, else blanks."""
    separator = separator or ("," if "," in text else "\t" if "\t" in text else " ")
    if '"' not in text:
        return [cell.strip() for cell in text.split(None if separator == " " else separator)]
    try:
        cells = next(csv.reader([text], delimiter=separator, skipinitialspace=True))
    except csv.Error:  # a cell beyond the reader's limit
        return [text]
    return [cell.strip() for cell in cells]


# Begin of a text that a spreadsheet takes as a formula, and of one that was marked as none.
FORMULA = re.compile(r"'*[=+\-@\t\r]")

# Characters that a terminal or a spreadsheet may obey.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def as_cell(text: str) -> str:
    """Write a text as a cell of a spreadsheet: one that would be a formula begins with a quote."""
    text = CONTROL.sub(" ", text)
    return f"'{text}" if FORMULA.match(text) and to_number(text) is None else text


def of_cell(cell: str) -> str:
    """Return the text of a cell that `as_cell` made."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def to_number(cell: str) -> float | None:
    """Return the number that a cell spells, NaN and infinities included; None for 1_000."""
    if "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


@dataclass(frozen=True)
class TypedLine(Generic[R]):
    """A line of a table: its location for messages, its record, and its cells by column."""

    location: str
    record: R
    cells: Mapping[str, str]


def read_typed(
    path: Path,
    lines: Iterable[Line],
    record: type[R],
    key: Callable[[R], Hashable],
    noun: str,
    separator: str = "",
) -> list[TypedLine[R]]:
    """Read the lines of a table with a column for each field of a record, in any order, and perhaps others.

    A cell of a field that is a number is read as one, and an empty cell of a field with a default has the
    default. `key` returns what two lines may not have in common, and `noun` says what a line stands for.

    Raises
    ------
    InputError
        With every line that is wrong.
    """
    content = list(lines)
    if not content:
        raise refused(path, "nothing", f"a line of columns: {','.join(record.model_fields)}")
    names, place = split_cells(content[0].text, separator), content[0].location
    counts = {name: names.count(name) for name in record.model_fields}
    problems = [
        Problem(place, f"{plural(n, 'column')} {name!r}", f"one column {name!r}", did_you_mean(name, names))
        for name, n in counts.items()
        if n != 1
    ]
    if len(content) == 1:
        problems.append(Problem(str(path), f"no {noun}s", f"a line for each {noun}"))
    typed: dict[Hashable, TypedLine[R]] = {}
    for line in content[1:] if not problems else ():
        with collecting(problems):
            texts = split_cells(line.text, separator)
            if len(texts) != len(names):
                raise refused(line.location, plural(len(texts), "cell"), f"{len(names)}, one for each column")
            cells = dict(zip(names, texts, strict=True))
            values = {
                name: _number_of(cells[name]) if _is_number(field.annotation) else cells[name]
                for name, field in record.model_fields.items()
                if cells[name] or field.is_required()
            }
            row = TypedLine(line.location, read(record, values, f"{line.location},"), cells)
            if (former := typed.setdefault(key(row.record), row)) is not row:
                raise refused(line.location, f"the {noun} of {former.location} again", f"each {noun} once")
    raise_all(shortened(path, problems))
    return list(typed.values())


def _is_number(kind: object) -> bool:
    return kind in (int, float) or any(map(_is_number, get_args(kind)))


def _number_of(cell: str) -> float | str:
    """Return a cell as a number, whole if it can be, or as its text."""
    number = to_number(cell)
    return cell if number is None else int(number) if number.is_integer() else number


def problems_at(places: Sequence[int] | NDArray[np.intp], problem: Callable[[int], Problem]) -> list[Problem]:
    """Make a problem for each of the first places, and one that stands for those beyond."""
    first = [problem(int(place)) for place in places[:MOST_SINGLE]]
    n_further = len(places) - len(first)
    return [*first, replace(first[-1], count=n_further)] if n_further else first


# Line or row of a problem, before its column.
PLACE = re.compile(r"(?s)(.*), (line|row) (\d+)(.*)")

# Lines with the same complaint that are named one by one; of more the first ones stand for all.
LINES_NAMED = 3


def shortened(path: Path, problems: Iterable[Problem]) -> list[Problem]:
    """Join equal problems of a file; return the first ones, and one that counts those beyond.

    Problems come in the order of the lines. Those that differ in their line alone are one.
    """
    problems_by_kind: dict[tuple[str, ...], list[Placed]] = {}
    for order, problem in enumerate(problems):
        place = PLACE.fullmatch(problem.where)
        # what is found differs from line to line; without a line it tells problems apart
        key = (place[1], place[2], place[4], "") if place else (problem.where, "", "", problem.value)
        problems_by_kind.setdefault((*key, problem.expected, problem.hint), []).append(Placed(order, problem))
    kinds = [*problems_by_kind.values()]
    rows = sorted(chain.from_iterable(map(_join_equal, kinds[:PROBLEMS_SHOWN])), key=lambda row: row.order)
    n_hidden = sum(row.problem.count for row in chain(rows[PROBLEMS_SHOWN:], *kinds[PROBLEMS_SHOWN:]))
    remainder = [Problem(str(path), plural(n_hidden, "more problem"), "", count=n_hidden)] if n_hidden else []
    return [row.problem for row in rows[:PROBLEMS_SHOWN]] + remainder


class Placed(NamedTuple):
    """A problem with its place among those of its file."""

    order: int
    problem: Problem


def _join_equal(rows: list[Placed]) -> list[Placed]:
    """Return problems that expect the same, and give the same hint: each of them, or one for all."""
    order, first = rows[0]
    count = sum(row.problem.count for row in rows)
    place = PLACE.fullmatch(first.where)
    if place is None:
        return [Placed(order, replace(first, count=count))]
    if count <= LINES_NAMED:
        return rows
    # one that stands for several is of as many further lines
    n_further = sum(row.problem.count for row in rows[1:] if row.problem.count > 1)
    locations = [first.where, *(row.problem.where for row in rows[1:] if row.problem.count == 1)]
    numbers = [number for number, _ in groupby(PLACE.sub(r"\3", location) for location in locations)]
    names, n_lines = numbers[:LINES_NAMED], len(numbers) + n_further
    suffix = f" and {n_lines - len(names):,} more" if n_lines > len(names) else ""
    unit = place[2] if n_lines == 1 else f"{place[2]}s"
    location = f"{place[1]}, {unit} {', '.join(names)}{suffix}{place[4]}"
    faults = [*dict.fromkeys(row.problem.value for row in rows)]
    fault = "; ".join(faults[:LINES_NAMED]) + ("; ..." if len(faults) > LINES_NAMED else "")
    return [Placed(order, replace(first, where=location, value=fault, count=n_lines))]
