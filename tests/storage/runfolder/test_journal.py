"""The journal is right after every kind of end."""

import errno
import hashlib
import io
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubes.writer import next_generation
from processes.crash import crash_everywhere

from sweep_clustering.storage.files import LeaseLost, StorageError
from sweep_clustering.storage.runfolder import journal as module

ARRAYS = {
    "objectives": np.array([1.5, np.nan, -0.0]),
    "labels": np.array([[0, 1], [-1, 2]], dtype=np.int16),
    "single": np.array(3, dtype=np.int8),
    "nothing": np.empty((0, 4)),
    "words": np.array(["a", "bcd"]),
    "flags": np.array([True, False]),
}


def numbers(path: Path) -> list[int]:
    return [header["number"] for header, _ in module.replay(path)]


def make(path: Path, *numbers: int) -> list[int]:
    """Write a journal of some records and return where each ends."""
    ends = []
    with module.Journal(path) as journal:
        for number in numbers:
            journal.append({"number": number}, {"x": np.arange(number + 1)})
            ends.append(journal.size)
    return ends


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_records_come_back_as_they_went_in_while_it_is_written(path: Path) -> None:
    assert list(module.replay(path)) == []
    assert make(path) == list(module.replay(path)) == []
    header = {"cells": [["iris", None, 0.8]], "text": "ü"}
    with module.Journal(path) as journal:
        journal.append(header, ARRAYS)
        with pytest.raises(ValueError, match="Object arrays"):
            journal.append({}, {"x": np.array([{}], dtype=object)})
        journal.append({}, {})
        first, second = module.replay(path)
    assert first[0] == header
    assert list(first[1]) == list(ARRAYS)
    for name, values in ARRAYS.items():
        array = first[1][name]
        assert array.dtype == values.dtype
        assert array.shape == values.shape
        assert array.tobytes() == values.tobytes()
    assert second == ({}, {})
    assert path.stat().st_mode & 0o777 == 0o600


def record_of(body: bytes, version: int = module.VERSION) -> bytes:
    """Return the record of a body in a journal of a version."""
    mark = module.MARK.replace(bytes([module.VERSION]), bytes([version]))
    digest = hashlib.sha256(body).digest()
    checksum = zlib.crc32(module.HEAD.pack(mark, len(body), digest, 0))
    return module.HEAD.pack(mark, len(body), digest, checksum) + body


@pytest.mark.parametrize(("low", "high"), [(-1, 99), (0, 255), (-1, 128), (0, 2**16 - 1), (-(2**40), 2**62)])
@pytest.mark.parametrize("dtype", ["<i2", "<i4", ">i8", "<u8"])
def test_long_arrays_of_whole_numbers_are_packed_and_come_back(
    path: Path, low: int, high: int, dtype: str
) -> None:
    bounds = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    low, high = max(low, bounds.min), min(high, bounds.max)
    values = rng.integers(low, high, (3, module.PACKED_FROM), endpoint=True).astype(dtype)
    values[0, :2] = low, high
    arrays = {
        "labels": values,
        "columns first": np.asfortranarray(values),
        "one": np.full(module.PACKED_FROM, low, dtype),
        "floats": np.arange(module.PACKED_FROM) / 3,
        "short": np.arange(4),
    }
    with module.Journal(path) as journal:
        journal.append({"number": 0}, arrays)
    ((_, arrays_read),) = module.replay(path)
    for name, expected in arrays.items():
        assert arrays_read[name].dtype == expected.dtype, name
        np.testing.assert_array_equal(arrays_read[name], expected, err_msg=name)
        assert arrays_read[name].flags.writeable


def test_labels_of_many_rows_take_less_than_a_byte_each(path: Path) -> None:
    labels = np.random.default_rng(0).integers(100, size=(1, 60_000)).astype(np.int16)
    with module.Journal(path) as journal:
        journal.append({}, {"labels": labels})
        assert journal.size < 0.9 * labels.size < labels.nbytes
        before = journal.size
        journal.append({}, {"labels": labels[:, : module.PACKED_FROM // 2 - 1]})
        assert journal.size - before > module.PACKED_FROM - 2  # short: as it is


def test_a_journal_of_the_version_before_is_read_and_gone_on_with(path: Path) -> None:
    text = b'{"generation": 0, "header": {"number": 0}, "arrays": ["labels"]}'
    values = io.BytesIO()
    labels = np.arange(2 * module.PACKED_FROM, dtype=np.int16)
    np.save(values, labels)
    path.write_bytes(record_of(module.TEXT_LENGTH.pack(len(text)) + text + values.getvalue(), version=2))
    with module.Journal(path) as journal:
        journal.append({"number": 1}, {"labels": labels})
        journal.compact(lambda header: True)
    records = list(module.replay(path))
    assert [header["number"] for header, _ in records] == [0, 1]
    for _, arrays in records:
        np.testing.assert_array_equal(arrays["labels"], labels)


def test_a_packed_array_that_was_cut_or_unpacks_to_more_is_damage(path: Path) -> None:
    labels = np.random.default_rng(0).integers(9, size=module.PACKED_FROM)
    with module.Journal(path) as journal:
        journal.append({}, {"labels": labels})
    whole = path.read_bytes()
    body = whole[module.HEAD.size :]
    assert record_of(body) == whole
    for cut in (1, 4, 5, 1000, len(body) // 2):  # its checksum is right, as somebody made it up
        path.write_bytes(record_of(body[:-cut]))
        with pytest.raises(module.JournalDamaged, match="cannot be read"):
            list(module.replay(path))
    path.write_bytes(record_of(body.replace(b"(65536,)", b"(65535,)")))
    with pytest.raises(module.JournalDamaged, match="a packed array of shape"):
        list(module.replay(path))
    path.write_bytes(record_of(body.replace(b"(65536,)", b"(65537,)")))
    with pytest.raises(module.JournalDamaged, match="a packed array of shape"):
        list(module.replay(path))
    path.write_bytes(whole[:-9])  # a kill: the record is torn
    assert list(module.replay(path)) == []
    path.write_bytes(whole[:-9] + whole)
    with pytest.raises(module.JournalDamaged, match="good ones after it"):
        list(module.replay(path))


@pytest.mark.parametrize("count", [1, 3])
def test_a_torn_last_record_alone_is_lost(path: Path, count: int, caplog: pytest.LogCaptureFixture) -> None:
    begin, end = [0, *make(path, *range(count))][-2:]
    whole = path.read_bytes()
    for length in range(begin, end):
        path.write_bytes(whole[:length])
        assert numbers(path) == list(range(count - 1))
        with module.Journal(path) as journal:
            assert path.stat().st_size == journal.size == begin
            journal.append({"number": 9}, {})
        assert numbers(path) == [*range(count - 1), 9]
    for tail in (b"\0" * 500, module.MARK, module.MARK + b"\xff" * 300, b"junk"):
        path.write_bytes(whole + tail)
        assert numbers(path) == list(range(count))
        with module.Journal(path) as journal:
            assert path.stat().st_size == journal.size == end
        assert f"{len(tail)} bytes cut" in caplog.text


def test_a_bit_turned_in_any_byte_is_found_and_nothing_damaged_or_of_others_is_emptied(path: Path) -> None:
    ends = make(path, 0, 1, 2)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        if position >= ends[1]:
            assert numbers(path) == [0, 1]
            continue
        with pytest.raises(module.JournalDamaged, match="good ones after it") as caught:
            numbers(path)
        assert caught.value.offset == (0 if position < ends[0] else ends[0])
        before = path.read_bytes()
        with pytest.raises(module.JournalDamaged):
            module.Journal(path)
        assert path.read_bytes() == before
    older = module.MARK.replace(bytes([module.VERSION]), b"\x01") + b"of another"
    cases = {older: "format version 1, expected version 2 or 3", b"something else": "no journal"}
    for content, message in cases.items():
        path.write_bytes(content)
        with pytest.raises(module.JournalDamaged, match=message):
            module.Journal(path)
        assert path.read_bytes() == content


def test_records_of_former_holders_are_copied_once(path: Path) -> None:
    sources = [path.with_name(name) for name in ("missing", "one", "two")]
    make(sources[1], 0, 1, 2)
    make(sources[2], 3, 4, 5)
    with open(sources[1], "ab") as file:
        file.write(module.MARK + b"torn")
    with module.Journal(path) as journal:
        for _ in range(2):
            journal.copy(sources)
            assert numbers(path) == list(range(6))
        journal.append({"number": 6}, {})
    assert numbers(path) == list(range(7))


def test_a_record_that_came_too_late_does_not_count(tmp_path: Path) -> None:
    generation = next_generation(tmp_path / "tiny.zarr")
    with module.Journal(generation.journal, generation.files) as journal:
        journal.append({"number": 0}, {})
        journal.compact(lambda header: True)
        generation.writing.rename(generation.closed_writing)
        with pytest.raises(LeaseLost):
            journal.append({"number": 1}, {})
        with pytest.raises(LeaseLost):
            journal.compact(lambda header: False)
    assert generation.journal.read_bytes().count(b'"generation": 1') == 2


def test_open_and_compact_crashed_anywhere(tmp_path: Path) -> None:
    def fresh_path(number: int) -> Path:
        path = tmp_path / str(number)
        make(path, 0, 1, 2, 3)
        path.write_bytes(path.read_bytes() + module.MARK)
        return path

    def action(path: Path) -> None:
        with module.Journal(path) as journal:
            journal.compact(lambda header: header["number"] > 1)
            journal.append({"number": 4}, {})

    def check(path: Path) -> None:
        assert numbers(path) in ([0, 1, 2, 3], [2, 3], [2, 3, 4])
        with module.Journal(path) as journal:
            journal.compact(lambda header: header["number"] in (2, 3))
        assert numbers(path) == [2, 3]

    kinds = [change.split()[0] for change in crash_everywhere(tmp_path, fresh_path, action, check)]
    assert kinds == ["open", "os.truncate", "os.remove", "open", "os.rename"]


def test_what_is_reported_is_durable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, replace, second_path = os.fsync, os.replace, path.with_name("other")

    def note_fsync(file: int) -> None:
        fsync(file)
        place = Path(os.readlink(f"/proc/self/fd/{file}"))
        events.append("directory" if place.is_dir() else f"{place.name} of {place.stat().st_size}")

    make(second_path, 0, 1)
    with module.Journal(path) as journal:
        monkeypatch.setattr(os, "fsync", note_fsync)
        monkeypatch.setattr(os, "replace", lambda *names: (replace(*names), events.append("rename")))
        journal.append({"number": 0}, {"x": np.arange(2)})
        first = journal.size
        journal.copy([second_path])
        assert events == [f"journal of {first}", f"journal of {journal.size}"]
        journal.compact(lambda header: header["number"] == 0)
        # whole, then named
        assert events[-3:] == [f"journal.partial of {journal.size}", "rename", "directory"]


@pytest.mark.parametrize("n_bytes", [0, 10, 10**6])
def test_a_full_disk_leaves_it_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    def fill_up(file: io.FileIO, data: bytes) -> None:
        file.write(data[:n_bytes])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (end,) = make(path, 0)
    with module.Journal(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_all", fill_up)
            with pytest.raises(StorageError, match=r"bytes of free space") as caught:
                journal.append({"number": 1}, ARRAYS)
            with pytest.raises(StorageError, match="free space"):
                journal.compact(lambda header: True)
        assert caught.value.path == path
        assert path.stat().st_size == end
        journal.append({"number": 2}, {})
    assert numbers(path) == [0, 2]


def test_short_writes_are_gone_on_with(path: Path) -> None:
    class Slow(io.FileIO):
        def write(self, data: Any) -> int:
            return super().write(bytes(data)[:7])

    with Slow(path, "w") as file:
        module.write_all(file, bytes(range(100)))
    assert path.read_bytes() == bytes(range(100))
