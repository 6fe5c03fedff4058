"""Durable files, and what is said when the file system refuses."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import zarr
from processes.crash import crash_everywhere

from storage.cube.store import DurableStore
from storage.errors import StorageError, storage_errors
from storage.files import remove, write_file, write_files


def test_write_file_is_whole_or_old(tmp_path: Path) -> None:
    def fresh(number: int) -> Path:
        path = tmp_path / str(number)
        path.write_bytes(b"old")
        return path

    def check(path: Path) -> None:
        assert path.read_bytes() in (b"old", b"new content")
        write_file(path, b"new content")
        assert path.read_bytes() == b"new content"
        assert not path.with_name(path.name + ".partial").exists()

    assert len(crash_everywhere(tmp_path, fresh, lambda path: write_file(path, b"new content"), check)) == 2


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "kept").write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "kept", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_content_is_durable_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda d: (order.append(Path(os.readlink(f"/proc/self/fd/{d}")).name), fsync(d))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(f"{Path(b).name} named"), replace(a, b)))
    write_files(tmp_path, [("one/two/file", b"content")])
    assert order[:2] == ["file.partial", "file named"]
    assert sorted(order[2:]) == sorted([tmp_path.name, "one", "two"])
    assert (tmp_path / "one/two/file").read_bytes() == b"content"


def test_remove_takes_files_directories_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert (tmp_path / "folder").exists()
    remove(tmp_path / "folder")
    remove(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_durable_store_writes_what_zarr_reads(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", shape=(4,), chunks=(2,), dtype="i4", fill_value=-1)
    array = zarr.open_array(DurableStore(tmp_path / "x.zarr"), mode="r+")
    assert isinstance(array, zarr.Array)
    with pytest.raises(FileNotFoundError):
        array[:2] = np.arange(2)
    (tmp_path / "x.zarr" / "c").mkdir()
    array[:2] = np.arange(2)
    assert zarr.open_array(tmp_path / "x.zarr", mode="r")[:].tolist() == [0, 1, -1, -1]


def test_durable_store_never_makes_a_vanished_cube(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        zarr.open_group(DurableStore(tmp_path / "x.zarr"), mode="r+")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "need"),
    [
        (errno.ENOSPC, "1,000 bytes of free space"),
        (errno.EROFS, "not read-only"),
        (errno.ENOENT, "vanished"),
        (errno.ELOOP, "accepts the operation"),
    ],
)
def test_storage_error_names_path_and_need(code: int, need: str) -> None:
    with pytest.raises(StorageError) as caught, storage_errors(Path("cube"), 1000):
        raise OSError(code, os.strerror(code))
    assert caught.value.path == Path("cube")
    assert need in str(caught.value)
    assert os.strerror(code) in str(caught.value)


def test_storage_error_prefers_the_path_of_the_system() -> None:
    with pytest.raises(StorageError) as caught, storage_errors(Path("cube")):
        Path("no such/file").read_bytes()
    assert caught.value.path == Path("no such/file")
