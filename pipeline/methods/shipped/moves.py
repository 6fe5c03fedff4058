"""Local moves of single samples, where a link adds to or takes from what a move gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.contract import Links, Weights

TIES = 1e-12
"""Gains below this share of the largest are rounding, and no move."""


@dataclass(frozen=True, eq=False)
class SignedGraph:
    """The annotation graph, a pair of samples each once in either row.

    Parameters
    ----------
    starts : ndarray of shape (n_samples + 1,)
        Where the neighbours of a sample begin and end.
    neighbours : ndarray of shape (2 * n_pairs,)
        Samples that it is linked with.
    weights : ndarray of shape (2 * n_pairs,)
        Weight of the must-link less that of the cannot-link: pairs that contradict themselves evenly are
        left out.
    """

    starts: NDArray[np.int64]
    neighbours: NDArray[np.int64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, n_samples: int, must_link: Links, cannot_link: Links, weights: Weights) -> Self:
        """The graph of some links."""
        pairs = np.concatenate([must_link, cannot_link])
        signed = np.concatenate([weights[0], -weights[1]])
        pairs, places = np.unique(pairs, axis=0, return_inverse=True)
        totals = np.bincount(places.ravel(), weights=signed, minlength=len(pairs))
        pairs, totals = pairs[totals != 0], totals[totals != 0]
        ends = np.concatenate([pairs[:, 0], pairs[:, 1]])
        others = np.concatenate([pairs[:, 1], pairs[:, 0]])
        order = np.argsort(ends, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_samples))])
        return cls(starts, others[order], np.concatenate([totals, totals])[order])

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of each sample."""
        return np.diff(self.starts)

    def around(self, sample: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Neighbours of a sample, and the weights of the links to them."""
        row = slice(self.starts[sample], self.starts[sample + 1])
        return self.neighbours[row], self.weights[row]

    def agreement(self, labels: NDArray[np.integer]) -> float:
        r"""Sum over pairs within clusters, :math:`\sum_{i<j} s_{ij} [l_i = l_j]`."""
        ends = np.repeat(np.arange(len(self.starts) - 1), self.degrees)
        return float(self.weights[labels[ends] == labels[self.neighbours]].sum() / 2)


def settle(
    labels: NDArray[np.int64],
    pull: NDArray[np.float64],
    graph: SignedGraph,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    r"""Move samples one at a time until no move gains anything.

    What is maximised is

    .. math:: \sum_i g_{i l_i} + \sum_{i<j} s_{ij} [l_i = l_j]

    with the pull g of the clusters and the links s of the graph. Each move increases it, so that it ends.
    Samples that would gain are visited in random order, and looked at again when it is their turn.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Where to begin; not changed.
    pull : ndarray of shape (n_samples, n_clusters)
        What each cluster is worth to each sample by itself.
    graph : SignedGraph
        Links.
    rng : numpy.random.Generator
        Order of visits.

    Returns
    -------
    ndarray of shape (n_samples,)
        Labels from which no single move gains.
    """
    labels = labels.copy()
    worth = pull.copy()
    ends = np.repeat(np.arange(len(labels)), graph.degrees)
    np.add.at(worth, (ends, labels[graph.neighbours]), graph.weights)
    least = TIES * max(1.0, float(np.abs(worth).max(initial=0.0)))
    rows = np.arange(len(labels))
    while True:
        waiting = np.flatnonzero(worth.max(axis=1) - worth[rows, labels] > least)
        if not len(waiting):
            return labels
        for sample in rng.permutation(waiting).tolist():
            best = int(worth[sample].argmax())
            now = int(labels[sample])
            if worth[sample, best] - worth[sample, now] > least:
                neighbours, weights = graph.around(sample)
                worth[neighbours, now] -= weights
                worth[neighbours, best] += weights
                labels[sample] = best
