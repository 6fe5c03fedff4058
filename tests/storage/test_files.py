"""Durable files."""

import errno
import os
from pathlib import Path

import pytest
from processes.crash import crash_everywhere

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
