"""Boxes of relative NMI."""

from __future__ import annotations

import pandas as pd

from pipeline.report.sections.relative import draw_boxes


def test_boxes_are_quartiles_with_whiskers_of_one_and_a_half() -> None:
    values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.9]
    cells = pd.DataFrame(
        {"dataset": "iris", "p": 0.9, "m": 75, "model": "posterior", "relative_nmi": values, "mixture": pd.NA}
    )
    figure = draw_boxes(cells, 0.9, {("iris", 75): "0.5N"})
    assert figure is not None
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5N"]
    (beyond,) = (line for line in axes.get_lines() if line.get_marker() not in ("", "None"))
    assert beyond.get_ydata().tolist() == [0.9]  # quartiles 0.125 and 0.375: whiskers reach to 0.75
    heights = {round(float(y), 6) for line in axes.get_lines() for y in line.get_ydata()}
    assert {0.0, 0.125, 0.25, 0.375, 0.4} <= heights
    assert draw_boxes(cells, 0.8, {}) is None
