"""The ledger of a tiny cube asks for work, journals and writes it, and gives up cells and paths."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubes.small import draw_block, draw_inputs, make_plan, make_spec
from cubes.writer import journal_records as records
from cubes.writer import next_generation

from sweep_clustering.pipeline.run import ledger
from sweep_clustering.pipeline.run.request import Selection
from sweep_clustering.pipeline.work.merge import Mismatch
from sweep_clustering.pipeline.work.records import Answered, Asking, Failed, Science, Solved, Span, to_record
from sweep_clustering.pipeline.work.timing import Key, Times, Timing
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import create
from sweep_clustering.storage.cube.schema import DONE, FAILED, PENDING
from sweep_clustering.storage.runfolder.folder import RunFolder, append_failure, read_failures
from sweep_clustering.storage.runfolder.journal import Journal, JournalDamaged
from sweep_clustering.sweeps.file.spec import Crowd
from sweep_clustering.sweeps.inputs import Inputs, RealSource, cell_annotations
from sweep_clustering.sweeps.plan import AskedPath, Cell, DatasetPlan

# The order of cells: draws before blocks, and how many waves a run can afford.


def test_mixtures_vary_before_redraws() -> None:
    plan = make_plan(mixtures=3, replicates=2, models=("likelihood", "posterior"))
    baseline, block = plan.blocks()
    ranks = {(cell.mixture, cell.replicate, cell.model): rank for cell, rank in ledger.ranked_cells(block)}
    order = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert ranks == {(*draw, model): rank for rank, draw in enumerate(order) for model in plan.models}
    assert [(cell.mixture, rank) for cell, rank in ledger.ranked_cells(baseline)] == [(0, 0), (1, 1), (2, 2)]


def waves(draws: int, *, left: float, write_seconds: tuple[float, ...] = ()) -> list[range]:
    ranges = [range(0)]
    while ranges[-1].stop < draws:
        handed = ranges[-1].stop
        seconds = left * (draws - handed) / draws
        ranges.append(
            ledger.next_wave(handed, draws, blocks=20, seconds=seconds, write_seconds=write_seconds)
        )
    return ranges[1:]


def test_a_long_run_begins_with_one_draw_and_doubles_and_a_short_one_writes_each_block_once() -> None:
    for draws, left in itertools.product((1, 2, 3, 30, 1000), (0.0, 10.0, 100.0, 1e6)):
        ranges = waves(draws, left=left)
        assert list(itertools.chain.from_iterable(ranges)) == list(range(draws))
        # the budget is looked at again before each wave: the bound on the whole is that of the first look
        assert (
            len(ranges) - 1
        ) * 20 * ledger.WRITE_SECONDS <= 2 * ledger.WRITING_SHARE * left + 20 * ledger.WRITE_SECONDS * (
            left > 0
        )
    ends = [0, 1, 2, 4, 8, 16, 30]
    assert waves(30, left=1e6) == [range(*pair) for pair in itertools.pairwise(ends)]
    assert waves(30, left=20.0) == waves(30, left=1e3, write_seconds=(5.0, 15.0)) == [range(30)], (
        "a slow disk"
    )


# Cells: asked for, journalled, written, tried again.

PLAN = make_plan()
"""A baseline, and a block of two replicates; three restarts each."""

BASELINE = Cell("a", None, None, None, None, "unsupervised")
FIRST, SECOND = (Cell("a", None, 0.9, 4, replicate, "likelihood") for replicate in (0, 1))
OBJECTIVES = np.array([-3.0, -1.0, -2.0])
ASKING_PLAN = make_plan(m=(3, 7), designs=("uniform", "active"), models=("likelihood", "posterior"))
MODELS = ["unsupervised", "likelihood", "posterior"]
GRID = {"datasets": [{"name": "a", "scale": "none"}], "p": [0.9], "m": ["3", "7"], "models": MODELS}
SPEC = make_spec("a", grid={**GRID, "replicates": 2, "restarts": 3, "design": ["uniform", "active"]})
SCIENCE = Science(7, (), 2, asking=Asking(2, 1, "auto"))

Start = Callable[..., ledger.Collector]


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return tmp_path / "tiny.zarr"


@pytest.fixture
def start(cube: Path) -> Iterator[Start]:
    """Return a function that starts a collector, like another process after the last one has died."""
    with ExitStack() as stack:

        def begin(selection: Selection | None = None, *, plan: DatasetPlan = PLAN) -> ledger.Collector:
            stack.close()
            if not cube.exists():
                create(cube, [plan], draw_inputs, make_spec() if plan is PLAN else SPEC)
            generation = next_generation(cube)
            return ledger.Collector(
                BlockStore(cube, files=generation.files),
                stack.enter_context(Journal(generation.journal, generation.files)),
                Inputs((plan,), {"a": RealSource(*draw_inputs(plan))}, {}),
                {"a": SCIENCE},
                keep_failure=lambda record: append_failure(generation.failures, record),
                selection=selection or Selection(),
            )

        yield begin


def make_solved(cell: Cell, start: int = 0, stop: int = 3) -> Solved:
    """Return a result whose solution tells which restart it comes from."""
    span, part = Span(cell, start, stop), OBJECTIVES[start:stop].copy()
    best = start + int(np.argmax(part))
    solution = np.full(5, best % 2, np.int16), np.full((2, 2), float(best)), np.full(2, float(best))
    return Solved(span, part, best, *solution, 0.5 * span.size, 0.1)


def make_failed(unit: Any, start: int = 0, stop: int = 3) -> Failed:
    return Failed(Span(unit, start, stop), "ValueError: no", "n1", "", "Traceback")


def statuses(cube: Path, cell: Cell = FIRST) -> list[int]:
    """Return the status of every cell of the block of `cell`."""
    return BlockStore(cube, read_only=True).statuses(PLAN.block_of(cell)).tolist()


def work_left(collector: ledger.Collector) -> dict[Any, int]:
    """Return the restarts that are left of each cell, and the questions of each path."""
    counts = Counter[Any]()
    for span in collector.count(*collector.plans.values()):
        counts[span.unit] += span.size
    return counts


def test_a_block_is_written_when_its_last_cell_is_in(start: Start, cube: Path) -> None:
    collector = start()
    assert work_left(collector) == {BASELINE: 3, FIRST: 3, SECOND: 3}
    assert list(collector.spans_left(PLAN)) == [Span(cell, 0, 3) for cell in (BASELINE, FIRST, SECOND)]
    # batches that ended together are one record
    assert (
        collector.take([make_solved(FIRST, 0, 1), make_solved(FIRST, 1, 3), make_solved(SECOND, 0, 2)]) == []
    )
    (record,) = records(cube)
    assert [(entry["start"], entry["stop"]) for entry in record[0]["partials"]] == [(0, 1), (1, 3), (0, 2)]
    assert collector.blocks_written == 0
    assert statuses(cube) == [PENDING, PENDING]
    assert collector.missing_spans(FIRST) == []
    assert collector.missing_spans(SECOND) == [Span(SECOND, 2, 3)]
    # restarts in the journal are not asked for again, by this driver or the next
    for driver in (collector, start()):
        assert work_left(driver) == {BASELINE: 3, SECOND: 1}
    collector = start()
    assert list(collector.spans_left(PLAN)) == [Span(BASELINE, 0, 3), Span(SECOND, 2, 3)]
    collector.take([make_solved(SECOND, 2, 3)])
    assert collector.blocks_written == 1
    assert statuses(cube) == [DONE, DONE]
    arrays = BlockStore(cube).read(PLAN.block_of(FIRST))
    assert arrays["log_likelihood"].tolist() == [OBJECTIVES.tolist()] * 2
    assert arrays["best_restart"].tolist() == [1, 1]
    source = RealSource(*draw_inputs(PLAN))
    for cell, drawn in zip((FIRST, SECOND), arrays["annotations"], strict=True):
        assert np.array_equal(drawn, cell_annotations(7, cell, source, Crowd()))
    assert collector.seconds(FIRST) == 0.5
    assert collector.seconds(BASELINE) is None
    collector.take([make_solved(FIRST)])  # its block is written, so it is dropped
    assert collector.blocks_written == 1
    collector.close()
    assert list(records(cube)) == []


def test_a_block_whole_in_the_journal(start: Start, cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start()
    list(first.spans_left(PLAN))
    with monkeypatch.context() as killed:
        killed.setattr(ledger.Collector, "_write_complete", lambda *_: None)
        first.take([make_solved(FIRST), make_solved(SECOND)])
    assert statuses(cube) == [PENDING, PENDING]
    again = start()
    assert list(again.spans_left(PLAN)) == [Span(BASELINE, 0, 3)]
    assert again.blocks_written == 1
    assert statuses(cube) == [DONE, DONE]
    # killed before what is written was dropped from the journal, which a long one is without being asked
    monkeypatch.setattr(ledger, "COMPACT_BYTES", 0)
    third = start()
    assert list(third.spans_left(PLAN)) == [Span(BASELINE, 0, 3)]
    third.take([make_solved(BASELINE)])
    assert list(records(cube)) == []


def test_a_cell_that_fails_twice(start: Start, cube: Path, caplog: pytest.LogCaptureFixture) -> None:
    collector = start()
    list(collector.spans_left(PLAN))
    # work that was lost with other work is charged to nobody
    assert collector.take([replace(make_failed(FIRST), is_charged=False)] * 3) == [Span(FIRST, 0, 3)] * 3
    assert collector.take([make_solved(SECOND), make_failed(FIRST)]) == [Span(FIRST, 0, 3)]
    assert collector.take([make_failed(FIRST)]) == []
    assert f"cell {FIRST} failed: ValueError: no" in caplog.text
    assert collector.blocks_written == 1
    assert statuses(cube) == [FAILED, DONE]
    assert collector.take([make_failed(FIRST)]) == [], "its block is closed"
    assert [record.attempt for record in read_failures(RunFolder(cube))] == [*range(1, ledger.ATTEMPTS + 1)]
    assert [span.unit for span in start().spans_left(PLAN)] == [BASELINE]
    retried = start(Selection(retry_failed=True))
    assert [span.unit for span in retried.spans_left(PLAN)] == [BASELINE, FIRST]
    retried.take([make_solved(FIRST)])
    assert statuses(cube) == [DONE, DONE]


def test_some_draws_of_a_block_are_written_before_the_others(start: Start, cube: Path) -> None:
    collector = start()
    assert collector.open_cell(FIRST) == [Span(FIRST, 0, 3)]  # a pilot does this
    assert list(collector.spans_left(PLAN, range(1))) == [Span(BASELINE, 0, 3), Span(FIRST, 0, 3)]
    collector.take([make_solved(BASELINE), make_solved(FIRST)])
    assert collector.blocks_written == 1, "the baseline's is whole"
    assert statuses(cube) == [DONE, PENDING], "the baseline's is whole"
    before = BlockStore(cube).read(PLAN.block_of(FIRST))
    assert {*before["labels"][1], *before["annotations"][1].ravel()} == {-1}
    assert list(collector.spans_left(PLAN, range(1, 2))) == [Span(SECOND, 0, 3)]
    collector.close()
    assert list(records(cube)) == [], "nothing waits for the rest of the block"
    collector.take([make_solved(SECOND)])
    assert collector.blocks_written == 2
    assert statuses(cube) == [DONE, DONE]
    after = BlockStore(cube).read(PLAN.block_of(FIRST))
    for name, values in before.items():
        assert np.array_equal(values[0], after[name][0], equal_nan=values.dtype.kind == "f")


# Paths: what to ask next, which cells may run, what a failure costs; with made-up answers.

ONE, TWO = (AskedPath("a", None, 0.9, replicate, "active") for replicate in (0, 1))
TIMING = Timing({Key.of(ONE, 0): Times(1.0)})


def answers(path: AskedPath, stop: int = 10) -> np.ndarray:
    """Return made-up answers, which are a function of the path."""
    return np.random.default_rng(path.replicate).integers(0, 2, size=(stop, 3)).astype(np.int32)


def make_answered(path: AskedPath, start: int, stop: int) -> Answered:
    return Answered(Span(path, start, stop), answers(path)[start:stop], 1.0, 1.0)


def cells(m: int, replicate: int) -> list[Cell]:
    return [Cell("a", None, 0.9, m, replicate, model, "active") for model in ASKING_PLAN.models]


def spans_left(collector: ledger.Collector) -> list[tuple[AskedPath, int, int]]:
    return [(span.unit, span.start, span.stop) for span in collector.paths.spans_left("a")]


def write(cube: Path, m: int) -> None:
    """Finish the block of one m of the design that asks."""
    block = ASKING_PLAN.block_of(cells(m, 0)[0])
    annotations = np.stack([answers(path)[:m] for path in (ONE, TWO)])
    BlockStore(cube).write(block, draw_block(ASKING_PLAN, block) | {"annotations": annotations})


def runnable(collector: ledger.Collector) -> list[Cell]:
    return [span.unit for span in collector.runnable_spans()]


def test_batches_follow_each_other_and_make_cells_runnable(start: Start, cube: Path) -> None:
    collector = start(plan=ASKING_PLAN)
    paths = collector.paths
    assert spans_left(collector) == [(ONE, 0, 8), (TWO, 0, 8)], "whole batches"
    assert work_left(collector)[ONE] == 8
    tasks: Any = paths.next_task(0.0, TIMING), paths.next_task(3.5, TIMING)
    sizes = [(task.spans[0].unit, task.spans[0].size, task.seconds) for task in tasks]
    assert sizes == [(ONE, 2, 1.0), (TWO, 6, 3.0)]
    assert paths.next_task(100.0, TIMING) is None, "nobody asks a path twice at a time"
    collector.take([make_answered(ONE, 0, 2)])
    assert runnable(collector) == []
    assert paths.annotations(cells(3, 0)[0]) is None
    again: Any = paths.next_task(0.0, TIMING)
    assert np.array_equal(again.spans[0].answers, answers(ONE)[:2])
    collector.take([make_answered(ONE, 2, 4)])
    (first, _) = spans = list(collector.runnable_spans())
    assert [span.unit for span in spans] == cells(3, 0)
    assert np.array_equal(first.answers, answers(ONE)[:3]), "a worker could not draw them again"
    assert runnable(collector) == [], "once"
    for question in range(0, 8, 2):  # each batch has a record of its own, which is dropped or stays
        collector.take([make_answered(TWO, question, question + 2)])
    assert runnable(collector) == [*cells(3, 1), *cells(7, 1)]
    assert spans_left(collector) == [(ONE, 4, 8)]
    # journalled answers are there for the next driver, which drops nothing that a cell still needs
    collector = start(plan=ASKING_PLAN)
    assert runnable(collector) == [*cells(3, 0), *cells(3, 1), *cells(7, 1)]
    assert spans_left(collector) == [(ONE, 4, 8)]
    for cell in (*cells(3, 0), *cells(3, 1)):
        collector.take([make_solved(cell)])
    arrays = BlockStore(cube).read(ASKING_PLAN.block_of(cells(3, 0)[0]))
    assert np.array_equal(arrays["annotations"], [answers(path)[:3] for path in (ONE, TWO)])
    collector.close()
    assert [entry["start"] for header, _ in records(cube) for entry in header["paths"]] == [0, 2, 0, 2, 4, 6]
    assert spans_left(start(plan=ASKING_PLAN)) == [(ONE, 4, 8)]


def test_a_path_goes_on_where_journal_and_cube_end(start: Start, cube: Path) -> None:
    start(plan=ASKING_PLAN)
    # m = 3 is written: its annotations end within the second batch, which is asked again
    write(cube, 3)
    collector = start(plan=ASKING_PLAN)
    assert runnable(collector) == []
    assert spans_left(collector) == [(ONE, 2, 8), (TWO, 2, 8)]
    collector.take([make_answered(ONE, 2, 4)])
    assert spans_left(collector) == [(ONE, 4, 8), (TWO, 2, 8)]
    assert collector.paths.needed_answers() == {ONE: 7, TWO: 7}
    answer = Answered(Span(TWO, 2, 4), 1 - answers(TWO)[2:4], 1.0, 1.0)
    with pytest.raises(Mismatch, match=r"path a/p=0.9/design=active/replicate=1, question 2"):
        collector.take([answer])
    write(cube, 7)
    collector = start(plan=ASKING_PLAN)
    assert spans_left(collector) == []
    assert collector.paths.needed_answers() == {}
    # a larger m would ask the batch again within which the answers of the cube end
    assert collector.paths.remaining_for(ONE, 7) is None
    assert collector.paths.remaining_for(ONE, 9) == Span(ONE, 6, 10, step=2)
    collector.close()
    assert list(records(cube)) == []


def test_answers_of_a_path_are_those_of_the_largest_m_in_the_cube(start: Start, cube: Path) -> None:
    start(plan=ASKING_PLAN)
    write(cube, 3)
    block = ASKING_PLAN.block_of(cells(7, 0)[0])
    results = draw_block(ASKING_PLAN, block)
    results["annotations"] = np.stack([answers(path)[:7] for path in (ONE, TWO)])
    results["status"][1::2] = PENDING  # the second model of each draw
    BlockStore(cube).write(block, results)
    collector = start(plan=ASKING_PLAN)
    assert spans_left(collector) == []
    assert runnable(collector) == [cells(7, 0)[1], cells(7, 1)[1]]


def test_a_path_that_fails_twice_is_given_up_with_its_cells(start: Start, cube: Path) -> None:
    collector = start(plan=ASKING_PLAN)
    collector.paths.next_task(0.0, TIMING)
    collector.take([make_failed(ONE, 0, 2)])
    collector.take([make_answered(ONE, 0, 4)])  # answers in between forgive a failure
    list(collector.runnable_spans())
    assert collector.take([make_failed(ONE, 4, 6)]) == []
    assert collector.paths.next_task(100.0, TIMING, {ONE}).spans[0].size == 2, "one batch after a failure"
    collector.take([make_failed(ONE, 4, 6)])
    assert spans_left(collector) == [(TWO, 0, 8)]
    assert collector.paths.next_task(0.0, TIMING, {ONE}) is None
    assert [record.attempt for record in read_failures(RunFolder(cube))] == [1, 1, 2]
    assert collector.missing_spans(cells(7, 0)[0]) == []
    collector.take([make_answered(TWO, 0, 8)])
    for span in list(collector.runnable_spans()):
        collector.take([make_solved(span.unit)])
    block = ASKING_PLAN.block_of(cells(7, 0)[0])
    assert BlockStore(cube).statuses(block).tolist() == [FAILED, FAILED, DONE, DONE]


def test_only_what_is_wanted_is_asked(start: Start) -> None:
    cell = cells(3, 1)[0]
    collector = start(Selection(cells=frozenset({cell})), plan=ASKING_PLAN)
    assert spans_left(collector) == [(TWO, 0, 4)]
    collector.take([make_answered(TWO, 0, 4)])
    assert runnable(collector) == [cell]
    assert collector.paths.needed_answers() == {ONE: 7, TWO: 7}, "cells of other runs need them"
    # a journal that lacks the beginning is damaged
    collector._journal.append(*to_record([make_answered(ONE, 2, 4)]))
    with pytest.raises(JournalDamaged, match=r"answers of a/p=0.9/design=active/replicate=0 from 2 on"):
        start(plan=ASKING_PLAN)
