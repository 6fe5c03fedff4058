"""The journal: results of finished batches whose block is not complete yet, safe against any kill.

A record is a head and a body. The head holds a mark, the length of the body, its sha256 and a checksum of
itself; the body holds the length of a JSON text, the text, and one npy array after the other. Records are
only ever added. A kill leaves a torn tail: invalid bytes with no valid record after them. Anything else is
damage, and an error.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from storage.errors import storage_errors
from storage.files import PARTIAL, remove, sync_directory

logger = logging.getLogger(__name__)

Header = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]

MARK = b"\x93SWJ\x01\r\n\x1a"
"""Starts every record; its fifth byte is the version of the format."""

HEAD = struct.Struct("<8sQ32sI")
TEXT_LENGTH = struct.Struct("<I")


class JournalDamaged(Exception):
    """The journal holds something that no kill leaves behind.

    Parameters
    ----------
    path : Path
        The journal.
    offset : int
        Where the invalid bytes begin.
    found : str
        What is wrong.
    """

    def __init__(self, path: Path, offset: int, found: str) -> None:
        self.path = path
        self.offset = offset
        self.found = found
        remedy = "remove the file to compute its batches again"
        super().__init__(f"{path}: damaged at byte {offset}: {found}; {remedy}")

    def __reduce__(self) -> tuple[type[JournalDamaged], tuple[Path, int, str]]:
        return JournalDamaged, (self.path, self.offset, self.found)


class Journal:
    """The journal of a run, for the holder of the lease; a context manager.

    Parameters
    ----------
    path : Path
        Made if missing, in an existing directory. A torn tail is cut off.

    Raises
    ------
    JournalDamaged
        If a record other than the last is bad.
    StorageError
        If the file system refuses.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(path):
            self._end = _good_length(path) if path.exists() else 0
            self._file = _open(path)
            with _closed_on_error(self._file):
                size = os.fstat(self._file.fileno()).st_size
                if size > self._end:
                    logger.warning("%s: torn record at its end, %d bytes cut", path, size - self._end)
                    self._cut()

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._end

    def append(self, header: Mapping[str, Any], arrays: Mapping[str, npt.ArrayLike]) -> None:
        """Add a record; once this returns, it survives a loss of power.

        Parameters
        ----------
        header : mapping
            Anything JSON can hold.
        arrays : mapping of str to array
            Of any shape and any dtype but object.

        Raises
        ------
        StorageError
            If the file system refuses; the journal is then as before.
        ValueError
            If an array holds objects.
        """
        record = _encode(header, arrays)
        with storage_errors(self.path, len(record)):
            try:
                self._file.seek(self._end)
                _write_all(self._file, record)
                os.fsync(self._file.fileno())
            except OSError:
                self._cut()
                raise
        self._end += len(record)

    def replay(self) -> Iterator[tuple[Header, Arrays]]:
        """All records, oldest first."""
        yield from replay(self.path)

    def compact(self, keep: Callable[[Header], bool]) -> None:
        """Drop records that are not needed any more, in one step.

        Parameters
        ----------
        keep : callable
            From a header to whether its record stays.

        Raises
        ------
        JournalDamaged, StorageError
            The journal is then as before.
        """
        partial = self.path.with_name(self.path.name + PARTIAL)
        with storage_errors(self.path, self._end):
            remove(partial)
            file = _open(partial)
            with _closed_on_error(file):
                for body in _bodies(self.path):
                    if keep(_text(body)["header"]):
                        _write_all(file, _frame(body))
                os.fsync(file.fileno())
                os.replace(partial, self.path)
            # The old file has no name from here on: a record added to it would be lost.
            self._file.close()
            self._file, self._end = file, file.tell()
            sync_directory(self.path.parent)

    def close(self) -> None:
        """Close the file; every record is on disk already."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cut(self) -> None:
        os.ftruncate(self._file.fileno(), self._end)
        os.fsync(self._file.fileno())


def replay(path: Path) -> Iterator[tuple[Header, Arrays]]:
    """All records of a journal, oldest first, without changing it.

    Parameters
    ----------
    path : Path
        A journal, maybe of a run in progress; a missing one is empty.

    Yields
    ------
    (header, arrays)
        As they were given to `append`.

    Raises
    ------
    JournalDamaged
        If a record other than the last is bad.
    StorageError
        If the file system refuses.
    """
    with storage_errors(path):
        if path.exists():
            for body in _bodies(path):
                yield _decode(body)


def _open(path: Path) -> io.FileIO:
    # No buffer: it would write a record that has failed again later, on its own.
    file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb+")
    with _closed_on_error(file):
        sync_directory(path.parent)
    return file


@contextmanager
def _closed_on_error(file: io.FileIO) -> Iterator[None]:
    try:
        yield
    except BaseException:
        file.close()
        raise


def _write_all(file: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _encode(header: Mapping[str, Any], arrays: Mapping[str, npt.ArrayLike]) -> bytes:
    text = json.dumps({"header": header, "arrays": list(arrays)}).encode()
    body = io.BytesIO()
    body.write(TEXT_LENGTH.pack(len(text)) + text)
    for values in arrays.values():
        np.lib.format.write_array(body, np.asarray(values), allow_pickle=False)
    return _frame(body.getvalue())


def _frame(body: bytes) -> bytes:
    digest = hashlib.sha256(body).digest()
    checksum = zlib.crc32(HEAD.pack(MARK, len(body), digest, 0))
    return HEAD.pack(MARK, len(body), digest, checksum) + body


def _decode(body: bytes) -> tuple[Header, Arrays]:
    record = _text(body)
    stream = io.BytesIO(body)
    stream.seek(TEXT_LENGTH.size + TEXT_LENGTH.unpack_from(body)[0])
    arrays = {name: np.lib.format.read_array(stream, allow_pickle=False) for name in record["arrays"]}
    return record["header"], arrays


def _text(body: bytes) -> dict[str, Any]:
    """The JSON text of a record: its header, and the names of its arrays."""
    (length,) = TEXT_LENGTH.unpack_from(body)
    record: dict[str, Any] = json.loads(body[TEXT_LENGTH.size : TEXT_LENGTH.size + length])
    return record


def _bodies(path: Path) -> Iterator[bytes]:
    """Bodies of all good records; stops before a torn tail."""
    with open(path, "rb") as file:
        offset = 0
        while (body := _body_at(file, offset)) is not None:
            yield body
            offset += HEAD.size + len(body)
        file.seek(offset)
        tail = file.read()
        if _has_good_record(file, offset, tail):
            raise JournalDamaged(path, offset, "a bad record with good ones after it")
        if offset == 0 and tail.strip(b"\0") and not tail.startswith(MARK[: len(tail)]):
            raise JournalDamaged(path, offset, "no journal of this version")


def _good_length(path: Path) -> int:
    return sum(HEAD.size + len(body) for body in _bodies(path))


def _body_at(file: BinaryIO, offset: int) -> bytes | None:
    file.seek(offset)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    mark, length, digest, checksum = HEAD.unpack(head)
    if mark != MARK or checksum != zlib.crc32(HEAD.pack(mark, length, digest, 0)):
        return None
    # The head has its own checksum, so its length is safe to read.
    body = file.read(length)
    return body if len(body) == length and hashlib.sha256(body).digest() == digest else None


def _has_good_record(file: BinaryIO, offset: int, tail: bytes) -> bool:
    position = tail.find(MARK, 1)
    while position >= 0:
        if _body_at(file, offset + position) is not None:
            return True
        position = tail.find(MARK, position + 1)
    return False
