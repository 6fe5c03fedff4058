"""Bounds on distances against the full scan: the same bits, from the same draws."""

from typing import Any

import numpy as np
import pytest
from solving import entries

from sweep_clustering.kernels.partition.state import (
    DISTANCES,
    EVALUATIONS,
    LEAST_CLUSTERS,
    RELOCATIONS,
    State,
    new_state,
)
from sweep_clustering.kernels.problem.data import Data
from sweep_clustering.kernels.problem.problem import CANNOT, MUST, Layer, build_problem
from sweep_clustering.kernels.settings import ObjectiveSettings

MODELS = ("unsupervised", "likelihood", "posterior", "conditional", "unknown")
SHAPES = ("spherical", "common")
KINDS = ("apart", "duplicates", "ties", "far", "tiny", "huge", "one column", "outlier")


def features(kind: str, rng: np.random.Generator, n: int, n_dims: int) -> np.ndarray:
    X = rng.normal(size=(n, n_dims)) + 4.0 * rng.integers(0, 4, size=(n, 1))
    if kind == "duplicates":
        X[: n // 2] = X[rng.integers(0, 8, size=n // 2)]
    if kind == "ties":
        X = rng.integers(0, 3, size=(n, n_dims)).astype(float)
        X[:30, 0] = np.arange(30)
    if kind == "one column":
        X[:, 1:] = 1.0
    if kind == "outlier":
        X[0] = 1e9
    shift, scale = {"far": (1e8, 1.0), "tiny": (0.0, 1e-140), "huge": (0.0, 1e140)}.get(kind, (0.0, 1.0))
    return X * scale + shift


def problem(
    kind: str, model: str, shape: str, seed: int, *, n: int = 160, k: int = 9, n_dims: int = 6, **given: Any
) -> Data:
    rng = np.random.default_rng(seed)
    X = features(kind, rng, n, n_dims)
    accuracy = None if model == "unknown" else 0.9
    pairs = rng.integers(0, n // 2, size=(n // 2, 2))
    layers = [Layer(MUST, pairs[::2], None, accuracy), Layer(CANNOT, pairs[1::2], None, accuracy)]
    model = "conditional" if model == "unknown" else model
    wanted = ObjectiveSettings(**given)
    return build_problem(X, layers, n_clusters=k, model=model, covariance=shape, settings=wanted).data


def search(data: Data, seed: int, *, bounded: bool, everything: bool) -> tuple[State, float, float]:
    """A local search from random labels; state, objective, and what is drawn next."""
    if everything:
        every = np.arange(len(data.X), dtype=np.int32)
        data = data._replace(annotated=every, unannotated=every[:0])
    state = new_state(data)
    rows = len(data.X) if bounded else 0  # of any number of clusters
    state = state._replace(nearest=np.zeros((rows, data.n_clusters)))
    rng = np.random.default_rng(seed)
    least = np.repeat(np.arange(data.n_clusters), data.min_size)
    rest = rng.integers(0, data.n_clusters, size=len(data.X) - len(least))
    state.labels[:] = rng.permutation(np.concatenate([least, rest]))
    value = entries.local_search(data, state, rng)
    return state, value, rng.random()


def assert_same(data: Data, seed: int, *, everything: bool) -> tuple[State, State]:
    """That the bounds change no bit of a search."""
    state, value, drawn = search(data, seed, bounded=True, everything=everything)
    scan, wanted, next_drawn = search(data, seed, bounded=False, everything=everything)
    assert value == wanted
    assert drawn == next_drawn
    for name in ("labels", "sizes", "means", "errors", "terms", "join", "base", "edge_counts", "agreed"):
        np.testing.assert_array_equal(getattr(state, name), getattr(scan, name), err_msg=name)
    np.testing.assert_array_equal(state.counters[:DISTANCES], scan.counters[:DISTANCES])
    return state, scan


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", MODELS)
def test_bounds_change_no_bit(model: str, shape: str, kind: str) -> None:
    choices: list[dict[str, Any]] = [
        {},
        {"variance_prior": 2.0, "proportions": "free", "k": 2, "n_dims": 1},
        {"min_cluster_size": 1, "feature_weight": 0.3, "k": 20, "n_dims": 11},
        {"variance_prior": 1.0, "k": 13, "n_dims": 4},
        {"proportions": "free", "k": 8},
    ]
    for seed, choice in enumerate(choices):
        data = problem(kind, model, shape, seed, **choice)
        for everything in (False, True):
            assert_same(data, seed, everything=everything)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("model", ["unsupervised", "conditional", "unknown"])
def test_bounds_leave_out_distances(model: str, shape: str) -> None:
    data = problem("apart", model, shape, 0, n=2000, k=16, variance_prior=1.0)
    state, scan = assert_same(data, 0, everything=True)
    assert state.counters[RELOCATIONS] > 1000
    assert state.counters[EVALUATIONS] > 15 * 2000 * 5
    assert state.counters[DISTANCES] < 0.6 * scan.counters[DISTANCES]


def test_samples_without_annotations_are_assigned_without_most_distances() -> None:
    data = problem("apart", "posterior", "spherical", 0, n=2000, k=16)
    data = data._replace(annotated=data.annotated[:0], unannotated=np.arange(2000, dtype=np.int32))
    state, scan = assert_same(data, 0, everything=False)
    assert state.counters[DISTANCES] < 0.6 * scan.counters[DISTANCES]


@pytest.mark.parametrize(("k", "rows"), [(LEAST_CLUSTERS - 1, 0), (LEAST_CLUSTERS, 160)])
def test_few_clusters_are_scanned(k: int, rows: int) -> None:
    for shape in SHAPES:
        assert len(new_state(problem("apart", "posterior", shape, 0, k=k)).nearest) == rows
    assert len(new_state(problem("apart", "posterior", "diagonal", 0, k=k)).nearest) == 0


@pytest.mark.parametrize(("model", "rows"), [("posterior", 0), ("likelihood", 0), ("conditional", 160)])
def test_a_block_model_has_no_bounds_where_most_samples_have_annotations(model: str, rows: int) -> None:
    data = problem("apart", model, "spherical", 0)
    partners = np.diff(data.row_start[:: len(data.totals)])
    assert len(new_state(data).nearest) == 160 or np.mean(partners == 0) < 0.5
    everyone = data._replace(row_start=np.arange(len(data.row_start), dtype=data.row_start.dtype))
    assert len(new_state(everyone).nearest) == rows
