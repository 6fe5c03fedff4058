"""Fitting one data set: the best of some restarts, its scores, its JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from solving.blobs import far_clusters
from solving.oracles import Case, draw_case
from solving.tiny import COVARIANCES, MODELS

import pipeline.fit.solve as module
from kernels.partition.objective import objective_terms
from kernels.problem.problem import CANNOT, MUST, Layer, build_problem
from kernels.scores import annotation_agreement, nmi
from kernels.search.genetic import Restart, run_restart
from kernels.search.sampling import run_chain
from kernels.settings import AUTO, ObjectiveSettings, Settings
from pipeline.fit import solve as confidence
from pipeline.fit.estimator import AnnotatedClustering
from pipeline.fit.solve import (
    CHAINS,
    LENGTH,
    REACH,
    Confidence,
    FitResult,
    assignment_costs,
    contradiction_notes,
    distinct_starts,
    find_confidence,
    fit,
    split_r_hat,
    to_json,
    together,
    weighted_agreement,
)
from sweeps.data.builtin import find

# Costs of samples are those of scipy's normal densities.

RNG = np.random.default_rng(5)
CENTERS = RNG.normal(size=(3, 4))
ROOTS = RNG.normal(size=(3, 4, 6)) * np.array([0.05, 1.0, 2.0, 30.0])[:, None]
FULL = ROOTS @ np.swapaxes(ROOTS, 1, 2)
DIAGONAL = FULL.diagonal(axis1=1, axis2=2).copy()
X = RNG.normal(size=(20, 4)) * np.array([0.05, 1.0, 2.0, 30.0])
ALL = np.arange(4)


@pytest.mark.parametrize("covariances", [DIAGONAL.mean(axis=1), DIAGONAL, FULL])
def test_costs_are_minus_log_densities(covariances: np.ndarray) -> None:
    found = assignment_costs(X, CENTERS, covariances, ALL)
    for k, covariance in enumerate(covariances):
        matrix = covariance * np.eye(4) if covariance.ndim < 2 else covariance
        density = multivariate_normal(CENTERS[k], matrix)
        wanted = -density.logpdf(X) - 2 * np.log(2 * np.pi)
        np.testing.assert_allclose(found[:, k], wanted, rtol=1e-8)
    alone = np.concatenate([assignment_costs(x[None], CENTERS, covariances, ALL) for x in X])
    np.testing.assert_array_equal(found, alone)


def test_features_left_out_play_no_part() -> None:
    kept = np.array([1, 3])
    for covariances, part in ((DIAGONAL, DIAGONAL[:, kept]), (FULL, FULL[:, kept][:, :, kept])):
        found = assignment_costs(X, CENTERS, covariances, kept)
        wanted = assignment_costs(X[:, kept], CENTERS[:, kept], part, np.arange(2))
        np.testing.assert_array_equal(found, wanted)


def test_degenerate_clusters_cost_everything() -> None:
    for covariances in (DIAGONAL.mean(axis=1), DIAGONAL, FULL):
        some = covariances.copy()
        some[1] = 0.0
        found = assignment_costs(X, CENTERS, some, ALL)
        assert np.isinf(found[:, 1]).all()
        assert np.isfinite(found[:, [0, 2]]).all()


# How sure a solution is of its labels: starts, membership, agreement of chains, pairs.

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


# A fit says when its likelihood is unbounded, and the variance prior takes the units away.

SMALL = Settings(population=4, offspring=4, generations=2)


def solve_of_notes(X: np.ndarray, *layers: Layer, **changes: object) -> FitResult:
    own = {name: changes.pop(name) for name in vars(ObjectiveSettings()) if name in changes}
    given = {"n_clusters": 2, "model": "unsupervised", "restarts": 2, "seed": 3} | changes
    return fit(X, layers, settings=replace(SMALL, **own), **given)  # type: ignore[arg-type]


def overlapping(n: int = 60) -> np.ndarray:
    """Two clusters in three features, no two rows alike."""
    rng = np.random.default_rng(8)
    return rng.normal(size=(n, 3)) * 2 + 3 * rng.integers(2, size=n)[:, None]


def some_layers(n_samples: int, p: float = 0.8) -> list[Layer]:
    rng = np.random.default_rng(5)
    return [
        Layer(kind, rng.integers(n_samples, size=(n_samples // 2, 2)), None, p) for kind in (MUST, CANNOT)
    ]


def test_nothing_to_say_of_plain_data() -> None:
    assert solve_of_notes(overlapping()).notes == ()
    assert solve_of_notes(far_clusters()[0], n_clusters=3).notes == ()
    assert solve_of_notes(overlapping(), variance_prior=1.0).notes == ()


@pytest.mark.parametrize("jitter", [0.0, 1e-9])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_duplicates_and_near_duplicates_are_said(jitter: float, offset: float) -> None:
    rng = np.random.default_rng(0)
    # in these units the clusters of equal rows are worth more than any other
    equal = np.repeat(rng.normal(0, 9, size=(2, 3)), 10, axis=0)
    X = (
        np.concatenate([equal + jitter * rng.normal(size=equal.shape), rng.normal(0, 9, size=(20, 3))])
        + offset
    )
    result = solve_of_notes(X, n_clusters=3)
    assert (result.best.covariances == 0).sum() == 2
    (note,) = result.notes
    assert note.startswith("2 clusters are degenerate, a single row or (nearly) equal ones")
    assert "--variance-prior" in note
    assert note.endswith("; 18 of 40 rows repeat another one")
    bounded = solve_of_notes(X, n_clusters=3, variance_prior=1.0)
    assert (bounded.best.covariances > 0).all()
    assert not any("degenerate" in note for note in bounded.notes)


def test_nearly_equal_rows_that_are_not_degenerate_are_said() -> None:
    X = np.concatenate([overlapping(30), 50 + 1e-3 * overlapping(10)])
    result = solve_of_notes(X)
    assert (result.best.covariances > 0).all()
    (note,) = result.notes
    assert note.startswith("1 cluster has a variance below 1e-06 of the overall one")


def test_prior_alone_gives_a_variance_and_that_is_said() -> None:
    X = np.concatenate([overlapping(20), np.full((10, 3), 90.0)])
    (note,) = solve_of_notes(X, variance_prior=2.0).notes
    assert note.startswith("1 cluster holds nothing but (nearly) equal rows")


@pytest.mark.parametrize("jitter", [0.0, 1e-9])
def test_common_variance_is_degenerate_only_with_all_clusters(jitter: float) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(3, 2)), 5, axis=0) + jitter * rng.normal(size=(15, 2))
    assert solve_of_notes(X, covariance="common").notes == ()
    # large units: 0 is the best there is
    first, second = solve_of_notes(1e3 * X, n_clusters=3, covariance="common").notes
    assert first.startswith("as many clusters as distinct rows (3 of 15)")
    assert second.startswith("all clusters hold nothing but (nearly) equal rows: the common variance is next")
    # small ones: anything else is better, if the search comes across it
    assert solve_of_notes(1e-3 * X, n_clusters=3, covariance="common").notes[0] == first
    notes = solve_of_notes(X, n_clusters=3, covariance="common", variance_prior=1.0).notes
    assert notes[0] == first
    assert notes[1].endswith("the common variance comes from the prior alone")


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9])
def test_constant_features_are_said(constant: float) -> None:
    X = np.column_stack([overlapping(), np.full(60, constant), np.full(60, constant)])
    (note,) = solve_of_notes(X).notes
    assert note.startswith("2 features are constant, of 5")
    nearly = np.column_stack([overlapping(), 1e-9 * np.arange(60) / 60])
    (note,) = solve_of_notes(nearly).notes
    assert note.startswith("1 feature varies by less than 1e-09 of all, of 4")


@pytest.mark.parametrize("variance_prior", [0.0, 1.0])
def test_as_many_clusters_as_rows_are_said(variance_prior: float) -> None:
    X = overlapping(6)
    given = {"min_cluster_size": 1, "variance_prior": variance_prior}
    notes = solve_of_notes(X, n_clusters=6, **given).notes
    assert notes[0].startswith("as many clusters as rows:")
    assert len(notes) == 2
    repeated = solve_of_notes(np.repeat(X, 3, axis=0), n_clusters=6, **given).notes
    assert repeated[0].startswith("as many clusters as distinct rows (6 of 18):")


def half_equal() -> np.ndarray:
    X = overlapping(80)
    X[::2] = X[0]
    return X


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("variance_prior", [0.5, 4.0])
def test_units_do_not_matter_under_a_variance_prior(
    model: str, covariance: str, variance_prior: float
) -> None:
    X, layers = half_equal(), some_layers(80)
    given = {"n_clusters": 3, "model": model, "covariance": covariance}
    fits = [
        solve_of_notes(unit * X, *layers, **given, variance_prior=variance_prior)
        for unit in (1.0, 1024.0, 1 / 1024)
    ]
    assert len({result.best.labels.tobytes() for result in fits}) == 1
    # the density of the features and that of the pseudo-samples scale alike; other priors scale themselves
    n_variances = {"spherical": 3, "common": 1}.get(covariance, 0)
    shift = (80 + n_variances * variance_prior) * 3 * np.log(1024)
    assert fits[0].best.gmm - fits[1].best.gmm == pytest.approx(shift)
    assert fits[0].best.centroids.tolist() == (fits[1].best.centroids / 1024).tolist()
    assert fits[0].best.covariances.tolist() == (fits[1].best.covariances / 1024**2).tolist()
    best = fits[1].best
    problem = build_problem(1024 * X, layers, **given, settings=replace(SMALL, variance_prior=variance_prior))
    terms = objective_terms(problem, best.labels)
    assert terms == (best.gmm, best.sbm, best.prior)


def test_restarts_do_not_depend_on_units_either() -> None:
    """The best of several, by the objective in the units given, as sweeps choose it."""
    X, layers = half_equal(), some_layers(80)
    settings = replace(SMALL, generations=6, variance_prior=1.0)
    found = []
    for unit in (1.0, 1024.0, 2.0**-30):
        problem = build_problem(unit * X, layers, n_clusters=3, model="posterior", settings=settings)
        runs = [run_restart(problem, settings, np.random.default_rng(seed)) for seed in range(12)]
        best = int(np.argmax([run.objective for run in runs]))
        found.append((best, *(run.labels.tobytes() for run in runs)))
        for run in runs:
            assert run.labels[np.sort(np.unique(run.labels, return_index=True)[1])].tolist() == [0, 1, 2]
    assert found[0] == found[1] == found[2]


def test_units_matter_without_one() -> None:
    """Were it not so, the tests beside this one would show nothing."""
    X = half_equal()
    fits = [solve_of_notes(unit * X, *some_layers(80), model="likelihood") for unit in (1024.0, 1 / 1024)]
    assert fits[0].notes[0].startswith("1 cluster is degenerate")
    assert fits[1].notes[0].startswith("40 of 80 rows are (nearly) equal")


@pytest.mark.parametrize("model", ["unsupervised", "posterior"])
def test_units_do_not_matter_for_rows_that_repeat(model: str, raw_data: Path) -> None:
    X = find("breast-cancer", data_dir=raw_data, download=False).table.X
    assert len(X) - len(np.unique(X, axis=0)) == 234
    fits = [
        solve_of_notes(unit * X, *some_layers(len(X)), model=model, restarts=1, variance_prior=1.0)
        for unit in (1.0, 1024.0)
    ]
    assert fits[0].best.labels.tobytes() == fits[1].best.labels.tobytes()
    assert fits[0].best.covariances.min() > 0
    assert all(note.startswith("the clusters contradict") for note in fits[0].notes)  # links are random


def test_features_that_shapes_leave_out_are_counted() -> None:
    X = np.column_stack([overlapping(60), np.ones(60)])
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    assert (
        solve_of_notes(X, covariance="diagonal")
        .notes[0]
        .startswith("1 feature is constant and left out of the cov")
    )
    assert (
        solve_of_notes(X, covariance="full")
        .notes[0]
        .startswith("2 features are constant, or given by the others,")
    )
    assert solve_of_notes(X[:, :3], covariance="tied").notes == ()


def test_full_covariances_of_few_samples_are_said_to_be_those_of_the_prior() -> None:
    X = np.random.default_rng(1).normal(size=(12, 5))
    assert any(
        "owes much to the prior" in note for note in solve_of_notes(X, n_clusters=3, covariance="full").notes
    )
    assert solve_of_notes(X, n_clusters=3, covariance="tied").notes == ()


def test_degenerate_variances_of_features_without_a_prior_are_announced() -> None:
    X = overlapping(40)
    X[:20, 1] = 0.5
    notes = solve_of_notes(X, n_clusters=2, covariance="diagonal", covariance_prior=0.0).notes
    prior = solve_of_notes(X, n_clusters=2, covariance="diagonal").notes
    assert any("without variance in some feature" in note for note in notes) or notes == prior == ()
    assert not any("degenerate" in note for note in prior)


@pytest.mark.parametrize("factor", [1e-12, 1e-160, 1e-300, 1e12, 1e149])
def test_units_make_no_feature_constant(factor: float) -> None:
    X = overlapping() * [factor, 1.0, 1.0]
    said = "1 feature varies by less" if factor < 1 else "2 features vary by less"
    for covariance in COVARIANCES:
        notes = " ".join(solve_of_notes(X, covariance=covariance).notes)
        assert (said in notes) == (covariance in ("spherical", "common"))
        assert "constant, of" not in notes


@pytest.mark.parametrize("mean", [0.1, 1e9, 1e15])
def test_rounding_around_a_large_mean_is_constant(mean: float) -> None:
    (note,) = solve_of_notes(np.column_stack([overlapping(), mean * (1 + 4e-16 * np.arange(60) / 60)])).notes
    assert note.startswith("1 feature is constant")


@pytest.mark.parametrize(
    ("accuracy", "weight", "contradicted", "is_said"),
    [
        (0.9, 1.0, 100, True),
        (0.9, 1.0, 10, False),
        (0.9, 1.0, 20, False),
        (0.9, 1.0, 21, True),
        (0.9, 1e-100, 100, True),
        (0.9, 1e12, 100, True),
        (0.2, 1.0, 80, False),
        (1.0, 1.0, 1, True),
        (1.0, 1.0, 0, False),
        (None, 1.0, 50, False),
        (None, 1.0, 66, True),
    ],
)
def test_contradictions_that_no_accuracy_explains(
    accuracy: float | None, weight: float, contradicted: int, is_said: bool
) -> None:
    labels = np.repeat([0, 1], 100)
    pairs = np.array([[i, 100 + i if i < contradicted else (i + 1) % 100] for i in range(100)])
    layers = [
        Layer(MUST, pairs, np.full(100, weight), accuracy),
        Layer(
            CANNOT, np.array([[3, 3]]), np.array([1e3]), accuracy
        ),  # contradicts any clusters, and is left out
        Layer(MUST, pairs[:0], None, accuracy),
    ]
    notes = list(contradiction_notes(layers, labels))
    assert len(notes) == is_said
    told = "guessing" if accuracy is None else f"an accuracy of {accuracy:.4g}"
    counts = f"{contradicted * weight:.4g} of {100 * weight:.4g}"
    start = f"the clusters contradict {counts} annotations, {told} explains"
    assert all(note.startswith(start) for note in notes)


@pytest.mark.parametrize("model", MODELS)
def test_a_fit_that_contradicts_all_says_so(model: str) -> None:
    """Must-links across two clusters far apart, which the least size keeps from becoming one."""
    X = np.concatenate([np.random.default_rng(0).normal(size=(60, 2)) + shift for shift in (0, 900)])
    layer = Layer(MUST, np.array([[i, i + 60] for i in range(60)]), None, 0.9)
    result = solve_of_notes(X, layer, model=model, min_cluster_size=60)
    assert result.notes[-1].startswith(
        "the clusters contradict 60 of 60 annotations, an accuracy of 0.9 expl"
    )
    estimator = AnnotatedClustering(
        2, model=model, accuracy=0.9, min_cluster_size=60, random_state=0, restarts=1, generations=2
    )
    with pytest.warns(UserWarning, match="the clusters contradict 60 of 60"):
        estimator.fit(X, must_link=layer.pairs)
    assert estimator.notes_[-1].startswith("the clusters contradict 60 of 60")


KEYS = [
    "model",
    "covariance",
    "feature_weight",
    "method",
    "settings",
    "objective",
    "gmm",
    "sbm",
    "prior",
    "labels",
    "sizes",
    "centroids",
    "covariances",
    "restart_objectives",
    "best_restart",
    "local_searches",
    "evaluations",
    "seconds",
    "cpu_seconds",
    "scores",
    "held_out",
    "notes",
]
SCORES = ["nmi", "goldberger_kl", "centroid_index", "annotation_agreement"]


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    return far_clusters()


def solve(X: np.ndarray, *layers: Layer, **changes: object) -> FitResult:
    settings = {
        "n_clusters": 3,
        "model": "unsupervised",
        "restarts": 2,
        "settings": TINY,
        "seed": 1,
    } | changes
    return fit(X, layers, **settings)  # type: ignore[arg-type]


def test_far_clusters_are_found(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = blobs
    result = solve(X, labels_true=labels)
    assert nmi(labels, result.best.labels) == pytest.approx(1)
    assert result.scores.nmi == pytest.approx(1)
    assert result.scores.goldberger_kl == pytest.approx(0, abs=1e-9)
    assert result.scores.centroid_index == 0
    assert result.scores.annotation_agreement is None
    assert sorted(result.best.sizes.tolist()) == [10, 10, 10]
    for cluster in range(3):
        members = X[result.best.labels == cluster]
        np.testing.assert_allclose(result.best.centroids[cluster], members.mean(axis=0))
        np.testing.assert_allclose(result.best.covariances[cluster], members.var(axis=0).mean())


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_objective_is_that_of_the_labels(
    model: str, covariance: str, blobs: tuple[np.ndarray, np.ndarray]
) -> None:
    X, _ = blobs
    layers = [
        Layer(MUST, np.array([[0, 1], [4, 4]]), np.array([1.0, 2.0]), 0.8),
        Layer(CANNOT, np.array([[0, 15]]), None, 0.8),
    ]
    result = solve(X, *layers, model=model, covariance=covariance)
    problem = build_problem(X, layers, n_clusters=3, model=model, covariance=covariance)
    terms = objective_terms(problem, result.best.labels)
    assert (result.best.gmm, result.best.sbm, result.best.prior) == terms
    assert result.best.objective == sum(terms)
    assert result.best.objective == max(result.restart_objectives)
    assert (result.best.sbm != 0) == (model != "unsupervised")
    assert (result.best.prior != 0) == (model == "posterior")
    assert (result.model, result.covariance) == (model, covariance)
    assert (len(np.unique(result.best.covariances, axis=0)) == 1) == (covariance in ("common", "tied"))
    shapes = {"diagonal": (3, 2), "tied": (2, 2), "full": (3, 2, 2)}
    assert result.covariances.shape == shapes.get(covariance, (3,))


def test_same_seed_same_bits_and_more_restarts_only_add(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    first, again = solve(X, restarts=2), solve(X, restarts=2)
    more, other = solve(X, restarts=5), solve(X, restarts=2, seed=2)
    assert first.best.labels.tobytes() == again.best.labels.tobytes()
    assert first.restart_objectives.tobytes() == again.restart_objectives.tobytes()
    assert more.restart_objectives[:2].tobytes() == first.restart_objectives.tobytes()
    assert len(set(more.restart_objectives)) > 1
    assert other.best.labels.tobytes() != first.best.labels.tobytes()


def test_restart_draws_from_its_own_seed_sequence() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    from kernels.search.genetic import run_restart

    problem = build_problem(X, n_clusters=3, model="unsupervised")
    streams = [np.random.default_rng(np.random.SeedSequence(9, spawn_key=(r,))) for r in range(3)]
    expected = [run_restart(problem, TINY, stream) for stream in streams]
    result = solve(X, restarts=3, seed=9)
    assert result.restart_objectives.tolist() == [restart.objective for restart in expected]
    assert result.local_searches == sum(restart.local_searches for restart in expected)
    assert result.evaluations == sum(restart.evaluations for restart in expected)
    assert result.best_restart == int(np.argmax(result.restart_objectives))


def test_lowest_restart_wins_ties(
    blobs: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = solve(blobs[0], restarts=1).best
    objectives = iter([1.0, 3.0, 3.0, 2.0])
    monkeypatch.setattr(
        "pipeline.fit.solve.run_restart", lambda *_: alike._replace(objective=next(objectives))
    )
    assert solve(blobs[0], restarts=4).best_restart == 1


def test_bad_input_is_answered_before_anything_is_compiled(
    blobs: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled() -> None:
        raise AssertionError("compiled")

    for name in ("warm_up", "warm_up_predictions"):
        monkeypatch.setattr(module, name, compiled)
    for covariance in (*COVARIANCES, AUTO):
        with pytest.raises(ValueError, match="not finite"):
            solve(np.where(blobs[0] == blobs[0][0], np.nan, blobs[0]), covariance=covariance)
    with pytest.raises(AssertionError, match="compiled"):
        solve(blobs[0])


def test_predictions_are_compiled_only_where_there_are_annotations(
    blobs: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(module, "warm_up_predictions", lambda: compiled.append("predictions"))
    X, labels = blobs
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(X), size=(80, 2))
    must = Layer(MUST, pairs[labels[pairs[:, 0]] == labels[pairs[:, 1]]])
    assert solve(X, must, covariance=AUTO).held_out == {}
    assert solve(X, covariance=AUTO, model="conditional").held_out == {}
    assert solve(X, must, model="conditional").held_out == {}
    assert compiled == []
    one = solve(X, must, model="conditional", predict_annotations=True)
    assert compiled == ["predictions"]
    assert list(one.predictions) == ["spherical"]
    assert one.predictions["spherical"]["log_loss"] == one.held_out["spherical"].log_loss
    every = solve(X, must, model="conditional", covariance=AUTO)
    assert to_json(every)["held_out"] == every.predictions
    assert list(every.predictions) == ["spherical", "diagonal", "tied", "full"]


def test_too_few_annotations_are_noted_only_if_the_shape_was_to_be_chosen(
    blobs: tuple[np.ndarray, np.ndarray],
) -> None:
    few = Layer(MUST, np.array([[0, 1], [2, 3]]))
    asked = {"model": "conditional", "predict_annotations": True}
    assert any("too few" in note for note in solve(blobs[0], few, covariance=AUTO, **asked).notes)
    assert not any("too few" in note for note in solve(blobs[0], few, **asked).notes)


def test_json_is_strict_and_counts_from_zero(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = blobs
    result = solve(X, Layer(MUST, np.array([[0, 1]])), labels_true=labels, model="likelihood")
    document = json.loads(json.dumps(to_json(result), allow_nan=False))
    assert list(document) == KEYS
    assert list(document["scores"]) == SCORES
    assert set(document["labels"]) == {0, 1, 2}
    assert np.shape(document["centroids"]) == (3, 2)
    assert document["objective"] == document["gmm"] + document["sbm"] + document["prior"]
    assert document["scores"]["annotation_agreement"] == 1


def test_confidence_is_there_if_asked_for(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    plain, sure = solve(X), solve(X, confidence=True)
    assert plain.confidence is None
    assert sure.best.labels.tobytes() == plain.best.labels.tobytes()
    assert sure.confidence is not None
    assert sure.confidence.labels is sure.best.labels
    document = json.loads(json.dumps(to_json(sure), allow_nan=False))
    added = ["membership", "confidence", "expected_accuracy", "r_hat", "chain_agreement"]
    assert list(document) == [*KEYS, *added]
    assert document["membership"] == sure.confidence.membership.tolist()
    assert document["notes"] == [*to_json(plain)["notes"], *sure.confidence.notes()]


def test_scores_that_are_not_defined_are_null() -> None:
    X = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(9, 1, size=(10, 2))])
    labels = np.repeat([0, 1], [5, 10])
    result = solve(X, n_clusters=2, labels_true=labels)
    assert 0.0 in result.best.covariances
    assert result.scores.goldberger_kl is None
    assert result.scores.nmi == pytest.approx(1)
    assert solve(X, n_clusters=2).scores == type(result.scores)(None, None, None, None)


def test_agreement_counts_annotations_as_the_kernels_do() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(3, size=20).astype(np.int16)
    must, cannot = rng.integers(20, size=(15, 2)), rng.integers(20, size=(25, 2))
    must[0] = cannot[0] = 7
    table = np.concatenate(
        [np.column_stack([must, np.full(15, MUST)]), np.column_stack([cannot, np.full(25, CANNOT)])]
    )
    layers = [Layer(MUST, must), Layer(CANNOT, cannot, np.ones(25))]
    assert weighted_agreement(layers, labels) == pytest.approx(annotation_agreement(table, labels))
    weights = rng.integers(1, 4, size=15)
    repeated = [Layer(MUST, np.repeat(must, weights, axis=0)), Layer(CANNOT, cannot)]
    weighted = [Layer(MUST, must, weights.astype(float)), Layer(CANNOT, cannot)]
    assert weighted_agreement(weighted, labels) == pytest.approx(weighted_agreement(repeated, labels))
    assert math.isnan(weighted_agreement([Layer(MUST, must[:0])], labels))
