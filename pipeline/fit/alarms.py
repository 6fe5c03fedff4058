"""Alarms on fits that may be nonsense, with advice.

An alarm is a sentence from numbers that a fit has anyway: a finding, and a thing to try. `alarms_of` gives
those of a fit; the command shows them, the estimator warns with them, and both keep them as notes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import betainc

from sweep_clustering.kernels.choice import COIN, LEAST_PAIRS, HeldOut, Skill, bar_of
from sweep_clustering.kernels.fits import Fit
from sweep_clustering.kernels.problem import data
from sweep_clustering.kernels.problem.hard import hard_pairs
from sweep_clustering.kernels.structure import MANY_CLASSES
from sweep_clustering.pipeline.common import SAME_OPTIMUM, plural
from sweep_clustering.pipeline.methods.shipped.links import must_components

# Fewer samples are a handful.
HANDFUL = 5

# Largest probability of so many contradictions, if accuracies are right, that gives an alarm.
UNLIKELY = 1e-3

# Number of standard errors that an agreement above chance, or a gain, must have.
CLEAR = 2.0

# Agreement above chance that is enough if the standard error is large.
ENOUGH = 0.1

# Number of standard errors by which pairs that belong together must share clusters more often than others, so
# that rows and kinds of the answers are right.
CLEAR_DIRECTION = 5.0

# Share of the contradicted answers that shows which way the number of clusters is wrong.
MOSTLY = 0.75

# Share of answers by which distance must be right more often than clusters to be worth a warning.
ADVANTAGE = 0.02

# Log loss up to which clusters and distance predict nearly all answers, in nats.
PLAIN = 0.1

# Largest difference of log losses (nats) that is rounding.
ROUNDING = 1e-12

# Number of standard errors that predictions must be ahead of the bar: one of many candidates is, by chance.
BARELY = 3.0

# Largest number of neighbours of neighbours in a search for samples that are all apart: some seconds.
MOST_LOOKS = 10_000_000

# Number of neighbours that take as long as the start of the search from one sample.
START_LOOKS = 1_000

# Rounds in which samples with too few partners are left out there; each leaves others with too few.
MOST_PEELS = 50

# Partitions of restarts with a smaller adjusted Rand index are different ones.
SAME = 0.9

# Smallest number of restarts for an alarm that the best one is alone.
LEAST_RESTARTS = 3

# Largest ratio of the standard deviations of two features for which one variance is reasonable.
WIDEST = 1e3

# Share of all rows that repeat one row.
REPEATED = 0.05

# Rows whose nearest rows are looked at, and the skill of neighbours below which features say nothing of the
# clusters: wrong rows had 0.19 at most in 15 sets, and right ones 0.55 at least.
MOST_NEIGHBOURS = 500
LEAST_SKILL = 0.3

# Accuracies from here on leave no room for a wrong answer.
CERTAINTY = 0.999


def alarms_of(
    X: data.Floats,
    layers: Sequence[data.Layer],
    labels: NDArray[np.integer],
    n_clusters: int,
    names: Sequence[str] = (),
) -> Iterator[str]:
    """Yield sentences on features (by their names), annotations and the partition; most fits have none."""
    yield from _on_features(X, names)
    sizes = np.bincount(labels, minlength=n_clusters)
    small = np.flatnonzero(sizes < HANDFUL)  # some of many classes are small by nature
    if len(small) and n_clusters <= MANY_CLASSES and len(labels) >= 2 * HANDFUL * n_clusters:
        text = ", ".join(f"{k} ({sizes[k]})" for k in small.tolist())
        yield (
            f"clusters of a handful of samples: {text}. See whether these rows are outliers or mistakes, or"
            f" try fewer clusters than {n_clusters}"
        )
    if annotations := PairAnswers.of(layers):
        yield from _on_agreement(annotations, labels)
        yield from _on_contradictions(annotations, n_clusters)


def restart_alarm(fits: Sequence[Fit], best: int) -> Iterator[str]:
    """Say if no other restart is as good as the best of them."""
    as_good = sum(fit.objective >= fits[best].objective - SAME_OPTIMUM for fit in fits)
    if as_good > 1 or len(fits) < LEAST_RESTARTS:
        return
    from sweep_clustering.kernels.scores import adjusted_rand

    is_near_best = [adjusted_rand(fits[best].labels, fit.labels) >= SAME for fit in fits]
    if sum(is_near_best) == 1:
        yield (
            f"only one of {len(fits)} restarts found the best solution, and the others found other"
            " clusters: a better one may be left to find, try more restarts (--restarts, restarts)"
        )


def skill_alarm(score: HeldOut | None, base: HeldOut | None) -> Iterator[str]:
    """Say if predictions are ahead of the share of must-links so little that the choice explains it."""
    if score is None or base is None:
        return
    bar = bar_of(base)
    gain, error = score.gain_over(bar.predictions)
    share = max(base.share_right, 1.0 - base.share_right)
    count = float(base.weights.sum() ** 2 / np.square(base.weights).sum())
    is_ahead = score.share_right - share > BARELY * math.sqrt(share * (1.0 - share) / count)
    if gain <= BARELY * error and not is_ahead:  # the error of the gain says little about few annotations
        yield (
            f"held-out annotations are predicted barely better than by {bar.words} (log loss"
            f" {score.log_loss:.3f} against {bar.predictions.log_loss:.3f}), which may be chance: see whether"
            " rows and kinds are those meant, or annotate more pairs"
        )


def distance_alarm(skill: Skill | None) -> Iterator[str]:
    """Whether how far apart two rows are predicts the annotations, and the clusters add nothing to that.

    Clusters that say what distance says add nothing either: they are no cause for alarm.
    """
    if skill is None:
        return
    gain, error = skill.with_distance.gain_over(skill.distance)
    loss, spread = skill.distance.gain_over(skill.without_distance)
    is_better = skill.distance.share_right > skill.without_distance.share_right + ADVANTAGE
    is_better &= skill.with_distance.log_loss > PLAIN
    if gain <= CLEAR * error and loss > CLEAR * spread and is_better:
        yield (
            "how far apart two rows are predicts held-out annotations (log loss"
            f" {skill.distance.log_loss:.3f}), and these clusters add nothing to that"
            f" ({skill.with_distance.log_loss:.3f}): annotators may mean more clusters (-k, n_clusters), or"
            " annotate more pairs"
        )


def answers_alone_alarm(X: data.Floats, fit: Fit, skill: Skill | None, base: HeldOut | None) -> Iterator[str]:
    """Say if clusters follow the annotations alone.

    Distance then predicts no annotations, and rows that are nearest to each other share a cluster hardly more
    often than by chance: annotations of other rows agree with each other as well as those of the right ones.
    """
    structure = None if fit.gaussians is None else fit.gaussians.structure
    if structure is None or skill is None or base is None:
        return
    has_no_distance = not skill.distance.is_ahead(bar_of(base).predictions, CLEAR)
    if structure.annotated and has_no_distance and neighbour_skill(X, fit.labels) < LEAST_SKILL:
        yield (
            "these clusters follow the annotations and not the features: rows next to each other are in"
            " different clusters nearly as often as any two rows, see whether the rows are those meant"
            " (--first-row, first_row)"
        )


def neighbour_skill(X: data.Floats, labels: NDArray[np.integer]) -> float:
    """Return how often rows share the cluster of the nearest row, from 0 for chance to 1 for always."""
    rows = np.unique(np.linspace(0, len(X) - 1, MOST_NEIGHBOURS).astype(int))
    squares = np.square(X).sum(axis=1) - 2.0 * X[rows] @ X.T
    squares[np.arange(len(rows)), rows] = np.inf
    share = float((labels[rows] == labels[squares.argmin(axis=1)]).mean())
    chance = float(np.square(np.bincount(labels) / len(labels)).sum())
    return (share - chance) / (1.0 - chance) if chance < 1.0 else 1.0


def _on_features(X: data.Floats, names: Sequence[str]) -> Iterator[str]:
    def name(column: int) -> str:
        return repr(names[column]) if len(names) == X.shape[1] else f"{column} (counted from 0)"

    def counter_columns(columns: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
        """Return those of some columns whose first values differ by one step."""
        steps = np.diff(X[:n_rows, columns], axis=0)
        is_even = (np.abs(steps - steps[0]) <= 1e-9 * np.abs(steps[0])).all(axis=0)
        return np.asarray(columns[(steps[0] != 0.0) & is_even])

    if len(X) > 2 * HANDFUL:  # few columns are left after some rows, so that the table is not copied
        for column in counter_columns(counter_columns(np.arange(X.shape[1]), 2 * HANDFUL), len(X)).tolist():
            yield (
                f"feature {name(column)} counts the rows: it says where a row stands and not what it is,"
                " leave it out (--drop)"
            )
    deviations = X.std(axis=0)
    varying = np.flatnonzero(deviations > 0.0)
    low, high = (int(varying[pick(deviations[varying])]) for pick in (np.argmin, np.argmax))
    if deviations[high] > WIDEST * deviations[low]:
        yield (
            f"features differ in scale: the standard deviation of feature {name(low)} is"
            f" {deviations[low]:.2g}, that of feature {name(high)} {deviations[high]:.2g}, which may"
            " outweigh all others: scale them (--scale standard or auto)"
        )
    counts = np.bincount(data.row_numbers(X))
    if counts.max() >= max(HANDFUL, REPEATED * len(X)) and len(counts) > 0.5 * len(X):
        yield (
            f"one row comes {counts.max()} times among {len(X)}: a cluster of its copies may be found in"
            " place of a class, see whether they stand for missing values, or keep one of each"
        )


class Agreement(NamedTuple):
    """The share of annotations that agree with a partition, and that with one at random with its error."""

    share: float
    chance: float
    error: float

    def is_clear(self, errors: float) -> bool:
        """Whether the share is more than so many standard errors above chance."""
        return self.share > self.chance + errors * self.error


class PairAnswers:
    """Annotations of one or more layers, without those of a sample with itself."""

    def __init__(self, layers: Sequence[data.Layer]) -> None:
        self.layers = layers
        self.pairs = np.concatenate([layer.pairs for layer in layers])
        is_must = [np.full(len(layer.pairs), layer.kind == data.MUST) for layer in layers]
        self.is_must = np.concatenate(is_must)
        self.accuracies = np.concatenate([data.pair_accuracies(layer) for layer in layers])
        self.is_hard = np.concatenate([np.full(len(layer.pairs), layer.is_hard) for layer in layers])
        is_pair = self.pairs[:, 0] != self.pairs[:, 1]
        self.weights = np.concatenate([data.layer_weights(layer) for layer in layers]) * is_pair

    @classmethod
    def of(cls, layers: Sequence[data.Layer]) -> PairAnswers | None:
        """Return the annotations of layers, or None if they have no annotation of two samples."""
        annotations = cls(layers) if layers else None
        return annotations if annotations is not None and annotations.weights.sum() > 0.0 else None

    def right(self, labels: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return whether annotations agree with a partition."""
        return np.concatenate([data.is_agreement(layer, labels) for layer in self.layers])

    def agreement(self, labels: NDArray[np.integer]) -> Agreement:
        """Return how far the annotations agree with a partition."""
        shares = np.bincount(labels) / len(labels)
        pair_share, must = float(shares @ shares), self.must_share
        chance = must * pair_share + (1.0 - must) * (1.0 - pair_share)
        share = float(self.weights @ self.right(labels)) / self.total
        return Agreement(share, chance, math.sqrt(chance * (1.0 - chance) / self.count))

    def by_annotator(self) -> list[PairAnswers]:
        """Return the annotations of each annotator who annotates two different samples."""
        annotators = {layer.annotator for layer in self.layers}
        parts = [PairAnswers.of([layer for layer in self.layers if layer.annotator == a]) for a in annotators]
        return [part for part in parts if part is not None]

    @property
    def must_share(self) -> float:
        """Share of must-links."""
        return float(self.weights @ self.is_must) / self.total

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    @property
    def count(self) -> float:
        """Number of annotations of equal weights that have as much information."""
        return self.total**2 / float(self.weights @ self.weights)


def _on_agreement(annotations: PairAnswers, labels: NDArray[np.integer]) -> Iterator[str]:
    """Say if the agreement is near chance, or far below the accuracy."""
    agreement = annotations.agreement(labels)
    parts = [part.agreement(labels) for part in annotations.by_annotator()]
    # One annotator who is clearly right shows that rows and answers are read well, whatever the others say:
    # clearer than the best of so many would be by chance.
    errors = math.sqrt(CLEAR**2 + 2.0 * math.log(len(parts)))
    is_enough = agreement.is_clear(CLEAR) or agreement.share > agreement.chance + ENOUGH
    if annotations.count >= LEAST_PAIRS and not (is_enough or any(part.is_clear(errors) for part in parts)):
        yield (
            f"the clusters agree with {agreement.share:.1%} of the annotations, no better than chance:"
            f" clusters of these sizes at random would with {agreement.chance:.1%}."
            f" {_question(annotations, annotations.right(labels))}"
        )
        return
    yield from contradictions(annotations, annotations.right(labels))


def predicted_words(score: HeldOut, base: HeldOut | None) -> str:
    """Describe predictions of held-out annotations, compared with the base rate or, without one, a coin."""
    loss = f"log loss {score.log_loss:.4f} nats"
    (gain, error), other = (COIN - score.log_loss, 0.0), "a coin"
    if base is not None:
        bar, other = bar_of(base)
        gain, error = score.gain_over(bar)
    if gain <= CLEAR * error + ROUNDING:
        return f"held-out annotations no better than {other}, {loss}"
    return f"{score.share_right:.0%} of held-out annotations, {loss}"


def contradictions(annotations: PairAnswers, right: NDArray[np.bool_]) -> Iterator[str]:
    """Say if the solution contradicts more annotations than their accuracies, or guesses, explain."""
    accuracies, weights, total = annotations.accuracies, annotations.weights, annotations.total
    wrong = 1.0 - np.where(np.isnan(accuracies), 0.5, accuracies)
    contradicted, expected = float(weights[~right].sum()), float(weights @ wrong)
    # The probability is that of annotations of equal weights and accuracies with as much information.
    count = annotations.count
    n_against = count * contradicted / total if contradicted else 0.0
    if not n_against or betainc(n_against, count - n_against + 1.0, expected / total) > UNLIKELY:
        return
    error = float(np.sqrt(np.square(weights) @ (wrong * (1.0 - wrong))))
    explains = "guessing" if np.isnan(accuracies).all() else "their accuracy"
    yield (
        f"the clusters contradict {contradicted:.4g} of {total:.4g} annotations, but {explains} explains only"
        f" {expected:.3g} ± {error:.2g}. {_question(annotations, right)}"
    )


def _question(annotations: PairAnswers, right: NDArray[np.bool_]) -> str:
    """Return what to check, by the answers that a partition contradicts."""
    is_must, weights = annotations.is_must, annotations.weights
    must, cannot = (float(weights[part].sum()) for part in (is_must, ~is_must))
    n_broken, n_merged = (float(weights[~right & part].sum()) for part in (is_must, ~is_must))
    if must and cannot:
        gap, share = 1.0 - n_broken / must - n_merged / cannot, (must - n_broken + n_merged) / (must + cannot)
        error = math.sqrt(share * (1.0 - share) * (1.0 / must + 1.0 / cannot))
        if gap < -CLEAR_DIRECTION * error:
            return "Are must and cannot the wrong way round?"
        # with wrong rows, pairs are together as often whatever their answers are
        if gap > CLEAR_DIRECTION * error:
            if n_merged > MOSTLY * (n_broken + n_merged):
                return (
                    f"{n_merged:.4g} of them are pairs that are apart by the answers and share a cluster:"
                    " are there more classes (-k, n_clusters)?"
                )
            if n_broken > MOSTLY * (n_broken + n_merged):
                return (
                    f"{n_broken:.4g} of them are pairs that belong together by the answers:"
                    " are there fewer classes (-k, n_clusters)?"
                )
            return "Are there other classes, or more wrong answers (--accuracy), than you think?"
    return (
        "Are the rows those meant (--first-row, first_row)? Are must and cannot the right way round? Is the"
        " number of clusters right?"
    )


def _on_contradictions(annotations: PairAnswers, n_clusters: int) -> Iterator[str]:
    """Say if too many pairs have both answers, or if more samples than clusters are all apart."""
    is_used = annotations.weights > 0.0
    is_must = annotations.is_must[is_used]
    accuracies = annotations.accuracies[is_used & ~annotations.is_hard]  # that of hard links is nobody's
    n_samples = int(annotations.pairs.max()) + 1
    pairs, place = np.unique(data.pair_numbers(annotations.pairs[is_used], n_samples), return_inverse=True)
    pairs = np.stack(np.divmod(pairs, n_samples), axis=1)
    n_must = np.bincount(place, is_must, len(pairs))
    n_all = np.bincount(place, minlength=len(pairs))
    repeats = n_all > 1
    has_both = repeats & (n_must > 0) & (n_must < n_all)
    accuracy = float(np.nanmean(accuracies)) if not np.isnan(accuracies).all() else math.nan
    if has_both.any() and not math.isnan(accuracy):
        # If no answer can be wrong, no pair is expected to have both.
        expected = float((1.0 - accuracy ** n_all[repeats] - (1.0 - accuracy) ** n_all[repeats]).sum())
        share = min(max(expected / int(repeats.sum()), 1e-12), 1.0)
        n_both, n_repeated = int(has_both.sum()), int(repeats.sum())
        if betainc(n_both, n_repeated - n_both + 1.0, share) <= UNLIKELY:
            yield (
                f"{n_both} of the {plural(n_repeated, 'pair')} that were annotated more than once have both"
                f" answers, and an accuracy of {accuracy:.3g} explains {expected:.2g}: see whether the"
                " accuracy is right, or leave it out to have it estimated"
            )
    cannot = pairs[n_must < n_all - n_must]
    must = pairs[n_must > n_all - n_must] if accuracy >= CERTAINTY else pairs[:0]
    clique = samples_apart(cannot, must, n_clusters)
    # With K classes, at least one answer of the clique is wrong for each sample more than K.
    excess = len(clique) - n_clusters
    if excess > 0 and (excess > 1 or accuracy >= CERTAINTY or len(clique) * (len(clique) - 1) >= len(pairs)):
        rows = ", ".join(map(str, clique))
        yield (
            f"{len(clique)} samples are all said to be apart from each other (positions {rows}, from 0),"
            f" which {plural(n_clusters, 'cluster')} cannot do: try {len(clique)} clusters or more, or see"
            " these answers again"
        )


def hard_clique(layers: Sequence[data.Layer]) -> list[int]:
    """Return the samples that `samples_apart` finds in hard links: as many clusters are needed at least."""
    cannot, must = (hard_pairs(layers, kind) for kind in (data.CANNOT, data.MUST))
    return samples_apart(cannot, must) if len(cannot) else []


def hard_groups(layers: Sequence[data.Layer], n_samples: int) -> int:
    """Return the number of groups that hard must-links leave: as many clusters are possible at most."""
    return int(must_components(n_samples, hard_pairs(layers, data.MUST)).max()) + 1


def samples_apart(cannot: NDArray[np.integer], must: NDArray[np.integer], n_least: int = 0) -> list[int]:
    """Return a large set of more than `n_least` samples that are all apart, in ascending order.

    It is the largest that a greedy search by degree from each sample finds. Samples that must-links join
    count as one, the first of them.
    """
    n_samples = int(max(cannot.max(initial=-1), must.max(initial=-1))) + 1
    _, first, group = np.unique(must_components(n_samples, must), return_index=True, return_inverse=True)
    ends = first[group][cannot]
    ends = ends[ends[:, 0] != ends[:, 1]]
    ends = np.concatenate([ends, ends[:, ::-1]])
    for _ in range(MOST_PEELS):
        is_possible = (np.bincount(ends[:, 0], minlength=n_samples) >= n_least)[ends].all(axis=1)
        if is_possible.all():
            break
        ends = ends[is_possible]
    graph = csr_array((np.ones(len(ends), bool), tuple(ends.T)), (n_samples, n_samples))
    graph.sum_duplicates()
    degrees = np.diff(graph.indptr)
    largest: list[int] = []
    n_looks = 0
    for sample in np.argsort(-degrees, kind="stable"):
        if degrees[sample] < max(1, len(largest)) or n_looks > MOST_LOOKS:
            break
        neighbours = graph.indices[graph.indptr[sample] : graph.indptr[sample + 1]]
        n_looks += START_LOOKS + int(degrees[neighbours].sum())
        subgraph = submatrix(graph, neighbours)
        members = [int(sample)]
        while len(neighbours) and len(members) + len(neighbours) > len(largest):
            best = int(np.argmax(np.diff(subgraph.indptr)))
            places = np.sort(subgraph.indices[subgraph.indptr[best] : subgraph.indptr[best + 1]])
            members.append(int(neighbours[best]))
            neighbours, subgraph = neighbours[places], subgraph[places][:, places]
        largest = members if len(members) > len(largest) else largest
    return sorted(largest)


def submatrix(graph: csr_array, samples: NDArray[np.integer]) -> csr_array:
    """Return rows and columns of some samples in ascending order, without a pass over all samples."""
    rows = graph[samples]
    places = np.minimum(np.searchsorted(samples, rows.indices), len(samples) - 1)
    is_inside = samples[places] == rows.indices
    starts = np.append(0, np.cumsum(is_inside))[rows.indptr]
    return csr_array((rows.data[is_inside], places[is_inside], starts), (len(samples), len(samples)))
