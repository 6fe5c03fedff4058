"""What is answered to whom: the page and its state to browsers of this machine, nothing to other pages."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib import resources

import pytest

from pipeline.live.site import PAGE, STATE, Site, page

HERE = {"Host": "127.0.0.1:8787"}


class Counter:
    def document(self, since: str = "") -> tuple[str, bytes]:
        return "a.1.2", b"" if since == "a.1.2" else b"{}"


SITE = Site(Counter())


@pytest.mark.parametrize("host", ["127.0.0.1:8787", "localhost", "LOCALHOST:1", "[::1]:8787"])
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert [SITE.answer(path, {"Host": host}).status for path in (PAGE, STATE)] == [200, 200]


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1.evil.example:8787", "localhost:8787@evil", "127.0.0.1:\n"]
)
def test_any_other_name_is_refused(host: str) -> None:
    """A stranger's page whose name is made to lead here, after it was loaded, would read all of it."""
    for headers in ({"Host": host}, {}):
        assert [SITE.answer(path, headers).status for path in (PAGE, STATE)] == [403, 403]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_read_nothing(site: str) -> None:
    from_elsewhere = {**HERE, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors"}
    assert [SITE.answer(path, from_elsewhere).status for path in (PAGE, STATE)] == [403, 403]
    link = {**HERE, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert [SITE.answer(path, link).status for path in (PAGE, STATE)] == [200, 403]


def test_an_unchanged_state_has_no_body() -> None:
    found = SITE.answer(STATE, HERE, "a.1.2")
    assert (found.status, found.body, found.headers["ETag"]) == (304, b"", '"a.1.2"')
    assert SITE.answer(STATE, HERE, "older").body == b"{}"


def test_every_answer_is_closed_to_others() -> None:
    for path in (PAGE, STATE, "/sweep/other"):
        headers = {name.lower(): value for name, value in SITE.answer(path, HERE).headers.items()}
        assert not any(name.startswith("access-control") for name in headers)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
    assert SITE.answer("/sweep/other", HERE).status == 404


def test_the_policy_lets_in_what_the_page_holds_and_no_more() -> None:
    body, policy = page()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert (
        rules["default-src"]
        == rules["base-uri"]
        == rules["form-action"]
        == rules["frame-ancestors"]
        == "'none'"
    )
    assert (rules["connect-src"], rules["img-src"]) == ("'self'", "data:")
    text = body.decode()
    for kind, rule in (("style", "style-src"), ("script", "script-src")):
        (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert "unsafe" not in policy


def test_nothing_is_asked_of_another_machine() -> None:
    class Links(HTMLParser):
        found: list[str] = []  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.found += [value or "" for name, value in attrs if name in ("src", "href", "action")]
            assert not any(name.startswith("on") or name == "style" for name, _ in attrs)

    links = Links()
    links.feed(page()[0].decode())
    assert [link for link in links.found if not link.startswith("data:")] == []


def test_names_are_set_as_text() -> None:
    script = resources.files("pipeline.live").joinpath("page.js").read_text(encoding="utf-8")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in script
