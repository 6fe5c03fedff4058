"""Searches by hand: sentences, tables and figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cubes.reported import content, texts, tips
from searched import SEARCHES, searched

from pipeline.report.content import Content
from pipeline.report.searches import MOST_LINES, draw_search, findings, search_lines, search_tables
from pipeline.scoring.pairs import Compared, compared_searches


def one(*names: str) -> Compared:
    return compared_searches(searched(names or ("first", "second")), SEARCHES)[-1]


def made(cells: pd.DataFrame) -> Content:
    found = content(cells)
    found.__dict__["searches"] = compared_searches(cells, SEARCHES)
    return found


def test_a_sentence_for_each_model() -> None:
    posterior, alone = findings(one())
    assert posterior == (
        "posterior, 8 cells: best objective higher in 12%, the same in 75% and lower in 12%;"
        " NMI +0.012 ± 0.012; ARI +0.012 ± 0.012; 0.50 times the CPU time, 0.25 times for each"
        " restart that found the best."
    )
    assert alone.startswith("unsupervised, 2 cells: best objective higher in 0%, the same in 100%")
    lines = list(search_lines((one(),), 60))
    assert lines[0] == "search second beside first, the same cells in pairs"
    assert max(map(len, lines)) <= 60
    assert list(search_lines((), 60)) == []


def test_cells_without_a_common_objective_are_not_counted_and_said() -> None:
    cells = searched()
    other = (cells["search"] == "second") & (cells["replicate"] == 1) & (cells["model"] == "posterior")
    shapes = cells["covariance_shape"].where(cells["model"] != "posterior", "full").mask(other, "tied")
    (found,) = compared_searches(cells.assign(covariance_shape=shapes), SEARCHES)
    assert "lower in 0% (of 6 cells for which both chose the same shape);" in next(findings(found))
    prior = one("first", "prior")
    assert next(findings(prior)).startswith("posterior, 8 cells: NMI +0.000 ± 0.000; ARI")
    assert next(findings(prior)).endswith("1.00 times the CPU time.")


def test_a_table_for_each_search() -> None:
    second, prior = search_tables(made(searched(("first", "second", "prior"))))
    assert second.title == "second beside first"
    rows = {tuple(row[:2]): row[2:] for row in texts(second)}
    assert rows["a", "posterior"] == [
        *("4", "4 redraws", "25", "50", "25", "+0.025 ± 0.025", "+0.025 ± 0.025"),
        *("0.50", "1.00", "0.50", "0.25"),
    ]  # fmt: skip
    assert rows["all data sets", "unsupervised"][:2] == ["2", "2"]
    assert len(second.columns) == len(second.rows[0]) == 13
    assert "higher" not in prior.columns
    assert "different objectives" in prior.note
    assert "over redraws of the annotations" in second.note
    assert not made(searched(("first",))).searches


def test_bars_points_and_times_are_those_of_the_tables() -> None:
    figure = draw_search(one())
    assert figure is not None
    bars, scores, times = figure.axes
    assert next(label.get_text() for label in bars.get_yticklabels()) == "a, posterior"
    widths = np.array([bar.get_width() for bar in bars.patches]).reshape(3, -1)
    assert widths[:, 0].tolist() == [25.0, 50.0, 25.0]
    assert np.allclose(widths.sum(axis=0), 100)
    assert scores.get_xlabel() == "NMI, difference"
    assert tips(figure)[0] == "a, posterior: +0.025 ± 0.025"
    assert "a, posterior, a cell: 0.50 times" in tips(figure)
    assert "a, posterior, a restart that found the best: 0.25 times" in tips(figure)
    assert times.get_xscale() == "log"
    other = draw_search(one("first", "prior"))
    assert other is not None
    assert [axes.get_xlabel() for axes in other.axes] == ["NMI, difference", "CPU time, times"]


@pytest.mark.parametrize("n_datasets", [40])
def test_large_grids_are_shown_in_part_and_nothing_is_nothing(n_datasets: int) -> None:
    names = tuple(f"d{number}" for number in range(n_datasets))
    (found,) = compared_searches(searched(datasets=names), SEARCHES)
    figure = draw_search(found)
    assert figure is not None
    assert len(figure.axes[0].get_yticklabels()) <= MOST_LINES
    assert (
        draw_search(Compared(found.search, found.reference, found.differences, found.costs.iloc[:0])) is None
    )
