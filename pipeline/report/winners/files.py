"""Tables of who wins, as files hold them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from pipeline.report.winners.cost import cost_table
from pipeline.report.winners.findings import comparable
from pipeline.report.winners.robustness import robustness_table
from pipeline.scoring.ranking import Ranking


def winner_tables(rankings: Sequence[Ranking], cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every number that the page says of models against each other; nothing without two models.

    Parameters
    ----------
    rankings : sequence of Ranking
        From `pipeline.scoring.ranking.rankings`.
    cells : pandas.DataFrame
        From `pipeline.scoring.tables.cell_table`.

    Returns
    -------
    dict of str to pandas.DataFrame
        `winners` (data sets × models), `ranks` (models), `pairs` and `robustness` (p), each for every score.
    """
    found = comparable(rankings)
    if not found:
        return {}
    return {
        "winners": pd.concat([_values(ranking) for ranking in found], ignore_index=True),
        "ranks": pd.concat([_ranks(ranking, cells) for ranking in found], ignore_index=True),
        "pairs": pd.concat([_scored(ranking, ranking.pairs) for ranking in found], ignore_index=True),
        "robustness": pd.concat(
            [_scored(ranking, robustness_table(ranking)) for ranking in found], ignore_index=True
        ),
    }


def _scored(ranking: Ranking, table: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([pd.Series(ranking.score, table.index, name="score"), table], axis="columns")


def _values(ranking: Ranking) -> pd.DataFrame:
    """Scores of models on data sets with their ranks, and whether one is as good as the best."""
    table, places = ranking.common.values, ["dataset", "model"]
    ranks = ranking.ranks.stack().rename("rank").rename_axis(places)
    good = ranking.as_good.stack().rename("as_good_as_best").rename_axis(places)
    return _scored(ranking, table.join(ranks, on=places).join(good, on=places))


def _ranks(ranking: Ranking, cells: pd.DataFrame) -> pd.DataFrame:
    cost = cost_table(ranking, cells).set_index("model")[["cpu_seconds", "seconds"]]
    return ranking.table().join(cost, on="model").assign(friedman=ranking.statistic, friedman_p=ranking.p)
