"""What should not pass in silence: a fit that may be nonsense, and what to do about it.

Each alarm is a sentence from numbers that a fit has anyway: what was found, and what to try. `alarms_of`
gives those of a fit; the command shows them, the estimator warns with them, and both keep them as notes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import betainc

from sweep_clustering.kernels.choice.held_out import COIN, LEAST_PAIRS, HeldOut, bar_of
from sweep_clustering.kernels.fits import Fit
from sweep_clustering.kernels.problem.data import (
    MUST,
    Layer,
    agrees,
    layer_weights,
    pair_accuracies,
    pair_numbers,
)
from sweep_clustering.pipeline.common import SAME_OPTIMUM, plural

Floats = NDArray[np.float64]

# Fewer samples are a handful.
HANDFUL = 5

# Chance of so many contradictions, if accuracies are as told, up to which it is said.
UNLIKELY = 1e-3

# Standard errors that agreement must be above chance, and what is enough where these are large.
CLEAR, ENOUGH = 2.0, 0.1

# Differences of log losses that are rounding.
ROUNDING = 1e-12

# Standard errors that predictions must be ahead of the bar: one of many candidates is, by chance.
BARELY = 3.0

# Neighbours of neighbours that a search for samples that are all apart looks at: some seconds. To look from a
# sample at all takes as long as so many.
LOOKED, LOOK = 10_000_000, 1_000

# Times that samples of too few partners are left out there; each leaves others with too few.
PEELED = 50

# Partitions of restarts that share less than this, adjusted for chance, are different ones.
SAME = 0.9

# Of restarts that say something about each other; largest standard deviation over the smallest that one
# variance for all features can be meant for; share of rows that repeat one row.
LEAST_RESTARTS, WIDEST, REPEATED = 3, 1e3, 0.05

# Accuracies from here on leave no room for a wrong answer.
SURE = 0.999


def alarms_of(
    X: Floats,
    layers: Sequence[Layer],
    labels: NDArray[np.integer],
    n_clusters: int,
    names: Sequence[str] = (),
) -> Iterator[str]:
    """Alarms on features, annotations and the partition.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotations.
    labels : ndarray of shape (n_samples,)
        The partition.
    n_clusters : int
        K.
    names : sequence of str
        Of the features.

    Yields
    ------
    str
        A sentence; none for most fits.
    """
    yield from _on_features(X, names)
    sizes = np.bincount(labels, minlength=n_clusters)
    if len(small := np.flatnonzero(sizes < HANDFUL)) and len(labels) >= 2 * HANDFUL * n_clusters:
        which = ", ".join(f"{k} ({sizes[k]})" for k in small.tolist())
        yield (
            f"clusters of a handful of samples: {which}. See whether these rows are outliers or mistakes, or"
            f" try fewer clusters than {n_clusters}"
        )
    if annotated := Annotated.of(layers):
        yield from _on_agreement(annotated, labels)
        yield from _on_contradictions(annotated, n_clusters)


def restart_alarm(fits: Sequence[Fit], best: int) -> Iterator[str]:
    """Say where the best of all restarts is alone.

    Parameters
    ----------
    fits : sequence of Fit
        All restarts.
    best : int
        Which is the best.
    """
    as_good = sum(fit.objective >= fits[best].objective - SAME_OPTIMUM for fit in fits)
    if as_good > 1 or len(fits) < LEAST_RESTARTS:
        return
    from sweep_clustering.kernels.scores import adjusted_rand

    near = [adjusted_rand(fits[best].labels, fit.labels) >= SAME for fit in fits]
    if sum(near) == 1:
        yield (
            f"only one of {len(fits)} restarts found the best solution, and the others found other"
            " clusters: a better one may be left to find, try more restarts (--restarts, restarts)"
        )


def skill_alarm(found: HeldOut | None, base: HeldOut | None) -> Iterator[str]:
    """Whether held-out annotations are predicted better by so little that trying many structures explains it.

    Parameters
    ----------
    found : HeldOut or None
        Predictions by what was chosen.
    base : HeldOut or None
        By how often annotations are must-links.
    """
    if found is None or base is None:
        return
    bar = bar_of(base)
    gain, error = found.gain_over(bar.predictions)
    share = max(base.share_right, 1.0 - base.share_right)
    count = float(base.weights.sum() ** 2 / np.square(base.weights).sum())
    ahead = found.share_right - share > BARELY * math.sqrt(share * (1.0 - share) / count)
    if gain <= BARELY * error and not ahead:  # of few annotations the error of the gain says little
        yield (
            f"held-out annotations are predicted barely better than by {bar.words} (log loss"
            f" {found.log_loss:.3f} against {bar.predictions.log_loss:.3f}), which may be chance: see whether"
            " rows and kinds are those meant, or annotate more pairs"
        )


def _on_features(X: Floats, names: Sequence[str]) -> Iterator[str]:
    def name(column: int) -> str:
        return repr(names[column]) if len(names) == X.shape[1] else f"{column} (counted from 0)"

    steps = np.diff(X, axis=0)
    if len(X) > 2 * HANDFUL:
        even = (steps[0] != 0.0) & (np.abs(steps - steps[0]) <= 1e-9 * np.abs(steps[0])).all(axis=0)
        for column in np.flatnonzero(even).tolist():
            yield (
                f"feature {name(column)} counts the rows: it says where a row stands and not what it is,"
                " leave it out (--drop)"
            )
    deviations = X.std(axis=0)
    used = np.flatnonzero(deviations > 0.0)
    least, most = (int(used[pick(deviations[used])]) for pick in (np.argmin, np.argmax))
    if deviations[most] > WIDEST * deviations[least]:
        yield (
            f"features differ in scale: the standard deviation of feature {name(least)} is"
            f" {deviations[least]:.2g}, that of feature {name(most)} {deviations[most]:.2g}, which may"
            " outweigh all others: scale them (--scale standard or auto)"
        )
    _, counts = np.unique(X, axis=0, return_counts=True)
    if counts.max() >= max(HANDFUL, REPEATED * len(X)) and len(counts) > 0.5 * len(X):
        yield (
            f"one row comes {counts.max()} times among {len(X)}: a cluster of its copies may be found in"
            " place of a class, see whether they stand for missing values, or keep one of each"
        )


class Annotated:
    """Annotations of all layers, those of a sample with itself left out.

    Parameters
    ----------
    layers : sequence of Layer
        One or more.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = layers
        self.pairs = np.concatenate([layer.pairs for layer in layers])
        is_must = [np.full(len(layer.pairs), layer.kind == MUST) for layer in layers]
        self.is_must = np.concatenate(is_must)
        self.told = np.concatenate([pair_accuracies(layer) for layer in layers])
        own = self.pairs[:, 0] != self.pairs[:, 1]
        self.weights = np.concatenate([layer_weights(layer) for layer in layers]) * own

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> Annotated | None:
        """None where there are no annotations of two samples."""
        found = cls(layers) if layers else None
        return found if found is not None and found.weights.sum() > 0.0 else None

    def right(self, labels: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of them agree with a partition."""
        return np.concatenate([agrees(layer, labels) for layer in self.layers])

    @property
    def must_share(self) -> float:
        """Share of them that are must-links."""
        return float(self.weights @ self.is_must) / self.total

    @property
    def total(self) -> float:
        """Annotations that they stand for."""
        return float(self.weights.sum())

    @property
    def count(self) -> float:
        """So many annotations of one weight tell as much."""
        return self.total**2 / float(self.weights @ self.weights)


def _on_agreement(annotated: Annotated, labels: NDArray[np.integer]) -> Iterator[str]:
    """Agreement near chance, or far below what the accuracy explains."""
    right = annotated.right(labels)
    agreement = float(annotated.weights @ right) / annotated.total
    shares = np.bincount(labels) / len(labels)
    together, must = float(shares @ shares), annotated.must_share
    chance = must * together + (1.0 - must) * (1.0 - together)
    error = math.sqrt(chance * (1.0 - chance) / annotated.count)
    if annotated.count >= LEAST_PAIRS and agreement <= chance + min(CLEAR * error, ENOUGH):
        yield (
            f"the clusters agree with {agreement:.1%} of the annotations, no better than chance: clusters of"
            f" these sizes at random would with {chance:.1%}. Are your rows numbered from 0 (--first-row 0)?"
            " Are must and cannot the right way round? Is the number of clusters?"
        )
        return
    yield from contradictions(annotated, right)


def predicted_words(found: HeldOut, base: HeldOut | None) -> str:
    """How well a fit predicts held-out annotations, where it does so better than without looking at the rows.

    Parameters
    ----------
    found : HeldOut
        Predictions of the fit.
    base : HeldOut or None
        By how often annotations are must-links; None to compare with a coin.
    """
    loss = f"log loss {found.log_loss:.4f} nats"
    (gain, error), other = (COIN - found.log_loss, 0.0), "a coin"
    if base is not None:
        bar, other = bar_of(base)
        gain, error = found.gain_over(bar)
    if gain <= CLEAR * error + ROUNDING:
        return f"held-out annotations no better than {other}, {loss}"
    return f"{found.share_right:.0%} of held-out annotations, {loss}"


def contradictions(annotated: Annotated, right: NDArray[np.bool_]) -> Iterator[str]:
    """Say where more annotations are contradicted than their accuracies explain; a guess, where none is told.

    Parameters
    ----------
    annotated : Annotated
        Those that the model does not see too.
    right : ndarray of shape (n_annotations,)
        Which of them agree with the solution.

    Yields
    ------
    str
        One sentence, or none.
    """
    told, weights, total = annotated.told, annotated.weights, annotated.total
    wrong = 1.0 - np.where(np.isnan(told), 0.5, told)
    contradicted, expected = float(weights[~right].sum()), float(weights @ wrong)
    # As many annotations of one weight and one accuracy as tell as much: the chance that so many are wrong.
    count = annotated.count
    beyond = count * contradicted / total if contradicted else 0.0
    if not beyond or betainc(beyond, count - beyond + 1.0, expected / total) > UNLIKELY:
        return
    error = float(np.sqrt(np.square(weights) @ (wrong * (1.0 - wrong))))
    explains = "guessing" if np.isnan(told).all() else "their accuracy"
    yield (
        f"the clusters contradict {contradicted:.4g} of {total:.4g} annotations, but {explains} explains only"
        f" {expected:.3g} ± {error:.2g}. Check the numbering of the samples, the kinds of the links, and K"
    )


def _on_contradictions(annotated: Annotated, n_clusters: int) -> Iterator[str]:
    """Pairs that were answered in both ways, and samples that are all apart from each other."""
    used = annotated.weights > 0.0
    is_must, told = annotated.is_must[used], annotated.told[used]
    n_samples = int(annotated.pairs.max()) + 1
    pairs, place = np.unique(pair_numbers(annotated.pairs[used], n_samples), return_inverse=True)
    pairs = np.stack(np.divmod(pairs, n_samples), axis=1)
    n_must = np.bincount(place, is_must, len(pairs))
    n_all = np.bincount(place, minlength=len(pairs))
    twice = n_all > 1
    both = twice & (n_must > 0) & (n_must < n_all)
    accuracy = float(np.nanmean(told)) if not np.isnan(told).all() else math.nan
    if both.any() and not math.isnan(accuracy):
        # of answers that are right as often as told; without room for error no pair has both
        expected = float((1.0 - accuracy ** n_all[twice] - (1.0 - accuracy) ** n_all[twice]).sum())
        share = min(max(expected / int(twice.sum()), 1e-12), 1.0)
        n_both, n_twice = int(both.sum()), int(twice.sum())
        if betainc(n_both, n_twice - n_both + 1.0, share) <= UNLIKELY:
            yield (
                f"{n_both} of the {plural(n_twice, 'pair')} that were annotated more than once have both"
                f" answers, and an accuracy of {accuracy:.3g} explains {expected:.2g}: see whether the"
                " accuracy is right, or leave it out to have it estimated"
            )
    cannot = pairs[n_must < n_all - n_must]
    clique = _clique(cannot, pairs[n_must > n_all - n_must] if accuracy >= SURE else pairs[:0], n_clusters)
    # fewer wrong answers than these cannot make them all apart, where there are K classes
    needed = _least_together(len(clique), n_clusters)
    if needed and (needed > 1 or accuracy >= SURE or len(clique) * (len(clique) - 1) >= len(pairs)):
        rows = ", ".join(map(str, clique))
        yield (
            f"{len(clique)} samples are all said to be apart from each other (positions {rows}, from 0),"
            f" which {plural(n_clusters, 'cluster')} cannot do: try {len(clique)} clusters or more, or see"
            " these answers again"
        )


def _clique(cannot: NDArray[np.integer], must: NDArray[np.integer], least: int = 0) -> list[int]:
    """Samples that are all apart from each other: a large set of them, found from each sample on by degree.

    Parameters
    ----------
    cannot, must : ndarray of shape (n_pairs, 2)
        Pairs that are apart; pairs that count as one sample.
    least : int
        Partners that each must have, so that sets of so many or fewer are not looked for.

    Returns
    -------
    list of int
        In ascending order; the first sample stands for all that are joined with it.
    """
    n_samples = int(max(cannot.max(initial=-1), must.max(initial=-1))) + 1
    joined = coo_array((np.ones(len(must)), tuple(must.T)), (n_samples, n_samples))
    _, first, group = np.unique(
        connected_components(joined, directed=False)[1], return_index=True, return_inverse=True
    )
    ends = first[group][cannot]
    ends = ends[ends[:, 0] != ends[:, 1]]
    ends = np.concatenate([ends, ends[:, ::-1]])
    for _ in range(PEELED):
        kept = (np.bincount(ends[:, 0], minlength=n_samples) >= least)[ends].all(axis=1)
        if kept.all():
            break
        ends = ends[kept]
    apart = csr_array((np.ones(len(ends), bool), tuple(ends.T)), (n_samples, n_samples))
    apart.sum_duplicates()
    degrees = np.diff(apart.indptr)
    largest: list[int] = []
    looked = 0
    for sample in np.argsort(-degrees, kind="stable"):
        if degrees[sample] < max(1, len(largest)) or looked > LOOKED:
            break
        near = apart.indices[apart.indptr[sample] : apart.indptr[sample + 1]]
        looked += LOOK + int(degrees[near].sum())
        within = _among(apart, near)
        members = [int(sample)]
        while len(near) and len(members) + len(near) > len(largest):
            taken = int(np.argmax(np.diff(within.indptr)))
            left = np.sort(within.indices[within.indptr[taken] : within.indptr[taken + 1]])
            members.append(int(near[taken]))
            near, within = near[left], within[left][:, left]
        largest = members if len(members) > len(largest) else largest
    return sorted(largest)


def _among(apart: csr_array, near: NDArray[np.integer]) -> csr_array:
    """Rows and columns of some samples, in ascending order, without a pass over all samples."""
    rows = apart[near]
    places = np.minimum(np.searchsorted(near, rows.indices), len(near) - 1)
    inside = near[places] == rows.indices
    starts = np.append(0, np.cumsum(inside))[rows.indptr]
    return csr_array((rows.data[inside], places[inside], starts), (len(near), len(near)))


def _least_together(count: int, n_clusters: int) -> int:
    """Pairs of so many samples that are together at least, in K clusters."""
    each, over = divmod(count, n_clusters)
    return n_clusters * (each * (each - 1) // 2) + over * each
