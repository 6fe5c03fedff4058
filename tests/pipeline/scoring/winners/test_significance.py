"""Tests over data sets against slow oracles, scipy, and the worked example of Demšar (2006)."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from pipeline.scoring.winners.significance import (
    FEWEST_DATASETS,
    LEVEL,
    alike,
    best_first,
    friedman,
    holm,
    least_p,
    signed_ranks,
)

# Demšar, JMLR 7 (2006), table 6: AUC of C4.5, with -m, with -cf, and with both, on 14 data sets.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.975, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_ranks_of_the_published_example() -> None:
    ranks = best_first(DEMSAR)
    assert ranks[:2].tolist() == [[4, 3, 2, 1], [1, 2, 3, 4]]
    assert ranks[5].tolist() == [1, 2.5, 4, 2.5]
    assert ranks[9].tolist() == [2.5] * 4
    # Published: 3.143, 2.000, 2.893, 1.964; there "voting" has a third and a second place, here a tie.
    np.testing.assert_allclose(ranks.mean(axis=0) * 14, [44, 28, 41, 27])


def test_ties_are_equal_up_to_rounding() -> None:
    assert best_first(np.array([[0.5, 0.5 + 1e-13, 0.5 - 1e-13, 0.5 + 1e-9]])).tolist() == [[3, 3, 3, 1]]
    assert best_first(np.empty((0, 3))).shape == (0, 3)


def test_friedman_by_the_published_formula_and_by_scipy() -> None:
    rng = np.random.default_rng(1)
    plain = best_first(rng.normal(size=(9, 5)))
    by_hand = 12 * 9 / (5 * 6) * (float((plain.mean(axis=0) ** 2).sum()) - 5 * 36 / 4)
    assert friedman(plain)[0] == pytest.approx(by_hand)
    for values in (DEMSAR, rng.integers(0, 4, size=(12, 6)).astype(float)):
        expected = stats.friedmanchisquare(*values.T)
        assert friedman(best_first(values)) == pytest.approx((expected.statistic, expected.pvalue))


def test_friedman_of_models_that_never_differ() -> None:
    assert friedman(best_first(np.ones((7, 4)))) == (0.0, 1.0)


def all_signs(differences: np.ndarray) -> float:
    """Share of all combinations of signs as far from the middle as the one found."""
    found = differences[differences != 0]
    ranks = stats.rankdata(np.abs(found))
    middle = ranks.sum() / 2
    far = abs(ranks[found > 0].sum() - middle)
    sums = [ranks[list(signs)].sum() for signs in map(np.array, product([False, True], repeat=len(found)))]
    return float(np.mean([abs(total - middle) >= far - 1e-9 for total in sums]))


@pytest.mark.parametrize("seed", range(12))
def test_signed_ranks_are_exact_with_ties_and_zeros(seed: int) -> None:
    rng = np.random.default_rng(seed)
    differences = rng.integers(-4, 6, size=9).astype(float)
    assert signed_ranks(differences) == pytest.approx(all_signs(differences))
    untied = rng.normal(0.4, size=11)
    expected = stats.wilcoxon(untied, method="exact").pvalue
    assert signed_ranks(untied) == pytest.approx(expected)
    assert signed_ranks(-untied) == pytest.approx(expected)


def test_signed_ranks_of_nothing_and_of_many() -> None:
    assert signed_ranks(np.zeros(8)) == 1.0
    assert signed_ranks(np.empty(0)) == 1.0
    rng = np.random.default_rng(3)
    many = rng.normal(0.1, size=300)
    assert signed_ranks(many) == pytest.approx(stats.wilcoxon(many, method="approx").pvalue, rel=0.02)


def test_fewest_data_sets_are_those_that_can_tell_two_models_apart() -> None:
    always = [signed_ranks(np.arange(1.0, n + 1)) for n in (FEWEST_DATASETS - 1, FEWEST_DATASETS)]
    assert always[0] > LEVEL > always[1]
    assert always == [least_p(FEWEST_DATASETS - 1, 1), least_p(FEWEST_DATASETS, 1)]
    assert least_p(8, 36) == pytest.approx(holm(np.full(36, signed_ranks(np.arange(1.0, 9)))).min())
    assert least_p(3, 36) == 1.0


def closed(p: np.ndarray) -> list[float]:
    """Holm's p as the closure of Bonferroni's: the worst of all families of tests with this one in it."""
    tests = range(len(p))
    families = [family for size in range(1, len(p) + 1) for family in combinations(tests, size)]
    return [
        max(min(1.0, len(family) * min(p[i] for i in family)) for family in families if test in family)
        for test in tests
    ]


def test_holm_by_hand_and_as_a_closure() -> None:
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
    rng = np.random.default_rng(4)
    for _ in range(20):
        p = rng.uniform(size=6) ** 3
        np.testing.assert_allclose(holm(p), closed(p))


def test_groups_are_longest_runs_of_neighbours_that_do_not_differ() -> None:
    different = np.zeros((5, 5), dtype=bool)
    for a, b in ((0, 2), (0, 3), (0, 4), (1, 4), (2, 4)):
        different[a, b] = different[b, a] = True
    assert alike(different) == [(0, 1), (1, 3), (3, 4)]
    assert alike(np.zeros((4, 4), dtype=bool)) == [(0, 3)]
    assert alike(~np.eye(3, dtype=bool)) == []
    # 0 and 2 do not differ, but the one between them differs from 2: no bar may reach over it.
    between = np.zeros((3, 3), dtype=bool)
    between[1, 2] = between[2, 1] = True
    assert alike(between) == [(0, 1)]
