"""Time left, and the ways to show it."""

from __future__ import annotations

import io
import logging
import time
from pathlib import Path

import pytest
from rich.console import Console

import pipeline.run.progress
from pipeline.common import duration
from pipeline.run.progress import Bar, Clock, Lines, display
from storage.errors import StorageError
from storage.runfolder.records import Progress, StateFile


def test_durations() -> None:
    assert [duration(seconds) for seconds in (-1, 0.4, 61, 3599.6, 90_000)] == [
        "0:00:00", "0:00:00", "0:01:01", "1:00:00", "25:00:00",
    ]  # fmt: skip


def test_the_time_left_starts_at_the_prediction_and_follows_the_pace() -> None:
    clock = Clock(predicted=100.0, workers=2)
    assert clock.left() == pytest.approx(50.0, abs=0.1)
    clock.started, clock.done = time.monotonic() - 50.0, 50.0  # half as fast as predicted
    assert clock.left() == pytest.approx(50.0 * (50.0 + 2.5) / 55.0, abs=0.1)
    clock.done = 100.0
    assert clock.left() == 0.0
    assert Clock(predicted=0.0, workers=2).left() == 0.0


def test_lines_come_now_and_then_and_at_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    with Lines(10) as lines:
        lines.update(1, 0, 9.0)
        assert not caplog.records
        monkeypatch.setattr(pipeline.run.progress, "LINE_SECONDS", 0.0)
        lines.update(5, 1, 5.0)
        lines.update(10, 2, 0.0)
    assert [record.message.strip() for record in caplog.records] == [
        "50.0 % · 5 of 10 restarts · 1 cell in the cube · 0:00:05 left",
        "100.0 % · 10 of 10 restarts · 2 cells in the cube · 0:00:00 left",
    ]


def test_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    with display(10, 61.0, terminal) as shown:
        assert isinstance(shown, Bar)
        shown.update(4, 3, 30.0)
    text = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "4/10" in text
    assert "0:00:30 left" in text
    assert isinstance(display(10, 61.0, Console(file=io.StringIO())), Lines)


def test_the_state_is_written_now_and_then_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert Progress.read(path) is None
    state = StateFile(path)
    state.write(1, 10, 2, 9.0)
    state.write(2, 10, 2, 8.0)
    read = Progress.read(path)
    assert read is not None
    assert (read.restarts, read.total, read.workers, read.left) == (1, 10, 2, 9.0)
    state.write(10, 10, 2, 0.0)
    read = Progress.read(path)
    assert read is not None
    assert read.restarts == 10
    path.write_text("{")
    assert Progress.read(path) is None


def test_a_state_that_cannot_be_written_is_the_disks_fault(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="vanished"):
        StateFile(tmp_path / "gone" / "state.json").write(1, 10, 2, 9.0)
