"""The lease has one holder when holders die and many want it, and living processes are known."""

import errno
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from processes.crash import crash_everywhere
from processes.leases import DEAD, ELSEWHERE, leave_lease, other_process, run_of
from processes.sweeping import wait_until

from sweep_clustering.storage.files import LeaseLost, StorageError, remove
from sweep_clustering.storage.runfolder import folder as records
from sweep_clustering.storage.runfolder import lease as module
from sweep_clustering.storage.runfolder.folder import GenerationFolder, RunFolder
from sweep_clustering.storage.runfolder.journal import Journal, replay

# Generations of the lease: who came later closes those before, and loses nothing of them.

WORK = records.FailedWork(start=0, stop=1)
FAILURE = records.FailureRecord(work=WORK, cause="X", node="n", job="", traceback="", cell="c")


def begin(run: RunFolder, number: int) -> GenerationFolder:
    generation = GenerationFolder(run, number)
    generation.open()
    module.close_older(run, number)
    return generation


def work(generation: GenerationFolder, *numbers: int) -> None:
    """Write the files that a run leaves in its folder."""
    with Journal(generation.journal, generation.files) as journal:
        for number in numbers:
            journal.append({"number": number}, {"x": np.arange(number)})
    timed = tuple(records.TimedRestart("iris", "likelihood", 0.9, 8, float(number)) for number in numbers)
    records.Pilot(timed=timed).write(generation.pilot, generation.files)
    records.append_failure(generation.failures, FAILURE, generation.files)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "tiny.zarr")
    run.make()
    return run


def test_a_later_holder_closes_all_before_it(run: RunFolder) -> None:
    first, second, third = begin(run, 1), begin(run, 2), begin(run, 4)
    module.close_older(run, 2)  # a holder that woke late closes only those before itself
    for generation in (first, second):
        with pytest.raises(LeaseLost):
            generation.files.check()
    third.files.check()


def test_taking_over_crashed_anywhere(tmp_path: Path) -> None:
    def fresh_run(number: int) -> RunFolder:
        run = RunFolder(tmp_path / f"{number}.zarr")
        run.make()
        work(begin(run, 1), 1, 2)
        work(begin(run, 2), 3)
        return run

    def take_over(run: RunFolder) -> GenerationFolder:
        generation = begin(run, 1 + max(folder.number for folder in run.generations()))
        module.inherit(run, generation)
        return generation

    def check(run: RunFolder) -> None:
        generation = take_over(run)
        assert sorted(header["number"] for header, _ in replay(generation.journal)) == [1, 2, 3]
        assert [row.seconds for row in records.read_pilot(run).timed] == [3.0]
        # the second record was written by another holder: it is another failure
        assert records.read_failures(run) == [FAILURE, FAILURE]
        assert [folder.number for folder in run.generations()] == [generation.number]
        files = {path.name for path in generation.path.iterdir()}
        assert files == {"failures.jsonl", "journal", "pilot.json", "writing"}

    assert len(crash_everywhere(tmp_path, fresh_run, take_over, check)) > 10


# Who holds a cube, and when it may be taken over.


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", 0.01)


@pytest.mark.parametrize("age", [-7200.0, 7200.0], ids=["its clock is ahead", "its clock is behind"])
def test_heartbeats_count_and_no_clock(run: RunFolder, age: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def state_of() -> tuple[bool | None, bool]:
        state = module.read_lease(run.cube)
        return (None, False) if state is None else (state.is_alive, state.is_free)

    leave_lease(run.cube, other_process(**ELSEWHERE), age=age)
    file = run.lease(1)
    beat = threading.Timer(0.1, lambda: os.utime(file, ns=(0, file.stat().st_mtime_ns + 10**9)))
    beat.start()
    assert state_of() == (True, False)
    beat.join()
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    assert state_of() == (False, True)
    os.utime(file, (time.time() - 5, time.time() - 5))
    assert state_of() == (None, False), "a recent heartbeat is believed at once"


def test_what_happens_ends_the_wait_for_a_heartbeat(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is given back, the folder goes, or another process takes the lease."""
    held = leave_lease(run.cube, other_process(**ELSEWHERE), age=7200)
    happenings: list[Callable[[], object]] = [
        lambda: run.lease(1).write_text(held.model_copy(update={"released": True}).to_text(1)),
        lambda: remove(run.path),
        lambda: run.lease(2).write_text(held.to_text(2)),
    ]
    for happens in happenings:
        leave_lease(run.cube, other_process(**ELSEWHERE), age=7200)
        monkeypatch.setattr(module.time, "sleep", lambda seconds, happens=happens: happens())
        lease, now = module.read_lease(run.cube), module.last_lease(run)
        assert (lease and (lease.number, lease.holder)) == (now and (now.number, now.holder))


def test_the_highest_number_counts_and_one_that_somebody_removed_is_free(cube: Path) -> None:
    assert module.read_lease(cube) is None
    RunFolder(cube).make()
    assert module.read_lease(cube) is None
    leave_lease(cube, other_process(**DEAD), number=2)
    holder = leave_lease(cube, module.this_process(), number=10, age=10)
    lease = module.read_lease(cube)
    assert lease
    assert lease.number == 10
    assert lease.holder == holder
    assert lease.is_alive
    assert lease.age(time.time()) == pytest.approx(10, abs=5)
    GenerationFolder(RunFolder(cube), 11).path.mkdir()
    assert module.read_lease(cube) == module.LeaseState(11, None, 0, is_alive=False)


HOLD = """
import sys, time
from pathlib import Path
from sweep_clustering.storage.runfolder.lease import Lease
lease = Lease.acquire(Path(sys.argv[1]))
print(lease.number, flush=True)
time.sleep(600)
"""


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return tmp_path / "results" / "tiny.zarr"


def is_released(cube: Path) -> bool:
    state = module.read_lease(cube)
    return state is not None and state.is_free and state.holder is not None and state.holder.released


def test_one_holds_it_and_given_back_it_is_free(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    for number in range(1, module.OLD_LEASES + 4):
        with module.Lease.acquire(cube) as lease:
            assert lease.number == number
            assert len([path for path in run_of(cube).iterdir() if path.is_file()]) <= module.OLD_LEASES + 2
            message = f"{cube} .* job 77, since {re.escape(lease.holder.since)}"
            with pytest.raises(module.LeaseHeld, match=message) as caught:
                module.Lease.acquire(cube)
            assert caught.value.holder == lease.holder
            assert caught.value.silent is None
    assert is_released(cube)


def test_a_killed_holder_is_taken_over_even_as_a_zombie(cube: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(cube)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "1\n"
    for number in (signal.SIGCONT, signal.SIGSTOP):
        os.kill(process.pid, number)
        with pytest.raises(module.LeaseHeld, match=f"process {process.pid} on"):
            module.Lease.acquire(cube)
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: getattr(module.read_lease(cube), "is_free", False))
    assert Path(f"/proc/{process.pid}").exists(), "a zombie still has its process id"
    with module.Lease.acquire(cube) as lease:
        assert lease.number == 2
    process.wait()


OUT_OF_SIGHT = [ELSEWHERE, {"boot_id": "before the crash"}, {"pid_namespace": "a container", **DEAD}]
UNREADABLE = [b"", b"{", b'{"token": 1}', b"\xff", b"[" * 100_000]


@pytest.mark.parametrize("changes", [*OUT_OF_SIGHT, *({"content": content} for content in UNREADABLE)])
def test_a_holder_out_of_sight(cube: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    holder, file = leave_lease(cube, other_process(**changes)), run_of(cube) / "lease.1"
    if "content" in changes:
        file.write_bytes(changes["content"])
    os.utime(file, (time.time() - 100,) * 2)
    with pytest.raises(
        module.LeaseHeld, match="last heartbeat 100 s ago, free after 120 s without one"
    ) as caught:
        module.Lease.acquire(cube)
    assert caught.value.holder == (None if "content" in changes else holder)
    assert ("cannot be read" in str(caught.value)) == ("content" in changes)
    assert caught.value.silent == pytest.approx(100, abs=5)
    monkeypatch.setattr(module, "STALE_AFTER", 90)
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    with module.Lease.acquire(cube) as lease:
        assert lease.number == 2


def test_a_job_started_again_takes_its_former_lease(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    former = other_process(**ELSEWHERE, job_id="77", job_restarts=0)
    for number in ("77", "78"):
        leave_lease(cube, former, age=1)
        monkeypatch.setenv("SLURM_JOB_ID", number)
        monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
        with pytest.raises(module.LeaseHeld, match="job 77"):
            module.Lease.acquire(cube)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    with pytest.raises(module.LeaseHeld):
        module.Lease.acquire(cube)  # another job
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    with module.Lease.acquire(cube) as lease:
        assert lease.number == 2


def test_the_former_holder_can_write_nothing(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_EVERY", 0.01)
    losses: list[LeaseLost] = []
    former = module.Lease.acquire(cube, on_lost=losses.append)
    former.files.put(cube.parent / "file", b"1")
    monkeypatch.setattr(module, "is_alive", lambda process: False)
    with module.Lease.acquire(cube) as lease:
        with pytest.raises(LeaseLost):
            former.files.put(cube.parent / "file", b"2")
        wait_until(lambda: bool(losses), seconds=20)
        with pytest.raises(LeaseLost):
            former.check()
        former.release()
        lease.files.put(cube.parent / "file", b"3")
    assert (cube.parent / "file").read_bytes() == b"3"
    assert len(losses) == 1


def test_the_heart_beats_and_a_cancel_reaches_the_holder(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_EVERY", 0.01)
    losses: list[LeaseLost] = []
    with module.Lease.acquire(cube, on_lost=losses.append) as lease:
        os.utime(run_of(cube) / "lease.1", (0, 0))
        wait_until(lambda: (run_of(cube) / "lease.1").stat().st_mtime > 0, seconds=20)
        records.StopRequest(host="here", at=1.0).write(RunFolder(cube).stop)
        wait_until(lambda: bool(losses), seconds=20)
        assert isinstance(losses[0], module.Cancelled)
        with pytest.raises(module.Cancelled, match="cancelled"):
            lease.check()
        # What is in hand is still written.
        lease.files.put(cube.parent / "file", b"1")
    assert is_released(cube)
    assert not lease.thread.is_alive()


@pytest.mark.parametrize("before", [os.unlink, None], ids=["its file is cleaned away", "a repeated request"])
def test_a_link_that_fails_once_is_made_again_or_found(
    cube: Path, monkeypatch: pytest.MonkeyPatch, before: Callable[[Path], None] | None
) -> None:
    link, calls = os.link, list[Path]()

    def fail_to_rename(source: Path, target: Path) -> None:
        calls.append(source)
        if before is None:
            link(source, target)  # the network sends it twice
        elif len(calls) == 1:
            before(source)
        link(source, target)

    monkeypatch.setattr(os, "link", fail_to_rename)
    with module.Lease.acquire(cube) as lease:
        lease.check()
        assert lease.number == 1
        assert len(calls) == (1 if before is None else 2)


def test_a_file_system_without_links_is_said(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = Mock(side_effect=OSError(errno.EPERM, os.strerror(errno.EPERM)))
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match=r"lease\.1: needs a file system with hard links"):
        module.Lease.acquire(cube)
    assert list(run_of(cube).iterdir()) == []


def test_a_lease_taken_over_or_removed_is_noticed_before_the_heartbeat(cube: Path) -> None:
    with module.Lease.acquire(cube) as lease:
        lease.check()
        (run_of(cube) / "lease.1").unlink()
        for _ in range(2):
            with pytest.raises(LeaseLost, match=str(cube)):
                lease.check()
    lease = module.Lease.acquire(cube)
    leave_lease(cube, other_process(**ELSEWHERE), number=lease.number + 1)
    with pytest.raises(LeaseLost):
        lease.check()
    lease.release()
    assert not json.loads((run_of(cube) / f"lease.{lease.number}").read_bytes())["released"]


def test_failing_beats(cube: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "STALE_AFTER", 50)
    lease = module.Lease.acquire(cube)
    now = time.monotonic() + 10**6
    monkeypatch.setattr(module, "clock", lambda: now)
    lease.beat()
    run_of(cube).rename(cube.with_suffix(".gone"))
    now += 49
    lease.check()
    assert "heartbeat" in caplog.text
    now += 2
    with pytest.raises(LeaseLost, match="no heartbeat was possible for 50 s"):
        lease.check()
    lease.release()


def test_acquire_and_release_crashed_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.Lease, "keep_beating", lambda lease: None)

    def check(cube: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(module, "is_alive", lambda process: False)
            with module.Lease.acquire(cube) as lease:
                module.inherit(RunFolder(cube), lease.generation)
                lease.check()
        assert is_released(cube)
        assert {path.suffix for path in run_of(cube).iterdir()} <= {".1", ".2", ".3"}

    changes = crash_everywhere(
        tmp_path, lambda n: tmp_path / f"{n}.zarr", lambda cube: module.Lease.acquire(cube).release(), check
    )
    making = ["os.mkdir", "os.mkdir"]
    expected = [*making, "open", "os.link", *making, "os.remove", "open", "os.rename"]
    assert [change.split()[0] for change in changes] == expected


# Several processes want one lease, and each may sleep or die between any two steps.


def race(cube: str, rounds: int, barrier: Any, results: Any) -> None:
    for number in range(rounds):
        barrier.wait()
        with suppress(module.LeaseHeld):
            module.Lease.acquire(Path(f"{cube}.{number}.zarr"))
            results.put(number)


def test_of_many_takers_of_a_dead_lease_one_wins(tmp_path: Path) -> None:
    rounds, takers = 15, 4
    for number in range(rounds):
        leave_lease(tmp_path / f"cube.{number}.zarr", other_process(**DEAD))
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(takers), context.Queue()
    arguments = (str(tmp_path / "cube"), rounds, barrier, results)
    processes = [context.Process(target=race, args=arguments) for _ in range(takers)]
    for process in processes:
        process.start()
    # all of them stay alive until every round is over, for a dead winner would be taken over
    won = sorted(results.get(timeout=60) for _ in range(rounds))
    for process in processes:
        process.join()
    assert won == list(range(rounds))
    assert results.empty()


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("look", ["lease_numbers", "generations"])
def test_a_lease_taken_during_a_look(cube: Path, monkeypatch: pytest.MonkeyPatch, look: str, at: int) -> None:
    leave_lease(cube, other_process(**DEAD))
    real_look, looks, leases = getattr(RunFolder, look), [], []

    def slow_look(run: RunFolder) -> Any:
        listing = real_look(run)
        looks.append(listing)
        if len(looks) == at:
            monkeypatch.setattr(RunFolder, look, real_look)
            leases.append(module.Lease.acquire(cube))
        return listing

    monkeypatch.setattr(RunFolder, look, slow_look)
    with pytest.raises(module.LeaseHeld):
        module.Lease.acquire(cube)
    with leases.pop() as lease:
        lease.check()


@pytest.mark.parametrize("number", [1, 50])
def test_a_taker_who_slept_takes_nothing(cube: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """It saw a dead lease once, which others have taken since or cleaned away."""
    dead = leave_lease(cube, other_process(**DEAD), number=number)
    look, real = [module.LeaseState(min(number, 3), dead, 0, False)] * 2, module.last_lease
    with module.Lease.acquire(cube) as lease:
        monkeypatch.setattr(module, "last_lease", lambda run: look.pop() if look else real(run))
        with pytest.raises(module.LeaseHeld) as caught:
            module.Lease.acquire(cube)
        assert caught.value.holder == lease.holder
        lease.check()
    leases = {f"lease.{number}", f"lease.{number + 1}"}
    assert {path.name for path in run_of(cube).iterdir()} == {f"generation.{number + 1}", *leases}


# Whether a recorded process lives.


@pytest.mark.parametrize("proc", ["/proc", "/nowhere"], ids=["proc", "psutil"])
def test_this_process_lives_and_no_zombie(proc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROC", Path(proc))
    me = module.this_process()
    assert me == module.this_process()
    assert me.process_start
    changes = {"host": "x", "process_start": "0", "pid": 2**22 + 1, "boot_id": "x", "pid_namespace": "x"}
    answers = [module.is_alive(me.model_copy(update={key: value})) for key, value in changes.items()]
    assert answers == [True, False, False, None, None]
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    start = module.process_start(child.pid) or ""
    recorded = me.model_copy(update={"pid": child.pid, "process_start": start})
    assert module.is_alive(recorded) is True
    child.stdin.close()
    wait_until(lambda: not module.is_alive(recorded))
    assert child.returncode is None, "nobody has waited for it"
    child.wait()
    assert module.is_alive(recorded) is False
