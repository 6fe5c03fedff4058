"""Downloading the raw file of a built-in data set into the user cache."""

from __future__ import annotations

import io
import logging
import math
import os
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit
from urllib.request import getproxies

from sweeps.data.registry import Entry
from sweeps.data.sources import Damaged, Missing, verified

logger = logging.getLogger(__name__)

MIRROR_VARIABLE = "SWEEP_DATA_MIRROR"

# Of one download; the largest raw file has 0.5 MB.
RESOLVE_SECONDS = 5.0
CONNECT_SECONDS = 5.0
READ_SECONDS = 15.0
TOTAL_SECONDS = 120.0
SIZE_LIMIT = 64_000_000
UNREACHABLE_SECONDS = 60.0
"""After which a host that could not be reached is tried again."""

# The data sets share two hosts: one that cannot be reached is waited for once, not once for each data set.
# host -> (cause, time.monotonic() when it was found)
_unreachable: dict[str, tuple[str, float]] = {}


class _Unreachable(Missing):
    """The host cannot be reached: another try would wait as long again."""


def address(entry: Entry) -> str:
    """Where an entry is downloaded from: its own address, or the file of that name on `SWEEP_DATA_MIRROR`."""
    mirror = os.environ.get(MIRROR_VARIABLE)
    if not mirror:
        return entry.published.url
    return f"{mirror.rstrip('/')}/{PurePosixPath(urlsplit(entry.published.url).path).name}"


def download_raw(entry: Entry, cache: Path) -> Path:
    """Download, verify and keep the raw file; a file that is not the right one is never kept.

    Parameters
    ----------
    entry : Entry
        What to download.
    cache : Path
        Folder to keep the raw file in; made if it is not there.

    Raises
    ------
    Missing
        If it is not available; the text names address and cause.
    """
    import pooch

    pooch.get_logger().setLevel(logging.ERROR)  # its messages would come between those of the command
    url, is_new = address(entry), not cache.exists()
    try:
        _check_address(url)
        files = pooch.create(
            cache, base_url="", registry={entry.file: entry.sha256}, urls={entry.file: url}, retry_if_failed=1
        )
        return Path(files.fetch(entry.file, downloader=partial(_download, entry)))
    except Missing as missing:
        if is_new:  # pooch makes the folder before it downloads; a failure leaves it empty
            with suppress(OSError):
                cache.rmdir()
        raise Missing(f"{url}: {missing}") from missing
    except OSError as error:
        raise Missing(f"{url}: cannot be kept in {cache}: {error.strerror or error}") from error


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:  # such as a port that is not a number
        raise Missing(f"not an address: {error}") from error
    if not usable:
        raise Missing("not an http address")


def _download(entry: Entry, url: str, target: str, _: object) -> None:
    """Write the raw file to `target`; pooch tries once more after `Damaged`, which is a ValueError."""
    host = urlsplit(url).netloc
    cause, since = _unreachable.get(host, ("", -math.inf))
    if time.monotonic() - since < UNREACHABLE_SECONDS:
        raise _Unreachable(cause)
    try:
        content = verified(_get_from_host(url), entry)
    except _Unreachable as unreachable:
        _unreachable[host] = (str(unreachable), time.monotonic())
        raise
    Path(target).write_bytes(content)


def _get_from_host(url: str) -> bytes:
    import pooch

    logger.info("downloading %s", url)
    if urlsplit(url).scheme not in getproxies():  # else the proxy looks names up
        _look_up(url)
    body = _Body()
    try:
        pooch.HTTPDownloader(timeout=(CONNECT_SECONDS, READ_SECONDS))(url, body, None)
    except OSError as error:  # what requests raises are OSErrors
        raise _explained(error, begun=body.tell() > 0) from error
    return body.getvalue()


class _Body(io.BytesIO):
    """A response body in memory, of limited size and time: a server may send without end, or very slowly."""

    def __init__(self) -> None:
        super().__init__()
        self._deadline = time.monotonic() + TOTAL_SECONDS

    def write(self, chunk: bytes) -> int:  # type: ignore[override]  # bytes are all that pooch writes
        if time.monotonic() > self._deadline:
            raise Missing(f"not complete after {TOTAL_SECONDS:g} s")
        if self.tell() + len(chunk) > SIZE_LIMIT:
            raise Missing(f"larger than {SIZE_LIMIT // 1_000_000} MB")
        return super().write(chunk)


def _look_up(url: str) -> None:
    """Look the host up in a thread: the resolver takes no timeout, and may block for a minute."""
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
        raise _Unreachable(f"the name {parts.hostname} cannot be looked up: {cause}")


def _explained(error: OSError, *, begun: bool) -> Missing:
    response = getattr(error, "response", None)
    if response is not None:
        return Missing(f"the server answered {response.status_code} {response.reason}")
    root: BaseException = error
    while (cause := root.__cause__ or root.__context__) is not None:
        root = cause
    text = getattr(root, "strerror", None) or str(root) or type(root).__name__
    if begun or not isinstance(root, OSError) or isinstance(root, ConnectionResetError):
        return Damaged(f"the transfer broke off: {text}")
    return _Unreachable(f"no connection: {text}")
