"""Tables in other formats have the samples of the text, and damaged or harmful files are refused."""

import struct
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from openpyxl import Workbook
from own_tables import problems, read, write, write_frame

from sweep_clustering.sweeps.data import formats
from sweep_clustering.sweeps.data import table as columns
from sweep_clustering.sweeps.data.table import Frame, text_of
from sweep_clustering.sweeps.errors import InputError

# Arrays: what numpy writes, what is none, and everything that is said about a wrong one.

X = np.arange(6.0).reshape(3, 2)


def npy(descr: str = "<f8", shape: str = "(3, 2)", values: bytes = X.tobytes(), version: int = 1) -> bytes:
    """Return an array in numpy's format with any header."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + values


def archive(path: Path, *members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as zip_file:
        for name, content in members:
            zip_file.writestr(name, content)
    return path


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i8", ">u2", "|i1", "|b1"])
def test_what_numpy_writes_is_read_to_the_bit(tmp_path: Path, dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 2, (formats.PART // 2, 3))  # not read at once
    for order in ("C", "F"):
        array: np.ndarray = np.asarray(values, dtype=dtype, order=order)  # type: ignore[call-overload]
        np.savez_compressed(tmp_path / "own.npz", X=array, notes=np.array([{}], dtype=object))
        np.save(tmp_path / "own.npy", array)
        for path in (tmp_path / "own.npz", tmp_path / "own.npy"):
            read_back = read(path).X
            assert read_back.tobytes() == values.astype(np.float64).tobytes()
            assert read_back.flags.c_contiguous
    assert read(archive(tmp_path / "own.npz", ("X.npy", npy(version=2)))).X.tolist() == X.tolist()


@pytest.mark.parametrize("name", ["own.npy", "own.npz"])
def test_short_numbers_are_never_in_memory_twice(tmp_path: Path, name: str) -> None:
    array = np.random.default_rng(0).random((100_000, 40), dtype=np.float32)
    if name == "own.npy":
        np.save(tmp_path / name, array)
    else:
        np.savez(tmp_path / name, X=array)
    del array
    tracemalloc.start()
    try:
        assert read(tmp_path / name).X.dtype == np.float64
        # 8 bytes, and one for whether it is finite; with the numbers of the file there would be 12
        assert tracemalloc.get_traced_memory()[1] < 11 * 100_000 * 40
    finally:
        tracemalloc.stop()


NONE = "FILE, array 'X': found a header that is none"
HEADERS = ("(-3, 2)", "(" * 3000, "(3, 2)" + " " * 20_000)
REFUSED = (
    (npy("|O", values=b"\x80\x04N."), "type object, expected an array without objects"),
    (npy("f8,f8", "(3,)"), "expected numbers of shape (samples, features)"),
    (npy(shape="(100000, 100000)"), "100,000 rows of 100,000 cells, expected at most 10,000,000"),
    (npy(shape="(2, 2)"), "48 bytes for shape (2, 2) of type float64, expected 32"),
    *((npy(shape=shape), NONE) for shape in HEADERS),
    *((content, NONE) for content in (b"\x93NUMPY\x01\0\5\0hello", b"\x93NUMPY\x09\0" + bytes(90), b"")),
)


def test_an_archive_is_not_trusted(tmp_path: Path) -> None:
    """It may lack arrays, be cut, changed, encrypted, packed otherwise, or hold texts that are none."""
    for content, words in REFUSED:
        (problem,) = problems(archive(tmp_path / "own.npz", ("X.npy", content)))
        assert words in problem
        (problem,) = problems(write(tmp_path, content, "own.npy"))
        assert words.replace(", array 'X'", "") in problem
    path = archive(tmp_path / "own.npz", ("X.npy", npy()))
    whole = path.read_bytes()
    entry, value = whole.index(b"PK\1\2"), whole.index(X.tobytes()) + 8
    for length in range(0, len(whole), 3):
        (problem,) = problems(write(tmp_path, whole[:length], "own.npz"))
        assert problem.startswith("FILE: found a broken file (")
    places = ((8, 1, "encrypted"), (10, 99, "method 99"), (24, 9, "broken"), (value - entry, 0xEE, "Bad CRC"))
    for place, code, words in places:
        changed = bytearray(whole)
        changed[entry + place] = code
        assert words in problems(write(tmp_path, bytes(changed), "own.npz"))[0]
    (problem,) = problems(archive(path, ("X.npy", npy()), method=zipfile.ZIP_LZMA))
    assert problem.endswith("found compression method 14, expected none or deflate, as numpy writes them")
    for code in (0x110000, 0xD800):
        classes = npy("<U1", "(3,)", struct.pack("<3I", 97, code, 98))
        (problem,) = problems(archive(path, ("X.npy", npy()), ("y.npy", classes)))
        assert "code" in problem  # it is a code of Unicode, or its codec


def test_npz_with_and_without_classes(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, X=X)
    assert read(path).labels_true is None
    for name, column in (("labels_true", None), ("species", "species")):
        np.savez_compressed(path, X=X.astype(np.int32), **{name: np.array(["b", "a", "b"])})
        table = read(path, label_column=column)
        assert table.X.dtype == np.float64
        assert table.X.tolist() == X.tolist()
        assert table.labels_true.tolist() == [1, 0, 1]
        assert table.class_names == ("a", "b")
    np.savez(path, X=X, name=["Ann", "Bob", "Eve"], number=[1, 2, 3], short=["a"])
    table = read(path, aside=("number", "name"), index_column="name", columns=(-1,))
    assert table.aside == (("1", "2", "3"), ("Ann", "Bob", "Eve"))
    assert table.sample_names == ("Ann", "Bob", "Eve")
    assert table.X.tolist() == [[1], [3], [5]]


def test_what_is_wrong_with_an_npz(tmp_path: Path) -> None:
    path, classes, empty = tmp_path / "own.npz", [0, 1, 1], "found an empty cell, expected a finite number"
    for arrays, options, messages in (
        ({"X": X[0]}, {},
         [", array 'X': found shape (2,) of type float64, expected numbers of shape (samples, features)"]),
        ({"X": np.array([[1, np.nan], [np.inf, 2]])}, {},
         [f', X[0, 1]: {empty} (missing = "drop" leaves out such rows)',
          ", X[1, 0]: found 'inf', expected a finite number"]),
        ({"X": X, "y": [0, 1]}, {}, [", array 'y': found 2 texts, expected one for each of 3 rows"]),
        ({"X": X, "y": classes, "labels": classes}, {},
         [": found arrays 'y' and 'labels', expected one of them (name it as label_column)"]),
        ({"X": X, "kinds": classes}, {"label_column": "kind"},
         [": found arrays X, kinds, expected an array 'kind' (did you mean 'kinds'?)"]),
        ({"X": X, "y": classes}, {"label_column": 1, "index_column": 2},
         [f", {key}: found {place}, expected the name of an array (it is an .npz file)"
          for key, place in (("label_column", 1), ("index_column", 2))]),
        ({"X": X[:, :0], "y": [["a"], ["b"], ["c"]]}, {},
         [", array 'X': found shape (3, 0) of type float64, expected at least one sample and one feature",
          ", array 'y': found shape (3, 1) of type <U1, "
          "expected whole numbers or texts of shape (samples,)"]),
        ({"X": X, "y": np.array([{}, [], ()], dtype=object)}, {},
         [", array 'y': found shape (3,) of type object, expected an array without objects"]),
    ):  # fmt: skip
        np.savez(path, **arrays)
        assert problems(path, **options) == [f"FILE{message}" for message in messages]


# Parquet, feather and workbooks: the same samples as of the same table in text, and no more than fits.

SUFFIXES = (".parquet", ".feather", ".xlsx")
TOLD: dict[str, Any] = {"label_column": "kind", "missing": "drop"}
NAMED = TOLD | {"index_column": "name", "categories": "onehot"}

# Numbers, texts, a class with blanks, and cells that are empty.
RNG = np.random.default_rng(1)
FRAME = pd.DataFrame({"name": [f"row {i}" for i in range(30)], "count": RNG.integers(9, size=30)})
FRAME.insert(1, "a", RNG.normal(size=30).round(6))  # a workbook keeps these digits
FRAME["is_new"] = RNG.random(30) < 0.5
FRAME["colour"] = pd.Categorical(RNG.choice(["red", "blue"], 30))
FRAME["kind"] = RNG.choice(["one kind", "another"], 30)
FRAME.loc[[3, 7], "a"] = np.nan


def test_every_format_is_the_same_table(tmp_path: Path) -> None:
    expected = read(write_frame(FRAME, tmp_path / "own.csv"), **NAMED)
    assert expected.X.shape == (28, 5)
    assert expected.class_names == ("another", "one kind")
    assert expected.feature_names == ("a", "count", "is_new", "colour=blue", "colour=red")
    for suffix in (*SUFFIXES, ".csv.gz"):
        table = read(write_frame(FRAME, tmp_path / f"own{suffix}"), **NAMED)
        assert table.checksum() == expected.checksum()
        for name in ("class_names", "notes", "sample_names", "feature_names"):
            assert getattr(table, name) == getattr(expected, name)
    # an index of texts names the samples
    options = TOLD | {"columns": ("a",)}
    path = write_frame(FRAME.set_index("name"), tmp_path / "own.parquet")
    for more in ({}, {"index_column": "name"}):
        assert read(path, **options, **more).sample_names[:4] == ("row 0", "row 1", "row 2", "row 4")
    again = FRAME.set_index(pd.Index(["same"] * 30))
    assert read(write_frame(again, tmp_path / "own.feather"), **options).sample_names == ()
    empty = 'found an empty cell, expected a finite number (missing = "drop" leaves out such rows)'
    for suffix, place, rows in (
        (".parquet", "row {}, column 2", (4, 8)),
        (".xlsx", "sheet 'Sheet1', cell B{}", (5, 9)),
    ):
        messages = problems(write_frame(FRAME, tmp_path / f"own{suffix}"), **options | {"missing": "error"})
        assert messages == [f"FILE, {place.format(row)} (a): {empty}" for row in rows]


@pytest.mark.parametrize(("suffix", "kind"), [(".parquet", "object"), (".feather", "category")])
def test_texts_of_a_dictionary_and_numbers_with_missing_cells(suffix: str, kind: str, tmp_path: Path) -> None:
    """Rows come in many batches, and some of their cells are missing."""
    rng, n, path = np.random.default_rng(3), 20_000, tmp_path / f"own{suffix}"
    words = pd.Series(rng.choice(["first", "second", "1.0"], n))
    frame = pd.DataFrame({"a": rng.normal(size=n), "kind": words.astype(kind)})
    frame["count"] = pd.array(np.where(frame.index % 15_000 == 7, None, 2**53 + frame.index), dtype="Int64")
    frame["is"] = pd.array(np.where(frame.index % 15_000 == 9, None, frame.index % 2 == 0), dtype="boolean")
    frame.to_parquet(path, row_group_size=3000) if suffix == ".parquet" else frame.to_feather(path)
    table = read(path, **TOLD)
    is_whole = frame["count"].notna() & frame["is"].notna()
    assert table.class_names == ("1.0", "first", "second")
    assert [table.class_names[code] for code in table.labels_true.tolist()] == words[is_whole].tolist()
    assert np.array_equal(table.X, frame[is_whole][["a", "count", "is"]].astype(float))
    problem = problems(path, columns=("a",), index_column="count")[0]
    assert "found an empty cell, expected another name" in problem


def test_a_sheet_by_name_and_position(tmp_path: Path) -> None:
    path = tmp_path / "own.xlsx"
    with pd.ExcelWriter(path) as writer:
        pd.DataFrame([["words only"]]).to_excel(writer, sheet_name="Read me", index=False, header=False)
        rows = pd.DataFrame([[None, None], ["a", "b"], [1, 2], [None, None], [3, 4]])
        rows.to_excel(writer, sheet_name="Data", index=False, header=False)
    for sheet in ("Data", 1, "1"):
        table = read(path, sheet=sheet)
        assert table.X.tolist() == [[1, 2], [3, 4]]
        assert table.feature_names == ("a", "b")
    (problem,) = problems(path, sheet="data")
    assert problem == "FILE, sheet: found 'data', expected one of Read me, Data (did you mean 'Data'?)"
    assert problems(path) == ["FILE, sheet 'Read me': found no rows, expected at least one sample"]


def test_cells_that_make_rows_as_wide_as_the_widest_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.xlsx"
    book = Workbook()
    for row in [[0.0]] * 10 + [[1.0] * 10]:
        book.active.append(row)
    book.save(path)
    for most, start in (
        (110, "FILE, sheet 'Sheet', cell B1: found an empty"),
        (109, "FILE: found more than 109"),
    ):
        monkeypatch.setattr(formats, "MOST_SHEET", most)
        assert problems(path)[0].startswith(start)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_none_or_too_large(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in ("", "a,b\n1,2\n", "PK\x03\x04 and no more"):
        (problem,) = problems(write(tmp_path, content, f"own{suffix}"))
        assert problem.startswith("FILE: found a broken file (")
    path = write_frame(FRAME, tmp_path / f"own{suffix}")
    monkeypatch.setattr(columns, "MOST_CELLS", 20)
    monkeypatch.setattr(formats, "MOST_SHEET", 100)
    assert "cells, expected at most" in problems(path, columns=("count",))[0]
    package = "openpyxl" if suffix == ".xlsx" else "pyarrow"
    for name in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    extra = "(pip install 'sweep-clustering[tables]')"
    assert problems(path) == [
        f"FILE: found no {package}, which reads {suffix} files, expected {package} {extra}"
    ]


def test_what_unpacks_to_too_much_and_formats_that_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = ("xl/workbook.xml", b" " * (formats.MOST_BESIDE + 1))
    (problem,) = problems(archive(tmp_path / "own.xlsx", blank, method=zipfile.ZIP_DEFLATED))
    assert "bytes of the rest, unpacked, expected at most 2,097,152" in problem
    for suffix in (".pkl", ".xls"):
        (problem,) = problems(write(tmp_path, "1,2\n3,5\n", f"own{suffix}"))
        assert problem.startswith(f"FILE: found {suffix} file, expected ")
    many = pd.DataFrame({"a": np.arange(20.0), "b": 1})
    many.to_parquet(tmp_path / "own.parquet", row_group_size=1)
    monkeypatch.setattr(formats, "MOST_PARTS", 39)
    (problem,) = problems(tmp_path / "own.parquet")
    assert "found 20 parts of 2 columns, expected at most 39 columns of parts" in problem


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".csv.gz"])
def test_a_damaged_file_is_a_table_or_a_problem(suffix: str, tmp_path: Path) -> None:
    """Bytes changed anywhere, one in the offsets of texts among them: never another end than these two."""
    good = write_frame(FRAME, tmp_path / f"own{suffix}").read_bytes()
    refused = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        content = bytearray(good)
        for place in rng.integers(len(good), size=rng.choice([1, 3, 20])).tolist():
            content[place] = int(rng.integers(256))
        end = None if seed % 3 else int(rng.integers(1, len(good)))
        try:
            read(write(tmp_path, bytes(content[:end]), f"damaged{suffix}"), **NAMED)
        except InputError:
            refused += 1
    assert refused > 30


# Cells of pandas: what is a number, what a text, what is missing.


def test_types_of_columns() -> None:
    dates = pd.to_datetime(["2024-01-01", "2024-01-02"])
    nan, third = np.nan, float(np.float32(0.1))
    cases: list[tuple[Any, list[float]]] = [
        (pd.array([1, 2], dtype="uint8"), [1, 2]),
        (pd.array([0.1, 0.2], dtype="float32"), [third, float(np.float32(0.2))]),
        (pd.array([True, False]), [1, 0]),
        (pd.array([1, None], dtype="Int64"), [1, nan]),
        (pd.array(["1.5", "nan"]), [1.5, nan]),
        (["2", "3"], [2, 3]),
        *((cells, [nan, nan]) for cells in (["x", "y"], pd.Categorical(["1", "2"]), dates.array)),
        (pd.array(np.array([1j, 2j])), [nan, nan]),
        (["1", ""], [1, nan]),
    ]
    arrays, expected = zip(*cases, strict=True)
    frame = Frame(Path("own"), 2, len(arrays), [], lambda *place: "", lambda ids: [arrays[i] for i in ids])
    numbers = frame.numbers(range(len(arrays)))
    assert np.array_equal(numbers.values.T, expected, equal_nan=True)
    assert numbers.n_others.tolist() == [0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 1]
    assert numbers.is_empty.tolist() == [False, True]
    assert [frame.texts(i) for i in (2, 3, 7)] == [["True", "False"], ["1", ""], ["1", "2"]]
    for value, text in (
        (None, ""), (np.nan, ""), (pd.NA, ""), (pd.NaT, ""), (3.0, "3"), (0.1, "0.1"), (1e300, "1e+300"),
        (np.float64(2.5), "2.5"), (" x ", "x"), (7, "7"), (b"z\xff", "z\ufffd"), (True, "True"),
    ):  # fmt: skip
        assert text_of(value) == text


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
@pytest.mark.parametrize("values", ["float32", "float64", "int16"])
def test_a_column_of_lists_is_a_feature_for_each_place(
    suffix: str, kind: str, values: str, tmp_path: Path
) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    rng = np.random.default_rng(0)
    X = (100 * rng.standard_normal((40, 5))).astype(values)
    element = getattr(pa, {"int16": "int16", "float32": "float32", "float64": "float64"}[values])()
    types = {"list": pa.list_(element), "large": pa.large_list(element), "fixed": pa.list_(element, 5)}
    words = [f"row {row}" for row in range(40)]
    table = pa.table({"id": words, "e": pa.array(X.tolist(), types[kind]), "size": np.arange(40) / 3})
    path = tmp_path / f"own{suffix}"
    if suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=7)
    else:
        feather.write_feather(table, path, chunksize=7)
    table = read(path, index_column="id")
    assert table.feature_names == ("e[0]", "e[1]", "e[2]", "e[3]", "e[4]", "size")
    assert table.X.tolist() == np.column_stack([X, np.arange(40) / 3]).tolist()
    assert table.sample_names == tuple(words)
    assert read(path, index_column="id", drop=("e",)).feature_names == ("size",)
    assert read(path, columns=("e",)).X.tolist() == X.tolist()
    assert read(path, columns=("e[3]", "size")).X[:, 0].tolist() == X[:, 3].tolist()


def test_lists_that_are_no_rows_of_numbers(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "own.parquet"

    def problems_of(lists: list[Any], kind: Any = None) -> list[str]:
        parquet.write_table(pa.table({"e": pa.array(lists, kind)}), path)
        return problems(path)

    numbers = pa.list_(pa.float32())
    expected = "expected a list of 2 numbers, as in the other rows"
    assert problems_of([[1, 2], [3], None], numbers) == [
        f"FILE, row 2, column e: found a list of 1 numbers, {expected}",
        f"FILE, row 3, column e: found no list, {expected}",
    ]
    (many,) = problems_of([[1, 2], [3], None, [4, 5, 6], []], numbers)
    assert many.startswith("FILE, rows 2, 3, 4 and 1 more, column e: found a list of 1 numbers; no list;")
    assert "found no list" in problems_of([None, None], numbers)[0]
    (empty,) = problems_of([[1, 2], [3, None], [5, 6]], numbers)
    assert empty.startswith("FILE, row 2, column 2 (e[1]): found")
    (infinite,) = problems_of([[1, 2], [3, np.inf], [5, 6]], numbers)
    assert infinite.startswith("FILE, row 2, column 2 (e[1]): found 'inf'")
    assert "found values of type list" in problems_of([["a", "b"], ["c", "d"]])[0]
    assert "found values of type list" in problems_of([[[1.0], [2.0]], [[3.0], [4.0]]])[0]
