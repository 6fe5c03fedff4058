"""Predicted seconds of questions: from the batches that were timed, those of any other."""

from __future__ import annotations

import numpy as np
import pytest
from cubes.small import make_plan

from pipeline.questions.records import PathPart
from pipeline.questions.timing import TIMED, UNKNOWN_SECONDS, PathTiming, pilot_paths
from sweeps.plan import AskedPath

PLAN = make_plan(p=(0.8, 0.9, 1.0), designs=("uniform", "active"))


def part(p: float, start: int, seconds: float, batches: int = 1) -> PathPart:
    answers = np.zeros((4 * batches, 3), dtype=np.int32)
    return PathPart(AskedPath("a", None, p, 0, "active"), start, answers, seconds, 0.5 * seconds)


def test_a_pilot_times_the_extreme_accuracies() -> None:
    assert [(path.p, path.design) for path in pilot_paths(PLAN)] == [(0.8, "active"), (1.0, "active")]
    assert pilot_paths(make_plan()) == []


def test_seconds_are_interpolated_over_answers_and_accuracies() -> None:
    timing = PathTiming()
    path = AskedPath("a", None, 0.9, 1, "active")
    assert timing.seconds(path, 0) == UNKNOWN_SECONDS
    assert timing.missing(PLAN) == pilot_paths(PLAN)
    for each in (part(0.8, 0, 1.0), part(0.8, 4, 6.0, batches=2), part(1.0, 0, 3.0)):
        timing.note(each, 4)
    assert timing.missing(PLAN) == pilot_paths(PLAN)[1:]
    timing.note(part(1.0, 4, 5.0), 4)
    assert timing.missing(PLAN) == []
    assert timing.seconds(AskedPath("a", None, 0.8, 0, "active"), 2) == 2.0
    assert timing.seconds(path, 4) == pytest.approx(4.0)
    assert timing.seconds(path, 100) == pytest.approx(4.0)
    assert timing.path_seconds(path, 0, 3, 4) == pytest.approx(2.0 + 4.0 + 4.0)
    assert TIMED == 2


def test_timings_are_read_back() -> None:
    timing = PathTiming()
    timing.note(part(0.8, 0, 1.0), 4)
    assert PathTiming.of(timing.rows()).measured == timing.measured
