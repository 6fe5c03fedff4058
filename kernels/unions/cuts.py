"""A number of classes, from 2 to thousands: cuts of one tree of merged groups (docs/model.md, section 13).

`choose_cut` predicts held-out answers by the classes of each cut beside distance, and says which number of
classes is best and which are as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.choice.held_out import LEAST_PAIRS, HeldOut, below, list_annotations, without
from sweep_clustering.kernels.fits import Runner, place
from sweep_clustering.kernels.groups.fit import answers_of, tree_of
from sweep_clustering.kernels.groups.merging import cut, small_groups
from sweep_clustering.kernels.problem.data import Floats, Layer, link
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.structure import AVERAGE, METRIC, MOST_LEARNED, MOST_ROWS, NONE, n_groups
from sweep_clustering.kernels.unions.contest import AHEAD, STREAM, calibrated
from sweep_clustering.kernels.unions.table import Table, one_thread

# Ratio of the number of classes of a cut to that of the one before it.
STEP = 1.15

# Standard errors within which numbers of classes predict equally well.
EQUAL = 1.0

# Share of the groups up to which a best cut asks for a tree of single rows.
NEARLY_ALL = 0.7


# Predictions by the space of a tree and the number of classes of a cut.
Rating = dict[tuple[int | str, int], HeldOut]


class Cut(NamedTuple):
    """The least and the largest number of classes that predict equally well; the largest is taken.

    Pairs of near rows say little of classes that are far apart, so that too few classes predict as well.
    """

    low: int
    n_clusters: int


def cut_counts(most: int) -> list[int]:
    """Return the numbers of classes to try, up to `most`."""
    counts, count = list[int](), 2
    while count <= most:
        counts.append(count)
        count = max(count + 1, int(STEP * count))
    return counts


def choose_cut(
    X: Floats, layers: Sequence[Layer], seed: np.random.SeedSequence, few: int, run: Runner = map
) -> Cut | None:
    """Choose a number of classes by held-out answers.

    None is returned if no cut is clearly better than those into at most `few` classes.
    """
    if list_annotations(layers, seed).n_pairs < LEAST_PAIRS:
        return None
    table, many = Table(X, 2, seed), n_groups(len(X), 1)
    ratings = rate_cuts(table, layers, many, run)
    chosen = _first(ratings, few)
    if chosen is not None and chosen.n_clusters > NEARLY_ALL * many and many < len(X) <= MOST_ROWS:
        return _first(rate_cuts(table, layers, len(X), run), few)
    return chosen


def rate_cuts(table: Table, layers: Sequence[Layer], many: int, run: Runner = map) -> tuple[Rating, Rating]:
    """Predict held-out answers by each cut of a tree of so many groups, beside distance and without it."""
    annotations = list_annotations(layers, table.seed)
    spaces = (NONE if table.X.shape[1] <= MOST_LEARNED else MOST_LEARNED, METRIC)
    counts = cut_counts(many - 1)
    together = np.zeros((len(spaces), len(counts), len(annotations.folds)), np.bool_)
    distances = np.zeros((len(annotations.folds), len(spaces)))

    def cuts(key: tuple[int, int]) -> tuple[NDArray[np.bool_], Floats]:
        fold, space = key
        tested = annotations.folds == fold
        left = without(layers, annotations, tested)
        answers = answers_of(link(left, len(table.X)))
        axes = table.learned(spaces[space], left, answers)
        with one_thread():
            Z = place(table.X, table.center, axes)
            groups = small_groups(Z, many, np.random.default_rng(below(table.seed, STREAM)))
            merges = tree_of(Z, groups, answers, AVERAGE)
        i, j = annotations.pairs[tested].T
        classes = (cut(merges, count)[groups] for count in counts)
        return np.stack([labels[i] == labels[j] for labels in classes]), np.square(Z[i] - Z[j]).sum(axis=1)

    work = [(fold, space) for fold in range(FOLDS) for space in range(len(spaces))]
    for (fold, space), (joined, squares) in zip(work, run(cuts, work), strict=True):
        tested = annotations.folds == fold
        together[space, :, tested] = joined.T
        distances[tested, space] = squares
    ratings: tuple[Rating, Rating] = {}, {}
    for space, name in enumerate(spaces):
        for number, count in enumerate(counts):
            says = together[space, number].astype(np.float64)
            agreeing = np.where(annotations.is_must, says, 1.0 - says)
            for rating, columns in zip(ratings, (distances, distances[:, :0]), strict=True):
                logs, right = calibrated(says, columns, annotations.is_must, annotations.weights)
                rating[name, count] = HeldOut(logs, right, annotations.weights, agreeing, annotations.units)
    return ratings


def _first(ratings: tuple[Rating, Rating], few: int) -> Cut | None:
    """Choose beside distance; without it if distance predicts so well that it leaves the number open."""
    return _chosen(ratings[0], few) or _chosen(ratings[1], few)


def _chosen(rated: Rating, few: int) -> Cut | None:
    """Return the best cut, if it is clearly better than those into few classes."""
    best = min(rated, key=lambda key: rated[key].log_loss)
    space, n_clusters = best
    small = min((key for key in rated if key[1] <= few), key=lambda key: rated[key].log_loss)
    if n_clusters <= few or not rated[best].is_ahead(rated[small], AHEAD):
        return None
    equal = [
        count
        for (name, count), score in rated.items()
        if name == space and not rated[best].is_ahead(score, EQUAL)
    ]
    return Cut(min(equal), max(equal))
