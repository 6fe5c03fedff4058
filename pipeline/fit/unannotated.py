"""Labels beside true classes, and what k-means and a mixture of Gaussians find there without annotations.

The two are those of scikit-learn, as `pipeline.methods.shipped` has them: what annotations bring is the
difference to their scores.
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

# Scores against true classes by their keys in JSON, as people read them.
AGREEMENT = {
    "nmi": "nmi (min, as in the paper)",
    "nmi_arithmetic": "nmi (arithmetic, as scikit-learn)",
    "ari": "ari",
}

# Starts of each method, of which the best is kept, as long as a step of all of them together is at most WORK
# multiplications: some seconds. One start is tried up to MOST, a minute or so.
STARTS, WORK, MOST = 10, 2e8, 2e9


@dataclass(frozen=True)
class Unannotated:
    """What a method without annotations finds.

    Parameters
    ----------
    key, name : str
        In JSON, and as people read it.
    starts : int
        Of which the one of the largest objective was kept.
    scores : dict of str to (float or None)
        Those of `AGREEMENT`; None if there is no solution.
    reason : str
        Why there is none.
    """

    key: str
    name: str
    starts: int
    scores: dict[str, float | None]
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}, without annotations: none, {self.reason}"
        # the line of the fit above has the normalisers in full
        said = re.sub(r"\((\w+), as [\w -]+\)", r"(\1)", score_words(self.scores))
        return f"{self.name}, without annotations, best of {self.starts}: {said}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**self.scores, "starts": self.starts, "reason": self.reason or None}


def with_truth(labels_true: NDArray[np.integer], labels: NDArray[np.integer]) -> dict[str, float]:
    """Scores of a partition by true classes, those of `AGREEMENT`."""
    return {
        "nmi": scores.nmi(labels_true, labels),
        "nmi_arithmetic": scores.nmi(labels_true, labels, "arithmetic"),
        "ari": scores.adjusted_rand(labels_true, labels),
    }


def score_words(found: Mapping[str, float | None]) -> str:
    """Those scores that are known, in one line; each NMI with its normaliser."""
    return ", ".join(
        f"{AGREEMENT.get(name, name)} {value:.4g}" for name, value in found.items() if value is not None
    )


def unannotated(
    X: Floats, labels_true: NDArray[np.integer] | None, n_clusters: int, seed: int
) -> tuple[Unannotated, ...]:
    """Scores of k-means and of a mixture of Gaussians with full covariances; none without true classes.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as a fit takes them.
    labels_true : ndarray of shape (n_samples,) or None
        Classes.
    n_clusters : int
        Of the fit.
    seed : int
        Of the fit: the same seed, the same scores.

    Returns
    -------
    tuple of Unannotated
        One that has no solution says why.
    """
    if labels_true is None:
        return ()
    # scikit-learn is loaded where it is needed alone
    from sweep_clustering.pipeline.methods.shipped.baselines import gaussian_mixture_full, k_means

    step = float(len(X)) * n_clusters * X.shape[1]
    return (
        _best(k_means, ("k_means", "k-means"), step, X, labels_true, n_clusters, seed),
        _best(
            gaussian_mixture_full,
            ("gaussian_mixture_full", "mixture of full Gaussians"),
            step * X.shape[1],
            X,
            labels_true,
            n_clusters,
            seed,
        ),
    )


def _best(
    method: Callable[..., Any],
    named: tuple[str, str],
    step: float,
    X: Floats,
    labels_true: NDArray[np.integer],
    n_clusters: int,
    seed: int,
) -> Unannotated:
    """The best of some starts of a method, of which a step takes so many multiplications."""
    from sweep_clustering.pipeline.methods.contract import NoSolution

    starts = int(min(max(WORK // step, 1), STARTS))
    nothing: dict[str, float | None] = dict.fromkeys(AGREEMENT)
    if step > MOST:
        return Unannotated(*named, 0, nothing, "the table is too large to try it here")
    found = []
    # one thread: the bits of sums depend on how many there are
    with threadpool_limits(1), warnings.catch_warnings():
        # of what did not converge or has fewer distinct rows than clusters: the scores show it
        warnings.simplefilter("ignore")
        try:
            for state in np.random.SeedSequence(seed).generate_state(starts).tolist():
                found.append(method(X, n_clusters, random_state=state))
        except (NoSolution, ValueError) as error:
            return Unannotated(*named, 0, nothing, " ".join(str(error).split()))
    best = max(found, key=lambda solution: solution.objective)
    return Unannotated(*named, starts, {**with_truth(labels_true, np.asarray(best.labels))})
