"""Arrays of an .npz file that was made to do harm, or is damaged."""

from __future__ import annotations

import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from own_tables import problems

from sweeps.data.own.arrays import opened
from sweeps.data.own.reading import read_table

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
    with opened(path) as found:
        assert found.names == ["X", "notes"]
