"""Scores of an opened cube (model.md section 5), lazily: nothing is read before a value is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from kernels import scores as core
from storage.cube.schema import DONE
from sweeps.errors import InputError, Problem
from sweeps.models import BASELINES, UNSUPERVISED, baseline_of

ATTRIBUTES = {
    "nmi": {"long_name": "normalised mutual information with the true labels", "units": "1"},
    "goldberger_kl": {"long_name": "Goldberger divergence, solution from truth", "units": "nats"},
    "centroid_index": {"long_name": "centroid index", "units": "1"},
    "annotation_agreement": {"long_name": "share of annotations the solution agrees with", "units": "1"},
    "objective": {"long_name": "objective of the best restart", "units": "nats"},
}


def scores(tree: xr.DataTree, dataset: str, *, normalizer: str = "min") -> xr.Dataset:
    """Scores of the supervised cells of one data set.

    Parameters
    ----------
    tree : xarray.DataTree
        An opened cube.
    dataset : str
        Name of its node.
    normalizer : {"min", "geometric", "arithmetic", "max"}
        Of the NMI; only "min" compares with the paper's tables.

    Returns
    -------
    xarray.Dataset
        Lazy variables on the cell dims: `objective` (nats) and `annotation_agreement`, and where true labels
        are known `nmi`, `goldberger_kl` (nats) and `centroid_index`. NaN where a cell is not done. Empty if
        the data set has no supervised cells.

    Raises
    ------
    ValueError
        For an unknown normalizer.
    """
    node = tree[dataset].to_dataset()
    if "labels" not in node:
        return xr.Dataset()
    found = _fit_scores(node, node, normalizer)
    found["annotation_agreement"] = _lift(
        _annotation_agreement,
        (node["annotations"], ["annotation", "field"]),
        (node["labels"], ["sample"]),
    )
    return _finished(found, node)


def baseline_scores(
    tree: xr.DataTree, dataset: str, model: str = UNSUPERVISED, *, normalizer: str = "min"
) -> xr.Dataset:
    """Scores of a baseline of one data set, which has no p, m, replicate and model.

    The variables are those of `scores`, without `annotation_agreement`; there is at most a dim `mixture`.
    Empty if the cube has no such baseline.

    Parameters
    ----------
    tree, dataset, normalizer
        As in `scores`.
    model : {"unsupervised", "unsupervised-common"}
        Which.

    Raises
    ------
    ValueError
        For an unknown normalizer.
    """
    if model not in tree[dataset].children:
        return xr.Dataset()
    node = tree[f"{dataset}/{model}"].to_dataset()
    return _finished(_fit_scores(node, tree[dataset].to_dataset(), normalizer), node)


def all_baseline_scores(tree: xr.DataTree, dataset: str) -> dict[str, xr.Dataset]:
    """Scores of every baseline that one data set has, by model."""
    children = tree[dataset].children
    return {model: baseline_scores(tree, dataset, model) for model in BASELINES if model in children}


def relative_nmi(found: xr.Dataset, baselines: Mapping[str, xr.Dataset]) -> xr.DataArray:
    """NMI of each supervised cell minus that of a baseline on the same data (model.md section 5).

    The baseline is the one of the same variance: the difference is what the annotations add. A model whose
    baseline is not there has NaN.

    Parameters
    ----------
    found : xarray.Dataset
        From `scores`, with `nmi`.
    baselines : mapping of str to xarray.Dataset
        From `all_baseline_scores`.
    """
    wanted = [baseline_of(model) for model in found["model"].values.tolist()]
    levels = [baselines[name]["nmi"] if name in baselines else xr.DataArray(np.nan) for name in wanted]
    level = xr.concat(levels, dim=found["model"], coords="minimal", compat="override")
    difference = found["nmi"] - level
    difference.attrs = {"long_name": "NMI above the baseline of the same variance", "units": "1"}
    return difference.rename("relative_nmi")


def _fit_scores(node: xr.Dataset, data: xr.Dataset, normalizer: str) -> dict[str, xr.DataArray]:
    """Scores that need no annotations; `data` holds X and labels_true."""
    if normalizer not in core.NORMALIZERS:
        raise ValueError(f"normalizer: found {normalizer!r}, expected one of {', '.join(core.NORMALIZERS)}")
    found = {"objective": _lift(_best, (node["log_likelihood"], ["restart"]))}
    if "labels_true" not in data:
        return found
    X = (data["X"], ["sample", "feature"])
    labels_true = (data["labels_true"], ["sample"])
    labels = (node["labels"], ["sample"])
    centroids = (node["centroids"], ["cluster", "feature"])
    found["nmi"] = _lift(_nmi, labels_true, labels, normalizer=normalizer)
    found["goldberger_kl"] = _lift(
        _goldberger_kl, X, labels_true, labels, centroids, (node["variances"], ["cluster"])
    )
    found["centroid_index"] = _lift(_centroid_index, X, labels_true, centroids)
    return found


def _finished(found: dict[str, xr.DataArray], node: xr.Dataset) -> xr.Dataset:
    """Masked by status, with attributes, in the order of `ATTRIBUTES`."""
    done = node["status"] == DONE
    return xr.Dataset(
        {name: found[name].where(done).assign_attrs(ATTRIBUTES[name]) for name in ATTRIBUTES if name in found}
    )


def _lift(
    function: Callable[..., float], *operands: tuple[xr.DataArray, list[str]], **kwargs: Any
) -> xr.DataArray:
    """Apply `function` to the core dims of each operand, one cell at a time, only when computed."""
    lifted: xr.DataArray = xr.apply_ufunc(
        partial(_fitting, function),
        *(array for array, _ in operands),
        input_core_dims=[dims for _, dims in operands],
        kwargs=kwargs,
        vectorize=True,
        dask="parallelized",
        output_dtypes=[np.float64],
        # Annotations of a grown cube come in several chunks.
        dask_gufunc_kwargs={"allow_rechunk": True},
    )
    return lifted


def _fitting(function: Callable[..., float], *arrays: np.ndarray, **kwargs: Any) -> float:
    """Score of one cell; values that no solver writes are the cube's fault."""
    try:
        return function(*arrays, **kwargs)
    except (IndexError, ValueError) as error:
        raise InputError(
            [Problem("a cell of the cube", str(error), "labels and pairs of its data")]
        ) from error


def _pending(labels: np.ndarray) -> bool:
    return bool(labels.size == 0 or labels.min() < 0)


def _best(log_likelihood: np.ndarray) -> float:
    return float(np.fmax.reduce(log_likelihood))


def _nmi(labels_true: np.ndarray, labels: np.ndarray, normalizer: str) -> float:
    return np.nan if _pending(labels) else float(core.nmi(labels_true, labels, normalizer))


def _goldberger_kl(
    X: np.ndarray, labels_true: np.ndarray, labels: np.ndarray, centroids: np.ndarray, variances: np.ndarray
) -> float:
    if _pending(labels):
        return np.nan
    sizes = np.bincount(labels, minlength=len(variances))
    truth = core.cluster_gaussians(X, labels_true, _n_classes(labels_true))
    return float(core.goldberger_kl(sizes, centroids, variances, *truth, core.total_variance(X)))


def _centroid_index(X: np.ndarray, labels_true: np.ndarray, centroids: np.ndarray) -> float:
    if np.isnan(centroids).any():
        return np.nan
    sizes, centroids_true, _ = core.cluster_gaussians(X, labels_true, _n_classes(labels_true))
    return float(core.centroid_index(centroids, centroids_true[sizes > 0]))


def _annotation_agreement(annotations: np.ndarray, labels: np.ndarray) -> float:
    return np.nan if _pending(labels) else float(core.annotation_agreement(annotations, labels))


def _n_classes(labels_true: np.ndarray) -> int:
    return int(labels_true.max()) + 1
