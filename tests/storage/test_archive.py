"""Members of zips are read where they stand, and zips that could do harm are refused."""

import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sweep_clustering.storage.archive import TIME, Archive, cube_in, read_at, write_zip
from sweep_clustering.sweeps.errors import InputError


def test_members_are_read_in_place_also_from_a_zip_within(tmp_path: Path) -> None:
    inner, outer = tmp_path / "a.zarr.zip", tmp_path / "a.zip"
    write_zip(inner, [("iris/c.0", b"chunk"), ("zarr.json", b"{}"), ("empty", b"")])
    write_zip(outer, [("README.md", b"read"), (inner.name, inner)])
    assert Archive(outer).sizes == {"README.md": 4, inner.name: inner.stat().st_size}
    for place in (inner, outer):
        assert read_at(place, "iris/c.0") == b"chunk"
        assert read_at(place, "empty") == b""
        with pytest.raises(FileNotFoundError, match=r"a\.\S*zip/iris/c\.1"):
            read_at(place, "iris/c.1")
        with pytest.raises(InputError, match=r"member iris/c.0: found 5 bytes, expected at most 4"):
            read_at(place, "iris/c.0", 4)


def test_bytes_of_a_zip_depend_on_its_members_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    file = tmp_path / "file"
    file.write_bytes(b"content")
    file.chmod(0o600)
    write_zip(first, [("a", b"content"), ("b", b"content")])
    write_zip(second, [("a", file), ("b", b"content")])
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert {info.date_time for info in archive.infolist()} == {TIME}


def test_a_zip_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    write_zip(path, [("key", b"old")])
    assert cube_in(path).read("key") == b"old"
    path.unlink()
    write_zip(path, [("key", b"newer")])
    assert cube_in(path).read("key") == b"newer"


def member(name: str, content: bytes = b"x", *, mode: int = 0, compress: bool = False) -> Callable[..., None]:
    def add(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, content, zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED)

    return add


HARM = {
    "up": ([member("../evil")], "'../evil': found a path that may lead out"),
    "absolute": ([member("/etc/passwd")], "'/etc/passwd': found a path that may lead out"),
    "drive": ([member("C:evil")], "'C:evil': found a path that may lead out"),
    "windows": ([member("a\\..\\evil")], "found a path that may lead out"),
    "folder": ([member("a/")], "'a/': found a path that may lead out"),
    "link": (
        [member("link", b"/etc", mode=0o120777)],
        "'link': found a link or a device (mode 120777)",
    ),
    "bomb": ([member("zeros", bytes(10**6), compress=True)], "'zeros': found compressed content"),
    "twice": ([member("a"), member("a", b"y")], "'a': found 2 members of this name, expected each name once"),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_zip_that_could_do_harm_is_refused(tmp_path: Path, harm: str) -> None:
    path, (members, message) = tmp_path / "harm.zip", HARM[harm]
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")  # zipfile warns of a name that comes twice
        for add in members:
            add(archive)
    with pytest.raises(InputError) as caught:
        Archive(path)
    (problem,) = map(str, caught.value.problems)
    assert message in problem


def error_of(path: Path, change: Callable[[bytes], bytes]) -> InputError:
    """Return the error of reading the only member of a zip whose bytes are changed."""
    write_zip(path, [("key", b"content")])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError) as caught:
        Archive(path).read("key")
    assert len(caught.value.problems) == 1
    return caught.value


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    # the directory of the zip declares a member that is one byte longer than the whole file
    def enlarge(content: bytes) -> bytes:
        place, size = content.index(b"PK\x01\x02") + 20, struct.pack("<I", len(content) + 1)
        return content[:place] + size + size + content[place + 8 :]

    error = str(error_of(tmp_path / "a.zip", enlarge))
    assert "found members of 112 bytes together, expected at most the 111 of the zip" in error


def test_a_zip_that_is_cut_off_or_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    assert "found a broken file (File is not a zip file)" in str(
        error_of(path, lambda content: content[:-30])
    )
    assert "found a broken file" in str(error_of(path, lambda content: b""))
    assert "(its beginning is missing), expected a whole zip" in str(
        error_of(path, lambda content: content[9:])
    )
    other = str(error_of(path, lambda content: content.replace(b"content", b"CONTENT")))
    assert "member key: found other content, expected the content of its checksum" in other
    nothing = str(error_of(path, lambda content: content.replace(b"PK\x03\x04", b"PK\x00\x00")))
    assert "member key: found no content at its place" in nothing
