"""Compute clusters: from a profile to a connected client, closed again at the end."""

import asyncio
import logging
import os
import resource
import shutil
import signal
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, Nanny, Worker, WorkerPlugin
from distributed.core import Status
from distributed.security import Security
from distributed.system import MEMORY_LIMIT
from distributed.utils import LoopRunner

from sweep_clustering.installation import InstallationError, check_numpy
from sweep_clustering.pipeline.cluster import pages
from sweep_clustering.pipeline.cluster.profiles import Address, Local, Profile
from sweep_clustering.pipeline.jobs import cluster as jobs
from sweep_clustering.pipeline.jobs.keys import JobQueue
from sweep_clustering.pipeline.jobs.queues import ComputeClusterError
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.errors import plural, refused

logger = logging.getLogger(__name__)

# Seconds to wait for a scheduler's answer and for its first worker.
PATIENCE = 30.0

LOGGERS = ("distributed", "distributed.client", "asyncio")

SETTINGS = {
    # Ten deaths of a worker under one task, since most deaths are the machine's and not the task's.
    "distributed.scheduler.allowed-failures": 10,
    "distributed.comm.timeouts.connect": f"{PATIENCE:g}s",
    "distributed.diagnostics.nvml": False,
    # A worker's port of http cannot be left out; nothing is served there.
    "distributed.scheduler.http.routes": list(pages.SCHEDULER),
    "distributed.worker.http.routes": [],
    # No lock on a file system of the results has to be trusted; what a kill leaves the next holder removes.
    "distributed.worker.use-file-locking": False,
    # A machine without a network would warn of what no user can mend.
    "distributed.nanny.pre-spawn-environ.PYTHONWARNINGS": "ignore:Couldn't detect a:RuntimeWarning",
}


@contextmanager
def connect(profile: Profile, *, n_workers: int | None = None, lease: Lease) -> Iterator[Client]:
    """Start or reach the compute cluster of a profile.

    Parameters
    ----------
    profile : Profile
        Profile from `load_profile`.
    n_workers : int or None
        Number of local worker processes, or of worker jobs, in place of the profile's number. A running
        scheduler has its own workers, and takes none.
    lease : Lease
        Lease of the run: in its folder are scratch files of scheduler and local workers, credentials and logs
        of worker jobs.

    Yields
    ------
    distributed.Client
        Client with at least one worker. It is closed on exit, local workers too; a scheduler that was running
        before keeps running.

    Raises
    ------
    InputError
        If the scheduler does not answer, has no worker, or `n_workers` is given for it, and if this machine
        cannot submit jobs.
    ComputeClusterError
        If local workers cannot be started, worker jobs die at once, none starts, or the system allows too few
        open files; also while the client is in use.
    sweep_clustering.installation.InstallationError
        If the numba of a worker does not support its numpy.
    """
    connection: AbstractContextManager[Client]
    options = profile.options
    n_processes = 0 if isinstance(options, Address) else profile.process_count(n_workers)
    if isinstance(options, Local):
        connection = _local(options, n_processes, lease.generation.run.log)
    elif isinstance(options, JobQueue):
        connection = jobs.connect_jobs(options, n_jobs=n_processes // options.cores, lease=lease)
    else:
        connection = _address(profile, options, n_workers)
    allow_open_files(n_processes)
    scratch = lease.generation.workers
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        # dask puts that folder before all others that Python imports from. Its own choice is a folder of one
        # name for all users of the machine: who makes it first runs code as everybody who comes later.
        stack.enter_context(dask.config.set(SETTINGS | {"temporary-directory": str(scratch.resolve())}))
        for library in map(logging.getLogger, LOGGERS):
            stack.callback(library.setLevel, library.level)
            library.setLevel(logging.ERROR)
            # dask gives it handlers on the terminal
            state = {"handlers": library.handlers, "propagate": library.propagate}
            stack.callback(vars(library).update, state)
            library.handlers, library.propagate = [], True
        stack.enter_context(pages.faults_in_one_line())
        stack.enter_context(pages.under_own_names())
        client = stack.enter_context(connection)
        try:
            prepare_workers(client)
            if client.cluster is not None:  # workers of a scheduler that was there before are not ours
                register(client, pages.OwnNames())
            yield client
        except BaseException:
            for name in LOGGERS:  # messages to workers that are gone fail one by one
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
            raise


def dashboard_address(client: Client) -> str | None:
    """Return the address of the page of a run for a browser on the scheduler's machine, None if it serves
    none.

    A scheduler that was there before has dask's own pages alone.
    """
    port = client.scheduler_info(n_workers=0).get("services", {}).get("dashboard")
    if port is None:
        return None
    if client.cluster is not None:  # started here: it listens on loopback, whatever workers know
        return f"http://{jobs.LOOPBACK}:{port}/sweep"
    return str(client.dashboard_link)


class QuietWorker(Worker):  # type: ignore[misc]
    """A worker of this machine whose process prints into the file `output`, and not on the terminal."""

    def __init__(self, *arguments: Any, output: str, **keywords: Any) -> None:
        with suppress(OSError), open(output, "ab", buffering=0) as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        super().__init__(*arguments, **keywords)


class QuietNanny(Nanny):  # type: ignore[misc]
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, worker_class=QuietWorker, **keywords)


@contextmanager
def _local(options: Local, count: int, log: Path) -> Iterator[Client]:
    with ExitStack() as stack:
        try:
            loop = stack.enter_context(_loop_without_interrupts())
            # In a thread, so that a signal leaves no scheduler half started: it is closed when it is there.
            with jobs.any_port(), ThreadPoolExecutor(1) as pool:
                start_scheduler = pool.submit(
                    LocalCluster,
                    n_workers=0,
                    threads_per_worker=1,
                    processes=True,
                    worker_class=QuietNanny,
                    loop=loop,
                    host=jobs.LOOPBACK,
                    # every user reaches loopback, and who reaches a scheduler runs code as its owner
                    security=jobs.new_credentials(),
                    dashboard_address=jobs.page_address(options.dashboard_port),
                    worker_dashboard_address=None,
                    memory_limit=options.memory_limit or MEMORY_LIMIT // count,
                    silence_logs=logging.ERROR,
                    output=str(log.resolve()),
                )
                stack.callback(_close, start_scheduler)
                cluster = start_scheduler.result()
            client = stack.enter_context(jobs.client_of(cluster))
            for _ in range(count):
                cluster.worker_spec.update(cluster.new_worker_spec())

            async def start() -> None:
                await cluster  # for the workers that it lacks, with the reason where one cannot be started

            cluster.sync(start)
            # A nanny whose new worker dies while it starts gives up; here another one takes its place.
            cluster.adapt(minimum=count, maximum=count, interval=jobs.ADAPT_SECONDS)
        except (RuntimeError, OSError) as error:
            reason = error.__cause__ or error
            raise ComputeClusterError(
                f"no worker process can be started on this machine: {reason}"
            ) from error
        yield client


def _close(start: Future[LocalCluster]) -> None:
    """Close a scheduler and its workers, if it could be started."""
    if start.exception() is None:
        start.result().close()


@contextmanager
def _address(profile: Profile, options: Address, n_workers: int | None) -> Iterator[Client]:
    location = f"{profile.location} address"
    if n_workers is not None:
        expected = f"none: the scheduler of profile {profile.name!r} has its own workers"
        raise refused("--workers", str(n_workers), expected)
    tls, security = options.tls, None
    if tls is None:
        logger.warning("%s: plain tcp: every user of this machine can run code as you through it", location)
    else:
        ca, cert, key = map(str, (tls.ca, tls.cert, tls.key))
        security = Security(require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key)
    with ExitStack() as stack:
        expected = "a running dask scheduler"
        try:
            # No default client, see `client_of`.
            client = Client(options.address, security=security, timeout=PATIENCE, set_as_default=False)
            stack.enter_context(client)
            expected = "at least one worker"
            client.wait_for_workers(1, timeout=PATIENCE)
        except OSError as error:  # a TimeoutError is one
            raise refused(location, f"{options.address}: {error}", expected) from error
        yield client


@contextmanager
def _loop_without_interrupts() -> Iterator[Any]:
    """Run an event loop whose processes ignore Ctrl-C, which the driver alone handles.

    A terminal sends SIGINT to every process of the foreground group, and each worker would answer with a
    traceback. The mask is inherited by threads and by processes, so that workers started again later have it
    too, from their first instruction on. This thread handles Ctrl-C also while workers start.
    """
    # Started in here, the tracker would lift the mask of the thread that starts it. It removes the names of
    # semaphores of a process that was ended at once, which is nothing to warn of.
    filters = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker"
    try:
        resource_tracker.ensure_running()
    finally:
        del os.environ["PYTHONWARNINGS"]
        if filters is not None:
            os.environ["PYTHONWARNINGS"] = filters
    runner = LoopRunner()
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    try:
        yield runner.loop
    finally:
        runner.stop()


# The limit of open files, which a scheduler needs many of.

# Files of a process with scheduler, driver and dashboard; 36 were counted, and some are to spare.
FILES_OF_HEAD = 48

# Files for each worker process: pipes, and connections to it and to its nanny; 9 to 11 were counted.
FILES_OF_WORKER = 12


def allow_open_files(n_workers: int) -> None:
    """Raise this process's limit of open files to what a run of so many worker processes needs.

    A `ComputeClusterError` says that the system does not permit it. Without this check hundreds of operations
    would fail, each in its own way.
    """
    need = FILES_OF_HEAD + FILES_OF_WORKER * n_workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < need:  # one that is infinite is negative
        workers = plural(n_workers, "worker process", "worker processes")
        remedy = "raise the limit (ulimit -Hn), or ask for fewer workers"
        raise ComputeClusterError(
            f"found a limit of {hard} open files, expected {need} for {workers}: {remedy}"
        )
    if 0 <= soft < need:
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))


# Set-up of every worker before it runs batches, also of workers that join later.

# Reports of connections that broke, by logger, in the processes of workers; the errors they come with.
LOSSES: Mapping[tuple[str, str], tuple[type[Exception], ...]] = {
    ("distributed.worker", "Failed to communicate with scheduler during heartbeat."): (OSError,),
    ("distributed.worker", "failed during get data with %s -> %s"): (OSError,),
    ("distributed.worker", "Worker stream died during communication: %s"): (OSError,),
    # a worker that leaves by itself closes the queue at which one of its threads waits for the word to leave
    ("distributed.nanny", "Worker process died unexpectedly"): (TypeError, OSError, EOFError),
}

# Loggers of workers and nannies.
REPORTERS = ("distributed.worker", "distributed.nanny", "distributed.core")

# States of a worker that does nothing any more.
ENDING = (Status.closing, Status.closed, Status.failed)

# Workers of this process.
_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


def is_fault(record: logging.LogRecord) -> bool:
    """Whether a report is not that of a connection that broke; its traceback is dropped there.

    dask reports an error. But the worker leaves with its scheduler when a run is stopped, and otherwise the
    next heartbeat succeeds, or data are fetched again. A worker that ends while it loads the search cannot be
    set up any more. Local workers show errors alone, so that the user sees nothing of it.
    """
    error = record.exc_info[1] if record.exc_info else None
    is_ending = error is not None and any(worker.status in ENDING for worker in _workers)
    if not is_ending and not isinstance(error, LOSSES.get((record.name, str(record.msg)), ())):
        return True
    reason = " ".join(str(error).split())
    logging.getLogger(record.name).warning("a connection broke: %s: %s", type(error).__name__, reason)
    return False


class LossesInOneLine(WorkerPlugin):  # type: ignore[misc]
    """Let a worker log one warning when its connection to the scheduler, or to another worker, breaks."""

    name = "losses-in-one-line"

    def setup(self, worker: Worker) -> None:
        """Filter the reports of this process for all its workers at once."""
        _workers.add(worker)
        for name in REPORTERS:
            logging.getLogger(name).addFilter(is_fault)


def check_kernels() -> None:
    """Check that the kernels of this installation can be loaded here, and load them."""
    check_numpy()
    import sweep_clustering.kernels.jit  # noqa: F401


class UsableInstallation(WorkerPlugin):  # type: ignore[misc]
    """End a worker that joins later and cannot compute with its packages; its log says why."""

    name = "usable-installation"

    async def setup(self, worker: Worker) -> None:
        try:
            await asyncio.to_thread(check_kernels)
        except InstallationError as error:
            logger.error("%s", error)
            # Not awaited: a worker that is still starting cannot end before its plugins are set up.
            self._closing = asyncio.create_task(worker.close(reason="unusable installation", nanny=True))


def prepare_workers(client: Client) -> None:
    """Set up all workers of any compute cluster, those that join later too.

    An `InstallationError` says that the numba of a worker does not support its numpy.
    """
    register(client, LossesInOneLine())
    for error in client.run(check_kernels, on_error="return").values():
        if isinstance(error, InstallationError):
            raise error
    register(client, UsableInstallation())


def register(client: Client, plugin: WorkerPlugin) -> None:
    """Set a plugin up on all workers; its exceptions there are raised here."""
    try:
        client.register_plugin(plugin)
    except OSError as error:
        # The scheduler knows the plugin by then, and sets up the worker that replaces the lost one, too.
        logger.warning("a worker was lost while it was set up: %s", error)
