"""Seconds of the restarts that were timed, kept for the next run and for `sweep plan`."""

from __future__ import annotations

import logging
from typing import NamedTuple

from storage.runfolder.folder import RunFolder
from storage.runfolder.record import FileRecord

logger = logging.getLogger(__name__)


class TimedRestart(NamedTuple):
    """Data set, model, accuracy and annotation count of a restart, and the seconds it took.

    `choosing` are those before it, in which its cell chose its shape of covariances.
    """

    dataset: str
    model: str
    p: float | None
    m: int | None
    seconds: float
    choosing: float = 0.0


class TimedQuestions(NamedTuple):
    """Data set, design and accuracy of a batch of questions, the answers before it, and its seconds."""

    dataset: str
    design: str
    p: float
    start: int
    seconds: float


class Pilot(FileRecord):
    """What was timed; a file of a version that asked no questions has none."""

    timed: tuple[TimedRestart, ...] = ()
    questions: tuple[TimedQuestions, ...] = ()


def read_pilot(run: RunFolder) -> Pilot:
    """Read what the last holder has timed; a missing or unreadable file is an empty one, measured again."""
    found = [generation.pilot for generation in run.generations() if generation.pilot.exists()]
    if not found:
        return Pilot()
    pilot = Pilot.read(found[-1])
    if pilot is None:
        logger.warning("%s is not readable: restarts are timed again", found[-1])
        return Pilot()
    return pilot
