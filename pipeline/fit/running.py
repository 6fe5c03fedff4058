"""Fits side by side on threads, and how far they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.utils import parallel

from sweep_clustering.kernels.interrupt import new_flag, shared_flag
from sweep_clustering.pipeline.common import core_count
from sweep_clustering.pipeline.fit.solve import Runner


class Steps:
    """What is told of work that comes in and is done; nobody listens."""

    def more(self, count: int) -> None:
        """Some more work."""

    def done(self) -> None:
        """A piece of work is done."""


class _Bar(Steps):
    """A bar whose end moves as work comes in: choosing ends early where candidates are clearly behind."""

    def __init__(self, bar: Any) -> None:
        self.bar, self.total = bar, 0
        self.task = bar.add_task("fits", total=None)

    def more(self, count: int) -> None:
        self.total += count
        self.bar.update(self.task, total=self.total)

    def done(self) -> None:
        self.bar.update(self.task, advance=1)


@contextmanager
def progress(shown: bool = True) -> Iterator[Steps]:
    """A bar of fits with the time left of those that are known, on a terminal.

    Parameters
    ----------
    shown : bool
        Whether there is one at all.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield Steps()
        return
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    times = [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
    with Progress(*columns, *times, console=console, transient=True) as bar:
        yield _Bar(bar)


def runner(n_jobs: int | None, steps: Steps | None = None) -> Runner:
    """What `map` does, so many calls at a time.

    Threads, as the search holds no lock and shares the table with no copy.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads, as of `joblib.Parallel`; -1 is as many as `core_count` says.
    steps : Steps, optional
        Told of the calls.
    """
    seen = steps or Steps()
    n_threads = n_jobs if n_jobs is None or n_jobs > 0 else max(1, core_count() + 1 + n_jobs)

    def run(function: Callable[[int], Any], numbers: Iterable[int]) -> list[Any]:
        flag = new_flag()  # that of the thread that waits for all of them

        def one(number: int) -> Any:
            with shared_flag(flag):
                found = function(number)
            seen.done()
            return found

        whole = list(numbers)
        seen.more(len(whole))
        calls = map(parallel.delayed(one), whole)
        return list(parallel.Parallel(n_jobs=n_threads, require="sharedmem")(calls))

    return run
