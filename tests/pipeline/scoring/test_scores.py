"""Scores: the declarations by hand, lazily over a cube against the array cores, and stored beside it."""

from __future__ import annotations

import inspect
import math
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
from cubes import toy
from cubes.reported import make

from kernels import scores as core
from pipeline.scoring.scores import (
    CATALOGUE,
    LABELS,
    QUALITIES,
    SCORES,
    baseline_scores,
    fingerprint,
    relative_nmi,
    score_nodes,
    scores,
    scores_path,
    store_scores,
)
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, VARIABLES
from sweeps.errors import InputError
from sweeps.shapes import CODES, widened
from sweeps.words import AUTO, shape_of

ARRAYS = {
    "X": np.array([[0.0], [2.0], [10.0], [12.0]]),
    "labels_true": np.array([0, 0, 1, 1], np.int16),
    "labels": np.array([1, 1, 0, 0], np.int16),
    "centroids": np.array([[11.0], [1.0]]),
    "covariances": np.array([1.0, 1.0]),
    "covariance_shape": 0,
    "covariance_prior": 1.0,
    "annotations": np.array([[0, 1, 0], [0, 2, 1], [2, 3, 1]], np.int32),
    "log_likelihood": np.array([-3.0, -1.5, np.nan]),
}
"""A perfect solution with the clusters named the other way round; the last annotation is wrong."""

NOTHING = {
    "labels": np.full(4, -1, np.int16),
    "centroids": np.full((2, 1), np.nan),
    "covariances": np.full(2, np.nan),
    "log_likelihood": np.full(3, np.nan),
}
"""The same cell before it is done."""

EXPECTED = {
    "nmi": 1.0,
    "adjusted_rand": 1.0,
    "goldberger_kl": 0.0,
    "centroid_index": 0.0,
    "annotation_agreement": 2 / 3,
    "objective": -1.5,
}


def value(name: str, arrays: dict[str, Any]) -> float:
    score = CATALOGUE[name]
    return score.of_cell(*(arrays[array] for array in score.arrays), **dict.fromkeys(score.options, "min"))


def test_scores_of_one_cell_by_hand() -> None:
    assert {name: value(name, ARRAYS) for name in EXPECTED} == pytest.approx(EXPECTED)
    assert all(np.isnan(value(name, ARRAYS | NOTHING)) for name in EXPECTED)
    spoilt = ARRAYS | {"annotations": np.array([[0, 9, 0]])}
    with pytest.raises(InputError, match="a cell of the cube: found index 9 is out of bounds"):
        value("annotation_agreement", spoilt)


@pytest.mark.parametrize(("shape", "prior"), [*product(CODES, (0.0, 1.0))])
def test_a_solution_that_is_the_truth_has_no_divergence(shape: str, prior: float) -> None:
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], 10).astype(np.int16)
    X = rng.normal(size=(30, 3)) + np.array([0, 3, 9])[truth][:, None]
    own = core.cluster_covariances(X, truth, 3, shape, prior)
    cell = {
        "X": X,
        "labels_true": truth,
        "labels": truth,
        "centroids": core.cluster_gaussians(X, truth, 3)[1],
    }
    cell |= {"covariance_shape": CODES[shape], "covariance_prior": prior}
    for n_axes in range(own.ndim - 1, 3):
        found = value("goldberger_kl", cell | {"covariances": widened(own, n_axes, 3)})
        assert found == pytest.approx(0.0, abs=1e-12)
    assert value("goldberger_kl", cell | {"covariances": 1.5 * own}) > 0.1


def test_declarations_fit_their_functions_and_the_cube() -> None:
    for name, score in CATALOGUE.items():
        assert set(score.arrays) <= {*VARIABLES, "covariance_prior"}
        assert (score.function is None) == (score.arrays == ())
        if score.function is not None and name != "objective":  # which is a ufunc
            assert tuple(inspect.signature(score.function).parameters) == score.arrays + score.options
        assert ("nats" in score.label.axis) == (score.units == "nats")
    assert tuple(LABELS) == (*SCORES, "seconds", "cpu_seconds", "restarts_done", "hits")
    assert set(SCORES) - set(QUALITIES) == {"objective"}
    assert len({label.short for label in LABELS.values()}) == len(LABELS)


PRIOR = 2.5
"""Not the default: the strength of the prior is that of the sweep."""
REAL = toy.plan("iris")
SHAPES = toy.plan(
    "shapes",
    models=("likelihood", "posterior-full", "posterior-diagonal", "likelihood-tied", "conditional-common"),
    baselines=("unsupervised", "unsupervised-diagonal", "unsupervised-full"),
    model_chunk=5,
)
FLAT = toy.plan("flat", models=("likelihood", "conditional-diagonal"), baselines=("unsupervised-diagonal",))
CHOSEN = toy.plan("chosen", models=("likelihood", "posterior-auto", "conditional-tied"), model_chunk=3)
MIXED = toy.plan("mixtures_k3", mixtures=2, replicates=1, replicate_chunk=1)


def expected(tree: xr.DataTree, name: str, node: str, cell: dict[str, int]) -> dict[str, float]:
    """Scores of one cell by the array cores."""
    data, results = tree[name].to_dataset(), tree[node].to_dataset().isel(cell)
    mixture = {"mixture": cell["mixture"]} if "mixture" in cell else {}
    if int(results["status"]) != DONE:
        return dict.fromkeys(EXPECTED, math.nan)
    X, truth = data["X"].isel(mixture).values, data["labels_true"].isel(mixture).values
    labels, centroids = results["labels"].values, results["centroids"].values
    model = node.rpartition("/")[2] if "/" in node else str(results["model"].values)
    shape, n_classes = shape_of(model), int(truth.max()) + 1
    if shape == AUTO:
        shape = list(CODES)[int(results["covariance_shape"])]
    sizes_true, means_true, _ = core.cluster_gaussians(X, truth, n_classes)
    covariances_true = core.cluster_covariances(X, truth, n_classes, shape, PRIOR)
    gaussians = sizes_true, means_true, covariances_true
    covariances = results["covariances"].values
    if shape in ("spherical", "common"):
        covariances = covariances.reshape(len(centroids), -1)[:, 0]
    elif shape == "diagonal" and covariances.ndim == 3:
        covariances = np.array([np.diag(matrix) for matrix in covariances])
    solution = np.bincount(labels, minlength=len(centroids)), centroids, covariances
    found = {
        "objective": float(results["log_likelihood"].max()),
        "nmi": core.nmi(truth, labels, "min"),
        "adjusted_rand": core.adjusted_rand(truth, labels),
        "centroid_index": core.centroid_index(centroids, gaussians[1]),
        "goldberger_kl": core.goldberger_kl(*solution, *gaussians, core.total_variance(X)),
    }
    if "annotations" in results:
        found["annotation_agreement"] = core.annotation_agreement(results["annotations"].values, labels)
    return found


@pytest.mark.parametrize(
    ("plan", "chunked"),
    [(REAL, True), (MIXED, True), (MIXED, False), (SHAPES, False), (FLAT, False), (CHOSEN, True)],
    ids=["real", "mixtures-lazy", "mixtures", "matrices", "diagonal", "chosen"],
)
def test_every_cell_equals_the_array_cores(plan: Any, chunked: bool) -> None:
    tree = toy.tree(plan, chunked=chunked)
    tree.attrs["spec"] = {"search": {"covariance_prior": PRIOR}}
    name = plan.name
    nodes = {name: scores(tree, name)}
    nodes |= {f"{name}/{model}": baseline_scores(tree, name, model) for model in plan.baselines}
    for node, found in nodes.items():
        found = found.compute()
        assert set(found) == set(EXPECTED) - ({"annotation_agreement"} if node != name else set())
        for position in product(*map(range, found["nmi"].shape)):
            cell = dict(zip(found["nmi"].dims, position, strict=True))
            wanted = expected(tree, name, node, cell)
            for score in found:
                np.testing.assert_equal(
                    float(found[score].isel(cell)), float(wanted[score]), f"{score} {cell}"
                )


def test_the_prior_is_that_of_the_search() -> None:
    tree = toy.tree(SHAPES, chunked=False)
    found = {}
    for prior in (1.0, PRIOR):
        tree.attrs["spec"] = {"search": {"covariance_prior": prior}}
        found[prior] = scores(tree, "shapes")["goldberger_kl"]
    with_prior = [model for model in SHAPES.models if shape_of(model) not in ("spherical", "common")]
    differs = (found[1.0] != found[PRIOR]) & found[1.0].notnull()
    assert differs.any(["p", "m", "replicate"]).sel(model=with_prior).all()
    assert not differs.drop_sel(model=with_prior).any()
    # two searches with priors of their own, and a baseline of no search
    names = ["first", "second"]
    whole = tree["shapes"].to_dataset()
    results = {each: variable for each, variable in whole.items() if "model" in variable.dims}
    both = whole.assign(
        {each: variable.expand_dims(search=names, axis=3) for each, variable in results.items()}
    )
    nodes = {"/shapes": both, "/shapes/unsupervised": tree["shapes/unsupervised"].to_dataset(inherit=False)}
    of_two = xr.DataTree.from_dict(nodes)
    of_two.attrs["spec"] = {"search": [{"name": "first"}, {"name": "second", "covariance_prior": PRIOR}]}
    divergence = scores(of_two, "shapes")["goldberger_kl"]
    assert divergence.dims == ("p", "m", "replicate", "search", "model")
    np.testing.assert_array_equal(divergence.sel(search="first"), found[1.0])
    np.testing.assert_array_equal(divergence.sel(search="second"), found[PRIOR])
    assert baseline_scores(of_two, "shapes")["goldberger_kl"].dims == ()


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something was computed")

    tree = toy.tree(REAL, MIXED)
    with dask.config.set(scheduler=refuse):
        found, baseline = scores(tree, "iris"), baseline_scores(tree, "iris")
        difference = relative_nmi(found, {"unsupervised": baseline})
        with pytest.raises(AssertionError, match="something was computed"):
            difference.compute()
        mixed, drawn = scores(tree, "mixtures_k3"), baseline_scores(tree, "mixtures_k3")
    assert found["nmi"].dims == ("p", "m", "replicate", "model")
    assert mixed["nmi"].dims == ("mixture", "p", "m", "replicate", "model")
    assert baseline["nmi"].dims == ()
    assert drawn["nmi"].dims == ("mixture",)
    assert set(drawn.coords) == {"mixture"}
    assert found["objective"].attrs["units"] == "nats"
    for score in found.compute().values():  # failed and pending cells are missing
        assert set(np.flatnonzero(np.isnan(score.values.ravel()))) == {toy.FAILED_CELL, toy.PENDING_CELL}


@pytest.mark.parametrize("changes", [{}, {"mixtures": 2}], ids=["real", "mixtures"])
def test_relative_nmi_is_against_the_baseline_of_the_same_variance(changes: Any) -> None:
    models = ("posterior", "posterior-common", "likelihood")
    both = ("unsupervised", "unsupervised-common")
    tree = toy.tree(toy.plan("iris", models=models, model_chunk=3, baselines=both, **changes), chunked=False)
    found, baselines = scores(tree, "iris"), {name: baseline_scores(tree, "iris", name) for name in both}
    nodes = score_nodes(tree, "iris")
    assert list(nodes) == ["iris", *(f"iris/{name}" for name in both)]
    difference = nodes["iris"]["relative_nmi"]
    assert difference.dims == found["nmi"].dims
    for model, baseline in zip(models, (both[0], both[1], both[0]), strict=True):
        wanted = found["nmi"].sel(model=model) - baselines[baseline]["nmi"]
        np.testing.assert_array_equal(difference.sel(model=model), wanted.transpose(*difference.dims[:-1]))
        assert np.isfinite(wanted).any()
    without = relative_nmi(found, {both[1]: baselines[both[1]]})
    assert np.isnan(without.sel(model=["posterior", "likelihood"])).all()
    xr.testing.assert_equal(without.sel(model="posterior-common"), difference.sel(model="posterior-common"))


def test_normalizer_is_passed_on() -> None:
    tree = toy.tree(REAL, chunked=False)
    truth, labels = tree["iris/labels_true"].values, tree["iris/unsupervised/labels"].values
    for normalizer in core.NORMALIZERS:
        found = baseline_scores(tree, "iris", normalizer=normalizer)["nmi"]
        assert float(found) == core.nmi(truth, labels, normalizer)
    with pytest.raises(ValueError, match="found 'mean', expected one of min, geometric"):
        scores(tree, "iris", normalizer="mean")


def test_what_is_not_there_has_no_scores() -> None:
    plans = (
        toy.plan("a", baselines=()),
        toy.plan("b", models=(), p=(), m=()),
        toy.plan("own", has_labels=False),
    )
    tree = toy.tree(*plans, chunked=False)
    assert not baseline_scores(tree, "a").data_vars
    assert not scores(tree, "b").data_vars
    assert float(baseline_scores(tree, "b")["nmi"]) >= 0
    assert set(scores(tree, "own")) == {"annotation_agreement", "objective"}
    assert set(baseline_scores(tree, "own")) == {"objective"}
    # a class without samples has no centroid
    truth = tree["b/labels_true"].values
    truth[truth == 1] = 2
    X, centroids = tree["b/X"].values, tree["b/unsupervised/centroids"].values
    means = np.stack([X[truth == label].mean(axis=0) for label in (0, 2)])
    assert float(baseline_scores(tree, "b")["centroid_index"]) == core.centroid_index(centroids, means)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("scored"), toy.plan("iris"), toy.plan("drawn", mixtures=2))


@pytest.fixture
def cube(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / made.name)
    return tmp_path / made.name


def test_plain_xarray_opens_scores_that_are_stored_until_they_are_stale(
    cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = open_cube(cube)
    path = scores_path(cube)
    assert store_scores(cube, tree) == (path, True)
    assert path == cube.with_suffix(".scores.zarr")
    found = xr.open_datatree(path, engine="zarr")
    for name, plan in read_manifest(cube).plans.items():
        nodes = {name: scores(tree, name)} if plan.supervised else {}
        nodes |= {f"{name}/{model}": baseline_scores(tree, name, model) for model in plan.baselines}
        for node, expected in nodes.items():
            for score, values in expected.items():
                assert np.array_equal(found[node][score].values, values.values, equal_nan=True)
                assert found[node][score].attrs == values.attrs
    (path / "marker").write_text("of the first time")
    assert store_scores(cube, tree) == (path, False)
    assert (path / "marker").exists()
    monkeypatch.setattr("pipeline.scoring.scores.version", lambda name: "another release")
    assert store_scores(cube, tree) == (path, True)
    assert not (path / "marker").exists()
    assert sorted(each.name for each in path.parent.iterdir()) == sorted([cube.name, path.name])


def test_cells_that_are_done_meanwhile_make_them_stale_and_what_is_no_store_stays(cube: Path) -> None:
    tree = open_cube(cube)
    first = fingerprint(tree)
    node = next(node for node in tree.subtree if "status" in node.data_vars)
    node["status"] = xr.zeros_like(node["status"])
    assert fingerprint(tree) != first
    scores_path(cube).mkdir()
    (scores_path(cube) / "mine").write_text("")
    with pytest.raises(InputError, match="found something else, expected scores of a cube, or nothing"):
        store_scores(cube, tree)
    assert (scores_path(cube) / "mine").exists()
