"""Methods run in processes of their own."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from checkout import ROOT

from pipeline.methods import process
from pipeline.methods.child import FORKED
from pipeline.methods.contract import NoSolution, Solution
from pipeline.methods.keeper import LEFT
from pipeline.methods.loading import MethodCall
from pipeline.methods.process import (
    SPOILT,
    Answer,
    MethodFailed,
    MethodProcess,
    TimeLimit,
    Unsolved,
    processes_kept,
)
from sweeps.errors import InputError

SOURCE = """
import ctypes, os, random, stat, sys, time
import numpy as np
from pipeline import NoSolution, Solution

def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, act="none", key=0):
    if act == "eight":
        return np.full(len(X), 8)
    if act == "pid":
        return Solution(np.zeros(len(X)), os.getpid())
    if act == "sum":
        return Solution(np.zeros(len(X)), X.sum())
    if act == "threads":
        from threadpoolctl import threadpool_info
        np.linalg.inv(np.eye(3))
        pools = [pool["num_threads"] for pool in threadpool_info()]
        return Solution(np.zeros(len(X)), max(pools) if os.environ["OMP_NUM_THREADS"] == "1" else -1)
    if act == "draw":
        return Solution(np.zeros(len(X)), np.random.random() + random.random())
    if act == "words":
        return Solution(np.zeros(len(X)), hash("word") % 1000)
    if act == "print":
        print("something to say")
        os.write(2, b"and more\\n")
    if act == "raise":
        raise ValueError("no such value")
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
    if act in ("junk", "half", "huge", "late"):
        import struct, threading
        text = {
            "junk": b"hello",
            "half": b"\\x00swp\\xff\\x02\\r\\n",
            "huge": struct.pack("!8sBQQQ", b"\\x00swp\\xff\\x02\\r\\n", 3, key, 2, 2**40),
            "late": b"too late",
        }[act]
        (ours,) = (each for each in range(3, 1024) if is_socket(each))
        after = 0.3 if act == "late" else 0
        speak = lambda: (time.sleep(after), os.write(ours, text))
        threading.Thread(target=speak).start() if after else speak()
        if act == "half":
            time.sleep(600)
    return np.arange(len(X)) % n_clusters

def is_socket(number):
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False
"""
PRINTS = """
import os, sys

def f(X, *links, **more):
    print("2026-01-01 00:00:00 INFO all is well\\n\\x1b[2Jred" + "x" * 100_000)
    os.write(2, b"no end of line")
    sys.stderr.write("\\rlast\\n")
    return [0, 0, 0, 0]
"""
X = np.arange(8.0).reshape(4, 2)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def mine(act: str, *, key: float = 0, **settings: Any) -> MethodCall:
    return MethodCall("mine", "mine.py:cluster", SOURCE, {"act": act, "key": key}, **settings)


def solve(methods: MethodProcess, call: MethodCall, key: str = "X", X: Any = X, **changed: Any) -> Answer:
    empty = np.empty((0, 2), dtype=np.int64)
    arguments: dict[str, Any] = {"n_clusters": 2, "must_link": empty, "cannot_link": empty}
    arguments |= {"weights": (np.empty(0), np.empty(0)), "accuracy": 0.9, "random_state": 1}
    return methods.solve(call, key, X, **arguments | changed)


def objective(answer: Answer) -> float:
    assert answer.solution.objective is not None
    return answer.solution.objective


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("methods") / "log"


@pytest.fixture(scope="module")
def methods(log: Path) -> Iterator[MethodProcess]:
    with log.open("wb") as output, MethodProcess(output=output.fileno()) as running:
        yield running


def test_a_call_is_answered(methods: MethodProcess) -> None:
    answer = solve(methods, mine("labels"))
    assert isinstance(answer.solution, Solution)
    assert np.asarray(answer.solution.labels).tolist() == [0, 1, 0, 1]
    assert 0 < answer.seconds < 10
    assert 0 <= answer.cpu_seconds < 10


def test_the_process_stays_and_the_table_is_sent_once(
    methods: MethodProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = objective(solve(methods, mine("pid")))
    assert first != os.getpid()
    assert objective(solve(methods, mine("sum"), key="one", X=X)) == X.sum()
    assert objective(solve(methods, mine("sum"), key="one", X=X + 1)) == X.sum()  # not looked at again
    assert objective(solve(methods, mine("sum"), key="two", X=X[:, :1])) == X[:, 0].sum()
    assert objective(solve(methods, mine("sum"), key="one", X=X + 1)) == (X + 1).sum()
    assert objective(solve(methods, mine("pid"))) == first


def test_another_method_has_another_process(methods: MethodProcess) -> None:
    other = MethodCall("other", "other.py:cluster", SOURCE, {"act": "pid"})
    assert objective(solve(methods, other)) != objective(solve(methods, mine("pid")))


def test_global_generators_and_words_go_by_the_call(methods: MethodProcess) -> None:
    drawn = [objective(solve(methods, mine("draw"), random_state=seed)) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    words = objective(solve(methods, mine("words")))
    with MethodProcess() as others:
        assert objective(solve(others, mine("words"))) == words
        assert objective(solve(others, mine("draw"))) == drawn[0]


def test_one_thread_is_all_there_is(methods: MethodProcess) -> None:
    assert objective(solve(methods, mine("threads"))) == 1


def test_what_a_method_prints_stays_out_of_the_way(
    methods: MethodProcess, log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    solve(methods, mine("print"))
    wait_until(
        lambda: (
            {"[mine.py:cluster] something to say", "[mine.py:cluster] and more"}
            <= {*log.read_text().splitlines()}
        )
    )
    with MethodProcess() as others:
        solve(others, mine("print"))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "something to say\n" in printed.err


def test_no_solution_is_an_answer(methods: MethodProcess) -> None:
    with pytest.raises(NoSolution, match=r"^links contradict$") as unsolved:
        solve(methods, mine("none"))
    again = pickle.loads(pickle.dumps(unsolved.value))
    assert isinstance(again, Unsolved)
    assert str(again) == "links contradict"
    assert (again.seconds, again.cpu_seconds) == (unsolved.value.seconds, unsolved.value.cpu_seconds)


def test_what_a_method_raises_comes_with_its_own_traceback(methods: MethodProcess) -> None:
    with pytest.raises(MethodFailed, match=r"^ValueError: no such value$") as failed:
        solve(methods, mine("raise"))
    lines = failed.value.traceback.splitlines()
    assert lines[:2] == ["Traceback (most recent call last):", '  File "mine.py", line 26, in cluster']
    assert lines[-1] == "ValueError: no such value"
    again = pickle.loads(pickle.dumps(failed.value))
    assert (again.cause, again.traceback) == (failed.value.cause, failed.value.traceback)


def test_what_is_no_answer_is_a_failure(methods: MethodProcess) -> None:
    with pytest.raises(MethodFailed, match=r"^BadAnswer: labels: found 8, expected 0 to 1$"):
        solve(methods, mine("eight"))


@pytest.mark.parametrize(
    ("act", "how"), [("exit", "ended with exit code 7"), ("crash", "was ended by SIGSEGV")]
)
def test_a_process_that_dies_is_a_failure_and_is_replaced(methods: MethodProcess, act: str, how: str) -> None:
    before = objective(solve(methods, mine("pid")))
    with pytest.raises(MethodFailed, match=f"^its process {how}$"):
        solve(methods, mine(act))
    assert objective(solve(methods, mine("pid"))) != before
    assert objective(solve(methods, mine("sum"))) == X.sum()  # the table was sent again


@pytest.mark.parametrize("wait", [0, 0.3])
def test_only_the_process_that_was_called_answers(methods: MethodProcess, log: Path, wait: float) -> None:
    expected = [solve(methods, mine("draw"), random_state=seed) for seed in range(4)]
    before = log.read_text().count(FORKED)
    found = []
    for seed in range(4):
        assert np.asarray(solve(methods, mine("fork", key=wait)).solution.labels).tolist() == [0, 1, 0, 1]
        found.append(solve(methods, mine("draw"), random_state=seed))
    assert list(map(objective, found)) == list(map(objective, expected))
    wait_until(lambda: log.read_text().count(FORKED) == before + 4)


def test_a_copy_that_goes_on_where_the_process_ends_is_no_answer(methods: MethodProcess) -> None:
    with pytest.raises(MethodFailed, match=r"^its process ended with exit code 5$"):
        solve(methods, mine("fork", key=-1))


@pytest.mark.parametrize("act", ["junk", "huge"])
def test_what_is_written_into_the_connection_is_no_answer(methods: MethodProcess, act: str) -> None:
    pid = int(objective(solve(methods, mine("pid"))))
    for number in range(3):  # one of them is the number of the call
        with pytest.raises(MethodFailed, match=f"^{SPOILT}$"):
            solve(methods, mine(act, key=number))
    assert not psutil.pid_exists(pid)
    assert objective(solve(methods, mine("sum"))) == X.sum()


def test_what_is_written_after_an_answer_spoils_no_other_call(methods: MethodProcess) -> None:
    solve(methods, mine("late"))
    time.sleep(0.5)
    assert objective(solve(methods, mine("sum"))) == X.sum()


def test_half_a_reply_does_not_outlast_the_limit(methods: MethodProcess) -> None:
    started = time.monotonic()
    with pytest.raises(TimeLimit):
        solve(methods, mine("half", time_limit=0.3))
    assert time.monotonic() - started < 20


def test_a_death_is_noticed_at_once_though_a_copy_lives(methods: MethodProcess) -> None:
    started = time.monotonic()
    with pytest.raises(MethodFailed, match=r"^its process ended with exit code 7$"):
        solve(methods, mine("die"))
    assert time.monotonic() - started < 20


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
        table = np.full((4, 2), float(number))
        return objective(solve(methods, mine("sum"), key=str(number % 5), X=table % 5)) == 8 * (number % 5)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(200)))


def test_a_copy_of_the_caller_has_processes_of_its_own(methods: MethodProcess) -> None:
    pid = int(objective(solve(methods, mine("pid"))))
    heard, said = os.pipe()
    copy = os.fork()
    if copy == 0:
        with suppress(BaseException):
            other = int(objective(solve(methods, mine("pid"))))
            os.write(said, f"{other}".encode())
            methods.close()
        os._exit(0)
    os.close(said)
    with os.fdopen(heard) as answer:
        assert int(answer.read()) != pid
    os.waitpid(copy, 0)
    assert int(objective(solve(methods, mine("pid")))) == pid


def test_what_is_printed_is_no_line_of_ours(methods: MethodProcess, log: Path) -> None:
    before = len(log.read_bytes())
    solve(methods, MethodCall("p", "p.py:f", PRINTS))
    wait_until(lambda: b"last" in log.read_bytes()[before:])
    lines = log.read_bytes()[before:].decode().splitlines()
    assert all(line.startswith("[p.py:f] ") for line in lines)
    assert not any("\x1b" in line or len(line) > 2100 for line in lines)
    assert sum(map(len, lines)) > 100_000


@pytest.mark.parametrize("act", ["hang", "hold"])
def test_a_call_that_hangs_ends_at_its_limit(methods: MethodProcess, act: str) -> None:
    pid = int(objective(solve(methods, mine("pid"))))
    started = time.monotonic()
    with pytest.raises(TimeLimit, match=r"longer than its time limit of 0.2 s"):
        solve(methods, mine(act, time_limit=0.2))
    assert time.monotonic() - started < 30
    assert not psutil.pid_exists(pid)
    assert objective(solve(methods, mine("sum"))) == X.sum()


def test_start_and_imports_have_a_limit_of_their_own() -> None:
    slow = MethodCall("slow", "slow.py:cluster", f"import time\ntime.sleep(0.5)\n{SOURCE}", {"act": "sum"})
    with MethodProcess() as methods:
        answer = solve(methods, MethodCall("slow", slow.call, slow.source, slow.options, time_limit=0.4))
        assert answer.seconds < 0.4
    with MethodProcess(start_limit=3) as methods:
        stuck = MethodCall("stuck", "stuck.py:cluster", "import time\ntime.sleep(600)\n")
        with pytest.raises(MethodFailed, match=r"^not imported within 3 s$"):
            solve(methods, stuck)


def test_a_process_killed_between_two_calls_is_replaced(methods: MethodProcess) -> None:
    pid = int(objective(solve(methods, mine("pid"))))
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait(10) if psutil.pid_exists(pid) else None
    assert objective(solve(methods, mine("pid"))) != pid


def test_loading_says_what_is_wrong(methods: MethodProcess) -> None:
    assert methods.load(mine("sum")) == ""
    assert methods.load(MethodCall("a", "sklearn.cluster:KMeans")).startswith("scikit-learn ")
    with pytest.raises(InputError, match="did you mean 'cluster'"):
        methods.load(MethodCall("mine", "mine.py:clustr", SOURCE))
    with pytest.raises(MethodFailed, match="InputError: method 'mine': found no 'clustr'"):
        solve(methods, MethodCall("mine", "mine.py:clustr", SOURCE))
    with pytest.raises(MethodFailed, match="OSError: no licence"):
        methods.load(MethodCall("mine", "mine.py:cluster", "raise OSError('no licence')"))


def asked_for_its_pid(each: int) -> MethodCall:
    return MethodCall("a", f"a{each}.py:cluster", SOURCE, {"act": "pid"})


def test_methods_that_take_turns_start_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Counted(process._Child):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            started.append(self.process.pid)

    monkeypatch.setattr(process, "_Child", Counted)
    with MethodProcess() as methods:
        turns = [
            [int(objective(solve(methods, asked_for_its_pid(each)))) for each in range(6)] for _ in range(3)
        ]
    assert len(started) == len(set(turns[0])) == 6
    assert turns == [turns[0]] * 3


def test_only_so_many_processes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_PROCESSES", 2)
    with MethodProcess() as methods:
        pids = [int(objective(solve(methods, asked_for_its_pid(each)))) for each in range(3)]
        assert [psutil.pid_exists(pid) for pid in pids] == [False, True, True]
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_processes_are_counted_by_what_they_share() -> None:
    shipped = [MethodCall("one", "ward"), MethodCall("two", "k-means")]
    own = [asked_for_its_pid(each) for each in range(3)]
    assert processes_kept([]) == 0
    assert processes_kept([*shipped, *own, MethodCall("again", own[0].call, SOURCE)]) == 4
    assert processes_kept([asked_for_its_pid(each) for each in range(99)]) == process.MOST_PROCESSES


PARENT = """
import sys, threading, time
sys.path[:0] = {paths!r}
import test_process as tests
methods = tests.MethodProcess()
print(int(tests.objective(tests.solve(methods, tests.mine("pid")))), flush=True)
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
