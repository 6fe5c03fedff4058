"""Set-up of every worker before it runs batches, also of workers that join later."""

from __future__ import annotations

import asyncio
import logging

from distributed import Client, Worker, WorkerPlugin

from sweep_clustering import ShadowedPackageError, check_shadowing

logger = logging.getLogger(__name__)


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
