"""Methods run in processes of their own, which may hang, crash and print without harm."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.child import BEGUN, FAILED, LOAD, NONE, REFUSED, SOLVE, TABLE
from pipeline.methods.contract import Links, NoSolution, Solution, Weights
from pipeline.methods.loading import MethodCall
from sweeps.methods import SHIPPED

START_LIMIT = 300.0
"""Seconds for a process to start and a method to be imported: a shared filesystem may be slow."""

MOST_PROCESSES = 16
"""Kept at a time: one for all shipped methods, one for each other method that was called.

Calls of the methods of a sweep take turns: with one process too few, most of them start one again, in 0.1 s
with NumPy alone and 1 s with scikit-learn. A call of a process that is kept takes 0.4 ms.
"""

PROCESS_BYTES = 115 * 2**20
"""Memory of a process whose method imports scikit-learn, measured; 20 MiB with numpy alone."""

PATIENCE = 2.0
"""Seconds for a process to end by itself."""

ENVIRONMENT = {
    **dict.fromkeys(
        (
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "BLIS_NUM_THREADS",
            "VECLIB_MAXIMUM_THREADS",
            "NUMEXPR_NUM_THREADS",
        ),
        "1",
    ),
    "PYTHONHASHSEED": "0",  # a method may iterate over a set of words
}

_STDERR = 2
_HOME = str(Path(__file__).resolve().parents[2])
# -P: neither a script of the working directory nor one beside ours is imported in place of a package.
_COMMAND = (
    "import sys; home = sys.argv[1]; home in sys.path or sys.path.insert(0, home); "
    "from pipeline.methods.child import main; main(*map(int, sys.argv[2:]))"
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
        super().__init__(cause, traceback)
        self.cause = cause
        self.traceback = traceback

    def __str__(self) -> str:
        return self.cause


class TimeLimit(Exception):
    """A call took longer than it may, and was ended with its process.

    Parameters
    ----------
    seconds : float
        The limit.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"longer than its time limit of {self.seconds:g} s"


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
        super().__init__(reason)
        self.reason = reason
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds

    def __reduce__(self) -> tuple[type[Unsolved], tuple[str, float, float]]:
        return Unsolved, (self.reason, self.seconds, self.cpu_seconds)


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
    """Calls methods in other processes, one call at a time, for one thread.

    The processes live as long as this object and no longer than the process that made it, however that ends;
    what was killed is started again by the next call. All shipped methods share one, and each other method
    has its own, so that none sees what another has changed. Of more than `MOST_PROCESSES` the latest stay.

    Parameters
    ----------
    output : int
        Descriptor for what methods print; by default stderr of this process.
    start_limit : float
        Seconds for a process to start and a method to be imported.
    """

    def __init__(self, *, output: int = _STDERR, start_limit: float = START_LIMIT) -> None:
        self._output = output
        self._start_limit = start_limit
        self._children: dict[Hashable, _Child] = {}

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
        _, reply = self._begin(call, (LOAD, call))
        if reply[0] == REFUSED:
            raise reply[1]
        if reply[0] == FAILED:
            raise MethodFailed(*reply[1:])
        return str(reply[1])

    def solve(
        self,
        call: MethodCall,
        key: Hashable,
        X: NDArray[np.float64],
        *,
        n_clusters: int,
        must_link: Links,
        cannot_link: Links,
        weights: Weights,
        accuracy: float | None,
        random_state: int,
        global_seed: int | None = None,
    ) -> Answer:
        """Call a method once.

        Parameters
        ----------
        call : MethodCall
            The method, its options and its time limit.
        key : Hashable
            Of the table: `X` is sent only where it differs from the key before.
        X, n_clusters, must_link, cannot_link, weights, accuracy, random_state
            Arguments of the contract (`pipeline.methods.contract.Method`).
        global_seed : int, optional
            Of `random` and `numpy.random`; `random_state` unless given.

        Returns
        -------
        Answer
            The checked solution and its times.

        Raises
        ------
        Unsolved
            If the method raises `NoSolution`.
        MethodFailed
            If it raises anything else, cannot be loaded, returns what is no answer, or ends its process.
        TimeLimit
            If it takes longer than `call.time_limit`; start and imports are not counted.
        """
        arguments = {
            "n_clusters": n_clusters,
            "must_link": must_link,
            "cannot_link": cannot_link,
            "weights": weights,
            "accuracy": accuracy,
            "random_state": random_state,
        }
        seed = random_state if global_seed is None else global_seed
        child, reply = self._begin(call, (SOLVE, call, seed, arguments), table=(key, X))
        if reply[0] == BEGUN:
            answer = self._receive(call, child, call.time_limit)
            if answer is None:
                raise TimeLimit(call.time_limit)
            reply = answer
        if reply[0] == NONE:
            raise Unsolved(*reply[1:])
        if reply[0] == FAILED:
            raise MethodFailed(*reply[1:])
        if reply[0] == REFUSED:
            raise MethodFailed(f"InputError: {reply[1]}")
        return Answer(*reply[1:])

    def close(self) -> None:
        """End the processes."""
        while self._children:
            _, child = self._children.popitem()
            child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(
        self,
        call: MethodCall,
        message: tuple[Any, ...],
        table: tuple[Hashable, NDArray[np.float64]] | None = None,
    ) -> tuple[_Child, tuple[Any, ...]]:
        """Say something to the process of a method, and hear its first reply."""
        child = self._child(call)
        try:
            if table is not None:
                child.take(*table)
            child.connection.send(message)
        except OSError:
            self._gone(call, child)
        except BaseException:
            self._drop(call)
            raise
        reply = self._receive(call, child, self._start_limit)
        if reply is None:
            raise MethodFailed(f"not imported within {self._start_limit:g} s")
        return child, reply

    def _child(self, call: MethodCall) -> _Child:
        place = _place(call)
        child = self._children.pop(place, None)
        if child is not None and child.process.poll() is not None:
            child.close()  # ended between two calls, which is no fault of this one
            child = None
        if child is None:
            while len(self._children) >= MOST_PROCESSES:
                self._children.pop(next(iter(self._children))).close()
            child = _Child(self._output)
            self._children[place] = child
            if self._receive(call, child, self._start_limit) is None:
                raise MethodFailed(f"its process did not start within {self._start_limit:g} s")
        self._children[place] = child  # the last one is that of the latest call
        return child

    def _receive(self, call: MethodCall, child: _Child, limit: float) -> tuple[Any, ...] | None:
        """The next reply, or None where there is none in time, and the process is killed."""
        try:
            if not child.connection.poll(limit):
                self._drop(call)
                return None
            reply: tuple[Any, ...] = child.connection.recv()
        except (EOFError, OSError):
            self._gone(call, child)
        except BaseException:  # such as KeyboardInterrupt: its reply would be taken for that of the next call
            self._drop(call)
            raise
        return reply

    def _gone(self, call: MethodCall, child: _Child) -> NoReturn:
        how = child.how_it_ended()
        self._drop(call)
        raise MethodFailed(how) from None

    def _drop(self, call: MethodCall) -> None:
        self._children.pop(_place(call)).kill()


def processes_kept(calls: Iterable[MethodCall]) -> int:
    """How many processes of methods a worker keeps that calls all of these."""
    return min(len({_place(call) for call in calls}), MOST_PROCESSES)


def _place(call: MethodCall) -> Hashable:
    return None if call.call in SHIPPED else (call.call, call.source)


class _Child:
    """One process, and the two descriptors that lead to it."""

    def __init__(self, output: int) -> None:
        ours, theirs = socket.socketpair()
        their_end, self._lifeline = os.pipe()
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND, _HOME, str(theirs.fileno()), str(their_end)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment | ENVIRONMENT,
                pass_fds=(theirs.fileno(), their_end),
                process_group=0,  # Ctrl-C is for the parent, and a kill also for what a method started
            )
        except BaseException:
            ours.close()
            os.close(self._lifeline)
            raise
        finally:
            theirs.close()
            os.close(their_end)
        self.connection = Connection(ours.detach())
        self._key: Hashable = self  # of no table

    def take(self, key: Hashable, X: NDArray[np.float64]) -> None:
        """Have this table, if it is not the latest one."""
        if key != self._key:
            table = np.ascontiguousarray(X, dtype=np.float64)
            self.connection.send((TABLE, table.shape))
            self.connection.send_bytes(table.tobytes())
            self._key = key

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
        """Let it end; kill it if it does not."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End it, with all it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.connection.close()
        os.close(self._lifeline)
