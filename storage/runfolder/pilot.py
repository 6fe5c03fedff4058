"""Seconds of the restarts that were timed, kept for the next run and for `sweep plan`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from storage.errors import storage_errors
from storage.files import write_file

logger = logging.getLogger(__name__)


class TimedRestart(NamedTuple):
    """Data set, model, accuracy and annotation count of a restart, and the seconds it took."""

    dataset: str
    model: str
    p: float | None
    m: int | None
    seconds: float


def read_pilot(path: Path) -> list[TimedRestart]:
    """Read what was timed; a missing or unreadable file is an empty one, measured again."""
    try:
        return TypeAdapter(list[TimedRestart]).validate_json(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        logger.warning("%s is not readable (%s): restarts are timed again", path, error)
        return []


def write_pilot(path: Path, timed: Iterable[TimedRestart]) -> None:
    """Replace the file in one step.

    Raises
    ------
    StorageError
        If the file system refuses.
    """
    with storage_errors(path):
        write_file(path, json.dumps(list(timed)).encode())
