"""Two ways to run batches: one after the other here, or on the workers of a dask client."""

from __future__ import annotations

import asyncio
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from distributed import Client, Future, Worker, WorkerPlugin, as_completed

from pipeline.tasks import Batch, Failure, Partial, run_batch
from sweeps.inputs import Source

Outcome = list[Partial | Failure] | BaseException
NextBatch = Callable[[], Batch | None]


class Executor(Protocol):
    """Runs batches as they are handed out, in any order."""

    @property
    def workers(self) -> int:
        """How many batches can run at once."""

    def results(self, next_batch: NextBatch) -> Iterator[tuple[Batch, Outcome]]:
        """Finished batches; asks `next_batch` for more until it has none and nothing is under way."""


class KernelsReady(WorkerPlugin):  # type: ignore[misc]
    """Load the kernels when a worker starts, so that no restart's time includes the compiler's."""

    name = "kernels-ready"

    async def setup(self, worker: Worker) -> None:
        """Compile, or load from the node's cache, in a thread: the worker's heartbeat goes on."""
        await asyncio.to_thread(_warm_up)


class SerialExecutor:
    """The reference: the same tasks in a loop, in this process."""

    workers = 1

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        _warm_up()

    def results(self, next_batch: NextBatch) -> Iterator[tuple[Batch, Outcome]]:
        """Run each batch before asking for the next."""
        while (batch := next_batch()) is not None:
            yield batch, run_batch(batch, self._sources[batch.dataset])


class DaskExecutor:
    """Batches as dask tasks, a bounded number of them in flight.

    Parameters
    ----------
    client : distributed.Client
        Where to run.
    sources : mapping of str to Source
        By data set name; each is sent to a worker at most once, when it is needed.
    """

    def __init__(self, client: Client, sources: Mapping[str, Source]) -> None:
        self._client = client
        self._sources = sources
        self._shipped: dict[str, Future] = {}
        self._workers, self._counted = 1, -math.inf
        client.register_plugin(KernelsReady())

    @property
    def workers(self) -> int:
        """Threads of all workers that were connected a second ago at most: each asking is a round trip."""
        now = time.monotonic()
        if now - self._counted > 1.0:
            threads: Mapping[str, int] = self._client.nthreads()
            self._workers, self._counted = max(1, sum(threads.values())), now
        return self._workers

    def results(self, next_batch: NextBatch) -> Iterator[tuple[Batch, Outcome]]:
        """Keep each worker busy and one batch ahead; what is queued beyond that only costs the scheduler."""
        batches: dict[Future, Batch] = {}
        finished: Any = as_completed()
        while True:
            while len(batches) < 2 * self.workers and (batch := next_batch()) is not None:
                future = self._submit(batch)
                batches[future] = batch
                finished.add(future)
            if not batches:
                return
            future = next(finished)
            batch = batches.pop(future)
            outcome = future.exception() if future.status == "error" else future.result()
            future.release()
            del future
            yield batch, outcome

    def _submit(self, batch: Batch) -> Future:
        return self._client.submit(run_batch, batch, self._source(batch.dataset), pure=False)

    def _source(self, dataset: str) -> Future:
        """A task that returns the data: unlike scattered data, it is made again when its worker is lost."""
        if dataset not in self._shipped:
            with warnings.catch_warnings():
                # The warning advises scatter, which is what must not be done here.
                warnings.filterwarnings("ignore", "Sending large graph")
                self._shipped[dataset] = self._client.submit(
                    _identity, self._sources[dataset], key=f"source-{dataset}", pure=False
                )
        return self._shipped[dataset]


def _identity(source: Source) -> Source:
    return source


def _warm_up() -> None:
    from kernels.hgs import warm_up

    warm_up()
