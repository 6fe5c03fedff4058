"""What runs batches; the serial executor is the reference that every other one must equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from pipeline.work.records import Batch, Failure, Partial
from pipeline.work.tasks import run_batch
from sweeps.inputs.load import Source

Outcome = list[Partial | Failure] | BaseException

Ended = list[tuple[Batch, Outcome]]
"""Batches that ended at about the same time."""

NextBatch = Callable[[], Batch | None]


class Executor(Protocol):
    """Runs batches as they are handed out, in any order."""

    @property
    def workers(self) -> int:
        """How many batches can run at once."""

    def results(self, next_batch: NextBatch) -> Iterator[Ended]:
        """Ended batches; asks `next_batch` for more until it has none and nothing is in progress."""


class SerialExecutor:
    """The reference: the same tasks in a loop, in this process."""

    workers = 1

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        load_kernels()

    def results(self, next_batch: NextBatch) -> Iterator[Ended]:
        """Run each batch before asking for the next."""
        while (batch := next_batch()) is not None:
            yield [(batch, run_batch(batch, self._sources[batch.dataset]))]


def load_kernels() -> None:
    """Compile the kernels, or load them from the cache: otherwise the first restart pays for it."""
    from kernels.search.hgs import warm_up

    warm_up()
