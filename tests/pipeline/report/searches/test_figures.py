"""The figure of a search: bars, differences and times."""

from __future__ import annotations

import numpy as np
from cubes.reported import tips
from searched import SEARCHES, searched

from pipeline.report.parts.ink import house_style
from pipeline.report.searches.figures import MOST_LINES, draw_search
from pipeline.scoring.pairs import compared_searches


def test_bars_points_and_times_are_those_of_the_tables() -> None:
    (found,) = compared_searches(searched(), SEARCHES)
    with house_style():
        figure = draw_search(found)
    assert figure is not None
    bars, scores, times = figure.axes
    assert next(label.get_text() for label in bars.get_yticklabels()) == "a, posterior"
    widths = np.array([bar.get_width() for bar in bars.patches]).reshape(3, -1)
    assert widths[:, 0].tolist() == [25.0, 50.0, 25.0]
    assert np.allclose(widths.sum(axis=0), 100)
    assert scores.get_xlabel() == "NMI, difference"
    assert tips(figure)[0] == "a, posterior: +0.025 ± 0.025"
    assert "a, posterior, a cell: 0.50 times" in tips(figure)
    assert "a, posterior, a restart that found the best: 0.25 times" in tips(figure)
    assert times.get_xscale() == "log"


def test_other_objectives_have_no_panel() -> None:
    (found,) = compared_searches(searched(("first", "prior")), SEARCHES)
    with house_style():
        figure = draw_search(found)
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == ["NMI, difference", "CPU time, times"]


def test_large_grids_are_shown_in_part_and_nothing_is_nothing() -> None:
    names = tuple(f"d{number}" for number in range(40))
    (found,) = compared_searches(searched(datasets=names), SEARCHES)
    with house_style():
        figure = draw_search(found)
    assert figure is not None
    assert len(figure.axes[0].get_yticklabels()) <= MOST_LINES
    empty = type(found)(found.search, found.reference, found.differences, found.costs.iloc[:0])
    assert draw_search(empty) is None
