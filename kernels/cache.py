"""Machine code of kernels on disk, which any process loads and one process at a time compiles.

`cache_folder` chooses the folder, `KernelCache` stores the files of one kernel in it, and `compile_alone`
lets one process compile. numba's own cache goes stale: it checks the source file of a kernel, but not those
of the kernels that it calls. Here the name of the folder is a hash of everything the machine code depends on.

The files are pickles: whoever can write to them can run code as the user. So a folder is used only if nobody
but the user and root can change or replace it (`OwnFolder`). A path alone is not enough, as whoever can write
to a folder on the way can put another in its place. So a path is walked from the root, each step relative to
the open folder before it, and files in the last folder are reached through its descriptor.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import gc
import hashlib
import logging
import os
import pickle
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

logger = logging.getLogger(__name__)

# Types of file systems that several nodes see: numba's cache is not safe there.
REMOTE_FILESYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs"}
    | {"gpfs", "lustre", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
)

# Environment variable that names the folder of a run to its processes.
RUN_FOLDER = "SWEEP_CACHE_OF_THIS_RUN"

# Seconds that another process compiles before a message says so.
SAY_AFTER = 5.0

# Seconds that another process compiles before this one compiles too.
WAIT_AT_MOST = 120.0

# Seconds between looks at the lock.
POLL = 0.05

# Most symbolic links on the way to a folder.
MOST_LINKS = 40


# The choice of the folder.


def cache_folder() -> OwnFolder | None:
    """Return the folder for compiled kernels; None, with a warning in the log, if no folder can be used.

    It is `SWEEP_CACHE_DIR`; else the user's cache, or the node's temporary directory if the former is on a
    network file system. If somebody else could write there, a folder of this run replaces it: it ends with
    this process, and processes that it starts find it and do not warn again.
    """
    name = f"kernels-{fingerprint()}"
    user_folder, run_folder = os.environ.get("SWEEP_CACHE_DIR"), os.environ.get(RUN_FOLDER)
    try:
        if user_folder:
            return OwnFolder(Path(user_folder).expanduser().absolute(), name)
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
        node = Path(tempfile.gettempdir()) / f"sweep-cache-{os.getuid()}"
        return OwnFolder(node if on_remote_filesystem(cache) else cache / "sweep", name)
    except (OSError, RuntimeError) as error:  # RuntimeError for an unknown home
        reason = error
    if run_folder and os.path.isdir(run_folder):
        with suppress(OSError):
            return OwnFolder(Path(run_folder), name)
    try:
        root = tempfile.mkdtemp(prefix="sweep-kernels-")
        try:
            folder = OwnFolder(Path(root).absolute(), name)
        except OSError:
            os.rmdir(root)  # only an empty folder: others may have put anything in its place
            raise
    except OSError:
        text = "compiled kernels are not cached, each process compiles again: %s (see SWEEP_CACHE_DIR)"
        logger.warning(text, reason)
        return None
    process = os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # a fork may run this too
            shutil.rmtree(root, ignore_errors=True)

    atexit.register(remove)
    os.environ[RUN_FOLDER] = str(folder.path.parent)
    logger.warning("compiled kernels are kept for this run only: %s (see SWEEP_CACHE_DIR)", reason)
    return folder


def fingerprint() -> str:
    """Return a hash of the kernels' sources, the compiler's versions and the CPU in 24 hexadecimal digits."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for source in sorted(package.rglob("*.py")):
        digest.update(source.relative_to(package).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    cpu = (llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten())
    for word in (numba.__version__, llvmlite.__version__, np.__version__, *cpu):
        digest.update(word.encode() + b"\0")
    return digest.hexdigest()[:24]


def on_remote_filesystem(path: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Return whether `path`, which need not exist, lies on a file system that other nodes see too.

    Without a table of mounts, as outside Linux, the answer is False.
    """
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return False
    points = [(Path(point.replace("\\040", " ")), kind) for _, point, kind, *_ in map(str.split, lines)]
    resolved = path.resolve()
    parents = [(len(point.parts), kind) for point, kind in points if resolved.is_relative_to(point)]
    # The deepest point counts, and the last one of several mounts on it, as sorting keeps the order of
    # equals.
    parents.sort(key=lambda mount: mount[0])
    return bool(parents) and parents[-1][1] in REMOTE_FILESYSTEMS


# Folders that nobody but the user and root can change or replace.

# With O_PATH, if the system has it, a folder on the way need not be readable (mode 0711).
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW


class OwnFolder:
    """A folder of the user alone (mode 0700), held open, and the files in it.

    Parameters
    ----------
    root : Path
        Absolute path of the folder that holds it. Missing folders on the way are made.
    name : str
        Name of the folder in `root`; a missing one is made.

    Raises
    ------
    PermissionError
        If somebody else could change or replace it; the text names the place, its owner and mode, and a
        remedy.
    OSError
        If the folder cannot be made, or takes no file.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.path = root / name
        parent = open_trusted(root)
        try:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
            self._folder = os.open(name, _STEP, dir_fd=parent)
        finally:
            os.close(parent)
        status = os.fstat(self._folder)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            os.close(self._folder)
            raise PermissionError(f"{self.path} {_description(status)}: chmod 700 {self.path}, or remove it")
        probe = f"probe-{secrets.token_hex(8)}"
        self.write(probe, b"")
        self.remove(probe)

    def has_file(self, name: str) -> bool:
        """Return whether there is a file that the user alone may have written."""
        try:
            return _is_ours(os.stat(name, dir_fd=self._folder, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none, or if somebody else may have written it."""
        if not self.has_file(name):
            return None
        with self.open_file(name, os.O_RDONLY) as descriptor, open(descriptor, "rb", closefd=False) as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one step, so that readers see it whole or not at all."""
        partial = f"{name}.{secrets.token_hex(8)}.partial"
        try:
            new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with self.open_file(partial, new) as descriptor, open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            os.replace(partial, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            with suppress(OSError):
                self.remove(partial)
            raise

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    @contextmanager
    def open_file(self, name: str, flags: int) -> Iterator[int]:
        """Open a file of the user alone with `flags`; anything else raises a PermissionError."""
        # Without blocking, as something else may be there, such as a pipe.
        descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=self._folder)
        try:
            status = os.fstat(descriptor)
            if not _is_ours(status):
                raise PermissionError(f"{self.path / name} {_description(status)}")
            yield descriptor
        finally:
            os.close(descriptor)


def open_trusted(path: Path) -> int:
    """Open a folder that nobody but the user and root can change or replace; return an open descriptor.

    Missing folders are made. Every folder on the way, and every link, must belong to the user or to root, and
    others must not be able to write there. A sticky folder such as /tmp is allowed on the way, because only
    owners can rename its entries, and these owners are checked next. It is not allowed as the last one:
    anybody could put files there. Links are followed step by step, under the same rule.

    Raises
    ------
    PermissionError
        With the place, its owner and mode, and a remedy.
    OSError
        If a folder can be neither found nor made.
    """
    place, names, n_links = Path("/"), list(reversed(path.absolute().parts)), 0
    folder = os.open("/", _STEP)
    with ExitStack() as stack:
        stack.callback(os.close, folder)
        while names:
            name = names.pop()
            status = _status_or_new(name, folder)
            if status.st_uid not in (0, os.geteuid()):
                owner = f"neither yours (user {os.geteuid()}) nor root's"
                raise PermissionError(f"{place / name} {_description(status)}: {owner}")
            if stat.S_ISLNK(status.st_mode):
                n_links += 1
                if n_links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                # An absolute target begins with "/", which leads back to the root.
                names += reversed(PurePath(os.readlink(name, dir_fd=folder)).parts)
                continue
            folder = os.open(name, _STEP, dir_fd=folder)
            stack.callback(os.close, folder)
            place = place / name
            status = os.fstat(folder)
            is_sticky_on_the_way = names and status.st_mode & stat.S_ISVTX
            is_writable = status.st_mode & 0o022 and not is_sticky_on_the_way
            if status.st_uid not in (0, os.geteuid()) or is_writable:
                remedy = f"chmod {'go' if status.st_mode & 0o002 else 'g'}-w {place}"
                raise PermissionError(f"{place} {_description(status)}: {remedy}")
        return os.dup(folder)


def _status_or_new(name: str, folder: int) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _is_ours(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _description(status: os.stat_result) -> str:
    mode = stat.S_IMODE(status.st_mode)
    return f"belongs to user {status.st_uid} and group {status.st_gid}, mode {mode:04o}"


# The files of a kernel.


class KernelCache:
    """Files of one kernel, one for each signature; a failure to read or write is a warning and no error.

    Only files that the user alone may have written are unpickled: see `OwnFolder`.
    """

    def __init__(self, function: Callable[..., Any], folder: OwnFolder) -> None:
        self._folder = folder
        self._name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        # The name of the folder covers no kernel from outside of the package, so its file counts here.
        self._source = hashlib.sha256(Path(function.__code__.co_filename).read_bytes()).hexdigest()

    @property
    def cache_path(self) -> str:
        """Path of the folder."""
        return str(self._folder.path)

    def has_code(self, signature: Any, target_context: Any) -> bool:
        """Return whether there is machine code for a signature; the file may turn out to be damaged."""
        try:
            return self._folder.has_file(self._file(signature, target_context.codegen()))
        except OSError as error:
            warn_not_cached(self._folder, error)
            return False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for a signature; None if there is none."""
        target_context.refresh()
        name = self._file(sig, target_context.codegen())
        try:
            content = self._folder.read(name)
            if content is not None:
                return CompileResult._rebuild(target_context, *pickle.loads(content))
        except OSError as error:
            warn_not_cached(self._folder, error)
        except Exception as error:  # pickle may raise anything for damaged bytes
            logger.debug("machine code of a kernel cannot be read: %r", error)
            with suppress(OSError):  # it is written again after the compilation
                self._folder.remove(name)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write machine code to its file."""
        if data.lifted or data.library.has_dynamic_globals:  # it contains addresses of this process
            return
        try:
            self._folder.write(self._file(sig, data.codegen), dumps(data._reduce()))
        except OSError as error:
            warn_not_cached(self._folder, error)

    def enable(self) -> None:
        """Do nothing: the cache is always on, and files of another source have other names."""

    disable = flush = enable

    def _file(self, signature: Any, codegen: Any) -> str:
        key = repr((str(signature), codegen.magic_tuple(), self._source))
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.kernel"


# Messages that this process has logged.
logged_texts: set[str] = set()


def warn_not_cached(folder: OwnFolder, error: OSError) -> None:
    """Warn, once in a process, that the next process has to compile again."""
    text = "compiled kernels are not cached in %s, each process compiles again: %s (see SWEEP_CACHE_DIR)"
    _log_once(logging.WARNING, text, folder.path, error)


def _log_once(level: int, text: str, *arguments: object) -> None:
    if text not in logged_texts:
        logged_texts.add(text)
        logger.log(level, text, *arguments)


# One process at a time.

_compiling: list[OwnFolder] = []


def compile_alone(kernel: Any, folder: OwnFolder) -> None:
    """Let one process at a time compile a kernel; the others load its machine code, all at once."""
    compile_or_load = kernel.compile

    def compile_or_wait(signature: Any) -> Any:
        def is_there() -> bool:
            return bool(kernel._cache.has_code(signature, kernel.targetctx))

        # numba's own lock is taken first, always: two threads with the two locks in either order would block.
        with global_compiler_lock:
            # A kernel that another kernel calls is compiled under the lock of its caller.
            if _compiling or is_there():
                return compile_or_load(signature)
            text = "compiling the kernels, which may take half a minute"
            if str(folder.path.parent) == os.environ.get(RUN_FOLDER):
                _log_once(logging.INFO, text)  # the folder ends with the run: no later call finds them
            else:
                _log_once(logging.INFO, f"{text}; later calls find them in %s", folder.path)
            with lock(folder, is_there):
                return compile_or_load(signature)

    kernel.compile = compile_or_wait


@contextmanager
def lock(folder: OwnFolder, is_there: Callable[[], bool]) -> Iterator[None]:
    """Hold the lock of a folder, unless the machine code is there: then many processes load it at once."""
    with ExitStack() as stack:
        try:
            _take(stack.enter_context(folder.open_file("lock", os.O_RDWR | os.O_CREAT)), is_there, folder)
        except OSError as error:
            warn_not_cached(folder, error)
        if is_there():
            stack.close()
        _compiling.append(folder)
        stack.callback(_compiling.clear)
        # A compilation makes many objects, and most of them stay: a fifteenth less time, for 30 MB more.
        stack.callback(gc.set_threshold, *gc.get_threshold())
        gc.set_threshold(50_000, 20, 50)
        yield


def _take(descriptor: int, is_there: Callable[[], bool], folder: OwnFolder) -> None:
    """Lock a file; return without the lock once the machine code is there, or after too long a wait."""
    start = time.monotonic()
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        waited = time.monotonic() - start
        if waited > WAIT_AT_MOST:
            text = "another process has been compiling the kernels in %s for %.0f s: compiling them here too"
            logger.warning(text, folder.path, waited)
            return
        if waited > SAY_AFTER:
            _log_once(
                logging.INFO, "waiting for another process, which compiles the kernels in %s", folder.path
            )
        time.sleep(POLL)
        if is_there():
            return
