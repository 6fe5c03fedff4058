"""The job of a detached head in a queue: its script, and how it resumes after its walltime."""

from __future__ import annotations

import logging
import math
import re
import shlex
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.jobs.keys import KnownQueue
from sweep_clustering.storage.files import StorageError
from sweep_clustering.storage.runfolder.folder import REQUEUED, HeadRecord, RunFolder, Submission
from sweep_clustering.storage.runfolder.lease import own_job

logger = logging.getLogger(__name__)

# Time before its walltime at which the head gets a signal; SLURM may send it a minute earlier.
WARNING_SECONDS = 180.0


@dataclass(frozen=True)
class HeadJob:
    """The job whose head this process is: its queue and number, and how often it was queued again."""

    queue: queues.Queue
    number: str
    restarts: int

    @classmethod
    def current(cls, run: RunFolder) -> HeadJob | None:
        """Return the job that this process is the head of, None outside of one."""
        job = own_job()
        queue = queues.QUEUES.get(job.system)
        if queue is None or job.name != queues.head_name(run):
            return None
        head, submission = HeadRecord.read(run.last_run.head), Submission.read(run.submission)
        is_next = head is not None and head.state == REQUEUED and head.job != job.number
        if head is not None and is_next and submission is not None and submission.job == job.number:
            return cls(queue, job.number, head.restarts + 1)
        return cls(queue, job.number, job.restarts)

    def continues(self, number: int) -> bool:
        """Whether a signal means that the job is to start again, and not that a user wants the head to end.

        SIGUSR1 comes before the walltime, as the script asks. SLURM sends SIGTERM, and Grid Engine SIGUSR2,
        at the walltime, when the job is cancelled, and when it is back in the queue: its node was lost, or
        others come first.
        """
        if number == signal.SIGUSR1:
            return True
        return number in (signal.SIGTERM, signal.SIGUSR2) and (
            self.queue.is_out_of_time(self.number) or self._waits_again()
        )

    def requeue(self, run: RunFolder) -> bool:
        """Queue this job again, or another one in its place; return False if that is refused."""
        try:
            if self._waits_again():
                return True
            if self.queue.requeuing:
                self.queue.requeue(self.number)
                return True
            at = time.time()
            name = queues.head_name(run)
            number = replace(self.queue, attempts=6).submit(str(run.script), name, besides=self.number)
            host = socket.gethostname()
            Submission(system=self.queue.kind, job=number, host=host, at=at).write(run.submission)
        except (queues.CommandFailed, StorageError) as error:
            logger.error("the head was not queued again (%s); submit again to resume", error)
            return False
        return True

    def _waits_again(self) -> bool:
        return self.queue.details(self.number).restarts > self.restarts


def head_script(options: KnownQueue, run: RunFolder, arguments: Sequence[str]) -> str:
    """Return the script of the head's job, which runs `sweep` with these arguments."""
    queue, head, keys = queues.QUEUES[options.kind], options.head, options.keys
    walltime = head.walltime or keys.get("walltime")
    seconds = queues.walltime_seconds(options.kind, walltime or "")
    # before the end of the walltime, when the head is to get a signal
    warning = int(max(1.0, min(WARNING_SECONDS, (seconds or math.inf) / 4)))
    values = {
        "name": queues.head_name(run),
        "log": run.head_log.resolve(),
        "cores": head.cores,
        "memory": math.ceil(head.memory / 2**20),
        "walltime": walltime,
        "seconds": seconds and f"{seconds:.0f}",
        "warning": warning,
        "warned": seconds and f"{max(1.0, seconds - warning):.0f}",
        "queue": head.queue or keys.get("queue"),
        "account": head.account or keys.get("account") or keys.get("project"),
        "mail": options.mail,
        "pe": options.environment if head.cores > 1 else None,
    }
    values = {key: value for key, value in values.items() if value is not None}
    lines_of_head = [
        f"{queue.marker} {template.format_map(values)}"
        for template in queue.head_directives
        if values.keys() >= {*re.findall(r"{(\w+)}", template)}
    ]
    directives = [
        line for line in lines_of_head if not any(text in line for text in head.job_directives_skip)
    ]
    lines = [
        "#!/usr/bin/env bash",
        *directives,
        *(f"{queue.marker} {directive}" for directive in head.job_extra_directives),
        # Until the head listens, a warning must not end it.
        "trap '' USR1 USR2",
        *keys.get("job_script_prologue", []),
        # The directory a job starts in must not stand before the installed packages.
        "export PYTHONSAFEPATH=1",
        f"cd {shlex.quote(str(Path.cwd()))}",
        # In place of the shell, so that it is python that gets the signals.
        f"exec {keys['python']} -m sweep_clustering {shlex.join(arguments)}",
    ]
    return "\n".join(lines) + "\n"
