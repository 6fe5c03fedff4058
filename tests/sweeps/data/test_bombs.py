"""Small files that are large once unpacked end with a message, in bounded time and memory.

Each is read by a process of its own, forked from one that has loaded what reads tables.
"""

import gzip
import json
import struct
import subprocess
import sys
import zipfile
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from checkout import ROOT

from sweep_clustering.sweeps.data.columns import MOST_UNPACKED
from sweep_clustering.sweeps.files import MOST_MEMORY

SHEET = '<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def _write_packed(path: Path, lines: bytes, times: int) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(times):
            file.write(lines * (2**20 // len(lines) + 1))


def _array(*shape: int, kind: str = "'<f8'", order: str = "C") -> bytes:
    """Return the header of an array in numpy's format."""
    text = f"{{'descr': {kind}, 'fortran_order': {order == 'F'}, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def _npz(path: Path, *arrays: tuple[str, bytes, int]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, header, n_bytes in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                file.write(header)
                for start in range(0, n_bytes, 2**20):
                    file.write(bytes(min(2**20, n_bytes - start)))


def _npy(path: Path) -> None:
    with path.open("wb") as file:
        file.write(_array(2**13, 5 * 2**10))
        file.truncate(file.tell() + 5 * 2**26)  # a hole, which takes no room on the disk


def _write_overlapping(path: Path) -> None:
    """Write an archive of many names that share one entry."""
    _write_zip(path, {"X.npy": _array(2**10, 2**10) + bytes(2**23)})
    content = path.read_bytes()
    begin, last = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    entry, end = content[begin:last], content[last:]
    directory = entry + b"".join(entry.replace(b"X.npy", b"%05d" % number) for number in range(5000))
    end = end[:8] + struct.pack("<HHI", 5001, 5001, len(directory)) + end[16:]
    path.write_bytes(content[:begin] + directory + end)


def _write_zip(target: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _write_columnar(path: Path, kind: str, n_rows: int) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    first = pa.array(np.zeros(n_rows, np.int32))
    columns = {
        "dictionary": lambda: pa.DictionaryArray.from_arrays(first, pa.array(["x" * 1000])),
        "text": lambda: pa.array(["x" * 100]).take(first),
        "lists": lambda: pa.array([list(range(1000))]).take(first),
        "numbers": lambda: first,
    }
    table = pa.table({f"c{number}": columns[kind]() for number in range(8 if kind == "numbers" else 1)})
    if path.suffix == ".feather":
        feather.write_feather(table, str(path), compression="zstd", chunksize=n_rows)
    else:
        packed = kind == "dictionary"
        parquet.write_table(table, path, compression="zstd", store_schema=False, use_dictionary=packed)


def _sheet(path: Path, body: str, *, shared: str = "", styles: str = "") -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["a", 1])
    book.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["xl/worksheets/sheet1.xml"] = f"{SHEET}{body}</worksheet>".encode()
    if shared:
        members["xl/sharedStrings.xml"] = shared.encode()
    fonts = members["xl/styles.xml"]
    members["xl/styles.xml"] = fonts.replace(b"<fonts", styles.encode() + b"<fonts", 1)
    _write_zip(path, members)


def _cells(n_rows: int, n_columns: int) -> str:
    row = '<c t="n"><v>1</v></c>' * n_columns
    return "<sheetData>" + f"<row>{row}</row>" * n_rows + "</sheetData>"


LONG = '<sheetData><row><c t="inlineStr"><is><t>{}</t></is></c></row></sheetData>'

BOMBS: dict[str, Any] = {
    "cells.csv.gz": partial(_write_packed, lines=b"0,0,0,0,0,0,0,0\n", times=95),
    "nan.csv.gz": partial(_write_packed, lines=b"nan,nan,nannan,nan,nan,,\n", times=127),
    "rows.csv.gz": partial(_write_packed, lines=b"0\n", times=19),
    "words.csv.gz": partial(_write_packed, lines=b"a,b,c,d,e,f,g,h\n", times=127),
    "wide.tsv.gz": partial(_write_packed, lines=b"\t", times=127),
    "blanks.txt.gz": partial(_write_packed, lines=b"1 ", times=127),
    "quoted.csv.gz": partial(_write_packed, lines=b'"\n",', times=127),
    "returns.csv.gz": partial(_write_packed, lines=b"0,0,0,0\r\n0,0,0,1\r\n", times=127),
    "fortran.npz": lambda path: _npz(path, ("X", _array(2**13, 5 * 2**10, order="F"), 5 * 2**26)),
    "wide.npz": lambda path: _npz(path, ("X", _array(2, 2**26), 2**30)),
    "lies.npz": lambda path: _npz(path, ("X", _array(2**3, 2**11), 2**27)),
    "names.npz": lambda path: _npz(
        path, ("X", _array(10**7, 1), 8 * 10**7), ("y", _array(10**7, kind="'<U25'"), 10**9)
    ),
    "zeros.npy": _npy,
    "nested.npy": lambda path: path.write_bytes(_array(9, 1, kind="[('a', " * 2000 + "'<f8'" + ")]" * 2000)),
    "overlapping.npz": _write_overlapping,
    "dictionary.parquet": partial(_write_columnar, kind="dictionary", n_rows=9_000_000),
    "text.parquet": partial(_write_columnar, kind="text", n_rows=9_000_000),
    "lists.parquet": partial(_write_columnar, kind="lists", n_rows=10_000),
    "zeros.parquet": partial(_write_columnar, kind="numbers", n_rows=7_000_000),
    "dictionary.feather": partial(_write_columnar, kind="dictionary", n_rows=9_000_000),
    "text.feather": partial(_write_columnar, kind="text", n_rows=5_000_000),
    "cells.xlsx": lambda path: _sheet(path, _cells(100_000, 50)),
    "rows.xlsx": lambda path: _sheet(path, f'<sheetData>{"<row/>" * 10**6}<row r="9000000"/></sheetData>'),
    "far.xlsx": lambda path: _sheet(
        path, "<sheetData>" + '<row><c r="XFD1"><v>1</v></c></row>' * 10**5 + "</sheetData>"
    ),
    "texts.xlsx": lambda path: _sheet(
        path, _cells(2, 2), shared=SHEET.replace("worksheet", "sst") + "<si><t>a</t></si>" * 3 * 10**6
    ),
    "styles.xlsx": lambda path: _sheet(
        path, _cells(2, 2), styles='<numFmt numFmtId="200" formatCode="0"/>' * 10**6
    ),
    "long.xlsx": lambda path: _sheet(path, LONG.format("x" * 5 * 10**8)),
}


SECONDS = 20
# Those that take no seconds to make, nor to be read.
QUICK = {*("wide.tsv.gz", "quoted.csv.gz", "lies.npz", "nested.npy", "overlapping.npz", "lists.parquet")}
QUICK |= {"dictionary.parquet", "cells.xlsx", "styles.xlsx"}

LOADED = "import numpy, openpyxl, pandas, pyarrow.parquet, pyarrow.feather"
READ = (
    LOADED
    + """
import json, os, resource, sys
from itertools import product
from pathlib import Path
from sweep_clustering.sweeps.data.reading import read_table
from sweep_clustering.sweeps.data.table import TableChoice
from sweep_clustering.sweeps.errors import InputError

for soft, name in product(json.loads(sys.argv[1]), sys.argv[2:]):
    begin, out = os.pipe()
    child = os.fork()
    if not child:
        taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        if soft:
            resource.setrlimit(resource.RLIMIT_AS, (taken + (soft << 20), -1))
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


def read_apart(
    paths: list[Path], most_mib: Collection[int] = (0,), code: str = READ
) -> list[tuple[str, int, float, int, str]]:
    """Return the name, status, processor seconds, bytes and message of each file, with each limit."""
    command = [sys.executable, "-c", code, str(list(most_mib)), *map(str, paths)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in process.stdout.splitlines()]


def _pairs(path: Path, n_rows: int, text: str = "must", **more: Any) -> None:
    """Write annotations between the rows 1 and 2, all alike, in one batch or row group."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    place = pa.array(np.zeros(n_rows, np.int32))
    kind = pa.DictionaryArray.from_arrays(place, pa.array([text]))
    columns = {
        "i": pa.array(np.ones(n_rows, np.int8)),
        "j": pa.array(np.full(n_rows, 2, np.int8)),
        "kind": kind,
    }
    table = pa.table(columns | {name: value(place) for name, value in more.items()})
    if path.suffix == ".feather":
        feather.write_feather(table, str(path), compression="zstd", chunksize=n_rows)
    else:
        parquet.write_table(table, path, compression="zstd", store_schema=False, row_group_size=n_rows)


def _many_members(path: Path) -> None:
    """Write an archive whose directory takes far more memory than its file."""
    entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, *[0] * 9, 0, 0, 0, 0, 0)
    directory, count = entry * 2**21, 2**16 - 1
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), 0, 0)
    path.write_bytes(directory + end)


def _nest(indices: Any) -> Any:
    import pyarrow as pa

    return pa.array([[[0] * 1000]]).take(indices)


def _run_ends(indices: Any) -> Any:
    import pyarrow as pa

    return pa.RunEndEncodedArray.from_arrays(pa.array([len(indices)], pa.int32()), pa.array(["x" * 1000]))


def _texts(indices: Any) -> Any:
    import pyarrow as pa

    return pa.array(["x" * 200]).take(indices)


PAIR_BOMBS: dict[str, Any] = {
    "rows.parquet": partial(_pairs, n_rows=30_000_000),
    "rows.feather": partial(_pairs, n_rows=30_000_000),
    "texts.parquet": partial(_pairs, n_rows=9_000_000, text="x" * 3000),
    "texts.feather": partial(_pairs, n_rows=9_000_000, text="x" * 3000),
    "plain.feather": partial(_pairs, n_rows=6_000_000, annotator=_texts),
    "nested.feather": partial(_pairs, n_rows=10_000, annotator=_nest),
    "runs.feather": partial(_pairs, n_rows=9_000_000, annotator=_run_ends),
    "zeros.npz": lambda path: _npz(path, *((name, _array(2**27), 2**30) for name in "ij")),
    "texts.npz": lambda path: _npz(path, ("i", _array(10**7, kind="'<U12'"), 48 * 10**7), ("j", b"", 2**30)),
    "lies.npz": lambda path: _npz(path, ("i", _array(2**23), 100)),
    "members.npz": _many_members,
    "kinds.csv.gz": partial(_write_packed, lines=b"1,2,mst\n", times=60),
    "few-kinds.csv.gz": partial(_write_packed, lines=b"1,2,mst\n", times=20),
    "names.csv.gz": partial(_write_packed, lines=b"1,b,must\n", times=60),
}
QUICK_PAIRS = {
    "texts.parquet",
    "rows.feather",
    "nested.feather",
    "members.npz",
    "lies.npz",
    "few-kinds.csv.gz",
}

READ_PAIRS = READ.replace(
    "from sweep_clustering.sweeps.data.table import TableChoice",
    "from sweep_clustering.sweeps.annotations.files import PairFile; "
    "from sweep_clustering.sweeps.annotations.rows import Samples",
).replace(
    "read_table(Path(name), TableChoice()).X.shape", "len(PairFile.of(Path(name)).table(Samples.of(1000)))"
)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "names", [QUICK_PAIRS, pytest.param(PAIR_BOMBS.keys() - QUICK_PAIRS, marks=pytest.mark.heavy)]
)
def test_bombs_of_annotations_end_with_a_message(names: Collection[str], tmp_path: Path) -> None:
    for name in names:
        PAIR_BOMBS[name](tmp_path / name)
    for name, status, seconds, more, text in read_apart([tmp_path / name for name in names], code=READ_PAIRS):
        assert status == 0, name
        assert not text.startswith(("RAISED", "read")), (name, text)
        assert seconds < SECONDS, name
        assert more < MOST_UNPACKED, name


@pytest.mark.timeout(900)
@pytest.mark.parametrize("names", [QUICK, pytest.param(BOMBS.keys() - QUICK, marks=pytest.mark.heavy)])
def test_bombs_end_with_a_message(names: Collection[str], tmp_path: Path) -> None:
    for name in names:
        BOMBS[name](tmp_path / name)
    every_outcome = read_apart([tmp_path / name for name in names], (0, 150))
    assert [name for name, *_ in every_outcome] == 2 * list(names)
    outcomes, few = every_outcome[: len(names)], every_outcome[len(names) :]
    for name, status, seconds, more, message in outcomes:
        assert status == 0, (name, message)
        assert not message.startswith(("RAISED", "read")), (name, message)
        assert seconds < SECONDS, name
        assert more < MOST_MEMORY, name
    assert [outcome for outcome in few if outcome[1] or outcome[-1].startswith("RAISED")] == []


@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet", "xlsx"])
def test_a_table_is_read_by_a_process_that_has_loaded_nothing(suffix: str, tmp_path: Path) -> None:
    """What is loaded to read a table reserves more addresses than a table may take."""
    path, frame = tmp_path / f"own.{suffix}", pd.DataFrame({"a": [1.0, 2.0, 4.0]})
    ways = {"npz": partial(np.savez, X=frame), "xlsx": frame.to_excel}
    ways.get(suffix, getattr(frame, f"to_{suffix}", None))(path)
    ((*_, message),) = read_apart([path], code=READ.replace(LOADED, ""))
    assert message.startswith("read (3, ")
