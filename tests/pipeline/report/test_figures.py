"""Files of figures, and how they look: words on points, hatches, ids, models told apart."""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib.figure import Figure

from pipeline.report.figures import SUFFIXES, TILE, inline, save
from pipeline.report.look import PAPER, SHAPES, STYLES, house_style, hover, mark, short
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
    """A line with words on its points, and bars with every hatch."""
    with house_style():
        figure = Figure()
        axes, below = figure.subplots(2)
        (line,) = axes.plot([0, 1, 2], [0.5, 0.25, 0.75], marker="o")
        hover(line, texts)
        if beyond:
            axes.set_xlim(100, 102)
        for place, hatch in enumerate(sorted({shape.hatch for shape in SHAPES.values()} - {""})):
            below.bar([place], [1], hatch=hatch, color="white", edgecolor="black")
        return save(figure, folder, "figure", "").svg


def test_each_point_has_its_words_hatches_are_small_and_files_always_the_same(tmp_path: Path) -> None:
    svg = drawn(tmp_path / "a", ["first", HOSTILE, "third"])
    titles = re.findall(r"<use [^<>]*><title>([^<>]*)</title></use>", svg)
    assert titles == ["first", "&lt;b&gt; &amp; &quot;q&quot; &lt;/b&gt;", "third"]
    assert "tip-" not in svg
    # points beyond the figure leave all without words
    assert "<title>" not in drawn(tmp_path / "beyond", ["a", "b", "c"], beyond=True)
    drawn(tmp_path / "b", ["first", HOSTILE, "third"])
    for suffix in SUFFIXES:
        one, other = ((tmp_path / name / f"figure.{suffix}").read_bytes() for name in "ab")
        assert one == other != b""
    patterns = re.findall(r"<pattern.*?</pattern>", svg, re.DOTALL)
    assert len(patterns) == len(SHAPES) - 1
    for pattern in patterns:
        assert f'width="{TILE}" height="{TILE}"' in pattern
        assert "M" in pattern
        assert len(pattern) < 12_000


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
    for term in STYLES:
        assert {mark(model_of(term, shape))[:2] for shape in SHAPE_CODES} == {STYLES[term]}
    assert [short("x" * 22), short("x" * 30, "full")] == ["x" * 22, "x" * 21 + "…, full"]
