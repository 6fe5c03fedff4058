"""Labels of some rows, possibly wrong, as annotations of pairs (docs/model.md, section 15).

`label_layers` links each labelled row with a few others: must-links with rows of the same name, cannot-links
with rows of other names. So every solver, choice and draw takes labels as it takes annotations. Their number
is linear in that of the labels, and together they weigh as much as each label does.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from sweep_clustering.kernels.problem.data import CANNOT, MUST, UNSURE, Floats, Layer
from sweep_clustering.kernels.settings import UNLABELLED

# Rows of its name that a labelled row is linked with, and pairs of either kind that all labels make: with
# many labels each row has fewer partners.
MOST_PARTNERS = 10
LEAST_PARTNERS = 2
MOST_PAIRS = 200_000

# Number of the annotator whose answers the pairs of labels are: no other has it.
ANNOTATOR = 2**30

# First part of the key of the stream that draws partners.
STREAM = 2_000_000


class Evidence(NamedTuple):
    """Accuracy of pairs that follow from two labels, and weight of all pairs of either kind of a row."""

    accuracy: float
    weight: float


def evidence_of(accuracy: float, n_names: int) -> Evidence:
    """Return the evidence that pairs take from labels (docs/model.md, eqs. (83) and (84)).

    Parameters
    ----------
    accuracy : float
        Share of right labels, above 1 / `n_names`.
    n_names : int
        Number of distinct labels; 1 counts as 2.
    """
    q, others = min(accuracy, 1.0 - UNSURE), max(n_names, 2) - 1
    agreeing = q**2 + (1.0 - q) ** 2 / others
    pair = 0.5 * (1.0 + agreeing - (1.0 - agreeing) / others)
    label_odds, pair_odds = math.log(q * others / (1.0 - q)), math.log(pair / (1.0 - pair))
    return Evidence(pair, label_odds / pair_odds * others / (others + 1))


def label_layers(labels: NDArray[np.integer], accuracy: float, seed: int) -> list[Layer]:
    """Return the must-links and the cannot-links of labelled rows.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Number of the name of each row, from 0; `UNLABELLED` for rows without a label.
    accuracy : float
        Share of right labels, above that of chance.
    seed : int
        Seed of the draw of partners.
    """
    rows = np.flatnonzero(labels != UNLABELLED)
    if not len(rows):
        return []
    rng = np.random.default_rng(SeedSequence(seed, spawn_key=(STREAM,)))
    order = rng.permutation(rows)
    order = order[np.argsort(labels[order], kind="stable")]  # names one after the other, rows at random
    names, count = labels[order], len(order)
    _, begin, name, sizes = np.unique(names, return_index=True, return_inverse=True, return_counts=True)
    evidence = evidence_of(accuracy, len(sizes))
    n_partners = int(np.clip(MOST_PAIRS // count, LEAST_PARTNERS, MOST_PARTNERS))
    # Rows of a name stand in a circle, and each is linked with the next ones.
    place, size, start = np.arange(count), sizes[name], begin[name]
    most = np.minimum(n_partners, size - 1)
    parts, shares = list[NDArray[np.int64]](), list[Floats]()
    for step in range(1, n_partners + 1):
        linked = np.flatnonzero(most >= step)
        partner = start[linked] + (place[linked] - start[linked] + step) % size[linked]
        parts.append(np.column_stack([order[linked], order[partner]]))
        shares.append(0.5 * evidence.weight / most[linked])
    must, must_weights = np.concatenate(parts), np.concatenate(shares)
    # Partners of other names are drawn from all labelled rows.
    parts = []
    for _ in range(2 * n_partners):
        partner = rng.permutation(count)
        apart = names != names[partner]
        parts.append(np.column_stack([order[apart], order[partner[apart]]]))
    cannot = np.concatenate(parts)
    cannot_weights = np.full(len(cannot), 0.5 * evidence.weight * count / max(len(cannot), 1))
    tables = ((MUST, must, must_weights), (CANNOT, cannot, cannot_weights))
    return [
        Layer(kind, pairs, weights, evidence.accuracy, annotator=ANNOTATOR, is_of_labels=True)
        for kind, pairs, weights in tables
        if len(pairs)
    ]


def matched_names(
    labels: NDArray[np.integer], clusters: NDArray[np.integer], n_clusters: int
) -> NDArray[np.int64]:
    """Return the name of each cluster, one-to-one with the most labels right; -1 for one without a name."""
    from scipy.optimize import linear_sum_assignment  # slow to load, and few fits have names

    is_labelled, n_names = labels != UNLABELLED, int(labels.max(initial=-1)) + 1
    counts = np.zeros((n_clusters, n_names))
    np.add.at(counts, (clusters[is_labelled], labels[is_labelled]), 1.0)
    of_cluster = np.full(n_clusters, UNLABELLED)
    which, name = linear_sum_assignment(counts, maximize=True)
    is_there = counts[which, name] > 0.0
    of_cluster[which[is_there]] = name[is_there]
    return of_cluster
