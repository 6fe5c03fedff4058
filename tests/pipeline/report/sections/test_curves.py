"""Curves of a score against the number of annotations."""

from __future__ import annotations

import numpy as np
import pandas as pd
from cubes import toy
from cubes.reported import tables, titles

from pipeline.report.sections.curves import draw_curves, not_drawn


def test_curves_have_a_row_per_data_set_and_a_column_per_accuracy() -> None:
    _, summary, _ = tables(toy.plan("iris"), toy.plan("wine"))
    figure = draw_curves(summary, "nmi")
    assert figure is not None
    assert titles(figure) == ["accuracy p = 0.8", "accuracy p = 0.9", "", ""]
    assert [axes.get_ylabel() for axes in figure.axes][::2] == ["iris\nNMI (0 to 1)", "wine\nNMI (0 to 1)"]
    rows = summary[(summary["dataset"] == "wine") & (summary["p"] == 0.9) & (summary["score"] == "nmi")]
    drawn = {line.get_label(): line for line in figure.axes[3].get_lines()}
    for model, points in rows.groupby("model"):
        np.testing.assert_allclose(drawn[model].get_ydata(), points["mean"])
        np.testing.assert_allclose(drawn[model].get_xdata(), points["m"].astype(float))


def test_each_of_many_shapes_has_a_row_of_its_own() -> None:
    models = ("likelihood", "posterior-full", "posterior-diagonal")
    plans = [
        toy.plan(name, models=models, model_chunk=3, baselines=("unsupervised-full",))
        for name in ("iris", "wine")
    ]
    _, summary, _ = tables(*plans)
    figure = draw_curves(summary, "nmi")
    assert figure is not None
    shapes = ("spherical", "diagonal", "full")
    labels = [axes.get_ylabel().split("\n")[0] for axes in figure.axes][::2]
    assert labels == [f"{name}, {shape}" for name in ("iris", "wine") for shape in shapes]
    drawn = [{str(line.get_label()) for line in axes.get_lines()} for axes in figure.axes]
    assert drawn[::2] == drawn[1::2] == [*[{models[0]}, {models[2]}, {models[1], "unsupervised-full"}] * 2]
    heights = [axes.get_ylim() for axes in figure.axes]
    assert len(set(heights[:6])) == len(set(heights[6:])) == 1
    assert heights[0] != heights[6]
    assert len(figure.legends[0].get_texts()) == 4


def test_published_means_are_crosses_at_their_place() -> None:
    _, summary, _ = tables(toy.plan("mix_k3", mixtures=3))
    theirs = pd.DataFrame(
        {
            "dataset": ["mix_k3"] * 2,
            "p": [0.8, 0.8],
            "m": [12, 24],
            "model": ["posterior"] * 2,
            "score": ["nmi"] * 2,
            "published": [0.25, 0.75],
        }
    )
    figure = draw_curves(summary, "nmi", theirs)
    assert figure is not None
    crosses = [line for line in figure.axes[0].get_lines() if line.get_marker() == "x"]
    assert [line.get_ydata().tolist() for line in crosses] == [[0.25, 0.75]] * 2  # on a halo
    assert "published" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_single_cell_has_no_band_and_a_score_without_values_no_figure() -> None:
    row = {"dataset": "iris", "p": 0.9, "m": 10, "model": "posterior", "score": "nmi", "n": 1, "mean": 0.5}
    summary = pd.DataFrame([{**row, "se": np.nan}])
    figure = draw_curves(summary, "nmi")
    assert figure is not None
    (band,) = figure.axes[0].collections
    assert np.ptp(band.get_paths()[0].vertices[:, 1]) == 0
    assert draw_curves(summary, "goldberger_kl") is None


def test_a_large_grid_is_drawn_in_part_and_says_so() -> None:
    cells = pd.DataFrame({"dataset": [f"d{i}" for i in range(30)], "p": [0.8, 0.9, 1.0] * 10})
    assert list(not_drawn(cells)) == [
        "Figures show 24 of 30 data sets, evenly spread; summary.csv and cells.csv hold all."
    ]
    assert list(not_drawn(cells.head(24))) == []
    (text,) = not_drawn(pd.DataFrame({"dataset": ["d"] * 7, "p": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]}))
    assert "6 of 7 accuracies" in text
