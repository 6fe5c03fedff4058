"""What is said when the file system refuses."""

import errno
import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage.errors import NEEDS, DamagedChunk, StorageError, storage_errors


def refused(code: int, *names: str, n_bytes: int | None = 1000) -> StorageError:
    with pytest.raises(StorageError) as caught, storage_errors(Path("cube"), n_bytes):
        raise OSError(code, os.strerror(code), *names)
    return caught.value


@pytest.mark.parametrize("code", [*NEEDS, errno.ELOOP])
def test_an_error_names_path_and_need_and_a_size_where_space_is_missing(code: int) -> None:
    error = refused(code)
    assert error.path == Path("cube")
    assert error.need.endswith(NEEDS.get(code, "accepts the operation"))
    assert os.strerror(code) in str(error)
    assert ("1,000 bytes" in error.need) == (code in (errno.ENOSPC, errno.EDQUOT))
    assert refused(code, "no such/file").path == Path("no such/file")  # the system knows it better
    for each in (error, DamagedChunk(Path("chunk"), "labels", "is missing", Path("cube"))):
        again = pickle.loads(pickle.dumps(each))
        assert (type(again), str(again), vars(again)) == (type(each), str(each), vars(each))


@pytest.mark.parametrize(
    ("files", "free", "need"),
    [(1000, 0, "free inodes"), (1000, 1, "7 bytes of free space"), (0, 0, "7 bytes of free space")],
)
def test_a_disk_without_inodes_is_told_from_a_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, free: int, need: str
) -> None:
    real, found = os.statvfs, SimpleNamespace(f_files=files, f_favail=free)
    monkeypatch.setattr(os, "statvfs", lambda path: real(path) and found)  # of nothing it is an error
    error = refused(errno.ENOSPC, str(tmp_path / "not" / "made"), n_bytes=7)
    assert error.need.startswith(need)
