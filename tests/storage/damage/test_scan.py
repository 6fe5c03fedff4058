"""Every chunk file read: what is damaged is found, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from cubes.rot import kinds, turn_bit
from cubes.small import SPEC, draw_block, draw_inputs, fill, make_plan

from storage.cube.blocks import BlockStore
from storage.cube.cube import create
from storage.damage.scan import scan
from sweeps.errors import InputError

PLANS = [
    make_plan("a", p=(0.8, 0.9), m=(4, 6), models=("likelihood", "posterior")),
    make_plan("b", mixtures=2),
]


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, PLANS, draw_inputs, SPEC)
    return path


def chunk_files(cube: Path) -> list[Path]:
    return [file for file in cube.rglob("c*") if file.is_file()]


@pytest.mark.parametrize("blocks", [0, 1, 3, 100])
def test_a_cube_at_any_stage_is_read_whole(cube: Path, blocks: int) -> None:
    store = BlockStore(cube)
    for block in list(PLANS[0].blocks())[:blocks]:
        store.write(block, draw_block(PLANS[0], block))
    found, files = scan(cube), chunk_files(cube)
    assert (found.files, found.damaged) == (len(files), ())
    assert found.size == sum(file.stat().st_size for file in files)


def test_all_that_is_damaged_is_found_at_once(cube: Path) -> None:
    fill(cube, PLANS)
    turned, lost = list(kinds(cube))[::2], list(kinds(cube))[1::2]
    for key in turned:
        turn_bit(cube / key)
    for key in lost:
        (cube / key).unlink()
    found = scan(cube)
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


def test_progress_sees_every_file(cube: Path) -> None:
    seen: list[str] = []
    scan(cube, lambda keys: (seen.append(key) or key for key in keys))  # type: ignore[func-returns-value]
    assert sorted(seen) == sorted(str(file.relative_to(cube)) for file in chunk_files(cube))


def test_no_cube_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        scan(tmp_path / "none.zarr")
