"""Who holds a cube, and when it may be taken over."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage.files import remove
from storage.runfolder.folder import GenerationFolder, RunFolder
from storage.runfolder.holder import Holder, LeaseState, Watch, last_lease, read_lease, settled_lease
from storage.runfolder.process import ProcessIdentity, this_process


def holder(process: ProcessIdentity | None = None, **changes: object) -> Holder:
    values = {"token": "t", "since": "2026-01-02T03:04:05+00:00", "released": False}
    return Holder(**(values | {"process": process or this_process()} | changes))  # type: ignore[arg-type]


def leave(run: RunFolder, number: int, content: bytes, beat: float) -> None:
    file = run.lease(number)
    file.write_bytes(content)
    os.utime(file, (beat, beat))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "tiny.zarr")
    run.make()
    return run


@pytest.fixture
def elsewhere() -> ProcessIdentity:
    return this_process().model_copy(update={"host": "node7", "boot_id": "another boot"})


@pytest.mark.parametrize(
    ("alive", "released", "free"),
    [
        (True, False, False),
        (False, False, True),
        (None, False, False),
        (True, True, True),
        (None, True, True),
    ],
)
def test_when_a_lease_is_free(alive: bool | None, released: bool, free: bool) -> None:
    assert LeaseState(1, holder(released=released), 5, alive).free == free


class Beating:
    """Holder elsewhere: heartbeats change the time of its lease, by whatever clock."""

    def __init__(self, run: RunFolder, process: ProcessIdentity, skew: float) -> None:
        self.file = run.lease(1)
        self.file.write_text(holder(process).to_text(1))
        self.at = time.time() + skew
        self.beat()

    def beat(self) -> None:
        self.at += 1.0
        os.utime(self.file, (self.at, self.at))


@pytest.mark.parametrize("skew", [-7200.0, 7200.0], ids=["its clock is behind", "its clock is ahead"])
def test_a_living_holder_is_seen_whatever_its_clock_says(
    run: RunFolder, elsewhere: ProcessIdentity, skew: float
) -> None:
    beating = Beating(run, elsewhere, skew)
    with ThreadPoolExecutor() as pool:
        beat = pool.submit(lambda: (time.sleep(0.3), beating.beat()))
        state = settled_lease(run, time.time(), patience=30.0)
        beat.result()
    assert state is not None
    assert (state.alive, state.free) == (True, False)


@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_a_silent_holder_is_gone_whatever_its_clock_says(
    run: RunFolder, elsewhere: ProcessIdentity, skew: float
) -> None:
    Beating(run, elsewhere, skew)
    state = settled_lease(run, time.time(), patience=0.1)
    assert state is not None
    assert (state.alive, state.free) == (False, True)


def test_a_recent_heartbeat_is_believed_at_once(run: RunFolder, elsewhere: ProcessIdentity) -> None:
    Beating(run, elsewhere, -5.0)
    state = settled_lease(run, time.time(), patience=600.0)
    assert state is not None
    assert (state.alive, state.free) == (None, False)


def test_what_happens_while_a_heartbeat_is_waited_for(run: RunFolder, elsewhere: ProcessIdentity) -> None:
    Beating(run, elsewhere, -7200.0)
    first = last_lease(run)
    assert first is not None
    watch = Watch(run, first)
    assert watch.look() == first
    run.lease(1).write_text(holder(elsewhere, released=True).to_text(1))
    found = watch.settle(600.0)
    assert found is not None
    assert found.free
    run.lease(2).write_text(holder().to_text(2))
    assert watch.settle(600.0) == last_lease(run)
    remove(run.path)
    assert watch.settle(600.0) is None


def test_a_lease_that_somebody_removed_is_free(run: RunFolder) -> None:
    GenerationFolder(run, 4).path.mkdir()
    assert last_lease(run) == LeaseState(4, None, 0, alive=False)


def test_the_highest_number_counts(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "tiny.zarr")
    assert read_lease(tmp_path / "tiny.zarr") is None
    run.make()
    assert last_lease(run) is None
    leave(run, 2, holder(token="old").to_text(2).encode(), 10.0)
    leave(run, 10, holder(token="new").to_text(10).encode(), 90.0)
    found = last_lease(run)
    assert found is not None
    assert (found.number, found.age(100.0), found.alive) == (10, 10.0, True)
    assert found.holder == holder(token="new")


def test_a_holder_that_ended_is_not_alive(run: RunFolder) -> None:
    code = "from storage.runfolder.process import this_process; print(this_process().model_dump_json())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    gone = holder(ProcessIdentity.model_validate_json(done.stdout))
    leave(run, 1, gone.to_text(1).encode(), 0.0)
    found = last_lease(run)
    assert found is not None
    assert (found.holder, found.alive, found.free) == (gone, False, True)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"token": "t"}', b"\xff", b"[" * 100_000])
def test_a_lease_that_makes_no_sense_still_counts(run: RunFolder, content: bytes) -> None:
    leave(run, 3, content, 60.0)
    assert last_lease(run) == LeaseState(3, None, 60 * 10**9, None)


def test_people_read_process_host_and_job() -> None:
    me = this_process()
    assert str(holder()).startswith(f"process {me.pid} on {me.host}")
    queued = me.model_copy(update={"job_id": "77"})
    assert str(holder(queued)) == f"process {me.pid} on {me.host}, job 77, since 2026-01-02T03:04:05+00:00"
