"""A table of features, and fits of structures to it (docs/model.md, section 12)."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray
from threadpoolctl import LibController, ThreadpoolController

from sweep_clustering.kernels.choice import HELD_OUT, UNSURE, Criteria, child_seed
from sweep_clustering.kernels.fits import Fit, Gaussians, Runner, project, squared_norms
from sweep_clustering.kernels.groups import fit as groups
from sweep_clustering.kernels.groups.merging import Partitions, means_of
from sweep_clustering.kernels.groups.metric import Answers
from sweep_clustering.kernels.problem.data import Floats, Layer, Links, count_distinct, link
from sweep_clustering.kernels.search.genetic import MAX_KMEANS_ITERATIONS
from sweep_clustering.kernels.settings import FOLDS
from sweep_clustering.kernels.structure import (
    DEAREST,
    KMEANS,
    LEARNED,
    LINEAR,
    MERGED_KINDS,
    MOST_DIMS,
    MOST_LEARNED,
    NONE,
    Structure,
    most_supported,
    operations,
    single_operations,
    wide_dims,
)
from sweep_clustering.kernels.unions.panels import Samples, samples_of
from sweep_clustering.kernels.unions.soft import MIN_RISE, STEPS, Beginning, begin, finish, first_labels

# Numbers of principal components that are tried, beside `wide_dims`, and all if they are at most `MOST_DIMS`.
DIMS = (2, 5, 10, 20)

# Coordinates and number of components of a start, and its number.
StartKey = tuple[int | str, int, int]


class CloseLook(NamedTuple):
    """Numbers of candidates to try again, fits that others start from, and starts of each fit."""

    top: int
    parents: int
    starts: int


CLOSE_LOOK = CloseLook(top=5, parents=2, starts=3)

# A close look at large tables, for which people would not wait for `CLOSE_LOOK`.
LARGE_CLOSE_LOOK = CloseLook(top=3, parents=1, starts=2)

# Product of samples, classes and rank above which a table is large.
LARGE = 5e5

# Steps of a first, coarse fit to the other folds.
COARSE_STEPS = 15

# Steps of a fit to the other folds.
FOLD_STEPS = 30

# Rise of the bound for each sample, nats: a step of a fit to the other folds that gains less is the last one.
FOLD_RISE = 0.002

# Steps after which k-means starts of fits to the other folds are compared by inertia.
FIRST_STEPS = 5

# How often directions and classes are found in turn.
ROUNDS = 3

# Share of the scatter within classes that is spread equally over all directions.
RIDGE = 0.1

# CPU time in seconds of each operation of a step.
SECONDS = 2.5e-10

# Least share of a class that compact Gaussians keep.
NEGLIGIBLE = 1e-6

# Threads of Python that run linear algebra at a time: each may hold matrices of the rows that are merged.
AT_ONCE = 4

# Least variance of a direction, as a share of the largest eigenvalue.
RANK = 1e-12


class CompactGaussians(NamedTuple):
    """Gaussians in little memory, with the shares of at least `NEGLIGIBLE` apart."""

    gaussians: Gaussians
    shape: tuple[int, ...]
    places: NDArray[np.int64]  # (n_shares,), in the flat array of shares
    shares: NDArray[np.float32]  # (n_shares,)

    @classmethod
    def from_gaussians(cls, gaussians: Gaussians) -> CompactGaussians:
        """Return a compact copy of Gaussians."""
        classes = gaussians.classes
        places = np.flatnonzero(classes >= NEGLIGIBLE)
        shares = classes.ravel()[places].astype(np.float32)
        bare = replace(gaussians, classes=classes[:0].copy())
        return cls(bare, classes.shape, places, shares)

    def to_gaussians(self) -> Gaussians:
        """Return the Gaussians with rounded shares."""
        classes = np.zeros(self.shape)
        classes.flat[self.places] = self.shares
        return replace(self.gaussians, classes=classes)


def _give_back() -> None:
    """Give memory that is free back to the system, where glibc would keep some for each thread."""
    with suppress(OSError, TypeError, AttributeError):  # another system, or another C library
        ctypes.CDLL(None).malloc_trim(0)


@cache
def _libraries() -> list[LibController]:
    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set_threads(numbers: Iterable[int]) -> None:
    """Set the number of threads of each library of linear algebra."""
    for library, number in zip(_libraries(), numbers, strict=True):
        # threadpoolctl 3.8 lets the first thread of Python that sets a number do so, and no other
        give_up = getattr(library, "clear_controlling_thread", lambda **_: None)
        give_up(force=True)
        library.set_num_threads(number)
        give_up(force=True)


class _OneThread:
    """Run linear algebra on one thread as long as any thread of Python is within; few are at a time."""

    def __init__(self) -> None:
        self._turns, self._lock = threading.Semaphore(AT_ONCE), threading.Lock()
        self._n_within, self._numbers = 0, list[int]()

    def __enter__(self) -> None:
        self._turns.acquire()
        with self._lock:
            if not self._n_within:
                self._numbers = [library.num_threads for library in _libraries()]
            self._n_within += 1
            _set_threads([1] * len(self._numbers))  # some libraries have a number for each thread of Python

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_within -= 1
            if not self._n_within:
                _set_threads(self._numbers)
        self._turns.release()


# Bits of linear algebra within it do not depend on the number of threads.
one_thread = _OneThread()


class Table:
    """Features with the principal components and the starts that all fits to them share.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    n_classes : int
        Number of classes.
    seed : numpy.random.SeedSequence
        Seed of the starts that candidates share.
    parent : Table, optional
        Table that this one is a part of. Its principal components are used, because it has more rows.
    """

    def __init__(self, X: Floats, n_classes: int, seed: SeedSequence, parent: Table | None = None) -> None:
        self.X, self.n_classes, self.seed = np.asarray(X, np.float64), n_classes, seed
        self._centered_X: Floats | None = None
        self._computing = threading.RLock()
        self.center: Floats = self.X.mean(axis=0) if parent is None else parent.center
        if parent is None:
            with one_thread:
                values, vectors = np.linalg.eigh(self.centered_X.T @ self.centered_X)
            self.rank, self.vectors = int((values > RANK * values[-1]).sum()), vectors[:, ::-1]
        else:
            self.rank, self.vectors = parent.rank, parent.vectors
        self.is_large = len(self.X) * n_classes * self.rank > LARGE
        self.close_look = LARGE_CLOSE_LOOK if self.is_large else CLOSE_LOOK
        self._coordinates: dict[int | str, Floats] = {}
        self._samples: dict[int | str, Samples] = {}
        self._starts: dict[tuple[Any, ...], NDArray[np.int64]] = {}
        self._feature_fits: dict[Structure, Gaussians] = {}
        self._distinct: dict[int | str, int] = {}
        self._last_axes: dict[int | str, tuple[Sequence[Layer] | Links | None, Floats | None]] = {}
        self._grounds: dict[tuple[int | str, bytes, str], groups.Ground] = {}
        self._links: tuple[Sequence[Layer] | None, Links | None] = None, None
        self.too_costly: dict[Structure, float] = {}  # seconds of candidates that are left out

    @property
    def centered_X(self) -> Floats:
        """The features from their means, an array of shape (n_samples, n_features)."""
        with self._computing:
            if self._centered_X is None:
                self._centered_X = self.X - self.center
            return self._centered_X

    def release(self) -> None:
        """Free the arrays of the size of the table, which are computed again where they are needed."""
        with self._computing:
            self._centered_X = None
            self._coordinates.clear()
            self._samples.clear()
        _give_back()

    @property
    def dims(self) -> tuple[int | str, ...]:
        """Coordinates of candidates, the features as they are last."""
        dims = [*(q for q in DIMS if q < self.rank), *wide_dims(self.rank, self.n_classes)]
        return (*dims, *([self.rank] if self.rank <= MOST_DIMS else []), NONE)

    def axes(self, subspace: int | str) -> Floats | None:
        """Return the directions of the principal components; None for the features as they are."""
        return None if isinstance(subspace, str) else self.vectors[:, :subspace]

    def coordinates(self, subspace: int | str) -> Floats:
        """Return the coordinates of all samples."""
        if subspace not in self._coordinates:
            self._coordinates[subspace] = self.place(self.axes(subspace))
        return self._coordinates[subspace]

    def place(self, axes: Floats | None) -> Floats:
        """Return the coordinates of all samples along axes; no bit of a row depends on the other rows."""
        return project(self.centered_X, axes)

    def criteria(self, gaussians: Gaussians) -> Criteria:
        """Return the criteria of a fit by the likelihood of the features in its coordinates."""
        return union_criteria(gaussians, self.place(gaussians.axes))

    def samples(self, subspace: int | str) -> Samples:
        """Return the coordinates of all samples as fits read them; several fits at once make one copy."""
        with self._computing:
            if subspace not in self._samples:
                self._samples[subspace] = samples_of(self.coordinates(subspace))
            return self._samples[subspace]

    def distinct(self, subspace: int | str) -> int:
        """Return the number of samples that differ in their coordinates."""
        if subspace not in self._distinct:
            self._distinct[subspace] = count_distinct(self.coordinates(subspace))
        return self._distinct[subspace]

    def start(self, subspace: int | str, n_components: int, number: int) -> NDArray[np.int64]:
        """Return the components that candidates of all shapes and folds start from."""
        key = (subspace, n_components, number)
        if key not in self._starts:
            dims = 0 if isinstance(subspace, str) else subspace
            rng = np.random.default_rng(child_seed(self.seed, HELD_OUT, dims, n_components, number))
            Z = self.start_coordinates(subspace, number % 2 == 1)
            self._starts[key] = first_labels(Z, n_components, rng, FIRST_STEPS)
        return self._starts[key]

    def find_starts(self, structures: Iterable[Structure], n_starts: int, run: Runner) -> None:
        """Compute the starts of some structures that are not known yet, several at the same time."""
        keys = dict.fromkeys(  # without repetition, because structures share starts
            (structure.subspace, structure.components * self.n_classes, number)
            for structure in structures
            for number in range(n_starts if structure.first is None else 0)
        )
        missing_keys = [key for key in keys if key not in self._starts]
        for subspace, _, _ in missing_keys:
            self.coordinates(subspace)
        tuple(run(self._find_start, missing_keys))

    def _find_start(self, key: StartKey) -> None:
        self.start(*key)

    def start_coordinates(self, subspace: int | str, is_white: bool) -> Floats:
        """Return the coordinates for the k-means of a start, with equal variances along all axes if asked.

        Equal variances find classes that differ along directions of little variance. If a class has fewer
        rows than directions, chance alone moves centroids further than the distances within a class, so that
        the first principal components are used in place of the features.
        """
        if isinstance(subspace, str):
            n_axes = max(MOST_DIMS, self.n_classes)
            if n_axes < self.rank and len(self.X) < self.n_classes * self.rank:
                subspace = n_axes
            elif is_white:
                subspace = self.rank
        Z = self.coordinates(subspace)
        if not is_white:
            return Z
        deviations = Z.std(axis=0)  # 0 if all rows of a part are equal along an axis of the whole
        return np.asarray(Z / np.where(deviations > 0.0, deviations, 1.0))

    def allows(self, structure: Structure) -> bool:
        """Return whether there are enough samples for a candidate, and its cost is acceptable."""
        n_components, covariance = structure.components, structure.covariance
        if n_components > 1 and n_components * self.n_classes > self.distinct(structure.subspace):
            return False
        n_samples, n_dims = self.coordinates(structure.subspace).shape
        if n_components > most_supported(covariance, n_samples, self.n_classes):
            return False
        cost = n_components * operations(covariance, n_samples, n_dims, self.n_classes)
        if n_components == 1 and covariance not in ("tied", "full"):
            cost = single_operations(n_samples, n_dims, self.n_classes)
        if cost > DEAREST:
            self.too_costly[structure] = cost * SECONDS * FOLD_STEPS * FOLDS * self.close_look.starts
        return cost <= DEAREST

    def cost_notes(self) -> Iterator[str]:
        """Yield a note on the candidates that were left out for their cost, if there are any."""
        if seconds := self.too_costly:
            limits = min(seconds.values()) / 60.0, max(seconds.values()) / 60.0
            minutes = " to ".join(dict.fromkeys(f"{limit:.2g}" for limit in limits))  # equal ones once
            cost = f"{minutes} min" if len(seconds) == 1 else f"{minutes} min each"
            costliest = max(seconds, key=lambda structure: seconds[structure])
            example = f"{costliest}" if len(seconds) == 1 else f"{len(seconds)} structures, as {costliest}"
            yield f"left out for their cost (about {cost} of a core): {example}"

    def is_duplicate(self, structure: Structure) -> bool:
        """Return whether another candidate is the same, in the features or in all principal components."""
        if structure.covariance in ("tied", "full"):
            return structure.subspace == NONE  # their prior does not depend on principal components
        return structure.covariance == "spherical" and structure.subspace == self.X.shape[1]

    def solve(
        self,
        structure: Structure,
        layers: Sequence[Layer] | Links,
        rng: Generator,
        *,
        steps: int = STEPS,
        rise: float = 0.0,
        labels: NDArray[np.int64] | None = None,
        first: Gaussians | None = None,
    ) -> Gaussians:
        """Fit a structure from one start.

        Parameters
        ----------
        structure : Structure
            Structure to fit.
        layers : sequence of Layer, or Links
            Annotations.
        rng : numpy.random.Generator
            The only source of randomness.
        steps : int
            Most steps of each fit.
        rise : float
            Rise of the bound for each sample, in nats, with which a step is the last one.
        labels : ndarray of shape (n_samples,), optional
            Components to start from.
        first : Gaussians, optional
            First fit of discriminative directions.
        """
        if structure.covariance == LINEAR and structure.first is not None:
            start = self.fit_groups([structure.first], layers, rng)[0]
            return self.fit_linear(structure, layers, start.labels)
        if structure.covariance in MERGED_KINDS:
            return self.fit_groups([structure], layers, rng)[0]
        annotations = layers if structure.annotated else ()
        if structure.first is not None:
            fit = first or self.solve(structure.first, layers, rng, steps=steps, rise=rise, labels=labels)
            for turn in range(1, ROUNDS + 1):
                axes = discriminative(self.centered_X, fit.classes)
                max_steps = steps if turn == ROUNDS else min(steps, COARSE_STEPS)
                Z = self.place(axes)
                labels = fit.classes.argmax(axis=1)
                if structure.components > 1:  # different rows may be equal along few directions
                    count = min(structure.components * self.n_classes, count_distinct(Z))
                    labels = first_labels(Z, count, rng, FIRST_STEPS if rise else MAX_KMEANS_ITERATIONS)
                beginning = self._begin(structure, samples_of(Z), labels)
                fit = self.finish(structure, beginning, annotations, rng, max_steps, rise, axes=axes)
            return fit
        if labels is None:
            n_components, is_white = structure.components * self.n_classes, bool(rng.random() < 0.5)
            labels = first_labels(self.start_coordinates(structure.subspace, is_white), n_components, rng)
        if structure.covariance == KMEANS:
            return self._hard(structure, labels)
        return self.finish(structure, self.begin(structure, labels), annotations, rng, steps, rise)

    def axes_in(self, space: int | str, layers: Sequence[Layer] | Links, answers: Answers) -> Floats | None:
        """Return the axes of a space that answers teach; those of the last layers are kept."""
        if space not in LEARNED:
            return self.axes(space)
        last_layers, axes = self._last_axes.get(space, (None, None))
        if last_layers is not layers:
            with one_thread:
                main_axes = self.vectors[:, : min(self.rank, MOST_LEARNED)]
                axes = groups.directions(self.centered_X, space, answers, main_axes)
            self._last_axes[space] = layers, axes
        return axes

    def fit_groups(
        self,
        structures: Sequence[Structure],
        layers: Sequence[Layer] | Links,
        rng: Generator,
        axes: Floats | None = None,
    ) -> list[Gaussians]:
        """Fit structures of merged groups in one space, whose axes may be known, from the same groups."""
        links = self.links(layers)
        if axes is None:
            axes = self.axes_in(structures[0].subspace, layers, groups.answers_of(links))
        with one_thread:
            Z = self.place(axes)
            # all folds and accuracies have the same groups in a space that answers do not change
            stream = str(rng.bit_generator.state)
            key = structures[0].subspace, b"" if axes is None else sha256(axes.tobytes()).digest(), stream
            if key not in self._grounds:
                self._grounds[key] = groups.ground_of(Z, self.n_classes, rng)
            fits = groups.fit_groups(Z, links, structures, self.n_classes, rng, self._grounds[key])
        return [replace(fit, center=self.center, axes=axes) for fit in fits]

    def average(self, partitions: Partitions, rng: Generator) -> Floats:
        """Return the share of each class in each row, by the votes of weighted partitions."""
        with one_thread:
            return groups.average_votes(self.centered_X, partitions, self.n_classes, rng)

    def fit_linear(
        self,
        structure: Structure,
        layers: Sequence[Layer] | Links,
        labels: NDArray[np.integer],
        axes: Floats | None = None,
    ) -> Gaussians:
        """Fit classes that linear functions tell apart, starting from a partition; axes may be known."""
        links = self.links(layers)
        if axes is None:
            axes = self.axes_in(structure.subspace, layers, groups.answers_of(links))
        with one_thread:
            fit = groups.fit_linear(self.place(axes), links, structure, labels, self.n_classes)
        return replace(fit, center=self.center, axes=axes)

    def lay_out(self, layers: Sequence[Layer]) -> None:
        """Lay annotations out for all fits to this sequence: millions of them take some seconds."""
        self._links = layers, link(layers, len(self.X))

    def links(self, layers: Sequence[Layer] | Links) -> Links:
        """Return annotations as they are laid out for fits."""
        if isinstance(layers, Links):
            return layers
        linked_layers, links = self._links
        return links if links is not None and layers is linked_layers else link(layers, len(self.X))

    def fit_features(self, structure: Structure) -> Gaussians:
        """Return the best fit of a structure without annotations, from the shared starts."""
        if structure not in self._feature_fits:
            first, plain = structure.first or structure, structure._replace(annotated=False)
            n_components, n_starts = first.components * self.n_classes, self.close_look.starts
            rng = np.random.default_rng(child_seed(self.seed, HELD_OUT + 2 + FOLDS))
            starts = [self.start(first.subspace, n_components, number) for number in range(n_starts)]
            fits = [
                self.solve(plain, (), rng, labels=labels, steps=FOLD_STEPS, rise=FOLD_RISE)
                for labels in starts
            ]
            self._feature_fits[structure] = max(fits, key=lambda fit: fit.bound)
        return self._feature_fits[structure]

    def begin(self, structure: Structure, labels: NDArray[np.int64]) -> Beginning:
        """Take the first steps of a fit in coordinates of the table, which fits to all folds share."""
        return self._begin(structure, self.samples(structure.subspace), labels)

    def _begin(self, structure: Structure, samples: Samples, labels: NDArray[np.int64]) -> Beginning:
        return begin(
            samples,
            labels,
            n_classes=self.n_classes,
            n_components=structure.components * self.n_classes,
            covariance=structure.covariance,
            proportions=structure.proportions,
        )

    def finish(
        self,
        structure: Structure,
        beginning: Beginning,
        layers: Sequence[Layer] | Links,
        rng: Generator,
        steps: int,
        rise: float,
        *,
        axes: Floats | None = None,
    ) -> Gaussians:
        """Fit annotations from the first steps on; directions have axes, and `solve` the parameters."""
        links = self.links(layers)
        min_rise = max(MIN_RISE, rise * len(self.X))
        gaussians = finish(beginning, links.assume(structure.odds), rng, steps, min_rise)
        if structure.odds:
            gaussians = replace(gaussians, accuracies=groups.accuracies_of(links, gaussians.classes))
        axes = self.axes(structure.subspace) if axes is None else axes
        return replace(gaussians, structure=structure, center=self.center, axes=axes)

    def _hard(self, structure: Structure, labels: NDArray[np.int64]) -> Gaussians:
        Z, n_components = self.coordinates(structure.subspace), structure.components * self.n_classes
        hard = hard_classes(Z, labels, n_components)
        return replace(hard, structure=structure, center=self.center, axes=self.axes(structure.subspace))


def hard_classes(Z: Floats, labels: NDArray[np.int64], n_classes: int) -> Gaussians:
    """Return a partition by k-means as Gaussians of one variance, one for each class."""
    shares, means = np.zeros((len(Z), n_classes)), means_of(Z, labels, n_classes)
    shares[np.arange(len(Z)), labels] = 1.0
    squares = means[labels]
    np.square(np.subtract(Z, squares, out=squares), out=squares)
    # as many classes as rows have no scatter
    min_variance = np.finfo(float).eps * float(np.vdot(Z, Z)) / Z.size
    return Gaussians(
        structure=Structure(NONE, 1, KMEANS),
        center=np.zeros(Z.shape[1]),
        class_of=np.arange(n_classes),
        classes=shares,
        weights=np.full(n_classes, 1.0 / n_classes),
        means=means,
        covariances=np.full(means.shape, max(squares.mean(), min_variance)),
        terms=(-float(squares.sum()), 0.0, 0.0),
    )


def discriminative(centered_X: Floats, classes: Floats) -> Floats:
    """Return the directions along which classes differ most, relative to the scatter within them.

    Parameters
    ----------
    centered_X : ndarray of shape (n_samples, n_features)
        Features from their means.
    classes : ndarray of shape (n_samples, n_classes)
        Share of each class in each sample.

    Returns
    -------
    ndarray of shape (n_features, n_dims)
        K - 1 directions, or as many as features; samples have unit variance along each.
    """
    with one_thread:
        sizes = classes.sum(axis=0) + UNSURE
        means = (classes.T @ centered_X) / sizes[:, None]
        scatter_between, total = (means.T * sizes) @ means, centered_X.T @ centered_X
        scatter = max(float(np.trace(total - scatter_between)), np.finfo(float).tiny)
        scatter_within = (1.0 - RIDGE) * (total - scatter_between)
        scatter_within += RIDGE * scatter / len(total) * np.eye(len(total))
        n_dims = min(classes.shape[1] - 1, centered_X.shape[1]) or 1
        whiten = np.linalg.inv(np.linalg.cholesky(scatter_within))  # the general problem as an ordinary one
        _, vectors = np.linalg.eigh(whiten @ scatter_between @ whiten.T)
        axes = whiten.T @ vectors[:, ::-1][:, :n_dims]
        return np.ascontiguousarray(
            axes / np.sqrt(np.einsum("fd,fg,gd->d", axes, total, axes) / len(classes))
        )


def union_criteria(gaussians: Gaussians, Z: Floats) -> Criteria:
    """Return the criteria of a soft fit to features, by their likelihood in its coordinates."""
    n_samples, n_dims = Z.shape
    n_components, shape = len(gaussians.weights), gaussians.structure.covariance
    matrix = n_dims * (n_dims + 1) // 2
    of_shape = {
        **dict.fromkeys((KMEANS, *MERGED_KINDS), 1),
        "spherical": n_components,
        "diagonal": n_components * n_dims,
        "tied": matrix,
        "full": n_components * matrix,
    }
    n_shares = 0 if gaussians.structure.proportions == "equal" or shape == KMEANS else n_components - 1
    n_free = n_components * n_dims + of_shape[shape] + n_shares
    logs = gaussians.class_densities(Z)
    log_sums = np.logaddexp.reduce(logs, axis=1)
    shares = np.exp(logs - log_sums[:, None])
    classification = float(logs[np.arange(n_samples), gaussians.labels].sum())
    entropy = -float((shares * np.log(np.maximum(shares, np.finfo(float).tiny))).sum())
    penalty = 0.5 * float(n_free) * math.log(n_samples)
    return Criteria(classification, n_free, penalty, float(log_sums.sum()) - classification, entropy)


def as_fit(centered_X: Floats, gaussians: Gaussians) -> Fit:
    """Return a soft fit to features from their means as a `Fit`, with spherical Gaussians of the classes."""
    sizes = np.bincount(gaussians.labels, minlength=gaussians.classes.shape[1])
    total = np.maximum(gaussians.classes.sum(axis=0), np.finfo(float).tiny)
    means = np.einsum("nc,nf->cf", gaussians.classes, centered_X) / total[:, None]
    squares = gaussians.classes.T @ squared_norms(centered_X) / total - np.square(means).sum(axis=1)
    features, annotations, prior = gaussians.terms
    return Fit(
        labels=gaussians.labels,
        objective=gaussians.bound,
        gmm=features,
        sbm=annotations,
        prior=prior,
        sizes=sizes,
        centroids=means + gaussians.center,
        covariances=np.maximum(squares / centered_X.shape[1], 0.0),
        local_searches=1,
        evaluations=gaussians.steps,
        caps_reached=int(gaussians.steps >= STEPS),
        gaussians=gaussians,
    )
