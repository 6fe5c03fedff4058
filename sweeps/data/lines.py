"""Lines, cells and numbers of a user's text files."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np

from sweeps.errors import InputError, Problem

PROBLEMS_SHOWN = 20


MOST_BYTES = 2**26
"""Of a file of labels, links or annotations."""

MOST_LINES = 10**7
"""Lines of any text file: each takes 16 bytes beside its text."""

PART = 2**20
"""Bytes that are read at once of what has no size."""

BOM = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"
PLAIN = np.ones(256, dtype=np.bool_)
PLAIN[[*range(33), ord("#"), *range(127, 256)]] = False
"""First bytes of a line that has content; after others only its whole text tells."""


class Line(NamedTuple):
    """A line with content: its file, its number from 1, and its text, stripped."""

    path: Path
    number: int
    text: str

    @property
    def where(self) -> str:
        """File and line number, for problems."""
        return f"{self.path}, line {self.number}"


class Lines(Sequence[Line]):
    """The lines with content of a text, made when they are asked for: a large file has millions.

    Parameters
    ----------
    path : Path
        Where the text comes from.
    content : bytes
        All of it, valid UTF-8. A line ends at a line feed and nowhere else: what `str.splitlines` does would
        also break at characters that editors do not count as line ends.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self.path = path
        self.content = content
        values = np.frombuffer(content, dtype=np.uint8)
        ends = np.append(np.flatnonzero(values == ord("\n")), len(content))
        starts = np.append(0, ends[:-1] + 1)
        kept = PLAIN[values[np.minimum(starts, len(values) - 1)]] if content else np.array([False])
        for line in np.flatnonzero(~kept).tolist():
            text = content[starts[line] : ends[line]].decode().strip()
            kept[line] = bool(text) and not text.startswith("#")
        self.numbers = np.flatnonzero(kept) + 1
        self.starts, self.ends = starts[kept], ends[kept]

    def text(self, position: int) -> str:
        """Text of one line, stripped."""
        return self.content[self.starts[position] : self.ends[position]].decode().strip()

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, position: int) -> Line: ...

    @overload
    def __getitem__(self, position: slice) -> Sequence[Line]: ...

    def __getitem__(self, position: int | slice) -> Line | Sequence[Line]:
        if isinstance(position, slice):
            return [self[each] for each in range(*position.indices(len(self)))]
        return Line(self.path, int(self.numbers[position]), self.text(position))


def read_lines(path: Path) -> Lines:
    """Lines of a UTF-8 file, packed by gzip or not, without blank lines and those that start with #.

    Raises
    ------
    InputError
        As `read_text`.
    """
    return Lines(path, read_text(path, MOST_BYTES))


def read_text(path: Path, most: int) -> bytes:
    """Content of a UTF-8 file, packed by gzip or not, with line feeds at line ends and no byte order mark.

    Parameters
    ----------
    path : Path
        The file.
    most : int
        Largest size in bytes, packed and unpacked.

    Raises
    ------
    InputError
        If the file cannot be read, is too large or no text, or has more than `MOST_LINES`.
    """
    try:
        with path.open("rb") as file:
            # Not `most` at once, which would take that much memory; and a pipe has no size.
            content = file.read(min(os.fstat(file.fileno()).st_size, most) + 1)
            while len(content) <= most and (part := file.read(PART)):
                content += part
    except OSError as error:
        raise InputError([unreadable(path, error)]) from error
    if len(content) > most:
        raise InputError([Problem(str(path), f"more than {most:,} bytes", f"at most {most:,}")])
    if content.startswith(GZIP):
        content = _unpacked(path, content, most)
    content = content.removeprefix(BOM)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = len(content[: error.start + 1].splitlines())
        where, found = f"{path}, line {line}", f"byte {content[error.start]:#04x}"
        hint = "save it again as UTF-8; spreadsheets call that CSV UTF-8"
        raise InputError([Problem(where, found, "a text file in UTF-8", hint)]) from error
    if b"\0" in content:
        raise InputError([Problem(str(path), "NUL characters", "a text file")])
    content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    count = content.count(b"\n") + 1
    if count > MOST_LINES:
        raise InputError([Problem(str(path), f"{count:,} lines", f"at most {MOST_LINES:,}")])
    return content


def _unpacked(path: Path, packed: bytes, most: int) -> bytes:
    """Content of a file of gzip; a small one may hold more than there is memory."""
    content = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            while len(content) <= most and (part := file.read(PART)):
                content += part
    except (OSError, EOFError, zlib.error) as error:
        raise InputError([Problem(str(path), f"a broken file ({error})", "a file of gzip")]) from error
    if len(content) > most:
        found = f"more than {most:,} bytes once unpacked"
        raise InputError([Problem(str(path), found, f"at most {most:,}")])
    return bytes(content)


def unreadable(path: Path, error: OSError) -> Problem:
    """The problem of a path that cannot be read."""
    return Problem(str(path), error.strerror or str(error), "a readable file")


def split_cells(text: str, separator: str = "") -> list[str]:
    """Cells of a line; quotes group.

    Parameters
    ----------
    text : str
        The line.
    separator : str
        Of its cells; where it is empty, commas if there are any, else tabs, else blanks.
    """
    separator = separator or ("," if "," in text else "\t" if "\t" in text else " ")
    if '"' in text:
        try:
            return [
                cell.strip() for cell in next(csv.reader([text], delimiter=separator, skipinitialspace=True))
            ]
        except csv.Error:  # a cell beyond the reader's limit
            return [text]
    return text.split() if separator == " " else [cell.strip() for cell in text.split(separator)]


def to_number(cell: str) -> float | None:
    """The number a cell spells (NaN and infinities included), or None; 1_000 is not a number in a table."""
    if "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def counted(places: Sequence[int], problem: Callable[[int], Problem]) -> list[Problem]:
    """A problem for each place, all but the first few the same: of those, `shortened` says how many.

    A column of millions of empty cells would otherwise become as many texts.
    """
    first = [problem(place) for place in places[:PROBLEMS_SHOWN]]
    return first + first[-1:] * (len(places) - len(first))


def shortened(path: Path, problems: Iterable[Problem]) -> list[Problem]:
    """The first problems of a file, and how many there are beyond."""
    found = list(problems)
    beyond = len(found) - PROBLEMS_SHOWN
    if beyond <= 0:
        return found
    return [*found[:PROBLEMS_SHOWN], Problem(str(path), f"{beyond} more problems like these", "none")]
