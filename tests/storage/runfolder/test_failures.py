"""The record of failures: what is appended comes back, whatever a kill or another version left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage.errors import StorageError
from storage.runfolder.failures import FailedWork, FailureRecord, append_failure, read_failures


def test_records_of_older_versions_and_torn_lines_are_read(tmp_path: Path) -> None:
    record = {
        "work": {"start": 2, "stop": 4},
        "cause": "X",
        "node": "n",
        "job": "",
        "traceback": "",
        "cell": "c",
    }
    path = tmp_path / "failures.jsonl"
    path.write_text(json.dumps(record) + "\n" + json.dumps(record)[:40])
    work = FailedWork(start=2, stop=4)
    assert read_failures(path) == [
        FailureRecord(work=work, cause="X", node="n", job="", traceback="", cell="c", at="", attempt=0)
    ]
    assert read_failures(tmp_path / "none") == []


def failure(attempt: int = 1, **changes: Any) -> FailureRecord:
    values = {
        "work": FailedWork(start=0, stop=5, known=(-1.5, float("-inf"))),
        "cause": "ValueError: X",
        "node": "n1",
        "job": "34",
        "traceback": "line one\nline two\u2028é",
        "cell": "iris/p=0.8/m=75/replicate=0/posterior",
        "at": "2026-01-02T03:04:05+00:00",
    }
    return FailureRecord(**(values | {"attempt": attempt} | changes))


def test_records_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "failures.jsonl"
    records = [failure(attempt, job="") for attempt in (1, 2, 3)]
    for record in records:
        append_failure(path, record)
    assert read_failures(path) == records
    assert path.read_text().count("\n") == 3, "one line each, whatever a traceback holds"


def test_a_record_after_a_torn_line_is_not_lost_with_it(tmp_path: Path) -> None:
    path = tmp_path / "failures.jsonl"
    append_failure(path, failure(1))
    text = path.read_text()
    for cut in range(0, len(text), 17):
        path.write_text(text + text[:cut] + "\n")
        append_failure(path, failure(2))
        assert read_failures(path) == [failure(1), failure(2)]


def test_keys_of_later_versions_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "failures.jsonl"
    append_failure(path, failure())
    later = json.loads(path.read_text()) | {"machine": "x"}
    later["work"]["batch"] = 7
    path.write_text(json.dumps(later) + '\n[1]\n{"cell": 3}\nnull\n')
    assert read_failures(path) == [failure()]


def test_a_file_system_that_refuses_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="vanished"):
        append_failure(tmp_path / "gone" / "failures.jsonl", failure())
