"""Paths of questions in a run: how far each is, which cells its answers make runnable, what to ask next."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipeline.prepare.wanted import Wanted
from pipeline.work.merge import Mismatch
from pipeline.work.records import NO_ANSWERS, Answers, Asking, PathBatch, PathFailure, PathPart
from pipeline.work.timing import PathTiming
from storage.cube.blocks import BlockStore
from storage.cube.schema import ANSWERED
from storage.runfolder.journal import JournalDamaged
from storage.runfolder.records import FailureRecord
from sweeps.errors import given
from sweeps.plan import AskedPath, Block, Cell, DatasetPlan
from sweeps.words import asks

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
        found = (
            Cell(path.dataset, path.mixture, path.p, m, path.replicate, model, path.design, search)
            for search in plan.cell_searches
            for model in plan.models
        )
        return list(filter(self._wanted.runs, found))

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
        for block in sorted(_asked_blocks(plan), key=lambda block: -(block.m or 0)):
            graphs = [AskedPath.of(cell) for cell in block.cells() if cell.model == block.models[0]]
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
    return (block for block in plan.blocks() if asks(block.design)) if plan.asked else ()
