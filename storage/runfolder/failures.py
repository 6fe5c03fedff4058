"""The record of failures: which cell, why, where, when and how often, a JSON document a line."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from storage.errors import storage_errors
from storage.files import PLAIN, Files
from storage.runfolder.folder import RunFolder
from storage.runfolder.record import Line, Record
from sweeps.errors import plain_lines
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
        Error and message, on one line.
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
    cause: Line
    node: Line
    job: Line
    traceback: Annotated[str, AfterValidator(plain_lines)]
    cell: str
    at: Line = ""
    attempt: int = 0


def append_failure(path: Path, record: FailureRecord, files: Files = PLAIN) -> None:
    """Add one failure.

    Raises
    ------
    StorageError
        If the file system refuses.
    LeaseLost
        If a later holder of the lease has removed the folder.
    """
    with storage_errors(path), files.fenced(), path.open("a", encoding="utf-8") as file:
        file.write(record.to_text(files.generation) + "\n")


def read_failures(run: RunFolder) -> list[FailureRecord]:
    """All failures recorded, oldest first; a line torn by a kill is left out.

    Raises
    ------
    InputError
        If one is of another format version.
    """
    lines = merged_lines(generation.failures for generation in run.generations())
    text = lines.decode(errors="replace")
    records = (FailureRecord.parse(line, run.path) for line in text.splitlines())
    return [record for record in records if record is not None]


def merged_lines(paths: Iterable[Path]) -> bytes:
    """Lines of several files, each once: a holder of the lease copies those of former ones into its own."""
    lines: dict[bytes, None] = {}
    for path in paths:
        with storage_errors(path), suppress(FileNotFoundError):
            lines |= dict.fromkeys(path.read_bytes().splitlines())
    return b"".join(line + b"\n" for line in lines if line)
