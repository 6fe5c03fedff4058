"""The objective, from statistics of members (docs/model.md, eqs. (4) to (12))."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from kernels.jit import jit, jit_inner, jit_part
from kernels.partition import statistics
from kernels.partition.blockmodel import agreement_value
from kernels.partition.relocation import collect
from kernels.partition.state import State, new_state
from kernels.problem.data import COMMON, CONDITIONAL, POSTERIOR, TIED, Data, check_labels
from kernels.problem.problem import Problem


@jit_inner
def terms(data: Data, state: State) -> tuple[float, float, float]:
    """gmm, annotation term and prior of a partition whose statistics are set; 0 where the model lacks one."""
    gmm = data.unit_term
    if data.shape == COMMON:
        gmm = statistics.cluster_term(data, data.X.shape[0], statistics.pooled_error(data, state))
    elif data.shape == TIED:
        gmm += statistics.shaped_term(data, data.Z.shape[0], state.logdets[0])
    else:
        for k in range(data.n_clusters):
            if data.shape > COMMON:
                gmm += statistics.shaped_term(data, state.sizes[k], state.logdets[k])
            else:
                gmm += statistics.cluster_term(data, state.sizes[k], state.errors[k])
    gmm += statistics.proportions_term(data, state.sizes)
    sbm = 0.0
    prior = 0.0
    for layer in range(data.totals.shape[0]):
        if data.model == CONDITIONAL:
            sbm += agreement_value(data, layer, state.agreed[layer])
        else:
            block, density = layer_terms(data, state, layer)
            sbm += block
            prior += density
    return gmm, sbm, prior


@jit_part
def objective_of(data: Data, state: State) -> float:
    """Sum of the terms, nats."""
    gmm, sbm, prior = terms(data, state)
    return gmm + sbm + prior


@jit_part
def layer_terms(data: Data, state: State, layer: int) -> tuple[float, float]:
    """Parts of one layer in sbm and prior, nats."""
    counts = state.edge_counts[layer]
    inner = statistics.prior_rate(data, layer, statistics.sum_of_squares(state.sizes))
    outer = inner / data.spread[layer]
    sbm = 0.0
    prior = 0.0
    for r in range(data.n_clusters):
        for c in range(r, data.n_clusters):
            exposure = float(state.sizes[r]) * float(state.sizes[c])
            rate = inner if r == c else outer
            # Half of a sum over ordered pairs: off the diagonal each pair stands for two.
            weight = 0.5 if r == c else 1.0
            denominator = exposure
            if data.model == POSTERIOR:
                denominator += rate / weight  # (1 + delta_rs) lambda_rs
            omega = 0.0
            if counts[r, c] > 0.0:
                omega = counts[r, c] / denominator
                sbm += weight * counts[r, c] * math.log(omega)
            sbm -= weight * exposure * omega
            if data.model == POSTERIOR:
                prior += math.log(rate) - rate * omega
    return sbm, prior


@jit
def _evaluate(data: Data, state: State) -> tuple[float, float, float]:
    collect(data, state)
    return terms(data, state)


def objective_terms(problem: Problem, labels: ArrayLike) -> tuple[float, float, float]:
    """Objective of a partition, from scratch; its value is the sum of the three (docs/model.md, eq. (4)).

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    labels : array_like of shape (n_samples,)
        Integers 0 to n_clusters - 1.

    Returns
    -------
    gmm, annotations, prior : float
        Nats. The second is sbm of the block models and ann of "conditional" (model.md, eq. (36)); it and the
        prior are 0 where the model lacks them.

    Raises
    ------
    ValueError
        If the labels are not one integer in range per sample.
    """
    given = np.asarray(labels)
    check_labels(given, problem.n_samples, problem.n_clusters)
    state = new_state(problem.data)
    state.labels[:] = given
    gmm, sbm, prior = _evaluate(problem.data, state)
    return float(gmm), float(sbm), float(prior)
