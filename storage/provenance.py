"""What ran where: the record of a run kept in the cube."""

import platform
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from sweeps.records import Listed, Record

PACKAGES = ("numba", "llvmlite", "numpy", "scipy", "xarray", "zarr", "dask", "distributed")


class RunRecord(Record):
    """What ran where, kept in the cube; keys that other releases add are kept, too.

    Parameters
    ----------
    started : str
        Time, UTC.
    host, python : str
        Machine, and version of Python.
    versions, fingerprint : dict of str to str
        Versions of libraries, and what equal bits are promised for.
    commit : str
        Commit of the checkout, or of that which a wheel was built from; empty where nobody knows.
    skipped : dict of str to tuple of str
        Unavailable data sets, and why.
    """

    model_config = ConfigDict(extra="allow")

    started: str = "?"
    host: str = "?"
    python: str = "?"
    versions: dict[str, str] = Field(default_factory=dict)
    fingerprint: dict[str, str] = Field(default_factory=dict)
    commit: str = ""
    skipped: dict[str, Annotated[tuple[str, ...], Listed()]] = Field(default_factory=dict)

    def dump(self) -> dict[str, Any]:
        """Plain JSON values, of the keys that were given."""
        return self.model_dump(mode="json", exclude_unset=True)


def package_version() -> str:
    """Version of this package, or "unknown" when it is not installed."""
    try:
        return version("sweep-clustering")
    except PackageNotFoundError:
        return "unknown"


def fingerprint() -> dict[str, str]:
    """What equal bits are promised for: the package, numba, numpy, the C library and the CPU model."""
    return {
        "sweep": package_version(),
        "numba": version("numba"),
        "numpy": version("numpy"),
        "libc": " ".join(platform.libc_ver()),
        "cpu": _cpu_model(),
    }


def run_record(skipped: Mapping[str, tuple[str, ...]]) -> RunRecord:
    """Record of a run that starts now.

    Parameters
    ----------
    skipped : mapping
        Unavailable data sets and why.
    """
    return RunRecord(
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        host=socket.gethostname(),
        python=platform.python_version(),
        versions={name: version(name) for name in PACKAGES},
        fingerprint=fingerprint(),
        commit=_commit(),
        skipped=dict(skipped),
    )


@cache
def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _commit() -> str:
    """Commit of the checkout this package runs from, or was built from; empty where nobody knows."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        with suppress(OSError):
            return (root / "storage" / "commit.txt").read_text(encoding="utf-8").strip()  # left by the build
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    return ""
