"""Designs and searches side by side: what figures draw against what was computed, and large grids."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from cubes.reported import tips
from designed import designed, written
from searched import SEARCHES, searched

from pipeline.report import variants
from pipeline.report.look import DESIGN_LOOKS
from pipeline.scoring.pairs import compared_searches
from pipeline.scoring.worth import design_groups
from sweeps.words import DESIGNS


def rising(design: str, x: float, unit: int) -> float:
    return (0.4 + 0.01 * unit if design == "active" else 0.2) * x


def test_the_band_of_a_design_is_of_its_paired_difference() -> None:
    groups = design_groups(designed(rising), "nmi", written("a"))
    figure = variants.draw_designs(groups, "nmi")
    assert figure is not None
    (axes,) = figure.axes
    (band,) = axes.collections
    mean, error = groups[0].mean("active"), groups[0].difference("active")[1]
    heights = np.unique(band.get_paths()[0].vertices[:, 1].round(9))
    assert np.allclose(heights, np.unique(np.concatenate([mean - error, mean + error]).round(9)))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5N", "1N", "1.5N"]
    assert tips(figure)[3].startswith("active, m = 0.5N: 0.208, +0.108 ± 0.003")


def test_large_grids_are_shown_in_part_and_nothing_is_nothing() -> None:
    cells = designed(rising, datasets=tuple(f"d{number}" for number in range(30)), draws=1)
    figure = variants.draw_designs(design_groups(cells, "nmi", {}), "nmi")
    assert figure is not None
    assert len(figure.axes) == variants.MOST_ROWS
    assert variants.draw_designs([], "nmi") is variants.draw_budgets([], "nmi") is None
    (found,) = compared_searches(searched(datasets=tuple(f"d{number}" for number in range(30))), SEARCHES)
    figure = variants.draw_search(found)
    assert figure is not None
    assert len(figure.axes[0].get_yticklabels()) == variants.MOST_LINES
    assert variants.draw_search(replace(found, costs=found.costs.iloc[:0])) is None


def test_bars_of_objectives_are_shares_of_all_cells() -> None:
    (found,) = compared_searches(searched(), SEARCHES)
    figure = variants.draw_search(found)
    assert figure is not None
    widths = np.array([bar.get_width() for bar in figure.axes[0].patches]).reshape(3, -1)
    assert widths[:, 0].tolist() == [25.0, 50.0, 25.0]
    assert np.allclose(widths.sum(axis=0), 100)


def test_every_design_has_a_look_of_its_own() -> None:
    assert set(DESIGN_LOOKS) == set(DESIGNS)
    assert len({(look.color, look.marker) for look in DESIGN_LOOKS.values()}) == len(DESIGNS)
