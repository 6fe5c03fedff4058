"""The journal: results of finished batches whose block is not complete yet, safe against any kill.

A record is a head and a body. The head has a mark, the length of the body, its sha256 and a checksum of the
head; the body has the length of a JSON text, the text, and one npy array after the other. An array of many
whole numbers, such as labels, is packed: compressed, in the narrowest type that has its values. Records are
only ever added. A kill leaves a torn tail: invalid bytes with no valid record after them. Anything else is
damage, and an error.

Each holder of the lease has a journal. One that was suspended and wakes after another has taken over harms
nobody: it adds to a file that nobody reads any more.
"""

import hashlib
import io
import json
import logging
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from sweep_clustering.storage.files import PLAIN, Files, remove, storage_errors, sync_directory
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.sweeps.data.formats import read_header

logger = logging.getLogger(__name__)

Header = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]

# Version of this format, and of the content that `pipeline.work.records` gives a record (a test pins it).
VERSION = 3

# Readable versions; in a record of version 2 no array is packed.
READABLE = (2, VERSION)

# Marks that start a record; the fifth byte is the version of the format.
MARKS = {version: b"\x93SWJ" + bytes([version]) + b"\r\n\x1a" for version in READABLE}
MARK = MARKS[VERSION]

HEAD = struct.Struct("<8sQ32sI")
TEXT_LENGTH = struct.Struct("<I")
PACKED_LENGTH = struct.Struct("<Q")

# Bytes of whole numbers from which an array is packed. A smaller record is mostly text, and the sync of the
# file takes longer than packing would save.
PACKED_FROM = 2**16

# Level of zlib: labels of 60,000 rows in 100 clusters take 2 ms; the default level, 6, saves less than 1 %
# more.
LEVEL = 1

# Types of packed numbers, the narrowest first.
NARROW = ("|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8")


@dataclass(eq=False)
class JournalDamaged(Exception):
    """The journal has content that no kill leaves behind."""

    path: Path
    offset: int | None  # first invalid byte, if known
    description: str

    def __str__(self) -> str:
        place = "" if self.offset is None else f" at byte {self.offset}"
        remedy = "remove the file to compute its batches again"
        return f"{self.path}: damaged{place}: {self.description}; {remedy}"


class Journal(AbstractContextManager["Journal"]):
    """The journal of a run, for the holder of the lease; a context manager.

    A missing file is made, and a torn tail is cut off. `size` is the length in bytes. A bad record before the
    last one is a JournalDamaged.
    """

    def __init__(self, path: Path, files: Files = PLAIN) -> None:
        self.path = path
        self._files = files
        with storage_errors(path), files.fenced(), ExitStack() as on_error:
            self.size = sum(HEAD.size + len(body) for body in _bodies(path)) if path.exists() else 0
            self._file = on_error.enter_context(_open(path))
            torn = os.fstat(self._file.fileno()).st_size - self.size
            if torn > 0:
                logger.warning("%s: torn record at its end, %d bytes cut", path, torn)
                self._cut()
            on_error.pop_all()

    def records(self) -> Iterator[tuple[Header, Arrays]]:
        return replay(self.path)

    def append(self, header: Mapping[str, Any], arrays: Mapping[str, npt.ArrayLike]) -> None:
        """Add a record durably: after a loss of power the next holder finds it.

        Raises
        ------
        StorageError
            If the file system refuses; the journal is then as before.
        LeaseLost
            If another process has taken the lease, and maybe read the journal before this record was there.
        ValueError
            If an array holds objects.
        """
        self._add(_encode(header, arrays, self._files.generation))
        self._files.check()

    def copy(self, sources: Iterable[Path]) -> None:
        """Add the records of former holders' journals, oldest first, without those that are here already."""
        with storage_errors(self.path):
            digests = {hashlib.sha256(body).digest() for body in _bodies(self.path)}
            for source in filter(Path.exists, sources):
                for body in _bodies(source):
                    digest = hashlib.sha256(body).digest()
                    if digest not in digests:
                        digests.add(digest)
                        self._add(_frame(body), durable=False)
            os.fsync(self._file.fileno())

    def _add(self, record: bytes, *, durable: bool = True) -> None:
        with storage_errors(self.path, len(record)):
            try:
                self._file.seek(self.size)
                write_all(self._file, record)
                if durable:
                    os.fsync(self._file.fileno())
            except OSError:
                self._cut()
                raise
        self.size += len(record)

    def compact(self, keep: Callable[[Header], bool]) -> None:
        """Drop the records whose header `keep` refuses, in one step; after an error nothing has changed."""
        partial = self._files.partial(self.path)
        with storage_errors(self.path, self.size), self._files.fenced(), ExitStack() as on_error:
            remove(partial)
            file = on_error.enter_context(_open(partial))
            for body in _bodies(self.path):
                with _understood(self.path):
                    header = _text(body)["header"]
                if keep(header):
                    write_all(file, _frame(body))
            os.fsync(file.fileno())
            os.replace(partial, self.path)
            on_error.pop_all()
            # From here on the old file has no name: a record added to it would be lost.
            self._file.close()
            self._file, self.size = file, file.tell()
            sync_directory(self.path.parent)

    def __exit__(self, *error: object) -> None:
        self._file.close()  # every record is on disk already

    def _cut(self) -> None:
        os.ftruncate(self._file.fileno(), self.size)
        os.fsync(self._file.fileno())


@dataclass(frozen=True)
class Journals:
    """Journals of all holders of a lease, for readers."""

    run: RunFolder

    @property
    def path(self) -> Path:
        return self.run.path

    def records(self) -> Iterator[tuple[Header, Arrays]]:
        """Yield all records, oldest first; one that a holder took over from another may come twice."""
        for generation in self.run.generations():
            yield from replay(generation.journal)


def replay(path: Path) -> Iterator[tuple[Header, Arrays]]:
    """Yield header and arrays of all records of a journal, oldest first; a missing one is empty.

    The file is not changed, so a run may be in progress. Raises JournalDamaged or StorageError.
    """
    with storage_errors(path):
        if path.exists():
            for body in _bodies(path):
                with _understood(path):
                    record = _decode(body)
                yield record


def _open(path: Path) -> io.FileIO:
    # A buffer would write a failed record again later, on its own.
    file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb+")
    sync_directory(path.parent)
    return file


def write_all(file: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _encode(header: Mapping[str, Any], arrays: Mapping[str, npt.ArrayLike], generation: int) -> bytes:
    values_of = {name: np.asarray(values) for name, values in arrays.items()}
    # the type that each packed array has outside of the journal
    dtypes = {
        name: values.dtype.str
        for name, values in values_of.items()
        if values.dtype.kind in "iu" and values.nbytes >= PACKED_FROM
    }
    record = {"generation": generation, "header": header, "arrays": list(values_of), "packed": dtypes}
    text = json.dumps(record).encode()
    body = io.BytesIO()
    body.write(TEXT_LENGTH.pack(len(text)) + text)
    for name, values in values_of.items():
        if name in dtypes:
            _pack(body, values)
        else:
            np.lib.format.write_array(body, values, allow_pickle=False)
    return _frame(body.getvalue())


def _pack(body: BinaryIO, values: npt.NDArray[Any]) -> None:
    """Add the header of an array in its narrowest type, the length of its packed values, and these."""
    low, high = int(values.min()), int(values.max())
    narrow = next(name for name in NARROW if np.iinfo(name).min <= low and high <= np.iinfo(name).max)
    header = {"descr": narrow, "fortran_order": False, "shape": values.shape}
    np.lib.format.write_array_header_1_0(body, header)
    data = zlib.compress(np.ascontiguousarray(values, dtype=narrow).data, LEVEL)
    body.write(PACKED_LENGTH.pack(len(data)) + data)


def _frame(body: bytes) -> bytes:
    digest = hashlib.sha256(body).digest()
    checksum = zlib.crc32(HEAD.pack(MARK, len(body), digest, 0))
    return HEAD.pack(MARK, len(body), digest, checksum) + body


def _decode(body: bytes) -> tuple[Header, Arrays]:
    record = _text(body)
    stream = io.BytesIO(body)
    stream.seek(TEXT_LENGTH.size + TEXT_LENGTH.unpack_from(body)[0])
    dtypes = record.get("packed", {})
    arrays = {
        name: _unpacked(stream, name).astype(dtypes[name]) if name in dtypes else _array(stream, name)
        for name in record["arrays"]
    }
    return record["header"], arrays


def _array(stream: io.BytesIO, name: str) -> npt.NDArray[Any]:
    """Read the next array; memory is taken only for bytes that exist."""
    header = read_header(stream, f"array {name}")
    values = stream.read(header.n_bytes)
    if header.dtype.hasobject or len(values) != header.n_bytes:
        raise ValueError(f"an array of shape {header.shape}, type {header.dtype} in {len(values)} bytes")
    flat = np.frombuffer(bytearray(values), dtype=header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def _unpacked(stream: io.BytesIO, name: str) -> npt.NDArray[Any]:
    """Read the next packed array; memory is taken only for its declared size."""
    header = read_header(stream, f"array {name}")
    (length,) = PACKED_LENGTH.unpack(stream.read(PACKED_LENGTH.size))
    unpacking = zlib.decompressobj()
    values = unpacking.decompress(stream.read(length), header.n_bytes + 1)
    if header.dtype.str not in NARROW or len(values) != header.n_bytes or not unpacking.eof:
        size = f"type {header.dtype} in {len(values)} bytes"
        raise ValueError(f"a packed array of shape {header.shape}, {size}")
    return np.frombuffer(values, dtype=header.dtype).reshape(header.shape)


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Turn any error into JournalDamaged: the record is whole, but no run has written it."""
    try:
        yield
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a forged body may cause any error
        description = f"a record that cannot be read ({type(error).__name__}: {error})"
        raise JournalDamaged(path, None, description) from error


def _text(body: bytes) -> dict[str, Any]:
    """Return the JSON text of a record: its header, and the names of its arrays."""
    (length,) = TEXT_LENGTH.unpack_from(body)
    return dict(json.loads(body[TEXT_LENGTH.size : TEXT_LENGTH.size + length]))


def _bodies(path: Path) -> Iterator[bytes]:
    """Yield the bodies of all good records up to a torn tail."""
    with open(path, "rb") as file:
        offset = 0
        while (body := _body_at(file, offset)) is not None:
            yield body
            offset += HEAD.size + len(body)
        file.seek(offset)
        tail = file.read()
        marks = re.finditer(b"|".join(map(re.escape, MARKS.values())), tail)
        if any(mark.start() and _body_at(file, offset + mark.start()) is not None for mark in marks):
            raise JournalDamaged(path, offset, "a bad record with good ones after it")
        is_begun = any(tail.startswith(mark[: len(tail)]) for mark in MARKS.values())
        if offset == 0 and tail.strip(b"\0") and not is_begun:
            raise JournalDamaged(path, offset, _foreign(tail))


def _foreign(tail: bytes) -> str:
    """Describe a file that does not begin as a journal of these versions."""
    prefix, _, suffix = MARK.partition(bytes([VERSION]))
    if tail.startswith(prefix) and tail[len(prefix) + 1 :].startswith(suffix[: len(tail) - len(prefix) - 1]):
        expected = " or ".join(map(str, READABLE))
        return f"a journal of format version {tail[len(prefix)]}, expected version {expected}"
    return "no journal"


def _body_at(file: BinaryIO, offset: int) -> bytes | None:
    file.seek(offset)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    mark, length, digest, checksum = HEAD.unpack(head)
    if mark not in MARKS.values() or checksum != zlib.crc32(HEAD.pack(mark, length, digest, 0)):
        return None
    # A head may be forged, its checksum too: memory is taken only for bytes that exist.
    if length > os.fstat(file.fileno()).st_size - offset - HEAD.size:
        return None
    body = file.read(length)
    return body if len(body) == length and hashlib.sha256(body).digest() == digest else None
