"""Scores beside their cube: what xarray reads is what is computed, and never what was."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from cubes import toy
from cubes.reported import make

from pipeline.scoring import stored
from pipeline.scoring.lazy import baseline_scores, scores
from pipeline.scoring.stored import scores_path, store_scores
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from sweeps.errors import InputError


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
    monkeypatch.setattr(stored, "version", lambda name: "another release")
    assert store(cube) == (path, True)
    assert not (path / "marker").exists()
    assert sorted(each.name for each in path.parent.iterdir()) == sorted([cube.name, path.name])


def test_cells_that_are_done_meanwhile_make_them_stale(cube: Path) -> None:
    tree = open_cube(cube)
    first = stored.fingerprint(tree)
    node = next(node for node in tree.subtree if "status" in node.data_vars)
    node["status"] = xr.zeros_like(node["status"])
    assert stored.fingerprint(tree) != first


def test_what_is_no_store_of_scores_stays(cube: Path) -> None:
    scores_path(cube).mkdir()
    (scores_path(cube) / "mine").write_text("")
    with pytest.raises(InputError, match="found something else, expected scores of a cube, or nothing"):
        store(cube)
    assert (scores_path(cube) / "mine").exists()
