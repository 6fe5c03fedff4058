"""Damage of every kind is repaired: blocks are computed again, inputs and coordinates made again."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubes.rot import kinds, turn_bit
from cubes.small import draw_block, draw_inputs, files, fill, filled_cube, make_plan

from sweep_clustering.storage.cube.blocks import BlockStore, CellMismatch
from sweep_clustering.storage.cube.manifest import Manifest, append_run
from sweep_clustering.storage.cube.schema import DONE, PENDING
from sweep_clustering.storage.damage import CHANGE_FAULT, Repair, repair, scan
from sweep_clustering.storage.provenance import RunRecord
from sweep_clustering.sweeps.errors import InputError, Problem
from sweep_clustering.sweeps.plan import DatasetPlan

PLANS = [
    make_plan("a", p=(0.8, 0.9), m=(4, 6), models=("likelihood", "posterior"), model_chunk=1),
    make_plan("b", mixtures=4, mixture_chunk=2),
    make_plan("c", models=("posterior-full",), baselines=("unsupervised-diagonal",)),
]

# Variables that come from the plan and the data.
REMADE = {"X", "labels_true", "p", "m", "m_over_n", "model", "field", "replicate", "mixture"}


@pytest.fixture(scope="module")
def good_cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_cube(tmp_path_factory.mktemp("good") / "tiny.zarr", PLANS)


@pytest.fixture
def cube(good_cube: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good_cube, tmp_path / "tiny.zarr"))


def mend(cube: Path, **options: bool) -> Repair:
    return repair(cube, lambda manifest, plan: draw_inputs(plan), **options)


def test_all_that_is_damaged_is_found_at_once_and_mended(good_cube: Path, cube: Path) -> None:
    before = files(cube)
    assert mend(cube) == Repair(())
    assert files(cube) == before
    turned, lost = list(kinds(cube))[::2], list(kinds(cube))[1::2]
    for key in turned:
        turn_bit(cube / key)
    for key in lost:
        (cube / key).unlink()
    problems = {damage.key: damage.problem for damage in scan(cube).damaged}
    assert sorted(key for key, words in problems.items() if words == CHANGE_FAULT) == turned
    # a block without its status is pending, so nothing of it is missed
    pending = {key.rpartition("/status/")[0] for key in lost if "/status/" in key}
    missed = {key for key in lost if "/status/" not in key and key.rsplit("/", 2)[0] not in pending}
    missing = {key for key, words in problems.items() if words == "is missing"}
    assert missed <= missing <= set(lost)
    assert len(missing) >= 5
    before = files(cube)
    planned = mend(cube, dry_run=True)
    assert files(cube) == before
    assert mend(cube) == planned
    assert set(planned.remade) == {key for key in problems if key.split("/")[-2] in REMADE}
    assert scan(cube).damaged == ()
    assert all((BlockStore(cube).statuses(block) == PENDING).all() for block in planned.blocks)
    fill(cube, PLANS)
    assert files(cube) == files(good_cube)


def test_what_is_intact_is_compared_when_computed_again(cube: Path, caplog: pytest.LogCaptureFixture) -> None:
    turn_bit(cube / "a/labels/c.0.0.0.0.0")
    (block,) = mend(cube).blocks
    results, store = draw_block(PLANS[0], block), BlockStore(cube)
    centroids = r"replicate=1/likelihood: .*centroids\[0, 0\] stored"
    for name, where, message in (("centroids", (1, 0, 0), centroids), ("annotations", (0, 0), "annotations")):
        wrong_results = results | {name: results[name].copy()}
        wrong_results[name][where] = 0
        with pytest.raises(CellMismatch, match=message) as caught:
            store.write(block, wrong_results)
        assert list(caught.value.values) == [name]
    # lost values and times may be anything; so may a cell that fails now
    results["labels"][:] = 0
    results["seconds"] = results["seconds"] + 1
    results["status"][1] = 2
    store.write(block, results)
    assert store.statuses(block).tolist() == [DONE, 2]
    assert (store.read(block)["labels"][0] == 0).all()
    # on another machine a difference is said and no error
    append_run(cube, RunRecord(fingerprint={"cpu": "an abacus"}))
    turn_bit(cube / "a/labels/c.0.1.0.0.0")
    (block,) = mend(cube).blocks
    results = draw_block(PLANS[0], block)
    results["centroids"][1, 0, 0] = 0.5
    BlockStore(cube).write(block, results)
    assert "computed again with another result" in caplog.text
    assert BlockStore(cube).read(block)["centroids"][1, 0, 0] == 0.5


def test_a_stopped_repair_is_repeated(good_cube: Path, cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("a/labels/c.0.0.0.0.0", "a/X/c.0.0"):
        turn_bit(cube / key)
    clear = BlockStore.clear

    def clear_status(store: BlockStore, block: Any, name: str) -> None:
        clear(store, block, name)
        raise KeyboardInterrupt

    monkeypatch.setattr(BlockStore, "clear", clear_status)
    with pytest.raises(KeyboardInterrupt):
        mend(cube)
    monkeypatch.undo()
    assert (BlockStore(cube).statuses(list(PLANS[0].blocks())[1]) == PENDING).all(), "before all else"
    assert len(scan(cube).damaged) == 2
    assert len(mend(cube).blocks) == 1
    fill(cube, PLANS)
    assert files(cube) == files(good_cube)


def test_files_of_no_finished_block_are_removed_and_inputs_without_their_data_stay(cube: Path) -> None:
    (cube / "a/status/c.0.0.0.0").unlink()
    turn_bit(cube / "a/labels/c.0.0.0.0.0")
    repair_result = mend(cube)
    assert repair_result.blocks == ()
    assert repair_result.remade == ()
    assert repair_result.removed == ("a/labels/c.0.0.0.0.0",)
    assert repair_result.lost == {}
    assert not (cube / "a/labels/c.0.0.0.0.0").exists()
    assert scan(cube).damaged == ()
    keys = ("a/X/c.0.0", "b/X/c.1.0.0")
    for key in keys:
        turn_bit(cube / key)
    before = files(cube)

    def draw_others(manifest: Manifest, plan: DatasetPlan) -> tuple[np.ndarray, np.ndarray | None]:
        if plan.name == "a":
            raise InputError([Problem("data set a", "nothing", "its data")])
        features, labels = draw_inputs(plan)
        return features + 1, labels

    assert repair(cube, draw_others).lost == {
        keys[0]: "data set a: found nothing, expected its data",
        keys[1]: "b/X has other values now than in the cube",
    }
    assert files(cube) == before
