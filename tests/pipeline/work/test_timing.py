"""Measured seconds of restarts, and what they predict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cubes.writer import next_generation

from pipeline.work.records import Chosen, Partial, Work
from pipeline.work.timing import Timing, pilot_cells
from storage.errors import StorageError
from sweeps.plan import Cell, DatasetPlan

PLAN = DatasetPlan(
    name="a",
    n_samples=10,
    n_features=2,
    n_clusters=3,
    checksum="",
    source="",
    has_labels=True,
    mixtures=4,
    p=(0.9, 0.8, 1.0),
    m=(10, 40, 20),
    replicates=2,
    models=("likelihood", "posterior"),
    baselines=("unsupervised",),
    restarts=5,
    mixture_chunk=4,
    replicate_chunk=2,
    model_chunk=2,
)


def cell(p: float | None = 0.8, m: int | None = 10, model: str = "likelihood") -> Cell:
    return Cell("a", 0, p, m, 0, model)


def test_the_pilot_times_the_corners_of_each_model() -> None:
    cells = pilot_cells(PLAN)
    assert len(cells) == len(set(cells)) == 1 + 2 * 4
    assert {(c.p, c.m) for c in cells if c.model == "posterior"} == {
        (0.8, 10),
        (0.8, 40),
        (1.0, 10),
        (1.0, 40),
    }


def test_predictions_are_bilinear_between_the_corners_and_constant_outside() -> None:
    corners = {(0.8, 10): 1.0, (0.8, 40): 4.0, (1.0, 10): 2.0, (1.0, 40): 8.0}
    timing = Timing({("a", "likelihood", p, m, None): seconds for (p, m), seconds in corners.items()})
    for (p, m), seconds in corners.items():
        assert timing.seconds(cell(p, m)) == seconds
    assert timing.seconds(cell(0.8, 25)) == pytest.approx(2.5)
    assert timing.seconds(cell(0.9, 25)) == pytest.approx(3.75)
    assert timing.seconds(cell(0.5, 1)) == 1.0
    assert timing.seconds(cell(1.0, 99)) == 8.0
    assert timing.seconds(cell(model="posterior")) == 1.0


def test_a_new_measurement_changes_the_prediction() -> None:
    timing = Timing({("a", "likelihood", 0.8, 10, None): 1.0})
    assert timing.seconds(cell(0.8, 20)) == 1.0
    partial = Partial(
        Work(cell(0.8, 30), 0, 2),
        np.zeros(2),
        0,
        np.zeros(1, np.int16),
        np.zeros((1, 1)),
        np.zeros(1),
        seconds=6.0,
        cpu_seconds=5.0,
    )
    timing.note(partial)
    assert timing.seconds(cell(0.8, 20)) == pytest.approx(2.0)


def test_choosing_a_shape_is_counted_once_a_cell(tmp_path: Path) -> None:
    chosen = Chosen("full", (0.5,) * 4, (0.7,) * 4)
    timing = Timing({})
    for m, choosing in ((10, 4.0), (40, 10.0)):
        work = Work(cell(0.8, m, "posterior-auto"), 0, 2)
        solution = np.zeros(1, np.int16), np.zeros((1, 1)), np.zeros(1)
        timing.note(Partial(work, np.zeros(2), 0, *solution, choosing + 6.0, 1.0, chosen, choosing))
    left = Work(cell(0.8, 25, "posterior-auto"), 0, 5)
    assert timing.seconds(left.cell) == 3.0
    assert timing.choosing(left) == pytest.approx(7.0)
    assert timing.work_seconds(left) == pytest.approx(5 * 3.0 + 7.0)
    assert timing.work_seconds(replace(left, chosen=chosen)) == 15.0
    assert timing.choosing(Work(cell(0.8, 25), 0, 5)) == 0.0
    assert timing.longest(5) == 25.0
    generation = next_generation(tmp_path / "tiny.zarr")
    timing.save(generation.pilot, generation.files)
    assert Timing.load(generation.run).work_seconds(left) == timing.work_seconds(left)


def test_timings_survive_a_file_and_a_broken_file_is_measured_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    timing = Timing({("a", "unsupervised", None, None, None): 0.25, ("a", "posterior", 0.8, 10, None): 0.5})
    generation = next_generation(tmp_path / "tiny.zarr")
    assert Timing.load(generation.run).measured == {}
    timing.save(generation.pilot, generation.files)
    assert Timing.load(generation.run).measured == timing.measured
    generation.pilot.write_text("[[1")
    assert Timing.load(generation.run).measured == {}
    assert "timed again" in caplog.text


def test_timings_that_cannot_be_written_are_the_disks_fault(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="vanished"):
        Timing({}).save(tmp_path / "gone" / "pilot.json")
