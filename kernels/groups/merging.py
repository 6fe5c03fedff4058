"""Small groups of rows, merged into a tree by distance and answers (docs/model.md, section 13).

`small_groups` finds the groups, `average_odds` and `ward_odds` say what speaks for merging two of them, and
`merge` makes the tree, of which `cut` gives any number of classes. `unsure_pairs` asks about rows of two
parts of clusters that may or may not be of one class, so that answers merge or split clusters (section 10).
"""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from sweep_clustering.kernels.groups.metric import Answers, Logistic, logistic, pair_squares
from sweep_clustering.kernels.jit import jit, jit_part
from sweep_clustering.kernels.problem.data import Floats, row_numbers
from sweep_clustering.kernels.structure import AVERAGE, GENIE, WARD

# Partitions with their weights.
Partitions = Sequence[tuple[NDArray[np.integer], float]]

# Steps of k-means that finds groups.
LLOYD = 6

# Share of the log odds of an answer that counts for groups, which are not pure.
PURITY = 0.64

# Rows times groups up to which a full matrix of members is quicker than a sparse one.
SMALL = 2**13

# Rows that small groups are found among, at most; the others go to the nearest one.
MOST_ROWS = 20_000

# Rows whose distances to all groups are in memory together.
AT_ONCE = 4096

# Rows of a matrix of all groups that are changed together, so that they stay in the processor's cache.
MATRIX_ROWS = 16

# Parts of a cluster at most, rows of a part at least on average, and parts of all clusters at most.
PARTS = 6
PART_ROWS = 2
MOST_PARTS = 1_800

# Log odds from their level on, in nats, that count as this many: a larger number overflows.
FARTHEST = 700.0


def nearest(Z: Floats, centers: Floats) -> NDArray[np.int64]:
    """Return the nearest center of each row."""
    offsets, places = 0.5 * np.square(centers).sum(axis=1), np.empty(len(Z), np.int64)
    for start in range(0, len(Z), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        products = Z[rows] @ centers.T
        places[rows] = np.subtract(offsets, products, out=products).argmin(axis=1)
    return places


def means_of(Z: Floats, labels: NDArray[np.int64], n_groups: int) -> Floats:
    """Return the mean row of each group, 0 where it is empty."""
    sizes = np.bincount(labels, minlength=n_groups)
    if n_groups * len(Z) <= SMALL:
        members = (labels == np.arange(n_groups)[:, None]).astype(np.float64)
    else:
        members = csr_array((np.ones(len(Z)), (labels, np.arange(len(Z)))), shape=(n_groups, len(Z)))
    return np.asarray(members @ Z / np.maximum(sizes, 1)[:, None])


def small_groups(Z: Floats, n_groups: int, rng: Generator) -> NDArray[np.int64]:
    """Return the group of each row by some steps of k-means; no group is empty."""
    if n_groups >= len(Z):
        return np.arange(len(Z))
    sample = Z if len(Z) <= MOST_ROWS else Z[np.sort(rng.choice(len(Z), MOST_ROWS, replace=False))]
    distinct = np.unique(row_numbers(sample), return_index=True)[1]
    centers = sample[np.sort(rng.permutation(distinct)[:n_groups])]
    for _ in range(LLOYD):
        labels = without_gaps(nearest(sample, centers))
        centers = means_of(sample, labels, int(labels.max()) + 1)
    return without_gaps(nearest(Z, centers))


def without_gaps(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number groups from 0 in the same order; no number is left out."""
    return (np.cumsum(np.bincount(labels) > 0) - 1)[labels]


def divide_classes(Z: Floats, labels: NDArray[np.int64], n_groups: int, rng: Generator) -> NDArray[np.int64]:
    """Divide every class into small groups by its size, at most so many in all or one for each class."""
    sizes = np.bincount(labels)
    return split(Z, labels, 1 + sizes * max(n_groups - len(sizes), 0) // len(Z), rng)


def split(Z: Floats, labels: NDArray[np.int64], caps: NDArray[np.int64], rng: Generator) -> NDArray[np.int64]:
    """Return the group of each row by k-means within each class, into so many groups at most; none is empty.

    Classes are numbered from 0, and each has a row.
    """
    groups, n_groups = np.empty(len(Z), np.int64), 0
    for label, count in enumerate(caps.tolist()):
        rows = np.flatnonzero(labels == label)
        parts = small_groups(Z[rows], count, rng)
        groups[rows] = n_groups + parts
        n_groups += int(parts.max()) + 1
    return groups


def answer_odds(labels: NDArray[np.int64], n_groups: int, answers: Answers) -> Floats:
    """Return the sum of the log odds of the answers between each two groups."""
    total = np.zeros((n_groups, n_groups))
    first, second = np.sort(labels[answers.pairs], axis=1).T
    np.add.at(total, (first, second), PURITY * answers.odds)
    total[second, first] = total[first, second]
    np.fill_diagonal(total, 0.0)
    return total


def squared_distances(centers: Floats, slope: float = 1.0, intercept: float = 0.0) -> Floats:
    """Return `slope` times the squared distance of each two centers, plus an intercept."""
    norms, squares = np.square(centers).sum(axis=1), centers @ centers.T
    for start in range(0, len(norms), MATRIX_ROWS):
        rows = slice(start, start + MATRIX_ROWS)
        # the sum of the norms comes first, so that the matrix is symmetric to the last bit
        squares[rows] = intercept + slope * np.maximum(norms[rows, None] + norms - 2.0 * squares[rows], 0.0)
    return squares


def average_odds(centers: Floats, relation: Logistic) -> Floats:
    """Return the log odds of the distance of each two groups."""
    return squared_distances(centers, -relation.slope, relation.intercept)


def shares_together(groups: NDArray[np.int64], partitions: Partitions) -> Floats:
    """Return the weighted share of partitions that have rows of each two groups in one class."""
    sizes, total = np.bincount(groups), sum(weight for _, weight in partitions)
    members = [
        csr_array((np.sqrt(weight / total) / sizes[groups], (groups, labels)))
        for labels, weight in partitions
    ]
    stacked = csr_array(hstack(members))
    return np.asarray((stacked @ stacked.T).toarray())


def votes(labels: NDArray[np.int64], partitions: Partitions) -> Floats:
    """Return the weighted votes of partitions on the class of each row, which labels define.

    The class of a partition votes for the classes that its rows have by the labels, in their shares.
    """
    n_classes, total = int(labels.max()) + 1, sum(weight for _, weight in partitions)
    shares = np.zeros((len(labels), n_classes))
    for classes, weight in partitions:
        counts = np.zeros((int(classes.max()) + 1, n_classes))
        np.add.at(counts, (classes, labels), 1.0)
        shares += weight / total * (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))[classes]
    return shares


def ward_odds(centers: Floats, sizes: NDArray[np.int64], variance: float) -> Floats:
    """Return the likelihood that is lost where two groups of one variance are merged."""
    harmonic = sizes[:, None] * sizes / (sizes[:, None] + sizes)
    return np.asarray(-0.5 * harmonic * squared_distances(centers) / variance)


def merge(
    features: Floats, answers: Floats, sizes: NDArray[np.int64], linkage: str = AVERAGE
) -> NDArray[np.int64]:
    """Merge the two groups of the largest sum of both odds, until one is left.

    The odds of the distance of merged groups are the mean over rows, or follow Ward's recurrence, or are
    those of the nearest parts. Genie's linkage merges one of the smallest groups where the Gini index of the
    sizes is above its own (Gagolewski, Bartoszuk and Cena 2016; docs/model.md, section 13). The odds of the
    answers add up. Both arrays are overwritten. Each row of the result is two groups; the first stands for
    both from then on. The roots are the groups that are left.
    """
    n_groups, is_ward, is_nearest = len(sizes), linkage == WARD, linkage in GENIE
    merges, counts = np.zeros((n_groups - 1, 2), np.int64), sizes.astype(np.float64)
    roots, partners, best = np.arange(n_groups), np.zeros(n_groups, np.int64), np.zeros(n_groups)
    gini = GENIE.get(linkage, 1.0)
    _merge(features, answers, counts, is_ward, is_nearest, gini, roots, partners, best, merges)
    return merges


@jit
def _merge(
    features: Floats,
    answers: Floats,
    sizes: Floats,
    is_ward: bool,
    is_nearest: bool,
    gini: float,
    roots: NDArray[np.int64],
    partners: NDArray[np.int64],
    best: Floats,
    merges: NDArray[np.int64],
) -> None:
    n_roots = len(sizes)
    differences = 0.0  # sum of the differences of the sizes of each two groups
    for group in roots:
        set_partner(features, answers, roots, group, partners, best)
        for other in range(group):
            differences += abs(sizes[group] - sizes[other])
    limit = gini * sizes.sum()
    for step in range(len(merges)):
        largest = np.inf
        if differences > limit * (n_roots - 1):
            for group in roots[:n_roots]:
                largest = min(largest, sizes[group])
        first = -1
        for group in roots[:n_roots]:
            if sizes[group] <= largest and (first < 0 or best[group] > best[first]):
                first = group
        second = partners[first]
        merges[step, 0] = first
        merges[step, 1] = second
        n_roots -= 1
        place = 0
        for group in roots[: n_roots + 1]:
            if group != second:
                roots[place] = group
                place += 1
        joint = features[first, second]
        size_of_first, size_of_second = sizes[first], sizes[second]
        both_sizes = size_of_first + size_of_second
        sizes[first] = both_sizes
        differences -= abs(size_of_first - size_of_second)
        for group in roots[:n_roots]:
            if group == first:
                continue
            size = sizes[group]
            differences += abs(both_sizes - size) - abs(size_of_first - size) - abs(size_of_second - size)
            if is_ward:
                value = (size + size_of_first) * features[first, group]
                value += (size + size_of_second) * features[second, group] - size * joint
                value /= size + size_of_first + size_of_second
            elif is_nearest:
                value = max(features[first, group], features[second, group])
            else:
                value = size_of_first * features[first, group] + size_of_second * features[second, group]
                value /= both_sizes
            # a column is slow to write, and most pairs of groups have no answers
            if value != features[first, group]:
                features[first, group] = value
                features[group, first] = value
            if answers[second, group] != 0.0:
                answers[first, group] += answers[second, group]
                answers[group, first] = answers[first, group]
        for group in roots[:n_roots]:
            if group == first:
                continue
            odds = features[first, group] + answers[first, group]
            if odds >= best[group]:
                best[group] = odds
                partners[group] = first
            elif partners[group] in (first, second):
                set_partner(features, answers, roots[:n_roots], group, partners, best)
        set_partner(features, answers, roots[:n_roots], first, partners, best)


@jit_part
def set_partner(
    features: Floats,
    answers: Floats,
    roots: NDArray[np.int64],
    group: int,
    partners: NDArray[np.int64],
    best: Floats,
) -> None:
    """Set the group that a group is merged with first, and the odds of that."""
    best[group] = -np.inf
    for other in roots:
        if other != group:
            odds = features[group, other] + answers[group, other]
            if odds > best[group]:
                best[group] = odds
                partners[group] = other


def cut(merges: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """Return the class of each group where so many are left."""
    classes = np.arange(len(merges) + 1)
    for first, second in merges[: max(len(classes) - n_classes, 0)][::-1].tolist():
        classes[second] = classes[first]
    return np.unique(classes, return_inverse=True)[1]


def cut_clusters(Z: Floats, labels: NDArray[np.integer], rng: Generator) -> NDArray[np.int64]:
    """Return the part of each row by k-means within each cluster; no part is empty."""
    _, clusters, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    limit = min(PARTS, max(MOST_PARTS // len(sizes), 1))
    return split(Z, clusters, np.minimum(limit, -(-sizes // PART_ROWS)), rng)


def part_odds(Z: Floats, parts: NDArray[np.int64], answers: Answers) -> Floats:
    """Return the log odds that the rows of each two parts are of one class, by distances and answers.

    The odds of the distance are the mean over pairs of rows.
    """
    sizes = np.bincount(parts)
    centers = means_of(Z, parts, len(sizes))
    scatters = np.bincount(parts, np.square(Z - centers[parts]).sum(axis=1)) / sizes
    squares = squared_distances(centers) + scatters[:, None] + scatters
    relation = logistic(pair_squares(Z, answers.pairs), answers)
    odds = relation.intercept - relation.slope * squares
    return np.asarray(odds + answer_odds(parts, len(sizes), answers))


def unsure_pairs(
    Z: Floats, labels: NDArray[np.integer], answers: Answers, count: int, rng: Generator
) -> NDArray[np.int64]:
    """Choose pairs of parts of clusters that may be merged or split, best first, by a random row of either.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_dims)
        Rows in the space in which distances predict answers.
    labels : ndarray of shape (n_samples,)
        Cluster of each row.
    answers, count, rng
        Answers so far, largest number of pairs, and the only source of randomness.

    Returns
    -------
    ndarray of shape (n_pairs, 2)
    """
    parts = cut_clusters(Z, labels, rng)
    sizes, cluster_of = np.bincount(parts), np.empty(int(parts.max()) + 1, np.int64)
    cluster_of[parts] = labels
    first, second = np.triu_indices(len(sizes), 1)
    odds = part_odds(Z, parts, answers)[first, second]
    # Answers were not about random parts, so that the level of their odds means nothing. The partition gives
    # the level: as many pairs of parts lie above it as there are of one cluster.
    n_within = int((cluster_of[first] == cluster_of[second]).sum())
    level = np.sort(odds)[-max(n_within, 1) :][:1]
    distance = np.minimum(np.abs(odds - level), FARTHEST)
    worth = np.minimum(sizes[first], sizes[second]) / np.cosh(0.5 * distance) ** 2
    best = np.argsort(-worth, kind="stable")[:count]
    rows, starts = np.argsort(parts, kind="stable"), np.append(0, np.cumsum(sizes))
    ends = [rows[starts[part] + rng.integers(sizes[part])] for part in (first[best], second[best])]
    return np.stack(ends, axis=1)
