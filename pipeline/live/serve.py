"""The page of a cube, from its files, on a port of its own: `sweep open`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pipeline.live.board import Board
from pipeline.live.follow import Follower
from pipeline.live.site import PAGE, Answer, Site
from pipeline.live.state import State
from storage.cube.manifest import read_manifest
from storage.errors import StorageError
from sweeps.errors import InputError, Problem

LOOPBACK = "127.0.0.1"


class Nothing:
    """In place of what keeps a board, where there is no cube yet."""

    def __init__(self) -> None:
        self.board = Board(())
        self.lock = threading.RLock()
        self.unread = 0

    def update(self) -> None:
        """There is nothing to look at."""


class FilesState:
    """Documents of a cube from its files; it begins again when the cube has grown, or was made.

    Parameters
    ----------
    cube : Path
        The cube, which need not exist yet where a run has begun.
    """

    def __init__(self, cube: Path) -> None:
        self._cube = cube
        self._lock = threading.Lock()
        self._follower: Follower | None = None
        self._state = self._begin()

    def document(self, since: str = "") -> tuple[str, bytes]:
        """As of `State`."""
        with self._lock:
            made = self._follower is not None
            if made != self._cube.is_dir() or (self._follower is not None and self._follower.outgrown):
                self._state = self._begin()
            return self._state.document(since)

    def _begin(self) -> State:
        if not self._cube.is_dir():
            self._follower = None
            return State(self._cube, Nothing(), skipped={})
        skipped = read_manifest(self._cube).skipped
        self._follower = Follower(self._cube)
        return State(self._cube, self._follower, skipped=skipped)


def address_of(server: ThreadingHTTPServer) -> tuple[str, str]:
    """Address of the page for a browser on this machine, and how one elsewhere reaches it."""
    port = server.server_address[1]
    return (
        f"http://{LOOPBACK}:{port}{PAGE}",
        f"from elsewhere: ssh -L {port}:{LOOPBACK}:{port} {socket.gethostname()}",
    )


@contextmanager
def serving(cube: Path, port: int = 0) -> Iterator[ThreadingHTTPServer]:
    """A server of the page, on loopback alone; `serve_forever` answers until the block ends.

    Parameters
    ----------
    cube : Path
        The cube.
    port : int
        Wanted; 0 for any free one.

    Raises
    ------
    sweeps.errors.InputError
        If it is no cube, or somebody listens on the port.
    """
    site = Site(FilesState(cube))

    class Handler(_Handler):
        pages = site

    try:
        server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    except OSError as error:
        expected = "a port that is free; without --port one is found"
        raise InputError([Problem("--port", f"{port} ({error.strerror})", expected)]) from error
    with server:
        server.daemon_threads = True
        yield server


class _Handler(BaseHTTPRequestHandler):
    """GET alone: any other method is answered with 501."""

    pages: Site
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sweep", ""
    timeout = 60

    def do_GET(self) -> None:
        """Answer one request."""
        parts = urlsplit(self.path)
        since = parse_qs(parts.query).get("since", [""])[0]
        try:
            answer = self.pages.answer(parts.path, dict(self.headers.items()), since)
        except (StorageError, InputError) as error:
            answer = Answer(503, f"{error}\n".encode(), {"Content-Type": "text/plain; charset=utf-8"})
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != 304:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests come every other second."""
