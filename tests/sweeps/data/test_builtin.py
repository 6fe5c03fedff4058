"""Built-in data sets: the same table from every source, and what is said when there is none."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import pickle
import socket
import subprocess
import sys
import threading
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
from raw_files import folder, iris_file, iris_uci_file, zipped

from sweeps.data import builtin
from sweeps.data import builtin as module
from sweeps.data.builtin import (
    Damaged,
    Missing,
    Unavailable,
    catalogue,
    check,
    find,
    find_in_folder,
    verified,
)
from sweeps.data.reading import load_builtin
from sweeps.data.registry import BUILTIN, REGISTRY
from sweeps.errors import InputError

# Downloads from a real server on loopback; no test here leaves the machine.

RAW = b"1,5.1,3.5\n2,4.9,3.0\n1,4.7,3.2\n"
ENTRY = replace(
    REGISTRY["iris-uci"],
    name="tiny",
    file="tiny.data",
    sha256=sha256(RAW).hexdigest(),
    url="http://unused.invalid/deep/tiny+set.zip",
    class_names=("1", "2"),
    features=(1, 3),
    class_column=0,
)

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server(ThreadingHTTPServer):
    """Answers each path as told, and counts the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[Answer]] = {}
        self.requests: Counter[str] = Counter()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def on(self, *answers: Answer) -> None:
        """Answers to the first, second, ... request for the entry; the last one stays."""
        self.answers["/tiny+set.zip"] = list(answers)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests[self.path] += 1
        answers = self.server.answers.get(self.path, [status(404)])
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *args: object) -> None:
        pass


def body(content: bytes, length: int | None = None) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content) if length is None else length))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def status(code: int) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_error(code)

    return answer


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def zipped_of_download(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.fixture
def server(elsewhere: Callable[[str], str]) -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        elsewhere(running.base)
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user cache."""
    folder = tmp_path / "user" / "cache"
    monkeypatch.setenv("SWEEP_USER_CACHE", str(folder))
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)  # before its second try
    return folder


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Say which host has the data set; its address there."""

    def publish(base: str) -> str:
        url = f"{base}/tiny+set.zip"
        entry = replace(ENTRY, url=url)
        monkeypatch.setattr("sweeps.data.builtin.REGISTRY", {"tiny": entry})
        return url

    return publish


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


@pytest.mark.parametrize(
    "content", [RAW, zipped_of_download({"tiny.data": RAW}), zipped_of_download({"a/b/tiny.data": RAW})]
)
def test_good_download_is_kept_and_used_again(content: bytes, server: Server, cache: Path) -> None:
    server.on(body(content))
    found = find("tiny")
    assert found.table.X.tolist() == [[5.1, 3.5], [4.9, 3.0], [4.7, 3.2]]
    assert found.table.labels_true is not None
    assert found.table.labels_true.tolist() == [0, 1, 0]
    assert found.source == f"downloaded from {server.base}/tiny+set.zip"
    assert (cache / "tiny.data").read_bytes() == RAW
    assert find("tiny").source == f"user cache {cache / 'tiny.data'}"
    assert find("tiny").path == cache / "tiny.data"
    assert server.requests.total() == 1
    assert left(cache) == ["tiny.data"]


def test_damaged_cache_is_replaced(server: Server, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.data").write_bytes(RAW[:10])
    server.on(body(RAW))
    assert find("tiny").path.read_bytes() == RAW


@pytest.mark.parametrize(
    ("answer", "cause", "requests"),
    [
        (
            body(b"<html>log in first</html>"),
            f"25 bytes with sha256 {sha256(b'<html>log in first</html>').hexdigest()}",
            2,
        ),
        (body(zipped_of_download({"tiny.data": b"1,2,3\n"})), "its member tiny.data has sha256", 2),
        (body(zipped_of_download({"other.data": RAW})), "a zip without a member tiny.data", 2),
        (body(zipped_of_download({"tiny.data": RAW})[:-30]), "a broken zip", 2),
        (body(RAW[:10], length=len(RAW)), "cannot be downloaded: IncompleteRead", 2),
        (body(b"", length=len(RAW)), "cannot be downloaded: IncompleteRead", 2),
        (hang_up, "cannot be downloaded: Remote end closed connection", 2),
        (status(404), "cannot be downloaded: 404", 2),
        (status(503), "cannot be downloaded: 503", 2),
    ],
)
def test_bad_download_is_said_and_leaves_nothing(
    answer: Answer, cause: str, requests: int, server: Server, cache: Path
) -> None:
    server.on(answer)
    with pytest.raises(Unavailable) as caught:
        find("tiny")
    assert caught.value.reasons[-1].startswith(f"{server.base}/tiny+set.zip: {cause}")
    assert left(cache) == []
    assert server.requests.total() == requests


def test_second_try_may_be_the_good_one(server: Server, cache: Path) -> None:
    server.on(body(RAW[:10], length=len(RAW)), body(RAW))
    assert find("tiny").path.read_bytes() == RAW


def test_no_route_is_said_with_what_to_do(cache: Path, elsewhere: Callable[[str], str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = elsewhere(f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(Unavailable) as caught:
            find("tiny")
    reason = caught.value.reasons[-1]
    assert reason.startswith(f"{url}: cannot be downloaded: Connection refused; ")
    assert reason.endswith("can be saved into a folder for --data-dir")
    assert left(cache) == []


def test_silent_host_is_given_up(
    cache: Path, elsewhere: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        elsewhere(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unavailable, match="cannot be downloaded: timed out"):
            find("tiny")


def test_cache_that_cannot_be_written_is_said(server: Server, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    server.on(body(RAW))
    with pytest.raises(Unavailable, match="cannot be kept in"):
        find("tiny")


def test_full_disk_leaves_nothing(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    server.on(body(RAW))
    with pytest.raises(Unavailable, match=r"cannot be kept in .*: No space left on device"):
        find("tiny")
    assert left(cache) == []


def test_addresses_are_the_published_ones() -> None:
    addresses = {name: REGISTRY[name].url for name in BUILTIN}
    assert addresses["wine"] == "https://archive.ics.uci.edu/static/public/109/wine.zip"
    assert addresses["diabetes"] == "https://vincentarelbundock.github.io/Rdatasets/csv/heplots/Diabetes.csv"
    assert all(url.startswith("https://") for url in addresses.values())


# The raw file of a data set: found in folders and zips, its checksum verified.


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user cache, no data directory, and a proxy where no socket leads to."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("SWEEP_USER_CACHE", str(cache))
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    return cache


@pytest.mark.parametrize("zip_name", ["iris.zip", "Iris.ZIP"])
@pytest.mark.parametrize("member", ["iris.data", "deep/er/iris.data"])
def test_zip_member_is_found_anywhere(zip_name: str, member: str, tmp_path: Path) -> None:
    content = zipped({"readme.txt": b"hello", member: iris_uci_file()})
    files = folder(tmp_path / "data", {zip_name: content})
    assert load_builtin("iris-uci", data_dir=files).checksum == REGISTRY["iris-uci"].checksum


def test_zip_in_a_zip_and_the_right_one_of_two_members(tmp_path: Path) -> None:
    inner = zipped({"iris.data": iris_uci_file()})
    content = zipped({"old/iris.data": b"an older table", "all.zip": inner})
    files = folder(tmp_path / "data", {"iris.zip": content})
    assert load_builtin("iris-uci", data_dir=files).checksum == REGISTRY["iris-uci"].checksum


@pytest.mark.parametrize(
    ("zip_name", "published"),
    [("vertebral column.zip", "vertebral"), ("vertebral_column.zip", "vertebral"), ("wine.zip", "wine")],
)
def test_zip_is_known_by_its_letters(zip_name: str, published: str, tmp_path: Path) -> None:
    files = folder(tmp_path / "data", {zip_name: zipped({REGISTRY[published].file: b"not this"})})
    with pytest.raises(Unavailable, match=r"its member .* has sha256"):
        load_builtin(published, data_dir=files)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"5.1,3.5,1.4,0.2,Iris-setosa\r\n", "29 bytes with sha256 "),
        (zipped({"other.data": b""}), "a zip without a member iris.data"),
        (zipped({"iris.data": b"1,2"}), "its member iris.data has sha256 "),
        (zipped({"iris.data": bytes(10_000)})[:60], "a broken zip"),
        (zipped({"inner.zip": b"PK"}), "a broken zip"),
    ],
    ids=["text", "other member", "changed member", "cut short", "zip in a zip"],  # a zip holds the time
)
def test_another_file_in_the_data_directory_ends_the_search(
    content: bytes, found: str, tmp_path: Path, nowhere: Path
) -> None:
    folder(nowhere, {"iris.data": iris_uci_file()})
    files = folder(tmp_path / "data", {"iris.data": content})
    with pytest.raises(Unavailable) as caught:
        load_builtin("iris-uci", data_dir=files)
    assert len(caught.value.reasons) == 1
    assert caught.value.reasons[0].startswith(f"{files / 'iris.data'}: {found}")
    assert str(files / "iris.data") in str(caught.value)


def test_unreadable_file_in_the_data_directory_ends_the_search(tmp_path: Path) -> None:
    files = folder(tmp_path / "data", {})
    (files / "bezdekIris.data").mkdir()
    with pytest.raises(Unavailable, match=r"bezdekIris\.data cannot be read: Is a directory"):
        load_builtin("iris", data_dir=files)


def test_data_directory_that_is_none_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="--data-dir"):
        load_builtin("iris", data_dir=tmp_path / "absent")
    monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path / "absent"))
    with pytest.raises(InputError, match="SWEEP_DATA_DIR"):
        check("iris")


RAW_OF_SOURCES = b"1,2\n3,4\n"
ENTRY_OF_SOURCES = replace(
    REGISTRY["iris"], file="own.data", sha256=hashlib.sha256(RAW_OF_SOURCES).hexdigest()
)


def test_the_content_decides_not_the_packing() -> None:
    again = zipped({"a/own.data": b"another", "b/own.data": RAW_OF_SOURCES})
    for content in (
        RAW_OF_SOURCES,
        zipped({"own.data": RAW_OF_SOURCES}),
        zipped({"x.zip": zipped({"own.data": RAW_OF_SOURCES})}),
        again,
    ):
        assert verified(content, ENTRY_OF_SOURCES) == RAW_OF_SOURCES
    for content in (
        b"",
        RAW_OF_SOURCES + b"\n",
        zipped({"own.csv": RAW_OF_SOURCES}),
        zipped({"own.data": RAW_OF_SOURCES})[:-30],
    ):
        with pytest.raises(Damaged):
            verified(content, ENTRY_OF_SOURCES)


def test_zips_are_opened_two_deep_and_no_deeper() -> None:
    """A zip may hold itself; a file in a zip in a zip is as deep as publishers go."""
    deep = zipped({"x.zip": zipped({"y.zip": zipped({"own.data": RAW_OF_SOURCES})})})
    with pytest.raises(Damaged, match=r"without a member own\.data"):
        verified(deep, ENTRY_OF_SOURCES)


def test_members_that_would_fill_the_memory_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "MEMBER_LIMIT", len(RAW_OF_SOURCES) - 1)
    with pytest.raises(Damaged, match=r"without a member own\.data"):
        verified(zipped({"own.data": RAW_OF_SOURCES}), ENTRY_OF_SOURCES)


def test_the_raw_file_itself_goes_before_a_zip(tmp_path: Path) -> None:
    published = Path(ENTRY_OF_SOURCES.url).name
    files = folder(
        tmp_path / "data", {published: zipped({"own.data": RAW_OF_SOURCES}), "own.data": RAW_OF_SOURCES}
    )
    assert find_in_folder(ENTRY_OF_SOURCES, files) == (RAW_OF_SOURCES, files / "own.data")
    (files / "own.data").unlink()
    assert find_in_folder(ENTRY_OF_SOURCES, files) == (RAW_OF_SOURCES, files / published)
    (files / published).unlink()
    with pytest.raises(Missing, match=r"holds no own\.data or "):
        find_in_folder(ENTRY_OF_SOURCES, files)


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
    zip_name = Path(entry.url).name
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
    code = "import sys; from sweeps.data.reading import load_builtin; load_builtin('iris'); "
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
        f"{REGISTRY['thyroid'].url}: not downloaded yet",
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
