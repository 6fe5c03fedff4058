"""The document: the same numbers as `sweep status`, and differences that add up to the whole."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from cubes.small import draw_block, make_plan
from cubes.writer import empty, next_generation

from pipeline.live import sources
from pipeline.live import state as module
from pipeline.live.sources import Follower
from pipeline.live.state import MOST_WORKERS, AtWork, Crew, Pace, State
from pipeline.monitor.status import read_status
from storage.cube.blocks import BlockStore
from storage.runfolder import records
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import Lease
from storage.runfolder.records import FailedWork, FailureRecord, HeadRecord, Progress, append_failure
from sweeps.plan import Cell

PLAN = make_plan(p=(0.8, 0.9))
NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the files each time."""
    monkeypatch.setattr(module, "SNAPSHOT_SECONDS", 0.0)
    monkeypatch.setattr(sources, "PATIENCE", 0)
    monkeypatch.setattr(sources, "LEAST_SECONDS", 0.0)


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return empty(tmp_path, PLAN)


def test_differences_add_up_to_the_whole(cube: Path) -> None:
    follower, store = Follower(cube), BlockStore(cube)
    state = State(cube, follower, skipped={})
    name, first = state.document()
    states: list[dict[str, Any]] = [json.loads(first)]
    assert state.document(name) == (name, b"")
    for block in PLAN.blocks():
        store.write(block, draw_block(PLAN, block))
        while (answer := state.document(name))[0] != name:
            name = answer[0]
            states.append(json.loads(answer[1]))
            assert (states[-1]["name"], "grid" in states[-1]) == (name, False)
            assert len(states[-1]["tiles"]) <= 1
    whole = json.loads(state.document()[1])
    assert "grid" in states[0]
    assert "grid" in whole
    assert len(whole["tiles"]) == len(follower.board.grid.models)
    for part, n in (("tiles", 1), ("series", 4)):
        seen = {tuple(row[:n]): row[n] for each in states for row in each[part]}
        assert seen == {tuple(row[:n]): row[n] for row in whole[part]}
    # a state that was never there gives all
    own = (f"{state.token}.{rest}" for rest in ("1.-3", "9.99999", "1." + "9" * 5000, "1.²"))
    for since in ("x", "..", "a.1.2", *own):
        assert "grid" in json.loads(state.document(since)[1])


def test_numbers_and_words_are_those_of_status(cube: Path) -> None:
    block = next(PLAN.blocks())
    BlockStore(cube).write(block, draw_block(PLAN, block))
    with Lease.acquire(cube) as lease:
        head = HeadRecord(spec="s", node="n0", dashboard="http://here").now("running")
        head.write(lease.generation.head, lease.files)
        records.StateFile(lease.generation.state, lease.files).write(5, 20, 3, 60.0)
        RunFolder(cube).log.write_text("".join(f"line {n} {'x' * 500}\n" for n in range(30)))
        crew = Crew(1000, [AtWork(f"w{n}", "n", "", "a", float(-n)) for n in range(996)])
        state = State(cube, Follower(cube), skipped={"ecoli": ("not here",)}, crew=lambda: crew)
        shown = json.loads(state.document()[1])["head"]
        status = read_status(cube)
    assert [line.split()[1] for line in shown["log"]] == [str(n) for n in range(18, 30)]
    assert {len(line) for line in shown["log"]} == {400}
    workers = shown["crew"]
    assert (workers["connected"], workers["busy"], len(workers["rows"])) == (1000, 996, MOST_WORKERS)
    assert workers["rows"][0] == ["w995", "n", "", "a", -995.0]  # who began first
    expected = status.to_dict()
    found = shown["status"]
    for key in ("total", "blocks", "datasets", "holder", "head", "log", "dashboard"):
        assert found[key] == expected[key]
    assert found["run"] == {"restarts": 5, "total": 20, "workers": 3, "asked": 0, "questions": 0}
    assert found["skipped"] == {"ecoli": ["not here"]}
    assert shown["who"].startswith("run by ")
    assert shown["ends_at"] == pytest.approx(time.time() + 60, abs=20)


def test_failures_have_their_cause_and_tile(cube: Path) -> None:
    cell = Cell("a", None, 0.9, 4, 1, "likelihood")
    generation = next_generation(cube)
    facts = {"node": "n1", "job": "7", "traceback": "", "at": "2026-01-02T03:04:05+00:00"}
    for attempt in (1, 2):
        for other in (cell, Cell("gone", None, 0.5, 1, 0, "posterior")):
            work = FailedWork(cell=other, start=0, stop=3)
            cause = f"{NASTY} {attempt}"
            record = FailureRecord(work=work, cause=cause, cell=str(other), attempt=attempt, **facts)
            append_failure(generation.failures, record)
    follower = Follower(cube)
    found = json.loads(State(cube, follower, skipped={}).document()[1])["head"]["failures"]
    assert (found["cells"], found["records"]) == (2, 4)
    gone, mine = found["last"]
    assert (mine["cell"], mine["cause"], mine["attempt"]) == (str(cell), f"{NASTY} 2", 2)
    assert mine["tile"] == follower.board.grid.tile(cell)
    assert gone["tile"] is None


def test_a_state_is_made_once_for_all_who_look(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_SECONDS", 1000.0)
    looks: list[int] = []
    keeper = Follower(cube)
    monkeypatch.setattr(keeper, "update", lambda: looks.append(1))
    state = State(cube, keeper, skipped={})
    assert len({state.document() for _ in range(10)}) == 1
    assert len(looks) == 1


def test_the_pace_is_that_of_the_last_minutes() -> None:
    pace = Pace()
    assert pace.to_dict() == {"per_second": None, "seconds": 0, "steps": []}

    def progress(at: float, restarts: int) -> Progress:
        return Progress(restarts=restarts, total=10**6, workers=1, left=1.0, at=at)

    for at in range(0, 2000, 10):
        pace.note(progress(float(at), 4 * at))
        pace.note(progress(at + 1.0, 4 * at + 4))  # too soon after
    found = pace.to_dict()
    assert found["per_second"] == 4.0
    assert 590 <= found["seconds"] <= 600
    assert set(found["steps"]) == {4.0}
    pace.note(progress(3000.0, 5))  # another run
    assert pace.to_dict()["steps"] == []
