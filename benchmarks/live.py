"""Measure the cost of the page of a run for scheduler and driver, at the rates of 1,000 workers."""

import asyncio
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from cubes.small import draw_inputs, make_plan, make_spec
from tables import Table
from tornado.httpserver import HTTPServer
from tornado.web import Application

from sweep_clustering.pipeline.cluster.pages import NAME, OwnPage
from sweep_clustering.pipeline.live.board import Statuses
from sweep_clustering.pipeline.live.site import Feed, Site
from sweep_clustering.pipeline.work.merge import CellResult
from sweep_clustering.pipeline.work.records import Solved, Span
from sweep_clustering.storage.cube.growth import create
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.storage.runfolder.folder import HeadRecord, Progress, RunFolder
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.plan import Block, DatasetPlan

COLUMNS = (
    "1,000 workers, a restart of",
    "cells/s",
    "pages open",
    "driver",
    "counts and scores",
    "answers",
    "in all",
)
COST = Table("live", COLUMNS)
TABLES = (COST,)
# Seconds of each run.
SECONDS = 12.0

WORKERS = 1000
RESTARTS = 50
# The mean of the published evaluation repeated (docs/repeat.md: 3.3 core-hours), and much less than that.
RESTART_SECONDS = (0.068, 0.02)

VIEWERS = (0, 1, 5)
POLL_SECONDS = 2.0
TICK = 0.05


def measure() -> dict[str, str]:
    """Return the table with shares of a core."""
    rows = [_row(seconds, viewers) for seconds in RESTART_SECONDS for viewers in VIEWERS]
    return {COST.name: COST.markdown(rows)}


def _row(restart: float, viewers: int) -> tuple[object, ...]:
    plan = make_plan(
        n_samples=150,
        n_features=4,
        n_clusters=3,
        p=tuple(round(0.5 + 0.025 * k, 3) for k in range(1, 21)),
        m=tuple(range(10, 510, 50)),
        replicates=50,
        models=("likelihood", "posterior"),
        restarts=RESTARTS,
    )
    cells = WORKERS / (RESTARTS * restart)
    with ExitStack() as stack:
        cube = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "big.zarr"
        create(cube, [plan], draw_inputs, make_spec("a"))
        lease = stack.enter_context(Lease.acquire(cube))
        HeadRecord(spec="s", node="n").in_state("running").write(lease.generation.head, lease.files)
        progress = Progress(restarts=1, total=10**7, workers=WORKERS, left=1e4, at=time.time())
        progress.write(lease.generation.state, lease.files)
        RunFolder(cube).log.write_text("a line of a log that is neither short nor long\n" * 2000)
        shares = _core_shares(cube, plan, cells, viewers)
    labels = f"{1000 * restart:.0f} ms", f"{cells:.0f}", viewers
    return (*labels, *(f"{100 * share:.2f} %" for share in (*shares, sum(shares))))


class Timed(Feed):
    """A feed that notes the CPU time of its thread."""

    cpu_seconds = 0.0

    def update(self) -> None:
        """Note the time after each turn."""
        super().update()
        self.cpu_seconds = time.thread_time()


def _core_shares(cube: Path, plan: DatasetPlan, rate: float, viewers: int) -> tuple[float, float, float]:
    """Return the shares of a core for the driver's thread, the page's thread, and all answers."""
    busy = [
        (f"10.0.0.{n % 250}:{n}", f"node{n}", "17", f"a/p=0.9/m=60/replicate=3/posterior {n}", float(n))
        for n in range(WORKERS)
    ]
    with Timed(cube) as feed, ExitStack() as stack:
        site = Site(cube, feed, crew=lambda: (WORKERS, busy))
        port = stack.enter_context(_serve_page(site))
        pages = [Viewer(port) for _ in range(viewers)]
        start_time = time.monotonic()
        main_cpu, driver = time.thread_time(), 0.0
        all_start = time.process_time()
        for viewer in pages:
            viewer.start()
        n_events = 0
        events = _events(plan)
        while (elapsed := time.monotonic() - start_time) < SECONDS:
            due = [next(events) for _ in range(int(rate * elapsed) - n_events)]
            n_events += len(due)
            batch_start = time.thread_time()
            for result, block in due:
                feed.take_cell(result)
                if block is not None:
                    feed.take_block(*block)
            driver += time.thread_time() - batch_start
            time.sleep(TICK)
        for viewer in pages:
            viewer.stop.set()
        for viewer in pages:
            viewer.join()
        cpu = time.process_time() - all_start
        main_cpu = time.thread_time() - main_cpu
        answers = cpu - main_cpu - feed.cpu_seconds - sum(viewer.cpu for viewer in pages)
    seconds = time.monotonic() - start_time
    return driver / seconds, feed.cpu_seconds / seconds, max(0.0, answers) / seconds


def _events(plan: DatasetPlan) -> Iterator[tuple[CellResult, tuple[Block, Statuses] | None]]:
    """Yield cells that end, block after block, and with the last cell of a block its new statuses."""
    rng = np.random.default_rng(1)
    while True:
        for block in plan.blocks():
            cells = list(block.cells())
            for number, cell in enumerate(cells, 1):
                result = CellResult(cell, RESTARTS)
                labels = rng.integers(0, 3, plan.n_samples).astype(np.int16)
                solution = Solved(
                    Span(cell, 0, RESTARTS),
                    rng.random(RESTARTS),
                    0,
                    labels,
                    np.zeros((3, 4)),
                    np.ones(3),
                    5.0,
                    5.0,
                )
                result.add(solution)
                statuses = np.full(len(cells), DONE, np.int8)
                yield result, (block, statuses) if number == len(cells) else None


class Viewer(threading.Thread):
    """An open page, which asks for the changes since its last request."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.cpu, self.stop = port, 0.0, threading.Event()

    def run(self) -> None:
        """Poll as the page does."""
        name, connection = "", http.client.HTTPConnection("127.0.0.1", self.port)
        while not self.stop.is_set():
            connection.request("GET", f"/sweep/state.json?since={name}")
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == 200:
                name = json.loads(body)["name"]
            self.stop.wait(POLL_SECONDS)
        self.cpu = time.thread_time()


@contextmanager
def _serve_page(site: Site) -> Iterator[int]:
    """Serve the handler of the dashboard on a server of tornado, in a loop of its own."""
    start_event, ports = threading.Event(), list[int]()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        options = {"dask_server": SimpleNamespace(**{NAME: site})}
        server = HTTPServer(Application([(r"/sweep/state\.json", OwnPage, options)]))
        server.listen(0, "127.0.0.1")
        ports.extend(socket.getsockname()[1] for socket in server._sockets.values())
        start_event.set()

    def run() -> None:
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    start_event.wait()
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
