"""The worker jobs that a profile asks for, and what of them cannot work, before any is submitted."""

import re
from collections.abc import Iterator

from dask.utils import format_bytes, parse_bytes

from pipeline.common import duration, plural
from pipeline.jobs.cluster import job_problems, job_script
from pipeline.jobs.keys import JobQueue
from pipeline.jobs.slurm import CommandFailed, run, walltime_seconds
from pipeline.methods.process import PROCESS_BYTES, processes_kept
from pipeline.run.request import Prepared

# Memory of a worker process that compiles the kernels: 450 MiB measured; 215 MiB with cached kernels.
WORKER_BYTES = 500 * 2**20

# Memory of the process that starts a job's workers: 60 MiB measured.
NANNY_BYTES = 65 * 2**20

# Of a data set in a worker: as received, as read, centred and scaled.
COPIES = 4


def job_lines(options: JobQueue, prepared: Prepared, *, where: str, n_jobs: int) -> list[str]:
    """Text for people: the script of the first worker job of a sweep, and what would not work as intended.

    Nothing is written, and no job submitted; SLURM's limits are read where its commands answer.

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
    """
    largest = max((8 * plan.n_samples * plan.n_features for plan in prepared.inputs.plans), default=0)
    warnings = [
        *job_problems(options, where, prepared.run),
        *memory_warnings(options, COPIES * largest + PROCESS_BYTES * processes_kept(prepared.methods)),
        *(slurm_warnings(options) if options.kind == "slurm" else ()),
    ]
    script = job_script(options, prepared.run).strip().splitlines()
    head = f"{plural(n_jobs, 'worker job')} of this script would be kept running:"
    return [head, "", *script, "", *(f"WARNING: {warning}" for warning in warnings)]


def memory_warnings(options: JobQueue, more: int) -> Iterator[str]:
    """Of workers that take `more` bytes each, of data and of the processes of methods."""
    need = NANNY_BYTES + options.cores * (WORKER_BYTES + more)
    if options.memory < need:
        has, wanted = format_bytes(options.memory), format_bytes(need)
        yield f"memory {has} of a job is below the {wanted} that {options.cores} worker processes need"


def slurm_warnings(options: JobQueue) -> Iterator[str]:
    """Of jobs that ask for more than a partition has."""
    queue = options.keys.get("queue")
    try:
        # One row for nodes that are alike, "8192+" of some that are not; a star marks the default partition.
        output = run(["sinfo", "--noheader", "--format=%P|%a|%l|%m|%c"])
    except CommandFailed as error:
        yield f"the limits of SLURM were not checked: {error}"
        return
    named = r"[^|]*\*" if queue is None else rf"{re.escape(queue)}\*?"
    rows = re.findall(rf"^({named})\|(\w+)\|([^|]*)\|(\d+)\+?\|(\d+)", output, re.MULTILINE)
    if not rows:
        yield f"SLURM has no {'default partition' if queue is None else f'partition {queue!r}'}"
        return
    names, states, times, megabytes, cores = zip(*rows, strict=True)
    name, memory = names[0].rstrip("*"), 2**20 * max(map(int, megabytes))
    if states[0] != "up":
        yield f"partition {name} is {states[0]}: no job starts there"
    most, walltime = walltime_seconds("slurm", times[0]), options.walltime_seconds
    if most is not None and walltime is not None and walltime > most:
        yield f"walltime {duration(walltime)} is above the {duration(most)} of partition {name}"
    booked = parse_bytes(options.keys.get("job_mem", options.memory))
    if booked > memory:
        has, asked = format_bytes(memory), format_bytes(booked)
        yield f"memory {asked} of a job is above the {has} of a node of {name}"
    wanted, widest = int(options.keys.get("job_cpu", options.cores)), max(map(int, cores))
    if wanted > widest:
        yield f"cores {wanted} of a job are more than the {widest} of a node of {name}"
