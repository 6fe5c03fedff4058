"""The page over HTTP: two addresses that can only be read, and not by pages of other sites.

`Site.answer` answers one GET for the dashboard of a run, and for `serving`, the server of `sweep open`.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from sweep_clustering.pipeline.common import VARIABLE, is_own, own_names
from sweep_clustering.pipeline.live.state import Follower, State
from sweep_clustering.pipeline.looks import PALETTE
from sweep_clustering.storage.errors import StorageError
from sweep_clustering.sweeps.errors import InputError, Problem, cause_of

logger = logging.getLogger(__name__)

# Addresses of the page and of its state.
PAGE = "/sweep"
STATE = "/sweep/state.json"
LOOPBACK = "127.0.0.1"

ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Answer(NamedTuple):
    """Status, body and headers of an answer to a request."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Site:
    """Answers requests of any thread with the page and its states."""

    def __init__(self, documents: State) -> None:
        self._documents = documents

    def answer(self, path: str, headers: Mapping[str, str], since: str = "") -> Answer:
        """Answer a GET of a path without its query; `since` names the state that the page has."""
        if not is_own(headers):
            text = f"Not served under this name: ask for 127.0.0.1 or localhost, or set {VARIABLE}."
            return plain(403, text)
        # A link on another page may lead to this one; its script may read nothing.
        led_here = path == PAGE and headers.get("Sec-Fetch-Mode") == "navigate"
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not led_here:
            return plain(403, "Not served to other pages.")
        if path == PAGE:
            body, policy = page()
            kind = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy}
            return Answer(200, body, {**ALWAYS, **kind})
        if path != STATE:
            return plain(404, f"The page is {PAGE}.")
        name, body = self._documents.document(since)
        tag = {**ALWAYS, "ETag": f'"{name}"'}
        if not body:
            return Answer(304, b"", tag)
        return Answer(200, body, {**tag, "Content-Type": "application/json"})


@cache
def page() -> tuple[bytes, str]:
    """Return the page as one document, and the policy under which nothing in it can reach elsewhere."""
    folder = files("sweep_clustering.pipeline.live")
    html, style, script = (
        folder.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    style = PALETTE + style
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html.replace("{{style}}", style).replace("{{script}}", script).encode(), policy


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def plain(status: int, text: str) -> Answer:
    """Return an answer of text."""
    headers = {**ALWAYS, "Content-Type": "text/plain; charset=utf-8"}
    return Answer(status, f"{text}\n".encode(errors="backslashreplace"), headers)


def address_of(server: ThreadingHTTPServer) -> tuple[str, str]:
    """Return the address of the page for a browser on this machine, and how one elsewhere reaches it."""
    place = f"{LOOPBACK}:{server.server_address[1]}"
    tunnel = f"ssh -L {server.server_address[1]}:{place} {socket.gethostname()}"
    return f"http://{place}{PAGE}", f"from elsewhere: {tunnel}"


@contextmanager
def serving(cube: Path, port: int = 0) -> Iterator[ThreadingHTTPServer]:
    """Yield a server on loopback of the page of a cube; `serve_forever` answers until the block ends.

    The cube need not exist yet if a run has begun. A port of 0 is any free one.

    Raises
    ------
    sweep_clustering.sweeps.errors.InputError
        If it is no cube, or somebody listens on the port.
    """
    own_names()
    try:
        server = _Server(Site(State(cube, Follower(cube))), port)
    except OSError as error:
        expected = "a port that is free; without --port one is found"
        raise InputError([Problem("--port", f"{port} ({error.strerror})", expected)]) from error
    with server:
        yield server


class _Server(ThreadingHTTPServer):
    """A server that logs a line at most, whatever clients do: leave, send nonsense, or come often."""

    daemon_threads = True
    request_queue_size = 128  # connections that wait for an answer

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        super().__init__((LOOPBACK, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a request that could not be answered, unless its client has left."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            debugging = logger.isEnabledFor(logging.DEBUG)
            logger.error("a request to the page was not answered: %s", cause_of(error), exc_info=debugging)


class _Handler(BaseHTTPRequestHandler):
    """Handler of GET. Any other method is answered with 501."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sweep", ""
    timeout = 20

    def do_GET(self) -> None:
        """Answer one request."""
        headers = {name.title(): ",".join(self.headers.get_all(name, ())) for name in self.headers}
        try:
            parts = urlsplit(self.path)
            since = parse_qs(parts.query).get("since", [""])[0]
            answer = self.server.site.answer(parts.path, headers, since)
        except (StorageError, InputError, OSError) as error:  # a file may vanish while it is read
            answer = plain(503, str(error))
        except ValueError as error:
            answer = plain(400, str(error))
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != 304:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because requests come every other second."""
