"""A user's own table as a data set of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_tables import problems, write

from sweeps.data.reading import load_table
from sweeps.errors import InputError

# Whatever the format of a user's own table: paths that cannot be read, and how much is said.


def test_a_flood_of_problems_is_cut_short(tmp_path: Path) -> None:
    found = problems(write(tmp_path, "0,0\n" + "nan,1\n" * 100))
    assert len(found) == 21
    assert found[-1] == "FILE: found 80 more problems like these, expected none"


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    assert problems(tmp_path / "absent.csv") == [
        "FILE: found No such file or directory, expected a readable file"
    ]
    assert problems(tmp_path / "absent.npz") == [
        "FILE: found No such file or directory, expected a readable file"
    ]
    assert problems(tmp_path) == ["FILE: found Is a directory, expected a readable file"]
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"1,2\n\xff\xfe\n")
    assert problems(binary) == [
        "FILE, line 2: found byte 0xff, expected a text file in UTF-8 "
        "(save it again as UTF-8; spreadsheets call that CSV UTF-8)"
    ]


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
