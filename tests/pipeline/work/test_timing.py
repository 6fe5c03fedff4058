"""Measured seconds of restarts, and what they predict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cubes.small import make_plan
from cubes.writer import next_generation
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.work.records import Chosen, Partial, PathPart, Science, Work
from pipeline.work.timing import (
    LONGEST,
    SHORTEST,
    TIMED,
    UNKNOWN_SECONDS,
    PathTiming,
    Timing,
    make_batches,
    pilot_cells,
    pilot_paths,
    target_seconds,
)
from storage.errors import StorageError
from sweeps.file.search import Search
from sweeps.plan import AskedPath, Cell, DatasetPlan

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


# Predicted seconds of questions: from the batches that were timed, those of any other.

ASKED_PLAN = make_plan(p=(0.8, 0.9, 1.0), designs=("uniform", "active"))


def part(p: float, start: int, seconds: float, batches: int = 1) -> PathPart:
    answers = np.zeros((4 * batches, 3), dtype=np.int32)
    return PathPart(AskedPath("a", None, p, 0, "active"), start, answers, seconds, 0.5 * seconds)


def test_a_pilot_times_the_extreme_accuracies() -> None:
    assert [(path.p, path.design) for path in pilot_paths(ASKED_PLAN)] == [
        (0.8, "active"),
        (1.0, "active"),
    ]
    assert pilot_paths(make_plan()) == []


def test_seconds_are_interpolated_over_answers_and_accuracies() -> None:
    timing = PathTiming()
    path = AskedPath("a", None, 0.9, 1, "active")
    assert timing.seconds(path, 0) == UNKNOWN_SECONDS
    assert timing.missing(ASKED_PLAN) == pilot_paths(ASKED_PLAN)
    for each in (part(0.8, 0, 1.0), part(0.8, 4, 6.0, batches=2), part(1.0, 0, 3.0)):
        timing.note(each, 4)
    assert timing.missing(ASKED_PLAN) == pilot_paths(ASKED_PLAN)[1:]
    timing.note(part(1.0, 4, 5.0), 4)
    assert timing.missing(ASKED_PLAN) == []
    assert timing.seconds(AskedPath("a", None, 0.8, 0, "active"), 2) == 2.0
    assert timing.seconds(path, 4) == pytest.approx(4.0)
    assert timing.seconds(path, 100) == pytest.approx(4.0)
    assert timing.path_seconds(path, 0, 3, 4) == pytest.approx(2.0 + 4.0 + 4.0)
    assert TIMED == 2


def test_timings_are_read_back() -> None:
    timing = PathTiming()
    timing.note(part(0.8, 0, 1.0), 4)
    assert PathTiming.of(timing.rows()).measured == timing.measured


# Grouping of restarts into batches.

SCIENCE = Science(1, (Search(),), 3)


def test_a_batch_is_a_fiftieth_of_a_workers_share_within_bounds() -> None:
    assert target_seconds(1000, 2) == 10
    assert target_seconds(1, 2) == SHORTEST
    assert target_seconds(1e9, 2) == LONGEST
    assert target_seconds(10_000, 200) == 2  # 100 batches a second for the driver
    assert target_seconds(500, 200) == 1.25  # two for each worker
    assert target_seconds(1e9, 10_000) == LONGEST


works = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 40), st.integers(1, 60)).map(
        lambda t: Work(Cell("a", t[0], 0.8, 10, 0, "likelihood"), t[1], t[1] + t[2])
    ),
    max_size=8,
)


@settings(deadline=None)
@given(works, st.sampled_from([0.001, 0.3, 1.0, 2.0, 100.0]), st.sampled_from([1.0, 7.0, 10.0, 50.0]))
def test_every_restart_is_in_one_batch_in_order(work: list[Work], each: float, seconds: float) -> None:
    timing = Timing({("a", "likelihood", 0.8, 10, None): each})
    batches = list(make_batches(SCIENCE, work, timing, seconds=seconds))
    wanted = [(item.cell, r) for item in work for r in range(item.start, item.stop)]
    assert [(w.cell, r) for b in batches for w in b.work for r in range(w.start, w.stop)] == wanted
    sizes = [sum(w.stop - w.start for w in batch.work) for batch in batches]
    full = max(1, int(seconds / each + 1e-9))
    assert all(size == full for size in sizes[:-1])
    assert all(0 < size <= full for size in sizes)
    for batch, size in zip(batches, sizes, strict=True):
        assert batch.predicted == pytest.approx(size * each)


def test_a_cell_that_chooses_its_shape_is_never_split() -> None:
    key, cell = ("a", "posterior-auto", 0.8, 10, None), Cell("a", 0, 0.8, 10, 0, "posterior-auto")
    timing = Timing({key: 1.0, ("a", "likelihood", 0.8, 10, None): 1.0}, {key: 3.0})
    known = Chosen("tied", (0.4,) * 4, (0.8,) * 4)
    work = [
        Work(replace(cell, model="likelihood"), 0, 2),
        Work(cell, 0, 5),
        Work(replace(cell, replicate=1), 1, 5, chosen=known),
        Work(replace(cell, replicate=2), 0, 1),
    ]
    batches = list(make_batches(SCIENCE, work, timing, seconds=8.0))
    assert [batch.work for batch in batches] == [(work[0],), (work[1],), (work[2], work[3])]
    assert [batch.predicted for batch in batches] == [2.0, 8.0, 8.0]
    alone = list(make_batches(SCIENCE, work[1:2], timing, seconds=0.5))
    assert [batch.work for batch in alone] == [(work[1],)]


def test_a_cell_that_holds_annotations_out_is_never_split() -> None:
    key, cell = ("a", "posterior", 0.8, 10, None), Cell("a", 0, 0.8, 10, 0, "posterior")
    baseline = Cell("a", 0, None, None, None, "unsupervised")
    timing = Timing({key: 1.0, ("a", "unsupervised", None, None, None): 1.0}, {key: 3.0})
    asked = replace(SCIENCE, searches=(Search(held_out=True),))
    work = [Work(baseline, 0, 6), Work(cell, 0, 5)]
    batches = list(make_batches(asked, work, timing, seconds=4.0))
    assert [[(w.cell.model, w.start, w.stop) for w in batch.work] for batch in batches] == [
        [("unsupervised", 0, 4)],
        [("unsupervised", 4, 6)],
        [("posterior", 0, 5)],
    ]
    assert [batch.predicted for batch in batches] == [4.0, 2.0, 8.0]


def test_batches_follow_the_length_of_each_cell() -> None:
    timing = Timing({("a", "likelihood", 0.8, 10, None): 1.0, ("a", "posterior", 0.8, 10, None): 4.0})
    work = [
        Work(Cell("a", 0, 0.8, 10, 0, model), 0, count)
        for model, count in (("likelihood", 6), ("posterior", 4))
    ]
    batches = list(make_batches(SCIENCE, work, timing, seconds=8.0))
    assert [batch.predicted for batch in batches] == [6.0, 8.0, 8.0]
