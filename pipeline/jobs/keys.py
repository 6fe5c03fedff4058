"""Keys of a profile whose workers are jobs of a queueing system."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, resources
from typing import Any

import dask
import yaml

from pipeline.jobs.values import (
    lines,
    pairs,
    plain,
    same_as,
    size,
    time_span,
    walltime,
    walltime_seconds,
    word,
    yes_or_no,
)
from sweeps.file.toml import Check, Table, whole

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
class HeadResources:
    """What the job of a detached head asks for; it schedules and writes, and solves nothing.

    Parameters
    ----------
    cores : int
        Cores.
    memory : int
        Bytes.
    walltime : str or None
        As the system writes it; None for that of the worker jobs. The job is queued again before its end.
    queue, account : str or None
        None for those of the worker jobs.
    job_extra_directives : tuple of str
        Lines of its script, without those of the worker jobs.
    """

    cores: int = 1
    memory: int = 2 * 2**30
    walltime: str | None = None
    queue: str | None = None
    account: str | None = None
    job_extra_directives: tuple[str, ...] = ()


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
    head : HeadResources
        Of the job of a detached head.
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
    head: HeadResources = HeadResources()
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
        "processes": same_as(cores),
        "walltime": walltime(system),
        "death_timeout": whole(1),
        **dict.fromkeys(LISTS, lines),
    }
    if system == "htcondor":
        checks["job_extra_directives"] = pairs
    keys: dict[str, Any] = {}
    for key in set(known_keys(system)) - {"cores", "memory"}:
        if table.optional(key, checks.get(key, plain), None) is not None:
            keys[key] = table.raw(key)
    if "walltime" in known_keys(system):
        keys.setdefault("walltime", _packaged_defaults()[system]["walltime"])
    return JobQueue(
        system=system,
        cores=cores,
        memory=memory,
        workers=table.optional("workers", whole(1, 100_000), JobQueue.workers),
        dashboard_port=table.optional("dashboard_port", whole(0, 65_535), JobQueue.dashboard_port),
        start_timeout=table.optional("start_timeout", time_span, JobQueue.start_timeout),
        failed_starts=table.optional("failed_starts", whole(1, 1000), JobQueue.failed_starts),
        insecure=table.optional("insecure", yes_or_no, JobQueue.insecure),
        head=_head(table.inner("head"), system) if system == "slurm" else HeadResources(),
        keys={**keys, "cores": cores, "processes": cores, "memory": table.raw("memory")},
    )


def _head(table: Table, system: str) -> HeadResources:
    head = HeadResources(
        cores=table.optional("cores", whole(1, 10_000), HeadResources.cores),
        memory=table.optional("memory", size, HeadResources.memory),
        walltime=table.optional("walltime", walltime(system), None),
        queue=table.optional("queue", word, None),
        account=table.optional("account", word, None),
        job_extra_directives=tuple(table.optional("job_extra_directives", lines, [])),
    )
    table.close()
    return head


def cluster_class(system: str) -> Any:
    """Return dask-jobqueue's class of a system.

    The package is imported on demand: it makes Ctrl-C a silent exit with code 0, which is undone here. Keys
    that a profile leaves out have the package's own defaults, whatever dask's configuration files of this
    machine say: cluster.yaml alone tells what a job is.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        package = import_module("dask_jobqueue")
    finally:
        signal.signal(signal.SIGINT, before)
    dask.config.set({"jobqueue": _packaged_defaults()})
    return getattr(package, CLASSES[system])


@cache
def _packaged_defaults() -> dict[str, Any]:
    text = (resources.files("dask_jobqueue") / "jobqueue.yaml").read_text(encoding="utf-8")
    defaults: dict[str, Any] = yaml.safe_load(text)["jobqueue"]
    return defaults


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
