"""Wins, ties and losses as a table."""

from __future__ import annotations

import numpy as np
from contests import contest

from pipeline.report.winners.duels import table
from pipeline.scoring.ranking import rankings


def test_counts_are_those_of_the_row_against_the_column() -> None:
    found = table(rankings(contest({"b": (0.5, 0.5, 0.2), "a": (0.4, 0.6, 0.2), "c": (0.1, 0.2, 0.9)}))[0])
    assert found.columns == ("model", "all", "1", "2", "3")
    texts = [[value.text for value in row] for row in found.rows]
    assert texts == [
        ["1 b", "3–1–2", "-", "1–1–1", "2–0–1"],
        ["2 a", "3–1–2", "1–1–1", "-", "2–0–1"],
        ["3 c", "2–0–4", "1–0–2", "1–0–2", "-"],
    ]
    assert "Underlined" not in found.note


def test_what_the_test_tells_apart_is_marked_for_the_better() -> None:
    base = np.linspace(0.2, 0.6, 8)
    found = table(rankings(contest({"b": base, "a": base + 0.01 * np.arange(1, 9)}))[0])
    assert [[value.kind for value in row[2:]] for row in found.rows] == [["", "best"], ["", ""]]
    assert "Underlined" in found.note
