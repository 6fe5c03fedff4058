"""Built-in data sets: the same table from every source, and what is said when there is none."""

from __future__ import annotations

import csv
import pickle
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
from raw_files import folder, iris_file, iris_uci_file, zipped

from sweeps.data.builtin import Unavailable, catalogue, check, find
from sweeps.data.datasets import load_builtin
from sweeps.data.registry import BUILTIN, REGISTRY
from sweeps.errors import InputError

CLASS_COUNTS = {
    "diabetes": (36, 76, 33),
    "iris": (50, 50, 50),
    "iris-uci": (50, 50, 50),
    "wine": (59, 71, 48),
    "thyroid": (150, 35, 30),
    "vertebral": (60, 100, 150),
    "ecoli": (143, 77, 2, 2, 35, 20, 5, 52),
    "breast-cancer": (444, 239),
    "pendigits-389": (719, 719, 719),
}
STATS_NAMES = {
    "diabetes": "Diabetes",
    "iris": "Iris",
    "iris-uci": "Iris",
    "wine": "Wine",
    "thyroid": "Thyroid",
    "vertebral": "Vertebral",
    "ecoli": "E. coli",
    "breast-cancer": "Breast-Cancer",
    "pendigits-389": "Pendigits-389",
}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user cache, no data directory, and a mirror that no socket leads to."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("SWEEP_USER_CACHE", str(cache))
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_DATA_MIRROR", "nowhere://")
    return cache


@pytest.mark.parametrize("name", BUILTIN)
def test_table_agrees_with_published_statistics(name: str, shared_data: Path, raw_data: Path) -> None:
    data = load_builtin(name, data_dir=raw_data)
    entry = REGISTRY[name]
    expected = defaultdict(list)
    with (shared_data / "column-stats.csv").open() as stream:
        for row in csv.DictReader(stream):
            if (row["dataset"], row["file"]) == (STATS_NAMES[name], entry.file):
                for column in ("min", "max", "mean", "std"):
                    expected[column].append(float(row[column]))
    assert data.X.shape == (entry.n_samples, entry.n_features) == (len(data.X), len(expected["min"]))
    np.testing.assert_allclose(data.X.min(axis=0), expected["min"], rtol=1e-7)
    np.testing.assert_allclose(data.X.max(axis=0), expected["max"], rtol=1e-7)
    np.testing.assert_allclose(data.X.mean(axis=0), expected["mean"], rtol=1e-7)
    np.testing.assert_allclose(data.X.std(axis=0, ddof=1), expected["std"], rtol=1e-7)


@pytest.mark.parametrize("name", BUILTIN)
def test_classes_are_counted_in_the_order_of_their_names(name: str, raw_data: Path) -> None:
    data = load_builtin(name, data_dir=raw_data)
    assert data.labels_true is not None
    assert data.labels_true.dtype == np.int16
    assert tuple(np.bincount(data.labels_true)) == CLASS_COUNTS[name]
    assert list(data.class_names) == sorted(data.class_names)
    assert data.n_clusters == len(data.class_names) == len(CLASS_COUNTS[name])


@pytest.mark.parametrize("name", BUILTIN)
def test_checksum_is_the_registered_one_from_raw_file_zip_and_cache(
    name: str, raw_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = REGISTRY[name]
    raw = raw_data / entry.file
    zip_name = Path(entry.published.url).name
    zips = folder(tmp_path / "zips", {zip_name: zipped({f"some/where/{entry.file}": raw.read_bytes()})})
    cache = folder(tmp_path / "filled", {entry.file: raw.read_bytes()})
    from_raw = load_builtin(name, data_dir=raw.parent)
    monkeypatch.setenv("SWEEP_DATA_DIR", str(zips))
    from_zip = load_builtin(name)
    monkeypatch.setenv("SWEEP_DATA_DIR", "")
    monkeypatch.setenv("SWEEP_USER_CACHE", str(cache))
    from_cache = load_builtin(name)
    assert {from_raw.checksum, from_zip.checksum, from_cache.checksum} == {entry.checksum}
    assert from_raw.source == f"data directory {raw}"
    assert from_zip.source == f"data directory {zips / zip_name}"
    assert from_cache.source == f"user cache {cache / entry.file}"


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_scikit_learn_holds_the_same_bits(name: str) -> None:
    data = load_builtin(name)
    assert data.source == "scikit-learn's copy"
    assert data.checksum == REGISTRY[name].checksum
    assert data.class_names == REGISTRY[name].class_names
    assert tuple(np.bincount(data.labels_true)) == CLASS_COUNTS[name]


@pytest.mark.parametrize("change", ["another value", "not a number", "no file"])
def test_another_table_in_scikit_learn_is_not_taken_and_its_loader_is_asked(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "datasets" / "data" / "iris.csv"
    file.parent.mkdir(parents=True)
    text = (Path(sklearn.datasets.__file__).parent / "data" / "iris.csv").read_text()
    if change != "no file":
        file.write_text(text.replace("5.1", "5.2" if change == "another value" else "x", 1))
    origin = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("sweeps.data.builtin.find_spec", lambda name: origin)
    assert load_builtin("iris").source == "scikit-learn's copy"
    other = SimpleNamespace(data=np.zeros((150, 4)), target=np.zeros(150))
    monkeypatch.setattr(sklearn.datasets, "load_iris", lambda: other)
    with pytest.raises(Unavailable, match=r"scikit-learn [\d.]+ ships another table"):
        load_builtin("iris")
    file.write_text(text)
    assert load_builtin("iris").source == "scikit-learn's copy"


def test_scikit_learn_is_not_imported_for_its_files() -> None:
    code = "import sys; from sweeps.data.datasets import load_builtin; load_builtin('iris'); "
    subprocess.run([sys.executable, "-c", code + "assert 'sklearn' not in sys.modules"], check=True)


def test_the_two_irises_differ_in_two_rows(tmp_path: Path) -> None:
    files = folder(tmp_path / "data", {"bezdekIris.data": iris_file(), "iris.data": iris_uci_file()})
    corrected = load_builtin("iris", data_dir=files)
    uci = load_builtin("iris-uci", data_dir=files)
    rows, columns = np.nonzero(corrected.X != uci.X)
    assert rows.tolist() == [34, 37, 37]
    assert corrected.X[[34, 37]].tolist() == [[4.9, 3.1, 1.5, 0.2], [4.9, 3.6, 1.4, 0.1]]
    assert columns.tolist() == [3, 1, 2]
    assert corrected.checksum != uci.checksum


def test_iris_is_never_read_from_the_other_iris_file(tmp_path: Path) -> None:
    files = folder(tmp_path / "data", {"iris.data": iris_uci_file()})
    assert load_builtin("iris", data_dir=files).source == "scikit-learn's copy"


def test_vertebral_has_the_digits_of_the_published_instance(shared_data: Path, raw_data: Path) -> None:
    data = load_builtin("vertebral", data_dir=raw_data)
    reference = shared_data / "reference-vertebral"
    assert np.array_equal(data.X, np.loadtxt(reference / "vertebral.data"))
    names = np.array(["Hernia", "Spondylolisthesis", "Normal"])
    published = names[np.loadtxt(reference / "vertebral.label", dtype=int) - 1]
    assert np.array_equal(np.array(data.class_names)[data.labels_true], published)


def test_damaged_cache_is_passed_over_with_a_warning(nowhere: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder(nowhere, {"bezdekIris.data": b"half a fi"})
    assert load_builtin("iris").source == "scikit-learn's copy"
    assert "ignoring a damaged file in the user cache" in caplog.text


def test_unavailable_says_what_each_source_had(nowhere: Path, tmp_path: Path) -> None:
    files = folder(tmp_path / "data", {})
    with pytest.raises(Unavailable) as caught:
        load_builtin("thyroid", data_dir=files, download=False)
    assert caught.value.name == "thyroid"
    assert caught.value.reasons == (
        f"{files} holds no new-thyroid.data or thyroid+disease.zip",
        f"{nowhere} does not exist",
        "nowhere:/thyroid+disease.zip: not downloaded yet",
    )
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.name, copy.reasons) == (caught.value.name, caught.value.reasons)


def test_unknown_name_gets_a_hint() -> None:
    with pytest.raises(InputError, match="did you mean 'vertebral'"):
        load_builtin("vertebrae")


def test_catalogue_knows_sizes_sources_and_what_is_missing() -> None:
    records = {record.name: record for record in catalogue()}
    assert tuple(records) == BUILTIN
    sources = {name for name, record in records.items() if record.source}
    assert sources == {"iris", "wine"}
    assert all(bool(record.source) != bool(record.reasons) for record in records.values())
    thyroid = records["thyroid"]
    assert (thyroid.n_samples, thyroid.n_features, thyroid.n_clusters) == (215, 5, 3)
    assert thyroid.licence == "CC BY 4.0"
    assert thyroid.landing_page == "https://archive.ics.uci.edu/dataset/102/thyroid+disease"


def test_check_verifies_a_data_directory(tmp_path: Path) -> None:
    files = folder(tmp_path / "data", {"iris.data": iris_uci_file()})
    assert check("iris-uci", data_dir=files).source == f"data directory {files / 'iris.data'}"
    (files / "iris.data").write_bytes(iris_file())
    assert "expected sha256 6f608b71" in check("iris-uci", data_dir=files).reasons[0]


def test_fetch_names_the_file_that_is_there(tmp_path: Path) -> None:
    files = folder(tmp_path / "data", {"iris.data": iris_uci_file()})
    assert find("iris-uci", data_dir=files).path == files / "iris.data"
    assert find("wine").path.is_dir()
