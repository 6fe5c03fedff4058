"""Time left, and the ways to show it."""

from __future__ import annotations

import io
import logging
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from cubes.writer import next_generation
from rich.console import Console

from pipeline.run import progress
from pipeline.run.progress import Clock, display, step
from storage.runfolder.records import Progress


def test_the_time_left_starts_at_the_prediction_and_follows_the_pace() -> None:
    clock = Clock(predicted=100.0, workers=2)
    assert clock.left() == pytest.approx(50.0, abs=0.1)
    clock.started, clock.done = time.monotonic() - 50.0, 50.0  # half as fast as predicted
    assert clock.left() == pytest.approx(50.0 * (50.0 + 2.5) / 55.0, abs=0.1)
    assert Clock(predicted=0.0, workers=2).left() == 0.0


def test_lines_and_states_come_now_and_then_and_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    generation, now = next_generation(tmp_path / "tiny.zarr"), [100.0]
    lease = SimpleNamespace(generation=generation, files=generation.files)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    clock = SimpleNamespace(left=lambda: 5.0)
    written = {(1, 100.0): 1, (2, 101.0): 1, (3, 102.5): 3, (5, 111.0): 5, (10, 111.5): 10}
    with display((10, 48), clock, Console(file=io.StringIO()), lease) as show:
        for (restarts, now[0]), shown in written.items():
            show((restarts, 12), restarts // 5, 2)
            found = Progress.read(generation.state)
            assert found is not None
            assert (found.restarts, found.asked, found.questions, found.workers) == (shown, 12, 48, 2)
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    with display((10, 0), clock, terminal, lease) as show:
        show((4, 0), 3, 2)
    assert caplog.messages == [
        " 50.0 % · 5 of 10 restarts · 12 of 48 questions · 1 cell in the cube · 0:00:05 left",
        "100.0 % · 10 of 10 restarts · 12 of 48 questions · 2 cells in the cube · 0:00:05 left",
    ]
    assert all(text in terminal.file.getvalue() for text in ("4/10", "3 cells", "0:00:05 left"))


def test_a_step_says_what_happens_and_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    for console, total in (
        (Console(file=io.StringIO()), None),
        (Console(file=io.StringIO()), 0),
        (terminal, 2),
    ):
        with step("timing", console, total) as advance:
            advance()
    assert caplog.messages == ["timing"]
    assert "1/2" in terminal.file.getvalue()
