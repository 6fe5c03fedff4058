"""Candidates of a number of clusters, of values that a test chooses."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from kernels.choice.criteria import Criteria
from kernels.choice.held_out import HeldOut
from pipeline.choosing import Candidate

SURE = np.array([0.999, 0.001, 0.999, 0.999])


def candidate(n_clusters: int, bic: float, logs: list[float] | None = None) -> Candidate:
    """With a BIC and log-probabilities of held-out annotations."""
    best, scores = SimpleNamespace(objective=-1.0), {"annotation_agreement": 0.75}
    result: Any = SimpleNamespace(best=best, covariance="full", scores=scores)
    found = Criteria(bic, 7, 0.0, 0.0, 0.5)
    if logs is None:
        return Candidate(n_clusters, result, found, None)
    predicted = HeldOut(np.array(logs), np.array(logs) > -0.7, np.ones(len(logs)), SURE[: len(logs)])
    return Candidate(n_clusters, result, found, predicted)
