"""Files alone show how far a sweep is, who runs it and why a cell failed; logs are read from their end."""

import json
import os
import re
import shlex
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
import pytest
import zarr
from cubes import toy
from cubes.writer import next_generation
from processes.commandline import succeed, sweep
from processes.other_user import SOMEBODY, STRANGER, as_user, needs_root, open_folder
from processes.sweeping import TINY, run, write_spec

from sweep_clustering.pipeline.jobs.queues import CommandFailed, Queue
from sweep_clustering.pipeline.live.site import Follower, Site
from sweep_clustering.pipeline.monitor import status as runs
from sweep_clustering.pipeline.monitor.status import (
    RunState,
    explain,
    find_logs,
    follow,
    last_lines,
    read_run_state,
    read_status,
)
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.records import Science, Solved, Span
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.manifest import append_run, read_manifest
from sweep_clustering.storage.cube.schema import FAILED, NO_SOLUTION
from sweep_clustering.storage.files import DamagedChunk
from sweep_clustering.storage.provenance import run_record
from sweep_clustering.storage.runfolder import folder as records
from sweep_clustering.storage.runfolder.lease import Holder, Lease, LeaseState, this_process
from sweep_clustering.sweeps.errors import InputError, cause_of
from sweep_clustering.sweeps.inputs import Source
from sweep_clustering.sweeps.plan import Cell

# Who runs a cube, or waits to run it, from files alone.


def test_a_head_that_waits_is_told_from_one_that_died(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    run = records.RunFolder(cube)
    run.make()
    assert read_run_state(cube).is_over
    assert read_status(cube).outlook == ("not running: submit again to resume", ())
    records.Submission(system="slurm", job="12", host="here", at=100.0).write(run.submission)
    run.head_log.write_text("head.sh: line 12: python: No such file\n")
    stdout = sweep("status", cube).stdout
    for words in ("no cell yet", "its head waits in the queue, job 12", "head.log ends: head.sh: line 12: "):
        assert words in stdout
    os.utime(run.head_log, (99.0, 99.0))  # this log is of the run before
    assert "head.log ends" not in sweep("status", cube).stdout
    died = records.HeadRecord(spec="s", job="12", node="n1", state=records.RUNNING, at=101.0)
    died.write(next_generation(cube).head)
    assert "job 12 on n1, died" in sweep("status", cube).stdout


HOLDER = Holder(token="t", since="2026-01-01", released=False, process=this_process())
HELD = LeaseState(1, HOLDER, 0, True)
GONE = replace(HELD, is_alive=False)
HEAD = records.HeadRecord(spec="s", job="12", node="n1", at=100.0, dashboard="http://here")
SENT = records.Submission(system="slurm", job="12", host="here", at=90.0)


def test_the_lease_tells_who_runs_and_the_newer_file_who_waits() -> None:
    for state, expected, over in (
        (RunState(None, None, None), None, True),
        (RunState(None, None, SENT), ("waiting", "12"), False),
        (RunState(None, None, SENT.model_copy(update={"system": "process"})), None, True),
        (RunState(HELD, HEAD, SENT), ("running", "12"), False),
        (RunState(GONE, HEAD, SENT), ("died", "12"), True),
        (RunState(GONE, HEAD, SENT.model_copy(update={"job": "13", "at": 110.0})), ("waiting", "13"), False),
        (RunState(GONE, HEAD.in_state(records.REQUEUED), SENT), ("waiting", "12"), False),
        (RunState(GONE, HEAD.in_state(records.ENDED), SENT), ("ended", "12"), True),
    ):
        head = state.to_dict()
        assert (None if head is None else (head["state"], head["job"])) == expected, state
        assert state.is_over == over
        assert bool(state.lines()) == (head is not None)
        assert state.dashboard == ("http://here" if state.lease is HELD else None)
    ended = HEAD.model_copy(update={"restarts": 2}).in_state(records.ENDED, "stopped by SIGTERM")
    (line,) = RunState(None, ended, None).lines()
    assert line.startswith("head: job 12 on n1, ended at ")
    assert line.endswith(", queued again 2 times: stopped by SIGTERM")
    for at in (1e300, -1e300):  # these times are beyond all clocks
        (line,) = RunState(None, HEAD.model_copy(update={"at": at}), None).lines()
        assert f"died, started at the time {at:g}" in line


@needs_root
def test_another_user_of_the_group_sees_the_cube_and_is_told_whose_the_run_is(tiny_run: Path) -> None:
    with open_folder() as folder:
        cube, run = folder / "tiny.zarr", folder / "tiny.run"
        shutil.copytree(tiny_run / "tiny.zarr", cube)
        shutil.copytree(tiny_run / "tiny.run", run)
        store, (block, second, *_) = BlockStore(cube), read_manifest(cube).plans["iris"].blocks()
        store.clear(block, "status")
        store._write(block, "status", np.full(block.n_cells, FAILED, np.int8))
        store.clear(second, "status")
        for path in (run, *run.rglob("*")):
            os.chown(path, SOMEBODY, SOMEBODY)
        cell = next(iter(block.cells()))
        Site(cube, Follower(cube)).document()  # this imports modules that may lie where only this user reads
        with as_user(STRANGER):
            results = {words: sweep(words, cube) for words in ("status", "why", "cancel", "repair", "logs")}
            results["why cell"] = sweep("why", cube, cell)
            results["checksums"] = sweep("verify", cube, "--checksums")
            results["dry"] = sweep("repair", cube, "--dry-run")
            document = json.loads(Site(cube, Follower(cube)).document()[1])
    whose = f"tiny.run belongs to user {SOMEBODY}, and is closed to others"
    good = dict.fromkeys(("status", "why", "why cell", "checksums", "dry"), 0)
    codes = {words: result.exit_code for words, result in results.items()}
    assert codes == {**good, "cancel": 1, "repair": 2, "logs": 2}
    assert all(whose in results[words].output for words in ("status", "why", "why cell", "logs"))
    assert "submit as that user" in results["repair"].output
    assert document["head"]["status"]["total"]["failed"] == block.n_cells


@pytest.fixture
def begun_run(tmp_path: Path) -> Path:
    """Return the path of a cube that is not there yet, with a run directory."""
    cube = tmp_path / "a.zarr"
    (records.RunFolder(cube).make() / "jobs").mkdir()
    return cube


def test_a_job_s_log_by_number_and_by_name(begun_run: Path) -> None:
    jobs = begun_run.with_name("a.run") / "jobs"
    (jobs / "sweep-a-0b1c-1-1.err").write_text("of another\n")
    (jobs / "sweep-a-0b1c-1-1.out").touch()  # empty: left out where there is a fuller one
    assert find_logs(begun_run, job="1") == [jobs / "sweep-a-0b1c-1-1.err"]
    for name in ("sweep-a-0b1c-0-12.err", "sweep-a-0b1c-0.e12", "sweep-a-0b1c-0-12.out"):
        (jobs / name).write_text("words\n")
        for job in ("12", "sweep-a-0b1c-0", "sweep-a-0b1c-0-3"):  # number, job, a worker of it
            assert find_logs(begun_run, job=job) == [jobs / name]
        with pytest.raises(InputError, match="one of the worker jobs 1, 12"):
            find_logs(begun_run, job="2")
        (jobs / name).unlink()


def test_worker_jobs_are_listed_with_how_they_ended(begun_run: Path) -> None:
    assert sweep("logs", begun_run, "--job").stdout == "no worker job is recorded\n"
    logs = begun_run.with_name("a.run") / "jobs"
    for name in ("sweep-a-0b1c-1-9.err", "sweep-a-0b1c-1-103.err", "sweep-a-0b1c-0-101.err"):
        (logs / name).write_text("words\n")
    lost = [
        records.LostJob(name="sweep-a-0b1c-1", job=job, node=node, how=how, at=0.0)
        for job, node, how in (
            ("102", "n2", "died at once: exit code 7"),
            ("103", "n1", "was lost: time limit"),
        )
    ]
    running = records.JobRecord(name="sweep-a-0b1c-0", job="101", node="n1", state="running", workers=1)
    jobs = records.JobList(n_jobs=2, jobs=(running,), n_lost=2, lost=tuple(lost), at=0.0, excluded=("n2",))
    with Lease.acquire(begun_run) as lease:
        records.HeadRecord(spec="s", at=time.time()).write(lease.generation.head)
        jobs.write(lease.generation.jobs)
        assert sweep("why", begun_run).stdout.splitlines() == [
            "no cell is marked failed",
            "excluded nodes, on which jobs died: n2",
            "a worker job died at once: exit code 7; the last is job 102 on n2",
            "a worker job was lost: time limit; the last is job 103 on n1",
        ]
        lines = sweep("logs", begun_run, "--job").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["9", "101", "102", "103"]
    assert "ended in an earlier run, or forgotten" in lines[0]
    assert re.fullmatch(rf"101 +n1 +running +{logs}/sweep-a-0b1c-0-101.err", lines[1])
    assert re.fullmatch(r"102 +n2 +died at once: exit code 7 +no log", lines[2])
    assert "  running when the run ended  " in sweep("logs", begun_run, "--job").stdout
    assert len(sweep("why", begun_run).stdout.splitlines()) == 3, "no node is excluded any more"


def test_what_a_log_holds_does_nothing_to_a_terminal_and_lines_stay_whole(
    begun_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "POLL_SECONDS", 0.01)
    log = begun_run.with_name("a.run") / "log"
    lease = Lease.acquire(begun_run)

    def write() -> None:
        for part in (b"a\x1b[2J \xc3", b"\xa9\n", b"the end"):
            time.sleep(0.05)
            with log.open("ab") as file:
                file.write(part)
        lease.release()

    writer = threading.Thread(target=write)
    writer.start()
    text = list(follow(log, begun_run, lines=5))
    writer.join()
    assert "".join(text) == "a\\x1b[2J é\nthe end\n"  # though the log was not there at first
    assert all(part.endswith("\n") for part in text)
    assert "".join(follow(log, begun_run, lines=1)) == "the end\n"
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    assert last_lines(log, 2) == ["line 99998", "line 99999"]
    assert [len(last_lines(path, n)) for path, n in ((log, 0), (log, 2000), (begun_run, 3))] == [0, 2000, 0]


def test_following_ends_when_the_head_has_left_the_queue_without_a_word(
    begun_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = CommandFailed(["squeue"], "no answer")
    answers = Mock(side_effect=["pending", None, "pending", None, silence, None, None])
    monkeypatch.setattr(runs, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(runs, "QUEUE_SECONDS", 0.0)
    monkeypatch.setattr(Queue, "other_head", answers)
    run = records.RunFolder(begun_run)
    records.Submission(system="slurm", job="12", host="here", at=1.0).write(run.submission)
    text = "".join(follow(run.log, begun_run, lines=5))
    assert text.startswith("the head, job 12, has left the queue without running")
    assert str(run.head_log) in text
    assert answers.call_count == 7


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Return a cube of 25 cells: one failed, one is pending."""
    path = tmp_path / "tiny.zarr"
    grid = {"datasets": [{"name": "iris", "scale": "none"}], "m": ["12", "24"]}
    toy.write(path, toy.plan("iris"), spec={"name": "tiny", "seed": 1, "grid": grid})
    return path


def test_cells_and_blocks_are_counted_by_state_and_damage_is_named(cube: Path) -> None:
    append_run(cube, run_record({"ecoli": ("not here",), "iris": ("came in since",)}))
    status = read_status(cube)
    (row,) = status.datasets
    assert row.name == "iris"
    assert row.cells == 25
    assert row.done == 23
    assert row.failed == 1
    assert row.left == 1
    assert status.blocks == 5
    assert status.blocks_done == 4  # the pending cell keeps its block open
    assert status.skipped == {"ecoli": ["not here"]}
    assert not status.to_dict()["complete"]
    zarr.open_array(cube / "iris" / "status", mode="r+")[0, 0, 0, :] = NO_SOLUTION
    (row,) = (status := read_status(cube)).datasets
    assert row.no_solution == 2
    assert row.done + row.failed == 22
    assert row.left == 1
    assert "2 cells without a solution" in status.lines()
    first = min((cube / "iris" / "status").glob("c.*"))
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(DamagedChunk, match="has changed"):
        read_status(cube)
    first.unlink()
    assert read_status(cube).datasets[0].left > 1  # nothing was written there


def test_a_run_in_progress_tells_its_pace_and_its_jobs(cube: Path) -> None:
    names = [f"old-{n}" for n in range(9)]
    lost = (records.LostJob(name=name, job="3", node="n2", how="was cancelled", at=0.0) for name in names)
    running = records.JobRecord(name="sweep-0", job="7", node="n1", state="running", workers=4)
    pending = records.JobRecord(name="sweep-1", job="", node="", state="pending", workers=0)
    jobs = records.JobList(n_jobs=2, jobs=(running, pending), n_lost=9, lost=tuple(lost), at=0.0)
    progress = records.Progress(restarts=1500, total=6000, workers=4, left=100.0, at=time.time() - 40)
    run = RunState(HELD, HEAD, None)
    status = replace(read_status(cube), run=run, jobs=jobs, progress=progress)
    assert status.eta == pytest.approx(60, abs=5)
    lines = status.lines()
    assert "worker jobs: 2 wanted, 1 running, 9 lost; 4 workers" in lines
    names_shown = [line.split()[-1] for line in lines if "was cancelled" in line]
    assert names_shown == names[4:]  # the last ones
    assert lines[-2] == "dashboard: http://here"
    assert f"run by {HELD.holder}: 1,500 of 6,000 restarts, 4 workers, about 0:0" in lines[-1]
    resumed = replace(status, progress=progress.model_copy(update={"earlier": 900, "left": None}))
    words = "1,500 of 6,000 restarts, 900 of them before this run, 4 workers, timing restarts"
    assert words in resumed.lines()[-1]
    assert resumed.eta is None
    document = json.loads(json.dumps(status.to_dict()))
    assert document["jobs"]["running"] == 1
    assert document["run"]["restarts"] == 1500
    words = "1 of 2 jobs: limit of the site (job rejected)"
    limited = replace(status, jobs=jobs.model_copy(update={"refusal": words}))
    assert f"  {words}" in limited.lines()
    assert limited.to_dict()["jobs"]["refusal"] == words
    # The jobs of an ended run no longer exist.
    assert not any("worker jobs" in line for line in replace(status, run=RunState(None, HEAD, None)).lines())
    # the progress of an earlier run is not shown
    earlier = next_generation(cube)
    records.HeadRecord(spec="s", at=1.0).write(earlier.head)
    records.Progress(restarts=1, total=10, workers=2, left=5.0, at=time.time()).write(earlier.state)
    assert read_status(cube).progress is None
    with Lease.acquire(cube) as lease:
        assert read_status(cube).progress is not None
        records.HeadRecord(spec="s", at=2.0).write(lease.generation.head)
        jobs.model_copy(update={"refusal": words}).write(lease.generation.jobs)
        assert sweep("why", cube).stdout.splitlines()[1:] == [
            words,
            "a worker job was cancelled, 9 times; the last is job 3 on n2",
        ]
        assert read_status(cube).lines()[-1].startswith("run by process ")


CELLS = [Cell("iris", None, 0.8, 75, replicate, "posterior") for replicate in (0, 1)]
SMALL = TINY[: TINY.index("datasets")] + 'datasets = ["iris"]\n' + TINY[TINY.index("p = [") :]
SMALL = SMALL.replace("[0.8, 1.0]", "[0.8]").replace(', "1N"]', "]").replace('"unsupervised", ', "")
SOLVE = tasks.run_cell


def failing_solver(error: Exception) -> Callable[[Science, Span, Source], Solved]:
    """Return a solver that does not solve two cells."""

    def solve_some(science: Science, work: Span, source: Source) -> Solved:
        if work.unit in CELLS:
            raise error
        return SOLVE(science, work, source)

    return solve_some


def test_a_failed_cell_its_log_and_the_command_that_runs_it_alone(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path, SMALL), tmp_path / "tiny.zarr"
    with patch.object(tasks, "run_cell", failing_solver(FloatingPointError("no such luck"))):
        assert run(spec, tmp_path) == 3
    why = succeed("why", cube, CELLS[0])
    assert all(word in why.stdout for word in ("no such luck", "2 failed", "in solve_some", "sweep logs "))
    explanation = json.loads(sweep("why", cube, CELLS[0], "--json").stdout)
    assert explanation["state"] == "failed"
    assert [failure["attempt"] for failure in explanation["failures"]] == [1, 2]
    program, *arguments = shlex.split(why.stdout.splitlines()[-1])
    result = sweep(*arguments)
    assert program == "sweep", result.output
    assert result.exit_code == 0, result.output
    assert "5 restarts, 1 block in" in result.stderr
    assert [explain(cube, str(cell)).state for cell in CELLS] == ["done", "failed"]
    again = sweep("why", cube, CELLS[0]).stdout
    assert "done, 5 restarts in" in again
    assert "failed 2 times before" in again
    assert sweep("why", cube).stdout == f"{CELLS[1]}: FloatingPointError: no such luck\n"
    causes = json.loads(sweep("why", cube, "--json").stdout)
    assert causes == {str(CELLS[1]): "FloatingPointError: no such luck"}
    # the log of the job that the last failure was in
    failures = records.RunFolder(cube).last_run.failures
    record = json.loads(failures.read_text().splitlines()[0])
    failures.write_text(json.dumps(record | {"job": "34", "cell": str(CELLS[1])}) + "\n")
    (records.RunFolder(cube).path / "jobs").mkdir()
    (records.RunFolder(cube).path / "jobs" / "sweep-tiny-0-34.err").write_text("the last words of job 34\n")
    log = json.loads(sweep("why", cube, CELLS[1], "--json").stdout)["log"]
    assert sweep(*shlex.split(log)[1:]).stdout == "the last words of job 34\n"
    assert log in sweep("why", cube, CELLS[1]).stdout


FORGED = "2026-01-01 00:00:00,000 INFO sweep_clustering.pipeline.run.head: 6 of 6 cells done"


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"one\n{FORGED}\r\x1b[2J\u202e\x00"),
        ExceptionGroup("two\udcff" + "x" * 1_000_000, [OSError("\ud800")]),
    ],
    ids=["forged", "long"],
)
def test_a_cause_is_one_line_wherever_it_is_shown(tmp_path: Path, error: Exception) -> None:
    with patch.object(tasks, "run_cell", failing_solver(error)):
        submitted = sweep("submit", write_spec(tmp_path, SMALL), "--results", tmp_path, "--workers", 0)
    assert submitted.exit_code == 3
    cube, cause = tmp_path / "tiny.zarr", cause_of(error)
    state = Site(cube, Follower(cube))
    (page,) = {failure["cause"] for failure in json.loads(state.document()[1])["head"]["failures"]["last"]}
    assert cause.startswith(page)
    assert f"{CELLS[0]}: {cause}" in sweep("why", cube).stdout.splitlines()
    assert f"  cause:    {cause}" in sweep("why", cube, CELLS[0]).stdout.splitlines()
    assert set(json.loads(sweep("why", cube, "--json").stdout).values()) == {cause}
    assert sweep("status", cube).exit_code == 0
    log = (tmp_path / "tiny.run" / "log").read_text().splitlines()
    assert any(line.endswith(f"{CELLS[0]} failed: {cause}") for line in log)
    for line in [*log, *submitted.stderr.splitlines()]:
        assert line.isprintable()
        assert not line.startswith(FORGED)
    assert "Logging error" not in submitted.stderr


def test_a_part_of_a_block_waits_in_the_journal_and_is_not_computed_again(tmp_path: Path) -> None:
    line = ("submit", write_spec(tmp_path, SMALL), "--results", tmp_path, "--workers", 0)
    assert "5 restarts, 0 blocks" in sweep(*line, "--only", CELLS[0]).stderr
    assert "pending: not finished yet" in sweep("why", tmp_path / "tiny.zarr", CELLS[0]).stdout
    assert "15 restarts, 1 block" in sweep(*line).stderr
