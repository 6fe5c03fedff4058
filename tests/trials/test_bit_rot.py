"""Turned bits and lost files of every kind never give another value."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import zarr
from cubes.rot import kinds
from cubes.small import draw_inputs, fill, filled_cube, make_plan, make_spec

from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.chunks import chunk_position
from sweep_clustering.storage.cube.growth import create, grow, open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import FAILED
from sweep_clustering.storage.cube.store import CubeStore
from sweep_clustering.storage.files import DamagedChunk

SPEC = make_spec("ab", stop={"rule": "good-turing", "risk": 0.1, "r_min": 2})
PLANS = [
    make_plan("a", p=(0.8, 0.9), m=(4, 6), models=("likelihood", "posterior"), adaptive=True),
    make_plan("b", mixtures=2, adaptive=True),
]
SPACING = 15
"""Every fifteenth bit of a file is turned: all of them, in turn, of bytes that follow each other."""


@pytest.fixture(scope="module")
def good_cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_cube(tmp_path_factory.mktemp("good") / "tiny.zarr", PLANS, SPEC)


@pytest.fixture
def cube(good_cube: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good_cube, tmp_path / "tiny.zarr"))


def flip_bits(content: bytes) -> Iterator[bytes]:
    for bit in range(0, 8 * len(content), SPACING):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def arrays(cube: Path) -> zarr.Group:
    """Return the group through which every reader reads a cube."""
    return zarr.open_group(CubeStore(read_manifest(cube)), mode="r", use_consolidated=True)


def test_every_turned_bit_and_whatever_is_cut_off_or_overwritten_is_an_error(cube: Path) -> None:
    root, turned = arrays(cube), 0
    for key in kinds(cube):
        file, array = cube / key, root[key.rpartition("/")[0]]
        assert isinstance(array, zarr.Array)
        content = file.read_bytes()
        cut = [content[:length] for length in range(0, len(content), 5)]
        for changed in [*flip_bits(content), *cut, bytes(len(content)), bytes(4), content + b"\0"]:
            file.write_bytes(changed)
            with pytest.raises(DamagedChunk) as caught:
                array[...]
            assert caught.value.path == file, (key, changed)
            turned += 1
        file.write_bytes(content)
        array[...]
    assert turned > 1000


@pytest.mark.parametrize("failed", [False, True])
def test_every_lost_file_of_a_finished_cube_is_an_error(cube: Path, tmp_path: Path, failed: bool) -> None:
    """Chunks of fill values are files like any other: zarr itself would leave out those of failed cells."""
    if failed:
        cube = tmp_path / "failed.zarr"
        create(cube, PLANS, draw_inputs, SPEC)
        store = BlockStore(cube)
        for block in (block for plan in PLANS for block in plan.blocks()):
            results = store.read(block)
            store.write(block, results | {"status": results["status"] + FAILED})
    root, lost = arrays(cube), 0
    for path in sorted(read_manifest(cube).metadata):
        array = root[path]
        if not isinstance(array, zarr.Array) or path.endswith("/status"):
            continue  # a block without its status is pending
        for file in [file for file in (cube / path).iterdir() if chunk_position(file.name) is not None]:
            content = file.read_bytes()
            file.unlink()
            with pytest.raises(DamagedChunk, match=r"is missing; it holds") as caught:
                array[...]
            assert caught.value.path == file
            file.write_bytes(content)
            lost += 1
    assert lost > 80


def test_a_cube_that_is_written_and_grown_has_no_damage(tmp_path: Path) -> None:
    """Files that are not there yet are not missed: later blocks, and annotations beyond a cell's m."""
    path = tmp_path / "tiny.zarr"
    create(path, PLANS[:1], draw_inputs, SPEC)
    more = [make_plan("a", p=(0.8, 0.9), m=(4, 6, 13), models=("likelihood", "posterior"), adaptive=True)]
    for plans in (PLANS[:1], more):
        grow(path, plans, draw_inputs, SPEC)
        store = BlockStore(path)
        for block in plans[0].blocks():
            open_cube(path).load()
            if (store.statuses(block) == 0).all():
                fill(path, plans)
        open_cube(path).load()
    lost = path / "a/annotations/c.1.2.0.2.0"  # the third chunk of the largest m
    assert lost.exists()
    assert not lost.with_name("c.1.1.0.2.0").exists()
    lost.unlink()
    with pytest.raises(
        DamagedChunk, match=r"a/annotations of 4 cells, a/p=0.9/m=13/replicate=0/likelihood to"
    ):
        open_cube(path)["a"]["annotations"].load()


def test_the_message_names_array_cells_file_and_remedy(cube: Path) -> None:
    file = cube / "a/labels/c.1.0.0.0.0"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    message = (
        f"{file}: has changed since it was written; it holds a/labels of 4 cells, "
        f"a/p=0.9/m=4/replicate=0/likelihood to a/p=0.9/m=4/replicate=1/posterior. "
        f"To have it made again: sweep repair {cube}"
    )
    labels = open_cube(cube)["a"]["labels"]
    assert (labels.sel(p=0.8).compute() >= 0).all()  # other chunks are as good as before
    with pytest.raises(DamagedChunk) as caught:
        labels.compute()
    assert str(caught.value) == message
    block = next(block for block in PLANS[0].blocks() if (block.first.p, block.first.m) == (0.9, 4))
    with pytest.raises(DamagedChunk) as caught:
        BlockStore(cube).read(block)
    assert str(caught.value) == message
