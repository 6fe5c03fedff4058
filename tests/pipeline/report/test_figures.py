"""Finished figures have round ticks, labels that fit, and curves that do not cover each other."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from contests import cell, table
from matplotlib.axes import Axes

from sweep_clustering.pipeline.report.figures import finish, house_style, panel_grid, panels
from sweep_clustering.pipeline.scoring.ranking import rankings, ranks_by_kind


@pytest.mark.parametrize("highest", [0.31, 0.47, 0.73, 1.0, 6.4, 26.0, 710.0])
def test_ticks_have_steps_of_1_2_or_5(highest: float) -> None:
    with house_style():
        figure, [[axes]] = panels(1, 1, (2.3, 1.6))
        axes.plot([0, 1], [0, highest])
        finish(figure)
    (step,) = set(np.diff(axes.get_yticks()).round(9))
    assert f"{step:.0e}"[0] in "125"


def test_no_label_is_cut_off_or_runs_into_another_panel() -> None:
    def draw(axes: Axes, number: int) -> None:
        axes.plot([0, 1], [0, number])
        axes.set_xlabel("gap to the best of the cell, in the unit of the objective")

    with house_style():
        items = [(str(number), number) for number in range(1, 4)]
        figure = panel_grid(items, draw, (2.3, 1.2), "cells that have the best of all restarts (share)")
        assert figure is not None
        finish(figure)
    below = [axes.xaxis.label.get_window_extent() for axes in figure.axes]
    for extent in [*below, figure.axes[0].yaxis.label.get_window_extent()]:
        assert extent.x0 >= 0
        assert extent.y0 >= 0
        assert extent.x1 <= figure.bbox.width
        assert extent.y1 <= figure.bbox.height
    assert all(left.x1 < right.x0 for left, right in pairwise(below))


def test_a_line_below_others_is_wider_and_one_that_only_crosses_is_not() -> None:
    with house_style():
        figure, [[axes]] = panels(1, 1, (2.3, 1.6))
        x = np.arange(5)
        lowest, crossing, middle, top = (axes.plot(x, y)[0] for y in (x, 4 - x, x, x + 0.01))
        usual = top.get_linewidth()
        finish(figure)
    assert lowest.get_linewidth() > middle.get_linewidth() > usual
    assert crossing.get_linewidth() == top.get_linewidth() == usual


def test_kinds_have_numbers_of_annotations_in_their_order() -> None:
    rng = np.random.default_rng(0)
    cells = table(
        cell(name, model, rng.random(), p=0.9, m=m, replicate=replicate)
        for name in ("a", "b")
        for m in (75, 150, 225)
        for replicate in range(2)
        for model in ("posterior", "conditional")
    )
    texts = {(name, m): text for name in "ab" for m, text in ((75, "0.5N"), (150, "1N"), (225, "1.5N"))}
    facts = pd.DataFrame(1, index=["a", "b"], columns=["battery", "K", "N", "D", "imbalance"])
    (ranking, *_) = rankings(cells)
    kinds = ranks_by_kind(ranking, facts, texts)["kind"].drop_duplicates().tolist()
    assert [kind for kind in kinds if kind.startswith("m = ")] == ["m = 0.5N", "m = 1N", "m = 1.5N"]
