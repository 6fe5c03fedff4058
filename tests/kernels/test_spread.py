"""Tables whose squares are no numbers are refused in the same words at every door; others can be fitted."""

from __future__ import annotations

import itertools
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris

from kernels.problem.problem import build_problem
from kernels.settings import COVARIANCES, spread_problem
from pipeline.commands.main import main
from pipeline.fit.estimator import AnnotatedClustering

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)
IRIS = load_iris().data
OVERFLOW = "found values whose squares overflow, expected smaller values (use another unit)"
UNDERFLOW = "found values whose squares underflow, expected larger values (use another unit)"


def with_cell(value: float) -> np.ndarray:
    X = IRIS.copy()
    X[3, 1] = value
    return X


BAD = {
    "a cell of 1e155": (with_cell(1e155), OVERFLOW),
    "a cell of -1e308": (with_cell(-1e308), OVERFLOW),
    "all over the range": (np.where(IRIS > 3, 1.7e308, -1.7e308), OVERFLOW),
    "means that overflow": (IRIS * 1e306 + 1.5e308, OVERFLOW),
    "sums of squares": (IRIS * 1e153, OVERFLOW),
    "X 1e-160": (IRIS * 1e-160, UNDERFLOW),
    "subnormal": (IRIS * 1e-310, UNDERFLOW),
    "equal": (np.full((150, 4), 1e300), "found 150 rows without any variance, expected samples that differ"),
}
ITS_LIMITS = [
    (with_cell(1e150), "spherical"),
    (with_cell(5e-324), "common"),
    (IRIS * 1e150, "tied"),
    (IRIS * 1e-149, "full"),
    (IRIS * [1, 1e149, 1, 1], "full"),
    (IRIS * [1, 1e-160, 1, 1], "diagonal"),
    (IRIS + 1e9, "common"),
]


def small(covariance: str = "spherical") -> AnnotatedClustering:
    return AnnotatedClustering(
        2, covariance=covariance, random_state=0, restarts=1, generations=2, population=3, offspring=2
    )


def test_what_is_too_large_or_too_small_is_named() -> None:
    for name, (X, words) in BAD.items():
        found, expected, remedy = spread_problem(X) or ("", "", "")
        assert f"found {found}, expected {expected}" + (f" ({remedy})" if remedy else "") == words, name


@pytest.mark.parametrize("name", ["a cell of 1e155", "subnormal", "equal"])
def test_every_door_refuses_in_the_same_words(name: str, tmp_path: Path) -> None:
    X, words = BAD[name]
    table, sweep = tmp_path / "own.npy", tmp_path / "own.toml"
    np.save(table, X)
    sweep.write_text(
        'name = "own"\nseed = 1\n[[grid.datasets]]\nname = "own"\npath = "own.npy"\nn_clusters = 3\n'
        '[grid]\np = [0.8]\nm = [10]\nreplicates = 1\nmodels = ["unsupervised"]\nrestarts = 2\n'
    )
    for command in (
        ["fit", table, "-k", "2"],
        ["ask", table, "-k", "2", "--out", tmp_path / "q.csv"],
        ["submit", sweep, "--workers", "0", "--results", tmp_path],
    ):
        done = CliRunner().invoke(main, list(map(str, command)))
        assert done.exit_code == 2, done.output
        assert f"own.npy: {words}" in done.output
    build = partial(build_problem, n_clusters=2, model="unsupervised")
    for refuse in (small("full").fit, small("full").partial_fit, build):
        with pytest.raises(ValueError, match=rf"^X: {re.escape(words)}$"):
            refuse(X)


@pytest.mark.parametrize(("X", "covariance"), ITS_LIMITS)
def test_what_is_not_refused_is_fitted(X: np.ndarray, covariance: str) -> None:
    """Without a warning of numpy, which is an error here."""
    estimator = small(covariance).fit(X, must_link=[[0, 1], [60, 61]])
    for values in (estimator.objective_, estimator.covariances_, estimator.score(X)):
        assert np.isfinite(values).all()
    assert set(estimator.predict(X)) <= {0, 1}
    assert len(estimator.query(2).pairs) == 2


def test_any_units_are_fitted_or_refused() -> None:
    rng = np.random.default_rng(0)
    for covariance in COVARIANCES * 4:
        unit, other = rng.uniform(-320, 308, 2)
        with np.errstate(over="ignore"):
            X = np.clip(rng.normal(size=(12, 3)) * 10.0 ** np.array([unit, unit, other]), -1.7e308, 1.7e308)
        if spread_problem(X) is None:
            assert np.isfinite(small(covariance).fit(X, cannot_link=[[0, 1]]).objective_)


def test_new_samples_too_far_away_are_refused() -> None:
    for covariance in COVARIANCES:
        estimator = small(covariance).fit(IRIS)
        for value, method in itertools.product((1e155, -1e200, 1e308), (estimator.predict, estimator.score)):
            with pytest.raises(ValueError, match=r"^X, row 3: found values whose squares overflow"):
                method(with_cell(value))
