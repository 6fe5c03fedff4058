"""Records: whole or absent, and never of another format version without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import LeaseLost, StorageError
from storage.files import FencedFiles
from storage.runfolder.record import VERSION, FileRecord
from sweeps.errors import InputError


class Example(FileRecord):
    name: str
    size: int = 3


def test_a_record_says_its_version_and_who_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "example.json"
    Example(name="a").write(path)
    assert Example.read(path) == Example(name="a", size=3)
    assert json.loads(path.read_text()) == {"version": VERSION, "generation": 0, "name": "a", "size": 3}
    folder = tmp_path / "tiny.run" / "generation.4" / "writing"
    folder.mkdir(parents=True)
    files = FencedFiles(folder, 4)
    Example(name="b").write(path, files)
    assert json.loads(path.read_text())["generation"] == 4
    folder.rename(folder.with_name("closed"))
    with pytest.raises(LeaseLost):
        Example(name="c").write(path, files)
    assert Example.read(path) == Example(name="b")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"null",
        b"\xff",
        b"{",
        b"[" * 100_000,
        b'{"name": "a"}',
        b'{"version": 2, "name": "a"}',
        b'{"version": 2, "generation": 1}',
        b'{"version": 2, "generation": 1, "name": 5}',
        b'{"version": 2, "generation": 1, "name": "a", "more": 1}',
        b'{"version": 2, "generation": 1, "name": "a", "size": 1.5}',
    ],
)
def test_what_is_no_record_reads_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "example.json"
    path.write_bytes(content)
    assert Example.read(path) is None
    assert Example.read(tmp_path / "nothing.json") is None
    assert Example.read(tmp_path) is None


@pytest.mark.parametrize("version", [1, 3, "2", None, [2]])
def test_another_format_version_is_said_with_the_way_out(tmp_path: Path, version: object) -> None:
    path = tmp_path / "example.json"
    path.write_text(json.dumps({"version": version, "generation": 1, "name": "a"}))
    with pytest.raises(
        InputError, match=r"example\.json: found format version .*, expected 2.*release that wrote it"
    ):
        Example.read(path)


def test_a_file_system_that_refuses_is_said(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="vanished"):
        Example(name="a").write(tmp_path / "gone" / "example.json")


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_comes_back_as_it_was(name: str) -> None:
    """Also the path of a sweep file that is not UTF-8, which `sweep why` shows again."""
    assert Example.parse(Example(name=name).to_text(1), Path()) == Example(name=name)
