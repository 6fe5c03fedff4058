"""Scores by how pairs were chosen: what is paired, over which units, and what chosen pairs are worth."""

from __future__ import annotations

import numpy as np
import pytest
from designed import Score, designed, written

from pipeline.scoring.worth import (
    MEAN,
    Budget,
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


def test_differences_are_paired_by_redraw() -> None:
    (group,) = design_groups(designed(score), "nmi", written("a"))
    assert (group.dataset, group.p, group.model, group.counts) == (
        "a",
        0.8,
        "conditional",
        ("0.5N", "1N", "1.5N"),
    )
    assert (group.chosen, group.n, group.unit) == (("active",), 4, "redraws")
    assert group.mean("uniform") == pytest.approx([0.25, 0.35, 0.45])
    assert group.error("uniform") == pytest.approx(np.std(SPREAD, ddof=1) / 2)
    less, error = group.difference("active")
    assert less == pytest.approx([0.03, 0.055, 0.08])
    # of 0, 0.01, 0, 0.01 alone: what units have in common cancels
    assert error == pytest.approx(np.std([0, 0.01, 0, 0.01], ddof=1) / 2)


def test_mixtures_are_units_and_their_replicates_are_averaged_first() -> None:
    cells = designed(score, mixtures=3, draws=2)
    (group,) = design_groups(cells, "nmi", written("a"))
    assert (group.n, group.unit) == (3, "mixtures")
    assert group.mean("uniform") == pytest.approx([0.2, 0.3, 0.4])
    assert group.error("uniform") == pytest.approx(0.1 / np.sqrt(3))


def test_a_place_that_lacks_a_design_is_left_out_for_all() -> None:
    cells = designed(score)
    gone = (cells["design"] == "active") & (cells["m"] == 100) & (cells["replicate"] == 3)
    cells.loc[gone, ["status", "nmi"]] = ["failed", np.nan]
    (group,) = design_groups(cells, "nmi", written("a"))
    assert group.n == 3
    assert group.mean("uniform") == pytest.approx([0.2, 0.3, 0.4])
    cells.loc[gone, "status"] = "no solution"
    (group,) = design_groups(cells, "nmi", written("a"))
    assert group.n == 4
    assert group.mean("active")[1] == pytest.approx((0.25 + 0.36 + 0.45 + 0.0) / 4)


def test_an_m_that_nothing_of_is_done_is_left_out() -> None:
    cells = designed(score)
    cells.loc[(cells["design"] == "active") & (cells["m"] == 150), ["status", "nmi"]] = ["pending", np.nan]
    (group,) = design_groups(cells, "nmi", written("a"))
    assert group.counts == ("0.5N", "1N")
    assert group.mean("uniform") == pytest.approx([0.25, 0.35])


def test_data_sets_count_alike_and_their_errors_are_those_of_draws() -> None:
    cells = designed(lambda design, x, unit: score(design, x, unit) + 0.0, datasets=("a", "b"))
    cells.loc[cells["dataset"] == "b", "nmi"] += 0.2
    whole, a, b = design_groups(cells, "nmi", written("a", "b"))
    assert (whole.dataset, whole.title, whole.n, whole.unit) == (MEAN, "mean of 2 data sets", 2, "data sets")
    assert whole.mean("active") == pytest.approx((a.mean("active") + b.mean("active")) / 2)
    both = np.hypot(a.difference("active")[1], b.difference("active")[1]) / 2
    assert whole.difference("active")[1] == pytest.approx(both)
    # data sets of other counts are not averaged with these
    other = {**written("a"), **{("b", m): text + "?" for m, text in ((50, "x"), (100, "y"), (150, "z"))}}
    assert [group.dataset for group in design_groups(cells, "nmi", other)] == ["a", "b"]


def test_one_unit_has_no_error_and_one_design_nothing_to_compare() -> None:
    (group,) = design_groups(designed(score, draws=1), "nmi", written("a"))
    assert np.isnan(group.difference("active")[1]).all()
    assert np.isnan(group.error("uniform")).all()
    for alone in ("uniform", "active"):
        assert design_groups(designed(score, designs=(alone,)), "nmi", written("a")) == []
    assert design_groups(designed(score).drop(columns="design"), "nmi", written("a")) == []


def test_the_table_has_a_row_for_each_design_and_m() -> None:
    table = design_table(design_groups(designed(score, baseline=0.1), "nmi", written("a")))
    assert table["design"].tolist() == ["uniform"] * 3 + ["active"] * 3
    assert table["m_over_n"].tolist() == [0.5, 1.0, 1.5] * 2
    assert table["difference"].isna().tolist() == [True] * 3 + [False] * 3
    assert table["difference"].tolist()[3:] == pytest.approx([0.03, 0.055, 0.08])
    assert set(table["unit"]) == {"redraws"}
    assert design_table([]).empty


def one(score: Score, baseline: float | None = None, draws: int = 4) -> Budget:
    cells = designed(score, baseline=baseline, draws=draws)
    (found,) = budgets(design_groups(cells, "nmi", written("a")))
    return found


def level(uniform: tuple[float, ...], active: tuple[float, ...]) -> Score:
    """The same curve in every unit."""
    curves = {"uniform": uniform, "active": active}
    return lambda design, x, unit: curves[design][round(2 * x) - 1]


@pytest.mark.parametrize(
    ("levels", "worth"),
    [
        ([0.2, 0.4, 0.6], [0.5, 1.0, 1.5]),
        ([0.3, 0.5, 0.59], [0.75, 1.25, 1.475]),
        ([0.1, 0.0, 0.61], [0.0, 0.0, np.inf]),
    ],
)
def test_levels_of_a_straight_curve(levels: list[float], worth: list[float]) -> None:
    x, curve = np.array([0.5, 1.0, 1.5]), np.array([[0.2, 0.4, 0.6]])
    # the first point is reached at the first point
    expected = [0.0 if value <= 0.2 else at for value, at in zip(levels, worth, strict=True)]
    assert reached(x, curve, np.array([levels]))[0] == pytest.approx(expected)


def test_a_curve_that_falls_counts_by_the_largest_so_far() -> None:
    x, curve = np.array([0.0, 0.5, 1.0, 1.5]), np.array([[0.3, 0.1, 0.3, 0.7]])
    assert reached(x, curve, np.array([[0.2, 0.3, 0.5]]))[0] == pytest.approx([0.0, 0.0, 1.25])
    level = np.array([[0.0, 0.4, 0.4, 0.4]])
    assert reached(x, level, np.array([[0.4, 0.2]]))[0] == pytest.approx([0.5, 0.25])


def test_half_the_pairs_are_worth_as_many_again() -> None:
    found = one(lambda design, x, unit: (0.2 if design == "uniform" else 0.4) * x + 0.01 * unit, baseline=0.0)
    # the baseline is 0.015 below where the lines would begin
    assert found.least == 0.0
    assert found.worth[0] == pytest.approx(1.0)
    assert np.isinf(found.worth[1:]).all()
    assert ratio(found.group.x, found.worth)[0] == pytest.approx(0.5)
    # units differ by as much for both designs, so that nothing is left to chance
    assert found.low[0] == pytest.approx(1.0)
    assert found.high[0] == pytest.approx(1.0)


def test_ends_of_the_grid() -> None:
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
        noise = rng.normal(scale=0.1, size=(40, 2))
        pairs = {"uniform": 0, "active": 1}
        return one(
            lambda design, x, unit: (0.4 if design == "active" else 0.3) * x + noise[unit, pairs[design]],
            baseline=0.0,
            draws=40,
        )

    found = [drawn() for _ in range(40)]
    worths = np.array([each.worth[0] for each in found])
    assert abs(np.median(worths) - 2 / 3) < 0.05
    assert np.mean([each.low[0] <= 2 / 3 <= each.high[0] for each in found]) >= 0.85
    assert all(each.low[0] < each.worth[0] < each.high[0] for each in found)


def test_one_unit_has_no_interval_and_an_interval_is_repeatable() -> None:
    def score(design: str, x: float, unit: int) -> float:
        return (0.3 if design == "active" else 0.2) * x + 0.02 * (unit - 1.5) * (design == "active")

    alone = one(score, draws=1)
    assert np.isnan(alone.low).all()
    assert np.isnan(alone.high).all()
    first, second = one(score), one(score)
    assert np.array_equal(first.low, second.low)
    assert (first.low <= first.worth).all()
    assert first.low[0] < first.high[0]


def test_over_data_sets_the_mean_curves_count() -> None:
    cells = designed(level((0.2, 0.4, 0.6), (0.4, 0.5, 0.6)), datasets=("a", "b"))
    there = (cells["dataset"] == "b") & (cells["design"] == "active")
    cells.loc[there, "nmi"] -= 0.1
    whole, a, b = budgets(design_groups(cells, "nmi", written("a", "b")))
    assert whole.group.dataset == MEAN
    assert a.worth == pytest.approx([1.0, 1.25, 1.5])
    assert b.worth == pytest.approx([0.75, 1.0, 1.25])
    assert whole.worth == pytest.approx([0.875, 1.125, 1.375])


def test_the_table_and_both_scores() -> None:
    cells = designed(level((0.2, 0.4, 0.6), (0.4, 0.5, 0.7)), datasets=("a", "b"))
    nmi, ari = design_scores(cells, written("a", "b"))
    assert (nmi.score, ari.score) == ("nmi", "adjusted_rand")
    assert [each.group.dataset for each in nmi.shown_first] == [MEAN]
    table = budget_table(nmi.budgets)
    assert len(table) == 9
    first = table.iloc[0]
    assert (first["m"], first["worth"], first["ratio"], first["most"]) == ("0.5N", 1.0, 0.5, 1.5)
    assert np.isinf(table["worth"].iloc[2])
    assert np.isnan(table["ratio"].iloc[2])
    assert design_scores(designed(level((0, 0, 0), (0, 0, 0)), designs=("uniform",)), {}) == ()
    assert budget_table([]).empty
