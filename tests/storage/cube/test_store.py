"""The zarr stores of a cube: durable, and never making what has vanished."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from storage.cube.places import ChunkFiles
from storage.cube.store import DurableStore


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
