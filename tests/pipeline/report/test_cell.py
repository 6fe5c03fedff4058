"""Scatter plots of one cell: which cell, which features, which colours, and what is marked.

What is drawn of a partition, sample by sample, is in `shown/partitions.txt`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cubes import toy
from cubes.reported import tables

from pipeline.report import cell as room
from pipeline.report.cell import CellFigure, choose_cell, draw_matrix, named_cell, read_cell
from pipeline.report.figures import save
from pipeline.report.look import house_style
from sweeps.errors import InputError


def test_labels_take_the_colours_of_the_truth_and_features_that_tell_it_are_drawn() -> None:
    for labels, guide, expected in (
        ([2, 2, 0, 0, 1, 0], [0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 1]),
        ([1, -1, 0, 0], [0, 0, 1, -1], [0, -1, 1, 1]),
        ([3, 3, 3, 0], [0, 0, 0, 0], [0, 0, 0]),
    ):
        assert room.match(np.array(labels), np.array(guide)).tolist()[: len(expected)] == expected
    classes = np.repeat([0, 1], 50)
    X = np.random.default_rng(5).normal(size=(100, 9))
    X[:, [1, 3, 4, 5, 7, 8]] += 4 * classes[:, None]
    X[:, 0] = 1.0
    assert room.most_separating(X, classes) == (1, 3, 4, 5, 7, 8)


def test_the_shown_cell_is_the_published_one_where_it_is_there_or_that_of_the_user() -> None:
    mixed = toy.plan("mix_k3", mixtures=2)
    cells, _, plans = tables(*(toy.plan(name) for name in ("iris", "vertebral")), mixed)
    assert str(choose_cell(cells, None)).startswith("vertebral/p=0.9/m=24/")
    rest = cells[cells["dataset"] != "vertebral"]
    assert str(choose_cell(rest, None)) == "iris/p=0.9/m=24/replicate=0/posterior"
    assert choose_cell(cells.assign(status="pending"), None) is None
    named = named_cell(plans, "iris/p=0.9/m=12/replicate=2/posterior")
    assert choose_cell(cells, named) == named
    with pytest.raises(InputError, match="expected a cell with annotations"):
        named_cell(plans, "iris/unsupervised")
    with pytest.raises(InputError, match="which is failed, expected a cell that is done"):
        choose_cell(cells, named_cell(plans, "iris/p=0.9/m=12/replicate=0/posterior"))


def test_what_is_marked_is_what_the_scores_count() -> None:
    names = {"class_names": ("a", "b", "c"), "feature_names": ("width", "length")}
    more = ("unsupervised-full", "unsupervised")
    cells, _, plans = tables(toy.plan("iris", baselines=more, **names), toy.plan("mix_k3", mixtures=2))
    tree = toy.tree(*plans.values())
    tree["iris"].attrs["class_names"] = ["a", "b", "c"]
    shown = read_cell(tree, named_cell(plans, "iris/p=0.9/m=12/replicate=2/posterior"))
    row = cells.query(
        "dataset == 'iris' and p == 0.9 and m == 12 and replicate == 2 and model == 'posterior'"
    )
    assert (len(shown.links), shown.links.min()) == (12, 0)
    assert len(shown.contradicted("annotated")) == round(12 * (1 - row["annotation_agreement"].item()))
    assert (shown.class_names, shown.feature(1)) == (("a", "b", "c"), "length")
    # the baseline of the same shape, and the truth of the mixture
    truth, alone = tree["iris"]["labels_true"].values, tree["iris/unsupervised"]["labels"].values
    np.testing.assert_array_equal(shown.partitions["unsupervised"], room.match(alone, truth))
    shown = read_cell(tree, named_cell(plans, "mix_k3/mixture=0/p=0.9/m=12/replicate=2/posterior"))
    assert list(shown.partitions) == ["unsupervised", "annotated", "true"]
    truth = tree["mix_k3"]["labels_true"].sel(mixture=0).values
    np.testing.assert_array_equal(shown.partitions["true"], truth)


def test_many_samples_are_an_image_of_see_through_points(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 500)
    found = np.where(rng.random(2000) < 0.1, (truth + 1) % 4, truth)
    points = rng.normal(size=(2000, 3)) + truth[:, None]
    links = np.column_stack([rng.integers(0, 2000, size=(3000, 2)), rng.integers(0, 2, size=3000)])
    shown = CellFigure("large", points, (0, 1, 2), {"annotated": found, "true": truth}, links)
    with house_style():
        figure = draw_matrix(shown, "annotated", "s.d.")
        drawn = [line for axes in figure.axes for line in axes.lines]
        assert all(line.get_rasterized() and float(line.get_alpha() or 1) < 0.9 for line in drawn)
        gaps = sum(np.isnan(line.get_xdata()).sum() for line in figure.axes[0].lines)  # type: ignore[arg-type]
        assert gaps == room.MOST_LINKS
        picture = save(figure, tmp_path, "cell", shown.caption("annotated"))
    assert f"; {(found != truth).sum()} of 2,000 samples are wrong" in picture.caption
    assert picture.caption.endswith("links are contradicted, marked by a line (60 of them).")
    # three panels of 2,000 points, which as elements would be five times as much
    assert len(picture.svg) < 300_000
    assert picture.svg.count("<use") < 300
