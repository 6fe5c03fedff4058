"""The start of a process that searches: what it compiles, and how long it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from checkout import ROOT

START = """
import json, time
began, cpu = time.perf_counter(), time.process_time()
from numba.core import event
from kernels.search.genetic import warm_up

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
    """CPU and elapsed seconds of one start, and CPU seconds of what it compiled, each without the others."""
    done = subprocess.run(
        [sys.executable, "-c", START],
        cwd=ROOT,
        env=os.environ | {"SWEEP_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    cpu, elapsed, compiled = json.loads(done.stdout)
    return cpu, elapsed, [(name, spent) for name, spent in compiled]
