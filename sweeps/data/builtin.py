"""The built-in data sets: found in the first source that has them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sweeps.data.download import address, download_raw
from sweeps.data.registry import BUILTIN, REGISTRY, Entry, parse_raw
from sweeps.data.sources import (
    DATA_DIR_VARIABLE,
    MOST_BYTES,
    Damaged,
    Missing,
    data_folder,
    find_in_folder,
    user_cache,
)
from sweeps.data.tables import LabelledTable
from sweeps.errors import InputError, not_one_of
from sweeps.files import read_file

logger = logging.getLogger(__name__)

FILES = {"load_iris": "iris.csv", "load_wine": "wine_data.csv"}
"""What loaders of scikit-learn read."""


class Unavailable(Exception):
    """A data set that no source has.

    Parameters
    ----------
    name : str
        The data set.
    reasons : tuple of str
        What was found at each source, in the order they were tried.
    """

    def __init__(self, name: str, reasons: tuple[str, ...]) -> None:
        self.name = name
        self.reasons = reasons
        super().__init__("\n  ".join((f"data set {name!r} is not available:", *reasons)))

    def __reduce__(self) -> tuple[type[Unavailable], tuple[str, tuple[str, ...]]]:
        return Unavailable, (self.name, self.reasons)


class Found(NamedTuple):
    """A built-in data set and where it was found.

    Parameters
    ----------
    table : LabelledTable
        Parsed and verified.
    path : Path
        The raw file, the zip that holds it, or the folder of scikit-learn's copies.
    source : str
        The same in words.
    """

    table: LabelledTable
    path: Path
    source: str


@dataclass(frozen=True)
class Record:
    """What is known of a built-in data set, and where it is on this machine.

    Parameters
    ----------
    name : str
        Name in sweep files.
    n_samples, n_features, n_clusters : int
        Sizes.
    licence, landing_page : str
        Of the published table.
    source : str
        Where it is without a download; empty if nowhere.
    reasons : tuple of str
        If nowhere: what was found at each source.
    """

    name: str
    n_samples: int
    n_features: int
    n_clusters: int
    licence: str
    landing_page: str
    source: str
    reasons: tuple[str, ...]


def find(name: str, *, data_dir: Path | None = None, download: bool = True) -> Found:
    """Find a built-in data set.

    Sources, in order: `data_dir` (or `SWEEP_DATA_DIR`), the user cache, scikit-learn's own copy
    (iris, wine), the public address. Every raw file is checked against its sha256.

    Parameters
    ----------
    name : str
        One of `BUILTIN`.
    data_dir : Path, optional
        Folder with raw files, or the zips they are published in.
    download : bool
        Whether the network may be used.

    Raises
    ------
    Unavailable
        If no source has it, or the data directory holds a file of its name with other content: what the user
        put there is never replaced by another source.
    InputError
        If the name is unknown or the data directory does not exist.
    """
    entry = _entry(name)
    looks = [partial(_from_data_folder, entry, data_folder(data_dir)), partial(_from_cache, entry)]
    looks += [partial(_from_sklearn, entry)] if entry.sklearn else []
    reasons: list[str] = []
    for look in [*looks, partial(_from_network, entry, download)]:
        try:
            return look()
        except Missing as missing:
            reasons.append(str(missing))
            if isinstance(missing, Damaged):
                break
    raise Unavailable(name, tuple(reasons))


def check(name: str, *, data_dir: Path | None = None) -> Record:
    """Verify a built-in data set as it is on this machine; nothing is downloaded.

    Raises
    ------
    InputError
        If the name is unknown or the data directory does not exist.
    """
    source, reasons = "", tuple[str, ...]()
    try:
        source = find(name, data_dir=data_dir, download=False).source
    except Unavailable as unavailable:
        reasons = unavailable.reasons
    entry = _entry(name)
    sizes = entry.n_samples, entry.n_features, entry.n_clusters
    return Record(name, *sizes, entry.published.licence, entry.published.landing_page, source, reasons)


def catalogue(data_dir: Path | None = None) -> list[Record]:
    """`check` of every built-in data set."""
    return [check(name, data_dir=data_dir) for name in BUILTIN]


def _entry(name: str) -> Entry:
    if name not in REGISTRY:
        raise InputError([not_one_of("data set", name, BUILTIN)])
    return REGISTRY[name]


def _from_data_folder(entry: Entry, folder: Path | None) -> Found:
    if folder is None:
        raise Missing(f"no data directory is set (--data-dir or {DATA_DIR_VARIABLE})")
    content, path = find_in_folder(entry, folder)
    return Found(parse_raw(content, entry), path, f"data directory {path}")


def _from_cache(entry: Entry) -> Found:
    try:
        content, path = find_in_folder(entry, user_cache())
    except Damaged as damaged:
        # in contrast to the data directory only downloads are in the cache: a new one replaces the file
        logger.warning("ignoring a damaged file in the user cache: %s", damaged)
        raise Missing(str(damaged)) from damaged
    return Found(parse_raw(content, entry), path, f"user cache {path}")


def _from_sklearn(entry: Entry) -> Found:
    """The table of a loader of scikit-learn.

    The loader reads a file of its package. That file is read first, without scikit-learn, whose import takes
    longer than all else that a command does before a run; where it is not there, or not as it was, the loader
    is asked.
    """
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise Missing("scikit-learn is not installed")
    folder = Path(spec.origin).parent / "datasets"
    for read in (_sklearn_file, _sklearn_loader):
        X, labels_true = read(entry, folder)
        table = LabelledTable(
            np.ascontiguousarray(X, dtype=np.float64),
            labels_true.astype(np.int16),
            entry.class_names,
            entry.feature_names,
        )
        if table.checksum() == entry.checksum:
            return Found(table, folder, "scikit-learn's copy")
    raise Missing(f"scikit-learn {version('scikit-learn')} ships another table")


def _sklearn_file(entry: Entry, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        # beside a header of counts and names
        values = np.loadtxt(folder / "data" / FILES[entry.sklearn], delimiter=",", skiprows=1, ndmin=2)
    except (OSError, ValueError):
        values = np.empty((0, 1))
    return values[:, :-1], values[:, -1]


def _sklearn_loader(entry: Entry, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, entry.sklearn)()
    return bunch.data, bunch.target


def _from_network(entry: Entry, download: bool) -> Found:
    if not download:
        raise Missing(f"{address(entry)}: not downloaded yet")
    path = download_raw(entry, user_cache())
    return Found(parse_raw(read_file(path, MOST_BYTES), entry), path, f"downloaded from {address(entry)}")
