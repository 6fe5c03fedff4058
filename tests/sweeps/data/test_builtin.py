"""Built-in data sets give the same table from every source, and a message if there is none."""

import gzip
import io
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

from sweep_clustering.sweeps.data import builtin
from sweep_clustering.sweeps.errors import InputError

RAW = b"1,5.1,3.5\n2,4.9,3.0\n1,4.7,3.2\n"
FILE = builtin.RawFile("tiny.data", sha256(RAW).hexdigest(), "http://unused.invalid/deep/tiny+set.zip")
TINY: dict[str, Any] = {"name": "tiny", "files": (FILE,), "class_names": ("1", "2")}
ENTRY = replace(builtin.REGISTRY["iris-uci"], **TINY, features=(1, 3), class_column=0)


def zip_of(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def folder(path: Path, files: dict[str, bytes]) -> Path:
    path.mkdir()
    for name, content in files.items():
        (path / name).write_bytes(content)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty user cache; there is no data directory and no network but this machine."""
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path / "user" / "cache"))
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    for proxy in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)  # before its second try
    monkeypatch.setattr(builtin, "_quiet", {})
    return tmp_path / "user" / "cache"


# The registry, and how a raw file becomes a table.


def test_a_raw_file_by_hand() -> None:
    entry = replace(ENTRY, class_names=("a", "b"), header_lines=1, comment="%@", missing="?")
    content = (
        "header,that,is,skipped\n% a comment\n@data\n\nb, 1.5 , 2,9\n"
        "c,1,1,9\n"  # this is no class
        "a,?,3,9\n"  # a feature is missing
        "a,-1e3,4,?\n"  # missing, but in no feature
    )
    table = builtin.parse_raw(content.encode(), entry)
    assert table.X.tolist() == [[1.5, 2.0], [-1000.0, 4.0]]
    assert table.labels_true is not None
    assert table.labels_true.tolist() == [1, 0]
    assert table.class_names == ("a", "b")
    blanks = replace(entry, separator="", header_lines=0)
    assert builtin.parse_raw(b"a  1 \t 2\n  b 3   4\n", blanks).X.tolist() == [[1.0, 2.0], [3.0, 4.0]]


# Downloads from a real server on loopback; no test here leaves the machine.

Publish = Callable[..., tuple[str, list[str]]]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publish]:
    """Serve contents, the last again and again, or nothing, and return the address and the requests."""
    contents, requests = list[bytes](), list[str]()
    path = folder(tmp_path / "site", {}) / "tiny+set.zip"

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            if contents:
                path.write_bytes(contents.pop(0) if len(contents) > 1 else contents[0])
            super().do_GET()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=path.parent)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def serve_answers(*answers: bytes, port: int = server.server_port) -> tuple[str, list[str]]:
            contents[:], requests[:] = answers, []
            path.unlink(missing_ok=True)
            url = f"http://127.0.0.1:{port}/tiny+set.zip"
            monkeypatch.setattr(
                builtin, "REGISTRY", {"tiny": replace(ENTRY, files=(FILE._replace(url=url),))}
            )
            return url, requests

        yield serve_answers
        server.shutdown()
        thread.join()


def test_good_download_is_kept_and_used_again(publish: Publish, cache: Path) -> None:
    cached = cache / "tiny.data"
    for content in (RAW, zip_of({"tiny.data": RAW}), zip_of({"a/b/tiny.data": RAW})):
        cached.unlink(missing_ok=True)
        url, requests = publish(content)
        data = builtin.find("tiny")
        assert data.table.X.tolist() == [[5.1, 3.5], [4.9, 3.0], [4.7, 3.2]]
        assert data.source == f"downloaded from {url}"
        assert cached.read_bytes() == RAW
        assert builtin.find("tiny").source == f"user cache {cached}"
        assert builtin.find("tiny").path == cached
        assert len(requests) == 1
        assert list(cache.iterdir()) == [cached]
    cached.write_bytes(RAW[:10])  # a damaged file is replaced, and a second try may be the good one
    publish(RAW[:10], RAW)
    assert builtin.find("tiny").path.read_bytes() == RAW


def test_bad_download_leaves_nothing(publish: Publish, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = b"<html>log in first</html>"
    for contents, cause in (
        ([page], f"25 bytes with sha256 {sha256(page).hexdigest()}"),
        ([zip_of({"tiny.data": b"1,2,3\n"})], "its member tiny.data has sha256"),
        ([zip_of({"tiny.data": RAW})[:-30]], "a broken zip"),
        ([], "cannot be downloaded: 404"),
    ):
        url, requests = publish(*contents)
        with pytest.raises(builtin.Unavailable) as caught:
            builtin.find("tiny")
        reason = caught.value.reasons[-1]
        assert reason.startswith(f"{url}: {cause}")
        assert reason.endswith(f"with a network {url} can be saved into a folder for --data-dir")
        assert len(requests) == 2
        assert list(cache.iterdir()) == []
    monkeypatch.setattr(builtin, "SECONDS", 0.2)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        for cause in ("Connection refused", "timed out"):
            builtin._quiet.clear()
            publish(RAW, port=server.getsockname()[1])
            with pytest.raises(builtin.Unavailable, match=f"cannot be reached: {cause}") as first:
                builtin.find("tiny")
            with pytest.raises(builtin.Unavailable) as second:  # at once
                builtin.find("tiny")
            assert [*builtin.causes([first.value.reasons, second.value.reasons])] == [first.value.reasons[-1]]
            server.listen()
    publish(RAW)
    cache.rmdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(builtin.Unavailable, match="cannot be kept in"):
        builtin.find("tiny")


# The raw file of a data set: found in folders and zips, its checksum verified.


def test_the_content_decides_not_the_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zip_of({"tiny.data": RAW})
    twice = zip_of({"a/tiny.data": b"another", "b/tiny.data": RAW})
    for content in (RAW, packed, twice, zip_of({"x.zip": packed})):
        assert builtin.verified(content, FILE) == RAW
    # a zip may hold itself; a file in a zip in a zip is as deep as publishers go
    deep = zip_of({"x.zip": zip_of({"y.zip": packed})})
    for content in (b"", RAW + b"\n", zip_of({"own.csv": RAW}), packed[:-30], deep):
        with pytest.raises(builtin.DamagedFile):
            builtin.verified(content, FILE)
    # the raw file has priority over a zip, which is known by its first bytes
    files = folder(tmp_path / "data", {"tiny_SET.zip": zip_of({"tiny.data": RAW}), "tiny.data": RAW})
    assert builtin.find_in_folder(FILE, files) == (RAW, files / "tiny.data")
    (files / "tiny.data").unlink()
    assert builtin.find_in_folder(FILE, files) == (RAW, files / "tiny_SET.zip")
    (files / "tiny_SET.zip").unlink()
    with pytest.raises(builtin.MissingFile, match=r"holds no tiny\.data or tiny\+set\.zip"):
        builtin.find_in_folder(FILE, files)
    monkeypatch.setattr(builtin, "MEMBER_LIMIT", len(RAW) - 1)
    with pytest.raises(builtin.DamagedFile, match=r"without a member tiny\.data"):
        builtin.verified(packed, FILE)


def test_another_file_ends_the_search(
    tmp_path: Path, cache: Path, raw_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.mkdir()
    folder(cache, {"iris.data": (raw_data / "iris.data").read_bytes()})
    files = folder(tmp_path / "data", {})
    (files / "iris.data").write_bytes(b"5.1,3.5,1.4,0.2,Iris-setosa\r\n")
    with pytest.raises(builtin.Unavailable) as caught:
        builtin.find("iris-uci", data_dir=files)
    assert caught.value.reasons[0].startswith(f"{files / 'iris.data'}: 29 bytes with sha256 ")
    (files / "bezdekIris.data").mkdir()
    with pytest.raises(builtin.Unavailable, match=r"bezdekIris\.data: found a folder"):
        builtin.find("iris", data_dir=files)
    for name, where in (("iris", "--data-dir"), ("vertebrae", "did you mean 'vertebral'")):
        with pytest.raises(InputError, match=where):
            builtin.find(name, data_dir=tmp_path / "absent")
    monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path / "absent"))
    with pytest.raises(InputError, match="SWEEP_DATA_DIR"):
        builtin.catalogue()


CLASSES = {
    "diabetes": ("Diabetes", (36, 76, 33)),
    "iris": ("Iris", (50, 50, 50)),
    "iris-uci": ("Iris", (50, 50, 50)),
    "wine": ("Wine", (59, 71, 48)),
    "thyroid": ("Thyroid", (150, 35, 30)),
    "vertebral": ("Vertebral", (60, 100, 150)),
    "ecoli": ("E. coli", (143, 77, 2, 2, 35, 20, 5, 52)),
    "breast-cancer": ("Breast-Cancer", (444, 239)),
    "pendigits-389": ("Pendigits-389", (719, 719, 719)),
}


@pytest.mark.parametrize("name", CLASSES)
def test_table_agrees_with_published_statistics_from_raw_file_zip_and_cache(
    name: str, shared_data: Path, raw_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, entry = builtin.find(name, data_dir=raw_data), builtin.REGISTRY[name]
    (published,) = entry.files
    assert published.url[:8] == entry.landing_page[:8] == "https://"
    assert entry.licence
    numeric = all(name.isdecimal() for name in entry.class_names)
    assert list(entry.class_names) == sorted(entry.class_names, key=int if numeric else str)
    title, counts = CLASSES[name]
    expected = pd.read_csv(shared_data / "column-stats.csv")
    expected = expected[(expected["dataset"] == title) & (expected["file"] == published.file)]
    assert data.X.shape == (entry.n_samples, entry.n_features) == (len(data.X), len(expected))
    for column, statistics in pd.DataFrame(data.X).agg(["min", "max", "mean", "std"]).iterrows():
        np.testing.assert_allclose(statistics, expected[column], rtol=1e-7)
    assert tuple(np.bincount(data.labels_true)) == counts
    assert data.labels_true.dtype == np.int16
    assert data.n_clusters == len(data.table.class_names) == len(counts)
    raw, zip_name = raw_data / published.file, Path(published.url).name
    zips = folder(tmp_path / "zips", {zip_name: zip_of({f"some/where/{published.file}": raw.read_bytes()})})
    full_cache = folder(tmp_path / "filled", {published.file: raw.read_bytes()})
    monkeypatch.setenv("SWEEP_DATA_DIR", str(zips))
    from_zip = builtin.find(name)
    monkeypatch.setenv("SWEEP_DATA_DIR", "")
    monkeypatch.setenv("SWEEP_USER_CACHE", str(full_cache))
    from_cache = builtin.find(name)
    assert {source.table.checksum() for source in (data, from_zip, from_cache)} == {entry.checksum}
    assert data.source == f"data directory {raw}"
    assert from_zip.source == f"data directory {zips / zip_name}"
    assert from_cache.source == f"user cache {full_cache / published.file}"


BUNDLED: dict[str, Callable[[], Any]] = {
    "iris": sklearn.datasets.load_iris,
    "wine": sklearn.datasets.load_wine,
    "wdbc": sklearn.datasets.load_breast_cancer,
    "digits": sklearn.datasets.load_digits,
}


def test_scikit_learn_holds_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, loader in BUNDLED.items():
        data, theirs = builtin.find(name), loader()
        assert np.array_equal(data.X, theirs.data)
        assert np.array_equal(data.labels_true, theirs.target)
        assert list(data.table.feature_names) in ([], list(theirs.feature_names))
        assert data.source == "scikit-learn's copy"
        assert data.table.checksum() == builtin.REGISTRY[name].checksum
    code = "import sys; from sweep_clustering.sweeps.data.builtin import find; find('iris'); "
    subprocess.run([sys.executable, "-c", code + "assert 'sklearn' not in sys.modules"], check=True)
    file = tmp_path / "datasets" / "data" / "iris.csv"
    file.parent.mkdir(parents=True)
    text = (Path(sklearn.datasets.__file__).parent / "data" / "iris.csv").read_text()
    origin = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(builtin, "find_spec", lambda name: origin)
    for content in (None, text.replace("5.1", "5.2", 1), text.replace("5.1", "x", 1)):
        if content is not None:
            file.write_text(content)
        with pytest.raises(builtin.Unavailable, match=r"scikit-learn [\d.]+ ships another table"):
            builtin.find("iris", download=False)
    file.write_text(text)
    assert builtin.find("iris").source == "scikit-learn's copy"


def test_three_of_the_digits() -> None:
    three, whole = builtin.find("digits-389"), builtin.find("digits")
    is_used = np.isin(whole.labels_true, (3, 8, 9))
    assert np.array_equal(three.X, whole.X[is_used])
    assert np.array_equal(np.array([3, 8, 9])[three.labels_true], whole.labels_true[is_used])
    assert three.n_clusters == 3
    assert three.table.class_names == ("3", "8", "9")


def test_the_irises_differ_in_two_rows(
    tmp_path: Path, cache: Path, raw_data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = folder(tmp_path / "data", {"iris.data": (raw_data / "iris.data").read_bytes()})
    cache.parent.mkdir()
    folder(cache, {"bezdekIris.data": b"half a fi"})
    # iris is never read from the other's file, nor from a damaged one
    assert builtin.find("iris", data_dir=files).source == "scikit-learn's copy"
    assert "ignoring a damaged file in the user cache" in caplog.text
    shutil.copyfile(raw_data / "bezdekIris.data", files / "bezdekIris.data")
    corrected, uci = (builtin.find(name, data_dir=files).X for name in ("iris", "iris-uci"))
    assert np.argwhere(corrected != uci).tolist() == [[34, 3], [37, 1], [37, 2]]
    assert corrected[[34, 37]].tolist() == [[4.9, 3.1, 1.5, 0.2], [4.9, 3.6, 1.4, 0.1]]


def test_what_is_missing_is_said_of_each_source(cache: Path, tmp_path: Path) -> None:
    files = folder(tmp_path / "data", {})
    with pytest.raises(builtin.Unavailable) as caught:
        builtin.find("thyroid", data_dir=files, download=False)
    assert caught.value.reasons == (
        f"{files} holds no new-thyroid.data or thyroid+disease.zip",
        f"{cache} does not exist",
        f"{builtin.REGISTRY['thyroid'].files[0].url}: not downloaded yet",
    )
    records = {record.name: record for record in builtin.catalogue()}
    assert tuple(records) == builtin.BUILTIN
    assert {name for name, record in records.items() if record.source} == {*BUNDLED, "digits-389"}
    assert all(bool(record.source) != bool(record.reasons) for record in records.values())


# The clustering suite: a file of features and one of classes each.


def gzip_of(text: str) -> bytes:
    return gzip.compress(text.encode())


def test_features_and_classes_of_a_suite_without_its_noise() -> None:
    entry = replace(
        builtin.REGISTRY["suite/uci/wine"], n_samples=3, class_names=("1", "2"), features=(0, 2), n_noise=1
    )
    features = gzip_of("1 2\n3  4\n5\t6\n7 8\n")
    table = builtin.parse([features, gzip_of("2\n0\n1\n2\n")], entry)
    assert table.X.tolist() == [[1.0, 2.0], [5.0, 6.0], [7.0, 8.0]]
    assert table.labels_true is not None
    assert table.labels_true.tolist() == [1, 0, 1]
    assert table.notes == ("1 samples are noise (label 0) and left out",)
    for classes in ("2\n0\n1\n", "2\n0\n1\n3\n", "2\n0\n0\n1\n", "2\n0\n1\nx\n", ""):
        with pytest.raises(ValueError, match=r"expected 3 rows|no table of 2 numbers"):
            builtin.parse([features, gzip_of(classes)], entry)
    for broken in (b"", b"1 2\n", features[:-9], gzip_of("1 2 3\n")):
        with pytest.raises(ValueError, match=r"no table of 2 numbers a row|expected 3 rows"):
            builtin.parse([broken, gzip_of("1\n")], entry)


def test_names_and_patterns() -> None:
    suite = [name for name in builtin.BUILTIN if name.startswith("suite/")]
    assert len(suite) == 78
    assert builtin.fitting("suite/*") == suite
    assert builtin.fitting("suite/uci/w*") == ["suite/uci/wdbc", "suite/uci/wine"]
    assert builtin.fitting("suite/mnist/*") == ["suite/mnist/digits", "suite/mnist/fashion"]
    assert builtin.fitting("iris") == ["iris"]
    assert builtin.fitting("iris*") == ["iris", "iris-uci"]
    assert builtin.fitting("nothing*") == builtin.fitting("suite/uci") == []
    with_checksum = [name for name in suite if builtin.REGISTRY[name].checksum]
    assert len(with_checksum) == 73
    assert all(len(file.sha256) == 64 for name in with_checksum for file in builtin.REGISTRY[name].files)
    assert len({builtin.REGISTRY[name].files[0].url for name in suite}) == 78


def test_sets_of_the_suite_are_those_published(shared_data: Path, tmp_path: Path, cache: Path) -> None:
    home = shared_data / "suite"
    if not home.is_dir():
        pytest.skip("the clustering suite (../shared/data/suite) is not on this machine")
    for name in ("suite/fcps/hepta", "suite/graves/zigzag_noisy", "suite/uci/wine"):
        data, entry = builtin.find(name, data_dir=shared_data), builtin.REGISTRY[name]
        assert data.table.checksum() == entry.checksum
        assert len(data.X) == entry.n_samples
        assert data.n_clusters == entry.n_clusters
        assert bool(data.table.notes) == bool(entry.n_noise)
        assert data.source == f"data directory {shared_data / name}.data.gz"
    # a folder with one of two files, and with another file in place of one
    half = tmp_path / "suite" / "uci"
    half.mkdir(parents=True)
    shutil.copy(home / "uci" / "wine.data.gz", half)
    with pytest.raises(builtin.Unavailable, match=r"holds no suite/uci/wine\.labels0\.gz"):
        builtin.find("suite/uci/wine", data_dir=tmp_path, download=False)
    shutil.copy(home / "uci" / "glass.labels0.gz", half / "wine.labels0.gz")
    with pytest.raises(builtin.Unavailable, match=r"wine\.labels0\.gz: \d+ bytes with sha256"):
        builtin.find("suite/uci/wine", data_dir=tmp_path, download=False)


def test_a_set_without_a_checksum_goes_by_its_sizes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    tiny = replace(
        builtin.REGISTRY["suite/sipu/birch1"], n_samples=2, class_names=("1", "2"), features=(0, 1)
    )
    assert not tiny.files[0].sha256
    monkeypatch.setattr(builtin, "REGISTRY", {tiny.name: tiny})
    for place in (tmp_path, cache):
        (place / "suite" / "sipu").mkdir(parents=True)
        (place / "suite" / "sipu" / "birch1.data.gz").write_bytes(gzip_of("1\n2\n"))
        (place / "suite" / "sipu" / "birch1.labels0.gz").write_bytes(gzip_of("1\n2\n"))
        assert builtin.find(tiny.name, data_dir=place if place == tmp_path else None).X.tolist() == [
            [1.0],
            [2.0],
        ]
    (tmp_path / "suite" / "sipu" / "birch1.data.gz").write_bytes(gzip_of("1\n2\n3\n"))
    with pytest.raises(builtin.Unavailable, match="expected 2 rows of 2 classes and 0 of noise"):
        builtin.find(tiny.name, data_dir=tmp_path)
