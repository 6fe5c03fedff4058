"""Scores of the cells of a cube (model.md, section 5): declared, computed lazily, and stored beside it.

`CATALOGUE` declares each score once: its names, unit and direction, and the arrays of a cell that it takes.
`scores` and `baseline_scores` lift it over a cube without reading anything before a value is asked for;
`score_nodes` gives those of every node of a data set, and `store_scores` keeps them for who has only xarray.
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
from sweep_clustering.kernels.settings import DEFAULT
from sweep_clustering.storage.cube.schema import DONE, VARIABLES
from sweep_clustering.storage.errors import storage_errors
from sweep_clustering.storage.files import LONGEST_ROOT, read_regular
from sweep_clustering.sweeps.errors import InputError, Problem, given
from sweep_clustering.sweeps.shapes import CODES, narrowed
from sweep_clustering.sweeps.words import BASELINES, UNSUPERVISED, baseline_of, is_model, shape_of

Array = np.ndarray
MEAN_NORMALISED = "Arithmetic NMI is normalised by the mean of both entropies, as in scikit-learn."
# Shapes of covariances by their code.
SHAPES = {code: shape for shape, code in CODES.items()}


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
    note : str
        What everything that shows the short words has to say of them, once.
    """

    short: str
    axis: str
    better: int
    note: str = ""


@dataclass(frozen=True)
class Score:
    """One score.

    Parameters
    ----------
    name : str
        Of the variable, and of the column in tables.
    meaning, units : str
        Its attributes `long_name`, which "{normalizer}" has a place in where there are several, and `units`.
    label : Label
        What people call it.
    arrays : tuple of str
        Variables of the cube that it takes, those of one cell, with the dims they have in the schema. The
        shape of covariances is given for every model, as its code, and the prior of its search beside them.
    function : callable or None
        From these arrays of a cell that is done to a float, NaN where it is not defined; None for a score
        made from others.
    options : tuple of str
        Keyword options of `function`, which callers may choose.
    normalizer : str
        One that callers may not choose: the score is this one.
    """

    name: str
    meaning: str
    units: str
    label: Label
    arrays: tuple[str, ...] = ()
    function: Callable[..., float] | None = None
    options: tuple[str, ...] = ()
    normalizer: str = ""

    def of_cell(self, *arrays: np.ndarray, **options: Any) -> float:
        """Value for the arrays of one cell: NaN of a cell that is not done.

        Raises
        ------
        InputError
            For values that no solver writes: an error of the cube, not of the score.
        """
        cell = dict(zip(self.arrays, arrays, strict=True))
        if "labels" in cell:
            pending = cell["labels"].size == 0 or cell["labels"].min() < 0
        else:
            pending = "centroids" in cell and np.isnan(cell["centroids"]).any()
        try:
            return np.nan if pending else float(given(self.function)(*arrays, **options))
        except (IndexError, KeyError, ValueError) as error:
            where = "a cell of the cube"
            raise InputError([Problem(where, str(error), "labels and pairs of its data")]) from error


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

# Of scores, then of what a cell took.
LABELS = {name: score.label for name, score in CATALOGUE.items()} | {
    "seconds": Label("seconds", "time in kernels (s)", -1),
    "cpu_seconds": Label("CPU seconds", "CPU time in kernels (s)", -1),
    "restarts_done": Label("restarts", "restarts (number)", 0),
    "hits": Label("hits", "restarts that found the best (number)", 0),
}


# In place of the code of a shape that each cell chooses.
CHOSEN = -1


def scores(
    tree: xr.DataTree, dataset: str, *, normalizer: str = "min", baselines: bool = False
) -> xr.Dataset:
    """Scores of the supervised cells of one data set, and of its baselines beside them if asked for.

    Parameters
    ----------
    tree : xarray.DataTree
        An opened cube.
    dataset : str
        Name of its node.
    normalizer : {"min", "geometric", "arithmetic", "max"}
        Of the NMI; only "min" compares with the paper's tables.
    baselines : bool
        Whether `model` has the baselines too, models and methods that see no annotations. Each has one value,
        which is repeated for every p, m and replicate; `annotation_agreement` is NaN there.

    Returns
    -------
    xarray.Dataset
        Lazy variables on the cell dims: `objective` (nats, or of a method its own) and
        `annotation_agreement`, and where true labels are known `nmi`, `adjusted_rand`, `goldberger_kl` (nats)
        and `centroid_index`. NaN where a cell is not done. Empty if the data set has no supervised cells.

    Raises
    ------
    ValueError
        For an unknown normalizer.

    Examples
    --------
    >>> from sweep_clustering import open_cube, scores
    >>> found = scores(open_cube("results/quick.zarr"), "iris")
    >>> found["nmi"].mean("replicate").dims
    ('p', 'm', 'model')
    """
    node, found = tree[dataset].to_dataset(), xr.Dataset()
    if "labels" in node:
        found = _scores(tree, node, node, node["model"], normalizer)
    if not baselines:
        return found
    beside = [found] if found.data_vars else []
    for model in baselines_of(tree, dataset):
        each = baseline_scores(tree, dataset, model, normalizer=normalizer)
        if found.data_vars:
            ones = {name: xr.ones_like(like) for name, like in found.isel(model=0, drop=True).items()}
            each = xr.Dataset({name: each.get(name, np.nan) * one for name, one in ones.items()})
        beside.append(each.assign_coords(model=model).expand_dims("model", -1))
    whole = xr.concat(beside, "model", coords="minimal", compat="override", combine_attrs="override")
    return _with_unit_of_objective(whole, whole["model"])


def baselines_of(tree: xr.DataTree, dataset: str) -> list[str]:
    """Models and methods of a data set that see no annotations, models first."""
    children = tree[dataset].children
    return [model for model in dict.fromkeys([*BASELINES, *children]) if model in children]


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
    >>> from sweep_clustering import baseline_scores, open_cube
    >>> baseline_scores(open_cube("results/quick.zarr"), "mixtures_k3")["nmi"].dims
    ('mixture',)
    """
    if model not in tree[dataset].children:
        return xr.Dataset()
    node = tree[f"{dataset}/{model}"].to_dataset()
    return _scores(tree, node, tree[dataset].to_dataset(), xr.DataArray(model), normalizer)


def cell_scores(arrays: Mapping[str, Any]) -> dict[str, float]:
    """Scores of one cell that is done, of its arrays alone; without those that need others than these.

    Parameters
    ----------
    arrays : mapping of str to array
        By the names that `Score.arrays` has for them.

    Returns
    -------
    dict of str to float
        The values that `scores` or `baseline_scores` gives for the cell of a cube.
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
    """Scores of a data set by the path of their node, relative NMI among them.

    First those of models with annotations, which are empty where there are none, then each baseline.
    """
    found = scores(tree, dataset)
    baselines = {model: baseline_scores(tree, dataset, model) for model in baselines_of(tree, dataset)}
    if "nmi" in found and baselines:
        found["relative_nmi"] = relative_nmi(found, baselines)
    return {dataset: found} | {f"{dataset}/{model}": each for model, each in baselines.items()}


def relative_nmi(found: xr.Dataset, baselines: Mapping[str, xr.Dataset]) -> xr.DataArray:
    """NMI of each supervised cell minus that of a baseline on the same data (docs/model.md, eq. (28)).

    The baseline is the one of the same shape, and the spherical one of a model that chooses its shape: the
    difference is what the annotations add. A model whose baseline is not there has NaN.

    Parameters
    ----------
    found : xarray.Dataset
        From `scores`, with `nmi`.
    baselines : mapping of str to xarray.Dataset
        Those of each baseline, by its name.
    """
    wanted = [baseline_of(model) for model in found["model"].values.tolist()]
    levels = [baselines[name]["nmi"] if name in baselines else xr.DataArray(np.nan) for name in wanted]
    level = xr.concat(levels, dim=found["model"], coords="minimal", compat="override")
    difference = found["nmi"] - level
    words = _words(CATALOGUE["relative_nmi"], found["nmi"].attrs["normalizer"])
    return difference.assign_attrs(words).rename("relative_nmi")


def _scores(
    tree: xr.DataTree, node: xr.Dataset, data: xr.Dataset, model: xr.DataArray, normalizer: str
) -> xr.Dataset:
    """Every score whose arrays are there, masked by status; `data` holds X and labels_true."""
    if normalizer not in core.NORMALIZERS:
        raise ValueError(f"normalizer: found {normalizer!r}, expected one of {', '.join(core.NORMALIZERS)}")
    arrays: dict[Any, xr.DataArray] = {**data.data_vars, **node.data_vars}
    arrays |= {"covariance_shape": _shapes(node, model), "covariance_prior": _priors(tree, node)}
    found = {}
    for name, score in CATALOGUE.items():
        # A node without annotations of its own, a baseline, has none: those of `data` are of other cells.
        there = all(array in (node if array == "annotations" else arrays) for array in score.arrays)
        if score.function is None or not there:
            continue
        value: xr.DataArray = xr.apply_ufunc(
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
        found[name] = value.where(node["status"] == DONE).assign_attrs(_words(score, normalizer))
    return _with_unit_of_objective(xr.Dataset(found), model)


def _with_unit_of_objective(found: xr.Dataset, model: xr.DataArray) -> xr.Dataset:
    """Take the unit nats from objectives if a method is among them, which maximises its own objective."""
    if "objective" in found and not all(map(is_model, np.atleast_1d(model.values).tolist())):
        meaning = f"{CATALOGUE['objective'].meaning}: nats for models, an own objective for methods"
        found["objective"].attrs |= {"units": "1", "long_name": meaning}
    return found


def _priors(tree: xr.DataTree, node: xr.Dataset) -> xr.DataArray:
    """Strength of the prior of covariances: a setting of the sweep, which each search may have of its own."""
    found = tree.root.attrs.get("spec", {}).get("search", {})
    searches = found if isinstance(found, list) else [found]
    usual = DEFAULT.covariance_prior
    priors = {each.get("name"): each.get("covariance_prior", usual) for each in searches}
    first = next(iter(priors.values()))
    if "search" not in node["status"].dims:
        return xr.DataArray(first)
    return xr.DataArray([priors.get(name, first) for name in node["search"].values.tolist()], dims="search")


def _shapes(node: xr.Dataset, model: xr.DataArray) -> xr.DataArray:
    """Code of the shape of covariances of each cell: that of its model, or the one it chose."""
    fixed = [CODES.get(shape_of(name), CHOSEN) for name in np.atleast_1d(model.values).tolist()]
    codes = xr.DataArray(np.array(fixed, dtype=np.int8).reshape(model.shape), dims=model.dims)
    if "covariance_shape" in node:
        codes = node["covariance_shape"].where(codes == CHOSEN, codes)
    return codes


def _words(score: Score, normalizer: str) -> dict[str, str]:
    """Attributes of a variable; of one that is normalised in several ways, by what."""
    used = score.normalizer or normalizer
    named = score.meaning.format(normalizer=core.NORMALIZERS[used])
    by = {"normalizer": used} if named != score.meaning else {}
    return {"long_name": named, "units": score.units, **by}


def _core_dims(name: str, array: xr.DataArray) -> tuple[str, ...]:
    """Dims of one cell; covariances have more of them where a model of the node does."""
    if name not in VARIABLES:
        return ()  # the prior
    more = array.dims[array.dims.index("cluster") + 1 :] if name == "covariances" else ()
    return VARIABLES[name].dims + tuple(map(str, more))


SUFFIX = ".scores.zarr"
FORMAT = "sweep scores"
# Attribute of the root: sha256 of all that the scores follow from.
FINGERPRINT = "fingerprint"


def fingerprint(tree: xr.DataTree) -> str:
    """Sha256 of what scores follow from: the sweep, its data, which cells are done, and this release.

    Done cells never change, so that their status stands for what is in them.

    Parameters
    ----------
    tree : xarray.DataTree
        The opened cube.
    """
    of_cube = [tree.attrs.get(key) for key in ("format_version", "spec", "datasets")]
    told = [version("sweep-clustering"), SCORES, *of_cube]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for node in tree.subtree:
        if "status" in node.data_vars:
            digest.update(node.path.encode() + b"\0")
            digest.update(np.ascontiguousarray(node["status"].values, dtype=np.int8).tobytes())
    return digest.hexdigest()


def score_datasets(tree: xr.DataTree, dataset: str) -> dict[str, xr.Dataset]:
    """Scores of a data set by the path of their node: those of models with annotations, and of each baseline.

    Parameters
    ----------
    tree : xarray.DataTree
        An opened cube.
    dataset : str
        Name of its node.

    Returns
    -------
    dict of str to xarray.Dataset
        Lazy; without nodes that have no scores.
    """
    return {path: plain(each) for path, each in score_nodes(tree, dataset).items() if each.data_vars}


def store_scores(cube: Path, tree: xr.DataTree) -> tuple[Path, bool]:
    """Store all scores of a cube beside it, unless those that are there are of the same cells.

    Parameters
    ----------
    cube : Path
        `<name>.zarr`.
    tree : xarray.DataTree
        The same, opened.

    Returns
    -------
    path : Path
        The store `<name>.scores.zarr` beside it: `xarray.open_datatree(path, engine="zarr")` has one node for
        each data set.
    is_new : bool
        Whether it was computed now.

    Raises
    ------
    InputError
        If something else has its name.
    StorageError
        If the file system refuses.
    """
    path, wanted = cube.with_name(cube.name.removesuffix(".zarr") + SUFFIX), fingerprint(tree)
    found = _attributes(path)
    if found is not None and found.get(FINGERPRINT) == wanted:
        return path, False
    names = (node.path.strip("/") for node in tree.subtree if "X" in node.data_vars)
    nodes = {path: each for name in names for path, each in score_datasets(tree, name).items()}
    attributes = {"format": FORMAT, FINGERPRINT: wanted, "cube": cube.name}
    stored = xr.DataTree.from_dict({"/": xr.Dataset(attrs=attributes), **nodes})
    making = path.with_name(f".{path.name}.{os.getpid()}")
    with storage_errors(path), warnings.catch_warnings():
        # zarr says of consolidated metadata that other readers may not know them: they lose nothing
        warnings.filterwarnings("ignore", message="Consolidated metadata", category=ZarrUserWarning)
        try:
            stored.to_zarr(making, mode="w", consolidated=True)
            # a process that is stopped between these two steps leaves none: they are computed again
            if found is not None:
                shutil.rmtree(path)
            making.rename(path)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return path, True


def _attributes(path: Path) -> dict[str, object] | None:
    """Attributes of stored scores; None where there is nothing."""
    if not os.path.lexists(path):
        return None
    with suppress(OSError, ValueError, KeyError, TypeError):
        attributes = json.loads(read_regular(path / "zarr.json", LONGEST_ROOT))["attributes"]
        if attributes["format"] == FORMAT and not path.is_symlink():
            return dict(attributes)
    raise InputError([Problem(str(path), "something else", "scores of a cube, or nothing", "move it away")])


def plain(found: xr.Dataset) -> xr.Dataset:
    """Scores with coordinates that any reader takes, and none that they do not lie on."""
    kept = {dim for array in found.data_vars.values() for dim in array.dims}
    kept |= {name for name, each in found.coords.items() if each.dims and set(each.dims) <= kept}
    found = found.drop_vars([name for name in found.coords if name not in kept])
    texts = {
        name: (each.dims, np.array([str(text) for text in each.values.tolist()], dtype=object))
        for name, each in found.coords.items()
        if each.dtype.kind in "TOU"
    }
    return found.assign_coords(texts).drop_encoding()
