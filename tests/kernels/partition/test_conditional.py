"""The annotation model "conditional": by hand, and one annotation at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solving.from_python import from_python
from solving.oracles import annotation_term, draw_case, draw_labels

from kernels.partition.conditional import agreement_value, collect_agreement, fitted_accuracy
from kernels.partition.objective import objective_terms
from kernels.partition.state import new_state
from kernels.problem.problem import (
    CANNOT,
    MUST,
    Layer,
    build_problem,
)

collect_agreement = from_python(collect_agreement)
agreement_value = from_python(agreement_value)
fitted_accuracy = from_python(fitted_accuracy)

HAND = np.array([[0.0], [1.0], [5.0], [7.0]])


HAND_LABELS = [0, 0, 1, 1]


def ann(layers: list[Layer]) -> float:
    problem = build_problem(HAND, layers, n_clusters=2, model="conditional")
    return objective_terms(problem, HAND_LABELS)[1]


def test_conditional_by_hand() -> None:
    right, wrong = np.array([[0, 1], [3, 2]]), np.array([[0, 2], [1, 1]])
    assert ann([Layer(MUST, right, None, 0.8)]) == pytest.approx(2 * np.log(0.8))
    assert ann([Layer(MUST, wrong, None, 0.8)]) == pytest.approx(np.log(0.2))
    assert ann([Layer(CANNOT, wrong, np.array([3.0, 9.0]), 0.8)]) == pytest.approx(3 * np.log(0.8))
    three = [Layer(MUST, right), Layer(MUST, wrong)]
    assert ann(three) == pytest.approx(2 * np.log(2 / 3) + np.log(1 / 3))
    apart = [three[0], Layer(MUST, wrong, annotator=4)]
    # Alone, right beyond 1 - 1e-6 and wrong below one half are both held.
    assert ann(apart) == pytest.approx(2 * np.log(1 - 1e-6) + np.log(0.5))
    each = Layer(MUST, right, None, 0.9, np.array([0.0, np.nan]))
    assert ann([each]) == pytest.approx(np.log(1e-6) + np.log(0.9))
    assert ann([Layer(MUST, np.array([[1, 1]]))]) == 0.0


def test_conditional_does_not_see_who_was_drawn() -> None:
    """Pairs right at accuracy one half say nothing, however often a sample has them."""
    often = np.array([[0, 1]] * 50 + [[0, 2]] * 50)
    assert ann([Layer(MUST, often, None, 0.5)]) == pytest.approx(100 * np.log(0.5))


@pytest.mark.parametrize("accuracies", [(0.9, 0.7), (0.2, 1.0), (None, 0.9), (None, None)])
def test_values_of_the_layers_add_up_to_the_annotation_term(accuracies: tuple[float | None, ...]) -> None:
    for seed in range(4):
        case = draw_case(seed, model="conditional", m=40)
        layers = [
            replace(layer, accuracy=accuracy, annotator=seed % 2 * layer.kind)
            for layer, accuracy in zip(case.layers, accuracies, strict=True)
        ]
        case = replace(case, layers=layers)
        data = case.problem().data
        state = new_state(data)
        state.labels[:] = draw_labels(case, seed)
        collect_agreement(data, state)
        value = sum(agreement_value(data, layer, agreed) for layer, agreed in enumerate(state.agreed))
        assert value == pytest.approx(annotation_term(case, state.labels), abs=1e-9)


def test_an_unknown_accuracy_is_the_agreeing_share_within_its_bounds() -> None:
    pairs = np.array([[0, 1], [0, 2], [0, 3], [1, 2]])
    data = build_problem(HAND, [Layer(MUST, pairs)], n_clusters=2, model="conditional").data
    assert data.totals.tolist() == [4.0]
    found = [fitted_accuracy(data, 0, float(agreed)) for agreed in range(5)]
    assert found == [0.5, 0.5, 0.5, 0.75, 1 - 1e-6]


def test_the_fitted_accuracy_is_the_most_likely_one() -> None:
    pairs = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3]])
    data = build_problem(HAND, [Layer(MUST, pairs)], n_clusters=2, model="conditional").data
    p = np.linspace(0.5, 1 - 1e-6, 2001)
    for agreed in (1.0, 3.0, 4.0, 5.0):
        others = agreed * np.log(p) + (5.0 - agreed) * np.log(1.0 - p)
        assert agreement_value(data, 0, agreed) >= others.max() - 1e-12
