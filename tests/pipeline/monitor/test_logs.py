"""Logs are found by whatever a job is called, shown from their end, and followed until the run ends."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from pipeline.jobs.slurm import CommandFailed
from pipeline.monitor import logs
from pipeline.monitor.logs import find_logs, follow, job_logs, last_lines
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Lease
from storage.runfolder.records import Submission
from sweeps.errors import InputError


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Cube that is not there yet, with a run directory."""
    cube = tmp_path / "a.zarr"
    (RunFolder(cube).make() / "jobs").mkdir()
    return cube


@pytest.mark.parametrize("name", ["sweep-a-0b1c-0-12.err", "sweep-a-0b1c-0.e12", "sweep-a-0b1c-0-12.out"])
def test_a_job_s_log_by_number_and_by_name(cube: Path, name: str) -> None:
    jobs = cube.with_name("a.run") / "jobs"
    (jobs / name).write_text("words\n")
    (jobs / "sweep-a-0b1c-1-1.err").write_text("of another\n")
    for job in ("12", "sweep-a-0b1c-0", "sweep-a-0b1c-0-3"):  # number, job, a worker of it
        assert job_logs(RunFolder(cube), job) == [jobs / name]
    assert job_logs(RunFolder(cube), "2") == []
    with pytest.raises(InputError, match="one of the worker jobs 1, 12"):
        find_logs(cube, job="2")


def test_empty_logs_are_left_out_where_there_is_a_fuller_one(cube: Path) -> None:
    jobs = cube.with_name("a.run") / "jobs"
    (jobs / "j-1.out").touch()
    assert find_logs(cube, job="1") == [jobs / "j-1.out"]
    (jobs / "j-1.err").write_text("words\n")
    assert find_logs(cube, job="1") == [jobs / "j-1.err"]


def test_the_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert last_lines(path, 3) == []
    path.write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert last_lines(path, 2) == ["line 99998", "line 99999"]
    assert last_lines(path, 0) == []
    assert len(last_lines(path, 2000)) == 2000


def test_a_log_is_followed_from_its_end_to_the_end_of_the_run(
    cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "POLL_SECONDS", 0.01)
    log = cube.with_name("a.run") / "log"
    lease = Lease.acquire(cube)

    def write() -> None:
        for text in ("one\n", "two\n"):
            time.sleep(0.1)
            with log.open("a") as file:
                file.write(text)
        lease.release()

    writer = threading.Thread(target=write)
    writer.start()
    assert "".join(follow(log, cube, lines=5)) == "one\ntwo\n"  # though it was not there at first
    writer.join()
    assert "".join(follow(log, cube, lines=1)) == "two\n"


def test_what_a_log_holds_does_nothing_to_a_terminal_and_lines_stay_whole(
    cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "POLL_SECONDS", 0.01)
    log = cube.with_name("a.run") / "log"
    lease = Lease.acquire(cube)

    def write() -> None:
        for part in (b"a\x1b[2J \xc3", b"\xa9\n", b"the end"):
            time.sleep(0.05)
            with log.open("ab") as file:
                file.write(part)
        lease.release()

    writer = threading.Thread(target=write)
    writer.start()
    text = list(follow(log, cube, lines=5))
    writer.join()
    assert "".join(text) == "a\\x1b[2J é\nthe end\n"
    assert all(part.endswith("\n") for part in text)


def test_following_ends_when_the_head_has_left_the_queue_without_a_word(
    cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = CommandFailed(["squeue"], "no answer", transient=True)
    answers = ["pending", None, "pending", None, silence, None, None]

    def queue(run: RunFolder) -> object:
        answer = answers.pop(0)
        if answer is silence:
            raise silence
        return answer

    monkeypatch.setattr(logs, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(logs, "QUEUE_SECONDS", 0.0)
    monkeypatch.setattr(logs, "other_head", queue)
    run = RunFolder(cube)
    Submission(system="slurm", job="12", host="here", at=1.0).write(run.submission)
    text = "".join(follow(run.log, cube, lines=5))
    assert text.startswith("the head, job 12, has left the queue without running")
    assert str(run.head_log) in text
    assert answers == []
