"""Cache directory of compiled kernels.

numba's own cache goes stale: it checks the source file of a kernel, not those of the kernels it calls. Here
the directory is named after everything the machine code depends on.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from pathlib import Path

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numpy as np

logger = logging.getLogger(__name__)

REMOTE_FILESYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs"}
    | {"gpfs", "lustre", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"}
)
"""Types of file systems seen by several nodes: numba's cache is not safe there."""


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


def cache_directory() -> Path | None:
    """Directory for compiled kernels, created if needed.

    `SWEEP_CACHE_DIR` if it is set; else the user's cache, or the node's temporary directory where the former
    is on a network file system. Files there are pickles, so the directory must belong to this user alone.

    Returns
    -------
    pathlib.Path or None
        None, with a warning in the log, if there is no safe and writable place.
    """
    try:
        root = _root()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_if_replaceable(root)
        leaf = root / f"kernels-{fingerprint()}"
        leaf.mkdir(mode=0o700, exist_ok=True)
        _refuse_if_shared(leaf)
        tempfile.TemporaryFile(dir=leaf).close()
    except (OSError, RuntimeError) as error:
        logger.warning("compiled kernels are not cached, each process compiles again: %s", error)
        return None
    return leaf


def _root() -> Path:
    chosen = os.environ.get("SWEEP_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if not on_remote_filesystem(cache):
        return cache / "sweep"
    return Path(tempfile.gettempdir()) / f"sweep-cache-{_user()}"


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


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


def _refuse_if_replaceable(root: Path) -> None:
    """A directory that others may write to (and is not sticky) lets them swap what is in it."""
    mode = root.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:
        raise PermissionError(f"{root} is writable by others (mode {stat.S_IMODE(mode):04o})")


def _refuse_if_shared(leaf: Path) -> None:
    status = leaf.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{leaf} is not a directory")
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        raise PermissionError(f"{leaf} belongs to user {status.st_uid}, not to {os.getuid()}")
    if os.name == "posix" and status.st_mode & 0o077:
        raise PermissionError(f"{leaf} is open to others (mode {stat.S_IMODE(status.st_mode):04o})")
