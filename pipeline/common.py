"""Functions of all rooms: numbers and times in words, the best of several objectives, exit codes, own names.

It imports nothing of the other rooms, and little else, because every command loads it.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from sweep_clustering.sweeps.errors import Problem, plain_lines, raise_all
from sweep_clustering.sweeps.errors import plural as plural  # it belongs with the other words below

if TYPE_CHECKING:
    from sweep_clustering.sweeps.file.spec import SweepSpec


# Characters that mean something to LaTeX and BibTeX, and how they are written as themselves.
ESCAPES = str.maketrans({mark: rf"\{mark}" for mark in "&%$#_{}"})
ESCAPES |= str.maketrans({"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"})

# A function that goes through the steps of a long task, with a title, and may show progress.
Progress = Callable[[Sequence[Any], str], Iterable[Any]]


def silent(steps: Sequence[Any], title: str) -> Iterable[Any]:
    """Go through steps without showing progress."""
    return steps


class PlainFormatter(logging.Formatter):
    """Formatter of logs in which each line begins with our prefix, even inside messages of others."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a message, each with its prefix."""
        text = logging.Formatter().format(record)  # message and traceback without prefix
        bare = record.__dict__ | dict.fromkeys(("args", "exc_info", "exc_text", "stack_info"))
        lines = [logging.makeLogRecord(bare | {"msg": line}) for line in plain_lines(text).split("\n")]
        return "\n".join(map(super().format, lines))


def duration(seconds: float) -> str:
    """Return seconds as `h:mm:ss`."""
    total = max(0, round(seconds))
    return f"{total // 3600}:{total // 60 % 60:02d}:{total % 60:02d}"


def at_hand(spec: SweepSpec, skipped_datasets: Container[str]) -> str | None:
    """Return how many data sets of a sweep are at hand, and the cells left out, in words; None if all are."""
    cells = cells_left_out(spec, skipped_datasets)
    if not cells:
        return None
    names = [entry.name for entry in spec.grid.datasets]
    n_at_hand = sum(name not in skipped_datasets for name in names)
    datasets = f"{n_at_hand} of {plural(len(names), 'data set')} at hand"
    return f"{datasets}, {plural(cells, 'cell')} left out: sweep datasets fetch"


def cells_left_out(spec: SweepSpec, skipped_datasets: Container[str]) -> int:
    """Return the number of cells of the data sets of a sweep that are not at hand."""
    return spec.grid.n_cells * sum(entry.name in skipped_datasets for entry in spec.grid.datasets)


def span(seconds: float) -> str:
    """Return seconds in the largest unit that fits: `3 hours`."""
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return plural(int(seconds // length), unit)
    return plural(max(0, int(seconds)), "second")


def estimate(shortest: float, longest: float) -> str:
    """Return in words how long something will take, in units that suit both times: `8 to 20 minutes`."""
    (low, unit), (high, noun) = map(_rounded, (shortest, longest))
    if (low, unit) == (high, noun):
        return f"about {high} {noun}"
    if unit.rstrip("s") == noun.rstrip("s"):
        return f"{low} to {high} {noun}"
    return f"{low} {unit} to {high} {noun}"


def _rounded(seconds: float) -> tuple[str, str]:
    """Return a number and its unit, which is the largest with a number of two or more."""
    units = ("hours", 3600), ("minutes", 60), ("seconds", 1)
    noun, length = next((unit for unit in units if seconds >= 2 * unit[1]), units[-1])
    count = seconds / length
    if noun == "hours" and count < 10:
        return f"{count:.1f}", noun
    number = max(1, round(count))
    return str(number), noun if number > 1 else noun.removesuffix("s")


# Objectives that differ by no more nats belong to one optimum: sums in another order differ by less.
SAME_OPTIMUM = 1e-6


def best_of(objectives: Sequence[float]) -> int:
    """Return the position of the largest objective, the lowest on ties; one that is not finite is an
    error.
    """
    if not all(map(math.isfinite, objectives)):
        raise ArithmeticError(f"an objective that is not finite: {list(objectives)}")
    return max(range(len(objectives)), key=objectives.__getitem__)


# Exit codes of the commands. A run that a signal ends has 128 plus the number of the signal.

COMPLETE = 0
# A fault of the machine, a lease that is held, or a check that found a difference.
INTERNAL = 1
# Nothing was started, and nothing is lost.
BAD_INPUT = 2
# The run is finished, but cells failed; with `--strict`, also if data sets were skipped.
FAILED_CELLS = 3


def core_count(root: Path = Path("/")) -> int:
    """Return how many cores this process may use; part of a core counts as one.

    The count is that of the machine, or of the affinity of the process if the system has one, and at most the
    quota of its control groups. The quota of each group above counts, too: a container, a job of a queue or a
    slice of systemd may have one if the innermost group has none. The folder `root` has `proc` and `sys`.
    """
    count: int | None
    if sys.version_info >= (3, 13):
        count = os.process_cpu_count()
    elif hasattr(os, "sched_getaffinity"):  # which macOS lacks
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count()
    return min(count or 1, *(max(1, math.ceil(quota)) for quota in _cpu_quotas(root)), sys.maxsize)


def memory_limit(root: Path = Path("/")) -> float:
    """Return the bytes that the control groups of this process allow it, infinity if they have no limit."""
    limit = math.inf
    for folder, version in _control_groups("memory", root):
        with suppress(OSError, ValueError):  # "max" is no limit
            name = "memory.limit_in_bytes" if version == 1 else "memory.max"
            limit = min(limit, int((folder / name).read_text()))
    return limit


def _cpu_quotas(root: Path) -> Iterator[float]:
    """Yield the quotas of this process, in cores."""
    for folder, version in _control_groups("cpu", root):
        with suppress(OSError, ValueError, ZeroDivisionError):
            if version == 1:
                files = (folder / f"cpu.cfs_{name}_us" for name in ("quota", "period"))
                quota, period = (float(file.read_text()) for file in files)
            else:
                quota, period = map(float, (folder / "cpu.max").read_text().split())
            if quota > 0.0:  # -1 in version 1, and "max" in version 2, are no quota
                yield quota / period


def _control_groups(controller: str, root: Path) -> Iterator[tuple[Path, int]]:
    """Yield folders of the control groups, also those above, that this process is in, with their versions."""
    mounted = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
        # Version 1 has cpu,cpuacct, cpuacct,cpu or cpu alone, and links from one to another.
        of_version_1 = [folder for folder in mounted.iterdir() if controller in folder.name.split(",")]
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        group = PurePosixPath(path.strip("/"))
        for mount in of_version_1 if controllers else (mounted, mounted / "unified"):
            # A container that sees the path of its host has its own group at the top.
            for place in (group, *group.parents):
                yield mount / place, 1 if controllers else 2


# Pages of a run answer under these names alone, because the name of a stranger's page may lead here. They are
# the names of loopback, at any port, as a tunnel may have another port.
NAMES = ("localhost", "127.0.0.1", "[::1]")

# Environment variable with more names, separated by commas, for a proxy of the machine.
VARIABLE = "SWEEP_HOSTS"

HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::\d{1,5})?", re.IGNORECASE)


def own_names() -> frozenset[str]:
    """Return all names, in small letters; a name in the variable that is no host is an `InputError`."""
    extra_names = [name.strip().lower() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    wrong = [name for name in extra_names if (match := HOST.fullmatch(name)) is None or match[1] != name]
    expected = "names of hosts with commas, without port: hub.example.org"
    raise_all(Problem(VARIABLE, repr(name), expected) for name in wrong)
    return frozenset((*NAMES, *extra_names))


def is_own(headers: Mapping[str, str]) -> bool:
    """Whether a request is for one of the names, and not from a page that came from elsewhere.

    Several headers of a name are one with commas, which is no name of a host.
    """
    host = headers.get("Host", "")
    match = HOST.fullmatch(host)
    if match is None or match[1].lower() not in own_names():
        return False
    origin = headers.get("Origin")  # browsers let any page open a websocket
    return origin is None or origin.lower().partition("://")[2] == host.lower()
