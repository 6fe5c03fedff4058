"""How far a sweep is, for people: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline.text import duration

logger = logging.getLogger(__name__)

LINE_SECONDS = 10.0
"""Shortest time between two lines of a log."""


@dataclass
class Clock:
    """Predicts the end from what was predicted for the work done, and what it took.

    Parameters
    ----------
    predicted : float
        Solver seconds predicted for all the work of this run.
    workers : int
        Processes that share it.
    """

    predicted: float
    workers: int
    done: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Wall seconds still to go: the pace so far, with the prediction counted as a twentieth of the work.

        The first batches of a run say little about the pace.
        """
        prior = 0.05 * self.predicted
        if self.predicted <= 0:
            return 0.0
        elapsed = time.monotonic() - self.started
        pace = (elapsed + prior / self.workers) / (self.done + prior)
        return max(0.0, self.predicted - self.done) * pace


class Display(Protocol):
    """Shows restarts and blocks as they finish."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, restarts: int, blocks: int, left: float, asked: int = 0) -> None:
        """Show the totals so far, of questions too, and the seconds left."""


class Bar:
    """A live bar for a terminal."""

    def __init__(self, total: int, left: float, console: Console, questions: int = 0) -> None:
        self._questions = questions
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("restarts{task.fields[asked]} · {task.fields[blocks]} blocks ·"),
            TimeElapsedColumn(),
            TextColumn("· {task.fields[left]} left"),
            console=console,
        )
        asked = _questions(0, questions)
        self._task = self._progress.add_task("sweep", total=total, blocks=0, left=duration(left), asked=asked)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self, restarts: int, blocks: int, left: float, asked: int = 0) -> None:
        """Show the totals so far, of questions too, and the seconds left."""
        words = _questions(asked, self._questions)
        self._progress.update(self._task, completed=restarts, blocks=blocks, left=duration(left), asked=words)


class Lines:
    """An occasional line, for a log."""

    def __init__(self, total: int, questions: int = 0) -> None:
        self._total = total
        self._questions = questions
        self._last = time.monotonic()

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, restarts: int, blocks: int, left: float, asked: int = 0) -> None:
        """Log the totals so far and the seconds left, at most once in `LINE_SECONDS`."""
        now = time.monotonic()
        if now - self._last < LINE_SECONDS and restarts < self._total:
            return
        self._last = now
        share = 100 * restarts / max(self._total, 1)
        logger.info(
            "%5.1f %% · %d of %d restarts%s · %d blocks written · %s left",
            share,
            restarts,
            self._total,
            _questions(asked, self._questions),
            blocks,
            duration(left),
        )


def display(total: int, left: float, console: Console, questions: int = 0) -> Display:
    """Bar on a terminal, lines elsewhere; `left` seconds are expected, for restarts and questions."""
    return Bar(total, left, console, questions) if console.is_terminal else Lines(total, questions)


def _questions(asked: int, total: int) -> str:
    """Questions asked so far, where there are any."""
    return f" · {asked} of {total} questions" if total else ""
