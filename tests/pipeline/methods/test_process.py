"""Methods run in separate processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from checkout import ROOT
from processes.sweeping import wait_until

from sweep_clustering.pipeline.methods import process
from sweep_clustering.pipeline.methods.child import FORKED, Kind
from sweep_clustering.pipeline.methods.contract import MergedLinks, NoSolution
from sweep_clustering.pipeline.methods.keeper import LEFTOVER_WARNING
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.methods.process import (
    SPOILT,
    Answer,
    MethodFailed,
    MethodProcess,
    TimeLimit,
    check,
    processes_kept,
)
from sweep_clustering.sweeps.errors import InputError

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux")
# A method that does what it is told, and whose objective is what it is asked for.
SOURCE = """
import ctypes, os, random, struct, sys, threading, time
from pathlib import Path
import numpy as np
from sweep_clustering import NoSolution, Solution
from threadpoolctl import threadpool_info

class Odd(Exception):
    def __str__(self):
        raise KeyError

def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, act="", value="None"):
    names = {**globals(), **locals()}
    exec(act, names)
    return Solution(np.arange(len(X)) % n_clusters, eval(value, names))

def reply(kind, number, note, size, rest=b""):
    return struct.pack("!8sBQQQ", b"\\x00swp\\xff\\x02\\r\\n", kind, number, len(note), size) + note + rest

def write(text):
    (ours,) = (each for each in range(3, 1024) if Path(f"/dev/fd/{each}").is_socket())
    os.write(ours, text)
"""
X = np.arange(8.0).reshape(4, 2)
HANG = "time.sleep(600)"
HOLD = "ctypes.PyDLL(None).sleep(600)"  # the interpreter's lock is not released
LATE = "longer than its time limit of 0.2 s"
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"daemon %d\\n" % os.getpid())
        time.sleep(600)
    os._exit(0)
os.wait()
"""
NOTE = b'[{"given": [], "objective": 1, "seconds": 0, "cpu_seconds": 0}, []]'


def own_method(act: str = "", *, value: str = "None", file: str = "mine", **settings: Any) -> MethodCall:
    return MethodCall("mine", f"{file}.py:cluster", SOURCE, {"act": act, "value": value}, **settings)


def solve(methods: MethodProcess, call: MethodCall, key: str = "X", X: Any = X, seed: int = 1) -> Answer:
    links = MergedLinks(np.array([[0, 1]]), np.array([[0, 2]]), (np.ones(1), np.ones(1)))
    return methods.solve(call, key, X, n_clusters=2, links=links, accuracy=0.9, random_state=seed)


def ask(methods: MethodProcess, value: str, file: str = "mine", **more: Any) -> float:
    return solve(methods, own_method(value=value, file=file), **more).solution.objective  # type: ignore[return-value]


PID, SUM, DRAW = "os.getpid()", "X.sum()", "np.random.random() + random.random()"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("methods") / "log"


@pytest.fixture(scope="module")
def methods(log: Path) -> Iterator[MethodProcess]:
    with log.open("wb") as output, MethodProcess(output=output.fileno()) as running:
        yield running


def test_the_process_stays_and_the_table_is_sent_once(methods: MethodProcess) -> None:
    answer = solve(methods, own_method())
    assert np.asarray(answer.solution.labels).tolist() == [0, 1, 0, 1]
    assert 0 < answer.seconds < 10
    assert 0 <= answer.cpu_seconds < 10
    first = int(ask(methods, PID))
    assert ask(methods, SUM, key="one") == X.sum()
    assert ask(methods, SUM, key="one", X=X + 1) == X.sum()  # not looked at again
    assert ask(methods, SUM, key="two", X=X[:, :1]) == X[:, 0].sum()
    assert ask(methods, SUM, key="one", X=X + 1) == (X + 1).sum()
    assert ask(methods, PID) == first != os.getpid()
    assert ask(methods, PID, file="other") != first
    os.kill(first, signal.SIGKILL)  # between two calls
    wait_until(lambda: not psutil.pid_exists(first))
    assert ask(methods, PID) != first


def test_a_call_finds_nothing_that_another_left(methods: MethodProcess) -> None:
    drawn = [ask(methods, DRAW, seed=seed) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    state = "hash('word') % 1000 + (np.seterr(all='raise')['under'] == 'raise')"
    states = [ask(methods, state) for _ in range(2)]
    with MethodProcess() as other_methods:
        assert states == [ask(other_methods, state)] * 2
        assert ask(other_methods, DRAW) == drawn[0]
    assert ask(methods, "max(pool['num_threads'] for pool in threadpool_info())") == 1
    assert ask(methods, "int(os.environ['OMP_NUM_THREADS'])") == 1


def test_what_a_method_prints_is_no_line_of_ours(methods: MethodProcess, log: Path) -> None:
    before = len(log.read_bytes())
    print_it = r"print('something to say\n\x1b[2Jred' + 'x' * 100_000); os.write(2, b'no end of line'); "
    print_it += r"sys.stderr.write('\rlast\n')"
    solve(methods, own_method(print_it))
    wait_until(lambda: b"last" in log.read_bytes()[before:])
    lines = log.read_bytes()[before:].decode().splitlines()
    assert lines[0] == "[mine.py:cluster] something to say"
    assert all(line.startswith("[mine.py:cluster] ") for line in lines)
    assert not any("\x1b" in line or len(line) > 2100 for line in lines)
    assert sum(map(len, lines)) > 100_000


def test_what_is_no_answer_is_a_failure_with_a_traceback_of_its_own(methods: MethodProcess) -> None:
    parts = ("X", "must_link", "weights[0]")
    for act, cause in (
        ("raise SystemExit('x' * 10**7)", "SystemExit: xxx"),
        ("raise Odd", "Odd"),
        *((f"{argument}.setflags(write=True)", "ValueError: cannot set WRITEABLE") for argument in parts),
        ("raise ValueError('no such value')", "ValueError: no such value$"),
    ):
        with pytest.raises(MethodFailed, match=f"^{cause}") as failed:
            solve(methods, own_method(act))
        assert len(str(failed.value)) <= 500
        assert failed.value.traceback
    lines = failed.value.traceback.splitlines()
    number = 1 + SOURCE.splitlines().index("    exec(act, names)")
    assert lines[:2] == ["Traceback (most recent call last):", f'  File "mine.py", line {number}, in cluster']
    assert lines[-1] == "ValueError: no such value"
    with pytest.raises(MethodFailed, match=r"^BadAnswer: objective: found inf, expected a finite") as failed:
        solve(methods, own_method(value="np.inf"))
    assert failed.value.traceback == ""  # none of ours
    with pytest.raises(NoSolution, match=r"^links contradict$") as unsolved:
        solve(methods, own_method("raise NoSolution('links contradict')"))
    assert 0 < unsolved.value.seconds < 10  # type: ignore[attr-defined]
    wrong = MethodCall("mine", "mine.py:clustr", SOURCE)
    for ask_it, kind in ((methods.load, InputError), (lambda call: solve(methods, call), MethodFailed)):
        with pytest.raises(kind, match=r"method 'mine': found no 'clustr' .*did you mean 'cluster'"):
            ask_it(wrong)
    with pytest.raises(MethodFailed, match="OSError: no licence") as failed:
        methods.load(MethodCall("mine", "mine.py:cluster", "raise OSError('no licence')"))
    assert failed.value.traceback.splitlines()[1] == '  File "mine.py", line 1, in <module>'


@pytest.mark.parametrize(
    ("act", "how"),
    [
        ("os._exit(7)", "its process ended with exit code 7"),
        ("os.kill(os.getpid(), 11)", "its process was ended by SIGSEGV"),
        ("os.fork() or time.sleep(600); os._exit(7)", "its process ended with exit code 7"),  # a copy lives
        ("os.fork() and os._exit(5)", "its process ended with exit code 5"),  # a copy goes on there
        (HANG, LATE),
        (HOLD, LATE),
        (f"write(b'\\x00swp\\xff\\x02'); {HANG}", LATE),
    ],
)
def test_a_process_that_dies_or_hangs_is_ended_and_replaced(
    methods: MethodProcess, act: str, how: str
) -> None:
    before, started = int(ask(methods, PID)), time.monotonic()
    with pytest.raises(TimeLimit if how == LATE else MethodFailed, match=f"^{how}$"):
        solve(methods, own_method(act, **{"time_limit": 0.2} if how == LATE else {}))
    assert time.monotonic() - started < 20
    assert not psutil.pid_exists(before)
    assert ask(methods, SUM) == X.sum()  # the table was sent again


def test_only_the_process_that_was_called_answers(methods: MethodProcess, log: Path) -> None:
    expected = [ask(methods, DRAW, seed=seed) for seed in range(4)]
    before, draws = log.read_text().count(FORKED), []
    for seed in range(4):
        answer = solve(methods, own_method(f"os.fork() or time.sleep({seed % 2 / 5})")).solution
        assert np.asarray(answer.labels).tolist() == [0, 1, 0, 1]
        draws.append(ask(methods, DRAW, seed=seed))
    assert draws == expected
    wait_until(lambda: log.read_text().count(FORKED) == before + 4)


def test_what_is_written_into_the_connection_is_no_answer(methods: MethodProcess, tmp_path: Path) -> None:
    pid = int(ask(methods, PID))
    # one of the huge replies has the number of the call
    for text in ("b'hello'", *(f"reply({Kind.SOLUTION:d}, {number}, b'[]', 2**40)" for number in range(3))):
        with pytest.raises(MethodFailed, match=f"^{SPOILT}$"):
            solve(methods, own_method(f"write({text})"))
    assert not psutil.pid_exists(pid)
    # a reply in due form: of another call, and of this one with more after it
    for text in (
        f"reply({Kind.SOLUTION:d}, 99, {NOTE!r}, 0)",
        f"reply({Kind.SOLUTION:d}, 1, {NOTE!r}, 0, b'x')",
    ):
        with MethodProcess() as other_methods, pytest.raises(MethodFailed, match=f"^{SPOILT}$"):
            solve(other_methods, own_method(f"write({text}); {HANG}", time_limit=5.0))
    written = tmp_path / "written"
    late = f"(time.sleep(0.2), write(b'too late'), Path({str(written)!r}).touch())"
    solve(methods, own_method(f"threading.Thread(target=lambda: {late}).start()"))
    wait_until(written.exists)
    assert ask(methods, SUM) == X.sum()  # bytes that came after an answer spoil no other call


@LINUX
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_daemons_of_a_method_end_with_it(tmp_path: Path, end: str) -> None:
    output = tmp_path / "log"
    with output.open("wb") as log, MethodProcess(output=log.fileno()) as methods:
        solve(methods, own_method(DAEMON))
        wait_until(lambda: output.read_text().endswith("\n"))
        daemon = psutil.Process(int(output.read_text().split()[-1]))
        assert output.read_text() == f"[mine.py:cluster] daemon {daemon.pid}\n"
        if end == "killed":
            with pytest.raises(TimeLimit):
                solve(methods, own_method(HANG, time_limit=0.2))
            daemon.wait(10)
    assert not daemon.is_running()
    assert output.read_text().count(LEFTOVER_WARNING) == (end == "closed")


def test_threads_call_at_the_same_time(methods: MethodProcess) -> None:
    with ThreadPoolExecutor(3) as pool:
        sums = pool.map(lambda n: ask(methods, SUM, key=str(n % 5), X=np.full((4, 2), n % 5)), range(100))
        assert list(sums) == [8 * (n % 5) for n in range(100)]


def test_start_and_imports_have_a_limit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, stuck = (f"import time\ntime.sleep({seconds})\n{SOURCE}" for seconds in (0.5, 600))
    with MethodProcess() as methods:
        assert solve(methods, MethodCall("a", "a.py:cluster", slow, {}, 0.4)).seconds < 0.4
        monkeypatch.setattr(process, "START_LIMIT", 1.5)
        with pytest.raises(MethodFailed, match=r"^(not imported|its process did not start) within 1.5 s$"):
            solve(methods, MethodCall("b", "b.py:cluster", stuck))


def test_only_so_many_processes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_PROCESSES", 2)
    with MethodProcess() as methods:
        turns = [[int(ask(methods, PID, file=file)) for file in ("one", "two")] for _ in range(2)]
        assert turns[0] == turns[1]  # methods that take turns start once each
        last = int(ask(methods, PID, file="three"))
        assert [psutil.pid_exists(pid) for pid in (*turns[0], last)] == [False, True, True]
    assert not any(map(psutil.pid_exists, (*turns[0], last)))
    monkeypatch.setattr(process, "MOST_PROCESSES", 16)
    calls = [MethodCall("one", "ward"), MethodCall("two", "k-means")]
    assert processes_kept([*calls, *(own_method(file=f"a{number}") for number in (0, 1, 2, 0))]) == 4
    assert processes_kept([own_method(file=f"a{number}") for number in range(99)]) == 16


PARENT = """
import sys, threading, time
sys.path[:0] = {paths!r}
import test_process as tests
methods = tests.MethodProcess()
print(int(tests.ask(methods, tests.PID)), flush=True)
threading.Thread(target=tests.solve, args=(methods, tests.own_method({act!r})), daemon=True).start()
time.sleep(600)
"""


@pytest.mark.parametrize("act", [HANG, pytest.param(HOLD, marks=LINUX)])
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


# What one call does to the table is not left to the next, although code that does not ask NumPy can write.

POKE = "ctypes.cast({0}.ctypes.data, ctypes.POINTER(ctypes.c_char))[8] = b'\\x7f'"
POKE_LATER = (
    f"threading.Thread(target=lambda: (time.sleep(0.2), exec({POKE.format('X')!r}, globals()))).start()"
)
POKE_BACK = f"old = X.copy(); {POKE.format('X')}; ctypes.memmove(X.ctypes.data, old.ctypes.data, X.nbytes)"
SVD = "from scipy.linalg import svd; svd(X.T, overwrite_a=True)"
QR = "from scipy.linalg import qr; qr(X.T, overwrite_a=True)"


@pytest.mark.parametrize(
    ("act", "name"),
    [
        (SVD, "X"),
        (QR, "X"),
        (POKE.format("X"), "X"),
        (f"{POKE.format('X')}; raise NoSolution('none')", "X"),
        (f"{POKE.format('X')}; raise ValueError('no')", r"X, .*; then ValueError: no$"),
        (POKE.format("must_link"), "must_link"),
        (POKE.format("cannot_link"), "cannot_link"),
        (f"{POKE.format('weights[0]').replace('[8]', '[0]')}", r"weights\[0\]"),
    ],
)
def test_a_call_that_writes_into_its_arguments_fails_and_the_next_has_the_true_table(
    methods: MethodProcess, act: str, name: str
) -> None:
    before = int(ask(methods, PID))
    with pytest.raises(MethodFailed, match=f"^wrote into {name}") as failed:
        solve(methods, own_method(act))
    assert "X.copy()" in failed.value.cause
    assert not psutil.pid_exists(before)
    assert ask(methods, SUM) == X.sum()


@pytest.mark.parametrize("act", ["X.shape = (2, 4)", "X.dtype = np.int64", "X.strides = (8, 8)"])
def test_what_a_call_does_to_the_array_is_not_seen_by_the_next(methods: MethodProcess, act: str) -> None:
    with suppress(MethodFailed):  # two labels for four samples
        solve(methods, own_method(act))
    assert ask(methods, "X[1].sum() + X.shape[0] * 100 + X.dtype.itemsize * 1000") == 8405
    assert ask(methods, SUM) == X.sum()


def test_what_writes_after_its_call_has_ended_changes_no_other_call(methods: MethodProcess) -> None:
    solve(methods, own_method(POKE_LATER))
    before = int(ask(methods, PID))
    time.sleep(0.5)
    assert ask(methods, SUM) == X.sum()
    assert int(ask(methods, PID)) != before


def test_a_table_that_is_as_it_was_after_a_call_is_good(methods: MethodProcess) -> None:
    before = int(ask(methods, PID))
    solve(methods, own_method(POKE_BACK))
    assert ask(methods, SUM) == X.sum()
    assert int(ask(methods, PID)) == before


def test_a_list_among_the_options_is_new_in_each_call(methods: MethodProcess) -> None:
    source = SOURCE.replace('value="None"):', 'value="None", some=()):\n    some.append(1)')
    call = MethodCall("mine", "mine.py:cluster", source, {"value": "len(some)", "some": []})
    assert [solve(methods, call).solution.objective for _ in range(2)] == [1.0, 1.0]


# Whether a method keeps its contract.


def test_a_method_that_keeps_its_contract_has_no_breach() -> None:
    report = check(own_method("import warnings; warnings.warn('no output of mine')"), "links")
    assert report.breaches == ()
    assert report.version == ""
    assert [(case.instance, case.clusters) for case in report.outcomes] == [("links", 3), ("no links", 3)]
    report = check(own_method("raise NoSolution('never')"), "links")
    assert report.breaches == ()
    assert {outcome.note for outcome in report.outcomes} == {"never"}
    # a method that uses nothing gets nothing
    counting = own_method(value="float(len(must_link) + (accuracy is not None))")
    for uses, objectives in (("nothing", [0.0]), ("links", [10.0, 1.0])):
        assert [case.objective for case in check(counting, uses).outcomes] == objectives  # type: ignore[arg-type]


def test_breaches_are_named() -> None:
    for act, value, kind, words, *limit in (
        ("", "time.time()", "not reproducible", "another answer"),
        ("", "np.inf", "no usable answer", "objective: found inf"),
        (POKE.format("X"), "None", "writes into its arguments", "wrote into X, which is read-only"),
        (POKE.format("weights[1]"), "None", "writes into its arguments", "wrote into weights[1]"),
        ("os.fork()", "None", "forks", "times: a process that the method forked came back"),
        ("os.fork() or time.sleep(99)", "None", "leaves processes running", "1 time: processes that"),
        ("len(must_link) or time.sleep(60)", "None", "too slow", "longer than its time limit of 0.2 s", 0.2),
    ):
        time_limit = limit[0] if limit else 2.0
        breaches = check(own_method(act, value=value, time_limit=time_limit), "links").breaches
        assert any(words in breach.cause for breach in breaches if breach.what == kind), kind
