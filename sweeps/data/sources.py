"""Finding the raw file of a built-in data set in folders and zips."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from sweeps.data.registry import Entry
from sweeps.errors import InputError, Problem
from sweeps.files import read_file

DATA_DIR_VARIABLE = "SWEEP_DATA_DIR"
USER_CACHE_VARIABLE = "SWEEP_USER_CACHE"

MOST_BYTES = 2**28
"""Of a raw file, or of the zip it is published in."""

# The largest raw file has 0.5 MB. A member far larger is none of them, and may be made to fill the memory.
MEMBER_LIMIT = 32_000_000
# Publishers put a zip into a zip; deeper, a zip that holds itself would be opened without end.
ZIP_DEPTH = 2
MOST_MEMBERS = 10
"""Of the name of the raw file, in one zip."""


class Missing(Exception):
    """The file is not here; the next source may have it."""


class Damaged(Missing, ValueError):
    """A file of this name is here, with other content. (A ValueError, so that pooch tries again.)"""


def data_folder(data_dir: Path | None) -> Path | None:
    """The data directory: `data_dir`, else `SWEEP_DATA_DIR`, else None.

    Raises
    ------
    InputError
        If one is named that is not a directory: a misspelt name must not change where the data come from.
    """
    named = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        where = "--data-dir" if data_dir is not None else DATA_DIR_VARIABLE
        raise InputError([Problem(where, repr(str(named)), "a directory that exists")])
    return folder


def user_cache() -> Path:
    """Folder of downloaded raw files: `SWEEP_USER_CACHE`, else the operating system's user cache."""
    named = os.environ.get(USER_CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("sweep")) / "data"


def find_in_folder(entry: Entry, folder: Path) -> tuple[bytes, Path]:
    """The raw file in a folder, by itself or inside the zip it is published in.

    Returns
    -------
    content : bytes
        The raw file, its checksum verified.
    path : Path
        The raw file, or the zip that holds it.

    Raises
    ------
    Missing
        If the folder has neither.
    Damaged
        If it has one of them with other content, or one that cannot be read.
    """
    try:
        path = _path_in_folder(entry, folder)
        content = read_file(path, MOST_BYTES)
    except InputError as error:
        (problem,) = error.problems
        raise Damaged(f"{problem.where} cannot be read: {problem.found}") from error
    except OSError as error:
        raise Damaged(f"{error.filename or folder} cannot be read: {error.strerror or error}") from error
    try:
        return verified(content, entry), path
    except Damaged as damaged:
        raise Damaged(f"{path}: {damaged}") from None


def _path_in_folder(entry: Entry, folder: Path) -> Path:
    if not folder.is_dir():
        raise Missing(f"{folder} does not exist")
    published = PurePosixPath(unquote(urlsplit(entry.published.url).path)).name
    paths = sorted(folder.iterdir())
    found = [path for path in paths if path.name == entry.file]
    found += [path for path in paths if _letters(path.name) == _letters(published)]
    if not found:
        raise Missing(f"{folder} holds no {' or '.join(dict.fromkeys((entry.file, published)))}")
    return found[0]


def _letters(name: str) -> str:
    """Only the letters and digits: browsers save `a+b.zip` as `a b.zip` or `a_b.zip`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def verified(content: bytes, entry: Entry) -> bytes:
    """The raw file, from its own content or from that of a zip that holds it at any place.

    The checksum is that of the raw file, because a publisher may pack the same file again into another zip.
    pooch would need the checksum of the zip, and would unpack it into the folder; a data directory is the
    user's, and nothing is written to it.

    Raises
    ------
    Damaged
        If the checksum differs, or the zip is broken or holds no such member.
    """
    if _sha256(content) == entry.sha256:
        return content
    if not content.startswith(b"PK"):
        found = f"{len(content)} bytes with sha256 {_sha256(content)}"
        raise Damaged(f"{found}, expected sha256 {entry.sha256}")
    try:
        members = {_sha256(member): member for member in _members(content, entry.file, ZIP_DEPTH)}
    # an encrypted member is a RuntimeError, an unknown compression a NotImplementedError
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError) as error:
        raise Damaged(f"a broken zip ({error})") from error
    if not members:
        raise Damaged(f"a zip without a member {entry.file}")
    if entry.sha256 not in members:
        raise Damaged(f"its member {entry.file} has sha256 {next(iter(members))}, expected {entry.sha256}")
    return members[entry.sha256]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _members(content: bytes, file: str, depth: int) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = 0
        for info in archive.infolist():
            name = PurePosixPath(info.filename).name
            nested = name.lower().endswith(".zip") and depth > 1
            if info.file_size > MEMBER_LIMIT or not (nested or name == file):
                continue
            found += 1
            if found > MOST_MEMBERS:
                raise zipfile.BadZipFile(f"more than {MOST_MEMBERS} members of this name")
            member = archive.read(info)
            if nested:
                yield from _members(member, file, depth - 1)
            else:
                yield member
