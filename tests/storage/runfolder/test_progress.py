"""The state of a driver: written every few seconds, with the questions where there are any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage.runfolder import progress
from storage.runfolder.progress import Progress, StateFile


def test_a_state_is_read_back(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state.json")
    file.write(3, 10, 2, 4.5, (12, 48))
    found = Progress.read(tmp_path / "state.json")
    assert found is not None
    assert (found.restarts, found.total, found.workers, found.left) == (3, 10, 2, 4.5)
    assert (found.asked, found.questions) == (12, 48)


def test_states_follow_each_other_slowly_but_the_last_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    file, path = StateFile(tmp_path / "state.json"), tmp_path / "state.json"
    for restarts, now, written in ((1, 100.0, 1), (2, 101.0, 1), (3, 102.5, 3), (10, 102.6, 10)):
        clock[0] = now
        file.write(restarts, 10, 2, 1.0)
        found = Progress.read(path)
        assert found is not None
        assert found.restarts == written


def test_a_state_of_a_version_without_questions_has_none(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    StateFile(path).write(3, 10, 2, 4.5, (12, 48))
    values = json.loads(path.read_text())
    del values["asked"], values["questions"]
    path.write_text(json.dumps(values))
    found = Progress.read(path)
    assert found is not None
    assert (found.asked, found.questions) == (0, 0)
