"""How far a sweep is, from files alone: a cube made by hand, and the files of its run."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import google_crc32c
import pytest
import zarr
from cubes import toy
from cubes.writer import next_generation
from numcodecs import Zstd

from pipeline.monitor.runs import RunState
from pipeline.monitor.status import DatasetStatus, Status, read_status
from storage.cube.manifest import append_run
from storage.cube.schema import NO_SOLUTION
from storage.errors import DamagedChunk
from storage.provenance import run_record
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Holder, Lease, LeaseState
from storage.runfolder.process import this_process
from storage.runfolder.records import HeadRecord, JobList, JobRecord, LostJob, Progress, StateFile, Submission
from sweeps.errors import InputError

HOLDER = Holder(token="t", since="2026-01-01", released=False, process=this_process())
HELD = LeaseState(1, HOLDER, 0.0, True)
IDLE = RunState(None, None, None)


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Cube of 25 cells: one failed, one pending."""
    path = tmp_path / "tiny.zarr"
    grid = {"datasets": [{"name": "iris", "scale": "none"}], "m": ["12", "24"]}
    toy.write(path, toy.plan("iris"), spec={"name": "tiny", "seed": 1, "grid": grid})
    return path


def status(tmp_path: Path, **changes: object) -> Status:
    row = DatasetStatus("iris", 1200, 1000, 10)
    made = Status(tmp_path / "tiny.zarr", (row,), 30, 20, {}, None, IDLE, None, None)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_cells_and_blocks_are_counted_by_state(cube: Path) -> None:
    append_run(cube, run_record({"ecoli": ("not here",), "iris": ("came in since",)}))
    found = read_status(cube)
    (row,) = found.datasets
    assert (row.name, row.cells, row.done, row.failed, row.left) == ("iris", 25, 23, 1, 1)
    assert (found.blocks, found.blocks_done) == (5, 4)  # the pending cell keeps its block open
    assert found.skipped == {"ecoli": ["not here"]}
    assert not found.to_dict()["complete"]
    assert found.lines()[-1] == "not running: submit again to resume"
    assert found.at_hand is None  # the sweep of this cube names no ecoli
    assert not any("a solution" in line for line in found.lines())
    zarr.open_array(cube / "iris" / "status", mode="r+")[0, 0, 0, :] = NO_SOLUTION
    (row,) = (found := read_status(cube)).datasets
    assert (row.no_solution, row.done + row.failed, row.left) == (2, 22, 1)
    assert "2 cells without a solution" in found.lines()
    assert found.to_dict()["total"]["no_solution"] == 2


def test_damage_of_a_status_is_named_and_not_counted(cube: Path) -> None:
    first, second, *_ = sorted((cube / "iris" / "status").glob("c.*"))
    content, packed = first.read_bytes(), bytes(Zstd().encode(bytes(99)))
    foreign = packed + google_crc32c.value(packed).to_bytes(4, "little")
    for change, found in (
        (content[:-1], "has changed"),
        (bytes(4), "has changed"),
        (b"", "has changed"),
        (foreign, "is the file of another chunk"),
    ):
        first.write_bytes(change)
        with pytest.raises(DamagedChunk, match=found):
            read_status(cube)
    first.unlink()
    first.symlink_to(second)
    with pytest.raises(InputError, match="a link"):
        read_status(cube)
    first.unlink()
    assert read_status(cube).datasets[0].left > 1  # nothing was written there


def test_a_table_for_people(tmp_path: Path) -> None:
    lines = status(tmp_path).lines()
    assert lines[2].split() == ["iris", "1,200", "1,000", "10", "190"]
    assert lines[3].split() == ["total", "1,200", "1,000", "10", "190"]
    assert lines[4] == "20 of 30 blocks complete"
    finished = status(tmp_path, datasets=(DatasetStatus("iris", 5, 4, 1),))
    assert finished.lines()[-1] == "complete"
    assert finished.to_dict()["complete"]
    assert not status(tmp_path, datasets=()).to_dict()["complete"]


def test_a_run_in_progress_tells_its_pace_and_its_jobs(tmp_path: Path) -> None:
    lost = [LostJob(name=f"old-{n}", job=str(n), node="n2", how="was cancelled", at=0.0) for n in range(9)]
    running = JobRecord(name="sweep-0", job="7", node="n1", state="running", workers=4)
    pending = JobRecord(name="sweep-1", job="", node="", state="pending", workers=0)
    jobs = JobList(wanted=2, jobs=(running, pending), n_lost=9, lost=tuple(lost), at=0.0)
    progress = Progress(restarts=1500, total=6000, workers=4, left=100.0, at=time.time() - 40)
    head = HeadRecord(spec="s", node="n0", dashboard="http://here")
    found = status(tmp_path, run=RunState(HELD, head, None), jobs=jobs, progress=progress)
    assert found.eta == pytest.approx(60, abs=5)
    lines = found.lines()
    assert "worker jobs: 2 wanted, 1 running, 9 lost; 4 workers" in lines
    assert sum("was cancelled" in line for line in lines) == 5  # the last ones
    assert lines[-2] == "dashboard: http://here"
    assert f"run by {HELD.holder}: 1,500 of 6,000 restarts of this run, 4 workers, about 0:0" in lines[-1]
    document = json.loads(json.dumps(found.to_dict()))
    assert (document["jobs"]["running"], document["run"]["restarts"]) == (1, 1500)
    # The jobs of an ended run no longer exist.
    assert not any("worker jobs" in line for line in replace(found, run=IDLE).lines())
    assert status(tmp_path, progress=progress.model_copy(update={"left": 1.0})).eta == 0.0
    for jump, eta in ((-86_400.0, 0.0), (86_400.0, progress.left)):  # of the clock, forward and back
        jumped = progress.model_copy(update={"at": progress.at + jump})
        assert status(tmp_path, progress=jumped).eta == eta


def test_progress_of_an_earlier_run_is_not_shown(cube: Path) -> None:
    earlier = next_generation(cube)
    HeadRecord(spec="s", at=1.0).write(earlier.head)
    StateFile(earlier.state).write(1, 10, 2, 5.0)
    assert read_status(cube).progress is None
    with Lease.acquire(cube) as lease:
        assert read_status(cube).progress is not None
        HeadRecord(spec="s", at=2.0).write(lease.generation.head)
        found = read_status(cube)
        assert found.progress is None
        assert found.lines()[-1].startswith("run by process ")


def test_what_a_head_printed_is_shown_only_if_it_is_its_own(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "tiny.zarr")
    run.make()
    run.head_log.write_text("of the run before\n")
    waits = RunState(None, None, Submission(system="slurm", job="12", host="here", at=time.time() + 60))
    assert not any("of the run before" in line for line in status(tmp_path, run=waits).lines())
    started = RunState(None, None, Submission(system="slurm", job="12", host="here", at=time.time() - 60))
    lines = status(tmp_path, run=started, datasets=()).lines()
    assert any(line.endswith("head.log ends: of the run before") for line in lines)
    assert lines[-1] == "not running yet: its head waits in the queue, job 12"


def test_neither_a_cube_nor_a_run_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_status(tmp_path / "none.zarr")
    RunFolder(tmp_path / "none.zarr").make()
    assert read_status(tmp_path / "none.zarr").datasets == ()
