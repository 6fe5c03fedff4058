"""The driver: any executor, any batch length, any interruption, the same bits."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from processes import sabotage
from processes.killing import reported_done
from processes.pseudo import Pseudo
from processes.sweeping import TINY, assert_same_bits, restarts_run, run, start, wait_until, write_spec

from sweep_clustering.pipeline.run.ledger import Collector
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.merge import CellResult
from sweep_clustering.pipeline.work.records import Results, Science, Solved, Span, Task
from sweep_clustering.pipeline.work.tasks import run_task
from sweep_clustering.pipeline.work.timing import Timing
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.schema import FAILED
from sweep_clustering.storage.files import LeaseLost
from sweep_clustering.storage.runfolder.folder import Progress, RunFolder, read_failures
from sweep_clustering.storage.runfolder.lease import Lease, read_lease
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.inputs import Source
from sweep_clustering.sweeps.plan import Cell

ONE = TINY.replace("[0.8, 1.0]", "[0.8]").replace('"0.5N", "1N"', '"0.5N"')
IRIS = ONE.replace("{mixture = {n_clusters = [2, 3], count = 2, n_samples = 30, n_features = 3}}, ", "")
"""A part of the tiny sweep: cells are functions of their coordinates."""

RESTARTS = (1 + 2 * 2) * 5
"""Of that part: a baseline, and cells of two replicates and two models."""

PACED = sabotage.environment([("", "paced")], pace=0.2)
"""Some seconds of the same cells: enough to be interrupted in."""


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cube of the part on iris, run serially in one go."""
    folder = tmp_path_factory.mktemp("iris")
    assert run(write_spec(folder, IRIS), folder) == 0
    return folder / "tiny.zarr"


def test_growing_computes_only_what_is_new(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Replicates by any number, where the last chunk is filled little by little; also without its timings."""
    spec, run_folder = tmp_path / "tiny.toml", RunFolder(tmp_path / "tiny.zarr")
    grown = IRIS.replace("[0.8]", "[0.8, 1.0]").replace('"0.5N"', '"0.5N", "1N"')
    texts = [IRIS, *(grown.replace("replicates = 2", f"replicates = {number}") for number in (3, 7))]
    counts = []
    for text in texts:
        spec.write_text(text)
        assert run(spec, tmp_path) == 0
        counts.append(restarts_run(caplog.text))
        before = Timing.load(run_folder).measured
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
    """Restarts that are timed are of it, and a run of a cube that has grown begins at what is done."""
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

    def begun() -> bool:
        with suppress(BlockingIOError):
            os.read(keyboard, 1 << 16)
        return len(reported_done(cube)) > RESTARTS // 8

    wait_until(begun)
    (page,) = re.findall(r"dashboard: (http\S+/sweep)", RunFolder(cube).log.read_text())
    shown = json.load(urlopen(f"{page}/state.json", timeout=20))["head"]
    assert shown["status"]["holder"] == str(present(read_lease(cube)).holder)
    assert shown["crew"]["connected"] == 2
    assert all(len(row) == 5 for row in shown["crew"]["rows"])
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
    assert terminal.ended() == code
    assert terminal.output.count("stopped by") == 1
    assert not re.search("Traceback|Exception ignored|leaked|distributed", terminal.output)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["loading the search", "restarts to run"])
def test_the_third_ctrl_c_ends_a_run_at_once_and_leaves_nobody_behind(tmp_path: Path, moment: str) -> None:
    """Also where workers cannot be closed: they are stopped here, and answer nothing."""
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
    assert terminal.ended() == 130
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

    def picky(science: Science, span: Span[Cell], source: Source) -> Solved:
        if span.unit == broken and span.stop > 2:
            raise FloatingPointError("no such luck")
        return solve(science, span, source)

    spec, cube = write_spec(tmp_path, IRIS), tmp_path / "tiny.zarr"
    with monkeypatch.context() as patched:
        patched.setattr(tasks, "run_cell", picky)
        assert run(spec, tmp_path) == 3
        assert f"cell {broken} failed: FloatingPointError: no such luck" in caplog.text
        status = open_cube(cube)["iris/status"] == FAILED
        assert status.sel(m=75, replicate=1, model="posterior").all()
        assert status.sum() == 1
        assert open_cube(cube).attrs["failed"] == {str(broken): "FloatingPointError: no such luck"}
        assert [record.cell for record in read_failures(RunFolder(cube))] == [str(broken)] * 2
        state = present(Progress.read(RunFolder(cube).last_run.state))
        assert state.restarts == state.total  # those of a cell that was given up are not waited for
        assert run(spec, tmp_path) == 3
        assert "nothing to run" in caplog.text
    assert run(spec, tmp_path, retry_failed=True) == 0
    assert open_cube(cube).attrs["failed"] == {}
    assert_same_bits(iris, cube)


def test_a_write_is_never_interrupted_and_follows_a_look_at_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take, events = Collector.take, list[str]()

    def taken(collector: Collector, results: Results) -> list[Span[Cell]]:
        if not events:
            signal.raise_signal(signal.SIGTERM)
        events.append("taken")
        return take(collector, results)

    def lost(lease: Lease) -> None:
        if events:
            raise LeaseLost("lost to another driver")

    monkeypatch.setattr(Collector, "take", taken)
    assert run(write_spec(tmp_path, IRIS), tmp_path) == 128 + signal.SIGTERM
    assert events == ["taken"], "the signal came before, and was held back"
    monkeypatch.setattr(Lease, "check", lost)
    events[:] = []
    monkeypatch.setattr(signal, "raise_signal", lambda number: None)
    assert run(write_spec(tmp_path, IRIS), tmp_path) == 1
    assert events == ["taken"], "nothing after the lease was lost"
    assert "lost to another driver" in caplog.text


def test_another_value_for_a_journaled_restart_is_an_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine that computes wrongly must not be believed."""
    monkeypatch.setattr(CellResult, "missing", lambda cell: [Span(cell.cell, 0, cell.restarts)])
    solve = tasks.run_cell

    def drifting(science: Science, span: Span[Cell], source: Source) -> Solved:
        done = solve(science, span, source)
        return replace(done, objectives=done.objectives + time.monotonic())

    monkeypatch.setattr(tasks, "run_cell", drifting)
    assert run(write_spec(tmp_path, IRIS), tmp_path) == 1
    assert "the same bits" in caplog.text


def test_answers_to_other_batches(tmp_path: Path, iris: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Results] = []

    def mixed_up(task: Task, source: Source) -> Results:
        late.insert(0, run_task(task, source))
        return late.pop() if len(late) > 3 else late[0]

    monkeypatch.setattr(tasks, "run_task", mixed_up)
    assert run(write_spec(tmp_path, IRIS), tmp_path, batch_restarts=1) == 3
    causes = {each.cause for each in read_failures(RunFolder(tmp_path / "tiny.zarr"))}
    assert causes == {"BatchLost: what came back was the answer to another batch"}
    monkeypatch.undo()
    assert run(write_spec(tmp_path, IRIS), tmp_path, retry_failed=True) == 0
    assert_same_bits(iris, tmp_path / "tiny.zarr")
