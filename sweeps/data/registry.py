"""The built-in data sets, as `registry.toml` and `suite.csv` have them, and how their raw files are read.

Names with a slash are those of the clustering suite of Gagolewski (SoftwareX 2022): `suite/<battery>/<name>`.
"""

import csv
import gzip
import io
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sweep_clustering.sweeps.data.table import LabelledTable


class RawFile(NamedTuple):
    """A file as it is published.

    Parameters
    ----------
    file : str
        Path below a folder of raw files.
    sha256 : str
        Checksum, which the same file inside a zip shares. Empty if it is not known: then sizes are verified.
    url : str
        Public download: the raw file, or a zip that holds it.
    """

    file: str
    sha256: str
    url: str


@dataclass(frozen=True)
class Entry:
    """One data set of the registry.

    Parameters
    ----------
    name : str
        Name in sweep files.
    files : tuple of RawFile
        The raw file, or one of features and one of classes; none if scikit-learn's copy is the only source.
    landing_page, licence : str
        Page about the data set, and the licence named there.
    n_samples : int
        Rows after preprocessing.
    class_names : tuple of str
        Sorted classes as the raw file spells them; rows of other classes are left out.
    checksum : str
        sha256 of the parsed table, see `sweeps.data.table.LabelledTable.checksum`.
    features : (start, stop)
        Columns of the features, 0-based, half-open.
    class_column : int
        Column of the class.
    separator : str
        Separator of cells; empty for any number of spaces or tabs.
    header_lines : int
        Lines to skip at the top.
    comment : str
        Lines that start with one of these characters are skipped.
    missing : str
        Text of a missing value; rows with one are left out.
    sklearn : str
        File of scikit-learn's own copy of the same table, if it has one.
    sklearn_header : int
        Lines to skip at the top of that copy.
    sklearn_codes : tuple of int
        Codes of the classes in that copy; from 0 by default. Rows of other classes are left out.
    n_noise : int
        Rows that belong to no class, and are left out.
    feature_names : tuple of str
        Names in scikit-learn's copy or on the publisher's page, if there are any.
    """

    name: str
    files: tuple[RawFile, ...]
    landing_page: str
    licence: str
    n_samples: int
    class_names: tuple[str, ...]
    checksum: str
    features: tuple[int, int]
    class_column: int
    separator: str = ","
    header_lines: int = 0
    comment: str = ""
    missing: str = ""
    sklearn: str = ""
    sklearn_header: int = 1
    sklearn_codes: tuple[int, ...] = ()
    n_noise: int = 0
    feature_names: tuple[str, ...] = ()

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        start, stop = self.features
        return stop - start

    @property
    def n_clusters(self) -> int:
        """Number of classes."""
        return len(self.class_names)


def _entry(name: str, keys: Mapping[str, Any]) -> Entry:
    values: dict[str, Any] = {
        key: tuple(value) if type(value) is list else value for key, value in keys.items()
    }
    place = [values.pop(key) for key in RawFile._fields if key in values]
    return Entry(name, files=(RawFile(*place),) if place else (), **values)


# The suite: its own repository, at the version whose checksums are here.
SUITE = "https://raw.githubusercontent.com/gagolews/clustering-data-v1/v1.1.0"
SUITE_PAGE = "https://clustering-benchmarks.gagolewski.com"


def _suite(row: Mapping[str, str]) -> Entry:
    name, n_clusters = row["name"], int(row["n_clusters"])
    files = (
        RawFile(f"suite/{name}.{part}.gz", row[f"{key}_sha256"], f"{SUITE}/{name}.{part}.gz")
        for key, part in (("data", "data"), ("labels", "labels0"))
    )
    return Entry(
        f"suite/{name}",
        tuple(files),
        SUITE_PAGE,
        "for research, see its README",
        n_samples=int(row["n_samples"]),
        class_names=tuple(str(number) for number in range(1, n_clusters + 1)),
        checksum=row["checksum"],
        features=(0, int(row["n_features"])),
        class_column=0,
        n_noise=int(row["n_noise"]),
    )


_HERE = Path(__file__)
_TABLES = tomllib.loads(_HERE.with_suffix(".toml").read_text("utf-8"))
_SUITE = csv.DictReader(_HERE.with_name("suite.csv").read_text("utf-8").splitlines())
REGISTRY: Mapping[str, Entry] = {name: _entry(name, keys) for name, keys in _TABLES.items()} | {
    entry.name: entry for entry in map(_suite, _SUITE)
}
BUILTIN: tuple[str, ...] = tuple(REGISTRY)

# Names that messages expect.
KNOWN = (
    f"one of {', '.join(name for name in BUILTIN if '/' not in name)}, suite/<battery>/<name>,"
    " a pattern such as suite/uci/*"
)


def is_pattern(name: str) -> bool:
    """Say whether a name stands for all data sets that it fits, as `suite/uci/*` does."""
    return any(sign in name for sign in "*?[")


def fitting(pattern: str) -> list[str]:
    """List the data sets that a pattern fits, or the one of a name; none if there is no such data set."""
    return [
        name for name in BUILTIN if name == pattern or (is_pattern(pattern) and fnmatchcase(name, pattern))
    ]


def parse(contents: Sequence[bytes], entry: Entry) -> LabelledTable:
    """Parse the raw files of a data set; a ValueError says that they are not of the sizes of the entry."""
    first, *classes = contents
    return _parse_suite(first, classes[0], entry) if classes else parse_raw(first, entry)


# Bytes of a file of the suite, unpacked: the largest has 70,000 rows of 784 pixels.
MOST_UNPACKED = 2**29


def _parse_suite(features: bytes, classes: bytes, entry: Entry) -> LabelledTable:
    """Parse rows of numbers, and their classes from 1 on; 0 is noise, which is left out."""
    start, stop = entry.features
    try:
        X = np.fromiter(_numbers(features), np.float64).reshape(-1, stop - start)
        codes = np.fromiter(_numbers(classes), np.float64).astype(np.int64)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise ValueError(f"no table of {stop - start} numbers a row: {error}") from error
    is_kept = codes > 0 if len(codes) == len(X) else np.zeros(len(X), bool)
    sizes = int(is_kept.sum()), int(codes.max(initial=0)), len(codes) - int(is_kept.sum())
    if sizes != (entry.n_samples, entry.n_clusters, entry.n_noise) or len(codes) != len(X):
        expected = f"{entry.n_samples} rows of {entry.n_clusters} classes and {entry.n_noise} of noise"
        raise ValueError(f"{len(X)} rows and {len(codes)} classes, {sizes[0]} above 0, expected {expected}")
    noise = f"{entry.n_noise} samples are noise (label 0) and left out"
    notes = (noise,) if entry.n_noise else ()
    return LabelledTable(X[is_kept], (codes[is_kept] - 1).astype(np.int16), entry.class_names, notes=notes)


def _numbers(packed: bytes) -> Iterator[float]:
    """Yield the numbers of a packed text."""
    with gzip.open(io.BytesIO(packed)) as text:
        content = text.read(MOST_UNPACKED + 1)
    if len(content) > MOST_UNPACKED:
        raise ValueError(f"more than {MOST_UNPACKED:,} bytes")
    return map(float, content.split())


def parse_raw(content: bytes, entry: Entry) -> LabelledTable:
    """Parse a raw file in the order of its lines; its checksum was verified before."""
    codes = {class_name: code for code, class_name in enumerate(entry.class_names)}
    start, stop = entry.features
    rows: list[list[float]] = []
    labels: list[int] = []
    for line in content.decode("utf-8").splitlines()[entry.header_lines :]:
        if not line.strip() or line[0] in entry.comment:
            continue
        cells = [cell.strip() for cell in line.split(entry.separator or None)]
        features = cells[start:stop]
        label = cells[entry.class_column]
        if label not in codes or entry.missing in features:
            continue
        rows.append([float(cell) for cell in features])
        labels.append(codes[label])
    return LabelledTable(
        np.array(rows), np.array(labels, dtype=np.int16), entry.class_names, entry.feature_names
    )
