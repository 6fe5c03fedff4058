"""The page of a run answers the right people, and its state is kept up to date."""

import base64
import hashlib
import json
import os
import random
import re
import shutil
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, compress, product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from browser import Page, chromium
from cubes.small import draw_block, draw_inputs, files, make_plan, make_spec
from cubes.writer import empty_cube, next_generation
from processes.sweeping import wait_until

from sweep_clustering.kernels.scores import adjusted_rand, nmi
from sweep_clustering.pipeline.common import VARIABLE
from sweep_clustering.pipeline.live import site as module
from sweep_clustering.pipeline.live.board import MOST_TILES, Board, CellOutcome, Grid, scores_of_many
from sweep_clustering.pipeline.looks import METHOD_COLORS, mark
from sweep_clustering.pipeline.monitor.status import read_status
from sweep_clustering.pipeline.run.ledger import ATTEMPTS, Collector
from sweep_clustering.pipeline.run.request import Selection
from sweep_clustering.pipeline.scoring.tables import cell_table
from sweep_clustering.pipeline.work.records import Failed, Science, Solved, Span, to_record
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import grow, open_cube
from sweep_clustering.storage.cube.manifest import append_run, read_manifest
from sweep_clustering.storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweep_clustering.storage.provenance import run_record
from sweep_clustering.storage.runfolder.folder import (
    FailedWork,
    FailureRecord,
    HeadRecord,
    Progress,
    RunFolder,
    append_failure,
)
from sweep_clustering.storage.runfolder.journal import Journal
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.inputs import Inputs, RealSource
from sweep_clustering.sweeps.plan import Cell, MethodPlan
from sweep_clustering.sweeps.words import BASELINES, MODEL_CODES


def test_the_policy_lets_in_what_the_page_holds_and_no_more() -> None:
    body, policy = module.page()
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
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube without its last block, in which a cell failed with a hostile cause."""
    path = empty_cube(tmp_path_factory.mktemp("page"), PLAN)
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
def serve_cube(cube: Path) -> Iterator[str]:
    with module.serving(cube) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield module.address_of(server)[0]
        finally:
            server.shutdown()
            thread.join()


def send(address: str, words: bytes, *, reset: bool = False) -> bytes:
    host, _, port = address.split("/")[2].partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(words)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def ask(address: str, path: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[int, bytes]:
    answer = send(address, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


HERE = {"Host": "127.0.0.1:8787"}


def test_who_is_answered(part: Path) -> None:
    ours = module.Site(part, module.Follower(part))
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
        answers = [ours.answer(path, headers) for path in (module.PAGE, module.STATE)]
        assert tuple(answer.status for answer in answers) == statuses, headers
        for answer in (*answers, ours.answer("/sweep/other", HERE)):
            fields = {name.lower(): value for name, value in answer.headers.items()}
            assert not any(name.startswith("access-control") for name in fields)
            assert fields["x-content-type-options"] == "nosniff"
            assert fields["x-frame-options"] == "DENY"
            assert fields["cache-control"] == "no-store"
    tag = ours.answer(module.STATE, HERE, "older").headers["ETag"]
    unchanged = ours.answer(module.STATE, HERE, tag.strip('"'))
    assert unchanged.status == 304
    assert unchanged.body == b""
    assert unchanged.headers["ETag"] == tag


def test_the_page_and_its_state_are_served_and_nothing_is_written(
    part: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_SECONDS", 0.0)
    shutil.copytree(part.parent, tmp_path, dirs_exist_ok=True)
    cube, run = tmp_path / part.name, RunFolder(tmp_path / part.name).path
    before = [files(cube), files(run)]
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o500)
    with serve_cube(cube) as address:
        assert address.startswith(f"http://{module.LOOPBACK}:")
        status, body = ask(address, module.STATE)
        assert status == 200
        assert ask(address, module.PAGE)[0] == 200
        assert ask(address, "/status")[0] == 404
        document = json.loads(body)
        assert document["head"]["status"]["total"] == read_status(cube).to_dict()["total"]
        assert [ask(address, module.STATE, way)[0] for way in ("POST", "PUT", "DELETE", "OPTIONS")] == [
            501
        ] * 4
        for folder in folders:
            folder.chmod(0o700)
        assert [files(folder) for folder in (cube, run)] == before
        os.rename(cube / "zarr.json", cube / "gone")
        status, body = ask(address, module.STATE)
        assert status == 503
        assert b"tiny.zarr" in body


GET = f"GET {module.STATE} HTTP/1.1\r\n".encode()
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
    part: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    whole = GET + LOCAL + b"\r\n"
    with serve_cube(part) as address, ExitStack() as stack:
        for words, status in ASKED:
            assert status in send(address, words).split(b"\r\n")[0], words[:200]
        for words in (b"", b"G", GET, GET + LOCAL, whole, whole * 50):
            send(address, words, reset=True)
        port = int(address.split("/")[2].partition(":")[2])
        for _ in range(32):  # these connections stay silent
            stack.enter_context(socket.create_connection((module.LOOPBACK, port))).sendall(GET)
        assert ask(address, module.STATE)[0] == 200
        assert caplog.text == ""
        assert capfd.readouterr() == ("", "")
        monkeypatch.setattr(module.Site, "document", lambda *_: {}["no\nsuch"])
        assert send(address, whole) == b""
        wait_until(lambda: "not answered" in caplog.text)
    assert len(caplog.text.splitlines()) == 1


def test_bad_input_starts_no_server_and_a_proxy_is_named(part: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with module.serving(part) as server:
        port = server.server_address[1]
        with pytest.raises(InputError, match="--port"), module.serving(part, port):
            pass
    for names in ("http://hub.example", "a b", "*", "hub.example:8000", "a,-b"):
        monkeypatch.setenv(VARIABLE, names)
        with pytest.raises(InputError, match=VARIABLE), module.serving(part):
            pass
    monkeypatch.setenv(VARIABLE, " Hub.example , [fe80::1]")
    hosts = ("hub.Example:443", "[fe80::1]", "x.hub.example")
    with serve_cube(part) as address:
        assert [ask(address, module.PAGE, host=host)[0] for host in hosts] == [200, 200, 403]


def test_a_cube_that_is_made_or_grown_is_shown_anew(
    part: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_SECONDS", 0.0)
    grown = tmp_path / "other.zarr"
    RunFolder(grown).make()
    documents = module.Site(grown, module.Follower(grown))
    name, first = documents.document()
    assert json.loads(first)["head"]["status"]["datasets"] == []
    shutil.copytree(part, grown)
    name, second = documents.document(name)
    grow(grown, [PLAN, make_plan("b")], draw_inputs, make_spec("ab"))
    _, third = documents.document(name)
    for text, names in ((second, "aa"), (third, "aabb")):
        assert "".join(panel["dataset"] for panel in json.loads(text)["grid"]["panels"]) == names


TILES = """return [...document.querySelectorAll('td[data-at]')].map((tile) => [
    tile.getAttribute('aria-label'), getComputedStyle(tile).backgroundColor, tile.textContent])"""
REDS = """return [...document.querySelectorAll('td[data-at]')].map((tile) => {
    const image = getComputedStyle(tile).backgroundImage; return image === 'none' ? '' : image; })"""
CARD = "const card = document.getElementById('card'); return card.hidden ? '' : card.innerText"
KEY = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"


def load_page(page: Page, address: str) -> None:
    page.driver.get(address)
    wait_until(lambda: page.run("return !document.getElementById('main').hidden"))


@pytest.mark.slow
def test_the_page_shows_the_cube_fits_and_asks_nothing_while_hidden(part: Path) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    with serve_cube(part) as address, chromium() as browser:
        load_page(browser, address)
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
        assert reds[2].startswith("linear-gradient(to top, rgb(198, 42, 47) 25%")  # one of four cells failed
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
            load_page(browser, address)
            assert browser.run("return document.documentElement.scrollWidth") <= width
            assert browser.run(background) == paper
            browser.run("document.getElementById('theme').click()")
            assert browser.run(background) != paper
        browser.run("Object.defineProperty(document, 'hidden', {get: () => true, configurable: true})")
        time.sleep(2.5)  # requests that were planned before are dropped
        browser.requests()
        time.sleep(4.5)
        assert browser.requests() == []


# The map: every block has its tile, and a large grid no more of them than a screen holds.


def test_each_place_has_a_tile_of_its_own_where_there_is_room() -> None:
    designs, baselines = ("uniform", "active"), ("unsupervised", "k-means")
    axes: dict[str, Any] = {"searches": ("quick", "long"), "designs": designs}
    searched = make_plan("s", baselines=baselines, methods=(MethodPlan("k-means", 1),), **axes)
    plan = make_plan(p=(0.9, 0.8), m=(24, 12), mixtures=3, mixture_chunk=2, designs=designs)
    grid = Grid([make_plan("b"), plan, searched])
    places: dict[int, set[object]] = {}
    for dataset_plan in grid.plans.values():
        for block in dataset_plan.blocks():
            (tile,) = {grid.tile(cell) for cell in block.cells()}
            # blocks of one tile differ in mixture, replicate and model alone, those of a baseline not in this
            first = replace(block.first, mixture=None, replicate=None)
            places.setdefault(tile, set()).add(first if first.p is None else replace(first, model=""))
            assert set(block.models) <= set(grid.models[tile])
    assert all(len(firsts) == 1 for firsts in places.values())
    at = grid.models.index(("k-means",))  # a method has no search, and stands in the first row
    assert grid.models[at - 1 : at + 3] == [("unsupervised",), ("k-means",), ("unsupervised",), ()]
    panels = {(panel.dataset, panel.variant): panel for panel in grid.panels}
    assert panels["s", ""].rows == ("quick", "long")
    assert panels["s", ""].columns == baselines
    assert [variant for dataset, variant in panels if dataset == "s"] == [
        "", "uniform, quick", "uniform, long", "active, quick", "active, long",
    ]  # fmt: skip
    panel = panels["a", "active"]
    assert panel.rows == ("0.8", "0.9")
    assert panel.columns == ("12", "24")
    lower = next(block.first for block in plan.blocks() if block.first.design == "active")
    assert lower.p == 0.9
    assert lower.m == 24
    assert grid.tile(replace(lower, p=0.8)) == grid.tile(lower) - len(panel.columns)  # the row above
    assert grid.tile(replace(lower, m=12)) == grid.tile(lower) - 1


@pytest.mark.parametrize(("n_p", "n_m"), [(80, 60), (2, 4000)])
def test_neighbours_of_a_large_grid_share_a_tile(n_p: int, n_m: int) -> None:
    p = tuple((np.arange(1, n_p + 1) / n_p).tolist())
    plan = make_plan(p=p, m=tuple(range(1, n_m + 1)), baselines=())
    grid = Grid([plan])
    assert MOST_TILES / 2 < len(grid.models) <= MOST_TILES
    tiles = [grid.tile(block.first) for block in plan.blocks()]
    assert set(tiles) == set(range(len(grid.models)))
    assert grid.panels[0].columns[0].split("–")[0] == "1"


# Scores of many cells at once, and bands, against one cell after the other.


def test_scores_of_many_are_those_of_each() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 60)), int(rng.integers(1, 6))
        truth = rng.integers(0, k, n).astype(np.int16)
        labels = rng.integers(0, k + 2, (7, n)).astype(np.int16)
        labels[0], labels[1], labels[2] = truth, 0, (truth + 1) % k
        truth[:] = truth if seed else 0  # there is one class then
        expected = [[nmi(truth, row), adjusted_rand(truth, row)] for row in labels]
        np.testing.assert_allclose(scores_of_many(truth, labels), expected, rtol=0, atol=1e-12)


def test_models_have_different_lines_whose_colours_follow_the_page() -> None:
    assert mark("posterior-diagonal").svg == {"color": "var(--blue)", "dash": "8 2"}
    assert mark("unsupervised").svg == {"color": "var(--grey)", "dash": "6 3"}
    assert mark("one-of-mine").svg["color"] in METHOD_COLORS
    looks = [tuple(mark(model).svg.values()) for model in MODEL_CODES if model not in BASELINES]
    assert len(set(looks)) == len(looks)


PLANS = (
    make_plan("a", p=(0.8, 0.9), m=(4, 8), models=("likelihood", "posterior")),
    make_plan("b", mixtures=3, mixture_chunk=2, replicates=2),
)
BLOCKS = [block for plan in PLANS for block in plan.blocks()]
ENDS = (DONE, FAILED, NO_SOLUTION)


def tiles_of(board: Board, since: int = -1) -> dict[int, list[list[object]]]:
    """Return the rows of the tiles that changed after a version."""
    return dict(json.loads(board.tiles.newer_than(since)))


Cells = dict[Cell, int]


def assert_same(board: Board, written: Cells, waiting: Cells, tiles: dict[int, list[list[object]]]) -> None:
    """Compare everything on the board, and the tiles that its changes add up to."""
    for row in board.datasets():
        counts = Counter(state for cell, state in written.items() if cell.dataset == row.name)
        numbers = (row.cells, row.done, row.failed, row.no_solution, row.left)
        assert numbers == (counts.total(), *(counts[state] for state in (*ENDS, PENDING)))
    ended = [[written[cell] != PENDING for cell in block.cells()] for block in BLOCKS]
    assert len(board.statuses) == len(BLOCKS)
    assert board.blocks_done == sum(map(all, ended))
    assert len(board.waiting_cells) == len(waiting)
    begun = [any(cell in waiting for cell in block.cells()) for block in BLOCKS]
    begun = [waits or (any(ends) and not all(ends)) for waits, ends in zip(begun, ended, strict=True)]
    assert len(board.open_blocks) == sum(begun)
    for tile, rows in tiles.items():
        for model, found_row in zip(board.grid.models[tile], rows, strict=True):
            mine = [c for c in written if board.grid.tile(c) == tile and c.model == model]
            expected = [
                sum(states.get(cell) == end for cell in mine) for states in (written, waiting) for end in ENDS
            ]
            assert found_row[:7] == [len(mine), *expected]


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_all_cells(seed: int) -> None:
    rng, board, waiting = random.Random(seed), Board(PLANS), Cells()
    written = {cell: PENDING for block in BLOCKS for cell in block.cells()}
    for block in BLOCKS:
        start = rng.choice([[PENDING], [DONE], [DONE, FAILED, PENDING]])
        written |= {cell: rng.choice(start) for cell in block.cells()}
        board.write(block, np.array([written[cell] for cell in block.cells()], np.int8))
    tiles: dict[int, list[list[object]]] = {}
    version = 0
    for _ in range(60):
        block = rng.choice(BLOCKS)
        cells = [cell for cell in block.cells() if written[cell] in (PENDING, FAILED)]
        for cell in rng.sample(cells, len(cells) // 2):
            state = rng.choice(ENDS)
            assert board.settle(CellOutcome(cell, state, 1.0, -2.0)) == (cell not in waiting)
            waiting.setdefault(cell, state)
        if rng.random() < 0.3:
            some = rng.sample(cells, rng.randint(0, len(cells)))  # draws of the block
            unknown = {cell for cell in some if cell not in waiting}
            written |= {cell: waiting.pop(cell, DONE) for cell in some}
            # a cell that failed again without being drawn counts as written, as both say the same of it
            for cell in cells:
                if written[cell] == waiting.get(cell) == FAILED:
                    del waiting[cell]
            is_changed = board.write(block, np.array([written[cell] for cell in block.cells()], np.int8))
            assert set(compress(block.cells(), is_changed)) == unknown
            assert_same(board, written, waiting, {})
        if rng.random() < 0.5:  # a page does not see every state
            version, before = board.advance(), version
            tiles |= tiles_of(board, before)
    board.advance()
    tiles |= tiles_of(board, version)
    assert_same(board, written, waiting, tiles)
    assert tiles_of(board) == tiles
    assert set(tiles) == set(range(len(board.grid.models)))


# Time, objective and NMI of the cells of a cube, against the tables of the report.


def test_scores_and_times_are_those_of_the_report(tiny_run: Path) -> None:
    cube = tiny_run / "tiny.zarr"
    follower = module.Follower(cube)
    *_, tiles, series = shown_parts(follower)
    scores = {
        (dataset, float(p or 0), model, m or 0): values_of_scores
        for (dataset, _, p, model), points in series.items()
        for m, *values_of_scores in points
    }
    grid = follower.board.grid
    rows = {
        (block.dataset, block.first.p or 0, model, block.first.m or 0): row
        for block in chain.from_iterable(plan.blocks() for plan in grid.plans.values())
        for model, row in zip(block.models, tiles[grid.tile(block.first)], strict=True)
    }
    table = cell_table(open_cube(cube), read_manifest(cube).plans)
    table["unit"] = table["mixture"].fillna(table["replicate"]).fillna(-1)
    for key, cells in table.fillna({"p": 0, "m": 0}).groupby(["dataset", "p", "model", "m"]):
        n, values = scores.pop(key)
        units = cells.groupby("unit")[["nmi", "adjusted_rand"]].mean()
        assert n == len(units)
        for (mean, error), score in zip(values, ("nmi", "adjusted_rand"), strict=True):
            expected = [units[score].mean(), units[score].sem() if n > 1 else None]
            assert [mean, error] == pytest.approx(expected)
        assert rows[key][:2] == [len(cells), (cells["status"] == "done").sum()]
        assert rows[key][7:9] == pytest.approx([cells["seconds"].mean(), cells["objective"].max()])
    assert not scores


# A collector that tells a board of what it takes: the same as counting the cube.

GRID = make_plan(p=(0.8, 0.9))


def solve_partly(cell: Cell, start: int, stop: int) -> Solved:
    labels = np.array([0, 1, 0, 1, 0], np.int16)
    solution = labels, np.zeros((2, 2)), np.ones(2)
    return Solved(Span(cell, start, stop), -np.arange(start, stop, dtype=float), start, *solution, 0.5, 0.1)


class Run:
    """Collectors of a cube, with feeds; each start is another process, after the one before has died."""

    def __init__(self, cube: Path, stack: ExitStack) -> None:
        self.cube, self.stack = cube, stack

    def start(self) -> Iterator[Span]:
        """Yield the spans that are left to do."""
        self.stack.close()
        generation = next_generation(self.cube)
        self.collector = Collector(
            BlockStore(self.cube, files=generation.files),
            self.stack.enter_context(Journal(generation.journal, generation.files)),
            Inputs((GRID,), {"a": RealSource(*draw_inputs(GRID))}, {}),
            {"a": Science(7, (), GRID.n_clusters)},
            keep_failure=lambda record: append_failure(generation.failures, record),
            selection=Selection(),
        )
        self.feed = module.Feed(self.cube)
        self.collector.tell(self.feed)
        return iter(list(self.collector.spans_left(GRID)))

    def solve(self, work: Span) -> None:
        self.collector.take([solve_partly(work.unit, work.start, work.stop)])

    def fail(self, work: Span) -> None:
        for _ in range(ATTEMPTS):
            self.collector.take([Failed(work, "ValueError: no", "n1", "", "Traceback")])


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return empty_cube(tmp_path, GRID)


@pytest.fixture
def run(cube: Path) -> Iterator[Run]:
    with ExitStack() as stack:
        yield Run(cube, stack)


def shown_parts(feed: module.Feed | module.Follower) -> tuple[Any, ...]:
    """Return all that the page has of a board; a tile's best cell is any of several equal ones."""
    feed.update()
    while isinstance(feed, module.Follower) and feed.unread:
        feed.update()
    board = feed.board
    board.advance()
    tiles = {tile: [row[:9] for row in rows] for tile, rows in json.loads(board.tiles.newer_than(-1))}
    series = {tuple(curve[:4]): curve[4] for curve in json.loads(board.series.newer_than(-1))}
    return (
        board.datasets(),
        board.blocks_done,
        len(board.waiting_cells),
        len(board.open_blocks),
        tiles,
        series,
    )


def test_the_board_of_a_run_is_that_of_its_files(
    run: Run, cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = run.start()
    run.solve(next(work))  # the baseline: a block of its own
    run.solve(next(work))
    assert shown_parts(run.feed)[1:4] == (1, 1, 1)
    run.fail(next(work))
    board = shown_parts(run.feed)
    assert board[1:4] == (2, 0, 0)
    assert board[0] == read_status(cube).datasets
    assert board[0][0].done == 2
    assert board[0][0].failed == 1
    assert board[0][0].left == 2
    assert board == shown_parts(module.Follower(cube))
    run.solve(next(work))  # stays in the journal
    before = shown_parts(run.feed)
    work = run.start()  # earlier results are shown
    after = shown_parts(run.feed)
    assert after[0] == before[0] == read_status(cube).datasets
    assert after[5] == before[5]
    assert [rows[0][:7] for rows in after[4].values()] == [rows[0][:7] for rows in before[4].values()]
    monkeypatch.setattr(module, "CREDIT", -1.0)  # scores wait until they are paid for
    for span in work:
        run.solve(span)
    unpaid = shown_parts(run.feed)
    assert unpaid[0] == read_status(cube).datasets  # counts never wait
    assert run.feed.unread > 0
    assert unpaid[5] == after[5]
    monkeypatch.setattr(module, "CREDIT", 1.0)
    final = shown_parts(run.feed)
    assert final[1:4] == (3, 0, 0)
    assert final == shown_parts(module.Follower(cube))
    assert run.feed.unread == 0


def test_a_page_that_fails_does_not_end_the_run(
    run: Run, cube: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", 0.01)
    work = run.start()
    monkeypatch.setattr(run.feed.board, "settle", lambda settled: 1 / 0)
    with run.feed:
        run.solve(next(work))
        wait_until(lambda: "stands still" in caplog.text)
    run.solve(next(work))
    assert not run.feed._queue
    assert read_status(cube).datasets[0].done == 1


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every update look at the files, and not every other second."""
    monkeypatch.setattr(module, "PATIENCE", 0)
    monkeypatch.setattr(module, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(module, "SNAPSHOT_SECONDS", 0.0)


def follow(cube: Path) -> module.Follower:
    follower = module.Follower(cube)
    follower.update()
    return follower


def test_cells_that_wait_in_the_journal_are_seen(cube: Path, at_once: None) -> None:
    generation, first = next_generation(cube), Cell("a", None, 0.9, 4, 0, "likelihood")
    HeadRecord(spec="s", node="n").write(generation.head, generation.files)
    with Journal(generation.journal, generation.files) as journal:
        for part in (
            solve_partly(first, 0, 2),
            solve_partly(first, 2, 3),
            solve_partly(replace(first, replicate=1), 0, 2),
        ):
            journal.append(*to_record([part]))
    follower = follow(cube)
    board = follower.board
    assert len(board.waiting_cells) == 1
    assert len(board.open_blocks) == 1
    assert board.n_scored == 1
    board.advance()
    (row,) = tiles_of(board)[board.grid.tile(first)]
    assert row == [2, 0, 0, 0, 1, 0, 0, 1.0, 0.0, str(first)]
    assert board.advance() == board.version, "nothing new"
    assert board.tiles.newer_than(board.version) == "[]", "nothing new"
    assert board.datasets() == read_status(cube).datasets  # nothing of it is in the cube
    block = GRID.block_of(first)
    BlockStore(cube).write(block, draw_block(GRID, block))
    follower.update()
    assert len(board.waiting_cells) == 0
    assert len(board.open_blocks) == 0
    assert board.n_scored == 2
    assert not follow(cube).board.waiting_cells  # the journal still has what is in the cube
    # a damaged journal is left to the next driver
    raw = bytearray(generation.journal.read_bytes())
    raw[60] ^= 255
    generation.journal.write_bytes(raw)
    fresh = follow(cube).board
    assert fresh.waiting_cells == {}
    assert fresh.n_scored == 2


def test_differences_add_up_to_the_whole(cube: Path, at_once: None) -> None:
    follower, store = module.Follower(cube), BlockStore(cube)
    state = module.Site(cube, follower)
    name, first = state.document()
    states: list[dict[str, Any]] = [json.loads(first)]
    assert state.document(name) == (name, b"")
    for block in GRID.blocks():
        store.write(block, draw_block(GRID, block))
        while (answer := state.document(name))[0] != name:
            name = answer[0]
            states.append(json.loads(answer[1]))
            assert states[-1]["name"] == name
            assert "grid" not in states[-1]
            assert len(states[-1]["tiles"]) <= 1
    whole = json.loads(state.document()[1])
    assert "grid" in states[0]
    assert "grid" in whole
    assert len(whole["tiles"]) == len(follower.board.grid.models)
    for part, n in (("tiles", 1), ("series", 4)):
        rows_seen = {tuple(row[:n]): row[n] for document in states for row in document[part]}
        assert rows_seen == {tuple(row[:n]): row[n] for row in whole[part]}
    # a state that was never there gives all
    unknown = (f"{follower.token}.{end}" for end in ("1.-3", "9.99999", "1." + "9" * 5000, "1.²"))
    for since in ("x", "..", "a.1.2", *unknown):
        assert "grid" in json.loads(state.document(since)[1])


def test_numbers_and_words_are_those_of_status_and_failures_have_their_tile(
    cube: Path, at_once: None
) -> None:
    block = next(GRID.blocks())
    BlockStore(cube).write(block, draw_block(GRID, block))
    cell, gone = Cell("a", None, 0.9, 4, 1, "likelihood"), Cell("gone", None, 0.5, 1, 0, "posterior")
    append_run(cube, run_record({"ecoli": ("not here",)}))
    with Lease.acquire(cube) as lease:
        head = HeadRecord(spec="s", node="n0", dashboard="http://here").in_state("running")
        head.write(lease.generation.head, lease.files)
        progress = Progress(restarts=5, total=20, workers=3, left=60.0, at=time.time())
        progress.write(lease.generation.state, lease.files)
        RunFolder(cube).log.write_text("".join(f"line {n} {'x' * 500}\n" for n in range(30)))
        busy: list[module.AtWork] = [(f"w{n}", "n", "", "a", float(-n)) for n in range(996)]
        follower = module.Follower(cube)
        state = module.Site(cube, follower, lambda: (1000, busy))
        for attempt, unit in product((1, 2), (cell, gone)):
            facts = {"cell": str(unit), "cause": f"because {attempt}", "attempt": attempt}
            record = FailureRecord(
                work=FailedWork(cell=unit, start=0, stop=3), node="n1", job="7", traceback="", **facts
            )
            append_failure(lease.generation.failures, record)
            head_state = json.loads(state.document()[1])["head"]
        expected = read_status(cube).to_dict()
    failures, keys = head_state["failures"], ("cell", "tile", "cause", "attempt")
    assert failures["cells"] == 2
    assert failures["records"] == 4
    assert [[failure[key] for key in keys] for failure in failures["last"]] == [
        [str(gone), None, "because 2", 2],
        [str(cell), follower.board.grid.tile(cell), "because 2", 2],
    ]
    assert [line.split()[1] for line in head_state["log"]] == [str(n) for n in range(18, 30)]
    assert {len(line) for line in head_state["log"]} == {400}
    workers = head_state["crew"]
    assert workers["connected"] == 1000
    assert workers["busy"] == 996
    assert len(workers["rows"]) == module.MOST_WORKERS
    assert workers["rows"][0] == ["w995", "n", "", "a", -995.0]  # the first row began first
    for key in ("at", "left"):  # these change from second to second
        del expected["run"][key]
    del expected["eta_seconds"]
    assert head_state["status"] == expected
    assert expected["skipped"] == {"ecoli": ["not here"]}
    assert head_state["who"].startswith("run by ")
    assert head_state["ends_at"] == pytest.approx(time.time() + 60, abs=20)


def test_files_are_not_looked_at_all_the_time(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = module.Follower(cube)
    monkeypatch.setattr(module, "SNAPSHOT_SECONDS", 1000.0)
    monkeypatch.setattr(module.time, "time", Mock(return_value=1e9))  # documents say when they were made
    monkeypatch.setattr(follower, "_replay", Mock())
    for _ in range(5):
        follower.update()
    monkeypatch.setattr(follower, "update", Mock())
    state = module.Site(cube, follower)
    assert len({state.document() for _ in range(10)}) == 1
    assert follower._replay.call_count == 1  # type: ignore[attr-defined]
    assert follower.update.call_count == 1  # type: ignore[attr-defined]


def test_the_pace_is_that_of_the_last_minutes() -> None:
    pace, at_work = module.Pace(), Progress(restarts=0, total=10**6, workers=1, left=1.0, at=0.0)
    assert pace.to_dict() == {"per_second": None, "seconds": 0, "steps": []}
    for at in (begin + later for begin in range(0, 2000, 10) for later in (0, 1)):  # 1: too soon after
        pace.note(at_work.model_copy(update={"at": float(at), "restarts": 4 * at}))
    speed = pace.to_dict()
    assert speed["per_second"] == 4.0
    assert set(speed["steps"]) == {4.0}
    assert 590 <= speed["seconds"] <= 600
    pace.note(at_work.model_copy(update={"at": 3000.0, "restarts": 5}))  # another run
    assert pace.to_dict()["steps"] == []
