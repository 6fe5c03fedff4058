"""Criteria that compare numbers of clusters (docs/model.md, section 11)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.choice.held_out import label_probabilities
from sweep_clustering.kernels.partition.objective import objective_terms
from sweep_clustering.kernels.problem.data import Layer, layer_weights, pair_accuracies
from sweep_clustering.kernels.problem.problem import SPHERES, Problem


@dataclass(frozen=True)
class Criteria:
    """Parts of the criteria of a solution, in nats; larger criteria are better.

    Parameters
    ----------
    classification : float
        Log-likelihood of features, labels and annotations at the solution, eq. (66).
    parameters : int
        Number of free parameters, eq. (67).
    penalty : float
        Penalty of the free parameters, eq. (68).
    surprise : float
        Minus the log-probability of the labels of the solution, eq. (69).
    entropy : float
        Entropy of the memberships, eq. (69).
    """

    classification: float
    parameters: int
    penalty: float
    surprise: float
    entropy: float

    @property
    def bic(self) -> float:
        """Log-likelihood without the labels, less the penalty, eq. (70)."""
        return self.classification + self.surprise - self.penalty

    @property
    def icl(self) -> float:
        """BIC less the entropy of the memberships, eq. (70)."""
        return self.bic - self.entropy


def criteria(problem: Problem, layers: Sequence[Layer], labels: NDArray[np.integer]) -> Criteria:
    """Compute the criteria of a solution.

    Parameters
    ----------
    problem : Problem
        Data, annotations and model.
    layers : sequence of Layer
        Annotations of the problem.
    labels : ndarray of shape (n_samples,)
        Labels of the solution.

    Returns
    -------
    Criteria
        Criteria that compare problems which differ in the number of clusters and the shape alone.
    """
    gmm, annotations, _ = objective_terms(problem, labels)
    data, n_samples = problem.data, problem.n_samples
    weight = data.feature_weight
    constants = 0.5 * weight * n_samples * len(problem.dims) * math.log(2.0 * math.pi)
    if problem.covariance in SPHERES and data.kappa > 0.0:
        # without the constant that the variance prior gives even an empty cluster, eq. (7)
        clusters = 1 if problem.covariance == "common" else problem.n_clusters
        mode = data.kappa * len(problem.dims) * (1.0 + math.log(data.total_variance))
        constants -= 0.5 * weight * clusters * mode
    if not data.proportions:
        constants += n_samples * math.log(problem.n_clusters)
    k, d = problem.n_clusters, len(problem.dims)  # features that have a density
    matrix = d * (d + 1) // 2
    variances = {"spherical": k, "common": 1, "diagonal": k * d, "tied": matrix, "full": k * matrix}
    of_features = k * d + variances[problem.covariance]
    of_annotations = annotation_parameters(problem, layers)
    of_shares = k - 1 if data.proportions else 0
    penalty = 0.5 * weight * of_features * math.log(n_samples) + 0.5 * of_shares * math.log(n_samples)
    penalty += sum(0.5 * count * math.log(max(total, 1.0)) for count, total in of_annotations)
    shares = label_probabilities(problem, labels)
    chosen = shares[np.arange(n_samples), labels]
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return Criteria(
        classification=gmm + annotations - constants,
        parameters=of_features + of_shares + sum(count for count, _ in of_annotations),
        penalty=penalty,
        surprise=-float(np.log(np.maximum(chosen, np.finfo(float).tiny)).sum()),
        entropy=-float((shares * logs).sum()),
    )


def annotation_parameters(problem: Problem, layers: Sequence[Layer]) -> list[tuple[int, float]]:
    """Return the number of free parameters of each group of annotations, and its number of annotations.

    A layer of a block model has a rate for each pair of clusters. In "conditional" an annotator of unknown
    accuracy has one parameter.
    """
    layers = [layer for layer in layers if len(layer.pairs)]
    if problem.model in ("likelihood", "posterior"):
        rates = problem.n_clusters * (problem.n_clusters + 1) // 2
        return [(rates, float(layer_weights(layer).sum())) for layer in layers]
    if problem.model != "conditional":
        return []
    unknown: dict[int, float] = {}
    for layer in layers:
        pairs = np.asarray(layer.pairs)
        free = np.isnan(pair_accuracies(layer)) & (pairs[:, 0] != pairs[:, 1])
        if free.any():
            total = unknown.get(layer.annotator, 0.0)
            unknown[layer.annotator] = total + float(layer_weights(layer)[free].sum())
    return [(1, total) for total in unknown.values()]
