"""The record of failures, `failures.jsonl`: which cell, why, where, when and how often."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.tasks import Failure, Work
from storage.errors import storage_errors

FILE_NAME = "failures.jsonl"


class BatchLost(Exception):
    """A batch is given up: it ended its worker.

    Parameters
    ----------
    cause : str
        What happened.
    node, job : str
        Where.
    """

    def __init__(self, cause: str, node: str = "", job: str = "") -> None:
        super().__init__(cause)
        self.node = node
        self.job = job


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


def lost_with_its_worker(work: Work, error: BaseException) -> Failure:
    """Failure of a work whose worker died under it."""
    node, job = "", ""
    last = getattr(error, "last_worker", None)  # of distributed's KilledWorker
    if isinstance(error, BatchLost):
        node, job = error.node, error.job
    elif last is not None:
        node, job = last.host, last.name if isinstance(last.name, str) else ""
    return Failure(work, f"{type(error).__name__}: {error}", node, job, "")


def append_failure(path: Path, failure: Failure, attempt: int) -> None:
    """Add one failure to the record.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    at = datetime.now(UTC).isoformat(timespec="seconds")
    record = {**asdict(failure), "cell": str(failure.work.cell), "at": at, "attempt": attempt}
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
