"""How far a sweep is, for people: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from pipeline.common import duration, plural

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
    """Shows restarts as they finish, and cells as they come into the cube."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, restarts: int, cells: int, left: float, asked: int = 0) -> None:
        """Show the totals so far, of questions too, and the seconds left."""


class Bar:
    """A live bar for a terminal."""

    def __init__(self, total: int, left: float, console: Console, questions: int = 0) -> None:
        self._questions = questions
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("restarts{task.fields[asked]} · {task.fields[cells]} ·"),
            TimeElapsedColumn(),
            TextColumn("· {task.fields[left]} left"),
            console=console,
        )
        asked, written = _questions(0, questions), plural(0, "cell")
        self._task = self._progress.add_task(
            "sweep", total=total, cells=written, left=duration(left), asked=asked
        )

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self, restarts: int, cells: int, left: float, asked: int = 0) -> None:
        """Show the totals so far, of questions too, and the seconds left."""
        words = _questions(asked, self._questions)
        written = plural(cells, "cell")
        self._progress.update(self._task, completed=restarts, cells=written, left=duration(left), asked=words)


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

    def update(self, restarts: int, cells: int, left: float, asked: int = 0) -> None:
        """Log the totals so far and the seconds left, at most once in `LINE_SECONDS`."""
        now = time.monotonic()
        if now - self._last < LINE_SECONDS and restarts < self._total:
            return
        self._last = now
        share = 100 * restarts / max(self._total, 1)
        logger.info(
            "%5.1f %% · %d of %d restarts%s · %s in the cube · %s left",
            share,
            restarts,
            self._total,
            _questions(asked, self._questions),
            plural(cells, "cell"),
            duration(left),
        )


class Step:
    """A part of the start of a run that takes a while: what it is, how far, and for how long.

    Parameters
    ----------
    text : str
        What happens.
    console : Console
        A line that vanishes at the end, where it is a terminal; elsewhere lines in the log.
    total : int or None
        How often `advance` says that something is done; None where nobody knows. With 0 nothing is shown.
    """

    def __init__(self, text: str, console: Console, total: int | None = None) -> None:
        self._text = text
        self._total = total
        self._done = 0
        self._last = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}{task.fields[far]} ·"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal or total == 0,
        )
        self._task = self._progress.add_task(text, total=total, far="")

    def __enter__(self) -> Step:
        if self._progress.disable and self._total != 0:
            logger.info("%s", self._text)
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, done: int | None = None, what: str = "") -> None:
        """One more is done, or `done` of them are; of `what`. May be called from any thread."""
        self._done = self._done + 1 if done is None else max(done, self._done)
        far = f"{self._done}" if self._total is None else f"{self._done} of {self._total}"
        self._progress.update(self._task, completed=self._done, far=f": {far} {what}".rstrip())
        now = time.monotonic()
        if self._progress.disable and now - self._last >= LINE_SECONDS:
            self._last = now
            logger.info("%s: %s %s", self._text, far, what)


def display(total: int, left: float, console: Console, questions: int = 0) -> Display:
    """Bar on a terminal, lines elsewhere; `left` seconds are expected, for restarts and questions."""
    return Bar(total, left, console, questions) if console.is_terminal else Lines(total, questions)


def _questions(asked: int, total: int) -> str:
    """Questions asked so far, where there are any."""
    return f" · {asked} of {total} questions" if total else ""
