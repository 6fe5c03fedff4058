"""Calls of a method as restarts of a cell: seeds, links, the best call, and what a method does not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernels.scores import cluster_gaussians
from pipeline.methods.loading import MethodCall
from pipeline.methods.process import MethodFailed
from pipeline.work.methods import check_calls, method_calls, run_method
from pipeline.work.records import Partial, Science, Work
from sweeps.errors import InputError
from sweeps.file.methods import Method, checksum
from sweeps.file.search import Search
from sweeps.plan import Cell
from sweeps.seeds import method_seed

CODE = """
import numpy as np
from pipeline import NoSolution, Solution

def echo(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state, mode="plain"):
    labels = np.random.default_rng(random_state).integers(n_clusters, size=len(X))
    if mode == "seed":
        return Solution(labels, objective=random_state)
    if mode == "odd" and random_state % 2:
        raise NoSolution("odd")
    if mode == "links":
        found = [must_link.tolist(), cannot_link.tolist(), [each.tolist() for each in weights], accuracy]
        raise ValueError(repr(found))
    if mode == "own":
        rest = np.full((n_clusters - 1, X.shape[1]), np.nan)
        return Solution(np.zeros(len(X)), centroids=np.vstack([X[:1], rest]))
    return labels
"""

CELL = Cell("iris", None, 0.9, 5, 1, "mine")
ANNOTATIONS = np.array([[0, 1, 0], [1, 0, 0], [2, 3, 1], [4, 4, 0], [0, 1, 1]], dtype=np.int32)
X = np.random.default_rng(0).standard_normal((12, 2))
SCIENCE = Science(seed=3, searches=(Search(),), n_clusters=3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """File of the method."""
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def method(file: Path, **options: object) -> Method:
    return Method(
        name="mine",
        call="mine.py:echo",
        restarts=4,
        code=checksum(file.read_bytes()),
        path=str(file),
        options=options,
    )


def called(file: Path, start: int, stop: int, cell: Cell = CELL, **options: object) -> Partial:
    (call,) = method_calls("a.toml", [method(file, **options)])
    return run_method(SCIENCE, Work(cell, start, stop), call, X, ANNOTATIONS)


def seeds(cell: Cell = CELL) -> list[int]:
    grid = {"mixture": cell.mixture, "p": cell.p, "m": cell.m, "replicate": cell.replicate}
    return [method_seed(3, cell.dataset, **grid, method="mine", restart=restart) for restart in range(4)]


def test_the_call_of_the_largest_objective_is_kept(file: Path) -> None:
    found = called(file, 0, 4, mode="seed")
    assert found.objectives.tolist() == seeds()
    assert found.best_restart == int(np.argmax(seeds()))
    rng = np.random.default_rng(max(seeds()))
    assert found.labels.tolist() == rng.integers(3, size=12).tolist()


def test_without_objectives_it_is_the_first(file: Path) -> None:
    found = called(file, 1, 4)
    assert found.best_restart == 1
    assert np.isnan(found.objectives).all()
    assert found.labels.dtype == np.int16


def test_a_baseline_has_seeds_without_annotations(file: Path) -> None:
    cell = Cell("iris", None, None, None, None, "mine")
    found = called(file, 0, 4, cell, mode="seed")
    assert found.objectives.tolist() == seeds(cell) != seeds()


def test_calls_without_a_solution_are_passed_over(file: Path) -> None:
    found = called(file, 0, 4, mode="odd")
    even = [restart for restart, seed in enumerate(seeds()) if seed % 2 == 0]
    odd = [restart for restart in range(4) if restart not in even]
    assert found.best_restart == (even[0] if even else -1)
    none = called(file, odd[0], odd[0] + 1, mode="odd")
    assert (none.solved, none.best_restart, none.labels.tolist()) == (False, -1, [-1] * 12)
    assert np.isnan(none.centroids).all()
    assert none.seconds >= 0


def test_links_are_pairs_with_the_number_of_their_annotations(file: Path) -> None:
    with pytest.raises(MethodFailed) as raised:
        called(file, 0, 1, mode="links")
    assert raised.value.cause == "ValueError: [[[0, 1]], [[0, 1], [2, 3]], [[2.0], [1.0, 1.0]], 0.9]"


def test_clusters_are_described_by_means_and_one_variance(file: Path) -> None:
    found = called(file, 0, 1)
    _, centroids, variances = cluster_gaussians(X, found.labels, 3)
    assert np.array_equal(found.centroids, centroids, equal_nan=True)
    assert np.array_equal(found.covariances, variances, equal_nan=True)
    own = called(file, 0, 1, mode="own")
    assert np.array_equal(own.centroids[0], X[0])
    assert np.isnan(own.centroids[1:]).all()
    assert np.isnan(own.covariances[1:]).all()


def test_a_file_that_changed_since_is_an_error_that_names_the_method(file: Path) -> None:
    old = method(file)
    file.write_text(CODE + "#")
    with pytest.raises(InputError, match=r"a\.toml: method mine: found .*mine\.py with sha256"):
        method_calls("a.toml", [old, old])


def test_what_cannot_be_called_is_said_of_all_methods_at_once() -> None:
    calls = [
        MethodCall("good", "ward", None, {}, 1.0),
        MethodCall("option", "sklearn.cluster:KMeans", None, {"n_inits": 1}, 1.0),
        MethodCall("class", "sklearn.cluster:DBSCAN", None, {}, 1.0),
        MethodCall("file", "a.py:f", "import no_such_module", {}, 1.0),
        MethodCall("name", "a.py:f", "def g(): ...", {}, 1.0),
    ]
    check_calls("a.toml", calls[:1])
    with pytest.raises(InputError) as raised:
        check_calls("a.toml", calls)
    found = [str(problem) for problem in raised.value.problems]
    assert len(found) == 4
    for text, words in zip(found, ("n_init", "n_clusters", "no_such_module", "'f'"), strict=True):
        assert words in text
