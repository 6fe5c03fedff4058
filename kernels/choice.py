"""Choices between models: by how they predict annotations that they have not seen, and by criteria.

Sections 8 and 11 of docs/model.md define both; criteria compare numbers of clusters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.jit import jit
from sweep_clustering.kernels.partition.gains import set_gains, set_links
from sweep_clustering.kernels.partition.objective import collect, objective_terms
from sweep_clustering.kernels.partition.statistics import State, new_state
from sweep_clustering.kernels.problem.data import (
    MUST,
    Data,
    Floats,
    Layer,
    estimate_accuracies,
    layer_weights,
    pair_accuracies,
    pair_numbers,
)
from sweep_clustering.kernels.problem.problem import SPHERES, Problem, build_problem
from sweep_clustering.kernels.search.genetic import run_restart
from sweep_clustering.kernels.settings import FOLD_GENERATIONS, FOLDS, Settings
from sweep_clustering.kernels.structure import CANDIDATES

# Fewest pairs to choose by: with fewer a fold would have less than four.
LEAST_PAIRS = 20

# Least probability of an answer: one surprise must not outweigh all other answers.
UNSURE = 1e-3

# Start of the spawn keys of the folds: beyond the number of any restart.
HELD_OUT = 2**31


def child_seed(seed: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """Return a child of a seed, whose count of children stays."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))


class Annotations(NamedTuple):
    """All annotations of pairs of two samples, one after the other.

    Parameters
    ----------
    pairs : ndarray of shape (n_annotations, 2)
        Samples.
    is_must : ndarray of shape (n_annotations,), bool
        Whether the annotation says that the samples belong together.
    weights : ndarray of shape (n_annotations,)
        Annotations that each stands for.
    accuracies : ndarray of shape (n_annotations,)
        Accuracies of the answers; NaN if unknown.
    annotators : ndarray of shape (n_annotations,)
        Numbers of the annotators.
    layers : ndarray of shape (n_annotations,)
        Numbers of the layers.
    rows : ndarray of shape (n_annotations,)
        Rows in the layers.
    folds : ndarray of shape (n_annotations,)
        Numbers from 0 to `FOLDS` - 1; all annotations of a pair are in one fold. Pairs of
        labels are listed if both rows are in one fold.
    n_pairs : int
        Number of distinct pairs and of labels.
    units : ndarray of shape (n_annotations, 2), or None
        Two numbers for each annotation: those of the rows whose labels say it, or numbers of its own. Errors
        of annotations without a number in common are independent. It is None if there are no labels.
    """

    pairs: NDArray[np.int64]
    is_must: NDArray[np.bool_]
    weights: Floats
    accuracies: Floats
    annotators: NDArray[np.int64]
    layers: NDArray[np.int64]
    rows: NDArray[np.int64]
    folds: NDArray[np.int64]
    n_pairs: int
    units: NDArray[np.int64] | None = None

    @property
    def are_of_labels(self) -> bool:
        """Whether most annotations follow from labels of rows, which have several names."""
        if self.units is None or self.is_must.all():
            return False
        return bool((self.units == self.pairs).all(axis=1).mean() > 0.5)

    @property
    def lack(self) -> str:
        """Reason why the annotations cannot choose a structure; empty if they can."""
        if not self.n_pairs:
            return "there are no annotations to choose by"
        if self.n_pairs < LEAST_PAIRS:
            return f"{self.n_pairs} annotated pairs are too few to choose by, {LEAST_PAIRS} are needed"
        if self.is_must.all() or not self.is_must.any():
            kind = "must" if self.is_must.all() else "cannot"
            return f"all annotations are {kind}-links, which any structure predicts"
        return ""

    @property
    def of_unknown_accuracy(self) -> NDArray[np.bool_]:
        """Whether the accuracy of each annotation is unknown."""
        return np.isnan(self.accuracies)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Log-probabilities of annotations, each given a fit to the annotations of the other folds.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n_annotations,)
        Logarithms of the probabilities, nats.
    right : ndarray of shape (n_annotations,), bool
        Whether the annotation was the more probable answer.
    weights : ndarray of shape (n_annotations,)
        Annotations that each stands for.
    agreements : ndarray of shape (n_annotations,)
        Probability that the partition agrees with the annotation, whatever the annotator's accuracy.
    units : ndarray of shape (n_annotations, 2), or None
        Those of `Annotations`.
    """

    log_probabilities: Floats
    right: NDArray[np.bool_]
    weights: Floats
    agreements: Floats
    units: NDArray[np.int64] | None = None

    @property
    def log_loss(self) -> float:
        """Minus the mean log-probability, nats."""
        return -float(np.average(self.log_probabilities, weights=self.weights))

    @property
    def share_right(self) -> float:
        """Share of the annotations that were predicted right."""
        return float(np.average(self.right, weights=self.weights))

    def gain_over(self, other: HeldOut) -> tuple[float, float]:
        """Return the mean log-probability above that of another model, and its standard error."""
        differences = self.log_probabilities - other.log_probabilities
        mean = float(np.average(differences, weights=self.weights))
        return mean, self.error_of(self.weights * (differences - mean)) / float(self.weights.sum())

    def error_of(self, deviations: Floats) -> float:
        """Return the standard error of the sum of one deviation for each annotation."""
        return error_of_sum(deviations, self.units)

    def is_ahead(self, other: HeldOut, errors: float) -> bool:
        """Whether the predictions beat those of another model by more than so many standard errors."""
        gain, error = self.gain_over(other)
        return gain > errors * error


def error_of_sum(deviations: Floats, units: NDArray[np.int64] | None) -> float:
    """Return the standard error of a sum of deviations, of which those that share a unit depend, eq. (85)."""
    variance = float(np.square(deviations).sum())
    if units is not None:
        sums = np.bincount(units.ravel(), np.repeat(deviations, 2))
        variance = max(float(np.square(sums).sum()) - variance, variance)
    return math.sqrt(variance)


class Skill(NamedTuple):
    """Predictions of a structure beside the distances of the pairs, without them, and of distances alone.

    `overall` compares structures: it is `with_distance`, less what random pairs say against the structure.
    """

    with_distance: HeldOut
    without_distance: HeldOut
    distance: HeldOut
    overall: HeldOut


# Log loss of a coin, nats: no model that predicts worse is a result.
COIN = math.log(2.0)


class Bar(NamedTuple):
    """Predictions that a model has to beat, and their source in words."""

    predictions: HeldOut
    words: str


def bar_of(base_rate: HeldOut) -> Bar:
    """Return the better of a coin and a base rate, which is how often annotations are must-links."""
    # The rate comes from other folds: it predicts answers that are nearly balanced worse than a coin does.
    if base_rate.log_loss <= COIN:
        return Bar(base_rate, "how often they are must-links")
    logs = np.full(len(base_rate.weights), -COIN)
    return Bar(replace(base_rate, log_probabilities=logs, agreements=np.full(len(logs), 0.5)), "a coin")


def list_annotations(layers: Sequence[Layer], seed: np.random.SeedSequence) -> Annotations:
    """Put all annotations except self pairs into one list, and draw their folds."""
    parts = [(np.empty((0, 2), np.int64), np.empty(0, bool), *np.empty((2, 0)), *np.empty((3, 0), np.int64))]
    for number, layer in enumerate(layers):
        pairs = np.asarray(layer.pairs, dtype=np.int64).reshape(-1, 2)
        rows = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
        is_must, annotators, layer_numbers = (
            np.full(len(rows), value) for value in (layer.kind == MUST, layer.annotator, number)
        )
        weights, accuracies = layer_weights(layer)[rows], pair_accuracies(layer)[rows]
        parts.append((pairs[rows], is_must, weights, accuracies, annotators, layer_numbers, rows))
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    n_samples = int(columns[0].max(initial=0)) + 1
    different, names = np.unique(pair_numbers(columns[0], n_samples), return_inverse=True)
    order = np.random.default_rng(child_seed(seed, HELD_OUT)).permutation(len(different))
    columns += [(order % FOLDS)[names], len(different), None]
    annotations = Annotations(*columns)
    is_of_labels = np.array([layer.is_of_labels for layer in layers], bool)[annotations.layers]
    return _of_labelled_rows(annotations, is_of_labels, seed) if is_of_labels.any() else annotations


def _of_labelled_rows(
    annotations: Annotations, is_of_labels: NDArray[np.bool_], seed: np.random.SeedSequence
) -> Annotations:
    """Draw folds of labelled rows, and keep the pairs of two rows of one fold among those of labels.

    A fit to other folds has seen neither label of such a pair. If it had seen one, it would predict the pair
    the better, the more closely it repeats labels that may be wrong.
    """
    pairs, n_samples = annotations.pairs, int(annotations.pairs.max()) + 1
    labelled = np.unique(pairs[is_of_labels])
    fold_of = np.zeros(n_samples, np.int64)
    rng = np.random.default_rng(child_seed(seed, HELD_OUT, 1))
    fold_of[labelled] = rng.permutation(len(labelled)) % FOLDS
    folds = np.where(is_of_labels, fold_of[pairs[:, 0]], annotations.folds)
    numbers = n_samples + np.arange(2 * len(pairs)).reshape(-1, 2)
    units = np.where(is_of_labels[:, None], pairs, numbers)
    is_kept = ~is_of_labels | (fold_of[pairs] == folds[:, None]).all(axis=1)
    n_pairs = len(labelled) + len(np.unique(pair_numbers(pairs[~is_of_labels], n_samples)))
    columns: list[Any] = [*(values[is_kept] for values in (*annotations[:7], folds)), n_pairs, units[is_kept]]
    return Annotations(*columns)


def held_out(
    X: Floats,
    layers: Sequence[Layer],
    annotations: Annotations,
    *,
    n_clusters: int,
    model: str,
    covariance: str,
    settings: Settings,
    seed: np.random.SeedSequence,
) -> HeldOut:
    """Predict the annotations of each fold from a short search that sees those of the others.

    The probability that two samples belong together is a sum over clusters of the probability that both are
    there, given the labels of all other samples. An answer is right with its accuracy. If that is unknown, it
    is the share of the annotator's answers in other folds that agree with the fit.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs.
    annotations : Annotations
        The same annotations in one list, with their folds.
    n_clusters, model, covariance, settings
        Parameters of `kernels.problem.problem.build_problem`, and settings of the search.
    seed : numpy.random.SeedSequence
        Seed of the searches.

    Returns
    -------
    HeldOut
    """
    logs, agreements = np.zeros((2, len(annotations.folds)))
    right = np.zeros(len(annotations.folds), dtype=bool)
    short = replace(settings, generations=min(settings.generations, FOLD_GENERATIONS))
    for fold in range(FOLDS):
        is_tested = annotations.folds == fold
        if not is_tested.any():
            continue
        training = training_layers(layers, annotations, fold)
        problem = build_problem(
            X, training, n_clusters=n_clusters, model=model, covariance=covariance, settings=settings
        )
        rng = np.random.default_rng(child_seed(seed, HELD_OUT + 1 + fold))
        labels = run_restart(problem, short, rng).labels
        shares = label_probabilities(problem, labels)
        i, j = annotations.pairs[is_tested].T
        joint_shares = np.clip((shares[i] * shares[j]).sum(axis=1), UNSURE, 1.0 - UNSURE)
        is_training = annotations.of_unknown_accuracy & ~is_tested
        i, j = annotations.pairs[is_training].T
        is_joint, is_must = 1.0 * (labels[i] == labels[j]), annotations.is_must[is_tested]
        must = must_probabilities(annotations, is_tested, joint_shares, is_training, is_joint)
        probabilities = np.where(is_must, must, 1.0 - must)
        logs[is_tested], right[is_tested] = np.log(probabilities), probabilities > 0.5
        agreements[is_tested] = np.where(is_must, joint_shares, 1.0 - joint_shares)
    return HeldOut(logs, right, annotations.weights, agreements, annotations.units)


def label_probabilities(problem: Problem, labels: NDArray[np.integer]) -> Floats:
    """Return the probability of each label of each sample, given all other labels (docs/model.md, eq. (55)).

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    labels : ndarray of shape (n_samples,)
        Labels of a partition.

    Returns
    -------
    ndarray of shape (n_samples, n_clusters)
        Probabilities that are proportional to the exponential of the objective with that label and the best
        parameters. A sample of a cluster of the least size has its label for certain.
    """
    state = new_state(problem.data)
    state.labels[:] = labels
    shares = np.zeros((problem.n_samples, problem.n_clusters))
    _set_probabilities(problem.data, state, shares)
    return shares


@jit
def _set_probabilities(data: Data, state: State, shares: Floats) -> None:
    collect(data, state)
    for sample in range(data.X.shape[0]):
        if state.stop[0] != 0:
            return
        source = int(np.int64(state.labels[sample]))
        if state.sizes[source] <= data.min_size:
            shares[sample, source] = 1.0
            continue
        degree = set_links(data, state, sample)
        largest = set_gains(data, state, sample, degree, -np.inf)
        total = 0.0
        for k in range(data.n_clusters):
            shares[sample, k] = np.exp(state.gains[k] - largest)
            total += shares[sample, k]
        for k in range(data.n_clusters):
            shares[sample, k] /= total


@functools.cache
def warm_up() -> None:
    """Load or compile the kernels that predictions need beside the search."""
    X = np.arange(12.0).reshape(6, 2)
    label_probabilities(build_problem(X, n_clusters=2, model="unsupervised"), np.repeat([0, 1], 3))


def training_layers(layers: Sequence[Layer], annotations: Annotations, fold: int) -> list[Layer]:
    """Return the layers without the annotations of a fold, and without other pairs of its labelled rows."""
    training, is_tested = [], annotations.folds == fold
    is_of_labels = np.array([layer.is_of_labels for layer in layers], bool)[annotations.layers]
    hidden_rows = np.unique(annotations.pairs[is_tested & is_of_labels])
    for number, layer in enumerate(layers):
        is_training = np.ones(len(layer.pairs), dtype=bool)
        is_training[annotations.rows[is_tested & (annotations.layers == number)]] = False
        if layer.is_of_labels:  # the label of a row stands in the pairs of others, too
            is_training &= ~np.isin(layer.pairs, hidden_rows).any(axis=1)
        training.append(_selected(layer, is_training))
    return training


def _selected(layer: Layer, rows: NDArray[np.bool_]) -> Layer:
    """Return the annotations of some rows of a layer."""
    return replace(
        layer,
        pairs=np.asarray(layer.pairs)[rows],
        weights=None if layer.weights is None else np.asarray(layer.weights)[rows],
        accuracies=None if layer.accuracies is None else np.asarray(layer.accuracies)[rows],
    )


def some_rows(
    X: Floats, layers: Sequence[Layer], limit: int, rng: np.random.Generator
) -> tuple[Floats, list[Layer]]:
    """Return at most so many rows, those of random annotations first, and the annotations among them."""
    if len(X) <= limit:
        return X, list(layers)
    pairs = rng.permutation(np.concatenate([np.empty((0, 2), int), *(layer.pairs for layer in layers)]))
    # Each answer adds two rows at most. Other rows fill up.
    rows = np.concatenate([pairs[: limit // 2].ravel(), rng.permutation(len(X))])
    kept_rows = np.sort(rows[np.sort(np.unique(rows, return_index=True)[1])][:limit])
    place = np.full(len(X), -1)
    place[kept_rows] = np.arange(len(kept_rows))
    placed = [replace(layer, pairs=place[layer.pairs].reshape(-1, 2)) for layer in layers]
    return X[kept_rows], [_selected(layer, np.all(layer.pairs >= 0, axis=1)) for layer in placed]


def must_probabilities(
    annotations: Annotations,
    is_tested: NDArray[np.bool_],
    probabilities: Floats,
    is_training: NDArray[np.bool_],
    training_probabilities: Floats,
) -> Floats:
    """Return the probability that each tested annotation is a must-link, eq. (56).

    Parameters
    ----------
    annotations : Annotations
        All annotations.
    is_tested, is_training : ndarray of shape (n_annotations,), bool
        Annotations that are predicted, and those that unknown accuracies are estimated from.
    probabilities, training_probabilities : ndarray
        Probability for each of them that the two samples belong together.
    """
    accuracies = annotations.accuracies[is_tested][:, None].repeat(2, axis=1)
    is_unknown = np.isnan(accuracies[:, 0])
    if is_unknown.any():
        estimates = estimate_accuracies(
            annotations.annotators[is_training],
            annotations.is_must[is_training],
            annotations.weights[is_training],
            training_probabilities,
        )
        accuracies[is_unknown] = estimates.accuracies_of(annotations.annotators[is_tested][is_unknown])
    right, wrong = np.clip(accuracies, UNSURE, 1.0 - UNSURE).T
    return np.asarray(right * probabilities + (1.0 - wrong) * (1.0 - probabilities))


# The accuracy by held-out annotations (docs/model.md, section 11).

# Halvings of the interval, down to the last bits.
STEPS = 60


class Accuracy(NamedTuple):
    """An accuracy with its standard error, which is NaN at the ends of the interval."""

    value: float
    error: float


def estimated_accuracy(score: HeldOut) -> Accuracy:
    """Return the accuracy of the largest likelihood of held-out annotations, at least one half, eq. (71)."""
    agreements, low, high = score.agreements, 0.5, 1.0 - UNSURE

    def scores(p: float) -> Floats:
        """Return the derivative by p of the logarithm of p s + (1 - p) (1 - s), which is concave in p."""
        return np.asarray((2.0 * agreements - 1.0) / (p * agreements + (1.0 - p) * (1.0 - agreements)))

    def slope(p: float) -> float:
        return float((score.weights * scores(p)).sum())

    if slope(low) <= 0.0 or slope(high) >= 0.0:
        return Accuracy(low if slope(low) <= 0.0 else high, math.nan)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if slope(middle) > 0.0:
            low = middle
        else:
            high = middle
    return Accuracy(low, 1.0 / math.sqrt(float((score.weights * np.square(scores(low))).sum())))


# The shape of covariance by held-out annotations (docs/model.md, section 8).

# Standard errors by which the best candidate must be ahead of a simpler one.
TIMIDITY = 0.5


@dataclass(frozen=True, eq=False)
class ShapeChoice:
    """A shape, and the predictions of the candidates.

    Parameters
    ----------
    covariance : str
        Shape that was chosen.
    candidates : dict of str to HeldOut
        Predictions of held-out annotations by each candidate, the simplest first; empty if there were too few
        annotations.
    note : str
        Reason why there are no candidates; else empty.
    """

    covariance: str
    candidates: dict[str, HeldOut]
    note: str = ""


def choose_covariance(
    X: Floats,
    layers: Sequence[Layer],
    *,
    n_clusters: int,
    model: str,
    settings: Settings,
    seed: np.random.SeedSequence,
    candidates: Sequence[str] = CANDIDATES,
) -> ShapeChoice:
    """Choose among shapes of covariance, by default spherical, diagonal, tied and full.

    The simplest candidate is chosen whose mean log-probability of held-out annotations is within half a
    standard error of their difference from the best. All candidates see the same folds.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs.
    n_clusters, model, settings
        Parameters of `kernels.problem.problem.build_problem`, and settings of the search.
    seed : numpy.random.SeedSequence
        Seed of folds and searches.
    candidates : sequence of str
        Shapes to choose from, the simplest first. A single shape is evaluated.

    Returns
    -------
    ShapeChoice
        Choice, the first candidate if the model sees no annotations, or fewer than `LEAST_PAIRS` pairs.
    """
    simplest = candidates[0]
    if model == "unsupervised":
        return ShapeChoice(simplest, {}, f"the model sees no annotations: covariances are {simplest}")
    annotations = list_annotations(layers, seed)
    if annotations.n_pairs < LEAST_PAIRS:
        note = (
            f"{annotations.n_pairs} annotated pairs are too few to choose a shape, {LEAST_PAIRS} are needed"
        )
        return ShapeChoice(simplest, {}, f"{note}: covariances are {simplest}")
    predict = functools.partial(
        held_out, X, layers, annotations, n_clusters=n_clusters, model=model, seed=seed
    )
    predictions = {shape: predict(covariance=shape, settings=settings) for shape in candidates}
    return ShapeChoice(simplest_of_the_best(predictions), predictions)


def simplest_of_the_best(candidates: dict[str, HeldOut]) -> str:
    """Return the first candidate that the best is not clearly ahead of."""
    best = min(candidates, key=lambda name: candidates[name].log_loss)
    for name, candidate in candidates.items():
        gain, error = candidates[best].gain_over(candidate)
        if name == best or gain <= TIMIDITY * error:
            return name
    return best


@dataclass(frozen=True)
class Criteria:
    """Parts of the criteria of a solution, in nats; larger criteria are better.

    Parameters
    ----------
    classification : float
        Log-likelihood of features, labels and annotations at the solution, eq. (66).
    parameters : int
        Number of free parameters, eq. (67).
    penalty : float
        Penalty of the free parameters, eq. (68).
    surprise : float
        Minus the log-probability of the labels of the solution, eq. (69).
    entropy : float
        Entropy of the memberships, eq. (69).
    icl_of_features : float or None
        Largest ICL of one Gaussian a class without annotations, which compares with that of other numbers of
        clusters; None if no such fit predicts held-out annotations about as well as others.
    """

    classification: float
    parameters: int
    penalty: float
    surprise: float
    entropy: float
    icl_of_features: float | None = None

    @property
    def bic(self) -> float:
        """Log-likelihood without the labels, less the penalty, eq. (70)."""
        return self.classification + self.surprise - self.penalty

    @property
    def icl(self) -> float:
        """BIC less the entropy of the memberships, eq. (70)."""
        return self.bic - self.entropy


def criteria(problem: Problem, layers: Sequence[Layer], labels: NDArray[np.integer]) -> Criteria:
    """Compute the criteria of a solution.

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    layers : sequence of Layer
        Annotations of the problem.
    labels : ndarray of shape (n_samples,)
        Labels of the solution.

    Returns
    -------
    Criteria
        Criteria that compare problems which differ in the number of clusters and the shape alone.
    """
    gmm, annotations, _ = objective_terms(problem, labels)
    data, n_samples = problem.data, problem.n_samples
    weight = data.feature_weight
    constants = 0.5 * weight * n_samples * len(problem.dims) * math.log(2.0 * math.pi)
    if problem.covariance in SPHERES and data.kappa > 0.0:
        # without the constant that the variance prior gives even an empty cluster, eq. (7)
        clusters = 1 if problem.covariance == "common" else problem.n_clusters
        mode = data.kappa * len(problem.dims) * (1.0 + math.log(data.total_variance))
        constants -= 0.5 * weight * clusters * mode
    if not data.proportions:
        constants += n_samples * math.log(problem.n_clusters)
    k, d = problem.n_clusters, len(problem.dims)  # features that have a density
    matrix = d * (d + 1) // 2
    variances = {"spherical": k, "common": 1, "diagonal": k * d, "tied": matrix, "full": k * matrix}
    of_features = k * d + variances[problem.covariance]
    of_annotations = annotation_parameters(problem, layers)
    of_shares = k - 1 if data.proportions else 0
    penalty = 0.5 * weight * of_features * math.log(n_samples) + 0.5 * of_shares * math.log(n_samples)
    penalty += sum(0.5 * count * math.log(max(total, 1.0)) for count, total in of_annotations)
    shares = label_probabilities(problem, labels)
    label_shares = shares[np.arange(n_samples), labels]
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return Criteria(
        classification=gmm + annotations - constants,
        parameters=of_features + of_shares + sum(count for count, _ in of_annotations),
        penalty=penalty,
        surprise=-float(np.log(np.maximum(label_shares, np.finfo(float).tiny)).sum()),
        entropy=-float((shares * logs).sum()),
    )


def annotation_parameters(problem: Problem, layers: Sequence[Layer]) -> list[tuple[int, float]]:
    """Return the number of free parameters of each group of annotations, and its number of annotations.

    A layer of a block model has a rate for each pair of clusters. In "conditional" an annotator of unknown
    accuracy has one parameter.
    """
    layers = [layer for layer in layers if len(layer.pairs)]
    if problem.model in ("likelihood", "posterior"):
        rates = problem.n_clusters * (problem.n_clusters + 1) // 2
        return [(rates, float(layer_weights(layer).sum())) for layer in layers]
    if problem.model != "conditional":
        return []
    totals: dict[int, float] = {}
    for layer in layers:
        pairs = np.asarray(layer.pairs)
        free = np.isnan(pair_accuracies(layer)) & (pairs[:, 0] != pairs[:, 1])
        if free.any():
            total = totals.get(layer.annotator, 0.0)
            totals[layer.annotator] = total + float(layer_weights(layer)[free].sum())
    return [(1, total) for total in totals.values()]
