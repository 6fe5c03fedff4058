"""The built-in data sets: their raw files, checksums, addresses and how each is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from sweeps.data.table import LabelledTable

UCI = "https://archive.ics.uci.edu"


class Published(NamedTuple):
    """Where a data set is published.

    Parameters
    ----------
    url : str
        Public download: the raw file, or a zip that holds it.
    landing_page, licence : str
        Page that describes it, and the licence named there.
    """

    url: str
    landing_page: str
    licence: str


@dataclass(frozen=True)
class Entry:
    """One built-in data set.

    Parameters
    ----------
    name : str
        Name in sweep files.
    file, sha256 : str
        Raw file and its checksum; the same file inside a zip has the same checksum.
    published : Published
        Where it is published.
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
    separator : str or None
        Between cells; None for any number of spaces or tabs.
    header_lines : int
        Lines to skip at the top.
    comment : str
        Lines that start with one of these characters are skipped.
    missing : str
        Text of a missing value; rows with one are left out.
    sklearn : str
        Loader of scikit-learn's own copy of the same table, if it has one.
    feature_names : tuple of str
        As scikit-learn's copy or the publisher's page has them, if they do.
    """

    name: str
    file: str
    sha256: str
    published: Published
    n_samples: int
    class_names: tuple[str, ...]
    checksum: str
    features: tuple[int, int]
    class_column: int
    separator: str | None = ","
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


def _uci(number: int, slug: str) -> Published:
    page = f"{UCI}/dataset/{number}/{slug}"
    return Published(f"{UCI}/static/public/{number}/{slug}.zip", page, "CC BY 4.0")


_IRIS = ("Iris-setosa", "Iris-versicolor", "Iris-virginica")

_OF_IRIS = ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)")
_OF_WINE = (
    *("alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids"),
    *("nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue", "od280/od315_of_diluted_wines"),
    "proline",
)

_ENTRIES = (
    Entry(
        name="diabetes",
        file="Diabetes.csv",
        sha256="dcb19ac4fedb1aedac8c863f14263d83b2f0a36f38c6305bebdae9bfd91ec213",
        published=Published(
            url="https://vincentarelbundock.github.io/Rdatasets/csv/heplots/Diabetes.csv",
            landing_page="https://vincentarelbundock.github.io/Rdatasets/doc/heplots/Diabetes.html",
            licence="GPL (R package heplots, Rdatasets)",
        ),
        n_samples=145,
        class_names=("Chemical_Diabetic", "Normal", "Overt_Diabetic"),
        checksum="20414adbfb50c14543f51d17a8063bdfaae195dab42b62087d3c7e08f3d22e99",
        features=(1, 6),
        class_column=6,
        header_lines=1,
    ),
    Entry(
        name="iris",
        file="bezdekIris.data",
        sha256="0fed2a99db77ec533a62dc66894d3ec6df3b58b6a8f3cf4a6b47e4086b7f97dc",
        published=_uci(53, "iris"),
        n_samples=150,
        class_names=_IRIS,
        checksum="2613d25e36da3d900ec82fe3fd1e929d86487f3d5c6bcb80bca02c8d5b38022d",
        features=(0, 4),
        class_column=4,
        sklearn="load_iris",
        feature_names=_OF_IRIS,
    ),
    Entry(
        name="iris-uci",
        file="iris.data",
        sha256="6f608b71a7317216319b4d27b4d9bc84e6abd734eda7872b71a458569e2656c0",
        published=_uci(53, "iris"),
        n_samples=150,
        class_names=_IRIS,
        checksum="4a40a7186b686b2a8111a1a61c2d5f44d2f98fe8522f5d4682e324dd1b19b946",
        features=(0, 4),
        class_column=4,
        feature_names=_OF_IRIS,
    ),
    Entry(
        name="wine",
        file="wine.data",
        sha256="6be6b1203f3d51df0b553a70e57b8a723cd405683958204f96d23d7cd6aea659",
        published=_uci(109, "wine"),
        n_samples=178,
        class_names=("1", "2", "3"),
        checksum="fe403efbc99600cce561067dc51103bb694ff73d3b499904fbf21f7de7cb6782",
        features=(1, 14),
        class_column=0,
        sklearn="load_wine",
        feature_names=_OF_WINE,
    ),
    Entry(
        name="thyroid",
        file="new-thyroid.data",
        sha256="0760039b928ecba5170f377b8fd96caaf55ed26f9861511c52f81395a9d8227a",
        published=_uci(102, "thyroid+disease"),
        n_samples=215,
        class_names=("1", "2", "3"),
        checksum="eff15b99044d0f867bb36af26a0f8f9eabe3e4d5d37777362e49d3cd50838ce5",
        features=(1, 6),
        class_column=0,
    ),
    Entry(
        name="vertebral",
        file="column_3C_weka.arff",
        sha256="cf768854cf4cf42b3a3b792a239a81ebfd4fbfafc25fbe2a19d15b3f73249879",
        published=_uci(212, "vertebral+column"),
        n_samples=310,
        class_names=("Hernia", "Normal", "Spondylolisthesis"),
        checksum="853d8d0372300bcb2f1c8c0b5e2f985d6ff601ef11b40235d77146f8d7fbbd35",
        features=(0, 6),
        class_column=6,
        comment="@",
    ),
    Entry(
        name="ecoli",
        file="ecoli.data",
        sha256="008bd8fbb1d8b34040c3c8c4e987cac2a7ebf116e008b140cc6441be5261ba1d",
        published=_uci(39, "ecoli"),
        n_samples=336,
        class_names=("cp", "im", "imL", "imS", "imU", "om", "omL", "pp"),
        checksum="6e57f6183a8cc088f5135814c1c9ef8759612f67cf2cd7e91098e75ee2f6382b",
        features=(1, 8),
        class_column=8,
        separator=None,
    ),
    Entry(
        name="breast-cancer",
        file="breast-cancer-wisconsin.data",
        sha256="402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
        published=_uci(15, "breast+cancer+wisconsin+original"),
        n_samples=683,
        class_names=("2", "4"),
        checksum="ce44b595df7688c88a88306934211f4f753ac7cfd3d977420354b01fbdf5df3c",
        features=(1, 10),
        class_column=10,
        missing="?",
    ),
    Entry(
        name="pendigits-389",
        file="pendigits.tra",
        sha256="e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3",
        published=_uci(81, "pen+based+recognition+of+handwritten+digits"),
        n_samples=2157,
        class_names=("3", "8", "9"),
        checksum="af86bf20569497bddc95708f505466cd4016ce23d370fc00cf4e7bb730b7ec53",
        features=(0, 16),
        class_column=16,
    ),
)

REGISTRY: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
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
    for cells in _rows(content, entry):
        features = cells[start:stop]
        label = cells[entry.class_column]
        if label not in codes or entry.missing in features:
            continue
        rows.append([float(cell) for cell in features])
        labels.append(codes[label])
    return LabelledTable(
        np.array(rows), np.array(labels, dtype=np.int16), entry.class_names, entry.feature_names
    )


def _rows(content: bytes, entry: Entry) -> list[list[str]]:
    lines = content.decode("utf-8").splitlines()[entry.header_lines :]
    kept = (line for line in lines if line.strip() and line[0] not in entry.comment)
    return [[cell.strip() for cell in line.split(entry.separator)] for line in kept]
