"""How figures look: colours, and the files they are written to."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from cubes import toy
from cubes.reported import tables
from matplotlib.colors import to_rgb

from pipeline.report.parts.ink import CLASS_COLORS, GREY, PAPER, STYLES, house_style, mark, short
from pipeline.report.parts.saving import save
from pipeline.report.sections.curves import draw_curves
from sweeps.words import BASELINES, MODEL_CODES, SHAPE_CODES, model_of

# Linear RGB as somebody without working green, or red, cones sees it (Machado, Oliveira and Fernandes, 2009).
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
)


PROTANOPIA = np.array(
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
)


TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


WHITE = np.array([0.9505, 1.0, 1.089])


def lab(color: str, sight: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of a colour as it is seen."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(TO_XYZ @ np.clip(sight @ linear, 0, 1) / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all", "no green", "no red"])
def test_colors_are_told_apart(sight: np.ndarray) -> None:
    models = [GREY, *(color for color, _ in STYLES.values())]
    for palette in (models, CLASS_COLORS[:3]):
        for one, other in combinations(palette, 2):
            assert np.linalg.norm(lab(one, sight) - lab(other, sight)) > 15, (one, other)


def test_figures_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    _, summary, _ = tables(toy.plan("iris", p=(0.9,)))
    for name in ("a", "b"):
        with house_style():
            figure = draw_curves(summary, "nmi")
            assert figure is not None
            save(figure, tmp_path / name, "nmi", "caption")
    for suffix in ("svg", "png"):
        assert (tmp_path / "a" / f"nmi.{suffix}").read_bytes() == (
            tmp_path / "b" / f"nmi.{suffix}"
        ).read_bytes()


def test_models_differ_by_more_than_their_colour() -> None:
    looks = {model: mark(model) for model in MODEL_CODES}
    # curves of the terms of a shape by their markers, of the shapes of a term by their lines
    assert len({(look.marker, look.line) for look in looks.values()}) == len(looks)
    supervised = [look for model, look in looks.items() if model not in BASELINES]
    parts = {(look.marker, look.filling == PAPER, look.half) for look in supervised}
    assert len(parts) == len(supervised)
    # bars and boxes: where the colour is not seen, shapes differ by their hatch
    assert len({look.hatch for look in looks.values()}) == len(SHAPE_CODES)
    assert all((look.area == PAPER) == (look.hatch != "") for look in supervised)


def test_a_shape_has_one_line_and_a_term_one_colour() -> None:
    for term in STYLES:
        assert {mark(model_of(term, shape))[:2] for shape in SHAPE_CODES} == {STYLES[term]}
    for shape in SHAPE_CODES:
        assert len({mark(model_of(term, shape)).line for term in STYLES}) == 1
    assert mark("posterior-common").markers == {
        "marker": "o",
        "fillstyle": "full",
        "markerfacecolor": PAPER,
        "markerfacecoloralt": PAPER,
    }


def test_long_names_are_cut() -> None:
    assert short("x" * 22) == "x" * 22
    assert short("x" * 30) == "x" * 21 + "…"
    assert short("x" * 30, "full") == "x" * 21 + "…, full"
