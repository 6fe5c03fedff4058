"""The annotation model "conditional": by hand, and one annotation at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from solving.entries import collected as collected_of
from solving.entries import plain
from solving.oracles import Case, adjacency, annotation_term, draw_case, draw_labels, objective_parts, rates

from kernels.partition.blockmodel import (
    JOIN,
    LEAVE,
    NOW,
    RATE,
    SWAP,
    agreement_value,
    collect_agreement,
    fitted_accuracy,
    largest_curvature,
)
from kernels.partition.objective import objective_terms
from kernels.partition.state import State, new_state
from kernels.problem.problem import (
    CANNOT,
    MUST,
    Layer,
    build_problem,
)

# What a relocation does to the counts as they are: tables, and the bound on what the series leaves out.

largest_curvature = plain(largest_curvature)


def collected(case: Case, labels: np.ndarray) -> State:
    return collected_of(case.problem().data, labels)


def with_a_bystander(model: str, seed: int, accuracies: tuple[float, float] = (0.9, 0.9)) -> Case:
    """The last sample, 23, is in no pair: moving it changes sizes alone."""
    case = draw_case(seed, model=model, n_clusters=4, m=40, accuracies=accuracies)
    assert all((layer.pairs < 23).all() for layer in case.layers)
    return case


@pytest.mark.parametrize("accuracies", [(0.9, 0.9), (1.0, 0.6), (0.2, 1.0)])
@pytest.mark.parametrize("model", ["likelihood", "posterior"])
def test_base_is_the_gain_of_sizes_alone_within_the_slack(
    model: str, accuracies: tuple[float, float]
) -> None:
    inexact = 0
    for seed in range(2):
        case = with_a_bystander(model, seed, accuracies)
        for source in range(4):
            labels = draw_labels(case, seed)
            labels[23] = source
            state = collected(case, labels)
            before = sum(objective_parts(case, labels)[1:])
            for target in set(range(4)) - {source}:
                moved = labels.copy()
                moved[23] = target
                wanted = sum(objective_parts(case, moved)[1:]) - before
                slack = state.slack[0, source, target]
                assert abs(state.base[source, target] - wanted) <= slack + 1e-9
                inexact += slack > 0.0
    # The likelihood has no prior rates, and its table is the exact change.
    assert (inexact > 0) == (model == "posterior")


def test_logarithms_of_the_four_pairs_of_sizes() -> None:
    case = draw_case(2, n_clusters=3)
    labels = draw_labels(case, 2)
    state = collected(case, labels)
    sizes = np.bincount(labels, minlength=3).astype(float)
    for number, layer in enumerate(case.layers):
        inner, outer = rates(layer, sizes.astype(int), float(adjacency(layer, 24).sum() / 2))
        for r in range(3):
            for c in range(3):
                n_r, n_c = sizes[r], sizes[c]
                pairs = {
                    NOW: n_r * n_c,
                    JOIN: n_r * (n_c + 1),
                    LEAVE: (n_r - 1) * n_c,
                    SWAP: (n_r - 1) * (n_c + 1),
                }
                rate = outer
                if r == c:
                    pairs, rate = {NOW: n_r**2, JOIN: (n_r + 1) ** 2, LEAVE: (n_r - 1) ** 2}, 2 * inner
                for table, exposure in pairs.items():
                    wanted = np.log(exposure + rate)
                    assert state.logs[number, table, r, c] == pytest.approx(wanted, rel=1e-12)
                if r != c:
                    after = sizes + np.eye(3)[c] - np.eye(3)[r]
                    changed, _ = rates(layer, after.astype(int), float(adjacency(layer, 24).sum() / 2))
                    assert state.logs[number, RATE, r, c] == pytest.approx(np.log(changed / inner), abs=1e-12)


@pytest.mark.parametrize(("one", "other"), [(0.0, 1.0), (0.1, 0.3), (0.6, 0.9), (0.3, 0.6), (0.5, 0.5)])
def test_curvature_is_bounded_between_two_shares(one: float, other: float) -> None:
    low, high = sorted((one, other))
    shares = np.linspace(low, high, 101)
    largest = (shares * (1.0 - shares)).max()
    found = largest_curvature(low, high)
    assert largest <= found + 1e-15
    assert found <= max(low * (1 - low), high * (1 - high), 0.25 * (low <= 0.5 <= high)) + 1e-15


collect_agreement = plain(collect_agreement)
agreement_value = plain(agreement_value)
fitted_accuracy = plain(fitted_accuracy)

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
