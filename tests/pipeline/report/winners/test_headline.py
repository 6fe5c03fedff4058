"""The line of findings, by hand."""

from __future__ import annotations

from contests import cell, table

from pipeline.report.winners.headline import headline
from pipeline.scoring.ranking import rankings


def contest(*levels: float, datasets: int) -> tuple[str, ...]:
    rows = [
        cell(f"d{k}", model, level + 0.01 * k + 0.001 * draw, p=0.9, replicate=draw)
        for k in range(datasets)
        for model, level in zip(("likelihood", "posterior", "conditional"), levels, strict=True)
        for draw in range(3)
    ]
    return headline(rankings(table(rows)))


def test_the_best_model_stands_beside_the_second_and_the_last() -> None:
    (line,) = contest(0.4, 0.6, 0.2, datasets=2)
    assert line == (
        "posterior ranks best: mean NMI 0.606 over 2 data sets, against 0.406 of likelihood and 0.206 of"
        " conditional; too few data sets for a test, so this holds for them alone."
    )


def test_a_test_says_how_many_models_are_told_apart() -> None:
    (line,) = contest(0.4, 0.6, 0.2, datasets=9)
    assert line.endswith("; a test over data sets tells it from 2 of 2 other models.")


def test_a_shared_rank_is_said() -> None:
    (line,) = contest(0.4, 0.4, 0.4, datasets=2)
    assert "share the best mean rank" in line


def test_one_model_has_no_line() -> None:
    assert headline(rankings(table([cell("d", "posterior", 0.5, p=0.9)]))) == ()
