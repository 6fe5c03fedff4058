"""Who wins, for a terminal."""

from __future__ import annotations

import numpy as np
from contests import contest

from pipeline.report.winners.lines import winner_lines
from pipeline.scoring.ranking import rankings


def test_lines_fit_and_hold_ranks_of_both_scores() -> None:
    base = np.linspace(0.2, 0.6, 8)
    names = [f"a-very-long-name-of-a-method-{place}" for place in range(24)]
    cells = contest({name: base + 0.01 * place for place, name in enumerate(names)})
    lines = list(winner_lines(rankings(cells), cells, 100))
    assert max(map(len, lines)) <= 100
    assert lines[0] == "who wins"
    start = next(place for place, line in enumerate(lines) if "NMI rank" in line)
    assert lines[start].split() == [
        "NMI",
        "rank",
        "mean",
        "won–tied–lost",
        "ARI",
        "rank",
        "mean",
        "won–tied–lost",
        "s",
    ]
    assert lines[start + 1].split()[1:] == ["1.00", "0.630", "184–0–0", "1.00", "0.630", "184–0–0", "0.25"]
    assert len(lines) == start + 26


def test_one_model_has_a_line_alone() -> None:
    cells = contest({"posterior": (0.5,)})
    lines = list(winner_lines(rankings(cells), cells, 100))
    assert lines == ["who wins", "  Nothing to compare: posterior is the only model with a score."]
