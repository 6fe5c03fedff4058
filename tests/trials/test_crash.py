"""Every operation on the cube is crashed before and after every change it makes to files."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from cubes import small
from cubes.small import SPEC, draw_block, draw_inputs, files, fill, make_plan, result_files
from cubes.writer import next_files
from processes.crash import crash_everywhere, crash_inside

from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import create, grow, open_cube
from sweep_clustering.storage.cube.schema import result_names
from sweep_clustering.sweeps.plan import DatasetPlan

Plans = list[DatasetPlan]

BASE = make_plan("a", baselines=())
NEW_SET = make_plan("b", models=(), p=(), m=(), has_labels=False)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a cube with one data set, all of it done."""
    path = tmp_path / "base" / "tiny.zarr"
    create(path, [BASE], draw_inputs, SPEC, next_files(path))
    fill(path, [BASE])
    return path


def copies(base: Path, root: Path) -> Callable[[int], Path]:
    def fresh_path(number: int) -> Path:
        path = root / str(number) / base.name
        if base.exists():
            shutil.copytree(base, path, copy_function=os.link)  # nothing is ever changed in place
        return path

    return fresh_path


def looks_like_one_of(path: Path, states: list[xr.DataTree]) -> None:
    """Check that anybody can open it without a warning and sees one of the states whole."""
    plain = small.read_whole(path)
    assert any(plain.identical(state) for state in states)
    assert open_cube(path)["a"]["status"].sizes == plain["a"]["status"].sizes


def grow_plan(plan: DatasetPlan = BASE, **changes: Any) -> Plans:
    return [replace(plan, **changes)]


GROWTHS: dict[str, Plans] = {
    "annotations": grow_plan(p=(0.9, 0.85), m=(4, 6)),
    "data set": [BASE, NEW_SET],
    "replicates": grow_plan(replicates=4),
}


def test_create(tmp_path: Path) -> None:
    def action(path: Path) -> None:
        create(path, [NEW_SET], draw_inputs, SPEC, next_files(path))

    action(undisturbed := tmp_path / "undisturbed" / "tiny.zarr")
    expected = files(undisturbed)

    def check(path: Path) -> None:
        if not path.exists():
            action(path)
        assert files(path) == expected
        assert sorted(entry.name for entry in path.parent.iterdir()) == ["tiny.run", "tiny.zarr"]

    root = tmp_path / "crashed"
    changes = crash_everywhere(root, copies(tmp_path / "nothing" / "tiny.zarr", root), action, check)
    assert changes[-1].endswith("tiny.zarr"), "the rename of the finished cube is the last change"
    assert len(changes) > 2 * len(expected)


@pytest.mark.parametrize(
    "plans",
    [
        pytest.param(plans, id=name, marks=() if name == "annotations" else pytest.mark.slow)
        for name, plans in GROWTHS.items()
    ],
)
def test_grow(base: Path, tmp_path: Path, plans: Plans) -> None:
    old_results = result_files(base)
    undisturbed = copies(base, tmp_path / "undisturbed")(0)
    grow(undisturbed, plans, draw_inputs, SPEC, next_files(undisturbed))
    states = [small.read_whole(base), small.read_whole(undisturbed)]
    expected = files(undisturbed)

    def check(path: Path) -> None:
        looks_like_one_of(path, states)
        assert result_files(path) == old_results
        grow(path, plans, draw_inputs, SPEC, next_files(path))
        assert files(path) == expected

    root = tmp_path / "crashed"
    changes = crash_everywhere(
        root, copies(base, root), lambda path: grow(path, plans, draw_inputs, SPEC, next_files(path)), check
    )
    assert changes[-1].endswith(f"{base.name}/zarr.json"), "the rename of the root file is the last change"
    assert not states[0].identical(states[1])


@pytest.mark.parametrize(
    ("first", "second"),
    [("replicates", "annotations"), ("annotations", "replicates"), ("data set", "annotations")],
)
def test_grow_another_way_after_a_crash(base: Path, tmp_path: Path, first: str, second: str) -> None:
    old_results = result_files(base)
    undisturbed = copies(base, tmp_path / "undisturbed")(0)
    grow(undisturbed, GROWTHS[second], draw_inputs, SPEC, next_files(undisturbed))
    expected = files(undisturbed)
    counted = copies(base, tmp_path / "counted")(0)
    with crash_inside(tmp_path) as counter:
        grow(counted, GROWTHS[first], draw_inputs, SPEC, next_files(counted))
    last = len(counter.seen)
    for at in (last // 3, last // 2, last):
        path = copies(base, tmp_path / "crashed")(at)
        with crash_inside(tmp_path, at) as injector:
            grow(path, GROWTHS[first], draw_inputs, SPEC, next_files(path))
        assert injector.crashed
        grow(path, GROWTHS[second], draw_inputs, SPEC, next_files(path))
        assert files(path) == expected
        assert result_files(path) == old_results


def test_growth_that_is_given_up_leaves_nothing(base: Path, tmp_path: Path) -> None:
    before = files(base)
    plans = [replace(BASE, p=(0.9, 0.85), replicates=4), NEW_SET]
    counted = copies(base, tmp_path / "counted")(0)
    with crash_inside(tmp_path) as counter:
        grow(counted, plans, draw_inputs, SPEC, next_files(counted))
    with crash_inside(tmp_path, len(counter.seen)):
        grow(base, plans, draw_inputs, SPEC, next_files(base))
    assert len(files(base)) > len(before)
    grow(base, [BASE], draw_inputs, SPEC, next_files(base))
    assert files(base) == before


def test_write_block(base: Path, tmp_path: Path) -> None:
    plan = replace(BASE, p=(0.9, 0.85))
    grow(base, [plan], draw_inputs, SPEC, next_files(base))
    old_results = result_files(base)
    block = list(plan.blocks())[-1]
    undisturbed = copies(base, tmp_path / "undisturbed")(0)
    BlockStore(undisturbed, files=next_files(undisturbed)).write(block, draw_block(plan, block))
    expected = files(undisturbed)
    whole = open_cube(undisturbed).load(scheduler="synchronous")
    pending = open_cube(base).load(scheduler="synchronous")

    def write(path: Path) -> None:
        BlockStore(path, files=next_files(path)).write(block, draw_block(plan, block))

    def check(path: Path) -> None:
        tree = open_cube(path).load(scheduler="synchronous")
        assert tree.identical(whole) or tree.identical(pending)
        assert tree.identical(whole) == (BlockStore(path).statuses(block) == 1).all()
        small.read_whole(path)
        assert old_results.items() <= result_files(path).items()
        write(path)
        assert files(path) == expected

    root = tmp_path / "crashed"
    changes = crash_everywhere(root, copies(base, root), write, check)
    assert changes[-1].endswith("status/c.1.0.0.0"), "the rename of the status is the last change"
    of_the_cube = [change for change in changes if f"{base.name}/" in change]
    assert len(of_the_cube) == len([*result_names(plan, block.models), "annotations"]), (
        "one rename for each file"
    )
