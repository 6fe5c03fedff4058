"""Scores of an opened cube (model.md, section 5), lazily: nothing is read before a value is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from kernels import scores as core
from kernels.settings import DEFAULT
from pipeline.scoring.catalogue import CATALOGUE
from storage.cube.schema import DONE, VARIABLES, Role
from sweeps.errors import InputError, Problem
from sweeps.shapes import CODES
from sweeps.words import BASELINES, UNSUPERVISED, baseline_of, shape_of

CHOSEN = -1
"""In place of the code of a shape that each cell chooses."""


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
        are known `nmi`, `adjusted_rand`, `goldberger_kl` (nats) and `centroid_index`. NaN where a cell is not
        done. Empty if the data set has no supervised cells.

    Raises
    ------
    ValueError
        For an unknown normalizer.

    Examples
    --------
    >>> from pipeline import open_cube, scores
    >>> found = scores(open_cube("results/quick.zarr"), "iris")
    >>> found["nmi"].mean("replicate").dims
    ('p', 'm', 'model')
    """
    node = tree[dataset].to_dataset()
    if "labels" not in node:
        return xr.Dataset()
    return _by_search(tree, node, node, node["model"], normalizer)


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
    model : str
        Which: "unsupervised", or with a shape as "unsupervised-full".

    Raises
    ------
    ValueError
        For an unknown normalizer.

    Examples
    --------
    >>> from pipeline import baseline_scores, open_cube
    >>> baseline_scores(open_cube("results/quick.zarr"), "mixtures_k3")["nmi"].dims
    ('mixture',)
    """
    if model not in tree[dataset].children:
        return xr.Dataset()
    node = tree[f"{dataset}/{model}"].to_dataset()
    return _by_search(tree, node, tree[dataset].to_dataset(), xr.DataArray(model), normalizer)


def all_baseline_scores(tree: xr.DataTree, dataset: str) -> dict[str, xr.Dataset]:
    """Scores of every baseline that one data set has, by model: those of models first."""
    children = tree[dataset].children
    models = [model for model in BASELINES if model in children]
    models += [name for name in children if name not in models]
    return {model: baseline_scores(tree, dataset, model) for model in models}


def relative_nmi(found: xr.Dataset, baselines: Mapping[str, xr.Dataset]) -> xr.DataArray:
    """NMI of each supervised cell minus that of a baseline on the same data (docs/model.md, eq. (28)).

    The baseline is the one of the same shape, and the spherical one of a model that chooses its shape: the
    difference is what the annotations add. A model whose baseline is not there has NaN.

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
    return difference.assign_attrs(_attributes("relative_nmi")).rename("relative_nmi")


def _by_search(
    tree: xr.DataTree, node: xr.Dataset, data: xr.Dataset, model: xr.DataArray, normalizer: str
) -> xr.Dataset:
    """Scores of a node, of which each search may have settings of its own."""
    if normalizer not in core.NORMALIZERS:
        raise ValueError(f"normalizer: found {normalizer!r}, expected one of {', '.join(core.NORMALIZERS)}")
    priors = _covariance_priors(tree)
    if "search" not in node["status"].dims or len(set(priors.values())) == 1:
        options = {"normalizer": normalizer, "covariance_prior": next(iter(priors.values()))}
        return _scores(node, data, model, options)
    parts = []
    for place, name in enumerate(node["search"].values.tolist()):
        options = {"normalizer": normalizer, "covariance_prior": priors[name]}
        one = [each.isel(search=[place]) if "search" in each.dims else each for each in (node, data)]
        parts.append(_scores(one[0], one[1], model, options))
    return xr.concat(parts, dim="search", data_vars="minimal", coords="minimal", compat="override")


def _covariance_priors(tree: xr.DataTree) -> dict[str | None, float]:
    """A setting of the sweep, which is in the attributes of its cube, by search."""
    found = tree.root.attrs.get("spec", {}).get("search", {})
    searches = found if isinstance(found, list) else [found]
    default = DEFAULT.covariance_prior
    return {each.get("name"): each.get("covariance_prior", default) for each in searches}


def _scores(
    node: xr.Dataset, data: xr.Dataset, model: xr.DataArray, options: Mapping[str, Any]
) -> xr.Dataset:
    """Every score whose arrays are there, masked by status; `data` holds X and labels_true."""
    arrays = {**data.data_vars, **node.data_vars, "covariance_shape": _shapes(node, model)}
    done = node["status"] == DONE
    found = {}
    for name, score in CATALOGUE.items():
        # A node without annotations of its own, a baseline, has none: those of `data` are of other cells.
        there = all(array in (node if array == "annotations" else arrays) for array in score.arrays)
        if score.of_cell is not None and there:
            chosen = {option: options[option] for option in score.options}
            value = _lift(score.of_cell, [arrays[array] for array in score.arrays], chosen)
            found[name] = value.where(done).assign_attrs(_attributes(name))
    return xr.Dataset(found)


def _shapes(node: xr.Dataset, model: xr.DataArray) -> xr.DataArray:
    """Code of the shape of covariances of each cell: that of its model, or the one it chose."""
    fixed = [CODES.get(shape_of(name), CHOSEN) for name in np.atleast_1d(model.values).tolist()]
    codes = xr.DataArray(np.array(fixed, dtype=np.int8).reshape(model.shape), dims=model.dims)
    if "covariance_shape" in node:
        codes = node["covariance_shape"].where(codes == CHOSEN, codes)
    return codes.rename("covariance_shape")


def _attributes(name: str) -> dict[str, str]:
    return {"long_name": CATALOGUE[name].meaning, "units": CATALOGUE[name].units}


def _lift(
    function: Callable[..., float], arrays: Sequence[xr.DataArray], options: Mapping[str, Any]
) -> xr.DataArray:
    """Apply `function` to the arrays of one cell at a time, only when computed."""
    lifted: xr.DataArray = xr.apply_ufunc(
        partial(_fitting, function),
        *arrays,
        input_core_dims=[_core_dims(array) for array in arrays],
        kwargs=options,
        vectorize=True,
        dask="parallelized",
        output_dtypes=[np.float64],
        # Annotations of a grown cube come in several chunks.
        dask_gufunc_kwargs={"allow_rechunk": True},
    )
    return lifted


def _core_dims(array: xr.DataArray) -> tuple[str, ...]:
    """Dims of one cell; covariances have more of them where a model of the node does."""
    declared = VARIABLES[str(array.name)]
    if declared.role is Role.COORDINATE:
        return ()
    more = array.dims[array.dims.index("cluster") + 1 :] if array.name == "covariances" else ()
    return declared.dims + tuple(map(str, more))


def _fitting(function: Callable[..., float], *arrays: np.ndarray, **kwargs: Any) -> float:
    """Score of one cell; values that no solver writes are an error of the cube, not of the score."""
    try:
        return function(*arrays, **kwargs)
    except (IndexError, KeyError, ValueError) as error:
        raise InputError(
            [Problem("a cell of the cube", str(error), "labels and pairs of its data")]
        ) from error
