"""Pages of the scheduler: the page of a run is added, and pages that would change the run are not served.

Everybody on this machine can open the dashboard. dask takes this module for one of its own with routes, and
looks for a page here first.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from distributed import Client, Worker, WorkerPlugin, node
from distributed.http.routing import RoutingApplication
from distributed.http.utils import RequestHandler

from sweep_clustering.pipeline.common import VARIABLE, is_own

logger = logging.getLogger(__name__)

# Loggers of the pages of dask's dashboard, and of the server.
PAGES = ("tornado", "tornado.application", "tornado.general", "bokeh", "distributed.dashboard")

REFUSAL = (
    "Not served: this page changes what the run does, and everybody on this machine can open the dashboard.\n"
)
STRANGE = f"Not served under this name: ask for 127.0.0.1 or localhost, or set {VARIABLE}.\n"
NOT_YET = "The run is starting, or ending: its page is here in a moment.\n"
# Attribute of the scheduler of a run that holds the `Site`.
NAME = "sweep_site"


class Site(Protocol):
    """Answers requests from any thread; see `pipeline.live.site.Site`."""

    def answer(self, path: str, headers: Mapping[str, str], page_state: str = "") -> Any:
        """Answer a GET with a status, headers, and a body that is empty for 304."""


@contextmanager
def published(client: Client, site: Site) -> Iterator[None]:
    """Answer for the page of a run on the dashboard of its scheduler, which is in this process."""
    scheduler = client.cluster.scheduler
    setattr(scheduler, NAME, site)
    try:
        yield
    finally:
        delattr(scheduler, NAME)


@contextmanager
def under_own_names() -> Iterator[None]:
    """Let schedulers that are started in the block, with dask's own pages, answer under names of this
    machine.
    """
    original, node.RoutingApplication = node.RoutingApplication, _OwnNames
    try:
        yield
    finally:
        node.RoutingApplication = original


class _Faults(logging.Handler):
    """Handler that logs an error of a page in one line, and nothing if a browser has left."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the first line of a message, and the last one, which names the error."""
        last = self.format(record).strip().rpartition("\n")[2]
        first = record.getMessage().partition("\n")[0].removeprefix("Traceback (most recent call last):")
        if record.levelno >= logging.ERROR and "ClosedError" not in last and not last.endswith(":"):
            logger.warning(
                "dask's pages or their server: %s", last if first in ("", last) else f"{first}: {last}"
            )


@contextmanager
def faults_in_one_line() -> Iterator[None]:
    """Log errors of pages in one line, without tracebacks, in the block."""
    libraries = [*map(logging.getLogger, PAGES)]
    states = [{"handlers": library.handlers, "propagate": library.propagate} for library in libraries]
    for library in libraries:
        library.handlers, library.propagate = [_Faults()], False
    tasks = logging.getLogger("asyncio")
    tasks.addFilter(_is_no_departure)
    try:
        yield
    finally:
        tasks.removeFilter(_is_no_departure)
        for library, state in zip(libraries, states, strict=True):
            vars(library).update(state)


def _is_no_departure(record: logging.LogRecord) -> bool:
    """Whether a record of asyncio is something else than a message to a browser that has left."""
    return record.exc_info is None or "ClosedError" not in str(record.exc_info[0])


class _OwnNames(RoutingApplication):  # type: ignore[misc]
    """Pages that answer under names of this machine, and to no page from elsewhere."""

    def find_handler(self, request: Any, **kwargs: Any) -> Any:
        """Return the handler that answers a request."""
        if not is_own(request.headers):
            return self.get_handler_delegate(request, NotServed, {"reason": STRANGE, "status": 403})
        return super().find_handler(request, **kwargs)


class OwnNames(WorkerPlugin):  # type: ignore[misc]
    """Let the port of a worker answer under names of this machine alone, too."""

    name = "own-names"

    def setup(self, worker: Worker) -> None:
        worker.http_application.__class__ = _OwnNames


class OwnPage(RequestHandler):  # type: ignore[misc]
    """The page of the run, with GET alone: dask's handlers refuse every method that is not defined."""

    async def get(self) -> None:
        """Answer in a thread, because the event loop has workers to serve."""
        site: Site | None = getattr(self.server, NAME, None)
        if site is None:
            self.set_status(503)
            self.set_header("Content-Type", "text/plain")
            self.set_header("Refresh", "2")  # a browser that is early tries again
            self.finish(NOT_YET)
            return
        page_state = self.get_query_argument("since", "")
        answer = await asyncio.to_thread(site.answer, self.request.path, self.request.headers, page_state)
        self.set_status(answer.status)
        for name, value in answer.headers.items():
            self.set_header(name, value)
        self.finish(answer.body or None)


class NotServed(RequestHandler):  # type: ignore[misc]
    """Refuse a request with a reason, whatever its method."""

    def initialize(self, reason: str = REFUSAL, status: int = 404) -> None:
        """Take the reason and the status."""
        self._text, self._refusal = reason, status

    def prepare(self) -> None:
        """Answer before any method is called."""
        self.set_status(self._refusal)
        self.set_header("Content-Type", "text/plain")
        self.finish(self._text)


routes: list[tuple[str, Any, dict[str, Any]]] = [
    (r"sweep", OwnPage, {}),
    (r"sweep/state\.json", OwnPage, {}),
    # The page makes every worker measure memory, disk and network, at each opening.
    (r"hardware.*", NotServed, {}),
    # The page adds a plugin to the scheduler, at each request.
    (r"eventstream.*", NotServed, {}),
]
# Modules of routes of the scheduler, whatever dask's configuration says. Left out: `api`, which retires
# workers, and `proxy`, which sends requests on as this user.
SCHEDULER = (
    __name__,
    "distributed.http.scheduler.prometheus",
    "distributed.http.scheduler.info",
    "distributed.http.scheduler.json",
    "distributed.http.health",
    "distributed.http.statics",
)
