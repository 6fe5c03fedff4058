"""Records of the head of a run: written in one step, read back, or none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from storage.errors import StorageError
from storage.runfolder.head import ENDED, REQUEUED, RUNNING, HeadRecord, Submission

HEAD = HeadRecord(spec="sweeps/uci.toml", data_dir="raw", job="12", node="n1", restarts=2, at=1.5)
SUBMISSION = Submission(system="slurm", job="12", host="login", at=2.5)


@pytest.mark.parametrize("record", [HEAD, SUBMISSION, HeadRecord(spec="s")])
def test_records_come_back(tmp_path: Path, record: HeadRecord | Submission) -> None:
    path = tmp_path / "record.json"
    assert type(record).read(path) is None
    record.write(path)
    assert type(record).read(path) == record
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"spec": 3}', '{"spec": "s", "other": 1}'])
def test_what_is_no_record_of_this_version_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "head.json"
    path.write_text(content)
    assert HeadRecord.read(path) is None


def test_the_next_state_keeps_who_it_is() -> None:
    before = time.time()
    assert HEAD.state == RUNNING
    waiting = HEAD.now(REQUEUED)
    ended = waiting.now(ENDED, "stopped by a signal")
    assert (waiting.state, waiting.how) == (REQUEUED, "")
    assert (ended.state, ended.how) == (ENDED, "stopped by a signal")
    assert before <= waiting.at <= ended.at <= time.time()
    fixed = {"state", "how", "at"}
    assert ended.model_dump(exclude=fixed) == HEAD.model_dump(exclude=fixed)
    assert HEAD.at == 1.5


def test_a_folder_that_vanished_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="vanished"):
        HEAD.write(tmp_path / "gone" / "head.json")


def test_the_file_is_for_people_too(tmp_path: Path) -> None:
    HEAD.write(tmp_path / "head.json")
    text = (tmp_path / "head.json").read_text()
    assert json.loads(text)["spec"] == "sweeps/uci.toml"
    assert text.count("\n") > 5


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_time_that_is_no_number_makes_no_record(tmp_path: Path, value: str) -> None:
    path = tmp_path / "head.json"
    HEAD.write(path)
    text = path.read_text()
    assert '"at": 1.5' in text
    path.write_text(text.replace('"at": 1.5', f'"at": {value}'))
    assert HeadRecord.read(path) is None
