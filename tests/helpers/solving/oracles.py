"""Slow, obvious twins of the kernels, written from docs/model.md with dense matrices and no state."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.problem.problem import MUST, Layer, Problem, build_problem
from kernels.settings import ObjectiveSettings

MODELS = ["unsupervised", "likelihood", "posterior", "conditional"]
COVARIANCES = ["spherical", "common", "diagonal", "tied", "full"]
SHAPED = ("diagonal", "tied", "full")
"""Shapes of covariance with a prior: their twins go by determinants, in the units of X."""


@dataclass(frozen=True)
class Case:
    """A problem as the oracles see it."""

    X: NDArray[np.float64]
    layers: Sequence[Layer]
    n_clusters: int
    model: str
    min_size: int = 2
    kappa: float = 0.0
    covariance: str = "spherical"
    covariance_prior: float = 1.0
    feature_weight: float | str = 1.0
    proportions: str = "equal"

    def problem(self) -> Problem:
        return build_problem(
            self.X,
            self.layers,
            n_clusters=self.n_clusters,
            model=self.model,
            covariance=self.covariance,
            settings=ObjectiveSettings(
                min_cluster_size=self.min_size,
                variance_prior=self.kappa,
                covariance_prior=self.covariance_prior,
                feature_weight=self.feature_weight,
                proportions=self.proportions,
            ),
        )

    @property
    def used_layers(self) -> list[Layer]:
        return [] if self.model == "unsupervised" else [layer for layer in self.layers if len(layer.pairs)]


def adjacency(layer: Layer, n_samples: int) -> NDArray[np.float64]:
    """A_ij; a self pair of weight w adds 2 w."""
    A = np.zeros((n_samples, n_samples))
    weights = np.ones(len(layer.pairs)) if layer.weights is None else layer.weights
    for (i, j), weight in zip(layer.pairs, weights, strict=True):
        A[i, j] += weight
        A[j, i] += weight
    return A


def effective_weight_of(case: Case) -> float:
    """Of the features as the shape sees them."""
    if case.covariance in ("tied", "full"):
        return 1.0
    X = case.X[:, np.ptp(case.X, axis=0) > 0]
    return effective_weight(X / X.std(axis=0) if case.covariance == "diagonal" else case.X)


def effective_weight(X: NDArray[np.float64]) -> float:
    """From the eigenvalues of the covariance: (sum)² / (D sum of squares)."""
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(X, rowvar=False)))
    return float(values.sum() ** 2 / (len(values) * np.sum(values**2)))


def gmm(case: Case, labels: NDArray[np.integer]) -> float:
    weight = effective_weight_of(case) if isinstance(case.feature_weight, str) else case.feature_weight
    shares = np.bincount(labels) / len(labels)
    total = float(np.log(shares[labels]).sum()) if case.proportions == "free" else 0.0
    return total + weight * unweighted_gmm(case, labels)


def unweighted_gmm(case: Case, labels: NDArray[np.integer]) -> float:
    if case.covariance in SHAPED:
        return shaped_gmm(case, labels)
    groups = variances(case, labels)
    total = 0.0
    for n, variance in groups[:1] if case.covariance == "common" else groups:
        if variance > 0.0:
            total -= 0.5 * case.X.shape[1] * (n + case.kappa) * (1.0 + np.log(variance))
    return float(total)


def variances(case: Case, labels: NDArray[np.integer]) -> list[tuple[int, float]]:
    """Samples of each variance, and its value, 0 for a degenerate one; of all together where there is one."""
    d, s2 = case.X.shape[1], np.mean((case.X - case.X.mean(axis=0)) ** 2)
    groups = [case.X[labels == r] for r in range(case.n_clusters)]
    found = [(len(own), np.sum((own - own.mean(axis=0)) ** 2) if len(own) else 0.0) for own in groups]
    if case.covariance == "common":
        found = [(len(labels), sum(error for _, error in found))] * case.n_clusters
    more = case.kappa * d
    return [
        (n, (error + more * s2) / (d * n + more) if more > 0.0 or error > 1e-10 * n * d * s2 else 0.0)
        for n, error in found
    ]


def annotation_term(case: Case, labels: NDArray[np.integer]) -> float:
    """Annotations one by one: those of known accuracy, then each annotator's with the best accuracy."""
    total = 0.0
    unknown: dict[int, list[tuple[float, bool]]] = {}
    for layer in case.used_layers:
        weights = np.ones(len(layer.pairs)) if layer.weights is None else layer.weights
        own = np.full(len(layer.pairs), np.nan) if layer.accuracies is None else layer.accuracies
        for (i, j), weight, accuracy in zip(layer.pairs, weights, own, strict=True):
            if i == j:
                continue
            right = (labels[i] == labels[j]) == (layer.kind == MUST)
            p = layer.accuracy if np.isnan(accuracy) else accuracy
            if p is None:
                unknown.setdefault(layer.annotator, []).append((float(weight), bool(right)))
                continue
            p = min(max(p, 1e-6), 1 - 1e-6)
            total += weight * np.log(p if right else 1 - p)
    for votes in unknown.values():
        weight = sum(w for w, _ in votes)
        agreeing = sum(w for w, right in votes if right)
        p = min(max(agreeing / weight, 0.5), 1 - 1e-6)
        total += agreeing * np.log(p) + (weight - agreeing) * np.log(1 - p)
    return float(total)


def rates(layer: Layer, sizes: NDArray[np.integer], m: float) -> tuple[float, float]:
    """lambda_in, lambda_out."""
    assert layer.accuracy is not None
    p = min(layer.accuracy, 1 - 1e-6)
    inside = 0.5 * sum(n * (n + 1) for n in sizes.tolist())
    outside = sum(a * b for a, b in itertools.combinations(sizes.tolist(), 2))
    odds = p / (1 - p)
    if layer.kind == MUST:
        inner = (inside + outside / odds) / m
        return inner, odds * inner
    inner = (inside + odds * outside) / m
    return inner, inner / odds


def objective_parts(case: Case, labels: NDArray[np.integer]) -> tuple[float, float, float]:
    labels = np.asarray(labels)
    Z = np.eye(case.n_clusters)[labels]
    sizes = np.bincount(labels, minlength=case.n_clusters)
    if case.model == "conditional":
        return gmm(case, labels), annotation_term(case, labels), 0.0
    sbm = prior = 0.0
    for layer in case.used_layers:
        A = adjacency(layer, len(labels))
        counts = Z.T @ A @ Z
        exposure = np.outer(sizes, sizes).astype(float)
        denominator = exposure.copy()
        if case.model == "posterior":
            inner, outer = rates(layer, sizes, A.sum() / 2)
            rate = np.where(np.eye(case.n_clusters, dtype=bool), inner, outer)
            denominator += rate * (1 + np.eye(case.n_clusters))
        omega = np.zeros_like(counts)
        np.divide(counts, denominator, out=omega, where=counts > 0)
        logs = np.zeros_like(counts)
        np.log(omega, out=logs, where=counts > 0)
        sbm += 0.5 * np.sum(counts * logs - exposure * omega)
        if case.model == "posterior":
            upper = np.triu_indices(case.n_clusters)
            prior += np.sum(np.log(rate[upper]) - rate[upper] * omega[upper])
    return gmm(case, labels), float(sbm), float(prior)


def objective(case: Case, labels: NDArray[np.integer]) -> float:
    return sum(objective_parts(case, labels))


def gain(case: Case, labels: NDArray[np.integer], sample: int, target: int) -> float:
    moved = labels.copy()
    moved[sample] = target
    return objective(case, moved) - objective(case, labels)


def partitions(n_samples: int, n_clusters: int, min_size: int) -> Iterator[NDArray[np.int64]]:
    """Every partition once, clusters numbered by first appearance."""
    for labels in itertools.product(range(n_clusters), repeat=n_samples):
        found = np.array(labels)
        if [*dict.fromkeys(labels)] == [*range(n_clusters)] and np.bincount(found).min() >= min_size:
            yield found


def best_partition(case: Case) -> float:
    every = partitions(len(case.X), case.n_clusters, case.min_size)
    return max(objective(case, labels) for labels in every)


def shuffle(rng: np.random.Generator, items: list[int]) -> None:
    for last in range(len(items) - 1, 0, -1):
        chosen = min(int(rng.random() * (last + 1)), last)
        items[last], items[chosen] = items[chosen], items[last]


def annotated_samples(case: Case) -> list[int]:
    return sorted({int(i) for layer in case.used_layers for i in np.asarray(layer.pairs).ravel()})


def phase_one(
    case: Case, labels: NDArray[np.int64], rng: np.random.Generator, samples: list[int], clusters: list[int]
) -> int:
    """Relocate annotated samples in place; both orders are shuffled on by later passes."""
    shuffle(rng, samples)
    moved = 0
    for sample in samples:
        if np.sum(labels == labels[sample]) <= case.min_size:
            continue
        if max(gain(case, labels, sample, k) for k in clusters) <= 1e-9:
            continue
        shuffle(rng, clusters)
        for target in clusters:
            if target != labels[sample] and gain(case, labels, sample, target) > 1e-9:
                labels[sample] = target
                moved += 1
    return moved + phase_one(case, labels, rng, samples, clusters) if moved else 0


def phase_two(case: Case, labels: NDArray[np.int64]) -> int:
    cost = shaped_costs(case, labels) if case.covariance in SHAPED else spherical_costs(case, labels)
    if case.proportions == "free":
        cost = cost - np.log(np.bincount(labels, minlength=case.n_clusters) / len(labels))
    annotated = set(annotated_samples(case))
    moved = 0
    for i in range(len(labels)):
        source = labels[i]
        if i in annotated or np.sum(labels == source) <= case.min_size or np.isinf(cost[i, source]):
            continue
        target = int(np.argmin(cost[i]))
        if cost[i, target] < cost[i, source] - 1e-9:
            labels[i] = target
            moved += 1
    return moved + phase_two(case, labels) if moved else 0


def spherical_costs(case: Case, labels: NDArray[np.integer]) -> NDArray[np.float64]:
    cost = np.full((len(labels), case.n_clusters), np.inf)
    for r, (_, variance) in enumerate(variances(case, labels)):
        if case.covariance == "common":
            variance = max(variance, 1e-10 * np.mean((case.X - case.X.mean(axis=0)) ** 2))
        if variance > 0.0:
            squares = np.sum((case.X - case.X[labels == r].mean(axis=0)) ** 2, axis=1)
            cost[:, r] = squares / (2 * variance) + 0.5 * case.X.shape[1] * np.log(variance)
    return cost


def local_search(case: Case, labels: NDArray[np.integer], rng: np.random.Generator) -> NDArray[np.int64]:
    labels = labels.astype(np.int64)
    best, best_value = labels.copy(), -np.inf
    samples, clusters = annotated_samples(case), list(range(case.n_clusters))
    while True:
        changes = phase_one(case, labels, rng, samples, clusters) if samples else 0
        changes += phase_two(case, labels)
        value = objective(case, labels)
        if value > best_value:
            best, best_value = labels.copy(), value
        if changes == 0:
            return best


def draw_case(
    seed: int,
    *,
    n_samples: int = 24,
    n_features: int = 3,
    n_clusters: int = 3,
    model: str = "posterior",
    accuracies: tuple[float, float] = (0.9, 0.9),
    m: int = 30,
    **settings: float | str,
) -> Case:
    """Random data with one must-link and one cannot-link layer; pairs repeat and some are self pairs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features)) + rng.integers(0, 3, size=(n_samples, 1))
    pairs = rng.integers(0, n_samples - n_samples // 5, size=(m, 2))
    pairs[: m // 8, 1] = pairs[: m // 8, 0]
    pairs[-3:] = pairs[-6:-3]
    kinds = rng.integers(0, 2, size=m)
    layers = [Layer(kind, pairs[kinds == kind], None, accuracies[kind]) for kind in (0, 1)]
    return Case(X, layers, n_clusters, model, **settings)  # type: ignore[arg-type]


def draw_labels(case: Case, seed: int) -> NDArray[np.int16]:
    """Random labels that respect the least size."""
    rng = np.random.default_rng(seed)
    n_samples = len(case.X)
    fixed = np.repeat(np.arange(case.n_clusters), case.min_size)
    free = rng.integers(0, case.n_clusters, size=n_samples - len(fixed))
    return rng.permutation(np.concatenate([fixed, free])).astype(np.int16)


def features_with_a_density(case: Case) -> NDArray[np.float64]:
    """Columns that are not constant nor given by the others: which of those, changes a constant alone."""
    X = case.X[:, np.ptp(case.X, axis=0) > 0]
    if case.covariance == "diagonal":
        return X
    X = case.X[:, case.problem().kept]
    scaled = (case.X - case.X.mean(axis=0)) / np.maximum(case.X.std(axis=0), 1e-12 * np.abs(case.X).max())
    assert X.shape[1] == np.linalg.matrix_rank(scaled, tol=1e-6)
    return X


def prior(case: Case, X: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Scale matrix, and what is added to the sizes."""
    n_dims = X.shape[1]
    scale = case.covariance_prior * np.cov(X, rowvar=False, ddof=0).reshape(n_dims, n_dims)
    scale = scale / case.n_clusters ** (2 / n_dims)
    if case.covariance == "diagonal":
        return np.diag(np.diag(scale)) / 10, case.covariance_prior * 2.5
    return scale, case.covariance_prior * (n_dims + 2 + n_dims + 1)


def scatters_of(
    case: Case, X: NDArray[np.float64], labels: NDArray[np.integer]
) -> list[tuple[int, NDArray[np.float64]]]:
    """Size and scatter of each covariance, for each cluster: of all together where there is one."""
    found = []
    for r in range(case.n_clusters):
        members = X[labels == r]
        differences = members - members.mean(axis=0) if len(members) else members
        scatter = differences.T @ differences
        found.append((len(members), np.diag(np.diag(scatter)) if case.covariance == "diagonal" else scatter))
    if case.covariance == "tied":
        found = [(len(labels), sum(scatter for _, scatter in found))] * case.n_clusters
    return found


def shaped_gmm(case: Case, labels: NDArray[np.integer]) -> float:
    """Shapes diagonal, tied and full, by determinants."""
    X = features_with_a_density(case)
    n_dims = X.shape[1]
    scale, more = prior(case, X)
    total = 0.0
    for n, scatter in scatters_of(case, X, labels)[: 1 if case.covariance == "tied" else None]:
        if n == 0 or (more == 0.0 and is_degenerate(n, scatter, X)):
            continue
        total -= 0.5 * (n + more) * (log_det(scatter + scale) - n_dims * np.log(n + more) + n_dims)
        if more > 0.0:
            total += 0.5 * more * (log_det(scale) - n_dims * np.log(more) + n_dims)
    return float(total)


def is_degenerate(n: int, scatter: NDArray[np.float64], X: NDArray[np.float64]) -> bool:
    return bool(n <= 1 or (np.diag(scatter) <= 1e-10 * n * X.var(axis=0)).any())


def log_det(matrix: NDArray[np.float64]) -> float:
    root = np.sqrt(np.diag(matrix))
    return float(np.linalg.slogdet(matrix / np.outer(root, root))[1] + 2 * np.log(root).sum())


def shaped_costs(case: Case, labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Minus the log-density of each sample in each cluster, but for a constant."""
    X = features_with_a_density(case)
    scale, more = prior(case, X)
    cost = np.full((len(labels), case.n_clusters), np.inf)
    for r, (n, scatter) in enumerate(scatters_of(case, X, labels)):
        if more == 0.0 and is_degenerate(n, scatter, X):
            continue
        covariance = (scatter + scale) / (n + more)
        differences = X - X[labels == r].mean(axis=0)
        squares = np.einsum("nd,nd->n", differences, np.linalg.solve(covariance, differences.T).T)
        cost[:, r] = 0.5 * squares + 0.5 * log_det(covariance)
    return cost


def tiny_case(seed: int, n_clusters: int, model: str, n_samples: int) -> Case:
    """Samples in groups, all annotated, one annotation in five wrong; "unknown" is conditional without p.

    So small that all partitions can be tried.
    """
    rng = np.random.default_rng(seed)
    truth = np.arange(n_samples) % n_clusters
    X = rng.normal(size=(n_samples, 2)) + 5.0 * np.column_stack([truth == 1, truth == 2])
    i, j = np.arange(n_samples), rng.integers(0, n_samples, size=n_samples)
    kinds = (truth[i] != truth[j]) ^ (rng.random(n_samples) < 0.2)
    pairs = np.column_stack([i, j])
    accuracy = None if model == "unknown" else 0.8
    layers = [Layer(kind, pairs[kinds == kind], None, accuracy) for kind in (0, 1)]
    return Case(X, layers, n_clusters, "conditional" if model == "unknown" else model)
