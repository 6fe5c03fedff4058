"""Collecting results: which blocks are in progress, what came back, what is still to be handed out."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.run.request import Wanted
from pipeline.work.journalled import PATHS, is_of_paths, written_partials, written_paths
from pipeline.work.journalled import paths_to_record as answers_to_record
from pipeline.work.merge import BlockResult, CellResult, Mismatch, to_record
from pipeline.work.records import (
    NO_ANSWERS,
    Answers,
    Asking,
    Failure,
    Partial,
    PathBatch,
    PathFailure,
    PathPart,
    Work,
)
from pipeline.work.timing import PathTiming
from storage.cube.blocks import BlockStore
from storage.cube.schema import ANSWERED, DONE, PENDING
from storage.runfolder.journal import Journal, JournalDamaged
from storage.runfolder.records import FailureRecord
from sweeps.errors import given
from sweeps.file.spec import Stop
from sweeps.inputs import Inputs, cell_annotations
from sweeps.plan import AskedPath, Block, Cell, DatasetPlan
from sweeps.words import asks, is_model

# In which order cells are run: some draws of every block first, then more of them, wave after wave.
#
# So that a page of a run that has only begun is a coarse picture of the whole grid. Within a wave data sets
# take turns. No result depends on the order. Every wave but the last writes each block once more, so there
# are
# as many as may cost little.

SHARE = 0.02
"""Of the time that is left, what all additional writes of blocks may take of the driver's."""

T = TypeVar("T")

WRITE_SECONDS = 0.05
"""Of a block, before one was written: some ten files, each of which the disk has to confirm."""


def with_draws(block: Block) -> Iterator[tuple[Cell, int]]:
    """Cells of a block in storage order, each with the rank of its draw.

    Mixtures vary before redraws of the annotations: they are what means are taken over.
    """
    mixtures = len(block.values("mixture"))
    replicates = block.n_graphs // mixtures
    for position, cell in enumerate(block.cells()):
        mixture, replicate = divmod(position // block.per_graph, replicates)
        yield cell, replicate * mixtures + mixture


def in_turns(kinds: Iterable[Iterator[T]]) -> Iterator[T]:
    """One of each, then the next of each, until none has any left: no data set waits for the one before."""
    waiting = deque(kinds)
    while waiting:
        kind = waiting.popleft()
        for each in kind:
            yield each
            waiting.append(kind)
            break


def next_wave(handed: int, draws: int, *, blocks: int, left: float, write_seconds: float | None) -> range:
    """Ranks of the draws to be run next, in every block.

    Parameters
    ----------
    handed : int
        Draws of each block that were handed out before.
    draws : int
        Most draws in any block; more than `handed`.
    blocks : int
        Number of blocks that a wave writes.
    left : float
        Seconds until the end of the run, as predicted.
    write_seconds : float or None
        What writing a block took in this run, None before the first.

    Returns
    -------
    range
        From `handed` on. The first wave is one draw, each of the others at least as long as all before it.
    """
    cost = blocks * (WRITE_SECONDS if write_seconds is None else write_seconds)
    more = int(SHARE * left / cost) if cost > 0 else draws
    if more < 1:
        return range(handed, draws)
    if handed == 0:
        return range(1)
    growth = max(2.0, (draws / handed) ** (1 / (more + 1)))
    return range(handed, min(draws, ceil(handed * growth)))


# Paths of questions in a run: how far each is, which cells its answers make runnable, what to ask next.

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _State:
    """One path: its answers so far, and the numbers of annotations that cells wait for.

    `waiting` are those of cells of this run that are not handed out, `last` the largest one of any cell that
    has no result in the cube.
    """

    answers: Answers = field(default_factory=NO_ANSWERS.copy)
    waiting: set[int] = field(default_factory=set)
    last: int = 0
    attempts: int = 0
    failed: bool = False

    @property
    def wanted(self) -> int:
        """Number of answers that this run needs."""
        return 0 if self.failed else max(self.waiting, default=0)


class Paths:
    """The paths of a sweep whose answers some cell still needs.

    Parameters
    ----------
    store : BlockStore
        The cube, whose annotations are prefixes of paths.
    plans, asking : mapping
        Grid and questions by data set.
    journalled : sequence of PathPart
        What the journal holds.
    wanted : Wanted
        What this run is to compute.
    failed : callable
        Keeps the record of a failure.
    damaged : callable
        Error of the journal, from what was found.

    Raises
    ------
    JournalDamaged
        If answers are missing before others.
    Mismatch
        If cube and journal have other answers to the same questions.
    """

    def __init__(
        self,
        store: BlockStore,
        plans: Mapping[str, DatasetPlan],
        asking: Mapping[str, Asking],
        journalled: Sequence[PathPart],
        *,
        wanted: Wanted,
        failed: Callable[[FailureRecord], None],
        damaged: Callable[[str], JournalDamaged],
    ) -> None:
        self._store = store
        self._plans = plans
        self._asking = asking
        self._wanted = wanted
        self._failed = failed
        self._states: dict[AskedPath, _State] = {}
        self._ready: deque[AskedPath] = deque()
        self._released: dict[str, deque[tuple[AskedPath, int]]] = {}
        for plan in plans.values():
            self._look(plan)
        self._read(journalled, damaged)
        for path in self._states:
            self._release(path)

    def annotations(self, cell: Cell) -> Answers | None:
        """Annotations of a cell whose design asks for them; None while they are not all there."""
        state = self._states.get(AskedPath.of(cell))
        if state is None or cell.m is None or len(state.answers) < cell.m:
            return None
        return state.answers[: cell.m]

    def runnable(self, dataset: str) -> Iterator[Cell]:
        """Cells of a data set whose annotations are all there now; each once."""
        released = self._released.get(dataset, deque())
        while released:
            yield from self.cells(*released.popleft())

    def left(self, dataset: str) -> Iterator[tuple[AskedPath, int, int]]:
        """Paths of a data set that go on: answers in whole batches so far, and answers that are wanted."""
        for path, state in self._states.items():
            if path.dataset == dataset and state.wanted:
                yield path, self._start(path), state.wanted

    def next_batch(self, seconds: float, timing: PathTiming) -> PathBatch | None:
        """The next questions to ask, of any path that nobody asks at the moment; None if there are none.

        Parameters
        ----------
        seconds : float
            Length to aim for: at least one batch.
        timing : PathTiming
            Predictions.
        """
        if not self._ready:
            return None
        path = self._ready.popleft()
        asking, start = self._asking[path.dataset], self._start(path)
        most = asking.batches(start, self._states[path].wanted)
        count, predicted = 0, 0.0
        while count < most:
            one = timing.seconds(path, start + count * asking.batch)
            # after a failure one batch at a time: what was answered before the next is kept
            if count and (predicted + one > seconds or self._states[path].attempts):
                break
            count, predicted = count + 1, predicted + one
        return PathBatch(asking, path, self._states[path].answers[:start], count, predicted)

    def first_batch(self, path: AskedPath, timing: PathTiming) -> PathBatch | None:
        """One batch of a certain path, where it is to go on and nobody asks it."""
        if path not in self._ready:
            return None
        self._ready.remove(path)
        self._ready.appendleft(path)
        return self.next_batch(0.0, timing)

    def take(self, part: PathPart) -> int:
        """Take answers that came in; how many of them were not known.

        Raises
        ------
        Mismatch
            If they are not those that the cube has.
        """
        state = self._states[part.path]
        before = len(state.answers)
        self._extend(part)
        state.attempts = 0
        self._release(part.path)
        return len(state.answers) - before

    def charge(self, failure: PathFailure, attempts: int) -> list[Cell]:
        """Count a failure of a path on its own, and let it try again, or give it up after so many.

        Returns
        -------
        list of Cell
            What of this run cannot be computed now that it is given up.
        """
        state = self._states[failure.path]
        state.attempts += 1
        self._failed(failure.record(state.attempts))
        if state.attempts < attempts:
            if failure.path not in self._ready:
                self._ready.append(failure.path)
            return []
        logger.error("path %s failed: %s", failure.path, failure.cause)
        state.failed = True
        with_path = [m for m in sorted(state.waiting) if m > len(state.answers)]
        state.waiting -= set(with_path)
        if failure.path in self._ready:
            self._ready.remove(failure.path)
        return [cell for m in with_path for cell in self.cells(failure.path, m)]

    def cells(self, path: AskedPath, m: int) -> list[Cell]:
        """Cells of this run with the first m answers of a path."""
        plan = self._plans[path.dataset]
        known = {axis: (value,) for axis, value in asdict(path).items()}
        return list(filter(self._wanted.runs, plan.node_of[plan.models[0]].cells({**known, "m": (m,)})))

    def keeps(self, path: AskedPath, start: int) -> bool:
        """Whether a cell that is not in the cube needs the answers of a path from `start` on."""
        state = self._states.get(path)
        return path.dataset not in self._plans or (state is not None and start < state.last)

    def look_again(self) -> None:
        """Read from the cube which cells still need their path."""
        for state in self._states.values():
            state.last = 0
        for plan in self._plans.values():
            for cell, status in self._cells(plan):
                if status not in ANSWERED and (path := AskedPath.of(cell)) in self._states:
                    self._states[path].last = max(self._states[path].last, cell.m or 0)

    def _release(self, path: AskedPath) -> None:
        """Hand out the cells that a path has answers enough for; if others wait, it goes on."""
        state = self._states[path]
        for m in sorted(m for m in state.waiting if m <= len(state.answers)):
            self._released.setdefault(path.dataset, deque()).append((path, m))
            state.waiting.remove(m)
        if state.wanted:
            self._ready.append(path)

    def _look(self, plan: DatasetPlan) -> None:
        """Find the cells of a data set that need a path."""
        for cell, status in self._cells(plan):
            if status in ANSWERED:
                continue
            state, m = self._states.setdefault(AskedPath.of(cell), _State()), given(cell.m)
            state.last = max(state.last, m)
            if self._wanted.runs(cell) and not self._wanted.settles(cell, status):
                state.waiting.add(m)

    def _cells(self, plan: DatasetPlan) -> Iterator[tuple[Cell, int]]:
        for block, statuses in self._store.all_statuses(plan, _asked_blocks(plan)):
            yield from zip(block.cells(), statuses.tolist(), strict=True)

    def _read(self, journalled: Sequence[PathPart], damaged: Callable[[str], JournalDamaged]) -> None:
        """Put together what cube and journal hold of each path."""
        parts: dict[AskedPath, list[PathPart]] = {}
        for part in journalled:
            parts.setdefault(part.path, []).append(part)
        for plan in self._plans.values():
            if plan.asked:
                self._read_cube(plan)
        for path, state in self._states.items():
            for part in sorted(parts.get(path, ()), key=lambda part: part.start):
                if part.start > len(state.answers):
                    raise damaged(f"answers of {path} from {part.start} on, without those before")
                self._extend(part)

    def _read_cube(self, plan: DatasetPlan) -> None:
        """Take the longest prefix of each path that the cube holds: annotations of its largest written m."""
        # the largest m first: what it holds says all that smaller ones do
        for block in sorted(_asked_blocks(plan), key=lambda block: -given(block.first.m)):
            graphs = list(map(AskedPath.of, block.graph_cells()))
            lacking = [path in self._states and not len(self._states[path].answers) for path in graphs]
            if not any(lacking) or not self._store.has_status(block):
                continue
            rows, known = self._store.annotations(block)
            for path, row, lacks, is_known in zip(graphs, rows, lacking, known, strict=True):
                if lacks and is_known:
                    self._states[path].answers = row.astype(np.int32)

    def _extend(self, part: PathPart) -> None:
        """Add answers behind those that are known; where both say something, they say the same."""
        state = self._states[part.path]
        common = min(len(state.answers), part.stop) - part.start
        differs = (state.answers[part.start : part.start + common] != part.answers[:common]).any(axis=1)
        if differs.any():
            which = part.start + int(np.argmax(differs))
            message = (
                f"path {part.path}, question {which}: {part.answers[which - part.start].tolist()} now, "
                f"{state.answers[which].tolist()} before: a path must give the same bits wherever it is asked"
            )
            if self._store.made_here:
                raise Mismatch(message)
            logger.warning("%s; bits are promised only for equal software and CPU model", message)
        state.answers = np.concatenate([state.answers, part.answers[common:]])

    def _start(self, path: AskedPath) -> int:
        """Where the next batch begins: annotations of a cube may end within one, which is asked again."""
        length = len(self._states[path].answers)
        return length - length % self._asking[path.dataset].batch


def _asked_blocks(plan: DatasetPlan) -> Iterable[Block]:
    return (block for block in plan.blocks() if asks(block.first.design)) if plan.asked else ()


COMPACT_BYTES = 64 * 2**20
"""A journal longer than this plus twice its length when last compacted is compacted again."""

ATTEMPTS = 2
"""A cell is marked failed when it has failed this many times, or killed its worker while it ran alone."""


class Listener(Protocol):
    """What wants to know of results as they come in."""

    def settled(self, result: CellResult) -> None:
        """A cell is finished: done, failed, or without a solution; maybe told more than once."""

    def written(self, block: Block, after: NDArray[np.int8]) -> None:
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
        blocks = (block for block in self._wanted.blocks(plan) if not asks(block.first.design))
        for block, statuses in self._store.all_statuses(plan, blocks):
            self._open_block(block, statuses, block.n_graphs if draws is None else draws.stop)
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
            draws = block.n_graphs
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
        arrays = result.into(self._store.read(result.block))
        if not result.block.unsupervised:
            arrays["annotations"] = self._annotations(result.block, plan, arrays["annotations"])
        started = time.monotonic()
        self._store.write(result.block, arrays)
        self._writes += 1
        self._write_seconds += time.monotonic() - started
        self.blocks_written += not (arrays["status"] == PENDING).any()
        self.cells_written += len(result.cells)
        if self._listener is not None:
            self._listener.written(result.block, arrays["status"])
        for cell in result.cells:
            del self._open[cell]
        if self._journal.size > COMPACT_BYTES + 2 * self._compacted:
            self._compact()

    def _annotations(self, block: Block, plan: DatasetPlan, stored: NDArray[Any]) -> Any:
        """Annotations of a block, of shape (n_mixtures · n_replicates, m, 3), from their coordinates.

        Those that were asked for are taken from their paths, or from the cube where no cell waited for them.
        """
        cells = block.graph_cells()
        if asks(block.first.design):
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
