"""Classes by the answers alone, from eigenvectors of their signed graph (docs/model.md, section 13).

Answers that tie most rows together say which rows belong together, whatever the features.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from sweep_clustering.kernels.groups.merging import means_of, nearest, small_groups
from sweep_clustering.kernels.groups.metric import Answers
from sweep_clustering.kernels.groups.refinement import scatter_of

Floats = NDArray[np.float64]

# Rows up to which all eigenvectors are computed: quicker than some of them by iteration.
DENSE = 400

# k-means starts, the best of which by inertia is used.
TRIES = 10


def signed_classes(
    Z: Floats, answers: Answers, plain: NDArray[np.int64], rng: Generator
) -> NDArray[np.int64]:
    """Return the class of each row: rows of answers by their signed graph, and others by the nearest mean.

    `plain` is a partition by features, which is returned if the answers say nothing or are about few rows.
    """
    rows, n_classes = np.unique(answers.pairs), int(plain.max()) + 1
    if len(rows) <= n_classes:
        return plain
    axes = signed_axes(np.searchsorted(rows, answers.pairs), answers.odds, len(rows), n_classes)
    if not axes.any():
        return plain
    tries = (small_groups(axes, n_classes, rng) for _ in range(TRIES))
    classes = min(tries, key=lambda labels: scatter_of(axes, labels))
    labels = nearest(Z, means_of(Z[rows], classes, int(classes.max()) + 1))
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
