"""Scores on the page by hand: what is drawn of a large grid, boxes, and shares of the centroid index."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from contests import cell, table
from cubes.reported import content, texts

from pipeline.report import scores
from pipeline.report.scores import draw_boxes


def test_a_large_grid_is_drawn_in_part_and_says_so() -> None:
    cells = pd.DataFrame({"dataset": [f"d{i}" for i in range(30)], "p": [k / 10 for k in range(1, 7)] * 5})
    more = pd.DataFrame({"dataset": ["d"] * 7, "p": [k / 10 for k in range(1, 8)]})
    for found, part in ((cells, "24 of 30 data sets"), (more, "6 of 7 accuracies")):
        first = f"Figures show {part}, evenly spread; summary.csv and cells.csv hold all."
        assert next(scores.curves(content(found))) == first


def test_a_share_is_over_mixtures_each_over_its_redraws_first() -> None:
    found = {(0, 0): 0, (0, 1): 0, (1, 0): 2, (1, 1): 0, (2, 0): 5, (2, 1): 1}
    cells = table(
        cell("mix", "posterior", 0.5, p=0.9, mixture=k, replicate=r, centroid_index=index)
        for (k, r), index in found.items()
    )
    (row,) = scores.share_table(cells).itertuples()
    assert (row.score, row.n, row.n_values) == ("centroid_index", 3, 6)
    assert (row.mean, row.se) == pytest.approx((0.5, 0.5 / np.sqrt(3)))  # of 1, 0.5 and 0
    shares, _ = scores.index(content(cells, written={}))
    assert texts(shares) == [["mix", "posterior", "6", "50", "17", "17", "17"]]
    (figure,) = scores.index(content(cells.assign(centroid_index=np.nan), written={}))
    assert figure[1] is None


def test_boxes_are_quartiles_with_whiskers_of_one_and_a_half() -> None:
    values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.9] * 2
    usual = {"dataset": "iris", "p": 0.9, "m": 75, "model": "posterior", "mixture": pd.NA}
    cells = pd.DataFrame([{**usual, "relative_nmi": value} for value in values])
    for rows, beyond in ((cells, [0.9, 0.9]), (cells.head(6), values[:6])):
        # quartiles 0.1 and 0.4: whiskers reach to 0.85; of fewer than ten cells each is a point
        (axes,) = draw_boxes(rows, 0.9, {("iris", 75): "0.5N"}).axes  # type: ignore[union-attr]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5N"]
        (points,) = (line for line in axes.get_lines() if line.get_marker() not in ("", "None"))
        assert points.get_ydata().tolist() == beyond
        heights = {round(float(y), 6) for line in axes.get_lines() for y in line.get_ydata()}
        assert {0.0, 0.1, 0.25, 0.4} <= heights
    assert draw_boxes(cells, 0.8, {}) is None
