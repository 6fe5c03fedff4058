"""How good restarts are: the gap of each to the best of its cell, and how many would have been enough."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import gammaln

from pipeline.common import SAME_OPTIMUM

GAPS = np.concatenate([[SAME_OPTIMUM], np.logspace(-4, 5, 19)])
"""Upper edges, in nats, of the gaps that are counted."""


def within(node: xr.Dataset, gaps: NDArray[np.float64]) -> xr.DataArray:
    """How many restarts of each cell come as close to the best one.

    Parameters
    ----------
    node : xarray.Dataset
        Node of an opened cube, with `log_likelihood`; restarts that were not run are NaN.
    gaps : ndarray of shape (n_gaps,)
        In nats.

    Returns
    -------
    xarray.DataArray
        Whole numbers, lazy, with a last dim `gap`; 0 where a cell is not done.
    """
    counts: xr.DataArray = xr.apply_ufunc(
        _within,
        node["log_likelihood"],
        input_core_dims=[["restart"]],
        output_core_dims=[["gap"]],
        kwargs={"gaps": gaps},
        dask="parallelized",
        output_dtypes=[np.int64],
        dask_gufunc_kwargs={"output_sizes": {"gap": len(gaps)}},
    )
    return counts


def hits(node: xr.Dataset) -> xr.DataArray:
    """How many restarts of each cell found the best objective, within `SAME_OPTIMUM`; lazy."""
    return within(node, GAPS[:1]).isel(gap=0).drop_vars("gap", errors="ignore")


def chance_of_best(restarts: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over cells of the probability that the first r restarts hold the best one, in any order.

    With n restarts of which k found the best that is known, 1 - C(n - k, r) / C(n, r).

    Parameters
    ----------
    restarts, found : ndarray of shape (n_cells,)
        n and k of each cell, 1 <= k <= n.

    Returns
    -------
    ndarray of shape (max n,)
        For r = 1, 2, ...; 1 for a cell that ran no more than r.
    """
    pairs, weights = np.unique(np.stack([restarts, found], axis=1), axis=0, return_counts=True)
    n, k = pairs[:, :1].astype(float), pairs[:, 1:].astype(float)
    r = np.arange(1, int(restarts.max(initial=0)) + 1, dtype=float)[None, :]
    # C(n-k, r) / C(n, r) = (n-k)! (n-r)! / ((n-k-r)! n!), and 0 where fewer than r are without the best
    rest = n - k - r
    logs = gammaln(n - k + 1) - gammaln(n + 1)
    logs = logs + gammaln(np.maximum(n - r, 0) + 1) - gammaln(np.maximum(rest, 0) + 1)
    missed = np.where(rest >= 0, np.exp(np.minimum(logs, 0.0)), 0.0)
    return np.asarray(1.0 - np.average(missed, axis=0, weights=weights))


def sufficient(chance: NDArray[np.float64], wanted: float) -> int:
    """Fewest restarts whose chance, from `chance_of_best`, is at least the one wanted."""
    return int(np.argmax(chance >= wanted - 1e-12)) + 1


def restart_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Hit rates by data set and model.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    pandas.DataFrame
        `dataset`, `model`, `cells` (done), `restarts` (mean of a cell), `hit_rate` (mean share of restarts
        that found the best of their cell), `once` (share of cells whose best was found once only), `for_95`,
        `for_99` (restarts that hold the best with that probability, over cells and orders), `unseen` (mean
        estimate of the probability of a new optimum, where a rule ended the restarts).
    """
    rows = []
    for (dataset, model), group in _done(cells).groupby(["dataset", "model"], sort=False):
        n, k = group["restarts_done"].to_numpy(np.int64), group["hits"].to_numpy(np.int64)
        chance = chance_of_best(n, k)
        rows.append(
            {
                "dataset": dataset,
                "model": model,
                "cells": len(group),
                "restarts": n.mean(),
                "hit_rate": (k / n).mean(),
                "once": (k == 1).mean(),
                "for_95": sufficient(chance, 0.95),
                "for_99": sufficient(chance, 0.99),
                "unseen": group["unseen_mass"].mean(),
            }
        )
    columns = ["dataset", "model", "cells", "restarts", "hit_rate", "once", "for_95", "for_99", "unseen"]
    return pd.DataFrame(rows, columns=columns)


def gap_table(tree: xr.DataTree, names: dict[str, tuple[str, ...]]) -> pd.DataFrame:
    """Distribution of the gap to the best of a cell.

    Parameters
    ----------
    tree : xarray.DataTree
        An opened cube.
    names : dict of str to tuple of str
        Data sets, and the baselines of each.

    Returns
    -------
    pandas.DataFrame
        `dataset`, `model`, `gap` (nats), `share` of all restarts that come as close. Read block by block.
    """
    frames = []
    for dataset, baselines in names.items():
        for baseline in baselines:
            frames.append(_shares(tree[f"{dataset}/{baseline}"].to_dataset(), dataset, (baseline,)))
        node = tree[dataset].to_dataset()
        if "log_likelihood" in node:
            frames.append(_shares(node, dataset, tuple(node["model"].values.tolist())))
    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled, ignore_index=True) if filled else _no_shares()


def _shares(node: xr.Dataset, dataset: str, models: tuple[str, ...]) -> pd.DataFrame:
    counts, runs = within(node, GAPS), node["restarts_done"]
    over = [str(dim) for dim in runs.dims if dim != "model"]
    both = xr.Dataset({"counts": counts.sum(over), "runs": runs.sum(over)}).compute()
    frames = []
    for position, model in enumerate(models):
        one = both.isel(model=position) if "model" in both.dims else both
        if int(one["runs"]) > 0:
            share = one["counts"].values / int(one["runs"])
            frames.append(pd.DataFrame({"dataset": dataset, "model": model, "gap": GAPS, "share": share}))
    return pd.concat(frames, ignore_index=True) if frames else _no_shares()


def _no_shares() -> pd.DataFrame:
    return pd.DataFrame(columns=["dataset", "model", "gap", "share"])


def _done(cells: pd.DataFrame) -> pd.DataFrame:
    return cells[(cells["status"] == "done") & (cells["hits"].fillna(0) > 0)]


def _within(log_likelihood: NDArray[np.float64], gaps: NDArray[np.float64]) -> NDArray[np.int64]:
    best = np.fmax.reduce(log_likelihood, axis=-1, keepdims=True)
    distance = best - log_likelihood
    return np.stack([(distance <= gap).sum(axis=-1) for gap in gaps], axis=-1)
