"""Seconds of the restarts that were timed, kept for the next run and for `sweep plan`."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import NamedTuple

from storage.runfolder.folder import RunFolder
from storage.runfolder.record import FileRecord

logger = logging.getLogger(__name__)


class TimedRestart(NamedTuple):
    """Data set, model, accuracy and annotation count of a restart, and the seconds elapsed meanwhile.

    `choosing` are those before it, in which its cell chose its shape of covariances; `busy` is the CPU time
    as a share of both. `search` is its search, where the sweep has several.
    """

    dataset: str
    model: str
    p: float | None
    m: int | None
    seconds: float
    choosing: float = 0.0
    busy: float = 1.0
    search: str | None = None


class TimedQuestions(NamedTuple):
    """Data set, design and accuracy of a batch of questions, the answers before it, and its seconds."""

    dataset: str
    design: str
    p: float
    start: int
    seconds: float
    busy: float = 1.0


class Moment(NamedTuple):
    """When (unix time) and where something was timed, and the load of the machine for each core."""

    at: float
    host: str
    load: float

    @classmethod
    def now(cls) -> Moment:
        """The moment it is, on this machine."""
        return cls(time.time(), socket.gethostname(), os.getloadavg()[0] / (os.cpu_count() or 1))

    @property
    def age(self) -> float:
        """Seconds since then."""
        return time.time() - self.at


class Pilot(FileRecord):
    """What was timed, and when; a file of a version that asked no questions has none."""

    timed: tuple[TimedRestart, ...] = ()
    questions: tuple[TimedQuestions, ...] = ()
    moment: Moment | None = None


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
