"""Answers about pairs of rows, right or wrong, are layers of annotations."""

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.choice import HeldOut
from sweep_clustering.kernels.problem.data import CANNOT, MUST, Layer

Key = TypeVar("Key", bound=Hashable)


def are_alike(labels: NDArray[Any], pairs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether both rows of each pair are of one class."""
    return np.equal(labels[pairs[:, 0]], labels[pairs[:, 1]])


def layers_of(pairs: NDArray[Any], is_must: NDArray[np.bool_], **fields: Any) -> list[Layer]:
    """Return a layer of must-links and one of cannot-links."""
    return [Layer(MUST, pairs[is_must], **fields), Layer(CANNOT, pairs[~is_must], **fields)]


def answered(
    pairs: NDArray[Any], labels: NDArray[Any], rng: np.random.Generator, *, right: float, **fields: Any
) -> list[Layer]:
    """Draw answers about pairs, a share of which is right."""
    return layers_of(pairs, are_alike(labels, pairs) == (rng.random(len(pairs)) < right), **fields)


def scores_behind(
    behind: Mapping[Key, float], weights: NDArray[np.float64], loss: float = 0.3
) -> dict[Key, HeldOut]:
    """Return predictions that are so many standard errors, each a hundredth of a nat, behind the best."""
    rng, scores = np.random.default_rng(0), dict[Key, HeldOut]()
    for key, errors in behind.items():
        noise = rng.normal(size=len(weights))
        noise -= np.average(noise, weights=weights)
        noise *= 0.01 * weights.sum() / np.linalg.norm(weights * noise) if errors else 0.0
        logs = noise - loss - 0.01 * errors
        scores[key] = HeldOut(logs, logs > np.log(0.5), weights, np.exp(logs))
    return scores
