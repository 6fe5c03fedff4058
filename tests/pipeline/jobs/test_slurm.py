"""SLURM's commands when they hang, fail for a while, or refuse: small programs stand in for them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.jobs import slurm
from pipeline.jobs.head import HeadJob
from pipeline.jobs.slurm import CommandFailed, LiveJob

Command = Callable[[str, str], Path]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Puts a shell program of some name first on the path; each call adds a line to the file returned."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(slurm, "PAUSE", 0.0)

    def put(name: str, body: str) -> Path:
        calls = tmp_path / f"{name}.calls"
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncalls=$(wc -l < {calls})\n{body}\n')
        program.chmod(0o755)
        return calls

    return put


def count(calls: Path) -> int:
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def test_a_passing_fault_is_tried_again(command: Command) -> None:
    calls = command("scontrol", "[ $calls -ge 3 ] && echo fine || { echo 'Unable to contact' >&2; exit 1; }")
    assert slurm.run(["scontrol"]) == "fine\n"
    assert count(calls) == 3


def test_a_refusal_is_final(command: Command) -> None:
    calls = command("scontrol", "echo 'error: Invalid partition' >&2; exit 1")
    with pytest.raises(CommandFailed, match="scontrol: error: Invalid partition"):
        slurm.run(["scontrol"])
    assert count(calls) == 1


def test_a_head_that_ends_waits_for_no_queue(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a node that is cut off each command would take its time, again and again."""
    calls = command("squeue", "exec sleep 60")
    monkeypatch.setattr(slurm, "HURRY_SECONDS", 0.2)
    monkeypatch.setattr(slurm, "PAUSE", 60.0)
    begins = threading.Timer(0.5, slurm.ending.set)
    started = time.monotonic()
    try:
        begins.start()
        assert slurm.cancel_all("sweep-a-") == 0
        assert slurm.cancel_all("sweep-a-") == 0
    finally:
        begins.join()
        slurm.ending.clear()
    assert time.monotonic() - started < 10
    assert count(calls) == 2


def test_a_command_that_hangs_is_given_up(command: Command) -> None:
    calls = command("scontrol", "exec sleep 60")
    started = time.monotonic()
    with pytest.raises(CommandFailed, match=r"no answer within 0\.2 s"):
        slurm.run(["scontrol"], timeout=0.2, attempts=2)
    assert time.monotonic() - started < 10
    assert count(calls) == 2


def test_no_such_command() -> None:
    with pytest.raises(CommandFailed, match="No such file"):
        slurm.run(["no-such-command-at-all"])


def test_only_own_live_jobs_are_listed(command: Command) -> None:
    rows = ["7|sweep-a-1|RUNNING|n1|None", "8|sweep-b-1|PENDING||Resources", "9|sweep-a-2|COMPLETING|n1|None"]
    command("squeue", f"printf '%s\\n' '{rows[0]}' '{rows[1]}' '{rows[2]}'")
    assert slurm.live_jobs("sweep-a-") == [LiveJob("7", "sweep-a-1", "RUNNING", "n1", "None")]


def test_sbatch_is_not_repeated_when_the_job_is_there(command: Command) -> None:
    sent = command("sbatch", "echo 'Socket timed out on send/recv operation' >&2; exit 1")
    command("squeue", "echo '42|sweep-a-1|PENDING||None'")
    assert slurm.submit("job.sh", "sweep-a-1") == "42"
    assert count(sent) == 1


def test_sbatch_is_repeated_when_no_such_job_is_there(command: Command) -> None:
    sent = command("sbatch", "[ $calls -ge 2 ] && echo 43 || { echo 'Socket timed out' >&2; exit 1; }")
    command("squeue", "echo '42|sweep-a-10|PENDING||None'")
    assert slurm.submit("job.sh", "sweep-a-1") == "43"
    assert count(sent) == 2


def test_sbatch_is_not_repeated_when_nothing_is_known(command: Command) -> None:
    sent = command("sbatch", "echo 'Socket timed out' >&2; exit 1")
    command("squeue", "echo 'permission denied' >&2; exit 1")
    with pytest.raises(CommandFailed, match="squeue: permission denied"):
        slurm.submit("job.sh", "sweep-a-1")
    assert count(sent) == 1


def test_what_cannot_be_cancelled_is_said(command: Command, caplog: pytest.LogCaptureFixture) -> None:
    command("squeue", "echo 'permission denied' >&2; exit 1")
    assert slurm.cancel_all("sweep-a-") == 0
    assert "jobs named sweep-a-... may be left in the queue" in caplog.text


@pytest.mark.parametrize(
    ("answer", "out_of_time"),
    [
        ("JobState=COMPLETING Reason=TimeLimit RunTime=00:01:24 TimeLimit=00:01:00", True),
        ("JobState=COMPLETING Reason=None RunTime=1-00:00:18 TimeLimit=2-00:00:00", False),
        ("JobState=RUNNING RunTime=00:10:00 TimeLimit=UNLIMITED", False),
        ("slurm_load_jobs error: Invalid job id specified", False),
    ],
)
def test_a_walltime_is_told_from_a_cancellation(command: Command, answer: str, out_of_time: bool) -> None:
    command("scontrol", f"echo '{answer}'")
    assert slurm.is_out_of_time("7") is out_of_time


def test_a_queue_that_does_not_answer_does_not_say_walltime(command: Command) -> None:
    command("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert not slurm.is_out_of_time("7")
    assert slurm.restarts("7") == 0
    assert slurm.end_state("7") == ""


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        ("JobState=PENDING Reason=None Restarts=2 RunTime=00:00:10 TimeLimit=01:00:00", True),
        ("JobState=COMPLETING Reason=None Restarts=1 RunTime=00:00:10 TimeLimit=01:00:00", False),
    ],
)
def test_a_job_put_back_is_told_from_a_cancellation(command: Command, answer: str, again: bool) -> None:
    """SLURM counts a restart before it ends the job for it, on a lost node or for a job that comes first."""
    asked = command("scontrol", f"echo '{answer}'")
    head = HeadJob("7", 1)
    assert head.continues(signal.SIGTERM) is again
    assert head.continues(signal.SIGUSR1)
    assert not head.continues(signal.SIGINT)
    assert head.requeue()
    assert ("requeue 7" in asked.read_text()) is not again


def test_all_jobs_but_one_are_cancelled_at_once(command: Command) -> None:
    rows = ("1|sweep-a-head|RUNNING|n1|None", "2|sweep-a-0|RUNNING|n1|None", "3|sweep-a-1|PENDING||None")
    command("squeue", "; ".join(f"echo '{row}'" for row in rows))
    sent = command("scancel", "true")
    assert slurm.cancel_all("sweep-a-", keep="sweep-a-head") == 2
    assert sent.read_text() == "2 3\n"
