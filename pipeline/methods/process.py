"""Methods run in processes of their own, which may hang, crash, fork and print without harm.

`MethodProcess.solve` calls a method once. Each call has a number, which every reply repeats; only the process
that was called answers, and it is ended as soon as anything else comes from it. So no reply is taken for that
of another call.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.pipeline.methods import child
from sweep_clustering.pipeline.methods.contract import Floats, Links, NoSolution, Solution, Weights
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.sweeps.errors import InputError, Problem, one_line, plain_lines
from sweep_clustering.sweeps.words import SHIPPED

# Seconds for a process to start and a method to be imported: a shared filesystem may be slow.
START_LIMIT = 300.0

# Kept at a time: one for all shipped methods, one for each other method that was called.
#
# Calls of the methods of a sweep take turns: with one process too few, most of them start one again, in 0.1 s
# with NumPy alone and 1 s with scikit-learn. A call of a process that is kept takes 0.3 ms.
MOST_PROCESSES = 16

# Memory of a process that runs k-means of scikit-learn, and of its keeper; 28 MiB with numpy alone.
PROCESS_BYTES = 185 * 2**20

# Seconds for a process to end by itself, with all that came from it.
PATIENCE = 5.0

ENVIRONMENT = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR")},
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # a method may iterate over a set of words
}

SPOILT = (
    "more than one answer came from its process: the method, or what it started, wrote into the connection"
)

# What a process that is late did not do.
_STARTED, _LOADED, _CALLED = "its process did not start", "not imported", "not answered"

_STDERR = 2
_HOME = str(Path(__file__).resolve().parents[2])
# -P: neither a script of the working directory nor one beside ours is imported in place of a package.
_COMMAND = (
    "import sys; home = sys.argv[1]; home in sys.path or sys.path.insert(0, home); "
    "from sweep_clustering.pipeline.methods.keeper import main; main(*map(int, sys.argv[2:4]), sys.argv[4])"
)


class MethodFailed(Exception):
    """A method raised, gave no answer that can be used, or ended its process.

    Parameters
    ----------
    cause : str
        In one line, such as `ValueError: no such value`.
    traceback : str
        From the first line of the method on; empty where there is none.
    """

    def __init__(self, cause: str, traceback: str = "") -> None:
        self.cause = one_line(cause)
        self.traceback = plain_lines(traceback)
        super().__init__(self.cause, self.traceback)

    def __str__(self) -> str:
        return self.cause


class WroteIntoArguments(MethodFailed):
    """A method changed numbers of its arguments; its process, which keeps the table, was ended."""


class _StaleTable(Exception):
    """The table of a process has changed since its last call."""


class TimeLimit(Exception):
    """A call took longer than it may, and was ended with its process."""


class Unsolved(NoSolution):
    """A method says that there is no solution.

    Parameters
    ----------
    reason : str
        Why.
    seconds, cpu_seconds : float
        As those of `Answer`.
    """

    def __init__(self, reason: str, seconds: float, cpu_seconds: float) -> None:
        super().__init__(one_line(reason))
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds


@dataclass(frozen=True, eq=False)
class Answer:
    """What one call gave.

    Parameters
    ----------
    solution : Solution
        As `pipeline.methods.contract.checked` returns it.
    seconds, cpu_seconds : float
        Of the call alone, by the clock and of its process.
    """

    solution: Solution
    seconds: float
    cpu_seconds: float


class MethodProcess:
    """Calls methods in other processes, from any thread.

    The processes live as long as this object and no longer than the process that made it, however that ends;
    what was killed is started again by the next call. All shipped methods share one, and each other method
    has its own, so that none sees what another has changed; calls of a method at the same time have a process
    each. Of more than `MOST_PROCESSES` that wait for a call the latest stay.

    Parameters
    ----------
    output : int
        Descriptor for what methods print; by default stderr of this process.
    marked : bool
        Whether each line that they print begins with the name of the method.
    """

    def __init__(self, *, output: int = _STDERR, marked: bool = True) -> None:
        self._output = output
        self._marked = marked
        self._lock = threading.Lock()
        self._idle: list[_Child] = []

    def load(self, call: MethodCall) -> str:
        """Import a method.

        Returns
        -------
        str
            Its version, as `pipeline.methods.loading.version_of` tells it in that process.

        Raises
        ------
        InputError
            If there is no such method, or it does not take its arguments or options.
        MethodFailed
            If its file or package raises, or does not come to an end.
        """
        with self._lent(call) as lent:
            reply = lent.ask(child.LOAD, call, {}, limit=START_LIMIT)
        return str(_understood(reply, child.LOADED)["version"])

    def solve(
        self,
        call: MethodCall,
        key: Hashable,
        X: Floats,
        *,
        n_clusters: int,
        must_link: Links,
        cannot_link: Links,
        weights: Weights,
        accuracy: float | None,
        random_state: int,
    ) -> Answer:
        """Call a method once.

        Parameters
        ----------
        call : MethodCall
            The method, its options and its time limit.
        key : Hashable
            Of the table: `X` is sent only where it differs from the key before.
        X, n_clusters, must_link, cannot_link, weights, accuracy, random_state
            Arguments of the contract (`pipeline.methods.contract.Method`). `random` and `numpy.random` are
            seeded with `random_state` as well.

        Returns
        -------
        Answer
            The checked solution and its times.

        Raises
        ------
        Unsolved
            If the method raises `NoSolution`.
        MethodFailed
            If it raises anything else, cannot be loaded, returns what is no answer, writes into its
            arguments, or ends its process.
        TimeLimit
            If it takes longer than `call.time_limit`; start and imports are not counted.
        """
        note = {"n_clusters": n_clusters, "accuracy": accuracy, "random_state": random_state}
        # labels of 2 bytes, and numbers of 8 bytes in what else there may be
        most = 2 * len(X) + 8 * n_clusters * sum(X.shape)
        arrays = (must_link, cannot_link, *weights)
        while True:  # each turn but the last ends a process that was kept
            with suppress(_StaleTable), self._lent(call) as lent:
                if key != lent.key:
                    lent.key = lent  # of no table, until all of this one is there
                    table = np.asarray(X, dtype=np.float64)
                    lent.channel.send(child.TABLE, 0, {}, table, limit=START_LIMIT)
                    lent.key = key
                reply = lent.ask(child.SOLVE, call, note, *arrays, limit=START_LIMIT)
                if reply.kind == child.STALE:
                    raise _StaleTable
                if reply.kind == child.BEGUN:
                    lent.phase = _CALLED
                    reply = lent.reply(call.time_limit, most)
                if reply.kind == child.CHANGED:
                    raise WroteIntoArguments(**reply.note)
                break
        try:
            said = _understood(reply, child.SOLVED)
        except InputError as error:
            raise MethodFailed(f"InputError: {error}") from None
        parts = {name: array.copy() for name, array in zip(said["given"], reply.arrays, strict=True)}
        return Answer(Solution(objective=said["objective"], **parts), said["seconds"], said["cpu_seconds"])

    def close(self, keep: int = 0) -> None:
        """End the processes that no call is using, but for the latest ones."""
        with self._lock:
            over = self._idle[: max(0, len(self._idle) - keep)]
            del self._idle[: len(over)]
        for each in over:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def _lent(self, call: MethodCall) -> Iterator[_Child]:
        """A process for one call: kept for the next one if it did what it should, else ended."""
        lent = self._taken(call)
        try:
            if lent.phase == _STARTED:
                lent.reply(START_LIMIT)
                lent.phase = _LOADED
            yield lent
            if not lent.channel.is_quiet():
                raise child.Spoilt
        except TimeoutError:
            lent.kill()
            if lent.phase == _CALLED:
                raise TimeLimit(f"longer than its time limit of {call.time_limit:g} s") from None
            raise MethodFailed(f"{lent.phase} within {START_LIMIT:g} s") from None
        except (child.Spoilt, EOFError, OSError) as error:
            how = SPOILT if isinstance(error, child.Spoilt) else lent.how_it_ended()
            lent.kill()
            raise MethodFailed(how) from None
        except BaseException:  # such as KeyboardInterrupt
            lent.kill()
            raise
        with self._lock:
            self._idle.append(lent)
        self.close(MOST_PROCESSES)

    def _taken(self, call: MethodCall) -> _Child:
        """The latest process that waits for calls of this method, or a new one."""
        with self._lock:
            found = next((each for each in reversed(self._idle) if each.place == _place(call)), None)
            if found is not None:
                self._idle.remove(found)
        if found is not None:
            if found.channel.is_quiet() and found.process.poll() is None:
                found.phase = _LOADED
                return found
            # Ended, or spoilt by what the method had started, after its answer: no fault of this call.
            found.kill()
        mark = "methods" if call.call in SHIPPED else call.call
        return _Child(_place(call), self._output, f"[{mark}]" if self._marked else "")


def _understood(reply: child.Message, expected: int) -> dict[str, Any]:
    """What a reply says, or the error that it stands for."""
    note = reply.note
    if reply.kind == child.NONE:
        raise Unsolved(**note)
    if reply.kind == child.FAILED:
        raise MethodFailed(**note)
    if reply.kind == child.REFUSED:
        raise InputError([Problem(**each) for each in note["problems"]])
    if reply.kind != expected:
        raise MethodFailed(SPOILT)
    return note


def processes_kept(calls: Iterable[MethodCall]) -> int:
    """How many processes of methods a worker keeps that calls all of these."""
    return min(len({_place(call) for call in calls}), MOST_PROCESSES)


def _place(call: MethodCall) -> Hashable:
    return None if call.call in SHIPPED else (call.call, call.source)


class _Child:
    """One process that runs methods, by way of its keeper (`pipeline.methods.keeper`).

    Parameters
    ----------
    place : Hashable
        What it may be used for.
    output, mark
        As of `MethodProcess` and `pipeline.methods.keeper.main`.
    """

    def __init__(self, place: Hashable, output: int, mark: str) -> None:
        ours, theirs = socket.socketpair()
        self._lifeline, their_end = socket.socketpair()  # nothing is said there: it ends with this process
        ends = theirs.fileno(), their_end.fileno()
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}
        with theirs, their_end:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND, _HOME, *map(str, ends), mark],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment | ENVIRONMENT,
                pass_fds=ends,
                process_group=0,  # Ctrl-C is for the caller
            )
        self.place = place
        self.channel = child.Channel(ours)
        self.phase = _STARTED
        self._number = 0
        self.key: Hashable = self  # of no table

    def ask(
        self, kind: int, call: MethodCall, note: dict[str, Any], *arrays: NDArray[Any], limit: float
    ) -> child.Message:
        """Begin a call, and hear the first reply."""
        self._number += 1
        self.channel.send(kind, self._number, {**note, "method": asdict(call)}, *arrays, limit=limit)
        return self.reply(limit)

    def reply(self, limit: float, most: int = 0) -> child.Message:
        """What is said next of the latest call."""
        message = self.channel.receive(limit=limit, most=most)
        if message.number != self._number:
            raise child.Spoilt
        return message

    def how_it_ended(self) -> str:
        """In words, once it does not answer any more."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return "its process closed the connection"
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name
        why = ", as when memory runs out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{why}"

    def close(self) -> None:
        """Let it end; end it if it does not."""
        self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End it, with all that came from it."""
        self.process.terminate()  # its keeper sees to that
        try:
            self.process.wait(2 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.channel.close()
        self._lifeline.close()
