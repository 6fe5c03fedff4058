"""The job of a detached head in SLURM's queue: its script, and how it resumes after its walltime."""

from __future__ import annotations

import logging
import math
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweep_clustering.pipeline.jobs import slurm
from sweep_clustering.pipeline.jobs.keys import SlurmQueue
from sweep_clustering.storage.runfolder.folder import RunFolder

logger = logging.getLogger(__name__)

# Time before its walltime at which the head gets a signal; SLURM may send it a minute earlier.
WARNING_SECONDS = 180.0


@dataclass(frozen=True)
class HeadJob:
    """The job whose head this process is: its number in the queue, and how often it was queued again."""

    number: str
    restarts: int

    @classmethod
    def current(cls, run: RunFolder) -> HeadJob | None:
        """Return the job that this process is the head of, None outside of one."""
        number = os.environ.get("SLURM_JOB_ID")
        if not number or os.environ.get("SLURM_JOB_NAME") != slurm.head_name(run):
            return None
        return cls(number, int(os.environ.get("SLURM_RESTART_COUNT") or 0))

    def continues(self, number: int) -> bool:
        """Whether a signal means that the job is to start again, and not that a user wants the head to end.

        SLURM sends SIGUSR1 before the walltime, as the script asks. It sends SIGTERM at the walltime, when
        the job is cancelled, and when it has put the job back into the queue: its node was lost, or others
        come first.
        """
        if number == signal.SIGUSR1:
            return True
        return number == signal.SIGTERM and (slurm.is_out_of_time(self.number) or self._waits_again())

    def requeue(self) -> bool:
        """Queue this job again, which ends this process; return False if SLURM refuses."""
        try:
            if not self._waits_again():
                slurm.requeue(self.number)
        except slurm.CommandFailed as error:
            logger.error("the head was not queued again (%s); submit again to resume", error)
            return False
        return True

    def _waits_again(self) -> bool:
        return slurm.restarts(self.number) > self.restarts


def head_script(options: SlurmQueue, run: RunFolder, arguments: Sequence[str]) -> str:
    """Return the script of the head's job, which runs `sweep` with these arguments."""
    head, keys = options.head, options.keys
    walltime = head.walltime or keys.get("walltime")
    seconds = slurm.walltime_seconds("slurm", walltime or "") or math.inf
    warning = max(1.0, min(WARNING_SECONDS, seconds / 4))
    directives = {
        "-J": slurm.head_name(run),
        "-o": str(run.head_log.resolve()),
        "-p": head.queue or keys.get("queue"),
        "-A": head.account or keys.get("account"),
        "-n": 1,
        "--cpus-per-task": head.cores,
        "--mem": f"{math.ceil(head.memory / 2**20)}M",
        "-t": walltime,
        "--open-mode": "append",
        "--signal": f"B:USR1@{int(warning)}",
    }
    texts = [
        f"{key}{'=' if key.startswith('--') else ' '}{value}" for key, value in directives.items() if value
    ]
    python = keys.get("python", sys.executable)
    lines = [
        "#!/usr/bin/env bash",
        *(f"#SBATCH {text}" for text in (*texts, "--requeue", *head.job_extra_directives)),
        # Until the head listens, a warning must not end it.
        "trap '' USR1",
        *keys.get("job_script_prologue", []),
        # The directory a job starts in must not stand before the installed packages.
        "export PYTHONSAFEPATH=1",
        f"cd {shlex.quote(str(Path.cwd()))}",
        # In place of the shell, so that it is python that gets the signals.
        f"exec {python} -m sweep_clustering {shlex.join(arguments)}",
    ]
    return "\n".join(lines) + "\n"
