"""Worker jobs and heads run on Grid Engine, recorded and real."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import grid_engine, sweeping
from processes.commandline import succeed, sweep
from processes.killing import reported_done

from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.jobs.keys import job_queue
from sweep_clustering.pipeline.jobs.queues import SGE, LiveJob, head_name, used_queue
from sweep_clustering.pipeline.monitor.status import read_run_state
from sweep_clustering.pipeline.run.head import HeadJob, head_script
from sweep_clustering.storage.runfolder.folder import REQUEUED, GenerationFolder, HeadRecord, RunFolder
from sweep_clustering.sweeps.errors import present

JOB = """\
    <job_list state="pending">
      <JB_job_number>{number}</JB_job_number>
      <JAT_prio>0.25002</JAT_prio>
      <JB_name>{name}</JB_name>
      <JB_owner>root</JB_owner>
      <state>{state}</state>
      <JB_submission_time>2026-11-28T19:49:17</JB_submission_time>
      <queue_name>{queue}</queue_name>
      <slots>1</slots>
    </job_list>
"""
LISTING = """\
<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
  <queue_info>
{}  </queue_info>
  <job_info>
  </job_info>
</job_info>
"""
# As `qstat -j` of 8.1.9 prints it, without most of its lines.
REASONS = """\
==============================================================
job_number:                 4
job_name:                   d
parallel environment:  smp range: 8
scheduling info:            cannot run in PE "smp" because it only offers 0 slots
==============================================================
job_number:                 5
cwd:                        /nonexistent/dir
error reason          1:      11/28/2026 19:49:17 [0:8943]: error: can't chdir to /nonexistent/dir: No such
scheduling info:            Job is in error state
==============================================================
job_number:                 20
scheduling info:            queue instance "main.q@localhost" dropped because it is full
                            All queues dropped because of overload or full
                            Job is in hold state
==============================================================
job_number:                 21
job_name:                   new
"""
ACCOUNT = """\
==============================================================
qname        main.q
hostname     n1
jobnumber    8
failed       37  : qmaster enforced h_rt, h_cpu, or h_vmem limit
exit_status  137                  (Killed)
ru_wallclock 16s
"""


@pytest.mark.parametrize(
    ("letters", "state"),
    [
        ("r", "RUNNING"),
        ("t", "RUNNING"),
        ("Rr", "RUNNING"),
        ("qw", "PENDING"),
        ("Rq", "PENDING"),
        ("hqw", "HELD"),
        ("hRwq", "HELD"),
        ("Eqw", "ERROR"),
        ("dr", "ENDING"),
        ("S", "SUSPENDED"),
    ],
)
def test_states_are_words(letters: str, state: str) -> None:
    name = "sweep-a-long-name-that-qstat-would-cut-12345678-0b1c-0"
    job = JOB.format(number=7, name=name, state=letters, queue="main.q@n1" if "r" in letters else "")
    assert SGE.read_listing(LISTING.format(job)) == [
        LiveJob("7", name, state, "n1" if "r" in letters else "", "")
    ]


def test_what_the_scheduler_says_of_waiting_jobs() -> None:
    assert SGE.read_reasons(REASONS) == {
        "4": 'cannot run in PE "smp" because it only offers 0 slots',
        "5": "it waits until somebody clears it, error: can't chdir to /nonexistent/dir: No such",
        "20": "Job is in hold state",
    }


def test_details_of_jobs_before_and_after_their_end() -> None:
    assert SGE.read_details("hard resource_list:         h_rt=60,s_rt=8\n").limit == 8.0
    assert SGE.read_details("job_number: 4\n").limit is None
    ended = SGE.read_details(ACCOUNT)
    assert ended.node == "n1"
    assert ended.end == "qmaster enforced h_rt, h_cpu, or h_vmem limit, signal 9"
    cancelled = re.sub("failed.*", "failed       100 : assumedly after job", ACCOUNT)
    assert SGE.read_details(cancelled).end == "signal 9"
    assert queues.walltime_seconds("sge", "600") == 600
    assert queues.walltime_seconds("sge", "1:00:00") == 3600
    assert queues.walltime_seconds("sge", "1-00:00:00") is None
    busy = "error: commlib error: got select error (Connection refused)\nUnable to run job: got send error"
    assert queues.TRANSIENT.search(busy)


def test_a_head_that_resumes_as_another_job_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission without an answer may have succeeded, and the job of this head has the same name."""
    run = RunFolder(tmp_path / "tiny.zarr")
    run.make()
    generation = GenerationFolder(run, 1)
    generation.path.mkdir()
    HeadRecord(spec="s", job="7", state=REQUEUED, restarts=1, at=100.0).write(generation.head)
    qsub = tmp_path / "qsub"
    qsub.write_text("#!/bin/sh\necho commlib error >&2; exit 1\n")
    qsub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(queues, "PAUSE", 0.0)
    jobs = [LiveJob(number, head_name(run), "PENDING", "", "") for number in ("7", "8")]
    monkeypatch.setattr(queues.Queue, "live_jobs", lambda queue, prefix: jobs)
    assert HeadJob(SGE, "7", 0).requeue(run)
    assert used_queue(run) is SGE
    assert read_run_state(run.cube).queued_job == "8"
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("JOB_ID", "8")
    monkeypatch.setenv("JOB_NAME", head_name(run))
    assert HeadJob.current(run) == HeadJob(SGE, "8", 2)


# On a real Grid Engine.

PROFILES = """
pair: {kind: sge, cores: 2, memory: 2GB, walltime: "00:10:00", interface: lo, pe: smp}
none: {kind: sge, cores: 2, memory: 2GB, interface: lo, queue: main.q}
wrong: {kind: sge, cores: 2, memory: 2GB, interface: lo, queue: other.q, pe: mpi}
dies: {kind: sge, cores: 1, memory: 1GB, interface: lo, failed_starts: 1, start_timeout: 60s,
       job_script_prologue: ["echo this node lacks the module >&2; exit 3"]}
error: {kind: sge, cores: 1, memory: 1GB, interface: lo, failed_starts: 1, start_timeout: 60s,
        job_extra_directives: ["-wd /nonexistent"]}
waits: {kind: sge, cores: 1, memory: 1GB, interface: lo, start_timeout: 4s,
        job_extra_directives: ["-pe smp 9"]}
"""
LONGER = sweeping.TINY.replace("restarts = 5", "restarts = 1000")


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    with grid_engine.grid_engine() as home:
        yield home


@pytest.fixture
def places(site: Path, tmp_path: Path) -> tuple[object, ...]:
    path = tmp_path / "cluster.yaml"
    path.write_text(PROFILES)
    return "--results", tmp_path, "--cluster", path, "--profile"


@pytest.mark.slow
def test_a_head_resumes_as_another_job_and_leaves_nothing_when_cancelled(
    places: tuple[object, ...], tmp_path: Path
) -> None:
    spec, cube = sweeping.write_spec(tmp_path, LONGER), tmp_path / "tiny.zarr"
    run = RunFolder(cube)

    def detach() -> str:
        return sweep("submit", spec, "--detach", *places, "pair").stderr

    def status() -> Any:
        return json.loads(sweep("status", cube, "--json").stdout)

    def head() -> str:
        return max((job.number for job in SGE.live_jobs(head_name(run))), key=int)

    assert "the head is job" in detach()
    sweeping.wait_until(lambda: reported_done(cube))
    number = head()
    assert f"its head is job {number} already: running (localhost)" in detach()
    report = status()
    (job,) = report["jobs"]["jobs"]
    assert job["workers"] == 2
    assert "distributed" in sweep("logs", cube, "--job", job["job"]).stdout
    state = lambda: read_run_state(cube)  # noqa: E731
    os.kill(present(state().holder).process.pid, signal.SIGUSR1)  # this happens at the soft limit of its time
    sweeping.wait_until(lambda: state().holder is not None and head() != number)
    sweeping.wait_until(lambda: status()["run"])
    assert status()["head"]["restarts"] == 1
    assert re.search(r"stopped by SIGUSR1.*the head resumes", run.log.read_text())
    number = head()
    assert f"ended the head, job {number}" in succeed("cancel", cube).stdout
    assert grid_engine.queue() == []
    assert re.search(r"stopped by SIG(USR2|TERM)|cancelled", run.log.read_text())
    assert state().is_over
    assert not run.last_run.tls.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "code", "says"),
    [
        ("dies", 1, r"worker jobs die at once: 1 time in a row[\s\S]*\.o\d+:\s+this node lacks the module"),
        ("error", 1, r"left no log .*it waits until somebody clears it, error: can't chdir to /nonexistent"),
        ("waits", 1, r'no worker for 0:00:04 \(start_timeout\): 1 pending \(cannot run in PE "smp" because'),
        (
            "none",
            2,
            r"none: pe: found none for jobs of 2 cores, expected a parallel environment of the site: smp",
        ),
        (
            "wrong",
            2,
            r"wrong: pe: found 'mpi', expected [\s\S]*wrong: queue: found 'other.q', expected one of main",
        ),
    ],
)
def test_jobs_that_bring_no_worker_end_the_run(
    profile: str,
    code: int,
    says: str,
    places: tuple[object, ...],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    result = sweep("submit", sweeping.write_spec(tmp_path), *places, profile)
    assert result.exit_code == code, result.stderr
    assert re.search(says, caplog.text + result.stderr)
    assert grid_engine.queue() == []
    assert not (tmp_path / "tiny.zarr").exists()


@pytest.mark.slow
def test_a_head_is_warned_before_its_walltime(site: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "tiny.zarr")
    run.make()
    log, head = run.head_log, {"cores": 2, "walltime": "00:01:00"}
    options = job_queue("sge")(kind="sge", cores=1, memory="1GiB", queue="main.q", pe="smp", head=head)
    lines = [line for line in head_script(options, run, []).splitlines() if line.startswith(SGE.marker)]
    lines = [line.replace("s_rt=45", "s_rt=2") for line in lines]  # a shorter test
    script = tmp_path / "head.sh"
    waits = "trap 'echo warned; exit' USR1; qstat >/dev/null; echo $NSLOTS; while :; do sleep 0.1; done"
    script.write_text("\n".join(["#!/usr/bin/env bash", *lines, waits, ""]))
    number = SGE.submit(str(script), head_name(run))
    assert SGE.details(number).limit == 2.0
    sweeping.wait_until(lambda: log.exists() and "warned" in log.read_text())
    lines_of_log = log.read_text().splitlines()
    assert lines_of_log[0] == "2"  # slots
    assert lines_of_log[-1] == "warned"
