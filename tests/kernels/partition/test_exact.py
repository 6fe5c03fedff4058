"""The gain term by term against the kernels' own objective before and after."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from solving.entries import collect
from solving.from_python import from_python
from solving.oracles import adjacency, draw_case, draw_labels
from solving.tiny import COVARIANCES, MODELS

from kernels.partition.exact import count_change, exact_gain
from kernels.partition.gains import set_distances, set_links
from kernels.partition.objective import objective_terms
from kernels.partition.state import new_state

exact_gain = from_python(exact_gain)
count_change = from_python(count_change)
set_links = from_python(set_links)
set_distances = from_python(set_distances)


@pytest.mark.parametrize("kappa", [0.0, 0.5])
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_every_relocation_of_a_partition(model: str, covariance: str, kappa: float) -> None:
    case = replace(
        draw_case(4, n_samples=12, model=model, m=16, kappa=kappa, min_size=1), covariance=covariance
    )
    problem = case.problem()
    data, state = problem.data, new_state(problem.data)
    labels = draw_labels(case, 1)
    state.labels[:] = labels
    collect(data, state)
    before = sum(objective_terms(problem, labels))
    for sample, target in itertools.product(range(12), range(3)):
        if target == labels[sample]:
            continue
        set_distances(data, state, sample)
        set_links(data, state, sample)
        moved = labels.copy()
        moved[sample] = target
        wanted = sum(objective_terms(problem, moved)) - before
        assert exact_gain(data, state, sample, target) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_changes_of_the_edge_counts_are_those_of_the_matrices() -> None:
    case = draw_case(5, n_clusters=4, m=40)
    layer, labels = case.layers[0], draw_labels(case, 5)
    A = adjacency(layer, 24)
    for sample, target in itertools.product((0, 1, 2, 23), range(4)):
        source = int(labels[sample])
        if target == source:
            continue
        moved = labels.copy()
        moved[sample] = target
        Z, after = np.eye(4)[labels], np.eye(4)[moved]
        change = after.T @ A @ after - Z.T @ A @ Z
        others = A[sample].copy()
        others[sample] = 0.0
        links = others @ Z
        for r, c in itertools.product(range(4), range(4)):
            assert count_change(links, A[sample, sample], r, c, source, target) == change[r, c]
