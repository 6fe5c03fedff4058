"""Published labels among the models of a cube: what is ranked, over which data sets."""

import pandas as pd
import pytest
from contests import cell, table

from sweep_clustering.pipeline.scoring.published import MOST_PUBLISHED, SETTINGS, rank_beside


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
    found = rank_beside(cells(names), published(rows[:7]))  # the last one has no score on glass
    assert found.ranking.datasets == ["suite.uci.glass", "suite/uci/wine"]
    assert found.ranking.models == ["Genie_G0.3*", "posterior", "k-means", "plain*"]
    assert found.ranking.ranks.mean().tolist() == [1, 2, 3, 4]
    assert found.methods["method"].tolist() == ["few", "Genie_G0.3", "Genie_G0.5", "plain"]
    assert found.methods["n_datasets"].tolist() == [1, 2, 2, 2]
    assert found.methods["ranked"].tolist() == [False, True, False, True]
    assert set(found.scores["dataset"]) == {"suite.uci.glass", "suite/uci/wine"}


def test_few_methods_are_ranked_of_many_and_none_of_other_data() -> None:
    many = [("uci", "wine", f"m{number:02}", number / 100) for number in range(30)]
    found = rank_beside(cells(["suite/uci/wine"]), published(many))
    assert found.methods["ranked"].tolist() == [True] * MOST_PUBLISHED + [False] * (30 - MOST_PUBLISHED)
    nothing = rank_beside(cells(["iris"]), published(many))
    assert (nothing.methods.empty, nothing.ranking.datasets) == (True, [])


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
