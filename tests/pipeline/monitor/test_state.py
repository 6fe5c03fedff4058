"""Who runs a cube, or waits to run it, from files alone."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cubes.writer import next_generation
from processes.commandline import sweep
from processes.other_user import SOMEBODY, STRANGER, needs_root, open_folder, user

from pipeline.live.serve import FilesState
from pipeline.monitor.state import RunState, read_run_state
from storage.cube.blocks import BlockStore
from storage.cube.manifest import read_manifest
from storage.cube.schema import FAILED
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Holder, LeaseState
from storage.runfolder.process import this_process
from storage.runfolder.records import ENDED, REQUEUED, RUNNING, HeadRecord, Submission


def test_a_head_that_waits_is_told_from_one_that_died(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    run = RunFolder(cube)
    run.make()
    assert read_run_state(cube).over
    Submission(system="slurm", job="12", host="here", at=100.0).write(run.submission)
    assert read_run_state(cube).waiting == "12"
    status = sweep("status", cube)
    assert status.exit_code == 0, status.output
    assert "no cell yet" in status.stdout
    assert "its head waits in the queue, job 12" in status.stdout
    run.head_log.write_text("head.sh: line 12: python: No such file\n")
    assert "head.log ends: head.sh: line 12: python: No such file" in sweep("status", cube).stdout
    record = HeadRecord(spec="s", job="12", node="n1", state=RUNNING, at=101.0)
    head = next_generation(cube).head
    record.write(head)
    assert read_run_state(cube).over
    assert "job 12 on n1, died" in sweep("status", cube).stdout
    record.now(REQUEUED, "stopped by SIGUSR1").write(head)
    assert read_run_state(cube).waiting == "12"
    assert "waiting since" in sweep("status", cube).stdout


HOLDER = Holder(token="t", since="2026-01-01", released=False, process=this_process())
HELD = LeaseState(1, HOLDER, 0, True)
GONE = replace(HELD, alive=False)
HEAD = HeadRecord(spec="s", job="12", node="n1", at=100.0, dashboard="http://here")
SENT = Submission(system="slurm", job="12", host="here", at=90.0)


@pytest.mark.parametrize(
    ("state", "shown", "over"),
    [
        (RunState(None, None, None), None, True),
        (RunState(None, None, SENT), ("waiting", "12"), False),
        (RunState(None, None, SENT.model_copy(update={"system": "process"})), None, True),
        (RunState(HELD, HEAD, SENT), ("running", "12"), False),
        (RunState(GONE, HEAD, SENT), ("died", "12"), True),
        (RunState(GONE, HEAD, SENT.model_copy(update={"job": "13", "at": 110.0})), ("waiting", "13"), False),
        (RunState(GONE, HEAD.now(REQUEUED), SENT), ("waiting", "12"), False),
        (RunState(GONE, HEAD.now(ENDED), SENT), ("ended", "12"), True),
    ],
)
def test_the_lease_tells_who_runs_and_the_newer_file_who_waits(
    state: RunState, shown: tuple[str, str] | None, over: bool
) -> None:
    found = state.to_dict()
    assert (None if found is None else (found["state"], found["job"])) == shown
    assert state.over == over
    assert state.dashboard == ("http://here" if state.lease is HELD else None)


def test_the_line_of_a_head_says_how_often_and_how_it_ended() -> None:
    ended = HEAD.model_copy(update={"restarts": 2}).now(ENDED, "stopped by SIGTERM")
    (line,) = RunState(None, ended, None).lines()
    assert line.startswith("head: job 12 on n1, ended since ")
    assert line.endswith(", queued again 2 times: stopped by SIGTERM")
    (line,) = RunState(None, None, SENT).lines()
    assert line.endswith(", according to its files")
    assert RunState(None, None, None).lines() == []


@pytest.mark.parametrize("at", [1e300, -1e300])
def test_a_time_beyond_all_clocks_is_shown_as_it_is(at: float) -> None:
    head = HeadRecord(spec="s", job="12", state=ENDED, at=at)
    (line,) = RunState(None, head, None).lines()
    assert line.endswith(f"since the time {at:g}")


@needs_root
def test_another_user_of_the_group_sees_the_cube_and_is_told_whose_the_run_is(
    finished: Path,
) -> None:
    with open_folder() as folder:
        cube, run = folder / "tiny.zarr", folder / "tiny.run"
        shutil.copytree(finished / "tiny.zarr", cube)
        shutil.copytree(finished / "tiny.run", run)
        store = BlockStore(cube)
        block = next(iter(read_manifest(cube).plans["iris"].blocks()))
        store.set_back(block)
        store._write_array(store._place(block), "status", np.full(block.n_cells, FAILED, np.int8))
        store.set_back(list(read_manifest(cube).plans["iris"].blocks())[1])
        for path in (run, *run.rglob("*")):
            os.chown(path, SOMEBODY, SOMEBODY)
        cell = next(iter(block.cells()))
        FilesState(cube).document()  # what is imported for it may lie where only this user reads
        with user(STRANGER):
            found = {words: sweep(words, cube) for words in ("status", "why", "cancel", "repair", "logs")}
            found["why cell"] = sweep("why", cube, cell)
            found["checksums"] = sweep("verify", cube, "--checksums")
            found["dry"] = sweep("repair", cube, "--dry-run")
            document = json.loads(FilesState(cube).document()[1])
    whose = f"tiny.run belongs to user {SOMEBODY}, and is closed to others"
    codes = {words: each.exit_code for words, each in found.items()}
    assert codes == {
        **dict.fromkeys(("status", "why", "why cell", "checksums", "dry"), 0),
        "cancel": 1,
        "repair": 2,
        "logs": 2,
    }
    assert all(whose in found[words].output for words in ("status", "why", "why cell", "logs"))
    assert "submit as that user" in found["repair"].output
    assert document["head"]["status"]["total"]["failed"] == block.n_cells
