"""Tables of scores: hand-made cells, and a small cube."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cubes import toy

from pipeline.scoring.catalogue import SCORES
from pipeline.scoring.lazy import baseline_scores, scores
from pipeline.scoring.tables import GROUP, cell_table, pooled_means, summary_table, written_counts
from pipeline.scoring.units import MIXTURES, REDRAWS
from sweeps.file.spec import AnnotationCount


def cells(*rows: dict[str, object]) -> pd.DataFrame:
    """Rows of one group, posterior at p = 0.9 and m = 10 unless told otherwise."""
    usual = {
        "dataset": "iris",
        "n_clusters": 3,
        "mixture": pd.NA,
        "p": 0.9,
        "m": 10,
        "m_over_n": 0.1,
        "model": "posterior",
        "status": "done",
    }
    empty = dict.fromkeys(SCORES, np.nan)
    # each row is a redraw of its own, unless told otherwise
    table = pd.DataFrame([{"replicate": place, **usual, **empty, **row} for place, row in enumerate(rows)])
    return table.astype(dict.fromkeys(("mixture", "replicate"), "Int64"))


def test_mean_standard_error_and_median_of_a_group() -> None:
    values = [0.2, 0.4, 0.9]
    row = summary_table(cells(*({"nmi": value} for value in values))).iloc[0]
    assert (row["score"], row["n_cells"], row["n_missing"], row["n"], row["unit"]) == (
        "nmi",
        3,
        0,
        3,
        REDRAWS,
    )
    assert row["mean"] == pytest.approx(0.5)
    assert row["se"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert row["median"] == pytest.approx(0.4)


def test_three_mixtures_of_three_redraws_are_three_and_not_nine() -> None:
    """By hand: mixtures have the means 0.3, 0.5, 0.7, with an error of 0.2 / √3; nine cells have less."""
    values = {0: (0.2, 0.3, 0.4), 1: (0.5, 0.5, 0.5), 2: (0.6, 0.7, 0.8)}
    rows = [
        {"mixture": mixture, "replicate": redraw, "nmi": nmi}
        for mixture, found in values.items()
        for redraw, nmi in enumerate(found)
    ]
    row = summary_table(cells(*rows)).iloc[0]
    assert (row["n_cells"], row["n_values"], row["n"], row["unit"]) == (9, 9, 3, MIXTURES)
    assert row["mean"] == pytest.approx(0.5)
    assert row["se"] == pytest.approx(0.2 / np.sqrt(3))
    assert row["median"] == pytest.approx(0.5)


def test_nothing_draws_a_real_data_set_again() -> None:
    alone = {"p": np.nan, "m": np.nan, "m_over_n": np.nan, "replicate": pd.NA, "model": "unsupervised"}
    table = summary_table(cells({**alone, "nmi": 0.5}, *({"nmi": nmi} for nmi in (0.2, 0.4))))
    assert list(table["n"]) == [1, 2]
    assert table["unit"].isna().tolist() == [True, False]
    assert table["se"].isna().tolist() == [True, False]
    of_mixtures = ({**alone, "dataset": "mix", "mixture": k, "nmi": nmi} for k, nmi in enumerate((0.3, 0.5)))
    row = summary_table(cells(*of_mixtures)).iloc[0]
    assert (row["n"], row["unit"]) == (2, MIXTURES)
    assert row["se"] == pytest.approx(0.1)


def test_undefined_divergences_are_counted_and_pending_cells_are_not() -> None:
    table = summary_table(
        cells(
            {"goldberger_kl": 1.0},
            {"goldberger_kl": np.nan},
            {"goldberger_kl": np.nan, "status": "pending"},
            {"goldberger_kl": np.nan, "status": "failed"},
        )
    )
    assert list(table["score"]) == ["goldberger_kl"]
    row = table.iloc[0]
    assert (row["n_cells"], row["n_values"], row["n_missing"], row["n"]) == (4, 1, 1, 1)
    assert row["mean"] == 1.0
    assert np.isnan(row["se"])


def test_a_group_without_values_stays_if_another_has_some() -> None:
    table = summary_table(cells({"nmi": 0.5}, {"nmi": np.nan, "m": 20, "status": "pending"}))
    assert list(table["n"]) == [1, 0]
    assert list(table["n_cells"]) == [1, 1]


def test_groups_are_ordered_as_the_data_sets_come_baseline_first() -> None:
    baseline = {"p": np.nan, "m": np.nan, "m_over_n": np.nan, "model": "unsupervised", "nmi": 0.1}
    table = summary_table(
        cells(
            {"dataset": "wine", "nmi": 0.5, "p": 1.0},
            {"dataset": "wine", "nmi": 0.5, "p": 0.8},
            {"dataset": "wine", **baseline},
            {"dataset": "iris", "nmi": 0.5},
        )
    )
    assert list(table["dataset"]) == ["wine", "wine", "wine", "iris"]
    assert list(table["p"].fillna(0)) == [0, 0.8, 1.0, 0.9]


def test_pooling_counts_every_data_set_once() -> None:
    rows = [{"nmi": 0.2}, {"nmi": 0.4}, {"dataset": "wine", "m": 20, "nmi": 0.9}]
    pooled = pooled_means(summary_table(cells(*rows)), {("iris", 10): "0.5N", ("wine", 20): "0.5N"}, "nmi")
    assert len(pooled) == 1
    assert pooled.iloc[0]["m"] == "0.5N"
    assert pooled.iloc[0]["n_datasets"] == 2
    assert pooled.iloc[0]["mean"] == pytest.approx((0.3 + 0.9) / 2)


def test_counts_are_found_as_the_file_writes_them() -> None:
    plans = {"a": toy.plan("a", n_samples=25)}
    counts = [AnnotationCount(text) for text in ("0.5N", "1.5N", "12")]
    assert written_counts(plans, counts) == {
        ("a", 12): "12",
        ("a", 37): "1.5N",
    }


def test_one_row_per_cell_with_the_lazy_scores() -> None:
    plans = [toy.plan("iris"), toy.plan("mixtures_k3", mixtures=2, replicates=1)]
    tree = toy.tree(*plans)
    table = cell_table(tree, {plan.name: plan for plan in plans})
    assert len(table) == sum(plan.n_cells for plan in plans)
    assert table["status"].value_counts().to_dict() == {"done": 38, "failed": 3, "pending": 2}
    found = scores(tree, "iris").compute()
    at = (table["dataset"] == "iris") & (table["p"] == 0.8) & (table["m"] == 24) & (table["replicate"] == 1)
    row = table[at & (table["model"] == "posterior")].iloc[0]
    cell = found.sel(p=0.8, m=24, replicate=1, model="posterior")
    assert {name: row[name] for name in found} == {name: float(cell[name]) for name in found}
    level = float(baseline_scores(tree, "iris")["nmi"])
    assert row["relative_nmi"] == row["nmi"] - level
    assert row["m_over_n"] == 1.0
    baseline = table[(table["dataset"] == "iris") & (table["model"] == "unsupervised")].iloc[0]
    assert baseline["nmi"] == level
    assert baseline[["p", "m", "replicate", "mixture"]].isna().all()


def test_summary_of_a_cube_has_every_group_once() -> None:
    plans = {plan.name: plan for plan in (toy.plan("iris"), toy.plan("own", has_labels=False))}
    table = summary_table(cell_table(toy.tree(*plans.values()), plans))
    assert not table.duplicated([*GROUP, "score"]).any()
    own = table[table["dataset"] == "own"]
    assert set(own["score"]) == {"annotation_agreement", "objective"}
    iris = table[(table["dataset"] == "iris") & table["p"].notna()]
    assert len(iris) == 2 * 2 * 2 * len(SCORES)
    supervised = {"relative_nmi", "annotation_agreement"}
    assert set(table[table["model"] == "unsupervised"]["score"]) == set(SCORES) - supervised


def test_no_cells_no_rows() -> None:
    assert len(cell_table(toy.tree(), {})) == 0
    assert len(summary_table(cell_table(toy.tree(), {}))) == 0
