"""Small files that are large once unpacked: a message, in bounded time and memory, whatever they say.

Each is read by a process of its own, forked from one that has loaded what reads tables.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from checkout import ROOT

from sweeps.files import MOST_MEMORY

Bomb = Callable[[Path], None]

SHEET = '<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def _packed(lines: bytes, times: int) -> Bomb:
    def write(path: Path) -> None:
        with gzip.open(path, "wb", compresslevel=1) as file:
            part = lines * (2**20 // len(lines) + 1)
            for _ in range(times):
                file.write(part)

    return write


def _array(
    n_rows: int, n_columns: int, kind: str = "<f8", order: str = "C", claims: int | None = None
) -> bytes:
    """Header and values of zeros, in numpy's format."""
    claimed = n_rows if claims is None else claims
    shape = f"({claimed}, {n_columns})" if n_columns else f"({claimed},)"
    text = f"{{'descr': '{kind}', 'fortran_order': {order == 'F'}, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def _npz(*arrays: tuple[str, bytes, int]) -> Bomb:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, header, n_bytes in arrays:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    file.write(header)
                    for start in range(0, n_bytes, 2**20):
                        file.write(bytes(min(2**20, n_bytes - start)))

    return write


def _npy(path: Path) -> None:
    with path.open("wb") as file:
        file.write(_array(2**13, 5 * 2**10))
        file.truncate(file.tell() + 5 * 2**26)  # a hole, which takes no room on the disk


def _nested(path: Path) -> None:
    text = (
        "{'descr': " + "[('a', " * 2000 + "'<f8'" + ")]" * 2000 + ", 'fortran_order': False, 'shape': (9, 1)}"
    )
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text.encode())


def _overlapping(path: Path) -> None:
    """Many names of an archive, all of one entry."""
    made = io.BytesIO()
    _write_zip(made, {"X.npy": _array(2**10, 2**10) + bytes(2**23)})
    content = made.getvalue()
    begin = content.index(b"PK\x01\x02")
    entry, end = content[begin : content.index(b"PK\x05\x06")], content[content.index(b"PK\x05\x06") :]
    names = [entry.replace(b"X.npy", b"%05d" % number) for number in range(5000)]
    directory = entry + b"".join(names)
    end = end[:8] + struct.pack("<HHI", 5001, 5001, len(directory)) + end[16:]
    path.write_bytes(content[:begin] + directory + end)


def _write_zip(target: Any, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _table(kind: str, n_rows: int) -> Any:
    import pyarrow as pa

    if kind == "dictionary":
        text = pa.array(["x" * 1000])
        return pa.table({"a": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, np.int32)), text)})
    if kind == "text":
        return pa.table({"a": pa.array(["x" * 100]).take(pa.array(np.zeros(n_rows, np.int32)))})
    if kind == "names":
        return pa.table({"a": pa.array(np.arange(n_rows)).cast(pa.string())})
    if kind == "nulls":
        return pa.table({"a": pa.nulls(n_rows), "b": pa.nulls(n_rows, pa.string())})
    if kind == "lists":
        return pa.table({"a": pa.array([list(range(1000))]).take(pa.array(np.zeros(n_rows, np.int32)))})
    return pa.table({f"c{number}": np.zeros(n_rows) for number in range(8)})


def _parquet(kind: str, n_rows: int, **options: Any) -> Bomb:
    def write(path: Path) -> None:
        import pyarrow.parquet as parquet

        parquet.write_table(_table(kind, n_rows), path, compression="zstd", store_schema=False, **options)

    return write


def _feather(kind: str, n_rows: int) -> Bomb:
    def write(path: Path) -> None:
        from pyarrow import feather

        feather.write_feather(_table(kind, n_rows), str(path), compression="zstd", chunksize=n_rows)

    return write


def _sheet(body: str, *, shared: str = "", styles: str = "") -> Bomb:
    def write(path: Path) -> None:
        import openpyxl

        good = io.BytesIO()
        book = openpyxl.Workbook()
        book.active.append(["a", 1])
        book.save(good)
        with zipfile.ZipFile(good) as archive:
            members = {each: archive.read(each) for each in archive.namelist()}
        members["xl/worksheets/sheet1.xml"] = f"{SHEET}{body}</worksheet>".encode()
        if shared:
            members["xl/sharedStrings.xml"] = shared.encode()
        if styles:
            members["xl/styles.xml"] = members["xl/styles.xml"].replace(
                b"<fonts", styles.encode() + b"<fonts", 1
            )
        _write_zip(path, members)

    return write


def _cells(n_rows: int, n_columns: int) -> str:
    row = '<c t="n"><v>1</v></c>' * n_columns
    return "<sheetData>" + f"<row>{row}</row>" * n_rows + "</sheetData>"


BOMBS: dict[str, Bomb] = {
    "cells.csv.gz": _packed(b"0,0,0,0,0,0,0,0\n", 95),
    "nan.csv.gz": _packed(b"nan,nan,nannan,nan,nan,,\n", 127),
    "zeros.csv.gz": _packed(b"0,0,0,0,0,0,0,0\n", 127),
    "rows.csv.gz": _packed(b"0\n", 19),
    "words.csv.gz": _packed(b"a,b,c,d,e,f,g,h\n", 127),
    "empty.csv.gz": _packed(b",,,,,,,\n", 127),
    "wide.tsv.gz": _packed(b"\t", 127),
    "blanks.txt.gz": _packed(b"1 ", 127),
    "long.csv.gz": _packed(b"x", 127),
    "quoted.csv.gz": _packed(b'"\n",', 127),
    "emoji.csv.gz": _packed("😀,1\n".encode(), 127),
    "returns.csv.gz": _packed(b"0,0,0,0\r\n0,0,0,1\r\n", 127),
    "zeros.npz": _npz(("X", _array(2**13, 5 * 2**10), 5 * 2**26)),
    "fortran.npz": _npz(("X", _array(2**13, 5 * 2**10, order="F"), 5 * 2**26)),
    "wide.npz": _npz(("X", _array(2, 2**26), 2**30)),
    "halves.npz": _npz(("X", _array(2**13, 2**16, "<f2"), 2**30)),
    "lies.npz": _npz(("X", _array(2**13, 2**11, claims=2**3), 2**27)),
    "names.npz": _npz(("X", _array(10**7, 1), 8 * 10**7), ("y", _array(10**7, 0, "<U25"), 10**9)),
    "zeros.npy": _npy,
    "nested.npy": _nested,
    "overlapping.npz": _overlapping,
    "dictionary.parquet": _parquet("dictionary", 9_000_000),
    "text.parquet": _parquet("text", 9_000_000, use_dictionary=False),
    "nulls.parquet": _parquet("nulls", 10_000_000),
    "lists.parquet": _parquet("lists", 10_000),
    "zeros.parquet": _parquet("numbers", 6_000_000),
    "dictionary.feather": _feather("dictionary", 9_000_000),
    "text.feather": _feather("text", 5_000_000),
    "lists.feather": _feather("lists", 100_000),
    "zeros.feather": _feather("numbers", 6_000_000),
    "cells.xlsx": _sheet(_cells(100_000, 50)),
    "rows.xlsx": _sheet(
        "<sheetData>" + "<row/>" * 10**6 + '<row r="9000000"><c><v>1</v></c></row></sheetData>'
    ),
    "dimension.xlsx": _sheet(
        '<dimension ref="A1:XFD1048576"/><sheetData>' + "<row/>" * 10**6 + "</sheetData>"
    ),
    "far.xlsx": _sheet("<sheetData>" + '<row><c r="XFD1"><v>1</v></c></row>' * 10**5 + "</sheetData>"),
    "texts.xlsx": _sheet(
        _cells(2, 2), shared=SHEET.replace("worksheet", "sst") + "<si><t>a</t></si>" * 3 * 10**6 + "</sst>"
    ),
    "styles.xlsx": _sheet(
        _cells(2, 2), styles="<numFmts>" + '<numFmt numFmtId="200" formatCode="0"/>' * 10**6 + "</numFmts>"
    ),
    "before.xlsx": _sheet("<cols>" + '<col min="1" max="1"/>' * 3 * 10**6 + "</cols>" + _cells(2, 2)),
    "long.xlsx": _sheet(
        '<sheetData><row><c t="inlineStr"><is><t>' + "x" * 5 * 10**8 + "</t></is></c></row></sheetData>"
    ),
}


SECONDS = 20
QUICK = (
    "wide.tsv.gz", "quoted.csv.gz", "lies.npz", "nested.npy", "overlapping.npz", "lists.parquet",
    "dictionary.parquet", "cells.xlsx", "styles.xlsx",
)  # fmt: skip
"""Those that take no seconds to make, nor to be read."""

LOADED = "import numpy, openpyxl, pandas, pyarrow.parquet, pyarrow.feather"
READ = (
    LOADED
    + """
import json, os, resource, sys
from pathlib import Path
from sweeps.data.reading import read_table
from sweeps.data.table import TableChoice
from sweeps.errors import InputError

soft = int(sys.argv[1]) << 20
for name in sys.argv[2:]:
    begin, out = os.pipe()
    child = os.fork()
    if not child:
        taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        if soft:
            resource.setrlimit(resource.RLIMIT_AS, (taken + soft, -1))
        try:
            said = f"read {read_table(Path(name), TableChoice()).X.shape}"
        except InputError as error:
            said = str(error)
        except BaseException as error:
            said = f"RAISED {error!r}"
        os.write(out, said.encode()[-3000:])
        os._exit(0)
    os.close(out)
    said = open(begin, "rb").read().decode(errors="replace")
    _, status, used = os.wait4(child, 0)
    before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
    more = used.ru_maxrss * 1024 - before
    print(json.dumps([os.path.basename(name), status, used.ru_utime + used.ru_stime, more, said]), flush=True)
"""
)


def read_apart(paths: list[Path], most_mib: int = 0) -> list[tuple[str, int, float, int, str]]:
    """Name, status, seconds of a processor, bytes and message of each."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(most_mib), *map(str, paths)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def check_bombs(names: list[str], folder: Path) -> None:
    for name in names:
        BOMBS[name](folder / name)
    found = read_apart([folder / name for name in names])
    assert [name for name, *_ in found] == names
    for name, status, seconds, more, said in found:
        assert (status, said.startswith(("RAISED", "read"))) == (0, False), (name, said)
        assert seconds < SECONDS, name
        assert more < MOST_MEMORY, name
    few = read_apart([folder / name for name in names], 150)
    assert [each for each in few if each[1] or each[-1].startswith("RAISED")] == []


def test_bombs_end_with_a_message(tmp_path: Path) -> None:
    check_bombs(list(QUICK), tmp_path)


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_bombs_that_take_seconds_end_with_a_message(tmp_path: Path) -> None:
    check_bombs([name for name in BOMBS if name not in QUICK], tmp_path)


@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet", "xlsx"])
def test_a_table_is_read_by_a_process_that_has_loaded_nothing(suffix: str, tmp_path: Path) -> None:
    """What is loaded to read a table reserves more addresses than a table may take."""
    path, frame = tmp_path / f"own.{suffix}", pd.DataFrame({"a": [1.0, 2.0, 4.0]})
    if suffix == "npz":
        np.savez(path, X=frame)
    elif suffix == "xlsx":
        frame.to_excel(path, index=False)
    else:
        {"csv": frame.to_csv, "parquet": frame.to_parquet}[suffix](path)
    done = subprocess.run(
        [sys.executable, "-c", READ.replace(LOADED, ""), "0", path],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "read (3, " in done.stdout, done.stdout
