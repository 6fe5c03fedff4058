"""Small files that are large once unpacked: a message, in bounded time and memory, whatever they say.

Each is read by a process of its own, forked from one that has loaded what reads tables.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bombs import BOMBS
from checkout import ROOT

from sweeps.data.reading import read_table
from sweeps.data.table import TableChoice
from sweeps.files import MOST_MEMORY

SECONDS = 20
QUICK = (
    "wide.tsv.gz", "quoted.csv.gz", "lies.npz", "nested.npy", "overlapping.npz", "names.npz",
    "dictionary.feather", "far.xlsx", "cells.xlsx", "styles.xlsx",
)  # fmt: skip
"""Those that take no seconds to make, nor to be read."""

READ = """
import json, os, resource, sys
from pathlib import Path
import numpy, openpyxl, pandas, pyarrow.parquet, pyarrow.feather
from sweeps.data.reading import read_table
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
            said = f"read {read_table(Path(name)).X.shape}"
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


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
@pytest.mark.parametrize("as_category", [False, True])
def test_texts_of_a_dictionary_are_read(suffix: str, as_category: bool, tmp_path: Path) -> None:
    """Rows in many batches, with cells that are missing in some of them."""
    rng, n, path = np.random.default_rng(3), 40_000, tmp_path / f"own{suffix}"
    kind = pd.Series(rng.choice(["first", "second", "1.0"], n))
    frame = pd.DataFrame({"a": rng.normal(size=n), "kind": kind.astype("category") if as_category else kind})
    frame["count"] = pd.array(np.where(frame.index % 30_000 == 7, None, 2**53 + frame.index), dtype="Int64")
    frame["is"] = pd.array(np.where(frame.index % 30_000 == 9, None, frame.index % 2 == 0), dtype="boolean")
    frame.to_parquet(path, row_group_size=3000) if suffix == ".parquet" else frame.to_feather(path)
    found = read_table(path, TableChoice(label_column="kind", missing="drop"))
    kept = frame["count"].notna() & frame["is"].notna()
    assert found.class_names == ("1.0", "first", "second")
    assert [found.class_names[code] for code in found.labels_true.tolist()] == kind[kept].tolist()
    assert np.array_equal(found.X, frame[kept][["a", "count", "is"]].astype(float))


@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet", "feather", "xlsx"])
def test_a_table_is_read_by_a_process_that_has_loaded_nothing(suffix: str, tmp_path: Path) -> None:
    """What is loaded to read a table reserves more addresses than a table may take."""
    path, frame = tmp_path / f"own.{suffix}", pd.DataFrame({"a": [1.0, 2.0, 4.0], "kind": ["x", "y", "x"]})
    if suffix == "npz":
        np.savez(path, X=frame[["a"]], kind=np.array(["x", "y", "x"]))
    elif suffix == "xlsx":
        frame.to_excel(path, index=False)
    else:
        {"csv": frame.to_csv, "parquet": frame.to_parquet, "feather": frame.to_feather}[suffix](path)
    code = "import sys; from pathlib import Path; from sweeps.data.reading import read_table\n"
    told = "print(read_table(Path(sys.argv[1]), label_column='kind').class_names)"
    done = subprocess.run(
        [sys.executable, "-c", code + told, str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "('x', 'y')" in done.stdout, done.stderr
