"""Scores by how pairs were chosen: what is paired, over which units, and what chosen pairs are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from designed import Score, designed, written

from pipeline.scoring.worth import (
    MEAN,
    Budget,
    Group,
    budget_table,
    budgets,
    design_groups,
    design_scores,
    design_table,
    ratio,
    reached,
)

SPREAD = (0.0, 0.1, 0.2, 0.3)


def score(design: str, x: float, unit: int) -> float:
    """Units differ by tenths, and active pairs gain 0.05 a pair a sample, and a hundredth in odd units."""
    gain = 0.05 * x + 0.01 * (unit % 2) if design == "active" else 0.0
    return 0.2 * x + SPREAD[unit % 4] + gain


def groups(cells: Any, *datasets: str) -> list[Group]:
    return design_groups(cells, "nmi", written(*(datasets or ("a",))))


def test_differences_are_paired_by_redraw() -> None:
    (group,) = groups(designed(score))
    assert (group.dataset, group.p, group.model) == ("a", 0.8, "conditional")
    assert group.counts == ("0.5N", "1N", "1.5N")
    assert (group.chosen, group.n, group.unit) == (("active",), 4, "redraws")
    assert group.mean("uniform") == pytest.approx([0.25, 0.35, 0.45])
    assert group.error("uniform") == pytest.approx(np.std(SPREAD, ddof=1) / 2)
    less, error = group.difference("active")
    assert less == pytest.approx([0.03, 0.055, 0.08])
    # of 0, 0.01, 0, 0.01 alone: what units have in common cancels
    assert error == pytest.approx(np.std([0, 0.01, 0, 0.01], ddof=1) / 2)
    (group,) = groups(designed(score, mixtures=3, draws=2))  # replicates of a mixture are averaged first
    assert (group.n, group.unit) == (3, "mixtures")
    assert group.mean("uniform") == pytest.approx([0.2, 0.3, 0.4])
    assert group.error("uniform") == pytest.approx(0.1 / np.sqrt(3))


def test_a_place_that_lacks_a_design_is_left_out_for_all() -> None:
    cells = designed(score)
    gone = (cells["design"] == "active") & (cells["m"] == 100) & (cells["replicate"] == 3)
    cells.loc[gone, ["status", "nmi"]] = ["failed", np.nan]
    (group,) = groups(cells)
    assert group.n == 3
    assert group.mean("uniform") == pytest.approx([0.2, 0.3, 0.4])
    cells.loc[gone, "status"] = "no solution"
    (group,) = groups(cells)
    assert group.n == 4
    assert group.mean("active")[1] == pytest.approx((0.25 + 0.36 + 0.45 + 0.0) / 4)
    cells = designed(score)
    cells.loc[(cells["design"] == "active") & (cells["m"] == 150), ["status", "nmi"]] = ["pending", np.nan]
    (group,) = groups(cells)
    assert group.counts == ("0.5N", "1N")
    assert group.mean("uniform") == pytest.approx([0.25, 0.35])


def test_data_sets_count_alike_and_their_errors_are_those_of_draws() -> None:
    cells = designed(score, datasets=("a", "b"))
    cells.loc[cells["dataset"] == "b", "nmi"] += 0.2
    whole, a, b = groups(cells, "a", "b")
    assert (whole.dataset, whole.title, whole.n, whole.unit) == (MEAN, "mean of 2 data sets", 2, "data sets")
    assert whole.mean("active") == pytest.approx((a.mean("active") + b.mean("active")) / 2)
    both = np.hypot(a.difference("active")[1], b.difference("active")[1]) / 2
    assert whole.difference("active")[1] == pytest.approx(both)
    # data sets of other counts are not averaged with these
    other = written("a") | {("b", m): text for m, text in ((50, "x"), (100, "y"), (150, "z"))}
    assert [group.dataset for group in design_groups(cells, "nmi", other)] == ["a", "b"]


def test_the_table_has_a_row_for_each_design_and_m() -> None:
    table = design_table(groups(designed(score, baseline=0.1)))
    assert table["design"].tolist() == ["uniform"] * 3 + ["active"] * 3
    assert table["m_over_n"].tolist() == [0.5, 1.0, 1.5] * 2
    assert table["difference"].tolist() == pytest.approx([np.nan] * 3 + [0.03, 0.055, 0.08], nan_ok=True)
    assert set(table["unit"]) == {"redraws"}
    assert design_table([]).empty
    for alone in ("uniform", "active"):
        assert groups(designed(score, designs=(alone,))) == []
    assert groups(designed(score).drop(columns="design")) == []


def one(score: Score, baseline: float | None = None, draws: int = 4) -> Budget:
    (found,) = budgets(groups(designed(score, baseline=baseline, draws=draws)))
    return found


def level(uniform: tuple[float, ...], active: tuple[float, ...]) -> Score:
    """The same curve in every unit."""
    curves = {"uniform": uniform, "active": active}
    return lambda design, x, unit: curves[design][round(2 * x) - 1]


@pytest.mark.parametrize(
    ("x", "curve", "levels", "worth"),
    [
        # the first point is reached at the first point
        ([0.5, 1.0, 1.5], [0.2, 0.4, 0.6], [0.2, 0.4, 0.6], [0.0, 1.0, 1.5]),
        ([0.5, 1.0, 1.5], [0.2, 0.4, 0.6], [0.3, 0.5, 0.59], [0.75, 1.25, 1.475]),
        ([0.5, 1.0, 1.5], [0.2, 0.4, 0.6], [0.1, 0.0, 0.61], [0.0, 0.0, np.inf]),
        # a curve that falls counts by the largest so far
        ([0.0, 0.5, 1.0, 1.5], [0.3, 0.1, 0.3, 0.7], [0.2, 0.3, 0.5], [0.0, 0.0, 1.25]),
        ([0.0, 0.5, 1.0, 1.5], [0.0, 0.4, 0.4, 0.4], [0.4, 0.2], [0.5, 0.25]),
    ],
)
def test_levels_of_a_straight_curve(x: Any, curve: Any, levels: Any, worth: Any) -> None:
    assert reached(np.array(x), np.array([curve]), np.array([levels]))[0] == pytest.approx(worth)


def test_half_the_pairs_are_worth_as_many_again() -> None:
    found = one(lambda design, x, unit: (0.2 if design == "uniform" else 0.4) * x + 0.01 * unit, baseline=0.0)
    # the baseline is 0.015 below where the lines would begin
    assert found.least == 0.0
    assert found.worth == pytest.approx([1.0, np.inf, np.inf])
    assert ratio(found.group.x, found.worth)[0] == pytest.approx(0.5)
    # units differ by as much for both designs, so that nothing is left to chance
    assert [found.low[0], found.high[0]] == pytest.approx([1.0, 1.0])
    worse = one(level((0.4, 0.5, 0.6), (0.1, 0.45, 0.7)))
    assert (worse.least, worse.most) == (0.5, 1.5)
    assert worse.worth == pytest.approx([0.0, 0.75, np.inf])
    assert np.isnan(ratio(worse.group.x, worse.worth)[[0, 2]]).all()
    started = one(level((0.4, 0.5, 0.6), (0.3, 0.45, 0.7)), baseline=0.2)
    assert started.worth == pytest.approx([0.25, 0.75, np.inf])


def test_intervals_hold_what_other_units_would_give() -> None:
    """The spread of the worth over sweeps drawn anew is that of its interval."""
    rng = np.random.default_rng(0)

    def drawn() -> Budget:
        noise = {design: rng.normal(scale=0.1, size=40) for design in ("uniform", "active")}
        slopes = {"uniform": 0.3, "active": 0.4}
        return one(lambda design, x, unit: slopes[design] * x + noise[design][unit], baseline=0.0, draws=40)

    found = [drawn() for _ in range(25)]
    assert abs(np.median([each.worth[0] for each in found]) - 2 / 3) < 0.05
    assert np.mean([each.low[0] <= 2 / 3 <= each.high[0] for each in found]) >= 0.85
    assert all(each.low[0] < each.worth[0] < each.high[0] for each in found)


def test_one_unit_has_neither_error_nor_interval_and_an_interval_is_repeatable() -> None:
    (group,) = groups(designed(score, draws=1))
    (alone,) = budgets([group])
    for missing in (group.difference("active")[1], group.error("uniform"), alone.low, alone.high):
        assert np.isnan(missing).all()
    first, second = one(score), one(score)
    assert np.array_equal(first.low, second.low)
    assert (first.low <= first.worth).all()
    assert first.low[1] < first.high[1]


def test_over_data_sets_the_mean_curves_count() -> None:
    cells = designed(level((0.2, 0.4, 0.6), (0.4, 0.5, 0.6)), datasets=("a", "b"))
    there = (cells["dataset"] == "b") & (cells["design"] == "active")
    cells.loc[there, "nmi"] -= 0.1
    found = budgets(groups(cells, "a", "b"))
    assert [each.group.dataset for each in found] == [MEAN, "a", "b"]
    expected = [[0.875, 1.125, 1.375], [1.0, 1.25, 1.5], [0.75, 1.0, 1.25]]
    assert np.array([each.worth for each in found]) == pytest.approx(np.array(expected))
    cells = designed(level((0.2, 0.4, 0.6), (0.4, 0.5, 0.7)), datasets=("a", "b"))
    nmi, ari = design_scores(cells, written("a", "b"))
    assert (nmi.score, ari.score) == ("nmi", "adjusted_rand")
    assert [each.group.dataset for each in nmi.shown_first] == [MEAN]
    table = budget_table(nmi.budgets)
    assert len(table) == 9
    assert table[["m", "worth", "ratio", "most"]].iloc[0].tolist() == ["0.5N", 1.0, 0.5, 1.5]
    assert table[["worth", "ratio"]].iloc[2].tolist() == pytest.approx([np.inf, np.nan], nan_ok=True)
    assert design_scores(designed(level((0, 0, 0), (0, 0, 0)), designs=("uniform",)), {}) == ()
    assert budget_table([]).empty
