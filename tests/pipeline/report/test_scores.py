"""Scores on the page: tables, curves, shares of the centroid index, boxes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cubes import toy
from cubes.reported import content, tables, texts, titles

from pipeline.report import scores
from pipeline.report.elements import Table
from pipeline.report.scores import MOST_MODELS, ScoreTables, draw_boxes, draw_curves, not_drawn, share_table
from pipeline.scoring.scores import SCORES
from pipeline.scoring.tables import written_counts
from sweeps.file.spec import AnnotationCount
from sweeps.plan import DatasetPlan
from sweeps.words import BASELINES, MODEL_CODES

SHAPES = ("", "-diagonal", "-full", "-tied")


def made(*plans: DatasetPlan, counts: tuple[str, ...] = ()) -> tuple[pd.DataFrame, dict[str, Table]]:
    """Means of a cube, and all tables of them by their titles."""
    _, summary, named = tables(*plans)
    written = written_counts(named, [AnnotationCount(text) for text in counts])
    return summary, {table.title: table for table in ScoreTables(summary, named, written).every()}


def mean(summary: pd.DataFrame, dataset: str, model: str, p: float = 0.8, m: int = 12) -> pd.Series:
    rows = summary[
        (summary["dataset"] == dataset) & (summary["score"] == "nmi") & (summary["model"] == model)
    ]
    return rows[rows["p"].isna() | ((rows["p"] == p) & (rows["m"] == m))].iloc[0]


def test_tables_of_mixtures_have_the_published_layout() -> None:
    plans = (toy.plan("mix_k4", n_clusters=4, mixtures=3), toy.plan("mix_k2", n_clusters=2, mixtures=3))
    summary, found = made(*plans, toy.plan("alone_k3", mixtures=2, models=(), p=(), m=()))
    expected = [f"{score}: mix, p = {p}" for score in ("NMI", "ARI", "KL, nats") for p in (0.8, 0.9)]
    assert list(found) == [*expected, "Without annotations"]
    first = found["NMI: mix, p = 0.8"]
    assert first.columns == ("m", *("likelihood", "posterior") * 2)
    assert first.groups == ((("", 1), ("K = 2", 2), ("K = 4", 2)),)
    assert [row[0].text for row in first.rows] == ["0", "12", "24"]
    row = mean(summary, "mix_k4", "posterior")
    assert first.rows[1][4].text == f"{row['mean']:.4f} ± {row['se']:.4f}"
    baseline = mean(summary, "mix_k4", "unsupervised")
    assert first.rows[0][3].order == first.rows[0][4].order == baseline["mean"]


def test_real_data_sets_stand_in_one_table_for_each_score() -> None:
    _, named = made(toy.plan("iris"), toy.plan("wine"), counts=("0.5N", "1N"))
    real = named["NMI: real data sets"]
    assert [tuple(row[:3]) for row in texts(real)] == [
        (name, p, m) for name in ("iris", "wine") for p in ("0.8", "0.9") for m in ("0.5N", "1N")
    ]
    assert real.columns == ("data set", "p", "m", "unsupervised", "likelihood", "posterior")
    # which a baseline does not have
    assert "unsupervised" not in named["relative NMI: real data sets"].columns
    folded = {title.partition(":")[0] for title, table in named.items() if table.folded}
    assert not folded & {"NMI", "ARI", "Without annotations"}
    assert "relative NMI" in folded


def test_many_models_go_on_in_a_table_that_fits_the_page() -> None:
    models = [f"{term}{shape}" for term in ("conditional", "likelihood", "posterior") for shape in SHAPES]
    summary, named = made(toy.plan("iris", models=tuple(models), model_chunk=len(models)))
    found = [table for title, table in named.items() if title.startswith("NMI: real data")]
    assert len(found) == 2
    assert all(len(table.columns) <= 3 + MOST_MODELS for table in found)
    assert [model for table in found for model in table.columns[3:]] == ["unsupervised", *sorted(models)]
    assert all(len(row) == len(table.columns) for table in found for row in table.rows)
    place = found[1].columns.index("posterior-full")
    assert found[1].rows[1][place].order == mean(summary, "iris", "posterior-full", m=24)["mean"]


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
    more = {"models": models, "model_chunk": 3, "baselines": ("unsupervised-full",)}
    _, summary, _ = tables(*(toy.plan(name, **more) for name in ("iris", "wine")))
    figure = draw_curves(summary, "nmi")
    assert figure is not None
    labels = [axes.get_ylabel().split("\n")[0] for axes in figure.axes][::2]
    groups = ("spherical", "diagonal", "full")
    assert labels == [f"{name}, {shape}" for name in ("iris", "wine") for shape in groups]
    drawn = [{str(line.get_label()) for line in axes.get_lines()} for axes in figure.axes]
    assert drawn[::2] == drawn[1::2] == [*[{models[0]}, {models[2]}, {models[1], "unsupervised-full"}] * 2]
    heights = [axes.get_ylim() for axes in figure.axes]
    assert len(set(heights[:6])) == len(set(heights[6:])) == 1
    assert heights[0] != heights[6]


def test_published_means_are_crosses_at_their_place() -> None:
    _, summary, _ = tables(toy.plan("mix_k3", mixtures=3))
    theirs = pd.DataFrame({"m": [12, 24], "published": [0.25, 0.75]})
    figure = draw_curves(
        summary, "nmi", theirs.assign(dataset="mix_k3", p=0.8, model="posterior", score="nmi")
    )
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
    assert list(not_drawn(content(cells))) == [
        "Figures show 24 of 30 data sets, evenly spread; summary.csv and cells.csv hold all."
    ]
    assert list(not_drawn(content(cells.head(24)))) == []
    (text,) = not_drawn(content(pd.DataFrame({"dataset": ["d"] * 7, "p": [k / 10 for k in range(1, 8)]})))
    assert "6 of 7 accuracies" in text


def indexed() -> pd.DataFrame:
    usual = {"dataset": "mix", "n_clusters": 3, "p": 0.9, "m": 10, "m_over_n": 0.5, "model": "posterior"}
    found = {(0, 0): 0, (0, 1): 0, (1, 0): 2, (1, 1): 0, (2, 0): 5, (2, 1): 1}
    rows = [
        {**usual, "mixture": k, "replicate": r, "status": "done", "centroid_index": index, "nmi": 0.5}
        for (k, r), index in found.items()
    ]
    table = pd.DataFrame(rows).reindex(columns=[*rows[0], *(set(SCORES) - set(rows[0]))])
    return table.astype({"mixture": "Int64", "replicate": "Int64", "centroid_index": float})


def test_a_share_is_over_mixtures_each_over_its_redraws_first() -> None:
    (row,) = share_table(indexed()).itertuples()
    assert (row.score, row.n, row.n_values) == ("centroid_index", 3, 6)
    assert row.mean == pytest.approx(0.5)  # of 1, 0.5 and 0
    assert row.se == pytest.approx(0.5 / np.sqrt(3))
    both = pd.concat([indexed(), indexed().assign(dataset="b", p=0.8)])
    ((name, figure, _),) = scores.index_figures(content(both, written={}))
    assert name == "centroid-index"
    assert figure is not None
    assert {axes.get_ylim() for axes in figure.axes} == {(-0.04, 1.04)}
    (table,) = scores.index_tables(content(indexed()))
    assert texts(table) == [["mix", "posterior", "6", "50", "17", "17", "17"]]
    nothing = content(indexed().assign(centroid_index=np.nan), written={})
    assert next(scores.index_figures(nothing))[1] is None
    assert list(scores.index_tables(nothing)) == []


def test_boxes_are_quartiles_with_whiskers_of_one_and_a_half() -> None:
    values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.9] * 2
    usual = {"dataset": "iris", "p": 0.9, "m": 75, "model": "posterior", "mixture": pd.NA}
    cells = pd.DataFrame([{**usual, "relative_nmi": value} for value in values])
    figure = draw_boxes(cells, 0.9, {("iris", 75): "0.5N"})
    assert figure is not None
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5N"]
    (beyond,) = (line for line in axes.get_lines() if line.get_marker() not in ("", "None"))
    assert beyond.get_ydata().tolist() == [0.9, 0.9]  # quartiles 0.1 and 0.4: whiskers reach to 0.85
    heights = {round(float(y), 6) for line in axes.get_lines() for y in line.get_ydata()}
    assert {0.0, 0.1, 0.25, 0.4} <= heights
    assert draw_boxes(cells, 0.8, {}) is None
    few = draw_boxes(cells.head(6), 0.9, {})
    assert few is not None
    (points,) = (line for line in few.axes[0].get_lines() if line.get_marker() not in ("", "None"))
    assert points.get_ydata().tolist() == values[:6]  # of fewer than ten cells each is a point


def test_panels_of_many_models_are_wider() -> None:
    one = {"dataset": "iris", "p": 0.9, "m": 75, "relative_nmi": 0.1, "mixture": pd.NA}
    models = [model for model in MODEL_CODES if model not in BASELINES]
    widths = []
    for some in (models[:6], models):
        cells = pd.DataFrame([{**one, "model": model, "dataset": name} for model in some for name in "ab"])
        figure = draw_boxes(cells, 0.9, {})
        assert figure is not None
        first, second = (axes.get_gridspec().get_geometry() for axes in figure.axes)
        widths.append(figure.get_figwidth() / first[1])
        assert first == second == ((1, 2) if len(some) == 6 else (2, 1))
    assert widths[1] > 2 * widths[0]
