"""Zip files whose members are stored as they are: each is a part of the file, and is read there.

A bundle has its cube as such a zip, which is a member of another one, so that one file holds everything and
nothing is unpacked. `read_at` reads a file of a cube in a folder, in a zip or at an address, and `write_zip`
writes one. A zip may come from anywhere: names that lead elsewhere, compressed members and members that share
bytes are refused.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from sweep_clustering.storage.files import PART_BYTES, Place, open_place, read, read_regular, storage_errors
from sweep_clustering.sweeps.errors import Problem, present, raise_all, refused, short_text

ZIP_SUFFIX = ".zip"
# End of the name of the cube in a bundle.
CUBE_SUFFIX = ".zarr.zip"

# Time of every member, so that the same content gives the same bytes: the first that a zip can have.
TIME = (1980, 1, 1, 0, 0, 0)

# Header before the content of a member: signature, and the lengths of its name and of its extra field.
HEADER = struct.Struct("<4s22xHH")
SIGNATURE = b"PK\x03\x04"
ENCRYPTED = 1

# Bits of a mode that say what a file is, and their value for a regular file.
FILE_TYPE = 0o170000
REGULAR_FILE = 0o100000

MOST_PROBLEMS = 20

# Zips that are kept open for further reads: a cube is read file by file.
MOST_CACHED = 32


class Archive:
    """Members of a zip, or of a zip that is a member of another one.

    Parameters
    ----------
    path : Path or str
        file that is read, which may be at an address
    start, size : int
        part of the file that is the zip; all of it by default
    file_size : int
        size of the file, if it is known

    Raises
    ------
    InputError
        With every problem, if this is no zip, or one that could do harm.
    """

    def __init__(
        self, path: Place, start: int = 0, size: int | None = None, file_size: int | None = None
    ) -> None:
        self.path, self._start = path, start
        with storage_errors(path), open_place(path, file_size) as file:
            self._file_size = file.seek(0, os.SEEK_END)
            self._size = self._file_size if size is None else size
            try:
                with zipfile.ZipFile(_Part(file, start, self._size)) as archive:
                    members = archive.infolist()
                if any(member.header_offset < 0 for member in members):
                    raise zipfile.BadZipFile("its beginning is missing")
            except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, struct.error) as error:
                hint = "a part of it may be missing: copy or download it again"
                raise refused(path, f"a broken file ({error})", "a whole zip", hint) from None
        raise_all(islice(self._problems(members), MOST_PROBLEMS))
        self._members = {item.filename: (item.header_offset, item.file_size, item.CRC) for item in members}

    @property
    def sizes(self) -> dict[str, int]:
        """Size of each member in bytes, by name."""
        return {name: size for name, (_, size, _) in self._members.items()}

    def member_archive(self, name: str) -> Archive:
        """Return the zip that is a member."""
        with storage_errors(self.path), open_place(self.path, self._file_size) as file:
            return Archive(self.path, self._place(file, name), self._members[name][1], self._file_size)

    def parts(self, name: str) -> Iterator[bytes]:
        """Yield the content of a member, some bytes at a time; raise InputError if it has changed."""
        digest, (_, size, crc) = 0, self._members[name]
        with storage_errors(self.path), open_place(self.path, self._file_size) as file:
            file.seek(self._place(file, name))
            while size and (part := file.read(min(size, PART_BYTES))):
                digest, size = zlib.crc32(part, digest), size - len(part)
                yield part
        if size or digest != crc:
            expected = "the content of its checksum"
            raise refused(f"{self.path}, member {name}", "other content", expected)

    def read(self, name: str, limit: int | None = None) -> bytes:
        """Return the content of a member.

        Raises
        ------
        FileNotFoundError
            If there is none of this name.
        InputError
            If it has more than `limit` bytes, or has changed.
        """
        if name not in self._members:
            raise FileNotFoundError(2, "no such member", f"{self.path}/{name}")
        size = self._members[name][1]
        if limit is not None and size > limit:
            raise refused(f"{self.path}, member {name}", f"{size:,} bytes", f"at most {limit:,}")
        return b"".join(self.parts(name))

    def _place(self, file: BinaryIO, name: str) -> int:
        """Return where the content of a member begins in the file."""
        offset, size, _ = self._members[name]
        file.seek(self._start + offset)
        header = file.read(HEADER.size)
        signature, *lengths = HEADER.unpack(header.ljust(HEADER.size, b"\0"))
        place: int = offset + HEADER.size + sum(lengths)
        if signature != SIGNATURE or place + size > self._size:
            raise refused(f"{self.path}, member {name}", "no content at its place", "a whole zip")
        return self._start + place

    def _problems(self, members: list[zipfile.ZipInfo]) -> Iterator[Problem]:
        for name, count in Counter(member.filename for member in members).items():
            if count > 1:
                yield Problem(self._location(name), f"{count} members of this name", "each name once")
        for member in members:
            name, mode = member.orig_filename, member.external_attr >> 16
            if {"", ".", ".."} & {*name.split("/")} or {*"\\:\0"} & {*name}:
                expected = "a path below the zip"
                yield Problem(self._location(name), "a path that may lead out of the zip", expected)
            if mode & FILE_TYPE not in (0, REGULAR_FILE):
                yield Problem(self._location(name), f"a link or a device (mode {mode:o})", "a file")
            if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
                yield Problem(self._location(name), "compressed content", "content that is stored as it is")
            elif member.flag_bits & ENCRYPTED:
                yield Problem(self._location(name), "encrypted content", "content that is stored as it is")
        # members that share bytes could be larger together than any memory
        total = sum(member.compress_size for member in members)
        if total > self._size:
            expected = f"at most the {self._size:,} of the zip"
            yield Problem(str(self.path), f"members of {total:,} bytes together", expected)

    def _location(self, name: str) -> str:
        return f"{self.path}, member {short_text(name)}"


class _Part(io.RawIOBase):
    """A part of an open file, as a file."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._position = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(22, "a position before the beginning")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        length = max(0, min(len(buffer), self._size - self._position))
        self._file.seek(self._start + self._position)
        content = self._file.read(length)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)


def read_at(place: Place, key: str, limit: int | None = None) -> bytes:
    """Return the content of a file of a cube, which is a folder, a zip, a bundle or at an address.

    A FileNotFoundError says that there is none, and an InputError that it is no regular file, is in a zip
    that could do harm, or has more than `limit` bytes, which must be known of a file at an address.
    """
    if is_zip(place):
        return cube_in(place).read(key, limit)
    if isinstance(place, str):
        return read(f"{place}/{key}", present(limit))
    return read_regular(place / key, limit)


def is_zip(place: Place) -> bool:
    """Whether a place is that of a zip: a bundle, or a cube in one file."""
    is_file = isinstance(place, str) or place.is_file()
    return is_file and str(place).endswith(ZIP_SUFFIX)


def cube_in(path: Place) -> Archive:
    """Return the cube of a zip, a member of it or the zip itself; a zip at an address never changes."""
    if isinstance(path, str):
        return _cube_in(path)
    status = path.stat()
    return _cube_in(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(MOST_CACHED)
def _cube_in(path: Place, *state: int) -> Archive:
    archive = Archive(path)
    cubes = [name for name in archive.sizes if name.endswith(CUBE_SUFFIX)]
    if len(cubes) > 1:
        raise refused(path, f"{len(cubes)} cubes", "a bundle, which has one")
    return archive.member_archive(cubes[0]) if cubes else archive


def write_zip(target: Path, members: Iterable[tuple[str, bytes | Path]]) -> None:
    """Write a zip of contents, or of files, that depends on their names and bytes alone."""
    with storage_errors(target), zipfile.ZipFile(target, "w", strict_timestamps=True) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, TIME)
            info.create_system, info.external_attr = 3, (REGULAR_FILE | 0o644) << 16
            # without its size a file beyond 2 GiB could not be declared as one
            info.file_size = len(content) if isinstance(content, bytes) else content.stat().st_size
            with archive.open(info, "w") as member:
                member.writelines(parts_of(content))


def parts_of(content: bytes | Path) -> Iterator[bytes]:
    """Yield a content, or that of a file, some bytes at a time."""
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part
