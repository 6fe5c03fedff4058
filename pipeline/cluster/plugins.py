"""Set-up of every worker before it runs batches, also of workers that join later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from distributed import Client, Worker, WorkerPlugin

from sweep_clustering import ShadowedPackageError, check_shadowing

logger = logging.getLogger(__name__)

LOSSES: Mapping[tuple[str, str], tuple[type[Exception], ...]] = {
    ("distributed.worker", "Failed to communicate with scheduler during heartbeat."): (OSError,),
    ("distributed.worker", "failed during get data with %s -> %s"): (OSError,),
    ("distributed.worker", "Worker stream died during communication: %s"): (OSError,),
    # a worker that leaves by itself closes the queue at which one of its threads waits for the word to leave
    ("distributed.nanny", "Worker process died unexpectedly"): (TypeError, OSError, EOFError),
}
"""Reports of connections that broke, by logger, in the processes of workers; the errors they come with."""


class _InOneLine(logging.Filter):
    """Make one warning without a traceback of each report of a connection that broke."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, LOSSES.get((record.name, str(record.msg)), ())):
            return True
        text = f"{record.getMessage().rstrip('.')}: {type(error).__name__}: {error}"
        record.msg, record.args = " ".join(text.split()), ()
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        # the logger compared its level with the one that the record had
        return logging.getLogger(record.name).isEnabledFor(record.levelno)


_IN_ONE_LINE = _InOneLine()


class LossesInOneLine(WorkerPlugin):  # type: ignore[misc]
    """Let a worker say in one warning that its connection to the scheduler, or to another worker, broke.

    dask reports an error with its traceback. But where the scheduler leaves, as it does first when a run is
    stopped, the worker leaves too; where it stays, the next heartbeat succeeds, or data are fetched again.
    Local workers show errors alone, so that nothing is seen of it; the logs of worker jobs keep the line.
    """

    name = "losses-in-one-line"

    def setup(self, worker: Worker) -> None:
        """Take the reports of this process in hand, of all its workers at once."""
        for name, _ in LOSSES:
            logging.getLogger(name).addFilter(_IN_ONE_LINE)


class SamePackages(WorkerPlugin):  # type: ignore[misc]
    """End a worker that joins later and would import packages of another project; its log says which."""

    name = "same-packages"

    async def setup(self, worker: Worker) -> None:
        """Check the worker's import path."""
        try:
            check_shadowing()
        except ShadowedPackageError as error:
            logger.error("%s", error)
            # Not awaited: a worker that is still starting cannot end before its plugins are set up.
            self._closing = asyncio.create_task(worker.close(reason="shadowed packages", nanny=True))


def prepare_workers(client: Client) -> None:
    """Set up what workers have on every compute cluster.

    Raises
    ------
    ShadowedPackageError
        As of `check_packages`.
    """
    check_packages(client)
    register(client, LossesInOneLine())


def check_packages(client: Client) -> None:
    """Check the workers that are there, and arrange for the others to be checked.

    Raises
    ------
    ShadowedPackageError
        If a worker would import packages of another project.
    """
    for found in client.run(check_shadowing, on_error="return").values():
        if isinstance(found, ShadowedPackageError):
            raise found
    register(client, SamePackages())


def register(client: Client, plugin: WorkerPlugin) -> None:
    """Set a plugin up on all workers; what it raises there is raised here.

    A worker that is lost meanwhile does not matter: the scheduler knows the plugin by then, and sets up the
    worker that replaces it, too.
    """
    try:
        client.register_plugin(plugin)
    except OSError as error:
        logger.warning("a worker was lost while it was set up: %s", error)
