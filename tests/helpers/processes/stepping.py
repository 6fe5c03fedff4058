"""Drivers in other processes take one step at a time here: a step is one change of a file."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from cubes.small import SPEC, draw_inputs
from processes.crash import changed_file

from sweep_clustering.pipeline.run.ledger import Collector
from sweep_clustering.pipeline.run.request import Selection
from sweep_clustering.pipeline.work.records import Failed, Science, Solved, Span
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import create, grow
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.files import LeaseLost
from sweep_clustering.storage.runfolder import lease as holder
from sweep_clustering.storage.runfolder.folder import RunFolder, append_failure
from sweep_clustering.storage.runfolder.journal import Journal
from sweep_clustering.storage.runfolder.lease import Lease, inherit
from sweep_clustering.sweeps.inputs import Inputs, RealSource
from sweep_clustering.sweeps.plan import DatasetPlan

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["processes.stepping", "pytest"])  # a process imports these when it starts


@cache
def _serve() -> None:
    """Start the server of processes, of which each then takes hundredths of a second.

    It looks for what it is to import beforehand on its own path alone, and is silent where that is not found.
    """
    path = os.pathsep.join(filter(None, sys.path))
    with patch.dict(os.environ, PYTHONPATH=path):
        forkserver.ensure_running()


class Driver:
    """A driver that stands still until it is told to go on, as after SIGSTOP or on a hung mount.

    Changes below the directory of the cube are its steps; cells in `failing` fail in its hands.
    """

    def __init__(self, cube: Path, plan: DatasetPlan, failing: frozenset[str] = frozenset()) -> None:
        _serve()
        self._pipe, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_drive, args=(theirs, cube, plan, failing), daemon=True)
        self._process.start()
        theirs.close()
        self.reported: set[tuple[str, int]] = set()
        """Restarts that it said were done, while it held the lease."""
        self.ended: str | None = None
        self.changes: list[str] = []
        self._wait()

    def step(self, times: int = 1) -> None:
        """Let it make some changes, or end."""
        for _ in range(times):
            if self.ended is None:
                self._pipe.send("go")
                self._wait()

    def finish(self) -> None:
        """Let it run to its end."""
        while self.ended is None:
            self.step()

    def kill(self) -> None:
        """End it where it stands."""
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self.ended = self.ended or "killed"

    def _wait(self) -> None:
        """Take its messages until it asks for its next change."""
        while True:
            if not self._pipe.poll(120):
                raise AssertionError(f"it hangs after {self.changes[-3:]}")
            kind, value = self._pipe.recv()
            if kind == "change":
                self.changes.append(value)
                return
            if kind == "done":
                self.reported |= value
            else:
                self.ended = value
                self._process.join()
                return


def partial_of(plan: DatasetPlan, work: Span) -> Solved:
    """Return the result of some restarts, a function of their coordinates alone."""
    objectives = np.array([-1.0 - (r * 7 + len(str(work.unit))) % 5 for r in range(work.start, work.stop)])
    best = work.start + int(np.argmax(objectives))
    fill, k = best % plan.n_clusters, plan.n_clusters
    labels = np.full(plan.n_samples, fill, np.int16)
    centroids, covariances = np.full((k, plan.n_features), float(fill)), np.full(k, float(fill))
    return Solved(work, objectives, best, labels, centroids, covariances, 0.5, 0.5)


def _drive(pipe: Connection, cube: Path, plan: DatasetPlan, failing: frozenset[str]) -> None:
    changes = threading.Lock()

    def report_change(event: str, args: tuple[Any, ...]) -> None:
        path = changed_file(event, args, str(cube.parent))
        if isinstance(path, str | os.PathLike):
            with changes:
                pipe.send(("change", f"{event} {os.path.relpath(path, cube.parent)}"))
                pipe.recv()

    # Every holder counts as gone, and nothing happens in the background: the trial decides who moves when.
    holder.is_alive = lambda process: False
    Lease.keep_beating = lambda lease: None  # type: ignore[method-assign]
    sys.addaudithook(report_change)
    try:
        with Lease.acquire(cube) as lease:
            _run(lease, plan, failing, lambda blocks: pipe.send(("done", blocks)))
        pipe.send(("end", "complete"))
    except LeaseLost:
        pipe.send(("end", "lost the lease"))
    except BaseException as error:
        pipe.send(("end", f"{type(error).__name__}: {error}"))


def _run(
    lease: Lease, plan: DatasetPlan, failing: frozenset[str], report: Callable[[set[tuple[str, int]]], None]
) -> None:
    """Do what `pipeline.run.head` does with a lease, without workers."""
    cube, files = lease.cube, lease.files
    inherit(RunFolder(cube), lease.generation)
    if cube.exists():  # a sweep file grows, and is never made smaller
        stored = read_manifest(cube).plans[plan.name].p
        plan = replace(plan, p=stored + tuple(p for p in plan.p if p not in stored))
    (grow if cube.exists() else create)(cube, [plan], draw_inputs, SPEC, files)
    with Journal(lease.generation.journal, files) as journal:
        collector = Collector(
            BlockStore(cube, files=files),
            journal,
            Inputs((plan,), {plan.name: RealSource(*draw_inputs(plan))}, {}),
            {plan.name: Science(7, (), plan.n_clusters)},
            keep_failure=lambda record: append_failure(lease.generation.failures, record, files),
            selection=Selection(retry_failed=not failing),
        )
        for work in list(collector.spans_left(plan)):
            # Two batches for each cell, so that the journal holds part of a block.
            for start, stop in ((work.start, work.start + 1), (work.start + 1, work.stop)):
                part = Span(work.unit, start, stop)
                if start == stop:
                    continue
                lease.check()
                if str(work.unit) in failing:
                    collector.take([Failed(part, "ValueError: no", "n1", "", "")])
                else:
                    collector.take([partial_of(plan, part)])
                    report({(str(work.unit), restart) for restart in range(start, stop)})
        collector.close()
