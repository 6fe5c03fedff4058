"""The zarr stores of a cube: durable, and never making what has vanished."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
import pytest
import zarr
from cubes.small import SPEC, draw_block, draw_inputs, fill, make_plan
from cubes.stages import STAGES
from numcodecs import Zstd

from storage.cube import store
from storage.cube.blocks import BlockStore
from storage.cube.chunks import ChunkFiles, holds, unpacked_size
from storage.cube.growth import create, grow, open_cube
from storage.cube.manifest import Manifest
from storage.cube.schema import DONE, FAILED, PENDING, result_names
from storage.cube.store import CubeStore
from storage.errors import DamagedChunk
from storage.files import PLAIN
from sweeps.errors import InputError


def nothing() -> ChunkFiles:
    """Of a cube of no data set: no file must be there."""
    return ChunkFiles([], {})


def test_durable_store_writes_what_zarr_reads(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", shape=(4,), chunks=(2,), dtype="i4", fill_value=-1)
    array = zarr.open_array(CubeStore(tmp_path / "x.zarr", chunks=nothing(), files=PLAIN), mode="r+")
    assert isinstance(array, zarr.Array)
    with pytest.raises(FileNotFoundError):
        array[:2] = np.arange(2)
    (tmp_path / "x.zarr" / "c").mkdir()
    array[:2] = np.arange(2)
    assert zarr.open_array(tmp_path / "x.zarr", mode="r")[:].tolist() == [0, 1, -1, -1]


def test_durable_store_never_makes_a_vanished_cube(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        zarr.open_group(CubeStore(tmp_path / "x.zarr", chunks=nothing(), files=PLAIN), mode="r+")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 255, 256, 65_791, 65_792, 3_000_000])
def test_a_frame_says_how_many_bytes_it_holds(size: int) -> None:
    content = np.random.default_rng(0).bytes(size)
    assert unpacked_size(Zstd(level=0).encode(content)) == size


@pytest.mark.parametrize(
    "content", [b"", b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00", b"x" * 40]
)
def test_what_is_no_frame_of_known_length_holds_nothing(content: bytes) -> None:
    assert unpacked_size(content) is None
    assert not holds(content + b"0000", "float64", 5)


def packed_texts(*texts: str, count: int | None = None) -> bytes:
    """A chunk of texts, and four bytes in the place of its checksum."""
    parts = [len(text.encode()).to_bytes(4, "little") + text.encode() for text in texts]
    head = (len(texts) if count is None else count).to_bytes(4, "little")
    return bytes(Zstd().encode(head + b"".join(parts))) + b"0000"


def test_texts_are_counted_before_memory_is_taken_for_them() -> None:
    assert holds(packed_texts("likelihood", "é"), "string", 2)
    assert holds(packed_texts(), "string", 0)
    assert not holds(packed_texts("likelihood", "é"), "string", 3)
    assert not holds(packed_texts("i", "j", count=2**32 - 1), "string", 2)
    assert not holds(packed_texts("i", count=2), "string", 2)
    assert not holds(packed_texts("i", "j", "kind", count=2), "string", 2)
    assert not holds(packed_texts("x" * 2**21), "string", 1)


def test_the_file_of_another_chunk_is_an_error(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    plan = make_plan(m=(4, 6), models=("likelihood", "posterior"))
    create(cube, [plan], draw_inputs, SPEC)
    fill(cube, [plan])
    for key, other in (("a/status/c.0.0.0.0", "a/labels/c.0.0.0.0.0"), ("a/model/c.0", "a/p/c.0")):
        content = (cube / key).read_bytes()
        (cube / key).write_bytes((cube / other).read_bytes())
        with pytest.raises(DamagedChunk, match="is the file of another chunk"):
            open_cube(cube)
        (cube / key).write_bytes(content)
    open_cube(cube).load()


def test_a_frame_of_the_right_size_that_is_none_is_not_what_a_chunk_holds() -> None:
    packed = bytes(Zstd().encode(np.random.default_rng(0).normal(size=100).tobytes()))
    assert holds(packed + bytes(4), "float64", 100)
    assert not holds(packed[:-50] + bytes(4), "float64", 100)
    for text, good in (("é".encode(), True), (b"\xff\xff", False)):
        content = (1).to_bytes(4, "little") + len(text).to_bytes(4, "little") + text
        assert holds(bytes(Zstd().encode(content)) + bytes(4), "string", 1) is good


# Opening a cube: lazy, sorted, masked by a snapshot of the status.

RESULTS = result_names(make_plan(), ["likelihood"])

PLAN = make_plan("a", p=(0.9, 0.8), m=(6, 4), models=("likelihood", "posterior"))


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN, make_plan("b", mixtures=2)], draw_inputs, SPEC)
    return path


@pytest.fixture
def no_compute() -> Iterator[None]:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something was computed")

    with dask.config.set(scheduler=refuse):
        yield


def test_opening_computes_nothing(cube: Path, no_compute: None) -> None:
    fill(cube, [PLAN])
    tree = open_cube(cube)
    for path in ("a", "a/unsupervised", "b", "b/unsupervised"):
        for name, variable in tree[path].data_vars.items():
            assert isinstance(variable.data, np.ndarray if name == "status" else dask.array.Array)
    assert isinstance(tree["a"].coords["m_over_n"].data, np.ndarray)
    with pytest.raises(AssertionError, match="something was computed"):
        tree["a"]["labels"].values  # noqa: B018  the test above can fail


def test_chunks_are_those_on_disk(cube: Path) -> None:
    tree = open_cube(cube)
    assert tree["a"]["labels"].chunks == ((1, 1), (1, 1), (2,), (2,), (5,))
    assert tree["a/unsupervised"]["best_restart"].chunks == ()


def test_accuracies_and_counts_rise_with_their_cells(cube: Path) -> None:
    grow(
        cube, [replace(PLAN, p=(0.9, 0.8, 0.85), m=(6, 4, 5)), make_plan("b", mixtures=2)], draw_inputs, SPEC
    )
    fill(cube, [replace(PLAN, p=(0.9, 0.8, 0.85), m=(6, 4, 5))])
    node = open_cube(cube)["a"]
    assert node["p"].values.tolist() == [0.8, 0.85, 0.9]
    assert node["m"].values.tolist() == [4, 5, 6]
    assert node["m_over_n"].values.tolist() == [0.8, 1.0, 1.2]
    for block in PLAN.blocks():
        if not block.unsupervised:
            labels = node["labels"].sel(p=block.first.p, m=block.first.m).values
            assert np.array_equal(labels.reshape(block.n_cells, -1), draw_block(PLAN, block)["labels"])


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
        assert np.array_equal(
            values[~done], np.full_like(values[~done], fill_value), equal_nan=values.dtype.kind == "f"
        )
        assert values.dtype == expected[name].dtype
    annotations = node["annotations"].values
    assert np.array_equal(annotations[0], expected["annotations"][0])
    assert (annotations[1] == -1).all()
    assert annotations.dtype == np.int32


def test_the_status_is_of_the_moment_of_opening(cube: Path) -> None:
    tree = open_cube(cube)
    fill(cube, [PLAN])
    assert (tree["a"]["status"] == PENDING).all()
    assert (tree["a"]["labels"].values == -1).all()
    assert (open_cube(cube)["a"]["labels"].values >= 0).all()


def test_two_openings_share_no_key(cube: Path) -> None:
    keys = [set(open_cube(cube)["a"]["X"].__dask_graph__()) for _ in range(2)]
    assert keys[0].isdisjoint(keys[1])


def test_a_tree_travels_to_a_worker(cube: Path) -> None:
    fill(cube, [PLAN])
    tree = open_cube(cube)
    assert pickle.loads(pickle.dumps(tree)).load().identical(tree.load())


def test_no_cube_is_said(tmp_path: Path, cube: Path) -> None:
    with pytest.raises(InputError):
        open_cube(tmp_path / "none.zarr")
    (cube / "a" / "p" / "c.0").unlink()
    (cube / "a" / "p" / "c.0").symlink_to("c.0")
    with pytest.raises(InputError, match=r"c\.0: found a link"):
        open_cube(cube)


def test_a_growth_while_a_cube_is_opened_is_not_half_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grid and the arrays are of one moment, though the root is replaced in between."""
    path = tmp_path / "tiny.zarr"
    create(path, STAGES[0], draw_inputs, SPEC)
    fill(path, STAGES[0])
    before = open_cube(path).load()
    real = store.read_manifest

    def slow_read(path: Path) -> Manifest:
        found = real(path)
        monkeypatch.setattr(store, "read_manifest", real)
        for plans in STAGES[1:]:
            grow(path, plans, draw_inputs, SPEC)
            fill(path, plans)
        return found

    monkeypatch.setattr(store, "read_manifest", slow_read)
    during = open_cube(path).load()
    assert during.identical(before)
    assert not open_cube(path).load().identical(before)
