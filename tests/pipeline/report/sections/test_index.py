"""Histograms of the centroid index."""

from __future__ import annotations

import pandas as pd
import pytest
from cubes import toy
from cubes.reported import tables, titles

from pipeline.report.sections.index import draw_indices, index_datasets, nearest_counts


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (range(100, 900, 100), [0, 200, 400, 600]),
        ([200], [0, 200]),
        ([190, 410, 600, 800], [0, 190, 410, 600]),
        ([75, 150, 225], [0, 75, 150, 225]),
        ([10, 20, 30, 40, 50], [0, 10, 30, 50]),
    ],
)
def test_histograms_show_the_published_counts_or_the_nearest(found: list[int], shown: list[int]) -> None:
    assert nearest_counts(pd.Series(found)) == shown


def test_histograms_count_the_cells_of_the_mixtures_nearest_to_six_clusters() -> None:
    cells, _, _ = tables(
        toy.plan("iris"),
        toy.plan("mix_k2", mixtures=2, n_clusters=2),
        toy.plan("mix_k5", mixtures=2, n_clusters=5),
    )
    assert index_datasets(cells) == ["mix_k5"]
    assert index_datasets(cells[cells["dataset"] == "iris"]) == ["iris"]
    figure = draw_indices(cells, 0.9, ["mix_k5"])
    assert figure is not None
    assert titles(figure) == ["m = 0, no annotations", "m = 12", "m = 24"]
    rows = cells[(cells["dataset"] == "mix_k5") & (cells["p"] == 0.9) & (cells["m"] == 12)]
    assert sum(bar.get_height() for bar in figure.axes[1].patches) == rows["centroid_index"].notna().sum()
