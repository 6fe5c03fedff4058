"""A table, and one fit of a structure to it from one start (docs/model.md, section 12)."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from sweep_clustering.kernels.choice.criteria import Criteria
from sweep_clustering.kernels.choice.held_out import (
    HELD_OUT,
    UNSURE,
    below,
)
from sweep_clustering.kernels.fits import Fit, Gaussians, place
from sweep_clustering.kernels.problem.data import Floats, Layer, Links, link, row_numbers
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.structure import (
    DEAREST,
    KMEANS,
    MOST_DIMS,
    NONE,
    Structure,
    most_supported,
    operations,
    single_operations,
    wide_dims,
)
from sweep_clustering.kernels.unions.soft import STEPS, first_labels, fit_components

# Numbers of principal components that are tried, beside `wide_dims`; all of them, if there are no more than
# `MOST_DIMS`.
DIMS = (2, 5, 10, 20)


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

# How often discriminative directions and classes are found in turn.
ROUNDS = 3

# Of the scatter within classes, what is taken as equal in all directions.
RIDGE = 0.1

# Seconds of a processor for each operation of a step.
SECONDS = 2.5e-10

# A share of a class below it is not kept where memory counts.
NEGLIGIBLE = 1e-6

# Of the largest eigenvalue: directions of less variance are none.
RANK = 1e-12


class Kept(NamedTuple):
    """Gaussians in little memory: their classes are apart, and shares below `NEGLIGIBLE` are none."""

    gaussians: Gaussians
    shape: tuple[int, ...]
    places: NDArray[np.int64]  # (n_shares,), of rows one after the other
    shares: NDArray[np.float32]  # (n_shares,)

    @classmethod
    def of(cls, gaussians: Gaussians) -> Kept:
        """Return what is kept of Gaussians, which may go."""
        classes = gaussians.classes
        places = np.flatnonzero(classes >= NEGLIGIBLE)
        shares = classes.ravel()[places].astype(np.float32)
        bare = replace(gaussians, classes=classes[:0].copy())
        return cls(bare, classes.shape, places, shares)

    def whole(self) -> Gaussians:
        """Return the Gaussians, their shares rounded."""
        classes = np.zeros(self.shape)
        classes.flat[self.places] = self.shares
        return replace(self.gaussians, classes=classes)


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
        Seed of the starts that candidates share.
    whole : Table, optional
        The table that this is a part of: its principal components are used, which more rows tell better.
    """

    def __init__(self, X: Floats, n_classes: int, seed: SeedSequence, whole: Table | None = None) -> None:
        self.X, self.n_classes, self.seed = np.asarray(X, np.float64), n_classes, seed
        if whole is None:
            self.center = self.X.mean(axis=0)
            with one_thread():
                moved = self.X - self.center
                values, vectors = np.linalg.eigh(moved.T @ moved)
            self.rank, self.vectors = int((values > RANK * values[-1]).sum()), vectors[:, ::-1]
        else:
            self.center, self.rank, self.vectors = whole.center, whole.rank, whole.vectors
        self.is_large = len(self.X) * n_classes * self.rank > LARGE
        self.closely = LARGE_CLOSELY if self.is_large else CLOSELY
        self._placed: dict[int | str, Floats] = {}
        self._starts: dict[tuple[Any, ...], NDArray[np.int64]] = {}
        self._of_features: dict[Structure, Gaussians] = {}
        self._distinct: dict[int | str, int] = {}
        self._links: tuple[Sequence[Layer] | None, Links | None] = None, None
        self.dear: dict[Structure, float] = {}  # candidates left out for their cost, in seconds

    @property
    def dims(self) -> tuple[int | str, ...]:
        """Coordinates that candidates stand in: the features as they are come last."""
        least = [*(q for q in DIMS if q < self.rank), *wide_dims(self.rank, self.n_classes)]
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
            self._distinct[subspace] = int(row_numbers(self.placed(subspace)).max()) + 1
        return self._distinct[subspace]

    def start(self, subspace: int | str, n_components: int, number: int) -> NDArray[np.int64]:
        """Components that candidates start from: the same for all shapes and folds."""
        key = (subspace, n_components, number)
        if key not in self._starts:
            dims = 0 if isinstance(subspace, str) else subspace
            rng = np.random.default_rng(below(self.seed, HELD_OUT, dims, n_components, number))
            self._starts[key] = best_start(self.seen(subspace, number % 2 == 1), n_components, rng)
        return self._starts[key]

    def find_start(self, key: tuple[int | str, int, int]) -> None:
        """Find what `start` gives, as one of several at once."""
        self.start(*key)

    def unseen(self, starts: Iterable[tuple[int | str, int, int]]) -> list[tuple[int | str, int, int]]:
        """Those of some starts that are still to be found, with the coordinates that they need laid out."""
        left = [key for key in starts if key not in self._starts]
        for subspace, _, _ in left:
            self.placed(subspace)
        return left

    def seen(self, subspace: int | str, is_white: bool) -> Floats:
        """Coordinates that k-means of a start sees: as they are, or of one variance along all axes.

        Where classes differ along directions of little variance, only the latter finds them. Where a class
        has fewer rows than there are directions, chance alone moves centroids further than samples are apart
        in a class: k-means sees the first of the principal components in place of the features.
        """
        if isinstance(subspace, str):
            few = max(MOST_DIMS, self.n_classes)
            if few < self.rank and len(self.X) < self.n_classes * self.rank:
                subspace = few
            elif is_white:
                subspace = self.rank
        Z = self.placed(subspace)
        if not is_white:
            return Z
        deviations = Z.std(axis=0)  # 0 where all rows of a part are equal along an axis of the whole
        return np.asarray(Z / np.where(deviations > 0.0, deviations, 1.0))

    def allows(self, structure: Structure) -> bool:
        """Whether a candidate is no more than the samples can tell, and not too dear."""
        if structure.components > 1 and structure.components * self.n_classes > self.distinct(
            structure.subspace
        ):
            return False
        n_samples, n_dims = self.placed(structure.subspace).shape
        if structure.components > most_supported(structure.covariance, n_samples, self.n_classes):
            return False
        cost = structure.components * operations(structure.covariance, n_samples, n_dims, self.n_classes)
        if structure.components == 1 and structure.covariance not in ("tied", "full"):
            cost = single_operations(n_samples, n_dims, self.n_classes)
        if cost > DEAREST:
            self.dear[structure] = cost * SECONDS * FOLD_STEPS * FOLDS * self.closely.starts
        return cost <= DEAREST

    def left_out(self) -> Iterator[str]:
        """Say which candidates were left out for their cost."""
        if self.dear:
            least, most = (pick(self.dear.values()) / 60.0 for pick in (min, max))
            cost = f"{least:.2g} min" if len(self.dear) == 1 else f"{least:.2g} to {most:.2g} min each"
            dearest = max(self.dear, key=lambda structure: self.dear[structure])
            example = f"{dearest}" if len(self.dear) == 1 else f"{len(self.dear)} structures, as {dearest}"
            yield f"left out for their cost (about {cost} of a core): {example}"

    def is_double(self, structure: Structure) -> bool:
        """Whether another candidate is the same, in the features or in all principal components."""
        if structure.covariance in ("tied", "full"):
            return structure.subspace == NONE  # where the prior does not know the principal components
        return structure.covariance == "spherical" and structure.subspace == self.X.shape[1]

    def solve(
        self,
        structure: Structure,
        layers: Sequence[Layer],
        rng: Generator,
        *,
        steps: int = STEPS,
        labels: NDArray[np.int64] | None = None,
        first: Gaussians | None = None,
    ) -> Gaussians:
        """Fit a structure from one start.

        Parameters
        ----------
        structure : Structure
            Structure to fit.
        layers : sequence of Layer
            Annotations.
        rng : numpy.random.Generator
            The only source of randomness.
        steps : int
            Steps of each fit, at most.
        labels : ndarray of shape (n_samples,), optional
            Components to start from.
        first : Gaussians, optional
            The first fit of discriminative directions.
        """
        used = layers if structure.annotated else ()
        if structure.first is not None:
            fit = first or self.solve(structure.first, layers, rng, steps=steps, labels=labels)
            for turn in range(1, ROUNDS + 1):
                along = discriminative(self.X, self.center, fit.classes)
                at_most = steps if turn == ROUNDS else min(steps, COARSE_STEPS)
                Z = place(self.X, self.center, along)
                labels = fit.classes.argmax(axis=1)
                if structure.components > 1:  # rows that differ may be equal along few directions
                    many = min(structure.components * self.n_classes, len(np.unique(Z, axis=0)))
                    labels = best_start(Z, many, rng)
                fit = self._fit(structure, Z, along, used, rng, at_most, labels)
            return fit
        Z, axes = self.placed(structure.subspace), self.axes(structure.subspace)
        if labels is None:
            many, is_white = structure.components * self.n_classes, bool(rng.random() < 0.5)
            labels = best_start(self.seen(structure.subspace, is_white), many, rng)
        return self._fit(structure, Z, axes, used, rng, steps, labels)

    def keep(self, layers: Sequence[Layer]) -> None:
        """Lay annotations out once for all fits that are given this sequence: millions take some seconds."""
        self._links = layers, link(layers, len(self.X))

    def of_features(self, structure: Structure) -> Gaussians:
        """Return the best fit of a structure without annotations, from the starts that candidates share."""
        if structure not in self._of_features:
            many, alone = structure.components * self.n_classes, structure._replace(annotated=False)
            rng = np.random.default_rng(below(self.seed, HELD_OUT + 2 + FOLDS))
            space = structure.first.subspace if structure.first is not None else structure.subspace
            many = many if structure.first is None else structure.first.components * self.n_classes
            starts = [self.start(space, many, number) for number in range(self.closely.starts)]
            fits = [self.solve(alone, (), rng, labels=labels, steps=FOLD_STEPS) for labels in starts]
            self._of_features[structure] = max(fits, key=lambda fit: fit.bound)
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
    ) -> Gaussians:
        n_components = structure.components * self.n_classes
        if structure.covariance == KMEANS:
            hard = hard_classes(Z, labels, n_components)
            return replace(hard, structure=structure, center=self.center, axes=axes)
        kept, links = self._links
        gaussians = fit_components(
            Z,
            links if links is not None and layers is kept else layers,
            n_classes=self.n_classes,
            components=structure.components,
            covariance=structure.covariance,
            rng=rng,
            proportions=structure.proportions,
            labels=labels,
            steps=steps,
        )
        return replace(gaussians, structure=structure, center=self.center, axes=axes)


def best_start(Z: Floats, n_components: int, rng: Generator) -> NDArray[np.int64]:
    """The best of some k-means solutions, by inertia."""
    tries = [first_labels(Z, n_components, rng) for _ in range(TRIES)]
    return min(tries, key=lambda labels: _inertia(Z, labels, n_components))


def _inertia(Z: Floats, labels: NDArray[np.int64], n_components: int) -> float:
    return float(np.square(Z - _means(Z, labels, n_components)[labels]).sum())


def _means(Z: Floats, labels: NDArray[np.int64], n_components: int) -> Floats:
    sums = np.stack([np.bincount(labels, column, n_components) for column in Z.T], axis=1)
    return np.asarray(sums / np.maximum(np.bincount(labels, minlength=n_components), 1)[:, None])


def hard_classes(Z: Floats, labels: NDArray[np.int64], n_classes: int) -> Gaussians:
    """A partition of k-means as one component a class, all of one variance."""
    shares, means = np.zeros((len(Z), n_classes)), _means(Z, labels, n_classes)
    shares[np.arange(len(Z)), labels] = 1.0
    variance = np.square(Z - means[labels]).mean()
    return Gaussians(
        structure=Structure(NONE, 1, KMEANS),
        center=np.zeros(Z.shape[1]),
        class_of=np.arange(n_classes),
        classes=shares,
        weights=np.full(n_classes, 1.0 / n_classes),
        means=means,
        covariances=np.full(means.shape, max(variance, np.finfo(float).tiny)),
        terms=(-_inertia(Z, labels, n_classes), 0.0, 0.0),
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


def union_criteria(gaussians: Gaussians, X: Floats) -> Criteria:
    """Return the criteria of a soft fit: the likelihood is that of its features, in its coordinates.

    Parameters
    ----------
    gaussians : Gaussians
        Soft fit of these samples.
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    """
    Z = gaussians.place(X)
    n_samples, n_dims = Z.shape
    many, shape = len(gaussians.weights), gaussians.structure.covariance
    matrix = n_dims * (n_dims + 1) // 2
    of_shape = {
        KMEANS: 1,
        "spherical": many,
        "diagonal": many * n_dims,
        "tied": matrix,
        "full": many * matrix,
    }
    shares = 0 if gaussians.structure.proportions == "equal" or shape == KMEANS else many - 1
    n_free = many * n_dims + of_shape[shape] + shares
    logs = gaussians.class_densities(Z)
    whole = np.logaddexp.reduce(logs, axis=1)
    sure = np.exp(logs - whole[:, None])
    classification = float(logs[np.arange(n_samples), gaussians.labels].sum())
    entropy = -float((sure * np.log(np.maximum(sure, np.finfo(float).tiny))).sum())
    penalty = 0.5 * float(n_free) * math.log(n_samples)
    return Criteria(classification, n_free, penalty, float(whole.sum()) - classification, entropy)


def as_fit(X: Floats, gaussians: Gaussians) -> Fit:
    """Return a soft fit in the terms of the search: clusters are classes, with the moments of their shares.

    Covariances are spherical, whatever those of the components are.
    """
    sizes = np.bincount(gaussians.labels, minlength=gaussians.classes.shape[1])
    total = np.maximum(gaussians.classes.sum(axis=0), np.finfo(float).tiny)
    moved = X - gaussians.center
    means = np.einsum("nc,nf->cf", gaussians.classes, moved) / total[:, None]
    squares = gaussians.classes.T @ np.square(moved).sum(axis=1) / total - np.square(means).sum(axis=1)
    features, annotations, prior = gaussians.terms
    return Fit(
        labels=gaussians.labels,
        objective=gaussians.bound,
        gmm=features,
        sbm=annotations,
        prior=prior,
        sizes=sizes,
        centroids=means + gaussians.center,
        covariances=np.maximum(squares / X.shape[1], 0.0),
        local_searches=1,
        evaluations=gaussians.steps,
        caps_reached=int(gaussians.steps >= STEPS),
        gaussians=gaussians,
    )
