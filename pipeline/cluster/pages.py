"""Pages of the scheduler that are not served: whoever asks for them would change what the run does.

Everybody on this machine can open the dashboard. dask takes this module for one of its own with routes, and
looks for a page here first.
"""

from __future__ import annotations

from typing import Any

from distributed.http.utils import RequestHandler

WHY = (
    "Not served: this page changes what the run does, and everybody on this machine can open the dashboard.\n"
)


class NotServed(RequestHandler):  # type: ignore[misc]
    """Answer 404, whatever the method."""

    def prepare(self) -> None:
        """Answer before any method is called."""
        self.set_status(404)
        self.set_header("Content-Type", "text/plain")
        self.finish(WHY)


routes: list[tuple[str, Any, dict[str, Any]]] = [
    # It makes every worker measure memory, disk and network, at each opening.
    (r"hardware.*", NotServed, {}),
    # It adds a plugin to the scheduler, at each request.
    (r"eventstream.*", NotServed, {}),
]
SCHEDULER = (
    __name__,
    "distributed.http.scheduler.prometheus",
    "distributed.http.scheduler.info",
    "distributed.http.scheduler.json",
    "distributed.http.health",
    "distributed.http.statics",
)
"""Modules of routes of the scheduler, whatever dask's configuration says. Left out: `api`, which retires
workers, and `proxy`, which sends requests on as this user."""
