"""The worker jobs that a profile asks for, and what of them cannot work, before any is submitted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dask.utils import format_bytes, parse_bytes

from pipeline.cluster.worker import MARGIN
from pipeline.common import duration
from pipeline.jobs.cluster import job_script, lifetime, machine_problems, path_problems
from pipeline.jobs.keys import JobQueue
from pipeline.jobs.slurm import SEPARATOR, CommandFailed, run, walltime_seconds
from pipeline.methods.process import PROCESS_BYTES, processes_kept
from pipeline.run.request import Prepared, longest_batch

WORKER_BYTES = 500 * 2**20
"""Memory of a worker process that compiles the kernels: 450 MiB measured; 215 MiB with cached kernels."""

NANNY_BYTES = 65 * 2**20
"""Memory of the process that starts a job's workers: 60 MiB measured."""

COPIES = 4
"""Of a data set in a worker: as received, as read, centred and scaled."""


@dataclass(frozen=True)
class JobPlan:
    """Worker jobs that would be submitted.

    Parameters
    ----------
    count : int
        Number of jobs.
    script : str
        Of the first one.
    warnings : tuple of str
        What cannot work, or not as intended.
    """

    count: int
    script: str
    warnings: tuple[str, ...]

    def lines(self) -> list[str]:
        """Text for people."""
        noun = "job" if self.count == 1 else "jobs"
        head = f"{self.count} worker {noun} of this script would be kept running:"
        warnings = [f"WARNING: {warning}" for warning in self.warnings]
        return [head, "", *self.script.strip().splitlines(), "", *warnings]


def plan_jobs(options: JobQueue, prepared: Prepared, *, where: str, n_jobs: int) -> JobPlan:
    """Plan the worker jobs of a sweep.

    Parameters
    ----------
    options : JobQueue
        The profile.
    prepared : Prepared
        The sweep.
    where : str
        File and profile, for messages.
    n_jobs : int
        Number of jobs.

    Returns
    -------
    JobPlan
        Nothing was written, and no job submitted; SLURM's limits are read where its commands answer.
    """
    longest = longest_batch(prepared)
    largest = max((8 * plan.n_samples * plan.n_features for plan in prepared.inputs.plans), default=0)
    warnings = [
        *(str(problem) for problem in machine_problems(options, where)),
        *(str(problem) for problem in path_problems(prepared.run)),
        *_memory_warnings(options, COPIES * largest + PROCESS_BYTES * processes_kept(prepared.methods)),
        *_walltime_warnings(options, longest),
        *(_slurm_warnings(options, n_jobs) if options.kind == "slurm" else ()),
    ]
    return JobPlan(n_jobs, job_script(options, prepared.run), tuple(warnings))


def _memory_warnings(options: JobQueue, more: int) -> Iterator[str]:
    """Of workers that take `more` bytes each, of data and of the processes of methods."""
    need = NANNY_BYTES + options.cores * (WORKER_BYTES + more)
    if options.memory < need:
        has, wanted = format_bytes(options.memory), format_bytes(need)
        yield f"memory {has} of a job is below the {wanted} that {options.cores} worker processes need"


def _walltime_warnings(options: JobQueue, longest: float) -> Iterator[str]:
    found = lifetime(options)
    if found is None:
        return
    least = found[0] - found[1]
    if MARGIN * longest > least:
        yield (
            f"workers end after {duration(least)} for their walltime, and a batch may last {longest:.0f} s: "
            f"a worker takes a second batch only if {MARGIN:g} times its seconds are left, and may be killed "
            "while it runs its first"
        )


def _slurm_warnings(options: JobQueue, n_jobs: int) -> Iterator[str]:
    queue = options.keys.get("queue")
    try:
        limits = partition(queue)
        memory, cores = largest_node(limits["PartitionName"])
        jobs = most_jobs()
    except CommandFailed as error:
        yield f"the limits of SLURM were not checked: {error}"
        return
    name = limits["PartitionName"]
    if limits.get("State", "UP") != "UP":
        yield f"partition {name} is {limits['State']}: no job starts there"
    most = walltime_seconds("slurm", limits.get("MaxTime", ""))
    walltime = options.walltime_seconds
    if most is not None and walltime is not None and walltime > most:
        yield f"walltime {duration(walltime)} is above the {limits['MaxTime']} of partition {name}"
    booked = parse_bytes(options.keys.get("job_mem", options.memory))
    per_node = _number(limits.get("MaxMemPerNode", "")) * 2**20
    room = min(filter(None, (memory, per_node)), default=booked)
    if booked > room:
        yield f"memory {format_bytes(booked)} of a job is above the {format_bytes(room)} of a node of {name}"
    wanted = int(options.keys.get("job_cpu", options.cores))
    widest = min(filter(None, (cores, _number(limits.get("MaxCPUsPerNode", "")))), default=wanted)
    if wanted > widest:
        yield f"cores {wanted} of a job are more than the {widest} of a node of {name}"
    total = _number(limits.get("TotalCPUs", ""))
    if total and wanted * n_jobs > total:
        yield f"{n_jobs} jobs of {wanted} cores are more than the {total} of {name}: the others will wait"
    if jobs and n_jobs > jobs:
        yield f"{n_jobs} jobs are more than the {jobs} that SLURM takes"


def _number(text: str) -> int:
    """Whole number of a limit, 0 where there is none."""
    return int(text) if text.isdigit() else 0


def partition(name: str | None) -> dict[str, str]:
    """What `scontrol show partition` says of a partition, of the default one where `name` is None.

    Raises
    ------
    CommandFailed
        If there is no such partition, or SLURM does not answer.
    """
    output = run(["scontrol", "--oneliner", "show", "partition", *([name] if name else [])])
    records = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in output.splitlines()]
    chosen = [record for record in records if name or record.get("Default") == "YES"]
    if not chosen:
        raise CommandFailed(["scontrol"], "no default partition", transient=False)
    return chosen[0]


def largest_node(name: str) -> tuple[int, int]:
    """Bytes of memory and number of cores of the largest node of a partition.

    Raises
    ------
    CommandFailed
        If SLURM does not answer.
    """
    output = run(["sinfo", "--noheader", f"--partition={name}", f"--format=%m{SEPARATOR}%c"])
    rows = [
        [int(re.sub(r"\D", "", text) or 0) for text in line.split(SEPARATOR)]
        for line in output.split()
        if SEPARATOR in line
    ]
    memory = max((row[0] for row in rows), default=0)
    return memory * 2**20, max((row[1] for row in rows), default=0)


def most_jobs() -> int:
    """How many jobs SLURM holds at once, 0 where it does not say.

    Raises
    ------
    CommandFailed
        If SLURM does not answer.
    """
    found = re.search(r"^MaxJobCount\s*=\s*(\d+)", run(["scontrol", "show", "config"]), re.MULTILINE)
    return int(found[1]) if found else 0
