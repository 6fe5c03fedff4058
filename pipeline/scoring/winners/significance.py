"""Tests over data sets: ranks, Friedman, signed ranks with Holm's correction, and groups of models alike.

The way of Demšar, Statistical comparisons of classifiers over multiple data sets, JMLR 7 (2006), with the
pairwise tests of Benavoli, Corani and Mangili, JMLR 17 (2016), which depend on the two models alone.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2, rankdata

LEVEL = 0.05
"""Of every test."""
ROUNDING = 1e-12
"""Scores that differ by no more are equal: the difference comes from the order of a sum."""
FEWEST_DATASETS = 6
"""For a test: signed ranks of fewer cannot fall below `LEVEL`, whatever they are (5 give 1/16 at least)."""
FEWEST_MODELS = 3
"""For Friedman's test; of two models, signed ranks alone are tested."""


def best_first(values: np.ndarray) -> np.ndarray:
    """Rank the models on each data set: 1 is the largest value, and equal ones share the mean of their ranks.

    Parameters
    ----------
    values : ndarray of shape (n_datasets, n_models)
        More is better.

    Returns
    -------
    ndarray of shape (n_datasets, n_models)
    """
    return np.array([_ranks(row) for row in np.atleast_2d(values)]).reshape(values.shape)


def _ranks(row: np.ndarray) -> np.ndarray:
    order = np.argsort(-row)
    steps = np.concatenate([[0], np.cumsum(-np.diff(row[order]) > ROUNDING)])
    levels = np.empty(len(row))
    levels[order] = steps[: len(row)]
    return np.asarray(rankdata(levels))


def friedman(ranks: np.ndarray) -> tuple[float, float]:
    r"""Test whether all models rank alike, with the correction for ties.

    With :math:`R_j` the sum of the ranks of model j over n data sets, k models, and t the lengths of ties,

    .. math::

        \chi^2 = \frac{12 / (n k (k + 1)) \sum_j R_j^2 - 3 n (k + 1)}
                       {1 - \sum (t^3 - t) / (n (k^3 - k))}

    of k - 1 degrees of freedom.

    Parameters
    ----------
    ranks : ndarray of shape (n_datasets, n_models)
        From `best_first`.

    Returns
    -------
    statistic, p : float
        0 and 1 where all models are equal on every data set.
    """
    n, k = ranks.shape
    lengths = np.concatenate([np.unique(row, return_counts=True)[1] for row in ranks]).astype(float)
    untied = 1 - float((lengths**3 - lengths).sum()) / (n * (k**3 - k))
    if untied <= 0:
        return 0.0, 1.0
    sums = ranks.sum(axis=0)
    statistic = (12 / (n * k * (k + 1)) * float(sums @ sums) - 3 * n * (k + 1)) / untied
    return statistic, float(chi2.sf(statistic, k - 1))


def signed_ranks(differences: np.ndarray) -> float:
    """Two-sided p of Wilcoxon's signed-rank test: exact, with ties too; differences of 0 are left out.

    Given the sizes of the differences, every combination of signs is equally likely where the models are
    alike. Sums of twice the ranks are whole numbers, so their distribution is a convolution.

    Parameters
    ----------
    differences : ndarray of shape (n_datasets,)
        Of one model to another.

    Returns
    -------
    float
        1 where no difference is left.
    """
    found = differences[np.abs(differences) > ROUNDING]
    if not len(found):
        return 1.0
    sizes = np.abs(found)
    twice = np.rint(2 * (len(found) + 1 - best_first(sizes[None])[0])).astype(np.int64)
    chances = np.ones(1)
    for rank in twice:
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    positive = int(twice[found > 0].sum())
    less = min(positive, int(twice.sum()) - positive)
    return min(1.0, 2 * float(chances[: less + 1].sum()))


def holm(p: np.ndarray) -> np.ndarray:
    """Adjust the p of several tests by Holm's steps down, in which the smallest counts for all of them.

    Parameters
    ----------
    p : ndarray of shape (n_tests,)
        In any order.

    Returns
    -------
    ndarray of shape (n_tests,)
        Below `LEVEL`: different, with a chance below `LEVEL` that any such verdict is false.
    """
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def least_p(n_datasets: int, n_tests: int) -> float:
    """Least adjusted p that so many data sets can give: one model better on all of them."""
    return min(1.0, n_tests * 2.0 ** (1 - n_datasets))


def alike(different: np.ndarray) -> list[tuple[int, int]]:
    """Longest runs of neighbours of which no two differ.

    Parameters
    ----------
    different : ndarray of shape (n_models, n_models) of bool
        Symmetric, models in the order of their mean ranks.

    Returns
    -------
    list of (int, int)
        First and last model of each run of two or more; none lies within another.
    """
    runs: list[tuple[int, int]] = []
    for first in range(len(different)):
        last = first
        while last + 1 < len(different) and not different[first : last + 1, last + 1].any():
            last += 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs
