"""Arrays and scalars that lay a problem out for the kernels, and the annotations they come from.

`label_layers` makes annotations of labels of some rows, which may be wrong (docs/model.md, section 15). It
links each labelled row with a few others: must-links with rows of the same name, cannot-links with rows of
other names. So every solver, choice and draw takes labels as it takes annotations. Their number is linear in
that of the labels, and together they weigh as much as each label does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike, NDArray

from sweep_clustering.kernels.settings import UNLABELLED

Floats = NDArray[np.float64]

# Annotation terms of the objective, in the order of `kernels.settings.TERMS`: none, block model, block model
# with priors on its rates, pairs alone.
UNSUPERVISED = 0
LIKELIHOOD = 1
POSTERIOR = 2
CONDITIONAL = 3

# Shapes of the covariances, in the order of `kernels.structure.COVARIANCES`.
SPHERICAL = 0
COMMON = 1
DIAGONAL = 2
TIED = 3
FULL = 4

# Limits of an accuracy p, as the model divides by 1 - p and takes the logarithms of p and 1 - p.
SMALLEST_ACCURACY = 1e-6
LARGEST_ACCURACY = 1 - 1e-6

# A cluster whose variance is at most this share of s² adds nothing to the objective (model.md, eq. (6)).
# Under the variance "common" the rule applies to all clusters together.
DEGENERATE = 1e-10

# Number of columns by which rows are compared first. Most rows differ in them, and sorting by all is slow.
FIRST_COLUMNS = 8

# A gain counts only above this, in nats. It is far above rounding, so that no sample moves to and fro.
IMPROVEMENT = 1e-9

# Accuracy of hard links as annotations: fits rarely break one, and none that is left out counts too much.
HARD = 0.999

# Least distance of an accuracy from 0 and 1 in mean fields, which never give up a certain value.
UNSURE = 1e-3

# Answers that each accuracy of an annotator is shrunk by: towards the mean of the two, and towards the group.
# Half of the workers of a crowd (150 with 30 answers each) chose them by the log loss of held-out answers
# about pairs whose classes are known.
OWN_PRIOR = 1.0
GROUP_PRIOR = 4.0

# Right and wrong answers that each accuracy begins with: one right and one wrong for each annotator.
HALF_AN_ANSWER = 0.5

# Rounds of shrinking until nothing moves: each leaves less than half of the distance.
SHRINKING_ROUNDS = 50

# Rows of its name that a labelled row is linked with, and pairs of either kind that all labels make: with
# many labels each row has fewer partners.
MOST_PARTNERS = 10
LEAST_PARTNERS = 2
MOST_PAIRS = 200_000

# Number of the annotator whose answers the pairs of labels are: no other has it.
ANNOTATOR = 2**30

# First part of the key of the stream that draws partners.
STREAM = 2_000_000


class Data(NamedTuple):
    """Constant input of the search.

    Clusters are the last axis of an array, so that all targets of a sample are evaluated in one sweep over
    contiguous memory. The layers of a sample lie one after the other: its partners in `layer`, self pairs
    apart, are the entries from `row_start[i * n_layers + layer]` up to the next row start.
    """

    X: Floats  # (n_samples, n_features), centred: features for seeding, k-means and crossover
    Z: Floats  # (n_samples, n_dims): X, or its coordinates for the Gaussians, see `problem.coordinates`
    n_clusters: int
    model: int
    shape: int  # shape of the covariances
    min_size: int
    kappa: float  # variance_prior
    total_variance: float  # s²
    proportions: bool  # whether a label is as likely as its cluster is large
    feature_weight: float  # η, a factor of gmm
    ridge: float  # the prior's scale matrix in Z is ridge times the identity; 0 without that prior
    freedom: float  # degrees of freedom of that prior: f_r = n_r + freedom
    ground: float  # freedom (log|ridge I| - n_dims log freedom + n_dims), so that an empty cluster adds 0
    floors: Floats  # (n_dims,): largest degenerate variance of Z, for "diagonal" without a prior
    reach: float  # largest |Z| over the root of the ridge, a scale of rounding; 0 without a ridge
    unit_term: float  # gmm in the units of X less gmm in those of Z
    row_start: NDArray[np.int32]  # (n_samples * n_layers + 1,)
    partners: NDArray[np.int32]
    weights: Floats  # A_ij beside partners
    self_weights: Floats  # (n_samples, n_layers): A_ii; 0 in the model "conditional"
    totals: Floats  # (n_layers,): m_layer; without self pairs in the model "conditional"
    spread: Floats  # (n_layers,): lambda_in = (S_in + spread S_out) / m_layer = spread lambda_out
    attracts: NDArray[np.bool_]  # (n_layers,): whether weights above 0 draw two samples together
    n_known: int  # for "conditional": leading layers of known accuracy, 0 or 1
    base_agreements: Floats  # (n_layers,), for "conditional": `State.agreements` if no pair shares a cluster
    annotated: NDArray[np.int32]  # samples of phase 1
    unannotated: NDArray[np.int32]  # samples of phase 2
    log_size: Floats  # (n_samples + 2,): log n, 0 for n = 0
    log_freedom: Floats  # (n_samples + 2,): log(D (n + kappa)), or log f; 0 where that is log 0
    x_log_x: Floats  # x log x of the whole numbers a count can take; empty if weights are not whole


# Annotation layers of the caller, and their agreement with a partition.

# Kinds of annotations, as tables of annotations hold them.
MUST = 0
CANNOT = 1


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
        Number of annotations of each pair (a self pair of weight w counts A_ii = 2w); 1 by default.
    accuracy : float, optional
        Assumed share of correct annotations: in (0, 1] and needed by the model "posterior"; in [0, 1] in the
        model "conditional", which takes None for unknown.
    accuracies : ndarray of shape (n_pairs,), optional
        Assumed accuracy of each annotation, in [0, 1], before that of the layer; NaN leaves it to the layer.
        The model "conditional" alone reads it.
    annotator : int
        Number of the annotator. Layers of one annotator share an unknown accuracy in the model "conditional".
    is_hard : bool
        Whether every partition must obey the annotations, which have the accuracy `HARD` then.
    is_of_labels : bool
        Whether each annotation follows from the label of its first sample, see `label_layers`.
    """

    kind: int
    pairs: NDArray[np.integer]
    weights: Floats | None = None
    accuracy: float | None = None
    accuracies: Floats | None = None
    annotator: int = 0
    is_hard: bool = False
    is_of_labels: bool = False


def layers_from_annotations(
    annotations: NDArray[np.integer], accuracy: float | None, turn: int | None = None
) -> list[Layer]:
    """Return the must-link and the cannot-link layer of a table with the columns i, j, kind.

    If `turn` is given, so many annotations in turn are of one annotator, who has two layers. Annotations of
    another kind are left out.
    """
    table = np.asarray(annotations).reshape(-1, 3)
    turn = turn or max(len(table), 1)
    return [
        Layer(kind, part[part[:, 2] == kind, :2], None, accuracy, annotator=annotator)
        for annotator, part in enumerate(np.split(table, range(turn, len(table), turn)))
        for kind in (MUST, CANNOT)
    ]


def layer_weights(layer: Layer) -> Floats:
    """Return the weight of each pair as an array (n_pairs,)."""
    return np.ones(len(layer.pairs)) if layer.weights is None else np.asarray(layer.weights, np.float64)


def pair_accuracies(layer: Layer) -> Floats:
    """Return the accuracy of each pair in the model "conditional" as an array (n_pairs,); NaN if unknown."""
    common = np.nan if layer.accuracy is None else layer.accuracy
    single = np.nan if layer.accuracies is None else np.asarray(layer.accuracies, np.float64)
    accuracies = np.where(np.isnan(single), common, single) * np.ones(len(layer.pairs))
    return np.asarray(np.clip(accuracies, SMALLEST_ACCURACY, LARGEST_ACCURACY))


def pair_numbers(pairs: NDArray[np.integer], n_samples: int) -> NDArray[np.int64]:
    """Return N times the first sample plus the second one of each pair, as numbers sort faster than pairs."""
    ends = np.asarray(pairs).reshape(-1, 2)
    low, high = np.minimum(*ends.T), np.maximum(*ends.T)
    return np.asarray(low.astype(np.int64) * n_samples + high)


def row_numbers(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return numbers of the rows of a table from 0 on; equal rows have the same number."""
    for columns in (values[:, :FIRST_COLUMNS], values):
        numbers = np.unique(columns, axis=0, return_inverse=True)[1].ravel()
        if numbers.max(initial=-1) + 1 == len(values):
            break
    return numbers


def count_distinct(values: NDArray[Any]) -> int:
    """Return the number of distinct rows of a table."""
    return int(row_numbers(values).max(initial=-1)) + 1


def is_agreement(layer: Layer, labels: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return whether each pair is together, or apart, as annotated, in an array (n_pairs,)."""
    pairs = np.asarray(layer.pairs, dtype=np.int64).reshape(-1, 2)
    return np.asarray((labels[pairs[:, 0]] == labels[pairs[:, 1]]) == (layer.kind == MUST))


def inferred_accuracies(layers: Sequence[Layer], labels: ArrayLike) -> dict[int, float]:
    """Return the weighted share of each annotator's annotations that agree with a partition.

    Annotators are in ascending order. Self pairs and hard links are left out; an annotator without other
    pairs has NaN.
    """
    sums: dict[int, list[float]] = {layer.annotator: [0.0, 0.0] for layer in layers}
    for layer in layers:
        pairs = np.asarray(layer.pairs, dtype=np.int64).reshape(-1, 2)
        weights = np.where((pairs[:, 0] == pairs[:, 1]) | layer.is_hard, 0.0, layer_weights(layer))
        sums[layer.annotator][0] += float(weights[is_agreement(layer, np.asarray(labels))].sum())
        sums[layer.annotator][1] += float(weights.sum())
    return {
        annotator: right / total if total > 0.0 else math.nan
        for annotator, (right, total) in sorted(sums.items())
    }


class Estimates(NamedTuple):
    """Two accuracies of each annotator, on pairs that belong together and on others, as Beta distributions.

    Parameters
    ----------
    annotators : ndarray of shape (n_annotators,)
        Numbers, in ascending order.
    right, wrong : ndarray of shape (n_annotators, 2)
        Parameters of the distributions: right and wrong answers, those of the prior included.
    group : ndarray of shape (2,)
        Accuracies of the group, which an annotator without answers has.
    """

    annotators: NDArray[np.int64]
    right: Floats
    wrong: Floats
    group: Floats

    @property
    def accuracies(self) -> Floats:
        """Means of the distributions; an annotator alone has one for both, which is not below chance."""
        if len(self.right) == 1:
            share = self.right.sum() / (self.right.sum() + self.wrong.sum())
            return np.full((1, 2), np.clip(share, 0.5 + UNSURE, 1.0 - UNSURE))
        return np.clip(self.right / (self.right + self.wrong), UNSURE, 1.0 - UNSURE)

    def accuracies_of(self, annotators: NDArray[np.int64]) -> Floats:
        """Return the two accuracies of each of these annotators, an array (n, 2)."""
        everybody = np.vstack([self.accuracies, self.group])
        places = np.searchsorted(self.annotators, annotators)
        is_known = np.append(self.annotators, -1)[places] == annotators
        return np.asarray(everybody[np.where(is_known, places, len(self.annotators))])


def estimate_accuracies(
    annotators: NDArray[np.int64], is_must: NDArray[np.bool_], weights: Floats, joint_shares: Floats
) -> Estimates:
    """Estimate the two accuracies of each annotator (docs/model.md, eq. (81)).

    Parameters
    ----------
    annotators, is_must, weights : ndarray of shape (n_annotations,)
        Annotator, whether the answer is must, and number of annotations for which it stands.
    joint_shares : ndarray of shape (n_annotations,)
        Probability that the two samples belong together.
    """
    numbers, place = np.unique(annotators, return_inverse=True)
    sides = np.stack([joint_shares, 1.0 - joint_shares], axis=1) * weights[:, None]
    is_right = np.stack([is_must, ~is_must], axis=1)

    def sums(values: Floats) -> Floats:
        columns = [np.bincount(place, column, len(numbers)) for column in values.T]
        return np.asarray(np.stack(columns, axis=1) + HALF_AN_ANSWER, np.float64)

    right, wrong = sums(sides * is_right), sums(sides * ~is_right)
    estimates = Estimates(numbers, right, wrong, np.full(2, 0.5))
    for _ in range(SHRINKING_ROUNDS if len(numbers) > 1 else 0):
        accuracies = estimates.accuracies
        odds = np.log(accuracies / (1.0 - accuracies))
        level, group = (1.0 / (1.0 + np.exp(-odds.mean(axis=axis))) for axis in (1, 0))
        group = group if group.sum() > 1.0 else np.full(2, 0.5)
        prior = OWN_PRIOR * level[:, None] + GROUP_PRIOR * group
        estimates = Estimates(numbers, right + prior, wrong + OWN_PRIOR + GROUP_PRIOR - prior, group)
    return estimates


def check_labels(labels: NDArray[Any], n_samples: int, n_clusters: int, name: str = "labels") -> None:
    """Raise a ValueError for labels that are not one integer in range for each sample."""
    if labels.shape != (n_samples,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"{name}: found {labels.dtype} of shape {labels.shape}, expected {n_samples} integers"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < n_clusters:
        limits = f"labels go from {labels.min()} to {labels.max()}"
        raise ValueError(f"{name}: {limits}, expected 0 to {n_clusters - 1}")


# The annotation part of `Data`: layers as sorted rows of partners.

# Longest table of x log x, 32 MiB; for larger counts the kernels compute the logarithm.
LARGEST_TABLE = 1 << 22

# Largest value that `row_start` can hold.
LARGEST_INDEX = np.iinfo(np.int32).max


class Graph(NamedTuple):
    """One layer for the kernels: pairs in either order; weights of repeated pairs add up."""

    pairs: NDArray[np.int64]  # (n_pairs, 2)
    weights: Floats  # (n_pairs,)
    spread: float = 1.0
    attracts: bool = True
    total: float = 0.0
    base_agreement: float = 0.0


def adjacency(layers: Sequence[Layer], n_samples: int, model: str) -> dict[str, Any]:
    """Return the fields of `Data` for annotations: symmetric, with rows ordered by sample, then layer.

    Block models use the layers of the caller, with counts as weights; "conditional" those of eq. (36).
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
    for number, graph in enumerate(graphs):
        is_self = graph.pairs[:, 0] == graph.pairs[:, 1]
        # With += a repeated index would count once.
        np.add.at(self_weights[:, number], graph.pairs[is_self, 0], 2.0 * graph.weights[is_self])
        for first, second in (graph.pairs[~is_self].T, graph.pairs[~is_self, ::-1].T):
            # One key sorts by sample, layer and partner, and is the same for repeated pairs.
            keys.append((first * n_layers + number) * n_samples + second)
            values.append(graph.weights[~is_self])
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
        "base_agreements": np.array([graph.base_agreement for graph in graphs], dtype=np.float64),
        "x_log_x": counts * np.log(np.maximum(counts, 1.0)),
    }


def _block_graph(layer: Layer) -> Graph:
    # Factor of S_out in lambda_in: the odds that a pair of this kind is apart, or 1 without a prior.
    spread = 1.0
    # The likelihood has no prior, and its accuracies are not checked.
    if layer.accuracy is not None and 0.0 < layer.accuracy <= 1.0:
        p = min(layer.accuracy, LARGEST_ACCURACY)
        spread = (1.0 - p) / p if layer.kind == MUST else p / (1.0 - p)
    return Graph(np.asarray(layer.pairs, np.int64), layer_weights(layer), spread, layer.kind == MUST)


def _conditional_graphs(layers: Sequence[Layer]) -> dict[tuple[bool, int], Graph]:
    """Return the addition by pairs that share a cluster (model.md, eq. (36)), self pairs left out.

    Annotations of known accuracy p are one graph with the weights ± w log(p / (1 - p)), in nats. Those of
    unknown accuracy are a graph for each annotator with the weights ± w. The key says whether the accuracy is
    unknown, and the annotator.
    """
    graphs: dict[tuple[bool, int], Graph] = {}
    for layer in layers:
        pairs, accuracies = np.asarray(layer.pairs, dtype=np.int64), pair_accuracies(layer)
        for source in ((False, 0), (True, layer.annotator)):
            is_unknown, _ = source
            is_used = (np.isnan(accuracies) == is_unknown) & (pairs[:, 0] != pairs[:, 1])
            if not is_used.any():
                continue
            counts, p = layer_weights(layer)[is_used], accuracies[is_used]
            right, wrong = (np.ones(len(p)), np.zeros(len(p))) if is_unknown else (np.log(p), np.log1p(-p))
            joint_value, split_value = (right, wrong) if layer.kind == MUST else (wrong, right)
            old_graph = graphs.get(source, Graph(np.empty((0, 2), np.int64), np.empty(0)))
            graphs[source] = Graph(
                np.concatenate([old_graph.pairs, pairs[is_used]]),
                np.concatenate([old_graph.weights, counts * (joint_value - split_value)]),
                total=old_graph.total + float(counts.sum()) * is_unknown,
                base_agreement=old_graph.base_agreement + float(np.sum(counts * split_value)),
            )
    return graphs


# Annotations for fits of unions of Gaussians.


class Ways(NamedTuple):
    """Pairs in both directions, by row."""

    row_start: NDArray[np.int64]  # (n_samples + 1,): where those of each row begin
    partners: NDArray[np.int32]  # (2 n_pairs,): the other row of each
    entries: NDArray[np.int32]  # (2 n_pairs,): which pair it is


def both_ways(pairs: NDArray[np.integer], n_samples: int) -> Ways:
    """Lay pairs, an array of shape (n_pairs, 2), out by row."""
    samples, partners = pairs.T.ravel(), pairs[:, ::-1].T.ravel()
    by_sample = np.argsort(samples, kind="stable")
    return Ways(
        row_start=np.append(0, np.cumsum(np.bincount(samples, minlength=n_samples))),
        partners=partners[by_sample].astype(np.int32),
        entries=(by_sample % max(len(pairs), 1)).astype(np.int32),
    )


class Links(NamedTuple):
    """Annotated pairs in both directions, in an order that does not depend on that of the annotations."""

    row_start: NDArray[np.int64]  # the first seven fields are those of `kernels.unions.panels.Observed`
    partners: NDArray[np.int32]
    entries: NDArray[np.int32]
    pairs: NDArray[np.int32]
    signed: Floats
    odds: Floats
    sources: NDArray[np.int32]
    annotators: tuple[int, ...]  # annotators of unknown accuracy

    @property
    def ways(self) -> Ways:
        """Return the pairs without their annotations."""
        return Ways(self.row_start, self.partners, self.entries)

    def assume(self, odds: float) -> Self:
        """Return the pairs with these log odds, nats, where the accuracy is unknown; 0 leaves it so."""
        if odds == 0.0 or not self.annotators:
            return self
        assumed = np.where(self.sources < 0, self.odds, odds)
        return self._replace(odds=assumed, sources=np.full_like(self.sources, -1), annotators=())


def link(layers: Sequence[Layer], n_samples: int) -> Links:
    """Lay annotations out for fits of unions of Gaussians; self pairs are left out."""
    numbers, signed, odds = [np.empty(0, np.int64)], [np.empty(0)], [np.empty(0)]
    annotators = [np.empty(0, np.int32)]
    for layer in layers:
        ends, p = np.asarray(layer.pairs).reshape(-1, 2), pair_accuracies(layer)
        is_used = ends[:, 0] != ends[:, 1]
        p = np.clip(p[is_used], UNSURE, 1.0 - UNSURE)
        numbers.append(pair_numbers(ends[is_used], n_samples))
        signed.append(layer_weights(layer)[is_used] * (1.0 if layer.kind == MUST else -1.0))
        odds.append(np.where(np.isnan(p), 0.0, np.log(p / (1.0 - p))))
        annotators.append(np.where(np.isnan(p), np.int32(layer.annotator), np.int32(-1)))
    number, annotator = np.concatenate(numbers), np.concatenate(annotators)
    log_odds, weights = np.concatenate(odds), np.concatenate(signed)
    # Repeated pairs become one pair of the summed weight, and pairs are sorted by samples: bits depend
    # neither on the order of the annotations nor on that of the ends.
    columns = log_odds, np.sign(weights).astype(np.int8), annotator, number
    order = np.lexsort(columns)
    is_new = np.arange(len(order)) < 1
    for column in columns:
        is_new[1:] |= column[order[1:]] != column[order[:-1]]
    new = np.flatnonzero(is_new)
    first = order[new]
    pairs = np.stack(np.divmod(number[first], n_samples), axis=1).astype(np.int32)
    unknown_annotators = np.unique(annotator[annotator >= 0])
    return Links(
        *both_ways(pairs, n_samples),
        pairs=pairs,
        signed=np.add.reduceat(weights[order], new),
        odds=log_odds[first],
        sources=np.where(
            annotator[first] < 0, -1, np.searchsorted(unknown_annotators, annotator[first])
        ).astype(np.int32),
        annotators=tuple(unknown_annotators.tolist()),
    )


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
    q, n_others = min(accuracy, 1.0 - UNSURE), max(n_names, 2) - 1
    agreement = q**2 + (1.0 - q) ** 2 / n_others
    pair = 0.5 * (1.0 + agreement - (1.0 - agreement) / n_others)
    label_odds, pair_odds = math.log(q * n_others / (1.0 - q)), math.log(pair / (1.0 - pair))
    return Evidence(pair, label_odds / pair_odds * n_others / (n_others + 1))


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
    n_next = np.minimum(n_partners, size - 1)
    parts, shares = list[NDArray[np.int64]](), list[Floats]()
    for step in range(1, n_partners + 1):
        linked = np.flatnonzero(n_next >= step)
        partner = start[linked] + (place[linked] - start[linked] + step) % size[linked]
        parts.append(np.column_stack([order[linked], order[partner]]))
        shares.append(0.5 * evidence.weight / n_next[linked])
    must, must_weights = np.concatenate(parts), np.concatenate(shares)
    # Partners of other names are drawn from all labelled rows.
    parts = []
    for _ in range(2 * n_partners):
        partner = rng.permutation(count)
        is_other = names != names[partner]
        parts.append(np.column_stack([order[is_other], order[partner[is_other]]]))
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
    matches, name = linear_sum_assignment(counts, maximize=True)
    is_there = counts[matches, name] > 0.0
    of_cluster[matches[is_there]] = name[is_there]
    return of_cluster
