"""Where machine code is kept: in a directory of ours alone, named after what it depends on."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from kernels.cachedir import cache_directory, fingerprint, on_remote_filesystem


def refused(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, root: Path) -> str:
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(root))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert cache_directory() is None
    return caplog.text


def test_only_a_directory_of_ours_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "root"
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(root))
    leaf = cache_directory()
    assert leaf == root / f"kernels-{fingerprint()}"
    leaf.chmod(0o750)
    assert "open to others" in refused(monkeypatch, caplog, root)
    leaf.chmod(0o700)
    root.chmod(0o777)
    assert "writable by others" in refused(monkeypatch, caplog, root)
    root.chmod(0o1777)
    assert cache_directory() == leaf
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: os.geteuid() + 1)
        assert "belongs to user" in refused(other, caplog, root)
    leaf.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    leaf.symlink_to(tmp_path / "elsewhere")
    assert "not a directory" in refused(monkeypatch, caplog, root)


def test_users_cache_unless_it_is_remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWEEP_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert cache_directory() == tmp_path / "cache" / "sweep" / f"kernels-{fingerprint()}"
    monkeypatch.setattr("kernels.cachedir.on_remote_filesystem", lambda path: True)
    monkeypatch.setattr("tempfile.tempdir", None)
    found = cache_directory()
    assert found is not None
    assert found.parent == tmp_path / f"sweep-cache-{os.getuid()}"


def test_remote_filesystems_are_known(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    near, far = tmp_path / "near", tmp_path / "far away"
    mounts.write_text(
        f"/dev/sda / ext4 rw 0 0\nserver:/far {str(far).replace(' ', chr(92) + '040')} nfs4 rw 0 0\n"
        f"/dev/sdb {far}/scratch xfs rw 0 0\n".replace("far away/", "far\\040away/")
    )
    assert not on_remote_filesystem(near, mounts)
    assert on_remote_filesystem(far / "home", mounts)
    assert not on_remote_filesystem(far / "scratch" / "x", mounts)
    assert not on_remote_filesystem(far, tmp_path / "no such table")
