"""Many workers of dask on few processors: threads of a few processes, for work that only sleeps.

The scheduler sees each of them as a worker with its own connections, heartbeats and plugins.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import dask
from distributed import LocalCluster, Worker, system
from distributed.security import Security

from sweep_clustering.pipeline.cluster import connect

# Seconds until all workers must have come.
PATIENCE = 900.0

# Workers observe themselves many times a second: hundreds on two processors would do little else.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.system-monitor.interval": "60s",
}


@contextmanager
def light_cluster(processes: int) -> Iterator[None]:
    """Give every local cluster light workers, divided among so many processes, in place of its own."""
    hosts: list[Any] = []

    def start(n_workers: int, **options: Any) -> LocalCluster:
        cluster = LocalCluster(n_workers=0, **options)
        cluster.adapt = lambda **_: None  # it would replace these workers by processes of its own
        shares = [len(range(part, n_workers, processes)) for part in range(processes)]
        for number, share in enumerate(shares):
            name = f"light-{number}"
            arguments = (cluster.scheduler_address, options["security"], name, share, dask.config.config)
            process = get_context("spawn").Process(target=_host, args=arguments, daemon=True)
            process.start()
            hosts.append(process)
        deadline = time.monotonic() + PATIENCE
        while len(cluster.scheduler.workers) < n_workers:
            if time.monotonic() > deadline or not all(process.is_alive() for process in hosts):
                raise RuntimeError(f"{len(cluster.scheduler.workers)} of {n_workers} workers came")
            time.sleep(0.1)
        return cluster

    try:
        # Threads share the memory of a process, and a plan would refuse so many workers.
        with patch.object(connect, "LocalCluster", start), patch.object(system, "MEMORY_LIMIT", sys.maxsize):
            yield
    finally:
        for process in hosts:
            process.kill()
            process.join()


def _host(address: str, security: Security, name: str, count: int, config: dict[str, Any]) -> None:
    """Hold `count` workers in this process until the scheduler ends them."""
    connect.allow_open_files(count)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with dask.config.set(config | QUIET):
        asyncio.run(_workers(address, security, name, count))


async def _workers(address: str, security: Security, name: str, count: int) -> None:
    workers = [
        Worker(
            address,
            nthreads=1,
            name=f"{name}-{number}",
            security=security,
            memory_limit=0,
            dashboard=False,
            host="127.0.0.1",
        )
        for number in range(count)
    ]
    for worker in workers:  # One after the other, because the scheduler's queue of new connections is short.
        await worker
    await asyncio.gather(*(worker.finished() for worker in workers))
