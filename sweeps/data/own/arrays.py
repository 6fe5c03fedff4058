"""Arrays of an .npz file: their headers first, and then no more memory than they may take."""

from __future__ import annotations

import io
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sweeps.data.lines import MOST_LINES
from sweeps.errors import InputError, Problem
from sweeps.files import PART
from sweeps.files import opened as opened_file

MOST_BYTES = 2**30
"""Of an array as it is in the file, and of a file."""

MOST_TEXT_BYTES = 2**28
"""Of an array of texts, which is held as a whole."""

MOST_ROWS = MOST_LINES
MOST_DIRECTORY = 2**20
"""Bytes of the directory of an archive: some 10,000 names."""

MOST_HEADER = 10_000
"""Bytes of the header of an array, numpy's own limit."""

SUFFIX = ".npy"
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What `numpy.savez` and `numpy.savez_compressed` write."""

LENGTHS = {(1, 0): struct.Struct("<H"), (2, 0): struct.Struct("<I")}
"""How the length of a header is written, by the version of its format."""

BROKEN = (
    *(zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, RuntimeError),
    UnicodeDecodeError,
)
"""What `zipfile` raises of a damaged archive, or of one with a password."""


class Header(NamedTuple):
    """What an array says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    @property
    def n_bytes(self) -> int:
        """Size of the values, as they are written."""
        return math.prod(self.shape) * self.dtype.itemsize


class Archive:
    """The arrays of an open .npz file.

    Parameters
    ----------
    path : Path
        The file, for messages.
    archive : zipfile.ZipFile
        Its content; each name is there once.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(SUFFIX)
            if name in self._members:
                raise InputError([Problem(str(path), f"two arrays {name[:60]!r}", "each name once")])
            self._members[name] = member

    @property
    def names(self) -> list[str]:
        """Names of all arrays."""
        return list(self._members)

    def header(self, name: str) -> Header:
        """Shape and type of an array.

        Raises
        ------
        InputError
            If it is no array, is packed in another way than numpy does, holds objects, is too large, or is
            not as long as it says.
        """
        where, member = self._where(name), self._members[name]
        if member.compress_type not in METHODS:
            found = f"compression method {member.compress_type}"
            raise InputError([Problem(where, found, "none or deflate, as numpy writes them")])
        with self._archive.open(member) as stream:
            header = read_header(stream, where)
            rest = member.file_size - stream.tell()
        if header.dtype.hasobject:
            raise InputError([Problem(where, "objects (a pickle)", "an array without objects")])
        if header.n_bytes > MOST_BYTES:
            found = f"{header.n_bytes:,} bytes, of shape {header.shape} and type {header.dtype}"
            raise InputError([Problem(where, found, f"at most {MOST_BYTES:,}")])
        if header.n_bytes != rest:
            found = f"{rest:,} bytes for shape {header.shape} of type {header.dtype}"
            raise InputError([Problem(where, found, f"{header.n_bytes:,}")])
        return header

    def read(self, name: str, dtype: Any = None) -> NDArray[Any]:
        """Values of an array, as another type if one is told.

        Raises
        ------
        InputError
            As `header`.
        """
        header = self.header(name)
        with self._archive.open(self._members[name]) as stream:
            read_header(stream, self._where(name))
            return read_values(stream, header, header.dtype if dtype is None else np.dtype(dtype))

    def _where(self, name: str) -> str:
        return f"{self._path}, array {name[:60]!r}"


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open an .npz file for the block.

    Raises
    ------
    InputError
        If it cannot be read, is damaged, or is no archive; also for what is read of it in the block.
    """
    try:
        with (
            opened_file(path, MOST_BYTES) as file,
            zipfile.ZipFile(cast(IO[bytes], _Bounded(file))) as archive,
        ):
            yield Archive(path, archive)
    except BROKEN as error:
        raise InputError([Problem(str(path), f"a broken file ({error})", "an .npz file")]) from error


class _Bounded:
    """A file of which no more is read at once than the directory of a sound archive takes."""

    def __init__(self, file: io.BufferedReader[Any]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes; without a size the end of the archive, which is shorter than that."""
        if size is not None and size > max(MOST_DIRECTORY, PART):
            raise zipfile.BadZipFile(f"a directory of {size:,} bytes, at most {MOST_DIRECTORY:,}")
        return self._file.read(size)


def read_values(stream: IO[bytes], header: Header, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values behind a header, in the order of C, part by part: nothing is held twice.

    Raises
    ------
    EOFError
        If there are fewer than the header says, or more bytes.
    """
    width = math.prod(header.shape[1:])
    values = np.empty(header.shape, dtype)
    # rows one after the other, or columns, of which a part has whole ones
    lines = values.reshape(len(values), width)
    lines = lines.T if header.fortran else lines
    n_bytes = lines.shape[1] * header.dtype.itemsize
    at_once = max(1, PART // max(n_bytes, 1))
    for start in range(0, len(lines), at_once):
        part = lines[start : start + at_once]
        content = stream.read(len(part) * n_bytes)
        if len(content) != len(part) * n_bytes:
            raise EOFError(f"fewer than the {header.n_bytes:,} bytes of shape {header.shape}")
        with np.errstate(over="ignore"):  # of a type with a wider range: infinite, and refused
            part[:] = np.frombuffer(content, header.dtype).reshape(part.shape)
    if stream.read(1):
        raise EOFError(f"more than the {header.n_bytes:,} bytes of shape {header.shape}")
    return values


def read_header(stream: IO[bytes], where: str) -> Header:
    """Read the header of an array in numpy's format; the stream then is at its values.

    Parameters
    ----------
    stream : binary file
        At the begin of the array.
    where : str
        For messages.

    Raises
    ------
    InputError
        If it is none.
    """
    magic = stream.read(npy.MAGIC_LEN)
    if not magic.startswith(npy.MAGIC_PREFIX) or len(magic) < npy.MAGIC_LEN:
        raise InputError([Problem(where, f"{magic[:8]!r} at its start", "an array as numpy writes it")])
    version = magic[-2], magic[-1]
    if version not in LENGTHS:
        found = "version {}.{} of the array format".format(*version)
        raise InputError([Problem(where, found, "version 1.0 or 2.0")])
    prefix = stream.read(LENGTHS[version].size)
    (length,) = LENGTHS[version].unpack(prefix)
    if length > MOST_HEADER:
        raise InputError([Problem(where, f"a header of {length:,} bytes", f"at most {MOST_HEADER:,}")])
    text = io.BytesIO(prefix + stream.read(length))
    parse = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran, dtype = parse(text, max_header_size=MOST_HEADER)
    except Exception as error:  # numpy evaluates it as a Python literal, of which anything may come
        found = f"a header that is none ({type(error).__name__})"
        raise InputError([Problem(where, found, "an array as numpy writes it")]) from error
    if any(size < 0 for size in shape):
        raise InputError([Problem(where, f"shape {shape}", "no negative length")])
    return Header(tuple(map(int, shape)), dtype, fortran)
