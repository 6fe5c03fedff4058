"""Figures of the report page: what is drawn where, and in which colours."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cubes import toy
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from pipeline.report.parts.ink import CLASS_COLORS, GREY, STYLES, house_style, inline, save
from pipeline.report.sections.against import draw_verdicts
from pipeline.report.sections.cell import choose_cell, draw_matrix, match, most_separating, read_cell
from pipeline.report.sections.curves import draw_curves
from pipeline.report.sections.index import draw_indices, index_datasets, nearest_counts
from pipeline.report.sections.relative import draw_boxes
from pipeline.report.sections.restarts import draw_chances, draw_gaps
from pipeline.report.sections.scores import score_tables
from pipeline.report.sections.times import draw_times
from pipeline.scoring.catalogue import QUALITIES
from pipeline.scoring.restarts import gap_table
from pipeline.scoring.tables import cell_table, summary_table, written_counts
from sweeps.plan import DatasetPlan

# Linear RGB as somebody without working green, or red, cones sees it (Machado, Oliveira and Fernandes, 2009).
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
)
PROTANOPIA = np.array(
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
)
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])


def lab(color: str, sight: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of a colour as it is seen."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(TO_XYZ @ np.clip(sight @ linear, 0, 1) / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all", "no green", "no red"])
def test_colors_are_told_apart(sight: np.ndarray) -> None:
    models = [GREY, *(color for color, _ in STYLES.values())]
    for palette in (models, CLASS_COLORS[:3]):
        for one, other in combinations(palette, 2):
            assert np.linalg.norm(lab(one, sight) - lab(other, sight)) > 15, (one, other)


def cube(*plans: DatasetPlan) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, DatasetPlan]]:
    named = {plan.name: plan for plan in plans}
    cells = cell_table(toy.tree(*plans), named)
    return cells, summary_table(cells), named


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def test_curves_have_a_row_per_data_set_and_a_column_per_accuracy() -> None:
    _, summary, _ = cube(toy.plan("iris"), toy.plan("wine"))
    figure = draw_curves(summary, "nmi")
    assert figure is not None
    assert titles(figure) == ["accuracy p = 0.8", "accuracy p = 0.9", "", ""]
    assert [axes.get_ylabel() for axes in figure.axes][::2] == ["iris\nNMI (0 to 1)", "wine\nNMI (0 to 1)"]
    rows = summary[(summary["dataset"] == "wine") & (summary["p"] == 0.9) & (summary["score"] == "nmi")]
    drawn = {line.get_label(): line for line in figure.axes[3].get_lines()}
    for model, points in rows.groupby("model"):
        np.testing.assert_allclose(drawn[model].get_ydata(), points["mean"])
        np.testing.assert_allclose(drawn[model].get_xdata(), points["m"].astype(float))


def test_published_means_are_crosses_at_their_place() -> None:
    _, summary, _ = cube(toy.plan("mix_k3", mixtures=3))
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


def test_boxes_are_quartiles_with_whiskers_of_one_and_a_half() -> None:
    values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.9]
    cells = pd.DataFrame(
        {"dataset": "iris", "p": 0.9, "m": 75, "model": "posterior", "relative_nmi": values, "mixture": pd.NA}
    )
    figure = draw_boxes(cells, 0.9, {("iris", 75): "0.5N"})
    assert figure is not None
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5N"]
    (beyond,) = (line for line in axes.get_lines() if line.get_marker() not in ("", "None"))
    assert beyond.get_ydata().tolist() == [0.9]  # quartiles 0.125 and 0.375: whiskers reach to 0.75
    heights = {round(float(y), 6) for line in axes.get_lines() for y in line.get_ydata()}
    assert {0.0, 0.125, 0.25, 0.375, 0.4} <= heights
    assert draw_boxes(cells, 0.8, {}) is None


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
    cells, _, _ = cube(
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


def test_every_value_with_a_z_is_a_digit_at_its_place() -> None:
    rows = [("nmi", 2, 100, 1.5), ("nmi", 4, 200, -3.0), ("goldberger_kl", 2, 100, np.nan)]
    compared = pd.DataFrame(rows, columns=["score", "n_clusters", "m", "z"]).assign(p=0.8, model="posterior")
    figure = draw_verdicts(compared)
    assert figure is not None
    assert titles(figure) == ["accuracy p = 0.8"]
    assert [(text.get_text(), text.get_position()) for text in figure.axes[0].texts] == [
        ("2", (100.0, 1.5)),
        ("4", (200.0, -3.0)),
    ]
    assert draw_verdicts(compared.assign(z=np.nan)) is None


def test_effort_is_drawn_from_the_cells() -> None:
    plan = toy.plan("iris")
    cells, _, _ = cube(plan)
    for figure in (
        draw_gaps(gap_table(toy.tree(plan), {"iris": plan.baselines})),
        draw_chances(cells),
        draw_times(cells),
    ):
        assert figure is not None
    nothing = cells.assign(status="pending", seconds=np.nan)
    assert draw_chances(nothing) is None
    assert draw_times(nothing) is None


def test_labels_take_the_colours_of_the_truth() -> None:
    truth = np.array([0, 0, 1, 1, 2, 2])
    assert match(np.array([2, 2, 0, 0, 1, 0]), truth).tolist() == [0, 0, 1, 1, 2, 1]
    assert match(np.array([3, 3, 3, 0, 1, 2]), np.array([0, 0, 0, 0, 0, 0])).tolist()[:3] == [0, 0, 0]


def test_the_features_that_tell_classes_apart_are_drawn() -> None:
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1], 50)
    X = rng.normal(size=(100, 9))
    X[:, [1, 3, 4, 5, 7, 8]] += 4 * labels[:, None]
    X[:, 0] = 1.0
    assert most_separating(X, labels) == (1, 3, 4, 5, 7, 8)


def test_the_shown_cell_is_the_published_one_where_it_is_there() -> None:
    names = ("iris", "vertebral")
    cells, _, plans = cube(*(toy.plan(name) for name in names), toy.plan("mix_k3", mixtures=2))
    assert str(choose_cell(cells, None)).startswith("vertebral/p=0.9/m=24/")
    rest = cells[cells["dataset"] == "mix_k3"]
    assert str(choose_cell(rest, None)).endswith("p=0.9/m=24/replicate=0/posterior")
    assert choose_cell(cells.assign(status="pending"), None) is None
    tree = toy.tree(*plans.values())
    cell = choose_cell(rest, None)
    assert cell is not None
    shown = read_cell(tree, cell)
    assert list(shown.partitions) == ["unsupervised", "annotated", "true"]
    truth = tree["mix_k3"]["labels_true"].sel(mixture=cell.mixture).values
    np.testing.assert_array_equal(shown.partitions["true"], truth)
    figure = draw_matrix(shown, shown.partitions["true"], "s.d.")
    points = [line for axes in figure.axes for line in axes.get_lines()]
    assert sum(len(line.get_xdata()) for line in points) == len(truth)


def test_tables_have_the_published_layout() -> None:
    _, summary, plans = cube(*(toy.plan(f"mix_k{k}", n_clusters=k, mixtures=3) for k in (2, 4)))
    first, second, alone = score_tables(summary, plans, {})
    assert [first.title, second.title, alone.title] == ["mix, p = 0.8", "mix, p = 0.9", "Without annotations"]
    assert first.columns == ("m", *("likelihood", "posterior") * 4)
    assert first.groups[0] == (("", 1), ("NMI", 4), ("KL, nats", 4))
    assert first.groups[1] == (("", 1), ("K = 2", 2), ("K = 4", 2), ("K = 2", 2), ("K = 4", 2))
    assert [row[0].text for row in first.rows] == ["0", "12", "24"]
    row = summary[
        (summary["dataset"] == "mix_k4") & (summary["p"] == 0.8) & (summary["m"] == 12)
        & (summary["model"] == "posterior") & (summary["score"] == "nmi")
    ].iloc[0]  # fmt: skip
    assert first.rows[1][4].text == f"{row['mean']:.4f} ± {row['se']:.4f}"
    baseline = summary[(summary["dataset"] == "mix_k4") & summary["p"].isna() & (summary["score"] == "nmi")]
    assert first.rows[0][3].order == first.rows[0][4].order == baseline["mean"].iloc[0]


def test_real_data_sets_stand_in_one_table_for_each_accuracy() -> None:
    _, summary, plans = cube(toy.plan("iris"), toy.plan("wine"))
    tables = score_tables(summary, plans, written_counts(plans, ["0.5N", "1N"]))
    real = {table.title: table for table in tables}["Real data sets, p = 0.9"]
    assert [(row[0].text, row[1].text) for row in real.rows] == [
        (name, m) for name in ("iris", "wine") for m in ("12 (0.5N)", "24 (1N)")
    ]
    supervised = {"relative_nmi", "annotation_agreement"}  # which a baseline does not have
    assert [span for _, span in real.groups[0]] == [
        2,
        *(2 if name in supervised else 3 for name in QUALITIES),
    ]


def test_figures_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    _, summary, _ = cube(toy.plan("iris", p=(0.9,)))
    for name in ("a", "b"):
        with house_style():
            figure = draw_curves(summary, "nmi")
            assert figure is not None
            save(figure, tmp_path / name, "nmi", "caption")
    for suffix in ("svg", "png"):
        assert (tmp_path / "a" / f"nmi.{suffix}").read_bytes() == (
            tmp_path / "b" / f"nmi.{suffix}"
        ).read_bytes()


def test_a_figure_in_the_page_has_ids_of_its_own_and_colours_by_variable() -> None:
    svg = (
        '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><metadata>x</metadata>'
        '<path id="p1" clip-path="url(#c)" style="stroke: #0072b2"/><use xlink:href="#p1"/>'
        "<text>#0072b2</text></svg>"
    )
    assert inline(svg, "nmi") == (
        '<svg><path id="nmi-p1" clip-path="url(#nmi-c)" style="stroke: var(--blue)"/>'
        '<use xlink:href="#nmi-p1"/><text>#0072b2</text></svg>'
    )
