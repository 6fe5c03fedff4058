"""Belief about the labels given features and answers: draws of partitions (docs/model.md, section 9).

`believe` fits and draws. Its `Belief` tells strategies how likely pairs belong together, and `share_at` how
many labels are right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from sweep_clustering.kernels.choice import child_seed, some_rows
from sweep_clustering.kernels.fits import Runner
from sweep_clustering.kernels.problem.data import MUST, Layer
from sweep_clustering.kernels.settings import Settings, settings_of
from sweep_clustering.kernels.solver.contract import Choice, Effort, Model
from sweep_clustering.kernels.solver.prepare import prepare
from sweep_clustering.kernels.structure import ANY, AUTO, GROUPS, LINEAR, LINKAGES, MANY_CLASSES, OF_ROWS
from sweep_clustering.pipeline.common import best_of

# Settings of the search and of the objective of the model that asks, if there are no others.
ASKING = settings_of({"method": "strong", "feature_weight": "effective", "proportions": "free"})

# Annotation term of the model that asks: no other one ignores how pairs were chosen.
MODEL = "conditional"

# Numbers of draws, and of the fits that are the draws for classes of any shape.
EFFORT = Effort(n_draws=200, burn_in=50, thin=2, members=40)

# Number of these fits for many classes, whose questions do not depend on draws.
MEMBERS_OF_MANY = 5

# An unknown accuracy is estimated as if there had been `PRIOR_ANSWERS` answers of this accuracy before.
ASSUMED_ACCURACY = 0.9
PRIOR_ANSWERS = 10.0

# Largest number of rows that a choice is made from: a shape takes twenty short searches.
MOST_ROWS = 2_000

# Least estimate of an accuracy: answers that are worse than guesses would be taken for their opposite.
LEAST_ACCURACY = 0.5


class Lines(NamedTuple):
    """Intercept and slope of the log-odds that a label is wrong, on the log-odds that draws claim.

    For the mean, and for the ends of an interval that held the share in nine cases of ten.
    """

    mean: tuple[float, float]
    low: tuple[float, float]
    high: tuple[float, float]


# Measured on 624 beliefs along 48 paths of questions, on six real data sets and mixtures, which no reported
# figure uses.
OF_CHAINS = Lines((0.47, 0.76), (1.25, 0.63), (-0.49, 1.06))

# For classes of any shape, measured on 318 beliefs along 37 paths on fifteen data sets.
OF_FITS = Lines((0.0, 1.0), (1.97, 1.38), (-0.56, 1.70))


@dataclass(frozen=True, eq=False)
class Belief:
    """Partitions drawn with probability proportional to exp(objective), given features and answers.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    labels : ndarray of shape (n_samples,), int16
        Solution of the model.
    draws : ndarray of shape (n_draws, n_samples), int16
        Partitions, numbered to share as many labels as possible with the solution.
    n_clusters : int
        Number of clusters.
    accuracy : float
        Probability that an answer is right, which may be an estimate.
    covariance : str
        Shape of the covariances, or structure of classes of any shape.
    lines : Lines
        Correction of `claimed_wrong`.
    Z : ndarray of shape (n_samples, n_dims), or None
        Coordinates in which the clusters were found; None if these are the features.
    has_many_classes : bool
        Whether classes are so many that questions are about pairs of parts of clusters, and not about draws.
    has_open_count : bool
        Whether the number of clusters was chosen, and may be wrong.
    """

    X: NDArray[np.float64]
    labels: NDArray[np.int16]
    draws: NDArray[np.int16]
    n_clusters: int
    accuracy: float
    covariance: str
    lines: Lines = OF_CHAINS
    Z: NDArray[np.float64] | None = None
    has_many_classes: bool = False
    has_open_count: bool = False

    @property
    def membership(self) -> NDArray[np.float64]:
        """Share of the draws with a sample in a cluster, as an array of shape (n_samples, n_clusters)."""
        return np.stack([(self.draws == k).mean(axis=0) for k in range(self.n_clusters)], axis=1)

    @property
    def claimed_wrong(self) -> float:
        """Share of the labels of the draws that differ from the solution."""
        return float((self.draws != self.labels).mean())

    @property
    def has_random_questions(self) -> bool:
        """Whether some questions are about random pairs, because doubtful ones leave a number open."""
        return self.has_open_count and not self.has_many_classes

    def share_together(self, pairs: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the probability that the samples of a pair belong together, never quite 0 or 1."""
        return np.asarray((self.is_together(pairs).sum(axis=0) + 0.5) / (len(self.draws) + 1.0))

    def is_together(self, pairs: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether a draw has the samples of a pair together, as an array of shape (n_draws, n_pairs)."""
        return np.asarray(self.draws[:, pairs[:, 0]] == self.draws[:, pairs[:, 1]])


def believe(
    X: NDArray[np.float64],
    layers: Sequence[Layer],
    *,
    n_clusters: int,
    accuracy: float | None,
    seed: np.random.SeedSequence,
    covariance: str = AUTO,
    restarts: int = 3,
    settings: Settings = ASKING,
    start: NDArray[np.int16] | None = None,
    most_tried: int | None = None,
    run: Runner = map,
) -> Belief:
    """Fit the conditional model to the answers so far, and draw partitions around its solutions.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Answers so far; none is a cold start.
    n_clusters : int
        Number of clusters.
    accuracy : float or None
        Probability that an answer is right; None estimates it from the answers that agree with the solution.
    seed : numpy.random.SeedSequence
        Seed of all random streams. The object is not modified.
    covariance : str
        Shape of the covariances; "auto" is the one that predicts held-out answers best, "any" that with
        components and subspace, "groups" that with merged groups among the candidates.
    restarts : int
        Number of fits.
    settings : Settings
        Settings of the search and of the objective.
    start : ndarray of shape (n_samples,), int16, optional
        Earlier solution, from which the first restart begins.
    most_tried : int, optional
        Most clusters that were tried, if their number was chosen: if these were the best, there may be more.
    run : callable
        Function like `map`; fits of classes of any shape may run at once.

    Raises
    ------
    ValueError
        If the problem admits no solution.
    """
    model, seeds = Model.from_name(model_for(layers), covariance, settings), partial(child_seed, seed)
    solver = prepare(model, X, layers, n_clusters, seeds(0), run=run)
    solver.warm_up()
    part = some_rows(X, layers, MOST_ROWS, np.random.default_rng(seeds(6)))
    choice = solver.solve([seeds(1, number) for number in range(restarts)], part=part, start=start)
    best = best_of([fit.objective for fit in choice.fits])
    solution = choice.fits[best]
    is_many = model.has_groups and has_many_classes(
        choice, n_clusters, len(X), is_least=n_clusters == most_tried
    )
    effort = EFFORT._replace(members=MEMBERS_OF_MANY) if is_many else EFFORT
    draws = solver.draws([solution], 0, seeds(2), effort)
    partitions = np.concatenate(draws.labels)
    if not draws.is_numbered:
        partitions = np.array([_numbered(labels, solution.labels, n_clusters) for labels in partitions])
    return Belief(
        X=X,
        labels=solution.labels,
        draws=partitions,
        n_clusters=n_clusters,
        accuracy=_accuracy(layers, solution.labels, accuracy),
        covariance=choice.name,
        lines=OF_CHAINS if solution.gaussians is None else OF_FITS,
        Z=None if solution.gaussians is None else solution.gaussians.place(X),
        has_many_classes=is_many,
        has_open_count=most_tried is not None,
    )


def shape_to_ask(covariance: str) -> str:
    """Return the shape for a model that asks: merged groups are compared with classes of any shape."""
    return GROUPS if covariance == ANY else covariance


def has_many_classes(choice: Choice, n_clusters: int, n_samples: int, is_least: bool) -> bool:
    """Whether answers speak for merged groups, or for nothing yet and classes may be many."""
    # As many uniform answers as samples have less than one must-link for each class if K² exceeds these.
    if choice.has_no_skill or choice.name not in choice.candidates:
        return n_clusters**2 > n_samples or is_least
    is_linear = choice.covariance == LINEAR and n_clusters > MANY_CLASSES
    return is_linear or choice.covariance in (*LINKAGES, *OF_ROWS)


def _numbered(labels: NDArray[np.int16], solution: NDArray[np.int16], n_clusters: int) -> NDArray[np.int16]:
    """Number the clusters of a partition so that it shares as many labels as possible with the solution."""
    overlap = np.zeros((n_clusters, n_clusters))
    np.add.at(overlap, (labels, solution), 1.0)
    return np.asarray(linear_sum_assignment(overlap, maximize=True)[1].astype(np.int16)[labels])


def _accuracy(layers: Sequence[Layer], labels: NDArray[np.int16], accuracy: float | None) -> float:
    """Return the accuracy, or an estimate by the answers that agree with the labels."""
    if accuracy is not None:
        return accuracy
    right, total = ASSUMED_ACCURACY * PRIOR_ANSWERS, PRIOR_ANSWERS
    for layer in [layer for layer in layers if not layer.is_hard]:
        is_together = labels[layer.pairs[:, 0]] == labels[layer.pairs[:, 1]]
        right += float((is_together == (layer.kind == MUST)).sum())
        total += len(layer.pairs)
    return max(right / total, LEAST_ACCURACY)


def model_for(layers: Sequence[Layer]) -> str:
    """Return the model for some answers, or the one for features alone if there are none."""
    return MODEL if any(len(layer.pairs) for layer in layers) else "unsupervised"


# The share of labels that are right: the claim of the draws, corrected by measurements.

ROUNDING = 1e-9


class Share(NamedTuple):
    """Expected share of the labels that are right, and an interval of 90 %."""

    mean: float
    low: float
    high: float


def share_at(claimed: float, n_samples: int, lines: Lines = OF_CHAINS) -> Share:
    """Return the share of right labels, with clusters matched to classes (docs/model.md, eq. (65)).

    Draws of one fit agree with the solution more than classes do, because no data set is a mixture of
    Gaussians. So their claim, `Belief.claimed_wrong`, is corrected. The ends of the interval are whole
    numbers of labels.
    """
    wrong = (n_samples * claimed + 0.5) / (n_samples + 1.0)
    log_odds = math.log(wrong / (1.0 - wrong))
    right = []
    for intercept, slope in lines:
        corrected = 1.0 / (1.0 + math.exp(-intercept - slope * log_odds))
        # The half label that was added is subtracted again.
        right.append(min(max(1.0 - (corrected * (n_samples + 1.0) - 0.5) / n_samples, 0.0), 1.0))
    mean, low, high = right
    low_share = math.floor(n_samples * min(low, mean) + ROUNDING) / n_samples
    high_share = math.ceil(n_samples * max(high, mean) - ROUNDING) / n_samples
    return Share(mean, low_share, high_share)
