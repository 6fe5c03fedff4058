"""What a restart keeps: stored copies, clones, survivors."""

from __future__ import annotations

import numpy as np
import pytest
from solving.entries import collect
from solving.from_python import from_python

from kernels.partition.state import new_state
from kernels.problem.problem import build_problem
from kernels.search.population import Population, are_clones, is_new, new_population, select, store

select = from_python(select)
store = from_python(store)
are_clones = from_python(are_clones)
is_new = from_python(is_new)


def population(objectives: list[float], sizes: list[list[int]]) -> Population:
    data = build_problem(np.arange(40.0)[:, None], n_clusters=2, model="unsupervised").data
    made = new_population(data, len(objectives))
    made.objectives[:] = objectives
    made.sizes[:] = sizes
    return made


def test_survivors_are_the_best_with_clones_last() -> None:
    same, other = [5, 35], [10, 30]
    made = population([1.0, 3.0, 3.0 + 5e-8, 2.0, 3.0 - 1e-8, 3.0], [same, same, same, same, same, other])
    select(made, 6)
    # 2 is best; 1 and 4 are its clones; 5 has other sizes.
    assert made.ranking.tolist() == [2, 5, 3, 0, 1, 4]


def test_survivors_of_random_populations() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        objectives = rng.integers(0, 4, size=8).astype(float)
        sizes = [[s, 40 - s] for s in rng.integers(1, 3, size=8).tolist()]
        made = population(objectives.tolist(), sizes)
        select(made, 8)
        keys = [(objectives[i], sizes[i][0]) for i in range(8)]
        ranked = sorted(range(8), key=lambda i: (-objectives[i], i))
        firsts = [i for place, i in enumerate(ranked) if keys[i] not in [keys[j] for j in ranked[:place]]]
        assert made.ranking.tolist() == firsts + [i for i in ranked if i not in firsts]


def test_stored_solutions_are_copies_with_sorted_sizes() -> None:
    problem = build_problem(np.random.default_rng(0).normal(size=(12, 2)), n_clusters=4, model="unsupervised")
    made, state = new_population(problem.data, 3), new_state(problem.data)
    made.ranking[:] = [2, 0, 1]
    labels = np.repeat([3, 0, 2, 1], [1, 5, 2, 4])
    state.labels[:] = labels
    collect(problem.data, state)
    store(problem.data, made, 0, state, -7.5)
    means, state.labels[:], state.means[:] = state.means.copy(), 0, np.nan
    assert made.labels[2].tolist() == labels.tolist()
    np.testing.assert_array_equal(made.centroids[2], means)
    assert made.sizes[2].tolist() == [1, 2, 4, 5]
    assert made.objectives.tolist() == [0.0, 0.0, -7.5]
    assert not made.labels[:2].any()


@pytest.mark.parametrize(("apart", "clones"), [(0.0, True), (0.9e-7, True), (1.1e-7, False)])
def test_clones_agree_to_a_ten_millionth_of_a_nat_and_in_sizes(apart: float, clones: bool) -> None:
    made = population([0.0, apart, apart], [[5, 35], [5, 35], [6, 34]])
    assert are_clones(made, 0, 1) == are_clones(made, 1, 0) == clones
    assert not are_clones(made, 0, 2)
    assert is_new(made, 1, apart) == (not clones)
    assert is_new(made, 0, 0.0)
    assert not is_new(made, 3, apart)
