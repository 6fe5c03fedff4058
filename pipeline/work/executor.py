"""What runs tasks; the serial executor is the reference that every other one must equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Protocol

from pipeline.work.records import Results, Task
from pipeline.work.tasks import run_task
from sweeps.inputs import Source

Outcome = Results | BaseException

Ended = list[tuple[Task, Outcome]]
"""Tasks that ended at about the same time."""

Compiled = Callable[[int], object]
"""Takes how many functions are compiled so far."""

NextTask = Callable[[], Task | None]


class Executor(Protocol):
    """Runs tasks as they are handed out, in any order."""

    @property
    def workers(self) -> int:
        """How many tasks can run at once."""

    def results(self, next_task: NextTask) -> Iterator[Ended]:
        """Ended tasks; asks `next_task` for more until it has none and nothing is in progress.

        What was yielded may bring new ones: it is asked again after each.
        """


class SerialExecutor:
    """The reference: the same tasks in a loop, in this process."""

    workers = 1

    def __init__(self, sources: Mapping[str, Source], *, compiled: Compiled | None = None) -> None:
        self._sources = sources
        load_kernels(compiled)

    def results(self, next_task: NextTask) -> Iterator[Ended]:
        """Run each task before asking for the next."""
        while (task := next_task()) is not None:
            yield [(task, run_task(task, self._sources[task.dataset]))]


def load_kernels(compiled: Compiled | None = None) -> None:
    """Compile the kernels, or load them from the cache: otherwise the first restart pays for it.

    Parameters
    ----------
    compiled : callable or None
        Takes the number of functions compiled so far, whenever there is one more; never called where all of
        them come from the cache.
    """
    from numba.core import event

    from kernels.search.genetic import warm_up

    if compiled is None:
        warm_up()
        return
    numbers, tell = count(1), compiled

    class Counter(event.Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, event: Any) -> None: ...

        def on_end(self, event: Any) -> None:
            tell(next(numbers))

    listener = Counter()
    event.register("numba:compile", listener)
    try:
        warm_up()
    finally:
        event.unregister("numba:compile", listener)
