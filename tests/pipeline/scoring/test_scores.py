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
from kernels.scores import NORMALIZERS
from pipeline.scoring.scores import (
    CATALOGUE,
    LABELS,
    QUALITIES,
    SCORES,
    Score,
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


OPTIONS = {"normalizer": "min"}


def value(name: str, arrays: dict[str, np.ndarray]) -> float:
    score = CATALOGUE[name]
    assert score.function is not None
    options = {option: OPTIONS[option] for option in score.options}
    return score.of_cell(*(arrays[array] for array in score.arrays), **options)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nmi", 1.0),
        ("adjusted_rand", 1.0),
        ("goldberger_kl", 0.0),
        ("centroid_index", 0.0),
        ("annotation_agreement", 2 / 3),
        ("objective", -1.5),
    ],
)
def test_scores_of_one_cell_by_hand(name: str, expected: float) -> None:
    assert value(name, ARRAYS) == pytest.approx(expected)
    assert np.isnan(value(name, ARRAYS | NOTHING))


@pytest.mark.parametrize("shape", CODES)
@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_a_solution_that_is_the_truth_has_no_divergence(shape: str, prior: float) -> None:
    rng = np.random.default_rng(1)
    X, truth = rng.normal(size=(30, 3)) + np.repeat([0, 3, 9], 10)[:, None], np.repeat([0, 1, 2], 10)
    own = core.cluster_covariances(X, truth, 3, shape, prior)
    cell = {
        "X": X,
        "labels_true": truth.astype(np.int16),
        "labels": truth.astype(np.int16),
        "centroids": core.cluster_gaussians(X, truth, 3)[1],
        "covariance_shape": CODES[shape],
        "covariance_prior": prior,
    }
    for n_axes in range(own.ndim - 1, 3):
        found = value("goldberger_kl", cell | {"covariances": widened(own, n_axes, 3)})
        assert found == pytest.approx(0.0, abs=1e-12)
    assert value("goldberger_kl", cell | {"covariances": 1.5 * own}) > 0.1


@pytest.mark.parametrize(("name", "score"), CATALOGUE.items(), ids=SCORES)
def test_a_declaration_fits_its_function_and_the_cube(name: str, score: Score) -> None:
    assert set(score.arrays) <= {*VARIABLES, "covariance_prior"}
    assert (score.function is None) == (score.arrays == ())
    if score.function is not None and name != "objective":
        assert tuple(inspect.signature(score.function).parameters) == score.arrays + score.options
    assert score.label.better in (-1, 0, 1)
    assert ("nats" in score.label.axis) == (score.units == "nats")


def test_every_column_has_a_label_and_objectives_are_no_quality() -> None:
    assert tuple(LABELS) == (*SCORES, "seconds", "cpu_seconds", "restarts_done", "hits")
    assert set(SCORES) - set(QUALITIES) == {"objective"}
    assert len({label.short for label in LABELS.values()}) == len(LABELS)


OF_CELLS = [name for name, score in CATALOGUE.items() if score.function is not None]
REAL = toy.plan("iris")
SHAPES = toy.plan(
    "shapes",
    models=("likelihood", "posterior-full", "posterior-diagonal", "likelihood-tied", "conditional-common"),
    baselines=("unsupervised", "unsupervised-diagonal", "unsupervised-full"),
    model_chunk=5,
)
FLAT = toy.plan("flat", models=("likelihood", "conditional-diagonal"), baselines=("unsupervised-diagonal",))
CHOSEN = toy.plan("chosen", models=("likelihood", "posterior-auto", "conditional-tied"), model_chunk=3)
PRIOR = 2.5
"""Not the default: the strength of the prior is that of the sweep."""
MIXED = toy.plan("mixtures_k3", mixtures=2, replicates=1, replicate_chunk=1)


def refuse(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("something was computed")


def expected(tree: xr.DataTree, name: str, node: str, cell: dict[str, int]) -> dict[str, float]:
    """Scores of one cell by the array cores."""
    data, results = tree[name].to_dataset(), tree[node].to_dataset().isel(cell)
    mixture = {"mixture": cell["mixture"]} if "mixture" in cell else {}
    if int(results["status"]) != DONE:
        return dict.fromkeys(OF_CELLS, math.nan)
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
    sizes = np.bincount(labels, minlength=len(centroids))
    found = {
        "objective": float(results["log_likelihood"].max()),
        "nmi": core.nmi(truth, labels, "min"),
        "adjusted_rand": core.adjusted_rand(truth, labels),
        "centroid_index": core.centroid_index(centroids, gaussians[1]),
        "goldberger_kl": core.goldberger_kl(
            sizes, centroids, covariances, *gaussians, core.total_variance(X)
        ),
    }
    if "annotations" in results:
        found["annotation_agreement"] = core.annotation_agreement(results["annotations"].values, labels)
    return found


@pytest.mark.parametrize(
    "plan",
    [REAL, MIXED, SHAPES, FLAT, CHOSEN],
    ids=["real", "mixtures", "matrices", "diagonal", "chosen"],
)
@pytest.mark.parametrize("chunked", [True, False], ids=["dask", "numpy"])
def test_every_cell_equals_the_array_cores(plan: Any, chunked: bool) -> None:
    tree = toy.tree(plan, chunked=chunked)
    tree.attrs["spec"] = {"search": {"covariance_prior": PRIOR}}
    name = plan.name
    nodes = {name: scores(tree, name)}
    nodes |= {f"{name}/{model}": baseline_scores(tree, name, model) for model in plan.baselines}
    for node, found in nodes.items():
        found = found.compute()
        for position in product(*map(range, found["nmi"].shape)):
            cell = dict(zip(found["nmi"].dims, position, strict=True))
            for score, value in expected(tree, name, node, cell).items():
                if score in found:
                    np.testing.assert_equal(
                        float(found[score].isel(cell)), float(value), err_msg=f"{score} {cell}"
                    )


def test_a_spherical_model_scores_the_same_beside_wider_ones() -> None:
    tree = toy.tree(SHAPES)
    wide, X = scores(tree, "shapes")["goldberger_kl"].compute(), tree["shapes/X"].values
    truth = core.cluster_gaussians(X, tree["shapes/labels_true"].values, 3)
    for position in product(*map(range, wide.shape[:-1])):
        cell = dict(zip(wide.dims[:-1], position, strict=True)) | {"model": 0}
        one = tree["shapes"].to_dataset().isel(cell)
        if int(one["status"]) == DONE:
            sizes, variances = np.bincount(one["labels"].values), one["covariances"].values[:, 0, 0]
            alone = core.goldberger_kl(
                sizes, one["centroids"].values, variances, *truth, core.total_variance(X)
            )
            assert float(wide.isel(cell)) == alone


def test_the_prior_is_that_of_the_sweep_of_the_cube(tmp_path: Path) -> None:
    found = {}
    for prior in (1.0, PRIOR):
        path = tmp_path / f"{prior}.zarr"
        grid = {"datasets": [{"name": "shapes", "scale": "none"}], "m": ["0.5N"]}
        toy.write(
            path,
            SHAPES,
            spec={"name": "toy", "seed": 1, "grid": grid, "search": {"covariance_prior": prior}},
        )
        found[prior] = scores(open_cube(path), "shapes")["goldberger_kl"].compute()
        for tree in (toy.tree(SHAPES), open_cube(path)):
            tree.attrs["spec"] = {"search": {"covariance_prior": prior}}
            again = scores(tree, "shapes")["goldberger_kl"].sel(p=found[prior]["p"])
            np.testing.assert_array_equal(again, found[prior])
    with_prior = [model for model in SHAPES.models if shape_of(model) not in ("spherical", "common")]
    differs = (found[1.0] != found[PRIOR]) & found[1.0].notnull()
    assert differs.any(["p", "m", "replicate"]).sel(model=with_prior).all()
    assert not differs.drop_sel(model=with_prior).any()


def test_dims_and_variables() -> None:
    tree = toy.tree(REAL, MIXED)
    assert set(scores(tree, "iris")) == set(OF_CELLS)
    assert set(baseline_scores(tree, "iris")) == set(OF_CELLS) - {"annotation_agreement"}
    assert scores(tree, "iris")["nmi"].dims == ("p", "m", "replicate", "model")
    assert scores(tree, "mixtures_k3")["nmi"].dims == ("mixture", "p", "m", "replicate", "model")
    assert baseline_scores(tree, "iris")["nmi"].dims == ()
    assert baseline_scores(tree, "mixtures_k3")["nmi"].dims == ("mixture",)
    assert set(baseline_scores(tree, "mixtures_k3").coords) == {"mixture"}
    assert scores(tree, "iris")["objective"].attrs["units"] == "nats"


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    tree = toy.tree(REAL)
    with dask.config.set(scheduler=refuse):
        found, baseline = scores(tree, "iris"), baseline_scores(tree, "iris")
        difference = relative_nmi(found, {"unsupervised": baseline})
        with pytest.raises(AssertionError, match="something was computed"):
            difference.compute()


def test_failed_and_pending_cells_are_missing() -> None:
    found = scores(toy.tree(REAL), "iris").compute()
    missing = {toy.FAILED_CELL, toy.PENDING_CELL}
    for score in found.values():
        assert set(np.flatnonzero(np.isnan(score.values.ravel()))) == missing


@pytest.mark.parametrize("chunked", [True, False], ids=["dask", "numpy"])
@pytest.mark.parametrize("changes", [{}, {"mixtures": 2}], ids=["real", "mixtures"])
def test_relative_nmi_is_against_the_baseline_of_the_same_variance(changes: Any, chunked: bool) -> None:
    models = ("posterior", "posterior-common", "likelihood")
    both = ("unsupervised", "unsupervised-common")
    tree = toy.tree(
        toy.plan("iris", models=models, model_chunk=3, baselines=both, **changes), chunked=chunked
    )
    found, baselines = scores(tree, "iris"), {name: baseline_scores(tree, "iris", name) for name in both}
    assert list(score_nodes(tree, "iris")) == ["iris", *(f"iris/{name}" for name in both)]
    difference = relative_nmi(found, baselines).compute()
    assert difference.dims == found["nmi"].dims
    for model, baseline in zip(models, (both[0], both[1], both[0]), strict=True):
        wanted = (found["nmi"].sel(model=model) - baselines[baseline]["nmi"]).compute()
        np.testing.assert_array_equal(difference.sel(model=model), wanted.transpose(*difference.dims[:-1]))
        assert np.isfinite(wanted).any()
    without = relative_nmi(found, {both[1]: baselines[both[1]]}).compute()
    assert np.isnan(without.sel(model=["posterior", "likelihood"])).all()
    xr.testing.assert_equal(without.sel(model="posterior-common"), difference.sel(model="posterior-common"))


def test_relative_nmi_is_the_difference_on_the_same_mixture() -> None:
    tree = toy.tree(MIXED)
    found, baseline = scores(tree, "mixtures_k3").compute(), baseline_scores(tree, "mixtures_k3").compute()
    difference = relative_nmi(found, {"unsupervised": baseline}).compute()
    assert difference.dims == found["nmi"].dims
    for mixture in range(2):
        np.testing.assert_array_equal(
            difference.isel(mixture=mixture),
            found["nmi"].isel(mixture=mixture) - float(baseline["nmi"][mixture]),
        )


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_normalizer_is_passed_on(normalizer: str) -> None:
    tree = toy.tree(REAL)
    found = baseline_scores(tree, "iris", normalizer=normalizer)["nmi"]
    truth, labels = tree["iris/labels_true"].values, tree["iris/unsupervised/labels"].values
    assert float(found) == core.nmi(truth, labels, normalizer)


def test_unknown_normalizer_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="found 'mean', expected one of min, geometric"):
        scores(toy.tree(REAL), "iris", normalizer="mean")


def test_without_true_labels_the_rest_remains() -> None:
    tree = toy.tree(toy.plan("own", has_labels=False))
    assert set(scores(tree, "own")) == {"annotation_agreement", "objective"}
    assert set(baseline_scores(tree, "own")) == {"objective"}


def test_a_grid_without_baseline_or_without_supervised_models() -> None:
    tree = toy.tree(toy.plan("a", baselines=()), toy.plan("b", models=(), p=(), m=()))
    assert not baseline_scores(tree, "a").data_vars
    assert not scores(tree, "b").data_vars
    assert float(baseline_scores(tree, "b")["nmi"]) >= 0


def test_a_class_without_samples_has_no_centroid() -> None:
    plan = toy.plan("gap", models=(), p=(), m=())
    tree = toy.tree(plan, chunked=False)
    truth = tree["gap/labels_true"].values
    truth[truth == 1] = 2
    X, centroids = tree["gap/X"].values, tree["gap/unsupervised/centroids"].values
    means = np.stack([X[truth == label].mean(axis=0) for label in (0, 2)])
    assert float(baseline_scores(tree, "gap")["centroid_index"]) == core.centroid_index(centroids, means)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("scored"), toy.plan("iris"), toy.plan("drawn", mixtures=2))


@pytest.fixture
def cube(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / made.name)
    return tmp_path / made.name


def store(cube: Path) -> tuple[Path, bool]:
    return store_scores(cube, open_cube(cube))


def test_plain_xarray_opens_them(cube: Path) -> None:
    path, is_new = store(cube)
    assert is_new
    assert path == scores_path(cube) == cube.with_suffix(".scores.zarr")
    tree = open_cube(cube)
    found = xr.open_datatree(path, engine="zarr")
    for name, plan in read_manifest(cube).plans.items():
        nodes = {name: scores(tree, name)} if plan.supervised else {}
        nodes |= {f"{name}/{model}": baseline_scores(tree, name, model) for model in plan.baselines}
        for node, expected in nodes.items():
            for score, values in expected.items():
                assert np.array_equal(found[node][score].values, values.values, equal_nan=True)
                assert found[node][score].attrs == values.attrs
    assert store(cube) == (path, False)


def test_stale_scores_are_computed_again(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = store(cube)
    (path / "marker").write_text("of the first time")
    assert store(cube) == (path, False)
    assert (path / "marker").exists()
    monkeypatch.setattr("pipeline.scoring.scores.version", lambda name: "another release")
    assert store(cube) == (path, True)
    assert not (path / "marker").exists()
    assert sorted(each.name for each in path.parent.iterdir()) == sorted([cube.name, path.name])


def test_cells_that_are_done_meanwhile_make_them_stale(cube: Path) -> None:
    tree = open_cube(cube)
    first = fingerprint(tree)
    node = next(node for node in tree.subtree if "status" in node.data_vars)
    node["status"] = xr.zeros_like(node["status"])
    assert fingerprint(tree) != first


def test_what_is_no_store_of_scores_stays(cube: Path) -> None:
    scores_path(cube).mkdir()
    (scores_path(cube) / "mine").write_text("")
    with pytest.raises(InputError, match="found something else, expected scores of a cube, or nothing"):
        store(cube)
    assert (scores_path(cube) / "mine").exists()
