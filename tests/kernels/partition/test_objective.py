"""The objective from scratch by hand and by published numbers: `test_gains` has the slow twins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernels.partition.objective import objective_terms
from kernels.problem.problem import CANNOT, MUST, Layer, build_problem
from kernels.search.genetic import SearchSettings, run_restart

X = np.array([[0.0], [1.0], [5.0], [7.0]])
LABELS = [0, 0, 1, 1]


def test_self_pairs_and_degenerate_clusters_by_hand() -> None:
    problem = build_problem(X, [Layer(MUST, np.array([[0, 0], [2, 3]]))], n_clusters=2, model="likelihood")
    # m_00 = m_11 = 2 over 4 ordered pairs each: rates ½; ½ Σ (2 log ½) - 2.
    assert objective_terms(problem, LABELS)[1] == pytest.approx(2 * np.log(0.5) - 2)

    equal = np.array([[0.0], [0.0], [0.0], [1.0], [2.0], [4.0]])
    problem = build_problem(equal, n_clusters=2, model="unsupervised")
    variance = np.var([1.0, 2.0, 4.0])
    assert objective_terms(problem, [0, 0, 0, 1, 1, 1])[0] == pytest.approx(-1.5 * (1 + np.log(variance)))


def test_conditional_by_hand() -> None:
    def ann(*layers: Layer) -> float:
        return objective_terms(build_problem(X, layers, n_clusters=2, model="conditional"), LABELS)[1]

    right, wrong = np.array([[0, 1], [3, 2]]), np.array([[0, 2], [1, 1]])
    assert ann(Layer(MUST, right, None, 0.8)) == pytest.approx(2 * np.log(0.8))
    assert ann(Layer(MUST, wrong, None, 0.8)) == pytest.approx(np.log(0.2))
    assert ann(Layer(CANNOT, wrong, np.array([3.0, 9.0]), 0.8)) == pytest.approx(3 * np.log(0.8))
    three = [Layer(MUST, right), Layer(MUST, wrong)]
    assert ann(*three) == pytest.approx(2 * np.log(2 / 3) + np.log(1 / 3))
    # Alone, right beyond 1 - 1e-6 and wrong below one half are both held.
    assert ann(three[0], Layer(MUST, wrong, annotator=4)) == pytest.approx(2 * np.log(1 - 1e-6) + np.log(0.5))
    each = Layer(MUST, right, None, 0.9, np.array([0.0, np.nan]))
    assert ann(each) == pytest.approx(np.log(1e-6) + np.log(0.9))
    assert ann(Layer(MUST, np.array([[1, 1]]))) == 0.0


def read_layer(path: Path, kind: int) -> Layer:
    table = np.loadtxt(path, dtype=np.int64)
    own = table[:, 0] == table[:, 1]
    weights = np.where(own, table[:, 2] / 2.0, table[:, 2])
    return Layer(kind, table[:, :2] - 1, weights, 0.9)


@pytest.mark.parametrize(
    ("model", "truth", "best"),
    [("likelihood", -7664.0184, -7429.1792), ("posterior", -7595.3676, -7373.1052),
     ("unsupervised", None, -5437.2074)],
)  # fmt: skip
def test_published_instance(shared_data: Path, model: str, truth: float | None, best: float) -> None:
    """Value of the classes, and of the best known partition."""
    folder = shared_data / "reference-vertebral"
    kinds = {"must": MUST, "cannot": CANNOT}
    layers = [read_layer(folder / f"vertebral-{name}.link", kind) for name, kind in kinds.items()]
    labels = np.loadtxt(folder / "vertebral.label", dtype=np.int64) - 1
    problem = build_problem(np.loadtxt(folder / "vertebral.data"), layers, n_clusters=3, model=model)
    if truth is not None:
        assert sum(objective_terms(problem, labels)) == pytest.approx(truth, abs=1e-4)
    found = run_restart(problem, SearchSettings(10, 10, 50), np.random.default_rng(0)).objective
    assert found >= best - 1e-3
