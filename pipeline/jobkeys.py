"""Keys of a profile whose workers are jobs of a queueing system."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import dask
from dask.utils import parse_bytes, parse_timedelta

from pipeline.walltime import walltime_seconds
from sweeps.tomlcheck import Bad, Check, Table, whole

CLASSES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "lsf": "LSFCluster",
    "htcondor": "HTCondorCluster",
    "moab": "MoabCluster",
    "oar": "OARCluster",
}
"""Names of dask-jobqueue's classes by short name."""

OURS = {
    # Names, addresses and credentials, which this package sets itself.
    *("name", "job_name", "config_name", "protocol", "security", "shared_temp_directory", "log_directory"),
    *("host", "dashboard_address", "scheduler_options"),
    # The shape of the processes: one thread each, under a nanny, as many jobs as `workers` says.
    *("nanny", "n_workers", "worker_command"),
    # How Python code uses the class.
    *("self", "scheduler", "job_cls", "scheduler_cls", "loop", "asynchronous", "silence_logs"),
}
DEPRECATED = {"extra", "job_extra", "env_extra", "header_skip"}
LISTS = {
    *("job_extra_directives", "job_script_prologue", "worker_extra_args", "job_directives_skip"),
    *("submit_command_extra", "cancel_command_extra"),
}


@dataclass(frozen=True)
class JobQueue:
    """Worker processes in jobs of a queueing system.

    Parameters
    ----------
    system : str
        Short name of dask-jobqueue's class.
    cores : int
        Cores, hence worker processes of one thread, of each job.
    memory : int
        Bytes of each job.
    workers : int
        Number of worker jobs that is kept up.
    dashboard_port : int
        Port wanted for the dashboard; a free one is taken when it is busy.
    start_timeout : float
        Seconds without any worker after which the run gives up.
    failed_starts : int
        Give up when a job died at once this many times running.
    insecure : bool
        Plain tcp in place of TLS.
    keys : mapping
        dask-jobqueue's own keys, `cores`, `memory` and `walltime` included.
    """

    system: str
    cores: int
    memory: int
    workers: int = 1
    dashboard_port: int = 8787
    start_timeout: float = 12 * 3600.0
    failed_starts: int = 3
    insecure: bool = False
    keys: Mapping[str, Any] = field(default_factory=dict)

    @property
    def walltime(self) -> float | None:
        """Seconds a job may last, None where that is not known."""
        text = self.keys.get("walltime")
        return walltime_seconds(self.system, text) if isinstance(text, str) else None


def read_job_queue(table: Table, system: str) -> JobQueue:
    """Take the keys of a profile; what is wrong is noted in the table's problems.

    Parameters
    ----------
    table : Table
        The profile.
    system : str
        One of `CLASSES`.

    Returns
    -------
    JobQueue
        Of use only where no problem was noted.
    """
    cores = table.required("cores", whole(1, 10_000), 1)
    memory = table.required("memory", size, 1)
    checks: dict[str, Check[Any]] = {
        "processes": _same_as(cores),
        "walltime": _walltime(system),
        "death_timeout": whole(1),
        **dict.fromkeys(LISTS, _lines),
    }
    if system == "htcondor":
        checks["job_extra_directives"] = _pairs
    keys: dict[str, Any] = {}
    for key in set(known_keys(system)) - {"cores", "memory"}:
        if table.optional(key, checks.get(key, _plain), None) is not None:
            keys[key] = table.raw(key)
    if "walltime" in known_keys(system):
        keys.setdefault("walltime", dask.config.get(f"jobqueue.{system}.walltime"))
    return JobQueue(
        system=system,
        cores=cores,
        memory=memory,
        workers=table.optional("workers", whole(1, 100_000), JobQueue.workers),
        dashboard_port=table.optional("dashboard_port", whole(0, 65_535), JobQueue.dashboard_port),
        start_timeout=table.optional("start_timeout", _duration, JobQueue.start_timeout),
        failed_starts=table.optional("failed_starts", whole(1, 1000), JobQueue.failed_starts),
        insecure=table.optional("insecure", _yes_or_no, JobQueue.insecure),
        keys={**keys, "cores": cores, "processes": cores, "memory": table.raw("memory")},
    )


def cluster_class(system: str) -> Any:
    """Return dask-jobqueue's class of a system.

    The package is imported on demand: it makes Ctrl-C a silent exit with code 0, which is undone here.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        return getattr(import_module("dask_jobqueue"), CLASSES[system])
    finally:
        signal.signal(signal.SIGINT, before)


@cache
def known_keys(system: str) -> tuple[str, ...]:
    """Keys that the installed dask-jobqueue takes for a system, without those that are set here."""
    cluster = cluster_class(system)
    found: set[str] = set()
    for kind in (*cluster.__mro__, *cluster.job_cls.__mro__):
        if kind.__module__.startswith("dask_jobqueue.") and "__init__" in vars(kind):
            parameters = inspect.signature(kind.__init__).parameters.values()
            found.update(p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD)
    if "account" in found:
        found.discard("project")  # its deprecated name
    return tuple(sorted(found - OURS - DEPRECATED))


def size(value: Any) -> int:
    """Bytes of a size such as "4GiB"."""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        try:
            found = int(parse_bytes(value))
        except ValueError:
            found = 0
        if found > 0:
            return found
    raise Bad('a size such as "4GiB"')


def _same_as(cores: int) -> Check[int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or value != cores:
            raise Bad(f"{cores}, as many as cores: a process has one thread", 'to book more cores, "job_cpu"')
        return cores

    return check


def _walltime(system: str) -> Check[str]:
    def check(value: Any) -> str:
        # YAML 1.1 reads an unquoted 10:00:00 as the number 36000, which SLURM would take for minutes.
        if not isinstance(value, str):
            raise Bad('a time in quotes, such as "10:00:00"')
        if system == "slurm" and walltime_seconds(system, value) is None:
            raise Bad('a time such as "10:00:00" or "2-00:00:00"')
        return str(_plain(value))

    return check


def _lines(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise Bad("a list of texts")
    for line in value:
        _plain(line)
    return value


def _pairs(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Bad("a table of texts")
    for item in (*value, *value.values()):
        _plain(item)
    return value


def _plain(value: Any) -> Any:
    if not isinstance(value, (str, int, float)):
        raise Bad("a text or a number")
    if isinstance(value, str) and not (value.isprintable() and value.strip()):
        raise Bad("a text of one line")
    return value


def _duration(value: Any) -> float:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            seconds = float(parse_timedelta(value))
        except (ValueError, KeyError):
            seconds = 0.0
        if seconds > 0:
            return seconds
    raise Bad('a time such as "30min" or "12h"')


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Bad("true or false")
    return value
