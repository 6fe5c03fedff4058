"""Shares of cells by centroid index: hand-made cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipeline.report.sections.index import draw_shares, entries, share_table
from pipeline.scoring.scores import SCORES


def cells() -> pd.DataFrame:
    usual = {"dataset": "mix", "n_clusters": 3, "p": 0.9, "m": 10, "m_over_n": 0.5, "model": "posterior"}
    found = {(0, 0): 0, (0, 1): 0, (1, 0): 2, (1, 1): 0, (2, 0): 5, (2, 1): 1}
    rows = [
        {**usual, "mixture": k, "replicate": r, "status": "done", "centroid_index": index, "nmi": 0.5}
        for (k, r), index in found.items()
    ]
    table = pd.DataFrame(rows).reindex(columns=[*rows[0], *(set(SCORES) - set(rows[0]))])
    return table.astype({"mixture": "Int64", "replicate": "Int64", "centroid_index": float})


def test_a_share_is_over_mixtures_each_over_its_redraws_first() -> None:
    (row,) = share_table(cells()).itertuples()
    assert (row.score, row.n, row.n_values) == ("centroid_index", 3, 6)
    assert row.mean == pytest.approx(0.5)  # of 1, 0.5 and 0
    assert row.se == pytest.approx(0.5 / np.sqrt(3))


def test_all_panels_have_the_same_axes() -> None:
    figure = draw_shares(share_table(pd.concat([cells(), cells().assign(dataset="b", p=0.8)])), {})
    assert figure is not None
    assert {axes.get_ylim() for axes in figure.axes} == {(-0.04, 1.04)}
    assert draw_shares(share_table(cells().assign(centroid_index=np.nan)), {}) is None


def test_every_index_is_counted() -> None:
    (table,) = entries(cells())
    assert [value.text for value in table.rows[0]] == ["mix", "posterior", "6", "50", "17", "17", "17"]
    assert entries(cells().assign(centroid_index=np.nan)) == []
