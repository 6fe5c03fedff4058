"""The page over HTTP: two addresses that can only be read, and not by pages of other sites."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Protocol

from pipeline.common import VARIABLE, is_own

PAGE, STATE = "/sweep", "/sweep/state.json"

ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Documents(Protocol):
    """Makes the states of a page; see `pipeline.live.state.State`."""

    def document(self, since: str = "") -> tuple[str, bytes]:
        """Name of the state there is now, and JSON of what changed since another."""


@dataclass(frozen=True)
class Answer:
    """Status, headers and body of an answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Site:
    """Answers requests; for any thread.

    Parameters
    ----------
    documents : Documents
        Of the page.
    """

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def answer(self, path: str, headers: Mapping[str, str], since: str = "") -> Answer:
        """Answer to a GET.

        Parameters
        ----------
        path : str
            Without query.
        headers : mapping of str to str
            Of the request.
        since : str
            The state that the page has.
        """
        if not is_own(headers):
            text = f"Not served under this name: ask for 127.0.0.1 or localhost, or set {VARIABLE}."
            return plain(403, text)
        led_here = path == PAGE and headers.get("Sec-Fetch-Mode") == "navigate"
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not led_here:
            # A link on another page may lead to this one; its script may read nothing.
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
    """The page as one document, and the policy under which nothing in it can reach elsewhere."""
    folder = files("pipeline.live")
    html, style, script = (
        folder.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html.replace("{{style}}", style).replace("{{script}}", script).encode(), policy


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def plain(status: int, text: str) -> Answer:
    """An answer of text alone."""
    return Answer(
        status,
        f"{text}\n".encode(errors="backslashreplace"),
        {**ALWAYS, "Content-Type": "text/plain; charset=utf-8"},
    )
