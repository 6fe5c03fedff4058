"""Scores of labels against true classes, also of k-means and of a mixture of Gaussians without annotations.

The two are those of scikit-learn, as `pipeline.methods.shipped` has them. The difference to their scores is
the gain by annotations.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sweep_clustering.kernels import scores

Floats = NDArray[np.float64]

# Scores against true classes: their keys in JSON, and their names for people.
AGREEMENT = {
    "nmi": "nmi (min, as in the paper)",
    "nmi_arithmetic": "nmi (arithmetic, as scikit-learn)",
    "ari": "ari",
}

# Largest number of starts of a method, of which the best is kept.
STARTS = 10

# Largest number of multiplications in a step of all starts, if there are several: some seconds.
WORK = 2e8

# Largest number of multiplications in a step of a single start: a minute or so.
MOST = 2e9


@dataclass(frozen=True)
class Unannotated:
    """Scores by `AGREEMENT` of the best start of a method without annotations, or why it has none."""

    key: str
    name: str
    starts: int
    scores: dict[str, float | None]
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}, without annotations: none, {self.reason}"
        # The line of the fit above has the whole names of the normalisers.
        values = re.sub(r"\((\w+), as [\w -]+\)", r"(\1)", score_words(self.scores))
        return f"{self.name}, without annotations, best of {self.starts}: {values}"

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**self.scores, "starts": self.starts, "reason": self.reason or None}


def with_truth(labels_true: NDArray[np.integer], labels: NDArray[np.integer]) -> dict[str, float]:
    """Return the scores of a partition against true classes, by the keys of `AGREEMENT`."""
    return {
        "nmi": scores.nmi(labels_true, labels),
        "nmi_arithmetic": scores.nmi(labels_true, labels, "arithmetic"),
        "ari": scores.adjusted_rand(labels_true, labels),
    }


def score_words(values: Mapping[str, float | None]) -> str:
    """Return the known ones of some scores in one line, with the normaliser of an NMI."""
    return ", ".join(
        f"{AGREEMENT.get(name, name)} {value:.4g}" for name, value in values.items() if value is not None
    )


def unannotated(
    X: Floats, labels_true: NDArray[np.integer] | None, n_clusters: int, seed: int
) -> tuple[Unannotated, ...]:
    """Return k-means and a mixture of Gaussians with full covariances; neither without true classes."""
    if labels_true is None:
        return ()
    # scikit-learn is loaded only if it is needed.
    from sweep_clustering.pipeline.methods.shipped.baselines import gaussian_mixture_full, k_means

    step = float(len(X)) * n_clusters * X.shape[1]
    inputs = (X, labels_true, n_clusters, seed)
    names = ("gaussian_mixture_full", "mixture of full Gaussians")
    return (
        _best(k_means, ("k_means", "k-means"), step, *inputs),
        _best(gaussian_mixture_full, names, step * X.shape[1], *inputs),
    )


def _best(
    method: Callable[..., Any],
    names: tuple[str, str],
    step: float,
    X: Floats,
    labels_true: NDArray[np.integer],
    n_clusters: int,
    seed: int,
) -> Unannotated:
    """Return the best of some starts of a method, whose step takes so many multiplications."""
    from sweep_clustering.pipeline.methods.contract import NoSolution

    starts = int(min(max(WORK // step, 1), STARTS))
    nothing: dict[str, float | None] = dict.fromkeys(AGREEMENT)
    if step > MOST:
        return Unannotated(*names, 0, nothing, "the table is too large to try it here")
    states = np.random.SeedSequence(seed).generate_state(starts).tolist()
    # One thread, because the bits of sums depend on the number of threads.
    with threadpool_limits(1), warnings.catch_warnings():
        # The scores show a fit that did not converge, or that has fewer distinct rows than clusters.
        warnings.simplefilter("ignore")
        try:
            solutions = [method(X, n_clusters, random_state=state) for state in states]
        except (NoSolution, ValueError) as error:
            return Unannotated(*names, 0, nothing, " ".join(str(error).split()))
    best = max(solutions, key=lambda solution: solution.objective)
    return Unannotated(*names, starts, {**with_truth(labels_true, np.asarray(best.labels))})
