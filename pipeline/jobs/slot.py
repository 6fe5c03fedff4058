"""A wanted worker job as the watch sees it: whether it has workers, is gone, and why it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.jobs import slurm
from storage.runfolder.records import JobRecord

SETTLED_SECONDS = 10.0
"""A job whose workers stayed shorter than this died at once."""

LOST_SECONDS = 60.0
"""Where the queue cannot be asked, a job whose workers are gone for so long is replaced."""

ENDED_BY_OTHERS = {"CANCELLED", "PREEMPTED", "NODE_FAIL"}
"""States in which SLURM leaves a job that others have ended."""

MOST_ABSENT = 10
"""Answers of the queue without a job after which it is replaced, though it is still being cleaned up."""

LONGEST_BACKOFF = 300.0
"""Seconds before a job that keeps dying is replaced; the wait doubles up to this."""


@dataclass
class Slot:
    """What is known about one wanted job, and about those that it replaces."""

    job: Any
    connected: float | None = None
    lost: float | None = None
    settled: bool = False
    absent: int = 0
    early_ends: int = 0
    deaths: int = 0
    replace_at: float | None = None
    workers: int = 0
    node: str = ""
    ended: str = ""

    def update(self, job: Any, workers: int, now: float) -> None:
        """Take note of a job and of how many workers it has."""
        if job is not self.job:
            self.job, self.connected, self.lost, self.replace_at = job, None, None, None
            self.settled, self.absent, self.node, self.ended = False, 0, "", ""
        self.workers = workers
        if workers:
            self.connected = now if self.connected is None else self.connected
            self.lost, self.absent = None, 0
            if now - self.connected >= SETTLED_SECONDS:
                self.settled, self.early_ends, self.deaths = True, 0, 0
        elif self.connected is not None and self.lost is None:
            self.lost = now

    @property
    def excused(self) -> bool:
        """Whether the end is not the job's fault: it worked for a while, or it was ended from outside."""
        return self.settled or self.ended in ENDED_BY_OTHERS

    def mark_ended(self, now: float) -> float:
        """Take note of the job's end; seconds until another one takes its place."""
        self.early_ends += 0 if self.settled else 1
        self.deaths += 0 if self.excused else 1
        backoff = min(2.0**self.early_ends, LONGEST_BACKOFF) if self.early_ends else 0.0
        self.replace_at = now + backoff
        return backoff

    def record(self, name: str, live: list[slurm.LiveJob]) -> JobRecord:
        """Its record for the list of jobs; `live` are the jobs in the queue when it was asked last."""
        number = self.job.job_id or ""
        state = "refused" if self.job.refusal else "gone" if self.replace_at is not None else "submitted"
        found = next((job for job in live if job.number == number), None)
        if found is not None and self.replace_at is None:
            state = "starting" if found.running else f"{found.state.lower()} ({found.reason})"
        if self.workers:
            state = "running"
        return JobRecord(name=name, job=number, node=self.node, state=state, workers=self.workers)

    @property
    def waits(self) -> bool:
        """Whether it has no worker."""
        return self.connected is None or self.lost is not None

    def is_gone(self, live: list[slurm.LiveJob] | None, now: float) -> bool:
        """Whether the job has ended; `live` is None where the queue cannot be asked."""
        if self.job.job_id is None:
            return bool(self.job.refusal)
        if live is None:
            return self.lost is not None and now - self.lost > LOST_SECONDS
        listed = any(job.number == self.job.job_id for job in live)
        # Twice, because one answer may be from before the job entered the queue.
        self.absent = 0 if listed else self.absent + 1
        return self.absent >= 2
