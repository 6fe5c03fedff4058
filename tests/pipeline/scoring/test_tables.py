"""Tables of scores: hand-made cells, and a small cube."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import contests
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cubes import toy
from cubes.reported import tables as tables_of
from searched import searched

from pipeline.common import SAME_OPTIMUM
from pipeline.scoring import tables
from pipeline.scoring.scores import SCORES, baseline_scores, scores
from pipeline.scoring.tables import GAPS, GROUP, MIXTURES, REDRAWS, cell_table, summary_table
from storage.cube.schema import DONE
from sweeps.file.spec import AnnotationCount
from sweeps.shapes import CANDIDATES, CODES
from sweeps.words import shape_of

USUAL = {"dataset": "iris", "n_clusters": 3, "mixture": pd.NA, "p": 0.9, "m": 10, "m_over_n": 0.1}
ALONE = {"p": np.nan, "m": np.nan, "m_over_n": np.nan, "replicate": pd.NA, "model": "unsupervised"}


def summary(*rows: dict[str, object]) -> pd.DataFrame:
    """Of rows of one group, posterior at p = 0.9 and m = 10, each a redraw, unless told otherwise."""
    usual = {**USUAL, "model": "posterior", "status": "done", **dict.fromkeys(SCORES, np.nan)}
    table = pd.DataFrame([{"replicate": place, **usual, **row} for place, row in enumerate(rows)])
    return summary_table(table.astype(dict.fromkeys(("mixture", "replicate"), "Int64")))


# mixtures have the means 0.3, 0.5, 0.7, with an error of 0.2 / √3; nine cells have less
MIXED = [
    {"mixture": mixture, "replicate": redraw, "nmi": nmi}
    for mixture, found in enumerate([(0.2, 0.3, 0.4), (0.5, 0.5, 0.5), (0.6, 0.7, 0.8)])
    for redraw, nmi in enumerate(found)
]
UNDEFINED: list[dict[str, Any]] = [{"goldberger_kl": 1.0}, {}, {"status": "pending"}, {"status": "failed"}]
OF_MIXTURES = [ALONE | {"mixture": k, "nmi": nmi} for k, nmi in enumerate((0.3, 0.5))]


@pytest.mark.parametrize(
    ("rows", "score", "counts", "unit", "means"),
    [
        ([{"nmi": x} for x in (0.2, 0.4, 0.9)], "nmi", [3, 3, 0, 3], REDRAWS, [0.5, (0.13 / 3) ** 0.5, 0.4]),
        (MIXED, "nmi", [9, 9, 0, 3], MIXTURES, [0.5, 0.2 / 3**0.5, 0.5]),
        (UNDEFINED, "goldberger_kl", [4, 1, 1, 1], REDRAWS, [1.0, np.nan, 1.0]),
        ([ALONE | {"nmi": 0.5}], "nmi", [1, 1, 0, 1], "", [0.5, np.nan, 0.5]),  # nothing draws it again
        (OF_MIXTURES, "nmi", [2, 2, 0, 2], MIXTURES, [0.4, 0.1, 0.4]),
    ],
    ids=["redraws", "mixtures", "undefined", "alone", "alone of mixtures"],
)
def test_a_group_has_means_over_units(
    rows: list[Any], score: str, counts: list[int], unit: str, means: list[float]
) -> None:
    (row,) = summary(*rows).fillna({"unit": ""}).itertuples()
    assert (row.score, row.unit) == (score, unit)
    assert [row.n_cells, row.n_values, row.n_missing, row.n] == counts
    assert [row.mean, row.se, row.median] == pytest.approx(means, nan_ok=True)


def test_groups_are_ordered_as_the_data_sets_come_baseline_first() -> None:
    wine = {"dataset": "wine", "nmi": 0.5}
    table = summary(
        wine | {"p": 1.0}, wine | {"p": 0.8}, wine | ALONE, {"nmi": 0.5}, {"m": 20, "status": "pending"}
    )
    assert list(table["dataset"]) == ["wine", "wine", "wine", "iris", "iris"]
    assert list(table["p"].fillna(0)) == [0, 0.8, 1.0, 0.9, 0.9]
    assert list(table["n"]) == [1, 1, 1, 1, 0]  # a group without values stays if another has some


def test_pooling_counts_every_data_set_once_by_what_the_file_writes() -> None:
    counts = [AnnotationCount(text) for text in ("0.5N", "1.5N", "12")]
    written = tables.written_counts({"a": toy.plan("a", n_samples=25)}, counts)
    assert written == {("a", 12): "12", ("a", 37): "1.5N"}
    table = summary({"nmi": 0.2}, {"nmi": 0.4}, {"dataset": "wine", "m": 20, "nmi": 0.9})
    (row,) = tables.pooled_means(table, {("iris", 10): "0.5N", ("wine", 20): "0.5N"}, "nmi").itertuples()
    assert (row.m, row.n_datasets, row.mean) == ("0.5N", 2, pytest.approx((0.3 + 0.9) / 2))
    # of data sets, the error is that of their draws
    table = pd.DataFrame({"model": "a", "mean": [0.2, 0.4, 0.9], "se": [0.3, 0.4, np.nan]})
    (row,) = tables.over_datasets(table, ["model"]).itertuples()
    assert (row.mean, row.se, row.n) == (pytest.approx(0.5), pytest.approx(0.5 / 3), 3)
    assert tables.over_datasets(table.tail(1), ["model"])["se"].isna().all()


def test_one_row_per_cell_with_the_lazy_scores_and_every_group_once() -> None:
    drawn = toy.plan("mixtures_k3", mixtures=2, replicates=1)
    plans = [toy.plan("iris"), drawn, toy.plan("own", has_labels=False)]
    tree = toy.tree(*plans, chunked=False)
    table = cell_table(tree, {plan.name: plan for plan in plans})
    assert table["status"].value_counts().to_dict() == {"done": 61, "failed": 4, "pending": 3}
    cell = scores(tree, "iris").compute().sel(p=0.8, m=24, replicate=1, model="posterior")
    at = (table["dataset"] == "iris") & (table["p"] == 0.8) & (table["m"] == 24) & (table["replicate"] == 1)
    row = table[at & (table["model"] == "posterior")].iloc[0]
    assert {name: row[name] for name in cell.data_vars} == {name: float(cell[name]) for name in cell}
    level = float(baseline_scores(tree, "iris")["nmi"])
    assert (row["relative_nmi"], row["m_over_n"]) == (row["nmi"] - level, 1.0)
    baseline = table[(table["dataset"] == "iris") & (table["model"] == "unsupervised")].iloc[0]
    assert baseline["nmi"] == level
    assert baseline[["p", "m", "replicate", "mixture"]].isna().all()
    whole = summary_table(table)
    assert not whole.duplicated([*GROUP, "score"]).any()
    assert set(whole[whole["dataset"] == "own"]["score"]) == {"annotation_agreement", "objective"}
    supervised = {"relative_nmi", "annotation_agreement"}
    assert set(whole[whole["model"] == "unsupervised"]["score"]) == set(SCORES) - supervised
    assert len(summary_table(cell_table(toy.tree(), {}))) == 0


def test_models_are_compared_in_uniform_pairs_and_in_the_first_search() -> None:
    cells = searched(("second", "first"))
    cells = cells.assign(design=["active", "uniform"] * (len(cells) // 2))
    assert tables.compared(cells) == {"design": "uniform", "search": "second"}
    assert tables.compared(cells[cells["design"] == "active"]) == {"design": "active", "search": "second"}
    rows = tables.rows_of(searched(), {"search": "second"})  # what has none stays
    assert set(rows["model"]) == {"posterior", "pckmeans", "unsupervised", "k-means"}
    assert (set(rows["search"].dropna()), rows["search"].isna().sum()) == ({"second"}, 2)
    plain = contests.contest({"a": [0.5], "b": [0.4]})
    assert (tables.compared(plain), len(tables.rows_of(plain, {}))) == ({}, 2)
    names: list[dict[str, object]] = [{"design": np.nan, "search": None}, {"design": "x", "search": "y"}]
    assert [tables.titled("iris", row) for row in names] == ["iris", "iris, x, y"]
    status = (("p", "search"), np.arange(4).reshape(2, 2))
    nodes = {
        "/a": xr.Dataset({"status": status}, {"search": ["first", "second"], "p": [0.8, 1]}),
        "/a/unsupervised": xr.Dataset({"status": ("search", [5, 6])}),
        "/a/k-means": xr.Dataset({"status": ((), 7)}),
    }
    found = tables.tree_of(xr.DataTree.from_dict(nodes), {"search": "second", "design": "uniform"})
    assert [found[path]["status"].values.tolist() for path in nodes] == [[1, 3], 6, 7]
    assert set(found["a"].coords) == {"p"}


def row(shape: str, log_loss: float = np.nan, predicted: float = np.nan, **changes: object) -> dict:
    usual = {"dataset": "wine", "p": 0.9, "m": 10, "m_over_n": 0.5, "model": "posterior-auto"}
    usual |= {"status": "done", "covariance_shape": shape, "log_loss": log_loss, "predicted": predicted}
    return usual | changes


def test_choices_and_predictions_are_counted_and_cells_without_any_left_out_of_the_means() -> None:
    rows = [
        row("full", 0.2, 0.9),
        row("full", 0.4, 0.7),
        row("spherical"),
        row("spherical", 0.6, 0.5),
        row("tied", 9.0, 0.1, status="pending"),
        row("tied", 0.1, 1.0, dataset="iris", m=5),
        row("tied", 0.1, 1.0, m=5),
        row("", 0.4, 0.8, model="posterior"),
        row("", model="posterior"),
        row("", 9.0, 0.1, model="posterior", status="failed"),
        row("", model="pckmeans"),  # a method predicts nothing, and has not too few
        row("", p=np.nan, m=np.nan, m_over_n=np.nan, model="unsupervised"),
    ]
    cells = pd.DataFrame(rows)
    found = tables.choice_table(cells)
    assert list(zip(found["dataset"], found["m"], strict=True)) == [("wine", 5), ("wine", 10), ("iris", 5)]
    assert [found.loc[1, name] for name in ("n", *CANDIDATES, "too_few")] == [4, 2, 0, 0, 2, 1]
    assert found.loc[1, ["log_loss", "predicted"]].tolist() == pytest.approx([0.4, 0.7])
    found = tables.prediction_table(cells)
    where = [("wine", 5, "-auto"), ("wine", 10, ""), ("wine", 10, "-auto"), ("iris", 5, "-auto")]
    names = [(name, m, f"posterior{end}") for name, m, end in where]
    assert list(zip(found["dataset"], found["m"], found["model"], strict=True)) == names
    assert found[["n", "too_few"]].to_numpy().tolist() == [[1, 0], [2, 1], [4, 1], [1, 0]]
    assert found["predicted"].tolist() == pytest.approx([1.0, 0.8, 0.7, 1.0])
    for table in (tables.choice_table, tables.prediction_table):
        nothing = table(cells.assign(status="pending"))
        assert nothing.empty
        assert {"dataset", "p", "m", "design", "search", "model", "n", "too_few"} <= set(nothing.columns)


@pytest.mark.parametrize(
    ("last", "held_out"), [("posterior-full", True), ("conditional-auto", True), ("conditional-auto", False)]
)
def test_every_cell_has_the_scores_of_its_own_shape(last: str, held_out: bool) -> None:
    plan = toy.plan("iris", models=("likelihood", "posterior-common", last), model_chunk=3, held_out=held_out)
    cells, _, _ = tables_of(plan)
    node = toy.tree(plan, chunked=False)["iris"].to_dataset()
    done = cells[cells["p"].notna() & (cells["status"] == "done")]
    for cell in done.itertuples():
        one = node.sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
        chooses = cell.model.endswith("-auto")
        assert (int(one["status"]), pd.isna(cell.covariance_shape)) == (DONE, not chooses)
        if chooses:
            assert CODES[cell.covariance_shape] == int(one["covariance_shape"])
        if not (held_out or chooses):
            assert pd.isna([cell.log_loss, cell.predicted]).all()
            continue
        own = cell.covariance_shape if chooses else shape_of(cell.model)
        assert cell.log_loss == float(one["held_out"].sel(candidate=own))
        assert cell.predicted == float(one["held_out_right"].sel(candidate=own))
    assert cells[cells["p"].isna()]["log_loss"].isna().all()


def node(*objectives: list[float]) -> xr.Dataset:
    return xr.Dataset({"log_likelihood": (("cell", "restart"), np.array(objectives, dtype=float))})


def test_hits_are_within_a_millionth_of_a_nat() -> None:
    found = node([5.0, 5.0 - SAME_OPTIMUM / 2, 5.0 - 3 * SAME_OPTIMUM], [-1.0, -2.0, -1.0])
    assert tables.hits(found).values.tolist() == [2, 2]
    some = node([1.0, 3.0, np.nan], [np.nan] * 3)  # restarts that were not run count nowhere
    assert tables.within(some, np.array([SAME_OPTIMUM, 2.0])).values.tolist() == [[1, 2], [0, 0]]
    lazy = tables.within(some.chunk(cell=1), GAPS)
    assert lazy.chunks is not None
    np.testing.assert_array_equal(lazy.values, tables.within(some, GAPS).values)


def test_the_chance_is_the_share_of_orders() -> None:
    """Every order of n restarts, k of which found the best."""
    for n, k in ((1, 1), (4, 1), (5, 2), (5, 5), (6, 3)):
        orders = list(permutations(range(n)))
        expected = [np.mean([min(order[:r]) < k for order in orders]) for r in range(1, n + 1)]
        np.testing.assert_allclose(tables.chance_of_best(np.array([n]), np.array([k])), expected, atol=1e-12)
    together = tables.chance_of_best(np.array([2, 5, 2]), np.array([1, 1, 1]))
    # cells of fewer restarts have their best from then on
    np.testing.assert_allclose(together, [(0.5 + 0.2 + 0.5) / 3, (2 + 0.4) / 3, 2.6 / 3, 2.8 / 3, 1.0])


def test_rates_and_gaps_of_data_sets_and_models() -> None:
    plan = toy.plan("iris", restarts=4)
    tree = toy.tree(plan, chunked=False)
    cells = cell_table(tree, {"iris": plan})
    rates = tables.restart_table(cells).set_index("model")
    assert rates["cells"].to_dict() == {"unsupervised": 1, "likelihood": 11, "posterior": 11}
    # drawn at random: no two alike, and all four are needed
    found = rates[["restarts", "hit_rate", "once", "for_95"]].drop_duplicates()
    assert found.to_numpy().tolist() == [[4, 0.25, 1, 4]]
    assert set(tables.restart_table(cells.assign(hits=3))["for_95"]) == {2}
    gaps = tables.gap_table(tree, {"iris": plan.baselines})
    assert list(gaps["model"].unique()) == ["unsupervised", "likelihood", "posterior"]
    assert all(
        rows.is_monotonic_increasing and rows.iloc[-1] == 1 for _, rows in gaps.groupby("model")["share"]
    )
    best = tree["iris/unsupervised"]["log_likelihood"].values
    of_one = gaps[(gaps["model"] == "unsupervised") & np.isclose(gaps["gap"], 0.1)]
    assert of_one["share"].item() == np.mean(best.max() - best <= 0.1)
    nothing = tree["iris/unsupervised"].to_dataset(inherit=False).assign(restarts_done=((), 0))
    alone = xr.DataTree.from_dict({"/iris": xr.Dataset(), "/iris/unsupervised": nothing})
    assert tables.gap_table(alone, {"iris": plan.baselines}).empty
