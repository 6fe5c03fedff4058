"""The record of failures, `failures.jsonl`: which cell, why, where, when and how often."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storage.errors import storage_errors

FILE_NAME = "failures.jsonl"


@dataclass(frozen=True)
class FailureRecord:
    """One failure of a cell.

    Parameters
    ----------
    cell : str
        Its name.
    cause : str
        Error and message.
    node, job : str
        Where it ran, and number or name of its job in a queue; empty where that is not known.
    traceback : str
        Empty where the worker died.
    at : str
        When, ISO 8601, UTC; empty in records of older versions.
    attempt : int
        Which failure of this cell in its run it is, from 1; 0 in records of older versions.
    restarts : tuple of int
        Half-open range of the restarts of the work that failed.
    """

    cell: str
    cause: str
    node: str
    job: str
    traceback: str
    at: str
    attempt: int
    restarts: tuple[int, int]


def append_failure(path: Path, cell: str, failure: Mapping[str, Any], attempt: int) -> None:
    """Add one failure to the record.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    at = datetime.now(UTC).isoformat(timespec="seconds")
    record = {**failure, "cell": cell, "at": at, "attempt": attempt}
    with storage_errors(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def read_failures(path: Path) -> list[FailureRecord]:
    """All failures recorded, oldest first; a line torn by a kill is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [record for line in lines if (record := _record(line)) is not None]


def _record(line: str) -> FailureRecord | None:
    try:
        values: dict[str, Any] = json.loads(line)
        texts = {key: str(values[key]) for key in ("cell", "cause", "node", "job", "traceback")}
        restarts = (int(values["work"]["start"]), int(values["work"]["stop"]))
        at, attempt = str(values.get("at", "")), int(values.get("attempt", 0))
    except (ValueError, TypeError, KeyError):
        return None
    return FailureRecord(**texts, at=at, attempt=attempt, restarts=restarts)
