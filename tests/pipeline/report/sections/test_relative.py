"""Boxes of relative NMI."""

from __future__ import annotations

import pandas as pd

from pipeline.report.sections.relative import draw_boxes
from sweeps.words import BASELINES, MODEL_CODES


def test_boxes_are_quartiles_with_whiskers_of_one_and_a_half() -> None:
    values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.9] * 2
    cells = pd.DataFrame(
        {"dataset": "iris", "p": 0.9, "m": 75, "model": "posterior", "relative_nmi": values, "mixture": pd.NA}
    )
    figure = draw_boxes(cells, 0.9, {("iris", 75): "0.5N"})
    assert figure is not None
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5N"]
    (beyond,) = (line for line in axes.get_lines() if line.get_marker() not in ("", "None"))
    assert beyond.get_ydata().tolist() == [0.9, 0.9]  # quartiles 0.1 and 0.4: whiskers reach to 0.85
    heights = {round(float(y), 6) for line in axes.get_lines() for y in line.get_ydata()}
    assert {0.0, 0.1, 0.25, 0.4} <= heights
    assert draw_boxes(cells, 0.8, {}) is None
    few = draw_boxes(cells.head(6), 0.9, {})
    assert few is not None
    (points,) = (line for line in few.axes[0].get_lines() if line.get_marker() not in ("", "None"))
    assert points.get_ydata().tolist() == values[:6]  # of fewer than ten cells each is a point


def test_panels_of_many_models_are_wider() -> None:
    one = {"dataset": "iris", "p": 0.9, "m": 75, "relative_nmi": 0.1, "mixture": pd.NA}
    models = [model for model in MODEL_CODES if model not in BASELINES]
    widths = []
    for some in (models[:6], models):
        cells = pd.DataFrame([{**one, "model": model, "dataset": name} for model in some for name in "ab"])
        figure = draw_boxes(cells, 0.9, {})
        assert figure is not None
        first, second = (axes.get_gridspec().get_geometry() for axes in figure.axes)
        widths.append(figure.get_figwidth() / first[1])
        assert first == second == ((1, 2) if len(some) == 6 else (2, 1))
    assert widths[1] > 2 * widths[0]
