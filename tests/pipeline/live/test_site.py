"""What is answered to whom: the page and its state to browsers of this machine, nothing to other pages."""

import base64
import hashlib
import json
import os
import re
import shutil
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from browser import Page, chromium
from cubes.small import draw_block, draw_inputs, files, make_plan, make_spec
from cubes.writer import empty, next_generation
from processes.sweeping import wait_until

from sweep_clustering.pipeline.common import VARIABLE
from sweep_clustering.pipeline.live import site as module
from sweep_clustering.pipeline.live.site import (
    LOOPBACK,
    PAGE,
    STATE,
    Follower,
    Site,
    State,
    address_of,
    page,
    serving,
)
from sweep_clustering.pipeline.monitor.status import read_status
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import grow
from sweep_clustering.storage.cube.schema import FAILED
from sweep_clustering.storage.runfolder.folder import FailedWork, FailureRecord, RunFolder, append_failure
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.plan import Cell


def test_the_policy_lets_in_what_the_page_holds_and_no_more() -> None:
    body, policy = page()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    closed = ("default-src", "base-uri", "form-action", "frame-ancestors")
    assert {rules[name] for name in closed} == {"'none'"}
    assert rules["connect-src"] == "'self'"
    assert rules["img-src"] == "data:"
    text = body.decode()
    for kind in ("style", "script"):
        (inside,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    outside = text.split("<style>")[0] + text[text.rindex("</style>") : text.index("<script>")]
    assert not re.search(r"(src|href|action)=[\"'](?!data:)| style=| on\w+=", outside)
    # names are set as text
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in text


# `sweep open`: the page of a cube, over HTTP and in Chromium, from files that it may only read.

NASTY = "<img src=x onerror=document.title='owned'>"
PLAN = make_plan(p=(0.8, 0.9), m=(4, 8), models=("likelihood", "posterior"))
GONE = Cell("a", None, 0.9, 8, 1, "posterior")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All but the last block; a cell failed, with a cause from hell."""
    path = empty(tmp_path_factory.mktemp("page"), PLAN)
    store, failed = BlockStore(path), replace(GONE, m=4)
    for block in list(PLAN.blocks())[:-1]:
        results = draw_block(PLAN, block)
        if block == PLAN.block_of(failed):
            results["status"][-1] = FAILED
        store.write(block, results)
    work = FailedWork(cell=failed, start=0, stop=3)
    record = FailureRecord(work=work, cause=NASTY, node="n1", job="", traceback="", cell=str(failed))
    append_failure(next_generation(path).failures, record)
    RunFolder(path).log.write_text(f"2026-01-01 INFO {NASTY}\n", encoding="utf-8")
    return path


@contextmanager
def served(cube: Path) -> Iterator[str]:
    with serving(cube) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield address_of(server)[0]
        finally:
            server.shutdown()
            thread.join()


def say(address: str, words: bytes, *, reset: bool = False) -> bytes:
    host, _, port = address.split("/")[2].partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(words)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def ask(address: str, path: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, bytes]:
    answer = say(address, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


HERE = {"Host": "127.0.0.1:8787"}


def test_who_is_answered(made: Path) -> None:
    ours = Site(State(made, Follower(made)))
    for headers, statuses in (
        *(({"Host": host}, (200, 200)) for host in ("127.0.0.1:8787", "LOCALHOST:1", "[::1]:8787")),
        # A stranger's page whose name is made to lead here, after it was loaded, would read all of it.
        *(({"Host": host}, (403, 403)) for host in ("", "localhost:8787@evil", "127.0.0.1:\n")),
        *(
            ({**HERE, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}, statuses)
            for site in ("cross-site", "same-site")
            for mode, statuses in (("cors", (403, 403)), ("navigate", (200, 403)))  # a link may lead here
        ),
    ):
        answers = [ours.answer(path, headers) for path in (PAGE, STATE)]
        assert tuple(answer.status for answer in answers) == statuses, headers
        for answer in (*answers, ours.answer("/sweep/other", HERE)):
            found = {name.lower(): value for name, value in answer.headers.items()}
            assert not any(name.startswith("access-control") for name in found)
            assert found["x-content-type-options"] == "nosniff"
            assert found["x-frame-options"] == "DENY"
            assert found["cache-control"] == "no-store"
    tag = ours.answer(STATE, HERE, "older").headers["ETag"]
    unchanged = ours.answer(STATE, HERE, tag.strip('"'))
    assert unchanged.status == 304
    assert unchanged.body == b""
    assert unchanged.headers["ETag"] == tag


def test_the_page_and_its_state_are_served_and_nothing_is_written(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_SECONDS", 0.0)
    shutil.copytree(made.parent, tmp_path, dirs_exist_ok=True)
    cube, run = tmp_path / made.name, RunFolder(tmp_path / made.name).path
    before = files(cube), files(run)
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o500)
    with served(cube) as address:
        assert address.startswith(f"http://{LOOPBACK}:")
        status, body = ask(address, STATE)
        assert status == 200
        assert ask(address, PAGE)[0] == 200
        assert ask(address, "/status")[0] == 404
        document = json.loads(body)
        assert document["head"]["status"]["total"] == read_status(cube).to_dict()["total"]
        assert [ask(address, STATE, way)[0] for way in ("POST", "PUT", "DELETE", "OPTIONS")] == [501] * 4
        for folder in folders:
            folder.chmod(0o700)
        assert (files(cube), files(run)) == before
        os.rename(cube / "zarr.json", cube / "gone")
        status, body = ask(address, STATE)
        assert status == 503
        assert b"tiny.zarr" in body


GET = f"GET {STATE} HTTP/1.1\r\n".encode()
LOCAL = b"Host: 127.0.0.1\r\n"
ASKED: list[tuple[bytes, bytes]] = [
    (GET + LOCAL + b"\r\n", b"200"),
    (GET + b"hOST: LOCALHOST:1\r\n\r\n", b"200"),
    (GET + LOCAL + b"Origin: http://127.0.0.1\r\n\r\n", b"200"),
    (GET + LOCAL + LOCAL + b"\r\n", b"403"),
    (GET + LOCAL + b"Host: evil.example\r\n\r\n", b"403"),
    (GET + LOCAL + b"Origin: http://evil.example\r\n\r\n", b"403"),
    (GET + LOCAL + b"Origin: http://[\r\n\r\n", b"403"),
    (GET + b"\r\n", b"403"),
    (b"GET http://[::1/ HTTP/1.1\r\n" + LOCAL + b"\r\n", b"400"),
    (b"GET /sweep?since=\xff%ff\x00&since=%00 HTTP/1.1\r\n" + LOCAL + b"\r\n", b"200"),
    (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    (GET + b"a: b\r\n" * 200 + b"\r\n", b"431"),
    (b"HEAD /sweep HTTP/1.1\r\n" + LOCAL + b"\r\n", b"501"),
    (b"POST /sweep HTTP/1.1\r\n" + LOCAL + b"Content-Length: 9\r\n\r\nGET / HTT", b"501"),
    (b"\x16\x03\x01\x02\x00", b"400"),
]


def test_whatever_is_asked_is_answered_and_costs_a_line_at_most(
    made: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    whole = GET + LOCAL + b"\r\n"
    with served(made) as address, ExitStack() as stack:
        for words, status in ASKED:
            assert status in say(address, words).split(b"\r\n")[0], words[:200]
        for words in (b"", b"G", GET, GET + LOCAL, whole, whole * 50):
            say(address, words, reset=True)
        port = int(address.split("/")[2].partition(":")[2])
        for _ in range(32):  # which stay silent
            stack.enter_context(socket.create_connection((LOOPBACK, port))).sendall(GET)
        assert ask(address, STATE)[0] == 200
        assert caplog.text == ""
        assert capfd.readouterr() == ("", "")
        monkeypatch.setattr(State, "document", lambda *_: {}["no\nsuch"])
        assert say(address, whole) == b""
        wait_until(lambda: "not answered" in caplog.text)
    assert len(caplog.text.splitlines()) == 1


def test_bad_input_starts_no_server_and_a_proxy_is_named(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(made) as server:
        taken = server.server_address[1]
        with pytest.raises(InputError, match="--port"), serving(made, taken):
            pass
    for names in ("http://hub.example", "a b", "*", "hub.example:8000", "a,-b"):
        monkeypatch.setenv(VARIABLE, names)
        with pytest.raises(InputError, match=VARIABLE), serving(made):
            pass
    monkeypatch.setenv(VARIABLE, " Hub.example , [fe80::1]")
    hosts = ("hub.Example:443", "[fe80::1]", "x.hub.example")
    with served(made) as address:
        assert [ask(address, PAGE, host=host)[0] for host in hosts] == [200, 200, 403]


def test_a_cube_that_is_made_or_grown_is_shown_anew(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_SECONDS", 0.0)
    other = tmp_path / "other.zarr"
    RunFolder(other).make()
    documents = State(other, Follower(other))
    name, first = documents.document()
    assert json.loads(first)["head"]["status"]["datasets"] == []
    shutil.copytree(made, other)
    name, second = documents.document(name)
    grow(other, [PLAN, make_plan("b")], draw_inputs, make_spec("ab"))
    _, third = documents.document(name)
    for text, names in ((second, "aa"), (third, "aabb")):
        assert "".join(panel["dataset"] for panel in json.loads(text)["grid"]["panels"]) == names


TILES = """return [...document.querySelectorAll('td[data-at]')].map((tile) => [
    tile.getAttribute('aria-label'), getComputedStyle(tile).backgroundColor, tile.textContent])"""
REDS = """return [...document.querySelectorAll('td[data-at]')].map((tile) => {
    const image = getComputedStyle(tile).backgroundImage; return image === 'none' ? '' : image; })"""
CARD = "const card = document.getElementById('card'); return card.hidden ? '' : card.innerText"
KEY = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"


def loaded(page: Page, address: str) -> None:
    page.driver.get(address)
    wait_until(lambda: page.run("return !document.getElementById('main').hidden"))


@pytest.mark.slow
def test_the_page_shows_the_cube_fits_and_asks_nothing_while_hidden(made: Path) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    with served(made) as address, chromium() as browser:
        loaded(browser, address)
        tiles = browser.run(TILES)
        assert [label for label, _, _ in tiles] == [
            "a · p 0.8 · m 4: 4 of 4 cells finished",
            "a · p 0.8 · m 8: 4 of 4 cells finished",
            "a · p 0.9 · m 4: 4 of 4 cells finished, 1 failed",
            "a · p 0.9 · m 8: 0 of 4 cells finished",
            "a · unsupervised: 1 of 1 cell finished",
        ]
        assert len({color for _, color, _ in tiles}) == 2  # finished, not begun
        reds = browser.run(REDS)
        assert [bool(red) for red in reds] == [False, False, True, False, False]
        assert reds[2].startswith("linear-gradient(to top, rgb(198, 42, 47) 25%")  # one cell of four
        assert [text for _, _, text in tiles if text] == ["×"]
        text = browser.run("return document.body.innerText")
        for word in ("12 done · 1 failed · 4 left", "not running", "4 of 5", str(replace(GONE, m=4))):
            assert word in text, word
        number = "return document.querySelectorAll('%s').length"
        wait_until(lambda: browser.run(number % "#curves svg") == 2)
        # the baseline; two models where a block is done
        assert browser.run(number % "#scores-table tbody tr") == 1 + 3 * 2
        heads = "return [...document.querySelectorAll('#scores-table th')].map((each) => each.textContent)"
        assert browser.run(heads)[3:7] == [
            "mean NMI, min-normalised",
            "standard error",
            "mean ARI",
            "standard error",
        ]
        note = "return document.getElementById('scores-note').textContent"
        assert "mean NMI, min-normalised as in the paper, " in browser.run(note)
        browser.run(
            "const it = document.getElementById('score'); it.value = 1; it.dispatchEvent(new Event('change'))"
        )
        assert "mean adjusted Rand index, as in scikit-learn, " in browser.run(note)
        assert browser.run(number % "#curves svg") == 2
        browser.run("document.querySelector('td[data-at]').focus()")
        assert "p 0.8 · m 4" in browser.run(CARD)
        assert "best objective" in browser.run(CARD)
        for key, expected in (("Right", "p 0.8 · m 8"), ("Down", "p 0.9 · m 8"), ("Left", "p 0.9 · m 4")):
            browser.run(KEY % f"Arrow{key}")
            assert expected in browser.run(CARD)
        assert NASTY in browser.run(CARD)  # the cause of the failed cell
        assert browser.run("return document.querySelectorAll('td[tabindex=\"0\"]').length") == 2
        browser.run(KEY % "Escape")
        assert browser.run(CARD) == ""
        assert browser.console() == []
        assert {url.split("?")[0] for url in browser.requests()} == {address, f"{address}/state.json"}
        for width, scheme, paper in ((1280, "dark", "rgb(20, 23, 28)"), (400, "light", "rgb(255, 255, 255)")):
            browser.resize(width)
            browser.prefer(scheme)
            loaded(browser, address)
            assert browser.run("return document.documentElement.scrollWidth") <= width
            assert browser.run(background) == paper
            browser.run("document.getElementById('theme').click()")
            assert browser.run(background) != paper
        browser.run("Object.defineProperty(document, 'hidden', {get: () => true, configurable: true})")
        time.sleep(2.5)  # what was planned before is dropped
        browser.requests()
        time.sleep(4.5)
        assert browser.requests() == []
