"""Scores by how pairs were chosen: what is paired, over which units, and what chosen pairs are worth."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from designed import Score, designed, written

from sweep_clustering.pipeline.scoring.pairs import design_scores, ratio, reached
from sweep_clustering.pipeline.scoring.ranking import MEAN

SPREAD = (0.0, 0.1, 0.2, 0.3)


def score(design: str, x: float, unit: int) -> float:
    """Units differ by tenths, and active pairs gain 0.05 a pair a sample, and a hundredth in odd units."""
    gain = 0.05 * x + 0.01 * (unit % 2) if design == "active" else 0.0
    return 0.2 * x + SPREAD[unit % 4] + gain


def of(cells: pd.DataFrame, *datasets: str) -> pd.DataFrame:
    """Rows of the first score by data set and design."""
    found = design_scores(cells, written(*(datasets or ("a",))))
    return found["nmi"].set_index(["dataset", "design"])


def one(score: Score, **more: Any) -> pd.DataFrame:
    return of(designed(score, **more)).loc[("a", "active")]


def test_differences_are_paired_by_redraw() -> None:
    found = of(designed(score))
    uniform, active = (found.loc[("a", design)] for design in ("uniform", "active"))
    for rows in (uniform, active):
        assert (
            rows[["p", "model", "n", "unit"]].to_numpy().tolist() == [[0.8, "conditional", 4, "redraws"]] * 3
        )
        assert rows[["m", "m_over_n"]].to_numpy().tolist() == [["0.5N", 0.5], ["1N", 1.0], ["1.5N", 1.5]]
    assert uniform["mean"].tolist() == pytest.approx([0.25, 0.35, 0.45])
    assert uniform["se"].tolist() == pytest.approx([np.std(SPREAD, ddof=1) / 2] * 3)
    assert uniform[["difference", "difference_se", "worth", "ratio"]].isna().all(axis=None)
    assert active["difference"].tolist() == pytest.approx([0.03, 0.055, 0.08])
    # of 0, 0.01, 0, 0.01 alone: what units have in common cancels
    assert active["difference_se"].tolist() == pytest.approx([np.std([0, 0.01, 0, 0.01], ddof=1) / 2] * 3)
    uniform = of(designed(score, mixtures=3, draws=2)).loc[("a", "uniform")]
    assert uniform[["n", "unit"]].to_numpy().tolist() == [[3, "mixtures"]] * 3
    assert uniform["mean"].tolist() == pytest.approx([0.2, 0.3, 0.4])
    # replicates of a mixture are averaged first
    assert uniform["se"].tolist() == pytest.approx([0.1 / np.sqrt(3)] * 3)


def test_a_place_that_lacks_a_design_is_left_out_for_all() -> None:
    cells = designed(score)
    gone = (cells["design"] == "active") & (cells["m"] == 100) & (cells["replicate"] == 3)
    cells.loc[gone, ["status", "nmi"]] = ["failed", np.nan]
    uniform = of(cells).loc[("a", "uniform")]
    assert uniform[["n", "mean"]].to_numpy() == pytest.approx(np.array([[3, 0.2], [3, 0.3], [3, 0.4]]))
    cells.loc[gone, "status"] = "no solution"
    active = of(cells).loc[("a", "active")]
    assert active.iloc[1][["n", "mean"]].tolist() == pytest.approx([4, (0.25 + 0.36 + 0.45 + 0.0) / 4])
    cells = designed(score)
    cells.loc[(cells["design"] == "active") & (cells["m"] == 150), ["status", "nmi"]] = ["pending", np.nan]
    assert of(cells).loc[("a", "uniform"), "m"].tolist() == ["0.5N", "1N"]
    for alone in ("uniform", "active"):
        assert design_scores(designed(score, designs=(alone,)), written("a")) == {}
    assert design_scores(designed(score).drop(columns="design"), written("a")) == {}


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


def level(uniform: tuple[float, ...], active: tuple[float, ...]) -> Score:
    """The same curve in every unit."""
    curves = {"uniform": uniform, "active": active}
    return lambda design, x, unit: curves[design][round(2 * x) - 1]


def test_half_the_pairs_are_worth_as_many_again() -> None:
    found = one(lambda design, x, unit: (0.2 + 0.2 * (design == "active")) * x + 0.01 * unit, baseline=0.0)
    # the baseline is 0.015 below where the lines would begin
    assert found[["least", "worth"]].to_numpy().tolist() == [[0, pytest.approx(1)], [0, np.inf], [0, np.inf]]
    # units differ by as much for both designs, so that nothing is left to chance
    ends = ["worth_low", "worth_high", "ratio", "ratio_low", "ratio_high"]
    assert found.iloc[0][ends].tolist() == pytest.approx([1, 1, 0.5, 0.5, 0.5])
    worse = one(level((0.4, 0.5, 0.6), (0.1, 0.45, 0.7)))
    assert worse[["least", "most"]].to_numpy().tolist() == [[0.5, 1.5]] * 3
    assert worse["worth"].tolist() == pytest.approx([0.0, 0.75, np.inf])
    assert np.isnan(ratio(worse["m_over_n"], worse["worth"])[[0, 2]]).all()
    started = one(level((0.4, 0.5, 0.6), (0.3, 0.45, 0.7)), baseline=0.2)
    assert started["worth"].tolist() == pytest.approx([0.25, 0.75, np.inf])


def test_intervals_hold_what_other_units_would_give() -> None:
    """The spread of the worth over sweeps drawn anew is that of its interval."""
    rng = np.random.default_rng(0)

    def drawn() -> pd.Series:
        noise = {design: rng.normal(scale=0.1, size=40) for design in ("uniform", "active")}
        slopes = {"uniform": 0.3, "active": 0.4}
        found = one(lambda design, x, unit: slopes[design] * x + noise[design][unit], baseline=0.0, draws=40)
        return found.iloc[0]

    found = [drawn() for _ in range(25)]
    assert abs(np.median([row["worth"] for row in found]) - 2 / 3) < 0.05
    assert np.mean([row["worth_low"] <= 2 / 3 <= row["worth_high"] for row in found]) >= 0.85
    assert all(row["worth_low"] < row["worth"] < row["worth_high"] for row in found)
    alone = one(score, draws=1)
    assert alone[["se", "difference_se", "worth_low", "worth_high"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(one(score), one(score))


def test_data_sets_count_alike_and_their_errors_are_those_of_draws() -> None:
    cells = designed(score, datasets=("a", "b"))
    cells.loc[cells["dataset"] == "b", "nmi"] += 0.2
    found = of(cells, "a", "b")
    assert found.index.unique("dataset").tolist() == [MEAN, "a", "b"]
    whole, a, b = (found.loc[(name, "active")].reset_index() for name in (MEAN, "a", "b"))
    assert whole[["title", "n", "unit"]].iloc[0].tolist() == ["mean of 2 data sets", 2, "data sets"]
    assert whole["mean"].tolist() == pytest.approx(((a["mean"] + b["mean"]) / 2).tolist())
    both = np.hypot(a["difference_se"], b["difference_se"]) / 2
    assert whole["difference_se"].tolist() == pytest.approx(both.tolist())
    # data sets of other counts are not averaged with these
    other = written("a") | {("b", m): text for m, text in ((50, "x"), (100, "y"), (150, "z"))}
    assert design_scores(cells, other)["nmi"]["dataset"].unique().tolist() == ["a", "b"]
    # of worths, the mean curves count
    cells = designed(level((0.2, 0.4, 0.6), (0.4, 0.5, 0.6)), datasets=("a", "b"))
    cells.loc[(cells["dataset"] == "b") & (cells["design"] == "active"), "nmi"] -= 0.1
    found = of(cells, "a", "b").reorder_levels(["design", "dataset"]).loc["active", "worth"]
    expected = {MEAN: [0.875, 1.125, 1.375], "a": [1.0, 1.25, 1.5], "b": [0.75, 1.0, 1.25]}
    assert {name: found.loc[name].tolist() for name in expected} == {
        name: pytest.approx(worths) for name, worths in expected.items()
    }
