"""The figure of paired differences between two cubes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cubes.reported import titles

from pipeline.report.differences import draw_differences


def rows(*changes: dict[str, object]) -> pd.DataFrame:
    usual = {"score": "nmi", "dataset": "iris", "p": 0.9, "m": 10, "model": "posterior", "n_cells": 3, "n": 3}
    table = pd.DataFrame([{**usual, "difference": 0.25, "se": 0.05, **row} for row in changes])
    return table.astype({"m": "Int64"})


def test_differences_stand_at_their_place_and_baselines_at_zero() -> None:
    baseline = {"p": np.nan, "m": pd.NA, "model": "unsupervised", "difference": -0.5, "se": np.nan}
    figure = draw_differences(rows({}, {"m": 20, "difference": 0.5}, {"p": 0.8}, baseline), "nmi")
    assert figure is not None
    assert titles(figure) == ["accuracy p = 0.8", "accuracy p = 0.9"]
    drawn = {
        str(container.get_label()): container.lines[0].get_xydata().tolist()
        for container in figure.axes[1].containers
    }
    assert drawn == {"posterior": [[10.0, 0.25], [20.0, 0.5]], "unsupervised": [[0.0, -0.5]]}


def test_baselines_alone_are_one_panel_without_a_title() -> None:
    alone = rows({"p": np.nan, "m": pd.NA, "model": "unsupervised"})
    figure = draw_differences(alone, "nmi")
    assert figure is not None
    assert titles(figure) == [""]


def test_each_of_many_shapes_has_a_row_of_its_own() -> None:
    models = ("posterior", "posterior-full", "unsupervised-diagonal")
    figure = draw_differences(rows(*({"model": model} for model in models)), "nmi")
    assert figure is not None
    labels = [axes.get_ylabel().split("\n")[0] for axes in figure.axes]
    assert labels == ["iris, spherical", "iris, diagonal", "iris, full"]
    drawn = [[str(container.get_label()) for container in axes.containers] for axes in figure.axes]
    assert drawn == [["posterior"], ["unsupervised-diagonal"], ["posterior-full"]]


@pytest.mark.parametrize("change", [{"n_cells": 0}, {"score": "seconds"}])
def test_without_a_pair_there_is_no_figure(change: dict[str, object]) -> None:
    assert draw_differences(rows(change), "nmi") is None
