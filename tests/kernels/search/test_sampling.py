"""Chains of partitions draw with the probabilities that all partitions give, one by one."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from scipy.special import softmax
from solving import oracles
from solving.entries import plain_kernel

from sweep_clustering.kernels.partition.statistics import new_state
from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.problem.problem import Layer
from sweep_clustering.kernels.search import sampling
from sweep_clustering.kernels.search.sampling import LARGEST_SET, Chain, Length, new_matching, run_chain

# Sets of samples that annotations join: drawn without a look at labels, and large enough to matter.


@pytest.mark.parametrize("model", ["likelihood", "conditional"])
def test_sets_are_joined_by_annotations(model: str) -> None:
    def sets(case: oracles.Case, seed: int, count: int) -> list[NDArray[np.int32]]:
        data, rng = case.problem().data, np.random.default_rng(0)
        scratch = sampling.new_scratch(data, new_state(data), np.zeros(len(case.X), np.int16))
        return [
            scratch.members[: plain_kernel(sampling.draw_set)(data, rng, scratch, seed)].copy()
            for _ in range(count)
        ]

    case = oracles.draw_case(0, n_samples=12, m=12, model=model)
    links = sum(oracles.adjacency(layer, 12) for layer in case.layers)
    np.fill_diagonal(links, 0)
    _, names = connected_components(links > 0, directed=False)
    for seed in case.problem().data.annotated:
        member_sets = sets(case, int(seed), 100)
        for members in member_sets:
            assert members[0] == seed
            assert len(set(members)) == len(members)
            assert connected_components(links[np.ix_(members, members)] > 0, directed=False)[0] == 1
        # there are small sets, and the whole component
        component = np.flatnonzero(names == names[seed])
        assert {len(members) for members in member_sets} >= {1, len(component)}
    member_sets = sets(oracles.draw_case(0, n_samples=100, m=2000, model=model), 0, 20)
    assert max(len(set(members)) for members in member_sets) == LARGEST_SET


def test_no_matching_of_centroids_costs_less() -> None:
    """Small whole numbers have many ties and sums without rounding; then costs are no numbers."""
    rng, match = np.random.default_rng(0), plain_kernel(sampling.match)
    for size in np.repeat(np.arange(1, 6), 15):
        matching = new_matching(size, np.zeros(1, np.int64))
        # What an earlier matching left in the scratch memory must not matter.
        for _ in range(2):
            matching.cost[:] = rng.integers(0, 5, size=(size, size))
            match(matching)
        rows = np.arange(size)
        assert matching.row_of[matching.column_of].tolist() == rows.tolist()
        least = matching.cost[linear_sum_assignment(matching.cost)].sum()
        assert matching.cost[rows, matching.column_of].sum() == least
        matching.cost[:] = rng.choice([0.0, 1e300, -np.inf, np.inf, np.nan], size=(size, size))
        with np.errstate(all="ignore"):  # compiled code does not warn either
            match(matching)
        assert sorted(matching.column_of.tolist()) == list(range(size))


# Draws.

TERMS = [*oracles.MODELS, "unknown"]
LENGTH = Length(burn_in=100, draws=4000, thin=1)


def case_of(seed: int, term: str, covariance: str = "spherical", n_clusters: int = 3) -> oracles.Case:
    """Return eight samples that may belong anywhere, with eight annotations."""
    sizes = {"n_samples": 8, "n_features": 2, "n_clusters": n_clusters, "m": 8}
    case = oracles.draw_case(seed, model=term, accuracies=(0.8, 0.8), **sizes)  # type: ignore[arg-type]
    return replace(case, covariance=covariance, kappa=1.0, feature_weight=0.5)


def draw_chain(case: oracles.Case, length: Length = LENGTH, seed: int = 3, numbers: int = 0) -> Chain:
    """Draw a chain from a random start; clusters are numbered as the random labels of a seed."""
    start, reference = oracles.draw_labels(case, 0), oracles.draw_labels(case, numbers)
    return run_chain(case.problem(), start, reference, length, np.random.default_rng(seed))


def as_pairs(labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return which samples are together, of shape (…, n_samples²), whatever the clusters' numbers."""
    same = labels[..., :, None] == labels[..., None, :]
    return same.reshape(*labels.shape[:-1], -1).astype(float)


def exact_probabilities(case: oracles.Case) -> tuple[NDArray[np.float64], float]:
    """Return the probabilities that two samples are together and the mean objective over all partitions."""
    every = np.array(list(oracles.partitions(len(case.X), case.n_clusters, case.min_size)))
    values = np.array([oracles.objective(case, labels) for labels in every])
    weights = softmax(values)
    return weights @ as_pairs(every), float(weights @ values)


def check(case: oracles.Case, chain: Chain) -> None:
    """Compare a chain with all partitions, within 5 standard errors of the means of blocks of draws."""
    pairs, value = exact_probabilities(case)
    for draws, expected in ((as_pairs(chain.labels), pairs), (chain.objectives[:, None], np.array([value]))):
        blocks = draws.reshape(20, -1, draws.shape[1]).mean(axis=1)
        error = blocks.std(axis=0, ddof=1) / np.sqrt(20)
        assert (np.abs(blocks.mean(axis=0) - expected) <= 5 * error + 0.002).all()


CASES: list[Any] = [
    (1, term, covariance, 2 + place % 2, {})
    for place, (term, covariance) in enumerate(itertools.product(TERMS, oracles.COVARIANCES))
]
CASES += [
    (2, "unsupervised", "spherical", 3, {"min_size": 1}),
    (3, "likelihood", "common", 2, {"kappa": 0.0, "min_size": 3}),
    (4, "posterior", "full", 3, {"feature_weight": 1.0, "covariance_prior": 3.0}),
    (5, "conditional", "spherical", 3, {"min_size": 1, "feature_weight": "effective"}),
    (6, "unknown", "diagonal", 3, {"proportions": "free"}),
    (6, "conditional", "spherical", 2, {"min_size": 4}),  # no sample can leave alone
]


@pytest.mark.parametrize(("seed", "term", "covariance", "n_clusters", "settings"), CASES)
def test_partitions_come_as_often_as_their_objective_says(
    seed: int, term: str, covariance: str, n_clusters: int, settings: dict[str, Any]
) -> None:
    case = replace(case_of(seed, term, covariance, n_clusters), **settings)
    chain = draw_chain(case)
    check(case, chain)
    assert np.bincount(chain.labels[-1]).min() >= case.min_size
    for draw in range(0, LENGTH.draws, 1000):
        assert chain.objectives[draw] == pytest.approx(oracles.objective(case, chain.labels[draw]))


@pytest.mark.parametrize("term", ["posterior", "conditional"])
def test_samples_held_together_and_apart_move_together(term: str) -> None:
    """Links are nearly certain, so that no sample could leave alone."""
    X = np.array([[-0.1], [0.0], [0.1], [0.05], [-1.0], [-1.1], [1.0], [1.1]])
    must = Layer(MUST, np.array([[0, 1], [4, 5], [6, 7]]), np.full(3, 4.0), 0.999)
    cannot = Layer(CANNOT, np.array([[0, 2], [1, 2], [4, 6]]), np.full(3, 4.0), 0.999)
    case = oracles.Case(X, [must, cannot], 2, term, kappa=1.0, feature_weight=0.3)
    start = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int16)
    chain = run_chain(case.problem(), start, start, LENGTH, np.random.default_rng(0))
    check(case, chain)
    pairs, _ = exact_probabilities(case)
    assert 0.2 < pairs.reshape(8, 8)[0, 4] < 0.8  # otherwise a chain that stays where it is would pass
    assert pairs.reshape(8, 8)[0, 1] > 0.99


def test_draws_are_numbered_by_the_reference() -> None:
    """Clusters change places in these chains; each draw has the numbers that share most labels."""
    case = replace(case_of(7, "unsupervised"), min_size=1)
    reference = oracles.draw_labels(case, 5)
    chain = draw_chain(case, numbers=5)
    for draw in chain.labels[::40]:
        shared = np.eye(3)[draw].T @ np.eye(3)[reference]
        assert (draw == reference).sum() == shared[linear_sum_assignment(-shared)].sum()


def test_same_seed_same_bits_and_later_draws_are_those_of_a_longer_chain() -> None:
    case = case_of(1, "posterior")
    first, again, other = (draw_chain(case, Length(5, 50, 2), seed) for seed in (3, 3, 4))
    same = [chain.labels.tobytes() + chain.objectives.tobytes() for chain in (first, again, other)]
    assert same[0] == same[1] != same[2]
    every, some = draw_chain(case, Length(0, 40, 1)), draw_chain(case, Length(10, 10, 3))
    assert some.labels.tobytes() == every.labels[12::3].tobytes()
    assert not draw_chain(replace(case, n_clusters=1), Length(1, 10, 1)).labels.any()
