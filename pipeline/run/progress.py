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
from sweep_clustering.pipeline.run.ledger import Collector, Work
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.storage.runfolder.records import Progress
from sweep_clustering.sweeps.plan import AskedPath, Cell

logger = logging.getLogger(__name__)

# Shortest time between two lines of a log.
LINE_SECONDS = 10.0

# Shortest time between two states in the run folder.
STATE_SECONDS = 2.0


@dataclass
class Clock:
    """Predict the end of a run from the solver seconds predicted for its work and the time that the work
    took.

    `predicted` counts the solver seconds of all the work since `started`; it is None while restarts are
    timed.
    """

    workers: int
    predicted: float | None = None
    done: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def predict(self, seconds: float) -> None:
        """Take a prediction of the solver seconds of the work that is left, and begin to measure the pace."""
        self.predicted, self.done, self.started = seconds, 0.0, time.monotonic()

    def left(self) -> float | None:
        """Return the wall seconds until the end, or None while nothing is predicted.

        The first batches of a run say little about the pace, so the prediction counts as a twentieth of the
        work.
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
) -> Iterator[Callable[[Collector, int], None]]:
    """Yield a function that shows restarts as they finish, and cells as they come into the cube.

    The console gets a bar where it is a terminal, and the log an occasional line elsewhere. The state is also
    written to the run folder of the lease. With `is_bounded` an adaptive stop may make restarts unnecessary.
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
    logged, written = time.monotonic(), -inf

    def show(collector: Collector, workers: int) -> None:
        nonlocal logged, written
        now, seconds = time.monotonic(), clock.left()
        done = total - collector.remaining[Cell]
        answered = work.questions - collector.remaining[AskedPath]
        left = "timing restarts" if seconds is None else f"{duration(seconds)} left"
        text = f"{done:,} of {most}{plural(total, 'restart')}{before}"
        text += f" · {answered:,} of {plural(work.questions, 'question')}" if work.questions else ""
        text += (
            f" · {work.cells_done + collector.cells_written:,} of {plural(work.cells, 'cell')} in the cube"
        )
        bar.update(task, completed=done, text=text, left=left)
        is_over = done == total and seconds is not None
        if bar.disable and (is_over or now - logged >= LINE_SECONDS):
            logged = now
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
                answers=answered,
                questions=work.questions,
            ).write(lease.generation.state, lease.files)

    with bar:
        yield show


@contextmanager
def step(text: str, console: Console) -> Iterator[None]:
    """Show a part of the start of a run and how long it takes: as a line of a terminal that vanishes, or in
    the log.
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
