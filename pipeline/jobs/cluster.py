"""Compute clusters whose workers are jobs of a queueing system, through dask-jobqueue; the job of a head.

A watch over worker jobs replaces lost ones, and ends a run that has none with a message.
"""

import asyncio
import logging
import math
import secrets
import shutil
import socket
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed import Client, Future
from distributed.core import Status
from distributed.deploy import Cluster
from distributed.security import Security

from sweep_clustering.installation import same_arithmetic
from sweep_clustering.pipeline.common import duration, plural
from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.jobs.keys import JobQueue, KnownQueue, cluster_class
from sweep_clustering.storage.files import LeaseLost
from sweep_clustering.storage.runfolder.folder import GenerationFolder, JobListFile, JobRecord, RunFolder
from sweep_clustering.storage.runfolder.lease import JOB_VARIABLES, OWN_END, Lease

logger = logging.getLogger(__name__)


# A job whose workers stayed shorter than this died at once.
SETTLED_SECONDS = 10.0

# A job whose workers are gone for so long is replaced, though the queue does not answer.
LOST_SECONDS = 60.0

# States in which SLURM leaves a job that others have ended.
ENDED_BY_OTHERS = {"CANCELLED", "PREEMPTED", "NODE_FAIL"}

# Number of answers without a job after which it is replaced, though it is still being cleaned up.
MOST_ABSENT = 10

# Seconds before a job that keeps dying is replaced; the wait doubles up to this.
LONGEST_BACKOFF = 300.0


# Jobs in the queue, by number.
Live = Mapping[str, queues.LiveJob]


@dataclass
class Slot:
    """State of a worker job; `deaths` and `early_ends` also count those of the jobs that it replaces."""

    job: Any
    deaths: int = 0
    early_ends: int = 0
    connected_at: float | None = None
    lost_at: float | None = None
    is_settled: bool = False
    n_absences: int = 0
    replace_at: float | None = None
    workers: int = 0
    node: str = ""
    end: queues.JobDetails = field(default_factory=queues.JobDetails)
    was_refused: bool = False
    reason: str = ""

    @property
    def obstacle(self) -> str:
        """Words for what a refused job waits for, empty if the queue has accepted it or never will."""
        is_refused = self.job.refusal and self.replace_at is None
        return queues.obstacle(self.job.refusal) if is_refused else ""

    def update(self, workers: int, moment: float) -> None:
        """Note how many workers the job has."""
        self.workers = workers
        if workers:
            self.connected_at = moment if self.connected_at is None else self.connected_at
            self.lost_at, self.n_absences = None, 0
            if moment - self.connected_at >= SETTLED_SECONDS:
                self.is_settled, self.early_ends, self.deaths = True, 0, 0
        elif self.connected_at is not None and self.lost_at is None:
            self.lost_at = moment

    def mark_ended(self, moment: float) -> tuple[str, float]:
        """Note the job's end; return how it ended, and the seconds until another one takes its place."""
        # Not its fault: it worked for a while, or it was ended from outside.
        is_excused = self.is_settled or self.end.state in ENDED_BY_OTHERS
        self.early_ends += not self.is_settled
        self.deaths += not is_excused
        backoff = min(2.0**self.early_ends, LONGEST_BACKOFF) if self.early_ends else 0.0
        self.replace_at = moment + backoff
        failure = "could not be submitted" if self.job.refusal else "died at once"
        ending = "was cancelled" if self.end.state == "CANCELLED" else "was lost" if is_excused else failure
        return ": ".join(filter(None, [ending, self.end.end.removeprefix("cancelled ")])), backoff

    def is_gone(self, live_jobs: Live | None, moment: float) -> bool:
        """Whether the job has ended; `live_jobs` is None if the queue does not answer."""
        if self.job.job_id is None:
            return bool(self.job.refusal)
        if live_jobs is None:
            return self.lost_at is not None and moment - self.lost_at > LOST_SECONDS
        if (job := live_jobs.get(self.job.job_id)) is not None and job.state == "ERROR":
            self.reason = job.reason
            return True
        # Twice, because one answer may be from before the job entered the queue.
        self.n_absences = 0 if self.job.job_id in live_jobs else self.n_absences + 1
        return self.n_absences >= 2


# Seconds before a refused job is submitted again, which double up to `LONGEST_BACKOFF`.
REFUSED_PAUSES = {queues.SITE_LIMIT: 60.0, queues.BUSY: 4.0, queues.NO_NODE: 4.0}

# Refusals in a row after which a request that no node fits is one that none will ever fit.
MOST_DOUBTFUL = 6


class RefusedJobs:
    """Jobs that the queue does not take now and may take later, which is no death.

    One of them is submitted again after pauses that grow, and the others follow when it is accepted. `words`
    say why, and how many jobs there are.
    """

    def __init__(self, n_jobs: int) -> None:
        self.words = self._reason = self._trial = ""
        self._n_jobs = n_jobs
        self._n_refusals = 0
        self._next_at = 0.0

    def look(self, slots: Mapping[str, Slot], moment: float) -> set[str]:
        """Return the names of refused jobs, after setting `replace_at` where one is to be submitted again."""
        final_obstacles = ("", queues.NO_NODE) if self._n_refusals >= MOST_DOUBTFUL else ("",)
        refused_slots = {name: slot for name, slot in slots.items() if slot.obstacle not in final_obstacles}
        accepted_names = {name for name, slot in slots.items() if slot.job.job_id and slot.replace_at is None}
        if self._trial in accepted_names:
            self._n_refusals, self._trial = 0, ""
            for slot in refused_slots.values():
                slot.replace_at = moment
        elif new_slots := [slot for slot in refused_slots.values() if not slot.was_refused]:
            for slot in new_slots:
                slot.was_refused = True
            self._n_refusals += 1
            words = new_slots[0].obstacle
            seconds = min(REFUSED_PAUSES[words] * 2 ** (self._n_refusals - 1), LONGEST_BACKOFF)
            self._next_at = moment + seconds
            self._reason = f"{words} ({' '.join(new_slots[0].job.refusal.split())})"
            logger.warning("%s; trying again in %.0f s", self._count(accepted_names), seconds)
        elif refused_slots and moment >= self._next_at:
            self._trial, self._next_at = min(refused_slots), moment + LONGEST_BACKOFF
            refused_slots[self._trial].replace_at = moment
        self.words = self._count(accepted_names) if refused_slots else ""
        return set(refused_slots)

    def _count(self, accepted_names: set[str]) -> str:
        return f"{len(accepted_names)} of {self._n_jobs} jobs: {self._reason}"


# Jobs at a time that are replaced only after the queue has told how they ended, though they had worked.
MOST_ENDS = 20

# Jobs of one node that die in a row before it is excluded.
MOST_FAULTS = 3


# Seconds between two looks at the workers, which are connected to this process.
LOOK_SECONDS = 0.5

# Seconds between the first questions to the queue while a job has no worker, and the longest pause later.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0

# Seconds between two questions where jobs run; a job that has just connected is asked for sooner.
PLACE_SECONDS = 10.0

# Lines that a message has of the log of a job that died at once.
TAIL_LINES = 15


class JobWatch:
    """A thread that looks after the worker jobs of a compute cluster.

    The client is that of a `pipeline.jobs.cluster.KeptCluster`. Its tasks are cancelled when no worker is
    available, so that nothing waits for them. The list of the jobs, whose names start with `name`, is kept in
    the folder of the generation, and their logs in the folder of the run.
    """

    def __init__(
        self, client: Client, options: JobQueue, *, name: str, generation: GenerationFolder, n_jobs: int
    ) -> None:
        self.failure: queues.ComputeClusterError | None = None
        self._cluster = client.cluster
        self._client = client
        self._options = options
        self._name = name
        self._logs = generation.run.job_logs
        self._list = JobListFile(generation.jobs, n_jobs, generation.files)
        self._slots: dict[str, Slot] = {}
        self._refusals = RefusedJobs(n_jobs)
        self._node_deaths, self._sound_nodes = Counter[str](), set[str]()  # in a row; with lasting workers
        self._exclusions: list[str] = client.cluster.job_cls.excluded_nodes
        self._queue = queues.QUEUES.get(options.kind)
        self._live_jobs: Live | None = None if self._queue is None else {}
        self._ask_at = self._place_at = self._asked_at = 0.0
        self._pause = FIRST_PAUSE
        self._alive_at = time.monotonic()
        self._logged_states = ""
        self._has_outcome = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="job-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_worker(self) -> None:
        """Return when a worker is connected; `ComputeClusterError` says that none is available."""
        self._has_outcome.wait()
        if self.failure is not None:
            raise self.failure

    def look(self, moment: float) -> None:
        """Look at all jobs once, at a moment of the monotonic clock, and do what is due."""
        for name, (job, workers) in self._cluster.sync(self._cluster.jobs_with_workers).items():
            slot = self._slots.setdefault(name, Slot(job))
            if job is not slot.job:
                slot = self._slots[name] = Slot(job, slot.deaths, slot.early_ends)
            slot.update(workers, moment)
            if slot.is_settled and slot.workers and slot.node:
                self._sound_nodes.add(slot.node)
                del self._node_deaths[slot.node]
        refused_names = self._refusals.look(self._slots, moment)
        idle_slots = {name: slot for name, slot in self._slots.items() if not slot.workers}
        waiting_slots = {name: slot for name, slot in idle_slots.items() if name not in refused_names}
        if len(idle_slots) < len(self._slots):
            self._alive_at = moment
            self._has_outcome.set()
        # `sweep status` shows where a job is that works
        unplaced_slots = [slot for slot in self._slots.values() if slot.workers and not slot.node]
        if any(slot.connected_at == moment for slot in unplaced_slots):
            self._place_at = min(self._place_at, self._asked_at + FIRST_PAUSE)
        if (waiting_slots and moment >= self._ask_at) or (unplaced_slots and moment >= self._place_at):
            self._asked_at, self._place_at = moment, moment + PLACE_SECONDS
            self._ask_queue(waiting_slots, moment)
        if not waiting_slots:
            self._ask_at, self._pause = moment, FIRST_PAUSE
        due_names = [name for name, slot in idle_slots.items() if moment >= (slot.replace_at or math.inf)]
        if due_names:
            self._cluster.sync(self._cluster.drop, due_names)
            for name in due_names:
                self._slots[name].replace_at = math.inf  # once: what stands there next is another job
            self._ask_at, self._pause = moment + FIRST_PAUSE, FIRST_PAUSE
        self._list.show([self._record(name) for name in self._slots], self._refusals.words, self._exclusions)
        if len(idle_slots) == len(self._slots):
            self._give_up(moment)

    def _record(self, name: str) -> JobRecord:
        slot = self._slots[name]
        live_job = (self._live_jobs or {}).get(slot.job.job_id)
        if slot.workers:
            state = "running"
        elif slot.job.refusal:
            state = "refused"
        elif slot.replace_at is not None:
            state = "gone"
        elif live_job is None:
            state = "submitted"
        else:
            state = "starting" if live_job.state == "RUNNING" else live_job.words
        number = slot.job.job_id or ""
        return JobRecord(name=name, job=number, node=slot.node, state=state, workers=slot.workers)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                if self.failure is None:
                    self.look(time.monotonic())
                else:
                    futures = [Future(key, self._client) for key in list(self._client.futures)]
                    if futures:  # nobody can run them
                        self._client.cancel(futures, force=True, msg=str(self.failure))
            except Exception:
                # A compute cluster that is closing answers nothing; a watch that dies would let the run hang.
                if not self._stop.is_set():
                    logger.debug("a look at the worker jobs failed", exc_info=True)

    def _ask_queue(self, waiting_slots: dict[str, Slot], moment: float) -> None:
        """Ask the queue what became of the jobs without workers, and where the others run."""
        if self._queue is not None:
            try:
                self._live_jobs = {job.number: job for job in self._queue.live_jobs(self._name)}
            except queues.CommandFailed as error:
                self._live_jobs = None
                logger.warning("the queue does not answer: %s", error)
        for slot in self._slots.values():
            if job := (self._live_jobs or {}).get(slot.job.job_id):
                slot.node = job.node
        n_asks = MOST_ENDS
        for name, slot in waiting_slots.items():
            is_gone = slot.replace_at is None and slot.is_gone(self._live_jobs, moment)
            if is_gone and self._has_ended(slot, n_asks):
                n_asks = n_asks - 1 if slot.end.state else 0
                deaths = slot.deaths
                ending, backoff = slot.mark_ended(moment)
                self._list.lose(self._record(name), ending)
                number = slot.job.job_id
                logger.warning("worker job %s (%s) %s; another one in %.0f s", name, number, ending, backoff)
                if slot.deaths > deaths and slot.node:
                    self._blame(slot.node)
        states = self._states(waiting_slots.values())
        if states and states != self._logged_states:
            logger.info("worker jobs without workers: %s", states)
        self._logged_states = states
        self._pause = min(1.5 * self._pause, LONGEST_PAUSE)
        is_doubtful = any(slot.n_absences == 1 for slot in waiting_slots.values())
        self._ask_at = moment + (FIRST_PAUSE if is_doubtful else self._pause)

    def _has_ended(self, slot: Slot, n_asks: int) -> bool:
        """Whether the end of a job is known, and how it came if that matters."""
        if slot.job.job_id is None or self._queue is None or (slot.is_settled and n_asks <= 0):
            return True
        slot.end = self._queue.end_of(slot.job.job_id)
        slot.node = slot.node or slot.end.node
        return slot.is_settled or slot.end.state != "COMPLETING" or slot.n_absences >= MOST_ABSENT

    def _blame(self, node: str) -> None:
        """Count a death on a node, and keep later jobs from the node after several, unless none is left."""
        self._node_deaths[node] += 1
        if self._node_deaths[node] < MOST_FAULTS or node in self._exclusions:
            return
        if (queue := self._queue) is None or queue.exclusion is None:
            return
        n_nodes = 0
        with suppress(queues.CommandFailed):
            n_nodes = queue.count_nodes(getattr(self._options, "queue", None))
        # If everything dies, the nodes are not at fault. So one is excluded, and one more for each other node
        # whose workers stayed. A node must be left, also if their number is not known.
        n_excluded = len(self._exclusions)
        n_sound = len(self._sound_nodes.difference([node, *self._exclusions]))
        if n_excluded <= n_sound and (n_excluded + 1 < n_nodes if n_nodes else n_sound > 0):
            self._exclusions.append(node)
            for slot in self._slots.values():
                slot.deaths = 0  # they were of this node
            logger.warning(
                "node %s is excluded from later jobs: %d jobs died there in a row", node, MOST_FAULTS
            )

    def _give_up(self, moment: float) -> None:
        """End the run if no worker is to be expected; it has none now."""
        worst_slot = max(self._slots.values(), key=lambda slot: slot.deaths, default=None)
        max_deaths = self._options.failed_starts
        if any(job.state == "RUNNING" for job in (self._live_jobs or {}).values()):
            max_deaths *= 3  # another one is starting
        if worst_slot is not None and worst_slot.deaths >= max_deaths:
            symptom = "cannot be submitted" if worst_slot.job.refusal else "die at once"
            times = f"{plural(worst_slot.deaths, 'time')} in a row, and no worker is left"
            message = f"worker jobs {symptom}: {times}\n{self._cause_of_end(worst_slot)}"
        elif moment - self._alive_at > self._options.start_timeout:
            states = [self._refusals.words, self._states(self._slots.values())]
            reason = "; ".join(filter(None, states)) or "nothing is known of the jobs"
            message = f"no worker for {duration(self._options.start_timeout)} (start_timeout): {reason}"
        else:
            return
        self.failure = queues.ComputeClusterError(message)
        self._has_outcome.set()

    def _states(self, slots: Iterable[Slot]) -> str:
        """Count the states of jobs in the queue, with their reasons."""
        live_jobs = self._live_jobs or {}
        jobs = [live_jobs[slot.job.job_id] for slot in slots if slot.job.job_id in live_jobs]
        counts = Counter(job.words for job in jobs)
        return ", ".join(f"{count} {text}" for text, count in sorted(counts.items()))

    def _cause_of_end(self, slot: Slot) -> str:
        """Return the queue's refusal of a dead job, or the end of its log."""
        if slot.job.refusal:
            return str(slot.job.refusal)
        logs = [path for path in self._logs.glob(f"*{slot.job.job_id}*") if path.stat().st_size]
        if not logs:
            reason = f" ({slot.reason})" if slot.reason else ""
            return f"job {slot.job.job_id} left no log in {self._logs}{reason}"
        log = max(logs, key=lambda path: path.stat().st_mtime)
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"the end of {log}:", *(f"  {line}" for line in tail)])


# Fresh TLS credentials of one run: in memory, or shared with its jobs through files of their owner alone.

CERT = "cert.pem"
KEY = "key.pem"
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sweep")])
# A certificate is valid from before now, because clocks of nodes differ.
VALID_BEFORE = timedelta(days=1)
VALID_AFTER = timedelta(days=365)


def new_credentials() -> Security:
    """Create one key and certificate for scheduler, workers and client, in memory.

    Without them no connection is accepted. Processes that are started with them get them through a pipe.
    """
    # An RSA key of 2048 bits takes 10 ms at best; one of an elliptic curve 0.1 ms, with its certificate.
    secret = ec.generate_private_key(ec.SECP256R1())
    moment = datetime.now(tz=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(NAME)
        .issuer_name(NAME)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - VALID_BEFORE)
        .not_valid_after(moment + VALID_AFTER)
        .sign(secret, hashes.SHA256())
    )
    cert = certificate.public_bytes(serialization.Encoding.PEM).decode()
    key = secret.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return _security(cert, key)


@contextmanager
def fresh_credentials(folder: Path) -> Iterator[Security]:
    """Create new credentials in files that only their owner reads, and remove their folder at the end.

    Files that a killed run left behind are replaced.
    """
    security = new_credentials()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        for name, text in ((CERT, security.tls_client_cert), (KEY, security.tls_client_key)):
            (folder / name).touch(mode=0o600, exist_ok=False)  # before there is anything to read
            (folder / name).write_text(text)
        yield credentials(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def credentials(folder: Path) -> Security:
    """Return credentials by the names of their files, which need not exist yet."""
    return _security(str(folder / CERT), str(folder / KEY))


def _security(cert: str, key: str) -> Security:
    """Return credentials of one certificate for every role, which vouches for itself; texts, or names of
    files.
    """
    roles, kinds = ("client", "scheduler", "worker"), {"cert": cert, "key": key}
    options = {f"tls_{role}_{kind}": text for role in roles for kind, text in kinds.items()}
    return Security(require_encryption=True, tls_ca_file=cert, **options)


LOOPBACK = "127.0.0.1"
ADAPT_SECONDS = 1.0

# Seconds that a worker may take to start; a minute goes to compiling the kernels on a busy node.
DEATH_SECONDS = 300

# First lines of a worker job.
ENVIRONMENT = (
    # The directory a job starts in must not stand before the installed packages.
    "export PYTHONSAFEPATH=1",
    # This process asks its libraries for warnings only; the log of a job should tell more about its end.
    "export DASK_LOGGING__DISTRIBUTED=info",
    # A worker's port of http cannot be left out; nothing is served there, whatever dask's own files say.
    "export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES='[]'",
)

# A line of a worker job: the node has the same arithmetic as this machine, if its processor can have it.
ARITHMETIC = "if grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then export {}; fi"

# More lines of a worker job, without `$(...)`, which HTCondor takes for its own.
#
# Python imports from dask's temporary folder first. dask's own choice has one name for all users of a node:
# who makes it first runs code as everybody who comes later. The same holds if others may replace the folder:
# its place must belong to root or to this user, and be sticky if others may write to it.
SCRATCH = """\
me=`id -u`
scratch={place}/sweep-$me
mkdir -p -m 700 "$scratch"
safe=`find -L "{place}" -prune \\( -user 0 -o -user $me \\) \\( -perm -1000 -o ! -perm /022 \\) -print`
[ "$safe" ] && [ -O "$scratch" ] && [ ! -L "$scratch" ] && chmod 700 "$scratch" \\
    || scratch=`mktemp -d -p "${{safe:-/tmp}}"`
export DASK_TEMPORARY_DIRECTORY="$scratch"\
"""


class NamedJob:
    """Extend dask-jobqueue's jobs: they have the worker's name, and a refusal waits for the watch."""

    # Raises `LeaseLost` when nothing may be submitted any more.
    check: Callable[[], None]
    queue: queues.Queue | None
    excluded_nodes: list[str]
    job_header: str

    def __init__(self, scheduler: str | None = None, name: str | None = None, **keys: Any) -> None:
        self.refusal = ""
        self.has_ended = False
        super().__init__(scheduler, name, job_name=name, **keys)  # type: ignore[call-arg]

    async def start(self) -> None:
        """Hand the job to the queue."""
        try:
            # A head that another has replaced, or that is to end, must leave no job behind.
            await asyncio.to_thread(self.check)
            if self.excluded_nodes and self.queue is not None and self.queue.exclusion is not None:
                directive = self.queue.exclusion(self.job_header, self.excluded_nodes)
                self.job_header = f"{self.job_header}\n{self.queue.marker} {directive}"
            await super().start()  # type: ignore[misc]
        except (RuntimeError, OSError, ValueError, LeaseLost) as error:
            self.refusal = str(error)
            self.status = Status.running

    async def close(self) -> None:
        """Take the job out of the queue, or end it."""
        if not self.has_ended:
            await super().close()  # type: ignore[misc]
        self.status = Status.closed

    @classmethod
    async def end(cls, jobs: list[Any]) -> None:
        """End jobs by one command, if that of the queue is known."""


class QueueCommands:
    """The commands of a queue with a timeout; those of dask-jobqueue wait without end."""

    name: str
    queue: queues.Queue

    async def _submit_job(self, script_filename: str) -> str:
        return await asyncio.to_thread(self.queue.submit, script_filename, self.name)

    @classmethod
    async def _close_job(cls, job_id: str | None, cancel_command: str) -> None:
        if job_id:
            await asyncio.to_thread(cls.queue.cancel, [job_id])

    @classmethod
    async def end(cls, jobs: list[Any]) -> None:
        await asyncio.to_thread(cls.queue.cancel, [job.job_id for job in jobs if job.job_id])
        for job in jobs:
            job.has_ended = True


class KeptCluster:
    """Extend dask-jobqueue's clusters: the watch decides which jobs are replaced.

    dask's own replacement waits for a worker to be lost, so that a job which ended before its worker came, or
    one of several processes, is never replaced.
    """

    status: Status

    def _update_worker_status(self, op: str, message: Any) -> None:
        Cluster._update_worker_status(self, op, message)

    async def _close(self) -> None:
        if self.status == Status.running:
            await self.job_cls.end(list(self.workers.values()))  # type: ignore[attr-defined]
        await super()._close()  # type: ignore[misc]

    async def jobs_with_workers(self) -> dict[str, tuple[Any, int]]:
        """Return the jobs by name, each with the number of its workers that are connected now."""
        worker_names = [str(worker.name) for worker in self.scheduler.workers.values()]  # type: ignore[attr-defined]
        # The workers of a job with several processes are called <name>-0, <name>-1, ...
        owners = Counter(name if name in self.workers else name.rpartition("-")[0] for name in worker_names)  # type: ignore[attr-defined]
        return {name: (job, owners[name]) for name, job in self.workers.items()}  # type: ignore[attr-defined]

    async def drop(self, names: list[str]) -> None:
        """Forget jobs; the next round of `adapt` asks for others in their place."""
        async with self._lock:  # type: ignore[attr-defined]
            jobs = [self.workers.pop(name) for name in names if name in self.workers]  # type: ignore[attr-defined]
        await self.job_cls.end(jobs)  # type: ignore[attr-defined]
        await asyncio.gather(*(job.close() for job in jobs))


@contextmanager
def connect_jobs(options: JobQueue, *, n_jobs: int, lease: Lease) -> Iterator[Client]:
    """Start a scheduler in this process, and keep `n_jobs` worker jobs running until the block ends.

    Parameters
    ----------
    options : JobQueue
        Keys of the profile.
    n_jobs : int
        Number of worker jobs.
    lease : Lease
        Lease of a run on a file system that the nodes share: credentials and logs of the jobs are made there.
        No job is submitted once it is lost.

    Yields
    ------
    distributed.Client
        Client with at least one worker. No job is left in the queue when the block ends.

    Raises
    ------
    ComputeClusterError
        If jobs die at once, or none starts; also out of the block.
    """
    generation, run = lease.generation, lease.generation.run
    prefix = queues.job_prefix(run)
    name = f"{prefix}{secrets.token_hex(2)}"
    with ExitStack() as stack:
        stack.callback(queues.ending.clear)
        security = None
        if options.insecure:
            logger.warning("insecure: who reaches the scheduler's port can run code as you")
        else:
            security = stack.enter_context(fresh_credentials(generation.tls.resolve()))
        lease.check()  # a head that was suspended here would end the jobs of the next one
        if (queue := queues.QUEUES.get(options.kind)) is not None:
            if n_orphans := queue.cancel_all(prefix, keep=queues.head_name(run)):
                logger.info("cancelled %d jobs of a run that did not end by itself", n_orphans)
            stack.callback(queue.cancel_all, name)
        keys = job_keys(options, run, security)
        scheduler = {"dashboard_address": page_address(options.dashboard_port)}
        jobs_class = _cluster_class(options.kind, lease.check)
        with any_port():
            jobs = jobs_class(name=name, security=security, scheduler_options=scheduler, **keys)
            cluster = stack.enter_context(jobs)
        client = stack.enter_context(client_of(cluster))
        watch = JobWatch(client, options, name=name, generation=generation, n_jobs=n_jobs)
        stack.enter_context(watch)
        cluster.adapt(minimum_jobs=n_jobs, maximum_jobs=n_jobs, interval=ADAPT_SECONDS)
        logger.info("%s named %s-... wanted", plural(n_jobs, "worker job"), name)
        try:
            watch.wait_for_worker()
            yield client
        except BaseException as error:
            queues.ending.set()
            if watch.failure not in (None, error) and isinstance(error, Exception):
                raise watch.failure from error
            raise


def page_address(port: int) -> str:
    """Return the address for the page of a run: the port of the profile, or 0 if it is taken, for any free
    one.

    dask would find a free one, too, but leaves a socket behind that Python warns of.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            port = 0
    return f"{LOOPBACK}:{port}"


@contextmanager
def any_port() -> Iterator[None]:
    """Silence the warning if another process takes the port of `page_address` before a scheduler does."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Port \d+ is already in use", UserWarning)
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        yield


def client_of(cluster: Cluster) -> Client:
    """Return a client of a scheduler of this process: messages between the two are not encoded or encrypted.

    Nobody outside of this process can send any. It is no default client: what else this process computes,
    such as the true labels for its page, is no work for workers, which may not reach the cube and are busy.
    """
    cluster.sync(cluster.scheduler.listen, "inproc://", allow_offload=False)
    address = cluster.scheduler.listeners[-1].contact_address
    client = Client(address, loop=cluster.loop, set_as_default=False)
    client.cluster = cluster
    return client


def job_keys(options: JobQueue, run: RunFolder, security: Security | None) -> dict[str, Any]:
    """Return the arguments of dask-jobqueue's class: the profile's, and those that are set here."""
    keys = options.keys
    extra = keys.pop("worker_extra_args", [])
    prologue = keys.pop("job_script_prologue", [])
    if (queue := queues.QUEUES.get(options.kind)) is not None:
        directives = [*queue.worker_directives, *keys.get("job_extra_directives", [])]
        if isinstance(options, KnownQueue) and options.environment is not None and options.cores > 1:
            directives.insert(0, f"-pe {options.environment} {options.cores}")
        keys["job_extra_directives"] = directives
    ends = lifetime(options)
    if ends is not None and not any(argument.split("=")[0] == "--lifetime" for argument in extra):
        extra = ["--lifetime", f"{ends[0]:.0f}s", "--lifetime-stagger", f"{ends[1]:.0f}s", *extra]
    variables = JOB_VARIABLES.get(options.kind)
    if options.walltime_seconds is not None and variables is not None and variables.end == OWN_END:
        prologue = [f"export {OWN_END}=`date -d +{options.walltime_seconds:.0f}seconds +%s`", *prologue]
    arithmetic = same_arithmetic()
    if arithmetic:
        pairs = (f'{name}="${{{name}:-{value}}}"' for name, value in arithmetic.items())
        prologue = [ARITHMETIC.format(" ".join(pairs)), *prologue]
    scratch = SCRATCH.format(place=keys.pop("local_directory", "${TMPDIR:-/tmp}")).splitlines()
    return {
        "death_timeout": DEATH_SECONDS,
        **keys,
        "protocol": "tcp://" if security is None else "tls://",
        "log_directory": str(run.job_logs.resolve()),
        "job_script_prologue": [*ENVIRONMENT, *prologue, *scratch],
        # A worker's own pages would show everyone on its node what it does.
        "worker_extra_args": ["--no-dashboard", "--dashboard-address", f"{LOOPBACK}:0", *extra],
    }


def job_script(options: JobQueue, run: RunFolder) -> str:
    """Return the script of the first worker job, with capitals for what is known only at the start."""
    upcoming = GenerationFolder(
        run, 1 + max((generation.number for generation in run.generations()), default=0)
    )
    security = None if options.insecure else credentials(upcoming.tls.resolve())
    keys = job_keys(options, run, security)
    address = f"{keys['protocol']}SCHEDULER:PORT"
    logs = keys["log_directory"]
    with TemporaryDirectory() as scratch:  # the class makes the directory of the logs
        keys["log_directory"] = scratch
        job = _job_class(options.kind, lambda: None)(
            address, name=f"{queues.job_prefix(run)}RUN-0", security=security, **keys
        )
        return str(job.job_script()).replace(scratch, logs)


def lifetime(options: JobQueue) -> tuple[float, float] | None:
    """Return lifetime and stagger of a worker in seconds, None if the walltime is not known."""
    if options.walltime_seconds is None:
        return None
    # A worker is gone one stagger before the walltime, and its process may take as long to start.
    stagger = min(0.05 * options.walltime_seconds, 300.0)
    return options.walltime_seconds - 2 * stagger, stagger


def _job_class(system: str, check: Callable[[], None]) -> Any:
    queue = queues.QUEUES.get(system)
    commands = () if queue is None else (QueueCommands,)
    members: dict[str, Any] = {"check": staticmethod(check), "queue": queue, "excluded_nodes": []}
    return type("WorkerJob", (*commands, NamedJob, cluster_class(system).job_cls), members)


def _cluster_class(system: str, check: Callable[[], None]) -> Any:
    return type("WorkerJobs", (KeptCluster, cluster_class(system)), {"job_cls": _job_class(system, check)})
