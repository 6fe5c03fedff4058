"""The collector on a tiny cube: what it asks for, journals, writes, and gives up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from cubes.small import draw_block, draw_inputs, make_plan, make_spec
from cubes.writer import empty, next_generation
from cubes.writer import journaled as records

from pipeline.run import ledger
from pipeline.run.ledger import (
    ATTEMPTS,
    SHARE,
    WRITE_SECONDS,
    Collector,
    Paths,
    in_turns,
    next_wave,
    with_draws,
)
from pipeline.run.request import Wanted
from pipeline.work.merge import Mismatch
from pipeline.work.records import Asking, Failure, Partial, PathFailure, PathPart, Work
from pipeline.work.timing import PathTiming
from storage.cube.blocks import BlockStore
from storage.cube.growth import create
from storage.cube.schema import DONE, FAILED, PENDING
from storage.runfolder.folder import RunFolder
from storage.runfolder.journal import Journal, JournalDamaged
from storage.runfolder.records import FailureRecord, append_failure, read_failures
from sweeps.inputs import Inputs, RealSource, cell_annotations
from sweeps.plan import AskedPath, Cell

# The order of cells: draws before blocks, and how many waves a run can afford.


def test_mixtures_vary_before_redraws() -> None:
    plan = make_plan(mixtures=3, replicates=2, models=("likelihood", "posterior"))
    (block,) = (block for block in plan.blocks() if not block.unsupervised)
    assert block.n_graphs == 6
    ranks = {(cell.mixture, cell.replicate, cell.model): rank for cell, rank in with_draws(block)}
    order = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert ranks == {(*draw, model): rank for rank, draw in enumerate(order) for model in plan.models}


def test_the_rank_of_a_real_data_set_is_its_redraw_and_baselines_have_one_each() -> None:
    baseline, block = make_plan().blocks()
    assert [rank for _, rank in with_draws(block)] == [0, 1]
    assert [rank for _, rank in with_draws(baseline)] == [0]
    baseline, _ = make_plan(mixtures=3).blocks()
    assert [(cell.mixture, rank) for cell, rank in with_draws(baseline)] == [(0, 0), (1, 1), (2, 2)]


def test_data_sets_take_turns() -> None:
    assert list(in_turns([iter("abc"), iter(""), iter("x"), iter("12")])) == ["a", "x", "1", "b", "2", "c"]
    drawn = in_turns([iter(range(3)), (1 // 0 for _ in "x")])
    assert next(drawn) == 0  # nothing is drawn before its turn


def waves(draws: int, *, blocks: int, left: float, write_seconds: float | None = None) -> list[range]:
    found = [range(0)]
    while found[-1].stop < draws:
        handed = found[-1].stop
        rest = left * (draws - handed) / draws
        found.append(next_wave(handed, draws, blocks=blocks, left=rest, write_seconds=write_seconds))
    return found[1:]


@pytest.mark.parametrize("draws", [1, 2, 3, 30, 1000])
@pytest.mark.parametrize("left", [0.0, 10.0, 100.0, 1e6])
def test_every_draw_is_run_once_and_additional_writes_take_a_small_share(draws: int, left: float) -> None:
    found = waves(draws, blocks=20, left=left)
    assert list(itertools.chain.from_iterable(found)) == list(range(draws))
    # the budget is looked at again before each wave: the bound on the whole is that of the first look
    assert (len(found) - 1) * 20 * WRITE_SECONDS <= 2 * SHARE * left + 20 * WRITE_SECONDS * (left > 0)


def test_a_long_run_begins_with_one_draw_and_doubles() -> None:
    assert waves(30, blocks=20, left=1e6) == [
        range(1),
        range(1, 2),
        range(2, 4),
        range(4, 8),
        range(8, 16),
        range(16, 30),
    ]


def test_a_short_run_and_one_on_a_slow_disk_write_each_block_once() -> None:
    assert waves(30, blocks=20, left=20.0) == [range(30)]
    assert waves(30, blocks=20, left=1e3, write_seconds=10.0) == [range(30)]
    assert len(waves(30, blocks=20, left=1e3, write_seconds=0.001)) == 6


# Paths of a run: what to ask next, which cells may run, what a failure costs; with made-up answers.

ASKING_PLAN = make_plan(m=(3, 7), designs=("uniform", "active"), models=("likelihood", "posterior"))
SPEC = make_spec(
    "a",
    grid={
        "datasets": [{"name": "a", "scale": "none"}],
        "p": [0.9],
        "m": ["3", "7"],
        "replicates": 2,
        "models": ["unsupervised", "likelihood", "posterior"],
        "restarts": 3,
        "design": ["uniform", "active"],
    },
)
ASKING = {"a": Asking(seed=7, n_clusters=2, batch=2, restarts=1, covariance="auto")}
FIRST_PATH, SECOND_PATH = (AskedPath("a", None, 0.9, replicate, "active") for replicate in (0, 1))
TIMING = PathTiming({("a", "active", 0.9): {0: 1.0}})


def answers(path: AskedPath, stop: int = 10) -> np.ndarray:
    """Made-up answers, a function of the path."""
    return np.random.default_rng(path.replicate).integers(0, 2, size=(stop, 3)).astype(np.int32)


def part(path: AskedPath, start: int, stop: int) -> PathPart:
    return PathPart(path, start, answers(path)[start:stop], 1.0, 1.0)


def path_failure(path: AskedPath) -> PathFailure:
    return PathFailure(path, 2, 4, "ValueError: no", "n1", "", "")


@pytest.fixture
def asking_cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, [ASKING_PLAN], draw_inputs, SPEC)
    return path


@pytest.fixture
def begin(asking_cube: Path) -> Callable[..., Paths]:
    def paths(*journalled: PathPart, wanted: Wanted | None = None) -> Paths:
        failed: list[FailureRecord] = []
        found = Paths(
            BlockStore(asking_cube),
            {"a": ASKING_PLAN},
            ASKING,
            journalled,
            wanted=wanted or Wanted(),
            failed=failed.append,
            damaged=lambda text: JournalDamaged(asking_cube, None, text),
        )
        found.recorded = failed  # type: ignore[attr-defined]
        return found

    return paths


def cells(m: int, replicate: int) -> list[Cell]:
    return [Cell("a", None, 0.9, m, replicate, model, "active") for model in ASKING_PLAN.models]


def test_batches_follow_each_other_and_make_cells_runnable(begin: Callable[..., Paths]) -> None:
    paths = begin()
    assert [(path, start, stop) for path, start, stop in paths.left("a")] == [
        (FIRST_PATH, 0, 7),
        (SECOND_PATH, 0, 7),
    ]
    one, other = paths.next_batch(0.0, TIMING), paths.next_batch(100.0, TIMING)
    assert one is not None
    assert other is not None
    assert (one.path, one.start, one.batches, one.predicted) == (FIRST_PATH, 0, 1, 1.0)
    assert (other.path, other.batches) == (SECOND_PATH, 4)
    assert paths.next_batch(0.0, TIMING) is None, "nobody asks a path twice at a time"
    assert paths.take(part(FIRST_PATH, 0, 2)) == 2
    assert list(paths.runnable("a")) == []
    assert paths.annotations(cells(3, 0)[0]) is None
    again = paths.next_batch(0.0, TIMING)
    assert again is not None
    assert np.array_equal(again.known, answers(FIRST_PATH)[:2])
    paths.take(part(FIRST_PATH, 2, 4))
    assert list(paths.runnable("a")) == cells(3, 0)
    assert list(paths.runnable("a")) == [], "once"
    assert np.array_equal(paths.annotations(cells(3, 0)[0]), answers(FIRST_PATH)[:3])
    paths.take(part(SECOND_PATH, 0, 8))
    assert list(paths.runnable("a")) == [*cells(3, 1), *cells(7, 1)]
    assert [path for path, _, _ in paths.left("a")] == [FIRST_PATH]


def test_a_length_to_aim_for_bounds_the_batches_of_a_task(begin: Callable[..., Paths]) -> None:
    task = begin().next_batch(3.5, TIMING)
    assert task is not None
    assert (task.batches, task.predicted) == (3, 3.0)


def test_a_path_goes_on_where_journal_and_cube_end(begin: Callable[..., Paths], asking_cube: Path) -> None:
    paths = begin(part(FIRST_PATH, 2, 4), part(FIRST_PATH, 0, 2))
    assert list(paths.runnable("a")) == cells(3, 0)
    assert [(path, start) for path, start, _ in paths.left("a")] == [
        (FIRST_PATH, 4),
        (SECOND_PATH, 0),
    ]
    # m = 3 is written: its annotations end within the second batch, which is asked again
    write(asking_cube, 3)
    paths = begin()
    assert list(paths.runnable("a")) == []
    assert [(path, start) for path, start, _ in paths.left("a")] == [
        (FIRST_PATH, 2),
        (SECOND_PATH, 2),
    ]
    paths.take(part(FIRST_PATH, 2, 4))
    assert [start for _, start, _ in paths.left("a")] == [4, 2]
    assert begin(part(FIRST_PATH, 2, 6)).keeps(FIRST_PATH, 6)


def test_answers_that_are_not_those_of_before_are_an_error(
    begin: Callable[..., Paths], asking_cube: Path
) -> None:
    write(asking_cube, 3)
    paths = begin()
    other = PathPart(FIRST_PATH, 2, 1 - answers(FIRST_PATH)[2:4], 1.0, 1.0)
    with pytest.raises(Mismatch, match=r"path a/p=0.9/design=active/replicate=0, question 2"):
        paths.take(other)


def test_a_journal_that_lacks_the_beginning_is_damaged(begin: Callable[..., Paths]) -> None:
    with pytest.raises(JournalDamaged, match=r"answers of a/p=0.9/design=active/replicate=1 from 2 on"):
        begin(part(SECOND_PATH, 2, 4))


def test_a_path_that_fails_twice_is_given_up(begin: Callable[..., Paths]) -> None:
    paths = begin()
    paths.next_batch(0.0, TIMING)
    paths.take(part(FIRST_PATH, 0, 4))
    list(paths.runnable("a"))
    assert paths.charge(path_failure(FIRST_PATH), 2) == []
    task = paths.first_batch(FIRST_PATH, TIMING)
    assert task is not None
    assert task.batches == 1
    assert paths.charge(path_failure(FIRST_PATH), 2) == cells(7, 0)
    assert [path for path, _, _ in paths.left("a")] == [SECOND_PATH]
    assert paths.first_batch(FIRST_PATH, TIMING) is None
    assert [record.attempt for record in paths.recorded] == [1, 2]  # type: ignore[attr-defined]


def test_answers_in_between_forgive_a_failure(begin: Callable[..., Paths]) -> None:
    paths = begin()
    paths.next_batch(0.0, TIMING)
    paths.charge(path_failure(FIRST_PATH), 2)
    paths.take(part(FIRST_PATH, 0, 2))
    assert paths.charge(path_failure(FIRST_PATH), 2) == []


def test_only_what_is_wanted_is_asked(begin: Callable[..., Paths]) -> None:
    one = cells(3, 1)[0]
    paths = begin(wanted=Wanted(only=frozenset({one})))
    assert list(paths.left("a")) == [(SECOND_PATH, 0, 3)]
    paths.take(part(SECOND_PATH, 0, 4))
    assert list(paths.runnable("a")) == [one]
    assert paths.keeps(SECOND_PATH, 6), "cells of other runs need it"
    assert not paths.keeps(SECOND_PATH, 8)
    assert paths.keeps(AskedPath("b", None, 0.9, 0, "active"), 0), "of a data set that is not there this time"


def write(cube: Path, m: int) -> None:
    """Finish the blocks of one m of the design that asks."""
    store = BlockStore(cube)
    for block in ASKING_PLAN.blocks():
        if block.first.m == m and block.first.design == "active":
            arrays = draw_block(ASKING_PLAN, block)
            arrays["annotations"] = np.stack([answers(path)[:m] for path in (FIRST_PATH, SECOND_PATH)])
            store.write(block, arrays)


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
    monkeypatch.setattr(ledger, "COMPACT_BYTES", 0)
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
