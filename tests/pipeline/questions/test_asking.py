"""Batches of questions on a worker: functions of the answers before, whole, and kept if a later one fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from solving.blobs import far_clusters

import pipeline.asking.strategies
from pipeline.questions.asking import ask_batch, run_path
from pipeline.questions.records import NO_ANSWERS, Asking, PathBatch, PathFailure, PathPart
from sweeps.inputs import RealSource
from sweeps.plan import AskedPath
from sweeps.seeds import path_seed

X, LABELS = far_clusters()
SOURCE = RealSource(X, LABELS.astype(np.int16))
ASKING = Asking(seed=5, n_clusters=int(LABELS.max()) + 1, batch=8, restarts=1, covariance="spherical")
PATH = AskedPath("blobs", None, 0.9, 1, "active")


def run(known: np.ndarray = NO_ANSWERS, batches: int = 1, asking: Asking = ASKING) -> list[Any]:
    return run_path(PathBatch(asking, PATH, known, batches, 1.0), SOURCE)


def test_batches_of_one_task_are_those_of_several() -> None:
    (whole,) = run(batches=3)
    answers = NO_ANSWERS
    for _ in range(3):
        (part,) = run(answers)
        assert (part.start, part.stop) == (len(answers), len(answers) + 8)
        answers = np.concatenate([answers, part.answers])
    assert whole.answers.dtype == np.int32
    assert np.array_equal(whole.answers, answers)
    assert whole.seconds > 0


def test_a_path_depends_on_its_coordinates() -> None:
    (one,) = run()
    other = AskedPath("blobs", None, 0.9, 2, "active")
    (found,) = run_path(PathBatch(ASKING, other, NO_ANSWERS, 1, 1.0), SOURCE)
    assert not np.array_equal(one.answers, found.answers)


def test_a_batch_of_more_questions_than_pairs_goes_on_with_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, tuple[int, ...]]] = []

    def three_at_most(X: Any, labels: Any, path: Any, **options: Any) -> np.ndarray:
        asked.append((len(path), options["count"], options["seed"].spawn_key))
        return np.zeros((min(3, options["count"]), 3), dtype=np.int32)

    monkeypatch.setattr(pipeline.asking.strategies, "next_answers", three_at_most)
    answers = ask_batch(ASKING, PATH, NO_ANSWERS, SOURCE.arrays(None))
    assert answers.shape == (8, 3)
    where = {"mixture": None, "p": 0.9, "replicate": 1, "design": "active"}
    keys = [path_seed(5, "blobs", **where, start=start).spawn_key for start in (0, 3, 6)]
    assert asked == [(0, 8, keys[0]), (3, 5, keys[1]), (6, 2, keys[2])]


def test_what_was_answered_before_a_batch_that_raises_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.asking.strategies.next_answers

    def until_sixteen(X: Any, labels: Any, path: Any, **options: Any) -> np.ndarray:
        if len(path) >= 16:
            raise ValueError("no more")
        return real(X, labels, path, **options)

    monkeypatch.setattr(pipeline.asking.strategies, "next_answers", until_sixteen)
    part, failure = run(batches=4)
    assert isinstance(part, PathPart)
    assert part.stop == 16
    assert isinstance(failure, PathFailure)
    assert (failure.start, failure.stop, failure.cause) == (16, 24, "ValueError: no more")
    assert "until_sixteen" in failure.traceback
    record = failure.record(2)
    assert (record.cell, record.attempt) == ("blobs/p=0.9/design=active/replicate=1", 2)


def test_no_pair_to_ask_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.asking.strategies, "next_answers", lambda *args, **options: NO_ANSWERS)
    (failure,) = run()
    assert "no pair to ask after 0 answers" in failure.cause
