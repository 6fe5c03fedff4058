"""Scores equal their declarations, lazily over a cube and stored beside it."""

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

from sweep_clustering.kernels import scores as core
from sweep_clustering.pipeline.scoring import scores as room
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.shapes import CODES
from sweep_clustering.sweeps.words import AUTO, baseline_of, shape_of

SUPERVISED = {"annotation_agreement", "relative_nmi"}
PRIORS = (1.0, 2.5)
"""Of two searches; of one it is the second, which is not the default."""
REAL = toy.plan("iris")
MODELS = ("likelihood", "posterior-full", "posterior-diagonal", "likelihood-tied", "conditional-common")
BASELINES = ("unsupervised", "unsupervised-diagonal", "unsupervised-full")
SHAPES = toy.plan("shapes", models=MODELS, baselines=BASELINES, model_chunk=5)
FLAT = toy.plan("flat", models=("likelihood", "conditional-diagonal"), baselines=("unsupervised-diagonal",))
CHOSEN_SHAPE = toy.plan("chosen", models=("likelihood", "posterior-auto", "conditional-tied"), model_chunk=3)
SEARCHED = toy.plan("searched", models=("likelihood", "posterior-full"), searches=("first", "second"))
SHORT = toy.plan("short", short=True)
MIXED = toy.plan("mixtures_k3", mixtures=2, replicates=1, replicate_chunk=1)


def scores_of(tree: xr.DataTree, name: str, node: str, cell: dict[str, int]) -> dict[str, float]:
    """Return the scores of one cell by the array cores."""
    mixture = {"mixture": cell["mixture"]} if "mixture" in cell else {}
    data, results = tree[name].to_dataset().isel(mixture), tree[node].to_dataset().isel(cell)
    if int(results["status"]) != DONE:
        return dict.fromkeys(room.SCORES, math.nan)
    X, truth, labels = (
        data["X"].values.astype(np.float64),
        data["labels_true"].values,
        results["labels"].values,
    )
    centroids, covariances = results["centroids"].values, results["covariances"].values
    model = node.rpartition("/")[2] if "/" in node else str(results["model"].values)
    shape, prior = shape_of(model), PRIORS[cell.get("search", 1)]
    if shape == AUTO:
        shape = list(CODES)[int(results["covariance_shape"])]
    n_classes = int(truth.max()) + 1
    sizes_true, means_true, _ = core.cluster_gaussians(X, truth, n_classes)
    covariances_true = core.cluster_covariances(X, truth, n_classes, shape, prior)
    if shape in ("spherical", "common"):
        covariances = covariances.reshape(len(centroids), -1)[:, 0]
    elif shape == "diagonal" and covariances.ndim == 3:
        covariances = np.array([np.diag(matrix) for matrix in covariances])
    solution = np.bincount(labels, minlength=len(centroids)), centroids, covariances
    gaussians = sizes_true, means_true, covariances_true
    values = {
        "objective": float(results["log_likelihood"].max()),
        "nmi": core.nmi(truth, labels, "min"),
        "nmi_arithmetic": core.nmi(truth, labels, "arithmetic"),
        "adjusted_rand": core.adjusted_rand(truth, labels),
        "centroid_index": core.centroid_index(centroids, means_true),
        "goldberger_kl": core.goldberger_kl(*solution, *gaussians, core.total_variance(X)),
    }
    if "annotations" in results:
        values["annotation_agreement"] = core.annotation_agreement(results["annotations"].values, labels)
        baseline, same = f"{name}/{baseline_of(model)}", {"mixture", "search"} & set(cell)
        there = f"/{baseline}" in tree.groups
        level = (
            scores_of(tree, name, baseline, {dim: cell[dim] for dim in same})["nmi"] if there else math.nan
        )
        values["relative_nmi"] = values["nmi"] - level
    return values


PLANS = (REAL, MIXED, SHAPES, FLAT, CHOSEN_SHAPE, SEARCHED, SHORT)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_every_cell_equals_the_array_cores(plan: Any) -> None:
    tree = toy.tree(plan, chunked=plan in (REAL, MIXED, CHOSEN_SHAPE))
    searches = [{"name": name, "covariance_prior": PRIORS[k]} for k, name in enumerate(plan.searches)]
    tree.attrs["spec"] = {"search": searches or {"covariance_prior": PRIORS[1]}}
    nodes, name = room.score_nodes(tree, plan.name), plan.name
    assert list(nodes) == [name, *(f"{name}/{model}" for model in plan.baselines)]
    for node, node_scores in nodes.items():
        node_scores = node_scores.compute()
        assert set(node_scores) == set(room.SCORES) - (SUPERVISED if node != name else set())
        for position in product(*map(range, node_scores["nmi"].shape)):
            cell = dict(zip(node_scores["nmi"].dims, position, strict=True))
            cell_scores = scores_of(tree, name, node, cell)
            values = {score: float(value.isel(cell)) for score, value in node_scores.items()}
            np.testing.assert_equal(values, {score: cell_scores[score] for score in node_scores}, str(cell))


@pytest.mark.parametrize("plan", [REAL, MIXED, SHAPES, SEARCHED], ids=lambda plan: plan.name)
def test_baselines_stand_beside_the_models_in_one_call(plan: Any) -> None:
    tree = toy.tree(plan, chunked=plan in (REAL, MIXED))
    joined, alone = room.scores(tree, plan.name, baselines=True), room.scores(tree, plan.name)
    assert list(joined["model"].values) == [*plan.models, *plan.baselines]
    xr.testing.assert_equal(joined.sel(model=list(plan.models)).compute(), alone.compute())
    for model in plan.baselines:
        baseline, beside = room.baseline_scores(tree, plan.name, model), joined.sel(model=model)
        for name, values in baseline.items():
            assert beside[name].dims == alone[name].dims[:-1]
            level = np.broadcast_to(values, beside[name].transpose(..., *values.dims).shape)
            np.testing.assert_equal(beside[name].transpose(..., *values.dims).values, level)
            assert beside[name].attrs == alone[name].attrs
        assert np.isnan(beside["annotation_agreement"]).all()


def test_objectives_are_in_nats_unless_a_method_is_among_them() -> None:
    plan = toy.plan("iris", baselines=("unsupervised", "k-means"))
    tree = toy.tree(plan)
    assert room.scores(tree, "iris")["objective"].attrs["units"] == "nats"
    assert room.baseline_scores(tree, "iris")["objective"].attrs["units"] == "nats"
    assert room.baseline_scores(tree, "iris", "k-means")["objective"].attrs["units"] == "1"
    assert room.scores(tree, "iris", baselines=True)["objective"].attrs["units"] == "1"


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something was computed")

    tree = toy.tree(REAL, MIXED)
    with dask.config.set(scheduler=refuse):
        nodes = room.score_nodes(tree, "iris") | room.score_nodes(tree, "mixtures_k3")
        with pytest.raises(AssertionError, match="something was computed"):
            nodes["iris"]["relative_nmi"].compute()
    of_models = ("p", "m", "replicate", "model")
    dims = {"iris": of_models, "iris/unsupervised": (), "mixtures_k3": ("mixture", *of_models)}
    dims["mixtures_k3/unsupervised"] = ("mixture",)
    assert {path: node_scores["nmi"].dims for path, node_scores in nodes.items()} == dims
    assert set(nodes["mixtures_k3/unsupervised"].coords) == {"mixture"}
    assert nodes["iris"]["objective"].attrs["units"] == "nats"
    named = {score: values.attrs["long_name"] for score, values in nodes["iris"].items()}
    assert (
        named["nmi"] == "normalised mutual information with the true labels, min-normalised, as in the paper"
    )
    assert named["relative_nmi"].endswith(", min-normalised, as in the paper")
    assert named["nmi_arithmetic"].endswith(", arithmetic-normalised, as in scikit-learn")
    assert nodes["iris"]["nmi_arithmetic"].attrs["normalizer"] == "arithmetic"
    assert named["adjusted_rand"].endswith(", adjusted for chance, as in scikit-learn")
    for score in nodes["iris"].compute().values():  # failed and pending cells are missing
        assert set(np.flatnonzero(np.isnan(score.values.ravel()))) == {toy.FAILED_CELL, toy.PENDING_CELL}


def test_what_is_not_there_has_no_scores_and_options_and_odd_values_are_passed_on() -> None:
    of_none, alone = toy.plan("a", baselines=()), toy.plan("b", models=(), p=(), m=())
    tree = toy.tree(of_none, alone, toy.plan("own", has_labels=False), chunked=False)
    assert not room.baseline_scores(tree, "a").data_vars
    assert not room.scores(tree, "b").data_vars
    assert set(room.scores(tree, "own")) == {"annotation_agreement", "objective"}
    assert set(room.baseline_scores(tree, "own")) == {"objective"}
    X, truth, solution = tree["b/X"].values, tree["b/labels_true"].values, tree["b/unsupervised"]
    # a class without samples has no centroid
    truth[truth == 1] = 2
    means = np.stack([X[truth == label].mean(axis=0) for label in (0, 2)])
    index = core.centroid_index(solution["centroids"].values, means)
    assert float(room.baseline_scores(tree, "b")["centroid_index"]) == index
    for normalizer in core.NORMALIZERS:
        nmi = core.nmi(truth, solution["labels"].values, normalizer)
        score = room.baseline_scores(tree, "b", normalizer=normalizer)["nmi"]
        assert float(score) == nmi
        assert score.attrs["normalizer"] == normalizer
        arithmetic = room.baseline_scores(tree, "b", normalizer=normalizer)["nmi_arithmetic"]
        assert float(arithmetic) == core.nmi(truth, solution["labels"].values, "arithmetic")
        assert score.attrs["long_name"].endswith(f"true labels, {core.NORMALIZERS[normalizer]}")
    with pytest.raises(ValueError, match="found 'mean', expected one of min, geometric"):
        room.scores(tree, "own", normalizer="mean")
    # values that no solver writes are an error of the cube
    solution["labels"][0] = 9
    with pytest.raises(InputError, match="a cell of the cube: found "):
        room.baseline_scores(tree, "b")


def test_plain_xarray_opens_scores_that_are_stored_until_they_are_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube = make(tmp_path, toy.plan("iris"), toy.plan("drawn", mixtures=2))
    tree, path = open_cube(cube), cube.with_suffix(".scores.zarr")
    path.mkdir()
    (path / "mine").touch()
    with pytest.raises(InputError, match="found something else, expected scores of a cube, or nothing"):
        room.store_scores(cube, tree)
    (path / "mine").unlink()  # the file was left as it was
    path.rmdir()
    assert room.store_scores(cube, tree) == (path, True)
    stored = xr.open_datatree(path, engine="zarr")
    for name in ("iris", "drawn"):
        for node, node_scores in room.score_nodes(tree, name).items():
            for score, values in node_scores.items():
                xr.testing.assert_identical(stored[node][score].variable.compute(), values.variable.compute())
    (path / "marker").write_text("of the first time")
    assert room.store_scores(cube, tree) == (path, False)
    assert (path / "marker").exists()
    monkeypatch.setattr(room, "version", lambda name: "another release")
    assert room.store_scores(cube, tree) == (path, True)
    assert not (path / "marker").exists()
    assert {entry.name for entry in tmp_path.iterdir()} == {cube.name, path.name}
    # cells that are done meanwhile; of others nothing counts, whatever is written of them
    first = room.fingerprint(tree)
    tree["iris"]["status"] = xr.zeros_like(tree["iris"]["status"])
    assert room.fingerprint(tree) != first
    assert all(score.isnull().all() for score in room.scores(tree, "iris").values())
