"""Models are ranked, also on kinds of data: means over shared places, and tests that equal scipy's."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from contests import BASE, OFFSETS, cell, contest, table
from cubes import toy
from scipy import stats

from sweep_clustering.pipeline.scoring import ranking
from sweep_clustering.pipeline.scoring.ranking import (
    MEAN,
    MOST_PUBLISHED,
    SETTINGS,
    Ranking,
    by_accuracy,
    facts,
    kinds,
    rank,
    rank_published,
    ranks_by_kind,
    suite_name,
)
from sweep_clustering.pipeline.scoring.tables import MIXTURES, REDRAWS

MEANS = ["mean", "se"]
COUNTS = ["n", "unit", "n_places", "done"]


def values(ranking: Ranking, model: str) -> pd.Series:
    return ranking.values[ranking.values["model"] == model].iloc[0]


def test_a_mean_is_over_redraws_each_of_them_over_p_and_m_first() -> None:
    posterior = {(0.8, 5, 0): 0.1, (0.8, 9, 0): 0.3, (1.0, 5, 0): 0.5, (1.0, 9, 0): 0.7}
    posterior |= {(p, m, 1): value + 0.2 for (p, m, _), value in posterior.items()}
    rows = [cell("iris", "posterior", value, p=p, m=m, replicate=k) for (p, m, k), value in posterior.items()]
    ranking = rank(table([cell("iris", "unsupervised", 0.45), *rows]), "nmi")
    ours, level = values(ranking, "posterior"), values(ranking, "unsupervised")
    assert ours[MEANS].tolist() == pytest.approx([0.5, 0.1])  # two redraws count, not eight cells
    assert ours[COUNTS].tolist() == [2, REDRAWS, 8, 8]
    assert level[MEANS].tolist() == pytest.approx([0.45, np.nan], nan_ok=True)  # nothing redraws it
    assert level[COUNTS].tolist() == [2, REDRAWS, 8, 1]
    by_p = by_accuracy(ranking).set_index(["dataset", "model", "p"])[MEANS].sort_index()
    assert by_p.loc[("iris", "posterior", 0.8)].tolist() == pytest.approx([0.3, 0.1])
    expected = np.array([[0.45, np.nan], [0.45, np.nan]])
    assert by_p.loc[("iris", "unsupervised")].to_numpy() == pytest.approx(expected, nan_ok=True)


def test_mixtures_are_the_unit_of_mixtures() -> None:
    levels = {"k-means": (0.2, 0.4, 0.9), "posterior": (0.1, 0.5, 0.6)}
    rows = [cell("mix", "k-means", level, mixture=k) for k, level in enumerate(levels["k-means"])]
    for (k, level), (p, off) in product(enumerate(levels["posterior"]), ((0.8, -0.1), (1.0, 0.1))):
        rows += [cell("mix", "posterior", level + off, mixture=k, p=p, replicate=draw) for draw in range(2)]
    ranking = rank(table(rows), "nmi")
    for model, level in levels.items():
        expected = [np.mean(level), np.std(level, ddof=1) / np.sqrt(3)]
        assert values(ranking, model)[MEANS].tolist() == pytest.approx(expected)
        assert values(ranking, model)[COUNTS[:3]].tolist() == [3, MIXTURES, 12]


def test_no_solution_counts_as_nothing_found_and_failures_count_for_nobody() -> None:
    rows = [cell("iris", "k-means", 0.6)]
    rows += [cell("iris", "posterior", 0.5 + 0.1 * draw, p=0.9, replicate=draw) for draw in range(4)]
    states = ("done", "no solution", "failed", "pending")
    rows += [cell("iris", "cop-kmeans", 0.9, p=0.9, replicate=k, status=s) for k, s in enumerate(states)]
    ranking = rank(table(rows), "adjusted_rand")
    assert list(ranking.places["iris"].index.get_level_values("replicate")) == [0, 1]
    cop = values(ranking, "cop-kmeans")
    assert cop["mean"] == pytest.approx(0.45)
    assert list(cop[["done", "no_solution", "failed", "pending"]]) == [1, 1, 1, 1]
    assert values(ranking, "posterior")["mean"] == pytest.approx(0.55)


def test_what_shares_no_place_has_no_mean() -> None:
    rows = [cell("iris", "unsupervised", 0.5, status="pending"), cell("iris", "posterior", 0.7, p=0.9)]
    rows += [cell("wine", "unsupervised", 0.4), cell("wine", "posterior", 0.8, p=0.9)]
    # a model without any result on a data set does not empty it for others
    means = rank(table(rows), "nmi").values["mean"].tolist()
    assert means == pytest.approx([np.nan, 0.7, 0.4, 0.8], nan_ok=True)
    states = {("posterior", 0): "done", ("posterior", 1): "pending"}
    states |= {("likelihood", 0): "pending", ("likelihood", 1): "done"}
    apart = [cell("iris", model, 0.5, p=0.9, replicate=k, status=s) for (model, k), s in states.items()]
    unlabelled = [cell("own", "posterior", np.nan, p=0.9), cell("own", "unsupervised", np.nan)]
    for cells, datasets in ((apart, ["iris"]), (unlabelled, []), ([], [])):
        ranking = rank(table(cells), "nmi")
        assert ranking.values["mean"].isna().all()
        assert list(ranking.places) == datasets
        assert ranking.models == []
        assert by_accuracy(ranking).empty
    # baselines alone have places too
    rows = [cell("iris", "k-means", 0.5), cell("iris", "ward", 0.7)]
    rows += [cell("mix", name, 0.1 * k, mixture=k) for name in ("k-means", "ward") for k in range(3)]
    ranking = rank(table(rows), "nmi")
    assert ranking.values["mean"].tolist() == pytest.approx([0.5, 0.7, 0.1, 0.1])
    assert ranking.values["n"].tolist() == [1, 1, 3, 3]
    assert by_accuracy(ranking).empty


def test_a_mean_of_all_has_the_error_of_its_draws_over_the_data_sets_that_are_ranked() -> None:
    slopes, names = {"posterior": 1.0, "conditional": 0.5}, ("d0", "d1", "d2")
    rows = [cell(name, "k-means", 0.5) for name in names]
    for name, (model, slope), p, draw in product(names, slopes.items(), (0.7, 1.0), range(2)):
        if (name, model) != ("d2", "posterior"):
            rows.append(cell(name, model, slope * p - 0.2 + 0.1 * draw, p=p, replicate=draw))
    means = by_accuracy(rank(table(rows), "nmi"))
    assert means["dataset"].unique().tolist() == [*names, MEAN]
    whole = means[means["dataset"] == MEAN].set_index(["model", "p"])[["mean", "se", "n"]]
    # each data set has an error of 0.05 over two redraws, and their mean that over the root of two
    assert whole.loc[("posterior", 0.7)].tolist() == pytest.approx([0.55, 0.05 / np.sqrt(2), 2])
    assert whole.loc[("k-means", 1.0)].tolist() == pytest.approx([0.5, np.nan, 2], nan_ok=True)


def pair(ranking: Ranking, a: str, b: str) -> pd.Series:
    return ranking.pairs.set_index(["a", "b"]).loc[(a, b)]


def test_order_ranks_and_duels_by_hand() -> None:
    levels = {"b": (0.5, 0.5, 0.2), "a": (0.4, 0.6, 0.2), "c": (0.1, 0.2, 0.9)}
    ranking = rank(contest(levels), "nmi")
    assert ranking.ranks.loc["d2"].to_dict() == {"b": 2.5, "a": 2.5, "c": 1.0}
    duel = pair(ranking, "b", "a")
    assert duel[["wins_a", "ties", "wins_b", "difference"]].tolist() == pytest.approx([1, 1, 1, 0])
    assert ranking.matrix().loc[("a", "c")].tolist() == [2, 0, 1]
    assert ranking.matrix().loc[("c", "a")].tolist() == [1, 0, 2]
    rows = ranking.table().set_index("model")
    assert rows["mean_rank"].to_dict() == pytest.approx({"b": 5.5 / 3, "a": 5.5 / 3, "c": 7 / 3})
    assert rows.loc["b", ["wins", "ties", "losses", "best"]].tolist() == [3, 1, 2, 1]
    assert rows.loc["c", ["n_datasets", "done", "pending"]].tolist() == [3, 6, 0]
    assert not ranking.is_tested
    assert ranking.groups == []
    assert ranking.different_pairs == set()
    assert ranking.pairs["p"].isna().all()


def test_a_tie_is_a_difference_within_two_paired_standard_errors() -> None:
    # Of two redraws a - b is 0.1 ± 0.2, and in the other case 0.1 ± 0.02: the mean is the same.
    for spread, (wins, ties) in ((0.2, (0, 1)), (0.02, (1, 0))):
        ranking = rank(contest({"a": (0.6,), "b": (0.5,)}, spread=spread, draws=2), "nmi")
        assert pair(ranking, "a", "b")[["wins_a", "ties"]].tolist() == [wins, ties]
        assert ranking.as_good.loc["d0"].to_dict() == {"a": True, "b": ties == 1}
    # Spread that both models share does not make them alike.
    levels = product((("a", 0.31), ("b", 0.3)), range(3))
    rows = [cell("d", name, level + 0.3 * draw, p=0.9, replicate=draw) for (name, level), draw in levels]
    assert pair(rank(table(rows), "nmi"), "a", "b")["wins_a"] == 1


def test_nobody_wins_or_is_marked_without_a_standard_error() -> None:
    ranking = rank(contest({"a": (0.6, 0.5), "b": (0.5, 0.5)}, draws=1), "nmi")
    assert not ranking.as_good.any(axis=None)
    assert ranking.judged_datasets == []
    assert pair(ranking, "a", "b")[["wins_a", "ties", "wins_b"]].isna().all()
    assert ranking.table()[["wins", "ties", "losses", "best"]].isna().all(axis=None)
    # only one of two data sets has redraws and is counted
    rows = [cell("one", name, level, p=0.9) for name, level in (("a", 0.4), ("b", 0.5))]
    drawn = product((("a", 0.6), ("b", 0.5)), range(2))
    rows += [cell("two", name, level, p=0.9, replicate=draw) for (name, level), draw in drawn]
    ranking = rank(table(rows), "nmi")
    assert ranking.judged_datasets == ["two"]
    assert pair(ranking, "a", "b")[["wins_a", "ties", "wins_b"]].tolist() == [1, 0, 0]
    assert ranking.table()["best"].tolist() == [1, 0]


def test_models_that_nothing_draws_again_are_judged_against_others_alone() -> None:
    rows = [cell("iris", name, level) for name, level in (("k-means", 0.9), ("average", 0.9), ("ward", 0.8))]
    rows += [cell("iris", "posterior", 0.5 + 0.01 * draw, p=0.9, replicate=draw) for draw in range(2)]
    ranking = rank(table(rows), "nmi")
    assert pair(ranking, "k-means", "ward")[["wins_a", "ties", "wins_b"]].isna().all()
    assert pair(ranking, "ward", "posterior")["wins_a"] == 1
    assert ranking.as_good.columns[ranking.as_good.loc["iris"]].tolist() == ["k-means", "average"]


def test_a_data_set_that_is_not_ranked_marks_no_model() -> None:
    rows = [cell("both", name, 0.5, p=0.9, replicate=draw) for name, draw in product("ab", range(2))]
    rows += [cell("some", "a", 0.5, p=0.9, replicate=draw) for draw in range(2)]
    rows += [cell("some", "b", 0.5, p=0.9, replicate=draw, status="pending") for draw in range(2)]
    ranking = rank(table(rows), "nmi")
    assert ranking.unranked_datasets == ["some"]
    assert not ranking.as_good.loc["some"].any()
    assert ranking.is_partial


def test_what_tests_say() -> None:
    ranking = rank(contest({"worse": BASE, "better": BASE + OFFSETS, "worst": BASE - OFFSETS}), "nmi")
    assert ranking.models == ["better", "worse", "worst"]
    assert ranking.p < 1e-4
    assert ranking.pairs["p"].tolist() == pytest.approx([2.0**-9] * 3)
    assert ranking.pairs["p_holm"].tolist() == pytest.approx([3 * 2.0**-9] * 3)
    assert ranking.groups == []
    assert ranking.different_pairs == {("better", "worse"), ("better", "worst"), ("worse", "worst")}
    # two models need no first test
    for n, tested in ((10, True), (6, True), (5, False)):
        ranking = rank(contest({"b": BASE[:n], "a": (BASE + OFFSETS)[:n]}), "nmi")
        assert ranking.is_tested == tested
        assert ranking.different_pairs == ({("a", "b")} if tested else set())
        assert np.isnan(ranking.p)
        assert ranking.pairs["p"].isna().all() == (not tested)


# Demšar, JMLR 7 (2006), table 6: AUC of C4.5, with -m, with -cf, and with both, on 14 data sets.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.975, 0.975], [0.957, 0.978, 0.946, 0.970],
    ]
)  # fmt: skip


def test_ranks_of_the_published_example_and_up_to_rounding() -> None:
    ranks = ranking.best_first(DEMSAR)
    assert ranks[[0, 1, 5, 9]].tolist() == [[4, 3, 2, 1], [1, 2, 3, 4], [1, 2.5, 4, 2.5], [2.5] * 4]
    # Published: 3.143, 2.000, 2.893, 1.964; there "voting" has a third and a second place, here a tie.
    np.testing.assert_allclose(ranks.mean(axis=0) * 14, [44, 28, 41, 27])
    assert ranking.best_first(np.array([[0.5, 0.5 + 1e-13, 0.5 - 1e-13, 0.5 + 1e-9]])).tolist() == [
        [3, 3, 3, 1]
    ]
    assert ranking.best_first(np.empty((0, 3))).shape == (0, 3)
    # Friedman's, by the published formula; ties are four twos, and a four
    sums, ties = ranks.sum(axis=0), (4 * 6 + 60) / 60 / 14
    expected = (12 / (14 * 20) * float(sums @ sums) - 3 * 14 * 5) / (1 - ties)
    assert ranking.friedman(ranks)[0] == pytest.approx(expected)
    assert ranking.friedman(ranking.best_first(np.ones((7, 4)))) == (0.0, 1.0)


def all_signs(differences: np.ndarray) -> float:
    """Return the share of sign combinations that are as far from the middle as the observed one."""
    nonzero = differences[differences != 0]
    ranks = stats.rankdata(np.abs(nonzero))
    middle = ranks.sum() / 2
    far = abs(ranks[nonzero > 0].sum() - middle)
    sums = [ranks[list(signs)].sum() for signs in map(np.array, product([False, True], repeat=len(nonzero)))]
    return float(np.mean([abs(total - middle) >= far - 1e-9 for total in sums]))


def test_signed_ranks_are_exact_with_ties_and_zeros() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        differences = rng.integers(-4, 6, size=8).astype(float)
        assert ranking.signed_ranks(differences) == pytest.approx(all_signs(differences))
        untied = rng.normal(0.4, size=11)
        assert (
            ranking.signed_ranks(untied) == ranking.signed_ranks(-untied) == pytest.approx(all_signs(untied))
        )
    assert ranking.signed_ranks(np.zeros(8)) == ranking.signed_ranks(np.empty(0)) == 1.0
    many = np.random.default_rng(3).normal(0.1, size=300)
    assert ranking.signed_ranks(many) == pytest.approx(stats.wilcoxon(many, method="approx").pvalue, rel=0.02)
    # the fewest data sets are those that can tell two models apart
    always = [
        ranking.signed_ranks(np.arange(1.0, n + 1))
        for n in (ranking.FEWEST_DATASETS - 1, ranking.FEWEST_DATASETS)
    ]
    assert always[0] > ranking.LEVEL > always[1]
    assert always == [
        ranking.least_p(ranking.FEWEST_DATASETS - 1, 1),
        ranking.least_p(ranking.FEWEST_DATASETS, 1),
    ]
    assert ranking.least_p(8, 36) == pytest.approx(
        ranking.holm(np.full(36, ranking.signed_ranks(np.arange(1.0, 9)))).min()
    )
    assert ranking.least_p(3, 36) == 1.0


def closure(p: np.ndarray) -> list[float]:
    """Return Holm's p as the closure of Bonferroni's: the worst of all families with this test."""
    families = [family for size in range(len(p)) for family in combinations(range(len(p)), size + 1)]
    worst = {family: min(1.0, len(family) * p[list(family)].min()) for family in families}
    return [max(value for family, value in worst.items() if test in family) for test in range(len(p))]


def test_holm_is_the_closure_of_bonferroni() -> None:
    for p in np.random.default_rng(4).uniform(size=(10, 6)) ** 3:
        np.testing.assert_allclose(ranking.holm(p), closure(p))


@pytest.mark.parametrize(
    ("models", "apart", "runs"),
    [
        ("abcde", ("ac", "ad", "ae", "be", "ce"), [(0, 1), (1, 3), (3, 4)]),
        ("abcd", (), [(0, 3)]),
        ("abc", ("ab", "ac", "bc"), []),
        # a and c do not differ, but the one between them differs from c: no bar may reach over it
        ("abc", ("bc",), [(0, 1)]),
    ],
)
def test_groups_are_longest_runs_of_neighbours_that_do_not_differ(
    models: str, apart: tuple[str, ...], runs: list[tuple[int, int]]
) -> None:
    assert ranking.equal_groups(list(models), {(a, b) for a, b in apart}) == runs


def test_the_battery_is_in_the_name_and_sizes_of_classes_in_the_cube() -> None:
    plans = [toy.plan("suite.uci.wine"), toy.plan("iris", n_features=4), toy.plan("mix", mixtures=2)]
    plans.append(toy.plan("odd", has_labels=False))
    tree = toy.tree(*plans)
    labels = np.repeat([0, 1, 2], [12, 8, 4]).astype("i2")
    tree["iris"]["labels_true"] = xr.DataArray(labels, dims="sample")
    facts_of_sets = facts({plan.name: plan for plan in plans}, tree)
    assert facts_of_sets["battery"].to_dict() == {
        "suite.uci.wine": "uci", "iris": "other tables", "mix": "mixtures", "odd": "other tables"
    }  # fmt: skip
    assert facts_of_sets.loc["iris", ["N", "D", "K", "imbalance"]].tolist() == [24, 4, 3, 3.0]
    assert np.isnan(facts_of_sets.at["odd", "imbalance"])
    assert [suite_name(name) for name in ("suite/wut/x1", "suite-x", "iris")] == [("wut", "x1"), None, None]


def test_data_sets_are_of_kinds_where_these_differ() -> None:
    sets = pd.DataFrame(
        {"battery": "uci", "N": 100, "D": [2, 3, 9, 10], "K": [2, 2, 2, 6], "imbalance": np.nan},
        index=list("abcd"),
    )
    assert list(kinds(sets)) == [
        ("features", "D ≤ 2", ["a"]),
        ("features", "2 < D ≤ 9", ["b", "c"]),
        ("features", "D > 9", ["d"]),
        ("classes", "K ≤ 2", ["a", "b", "c"]),
        ("classes", "K > 5", ["d"]),
    ]


def test_ranks_are_at_each_p_and_m_and_on_each_kind() -> None:
    # a wins at p = 1, b at p = 0.8; k-means is level
    levels = {("a", 1.0): 0.9, ("a", 0.8): 0.2, ("b", 1.0): 0.7, ("b", 0.8): 0.6}
    rows = [cell(name, "k-means", 0.5) for name in ("d0", "d1")]
    rows += [
        cell(name, model, value, p=p, m=10 + at)
        for at, name in enumerate(("d0", "d1"))
        for (model, p), value in levels.items()
    ]
    sets = pd.DataFrame({"battery": ["x", "y"], "N": 1, "D": 1, "K": 1, "imbalance": 1.0}, index=["d0", "d1"])
    ranking = rank(table(sorted(rows, key=lambda row: str(row["dataset"]))), "nmi")
    table_of_kinds = ranks_by_kind(ranking, sets, {("d0", 10): "1N", ("d1", 11): "1N"})
    ranks = table_of_kinds.pivot(index=["what", "kind", "n_datasets"], columns="model", values="mean_rank")
    assert ranks.loc[("all", "all", 2)].to_dict() == {"a": 2, "b": 1, "k-means": 3}
    assert ranks.loc[("accuracy", "p = 1", 2)].to_dict() == {"a": 1, "b": 2, "k-means": 3}
    assert ranks.loc[("accuracy", "p = 0.8", 2)].to_dict() == {"a": 3, "b": 1, "k-means": 2}
    assert ranks.loc[("battery", "x", 1)].to_dict() == {"a": 2, "b": 1, "k-means": 3}
    # a single m of the sweep file is no kind
    assert "annotations" not in table_of_kinds["what"].tolist()
    best = table_of_kinds[(table_of_kinds["kind"] == "p = 1") & (table_of_kinds["model"] == "a")].iloc[0]
    assert best["mean"] == pytest.approx(0.9)
    assert best["best"] == 2


def cells(names: list[str]) -> pd.DataFrame:
    """Return one model with annotations, twice on each data set, and one without."""
    rows = [cell(name, "k-means", 0.2) for name in names]
    rows += [cell(name, "posterior", 0.6, p=p) for name in names for p in (0.8, 1.0)]
    return table(sorted(rows, key=lambda row: str(row["dataset"])))


def published_table(rows: list[tuple[str, str, str, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["battery", "name", "method", "ari"])


def test_the_best_setting_of_a_method_is_ranked_on_the_data_sets_that_both_have() -> None:
    names = ["suite/uci/wine", "suite.uci.glass", "suite/wut/x1", "iris"]
    places = (("uci", "wine"), ("uci", "glass"), ("other", "absent"))
    levels = {"Genie_G0.3": 0.9, "Genie_G0.5": 0.5, "plain": 0.1, "few": 1.0}
    rows = [(*place, method, value) for place in places for method, value in levels.items()]
    result = rank_published(cells(names), published_table(rows[:7]))  # the last one has no score on glass
    assert result.ranking.datasets == ["suite.uci.glass", "suite/uci/wine"]
    assert result.ranking.models == ["Genie_G0.3*", "posterior", "k-means", "plain*"]
    assert result.ranking.ranks.mean().tolist() == [1, 2, 3, 4]
    assert result.methods["method"].tolist() == ["few", "Genie_G0.3", "Genie_G0.5", "plain"]
    assert result.methods["n_datasets"].tolist() == [1, 2, 2, 2]
    assert result.methods["ranked"].tolist() == [False, True, False, True]
    assert set(result.scores["dataset"]) == {"suite.uci.glass", "suite/uci/wine"}


def test_few_methods_are_ranked_of_many_and_none_of_other_data() -> None:
    many = [("uci", "wine", f"m{number:02}", number / 100) for number in range(30)]
    result = rank_published(cells(["suite/uci/wine"]), published_table(many))
    assert result.methods["ranked"].tolist() == [True] * MOST_PUBLISHED + [False] * (30 - MOST_PUBLISHED)
    nothing = rank_published(cells(["iris"]), published_table(many))
    assert nothing.methods.empty
    assert nothing.ranking.datasets == []


@pytest.mark.parametrize(
    ("method", "family"),
    [
        ("Genie_G0.3", "Genie"),
        ("sklearn_birch_T0.05_BF10", "sklearn_birch"),
        ("sklearn_spectral_Arbf_G5", "sklearn_spectral"),
        ("fastcluster_ward", "fastcluster_ward"),
        ("IcA", "IcA"),
    ],
)
def test_settings_are_what_follows_the_name_of_a_method(method: str, family: str) -> None:
    assert SETTINGS.sub("", method) == family
