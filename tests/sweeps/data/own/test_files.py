"""Parquet, feather and workbooks: the same samples as of the same table in text, and no more than fits."""

from __future__ import annotations

import builtins
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from own_tables import write

from sweeps.data.own import columns, files
from sweeps.data.own.choice import TableChoice
from sweeps.data.own.reading import read_table
from sweeps.errors import InputError

RNG = np.random.default_rng(1)
CHOICE = TableChoice(index_column="name", label_column="kind", missing="drop", categories="onehot")


@pytest.fixture
def frame() -> pd.DataFrame:
    """Numbers, texts, a class with blanks, and cells that are empty."""
    n = 30
    frame = pd.DataFrame(
        {
            "name": [f"row {i}" for i in range(n)],
            "a": RNG.normal(size=n).round(6),  # which a workbook keeps
            "count": RNG.integers(9, size=n),
            "is_new": RNG.random(n) < 0.5,
            "colour": pd.Categorical(RNG.choice(["red", "blue"], n)),
            "kind": RNG.choice(["one kind", "another"], n),
        }
    )
    frame.loc[[3, 7], "a"] = np.nan
    return frame


def written(frame: pd.DataFrame, folder: Path, suffix: str) -> Path:
    path = folder / f"own{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix == ".feather":
        frame.to_feather(path)
    elif suffix == ".xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.assign(is_new=frame["is_new"].astype(int)).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".xlsx", ".csv.gz"])
def test_every_format_is_the_same_table(suffix: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    if suffix == ".xlsx":
        frame["is_new"] = frame["is_new"].astype(int)
    expected = read_table(written(frame, tmp_path, ".csv"), CHOICE)
    found = read_table(written(frame, tmp_path, suffix), CHOICE)
    assert found.X.shape == (28, 5)
    assert found.checksum() == expected.checksum()
    assert found.class_names == expected.class_names == ("another", "one kind")
    assert found.notes == expected.notes
    assert found.sample_names == expected.sample_names
    assert found.feature_names == ("a", "count", "is_new", "colour=blue", "colour=red")


def test_an_index_of_texts_names_the_samples(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = written(frame.set_index("name"), tmp_path, ".parquet")
    told = {"label_column": "kind", "columns": ("a",), "missing": "drop"}
    named = read_table(path, TableChoice(**told))
    assert named.sample_names[:4] == ("row 0", "row 1", "row 2", "row 4")
    assert read_table(path, TableChoice(**told, index_column="name")).sample_names == named.sample_names
    again = frame.set_index(pd.Index(["same"] * len(frame)))
    assert read_table(written(again, tmp_path, ".feather"), TableChoice(**told)).sample_names == ()


def said(path: Path, **told: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_table(path, TableChoice(**told))
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


def test_cells_are_named_as_the_format_does(frame: pd.DataFrame, tmp_path: Path) -> None:
    empty = '(missing = "drop" leaves out such rows)'
    told = {"columns": ("a", "count"), "label_column": "kind"}
    assert said(written(frame, tmp_path, ".parquet"), **told) == [
        f"FILE, row 4, column 2 (a): found nan, expected a finite number {empty}",
        f"FILE, row 8, column 2 (a): found nan, expected a finite number {empty}",
    ]
    assert said(written(frame, tmp_path, ".xlsx"), **told) == [
        f"FILE, sheet 'Sheet1', cell B5 (a): found an empty cell, expected a finite number {empty}",
        f"FILE, sheet 'Sheet1', cell B9 (a): found an empty cell, expected a finite number {empty}",
    ]


def test_a_sheet_by_name_and_position(tmp_path: Path) -> None:
    path = tmp_path / "own.xlsx"
    with pd.ExcelWriter(path) as writer:
        pd.DataFrame([["words only"]]).to_excel(writer, sheet_name="Read me", index=False, header=False)
        rows = pd.DataFrame([[None, None], ["a", "b"], [1, 2], [None, None], [3, 4]])
        rows.to_excel(writer, sheet_name="Data", index=False, header=False)
    for sheet in ("Data", 1):
        table = read_table(path, TableChoice(sheet=sheet))
        assert table.X.tolist() == [[1, 2], [3, 4]]
        assert table.feature_names == ("a", "b")
    assert said(path, sheet="data") == [
        "FILE, sheet: found 'data', expected one of Read me, Data (did you mean 'Data'?)"
    ]
    assert said(path) == ["FILE, sheet 'Read me': found no rows, expected at least one sample"]


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".xlsx"])
def test_files_that_are_none(suffix: str, tmp_path: Path) -> None:
    for content in ("", "a,b\n1,2\n", "PK\x03\x04 and no more"):
        (found,) = said(write(tmp_path, content, f"own{suffix}"))
        assert found.startswith("FILE: found a broken file (")
    assert said(tmp_path / f"none{suffix}") == [
        "FILE: found No such file or directory, expected a readable file"
    ]


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".xlsx"])
def test_sizes_are_bounded(
    suffix: str, frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(frame, tmp_path, suffix)
    monkeypatch.setattr(columns, "MOST_CELLS", 20)
    monkeypatch.setattr(files, "MOST_SHEET", 100)
    (found,) = said(path, columns=("count",))
    assert "cells, expected at most" in found


def test_a_workbook_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "own.xlsx"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b" " * (files.MOST_UNPACKED + 1))
    path.write_bytes(content.getvalue())
    assert len(content.getvalue()) < 2**20
    (found,) = said(path)
    assert found == (
        "FILE: found 67,108,865 bytes of styles and the like, unpacked, expected at most 2,097,152"
        " (save the table as CSV or parquet)"
    )


@pytest.mark.parametrize(("suffix", "package"), [(".parquet", "pyarrow"), (".xlsx", "openpyxl")])
def test_a_package_that_is_not_there(
    suffix: str, package: str, frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(frame, tmp_path, suffix)
    real = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    assert said(path) == [
        f"FILE: found no {package}, which reads {suffix} files, expected {package} "
        "(pip install 'sweep-clustering[tables]')"
    ]


@pytest.mark.parametrize("suffix", [".pkl", ".xls"])
def test_formats_that_are_not_read(suffix: str, tmp_path: Path) -> None:
    (found,) = said(write(tmp_path, "1,2\n3,5\n", f"own{suffix}"))
    assert found.startswith(f"FILE: found {suffix} file, expected ")


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".xlsx", ".csv.gz"])
def test_a_damaged_file_is_a_table_or_a_problem(suffix: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    """Bytes changed anywhere, one in the offsets of texts among them: never another end than these two."""
    good = written(frame, tmp_path, suffix).read_bytes()
    path = tmp_path / f"damaged{suffix}"
    refused = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        content = bytearray(good)
        for place in rng.integers(len(good), size=rng.choice([1, 3, 20])).tolist():
            content[place] = int(rng.integers(256))
        path.write_bytes(content[: None if seed % 3 else int(rng.integers(1, len(good)))])
        try:
            read_table(path, CHOICE)
        except InputError:
            refused += 1
    assert refused > 50
