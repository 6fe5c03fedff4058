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
from pathlib import Path
from typing import Any

import numpy as np

import pipeline.tasks
from pipeline.tasks import Partial, Science, Work
from sweeps.inputs import Source


def environment(faults: list[tuple[str, str]], **settings: Any) -> dict[str, str]:
    """What to add to the environment of a submit for these faults in its workers; settings are dask's."""
    dask = {f"DASK_DISTRIBUTED__{name.upper()}": json.dumps(value) for name, value in settings.items()}
    preload = json.dumps([str(Path(__file__).resolve())])
    return {"SABOTAGE": json.dumps(faults), "DASK_DISTRIBUTED__WORKER__PRELOAD": preload, **dask}


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


def slow() -> None:
    time.sleep(0.05)


FAULTS = {fault.__name__: fault for fault in (endless, killed, memory, raises, slow)}


def dask_setup(worker: object) -> None:
    """Called by dask in each new worker process."""
    faults = json.loads(os.environ["SABOTAGE"])
    solve = pipeline.tasks._run

    def sabotaged(science: Science, work: Work, source: Source) -> Partial:
        for text, fault in faults:
            if text in str(work.cell):
                FAULTS[fault]()
        return solve(science, work, source)

    pipeline.tasks._run = sabotaged
