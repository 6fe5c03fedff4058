"""Every fit and every draw obeys hard links, whatever clusters are made of."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence

from sweep_clustering.kernels.partition.objective import objective_terms
from sweep_clustering.kernels.problem.data import CANNOT, HARD, MUST, Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import TERMS, settings_of
from sweep_clustering.kernels.solver.contract import Effort, Model
from sweep_clustering.kernels.solver.prepare import Clusters, Hard, prepare
from sweep_clustering.kernels.structure import COVARIANCES

N_SAMPLES = 48
SEED = SeedSequence(1)

MODELS = {term: Model(term, "spherical", settings_of({})) for term in TERMS}
MODELS |= {shape: Model("conditional", shape, settings_of({})) for shape in (*COVARIANCES[1:], "auto")}
MODELS |= {
    "two components": Model("conditional", "full", settings_of({"components": 2})),
    "any": Model("conditional", "any", settings_of({})),
    "any without annotations": Model("unsupervised", "any", settings_of({})),
}


def wrong_links(seed: int = 0) -> tuple[Any, list[Layer]]:
    """Return three classes, hard links that have little to do with them, and two annotators."""
    rng = np.random.default_rng(seed)
    classes, hidden = np.arange(N_SAMPLES) % 3, rng.integers(3, size=N_SAMPLES)
    X = rng.normal(size=(N_SAMPLES, 2)) + 4.0 * np.eye(3, 2)[classes]
    layers = []
    for truth, size, is_hard in ((hidden, 30, True), (classes, 40, False), (classes, 40, False)):
        pairs = rng.integers(N_SAMPLES, size=(size, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        is_must = truth[pairs[:, 0]] == truth[pairs[:, 1]]
        accuracy, number = (HARD, 0) if is_hard else (0.8, len(layers))
        for kind in (MUST, CANNOT):
            chosen = pairs[is_must == (kind == MUST)]
            layers.append(Layer(kind, chosen, accuracy=accuracy, annotator=number, is_hard=is_hard))
    return X, layers


def count_broken(labels: Any, layers: list[Layer]) -> int:
    """Return how many hard links are broken by partitions of shape (..., n_samples)."""
    hard = [layer for layer in layers if layer.is_hard]
    joined = [(labels[..., layer.pairs[:, 0]] == labels[..., layer.pairs[:, 1]]) for layer in hard]
    return sum(int((same != (layer.kind == MUST)).sum()) for same, layer in zip(joined, hard, strict=True))


@pytest.mark.parametrize(
    ("name", "is_known"),
    [(name, is_known) for name in MODELS for is_known in (True, False) if is_known or name != "posterior"],
)
def test_fits_and_draws_obey(name: str, is_known: bool) -> None:
    X, layers = wrong_links()
    layers = layers if is_known else without_accuracies(layers)
    solver = prepare(MODELS[name], X, layers, 3, SEED)
    fits = solver.solve([SeedSequence(2), SeedSequence(3)], predict=True).fits
    for fit in fits:
        assert count_broken(fit.labels, layers) == 0
        assert fit.objective == pytest.approx(fit.gmm + fit.sbm + fit.prior)
        assert fit.sizes.tolist() == np.bincount(fit.labels, minlength=3).tolist()
    for members in (1, 2):
        draws = solver.draws(fits, 0, SEED, Effort(8, 2, 1, members))
        assert count_broken(draws.labels, layers) == 0
        if draws.membership is not None:
            np.testing.assert_allclose(draws.membership.sum(axis=1), 1.0)
            linked = np.unique(np.concatenate([layer.pairs for layer in layers if layer.is_hard]))
            frequencies = (draws.labels[0][:, :, None] == np.arange(3)).mean(axis=0)
            np.testing.assert_allclose(draws.membership[linked], frequencies[linked])


def test_a_repaired_fit_is_that_of_its_partition() -> None:
    X, layers = wrong_links()
    solver = prepare(MODELS["diagonal"], X, layers, 3, SEED)
    assert isinstance(solver, Hard)
    assert isinstance(solver.inner, Clusters)
    fit = solver.solve([SeedSequence(2)]).fits[0]
    gmm, sbm, prior = objective_terms(solver.inner.problem, fit.labels)
    assert fit.gmm == gmm
    assert fit.sbm == sbm
    assert fit.prior == prior
    np.testing.assert_allclose(fit.centroids[1], X[fit.labels == 1].mean(axis=0))


def without_accuracies(layers: list[Layer]) -> list[Layer]:
    """Return the same layers without the accuracies of the annotators."""
    return [layer if layer.is_hard else replace(layer, accuracy=None) for layer in layers]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_repaired_union_has_the_bound_of_its_shares(is_known: bool) -> None:
    X, layers = wrong_links()
    layers = layers if is_known else without_accuracies(layers)
    solver = prepare(MODELS["two components"], X, layers, 3, SEED)
    assert isinstance(solver, Hard)
    fit = solver.inner.solve([SeedSequence(2)]).fits[0]
    gaussians = fit.gaussians
    assert gaussians is not None
    samples = solver.groups.samples
    same = solver.inner.relabel(fit, samples, gaussians.classes[samples])
    assert same.objective == pytest.approx(fit.objective)
    shares = np.full((len(samples), 3), 1 / 3)
    bounds = []
    for classes in (gaussians.classes, solver.inner.relabel(fit, samples, shares).gaussians.classes):
        logs = gaussians.class_densities(gaussians.place(X))
        bound = (classes * (logs - np.log(np.maximum(classes, 1e-300)))).sum()
        for layer in layers:
            for first, second in layer.pairs:
                together = classes[first] @ classes[second]
                agrees = together if layer.kind == MUST else 1.0 - together
                p = layer.accuracy
                sides = gaussians.accuracies[layer.annotator] if p is None else (p, p)
                side = 0 if layer.kind == MUST else 1
                bound += agrees * np.log(sides[side]) + (1.0 - agrees) * np.log1p(-sides[1 - side])
        bounds.append(bound)
    change = solver.inner.relabel(fit, samples, shares).objective - fit.objective
    assert change == pytest.approx(bounds[1] - bounds[0])


def test_links_that_hold_anyway_change_few_labels() -> None:
    X, layers = wrong_links()
    soft = layers[2:]
    plain = prepare(MODELS["conditional"], X, soft, 3, SEED)
    labels = plain.solve([SeedSequence(2)]).fits[0].labels
    together = np.flatnonzero(labels == 0)[:5]
    must = np.column_stack([together[:-1], together[1:]])
    hard = Layer(MUST, must, accuracy=HARD, is_hard=True)
    fit = prepare(plain.model, X, [hard, *soft], 3, SEED).solve([SeedSequence(2)]).fits[0]
    assert adjusted_rand(labels, fit.labels) > 0.9


def test_weights_and_other_layers_do_not_make_links_hard() -> None:
    X, layers = wrong_links()
    soft = [replace(layer, is_hard=False) for layer in layers]
    assert not isinstance(prepare(MODELS["conditional"], X, soft, 3, SEED), Hard)
