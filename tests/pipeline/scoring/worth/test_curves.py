"""Curves by design: what is paired, over which units, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest
from designed import designed, written

from pipeline.scoring.worth.curves import MEAN, design_groups, design_table

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
