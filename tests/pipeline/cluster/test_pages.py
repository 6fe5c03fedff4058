"""What the ports of http serve: everybody on the machine may read, and nothing changes the run."""

from __future__ import annotations

import http.client
import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import dask
import pytest
from distributed import Client
from processes.listening import listening
from tornado.routing import PathMatches, Router

from pipeline.cluster import pages
from pipeline.cluster.connect import connect, dashboard_address
from pipeline.cluster.profiles import Local, Profile
from storage.runfolder.lease import Lease

WORKERS = 2
CHANGES = ("POST", "PUT", "DELETE", "PATCH")
NEW_SOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "bokeh, token",
}
READ = ("status", "workers", "tasks", "system", "profile", "graph", "groups", "individual-progress")
ALSO_READ = ("info/main/workers.html", "info/main/logs.html", "json/counts.json", "health")
HARMFUL = (
    "api/v1",
    "api/v1/retire_workers",
    "api/v1/adaptive_target",
    "proxy/22/127.0.0.1/x",
    "hardware",
    "hardware/autoload.js",
    "hardware/ws",
    "eventstream",
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a local run whose user lets dask serve everything it can."""
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


def port_of_pages(client: Client) -> int:
    port = urlsplit(dashboard_address(client) or "").port
    assert port is not None
    return port


def ask(port: int, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(
            method, f"/{path.lstrip('/')}", b"{}" if method in CHANGES else None, headers or {}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def paths_of(table: Router) -> Iterator[str]:
    """Patterns of all paths that are served."""
    for rule in table.rules:
        if isinstance(rule.target, Router):
            yield from paths_of(rule.target)
        elif isinstance(rule.matcher, PathMatches):
            yield rule.matcher.regex.pattern


def test_every_port_is_known(client: Client) -> None:
    """Each kind is attacked, the first three in test_strangers and those of http here."""
    info = client.scheduler_info()
    urls = [info["address"], dashboard_address(client), *info["workers"]]
    urls += [worker["nanny"] for worker in info["workers"].values()]
    pages = [worker["services"]["dashboard"] for worker in info["workers"].values()]
    known = [urlsplit(url).port for url in urls] + pages
    assert len(known) == 2 + 3 * WORKERS
    ours = {port for (_, port), pid in listening(os.getpid()).items() if pid != os.getpid() or port in known}
    assert ours == set(known)
    assert {urlsplit(url).scheme for url in urls} == {"tls", "http"}


def test_the_dashboard_is_there_to_read(client: Client) -> None:
    port = port_of_pages(client)
    assert {path: ask(port, path)[0] for path in (*READ, *ALSO_READ)} == dict.fromkeys(READ + ALSO_READ, 200)


def test_no_page_takes_a_change(client: Client) -> None:
    port = port_of_pages(client)
    application = client.cluster.scheduler.http_application
    tables = [each.default_router for each in (application, *application.applications)]
    paths = {
        re.sub(r"\(.*?\)", "x", path).removesuffix("$").removesuffix("/?")
        for table in tables
        for path in paths_of(table)
    }
    paths = {path for path in paths if "/static" not in path} | set(HARMFUL)
    assert {"/status", "/status/ws", "/info/main/workers.html", "/json/counts.json", "/health"} <= paths
    taken = {
        (method, path): status
        for path in paths
        for method in CHANGES
        if (status := ask(port, path, method)[0]) not in (404, 405)
    }
    assert taken == {}
    assert len(client.scheduler_info()["workers"]) == WORKERS


def test_pages_that_change_something_when_read_are_not_served(client: Client) -> None:
    port = port_of_pages(client)
    before = set(client.cluster.scheduler.plugins)
    found = {
        (path, bool(headers)): ask(port, path, headers=headers)[0]
        for path in HARMFUL
        for headers in (None, NEW_SOCKET)
    }
    assert found == {(path, socket): 404 for path in HARMFUL for socket in (False, True)}
    assert "changes what the run does" in ask(port, "hardware")[1]
    assert set(client.cluster.scheduler.plugins) == before


def test_no_page_is_read_under_the_name_of_a_stranger(client: Client) -> None:
    """Neither ours, nor dask's own, nor what a worker has; nor by a stranger's page through a websocket."""
    ports = [port_of_pages(client)]
    ports += [worker["services"]["dashboard"] for worker in client.scheduler_info()["workers"].values()]
    paths = (
        *READ,
        *ALSO_READ,
        *HARMFUL,
        "sweep",
        "sitemap.json",
        "statics/css/base.css",
        "status/ws",
        "metrics",
    )
    here = {"Host": f"localhost:{ports[0]}"}
    for port in ports:
        for headers in (
            {"Host": "evil.example"},
            {"Host": f"127.0.0.1.evil.example:{port}"},
            {**here, "Origin": "http://evil.example"},
            {**here, **NEW_SOCKET, "Origin": "http://evil.example"},
        ):
            assert {path: ask(port, path, headers=headers)[0] for path in paths} == dict.fromkeys(paths, 403)
    assert ask(ports[0], "status", headers=here)[0] == 200
    assert (
        ask(ports[0], "status/ws", headers={**here, **NEW_SOCKET, "Origin": f"http://{here['Host']}"})[0]
        != 403
    )


def test_workers_serve_nothing(client: Client) -> None:
    for worker in client.scheduler_info()["workers"].values():
        port = worker["services"]["dashboard"]
        for path in ("", "status", "health", "metrics", "statics/css/base.css", "api/v1", "proxy/1/x/y"):
            assert {ask(port, path, method)[0] for method in ("GET", *CHANGES)} == {404}, path


def test_the_page_of_a_run_is_there_while_it_is_published(client: Client) -> None:
    class Answer:
        status, headers, body = 200, {"X-Frame-Options": "DENY", "Content-Type": "text/plain"}, b"here"

    class Site:
        asked: list[tuple[str, str, str]] = []  # noqa: RUF012

        def answer(self, path: str, headers: Mapping[str, str], since: str = "") -> Answer:
            self.asked.append((path, headers["Host"], since))
            return Answer()

    port = port_of_pages(client)
    assert (dashboard_address(client) or "").endswith("/sweep")
    assert ask(port, "sweep") == (503, pages.NOT_YET)
    with pages.published(client, Site()):
        assert ask(port, "sweep") == (200, "here")
        assert ask(port, "sweep/state.json?since=a.1.2")[0] == 200
        assert {
            ask(port, path, method)[0] for path in ("sweep", "sweep/state.json") for method in CHANGES
        } == {405}
        assert ask(port, "sweep/other")[0] == 404
    host = f"127.0.0.1:{port}"
    assert Site.asked == [("/sweep", host, ""), ("/sweep/state.json", host, "a.1.2")]
    assert ask(port, "sweep")[0] == 503
