"""The figure of a choice: its panels, its mark, and its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from solving.cluster_candidates import candidate

from pipeline.choosing.clusters import choose
from pipeline.choosing.figure import draw_choice, picture


def test_panels_are_of_what_decides_and_the_mark_is_at_what_is_taken() -> None:
    with_annotations = choose([candidate(2, 5.0, [-0.3] * 4), candidate(3, 4.0, [-0.1] * 4)])
    figure = draw_choice(with_annotations)
    assert len(figure.axes) == 2
    mark = next(line for line in figure.axes[0].lines if line.get_label() == "taken: K = 3")
    assert mark.get_xydata().tolist() == [[3.0, pytest.approx(0.1)]]  # type: ignore[union-attr]
    without = draw_choice(choose([candidate(2, 5.0), candidate(3, 4.0)]))
    (axes,) = without.axes
    assert [line.get_label() for line in axes.lines] == ["BIC", "ICL", "taken: K = 2"]
    assert axes.lines[0].get_ydata().tolist() == [5.0, 4.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")])
def test_files_are_the_same_whenever_they_are_made(name: str, start: bytes) -> None:
    choice = choose([candidate(2, 5.0), candidate(3, 4.0)])
    first, second = (picture(draw_choice(choice), Path(name)) for _ in range(2))
    assert first == second
    assert first.startswith(start)
