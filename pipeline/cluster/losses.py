"""Which batches are given up and why, from the events of a compute cluster.

A worker process that dies may be its batch's fault only if its nanny lives on: a node that is lost, preempted
or at its walltime takes the nanny with it. Meanwhile the scheduler runs the batch elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dask.utils import format_bytes

from pipeline.cluster.watchdog import TOPIC
from pipeline.work.records import BatchLost

TOPICS = (TOPIC, "worker-restart-memory")
"""Topics of workers and nannies; the scheduler's topics are the addresses of the workers."""

DEATHS = 3
"""A batch is given up when so many processes died while they ran it; one or two may be chance."""


class TimeLimitExceeded(BatchLost):
    """It ran for too long, and its process was ended."""


class WorkersDied(BatchLost):
    """Process after process died while it ran."""


@dataclass
class Watched:
    """A batch in progress: where it runs since it started, and where processes died while they ran it."""

    limit: float
    where: Mapping[str, str] | None = None
    since: float = 0.0
    unexplained: list[Mapping[str, str]] = field(default_factory=list)
    deaths: int = 0


@dataclass
class Losses:
    """Decides from the events of a compute cluster which batches are given up."""

    _watched: dict[str, Watched] = field(default_factory=dict)
    _overran: set[str] = field(default_factory=set)
    _memory: dict[str, int] = field(default_factory=dict)

    def watch(self, key: str, limit: float) -> None:
        """Expect events of a batch that may run for `limit` seconds."""
        self._watched[key] = Watched(limit)

    def forget(self, key: str) -> None:
        """Expect no more events of a batch."""
        del self._watched[key]

    def begun(self, key: str) -> tuple[Mapping[str, str], float] | None:
        """Where a batch runs and since when, in unix time; None where no worker has begun it."""
        watched = self._watched.get(key)
        return None if watched is None or watched.where is None else (watched.where, watched.since)

    def read(self, topic: str, event: Mapping[str, Any]) -> dict[str, BatchLost]:
        """Take an event; the batches that are given up because of it, by key."""
        if topic == "worker-restart-memory":
            self._memory[event["worker"]] = event["rss"]
        elif topic != TOPIC:
            if event.get("action") == "remove-worker" and not event["expected"]:
                self._worker_gone(topic, event["processing-tasks"])
        elif event["is"] == "worker":
            return self._nanny_seen(event["nanny"])
        elif event["key"] in self._watched:
            return self._batch_event(self._watched[event["key"]], event)
        return {}

    def _batch_event(self, watched: Watched, event: Mapping[str, str]) -> dict[str, BatchLost]:
        if event["is"] == "started":
            watched.where, watched.since = event, time.time()
            return {}
        self._overran.add(event["worker"])
        cause = f"ran for more than {watched.limit:g} s, its time limit, and its worker process was ended"
        return {event["key"]: TimeLimitExceeded(cause, event["node"], event["job"])}

    def _worker_gone(self, worker: str, keys: Iterable[str]) -> None:
        if worker in self._overran:
            return
        for key in keys:
            watched = self._watched.get(key)
            # A batch that was only queued there is not to blame.
            if watched is not None and watched.where is not None and watched.where["worker"] == worker:
                watched.unexplained.append(watched.where)
                watched.where = None

    def _nanny_seen(self, nanny: str | None) -> dict[str, BatchLost]:
        lost: dict[str, BatchLost] = {}
        for key, watched in self._watched.items():
            explained = [where for where in watched.unexplained if where["nanny"] == nanny]
            watched.unexplained = [where for where in watched.unexplained if where["nanny"] != nanny]
            watched.deaths += len(explained)
            if explained and watched.deaths >= DEATHS:
                lost[key] = self._died(watched.deaths, explained[-1])
        return lost

    def _died(self, deaths: int, last: Mapping[str, str]) -> WorkersDied:
        used = self._memory.get(last["worker"])
        why = "out of memory, killed by a signal, or crashed"
        if used is not None:
            why = f"the last one was ended for its memory limit when it used {format_bytes(used)}"
        return WorkersDied(
            f"{deaths} worker processes died while they ran it: {why}", last["node"], last["job"]
        )
