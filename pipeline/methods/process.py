"""Methods run in processes of their own, in which they may hang, crash, fork and print without harm.

`MethodProcess.solve` calls a method once. Each call has a number, which every reply repeats. Only the process
that was called answers, and it is ended after any other message, so that no reply is taken for that
of another call. `check` tries a method: whether it loads, gives valid answers, and repeats them.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.installation import same_arithmetic
from sweep_clustering.pipeline.methods.child import FORKED, WARNING, Channel, Kind, Message, Spoilt
from sweep_clustering.pipeline.methods.contract import Floats, MergedLinks, NoSolution, Solution, merged_links
from sweep_clustering.pipeline.methods.keeper import LEFTOVER_WARNING
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST
from sweep_clustering.sweeps.errors import InputError, Problem, one_line, plain_lines, plural
from sweep_clustering.sweeps.words import SHIPPED

# Seconds for a process to start and a method to be imported: a shared filesystem may be slow.
START_LIMIT = 300.0

# Number of idle processes: one for all shipped methods, one for each other method that was called.
#
# Calls of the methods of a sweep take turns: with one process too few, most of them start one again, in 0.1 s
# with NumPy alone and 1 s with scikit-learn. A call of a running process takes 0.3 ms.
MOST_PROCESSES = 16

# Memory in bytes of a process that runs k-means of scikit-learn, and of its keeper; 28 MiB with numpy alone.
PROCESS_BYTES = 185 * 2**20

# Seconds for a process and its children to end by themselves.
PATIENCE = 5.0

ENVIRONMENT = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")},
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # a method may iterate over a set of words
}

SPOILT = (
    "more than one answer came from its process: the method, or what it started, wrote into the connection"
)

# Phases of a process, in words for one that is late.
_STARTS = "its process did not start"
_LOADS = "not imported"
_SOLVES = "not answered"

_STDERR = 2
_HOME = str(Path(__file__).resolve().parents[2])
# -P: neither a script of the working directory nor one beside ours is imported in place of a package.
_COMMAND = (
    "import sys; home = sys.argv[1]; home in sys.path or sys.path.insert(0, home); "
    "from sweep_clustering.pipeline.methods.keeper import main; main(*map(int, sys.argv[2:4]), sys.argv[4])"
)

# The problem on which a method is tried.
CLUSTERS = 3
SAMPLES = 10 * CLUSTERS
FEATURES = 2
SEED = 4242
# Length of a printed line in a report, in characters.
LONGEST_LINE = 200


class MethodFailed(Exception):
    """A method raised, gave no usable answer, or ended its process.

    The cause is one line, such as `ValueError: no such value`; the traceback begins with the method, or is
    empty.
    """

    def __init__(self, cause: str, traceback: str = "") -> None:
        self.cause = one_line(cause)
        self.traceback = plain_lines(traceback)
        super().__init__(self.cause, self.traceback)

    def __str__(self) -> str:
        return self.cause


class WroteIntoArguments(MethodFailed):
    """A method changed numbers of its arguments; its process, which has the table, was ended."""


class _StaleTable(Exception):
    """The table of a process has changed since its last call."""


class TimeLimit(Exception):
    """A call took longer than its time limit, and was ended with its process."""


class Unsolved(NoSolution):
    """A method reports that there is no solution, after some wall-clock and CPU time of the call."""

    def __init__(self, reason: str, seconds: float, cpu_seconds: float) -> None:
        super().__init__(one_line(reason))
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds


@dataclass(frozen=True, eq=False)
class Answer:
    """Checked solution of one call, with the wall-clock and CPU time of the call alone, in seconds."""

    solution: Solution
    seconds: float
    cpu_seconds: float


class MethodProcess(AbstractContextManager["MethodProcess"]):
    """Caller of methods in other processes, from any thread.

    The processes live as long as this object and no longer than the process that made it, however that ends;
    a killed one is started again by the next call. All shipped methods share one, and each other method
    has its own, so that none sees what another has changed; calls of a method at the same time have a process
    each. At most `MOST_PROCESSES` wait for a call, the latest ones.

    Parameters
    ----------
    output : int
        descriptor for what methods print, by default stderr of this process
    has_mark : bool
        whether each line that they print begins with the name of the method
    """

    def __init__(self, *, output: int = _STDERR, has_mark: bool = True) -> None:
        self._output = output
        self._has_mark = has_mark
        self._lock = threading.Lock()
        self._idle: list[_Runner] = []

    def load(self, call: MethodCall) -> str:
        """Import a method, and return its version as `pipeline.methods.loading.version_of` does in that
        process.

        Raises
        ------
        InputError
            If there is no such method, or it does not take its arguments or options.
        MethodFailed
            If its file or package raises, or does not come to an end.
        """
        with self._runner_for(call) as runner:
            reply = runner.ask(Kind.LOAD, call, {}, limit=START_LIMIT)
        return str(_note_of(reply, Kind.VERSION)["version"])

    def solve(
        self,
        call: MethodCall,
        key: Hashable,
        X: Floats,
        *,
        n_clusters: int,
        links: MergedLinks,
        accuracy: float | None,
        random_state: int,
    ) -> Answer:
        """Call a method once with the arguments of the contract (`pipeline.methods.contract.Method`).

        `X` is sent only if `key`, its name, differs from that of the call before. `random` and `numpy.random`
        are seeded with `random_state` as well.

        Raises
        ------
        Unsolved
            If the method raises `NoSolution`.
        MethodFailed
            If it raises anything else, cannot be loaded, returns no valid answer, writes into its
            arguments, or ends its process.
        TimeLimit
            If it takes longer than `call.time_limit`; start and imports are not counted.
        """
        note = {"n_clusters": n_clusters, "accuracy": accuracy, "random_state": random_state}
        # labels have 2 bytes, and the numbers of all other arrays 8 bytes
        max_bytes = 2 * len(X) + 8 * n_clusters * sum(X.shape)
        arrays = (links.must_link, links.cannot_link, *links.weights)
        while True:  # each turn but the last ends a process
            with suppress(_StaleTable), self._runner_for(call) as runner:
                if key != runner.key:
                    runner.key = runner  # there is no table until all of it has arrived
                    table = np.asarray(X, dtype=np.float64)
                    runner.channel.send(Kind.TABLE, 0, {}, table, limit=START_LIMIT)
                    runner.key = key
                reply = runner.ask(Kind.SOLVE, call, note, *arrays, limit=START_LIMIT)
                if reply.kind == Kind.OLD_TABLE:
                    raise _StaleTable
                if reply.kind == Kind.START:
                    runner.phase = _SOLVES
                    reply = runner.reply(call.time_limit, max_bytes)
                if reply.kind == Kind.CHANGE:
                    raise WroteIntoArguments(**reply.note)
                break
        try:
            answer = _note_of(reply, Kind.SOLUTION)
        except InputError as error:
            raise MethodFailed(f"InputError: {error}") from None
        parts = {name: array.copy() for name, array in zip(answer["given"], reply.arrays, strict=True)}
        solution = Solution(objective=answer["objective"], **parts)
        return Answer(solution, answer["seconds"], answer["cpu_seconds"])

    def close(self, keep: int = 0) -> None:
        """End the processes that no call is using, except the latest ones."""
        with self._lock:
            runners = self._idle[: max(0, len(self._idle) - keep)]
            del self._idle[: len(runners)]
        for runner in runners:
            runner.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def _runner_for(self, call: MethodCall) -> Iterator[_Runner]:
        """Yield a process for one call, which stays for the next one unless something fails."""
        runner = self._idle_or_new(call)
        try:
            if runner.phase == _STARTS:
                runner.reply(START_LIMIT)
                runner.phase = _LOADS
            yield runner
            if not runner.channel.is_quiet():
                raise Spoilt
        except TimeoutError:
            runner.kill()
            if runner.phase == _SOLVES:
                raise TimeLimit(f"longer than its time limit of {call.time_limit:g} s") from None
            raise MethodFailed(f"{runner.phase} within {START_LIMIT:g} s") from None
        except (Spoilt, EOFError, OSError) as error:
            cause = SPOILT if isinstance(error, Spoilt) else runner.how_it_ended()
            runner.kill()
            raise MethodFailed(cause) from None
        except BaseException:  # such as KeyboardInterrupt
            runner.kill()
            raise
        with self._lock:
            self._idle.append(runner)
        self.close(MOST_PROCESSES)

    def _idle_or_new(self, call: MethodCall) -> _Runner:
        """Return the latest process that waits for calls of this method, or a new one."""
        code = _code_of(call)
        with self._lock:
            runner = next((runner for runner in reversed(self._idle) if runner.code == code), None)
            if runner is not None:
                self._idle.remove(runner)
        if runner is not None:
            if runner.channel.is_quiet() and runner.process.poll() is None:
                runner.phase = _LOADS
                return runner
            # After its answer the method has ended or spoilt the process, which is no fault of this call.
            runner.kill()
        mark = "methods" if call.call in SHIPPED else call.call
        return _Runner(code, self._output, f"[{mark}]" if self._has_mark else "")


def _note_of(reply: Message, expected: Kind) -> Mapping[str, Any]:
    """Return the note of a reply, or raise the error that it stands for."""
    note = reply.note
    if reply.kind == Kind.NO_SOLUTION:
        raise Unsolved(**note)
    if reply.kind == Kind.FAILURE:
        raise MethodFailed(**note)
    if reply.kind == Kind.REFUSAL:
        raise InputError([Problem(**problem) for problem in note["problems"]])
    if reply.kind != expected:
        raise MethodFailed(SPOILT)
    return note


def processes_kept(calls: Iterable[MethodCall]) -> int:
    """Return how many processes of methods a worker keeps that calls all of these."""
    return min(len({_code_of(call) for call in calls}), MOST_PROCESSES)


def _code_of(call: MethodCall) -> Hashable:
    """Return what a process is shared by: all shipped methods, or one file or function."""
    return None if call.call in SHIPPED else (call.call, call.source)


class _Runner:
    """A process that runs methods of the same code, under its keeper (`pipeline.methods.keeper`)."""

    def __init__(self, code: Hashable, output: int, mark: str) -> None:
        our_end, child_end = socket.socketpair()
        self._lifeline, lifeline_end = socket.socketpair()  # it carries nothing, and ends with this process
        ends = child_end.fileno(), lifeline_end.fileno()
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}
        with child_end, lifeline_end:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND, _HOME, *map(str, ends), mark],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=same_arithmetic() | environment | ENVIRONMENT,
                pass_fds=ends,
                process_group=0,  # Ctrl-C is for the caller
            )
        self.code = code
        self.channel = Channel(our_end)
        self.phase = _STARTS
        self._number = 0
        self.key: Hashable = self  # there is no table yet

    def ask(
        self, kind: int, call: MethodCall, note: dict[str, Any], *arrays: NDArray[Any], limit: float
    ) -> Message:
        """Begin a call, and return the first reply."""
        self._number += 1
        self.channel.send(kind, self._number, {**note, "method": asdict(call)}, *arrays, limit=limit)
        return self.reply(limit)

    def reply(self, limit: float, max_bytes: int = 0) -> Message:
        """Return the next reply to the latest call."""
        message = self.channel.receive(limit=limit, max_bytes=max_bytes)
        if message.number != self._number:
            raise Spoilt
        return message

    def how_it_ended(self) -> str:
        """Return in words how the process ended, once it does not answer any more."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return "its process closed the connection"
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name
        hint = ", as when memory runs out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"

    def close(self) -> None:
        """Wait for the process to end, or end it."""
        self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End the process, with all that came from it."""
        self.process.terminate()  # its keeper ends the rest
        try:
            self.process.wait(2 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.channel.close()
        self._lifeline.close()


@dataclass(frozen=True)
class Breach:
    """A part of the contract that a method does not keep."""

    # A few words, such as `not reproducible`.
    what: str
    # The name of the problem; empty if there was no single one.
    where: str
    # The observation.
    cause: str
    # The traceback of the method, if it raised.
    traceback: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result of one problem; without an answer, clusters, objective and seconds are None."""

    instance: str
    # The number of clusters with samples.
    clusters: int | None
    objective: float | None
    # The time of the call.
    seconds: float | None
    # Why there was no solution, or what failed.
    note: str = ""


@dataclass(frozen=True)
class Report:
    """Result of the smoke test: the version of the method, one outcome for each problem, and breaches."""

    version: str
    outcomes: tuple[Outcome, ...]
    breaches: tuple[Breach, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values."""
        breaches = [asdict(breach) for breach in self.breaches]
        for breach in breaches:
            breach["found"] = breach.pop("cause")
        return asdict(self) | {"breaches": breaches}


def check(call: MethodCall, uses: Literal["links", "nothing"]) -> Report:
    """Try a method on three clusters of ten samples, with links if it uses them and without, twice each.

    Raises
    ------
    InputError
        If there is no such method, or it does not take its arguments or options.
    MethodFailed
        If its file or package raises while it is imported.
    """
    rng = np.random.default_rng(20210405)
    labels = np.repeat(np.arange(CLUSTERS), SAMPLES // CLUSTERS)
    X = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])[labels] + rng.normal(size=(SAMPLES, FEATURES))
    pairs = rng.integers(SAMPLES, size=(40, 2))
    kinds = np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], MUST, CANNOT)
    problems = {"links": np.column_stack([pairs, kinds]), "no links": np.empty((0, 3), dtype=np.int64)}
    accuracy = 0.9 if uses == "links" else None
    outcomes, breaches = list[Outcome](), list[Breach]()
    with tempfile.TemporaryFile() as output, MethodProcess(output=output.fileno(), has_mark=False) as methods:
        version = methods.load(call)
        for name in problems if uses == "links" else ["no links"]:
            links = merged_links(problems[name])
            solve = partial(methods.solve, call, name, X, n_clusters=CLUSTERS, links=links, accuracy=accuracy)
            try:
                first, second = (solve(random_state=SEED) for _ in range(2))
            except (NoSolution, MethodFailed, TimeLimit) as error:
                outcomes.append(Outcome(name, None, None, None, str(error).partition("\n")[0]))
                if isinstance(error, TimeLimit):
                    breaches.append(Breach("too slow", name, str(error)))
                elif isinstance(error, WroteIntoArguments):
                    breaches.append(Breach("writes into its arguments", name, error.cause))
                elif isinstance(error, MethodFailed):
                    cause = error.cause.removeprefix("BadAnswer: ")
                    title = "fails" if cause == error.cause else "no usable answer"
                    breaches.append(Breach(title, name, cause, error.traceback))
                continue
            n_clusters = len(np.unique(first.solution.labels))
            outcomes.append(Outcome(name, n_clusters, first.solution.objective, first.seconds))
            if pickle.dumps(first.solution) != pickle.dumps(second.solution):
                breaches.append(Breach("not reproducible", name, "another answer to the same random_state"))
        methods.close()  # which writes the buffers of the process
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    for title, line in (("forks", FORKED), ("leaves processes running", LEFTOVER_WARNING)):
        if line in lines:
            times = plural(lines.count(line), "time")
            breaches.append(Breach(title, "", f"{times}: {line.removeprefix(WARNING)}"))
    printed = [line for line in lines if line.strip() and not line.startswith(WARNING)]
    if printed:
        breaches.append(
            Breach("prints", "", f"{plural(len(printed), 'line')}, first {printed[0][:LONGEST_LINE]!r}")
        )
    return Report(version, tuple(outcomes), tuple(breaches))
