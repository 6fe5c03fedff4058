"""Labels of some rows, some of them wrong, as pairs and as a field: `python -m benchmarks labels [--write]`.

Labels are drawn for a share of the rows, and a share of them is another class. Three references take the
labels without pairs. Seeded k-means starts from the means of the labelled rows. Constrained k-means never
moves these rows. A mixture of one Gaussian a class has the exact log-likelihood of each label as a field: the
share of right labels is given to it, and it chooses its shape by labels of held-out rows. Our fit takes
labels as pairs and assumes that their accuracy is .9. The run takes ten minutes.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn import datasets
from suite import SUITE, fit_any, read
from tables import Table

from sweep_clustering.kernels.problem.data import label_layers
from sweep_clustering.kernels.scores import adjusted_rand

HALVES = {
    "looked at": ("wine", "iris"),
    "not seen": ("ecoli", "glass", "ionosphere", "sonar", "wdbc", "digits"),
}
SHARES = (0.05, 0.2)
WRONG_SHARES = (0.0, 0.1, 0.2)
DRAWS = 1
DIGITS = 600  # rows
ASSUMED = 0.9

METHODS = ("seeded k-means", "constrained k-means", "label field", "labels as pairs")
MEANS = Table("labels/means", ("labelled", "wrong", "tables", *METHODS))
BY_TABLE = Table("labels/tables", ("table, 20 % labelled, 10 % wrong", "rows", "classes", *METHODS))
TABLES = (MEANS, BY_TABLE)

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


class Case(NamedTuple):
    """A table, the share of labelled rows, the share of wrong labels, and the number of the draw."""

    table: str
    share: float
    wrong: float
    draw: int


def data(name: str) -> tuple[Floats, Labels]:
    """Return standardised features and classes."""
    if name == "digits":
        table = datasets.load_digits()
        return table.data[:DIGITS], table.target[:DIGITS].astype(np.int64)
    folder = "other" if name == "iris" else "uci"
    X, classes = read(SUITE / folder, name)
    return X, np.unique(classes, return_inverse=True)[1].astype(np.int64)


def draw_labels(rng: Generator, classes: Labels, case: Case) -> Labels:
    """Draw labels of random rows, -1 for the others; at least two for each class on average."""
    n_classes = int(classes.max()) + 1
    rows = rng.choice(len(classes), max(round(case.share * len(classes)), 2 * n_classes), replace=False)
    labels = np.full(len(classes), -1)
    labels[rows] = classes[rows]
    wrong_rows = rows[rng.random(len(rows)) < case.wrong]
    labels[wrong_rows] = (labels[wrong_rows] + rng.integers(1, n_classes, len(wrong_rows))) % n_classes
    return labels


def seeded_kmeans(X: Floats, labels: Labels, n_classes: int, rng: Generator, *, constrained: bool) -> Labels:
    """Run k-means from the means of the labelled rows; classes without a label start at k-means++ draws."""
    labelled = np.flatnonzero(labels >= 0)
    classes = np.unique(labels[labelled])
    centers = np.zeros((n_classes, X.shape[1]))
    centers[classes] = [X[labelled[labels[labelled] == label]].mean(axis=0) for label in classes]
    seeds = list(classes)
    for empty in np.setdiff1d(np.arange(n_classes), classes):
        squares = np.square(X[:, None] - centers[seeds]).sum(axis=2).min(axis=1)
        centers[empty] = X[rng.choice(len(X), p=squares / squares.sum())]
        seeds.append(empty)
    clusters = np.full(len(X), -1)
    for _ in range(100):
        old_clusters, clusters = clusters, np.square(X[:, None] - centers).sum(axis=2).argmin(axis=1)
        if constrained:
            clusters[labelled] = labels[labelled]
        if np.array_equal(old_clusters, clusters):
            break
        for cluster in np.unique(clusters):
            centers[cluster] = X[clusters == cluster].mean(axis=0)
    return clusters


def mixture(
    X: Floats, labels: Labels, n_classes: int, accuracy: float, shape: str, rng: Generator
) -> tuple[Floats, Floats]:
    """Return the posterior of the classes with the field of the labels, and by the features alone."""
    (n, dims), is_labelled = X.shape, labels >= 0
    field = np.zeros((n, n_classes))
    field[is_labelled] = np.log((1.0 - accuracy) / (n_classes - 1))
    field[is_labelled, labels[is_labelled]] = np.log(accuracy)
    shares = np.eye(n_classes)[seeded_kmeans(X, labels, n_classes, rng, constrained=False)]
    prior, strength = np.diag(X.var(axis=0)) / n_classes ** (2.0 / dims), 4.0
    strength = dims + 2.0 if shape in ("full", "tied") else strength
    densities = np.zeros((n, n_classes))
    for _ in range(50):
        sizes = shares.sum(axis=0)
        means = shares.T @ X / np.maximum(sizes, 1e-9)[:, None]
        scatter = np.array(
            [(X - mean).T @ ((X - mean) * r[:, None]) for mean, r in zip(means, shares.T, strict=True)]
        )
        if shape == "tied":
            covariances = np.repeat([(scatter.sum(axis=0) + strength * prior) / (n + strength)], n_classes, 0)
        else:
            covariances = (scatter + strength * prior) / (sizes + strength)[:, None, None]
        if shape == "spherical":
            covariances = np.array([np.eye(dims) * np.trace(covariance) / dims for covariance in covariances])
        if shape == "diagonal":
            covariances = np.array([np.diag(np.diag(covariance)) for covariance in covariances])
        for k in range(n_classes):
            root = np.linalg.cholesky(covariances[k] + 1e-9 * np.eye(dims))
            lengths = np.square(np.linalg.solve(root, (X - means[k]).T)).sum(axis=0)
            densities[:, k] = (
                np.log((sizes[k] + 1.0) / (n + n_classes)) - np.log(np.diag(root)).sum() - lengths / 2
            )
        previous, log_weights = shares, densities + field
        shares = np.exp(log_weights - logsumexp(log_weights, axis=1, keepdims=True))
        if np.abs(shares - previous).max() < 1e-4:
            break
    return shares, np.exp(densities - logsumexp(densities, axis=1, keepdims=True))


def cluster_by_field(X: Floats, labels: Labels, n_classes: int, accuracy: float, rng: Generator) -> Labels:
    """Return the clusters of the mixture whose shape predicts the labels of held-out rows best."""
    labelled, losses = np.flatnonzero(labels >= 0), dict[str, float]()
    folds = rng.permutation(len(labelled)) % 5
    for shape in ("spherical", "diagonal", "tied", "full"):
        losses[shape] = 0.0
        for fold in range(5):
            part, rows = labels.copy(), labelled[folds == fold]
            part[rows] = -1
            shares = mixture(X, part, n_classes, accuracy, shape, rng)[1][rows, labels[rows]]
            error = (1.0 - accuracy) / (n_classes - 1)
            losses[shape] -= np.log(accuracy * shares + error * (1.0 - shares)).sum()
    best = min(losses, key=lambda shape: losses[shape])
    return np.asarray(mixture(X, labels, n_classes, accuracy, best, rng)[0].argmax(axis=1))


def scores_of(case: Case) -> list[float]:
    """Return ARI of each method on a case, over all rows."""
    X, classes = data(case.table)
    n_classes, entropy = int(classes.max()) + 1, [case.draw, round(100 * case.share), round(100 * case.wrong)]
    rng = np.random.default_rng(entropy)
    labels = draw_labels(rng, classes, case)
    accuracy = min(1.0 - case.wrong, 0.99)
    layers = label_layers(labels, ASSUMED, case.draw)
    result = fit_any(X, layers, n_classes, seed=case.draw)
    clusterings = (
        seeded_kmeans(X, labels, n_classes, rng, constrained=False),
        seeded_kmeans(X, labels, n_classes, rng, constrained=True),
        cluster_by_field(X, labels, n_classes, accuracy, rng),
        result.best.labels,
    )
    return [adjusted_rand(classes, clusters) for clusters in clusterings]


def measure() -> dict[str, str]:
    """Return the blocks of the documents."""
    names = [name for half in HALVES.values() for name in half]
    cases = [Case(*values) for values in product(names, SHARES, WRONG_SHARES, range(DRAWS))]
    with ProcessPoolExecutor(2) as pool:
        scores = dict(zip(cases, pool.map(scores_of, cases), strict=True))

    def mean(tables: tuple[str, ...], share: float, wrong: float) -> list[str]:
        rows = [scores[Case(*values)] for values in product(tables, (share,), (wrong,), range(DRAWS))]
        return [f"{value:.3f}" for value in np.mean(rows, axis=0)]

    def means() -> Iterator[tuple[object, ...]]:
        for (share, wrong), (half, tables) in product(product(SHARES, WRONG_SHARES), HALVES.items()):
            yield f"{share:.0%}", f"{wrong:.0%}", f"{len(tables)} {half}", *mean(tables, share, wrong)

    def by_table() -> Iterator[tuple[object, ...]]:
        for name in names:
            X, classes = data(name)
            yield name, len(X), int(classes.max()) + 1, *mean((name,), SHARES[1], WRONG_SHARES[1])

    return {MEANS.name: MEANS.markdown(means()), BY_TABLE.name: BY_TABLE.markdown(by_table())}
