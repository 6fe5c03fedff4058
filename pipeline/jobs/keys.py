"""Keys of a profile whose workers are jobs of a queueing system."""

import inspect
import math
import re
import shlex
import signal
import sys
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module, resources
from typing import Annotated, Any, Literal

import dask
import yaml
from dask.utils import parse_bytes, parse_timedelta
from pydantic import Field, ValidationInfo, create_model, field_validator

from sweep_clustering.pipeline.jobs.queues import QUEUES, walltime_seconds
from sweep_clustering.sweeps.records import NoNull, Parser, Record, Whole, refusal

# Types of the values in a profile: how each is checked, and what schema and messages say it should be.

# Bytes: a smaller size lacks its unit, and dask-jobqueue cannot write it.
LEAST_SIZE = 2**20

# Bytes: no machine has more.
LARGEST_SIZE = 2**60

# Seconds: a longer time overflows where it is added to a date.
LONGEST_TIME = 10 * 366 * 86_400.0


def size(value: object) -> int:
    """Return the bytes of a size such as "4GiB"."""
    n_bytes = 0 if isinstance(value, float) else int(_amount(parse_bytes, value))
    if LEAST_SIZE <= n_bytes <= LARGEST_SIZE:
        return n_bytes
    hint = "a number without a unit counts bytes" if 0 < n_bytes < LEAST_SIZE else ""
    raise refusal('a size such as "4GiB"', hint)


def time_span(value: object) -> float:
    """Return the seconds of a time such as "12h"."""
    seconds = float(_amount(parse_timedelta, value))
    if 0 < seconds <= LONGEST_TIME:
        return seconds
    raise refusal('a time such as "30min" or "12h"')


def _amount(parse: Callable[[Any], float], value: object) -> float:
    """Return a value with its unit as dask reads it, or 0 if it is none."""
    # dask takes "GB" for one gigabyte, "h" for one hour and an empty text for one byte
    has_no_number = isinstance(value, str) and re.match(r"\s*\.?\d", value, re.ASCII) is None
    if has_no_number or isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return 0
    try:
        amount = parse(value)
        return amount if math.isfinite(amount) else 0
    except (ValueError, KeyError, OverflowError):
        return 0


def walltime(system: str, value: object) -> str:
    """Return a walltime as the system writes it."""
    # YAML 1.1 reads an unquoted 10:00:00 as the number 36000, which SLURM would take for minutes.
    if not isinstance(value, str):
        raise refusal('a time in quotes, such as "10:00:00"')
    if system in QUEUES and walltime_seconds(system, value) is None:
        raise refusal("a time such as " + " or ".join(f'"{text}"' for text in walltime_examples(system)))
    return str(plain(value))


def walltime_examples(system: str) -> list[str]:
    """Return walltimes as the system may write them."""
    has_days = system in QUEUES and "-::" in QUEUES[system].walltimes
    return ["10:00:00", "2-00:00:00"] if has_days else ["10:00:00"]


def lines(value: object) -> list[str]:
    """Return texts of one line each."""
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise refusal("a list of texts")
    return list(map(plain, value))


def pairs(value: object) -> dict[str, Any]:
    """Return a table of plain values."""
    if not isinstance(value, dict):
        raise refusal("a table of texts")
    return {plain(key): plain(item) for key, item in value.items()}


def plain(value: Any) -> Any:
    """Return a number, or a text of one line."""
    if not isinstance(value, (str, int, float)):
        raise refusal("a text or a number")
    if isinstance(value, str) and not (value.isprintable() and value.strip()):
        raise refusal("a text of one line")
    return value


def name(value: object) -> str:
    """Return a text of one line, which may be written as a whole number."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise refusal("a text")
    return str(plain(value))


def command(value: object) -> list[str]:
    """Return the words of a command, which may be written as one text."""
    try:
        words = lines(shlex.split(value) if isinstance(value, str) else value)
    except ValueError as error:  # a quote that is not closed
        raise refusal("a command, as a text or a list of texts") from error
    if not words:
        raise refusal("a command, as a text or a list of texts")
    return words


def word(value: object) -> str:
    """Return a text without blanks, because it becomes part of a line of a script."""
    if not isinstance(value, str) or not value.isprintable() or value.split() != [value]:
        raise refusal("a text without blanks")
    return value


TEXT = {"type": "string"}
Count = Annotated[int, Whole(1, 10_000)]
Port = Annotated[int, Whole(0, 65_535)]
PORT_WANTED = "Port wanted for the dashboard; a free one is taken when it is busy."
Size = Annotated[int, Parser(size, {"type": ["string", "integer"], "examples": ["4GiB"]})]
TimeSpan = Annotated[float, Parser(time_span, {"type": ["string", "number"], "examples": ["30min", "12h"]})]
Lines = Annotated[list[str], Parser(lines, {"type": "array", "items": TEXT})]
Command = Annotated[list[str], Parser(command, {"type": ["string", "array"], "items": TEXT})]
Pairs = Annotated[dict[str, Any], Parser(pairs, {"type": "object"})]
Label = Annotated[str, Parser(name, {"type": ["string", "integer"]})]
Plain = Annotated[Any, Parser(plain, {"type": ["string", "number", "boolean"]})]
OptionalWord = Annotated[Annotated[str, Parser(word, TEXT)] | None, NoNull()]
OtherTime = Annotated[str, Parser(partial(walltime, ""), {**TEXT, "examples": ["10:00:00"]})]


# Names of dask-jobqueue's classes by short name.
CLASSES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "lsf": "LSFCluster",
    "htcondor": "HTCondorCluster",
    "moab": "MoabCluster",
    "oar": "OARCluster",
}

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

# Type and meaning of keys of dask-jobqueue; any other one is a text or a number.
THEIRS: dict[str, tuple[Any, str]] = {
    "account": (Label, "Account to charge; default: the site's."),
    "cancel_command_extra": (Lines, "More arguments of the command that cancels a job."),
    "death_timeout": (Annotated[int, Whole(1)], "Seconds for a worker to find the scheduler and to start."),
    "interface": (Label, "Network between this machine and the nodes; default: any."),
    "job_directives_skip": (Lines, "Directives to leave out of the job script, by a part of their text."),
    "job_extra_directives": (Lines, "More directives of the job script."),
    "job_script_prologue": (Lines, "Lines of the job script before the worker starts."),
    "local_directory": (Label, "Node-local folder of the workers; default: the one for temporary files."),
    "processes": (Plain, "Worker processes of each job: as many as cores."),
    "python": (Label, "Python of the nodes; default: the one that submits."),
    "queue": (Label, "Queue, or partition; default: the site's."),
    "submit_command_extra": (Lines, "More arguments of the command that submits a job."),
    "walltime": (OtherTime, "Longest time of each job, in quotes."),
    "worker_extra_args": (Lines, "Options of `dask worker`."),
}


PE_WANTED = "Parallel environment of the site, for jobs of several cores: `-pe NAME cores`."
HEAD_WALLTIME = "Default: that of the worker jobs. The job is queued again before its end."


class HeadResources(Record):
    """Resources of the job of a detached head, which schedules and writes, and solves nothing."""

    cores: Count = Field(1, description="Cores.")
    memory: Size = Field(2 * 2**30, description="Memory; default: 2GiB.")
    walltime: Annotated[OtherTime | None, NoNull()] = Field(None, description=HEAD_WALLTIME)
    queue: OptionalWord = Field(None, description="Default: that of the worker jobs.")
    account: OptionalWord = Field(None, description="Default: that of the worker jobs.")
    job_extra_directives: Lines = Field([], description="Lines of its script; default: none.")
    job_directives_skip: Lines = Field(
        [], description="Directives to leave out of its script, by a part of their text; default: none."
    )


class AnyCluster(Record):
    """Keys of every profile."""

    notify: Annotated[Command | None, NoNull()] = Field(
        None, description="Command that runs when a run ends, fails or waits for long; default: none."
    )


class JobQueue(AnyCluster):
    """Worker processes in jobs of a queueing system; `job_queue` adds the keys of dask-jobqueue."""

    kind: str = Field(description="Queueing system.")
    cores: Count = Field(description="Cores of each job, which are its worker processes of one thread.")
    memory: Size = Field(description="Memory of each job, shared by its processes.")
    workers: Annotated[int, Whole(1, 100_000)] = Field(1, description="Worker jobs to keep running.")
    dashboard_port: Port = Field(8787, description=PORT_WANTED)
    start_timeout: TimeSpan = Field(
        12 * 3600.0, description="Time without any worker after which the run gives up; default: 12h."
    )
    failed_starts: Annotated[int, Whole(1, 1000)] = Field(
        3, description="Give up when a job died at once this many times in a row."
    )
    insecure: bool = Field(False, description="No TLS: who reaches the scheduler's port can run code as you.")
    worker_prefix: Lines = Field(
        [], description="Words before the Python of workers and head, such as those that enter a container."
    )

    @field_validator("processes", mode="before", check_fields=False)
    @classmethod
    def _one_thread(cls, value: object, info: ValidationInfo) -> object:
        cores = info.data.get("cores", value)
        if isinstance(value, bool) or value != cores:
            expected = f"{cores}, as many as cores: a process has one thread"
            raise refusal(expected, 'to book more cores, "job_cpu"')
        return value

    @property
    def keys(self) -> dict[str, Any]:
        """Arguments of dask-jobqueue, with the number of processes and the Python behind its prefix."""
        values = {key: getattr(self, key) for key in known_keys(self.kind)}
        values = {key: value for key, value in values.items() if value is not None}
        python = values.get("python", sys.executable)
        command = " ".join(filter(None, (shlex.join(self.worker_prefix), python)))
        return values | {"python": command, "processes": self.cores}

    @property
    def walltime_seconds(self) -> float | None:
        """Seconds that a job may last, None if that is not known."""
        text = self.keys.get("walltime")
        return None if text is None else walltime_seconds(self.kind, text)


class KnownQueue(JobQueue):
    """Worker processes in jobs of a queueing system whose commands are known, which can have a head's job."""

    head: HeadResources = Field(default_factory=HeadResources, description="The job of a detached head.")
    mail: OptionalWord = Field(
        None, description="Address to which the queue writes when the head's job ends."
    )

    @property
    def environment(self) -> str | None:
        """Parallel environment of jobs of several cores, which only some systems have."""
        return getattr(self, "pe", None)


@cache
def job_queue(kind: str) -> type[JobQueue]:
    """Return the record of profiles of a queueing system, with the keys of the installed dask-jobqueue."""
    new_fields: dict[str, Any] = {"kind": (Literal[kind], Field(description="Queueing system."))}
    schema = {**TEXT, "examples": walltime_examples(kind)}
    time = Annotated[str, Parser(partial(walltime, kind), schema)]
    for key in known_keys(kind):
        type_, meaning = THEIRS.get(key, (Plain, f"A key of dask-jobqueue's {CLASSES[kind]}."))
        if key == "walltime":
            type_ = time
        if (kind, key) == ("htcondor", "job_extra_directives"):
            type_ = Pairs
        default = _packaged_defaults()[kind]["walltime"] if key == "walltime" else None
        if key not in JobQueue.model_fields:
            new_fields[key] = (Annotated[type_ | None, NoNull()], Field(default=default, description=meaning))
    if kind in QUEUES:
        head = create_model(
            CLASSES[kind].replace("Cluster", "Head"),
            __base__=HeadResources,
            __doc__=HeadResources.__doc__,
            walltime=(Annotated[time | None, NoNull()], Field(None, description=HEAD_WALLTIME)),
        )
        if QUEUES[kind].environments:
            new_fields["pe"] = (OptionalWord, Field(None, description=PE_WANTED))
        new_fields["head"] = (head, Field(default_factory=head, description="The job of a detached head."))
    base = KnownQueue if kind in QUEUES else JobQueue
    return create_model(CLASSES[kind], __base__=base, __doc__=f"Workers in jobs of {kind}.", **new_fields)


def cluster_class(system: str) -> Any:
    """Return dask-jobqueue's class of a system.

    The package is imported on demand: it makes Ctrl-C a silent exit with code 0, which is undone here. Keys
    that a profile leaves out have the package's own defaults, whatever dask's configuration files of this
    machine say: cluster.yaml alone tells what a job is.
    """
    previous_handler = signal.getsignal(signal.SIGINT)
    try:
        package = import_module("dask_jobqueue")
    finally:
        signal.signal(signal.SIGINT, previous_handler)
    dask.config.set({"jobqueue": _packaged_defaults()})
    return getattr(package, CLASSES[system])


@cache
def _packaged_defaults() -> dict[str, Any]:
    text = (resources.files("dask_jobqueue") / "jobqueue.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text)["jobqueue"])


@cache
def known_keys(system: str) -> tuple[str, ...]:
    """Return the keys that the installed dask-jobqueue takes for a system, without those set here."""
    cluster = cluster_class(system)
    names: set[str] = set()
    for kind in (*cluster.__mro__, *cluster.job_cls.__mro__):
        if kind.__module__.startswith("dask_jobqueue."):
            parameters = inspect.signature(kind.__init__).parameters.values()
            names.update(p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD)
    if "account" in names:
        names.discard("project")  # its deprecated name
    return tuple(sorted(names - OURS - DEPRECATED))
