"""What the kernels see of a problem: arrays and scalars."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# Annotation terms of the objective, in the order of `kernels.settings.TERMS`: none, block model, block model
# with priors on its rates, pairs alone.
UNSUPERVISED, LIKELIHOOD, POSTERIOR, CONDITIONAL = 0, 1, 2, 3

# Shapes of the covariances, in the order of `kernels.structure.COVARIANCES`.
SPHERICAL, COMMON, DIAGONAL, TIED, FULL = 0, 1, 2, 3, 4

# Limits of an accuracy p where the model divides by 1 - p or takes the logarithm of either.
SMALLEST_ACCURACY, LARGEST_ACCURACY = 1e-6, 1 - 1e-6

# A cluster whose variance is at most this share of s² adds nothing to the objective (model.md, eq. (6)).
# Under the variance "common" the rule applies to all clusters together.
DEGENERATE = 1e-10

# Columns that often tell all rows apart: sorting rows by all of them is slow.
FEW = 8

# A gain counts only above this, in nats: far above rounding, so that no sample moves to and fro.
IMPROVEMENT = 1e-9


# An accuracy is taken for no surer than this: mean fields do not come back from what they took for certain.
UNSURE = 1e-3


class Data(NamedTuple):
    """Constant input of the search.

    Clusters are the last axis wherever an array has one: all targets of a sample are evaluated in one sweep
    over contiguous memory. The annotation layers of a sample lie one after the other: entries
    `row_start[i * n_layers + layer]` up to the next row start are its partners in `layer`, self pairs apart.
    """

    X: Floats  # (n_samples, n_features), centred: what seeding, k-means and crossover see
    Z: Floats  # (n_samples, n_dims): what the Gaussians see: X itself, or see `kernels.problem.shapes`
    n_clusters: int
    model: int
    shape: int  # of the covariances
    min_size: int
    kappa: float  # variance_prior
    total_variance: float  # s²
    proportions: bool  # whether a label is as likely as its cluster is large
    feature_weight: float  # η, a factor of gmm
    ridge: float  # the prior's scale matrix is ridge times the identity, in Z; 0 without that prior
    freedom: float  # of that prior: f_r = n_r + freedom
    ground: float  # freedom (log|ridge I| - n_dims log freedom + n_dims): an empty cluster is to add nothing
    floors: Floats  # (n_dims,): a variance of Z up to it is degenerate; "diagonal" without a prior alone
    reach: float  # largest |Z| over the root of the ridge: how rounding of a mean counts; 0 without a ridge
    unit_term: float  # gmm in the units of X less gmm in those of Z
    row_start: NDArray[np.int32]  # (n_samples * n_layers + 1,)
    partners: NDArray[np.int32]
    weights: Floats  # A_ij beside partners
    self_weights: Floats  # (n_samples, n_layers): A_ii; 0 in the model "conditional"
    totals: Floats  # (n_layers,): m_layer; without self pairs in the model "conditional"
    spread: Floats  # (n_layers,): lambda_in = (S_in + spread S_out) / m_layer = spread lambda_out
    attracts: NDArray[np.bool_]  # (n_layers,): whether weights above 0 draw two samples together
    n_known: int  # leading layers of known accuracy, 0 or 1: see conditional
    apart: Floats  # (n_layers,): agreed where no pair shares a cluster: see conditional
    annotated: NDArray[np.int32]  # samples of phase 1
    unannotated: NDArray[np.int32]  # samples of phase 2
    log_size: Floats  # (n_samples + 2,): log n, 0 for n = 0
    log_freedom: Floats  # (n_samples + 2,): log(D (n + kappa)), or log f; 0 where that is log 0
    x_log_x: Floats  # x log x of the whole numbers a count can take; empty if weights are not whole


# Annotation layers as they are given, and how they agree with a partition.

MUST, CANNOT = 0, 1


@dataclass(frozen=True)
class Layer:
    """One annotation graph.

    Parameters
    ----------
    kind : int
        `MUST` or `CANNOT`.
    pairs : ndarray of shape (n_pairs, 2)
        Sample indices; repeated pairs, in either order, add up; a sample may pair with itself.
    weights : ndarray of shape (n_pairs,), optional
        Annotations each pair stands for (a self pair of weight w counts A_ii = 2w); ones if not given.
    accuracy : float, optional
        Assumed share of correct annotations: in (0, 1] and needed by the model "posterior"; in [0, 1] in the
        model "conditional", where it is unknown if not given.
    accuracies : ndarray of shape (n_pairs,), optional
        Assumed accuracy of each annotation, in [0, 1], before that of the layer; NaN leaves it to the layer.
        The model "conditional" alone reads it.
    annotator : int
        Who annotated: layers of one annotator share one unknown accuracy in the model "conditional".
    """

    kind: int
    pairs: NDArray[np.integer]
    weights: Floats | None = None
    accuracy: float | None = None
    accuracies: Floats | None = None
    annotator: int = 0


def layers_from_annotations(annotations: NDArray[np.integer], accuracy: float | None) -> list[Layer]:
    """Must-link and cannot-link layer of a table of annotations.

    Parameters
    ----------
    annotations : ndarray of shape (n_annotations, 3)
        Columns i, j, kind.
    accuracy : float or None
        Assumed accuracy of both layers.
    """
    table = np.asarray(annotations).reshape(-1, 3)
    return [Layer(kind, table[table[:, 2] == kind, :2], None, accuracy) for kind in (MUST, CANNOT)]


def layer_weights(layer: Layer) -> Floats:
    """Weight of each pair, shape (n_pairs,)."""
    return np.ones(len(layer.pairs)) if layer.weights is None else np.asarray(layer.weights, np.float64)


def pair_accuracies(layer: Layer) -> Floats:
    """Accuracy of each pair as the model "conditional" uses it, shape (n_pairs,); NaN where it is unknown."""
    of_layer = np.nan if layer.accuracy is None else layer.accuracy
    own = np.nan if layer.accuracies is None else np.asarray(layer.accuracies, np.float64)
    found = np.where(np.isnan(own), of_layer, own) * np.ones(len(layer.pairs))
    # clip keeps NaN.
    return np.asarray(np.clip(found, SMALLEST_ACCURACY, LARGEST_ACCURACY))


def pair_numbers(pairs: NDArray[np.integer], n_samples: int) -> NDArray[np.int64]:
    """One number for each pair, whichever end comes first; they sort as pairs do, many times as fast.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Samples.
    n_samples : int
        N. The number is N times the first sample, plus the second.

    Returns
    -------
    ndarray of shape (n_pairs,)
    """
    ends = np.asarray(pairs).reshape(-1, 2)
    low, high = np.minimum(*ends.T), np.maximum(*ends.T)
    return np.asarray(low.astype(np.int64) * n_samples + high)


def row_numbers(values: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers of the rows of a table from 0 on, equal rows having the same."""
    for some in (values[:, :FEW], values):
        numbers = np.unique(some, axis=0, return_inverse=True)[1].ravel()
        if numbers.max() + 1 == len(values):
            break
    return numbers


def agrees(layer: Layer, labels: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Whether each pair is together, or apart, as annotated, of shape (n_pairs,)."""
    pairs = np.asarray(layer.pairs, dtype=np.int64).reshape(-1, 2)
    return np.asarray((labels[pairs[:, 0]] == labels[pairs[:, 1]]) == (layer.kind == MUST))


def inferred_accuracies(layers: Sequence[Layer], labels: ArrayLike) -> dict[int, float]:
    """Share of each annotator's annotations that agree with a partition.

    Parameters
    ----------
    layers : sequence of Layer
        Annotation graphs; those of one annotator are taken together.
    labels : array_like of shape (n_samples,)
        Cluster of every sample.

    Returns
    -------
    dict of int to float
        By annotator, in ascending order. Weighted; self pairs are left out; NaN where no other pair is left.
    """
    sums: dict[int, list[float]] = {layer.annotator: [0.0, 0.0] for layer in layers}
    for layer in layers:
        pairs = np.asarray(layer.pairs, dtype=np.int64).reshape(-1, 2)
        weights = np.where(pairs[:, 0] == pairs[:, 1], 0.0, layer_weights(layer))
        sums[layer.annotator][0] += float(weights[agrees(layer, np.asarray(labels))].sum())
        sums[layer.annotator][1] += float(weights.sum())
    return {who: right / total if total > 0.0 else math.nan for who, (right, total) in sorted(sums.items())}


def check_labels(labels: NDArray[Any], n_samples: int, n_clusters: int, name: str = "labels") -> None:
    """Raise an error for labels that are no partition of the samples into the clusters.

    Raises
    ------
    ValueError
        If they are not one integer in range for each sample.
    """
    if labels.shape != (n_samples,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"{name}: found {labels.dtype} of shape {labels.shape}, expected {n_samples} integers"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < n_clusters:
        found = f"labels go from {labels.min()} to {labels.max()}"
        raise ValueError(f"{name}: {found}, expected 0 to {n_clusters - 1}")


# The annotation part of `Data`: layers as sorted rows of partners.

# Longest table of x log x, 32 MiB; for larger counts the kernels compute the logarithm.
LARGEST_TABLE = 1 << 22

# Largest value that `row_start` can hold.
LARGEST_INDEX = np.iinfo(np.int32).max


class Graph(NamedTuple):
    """One layer as the kernels see it: pairs in either order; weights of repeated pairs add up."""

    pairs: NDArray[np.int64]  # (n_pairs, 2)
    weights: Floats  # (n_pairs,)
    spread: float = 1.0
    attracts: bool = True
    total: float = 0.0
    apart: float = 0.0


def adjacency(layers: Sequence[Layer], n_samples: int, model: str) -> dict[str, Any]:
    """Fields of `Data` that say who is annotated with whom: symmetric, rows ordered by sample, then layer.

    Block models have the layers as they are, with counts as weights; "conditional" those of eq. (36).
    """
    is_conditional = model == "conditional"
    by_source = _conditional_graphs(layers) if is_conditional else {}
    graphs = [by_source[source] for source in sorted(by_source)]
    if not is_conditional:
        graphs = [_block_graph(layer) for layer in layers]
    n_layers = len(graphs)
    keys = [np.empty(0, dtype=np.int64)]
    values = [np.empty(0)]
    self_weights = np.zeros((n_samples, n_layers))
    for number, (pairs, given, *_) in enumerate(graphs):
        own = pairs[:, 0] == pairs[:, 1]
        # add.at: += would count a repeated index once.
        np.add.at(self_weights[:, number], pairs[own, 0], 2.0 * given[own])
        for first, second in (pairs[~own].T, pairs[~own, ::-1].T):
            # One key sorts by sample, layer and partner, and is the same for repeated pairs.
            keys.append((first * n_layers + number) * n_samples + second)
            values.append(given[~own])
    entries, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    if len(entries) > LARGEST_INDEX:
        raise ValueError(f"{len(entries) // 2} annotated pairs are more than {LARGEST_INDEX // 2}")
    rows = entries // n_samples
    weights = np.bincount(inverse, weights=np.concatenate(values), minlength=len(entries)).astype(np.float64)
    totals = np.array([graph.total for graph in graphs], dtype=np.float64)
    if not is_conditional:
        sums = np.bincount(rows % max(n_layers, 1), weights=weights, minlength=n_layers)
        totals = (self_weights.sum(axis=0) + sums) / 2.0
    # Entries of `edge_counts` are at most twice the layer's total, and kernels add at most as much again.
    largest = 4.0 * float(totals.max(initial=0.0)) + 1.0
    has_fractions = np.mod(weights, 1.0).any() or np.mod(self_weights, 1.0).any()
    has_table = n_layers > 0 and not is_conditional and not has_fractions and largest <= LARGEST_TABLE
    counts = np.arange(largest + 1.0 if has_table else 0.0)
    return {
        "row_start": np.searchsorted(rows, np.arange(n_samples * n_layers + 1)).astype(np.int32),
        "partners": (entries % n_samples).astype(np.int32),
        "weights": weights,
        "self_weights": self_weights,
        "totals": totals,
        "spread": np.array([graph.spread for graph in graphs], dtype=np.float64),
        "attracts": np.array([graph.attracts for graph in graphs], dtype=np.bool_),
        "n_known": sum(not is_unknown for is_unknown, _ in by_source),
        "apart": np.array([graph.apart for graph in graphs], dtype=np.float64),
        "x_log_x": counts * np.log(np.maximum(counts, 1.0)),
    }


def _block_graph(layer: Layer) -> Graph:
    spread = 1.0  # of S_out in lambda_in: odds of a pair of either kind being apart; 1 without a prior
    # The likelihood has no prior, and its accuracies are not checked.
    if layer.accuracy is not None and 0.0 < layer.accuracy <= 1.0:
        p = min(layer.accuracy, LARGEST_ACCURACY)
        spread = (1.0 - p) / p if layer.kind == MUST else p / (1.0 - p)
    return Graph(np.asarray(layer.pairs, np.int64), layer_weights(layer), spread, layer.kind == MUST)


def _conditional_graphs(layers: Sequence[Layer]) -> dict[tuple[bool, int], Graph]:
    """What a pair adds when it shares a cluster (model.md, eq. (36)), self pairs left out.

    Annotations of known accuracy p are one layer with the weights ± w log(p / (1 - p)), in nats. Those of
    unknown accuracy are a layer for each annotator with the weights ± w. By whether it is unknown, and who.
    """
    graphs: dict[tuple[bool, int], Graph] = {}
    for layer in layers:
        pairs, accuracies = np.asarray(layer.pairs, dtype=np.int64), pair_accuracies(layer)
        for source in ((False, 0), (True, layer.annotator)):
            is_unknown, _ = source
            chosen = (np.isnan(accuracies) == is_unknown) & (pairs[:, 0] != pairs[:, 1])
            if not chosen.any():
                continue
            counts, p = layer_weights(layer)[chosen], accuracies[chosen]
            right, wrong = (np.ones(len(p)), np.zeros(len(p))) if is_unknown else (np.log(p), np.log1p(-p))
            together, parted = (right, wrong) if layer.kind == MUST else (wrong, right)
            before = graphs.get(source, Graph(np.empty((0, 2), np.int64), np.empty(0)))
            graphs[source] = Graph(
                np.concatenate([before.pairs, pairs[chosen]]),
                np.concatenate([before.weights, counts * (together - parted)]),
                total=before.total + float(counts.sum()) * is_unknown,
                apart=before.apart + float(np.sum(counts * parted)),
            )
    return graphs


# Annotations as fits of unions of Gaussians see them (`kernels.components`): pairs both ways.


class Links(NamedTuple):
    """Annotated pairs both ways, in an order that does not depend on that of the annotations."""

    row_start: NDArray[np.int64]  # these seven as of `components.Observed`
    partners: NDArray[np.int32]
    entries: NDArray[np.int32]
    pairs: NDArray[np.int32]
    signed: Floats
    odds: Floats
    sources: NDArray[np.int32]
    annotators: tuple[int, ...]  # those whose accuracy is to be found


def link(layers: Sequence[Layer], n_samples: int) -> Links:
    """Lay annotations out for the kernels.

    Parameters
    ----------
    layers : sequence of Layer
        Annotations; those of a sample with itself are left out.
    n_samples : int
        N.
    """
    numbers, signed, odds = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
    who = [np.empty(0, np.int32)]
    for layer in layers:
        ends, p = np.asarray(layer.pairs).reshape(-1, 2), pair_accuracies(layer)
        used = ends[:, 0] != ends[:, 1]
        told = np.clip(p[used], UNSURE, 1.0 - UNSURE)
        numbers.append(pair_numbers(ends[used], n_samples))
        signed.append(layer_weights(layer)[used] * (1.0 if layer.kind == MUST else -1.0))
        odds.append(np.where(np.isnan(told), 0.0, np.log(told / (1.0 - told))))
        who.append(np.where(np.isnan(told), np.int32(layer.annotator), np.int32(-1)))
    number, whose = np.concatenate(numbers), np.concatenate(who)
    known, weights = np.concatenate(odds), np.concatenate(signed)
    # A pair that was given twice is one of the summed weight, and pairs stand in the order of samples:
    # bits do not depend on the order in which they came, nor on which end came first.
    columns = known, np.sign(weights).astype(np.int8), whose, number
    order = np.lexsort(columns)
    is_new = np.arange(len(order)) < 1
    for column in columns:
        is_new[1:] |= column[order[1:]] != column[order[:-1]]
    new = np.flatnonzero(is_new)
    first = order[new]
    pairs = np.stack(np.divmod(number[first], n_samples), axis=1).astype(np.int32)
    annotators = np.unique(whose[whose >= 0])
    one, other = pairs.T.ravel(), pairs[:, ::-1].T.ravel()
    both = np.argsort(one, kind="stable")
    whose = whose[first]
    return Links(
        row_start=np.append(0, np.cumsum(np.bincount(one, minlength=n_samples))),
        partners=other[both],
        entries=(both % max(len(pairs), 1)).astype(np.int32),
        pairs=pairs,
        signed=np.add.reduceat(weights[order], new),
        odds=known[first],
        sources=np.where(whose < 0, -1, np.searchsorted(annotators, whose)).astype(np.int32),
        annotators=tuple(annotators.tolist()),
    )
