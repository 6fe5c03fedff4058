"""Figures of designs: marks beyond the grid, bands, and how many rows there are."""

from __future__ import annotations

import numpy as np
from cubes.reported import tips
from designed import designed, written

from pipeline.report.designs.figures import MOST_ROWS, draw_budgets, draw_designs
from pipeline.report.parts.ink import DESIGN_LOOKS, PAPER, house_style
from pipeline.scoring.worth import budgets, design_groups
from sweeps.words import DESIGNS


def score(design: str, x: float, unit: int) -> float:
    return (0.4 + 0.01 * unit if design == "active" else 0.2) * x


def test_the_band_is_of_the_difference() -> None:
    groups = design_groups(designed(score), "nmi", written("a"))
    with house_style():
        figure = draw_designs(groups, "nmi")
    assert figure is not None
    (axes,) = figure.axes
    (band,) = axes.collections
    error = groups[0].difference("active")[1]
    heights = np.unique(band.get_paths()[0].vertices[:, 1].round(9))
    wanted = np.concatenate([groups[0].mean("active") - error, groups[0].mean("active") + error])
    assert np.allclose(heights, np.unique(wanted.round(9)))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5N", "1N", "1.5N"]
    assert tips(figure)[0] == "uniform, m = 0.5N: 0.100"
    assert tips(figure)[3].startswith("active, m = 0.5N: 0.208, +0.108 ± 0.003")
    assert axes.lines[0].get_color() == DESIGN_LOOKS["uniform"].color


def test_what_uniform_pairs_do_not_reach_is_hollow_above_the_grid() -> None:
    found = budgets(design_groups(designed(score, baseline=0.0), "nmi", written("a")))
    with house_style():
        figure = draw_budgets(found, "nmi")
    assert figure is not None
    (axes,) = figure.axes
    hollow = next(line for line in axes.lines if line.get_markerfacecolor() == PAPER)
    assert hollow.get_xdata().tolist() == [1.0, 1.5]
    assert tips(figure)[-1] == "conditional, m = 1.5N: worth over 1.5N uniform pairs, ratio <1.00"
    assert (np.asarray(hollow.get_ydata()) > 1.5).all()


def test_large_grids_are_shown_in_part_and_nothing_is_nothing() -> None:
    names = tuple(f"d{number}" for number in range(30))
    cells = designed(score, datasets=names, draws=1)
    with house_style():
        figure = draw_designs(design_groups(cells, "nmi", {}), "nmi")
    assert figure is not None
    assert len(figure.axes) == MOST_ROWS
    assert draw_designs([], "nmi") is None
    assert draw_budgets([], "nmi") is None


def test_every_design_has_a_look_of_its_own() -> None:
    assert set(DESIGN_LOOKS) == set(DESIGNS)
    assert len({(look.color, look.marker) for look in DESIGN_LOOKS.values()}) == len(DESIGNS)
