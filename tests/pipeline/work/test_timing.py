"""Measured seconds of restarts and questions predict others, and give tasks of a sensible length."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubes.small import make_plan
from cubes.writer import next_generation
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_clustering.pipeline.work import timing as module
from sweep_clustering.pipeline.work.records import Answered, Chosen, Science, Solved, Span
from sweep_clustering.pipeline.work.timing import Key, Times, Timing, make_batches, pilot_cells
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.file.spec import Stop
from sweep_clustering.sweeps.plan import AskedPath, Cell

CELL = Cell("a", 0, 0.8, 10, 0, "likelihood")
BASELINE = Cell("a", 0, None, None, None, "unsupervised")
CHOSEN = Chosen("full", (0.5,) * 4, (0.7,) * 4)
PLAN = make_plan(p=(0.8, 0.9, 1.0), m=(10, 40, 20), mixtures=4, designs=("uniform", "active"))


def timing_of(seconds: dict[Cell, float], choosing: float = 0.0) -> Timing:
    return Timing({Key.of(cell, 0): Times(duration, choosing) for cell, duration in seconds.items()})


def make_solved(cell: Cell, restarts: int, seconds: float, cpu: float, choosing: float = 0.0) -> Solved:
    solution = np.zeros(1, np.int16), np.zeros((1, 1)), np.zeros(1)
    return Solved(Span(cell, 0, restarts), np.zeros(restarts), 0, *solution, seconds, cpu, CHOSEN, choosing)


def answers(p: float, start: int, seconds: float, batches: int = 1) -> Answered:
    span = Span(AskedPath("a", 0, p, 0, "active"), start, start + 4 * batches, step=4)
    return Answered(span, np.zeros((span.size, 3), np.int32), seconds, 0.5 * seconds)


def test_the_pilot_times_the_corners_of_each_model_and_the_extreme_accuracies() -> None:
    cells = pilot_cells(PLAN)
    assert len(cells) == len(set(cells)) == 1 + 4
    corners = {(cell.p, cell.m, cell.design) for cell in cells if cell.model == "likelihood"}
    assert corners == {(p, m, "uniform") for p in (0.8, 1.0) for m in (10, 40)}
    paths = Timing().untimed_paths(PLAN)
    assert [(path.p, path.design, path.mixture) for path in paths] == [(0.8, "active", 0), (1.0, "active", 0)]
    assert Timing().untimed_paths(make_plan()) == []


def test_predictions_are_bilinear_between_the_corners_and_constant_outside() -> None:
    corners = {(0.8, 10): 1.0, (0.8, 40): 4.0, (1.0, 10): 2.0, (1.0, 40): 8.0}
    timing = timing_of({replace(CELL, p=p, m=m): seconds for (p, m), seconds in corners.items()})
    expected = corners | {(0.8, 25): 2.5, (0.9, 25): 3.75, (0.5, 1): 1.0, (1.0, 99): 8.0}
    for (p, m), seconds in expected.items():
        assert timing.seconds(Span(replace(CELL, p=p, m=m), 0, 2)) == pytest.approx(2 * seconds)
    assert timing.seconds(Span(replace(CELL, model="posterior"), 0, 3)) == 3.0, "a second if none was timed"


def test_measured_is_one_restart_and_choosing_counts_once_a_cell(tmp_path: Path, caplog: Any) -> None:
    timing, cell = Timing(), replace(CELL, model="posterior-auto")
    for m, choosing in ((10, 4.0), (40, 10.0)):
        timing.note(make_solved(replace(cell, m=m), 2, choosing + 6.0, (choosing + 6.0) / 2, choosing))
    span = Span(replace(cell, m=25), 0, 5)
    assert timing.seconds(span) == pytest.approx(5 * 3.0 + 7.0)
    assert timing.seconds(span, of_cpu=True) == pytest.approx((5 * 3.0 + 7.0) / 2)
    assert timing.seconds(replace(span, chosen=CHOSEN)) == 15.0
    timing.note(make_solved(BASELINE, 1, 0.5, 0.5))
    timing.note(answers(0.8, 8, 6.0, batches=2))
    generation = next_generation(tmp_path / "tiny.zarr")
    timing.save(generation.pilot, generation.files)
    again = Timing.load(generation.run)
    assert again.measured_times == timing.measured_times
    assert again.moment == timing.moment
    rows = json.loads(generation.pilot.read_text())
    expected = ["posterior-auto", 0.8, 40, 3.0, 10.0, 0.5], ["unsupervised", None, None, 0.5, 0.0, 1.0]
    assert rows["timed"][1:] == [["a", *row, None] for row in expected]
    assert rows["questions"] == [["a", "active", 0.8, 8, 3.0, 0.5]]
    # a new measurement changes the prediction; a choice that was known before takes no time then
    timing.note(make_solved(replace(cell, m=25), 1, 9.0, 9.0))
    assert timing.seconds(replace(span, chosen=CHOSEN)) == 45.0
    generation.pilot.write_text("[[1")
    assert Timing.load(generation.run).measured_times == {}
    assert "timed again" in caplog.text


def test_seconds_of_questions_are_interpolated_over_answers_and_accuracies() -> None:
    timing = Timing()
    corners = timing.untimed_paths(PLAN)
    span = Span(AskedPath("a", 0, 0.9, 1, "active"), 0, 12, step=4)
    assert timing.seconds(span) == 3.0, "a second for each batch"
    for questions in (answers(0.8, 0, 1.0), answers(0.8, 4, 6.0, batches=2), answers(1.0, 0, 3.0)):
        timing.note(questions)
    assert timing.untimed_paths(PLAN) == corners[1:], f"fewer than {module.TIMED} batches"
    timing.note(answers(1.0, 4, 5.0))
    assert timing.untimed_paths(PLAN) == []
    assert timing.seconds(span) == pytest.approx(2.0 + 4.0 + 4.0)
    assert timing.seconds(span, of_cpu=True) == pytest.approx(5.0)
    assert timing.seconds(replace(span, unit=corners[0], start=2, stop=6)) == 2.0


# Grouping of restarts into tasks.

SCIENCE = Science(1, (Search(),), 3)


def test_a_task_is_a_fiftieth_of_a_workers_share_within_bounds() -> None:
    # 100 tasks a second for the driver, and two for each worker
    expected = {(1000, 2): 10, (10_000, 200): 2, (500, 200): 1.25, (1, 2): module.SHORTEST}
    expected |= dict.fromkeys(((1e9, 2), (1e9, 10_000)), module.LONGEST)
    assert {case: module.target_seconds(*case) for case in expected} == expected


numbers = st.tuples(st.integers(0, 9), st.integers(0, 40), st.integers(1, 60))
spans = st.lists(numbers.map(lambda t: Span(replace(CELL, mixture=t[0]), t[1], t[1] + t[2])), max_size=8)


@settings(deadline=None, max_examples=50)
@given(spans, st.sampled_from([0.001, 0.3, 1.0, 2.0, 100.0]), st.sampled_from([1.0, 7.0, 10.0, 50.0]))
def test_every_restart_is_in_one_task_in_order(work: list[Span[Cell]], pace: float, seconds: float) -> None:
    tasks = list(make_batches(SCIENCE, work, timing_of({CELL: pace}), seconds=seconds))
    expected = [(span.unit, r) for span in work for r in range(span.start, span.stop)]
    assert [(s.unit, r) for task in tasks for s in task.spans for r in range(s.start, s.stop)] == expected
    sizes = [sum(span.size for span in task.spans) for task in tasks]
    full = max(1, int(seconds / pace + 1e-9))
    assert all(size == full for size in sizes[:-1])
    assert all(0 < size <= full for size in sizes)
    assert [task.seconds for task in tasks] == pytest.approx([size * pace for size in sizes])


def test_tasks_follow_the_length_of_each_cell_and_some_cells_are_never_split() -> None:
    auto, posterior = replace(CELL, model="posterior-auto"), replace(CELL, model="posterior")
    choosing = timing_of({CELL: 1.0, BASELINE: 1.0})
    choosing.measured_times |= {Key.of(cell, 0): Times(1.0, 3.0) for cell in (auto, posterior)}
    span_with_choice = Span(replace(auto, replicate=1), 1, 5, chosen=CHOSEN)
    work = [Span(CELL, 0, 2), Span(auto, 0, 5), span_with_choice, Span(replace(auto, replicate=2), 0, 1)]
    tasks = list(make_batches(SCIENCE, work, choosing, seconds=8.0))
    assert [task.spans for task in tasks] == [(work[0],), (work[1],), (work[2], work[3])]
    assert [task.seconds for task in tasks] == [2.0, 8.0, 8.0]
    assert len(list(make_batches(SCIENCE, work[1:2], choosing, seconds=0.5))) == 1
    # a cell that holds annotations out does so once, whatever its shape; a baseline has none
    holding = replace(SCIENCE, searches=(Search(held_out=True),))
    work = [Span(BASELINE, 0, 6), Span(posterior, 0, 5)]
    tasks = list(make_batches(holding, work, choosing, seconds=4.0))
    assert [[(s.start, s.stop) for s in task.spans] for task in tasks] == [[(0, 4)], [(4, 6)], [(0, 5)]]
    assert [task.seconds for task in tasks] == [4.0, 2.0, 8.0]
    # the rule of an adaptive stop is tested in one task
    stopping = replace(SCIENCE, stop=Stop(rule="boender-rinnooy-kan", risk=0.2, r_min=4, step=3))
    work = [Span(replace(CELL, replicate=r), 1, 12, (-1.0,)) for r in range(5)]
    for seconds in (1.0, 7.0, 25.0):
        tasks = list(make_batches(stopping, work, Timing(), seconds=seconds))
        assert [span for task in tasks for span in task.spans] == work


def test_restarts_after_a_choice_do_not_make_the_choice_seem_free() -> None:
    timing, cell = Timing(), replace(CELL, model="posterior-auto")
    timing.note(make_solved(cell, 2, 10.0, 10.0, choosing=4.0))
    timing.note(make_solved(cell, 1, 5.0, 5.0))
    assert timing.seconds(Span(cell, 0, 2)) == 4.0 + 2 * 5.0
    assert timing.seconds(Span(cell, 0, 2, chosen=CHOSEN)) == 2 * 5.0
