"""Under which names the pages of a run answer: a stranger's page may have a name of its own lead here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from sweeps.errors import InputError, Problem

NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Of a page that listens on loopback, at any port: that of a tunnel may be another."""

VARIABLE = "SWEEP_HOSTS"
"""More names, with commas: those under which a proxy of the machine passes requests on."""

HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::\d{1,5})?", re.IGNORECASE)


def own_names() -> frozenset[str]:
    """All names, in small letters.

    Raises
    ------
    InputError
        If the variable holds what is no name of a host.
    """
    more = [name.strip().lower() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    wrong = [name for name in more if (found := HOST.fullmatch(name)) is None or found[1] != name]
    if wrong:
        expected = "names of hosts with commas, without port: hub.example.org"
        raise InputError([Problem(VARIABLE, repr(name), expected) for name in wrong])
    return frozenset((*NAMES, *more))


def is_own(headers: Mapping[str, str]) -> bool:
    """Whether a request is for one of the names, and not from a page that came from elsewhere.

    Parameters
    ----------
    headers : mapping of str to str
        Of the request; several of a name are one with commas, which is no name of a host.
    """
    host = headers.get("Host", "")
    found = HOST.fullmatch(host)
    if found is None or found[1].lower() not in own_names():
        return False
    origin = headers.get("Origin")  # of a websocket, which browsers let any page open
    return origin is None or _place(origin) == host.lower()


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
