"""Mean ranks on kinds of data sets and places, and published labels among the models of a cube: by hand."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from contests import cell, table
from cubes import toy

from sweep_clustering.pipeline.scoring.ranking import (
    MOST_PUBLISHED,
    SETTINGS,
    facts,
    kinds,
    rank,
    rank_published,
    ranks_by_kind,
    suite_name,
)


def test_the_battery_is_in_the_name_and_sizes_of_classes_in_the_cube() -> None:
    plans = [toy.plan("suite.uci.wine"), toy.plan("iris", n_features=4), toy.plan("mix", mixtures=2)]
    plans.append(toy.plan("odd", has_labels=False))
    tree = toy.tree(*plans)
    labels = np.repeat([0, 1, 2], [12, 8, 4]).astype("i2")
    tree["iris"]["labels_true"] = xr.DataArray(labels, dims="sample")
    known = facts({plan.name: plan for plan in plans}, tree)
    assert known["battery"].to_dict() == {
        "suite.uci.wine": "uci", "iris": "other tables", "mix": "mixtures", "odd": "other tables"
    }  # fmt: skip
    assert known.loc["iris", ["N", "D", "K", "imbalance"]].tolist() == [24, 4, 3, 3.0]
    assert np.isnan(known.at["odd", "imbalance"])
    assert [suite_name(name) for name in ("suite/wut/x1", "suite-x", "iris")] == [("wut", "x1"), None, None]


def test_data_sets_are_of_kinds_where_these_differ() -> None:
    known = pd.DataFrame(
        {"battery": "uci", "N": 100, "D": [2, 3, 9, 10], "K": [2, 2, 2, 6], "imbalance": np.nan},
        index=list("abcd"),
    )
    assert list(kinds(known)) == [
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
    known = pd.DataFrame(
        {"battery": ["x", "y"], "N": 1, "D": 1, "K": 1, "imbalance": 1.0}, index=["d0", "d1"]
    )
    ranking = rank(table(sorted(rows, key=lambda row: str(row["dataset"]))), "nmi")
    table_of_kinds = ranks_by_kind(ranking, known, {("d0", 10): "1N", ("d1", 11): "1N"})
    ranks = table_of_kinds.pivot(index=["what", "kind", "n_datasets"], columns="model", values="mean_rank")
    assert ranks.loc[("all", "all", 2)].to_dict() == {"a": 2, "b": 1, "k-means": 3}
    assert ranks.loc[("accuracy", "p = 1", 2)].to_dict() == {"a": 1, "b": 2, "k-means": 3}
    assert ranks.loc[("accuracy", "p = 0.8", 2)].to_dict() == {"a": 3, "b": 1, "k-means": 2}
    assert ranks.loc[("battery", "x", 1)].to_dict() == {"a": 2, "b": 1, "k-means": 3}
    # one m, as the sweep file writes it, is no kind
    assert "annotations" not in table_of_kinds["what"].tolist()
    best = table_of_kinds[(table_of_kinds["kind"] == "p = 1") & (table_of_kinds["model"] == "a")].iloc[0]
    assert best["mean"] == pytest.approx(0.9)
    assert best["best"] == 2


def cells(names: list[str]) -> pd.DataFrame:
    """One model with annotations, twice on each data set, and one without."""
    rows = [cell(name, "k-means", 0.2) for name in names]
    rows += [cell(name, "posterior", 0.6, p=p) for name in names for p in (0.8, 1.0)]
    return table(sorted(rows, key=lambda row: str(row["dataset"])))


def published(rows: list[tuple[str, str, str, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["battery", "name", "method", "ari"])


def test_the_best_setting_of_a_method_is_ranked_on_the_data_sets_that_both_have() -> None:
    names = ["suite/uci/wine", "suite.uci.glass", "suite/wut/x1", "iris"]
    places = (("uci", "wine"), ("uci", "glass"), ("other", "absent"))
    levels = {"Genie_G0.3": 0.9, "Genie_G0.5": 0.5, "plain": 0.1, "few": 1.0}
    rows = [(*place, method, value) for place in places for method, value in levels.items()]
    result = rank_published(cells(names), published(rows[:7]))  # the last one has no score on glass
    assert result.ranking.datasets == ["suite.uci.glass", "suite/uci/wine"]
    assert result.ranking.models == ["Genie_G0.3*", "posterior", "k-means", "plain*"]
    assert result.ranking.ranks.mean().tolist() == [1, 2, 3, 4]
    assert result.methods["method"].tolist() == ["few", "Genie_G0.3", "Genie_G0.5", "plain"]
    assert result.methods["n_datasets"].tolist() == [1, 2, 2, 2]
    assert result.methods["ranked"].tolist() == [False, True, False, True]
    assert set(result.scores["dataset"]) == {"suite.uci.glass", "suite/uci/wine"}


def test_few_methods_are_ranked_of_many_and_none_of_other_data() -> None:
    many = [("uci", "wine", f"m{number:02}", number / 100) for number in range(30)]
    result = rank_published(cells(["suite/uci/wine"]), published(many))
    assert result.methods["ranked"].tolist() == [True] * MOST_PUBLISHED + [False] * (30 - MOST_PUBLISHED)
    nothing = rank_published(cells(["iris"]), published(many))
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
