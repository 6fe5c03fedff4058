"""What the kernels see of a problem: arrays and scalars."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.bypointer import by_pointer

Floats = NDArray[np.float64]

UNSUPERVISED, LIKELIHOOD, POSTERIOR, CONDITIONAL = 0, 1, 2, 3
"""Annotation terms of the objective: none, block model, block model with priors on its rates, pairs alone."""

SPHERICAL, COMMON, DIAGONAL, TIED, FULL = 0, 1, 2, 3, 4
"""Shapes of the covariances, in the order of `kernels.settings.COVARIANCES`."""

LARGEST_ACCURACY = 1 - 1e-6
"""Upper limit of an accuracy p where the model divides by 1 - p or takes its logarithm."""

DEGENERATE = 1e-10
"""A cluster whose variance is at most this share of s² adds nothing to the objective (model.md, eq. (6)).

Under the variance "common" the rule applies to all clusters together.
"""

IMPROVEMENT = 1e-9
"""A gain counts only above this, in nats: far above rounding, so that no sample moves to and fro."""


@by_pointer
class Data(NamedTuple):
    """Constant input of the search.

    Clusters are the last axis wherever an array has one: all targets of a sample are evaluated in one sweep
    over contiguous memory. The annotation layers of a sample lie one after the other: entries
    `row_start[i * n_layers + layer]` up to the next row start are its partners in `layer`, self pairs apart.
    """

    X: Floats  # (n_samples, n_features), centred: what seeding, k-means and crossover see
    Z: Floats  # (n_samples, n_dims): what the Gaussians see: X itself, or see `kernels.problem.whitening`
    n_clusters: int
    model: int
    shape: int  # of the covariances
    min_size: int
    kappa: float  # variance_prior
    total_variance: float  # s²
    proportions: bool  # whether a label is as likely as its cluster is large
    feature_weight: float  # η, a factor of gmm
    ridge: float  # the prior's scale matrix is ridge times the identity, in Z; 0 without that prior
    freedom: float  # of that prior: f_r = n_r + freedom
    ground: float  # freedom (log|ridge I| - n_dims log freedom + n_dims): an empty cluster is to add nothing
    floors: Floats  # (n_dims,): a variance of Z up to it is degenerate; "diagonal" without a prior alone
    reach: float  # largest |Z| over the root of the ridge: how rounding of a mean counts; 0 without a ridge
    unit_term: float  # gmm in the units of X less gmm in those of Z
    row_start: NDArray[np.int32]  # (n_samples * n_layers + 1,)
    partners: NDArray[np.int32]
    weights: Floats  # A_ij beside partners
    self_weights: Floats  # (n_samples, n_layers): A_ii; 0 in the model "conditional"
    totals: Floats  # (n_layers,): m_layer; without self pairs in the model "conditional"
    spread: Floats  # (n_layers,): lambda_in = (S_in + spread S_out) / m_layer = spread lambda_out
    attracts: NDArray[np.bool_]  # (n_layers,): whether weights above 0 draw two samples together
    n_known: int  # leading layers of known accuracy, 0 or 1: see conditional
    apart: Floats  # (n_layers,): agreed where no pair shares a cluster: see conditional
    annotated: NDArray[np.int32]  # samples of phase 1
    unannotated: NDArray[np.int32]  # samples of phase 2
    log_size: Floats  # (n_samples + 2,): log n, 0 for n = 0
    log_freedom: Floats  # (n_samples + 2,): log(D (n + kappa)), or log f; 0 where that is log 0
    x_log_x: Floats  # x log x of the whole numbers a count can take; empty if weights are not whole
