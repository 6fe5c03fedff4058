"""The collector on a tiny cube: what it asks for, journals, writes, and gives up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from cubes.small import draw_inputs, make_plan
from cubes.writer import empty, next_generation
from cubes.writer import journaled as records

from pipeline.prepare.wanted import Wanted
from pipeline.run import collector
from pipeline.run.collector import ATTEMPTS, Collector
from pipeline.work.merge import Mismatch
from pipeline.work.records import Failure, Partial, Work
from storage.cube.blocks import BlockStore
from storage.cube.schema import DONE, FAILED, PENDING
from storage.runfolder.folder import RunFolder
from storage.runfolder.journal import Journal
from storage.runfolder.records import append_failure, read_failures
from sweeps.inputs import Inputs, RealSource, cell_annotations
from sweeps.plan import Cell

PLAN = make_plan()
"""A baseline, and a block of two replicates; three restarts each."""

BASELINE = Cell("a", None, None, None, None, "unsupervised")
FIRST, SECOND = (Cell("a", None, 0.9, 4, replicate, "likelihood") for replicate in (0, 1))
OBJECTIVES = np.array([-3.0, -1.0, -2.0])

Start = Callable[..., Collector]


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Cube with nothing done, and its run folder."""
    return empty(tmp_path, PLAN)


@pytest.fixture
def start(cube: Path) -> Iterator[Start]:
    """Starts a collector; each call stands for another process, after the one before has died."""
    with ExitStack() as stack:

        def begin(wanted: Wanted | None = None) -> Collector:
            stack.close()
            generation = next_generation(cube)
            return Collector(
                BlockStore(cube, files=generation.files),
                stack.enter_context(Journal(generation.journal, generation.files)),
                Inputs((PLAN,), {"a": RealSource(*draw_inputs(PLAN))}, {}),
                seed=7,
                failed=lambda record: append_failure(generation.failures, record),
                wanted=wanted or Wanted(),
            )

        yield begin


def partial(cell: Cell, start: int = 0, stop: int = 3, objectives: np.ndarray = OBJECTIVES) -> Partial:
    """A result whose solution tells which restart it comes from."""
    best = start + int(np.argmax(objectives[start:stop]))
    solution = np.full(5, best % 2, np.int16), np.full((2, 2), float(best)), np.full(2, float(best))
    return Partial(
        Work(cell, start, stop), objectives[start:stop].copy(), best, *solution, 0.5 * (stop - start), 0.1
    )


def failure(cell: Cell) -> Failure:
    return Failure(Work(cell, 0, 3), "ValueError: no", "n1", "", "Traceback")


def statuses(cube: Path, cell: Cell) -> list[int]:
    """Status of every cell of the block of `cell`."""
    return BlockStore(cube, read_only=True).statuses(PLAN.block_of(cell)).tolist()


def journaled(cube: Path) -> int:
    return sum(len(header["partials"]) for header, _ in records(cube))


def counted(collector: Collector) -> dict[Cell, int]:
    """Restarts left of each cell that has any."""
    left: dict[Cell, int] = {}
    for work in collector.count(PLAN):
        left[work.cell] = left.get(work.cell, 0) + work.stop - work.start
    return left


def test_everything_is_left_at_first(start: Start) -> None:
    found = start()
    assert counted(found) == {BASELINE: 3, FIRST: 3, SECOND: 3}
    assert list(found.left(PLAN)) == [Work(cell, 0, 3) for cell in (BASELINE, FIRST, SECOND)]
    assert not found.wants(Cell("a", None, 0.9, 4, 2, "likelihood"))  # a cell of no open block


def test_a_block_is_written_when_its_last_cell_is_in(start: Start, cube: Path) -> None:
    found = start()
    list(found.left(PLAN))
    assert found.take([partial(FIRST), partial(SECOND, 0, 2)]) == []
    assert (found.blocks_written, statuses(cube, FIRST)) == (0, [PENDING, PENDING])
    assert journaled(cube) == 2
    assert (found.wants(FIRST), found.wants(SECOND)) == (False, True)
    found.take([partial(SECOND, 2, 3)])
    assert (found.blocks_written, statuses(cube, FIRST)) == (1, [DONE, DONE])
    arrays = BlockStore(cube).read(PLAN.block_of(FIRST))
    assert arrays["log_likelihood"].tolist() == [OBJECTIVES.tolist()] * 2
    assert arrays["best_restart"].tolist() == [1, 1]
    labels = draw_inputs(PLAN)[1]
    for cell, drawn in zip((FIRST, SECOND), arrays["annotations"], strict=True):
        assert np.array_equal(drawn, cell_annotations(7, cell, labels, None))
    assert found.seconds(FIRST) == 0.5
    assert found.seconds(BASELINE) is None
    found.take([partial(FIRST)])  # of a block that is written: dropped
    assert found.blocks_written == 1


def test_what_the_journal_holds_is_not_asked_for_again(start: Start) -> None:
    found = start()
    list(found.left(PLAN))
    found.take([partial(FIRST, 0, 1), partial(SECOND)])
    again = start()
    assert counted(again) == {BASELINE: 3, FIRST: 2}
    assert list(again.left(PLAN)) == [Work(BASELINE, 0, 3), Work(FIRST, 1, 3)]
    assert counted(again) == {BASELINE: 3, FIRST: 2}  # the same from open blocks


def test_a_block_that_is_whole_in_the_journal_is_written_when_it_is_opened(
    start: Start, cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = start()
    list(found.left(PLAN))
    with monkeypatch.context() as killed:
        killed.setattr(Collector, "_write", lambda *_: None)
        found.take([partial(FIRST), partial(SECOND)])
    assert statuses(cube, FIRST) == [PENDING, PENDING]
    again = start()
    assert list(again.left(PLAN)) == [Work(BASELINE, 0, 3)]
    assert (again.blocks_written, statuses(cube, FIRST)) == (1, [DONE, DONE])
    again.close()
    assert journaled(cube) == 0


def test_a_restart_with_another_value_is_refused(start: Start) -> None:
    found = start()
    list(found.left(PLAN))
    found.take([partial(FIRST)])
    with pytest.raises(Mismatch, match="replicate=0/likelihood, restart 0"):
        found.take([partial(FIRST, objectives=OBJECTIVES - 1)])


def test_a_cell_that_fails_is_tried_again_and_then_marked(
    start: Start, cube: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = start()
    list(found.left(PLAN))
    assert found.take([partial(SECOND), failure(FIRST)]) == [Work(FIRST, 0, 3)]
    assert found.take([failure(FIRST)]) == []
    assert f"cell {FIRST} failed: ValueError: no" in caplog.text
    assert (found.blocks_written, statuses(cube, FIRST)) == (1, [FAILED, DONE])
    assert not found.charge(failure(FIRST))  # its block is closed
    attempts = [record.attempt for record in read_failures(RunFolder(cube))]
    assert attempts == list(range(1, ATTEMPTS + 1))
    assert [work.cell for work in start().left(PLAN)] == [BASELINE]
    retried = start(Wanted(retry_failed=True))
    assert [work.cell for work in retried.left(PLAN)] == [BASELINE, FIRST]
    retried.take([partial(FIRST)])
    assert statuses(cube, FIRST) == [DONE, DONE]


def test_cells_alone_leave_the_rest_of_their_block_for_later(start: Start, cube: Path) -> None:
    found = start(Wanted(only=frozenset({SECOND})))
    assert counted(found) == {SECOND: 3}
    assert found.open_cell(FIRST) == []
    assert found.open_cell(SECOND) == [Work(SECOND, 0, 3)]
    assert list(found.left(PLAN)) == [Work(SECOND, 0, 3)]
    found.take([partial(SECOND)])
    found.close()
    assert (found.blocks_written, journaled(cube)) == (0, 1)
    rest = start()
    assert [work.cell for work in rest.left(PLAN)] == [BASELINE, FIRST]


def test_some_draws_of_a_block_are_written_before_the_others(start: Start, cube: Path) -> None:
    found = start()
    assert list(found.left(PLAN, range(1))) == [Work(BASELINE, 0, 3), Work(FIRST, 0, 3)]
    found.take([partial(BASELINE), partial(FIRST)])
    assert (found.blocks_written, statuses(cube, FIRST)) == (1, [DONE, PENDING])  # the baseline's is whole
    before = BlockStore(cube).read(PLAN.block_of(FIRST))
    assert (before["labels"][1] == -1).all()
    assert (before["annotations"][1] == -1).all()
    assert list(found.left(PLAN, range(1, 2))) == [Work(SECOND, 0, 3)]
    found.close()
    assert journaled(cube) == 0  # nothing waits for the rest of the block
    found.take([partial(SECOND)])
    assert (found.blocks_written, statuses(cube, FIRST)) == (2, [DONE, DONE])
    after = BlockStore(cube).read(PLAN.block_of(FIRST))
    for name, values in before.items():
        assert np.array_equal(values[0], after[name][0], equal_nan=values.dtype.kind == "f")


def test_draws_that_are_under_way_are_not_handed_out_again(start: Start, cube: Path) -> None:
    found = start()
    assert found.open_cell(FIRST) == [Work(FIRST, 0, 3)]  # as a pilot does
    assert list(found.left(PLAN, range(1))) == [Work(BASELINE, 0, 3), Work(FIRST, 0, 3)]
    assert list(found.left(PLAN, range(1, 2))) == [Work(SECOND, 0, 3)]
    found.take([partial(SECOND)])
    assert statuses(cube, FIRST) == [PENDING, DONE]
    found.take([partial(FIRST)])
    assert statuses(cube, FIRST) == [DONE, DONE]


def test_a_long_journal_is_rewritten_without_what_is_in_the_cube(
    start: Start, cube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "COMPACT_BYTES", 0)
    found = start()
    list(found.left(PLAN))
    found.take([partial(FIRST)])
    found.take([partial(BASELINE)])
    assert [header["partials"][0]["cell"][-1] for header, _ in records(cube)] == ["likelihood"]


def test_batches_that_ended_together_are_one_record(start: Start, cube: Path) -> None:
    found = start()
    list(found.left(PLAN))
    found.take([partial(FIRST, 0, 1), partial(FIRST, 1, 2), partial(SECOND, 2, 3)])
    (record,) = records(cube)
    assert [(entry["start"], entry["stop"]) for entry in record[0]["partials"]] == [(0, 1), (1, 2), (2, 3)]
    assert counted(start()) == {BASELINE: 3, FIRST: 1, SECOND: 2}
