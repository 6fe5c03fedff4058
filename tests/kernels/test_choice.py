"""Held-out annotations do not leak, and their probabilities are those of the objective."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from solving.oracles import COVARIANCES, MODELS, draw_case, draw_labels, objective

import sweep_clustering.kernels.choice as module
from sweep_clustering.kernels.choice import (
    FOLDS,
    LEAST_PAIRS,
    Criteria,
    HeldOut,
    ShapeChoice,
    annotation_parameters,
    criteria,
    estimated_accuracy,
    list_annotations,
)
from sweep_clustering.kernels.problem.data import CANNOT, MUST, label_layers
from sweep_clustering.kernels.problem.problem import Layer, Problem, build_problem
from sweep_clustering.kernels.settings import Settings, settings_of
from sweep_clustering.kernels.structure import CANDIDATES

X = np.array([[0.0], [2.0], [10.0], [12.0]])
LABELS = np.array([0, 0, 1, 1])


def predictions(logs: object, right: object, weights: object = None, agreements: object = 0.0) -> HeldOut:
    """Return predictions from one value for each annotation, or one for all."""
    arrays = np.broadcast_arrays(logs, right, 1.0 if weights is None else weights, agreements)
    return HeldOut(*(np.array(array) for array in arrays))


def test_the_accuracy_of_certain_pairs_is_the_share_that_agrees() -> None:
    accuracy = estimated_accuracy(predictions(0.0, True, agreements=[1.0] * 8 + [0.0] * 2))
    assert accuracy == pytest.approx((0.8, math.sqrt(0.8 * 0.2 / 10)))
    assert estimated_accuracy(predictions(0.0, True, [8.0, 2.0], [1.0, 0.0])) == pytest.approx(accuracy)
    for share, end in ((0.999, 0.999), (0.001, 0.5), (0.5, 0.5)):
        value, error = estimated_accuracy(predictions(0.0, True, agreements=[share] * 5))
        assert value == end
        assert math.isnan(error)


# The shape chosen is that which made the data; the simplest unless another is clearly better.

SEED = np.random.SeedSequence(0)


def draw(shape: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two overlapping clusters whose covariances tell them apart."""
    labels = np.arange(200) % 2
    X, is_first = np.random.default_rng(seed).normal(size=(200, 2)), labels[:, None] == 0
    turn = [[1, 1], [-1, 1]]
    if shape == "spherical":
        return X * np.where(is_first, 1.0, 1.5) + np.where(is_first, 0.0, 2.0), labels
    if shape == "diagonal":
        return X * np.where(is_first, [4.0, 0.3], [0.3, 4.0]), labels
    if shape == "tied":
        return (X * [6.0, 0.5] + np.where(is_first, -1.5, 1.5) * [0, 1]) @ turn, labels
    return X * [4.0, 0.3] @ turn * np.where(is_first, [1, -1], 1), labels


def layers_of(labels: np.ndarray, m: int, seed: int, accuracy: float | None = 0.9) -> list[Layer]:
    """Return layers whose answers are wrong with a probability of 0.1."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, len(labels), size=(m, 2))
    together = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    kinds = np.where(together ^ (rng.random(m) < 0.1), MUST, CANNOT)
    return [Layer(kind, pairs[kinds == kind], None, accuracy) for kind in (MUST, CANNOT)]


def choose(X: np.ndarray, layers: list[Layer], model: str = "conditional") -> ShapeChoice:
    settings = settings_of({"method": "strong"})
    return module.choose_covariance(X, layers, n_clusters=2, model=model, settings=settings, seed=SEED)


def test_the_shape_that_made_the_data_is_chosen() -> None:
    # a spherical shape is diagonal too, and so on: such a choice costs little
    more = {"spherical": "diagonal", "diagonal": "full", "tied": "full", "full": "full"}
    models = ("conditional", "posterior", "likelihood", "conditional")
    for shape, model in zip(CANDIDATES, models, strict=True):
        X, labels = draw(shape, 0)
        choice = choose(X, layers_of(labels, 200, 0), model)
        assert list(choice.candidates) == list(CANDIDATES)
        assert choice.covariance in (shape, more[shape])


def test_too_few_annotations_are_said_and_mean_spherical() -> None:
    X, labels = draw("full", 2)
    few = layers_of(labels, LEAST_PAIRS - 1, 2)
    # repeats of a pair tell nothing more
    many = [replace(layer, pairs=np.repeat(layer.pairs, 5, axis=0)) for layer in few]
    for layers in (few, many):
        choice = choose(X, layers)
        assert choice.covariance == "spherical"
        assert choice.candidates == {}
        assert str(LEAST_PAIRS) in choice.note
    assert "sees no annotations" in choose(X, layers_of(labels, 100, 2), "unsupervised").note


def test_a_simpler_candidate_wins_within_half_a_standard_error() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=400)

    def choose_shape(gain: float) -> str:
        noise = rng.normal(size=400)
        noise -= noise.mean()
        logs = {"spherical": base, "diagonal": base - 1.0, "full": base + gain * noise.std() / 20 + noise}
        return module.simplest_of_the_best({name: predictions(values, True) for name, values in logs.items()})

    assert [choose_shape(gain) for gain in (0.4, 0.6, -0.1)] == ["spherical", "full", "spherical"]


OPTIONS: dict[str, Any] = {"n_clusters": 2, "model": "conditional", "covariance": "spherical", "seed": SEED}
OPTIONS["settings"] = settings_of({"method": "strong", "population": 4, "offspring": 4})
PAIRS = np.random.default_rng(2).integers(0, 30, size=(60, 2))
PAIRS[:5, 1] = PAIRS[:5, 0]
PAIRS[50:] = PAIRS[20:30, ::-1]
LAYERS = [
    Layer(MUST, PAIRS[:35], np.linspace(0.5, 3.0, 35), None, None, 0),
    Layer(CANNOT, PAIRS[35:], None, 0.8, np.where(np.arange(25) < 4, 0.6, np.nan), 1),
]


def test_every_annotation_is_listed_and_folds_are_even() -> None:
    annotations = list_annotations(LAYERS, SEED)
    assert len(annotations.folds) == (PAIRS[:, 0] != PAIRS[:, 1]).sum()
    pairs, places = np.unique(np.sort(annotations.pairs, axis=1), axis=0, return_index=True)
    assert annotations.n_pairs == len(pairs)
    assert np.ptp(np.bincount(annotations.folds[places], minlength=FOLDS)) <= 1
    for place, (layer, row) in enumerate(zip(annotations.layers, annotations.rows, strict=True)):
        source = LAYERS[layer]
        assert source.pairs[row].tolist() == annotations.pairs[place].tolist()
        assert (source.kind == MUST) == annotations.is_must[place]
        assert layer == annotations.annotators[place]
        assert annotations.weights[place] == (1.0 if source.weights is None else source.weights[row])
    assert list_annotations([], SEED).n_pairs == 0


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("model", MODELS)
def test_label_probabilities_are_softmax_of_the_objective(model: str, covariance: str) -> None:
    case = replace(draw_case(5, model=model, n_samples=14, m=12, min_size=3), covariance=covariance)
    labels = draw_labels(case, 2)
    probabilities = module.label_probabilities(case.problem(), labels)
    for sample in range(14):
        source = int(labels[sample])
        if (labels == source).sum() <= 3:
            assert probabilities[sample].tolist() == np.eye(3)[source].tolist()
            continue
        moved = np.tile(labels.astype(int), (3, 1))
        moved[:, sample] = range(3)
        shares = softmax([objective(case, partition) for partition in moved])
        # the series of the posterior is exact near the threshold alone
        np.testing.assert_allclose(probabilities[sample], shares, atol=0.1 if model == "posterior" else 1e-6)


def test_a_fit_never_sees_what_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    annotations = list_annotations(LAYERS, SEED)
    training, real = [], module.build_problem

    def pairs(array: np.ndarray) -> set[tuple[int, ...]]:
        return set(map(tuple, np.sort(array, axis=1).tolist()))

    def build_watched(X: np.ndarray, layers: list[Layer], **options: Any) -> Problem:
        training.append(pairs(np.concatenate([layer.pairs for layer in layers])))
        return real(X, layers, **options)

    monkeypatch.setattr(module, "build_problem", build_watched)
    score = module.held_out(np.random.default_rng(0).normal(size=(30, 2)), LAYERS, annotations, **OPTIONS)
    assert np.isfinite(score.log_probabilities).all()  # also if some accuracies are known and others are not
    tested = [pairs(annotations.pairs[annotations.folds == fold]) for fold in range(FOLDS)]
    assert training == [pairs(PAIRS) - fold for fold in tested]


def test_log_probabilities_are_those_of_the_answers() -> None:
    """Clusters are so far apart that labels are certain and only the accuracy matters."""
    labels = np.repeat([0, 1], 20)
    X = 100.0 * labels[:, None] + np.random.default_rng(1).normal(size=(40, 1))
    for accuracy in (0.9, None):
        layers, options = layers_of(labels, 100, 2, accuracy), OPTIONS | {"covariance": "full"}
        annotations = list_annotations(layers, SEED)
        score = module.held_out(X, layers, annotations, **options)
        right = (np.ptp(labels[annotations.pairs], axis=1) == 0) == annotations.is_must
        np.testing.assert_array_equal(score.right, right)
        if accuracy is not None:
            np.testing.assert_allclose(score.log_probabilities, np.log(np.where(right, 0.9, 0.1)), atol=1e-2)
        share = right.mean()
        assert score.share_right == pytest.approx(share)
        assert score.log_loss == pytest.approx(-share * np.log(0.9) - (1 - share) * np.log(0.1), abs=0.1)


def test_gains_are_paired_and_weighted() -> None:
    first = predictions([-1.0, -2.0, -3.0], True, [1.0, 2.0, 1.0])
    second = predictions([-2.0, -2.5, -3.5], False, [1.0, 2.0, 1.0])
    errors = np.array([0.375, 2.0 * 0.125, 0.125])
    assert first.gain_over(second) == pytest.approx((0.625, np.sqrt(np.square(errors).sum()) / 4))
    assert first.share_right == 1.0
    assert second.share_right == 0.0
    assert first.log_loss == pytest.approx(2.0)


# Labels of rows: whole rows are held out.


def labelled_layers(n_rows: int = 60) -> list[Layer]:
    labels = np.random.default_rng(0).integers(-1, 3, n_rows)
    links = np.random.default_rng(1).integers(0, n_rows, (30, 2))
    return [*label_layers(labels, 0.9, 0), Layer(MUST, links, None, 0.8)]


def test_fits_to_other_folds_see_no_label_of_a_held_out_row() -> None:
    layers = labelled_layers()
    annotations = list_annotations(layers, SEED)
    n_links = (layers[-1].pairs[:, 0] != layers[-1].pairs[:, 1]).sum()
    assert (annotations.layers == 2).sum() == n_links
    for fold in range(FOLDS):
        tested = annotations.folds == fold
        hidden = annotations.pairs[tested & (annotations.layers < 2)]
        assert len(hidden)
        for layer in module.training_layers(layers, annotations, fold)[:2]:
            assert len(layer.pairs)
            assert not np.isin(layer.pairs, hidden).any()


def test_error_counts_pairs_with_a_row_in_common() -> None:
    rng = np.random.default_rng(2)
    units, deviations = rng.integers(0, 12, (40, 2)), rng.normal(size=40)
    units = units[units[:, 0] != units[:, 1]]
    deviations = np.abs(deviations[: len(units)])
    variance = sum(
        len({*units[a]} & {*units[b]}) * deviations[a] * deviations[b] if a != b else deviations[a] ** 2
        for a in range(len(units))
        for b in range(len(units))
    )
    score = replace(predictions(np.zeros(len(units)), True), units=units)
    assert score.error_of(deviations) == pytest.approx(math.sqrt(variance))


def criteria_of(
    layers: tuple[Layer, ...] = (), model: str = "unsupervised", X: np.ndarray = X, **settings: Any
) -> Criteria:
    problem = build_problem(X, layers, n_clusters=2, model=model, settings=Settings(**settings))
    return criteria(problem, layers, LABELS)


ALONE = criteria_of()


def test_two_clusters_by_hand() -> None:
    parts = criteria_of(min_cluster_size=1)
    assert parts.classification == pytest.approx(-2.0 - 2.0 * math.log(2.0 * math.pi) - 4.0 * math.log(2.0))
    assert parts.parameters == 4
    assert parts.penalty == pytest.approx(2.0 * math.log(4.0))
    surprise = entropy = 0.0
    # exp of the gain of moving 0 or 2 (as 12 or 10) to the other cluster, both variances being 1. The pair
    # left alone adds 0. Of 0, 10, 12 the squared error about their mean is 248/3; of 2, 10, 12 it is 56.
    for error in (248.0 / 3.0, 56.0):
        odds = math.exp(2.0 - 1.5 * (1.0 + math.log(error / 3.0)))
        share = 1.0 / (1.0 + odds)
        surprise -= 2.0 * math.log(share)
        entropy -= 2.0 * (share * math.log(share) + (1.0 - share) * math.log(1.0 - share))
    assert parts.surprise == pytest.approx(surprise)
    assert parts.entropy == pytest.approx(entropy)
    assert parts.bic == pytest.approx(parts.classification + surprise - parts.penalty)
    assert parts.icl == pytest.approx(parts.bic - entropy)


def test_annotations_by_hand() -> None:
    right = Layer(MUST, np.array([[0, 1]]), np.array([3.0]), 0.9)
    layers = (right, Layer(MUST, np.array([[1, 2], [3, 3]]), None, 0.9))
    fixed = criteria_of(layers, "conditional")
    assert fixed.classification - ALONE.classification == pytest.approx(3.0 * math.log(0.9) + math.log(0.1))
    assert fixed.parameters == 4
    assert fixed.penalty == pytest.approx(ALONE.penalty)
    layers = tuple(replace(layer, accuracy=None) for layer in layers)
    free = criteria_of(layers, "conditional")
    assert free.classification - ALONE.classification == pytest.approx(3.0 * math.log(0.75) + math.log(0.25))
    # there is one annotator with four annotations of two samples; a self pair says nothing of the accuracy
    assert free.parameters == 5
    assert free.penalty == pytest.approx(ALONE.penalty + 0.5 * math.log(4.0))
    two = (layers[0], replace(layers[1], annotator=1))
    problem = build_problem(X, two, n_clusters=2, model="conditional")
    assert annotation_parameters(problem, two) == [(1, 3.0), (1, 1.0)]


def test_rates_of_a_block_model_by_hand() -> None:
    layers = (Layer(MUST, np.array([[0, 1], [2, 3]])), Layer(CANNOT, np.array([[1, 2]])))
    parts = criteria_of(layers, "likelihood")
    # there is a must-link in each cluster, m_rr = 2 of n_r² = 4, and a cannot-link between, m_rs = 1 of 4
    sbm = 2.0 * math.log(0.5) - 2.0 + math.log(0.25) - 1.0
    assert parts.classification == pytest.approx(ALONE.classification + sbm)
    assert parts.parameters == 4 + 3 + 3
    assert parts.penalty == pytest.approx(ALONE.penalty + 1.5 * math.log(2.0) + 1.5 * math.log(1.0))


def test_free_proportions_and_the_weight_of_features() -> None:
    free = criteria_of(proportions="free")
    # the proportions of equal clusters are those that were given
    assert free.classification == pytest.approx(ALONE.classification)
    assert free.parameters == 5
    assert free.penalty == pytest.approx(2.5 * math.log(4.0))
    weighted = criteria_of(X=np.hstack([X, X]), feature_weight=0.5)
    assert weighted.classification == pytest.approx(ALONE.classification)
    assert weighted.surprise == pytest.approx(ALONE.surprise)
    assert weighted.penalty == pytest.approx(0.25 * 6 * math.log(4.0))


@pytest.mark.parametrize(
    ("covariance", "of_shape"), [("spherical", 2), ("common", 1), ("diagonal", 6), ("tied", 6), ("full", 12)]
)
def test_each_shape_has_its_own_number_of_parameters(covariance: str, of_shape: int) -> None:
    rows, labels = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    problem = build_problem(rows, n_clusters=2, model="unsupervised", covariance=covariance)
    parts = criteria(problem, (), labels)
    assert parts.parameters == 2 * 3 + of_shape
    assert parts.penalty == pytest.approx(0.5 * parts.parameters * math.log(30.0))


@pytest.mark.parametrize(
    ("covariance", "variance", "count"), [("spherical", 28.0 / 3.0, 2), ("common", 6.0, 1)]
)
@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_a_variance_prior_by_hand(covariance: str, variance: float, count: int, weight: float) -> None:
    settings = Settings(variance_prior=1.0, feature_weight=weight)
    problem = build_problem(X, n_clusters=2, model="unsupervised", covariance=covariance, settings=settings)
    parts = criteria(problem, (), LABELS)
    # a pseudo-sample of the variance 26 beside two rows a cluster, of which an empty cluster would be made
    gmm = -0.5 * (4 + count) * (1.0 + math.log(variance)) + 0.5 * count * (1.0 + math.log(26.0))
    likelihood = weight * (gmm - 2.0 * math.log(2.0 * math.pi)) - 4.0 * math.log(2.0)
    assert parts.classification == pytest.approx(likelihood)


def test_a_hard_link_beside_labels_of_several_names_leaves_them_labels() -> None:
    pairs = np.arange(60).reshape(-1, 2)
    labels = [Layer(MUST, pairs[:15], is_of_labels=True), Layer(CANNOT, pairs[15:], is_of_labels=True)]
    hard, seed = Layer(CANNOT, np.array([[0, 59]])), np.random.SeedSequence(0)
    hidden = [replace(layer, pairs=np.tile(layer.pairs, (5, 1))) for layer in labels]
    assert list_annotations([*hidden, hard], seed).are_of_labels
    assert not list_annotations(hidden[:1], seed).are_of_labels
    assert not list_annotations([*labels, *[hard] * 300], seed).are_of_labels


@pytest.mark.parametrize(
    ("count", "kinds", "starts"),
    [
        (0, [MUST], "there are no"),
        (9, [MUST], "9 annotated pairs are too few"),
        (30, [MUST], "all annotations are must"),
        (30, [CANNOT], "all annotations are cannot"),
        (30, [MUST, CANNOT], ""),
    ],
)
def test_few_annotations_and_those_of_one_kind_choose_nothing(
    count: int, kinds: list[Any], starts: str
) -> None:
    layers = [Layer(kind, np.arange(2 * count).reshape(-1, 2)) for kind in kinds]
    lack = list_annotations(layers, np.random.SeedSequence(0)).lack
    assert lack.startswith(starts)
    assert bool(lack) == bool(starts)


def test_samples_of_a_cluster_of_the_least_size_have_their_label_for_certain() -> None:
    settings = settings_of({"min_cluster_size": 2})
    X, labels = np.array([[0.0], [2.0], [10.0], [12.0], [1.0]]), np.array([0, 0, 1, 1, 0])
    problem = build_problem(X, n_clusters=2, model="unsupervised", settings=settings)
    shares = module.label_probabilities(problem, labels)
    assert shares[labels == 1].tolist() == [[0.0, 1.0]] * 2
    assert shares[labels == 0].max() < 1.0
