"""The zarr stores of a cube: durable, and never making what has vanished."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from cubes.small import SPEC, draw_inputs, fill, make_plan
from numcodecs import Zstd

from storage.cube.cube import create, open_cube
from storage.cube.places import ChunkFiles
from storage.cube.store import DurableStore, holds, unpacked_size
from storage.errors import DamagedChunk


def nothing() -> ChunkFiles:
    """Of a cube of no data set: no file must be there."""
    return ChunkFiles([], {})


def test_durable_store_writes_what_zarr_reads(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", shape=(4,), chunks=(2,), dtype="i4", fill_value=-1)
    array = zarr.open_array(DurableStore(tmp_path / "x.zarr", chunks=nothing()), mode="r+")
    assert isinstance(array, zarr.Array)
    with pytest.raises(FileNotFoundError):
        array[:2] = np.arange(2)
    (tmp_path / "x.zarr" / "c").mkdir()
    array[:2] = np.arange(2)
    assert zarr.open_array(tmp_path / "x.zarr", mode="r")[:].tolist() == [0, 1, -1, -1]


def test_durable_store_never_makes_a_vanished_cube(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        zarr.open_group(DurableStore(tmp_path / "x.zarr", chunks=nothing()), mode="r+")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 1, 8, 255, 256, 300, 65_791, 65_792, 70_000, 3_000_000])
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
