"""Moves of whole must-link components: the sets, and the objective after their moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from solving.oracles import Case, adjacency, draw_case, gain, objective
from solving.tiny import COVARIANCES, MODELS

from kernels.problem.problem import MUST
from kernels.search.hgs import Restart, SearchSettings, run_restart

START = SearchSettings(population=1, offspring=0, generations=0)
"""One start and its local search."""


def case_of(seed: int, model: str, covariance: str) -> Case:
    case = draw_case(seed, model=model, n_samples=30, n_clusters=4, m=24)
    # Full matrices fit thirty samples so well that links would hold no set together.
    return replace(case, covariance=covariance, feature_weight=0.2 if covariance in ("tied", "full") else 1.0)


def end_of(case: Case, relocation: str, seed: int = 0) -> Restart:
    return run_restart(case.problem(), replace(START, relocation=relocation), np.random.default_rng(seed))


def components(case: Case, labels: NDArray[np.integer]) -> Iterator[NDArray[np.intp]]:
    """Sets of two samples or more of one cluster that must-links connect.

    In the model "conditional" the annotations of a pair are one weight, here of one accuracy.
    """
    links = np.zeros((len(labels), len(labels)))
    for layer in case.used_layers:
        if layer.kind == MUST:
            links += adjacency(layer, len(labels))
        elif case.model == "conditional":
            links -= adjacency(layer, len(labels))
    _, names = connected_components((links > 0) & (labels[:, None] == labels), directed=False)
    for name in np.unique(names):
        members = np.flatnonzero(names == name)
        if len(members) > 1:
            yield members


def component_gains(case: Case, labels: NDArray[np.integer]) -> list[float]:
    before = objective(case, labels)
    gains = [-np.inf]
    for members in components(case, labels):
        source = labels[members[0]]
        if (labels == source).sum() - len(members) >= case.min_size:
            for target in set(range(case.n_clusters)) - {int(source)}:
                moved = labels.copy()
                moved[members] = target
                gains.append(objective(case, moved) - before)
    return gains


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_no_component_gains_by_a_move(model: str, covariance: str) -> None:
    left = raised = 0
    for seed in range(8):
        case = case_of(seed, model, covariance)
        alone, whole = (end_of(case, relocation) for relocation in ("all", "components"))
        assert whole.objective == pytest.approx(objective(case, whole.labels))
        assert whole.objective >= alone.objective - 1e-9
        raised += whole.objective > alone.objective + 1e-6
        left += max(component_gains(case, alone.labels)) > 1e-6
        assert max(component_gains(case, whole.labels)) <= 1e-8
        movable = np.flatnonzero(whole.sizes[whole.labels] > case.min_size)
        assert max(gain(case, whole.labels, i, t) for i in movable for t in range(4)) <= 1e-8
    assert raised == left
    assert (left > 0) == (model != "unsupervised")


def test_solutions_that_would_not_survive_are_left_alone() -> None:
    """Moves cost time, and most solutions are found again or dropped."""
    settings = SearchSettings(generations=10, crossover="labels", mutation=0.2)
    case = case_of(2, "posterior", "spherical")
    found = {
        relocation: run_restart(
            case.problem(), replace(settings, relocation=relocation), np.random.default_rng(1)
        )
        for relocation in ("all", "components")
    }
    # a local search after each move, of at most a few solutions
    assert 110 < found["components"].local_searches < 150
    assert found["all"].local_searches == 110
