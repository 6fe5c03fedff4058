"""What the page of a run shows, kept up to date, and as one JSON document: what changed since another.

`Feed` is of a run in progress, in its driver's process: the driver puts what happened into a queue, which
costs it a microsecond, and a thread takes it from there once a second. `Follower` looks at the cube and at
its run folder, while another process, maybe on another machine, writes them. Both are a `Keeper`, which
counts the blocks of the cube to begin with, and reads cells that are done, for times and scores, as far as
there is time.

`State.document` is called by whoever answers for the page. Counts and scores are those of a `Keeper`'s board,
everything else is read from the run folder, as `sweep status` reads it.
"""

import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import compress, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.pipeline.live.board import Board, Settled, Statuses, look, scores_of_many, to_json
from sweep_clustering.pipeline.monitor.status import counted_status, last_lines
from sweep_clustering.pipeline.work.journalled import from_record
from sweep_clustering.pipeline.work.merge import CellResult, Mismatch
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import DONE, PENDING
from sweep_clustering.storage.errors import StorageError
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.journal import JournalDamaged, replay
from sweep_clustering.storage.runfolder.records import FailureRecord, Progress, read_failures
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.plan import Block, Cell
from sweep_clustering.sweeps.words import is_model

logger = logging.getLogger(__name__)

# Bytes of labels that wait for their scores; those beyond are shown without.
MOST_WAITING = 64 * 2**20

# Cells that are scored together.
AT_ONCE = 256


class Keeper:
    """Keeps the board of a cube; its `update`, under the lock, brings it up to date. It changes no file.

    Parameters
    ----------
    cube : Path
        The cube. Where there is none yet the board is empty.

    Raises
    ------
    sweep_clustering.sweeps.errors.InputError
        If there is something else.
    sweep_clustering.storage.errors.StorageError
        If it cannot be read.
    """

    def __init__(self, cube: Path) -> None:
        self.lock = threading.RLock()
        self._cube = cube
        self._begin()

    def _begin(self) -> None:
        """Begin a board, which has a name of its own, of the grid that the cube has now."""
        self.token = secrets.token_hex(8)
        self.manifest = read_manifest(self._cube) if self._cube.is_dir() else None
        self._plans = {} if self.manifest is None else self.manifest.plans
        self.board = Board(self._plans.values())
        self._store = None if self.manifest is None else BlockStore(self._cube, read_only=True)
        self._truths: dict[str, NDArray[np.int16]] | None = None
        self._unread: deque[tuple[Block, NDArray[np.bool_]]] = deque()
        self._unscored: deque[Settled] = deque()
        self._look()

    @property
    def unread(self) -> int:
        """Cells that are done, and not read yet or without their score so far."""
        return sum(int(wanted.sum()) for _, wanted in self._unread) + len(self._unscored)

    def _look(self) -> None:
        """Count the blocks that are not as they were; cells that nothing was told of are read later."""
        for plan in self._plans.values():
            for block, now in present(self._store).all_statuses(plan):
                if not np.array_equal(self.board.statuses[block], now):
                    self._unread.append((block, self.board.write(block, now)))

    def _settle(self, settled: Settled) -> None:
        """Take a cell that is finished and not in the cube yet; its score comes later."""
        is_new, labels = self.board.settle(settled), settled.labels
        # as if all that wait were of this size, which those of one data set are
        if is_new and labels is not None and labels.nbytes * len(self._unscored) < MOST_WAITING:
            self._unscored.append(settled)

    def _read_some(self) -> bool:
        """Score some of the cells that wait, or else read a block; False if there is neither."""
        if self._unscored:
            some = [self._unscored.popleft() for _ in range(min(AT_ONCE, len(self._unscored)))]
        elif self._unread:
            some = []
            block, wanted = self._unread.popleft()
            arrays = present(self._store).read(block)
            for place, cell in compress(enumerate(block.cells()), wanted):
                status, seconds = int(arrays["status"][place]), float(arrays["seconds"][place])
                labels, best = arrays["labels"][place], _largest(arrays["log_likelihood"][place])
                known = labels if labels.size and labels.min() >= 0 else None
                some.append(Settled(cell, status, seconds, best, known))
                self.board.note(some[-1])
        else:
            return False
        self._score(some)
        return True

    def _score(self, cells: list[Settled]) -> None:
        """Tell the board the scores of every cell that has labels, those of the same data at once."""
        if self._truths is None:  # opened once, and not before there is something to score
            nodes = open_cube(self._cube).subtree
            truths = ((node.path.strip("/"), node.get("labels_true")) for node in nodes)
            self._truths = {name: np.asarray(truth) for name, truth in truths if truth is not None}
        alike: dict[tuple[str, int | None], list[Settled]] = {}
        for each in cells:
            if each.labels is not None and each.status == DONE and each.cell.dataset in self._truths:
                alike.setdefault((each.cell.dataset, each.cell.mixture), []).append(each)
        for (dataset, mixture), group in alike.items():
            truth = self._truths[dataset]
            if mixture is not None:  # a part of a sweep need not begin with the first one
                truth = truth[self._plans[dataset].dims[0].index(mixture)]
            labels = np.stack([present(each.labels) for each in group])
            values = scores_of_many(truth, labels)
            for each, value in zip(group, values, strict=True):
                self.board.score(each.cell, value)


def settled_of(result: CellResult) -> Settled:
    """What the page shows of a cell that ended."""
    if result.best is None or result.failed:
        return Settled(result.cell, result.status)
    labels = result.best.labels if result.best.solved else None
    best = _largest(result.objectives[result.known])
    return Settled(result.cell, result.status, result.seconds, best, labels)


def _largest(objectives: NDArray[np.float64]) -> float:
    return float(np.fmax.reduce(objectives)) if len(objectives) else np.nan


# Between two looks at the queue.
TURN_SECONDS = 1.0

# Of a core, for reading cells that were done before and for scores; CPU seconds to begin with.
SHARE, CREDIT = 0.002, 2.0


class Feed(Keeper):
    """Keeps the board of a cube while a driver runs, told by a `Collector`; a context manager."""

    def __init__(self, cube: Path) -> None:
        super().__init__(cube)
        self._queue: deque[Callable[[], object]] = deque()
        self._scoring, self._began = 0.0, time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def settled(self, result: CellResult) -> None:
        """Take a cell that ended: done, failed or without a solution."""
        self._queue.append(partial(self._settle, settled_of(result)))

    def written(self, block: Block, after: Statuses) -> None:
        """Take a block that was written, with its statuses."""
        self._queue.append(partial(self.board.write, block, after))

    def update(self) -> None:
        """Take what was told; scores as far as they are paid for."""
        while self._queue:
            self._queue.popleft()()
        while self._scoring <= CREDIT + SHARE * (time.monotonic() - self._began) and self._read_some():
            pass

    def _read_some(self) -> bool:
        began = time.thread_time()
        try:
            return super()._read_some()
        except StorageError:
            return False  # the driver meets it too, and says what it is
        finally:
            self._scoring += time.thread_time() - began

    def _run(self) -> None:
        while not self._over.wait(TURN_SECONDS):
            try:
                with self.lock:
                    self.update()
                    self.board.advance()
            except Exception:
                # whatever is wrong with a page, the run goes on
                logger.exception("the page of this run stands still; sweep open shows its files")
                self._queue = deque(maxlen=0)  # which takes nothing
                return


# A look at all files is repeated after so many times what it took, and not before so many seconds.
PATIENCE, LEAST_SECONDS = 20, 2.0

# Time for cells that were not read yet, in each look.
READING_SECONDS = 0.5

# Bytes of a journal that is read; of a longer one only its length is shown.
MOST_JOURNAL = 64 * 2**20


class Follower(Keeper):
    """Keeps the board of a cube by looking at its files and at those of its run folder."""

    # path and length of the journal that was read, and when files are looked at next
    _journal, _next = ("", 0), 0.0

    def update(self) -> None:
        """Look at the files, now and then; read cells for a moment; begin again when the cube has grown."""
        began = time.monotonic()
        if (read_manifest(self._cube).plans if self._cube.is_dir() else {}) != self._plans:
            self._begin()
            self._journal, self._next = ("", 0), began
        if began >= self._next:
            self._look()
            self._replay()
            ended = time.monotonic()
            self._next = ended + max(LEAST_SECONDS, PATIENCE * (ended - began))
        until = time.monotonic() + READING_SECONDS
        while time.monotonic() < until and self._read_some():
            pass

    def _replay(self) -> None:
        """Cells that are finished according to the journal, and not in the cube yet."""
        path = RunFolder(self._cube).last_run.journal
        try:
            now = str(path), path.stat().st_size
        except OSError:
            return
        if self.manifest is None or now == self._journal or now[1] > MOST_JOURNAL:
            return
        self._journal = now
        results: dict[Cell, CellResult] = {}
        try:
            for header, arrays in replay(path):
                for done in from_record(header, arrays, self._plans):
                    cell = done.span.unit
                    if isinstance(cell, Cell) and cell.dataset in self._plans:
                        stop = self.manifest.spec.stop if is_model(cell.model) else None
                        restarts = self._plans[cell.dataset].restarts_of(cell.model)
                        results.setdefault(cell, CellResult(cell, restarts, stop)).add(done)
        except (JournalDamaged, Mismatch, ValueError):
            return  # the next driver reports it; what was read so far stays
        for cell, result in results.items():
            block = self._plans[cell.dataset].block_of(cell)
            if result.end is not None and self.board.statuses[block][block.position(cell)] == PENDING:
                self._settle(settled_of(result))


# All that the page shows, as one document.

# A state is looked at once in so many seconds at most, however many look at the page.
SNAPSHOT_SECONDS = 1.0

LOG_LINES, MOST_FAILURES, MOST_WORKERS = 12, 20, 24
# Letters of a line of the log, or of a cause.
LONGEST = 400

# How far back the throughput goes, and the least between two of its points.
PACE_SECONDS, PACE_STEP = 600.0, 5.0


# What a worker is at: its name, node and job, the task, and the unix time since when.
AtWork = tuple[str, str, str, str, float]

# Number of workers that are connected, and what those are at that have begun something.
Crew = tuple[int, list[AtWork]]


class Pace:
    """Restarts and questions done over the last minutes, from what the driver says of itself."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def note(self, progress: Progress) -> None:
        """Take what the driver wrote last."""
        done, points = progress.restarts + progress.answers, self._points
        if points and (done < points[-1][1] or progress.at < points[-1][0]):
            points.clear()  # another run, or a clock that was set back
        if not points or progress.at - points[-1][0] >= PACE_STEP:
            points.append((progress.at, done))
        while points[-1][0] - points[0][0] > PACE_SECONDS:
            points.popleft()

    def to_dict(self) -> dict[str, Any]:
        """Units per second over all that is known, over how many seconds, and between any two points."""
        points = list(self._points)
        seconds = points[-1][0] - points[0][0] if points else 0.0
        steps = [round((now[1] - before[1]) / (now[0] - before[0]), 3) for before, now in pairwise(points)]
        rate = (points[-1][1] - points[0][1]) / seconds if seconds else None
        return {"per_second": rate, "seconds": round(seconds), "steps": steps}


class State:
    """The document of a page, made at most once a second.

    Parameters
    ----------
    cube : Path
        Its cube.
    keeper : Feed or Follower
        Of the board.
    crew : callable or None
        Who works now; None where that is not known here.
    """

    def __init__(self, cube: Path, keeper: Feed | Follower, crew: Callable[[], Crew] | None = None) -> None:
        self._cube = cube
        self._keeper = keeper
        self._crew = crew
        self._pace = Pace()
        self._made, self._version, self._number, self._head = -SNAPSHOT_SECONDS, 0, 0, ""
        self._failures: tuple[object, dict[str, Any]] = None, {}

    def document(self, since: str = "") -> tuple[str, bytes]:
        """Name of the state there is now, and JSON of what changed since another, nothing where none did.

        Parameters
        ----------
        since : str
            Name of the state that is known already; any other text has the whole document made.
        """
        with self._keeper.lock:
            if time.monotonic() - self._made >= SNAPSHOT_SECONDS:
                self._keeper.update()
                before = self._head, self._number
                self._number, self._head = self._keeper.board.advance(), to_json(self._rest())
                self._version += before != (self._head, self._number)
                self._made = time.monotonic()
            name = f"{self._keeper.token}.{self._version}.{self._number}"
            if since == name:
                return name, b""
            # version of the board in the state that is known, -1 where this document never had it
            token, _, rest = since.partition(".")
            number = rest.partition(".")[2]
            is_ours = token == self._keeper.token and number.isdecimal() and len(number) < 16
            known = int(number) if is_ours and int(number) <= self._number else -1
            board = self._keeper.board
            parts = {
                "name": to_json(name),
                "at": f"{time.time():.1f}",
                "head": self._head,
                "tiles": board.tiles.since(known),
                "series": board.series.since(known),
            }
            if known < 0:
                parts["grid"] = to_json(self._grid())
            return name, ("{" + ",".join(f'"{key}":{text}' for key, text in parts.items()) + "}").encode()

    def _rest(self) -> dict[str, Any]:
        board, run = self._keeper.board, RunFolder(self._cube)
        blocks = len(board.statuses), board.blocks_done
        status = counted_status(self._cube, self._keeper.manifest, board.datasets(), blocks)
        shown = status.to_dict()
        del shown["eta_seconds"]  # another number a second later, as are these
        if status.progress is not None:
            self._pace.note(status.progress)
            del shown["run"]["at"], shown["run"]["left"]
        journal = run.last_run.journal
        return {
            "cube": self._cube.name,
            "status": shown,
            "who": status.outlook[0],
            "ends_at": None
            if status.eta is None
            else present(status.progress).at + present(present(status.progress).left),
            "pace": self._pace.to_dict(),
            "journal": {
                "bytes": journal.stat().st_size if os.path.exists(journal) else 0,
                "waiting": len(board.waiting),
                "open_blocks": len(board.open_blocks),
            },
            "scored": board.scored,
            "unread": self._keeper.unread,
            "crew": self._working(),
            "failures": self._failed(run),
            "log": [line[:LONGEST] for line in last_lines(run.log, LOG_LINES)],
        }

    def _working(self) -> dict[str, Any] | None:
        """Numbers of workers, and those that have been at it for longest."""
        if self._crew is None:
            return None
        connected, at_work = self._crew()
        longest = sorted(at_work, key=itemgetter(-1))
        return {"connected": connected, "busy": len(longest), "rows": longest[:MOST_WORKERS]}

    def _grid(self) -> dict[str, Any]:
        grid = self._keeper.board.grid
        models = [model for plan in grid.plans.values() for model in (*plan.baselines, *plan.models)]
        units = {name: "mixtures" if plan.mixtures else "redraws" for name, plan in grid.plans.items()}
        return {
            "panels": [asdict(panel) for panel in grid.panels],
            "looks": {model: look(model) for model in models},
            "units": units,
        }

    def _failed(self, run: RunFolder) -> dict[str, Any]:
        """The last failures, one of each cell, with the tile of the cell."""
        files = [generation.failures for generation in run.generations()]
        # with the name of the board: another one has other tiles
        key = self._keeper.token, [(path, path.stat().st_size) for path in files if path.exists()]
        if key == self._failures[0]:
            return self._failures[1]
        records, plans = read_failures(run), self._keeper.board.grid.plans
        last: dict[str, FailureRecord] = {}
        for record in reversed(records):
            last.setdefault(record.cell, record)
        shown = []
        for record in islice(last.values(), MOST_FAILURES):
            cell, tile = record.work.cell, None
            if cell is not None and cell.dataset in plans and plans[cell.dataset].has(cell):
                tile = self._keeper.board.grid.tile(cell)
            fields = record.model_dump(include={"cell", "at", "node", "job", "attempt"})
            shown.append({**fields, "cause": record.cause[:LONGEST], "tile": tile})
        earlier = any(path != run.last_run.failures for path, _ in key[1])
        self._failures = (
            key,
            {
                "cells": len(last),
                "records": len(records),
                "earlier": earlier,
                "last": shown,
            },
        )
        return self._failures[1]
