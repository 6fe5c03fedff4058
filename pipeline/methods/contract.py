"""The arguments and the answer of a method."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sweep_clustering.sweeps.annotations.draw import CANNOT, MUST

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Links = Integers
Weights = tuple[Floats, Floats]

# How far the probabilities of a sample may be from summing to 1: float32 is good enough.
_TOLERANCE = 1e-6
# Wrong values that a message lists.
_MOST_VALUES = 5


class NoSolution(Exception):
    """Raised by a method that finds no clusters which keep what it promises: an answer, and no failure.

    Parameters
    ----------
    reason : str
        reason why there is no solution

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
    """The answer of a method is not valid; the message names all of its problems."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Clusters of a method, with their objective, centroids and probabilities if it has them.

    Parameters
    ----------
    labels : array_like of shape (n_samples,)
        cluster of each sample, from 0 to n_clusters - 1; clusters may stay empty
    objective : float, optional
        number that the method maximises: the restart with the largest one is kept. A cost needs a minus;
        log-likelihoods are in nats.
    centroids : array_like of shape (n_clusters, n_features), optional
        centres of the clusters, NaN in the rows of empty ones
    probabilities : array_like of shape (n_samples, n_clusters), optional
        probabilities of the clusters of each sample; rows sum to 1

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
    """A function that is called once for each restart of a cell."""

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
            features, scaled as the sweep file says; read-only
        n_clusters : int
            largest number of clusters
        must_link, cannot_link : ndarray of shape (n_pairs, 2), int64
            pairs of samples i < j, each once; a pair that was annotated both ways is in both. A method that
            uses nothing gets empty ones.
        weights : tuple of two ndarray of shape (n_pairs,), float64
            number of annotations of each must-link and of each cannot-link
        accuracy : float or None
            probability in (0, 1] that an annotation is right; None if it is not known
        random_state : int
            seed from 0 to 2**32 - 1, for `numpy.random.default_rng` and scikit-learn

        Returns
        -------
        array_like of shape (n_samples,) or Solution
            labels alone, or with an objective, centroids, probabilities

        Raises
        ------
        NoSolution
            If there is none.
        """
        ...


def accept(answer: ArrayLike | Solution, *, n_samples: int, n_features: int, n_clusters: int) -> Solution:
    """Return an answer with labels int16, the objective a float or None, and other arrays float64 or None.

    Raises
    ------
    BadAnswer
        With every problem: the value that was found and the one that was expected.
    """
    solution = answer if isinstance(answer, Solution) else Solution(answer)
    problems: list[str] = []

    def refuse(name: str, values: NDArray[Any], is_right: NDArray[np.bool_], expected: str) -> None:
        if not is_right.all():
            wrong = np.unique(values[~is_right])
            ellipsis = ", ..." if len(wrong) > _MOST_VALUES else ""
            numbers = ", ".join(f"{value:g}" for value in wrong[:_MOST_VALUES].tolist())
            problems.append(f"{name}: found {numbers}{ellipsis}, expected {expected}")

    labels = _array("labels", solution.labels, (n_samples,), problems)
    centroids = _array("centroids", solution.centroids, (n_clusters, n_features), problems)
    probabilities = _array("probabilities", solution.probabilities, (n_samples, n_clusters), problems)
    if labels is not None:
        is_label = (labels >= 0) & (labels < n_clusters) & (labels == np.floor(labels))
        refuse("labels", labels, is_label, f"whole numbers from 0 to {n_clusters - 1}")
        if centroids is not None and is_label.all():
            centers = centroids[np.unique(labels.astype(np.int16))]
            name = "centroids of clusters that have samples"
            refuse(name, centers, np.isfinite(centers), "finite numbers")
    if probabilities is not None:
        is_probability = (probabilities >= 0) & (probabilities <= 1 + _TOLERANCE)
        refuse("probabilities", probabilities, is_probability, "0 to 1")
        sums = probabilities.sum(axis=1)
        refuse("probabilities", sums, np.abs(sums - 1) <= _TOLERANCE, "sums of 1")
    objective = None
    if solution.objective is not None:
        try:
            objective = float(solution.objective) + 0.0  # no minus before a zero
        except (TypeError, ValueError):
            objective = np.nan
        if not np.isfinite(objective):
            problems.append(f"objective: found {solution.objective!r:.60}, expected a finite number")
    if problems or labels is None:
        raise BadAnswer("; ".join(problems or ["labels: found None, expected whole numbers"]))
    return Solution(labels.astype(np.int16), objective, centroids, probabilities)


def _array(name: str, values: ArrayLike | None, shape: tuple[int, ...], problems: list[str]) -> Floats | None:
    """Return an array of numbers of a shape, or None if there is none or it has a problem."""
    if values is None:
        return None
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        problems.append(f"{name}: found {type(values).__name__} that makes no array ({error})")
        return None
    if np.ma.isMaskedArray(values):  # its mask would be dropped, and what lies under it taken for good
        problems.append(f"{name}: found a masked array, expected values for all")
    elif array.dtype.kind not in "iuf":
        problems.append(f"{name}: found {array.dtype} values, expected numbers")
    elif array.shape != shape:
        problems.append(f"{name}: found shape {array.shape}, expected {shape}")
    else:
        return array.astype(np.float64)
    return None


class MergedLinks(NamedTuple):
    """Links that a method gets, with pairs i < j in ascending order, each once."""

    must_link: Links
    cannot_link: Links
    weights: Weights


def merged_links(annotations: NDArray[np.integer]) -> MergedLinks:
    """Return the links of annotations (n_annotations, 3): i, j and kind, 0 for a must-link, 1 for a
    cannot-link.

    Annotations of one pair, in either order, become one link of each kind, with their number as its weight.
    Self pairs, which carry no information on clusters, are left out.
    """
    pairs = np.sort(np.asarray(annotations[:, :2], dtype=np.int64), axis=1)
    kinds = np.asarray(annotations[:, 2])
    links, weights = [], []
    for kind in (MUST, CANNOT):
        is_link = (kinds == kind) & (pairs[:, 0] != pairs[:, 1])
        unique, counts = np.unique(pairs[is_link], axis=0, return_counts=True)
        links.append(unique)
        weights.append(counts.astype(np.float64))
    return MergedLinks(links[0], links[1], (weights[0], weights[1]))
