"""Every score of a cell, declared once: its names and unit, which way is better, and how it is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernels import scores as core
from sweeps.shapes import CODES, DIMS, narrowed


@dataclass(frozen=True)
class Label:
    """Words for one column.

    Parameters
    ----------
    short : str
        For the head of a table.
    axis : str
        For an axis, with the unit.
    better : int
        1 if more is better, -1 if less is, 0 if neither.
    """

    short: str
    axis: str
    better: int


@dataclass(frozen=True)
class Score:
    """One score.

    Parameters
    ----------
    name : str
        Of the variable, and of the column in tables.
    meaning, units : str
        Its attributes `long_name` and `units`.
    label : Label
        What people call it.
    arrays : tuple of str
        Variables of the cube that it takes, those of one cell, with the dims they have in the schema. The
        shape of covariances is given for every model, as its code.
    of_cell : callable or None
        From these arrays to a float, NaN where it is not defined; None for a score made from others.
    options : tuple of str
        Keyword options of `of_cell`: what callers may choose, and settings of the sweep.
    """

    name: str
    meaning: str
    units: str
    label: Label
    arrays: tuple[str, ...]
    of_cell: Callable[..., float] | None
    options: tuple[str, ...] = ()


def _pending(labels: np.ndarray) -> bool:
    return bool(labels.size == 0 or labels.min() < 0)


def _best(log_likelihood: np.ndarray) -> float:
    return float(np.fmax.reduce(log_likelihood))


def _nmi(labels_true: np.ndarray, labels: np.ndarray, normalizer: str) -> float:
    return np.nan if _pending(labels) else float(core.nmi(labels_true, labels, normalizer))


def _adjusted_rand(labels_true: np.ndarray, labels: np.ndarray) -> float:
    return np.nan if _pending(labels) else core.adjusted_rand(labels_true, labels)


def _goldberger_kl(
    X: np.ndarray,
    labels_true: np.ndarray,
    labels: np.ndarray,
    centroids: np.ndarray,
    covariances: np.ndarray,
    covariance_shape: int,
    covariance_prior: float,
) -> float:
    if _pending(labels):
        return np.nan
    shape, n_classes = (
        {code: name for name, code in CODES.items()}[int(covariance_shape)],
        _n_classes(labels_true),
    )
    solution = np.bincount(labels, minlength=len(covariances)), centroids, narrowed(covariances, shape)
    # the Gaussians of the truth are estimated as those of the solution are
    sizes, centroids_true, truth = core.cluster_gaussians(X, labels_true, n_classes)
    if DIMS[shape]:
        truth = core.cluster_covariances(X, labels_true, n_classes, shape, covariance_prior)
    return float(core.goldberger_kl(*solution, sizes, centroids_true, truth, core.total_variance(X)))


def _centroid_index(X: np.ndarray, labels_true: np.ndarray, centroids: np.ndarray) -> float:
    if np.isnan(centroids).any():
        return np.nan
    sizes, centroids_true, _ = core.cluster_gaussians(X, labels_true, _n_classes(labels_true))
    return float(core.centroid_index(centroids, centroids_true[sizes > 0]))


def _annotation_agreement(annotations: np.ndarray, labels: np.ndarray) -> float:
    return np.nan if _pending(labels) else float(core.annotation_agreement(annotations, labels))


def _n_classes(labels_true: np.ndarray) -> int:
    return int(labels_true.max()) + 1


CATALOGUE = {
    score.name: score
    for score in (
        Score(
            "nmi",
            "normalised mutual information with the true labels",
            "1",
            Label("NMI", "NMI (0 to 1)", 1),
            ("labels_true", "labels"),
            _nmi,
            ("normalizer",),
        ),
        Score(
            "relative_nmi",
            "NMI above the baseline of the same shape of covariances",
            "1",
            Label("relative NMI", "NMI above the baseline", 1),
            (),
            None,
        ),
        Score(
            "adjusted_rand",
            "Rand index with the true labels, adjusted for chance",
            "1",
            Label("ARI", "adjusted Rand index", 1),
            ("labels_true", "labels"),
            _adjusted_rand,
        ),
        Score(
            "goldberger_kl",
            "Goldberger divergence, solution from truth",
            "nats",
            Label("KL, nats", "KL divergence (nats)", -1),
            ("X", "labels_true", "labels", "centroids", "covariances", "covariance_shape"),
            _goldberger_kl,
            ("covariance_prior",),
        ),
        Score(
            "centroid_index",
            "centroid index",
            "1",
            Label("centroid index", "centroid index (clusters)", -1),
            ("X", "labels_true", "centroids"),
            _centroid_index,
        ),
        Score(
            "annotation_agreement",
            "share of annotations the solution agrees with",
            "1",
            Label("agreement", "correct (share)", 1),
            ("annotations", "labels"),
            _annotation_agreement,
        ),
        Score(
            "objective",
            "objective of the best restart",
            "nats",
            Label("objective, nats", "objective (nats)", 1),
            ("log_likelihood",),
            _best,
        ),
    )
}
"""In the order of tables."""

SCORES = tuple(CATALOGUE)

QUALITIES = tuple(name for name in SCORES if name != "objective")
"""Scores that compare between models and data sets, which objectives do not."""

LABELS = {name: score.label for name, score in CATALOGUE.items()} | {
    "seconds": Label("seconds", "time in kernels (s)", -1),
    "cpu_seconds": Label("CPU seconds", "CPU time in kernels (s)", -1),
    "restarts_done": Label("restarts", "restarts (number)", 0),
    "hits": Label("hits", "restarts that found the best (number)", 0),
}
"""Of scores, then of what a cell took."""
