"""What a method takes and what it gives."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Links = Whole
Weights = tuple[Floats, Floats]

# How far the probabilities of a sample may be from summing to 1: float32 is good enough.
_TOLERANCE = 1e-6
_SHOWN = 5


class NoSolution(Exception):
    """Raised by a method that finds no clusters which keep what it promises: no failure, but an answer.

    Parameters
    ----------
    reason : str
        Why there is none.

    Examples
    --------
    >>> from sweep_clustering import NoSolution
    >>> def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    ...     if {*map(tuple, must_link)} & {*map(tuple, cannot_link)}:
    ...         raise NoSolution("some pairs are both must-links and cannot-links")
    >>> pairs = [(0, 1)]
    >>> cluster(None, 2, pairs, pairs, weights=None, accuracy=None, random_state=0)
    Traceback (most recent call last):
        ...
    sweep_clustering.pipeline.methods.contract.NoSolution: some pairs are both must-links and cannot-links
    """


class BadAnswer(ValueError):
    """An answer of a method that is none, with everything that is wrong with it."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Clusters that a method found, and what else it knows of them.

    Parameters
    ----------
    labels : array_like of shape (n_samples,)
        Cluster of each sample, from 0 to n_clusters - 1. Clusters may stay empty.
    objective : float, optional
        What the method maximises: of several restarts, that of the largest objective is kept. A cost is
        given with its sign turned; log-likelihoods are in nats.
    centroids : array_like of shape (n_clusters, n_features), optional
        Centres of the clusters; NaN in the rows of empty ones.
    probabilities : array_like of shape (n_samples, n_clusters), optional
        Of each cluster for each sample; rows sum to 1.

    Examples
    --------
    >>> from sweep_clustering import Solution
    >>> Solution([0, 0, 1], objective=-2.5)
    Solution(labels=[0, 0, 1], objective=-2.5, centroids=None, probabilities=None)
    """

    labels: ArrayLike
    objective: float | None = None
    centroids: ArrayLike | None = None
    probabilities: ArrayLike | None = None


class Method(Protocol):
    """What is called once for each restart of a cell."""

    def __call__(
        self,
        X: Floats,
        n_clusters: int,
        must_link: Links,
        cannot_link: Links,
        *,
        weights: Weights,
        accuracy: float | None,
        random_state: int,
    ) -> ArrayLike | Solution:
        """Cluster samples.

        Further arguments, by name and with a default, are options, which a sweep file may set.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features), float64
            Features, scaled as the sweep file says; read-only.
        n_clusters : int
            Clusters there may be.
        must_link, cannot_link : ndarray of shape (n_pairs, 2), int64
            Pairs of samples i < j, each once; a pair that was annotated both ways is in both. A method that
            uses nothing gets empty ones.
        weights : tuple of two ndarray of shape (n_pairs,), float64
            How often each must-link and each cannot-link was annotated.
        accuracy : float or None
            Probability in (0, 1] that an annotation is right; None where it is not told.
        random_state : int
            From 0 to 2**32 - 1, which `numpy.random.default_rng` and scikit-learn take.

        Returns
        -------
        array_like of shape (n_samples,) or Solution
            Labels alone, or with an objective, centroids, probabilities.

        Raises
        ------
        NoSolution
            If there is none.
        """
        ...


def checked(answer: ArrayLike | Solution, *, n_samples: int, n_features: int, n_clusters: int) -> Solution:
    """An answer in one form, or everything that is wrong with it.

    Parameters
    ----------
    answer : array_like or Solution
        What a method returned.
    n_samples, n_features, n_clusters : int
        Of the call.

    Returns
    -------
    Solution
        With `labels` of shape (n_samples,), int16; `objective` a float or None; `centroids` and
        `probabilities` float64 of the shapes of `Solution`, or None.

    Raises
    ------
    BadAnswer
        Naming what was found and what was expected, of all parts.
    """
    given = answer if isinstance(answer, Solution) else Solution(answer)
    problems: list[str] = []

    def refuse(what: str, values: NDArray[Any], right: NDArray[np.bool_], expected: str) -> None:
        if not right.all():
            wrong = np.unique(values[~right])
            more = ", ..." if len(wrong) > _SHOWN else ""
            found = ", ".join(f"{value:g}" for value in wrong[:_SHOWN].tolist())
            problems.append(f"{what}: found {found}{more}, expected {expected}")

    labels = _array("labels", given.labels, (n_samples,), problems)
    centroids = _array("centroids", given.centroids, (n_clusters, n_features), problems)
    probabilities = _array("probabilities", given.probabilities, (n_samples, n_clusters), problems)
    if labels is not None:
        whole = (labels >= 0) & (labels < n_clusters) & (labels == np.floor(labels))
        refuse("labels", labels, whole, f"whole numbers from 0 to {n_clusters - 1}")
        if centroids is not None and whole.all():
            filled = centroids[np.unique(labels.astype(np.int16))]
            refuse("centroids of clusters that have samples", filled, np.isfinite(filled), "finite numbers")
    if probabilities is not None:
        within = (probabilities >= 0) & (probabilities <= 1 + _TOLERANCE)
        refuse("probabilities", probabilities, within, "0 to 1")
        sums = probabilities.sum(axis=1)
        refuse("probabilities", sums, np.abs(sums - 1) <= _TOLERANCE, "sums of 1")
    objective = None
    if given.objective is not None:
        try:
            objective = float(given.objective) + 0.0  # no minus before a zero
        except (TypeError, ValueError):
            objective = np.nan
        if not np.isfinite(objective):
            problems.append(f"objective: found {given.objective!r:.60}, expected a finite number")
    if problems or labels is None:
        raise BadAnswer("; ".join(problems or ["labels: found None, expected whole numbers"]))
    return Solution(labels.astype(np.int16), objective, centroids, probabilities)


def _array(name: str, found: ArrayLike | None, shape: tuple[int, ...], problems: list[str]) -> Floats | None:
    """Numbers of a shape; None where there are none, or something is wrong with them."""
    if found is None:
        return None
    try:
        array = np.asarray(found)
    except (TypeError, ValueError) as error:
        problems.append(f"{name}: found {type(found).__name__} that makes no array ({error})")
        return None
    if np.ma.isMaskedArray(found):  # its mask would be dropped, and what lies under it taken for good
        problems.append(f"{name}: found a masked array, expected values for all")
    elif array.dtype.kind not in "iuf":
        problems.append(f"{name}: found {array.dtype} values, expected numbers")
    elif array.shape != shape:
        problems.append(f"{name}: found shape {array.shape}, expected {shape}")
    else:
        return array.astype(np.float64)
    return None


def merged_links(annotations: NDArray[np.integer]) -> tuple[Links, Links, Weights]:
    """Links of a method from the annotations of a cell.

    Annotations of one pair, in either order, become one link of each kind, in ascending order of (i, j). Self
    pairs, which say nothing of clusters, are left out.

    Parameters
    ----------
    annotations : ndarray of shape (n_annotations, 3)
        Columns i, j and kind, 0 for a must-link and 1 for a cannot-link.

    Returns
    -------
    must_link, cannot_link : ndarray of shape (n_pairs, 2), int64
        Pairs i < j, each once.
    weights : tuple of two ndarray of shape (n_pairs,), float64
        How often each was annotated.
    """
    pairs = np.sort(np.asarray(annotations[:, :2], dtype=np.int64), axis=1)
    kinds = np.asarray(annotations[:, 2])
    links, weights = [], []
    for kind in (MUST, CANNOT):
        counted = (kinds == kind) & (pairs[:, 0] != pairs[:, 1])
        unique, counts = np.unique(pairs[counted], axis=0, return_counts=True)
        links.append(unique)
        weights.append(counts.astype(np.float64))
    return links[0], links[1], (weights[0], weights[1])
