"""The same cells are paired between two cubes, and between searches and designs of a sweep."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from designed import Score, designed_cells, written_m
from searched import SEARCHES, other_shapes, search_draws

from sweep_clustering.pipeline.scoring import pairs as room
from sweep_clustering.pipeline.scoring.ranking import MEAN
from sweep_clustering.pipeline.scoring.tables import MIXTURES, REDRAWS
from sweep_clustering.sweeps.file.search import Search

USUAL: dict[str, object] = {"dataset": "iris", "mixture": pd.NA, "p": 0.9, "m": 10, "replicate": 0}
USUAL |= {"model": "posterior", "status": "done", "nmi": 0.5, "goldberger_kl": 1.0}
BASELINE = {"p": np.nan, "m": pd.NA, "replicate": pd.NA, "model": "unsupervised"}


def cells(*rows: dict[str, object]) -> pd.DataFrame:
    table = pd.DataFrame([USUAL | row for row in rows])
    return table.astype({**dict.fromkeys(("mixture", "m", "replicate"), "Int64"), "p": float})


def pairs_of(b: list[float], a: float = 0.2, score: str = "nmi", **places: object) -> pd.DataFrame:
    """Return pairs of cells with some scores in B, and one in A."""
    rows = cells(*[{}] * len(b)).assign(**{"replicate": range(len(b)), **places}, score=score, a=a, b=b)
    return rows.assign(difference=rows["b"] - rows["a"])


def test_differences_are_paired_cell_by_cell() -> None:
    first, second = ((0.1, 0), (0.5, 1), (0.9, 2)), ((0.9, 2), (0.4, 0), (0.6, 1))
    sides = [cells(*({"nmi": nmi, "replicate": k} for nmi, k in side)) for side in (first, second)]
    pairs, unpaired = room.pair(*sides, ["nmi"])
    (row,) = room.difference_table(pairs).itertuples()
    differences = np.array([0.3, 0.1, 0.0])
    assert row.n_cells == 3
    assert row.n == 3
    assert row.unit == REDRAWS
    assert row.n_missing == 0
    assert len(unpaired) == 0
    assert row.difference == pytest.approx(differences.mean())
    assert row.se == pytest.approx(differences.std(ddof=1) / np.sqrt(3))
    assert row.wins_b == pytest.approx(2 / 3)
    assert row.wins_a == 0
    assert row.ties == pytest.approx(1 / 3)
    assert row.mean_a == pytest.approx(0.5)
    assert row.mean_b == pytest.approx(1.9 / 3)
    # less divergence wins, and rounding does not
    pairs = pairs_of([0.5, 0.6, 2.0, 1.0 + 1e-12], 1.0, "goldberger_kl")
    (row,) = room.difference_table(pairs).itertuples()
    assert row.wins_b == 0.5
    assert row.wins_a == 0.25
    assert row.ties == 0.25
    # a score that one of two lacks is counted and left out
    (row,) = room.total_table(pairs_of([0.7, np.nan])).itertuples()
    assert row.n_cells == 1
    assert row.n_missing == 1
    assert row.n == 1
    assert row.n_datasets == 1
    assert row.mean_b == 0.7
    assert row.difference == pytest.approx(0.5)
    # redraws of a mixture are one unit: by hand, 0.1 and 0.3 on average have an error of 0.1
    pairs = pairs_of([0.2, 0.4, 0.5, 0.5], mixture=[0, 0, 1, 1], replicate=[0, 1, 0, 1])
    (row,) = room.difference_table(pairs).itertuples()
    assert row.n_cells == 4
    assert row.n == 2
    assert row.unit == MIXTURES
    assert row.wins_b == 0.75
    assert row.ties == 0.25
    assert row.difference == pytest.approx(0.2)
    assert row.se == pytest.approx(0.1)


def test_cells_without_a_partner_are_named_with_the_reason() -> None:
    a = cells({}, {"m": 20}, {"m": 30, "status": "failed"}, {"m": 40}, {"dataset": "wine"}, BASELINE)
    b = cells(BASELINE, {}, {"m": 30}, {"m": 40, "status": "pending"}, {"dataset": "ecoli", "mixture": 3})
    pairs, unpaired = room.pair(a, b, ["nmi"])
    assert len(pairs) == 2
    assert unpaired.set_index("cell")["why"].to_dict() == {
        "iris/p=0.9/m=20/replicate=0/posterior": "only in A",
        "iris/p=0.9/m=30/replicate=0/posterior": "not done in A",
        "iris/p=0.9/m=40/replicate=0/posterior": "not done in B",
        "wine/p=0.9/m=10/replicate=0/posterior": "only in A",
        "ecoli/mixture=3/p=0.9/m=10/replicate=0/posterior": "only in B",
    }


def test_cells_of_a_cube_that_names_no_design_or_search_pair_with_those_of_their_name() -> None:
    in_search = [{}, {"m": 20}, BASELINE, {"model": "pckmeans"}]
    alone = {**BASELINE, "model": "k-means"}  # a method without annotations is of no search
    named = [
        {**row, "search": "long", **({} if row is BASELINE else {"design": "uniform"})} for row in in_search
    ]
    extra = {"design": "active", "search": "long", "m": 20}
    for swap in (1, -1):
        sides = (cells(*in_search, alone), cells(*named, alone, extra))[::swap]
        pairs, unpaired = room.pair(*sides, ["nmi"], ("long", "long"))
        assert len(pairs) == 5
        only = "only in B" if swap == 1 else "only in A"
        name = "iris/p=0.9/m=20/design=active/replicate=0/search=long/posterior"
        assert unpaired.to_numpy().tolist() == [[name, only]]


def test_in_all_each_data_set_counts_alike_with_the_error_of_its_draws() -> None:
    """By hand, two redraws (each a mean over m) give 0.2 ± 0.1, and two mixtures give 0.4 ± 0.3."""
    redrawn = pairs_of([0.1, 0.3, 0.3, 0.5], 0.1, m=[10, 10, 20, 20], replicate=[0, 1, 0, 1])
    drawn = pairs_of([0.2, 0.8], 0.1, dataset="mix", mixture=[0, 1], replicate=0)
    (row,) = room.total_table(pd.concat([redrawn, drawn], ignore_index=True)).itertuples()
    assert row.n_datasets == 2
    assert row.n_cells == 6
    assert row.n == 4
    assert row.unit == f"{MIXTURES} and {REDRAWS}"
    assert row.difference == pytest.approx(0.3)
    assert row.se == pytest.approx(np.sqrt(0.1**2 + 0.3**2) / 2)
    # a data set that nothing draws again has no error
    pairs = pairs_of([0.7, 0.7], **BASELINE | {"dataset": ["iris", "wine"]})
    assert room.difference_table(pairs)["se"].isna().all()
    (row,) = room.total_table(pairs).itertuples()
    assert row.n_datasets == 2
    assert row.n_cells == 2
    assert pd.isna([row.se, row.unit]).all()


def only(cells: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return differences and costs of the one search beside the first."""
    tables = room.compared_searches(cells, SEARCHES)
    for table in tables.values():
        assert table[["search", "reference"]].drop_duplicates().to_numpy().tolist() == [["second", "first"]]
    return tables["searches"].set_index(KEYS), tables["search-costs"].set_index(KEYS[1:])


KEYS = ["score", "dataset", "model"]


def test_searches_are_paired_by_cell_and_costs_are_ratios() -> None:
    table, costs = only(search_draws())
    # methods do not search
    assert set(table.index.get_level_values("model")) == {"posterior", "unsupervised"}
    row = table.loc[("objective", "a", "posterior")]
    assert row["n_cells"] == 4
    assert row["n"] == 4
    assert row["unit"] == "redraws"
    assert row["wins_b"] == 0.25
    assert row["wins_a"] == 0.25
    assert row["ties"] == 0.5
    assert row["difference"] == pytest.approx(-0.25)
    # the variance of 1, -2, 0 and 0 is 1.5833
    assert row["se"] == pytest.approx((4.75 / 3 / 4) ** 0.5)
    assert table.loc[("nmi", "a", "posterior"), "difference"] == pytest.approx(0.025)
    assert table.loc[
        ("nmi", room.ALL_SETS, "posterior"), ["difference", "n_cells"]
    ].tolist() == pytest.approx([0.0125, 8])
    assert table.loc[("objective", "a", "unsupervised"), "ties"] == 1
    assert list(costs[list(room.COSTS[2:])].loc[("a", "posterior")]) == [4, 0.5, 1.0, 0.5, 0.25]
    assert list(costs[list(room.COSTS[2:])].loc[(room.ALL_SETS, "unsupervised")]) == [2, 0.5, 1.0, 0.5, 0.25]
    assert costs.index.tolist() == [
        (name, model) for name in (room.ALL_SETS, "a", "b") for model in ("posterior", "unsupervised")
    ]


def test_other_objectives_do_not_compare() -> None:
    first, second, prior = SEARCHES
    assert room.compared_scores(first, second) == ("objective", "nmi", "adjusted_rand")
    assert room.compared_scores(first, prior) == ("nmi", "adjusted_rand")
    tables = room.compared_searches(search_draws(("first", "second", "prior")), SEARCHES)
    table, costs = (frame[frame["search"] == "prior"] for frame in tables.values())
    assert set(table["score"]) == {"nmi", "adjusted_rand"}
    assert costs["to_best"].isna().all()
    assert (costs["cpu"] == 1).all()
    # objectives of cells that chose another shape do not compare either
    table, _ = only(other_shapes())
    row = table.loc[("objective", "a", "posterior")]
    assert row["n_cells"] == 3
    assert row["n_missing"] == 1
    assert row["wins_a"] == 0
    assert row["wins_b"] == pytest.approx(1 / 3)
    assert table.loc[("nmi", "a", "posterior"), "n_cells"] == 4


def test_only_cells_that_are_done_in_both_are_compared() -> None:
    cells = search_draws()
    late = (cells["search"] == "second") & (cells["replicate"] == 0)
    table, costs = only(cells.assign(status=cells["status"].mask(late, "pending")))
    assert costs.loc[("a", "posterior"), "n_cells"] == 3
    assert table.loc[("nmi", "a", "posterior"), "n_cells"] == 3
    none = cells.assign(status=cells["status"].mask(cells["search"] == "second", "pending"))
    alone = search_draws(("first",))
    for rows in (none, alone, alone.iloc[:0]):
        assert room.compared_searches(rows, SEARCHES) == {}
    assert room.compared_searches(alone.drop(columns="search"), (Search(),)) == {}


SPREAD = (0.0, 0.1, 0.2, 0.3)


def score(design: str, x: float, unit: int) -> float:
    """Return a score: units differ by tenths, and active pairs gain 0.05, and 0.01 more in odd units."""
    gain = 0.05 * x + 0.01 * (unit % 2) if design == "active" else 0.0
    return 0.2 * x + SPREAD[unit % 4] + gain


def of(cells: pd.DataFrame, *datasets: str) -> pd.DataFrame:
    """Return the rows of the first score by data set and design."""
    scores = room.design_scores(cells, written_m(*(datasets or ("a",))))
    return scores["nmi"].set_index(["dataset", "design"])


def one(score: Score, **more: Any) -> pd.DataFrame:
    return of(designed_cells(score, **more)).loc[("a", "active")]


def test_differences_are_paired_by_redraw() -> None:
    rows_of_designs = of(designed_cells(score))
    uniform, active = (rows_of_designs.loc[("a", design)] for design in ("uniform", "active"))
    for rows in (uniform, active):
        assert (
            rows[["p", "model", "n", "unit"]].to_numpy().tolist() == [[0.8, "conditional", 4, "redraws"]] * 3
        )
        assert rows[["m", "m_over_n"]].to_numpy().tolist() == [["0.5N", 0.5], ["1N", 1.0], ["1.5N", 1.5]]
    assert uniform["mean"].tolist() == pytest.approx([0.25, 0.35, 0.45])
    assert uniform["se"].tolist() == pytest.approx([np.std(SPREAD, ddof=1) / 2] * 3)
    assert uniform[["difference", "difference_se", "worth", "ratio"]].isna().all(axis=None)
    assert active["difference"].tolist() == pytest.approx([0.03, 0.055, 0.08])
    # the error is that of 0, 0.01, 0 and 0.01 alone: what units have in common cancels
    assert active["difference_se"].tolist() == pytest.approx([np.std([0, 0.01, 0, 0.01], ddof=1) / 2] * 3)
    uniform = of(designed_cells(score, mixtures=3, draws=2)).loc[("a", "uniform")]
    assert uniform[["n", "unit"]].to_numpy().tolist() == [[3, "mixtures"]] * 3
    assert uniform["mean"].tolist() == pytest.approx([0.2, 0.3, 0.4])
    # replicates of a mixture are averaged first
    assert uniform["se"].tolist() == pytest.approx([0.1 / np.sqrt(3)] * 3)


def test_a_place_that_lacks_a_design_is_left_out_for_all() -> None:
    cells = designed_cells(score)
    gone = (cells["design"] == "active") & (cells["m"] == 100) & (cells["replicate"] == 3)
    cells.loc[gone, ["status", "nmi"]] = ["failed", np.nan]
    uniform = of(cells).loc[("a", "uniform")]
    assert uniform[["n", "mean"]].to_numpy() == pytest.approx(np.array([[3, 0.2], [3, 0.3], [3, 0.4]]))
    cells.loc[gone, "status"] = "no solution"
    active = of(cells).loc[("a", "active")]
    assert active.iloc[1][["n", "mean"]].tolist() == pytest.approx([4, (0.25 + 0.36 + 0.45 + 0.0) / 4])
    cells = designed_cells(score)
    cells.loc[(cells["design"] == "active") & (cells["m"] == 150), ["status", "nmi"]] = ["pending", np.nan]
    assert of(cells).loc[("a", "uniform"), "m"].tolist() == ["0.5N", "1N"]
    for alone in ("uniform", "active"):
        assert room.design_scores(designed_cells(score, designs=(alone,)), written_m("a")) == {}
    assert room.design_scores(designed_cells(score).drop(columns="design"), written_m("a")) == {}


@pytest.mark.parametrize(
    ("x", "curve", "levels", "worth"),
    [
        # the first point is reached at the first point
        ([0.5, 1.0, 1.5], [0.2, 0.4, 0.6], [0.2, 0.4, 0.6], [0.0, 1.0, 1.5]),
        ([0.5, 1.0, 1.5], [0.2, 0.4, 0.6], [0.3, 0.5, 0.59], [0.75, 1.25, 1.475]),
        ([0.5, 1.0, 1.5], [0.2, 0.4, 0.6], [0.1, 0.0, 0.61], [0.0, 0.0, np.inf]),
        # a curve that falls counts by the largest so far
        ([0.0, 0.5, 1.0, 1.5], [0.3, 0.1, 0.3, 0.7], [0.2, 0.3, 0.5], [0.0, 0.0, 1.25]),
        ([0.0, 0.5, 1.0, 1.5], [0.0, 0.4, 0.4, 0.4], [0.4, 0.2], [0.5, 0.25]),
    ],
)
def test_levels_of_a_straight_curve(x: Any, curve: Any, levels: Any, worth: Any) -> None:
    assert room.reached(np.array(x), np.array([curve]), np.array([levels]))[0] == pytest.approx(worth)


def level(uniform: tuple[float, ...], active: tuple[float, ...]) -> Score:
    """Return a score with the same curve in every unit."""
    curves = {"uniform": uniform, "active": active}
    return lambda design, x, unit: curves[design][round(2 * x) - 1]


def test_half_the_pairs_are_worth_as_many_again() -> None:
    worths = one(lambda design, x, unit: (0.2 + 0.2 * (design == "active")) * x + 0.01 * unit, baseline=0.0)
    # the baseline is 0.015 below where the lines would begin
    assert worths[["least", "worth"]].to_numpy().tolist() == [[0, pytest.approx(1)], [0, np.inf], [0, np.inf]]
    # units differ by as much for both designs, so that nothing is left to chance
    ends = ["worth_low", "worth_high", "ratio", "ratio_low", "ratio_high"]
    assert worths.iloc[0][ends].tolist() == pytest.approx([1, 1, 0.5, 0.5, 0.5])
    worse = one(level((0.4, 0.5, 0.6), (0.1, 0.45, 0.7)))
    assert worse[["least", "most"]].to_numpy().tolist() == [[0.5, 1.5]] * 3
    assert worse["worth"].tolist() == pytest.approx([0.0, 0.75, np.inf])
    assert np.isnan(room.ratio(worse["m_over_n"], worse["worth"])[[0, 2]]).all()
    started = one(level((0.4, 0.5, 0.6), (0.3, 0.45, 0.7)), baseline=0.2)
    assert started["worth"].tolist() == pytest.approx([0.25, 0.75, np.inf])


def test_intervals_hold_what_other_units_would_give() -> None:
    """The spread of the worth over sweeps drawn anew is that of its interval."""
    rng = np.random.default_rng(0)

    def drawn() -> pd.Series:
        noise = {design: rng.normal(scale=0.1, size=40) for design in ("uniform", "active")}
        slopes = {"uniform": 0.3, "active": 0.4}
        rows = one(lambda design, x, unit: slopes[design] * x + noise[design][unit], baseline=0.0, draws=40)
        return rows.iloc[0]

    rows = [drawn() for _ in range(25)]
    assert abs(np.median([row["worth"] for row in rows]) - 2 / 3) < 0.05
    assert np.mean([row["worth_low"] <= 2 / 3 <= row["worth_high"] for row in rows]) >= 0.85
    assert all(row["worth_low"] < row["worth"] < row["worth_high"] for row in rows)
    alone = one(score, draws=1)
    assert alone[["se", "difference_se", "worth_low", "worth_high"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(one(score), one(score))


def test_data_sets_count_alike_and_their_errors_are_those_of_draws() -> None:
    cells = designed_cells(score, datasets=("a", "b"))
    cells.loc[cells["dataset"] == "b", "nmi"] += 0.2
    rows_of_designs = of(cells, "a", "b")
    assert rows_of_designs.index.unique("dataset").tolist() == [MEAN, "a", "b"]
    whole, a, b = (rows_of_designs.loc[(name, "active")].reset_index() for name in (MEAN, "a", "b"))
    assert whole[["title", "n", "unit"]].iloc[0].tolist() == ["mean of 2 data sets", 2, "data sets"]
    assert whole["mean"].tolist() == pytest.approx(((a["mean"] + b["mean"]) / 2).tolist())
    expected_error = np.hypot(a["difference_se"], b["difference_se"]) / 2
    assert whole["difference_se"].tolist() == pytest.approx(expected_error.tolist())
    # data sets of other counts are not averaged with these
    counts = written_m("a") | {("b", m): text for m, text in ((50, "x"), (100, "y"), (150, "z"))}
    assert room.design_scores(cells, counts)["nmi"]["dataset"].unique().tolist() == ["a", "b"]
    # worths are those of the mean curves
    cells = designed_cells(level((0.2, 0.4, 0.6), (0.4, 0.5, 0.6)), datasets=("a", "b"))
    cells.loc[(cells["dataset"] == "b") & (cells["design"] == "active"), "nmi"] -= 0.1
    rows_of_designs = of(cells, "a", "b").reorder_levels(["design", "dataset"]).loc["active", "worth"]
    expected = {MEAN: [0.875, 1.125, 1.375], "a": [1.0, 1.25, 1.5], "b": [0.75, 1.0, 1.25]}
    assert {name: rows_of_designs.loc[name].tolist() for name in expected} == {
        name: pytest.approx(worths) for name, worths in expected.items()
    }
