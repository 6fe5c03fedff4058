"""Who a process is, so that a later reader can tell whether it still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from sweep_clustering.storage.runfolder.records import Record

PROC = Path("/proc")
JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")
# The other systems give no such number: there a job that is started again waits like any other process.
RESTARTS_VARIABLE = "SLURM_RESTART_COUNT"


class ProcessIdentity(Record):
    """A process among all machines and all times.

    Parameters
    ----------
    host : str
        For people: containers and cloned machines share names.
    boot_id : str
        One start of one machine.
    pid_namespace : str
        Where `pid` counts; containers of one machine have their own.
    pid : int
        Process id.
    process_start : str
        When the process began: process ids are used again.
    job_id : str
        Of the batch system; empty outside.
    job_restarts : int
        How often the batch system has started that job again.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_start: str
    job_id: str
    job_restarts: int = 0

    def succeeds(self, other: ProcessIdentity) -> bool:
        """Whether the batch system started this process in place of `other`: the same job, started again."""
        return bool(self.job_id) and self.job_id == other.job_id and self.job_restarts > other.job_restarts


def this_process() -> ProcessIdentity:
    """Identity of the calling process."""
    job_id = next((os.environ[name] for name in JOB_VARIABLES if os.environ.get(name)), "")
    restarts = os.environ.get(RESTARTS_VARIABLE, "")
    return ProcessIdentity(
        host=socket.gethostname(),
        boot_id=_boot_id(),
        pid_namespace=_pid_namespace(),
        pid=os.getpid(),
        process_start=_process_start(os.getpid()) or "",
        job_id=job_id,
        job_restarts=int(restarts) if restarts.isdecimal() else 0,
    )


def is_alive(process: ProcessIdentity) -> bool | None:
    """Whether a process lives.

    Parameters
    ----------
    process : ProcessIdentity
        As it was recorded.

    Returns
    -------
    bool or None
        None where that cannot be seen from here: another machine, another boot of this one, another
        container. A zombie is dead.
    """
    if (process.boot_id, process.pid_namespace) != (_boot_id(), _pid_namespace()):
        return None
    return _process_start(process.pid) == process.process_start


def _boot_id() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil  # elsewhere than on Linux only

        return f"{socket.gethostname()} {psutil.boot_time():.0f}"


def _pid_namespace() -> str:
    try:
        return os.readlink(PROC / "self/ns/pid")
    except OSError:
        return ""


def _process_start(pid: int) -> str | None:
    """Start of a living process, or None."""
    # Ticks since boot, unlike psutil's time of day, do not move when the clock is set.
    if (PROC / "self/stat").exists():
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        state, start = fields[0], fields[19]
        return None if state in "ZXx" else start
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None
