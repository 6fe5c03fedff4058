"""A fit says when its likelihood is unbounded, and the variance prior takes the units away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from solving.blobs import far_clusters
from solving.tiny import COVARIANCES, MODELS

from kernels.partition.objective import objective_terms
from kernels.problem.problem import CANNOT, MUST, Layer, build_problem
from kernels.search.genetic import run_restart
from kernels.settings import ObjectiveSettings, Settings
from pipeline.fit.estimator import AnnotatedClustering
from pipeline.fit.notes import contradiction_notes
from pipeline.fit.solve import FitResult, fit
from sweeps.data.builtin import find

SMALL = Settings(population=4, offspring=4, generations=2)


def solve(X: np.ndarray, *layers: Layer, **changes: object) -> FitResult:
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
    assert solve(overlapping()).notes == ()
    assert solve(far_clusters()[0], n_clusters=3).notes == ()
    assert solve(overlapping(), variance_prior=1.0).notes == ()


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
    result = solve(X, n_clusters=3)
    assert (result.best.covariances == 0).sum() == 2
    (note,) = result.notes
    assert note.startswith("2 clusters are degenerate, a single row or (nearly) equal ones")
    assert "--variance-prior" in note
    assert note.endswith("; 18 of 40 rows repeat another one")
    bounded = solve(X, n_clusters=3, variance_prior=1.0)
    assert (bounded.best.covariances > 0).all()
    assert not any("degenerate" in note for note in bounded.notes)


def test_nearly_equal_rows_that_are_not_degenerate_are_said() -> None:
    X = np.concatenate([overlapping(30), 50 + 1e-3 * overlapping(10)])
    result = solve(X)
    assert (result.best.covariances > 0).all()
    (note,) = result.notes
    assert note.startswith("1 cluster has a variance below 1e-06 of the overall one")


def test_prior_alone_gives_a_variance_and_that_is_said() -> None:
    X = np.concatenate([overlapping(20), np.full((10, 3), 90.0)])
    (note,) = solve(X, variance_prior=2.0).notes
    assert note.startswith("1 cluster holds nothing but (nearly) equal rows")


@pytest.mark.parametrize("jitter", [0.0, 1e-9])
def test_common_variance_is_degenerate_only_with_all_clusters(jitter: float) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(3, 2)), 5, axis=0) + jitter * rng.normal(size=(15, 2))
    assert solve(X, covariance="common").notes == ()
    # large units: 0 is the best there is
    first, second = solve(1e3 * X, n_clusters=3, covariance="common").notes
    assert first.startswith("as many clusters as distinct rows (3 of 15)")
    assert second.startswith("all clusters hold nothing but (nearly) equal rows: the common variance is next")
    # small ones: anything else is better, if the search comes across it
    assert solve(1e-3 * X, n_clusters=3, covariance="common").notes[0] == first
    notes = solve(X, n_clusters=3, covariance="common", variance_prior=1.0).notes
    assert notes[0] == first
    assert notes[1].endswith("the common variance comes from the prior alone")


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9])
def test_constant_features_are_said(constant: float) -> None:
    X = np.column_stack([overlapping(), np.full(60, constant), np.full(60, constant)])
    (note,) = solve(X).notes
    assert note.startswith("2 features are constant, of 5")
    nearly = np.column_stack([overlapping(), 1e-9 * np.arange(60) / 60])
    (note,) = solve(nearly).notes
    assert note.startswith("1 feature varies by less than 1e-09 of all, of 4")


@pytest.mark.parametrize("variance_prior", [0.0, 1.0])
def test_as_many_clusters_as_rows_are_said(variance_prior: float) -> None:
    X = overlapping(6)
    given = {"min_cluster_size": 1, "variance_prior": variance_prior}
    notes = solve(X, n_clusters=6, **given).notes
    assert notes[0].startswith("as many clusters as rows:")
    assert len(notes) == 2
    repeated = solve(np.repeat(X, 3, axis=0), n_clusters=6, **given).notes
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
        solve(unit * X, *layers, **given, variance_prior=variance_prior) for unit in (1.0, 1024.0, 1 / 1024)
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
    fits = [solve(unit * X, *some_layers(80), model="likelihood") for unit in (1024.0, 1 / 1024)]
    assert fits[0].notes[0].startswith("1 cluster is degenerate")
    assert fits[1].notes[0].startswith("40 of 80 rows are (nearly) equal")


@pytest.mark.parametrize("model", ["unsupervised", "posterior"])
def test_units_do_not_matter_for_rows_that_repeat(model: str, raw_data: Path) -> None:
    X = find("breast-cancer", data_dir=raw_data, download=False).table.X
    assert len(X) - len(np.unique(X, axis=0)) == 234
    fits = [
        solve(unit * X, *some_layers(len(X)), model=model, restarts=1, variance_prior=1.0)
        for unit in (1.0, 1024.0)
    ]
    assert fits[0].best.labels.tobytes() == fits[1].best.labels.tobytes()
    assert fits[0].best.covariances.min() > 0
    assert all(note.startswith("the clusters contradict") for note in fits[0].notes)  # links are random


def test_features_that_shapes_leave_out_are_counted() -> None:
    X = np.column_stack([overlapping(60), np.ones(60)])
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    assert (
        solve(X, covariance="diagonal").notes[0].startswith("1 feature is constant and left out of the cov")
    )
    assert solve(X, covariance="full").notes[0].startswith("2 features are constant, or given by the others,")
    assert solve(X[:, :3], covariance="tied").notes == ()


def test_full_covariances_of_few_samples_are_said_to_be_those_of_the_prior() -> None:
    X = np.random.default_rng(1).normal(size=(12, 5))
    assert any("owes much to the prior" in note for note in solve(X, n_clusters=3, covariance="full").notes)
    assert solve(X, n_clusters=3, covariance="tied").notes == ()


def test_degenerate_variances_of_features_without_a_prior_are_announced() -> None:
    X = overlapping(40)
    X[:20, 1] = 0.5
    notes = solve(X, n_clusters=2, covariance="diagonal", covariance_prior=0.0).notes
    prior = solve(X, n_clusters=2, covariance="diagonal").notes
    assert any("without variance in some feature" in note for note in notes) or notes == prior == ()
    assert not any("degenerate" in note for note in prior)


@pytest.mark.parametrize("factor", [1e-12, 1e-160, 1e-300, 1e12, 1e149])
def test_units_make_no_feature_constant(factor: float) -> None:
    X = overlapping() * [factor, 1.0, 1.0]
    said = "1 feature varies by less" if factor < 1 else "2 features vary by less"
    for covariance in COVARIANCES:
        notes = " ".join(solve(X, covariance=covariance).notes)
        assert (said in notes) == (covariance in ("spherical", "common"))
        assert "constant, of" not in notes


@pytest.mark.parametrize("mean", [0.1, 1e9, 1e15])
def test_rounding_around_a_large_mean_is_constant(mean: float) -> None:
    (note,) = solve(np.column_stack([overlapping(), mean * (1 + 4e-16 * np.arange(60) / 60)])).notes
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
    result = solve(X, layer, model=model, min_cluster_size=60)
    assert result.notes[-1].startswith(
        "the clusters contradict 60 of 60 annotations, an accuracy of 0.9 expl"
    )
    estimator = AnnotatedClustering(
        2, model=model, accuracy=0.9, min_cluster_size=60, random_state=0, restarts=1, generations=2
    )
    with pytest.warns(UserWarning, match="the clusters contradict 60 of 60"):
        estimator.fit(X, must_link=layer.pairs)
    assert estimator.notes_[-1].startswith("the clusters contradict 60 of 60")
