"""Methods run in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from checkout import ROOT

from pipeline.methods import process
from pipeline.methods.child import FORKED
from pipeline.methods.contract import NoSolution
from pipeline.methods.keeper import LEFT
from pipeline.methods.loading import MethodCall
from pipeline.methods.process import SPOILT, Answer, MethodFailed, MethodProcess, TimeLimit, processes_kept
from sweeps.errors import InputError

SOURCE = """
import ctypes, os, random, stat, struct, sys, threading, time
import numpy as np
from pipeline import NoSolution, Solution
from threadpoolctl import threadpool_info

class Odd(Exception):
    def __str__(self):
        raise KeyError

def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, act="none", key=0):
    if act == "eight":
        return np.full(len(X), 8)
    objective = {
        "pid": os.getpid,
        "sum": X.sum,
        "draw": lambda: np.random.random() + random.random(),
        "words": lambda: hash("word") % 1000 + (np.seterr(all="raise")["under"] == "raise"),
        "threads": threads,
    }.get(act)
    if objective is not None:
        return Solution(np.zeros(len(X)), objective())
    if act == "print":
        print("something to say\\n\\x1b[2Jred" + "x" * 100_000)
        os.write(2, b"no end of line")
        sys.stderr.write("\\rlast\\n")
    if act == "raise":
        raise ValueError("no such value")
    if act == "odd":
        raise Odd
    if act == "leave":
        raise SystemExit("x" * 10**7)
    if act == "write":
        array = [X, must_link, weights[0]][key]
        array.setflags(write=True)
    if act == "none":
        raise NoSolution("links contradict")
    if act == "exit":
        os._exit(7)
    if act == "crash":
        os.kill(os.getpid(), 11)
    if act == "hang":
        time.sleep(600)
    if act == "hold":  # without releasing the interpreter's lock
        ctypes.PyDLL(None).sleep(600)
    if act == "fork":
        if os.fork() == 0:
            time.sleep(max(key, 0))
        elif key < 0:
            os._exit(5)
    if act == "daemon":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(1, b"daemon %d\\n" % os.getpid())
                time.sleep(600)
            os._exit(0)
        os.wait()
    if act == "die":  # with the connection open elsewhere
        if os.fork() == 0:
            time.sleep(600)
        os._exit(7)
    if act in ("junk", "half", "huge", "late", "reply"):
        note = b'[{"given": [], "objective": 1, "seconds": 0, "cpu_seconds": 0}, []]'
        text = {
            "junk": b"hello",
            "half": b"\\x00swp\\xff\\x02\\r\\n",
            "huge": struct.pack("!8sBQQQ", b"\\x00swp\\xff\\x02\\r\\n", 3, abs(key), 2, 2**40),
            "late": b"too late",
            "reply": struct.pack("!8sBQQQ", b"\\x00swp\\xff\\x02\\r\\n", 3, abs(key), len(note), 0) + note,
        }[act]
        (ours,) = (each for each in range(3, 1024) if is_socket(each))
        after = 0.2 if act == "late" else 0
        speak = lambda: (time.sleep(after), os.write(ours, text + b"x" * (act == "reply" and key > 0)))
        threading.Thread(target=speak).start() if after else speak()
        if act in ("half", "reply"):
            time.sleep(600)
    return np.arange(len(X)) % n_clusters

def threads():
    np.linalg.inv(np.eye(3))
    pools = [pool["num_threads"] for pool in threadpool_info()]
    return max(pools) if os.environ["OMP_NUM_THREADS"] == "1" else -1

def is_socket(number):
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False
"""
X = np.arange(8.0).reshape(4, 2)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def mine(act: str, *, key: float = 0, file: str = "mine", **settings: Any) -> MethodCall:
    return MethodCall("mine", f"{file}.py:cluster", SOURCE, {"act": act, "key": key}, **settings)


def solve(methods: MethodProcess, call: MethodCall, key: str = "X", X: Any = X, seed: int = 1) -> Answer:
    arguments: dict[str, Any] = {"n_clusters": 2, "must_link": np.array([[0, 1]]), "random_state": seed}
    arguments |= {"cannot_link": np.array([[0, 2]]), "weights": (np.ones(1), np.ones(1)), "accuracy": 0.9}
    return methods.solve(call, key, X, **arguments)


def objective(methods: MethodProcess, act: str, **more: Any) -> float:
    found = solve(methods, mine(act), **more).solution.objective
    assert found is not None
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("methods") / "log"


@pytest.fixture(scope="module")
def methods(log: Path) -> Iterator[MethodProcess]:
    with log.open("wb") as output, MethodProcess(output=output.fileno()) as running:
        yield running


def test_the_process_stays_and_the_table_is_sent_once(methods: MethodProcess) -> None:
    answer = solve(methods, mine("labels"))
    assert np.asarray(answer.solution.labels).tolist() == [0, 1, 0, 1]
    assert 0 < answer.seconds < 10
    assert 0 <= answer.cpu_seconds < 10
    first = int(objective(methods, "pid"))
    assert objective(methods, "sum", key="one") == X.sum()
    assert objective(methods, "sum", key="one", X=X + 1) == X.sum()  # not looked at again
    assert objective(methods, "sum", key="two", X=X[:, :1]) == X[:, 0].sum()
    assert objective(methods, "sum", key="one", X=X + 1) == (X + 1).sum()
    assert objective(methods, "pid") == first != os.getpid()
    assert solve(methods, mine("pid", file="other")).solution.objective != first
    os.kill(first, signal.SIGKILL)  # between two calls
    wait_until(lambda: not psutil.pid_exists(first))
    assert objective(methods, "pid") != first


def test_a_call_finds_nothing_that_another_left(methods: MethodProcess) -> None:
    drawn = [objective(methods, "draw", seed=seed) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    words = [objective(methods, "words") for _ in range(2)]  # with settings of numpy
    with MethodProcess() as others:
        assert words == [objective(others, "words")] * 2
        assert objective(others, "draw") == drawn[0]
    assert objective(methods, "threads") == 1


def test_what_a_method_prints_is_no_line_of_ours(
    methods: MethodProcess, log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = len(log.read_bytes())
    solve(methods, mine("print"))
    wait_until(lambda: b"last" in log.read_bytes()[before:])
    lines = log.read_bytes()[before:].decode().splitlines()
    assert lines[0] == "[mine.py:cluster] something to say"
    assert all(line.startswith("[mine.py:cluster] ") for line in lines)
    assert not any("\x1b" in line or len(line) > 2100 for line in lines)
    assert sum(map(len, lines)) > 100_000
    with MethodProcess() as others:
        solve(others, mine("print"))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "something to say\n" in printed.err


@pytest.mark.parametrize(
    ("act", "key", "cause"),
    [
        ("eight", 0, r"BadAnswer: labels: found 8, expected whole numbers from 0 to 1$"),
        ("leave", 0, r"SystemExit: xxx"),
        ("odd", 0, "Odd"),
        *(("write", key, "ValueError: cannot set WRITEABLE") for key in range(3)),
    ],
)
def test_what_is_no_answer_is_a_failure(methods: MethodProcess, act: str, key: int, cause: str) -> None:
    with pytest.raises(MethodFailed, match=f"^{cause}") as failed:
        solve(methods, mine(act, key=key))
    assert len(str(failed.value)) <= 500
    assert (failed.value.traceback == "") == (act == "eight")  # none of ours


def test_what_a_method_raises_comes_with_its_own_traceback(methods: MethodProcess) -> None:
    with pytest.raises(MethodFailed, match=r"^ValueError: no such value$") as failed:
        solve(methods, mine("raise"))
    lines = failed.value.traceback.splitlines()
    number = 1 + SOURCE.splitlines().index('        raise ValueError("no such value")')
    assert lines[:2] == ["Traceback (most recent call last):", f'  File "mine.py", line {number}, in cluster']
    assert lines[-1] == "ValueError: no such value"
    with pytest.raises(NoSolution, match=r"^links contradict$") as unsolved:
        solve(methods, mine("none"))
    assert 0 < unsolved.value.seconds < 10  # type: ignore[attr-defined]
    wrong = MethodCall("mine", "mine.py:clustr", SOURCE)
    for ask, kind in ((methods.load, InputError), (lambda call: solve(methods, call), MethodFailed)):
        with pytest.raises(kind, match=r"method 'mine': found no 'clustr' .*did you mean 'cluster'"):
            ask(wrong)
    with pytest.raises(MethodFailed, match="OSError: no licence") as failed:
        methods.load(MethodCall("mine", "mine.py:cluster", "raise OSError('no licence')"))
    assert failed.value.traceback.splitlines()[1] == '  File "mine.py", line 1, in <module>'


@pytest.mark.parametrize(
    ("act", "key", "how"),
    [
        ("exit", 0, "ended with exit code 7"),
        ("crash", 0, "was ended by SIGSEGV"),
        ("die", 0, "ended with exit code 7"),  # though a copy lives
        ("fork", -1, "ended with exit code 5"),  # where a copy goes on
    ],
)
def test_a_process_that_dies_is_a_failure_and_is_replaced(
    methods: MethodProcess, act: str, key: int, how: str
) -> None:
    before, started = objective(methods, "pid"), time.monotonic()
    with pytest.raises(MethodFailed, match=f"^its process {how}$"):
        solve(methods, mine(act, key=key))
    assert time.monotonic() - started < 20
    assert objective(methods, "pid") != before
    assert objective(methods, "sum") == X.sum()  # the table was sent again


@pytest.mark.parametrize("wait", [0, 0.2])
def test_only_the_process_that_was_called_answers(methods: MethodProcess, log: Path, wait: float) -> None:
    expected = [objective(methods, "draw", seed=seed) for seed in range(3)]
    before = log.read_text().count(FORKED)
    found = []
    for seed in range(3):
        assert np.asarray(solve(methods, mine("fork", key=wait)).solution.labels).tolist() == [0, 1, 0, 1]
        found.append(objective(methods, "draw", seed=seed))
    assert found == expected
    wait_until(lambda: log.read_text().count(FORKED) == before + 3)


def test_what_is_written_into_the_connection_is_no_answer(methods: MethodProcess) -> None:
    pid = int(objective(methods, "pid"))
    for act, number in (("junk", 0), *(("huge", number) for number in range(3))):
        with pytest.raises(MethodFailed, match=f"^{SPOILT}$"):  # one of them has the number of the call
            solve(methods, mine(act, key=number))
    assert not psutil.pid_exists(pid)
    # a reply in due form: of another call, and of this one with more after it
    for number in (-99, 1):
        with MethodProcess() as others, pytest.raises(MethodFailed, match=f"^{SPOILT}$"):
            solve(others, mine("reply", key=number, time_limit=5.0))
    solve(methods, mine("late"))
    time.sleep(0.3)
    assert objective(methods, "sum") == X.sum()  # what came after an answer spoils no other call


@pytest.mark.parametrize("act", ["hang", "hold", "half"])
def test_a_call_that_hangs_ends_at_its_limit(methods: MethodProcess, act: str) -> None:
    pid, started = int(objective(methods, "pid")), time.monotonic()
    with pytest.raises(TimeLimit, match=r"longer than its time limit of 0.2 s"):
        solve(methods, mine(act, time_limit=0.2))
    assert time.monotonic() - started < 20
    assert not psutil.pid_exists(pid)
    assert objective(methods, "sum") == X.sum()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux")
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_daemons_of_a_method_end_with_it(tmp_path: Path, end: str) -> None:
    output = tmp_path / "log"
    with output.open("wb") as log, MethodProcess(output=log.fileno()) as methods:
        solve(methods, mine("daemon"))
        wait_until(lambda: output.read_text().endswith("\n"))
        daemon = psutil.Process(int(output.read_text().split()[-1]))
        assert output.read_text() == f"[mine.py:cluster] daemon {daemon.pid}\n"
        if end == "killed":
            with pytest.raises(TimeLimit):
                solve(methods, mine("hang", time_limit=0.2))
            daemon.wait(10)
    assert not daemon.is_running()
    assert output.read_text().count(LEFT) == (end == "closed")


def test_threads_call_at_the_same_time(methods: MethodProcess) -> None:
    def one(number: int) -> bool:
        table = np.full((4, 2), float(number % 5))
        return objective(methods, "sum", key=str(number % 5), X=table) == 8 * (number % 5)

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(one, range(100)))


def test_start_and_imports_have_a_limit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = f"import time\ntime.sleep(0.5)\n{SOURCE}"
    with MethodProcess() as methods:
        assert solve(methods, MethodCall("a", "a.py:cluster", slow, {"act": "sum"}, 0.4)).seconds < 0.4
    monkeypatch.setattr(process, "START_LIMIT", 1.5)
    with MethodProcess() as methods:
        stuck = MethodCall("stuck", "stuck.py:cluster", "import time\ntime.sleep(600)\n")
        with pytest.raises(MethodFailed, match=r"^(not imported|its process did not start) within 1.5 s$"):
            solve(methods, stuck)


def test_only_so_many_processes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_PROCESSES", 2)

    def pid(file: int) -> int:
        return int(solve(methods, mine("pid", file=f"a{file}")).solution.objective or 0)

    with MethodProcess() as methods:
        turns = [[pid(file) for file in range(2)] for _ in range(2)]
        assert turns[0] == turns[1]  # methods that take turns start once each
        last = pid(2)
        assert [psutil.pid_exists(each) for each in (*turns[0], last)] == [False, True, True]
    assert not any(map(psutil.pid_exists, (*turns[0], last)))
    monkeypatch.setattr(process, "MOST_PROCESSES", 16)
    calls = [MethodCall("one", "ward"), MethodCall("two", "k-means")]
    calls += [mine("sum", file=f"a{each}") for each in (0, 1, 2, 0)]
    assert processes_kept(calls) == 4
    assert processes_kept([mine("sum", file=f"a{each}") for each in range(99)]) == 16


PARENT = """
import sys, threading, time
sys.path[:0] = {paths!r}
import test_process as tests
methods = tests.MethodProcess()
print(int(tests.objective(methods, "pid")), flush=True)
threading.Thread(target=tests.solve, args=(methods, tests.mine({act!r})), daemon=True).start()
time.sleep(600)
"""


@pytest.mark.parametrize(
    "act", ["hang", pytest.param("hold", marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux"))]
)
def test_no_process_outlives_its_parent(act: str) -> None:
    paths = [str(ROOT), str(ROOT / "tests" / "helpers"), str(Path(__file__).parent)]
    code = PARENT.format(paths=paths, act=act)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        time.sleep(0.3)  # the call is under way
        assert child.is_running()
        parent.kill()
        parent.wait()
        child.wait(20)
