"""Try a compute cluster before a sweep needs it: one worker is started, and both sides are compared.

`examine` makes one `Check` after the other, and leaves nothing behind.
"""

import logging
import math
import operator
import os
import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from textwrap import wrap
from typing import Any, Self

import psutil
from dask.utils import format_bytes
from distributed import Client
from distributed.scheduler import KilledWorker

from sweep_clustering.installation import InstallationError
from sweep_clustering.pipeline.cluster.connect import connect
from sweep_clustering.pipeline.cluster.profiles import Address, Local, Profile
from sweep_clustering.pipeline.common import core_count, duration, memory_limit, plural
from sweep_clustering.pipeline.jobs.keys import JobQueue
from sweep_clustering.pipeline.jobs.queues import QUEUES, ComputeClusterError
from sweep_clustering.pipeline.run import signals
from sweep_clustering.pipeline.submit.submission import job_problems, limit_warnings
from sweep_clustering.storage import files
from sweep_clustering.storage.provenance import OF_PROCESSOR, PACKAGES, fingerprint, software_differences
from sweep_clustering.storage.runfolder.folder import GenerationFolder, JobList, cube_path
from sweep_clustering.storage.runfolder.lease import STALE_AFTER, Lease
from sweep_clustering.sweeps.errors import InputError, cause_of, raise_all, unstyled

logger = logging.getLogger(__name__)

# Levels of a check.
OK = "ok"
WARNING = "warning"
FAILURE = "failure"

# Width of the table, and of its first two columns, in characters.
WIDTH = 80
COLUMNS = "{:9}{:12}"


@dataclass(frozen=True)
class Check:
    """An answer about a compute cluster; `key` is what to change in the profile, or in the command."""

    name: str
    level: str
    value: str
    expected: str
    key: str

    def lines(self) -> list[str]:
        """Return its row of the table."""
        texts = self.value.splitlines()
        if self.level != OK:
            texts += [f"expected: {self.expected}", f"change: {self.key}"]
        first, indent = COLUMNS.format(self.level, self.name), COLUMNS.format("", "")
        cells = [cell for text in texts for cell in wrap(text, WIDTH - len(first), subsequent_indent="  ")]
        return [unstyled((indent if row else first) + cell) for row, cell in enumerate(cells)]


# A node, as a process there sees it.

# Packages that decide the bits of results, or whether processes understand each other.
DECISIVE = {"sweep", "python", "numba", "llvmlite", "numpy", "scipy", "dask", "distributed"}
PROCESSOR = ("machine",)

# Environment variables with the cores of a job, and those with its memory in MiB.
CORES = ("SLURM_CPUS_ON_NODE", "NSLOTS", "PBS_NP", "LSB_DJOB_NUMPROC")
MEMORY = ("SLURM_MEM_PER_NODE",)


@dataclass(frozen=True)
class Node:
    """Software and processor of a node, and limits of a process there (bytes, seconds) by what sets them.

    `starts` has the times at which the process and its parent began.
    """

    host: str
    software: dict[str, str]
    limits: dict[str, dict[str, float]]
    starts: tuple[float, ...]

    @classmethod
    def current(cls) -> Self:
        """Return the node of this process."""
        numbers = {name: float(text) for name, text in os.environ.items() if text.isdecimal()}
        limits = {
            "cores": {"affinity and control groups": float(core_count())}
            | {name: numbers[name] for name in CORES if numbers.get(name)},
            "memory": {"the machine": float(psutil.virtual_memory().total), "control groups": memory_limit()}
            | {name: numbers[name] * 2**20 for name in MEMORY if numbers.get(name)},
            "walltime": {"no limit is seen": math.inf},
        }
        ulimits = ("memory", "ulimit -v", resource.RLIMIT_AS), ("walltime", "ulimit -t", resource.RLIMIT_CPU)
        for name, source, number in ulimits:
            if (soft := resource.getrlimit(number)[0]) != resource.RLIM_INFINITY:
                limits[name][source] = float(soft)
        software = fingerprint() | {name: version(name) for name in PACKAGES}
        processes = filter(None, (psutil.Process(), psutil.Process().parent()))
        return cls(socket.gethostname(), software, limits, tuple(map(psutil.Process.create_time, processes)))


def software_checks(head: Node, worker: Node) -> Iterator[Check]:
    """Compare software and processors of two nodes."""
    packages = [name for name in head.software if name not in (*PROCESSOR, *OF_PROCESSOR)]
    for name, labels, key in (
        ("software", packages, "python, job_script_prologue"),
        ("processor", PROCESSOR, "job_extra_directives, queue"),
    ):
        head_values, worker_values = (
            {label: node.software.get(label, "missing") for label in labels} for node in (head, worker)
        )
        value = software_differences([(worker.host, worker_values), (head.host, head_values)])
        different = {label for label in labels if head_values[label] != worker_values[label]}
        level = FAILURE if different & DECISIVE else WARNING if different else OK
        value = value or ", ".join(f"{label} {text}" for label, text in head_values.items())
        yield Check(name, level, value, "the same on the node and here", key)


# Seconds that clocks may differ: people compare times in logs.
CLOCKS_DIFFER = 2.0


def clock_check(offset: float, trip: float) -> Check:
    """Judge by how many seconds the clock of a worker is ahead; a message there and back took `trip`."""
    # from the higher limit on, the heartbeat of a living head looks stale
    level = _graded(abs(offset) - trip / 2, CLOCKS_DIFFER, STALE_AFTER)
    value = f"{abs(offset):.3f} s {'ahead of' if offset > 0 else 'behind'} the clock here, ± {trip / 2:.3f} s"
    return Check("clock", level, value, f"at most {CLOCKS_DIFFER:g} s", "queue, or the clock of the node")


def _graded(value: float, limit: float, failure_limit: float = math.inf) -> str:
    return FAILURE if value > failure_limit else WARNING if value > limit else OK


def resource_checks(node: Node, profile: Profile, workers: int | None) -> Iterator[Check]:
    """Compare the limits of a node with what a profile asks for there; a running scheduler is not asked."""
    options, wishes, keys = profile.options, dict[str, float](), {"cores": "cores", "memory": "memory"}
    if isinstance(options, JobQueue):
        wishes = {"cores": options.cores, "memory": options.memory, "walltime": options.walltime_seconds or 0}
    elif isinstance(options, Local):
        count, keys = profile.process_count(workers), {"cores": "workers", "memory": "memory_limit, workers"}
        wishes = {"cores": count, "memory": count * (options.memory_limit or 0)}
    units = {"cores": "{:.0f}".format, "memory": lambda size: format_bytes(int(size)), "walltime": duration}
    for name, limits in node.limits.items():
        source, need, words = min(reversed(limits), key=limits.__getitem__), wishes.get(name, 0), units[name]
        value = source if math.isinf(limits[source]) else f"{words(limits[source])} ({source})"
        level = FAILURE if limits[source] < need else OK
        yield Check(name, level, value, f"at least {words(need)}", keys.get(name, name))


# The shared folder: functions that either side calls.

# Calls a function with arguments on one side, and returns its result.
Side = Callable[..., Any]

# Seconds until a file is given up, until it is slow, and until a sync is slow.
FILE_PATIENCE = 10.0
SLOW_FILE = 5.0
SLOW_SYNC = 1.0

# Numbers for which both sides race, as two heads do for a lease.
LOCKS = 50


def write(folder: Path, name: str, text: str) -> float:
    """Put a file in place durably, or replace it, and return the seconds that it took."""
    start = time.monotonic()
    files.PLAIN.put(folder / name, text.encode())
    files.sync_directory(folder)
    return time.monotonic() - start


def syncs_names(folder: Path) -> bool:
    """Whether `write` could make the names in a folder durable."""
    return folder.stat().st_dev not in files.unsynced_devices


def wait_for(folder: Path, name: str, text: str, patience: float) -> float:
    """Return after how many seconds a file has a text, infinity if it has not in time."""
    start = time.monotonic()
    while True:
        with suppress(FileNotFoundError):
            if (folder / name).read_text() == text:
                return time.monotonic() - start
        if time.monotonic() - start >= patience:
            return math.inf
        time.sleep(0.01)


def take_locks(folder: Path, name: str) -> set[int]:
    """Return the numbers that this process gets, each by a link as a lease is taken."""
    file, numbers = folder / name, set[int]()
    file.touch()
    for number in range(LOCKS):
        lock = folder / f"lock.{number}"
        with suppress(FileExistsError):
            os.link(file, lock)
        # a network file system may repeat a request that had succeeded
        if file.samefile(lock):
            numbers.add(number)
            time.sleep(0.002)  # so that the other side, which may have begun later, catches up
    return numbers


def folder_checks(head: Side, worker: Side, folder: Path) -> Iterator[Check]:
    """Compare what both sides see of a folder: files, renames, syncs and locks of the other one."""
    sync = 0.0
    for name in ("files", "renames"):  # a new file first, and then another one in its place
        delays = {}
        for place, writer, reader in (("the node", head, worker), ("here", worker, head)):
            file, text = place, f"{name} {time.time_ns()}"
            reader(wait_for, folder, file, "", 0.0)  # a file system may remember what it saw
            sync = max(sync, writer(write, folder, file, text))
            delays[place] = reader(wait_for, folder, file, text, FILE_PATIENCE)
        value = ", ".join(
            f"{place} {'never' if math.isinf(delay) else f'after {delay:.2f} s'}"
            for place, delay in delays.items()
        )
        level = _graded(max(delays.values()), SLOW_FILE, FILE_PATIENCE)
        yield Check(name, level, f"seen on {value}", f"within {SLOW_FILE:g} s on both sides", "--results")
        if level == FAILURE:
            return
    has_names = head(syncs_names, folder) and worker(syncs_names, folder)
    value = f"at most {sync:.2f} s for a file{'' if has_names else ', and names of files are not durable'}"
    level = _graded(sync, SLOW_SYNC) if has_names else WARNING
    yield Check("syncs", level, value, f"names, and files within {SLOW_SYNC:g} s", "--results")
    with ThreadPoolExecutor(2) as pool:
        races = [pool.submit(side, take_locks, folder, name) for side, name in ((head, "h"), (worker, "t"))]
        numbers, worker_numbers = (race.result() for race in races)
    n_both, n_neither = len(numbers & worker_numbers), LOCKS - len(numbers | worker_numbers)
    value = f"{len(numbers)} of {LOCKS} here, {len(worker_numbers)} on the node"
    conflict = f"; {n_both} on both sides, {n_neither} on none" if n_both or n_neither else ""
    level = FAILURE if conflict else OK
    yield Check("locks", level, value + conflict, "hard links that only one side can make", "--results")


# The whole examination.

# Seconds until an answer of the worker is given up, and until it is slow; number of timed messages.
PATIENCE = 30.0
SLOW_MESSAGE = 0.1
ROUNDS = 10

# Keys that limits of a queue are about.
LIMITED = "workers, queue, cores, memory, walltime"

# Words for a job without a worker, expectation and keys, by the first word of its state.
LOSSES = {
    "refused": ("was refused", "a queue that takes the job", "queue, account, memory, cores, walltime"),
    "gone": ("died at once", "a job whose worker starts", "python, job_script_prologue"),
    "starting": ("runs and has no worker", "a worker that reaches the scheduler", "interface"),
    "running": ("lost its worker", "a worker that stays", "memory, walltime"),
}


def examine(
    profile: Profile, results: Path, note: Callable[[Check], None], *, workers: int | None, wait: float
) -> None:
    """Start one worker of a profile, and compare what it sees with what this process sees.

    Parameters
    ----------
    profile : Profile
        Profile from `load_profile`.
    results : Path
        Folder of the cubes, in which a temporary folder is made.
    note : callable
        Takes each check as soon as it is made; after a failure there may be no other.
    workers : int or None
        Number of workers of a run, in place of the profile's.
    wait : float
        Seconds after which a job without a worker is given up.
    """
    options = profile.options
    if isinstance(options, JobQueue):
        # one death is an answer
        options = options.model_copy(update={"start_timeout": wait, "failed_starts": 1})
    single = Profile(profile.name, options, profile.origin)
    count = workers if isinstance(options, Address) else 1
    with (
        signals.stop_on_signal() as interrupt,
        _temporary(results) as folder,
        Lease.acquire(cube_path(folder, "doctor"), on_lost=interrupt) as lease,
    ):
        try:
            if isinstance(options, JobQueue):
                raise_all(job_problems(options, profile.location, lease.generation.run))
                n_jobs = workers or options.workers
                value = "\n".join(limit_warnings(options, n_jobs))
                level, expected = WARNING if value else OK, f"room for {plural(n_jobs, 'job')}"
                note(Check("limits", level, value or expected, expected, LIMITED))
            start_time = time.time()
            with connect(single, n_workers=count, lease=lease) as client:
                for check in _worker_checks(client, profile, workers, lease.generation, start_time):
                    note(check)
        except InputError as error:
            for problem in error.problems:
                note(Check("profile", FAILURE, problem.value, problem.expected, problem.where))
        except InstallationError as error:
            note(Check("software", FAILURE, str(error), "packages that fit together", "python"))
        except (ComputeClusterError, CancelledError, KilledWorker) as error:
            note(_loss_check(str(error), lease.generation))


@contextmanager
def _temporary(results: Path) -> Iterator[Path]:
    """Make a folder in the folder of the cubes, and remove it with the parents that were made for it."""
    with files.storage_errors(results):
        new_folders = [path for path in (results, *results.parents) if not path.exists()]
        results.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="sweep-doctor-", dir=results))
    try:
        yield folder
    finally:
        deadline = time.monotonic() + FILE_PATIENCE
        while folder.exists() and time.monotonic() < deadline:
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.1 * folder.exists())  # a job that is ending may still write its log
        if folder.exists():
            logger.warning("%s could not be removed", folder)
        with suppress(OSError):  # a run may use them by now
            for path in new_folders:
                path.rmdir()


def _loss_check(reason: str, generation: GenerationFolder) -> Check:
    """Return the check of a worker that did not come, or did not stay."""
    jobs, logs = JobList.read(generation.jobs), generation.run.job_logs
    if jobs is None or not jobs.jobs:
        return Check("worker", FAILURE, reason, "a worker process", "workers")
    state, number = jobs.jobs[0].state, jobs.jobs[0].job
    waits = (f"is still {state}", "a job that starts in time", "queue, account, walltime, or --wait")
    words, expected, key = LOSSES.get(state.partition(" ")[0], waits)
    details = [jobs.refusal] if jobs.refusal else reason.splitlines()[1:]
    if state == "gone" and not any(logs.glob("*")):
        details, expected, key = ["it left no log"], "a folder that the nodes share", "--results"
    # the logs are gone soon
    lines = [line.strip() for line in details if str(logs) not in line]
    value = "\n".join([f"job {number} {words}" if number else f"the job {words}", *lines])
    return Check("worker", FAILURE, value, expected, key)


def _worker_checks(
    client: Client, profile: Profile, workers: int | None, generation: GenerationFolder, start_time: float
) -> Iterator[Check]:
    """Yield the checks of a worker that is connected."""
    connect_time, options, jobs = time.time(), profile.options, JobList.read(generation.jobs)
    address = next(iter(client.scheduler_info(n_workers=-1)["workers"]))

    def call(function: Side, *arguments: object) -> Any:
        return client.submit(function, *arguments, workers=[address], pure=False).result(timeout=PATIENCE)

    def exchange() -> tuple[float, float]:
        """Return the seconds of a message there and back, and by how many the clock there is ahead."""
        start, clock, end = time.time(), call(time.time), time.time()
        return end - start, clock - (start + end) / 2

    try:
        node = call(Node.current)
        trip, offset = min(exchange() for _ in range(ROUNDS))
    except (OSError, ImportError, AttributeError) as error:  # an older release lacks this module
        yield Check("software", FAILURE, cause_of(error), f"an answer of the worker at {address}", "python")
        return
    # the first process of a job is the parent of its worker; the parent of a local one is this process
    delays = [delay for start in node.starts if (delay := start - offset - start_time) > -1.0]
    value = f"on {node.host}, connected after {connect_time - start_time:.1f} s"
    value += f"; its process began after {max(0.0, min(delays)):.1f} s" if delays else ""
    if jobs is not None and jobs.jobs:
        job, queue = jobs.jobs[0].job, QUEUES.get(options.kind)
        value = f"job {job} {value}"
        if queue is not None and (seconds := queue.details(job).limit) is not None:
            node.limits["walltime"][queue.title] = seconds
    yield Check("worker", OK, value, "a worker process", "workers")
    yield from software_checks(Node.current(), node)
    yield clock_check(offset, trip)
    scheduler = client.cluster.scheduler_address if client.cluster else client.scheduler.address
    value = f"{address} reaches {scheduler}, {trip:.3f} s there and back"
    yield Check("network", _graded(trip, SLOW_MESSAGE), value, f"at most {SLOW_MESSAGE:g} s", "interface")
    yield from resource_checks(node, profile, workers)
    if not isinstance(options, Address):  # whose workers share no file
        try:
            yield from folder_checks(operator.call, call, generation.path.resolve())
        except OSError as error:
            yield Check("files", FAILURE, cause_of(error), "a folder that the nodes share", "--results")
