"""The board of a run in progress, in its driver's process: cells as they end, blocks as they are written.

The driver only puts what happened into a queue. A thread of its own takes it from there once a second, and
computes scores within a small share of a core.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pipeline.live.board import Board, Settled
from pipeline.live.reading import History, Truth, score, settled_of
from pipeline.work.merge import CellResult
from storage.cube.blocks import BlockStore
from storage.errors import StorageError
from sweeps.errors import given
from sweeps.plan import Block

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
