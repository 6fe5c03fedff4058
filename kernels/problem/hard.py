"""Hard links, which hold in every partition: the groups that they make, and what contradicts itself.

Must-links join samples to groups. Groups and cannot-links are a graph, whose colouring with K colours is a
partition that obeys all links. `group_samples` finds one, or raises a `Contradiction` that names a few links.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from sweep_clustering.kernels.problem.data import CANNOT, MUST, Floats, Layer, pair_numbers

Pairs = NDArray[np.int64]

# Steps back that the search for a colouring takes before it gives up, and those of each test that makes a
# contradiction smaller.
EFFORT = 200_000
LITTLE_EFFORT = 2_000

# Links that all of these tests read together, at most.
MOST_READ = 3_000_000

# Groups that a clique is looked for around.
STARTS = 200

# Most rounds in which connected groups of two clusters are swapped.
ROUNDS = 5

# Groups that are looked at in a round, once for each pair of clusters.
MOST_SWAPPED = 4_000_000

# Gain in nats below which groups stay in their clusters.
LEAST_GAIN = 1e-9


class Contradiction(ValueError):
    """Hard links that no partition obeys.

    Parameters
    ----------
    n_clusters : int
        K.
    links : ndarray of shape (n_links,)
        Places of the links that contradict each other, in all must-links and then all cannot-links; empty if
        neither a partition nor a proof against it was found.
    """

    def __init__(self, n_clusters: int, links: NDArray[np.int64]) -> None:
        text = f"hard links contradict each other: no partition into {n_clusters} clusters obeys them"
        super().__init__(
            text if len(links) else f"found no partition into {n_clusters} clusters for hard links"
        )
        self.n_clusters, self.links = n_clusters, links


class _Undecided(Exception):
    """The effort ended before an answer."""


def hard_pairs(layers: Sequence[Layer], kind: int) -> Pairs:
    """Return the pairs of all hard links of a kind, in the order of the layers."""
    pairs = [layer.pairs for layer in layers if layer.is_hard and layer.kind == kind]
    return np.concatenate([np.empty((0, 2), np.int64), *pairs]).astype(np.int64)


def has_hard_links(layers: Sequence[Layer]) -> bool:
    """Return whether any annotation is a hard link."""
    return any(layer.is_hard and len(layer.pairs) for layer in layers)


@dataclass(frozen=True, eq=False)
class Groups:
    """Samples with hard links, in groups that no partition may split.

    Parameters
    ----------
    samples : ndarray of shape (n_linked,)
        Samples with hard links, ascending.
    group_of : ndarray of shape (n_linked,)
        Group of each.
    edges : ndarray of shape (n_edges, 2)
        Pairs of groups that may not share a cluster.
    neighbours : list of list of int
        The same for each group.
    order : list of int
        Groups with neighbours, those with the least choice first.
    colours : ndarray of shape (n_groups,)
        Clusters of a partition that obeys all links.
    """

    samples: NDArray[np.int64]
    group_of: NDArray[np.int64]
    edges: Pairs
    neighbours: list[list[int]]
    order: list[int]
    colours: NDArray[np.int64]

    def sums(self, values: Floats) -> Floats:
        """Return the sum of the values of the samples of each group; (n_linked, n_clusters) in."""
        sums = np.zeros((len(self.neighbours), values.shape[1]))
        np.add.at(sums, self.group_of, values)
        return sums

    def assign(self, evidence: Floats, rounds: int = ROUNDS) -> NDArray[np.int64]:
        """Return the clusters of the samples: those of much evidence that obey all links.

        Groups without neighbours get the best cluster. Others get the best that their neighbours leave, one
        after the other; then connected groups of two clusters are swapped as long as that pays.

        Parameters
        ----------
        evidence : ndarray of shape (n_groups, n_clusters)
            Log-probabilities of the clusters, nats.
        rounds : int
            Most rounds of swaps.
        """
        labels = evidence.argmax(axis=1)
        if self.order:
            best, labels[self.order] = labels.copy(), self._greedy(evidence)[self.order]
            for _ in range(rounds):
                old_labels, is_displaced = labels, labels != best
                pairs = np.sort(np.stack([labels, best], axis=1)[is_displaced], axis=1)
                pairs, counts = np.unique(pairs, axis=0, return_counts=True)
                for pair in pairs[np.argsort(-counts, kind="stable")][: MOST_SWAPPED // len(labels) + 1]:
                    labels = self._swap(labels, evidence, pair)
                if (labels == old_labels).all():
                    break
        return np.asarray(labels[self.group_of])

    def _greedy(self, evidence: Floats) -> NDArray[np.int64]:
        labels = [-1] * len(evidence)
        ranks = np.argsort(-evidence[self.order], axis=1, kind="stable").tolist()
        for group, clusters in zip(self.order, ranks, strict=True):
            used_clusters = {labels[other] for other in self.neighbours[group]}
            labels[group] = next((cluster for cluster in clusters if cluster not in used_clusters), -1)
            if labels[group] < 0:  # the partition that is known obeys, whatever its clusters are called
                from scipy.optimize import linear_sum_assignment  # slow to load, and rarely needed

                gains = np.zeros((evidence.shape[1],) * 2)
                np.add.at(gains, self.colours[self.order], evidence[self.order])
                return np.asarray(linear_sum_assignment(gains, maximize=True)[1][self.colours])
        return np.array(labels)

    def _swap(
        self, labels: NDArray[np.int64], evidence: Floats, pair: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Swap two clusters in each of their connected groups in which that pays."""
        rows, is_pair = np.arange(len(labels)), np.isin(labels, pair)
        inner = self.edges[is_pair[self.edges].all(axis=1)].T
        graph = coo_array((np.ones(inner.shape[1], np.int8), tuple(inner)), shape=(len(labels),) * 2)
        chains = connected_components(graph, directed=False)[1]
        new_labels = np.where(is_pair, pair.sum() - labels, labels)
        gains = np.bincount(chains, evidence[rows, new_labels] - evidence[rows, labels])
        return np.where(gains[chains] > LEAST_GAIN, new_labels, labels)


def group_samples(layers: Sequence[Layer], n_clusters: int) -> Groups:
    """Return the groups that hard links make.

    Raises
    ------
    Contradiction
        If no partition into so many clusters obeys the links, or if none was found.
    """
    must, cannot = (hard_pairs(layers, kind) for kind in (MUST, CANNOT))
    samples, group_of, edges = _contract(must, cannot)
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if len(loops):
        raise Contradiction(n_clusters, np.append(_path(must, cannot[loops[0]]), len(must) + loops[0]))
    neighbours = _neighbours(edges, int(group_of.max(initial=-1)) + 1)
    core, outer_groups = _peel(neighbours, n_clusters)
    if clique := _clique(neighbours, core, n_clusters):
        raise Contradiction(n_clusters, _smallest(must, cannot, clique, n_clusters))
    try:
        colours, order = _colouring(neighbours, core, n_clusters, EFFORT)
    except _Undecided:
        raise Contradiction(n_clusters, np.empty(0, np.int64)) from None
    if colours is None:
        raise Contradiction(n_clusters, _smallest(must, cannot, core, n_clusters))
    for group in outer_groups:
        used_colours = {colours[other] for other in neighbours[group]}
        colours[group] = next(colour for colour in range(n_clusters) if colour not in used_colours)
    order += [group for group in outer_groups if neighbours[group]]
    return Groups(samples, group_of, edges, neighbours, order, np.array(colours, dtype=np.int64))


class _Contraction(NamedTuple):
    """Samples with links, the group of each, and the two groups of each cannot-link."""

    samples: NDArray[np.int64]
    group_of: NDArray[np.int64]
    edges: Pairs


def _contract(must: Pairs, cannot: Pairs) -> _Contraction:
    samples, ends = np.unique(np.concatenate([must, cannot]), return_inverse=True)
    ends = ends.reshape(-1, 2)
    first, second = ends[: len(must)].T
    graph = coo_array((np.ones(len(must), np.int8), (first, second)), shape=(len(samples),) * 2)
    group_of = connected_components(graph, directed=False)[1].astype(np.int64)
    return _Contraction(samples, group_of, group_of[ends[len(must) :]])


def _neighbours(edges: Pairs, n_groups: int) -> list[list[int]]:
    low, high = np.divmod(np.unique(pair_numbers(edges, max(n_groups, 1))), max(n_groups, 1))
    first, second = np.concatenate([low, high]), np.concatenate([high, low])
    starts = np.append(0, np.cumsum(np.bincount(first, minlength=n_groups))).tolist()
    partners = second[np.argsort(first, kind="stable")].tolist()
    return [partners[begin:end] for begin, end in pairwise(starts)]


def _peel(neighbours: list[list[int]], n_colours: int) -> tuple[list[int], list[int]]:
    """Return the groups that constrain each other, and the others in an order that colours each of them."""
    degrees = list(map(len, neighbours))
    order = [group for group, degree in enumerate(degrees) if degree < n_colours]
    for group in order:
        for other in neighbours[group]:
            degrees[other] -= 1
            if degrees[other] == n_colours - 1:
                order.append(other)
    return sorted({*range(len(neighbours))} - {*order}), order[::-1]


def _colouring(
    neighbours: list[list[int]], core: list[int], n_colours: int, effort: int
) -> tuple[list[int] | None, list[int]]:
    """Colour the core, the group whose neighbours have most colours next, and step back where none is left.

    Returns
    -------
    colours : list of int, or None
        Colour of each group, -1 outside of the core; None if the core has no colouring.
    order : list of int
        Groups of the core as they were coloured.
    """
    colours, saturation = [-1] * len(neighbours), [0] * len(neighbours)
    inner, is_core = [list[int]()] * len(neighbours), [False] * len(neighbours)
    blocked = {group: [0] * n_colours for group in core}
    for group in core:
        is_core[group] = True
    for group in core:
        inner[group] = [other for other in neighbours[group] if is_core[other]]
    heap = [(0, -len(inner[group]), group) for group in core]
    heapify(heap)
    trail: list[tuple[int, list[int], int]] = []  # group, colours to try, colours used before it

    def mark(group: int, colour: int, step: int) -> None:
        for other in inner[group]:
            was = blocked[other][colour] > 0
            blocked[other][colour] += step
            if was != (blocked[other][colour] > 0):
                saturation[other] += step
                if colours[other] < 0:
                    heappush(heap, (-saturation[other], -len(inner[other]), other))

    while heap:
        key, _, group = heappop(heap)
        if colours[group] >= 0 or -key != saturation[group]:
            continue
        # Colours that no group of this component has are all alike: one of them is tried.
        n_used = max(trail[-1][2], colours[trail[-1][0]] + 1) if saturation[group] else 0
        choices = [c for c in range(min(n_used + 1, n_colours)) if not blocked[group][c]][::-1]
        while not choices:
            if not n_used:
                return None, []
            if effort == 0:
                raise _Undecided
            effort -= 1
            heappush(heap, (-saturation[group], -len(inner[group]), group))
            group, choices, n_used = trail.pop()
            colour, colours[group] = colours[group], -1
            mark(group, colour, -1)
        colours[group] = choices.pop()
        trail.append((group, choices, n_used))
        mark(group, colours[group], 1)
    return colours, [group for group, _, _ in trail]


# A small set of links that contradict each other.


def _clique(neighbours: list[list[int]], core: list[int], n_colours: int) -> list[int]:
    """Return the first clique with more groups than colours, or an empty list."""
    core_groups = set(core)
    for start in sorted(core, key=lambda group: (-len(neighbours[group]), group))[:STARTS]:
        clique, candidates = [start], core_groups.intersection(neighbours[start])
        while candidates and len(clique) <= n_colours:
            clique.append(max(candidates, key=lambda group: (len(neighbours[group]), -group)))
            candidates = candidates.intersection(neighbours[clique[-1]])
        if len(clique) > n_colours:
            return clique
    return []


def _path(must: Pairs, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the fewest must-links that join two samples of a group."""
    samples = np.unique(np.append(must, ends))
    first, target = np.searchsorted(samples, ends)
    graph, links = _graph(np.searchsorted(samples, must), len(samples))
    predecessors = breadth_first_order(graph, first, directed=False, return_predecessors=True)[1]
    path = list[int]()
    while target != first:
        path.append(links[pair_numbers(np.array([target, predecessors[target]]), len(samples))[0]])
        target = predecessors[target]
    return np.array(path[::-1], dtype=np.int64)


def _graph(must: Pairs, n_samples: int) -> tuple[csr_array, dict[int, int]]:
    """Return the graph of must-links, weighted by their places, and the place of the first of each pair."""
    numbers, places = np.unique(pair_numbers(must, n_samples), return_index=True)
    graph = coo_array((places + 1.0, np.divmod(numbers, n_samples)), shape=(n_samples,) * 2)
    return graph.tocsr(), dict(zip(numbers.tolist(), places.tolist(), strict=True))


def _smallest(must: Pairs, cannot: Pairs, groups: Sequence[int], n_clusters: int) -> NDArray[np.int64]:
    """Return the places of links of some groups that contradict each other, without any that is not needed.

    Links are left out by halves, quarters and so on as long as the rest is a proven contradiction.
    """
    samples, group_of, edges = _contract(must, cannot)
    n_groups, n_must = int(group_of.max()) + 1, len(must)
    is_meant = np.isin(np.arange(n_groups), groups)
    _, first = np.unique(pair_numbers(edges, n_groups), return_index=True)
    cannot_links = np.sort(first)[is_meant[edges[np.sort(first)]].all(axis=1)]
    places = np.searchsorted(samples, must)
    tree = minimum_spanning_tree(_graph(places, len(samples))[0]).data.astype(np.int64) - 1
    must_links = np.sort(tree[is_meant[group_of[places[tree, 0]]]])
    links, n_read = np.concatenate([must_links, n_must + cannot_links]), 0
    size = len(links)
    while size > 1 and n_read < MOST_READ:
        size, begin = (size + 1) // 2, 0
        while begin < len(links) and n_read < MOST_READ:
            subset = np.delete(links, slice(begin, begin + size))
            n_read += len(subset)
            is_must = subset < n_must
            if _is_contradiction(must[subset[is_must]], cannot[subset[~is_must] - n_must], n_clusters):
                links = subset
            else:
                begin += size
    return links


def _is_contradiction(must: Pairs, cannot: Pairs, n_clusters: int) -> bool:
    """Return whether it is proven with little effort that links contradict each other."""
    _, group_of, edges = _contract(must, cannot)
    if (edges[:, 0] == edges[:, 1]).any():
        return True
    neighbours = _neighbours(edges, int(group_of.max(initial=-1)) + 1)
    try:
        return _colouring(neighbours, _peel(neighbours, n_clusters)[0], n_clusters, LITTLE_EFFORT)[0] is None
    except _Undecided:
        return False
