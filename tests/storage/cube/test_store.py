"""Opening a cube: lazy, sorted, masked by a snapshot of the status."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import dask
import dask.array
import numpy as np
import pytest
import zarr
from cubes.small import SPEC, draw_block, draw_inputs, fill, make_plan
from cubes.stages import STAGES

from storage.cube import store
from storage.cube.blocks import BlockStore
from storage.cube.growth import create, grow, open_cube
from storage.cube.manifest import Manifest
from storage.cube.schema import DONE, FAILED, PENDING, result_names

RESULTS = result_names(make_plan(), ["likelihood"])
PLAN = make_plan("a", p=(0.9, 0.8), m=(6, 4), models=("likelihood", "posterior"))


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN, make_plan("b", mixtures=2)], draw_inputs, SPEC)
    return path


def test_opening_computes_nothing_and_shows_the_moment_it_was(cube: Path) -> None:
    with dask.config.set(scheduler=Mock(side_effect=AssertionError("something was computed"))):
        tree = open_cube(cube)
        with pytest.raises(AssertionError, match="something was computed"):
            tree["a"]["labels"].values  # noqa: B018  the test above can fail
    for node in tree.subtree:
        for name, variable in node.to_dataset(inherit=False).data_vars.items():
            assert isinstance(variable.data, np.ndarray if name == "status" else dask.array.Array)
    assert isinstance(tree["a"].coords["m_over_n"].data, np.ndarray)
    assert tree["a"]["labels"].chunks == ((1, 1), (1, 1), (2,), (2,), (5,))
    assert tree["a/unsupervised"]["best_restart"].chunks == ()
    fill(cube, [PLAN])
    assert (tree["a"]["status"] == PENDING).all()
    assert (tree["a"]["labels"].values == -1).all()
    again = open_cube(cube)
    assert (again["a"]["labels"].values >= 0).all()
    assert set(tree["a"]["X"].__dask_graph__()).isdisjoint(again["a"]["X"].__dask_graph__())
    assert pickle.loads(pickle.dumps(again)).load().identical(again.load())  # as on the way to a worker


def test_accuracies_and_counts_rise_with_their_cells(cube: Path) -> None:
    grown = replace(PLAN, p=(0.9, 0.8, 0.85), m=(6, 4, 5))
    grow(cube, [grown, make_plan("b", mixtures=2)], draw_inputs, SPEC)
    fill(cube, [grown])
    node = open_cube(cube)["a"]
    assert node["p"].values.tolist() == [0.8, 0.85, 0.9]
    assert node["m"].values.tolist() == [4, 5, 6]
    assert node["m_over_n"].values.tolist() == [0.8, 1.0, 1.2]
    for block in (block for block in grown.blocks() if not block.unsupervised):
        labels = node["labels"].sel(p=block.first.p, m=block.first.m).values
        assert np.array_equal(labels.reshape(block.n_cells, -1), draw_block(grown, block)["labels"])


def test_what_is_not_done_is_masked(cube: Path) -> None:
    block = next(block for block in PLAN.blocks() if not block.unsupervised)
    BlockStore(cube).write(block, draw_block(PLAN, block))
    # behind the back of the store: the results stay, the status of two cells goes
    status = zarr.open_array(cube / "a" / "status", mode="r+")
    status[0, 0, 0, 1] = FAILED
    status[0, 0, 1, :] = PENDING
    node = open_cube(cube)["a"].sel(p=block.first.p, m=block.first.m)
    done = node["status"].values == DONE
    assert done.tolist() == [[True, False], [False, False]]
    expected = draw_block(PLAN, block)
    for name in RESULTS[:-1]:
        values = node[name].values
        fill_value = {"labels": -1, "best_restart": -1, "restarts_done": 0}.get(name, np.nan)
        assert np.array_equal(values[done], expected[name][:1])
        masked = np.full_like(values[~done], fill_value)
        assert np.array_equal(values[~done], masked, equal_nan=values.dtype.kind == "f")
        assert values.dtype == expected[name].dtype
    annotations = node["annotations"].values
    assert np.array_equal(annotations[0], expected["annotations"][0])
    assert (annotations[1] == -1).all()
    assert annotations.dtype == np.int32


def test_a_growth_while_a_cube_is_opened_is_not_half_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grid and the arrays are of one moment, though the root is replaced in between."""
    path = tmp_path / "tiny.zarr"
    create(path, STAGES[0], draw_inputs, SPEC)
    fill(path, STAGES[0])
    before = open_cube(path).load(scheduler="synchronous")
    real = store.read_manifest

    def slow_read(path: Path) -> Manifest:
        found = real(path)
        monkeypatch.setattr(store, "read_manifest", real)
        for plans in STAGES[1:]:
            grow(path, plans, draw_inputs, SPEC)
        fill(path, STAGES[-1])
        return found

    monkeypatch.setattr(store, "read_manifest", slow_read)
    assert open_cube(path).load(scheduler="synchronous").identical(before)
    assert not open_cube(path).load(scheduler="synchronous").identical(before)
