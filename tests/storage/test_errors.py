"""What is said when the file system refuses."""

import errno
import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.errors import NEEDS, StorageError, storage_errors


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


@pytest.mark.parametrize(
    ("files", "free", "need"),
    [
        (1000, 0, "free inodes: the file system holds as many files as it can, whatever space is left"),
        (1000, 1, "7 bytes of free space"),
        (0, 0, "7 bytes of free space"),
    ],
)
def test_a_disk_without_inodes_is_told_from_a_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, free: int, need: str
) -> None:
    def statvfs(path: Path) -> SimpleNamespace:
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return SimpleNamespace(f_files=files, f_favail=free)

    monkeypatch.setattr(os, "statvfs", statvfs)
    with pytest.raises(StorageError) as caught, storage_errors(tmp_path, 7):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "not" / "made"))
    assert caught.value.need == need


def test_storage_error_prefers_the_path_of_the_system() -> None:
    with pytest.raises(StorageError) as caught, storage_errors(Path("cube")):
        Path("no such/file").read_bytes()
    assert caught.value.path == Path("no such/file")


def test_a_storage_error_survives_the_way_from_a_worker() -> None:
    error = StorageError(Path("cube"), "free space", "No space left on device")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is StorageError
    assert (again.path, again.need, again.reason) == (error.path, error.need, error.reason)
    assert str(again) == str(error) == "cube: needs free space (No space left on device)"


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(ValueError, match="not ours"), storage_errors(Path("cube")):
        raise ValueError("not ours")


@pytest.mark.parametrize("code", NEEDS)
def test_a_size_is_said_only_where_space_is_missing(code: int) -> None:
    with pytest.raises(StorageError) as caught, storage_errors(Path("cube"), 1234):
        raise OSError(code, os.strerror(code))
    assert caught.value.need.endswith(NEEDS[code])
    assert ("1,234 bytes" in caught.value.need) == (code in (errno.ENOSPC, errno.EDQUOT))
