"""Scatter plots of one cell: which cell, which features, which colours."""

from __future__ import annotations

import numpy as np
import pytest
from cubes import toy
from cubes.reported import tables

from pipeline.report.parts.scatter import draw_matrix
from pipeline.report.sections.cell import (
    choose_cell,
    match,
    most_separating,
    named_cell,
    read_cell,
)
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
    assert shown.class_names == ("a", "b", "c")
    assert shown.feature(1) == "length"
    assert shown.links.min() >= 0
    assert shown.links[:, :2].max() < 24
