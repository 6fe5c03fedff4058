"""What to know of features and solution before trusting a fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from kernels.problem.data import DEGENERATE, MUST, Layer, layer_weights, pair_accuracies
from kernels.problem.problem import Problem
from kernels.problem.shapes import SPHERES
from kernels.scores import cluster_gaussians, total_variance
from kernels.search.genetic import Restart
from pipeline.fit.data_notes import (
    BOUND,
    constant_notes,
    counted,
    crowding_notes,
    equal_rows,
    faint_notes,
    repeat_notes,
)

NEARLY_DEGENERATE = 1e-6
"""Variance of a cluster over that of all samples, below which nearly equal rows outweigh everything else."""

UNLIKELY = 1e-3
"""Chance of so many contradictions, if accuracies are as told, up to which it is said."""

SHAPE_BOUND = "a prior (--covariance-prior, covariance_prior above 0) bounds it"


def solution_notes(X: NDArray[np.float64], best: Restart, problem: Problem) -> Iterator[str]:
    """Say where the likelihood is unbounded or features carry nothing (docs/model.md, eqs. (6), (7)).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features as used.
    best : Restart
        The solution.
    problem : Problem
        What it solves.

    Yields
    ------
    str
        A sentence; none for most data.
    """
    overall = total_variance(X)
    groups = equal_rows(X)
    n_clusters, variance_prior = problem.n_clusters, problem.data.kappa
    if problem.covariance not in SPHERES:
        yield from _shape_notes(X, best, problem)
        yield from crowding_notes(groups, n_clusters)
        return
    yield from constant_notes(X)
    yield from faint_notes(X)
    yield from crowding_notes(groups, n_clusters)
    sizes, _, variances = cluster_gaussians(X, best.labels, n_clusters)
    if problem.covariance == "common":
        yield from _common_notes(float(sizes @ variances) / (len(X) * overall), variance_prior)
    elif variance_prior > 0:
        yield from _bounded_notes(_degenerate(sizes, variances / overall))
    else:
        yield from _variance_notes(sizes, variances / overall, groups)


def contradiction_notes(layers: Sequence[Layer], labels: NDArray[np.integer]) -> Iterator[str]:
    """Say where more annotations are contradicted than their accuracies explain; a guess, where none is told.

    Parameters
    ----------
    layers : sequence of Layer
        Annotation graphs, those that the model does not see too; self pairs are left out.
    labels : ndarray of shape (n_samples,)
        The solution.

    Yields
    ------
    str
        One sentence, or none.
    """
    given = [layer for layer in layers if len(layer.pairs)]
    if not given:
        return
    pairs = np.concatenate([layer.pairs for layer in given])
    is_must = np.concatenate([np.full(len(layer.pairs), layer.kind == MUST) for layer in given])
    told = np.concatenate([pair_accuracies(layer) for layer in given])
    weights = np.concatenate([layer_weights(layer) for layer in given]) * (pairs[:, 0] != pairs[:, 1])
    wrong = 1.0 - np.where(np.isnan(told), 0.5, told)
    contradicted = float(weights[(labels[pairs[:, 0]] == labels[pairs[:, 1]]) != is_must].sum())
    total, expected = float(weights.sum()), float(weights @ wrong)
    # As many annotations of one weight and one accuracy as tell as much: the chance that so many are wrong.
    count = total**2 / max(float(weights @ weights), np.finfo(float).tiny)
    beyond = count * contradicted / total if contradicted else 0.0
    if not beyond or betainc(beyond, count - beyond + 1.0, expected / total) > UNLIKELY:
        return
    error = float(np.sqrt(np.square(weights) @ (wrong * (1.0 - wrong))))
    known = np.unique(told)  # of NaN one is left
    explains = "guessing" if np.isnan(known).all() else "what is told of their accuracy"
    if len(known) == 1 and not np.isnan(known[0]):
        explains = f"an accuracy of {known[0]:.4g}"
    yield (
        f"the clusters contradict {contradicted:.4g} of {total:.4g} annotations, {explains} explains"
        f" {expected:.3g} ± {error:.2g}: see that samples and kinds are those meant, and K"
    )


def _shape_notes(X: NDArray[np.float64], best: Restart, problem: Problem) -> Iterator[str]:
    """Features that are left out, clusters that only the prior bounds, and degenerate ones without it."""
    left = X.shape[1] - len(problem.kept)
    if left:
        features = counted(left, "feature is", "features are")
        reason = "constant" if problem.covariance == "diagonal" else "constant, or given by the others,"
        yield f"{features} {reason} and left out of the covariances, of {X.shape[1]}"
    degenerate = int((~best.covariances.reshape(len(best.sizes), -1).any(axis=1)).sum())
    if degenerate:
        clusters = counted(degenerate, "cluster is degenerate", "clusters are degenerate")
        effect = "it adds nothing to the objective, whose best then depends on units"
        yield f"{clusters}, without variance in some feature: {effect}; {SHAPE_BOUND}"
    few = int((best.sizes <= len(problem.kept)).sum())
    if few and problem.covariance == "full":
        clusters = counted(few, "cluster has", "clusters have")
        yield f"{clusters} no more samples than features: its covariance owes much to the prior"


def _degenerate(sizes: NDArray[np.integer], ratios: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (sizes <= 1) | (ratios <= DEGENERATE)


def _variance_notes(
    sizes: NDArray[np.integer], ratios: NDArray[np.float64], groups: NDArray[np.integer]
) -> Iterator[str]:
    """What free variances without a prior run into, or are kept from by the rule of degenerate clusters."""
    is_degenerate = _degenerate(sizes, ratios)
    degenerate, near = int(is_degenerate.sum()), int(((ratios < NEARLY_DEGENERATE) & ~is_degenerate).sum())
    n_samples, repeats = int(sizes.sum()), int(sizes.sum()) - len(groups)
    if degenerate:
        clusters = counted(degenerate, "cluster is degenerate", "clusters are degenerate")
        effect = "the variance is 0 and adds nothing to the objective, whose best then depends on units"
        rows = f"; {repeats} of {n_samples} rows repeat another one" if repeats else ""
        yield f"{clusters}, a single row or (nearly) equal ones: {effect}; {BOUND}{rows}"
    else:
        yield from repeat_notes(groups)
    if near:
        clusters = counted(near, "cluster has", "clusters have")
        yield (
            f"{clusters} a variance below {NEARLY_DEGENERATE:g} of the overall one: nearly equal rows, which"
            f" outweigh the rest of the objective; {BOUND}"
        )


def _bounded_notes(is_degenerate: NDArray[np.bool_]) -> Iterator[str]:
    count = int(is_degenerate.sum())
    if count:
        clusters = counted(count, "cluster holds", "clusters hold")
        yield f"{clusters} nothing but (nearly) equal rows: the variance comes from the prior alone"


def _common_notes(ratio: float, variance_prior: float) -> Iterator[str]:
    if ratio >= NEARLY_DEGENERATE:
        return
    start = "all clusters hold nothing but (nearly) equal rows: the common variance"
    if variance_prior > 0:
        yield f"{start} comes from the prior alone"
    else:
        yield f"{start} is next to 0, and the objective no measure of anything; {BOUND}"
