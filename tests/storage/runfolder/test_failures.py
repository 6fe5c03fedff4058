"""The record of failures: what is appended comes back, whatever a kill or another release left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import StorageError
from storage.runfolder.failures import FailedWork, FailureRecord, append_failure, read_failures
from storage.runfolder.folder import RunFolder
from storage.runfolder.generation import Generation
from sweeps.errors import InputError


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "tiny.zarr")
    run.make()
    return run


@pytest.fixture
def path(run: RunFolder) -> Path:
    generation = Generation(run, 1)
    generation.open()
    return generation.failures


def failure(attempt: int = 1, **changes: Any) -> FailureRecord:
    values = {
        "work": FailedWork(start=0, stop=5, known=(-1.5, float("-inf"))),
        "cause": "ValueError: X",
        "node": "n1",
        "job": "34",
        "traceback": "line one\nline two é",
        "cell": "iris/p=0.8/m=75/replicate=0/posterior",
        "at": "2026-01-02T03:04:05+00:00",
    }
    return FailureRecord(**(values | {"attempt": attempt} | changes))


def test_records_come_back_in_order(run: RunFolder, path: Path) -> None:
    assert read_failures(run) == []
    records = [failure(attempt, job="") for attempt in (1, 2, 3)]
    for record in records:
        append_failure(path, record)
    assert read_failures(run) == records
    assert path.read_text().count("\n") == 3, "one line each, whatever a traceback holds"


def test_those_of_all_holders_come_each_once(run: RunFolder, path: Path) -> None:
    append_failure(path, failure(1))
    second = Generation(run, 2)
    second.open()
    # What a holder does that is killed before it has removed what it took over.
    second.failures.write_bytes(path.read_bytes())
    append_failure(second.failures, failure(2), second.files)
    assert read_failures(run) == [failure(1), failure(2)]
    assert json.loads(second.failures.read_text().splitlines()[1])["generation"] == 2


def test_a_record_after_a_torn_line_is_not_lost_with_it(run: RunFolder, path: Path) -> None:
    append_failure(path, failure(1))
    text = path.read_text()
    for cut in range(0, len(text), 17):
        path.write_text(text + text[:cut] + "\n")
        append_failure(path, failure(2))
        assert read_failures(run) == [failure(1), failure(2)]


def test_keys_of_later_releases_are_left_out(run: RunFolder, path: Path) -> None:
    append_failure(path, failure())
    later = json.loads(path.read_text()) | {"machine": "x"}
    later["work"]["batch"] = 7
    path.write_text(json.dumps(later) + '\n[1]\n{"cell": 3}\nnull\n{"version": 2, "generation": 1}\n')
    assert read_failures(run) == [failure()]


def test_another_format_version_is_said(run: RunFolder, path: Path) -> None:
    path.write_text('{"version": 3, "generation": 1}\n')
    with pytest.raises(InputError, match="format version 3, expected 2"):
        read_failures(run)


def test_a_file_system_that_refuses_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="vanished"):
        append_failure(tmp_path / "gone" / "failures.jsonl", failure())


def test_a_directory_in_the_place_of_the_file_is_an_error_of_the_disk(run: RunFolder, path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    with pytest.raises(StorageError, match=r"Is a directory"):
        read_failures(run)


ANY = st.text(st.characters(exclude_categories=()), max_size=50)


@given(cause=ANY, traceback=ANY, node=ANY, cell=ANY)
def test_any_text_is_stored_and_comes_back(cause: str, traceback: str, node: str, cell: str) -> None:
    record = failure(cause=cause, traceback=traceback, node=node, cell=cell)
    assert FailureRecord.parse(record.to_text(1), Path()) == record
    assert record.cause.isprintable()


def test_the_cause_in_a_file_of_an_older_release_is_shown_on_one_line(run: RunFolder, path: Path) -> None:
    older = json.loads(failure().to_text(1)) | {"cause": "a\n" * 9_000 + "\x1b[2J\udcff"}
    path.write_text(json.dumps(older) + "\n")
    (found,) = read_failures(run)
    assert (len(found.cause), found.cause[:4]) == (500, "a a ")
    assert found.cause.isprintable()
