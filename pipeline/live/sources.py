"""The board of a cube, from its files: also while another process, maybe on another machine, writes them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pipeline.live.board import Board, History, Settled, Truth, score, settled_of
from pipeline.work.journalled import is_of_paths, written_partials
from pipeline.work.merge import CellResult, Mismatch
from storage.cube.blocks import BlockStore
from storage.cube.growth import open_cube
from storage.cube.manifest import Manifest, read_manifest
from storage.cube.schema import ANSWERED, PENDING
from storage.errors import StorageError
from storage.runfolder.folder import RunFolder
from storage.runfolder.journal import JournalDamaged, replay
from sweeps.errors import given
from sweeps.plan import Block, Cell
from sweeps.words import is_model

# The board of a run in progress, in its driver's process: cells as they end, blocks as they are written.
#
# The driver only puts what happened into a queue. A thread of its own takes it from there once a second, and
# computes scores within a small share of a core.

logger = logging.getLogger(__name__)

TURN_SECONDS = 1.0
"""Between two looks at the queue."""

SHARE, CREDIT = 0.002, 2.0
"""Of a core, for reading cells that were done before and for scores; CPU seconds to begin with."""

MOST_WAITING = 64 * 2**20
"""Bytes of labels that wait for their scores; those beyond are shown without."""

Event = Settled | tuple[Block, NDArray[np.int8], NDArray[np.int8]]


class Feed:
    """Keeps a board while a driver runs; what a `Collector` tells it costs the driver a microsecond.

    Parameters
    ----------
    board : Board
        Nothing counted yet.
    store : BlockStore
        The cube, to read.
    truth : callable
        True labels.
    """

    def __init__(self, board: Board, store: BlockStore, truth: Truth) -> None:
        self.board = board
        self.lock = threading.RLock()
        self.cpu_seconds = 0.0
        self._truth = truth
        self._history = History(board, truth, store)
        self._queue: deque[Event] = deque()
        self._unscored: deque[Settled] = deque()
        self._bytes = 0
        self._scoring, self._began = 0.0, time.monotonic()
        self._over, self._stopped = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)
        self._history.begin()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def settled(self, result: CellResult) -> None:
        """Take a cell that ended: done, failed or without a solution."""
        if not self._stopped:
            self._queue.append(settled_of(result))

    def written(self, block: Block, before: NDArray[np.int8], after: NDArray[np.int8]) -> None:
        """Take a block that was written, with its statuses."""
        if not self._stopped:
            self._queue.append((block, before, after))

    def update(self) -> None:
        """Bring the board up to date; scores as far as they are paid for. Under the lock."""
        while self._queue:
            event = self._queue.popleft()
            if isinstance(event, tuple):
                self.board.write(*event)
            elif self.board.settle(event) and event.labels is not None:
                self._wait(event)
        self._score()

    @property
    def unread(self) -> int:
        """Cells that are done, and not read yet or without their score so far."""
        return self._history.cells + len(self._unscored)

    def _wait(self, settled: Settled) -> None:
        size = given(settled.labels).nbytes
        if self._bytes + size <= MOST_WAITING:
            self._bytes += size
            self._unscored.append(settled)

    def _score(self) -> None:
        """Scores of what ended, then those of one block after the other that was done before."""
        while self._unscored and self._paid:
            began = time.thread_time()
            some = [self._unscored.popleft() for _ in range(min(256, len(self._unscored)))]
            self._bytes -= sum(each.labels.nbytes for each in some if each.labels is not None)
            score(self.board, some, self._truth)
            self._scoring += time.thread_time() - began
        more = True
        while more and self._paid:
            began = time.thread_time()
            try:
                more = self._history.read_one()
            except StorageError:
                more = False  # the driver meets it too, and says what it is
            self._scoring += time.thread_time() - began

    @property
    def _paid(self) -> bool:
        return self._scoring <= CREDIT + SHARE * (time.monotonic() - self._began)

    def _run(self) -> None:
        while not self._over.wait(TURN_SECONDS):
            try:
                with self.lock:
                    self.update()
                    self.board.advance()
            except Exception:
                # whatever is wrong with a page, the run goes on
                logger.exception("the page of this run stands still; sweep open shows its files")
                self._stopped = True
                self._queue.clear()
                return
            self.cpu_seconds = time.thread_time()


PATIENCE = 20
"""A look at all files is repeated after so many times what it took, two seconds at least."""

READING_SECONDS = 0.5
"""Time for cells that were not read yet, in each look."""

MOST_JOURNAL = 64 * 2**20
"""Bytes of a journal that is read; of a longer one only its length is shown."""


class Follower:
    """Keeps a board by looking at the files of a cube and of its run folder; it changes nothing there.

    Parameters
    ----------
    cube : Path
        An existing cube.

    Raises
    ------
    sweeps.errors.InputError
        If it is none.
    storage.errors.StorageError
        If it cannot be read.
    """

    def __init__(self, cube: Path) -> None:
        self.lock = threading.RLock()
        self._cube = cube
        self._manifest: Manifest = read_manifest(cube)
        self.board = Board(self._manifest.plans.values())
        self._store = BlockStore(cube, read_only=True)
        self._truths: dict[str, NDArray[np.int16] | None] = {}
        self._history = History(self.board, self._truth, self._store)
        self._statuses = dict(self._all())
        for block, statuses in self._statuses.items():
            self._history.count(block, statuses)
        self._journal: tuple[str, int] = "", 0
        self._next = 0.0

    @property
    def outgrown(self) -> bool:
        """Whether the cube has another grid by now: a new board is to be made."""
        return read_manifest(self._cube).plans != self._manifest.plans

    @property
    def unread(self) -> int:
        """Cells that are done and not read yet."""
        return self._history.cells

    def update(self) -> None:
        """Bring the board up to date. Under the lock."""
        began = time.monotonic()
        if began >= self._next:
            self._look()
            self._replay()
            self._next = time.monotonic() + max(2.0, PATIENCE * (time.monotonic() - began))
        end = time.monotonic() + READING_SECONDS
        while time.monotonic() < end and self._history.read_one():
            pass

    def _all(self) -> list[tuple[Block, NDArray[np.int8]]]:
        plans = self._manifest.plans.values()
        return [
            (block, statuses.copy()) for plan in plans for block, statuses in self._store.all_statuses(plan)
        ]

    def _look(self) -> None:
        for block, now in self._all():
            before = self._statuses[block]
            if not np.array_equal(before, now):
                self._statuses[block] = now
                unknown = set(self.board.write(block, before, now))
                wanted = np.array([cell in unknown for cell in block.cells()])
                self._history.add(block, wanted & np.isin(now, ANSWERED))

    def _replay(self) -> None:
        """Cells that are finished according to the journal, and not in the cube yet."""
        path = RunFolder(self._cube).last_run.journal
        try:
            now = str(path), path.stat().st_size
        except OSError:
            return
        if now == self._journal or now[1] > MOST_JOURNAL:
            return
        self._journal = now
        results: dict[Cell, CellResult] = {}
        try:
            for header, arrays in replay(path):
                if is_of_paths(header):
                    continue
                for partial in written_partials(header, arrays, self._manifest.plans):
                    cell = partial.work.cell
                    if cell.dataset not in self._manifest.plans:
                        continue
                    if cell not in results:
                        results[cell] = self._result(cell)
                    results[cell].add(partial)
        except (JournalDamaged, Mismatch, ValueError):
            return  # the next driver reports it; what was read so far stays
        for cell, result in results.items():
            block = self._manifest.plans[cell.dataset].block_of(cell)
            if result.end is not None and self._statuses[block][block.position(cell)] == PENDING:
                settled = settled_of(result)
                if self.board.settle(settled):
                    score(self.board, [settled], self._truth)

    def _result(self, cell: Cell) -> CellResult:
        stop = self._manifest.spec.stop if is_model(cell.model) else None
        return CellResult(cell, self._manifest.plans[cell.dataset].restarts_of(cell.model), stop)

    def _truth(self, dataset: str, mixture: int | None) -> NDArray[np.int16] | None:
        if dataset not in self._truths:
            node = open_cube(self._cube)[dataset]
            known = np.asarray(node["labels_true"]) if "labels_true" in node else None
            self._truths[dataset] = known
        labels = self._truths[dataset]
        return labels if labels is None or mixture is None else labels[mixture]
