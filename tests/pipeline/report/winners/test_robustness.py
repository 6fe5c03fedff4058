"""Scores against the accuracy of annotations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from contests import cell, table
from cubes.reported import tips

from pipeline.report.winners.robustness import MEAN, draw_robustness, robustness_table
from pipeline.scoring.ranking import rankings


def cells(
    accuracies: tuple[float, ...] = (0.7, 1.0), datasets: int = 2, other: str = "conditional"
) -> pd.DataFrame:
    rows = []
    for number in range(datasets):
        rows.append(cell(f"d{number}", "k-means", 0.5))
        for model, slope in (("posterior", 1.0), (other, 0.5)):
            rows += [
                cell(f"d{number}", model, slope * p - 0.2 + 0.1 * draw, p=p, replicate=draw)
                for p in accuracies
                for draw in range(2)
            ]
    return table(rows)


def test_means_and_their_errors_over_data_sets() -> None:
    found = robustness_table(rankings(cells())[0])
    whole = found[found["dataset"] == MEAN].set_index(["model", "p"])
    assert whole.loc[("posterior", 0.7), "mean"] == pytest.approx(0.55)
    # of each data set 0.05 over two redraws, of their mean the root of two halved
    assert whole.loc[("posterior", 0.7), "se"] == pytest.approx(0.05 / np.sqrt(2))
    assert whole.loc[("k-means", 1.0), "mean"] == pytest.approx(0.5)
    assert np.isnan(whole.loc[("k-means", 1.0), "se"])
    assert set(whole["n"]) == {2}


def test_panels_are_the_mean_and_each_data_set() -> None:
    figure = draw_robustness(robustness_table(rankings(cells())[0]), "nmi")
    assert figure is not None
    assert [axes.get_title() for axes in figure.axes] == ["mean of 2 data sets", "d0", "d1"]
    lines = {line.get_label(): line.get_ydata().tolist() for line in figure.axes[0].lines}
    assert lines["k-means"] == pytest.approx([0.5, 0.5])
    assert lines["posterior"] == pytest.approx([0.55, 0.85])
    assert "posterior, p = 0.7: 0.550 ± 0.035" in tips(figure)
    assert "k-means, p = 1: 0.500" in tips(figure)


def test_a_mean_is_of_the_data_sets_that_are_ranked() -> None:
    rows = cells()
    rows = rows[(rows["dataset"] != "d1") | (rows["model"] != "posterior")]
    more = cells(datasets=3)
    found = robustness_table(rankings(pd.concat([rows, more[more["dataset"] == "d2"]]))[0])
    figure = draw_robustness(found, "nmi")
    assert figure is not None
    assert figure.axes[0].get_title() == "mean of 2 data sets"


def test_many_shapes_have_a_panel_each() -> None:
    figure = draw_robustness(robustness_table(rankings(cells(other="conditional-full"))[0]), "nmi")
    assert figure is not None
    groups = ("spherical", "full", "methods")
    assert [axes.get_title() for axes in figure.axes] == [f"mean of 2 data sets, {group}" for group in groups]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    one = draw_robustness(robustness_table(rankings(cells(datasets=1))[0]), "nmi")
    assert one is not None
    assert [axes.get_title() for axes in one.axes] == ["d0"]


def test_one_accuracy_has_no_lines() -> None:
    assert draw_robustness(robustness_table(rankings(cells((0.9,)))[0]), "nmi") is None
