"""Files of figures, and how they look: words on points, hatches, ids, colours told apart."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from pipeline.report.figures import SUFFIXES, TILE, inline, save
from pipeline.report.look import CLASS_COLORS, GREY, PAPER, SHAPES, STYLES, house_style, hover, mark, short
from sweeps.words import BASELINES, MODEL_CODES, SHAPE_CODES, model_of

HOSTILE = '<b> & "q" </b>'


def test_a_figure_in_the_page_has_ids_of_its_own_and_colours_by_variable() -> None:
    svg = (
        '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><metadata>x</metadata>'
        '<g id="of-no-use"/>'
        '<path id="p1" clip-path="url(#c)" style="stroke: #0072b2"/><use xlink:href="#p1"/>'
        "<text>#0072b2</text></svg>"
    )
    assert inline(svg, "nmi") == (
        '<svg><g/><path id="nmi-p1" clip-path="url(#nmi-c)" style="stroke: var(--blue)"/>'
        '<use xlink:href="#nmi-p1"/><text>#0072b2</text></svg>'
    )


def drawn(folder: Path, texts: list[str], *, beyond: bool = False) -> str:
    with house_style():
        figure = Figure()
        axes = figure.subplots()
        (line,) = axes.plot([0, 1, 2], [0.5, 0.25, 0.75], marker="o")
        hover(line, texts)
        if beyond:
            axes.set_xlim(100, 102)
        return save(figure, folder, "figure", "").svg


def test_each_point_has_its_words_and_they_are_text(tmp_path: Path) -> None:
    svg = drawn(tmp_path / "a", ["first", HOSTILE, "third"])
    titles = re.findall(r"<use [^<>]*><title>([^<>]*)</title></use>", svg)
    assert titles == ["first", "&lt;b&gt; &amp; &quot;q&quot; &lt;/b&gt;", "third"]
    assert "tip-" not in svg
    # points beyond the figure leave all without words
    assert "<title>" not in drawn(tmp_path / "beyond", ["a", "b", "c"], beyond=True)
    drawn(tmp_path / "b", ["first", HOSTILE, "third"])
    for suffix in SUFFIXES:
        one, other = ((tmp_path / name / f"figure.{suffix}").read_bytes() for name in "ab")
        assert one == other
        assert one


def test_hatches_are_one_tile_and_small(tmp_path: Path) -> None:
    hatches = sorted({shape.hatch for shape in SHAPES.values()} - {""})
    with house_style():
        figure = Figure()
        axes = figure.subplots()
        for place, hatch in enumerate(hatches):
            axes.bar([place], [1], hatch=hatch, color="white", edgecolor="black")
        svg = save(figure, tmp_path, "bar", "").svg
    patterns = re.findall(r"<pattern.*?</pattern>", svg, re.DOTALL)
    assert len(patterns) == len(hatches)
    for pattern in patterns:
        assert f'width="{TILE}" height="{TILE}"' in pattern
        assert pattern.count("M") > 0
        assert len(pattern) < 12_000


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
    assert mark("posterior-common").markers["markerfacecolor"] == PAPER


def test_long_names_are_cut() -> None:
    assert short("x" * 22) == "x" * 22
    assert short("x" * 30) == "x" * 21 + "…"
    assert short("x" * 30, "full") == "x" * 21 + "…, full"
