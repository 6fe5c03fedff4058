"""Files of this machine that are whole or absent, through a loss of power too, and files at an address.

`storage_errors` gives errors of the file system their path and what is needed there; `read` reads a file of a
cube on a web server or in a bucket.
"""

import errno
import hashlib
import itertools
import logging
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from sweep_clustering.sweeps.errors import InputError, refused

# Begin of an address. Other protocols of fsspec, and chains of them, could name files of this machine.
ADDRESS = re.compile(r"^(https?|s3|memory):/+")

EXTRA = "pip install 'sweep-clustering[remote]'"
CREDENTIALS = (
    "credentials that may read it, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or FSSPEC_S3_ANON=true if anyone may"
)
# Names of errors of botocore, which may be missing.
NO_CREDENTIALS = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "ProfileNotFound",
)

# Longest silence of a web server, in seconds.
ANSWER_SECONDS = 30

# Bytes that are read at once.
PART_BYTES = 2**20

# Bytes that are read ahead in a zip at an address: most members are smaller.
BLOCK_BYTES = 2**14

# Place of a cube: a path of this machine, or an address as text.
Place = Path | str


def place_of(text: Place) -> Place:
    """Return a path as it is, and an address as text, which a `Path` would change."""
    is_address = ADDRESS.match(str(text))
    return ADDRESS.sub(r"\1://", str(text)).rstrip("/") if is_address else Path(text)


def read(address: str, limit: int) -> bytes:
    """Return the content of the file at an address, which has the form that `place_of` returns.

    Parameters
    ----------
    address : str
        address of the file
    limit : int
        Largest size in bytes: no more is read, whatever size the server declares.

    Raises
    ------
    FileNotFoundError
        If there is none.
    OSError
        If it cannot be read.
    InputError
        If it is larger, or no package for such addresses is installed.
    """
    with _explained(address):
        content = _read(address, limit)
    if len(content) > limit:
        raise refused(address, f"more than {limit:,} bytes", f"at most {limit:,}")
    return content


@contextmanager
def open_place(place: Place, size: int | None = None) -> Iterator[BinaryIO]:
    """Open a file to read parts of it; at an address, the server must be able to send parts.

    With the size, which would be requested, this requests nothing yet.
    """
    if isinstance(place, Path):
        with place.open("rb") as file:
            yield file
        return
    try:
        with _explained(place), _files_of(place).open(place, "rb", block_size=BLOCK_BYTES, size=size) as file:
            yield file
    except FileNotFoundError as error:
        raise refused(place, f"nothing there ({error.strerror})", "a zip") from None


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turn the errors of the libraries that read an address into those of `read`."""
    try:
        yield
    except InputError:
        raise
    except ImportError as error:
        reason = f"nothing that reads it ({error})"
        raise refused(address, reason, "a package for such addresses", EXTRA) from None
    except Exception as error:  # an error of any library below
        text = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        # fsspec reports a missing file also when the server does not answer
        cut_off = isinstance(error, FileNotFoundError) and isinstance(error.__cause__, OSError)
        status = getattr(error, "status", 404 if isinstance(error, FileNotFoundError) else None)
        if status in (404, 410) and not cut_off:
            # the message of a bucket says whether the bucket or the file is missing
            reason = text if isinstance(error, FileNotFoundError) and address not in text else "not there"
            raise FileNotFoundError(errno.ENOENT, reason, address) from None
        is_denied = status in (401, 403) or isinstance(error, PermissionError)
        is_denied = is_denied or type(error).__name__ in NO_CREDENTIALS
        code = errno.EACCES if is_denied else errno.ENETUNREACH
        raise OSError(code, str(error.__cause__) if cut_off else text, address) from error


def _read(address: str, limit: int) -> bytes:
    """Return the content of a file, at most one byte more than `limit`."""
    files = _files_of(address)
    if not address.startswith("http"):
        # one request; to open it as a file would take another one for its size
        try:
            return bytes(files.cat_file(address, start=0, end=limit + 1))
        except OSError as error:
            if error.errno != errno.EINVAL or files.size(address) != 0:
                raise
            return b""  # an empty file has no range to ask for
    content = bytearray()
    # A stream, because a server need not support parts of files. With a size there is no request for it.
    with files.open(address, "rb", block_size=0, size=limit + 1) as file:
        while len(content) <= limit and (part := file.read(PART_BYTES)):
            content += part
    return bytes(content)


def _files_of(address: str) -> Any:
    """Return the file system of an address; a silent web server fails after seconds, not after minutes."""
    import fsspec

    if not address.startswith("http"):
        return fsspec.filesystem(address.partition(":")[0])
    import aiohttp

    limits = aiohttp.ClientTimeout(total=None, sock_connect=ANSWER_SECONDS, sock_read=ANSWER_SECONDS)
    return fsspec.filesystem("http", client_kwargs={"timeout": limits})


NEED_OF_ERROR = {
    errno.ENOSPC: "free space",
    errno.EDQUOT: "room in the disk quota, which is used up",
    errno.EFBIG: "a limit of file sizes that is not reached (ulimit -f)",
    errno.EROFS: "a file system that is not read-only",
    errno.EACCES: "permission to read and write",
    errno.EPERM: "permission to change the file",
    errno.ENOENT: "the directory, which has vanished",
    errno.ENOTDIR: "a directory, but something else is there",
    errno.ESTALE: "the network file system to come back: its handle is stale",
    errno.EMFILE: "more open files (ulimit -n)",
    errno.ENETUNREACH: "a network, and a server that answers",
    errno.EIO: "a disk that works: the system reports an input/output error",
}


@dataclass(eq=False)
class StorageError(Exception):
    """The file system refused an operation: no result is lost, and no cell has failed."""

    path: Place
    need: str  # a condition for the sweep to continue
    reason: str  # message of the system

    def __str__(self) -> str:
        return f"{self.path}: needs {self.need} ({self.reason})"


class DamagedChunk(StorageError):
    """A chunk file of a cube has changed since it was written, or is missing; nothing of it was used.

    Parameters
    ----------
    path : Path or str
        The file.
    holds : str
        Array and cells whose values are in the file.
    problem : str
        Fault of the file.
    cube : Path or str
        The cube, which `sweep repair` mends.

    Examples
    --------
    >>> from sweep_clustering import DamagedChunk, open_cube, scores
    >>> tree = open_cube("results/quick.zarr")
    >>> try:
    ...     nmi = scores(tree, "iris")["nmi"].compute()
    ... except DamagedChunk as damage:
    ...     print(f"sweep repair {damage.cube}, because of {damage.path}")
    """

    def __init__(self, path: Place, holds: str, problem: str, cube: Place) -> None:
        super().__init__(path, "repair", problem)
        self.holds, self.cube = holds, cube

    def __str__(self) -> str:
        remedy = f"To have it made again: sweep repair {self.cube}"
        return f"{self.path}: {self.reason}; it holds {self.holds}. {remedy}"


class LeaseLost(Exception):
    """The right to write a cube is gone: another process has taken over, or the lease was removed."""


@contextmanager
def storage_errors(path: Place, n_bytes: int | None = None) -> Iterator[None]:
    """Turn every OSError of the block into a StorageError.

    Parameters
    ----------
    path : Path or str
        place to name if the system's error names no file
    n_bytes : int, optional
        size of the write, which is named if the disk is full
    """
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        # The target, if the operation was a rename.
        name = error.filename2 or error.filename
        location = place_of(name) if isinstance(name, str) else path
        need = NEED_OF_ERROR.get(code, "a file system that accepts the operation")
        if code == errno.EACCES and isinstance(location, str):
            need = CREDENTIALS
        if n_bytes is not None and code in (errno.ENOSPC, errno.EDQUOT):
            need = f"{n_bytes:,} bytes of {need}"
        prefix = "the disk is full: " if code == errno.ENOSPC else ""
        raise StorageError(location, need, prefix + (error.strerror or str(error))) from error


@contextmanager
def building(target: Path) -> Iterator[Path]:
    """Yield a new folder beside a target to make it in, and remove the folder in any case."""
    folder = target.with_name(f".{target.name}.{os.getpid()}")
    with storage_errors(target):
        try:
            folder.mkdir(parents=True)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


logger = logging.getLogger(__name__)

# Suffix of incomplete files; those of a killed process are removed later.
PARTIAL = ".partial"

# Errors of file systems that cannot sync a directory: CIFS, 9p and some of FUSE.
CANNOT_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})

# Devices that the log has named already.
unsynced_devices: set[int] = set()

# Largest root file of a store, in bytes. A sweep of 1,000,000 cells needs 30 kB, and each run adds 1 kB.
LONGEST_ROOT = 2**26

# Files of a directory that may vanish while it is removed, because another process removes it, too.
MOST_COLLISIONS = 10_000


class Notes(NamedTuple):
    """Files in which a holder notes what it wrote into its cube.

    These are digests of all files and a copy of the root file. A checksum within a file shows that it has
    changed, but not that it is another whole file.
    """

    cube: Path
    digests: Path
    root: Path


class Files:
    """A writer that replaces files: readers see the old content or the new, never a part.

    A cube has one writer at a time, the holder of its lease. It may be suspended at any point, by a hung
    mount for instance, and wake after another process has taken over. So it writes everything in a folder
    that it alone uses (None outside of a lease), and renames it from there. The next holder renames that
    folder away, and from then on each rename of the former one fails.
    """

    def __init__(self, folder: Path | None = None, generation: int = 0, notes: Notes | None = None) -> None:
        self.generation = generation
        self._folder = folder
        self._notes = notes
        self._number = itertools.count()

    def put(self, path: Path, data: bytes) -> None:
        """Put `data` at `path` in one step; the parent must exist.

        The content is on disk before the name points to it. The name itself is, after `sync_directory` of the
        parent.
        """
        partial = self.partial(path)
        try:
            with self.fenced():
                self.note([(path, data)])
                write_new(partial, data)
                os.replace(partial, path)
        except Exception:
            partial.unlink(missing_ok=True)
            raise

    def put_all(self, root: Path, files: Iterable[tuple[str, bytes]]) -> None:
        """Put files by keys with `/` below an existing `root`, making directories as needed, all durable."""
        changed_folders = set()
        for key, data in files:
            path = root / key
            folders = [
                folder for folder in path.parents if folder.is_relative_to(root) and not folder.exists()
            ]
            for folder in reversed(folders):
                folder.mkdir(exist_ok=True)
            self.put(path, data)
            changed_folders |= {path.parent, *(folder.parent for folder in folders)}
        # Names last: every content is durable by now.
        for folder in sorted(changed_folders):
            sync_directory(folder)

    def build(self, path: Path, files: Iterable[tuple[str, bytes]]) -> None:
        """Put a new directory at `path` in one step, durable: nothing may be there; its parent must exist."""
        building, files = self.partial(path), list(files)
        with self.fenced():
            self.note((path / key, data) for key, data in files)
            remove(building)  # left by a writer that was killed
            building.mkdir()
            # A plain writer suffices: nobody sees the files before the directory has its name.
            Files().put_all(building, files)
            sync_directory(building)
            os.replace(building, path)
        sync_directory(path.parent)

    def remove(self, path: Path) -> None:
        """Remove a file, a link or a whole directory, if it exists."""
        target = path
        if self._folder is not None:
            target = self.partial(path)
            with self.fenced(), suppress(FileNotFoundError):
                try:
                    os.rename(path, target)
                finally:
                    self.check()
        remove(target)

    def check(self) -> None:
        """Raise LeaseLost if a later holder of the lease has closed the folder."""
        if self._folder is not None:
            with self.fenced():
                os.stat(self._folder)

    def note(self, contents: Iterable[tuple[Path, bytes]]) -> None:
        """Note the digests of files of the cube before they get their names, and copy the root file."""
        if self._notes is None:
            return
        (cube, digests, root), lines = self._notes, []
        for path, data in contents:
            if path.is_relative_to(cube):
                lines.append(f"\n{digest_of(data)} {path.relative_to(cube).as_posix()}\n")
            if path.parent == cube:  # the root file: all others are below
                copy = self.partial(root)
                write_new(copy, data)
                os.replace(copy, root)
        # The first line break ends a line that a kill may have torn.
        if lines:
            with digests.open("ab", buffering=0) as file:
                file.write("".join(lines).encode())

    def settle(self) -> None:
        """Make the notes durable."""
        if self._notes is not None and self._notes.digests.exists():
            with self.fenced(), self._notes.digests.open("rb+") as file:
                os.fsync(file.fileno())

    def partial(self, path: Path) -> Path:
        """Return the name of a file until it is complete; a holder uses no name twice."""
        if self._folder is None:
            return path.with_name(path.name + PARTIAL)
        return self._folder / f"{next(self._number)}.{path.name}"

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Turn an error that a later holder of the lease has caused into `LeaseLost`."""
        try:
            yield
        except OSError as error:
            folder = self._folder
            # If the folder of the run is missing too, the disk is gone, which is another error.
            if folder is None or folder.is_dir() or not folder.parents[1].is_dir():
                raise
            raise LeaseLost(f"{folder.parents[1]}: another process has taken the lease") from error


PLAIN = Files()


def digest_of(content: bytes) -> str:
    """Return a digest that differs for other files of the cube, and by all chance for changed ones."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """Return the content of a regular file; a link is not followed, and a pipe not awaited.

    Raises InputError for anything else, and for more than `limit` bytes.
    """
    if (kind := kind_of(path)) != "a file":
        raise refused(path, kind, "a file of the cube")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if limit is not None and size > limit:
            raise refused(path, f"{size:,} bytes", f"at most {limit:,}")
        return file.read(-1 if limit is None else limit)


def kind_of(path: Path) -> str:
    """Return the kind of file at a path, in words; a link is not followed."""
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFLNK: "a link",
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a pipe",
    }
    return kinds.get(stat.S_IFMT(os.lstat(path).st_mode), "a device or a socket")


def sync_directory(path: Path, *, has_note: bool = True) -> None:
    """Make the names in a directory durable, or log once that its file system cannot do that.

    `has_note=False` leaves the log to a later call, because it is not open yet.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        # some systems open no directory; a directory without permission is another error
        refuses = error.errno in (*CANNOT_SYNC, errno.EACCES, errno.EISDIR)
        if not refuses or not os.path.isdir(path) or not os.access(path, os.R_OK):
            raise
        reason = error.strerror
    else:
        try:
            os.fsync(descriptor)
            return
        except OSError as error:
            if error.errno not in CANNOT_SYNC:
                raise
            reason = error.strerror
        finally:
            os.close(descriptor)
    device = os.stat(path).st_dev
    if has_note and device not in unsynced_devices:
        unsynced_devices.add(device)
        logger.warning(
            "%s: its file system cannot sync a directory (%s). After a loss of power the files written last"
            " may be missing, also of cells that were reported done: sweep verify --checksums finds them",
            path,
            reason,
        )


def write_new(path: Path, data: bytes) -> None:
    """Write a file durably under a name that no reader looks for."""
    # O_NOFOLLOW: a link under this name would lead the write out of the cube.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        # Before the rename: otherwise the name could point to an empty file after a loss of power.
        os.fsync(file.fileno())


def remove(path: Path) -> None:
    """Remove a file, a link or a whole directory, if it exists; another process may be removing it, too."""
    collisions = 0
    while path.is_dir() and not path.is_symlink():
        try:
            shutil.rmtree(path)
        except FileNotFoundError:  # a file was listed before another process removed it
            collisions += 1
            if collisions == MOST_COLLISIONS:
                raise
    path.unlink(missing_ok=True)
