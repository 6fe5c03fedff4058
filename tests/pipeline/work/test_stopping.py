"""The adaptive stop of restarts: the rules, and that nothing but the rule decides how many are run."""

from __future__ import annotations

import dataclasses
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes.sweeping import TINY, assert_same_bits, restarts_run, run, start, write_spec

import pipeline.work.tasks
from pipeline.common import SAME_OPTIMUM
from pipeline.work.batches import make_batches
from pipeline.work.merge import CellResult
from pipeline.work.records import Batch, Partial, Science, Work
from pipeline.work.stopping import optimum_counts, restarts_enough, unseen_mass
from pipeline.work.tasks import run_batch
from pipeline.work.timing import Timing
from pipeline.work.verify import verify
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE
from storage.runfolder.folder import GenerationFolder, RunFolder
from sweeps.errors import InputError
from sweeps.file.search import Search
from sweeps.file.spec import RULES, Stop
from sweeps.inputs import Source
from sweeps.plan import Cell

FULL = TINY.replace("restarts = 5", "restarts = 12")
STOP = "[stop]\nrisk = 0.2\nr_min = 4\nstep = 3\n"
RULE = Stop(rule="boender-rinnooy-kan", risk=0.2, r_min=4, step=3)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cube with every restart."""
    folder = tmp_path_factory.mktemp("full")
    assert run(write_spec(folder, FULL), folder) == 0
    return folder / "tiny.zarr"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cube of the same sweep with an adaptive stop."""
    folder = tmp_path_factory.mktemp("stopped")
    assert run(write_spec(folder, FULL + STOP), folder) == 0
    return folder / "tiny.zarr"


def test_objectives_within_a_millionth_are_one_optimum() -> None:
    assert optimum_counts([-3.0, -1.0, -3.0 - 0.5 * SAME_OPTIMUM, -1.0]) == [2, 2]
    assert optimum_counts([-1.0, -1.0 - 1.5 * SAME_OPTIMUM]) == [1, 1]
    # No chain: the third is too far from the best of the optimum, however close to the second.
    assert optimum_counts([0.0, -0.7 * SAME_OPTIMUM, -1.4 * SAME_OPTIMUM]) == [2, 1]
    assert optimum_counts([]) == []


@pytest.mark.parametrize(
    ("objectives", "kan", "turing"),
    [
        ([1.0] * 10, 2 / 90, 0.0),
        ([1.0] * 9 + [0.0], 6 / 90, 0.1),
        ([1.0] * 5 + [0.0] * 5, 6 / 90, 0.0),
        ([1.0, 2.0, 3.0, 3.0], 12 / 12, 0.5),
        ([1.0, 2.0, 3.0], 1.0, 1.0),
    ],
)
def test_estimates_by_hand(objectives: list[float], kan: float, turing: float) -> None:
    assert unseen_mass(objectives, "boender-rinnooy-kan") == pytest.approx(kan)
    assert unseen_mass(objectives, "good-turing") == pytest.approx(turing)


@pytest.mark.parametrize("rule", RULES)
def test_the_estimate_is_near_the_truth(rule: str) -> None:
    """Mean over draws from known optima, against the mass of those not drawn."""
    rng = np.random.default_rng(4)
    shares = np.array([0.5, 0.25, 0.15, 0.06, 0.04])
    errors = []
    for _ in range(2000):
        drawn = rng.choice(len(shares), size=20, p=shares)
        errors.append(unseen_mass(drawn.astype(float), rule) - (1 - shares[np.unique(drawn)].sum()))
    bias = np.mean(errors)
    assert abs(bias) < 0.05
    assert bias > -0.001  # on the safe side


@given(
    st.lists(st.integers(0, 4).map(float), max_size=30),
    st.sampled_from(RULES),
    st.floats(0.01, 0.9),
    st.integers(2, 12),
    st.integers(1, 6),
)
def test_a_cell_ends_at_the_first_test_it_passes(
    objectives: list[float], rule: str, risk: float, r_min: int, step: int
) -> None:
    stop, restarts = Stop(rule=rule, risk=risk, r_min=r_min, step=step), 25
    tested = [n for n in range(r_min, restarts, step) if n <= len(objectives)]
    passed = [n for n in tested if unseen_mass(objectives[:n], rule) < risk]
    expected = passed[0] if passed else restarts if len(objectives) >= restarts else None
    assert restarts_enough(objectives, stop, restarts) == expected
    assert restarts_enough(objectives, None, restarts) == (restarts if len(objectives) >= restarts else None)


def test_a_stopped_cell_is_the_beginning_of_the_full_one(full: Path, stopped: Path) -> None:
    ends = set()
    for node in ("iris", "iris/unsupervised", "mixtures_k2", "mixtures_k3", "mixtures_k3/unsupervised"):
        whole, part = open_cube(full)[node].to_dataset(), open_cube(stopped)[node].to_dataset()
        assert "unseen_mass" not in whole
        assert (part["status"] == DONE).all()
        every = whole["log_likelihood"].values.reshape(-1, 12)
        some = part["log_likelihood"].values.reshape(-1, 12)
        done, estimates = part["restarts_done"].values.ravel(), part["unseen_mass"].values.ravel()
        for objectives, kept, n, estimate in zip(every, some, done, estimates, strict=True):
            assert n == restarts_enough(objectives, RULE, 12)
            assert kept[:n].tobytes() == objectives[:n].tobytes()
            assert np.isnan(kept[n:]).all()
            assert estimate == unseen_mass(objectives[:n], RULE.rule)
        best = np.nanargmax(some, axis=1).reshape(part["best_restart"].shape)
        assert np.array_equal(part["best_restart"].values, best)
        ends |= set(done.tolist())
    assert {4, 12} <= ends


@pytest.mark.parametrize("options", [{"batch_restarts": 1}, {"batch_restarts": 40}, {"workers": 2}])
def test_no_result_depends_on_schedule_or_batch(
    tmp_path: Path, stopped: Path, options: dict[str, int]
) -> None:
    assert run(write_spec(tmp_path, FULL + STOP), tmp_path, **options) == 0
    assert_same_bits(stopped, tmp_path / "tiny.zarr")


def test_a_cell_is_never_split() -> None:
    cell = Cell("a", None, 0.8, 10, 0, "likelihood")
    work = [
        dataclasses.replace(Work(cell, 1, 12, (-1.0,)), cell=dataclasses.replace(cell, replicate=r))
        for r in range(5)
    ]
    science = Science(1, (Search(),), 3, RULE)
    for seconds in (1, 7, 25):
        batches = list(make_batches(science, work, Timing({}), seconds=seconds))
        assert [item for batch in batches for item in batch.work] == work


def test_what_the_pilot_found_counts(full: Path) -> None:
    """A work that begins after known restarts ends where the whole would have."""
    manifest, tree = read_manifest(full), open_cube(full)
    source = _source(tree)
    cell = Cell("iris", None, 0.8, 75, 0, "likelihood")
    science = Science(99, manifest.spec.search, 3, RULE.model_copy(update={"risk": 0.7}))
    (whole,) = run_batch(Batch(science, "iris", (Work(cell, 0, 12),), 0.0), source)
    assert isinstance(whole, Partial)
    assert 4 <= whole.work.stop < 12
    for known in (1, 3):
        rest = Work(cell, known, 12, tuple(whole.objectives[:known].tolist()))
        (part,) = run_batch(Batch(science, "iris", (rest,), 0.0), source)
        assert isinstance(part, Partial)
        assert (part.work.start, part.work.stop) == (known, whole.work.stop)
        assert part.objectives.tobytes() == whole.objectives[known:].tobytes()
        result = CellResult(cell, 12, science.stop)
        result.add(
            dataclasses.replace(
                whole, work=Work(cell, 0, known), objectives=whole.objectives[:known], best_restart=0
            )
        )
        assert list(result.missing()) == [rest]
        assert result.status != DONE
        result.add(part)
        assert (result.status, result.end, list(result.missing())) == (DONE, whole.work.stop, [])


def test_killed_and_submitted_again_it_ends_with_the_same_bits(tmp_path: Path, stopped: Path) -> None:
    spec = write_spec(tmp_path, FULL + STOP)
    with start(spec, tmp_path, "--workers", "2") as process:
        deadline = time.monotonic() + 120
        journal = GenerationFolder(RunFolder(tmp_path / "tiny.zarr"), 1).journal
        while process.poll() is None and time.monotonic() < deadline:
            if journal.exists() and journal.stat().st_size > 20_000:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.01)
        process.communicate()
    assert run(spec, tmp_path) == 0
    assert_same_bits(stopped, tmp_path / "tiny.zarr")


def test_unnecessary_restarts_are_logged(
    tmp_path: Path, stopped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = write_spec(tmp_path, FULL + STOP)
    assert run(spec, tmp_path) == 0
    done = 0
    for node in open_cube(stopped).subtree:
        if "restarts_done" in node.data_vars:
            done += int(node.to_dataset(inherit=False)["restarts_done"].sum())
    total = 12 * sum(plan.n_cells for plan in read_manifest(stopped).plans.values())
    assert restarts_run(caplog.text) == done
    assert f"the adaptive stop made {total - done} restarts unnecessary" in caplog.text


def test_verify_stops_where_the_cube_did(tmp_path: Path, stopped: Path) -> None:
    assert verify(stopped, sample=8).good


@pytest.mark.parametrize(
    "text", [FULL, FULL + STOP.replace("0.2", "0.3"), FULL + STOP.replace("r_min = 4", "r_min = 5")]
)
def test_another_stop_is_no_growth(tmp_path: Path, stopped: Path, text: str) -> None:
    shutil.copytree(stopped, tmp_path / "tiny.zarr")
    with pytest.raises(InputError, match="stop"):
        run(write_spec(tmp_path, text), tmp_path)


def test_a_cell_that_fails_leaves_the_others(
    tmp_path: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pipeline.work.tasks._run

    def fails(science: Science, work: Work, source: Source) -> Partial:
        if work.cell.dataset == "iris" and work.cell.m == 75 and work.stop > 1:
            raise ArithmeticError("made to fail")
        return real(science, work, source)

    monkeypatch.setattr(pipeline.work.tasks, "_run", fails)
    spec = write_spec(tmp_path, FULL + STOP)
    assert run(spec, tmp_path) == 3
    monkeypatch.undo()
    assert run(spec, tmp_path, retry_failed=True) == 0
    assert_same_bits(stopped, tmp_path / "tiny.zarr")


def _source(tree: object) -> Source:
    from pipeline.work.verify import _source as source_of

    return source_of(tree, Cell("iris", None, None, None, None, "unsupervised"))  # type: ignore[arg-type]
