"""Means over the places that all models share, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from contests import cell, table

from pipeline.scoring.units import MIXTURES, REDRAWS
from pipeline.scoring.winners.common import by_accuracy, common_scores


def row(values: pd.DataFrame, model: str) -> pd.Series:
    return values[values["model"] == model].iloc[0]


def grid(dataset: str, model: str, values: dict[tuple[float, int, int], float]) -> list[dict[str, object]]:
    return [cell(dataset, model, value, p=p, m=m, replicate=draw) for (p, m, draw), value in values.items()]


def test_a_mean_is_over_redraws_each_of_them_over_p_and_m_first() -> None:
    posterior = {(0.8, 5, 0): 0.1, (0.8, 9, 0): 0.3, (1.0, 5, 0): 0.5, (1.0, 9, 0): 0.7}
    posterior |= {(p, m, 1): value + 0.2 for (p, m, _), value in posterior.items()}
    cells = table([cell("iris", "unsupervised", 0.45), *grid("iris", "posterior", posterior)])
    found = common_scores(cells, "nmi")
    ours = row(found.values, "posterior")
    assert ours["mean"] == pytest.approx(0.5)
    assert ours["se"] == pytest.approx(0.1)  # of the two redraws, 0.4 and 0.6: not of eight cells
    assert (ours["n"], ours["unit"], ours["n_places"], ours["done"]) == (2, REDRAWS, 8, 8)
    level = row(found.values, "unsupervised")
    assert level["mean"] == pytest.approx(0.45)
    assert np.isnan(level["se"])  # nothing redraws it
    assert (level["n"], level["n_places"], level["done"]) == (2, 8, 1)
    assert found.models == ["unsupervised", "posterior"]


def test_mixtures_are_the_unit_of_mixtures() -> None:
    rows = [cell("mix", "k-means", level, mixture=k) for k, level in enumerate((0.2, 0.4, 0.9))]
    for k, level in enumerate((0.1, 0.5, 0.6)):
        rows += [
            cell("mix", "posterior", level + off, mixture=k, p=p, replicate=draw)
            for p, off in ((0.8, -0.1), (1.0, 0.1))
            for draw in range(2)
        ]
    found = common_scores(table(rows), "nmi").values
    for model, values in (("k-means", (0.2, 0.4, 0.9)), ("posterior", (0.1, 0.5, 0.6))):
        one = row(found, model)
        assert one["mean"] == pytest.approx(np.mean(values))
        assert one["se"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
        assert (one["n"], one["unit"], one["n_places"]) == (3, MIXTURES, 12)


def test_no_solution_counts_as_nothing_found_and_failures_count_for_nobody() -> None:
    rows = [cell("iris", "k-means", 0.6)]
    rows += [cell("iris", "posterior", 0.5 + 0.1 * draw, p=0.9, replicate=draw) for draw in range(4)]
    states = ("done", "no solution", "failed", "pending")
    rows += [cell("iris", "cop-kmeans", 0.9, p=0.9, replicate=k, status=s) for k, s in enumerate(states)]
    found = common_scores(table(rows), "adjusted_rand")
    assert list(found.places["iris"].index.get_level_values("replicate")) == [0, 1]
    cop = row(found.values, "cop-kmeans")
    assert cop["mean"] == pytest.approx(0.45)
    assert list(cop[["done", "no_solution", "failed", "pending"]]) == [1, 1, 1, 1]
    assert row(found.values, "posterior")["mean"] == pytest.approx(0.55)


def test_a_model_without_any_result_on_a_data_set_does_not_empty_it_for_others() -> None:
    rows = [
        cell("iris", "unsupervised", 0.5, status="pending"),
        cell("iris", "posterior", 0.7, p=0.9),
        cell("wine", "unsupervised", 0.4),
        cell("wine", "posterior", 0.8, p=0.9),
    ]
    wide = common_scores(table(rows), "nmi").wide("mean")
    assert np.isnan(wide.loc["iris", "unsupervised"])
    assert wide.loc["iris", "posterior"] == pytest.approx(0.7)
    assert wide.loc["wine"].tolist() == pytest.approx([0.4, 0.8])


def test_cells_that_share_no_place_have_no_means() -> None:
    rows = [
        cell("iris", model, 0.5, p=0.9, replicate=draw, status=status)
        for model, draw, status in (
            ("posterior", 0, "done"),
            ("posterior", 1, "pending"),
            ("likelihood", 0, "pending"),
            ("likelihood", 1, "done"),
        )
    ]
    found = common_scores(table(rows), "nmi")
    assert found.values["mean"].isna().all()
    assert found.models == []
    assert by_accuracy(found).empty


def test_without_labels_or_cells_there_is_nothing() -> None:
    unlabelled = [cell("own", "posterior", np.nan, p=0.9), cell("own", "unsupervised", np.nan)]
    for rows in ([], unlabelled):
        found = common_scores(table(rows), "nmi")
        assert found.values.empty
        assert (found.datasets, found.models) == ([], [])
        assert found.wide("mean").empty
        assert by_accuracy(found).empty


def test_baselines_alone_have_places_too() -> None:
    rows = [cell("iris", "k-means", 0.5), cell("iris", "ward", 0.7)]
    rows += [cell("mix", name, 0.1 * k, mixture=k) for name in ("k-means", "ward") for k in range(3)]
    found = common_scores(table(rows), "nmi").values
    assert found["mean"].tolist() == pytest.approx([0.5, 0.7, 0.1, 0.1])
    assert found["n"].tolist() == [1, 1, 3, 3]
    assert by_accuracy(common_scores(table(rows), "nmi")).empty


def test_by_accuracy_a_model_without_annotations_has_one_level() -> None:
    rows = [cell("iris", "ward", 0.5)]
    values = {(p, m, draw): p - 0.5 + 0.1 * draw for p in (0.7, 1.0) for m in (5, 9) for draw in range(2)}
    rows += grid("iris", "posterior", values)
    found = by_accuracy(common_scores(table(rows), "nmi")).set_index(["model", "p"])
    assert found.loc[("posterior", 0.7), "mean"] == pytest.approx(0.25)
    assert found.loc[("posterior", 1.0), "se"] == pytest.approx(0.05)
    assert found.loc["ward", "mean"].tolist() == pytest.approx([0.5, 0.5])
    assert found.loc["ward", "se"].isna().all()
