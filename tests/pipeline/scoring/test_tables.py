"""Tables of scores are right for hand-made cells and for a small cube."""

import math
from itertools import permutations
from typing import Any

import contests
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from cubes import toy
from searched import search_draws

from sweep_clustering.pipeline.common import SAME_OPTIMUM
from sweep_clustering.pipeline.scoring import tables
from sweep_clustering.pipeline.scoring.scores import SCORES, baseline_scores, scores
from sweep_clustering.pipeline.scoring.tables import GAPS, GROUP, MIXTURES, REDRAWS, cell_table, summary_table
from sweep_clustering.sweeps.file.spec import AnnotationCount
from sweep_clustering.sweeps.shapes import CANDIDATES, CODES
from sweep_clustering.sweeps.words import shape_of

USUAL = {"dataset": "iris", "n_clusters": 3, "mixture": pd.NA, "p": 0.9, "m": 10, "m_over_n": 0.1}
ALONE = {"p": np.nan, "m": np.nan, "m_over_n": np.nan, "replicate": pd.NA, "model": "unsupervised"}


def summary(*rows: dict[str, object]) -> pd.DataFrame:
    """Return the summary of redraws of posterior at p = 0.9 and m = 10, with some values changed."""
    usual = {**USUAL, "model": "posterior", "status": "done", **dict.fromkeys(SCORES, np.nan)}
    table = pd.DataFrame([{"replicate": place, **usual, **row} for place, row in enumerate(rows)])
    return summary_table(table.astype(dict.fromkeys(("mixture", "replicate"), "Int64")))


# mixtures have the means 0.3, 0.5, 0.7, with an error of 0.2 / √3; nine cells have less
DRAWS = ((0.2, 0.3, 0.4), (0.5, 0.5, 0.5), (0.6, 0.7, 0.8))
MIXED = [
    {"mixture": k, "replicate": r, "nmi": nmi} for k, draw in enumerate(DRAWS) for r, nmi in enumerate(draw)
]
UNDEFINED: list[dict[str, Any]] = [{"goldberger_kl": 1.0}, {}, {"status": "pending"}, {"status": "failed"}]
OF_MIXTURES = [ALONE | {"mixture": k, "nmi": nmi} for k, nmi in enumerate((0.3, 0.5))]


def test_a_group_has_means_over_units() -> None:
    rows: list[Any]
    for rows, score, counts, unit, means in (
        ([{"nmi": x} for x in (0.2, 0.4, 0.9)], "nmi", [3, 3, 0, 3], REDRAWS, [0.5, (0.13 / 3) ** 0.5, 0.4]),
        (MIXED, "nmi", [9, 9, 0, 3], MIXTURES, [0.5, 0.2 / 3**0.5, 0.5]),
        (UNDEFINED, "goldberger_kl", [4, 1, 1, 1], REDRAWS, [1.0, np.nan, 1.0]),
        ([ALONE | {"nmi": 0.5}], "nmi", [1, 1, 0, 1], "", [0.5, np.nan, 0.5]),  # nothing draws it again
        (OF_MIXTURES, "nmi", [2, 2, 0, 2], MIXTURES, [0.4, 0.1, 0.4]),
    ):
        (row,) = summary(*rows).fillna({"unit": ""}).itertuples()
        assert row.score == score
        assert row.unit == unit
        assert [row.n_cells, row.n_values, row.n_missing, row.n] == counts
        assert [row.mean, row.se, row.median] == pytest.approx(means, nan_ok=True)


def test_groups_come_as_in_the_file_baseline_first_and_pooling_counts_every_data_set_once() -> None:
    wine, more = {"dataset": "wine", "nmi": 0.5}, {"m": 20, "status": "pending"}
    table = summary(wine | {"p": 1.0}, wine | {"p": 0.8}, wine | ALONE, {"nmi": 0.5}, more)
    assert list(table["dataset"]) == ["wine", "wine", "wine", "iris", "iris"]
    assert list(table["p"].fillna(0)) == [0, 0.8, 1.0, 0.9, 0.9]
    assert list(table["n"]) == [1, 1, 1, 1, 0]  # a group without values stays if another has some
    counts = [AnnotationCount(text) for text in ("0.5N", "1.5N", "12")]
    texts = tables.written_counts({"a": toy.plan("a", n_samples=25)}, counts)
    assert texts == {("a", 12): "12", ("a", 37): "1.5N"}
    table = summary({"nmi": 0.2}, {"nmi": 0.4}, {"dataset": "wine", "m": 20, "nmi": 0.9})
    (row,) = tables.pooled_means(table, {("iris", 10): "0.5N", ("wine", 20): "0.5N"}, "nmi").itertuples()
    assert row.m == "0.5N"
    assert row.n_datasets == 2
    assert row.mean == pytest.approx((0.3 + 0.9) / 2)
    # the error over data sets is that of their draws
    table = pd.DataFrame({"model": "a", "mean": [0.2, 0.4, 0.9], "se": [0.3, 0.4, np.nan]})
    (row,) = tables.over_datasets(table, ["model"]).itertuples()
    assert row.mean == pytest.approx(0.5)
    assert row.se == pytest.approx(0.5 / 3)
    assert row.n == 3
    assert tables.over_datasets(table.tail(1), ["model"])["se"].isna().all()


def test_one_row_per_cell_with_the_lazy_scores_and_every_group_once() -> None:
    drawn = toy.plan("mixtures_k3", mixtures=2, replicates=1)
    plans = {plan.name: plan for plan in (toy.plan("iris"), drawn, toy.plan("own", has_labels=False))}
    tree = toy.tree(*plans.values(), chunked=False)
    table = cell_table(tree, plans)
    assert list(table) == list(tables.COLUMNS)
    assert table["status"].value_counts().to_dict() == {"done": 61, "failed": 4, "pending": 3}
    cell = scores(tree, "iris").isel(p=-1, m=-1, replicate=-1, model=-1)
    row = table[(table["dataset"] == "iris") & table["p"].notna()].iloc[-1]
    assert {name: row[name] for name in cell.data_vars} == {name: float(cell[name]) for name in cell}
    baseline = table[(table["dataset"] == "iris") & (table["model"] == "unsupervised")].iloc[0]
    assert baseline["nmi"] == float(baseline_scores(tree, "iris")["nmi"])
    assert row["relative_nmi"] == row["nmi"] - baseline["nmi"]
    assert row["m_over_n"] == 1.0
    assert baseline[["p", "m", "replicate", "mixture"]].isna().all()
    whole = summary_table(table)
    assert not whole.duplicated([*GROUP, "score"]).any()
    assert set(whole[whole["dataset"] == "own"]["score"]) == {"annotation_agreement", "objective"}
    alone = set(whole[whole["model"] == "unsupervised"]["score"])
    assert alone == set(SCORES) - {"relative_nmi", "annotation_agreement"}
    assert len(summary_table(cell_table(toy.tree(), {}))) == 0


def test_models_are_compared_in_uniform_pairs_and_in_the_first_search() -> None:
    cells = search_draws(("second", "first"))
    cells["design"] = ["active", "uniform"] * (len(cells) // 2)
    assert tables.compared_variants(cells) == {"design": "uniform", "search": "second"}
    assert tables.compared_variants(cells[cells["design"] == "active"]) == {
        "design": "active",
        "search": "second",
    }
    rows = tables.rows_of(search_draws(), {"search": "second"})  # rows without a search stay
    assert set(rows["model"]) == {"posterior", "pckmeans", "unsupervised", "k-means"}
    assert set(rows["search"].dropna()) == {"second"}
    assert rows["search"].isna().sum() == 2


def test_choices_and_predictions_are_counted_and_cells_without_any_left_out_of_the_means() -> None:
    auto, none = "posterior-auto", np.nan
    rows: list[tuple[Any, ...]] = [
        ("wine", 0.9, 10, auto, "done", "full", 0.2, 0.9),
        ("wine", 0.9, 10, auto, "done", "full", 0.4, 0.7),
        ("wine", 0.9, 10, auto, "done", "spherical", none, none),
        ("wine", 0.9, 10, auto, "done", "spherical", 0.6, 0.5),
        ("wine", 0.9, 10, auto, "pending", "tied", 9.0, 0.1),
        ("iris", 0.9, 5, auto, "done", "tied", 0.1, 1.0),
        ("wine", 0.9, 5, auto, "done", "tied", 0.1, 1.0),
        ("wine", 0.9, 10, "posterior", "done", "", 0.4, 0.8),
        ("wine", 0.9, 10, "posterior", "done", "", none, none),
        ("wine", 0.9, 10, "posterior", "failed", "", 9.0, 0.1),
        ("wine", 0.9, 10, "pckmeans", "done", "", none, none),  # predicts nothing, and has not too few
        ("wine", none, none, "unsupervised", "done", "", none, none),
    ]
    heads = ("dataset", "p", "m", "model", "status", "covariance_shape", "log_loss", "predicted")
    cells = pd.DataFrame(rows, columns=heads).assign(m_over_n=0.5)
    choices = tables.choice_table(cells)
    assert choices[["dataset", "m"]].to_numpy().tolist() == [["wine", 5], ["wine", 10], ["iris", 5]]
    assert [choices.loc[1, name] for name in ("n", *CANDIDATES, "too_few")] == [4, 2, 0, 0, 2, 1]
    assert choices.loc[1, ["log_loss", "predicted"]].tolist() == pytest.approx([0.4, 0.7])
    choices = tables.prediction_table(cells)
    assert choices[["dataset", "m", "model", "n", "too_few"]].to_numpy().tolist() == [
        ["wine", 5, auto, 1, 0],
        ["wine", 10, "posterior", 2, 1],
        ["wine", 10, auto, 4, 1],
        ["iris", 5, auto, 1, 0],
    ]
    assert choices["predicted"].tolist() == pytest.approx([1.0, 0.8, 0.7, 1.0])
    for table in (tables.choice_table, tables.prediction_table):
        nothing = table(cells.assign(status="pending"))
        assert nothing.empty
        assert {*tables.CHOICES_OF, "n", "too_few"} <= set(nothing)


@pytest.mark.parametrize(
    ("last", "held_out"), [("posterior-full", True), ("conditional-auto", True), ("conditional-auto", False)]
)
def test_every_cell_has_the_scores_of_its_own_shape(last: str, held_out: bool) -> None:
    plan = toy.plan("iris", models=("likelihood", "posterior-common", last), model_chunk=3, held_out=held_out)
    tree = toy.tree(plan, chunked=False)
    cells = cell_table(tree, {"iris": plan})
    for cell in cells[cells["p"].notna() & (cells["status"] == "done")].itertuples():
        results = (
            tree["iris"].to_dataset().sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
        )
        shape, chooses = shape_of(cell.model), cell.model.endswith("-auto")
        assert pd.isna(cell.covariance_shape) != chooses
        if chooses:
            shape = cell.covariance_shape
            assert CODES[shape] == int(results["covariance_shape"])
        scored = results[["held_out", "held_out_right"]].sel(candidate=shape if held_out or chooses else [])
        expected = [float(value.sum(min_count=1)) for value in scored.values()]
        np.testing.assert_equal([cell.log_loss, cell.predicted], expected)
    assert cells[cells["p"].isna()]["log_loss"].isna().all()


def test_hits_are_within_a_millionth_of_a_nat() -> None:
    best = [[5.0, 5.0 - SAME_OPTIMUM / 2, 5.0 - 3 * SAME_OPTIMUM], [-1.0, -2.0, -1.0]]
    assert tables.hits(xr.Dataset({"log_likelihood": (("cell", "restart"), best)})).values.tolist() == [2, 2]
    # restarts that were not run count nowhere
    some = xr.Dataset({"log_likelihood": (("cell", "restart"), [[1.0, 3.0, np.nan], [np.nan] * 3])})
    assert tables.count_within(some, np.array([SAME_OPTIMUM, 2.0])).values.tolist() == [[1, 2], [0, 0]]
    lazy = tables.count_within(some.chunk(cell=1), GAPS)
    assert lazy.chunks is not None
    np.testing.assert_array_equal(lazy, tables.count_within(some, GAPS))


def test_the_chance_is_the_share_of_orders() -> None:
    """All orders of n restarts are counted, k of which found the best."""
    for n, k in ((1, 1), (4, 1), (5, 2), (5, 5), (6, 3)):
        orders = list(permutations(range(n)))
        expected = [np.mean([min(order[:r]) < k for order in orders]) for r in range(1, n + 1)]
        np.testing.assert_allclose(tables.chance_of_best(np.array([n]), np.array([k])), expected, atol=1e-12)
    together = tables.chance_of_best(np.array([2, 5, 2]), np.array([1, 1, 1]))
    # cells of fewer restarts have their best from then on
    np.testing.assert_allclose(together, [(0.5 + 0.2 + 0.5) / 3, (2 + 0.4) / 3, 2.6 / 3, 2.8 / 3, 1.0])
    cells = contests.table([contests.cell("d", "a", 0.5, hits=1, restarts_done=20)])
    (row,) = tables.restart_table(cells).itertuples()
    # if all restarts hit the best it is no finding, and nothing is known of a single restart
    assert row.hit_rate == 0.05
    assert row.once == 1
    assert row.most == 20
    assert row.for_95 == 19
    assert row.for_99 == math.inf
    for n, hits, expected in ((3, (1, 2), math.inf), (3, (3, 3), 1), (1, (1, 1), math.nan)):
        some = [contests.cell("d", "a", 0.5, hits=n_hits, restarts_done=n) for n_hits in hits]
        (row,) = tables.restart_table(contests.table(some)).itertuples()
        np.testing.assert_equal((row.most, row.for_95, row.for_99), (n, expected, expected))


def test_gaps_of_data_sets_and_models() -> None:
    tree, names = toy.tree(toy.plan("iris"), chunked=False), {"iris": ("unsupervised",)}
    gaps = tables.gap_table(tree, names, {})
    assert list(gaps["model"].unique()) == ["unsupervised", "likelihood", "posterior"]
    for _, shares in gaps.groupby("model")["share"]:
        assert shares.is_monotonic_increasing
        assert shares.iloc[-1] == 1
    best = tree["iris/unsupervised"]["log_likelihood"].values
    of_one = gaps[(gaps["model"] == "unsupervised") & np.isclose(gaps["gap"], 0.1)]
    assert of_one["share"].item() == np.mean(best.max() - best <= 0.1)
    nothing = tree["iris/unsupervised"].to_dataset(inherit=False).assign(restarts_done=((), 0))
    alone = xr.DataTree.from_dict({"/iris": xr.Dataset(), "/iris/unsupervised": nothing})
    assert tables.gap_table(alone, names, {}).empty
