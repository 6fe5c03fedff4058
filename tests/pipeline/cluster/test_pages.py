"""Everybody on the machine may read the pages of the ports of http, and no page changes the run."""

import http.client
import logging
import re
from collections.abc import Iterator, Mapping
from itertools import product
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import dask
import pytest
from distributed import Client
from tornado.routing import PathMatches, Router

from sweep_clustering.pipeline.cluster import pages
from sweep_clustering.pipeline.cluster.connect import connect, dashboard_address
from sweep_clustering.pipeline.cluster.profiles import Local, Profile
from sweep_clustering.storage.runfolder.lease import Lease

WORKERS = 2
CHANGES = ("POST", "PUT", "DELETE", "PATCH")
NEW_SOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "bokeh, token",
}
READ = (
    *("status", "workers", "tasks", "system", "profile", "graph", "groups", "individual-progress"),
    *("info/main/workers.html", "info/main/logs.html", "json/counts.json", "health"),
)
HARMFUL = (
    *("api/v1", "api/v1/retire_workers", "api/v1/adaptive_target", "proxy/22/127.0.0.1/x"),
    *("hardware", "hardware/autoload.js", "hardware/ws", "eventstream"),
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Yield the client of a local run whose user lets dask serve everything."""
    here, profile = "distributed.http", Profile("local", Local(dashboard_port=0), None)
    more = {
        "distributed.scheduler.http.routes": [f"{here}.scheduler.api", f"{here}.proxy"],
        "distributed.worker.http.routes": [f"{here}.health", f"{here}.statics"],
    }
    with (
        Lease.acquire(tmp_path_factory.mktemp("run") / "a.zarr") as lease,
        dask.config.set(more),
        connect(profile, n_workers=WORKERS, lease=lease) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def port(client: Client) -> Any:
    """Return the port of the pages."""
    return urlsplit(dashboard_address(client)).port


def ports_of_workers(client: Client) -> list[int]:
    return [worker["services"]["dashboard"] for worker in client.scheduler_info()["workers"].values()]


def ask(port: int, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        body = b"{}" if method in CHANGES else None
        connection.request(method, f"/{path.lstrip('/')}", body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def paths_of(table: Router) -> Iterator[str]:
    """Yield the patterns of all paths that are served."""
    for rule in table.rules:
        if isinstance(rule.target, Router):
            yield from paths_of(rule.target)
        elif isinstance(rule.matcher, PathMatches):
            yield rule.matcher.regex.pattern


def test_the_dashboard_is_there_to_read_and_no_page_takes_a_change(client: Client, port: int) -> None:
    assert {path: ask(port, path)[0] for path in READ} == dict.fromkeys(READ, 200)
    application = client.cluster.scheduler.http_application
    tables = [server.default_router for server in (application, *application.applications)]
    patterns = {pattern for table in tables for pattern in paths_of(table) if "/static" not in pattern}
    paths = {re.sub(r"\(.*?\)", "x", path).removesuffix("$").removesuffix("/?") for path in patterns}
    assert {"/status", "/status/ws", "/info/main/workers.html", "/json/counts.json", "/health"} <= paths
    requests = ((method, path) for path in (*paths, *HARMFUL) for method in CHANGES)
    assert [request for request in requests if ask(port, request[1], request[0])[0] not in (404, 405)] == []
    assert len(client.scheduler_info()["workers"]) == WORKERS


def test_pages_that_change_something_when_read_are_not_served(client: Client, port: int) -> None:
    before = set(client.cluster.scheduler.plugins)
    for path, headers in product(HARMFUL, (None, NEW_SOCKET)):
        assert ask(port, path, headers=headers)[0] == 404, path
    assert "changes what the run does" in ask(port, "hardware")[1]
    assert set(client.cluster.scheduler.plugins) == before
    paths = ("", "status", "health", "metrics", "statics/css/base.css", "api/v1", "proxy/1/x/y")
    for worker_port, path, method in product(ports_of_workers(client), paths, ("GET", *CHANGES)):
        assert ask(worker_port, path, method)[0] == 404, f"workers serve nothing: {path}"


def test_no_page_is_read_under_the_name_of_a_stranger(client: Client, port: int) -> None:
    """This holds for our pages, dask's and workers', and for websockets of a stranger's page."""
    more = ("sweep", "sitemap.json", "statics/css/base.css", "status/ws", "metrics")
    here = {"Host": f"localhost:{port}"}
    there = {**here, "Origin": "http://evil.example"}
    hosts = "evil.example", f"127.0.0.1.evil.example:{port}"
    strange = [*({"Host": host} for host in hosts), there, {**there, **NEW_SOCKET}]
    ports = (port, *ports_of_workers(client))
    for served_port, headers, path in product(ports, strange, (*READ, *HARMFUL, *more)):
        assert ask(served_port, path, headers=headers)[0] == 403, (path, headers)
    assert ask(port, "status", headers=here)[0] == 200
    same_origin = {**here, **NEW_SOCKET, "Origin": f"http://{here['Host']}"}
    assert ask(port, "status/ws", headers=same_origin)[0] != 403


def test_the_page_of_a_run_is_there_while_it_is_published(client: Client, port: int) -> None:
    requests: list[tuple[str, str, str]] = []

    def answer(path: str, headers: Mapping[str, str], since: str = "") -> SimpleNamespace:
        requests.append((path, headers["Host"], since))
        return SimpleNamespace(status=200, headers={"Content-Type": "text/plain"}, body=b"here")

    assert (dashboard_address(client) or "").endswith("/sweep")
    assert ask(port, "sweep") == (503, pages.NOT_YET)
    with pages.published(client, SimpleNamespace(answer=answer)):
        assert ask(port, "sweep") == (200, "here")
        assert ask(port, "sweep/state.json?since=a.1.2")[0] == 200
        for path, method in product(("sweep", "sweep/state.json"), CHANGES):
            assert ask(port, path, method)[0] == 405
        assert ask(port, "sweep/other")[0] == 404
    host = f"127.0.0.1:{port}"
    assert requests == [("/sweep", host, ""), ("/sweep/state.json", host, "a.1.2")]
    assert ask(port, "sweep")[0] == 503


class GoneClosedError(Exception):
    """As the errors of tornado are called where a browser has left."""


def test_pages_that_fail_log_one_line_and_browsers_that_leave_none(caplog: pytest.LogCaptureFixture) -> None:
    names = ("bokeh.util.tornado", "tornado.application", "distributed.dashboard.components.scheduler")
    before = [(library.handlers, library.propagate) for library in map(logging.getLogger, pages.PAGES)]
    with pages.faults_in_one_line():
        for name, error in product((*names, "asyncio"), (GoneClosedError(), KeyError("x"))):
            try:
                raise error
            except Exception:
                logging.getLogger(name).exception("Uncaught exception GET /graph")
        logging.getLogger("bokeh.util.tornado").error("Error thrown from periodic callback:")
        logging.getLogger("bokeh.util.tornado").error(
            "Traceback (most recent call last):\n  a\nKeyError: 'x'"
        )
        logging.getLogger("tornado.access").warning("404 GET /")
    *lines, text = caplog.records[:3] + caplog.records[4:]
    line_of_error = "dask's pages or their server: Uncaught exception GET /graph: KeyError: 'x'"
    assert [line.getMessage() for line in lines] == [line_of_error] * 3
    assert text.getMessage() == "dask's pages or their server: KeyError: 'x'"
    assert [line.exc_info for line in (*lines, text)] == [None] * 4
    assert caplog.records[3].name == "asyncio"
    assert before == [
        (library.handlers, library.propagate) for library in map(logging.getLogger, pages.PAGES)
    ]
