"""How well a model predicts annotations that it has not seen (docs/model.md, section 8)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.jit import jit
from sweep_clustering.kernels.partition.gains import set_gains, set_links
from sweep_clustering.kernels.partition.objective import collect
from sweep_clustering.kernels.partition.state import State, new_state
from sweep_clustering.kernels.problem.data import (
    MUST,
    Data,
    Floats,
    Layer,
    layer_weights,
    pair_accuracies,
    pair_numbers,
)
from sweep_clustering.kernels.problem.problem import Problem, build_problem
from sweep_clustering.kernels.search.genetic import run_restart
from sweep_clustering.kernels.settings import FOLD_GENERATIONS, FOLDS, Settings
from sweep_clustering.kernels.structure import CANDIDATES

# Fewer pairs than this say too little: a fold would hold less than four.
LEAST_PAIRS = 20

# No pair and no annotation is more certain than this: one surprise must not outweigh all others.
UNSURE = 1e-3

# Start of the spawn keys of the folds: beyond the number of any restart.
HELD_OUT = 2**31


def below(seed: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """A stream below another, without counting up the other's children."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))


class Annotations(NamedTuple):
    """All annotations of pairs of two samples, one after the other.

    Parameters
    ----------
    pairs : ndarray of shape (n_annotations, 2)
        Samples.
    is_must : ndarray of shape (n_annotations,), bool
        Whether it says that they belong together.
    weights : ndarray of shape (n_annotations,)
        Annotations that each stands for.
    accuracies : ndarray of shape (n_annotations,)
        As given; NaN where unknown.
    annotators : ndarray of shape (n_annotations,)
        Who annotated.
    layers, rows : ndarray of shape (n_annotations,)
        Where it stands.
    folds : ndarray of shape (n_annotations,)
        0 to `FOLDS` - 1; all annotations of a pair are in one fold.
    n_pairs : int
        Different pairs.
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


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Log-probabilities of annotations, each given a fit to the annotations of the other folds.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n_annotations,)
        Nats.
    right : ndarray of shape (n_annotations,), bool
        Whether what was annotated was the more probable answer.
    weights : ndarray of shape (n_annotations,)
        Annotations that each stands for.
    agreeing : ndarray of shape (n_annotations,)
        Probability that the partition has the pair as annotated, whatever the annotator's accuracy.
    """

    log_probabilities: Floats
    right: NDArray[np.bool_]
    weights: Floats
    agreeing: Floats

    @property
    def log_loss(self) -> float:
        """Minus the mean log-probability, nats."""
        return -float(np.average(self.log_probabilities, weights=self.weights))

    @property
    def share_right(self) -> float:
        """Share of the annotations that were predicted."""
        return float(np.average(self.right, weights=self.weights))

    def gain_over(self, other: HeldOut) -> tuple[float, float]:
        """Mean log-probability above that of another model on the same annotations, and its error."""
        differences = self.log_probabilities - other.log_probabilities
        mean = float(np.average(differences, weights=self.weights))
        squares = np.square(self.weights * (differences - mean))
        return mean, float(np.sqrt(squares.sum()) / self.weights.sum())


# Nats that an answer costs a coin: no model that predicts worse is a result.
COIN = math.log(2.0)


class Bar(NamedTuple):
    """Predictions that a model has to beat, and what they are made by, in words."""

    predictions: HeldOut
    words: str


def bar_of(base_rate: HeldOut) -> Bar:
    """Return the better of the base rate and a coin.

    The base rate is estimated from other folds, so that it predicts answers that are nearly balanced worse
    than a coin does.

    Parameters
    ----------
    base_rate : HeldOut
        Predictions by how often the annotations of the other folds are must-links.
    """
    if base_rate.log_loss <= COIN:
        return Bar(base_rate, "how often they are must-links")
    logs = np.full(len(base_rate.weights), -COIN)
    return Bar(replace(base_rate, log_probabilities=logs, agreeing=np.full(len(logs), 0.5)), "a coin")


def list_annotations(layers: Sequence[Layer], seed: np.random.SeedSequence) -> Annotations:
    """Put all annotations but self pairs into one list, and draw their folds.

    Parameters
    ----------
    layers : sequence of Layer
        Annotation graphs.
    seed : numpy.random.SeedSequence
        Seed of the folds.
    """
    parts = [(np.empty((0, 2), np.int64), np.empty(0, bool), *np.empty((2, 0)), *np.empty((3, 0), np.int64))]
    for number, layer in enumerate(layers):
        pairs = np.asarray(layer.pairs, dtype=np.int64).reshape(-1, 2)
        rows = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
        must, who, where = (
            np.full(len(rows), each) for each in (layer.kind == MUST, layer.annotator, number)
        )
        parts.append(
            (pairs[rows], must, layer_weights(layer)[rows], pair_accuracies(layer)[rows], who, where, rows)
        )
    columns = dict(zip(Annotations._fields, map(np.concatenate, zip(*parts, strict=True)), strict=False))
    n_samples = int(columns["pairs"].max(initial=0)) + 1
    different, names = np.unique(pair_numbers(columns["pairs"], n_samples), return_inverse=True)
    order = np.random.default_rng(below(seed, HELD_OUT)).permutation(len(different))
    return Annotations(**columns, folds=(order % FOLDS)[names], n_pairs=len(different))


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

    The probability that two samples belong together is the sum over clusters of both being there, each given
    the labels of all others; the answer is right with the accuracy given, else with the share of the other
    folds' annotations of its annotator that agree with the fit.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs.
    annotations : Annotations
        The same annotations in one list, with their folds.
    n_clusters, model, covariance, settings
        As of `kernels.problem.problem.build_problem`, and of the search.
    seed : numpy.random.SeedSequence
        Seed of the searches.

    Returns
    -------
    HeldOut
    """
    logs, agreeing = np.zeros((2, len(annotations.folds)))
    right = np.zeros(len(annotations.folds), dtype=bool)
    short = replace(settings, generations=min(settings.generations, FOLD_GENERATIONS))
    for fold in range(FOLDS):
        tested = annotations.folds == fold
        if not tested.any():
            continue
        training = without(layers, annotations, tested)
        problem = build_problem(
            X, training, n_clusters=n_clusters, model=model, covariance=covariance, settings=settings
        )
        rng = np.random.default_rng(below(seed, HELD_OUT + 1 + fold))
        labels = run_restart(problem, short, rng).labels
        shares = label_probabilities(problem, labels)
        i, j = annotations.pairs[tested].T
        together = np.clip((shares[i] * shares[j]).sum(axis=1), UNSURE, 1.0 - UNSURE)
        accuracy = _accuracies(annotations, labels, tested)
        must = accuracy * together + (1.0 - accuracy) * (1.0 - together)
        probabilities = np.where(annotations.is_must[tested], must, 1.0 - must)
        logs[tested], right[tested] = np.log(probabilities), probabilities > 0.5
        agreeing[tested] = np.where(annotations.is_must[tested], together, 1.0 - together)
    return HeldOut(logs, right, annotations.weights, agreeing)


def label_probabilities(problem: Problem, labels: NDArray[np.integer]) -> Floats:
    """Return the probability of each label of each sample, given all other labels (docs/model.md, eq. (55)).

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    labels : ndarray of shape (n_samples,)
        A partition.

    Returns
    -------
    ndarray of shape (n_samples, n_clusters)
        Proportional to the exponential of the objective with that label, all parameters at their best. A
        sample of a cluster of the least size has its label for certain.
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
    """Compile, or load from the cache, what predictions need beside the search."""
    X = np.arange(12.0).reshape(6, 2)
    label_probabilities(build_problem(X, n_clusters=2, model="unsupervised"), np.repeat([0, 1], 3))


def without(layers: Sequence[Layer], annotations: Annotations, tested: NDArray[np.bool_]) -> list[Layer]:
    """Return the layers without the annotations of a fold."""
    left = []
    for number, layer in enumerate(layers):
        kept = np.ones(len(layer.pairs), dtype=bool)
        kept[annotations.rows[tested & (annotations.layers == number)]] = False
        of_pairs = {"pairs": layer.pairs, "weights": layer.weights, "accuracies": layer.accuracies}
        values = {name: np.asarray(array)[kept] for name, array in of_pairs.items() if array is not None}
        left.append(replace(layer, **values))  # type: ignore[arg-type]
    return left


def some_rows(
    X: Floats, layers: Sequence[Layer], most: int, rng: np.random.Generator
) -> tuple[Floats, list[Layer]]:
    """Return so many rows, those of random annotations before others, and the annotations among them.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    layers : sequence of Layer
        Annotations.
    most : int
        Rows; all of them, if there are no more.
    rng : numpy.random.Generator
        Source of the draw.
    """
    if len(X) <= most:
        return X, list(layers)
    answered = rng.permutation(np.concatenate([np.empty((0, 2), int), *(layer.pairs for layer in layers)]))
    # each answer adds two rows at most; rows without answers fill up
    rows = np.concatenate([answered[: most // 2].ravel(), rng.permutation(len(X))])
    kept = np.sort(rows[np.sort(np.unique(rows, return_index=True)[1])][:most])
    place = np.full(len(X), -1)
    place[kept] = np.arange(len(kept))
    between = []
    for layer in layers:
        pairs = place[layer.pairs].reshape(-1, 2)
        some = (pairs >= 0).all(axis=1)
        of_each = {"weights": layer.weights, "accuracies": layer.accuracies}
        known = {name: np.asarray(values)[some] for name, values in of_each.items() if values is not None}
        between.append(replace(layer, pairs=pairs[some], **known))
    return X[kept], between


def _accuracies(annotations: Annotations, labels: NDArray[np.integer], tested: NDArray[np.bool_]) -> Floats:
    """Return the accuracies of tested annotations; to unknown ones one right and one wrong are added."""
    i, j = annotations.pairs.T
    agrees = (labels[i] == labels[j]) == annotations.is_must
    accuracies, annotators = annotations.accuracies[tested], annotations.annotators[tested]
    unknown = np.isnan(accuracies)
    for annotator in np.unique(annotators[unknown]):
        others = (annotations.annotators == annotator) & ~tested
        weights = annotations.weights[others]
        right = float(weights[agrees[others]].sum())
        share = (right + 1.0) / (float(weights.sum()) + 2.0)
        accuracies[unknown & (annotators == annotator)] = max(share, 0.5)
    return np.clip(accuracies, UNSURE, 1.0 - UNSURE)


# The accuracy that held-out annotations speak for (docs/model.md, section 11).

# Halvings of the interval: to the last bits.
STEPS = 60


class Accuracy(NamedTuple):
    """An accuracy, and its standard error: NaN at the ends of its interval."""

    value: float
    error: float


def estimated_accuracy(score: HeldOut) -> Accuracy:
    """Return the accuracy of the largest likelihood of annotations that the fit had not seen, eq. (71).

    Parameters
    ----------
    score : HeldOut
        With the probabilities that the partition has each pair as annotated.

    Returns
    -------
    Accuracy
        Between one half and 1 - 1e-3.
    """
    agreeing, low, high = score.agreeing, 0.5, 1.0 - UNSURE

    def scores(p: float) -> Floats:
        """Derivative by p of the logarithm of p s + (1 - p) (1 - s), which is concave in p."""
        return np.asarray((2.0 * agreeing - 1.0) / (p * agreeing + (1.0 - p) * (1.0 - agreeing)))

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


# The shape of covariance that annotations speak for (docs/model.md, section 8).

# Standard errors that the best candidate must be ahead of a simpler one to be preferred to it.
TIMIDITY = 0.5


@dataclass(frozen=True, eq=False)
class ShapeChoice:
    """A shape, and what spoke for it.

    Parameters
    ----------
    covariance : str
        The shape chosen.
    candidates : dict of str to HeldOut
        How well each candidate predicted held-out annotations, the simplest first; none if there were too
        few annotations to tell.
    note : str
        Why there are no candidates; else empty.
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

    The simplest one whose mean log-probability of held-out annotations is within half a standard error of the
    best, of the differences between both. All candidates see the same folds.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    layers : sequence of Layer
        Annotation graphs.
    n_clusters, model, settings
        As of `kernels.problem.problem.build_problem`, and of the search.
    seed : numpy.random.SeedSequence
        Seed of folds and searches.
    candidates : sequence of str
        Shapes to choose from, the simplest first; of one shape alone, how well it predicts.

    Returns
    -------
    ShapeChoice
        The first candidate if the model sees no annotations, or those of fewer than `LEAST_PAIRS` pairs.
    """
    simplest = candidates[0]
    if model == "unsupervised":
        return ShapeChoice(simplest, {}, f"the model sees no annotations: covariances are {simplest}")
    annotations = list_annotations(layers, seed)
    if annotations.n_pairs < LEAST_PAIRS:
        few = f"{annotations.n_pairs} annotated pairs are too few to choose a shape, {LEAST_PAIRS} are needed"
        return ShapeChoice(simplest, {}, f"{few}: covariances are {simplest}")
    predictions = {
        shape: held_out(
            X,
            layers,
            annotations,
            n_clusters=n_clusters,
            model=model,
            covariance=shape,
            settings=settings,
            seed=seed,
        )
        for shape in candidates
    }
    return ShapeChoice(simplest_of_the_best(predictions), predictions)


def simplest_of_the_best(candidates: dict[str, HeldOut]) -> str:
    """Return the first candidate that the best is not clearly ahead of."""
    best = min(candidates, key=lambda name: candidates[name].log_loss)
    for name, candidate in candidates.items():
        gain, error = candidates[best].gain_over(candidate)
        if name == best or gain <= TIMIDITY * error:
            return name
    return best
