"""The submit command: everything is checked, then the sweep is run, handed over, or only shown."""

import fnmatch
import logging
import os
import re
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from dask.utils import format_bytes, parse_bytes
from rich.console import Console

from sweep_clustering.installation import check_numpy
from sweep_clustering.pipeline.cluster.profiles import load_profile
from sweep_clustering.pipeline.common import COMPLETE, INTERNAL, at_hand, duration, own_names, plural, span
from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.jobs.cluster import job_script
from sweep_clustering.pipeline.jobs.keys import JobQueue, KnownQueue, cluster_class
from sweep_clustering.pipeline.monitor.status import last_lines, read_run_state
from sweep_clustering.pipeline.run.head import DETACHED, head_script, report_done, run_head, withdraw_cancel
from sweep_clustering.pipeline.run.request import Options, Request, Selection, Sweep, is_settled, prepare
from sweep_clustering.pipeline.submit import overview
from sweep_clustering.storage.files import StorageError, storage_errors
from sweep_clustering.storage.runfolder.folder import RunFolder, Submission, cube_path
from sweep_clustering.storage.runfolder.lease import Lease, LeaseHeld
from sweep_clustering.sweeps.errors import InputError, Problem, collecting, raise_all
from sweep_clustering.sweeps.plan import find_cells

logger = logging.getLogger(__name__)


# Shows the plan of a dry run, which it gets as plain values.
ShowPlan = Callable[[dict[str, Any]], object]


def submit(path: Path, options: Options, console: Console, *, show_plan: ShowPlan | None = None) -> int:
    """Run what is left of a sweep.

    The console shows progress; warnings and results go through logging. `show_plan` takes the plan of a dry
    run as plain values; without it the console shows the plan.

    Returns
    -------
    int
        0 complete (or handed over, with `detach`), 1 stopped by a failing disk or a lease that is lost or
        taken, 3 finished with failed cells (with `strict`, also when data sets were skipped), 128 + n stopped
        by signal n.

    Raises
    ------
    sweep_clustering.sweeps.errors.InputError
        If the input is bad; nothing was started and nothing written.
    """
    check_numpy()
    request = _read_request(path, options)
    sweep, profile = request.sweep, request.profile
    if (gap := at_hand(sweep.spec, sweep.inputs.skipped)) is not None:
        logger.warning("%s", gap)
    for warning in overview.memory_warnings(sweep, profile, options.workers):
        logger.warning("%s", warning)
    notify = None if profile is None else profile.options.notify
    if profile is not None and notify and shutil.which(notify[0]) is None:
        logger.warning("%s notify: there is no command %r on this machine", profile.location, notify[0])
    if not options.dry_run:
        for line in overview.note_lines(overview.search_notes(sweep.spec), overview.sweep_notes(sweep)):
            logger.warning(line)
        return detach(request) if options.detach else run_head(request, console)
    workers = 1 if profile is None else profile.process_count(options.workers)
    plan = overview.plan_overview(sweep, workers=workers, selection=request.selection)
    if show_plan is not None:
        show_plan(plan)
        return COMPLETE
    lines = overview.plan_lines(sweep, plan)
    if profile is not None and isinstance(jobs := profile.options, JobQueue):
        n_jobs = options.workers or jobs.workers
        lines += ["", *job_lines(jobs, sweep, place=profile.location, n_jobs=n_jobs)]
        if options.detach and isinstance(jobs, KnownQueue):
            script = head_script(jobs, sweep.run, head_command(request))
            lines += ["", "the head would be a job of this script:", "", *script.splitlines()]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return COMPLETE


def _read_request(path: Path, options: Options) -> Request:
    """Return everything that a submit needs, or raise an error with all that is wrong."""
    problems: list[Problem] = []
    selection, profile = Selection(options.retry_failed), None
    run = RunFolder(cube_path(options.results, "NAME"))  # the name of a sweep is in its file
    try:
        sweep = prepare(path, results=options.results, data_dir=options.data_dir, part=options.part)
        plans, run = sweep.inputs.plans, sweep.run
    except InputError as error:
        problems += error.problems
        plans = error.rest
    if plans is not None:
        with collecting(problems):
            selection = Selection(options.retry_failed, find_cells(options.only, plans))
    with collecting(problems):
        own_names()
    with collecting(problems):
        profile = None if options.workers == 0 else load_profile(options.profile, options.cluster_file)
    if profile is not None and isinstance(jobs := profile.options, JobQueue):
        if options.detach and not isinstance(jobs, KnownQueue):
            value = f"profile {profile.name!r} of kind {jobs.kind}"
            hint = "leave out --detach, and run it under tmux, or in a job of your own"
            kinds = ", ".join([*queues.QUEUES, "local or address"])
            problems.append(Problem("--detach", value, f"a profile of kind {kinds}", hint))
        # a dry run elsewhere shows these as warnings
        elif not options.dry_run or submits(jobs):
            problems += job_problems(jobs, profile.location, run)
    raise_all(problems)
    return Request(path, sweep, selection, profile, options)


# The worker jobs of a profile, and what of them cannot work, before any is submitted.


def job_lines(options: JobQueue, sweep: Sweep, *, place: str, n_jobs: int) -> list[str]:
    """Return the script of the first worker job of a sweep, and warnings of what would fail.

    No file is written, and no job submitted; limits of the queue are read if its commands answer.
    """
    problems = [] if submits(options) else job_problems(options, place, sweep.run)
    warnings = [*problems, *limit_warnings(options, n_jobs)]
    script = job_script(options, sweep.run).strip().splitlines()
    head = f"{plural(n_jobs, 'worker job')} of this script would be kept running:"
    names = ", ".join(queues.hidden_variables() if options.kind in queues.QUEUES else ())
    notes = [f"variables of this shell that no job gets: {names}"] if names else []
    return [head, "", *script, "", *notes, *(f"WARNING: {warning}" for warning in warnings)]


def submits(options: JobQueue) -> bool:
    """Whether this machine has the command that submits the jobs of a profile."""
    return shutil.which(submit_command(options)) is not None


def submit_command(options: JobQueue) -> str:
    """Return the command that submits the jobs of a profile."""
    return shlex.split(cluster_class(options.kind).job_cls.submit_command)[0]


# Characters of a path in a job script, in which dask-jobqueue quotes nothing and SLURM expands %.
SAFE_PATH = re.compile(r"[\w./+@=,:-]+", re.ASCII)


def job_problems(options: JobQueue, place: str, run: RunFolder) -> list[Problem]:
    """Return what keeps this machine from submitting the jobs of a profile for a run."""
    problems = []
    if not submits(options):
        expected = f"a machine that submits to {options.kind}"
        problems.append(Problem(place.rstrip(":"), f"no command {submit_command(options)!r} here", expected))
    interface, interfaces = options.keys.get("interface"), psutil.net_if_addrs()
    if interface is not None and interface not in interfaces:
        expected = "one of this machine's: " + ", ".join(sorted(interfaces))
        problems.append(Problem(f"{place} interface", repr(interface), expected))
    expected = "a path of letters, digits and ./+@=,:_-, because job scripts contain it"
    for name, path in (("--results", str(run.path.resolve())), ("python", sys.executable)):
        if not SAFE_PATH.fullmatch(path):
            problems.append(Problem(name, path, expected))
    return [*problems, *(_unknown_names(options, place) if isinstance(options, KnownQueue) else ())]


def _unknown_names(options: KnownQueue, place: str) -> Iterator[Problem]:
    """Yield the queues and the parallel environment of a profile that the site does not have."""
    queue = queues.QUEUES[options.kind]
    directives = options.keys.get("job_extra_directives", []) + options.head.job_extra_directives
    n_cores = max(options.cores, options.head.cores)
    if queue.environments and n_cores > 1 and not any(line.startswith("-pe ") for line in directives):
        environments, name = queues.words_of(queue.environments), options.environment
        if name is None or (environments and name not in environments):
            fault = f"none for jobs of {n_cores} cores" if name is None else repr(name)
            expected = ", ".join(environments) or "qconf -spl lists them"
            yield Problem(f"{place} pe", fault, f"a parallel environment of the site: {expected}")
    choices = {"queue": options.keys.get("queue"), "head.queue": options.head.queue}
    names = set(queues.words_of(queue.queue_listing) if any(choices.values()) else ())
    for key, text in choices.items():
        # Grid Engine also takes patterns, and a queue on one host.
        patterns = [part.partition("@")[0] for part in (text or "").split(",")]
        if names and text and not all(fnmatch.filter(names, pattern) for pattern in patterns):
            yield Problem(f"{place} {key}", repr(text), "one of " + ", ".join(sorted(names)))


def limit_warnings(options: JobQueue, n_jobs: int) -> Iterator[str]:
    """Warn of jobs beyond the limits of a queue whose commands are known."""
    if (queue := queues.QUEUES.get(options.kind)) is None:
        return
    try:
        yield from _partition_warnings(options, n_jobs) if queue is queues.SLURM else ()
        for command, pattern in queue.job_limits:
            for name, limit in re.findall(pattern, queues.run(queues.for_user(command)), re.MULTILINE):
                if 0 < int(limit) < n_jobs:
                    yield f"{n_jobs} jobs are more than the {limit} that {queue.title} takes ({name})"
    except queues.CommandFailed as error:
        yield f"the limits of {queue.title} were not checked: {error}"


def _partition_warnings(options: JobQueue, n_jobs: int) -> Iterator[str]:
    """Warn of jobs that fit into none of their partitions, by the one that fits best."""
    wishes = options.keys.get("queue")
    warnings = [list(_misfits(limits, options, n_jobs)) for limits in queues.partitions(wishes)]
    yield from min(warnings, key=len, default=[] if wishes else ["there is no default partition: set queue"])


def _misfits(limits: dict[str, str], options: JobQueue, n_jobs: int) -> Iterator[str]:
    """Yield how jobs do not fit into a partition with some limits."""
    name = limits["PartitionName"]
    memory, cores = queues.largest_node(name)
    if limits.get("State", "UP") != "UP":
        yield f"partition {name} is {limits['State']}: no job starts there"
    limit, walltime = queues.walltime_seconds("slurm", limits.get("MaxTime", "")), options.walltime_seconds
    if limit is not None and walltime is not None and walltime > limit:
        yield f"walltime {duration(walltime)} is above the {limits['MaxTime']} of partition {name}"
    # A limit that is no number, as UNLIMITED, is none.
    numbers = {key: int(text) for key, text in limits.items() if text.isdigit()}
    booked = parse_bytes(options.keys.get("job_mem", options.memory))
    room = min(filter(None, (memory, numbers.get("MaxMemPerNode", 0) * 2**20)), default=booked)
    if booked > room:
        yield f"memory {format_bytes(booked)} of a job is above the {format_bytes(room)} of a node of {name}"
    job_cores = int(options.keys.get("job_cpu", options.cores))
    widest = min(filter(None, (cores, numbers.get("MaxCPUsPerNode"))), default=job_cores)
    if job_cores > widest:
        yield f"cores {job_cores} of a job are more than the {widest} of a node of {name}"
    total = numbers.get("TotalCPUs")
    if total and job_cores * n_jobs > total:
        yield f"{n_jobs} jobs of {job_cores} cores are more than the {total} of {name}: the others will wait"


# Detached runs: the head is started as a job of its own, or as a process that outlives the terminal.

# Seconds that a new process is watched, unless it holds the lease, which usually takes three.
START_SECONDS = 300.0


def detach(request: Request) -> int:
    """Start the head of a run, and return.

    Returns
    -------
    int
        0 when the head was started, or there was nothing to do; 1 when the sweep is running already, or the
        queue refuses the job; the exit code of a process that ended at once.
    """
    if is_settled(request.sweep, request.selection):
        return report_done(request)
    queue = None if request.profile is None else request.profile.options
    try:
        code = _queue(request, queue) if isinstance(queue, KnownQueue) else _spawn(request)
    except (StorageError, LeaseHeld, queues.CommandFailed) as error:
        logger.error("%s", error)
        return INTERNAL
    if code == COMPLETE:
        cube = shlex.quote(str(request.sweep.cube))
        logger.info("progress: sweep status %s", cube)
        logger.info("its log:  sweep logs %s --follow", cube)
        logger.info("end it:   sweep cancel %s", cube)
    return code


def head_command(request: Request) -> list[str]:
    """Return the arguments of `sweep` that make a process the head of this run."""
    results = str(request.sweep.cube.resolve().parent)
    flags = request.options.flags()
    origin = None if request.profile is None else request.profile.origin
    if origin is not None and "--cluster" not in flags:
        # The head may start in another directory, where the search could find another file.
        flags += ["--cluster", str(origin.resolve())]
    return ["submit", str(request.spec.resolve()), "--results", results, *flags]


def _queue(request: Request, options: KnownQueue) -> int:
    """Hand the head to the queue."""
    run = request.sweep.run
    queue = replace(queues.QUEUES[options.kind], attempts=queues.PATIENT_ATTEMPTS)
    # The queue is asked before the lease is taken, too: a suspended head would be ended by its loss.
    other = queue.other_head(run)
    with nullcontext() if other else _exclusive(request.sweep.cube):
        if other := other or queue.other_head(run):
            logger.error("%s", other)
            return INTERNAL
        withdraw_cancel(run)
        with storage_errors(run.script):
            run.script.write_text(head_script(options, run, head_command(request)), encoding="utf-8")
        # The time is from before the job can start: an older head record belongs to an earlier run.
        start = time.time()
        try:
            number = queue.submit(str(run.script), queues.head_name(run))
        except KeyboardInterrupt:
            queues.ending.set()  # the queue is asked once
            n_jobs = queue.cancel_all(queues.head_name(run))
            logger.warning(
                "%s; if job %s appears in the queue later, sweep cancel %s ends it",
                "the head was ended" if n_jobs else "nothing was submitted",
                queues.head_name(run),
                shlex.quote(str(request.sweep.cube)),
            )
            raise
        Submission(system=queue.kind, job=number, host=socket.gethostname(), at=start).write(run.submission)
    logger.info("the head is job %s (%s); its script is %s", number, queues.head_name(run), run.script)
    return COMPLETE


@contextmanager
def _exclusive(cube: Path) -> Iterator[None]:
    """Hold the lease, so that only one of two submits hands over a head.

    The lease of a head that died on another node counts until it is stale, and the next head waits for that.
    """
    try:
        lease = Lease.acquire(cube)
    except LeaseHeld as error:
        job = error.holder.process.job_id if error.holder is not None else ""
        queue = queues.used_queue(RunFolder(cube))
        has_ended = queue is not None and all(live.number != job for live in queue.live_jobs(""))
        if error.silent is None or not job or not has_ended:
            raise
        logger.info("job %s, which ran it, has ended", job)
        yield
        return
    with lease:
        yield


def _spawn(request: Request) -> int:
    """Start the head as a process in its own session, so that closing the terminal does not end it."""
    cube = request.sweep.cube
    with Lease.acquire(cube):  # or say who runs it already
        withdraw_cancel(request.sweep.run)
    log, start = request.sweep.run.head_log, time.time()
    command = [sys.executable, "-m", "sweep_clustering", *head_command(request)]
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with storage_errors(log):
        pid = os.posix_spawn(
            sys.executable,
            command,
            {**os.environ, "PYTHONSAFEPATH": "1", DETACHED: "1"},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    submission = Submission(system="process", job=str(pid), host=socket.gethostname(), at=start)
    submission.write(request.sweep.run.submission)
    if code := _early_exit(cube, pid):
        logger.error("the head ended with exit code %d:\n%s", code, "\n".join(last_lines(log, 20)))
        return code
    logger.info("the head is process %d of this machine; its output is in %s", pid, log)
    return COMPLETE


def _early_exit(cube: Path, pid: int) -> int:
    """Return the exit code of a head that ends before it holds the lease, 0 when it keeps running."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if ended_pid:
            return os.waitstatus_to_exitcode(status)
        holder = read_run_state(cube).holder
        if holder is not None and holder.process.pid == pid:
            return 0
        time.sleep(0.1)
    logger.warning("process %d is there, but has not taken the lease in %s", pid, span(START_SECONDS))
    return 0
