"""The workspace of a search, allocated once: a partition, its statistics, and what is derived from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.interrupt import new_flag
from kernels.jit import by_pointer
from kernels.problem.data import CONDITIONAL, DIAGONAL, FULL, TIED, Data, Floats

EVALUATIONS, RELOCATIONS, LOCAL_SEARCHES, CAPS, STALE = 0, 1, 2, 3, 4
"""Places in `State.counters`; STALE is 1 until the statistics are recomputed from members."""


@by_pointer
class State(NamedTuple):
    """Partition, statistics and scratch memory; clusters are the last axis."""

    labels: NDArray[np.int16]  # (n_samples,)
    best: NDArray[np.int16]  # (n_samples,): best round end of a local search
    own: Floats  # (n_samples,): squared distance to the own centroid, or a sampling weight
    order: NDArray[np.int32]  # (n_annotated,)
    cluster_order: NDArray[np.int64]  # (n_clusters,)
    counters: NDArray[np.int64]
    stop: NDArray[np.int64]  # (1,): not 0 ends every loop that lasts, whatever is then left behind

    # Statistics of members.
    sizes: NDArray[np.int64]  # (n_clusters,)
    means: Floats  # (n_dims, n_clusters), of Z
    errors: Floats  # (n_clusters,): SSE_r
    squares: Floats  # (n_dims, n_clusters): s_rd + ridge; shape diagonal alone, as are the ratios
    scatter: Floats  # (n_matrices, n_dims, n_dims): S_r + ridge I; one matrix for tied, none for other shapes
    inverse: Floats  # (n_matrices, n_dims, n_dims): of the scatter
    logdets: Floats  # (n_clusters,): log-determinants of the scatter or squares; tied: in the first
    drift: Floats  # (n_clusters,): bound on the relative error of scatter and inverse, see full
    edge_counts: Floats  # (n_block_layers, n_clusters, n_clusters): m_rs; none in the model "conditional"
    agreed: Floats  # (n_layers,): see conditional

    # Derived from them whenever they change.
    terms: Floats  # (n_clusters,): part of a cluster in gmm; of all in the first if they share a variance
    join: Floats  # (4, n_clusters): see relocation.refresh_gaussians and relocation.refresh_shaped
    ratios: Floats  # (n_dims, n_clusters): n / (n + 1) over the squares
    doubt: Floats  # (n_clusters,): bound, in nats, on the error of the gain by joining a cluster
    count_terms: Floats  # (n_block_layers, n_clusters, n_clusters): m_rs log m_rs
    rates: Floats  # (n_block_layers,): lambda_in
    denominators: Floats  # (5 n_clusters²,): scratch of size_terms
    sides: Floats  # (4, n_clusters): scratch of size_terms
    logs: Floats  # (n_block_layers, 5, n_clusters, n_clusters): see size_terms.NOW
    base: Floats  # (n_clusters, n_clusters): see size_terms
    slack: Floats  # (2, n_clusters, n_clusters): see size_terms

    # Of the sample under test.
    links: Floats  # (n_layers, n_clusters): a_r
    touched: NDArray[np.int64]  # (n_layers, n_clusters): first the clusters with a_r > 0
    n_touched: NDArray[np.int64]  # (n_layers,): their number; of partners in the model "conditional"
    distances: Floats  # (n_clusters,), squared, by the inverses where there are any
    vectors: Floats  # (n_clusters + 2, n_dims) scratch; for tied, first the inverse times each mean
    matrix: Floats  # (n_dims, n_dims) scratch
    gains: Floats  # (n_clusters,), nats
    work: Floats  # (n_clusters,)


def new_state(data: Data) -> State:
    """Workspace for `data`; the partition is all zero and the statistics are not set."""
    n_samples, n_dims = data.Z.shape
    n_clusters = data.n_clusters
    n_layers = data.totals.shape[0]
    n_blocks = 0 if data.model == CONDITIONAL else n_layers
    n_matrices = {TIED: 1, FULL: n_clusters}.get(data.shape, 0)
    counters = np.zeros(5, np.int64)
    counters[STALE] = 1
    return State(
        np.zeros(n_samples, np.int16),
        np.zeros(n_samples, np.int16),
        np.zeros(n_samples),
        data.annotated.copy(),
        np.arange(n_clusters, dtype=np.int64),
        counters,
        new_flag(),
        np.zeros(n_clusters, np.int64),
        np.zeros((n_dims, n_clusters)),
        np.zeros(n_clusters),
        np.zeros((n_dims * (data.shape == DIAGONAL), n_clusters)),
        np.zeros((n_matrices, n_dims, n_dims)),
        np.zeros((n_matrices, n_dims, n_dims)),
        np.zeros(n_clusters),
        np.zeros(n_clusters),
        np.zeros((n_blocks, n_clusters, n_clusters)),
        np.zeros(n_layers),
        np.zeros(n_clusters),
        np.zeros((4, n_clusters)),
        np.zeros((n_dims * (data.shape == DIAGONAL), n_clusters)),
        np.zeros(n_clusters),
        np.zeros((n_blocks, n_clusters, n_clusters)),
        np.zeros(n_blocks),
        np.zeros(5 * n_clusters * n_clusters),
        np.zeros((4, n_clusters)),
        np.zeros((n_blocks, 5, n_clusters, n_clusters)),
        np.zeros((n_clusters, n_clusters)),
        np.zeros((2, n_clusters, n_clusters)),
        np.zeros((n_layers, n_clusters)),
        np.zeros((n_layers, n_clusters), np.int64),
        np.zeros(n_layers, np.int64),
        np.zeros(n_clusters),
        np.zeros((n_clusters + 2, n_dims)),
        np.zeros((n_dims * (n_matrices > 0),) * 2),
        np.zeros(n_clusters),
        np.zeros(n_clusters),
    )
