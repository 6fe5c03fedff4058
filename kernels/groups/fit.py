"""Classes of merged groups, fitted to features and answers (docs/model.md, section 13).

`answers_of` lays annotations out, `directions` gives the axes of a space, and `fit_groups` the soft partition
in it as `Gaussians`, so that labels, memberships, draws and predictions are those of every other model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.groups.merging import (
    answer_odds,
    average_odds,
    cut,
    means_of,
    merge,
    small_groups,
    ward_odds,
)
from sweep_clustering.kernels.groups.metric import (
    Answers,
    diagonal_metric,
    full_metric,
    logistic,
)
from sweep_clustering.kernels.groups.refinement import refine, scatter_of
from sweep_clustering.kernels.problem.data import UNSURE, Floats, Layer, link, row_numbers
from sweep_clustering.kernels.structure import METRIC, WARD, Structure, n_groups

# Accuracy of answers where it is not given: their log odds are 1.5.
UNKNOWN = 1.0 / (1.0 + math.exp(-1.5))

# Weight of squared distances, in units of the scatter about K means, where a class has several centers.
GROUP_WEIGHT = 3.0

# The same where a class has one center.
CLASS_WEIGHT = 10.0


def answers_of(layers: Sequence[Layer], n_samples: int) -> Answers:
    """Lay annotations out as answers about pairs of two different rows."""
    links = link(layers, n_samples)
    shares = 1.0 / (1.0 + np.exp(-links.odds))
    accuracies = np.where(links.sources < 0, np.clip(shares, UNSURE, 1.0 - UNSURE), UNKNOWN)
    pairs = links.pairs.astype(np.int64)
    return Answers(pairs, np.sign(links.signed), np.abs(links.signed), accuracies)


def directions(X: Floats, space: str, answers: Answers, axes: Floats) -> Floats:
    """Return the axes of a space that answers teach; a full metric is sought along the given axes."""
    if space == METRIC:
        return np.asarray(axes @ full_metric(X @ axes, answers))
    return diagonal_metric(X, answers)


def fit_groups(
    Z: Floats,
    layers: Sequence[Layer],
    answers: Answers,
    structures: Sequence[Structure],
    n_classes: int,
    rng: Generator,
) -> list[Gaussians]:
    """Fit structures of merged groups in one space, from the same small groups."""
    groups = small_groups(Z, n_groups(len(Z), n_classes), rng)
    if groups.max() + 1 < n_classes:  # many rows are equal
        groups = row_numbers(Z)
    scatter = scatter_of(Z, small_groups(Z, n_classes, rng))
    linkages = dict.fromkeys(structure.covariance for structure in structures)
    class_of = {
        linkage: cut(tree_of(Z, groups, answers, linkage, scatter), n_classes) for linkage in linkages
    }
    return [
        _gaussians(Z, layers, answers, groups, class_of[structure.covariance], scatter, structure)
        for structure in structures
    ]


def tree_of(
    Z: Floats, groups: NDArray[np.int64], answers: Answers, linkage: str, scatter: float = 1.0
) -> NDArray[np.int64]:
    """Return the merges of small groups by distance and answers; Ward's linkage needs the scatter."""
    sizes = np.bincount(groups)
    centers, between = means_of(Z, groups, len(sizes)), answer_odds(groups, len(sizes), answers)
    if linkage == WARD:
        return merge(ward_odds(centers, sizes, scatter), between, sizes, True)
    squares = np.square(Z[answers.pairs[:, 0]] - Z[answers.pairs[:, 1]]).sum(axis=1)
    return merge(average_odds(centers, logistic(squares, answers)), between, sizes, False)


def _gaussians(
    Z: Floats,
    layers: Sequence[Layer],
    answers: Answers,
    groups: NDArray[np.int64],
    class_of: NDArray[np.int64],
    scatter: float,
    structure: Structure,
) -> Gaussians:
    """Refine a partition, with its groups or with one center a class."""
    is_single = structure.components == 1
    if is_single:
        groups, class_of = class_of[groups], np.arange(int(class_of.max()) + 1)
    variance = scatter / (CLASS_WEIGHT if is_single else GROUP_WEIGHT)
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
        accuracies=accuracies_of(layers, merged.classes),
        terms=(merged.features, merged.annotations, 0.0),
        steps=1,
    )


def accuracies_of(layers: Sequence[Layer], classes: Floats) -> dict[int, tuple[float, float]]:
    """Return the share of agreeing annotations for each annotator whose accuracy is not given."""
    links = link(layers, len(classes))
    together = (classes[links.pairs[:, 0]] * classes[links.pairs[:, 1]]).sum(axis=1)
    right = np.where(links.signed > 0.0, together, 1.0 - together) * np.abs(links.signed)
    totals = {}
    for number, annotator in enumerate(links.annotators):
        answers = links.sources == number
        share = (float(right[answers].sum()) + 1.0) / (float(np.abs(links.signed[answers]).sum()) + 2.0)
        accuracy = min(max(share, 0.5 + UNSURE), 1.0 - UNSURE)
        totals[annotator] = accuracy, accuracy
    return totals
