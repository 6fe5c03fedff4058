"""The worker jobs that a profile asks for, and what of them cannot work, before any is submitted."""

import re
from collections.abc import Iterator

from dask.utils import format_bytes, parse_bytes

from sweep_clustering.pipeline.common import duration, plural
from sweep_clustering.pipeline.jobs.cluster import job_problems, job_script
from sweep_clustering.pipeline.jobs.keys import JobQueue
from sweep_clustering.pipeline.jobs.slurm import CommandFailed, run, walltime_seconds
from sweep_clustering.pipeline.run.request import Sweep


def job_lines(options: JobQueue, sweep: Sweep, *, where: str, n_jobs: int) -> list[str]:
    """Text for people: the script of the first worker job of a sweep, and what would not work as intended.

    Nothing is written, and no job submitted; SLURM's limits are read where its commands answer.

    Parameters
    ----------
    options : JobQueue
        The profile.
    sweep : Sweep
        The sweep.
    where : str
        File and profile, for messages.
    n_jobs : int
        Number of jobs.
    """
    warnings = [
        *job_problems(options, where, sweep.run),
        *(slurm_warnings(options, n_jobs) if options.kind == "slurm" else ()),
    ]
    script = job_script(options, sweep.run).strip().splitlines()
    head = f"{plural(n_jobs, 'worker job')} of this script would be kept running:"
    return [head, "", *script, "", *(f"WARNING: {warning}" for warning in warnings)]


def slurm_warnings(options: JobQueue, n_jobs: int) -> Iterator[str]:
    """Of jobs that ask for more than a partition has, or SLURM takes."""
    try:
        limits = partition(options.keys.get("queue"))
        name = limits["PartitionName"]
        memory, cores = largest_node(name)
        found = re.search(r"^MaxJobCount\s*=\s*(\d+)", run(["scontrol", "show", "config"]), re.MULTILINE)
    except CommandFailed as error:
        yield f"the limits of SLURM were not checked: {error}"
        return
    if limits.get("State", "UP") != "UP":
        yield f"partition {name} is {limits['State']}: no job starts there"
    most, walltime = walltime_seconds("slurm", limits.get("MaxTime", "")), options.walltime_seconds
    if most is not None and walltime is not None and walltime > most:
        yield f"walltime {duration(walltime)} is above the {limits['MaxTime']} of partition {name}"
    # A limit that is no number, as UNLIMITED, is none.
    numbers = {key: int(text) for key, text in limits.items() if text.isdigit()}
    booked = parse_bytes(options.keys.get("job_mem", options.memory))
    room = min(filter(None, (memory, numbers.get("MaxMemPerNode", 0) * 2**20)), default=booked)
    if booked > room:
        yield f"memory {format_bytes(booked)} of a job is above the {format_bytes(room)} of a node of {name}"
    wanted = int(options.keys.get("job_cpu", options.cores))
    widest = min(filter(None, (cores, numbers.get("MaxCPUsPerNode"))), default=wanted)
    if wanted > widest:
        yield f"cores {wanted} of a job are more than the {widest} of a node of {name}"
    total = numbers.get("TotalCPUs")
    if total and wanted * n_jobs > total:
        yield f"{n_jobs} jobs of {wanted} cores are more than the {total} of {name}: the others will wait"
    if found is not None and n_jobs > int(found[1]):
        yield f"{n_jobs} jobs are more than the {found[1]} that SLURM takes"


def partition(name: str | None) -> dict[str, str]:
    """What `scontrol show partition` says of a partition, of the default one where `name` is None.

    Raises
    ------
    CommandFailed
        If there is no such partition, or SLURM does not answer.
    """
    output = run(["scontrol", "--oneliner", "show", "partition", *filter(None, [name])])
    for record in (dict(re.findall(r"(\w+)=(\S*)", line)) for line in output.splitlines()):
        if name or record.get("Default") == "YES":
            return record
    raise CommandFailed(["scontrol"], "no default partition", transient=False)


def largest_node(name: str) -> tuple[int, int]:
    """Bytes of memory and number of cores of the largest node of a partition, 0 where SLURM says nothing.

    Raises
    ------
    CommandFailed
        If SLURM does not answer.
    """
    # "8192+ 16": of nodes that are not all alike
    output = run(["sinfo", "--noheader", f"--partition={name}", "--format=%m %c"])
    sizes = [int(text) for text in re.findall(r"\d+", output)]
    return max(sizes[::2], default=0) * 2**20, max(sizes[1::2], default=0)
