"""Stopping on SIGINT, SIGTERM and SIGUSR1, but never in the middle of a write."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""The last one is what queueing systems can send some time before the walltime."""


class Stopped(BaseException):
    """A signal asked the driver to stop; what was reported done is kept."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def stop_on_signal() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGUSR1 into `Stopped`, raised in the main thread."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    with _handled_by(stop):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold signals back while files are written; they are answered when the block ends.

    An exception out of nowhere inside zarr's event loop leaves tasks behind that complain at exit.
    """
    pending: list[int] = []
    with _handled_by(lambda number, frame: pending.append(number)):
        yield
    for number in pending:
        signal.raise_signal(number)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is ever interrupted
        return
    before = [signal.signal(number, handler) for number in NUMBERS]
    try:
        yield
    finally:
        for number, old in zip(NUMBERS, before, strict=True):
            signal.signal(number, old)
