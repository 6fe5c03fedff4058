"""Scatter plots of one cell: which cell, which features, which colours, and what is marked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cubes import toy
from cubes.reported import tables
from matplotlib.lines import Line2D

from pipeline.report.cell import (
    MOST_LINKS,
    NO_CLUSTER,
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
    assert shown.class_names == ("a", "b", "c")
    assert shown.feature(1) == "length"
    assert shown.links.min() >= 0
    assert shown.links[:, :2].max() < 24


X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [5.0, 5.0], [5.0, 6.0], [6.0, 5.0]])
SIX = CellFigure(
    name="six",
    X=X,
    features=(0, 1),
    partitions={
        "unsupervised": np.array([0, 0, 0, 1, 1, 1]),
        "annotated": np.array([0, 0, 1, 1, 1, 1]),
        "true": np.array([0, 0, 0, 1, 1, 1]),
    },
    links=np.array([[0, 1, 0], [1, 2, 0], [0, 5, 1]]),
    feature_names=("width", "a name that is longer than a panel"),
    class_names=("red", "blue"),
)
"""Sample 2 is in the wrong cluster, away from sample 1, to which it must link."""


def lines(shown: CellFigure, key: str) -> tuple[list[Line2D], list[str]]:
    """Of the only panel, and the entries of the legend."""
    with house_style():
        figure = draw_matrix(shown, key, "s.d.")
    (axes,) = figure.axes
    return list(axes.lines), [text.get_text() for text in figure.legends[0].get_texts()]


def test_one_wrong_sample_and_one_contradicted_link_are_marked_and_counted() -> None:
    drawn, entries = lines(SIX, "annotated")
    link, middle, first, second, ring = drawn
    assert np.asarray(middle.get_xydata()).tolist() == [[0.5, 0.5]]
    assert link.get_linestyle() == "-"
    assert np.asarray(link.get_xydata())[:2].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert [len(np.asarray(points.get_xdata())) for points in (first, second)] == [2, 4]
    assert np.asarray(ring.get_xydata()).tolist() == [[1.0, 0.0]]
    assert entries == ["red", "blue", "wrong sample", "contradicted must-link"]
    assert SIX.caption("annotated") == (
        "annotated: six; 1 of 6 samples is wrong, marked by a ring; 1 of 3 links is contradicted, marked by a"
        " line."
    )


def test_a_cannot_link_within_a_cluster_is_dashed() -> None:
    drawn, entries = lines(replace(SIX, links=np.array([[3, 4, 1], [0, 1, 0]])), "annotated")
    assert drawn[0].get_linestyle() == "--"
    assert entries[-1] == "contradicted cannot-link"


def test_what_is_not_wrong_is_not_marked() -> None:
    drawn, entries = lines(SIX, "true")
    assert len(drawn) == 2
    assert entries == ["red", "blue"]
    assert SIX.caption("true") == "true: six; 0 of 3 links are contradicted."
    assert SIX.caption("unsupervised") == "unsupervised: six; 0 of 6 samples are wrong."


def test_without_a_truth_no_sample_is_wrong() -> None:
    alone = replace(SIX, partitions={"annotated": SIX.partitions["annotated"]}, links=SIX.links[:0])
    drawn, entries = lines(alone, "annotated")
    assert len(drawn) == 2
    assert entries == ["cluster 1", "cluster 2"]
    assert alone.caption("annotated") == "annotated: six."


def test_samples_of_no_cluster_and_of_no_known_class() -> None:
    found = {"annotated": np.array([0, 0, -1, 1, 1, 1]), "true": np.array([0, 0, 0, 1, 1, -1])}
    shown = replace(SIX, partitions=found)
    assert shown.wrong("annotated").tolist() == [2]
    assert "1 of 5 samples is wrong" in shown.caption("annotated")
    assert lines(shown, "annotated")[1][0] == NO_CLUSTER


def test_names_of_samples_are_shown_on_wrong_ones_and_on_links(tmp_path: Path) -> None:
    named = replace(SIX, sample_names=tuple("abcdef"))
    with house_style():
        svg = save(draw_matrix(named, "annotated", "s.d."), tmp_path, "cell", "").svg
    assert svg.count("<title>") == 2
    assert "<title>c: in blue, truly red</title>" in svg
    assert "<title>b and c: contradicted must-link</title>" in svg
    assert SIX.sample(2) == "sample 3"
    assert named.feature(1) == "a name that is long…"


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
