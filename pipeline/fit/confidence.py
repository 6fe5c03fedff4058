"""Confidence in a solution: in its labels, by shares of draws, and in its annotators.

`find_confidence` draws partitions (docs/model.md, sections 9 and 12). `estimate` gives two accuracies for
each annotator, from which follow their intervals and `below_chance`; `judge_unsure` says who was unsure.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray
from scipy.special import betaincinv

from sweep_clustering.kernels.fits import Fit, Floats
from sweep_clustering.kernels.problem import data
from sweep_clustering.kernels.solver.contract import Effort, Solver
from sweep_clustering.kernels.solver.prepare import CHAINS
from sweep_clustering.kernels.unions.race import joint_shares
from sweep_clustering.pipeline.common import plural
from sweep_clustering.sweeps.annotations.rows import AnnotationRows

EFFORT = Effort(n_draws=1000, burn_in=250, thin=4)

# Largest number of labels in all draws, 200 MB: with more than 100,000 samples there are fewer draws.
LARGEST = 10**8

# First place of the spawn keys of draws; those of restarts have one place only.
STREAM = 1

# A larger R-hat gives a note that chains disagree.
LARGEST_R_HAT = 1.1

# A smaller agreement gives the same note; good chains of 10,000 samples come near it.
LEAST_AGREEMENT = 0.5

# Labels of less confidence are counted as unsure.
UNSURE = 0.9

# Share of the posterior distribution that an interval leaves out on each side.
TAIL = 0.025

# Number of standard errors by which one annotator is clearly below chance.
CLEAR = 2.0

# Annotators that a line names.
MOST_NAMED = 5


@dataclass(frozen=True, eq=False)
class Confidence:
    """Partitions drawn with probability proportional to exp(objective), and the confidence by them.

    The parameters are at their best for each partition, not integrated over.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,), int16
        Labels of the solution.
    label_draws : ndarray of shape (n_draws, n_samples), int16
        Partitions, chain after chain; their clusters are numbered to share as many labels as possible with
        the solution.
    membership : ndarray of shape (n_samples, n_clusters)
        Share of the draws in which a sample is in a cluster; rows add up to 1.
    r_hat : float
        Split R-hat of the objective or of the agreement with the solution, whichever is larger: near 1 if
        chains agree, infinite if none of them moves and they differ.
    chain_agreement : float
        1 less the largest difference between the memberships of two chains.
    starts : int
        Number of distinct restarts that the chains started from.
    seconds : float
        Elapsed time of the chains, compilation of kernels included.
    """

    labels: NDArray[np.int16]
    label_draws: NDArray[np.int16]
    membership: Floats
    r_hat: float
    chain_agreement: float
    starts: int
    seconds: float

    @property
    def confidence(self) -> Floats:
        """Membership of each sample in the cluster of its label, as an array of shape (n_samples,)."""
        return self.membership[np.arange(len(self.labels)), self.labels]

    @property
    def expected_accuracy(self) -> float:
        """Mean confidence, the share of labels that is right if the model is."""
        return float(self.confidence.mean())

    def to_json(self) -> dict[str, Any]:
        """Return arrays and values that strict JSON can hold."""
        names = ("membership", "confidence", "expected_accuracy", "r_hat", "chain_agreement")
        values = {name: getattr(self, name) for name in names}
        return values | {"r_hat": self.r_hat if np.isfinite(self.r_hat) else None}

    @property
    def words(self) -> str:
        """The share of labels that is expected right, and the number of unsure ones."""
        unsure = f"{int((self.confidence < UNSURE).sum())} below {UNSURE:g}"
        return f"{self.expected_accuracy:.3f} of the labels expected right, if the model is; {unsure}"

    def lines(self) -> list[str]:
        """Return two lines for people."""
        agree = f"R-hat {self.r_hat:.3f}, agreement {self.chain_agreement:.3f}, {self.seconds:.3f} s"
        starts = plural(self.starts, "distinct restart")
        return [f"confidence {self.words}", f"chains     {CHAINS} from {starts}, {agree}"]

    def notes(self) -> Iterator[str]:
        """Say if chains disagree."""
        if self.r_hat > LARGEST_R_HAT or self.chain_agreement < LEAST_AGREEMENT:
            yield (
                f"chains disagree: R-hat {self.r_hat:.3g}, and memberships differ by up to"
                f" {1 - self.chain_agreement:.2g}; the confidence depends on where chains start"
            )


def find_confidence(solver: Solver, fits: Sequence[Fit], best: int, seed: int) -> Confidence:
    """Draw partitions around the best of the fits of a solver, and return the confidence in its labels.

    Chain c draws from `SeedSequence(seed, spawn_key=(1, c))`, and starts from the best fit, the next distinct
    one, and so on in turn.
    """
    start, labels, clusters = time.perf_counter(), fits[best].labels, range(solver.n_clusters)
    effort = EFFORT._replace(n_draws=min(EFFORT.n_draws, LARGEST // len(labels)))
    draws = solver.draws(fits, best, SeedSequence(seed, spawn_key=(STREAM,)), effort)
    r_hat, agreement, membership = 1.0, 1.0, draws.membership
    if membership is None:
        shares = np.array(
            [np.stack([(chain == k).mean(axis=0) for k in clusters], axis=1) for chain in draws.labels]
        )
        membership, agreement = shares.mean(axis=0), 1.0 - float(np.ptp(shares, axis=0).max())
    if draws.objectives is not None:
        agreements = (draws.labels == labels).mean(axis=2)
        r_hat = max(split_r_hat(draws.objectives), split_r_hat(agreements))
    return Confidence(
        labels=labels,
        label_draws=np.concatenate(draws.labels),
        membership=membership,
        r_hat=r_hat,
        chain_agreement=agreement,
        starts=draws.starts,
        seconds=time.perf_counter() - start,
    )


def split_r_hat(values: Floats) -> float:
    """Return Gelman and Rubin's R-hat of values by chain and draw, with each chain cut into halves.

    It is 1 if all values are the same, and infinite if they differ between halves alone. An odd draw in the
    middle is left out.
    """
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    # Differences by rounding, such as those of one objective computed along two paths, do not count.
    rounding = 1e-9 * (1.0 + float(np.abs(values).max()))
    variance_within = float(halves.var(axis=1, ddof=min(1, half - 1)).mean())
    variance_between = float(halves.mean(axis=1).var(ddof=1))
    if variance_within <= rounding**2:
        return 1.0 if variance_between <= rounding**2 else np.inf
    return float(np.sqrt((half - 1) / half + variance_between / variance_within))


def estimate(layers: Sequence[data.Layer], fit: Fit) -> data.Estimates:
    """Estimate the accuracies of annotators that were not given, from the shares of the classes or labels."""
    columns, gaussians = [], fit.gaussians
    for layer in layers:
        pairs = np.asarray(layer.pairs, np.int64).reshape(-1, 2)
        is_used = (pairs[:, 0] != pairs[:, 1]) & np.isnan(data.pair_accuracies(layer))
        i, j = pairs[is_used].T
        shares = 1.0 * (fit.labels[i] == fit.labels[j])
        if gaussians is not None and len(gaussians.classes):
            shares = joint_shares(gaussians, pairs[is_used])
        is_must = np.full(len(i), layer.kind == data.MUST)
        weights = data.layer_weights(layer)[is_used]
        columns.append((np.full(len(i), layer.annotator), is_must, weights, shares))
    parts = columns or [(np.empty(0, np.int64), np.empty(0, bool), np.empty(0), np.empty(0))]
    annotators, is_must, weights, shares = map(np.concatenate, zip(*parts, strict=True))
    return data.estimate_accuracies(annotators, is_must, weights, shares)


def estimates_json(estimates: data.Estimates, names: Sequence[str]) -> dict[str, dict[str, object]]:
    """Return by name the two accuracies with intervals of 95 %, and whether the annotator is below chance."""
    means = estimates.right / (estimates.right + estimates.wrong)
    bounds = betaincinv(estimates.right[..., None], estimates.wrong[..., None], (TAIL, 1.0 - TAIL))
    return {
        names[annotator]: {
            side: {"accuracy": float(means[row, column]), "interval": bounds[row, column].tolist()}
            for column, side in enumerate(("together", "apart"))
        }
        | {"below_chance": bool(means[row].sum() < 1.0)}
        for row, annotator in enumerate(estimates.annotators.tolist())
    }


def below_chance(estimates: data.Estimates, names: Sequence[str], fit: Fit) -> tuple[list[str], list[str]]:
    """Return warnings of annotators who are clearly right less often than by chance, and notes on others.

    A soft fit to annotations uses answers below chance in reverse if there are other annotators.
    """
    is_used = fit.gaussians is not None and fit.gaussians.structure.annotated
    accuracies = fit.gaussians.accuracies if is_used and fit.gaussians is not None else {}
    count, annotators = estimates.right + estimates.wrong, estimates.annotators.tolist()
    means = estimates.right / count
    errors = np.sqrt((means * (1.0 - means) / (count + 1.0)).sum(axis=1))
    # more clearly than the worst of so many would be by chance
    n_errors = math.sqrt(CLEAR**2 + 2.0 * math.log(max(1, len(means))))
    is_clear = means.sum(axis=1) + n_errors * errors < 1.0
    is_reversed = np.array([sum(accuracies.get(number, (0.5, 0.5))) < 1.0 for number in annotators], bool)

    def words(is_meant: NDArray[np.bool_], text: str) -> list[str]:
        rows = np.flatnonzero(is_meant)
        rows = rows[np.argsort(means[rows].sum(axis=1), kind="stable")]
        parts = [
            f"{names[annotators[row]]} (right for {means[row, 0]:.2f} of pairs that belong together,"
            f" {means[row, 1]:.2f} of others)"
            for row in rows[:MOST_NAMED].tolist()
        ]
        tail = f", and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
        return [text.format(", ".join(parts) + tail)] if parts else []

    exchanged = "must-links and cannot-links seem to be exchanged by {}: "
    return (
        words(is_clear & is_reversed, exchanged + "these answers are used in reverse")
        + words(is_clear & ~is_reversed, exchanged + "this fit uses no answers in reverse, exchange them"),
        words(is_reversed & ~is_clear, "right less often than by chance, and used in reverse: {}"),
    )


def judge_unsure(
    tables: Sequence[AnnotationRows], name: Callable[[int], object]
) -> tuple[dict[str, Any], list[str]]:
    """Count answers of annotators who were unsure, by annotator and by pair: as values, and in a line."""
    rows = AnnotationRows.join(tables).skips
    columns, names = rows.columns, rows.annotators
    ends = np.sort(np.column_stack([columns["first"], columns["second"]]), axis=1)
    pairs, place = np.unique(ends, axis=0, return_inverse=True)
    by_pair = np.bincount(place.ravel(), columns["count"])
    by_annotator = np.bincount(columns["annotator"], columns["count"], len(names))
    counts = {name: count for name, count in zip(names, by_annotator.tolist(), strict=True) if count}
    pair_counts = [
        {"i": name(i), "j": name(j), "count": count}
        for (i, j), count in zip(pairs.tolist(), by_pair.tolist(), strict=True)
    ]
    order = sorted(counts, key=lambda name: -counts[name])
    words = ", ".join(f"{name} {counts[name]:.12g}" for name in order[:MOST_NAMED])
    tail = f", and {plural(len(order) - MOST_NAMED, 'more annotator')}" if len(order) > MOST_NAMED else ""
    answers = "1 answer" if by_pair.sum() == 1.0 else f"{by_pair.sum():.12g} answers"
    line = f"unsure     {answers} about {plural(len(pairs), 'pair')}, left out: {words}{tail}"
    return {"annotators": counts, "pairs": pair_counts}, [line] if pair_counts else []
