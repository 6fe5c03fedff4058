"""The commands of queueing systems, with a timeout and repeated attempts: one table, a row for each system.

Their answers never decide whether a run succeeded.
"""

import hashlib
import logging
import math
import os
import pwd
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from xml.etree import ElementTree

import psutil

from sweep_clustering.storage.runfolder.folder import HeadRecord, RunFolder, Submission

# Walltimes as queueing systems write them: the seconds of each number, by the marks between the numbers.
CLOCK: dict[str, tuple[int, ...]] = {"::": (3600, 60, 1)}
SLURM_TIMES = {
    "": (60,),
    ":": (60, 1),
    "::": (3600, 60, 1),
    "-": (86400, 3600),
    "-:": (86400, 3600, 60),
    "-::": (86400, 3600, 60, 1),
}


def walltime_seconds(system: str, text: str) -> float | None:
    """Return the seconds of a walltime as the system writes it, None if it has no number.

    Only `hours:minutes:seconds` is understood if the system has no row here.
    """
    numbers, marks = re.findall(r"\d+", text), re.sub(r"\d+", "", text.strip())
    units = (QUEUES[system].walltimes if system in QUEUES else CLOCK).get(marks, ())
    if not units or len(units) != len(numbers):
        return None
    return float(sum(unit * int(number) for unit, number in zip(units, numbers, strict=True)))


class ComputeClusterError(RuntimeError):
    """No worker is available; finished results are kept."""


logger = logging.getLogger(__name__)

# Seconds that a command may take; a busy controller answers within ten.
TIMEOUT = 30.0

ATTEMPTS = 3

# Attempts while a person waits at the terminal: seven minutes of pauses.
PATIENT_ATTEMPTS = 12

# Attempts at what a busy queue refuses, and also one that can never do it: half a minute of pauses.
DOUBTFUL_ATTEMPTS = 5

# Seconds between the first two attempts. The pause doubles up to the longest one.
PAUSE = 2.0
LONGEST_PAUSE = 60.0

# Seconds that a command may take, and only once, while a head ends early.
HURRY_SECONDS = 10.0

# Refusals are read, so they must not be translated. Other variables of the locale stay, for a job gets them.
ENGLISH = {"LANGUAGE": "C"}

# Set while a head ends early: the queue kills it soon, or `sweep cancel` waits for it.
ending = threading.Event()

# Ends of a message of `sbatch` after which it tries again by itself, for two minutes.
WAITS = ("retrying", "retrying.")

# Messages of a queue when its controller is away or busy; any other error would come again.
#
# These patterns are not of one row: a kind without a row refuses jobs, too.
TRANSIENT = re.compile(
    r"timed out|no answer within|unable to contact|connection (?:refused|reset)|temporarily|try again|"
    r"zero bytes|communication connection failure|unable to establish|unexpected message received|"
    r"server is busy|commlib error|cannot connect to (?:pbs )?server",
    re.IGNORECASE,
)

# Message of a queue whose nodes are away, or that has no such node at all.
DOUBTFUL = re.compile("requested node configuration is not available", re.IGNORECASE)

# Messages of a queue that takes no more jobs: of SLURM, Grid Engine, PBS, HTCondor and LSF.
LIMIT = re.compile(
    r"SubmitJob|accounting/QOS policy|job queue full|only \d+ jobs are allowed per|"
    r"would exceed .*(?:limit|MAX_JOBS)|maximum number of jobs|pending job (?:threshold|limit)",
    re.IGNORECASE,
)

# Names that SLURM gives to limits of what a job asks for. One job less does not help.
LIMIT_OF_SIZE = re.compile(r"\b(?:QOS|Assoc)(?:Max|Min|Grp)(?!\w*SubmitJob)\w+")

# Words for a refusal that passes by itself, or may.
SITE_LIMIT = "limit of the site"
BUSY = "the queue is busy"
NO_NODE = "no such node now"


def obstacle(refusal: str) -> str:
    """Return words for what a refusal waits for, no words if it would come again."""
    if LIMIT.search(refusal) and not LIMIT_OF_SIZE.search(refusal):
        return SITE_LIMIT
    return BUSY if TRANSIENT.search(refusal) else NO_NODE if DOUBTFUL.search(refusal) else ""


# Attempts at a command by what its failure waits for; any other failure is final.
MOST_ATTEMPTS = {BUSY: PATIENT_ATTEMPTS, NO_NODE: DOUBTFUL_ATTEMPTS}

# States of jobs that do not run, and about how many of them at a time a queue is asked why.
STUCK = {"PENDING", "HELD", "ERROR"}
MOST_REASONS = 20

# Seconds between two looks whether the head has begun to end.
SLICE_SECONDS = 0.5


class CommandFailed(RuntimeError):
    """A command did not answer, or refused; `transient` if it may succeed later."""

    def __init__(self, command: Sequence[str], reason: str) -> None:
        super().__init__(reason if reason.startswith(command[0]) else f"{command[0]}: {reason}")
        self.most_attempts = MOST_ATTEMPTS.get(obstacle(reason), 1)
        self.transient = self.most_attempts > 1


@dataclass(frozen=True)
class LiveJob:
    """A job that is in the queue: waiting, running, suspended, or to run again."""

    number: str
    name: str
    state: str
    node: str
    reason: str

    @property
    def words(self) -> str:
        """State in lower case, with its reason."""
        return f"{self.state.lower()} ({self.reason})" if self.reason else self.state.lower()


def run(
    command: Sequence[str],
    *,
    timeout: float = TIMEOUT,
    attempts: int = ATTEMPTS,
    find_effect: Callable[[], str] | None = None,
) -> str:
    """Return the output of a command, tried again while its failure may pass.

    No shell sees the command, and `timeout` is in seconds for each attempt. A command that did not answer may
    have succeeded: it is repeated only if `find_effect` returns no text in place of its output.
    `CommandFailed` has the reason of the last attempt.
    """
    number = 0
    while True:
        number += 1
        try:
            return _run_once(command, timeout)
        except CommandFailed as error:
            limit = min(attempts, error.most_attempts)
            if ending.is_set() or (number >= limit and not (error.transient and find_effect)):
                raise
            # after the last attempt there is only a look whether it has succeeded
            seconds = min(PAUSE * 2 ** (number - 1), LONGEST_PAUSE) if number < limit else PAUSE
            if number < limit and attempts > ATTEMPTS:
                logger.warning("%s; attempt %d of %d follows in %.0f s", error, number + 1, limit, seconds)
            ending.wait(seconds)
            if find_effect is not None and (effect := find_effect()):
                return effect
            if number >= limit:
                raise


def _run_once(command: Sequence[str], timeout: float) -> str:
    """Return the output of a command, which has at most `HURRY_SECONDS` left once the head begins to end."""
    hidden_names = hidden_variables()
    environment = {name: value for name, value in os.environ.items() if name not in hidden_names}
    try:
        # In its own session, so that Ctrl-C in the terminal does not end a command half-way.
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env=environment | ENGLISH,
        )
    except OSError as error:
        raise CommandFailed(command, error.strerror or str(error)) from error
    start_time, hurry_end, output, errors = time.monotonic(), math.inf, "", ""
    with process:
        try:
            while process.returncode is None:
                if ending.is_set():
                    hurry_end = min(hurry_end, time.monotonic() + HURRY_SECONDS)
                seconds_left = min(start_time + timeout, hurry_end) - time.monotonic()
                if errors.endswith(WAITS):
                    raise CommandFailed(command, errors)
                if seconds_left <= 0:
                    reason = f"no answer within {time.monotonic() - start_time:.1f} s {errors}".strip()
                    raise CommandFailed(command, reason)
                try:
                    output, errors = process.communicate(timeout=min(SLICE_SECONDS, seconds_left))
                except subprocess.TimeoutExpired as late:
                    errors = " ".join((late.stderr or b"").decode(errors="replace").split())
        except BaseException:  # also a signal, which is an exception here
            process.kill()
            raise
    if process.returncode:
        reason = " ".join(errors.split()) or f"exit code {process.returncode}"
        raise CommandFailed(command, reason)
    return output


def job_prefix(run: RunFolder) -> str:
    """Return the start of the names of all jobs of a sweep: the same for one cube, and for no other."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", run.path.stem)
    return f"sweep-{name}-{hashlib.sha256(str(run.path.resolve()).encode()).hexdigest()[:8]}-"


def head_name(run: RunFolder) -> str:
    """Return the name of the job of a detached head; no worker job has it."""
    return f"{job_prefix(run)}head"


@dataclass(frozen=True)
class JobDetails:
    """The details that a queue shows of one job: empty, 0 or None if it does not tell.

    `state` is the queue's own word, `elapsed` and `limit` are the seconds that the job has run and may run,
    and `end` has words for how it ended.
    """

    state: str = ""
    restarts: int = 0
    elapsed: float | None = None
    limit: float | None = None
    end: str = ""
    node: str = ""


@dataclass(frozen=True)
class Queue:
    """A queueing system: its commands, how their output is read, and the lines of its scripts.

    The variables in the environment of its jobs are a row of `storage.runfolder.lease.JOB_VARIABLES`.
    """

    # Kind of the profiles that use it.
    kind: str
    # Name in messages.
    title: str
    # Command that submits the script which follows it.
    submission: tuple[str, ...]
    # Returns the number of the job out of its output.
    read_number: Callable[[str], str]
    # Command that shows the jobs of a user, with the name or the number in braces.
    listing: tuple[str, ...]
    # Returns the jobs that have not ended out of its output.
    read_listing: Callable[[str], list[LiveJob]]
    # Command that shows the job whose number follows it.
    inspection: tuple[str, ...]
    # Returns the details of the job out of its output.
    read_details: Callable[[str], JobDetails]
    # Command that ends the jobs whose numbers follow it.
    cancellation: tuple[str, ...]
    # Command that puts the job whose number follows it back into the queue, if one is to be trusted.
    #
    # Without it a head that continues submits its script as another job.
    requeuing: tuple[str, ...]
    # Seconds of each number in a walltime, by the marks between the numbers.
    walltimes: Mapping[str, tuple[int, ...]]
    # Start of a line of a script that is a directive.
    marker: str
    # Directives of the script of a head, which may run again from its start.
    #
    # A directive with a name in braces is left out if the profile has no value for that name.
    head_directives: tuple[str, ...]
    # Directives of each worker job beside those of dask-jobqueue.
    worker_directives: tuple[str, ...] = ()
    # Command that shows the names of the queues to choose from; without it they are not checked.
    queue_listing: tuple[str, ...] = ()
    # Command that shows why jobs wait, whose numbers follow with commas, if the listing does not tell.
    explanation: tuple[str, ...] = ()
    # Returns reasons by the number of the job out of its output.
    read_reasons: Callable[[str], dict[str, str]] = lambda _output: {}
    # Command that lists what the key `pe` may name, if a job of several cores needs one.
    environments: tuple[str, ...] = ()
    # Starts of the names of variables that its commands read as if they were arguments.
    variables: tuple[str, ...] = ()
    # Variables with such a name that say where the queue is.
    addresses: frozenset[str] = frozenset()
    # Command that shows the job whose number follows it after its end, if the inspection forgets it.
    accounting: tuple[str, ...] = ()
    # Returns the directive that keeps a job from nodes, for a script that has some directives already.
    exclusion: Callable[[str, Sequence[str]], str] | None = None
    # Returns the number of nodes of a queue, or of the default one; 0 if it is not known.
    count_nodes: Callable[[str | None], int] = lambda _name: 0
    # Commands that show limits of jobs, with patterns of their names and numbers.
    job_limits: tuple[tuple[tuple[str, ...], str], ...] = ()
    # Attempts at a command while its failure may pass.
    attempts: int = ATTEMPTS

    def live_jobs(self, prefix: str) -> list[LiveJob]:
        """Return this user's jobs whose names start with `prefix`, without those that have ended.

        If the queue does not answer, nothing is known, and `CommandFailed` is raised.
        """
        command = for_user(self.listing)
        output = run(command, attempts=self.attempts)
        try:
            listing = self.read_listing(output)
        except SyntaxError as error:  # half of a document, or a message in its place
            raise CommandFailed(command, f"its output cannot be read: {error}") from error
        jobs = [job for job in listing if job.name.startswith(prefix)]
        stuck = [job.number for job in jobs if job.state in STUCK and not job.reason][:MOST_REASONS]
        if not self.explanation or not stuck:
            return jobs
        reasons = {}
        with suppress(CommandFailed):  # a job may have started meanwhile
            reasons = self.read_reasons(run([*self.explanation, ",".join(stuck)], attempts=1))
        return [replace(job, reason=reasons.get(job.number, job.reason)) for job in jobs]

    def submit(self, script: str, name: str, *, besides: str = "") -> str:
        """Return the number of the job made from a script, or of the job of that name in the queue.

        It is submitted again only when the queue shows no such job `besides` an older one. `CommandFailed` is
        raised if the queue refuses, or does not answer.
        """

        def find_job() -> str:
            jobs = [job for job in self.live_jobs(name) if job.name == name]
            return next((job.number for job in jobs if job.number != besides), "")

        command = [*self.submission, script]
        output = run(command, attempts=self.attempts, find_effect=find_job)
        if number := self.read_number(output):
            return number
        raise CommandFailed(command, f"no number of a job in its output: {' '.join(output.split())}")

    def cancel(self, numbers: Iterable[str]) -> None:
        """End jobs; if one is gone already, or the queue does not answer, that is only logged."""
        if jobs := list(numbers):
            try:
                run([*self.cancellation, *jobs])
            except CommandFailed as error:
                logger.debug("%s", error)

    def cancel_all(self, prefix: str, *, keep: str = "") -> int:
        """End this user's jobs whose names start with `prefix`, except `keep`, and return their number.

        The number is 0 if the queue does not answer.
        """
        try:
            jobs = [job for job in self.live_jobs(prefix) if job.name != keep]
        except CommandFailed as error:
            logger.warning("jobs named %s... may be left in the queue: %s", prefix, error)
            return 0
        self.cancel(job.number for job in jobs)
        return len(jobs)

    def details(self, number: str) -> JobDetails:
        """Return the details of a job; none if the queue does not answer soon, or has forgotten the job."""
        try:
            return self.read_details(run([*self.inspection, number], timeout=5, attempts=2))
        except CommandFailed as error:
            # That a job is not known any more is an answer.
            logger.log(logging.WARNING if error.transient else logging.DEBUG, "%s", error)
            return JobDetails()

    def end_of(self, number: str) -> JobDetails:
        """Return the details of a job that has ended, from the accounting of the site where that knows more.

        Only the accounting says who cancelled a job, and many sites have none.
        """
        job = self.details(number)
        if self.accounting and job.state in ("", "CANCELLED"):
            with suppress(CommandFailed):
                record = self.read_details(run([*self.accounting, number], timeout=5, attempts=1))
                job = record if record.state else job
        return job

    def is_out_of_time(self, number: str) -> bool:
        """Whether the job of this process has used up its walltime; False if the queue does not answer."""
        job = self.details(number)
        elapsed = time.time() - psutil.Process().create_time() if job.elapsed is None else job.elapsed
        return job.limit is not None and elapsed >= job.limit

    def requeue(self, number: str) -> None:
        """Put a job that runs back into the queue as it was submitted; `CommandFailed` if that is refused."""
        run([*self.requeuing, number], attempts=6)

    def other_head(self, folder: RunFolder) -> str | None:
        """Return words for a head of this run whose job is in the queue, None if there is none."""
        name = head_name(folder)
        for job in self.live_jobs(name):
            if job.name == name:
                place = job.node or job.reason
                return f"its head is job {job.number} already: {job.state.lower()} ({place})"
        return None


def for_user(command: Sequence[str]) -> list[str]:
    """Return a command about this user, in place of `{user}` and `{uid}`."""
    name = uid = str(os.getuid())
    with suppress(KeyError):  # a user may have no name
        name = pwd.getpwuid(os.getuid()).pw_name
    return [part.format(user=name, uid=uid) for part in command]


def words_of(command: Sequence[str]) -> list[str]:
    """Return the words that a command prints; none if there is no command, or it fails."""
    try:
        return run(command, timeout=5, attempts=2).split() if command else []
    except CommandFailed as error:
        logger.debug("%s", error)
        return []


def _slurm_jobs(output: str) -> list[LiveJob]:
    jobs = []
    for line in output.splitlines():
        fields = line.strip().split("|", 5)
        if len(fields) < 6:
            continue
        number, name, state, node, elapsed, reason = fields
        if state == "COMPLETING":
            # The job has lost its processes, and only its node is still being cleaned. One that is queued
            # again has used no time since then; the time of one that has ended stays.
            if elapsed != "0:00":
                continue
            state, node, reason = "PENDING", "", "its node is being cleaned"
        jobs.append(LiveJob(number, name, state, node, "" if reason == "None" else reason))
    return jobs


# Words for ends of jobs, by the states and reasons of SLURM. A job whose node is being cleaned has a reason.
SLURM_ENDS = {
    **dict.fromkeys(("OUT_OF_MEMORY", "OutOfMemory"), "out of memory"),
    **dict.fromkeys(("TIMEOUT", "TimeLimit"), "time limit"),
    **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL", "NodeDown"), "node failure"),
    **dict.fromkeys(("PREEMPTED", "Preempted"), "other jobs came first"),
    "DEADLINE": "deadline",
}


def _slurm_end(state: str, user: str, reason: str, code: str) -> str:
    """Return how a job ended, by its state, the number of who cancelled it, its reason and its exit code."""
    if user:
        canceller = "by an administrator" if int(user) != os.getuid() else "by its user"
        return f"cancelled {canceller} (user number {user})"
    number, _, signal = code.partition(":")
    outcome = f"signal {signal}" if signal not in ("", "0") else f"exit code {number}" if number else ""
    has_ended = state in ("FAILED", "COMPLETED", "COMPLETING")
    return SLURM_ENDS.get(state) or SLURM_ENDS.get(reason) or (outcome if has_ended else "")


def _slurm_details(output: str) -> JobDetails:
    """Return the details of a job as `scontrol` shows them, or `sacct` with bars between three of them."""
    fields = dict(re.findall(r"(\w+)=(\S*)", output))
    if (record := re.search(r"^(\w+)(?: by \d+)?\|(.*)\|(.*)$", output, re.MULTILINE)) is not None:
        fields = dict(zip(("JobState", "ExitCode", "NodeList"), record.groups(), strict=True))
    user = re.search(r"^CANCELLED by (\d+)", output, re.MULTILINE)
    keys = ("JobState", "Restarts", "NodeList", "Reason", "ExitCode")
    state, restarts, node, reason, code = (fields.get(key, "") for key in keys)
    elapsed, limit = (walltime_seconds("slurm", fields.get(key, "")) for key in ("RunTime", "TimeLimit"))
    n_restarts = int(restarts) if restarts.isdecimal() else 0
    end = _slurm_end(state, user[1] if user else "", reason, code)
    return JobDetails(state, n_restarts, elapsed, limit, end, "" if "(" in node or " " in node else node)


def _slurm_exclusion(header: str, nodes: Sequence[str]) -> str:
    # The last directive of a kind counts, and the profile may have one.
    profile_nodes = re.findall(r"^#SBATCH\s+(?:--exclude[=\s]|-x\s*)(\S+)", header, re.MULTILINE)
    return f"--exclude={','.join([*profile_nodes[-1:], *nodes])}"


SLURM = Queue(
    kind="slurm",
    title="SLURM",
    submission=("sbatch", "--parsable"),
    # a site's own command may say more
    read_number=lambda output: "".join(re.findall(r"^(\d+)(?:;\S*)?$", output, re.MULTILINE)[-1:]),
    listing=("squeue", "--noheader", "--format=%i|%j|%T|%N|%M|%r", "--user", "{uid}"),
    read_listing=_slurm_jobs,
    inspection=("scontrol", "--oneliner", "show", "job"),
    read_details=_slurm_details,
    cancellation=("scancel",),
    requeuing=("scontrol", "requeue"),
    walltimes=SLURM_TIMES,
    marker="#SBATCH",
    head_directives=(
        "-J {name}",
        "-o {log}",
        "-p {queue}",
        "-A {account}",
        "-n 1",
        "--cpus-per-task={cores}",
        "--mem={memory}M",
        "-t {walltime}",
        "--open-mode=append",
        "--signal=B:USR1@{warning}",
        "--mail-user={mail} --mail-type=END,FAIL",
        "--requeue",
    ),
    # The watch replaces a lost job. SLURM would let it wait for minutes, or hold it until somebody comes.
    worker_directives=("--no-requeue",),
    queue_listing=("sinfo", "--all", "--noheader", "--format=%R"),
    # Those of a shell override the lines of a script and hide jobs from `squeue` and `scancel`; those of a
    # job in which somebody submits would bind the processes of the new one, too.
    variables=("SBATCH_", "SLURM_", "SQUEUE_", "SCANCEL_", "SCONTROL_", "SINFO_", "SACCT_"),
    accounting=("sacct", "-nPX", "--format=State,ExitCode,NodeList", "--jobs"),
    exclusion=_slurm_exclusion,
    count_nodes=lambda names: max(
        (int(record.get("TotalNodes", 0)) for record in partitions(names)), default=0
    ),
    job_limits=(
        (("scontrol", "show", "config"), r"^(MaxJobCount)\s*=\s*(\d+)"),
        (
            ("scontrol", "show", "assoc_mgr", "flags=assoc", "users={user}"),
            r"\b((?:Grp|Max)(?:Submit)?Jobs)=(\d+)",
        ),
    ),
    addresses=frozenset(
        ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_SACK_SOCKET")
    ),
)


# The first of these letters in a state of Grid Engine says what it means; a lone R means "has run before".
SGE_STATES = {
    "d": "ENDING",
    "E": "ERROR",
    "s": "SUSPENDED",
    "S": "SUSPENDED",
    "T": "SUSPENDED",
    "N": "SUSPENDED",
    "P": "SUSPENDED",
    "h": "HELD",
    "r": "RUNNING",
    "t": "RUNNING",
    "q": "PENDING",
}


def _sge_jobs(output: str) -> list[LiveJob]:
    jobs = []
    document = output[output.find("<?xml") :] if "<?xml" in output else output
    for job in ElementTree.fromstring(document).iter("job_list"):
        letters = job.findtext("state", "")
        state = next((word for letter, word in SGE_STATES.items() if letter in letters), letters.upper())
        node = job.findtext("queue_name", "").rpartition("@")[2]
        jobs.append(LiveJob(job.findtext("JB_job_number", ""), job.findtext("JB_name", ""), state, node, ""))
    return jobs


def _sge_reasons(output: str) -> dict[str, str]:
    """Return the error of each job, or the last words of the scheduler about it."""
    reasons = {}
    for text in re.split(r"^=+$", output, flags=re.MULTILINE):
        number = re.search(r"^job_number: +(\d+)", text, re.MULTILINE)
        error = re.search(r"^error reason +\d+: +\S+ \S+ (?:\[\S+ )?(.+)", text, re.MULTILINE)
        info = re.search(r"^scheduling info: +(.+(?:\n {20,}.+)*)", text, re.MULTILINE)
        if number and error:
            reasons[number[1]] = f"it waits until somebody clears it, {error[1].strip()}"
        elif number and info:
            reasons[number[1]] = info[1].splitlines()[-1].strip()
    return reasons


def _sge_details(output: str) -> JobDetails:
    """Return the details of a job that `qstat` shows, or `qacct` after its end."""
    fields = dict(re.findall(r"^(failed|exit_status|hostname) +(.*?) *$", output, re.MULTILINE))
    if "failed" in fields:
        failure = fields["failed"].partition(":")[2].strip()
        code = int(fields.get("exit_status", "0").split()[0])
        outcome = f"signal {code - 128}" if code > 128 else f"exit code {code}"
        # "assumedly after job" is what it says about every end by a signal
        words = [text for text in (failure, outcome) if text and not text.startswith("assumedly")]
        return JobDetails("ENDED", end=", ".join(words), node=fields.get("hostname", ""))
    limits = dict(re.findall(r"\b([hs]_rt)=(\d+)", output))
    limit = limits.get("s_rt", limits.get("h_rt"))
    return JobDetails(limit=float(limit) if limit else None)


SGE = Queue(
    kind="sge",
    title="Grid Engine",
    submission=("qsub", "-terse"),
    read_number=lambda output: output.split()[-1] if output.split() else "",
    listing=("qstat", "-xml", "-u", "{user}"),
    read_listing=_sge_jobs,
    explanation=("qstat", "-j"),
    read_reasons=_sge_reasons,
    inspection=("qstat", "-j"),
    accounting=("qacct", "-j"),
    read_details=_sge_details,
    cancellation=("qdel",),
    # It can put a job back, but ends it at its second warning.
    requeuing=(),
    walltimes={"": (1,), **CLOCK},
    marker="#$",
    head_directives=(
        "-N {name}",
        "-o {log}",
        "-j y",
        # A site's shell may be another one, and its jobs do not find the commands of the queue.
        "-S /bin/bash",
        "-v PATH",
        # SIGUSR2 comes before the end of a job that is deleted.
        "-notify",
        # After the loss of its node; it then ends at its first warning, after SIGUSR2.
        "-r y",
        "-q {queue}",
        "-P {account}",
        "-pe {pe} {cores}",
        "-m ea -M {mail}",
        "-l h_rt={seconds},s_rt={warned}",
    ),
    worker_directives=("-S /bin/bash", "-r n"),
    environments=("qconf", "-spl"),
    exclusion=lambda _header, nodes: f"-l hostname=!({'|'.join(nodes)})",
    count_nodes=lambda _name: len(words_of(["qconf", "-sel"])),
    job_limits=((("qconf", "-sconf"), r"^(max_u_jobs)\s+(\d+)"),),
    queue_listing=("qconf", "-sql"),
)

# Queueing systems whose commands are known, by the kind of a profile.
QUEUES = {queue.kind: queue for queue in (SLURM, SGE)}


def used_queue(run: RunFolder) -> Queue | None:
    """Return the queue of the last head of a run that used one, or of the head that waits to start.

    It is None if the run used none, or one whose commands are not known.
    """
    heads = [HeadRecord.read(generation.head) for generation in run.generations()]
    records = [record for record in (*heads, Submission.read(run.submission)) if record is not None]
    systems = [record.system for record in sorted(records, key=lambda record: record.at)]
    return next((QUEUES[system] for system in reversed(systems) if system in QUEUES), None)


def hidden_variables() -> list[str]:
    """Return the names of this process's variables that neither the commands of a queue nor its jobs get."""
    return sorted(
        name
        for name in os.environ
        if any(name.startswith(row.variables) and name not in row.addresses for row in QUEUES.values())
    )


def partitions(names: str | None) -> list[dict[str, str]]:
    """Return the values of partitions, whose names have commas between them, or of the default one."""
    output = run(["scontrol", "--all", "--oneliner", "show", "partition"])
    records = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in output.splitlines()]
    if names is None:
        return [record for record in records if record.get("Default") == "YES"]
    return [record for record in records if record.get("PartitionName") in names.split(",")]


def largest_node(name: str) -> tuple[int, int]:
    """Return the bytes of memory and the cores of the largest node of a partition, or 0."""
    # as "8192+ 16" if the nodes are not all alike
    output = run(["sinfo", "--noheader", f"--partition={name}", "--format=%m %c"])
    sizes = re.findall(r"^(\d+)\+? +(\d+)\+?$", output, re.MULTILINE)
    megabytes, cores = (max((int(pair[column]) for pair in sizes), default=0) for column in (0, 1))
    return megabytes * 2**20, cores
