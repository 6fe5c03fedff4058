"""Damage of every kind, put right: blocks are computed again, inputs and coordinates made again."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
from cubes.rot import kinds, turn_bit
from cubes.small import SPEC, draw_block, draw_inputs, files, fill, make_plan, read_whole

from storage.cube.blocks import BlockStore, CellMismatch
from storage.cube.growth import create, open_cube
from storage.cube.manifest import append_run
from storage.cube.schema import DONE, PENDING
from storage.damage import Repair, repair, scan
from storage.provenance import RunRecord
from sweeps.errors import InputError, Problem
from sweeps.plan import DatasetPlan

# Every chunk file read: what is damaged is found, and nothing else.

PLANS_OF_SCAN = [
    make_plan("a", p=(0.8, 0.9), m=(4, 6), models=("likelihood", "posterior")),
    make_plan("b", mixtures=2),
]


@pytest.fixture
def cube_of_scan(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, PLANS_OF_SCAN, draw_inputs, SPEC)
    return path


def chunk_files(cube: Path) -> list[Path]:
    return [file for file in cube.rglob("c*") if file.is_file()]


@pytest.mark.parametrize("blocks", [1, 100])
def test_a_cube_at_any_stage_is_read_whole(cube_of_scan: Path, blocks: int) -> None:
    store = BlockStore(cube_of_scan)
    for block in list(PLANS_OF_SCAN[0].blocks())[:blocks]:
        store.write(block, draw_block(PLANS_OF_SCAN[0], block))
    found, files = scan(cube_of_scan), chunk_files(cube_of_scan)
    assert (found.files, found.damaged) == (len(files), ())
    assert found.size == sum(file.stat().st_size for file in files)


def test_all_that_is_damaged_is_found_at_once(cube_of_scan: Path) -> None:
    fill(cube_of_scan, PLANS_OF_SCAN)
    turned, lost = list(kinds(cube_of_scan))[::2], list(kinds(cube_of_scan))[1::2]
    for key in turned:
        turn_bit(cube_of_scan / key)
    for key in lost:
        (cube_of_scan / key).unlink()
    found = scan(cube_of_scan)
    changed = [damage.key for damage in found.damaged if damage.found == "has changed since it was written"]
    missing = [damage.key for damage in found.damaged if damage.found == "is missing"]
    assert sorted(changed) == turned
    # without its status, a block is pending: nothing of it is missed
    pending = {key.rpartition("/")[0].rpartition("/")[0] for key in lost if "/status/" in key}
    kept = [key for key in lost if "/status/" not in key and not _belongs(key, pending)]
    assert set(kept) <= set(missing) <= set(lost)
    assert len(missing) >= 5
    assert (
        str(found.damaged[0])
        == f"{found.damaged[0].key}: {found.damaged[0].found}; it holds {found.damaged[0].holds}"
    )


def _belongs(key: str, nodes: set[str]) -> bool:
    return key.rpartition("/")[0].rpartition("/")[0] in nodes


def test_progress_sees_every_file(cube_of_scan: Path) -> None:
    seen: list[str] = []
    scan(cube_of_scan, lambda keys: (seen.append(key) or key for key in keys))  # type: ignore[func-returns-value]
    assert sorted(seen) == sorted(str(file.relative_to(cube_of_scan)) for file in chunk_files(cube_of_scan))


def test_no_cube_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        scan(tmp_path / "none.zarr")


PLANS = [
    make_plan("a", p=(0.8, 0.9), m=(4, 6), models=("likelihood", "posterior"), model_chunk=1),
    make_plan("b", mixtures=4, mixture_chunk=2),
    make_plan("c", models=("posterior-full",), baselines=("unsupervised-diagonal",)),
]

REMADE = {"X", "labels_true", "p", "m", "m_over_n", "model", "field", "replicate", "mixture"}
"""Arrays that are made again from the plan and the data."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "tiny.zarr"
    create(path, PLANS, draw_inputs, SPEC)
    fill(path, PLANS)
    return path


@pytest.fixture
def cube(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "tiny.zarr"))


def mend(cube: Path, **options: bool) -> Repair:
    return repair(cube, scan(cube).damaged, draw_inputs, **options)


def test_nothing_to_repair_changes_nothing(cube: Path) -> None:
    before = files(cube)
    assert mend(cube) == Repair((), (), (), ())
    assert files(cube) == before


@pytest.mark.parametrize("how", ["turned", "lost"])
def test_damage_of_every_kind_ends_with_the_same_files(good: Path, cube: Path, how: str) -> None:
    """Every fourth array for a turned bit, others for a lost file; all of both is a heavy test."""
    mended(good, cube, how, list(kinds(good))[2 * (how == "lost") :: 4])


@pytest.mark.heavy
@pytest.mark.parametrize("how", ["turned", "lost"])
def test_both_damages_of_every_kind_end_with_the_same_files(good: Path, cube: Path, how: str) -> None:
    mended(good, cube, how, list(kinds(good)))


def mended(good: Path, cube: Path, how: str, keys: list[str]) -> None:
    """Damage a file of each data set after the other, mend the cube, and compute what is missing again."""
    expected = files(good)
    by_plan = [[key for key in keys if key.startswith(f"{plan.name}/")] for plan in PLANS]
    assert sum(map(len, by_plan)) == len(keys)
    for together in zip_longest(*by_plan):
        remade, blocks = [], Counter[str]()
        for key in filter(None, together):
            turn_bit(cube / key) if how == "turned" else (cube / key).unlink()
            name = key.split("/")[-2]
            if name in REMADE:
                remade.append(key)
            elif how != "lost" or name != "status":  # a block without a status was never finished
                blocks[key.split("/")[0]] = 2 if "a/annotations" in key else 1  # of both chunks of models
        done = mend(cube)
        assert (sorted(done.remade), done.removed, done.lost) == (sorted(remade), (), ())
        assert Counter(block.dataset for block in done.blocks) == blocks
        assert scan(cube).damaged == ()
        open_cube(cube).load(scheduler="synchronous")  # arrays of a few bytes
        store = BlockStore(cube)
        assert all((store.statuses(block) == PENDING).all() for block in done.blocks)
        fill(cube, PLANS)
        assert files(cube) == expected


def test_everything_at_once_and_a_dry_run_before(good: Path, cube: Path) -> None:
    for key in kinds(cube):
        turn_bit(cube / key)
    before = files(cube)
    planned = mend(cube, dry_run=True)
    assert files(cube) == before
    assert mend(cube) == planned
    assert scan(cube).damaged == ()
    fill(cube, PLANS)
    assert read_whole(cube).identical(read_whole(good))


def test_what_is_intact_is_compared_when_computed_again(cube: Path) -> None:
    turn_bit(cube / "a/labels/c.0.0.0.0.0")
    (block,) = mend(cube).blocks
    results, store = draw_block(PLANS[0], block), BlockStore(cube)
    other = {name: values.copy() for name, values in results.items()}
    other["centroids"][1, 0, 0] = 0.5
    with pytest.raises(CellMismatch, match=r"replicate=1/likelihood: .*centroids\[0, 0\] stored") as caught:
        store.write(block, other)
    assert list(caught.value.values) == ["centroids"]
    other = {name: values.copy() for name, values in results.items()}
    other["annotations"][0, 0] = 0
    with pytest.raises(CellMismatch, match="annotations"):
        store.write(block, other)
    # what was lost, and times, may be anything; so may a cell that fails now
    results["labels"][:] = 0
    results["seconds"] = results["seconds"] + 1
    results["cpu_seconds"] = results["cpu_seconds"] + 1
    results["status"][1] = 2
    store.write(block, results)
    assert store.statuses(block).tolist() == [DONE, 2]
    assert (store.read(block)["labels"][0] == 0).all()


def test_on_another_machine_a_difference_is_said_and_no_error(
    cube: Path, caplog: pytest.LogCaptureFixture
) -> None:
    append_run(cube, RunRecord(fingerprint={"cpu": "an abacus"}))
    turn_bit(cube / "a/labels/c.0.0.0.0.0")
    (block,) = mend(cube).blocks
    results = draw_block(PLANS[0], block)
    results["centroids"][1, 0, 0] = 0.5
    BlockStore(cube).write(block, results)
    assert "computed again with another result" in caplog.text
    assert BlockStore(cube).read(block)["centroids"][1, 0, 0] == 0.5


def test_a_repair_that_was_stopped_is_repeated(
    good: Path, cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("a/labels/c.0.0.0.0.0", "a/X/c.0.0"):
        turn_bit(cube / key)
    with monkeypatch.context() as patched:
        patched.setattr(BlockStore, "clear", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            mend(cube)
    assert len(scan(cube).damaged) == 2
    assert len(mend(cube).blocks) == 1
    fill(cube, PLANS)
    assert files(cube) == files(good)


def test_a_damaged_file_of_a_block_that_was_not_finished_is_removed(cube: Path) -> None:
    (cube / "a/status/c.0.0.0.0").unlink()
    turn_bit(cube / "a/labels/c.0.0.0.0.0")
    assert mend(cube) == Repair((), (), ("a/labels/c.0.0.0.0.0",), ())
    assert not (cube / "a/labels/c.0.0.0.0.0").exists()
    assert scan(cube).damaged == ()


def test_inputs_that_are_not_the_same_stay_damaged_and_it_is_said(cube: Path) -> None:
    keys = ("a/X/c.0.0", "b/X/c.1.0.0")
    for key in keys:
        turn_bit(cube / key)
    before = files(cube)

    def others(plan: DatasetPlan) -> tuple[np.ndarray, np.ndarray | None]:
        if plan.name == "a":
            raise InputError([Problem("data set a", "nothing", "its data")])
        features, labels = draw_inputs(plan)
        return features + 1, labels

    done = repair(cube, scan(cube).damaged, others)
    assert dict(done.lost) == {
        keys[0]: "data set a: found nothing, expected its data",
        keys[1]: "b/X has other values now than in the cube",
    }
    assert files(cube) == before
