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

from sweep_clustering.pipeline.common import duration, plural
from sweep_clustering.pipeline.run.ledger import Work
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.storage.runfolder.records import Progress

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
    workers : int
        Processes that share the work.
    predicted : float or None
        Solver seconds predicted for all the work since `started`; None while restarts are timed.
    """

    workers: int
    predicted: float | None = None
    done: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def predict(self, seconds: float) -> None:
        """Take a prediction of the solver seconds of what is left, and begin to measure the pace."""
        self.predicted, self.done, self.started = seconds, 0.0, time.monotonic()

    def left(self) -> float | None:
        """Wall seconds still to go: the pace so far, with the prediction counted as a twentieth of the work.

        The first batches of a run say little about the pace. None while nothing is predicted.
        """
        if self.predicted is None:
            return None
        prior = 0.05 * self.predicted
        if self.predicted <= 0:
            return 0.0
        elapsed = time.monotonic() - self.started
        pace = (elapsed + prior / self.workers) / (self.done + prior)
        return max(0.0, self.predicted - self.done) * pace


@contextmanager
def display(
    work: Work, clock: Clock, console: Console, lease: Lease, *, is_bounded: bool = False
) -> Iterator[Callable[[int, int, int, int], None]]:
    """Show restarts as they finish, and cells as they come into the cube; what was done before is counted.

    Parameters
    ----------
    work : Work
        Work of this run at its start.
    clock : Clock
        Clock that says how much time is left.
    console : Console
        A bar, where it is a terminal; elsewhere an occasional line in the log.
    lease : Lease
        Lease of the cube, in whose run folder the state is written.
    is_bounded : bool
        Whether an adaptive stop may make restarts unnecessary.

    Yields
    ------
    callable
        Function that takes the restarts and the questions that are left, the cells that this run has written,
        and the number of workers.
    """
    bar = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[text]} ·"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("· {task.fields[left]}"),
        console=console,
        disable=not console.is_terminal,
    )
    total, earlier = work.restarts, work.restarts - work.left
    most = "at most " if is_bounded else ""
    before = f", {earlier:,} of them before this run" if earlier else ""
    task = bar.add_task("sweep", total=total, completed=earlier, text="", left="")
    # A line says how far a run came, so the first waits; the first state says that it has begun.
    shown, written = time.monotonic(), -inf

    def show(restarts_left: int, questions_left: int, cells_written: int, workers: int) -> None:
        nonlocal shown, written
        now, seconds = time.monotonic(), clock.left()
        done, asked = total - restarts_left, work.questions - questions_left
        left = "timing restarts" if seconds is None else f"{duration(seconds)} left"
        text = f"{done:,} of {most}{plural(total, 'restart')}{before}"
        text += f" · {asked:,} of {plural(work.questions, 'question')}" if work.questions else ""
        text += f" · {work.cells_done + cells_written:,} of {plural(work.cells, 'cell')} in the cube"
        bar.update(task, completed=done, text=text, left=left)
        is_over = not restarts_left and seconds is not None
        if bar.disable and (is_over or now - shown >= LINE_SECONDS):
            shown = now
            logger.info("%5.1f %% · %s · %s", 100 * done / max(total, 1), text, left)
        if is_over or now - written >= STATE_SECONDS:
            written = now
            Progress(
                restarts=done,
                total=total,
                earlier=earlier,
                workers=workers,
                left=seconds,
                at=time.time(),
                asked=asked,
                questions=work.questions,
            ).write(lease.generation.state, lease.files)

    with bar:
        yield show


@contextmanager
def step(text: str, console: Console) -> Iterator[None]:
    """Show a part of the start of a run that takes a while, and for how long.

    Parameters
    ----------
    text : str
        Name of the part.
    console : Console
        A line that vanishes at the end, where it is a terminal; elsewhere one in the log.
    """
    bar = bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}"),
        bars.TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    bar.add_task(text, total=None)
    if bar.disable:
        logger.info("%s", text)
    with bar:
        yield
