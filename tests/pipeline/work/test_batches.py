"""Grouping of restarts into batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.work.batches import LONGEST, SHORTEST, make_batches, target_seconds
from pipeline.work.records import Chosen, Science, Work
from pipeline.work.timing import Timing
from sweeps.file.search import Search
from sweeps.plan import Cell

SCIENCE = Science(1, (Search(),), 3)


def test_a_batch_is_a_fiftieth_of_a_workers_share_within_bounds() -> None:
    assert target_seconds(1000, 2) == 10
    assert target_seconds(1, 2) == SHORTEST
    assert target_seconds(1e9, 2) == LONGEST
    assert target_seconds(10_000, 200) == 2  # 100 batches a second for the driver
    assert target_seconds(500, 200) == 1.25  # two for each worker
    assert target_seconds(1e9, 10_000) == LONGEST


works = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 40), st.integers(1, 60)).map(
        lambda t: Work(Cell("a", t[0], 0.8, 10, 0, "likelihood"), t[1], t[1] + t[2])
    ),
    max_size=8,
)


@settings(deadline=None)
@given(works, st.sampled_from([0.001, 0.3, 1.0, 2.0, 100.0]), st.sampled_from([1.0, 7.0, 10.0, 50.0]))
def test_every_restart_is_in_one_batch_in_order(work: list[Work], each: float, seconds: float) -> None:
    timing = Timing({("a", "likelihood", 0.8, 10, None): each})
    batches = list(make_batches(SCIENCE, work, timing, seconds=seconds))
    wanted = [(item.cell, r) for item in work for r in range(item.start, item.stop)]
    assert [(w.cell, r) for b in batches for w in b.work for r in range(w.start, w.stop)] == wanted
    sizes = [sum(w.stop - w.start for w in batch.work) for batch in batches]
    full = max(1, int(seconds / each + 1e-9))
    assert all(size == full for size in sizes[:-1])
    assert all(0 < size <= full for size in sizes)
    for batch, size in zip(batches, sizes, strict=True):
        assert batch.predicted == pytest.approx(size * each)


def test_a_cell_that_chooses_its_shape_is_never_split() -> None:
    key, cell = ("a", "posterior-auto", 0.8, 10, None), Cell("a", 0, 0.8, 10, 0, "posterior-auto")
    timing = Timing({key: 1.0, ("a", "likelihood", 0.8, 10, None): 1.0}, {key: 3.0})
    known = Chosen("tied", (0.4,) * 4, (0.8,) * 4)
    work = [
        Work(replace(cell, model="likelihood"), 0, 2),
        Work(cell, 0, 5),
        Work(replace(cell, replicate=1), 1, 5, chosen=known),
        Work(replace(cell, replicate=2), 0, 1),
    ]
    batches = list(make_batches(SCIENCE, work, timing, seconds=8.0))
    assert [batch.work for batch in batches] == [(work[0],), (work[1],), (work[2], work[3])]
    assert [batch.predicted for batch in batches] == [2.0, 8.0, 8.0]
    alone = list(make_batches(SCIENCE, work[1:2], timing, seconds=0.5))
    assert [batch.work for batch in alone] == [(work[1],)]


def test_a_cell_that_holds_annotations_out_is_never_split() -> None:
    key, cell = ("a", "posterior", 0.8, 10, None), Cell("a", 0, 0.8, 10, 0, "posterior")
    baseline = Cell("a", 0, None, None, None, "unsupervised")
    timing = Timing({key: 1.0, ("a", "unsupervised", None, None, None): 1.0}, {key: 3.0})
    asked = replace(SCIENCE, searches=(Search(held_out=True),))
    work = [Work(baseline, 0, 6), Work(cell, 0, 5)]
    batches = list(make_batches(asked, work, timing, seconds=4.0))
    assert [[(w.cell.model, w.start, w.stop) for w in batch.work] for batch in batches] == [
        [("unsupervised", 0, 4)],
        [("unsupervised", 4, 6)],
        [("posterior", 0, 5)],
    ]
    assert [batch.predicted for batch in batches] == [4.0, 2.0, 8.0]


def test_batches_follow_the_length_of_each_cell() -> None:
    timing = Timing({("a", "likelihood", 0.8, 10, None): 1.0, ("a", "posterior", 0.8, 10, None): 4.0})
    work = [
        Work(Cell("a", 0, 0.8, 10, 0, model), 0, count)
        for model, count in (("likelihood", 6), ("posterior", 4))
    ]
    batches = list(make_batches(SCIENCE, work, timing, seconds=8.0))
    assert [batch.predicted for batch in batches] == [6.0, 8.0, 8.0]
