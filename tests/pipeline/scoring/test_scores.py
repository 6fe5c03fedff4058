"""Scores: the declarations by hand, lazily over a cube against the array cores, and stored beside it."""

from __future__ import annotations

import math
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
from storage.cube.schema import DONE
from sweeps.errors import InputError
from sweeps.shapes import CODES
from sweeps.words import AUTO, shape_of

NAMES = {"nmi", "adjusted_rand", "goldberger_kl", "centroid_index", "annotation_agreement", "objective"}


def test_values_that_no_solver_writes_are_an_error_of_the_cube() -> None:
    with pytest.raises(InputError, match="a cell of the cube: found index 9 is out of bounds"):
        CATALOGUE["annotation_agreement"].of_cell(np.array([[0, 9, 0]]), np.zeros(4, np.int16))


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
        return dict.fromkeys(NAMES, math.nan)
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
        assert set(found) == NAMES - ({"annotation_agreement"} if node != name else set())
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
    assert (found[1.0] != found[PRIOR]).any(["p", "m", "replicate"]).sel(model="posterior-full")
    # two searches with priors of their own, and a baseline of no search
    whole, names = tree["shapes"].to_dataset(), ["first", "second"]
    results = {name: each for name, each in whole.items() if "model" in each.dims}
    both = whole.assign({name: each.expand_dims(search=names, axis=3) for name, each in results.items()})
    nodes = {"/shapes": both, "/shapes/unsupervised": tree["shapes/unsupervised"].to_dataset(inherit=False)}
    of_two = xr.DataTree.from_dict(nodes)
    of_two.attrs["spec"] = {"search": [{"name": "first"}, {"name": "second", "covariance_prior": PRIOR}]}
    divergence = scores(of_two, "shapes")["goldberger_kl"]
    for search, prior in (("first", 1.0), ("second", PRIOR)):
        xr.testing.assert_equal(divergence.sel(search=search, drop=True), found[prior])
    assert baseline_scores(of_two, "shapes")["goldberger_kl"].dims == ()


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something was computed")

    tree = toy.tree(REAL, MIXED)
    with dask.config.set(scheduler=refuse):
        nodes = score_nodes(tree, "iris") | score_nodes(tree, "mixtures_k3")
        with pytest.raises(AssertionError, match="something was computed"):
            nodes["iris"]["relative_nmi"].compute()
    dims = {path: found["nmi"].dims for path, found in nodes.items()}
    of_models = ("p", "m", "replicate", "model")
    assert dims == {
        "iris": of_models,
        "iris/unsupervised": (),
        "mixtures_k3": ("mixture", *of_models),
        "mixtures_k3/unsupervised": ("mixture",),
    }
    assert set(nodes["mixtures_k3/unsupervised"].coords) == {"mixture"}
    assert nodes["iris"]["objective"].attrs["units"] == "nats"
    for score in nodes["iris"].compute().values():  # failed and pending cells are missing
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
    of_none, alone = toy.plan("a", baselines=()), toy.plan("b", models=(), p=(), m=())
    plans = (of_none, alone, toy.plan("own", has_labels=False))
    tree = toy.tree(*plans, chunked=False)
    assert not baseline_scores(tree, "a").data_vars
    assert not scores(tree, "b").data_vars
    assert set(scores(tree, "own")) == {"annotation_agreement", "objective"}
    assert set(baseline_scores(tree, "own")) == {"objective"}
    # a class without samples has no centroid
    truth = tree["b/labels_true"].values
    truth[truth == 1] = 2
    X, centroids = tree["b/X"].values, tree["b/unsupervised/centroids"].values
    means = np.stack([X[truth == label].mean(axis=0) for label in (0, 2)])
    assert float(baseline_scores(tree, "b")["centroid_index"]) == core.centroid_index(centroids, means)


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("scored"), toy.plan("iris"), toy.plan("drawn", mixtures=2))


def test_plain_xarray_opens_scores_that_are_stored_until_they_are_stale(
    cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, path = open_cube(cube), scores_path(cube)
    assert store_scores(cube, tree) == (path, True)
    assert path == cube.with_suffix(".scores.zarr")
    stored = xr.open_datatree(path, engine="zarr")
    for name in read_manifest(cube).plans:
        for node, expected in score_nodes(tree, name).items():
            for score, values in expected.items():
                assert np.array_equal(stored[node][score].values, values.values, equal_nan=True)
                assert stored[node][score].attrs == values.attrs
    (path / "marker").write_text("of the first time")
    assert store_scores(cube, tree) == (path, False)
    assert (path / "marker").exists()
    monkeypatch.setattr("pipeline.scoring.scores.version", lambda name: "another release")
    assert store_scores(cube, tree) == (path, True)
    assert not (path / "marker").exists()
    assert {each.name for each in path.parent.iterdir()} == {cube.name, path.name}
    # cells that are done meanwhile; of others nothing counts, whatever is written of them
    first = fingerprint(tree)
    tree["iris"]["status"] = xr.zeros_like(tree["iris"]["status"])
    assert fingerprint(tree) != first
    assert all(score.isnull().all() for score in scores(tree, "iris").values())


def test_what_is_no_store_of_scores_stays(cube: Path, tmp_path: Path) -> None:
    mine = tmp_path / "cube.scores.zarr" / "mine"
    mine.parent.mkdir()
    mine.write_text("")
    with pytest.raises(InputError, match="found something else, expected scores of a cube, or nothing"):
        store_scores(tmp_path / "cube.zarr", open_cube(cube))
    assert mine.exists()
