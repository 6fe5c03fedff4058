"""Scores of published labels beside those of a cube: methods of others, ranked among its models."""

import re
from dataclasses import dataclass

import pandas as pd

from sweep_clustering.pipeline.scoring.kinds import suite_name
from sweep_clustering.pipeline.scoring.ranking import RANKED, Ranking, rank
from sweep_clustering.storage.cube.schema import DONE, STATUS_WORDS

# What follows the name of a method: its settings, such as `_T0.05_BF10` and `_Arbf_G5`.
SETTINGS = re.compile(r"(?:_[A-Z]+[a-z]*[\d.]*)+")
# Published methods that are ranked, the best by mean.
MOST_PUBLISHED = 15
# After the name of a published method.
STAR = "*"


@dataclass(frozen=True)
class Beside:
    """Models of a cube and published labels, ranked together.

    Parameters
    ----------
    ranking : Ranking
        By ARI, over the data sets that both have.
    scores : pandas.DataFrame
        Every published score of a data set of the cube: `dataset`, `method`, `ari`.
    methods : pandas.DataFrame
        A row for each published method, best mean first: `method`, `family`, `n_datasets`, `mean`, and
        whether it is `ranked`.
    """

    ranking: Ranking
    scores: pd.DataFrame
    methods: pd.DataFrame


def rank_beside(cells: pd.DataFrame, published: pd.DataFrame) -> Beside:
    """Rank published labels among the models of a cube, by ARI.

    Published labels have one score on each data set, as a model without annotations has. Of the settings of a
    method the one with the best mean is ranked: so it is chosen with hindsight, which the models are not. A
    method counts if it has a score on every data set that any of them has, and so all have the same ones.

    Parameters
    ----------
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.
    published : pandas.DataFrame
        From `read_published`, of scores.
    """
    known = {suite: name for name in cells["dataset"].unique() if (suite := suite_name(str(name)))}
    places = zip(published["battery"], published["name"], strict=True)
    scores = published.assign(dataset=[known.get(place) for place in places]).dropna(subset="dataset")
    scores = scores[["dataset", "method", "ari"]]
    methods = scores.groupby("method").agg(n_datasets=("ari", "size"), mean=("ari", "mean")).reset_index()
    methods = methods.sort_values("mean", ascending=False, kind="stable", ignore_index=True)
    methods.insert(1, "family", [SETTINGS.sub("", method) for method in methods["method"]])
    whole = methods[methods["n_datasets"] == scores["dataset"].nunique()]
    best = whole.drop_duplicates("family").head(MOST_PUBLISHED)["method"]
    methods["ranked"] = methods["method"].isin(best)
    rows = scores[scores["method"].isin(best)].rename(columns={"method": "model", "ari": RANKED[1]})
    rows = rows.assign(model=rows["model"] + STAR, status=STATUS_WORDS[DONE])
    ours = cells[cells["dataset"].isin(scores["dataset"])]
    return Beside(rank(pd.concat([ours, rows], ignore_index=True), RANKED[1]), scores, methods)
