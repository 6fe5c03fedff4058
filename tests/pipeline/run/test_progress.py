"""Time left, and the ways to show it."""

from __future__ import annotations

import io
import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cubes.writer import next_generation
from rich.console import Console

from pipeline.run import progress
from pipeline.run.progress import Clock, display, step
from storage.runfolder.records import Progress


def terminal() -> Any:
    return Console(file=io.StringIO(), force_terminal=True, width=120)


@pytest.fixture
def lease(tmp_path: Path) -> Any:
    """What of a lease says where the state is written."""
    generation = next_generation(tmp_path / "tiny.zarr")
    return SimpleNamespace(generation=generation, files=generation.files)


def test_the_time_left_starts_at_the_prediction_and_follows_the_pace() -> None:
    clock = Clock(predicted=100.0, workers=2)
    assert clock.left() == pytest.approx(50.0, abs=0.1)
    clock.started, clock.done = time.monotonic() - 50.0, 50.0  # half as fast as predicted
    assert clock.left() == pytest.approx(50.0 * (50.0 + 2.5) / 55.0, abs=0.1)
    clock.done = 100.0
    assert clock.left() == 0.0
    assert Clock(predicted=0.0, workers=2).left() == 0.0


def test_lines_and_states_come_now_and_then_and_at_the_end(
    lease: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    clock = SimpleNamespace(left=lambda: 5.0)
    with display((10, 48), clock, Console(file=io.StringIO()), lease) as show:
        for restarts, at, written in (
            (1, 100.0, 1),
            (2, 101.0, 1),
            (3, 102.5, 3),
            (5, 111.0, 5),
            (10, 111.5, 10),
        ):
            now[0] = at
            show((restarts, 12), restarts // 5, 2)
            found = Progress.read(lease.generation.state)
            assert found is not None
            assert found == Progress(
                restarts=written, total=10, workers=2, left=5.0, at=found.at, asked=12, questions=48
            )
    assert [record.getMessage().strip() for record in caplog.records] == [
        "50.0 % · 5 of 10 restarts · 12 of 48 questions · 1 cell in the cube · 0:00:05 left",
        "100.0 % · 10 of 10 restarts · 12 of 48 questions · 2 cells in the cube · 0:00:05 left",
    ]


def test_a_bar_on_a_terminal(lease: Any) -> None:
    console = terminal()
    with display((10, 0), Clock(60.0, 2), console, lease) as show:
        show((4, 0), 3, 2)
    text = console.file.getvalue()
    assert "4/10" in text
    assert "3 cells" in text
    assert "0:00:30 left" in text
    assert "questions" not in text


def test_a_step_says_what_happens_and_how_far_it_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    for total, said in (
        (None, ["loading", "loading: 7 functions"]),
        (9, ["loading", "loading: 7 of 9 functions"]),
    ):
        caplog.clear()
        with step("loading", Console(file=io.StringIO()), total) as advance:
            advance(5, "functions")
            monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
            advance(7, "functions")
        monkeypatch.undo()
        assert caplog.messages == said
    caplog.clear()
    with step("timing", Console(file=io.StringIO()), 0):
        pass
    console = terminal()
    with step("timing", console, 2) as advance:
        advance()
    assert caplog.messages == []
    assert "timing: 1 of 2" in console.file.getvalue()
