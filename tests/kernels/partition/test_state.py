"""The workspace of a search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from solving.oracles import draw_case
from solving.tiny import MODELS

from kernels.partition.state import STALE, new_state


@pytest.mark.parametrize("model", MODELS)
def test_every_array_has_its_own_memory(model: str) -> None:
    """Kernels write into one array while they read another; the annotated samples are shuffled in place."""
    data = draw_case(0, model=model).problem().data
    arrays = [
        *new_state(data),
        *new_state(data),
        *(values for values in data._replace(Z=None) if isinstance(values, np.ndarray)),
    ]
    assert data.Z is data.X  # neither is written to
    for first, second in itertools.combinations(arrays, 2):
        assert not np.shares_memory(first, second)


@pytest.mark.parametrize("model", MODELS)
def test_shapes_follow_the_problem(model: str) -> None:
    case = draw_case(0, n_samples=20, n_features=5, n_clusters=4, model=model)
    state = new_state(case.problem().data)
    layers = {"unsupervised": 0, "conditional": 1}.get(model, 2)  # all accuracies known: one layer
    blocks = 0 if model == "conditional" else layers
    assert state.labels.shape == state.best.shape == state.own.shape == (20,)
    assert state.means.shape == (5, 4)
    assert state.edge_counts.shape == state.count_terms.shape == (blocks, 4, 4)
    assert state.logs.shape == (blocks, 5, 4, 4)
    assert state.links.shape == state.touched.shape == (layers, 4)
    assert state.base.shape == (4, 4)
    assert state.counters[STALE] == 1, "nothing has been collected yet"
