"""The page of a run over HTTP, and its state, a JSON document of changes since another state.

`Feed` belongs to a run in progress, in its driver's process. The driver puts events into a queue, which
costs it a microsecond, and a thread takes them from there once a second. `Follower` reads the cube and
its run folder, while another process, maybe on another machine, writes them. Both are a `Keeper`, which
first counts the blocks of the cube, and reads times and scores of cells that are done as far as there is
time.

`Site.document` is the state. Counts and scores are those of a `Keeper`'s board, and
everything else is read from the run folder, as `sweep status` reads it. `Site.answer` answers one GET for the
dashboard of a run and for `serving`, the server of `sweep open`. Pages of other sites may read nothing.
"""

import base64
import hashlib
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from itertools import compress, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.pipeline.common import VARIABLE, is_own, own_names
from sweep_clustering.pipeline.live.board import Board, CellOutcome, Statuses, scores_of_many, to_json
from sweep_clustering.pipeline.looks import PALETTE, mark
from sweep_clustering.pipeline.monitor.status import counted_status, last_lines
from sweep_clustering.pipeline.work.merge import CellResult, Mismatch
from sweep_clustering.pipeline.work.records import from_record
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import DONE, PENDING
from sweep_clustering.storage.files import StorageError
from sweep_clustering.storage.runfolder.folder import FailureRecord, Progress, RunFolder, read_failures
from sweep_clustering.storage.runfolder.journal import JournalDamaged, replay
from sweep_clustering.sweeps.errors import InputError, cause_of, present, refused
from sweep_clustering.sweeps.plan import Block, Cell
from sweep_clustering.sweeps.words import is_model

logger = logging.getLogger(__name__)

# Bytes of labels that wait for their scores. Cells beyond have none.
MOST_WAITING = 64 * 2**20
# Cells that are scored together.
AT_ONCE = 256

# Seconds between two readings of the queue of a `Feed`.
TURN_SECONDS = 1.0
# Share of a core for reading cells that were done before and for scores, and CPU seconds to begin with.
SHARE = 0.002
CREDIT = 2.0

# A `Follower` reads all files again after so many times the seconds that it took, and not before so many
# seconds.
PATIENCE = 20
LEAST_SECONDS = 2.0
# Seconds for unread cells in each update of a `Follower`.
READING_SECONDS = 0.5
# Bytes of a journal that is read. The page has only the length of a longer one.
MOST_JOURNAL = 64 * 2**20

# Least seconds between two states, however many browsers have the page open.
SNAPSHOT_SECONDS = 1.0
LOG_LINES = 12
MOST_FAILURES = 20
MOST_WORKERS = 24
# Letters of a line of the log, or of a cause.
LONGEST = 400
# Seconds that the throughput covers, and least seconds between two of its points.
PACE_SECONDS = 600.0
PACE_STEP = 5.0

# Name, node and job of a worker, its task, and the unix time since when.
AtWork = tuple[str, str, str, str, float]
# Number of connected workers, and those that have begun something.
Crew = tuple[int, list[AtWork]]


class Keeper:
    """Keeps the board of a cube, which is empty as long as there is no cube. It changes no file.

    `update`, under the lock, brings the board up to date. The constructor raises InputError if the folder is
    no cube, and StorageError if it cannot be read.
    """

    def __init__(self, cube: Path) -> None:
        self.lock = threading.RLock()
        self._cube = cube
        self._begin()

    def _begin(self) -> None:
        """Begin a board with a new name for the grid that the cube has now."""
        self.token = secrets.token_hex(8)
        self.manifest = read_manifest(self._cube) if self._cube.is_dir() else None
        self._plans = {} if self.manifest is None else self.manifest.plans
        self.board = Board(self._plans.values())
        self._store = None if self.manifest is None else BlockStore(self._cube, read_only=True)
        self._truths: dict[str, NDArray[np.int16]] | None = None
        self._unread: deque[tuple[Block, NDArray[np.bool_]]] = deque()
        self._unscored: deque[CellOutcome] = deque()
        self._look()

    @property
    def unread(self) -> int:
        """Return the number of cells that are done, and not read yet or without their score so far."""
        return sum(int(is_unread.sum()) for _, is_unread in self._unread) + len(self._unscored)

    def _look(self) -> None:
        """Count the blocks that have changed. Cells that are new to the board are read later."""
        for plan in self._plans.values():
            for block, statuses in present(self._store).all_statuses(plan):
                if not np.array_equal(self.board.statuses[block], statuses):
                    self._unread.append((block, self.board.write(block, statuses)))

    def _settle(self, outcome: CellOutcome) -> None:
        """Take a finished cell that is not in the cube yet. Its score comes later."""
        is_new, labels = self.board.settle(outcome), outcome.labels
        # labels of one data set have one size, so the size of these stands for all
        if is_new and labels is not None and labels.nbytes * len(self._unscored) < MOST_WAITING:
            self._unscored.append(outcome)

    def _read_some(self) -> bool:
        """Score some of the cells that wait, or read a block, and return whether there was either."""
        if self._unscored:
            outcomes = [self._unscored.popleft() for _ in range(min(AT_ONCE, len(self._unscored)))]
        elif self._unread:
            outcomes = []
            block, is_unread = self._unread.popleft()
            arrays = present(self._store).read(block)
            for place, cell in compress(enumerate(block.cells()), is_unread):
                status, seconds = int(arrays["status"][place]), float(arrays["seconds"][place])
                labels, best = arrays["labels"][place], _largest(arrays["log_likelihood"][place])
                is_solved = labels.size and labels.min() >= 0
                outcomes.append(CellOutcome(cell, status, seconds, best, labels if is_solved else None))
                self.board.note(outcomes[-1])
        else:
            return False
        self._score(outcomes)
        return True

    def _score(self, outcomes: list[CellOutcome]) -> None:
        """Score every cell that has labels, those of the same data at once."""
        if self._truths is None:  # opened once, and not before there is something to score
            nodes = open_cube(self._cube).subtree
            truths = ((node.path.strip("/"), node.get("labels_true")) for node in nodes)
            self._truths = {name: np.asarray(truth) for name, truth in truths if truth is not None}
        groups: dict[tuple[str, int | None], list[CellOutcome]] = {}
        for outcome in outcomes:
            cell = outcome.cell
            if outcome.labels is not None and outcome.status == DONE and cell.dataset in self._truths:
                groups.setdefault((cell.dataset, cell.mixture), []).append(outcome)
        for (dataset, mixture), group in groups.items():
            truth = self._truths[dataset]
            if mixture is not None:  # a part of a sweep need not begin with the first one
                truth = truth[self._plans[dataset].dims[0].index(mixture)]
            labels = np.stack([present(outcome.labels) for outcome in group])
            for outcome, scores in zip(group, scores_of_many(truth, labels), strict=True):
                self.board.score(outcome.cell, scores)


def outcome_of(result: CellResult) -> CellOutcome:
    """Return what the page shows about a cell that ended."""
    if result.best is None or result.has_failed:
        return CellOutcome(result.cell, result.status)
    labels = result.best.labels if result.best.has_solution else None
    best = _largest(result.objectives[result.is_run])
    return CellOutcome(result.cell, result.status, result.seconds, best, labels)


def _largest(objectives: NDArray[np.float64]) -> float:
    return float(np.fmax.reduce(objectives)) if len(objectives) else np.nan


class Feed(Keeper):
    """Keeps the board of a cube while a driver runs, from events of a `Collector`.

    It is a context manager.
    """

    def __init__(self, cube: Path) -> None:
        super().__init__(cube)
        self._queue: deque[Callable[[], object]] = deque()
        self._scoring, self._start_time = 0.0, time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def take_cell(self, result: CellResult) -> None:
        """Take a cell that ended: done, failed or without a solution."""
        self._queue.append(partial(self._settle, outcome_of(result)))

    def take_block(self, block: Block, statuses: Statuses) -> None:
        """Take a block that was written, with its statuses."""
        self._queue.append(partial(self.board.write, block, statuses))

    def update(self) -> None:
        """Take the events, and compute scores as far as their share of time allows."""
        while self._queue:
            self._queue.popleft()()
        while self._scoring <= CREDIT + SHARE * (time.monotonic() - self._start_time) and self._read_some():
            pass

    def _read_some(self) -> bool:
        start_time = time.thread_time()
        try:
            return super()._read_some()
        except StorageError:
            return False  # the driver meets it too, and reports it
        finally:
            self._scoring += time.thread_time() - start_time

    def _run(self) -> None:
        while not self._end.wait(TURN_SECONDS):
            try:
                with self.lock:
                    self.update()
                    self.board.advance()
            except Exception:
                # whatever is wrong with a page, the run goes on
                logger.exception("the page of this run stands still; sweep open shows its files")
                self._queue = deque(maxlen=0)  # which takes nothing
                return


class Follower(Keeper):
    """Keeps the board of a cube by reading its files and those of its run folder."""

    # path and length of the journal that was read last
    _journal = ("", 0)
    # time of the next reading of files
    _next = 0.0

    def update(self) -> None:
        """Read the files now and then, and cells for a moment. Begin again when the cube has grown."""
        start_time = time.monotonic()
        if (read_manifest(self._cube).plans if self._cube.is_dir() else {}) != self._plans:
            self._begin()
            self._journal, self._next = ("", 0), start_time
        if start_time >= self._next:
            self._look()
            self._replay()
            end_time = time.monotonic()
            self._next = end_time + max(LEAST_SECONDS, PATIENCE * (end_time - start_time))
        deadline = time.monotonic() + READING_SECONDS
        while time.monotonic() < deadline and self._read_some():
            pass

    def _replay(self) -> None:
        """Take cells that are finished according to the journal, and not in the cube yet."""
        path = RunFolder(self._cube).last_run.journal
        try:
            journal = str(path), path.stat().st_size
        except OSError:
            return
        if self.manifest is None or journal == self._journal or journal[1] > MOST_JOURNAL:
            return
        self._journal = journal
        results: dict[Cell, CellResult] = {}
        try:
            for header, arrays in replay(path):
                for part in from_record(header, arrays, self._plans):
                    cell = part.span.unit
                    if isinstance(cell, Cell) and cell.dataset in self._plans:
                        stop = self.manifest.spec.stop if is_model(cell.model) else None
                        restarts = self._plans[cell.dataset].restarts_of(cell.model)
                        results.setdefault(cell, CellResult(cell, restarts, stop)).add(part)
        except (JournalDamaged, Mismatch, ValueError):
            return  # the next driver reports it, and the cells so far stay
        for cell, result in results.items():
            block = self._plans[cell.dataset].block_of(cell)
            if result.end is not None and self.board.statuses[block][block.position(cell)] == PENDING:
                self._settle(outcome_of(result))


class Pace:
    """Restarts and questions done over the last minutes, from the progress that the driver writes."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def note(self, progress: Progress) -> None:
        """Take the progress that the driver wrote last."""
        n_done, points = progress.restarts + progress.answers, self._points
        if points and (n_done < points[-1][1] or progress.at < points[-1][0]):
            points.clear()  # another run, or a clock that was set back
        if not points or progress.at - points[-1][0] >= PACE_STEP:
            points.append((progress.at, n_done))
        while points[-1][0] - points[0][0] > PACE_SECONDS:
            points.popleft()

    def to_dict(self) -> dict[str, Any]:
        """Return units per second over all points, the seconds they cover, and units per second by step."""
        points = list(self._points)
        seconds = points[-1][0] - points[0][0] if points else 0.0
        steps = [round((last[1] - first[1]) / (last[0] - first[0]), 3) for first, last in pairwise(points)]
        rate = (points[-1][1] - points[0][1]) / seconds if seconds else None
        return {"per_second": rate, "seconds": round(seconds), "steps": steps}


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
    """Answers requests of any thread with the page and its state, a document made at most once a second.

    `crew` returns the workers if they are known here.
    """

    def __init__(self, cube: Path, keeper: Feed | Follower, crew: Callable[[], Crew] | None = None) -> None:
        self._cube = cube
        self._keeper = keeper
        self._crew = crew
        self._pace = Pace()
        self._snapshot_time, self._version, self._number, self._head = -SNAPSHOT_SECONDS, 0, 0, ""
        self._failures: tuple[object, dict[str, Any]] = None, {}

    def document(self, page_state: str = "") -> tuple[str, bytes]:
        """Return the name of the present state, and JSON of the changes since another state.

        There is no JSON if nothing changed. If `page_state` is not the name of a state, the document is
        whole.
        """
        with self._keeper.lock:
            if time.monotonic() - self._snapshot_time >= SNAPSHOT_SECONDS:
                self._keeper.update()
                old_state = self._head, self._number
                self._number, self._head = self._keeper.board.advance(), to_json(self._head_document())
                self._version += old_state != (self._head, self._number)
                self._snapshot_time = time.monotonic()
            name = f"{self._keeper.token}.{self._version}.{self._number}"
            if page_state == name:
                return name, b""
            # version of the board in the other state, or -1 if this document never had it
            token, _, numbers = page_state.partition(".")
            number = numbers.partition(".")[2]
            is_ours = token == self._keeper.token and number.isdecimal() and len(number) < 16
            version = int(number) if is_ours and int(number) <= self._number else -1
            board = self._keeper.board
            parts = {
                "name": to_json(name),
                "at": f"{time.time():.1f}",
                "head": self._head,
                "tiles": board.tiles.newer_than(version),
                "series": board.series.newer_than(version),
            }
            if version < 0:
                parts["grid"] = to_json(self._grid())
            return name, ("{" + ",".join(f'"{key}":{text}' for key, text in parts.items()) + "}").encode()

    def answer(self, path: str, headers: Mapping[str, str], page_state: str = "") -> Answer:
        """Answer a GET of a path without its query; `page_state` names the state that the page has."""
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
        name, body = self.document(page_state)
        tag = {**ALWAYS, "ETag": f'"{name}"'}
        if not body:
            return Answer(304, b"", tag)
        return Answer(200, body, {**tag, "Content-Type": "application/json"})

    def _head_document(self) -> dict[str, Any]:
        board, run = self._keeper.board, RunFolder(self._cube)
        blocks = len(board.statuses), board.blocks_done
        status = counted_status(self._cube, self._keeper.manifest, board.datasets(), blocks)
        counts = status.to_dict()
        del counts["eta_seconds"]  # another number a second later, as are these
        ends_at = None
        if status.progress is not None:
            self._pace.note(status.progress)
            del counts["run"]["at"], counts["run"]["left"]
            ends_at = None if status.eta is None else status.progress.at + present(status.progress.left)
        journal = run.last_run.journal
        return {
            "cube": self._cube.name,
            "status": counts,
            "who": status.outlook[0],
            "ends_at": ends_at,
            "pace": self._pace.to_dict(),
            "journal": {
                "bytes": journal.stat().st_size if os.path.exists(journal) else 0,
                "waiting": len(board.waiting_cells),
                "open_blocks": len(board.open_blocks),
            },
            "scored": board.n_scored,
            "unread": self._keeper.unread,
            "crew": self._working(),
            "failures": self._last_failures(run),
            "log": [line[:LONGEST] for line in last_lines(run.log, LOG_LINES)],
        }

    def _working(self) -> dict[str, Any] | None:
        """Return the numbers of workers, and those that have worked on a task for longest."""
        if self._crew is None:
            return None
        n_connected, at_work = self._crew()
        longest = sorted(at_work, key=itemgetter(-1))
        return {"connected": n_connected, "busy": len(longest), "rows": longest[:MOST_WORKERS]}

    def _grid(self) -> dict[str, Any]:
        grid = self._keeper.board.grid
        models = [model for plan in grid.plans.values() for model in (*plan.baselines, *plan.models)]
        units = {name: "mixtures" if plan.mixtures else "redraws" for name, plan in grid.plans.items()}
        return {
            "panels": [asdict(panel) for panel in grid.panels],
            "looks": {model: mark(model).svg for model in models},
            "units": units,
        }

    def _last_failures(self, run: RunFolder) -> dict[str, Any]:
        """Return the last failures, one for each cell, with the tile of the cell."""
        files = [generation.failures for generation in run.generations()]
        # with the name of the board: another one has other tiles
        key = self._keeper.token, [(path, path.stat().st_size) for path in files if path.exists()]
        if key == self._failures[0]:
            return self._failures[1]
        records, plans = read_failures(run), self._keeper.board.grid.plans
        last: dict[str, FailureRecord] = {}
        for record in reversed(records):
            last.setdefault(record.cell, record)
        rows = []
        for record in islice(last.values(), MOST_FAILURES):
            cell, tile = record.work.cell, None
            if cell is not None and cell.dataset in plans and plans[cell.dataset].has(cell):
                tile = self._keeper.board.grid.tile(cell)
            fields = record.model_dump(include={"cell", "at", "node", "job", "attempt"})
            rows.append({**fields, "cause": record.cause[:LONGEST], "tile": tile})
        has_earlier = any(path != run.last_run.failures for path, _ in key[1])
        document = {"cells": len(last), "records": len(records), "earlier": has_earlier, "last": rows}
        self._failures = key, document
        return document


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
        server = _Server(Site(cube, Follower(cube)), port)
    except OSError as error:
        expected = "a port that is free; without --port one is found"
        raise refused("--port", f"{port} ({error.strerror})", expected) from error
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
            page_state = parse_qs(parts.query).get("since", [""])[0]
            answer = self.server.site.answer(parts.path, headers, page_state)
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
