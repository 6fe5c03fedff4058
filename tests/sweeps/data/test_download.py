"""Downloads from a real server on loopback; no test here leaves the machine."""

from __future__ import annotations

import errno
import io
import socket
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sweeps.data import download as module
from sweeps.data.builtin import Unavailable, find
from sweeps.data.download import address, download_raw
from sweeps.data.registry import BUILTIN, REGISTRY
from sweeps.data.sources import Missing

RAW = b"1,5.1,3.5\n2,4.9,3.0\n1,4.7,3.2\n"
ENTRY = replace(
    REGISTRY["iris-uci"],
    name="tiny",
    file="tiny.data",
    sha256=sha256(RAW).hexdigest(),
    published=REGISTRY["iris-uci"].published._replace(url="http://unused.invalid/deep/tiny+set.zip"),
    class_names=("1", "2"),
    features=(1, 3),
    class_column=0,
)

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server(ThreadingHTTPServer):
    """Answers each path as told, and counts the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[Answer]] = {}
        self.requests: Counter[str] = Counter()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def on(self, *answers: Answer) -> None:
        """Answers to the first, second, ... request for the entry; the last one stays."""
        self.answers["/tiny+set.zip"] = list(answers)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests[self.path] += 1
        answers = self.server.answers.get(self.path, [status(404)])
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *args: object) -> None:
        pass


def body(content: bytes, length: int | None = None) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content) if length is None else length))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def status(code: int) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_error(code)

    return answer


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(1000):
        try:
            handler.wfile.write(b"x" * 2000)
        except OSError:
            return
        time.sleep(0.01)


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("SWEEP_DATA_MIRROR", running.base)
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user cache, and a registry of one data set that is nowhere else."""
    folder = tmp_path / "user" / "cache"
    monkeypatch.setenv("SWEEP_USER_CACHE", str(folder))
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    monkeypatch.setattr(module, "_unreachable", {})
    monkeypatch.setattr("sweeps.data.builtin.REGISTRY", {"tiny": ENTRY})
    return folder


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


@pytest.mark.parametrize("content", [RAW, zipped({"tiny.data": RAW}), zipped({"a/b/tiny.data": RAW})])
def test_good_download_is_kept_and_used_again(content: bytes, server: Server, cache: Path) -> None:
    server.on(body(content))
    found = find("tiny")
    assert found.table.X.tolist() == [[5.1, 3.5], [4.9, 3.0], [4.7, 3.2]]
    assert found.table.labels_true is not None
    assert found.table.labels_true.tolist() == [0, 1, 0]
    assert found.source == f"downloaded from {server.base}/tiny+set.zip"
    assert (cache / "tiny.data").read_bytes() == RAW
    assert find("tiny").source == f"user cache {cache / 'tiny.data'}"
    assert find("tiny").path == cache / "tiny.data"
    assert server.requests.total() == 1
    assert left(cache) == ["tiny.data"]


def test_damaged_cache_is_replaced(server: Server, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.data").write_bytes(RAW[:10])
    server.on(body(RAW))
    assert find("tiny").path.read_bytes() == RAW


@pytest.mark.parametrize(
    ("answer", "cause", "requests"),
    [
        (
            body(b"<html>log in first</html>"),
            f"25 bytes with sha256 {sha256(b'<html>log in first</html>').hexdigest()}",
            2,
        ),
        (body(zipped({"tiny.data": b"1,2,3\n"})), "its member tiny.data has sha256", 2),
        (body(zipped({"other.data": RAW})), "a zip without a member tiny.data", 2),
        (body(zipped({"tiny.data": RAW})[:-30]), "a broken zip", 2),
        (body(RAW[:10], length=len(RAW)), "the transfer broke off", 2),
        (body(b"", length=len(RAW)), "the transfer broke off", 2),
        (hang_up, "the transfer broke off", 2),
        (status(404), "the server answered 404", 1),
        (status(503), "the server answered 503", 1),
    ],
)
def test_bad_download_is_said_and_leaves_nothing(
    answer: Answer, cause: str, requests: int, server: Server, cache: Path
) -> None:
    server.on(answer)
    with pytest.raises(Unavailable) as caught:
        find("tiny")
    assert caught.value.reasons[-1].startswith(f"{server.base}/tiny+set.zip: {cause}")
    assert left(cache) == []
    assert server.requests.total() == requests


def test_second_try_may_be_the_good_one(server: Server, cache: Path) -> None:
    server.on(body(RAW[:10], length=len(RAW)), body(RAW))
    assert find("tiny").path.read_bytes() == RAW


def test_no_route_is_quick_and_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{free.getsockname()[1]}"
        monkeypatch.setenv("SWEEP_DATA_MIRROR", base)
        with pytest.raises(Missing) as caught:
            download_raw(ENTRY, cache)
        assert str(caught.value) == f"{base}/tiny+set.zip: no connection: Connection refused"
        monkeypatch.setattr(module, "_get_from_host", pytest.fail)
        with pytest.raises(Missing, match="Connection refused"):
            download_raw(ENTRY, cache)
    assert left(cache) == []


def test_silent_host_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("SWEEP_DATA_MIRROR", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Missing, match="no connection: timed out"):
            download_raw(ENTRY, cache)


def test_slow_name_server_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(module, "RESOLVE_SECONDS", 0.1)
    monkeypatch.setattr(module.socket, "getaddrinfo", lambda *_: release.wait(10))
    monkeypatch.setenv("SWEEP_DATA_MIRROR", "https://data.example")
    with pytest.raises(Missing, match=r"the name data\.example cannot be looked up: no answer within 0\.1 s"):
        download_raw(ENTRY, cache)
    release.set()


def test_unknown_name_is_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(module.socket, "getaddrinfo", unknown)
    monkeypatch.setenv("SWEEP_DATA_MIRROR", "https://data.example")
    with pytest.raises(Missing, match=r"data\.example cannot be looked up: Name or service not known"):
        download_raw(ENTRY, cache)


def test_endless_body_is_cut(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on(drip)
    monkeypatch.setattr(module, "SIZE_LIMIT", 1_000)
    with pytest.raises(Missing, match="larger than"):
        download_raw(ENTRY, cache)
    monkeypatch.setattr(module, "SIZE_LIMIT", 1_000_000)
    monkeypatch.setattr(module, "TOTAL_SECONDS", 0.05)
    with pytest.raises(Missing, match=r"not complete after 0\.05 s"):
        download_raw(ENTRY, cache)
    assert left(cache) == []


@pytest.mark.parametrize(
    "mirror", ["no address at all", "ftp://127.0.0.1", "http://", "http://[::1", "http://127.0.0.1:x"]
)
def test_mirror_that_is_no_address(mirror: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_DATA_MIRROR", mirror)
    with pytest.raises(Missing, match=r"not an (http )?address"):
        download_raw(ENTRY, cache)


def test_cache_that_cannot_be_written_is_said(server: Server, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    server.on(body(RAW))
    with pytest.raises(Missing, match="cannot be kept in"):
        download_raw(ENTRY, cache)


def test_full_disk_leaves_nothing(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    server.on(body(RAW))
    with pytest.raises(Missing, match=r"cannot be kept in .*: No space left on device"):
        download_raw(ENTRY, cache)
    assert left(cache) == []


def test_addresses_are_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWEEP_DATA_MIRROR", raising=False)
    addresses = {name: address(REGISTRY[name]) for name in BUILTIN}
    assert addresses["wine"] == "https://archive.ics.uci.edu/static/public/109/wine.zip"
    assert addresses["diabetes"] == "https://vincentarelbundock.github.io/Rdatasets/csv/heplots/Diabetes.csv"
    assert all(url.startswith("https://") for url in addresses.values())
    monkeypatch.setenv("SWEEP_DATA_MIRROR", "http://localhost:8000/data/")
    assert address(REGISTRY["wine"]) == "http://localhost:8000/data/wine.zip"
