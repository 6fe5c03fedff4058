"""Sets of samples that annotations join: drawn without a look at labels, and large enough to matter."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from solving.from_python import from_python
from solving.oracles import adjacency, draw_case

from kernels.problem.data import Data
from kernels.search.flips import LARGEST_SET, Flip, grow, new_flip

grow = from_python(grow)


def sets(data: Data, seed: int, count: int) -> list[NDArray[np.int32]]:
    flip: Flip = new_flip(data)
    rng = np.random.default_rng(0)
    return [flip.members[: grow(data, rng, flip, seed)].copy() for _ in range(count)]


@pytest.mark.parametrize("model", ["likelihood", "conditional"])
def test_sets_are_joined_by_annotations(model: str) -> None:
    case = draw_case(0, n_samples=12, m=12, model=model)
    links = sum(adjacency(layer, 12) for layer in case.layers)
    np.fill_diagonal(links, 0)
    _, names = connected_components(links > 0, directed=False)
    data = case.problem().data
    for seed in data.annotated:
        found = sets(data, int(seed), 300)
        component = np.flatnonzero(names == names[seed])
        assert all(members[0] == seed and len(set(members)) == len(members) for members in found)
        for members in found[:20]:
            inner = links[np.ix_(members, members)]
            assert connected_components(inner > 0, directed=False)[0] == 1
        # small ones, and the whole component
        assert {len(members) for members in found} >= {1, len(component)}
        assert set(np.concatenate(found)) == set(component)


def test_sets_have_a_largest_size() -> None:
    case = draw_case(0, n_samples=100, m=2000, model="likelihood")
    found = sets(case.problem().data, 0, 50)
    assert max(len(members) for members in found) == LARGEST_SET
    assert all(len(set(members)) == len(members) for members in found)
