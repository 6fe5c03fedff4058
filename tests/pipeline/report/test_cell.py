"""Scatter plots of one cell: which cell, which features, which colours, and what is marked.

What is drawn of a partition, sample by sample, is in `shown/partitions.txt`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cubes import toy
from cubes.reported import tables

from pipeline.report.cell import (
    MOST_LINKS,
    CellFigure,
    choose_cell,
    draw_matrix,
    match,
    most_separating,
    named_cell,
    read_cell,
)
from pipeline.report.figures import save
from pipeline.report.look import house_style
from sweeps.errors import InputError


def test_labels_take_the_colours_of_the_truth() -> None:
    truth = np.array([0, 0, 1, 1, 2, 2])
    assert match(np.array([2, 2, 0, 0, 1, 0]), truth).tolist() == [0, 0, 1, 1, 2, 1]
    assert match(np.array([1, -1, 0, 0]), np.array([0, 0, 1, -1])).tolist() == [0, -1, 1, 1]
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
    cells, _, plans = tables(*(toy.plan(name) for name in names), toy.plan("mix_k3", mixtures=2))
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
    figure = draw_matrix(shown, "true", "s.d.")
    drawn = [line for axes in figure.axes for line in axes.get_lines() if line.get_alpha() != 0]
    points = [line for line in drawn if line.get_linestyle() == "None"]
    assert sum(len(line.get_xdata()) for line in points) == len(truth)


def test_a_cell_is_named_by_the_user() -> None:
    cells, _, plans = tables(toy.plan("iris"))
    named = named_cell(plans, "iris/p=0.9/m=12/replicate=2/posterior")
    assert choose_cell(cells, named) == named
    with pytest.raises(InputError, match="expected a cell with annotations"):
        named_cell(plans, "iris/unsupervised")
    with pytest.raises(InputError, match="which is failed, expected a cell that is done"):
        choose_cell(cells, named_cell(plans, "iris/p=0.9/m=12/replicate=0/posterior"))


def test_what_is_marked_is_what_the_scores_count() -> None:
    cells, _, plans = tables(toy.plan("iris", class_names=("a", "b", "c"), feature_names=("width", "length")))
    tree = toy.tree(*plans.values())
    tree["iris"].attrs["class_names"] = ["a", "b", "c"]
    shown = read_cell(tree, named_cell(plans, "iris/p=0.9/m=12/replicate=2/posterior"))
    row = cells[(cells["p"] == 0.9) & (cells["m"] == 12) & (cells["replicate"] == 2)]
    share = float(row.loc[row["model"] == "posterior", "annotation_agreement"].iloc[0])
    assert len(shown.links) == 12
    assert len(shown.contradicted("annotated")) == round(12 * (1 - share))
    assert (shown.class_names, shown.feature(1)) == (("a", "b", "c"), "length")
    assert (shown.links.min() >= 0, shown.links[:, :2].max() < 24) == (True, True)


def test_many_samples_are_an_image_of_see_through_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 500)
    found = np.where(rng.random(2000) < 0.1, (truth + 1) % 4, truth)
    points = rng.normal(size=(2000, 6)) + truth[:, None]
    pairs = rng.integers(0, 2000, size=(3000, 2))
    links = np.column_stack([pairs, rng.integers(0, 2, size=3000)])
    partitions = {"annotated": found, "true": truth}
    shown = CellFigure("large", points, tuple(range(6)), partitions, links)
    with house_style():
        figure = draw_matrix(shown, "annotated", "s.d.")
        drawn = [line for axes in figure.axes for line in axes.lines]
        assert all(line.get_rasterized() for line in drawn)
        assert all(float(line.get_alpha() or 1) < 0.9 for line in drawn)
        links = sum(np.isnan(line.get_xdata()).sum() for line in figure.axes[0].lines)  # type: ignore[arg-type]
        assert links == MOST_LINKS
        picture = save(figure, tmp_path, "cell", shown.caption("annotated"))
    wrong = int((found != truth).sum())
    assert f"; {wrong} of 2,000 samples are wrong" in picture.caption
    assert picture.caption.endswith("links are contradicted, marked by a line (60 of them).")
    # fifteen panels of 2,000 points, which as elements would be five times as much
    assert len(picture.svg) < 900_000
    assert picture.svg.count("<use") < 1000
