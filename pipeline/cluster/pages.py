"""Pages of the scheduler: ours is added, and what would change the run is not served.

Everybody on this machine can open the dashboard. dask takes this module for one of its own with routes, and
looks for a page here first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from distributed import Client
from distributed.http.utils import RequestHandler

WHY = (
    "Not served: this page changes what the run does, and everybody on this machine can open the dashboard.\n"
)
NOT_YET = "The run is starting, or ending: its page is here in a moment.\n"
NAME = "sweep_site"
"""Attribute of the scheduler of a run: what answers for its page."""


class Reply(Protocol):
    """Status, headers and body of an answer."""

    @property
    def status(self) -> int:
        """Of HTTP."""

    @property
    def headers(self) -> Mapping[str, str]:
        """All but those of the server."""

    @property
    def body(self) -> bytes:
        """Empty for 304."""


class Site(Protocol):
    """Answers requests from any thread; see `pipeline.live.site.Site`."""

    def answer(self, path: str, headers: Mapping[str, str], since: str = "") -> Reply:
        """Answer to a GET."""


@contextmanager
def published(client: Client, site: Site) -> Iterator[None]:
    """Answer for the page of a run on the dashboard of its scheduler, which is of this process."""
    scheduler = client.cluster.scheduler
    setattr(scheduler, NAME, site)
    try:
        yield
    finally:
        delattr(scheduler, NAME)


class OwnPage(RequestHandler):  # type: ignore[misc]
    """The page of the run: GET alone, as dask's handlers refuse every method that is not defined."""

    async def get(self) -> None:
        """Answer out of the event loop, which has workers to serve."""
        site: Site | None = getattr(self.server, NAME, None)
        if site is None:
            self.set_status(503)
            self.set_header("Content-Type", "text/plain")
            self.set_header("Refresh", "2")  # who opens it at once need not do so again
            self.finish(NOT_YET)
            return
        since = self.get_query_argument("since", "")
        answer = await asyncio.to_thread(site.answer, self.request.path, self.request.headers, since)
        self.set_status(answer.status)
        for name, value in answer.headers.items():
            self.set_header(name, value)
        self.finish(answer.body or None)


class NotServed(RequestHandler):  # type: ignore[misc]
    """Answer 404, whatever the method."""

    def prepare(self) -> None:
        """Answer before any method is called."""
        self.set_status(404)
        self.set_header("Content-Type", "text/plain")
        self.finish(WHY)


routes: list[tuple[str, Any, dict[str, Any]]] = [
    (r"sweep", OwnPage, {}),
    (r"sweep/state\.json", OwnPage, {}),
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
