"""Faults inside worker processes: dask preloads this file, and it breaks the solver as it is told.

`SABOTAGE` in the environment is a list of [text in the name of a cell, fault], and dask's own variable for
preloads names this file.
"""

from __future__ import annotations

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

import pipeline.work.tasks
from pipeline.work.records import Answers, Asking, Partial, Science, Work
from sweeps.inputs import Arrays, Source
from sweeps.plan import AskedPath

PACE = 0.05
"""Seconds of a restart that is `paced`, unless told otherwise."""


def environment(
    faults: list[tuple[str, str]], log: Path | None = None, chaos: str = "", pace: float = PACE
) -> dict[str, str]:
    """What to add to the environment of a submit, or of a dask worker, for these faults.

    Parameters
    ----------
    faults : list of (str, str)
        Text in the name of a cell, and the name of a function here.
    log : Path or None
        Where each work that begins is noted: cell, first restart and the one after the last.
    chaos : str
        Mean seconds each worker lives, and how it ends: a mode of `distributed.chaos.KillWorker`.
    pace : float
        Seconds of a restart that is `paced`.
    """
    preload = json.dumps([str(Path(__file__).resolve())])
    logging = {} if log is None else {"SABOTAGE_LOG": str(log)}
    ends = {"SABOTAGE_CHAOS": chaos} if chaos else {}
    told = {"SABOTAGE": json.dumps(faults), "SABOTAGE_PACE": str(pace)}
    return {**told, "DASK_DISTRIBUTED__WORKER__PRELOAD": preload, **logging, **ends}


def endless() -> None:
    """Give up the interpreter's lock and never come back, as a kernel without an end."""
    ctypes.CDLL(None).sleep(10**6)


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def memory() -> None:
    """Take more and more memory, slowly enough for the nanny to see it."""
    taken = []
    while True:
        taken.append(np.ones(2**22))
        time.sleep(0.02)


def raises() -> None:
    raise FloatingPointError("no such luck")


FAULTS = {fault.__name__: fault for fault in (endless, killed, memory, raises)}


def paced(work: Work, partial: Partial) -> Partial:
    """Make a restart last, without any work for the processor, and say so."""
    seconds = float(os.environ["SABOTAGE_PACE"]) * (work.stop - work.start)
    time.sleep(seconds)
    return replace(partial, seconds=partial.seconds + seconds)


def note(work: Work) -> None:
    if "SABOTAGE_LOG" in os.environ:
        line = f"{work.cell} {work.start} {work.stop}\n"
        with open(os.environ["SABOTAGE_LOG"], "ab", buffering=0) as file:
            file.write(line.encode())  # in one piece, whoever else appends


async def dask_setup(worker: Worker) -> None:
    """Called by dask in each new worker process."""
    if "SABOTAGE_CHAOS" in os.environ:
        delay, mode = os.environ["SABOTAGE_CHAOS"].split()
        await KillWorker(delay=float(delay), mode=mode).setup(worker)
    faults = json.loads(os.environ["SABOTAGE"])
    solve = pipeline.work.tasks._run

    def sabotaged(science: Science, work: Work, source: Source) -> Partial:
        note(work)
        chosen = [fault for text, fault in faults if text in str(work.cell)]
        for fault in chosen:
            if fault in FAULTS:
                FAULTS[fault]()
        partial = solve(science, work, source)
        return paced(work, partial) if "paced" in chosen else partial

    pipeline.work.tasks._run = sabotaged
    _sabotage_questions(faults)


def _sabotage_questions(faults: list[tuple[str, str]]) -> None:
    """Break questions of paths whose names hold a text, as work of cells is broken."""
    ask = pipeline.work.tasks.ask_batch

    def sabotaged(asking: Asking, path: AskedPath, known: Answers, arrays: Arrays) -> Answers:
        for text, fault in faults:
            if text in str(path) and fault in FAULTS:
                FAULTS[fault]()
        return ask(asking, path, known, arrays)

    pipeline.work.tasks.ask_batch = sabotaged
