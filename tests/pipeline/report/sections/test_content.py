"""What a page is made from: the accuracies shown, and figures that are saved or not."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from cubes import toy
from cubes.reported import make, tables
from matplotlib.figure import Figure

from pipeline.report.parts.parts import Picture
from pipeline.report.sections.content import Content, pictured
from storage.cube.manifest import read_manifest


@pytest.fixture
def content(tmp_path: Path) -> Content:
    plan = toy.plan("iris", p=tuple(0.5 + 0.05 * step for step in range(9)))
    cells, summary, _ = tables(plan)
    figures = tmp_path / "figures"
    manifest = read_manifest(make(tmp_path, toy.plan("iris")))
    return Content(manifest, Mock(), cells, summary, None, None, (), None, figures)


def test_many_accuracies_are_shown_in_part(content: Content) -> None:
    assert len(content.accuracies) == 6
    assert (content.accuracies[0], content.accuracies[-1]) == (0.5, 0.9)


def test_counts_are_those_of_the_sweep_file(content: Content) -> None:
    assert content.written == {("iris", 12): "0.5N", ("iris", 24): "1N"}


def test_only_what_was_drawn_is_written(content: Content) -> None:
    assert content.save(None, "none", "") == ()
    assert not content.figures.exists()
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([0, 1])
    (picture,) = content.save(figure, "line", "A line.")
    assert {file.name for file in content.figures.iterdir()} == {"line.svg", "line.png", "line.pdf"}
    assert (picture.name, picture.caption) == ("line", "A line.")


def test_a_section_without_figures_says_why() -> None:
    assert pictured("k", "Title", (), "more").text[0].startswith("Nothing to show")
    assert pictured("k", "Title", (Picture("n", "c", "<svg/>"),), "more").text == ("more",)
