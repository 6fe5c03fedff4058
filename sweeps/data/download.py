"""Downloading the raw file of a built-in data set into the user cache."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
import time
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

from sweeps.data.registry import Entry
from sweeps.data.sources import Damaged, Missing, Raw, verified

logger = logging.getLogger(__name__)

MIRROR_VARIABLE = "SWEEP_DATA_MIRROR"

RESOLVE_SECONDS = 5.0
CONNECT_SECONDS = 5.0
READ_SECONDS = 15.0
TOTAL_SECONDS = 120.0
SIZE_LIMIT = 64_000_000
UNREACHABLE_SECONDS = 60.0

# Eight data sets share two hosts: a host out of reach is waited for once, not once a data set.
# host -> (cause, time.monotonic() of the finding)
_unreachable: dict[str, tuple[str, float]] = {}


class _BrokenTransfer(Missing):
    """The transfer began and failed: worth a second try."""


class _NoHost(Missing):
    """The host is out of reach: a second try would only wait again."""


def address(entry: Entry) -> str:
    """Where an entry is downloaded from: its own address, or that file name on `SWEEP_DATA_MIRROR`."""
    mirror = os.environ.get(MIRROR_VARIABLE)
    if not mirror:
        return entry.published.url
    return f"{mirror.rstrip('/')}/{PurePosixPath(urlsplit(entry.published.url).path).name}"


def download_raw(entry: Entry, cache: Path) -> Raw:
    """Download, verify and keep the raw file; `cache` gets the right file or nothing.

    Parameters
    ----------
    entry : Entry
        What to download.
    cache : Path
        Folder that keeps the raw file, created if need be.

    Raises
    ------
    Missing
        If it cannot be had; the text names address and cause.
    """
    url = address(entry)
    try:
        content = _fetch_verified(url, entry)
    except Missing as missing:
        raise Missing(f"{url}: {missing}") from missing
    try:
        return Raw(content, _keep(content, cache / entry.file))
    except OSError as error:
        raise Missing(f"{url}: cannot be kept in {cache}: {error.strerror or error}") from error


def _fetch_verified(url: str, entry: Entry) -> bytes:
    try:
        return verified(_get(url), entry)
    except (Damaged, _BrokenTransfer) as error:
        logger.info("%s: %s; trying once more", url, error)
        return verified(_get(url), entry)


def _get(url: str) -> bytes:
    host = _parts(url).netloc
    cause, since = _unreachable.get(host, ("", -UNREACHABLE_SECONDS))
    if cause and time.monotonic() - since < UNREACHABLE_SECONDS:
        raise _NoHost(cause)
    try:
        return _get_from_host(url)
    except _NoHost as no_host:
        _unreachable[host] = (str(no_host), time.monotonic())
        raise


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError as error:  # a port or a bracket that is none
        raise Missing(f"not an address: {error}") from error
    raise Missing("not an http address")


def _get_from_host(url: str) -> bytes:
    import pooch

    logger.info("downloading %s", url)
    if urlsplit(url).scheme not in getproxies():  # a proxy looks names up by itself
        _look_up(url)
    body = _Body()
    try:
        pooch.HTTPDownloader(timeout=(CONNECT_SECONDS, READ_SECONDS))(url, body, None)
    except OSError as error:  # what requests raises are OSErrors
        raise _explained(error, begun=body.size > 0) from error
    return body.content()


class _Body:
    """A response body held in memory, bounded in size and time; the file pooch writes to."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.size = 0
        self._deadline = time.monotonic() + TOTAL_SECONDS

    def write(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if time.monotonic() > self._deadline:
            raise Missing(f"not complete after {TOTAL_SECONDS:g} s")
        if self.size > SIZE_LIMIT:
            raise Missing(f"larger than {SIZE_LIMIT // 1_000_000} MB")
        self._chunks.append(chunk)

    def flush(self) -> None:
        """Nothing is held back."""

    def content(self) -> bytes:
        return b"".join(self._chunks)


def _look_up(url: str) -> None:
    """Look the host up, in bounded time: the resolver alone may block for a minute."""
    parts = urlsplit(url)
    causes: list[str] = []

    def resolve() -> None:
        try:
            socket.getaddrinfo(parts.hostname, parts.port or parts.scheme)
            causes.append("")
        except (OSError, UnicodeError) as error:
            causes.append(getattr(error, "strerror", None) or str(error))

    thread = threading.Thread(target=resolve, daemon=True, name="look-up")
    thread.start()
    thread.join(RESOLVE_SECONDS)
    cause = causes[0] if causes else f"no answer within {RESOLVE_SECONDS:g} s"
    if cause:
        raise _NoHost(f"the name {parts.hostname} cannot be looked up: {cause}")


def _explained(error: OSError, *, begun: bool) -> Missing:
    response = getattr(error, "response", None)
    if response is not None:
        return Missing(f"the server answered {response.status_code} {response.reason}")
    root = _root(error)
    cause = getattr(root, "strerror", None) or str(root) or type(root).__name__
    if begun or not isinstance(root, OSError) or isinstance(root, ConnectionResetError):
        return _BrokenTransfer(f"the transfer broke off: {cause}")
    return _NoHost(f"no connection: {cause}")


def _root(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _keep(content: bytes, path: Path) -> Path:
    """Write whole or not at all: other processes may fetch the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(partial).replace(path)
    finally:
        Path(partial).unlink(missing_ok=True)
    return path
