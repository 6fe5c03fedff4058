"""Classes of merged groups, fitted to features and answers (docs/model.md, section 13).

`answers_of` lays annotations out, `directions` gives the axes of a space, and `fit_groups` the soft partition
in it as `Gaussians`, so that labels, memberships, draws and predictions are those of every other model.
`signed_classes` finds the classes by the answers alone, from eigenvectors of their signed graph: answers that
tie most rows together say which rows belong together, whatever the features. `fit_linear` starts from a
partition and lets answers move linear functions of the features, so that few classes are found along
directions that distances do not show.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.groups import merging
from sweep_clustering.kernels.groups.metric import (
    Answers,
    Logistic,
    diagonal_metric,
    full_metric,
    logistic,
    minimise,
    pair_squares,
)
from sweep_clustering.kernels.groups.refinement import bound_of, normalised, refine, scatter_of, settle_shares
from sweep_clustering.kernels.problem.data import UNSURE, Floats, Links, row_numbers
from sweep_clustering.kernels.structure import METRIC, MOST_ROWS, OF_ROWS, SIGNED, WARD, Structure, n_groups

# Log odds, nats, for answers whose accuracy is not given, if the structure has none.
DEFAULT_ODDS = 1.5

# Weight of squared distances, in units of the scatter about K means, where a class has several centers.
GROUP_WEIGHT = 3.0

# The same where a class has one center.
CLASS_WEIGHT = 10.0

# The same where classes start from the answers alone: distance decides where answers do not.
SIGNED_WEIGHT = 0.3

# Share of the scatter within classes that is spread equally over all directions.
SPREAD = 0.5

# Weight of the squared deviation of the functions from those of the first partition, in nats.
STIFFNESS = 0.3

# Factors of the first functions, the best of which by the likelihood of the partition is taken.
FACTORS = 2.0 ** np.arange(-6.0, 3.25, 0.5)

# Least size of a class, and least probability of an answer.
LEAST_SIZE = 1e-3
UNLIKELY = 1e-12

# Rows up to which all eigenvectors are computed: quicker than some of them by iteration.
DENSE = 400

# k-means starts, the best of which by inertia is used.
TRIES = 10


def answers_of(links: Links, odds: float = 0.0) -> Answers:
    """Lay annotations out as answers; those of unknown accuracy have these log odds, or the usual ones."""
    accuracies = np.clip(1.0 / (1.0 + np.exp(-links.assume(odds or DEFAULT_ODDS).odds)), UNSURE, 1.0 - UNSURE)
    pairs = links.pairs.astype(np.int64)
    return Answers(pairs, np.sign(links.signed), np.abs(links.signed), accuracies)


def directions(X: Floats, space: str, answers: Answers, axes: Floats) -> Floats:
    """Return the axes of a space that answers teach; a full metric is sought along the given axes."""
    if space == METRIC:
        return np.asarray(axes @ full_metric(X @ axes, answers))
    return diagonal_metric(X, answers)


class Start(NamedTuple):
    """Groups of rows, the class of each group, and the answers that a fit takes from there."""

    groups: NDArray[np.int64]  # (n_samples,)
    class_of: NDArray[np.int64]  # (n_groups,)
    answers: Answers


class Ground(NamedTuple):
    """Small groups and classes by the features of a space alone, which fits to all answers share."""

    groups: NDArray[np.int64]  # (n_samples,)
    classes: NDArray[np.int64]  # (n_samples,)
    scatter: float  # mean squared distance to the mean of a class
    state: Any  # state of the stream that fits go on with
    feature_fits: dict[Structure, Gaussians]  # fits without answers, which are the same for all answers


def ground_of(Z: Floats, n_classes: int, rng: Generator) -> Ground:
    """Find small groups and classes by the features alone."""
    groups = merging.small_groups(Z, n_groups(len(Z), n_classes), rng)
    if groups.max() + 1 < n_classes:  # many rows are equal
        groups = row_numbers(Z)
    classes = merging.small_groups(Z, n_classes, rng)
    return Ground(groups, classes, scatter_of(Z, classes), rng.bit_generator.state, {})


def fit_groups(
    Z: Floats,
    links: Links,
    structures: Sequence[Structure],
    n_classes: int,
    rng: Generator,
    ground: Ground | None = None,
) -> list[Gaussians]:
    """Fit structures of merged groups in one space, from the same small groups, which may be known."""
    groups, first_classes, scatter, state, feature_fits = ground or ground_of(Z, n_classes, rng)
    rng.bit_generator.state = state

    answers_by_odds = {odds: answers_of(links, odds) for odds in {structure.odds for structure in structures}}

    @cache
    def start(kind: str, odds: float, is_annotated: bool) -> Start:
        answers, stream = answers_by_odds[odds], rng
        if not is_annotated:
            # a stream of its own, so that other fits are the same whether this one is known or not
            answers, stream = answers.select(np.arange(0)), np.random.default_rng()
            stream.bit_generator.state = state
        if kind == SIGNED:
            return Start(signed_classes(Z, answers, first_classes, stream), np.arange(n_classes), answers)
        leaves = leaves_of(groups, kind)
        classes = merging.cut(tree_of(Z, leaves, answers, kind, scatter), n_classes)
        if kind in OF_ROWS:
            return _of_classes(Z, classes[leaves], answers, stream)
        return Start(groups, classes, answers)

    def fit(structure: Structure) -> Gaussians:
        if (gaussians := feature_fits.get(structure)) is not None:
            return replace(gaussians, accuracies=accuracies_of(links, gaussians.classes))
        first = start(structure.covariance, structure.odds, structure.annotated)
        gaussians = _gaussians(Z, links, first, scatter, structure)
        if not structure.annotated:
            feature_fits[structure] = gaussians
        return gaussians

    return [fit(structure) for structure in structures]


def _of_classes(Z: Floats, labels: NDArray[np.int64], answers: Answers, rng: Generator) -> Start:
    """Divide classes into small groups."""
    parts = merging.divide_classes(Z, labels, n_groups(len(Z), int(labels.max()) + 1), rng)
    return Start(parts, labels[np.unique(parts, return_index=True)[1]], answers)


def average_votes(Z: Floats, partitions: merging.Partitions, n_classes: int, rng: Generator) -> Floats:
    """Return the share of each class in each row, by the votes of weighted partitions.

    Average linkage merges rows by the share of partitions that have them together. Rows that all partitions
    have together stand for each other; small groups in these coordinates do, if there are too many of those.
    """
    patterns = np.unique(np.column_stack([labels for labels, _ in partitions]), axis=0, return_inverse=True)
    groups = patterns[1].ravel()
    if len(patterns[0]) > MOST_ROWS:
        groups = merging.small_groups(Z, n_groups(len(Z), n_classes), rng)
    if groups.max() + 1 < n_classes:
        groups = np.arange(len(Z))
    shares = merging.shares_together(groups, partitions)
    merges = merging.merge(shares, np.zeros_like(shares), np.bincount(groups))
    labels = merging.cut(merges, n_classes)[groups]
    shares = merging.votes(labels, partitions)
    if len(np.unique(shares.argmax(axis=1))) < n_classes:
        shares = 0.5 * (shares + np.eye(n_classes)[labels])
    return shares


def leaves_of(groups: NDArray[np.int64], linkage: str) -> NDArray[np.int64]:
    """Return what a linkage merges: rows, if it is one of rows and they are few, or else groups."""
    return np.arange(len(groups)) if linkage in OF_ROWS and len(groups) <= MOST_ROWS else groups


def tree_of(
    Z: Floats, groups: NDArray[np.int64], answers: Answers, linkage: str, scatter: float = 1.0
) -> NDArray[np.int64]:
    """Return the merges of small groups by distance and answers; Ward's linkage needs the scatter."""
    sizes = np.bincount(groups)
    centers, odds = merging.means_of(Z, groups, len(sizes)), merging.answer_odds(groups, len(sizes), answers)
    if linkage == WARD:
        return merging.merge(merging.ward_odds(centers, sizes, scatter), odds, sizes, linkage)
    squares = pair_squares(Z, answers.pairs)
    relation = logistic(squares, answers) if len(squares) else Logistic(0.0, 1.0)
    return merging.merge(merging.average_odds(centers, relation), odds, sizes, linkage)


def _gaussians(Z: Floats, links: Links, start: Start, scatter: float, structure: Structure) -> Gaussians:
    """Refine a partition, with its groups or with one center a class."""
    groups, class_of, answers = start
    if structure.components == 1:
        groups, class_of = class_of[groups], np.arange(int(class_of.max()) + 1)
    is_of_groups = structure.components > 1 and structure.covariance not in OF_ROWS
    weight = GROUP_WEIGHT if is_of_groups else CLASS_WEIGHT
    variance = scatter / (SIGNED_WEIGHT if structure.covariance == SIGNED else weight)
    partition = refine(Z, groups, class_of, answers, variance)
    n_components = len(class_of)
    return Gaussians(
        structure=structure,
        center=np.zeros(Z.shape[1]),
        class_of=class_of,
        classes=partition.classes,
        weights=np.full(n_components, 1.0 / n_components),
        means=partition.centers,
        covariances=np.full(partition.centers.shape, variance),
        accuracies=accuracies_of(links, partition.classes),
        terms=(partition.features, partition.annotations, 0.0),
        steps=1,
    )


def fit_linear(
    Z: Floats, links: Links, structure: Structure, labels: NDArray[np.integer], n_classes: int
) -> Gaussians:
    """Fit classes that linear functions tell apart, starting from a partition.

    Gaussians of one variance have such shares. A small variance keeps their proportions within bounds.
    """
    answers = answers_of(links, structure.odds)
    functions = linear_classes(Z, labels, answers, n_classes)
    logs = functions.logs(Z)
    classes = np.exp(logs)
    settle_shares(logs, answers, classes)
    slopes = functions.slopes.T - functions.slopes.mean(axis=1)
    norms = np.square(slopes).sum(axis=1)
    variance = 1.0 / max(float(norms.max()), np.finfo(float).tiny)
    return Gaussians(
        structure=structure,
        center=np.zeros(Z.shape[1]),
        class_of=np.arange(n_classes),
        classes=classes,
        weights=normalised((functions.intercepts + 0.5 * variance * norms)[None])[0],
        means=variance * slopes,
        covariances=np.full(slopes.shape, variance),
        accuracies=accuracies_of(links, classes),
        terms=(*bound_of(logs, answers, classes), functions.deviation),
        steps=1,
    )


def accuracies_of(links: Links, classes: Floats) -> dict[int, tuple[float, float]]:
    """Return the share of agreeing annotations for each annotator whose accuracy is not given."""
    shares = (classes[links.pairs[:, 0]] * classes[links.pairs[:, 1]]).sum(axis=1)
    right = np.where(links.signed > 0.0, shares, 1.0 - shares) * np.abs(links.signed)
    totals = {}
    for number, annotator in enumerate(links.annotators):
        answers = links.sources == number
        share = (float(right[answers].sum()) + 1.0) / (float(np.abs(links.signed[answers]).sum()) + 2.0)
        accuracy = min(max(share, 0.5 + UNSURE), 1.0 - UNSURE)
        totals[annotator] = accuracy, accuracy
    return totals


class Functions(NamedTuple):
    """Linear functions, one for each class, whose exponentials are in the ratio of the shares of a row."""

    slopes: Floats  # (n_dims, n_classes)
    intercepts: Floats  # (n_classes,)
    deviation: float  # prior on the deviation from the first functions, nats

    def logs(self, Z: Floats) -> Floats:
        """Return the logarithm of the share of each class in each row, nats."""
        logs = Z @ self.slopes + self.intercepts
        logs -= logs.max(axis=1, keepdims=True)
        return np.asarray(logs - np.log(np.exp(logs).sum(axis=1, keepdims=True)))


def discriminant(Z: Floats, labels: NDArray[np.integer], n_classes: int) -> Functions:
    """Return the functions of Gaussians with one matrix, as sure of a partition as its likelihood asks."""
    members = np.eye(n_classes)[labels]
    sizes = members.sum(axis=0)
    means = members.T @ Z / np.maximum(sizes, 1.0)[:, None]
    scatter = (Z.T @ Z - (means * sizes[:, None]).T @ means) / len(Z)
    spread = max(float(np.trace(scatter)) / len(scatter), np.finfo(float).tiny)
    slopes = np.linalg.solve((1.0 - SPREAD) * scatter + SPREAD * spread * np.eye(len(scatter)), means.T)
    shares = np.log(np.maximum(sizes, LEAST_SIZE) / len(Z))
    first = Functions(slopes, shares - 0.5 * (means * slopes.T).sum(axis=1), 0.0)
    candidates = [Functions(factor * slopes, factor * first.intercepts, 0.0) for factor in FACTORS.tolist()]
    return max(candidates, key=lambda functions: float(functions.logs(Z)[np.arange(len(Z)), labels].sum()))


def linear_classes(Z: Floats, labels: NDArray[np.integer], answers: Answers, n_classes: int) -> Functions:
    """Return functions that predict the answers best, near those of a partition.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_dims)
        Coordinates, whose means are 0.
    labels : ndarray of shape (n_samples,)
        Partition to start from.
    answers : Answers
        Answers about pairs of rows.
    n_classes : int
        Number of classes.
    """
    unit = np.sqrt(max(float(Z.var(axis=0).sum()), np.finfo(float).tiny))
    rows = np.column_stack([Z / unit, np.ones(len(Z))])
    first = discriminant(rows[:, :-1], labels, n_classes)
    start = np.vstack([first.slopes, first.intercepts])
    i, j = answers.pairs.T
    certainties = 2.0 * answers.accuracies - 1.0

    def loss(x: Floats) -> tuple[float, Floats]:
        shares, excess = normalised(rows @ x.reshape(start.shape)), x - start.ravel()
        joint_shares = np.einsum("nc,nc->n", shares[i], shares[j])
        agreements = np.where(answers.signs > 0.0, joint_shares, 1.0 - joint_shares)
        likelihoods = np.maximum(1.0 - answers.accuracies + certainties * agreements, UNLIKELY)
        slopes = csr_array(
            (-answers.weights * answers.signs * certainties / likelihoods, (i, j)), shape=(len(Z), len(Z))
        )
        by_share = slopes @ shares + slopes.T @ shares
        by_log = shares * (by_share - (by_share * shares).sum(axis=1, keepdims=True))
        value = STIFFNESS * float(excess @ excess) - float(answers.weights @ np.log(likelihoods))
        return value, (rows.T @ by_log).ravel() + 2.0 * STIFFNESS * excess

    x = minimise(loss, start.ravel())
    deviation = float(np.square(x - start.ravel()).sum())
    slopes, intercepts = np.split(x.reshape(start.shape), [-1])
    return Functions(slopes / unit, intercepts[0], -STIFFNESS * deviation)


def signed_classes(
    Z: Floats, answers: Answers, feature_classes: NDArray[np.int64], rng: Generator
) -> NDArray[np.int64]:
    """Return the class of each row: rows of answers by their signed graph, and others by the nearest mean.

    `feature_classes` is returned if the answers say nothing or are about few rows.
    """
    rows, n_classes = np.unique(answers.pairs), int(feature_classes.max()) + 1
    if len(rows) <= n_classes:
        return feature_classes
    axes = signed_axes(np.searchsorted(rows, answers.pairs), answers.odds, len(rows), n_classes)
    if not axes.any():
        return feature_classes
    tries = (merging.small_groups(axes, n_classes, rng) for _ in range(TRIES))
    classes = min(tries, key=lambda labels: scatter_of(axes, labels))
    labels = merging.nearest(Z, merging.means_of(Z[rows], classes, int(classes.max()) + 1))
    labels[rows] = classes
    return labels


def signed_axes(pairs: NDArray[np.int64], odds: Floats, n_rows: int, n_axes: int) -> Floats:
    """Return the largest eigenvectors of the signed graph, normalised by its degrees.

    With the log odds A of each two rows and their sums of absolute values d, whose mean is added to each so
    that a few rows apart are no eigenvector of their own, these are the eigenvectors of A_ij / sqrt(d_i d_j),
    divided by sqrt(d_i). If an iteration does not find all of them, there are fewer.
    """
    first, second = np.concatenate([pairs, pairs[:, ::-1]]).T
    graph = csr_array((np.tile(odds, 2), (first, second)), shape=(n_rows, n_rows))
    degrees = np.asarray(abs(graph).sum(axis=1))
    if not degrees.any():
        return np.zeros((n_rows, n_axes))
    scale = 1.0 / np.sqrt(degrees + degrees.mean())
    graph = graph.multiply(scale[:, None]).multiply(scale).tocsr()
    if n_rows <= max(DENSE, 2 * n_axes):
        vectors = np.linalg.eigh(graph.toarray())[1][:, -n_axes:]
    else:
        start = np.random.default_rng(0).normal(size=n_rows)  # the default start differs from call to call
        try:
            vectors = eigsh(graph, k=n_axes, which="LA", v0=start)[1]
        except ArpackNoConvergence as partial:
            vectors = partial.eigenvectors
    return np.asarray(vectors * scale[:, None])
