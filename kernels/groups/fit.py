"""Classes of merged groups, fitted to features and answers (docs/model.md, section 13).

`answers_of` lays annotations out, `directions` gives the axes of a space, and `fit_groups` the soft partition
in it as `Gaussians`, so that labels, memberships, draws and predictions are those of every other model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.groups.linear import linear_classes
from sweep_clustering.kernels.groups.merging import (
    Partitions,
    answer_odds,
    average_odds,
    cut,
    divided,
    means_of,
    merge,
    shares_together,
    small_groups,
    ward_odds,
)
from sweep_clustering.kernels.groups.metric import (
    Answers,
    Logistic,
    diagonal_metric,
    full_metric,
    logistic,
)
from sweep_clustering.kernels.groups.refinement import bound_of, normalised, refine, scatter_of, settle
from sweep_clustering.kernels.groups.signed import signed_classes
from sweep_clustering.kernels.problem.data import UNSURE, Floats, Links, row_numbers
from sweep_clustering.kernels.structure import AVERAGE, METRIC, MOST_ROWS, ROWS, SIGNED, Structure, n_groups

# Log odds, nats, for answers whose accuracy is not given, if the structure has none.
UNKNOWN = 1.5

# Weight of squared distances, in units of the scatter about K means, where a class has several centers.
GROUP_WEIGHT = 3.0

# The same where a class has one center.
CLASS_WEIGHT = 10.0

# The same where classes start from the answers alone: distance decides where answers do not.
SIGNED_WEIGHT = 0.3


def answers_of(links: Links, odds: float = 0.0) -> Answers:
    """Lay annotations out as answers; those of unknown accuracy have these log odds, or the usual ones."""
    accuracies = np.clip(1.0 / (1.0 + np.exp(-links.assume(odds or UNKNOWN).odds)), UNSURE, 1.0 - UNSURE)
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
    plain: NDArray[np.int64]  # (n_samples,)
    scatter: float  # mean squared distance to the mean of a class
    state: Any  # state of the stream that fits go on with


def ground_of(Z: Floats, n_classes: int, rng: Generator) -> Ground:
    """Find small groups and classes by the features alone."""
    groups = small_groups(Z, n_groups(len(Z), n_classes), rng)
    if groups.max() + 1 < n_classes:  # many rows are equal
        groups = row_numbers(Z)
    plain = small_groups(Z, n_classes, rng)
    return Ground(groups, plain, scatter_of(Z, plain), rng.bit_generator.state)


def fit_groups(
    Z: Floats,
    links: Links,
    structures: Sequence[Structure],
    n_classes: int,
    rng: Generator,
    ground: Ground | None = None,
) -> list[Gaussians]:
    """Fit structures of merged groups in one space, from the same small groups, which may be known."""
    groups, plain, scatter, state = ground or ground_of(Z, n_classes, rng)
    rng.bit_generator.state = state

    answers_by_odds = {odds: answers_of(links, odds) for odds in {structure.odds for structure in structures}}

    @cache
    def start(kind: str, odds: float, is_annotated: bool) -> Start:
        answers = answers_by_odds[odds]
        if not is_annotated:
            answers = answers.some(np.arange(0))
        if kind == ROWS:
            rows = np.arange(len(Z)) if len(Z) <= MOST_ROWS else groups
            merges = tree_of(Z, rows, answers, AVERAGE)
            return _of_classes(Z, cut(merges, n_classes)[rows], answers, rng)
        if kind == SIGNED:
            return Start(signed_classes(Z, answers, plain, rng), np.arange(n_classes), answers)
        merges = tree_of(Z, groups, answers, kind, scatter)
        return Start(groups, cut(merges, n_classes), answers)

    return [
        _gaussians(
            Z, links, start(structure.covariance, structure.odds, structure.annotated), scatter, structure
        )
        for structure in structures
    ]


def _of_classes(Z: Floats, labels: NDArray[np.int64], answers: Answers, rng: Generator) -> Start:
    """Divide classes into small groups."""
    parts = divided(Z, labels, n_groups(len(Z), int(labels.max()) + 1), rng)
    return Start(parts, labels[np.unique(parts, return_index=True)[1]], answers)


def fit_average(
    Z: Floats, links: Links, structure: Structure, partitions: Partitions, n_classes: int, rng: Generator
) -> Gaussians:
    """Merge rows by the weighted share of partitions that have them together, and refine the classes."""
    groups = small_groups(Z, len(Z) if len(Z) <= MOST_ROWS else n_groups(len(Z), n_classes), rng)
    shares = shares_together(groups, partitions)
    merges = merge(shares, np.zeros_like(shares), np.bincount(groups), False)
    start = _of_classes(Z, cut(merges, n_classes)[groups], answers_of(links, structure.odds), rng)
    scatter = scatter_of(Z, small_groups(Z, n_classes, rng))
    of_rows = structure._replace(components=2, covariance=ROWS)
    return replace(_gaussians(Z, links, start, scatter, of_rows), structure=structure)


def tree_of(
    Z: Floats, groups: NDArray[np.int64], answers: Answers, linkage: str, scatter: float = 1.0
) -> NDArray[np.int64]:
    """Return the merges of small groups by distance and answers; Ward's linkage needs the scatter."""
    sizes = np.bincount(groups)
    centers, between = means_of(Z, groups, len(sizes)), answer_odds(groups, len(sizes), answers)
    if linkage != AVERAGE:
        return merge(ward_odds(centers, sizes, scatter), between, sizes, True)
    squares = np.square(Z[answers.pairs[:, 0]] - Z[answers.pairs[:, 1]]).sum(axis=1)
    relation = logistic(squares, answers) if len(squares) else Logistic(0.0, 1.0)
    return merge(average_odds(centers, relation), between, sizes, False)


def _gaussians(Z: Floats, links: Links, start: Start, scatter: float, structure: Structure) -> Gaussians:
    """Refine a partition, with its groups or with one center a class."""
    groups, class_of, answers = start
    if structure.components == 1:
        groups, class_of = class_of[groups], np.arange(int(class_of.max()) + 1)
    is_of_groups = structure.components > 1 and structure.covariance != ROWS
    weight = GROUP_WEIGHT if is_of_groups else CLASS_WEIGHT
    variance = scatter / (SIGNED_WEIGHT if structure.covariance == SIGNED else weight)
    merged = refine(Z, groups, class_of, answers, variance)
    many = len(class_of)
    return Gaussians(
        structure=structure,
        center=np.zeros(Z.shape[1]),
        class_of=class_of,
        classes=merged.classes,
        weights=np.full(many, 1.0 / many),
        means=merged.centers,
        covariances=np.full(merged.centers.shape, variance),
        accuracies=accuracies_of(links, merged.classes),
        terms=(merged.features, merged.annotations, 0.0),
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
    logs = functions.of(Z)
    classes = np.exp(logs)
    settle(logs, answers, classes)
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
    together = (classes[links.pairs[:, 0]] * classes[links.pairs[:, 1]]).sum(axis=1)
    right = np.where(links.signed > 0.0, together, 1.0 - together) * np.abs(links.signed)
    totals = {}
    for number, annotator in enumerate(links.annotators):
        answers = links.sources == number
        share = (float(right[answers].sum()) + 1.0) / (float(np.abs(links.signed[answers]).sum()) + 2.0)
        accuracy = min(max(share, 0.5 + UNSURE), 1.0 - UNSURE)
        totals[annotator] = accuracy, accuracy
    return totals
