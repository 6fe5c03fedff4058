"""The first start on a node: `python -m benchmarks compiling`, half a minute.

CPU and elapsed seconds of a process that compiles the kernels into an empty cache, and of the next one.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from checkout import ROOT
from tables import Table

STARTS = Table("compiling/starts", ("", "CPU s", "elapsed s"))
FUNCTIONS = Table("compiling/functions", ("", "functions", "CPU s"))
TABLES = (STARTS, FUNCTIONS)

# Functions that take longest, with a row of their own.
LONGEST = 6


START = """
import json, time
began, cpu = time.perf_counter(), time.process_time()
from numba.core import event
from sweep_clustering.kernels.search.genetic import warm_up

class Timer(event.Listener):
    def __init__(self):
        self.compiled, self.inside = [], []
    def on_start(self, happened):
        self.inside.append([time.process_time(), 0.0])
    def on_end(self, happened):
        start, others = self.inside.pop()
        spent = time.process_time() - start
        if self.inside:
            self.inside[-1][1] += spent
        function = happened.data["dispatcher"].py_func
        self.compiled.append([f"{function.__module__}.{function.__qualname__}", spent - others])

timer = Timer()
event.register("numba:compile", timer)
warm_up()
print(json.dumps([time.process_time() - cpu, time.perf_counter() - began, timer.compiled]))
"""


def start(cache: Path) -> tuple[float, float, list[tuple[str, float]]]:
    """Return CPU and elapsed seconds of a start, and CPU seconds of each compiled function alone."""
    process = subprocess.run(
        [sys.executable, "-c", START],
        cwd=ROOT,
        env=os.environ | {"SWEEP_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    cpu, elapsed, functions = json.loads(process.stdout)
    return cpu, elapsed, [(name, seconds) for name, seconds in functions]


def measure() -> dict[str, str]:
    """Return the tables of both starts and of the functions compiled."""
    with tempfile.TemporaryDirectory() as cache:
        starts = {name: start(Path(cache)) for name in ("first start", "later start")}
    functions = sorted(starts["first start"][2], key=lambda function: -function[1])
    kernels = [function for function in functions if function[0].startswith("sweep_clustering.kernels.")]
    numba_functions = [function for function in functions if function not in kernels]
    rows = [_row(f"`{function[0].rpartition('.')[2]}`", [function]) for function in kernels[:LONGEST]]
    rows += [_row("other kernels", kernels[LONGEST:]), _row("functions of numba", numba_functions)]
    return {
        STARTS.name: STARTS.markdown(
            (name, f"{cpu:.1f}", f"{elapsed:.1f}") for name, (cpu, elapsed, _) in starts.items()
        ),
        FUNCTIONS.name: FUNCTIONS.markdown(rows),
    }


def _row(name: str, functions: list[tuple[str, float]]) -> tuple[str, int, str]:
    return name, len(functions), f"{sum(seconds for _, seconds in functions):.2f}"
