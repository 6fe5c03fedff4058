"""Collecting results: which blocks are in progress, what came back, what is still to be handed out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.prepare.wanted import Wanted
from pipeline.run.order import draws_of, with_draws
from pipeline.run.paths import Paths
from pipeline.work.journalled import PATHS, is_of_paths, written_partials, written_paths
from pipeline.work.journalled import paths_to_record as answers_to_record
from pipeline.work.merge import BlockResult, CellResult, to_record
from pipeline.work.records import Asking, Failure, Partial, PathFailure, PathPart, Work
from storage.cube.blocks import BlockStore
from storage.cube.schema import ANSWERED, DONE, PENDING
from storage.runfolder.journal import Journal, JournalDamaged
from storage.runfolder.records import FailureRecord
from sweeps.file.spec import Stop
from sweeps.inputs import Inputs, cell_annotations
from sweeps.plan import AskedPath, Block, Cell, DatasetPlan
from sweeps.words import asks, is_model

logger = logging.getLogger(__name__)

COMPACT_BYTES = 64 * 2**20
"""A journal longer than this plus twice its length when last compacted is compacted again."""

ATTEMPTS = 2
"""A cell is marked failed when it has failed this many times, or killed its worker while it ran alone."""


class Listener(Protocol):
    """What wants to know of results as they come in."""

    def settled(self, result: CellResult) -> None:
        """A cell is finished: done, failed, or without a solution; maybe told more than once."""

    def written(self, block: Block, before: NDArray[np.int8], after: NDArray[np.int8]) -> None:
        """A block was written, with its statuses, each of shape (n_cells,)."""


class Collector:
    """Takes partial results, journals them, writes a block when the last cell of some of its draws is in.

    Parameters
    ----------
    store : BlockStore
        The cube.
    journal : Journal
        Results of blocks that are not complete.
    inputs : Inputs
        Data, for drawing the annotations of a finished block again.
    seed : int
        The sweep's seed.
    failed : callable
        Keeps the record of a failure.
    wanted : Wanted
        What this run is to compute.
    stop : Stop or None
        The rule that ends a cell before all of its restarts are run; None without one.
    asking : mapping of str to Asking
        How questions are asked about each data set, where designs ask.
    """

    def __init__(
        self,
        store: BlockStore,
        journal: Journal,
        inputs: Inputs,
        *,
        seed: int,
        failed: Callable[[FailureRecord], None],
        wanted: Wanted,
        stop: Stop | None = None,
        asking: Mapping[str, Asking] | None = None,
    ) -> None:
        self._store = store
        self._journal = journal
        self._inputs = inputs
        self._plans = {plan.name: plan for plan in inputs.plans}
        self._seed = seed
        self._failed = failed
        self._wanted = wanted
        self._stop = stop
        self._open: dict[Cell, BlockResult] = {}
        self._opened: dict[Block, int] = {}
        self._attempts: dict[Cell, int] = {}
        self._compacted = 0
        self.blocks_written = self.cells_written = 0
        self._writes, self._write_seconds = 0, 0.0
        self._listener: Listener | None = None
        self._replayed, answers = self._replay(asking or {})
        self.paths = Paths(
            store,
            self._plans,
            asking or {},
            answers,
            wanted=wanted,
            failed=failed,
            damaged=lambda found: JournalDamaged(journal.path, None, found),
        )

    def tell(self, listener: Listener | None) -> None:
        """Tell of results from now on, and at once of cells that the journal holds whole."""
        self._listener = listener
        for block in self._blocks_of(self._replayed):
            # The journal may hold cells of a block that was written since.
            for cell in self._unsettled(block, self._store.statuses(block)):
                self._settled(self._result(cell, self._replayed.get(cell, ())))

    def count(self, plan: DatasetPlan) -> Iterator[Work]:
        """Work that is left of the cells of a data set that are not settled; opens no block."""
        for block, statuses in self._store.all_statuses(plan):
            for cell in filter(self._wanted.runs, self._unsettled(block, statuses)):
                if cell in self._open:
                    yield from self._open[cell].cells[cell].missing()
                elif cell in self._replayed:
                    yield from self._result(cell, self._replayed[cell]).missing()
                else:
                    yield Work(cell, 0, plan.restarts_of(cell.model))

    def left(self, plan: DatasetPlan, draws: range | None = None) -> Iterator[Work]:
        """Work of a data set that is neither in the cube nor in the journal; opens its blocks on the way.

        Only of draws with a rank in `draws`, after all with a lower rank; by default of all. Cells whose
        pairs are asked for wait for them: see `runnable`.
        """
        # Only this process writes: what the status said at the start holds for each cell until it is opened.
        blocks = (block for block in self._wanted.blocks(plan) if not asks(block.design))
        for block, statuses in self._store.all_statuses(plan, blocks):
            self._open_block(block, statuses, draws_of(block) if draws is None else draws.stop)
            for cell, rank in with_draws(block):
                if (draws is None or rank in draws) and self._wanted.runs(cell):
                    yield from self.missing(cell)

    def runnable(self, plan: DatasetPlan) -> Iterator[Work]:
        """Work of cells whose pairs were asked for, and are there now; opens their blocks on the way."""
        for cell in self.paths.runnable(plan.name):
            yield from self.open_cell(cell)

    def open_cell(self, cell: Cell) -> list[Work]:
        """Restarts of one cell that are still to be run; opens its draw, and those before it.

        Where pairs are asked for, all of its block: answers come in any order.
        """
        if not self._wanted.runs(cell):
            return []
        block = self._plans[cell.dataset].block_of(cell)
        if asks(cell.design):
            draws = draws_of(block)
        else:
            draws = 1 + next(rank for each, rank in with_draws(block) if each == cell)
        if draws > self._opened.get(block, 0):
            self._open_block(block, self._store.statuses(block), draws)
        return self.missing(cell)

    def take(self, results: Sequence[Partial | Failure]) -> list[Work]:
        """Merge the results of batches that ended.

        Parameters
        ----------
        results : sequence of Partial or Failure
            What the batches returned.

        Returns
        -------
        list of Work
            What failed and is to be tried again, alone.

        Raises
        ------
        Mismatch
            If a restart that was computed before has another value now.
        """
        partials = [result for result in results if isinstance(result, Partial)]
        # The cells of a written block are closed: late results, of a failed cell for instance, are dropped.
        wanted = [partial for partial in partials if partial.work.cell in self._open]
        for partial in wanted:
            result = self._open[partial.work.cell].cells[partial.work.cell]
            result.add(partial)
            self._settled(result)
        for dataset in dict.fromkeys(partial.work.cell.dataset for partial in wanted):
            # One record for all of them: each costs a wait for the disk.
            self._journal.append(*to_record([each for each in wanted if each.work.cell.dataset == dataset]))
        again = [failure.work for failure in results if isinstance(failure, Failure) and self.charge(failure)]
        self._write_complete({partial.work.cell for partial in wanted})
        return again

    def take_answers(self, parts: Sequence[PathPart]) -> None:
        """Take the answers to questions that were asked: journalled, they make cells runnable.

        Raises
        ------
        Mismatch
            If a question that was answered before has another answer now.
        """
        if parts:
            self._journal.append(*answers_to_record(parts))
        for part in parts:
            self.paths.take(part)

    def charge_path(self, failure: PathFailure) -> None:
        """Count a failure of a path on its own; its cells fail with it when it may not try again."""
        cells = self.paths.charge(failure, ATTEMPTS)
        for cell in cells:
            self.open_cell(cell)
            if cell in self._open:
                self._fail(cell)
        self._write_complete(set(cells))

    def charge(self, failure: Failure) -> bool:
        """Count a failure of a cell on its own; True if it may try again."""
        cell = failure.work.cell
        if cell not in self._open:
            return False
        self._attempts[cell] = self._attempts.get(cell, 0) + 1
        self._failed(failure.record(self._attempts[cell]))
        if self._attempts[cell] < ATTEMPTS:
            return True
        logger.error("cell %s failed: %s", cell, failure.cause)
        self._fail(cell)
        self._write_complete({cell})
        return False

    def wants(self, cell: Cell) -> bool:
        """Whether restarts of a cell are still to be run."""
        return bool(self.missing(cell))

    def missing(self, cell: Cell) -> list[Work]:
        """Restarts of one open cell that are still to be run."""
        if cell not in self._open:
            return []
        result = self._open[cell].cells[cell]
        if result.failed:
            return []
        if not asks(cell.design):
            return list(result.missing())
        annotations = self.paths.annotations(cell)
        return (
            []
            if annotations is None
            else [replace(work, annotations=annotations) for work in result.missing()]
        )

    def seconds(self, cell: Cell) -> float | None:
        """Seconds of a restart of a cell that is done in the cube, None for any other."""
        block = self._plans[cell.dataset].block_of(cell)
        position = block.position(cell)
        if self._store.statuses(block)[position] != DONE:
            return None
        arrays = self._store.read(block)
        return float(arrays["seconds"][position]) / int(arrays["restarts_done"][position])

    @property
    def write_seconds(self) -> float | None:
        """Mean seconds of writing a block in this run; None before the first."""
        return self._write_seconds / self._writes if self._writes else None

    def close(self) -> None:
        """Drop from the journal what is in the cube."""
        self._compact()

    def _replay(self, asking: Mapping[str, Asking]) -> tuple[dict[Cell, list[Partial]], list[PathPart]]:
        known: dict[Cell, list[Partial]] = {}
        answers: list[PathPart] = []
        for header, arrays in self._journal.replay():
            try:
                if is_of_paths(header):
                    answers += written_paths(header, arrays, self._plans, asking)
                    continue
                partials = written_partials(header, arrays, self._plans)
            except ValueError as error:
                raise JournalDamaged(self._journal.path, None, str(error)) from error
            for partial in partials:
                known.setdefault(partial.work.cell, []).append(partial)
        written = self._answered(known)
        return {cell: partials for cell, partials in known.items() if cell not in written}, answers

    def _answered(self, cells: Iterable[Cell]) -> set[Cell]:
        """Cells in the cube: a driver died between writing them and dropping them from the journal."""
        return {
            cell
            for block in self._blocks_of(cells)
            for cell, status in zip(block.cells(), self._store.statuses(block), strict=True)
            if status in ANSWERED
        }

    def _blocks_of(self, cells: Iterable[Cell]) -> Iterable[Block]:
        """Blocks of cells, each once; not of data sets that are not available this time."""
        here = (cell for cell in cells if cell.dataset in self._plans)
        return dict.fromkeys(self._plans[cell.dataset].block_of(cell) for cell in here)

    def _open_block(self, block: Block, statuses: NDArray[np.int8], draws: int) -> None:
        """Open the cells of the first `draws` draws of a block that are to be computed, and were not yet.

        Those that are opened together are written together: the unit of write is the chunks of a block, the
        unit of what is waited for some of its draws.
        """
        ranks = range(self._opened.get(block, 0), draws)
        self._opened[block] = max(draws, ranks.start)
        unsettled = set(self._unsettled(block, statuses))
        cells = {
            cell: self._result(cell, self._replayed.pop(cell, ()))
            for cell, rank in with_draws(block)
            if rank in ranks and cell in unsettled
        }
        if not cells:
            return
        result = BlockResult(block, cells)
        self._open |= dict.fromkeys(cells, result)
        if result.complete:
            # The journal held all of it: the driver died between the last batch and the write.
            self._write(result)

    def _result(self, cell: Cell, known: Iterable[Partial]) -> CellResult:
        stop = self._stop if is_model(cell.model) else None
        result = CellResult(cell, self._plans[cell.dataset].restarts_of(cell.model), stop)
        for partial in known:
            result.add(partial)
        return result

    def _unsettled(self, block: Block, statuses: NDArray[np.int8]) -> list[Cell]:
        cells = zip(block.cells(), statuses, strict=True)
        return [cell for cell, status in cells if not self._wanted.settles(cell, status)]

    def _fail(self, cell: Cell) -> None:
        result = self._open[cell].cells[cell]
        result.failed = True
        self._settled(result)

    def _settled(self, result: CellResult) -> None:
        if self._listener is not None and result.status != PENDING:
            self._listener.settled(result)

    def _write_complete(self, cells: set[Cell]) -> None:
        # dict.fromkeys: each block once, even when several of its cells came in together
        for result in dict.fromkeys(self._open[cell] for cell in cells if cell in self._open):
            if result.complete:
                self._write(result)

    def _write(self, result: BlockResult) -> None:
        plan = self._plans[result.block.dataset]
        arrays = self._store.read(result.block)
        before = arrays["status"].copy()
        arrays = result.into(arrays)
        if not result.block.unsupervised:
            arrays["annotations"] = self._annotations(result.block, plan, arrays["annotations"])
        started = time.monotonic()
        self._store.write(result.block, arrays)
        self._writes += 1
        self._write_seconds += time.monotonic() - started
        self.blocks_written += not (arrays["status"] == PENDING).any()
        self.cells_written += len(result.cells)
        if self._listener is not None:
            self._listener.written(result.block, before, arrays["status"])
        for cell in result.cells:
            del self._open[cell]
        if self._journal.size > COMPACT_BYTES + 2 * self._compacted:
            self._compact()

    def _annotations(self, block: Block, plan: DatasetPlan, stored: NDArray[Any]) -> Any:
        """Annotations of a block, of shape (n_mixtures · n_replicates, m, 3), from their coordinates.

        Those that were asked for are taken from their paths, or from the cube where no cell waited for them.
        """
        cells = [cell for cell in block.cells() if cell.model == block.models[0]]
        if asks(block.design):
            asked = [self.paths.annotations(cell) for cell in cells]
            pairs = zip(asked, stored, strict=True)
            return np.stack([there if answers is None else answers for answers, there in pairs])
        source = self._inputs.sources[plan.name]
        drawn = [
            cell_annotations(self._seed, cell, source.arrays(cell.mixture)[1], source.pool) for cell in cells
        ]
        return np.stack(drawn)

    def _compact(self) -> None:
        self.paths.look_again()

        def live(header: dict[str, Any]) -> bool:
            if is_of_paths(header):
                parts = [(AskedPath(*entry["path"]), entry["start"]) for entry in header[PATHS]]
                return any(self.paths.keeps(path, start) for path, start in parts)
            cells = [Cell(*entry["cell"]) for entry in header["partials"]]
            return any(cell in self._open or cell in self._replayed for cell in cells)

        self._journal.compact(live)
        self._compacted = self._journal.size
