"""The record of failures: which cell, why, where, when and how often, a JSON document a line."""

from __future__ import annotations

import json
from pathlib import Path

from storage.errors import storage_errors
from storage.runfolder.record import Record
from sweeps.plan import Cell


class FailedWork(Record, extra="ignore"):
    """The restarts `start..stop-1` that failed; `known` are the objectives of those before them."""

    cell: Cell | None = None
    start: int
    stop: int
    known: tuple[float, ...] = ()


class FailureRecord(Record, extra="ignore"):
    """One failure of a cell; keys of later versions are left out.

    Parameters
    ----------
    work : FailedWork
        What failed.
    cause : str
        Error and message.
    node, job : str
        Where it ran, and number or name of its job in a queue; empty where that is not known.
    traceback : str
        Empty where the worker died.
    cell : str
        Its name.
    at : str
        When, ISO 8601, UTC; empty in records of older versions.
    attempt : int
        Which failure of this cell in its run it is, from 1; 0 in records of older versions.
    """

    work: FailedWork
    cause: str
    node: str
    job: str
    traceback: str
    cell: str
    at: str = ""
    attempt: int = 0


def append_failure(path: Path, record: FailureRecord) -> None:
    """Add one failure.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    with storage_errors(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record.model_dump()) + "\n")


def read_failures(path: Path) -> list[FailureRecord]:
    """All failures recorded, oldest first; a line torn by a kill is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [record for line in lines if (record := _record(line)) is not None]


def _record(line: str) -> FailureRecord | None:
    try:
        return FailureRecord.model_validate_json(line)
    except ValueError:
        return None
