"""The diagram of mean ranks."""

from __future__ import annotations

import numpy as np
import pytest
from contests import contest
from cubes.reported import tips
from matplotlib.colors import to_hex

from pipeline.report.parts.ink import INK
from pipeline.report.winners.diagram import draw_ranks
from pipeline.scoring.ranking import Ranking, rankings

BASE = np.linspace(0.2, 0.6, 12)
OFFSETS = 0.01 * np.arange(1, 13)


def ranked(scores: dict[str, np.ndarray]) -> Ranking:
    return rankings(contest(scores))[0]


def bars(ranking: Ranking) -> list[tuple[float, float, float]]:
    figure = draw_ranks(ranking)
    assert figure is not None
    lines = [line for line in figure.axes[0].lines if to_hex(line.get_color()) == INK]
    return [(*line.get_xdata(), line.get_ydata()[0]) for line in lines]


def test_models_stand_at_their_ranks_and_are_named() -> None:
    ranking = ranked({name: BASE + place * OFFSETS for place, name in enumerate("abcde")})
    figure = draw_ranks(ranking)
    assert figure is not None
    assert len(tips(figure)) == 5
    assert tips(figure)[0].startswith("e: mean rank 1.00, mean NMI 0.")
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == [
        "e  1.00", "d  2.00", "c  3.00", "4.00  b", "5.00  a",
    ]  # fmt: skip
    points = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    assert points == pytest.approx([1, 2, 3, 4, 5])
    assert bars(ranking) == []  # every pair differs


def test_bars_join_what_the_test_does_not_tell_apart_on_levels_of_their_own() -> None:
    wobble = 0.001 * np.tile([1, -1], 6) * np.arange(1, 13)
    scores = {"a": BASE, "b": BASE + wobble, "c": BASE - 5 * OFFSETS, "d": BASE - 5 * OFFSETS + wobble}
    ranking = ranked(scores)
    assert ranking.groups == [(0, 1), (2, 3)]
    (first, second) = bars(ranking)
    assert first[2] == second[2]  # apart from each other: one level does
    assert first[1] < second[0]


def test_without_a_test_there_are_no_bars_and_without_a_pair_no_figure() -> None:
    assert bars(ranked({"a": BASE[:3], "b": BASE[:3]})) == []
    assert draw_ranks(ranked({"a": BASE})) is None
    assert draw_ranks(rankings(contest({}))[0]) is None
