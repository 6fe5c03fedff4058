"""The declarations of the scores, and what they give for the arrays of one cell."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from kernels import scores as core
from pipeline.scoring.catalogue import CATALOGUE, LABELS, QUALITIES, SCORES, Score
from storage.cube.schema import VARIABLES
from sweeps.shapes import CODES, widened

ARRAYS = {
    "X": np.array([[0.0], [2.0], [10.0], [12.0]]),
    "labels_true": np.array([0, 0, 1, 1], np.int16),
    "labels": np.array([1, 1, 0, 0], np.int16),
    "centroids": np.array([[11.0], [1.0]]),
    "covariances": np.array([1.0, 1.0]),
    "covariance_shape": 0,
    "annotations": np.array([[0, 1, 0], [0, 2, 1], [2, 3, 1]], np.int32),
    "log_likelihood": np.array([-3.0, -1.5, np.nan]),
}
"""A perfect solution with the clusters named the other way round; the last annotation is wrong."""

NOTHING = {
    "labels": np.full(4, -1, np.int16),
    "centroids": np.full((2, 1), np.nan),
    "covariances": np.full(2, np.nan),
    "log_likelihood": np.full(3, np.nan),
}
"""The same cell before it is done."""


OPTIONS = {"normalizer": "min", "covariance_prior": 1.0}


def value(name: str, arrays: dict[str, np.ndarray]) -> float:
    score = CATALOGUE[name]
    assert score.of_cell is not None
    options = {option: OPTIONS[option] for option in score.options}
    return score.of_cell(*(arrays[array] for array in score.arrays), **options)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nmi", 1.0),
        ("adjusted_rand", 1.0),
        ("goldberger_kl", 0.0),
        ("centroid_index", 0.0),
        ("annotation_agreement", 2 / 3),
        ("objective", -1.5),
    ],
)
def test_scores_of_one_cell_by_hand(name: str, expected: float) -> None:
    assert value(name, ARRAYS) == pytest.approx(expected)
    assert np.isnan(value(name, ARRAYS | NOTHING))


@pytest.mark.parametrize("shape", CODES)
@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_a_solution_that_is_the_truth_has_no_divergence(
    shape: str, prior: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    X, truth = rng.normal(size=(30, 3)) + np.repeat([0, 3, 9], 10)[:, None], np.repeat([0, 1, 2], 10)
    own = core.cluster_covariances(X, truth, 3, shape, prior)
    cell = {
        "X": X,
        "labels_true": truth.astype(np.int16),
        "labels": truth.astype(np.int16),
        "centroids": core.cluster_gaussians(X, truth, 3)[1],
        "covariance_shape": CODES[shape],
    }
    monkeypatch.setitem(OPTIONS, "covariance_prior", prior)
    for n_axes in range(own.ndim - 1, 3):
        found = value("goldberger_kl", cell | {"covariances": widened(own, n_axes, 3)})
        assert found == pytest.approx(0.0, abs=1e-12)
    assert value("goldberger_kl", cell | {"covariances": 1.5 * own}) > 0.1


@pytest.mark.parametrize("score", CATALOGUE.values(), ids=SCORES)
def test_a_declaration_fits_its_function_and_the_cube(score: Score) -> None:
    assert set(score.arrays) <= set(VARIABLES)
    assert (score.of_cell is None) == (score.arrays == ())
    if score.of_cell is not None:
        assert tuple(inspect.signature(score.of_cell).parameters) == score.arrays + score.options
    assert score.label.better in (-1, 0, 1)
    assert ("nats" in score.label.axis) == (score.units == "nats")


def test_every_column_has_a_label_and_objectives_are_no_quality() -> None:
    assert tuple(LABELS) == (*SCORES, "seconds", "cpu_seconds", "restarts_done", "hits")
    assert set(SCORES) - set(QUALITIES) == {"objective"}
    assert len({label.short for label in LABELS.values()}) == len(LABELS)
