"""A full, read-only or lost disk stops a run with its need named, blames no cell, and lets it go on."""

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from processes.crash import FullDisk, seen_by
from processes.sweeping import assert_same_bits, run, tiny, write_spec

import sweep_clustering.pipeline.work.tasks
from sweep_clustering.pipeline.work.records import Science, Solved, Span
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.schema import FAILED
from sweep_clustering.storage.runfolder import lease
from sweep_clustering.storage.runfolder.folder import RunFolder, read_failures
from sweep_clustering.sweeps.inputs import Source

SPEC = tiny(3, datasets=["iris"], m=["0.5N"], replicates=1, models=["unsupervised", "posterior"], restarts=2)

Log = pytest.LogCaptureFixture


def goes_on(spec: Path, results: Path, reference: Path) -> None:
    """Check that nothing was marked failed, and that the same command finishes."""
    cube = results / "tiny.zarr"
    if cube.exists():
        statuses = [node["status"].values for node in open_cube(cube).subtree if "status" in node]
        assert not any((values == FAILED).any() for values in statuses)
    assert read_failures(RunFolder(cube)) == []
    # A lease that could not be given back is that of a dead process for whoever comes next.
    with patch.object(lease, "is_alive", lambda process: False):
        assert run(spec, results) == 0
    assert_same_bits(reference, cube)


def count_changes(folder: Path) -> int:
    """Return the number of changes to files that a whole run makes."""
    spec = write_spec(folder, SPEC)
    with seen_by(counter := FullDisk(folder / "counted", 0)):
        assert run(spec, folder / "counted") == 0
    return len(counter.seen)


def full_from(number: int, folder: Path, reference: Path, caplog: Log) -> None:
    """Run with a disk that is full from some change on, then with room."""
    results = folder / str(number)
    spec = write_spec(folder, SPEC)
    caplog.clear()
    with seen_by(injector := FullDisk(results, number)):
        code = run(spec, results)
    is_named = "free space (the disk is full: No space left on device)" in caplog.text
    assert (code, is_named) == (1, True) if injector.crashed else (code == 0), injector.seen[number - 1]
    assert str(results) in caplog.text
    goes_on(spec, results, reference)


def test_a_disk_that_is_full_from_some_change_on(tmp_path: Path, reference: Path, caplog: Log) -> None:
    changes = count_changes(tmp_path)
    for number in np.linspace(1, changes - 3, 4).astype(int).tolist():
        full_from(number, tmp_path, reference, caplog)


@pytest.mark.heavy
def test_a_disk_that_is_full_from_any_change_on(tmp_path: Path, reference: Path, caplog: Log) -> None:
    changes = count_changes(tmp_path)
    for number in range(1, changes + 1):
        full_from(number, tmp_path, reference, caplog)


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """Mount a file system of so many kilobytes at `folder`."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", folder], check=False
    ).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def remount(folder: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", folder], check=True)


@pytest.mark.parametrize("kilobytes", [40, 160, 280])
def test_a_small_disk(tmp_path: Path, reference: Path, kilobytes: int, caplog: Log) -> None:
    """The disk is full in the middle of a file: of the cube at first, then of blocks and the journal."""
    disk, spec = tmp_path / "disk", write_spec(tmp_path, SPEC)
    with small_disk(disk, kilobytes):
        assert run(spec, disk) == 1
        assert "free space (the disk is full: No space left on device)" in caplog.text
        remount(disk, "size=16m")
        goes_on(spec, disk, reference)


@contextmanager
def directories_refuse(code: int, first: int = 1) -> Iterator[None]:
    """Let the system refuse to sync directories from some call on."""
    fsync, calls = os.fsync, count(1)

    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) and next(calls) >= first:
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    with patch.object(os, "fsync", refuse):
        yield


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_folder_that_cannot_be_synced(code: int, tmp_path: Path, reference: Path, caplog: Log) -> None:
    with directories_refuse(code):
        assert run(write_spec(tmp_path, SPEC), tmp_path) == 0
    assert_same_bits(reference, tmp_path / "tiny.zarr")
    note = f"cannot sync a directory ({os.strerror(code)})"
    assert caplog.text.count(note) == 1
    assert RunFolder(tmp_path / "tiny.zarr").log.read_text().count(note) == 1


@pytest.mark.parametrize("first", [1, 12])
def test_a_folder_whose_disk_fails(first: int, tmp_path: Path, reference: Path, caplog: Log) -> None:
    spec = write_spec(tmp_path, SPEC)
    with directories_refuse(errno.EIO, first):
        assert run(spec, tmp_path) == 1
    assert "a disk that works: the system reports an input/output error" in caplog.text
    goes_on(spec, tmp_path, reference)


def test_a_disk_that_is_read_only(tmp_path: Path, reference: Path, caplog: Log) -> None:
    disk, spec = tmp_path / "disk", write_spec(tmp_path, SPEC)
    needs = "needs a file system that is not read-only"
    with small_disk(disk, 4000):
        with seen_by(injector := FullDisk(disk, 60, errno.EROFS)):
            assert run(spec, disk) == 1
        assert injector.crashed
        assert needs in caplog.text
        remount(disk, "ro")
        caplog.clear()
        assert run(spec, disk) == 1
        assert needs in caplog.text
        assert f"{disk}/tiny.run" in caplog.text
        remount(disk, "rw")
        goes_on(spec, disk, reference)


@pytest.mark.parametrize("number", [1, 6])
def test_a_path_that_vanishes(
    tmp_path: Path, reference: Path, number: int, caplog: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, spec = tmp_path / "results", write_spec(tmp_path, SPEC)
    with monkeypatch.context() as patched:
        at_work(patched, number, lambda: results.rename(tmp_path / "elsewhere"))
        assert run(spec, results) == 1
    assert str(results / "tiny") in caplog.text
    assert not results.exists(), "nothing is made anew where a disk has gone"
    (tmp_path / "elsewhere").rename(results)
    goes_on(spec, results, reference)


def at_work(patched: pytest.MonkeyPatch, number: int, happens: object) -> None:
    """Let something happen while the work of this number is under way."""
    solve, begun = sweep_clustering.pipeline.work.tasks.run_cell, []

    def interrupt(science: Science, work: Span, source: Source) -> Solved:
        begun.append(work)
        if len(begun) == number:
            happens()  # type: ignore[operator]
        return solve(science, work, source)

    patched.setattr(sweep_clustering.pipeline.work.tasks, "run_cell", interrupt)
