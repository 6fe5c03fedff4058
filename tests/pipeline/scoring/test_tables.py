"""Tables of scores: hand-made cells, and a small cube."""

from __future__ import annotations

from itertools import permutations

import contests
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cubes import toy
from cubes.reported import tables
from designed import designed
from searched import searched

from pipeline.common import SAME_OPTIMUM
from pipeline.scoring.scores import SCORES, baseline_scores, scores
from pipeline.scoring.tables import (
    GAPS,
    GROUP,
    MIXTURES,
    REDRAWS,
    TIMED,
    by_unit,
    cell_table,
    chance_of_best,
    choice_table,
    compared,
    gap_table,
    hits,
    kind_of,
    over_datasets,
    over_units,
    pooled_means,
    prediction_table,
    restart_table,
    rows_of,
    summary_table,
    time_table,
    titled,
    tree_of,
    unit_of,
    values_of,
    with_variants,
    within,
    written_counts,
)
from storage.cube.schema import DONE
from sweeps.file.spec import AnnotationCount
from sweeps.shapes import CANDIDATES, CODES
from sweeps.words import shape_of


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


CELLS = pd.DataFrame(
    {
        "mixture": [0, 0, 1, pd.NA, pd.NA],
        "replicate": [0, 1, 0, 2, pd.NA],
        "nmi": [0.1, 0.3, 0.6, 0.5, 0.9],
        "kl": [np.nan, 3.0, 1.0, 2.0, np.nan],
    }
).astype({"mixture": "Int64", "replicate": "Int64"})


def test_a_unit_is_a_mixture_else_a_redraw_else_nothing() -> None:
    assert unit_of(CELLS).fillna(-1).tolist() == [0, 0, 1, 2, -1]
    assert kind_of(CELLS).fillna("").tolist() == [MIXTURES, MIXTURES, MIXTURES, REDRAWS, ""]


def test_means_are_over_units_each_over_its_cells_first() -> None:
    groups = pd.Series(["mix", "mix", "mix", "iris", "iris alone"])
    found = over_units(CELLS[["nmi", "kl"]], groups, unit_of(CELLS))
    assert list(found.mean.index) == ["mix", "iris", "iris alone"]
    # 0.2 and 0.6, not 0.1, 0.3 and 0.6
    assert found.mean.loc["mix"].tolist() == pytest.approx([0.4, 2.0])
    assert found.se.loc["mix"].tolist() == pytest.approx([0.2, 1.0])
    assert found.n.loc["mix"].tolist() == [2, 2]
    assert found.se.loc[["iris", "iris alone"]].isna().all(axis=None)
    assert found.n.loc["iris alone"].tolist() == [1, 0]


def test_units_of_places_are_mixtures_where_there_are_any() -> None:
    index = pd.MultiIndex.from_tuples([(0, 0), (0, 1), (1, 0)], names=["mixture", "replicate"])
    assert by_unit(pd.DataFrame({"x": [1.0, 3.0, 5.0]}, index))["x"].tolist() == [2.0, 5.0]
    real = pd.MultiIndex.from_tuples([(-1, 0), (-1, 1), (-1, 1)], names=["mixture", "replicate"])
    assert by_unit(pd.DataFrame({"x": [1.0, 3.0, 5.0]}, real))["x"].tolist() == [1.0, 4.0]


def test_the_error_of_a_mean_over_data_sets_is_that_of_their_draws() -> None:
    table = pd.DataFrame({"model": "a", "mean": [0.2, 0.4, 0.9], "se": [0.3, 0.4, np.nan]})
    (row,) = over_datasets(table, ["model"]).itertuples()
    assert (row.mean, row.se, row.n) == (pytest.approx(0.5), pytest.approx(0.5 / 3), 3)
    (row,) = over_datasets(table.tail(1), ["model"]).itertuples()
    assert np.isnan(row.se)


def test_models_are_compared_in_uniform_pairs_and_in_the_first_search() -> None:
    cells = searched(("second", "first"))
    cells = cells.assign(design=["active", "uniform"] * (len(cells) // 2))
    assert values_of(cells, "search") == ["second", "first"]
    assert compared(cells) == {"design": "uniform", "search": "second"}
    assert compared(cells[cells["design"] == "active"]) == {"design": "active", "search": "second"}


def test_a_sweep_that_names_none_is_compared_whole() -> None:
    cells = contests.contest({"a": [0.5], "b": [0.4]})
    assert "search" not in cells
    assert compared(cells) == {}
    assert len(rows_of(cells, {})) == 2
    assert with_variants(cells)[["design", "search"]].isna().all(axis=None)
    assert compared(designed(lambda design, x, unit: x)) == {"design": "uniform"}


def test_rows_of_a_search_hold_what_has_none() -> None:
    cells = searched()
    rows = rows_of(cells, {"search": "second"})
    assert set(rows["model"]) == {"posterior", "pckmeans", "unsupervised", "k-means"}
    assert set(rows["search"].dropna()) == {"second"}
    assert rows["search"].isna().sum() == 2


@pytest.mark.parametrize(
    ("row", "title"),
    [
        ({"design": np.nan, "search": np.nan}, "iris"),
        ({"design": "active", "search": None}, "iris, active"),
        ({"design": "active", "search": "long"}, "iris, active, long"),
    ],
)
def test_titles_name_what_there_is(row: dict[str, object], title: str) -> None:
    assert titled("iris", row) == title


def test_a_tree_of_one_search_has_no_such_dimension() -> None:
    names = ["first", "second"]
    values = xr.Dataset(
        {"status": (("p", "search"), np.arange(4).reshape(2, 2))}, {"search": names, "p": [0.8, 1]}
    )
    tree = xr.DataTree.from_dict(
        {
            "/a": values,
            "/a/unsupervised": xr.Dataset({"status": ("search", [5, 6])}),
            "/a/k-means": xr.Dataset({"status": ((), 7)}),
        }
    )
    found = tree_of(tree, {"search": "second", "design": "uniform"})
    assert found["a"]["status"].values.tolist() == [1, 3]
    assert "search" not in found["a"].coords
    assert found["a/unsupervised"]["status"].item() == 6
    assert found["a/k-means"]["status"].item() == 7
    pd.testing.assert_index_equal(found["a"].indexes["p"], tree["a"].indexes["p"])


def test_means_are_over_cells_with_a_result() -> None:
    cell = contests.cell
    rows = [
        cell("iris", "posterior", 0.5, p=0.9, replicate=k, seconds=s, cpu_seconds=s / 4, restarts_done=5)
        for k, s in enumerate((1.0, 2.0, 3.0))
    ]
    rows += [cell("iris", "posterior", 0.5, p=0.9, replicate=3, status="failed"), cell("wine", "ward", 0.5)]
    found = time_table(contests.table(rows)).drop(columns="search").set_index(["dataset", "model"])
    assert list(found.index) == [("iris", "posterior"), ("wine", "ward")]
    expected = [3, 0.5, 2.0, 1.2, 2.0, 2.8, 6 / 15, 1.5 / 3600]
    assert found.loc[("iris", "posterior")].tolist() == pytest.approx(expected)
    assert found.loc[("wine", "ward"), ["n", "cpu_seconds", "seconds"]].tolist() == [1, 0.25, 0.5]


def test_nothing_done_has_no_times() -> None:
    assert list(
        time_table(contests.table([contests.cell("iris", "ward", 0.5, status="pending")])).columns
    ) == list(TIMED)


PLAN = toy.plan("iris", models=("likelihood", "posterior-auto", "conditional-auto"), model_chunk=3)


def row(shape: str, log_loss: float = np.nan, predicted: float = np.nan, **changes: object) -> dict:
    usual = {"dataset": "wine", "p": 0.9, "m": 10, "m_over_n": 0.5, "model": "posterior-auto"}
    usual |= {"status": "done", "covariance_shape": shape, "log_loss": log_loss, "predicted": predicted}
    return usual | changes


def test_choices_are_counted_and_cells_without_one_left_out_of_the_means() -> None:
    cells = pd.DataFrame(
        [
            row("full", 0.2, 0.9),
            row("full", 0.4, 0.7),
            row("spherical"),
            row("spherical", 0.6, 0.5),
            row("tied", 9.0, 0.1, status="pending"),
            row("spherical", 9.0, 0.1, model="posterior"),
            row("tied", 0.1, 1.0, dataset="iris", m=5),
            row("tied", 0.1, 1.0, m=5),
        ]
    )
    found = choice_table(cells)
    assert list(zip(found["dataset"], found["m"], strict=True)) == [("wine", 5), ("wine", 10), ("iris", 5)]
    ten = found.loc[1]
    assert [ten[name] for name in ("n", *CANDIDATES, "too_few")] == [4, 2, 0, 0, 2, 1]
    assert ten["log_loss"] == pytest.approx(0.4)
    assert ten["predicted"] == pytest.approx(0.7)


def test_a_cell_has_the_scores_of_the_shape_it_chose() -> None:
    cells, _, _ = tables(PLAN)
    node = toy.tree(PLAN)["iris"].to_dataset()
    for cell in cells[cells["p"].notna()].itertuples():
        one = node.sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
        if not cell.model.endswith("-auto") or int(one["status"]) != DONE:
            assert pd.isna([cell.covariance_shape, cell.log_loss, cell.predicted]).all()
            continue
        assert CODES[cell.covariance_shape] == int(one["covariance_shape"])
        assert cell.log_loss == float(one["held_out"].sel(candidate=cell.covariance_shape))
        assert cell.predicted == float(one["held_out_right"].sel(candidate=cell.covariance_shape))
    found = choice_table(cells)
    assert set(found["model"]) == {"posterior-auto", "conditional-auto"}
    assert (found[list(CANDIDATES)].sum(axis=1) == found["n"]).all()


def test_a_cube_of_other_models_has_no_choices() -> None:
    cells, _, _ = tables(toy.plan("iris"))
    assert choice_table(cells).empty


def test_predictions_are_means_over_the_cells_that_held_annotations_out() -> None:
    usual = {"covariance_shape": np.nan, "model": "posterior"}
    cells = pd.DataFrame(
        [
            row("full", 0.2, 0.9),
            row("spherical"),
            row("full", 0.5, 0.6),
            row("", 0.4, 0.8, **usual),
            row("", 9.0, 0.1, **usual | {"status": "failed"}),
            row("", **usual | {"m": 5}),
            row("", 0.1, 1.0, **usual | {"dataset": "iris"}),
            row("", **usual | {"model": "pckmeans"}),  # a method predicts nothing, and has not too few
            row("", **usual | {"p": np.nan, "m": np.nan, "m_over_n": np.nan, "model": "unsupervised"}),
        ]
    )
    found = prediction_table(cells)
    where = zip(found["dataset"], found["m"], found["model"], strict=True)
    assert list(where) == [
        ("wine", 5, "posterior"),
        ("wine", 10, "posterior"),
        ("wine", 10, "posterior-auto"),
        ("iris", 10, "posterior"),
    ]
    assert found["n"].tolist() == [1, 1, 3, 1]
    assert found["too_few"].tolist() == [1, 0, 1, 0]
    assert found["predicted"].tolist() == pytest.approx([np.nan, 0.8, 0.75, 1.0], nan_ok=True)
    assert found["log_loss"].tolist() == pytest.approx([np.nan, 0.4, 0.35, 0.1], nan_ok=True)
    nothing = prediction_table(cells.assign(status="pending"))
    assert nothing.empty


@pytest.mark.parametrize("last", ["posterior-full", "conditional-auto"])
def test_every_cell_has_the_scores_of_its_own_shape(last: str) -> None:
    plan = toy.plan("iris", models=("likelihood", "posterior-common", last), model_chunk=3, held_out=True)
    cells, _, _ = tables(plan)
    node = toy.tree(plan)["iris"].to_dataset()
    done = cells[cells["p"].notna() & (cells["status"] == "done")]
    for cell in done.itertuples():
        one = node.sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
        own = cell.covariance_shape if cell.model.endswith("-auto") else shape_of(cell.model)
        assert pd.isna(cell.covariance_shape) == (not cell.model.endswith("-auto"))
        assert cell.log_loss == float(one["held_out"].sel(candidate=own))
        assert cell.predicted == float(one["held_out_right"].sel(candidate=own))
    found = prediction_table(cells)
    assert set(found["model"]) == set(plan.models)
    assert found["n"].sum() == len(done)
    assert cells[cells["p"].isna()]["log_loss"].isna().all()


def node(*objectives: list[float]) -> xr.Dataset:
    return xr.Dataset({"log_likelihood": (("cell", "restart"), np.array(objectives, dtype=float))})


def test_hits_are_within_a_millionth_of_a_nat() -> None:
    found = hits(node([5.0, 5.0 - SAME_OPTIMUM / 2, 5.0 - 3 * SAME_OPTIMUM], [-1.0, -2.0, -1.0]))
    assert found.values.tolist() == [2, 2]


def test_restarts_that_were_not_run_count_nowhere() -> None:
    counts = within(node([1.0, 3.0, np.nan], [np.nan] * 3), np.array([SAME_OPTIMUM, 10.0]))
    assert counts.values.tolist() == [[1, 2], [0, 0]]


def test_lazy_counts_equal_the_plain_ones() -> None:
    objectives = np.random.default_rng(3).normal(size=(6, 5)).round(1)
    plain = node(*objectives.tolist())
    lazy = within(plain.chunk(cell=2), GAPS)
    assert lazy.chunks is not None
    np.testing.assert_array_equal(lazy.values, within(plain, GAPS).values)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (4, 1), (5, 2), (5, 5), (6, 3)])
def test_the_chance_is_the_share_of_orders(n: int, k: int) -> None:
    """Every order of n restarts, k of which found the best."""
    orders = list(permutations(range(n)))
    expected = [np.mean([min(order[:r]) < k for order in orders]) for r in range(1, n + 1)]
    np.testing.assert_allclose(chance_of_best(np.array([n]), np.array([k])), expected, atol=1e-12)


def test_cells_of_fewer_restarts_have_their_best_from_then_on() -> None:
    together = chance_of_best(np.array([2, 5, 2]), np.array([1, 1, 1]))
    np.testing.assert_allclose(together, [(0.5 + 0.2 + 0.5) / 3, (2 + 0.4) / 3, 2.6 / 3, 2.8 / 3, 1.0])


def test_the_table_has_a_row_for_each_data_set_and_model() -> None:
    plans = {"iris": toy.plan("iris", restarts=4)}
    cells = cell_table(toy.tree(*plans.values()), plans)
    table = restart_table(cells).set_index("model")
    assert table["cells"].to_dict() == {"unsupervised": 1, "likelihood": 11, "posterior": 11}
    assert (table["restarts"] == 4).all()
    np.testing.assert_allclose(table["hit_rate"], 0.25)  # drawn at random: no two alike
    assert (table["once"] == 1).all()
    assert (table["for_95"] == 4).all()


def test_gaps_are_shares_of_the_restarts_that_were_run() -> None:
    plan = toy.plan("iris")
    tree = toy.tree(plan)
    table = gap_table(tree, {"iris": plan.baselines})
    assert list(table["model"].unique()) == ["unsupervised", "likelihood", "posterior"]
    for model, rows in table.groupby("model"):
        assert rows["share"].is_monotonic_increasing
        assert rows["share"].iloc[-1] == 1.0, model
    best = tree["iris/unsupervised"]["log_likelihood"].values
    row = table[(table["model"] == "unsupervised") & np.isclose(table["gap"], 0.1)].iloc[0]
    assert row["share"] == np.mean(best.max() - best <= 0.1)


def test_nothing_done_gives_empty_tables() -> None:
    plan = toy.plan("iris", models=(), p=(), m=())
    tree = toy.tree(plan)
    tree["iris/unsupervised"] = tree["iris/unsupervised"].to_dataset().assign(restarts_done=((), 0))
    assert gap_table(tree, {"iris": plan.baselines}).empty
    cells = cell_table(toy.tree(plan), {"iris": plan}).assign(status="pending")
    assert isinstance(restart_table(cells), pd.DataFrame)
    assert restart_table(cells).empty
