"""What is said of who wins: never more than the numbers do."""

from __future__ import annotations

import numpy as np
import pandas as pd
from contests import cell, contest, table

from pipeline.report.winners.findings import comparable, findings, listed, p_text
from pipeline.scoring.ranking import rankings

BASE = np.linspace(0.2, 0.6, 10)
OFFSETS = 0.01 * np.arange(1, 11)


def said(cells: pd.DataFrame) -> tuple[str, ...]:
    return findings(rankings(cells))


def test_a_clear_winner_is_named_with_those_it_beats() -> None:
    nmi, ari = said(contest({"b": BASE, "a": BASE + OFFSETS, "c": BASE - OFFSETS}))
    assert nmi.startswith("NMI: a has the best mean rank, 1.0 of 3, over 10 data sets and the best score")
    assert "on 10 of them. Friedman's test: χ² = 20.0, 2 degrees of freedom, p < 0.0001" in nmi
    assert nmi.endswith("correction tell 3 of 3 pairs apart (0.05 in all): a from b and c.")
    assert ari.startswith("ARI: a has")


def test_what_the_test_does_not_tell_apart_is_counted() -> None:
    rng = np.random.default_rng(0)
    close = BASE + rng.permutation(np.linspace(-0.004, 0.005, 10))
    (nmi, _) = said(contest({"a": BASE, "b": close, "c": BASE - 10 * OFFSETS}))
    assert "tell 2 of 3 pairs apart" in nmi
    assert "from c, not from the other 1." in nmi


def test_few_data_sets_allow_no_conclusion() -> None:
    nmi, _ = said(contest({"a": (0.5, 0.6), "b": (0.4, 0.5)}))
    assert "There is no test: 2 data sets cannot tell models apart, it takes 6." in nmi
    assert "nothing follows for others" in nmi
    assert "Friedman" not in nmi


def test_more_models_than_the_data_sets_can_tell_apart() -> None:
    scores = {name: BASE[:7] + place * OFFSETS[:7] for place, name in enumerate("abcd")}
    nmi, _ = said(contest(scores))
    assert "the models do not all rank alike. It takes more data sets to say which: 7 cannot" in nmi
    assert "any of the 6 pairs of 4 models apart" in nmi
    assert nmi.endswith("is 0.094.")


def test_no_difference_and_a_shared_first_place() -> None:
    rng = np.random.default_rng(0)
    nmi, _ = said(contest({name: rng.permutation(BASE) for name in "abcd"}))
    assert nmi.endswith("it does not show that the models differ, in any order.")
    nmi, _ = said(contest({"a": BASE, "b": BASE}))
    assert nmi.startswith("NMI: a and b share the best mean rank, 1.5 of 2, over 10 data sets (the same).")
    assert nmi.endswith("tell no pair apart (0.05 in all).")


def test_one_model_and_none_have_nothing_to_compare() -> None:
    one = contest({"posterior": (0.5, 0.6)})
    assert said(one) == ("Nothing to compare: posterior is the only model with a score.",)
    assert comparable(rankings(one)) == []
    unlabelled = table([cell("own", "posterior", np.nan, p=0.9), cell("own", "k-means", np.nan)])
    for cells in (unlabelled, table([])):
        assert said(cells) == ("Nothing to compare: no cell of a data set with true labels is done.",)


def test_gaps_are_said() -> None:
    rows = [cell(name, model, 0.5, p=0.9) for name in ("d0", "d1") for model in ("a", "b")]
    rows += [cell("d0", "a", 0.5, p=0.9, replicate=1, status="pending")]
    rows += [cell("d0", "b", 0.5, p=0.9, replicate=1, status="no solution")]
    rows += [cell("d2", "a", 0.5, p=0.9), cell("d2", "b", 0.5, p=0.9, status="failed")]
    rows += [cell("d0", "c", 0.5, p=0.9, status="failed")]
    text = " ".join(said(table(rows)))
    assert "Not ranked: d2, where some model has no score." in text
    assert "Without any score, and so not here: c." in text
    assert "1 cell without a solution count" in text
    assert "3 cells failed or pending" in text
    apart = [cell("d0", "a", 0.5, p=0.9), cell("d1", "b", 0.5, p=0.9)]
    assert said(table(apart))[0] == "NMI: no data set has a score of every model, so there are no ranks."


def test_words_of_numbers_and_lists() -> None:
    assert (p_text(0.0123), p_text(3e-7)) == ("p = 0.012", "p < 0.0001")
    assert [listed(list("abcdef"[:n])) for n in (1, 2, 4)] == ["a", "a and b", "a, b, c and d"]
    assert listed(list("abcdef")) == "a, b, c and 3 more"
