"""A watch over worker jobs: it replaces lost ones, and ends a run that has none with a message."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from distributed import Client, Future

from sweep_clustering.pipeline.common import duration, plural
from sweep_clustering.pipeline.jobs import slurm
from sweep_clustering.pipeline.jobs.keys import JobQueue
from sweep_clustering.storage.runfolder.folder import GenerationFolder
from sweep_clustering.storage.runfolder.records import JobListFile, JobRecord

# A job whose workers stayed shorter than this died at once.
SETTLED_SECONDS = 10.0

# A job whose workers are gone for so long is replaced, though the queue does not answer.
LOST_SECONDS = 60.0

# States in which SLURM leaves a job that others have ended.
ENDED_BY_OTHERS = {"CANCELLED", "PREEMPTED", "NODE_FAIL"}

# Number of answers without a job after which it is replaced, though it is still being cleaned up.
MOST_ABSENT = 10

# Seconds before a job that keeps dying is replaced; the wait doubles up to this.
LONGEST_BACKOFF = 300.0


# Jobs in the queue, by number.
Live = Mapping[str, slurm.LiveJob]


@dataclass
class Slot:
    """State of a worker job; `deaths` and `early_ends` also count those of the jobs that it replaces."""

    job: Any
    deaths: int = 0
    early_ends: int = 0
    connected: float | None = None
    lost: float | None = None
    settled: bool = False
    absent: int = 0
    replace_at: float | None = None
    workers: int = 0
    node: str = ""
    ended: str = ""

    def update(self, workers: int, now: float) -> None:
        """Note how many workers the job has."""
        self.workers = workers
        if workers:
            self.connected = now if self.connected is None else self.connected
            self.lost, self.absent = None, 0
            if now - self.connected >= SETTLED_SECONDS:
                self.settled, self.early_ends, self.deaths = True, 0, 0
        elif self.connected is not None and self.lost is None:
            self.lost = now

    def mark_ended(self, now: float) -> tuple[str, float]:
        """Note the job's end; return how it ended, and the seconds until another one takes its place."""
        # Not its fault: it worked for a while, or it was ended from outside.
        excused = self.settled or self.ended in ENDED_BY_OTHERS
        self.early_ends += not self.settled
        self.deaths += not excused
        backoff = min(2.0**self.early_ends, LONGEST_BACKOFF) if self.early_ends else 0.0
        self.replace_at = now + backoff
        early = "could not be submitted" if self.job.refusal else "died at once"
        how = "was cancelled" if self.ended == "CANCELLED" else "was lost" if excused else early
        return how, backoff

    def is_gone(self, live: Live | None, now: float) -> bool:
        """Whether the job has ended; `live` is None if the queue does not answer."""
        if self.job.job_id is None:
            return bool(self.job.refusal)
        if live is None:
            return self.lost is not None and now - self.lost > LOST_SECONDS
        # Twice, because one answer may be from before the job entered the queue.
        self.absent = 0 if self.job.job_id in live else self.absent + 1
        return self.absent >= 2


logger = logging.getLogger(__name__)

# Seconds between two looks at the workers, which are connected to this process.
LOOK_SECONDS = 0.5

# Seconds between the first questions to the queue while a job has no worker, and the longest pause later.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0

# Seconds between two questions where jobs run.
PLACE_SECONDS = 10.0

# Lines that a message has of the log of a job that died at once.
TAIL_LINES = 15


class JobWatch:
    """A thread that looks after the worker jobs of a compute cluster.

    The client is that of a `pipeline.jobs.cluster.KeptCluster`. Its tasks are cancelled when no worker is
    available, so that nothing waits for them. The list of the jobs, whose names start with `name`, is kept in
    the folder of the generation, and their logs in the folder of the run.
    """

    def __init__(
        self, client: Client, options: JobQueue, *, name: str, generation: GenerationFolder, n_jobs: int
    ) -> None:
        self.failure: slurm.ComputeClusterError | None = None
        self._cluster = client.cluster
        self._client = client
        self._options = options
        self._name = name
        self._logs = generation.run.job_logs
        self._list = JobListFile(generation.jobs, n_jobs, generation.files)
        self._slots: dict[str, Slot] = {}
        self._is_slurm = options.kind == "slurm"
        self._live: Live | None = {} if self._is_slurm else None
        self._ask_at = self._place_at = 0.0
        self._pause = FIRST_PAUSE
        self._alive_at = time.monotonic()
        self._logged = ""
        self._ready = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="job-watch", daemon=True)

    def __enter__(self) -> JobWatch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_worker(self) -> None:
        """Return when a worker is connected; `ComputeClusterError` says that none is available."""
        self._ready.wait()
        if self.failure is not None:
            raise self.failure

    def look(self, now: float) -> None:
        """Look at all jobs once, at `now` of the monotonic clock, and do what is due."""
        for name, (job, workers) in self._cluster.sync(self._cluster.watched).items():
            slot = self._slots.setdefault(name, Slot(job))
            if job is not slot.job:
                slot = self._slots[name] = Slot(job, slot.deaths, slot.early_ends)
            slot.update(workers, now)
        waiting = {name: slot for name, slot in self._slots.items() if not slot.workers}
        if len(waiting) < len(self._slots):
            self._alive_at = now
            self._ready.set()
        # `sweep status` shows where a job is that works
        is_placed = all(slot.node for slot in self._slots.values() if slot.workers)
        if (waiting and now >= self._ask_at) or (not is_placed and now >= self._place_at):
            self._place_at = now + PLACE_SECONDS
            self._ask_queue(waiting, now)
        if not waiting:
            self._ask_at, self._pause = now, FIRST_PAUSE
        due = [name for name, slot in waiting.items() if now >= (slot.replace_at or math.inf)]
        if due:
            self._cluster.sync(self._cluster.drop, due)
            for name in due:
                self._slots[name].replace_at = math.inf  # once: what stands there next is another job
            self._ask_at, self._pause = now + FIRST_PAUSE, FIRST_PAUSE
        self._list.show([self._record(name) for name in self._slots])
        if len(waiting) == len(self._slots):
            self._give_up(now)

    def _record(self, name: str) -> JobRecord:
        slot = self._slots[name]
        live = (self._live or {}).get(slot.job.job_id)
        if slot.workers:
            state = "running"
        elif slot.job.refusal:
            state = "refused"
        elif slot.replace_at is not None:
            state = "gone"
        elif live is None:
            state = "submitted"
        else:
            state = "starting" if live.state == "RUNNING" else f"{live.state.lower()} ({live.reason})"
        number = slot.job.job_id or ""
        return JobRecord(name=name, job=number, node=slot.node, state=state, workers=slot.workers)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                if self.failure is None:
                    self.look(time.monotonic())
                else:
                    futures = [Future(key, self._client) for key in list(self._client.futures)]
                    if futures:  # nobody can run them
                        self._client.cancel(futures, force=True, msg=str(self.failure))
            except Exception:
                # A compute cluster that is closing answers nothing; a watch that dies would let the run hang.
                if not self._stop.is_set():
                    logger.debug("a look at the worker jobs failed", exc_info=True)

    def _ask_queue(self, waiting: dict[str, Slot], now: float) -> None:
        """Ask the queue what became of the jobs without workers, and where the others run."""
        if self._is_slurm:
            try:
                self._live = {job.number: job for job in slurm.live_jobs(self._name)}
            except slurm.CommandFailed as error:
                self._live = None
                logger.warning("the queue does not answer: %s", error)
        for slot in self._slots.values():
            if slot.workers and (job := (self._live or {}).get(slot.job.job_id)):
                slot.node = job.node
        for name, slot in waiting.items():
            if slot.replace_at is None and slot.is_gone(self._live, now) and self._has_ended(slot):
                how, backoff = slot.mark_ended(now)
                self._list.lose(self._record(name), how)
                number = slot.job.job_id
                logger.warning("worker job %s (%s) %s; another one in %.0f s", name, number, how, backoff)
        states = self._states(waiting.values())
        if states and states != self._logged:
            logger.info("worker jobs without workers: %s", states)
        self._logged = states
        self._pause = min(1.5 * self._pause, LONGEST_PAUSE)
        is_doubtful = any(slot.absent == 1 for slot in waiting.values())
        self._ask_at = now + (FIRST_PAUSE if is_doubtful else self._pause)

    def _has_ended(self, slot: Slot) -> bool:
        """Whether the end of a job is known, and how it came if that matters."""
        if slot.settled or slot.job.job_id is None or not self._is_slurm:
            return True
        slot.ended = slurm.end_state(slot.job.job_id)
        return slot.ended != "COMPLETING" or slot.absent >= MOST_ABSENT

    def _give_up(self, now: float) -> None:
        """End the run if no worker is to be expected; it has none now."""
        dead = max(self._slots.values(), key=lambda slot: slot.deaths, default=None)
        most = self._options.failed_starts
        if any(job.state == "RUNNING" for job in (self._live or {}).values()):
            most *= 3  # another one is starting
        if dead is not None and dead.deaths >= most:
            how = "cannot be submitted" if dead.job.refusal else "die at once"
            times = f"{plural(dead.deaths, 'time')} in a row, and no worker is left"
            message = f"worker jobs {how}: {times}\n{self._cause_of_end(dead)}"
        elif now - self._alive_at > self._options.start_timeout:
            states = self._states(self._slots.values()) or "nothing is known of the jobs"
            message = f"no worker for {duration(self._options.start_timeout)} (start_timeout): {states}"
        else:
            return
        self.failure = slurm.ComputeClusterError(message)
        self._ready.set()

    def _states(self, slots: Iterable[Slot]) -> str:
        """Count the states of jobs in the queue, with their reasons."""
        live = self._live or {}
        jobs = [live[slot.job.job_id] for slot in slots if slot.job.job_id in live]
        counts = Counter(f"{job.state.lower()} ({job.reason})" for job in jobs)
        return ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))

    def _cause_of_end(self, slot: Slot) -> str:
        """Return the queue's refusal of a dead job, or the end of its log."""
        if slot.job.refusal:
            return str(slot.job.refusal)
        logs = [path for path in self._logs.glob(f"*{slot.job.job_id}*") if path.stat().st_size]
        if not logs:
            return f"job {slot.job.job_id} left no log in {self._logs}"
        log = max(logs, key=lambda path: path.stat().st_mtime)
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"the end of {log}:", *(f"  {line}" for line in tail)])
