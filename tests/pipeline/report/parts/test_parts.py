"""Entries of tables, and the choice of what is shown."""

from __future__ import annotations

import math

import pytest

from pipeline.report.parts.parts import NOTHING, mean_and_error, number, shape_groups, spans, spread, words


def test_a_table_spreads_to_the_ends() -> None:
    assert spread([1, 2, 3], 3) == [1, 2, 3]
    assert spread(range(10), 4) == [0, 3, 6, 9]


def test_entries_sort_by_their_value_and_missing_ones_are_dashes() -> None:
    assert (number(1234.5).text, number(1234.5).order) == ("1,234", 1234.5)
    assert (number(0.5, "+.2f").text, number(0.5).numeric) == ("+0.50", True)
    for nothing in (number(None), number(math.nan), mean_and_error(math.nan, 0.1)):
        assert nothing is NOTHING
    assert (words(3).order, words(3).numeric) == ("3", False)


@pytest.mark.parametrize(("se", "text"), [(0.0123, "0.5000 ± 0.0123"), (math.nan, "0.5000")])
def test_a_single_cell_has_a_mean_without_an_error(se: float, text: str) -> None:
    assert mean_and_error(0.5, se).text == text


def test_models_of_many_shapes_are_shown_by_shape() -> None:
    few = ["posterior", "unsupervised-full", "likelihood-full", "posterior"]
    assert shape_groups(few) == {"": ["likelihood-full", "posterior", "unsupervised-full"]}
    assert shape_groups([*few, "likelihood-tied"]) == {
        "spherical": ["posterior"],
        "tied": ["likelihood-tied"],
        "full": ["likelihood-full", "unsupervised-full"],
    }


def test_equal_neighbours_have_one_head() -> None:
    assert spans(["", "NMI", "NMI", "KL", "NMI"]) == (("", 1), ("NMI", 2), ("KL", 1), ("NMI", 1))
    assert spans([]) == ()
