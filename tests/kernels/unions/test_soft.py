"""Classes are unions of components: each step equals a plain formula, and the bound never falls."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from solving.answers import answered, are_alike, layers_of
from solving.entries import plain_kernel

from sweep_clustering.kernels.jit import jit
from sweep_clustering.kernels.lanes import LANES
from sweep_clustering.kernels.partition.statistics import new_state
from sweep_clustering.kernels.problem import data
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer, link
from sweep_clustering.kernels.problem.problem import build_problem
from sweep_clustering.kernels.search import genetic
from sweep_clustering.kernels.settings import ObjectiveSettings
from sweep_clustering.kernels.unions import panels
from sweep_clustering.kernels.unions import soft as components
from sweep_clustering.kernels.unions.panels import Fields, Observed, observe, samples_of

SHAPES = ["spherical", "diagonal", "tied", "full"]
PARAMETERS, BOUND, SHARES, ACCURACIES, LINKS, CLIMB, CLASSES, CHOICE, PULLS = range(9)


@jit
def call(observed: Observed, fields: Fields, step: int, rng: np.random.Generator) -> None:
    """Run one step of a fit, which Python cannot call by itself."""
    if step == PARAMETERS:
        components.set_parameters(observed, fields)
    elif step == BOUND:
        components.set_bound(observed, fields)
    elif step == SHARES:
        components.set_shares(observed, fields, 3)
    elif step == ACCURACIES:
        components.set_accuracies(observed, fields, False)
    elif step == LINKS:
        components.set_links(observed, fields)
    elif step == CLIMB:
        components.climb(fields)
    elif step == CLASSES:
        components.set_classes(fields)
    elif step == PULLS:
        components.set_pulls(observed, fields)
    else:
        components.choose_classes(observed, fields, rng)


def take(observed: Observed, fields: Fields, *steps: int) -> None:
    """Run some steps, one after the other."""
    for step in steps:
        call(observed, fields, step, np.random.default_rng(0))


def draw_layers(labels: NDArray[Any], count: int, rng: np.random.Generator, **fields: Any) -> list[Layer]:
    """Return annotations of uniform pairs, one in ten of them wrong."""
    return answered(rng.integers(len(labels), size=(count, 2)), labels, rng, right=0.9, **fields)


def begin_fit(covariance: str, accuracy: float | None) -> tuple[Observed, Fields]:
    """Return twenty samples, two classes of two components, and shares that are drawn."""
    rng = np.random.default_rng(5)
    Z, labels = rng.normal(size=(20, 3)), np.arange(20) % 2
    layers = draw_layers(labels, 20, rng, accuracy=accuracy, annotator=7)
    layers += draw_layers(labels, 12, rng, accuracy=accuracy, annotator=9)
    links = link(layers, len(Z))
    observed = observe(samples_of(Z), links, n_classes=2, n_components=4, covariance=covariance)
    assert links.annotators == (() if accuracy else (7, 9))
    fields = panels.new_fields(observed, 4)
    fields.shares[:] = rng.dirichlet(np.ones(4), size=20)
    fields.class_of[:] = [0, 1, 1, 0]
    fields.accuracies[:] = 0.8
    fields.levels[:], fields.group[:] = 0.8, 0.8
    take(observed, fields, CLASSES, PULLS)
    return observed, fields


def covariances_of(observed: Observed, shares: NDArray[Any], means: NDArray[Any], shape: str) -> NDArray[Any]:
    """Return the covariances of the components by the formula, each as a matrix."""
    Z, prior = observed.Z, observed.strength
    scatters = np.array([(r[:, None] * (Z - mu)).T @ (Z - mu) for r, mu in zip(shares.T, means, strict=True)])
    sizes = shares.sum(axis=0)
    if shape == "tied":
        scatters, sizes = scatters.sum(axis=0)[None].repeat(4, axis=0), np.full(4, 20.0)
    covariances = (scatters + prior * np.diag(observed.scale)) / (sizes + prior)[:, None, None]
    if shape in ("spherical", "diagonal"):
        variances = covariances.diagonal(axis1=1, axis2=2)
        variances = variances.mean(axis=1, keepdims=True) if shape == "spherical" else variances
        covariances = np.array([np.diag(np.broadcast_to(variance, 3)) for variance in variances])
    return covariances


def bound_of(observed: Observed, fields: Fields, covariances: NDArray[Any]) -> float:
    """Return the expected log-likelihood with entropy and priors, term by term."""
    total = 0.0
    for g, (mean, covariance) in enumerate(zip(fields.means, covariances, strict=True)):
        logdet, inverse = np.linalg.slogdet(covariance)[1], np.linalg.inv(covariance)
        if g == 0 or len(fields.logdets) > 1:
            total -= 0.5 * observed.strength * (logdet + np.trace(inverse @ np.diag(observed.scale)))
        total += fields.log_weights[g]
        for x, share in zip(observed.Z, fields.shares[:, g], strict=True):
            density = -0.5 * ((x - mean) @ inverse @ (x - mean) + logdet)
            total += share * (fields.log_weights[g] + density - math.log(share))
    for (i, j), signed, odds, source in zip(
        observed.pairs, observed.signed, observed.odds, observed.sources, strict=True
    ):
        alike = sum(
            fields.shares[i, g] * fields.shares[j, h]
            for g, h in itertools.product(range(4), repeat=2)
            if fields.class_of[g] == fields.class_of[h]
        )
        right, wrong = [1.0 / (1.0 + math.exp(-odds))] * 2 if source < 0 else fields.accuracies[source]
        if signed < 0:
            alike, right, wrong = 1.0 - alike, wrong, right
        total += abs(signed) * (alike * math.log(right) + (1.0 - alike) * math.log(1.0 - wrong))
    return total + prior_of(fields.accuracies, fields.levels, fields.group)


def prior_of(accuracies: NDArray[Any], levels: NDArray[Any], group: NDArray[Any]) -> float:
    """Return the logarithm of the prior of accuracies, term by term."""
    total = 0.0
    for pair, level in zip(accuracies.tolist(), levels.tolist(), strict=True):
        for a, mean in zip(pair, group.tolist(), strict=True):
            total += data.HALF_AN_ANSWER * math.log(a * (1.0 - a))
            for count, p in ((data.OWN_PRIOR, level), (data.GROUP_PRIOR, mean)):
                total -= count * (p * math.log(p / a) + (1.0 - p) * math.log((1.0 - p) / (1.0 - a)))
    return total


def test_two_accuracies_of_each_annotator_are_the_optimum_of_their_objective() -> None:
    rng = np.random.default_rng(0)
    n_annotators, n_pairs = 6, 150
    samples = rng.dirichlet(np.ones(2), size=40)
    pairs = np.array([rng.choice(40, 2, replace=False) for _ in range(n_pairs)])
    who = rng.integers(n_annotators, size=n_pairs)
    together = (samples[pairs[:, 0]] * samples[pairs[:, 1]]).sum(axis=1)
    must = (together > 0.5) == (rng.random(n_pairs) < np.array([0.1, 0.9, 0.8, 0.7, 0.9, 0.6])[who])
    layers = [
        Layer(kind, pairs[(who == number) & (must == (kind == MUST))], annotator=number)
        for number in range(n_annotators)
        for kind in (MUST, CANNOT)
    ]
    samples_in = samples_of(rng.normal(size=(40, 1)))
    observed = observe(samples_in, link(layers, 40), n_classes=2, n_components=2, covariance="spherical")
    fields = panels.new_fields(observed, 2)
    fields.classes[:], fields.accuracies[:] = samples, 0.6
    take(observed, fields, *[ACCURACIES] * 40)

    estimates = data.estimate_accuracies(who, must, np.ones(n_pairs), together)

    def loss(values: NDArray[Any]) -> float:
        """Return minus the objective of accuracies, levels and group, from their log odds."""
        chances = 1.0 / (1.0 + np.exp(-values))
        a, levels, group = chances[:12].reshape(6, 2), chances[12:18], chances[18:]
        likelihood = np.where(
            must,
            together * np.log(a[who, 0]) + (1.0 - together) * np.log(1.0 - a[who, 1]),
            together * np.log(1.0 - a[who, 0]) + (1.0 - together) * np.log(a[who, 1]),
        )
        return -float(likelihood.sum()) - prior_of(a, levels, group)

    best = 1.0 / (1.0 + np.exp(-minimize(loss, np.zeros(20), method="BFGS", tol=1e-9).x))
    assert best[18:].sum() > 1.0  # so that the group's bound takes no part
    np.testing.assert_allclose(fields.accuracies, best[:12].reshape(6, 2), atol=2e-5)
    np.testing.assert_allclose(estimates.accuracies, best[:12].reshape(6, 2), atol=2e-5)
    np.testing.assert_allclose(estimates.group, best[18:], atol=2e-5)
    assert fields.accuracies.sum(axis=1).min() < 1.0 < fields.accuracies.sum(axis=1).max()


def test_a_crowd_is_weighed_and_an_annotator_below_chance_is_used_in_reverse() -> None:
    rng = np.random.default_rng(4)
    labels = np.arange(120) % 2
    Z = rng.normal(size=(120, 2)) + 1.2 * labels[:, None]
    truth = np.array([[0.9, 0.7], [0.6, 0.95], [0.8, 0.8], [0.1, 0.2]])
    layers = []
    for annotator, pair in enumerate(truth):
        pairs = rng.integers(120, size=(150, 2))
        same = are_alike(labels, pairs)
        layers += layers_of(pairs, same == (rng.random(150) < np.where(same, *pair)), annotator=annotator)
    fit = components.fit_components(
        Z, layers, n_classes=2, components=1, covariance="spherical", rng=np.random.default_rng(0)
    )
    assert max((fit.labels == labels).mean(), (fit.labels != labels).mean()) > 0.95
    np.testing.assert_allclose([fit.accuracies[number] for number in range(4)], truth, atol=0.12)


@pytest.mark.parametrize("accuracy", [0.9, None])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_step_is_that_of_the_formulas_and_raises_the_bound(shape: str, accuracy: float | None) -> None:
    observed, fields = begin_fit(shape, accuracy)
    before = -math.inf
    for turn in range(12):
        take(observed, fields, PARAMETERS)
        sizes = fields.shares.sum(axis=0)
        np.testing.assert_allclose(np.exp(fields.log_weights), (sizes + 1) / 24, rtol=1e-7)
        np.testing.assert_allclose(fields.means, fields.shares.T @ observed.Z / sizes[:, None], atol=1e-7)
        expected = covariances_of(observed, fields.shares, fields.means, shape)
        matrices = fields.covariances
        if matrices.shape[2] == 1:
            matrices = np.array([np.diag(matrix[:, 0]) for matrix in matrices])
        np.testing.assert_allclose(np.broadcast_to(matrices, expected.shape), expected, rtol=1e-6, atol=1e-8)
        now = bound_of(observed, fields, expected)
        assert now >= before - 1e-7
        take(observed, fields, SHARES)
        np.testing.assert_allclose(fields.shares.sum(axis=1), 1.0)
        for accuracies in (False, True):
            take(observed, fields, *[ACCURACIES] * accuracies, BOUND)
            before = bound_of(observed, fields, expected)
            assert fields.bound.sum() == pytest.approx(before, rel=1e-6)
            assert before >= now - 1e-9
            now = before
        if turn == 5:
            take(observed, fields, LINKS, CLIMB, CLASSES)
            before = bound_of(observed, fields, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_components", [1, 3, 4, 5, 8, 10])
@pytest.mark.parametrize("n_dims", [1, 2, 7])
def test_any_number_of_components_have_the_densities_of_the_formulas(
    n_dims: int, n_components: int, shape: str
) -> None:
    """There is more than a panel of samples, and components come in fours with a remainder."""
    rng = np.random.default_rng(n_components)
    Z, n_classes = rng.normal(size=(150, n_dims)), n_components
    labels = np.arange(len(Z)) % n_components
    observed = observe(
        samples_of(Z), link([], len(Z)), n_classes=n_classes, n_components=n_components, covariance=shape
    )
    fields = panels.new_fields(observed, n_components)
    fields.shares[np.arange(len(Z)), labels], fields.class_of[:] = 1.0, np.arange(n_components)
    take(observed, fields, PARAMETERS, SHARES)
    for g, mean in enumerate(fields.means):
        component = fields.covariances[min(g, len(fields.covariances) - 1)]
        matrix = component if component.shape[1] == n_dims > 1 else np.diag(component[:, 0])
        expected = multivariate_normal(mean, matrix).logpdf(Z) + 0.5 * n_dims * math.log(2.0 * math.pi)
        np.testing.assert_allclose(fields.evidence[:, g], fields.log_weights[g] + expected)


@pytest.mark.parametrize(("n_components", "n_classes"), [(3, 3), (7, 3), (11, 10)])
def test_shares_in_panels_are_those_of_one_sample_after_the_other(n_components: int, n_classes: int) -> None:
    """There are two panels, the second one short, and samples with and without annotations."""
    rng = np.random.default_rng(3)
    Z, labels = rng.normal(size=(200, 2)), np.arange(200) % n_components
    links = link(draw_layers(labels[:120] % n_classes, 90, rng, accuracy=0.8), 200)
    observed = observe(
        samples_of(Z), links, n_classes=n_classes, n_components=n_components, covariance="full"
    )
    fields = panels.new_fields(observed, n_components)
    fields.shares[np.arange(200), labels], fields.class_of[:] = 1.0, np.arange(n_components) % n_classes
    take(observed, fields, CLASSES, PULLS, PARAMETERS)
    classes, shares, bound = fields.classes.copy(), np.zeros((200, n_components)), 0.0
    logs = np.stack(
        [
            fields.log_weights[g]
            + multivariate_normal(fields.means[g], fields.covariances[g]).logpdf(Z)
            + math.log(2.0 * math.pi)
            for g in range(n_components)
        ],
        axis=1,
    )
    for turn in range(3):
        for i in range(200):
            mine = slice(observed.row_start[i], observed.row_start[i + 1])
            entries, partners = observed.entries[mine], observed.partners[mine]
            field = observed.signed[entries] * observed.odds[entries] @ classes[partners]
            evidence = np.array(
                [np.logaddexp.reduce(logs[i, fields.class_of == c]) for c in range(n_classes)]
            )
            total = np.logaddexp.reduce(evidence + field)
            classes[i] = np.exp(evidence + field - total)
            if turn == 2:
                shares[i] = classes[i, fields.class_of] * np.exp(logs[i] - evidence[fields.class_of])
                bound += total - classes[i] @ field
    take(observed, fields, SHARES)
    np.testing.assert_allclose(fields.classes, classes, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fields.shares, shares, rtol=1e-9, atol=1e-12)
    assert fields.bound[0] == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("first_steps", [2, genetic.MAX_KMEANS_ITERATIONS])
def test_the_best_of_some_starts_goes_on(first_steps: int) -> None:
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(60, 2)) + 3.0 * rng.normal(size=(6, 2))[np.arange(60) % 6]
    labels = components.first_labels(Z, 6, np.random.default_rng(1), first_steps)
    problem = build_problem(
        Z, n_clusters=6, model="unsupervised", settings=ObjectiveSettings(min_cluster_size=1)
    )
    state, stream, tries = new_state(problem.data), np.random.default_rng(1), []
    for _ in range(components.TRIES):
        centroids = np.zeros((2, LANES))
        plain_kernel(genetic.seed_centroids)(problem.data, state, stream, centroids, components.DRAWS + 1)
        plain_kernel(genetic.kmeans)(problem.data, state, centroids, first_steps)
        tries.append((state.own_distances.sum(), centroids))
    best = min(tries, key=lambda start: start[0])[1]
    plain_kernel(genetic.kmeans)(problem.data, state, best, genetic.MAX_KMEANS_ITERATIONS)
    assert labels.tolist() == state.labels.tolist()
    inertias = [inertia for inertia, _ in tries]
    assert min(inertias) < min(inertias[0], inertias[-1]), "neither the first start nor the last one"


def test_links_and_the_map_of_components() -> None:
    observed, fields = begin_fit("full", 0.9)
    take(observed, fields, LINKS)
    theta = np.zeros((20, 20))
    for (i, j), signed, odds in zip(observed.pairs, observed.signed, observed.odds, strict=True):
        theta[i, j] += signed * odds
        theta[j, i] += signed * odds
    np.testing.assert_allclose(fields.links, fields.shares.T @ theta @ fields.shares, atol=1e-9)
    take(observed, fields, CHOICE)

    def worth_of(classes: tuple[int, ...]) -> float:
        return sum(
            fields.links[g, h] for g, h in itertools.permutations(range(4), 2) if classes[g] == classes[h]
        )

    best = max(worth_of(classes) for classes in itertools.product(range(2), repeat=4) if len({*classes}) == 2)
    assert worth_of(tuple(fields.class_of)) == pytest.approx(best)


def test_rings_are_found_where_one_gaussian_a_class_cannot() -> None:
    rng = np.random.default_rng(1)
    angles, labels = rng.uniform(0, 2 * math.pi, 400), np.arange(400) % 2
    radius = 1.0 + 2.0 * labels + rng.normal(scale=0.1, size=400)
    Z = radius[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    layers = draw_layers(labels, 400, rng)
    shares = {}
    for count in (1, 8):
        fits = [
            components.fit_components(
                Z, layers, n_classes=2, components=count, covariance="full", rng=np.random.default_rng(seed)
            )
            for seed in range(3)
        ]
        best = max(fits, key=lambda fit: fit.bound)
        shares[count] = max((best.labels == labels).mean(), (best.labels != labels).mean())
        assert best.accuracies[0] == pytest.approx((0.9, 0.9), abs=0.05) or count == 1
    assert shares[8] > 0.99 > shares[1]
    few = np.repeat(Z[:3], 9, axis=0)
    with pytest.raises(ValueError, match="3 distinct rows"):
        components.fit_components(few, [], n_classes=2, components=2, covariance="full", rng=rng)


def test_right_answers_decide_where_features_say_nothing() -> None:
    """With three answers a row nearly all rows are linked to each other, by chains of answers."""
    rng = np.random.default_rng(3)
    Z, labels = rng.normal(size=(400, 2)), rng.integers(2, size=400)
    pairs = rng.integers(400, size=(600, 2))
    layers = layers_of(pairs, are_alike(labels, pairs), accuracy=1.0)
    fits = [
        components.fit_components(
            Z, layers, n_classes=2, components=1, covariance="full", rng=np.random.default_rng(seed)
        )
        for seed in range(3)
    ]
    best = max(fits, key=lambda fit: fit.bound)
    assert abs(2.0 * (best.labels == labels).mean() - 1.0) > 0.9


def test_exponentials_of_shares_are_right_up_to_rounding() -> None:
    exact = panels.quick_exp.py_func
    for x in np.linspace(-30.0, 0.0, 20_001)[1:].tolist():
        assert exact(x) == pytest.approx(math.exp(x), rel=5e-16)
    assert exact(0.0) == 1.0
    assert exact(-30.0) == exact(-1e300) == exact(-math.inf) == 0.0


def test_annotations_in_another_order_or_added_up_are_laid_out_alike() -> None:
    rng = np.random.default_rng(5)
    Z, pairs, weights = rng.normal(size=(30, 2)), rng.integers(30, size=(80, 2)), rng.uniform(0.5, 2.0, 80)
    pairs[40:] = pairs[:40, ::-1]  # each pair twice, the other way round
    order = rng.permutation(80)
    shape: dict[str, Any] = {"n_classes": 2, "n_components": 2, "covariance": "diagonal"}
    whole = observe(samples_of(Z), link([Layer(MUST, pairs, weights)], len(Z)), **shape)
    mixed = observe(samples_of(Z), link([Layer(MUST, pairs[order], weights[order])], len(Z)), **shape)
    sums = {
        (i, j): sum(w for pair, w in zip(pairs.tolist(), weights, strict=True) if sorted(pair) == [i, j])
        for i, j in (sorted(pair) for pair in pairs.tolist())
        if i != j
    }
    assert whole.pairs.tolist() == [list(pair) for pair in sorted(sums)]
    assert whole.signed == pytest.approx([sums[pair] for pair in sorted(sums)])
    for name in ("row_start", "partners", "entries", "pairs"):
        assert np.array_equal(getattr(whole, name), getattr(mixed, name)), name
    # both orders without weights have the same bits as one line of weight two
    single = observe(samples_of(Z), link([Layer(MUST, pairs[order])], len(Z)), **shape)
    double = observe(samples_of(Z), link([Layer(MUST, pairs[:40], np.full(40, 2.0))], len(Z)), **shape)
    for name in Observed._fields:
        assert np.array_equal(getattr(single, name), getattr(double, name)), name


def test_annotations_are_laid_out_as_one_pair_at_a_time_would_be() -> None:
    rng = np.random.default_rng(8)
    layers = []
    for kind, who, accuracy in ((MUST, 3, None), (CANNOT, 3, None), (MUST, 1, 0.9), (CANNOT, 1, None)):
        pairs, weights = rng.integers(0, 9, (40, 2)), rng.integers(1, 5, 40).astype(float)
        layers.append(Layer(kind, pairs, weights, accuracy, annotator=who))
    summed: dict[tuple[int, int, int, float, float], float] = {}
    for layer in layers:
        for (i, j), weight in zip(layer.pairs.tolist(), layer.weights, strict=True):
            if i != j:
                sign = 1.0 if layer.kind == MUST else -1.0
                odds = 0.0 if layer.accuracy is None else np.log(0.9 / 0.1)
                who = layer.annotator if layer.accuracy is None else -1
                key = (min(i, j), max(i, j), who, sign, round(float(odds), 9))
                summed[key] = summed.get(key, 0.0) + sign * weight
    links = link(layers, 9)
    expected = sorted(summed.items())
    assert links.annotators == (1, 3)
    assert links.pairs.tolist() == [[i, j] for (i, j, *_), _ in expected]
    assert links.sources.tolist() == [{-1: -1, 1: 0, 3: 1}[who] for (_, _, who, *_), _ in expected]
    assert links.signed.tolist() == [total for _, total in expected]
    assert links.odds == pytest.approx([odds for (*_, odds), _ in expected])
    for sample in range(9):
        mine = slice(*links.row_start[sample : sample + 2])
        pairs_of_sample = [(place, *key[:2]) for place, (key, _) in enumerate(expected) if sample in key[:2]]
        assert sorted(links.entries[mine].tolist()) == [place for place, *_ in pairs_of_sample]
        partner_of = {place: i + j - sample for place, i, j in pairs_of_sample}
        assert links.partners[mine].tolist() == [partner_of[entry] for entry in links.entries[mine].tolist()]


def observe_noise(rng: np.random.Generator, layers: list[Layer]) -> Observed:
    """Return forty samples of noise in one dimension, with answers, for two classes of one component each."""
    X = samples_of(rng.normal(size=(40, 1)))
    return observe(X, link(layers, 40), n_classes=2, n_components=2, covariance="spherical")


def test_a_group_of_annotators_is_never_below_chance() -> None:
    rng = np.random.default_rng(1)
    samples, who = rng.dirichlet(np.ones(2), size=40), rng.integers(3, size=150)
    pairs = np.array([rng.choice(40, 2, replace=False) for _ in who])
    together = (samples[pairs[:, 0]] * samples[pairs[:, 1]]).sum(axis=1)
    must = (together > 0.5) == (rng.random(len(who)) < 0.1)
    layers = [
        Layer(kind, pairs[(who == number) & (must == (kind == MUST))], annotator=number)
        for number in range(3)
        for kind in (MUST, CANNOT)
    ]
    observed = observe_noise(rng, layers)
    fields = panels.new_fields(observed, 2)
    fields.classes[:], fields.accuracies[:] = samples, 0.6
    take(observed, fields, *[ACCURACIES] * 40)
    estimates = data.estimate_accuracies(who, must, np.ones(len(who)), together)
    assert fields.accuracies.max() < 0.5
    assert fields.group.tolist() == [0.5, 0.5]
    assert estimates.group.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(fields.accuracies, estimates.accuracies, atol=2e-5)


def test_a_climb_leaves_each_class_a_component() -> None:
    observed, fields = begin_fit("spherical", 0.9)
    fields.links[:] = 1.0
    take(observed, fields, CLIMB)
    assert sorted(np.bincount(fields.class_of, minlength=2).tolist()) == [1, 3]


def test_a_single_annotator_is_never_below_chance() -> None:
    rng = np.random.default_rng(2)
    samples, pairs = rng.dirichlet(np.ones(2), size=40), np.array([[i, i + 1] for i in range(39)])
    is_must = (samples[pairs[:, 0]] * samples[pairs[:, 1]]).sum(axis=1) < 0.5  # most answers are wrong
    layers = [Layer(MUST, pairs[is_must]), Layer(CANNOT, pairs[~is_must])]
    observed = observe_noise(rng, layers)
    fields = panels.new_fields(observed, 2)
    fields.classes[:] = samples
    take(observed, fields, ACCURACIES)
    assert fields.accuracies.tolist() == [[0.5 + data.UNSURE] * 2]


def test_the_prior_scatter_is_that_of_the_share_of_space_of_a_component() -> None:
    Z = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 2.0, 3.0]
    observed = observe(samples_of(Z), link((), 50), n_classes=2, n_components=8, covariance="diagonal")
    # eight components that fill the space have half of its width in each of three dimensions
    np.testing.assert_allclose(np.sqrt(observed.scale), 0.5 * Z.std(axis=0))


@pytest.mark.parametrize(
    ("covariance", "strength"), [("spherical", 4.0), ("diagonal", 4.0), ("tied", 7.0), ("full", 7.0)]
)
def test_the_prior_of_a_matrix_alone_counts_as_more_samples_in_more_dimensions(
    covariance: str, strength: float
) -> None:
    samples = samples_of(np.random.default_rng(0).normal(size=(20, 5)))
    observed = observe(samples, link((), 20), n_classes=2, n_components=2, covariance=covariance)
    assert observed.strength == strength


def test_components_get_the_best_of_all_maps_to_classes_and_not_the_last_one_that_is_tried() -> None:
    rng = np.random.default_rng(2)
    layers = draw_layers(rng.integers(3, size=40), 60, rng, accuracy=0.9)
    samples = samples_of(rng.normal(size=(40, 2)))
    observed = observe(samples, link(layers, 40), n_classes=3, n_components=7, covariance="spherical")
    fields = panels.new_fields(observed, 7)
    fields.shares[:] = rng.dirichlet(np.full(7, 0.1), size=40)
    take(observed, fields, PULLS, CHOICE)
    maps = np.array([classes for classes in itertools.product(range(3), repeat=7) if len({*classes}) == 3])
    worths = (fields.links * (maps[:, :, None] == maps[:, None])).sum(axis=(1, 2))
    is_taken = (maps == fields.class_of).all(axis=1)
    assert worths[is_taken] == pytest.approx(worths.max())
