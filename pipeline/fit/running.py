"""Fits on several threads, and a bar of their progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import joblib

from sweep_clustering.kernels.fits import Runner
from sweep_clustering.kernels.interrupt import new_flag, shared_flag
from sweep_clustering.pipeline.common import core_count

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress(is_shown: bool = True) -> Iterator[Progress]:
    """Show a bar of fits with the remaining time of those that are known, on a terminal.

    The end of the bar moves as fits come in: choosing ends early if candidates are clearly behind.
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
    console.quiet = not (is_shown and console.is_terminal)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    times = [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
    with Progress(*columns, *times, console=console, transient=True, disable=console.quiet) as bar:
        bar.add_task("fits", total=None)
        yield bar


def runner(n_jobs: int | None, bar: Progress | None = None) -> Runner:
    """Return a function like `map` that makes several calls at a time, and advances the bar.

    It uses threads, as the search holds no lock and shares the table without a copy. `n_jobs` is that of
    `joblib.Parallel`, with all cores by `core_count`.
    """
    n_threads = n_jobs if n_jobs is None or n_jobs > 0 else max(1, core_count() + 1 + n_jobs)
    task = bar.tasks[0] if bar else None

    def run(function: Callable[[int], Any], numbers: Iterable[int]) -> list[Any]:
        flag = new_flag()  # that of the thread that waits for all calls

        def call(number: int) -> Any:
            with shared_flag(flag):
                result = function(number)
            if bar and task:
                bar.advance(task.id)
            return result

        arguments = list(numbers)
        if bar and task:
            bar.update(task.id, total=(task.total or 0) + len(arguments))
        # not scikit-learn's `Parallel`, whose threads set the filters of warnings of the whole process
        calls = map(joblib.delayed(call), arguments)
        return list(joblib.Parallel(n_jobs=n_threads, require="sharedmem")(calls))

    return run
