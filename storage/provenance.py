"""Software and machine of each run, as recorded in the cube."""

import math
import platform
import re
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.records import List, Record
from sweep_clustering.sweeps.words import PREFIX, solvers_of

# Part of every message about differing fingerprints.
PROMISE = "equal bits are promised only for equal software and machine class"

# Facts that decide no bits if the class of the machine is known.
OF_PROCESSOR = ("cpu", "instructions")

PACKAGES = ("numba", "llvmlite", "numpy", "scipy", "xarray", "zarr", "dask", "distributed")


class RunRecord(Record):
    """Software and machine of a run, as kept in the cube; keys that other releases add are kept, too."""

    model_config = ConfigDict(extra="allow")

    started: str = "?"  # time, UTC
    host: str = "?"
    python: str = "?"
    versions: dict[str, str] = Field(default_factory=dict)
    fingerprint: dict[str, str] = Field(default_factory=dict)
    commit: str = ""
    # unavailable data sets, and reasons
    skipped: dict[str, Annotated[tuple[str, ...], List()]] = Field(default_factory=dict)

    @property
    def made_with(self) -> dict[str, str]:
        """The fingerprint; an older one is completed from other keys of the record."""
        python = re.match(r"\d+\.\d+", self.python)
        extra = {} if python is None else {"python": python[0]}
        extra |= {name: self.versions[name] for name in ("scipy",) if name in self.versions}
        return self.fingerprint | {name: extra[name] for name in extra if name not in self.fingerprint}

    def dump(self) -> dict[str, Any]:
        """Return plain JSON values of the keys that were set."""
        return self.model_dump(mode="json", exclude_unset=True)


def package_version() -> str:
    """Return the version of this package, or "unknown" when it is not installed."""
    try:
        return version("sweep-clustering")
    except PackageNotFoundError:
        return "unknown"


def fingerprint(spec: SweepSpec | None = None) -> dict[str, str]:
    """Return software, processor and the solvers of a sweep: equal bits are promised if all are equal."""
    return {
        "sweep": package_version(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "numba": version("numba"),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "libc": " ".join(platform.libc_ver()),
        "cpu": _cpu_model(),
        "machine": machine_class(),
        **({} if spec is None else solvers_of(spec)),
    }


def software_differences(fingerprints: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """Describe what differs between fingerprints, each with its place; return an empty text if nothing does.

    A key that one of them lacks is unknown there, and differs from nothing.
    """
    places: dict[str, dict[str, list[str]]] = {}
    fingerprints = list(fingerprints)
    ignored = OF_PROCESSOR if all("machine" in values for _, values in fingerprints) else ()
    for place, values in fingerprints:
        for name, value in values.items():
            if name in ignored:
                continue
            places.setdefault(name, {}).setdefault(value, []).append(place)
    return "; ".join(
        f"{name}: " + ", ".join(f"{value} ({', '.join(runs)})" for value, runs in values.items())
        for name, values in places.items()
        if len(values) > 1
    )


def unrecorded(fingerprint: Mapping[str, str], own_fingerprint: Mapping[str, str]) -> list[str]:
    """Return the keys of a fingerprint that another one lacks although its run needed what they name."""
    # a run that recorded solvers needed no others: its sweep has grown since
    has_solvers = any(name.startswith(PREFIX) for name in fingerprint)
    required_names = (name for name in own_fingerprint if not (has_solvers and name.startswith(PREFIX)))
    return [name for name in required_names if name not in fingerprint]


def by_run(fingerprints: Sequence[Mapping[str, str]]) -> list[tuple[str, Mapping[str, str]]]:
    """Return the fingerprints with their places: equal runs in a row have one place."""
    rows, first = list[tuple[str, Mapping[str, str]]](), 1
    for values, equal_runs in groupby(fingerprints):
        last = first + len(list(equal_runs)) - 1
        rows.append((f"run {last}" if first == last else f"runs {first} to {last}", values))
        first = last + 1
    return rows


def run_record(reasons_by_name: Mapping[str, tuple[str, ...]], spec: SweepSpec | None = None) -> RunRecord:
    """Return the record of a run that starts now, with unavailable data sets and their reasons."""
    return RunRecord(
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        host=socket.gethostname(),
        python=platform.python_version(),
        versions={name: version(name) for name in PACKAGES},
        fingerprint=fingerprint(spec),
        commit=_commit(),
        skipped=dict(reasons_by_name),
    )


@cache
def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


@cache
def machine_class() -> str:
    """Return the code that numpy and BLAS chose for this processor, and a hash of what it computes.

    Machine code of the kernels gives the same bits for every target. numpy, BLAS and the C library choose
    their code by the processor when they are loaded, and it decides last bits: equal hashes are equal bits.
    `docs/explanation/machines.md` has the measurements.
    """
    import numpy as np
    from scipy import linalg
    from threadpoolctl import threadpool_info, threadpool_limits

    rows = np.random.default_rng(0).random((97, 31)) + 0.5  # the same on every machine
    ties = (rows * 8).astype(int).astype(float)
    with threadpool_limits(1):
        square = rows.T @ rows
        values = [square, rows @ square, rows @ rows[0], rows.ravel() @ rows.ravel(), rows.sum(axis=0)]
        values += [function(rows) for function in (np.exp, np.log, np.log1p, np.tanh)]
        values += [rows**1.7, np.argsort(ties.ravel())]
        values += [np.logaddexp(rows, rows[0]), np.vectorize(math.exp)(rows), np.vectorize(math.log)(rows)]
        values += [np.linalg.eigh(square)[1], np.linalg.cholesky(square), np.linalg.inv(square)]
        values += [linalg.eigh(square)[1], np.einsum("nf,fd->nd", rows, square), np.linalg.svd(rows)[1]]
    digest = sha256(b"".join(array.tobytes() for array in values)).hexdigest()[:8]
    loops = np.lib.introspect.opt_func_info("^exp$", "float64")["exp"]["dd"]["current"]
    blas = {
        library.get("architecture", "?") for library in threadpool_info() if library["user_api"] == "blas"
    }
    return f"{platform.machine()}, numpy {loops}, BLAS {' and '.join(sorted(blas)) or '?'}, {digest}"


def class_code(text: str) -> int:
    """Return the number by which cells refer to a class of machines: the same in every cube, for merging."""
    return int.from_bytes(sha256(text.encode()).digest()[:4]) >> 1


def _commit() -> str:
    """Return the commit of the checkout that this package runs or was built from; empty if unknown."""
    root = Path(__file__).resolve().parents[1]
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    with suppress(OSError, subprocess.TimeoutExpired):
        if not (root / ".git").exists():
            return (root / "storage" / "commit.txt").read_text(encoding="utf-8").strip()  # left by the build
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    return ""
