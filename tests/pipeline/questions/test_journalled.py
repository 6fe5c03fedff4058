"""Answers in the journal: what a run wrote is read, anything else is a named error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cubes.small import make_plan

from pipeline.questions.journalled import is_of_paths, paths_to_record, written_paths
from pipeline.questions.records import Asking, PathPart
from sweeps.plan import AskedPath

PLANS = {
    "a": make_plan(designs=("uniform", "active")),
    "mixed": make_plan("mixed", mixtures=2, designs=("active",)),
}
ASKING = dict.fromkeys(PLANS, Asking(seed=7, n_clusters=2, batch=2, restarts=1, covariance="auto"))
PATHS = (AskedPath("a", None, 0.9, 1, "active"), AskedPath("mixed", 1, 0.9, 0, "active"))


def record() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    answers = np.array([[0, 1, 0], [1, 4, 1], [2, 3, 0], [0, 4, 1], [0, 2, 1], [3, 4, 0]], dtype=np.int32)
    first = PathPart(PATHS[0], 2, answers[:4], 0.5, 0.25)
    return paths_to_record([first, PathPart(PATHS[1], 0, answers[4:], 0.25, 0.2)])


def test_what_a_run_wrote_is_read() -> None:
    header, arrays = record()
    assert is_of_paths(header)
    assert not is_of_paths({"partials": []})
    found = written_paths(header, arrays, PLANS, ASKING)
    assert [(part.path, part.start, part.stop, part.seconds) for part in found] == [
        (PATHS[0], 2, 6, 0.5),
        (PATHS[1], 0, 2, 0.25),
    ]
    assert np.array_equal(np.concatenate([part.answers for part in found]), arrays["answers"])
    assert all(part.answers.base is None for part in found)


def test_answers_about_other_data_sets_stay_unchecked() -> None:
    found = written_paths(*record(), {"a": PLANS["a"]}, {"a": ASKING["a"]})
    assert [part.path for part in found] == list(PATHS)


WRONG = {
    "no path of the sweep": {"path": ["a", None, 0.8, 1, "active"]},
    "which is no path": {"path": ["a", None, 0.9, 2, "active"]},
    "is no path of": {"path": ["a", None, 0.9, 1, "uniform"]},
    "'mixed', 2": {"path": ["mixed", 2, 0.9, 0, "active"]},
    "other content": {"path": ["a", None, 0.9]},
    "a record of other content": {"path": [["a"], None, 0.9, 1, "active"]},
    "no batches of 2": {"start": 1, "stop": 5},
    "answers 3 to 1": {"start": 3, "stop": 1},
    "answers '2' to 6": {"start": "2"},
    "that took nan and 0.25 seconds": {"seconds": float("nan")},
}


@pytest.mark.parametrize("message", WRONG)
def test_records_of_other_paths_are_refused(message: str) -> None:
    header, arrays = record()
    header["paths"][0] |= WRONG[message]
    with pytest.raises(ValueError, match=message):
        written_paths(header, arrays, PLANS, ASKING)


ANSWERS = {
    "int32 \\(5, 3\\), expected int32 \\(6, 3\\)": lambda answers: answers[:5],
    "int64": lambda answers: answers.astype(np.int64),
    "none of 5 samples": lambda answers: answers + np.array([0, 3, 0], dtype=np.int32),
    "neither 0 nor 1": lambda answers: answers + np.array([0, 0, 1], dtype=np.int32),
}


@pytest.mark.parametrize("message", ANSWERS)
def test_other_answers_are_refused(message: str) -> None:
    header, arrays = record()
    with pytest.raises(ValueError, match=message):
        written_paths(header, {"answers": ANSWERS[message](arrays["answers"])}, PLANS, ASKING)


def test_a_record_without_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="other content"):
        written_paths(record()[0], {}, PLANS, ASKING)
    with pytest.raises(ValueError, match="other content"):
        written_paths({"paths": [3]}, record()[1], PLANS, ASKING)
