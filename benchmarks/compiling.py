"""The first start on a node: `python -m benchmarks compiling`, half a minute.

CPU and elapsed seconds of a process that compiles the kernels into an empty cache, and of the next one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from solving.starts import start
from tables import Table

STARTS = Table("compiling/starts", ("", "CPU s", "elapsed s"))
FUNCTIONS = Table("compiling/functions", ("", "functions", "CPU s"))
TABLES = (STARTS, FUNCTIONS)

SHOWN = 6
"""Functions that take longest, with a row of their own."""


def measure() -> dict[str, str]:
    """Tables of both starts and of the functions compiled."""
    with tempfile.TemporaryDirectory() as cache:
        starts = {name: start(Path(cache)) for name in ("first start", "later start")}
    compiled = sorted(starts["first start"][2], key=lambda each: -each[1])
    ours = [each for each in compiled if each[0].startswith("kernels.")]
    foreign = [each for each in compiled if each not in ours]
    rows = [_row(f"`{each[0].rpartition('.')[2]}`", [each]) for each in ours[:SHOWN]]
    rows += [_row("other kernels", ours[SHOWN:]), _row("functions of numba", foreign)]
    return {
        STARTS.name: STARTS.markdown(
            (name, f"{cpu:.1f}", f"{elapsed:.1f}") for name, (cpu, elapsed, _) in starts.items()
        ),
        FUNCTIONS.name: FUNCTIONS.markdown(rows),
    }


def _row(name: str, compiled: list[tuple[str, float]]) -> tuple[str, int, str]:
    return name, len(compiled), f"{sum(spent for _, spent in compiled):.2f}"
