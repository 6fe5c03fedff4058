"""Designs and searches side by side: what figures draw against what was computed, and large grids."""

import numpy as np
from designed import designed, written
from searched import SEARCHES, searched

from sweep_clustering.pipeline.looks import DESIGN_LOOKS
from sweep_clustering.pipeline.report import variants
from sweep_clustering.pipeline.scoring.pairs import compared_searches, design_scores
from sweep_clustering.sweeps.words import DESIGNS

MANY = tuple(f"d{number}" for number in range(30))


def rising(design: str, x: float, unit: int) -> float:
    return (0.4 + 0.01 * unit if design == "active" else 0.2) * x


def test_the_band_of_a_design_is_of_its_paired_difference() -> None:
    found = design_scores(designed(rising), written("a"))["nmi"]
    figure = variants.draw_designs(found, "nmi")
    assert figure is not None
    (axes,) = figure.axes
    (band,) = axes.collections
    active = found[found["design"] == "active"]
    ends = [active["mean"] + sign * active["difference_se"] for sign in (-1, 1)]
    heights = np.unique(band.get_paths()[0].vertices[:, 1].round(9))
    assert np.allclose(heights, np.unique(np.concatenate(ends).round(9)))
    assert set(DESIGN_LOOKS) == set(DESIGNS)
    assert len({(look.color, look.marker) for look in DESIGN_LOOKS.values()}) == len(DESIGNS)


def test_bars_of_objectives_are_shares_of_all_cells_and_large_grids_are_shown_in_part() -> None:
    found = compared_searches(searched(), SEARCHES)
    bars = variants.draw_search(found["searches"], found["search-costs"]).axes[0].patches
    widths = np.array([bar.get_width() for bar in bars]).reshape(3, -1)
    assert widths[:, 0].tolist() == [25.0, 50.0, 25.0]
    assert np.allclose(widths.sum(axis=0), 100)
    found = compared_searches(searched(datasets=MANY), SEARCHES)
    (axes, *_) = variants.draw_search(found["searches"], found["search-costs"]).axes
    assert len(axes.get_yticklabels()) == variants.MOST_LINES
    figure = variants.draw_designs(design_scores(designed(rising, datasets=MANY, draws=1), {})["nmi"], "nmi")
    assert figure is not None
    assert len(figure.axes) == variants.MOST_ROWS
