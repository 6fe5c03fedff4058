"""A detached sweep runs on several hosts, and its events, its states and its files are recorded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from cubes.writer import journal_records
from hosts.namespaces import Host
from hosts.queueing import Cluster
from processes import sabotage
from processes.sweeping import assert_same_bits

from sweep_clustering.pipeline.monitor.status import Status, read_status
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.lease import STALE_AFTER, last_lease
from sweep_clustering.sweeps.errors import InputError

LOOK_EVERY = 5.0
SLACK = 20.0
"""Seconds in which what is said may be behind what is."""

STARTS = 60.0
"""Seconds from the start of a head's process to its lease, on a machine with much else to do."""

RUN_BY = re.compile(r"run by process \d+ on (\w+)")
GONE, WAITS = "submit again", "waits in the queue"
"""In what status says where it believes that nobody runs a sweep, or that one will."""


@dataclass(frozen=True)
class Head:
    """A living head process: on which host, whether it stands still, and whether the lease names it."""

    host: str
    pid: int
    stopped: bool
    holds: bool


@dataclass(frozen=True)
class Look:
    """What was so at one moment, and what was said."""

    at: float
    says: str
    blocks: int
    heads: tuple[Head, ...]
    jobs: dict[str, tuple[str, str, str]]

    @property
    def has_queued_head(self) -> bool:
        """Return whether a job of a head waits or runs, as far as the queue knows."""
        return any(name.endswith("-head") for name, _, _ in self.jobs.values())

    @property
    def runs(self) -> bool:
        """Return whether anybody works, or will."""
        return bool(self.heads) or self.has_queued_head

    @property
    def moves(self) -> bool:
        """Return whether anybody works, or will, without heads that are stopped or lost the lease."""
        if any(head.holds and not head.stopped for head in self.heads):
            return True
        return self.has_queued_head and not any(head.stopped for head in self.heads)


@dataclass
class Trial:
    """A sweep that runs detached; looked at every few seconds until the block ends."""

    cluster: Cluster
    spec: Path
    results: Path
    reference: Path
    looks: list[Look] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.work_log = self.results / "begun"
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="looks", daemon=True)

    @property
    def cube(self) -> Path:
        """Return the path of the cube."""
        return self.results / self.reference.name

    def __enter__(self) -> Trial:
        self.results.mkdir(parents=True)
        self.work_log.touch()
        process = self.submit()
        assert process.returncode == 0, process.stdout + process.stderr
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def submit(self, profile: str = "slurm") -> subprocess.CompletedProcess[str]:
        """Run `sweep submit --detach` where users log in."""
        choices = ("--results", self.results, "--detach", "--profile", profile)
        return self.sweep("submit", self.spec, *choices, "--cluster", self.cluster.profile)

    def sweep(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command of `sweep` where users log in."""
        command = (sys.executable, "-m", "sweep_clustering", *arguments)
        slow = sabotage.environment([("", "paced")], self.work_log)
        return subprocess.run(
            self.cluster.login.command(*command, folder=self.results),
            env={**os.environ, **slow, "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def note(self, event: str) -> None:
        """Record an event and its time."""
        self.events.append((time.monotonic() - self.began, event))

    def head_node(self) -> Host:
        """Return the node that the head was started on last, as the queue knows it."""
        nodes = [n for name, state, n in self.cluster.queue().values() if name.endswith("-head") and n]
        assert nodes, "no head is running"
        return self.cluster.node(nodes[0])

    def worker_node(self) -> Host:
        """Return a node with a worker job and without the head."""
        head = self.head_node()
        jobs = self.cluster.queue().values()
        return next(self.cluster.node(n) for name, _, n in jobs if n and n != head.name)

    def heads(self) -> list[Head]:
        """Return the living heads of this sweep on all hosts."""
        heads = []
        state = last_lease(RunFolder(self.cube))
        holder = None if state is None or state.is_free or state.holder is None else state.holder.process
        for host in self.cluster.net.hosts:
            for process in host.processes("-m sweep_clustering submit", f"--results {self.results}"):
                with suppress(psutil.NoSuchProcess, OSError):
                    if "--detach" not in process.cmdline():
                        stopped = process.status() == psutil.STATUS_STOPPED
                        identity = host.name, _own_pid(process.pid)
                        holds = holder is not None and (holder.host, holder.pid) == identity
                        heads.append(Head(host.name, process.pid, stopped, holds))
        return heads

    def wait(self, condition: Callable[[Look], bool], seconds: float, what: str) -> Look:
        """Return the first look from now on at which a condition holds."""
        deadline, first = time.monotonic() + seconds, len(self.looks)
        while True:
            for look in self.looks[first:]:
                if condition(look):
                    return look
            first = len(self.looks)
            if self._error is not None:
                raise self._error
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{self.story()}"
            time.sleep(0.2)

    @contextmanager
    def cut_off(self, node: Host, seconds: float) -> Iterator[None]:
        """Cut a node off, and end that after so many seconds, or when the block is left later."""
        ended = threading.Timer(seconds, self._heal, (node,))
        self.cluster.net.cut(node)
        self.note(f"{node.name} cut off")
        ended.start()
        try:
            yield
            ended.join()
        finally:
            ended.cancel()

    def stay_quiet(self, seconds: float) -> None:
        """Make sure that for so long nobody runs it, and no job of it comes back."""
        first = len(self.looks)
        time.sleep(seconds)
        late = [look for look in self.looks[first:] if look.runs or look.jobs]
        assert not late, f"somebody runs it\n{self.story()}"

    def wait_for_blocks(self, blocks: int) -> Look:
        """Wait until so many blocks are written."""
        return self.wait(lambda look: look.blocks >= blocks, 300, f"{blocks} blocks")

    def finish(self) -> None:
        """Wait for the end of the sweep without any help; fail where nobody runs it, and nobody will."""
        idle: list[Look] = []

        def is_over(look: Look) -> bool:
            if look.says == "complete" and not look.runs:
                return True
            idle.append(look)
            lately = [past for past in idle if past.at > look.at - 30]
            assert len(lately) < 4 or any(past.runs for past in lately), f"nobody runs it\n{self.story()}"
            return False

        self.wait(is_over, 900, "the end of the sweep")
        self.note("finished")

    def check(self, settled: float) -> None:
        """Check bits, journal and cells that it left, and that nobody runs for so many seconds."""
        self.stay_quiet(settled)
        assert_same_bits(self.reference, self.cube)
        list(journal_records(self.cube))  # raises where it is damaged
        verified = self.sweep("verify", self.cube, "--sample", "10")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert self.heads() == []
        assert self.cluster.queue() == {}

    def n_repeated(self) -> int:
        """Return the number of restarts that were begun more than once."""
        counts: Counter[tuple[str, int]] = Counter()
        for line in self.work_log.read_text().splitlines():
            cell, first, stop = line.rsplit(" ", 2)
            counts.update((cell, restart) for restart in range(int(first), int(stop)))
        return sum(counts.values()) - len(counts)

    def false_statements(self) -> dict[str, int]:
        """Return the number of looks at which a statement was wrong, by statement.

        A head that died unseen may be believed alive until its lease is stale. That nobody runs a sweep must
        not be said while a head lives, or waits in the queue.
        """
        wrong: Counter[str] = Counter()
        for position, look in enumerate(self.looks):
            before = [one for one in self.looks[: position + 1] if one.at >= look.at - STALE_AFTER - SLACK]
            lately = [one for one in before if one.at >= look.at - SLACK]
            if (named := RUN_BY.match(look.says)) is not None:
                hosts = {head.host for one in before for head in one.heads}
                # A submit holds the lease for a moment, too, until the queue has its head.
                again = RUN_BY.match(self.looks[position - 1].says) if position else None
                is_repeated = again is not None and again[1] == named[1]
                wrong["that it runs, long after its head died"] += is_repeated and named[1] not in hosts
            if GONE in look.says and look.at - self.looks[0].at > SLACK:
                wrong["that nobody runs it, while one does or will"] += all(one.moves for one in lately)
            if WAITS in look.says and look.at - self.looks[0].at > STARTS:
                starting = [one for one in before if one.at >= look.at - STARTS]
                wrong["that its head waits, which it does not"] += all(
                    WAITS in one.says and one.heads for one in starting
                )
        return dict(+wrong)

    def story(self) -> str:
        """Return all events and looks, and the ends of the logs."""
        run = RunFolder(self.cube)
        logs = [path.read_text()[-3000:] for path in (run.log, run.head_log) if path.exists()]
        return "\n".join([*map(str, self.events), *map(str, self.looks), *logs])

    def _heal(self, node: Host) -> None:
        self.cluster.net.heal(node)
        self.note(f"{node.name} joined again")

    def _watch(self) -> None:
        try:
            while not self._stop.is_set():
                self.looks.append(self._look())
                self._stop.wait(LOOK_EVERY)
        except BaseException as error:
            self._error = error

    def _look(self) -> Look:
        # Read as on one more machine that nobody cuts off; it may wait for a heartbeat.
        try:
            status: Status | None = read_status(self.cube)
        except InputError:  # before the head's first file
            status = None
        at = time.monotonic() - self.began
        says, blocks = "nothing yet", 0
        if status is not None:
            says, blocks = status.lines()[-1], status.blocks_done
        return Look(at, says, blocks, tuple(self.heads()), self.cluster.queue())

    def show(self) -> None:
        """Print counts and times; seen with -s."""
        events = "\n".join(f"{at:6.0f} s  {event}" for at, event in self.events)
        most = max(len(look.heads) for look in self.looks)
        print(f"{events}\n{len(self.looks)} looks, {most} heads at once")  # noqa: T201
        print(f"false statements: {self.false_statements()}")  # noqa: T201
        print(f"{self.n_repeated()} restarts were begun twice")  # noqa: T201


def _own_pid(pid: int) -> int:
    """Return the number of a process in the innermost of its process namespaces."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])
