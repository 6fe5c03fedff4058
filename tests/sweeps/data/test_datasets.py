"""A user's own table as a data set of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.data.datasets import load_table
from sweeps.errors import InputError


def test_own_table_becomes_a_data_set(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("a,b,kind\n1,2,x\n3,4,y\n5,6.5,x\n")
    data = load_table("own", path, label_column="kind")
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6.5]]
    assert data.labels_true is not None
    assert data.labels_true.tolist() == [0, 1, 0]
    assert (data.name, data.class_names, data.n_clusters) == ("own", ("x", "y"), 2)
    assert data.source == f"file {path}"
    assert load_table("own", path, label_column=2, n_clusters=3).n_clusters == 3


@pytest.mark.parametrize(
    ("n_clusters", "found"),
    [
        (None, "neither classes nor n_clusters"),
        (0, "0 for 2"),
        (-1, "-1 for 2"),
        (3, "3 for 2 distinct rows"),
    ],
)
def test_number_of_clusters_must_fit(n_clusters: int | None, found: str, tmp_path: Path) -> None:
    path = tmp_path / "own.data"
    path.write_text("1 2\n1 2\n3 4\n")
    with pytest.raises(InputError, match=found):
        load_table("own", path, n_clusters=n_clusters)


@pytest.mark.parametrize(
    ("name", "shape"), [("appendicitis", (106, 7)), ("moons", (300, 2)), ("zoo", (101, 16))]
)
def test_foreign_tables_load(name: str, shape: tuple[int, int], shared_data: Path) -> None:
    data = load_table(name, shared_data / "extra" / f"{name}.data", n_clusters=2)
    assert data.X.shape == shape
    assert data.labels_true is None
