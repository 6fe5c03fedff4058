"""Folder of compiled kernels.

numba's own cache goes stale: it checks the source file of a kernel, not those of the kernels it calls. Here
the folder is named after everything the machine code depends on.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import llvmlite
import llvmlite.binding
import numba
import numpy as np

from kernels.folders import OwnFolder

logger = logging.getLogger(__name__)

REMOTE_FILESYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs"}
    | {"gpfs", "lustre", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
)
"""Types of file systems seen by several nodes: numba's cache is not safe there."""

TEMPORARY = ("/tmp", "/var/tmp")
"""Tried where the user's own temporary directory is not safe."""

OF_THIS_RUN = "SWEEP_CACHE_OF_THIS_RUN"
"""Environment variable that tells the processes of a run of the folder that one of them made."""


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
    for word in (
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        llvmlite.binding.get_host_cpu_name(),
        llvmlite.binding.get_host_cpu_features().flatten(),
    ):
        digest.update(word.encode() + b"\0")
    return digest.hexdigest()[:24]


def cache_folder() -> OwnFolder | None:
    """Folder for compiled kernels, made if needed.

    `SWEEP_CACHE_DIR` if it is set; else the user's cache, or the node's temporary directory where the former
    is on a network file system. Files there are pickles, and who can write them can run code as the user:
    where somebody else could, a folder of this run alone takes its place.

    Returns
    -------
    OwnFolder or None
        None, with a warning in the log, if no folder can be used at all.
    """
    name = f"kernels-{fingerprint()}"
    try:
        return OwnFolder(_root(), name)
    except (OSError, RuntimeError) as error:
        return _folder_of_this_run(name, str(error))


def _root() -> Path:
    chosen = os.environ.get("SWEEP_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
    if not on_remote_filesystem(cache):
        return cache / "sweep"
    return Path(tempfile.gettempdir()) / f"sweep-cache-{_user()}"


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _folder_of_this_run(name: str, why: str) -> OwnFolder | None:
    """A folder that ends with this process; processes that it starts find it, and do not warn again."""
    given = os.environ.get(OF_THIS_RUN)
    if given and os.path.isdir(given):
        with suppress(OSError):
            return OwnFolder(Path(given), name)
    for place in dict.fromkeys((tempfile.gettempdir(), *TEMPORARY)):
        try:
            root = tempfile.mkdtemp(prefix="sweep-kernels-", dir=place)
        except OSError:
            continue
        try:
            folder = OwnFolder(Path(root).absolute(), name)
        except OSError:
            with suppress(OSError):  # only if empty: others may have put anything in its place
                os.rmdir(root)
            continue
        atexit.register(_remove, root, os.getpid())
        os.environ[OF_THIS_RUN] = root
        logger.warning("compiled kernels are kept for this run only: %s (see SWEEP_CACHE_DIR)", why)
        return folder
    logger.warning(
        "compiled kernels are not cached, each process compiles again: %s (see SWEEP_CACHE_DIR)", why
    )
    return None


def _remove(root: str, process: int) -> None:
    if os.getpid() == process:  # a fork may run this too
        shutil.rmtree(root, ignore_errors=True)


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
    resolved = path.resolve()
    kind, depth = "", -1
    for line in lines:
        point, filesystem = line.split()[1:3]
        place = Path(point.replace("\\040", " "))
        # >=: of several mounts on one point the last one counts.
        if resolved.is_relative_to(place) and len(place.parts) >= depth:
            kind, depth = filesystem, len(place.parts)
    return kind in REMOTE_FILESYSTEMS
