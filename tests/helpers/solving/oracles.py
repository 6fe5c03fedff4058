"""These slow, obvious twins of the kernels follow docs/model.md with dense matrices and no state."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from sweep_clustering.kernels.problem.data import MUST
from sweep_clustering.kernels.problem.problem import Layer, Problem, build_problem
from sweep_clustering.kernels.settings import ObjectiveSettings

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
        items: Any = (self.min_size, self.kappa, self.covariance_prior, self.feature_weight, self.proportions)
        options: Any = {"n_clusters": self.n_clusters, "model": self.model, "covariance": self.covariance}
        return build_problem(self.X, self.layers, settings=ObjectiveSettings(*items), **options)

    @property
    def used_layers(self) -> list[Layer]:
        return [] if self.model == "unsupervised" else [layer for layer in self.layers if len(layer.pairs)]


def adjacency(layer: Layer, n_samples: int) -> NDArray[np.float64]:
    """Return A_ij, where a self pair of weight w adds 2 w."""
    A = np.zeros((n_samples, n_samples))
    np.add.at(A, tuple(layer.pairs.T), 1.0 if layer.weights is None else layer.weights)
    return A + A.T


def effective_weight(X: NDArray[np.float64]) -> float:
    """Return (sum)² / (D sum of squares) of the eigenvalues of the covariance."""
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(X, rowvar=False)))
    return float(values.sum() ** 2 / (len(values) * np.sum(values**2)))


def gmm(case: Case, labels: NDArray[np.integer]) -> float:
    X, weight = features_with_a_density(case), case.feature_weight
    if isinstance(weight, str):
        scaled = X / X.std(axis=0) if case.covariance == "diagonal" else X
        weight = 1.0 if case.covariance in ("tied", "full") else effective_weight(scaled)
    total = 0.0
    groups = covariances_of(case, X, labels)
    for n, covariance in groups[: 1 if case.covariance in ("common", "tied") else None]:
        if covariance is not None:
            total -= 0.5 * n * (log_det(covariance) + X.shape[1])
    scale, more = prior(case, X)
    if case.covariance in SHAPED and more > 0.0:
        # Each cluster that is not empty is compared with the prior at its own mode.
        n_priors = 1 if case.covariance == "tied" else len(np.unique(labels))
        total += n_priors * 0.5 * more * (log_det(scale / more) + X.shape[1])
    shares = np.bincount(labels) / len(labels)
    proportions = float(np.log(shares[labels]).sum()) if case.proportions == "free" else 0.0
    return proportions + weight * float(total)


def covariances_of(
    case: Case, X: NDArray[np.float64], labels: NDArray[np.integer]
) -> list[tuple[float, NDArray[np.float64] | None]]:
    """Return size (with the prior's) and value of each cluster's covariance; None if it is degenerate."""
    covariances: list[tuple[float, NDArray[np.float64] | None]] = []
    scale, more = prior(case, X)
    for n, scatter in scatters_of(case, X, labels):
        nothing = n == 0 or (more == 0.0 and is_degenerate(case, n, scatter, X))
        covariances.append((n + more, None if nothing else (scatter + scale) / (n + more)))
    return covariances


def annotation_term(case: Case, labels: NDArray[np.integer]) -> float:
    """Add annotations one by one: those of known accuracy, then each annotator's with the best accuracy."""
    total = 0.0
    votes: dict[int, NDArray[np.float64]] = {}
    for layer in case.used_layers:
        weights = np.ones(len(layer.pairs)) if layer.weights is None else layer.weights
        accuracies = np.full(len(layer.pairs), np.nan) if layer.accuracies is None else layer.accuracies
        for (i, j), weight, accuracy in zip(layer.pairs, weights, accuracies, strict=True):
            if i == j:
                continue
            is_right = int((labels[i] == labels[j]) == (layer.kind == MUST))
            p = layer.accuracy if np.isnan(accuracy) else accuracy
            if p is None:
                votes.setdefault(layer.annotator, np.zeros(2))[is_right] += weight
            else:
                p = min(max(p, 1e-6), 1 - 1e-6)
                total += weight * np.log(p if is_right else 1 - p)
    for wrong, right in votes.values():
        p = min(max(right / (wrong + right), 0.5), 1 - 1e-6)
        total += right * np.log(p) + wrong * np.log(1 - p)
    return float(total)


def rates(layer: Layer, sizes: NDArray[np.integer], m: float) -> tuple[float, float]:
    """Return lambda_in and lambda_out."""
    assert layer.accuracy is not None
    p = min(layer.accuracy, 1 - 1e-6)
    inside = 0.5 * sum(n * (n + 1) for n in sizes.tolist())
    outside = sum(a * b for a, b in itertools.combinations(sizes.tolist(), 2))
    odds = p / (1 - p) if layer.kind == MUST else (1 - p) / p
    inner = (inside + outside / odds) / m
    return inner, odds * inner


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
        omega = counts / denominator
        sbm += 0.5 * np.sum(xlogy(counts, omega) - exposure * omega)
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
    """Yield every partition once, with clusters numbered by first appearance."""
    for labels in itertools.product(range(n_clusters), repeat=n_samples):
        partition = np.array(labels)
        if [*dict.fromkeys(labels)] == [*range(n_clusters)] and np.bincount(partition).min() >= min_size:
            yield partition


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
        is_free = np.sum(labels == labels[sample]) > case.min_size
        if not is_free or max(gain(case, labels, sample, k) for k in clusters) <= 1e-9:
            continue
        shuffle(rng, clusters)
        for target in clusters:
            if target != labels[sample] and gain(case, labels, sample, target) > 1e-9:
                labels[sample] = target
                moved += 1
    return moved + phase_one(case, labels, rng, samples, clusters) if moved else 0


def phase_two(case: Case, labels: NDArray[np.int64]) -> int:
    X = features_with_a_density(case)
    cost = np.full((len(labels), case.n_clusters), np.inf)
    for r, (_, covariance) in enumerate(covariances_of(case, X, labels)):
        if covariance is None and case.covariance == "common":
            covariance = 1e-10 * X.var(axis=0).mean() * np.eye(X.shape[1])
        if covariance is not None:
            differences = X - X[labels == r].mean(axis=0)
            squares = np.einsum("nd,nd->n", differences, np.linalg.solve(covariance, differences.T).T)
            cost[:, r] = 0.5 * squares + 0.5 * log_det(covariance)
    if case.proportions == "free":
        cost = cost - np.log(np.bincount(labels, minlength=case.n_clusters) / len(labels))
    moved = 0
    for i in sorted({*range(len(labels))} - {*annotated_samples(case)}):
        source, target = labels[i], int(np.argmin(cost[i]))
        is_free = np.sum(labels == source) > case.min_size and np.isfinite(cost[i, source])
        if is_free and cost[i, target] < cost[i, source] - 1e-9:
            labels[i] = target
            moved += 1
    return moved + phase_two(case, labels) if moved else 0


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
    accuracies: tuple[float | None, float | None] = (0.9, 0.9),
    m: int = 30,
    **settings: float | str,
) -> Case:
    """Draw data with a must-link and a cannot-link layer; pairs repeat and some are self pairs.

    The model "unknown" is conditional, without accuracies.
    """
    if model == "unknown":
        model, accuracies = "conditional", (None, None)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features)) + rng.integers(0, 3, size=(n_samples, 1))
    pairs = rng.integers(0, n_samples - n_samples // 5, size=(m, 2))
    pairs[: m // 8, 1] = pairs[: m // 8, 0]
    pairs[-3:] = pairs[-6:-3]
    kinds = rng.integers(0, 2, size=m)
    layers = [Layer(kind, pairs[kinds == kind], None, accuracies[kind]) for kind in (0, 1)]
    return Case(X, layers, n_clusters, model, **settings)  # type: ignore[arg-type]


def draw_labels(case: Case, seed: int) -> NDArray[np.int16]:
    """Draw labels that respect the least size."""
    rng = np.random.default_rng(seed)
    fixed = np.repeat(np.arange(case.n_clusters), case.min_size)
    free = rng.integers(0, case.n_clusters, size=len(case.X) - len(fixed))
    return rng.permutation(np.concatenate([fixed, free])).astype(np.int16)


def features_with_a_density(case: Case) -> NDArray[np.float64]:
    """Return columns that are neither constant nor given by others; the choice changes a constant alone."""
    if case.covariance not in SHAPED:
        return case.X
    X = case.X[:, np.ptp(case.X, axis=0) > 0]
    if case.covariance == "diagonal":
        return X
    X = case.X[:, case.problem().dims]
    scaled = (case.X - case.X.mean(axis=0)) / np.maximum(case.X.std(axis=0), 1e-12 * np.abs(case.X).max())
    assert X.shape[1] == np.linalg.matrix_rank(scaled, tol=1e-6)
    return X


def prior(case: Case, X: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the scale matrix and the number that is added to the sizes."""
    n_dims = X.shape[1]
    if case.covariance not in SHAPED:
        return case.kappa * X.var(axis=0).mean() * np.eye(n_dims), case.kappa
    scale = case.covariance_prior * np.cov(X, rowvar=False, ddof=0).reshape(n_dims, n_dims)
    scale = scale / case.n_clusters ** (2 / n_dims)
    if case.covariance == "diagonal":
        return np.diag(np.diag(scale)) / 10, case.covariance_prior * 2.5
    return scale, case.covariance_prior * (n_dims + 2 + n_dims + 1)


def scatters_of(
    case: Case, X: NDArray[np.float64], labels: NDArray[np.integer]
) -> list[tuple[int, NDArray[np.float64]]]:
    """Return size and scatter of each cluster's covariance, or of the one that all clusters share."""
    scatters = []
    for r in range(case.n_clusters):
        members = X[labels == r]
        differences = members - members.mean(axis=0) if len(members) else members
        scatter = differences.T @ differences
        if case.covariance not in ("tied", "full"):
            scatter = np.diag(np.diag(scatter))
        if case.covariance not in SHAPED:
            scatter = np.trace(scatter) / X.shape[1] * np.eye(X.shape[1])
        scatters.append((len(members), scatter))
    if case.covariance in ("common", "tied"):
        scatters = [(len(labels), sum(scatter for _, scatter in scatters))] * case.n_clusters
    return scatters


def is_degenerate(case: Case, n: int, scatter: NDArray[np.float64], X: NDArray[np.float64]) -> bool:
    if case.covariance in SHAPED:
        return bool(n <= 1 or (np.diag(scatter) <= 1e-10 * n * X.var(axis=0)).any())
    return bool(scatter[0, 0] <= 1e-10 * n * X.var(axis=0).mean())


def log_det(matrix: NDArray[np.float64]) -> float:
    root = np.sqrt(np.diag(matrix))
    return float(np.linalg.slogdet(matrix / np.outer(root, root))[1] + 2 * np.log(root).sum())
