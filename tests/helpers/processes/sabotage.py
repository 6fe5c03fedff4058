"""Dask preloads this file in worker processes, where it breaks the solver on request.

`SABOTAGE` in the environment is a list of [text in the name of a cell, fault], and dask's own variable for
preloads names this file.
"""

import ctypes
import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from distributed import Worker
from distributed.chaos import KillWorker

from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.records import Answers, Science, Solved, Span
from sweep_clustering.sweeps.inputs import Arrays, Source
from sweep_clustering.sweeps.plan import AskedPath

PACE = 0.05
"""Seconds of a restart that is `paced`, unless told otherwise."""


def environment(
    faults: list[tuple[str, str]], log: Path | None = None, chaos: str = "", pace: float = PACE
) -> dict[str, str]:
    """Return the variables that give these faults to a submit or to a dask worker.

    Each is a text in the name of a cell, and the name of a function here. In `log` each work that begins is
    noted; `chaos` are the mean seconds each worker lives and a mode of `distributed.chaos.KillWorker`.
    """
    preload = json.dumps([str(Path(__file__).resolve())])
    logging = {} if log is None else {"SABOTAGE_LOG": str(log)}
    ends = {"SABOTAGE_CHAOS": chaos} if chaos else {}
    variables = {"SABOTAGE": json.dumps(faults), "SABOTAGE_PACE": str(pace)}
    return {**variables, "DASK_DISTRIBUTED__WORKER__PRELOAD": preload, **logging, **ends}


def hang() -> None:
    """Give up the interpreter's lock and never come back, as a kernel without an end."""
    ctypes.CDLL(None).sleep(10**6)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def memory() -> None:
    """Take more and more memory, slowly enough for the nanny to see it."""
    arrays = []
    while True:
        arrays.append(np.ones(2**22))
        time.sleep(0.02)


def raises() -> None:
    raise FloatingPointError("no such luck")


FAULTS = {fault.__name__: fault for fault in (hang, kill_self, memory, raises)}


async def dask_setup(worker: Worker) -> None:
    """Called by dask in each new worker process."""
    if "SABOTAGE_CHAOS" in os.environ:
        delay, mode = os.environ["SABOTAGE_CHAOS"].split()
        await KillWorker(delay=float(delay), mode=mode).setup(worker)
    faults = json.loads(os.environ["SABOTAGE"])
    solve, ask = tasks.run_cell, tasks.ask_batch

    def break_it(name: str) -> None:
        for text, fault in faults:
            if text in name and fault in FAULTS:
                FAULTS[fault]()

    def solve_broken(science: Science, work: Span, source: Source) -> Solved:
        if "SABOTAGE_LOG" in os.environ:
            line = f"{work.unit} {work.start} {work.stop}\n"
            with open(os.environ["SABOTAGE_LOG"], "ab", buffering=0) as file:
                file.write(line.encode())  # one piece, as other processes append, too
        break_it(str(work.unit))
        partial = solve(science, work, source)
        if not any(text in str(work.unit) and fault == "paced" for text, fault in faults):
            return partial
        # It lasts, without any work for the processor, and says so.
        seconds = float(os.environ["SABOTAGE_PACE"]) * (work.stop - work.start)
        time.sleep(seconds)
        return replace(partial, seconds=partial.seconds + seconds)

    def ask_broken(asking: Science, path: AskedPath, known: Answers, arrays: Arrays) -> Answers:
        break_it(str(path))
        return ask(asking, path, known, arrays)

    tasks.run_cell, tasks.ask_batch = solve_broken, ask_broken
