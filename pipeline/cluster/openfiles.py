"""The limit of open files, which a scheduler needs many of."""

from __future__ import annotations

import logging
import resource

from pipeline.jobs.errors import ComputeClusterError

logger = logging.getLogger(__name__)

ALONE = 48
"""Files of a process with scheduler, driver and dashboard; 36 were counted, and some are to spare."""

OF_A_WORKER = 12
"""For each worker process: pipes to it, and connections of it and of its nanny; 9 to 11 were counted."""


def allow_open_files(n_workers: int) -> None:
    """Raise this process's limit of open files to what a run needs, where the system permits it.

    Parameters
    ----------
    n_workers : int
        Worker processes.

    Raises
    ------
    ComputeClusterError
        If the system does not permit it. Without this check hundreds of operations would fail, each in its
        own way.
    """
    need = ALONE + OF_A_WORKER * n_workers
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= need:
        return
    if hard != resource.RLIM_INFINITY and hard < need:
        some = f"{n_workers} worker {'process' if n_workers == 1 else 'processes'}"
        remedy = "raise the limit (ulimit -Hn), or ask for fewer workers"
        raise ComputeClusterError(f"found a limit of {hard} open files, expected {need} for {some}: {remedy}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
    logger.debug("limit of open files: %d, was %d", need, soft)
