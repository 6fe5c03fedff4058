"""Terms of the shapes that have a prior on covariances: diagonal, tied and full (docs/model.md, section 8).

All of them are functions of a size and of a log-determinant, log|S + ridge I|, in the coordinates Z.
"""

from __future__ import annotations

import numpy as np

from kernels.jit import jit_part
from kernels.partition.state import State
from kernels.problem.data import DIAGONAL, TIED, Data

EPSILON = 2.0**-52
"""Distance from 1 to the next number: the unit of the bounds on rounding."""


@jit_part
def shaped_term(data: Data, size: int, logdet: float) -> float:
    """Part in gmm of `size` samples of one covariance, nats; 0 if there are none or it is degenerate."""
    if size == 0 or logdet == np.inf:
        return 0.0
    n_dims = data.Z.shape[1]
    freedom = size + data.freedom
    value = freedom * (logdet - n_dims * (data.log_freedom[size] - 1.0))
    return float(-0.5 * data.feature_weight * (value - data.ground))


@jit_part
def refresh_shaped(data: Data, state: State) -> None:
    """Set the terms, and `join`: joining gains join[1] times the rise of the log-determinant, plus join[2].

    Also `doubt`, from the drift of scatter and inverse, and the rounding of a difference of such terms.
    """
    n_dims = data.Z.shape[1]
    state.terms[:] = 0.0
    for k in range(data.n_clusters):
        size = data.Z.shape[0] if data.shape == TIED else state.sizes[k]
        place = 0 if data.shape == TIED else k
        logdet = state.logdets[place]
        freedom = size + data.freedom
        if data.shape != TIED:
            half = -0.5 * data.feature_weight * (freedom + 1.0)
            term = shaped_term(data, size, logdet)
            state.terms[k] = term
            state.join[0, k] = size / (size + 1.0)
            state.join[1, k] = half
            state.join[2, k] = half * (logdet - n_dims * (data.log_freedom[size + 1] - 1.0)) - term
            state.join[2, k] += 0.5 * data.feature_weight * data.ground
        else:
            state.join[0, k] = state.sizes[k] / (state.sizes[k] + 1.0)
        share = n_dims if data.shape == DIAGONAL else 1
        rounding = 8.0 * EPSILON * freedom * (abs(logdet) + n_dims * (1.0 + abs(data.log_freedom[size])))
        state.doubt[k] = 0.5 * (freedom + 1.0 + n_dims) * share * state.drift[place] + rounding
    if data.shape == TIED:
        state.terms[0] = shaped_term(data, data.Z.shape[0], state.logdets[0])
