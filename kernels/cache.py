"""Machine code of kernels on disk: loaded by whoever needs it, compiled by one process at a time.

`cache_folder` chooses the folder, `KernelCache` keeps the files of one kernel in it, and `compile_alone` lets
one process compile. numba's own cache goes stale: it checks the source file of a kernel, not those of the
kernels it calls. Here the folder is named after everything the machine code depends on.

The files are pickles: who can write to them can run code as the user. So a folder is used only if nobody but
the user and root can change or replace it (`OwnFolder`). A path alone is not enough: who can write to any
folder on the way can put another in its place. So a path is walked from the root, each step relative to the
open folder before it, and what lies in the last one is reached through its descriptor: nothing done to the
path later leads elsewhere.
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

# Types of file systems seen by several nodes: numba's cache is not safe there.
REMOTE_FILESYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs"}
    | {"gpfs", "lustre", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
)

# Environment variable that tells the processes of a run of the folder that one of them made.
OF_THIS_RUN = "SWEEP_CACHE_OF_THIS_RUN"

# Seconds that another process compiles before that is said, before this one compiles too; between looks.
SAY_AFTER, WAIT_AT_MOST, POLL = 5.0, 120.0, 0.05

MOST_LINKS = 40


# Which folder.


def cache_folder() -> OwnFolder | None:
    """Folder for compiled kernels, made if needed.

    `SWEEP_CACHE_DIR` if it is set; else the user's cache, or the node's temporary directory where the former
    is on a network file system. Where somebody else could write, a folder of this run alone takes its place:
    it ends with this process, and processes that it starts find it and do not warn again.

    Returns
    -------
    OwnFolder or None
        None, with a warning in the log, if no folder can be used at all.
    """
    name = f"kernels-{fingerprint()}"
    chosen, given = os.environ.get("SWEEP_CACHE_DIR"), os.environ.get(OF_THIS_RUN)
    try:
        if chosen:
            return OwnFolder(Path(chosen).expanduser().absolute(), name)
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
        node = Path(tempfile.gettempdir()) / f"sweep-cache-{os.getuid()}"
        return OwnFolder(node if on_remote_filesystem(cache) else cache / "sweep", name)
    except (OSError, RuntimeError) as error:  # the latter of a home that is not known
        why = error
    if given and os.path.isdir(given):
        with suppress(OSError):
            return OwnFolder(Path(given), name)
    try:
        root = tempfile.mkdtemp(prefix="sweep-kernels-")
        try:
            folder = OwnFolder(Path(root).absolute(), name)
        except OSError:
            os.rmdir(root)  # only if empty: others may have put anything in its place
            raise
    except OSError:
        text = "compiled kernels are not cached, each process compiles again: %s (see SWEEP_CACHE_DIR)"
        logger.warning(text, why)
        return None
    process = os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # a fork may run this too
            shutil.rmtree(root, ignore_errors=True)

    atexit.register(remove)
    os.environ[OF_THIS_RUN] = str(folder.path.parent)
    logger.warning("compiled kernels are kept for this run only: %s (see SWEEP_CACHE_DIR)", why)
    return folder


def fingerprint() -> str:
    """Hash of the kernels' sources, the compiler's versions and the CPU.

    Returns
    -------
    str
        24 hexadecimal digits.
    """
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for source in sorted(package.rglob("*.py")):
        digest.update(source.relative_to(package).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    cpu = (llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten())
    for word in (numba.__version__, llvmlite.__version__, np.__version__, *cpu):
        digest.update(word.encode() + b"\0")
    return digest.hexdigest()[:24]


def on_remote_filesystem(path: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Whether `path` lies on a file system that other nodes see too.

    Parameters
    ----------
    path : pathlib.Path
        Need not exist.
    mounts : pathlib.Path
        Table of mounts; where there is none (not Linux), the answer is False.
    """
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return False
    points = [(Path(point.replace("\\040", " ")), kind) for _, point, kind, *_ in map(str.split, lines)]
    resolved = path.resolve()
    above = [each for each in points if resolved.is_relative_to(each[0])]
    # The deepest point counts, and of several mounts on it the last one: the order of equals is kept.
    above.sort(key=lambda each: len(each[0].parts))
    return bool(above) and above[-1][1] in REMOTE_FILESYSTEMS


# Folders that nobody but the user and root can change or replace.

# O_PATH, where there is one: a folder on the way may be searched and not read (mode 0711).
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW


class OwnFolder:
    """A folder of the user's alone (mode 0700), held open, and the files in it.

    Parameters
    ----------
    root : Path
        Absolute; the folder that holds it. Made, with those above it, if missing.
    name : str
        Its name in `root`; made if missing.

    Raises
    ------
    PermissionError
        If somebody else could change or replace it; the text names the place, its owner and mode, and what
        helps.
    OSError
        If it cannot be made, or holds no file.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.path = root / name
        above = open_trusted(root)
        try:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=above)
            self._folder = os.open(name, _STEP, dir_fd=above)
        finally:
            os.close(above)
        found = os.fstat(self._folder)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            os.close(self._folder)
            raise PermissionError(f"{self.path} {_state(found)}: chmod 700 {self.path}, or remove it")
        probe = f"probe-{secrets.token_hex(8)}"
        self.write(probe, b"")
        self.remove(probe)

    def holds(self, name: str) -> bool:
        """Whether `read` would give something."""
        try:
            return _is_ours(os.stat(name, dir_fd=self._folder, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def read(self, name: str) -> bytes | None:
        """Content of a file; None if there is none, or one that somebody else may have written."""
        if not self.holds(name):
            return None
        with self.opened(name, os.O_RDONLY) as descriptor, open(descriptor, "rb", closefd=False) as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one step: readers see it whole or not at all."""
        partial = f"{name}.{secrets.token_hex(8)}.partial"
        try:
            new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with self.opened(partial, new) as descriptor, open(descriptor, "wb", closefd=False) as file:
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
    def opened(self, name: str, flags: int) -> Iterator[int]:
        """Descriptor of a file, opened with `flags`.

        Raises
        ------
        PermissionError
            If it is not a file of the user's alone.
        """
        # Not blocking: something else may stand there, such as a pipe.
        descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=self._folder)
        try:
            found = os.fstat(descriptor)
            if not _is_ours(found):
                raise PermissionError(f"{self.path / name} {_state(found)}")
            yield descriptor
        finally:
            os.close(descriptor)


def open_trusted(path: Path) -> int:
    """Open a folder that nobody but the user and root can change or replace; made if missing, as its parents.

    Each folder on the way, and each link, belongs to the user or to root, and others cannot write there. A
    sticky folder such as /tmp may be passed: only owners can rename what lies in it, and the owner of that is
    looked at next. The last one may not be: anybody could put files there. Links are followed step by step,
    under the same rule.

    Parameters
    ----------
    path : Path
        One that is relative is walked from the root as well.

    Returns
    -------
    int
        A descriptor, to be closed by the caller.

    Raises
    ------
    PermissionError
        With the place, its owner and mode, and what helps.
    OSError
        If a folder can be neither found nor made.
    """
    here, ahead, links = Path("/"), list(reversed(path.absolute().parts)), 0
    folder = os.open("/", _STEP)
    with ExitStack() as passed:
        passed.callback(os.close, folder)
        while ahead:
            name = ahead.pop()
            found = _found_or_made(name, folder)
            if found.st_uid not in (0, os.geteuid()):
                whose = f"neither yours (user {os.geteuid()}) nor root's"
                raise PermissionError(f"{here / name} {_state(found)}: {whose}")
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                # A target that is absolute begins with "/", which leads back to the root.
                ahead += reversed(PurePath(os.readlink(name, dir_fd=folder)).parts)
                continue
            folder = os.open(name, _STEP, dir_fd=folder)
            passed.callback(os.close, folder)
            here = here / name
            opened = os.fstat(folder)
            mode = opened.st_mode
            is_passed = ahead and mode & stat.S_ISVTX
            if opened.st_uid not in (0, os.geteuid()) or (mode & 0o022 and not is_passed):
                helps = f"chmod {'go' if mode & 0o002 else 'g'}-w {here}"
                raise PermissionError(f"{here} {_state(opened)}: {helps}")
        return os.dup(folder)


def _found_or_made(name: str, folder: int) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _state(found: os.stat_result) -> str:
    mode = stat.S_IMODE(found.st_mode)
    return f"belongs to user {found.st_uid} and group {found.st_gid}, mode {mode:04o}"


# The files of a kernel.


class KernelCache:
    """Files of one kernel, one for each signature; what cannot be read or written gives a warning, no error.

    Nothing is unpickled but files that the user alone may have written: see `OwnFolder`.

    Parameters
    ----------
    function : callable
        The kernel's Python function.
    folder : OwnFolder
        Named after all that the machine code of the package's kernels depends on.
    """

    def __init__(self, function: Callable[..., Any], folder: OwnFolder) -> None:
        self._folder = folder
        self._name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        # A kernel from outside of the package is not in the name of the folder: its file counts here.
        self._source = hashlib.sha256(Path(function.__code__.co_filename).read_bytes()).hexdigest()

    @property
    def cache_path(self) -> str:
        """Folder of the files."""
        return str(self._folder.path)

    def holds(self, signature: Any, target_context: Any) -> bool:
        """Whether there is machine code for a signature; the file may turn out to be damaged."""
        try:
            return self._folder.holds(self._file(signature, target_context.codegen()))
        except OSError as error:
            warn_not_cached(self._folder, error)
            return False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code for a signature; None if there is none."""
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
            with suppress(OSError):  # written again after the compilation
                self._folder.remove(name)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code, which is in memory already."""
        if data.lifted or data.library.has_dynamic_globals:  # it holds addresses of this process
            return
        try:
            self._folder.write(self._file(sig, data.codegen), dumps(data._reduce()))
        except OSError as error:
            warn_not_cached(self._folder, error)

    def enable(self) -> None:
        """Nothing to do: it is always on, and files of another source have other names."""

    disable = flush = enable

    def _file(self, signature: Any, codegen: Any) -> str:
        key = repr((str(signature), codegen.magic_tuple(), self._source))
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.kernel"


_said: set[str] = set()


def warn_not_cached(folder: OwnFolder, why: OSError) -> None:
    """Warn, once in a process, that the next one has to compile again."""
    text = "compiled kernels are not cached in %s, each process compiles again: %s (see SWEEP_CACHE_DIR)"
    _say_once(logging.WARNING, text, folder.path, why)


def _say_once(level: int, text: str, *arguments: object) -> None:
    if text not in _said:
        _said.add(text)
        logger.log(level, text, *arguments)


# One process at a time.

_compiling: list[OwnFolder] = []


def compile_alone(kernel: Any, folder: OwnFolder) -> None:
    """Let one process at a time compile a kernel; the others load what it wrote, all at once."""
    compile_or_load = kernel.compile

    def compile_or_wait(signature: Any) -> Any:
        def is_there() -> bool:
            return bool(kernel._cache.holds(signature, kernel.targetctx))

        # numba's own lock is taken first, always: two threads with the two locks in either order would block.
        with global_compiler_lock:
            # A kernel that another one calls is compiled under the lock of that one.
            if _compiling or is_there():
                return compile_or_load(signature)
            text = "compiling the kernels, which may take half a minute"
            if str(folder.path.parent) == os.environ.get(OF_THIS_RUN):
                _say_once(logging.INFO, text)  # their folder ends with the run: no later call finds them
            else:
                _say_once(logging.INFO, f"{text}; later calls find them in %s", folder.path)
            with lock(folder, is_there):
                return compile_or_load(signature)

    kernel.compile = compile_or_wait


@contextmanager
def lock(folder: OwnFolder, is_there: Callable[[], bool]) -> Iterator[None]:
    """Be the one process that compiles, unless another one makes waiting pointless.

    Parameters
    ----------
    folder : OwnFolder
        Where the lock is.
    is_there : callable
        Whether another process has written what is wanted: then there is no need of the lock. Many may wait,
        and all of them load at once.
    """
    with ExitStack() as held:
        try:
            _take(held.enter_context(folder.opened("lock", os.O_RDWR | os.O_CREAT)), is_there, folder)
        except OSError as error:
            warn_not_cached(folder, error)
        if is_there():
            held.close()
        _compiling.append(folder)
        held.callback(_compiling.clear)
        # A compilation makes many objects, and most of them stay: a fifteenth less time, for 30 MB more.
        held.callback(gc.set_threshold, *gc.get_threshold())
        gc.set_threshold(50_000, 20, 50)
        yield


def _take(descriptor: int, is_there: Callable[[], bool], folder: OwnFolder) -> None:
    """Lock a file; return without the lock once there is what is wanted, or the wait was too long."""
    began = time.monotonic()
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        waited = time.monotonic() - began
        if waited > WAIT_AT_MOST:
            text = "another process has been compiling the kernels in %s for %.0f s: compiling them here too"
            logger.warning(text, folder.path, waited)
            return
        if waited > SAY_AFTER:
            text = "waiting for another process, which compiles the kernels in %s"
            _say_once(logging.INFO, text, folder.path)
        time.sleep(POLL)
        if is_there():
            return
