"""Small programs stand in for SLURM's commands, which hang, fail for a while, or refuse."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.run.head import HeadJob
from sweep_clustering.storage.runfolder.folder import GenerationFolder, HeadRecord, RunFolder, Submission

Command = Callable[[str, str], Path]

REFUSED = "echo 'permission denied' >&2; exit 1"
BUSY = "echo 'Socket timed out on send/recv operation' >&2; exit 1"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Put a shell program of some name first on the path; each call adds a line to the returned file."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(queues, "PAUSE", 0.0)

    def make_program(name: str, body: str) -> Path:
        calls = tmp_path / f"{name}.calls"
        calls.touch()
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncalls=$(wc -l < {calls})\n{body}\n')
        program.chmod(0o755)
        return calls

    return make_program


def count(calls: Path) -> int:
    return len(calls.read_text().splitlines())


@pytest.mark.parametrize(
    ("body", "says", "calls"),
    [
        ("[ $calls -ge 3 ] && echo fine || { echo 'Unable to contact' >&2; exit 1; }", "", 3),
        ("echo 'error: Invalid partition' >&2; exit 1", "scontrol: error: Invalid partition", 1),
        ("exit 7", "scontrol: exit code 7", 1),
        ("exec sleep 60", r"no answer within 0\.\d s", 2),
        (
            "echo please wait >&2; exec sleep 60",
            r"no answer within 0\.\d s please wait$",
            2,
        ),
    ],
)
def test_what_may_pass_is_tried_again(command: Command, body: str, says: str, calls: int) -> None:
    called, started = command("scontrol", body), time.monotonic()
    if says:
        with pytest.raises(queues.CommandFailed, match=says):
            queues.run(["scontrol"], timeout=0.2, attempts=2)
    else:
        assert queues.run(["scontrol"]) == "fine\n"
    assert count(called) == calls
    assert time.monotonic() - started < 10
    with pytest.raises(queues.CommandFailed, match="No such file"):
        queues.run(["no-such-command-at-all"])


def test_a_head_that_ends_waits_for_no_queue(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a node that is cut off each command would take its time, again and again."""
    calls = command("squeue", "exec sleep 60")
    monkeypatch.setattr(queues, "HURRY_SECONDS", 0.2)
    monkeypatch.setattr(queues, "PAUSE", 60.0)
    monkeypatch.setattr(queues, "ending", threading.Event())
    threading.Timer(0.3, queues.ending.set).start()
    started = time.monotonic()
    assert queues.SLURM.cancel_all("sweep-a-") == queues.SLURM.cancel_all("sweep-a-") == 0
    assert count(calls) == 2
    assert time.monotonic() - started < 10


def test_all_own_live_jobs_but_one_are_cancelled(command: Command, caplog: pytest.LogCaptureFixture) -> None:
    states = (
        "head|RUNNING|n1|0:07|",
        "0|PENDING||0:00|Resources",
        "1|COMPLETING|n1|0:02|",
        "2|RUNNING|n1|0:00|",
    )
    rows = [f"echo '{number}|sweep-a-{state}'" for number, state in enumerate(states, 1)]
    command("squeue", "; ".join((*rows, "echo '5|b|RUNNING|n1|0:01|'")))
    sent = command("scancel", "true")
    jobs = queues.SLURM.live_jobs("sweep-a-")
    assert [job.number for job in jobs] == ["1", "2", "4"]
    assert jobs[1] == queues.LiveJob("2", "sweep-a-0", "PENDING", "", "Resources")
    assert queues.SLURM.cancel_all("sweep-a-", keep="sweep-a-head") == 2
    assert sent.read_text() == "2 4\n"
    command("squeue", REFUSED)
    assert queues.SLURM.cancel_all("sweep-a-") == 0
    assert "jobs named sweep-a-... may be left in the queue" in caplog.text


def test_a_job_that_is_queued_again_is_live_while_its_node_is_cleaned(command: Command) -> None:
    """SLURM 22.05 shows both jobs as completing, and counts the time of the new start alone."""
    rows = ("7|sweep-a-head|COMPLETING|n1|0:00|None", "8|sweep-a-0|COMPLETING|n1|1:10|None")
    rows += ("9|sweep-a-1|RUNNING|n1|0:05|None",)
    command("squeue", "; ".join(f"echo '{row}'" for row in rows))
    job, second = queues.SLURM.live_jobs("sweep-a-")
    assert job == queues.LiveJob("7", "sweep-a-head", "PENDING", "", "its node is being cleaned")
    assert second == queues.LiveJob("9", "sweep-a-1", "RUNNING", "n1", "")  # SLURM's word for no reason


HERE, OTHER = "echo '42|sweep-a-1|PENDING||0:00|None'", "echo '42|sweep-a-10|PENDING||0:00|None'"


@pytest.mark.parametrize(
    ("sbatch", "squeue", "number", "calls"),
    [
        (BUSY, HERE, "42", 1),
        (f"[ $calls -ge 2 ] && echo '43;site' || {{ {BUSY}; }}", OTHER, "43", 2),
        (BUSY, REFUSED, "squeue: permission denied", 1),  # nothing is known
        (BUSY, "true", "sbatch: Socket timed out", 3),
        (REFUSED, HERE, "sbatch: permission denied", 1),
    ],
)
def test_sbatch_is_repeated(command: Command, sbatch: str, squeue: str, number: str, calls: int) -> None:
    sent = command("sbatch", sbatch)
    command("squeue", squeue)
    if number.isdigit():
        assert queues.SLURM.submit("job.sh", "sweep-a-1") == number
    else:
        with pytest.raises(queues.CommandFailed, match=number):
            queues.SLURM.submit("job.sh", "sweep-a-1")
    assert count(sent) == calls


def test_no_command_reads_the_variables_of_a_shell(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {"SBATCH_JOB_NAME", "SLURM_CPU_BIND", "SQUEUE_STATES", "SCANCEL_STATE", "SINFO_FORMAT"}
    visible = {"SLURM_CONF", "SLURM_CLUSTERS", "SLURMD_NODENAME", "SGE_ROOT", "OMP_NUM_THREADS"}
    for name in hidden | visible:
        monkeypatch.setenv(name, "set")
    assert hidden <= set(queues.hidden_variables())
    command("sbatch", "env >&2; exit 1")
    with pytest.raises(queues.CommandFailed) as failure:
        queues.SLURM.submit("job.sh", "sweep-a-1")
    assert {name for name in hidden | visible if f" {name}=set" in str(failure.value)} == visible


def test_refusals_are_read_in_english(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job inherits the locale of who submits it, and messages follow another variable."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de:en")
    command("sbatch", '[ "$LANGUAGE,$LC_ALL" = C,de_DE.UTF-8 ] && echo Connection refused >&2; exit 1')
    command("squeue", "true")
    with pytest.raises(queues.CommandFailed, match="Connection refused") as failure:
        queues.SLURM.submit("job.sh", "sweep-a-1")
    assert failure.value.transient


def test_a_site_may_print_lines_of_its_own(command: Command) -> None:
    """Commands of many sites are scripts around those of the queue, which greet and warn."""
    hint = "echo 'Note: 3 nodes | maintenance on Monday'"
    command("sbatch", f"{hint}; echo '43;site'")
    assert queues.SLURM.submit("job.sh", "sweep-a-1") == "43"
    command("sbatch", hint)
    with pytest.raises(queues.CommandFailed, match="no number of a job in its output: Note: 3 nodes"):
        queues.SLURM.submit("job.sh", "sweep-a-1")
    rows = (
        "7|sweep-a-0|RUNNING|gpu-a01|0:07|None",
        "8_[0-5%2]|an array of mine|PENDING||0:00|Resources",
        "9_3|a | b|RUNNING|gpu-a[01-03]|0:01|None",
    )
    command("squeue", "; ".join((hint, *(f"echo '{row}'" for row in rows))))
    assert queues.SLURM.live_jobs("sweep-a-") == [queues.LiveJob("7", "sweep-a-0", "RUNNING", "gpu-a01", "")]
    command("scontrol", f"{hint}; echo 'JobId=7 JobState=CANCELLED ExitCode=0:15 NodeList=gpu-a01'")
    command("sacct", f"{hint}; echo 'CANCELLED by 12|0:0|gpu-a01'")
    assert queues.SLURM.end_of("7").end == "cancelled by an administrator (user number 12)"
    command("qstat", f"{hint}; echo '<?xml version=\"1.0\"?><job_info></job_info>'")
    assert queues.SGE.live_jobs("sweep-a-") == []
    command("qstat", f"{hint}; exit 0")
    with pytest.raises(queues.CommandFailed, match="its output cannot be read"):
        queues.SGE.live_jobs("sweep-a-")


POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (f"sbatch: error: {POLICY}", queues.SITE_LIMIT),
        (f"sbatch: error: QOSMaxSubmitJobPerUserLimit sbatch: error: {POLICY}", queues.SITE_LIMIT),
        (f"sbatch: error: AssocGrpSubmitJobsLimit sbatch: error: {POLICY}", queues.SITE_LIMIT),
        # one job less does not make the walltime shorter
        (f"sbatch: error: QOSMaxWallDurationPerJobLimit sbatch: error: {POLICY}", ""),
        ("job rejected: only 3 jobs are allowed per user (current job count: 3)", queues.SITE_LIMIT),
        ("qsub: would exceed queue workq's per-user limit", queues.SITE_LIMIT),
        ("Maximum number of jobs already in queue for user", queues.SITE_LIMIT),
        ("sbatch: error: Batch job submission failed: Unexpected message received", queues.BUSY),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", queues.BUSY),
        ("Slurm temporarily unable to accept job, sleeping and retrying.", queues.BUSY),
        ("sbatch: error: Resource temporarily unavailable", queues.BUSY),
        ("sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received", queues.BUSY),
        ("Unable to contact slurm controller (connect failure)", queues.BUSY),
        ("sbatch: no answer within 30.0 s", queues.BUSY),
        ("Batch job submission failed: Requested node configuration is not available", queues.NO_NODE),
        ("sbatch: error: invalid partition specified: nowhere", ""),
        ("sbatch: error: Batch job submission failed: Requested time limit is invalid", ""),
    ],
)
def test_what_a_refusal_waits_for(refusal: str, words: str) -> None:
    assert queues.obstacle(refusal) == words


def test_who_waits_at_the_terminal_is_told(command: Command, caplog: pytest.LogCaptureFixture) -> None:
    patient = replace(queues.SLURM, attempts=queues.PATIENT_ATTEMPTS)
    command("squeue", f"[ $calls -ge 4 ] && true || {{ {BUSY}; }}")
    sent = command("sbatch", f"[ $calls -ge 6 ] && echo 43 || {{ {BUSY}; }}")
    assert patient.submit("job.sh", "sweep-a-1") == "43"
    assert count(sent) == 6
    assert len(caplog.messages) == 3 + 5
    assert caplog.messages[0].endswith(
        "Socket timed out on send/recv operation; attempt 2 of 12 follows in 0 s"
    )
    caplog.clear()
    # a command that may be impossible is tried less often
    sent = command("sbatch", "echo 'Requested node configuration is not available' >&2; exit 1")
    with pytest.raises(queues.CommandFailed, match="Requested node configuration"):
        patient.submit("job.sh", "sweep-a-1")
    assert count(sent) - 6 == queues.DOUBTFUL_ATTEMPTS
    assert caplog.messages[-1].endswith("attempt 5 of 5 follows in 0 s")


def test_a_queue_that_is_full_is_known_at_once(command: Command) -> None:
    """`sbatch` would wait for two minutes, and no other job would be looked after meanwhile."""
    full = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying"
    sent = command("sbatch", f"echo '{full}' >&2; exec sleep 60")
    command("squeue", "true")
    started = time.monotonic()
    with pytest.raises(queues.CommandFailed, match=f"^{full}$"):
        queues.SLURM.submit("job.sh", "sweep-a-1")
    assert count(sent) == queues.ATTEMPTS
    assert time.monotonic() - started < 10


def test_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = list[float]()
    monkeypatch.setattr(queues.ending, "wait", pauses.append)
    with pytest.raises(queues.CommandFailed, match="Socket timed out"):
        queues.run(["sh", "-c", BUSY], attempts=8)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


@pytest.mark.parametrize(
    ("answer", "again", "out_of_time"),
    [
        ("JobState=COMPLETING Restarts=1 RunTime=00:01:24 TimeLimit=00:01:00", False, True),
        ("JobState=COMPLETING Restarts=1 RunTime=1-00:00:18 TimeLimit=2-00:00:00", False, False),
        ("JobState=PENDING Reason=None Restarts=2 RunTime=00:00:10 TimeLimit=UNLIMITED", True, False),
        ("slurm_load_jobs error: Invalid job id specified", False, False),
    ],
)
def test_why_a_job_ended(
    command: Command, answer: str, again: bool, out_of_time: bool, tmp_path: Path
) -> None:
    """SLURM counts a restart before it ends the job for it, on a lost node or for a job that comes first."""
    calls = command("scontrol", f"echo '{answer}'")
    head = HeadJob(queues.SLURM, "7", 1)
    assert head.continues(signal.SIGTERM) is (again or out_of_time)
    assert head.continues(signal.SIGUSR1)
    assert not head.continues(signal.SIGINT)
    assert queues.SLURM.details("7").state == (answer[9:].split()[0] if "=" in answer else "")
    run = RunFolder(tmp_path / "tiny.zarr")
    assert head.requeue(run)
    assert ("requeue 7" in calls.read_text()) is not again
    command("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert not head.continues(signal.SIGTERM)
    assert not head.requeue(run)
    assert queues.SLURM.details("7").state == ""


@pytest.mark.parametrize(
    ("scontrol", "sacct", "state", "end"),
    [
        ("JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125", "", "OUT_OF_MEMORY", "out of memory"),
        ("JobState=TIMEOUT Reason=TimeLimit ExitCode=0:15", "", "TIMEOUT", "time limit"),
        ("JobState=NODE_FAIL Reason=NodeDown ExitCode=1:0", "", "NODE_FAIL", "node failure"),
        ("JobState=COMPLETING Reason=TimeLimit ExitCode=0:15", "", "COMPLETING", "time limit"),
        ("JobState=PREEMPTED Reason=None ExitCode=0:15", "", "PREEMPTED", "other jobs came first"),
        ("JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0", "", "FAILED", "exit code 3"),
        ("JobState=FAILED Reason=None ExitCode=0:9", "", "FAILED", "signal 9"),
        ("JobState=RUNNING Reason=None ExitCode=0:0", "", "RUNNING", ""),
        ("JobState=CANCELLED Reason=None ExitCode=0:15", "", "CANCELLED", ""),  # accounting is not at hand
        (
            "JobState=CANCELLED Reason=None ExitCode=0:15",
            "CANCELLED by 12|0:0|n1",
            "CANCELLED",
            "cancelled by an administrator (user number 12)",
        ),
        (
            "JobState=CANCELLED Reason=None ExitCode=0:15",
            f"CANCELLED by {os.getuid()}|0:0|n1",
            "CANCELLED",
            f"cancelled by its user (user number {os.getuid()})",
        ),
        ("", "OUT_OF_MEMORY|0:125|n1", "OUT_OF_MEMORY", "out of memory"),  # SLURM has forgotten it
        ("", "", "", ""),
    ],
)
def test_how_a_job_ended(command: Command, scontrol: str, sacct: str, state: str, end: str) -> None:
    forgotten = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
    disabled = "echo 'Slurm accounting storage is disabled' >&2; exit 1"
    command("scontrol", f"echo 'JobId=7 {scontrol} NodeList=n1'" if scontrol else forgotten)
    calls = command("sacct", f"echo '{sacct}'" if sacct else disabled)
    details = queues.SLURM.end_of("7")
    assert details.state == state
    assert details.end == end
    assert details.node == ("n1" if state else "")
    assert count(calls) == (state in ("", "CANCELLED") or not scontrol)


def test_walltimes() -> None:
    seconds = {"30": 1800, "30:10": 1810, " 1:00:00 ": 3600, "2-00": 172_800, "1-02:30": 95_400}
    spans = {**seconds, "2-01:30:10": 178_210, "UNLIMITED": None, "1:": None}
    assert {text: queues.walltime_seconds("slurm", text) for text in spans} == spans
    assert queues.walltime_seconds("pbs", "01:00:00") == 3600
    assert queues.walltime_seconds("lsf", "00:30") is None


def test_the_records_of_a_run_say_which_queue_it_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_queue = replace(queues.SLURM, kind="other")
    monkeypatch.setattr(queues, "QUEUES", {"slurm": queues.SLURM, "other": other_queue})
    run = RunFolder(tmp_path / "tiny.zarr")
    assert queues.used_queue(run) is None
    run.make()
    generations = [GenerationFolder(run, number) for number in (1, 2, 3)]
    for generation in generations:
        generation.path.mkdir()
    HeadRecord(spec="s", system="local", at=1.0).write(generations[0].head)
    assert queues.used_queue(run) is None
    HeadRecord(spec="s", system="other", at=2.0).write(generations[1].head)
    HeadRecord(spec="s", system="local", at=3.0).write(generations[2].head)
    assert queues.used_queue(run) is other_queue  # its jobs may be left
    Submission(system="slurm", job="1", host="here", at=4.0).write(run.submission)
    assert queues.used_queue(run) is queues.SLURM
    text = generations[1].head.read_text(encoding="utf-8").replace('"system": "other",', "")
    generations[2].head.write_text(text, encoding="utf-8")
    run.submission.unlink()
    generations[1].head.unlink()
    assert '"system"' not in text
    assert queues.used_queue(run) is queues.SLURM  # a folder from before it was recorded
