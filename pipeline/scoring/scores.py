"""Scores of the cells of a cube (model.md, section 5): declared, computed lazily, and stored beside it.

`CATALOGUE` declares each score once: its names, unit and direction, and the arrays of a cell that it takes.
`scores` and `baseline_scores` apply it to a cube without reading anything before a value is needed;
`score_nodes` gives those of every node of a data set, and `store_scores` keeps them for readers with xarray
alone. `components` returns the Gaussians of a cell.
"""

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from zarr.errors import ZarrUserWarning

from sweep_clustering.kernels import scores as core
from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.settings import DEFAULT
from sweep_clustering.storage.cube.schema import DONE, VARIABLES
from sweep_clustering.storage.files import LONGEST_ROOT, building, read_regular
from sweep_clustering.sweeps.errors import present, refused
from sweep_clustering.sweeps.shapes import CODES, ROWS, from_rows, narrowed
from sweep_clustering.sweeps.words import BASELINES, UNSUPERVISED, baseline_of, is_model, shape_of

Array = np.ndarray
MEAN_NORMALISED = "Arithmetic NMI is normalised by the mean of both entropies, as in scikit-learn."
# shapes of covariances by their code
SHAPES = {code: shape for shape, code in CODES.items()}


@dataclass(frozen=True)
class Label:
    """Words for one column."""

    # The head of a table.
    short: str
    # The label of an axis, with the unit.
    axis: str
    # 1 if more is better, -1 if less is, 0 if neither.
    better: int
    # Explanation of the short words, which everything that shows them repeats once.
    note: str = ""


@dataclass(frozen=True)
class Score:
    """Declaration of one score."""

    # The name of the variable, and of the column in tables.
    name: str
    # Attributes `long_name`, with a place for "{normalizer}" if there are several, and `units`.
    meaning: str
    units: str
    label: Label
    # Variables of the cube that it takes, those of one cell, with the dims of the schema. The shape of
    # covariances comes for every model, as its code, and so does the prior of its search.
    arrays: tuple[str, ...] = ()
    # A function of these arrays of a cell that is done, NaN where the score is not defined; None for a score
    # made from others.
    function: Callable[..., float] | None = None
    # Keyword options of `function` that callers may choose.
    options: tuple[str, ...] = ()
    # The only normalizer, if callers may not choose one.
    normalizer: str = ""

    def of_cell(self, *arrays: np.ndarray, **options: Any) -> float:
        """Return the value for the arrays of one cell, NaN for a cell that is not done.

        Values that no solver writes raise an `InputError`: they are an error of the cube, not of the score.
        """
        cell = dict(zip(self.arrays, arrays, strict=True))
        if "labels" in cell:
            is_pending = cell["labels"].size == 0 or cell["labels"].min() < 0
        else:
            is_pending = "centroids" in cell and np.isnan(cell["centroids"]).any()
        try:
            return np.nan if is_pending else float(present(self.function)(*arrays, **options))
        except (IndexError, KeyError, ValueError) as error:
            raise refused("a cell of the cube", str(error), "labels and pairs of its data") from error


def _goldberger_kl(
    X: Array, labels_true: Array, labels: Array, centroids: Array, covariances: Array, code: int, prior: float
) -> float:
    X, shape, n_classes = X.astype(np.float64, copy=False), SHAPES[code], int(labels_true.max()) + 1
    solution = np.bincount(labels, minlength=len(covariances)), centroids, narrowed(covariances, shape)
    # the Gaussians of the truth are estimated as those of the solution are
    sizes, centroids_true, _ = core.cluster_gaussians(X, labels_true, n_classes)
    truth = core.cluster_covariances(X, labels_true, n_classes, shape, prior)
    return core.goldberger_kl(*solution, sizes, centroids_true, truth, core.total_variance(X))


def _centroid_index(X: Array, labels_true: Array, centroids: Array) -> float:
    X, n_classes = X.astype(np.float64, copy=False), int(labels_true.max()) + 1
    sizes, centroids_true, _ = core.cluster_gaussians(X, labels_true, n_classes)
    return core.centroid_index(centroids, centroids_true[sizes > 0])


# In the order of tables. To add a score: its array core in `kernels/scores.py`, with a hand case and an
# independent implementation in the tests there; its row here; its value in `expected` of
# `tests/pipeline/scoring/test_scores.py`. Tables, CSV files, the report and `sweep compare` follow this list.
# fmt: off
CATALOGUE = {score.name: score for score in (
    Score("nmi", "normalised mutual information with the true labels, {normalizer}", "1",
          Label("NMI", "NMI, min-normalised", 1, "NMI is min-normalised, as in the paper."),
          ("labels_true", "labels"), core.nmi, ("normalizer",)),
    Score("nmi_arithmetic", "normalised mutual information with the true labels, {normalizer}", "1",
          Label("arithmetic NMI", "NMI, arithmetic", 1, MEAN_NORMALISED),
          ("labels_true", "labels"), core.nmi, ("normalizer",), "arithmetic"),
    Score("relative_nmi", "NMI above the baseline of the same shape of covariances, {normalizer}", "1",
          Label("relative NMI", "NMI above the baseline,\nmin-normalised", 1)),
    Score("adjusted_rand", "Rand index with the true labels, adjusted for chance, as in scikit-learn", "1",
          Label("ARI", "adjusted Rand index", 1), ("labels_true", "labels"), core.adjusted_rand),
    Score("goldberger_kl", "Goldberger divergence, solution from truth", "nats",
          Label("KL, nats", "KL divergence (nats)", -1),
          ("X", "labels_true", "labels", "centroids", "covariances", "covariance_shape", "covariance_prior"),
          _goldberger_kl),
    Score("centroid_index", "centroid index", "1",
          Label("centroid index", "centroid index (clusters)", -1),
          ("X", "labels_true", "centroids"), _centroid_index),
    Score("annotation_agreement", "share of annotations the solution agrees with", "1",
          Label("agreement", "correct (share)", 1), ("annotations", "labels"), core.annotation_agreement),
    Score("objective", "objective of the best restart", "nats",
          Label("objective", "objective (nats; of a method its own)", 1),
          ("log_likelihood",), np.fmax.reduce),
)}
# fmt: on

SCORES = tuple(CATALOGUE)

# Scores that compare between models and data sets, which objectives do not.
QUALITIES = tuple(name for name in SCORES if name != "objective")

# Words for scores, then for the effort of a cell.
LABELS = {name: score.label for name, score in CATALOGUE.items()} | {
    "seconds": Label("seconds", "time in kernels (s)", -1),
    "cpu_seconds": Label("CPU seconds", "CPU time in kernels (s)", -1),
    "restarts_done": Label("restarts", "restarts (number)", 0),
    "hits": Label("hits", "restarts that found the best (number)", 0),
}


# Code of a shape that each cell chooses.
CHOSEN_SHAPE = -1


def scores(
    tree: xr.DataTree, dataset: str, *, normalizer: str = "min", baselines: bool = False
) -> xr.Dataset:
    """Return the scores of the supervised cells of one data set, and if asked for those of its baselines.

    Parameters
    ----------
    tree : xarray.DataTree
        opened cube
    dataset : str
        name of its node
    normalizer : {"min", "geometric", "arithmetic", "max"}
        normalizer of the NMI; only "min" compares with the paper's tables
    baselines : bool
        whether `model` has the baselines too, models and methods that see no annotations. Each has one
        value, which is repeated for every p, m and replicate; `annotation_agreement` is NaN there.

    Returns
    -------
    xarray.Dataset
        Lazy variables on the cell dims: `objective` (nats, or of a method its own) and
        `annotation_agreement`, and if true labels are known `nmi`, `adjusted_rand`, `goldberger_kl` (nats)
        and `centroid_index`. NaN where a cell is not done. Empty if the data set has no supervised cells.

    Raises
    ------
    ValueError
        For an unknown normalizer.

    Examples
    --------
    >>> from sweep_clustering import open_cube, scores
    >>> iris = scores(open_cube("results/quick.zarr"), "iris")
    >>> iris["nmi"].mean("replicate").dims
    ('p', 'm', 'model')
    """
    node, supervised = tree[dataset].to_dataset(), xr.Dataset()
    if "labels" in node:
        supervised = _scores(tree, node, node, node["model"], normalizer)
    if not baselines:
        return supervised
    parts = [supervised] if supervised.data_vars else []
    for model in baselines_of(tree, dataset):
        part = baseline_scores(tree, dataset, model, normalizer=normalizer)
        if supervised.data_vars:
            grids = xr.ones_like(supervised.isel(model=0, drop=True))
            part = xr.Dataset({name: part.get(name, np.nan) * grid for name, grid in grids.items()})
        parts.append(part.assign_coords(model=model).expand_dims("model", -1))
    table = xr.concat(parts, "model", coords="minimal", compat="override", combine_attrs="override")
    return _with_unit_of_objective(table, table["model"])


def baselines_of(tree: xr.DataTree, dataset: str) -> list[str]:
    """Return the models and methods of a data set that see no annotations, models first."""
    children = tree[dataset].children
    return [model for model in dict.fromkeys([*BASELINES, *children]) if model in children]


def baseline_scores(
    tree: xr.DataTree, dataset: str, model: str = UNSUPERVISED, *, normalizer: str = "min"
) -> xr.Dataset:
    """Return the scores of a baseline of one data set, which has no p, m, replicate and model.

    The variables are those of `scores`, without `annotation_agreement`; there is at most a dim `mixture`.
    The result is empty if the cube has no such baseline.

    Parameters
    ----------
    tree, dataset, normalizer
        as in `scores`
    model : str
        name of the baseline: "unsupervised", or with a shape as "unsupervised-full"

    Raises
    ------
    ValueError
        For an unknown normalizer.

    Examples
    --------
    >>> from sweep_clustering import baseline_scores, open_cube
    >>> baseline_scores(open_cube("results/quick.zarr"), "mixtures_k3")["nmi"].dims
    ('mixture',)
    """
    if model not in tree[dataset].children:
        return xr.Dataset()
    node = tree[f"{dataset}/{model}"].to_dataset()
    return _scores(tree, node, tree[dataset].to_dataset(), xr.DataArray(model), normalizer)


def cell_scores(arrays: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores of one cell that is done from its arrays alone, by the names in `Score.arrays`.

    The values are those of `scores` or `baseline_scores`; scores that need other arrays are not there.
    """
    return {
        name: score.of_cell(
            *(arrays[array] for array in score.arrays),
            **dict.fromkeys(score.options, score.normalizer or "min"),
        )
        for name, score in CATALOGUE.items()
        if score.function is not None and all(array in arrays for array in score.arrays)
    }


def score_nodes(tree: xr.DataTree, dataset: str) -> dict[str, xr.Dataset]:
    """Return the scores of a data set by the path of their node, relative NMI among them.

    First come those of models with annotations, which are empty if there are none, then each baseline.
    """
    supervised = scores(tree, dataset)
    baselines = {model: baseline_scores(tree, dataset, model) for model in baselines_of(tree, dataset)}
    if "nmi" in supervised and baselines:
        supervised["relative_nmi"] = relative_nmi(supervised, baselines)
    return {dataset: supervised} | {f"{dataset}/{model}": baselines[model] for model in baselines}


def relative_nmi(supervised: xr.Dataset, baselines: Mapping[str, xr.Dataset]) -> xr.DataArray:
    """Return the NMI of each supervised cell minus that of its baseline (docs/model.md, eq. (28)).

    The baseline has the same shape, or is the spherical one for a model that chooses its shape: the
    difference is what the annotations add. A model whose baseline is not there has NaN.
    """
    names = [baseline_of(model) for model in supervised["model"].values.tolist()]
    values = [baselines[name]["nmi"] if name in baselines else xr.DataArray(np.nan) for name in names]
    baseline_nmi = xr.concat(values, dim=supervised["model"], coords="minimal", compat="override")
    difference = supervised["nmi"] - baseline_nmi
    attributes = _attributes_of_score(CATALOGUE["relative_nmi"], supervised["nmi"].attrs["normalizer"])
    return difference.assign_attrs(attributes).rename("relative_nmi")


def _scores(
    tree: xr.DataTree, node: xr.Dataset, data: xr.Dataset, model: xr.DataArray, normalizer: str
) -> xr.Dataset:
    """Return every score whose arrays are there, masked by status; `data` holds X and labels_true."""
    if normalizer not in core.NORMALIZERS:
        raise ValueError(f"normalizer: found {normalizer!r}, expected one of {', '.join(core.NORMALIZERS)}")
    arrays: dict[Any, xr.DataArray] = {**data.data_vars, **node.data_vars}
    arrays |= {"covariance_shape": shape_codes(node, model), "covariance_prior": _priors(tree, node)}
    variables = {}
    for name, score in CATALOGUE.items():
        # A baseline has no annotations: those of `data` belong to other cells.
        has_arrays = all(array in (node if array == "annotations" else arrays) for array in score.arrays)
        if score.function is None:
            continue
        value = node.get(name)  # stored scores of data that are left out
        if has_arrays:
            value = xr.apply_ufunc(
                score.of_cell,
                *(arrays[array] for array in score.arrays),
                input_core_dims=[_core_dims(array, arrays[array]) for array in score.arrays],
                kwargs=dict.fromkeys(score.options, score.normalizer or normalizer),
                vectorize=True,
                dask="parallelized",
                output_dtypes=[np.float64],
                # Annotations of a grown cube come in several chunks.
                dask_gufunc_kwargs={"allow_rechunk": True},
            )
        if value is not None:
            attributes = _attributes_of_score(score, normalizer)
            variables[name] = value.where(node["status"] == DONE).assign_attrs(attributes)
    return _with_unit_of_objective(xr.Dataset(variables), model)


def _with_unit_of_objective(table: xr.Dataset, model: xr.DataArray) -> xr.Dataset:
    """Take the unit nats from objectives if a method is among them, which maximises its own objective."""
    if "objective" in table and not all(map(is_model, np.atleast_1d(model.values).tolist())):
        meaning = f"{CATALOGUE['objective'].meaning}: nats for models, an own objective for methods"
        table["objective"].attrs |= {"units": "1", "long_name": meaning}
    return table


def _priors(tree: xr.DataTree, node: xr.Dataset) -> xr.DataArray:
    """Return the strength of the prior of covariances, a setting that each search of the sweep may have."""
    search = tree.root.attrs.get("spec", {}).get("search", {})
    searches = search if isinstance(search, list) else [search]
    priors = {keys.get("name"): keys.get("covariance_prior", DEFAULT.covariance_prior) for keys in searches}
    first = next(iter(priors.values()))
    if "search" not in node["status"].dims:
        return xr.DataArray(first)
    return xr.DataArray([priors.get(name, first) for name in node["search"].values.tolist()], dims="search")


def shape_codes(node: xr.Dataset, model: xr.DataArray) -> xr.DataArray:
    """Return the code of the shape of covariances of each cell: that of its model, or the one it chose."""
    of_models = [CODES.get(shape_of(name), CHOSEN_SHAPE) for name in np.atleast_1d(model.values).tolist()]
    codes = xr.DataArray(np.array(of_models, dtype=np.int8).reshape(model.shape), dims=model.dims)
    if "covariance_shape" in node:
        codes = node["covariance_shape"].where(codes == CHOSEN_SHAPE, codes)
    return codes


def _attributes_of_score(score: Score, normalizer: str) -> dict[str, str]:
    """Return the attributes of a variable, with the normalizer if there are several."""
    name = score.normalizer or normalizer
    meaning = score.meaning.format(normalizer=core.NORMALIZERS[name])
    extra = {"normalizer": name} if meaning != score.meaning else {}
    return {"long_name": meaning, "units": score.units, **extra}


def _core_dims(name: str, array: xr.DataArray) -> tuple[str, ...]:
    """Return the dims of one cell; covariances have more of them where a model of the node does."""
    if name not in VARIABLES:
        return ()  # the prior
    feature_dims = array.dims[array.dims.index("cluster") + 1 :] if name == "covariances" else ()
    return VARIABLES[name].dims + tuple(map(str, feature_dims))


SUFFIX = ".scores.zarr"
# Attribute `format` of the root.
FORMAT = "sweep scores"
# Attribute of the root: sha256 of everything that scores depend on.
FINGERPRINT = "fingerprint"


def fingerprint(tree: xr.DataTree) -> str:
    """Return the sha256 of the sweep, its data, which cells are done, stored scores, and this release.

    Done cells never change, so their status stands for their content.
    """
    attributes = [tree.attrs.get(key) for key in ("format_version", "spec", "datasets")]
    sources = [version("sweep-clustering"), SCORES, *attributes]
    digest = hashlib.sha256(json.dumps(sources, sort_keys=True).encode())
    for node in tree.subtree:
        for name in (name for name in ("status", *SCORES) if name in node.data_vars):
            digest.update(f"{node.path}/{name}\0".encode())
            digest.update(np.ascontiguousarray(node[name].values).tobytes())
    return digest.hexdigest()


def score_datasets(tree: xr.DataTree, dataset: str) -> dict[str, xr.Dataset]:
    """Return the lazy scores of the nodes of a data set that have any, by path."""
    return {
        path: plain(node_scores)
        for path, node_scores in score_nodes(tree, dataset).items()
        if node_scores.data_vars
    }


def store_scores(cube: Path, tree: xr.DataTree) -> tuple[Path, bool]:
    """Store all scores of a cube `<name>.zarr` beside it, unless they are there already.

    Returns the path `<name>.scores.zarr`, with one node for each data set, and whether it was computed now.
    It is an `InputError` if something else has its name.
    """
    path, sha256 = cube.with_name(cube.name.removesuffix(".zarr") + SUFFIX), fingerprint(tree)
    stored_attributes = _stored_attributes(path)
    if stored_attributes is not None and stored_attributes.get(FINGERPRINT) == sha256:
        return path, False
    attributes = {"format": FORMAT, FINGERPRINT: sha256, "cube": cube.name}
    nodes = {"/": xr.Dataset(attrs=attributes)}
    for dataset in tree.attrs["datasets"]:
        nodes |= score_datasets(tree, dataset)
    with building(path) as folder, warnings.catch_warnings():
        # zarr warns that other readers may not know consolidated metadata, which harms nobody
        warnings.filterwarnings("ignore", message="Consolidated metadata", category=ZarrUserWarning)
        xr.DataTree.from_dict(nodes).to_zarr(folder / path.name, mode="w", consolidated=True)
        # a process that is stopped between these two steps leaves none: they are computed again
        if stored_attributes is not None:
            shutil.rmtree(path)
        (folder / path.name).rename(path)
    return path, True


def _stored_attributes(path: Path) -> dict[str, object] | None:
    """Return the attributes of stored scores, None if there is nothing."""
    if not os.path.lexists(path):
        return None
    with suppress(OSError, ValueError, KeyError, TypeError):
        attributes = json.loads(read_regular(path / "zarr.json", LONGEST_ROOT))["attributes"]
        if attributes["format"] == FORMAT and not path.is_symlink():
            return dict(attributes)
    raise refused(path, "something else", "scores of a cube, or nothing", "move it away")


def plain(table: xr.Dataset) -> xr.Dataset:
    """Return scores with coordinates that any reader takes, and none that they do not lie on."""
    names = {dim for array in table.data_vars.values() for dim in array.dims}
    names |= {
        name for name, coordinate in table.coords.items() if coordinate.dims and set(coordinate.dims) <= names
    }
    table = table.drop_vars([name for name in table.coords if name not in names])
    texts = {
        name: (coordinate.dims, np.array([str(text) for text in coordinate.values.tolist()], dtype=object))
        for name, coordinate in table.coords.items()
        if coordinate.dtype.kind in "TOU"
    }
    return table.assign_coords(texts).drop_encoding()


# Scores of the chosen structure, which become attributes.
CHOICE = ("held_out", "held_out_right", "base_rate", "distance_rate")


def gaussians_of(cell: xr.Dataset) -> Gaussians | None:
    """Return the Gaussians of a cell from the node of its model, None if it has none; raise `InputError`
    if they are damaged.
    """
    if any(name not in cell for name in ROWS):
        return None
    sizes = cell["centroids"].sizes
    try:
        return from_rows({name: cell[name].values for name in ROWS}, sizes["feature"], sizes["cluster"])
    except ValueError as error:
        hint = "compute it again: sweep verify says which cells differ"
        raise refused(", ".join(ROWS), str(error), "Gaussians of a cell", hint) from None


def components(tree: xr.DataTree, dataset: str, **cell: Any) -> xr.Dataset:
    """Return the Gaussians that the classes of a cell are unions of, and how well they predicted
    annotations.

    Parameters
    ----------
    tree : xarray.DataTree
        cube from `open_cube`
    dataset : str
        name of its node
    **cell : int, float or str
        coordinates of the cell, such as p, m, replicate and model

    Returns
    -------
    xarray.Dataset
        `class_of` and `weights` (component), `means` (component, axis), `covariances` (component, axis,
        axis_2), `axes` (feature, axis) and `center` (feature). Means and covariances are in the coordinates
        ``(X - center) @ axes``. Attributes: `structure`, in words; `held_out`, minus the mean
        log-probability of held-out annotations in nats; `base_rate` and `distance_rate`, the same when only
        the share of must-links, or the distance of the samples, is known; and `held_out_right`, the share
        predicted. They are NaN if no annotations were held out, and the third if no groups were merged.

    Raises
    ------
    InputError
        If coordinates are missing, or the cube has no Gaussians of the cell: it is not done or has another
        model, or the cube has format 2.
    KeyError
        If there is no such data set or value.

    Examples
    --------
    >>> from sweep_clustering import components, open_cube
    >>> tree = open_cube("results/shapes.zarr")
    >>> gaussians = components(tree, "iris", p=0.9, m=75, replicate=0, model="conditional-any")
    >>> gaussians.attrs["structure"]
    '2 full in 2 principal components'
    >>> dict(gaussians.covariances.sizes)
    {'component': 6, 'axis': 2, 'axis_2': 2}
    """
    node, location = tree[dataset], "/".join([dataset, *(f"{name}={value}" for name, value in cell.items())])
    if cell.get("model") in node.children:
        node = node[cell["model"]]
        del cell["model"]
    selection = node.to_dataset().sel(cell)
    if open_dims := [dim for dim in selection["status"].dims if selection.sizes[dim] > 1]:
        raise refused(location, f"no {', '.join(map(str, open_dims))}", "the coordinates of a cell")
    selection = selection.isel(dict.fromkeys(selection["status"].dims, 0))
    gaussians = gaussians_of(selection) if selection["status"] == DONE else None
    if gaussians is None:
        expected = "a cell that is done, whose classes are unions of Gaussians, in a cube of format 3"
        raise refused(location, "no Gaussians", expected)
    axes = np.eye(len(gaussians.center)) if gaussians.axes is None else gaussians.axes
    return xr.Dataset(
        {
            "class_of": ("component", gaussians.class_of),
            "weights": ("component", gaussians.weights),
            "means": (("component", "axis"), gaussians.means),
            "covariances": (("component", "axis", "axis_2"), gaussians.matrices),
            "axes": (("feature", "axis"), axes),
            "center": ("feature", gaussians.center),
        },
        coords={"feature": selection["feature"]} if "feature" in selection.coords else {},
        attrs={"structure": str(gaussians.structure), **{name: _score(selection, name) for name in CHOICE}},
    )


def _score(cell: xr.Dataset, name: str) -> float:
    """Return the one value of a score of the choice: unions have scores at their own shape alone."""
    values = cell[name].values.ravel() if name in cell else np.empty(0)
    finite = values[~np.isnan(values)]
    return float(finite[0]) if len(finite) else float("nan")
