"""A cube as it is made and as it grows."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from cubes.small import (
    SPEC,
    draw_block,
    draw_cell,
    draw_inputs,
    files,
    fill,
    make_plan,
    make_spec,
    read_whole,
    result_files,
)

from storage.cube.blocks import BlockStore
from storage.cube.cube import create, grow, open_cube
from storage.cube.growth import align
from storage.cube.manifest import append_run, read_manifest
from storage.cube.schema import DONE
from storage.damage.scan import scan
from storage.errors import StorageError
from storage.provenance import RunRecord
from sweeps.errors import InputError
from sweeps.plan import DatasetPlan

REAL = make_plan("a", p=(0.9, 0.8), m=(6, 4), models=("likelihood", "posterior"))
MIXTURE = make_plan("b", mixtures=4, mixture_chunk=2)
BASELINE = make_plan("c", models=(), p=(), m=(), has_labels=False)
DIAGONAL = "unsupervised-diagonal"
ALL = [REAL, MIXTURE, BASELINE]


def made(path: Path, plans: list[DatasetPlan]) -> Path:
    create(path, plans, draw_inputs, SPEC)
    return path


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return made(tmp_path / "results" / "tiny.zarr", ALL)


def test_a_new_cube_opens_lazily_without_a_warning_and_holds_nothing(cube: Path) -> None:
    tree = xr.open_datatree(cube, engine="zarr", chunks={})
    assert sorted(tree.children) == ["a", "b", "c"]
    for name, value in {"labels": -1, "best_restart": -1, "restarts_done": 0, "status": 0}.items():
        for node in ("a", "a/unsupervised", "b", "b/unsupervised", "c/unsupervised"):
            variable = tree[node][name]
            assert variable.dtype.kind == "i", "fill values are no missing values"
            assert "_FillValue" not in variable.attrs
            assert (variable.values == value).all()
    assert (tree["a/annotations"].values == -1).all()
    for name in ("log_likelihood", "centroids", "covariances", "seconds"):
        assert np.isnan(tree["a"][name].values).all()


def test_inputs_and_coordinates_are_stored_as_given(cube: Path) -> None:
    tree = read_whole(cube)
    for plan in ALL:
        features, labels = draw_inputs(plan)
        assert np.array_equal(tree[plan.name]["X"], features)
        assert ("labels_true" in tree[plan.name]) == (labels is not None)
        if labels is not None:
            assert np.array_equal(tree[plan.name]["labels_true"], labels)
    node = tree["a"]
    assert node["p"].values.tolist() == [0.9, 0.8]
    assert node["m"].values.tolist() == [6, 4]
    assert node["m_over_n"].dims == ("m",)
    assert node["model"].values.tolist() == ["likelihood", "posterior"]
    assert node["field"].values.tolist() == ["i", "j", "kind"]
    assert tree["b"]["mixture"].values.tolist() == [0, 1, 2, 3]
    assert set(node.coords) == {"p", "m", "m_over_n", "replicate", "model", "field"}


def test_coordinates_select(cube: Path) -> None:
    node = open_cube(cube)["a"].to_dataset()
    chosen = node.sel(p=0.8, m=4, model="posterior")
    assert chosen.sizes["replicate"] == 2
    assert node["status"].to_dataframe().shape == (16, 2)
    assert [name for name, _ in node.groupby("model")] == ["likelihood", "posterior"]


def test_units_and_text_land_in_the_cube(cube: Path) -> None:
    tree = open_cube(cube)
    assert tree["a"]["log_likelihood"].attrs["units"] == "nats"
    assert "log-posterior" in tree["a"]["log_likelihood"].attrs["long_name"]
    assert tree["a"]["seconds"].attrs["units"] == "s"
    assert tree["a"]["seconds"].dtype.kind == "f"
    assert tree["a"]["status"].attrs["flag_meanings"] == "pending done failed no_solution"
    assert all(variable.attrs.get("long_name") for variable in tree["a"].data_vars.values())
    assert tree["a"].attrs["checksum"] == REAL.checksum


def test_create_refuses_what_is_there(cube: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    with pytest.raises(InputError, match="already"):
        create(cube, ALL, draw_inputs, SPEC)
    (tmp_path / "link.zarr").symlink_to("nowhere")
    with pytest.raises(InputError, match="already"):
        create(tmp_path / "link.zarr", ALL, draw_inputs, SPEC)
    assert files(tmp_path) == before


def test_inputs_must_fit_their_plan(tmp_path: Path) -> None:
    features, labels = draw_inputs(REAL)
    for wrong in ((features[1:], labels), (features, None), (features, labels[1:])):
        with pytest.raises(ValueError, match="plan"):
            create(tmp_path / "x.zarr", [REAL], lambda plan, wrong=wrong: wrong, SPEC)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission_is_said_with_the_path(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="permission"):
        create(tmp_path / "x.zarr", [REAL], draw_inputs, SPEC)


GROWTHS: dict[str, dict[str, Any]] = {
    "p": {"p": (0.9, 0.8, 0.85)},
    "m": {"m": (6, 4, 9, 1)},
    "replicates": {"replicates": 6},
    "everything": {"p": (0.9, 0.8, 1.0), "m": (6, 4, 15), "replicates": 4},
}


def grow_and_fill(cube: Path, plans: list[DatasetPlan]) -> xr.DataTree:
    """Grow, fill what is new, and check that all else is as it was."""
    before = result_files(cube)
    grow(cube, plans, draw_inputs, SPEC)
    assert result_files(cube) == before
    fill(cube, plans)
    assert before.items() <= result_files(cube).items()
    return read_whole(cube)


@pytest.mark.parametrize("changes", GROWTHS.values(), ids=GROWTHS)
def test_a_grown_cube_holds_what_one_made_so_at_once_does(tmp_path: Path, changes: dict[str, Any]) -> None:
    small, large = REAL, replace(REAL, **changes)
    cube = made(tmp_path / "grown.zarr", [small])
    fill(cube, [small])
    grown = grow_and_fill(cube, [large])
    at_once = made(tmp_path / "at_once.zarr", [large])
    fill(at_once, [large])
    expected = read_whole(at_once)
    for path in ("a", "a/unsupervised"):
        assert grown[path].to_dataset(inherit=False).identical(expected[path].to_dataset(inherit=False))


def test_mixtures_grow(tmp_path: Path) -> None:
    cube = made(tmp_path / "x.zarr", [MIXTURE])
    fill(cube, [MIXTURE])
    grown = grow_and_fill(cube, [replace(MIXTURE, mixtures=6)])
    assert np.array_equal(grown["b"]["X"], draw_inputs(replace(MIXTURE, mixtures=6))[0])
    assert (grown["b"]["status"] == DONE).all()
    assert grown["b/unsupervised"]["labels"].sizes["mixture"] == 6


def test_other_mixtures_under_the_same_recipe_are_refused(tmp_path: Path) -> None:
    cube = made(tmp_path / "x.zarr", [MIXTURE])
    before = files(cube)
    larger = replace(MIXTURE, mixtures=6)

    def redrawn(plan: DatasetPlan) -> tuple[np.ndarray, np.ndarray | None]:
        features, labels = draw_inputs(plan)
        return np.nextafter(features, 9.0), labels

    with pytest.raises(InputError, match="other mixtures"):
        grow(cube, [larger], redrawn, SPEC)
    assert files(cube) == before


def test_one_model_grows_to_two(tmp_path: Path) -> None:
    one = make_plan("a", models=("posterior",))
    cube = made(tmp_path / "x.zarr", [one])
    fill(cube, [one])
    (two,) = align(read_manifest(cube), [make_plan("a", models=("likelihood", "posterior"))])
    grown = grow_and_fill(cube, [two])
    assert grown["a"]["model"].values.tolist() == ["posterior", "likelihood"]
    assert (grown["a"]["status"] == DONE).all()


@pytest.mark.parametrize(
    ("first", "second"), [("posterior-full", "conditional-auto"), ("conditional-auto", "posterior-full")]
)
def test_a_model_that_chooses_its_shape_joins_one_that_does_not(
    tmp_path: Path, first: str, second: str
) -> None:
    one = make_plan("a", models=(first,))
    cube = made(tmp_path / "x.zarr", [one])
    fill(cube, [one])
    (two,) = align(read_manifest(cube), [make_plan("a", models=(first, second))])
    grow(cube, [two], draw_inputs, SPEC)
    assert scan(cube).damaged == ()
    grown = grow_and_fill(cube, [two])
    assert scan(cube).damaged == ()
    node = grown["a"].to_dataset()
    assert (node["status"] == DONE).all()
    shapes = node["covariance_shape"]
    assert (shapes.sel(model="posterior-full") == -1).all()
    assert (shapes.sel(model="conditional-auto") >= 0).all()
    assert node["held_out"].sel(model="posterior-full").isnull().all()
    assert node["held_out"].sel(model="conditional-auto").notnull().all()
    assert node["candidate"].values.tolist() == ["spherical", "diagonal", "tied", "full"]
    at = two.models.index("conditional-auto")
    (cube / "a" / "held_out" / f"c.0.0.0.{at}.0").unlink()
    assert [damage.key for damage in scan(cube).damaged] == [f"a/held_out/c.0.0.0.{at}.0"]


@pytest.mark.parametrize("second", ["conditional-auto", "posterior-common"])
def test_a_cube_with_annotations_held_out_grows(tmp_path: Path, second: str) -> None:
    one = make_plan("a", models=("posterior-full",), held_out=True)
    cube = made(tmp_path / "x.zarr", [one])
    fill(cube, [one])
    (two,) = align(
        read_manifest(cube), [make_plan("a", models=("posterior-full", second), p=(0.9, 0.8), held_out=True)]
    )
    grow(cube, [two], draw_inputs, SPEC)
    assert scan(cube).damaged == ()
    grown = grow_and_fill(cube, [two])
    assert scan(cube).damaged == ()
    node = grown["a"].to_dataset()
    assert (node["status"] == DONE).all()
    assert ("covariance_shape" in node) == (second == "conditional-auto")
    assert node["candidate"].values.tolist() == ["spherical", "diagonal", "tied", "full", "common"]
    there = node["held_out"].notnull().all(["p", "m", "replicate"])
    assert there.sel(model="posterior-full").values.tolist() == [False, False, False, True, False]
    chosen = [True] * 4 + [False] if second == "conditional-auto" else [False] * 4 + [True]
    assert there.sel(model=second).values.tolist() == chosen
    (cube / "a" / "held_out_right" / "c.0.0.0.0.0").unlink()
    assert [damage.key for damage in scan(cube).damaged] == ["a/held_out_right/c.0.0.0.0.0"]


def test_baseline_and_grid_are_added_to_each_other(tmp_path: Path) -> None:
    grid_only = make_plan("a", baselines=())
    baseline_only = replace(BASELINE, name="b", has_labels=True)
    cube = made(tmp_path / "x.zarr", [grid_only, baseline_only])
    fill(cube, [grid_only, baseline_only])
    both = [make_plan("a"), make_plan("b")]
    grown = grow_and_fill(cube, both)
    for name in ("a", "b"):
        assert (grown[name]["status"] == DONE).all()
        assert (grown[f"{name}/unsupervised"]["status"] == DONE).all()
    assert grown["b"]["m_over_n"].dims == ("m",)


def test_a_second_baseline_is_added(tmp_path: Path) -> None:
    one = make_plan("a", mixtures=2)
    cube = made(tmp_path / "x.zarr", [one])
    fill(cube, [one])
    before = read_whole(cube)["a/unsupervised"].to_dataset()
    (two,) = align(
        read_manifest(cube), [replace(one, baselines=("unsupervised-common", "unsupervised"), mixtures=4)]
    )
    assert two.baselines == ("unsupervised", "unsupervised-common")
    grown = grow_and_fill(cube, [two])
    for baseline in two.baselines:
        assert (grown[f"a/{baseline}"]["status"] == DONE).all()
        assert grown[f"a/{baseline}"]["labels"].sizes["mixture"] == 4
    xr.testing.assert_identical(grown["a/unsupervised"].to_dataset().isel(mixture=slice(2)), before)
    assert (grown["a/unsupervised"]["covariances"] != grown["a/unsupervised-common"]["covariances"]).any()


def test_a_cube_of_wide_covariances_takes_in_narrower_ones(tmp_path: Path) -> None:
    one = make_plan(
        "a", models=("posterior-full",), baselines=("unsupervised", "unsupervised-full"), n_features=3
    )
    cube = made(tmp_path / "x.zarr", [one])
    fill(cube, [one])
    before = result_files(cube)
    asked = replace(one, models=("likelihood", "posterior-full"), baselines=(*one.baselines, DIAGONAL))
    (two,) = align(read_manifest(cube), [asked])
    grown = grow_and_fill(cube, [two])
    assert {name: result_files(cube)[name] for name in before} == before
    found = open_cube(cube)["a/covariances"]
    assert found.dims[-3:] == ("cluster", "feature", "feature_2")
    for plan, cell in ((two, cell) for block in two.blocks() for cell in block.cells() if cell.p):
        stored = found.sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
        np.testing.assert_array_equal(stored, draw_cell(plan, cell)["covariances"])
    for model, dims in (("unsupervised", 0), ("unsupervised-full", 2), (DIAGONAL, 1)):
        assert grown[f"a/{model}"]["covariances"].dims == ("cluster", "feature", "feature_2")[: 1 + dims]
    wider = replace(make_plan("b", models=("likelihood", "posterior-tied")))
    narrow = made(tmp_path / "y.zarr", [make_plan("b")])
    kept = files(narrow)
    with pytest.raises(InputError, match=r"'posterior-tied' with a matrix a cluster"):
        grow(narrow, [wider], draw_inputs, SPEC)
    assert files(narrow) == kept


def test_a_new_set_leaves_unavailable_ones_in_place(cube: Path) -> None:
    spec = make_spec("abcd")
    grow(cube, [make_plan("d")], draw_inputs, spec)
    assert list(open_cube(cube).children) == ["a", "b", "c", "d"]
    assert list(read_manifest(cube).plans) == ["a", "b", "c", "d"]
    assert read_manifest(cube).spec == spec


def test_nothing_new_changes_nothing(cube: Path) -> None:
    append_run(cube, RunRecord(run=1))
    before = {name: (cube / name).stat().st_ino for name in files(cube)}
    grow(cube, ALL, draw_inputs, SPEC)
    assert {name: (cube / name).stat().st_ino for name in files(cube)} == before


def test_growth_keeps_the_history_of_runs(cube: Path) -> None:
    append_run(cube, RunRecord(run=1))
    grow(cube, [*ALL, make_plan("d")], draw_inputs, SPEC)
    assert read_manifest(cube).runs == (RunRecord(run=1),)


def test_growth_that_is_none_is_refused_before_anything_is_written(cube: Path) -> None:
    before = files(cube)
    with pytest.raises(InputError, match="seed: found 8, expected 7"):
        grow(cube, ALL, draw_inputs, make_spec(seed=8))
    assert files(cube) == before


def test_more_annotations_than_at_creation_are_read_back(tmp_path: Path) -> None:
    small = make_plan("a", m=(4,))
    cube = made(tmp_path / "x.zarr", [small])
    fill(cube, [small])
    large = replace(small, m=(4, 11, 6))
    grow(cube, [large], draw_inputs, SPEC)
    fill(cube, [large])
    store = BlockStore(cube)
    for block in large.blocks():
        if not block.unsupervised:
            assert np.array_equal(store.read(block)["annotations"], draw_block(large, block)["annotations"])
    stored = read_whole(cube)["a"]["annotations"]
    assert stored.sizes["annotation"] == 11
    assert stored.encoding["chunks"][-2] == 4
    assert (stored.sel(m=6).isel(annotation=slice(6, None)) == -1).all()
