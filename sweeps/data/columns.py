"""Columns of a file by their distinct cells: of millions of rows only the distinct texts are looked at.

`parse_plain` takes a text apart at once if all of its lines are alike. `read_columns` reads a file of
columns: parquet, feather (which is Arrow), and .npz with one array for each column. `frame_columns` takes a
data frame of any library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.data import formats
from sweep_clustering.sweeps.data.lines import MOST_BYTES, MOST_LINES, Lines, read_lines
from sweep_clustering.sweeps.data.table import LONGEST_TEXTS, Codes, Coding, coding_of
from sweep_clustering.sweeps.errors import Problem, collecting, raise_all, refused
from sweep_clustering.sweeps.files import bounded, opened

# Bytes of a file once it is unpacked.
MOST_UNPACKED = 2**30

# Bytes of an array in an .npz file.
MOST_ARRAY = 2**29

# Values of all columns: each takes some 4 bytes beside the file.
MOST_VALUES = 10**8

# Columns of a file; those of links are at most seven.
MOST_COLUMNS = 100

ARROW = (".parquet", ".pq", ".feather", ".arrow")

# Lines whose cells are texts at the same time.
CHUNK = 2**18

# Text that no file holds, because this character is refused.
NO_CELL = "\0"

# Bytes of a cell that is compared as one number.
WORD = 8


@dataclass(frozen=True, eq=False)
class Columns:
    """Rows of a file by the distinct texts of each column.

    Parameters
    ----------
    path : Path
        The file.
    lines : array of shape (n_rows,)
        Number of the line of each row, from 1, or that of each row of a data frame, from 0.
    codings : mapping of str to Coding
        Codes and distinct texts of each column; `NO_CELL` stands where a row has no such cell.
    """

    path: Path
    lines: NDArray[np.int32]
    codings: Mapping[str, Coding]

    def __len__(self) -> int:
        return len(self.lines)

    def row(self, place: int) -> dict[str, str]:
        """Return the cells of a row by the names of their columns."""
        cells = {name: texts[codes[place]] for name, (codes, texts) in self.codings.items()}
        return {name: text for name, text in cells.items() if text != NO_CELL}

    def first_places(self, name: str, marks: NDArray[np.int8]) -> list[int]:
        """Return the first place of each pair of a distinct text and a mark of its row, which is below 3."""
        codes, texts = self.codings[name]
        return list(groups(3 * codes.astype(np.int64) + marks, 3 * len(texts))[0])

    def select(self, places: NDArray[np.integer] | NDArray[np.bool_]) -> Columns:
        """Select rows."""
        codings = {name: Coding(codes[places], texts) for name, (codes, texts) in self.codings.items()}
        return Columns(self.path, self.lines[places], codings)

    def renamed(self, names: Mapping[str, str]) -> Columns:
        """Select columns and give them other names."""
        return replace(self, codings={new: self.codings[old] for old, new in names.items()})

    def with_texts(self, name: str, change: Callable[[str], str]) -> Columns:
        """Change the texts of a column."""
        codes, texts = self.codings[name]
        return replace(self, codings={**self.codings, name: Coding(codes, [*map(change, texts)])})

    def with_column(self, name: str, text: str) -> Columns:
        """Add a column whose cells are all the same."""
        coding = Coding(np.zeros(len(self), dtype=np.int8), [text])
        return replace(self, codings={**self.codings, name: coding})


def groups(codes: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first place of each distinct code, and the group of each place; codes are below `count`."""
    if count > 4 * len(codes) + 1000:
        _, first, group = np.unique(codes, return_index=True, return_inverse=True)
        return first, group
    first = np.full(count, -1, dtype=np.int64)  # a table takes a tenth of the time of sorting
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last of several assignments stays
    is_used = first >= 0
    return first[is_used], (np.cumsum(is_used) - 1)[codes]


# Files of columns.


@dataclass(frozen=True)
class RowFile:
    """A file of rows, with its content: a pipe is read once.

    Parameters
    ----------
    content : Lines or Columns
        Content of the file.
    """

    content: Lines | Columns = field(repr=False)

    @property
    def path(self) -> Path:
        """Place of the file."""
        return self.content.path

    @property
    def unit(self) -> str:
        """Word for its rows in messages."""
        return "row" if isinstance(self.content, Columns) else "line"


def read_content(path: Path) -> Lines | Columns:
    """Read a file of columns (.parquet, .pq, .feather, .arrow, .npz), or a text under any other name."""
    return read_columns(path) if path.suffix.lower() in (*ARROW, ".npz") else read_lines(path)


def read_columns(path: Path) -> Columns:
    """Read a file of columns. Numbers become texts: whole ones without a point, missing ones an empty text.

    Raises
    ------
    InputError
        If it is broken, too large, or has columns of other kinds than numbers and texts, or of other lengths.
    """
    is_arrow = path.suffix.lower() in ARROW
    if is_arrow:
        formats.load_arrow()
    codings: dict[str, Coding] = {}
    problems: list[Problem] = []
    with bounded(path):
        (_read_arrow if is_arrow else _read_arrays)(path, codings, problems)
    for name, (_, texts) in codings.items():
        if sum(map(len, texts)) > LONGEST_TEXTS:
            fault = f"more than {LONGEST_TEXTS:,} characters of different texts"
            problems.append(Problem(f"{path}, column {name[:60]!r}", fault, "fewer"))
    raise_all(problems)
    if not codings:
        raise refused(path, "no columns", "i, j and the others of an annotation file")
    lengths = {name: len(codes) for name, (codes, _) in codings.items()}
    if len({*lengths.values()}) > 1:
        fault = ", ".join(f"{length:,} of {name[:60]!r}" for name, length in [*lengths.items()][:10])
        raise refused(path, fault, "as many values in each array")
    return Columns(path, np.arange(1, max(lengths.values()) + 1, dtype=np.int32), codings)


def _read_arrow(path: Path, codings: dict[str, Coding], problems: list[Problem]) -> None:
    with formats.open_arrow(path, MOST_BYTES, has_repeated_texts=True) as file:
        _check_size(path, file.n_rows, file.n_bytes, len(file.schema))
        names = [str(name) for name in file.schema.names]
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                problems.append(Problem(str(path), f"several columns {name!r}", "one of each name"))
        for field in file.schema:
            if not formats.is_number(field.type) and not formats.is_text(field.type):
                location = f"{path}, column {field.name[:60]!r}"
                problems.append(Problem(location, str(field.type)[:60], "numbers or texts"))
        if not problems:
            for place, name in enumerate(names):
                # an index that pandas stored beside the columns is none of them
                if not name.startswith("__index_level_"):
                    codings[name] = coding_of(file.arrays([place])[0])


def _read_arrays(path: Path, codings: dict[str, Coding], problems: list[Problem]) -> None:
    with (
        formats.unbroken(path, "an .npz file"),
        opened(path, MOST_BYTES) as file,
        formats.open_archive(path, file) as archive,
    ):
        members = archive.infolist()
        _check_size(path, 0, sum(member.file_size for member in members), len(members))
        for name, member in formats.members_of(path, archive).items():
            with collecting(problems):
                codings[name] = coding_of(formats.read_member(path, archive, member, _no_column))


def frame_columns(name: str, frame: Any) -> Columns:
    """Return the columns of a data frame of pandas, polars, arrow or another library that narwhals knows.

    `name` stands for it in messages, in place of a file.

    Raises
    ------
    InputError
        If it is none, or has columns of the same name, or of other kinds than numbers and texts.
    """
    import narwhals.stable.v2 as narwhals
    import pandas as pd
    from narwhals.exceptions import DuplicateError

    try:
        table = narwhals.from_native(frame, eager_only=True)
    except TypeError:
        hint = "collect() makes one of it" if hasattr(frame, "collect") else ""
        fault = f"a {type(frame).__name__}"
        raise refused(name, fault, "a data frame of pandas, polars or arrow", hint) from None
    except DuplicateError:
        raise refused(name, "several columns of one name", "one of each name") from None
    _check_size(Path(name), len(table), 0, len(table.columns))
    codings: dict[str, Coding] = {}
    problems: list[Problem] = []
    for column, series in zip(table.columns, table.iter_columns(), strict=True):
        # in an array of categories of arrow, a missing text would be another text
        is_number = series.dtype.is_numeric()
        cells = series.to_numpy() if is_number else pd.Series(series.to_list(), dtype=object).to_numpy()
        try:
            codings[str(column)] = coding_of(cells)
        except TypeError:  # lists and mappings have no hash
            location = f"{name}, column {str(column)[:60]!r}"
            problems.append(Problem(location, str(series.dtype)[:60], "numbers or texts"))
    raise_all(problems)
    return Columns(Path(name), np.arange(len(table), dtype=np.int32), codings)


def _check_size(path: Path, n_rows: int, n_bytes: int, n_columns: int) -> None:
    """Refuse a file of columns that is too large once it is unpacked."""
    problems: list[Problem] = []
    if n_columns > MOST_COLUMNS:
        problems.append(Problem(str(path), f"{n_columns:,} columns", f"at most {MOST_COLUMNS}"))
    if n_rows > MOST_LINES or n_rows * n_columns > MOST_VALUES:
        fault = f"{n_rows:,} rows of {n_columns:,} columns"
        problems.append(Problem(str(path), fault, f"at most {MOST_LINES:,} rows, and {MOST_VALUES:,} values"))
    if n_bytes > MOST_UNPACKED:
        fault = f"{n_bytes:,} bytes once unpacked"
        problems.append(Problem(str(path), fault, f"at most {MOST_UNPACKED:,}"))
    raise_all(problems)


def _no_column(header: formats.Header) -> str:
    """Say what is expected in place of an array that is no column; nothing of one that is."""
    if len(header.shape) != 1 or header.dtype.kind not in "biufUS":
        return "numbers or texts of shape (annotations,)"
    if header.shape[0] > MOST_LINES:
        return f"at most {MOST_LINES:,} values"
    return "" if header.n_bytes <= MOST_ARRAY else f"at most {MOST_ARRAY:,} bytes"


# Text whose lines are all alike.

# Cells up to which a dictionary takes less time than importing pandas.
FEW_CELLS = 200_000


def parse_plain(
    file: Lines, separator: str, names: Sequence[str], min_columns: int, skip: int, full: Sequence[str]
) -> Columns | None:
    """Take apart a text whose lines all have the same number of cells, and neither quotes nor comments.

    Rows begin after `skip` lines, and each has at least `min_columns` cells. A blank is one blank here,
    though a file may have several. Columns without a name are left out, and those of `full` have no empty
    cells. None is returned if the lines have to be read one by one.
    """
    content, begin = file.content, 0
    for _ in range(skip):
        begin = content.find(b"\n", begin) + 1
        if not begin:
            return None
    if begin == len(content) or content.find(b'"', begin) >= 0 or content.find(b"#", begin) >= 0:
        return None
    text = np.frombuffer(memoryview(content)[begin:], dtype=np.uint8)
    marks = _marks(text, ord(separator))
    width = marks.shape[1] - 1
    if not min_columns <= width <= len(names):
        return None
    codings: dict[str, Coding] = {}
    for column, name in enumerate(names[:width]):
        # a tab at the end of a line separates in a file with a header, and does not in any other
        is_last = separator == "\t" and column == width - 1
        if not (name or is_last or separator in " ;"):
            continue
        codes, cells = _factorized(text, marks[:, column] + 1, marks[:, column + 1])
        texts = [cell.strip() for cell in cells]
        # other blanks separate as well, before semicolons do, and a row without cells says nothing
        if separator in " ;" and not all(cell.split() == [cell] for cell in cells):
            return None
        if "" in texts and (is_last or name in full):
            return None
        if name:
            codings[name] = Coding(codes, texts)
    lines = np.arange(skip + 1, skip + 1 + len(marks), dtype=np.int32)
    return Columns(file.path, lines, codings)


def _marks(text: NDArray[np.uint8], separator: int) -> NDArray[np.int64]:
    """Return the places around the cells of each line; no lines if they are not alike."""
    ends = np.flatnonzero(text == ord("\n"))
    if not len(ends) or ends[-1] != len(text) - 1:
        ends = np.append(ends, len(text))
    starts, marks = np.append(-1, ends[:-1]), np.flatnonzero(text == separator)
    width, remainder = divmod(len(marks), len(ends))
    if not remainder and width:
        inner_marks = marks.reshape(len(ends), width)
        if (inner_marks[:, 0] > starts).all() and (inner_marks[:, -1] < ends).all():
            return np.column_stack([starts, inner_marks, ends])
    return np.empty((0, 1), dtype=np.int64)


def _factorized(text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Coding:
    """Return codes and distinct texts of the cells between some places of a text."""
    lengths = ends - starts
    longest = int(lengths.max())
    if longest <= WORD and len(starts) > FEW_CELLS:  # a cell is a number then, because no text has a byte 0
        import pandas as pd

        words = np.zeros(len(starts), dtype=np.uint64)
        for i in range(longest):
            byte = text[np.minimum(starts + i, len(text) - 1)].astype(np.uint64)
            words |= np.where(i < lengths, byte, 0) << np.uint64(8 * i)
        codes, distinct = pd.factorize(words)
        return Coding(codes, [int(word).to_bytes(WORD, "little").rstrip(b"\0").decode() for word in distinct])
    code_of, parts, content = dict[bytes, int](), list[Codes](), text.tobytes()
    for begin in range(0, len(starts), CHUNK):
        part = slice(begin, begin + CHUNK)
        cells = [content[i:j] for i, j in zip(starts[part].tolist(), ends[part].tolist(), strict=True)]
        parts.append(np.array([code_of.setdefault(cell, len(code_of)) for cell in cells], dtype=np.int32))
    return Coding(np.concatenate(parts), [cell.decode() for cell in code_of])
