"""Machine code of one kernel on disk: loaded by whoever needs it, compiled by one process at a time."""

from __future__ import annotations

import fcntl
import functools
import gc
import hashlib
import logging
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from kernels.folders import OwnFolder

logger = logging.getLogger(__name__)

SAY_AFTER, WAIT_AT_MOST = 5.0, 120.0
"""Seconds that another process may compile before that is said, and before this one compiles too."""

POLL = 0.05

RARELY = (50_000, 20, 50)
"""Thresholds of the garbage collector: a fifteenth less time, for 30 MB more."""


class KernelCache(_Cache):  # type: ignore[misc]  # numba has no types
    """Files of one kernel, one for each signature; what cannot be read or written gives a warning, no error.

    Nothing is unpickled but files that the user alone may have written: see `OwnFolder`.

    Parameters
    ----------
    function : callable
        The kernel's Python function.
    folder : OwnFolder
        Named after all that the machine code of the package's kernels depends on.

    Raises
    ------
    OSError
        If the function has no source file.
    """

    def __init__(self, function: Callable[..., Any], folder: OwnFolder) -> None:
        self._folder = folder
        code = function.__code__
        self._name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        values = [cell.cell_contents for cell in function.__closure__ or ()]
        # A kernel from outside of the package is not in the name of the folder: its file counts here.
        self._source = (_digest_of_file(code.co_filename), code.co_firstlineno, code.co_code, dumps(values))

    @property
    def cache_path(self) -> str:
        """Folder of the files."""
        return str(self._folder.path)

    def holds(self, signature: Any, target_context: Any) -> bool:
        """Whether there is machine code for a signature; the file may turn out to be damaged."""
        try:
            return self._folder.holds(self._file(signature, target_context.codegen()))
        except OSError as error:
            warn_not_cached(self._folder, str(error))
            return False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code for a signature; None if there is none."""
        target_context.refresh()
        name = self._file(sig, target_context.codegen())
        try:
            content = self._folder.read(name)
            if content is None:
                return None
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        except OSError as error:
            warn_not_cached(self._folder, str(error))
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
            warn_not_cached(self._folder, str(error))

    def enable(self) -> None:
        """Nothing to do: it is always on."""

    def disable(self) -> None:
        """Nothing to do: it is always on."""

    def flush(self) -> None:
        """Nothing to do: files of another source have other names."""

    def _file(self, signature: Any, codegen: Any) -> str:
        key = repr((str(signature), codegen.magic_tuple(), self._source))
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.kernel"


@functools.cache
def _digest_of_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


_warned: list[str] = []
_said: list[str] = []
_compiling: list[OwnFolder] = []


def warn_not_cached(folder: OwnFolder, why: str) -> None:
    """Warn, once in a process, that the next one has to compile again."""
    if not _warned:
        _warned.append(why)
        text = "compiled kernels are not cached in %s, each process compiles again: %s (see SWEEP_CACHE_DIR)"
        logger.warning(text, folder.path, why)


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
            _say_that_it_compiles(folder)
            with lock(folder, is_there), rare_collections():
                return compile_or_load(signature)

    kernel.compile = compile_or_wait


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for garbage less often: a compilation makes many objects, and most of them stay."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _say_that_it_compiles(folder: OwnFolder) -> None:
    if not _said:
        _said.append("")
        text = "compiling the kernels, which may take half a minute; later calls find them in %s"
        logger.info(text, folder.path)


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
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(folder.opened("lock", os.O_RDWR | os.O_CREAT))
            _take(descriptor, is_there, folder)
        except OSError as error:
            warn_not_cached(folder, str(error))
        if is_there():
            stack.close()
        _compiling.append(folder)
        stack.callback(_compiling.clear)
        yield


def _take(descriptor: int, is_there: Callable[[], bool], folder: OwnFolder) -> None:
    """Lock a file; return without the lock once there is what is wanted, or the wait was too long."""
    began, is_said = time.monotonic(), False
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        waited = time.monotonic() - began
        if waited > WAIT_AT_MOST:
            text = "another process has been compiling the kernels in %s for %.0f s: compiling them here too"
            logger.warning(text, folder.path, waited)
            return
        if waited > SAY_AFTER and not is_said:
            is_said = True
            logger.info("waiting for another process, which compiles the kernels in %s", folder.path)
        time.sleep(POLL)
        if is_there():
            return
