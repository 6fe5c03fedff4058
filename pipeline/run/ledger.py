"""The ledger of a run: the cells and paths of questions that are done, and those that are next.

A `Collector` takes results, journals them, and writes a block when the last cell of some of its draws is in.
Its `Paths` say how far the questions are, and which cells their answers make runnable.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, asdict, astuple, dataclass, replace
from math import ceil
from operator import add
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.pipeline.live.site import Feed
from sweep_clustering.pipeline.run.request import Selection, Sweep
from sweep_clustering.pipeline.work import records
from sweep_clustering.pipeline.work.merge import BlockResult, CellResult, Mismatch
from sweep_clustering.pipeline.work.timing import Timing
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import ANSWERED, DONE, FAILED, PENDING
from sweep_clustering.storage.provenance import PROMISE
from sweep_clustering.storage.runfolder.folder import FailureRecord
from sweep_clustering.storage.runfolder.journal import Journal, JournalDamaged, Journals
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.inputs import Inputs, cell_annotations
from sweep_clustering.sweeps.plan import AskedPath, Block, Cell, DatasetPlan
from sweep_clustering.sweeps.words import asks, is_model

logger = logging.getLogger(__name__)

# A journal longer than this plus twice its length when last compacted is compacted again.
COMPACT_BYTES = 64 * 2**20

# A cell or path is given up when it has failed this many times, or killed its worker while it ran alone.
ATTEMPTS = 2


@dataclass(frozen=True)
class Work:
    """The amount of work of a run, or of one data set in it.

    Parameters
    ----------
    cells, cells_done, cells_failed : int
        Cells that the run may compute, those of them that the cube holds, and those that are marked failed
        and not tried again.
    restarts, restarts_left : int
        Restarts of all these cells but the failed ones, and those that are still to be run. Both are upper
        bounds where the sweep has an adaptive stop.
    questions, questions_left : int
        Questions of all paths in whole batches, and those that are still to be asked.
    """

    cells: int = 0
    cells_done: int = 0
    cells_failed: int = 0
    restarts: int = 0
    restarts_left: int = 0
    questions: int = 0
    questions_left: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(*map(add, astuple(self), astuple(other)))


@dataclass(eq=False)
class Collector:
    """Take results, journal them, and write a block when the last cell of some of its draws is in.

    Parameters
    ----------
    store : BlockStore
        Cube that is written.
    journal : Journal or Journals
        Results of blocks that are not complete; journals that are only read take no more.
    inputs : Inputs
        Data, for drawing the annotations of a finished block again.
    sciences : mapping of str to Science
        Settings of each data set.
    keep_failure : callable
        Function that keeps the record of a failure.
    selection : Selection
        Cells that this run computes.

    Attributes
    ----------
    ran, spared : int
        Restarts that came back, each counted once, and those that an adaptive stop made unnecessary.
    n_remaining : Counter
        Restarts (by `Cell`) and questions (by `AskedPath`) that are left, after a call of `survey`.

    Raises
    ------
    JournalDamaged
        If the journal holds what no run of this sweep wrote.
    Mismatch
        If cube and journal have other answers to the same questions.
    """

    store: BlockStore
    journal: InitVar[Journal | Journals]
    inputs: Inputs
    sciences: Mapping[str, records.Science]
    keep_failure: Callable[[FailureRecord], None]
    selection: Selection

    def __post_init__(self, journal: Journal | Journals) -> None:
        # None for those who only count: they take no result
        self._journal = journal if isinstance(journal, Journal) else None
        self.plans = {plan.name: plan for plan in self.inputs.plans}
        # results of cells that are open or in the journal
        self._results: dict[Cell, CellResult] = {}
        self._open: dict[Cell, BlockResult] = {}
        self._n_opened = Counter[Block]()
        self._attempts = Counter[Cell | AskedPath]()
        self._compacted = 0
        self.blocks_written = self.cells_written = 0
        self.ran = self.spared = 0
        self.n_remaining = Counter[type]()
        # seconds that each block of this run took
        self.write_seconds: list[float] = []
        self._page: Feed | None = None
        answers: list[records.Answered] = []
        try:
            for header, arrays in journal.records():
                for result in records.from_record(header, arrays, self.plans, self.sciences):
                    if isinstance(result, records.Answered):
                        answers.append(result)
                    elif result.span.unit.dataset in self.plans:
                        self._result(result.span.unit).add(result)
            self.paths = Paths(self.store, self.plans, self.sciences, answers, self.selection)
        except ValueError as error:
            raise JournalDamaged(journal.path, None, str(error)) from error
        for block in {self.plans[cell.dataset].block_of(cell) for cell in self._results}:
            for cell, status in zip(block.cells(), self.store.statuses(block), strict=True):
                if status in ANSWERED:  # a driver died between writing it and dropping it from the journal
                    self._results.pop(cell, None)

    def tell(self, page: Feed) -> None:
        """Send results to the page of the run, at once those of cells that the journal holds whole."""
        self._page = page
        for result in self._results.values():
            self._publish(result)

    def survey(self) -> Work:
        """Count the work of this run, and from now on keep the remaining work up to date."""
        work = sum(map(self.work, self.plans.values()), Work())
        self.n_remaining = Counter({Cell: work.restarts_left, AskedPath: work.questions_left})
        return work

    def work(self, plan: DatasetPlan) -> Work:
        """Count the work of a data set, without opening a block."""
        n_cells = n_done = n_failed = 0
        restarts = 0 if self.selection.cells else plan.n_restarts
        for block, statuses in self.store.all_statuses(plan, self.selection.blocks(plan)):
            if not self.selection.cells and (statuses != FAILED).all():  # cells one by one would take long
                n_cells += len(statuses)
                n_done += int(np.isin(statuses, ANSWERED).sum())
                continue
            for cell, status in zip(block.cells(), statuses.tolist(), strict=True):
                if not self.selection.runs(cell):
                    continue
                is_given_up = status == FAILED and self.selection.settles(cell, status)
                n_cells += 1
                n_done += status in ANSWERED
                n_failed += is_given_up
                if self.selection.cells or is_given_up:
                    restarts += plan.restarts_of(cell.model) * (-1 if is_given_up else 1)
        sizes = Counter[type]()
        for span in self.count(plan):
            sizes[type(span.unit)] += span.size
        questions = sizes[AskedPath]
        if plan.n_paths and not self.selection.cells:
            batch = present(self.sciences[plan.name].asking).batch
            questions = plan.n_paths * ceil(max(plan.m) / batch) * batch
        return Work(n_cells, n_done, n_failed, restarts, sizes[Cell], questions, sizes[AskedPath])

    def count(self, plan: DatasetPlan) -> Iterator[records.Span[Any]]:
        """Yield the spans of paths and cells of a data set that are left, without opening a block."""
        yield from self.paths.spans_left(plan.name)
        for block, statuses in self.store.all_statuses(plan, self.selection.blocks(plan)):
            for cell in filter(self.selection.runs, self._unsettled(block, statuses)):
                result = self._results.get(cell)
                all_restarts = records.Span(cell, 0, plan.restarts_of(cell.model))
                yield from result.missing_spans() if result else [all_restarts]

    def spans_left(self, plan: DatasetPlan, draws: range | None = None) -> Iterator[records.Span[Cell]]:
        """Yield restarts of a data set that are neither in cube nor journal, opening its blocks on the way.

        If `draws` are given, only draws with these ranks are yielded, after all with a lower rank. Cells
        whose pairs are asked for wait for them: see `runnable_spans`.
        """
        # Only this process writes: what the status said at the start holds for each cell until it is opened.
        blocks = (block for block in self.selection.blocks(plan) if not asks(block.first.design))
        for block, statuses in self.store.all_statuses(plan, blocks):
            self._open_block(block, statuses, block.n_graphs if draws is None else draws.stop)
            for cell, rank in ranked_cells(block):
                if (draws is None or rank in draws) and self.selection.runs(cell):
                    yield from self.missing_spans(cell)

    def runnable_spans(self) -> Iterator[records.Span[Cell]]:
        """Yield restarts of cells whose pairs were asked for and are there, opening their blocks."""
        for cell in self.paths.runnable_cells():
            yield from self.open_cell(cell)

    def open_cell(self, cell: Cell) -> list[records.Span[Cell]]:
        """Return the restarts of a cell that are still to be run.

        Its draw, which is a first one, is opened. A cell whose pairs are asked for may be of any draw, and
        all of its block is opened: answers come in any order.
        """
        if not self.selection.runs(cell):
            return []
        block = self.plans[cell.dataset].block_of(cell)
        draws = block.n_graphs if asks(cell.design) else 1
        if draws > self._n_opened[block]:
            self._open_block(block, self.store.statuses(block), draws)
        return self.missing_spans(cell)

    def missing_spans(self, cell: Cell) -> list[records.Span[Cell]]:
        """Return the restarts of an open cell that are still to be run, with annotations it waited for."""
        if cell not in self._open or self._results[cell].has_failed:
            return []
        spans = self._results[cell].missing_spans()
        if not asks(cell.design):
            return list(spans)
        answers = self.paths.annotations(cell)
        return [] if answers is None else [replace(span, answers=answers) for span in spans]

    def take(self, results: records.Results) -> list[records.Span[Cell]]:
        """Journal and merge the results of tasks that ended, and write what is complete.

        Returns
        -------
        list of Span
            Spans that failed and are to be tried again, alone; a path goes on by itself.

        Raises
        ------
        Mismatch
            If a restart that was computed, or a question that was answered before, has another value now.
        """
        batches = [result for result in results if isinstance(result, records.Answered)]
        if batches:
            present(self._journal).append(*records.to_record(batches))
        for batch in batches:
            path = batch.span.unit
            n_before = self.paths.n_remaining(path)
            self.paths.take(batch)
            self.n_remaining[AskedPath] -= n_before - self.paths.n_remaining(path)
            del self._attempts[path]  # answers in between forgive a failure
        # The cells of a written block are closed: late results are dropped.
        solved: dict[str, list[records.Solved]] = {}
        for result in results:
            if isinstance(result, records.Solved) and result.span.unit in self._open:
                solved.setdefault(result.span.unit.dataset, []).append(result)
                self._merge(result)
        for of_dataset in solved.values():  # in one record, because each costs a wait for the disk
            present(self._journal).append(*records.to_record(of_dataset))
        failures = [result for result in results if isinstance(result, records.Failed)]
        retries = [failure.span for failure in failures if not failure.is_charged or self._charge(failure)]
        self._write_complete({result.span.unit for of_dataset in solved.values() for result in of_dataset})
        return retries

    def _merge(self, restarts: records.Solved) -> None:
        result = self._results[restarts.span.unit]
        n_left, n_run = result.n_left, result.n_run
        result.add(restarts)
        self.n_remaining[Cell] -= n_left - result.n_left
        self.ran += result.n_run - n_run
        self.spared += n_left - result.n_left - (result.n_run - n_run)
        self._publish(result)

    def _charge(self, failure: records.Failed) -> bool:
        """Count a failure of a cell or path, and return whether the cell may try again.

        A unit that fails too often is given up; with a path all cells that wait for its answers.
        """
        unit = failure.span.unit
        is_path = isinstance(unit, AskedPath)
        if not is_path and unit not in self._open:
            return False
        self._attempts[unit] += 1
        self.keep_failure(failure.record(self._attempts[unit]))
        if self._attempts[unit] < ATTEMPTS:
            if is_path:
                self.paths.retry(unit)
            return not is_path
        logger.error("%s %s failed: %s", "path" if is_path else "cell", unit, failure.cause)
        if is_path:
            self.n_remaining[AskedPath] -= self.paths.n_remaining(unit)
        cells = self.paths.give_up(unit) if is_path else [unit]
        for cell in cells:
            self.open_cell(cell)
            if cell in self._open:
                self.n_remaining[Cell] -= self._results[cell].n_left
                self._results[cell].has_failed = True
                self._publish(self._results[cell])
        self._write_complete(set(cells))
        return False

    def seconds(self, cell: Cell) -> float | None:
        """Return the seconds of a restart of a cell that is done in the cube, None for any other."""
        block = self.plans[cell.dataset].block_of(cell)
        position = block.position(cell)
        if self.store.statuses(block)[position] != DONE:
            return None
        arrays = self.store.read(block)
        return float(arrays["seconds"][position]) / int(arrays["restarts_done"][position])

    def close(self) -> None:
        """Drop from the journal what is in the cube."""
        n_needed = self.paths.needed_answers()

        def is_live(span: records.Span[Any]) -> bool:
            unit = span.unit
            # results of data sets that are not available this time stay
            if unit.dataset not in self.plans:
                return True
            return unit in self._results if isinstance(unit, Cell) else span.start < n_needed.get(unit, 0)

        present(self._journal).compact(lambda header: any(map(is_live, records.spans_of(header))))
        self._compacted = present(self._journal).size

    def _open_block(self, block: Block, statuses: NDArray[np.int8], draws: int) -> None:
        """Open the cells of the first `draws` draws of a block that are to be computed and are not open yet.

        The unit of write is the chunks of a block, and a run waits for some of its draws: those that are
        opened together are written together.
        """
        ranks = range(self._n_opened.get(block, 0), draws)
        self._n_opened[block] = max(draws, ranks.start)
        unsettled = set(self._unsettled(block, statuses))
        new_cells = (cell for cell, rank in ranked_cells(block) if rank in ranks and cell in unsettled)
        cells = {cell: self._result(cell) for cell in new_cells}
        self._open |= dict.fromkeys(cells, BlockResult(block, cells))
        # The journal may hold all of it: the driver died between the last batch and the write.
        self._write_complete(cells)

    def _result(self, cell: Cell) -> CellResult:
        if cell not in self._results:
            stop = self.sciences[cell.dataset].stop if is_model(cell.model) else None
            self._results[cell] = CellResult(cell, self.plans[cell.dataset].restarts_of(cell.model), stop)
        return self._results[cell]

    def _unsettled(self, block: Block, statuses: NDArray[np.int8]) -> list[Cell]:
        cells = zip(block.cells(), statuses, strict=True)
        return [cell for cell, status in cells if not self.selection.settles(cell, status)]

    def _publish(self, result: CellResult) -> None:
        if self._page is not None and result.status != PENDING:
            self._page.take_cell(result)

    def _write_complete(self, cells: Iterable[Cell]) -> None:
        # dict.fromkeys: each block once, even when several of its cells came in together
        for result in dict.fromkeys(self._open[cell] for cell in cells if cell in self._open):
            if not result.is_complete:
                continue
            arrays = result.into(self.store.read(result.block))
            if not result.block.node.baseline:
                arrays["annotations"] = self._annotations(result.block, arrays["annotations"])
            start = time.monotonic()
            if "machine" in arrays:
                self.store.name_machines({cell.machine for cell in result.cells.values()} - {""})
            self.store.write(result.block, arrays)
            self.write_seconds.append(time.monotonic() - start)
            self.blocks_written += not (arrays["status"] == PENDING).any()
            self.cells_written += len(result.cells)
            if self._page is not None:
                self._page.take_block(result.block, arrays["status"])
            for cell in result.cells:
                del self._open[cell], self._results[cell]
            if present(self._journal).size > COMPACT_BYTES + 2 * self._compacted:
                self.close()

    def _annotations(self, block: Block, array: NDArray[Any]) -> Any:
        """Return the annotations of a block, an array of shape (n_mixtures · n_replicates, m, 3).

        They are drawn again from their coordinates. Those that were asked for are taken from their paths, or
        from the cube if no cell waited for them.
        """
        cells = block.graph_cells()
        if asks(block.first.design):
            answers = map(self.paths.annotations, cells)
            return np.stack([old if new is None else new for new, old in zip(answers, array, strict=True)])
        source, science = self.inputs.sources[block.dataset], self.sciences[block.dataset]
        annotations = (cell_annotations(science.seed, cell, source, science.crowd) for cell in cells)
        return np.stack(list(annotations))


def read_ledger(sweep: Sweep, selection: Selection) -> Collector | None:
    """Read what a run would find done, without a change of any file; return None if there is no cube.

    The grid is that of the cube, without what the sweep has grown by since. It raises as a run would.
    """
    if not sweep.cube.exists():
        return None
    stored_plans, inputs = read_manifest(sweep.cube).plans, sweep.inputs
    plans = tuple(stored_plans[plan.name] for plan in inputs.plans if plan.name in stored_plans)
    return Collector(
        BlockStore(sweep.cube, read_only=True),
        Journals(sweep.run),
        replace(inputs, plans=plans),
        {plan.name: records.Science.of(sweep.spec, plan, sweep.methods) for plan in plans},
        keep_failure=lambda record: None,
        selection=selection,
    )


# Paths of questions: how far each is, which cells its answers make runnable, what to ask next.


@dataclass(eq=False)
class Paths:
    """The paths of a sweep whose answers some cell still needs.

    Raises
    ------
    ValueError
        If answers are missing before others.
    Mismatch
        If cube and journal have other answers to the same questions.
    """

    store: BlockStore
    plans: Mapping[str, DatasetPlan]
    sciences: Mapping[str, records.Science]
    journalled: InitVar[Sequence[records.Answered]]
    selection: Selection

    def __post_init__(self, journalled: Sequence[records.Answered]) -> None:
        self._answers: dict[AskedPath, records.Answers] = {}
        # numbers of annotations that cells of this run wait for
        self._goals: dict[AskedPath, set[int]] = {}
        self._ready_paths: dict[AskedPath, None] = {}
        self._failing_paths: set[AskedPath] = set()
        self._released = deque[tuple[AskedPath, int]]()
        for cell, status in self._unanswered():
            path = AskedPath.of(cell)
            self._answers.setdefault(path, records.NO_ANSWERS)
            goals = self._goals.setdefault(path, set())
            if self.selection.runs(cell) and not self.selection.settles(cell, status):
                goals.add(present(cell.m))
        for plan in self.plans.values():
            self._read_cube(plan)
        for batch in sorted(journalled, key=lambda batch: batch.span.start):
            path, start = batch.span.unit, batch.span.start
            if path in self._answers:
                if start > len(self._answers[path]):
                    raise ValueError(f"answers of {path} from {start} on, without those before")
                self._extend(batch)
        for path in self._answers:
            self._release(path)

    def annotations(self, cell: Cell) -> records.Answers | None:
        """Return the annotations of a cell whose design asks for them; None while some are missing."""
        answers, m = self._answers.get(AskedPath.of(cell), records.NO_ANSWERS), present(cell.m)
        return None if len(answers) < m else answers[:m]

    def runnable_cells(self) -> Iterator[Cell]:
        """Yield, once, each cell whose annotations are complete now."""
        while self._released:
            yield from self._cells(*self._released.popleft())

    def spans_left(self, dataset: str) -> Iterator[records.Span[AskedPath]]:
        """Return the questions of a data set that this run is to ask, in whole batches."""
        return (self._span_of(path) for path in self._goals if path.dataset == dataset and self._goals[path])

    def n_remaining(self, path: AskedPath) -> int:
        """Count the questions of a path that this run is to ask, in whole batches."""
        return self._span_of(path).size if self._goals.get(path) else 0

    def remaining_for(self, path: AskedPath, m: int) -> records.Span[AskedPath] | None:
        """Return the questions, in whole batches, that `m` answers of a path need beyond those of this run.

        The path is in the grid. None means that nothing more is to be asked.
        """
        step = present(self.sciences[path.dataset].asking).batch
        stop = ceil(m / step) * step
        if self._goals.get(path):
            start = self._span_of(path).stop
        else:
            # the cube has all answers of a path that no cell needs
            plan, answers = self.plans[path.dataset], self._answers.get(path)
            count = max(plan.m) if answers is None else len(answers)
            start = stop if m <= count else count // step * step
        return records.Span(path, start, stop, step=step) if start < stop else None

    def next_task(
        self, seconds: float, timing: Timing, paths: Collection[AskedPath] | None = None
    ) -> records.Task | None:
        """Return the next questions of a path that nobody asks at the moment; None if there are none.

        The task has at least one batch, and more while it is predicted to last no longer than `seconds`. If
        `paths` are given, the path is one of these.
        """
        path = next((path for path in self._ready_paths if paths is None or path in paths), None)
        if path is None:
            return None
        del self._ready_paths[path]
        open_span = self._span_of(path)
        span = replace(open_span, stop=open_span.start + open_span.step)
        # after a failure one batch at a time: what was answered before the next is kept
        limit = 0.0 if path in self._failing_paths else seconds
        while span.stop < open_span.stop:
            longer = replace(span, stop=span.stop + span.step)
            if timing.seconds(longer) > limit:
                break
            span = longer
        return records.Task(self.sciences[path.dataset], path.dataset, (span,), timing.seconds(span))

    def take(self, batch: records.Answered) -> None:
        """Take answers that came in; `Mismatch` is raised if the cube has others."""
        self._extend(batch)
        self._failing_paths.discard(batch.span.unit)
        self._release(batch.span.unit)

    def retry(self, path: AskedPath) -> None:
        """Ask a path that has failed again, one batch at a time."""
        self._failing_paths.add(path)
        self._ready_paths.setdefault(path)

    def give_up(self, path: AskedPath) -> list[Cell]:
        """Ask nothing more of a path, and return the cells of this run that wait for its answers."""
        goals = sorted(self._goals[path])
        self._goals[path].clear()
        self._ready_paths.pop(path, None)
        return [cell for m in goals for cell in self._cells(path, m)]

    def needed_answers(self) -> dict[AskedPath, int]:
        """Return the number of answers of each path that cells outside the cube need, in any run."""
        n_needed: dict[AskedPath, int] = {}
        for cell, _ in self._unanswered():
            path = AskedPath.of(cell)
            n_needed[path] = max(n_needed.get(path, 0), present(cell.m))
        return n_needed

    def _cells(self, path: AskedPath, m: int) -> list[Cell]:
        """Return the cells of this run with the first m answers of a path."""
        plan = self.plans[path.dataset]
        values = {axis: (value,) for axis, value in asdict(path).items()}
        cells = plan.node_of[plan.models[0]].cells({**values, "m": (m,)})
        return list(filter(self.selection.runs, cells))

    def _span_of(self, path: AskedPath) -> records.Span[AskedPath]:
        """Return the questions of a path that are to be asked, in whole batches.

        Annotations of a cube may end within a batch, which is asked again.
        """
        answers, step = self._answers[path], present(self.sciences[path.dataset].asking).batch
        start = len(answers) // step * step
        stop = ceil(max(self._goals[path]) / step) * step
        return records.Span(path, start, stop, answers=answers[:start], step=step)

    def _release(self, path: AskedPath) -> None:
        """Hand out the cells that a path has enough answers for; if others wait, the path goes on."""
        goals = self._goals[path]
        for m in sorted(m for m in goals if m <= len(self._answers[path])):
            self._released.append((path, m))
            goals.remove(m)
        if goals:
            self._ready_paths.setdefault(path)
        else:  # batches of a task come back one by one: those before may have left it ready
            self._ready_paths.pop(path, None)

    def _unanswered(self) -> Iterator[tuple[Cell, int]]:
        """Yield the cells outside the cube that need a path, with their statuses."""
        for plan in self.plans.values():
            for block, statuses in self.store.all_statuses(plan, _asked_blocks(plan)):
                for cell, status in zip(block.cells(), statuses.tolist(), strict=True):
                    if status not in ANSWERED:
                        yield cell, status

    def _read_cube(self, plan: DatasetPlan) -> None:
        """Read the longest prefix of each path that the cube holds: annotations of its largest written m."""
        # the largest m first: what it holds says all that smaller ones do
        for block in sorted(_asked_blocks(plan), key=lambda block: -present(block.first.m)):
            graphs = list(map(AskedPath.of, block.graph_cells()))
            needs_answers = [len(self._answers.get(path, [0])) == 0 for path in graphs]
            if not any(needs_answers) or not self.store.has_status(block):
                continue
            rows, is_written = self.store.annotations(block)
            for path, row, is_needed, has_row in zip(graphs, rows, needs_answers, is_written, strict=True):
                if is_needed and has_row:
                    self._answers[path] = row.astype(np.int32)

    def _extend(self, batch: records.Answered) -> None:
        """Append answers to those of their path; where both have a question, the answers must be the same."""
        path, start = batch.span.unit, batch.span.start
        old_answers, new_answers = self._answers[path], batch.answers
        n_common = min(len(old_answers) - start, len(new_answers))
        is_different = (old_answers[start : start + n_common] != new_answers[:n_common]).any(axis=1)
        if is_different.any():
            index = int(np.argmax(is_different))
            message = (
                f"path {path}, question {start + index}: {new_answers[index].tolist()} now, "
                f"{old_answers[start + index].tolist()} before: "
                "a path must give the same bits wherever it is asked"
            )
            if self.store.made_here:
                raise Mismatch(message)
            logger.warning("%s; %s", message, PROMISE)
        self._answers[path] = np.concatenate([old_answers, new_answers[n_common:]])


def _asked_blocks(plan: DatasetPlan) -> Iterable[Block]:
    return (block for block in plan.blocks() if asks(block.first.design)) if plan.asking_designs else ()


# In which order cells are run: some draws of every block first, then more of them, wave after wave.
#
# The page of a run that has only begun is thus a coarse picture of the whole grid. Within a wave data sets
# take turns. No result depends on the order. Every wave but the last writes each block once more, so there
# are as many as may cost little.

# Share of the remaining time that additional writes of blocks may take of the driver's.
WRITING_SHARE = 0.02

# Guess of the time that a block takes: some ten files, each of which the disk has to confirm.
WRITE_SECONDS = 0.05


def ranked_cells(block: Block) -> Iterator[tuple[Cell, int]]:
    """Yield the cells of a block in storage order, each with the rank of its draw.

    Mixtures vary before redraws of the annotations: they are what means are taken over.
    """
    mixtures = len(block.values("mixture"))
    replicates = block.n_graphs // mixtures
    for position, cell in enumerate(block.cells()):
        mixture, replicate = divmod(position // block.per_graph, replicates)
        yield cell, replicate * mixtures + mixture


def next_wave(
    start: int, draws: int, *, blocks: int, seconds: float, write_seconds: Sequence[float] = ()
) -> range:
    """Return the ranks of the draws to be run next in every block, from `start` on.

    `draws` is the largest number of draws in any block, `seconds` those predicted until the end of the
    run, and `write_seconds` the time of each write of a block so far. The first wave is one draw, and each
    other wave is at least as long as all before it.
    """
    cost = blocks * fmean(write_seconds or [WRITE_SECONDS])
    n_waves = int(WRITING_SHARE * seconds / cost) if cost > 0 else draws
    if n_waves < 1:
        return range(start, draws)
    if start == 0:
        return range(1)
    growth = max(2.0, (draws / start) ** (1 / (n_waves + 1)))
    return range(start, min(draws, ceil(start * growth)))
