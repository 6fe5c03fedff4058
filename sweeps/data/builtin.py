"""The built-in data sets, as `registry.toml` and `suite.csv` have them.

`find` takes each from the first source that has it, and checks it. Sources are a folder of raw files or of
the zips they are published in, the cache of the user, scikit-learn's own copies, and the public address, from
which pooch downloads into the cache. Names with a slash are those of the clustering suite of Gagolewski
(SoftwareX 2022): `suite/<battery>/<name>`.
"""

import csv
import gzip
import hashlib
import io
import logging
import math
import os
import re
import time
import tomllib
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.sweeps.data.table import LabelledTable
from sweep_clustering.sweeps.errors import InputError, did_you_mean, refused
from sweep_clustering.sweeps.files import read_file


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
        Page about the data set, and the SPDX identifier of the licence named there; empty if none is.
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
    reference : mapping of str to str
        Fields of its entry in BibTeX.
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
    reference: Mapping[str, str] = field(default_factory=dict)

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
SUITE_REFERENCE = {
    "author": "Gagolewski, Marek and others",
    "title": "A benchmark suite for clustering algorithms: Version 1.1.0",
    "year": "2022",
    "doi": "10.5281/zenodo.7088171",
    "note": "described in A framework for benchmarking clustering algorithms, SoftwareX 20, 101270, 2022",
}


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
        licence="",  # its README allows research, and names no licence
        n_samples=int(row["n_samples"]),
        class_names=tuple(str(number) for number in range(1, n_clusters + 1)),
        checksum=row["checksum"],
        features=(0, int(row["n_features"])),
        class_column=0,
        n_noise=int(row["n_noise"]),
        reference=SUITE_REFERENCE,
    )


_FOLDER = Path(__file__).parent
_TABLES = tomllib.loads((_FOLDER / "registry.toml").read_text("utf-8"))
_SUITE = csv.DictReader((_FOLDER / "suite.csv").read_text("utf-8").splitlines())
REGISTRY: Mapping[str, Entry] = {name: _entry(name, keys) for name, keys in _TABLES.items()} | {
    entry.name: entry for entry in map(_suite, _SUITE)
}
BUILTIN: tuple[str, ...] = tuple(REGISTRY)

# Names that messages expect.
KNOWN_NAMES = (
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
    try:
        X = np.fromiter(_numbers(features), np.float64).reshape(-1, entry.n_features)
        codes = np.fromiter(_numbers(classes), np.float64).astype(np.int64)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise ValueError(f"no table of {entry.n_features} numbers a row: {error}") from error
    is_kept = codes > 0 if len(codes) == len(X) else np.zeros(len(X), bool)
    sizes = int(is_kept.sum()), int(codes.max(initial=0)), len(codes) - int(is_kept.sum())
    if sizes != (entry.n_samples, entry.n_clusters, entry.n_noise) or len(codes) != len(X):
        expected = f"{entry.n_samples} rows of {entry.n_clusters} classes and {entry.n_noise} of noise"
        raise ValueError(f"{len(X)} rows and {len(codes)} classes, {sizes[0]} above 0, expected {expected}")
    notes = (f"{entry.n_noise} samples are noise (label 0) and left out",) if entry.n_noise else ()
    return LabelledTable(X[is_kept], (codes[is_kept] - 1).astype(np.int16), entry.class_names, notes=notes)


def _numbers(compressed: bytes) -> Iterator[float]:
    """Yield the numbers of a packed text."""
    with gzip.open(io.BytesIO(compressed)) as text:
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


# Finding raw files in folders and zips.

DATA_DIR_VARIABLE = "SWEEP_DATA_DIR"
USER_CACHE_VARIABLE = "SWEEP_USER_CACHE"

# Bytes of a raw file, or of the zip it is published in.
MOST_BYTES = 2**28

# Bytes of a raw file in a zip: the largest has 0.5 MB, and one far larger may be made to fill memory.
MEMBER_LIMIT = 32_000_000
# Publishers put a zip into a zip; deeper, a zip that holds itself would be opened without end.
ZIP_DEPTH = 2


class MissingFile(Exception):
    """The file is not here; the next source may have it."""


class DamagedFile(MissingFile, ValueError):
    """A file of this name is here, with other content. (A ValueError, so that pooch tries again.)"""


def data_folder(data_dir: Path | None) -> Path | None:
    """Return the data directory: `data_dir`, else `SWEEP_DATA_DIR`, else None.

    A name that is no directory is refused: a misspelt name must not change where the data come from.
    """
    path = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE)
    if not path:
        return None
    folder = Path(path).expanduser()
    if not folder.is_dir():
        location = "--data-dir" if data_dir is not None else DATA_DIR_VARIABLE
        raise refused(location, repr(str(path)), "a directory that exists")
    return folder


def user_cache() -> Path:
    """Return the folder of downloaded raw files: `SWEEP_USER_CACHE`, else the user cache of the system."""
    path = os.environ.get(USER_CACHE_VARIABLE)
    if path:
        return Path(path).expanduser()
    import pooch

    return Path(pooch.os_cache("sweep")) / "data"


def find_in_folder(entry: RawFile, folder: Path) -> tuple[bytes, Path]:
    """Read and verify a raw file in a folder, by itself or inside the zip it is published in.

    The path is that of the raw file, or of the zip.

    Raises
    ------
    Missing
        If the folder has neither.
    Damaged
        If it has one of them with other content, or one that cannot be read.
    """
    published = PurePosixPath(unquote(urlsplit(entry.url).path)).name
    try:
        place = folder / entry.file
        if not folder.is_dir():
            raise MissingFile(f"{folder} does not exist")
        files = sorted(place.parent.iterdir()) if place.parent.is_dir() else []
        paths = [path for path in files if path.name == place.name]
        paths += [path for path in files if _letters(path.name) == _letters(published)]
        if not paths:
            raise MissingFile(f"{folder} holds no {' or '.join(dict.fromkeys((entry.file, published)))}")
        content = read_file(paths[0], MOST_BYTES)
    except InputError as error:
        raise DamagedFile(str(error)) from error
    except OSError as error:
        raise DamagedFile(f"{error.filename or folder} cannot be read: {error.strerror or error}") from error
    try:
        return verified(content, entry), paths[0]
    except DamagedFile as damaged:
        raise DamagedFile(f"{paths[0]}: {damaged}") from None


def _letters(name: str) -> str:
    """Return only the letters and digits: browsers save `a+b.zip` as `a b.zip` or `a_b.zip`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def verified(content: bytes, entry: RawFile) -> bytes:
    """Return the raw file from its own content, or from that of a zip that holds it at any place.

    The checksum is that of the raw file, because a publisher may pack the same file again into another zip.
    pooch would need the checksum of the zip, and would unpack it into the folder; a data directory is the
    user's, and nothing is written to it.

    Raises
    ------
    Damaged
        If the checksum differs, or the zip is broken or holds no such member.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 == entry.sha256 or not entry.sha256:
        return content
    if not content.startswith(b"PK"):
        raise DamagedFile(f"{len(content)} bytes with sha256 {sha256}, expected sha256 {entry.sha256}")
    sha256 = ""
    try:
        for member in _members(content, entry.file, ZIP_DEPTH):
            sha256 = hashlib.sha256(member).hexdigest()
            if sha256 == entry.sha256:
                return member
    # an encrypted member is a RuntimeError, an unknown compression a NotImplementedError
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError) as error:
        raise DamagedFile(f"a broken zip ({error})") from error
    if not sha256:
        raise DamagedFile(f"a zip without a member {entry.file}")
    raise DamagedFile(f"its member {entry.file} has sha256 {sha256}, expected {entry.sha256}")


def _members(content: bytes, file: str, depth: int) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            name = PurePosixPath(info.filename).name
            nested = name.lower().endswith(".zip") and depth > 1
            if info.file_size > MEMBER_LIMIT or not (nested or name == file):
                continue
            member = archive.read(info)
            yield from _members(member, file, depth - 1) if nested else [member]


# Downloading raw files into the user cache.

logger = logging.getLogger(__name__)

# Seconds without an answer after which a server is given up.
SECONDS = 10

# Seconds for which it is not asked again after that: sweeps have many data sets of one server.
QUIET = 60
_quiet: dict[str, tuple[float, str]] = {}


def _cause(error: BaseException) -> str:
    """Return the message of the first of a chain of errors: those of requests after it only wrap it."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# Causes that are listed.
MOST_CAUSES = 3


def causes(unavailable: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the last reasons of data sets that are not available, each once."""
    reasons = [*dict.fromkeys(reasons[-1] for reasons in unavailable if reasons)]
    yield from reasons[:MOST_CAUSES]
    if len(reasons) > MOST_CAUSES:
        yield f"and {len(reasons) - MOST_CAUSES} more: sweep datasets list"


class Unavailable(Exception):
    """A data set that no source has.

    Parameters
    ----------
    name : str
        The data set.
    reasons : tuple of str
        Reason for each source, in the order in which they were tried.
    """

    def __init__(self, name: str, reasons: tuple[str, ...]) -> None:
        self.reasons = reasons
        super().__init__("\n  ".join((f"data set {name!r} is not available:", *reasons)))


class DataSet(NamedTuple):
    """A table with its classes, unscaled.

    Parameters
    ----------
    table : LabelledTable
        Features, classes and names, verified if the data set is built in.
    n_clusters : int
        Number of clusters to look for.
    source : str
        Origin of the table, for people.
    path : Path
        The file, the zip that holds it, or the folder of scikit-learn's copies.
    """

    table: LabelledTable
    n_clusters: int
    source: str
    path: Path

    @property
    def X(self) -> NDArray[np.float64]:
        """Features as an array of shape (n_samples, n_features)."""
        return self.table.X

    @property
    def labels_true(self) -> NDArray[np.int16] | None:
        """Positions in `class_names` as an array of shape (n_samples,); None without classes."""
        return self.table.labels_true


@dataclass(frozen=True, kw_only=True)
class Record(Entry):
    """Entry of the registry with its place on this machine.

    Parameters
    ----------
    source : str
        Place of the data set without a download; empty if there is none.
    reasons : tuple of str
        Reason for each source if there is none.
    """

    source: str = ""
    reasons: tuple[str, ...] = ()


def find(name: str, *, data_dir: Path | None = None, download: bool = True) -> DataSet:
    """Find a data set of the registry.

    Sources, in order: `data_dir` (or `SWEEP_DATA_DIR`), the user cache, scikit-learn's own copy (iris, wine,
    wdbc, digits and three of them), the public address if `download` is allowed. Every raw file is checked
    against its sha256, or by the sizes of the table if that is not known.

    Raises
    ------
    Unavailable
        If no source has it, or the data directory holds a file of its name with other content: what the user
        put there is never replaced by another source.
    InputError
        If the name is unknown or the data directory does not exist.
    """
    if name not in REGISTRY:
        raise refused("data set", repr(name), KNOWN_NAMES, did_you_mean(name, BUILTIN))
    entry = REGISTRY[name]
    folder, reasons = data_folder(data_dir), list[str]()
    sources = (_from_data_folder, _from_cache, _from_sklearn, _from_network)
    for look in sources if entry.files else (_from_sklearn,):
        try:
            return look(entry, folder, download)
        except DamagedFile as error:
            raise Unavailable(name, (*reasons, str(error))) from error
        except MissingFile as error:
            reasons += [str(error)] if str(error) else []
    raise Unavailable(name, tuple(reasons))


def catalogue(data_dir: Path | None = None, names: Sequence[str] = BUILTIN) -> list[Record]:
    """List the built-in data sets as they are on this machine, verified; nothing is downloaded."""
    records = []
    for name in names:
        entry = REGISTRY[name]
        try:
            records.append(Record(**vars(entry), source=find(name, data_dir=data_dir, download=False).source))
        except Unavailable as unavailable:
            records.append(Record(**vars(entry), reasons=unavailable.reasons))
    return records


def _table(files: Sequence[tuple[bytes, Path]], entry: Entry, source: str) -> DataSet:
    """Parse raw files."""
    path = files[0][1]
    try:
        table = parse([content for content, _ in files], entry)
    except ValueError as error:
        raise DamagedFile(f"{path}: {error}") from error
    return DataSet(table, entry.n_clusters, f"{source} {path}", path)


def _from_data_folder(entry: Entry, folder: Path | None, download: bool) -> DataSet:
    if folder is None:
        raise MissingFile(f"no data directory is set (--data-dir or {DATA_DIR_VARIABLE})")
    return _table([find_in_folder(file, folder) for file in entry.files], entry, "data directory")


def _from_cache(entry: Entry, folder: Path | None, download: bool) -> DataSet:
    cache = user_cache()
    try:
        return _table([find_in_folder(file, cache) for file in entry.files], entry, "user cache")
    except DamagedFile as damaged:
        # in contrast to the data directory only downloads are in the cache: a new one replaces the file
        logger.warning("ignoring a damaged file in the user cache: %s", damaged)
        raise MissingFile(str(damaged)) from damaged


def _from_sklearn(entry: Entry, folder: Path | None, download: bool) -> DataSet:
    """Read the table of a loader of scikit-learn from a file of its package.

    It is read without scikit-learn, whose import takes longer than all else that a command does before a run.
    """
    spec = find_spec("sklearn")
    if not entry.sklearn or spec is None or spec.origin is None:
        raise MissingFile("scikit-learn is not installed" if entry.sklearn else "")
    folder = Path(spec.origin).parent / "datasets"
    try:
        # beside a header of counts and names
        values = np.loadtxt(
            folder / "data" / entry.sklearn, delimiter=",", skiprows=entry.sklearn_header, ndmin=2
        )
    except (OSError, ValueError):
        values = np.empty((0, 1))
    classes = values[:, -1]
    codes = np.asarray(entry.sklearn_codes or range(entry.n_clusters))
    is_known = np.isin(classes, codes)
    X = np.ascontiguousarray(values[is_known, :-1])
    labels_true = np.searchsorted(codes, classes[is_known]).astype(np.int16)
    table = LabelledTable(X, labels_true, entry.class_names, entry.feature_names)
    if table.checksum() != entry.checksum:
        raise MissingFile(f"scikit-learn {version('scikit-learn')} ships another table")
    return DataSet(table, entry.n_clusters, "scikit-learn's copy", folder)


def _from_network(entry: Entry, folder: Path | None, download: bool) -> DataSet:
    """Download, verify and keep the raw files; a file that is not the right one is never kept."""
    if not download:
        raise MissingFile(f"{entry.files[0].url}: not downloaded yet")
    files = [_downloaded(file) for file in entry.files]
    try:
        return _table(files, entry, "")._replace(source=f"downloaded from {entry.files[0].url}")
    except DamagedFile:  # by its sizes alone: what is not that table is not kept
        for _, path in files:
            path.unlink(missing_ok=True)
        raise


def _downloaded(file: RawFile) -> tuple[bytes, Path]:
    """Return one raw file, from the cache if it is there."""
    import pooch

    pooch.get_logger().setLevel(logging.ERROR)  # its messages would come between those of the command

    def keep(url: str, target: str, _: object) -> None:
        """Write the raw file to `target`; pooch tries again after `DamagedFile`, which is a ValueError."""
        logger.info("downloading %s", url)
        body = io.BytesIO()
        try:
            pooch.HTTPDownloader(timeout=SECONDS)(url, body, None)
        except OSError as error:  # what requests raises are OSErrors
            if getattr(error, "response", None) is None:  # nobody answered, nor would at once
                _quiet[server] = time.monotonic(), _cause(error)
                raise MissingFile(f"{server} cannot be reached: {_cause(error)}") from error
            raise DamagedFile(f"cannot be downloaded: {_cause(error)}") from error
        Path(target).write_bytes(verified(body.getvalue(), file))

    server = urlsplit(file.url).netloc
    failure_time, cause = _quiet.get(server, (-math.inf, ""))
    if time.monotonic() - failure_time < QUIET:
        raise MissingFile(f"{server} cannot be reached: {cause}")
    cache, name = user_cache(), file.file
    registry = {name: file.sha256 or None}
    files = pooch.create(cache, base_url="", registry=registry, urls={name: file.url}, retry_if_failed=1)
    try:
        path = Path(files.fetch(name, downloader=keep))
    except DamagedFile as damage:
        remedy = f"with a network {file.url} can be saved into a folder for --data-dir"
        raise MissingFile(f"{file.url}: {damage}; {remedy}") from damage
    except OSError as error:
        raise MissingFile(f"{file.url}: cannot be kept in {cache}: {error.strerror or error}") from error
    return read_file(path, MOST_BYTES), path
