"""A compute cluster has real processes here, and any of them may be killed at any moment.

Scheduler, nannies (each with its worker) and driver are processes of their own; what is dead is started
again, as a queueing system and a patient user would.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
from cubes.writer import journal_records
from processes import sabotage
from processes.sweeping import assert_same_bits, start

from sweep_clustering.pipeline.work.records import from_record
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.storage.runfolder.folder import RunFolder

VICTIMS = ("worker", "nanny", "scheduler", "driver")

Restart = tuple[str, int]

DASK_LOG = {"DASK_LOGGING__DISTRIBUTED": "info"}


def reported_done(cube: Path) -> set[Restart]:
    """Return the restarts that are in the cube or in the journal."""
    if not cube.exists():
        return set()
    restarts: set[Restart] = set()
    for header, arrays in journal_records(cube):
        for partial in from_record(header, arrays):
            restarts |= {(str(partial.span.unit), r) for r in range(partial.span.start, partial.span.stop)}
    for plan in read_manifest(cube).plans.values():
        cells = BlockStore(cube, read_only=True).cells([plan], DONE)
        restarts |= {(str(cell), restart) for cell in cells for restart in range(plan.restarts)}
    return restarts


class Site:
    """Scheduler, two nannies and a driver of one sweep after the other.

    Workers are paced; `reference` is the cube of a run that nobody disturbed, `options` are more arguments of
    `dask worker`.
    """

    def __init__(
        self,
        folder: Path,
        spec: Path,
        reference: Path,
        *,
        pace: float = sabotage.PACE,
        options: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.spec = spec
        self.reference = reference
        self.work_log = folder / "begun"
        self.work_log.touch()
        faults = sabotage.environment([("", "paced")], self.work_log, pace=pace)
        self.environment = {**os.environ, **faults, **DASK_LOG}
        self.options = options
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        (folder / "cluster.yaml").write_text(f"lab: {{kind: address, address: '{self.address}'}}\n")
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.nannies: list[subprocess.Popen[bytes] | None] = [None, None]
        self.driver: subprocess.Popen[str] | None = None
        self.excused = False
        self.sweeps = 0
        self.snapshots: list[tuple[set[Restart], int]] = []
        """What was reported done when so much had been begun."""
        self.n_repeated = 0

    @property
    def cube(self) -> Path:
        """Return the path of the cube of the present sweep."""
        return self.folder / str(self.sweeps) / self.reference.name

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *error: object) -> None:
        for process in (self.driver, self.scheduler, *self.nannies):
            end(process)

    def begun_spans(self) -> list[tuple[str, int, int]]:
        """Return the spans that workers began, in order."""
        lines = [line.rsplit(" ", 2) for line in self.work_log.read_text().splitlines()]
        return [(cell, int(first), int(stop)) for cell, first, stop in lines]

    def revive(self) -> None:
        """Start dead processes again, and wait until work begins or the sweep is finished."""
        self.start_missing()
        before = len(self.begun_spans())
        self._wait(lambda: len(self.begun_spans()) > before or self.has_driver_ended())

    def start_missing(self) -> int:
        """Start dead processes again and return the number of workers among them."""
        started = 0
        if self.scheduler is None or self.scheduler.poll() is not None:
            port = self.address.rpartition(":")[2]
            self.scheduler = self._dask("scheduler", "--host", "127.0.0.1", "--port", port)
        for number, nanny in enumerate(self.nannies):
            if nanny is None or nanny.poll() is not None:
                options = ("--nthreads", "1", "--local-directory", str(self.folder / "scratch"))
                self.nannies[number] = self._dask("worker", self.address, *options, *self.options)
                started += 1
        if self.driver is None:
            choices = ("--profile", "lab", "--cluster", str(self.folder / "cluster.yaml"))
            self.driver = start(self.spec, self.cube.parent, *choices, environment=self.environment)
        return started

    def has_driver_ended(self) -> bool:
        """Return whether the driver has ended."""
        assert self.driver is not None
        return self.driver.poll() is not None

    def finish(self) -> None:
        """Wait for the end of the sweep, start processes again meanwhile, and check its cube."""
        while not self.end_sweep():
            self.revive()
            self._wait(self.has_driver_ended)

    def end_sweep(self) -> bool:
        """Begin the next sweep if this one came to its end, and return whether it did.

        A driver that failed is excused when it, or its scheduler, was killed.
        """
        if self.driver is None or not self.has_driver_ended():
            return False
        _, log = self.driver.communicate()
        code, self.driver = self.driver.returncode, None
        if code != 0:
            assert self.excused, f"exit code {code}\n{log}"
            assert "Traceback" not in log, log
            self.excused = False
            return False
        self._check()
        self.sweeps += 1
        self.excused = False
        return True

    def kill(self, victim: str, rng: random.Random) -> None:
        """Kill one process with -9, as it is."""
        self.snapshots.append((reported_done(self.cube), len(self.begun_spans())))
        if victim in ("driver", "scheduler"):
            process = self.driver if victim == "driver" else self.scheduler
            assert process is not None
            process.kill()
            process.wait()
            self.excused = True
            if victim == "scheduler":  # nannies that lost theirs end by themselves, some seconds later
                for nanny in self.nannies:
                    end(nanny)
            return
        nanny = rng.choice([nanny for nanny in self.nannies if nanny is not None])
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            for pid in [nanny.pid] if victim == "nanny" else workers_of(nanny.pid):
                os.kill(pid, signal.SIGKILL)
        if victim == "nanny":
            nanny.wait()

    def _check(self) -> None:
        assert_same_bits(self.reference, self.cube)
        restarts = [[(cell, r) for r in range(first, stop)] for cell, first, stop in self.begun_spans()]
        for cells_done, count in self.snapshots:
            assert cells_done.isdisjoint(chain(*restarts[count:])), "what was reported done is computed again"
        times = Counter(chain(*restarts))
        self.n_repeated += times.total() - len(times)
        self.snapshots.clear()
        self.work_log.write_text("")

    def _dask(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", program, "--no-dashboard", *arguments]
        with (self.folder / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=self.environment, start_new_session=True, stdout=log, stderr=log
            )

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline, log = time.monotonic() + 120, RunFolder(self.cube).log
        while not condition():
            log_text = log.read_text()[-3000:] if log.exists() else "no log"
            assert time.monotonic() < deadline, f"nothing goes on; {log_text}"
            time.sleep(0.02)


def workers_of(nanny: int) -> list[int]:
    """Return the processes that a nanny started to work."""
    children = psutil.Process(nanny).children()
    return [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]


def end(process: subprocess.Popen[Any] | None) -> None:
    """Kill a process of ours, if there is one, and all it started."""
    if process is not None:
        kill_family(process.pid)
        process.communicate()


def kill_family(pid: int) -> None:
    """Kill a process and all it started."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in [*process.children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):
                member.kill()


def trials(site: Site, victims: list[str], rng: random.Random, longest: float) -> Counter[str]:
    """Kill victims at random moments of a run that goes on, and return the number of each kind.

    A sweep that ends between two kills is looked at, and the next one is begun.
    """
    killed: Counter[str] = Counter()
    for victim in victims:
        while True:
            site.revive()
            time.sleep(rng.uniform(0, longest))
            if not site.end_sweep() and site.driver is not None:
                break
        site.kill(victim, rng)
        killed[victim] += 1
    site.finish()
    return killed
