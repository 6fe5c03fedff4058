"""Durable files, and what is said when the file system refuses."""

import errno
import os
import pickle
import re
import stat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from processes.crash import crash_everywhere

from sweep_clustering.storage.files import (
    NEEDS,
    PLAIN,
    DamagedChunk,
    Files,
    LeaseLost,
    StorageError,
    remove,
    storage_errors,
    sync_directory,
    unsynced_devices,
)


def test_a_file_is_whole_or_old(tmp_path: Path) -> None:
    def fresh(number: int) -> Path:
        path = tmp_path / str(number)
        path.write_bytes(b"old")
        return path

    def check(path: Path) -> None:
        assert path.read_bytes() in (b"old", b"new content")
        PLAIN.put(path, b"new content")
        assert path.read_bytes() == b"new content"
        assert not path.with_name(path.name + ".partial").exists()

    assert len(crash_everywhere(tmp_path, fresh, lambda path: PLAIN.put(path, b"new content"), check)) == 2


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "kept").write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        PLAIN.put(tmp_path / "kept", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_content_is_durable_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda d: (order.append(Path(os.readlink(f"/proc/self/fd/{d}")).name), fsync(d))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(f"{Path(b).name} named"), replace(a, b)))
    PLAIN.put_all(tmp_path, [("one/two/file", b"content")])
    assert order[:2] == ["file.partial", "file named"]
    assert sorted(order[2:]) == sorted([tmp_path.name, "one", "two"])
    assert (tmp_path / "one/two/file").read_bytes() == b"content"
    order.clear()
    PLAIN.build(tmp_path / "cube", [("file", b"content")])
    assert order[0] == "file.partial"
    assert order[-3:] == ["cube.partial", "cube named", tmp_path.name]


def refuse(monkeypatch: pytest.MonkeyPatch, function: str, code: int) -> None:
    """Let `os.open` or `os.fsync` answer with an error where it is called for a directory."""
    original, opened = getattr(os, function), os.fstat if function == "fsync" else os.stat

    def call(target: Any, *arguments: Any) -> Any:
        if os.path.exists(target) and stat.S_ISDIR(opened(target).st_mode):
            raise OSError(code, os.strerror(code))
        return original(target, *arguments)

    monkeypatch.setattr(os, function, call)


CANNOT = [("fsync", code) for code in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)]
CANNOT += [("open", code) for code in (errno.EACCES, errno.EISDIR, errno.EINVAL, errno.EOPNOTSUPP)]


@pytest.mark.parametrize(("function", "code"), CANNOT)
def test_a_directory_that_cannot_be_synced_is_noted_once(
    function: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refuse(monkeypatch, function, code)
    unsynced_devices.clear()
    PLAIN.put_all(tmp_path, [("one/two/file", b"content")])
    PLAIN.build(tmp_path / "cube", [("file", b"content")])
    assert (tmp_path / "one/two/file").read_bytes() == b"content"
    assert (tmp_path / "cube/file").read_bytes() == b"content"
    (record,) = caplog.records
    assert f"cannot sync a directory ({os.strerror(code)})" in record.getMessage()


def test_a_note_before_the_log_is_left_to_a_later_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(monkeypatch, "fsync", errno.EINVAL)
    unsynced_devices.clear()
    sync_directory(tmp_path, has_note=False)
    assert not caplog.records
    sync_directory(tmp_path)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE, errno.EROFS])
def test_other_errors_of_a_directory_are_errors(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "fsync", code)
    with pytest.raises(OSError, match=re.escape(os.strerror(code))):
        sync_directory(tmp_path)


def test_a_directory_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_directory(tmp_path / "gone")


def test_a_directory_without_permission_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "open", errno.EACCES)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError):
        sync_directory(tmp_path)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO])
def test_content_of_a_file_that_cannot_be_synced_is_an_error(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(code, os.strerror(code))))
    with pytest.raises(OSError, match=re.escape(os.strerror(code))):
        PLAIN.put(tmp_path / "file", b"content")


@pytest.fixture
def fenced(tmp_path: Path) -> Files:
    folder = tmp_path / "tiny.run" / "generation.1" / "writing"
    folder.mkdir(parents=True)
    return Files(folder, 1)


def close(tmp_path: Path) -> None:
    """What the next holder of the lease does first."""
    writing = tmp_path / "tiny.run/generation.1/writing"
    writing.rename(writing.with_name("closed"))


def test_a_holder_writes_until_the_next_one_comes(tmp_path: Path, fenced: Files) -> None:
    with pytest.raises(FileNotFoundError):  # a disk that is gone is no lost lease
        fenced.put(tmp_path / "gone" / "one", b"1")
    fenced.put(tmp_path / "one", b"1")
    fenced.put_all(tmp_path, [("deep/two", b"2")])
    fenced.build(tmp_path / "cube", [("a/three", b"3"), ("four", b"4")])
    fenced.remove(tmp_path / "deep")
    fenced.remove(tmp_path / "nothing")
    fenced.check()
    assert (tmp_path / "cube" / "a" / "three").read_bytes() == b"3"
    assert not (tmp_path / "deep").exists()
    close(tmp_path)
    for write in (
        lambda: fenced.put_all(tmp_path, [("one", b"late")]),
        lambda: fenced.build(tmp_path / "other", [("a", b"late")]),
        lambda: fenced.remove(tmp_path / "one"),
        lambda: fenced.remove(tmp_path / "nothing"),
        fenced.check,
    ):
        with pytest.raises(LeaseLost, match=r"tiny\.run: another process has taken the lease"):
            write()
    assert (tmp_path / "one").read_bytes() == b"1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cube", "one", "tiny.run"]
    remove(tmp_path / "tiny.run")
    with pytest.raises(FileNotFoundError):
        fenced.put(tmp_path / "one", b"1")


@pytest.mark.parametrize("late", ["os.open", "os.fsync", "os.replace"])
def test_a_holder_that_slept_in_a_write_changes_nothing(
    late: str, tmp_path: Path, fenced: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspended before any call of a write, and woken when another has the lease."""
    name = late.removeprefix("os.")
    real, closed = getattr(os, name), []

    def slow(*arguments: object, **named: object) -> object:
        if not closed:
            closed.append(True)
            close(tmp_path)
            (tmp_path / "one").write_bytes(b"of the next holder")
        return real(*arguments, **named)

    (tmp_path / "one").write_bytes(b"old")
    monkeypatch.setattr(os, name, slow)
    with pytest.raises(LeaseLost):
        fenced.put(tmp_path / "one", b"late")
    assert (tmp_path / "one").read_bytes() == b"of the next holder"


def test_remove_takes_no_more_than_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    remove(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    remove(tmp_path / "folder")
    remove(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def refused(code: int, *names: str) -> StorageError:
    with pytest.raises(StorageError) as caught, storage_errors(Path("cube"), 1000):
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
        assert type(again) is type(each)
        assert str(again) == str(each)
        assert vars(again) == vars(each)
