"""Cells of pandas: what is a number, what a text, what is missing."""

from __future__ import annotations

import builtins
import io
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from own_tables import problems, write

from sweeps.data import formats
from sweeps.data import table as columns
from sweeps.data.formats import Frame, opened_archive, text_of
from sweeps.data.reading import read_table
from sweeps.data.table import TableChoice
from sweeps.errors import InputError

# Arrays of an .npz file that was made to do harm, or is damaged.

X = np.arange(6.0).reshape(3, 2)


def npy(descr: str = "<f8", shape: str = "(3, 2)", values: bytes = X.tobytes(), version: int = 1) -> bytes:
    """An array as numpy writes it, whatever it says of itself."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + values


def archive(path: Path, *members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a name that comes twice
        with zipfile.ZipFile(path, "w", method) as made:
            for name, content in members:
                made.writestr(name, content)
    return path


@pytest.mark.parametrize("version", [1, 2])
def test_both_versions_of_the_format_are_read(tmp_path: Path, version: int) -> None:
    path = archive(tmp_path / "own.npz", ("X.npy", npy(version=version)))
    assert read_table(path).X.tolist() == X.tolist()


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i8", ">u2", "|i1", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_numpy_writes_is_read_to_the_bit(tmp_path: Path, dtype: str, order: str) -> None:
    values = np.random.default_rng(0).integers(0, 2, (50, 3)) * 0.5
    given = np.asarray(values, dtype=dtype, order=order)  # type: ignore[call-overload]
    if given.astype(float).var() == 0:
        given = np.asarray(values * 2, dtype=dtype, order=order)  # type: ignore[call-overload]
    np.savez_compressed(tmp_path / "own.npz", X=given)
    found = read_table(tmp_path / "own.npz").X
    assert found.tobytes() == given.astype(np.float64).tobytes()
    assert found.flags.c_contiguous


REFUSED = {
    "objects": (("X.npy", npy("|O", values=b"\x80\x04N.")), "objects (a pickle), expected an array without"),
    "fields": (("X.npy", npy("f8,f8", "(3,)")), "expected numbers of shape (samples, features)"),
    "huge": (
        ("X.npy", npy(shape="(100000, 100000)")),
        "80,000,000,000 bytes, of shape (100000, 100000) and type float64, expected at most 1,073,741,824",
    ),
    "longer": (("X.npy", npy(shape="(30, 2)")), "48 bytes for shape (30, 2) of type float64, expected 480"),
    "shorter": (("X.npy", npy(shape="(2, 2)")), "48 bytes for shape (2, 2) of type float64, expected 32"),
    "negative": (("X.npy", npy(shape="(-3, 2)")), "shape (-3, 2), expected no negative length"),
    "no shape": (("X.npy", npy(shape="3")), "a header that is none"),
    "no header": (("X.npy", b"\x93NUMPY\x01\x00\x05\x00hello"), "a header that is none (ValueError)"),
    "nested header": (("X.npy", npy(shape="(" * 3000)), "a header that is none"),
    "long header": (("X.npy", npy(shape="(3, 2)" + " " * 20_000)), "a header of 20,0"),
    "version": (("X.npy", b"\x93NUMPY\x09\x00" + bytes(90)), "version 9.0 of the array format"),
    "raw": (
        ("X", b"1,2\n3,4\n"),
        "array 'X': found b'1,2\\n3,4\\n' at its start, expected an array as numpy",
    ),
    "empty": (("X.npy", b""), "found b'' at its start"),
    "head": (("X.npy", b"\x93NUMPY\x01\x00"), "a broken file (unpack requires"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_array_that_is_none_is_one_problem(tmp_path: Path, what: str) -> None:
    member, said = REFUSED[what]
    (found,) = problems(archive(tmp_path / "own.npz", member))
    assert said in found


def test_an_array_larger_once_it_is_used(tmp_path: Path) -> None:
    """A byte a number in the file, 8 in the memory."""
    member = "X.npy", npy("|i1", "(200000, 1000)", bytes(200_000_000))
    path = archive(tmp_path / "own.npz", member, method=zipfile.ZIP_DEFLATED)
    assert problems(path) == [
        "FILE, array 'X': found 200,000 rows of 1,000 cells, "
        "expected at most 10,000,000 rows, 131,072 columns and 50,000,000 cells"
    ]


def test_a_name_that_stands_twice(tmp_path: Path) -> None:
    for names in (["X.npy", "X.npy"], ["X", "X.npy"]):
        path = archive(tmp_path / "own.npz", *((name, npy()) for name in names))
        assert problems(path) == ["FILE: found two arrays 'X', expected each name once"]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 99])
def test_other_methods_of_compression(tmp_path: Path, method: int) -> None:
    path = archive(tmp_path / "own.npz", ("X.npy", npy()), method=method if method < 99 else 0)
    if method == 99:
        content = bytearray(path.read_bytes())
        content[content.index(b"PK\1\2") + 10] = 99
        path.write_bytes(content)
    assert problems(path) == [
        f"FILE, array 'X': found compression method {method}, expected none or deflate, as numpy writes them"
    ]


def test_a_password(tmp_path: Path) -> None:
    path = archive(tmp_path / "own.npz", ("X.npy", npy()))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(content)
    (found,) = problems(path)
    assert "encrypted" in found


def test_every_truncation_is_one_message(tmp_path: Path) -> None:
    whole = archive(tmp_path / "own.npz", ("X.npy", npy()), method=zipfile.ZIP_DEFLATED).read_bytes()
    for length in range(len(whole)):
        (tmp_path / "own.npz").write_bytes(whole[:length])
        (found,) = problems(tmp_path / "own.npz")
        assert found.startswith("FILE: found a broken file (")


def test_a_directory_longer_than_any_is_not_read(tmp_path: Path) -> None:
    content = archive(tmp_path / "own.npz", ("X.npy", npy())).read_bytes()
    end = content.rindex(b"PK\5\6")
    claimed = bytearray(content[:end] + bytes(2**22) + content[end:])
    claimed[-10:-6] = struct.pack("<I", 2**22)
    (tmp_path / "own.npz").write_bytes(claimed)
    (found,) = problems(tmp_path / "own.npz")
    assert "a directory of 4,194,304 bytes, at most 1,048,576" in found


def peak_bytes(path: Path) -> tuple[list[str], int]:
    tracemalloc.start()
    try:
        return problems(path), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    """4 GB of zeros in 4 MB: its header alone is read."""
    path = tmp_path / "own.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made,
        made.open("X.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy(shape=f"({2**29}, 1)", values=b""))
        for _ in range(64):
            member.write(bytes(2**26))
    (found,), peak = peak_bytes(path)
    assert f"4,294,967,296 bytes, of shape ({2**29}, 1)" in found
    assert peak < 2**24


def test_a_claim_that_nothing_is_behind_is_a_broken_file(tmp_path: Path) -> None:
    """The directory says 320 MB, as the header of the array does; the data end after 6 numbers."""
    path = archive(tmp_path / "own.npz", ("X.npy", npy(shape="(400000, 100)")), method=zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\1\2") + 24
    (size,) = struct.unpack_from("<I", content, place)
    struct.pack_into("<I", content, place, size - X.nbytes + 32 * 10**7)
    path.write_bytes(content)
    assert problems(path) == [
        "FILE: found a broken file (fewer than the 320,000,000 bytes of shape (400000, 100)), "
        "expected an .npz file"
    ]


@pytest.mark.parametrize("code", [0x110000, 0xD800, 0xFFFFFFFF])
@pytest.mark.parametrize("order", ["<", ">"])
def test_texts_that_are_none(tmp_path: Path, code: int, order: str) -> None:
    classes = npy(f"{order}U1", "(3,)", struct.pack(f"{order}3I", 97, code, 98))
    path = archive(tmp_path / "own.npz", ("X.npy", npy()), ("y.npy", classes))
    assert problems(path) == [
        "FILE, array 'y': found numbers that stand for no character, expected texts in Unicode"
    ]


def test_limits_hold_for_names_that_are_not_read(tmp_path: Path) -> None:
    """What nobody asks for is not looked at."""
    path = archive(tmp_path / "own.npz", ("X.npy", npy()), ("notes", b"\x80\x04N."))
    assert read_table(path).X.tolist() == X.tolist()
    with opened_archive(path) as found:
        assert found.names == ["X", "notes"]


# A user's own table as arrays: what is read, and everything that is said about a wrong one.


@pytest.mark.parametrize("name", ["y", "labels", "labels_true"])
def test_npz_with_and_without_classes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    X = np.array([[1, 2], [3, 4], [5, 7]], dtype=np.int32)
    np.savez(path, X=X)
    assert read_table(path).labels_true is None
    np.savez_compressed(path, X=X, **{name: np.array(["b", "a", "b"])})
    table = read_table(path)
    assert table.X.dtype == np.float64
    assert table.X.tolist() == X.tolist()
    assert table.labels_true is not None
    assert table.labels_true.tolist() == [1, 0, 1]
    assert table.class_names == ("a", "b")


def test_npz_array_of_classes_by_name(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, X=np.arange(6).reshape(3, 2), y=[0, 0, 0], species=[10, 9, 10])
    table = read_table(path, label_column="species")
    assert table.class_names == ("9", "10")


X_GOOD = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("arrays", "label_column", "found"),
    [
        ({"x": X_GOOD}, None, ["FILE: found arrays x, expected an array 'X'"]),
        ({"X": X_GOOD[0]}, None, ["FILE, array 'X': found shape (2,) of type float64, "
                                  "expected numbers of shape (samples, features)"]),
        ({"X": X_GOOD * 1j}, None, ["FILE, array 'X': found shape (3, 2) of type complex128, "
                                    "expected numbers of shape (samples, features)"]),
        ({"X": X_GOOD[:0]}, None, ["FILE, array 'X': found shape (0, 2), "
                                   "expected at least one sample and one feature"]),
        ({"X": np.array([[1, np.nan], [np.inf, 2]])}, None,
         ["FILE, X[0, 1]: found nan, expected a finite number (missing = \"drop\" leaves out such rows)",
          "FILE, X[1, 0]: found inf, expected a finite number"]),
        ({"X": X_GOOD, "y": [0, 1]}, None, ["FILE: found 2 classes, expected one for each of 3 rows"]),
        ({"X": X_GOOD, "y": [0.0, np.nan, 1.0]}, None, ["FILE, y[1]: found NaN, expected a class"]),
        ({"X": X_GOOD, "y": [[0], [1], [2]]}, None,
         ["FILE, array 'y': found shape (3, 1) of type int64, "
          "expected whole numbers or texts of shape (samples,)"]),
        ({"X": X_GOOD, "y": [0, 1, 1], "labels": [0, 1, 1]}, None,
         ["FILE: found arrays 'y' and 'labels', expected one of them (name it as label_column)"]),
        ({"X": X_GOOD, "kinds": [0, 1, 1]}, "kind",
         ["FILE: found arrays X, kinds, expected an array 'kind' (did you mean 'kinds'?)"]),
        ({"X": X_GOOD, "y": [0, 1, 1]}, 1,
         ["FILE, label_column: found 1, expected the name of an array (it is an .npz file)"]),
        ({"X": X_GOOD[:, :0], "y": []}, None,
         ["FILE, array 'X': found shape (3, 0), expected at least one sample and one feature",
          "FILE, array 'y': found shape (0,) of type float64, "
          "expected whole numbers or texts of shape (samples,)"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_npz(
    arrays: dict[str, np.ndarray], label_column: str | int | None, found: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    assert problems(path, label_column) == found


def test_pickles_in_an_npz_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, X=X_GOOD, y=np.array([{}, [], ()], dtype=object))
    (found,) = problems(path)
    assert found == "FILE, array 'y': found objects (a pickle), expected an array without objects"


@pytest.mark.parametrize("content", [b"", b"1,2\n", b"PK\3\4 and no more"])
def test_npz_that_is_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(content)
    (found,) = problems(path)
    assert found.startswith("FILE: found a broken file (")
    assert found.endswith("), expected an .npz file")


def test_damaged_npz_member(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).normal(size=(100, 5)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    (found,) = problems(path)
    assert found.startswith("FILE: found a broken file (")


def test_arrays_of_texts_beside_the_features(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, X=X_GOOD, name=["Ann", "Bob", "Eve"], number=[1, 2, 3], short=["a"])
    table = read_table(path, aside=("number", "name"))
    assert table.aside == (("1", "2", "3"), ("Ann", "Bob", "Eve"))
    with pytest.raises(InputError) as caught:
        read_table(path, aside=("nam", "short"))
    assert [str(each).replace(str(path), "FILE") for each in caught.value.problems] == [
        "FILE: found arrays X, name, number, short, expected an array 'nam' (did you mean 'name'?)"
    ]
    with pytest.raises(InputError, match="found 1 texts, expected one for each of 3 rows"):
        read_table(path, aside=("short",))


# Parquet, feather and workbooks: the same samples as of the same table in text, and no more than fits.

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
    monkeypatch.setattr(formats, "MOST_SHEET", 100)
    (found,) = said(path, columns=("count",))
    assert "cells, expected at most" in found


def test_a_workbook_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "own.xlsx"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b" " * (formats.MOST_UNPACKED + 1))
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


def numbers(*columns: object) -> tuple[list[list[float]], list[int]]:
    frame = pd.DataFrame({str(n): column for n, column in enumerate(columns)})

    def parts(chosen: Sequence[int]) -> Iterator[list[object]]:
        for start in range(len(frame)):  # row by row, each of its own type
            yield [frame.iloc[start : start + 1, column] for column in chosen]

    found = Frame(Path("own"), parts, 2, len(columns), [], lambda *place: "").numbers(range(len(columns)))
    return found.values.T.tolist(), found.n_others.tolist()


def test_types_that_are_numbers() -> None:
    values, others = numbers(
        np.array([1, 2], dtype=np.uint8),
        np.array([0.1, 0.2], dtype=np.float32),
        [True, False],
        pd.array([1, None], dtype="Int64"),
        pd.Series(["1.5", "nan"]),
    )
    assert values[:3] == [[1, 2], [float(np.float32(0.1)), float(np.float32(0.2))], [1, 0]]
    assert values[3][0] == 1
    assert np.isnan(values[3][1])
    assert values[4][0] == 1.5
    assert others == [0, 0, 0, 0, 0]


def test_types_that_are_none() -> None:
    dates = pd.to_datetime(["2024-01-01", "2024-01-02"])
    _, others = numbers(["x", "y"], pd.Categorical(["1", "2"]), dates, np.array([1j, 2j]), ["1", "x"])
    assert others == [2, 2, 2, 2, 1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (np.nan, ""), (pd.NA, ""), (pd.NaT, ""), (3.0, "3"), (0.1, "0.1"), (1e300, "1e+300"),
        (np.float64(2.5), "2.5"), (" x ", "x"), (7, "7"), (b"z\xff", "z\ufffd"), (True, "True"),
    ],
)  # fmt: skip
def test_texts_of_cells(value: object, text: str) -> None:
    assert text_of(value) == text
