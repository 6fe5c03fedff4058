"""The lease: one holder, whoever dies, however many want it."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from processes.crash import crash_everywhere
from processes.leases import DEAD, ELSEWHERE, leave_lease, other, run_of

from storage.errors import StorageError
from storage.runfolder import holder as holder_module
from storage.runfolder import lease as module
from storage.runfolder.folder import RunFolder
from storage.runfolder.generation import inherit
from storage.runfolder.head import StopRequest
from storage.runfolder.lease import KEPT, Cancelled, Lease, LeaseHeld, LeaseLost, read_lease
from storage.runfolder.process import this_process

HOLD = """
import sys, time
from pathlib import Path
from storage.runfolder.lease import Lease
lease = Lease.acquire(Path(sys.argv[1]))
print(lease.number, flush=True)
time.sleep(600)
"""


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return tmp_path / "results" / "tiny.zarr"


def hold_in_process(cube: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(cube)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "1\n"
    return process


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_one_holds_it_and_the_other_names_the_holder(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    with Lease.acquire(cube) as lease:
        with pytest.raises(LeaseHeld) as caught:
            Lease.acquire(cube)
        assert caught.value.holder == lease.holder
        assert caught.value.silent is None
        me = this_process()
        for said in (str(cube), f"process {me.pid} on {me.host}", "job 77", lease.holder.since):
            assert said in str(caught.value)
        lease.check()
    assert run_of(cube).stat().st_mode & 0o777 == 0o700


def test_given_back_it_is_free_at_once(cube: Path) -> None:
    for number in range(1, KEPT + 4):
        with Lease.acquire(cube) as lease:
            assert lease.number == number
            assert len([path for path in run_of(cube).iterdir() if path.is_file()]) <= KEPT + 2
    state = read_lease(cube)
    assert state is not None
    assert state.holder is not None
    assert state.holder.released
    assert state.free


def test_nobody_ever_wrote(cube: Path) -> None:
    assert read_lease(cube) is None
    run_of(cube).mkdir(parents=True)
    assert read_lease(cube) is None


def test_a_killed_holder_is_taken_over_even_as_a_zombie(cube: Path) -> None:
    process = hold_in_process(cube)
    with pytest.raises(LeaseHeld, match=f"process {process.pid} on"):
        Lease.acquire(cube)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(LeaseHeld):
        Lease.acquire(cube)
    os.kill(process.pid, signal.SIGKILL)

    def is_free() -> bool:
        state = read_lease(cube)
        return state is not None and state.free

    wait_until(is_free)
    assert Path(f"/proc/{process.pid}").exists(), "a zombie still has its process id"
    with Lease.acquire(cube) as lease:
        assert lease.number == 2
    process.wait()


def test_a_process_id_used_again_is_not_the_holder(cube: Path) -> None:
    leave_lease(cube, other(**DEAD))
    with Lease.acquire(cube) as lease:
        assert lease.number == 2


@pytest.mark.parametrize(
    "changes", [ELSEWHERE, {"boot_id": "before the crash"}, {"pid_namespace": "a container", **DEAD}]
)
def test_a_holder_out_of_sight_counts_by_its_heartbeat(cube: Path, changes: dict[str, Any]) -> None:
    holder = leave_lease(cube, other(**changes), age=100)
    with pytest.raises(LeaseHeld) as caught:
        Lease.acquire(cube)
    assert caught.value.holder == holder
    assert caught.value.silent == pytest.approx(100, abs=5)
    assert "last heartbeat 100 s ago, free after 120 s without one" in str(caught.value)
    with Lease.acquire(cube, stale_after=90, patience=0.1) as lease:
        assert lease.number == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"token": 1}', b'{"process": {}}'])
def test_a_lease_that_cannot_be_read_counts_by_its_heartbeat(cube: Path, content: bytes) -> None:
    leave_lease(cube, this_process())
    (run_of(cube) / "lease.1").write_bytes(content)
    with pytest.raises(LeaseHeld, match="cannot be read"):
        Lease.acquire(cube)
    os.utime(run_of(cube) / "lease.1", (0, 0))
    with Lease.acquire(cube, patience=0.1) as lease:
        assert lease.number == 2


def test_a_holder_whose_clock_is_hours_behind_keeps_it(cube: Path) -> None:
    """By the clock it is stale; its heartbeats come all the same."""
    leave_lease(cube, other(**ELSEWHERE), age=7200)
    file = run_of(cube) / "lease.1"
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.1):
            os.utime(file, ns=(0, file.stat().st_mtime_ns + 10**8))

    with ThreadPoolExecutor() as pool:
        beating = pool.submit(beat)
        with pytest.raises(LeaseHeld, match="node7"):
            Lease.acquire(cube, patience=30)
        ended.set()
        beating.result()


def test_a_job_that_is_started_again_takes_the_lease_of_its_former_self(
    cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = other(**ELSEWHERE, job_id="77", job_restarts=0)
    for number in ("77", "78"):
        leave_lease(cube, former, age=1)
        monkeypatch.setenv("SLURM_JOB_ID", number)
        monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
        with pytest.raises(LeaseHeld, match="job 77"):
            Lease.acquire(cube)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    with pytest.raises(LeaseHeld):
        Lease.acquire(cube)  # another job
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    with Lease.acquire(cube) as lease:
        assert lease.number == 2


def test_the_former_holder_can_write_nothing(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[LeaseLost] = []
    former = Lease.acquire(cube, beat_every=0.05, on_lost=told.append)
    former.files.put(cube.parent / "file", b"1")
    monkeypatch.setattr(holder_module, "is_alive", lambda process: False)
    with Lease.acquire(cube) as lease:
        with pytest.raises(LeaseLost):
            former.files.put(cube.parent / "file", b"2")
        wait_until(lambda: bool(told))
        with pytest.raises(LeaseLost):
            former.check()
        former.release()
        lease.files.put(cube.parent / "file", b"3")
    assert (cube.parent / "file").read_bytes() == b"3"
    assert len(told) == 1


def test_a_cancel_reaches_the_holder(cube: Path) -> None:
    told: list[LeaseLost] = []
    with Lease.acquire(cube, beat_every=0.05, on_lost=told.append) as lease:
        StopRequest(host="here", at=1.0).write(RunFolder(cube).stop)
        wait_until(lambda: bool(told))
        assert isinstance(told[0], Cancelled)
        with pytest.raises(Cancelled, match="cancelled"):
            lease.check()
        # What is in hand is still written.
        lease.files.put(cube.parent / "file", b"1")
    state = read_lease(cube)
    assert state is not None
    assert state.holder is not None
    assert state.holder.released


def test_a_partial_file_cleaned_away_is_written_again(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link
    cleaned = []

    def clean_first(source: Path, target: Path) -> None:
        if not cleaned:
            cleaned.append(source)
            os.unlink(source)
        link(source, target)

    monkeypatch.setattr(os, "link", clean_first)
    with Lease.acquire(cube) as lease:
        lease.check()
    assert cleaned


def test_a_request_repeated_by_the_network_is_won(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    with Lease.acquire(cube) as lease:
        assert lease.number == 1


def test_a_file_system_without_links_is_said(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match=r"lease\.1: needs a file system with hard links"):
        Lease.acquire(cube)
    assert list(run_of(cube).iterdir()) == []


def test_the_heart_beats(cube: Path) -> None:
    with Lease.acquire(cube, beat_every=0.01):
        file = run_of(cube) / "lease.1"
        os.utime(file, (0, 0))
        wait_until(lambda: file.stat().st_mtime > 0)
    os.utime(file, (0, 0))
    time.sleep(0.1)
    assert file.stat().st_mtime == 0


def test_a_lease_taken_over_is_noticed_and_left_alone(cube: Path) -> None:
    lease = Lease.acquire(cube, beat_every=0.01)
    leave_lease(cube, other(**ELSEWHERE), number=2)
    wait_until(lambda: lease.lost)
    with pytest.raises(LeaseLost, match=str(cube)):
        lease.check()
    lease.release()
    assert not json.loads((run_of(cube) / "lease.1").read_bytes())["released"]
    with pytest.raises(LeaseHeld, match="node7"):
        Lease.acquire(cube)


def test_check_notices_before_the_heartbeat(cube: Path) -> None:
    with Lease.acquire(cube, beat_every=600) as lease:
        lease.check()
        (run_of(cube) / "lease.1").unlink()
        with pytest.raises(LeaseLost):
            lease.check()
        assert lease.lost


def test_beats_that_fail_for_too_long_lose_the_lease(
    cube: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lease = Lease.acquire(cube, beat_every=600, stale_after=50)
    now = time.monotonic() + 10**6
    monkeypatch.setattr(module, "clock", lambda: now)
    lease.beat()
    run_of(cube).rename(cube.with_suffix(".gone"))
    now += 49
    lease.beat()
    assert not lease.lost
    assert "heartbeat" in caplog.text
    now += 2
    lease.beat()
    assert lease.lost
    lease.release()


def test_acquire_and_release_crashed_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "_keep", lambda lease, beat_every: None)

    def action(cube: Path) -> None:
        Lease.acquire(cube).release()

    def check(cube: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(holder_module, "is_alive", lambda process: False)
            with Lease.acquire(cube) as lease:
                inherit(RunFolder(cube), lease.generation)
                lease.check()
        state = read_lease(cube)
        assert state is not None
        assert state.free
        assert {path.suffix for path in run_of(cube).iterdir()} <= {".1", ".2", ".3"}

    changes = crash_everywhere(tmp_path, lambda n: tmp_path / f"{n}.zarr", action, check)
    kinds = [change.split()[0] for change in changes]
    making = ["os.mkdir", "os.mkdir"]
    assert kinds == [*making, "open", "os.link", *making, "os.remove", "open", "os.rename"]
