"""Designs in the text of a report, and in its files."""

from __future__ import annotations

import numpy as np
from designed import designed, written

from pipeline.report.designs.lines import design_lines, design_tables
from pipeline.scoring.worth import design_scores
from sweeps.words import SHIPPED


def score(design: str, x: float, unit: int) -> float:
    return (0.4 if design == "active" else 0.2) * x + 0.01 * unit * (design == "active")


def test_lines_fit_and_say_what_pairs_are_worth() -> None:
    longest = max(SHIPPED, key=len)
    cells = designed(score, datasets=("a", "b"), models=("conditional-diagonal", longest), baseline=0.0)
    found = design_scores(cells, written("a", "b"))
    lines = list(design_lines(found))
    assert max(map(len, lines)) <= 100
    assert lines[0] == "pairs that were chosen, against uniform ones: NMI"
    assert lines[2] == "mean of 2 data sets"
    assert "a" not in lines
    assert lines[3].split()[:4] == ["0.8", "conditional-diagonal", "active", "0.5N"]
    # the mean of four units is 0.015 above 0.4 x
    assert "+0.115" in lines[3]
    assert "over 1.5N" in lines[4]
    assert lines[4].split()[-1] == "<0.67"
    assert sum(line.startswith("pairs that") for line in lines) == 2
    assert list(design_lines(())) == []


def test_files_hold_every_data_set_and_score() -> None:
    tables = design_tables(design_scores(designed(score, datasets=("a", "b")), written("a", "b")))
    assert set(tables) == {"designs", "budget"}
    for table in tables.values():
        assert set(table["score"]) == {"nmi", "adjusted_rand"}
        assert set(table["dataset"]) == {"mean of all", "a", "b"}
        assert table.columns[0] == "score"
    assert np.isinf(tables["budget"]["worth"]).any()
    assert design_tables(()) == {}
