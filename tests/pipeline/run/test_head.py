"""A run has a head that ends well, and a driver with any executor, batch length and interruption."""

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from urllib.request import urlopen

import psutil
import pytest
from cubes.writer import next_generation
from processes import sabotage
from processes.commandline import sweep
from processes.killing import reported_done
from processes.pseudo import Pseudo
from processes.sweeping import TINY, assert_same_bits, restarts_run, run, start, wait_until, write_spec
from rich.console import Console

from sweep_clustering.pipeline.cluster.profiles import Profile
from sweep_clustering.pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL
from sweep_clustering.pipeline.jobs.keys import job_queue
from sweep_clustering.pipeline.jobs.queues import (
    CommandFailed,
    ComputeClusterError,
    JobDetails,
    Queue,
    head_name,
)
from sweep_clustering.pipeline.run import head
from sweep_clustering.pipeline.run.head import Clock, End, display, step
from sweep_clustering.pipeline.run.ledger import Collector, Work
from sweep_clustering.pipeline.run.request import Options, Request, Selection, prepare
from sweep_clustering.pipeline.run.signals import StopSignal, stop_on_signal, uninterrupted
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.merge import CellResult
from sweep_clustering.pipeline.work.records import Results, Science, Solved, Span, Task
from sweep_clustering.pipeline.work.tasks import run_task
from sweep_clustering.pipeline.work.timing import Timing
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.schema import FAILED
from sweep_clustering.storage.files import LeaseLost, StorageError
from sweep_clustering.storage.runfolder.folder import (
    ENDED,
    REQUEUED,
    RUNNING,
    HeadRecord,
    Progress,
    RunFolder,
    read_failures,
)
from sweep_clustering.storage.runfolder.lease import STALE_AFTER, Cancelled, Lease, LeaseHeld, read_lease
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.inputs import Source
from sweep_clustering.sweeps.plan import AskedPath, Cell


def record_of(folder: Path) -> HeadRecord:
    return present(HeadRecord.read(RunFolder(folder / "tiny.zarr").last_run.head))


def submit(folder: Path) -> Any:
    (folder / "raw").mkdir(exist_ok=True)
    places = ("--results", folder, "--data-dir", folder / "raw")
    return sweep("submit", write_spec(folder), "--workers", 0, *places)


def test_a_run_is_recorded_from_its_begin_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[HeadRecord] = []

    def run(request: Request, record: HeadRecord, *_: object) -> End:
        records.extend((record, record_of(tmp_path)))
        return End(COMPLETE, "finished")

    monkeypatch.setattr(head, "_run", run)
    assert submit(tmp_path).exit_code == 0
    (record, record_on_disk), after = records, record_of(tmp_path)
    assert record == record_on_disk
    assert record.state == RUNNING
    assert record.restarts == 0
    assert record.spec == str((tmp_path / "tiny.toml").resolve())
    assert record.data_dir == str((tmp_path / "raw").resolve())
    assert after.state == ENDED
    assert after.how == "finished"
    # an unknown error is recorded and not hidden, nor is one of a full disk
    monkeypatch.setattr(head, "_run", Mock(side_effect=ZeroDivisionError("a fault")))
    assert isinstance(submit(tmp_path).exception, ZeroDivisionError)
    assert record_of(tmp_path).how == "ended by an error"

    def fill_disk(*_: object) -> End:
        monkeypatch.setattr(HeadRecord, "write", Mock(side_effect=StorageError(tmp_path, "room", "full")))
        raise ComputeClusterError("no worker for an hour")

    monkeypatch.setattr(head, "_run", fill_disk)
    ended = submit(tmp_path)
    assert ended.exit_code == INTERNAL
    assert "no worker for an hour" in ended.stderr


def test_a_run_without_workers_points_to_the_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "_run", Mock(side_effect=ComputeClusterError("no worker for an hour")))
    following = f"next: sweep doctor --workers 0 --results {tmp_path.resolve()}"
    assert submit(tmp_path).stderr.splitlines()[-1] == following
    status = sweep("status", tmp_path / "tiny.zarr")
    assert status.stderr.splitlines()[-1] == following
    assert "once its compute cluster has workers" in status.stdout
    monkeypatch.setattr(head, "_run", Mock(side_effect=StorageError(tmp_path, "room", "full")))
    assert "doctor" not in submit(tmp_path).stderr
    assert "doctor" not in sweep("status", tmp_path / "tiny.zarr").stderr


REFUSED = CommandFailed(["scontrol"], "Requested operation is presently disabled")
TERM, USR1 = StopSignal(signal.SIGTERM), StopSignal(signal.SIGUSR1)
BY_TERM, BY_USR1, AGAIN = "stopped by SIGTERM", "stopped by SIGUSR1", "resumes when its job starts again"


@pytest.mark.parametrize(
    ("error", "requeue", "end"),
    [
        (TERM, None, (143, ENDED, BY_TERM, "submit again to resume")),
        (TERM, Mock(), (143, REQUEUED, BY_TERM, AGAIN)),
        (USR1, Mock(), (138, REQUEUED, BY_USR1, AGAIN)),
        (USR1, Mock(side_effect=REFUSED), (138, ENDED, f"{BY_USR1}, and not queued again", "presently")),
        (Cancelled("by sweep cancel"), Mock(), (143, ENDED, "cancelled", "submit again to resume")),
        (ComputeClusterError("no worker"), Mock(), (INTERNAL, ENDED, "no worker", "no worker")),
    ],
)
@pytest.mark.parametrize("of", ["_run", "_lease"])
def test_what_ends_a_run_early_is_said_recorded_and_an_exit_code(
    of: str, error: Any, requeue: Any, end: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, state, how, words = end
    if requeue is not None:  # the head is a job of the queue at the end of its time
        requeue.reset_mock()
        monkeypatch.setenv("SLURM_JOB_ID", "5")
        monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
        monkeypatch.setenv("SLURM_JOB_NAME", head_name(RunFolder(tmp_path / "tiny.zarr")))
        monkeypatch.setattr(Queue, "details", Mock(return_value=JobDetails(restarts=2)))
        monkeypatch.setattr(Queue, "is_out_of_time", Mock(side_effect=[True]))  # asked once
        monkeypatch.setattr(Queue, "requeue", requeue)
    monkeypatch.setattr(head, of, Mock(side_effect=error))
    ended = submit(tmp_path)
    assert ended.exit_code == code
    assert words in ended.stderr
    is_again = requeue is not None and isinstance(error, StopSignal)
    assert requeue is None or [call.args for call in requeue.call_args_list] == [("5",)] * is_again
    if of == "_run":
        record = record_of(tmp_path)
        assert record.state == state
        assert record.how == how
        assert record.restarts == (0 if requeue is None else 2)


def test_a_finished_run(tiny_run: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, tmp_path: Path) -> None:
    spec = tiny_run / "tiny.toml"
    sweep = prepare(spec, results=tiny_run, data_dir=None)
    strict = Request(spec, sweep, Selection(), None, Options(tiny_run, strict=True))
    assert head._conclude(strict) == End(COMPLETE, "finished")
    assert "85 of 85 cells done" in caplog.text
    inputs = replace(sweep.inputs, skipped={"ecoli": ("not here", "nor there")})
    skipping = replace(strict, sweep=replace(sweep, inputs=inputs))
    assert head._conclude(skipping) == End(FAILED_CELLS, "finished")
    failed, second = (Cell("iris", None, 0.8, 75, replicate, "posterior") for replicate in (0, 1))
    monkeypatch.setattr(head, "failed_cells", lambda cube, plans: (failed,))
    assert head._conclude(strict) == End(FAILED_CELLS, "finished with failed cells")
    assert f'sweep why {sweep.cube} "{failed}"' in caplog.text
    # A cell that failed earlier is no matter of a run of others.
    alone = replace(strict, selection=Selection(cells=frozenset({second})))
    assert head._conclude(alone).code == COMPLETE
    # the queue is asked for another head, and may be silent
    profile = Profile("p", job_queue("slurm")(kind="slurm", cores=1, memory="1GB"), None)
    request = replace(strict, sweep=replace(sweep, cube=tmp_path / "tiny.zarr"), profile=profile)
    monkeypatch.setattr(Queue, "other_head", Mock(return_value="job 7 is its head"))
    assert head.run_head(request, Console()) == INTERNAL
    assert caplog.messages[-1] == "job 7 is its head"
    monkeypatch.setattr(Queue, "other_head", Mock(side_effect=REFUSED))
    monkeypatch.setattr(head, "_run", lambda *_: End(COMPLETE, "finished"))
    assert head.run_head(request, Console()) == COMPLETE


def test_a_head_waits_for_the_lease_of_a_dead_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "LEASE_SECONDS", 0.1)
    monkeypatch.setattr("sweep_clustering.storage.runfolder.lease.PATIENCE", 0.1)
    cube = tmp_path / "tiny.zarr"
    Lease.acquire(cube).release()
    file = RunFolder(cube).lease(1)
    record = json.loads(file.read_text())
    record |= {"released": False, "process": record["process"] | {"host": "far", "boot_id": "another"}}
    file.write_text(json.dumps(record))
    os.utime(file, (time.time() - STALE_AFTER + 1,) * 2)
    with pytest.raises(LeaseHeld), head._lease(cube, wait=False, on_lost=print):
        pass
    started = time.monotonic()
    with head._lease(cube, wait=True, on_lost=print) as lease:
        assert lease.number == 2
    assert time.monotonic() - started > 0.1


# Signals: raised at once, or held back while files are written.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_stops_at_once_or_when_a_write_has_ended(number: signal.Signals) -> None:
    writes = list[str]()

    def write() -> None:
        signal.raise_signal(number)
        writes.append("written")

    for held, expected in ((nullcontext, []), (uninterrupted, ["written"])):
        with pytest.raises(StopSignal) as caught, stop_on_signal(), held():
            write()
        assert caught.value.number == number
        assert writes == expected
        signal.raise_signal(number)  # nothing happens: another one would break off what ends the process


def test_a_second_signal_does_not_break_off_what_the_first_one_ends() -> None:
    closed = list[str]()

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
                signal.raise_signal(number)
            closed.append("workers")

    with pytest.raises(StopSignal, match="SIGTERM"), stop_on_signal():
        work()
    assert closed == ["workers"]


def test_a_signal_stops_after_one_that_got_lost() -> None:
    class Careless:
        def __del__(self) -> None:
            with suppress(StopSignal):
                signal.raise_signal(signal.SIGINT)

    def work() -> None:
        Careless()
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StopSignal, match="SIGTERM"), stop_on_signal():
        work()


def test_under_nohup_a_closed_terminal_stops_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signal(), uninterrupted():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


# Time left, and the ways to show it.


def test_the_time_left_starts_at_the_prediction_and_follows_the_pace() -> None:
    clock = Clock(workers=2)
    assert clock.seconds_left() is None
    clock.predict(100.0)
    assert clock.seconds_left() == pytest.approx(50.0, abs=0.1)
    clock.start_time, clock.finished_seconds = time.monotonic() - 50.0, 50.0  # half as fast as predicted
    assert clock.seconds_left() == pytest.approx(50.0 * (50.0 + 2.5) / 55.0, abs=0.1)
    clock.predict(0.0)
    assert clock.seconds_left() == 0.0


def collector(restarts: int, questions: int, cells: int) -> Any:
    """Return a ledger with so many restarts and questions left, and so many cells written."""
    remaining = {Cell: restarts, AskedPath: questions}
    return SimpleNamespace(n_remaining=remaining, cells_written=cells)


def test_lines_and_states_come_now_and_then_and_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    generation, now = next_generation(tmp_path / "tiny.zarr"), [100.0]
    lease: Any = SimpleNamespace(generation=generation, files=generation.files)
    monkeypatch.setattr(head.time, "monotonic", lambda: now[0])
    clock: Any = SimpleNamespace(seconds_left=lambda: 5.0)
    # twelve restarts, of which two are done, and three of five cells
    work = Work(cells=5, cells_done=3, restarts=12, restarts_left=10, questions=48, questions_left=40)
    # the keys are restarts that are left and the time, the values are the file's number of done restarts
    expected = {(9, 100.0): 3, (8, 101.0): 3, (7, 102.5): 5, (5, 111.0): 7, (0, 111.5): 12}
    with display(work, clock, Console(file=io.StringIO()), lease) as show:
        for (n_left, now[0]), n_done in expected.items():
            show(collector(n_left, 36, (10 - n_left) // 5), 2)
            progress = present(Progress.read(generation.state))
            assert progress.restarts == n_done
            assert progress.total == 12
            assert progress.earlier == 2
            assert progress.answers == 12
            assert progress.questions == 48
            assert progress.workers == 2
    terminal, file = Console(file=io.StringIO(), force_terminal=True, width=120), Console(file=io.StringIO())
    with display(
        Work(cells=5, restarts=10, restarts_left=10), clock, terminal, lease, is_bounded=True
    ) as show:
        show(collector(6, 0, 3), 2)
    for console in (file, terminal):
        with step("loading", console):
            pass
    before = "of 12 restarts, 2 of them before this run · 12 of 48 questions"
    assert caplog.messages == [
        f" 58.3 % · 7 {before} · 4 of 5 cells in the cube · 0:00:05 left",
        f"100.0 % · 12 {before} · 5 of 5 cells in the cube · 0:00:05 left",
        "loading",
    ]
    assert "4 of at most 10 restarts · 3 of 5 cells in the cube" in terminal.file.getvalue()
    assert "0:00:05 left" in terminal.file.getvalue()


def test_while_restarts_are_timed_that_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    generation = next_generation(tmp_path / "tiny.zarr")
    lease: Any = SimpleNamespace(generation=generation, files=generation.files)
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    with display(Work(cells=5, restarts=10, restarts_left=10), Clock(workers=2), terminal, lease) as show:
        show(collector(9, 0, 0), 2)
    assert "1 of 10 restarts" in terminal.file.getvalue()
    assert "timing restarts" in terminal.file.getvalue()
    progress = present(Progress.read(generation.state))
    assert progress.left is None


ONE = TINY.replace("[0.8, 1.0]", "[0.8]").replace('"0.5N", "1N"', '"0.5N"')
IRIS = ONE.replace("{mixture = {n_clusters = [2, 3], count = 2, n_samples = 30, n_features = 3}}, ", "")
"""A part of the tiny sweep: cells are functions of their coordinates."""

RESTARTS = (1 + 2 * 2) * 5
"""Of that part: a baseline, and cells of two replicates and two models."""

PACED = sabotage.environment([("", "paced")], pace=0.2)
"""Some seconds of the same cells: enough to be interrupted in."""


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cube of the part on iris, which ran serially at once."""
    folder = tmp_path_factory.mktemp("iris")
    assert run(write_spec(folder, IRIS), folder) == 0
    return folder / "tiny.zarr"


def test_growing_computes_only_what_is_new(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Replicates grow by any number and fill the last chunk little by little, also without timings."""
    spec, run_folder = tmp_path / "tiny.toml", RunFolder(tmp_path / "tiny.zarr")
    grown = IRIS.replace("[0.8]", "[0.8, 1.0]").replace('"0.5N"', '"0.5N", "1N"')
    texts = [IRIS, *(grown.replace("replicates = 2", f"replicates = {number}") for number in (3, 7))]
    counts = []
    for text in texts:
        spec.write_text(text)
        assert run(spec, tmp_path) == 0
        counts.append(restarts_run(caplog.text))
        before = Timing.load(run_folder).measured_times
        run_folder.last_run.pilot.unlink()
    assert counts == [RESTARTS, (4 * 3 - 2) * 2 * 5, 4 * 4 * 2 * 5]
    assert len(before) == 1 + 2 * 4
    assert all(0 < times.seconds < 1 for times in before.values())
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert run(spec, tmp_path, workers=2) == 0
    assert "nothing to run" in caplog.text
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files


def was_released(cube: Path) -> bool:
    return present(present(read_lease(cube)).holder).released


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_asked_to_stop_and_submitted_again(
    tmp_path: Path, iris: Path, number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    spec, cube = write_spec(tmp_path, IRIS), tmp_path / "tiny.zarr"
    process = start(spec, tmp_path, "--workers", "2", environment=PACED)
    try:
        wait_until(lambda: len(reported_done(cube)) > RESTARTS // 4, process)
    finally:
        process.send_signal(number)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "submit again" in log
    assert "Traceback" not in log
    assert was_released(cube)
    before = len(reported_done(cube))
    assert before < RESTARTS
    assert run(spec, tmp_path) == 0
    assert restarts_run(caplog.text) == RESTARTS - before
    assert f"{RESTARTS - before} restarts to run; done before: {before} of {RESTARTS} restarts" in caplog.text
    assert_same_bits(iris, cube)


def test_the_total_that_is_announced_is_the_one_that_is_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It counts timed restarts, and a run of a cube that has grown begins at what is done."""
    spec, cube = write_spec(tmp_path, IRIS), tmp_path / "tiny.zarr"
    assert run(spec, tmp_path) == 0
    assert f"{RESTARTS} restarts to run\n" in caplog.text
    assert "timing 3 of them" in caplog.text
    assert restarts_run(caplog.text) == RESTARTS
    state = present(Progress.read(RunFolder(cube).last_run.state))
    assert state.restarts == RESTARTS
    assert state.total == RESTARTS
    assert state.earlier == 0
    write_spec(tmp_path, IRIS.replace("replicates = 2", "replicates = 3"))
    caplog.clear()
    assert run(spec, tmp_path) == 0
    words = f"10 restarts to run; done before: {RESTARTS} of {RESTARTS + 10} restarts, 5 of 7 cells"
    assert words in caplog.text
    assert restarts_run(caplog.text) == 10
    state = present(Progress.read(RunFolder(cube).last_run.state))
    assert state.restarts == RESTARTS + 10
    assert state.total == RESTARTS + 10
    assert state.earlier == RESTARTS


def test_an_adaptive_stop_makes_the_total_an_upper_bound(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = IRIS.replace("generations = 1", "generations = 20") + "[stop]\nrisk = 0.9\nr_min = 2\nstep = 1\n"
    spec, cube = write_spec(tmp_path, text), tmp_path / "tiny.zarr"
    assert run(spec, tmp_path) == 0
    assert f"at most {RESTARTS} restarts to run" in caplog.text
    (spared,) = re.findall(r"the adaptive stop made (\d+) restarts unnecessary", caplog.text)
    assert restarts_run(caplog.text) == RESTARTS - int(spared)
    state = present(Progress.read(RunFolder(cube).last_run.state))
    assert state.restarts == state.total


@pytest.mark.slow
def test_a_run_has_a_page_and_a_terminal_that_closes_leaves_nobody_behind(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path, IRIS), tmp_path / "tiny.zarr"
    keyboard, terminal = os.openpty()
    command = ["setsid", "--ctty", sys.executable, "-m", "sweep_clustering", "submit", spec, "--workers", "2"]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup themselves
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    environment = {**os.environ, **sabotage.environment([("", "paced")], pace=1.0)}
    process = subprocess.Popen([*command, "--results", tmp_path], env=environment, **streams)
    signal.signal(signal.SIGHUP, before)
    os.close(terminal)
    os.set_blocking(keyboard, False)

    def has_begun() -> bool:
        with suppress(BlockingIOError):
            os.read(keyboard, 1 << 16)
        return len(reported_done(cube)) > RESTARTS // 8

    wait_until(has_begun)
    (page,) = re.findall(r"dashboard: (http\S+/sweep)", RunFolder(cube).log.read_text())
    state = json.load(urlopen(f"{page}/state.json", timeout=20))["head"]
    assert state["status"]["holder"] == str(present(read_lease(cube)).holder)
    assert state["crew"]["connected"] == 2
    assert all(len(row) == 5 for row in state["crew"]["rows"])
    workers = psutil.Process(process.pid).children(recursive=True)
    os.close(keyboard)
    assert process.wait(timeout=120) == 128 + signal.SIGHUP
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []
    assert was_released(cube)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "signals", "code"),
    [
        ("starting workers", [signal.SIGTERM, signal.SIGINT, signal.SIGINT], 143),
        ("loading the search", [signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGTERM], 130),
        ("restarts to run", [signal.SIGINT, signal.SIGINT, signal.SIGTERM], 130),
    ],
)
def test_several_signals_end_a_run_with_one_line(
    tmp_path: Path, moment: str, signals: list[signal.Signals], code: int
) -> None:
    spec = write_spec(tmp_path, IRIS)
    terminal = Pseudo("submit", str(spec), "--workers", "2", "--results", str(tmp_path), folder=tmp_path)
    terminal.wait_for(moment)
    for number in signals:
        terminal.send_signal(number)
        time.sleep(0.3)
    assert terminal.exit_code() == code
    assert terminal.output.count("stopped by") == 1
    assert not re.search("Traceback|Exception ignored|leaked|distributed", terminal.output)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["loading the search", "restarts to run"])
def test_the_third_ctrl_c_ends_a_run_at_once_and_leaves_nobody_behind(tmp_path: Path, moment: str) -> None:
    """This holds also for workers that cannot be closed: they are stopped here and answer nothing."""
    spec = write_spec(tmp_path, IRIS)
    terminal = Pseudo("submit", str(spec), "--workers", "2", "--results", str(tmp_path), folder=tmp_path)
    terminal.wait_for(moment)
    started = psutil.Process(terminal.pid).children(recursive=True)
    for process in started:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    for _ in range(3):
        terminal.type("\x03")
        time.sleep(0.1)
    began = time.monotonic()
    assert terminal.exit_code() == 130
    assert time.monotonic() - began < 5.0
    assert terminal.output.count("ended at once by the third Ctrl-C") == 1
    assert not re.search("Traceback|Exception ignored|leaked|distributed", terminal.output)
    for process in started:
        with suppress(psutil.NoSuchProcess):
            process.resume()  # the tracker of resources, which ends by itself
    _, alive = psutil.wait_procs(started, timeout=30)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    assert run(spec, tmp_path) == 0


def test_a_cell_that_keeps_failing_is_marked_and_the_rest_goes_on(
    tmp_path: Path, iris: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    solve, broken = tasks.run_cell, Cell("iris", None, 0.8, 75, 1, "posterior")

    def solve_some(science: Science, span: Span[Cell], source: Source) -> Solved:
        if span.unit == broken and span.stop > 2:
            raise FloatingPointError("no such luck")
        return solve(science, span, source)

    spec, cube = write_spec(tmp_path, IRIS), tmp_path / "tiny.zarr"
    with monkeypatch.context() as patched:
        patched.setattr(tasks, "run_cell", solve_some)
        assert run(spec, tmp_path) == 3
        assert f"cell {broken} failed: FloatingPointError: no such luck" in caplog.text
        status = open_cube(cube)["iris/status"] == FAILED
        assert status.sel(m=75, replicate=1, model="posterior").all()
        assert status.sum() == 1
        assert open_cube(cube).attrs["failed"] == {str(broken): "FloatingPointError: no such luck"}
        assert [record.cell for record in read_failures(RunFolder(cube))] == [str(broken)] * 2
        state = present(Progress.read(RunFolder(cube).last_run.state))
        assert state.restarts == state.total  # restarts of a cell that was given up are not waited for
        assert run(spec, tmp_path) == 3
        assert "nothing to run" in caplog.text
    assert run(spec, tmp_path, retry_failed=True) == 0
    assert open_cube(cube).attrs["failed"] == {}
    assert_same_bits(iris, cube)


def test_a_write_is_never_interrupted_and_follows_a_look_at_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take, events = Collector.take, list[str]()

    def note_taken(collector: Collector, results: Results) -> list[Span[Cell]]:
        if not events:
            signal.raise_signal(signal.SIGTERM)
        events.append("taken")
        return take(collector, results)

    def note_lost(lease: Lease) -> None:
        if events:
            raise LeaseLost("lost to another driver")

    monkeypatch.setattr(Collector, "take", note_taken)
    assert run(write_spec(tmp_path, IRIS), tmp_path) == 128 + signal.SIGTERM
    assert events == ["taken"], "the signal came before, and was held back"
    monkeypatch.setattr(Lease, "check", note_lost)
    events[:] = []
    monkeypatch.setattr(signal, "raise_signal", lambda number: None)
    assert run(write_spec(tmp_path, IRIS), tmp_path) == 1
    assert events == ["taken"], "nothing after the lease was lost"
    assert "lost to another driver" in caplog.text


def test_another_value_for_a_journaled_restart_is_an_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine that computes wrongly must not be believed."""
    monkeypatch.setattr(CellResult, "missing_spans", lambda cell: [Span(cell.cell, 0, cell.restarts)])
    solve = tasks.run_cell

    def solve_drifting(science: Science, span: Span[Cell], source: Source) -> Solved:
        result = solve(science, span, source)
        return replace(result, objectives=result.objectives + time.monotonic())

    monkeypatch.setattr(tasks, "run_cell", solve_drifting)
    assert run(write_spec(tmp_path, IRIS), tmp_path) == 1
    assert "the same bits" in caplog.text


def test_answers_to_other_batches(tmp_path: Path, iris: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Results] = []

    def mixed_up(task: Task, source: Source) -> Results:
        late.insert(0, run_task(task, source))
        return late.pop() if len(late) > 3 else late[0]

    monkeypatch.setattr(tasks, "run_task", mixed_up)
    assert run(write_spec(tmp_path, IRIS), tmp_path, batch_restarts=1) == 3
    causes = {failure.cause for failure in read_failures(RunFolder(tmp_path / "tiny.zarr"))}
    assert causes == {"BatchLost: what came back was the answer to another batch"}
    monkeypatch.undo()
    assert run(write_spec(tmp_path, IRIS), tmp_path, retry_failed=True) == 0
    assert_same_bits(iris, tmp_path / "tiny.zarr")
