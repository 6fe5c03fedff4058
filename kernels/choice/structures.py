"""What classes are made of, as annotations speak for it: subspace, components, covariance, proportions.

A `Structure` says in which coordinates the components of `kernels.components` stand, how many each class
has and of which shape. `choose_structure` ranks structures, coarse to fine, by how well short fits predict
annotations that they have not seen (docs/model.md, section 12); `Table.solve` fits one from one start.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from kernels.choice.criteria import Criteria
from kernels.choice.held_out import (
    HELD_OUT,
    LEAST_PAIRS,
    UNSURE,
    Annotations,
    HeldOut,
    below,
    list_annotations,
    without,
)
from kernels.components import STEPS, Union, first_labels, fit_components
from kernels.problem.data import Floats, Layer
from kernels.search.genetic import Restart
from kernels.settings import (
    ANY,
    AUTO,
    CANDIDATES,
    DISCRIMINATIVE,
    FOLDS,
    KMEANS,
    MOST_DIMS,
    NONE,
    ObjectiveSettings,
    Structure,
    most_components,
    named_structure,
)

# Numbers of principal components that are tried; all of them, if there are no more than `MOST_DIMS`.
DIMS = (2, 5, 10, 20)

# Components of each class at first.
COARSE = (1, 4, 16)

# Candidates whose neighbours are tried, how often that is, and candidates that are looked at closely then.
TOP, TURNS = 5, 2


class Closely(NamedTuple):
    """How many candidates are looked at closely, how many lead to directions, and from how many starts."""

    top: int
    firsts: int
    starts: int


# From so many numbers of samples, times classes and rank, a close look takes longer than people wait.
CLOSELY, LARGE_CLOSELY, LARGE = Closely(5, 2, 3), Closely(3, 1, 2), 5e5

# Steps of a fit to the other folds; restarts that a choice is tried with in sweeps.
COARSE_STEPS, FOLD_STEPS, FINE_STARTS = 15, 30, 3

# k-means starts, of which that of the least inertia is taken.
TRIES = 5

# How often discriminative directions and classes are found in turn, and what is fitted there.
ROUNDS = 3
ALONG = (("full", 1), ("spherical", 4), ("tied", 1))

# Of the scatter within classes, what is taken as equal in all directions.
RIDGE = 0.1

# Rank above which directions are looked for.
LEAST_RANK = 3

# Standard errors by which a candidate is behind the best, and the base rate behind a candidate.
CLEAR = 2.0

# Standard errors that the best must be ahead of one with fewer components to be preferred to it.
TIMIDITY = 0.75

# Folds, in turn: who is behind after the first of them is tried no further, and neither are more than these.
LEFT = 10
RACE = ((0, 1), tuple(range(2, FOLDS)))

# Shares of a prediction that are due to the fit: it is never worse than the base rate.
SURE = np.linspace(0.0, 1.0, 21)

# Of the largest eigenvalue: directions of less variance are none.
RANK = 1e-12

Runner = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, eq=False)
class Solution:
    """A fit of a structure.

    Parameters
    ----------
    structure : Structure
        What was fitted.
    center : ndarray of shape (n_features,)
        Means of the features.
    axes : ndarray of shape (n_features, n_dims), or None
        Directions of the coordinates; None for the features themselves.
    union : Union
        In these coordinates.
    """

    structure: Structure
    center: Floats
    axes: Floats | None
    union: Union

    def place(self, X: Floats) -> Floats:
        """Coordinates of samples, of shape (n_samples, n_dims)."""
        return place(X, self.center, self.axes)


def place(X: Floats, center: Floats, axes: Floats | None) -> Floats:
    """Coordinates of samples along axes; no bit depends on the other rows."""
    moved = X - center
    return moved if axes is None else np.einsum("nf,fd->nd", moved, axes)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


_alone = threading.Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra whose bits do not depend on the number of threads."""
    with _alone, _libraries().limit(limits=1):
        yield


class Table:
    """Features with what all fits of them share: principal components, and starts without annotations.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    n_classes : int
        K.
    seed : numpy.random.SeedSequence
        Of the starts that candidates share.
    """

    def __init__(self, X: Floats, n_classes: int, seed: SeedSequence) -> None:
        self.X, self.n_classes, self.seed = np.asarray(X, np.float64), n_classes, seed
        self.center = self.X.mean(axis=0)
        with one_thread():
            moved = self.X - self.center
            values, vectors = np.linalg.eigh(moved.T @ moved)
        self.rank = int((values > RANK * values[-1]).sum())
        self.vectors = vectors[:, ::-1]
        self.closely = LARGE_CLOSELY if len(self.X) * n_classes * self.rank > LARGE else CLOSELY
        self._placed: dict[int | str, Floats] = {}
        self._starts: dict[tuple[Any, ...], NDArray[np.int64]] = {}
        self._of_features: dict[Structure, Solution] = {}
        self._distinct: dict[int | str, int] = {}

    @property
    def dims(self) -> tuple[int | str, ...]:
        """Coordinates that candidates stand in: the features as they are come last."""
        least = [q for q in DIMS if q < self.rank]
        return (*least, *([self.rank] if self.rank <= MOST_DIMS else []), NONE)

    def axes(self, subspace: int | str) -> Floats | None:
        """Directions of the principal components."""
        return None if isinstance(subspace, str) else self.vectors[:, :subspace]

    def placed(self, subspace: int | str) -> Floats:
        """Coordinates of all samples."""
        if subspace not in self._placed:
            self._placed[subspace] = place(self.X, self.center, self.axes(subspace))
        return self._placed[subspace]

    def distinct(self, subspace: int | str) -> int:
        """How many samples differ in their coordinates."""
        if subspace not in self._distinct:
            self._distinct[subspace] = len(np.unique(self.placed(subspace), axis=0))
        return self._distinct[subspace]

    def start(self, subspace: int | str, n_components: int, number: int) -> NDArray[np.int64]:
        """Components that candidates start from: the same for all shapes and folds."""
        key = (subspace, n_components, number)
        if key not in self._starts:
            dims = 0 if isinstance(subspace, str) else subspace
            rng = np.random.default_rng(below(self.seed, HELD_OUT, dims, n_components, number))
            self._starts[key] = best_start(self.seen(subspace, number % 2 == 1), n_components, rng)
        return self._starts[key]

    def seen(self, subspace: int | str, is_white: bool) -> Floats:
        """Coordinates that k-means of a start sees: as they are, or of one variance along all axes.

        Where classes differ along directions of little variance, only the latter finds them.
        """
        if not is_white:
            return self.placed(subspace)
        Z = self.placed(self.rank if isinstance(subspace, str) else subspace)
        return np.asarray(Z / Z.std(axis=0))

    def allows(self, each: Structure) -> bool:
        """Whether a candidate is no more than the samples can tell, and not too dear."""
        if each.components > 1 and each.components * self.n_classes > self.distinct(each.subspace):
            return False
        n_samples, n_dims = self.placed(each.subspace).shape
        return each.components <= most_components(each.covariance, n_samples, n_dims, self.n_classes)

    def is_double(self, each: Structure) -> bool:
        """Whether another candidate is the same, in the features or in all principal components."""
        if each.covariance in ("tied", "full"):
            return each.subspace == NONE  # where the prior does not know the principal components
        return each.covariance == "spherical" and each.subspace == self.X.shape[1]

    def solve(
        self,
        structure: Structure,
        layers: Sequence[Layer],
        rng: Generator,
        *,
        steps: int = STEPS,
        labels: NDArray[np.int64] | None = None,
        first: Solution | None = None,
    ) -> Solution:
        """Fit a structure from one start.

        Parameters
        ----------
        structure : Structure
            What is fitted.
        layers : sequence of Layer
            Annotations.
        rng : numpy.random.Generator
            The only source of randomness.
        steps : int
            Of each fit, at most.
        labels : ndarray of shape (n_samples,), optional
            Components to start from.
        first : Solution, optional
            Of the first fit of discriminative directions.
        """
        used = layers if structure.annotated else ()
        if structure.first is not None:
            found = first or self.solve(structure.first, layers, rng, steps=steps, labels=labels)
            for turn in range(1, ROUNDS + 1):
                along = discriminative(self.X, self.center, found.union.classes)
                at_most = steps if turn == ROUNDS else min(steps, COARSE_STEPS)
                there = place(self.X, self.center, along)
                own = found.union.classes.argmax(axis=1)
                if structure.components > 1:  # rows that differ may be equal along few directions
                    many = min(structure.components * self.n_classes, len(np.unique(there, axis=0)))
                    own = best_start(there, many, rng)
                found = self._fit(structure, there, along, used, rng, at_most, own)
            return found
        Z, axes = self.placed(structure.subspace), self.axes(structure.subspace)
        if labels is None:
            many, is_white = structure.components * self.n_classes, bool(rng.random() < 0.5)
            labels = best_start(self.seen(structure.subspace, is_white), many, rng)
        return self._fit(structure, Z, axes, used, rng, steps, labels)

    def of_features(self, structure: Structure) -> Solution:
        """The best fit of a structure without annotations, from the starts that candidates share."""
        if structure not in self._of_features:
            many, alone = structure.components * self.n_classes, structure._replace(annotated=False)
            rng = np.random.default_rng(below(self.seed, HELD_OUT + 2 + FOLDS))
            space = structure.first.subspace if structure.first is not None else structure.subspace
            many = many if structure.first is None else structure.first.components * self.n_classes
            starts = [self.start(space, many, number) for number in range(self.closely.starts)]
            found = [self.solve(alone, (), rng, labels=labels, steps=FOLD_STEPS) for labels in starts]
            self._of_features[structure] = max(found, key=lambda one: one.union.bound)
        return self._of_features[structure]

    def _fit(
        self,
        structure: Structure,
        Z: Floats,
        axes: Floats | None,
        layers: Sequence[Layer],
        rng: Generator,
        steps: int,
        labels: NDArray[np.int64],
    ) -> Solution:
        n_components = structure.components * self.n_classes
        if structure.covariance == KMEANS:
            return Solution(structure, self.center, axes, hard_union(Z, labels, n_components))
        union = fit_components(
            Z,
            layers,
            n_classes=self.n_classes,
            components=structure.components,
            covariance=structure.covariance,
            rng=rng,
            proportions=structure.proportions,
            labels=labels,
            steps=steps,
        )
        return Solution(structure, self.center, axes, union)


def best_start(Z: Floats, n_components: int, rng: Generator) -> NDArray[np.int64]:
    """The best of some k-means solutions, by inertia."""
    tries = [first_labels(Z, n_components, rng) for _ in range(TRIES)]
    return min(tries, key=lambda labels: _inertia(Z, labels, n_components))


def _inertia(Z: Floats, labels: NDArray[np.int64], n_components: int) -> float:
    return float(np.square(Z - _means(Z, labels, n_components)[labels]).sum())


def _means(Z: Floats, labels: NDArray[np.int64], n_components: int) -> Floats:
    sums = np.stack([np.bincount(labels, column, n_components) for column in Z.T], axis=1)
    return np.asarray(sums / np.maximum(np.bincount(labels, minlength=n_components), 1)[:, None])


def hard_union(Z: Floats, labels: NDArray[np.int64], n_classes: int) -> Union:
    """A partition of k-means as a union of one component a class, all of one variance."""
    shares, means = np.zeros((len(Z), n_classes)), _means(Z, labels, n_classes)
    shares[np.arange(len(Z)), labels] = 1.0
    variance = np.square(Z - means[labels]).mean()
    return Union(
        shares=shares,
        class_of=np.arange(n_classes),
        classes=shares,
        weights=np.full(n_classes, 1.0 / n_classes),
        means=means,
        covariances=np.full(means.shape, max(variance, np.finfo(float).tiny)),
        accuracies={},
        terms=(-_inertia(Z, labels, n_classes), 0.0, 0.0),
        steps=0,
    )


def discriminative(X: Floats, center: Floats, classes: Floats) -> Floats:
    """Directions along which classes differ most, against what differs within them.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    center : ndarray of shape (n_features,)
        Their means.
    classes : ndarray of shape (n_samples, n_classes)
        Shares.

    Returns
    -------
    ndarray of shape (n_features, n_dims)
        K - 1 of them, or as many as there are features; samples have unit variance along each.
    """
    with one_thread():
        moved, sizes = X - center, classes.sum(axis=0) + UNSURE
        means = (classes.T @ moved) / sizes[:, None]
        between, total = (means.T * sizes) @ means, moved.T @ moved
        within = (1.0 - RIDGE) * (total - between)
        within += (
            RIDGE
            * max(float(np.trace(total - between)), np.finfo(float).tiny)
            / len(total)
            * np.eye(len(total))
        )
        n_dims = min(classes.shape[1] - 1, X.shape[1]) or 1
        whiten = np.linalg.inv(np.linalg.cholesky(within))  # the general problem as an ordinary one
        _, vectors = np.linalg.eigh(whiten @ between @ whiten.T)
        axes = whiten.T @ vectors[:, ::-1][:, :n_dims]
        return np.ascontiguousarray(axes / np.sqrt(np.einsum("fd,fg,gd->d", axes, total, axes) / len(X)))


# Predictions of the annotations of each fold, from the others.


class Trials:
    """Candidates, and how well each predicts held-out annotations."""

    def __init__(self, table: Table, layers: Sequence[Layer], annotations: Annotations, run: Runner) -> None:
        self.table, self.layers, self.annotations, self.run = table, layers, annotations, run
        self.seen = [without(layers, annotations, annotations.folds == fold) for fold in range(FOLDS)]
        self.found: dict[tuple[Structure, int], HeldOut] = {}  # by number of starts
        self.fits: dict[tuple[Structure, int, int], Solution] = {}
        self.rates = np.zeros(len(annotations.folds))
        for fold in range(FOLDS):
            tested = annotations.folds == fold
            weights = annotations.weights[~tested]
            must = weights @ annotations.is_must[~tested]
            self.rates[tested] = (must + 1.0) / (weights.sum() + 2.0)

    @property
    def base_rate(self) -> HeldOut:
        """Predictions by how often the annotations of the other folds are must-links."""
        return self._predicted(self.rates, self.rates, np.ones(len(self.rates), bool))

    def ranked(self, starts: int) -> list[Structure]:
        """Candidates that stayed to the end, the best first."""
        scored = [(found.log_loss, each) for (each, number), found in self.found.items() if number == starts]
        return [each for _, each in sorted(scored, key=lambda one: one[0])]

    def add(self, candidates: Iterable[Structure], starts: int) -> None:
        """Predict with candidates, each from the best of some starts; those clearly behind end early."""
        running = [each for each in dict.fromkeys(candidates) if (each, starts) not in self.found]
        for each in running:  # not at once in several threads
            for number in range(starts if each.first is None else 0):
                self.table.start(each.subspace, each.components * self.table.n_classes, number)
        tested = np.zeros(len(self.annotations.folds), bool)
        for folds in RACE:
            work: list[tuple[Structure, int]] = [
                (each, fold)
                for each in running
                for fold in (folds if each.annotated else (-1,))
                if (each, starts, fold) not in self.fits
            ]
            done = self.run(lambda one: self._fit(one[0], one[1], starts), work)
            self.fits |= {(each, starts, fold): fit for (each, fold), fit in zip(work, done, strict=True)}
            tested |= np.isin(self.annotations.folds, folds)
            predicted = {each: self._predict(each, starts, tested) for each in running}
            # of as many starts alone: fits from fewer may be better by chance, and all others would end
            before = [each for (_, number), each in self.found.items() if number == starts]
            so_far = [*predicted.values(), *(_only(each, tested) for each in before)]
            best = min(so_far, key=lambda each: each.log_loss, default=None)
            running = [each for each in running if best is not None and not _is_behind(predicted[each], best)]
            running = sorted(running, key=lambda each: predicted[each].log_loss)[:LEFT]
        self.found |= {(each, starts): predicted[each] for each in running}

    def _fit(self, each: Structure, fold: int, starts: int) -> Solution:
        rng = np.random.default_rng(below(self.table.seed, HELD_OUT + 1 + FOLDS, starts))
        if not each.annotated:
            return self.table.of_features(each)
        layers = self.seen[fold]
        if each.first is not None:
            first = self.fits[each.first, starts, fold]
            return self.table.solve(each, layers, rng, steps=FOLD_STEPS, first=first)
        many, steps = each.components * self.table.n_classes, FOLD_STEPS if starts > 1 else COARSE_STEPS
        found = [
            self.table.solve(
                each, layers, rng, steps=steps, labels=self.table.start(each.subspace, many, number)
            )
            for number in range(starts)
        ]
        return max(found, key=lambda one: one.union.bound)

    def _predict(self, each: Structure, starts: int, tested: NDArray[np.bool_]) -> HeldOut:
        whole, folds = self.annotations, self.annotations.folds
        together, accuracies = np.zeros((2, len(folds)))
        for fold in np.unique(folds[tested]).tolist():
            own = folds == fold
            union = self.fits[each, starts, fold if each.annotated else -1].union
            together[own] = alike(union, whole.pairs[own])
            accuracies[own] = self._accuracies(union, own)
        must = accuracies * together + (1.0 - accuracies) * (1.0 - together)
        return self._predicted(must, together, tested)

    def _predicted(self, must: Floats, together: Floats, tested: NDArray[np.bool_]) -> HeldOut:
        """As sure of the fit as annotations bear out: the rest is how often they are must-links."""
        whole, must = self.annotations, np.clip(must, UNSURE, 1.0 - UNSURE)[tested]
        mixed = SURE[:, None] * must + (1.0 - SURE[:, None]) * self.rates[tested]
        is_must, weights = whole.is_must[tested], whole.weights[tested]
        told = np.where(is_must, mixed, 1.0 - mixed)
        best = told[np.argmax(np.log(told) @ weights)]
        agreeing = np.where(is_must, together[tested], 1.0 - together[tested])
        return HeldOut(np.log(best), best > 0.5, weights, agreeing)

    def _accuracies(self, union: Union, tested: NDArray[np.bool_]) -> Floats:
        whole = self.annotations
        found, annotators = whole.accuracies[tested], whole.annotators[tested]
        unknown = np.isnan(found)
        for annotator in np.unique(annotators[unknown]).tolist():
            accuracy = union.accuracies.get(annotator)
            if accuracy is None:  # the fit has not seen them
                seen = (whole.annotators == annotator) & ~tested
                weights, together = whole.weights[seen], alike(union, whole.pairs[seen])
                right = np.where(whole.is_must[seen], together, 1.0 - together) @ weights
                accuracy = max((float(right) + 1.0) / (float(weights.sum()) + 2.0), 0.5)
            found[unknown & (annotators == annotator)] = accuracy
        return np.clip(found, UNSURE, 1.0 - UNSURE)


def alike(union: Union, pairs: NDArray[np.int64]) -> Floats:
    """Probability that the two samples of each pair are of one class."""
    i, j = pairs.T
    return np.asarray((union.classes[i] * union.classes[j]).sum(axis=1))


def _only(found: HeldOut, kept: NDArray[np.bool_]) -> HeldOut:
    return HeldOut(
        found.log_probabilities[kept], found.right[kept], found.weights[kept], found.agreeing[kept]
    )


def _is_behind(found: HeldOut, best: HeldOut) -> bool:
    gain, error = best.gain_over(found)
    return gain > CLEAR * error


@dataclass(frozen=True, eq=False)
class StructureChoice:
    """Structures, the best first, and what spoke for them.

    Parameters
    ----------
    ranked : tuple of Structure
        The best first: where a fit of one falls short, the next is there.
    candidates : dict of Structure to HeldOut
        Those of them that predicted annotations.
    base_rate : HeldOut or None
        Predictions by how often annotations are must-links; None where annotations were not asked.
    note : str
        Why the features chose; empty if annotations did.
    """

    ranked: tuple[Structure, ...]
    candidates: dict[Structure, HeldOut]
    base_rate: HeldOut | None
    note: str = ""


def choose_structure(
    table: Table,
    layers: Sequence[Layer],
    *,
    run: Runner = map,
    components: int | str = AUTO,
    subspace: int | str = AUTO,
    covariance: str = AUTO,
) -> StructureChoice:
    """Rank structures by how well they predict held-out annotations, coarse to fine.

    Where none predicts them better than how often they are must-links, by two standard errors, the features
    choose by BIC: of structures without annotations, if components and subspace are open too.

    Parameters
    ----------
    table : Table
        Features.
    layers : sequence of Layer
        Annotations.
    run : callable
        As `map`; calls may run at once.
    components, subspace, covariance : int or str
        The one there is, or "auto".

    Raises
    ------
    ValueError
        If there are more components than the samples allow.
    """
    annotations = list_annotations(layers, table.seed)
    counts = COARSE if components == AUTO else (int(components),)
    spaces = table.dims if subspace == AUTO else (subspace,)
    shapes = CANDIDATES if covariance == AUTO else (covariance,)
    is_whole = (components, subspace, covariance) == (AUTO, AUTO, AUTO)

    def allowed(candidates: Iterable[Structure]) -> list[Structure]:
        every = list(candidates)
        return [each for each in every if table.allows(each)] or every[:1]

    alone = [named_structure(subspace, components, shape) for shape in shapes]
    if annotations.n_pairs < LEAST_PAIRS:
        few = f"{annotations.n_pairs} annotated pairs are too few to choose by, {LEAST_PAIRS} are needed"
        few = few if annotations.n_pairs else "there are no annotations to choose by"
        if is_whole:  # annotations take part in the final fit
            alone = [each for each in unsupervised(table, shapes) if each.covariance != KMEANS]
        return _by_features(table, run, alone, few, annotated=True)
    trials = Trials(table, layers, annotations, run)
    inner = tuple(each for each in spaces if each != DISCRIMINATIVE)
    firsts_of = inner or table.dims
    grid = [Structure(space, many, shape) for space in firsts_of for shape in shapes for many in counts]
    open_to_doubles = subspace != AUTO
    trials.add(allowed(each for each in grid if open_to_doubles or not table.is_double(each)), 1)
    for _ in range(TURNS if components == AUTO else 0):
        near = (
            one._replace(components=many)
            for one in trials.ranked(1)[:TOP]
            for many in (one.components // 2, one.components * 2)
            if many >= 1
        )
        trials.add([each for each in near if table.allows(each)], 1)
    ranked, firsts = trials.ranked(1), list[Structure]()
    for one in ranked:
        if one.subspace not in [first.subspace for first in firsts] and len(firsts) < table.closely.firsts:
            firsts.append(one)
    starts = table.closely.starts
    trials.add([*ranked[: table.closely.top], *firsts], starts)
    if DISCRIMINATIVE in spaces or (subspace == AUTO and table.rank > LEAST_RANK):
        along = [
            (shape, many)
            for shape, many in ALONG
            if covariance in (AUTO, shape) and components in (AUTO, many)
        ] or [(shape, many) for shape in shapes for many in counts]
        kept = [one for one in firsts if (one, starts) in trials.found]
        led = [Structure(DISCRIMINATIVE, many, shape, first=one) for one in kept for shape, many in along]
        trials.add([each for each in led if components != AUTO or table.allows(each)], starts)
    if is_whole:
        trials.add(unsupervised(table, shapes), starts)
    best = trials.ranked(starts)
    if subspace == DISCRIMINATIVE:  # what it starts from is no candidate itself
        best = [one for one in best if one.subspace == DISCRIMINATIVE]
        if not best:
            note = "the annotations are predicted clearly worse along discriminative directions than without"
            return StructureChoice(tuple(alone), {}, trials.base_rate, note)
    candidates = {one: trials.found[one, starts] for one in best}
    base = trials.base_rate
    if not _is_behind(base, candidates[best[0]]):
        found = f"log loss {candidates[best[0]].log_loss:.3f} against {base.log_loss:.3f}"
        few = f"no structure predicts the annotations better than how often they are must-links ({found})"
        every = unsupervised(table, shapes) if is_whole else alone
        chosen = _by_features(table, run, every, few, annotated=not is_whole)
        return replace(chosen, candidates=candidates, base_rate=base)
    taken = fewest_components(candidates)
    return StructureChoice((taken, *(each for each in best if each != taken)), candidates, base)


def fewest_components(candidates: dict[Structure, HeldOut]) -> Structure:
    """The structure of the fewest components a class that the best is not ahead of; of these, the best."""
    best = min(candidates.values(), key=lambda each: each.log_loss)
    gains = {each: best.gain_over(found) for each, found in candidates.items()}
    as_good = [each for each, (gain, error) in gains.items() if gain <= TIMIDITY * error]
    return min(as_good, key=lambda each: (each.components, candidates[each].log_loss))


def unsupervised(table: Table, shapes: Sequence[str]) -> list[Structure]:
    """Structures of one component a class that do without annotations."""
    every = [Structure(NONE, 1, shape, annotated=False) for shape in (KMEANS, *shapes)]
    whole = [each for each in every if table.allows(each)] or every[:2]  # there has to be a candidate
    return whole + [each._replace(proportions="equal") for each in whole if each.covariance != KMEANS]


def _by_features(
    table: Table, run: Runner, every: Sequence[Structure], why: str, *, annotated: bool
) -> StructureChoice:
    """Rank structures by BIC of fits without annotations; they take part in the final fit if asked for."""
    ranked, note = list(every), why
    if len(every) > 1:
        for each in every:  # not at once in several threads
            for number in range(table.closely.starts if each.first is None else 0):
                table.start(each.subspace, each.components * table.n_classes, number)
        fits = run(table.of_features, every)
        scored = {each: union_criteria(fit, table.X).bic for each, fit in zip(every, fits, strict=True)}
        ranked.sort(key=lambda each: -scored[each])
        note = f"{why}: the features choose, by BIC: {ranked[0]}"
    return StructureChoice(tuple(each._replace(annotated=annotated) for each in ranked), {}, None, note)


def union_criteria(solution: Solution, X: Floats) -> Criteria:
    """Criteria of a solution: the likelihood is that of its features, in its own coordinates.

    Parameters
    ----------
    solution : Solution
        What was fitted.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    """
    Z, union = solution.place(X), solution.union
    n_samples, n_dims = Z.shape
    many, shape = len(union.weights), solution.structure.covariance
    matrix = n_dims * (n_dims + 1) // 2
    of_shape = {
        KMEANS: 1,
        "spherical": many,
        "diagonal": many * n_dims,
        "tied": matrix,
        "full": many * matrix,
    }
    shares = 0 if solution.structure.proportions == "equal" or shape == KMEANS else many - 1
    n_free = many * n_dims + of_shape[shape] + shares
    logs = union.class_densities(Z)
    whole = np.logaddexp.reduce(logs, axis=1)
    sure = np.exp(logs - whole[:, None])
    own = float(logs[np.arange(n_samples), union.labels].sum())
    entropy = -float((sure * np.log(np.maximum(sure, np.finfo(float).tiny))).sum())
    penalty = 0.5 * float(n_free) * math.log(n_samples)
    return Criteria(own, n_free, penalty, float(whole.sum()) - own, entropy)


def falls_short(union: Union, annotations: Annotations, expected: HeldOut) -> str:
    """Why a fit to all annotations is worse than those to the folds; empty if it is not.

    A fit agrees with the annotations that it saw at least as well as others with those that they did not.
    """
    together = alike(union, annotations.pairs)
    agreeing = np.where(annotations.is_must, together, 1.0 - together)
    found = float(np.average(agreeing, weights=annotations.weights))
    gain, error = _gain(expected.agreeing, expected.weights)
    if found >= gain - CLEAR * error:
        return ""
    return f"agrees with {found:.3f} of the annotations, where its folds predicted {gain:.3f}"


def _gain(values: Floats, weights: Floats) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.square(weights * (values - mean)).sum()) / weights.sum())


# Fits of what was chosen.


@dataclass(frozen=True, eq=False)
class Settled:
    """Fits of the first structure that does not fall short of what its folds predicted.

    Parameters
    ----------
    structure : Structure
        What was fitted.
    choice : StructureChoice
        What spoke for it.
    solutions : tuple of Solution
        Of each restart.
    best : int
        Which of them has the largest bound, the first on ties.
    notes : tuple of str
        Which structures fell short, and how, and why the features chose.
    alarms : tuple of str
        Those of the notes that say that the solution may be nonsense.
    """

    structure: Structure
    choice: StructureChoice
    solutions: tuple[Solution, ...]
    best: int
    notes: tuple[str, ...]
    alarms: tuple[str, ...] = ()


def structure_choice(
    table: Table,
    layers: Sequence[Layer],
    *,
    covariance: str,
    settings: ObjectiveSettings,
    run: Runner = map,
    predict: bool = True,
) -> StructureChoice:
    """Choose what classes are made of, where that is open; parameters as of `settle`."""
    parts = [settings.components, settings.subspace, covariance]
    components, subspace, shape = [AUTO] * 3 if covariance == ANY else parts
    if table.n_classes > (distinct := table.distinct(NONE)):
        raise ValueError(f"n_clusters is {table.n_classes}, but X has only {distinct} distinct rows")
    if not isinstance(subspace, str):
        subspace = min(subspace, table.rank)
    is_open = AUTO in (components, subspace, shape)
    if is_open or (predict and list_annotations(layers, table.seed).n_pairs >= LEAST_PAIRS):
        named: Any = {"components": components, "subspace": subspace, "covariance": str(shape)}
        return choose_structure(table, layers, run=run, **named)
    return StructureChoice((named_structure(subspace, components, str(shape)),), {}, None)


def settle(
    table: Table,
    layers: Sequence[Layer],
    *,
    covariance: str,
    settings: ObjectiveSettings,
    streams: Sequence[SeedSequence],
    run: Runner = map,
    predict: bool = True,
    choice: StructureChoice | None = None,
) -> Settled:
    """Choose what classes are made of, where that is open, and fit it until a fit holds what its folds said.

    Parameters
    ----------
    table : Table
        Features as used, K, and the seed of the choice.
    layers : sequence of Layer
        Annotations that the model sees.
    covariance : str
        Shape of the components; "auto", or "any" with components and subspace open too.
    settings : ObjectiveSettings
        `components` and `subspace`.
    streams : sequence of numpy.random.SeedSequence
        One for each restart.
    run : callable
        As `map`; calls may run at once.
    predict : bool
        Whether annotations are held out where nothing is open.
    choice : StructureChoice, optional
        One that was made before, such as on a part of the samples.

    Raises
    ------
    ValueError
        If there are more classes or components than distinct rows.
    """
    annotations = list_annotations(layers, table.seed)
    if choice is None:
        named: Any = {"covariance": covariance, "settings": settings, "predict": predict}
        choice = structure_choice(table, layers, run=run, **named)
    notes, wanted = list[str](), settings.subspace
    if not isinstance(wanted, str) and wanted > table.rank:
        notes.append(f"features have {table.rank} principal components, not {wanted}: all are used")
    notes += [choice.note] if choice.note else []
    for structure in choice.ranked:
        fit = partial(_restart, table, structure, layers)
        solutions = tuple(run(fit, streams))
        best = max(range(len(solutions)), key=lambda number: (solutions[number].union.bound, -number))
        expected = choice.candidates.get(structure)
        why = falls_short(solutions[best].union, annotations, expected) if expected is not None else ""
        no_skill = (choice.note,) if choice.note and choice.base_rate is not None else ()
        found = Settled(structure, choice, solutions, best, tuple(notes), no_skill)
        if not why:
            return found
        notes.append(f"not taken: {structure}, whose fit {why}")
    short = (
        f"every structure fell short of its folds: {structure} is taken, whose fit {why}; see K and the rows"
    )
    return replace(found, notes=(*notes, short), alarms=(*found.alarms, short))


def _restart(table: Table, structure: Structure, layers: Sequence[Layer], stream: SeedSequence) -> Solution:
    return table.solve(structure, layers, np.random.default_rng(stream))


def as_restart(X: Floats, solution: Solution) -> Restart:
    """A solution in the terms of the search: clusters are classes, with the moments of their shares.

    Covariances are spherical, whatever those of the components are.
    """
    union = solution.union
    sizes = np.bincount(union.labels, minlength=union.classes.shape[1])
    total = np.maximum(union.classes.sum(axis=0), np.finfo(float).tiny)
    moved = X - solution.center
    means = np.einsum("nc,nf->cf", union.classes, moved) / total[:, None]
    squares = union.classes.T @ np.square(moved).sum(axis=1) / total - np.square(means).sum(axis=1)
    features, annotations, prior = union.terms
    return Restart(
        labels=union.labels,
        objective=union.bound,
        gmm=features,
        sbm=annotations,
        prior=prior,
        sizes=sizes,
        centroids=means + solution.center,
        covariances=np.maximum(squares / X.shape[1], 0.0),
        local_searches=1,
        evaluations=union.steps,
        caps_reached=int(union.steps >= STEPS),
    )
