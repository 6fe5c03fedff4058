"""A path of questions: batch after batch, each chosen given the answers before it, answered by an oracle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.problem.problem import layers_from_annotations
from kernels.rng import below
from kernels.settings import AUTO
from pipeline.asking.belief import believe
from pipeline.asking.strategies import STRATEGIES
from sweeps.annotations.draw import answer_pairs


def next_answers(
    X: NDArray[np.float64],
    labels_true: NDArray[np.integer],
    path: NDArray[np.int32],
    *,
    n_clusters: int,
    p: float,
    strategy: str,
    count: int,
    seed: np.random.SeedSequence,
    covariance: str = AUTO,
    restarts: int = 3,
) -> NDArray[np.int32]:
    """Choose the next batch of questions of a path, and answer them with accuracy `p`.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    labels_true : ndarray of shape (n_samples,)
        What the oracle answers from.
    path : ndarray of shape (n_answers, 3), int32
        Annotations so far: columns i, j, kind; none is a cold start.
    n_clusters : int
        K.
    p : float
        Accuracy of the oracle, and what the model is told.
    strategy : str
        One of `STRATEGIES`.
    count : int
        Length of the batch.
    seed : numpy.random.SeedSequence
        Of all randomness of this batch; it is not changed.
    covariance : str
        Shape of the covariances of the model that asks; "auto" chooses one for each batch.
    restarts : int
        Of the search before each batch.

    Returns
    -------
    ndarray of shape (count, 3), int32
        Columns i, j and kind, in the order of asking; fewer rows if there are not so many pairs. No pair
        comes twice in a batch.
    """
    belief = believe(
        X,
        layers_from_annotations(path, p) if len(path) else [],
        n_clusters=n_clusters,
        accuracy=p,
        seed=seed,
        covariance=covariance,
        restarts=restarts,
    )
    rng = np.random.default_rng(below(seed, 3))
    chosen = STRATEGIES[strategy](belief, path, count, rng)
    return answer_pairs(rng, labels_true, chosen.pairs, p=p)
