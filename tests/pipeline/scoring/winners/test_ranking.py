"""Ranks, ties and tests of models, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from contests import cell, contest, table

from pipeline.scoring.winners.common import common_scores
from pipeline.scoring.winners.ranking import Ranking, rank


def ranked(cells: pd.DataFrame) -> Ranking:
    return rank(common_scores(cells, "nmi"))


def pair(found: Ranking, a: str, b: str) -> pd.Series:
    return found.pairs[(found.pairs["a"] == a) & (found.pairs["b"] == b)].iloc[0]


BASE = np.linspace(0.2, 0.6, 10)
OFFSETS = 0.01 * np.arange(1, 11)
"""Of ten sizes, so that no differences tie."""


def test_order_ranks_and_duels_by_hand() -> None:
    found = ranked(contest({"b": (0.5, 0.5, 0.2), "a": (0.4, 0.6, 0.2), "c": (0.1, 0.2, 0.9)}))
    assert found.ranks.loc["d2"].to_dict() == {"b": 2.5, "a": 2.5, "c": 1.0}
    assert found.mean_ranks.to_dict() == pytest.approx({"b": 5.5 / 3, "a": 5.5 / 3, "c": 7 / 3})
    duel = pair(found, "b", "a")
    assert (duel["wins_a"], duel["ties"], duel["wins_b"]) == (1, 1, 1)
    assert duel["difference"] == pytest.approx(0.0)
    assert found.matrix().loc[("a", "c")].tolist() == [2, 0, 1]
    assert found.matrix().loc[("c", "a")].tolist() == [1, 0, 2]
    rows = found.table().set_index("model")
    assert rows.loc["b", ["wins", "ties", "losses", "best"]].tolist() == [3, 1, 2, 1]
    assert rows.loc["c", ["n_datasets", "done", "pending"]].tolist() == [3, 3, 0]
    assert not found.tested
    assert found.groups == []
    assert found.pairs["p"].isna().all()
    assert not found.pairs["different"].any()


def test_a_tie_is_a_difference_within_two_paired_standard_errors() -> None:
    # Of two redraws a - b is 0.1 ± 0.2, and in the other case 0.1 ± 0.02: the mean is the same.
    for spread, (wins, ties) in ((0.2, (0, 1)), (0.02, (1, 0))):
        found = ranked(contest({"a": (0.6,), "b": (0.5,)}, spread=spread, draws=2))
        duel = pair(found, "a", "b")
        assert (duel["wins_a"], duel["ties"]) == (wins, ties)
        assert found.as_good.loc["d0"].to_dict() == {"a": True, "b": ties == 1}
    # Spread that both models share does not make them alike.
    rows = [
        cell("d", model, level + 0.3 * draw, p=0.9, replicate=draw)
        for model, level in (("a", 0.31), ("b", 0.3))
        for draw in range(3)
    ]
    assert pair(ranked(table(rows)), "a", "b")["wins_a"] == 1


def test_a_model_that_is_better_everywhere_is_found_so() -> None:
    found = ranked(contest({"worse": BASE, "better": BASE + OFFSETS, "worst": BASE - OFFSETS}))
    assert found.models == ["better", "worse", "worst"]
    assert found.p < 1e-4
    assert found.differ
    assert found.pairs["p"].tolist() == pytest.approx([2.0**-9] * 3)
    assert found.pairs["p_holm"].tolist() == pytest.approx([3 * 2.0**-9] * 3)
    assert found.pairs["different"].all()
    assert found.groups == []


def test_without_a_difference_in_all_no_pair_differs() -> None:
    rng = np.random.default_rng(0)
    found = ranked(contest({name: rng.permutation(BASE) for name in "abcd"}))
    assert found.tested
    assert not found.differ
    assert not found.pairs["different"].any()
    assert found.groups == [(0, 3)]


def test_two_models_need_no_first_test() -> None:
    found = ranked(contest({"b": BASE, "a": BASE + OFFSETS}))
    assert np.isnan(found.p)
    assert found.differ
    assert pair(found, "a", "b")["different"]


def test_five_data_sets_are_too_few_for_a_test() -> None:
    five, six = (ranked(contest({"b": BASE[:n], "a": (BASE + OFFSETS)[:n]})) for n in (5, 6))
    assert not five.tested
    assert five.pairs["p"].isna().all()
    assert six.tested
    assert pair(six, "a", "b")["different"]


def test_a_data_set_counts_where_every_model_has_a_score() -> None:
    rows = [cell(name, model, 0.5, p=0.9) for name in ("d0", "d1") for model in ("a", "b")]
    rows += [cell("d2", "a", 0.5, p=0.9), cell("d2", "b", 0.5, p=0.9, status="failed")]
    found = ranked(table(rows))
    assert found.datasets == ["d0", "d1"]
    assert found.left_out == ["d2"]
    assert found.as_good.loc["d2"].to_dict() == {"a": True, "b": False}
    assert found.table().set_index("model").loc["b", ["done", "failed"]].tolist() == [2, 1]


def test_one_model_or_nothing_gives_no_pairs() -> None:
    for cells in (contest({"a": BASE}), table([])):
        found = ranked(cells)
        assert found.pairs.empty
        assert found.groups == []
        assert not found.tested
        assert len(found.table()) == len(found.models)
