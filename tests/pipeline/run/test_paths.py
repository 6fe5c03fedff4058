"""Paths of a run: what to ask next, which cells may run, what a failure costs; with made-up answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cubes.small import draw_block, draw_inputs, make_plan, make_spec

from pipeline.prepare.wanted import Wanted
from pipeline.run.paths import Paths
from pipeline.work.merge import Mismatch
from pipeline.work.records import Asking, PathFailure, PathPart
from pipeline.work.timing import PathTiming
from storage.cube.blocks import BlockStore
from storage.cube.growth import create
from storage.runfolder.journal import JournalDamaged
from storage.runfolder.records import FailureRecord
from sweeps.plan import AskedPath, Cell

PLAN = make_plan(m=(3, 7), designs=("uniform", "active"), models=("likelihood", "posterior"))
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
FIRST, SECOND = (AskedPath("a", None, 0.9, replicate, "active") for replicate in (0, 1))
TIMING = PathTiming({("a", "active", 0.9): {0: 1.0}})


def answers(path: AskedPath, stop: int = 10) -> np.ndarray:
    """Made-up answers, a function of the path."""
    return np.random.default_rng(path.replicate).integers(0, 2, size=(stop, 3)).astype(np.int32)


def part(path: AskedPath, start: int, stop: int) -> PathPart:
    return PathPart(path, start, answers(path)[start:stop], 1.0, 1.0)


def failure(path: AskedPath) -> PathFailure:
    return PathFailure(path, 2, 4, "ValueError: no", "n1", "", "")


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN], draw_inputs, SPEC)
    return path


@pytest.fixture
def begin(cube: Path) -> Callable[..., Paths]:
    def paths(*journalled: PathPart, wanted: Wanted | None = None) -> Paths:
        failed: list[FailureRecord] = []
        found = Paths(
            BlockStore(cube),
            {"a": PLAN},
            ASKING,
            journalled,
            wanted=wanted or Wanted(),
            failed=failed.append,
            damaged=lambda text: JournalDamaged(cube, None, text),
        )
        found.recorded = failed  # type: ignore[attr-defined]
        return found

    return paths


def cells(m: int, replicate: int) -> list[Cell]:
    return [Cell("a", None, 0.9, m, replicate, model, "active") for model in PLAN.models]


def test_batches_follow_each_other_and_make_cells_runnable(begin: Callable[..., Paths]) -> None:
    paths = begin()
    assert [(path, start, stop) for path, start, stop in paths.left("a")] == [(FIRST, 0, 7), (SECOND, 0, 7)]
    one, other = paths.next_batch(0.0, TIMING), paths.next_batch(100.0, TIMING)
    assert one is not None
    assert other is not None
    assert (one.path, one.start, one.batches, one.predicted) == (FIRST, 0, 1, 1.0)
    assert (other.path, other.batches) == (SECOND, 4)
    assert paths.next_batch(0.0, TIMING) is None, "nobody asks a path twice at a time"
    assert paths.take(part(FIRST, 0, 2)) == 2
    assert list(paths.runnable("a")) == []
    assert paths.annotations(cells(3, 0)[0]) is None
    again = paths.next_batch(0.0, TIMING)
    assert again is not None
    assert np.array_equal(again.known, answers(FIRST)[:2])
    paths.take(part(FIRST, 2, 4))
    assert list(paths.runnable("a")) == cells(3, 0)
    assert list(paths.runnable("a")) == [], "once"
    assert np.array_equal(paths.annotations(cells(3, 0)[0]), answers(FIRST)[:3])
    paths.take(part(SECOND, 0, 8))
    assert list(paths.runnable("a")) == [*cells(3, 1), *cells(7, 1)]
    assert [path for path, _, _ in paths.left("a")] == [FIRST]


def test_a_length_to_aim_for_bounds_the_batches_of_a_task(begin: Callable[..., Paths]) -> None:
    task = begin().next_batch(3.5, TIMING)
    assert task is not None
    assert (task.batches, task.predicted) == (3, 3.0)


def test_a_path_goes_on_where_journal_and_cube_end(begin: Callable[..., Paths], cube: Path) -> None:
    paths = begin(part(FIRST, 2, 4), part(FIRST, 0, 2))
    assert list(paths.runnable("a")) == cells(3, 0)
    assert [(path, start) for path, start, _ in paths.left("a")] == [(FIRST, 4), (SECOND, 0)]
    # m = 3 is written: its annotations end within the second batch, which is asked again
    write(cube, 3)
    paths = begin()
    assert list(paths.runnable("a")) == []
    assert [(path, start) for path, start, _ in paths.left("a")] == [(FIRST, 2), (SECOND, 2)]
    paths.take(part(FIRST, 2, 4))
    assert [start for _, start, _ in paths.left("a")] == [4, 2]
    assert begin(part(FIRST, 2, 6)).keeps(FIRST, 6)


def test_answers_that_are_not_those_of_before_are_an_error(begin: Callable[..., Paths], cube: Path) -> None:
    write(cube, 3)
    paths = begin()
    other = PathPart(FIRST, 2, 1 - answers(FIRST)[2:4], 1.0, 1.0)
    with pytest.raises(Mismatch, match=r"path a/p=0.9/design=active/replicate=0, question 2"):
        paths.take(other)


def test_a_journal_that_lacks_the_beginning_is_damaged(begin: Callable[..., Paths]) -> None:
    with pytest.raises(JournalDamaged, match=r"answers of a/p=0.9/design=active/replicate=1 from 2 on"):
        begin(part(SECOND, 2, 4))


def test_a_path_that_fails_twice_is_given_up(begin: Callable[..., Paths]) -> None:
    paths = begin()
    paths.next_batch(0.0, TIMING)
    paths.take(part(FIRST, 0, 4))
    list(paths.runnable("a"))
    assert paths.charge(failure(FIRST), 2) == []
    task = paths.first_batch(FIRST, TIMING)
    assert task is not None
    assert task.batches == 1
    assert paths.charge(failure(FIRST), 2) == cells(7, 0)
    assert [path for path, _, _ in paths.left("a")] == [SECOND]
    assert paths.first_batch(FIRST, TIMING) is None
    assert [record.attempt for record in paths.recorded] == [1, 2]  # type: ignore[attr-defined]


def test_answers_in_between_forgive_a_failure(begin: Callable[..., Paths]) -> None:
    paths = begin()
    paths.next_batch(0.0, TIMING)
    paths.charge(failure(FIRST), 2)
    paths.take(part(FIRST, 0, 2))
    assert paths.charge(failure(FIRST), 2) == []


def test_only_what_is_wanted_is_asked(begin: Callable[..., Paths]) -> None:
    one = cells(3, 1)[0]
    paths = begin(wanted=Wanted(only=frozenset({one})))
    assert list(paths.left("a")) == [(SECOND, 0, 3)]
    paths.take(part(SECOND, 0, 4))
    assert list(paths.runnable("a")) == [one]
    assert paths.keeps(SECOND, 6), "cells of other runs need it"
    assert not paths.keeps(SECOND, 8)
    assert paths.keeps(AskedPath("b", None, 0.9, 0, "active"), 0), "of a data set that is not there this time"


def write(cube: Path, m: int) -> None:
    """Finish the blocks of one m of the design that asks."""
    store = BlockStore(cube)
    for block in PLAN.blocks():
        if block.m == m and block.design == "active":
            arrays = draw_block(PLAN, block)
            arrays["annotations"] = np.stack([answers(path)[:m] for path in (FIRST, SECOND)])
            store.write(block, arrays)
