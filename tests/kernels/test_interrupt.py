"""Ctrl-C ends kernels, whichever door of the main thread they were called by, and leaves nothing broken."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from checkout import ROOT
from processes.commandline import sweep

from sweep_clustering.kernels.choice import label_probabilities
from sweep_clustering.kernels.interrupt import (
    abandoned_threads,
    call,
    cpu_time,
    new_flag,
    run_interruptibly,
    shared_flag,
)
from sweep_clustering.kernels.problem.problem import build_problem
from sweep_clustering.kernels.search.sampling import Length, run_chain
from sweep_clustering.pipeline.fit.estimator import AnnotatedClustering


@contextmanager
def interrupt(after: float) -> Iterator[None]:
    """Send this process what Ctrl-C sends; the block is to end within two seconds of it."""
    began = time.monotonic()
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    assert after <= time.monotonic() - began < after + 2.0


X = np.random.default_rng(0).normal(size=(40_000, 100))
LINKS = np.random.default_rng(1).integers(20_000, size=(9000, 2))


@pytest.fixture(scope="module", autouse=True)
def _compiled_and_with_the_signal_as_python_has_it() -> Iterator[None]:
    """Restore the signal, which some libraries take at import and a shell may ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    AnnotatedClustering(2, confidence=True, restarts=1).fit(X[:10, :2], must_link=[[0, 1]])
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("n", "d", "how"),
    [
        (20_000, 10, {"n_clusters": 8, "model": "posterior", "accuracy": 0.8, "n_jobs": 2}),
        (40_000, 100, {"n_clusters": 8, "covariance": "full", "model": "conditional"}),
        (20_000, 100, {"n_clusters": 1000, "model": "unsupervised"}),
        (20_000, 10, {"n_clusters": 3, "covariance": "auto", "model": "conditional"}),
        (20_000, 10, {"n_clusters": 3, "confidence": True, "restarts": 1, "generations": 1}),
    ],
)
def test_a_fit_ends_and_the_estimator_fits_again(n: int, d: int, how: dict[str, Any]) -> None:
    estimator = AnnotatedClustering(**how, random_state=0)
    with interrupt(0.4), pytest.raises(KeyboardInterrupt):
        estimator.fit(X[:n, :d], must_link=LINKS)
    assert not hasattr(estimator, "labels_")
    again = estimator.set_params(n_clusters=2, restarts=2).fit(X[:60, :2], must_link=[[0, 1]])
    fresh = AnnotatedClustering(**how | {"n_clusters": 2, "restarts": 2}, random_state=0)
    assert again.objective_ == fresh.fit(X[:60, :2], must_link=[[0, 1]]).objective_


def test_chains_and_probabilities_end() -> None:
    problem = build_problem(X[:20_000, :30], n_clusters=6, model="unsupervised", covariance="full")
    labels = np.arange(20_000, dtype=np.int16) % 6
    with interrupt(0.3), pytest.raises(KeyboardInterrupt):
        run_chain(problem, labels, labels, Length(10**6, 1, 1), np.random.default_rng(0))
    with interrupt(0.3), pytest.raises(KeyboardInterrupt):
        sum(label_probabilities(problem, labels).sum() for _ in range(10**6))


def test_the_command_ends_with_130(tmp_path: Path) -> None:
    for thread in abandoned_threads:  # on a busy machine one may outlive the test before
        thread.join(60)
    table = tmp_path / "table.npy"
    np.save(table, X[:20_000, :10])
    with interrupt(0.3):  # before the first restart has a result
        result = sweep("fit", table, "-k", "20", "--model", "unsupervised", "--out", tmp_path / "labels")
    assert result.exit_code == 130, result.output
    assert [path.name for path in tmp_path.iterdir()] == ["table.npy"], result.output


def test_what_looks_at_no_flag_isabandoned_threads() -> None:
    """The caller goes on, as during a compilation, and the next kernel does not wait behind it."""
    state, release = SimpleNamespace(stop=new_flag()), threading.Event()
    with interrupt(0.1), pytest.raises(KeyboardInterrupt):
        call(lambda _: release.wait(20), (state,))
    assert state.stop[0] == 1
    assert abandoned_threads[-1].is_alive()
    assert call(lambda _: threading.current_thread().name, (SimpleNamespace(stop=new_flag()),)) == "kernels"
    assert abandoned_threads[-1].is_alive()
    release.set()
    abandoned_threads[-1].join(5)
    assert not abandoned_threads[-1].is_alive()


def test_results_errors_flags_and_time_come_through() -> None:
    flag = new_flag()
    with shared_flag(flag):
        assert new_flag() is flag
    assert new_flag() is not flag
    with pytest.raises(ZeroDivisionError):
        call(lambda x: 1 // x, (0,))
    began = cpu_time()
    assert call(sum, (range(5_000_000),)) == 12499997500000
    assert cpu_time() - began > 0.02
    first, second = (
        run_interruptibly(lambda: (new_flag(), threading.current_thread().name, new_flag())) for _ in "ab"
    )
    assert first[0] is first[2] is not second[0]
    assert first[1] == "kernels"
    flag[0] = 1
    with pytest.raises(KeyboardInterrupt):
        call(lambda _: None, (SimpleNamespace(stop=flag),))


LEAVING = """
import atexit, ctypes, os, signal, sys, threading
from types import SimpleNamespace
from sweep_clustering.kernels.interrupt import call, leave
atexit.register(print, "at exit")
threading.Timer(.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    call(ctypes.CDLL(None).sleep, ({seconds},))
except KeyboardInterrupt:
    {leaving}
"""


@pytest.mark.parametrize(("leaving", "seconds"), [("leave(130)", 60), ("sys.exit(130)", 2)])
def test_a_process_leaves_while_something_compiles(leaving: str, seconds: int) -> None:
    """`leave` ends it at once; otherwise it ends after the step of the compiler."""
    command = [sys.executable, "-c", LEAVING.format(leaving=leaving, seconds=seconds)]
    began = time.monotonic()
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    assert (time.monotonic() - began >= seconds) == (leaving != "leave(130)")
    assert process.returncode == 130
    assert process.stdout == "at exit\n"
    assert process.stderr == ""


def test_a_fork_has_a_thread_of_its_own() -> None:
    call(len, ("ab",))
    if not (child := os.fork()):
        os._exit(call(len, ("abc",)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
