"""The raw file of a data set: found in folders and zips, its checksum verified."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from raw_files import folder, iris_uci_file, zipped

from sweeps.data import sources
from sweeps.data.builtin import Unavailable, check
from sweeps.data.datasets import load_builtin
from sweeps.data.registry import REGISTRY
from sweeps.data.sources import Damaged, Missing, find_in_folder, verified
from sweeps.errors import InputError


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user cache, no data directory, and a mirror that no socket leads to."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("SWEEP_USER_CACHE", str(cache))
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_DATA_MIRROR", "nowhere://")
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


RAW = b"1,2\n3,4\n"
ENTRY = replace(REGISTRY["iris"], file="own.data", sha256=hashlib.sha256(RAW).hexdigest())


def test_the_content_decides_not_the_packing() -> None:
    again = zipped({"a/own.data": b"another", "b/own.data": RAW})
    for content in (RAW, zipped({"own.data": RAW}), zipped({"x.zip": zipped({"own.data": RAW})}), again):
        assert verified(content, ENTRY) == RAW
    for content in (b"", RAW + b"\n", zipped({"own.csv": RAW}), zipped({"own.data": RAW})[:-30]):
        with pytest.raises(Damaged):
            verified(content, ENTRY)


def test_zips_are_opened_two_deep_and_no_deeper() -> None:
    """A zip may hold itself; a file in a zip in a zip is as deep as publishers go."""
    deep = zipped({"x.zip": zipped({"y.zip": zipped({"own.data": RAW})})})
    with pytest.raises(Damaged, match=r"without a member own\.data"):
        verified(deep, ENTRY)


def test_members_that_would_fill_the_memory_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MEMBER_LIMIT", len(RAW) - 1)
    with pytest.raises(Damaged, match=r"without a member own\.data"):
        verified(zipped({"own.data": RAW}), ENTRY)


def test_the_raw_file_itself_goes_before_a_zip(tmp_path: Path) -> None:
    published = Path(ENTRY.published.url).name
    files = folder(tmp_path / "data", {published: zipped({"own.data": RAW}), "own.data": RAW})
    assert find_in_folder(ENTRY, files) == (RAW, files / "own.data")
    (files / "own.data").unlink()
    assert find_in_folder(ENTRY, files) == (RAW, files / published)
    (files / published).unlink()
    with pytest.raises(Missing, match=r"holds no own\.data or "):
        find_in_folder(ENTRY, files)
