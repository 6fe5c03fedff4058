"""Files of figures: words on points, small hatches, ids and colours of a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from pipeline.report.parts.ink import SHAPES, house_style, hover
from pipeline.report.parts.saving import SUFFIXES, TILE, inline, save

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
    texts = ["first", HOSTILE, "third"]
    svg = drawn(tmp_path, texts)
    assert re.findall(r"<use [^<>]*><title>([^<>]*)</title></use>", svg) == [
        "first", "&lt;b&gt; &amp; &quot;q&quot; &lt;/b&gt;", "third"
    ]  # fmt: skip
    assert "tip-" not in svg
    assert "first" in (tmp_path / "figure.svg").read_text()


def test_points_beyond_the_figure_leave_all_without_words(tmp_path: Path) -> None:
    assert "<title>" not in drawn(tmp_path, ["a", "b", "c"], beyond=True)


@pytest.mark.parametrize("hatch", sorted({shape.hatch for shape in SHAPES.values()} - {""}))
def test_hatches_are_one_tile_and_small(hatch: str, tmp_path: Path) -> None:
    with house_style():
        figure = Figure()
        figure.subplots().bar([0], [1], hatch=hatch, color="white", edgecolor="black")
        svg = save(figure, tmp_path, "bar", "").svg
    (pattern,) = re.findall(r"<pattern.*?</pattern>", svg, re.DOTALL)
    assert f'width="{TILE}" height="{TILE}"' in pattern
    assert pattern.count("M") > 0
    assert len(pattern) < 12_000


def test_the_same_figure_is_the_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        drawn(tmp_path / name, ["x", "y", "z"])
    for suffix in SUFFIXES:
        one, other = ((tmp_path / name / f"figure.{suffix}").read_bytes() for name in ("a", "b"))
        assert one == other
        assert one
