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
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sweeps.data.lines import MOST_LINES, unreadable
from sweeps.errors import InputError, Problem

MOST_BYTES = 2**30
"""Of an array: as it is in the file, and as it is used, with 8 bytes a number."""

MOST_ROWS = MOST_LINES
MOST_DIRECTORY = 2**20
"""Bytes of the directory of an archive: some 10,000 names."""

MOST_HEADER = 10_000
"""Bytes of the header of an array, numpy's own limit."""

PART = 2**20
"""Bytes that are read at once."""

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

    def read(self, name: str) -> NDArray[Any]:
        """Values of an array.

        Raises
        ------
        InputError
            As `header`.
        """
        header = self.header(name)
        values = bytearray()
        with self._archive.open(self._members[name]) as stream:
            read_header(stream, self._where(name))
            # Grows as bytes arrive: what is claimed and not there takes no memory.
            while part := stream.read(PART):
                values += part
        if len(values) != header.n_bytes:
            raise EOFError(f"{len(values):,} of {header.n_bytes:,} bytes of array {name!r}")
        flat = np.frombuffer(values, dtype=header.dtype) if values else np.empty(0, header.dtype)
        return flat.reshape(header.shape, order="F" if header.fortran else "C")

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
        with _Bounded(path) as file, zipfile.ZipFile(file) as archive:
            yield Archive(path, archive)
    except OSError as error:
        raise InputError([unreadable(path, error)]) from error
    except BROKEN as error:
        raise InputError([Problem(str(path), f"a broken file ({error})", "an .npz file")]) from error


class _Bounded(io.FileIO):
    """A file of which no more is read at once than the directory of a sound archive takes."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes; without a size the end of the archive, which is shorter than that."""
        if size is not None and size > max(MOST_DIRECTORY, PART):
            raise zipfile.BadZipFile(f"a directory of {size:,} bytes, at most {MOST_DIRECTORY:,}")
        return super().read(size) or b""


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
