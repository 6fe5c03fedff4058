"""Score against time."""

from __future__ import annotations

import pytest
from contests import cell, contest, table
from cubes.reported import tips

from pipeline.report.winners.cost import apart, cost_table, draw_costs
from pipeline.scoring.ranking import rankings


def test_time_is_a_geometric_mean_over_data_sets_and_what_is_beaten_is_not_marked() -> None:
    times = {"quick": (0.1, 10.0), "good": (1.0, 100.0), "beaten": (2.0, 200.0)}
    levels = {"quick": 0.4, "good": 0.8, "beaten": 0.7}
    cells = table(
        cell(f"d{number}", model, levels[model], p=0.9, cpu_seconds=seconds)
        for number in range(2)
        for model in times
        for seconds in [times[model][number]]
    )
    found = cost_table(rankings(cells)[0], cells).set_index("model")
    assert found["cpu_seconds"].to_dict() == pytest.approx({"quick": 1.0, "good": 10.0, "beaten": 20.0})
    assert found["mean"].to_dict() == pytest.approx(levels)
    assert found["best"].to_dict() == {"quick": True, "good": True, "beaten": False}
    figure = draw_costs(found.reset_index(), "nmi")
    assert figure is not None
    assert [text.get_text() for text in figure.axes[0].texts] == ["quick", "beaten", "good"]
    assert tips(figure)[0] == "quick: NMI 0.400, 1 CPU s a cell"
    assert figure.axes[0].get_xscale() == "log"


def test_what_took_no_measurable_time_is_left_out() -> None:
    cells = contest({"a": (0.5,), "b": (0.6,)})
    cells.loc[cells["model"] == "a", "cpu_seconds"] = 0.0
    ranking = rankings(cells)[0]
    assert cost_table(ranking, cells)["model"].tolist() == ["b"]
    nothing = cost_table(ranking, cells.assign(cpu_seconds=0.0))
    assert nothing.empty
    assert draw_costs(nothing, "nmi") is None


def test_names_are_moved_apart_and_stay_in_order() -> None:
    assert apart([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    moved = apart([0.5, 0.5, 0.95, 0.99, 1.0], 0.1)
    assert moved == pytest.approx([0.45, 0.55, 0.8, 0.9, 1.0])
    assert apart([0.0, 0.0, 0.3], 0.1) == pytest.approx([0.0, 0.1, 0.3])
    assert apart([], 0.1) == []
