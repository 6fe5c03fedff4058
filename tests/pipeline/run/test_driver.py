"""The driver: any executor, any batch length, any interruption, the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import xarray as xr
from cubes.writer import journaled
from processes import sabotage
from processes.sweeping import TINY, assert_same_bits, restarts_run, run, start, wait_until, write_spec

import pipeline.work.tasks
from pipeline.check.verify import verify
from pipeline.work.merge import CellResult
from pipeline.work.records import Partial, Results, Science, Task, Work
from pipeline.work.tasks import run_task
from pipeline.work.timing import Timing
from storage.cube.growth import open_cube
from storage.cube.schema import DONE, FAILED
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Lease, read_lease
from storage.runfolder.records import read_failures
from sweeps.errors import InputError
from sweeps.inputs import Source
from sweeps.plan import Cell
from sweeps.shapes import CANDIDATES, CODES, DIMS, narrowed
from sweeps.words import BASELINES, MODEL_CODES, chooses, shape_of

RESTARTS = 5 * (2 * 2 * 2 * 2 + 1) * 5
"""Of the tiny sweep: 5 inputs x (2 p x 2 m x 2 replicates x 2 models + 1) cells x 5."""

MODELS = '"unsupervised", "likelihood", "posterior"'
PACED = sabotage.environment([("", "paced")], pace=0.02)
"""Some seconds of the same cells: enough to be interrupted in."""
IRIS = (
    TINY.replace("{mixture = {n_clusters = [2, 3], count = 2, n_samples = 30, n_features = 3}}, ", "")
    .replace("[0.8, 1.0]", "[0.8]")
    .replace('"0.5N", "1N"', '"0.5N"')
)
"""A part of the tiny sweep: cells are functions of their coordinates."""


@pytest.fixture(scope="module")
def reference(finished: Path) -> Path:
    """Cube of the tiny sweep, run serially in one go."""
    return finished / "tiny.zarr"


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cube of the part on iris."""
    folder = tmp_path_factory.mktemp("iris")
    assert run(write_spec(folder, IRIS), folder) == 0
    return folder / "tiny.zarr"


def test_everything_is_done_once(reference: Path) -> None:
    tree = open_cube(reference)
    for name in ("mixtures_k2", "mixtures_k3", "iris"):
        for node in (tree[name], tree[f"{name}/unsupervised"]):
            assert (node["status"] == 1).all()
            assert (node["restarts_done"] == 5).all()
            assert np.isfinite(node["log_likelihood"].values).all()
            best = node["log_likelihood"].values.argmax(axis=-1)
            assert np.array_equal(node["best_restart"].values, best)
            assert (node["labels"].values >= 0).all()
            assert (node["seconds"].values > 0).all()
            assert (node["cpu_seconds"].values > 0).all()


def test_a_submit_of_a_finished_sweep_touches_nothing(
    reference: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {path: path.stat().st_mtime_ns for path in reference.parent.rglob("*")}
    spec = reference.parent / "tiny.toml"
    assert run(spec, reference.parent, workers=2) == 0
    assert "nothing to run" in caplog.text
    assert {path: path.stat().st_mtime_ns for path in reference.parent.rglob("*")} == files


def test_growing_computes_only_what_is_new(
    tmp_path: Path, reference: Path, caplog: pytest.LogCaptureFixture
) -> None:
    small = TINY.replace("[0.8, 1.0]", "[0.8]").replace('"0.5N", "1N"', '"1N"').replace("[2, 3]", "[2]")
    spec = write_spec(tmp_path, small.replace("replicates = 2", "replicates = 1"))
    assert run(spec, tmp_path) == 0
    first = restarts_run(caplog.text)
    caplog.clear()
    assert run(write_spec(tmp_path), tmp_path) == 0
    assert first + restarts_run(caplog.text) == RESTARTS
    assert_same_bits(reference, tmp_path / "tiny.zarr")


def test_replicates_grow_by_any_number(tmp_path: Path) -> None:
    """From 2 to 3 and 7: the last chunk is filled little by little; the same bits as made at once."""
    for replicates in (2, 3, 7):
        text = IRIS.replace("replicates = 2", f"replicates = {replicates}")
        assert run(write_spec(tmp_path, text), tmp_path) == 0
    once = tmp_path / "once"
    once.mkdir()
    assert run(write_spec(once, text), once) == 0
    grown, made = (open_cube(folder / "tiny.zarr") for folder in (tmp_path, once))
    for node in made.subtree:
        expected, found = node.to_dataset(inherit=False), grown[node.path].to_dataset(inherit=False)
        for name in expected.variables.keys() - {"seconds", "cpu_seconds"}:
            xr.testing.assert_identical(found[name].drop_attrs(), expected[name].drop_attrs())
    assert verify(tmp_path / "tiny.zarr", sample=5).good


def test_all_models_and_baselines_added_later(tmp_path: Path) -> None:
    small = IRIS.replace("replicates = 2", "replicates = 1").replace("restarts = 5", "restarts = 1")
    begun = '"conditional-common", "posterior-full", "posterior"'
    assert run(write_spec(tmp_path, small.replace(MODELS, begun)), tmp_path) == 0
    before = open_cube(tmp_path / "tiny.zarr")["iris"].to_dataset().load()
    every = ", ".join(f'"{model}"' for model in MODEL_CODES if model != "likelihood")
    with pytest.raises(InputError, match="a multiple of 3"):
        run(write_spec(tmp_path, small.replace(MODELS, every)), tmp_path)
    assert run(write_spec(tmp_path, small.replace(MODELS, every + ', "likelihood"')), tmp_path) == 0
    iris = open_cube(tmp_path / "tiny.zarr")["iris"]
    assert set(iris["model"].values) == set(MODEL_CODES) - set(BASELINES)
    for model in MODEL_CODES:
        node = iris[model].to_dataset() if model in BASELINES else iris.to_dataset().sel(model=model)
        assert (node["status"] == DONE).all()
        if chooses(model):
            # every cell has a covariance of the form it chose, which is that of its code
            assert node["covariance_shape"].isin([CODES[shape] for shape in CANDIDATES]).all()
            continue
        dims = len(DIMS[shape_of(model)])
        found = node["covariances"].values
        n_axes = dims if model in BASELINES else 2
        for own in (narrowed(one, shape_of(model)) for one in found.reshape(-1, *found.shape[-1 - n_axes :])):
            assert (own == own[:1]).all() == (shape_of(model) in ("common", "tied"))
            assert own.shape == (3, *[4] * dims)
            if own.ndim == 3:
                assert (own == own.swapaxes(1, 2)).all()
                assert np.linalg.eigvalsh(own).min() > 0
    kept = iris.to_dataset().sel(model=before["model"]).load()
    for name in before.data_vars:
        np.testing.assert_array_equal(before[name].values, kept[name].values)


def test_restarts_know_nothing_of_annotations_that_are_held_out(tmp_path: Path, reference: Path) -> None:
    text = IRIS.replace('"posterior"', '"posterior", "conditional-common"') + "held_out = true\n"
    assert run(write_spec(tmp_path, text), tmp_path) == 0
    found, plain = (open_cube(cube)["iris"].to_dataset() for cube in (tmp_path / "tiny.zarr", reference))
    same = {name: found[name].values for name in ("p", "m")} | {"model": ["likelihood", "posterior"]}
    for name in ("log_likelihood", "labels", "covariances"):
        here, there = (each[name].sel(same).values for each in (found, plain))
        np.testing.assert_array_equal(here, there)
    own = {"likelihood": "spherical", "posterior": "spherical", "conditional-common": "common"}
    for model, shape in own.items():
        losses = found["held_out"].sel(model=model)
        assert losses.sel(candidate=shape).notnull().all()
        assert losses.drop_sel(candidate=shape).isnull().all()
        shares = found["held_out_right"].sel(model=model, candidate=shape)
        assert ((shares >= 0) & (shares <= 1)).all()


def test_a_lost_file_of_timings_is_read_from_the_cube(tmp_path: Path) -> None:
    assert run(write_spec(tmp_path, IRIS), tmp_path) == 0
    folder = RunFolder(tmp_path / "tiny.zarr")
    before = Timing.load(folder).measured
    folder.last_run.pilot.unlink()
    assert run(write_spec(tmp_path, IRIS.replace("[0.8]", "[0.8, 1.0]")), tmp_path) == 0
    after = Timing.load(folder).measured
    assert set(before) < set(after)
    assert len(after) == 1 + 2 * 2
    assert all(0 < seconds < 1 for seconds in after.values())


def was_released(cube: Path) -> bool:
    lease = read_lease(cube)
    assert lease is not None
    assert lease.holder is not None
    return lease.holder.released


def reported_done(cube: Path) -> int:
    """Restarts that survive a kill now: of cells done in the cube, and in the journal."""
    if not cube.exists():
        return 0
    tree = open_cube(cube)
    pending = 0
    for header, _ in journaled(cube):
        for entry in header["partials"]:
            names = ("dataset", "mixture", "p", "m", "replicate", "model")
            where = {key: value for key, value in zip(names, entry["cell"], strict=True) if value is not None}
            node = tree[where.pop("dataset")]
            if "p" not in where:
                node = node[where.pop("model")]
            pending += (int(node["status"].sel(where)) != DONE) * (entry["stop"] - entry["start"])
    return sum(int((node["status"] == DONE).sum()) * 5 for node in tree.subtree if "status" in node) + pending


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_asked_to_stop_and_submitted_again(
    tmp_path: Path, reference: Path, number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    spec, cube = write_spec(tmp_path), tmp_path / "tiny.zarr"
    process = start(spec, tmp_path, "--workers", "2", environment=PACED)
    try:
        wait_until(lambda: reported_done(cube) > RESTARTS // 4, process)
    finally:
        process.send_signal(number)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "submit again" in log
    assert "Traceback" not in log
    assert was_released(cube)
    before = reported_done(cube)
    assert before < RESTARTS
    assert run(spec, tmp_path) == 0
    assert restarts_run(caplog.text) == RESTARTS - before
    assert_same_bits(reference, cube)


@pytest.mark.slow
def test_a_terminal_that_closes_leaves_nobody_behind(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path), tmp_path / "tiny.zarr"
    keyboard, terminal = os.openpty()
    command = [sys.executable, "-m", "pipeline", "submit", str(spec), "--results", str(tmp_path)]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup themselves
    process = subprocess.Popen(
        ["setsid", "--ctty", *command, "--workers", "2"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, **PACED},
    )
    signal.signal(signal.SIGHUP, before)
    os.close(terminal)
    os.set_blocking(keyboard, False)

    def begun() -> bool:
        with suppress(BlockingIOError):
            os.read(keyboard, 1 << 16)
        return reported_done(cube) > RESTARTS // 8

    wait_until(begun)
    workers = psutil.Process(process.pid).children(recursive=True)
    os.close(keyboard)
    assert process.wait(timeout=120) == 128 + signal.SIGHUP
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    assert was_released(cube)


def test_a_cell_that_keeps_failing_is_marked_and_the_rest_goes_on(
    tmp_path: Path, iris: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    solve, broken = pipeline.work.tasks._run, Cell("iris", None, 0.8, 75, 1, "posterior")

    def picky(science: Science, work: Work, source: Source) -> Partial:
        if work.cell == broken and work.stop > 2:
            raise FloatingPointError("no such luck")
        return solve(science, work, source)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.work.tasks, "_run", picky)
        spec = write_spec(tmp_path, IRIS)
        assert run(spec, tmp_path) == 3
        assert f"cell {broken} failed: FloatingPointError: no such luck" in caplog.text
        tree = open_cube(tmp_path / "tiny.zarr")
        statuses = {int(s) for node in tree.subtree if "status" in node for s in node["status"].values.flat}
        assert statuses == {DONE, FAILED}
        where = {"p": 0.8, "m": 75, "replicate": 1, "model": "posterior"}
        assert int(tree["iris/status"].sel(where)) == FAILED
        assert int((tree["iris/status"] == FAILED).sum()) == 1
        assert (tree["iris/labels"].sel(where) == -1).all()
        failures = read_failures(RunFolder(tmp_path / "tiny.zarr"))
        assert [record.cell for record in failures] == [str(broken)] * 2
        assert run(spec, tmp_path) == 3
        assert "nothing to run" in caplog.text
    assert run(spec, tmp_path, retry_failed=True) == 0
    assert_same_bits(iris, tmp_path / "tiny.zarr")


def test_two_submits_on_one_cube(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spec = write_spec(tmp_path)
    with Lease.acquire(tmp_path / "tiny.zarr"):
        assert run(spec, tmp_path) == 1
    assert f"process {os.getpid()}" in caplog.text
    assert not (tmp_path / "tiny.zarr").exists()


def test_another_value_for_a_journaled_restart_is_an_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine that computes wrongly must not be believed."""
    monkeypatch.setattr(CellResult, "missing", lambda cell: [Work(cell.cell, 0, cell.restarts)])
    solve = pipeline.work.tasks._run

    def drifting(science: Science, work: Work, source: Source) -> Partial:
        partial = solve(science, work, source)
        return replace(partial, objectives=partial.objectives + time.monotonic())

    monkeypatch.setattr(pipeline.work.tasks, "_run", drifting)
    assert run(write_spec(tmp_path, IRIS), tmp_path) == 1
    assert "the same bits" in caplog.text


def test_an_answer_to_another_batch_is_given_to_no_cell(
    tmp_path: Path, iris: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Results] = []

    def mixed_up(task: Task, source: Source) -> Results:
        late.insert(0, run_task(task, source))
        return late.pop() if len(late) > 3 else late[0]

    monkeypatch.setattr(pipeline.work.tasks, "run_task", mixed_up)
    assert run(write_spec(tmp_path, IRIS), tmp_path, batch_restarts=1) == 3
    causes = {each.cause for each in read_failures(RunFolder(tmp_path / "tiny.zarr"))}
    assert causes == {"BatchLost: what came back was the answer to another batch"}
    monkeypatch.undo()
    assert run(write_spec(tmp_path, IRIS), tmp_path, retry_failed=True) == 0
    assert_same_bits(iris, tmp_path / "tiny.zarr")
