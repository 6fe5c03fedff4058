"""The built-in data sets, as `registry.toml` has them, and how their raw files are read."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.data.table import LabelledTable


@dataclass(frozen=True)
class Entry:
    """One built-in data set.

    Parameters
    ----------
    name : str
        Name in sweep files.
    file, sha256 : str
        Raw file and its checksum; the same file inside a zip has the same checksum.
    url : str
        Public download: the raw file, or a zip that holds it.
    landing_page, licence : str
        Page that describes it, and the licence named there.
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
        Between cells; empty for any number of spaces or tabs.
    header_lines : int
        Lines to skip at the top.
    comment : str
        Lines that start with one of these characters are skipped.
    missing : str
        Text of a missing value; rows with one are left out.
    sklearn : str
        File of scikit-learn's own copy of the same table, if it has one.
    feature_names : tuple of str
        As scikit-learn's copy or the publisher's page has them, if they do.
    """

    name: str
    file: str
    sha256: str
    url: str
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
    values: dict[str, Any] = {key: tuple(each) if type(each) is list else each for key, each in keys.items()}
    return Entry(name, **values)


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
REGISTRY: Mapping[str, Entry] = {name: _entry(name, keys) for name, keys in _TABLES.items()}
BUILTIN: tuple[str, ...] = tuple(REGISTRY)


def parse_raw(content: bytes, entry: Entry) -> LabelledTable:
    """Features and classes of a raw file, in the order of its lines; its checksum was verified before.

    Parameters
    ----------
    content : bytes
        The raw file.
    entry : Entry
        How it is read.
    """
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
