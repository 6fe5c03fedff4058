"""Leases are written here as other processes leave them."""

import os
import time
from pathlib import Path
from typing import Any

from sweep_clustering.storage.runfolder.lease import Holder, ProcessIdentity, this_process


def run_of(cube: Path) -> Path:
    return cube.with_suffix(".run")


def other_process(**changes: Any) -> ProcessIdentity:
    return this_process().model_copy(update=changes)


ELSEWHERE = {"host": "node7", "boot_id": "another boot", "pid": 4242}
DEAD = {"process_start": "long ago"}


def leave_lease(cube: Path, process: ProcessIdentity, *, number: int = 1, age: float = 0.0) -> Holder:
    """Write the lease of a process that did not give it back."""
    run_of(cube).mkdir(parents=True, exist_ok=True)
    holder = Holder(
        token=f"token {number}", since="2026-01-02T03:04:05+00:00", released=False, process=process
    )
    file = run_of(cube) / f"lease.{number}"
    file.write_text(holder.to_text(number))
    os.utime(file, (time.time() - age,) * 2)
    return holder
