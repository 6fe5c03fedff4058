"""A fit of one data set keeps the best of some restarts, with scores, JSON and notes."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from solving.blobs import far_clusters
from solving.oracles import Case, draw_case

from sweep_clustering.kernels import fits
from sweep_clustering.kernels.problem.data import CANNOT, MUST
from sweep_clustering.kernels.problem.problem import Layer
from sweep_clustering.kernels.search import genetic
from sweep_clustering.kernels.settings import ObjectiveSettings, Settings
from sweep_clustering.kernels.solver.contract import Model, Solver
from sweep_clustering.kernels.solver.prepare import CHAINS, REACH, distinct_fits, prepare
from sweep_clustering.pipeline.fit import confidence, inputs, solve
from sweep_clustering.pipeline.fit.alarms import PairAnswers, contradictions
from sweep_clustering.pipeline.fit.data_notes import equal_rows
from sweep_clustering.sweeps.annotations.rows import Annotation, AnnotationRows, Samples
from sweep_clustering.sweeps.data.table import SampleRows
from sweep_clustering.sweeps.errors import Problem, collecting

SMALL = Settings(population=4, offspring=4, generations=2)
BLOBS, CLASSES = far_clusters()


def fit_layers(X: np.ndarray, *layers: Layer, **changes: object) -> solve.FitResult:
    objective = {name: changes.pop(name) for name in vars(ObjectiveSettings()) if name in changes}
    options = {"n_clusters": 3, "model": "unsupervised", "restarts": 2, "seed": 3} | changes
    return solve.fit(X, layers, settings=replace(SMALL, **objective), **options)  # type: ignore[arg-type]


# The best of some restarts.


def test_far_clusters_are_found_and_scored() -> None:
    result = fit_layers(BLOBS, Layer(MUST, np.array([[0, 1]])), labels_true=CLASSES, model="likelihood")
    assert sorted(result.best.sizes.tolist()) == [10, 10, 10]
    for cluster in range(3):
        members = BLOBS[result.best.labels == cluster]
        np.testing.assert_allclose(result.best.centroids[cluster], members.mean(axis=0))
        np.testing.assert_allclose(result.best.covariances[cluster], members.var(axis=0).mean())
    document = json.loads(json.dumps(solve.to_json(result), allow_nan=False))
    assert set(document) >= {"model", "settings", "labels", "sizes", "covariances", "held_out", "seconds"}
    scores = {"nmi": 1, "nmi_arithmetic": 1, "ari": 1, "goldberger_kl": 0, "centroid_index": 0}
    scores["annotation_agreement"] = 1
    assert document["scores"] == pytest.approx(scores, abs=1e-9)
    assert set(document["labels"]) == {0, 1, 2}
    assert np.shape(document["centroids"]) == (3, 2)
    assert document["objective"] == document["gmm"] + document["sbm"] + document["prior"]
    # one cluster has equal rows
    X = np.concatenate([np.zeros((5, 2)), np.random.default_rng(0).normal(9, 1, size=(10, 2))])
    result = fit_layers(X, n_clusters=2, labels_true=np.repeat([0, 1], [5, 10]))
    assert 0.0 in result.best.covariances
    assert result.scores["goldberger_kl"] is None
    assert result.scores["nmi"] == pytest.approx(1)
    assert set(fit_layers(X, n_clusters=2).scores.values()) == {None}


def test_more_restarts_only_add_and_the_lowest_wins_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    first, more = fit_layers(X), fit_layers(X, restarts=5)
    assert more.restart_objectives[:2].tobytes() == first.restart_objectives.tobytes()
    assert len(set(more.restart_objectives)) > 1
    objectives = iter([1.0, 3.0, 3.0, 2.0])
    monkeypatch.setattr(genetic, "run_restart", lambda *_: first.best._replace(objective=next(objectives)))
    assert fit_layers(X, restarts=4).best_restart == 1


# Costs of samples are those of scipy's normal densities.


@pytest.mark.parametrize("n_axes", [1, 2, 3])
def test_costs_are_minus_log_densities(n_axes: int) -> None:
    rng, units = np.random.default_rng(5), np.repeat([0.05, 1.0, 2.0, 30.0], 10)
    centers, roots = rng.normal(size=(3, 40)), rng.normal(size=(3, 40, 60)) * units[:, None]
    covariances = roots @ np.swapaxes(roots, 1, 2)
    if n_axes < 3:
        covariances = covariances.diagonal(axis1=1, axis2=2).copy()
    if n_axes == 1:
        covariances = covariances.mean(axis=1)
    X, axes = rng.normal(size=(50, 40)) * units, np.arange(3, 40)
    costs = fits.assignment_costs(X, centers, covariances, axes)
    for k, covariance in enumerate(covariances):
        whole = covariance * np.eye(40) if n_axes < 3 else covariance
        density = multivariate_normal(centers[k, axes], whole[np.ix_(axes, axes)])
        expected = -density.logpdf(X[:, axes]) - len(axes) / 2 * np.log(2 * np.pi)
        np.testing.assert_allclose(costs[:, k], expected, rtol=1e-8)
    # no bit depends on the other rows
    for rows in (slice(1), slice(7, 8), slice(0, 50, 3), slice(10, 31)):
        np.testing.assert_array_equal(fits.assignment_costs(X[rows], centers, covariances, axes), costs[rows])
    covariances[1] = 0.0
    assert np.isinf(fits.assignment_costs(X, centers, covariances, axes)[:, 1]).all()


# How sure a solution is of its labels: starts, membership, agreement of chains, pairs.


def solver_of(case: Case) -> Solver:
    """Return the solver of a case."""
    settings = Settings(
        min_cluster_size=case.min_size,
        variance_prior=case.kappa,
        covariance_prior=case.covariance_prior,
        feature_weight=case.feature_weight,
        proportions=case.proportions,
    )
    model = Model(case.model, case.covariance, settings)
    return prepare(model, case.X, case.layers, case.n_clusters, np.random.SeedSequence(0))


def restarts_of(case: Case, count: int = 3) -> list[fits.Fit]:
    return [genetic.run_restart(case.problem(), SMALL, np.random.default_rng(r)) for r in range(count)]


@pytest.mark.parametrize(("model", "covariance"), [("conditional", "full"), ("posterior", "spherical")])
def test_membership_is_the_share_of_draws(
    model: str, covariance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = replace(draw_case(2, model=model, kappa=1.0), covariance=covariance)
    runs = restarts_of(case)
    best = int(np.argmax([run.objective for run in runs]))
    result = confidence.find_confidence(solver_of(case), runs, best, 0)
    assert result.label_draws.shape == (confidence.EFFORT.n_draws, 24)
    shares = np.stack([(result.label_draws == k).mean(axis=0) for k in range(3)], axis=1)
    np.testing.assert_allclose(result.membership, shares)
    assert result.expected_accuracy == pytest.approx(result.membership[range(24), result.labels].mean())
    assert 0 < result.expected_accuracy < 1
    assert 0 <= result.chain_agreement < 1
    # draws of many samples take bounded memory
    for most, n_draws in ((24 * CHAINS * 10, 10), (1, 2)):
        monkeypatch.setattr(confidence, "LARGEST", most)
        assert confidence.find_confidence(solver_of(case), runs, best, 0).label_draws.shape == (
            CHAINS * n_draws,
            24,
        )


def test_starts_are_the_best_distinct_restarts() -> None:
    (run,) = restarts_of(draw_case(2, model="likelihood"), 1)

    def run_of(objective: float, sizes: tuple[int, ...] = (10, 8, 6)) -> fits.Fit:
        return run._replace(objective=objective, sizes=np.array(sizes))

    runs = [
        run_of(3.0),
        run_of(5.0 - 2e-8),
        run_of(5.0),
        run_of(5.0 - 3e-8, (8, 10, 6)),
        run_of(5.0 - 4e-8, (9, 9, 6)),
    ]
    runs += [run_of(5.0 - REACH), run_of(4.9 - REACH)]
    starts = distinct_fits(runs, 2)
    assert [start.objective for start in starts] == [5.0, 5.0 - 4e-8, 3.0, 5.0 - REACH]
    assert starts[0] is runs[2]


def test_r_hat_by_hand_and_of_chains_that_agree_disagree_and_stand_still() -> None:
    values = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 2.5, 4.0, 5.0]])
    halves = values.reshape(4, 2)
    within, between = halves.var(axis=1, ddof=1).mean(), 2 * halves.mean(axis=1).var(ddof=1)
    assert confidence.split_r_hat(values) == pytest.approx(math.sqrt((within / 2 + between / 2) / within))
    # the middle one of an odd number of draws is left out
    assert confidence.split_r_hat(np.insert(values, 2, 99.0, axis=1)) == confidence.split_r_hat(values)
    alike = np.random.default_rng(0).normal(size=(4, 1000))
    assert 0.99 < confidence.split_r_hat(alike) < 1.01
    assert confidence.split_r_hat(np.sort(alike, axis=1)) > 1.3  # each of them drifts
    assert confidence.split_r_hat(-1e5 + 1e-11 * alike) == 1
    assert confidence.split_r_hat(np.repeat([[1.0], [2.0]], 10, axis=1)) == math.inf


def test_chains_that_cannot_meet_disagree() -> None:
    """There are two ways to cut a square into two pairs, one for each restart, with a valley in between."""
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
    result = confidence.find_confidence(solver_of(case), runs, 1, 0)
    assert result.starts == 2
    assert result.chain_agreement == 0
    assert result.r_hat > 1.1
    assert result.expected_accuracy == pytest.approx(0.75)
    assert len(list(result.notes())) == 1


# A fit says when its likelihood is unbounded.


def two_clusters(n: int = 60) -> np.ndarray:
    """Return two clusters in three features, without equal rows."""
    rng = np.random.default_rng(8)
    return rng.normal(size=(n, 3)) * 2 + 3 * rng.integers(2, size=n)[:, None]


NOISE = np.random.default_rng(0)
TWICE = np.repeat(NOISE.normal(0, 9, size=(2, 3)), 10, axis=0) + 1e-9 * NOISE.normal(size=(20, 3))
# in these units the clusters of nearly equal rows are worth more than any other
EQUAL = np.concatenate([TWICE, NOISE.normal(0, 9, size=(20, 3))])
THREE = np.repeat(np.random.default_rng(0).normal(size=(3, 2)), 5, axis=0)
FLAT = np.column_stack([two_clusters(), np.full(60, 1e9)])
GIVEN = np.column_stack([FLAT, FLAT[:, 0] + FLAT[:, 1]])
NARROW = np.concatenate([two_clusters(30), 50 + 1e-3 * two_clusters(10)])
FAINT = np.column_stack([two_clusters(), 1e-9 * np.arange(60) / 60])
FAR = np.concatenate([two_clusters(20), np.full((10, 3), 90.0)])
TWO = np.concatenate([two_clusters(), two_clusters()])
OWN = {"n_clusters": 6, "variance_prior": 1.0, "min_cluster_size": 1}
FREE = {"n_clusters": 3, "covariance": "diagonal", "covariance_prior": 0.0}
COMMON = {"n_clusters": 3, "covariance": "common"}
CROWDED = "as many clusters as distinct rows (3 of 15)"


@pytest.mark.parametrize(
    ("X", "changes", "starts"),
    [
        (two_clusters(), {}, []),
        (EQUAL, {"n_clusters": 3}, ["2 clusters are degenerate, a single row or (nearly) equal ones"]),
        (EQUAL, {"n_clusters": 3, "variance_prior": 1.0}, []),
        (NARROW, {}, ["1 cluster has a variance below 1e-06 of the overall one"]),
        (FAR, {"variance_prior": 2.0}, ["1 cluster holds nothing but (nearly) equal rows"]),
        (TWO, {}, ["2 rows are almost identical"]),
        (THREE, {"covariance": "common"}, []),
        (1e3 * THREE, COMMON, [CROWDED, "all clusters hold nothing but (nearly) equal"]),
        (FLAT, {}, ["1 of 4 features is constant: no samples"]),
        (FAINT, {}, ["1 of 4 features is nearly constant: with one var"]),
        (two_clusters(6), OWN, ["as many clusters as rows:", "6 clusters hold"]),
        (GIVEN, {"covariance": "diagonal"}, ["1 of 5 features is constant: no samples"]),
        (
            GIVEN,
            {"covariance": "full"},
            ["1 of 5 features is constant: no samples", "1 of 5 features is given by the others"],
        ),
        (1e3 * THREE, FREE, ["3 clusters are degenerate, without variance in some", CROWDED]),
        (two_clusters(4), {"covariance": "full"}, ["2 clusters have no more samples than features"]),
    ],
)
def test_what_to_know_before_trusting_a_fit(
    X: np.ndarray, changes: dict[str, object], starts: list[str]
) -> None:
    notes = fit_layers(X, **{"n_clusters": 2} | changes).notes
    assert [note[: len(start)] for note, start in zip(notes, starts, strict=True)] == starts


@pytest.mark.parametrize(
    ("accuracy", "weight", "contradicted", "is_said"),
    [
        (0.9, 1.0, 20, False), (0.9, 1.0, 21, True), (0.9, 1e-100, 100, True), (0.9, 1e12, 100, True),
        (0.2, 1.0, 80, False), (1.0, 1.0, 1, True), (1.0, 1.0, 0, False), (None, 1.0, 50, False),
        (None, 1.0, 66, True),
    ],
)  # fmt: skip
def test_contradictions_that_no_accuracy_explains(
    accuracy: float | None, weight: float, contradicted: int, is_said: bool
) -> None:
    labels = np.repeat([0, 1], 100)
    pairs = np.array([[i, 100 + i if i < contradicted else (i + 1) % 100] for i in range(100)])
    layers = [
        Layer(MUST, pairs, np.full(100, weight), accuracy),
        # contradicts any clusters, and is left out
        Layer(CANNOT, np.array([[3, 3]]), np.array([1e3]), accuracy),
        Layer(MUST, pairs[:0], None, accuracy),
    ]
    annotated = PairAnswers(layers)
    notes = list(contradictions(annotated, annotated.right(labels)))
    explains = "guessing" if accuracy is None else "their accuracy"
    counts = f"{contradicted * weight:.4g} of {100 * weight:.4g}"
    start = f"the clusters contradict {counts} annotations, but {explains} explains only"
    assert [note[: len(start)] for note in notes] == [start] * is_said


# What `sweep fit` is given: options and files, checked together; `test_fit` of the commands has the rest.

FILE = Path("some.annotations")
SAMPLES = Samples(SampleRows(20))


def annotation(first: int, second: int, kind: int, count: float = 1.0, name: str = "ann") -> Annotation:
    return Annotation(FILE, 10 * first + second, first, second, kind, count, name)


def test_a_layer_for_each_annotator_and_kind() -> None:
    annotations = [annotation(0, 1, CANNOT, 2.0), annotation(2, 3, MUST, 1.0, "bob")]
    annotations += [annotation(1, 1, MUST, 3.0), replace(annotation(1, 0, CANNOT, 0.5), accuracy=0.6)]
    layers = inputs.annotator_layers(AnnotationRows.of(annotations), {"bob": 0.7}, 0.9)
    rows = [(layer.kind, layer.accuracy, layer.annotator, layer.pairs.tolist()) for layer in layers]
    assert rows == [(0, 0.9, 0, [[1, 1]]), (1, 0.9, 0, [[0, 1], [1, 0]]), (0, 0.7, 1, [[2, 3]])]
    assert [layer.weights.tolist() for layer in layers if layer.weights is not None] == [[3], [2, 0.5], [1]]
    assert layers[0].accuracies is None
    assert layers[2].accuracies is None
    np.testing.assert_array_equal(layers[1].accuracies, [np.nan, 0.6])


def test_accuracy_is_the_agreeing_share_without_self_pairs() -> None:
    labels = np.array([0, 0, 1, 1], dtype=np.int16)
    annotations = [
        annotation(0, 1, MUST, 3.0), annotation(0, 2, MUST, 2.0), annotation(3, 3, CANNOT, 4.0),
        annotation(1, 1, MUST, 9.0), annotation(1, 2, CANNOT, 1.0, "bob"), annotation(2, 2, MUST, 1, "self"),
    ]  # fmt: skip
    scores, summary, lines = inputs.judge(AnnotationRows.of(annotations), labels, SAMPLES)
    assert scores["annotator_accuracies"] == {"ann": 0.6, "bob": 1.0, "self": None}
    assert [(row["i"], row["j"], row["weight"]) for row in scores["contradictions"]] == [(1, 3, 2), (4, 4, 8)]
    assert summary == ["answers    6 of 20 contradict the classes: ann 6 of 18, bob 0 of 1, self 0 of 1"]
    assert lines[0] == "annotator  ann: accuracy 0.600, 6 of 18 annotations contradicted"
    assert lines[2] == "annotator  self: accuracy unknown, 0 of 1 annotations contradicted"
    layers = inputs.annotator_layers(AnnotationRows.of(annotations), {}, None)
    assert solve.weighted_agreement(layers, labels) == pytest.approx(1 - 6 / 20)
    first, _, second, *_, last = inputs.judge(
        AnnotationRows.of(annotation(i, i + 1, MUST) for i in range(7)), np.arange(20), SAMPLES
    ).details
    assert first == "annotator  ann: accuracy 0.000, 7 of 7 annotations contradicted"
    assert second.strip() == f"{FILE}, line 1: 1 2 must 1 ann"
    assert last.strip() == "and 2 more (--json lists all)"


def test_model_covariance_and_scale_go_by_what_is_known_and_what_has_no_effect_is_noted() -> None:
    options = inputs.FitOptions(features=Path("x.csv"), n_clusters=3)
    links, several = replace(options, must_link=Path("links")), {"components": 3}
    for choice, expected in (
        (options, ("unsupervised", "any", "auto")),
        (links, ("conditional-any", "any", "auto")),
        (replace(links, accuracy=0.9, scale="none"), ("conditional-any", "any", "none")),
        (replace(links, model="auto", covariance="full"), ("conditional", "full", "none")),
        (replace(links, chosen=several), ("conditional", "auto", "auto")),
        (replace(options, chosen=several), ("unsupervised", "auto", "auto")),
        (replace(links, covariance="any"), ("conditional-any", "any", "auto")),
        (replace(options, model="conditional-any"), ("conditional-any", "any", "auto")),
        (replace(options, accuracy=0.9, model="likelihood"), ("likelihood", "spherical", "none")),
        (replace(links, model="posterior", scale="auto"), ("posterior", "spherical", "auto")),
    ):
        assert choice.model_choice == expected
    (note,) = replace(links, chosen={"population": 7, "method": "strong"}).without_effect()
    assert note.startswith("--population: not used by classes of any shape")
    ignored = replace(links, model="unsupervised", accuracy=0.9, chosen={"variance_prior": 1})
    notes = replace(ignored, covariance="full").without_effect()
    assert [note.split()[0] for note in notes] == ["--accuracy", "the", "--variance-prior"]
    assert replace(ignored, model="posterior", chosen={}).without_effect() == []


def test_classes_of_arrays_and_accuracies_of_annotators_are_read(tmp_path: Path) -> None:
    pairs, arrays = tmp_path / "pairs", tmp_path / "x.npz"
    options = inputs.FitOptions(features=arrays, n_clusters=3)
    np.savez(arrays, X=np.arange(24.0).reshape(12, 2), labels=(labels := np.repeat([0, 1], 6)))
    pairs.write_text("1 2 must 1 a=b\n3 12 must 1 ann\n")
    files = {"annotations": (pairs,), "annotator_accuracy": ("a=b=0.5", "ann=1")}
    fit_inputs = inputs.read_inputs(replace(options, **files))  # type: ignore[arg-type]
    assert np.array_equal(fit_inputs.labels_true, labels)
    # the name ends at the last equals sign
    assert fit_inputs.accuracies == {"a=b": 0.5, "ann": 1.0}
    assert [layer.accuracy for layer in fit_inputs.layers] == [0.5, 1.0]


@pytest.mark.parametrize("place", [0.0, 0.5, 0.25])
def test_rows_alike_count_as_equal_wherever_they_lie(place: float) -> None:
    """They also count on the lines of the grid that finds them, and in any units."""
    X = np.random.default_rng(1).normal(size=(400, 2))
    width = 1e-5 * np.sqrt(np.square(X - X.mean(axis=0)).mean())
    X[:200] = X.mean(axis=0) + (np.round(X[:200] / width) + place) * width
    X = np.concatenate([X, X[:200] + 1e-9, X[:200] - 1e-9])
    for units in (1.0, 2.0**40):
        assert np.sort(equal_rows(X * units)).tolist() == [1] * 200 + [3] * 200
    # rows that the first features do not tell apart, and those that differ in the last alone
    last = np.repeat(np.arange(300.0), 2)[:, None]
    assert equal_rows(np.hstack([np.zeros((600, 20)), last])).tolist() == [2] * 300
    assert equal_rows(np.hstack([last, np.zeros((600, 20)), np.arange(600.0)[:, None]])).tolist() == [1] * 600


def test_scores_are_those_of_scikit_learn_and_nmi_names_its_normaliser() -> None:
    # ten clusters of two classes: the normalisers are far apart
    truth = np.repeat([0, 1], 50)
    labels = np.where(np.arange(100) % 7 == 0, 9, 5 * truth + np.arange(100) % 5)
    scores = solve.with_truth(truth, labels)
    assert list(scores) == list(solve.AGREEMENT)
    assert scores["nmi_arithmetic"] == pytest.approx(normalized_mutual_info_score(truth, labels))
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(truth, labels, average_method="min"))
    assert scores["ari"] == pytest.approx(adjusted_rand_score(truth, labels))
    assert scores["nmi"] > 1.5 * scores["nmi_arithmetic"]
    values = {"nmi": 0.788, "nmi_arithmetic": 0.649, "ari": 0.5, "goldberger_kl": None, "centroid_index": 0}
    assert solve.score_words(values) == (
        "nmi (min, as in the paper) 0.788, nmi (arithmetic, as scikit-learn) 0.649, ari 0.5, centroid_index 0"
    )


def test_k_means_and_a_mixture_are_scored_where_classes_are_known() -> None:
    assert solve.unannotated(BLOBS, None, 3, 0) == ()
    baselines = solve.unannotated(BLOBS, CLASSES, 3, 0)
    assert [baseline.key for baseline in baselines] == ["k_means", "gaussian_mixture_full"]
    assert [baseline.starts for baseline in baselines] == [10, 10]
    for baseline in baselines:
        assert baseline.scores == pytest.approx({"nmi": 1, "nmi_arithmetic": 1, "ari": 1})
        assert json.dumps(baseline.to_json(), allow_nan=False)
    assert str(baselines[0]) == (
        "k-means, without annotations, best of 10: nmi (min) 1, nmi (arithmetic) 1, ari 1"
    )
    # more clusters than there are: the best of some starts, which follow from the seed
    rng = np.random.default_rng(1)
    X, truth = rng.normal(size=(80, 3)), rng.integers(2, size=80)
    first, again = solve.unannotated(X, truth, 6, 5), solve.unannotated(X, truth, 6, 5)
    assert first == again != solve.unannotated(X, truth, 6, 6)
    starts = np.random.SeedSequence(5).generate_state(10).tolist()
    fits = [KMeans(6, n_init=1, random_state=state).fit(X) for state in starts]
    best = min(fits, key=lambda model: model.inertia_)
    assert first[0].scores["ari"] == pytest.approx(adjusted_rand_score(truth, best.labels_))


@pytest.mark.parametrize(
    ("X", "n_clusters", "reason"),
    [
        (np.arange(6.0).reshape(3, 2), 4, "3 samples for 4 Gaussians"),
        (np.array([[1e200, 0.0], [0.0, 1e200], [-1e200, 1.0]]), 2, ""),
        (np.zeros((4, 2)), 2, None),
    ],
)
def test_small_and_degenerate_tables_end_in_words(X: np.ndarray, n_clusters: int, reason: str | None) -> None:
    k_means, mixture = solve.unannotated(X, np.arange(len(X)) % 2, n_clusters, 0)
    assert json.dumps([k_means.to_json(), mixture.to_json()], allow_nan=False)
    if reason is None:
        assert not mixture.reason
        return
    assert reason in mixture.reason
    assert set(mixture.scores.values()) == {None}
    assert str(mixture).startswith("mixture of full Gaussians, without annotations: none, ")


def test_fewer_starts_of_a_large_table_and_none_of_a_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    step = float(BLOBS.shape[0] * 3 * BLOBS.shape[1])
    monkeypatch.setattr(solve, "BASELINE_WORK", 4 * step)
    monkeypatch.setattr(solve, "MOST_BASELINE_WORK", step)
    k_means, mixture = solve.unannotated(BLOBS, CLASSES, 3, 0)
    assert k_means.starts == 4
    assert mixture.reason == "the table is too large to try it here"


def test_rows_that_are_almost_identical_are_so_on_both_sides_of_a_line_of_the_grid() -> None:
    X = np.array([[-1.0], [-1e-9], [1e-9], [1.0]])
    assert sorted(equal_rows(X).tolist()) == [1, 1, 2]


@pytest.mark.parametrize(
    ("n_clusters", "options", "chosen", "wrong"),
    [
        (6, {}, {}, []), (7, {}, {}, ["-k"]),
        (3, {"covariance": "full"}, {"min_cluster_size": 2}, []),
        (3, {"covariance": "full"}, {"min_cluster_size": 3}, ["-k"]),
        (2, {}, {"subspace": 2}, []), (2, {}, {"subspace": 3}, ["--subspace"]),
        (2, {}, {"components": 3}, []), (2, {}, {"components": 4}, ["--components"]),
        # of an open number only as many are tried as have two distinct rows each
        (10, {"has_open_count": True}, {"components": 2}, []),
        (10, {"has_open_count": True}, {"components": 3}, ["--components"]),
    ],
)  # fmt: skip
def test_six_distinct_rows_are_enough_for_as_many_clusters(
    n_clusters: int, options: dict[str, Any], chosen: dict[str, Any], wrong: list[str], tmp_path: Path
) -> None:
    rows = [[0, 1], [1, 5], [2, 3], [3, 0], [4, 7], [5, 2]]
    np.savetxt(tmp_path / "x.csv", rows + ([] if chosen else rows[:1]), delimiter=",")
    problems: list[Problem] = []
    with collecting(problems):
        path = tmp_path / "x.csv"
        inputs.read_inputs(inputs.FitOptions(features=path, n_clusters=n_clusters, chosen=chosen, **options))
    assert [problem.where for problem in problems] == wrong
