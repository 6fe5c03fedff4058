"""Restarts side by side: in order, at once, and the same bits."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config

from pipeline.fit.estimating.jobs import runner
from pipeline.fit.estimator import AnnotatedClustering


def fitted_bits(estimator: AnnotatedClustering) -> dict[str, bytes]:
    return {name: pickle.dumps(value) for name, value in vars(estimator).items() if name.endswith("_")}


@pytest.mark.parametrize("n_jobs", [2, -1])
@pytest.mark.parametrize("covariance", ["spherical", "full"])
def test_the_number_of_jobs_changes_no_bit(n_jobs: int, covariance: str) -> None:
    X = np.random.default_rng(3).normal(size=(150, 3))
    given: dict[str, Any] = {
        "restarts": 6,
        "generations": 1,
        "population": 3,
        "random_state": 5,
        "covariance": covariance,
    }
    links = {"must_link": [[0, 1], [4, 9]], "cannot_link": [[2, 3]]}
    one = AnnotatedClustering(8, **given).fit(X, **links)
    several = AnnotatedClustering(8, n_jobs=n_jobs, **given).fit(X, **links)
    assert len(set(one.restart_objectives_)) > 1
    assert fitted_bits(several) == fitted_bits(one)
    assert fitted_bits(several.partial_fit(X, must_link=[[7, 8]])) == fitted_bits(
        one.partial_fit(X, must_link=[[7, 8]])
    )


def test_calls_are_at_once_and_results_in_order() -> None:
    barrier = threading.Barrier(2, timeout=20)

    def meet(number: int) -> int:
        barrier.wait()  # for ever, if calls came one after the other
        return number * number

    assert list(runner(2)(meet, range(4))) == [0, 1, 4, 9]


def test_one_call_at_a_time_unless_the_context_says_otherwise() -> None:
    def thread(_: int) -> str:
        return threading.current_thread().name

    assert set(runner(None)(thread, range(3))) == {threading.current_thread().name}
    with parallel_config("threading", n_jobs=2):
        assert threading.current_thread().name not in set(runner(None)(thread, range(3)))


def test_an_error_of_a_call_is_that_of_the_whole() -> None:
    def fail(number: int) -> int:
        raise ValueError(f"number {number}")

    with pytest.raises(ValueError, match="number 0"):
        runner(2)(fail, range(1))
