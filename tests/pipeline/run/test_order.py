"""The order of cells: draws before blocks, and how many waves a run can afford."""

from __future__ import annotations

import itertools

import pytest
from cubes.small import make_plan

from pipeline.run.order import SHARE, WRITE_SECONDS, draws_of, in_turns, next_wave, with_draws


def test_mixtures_vary_before_redraws() -> None:
    plan = make_plan(mixtures=3, replicates=2, models=("likelihood", "posterior"))
    (block,) = (block for block in plan.blocks() if not block.unsupervised)
    assert draws_of(block) == 6
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
