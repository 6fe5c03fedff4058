"""What is said of searches."""

from __future__ import annotations

from searched import SEARCHES, searched

from pipeline.report.searches.lines import findings, search_lines
from pipeline.scoring.pairs import compared_searches


def test_a_sentence_for_each_model() -> None:
    (found,) = compared_searches(searched(), SEARCHES)
    posterior, alone = findings(found)
    assert posterior == (
        "posterior, 8 cells: best objective higher in 12%, the same in 75% and lower in 12%;"
        " NMI +0.012 ± 0.012; ARI +0.012 ± 0.012; 0.50 times the CPU time, 0.25 times for each"
        " restart that found the best."
    )
    assert alone.startswith("unsupervised, 2 cells: best objective higher in 0%, the same in 100%")


def test_cells_without_a_common_objective_are_not_counted_and_said() -> None:
    cells = searched()
    other = (cells["search"] == "second") & (cells["replicate"] == 1) & (cells["model"] == "posterior")
    shapes = cells["covariance_shape"].where(cells["model"] != "posterior", "full").mask(other, "tied")
    (found,) = compared_searches(cells.assign(covariance_shape=shapes), SEARCHES)
    assert "lower in 0% (of 6 cells for which both chose the same shape);" in next(findings(found))
    prior = compared_searches(searched(("first", "prior")), SEARCHES)[0]
    assert next(findings(prior)).startswith("posterior, 8 cells: NMI +0.000 ± 0.000; ARI")
    assert next(findings(prior)).endswith("1.00 times the CPU time.")


def test_lines_fit_a_terminal() -> None:
    lines = list(search_lines(compared_searches(searched(), SEARCHES), 60))
    assert lines[0] == "search second beside first, the same cells in pairs"
    assert max(map(len, lines)) <= 60
    assert list(search_lines((), 60)) == []
