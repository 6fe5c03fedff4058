"""Who holds a cube, and when it may be taken over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from storage.runfolder.folder import RunFolder
from storage.runfolder.holder import STALE_AFTER, Holder, LeaseState, last_lease, read_lease
from storage.runfolder.process import ProcessIdentity, this_process


def holder(process: ProcessIdentity | None = None, **changes: object) -> Holder:
    values = {"token": "t", "since": "2026-01-02T03:04:05+00:00", "released": False}
    return Holder(**(values | {"process": process or this_process()} | changes))  # type: ignore[arg-type]


def leave(run: RunFolder, number: int, content: bytes, beat: float) -> None:
    file = run.lease(number)
    file.write_bytes(content)
    os.utime(file, (beat, beat))


@pytest.mark.parametrize(
    ("alive", "released", "age", "left"),
    [
        (True, False, 1e9, None),
        (False, False, 0.0, 0.0),
        (None, False, 30.0, STALE_AFTER - 30.0),
        (None, False, STALE_AFTER, 0.0),
        (None, False, 1e9, 0.0),
        (None, False, -5.0, STALE_AFTER + 5.0),  # the clock of the file system is behind
        (True, True, 0.0, 0.0),
        (None, True, 0.0, 0.0),
    ],
)
def test_seconds_until_a_lease_may_be_taken_over(
    alive: bool | None, released: bool, age: float, left: float | None
) -> None:
    assert LeaseState(1, holder(released=released), age, alive).seconds_left() == left


def test_an_unreadable_lease_counts_by_its_age_alone() -> None:
    assert LeaseState(1, None, 20.0, None).seconds_left(50.0) == 30.0


def test_the_highest_number_counts(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "tiny.zarr")
    assert read_lease(tmp_path / "tiny.zarr") is None
    run.make()
    assert last_lease(run, 100.0) is None
    leave(run, 2, holder(token="old").to_json(), 10.0)
    leave(run, 10, holder(token="new").to_json(), 90.0)
    found = last_lease(run, 100.0)
    assert found is not None
    assert (found.number, found.age, found.alive) == (10, 10.0, True)
    assert found.holder == holder(token="new")


def test_a_holder_that_ended_is_not_alive(tmp_path: Path) -> None:
    code = "from storage.runfolder.process import this_process; print(this_process().model_dump_json())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    run = RunFolder(tmp_path / "tiny.zarr")
    run.make()
    gone = holder(ProcessIdentity.model_validate_json(done.stdout))
    leave(run, 1, gone.to_json(), 0.0)
    found = last_lease(run, 1.0)
    assert found is not None
    assert (found.holder, found.alive, found.seconds_left()) == (gone, False, 0.0)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"token": "t"}', b"\xff"])
def test_a_lease_that_makes_no_sense_still_counts(tmp_path: Path, content: bytes) -> None:
    run = RunFolder(tmp_path / "tiny.zarr")
    run.make()
    leave(run, 3, content, 60.0)
    assert last_lease(run, 100.0) == LeaseState(3, None, 40.0, None)


def test_people_read_process_host_and_job() -> None:
    me = this_process()
    assert str(holder()).startswith(f"process {me.pid} on {me.host}")
    queued = me.model_copy(update={"job_id": "77"})
    assert str(holder(queued)) == f"process {me.pid} on {me.host}, job 77, since 2026-01-02T03:04:05+00:00"
