"""How sure a solution is of its labels: starts, membership, agreement of chains, pairs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from solving.blobs import far_clusters
from solving.oracles import Case, draw_case
from solving.tiny import COVARIANCES, MODELS

from kernels.problem.problem import MUST, Layer
from kernels.search.genetic import Restart, run_restart
from kernels.search.sampling import run_chain
from kernels.settings import Settings
from pipeline.fit import confidence
from pipeline.fit.confidence import (
    CHAINS,
    LENGTH,
    REACH,
    Confidence,
    distinct_starts,
    find_confidence,
    split_r_hat,
    together,
)

TINY = Settings(population=3, offspring=3, generations=2)


def restarts_of(case: Case, count: int = 3) -> list[Restart]:
    return [run_restart(case.problem(), TINY, np.random.default_rng(r)) for r in range(count)]


def confidence_of(case: Case, seed: int = 0) -> Confidence:
    runs = restarts_of(case)
    best = int(np.argmax([run.objective for run in runs]))
    return find_confidence(case.problem(), runs, best, seed)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_membership_is_the_share_of_draws(model: str, covariance: str) -> None:
    case = Case(*draw_parts(model), 3, model, kappa=1.0, covariance=covariance)
    found = confidence_of(case)
    assert found.draws.shape == (CHAINS * LENGTH.draws, 24)
    assert found.membership.shape == (24, 3)
    np.testing.assert_allclose(found.membership.sum(axis=1), 1)
    for sample, cluster in ((0, 0), (7, 2), (23, 1)):
        share = (found.draws[:, sample] == cluster).mean()
        assert found.membership[sample, cluster] == pytest.approx(share)
    own = [found.membership[i, label] for i, label in enumerate(found.labels)]
    assert found.confidence.tolist() == own
    assert found.expected_accuracy == pytest.approx(np.mean(own))
    assert 0 < found.expected_accuracy < 1
    assert found.r_hat > 0.9
    assert 0 <= found.chain_agreement < 1


def draw_parts(model: str) -> tuple[np.ndarray, list[Layer]]:
    case = draw_case(2, model=model)
    return case.X, list(case.layers)


def test_far_clusters_leave_no_doubt() -> None:
    X, labels = far_clusters()
    found = confidence_of(Case(X, [], 3, "unsupervised"))
    assert (found.membership == np.eye(3)[found.labels]).all()
    assert found.expected_accuracy == 1
    assert (found.r_hat, found.chain_agreement, found.starts) == (1, 1, 1)
    assert list(found.notes()) == []
    assert len(np.unique(np.column_stack([labels, found.labels]), axis=0)) == 3


def test_chains_draw_from_their_own_streams() -> None:
    case = draw_case(2, model="conditional")
    runs = restarts_of(case)
    best = int(np.argmax([run.objective for run in runs]))
    starts = distinct_starts(runs, best)
    chains = [
        run_chain(
            case.problem(),
            starts[c % len(starts)].labels,
            runs[best].labels,
            LENGTH,
            np.random.default_rng(np.random.SeedSequence(7, spawn_key=(1, c))),
        ).labels
        for c in range(CHAINS)
    ]
    found = find_confidence(case.problem(), runs, best, 7)
    assert found.draws.tobytes() == np.concatenate(chains).tobytes()
    assert confidence_of(case, 7).membership.tobytes() == found.membership.tobytes()
    assert confidence_of(case, 8).draws.tobytes() != found.draws.tobytes()
    # no restart has the stream of a chain
    first = {np.random.SeedSequence(7, spawn_key=(r,)).generate_state(1)[0] for r in range(1000)}
    assert {np.random.SeedSequence(7, spawn_key=(1, c)).generate_state(1)[0] for c in range(4)}.isdisjoint(
        first
    )


def test_starts_are_the_best_distinct_restarts() -> None:
    (run,) = restarts_of(draw_case(2, model="likelihood"), 1)

    def of(objective: float, sizes: tuple[int, ...] = (10, 8, 6)) -> Restart:
        return run._replace(objective=objective, sizes=np.array(sizes))

    runs = [of(3.0), of(5.0 - 2e-8), of(5.0), of(5.0 - 3e-8, (8, 10, 6)), of(5.0 - 4e-8, (9, 9, 6))]
    runs += [of(5.0 - REACH), of(4.9 - REACH)]
    assert [each.objective for each in distinct_starts(runs, 2)] == [5.0, 5.0 - 4e-8, 3.0, 5.0 - REACH]
    assert distinct_starts(runs, 2)[0] is runs[2]


def test_r_hat_by_hand() -> None:
    values = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 2.5, 4.0, 5.0]])
    halves = np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 2.5], [4.0, 5.0]])
    within = np.mean([np.var(half, ddof=1) for half in halves])
    between = 2 * np.var([half.mean() for half in halves], ddof=1)
    assert split_r_hat(values) == pytest.approx(math.sqrt((within / 2 + between / 2) / within))
    # of an odd number of draws the middle one is left out
    assert split_r_hat(np.insert(values, 2, 99.0, axis=1)) == split_r_hat(values)


def test_r_hat_of_chains_that_agree_disagree_and_stand_still() -> None:
    rng = np.random.default_rng(0)
    alike = rng.normal(size=(4, 1000))
    assert 0.99 < split_r_hat(alike) < 1.01
    assert split_r_hat(alike + np.arange(4)[:, None]) > 1.3
    assert split_r_hat(np.sort(alike, axis=1)) > 1.3  # each of them drifts
    assert split_r_hat(np.full((4, 10), -1e5) + 1e-11 * rng.normal(size=(4, 10))) == 1
    assert split_r_hat(np.repeat([[1.0], [2.0]], 10, axis=1)) == math.inf


def test_disagreement_is_noted_and_fits_into_json() -> None:
    labels = np.zeros(2, np.int16)
    still = Confidence(labels, np.zeros((4, 2), np.int16), np.eye(2)[labels], math.inf, 0.25, 4, 2, 0.0)
    (note,) = still.notes()
    assert note.startswith("chains disagree: R-hat inf, and memberships differ by up to 0.75;")
    document = json.loads(json.dumps(still.to_json(), allow_nan=False))
    assert document == {
        "membership": [[1, 0], [1, 0]],
        "confidence": [1, 1],
        "expected_accuracy": 1,
        "r_hat": None,
        "chain_agreement": 0.25,
    }


def test_chains_that_cannot_meet_disagree() -> None:
    """Two ways to cut a square into two pairs, each held by its own restart, with a valley in between."""
    rng = np.random.default_rng(0)
    corners = np.array([[0.0, 0.0], [0.0, 8.0], [8.0, 0.0], [8.0, 8.0]])
    X = np.repeat(corners, 20, axis=0) + rng.normal(scale=0.2, size=(80, 2))
    case = Case(X, [], 2, "unsupervised", covariance="tied")
    (run,) = restarts_of(case, 1)
    rows, columns = np.repeat([0, 0, 1, 1], 20), np.repeat([0, 1, 0, 1], 20)
    runs = [
        run._replace(labels=cut.astype(np.int16), objective=float(number), sizes=np.bincount(cut) + number)
        for number, cut in enumerate((rows, columns))
    ]
    found = find_confidence(case.problem(), runs, 1, 0)
    assert found.starts == 2
    assert found.chain_agreement == 0
    assert found.r_hat > 1.1
    assert found.expected_accuracy == pytest.approx(0.75)
    assert len(list(found.notes())) == 1
    assert together(found.draws, np.array([[0, 1], [0, 25], [0, 65]])) == pytest.approx([1, 0.5, 0])


def test_pairs_are_counted_over_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 3, size=(50, 9)).astype(np.int16)
    pairs = rng.integers(0, 9, size=(11, 2))
    expected = [np.mean([draw[i] == draw[j] for draw in draws]) for i, j in pairs]
    monkeypatch.setattr(confidence, "PAIRS_AT_ONCE", 4)
    assert together(draws, pairs).tolist() == pytest.approx(expected)
    assert together(draws, pairs[:0]).shape == (0,)


def test_draws_of_many_samples_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "LARGEST", 24 * 4 * 10)
    assert confidence_of(draw_case(2, model="conditional")).draws.shape == (40, 24)
    monkeypatch.setattr(confidence, "LARGEST", 1)
    assert confidence_of(draw_case(2, model="conditional")).draws.shape == (8, 24)


def test_degenerate_rows_one_cluster_and_one_sample_in_each() -> None:
    X = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(9, 1, size=(10, 2))])
    must = Layer(MUST, np.array([[0, 9]]), None, 0.8)
    assert np.isfinite(confidence_of(Case(X, [must], 2, "posterior")).membership).all()
    assert (confidence_of(Case(X, [must], 1, "posterior")).membership == 1).all()
    alone = confidence_of(Case(X[4:], [], 11, "unsupervised", min_size=1, kappa=1.0))
    assert (alone.confidence == 1).all()
