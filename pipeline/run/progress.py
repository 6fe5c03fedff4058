"""How far a sweep is: a bar on a terminal, plain lines in a log, and a file for commands that read files.

`step` shows a part of the start of a run, `display` the run itself; a `Clock` predicts the seconds left.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

from rich import progress as bars
from rich.console import Console

from pipeline.common import duration, plural
from storage.runfolder.lease import Lease
from storage.runfolder.records import Progress

logger = logging.getLogger(__name__)

# Shortest time between two lines of a log.
LINE_SECONDS = 10.0

# Shortest time between two states in the run folder.
STATE_SECONDS = 2.0


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


@contextmanager
def display(
    totals: tuple[int, int], clock: Clock, console: Console, lease: Lease
) -> Iterator[Callable[[tuple[int, int], int, int], None]]:
    """Show restarts as they finish, and cells as they come into the cube.

    Parameters
    ----------
    totals : tuple of int
        Restarts and questions of this run.
    clock : Clock
        Says how much time is left.
    console : Console
        A bar, where it is a terminal; elsewhere an occasional line in the log.
    lease : Lease
        Of the cube, in whose run folder the state is written.

    Yields
    ------
    callable
        Takes restarts and questions done, cells in the cube, and workers.
    """
    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("restarts{task.fields[asked]} · {task.fields[cells]} ·"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("· {task.fields[left]} left"),
        console=console,
        disable=not console.is_terminal,
    )
    restarts, questions = totals
    task = bar.add_task("sweep", total=restarts, cells="", left="", asked="")
    # A line says how far a run came, so the first waits; the first state says that it has begun.
    shown, written = time.monotonic(), -inf

    def show(done: tuple[int, int], in_cube: int, workers: int) -> None:
        nonlocal shown, written
        now, seconds = time.monotonic(), clock.left()
        left, cells = duration(seconds), plural(in_cube, "cell")
        asked = f" · {done[1]} of {plural(questions, 'question')}" if questions else ""
        bar.update(task, completed=done[0], cells=cells, left=left, asked=asked)
        is_over = done[0] >= restarts
        if bar.disable and (is_over or now - shown >= LINE_SECONDS):
            shown = now
            share = 100 * done[0] / max(restarts, 1)
            text = "%5.1f %% · %d of %d restarts%s · %s in the cube · %s left"
            logger.info(text, share, done[0], restarts, asked, cells, left)
        if is_over or now - written >= STATE_SECONDS:
            written = now
            Progress(
                restarts=done[0],
                total=restarts,
                workers=workers,
                left=seconds,
                at=time.time(),
                asked=done[1],
                questions=questions,
            ).write(lease.generation.state, lease.files)

    with bar:
        yield show


@contextmanager
def step(text: str, console: Console, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Show a part of the start of a run that takes a while: what it is, how far, and for how long.

    Parameters
    ----------
    text : str
        What happens.
    console : Console
        A line that vanishes at the end, where it is a terminal; elsewhere one in the log.
    total : int or None
        How often it is told that something is done; None where that is never said. With 0 nothing is shown.

    Yields
    ------
    callable
        To be told that one more is done.
    """
    bar = bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}"),
        *([] if total is None else [bars.MofNCompleteColumn()]),
        bars.TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or total == 0,
    )
    task = bar.add_task(text, total=total)
    if bar.disable and total != 0:
        logger.info("%s", text)

    def advance() -> None:
        if total is None or bar.tasks[0].completed < total:  # what failed is timed once more
            bar.advance(task)

    with bar:
        yield advance
