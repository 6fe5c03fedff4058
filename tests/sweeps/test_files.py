"""Files that a user names: regular ones, and pipes where these can be read, and no more than is told."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from sweeps import files
from sweeps.errors import InputError
from sweeps.files import bounded, opened, read_file

DEVICES = ("/dev/zero", "/dev/null", "/dev/full", "/dev/tty")


def said(path: Path, most: int = 100, *, pipe: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        read_file(path, most, pipe=pipe)
    (problem,) = caught.value.problems
    return str(problem).replace(str(path), "FILE")


def test_a_device_is_not_opened(tmp_path: Path) -> None:
    for device in DEVICES:
        link = tmp_path / device[5:]
        link.symlink_to(device)
        for path in (Path(device), link):
            for pipe in (False, True):
                assert said(path, pipe=pipe) == "FILE: found a device, expected a readable file"


def test_a_file_that_is_another_once_it_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = tmp_path / "own"
    good.write_bytes(b"1")
    found = good.stat()
    monkeypatch.setattr(Path, "stat", lambda path: found)
    assert said(Path("/dev/zero")) == "FILE: found a device, expected a readable file"


def test_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "UNWRITTEN", 0.1)
    fifo, loop = tmp_path / "fifo", tmp_path / "loop"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert said(tmp_path / "socket") == "FILE: found a socket, expected a readable file"
    assert said(fifo) == "FILE: found a pipe, expected a readable file"
    assert said(fifo, pipe=True) == "FILE: found nothing to read in 0 s, expected a readable file"
    assert said(tmp_path) == "FILE: found Is a directory, expected a readable file"
    assert said(loop) == "FILE: found Too many levels of symbolic links, expected a readable file"
    assert "NUL" in said(Path("a\0b"))
    assert said(Path("x" * 300)) == "FILE: found File name too long, expected a readable file"


def test_a_file_of_the_system_ends(tmp_path: Path) -> None:
    """They have no size, and may be without an end."""
    assert said(Path("/proc/self/maps"), 10) == "FILE: found more than 10 bytes, expected at most 10"
    assert said(Path("/proc/self/mem")).endswith("expected a readable file")
    assert read_file(Path("/proc/self/stat"), 10_000)


def test_sizes(tmp_path: Path) -> None:
    path = tmp_path / "own"
    path.write_bytes(bytes(100))
    assert read_file(path, 100) == bytes(100)
    assert said(path, 99) == "FILE: found 100 bytes, expected at most 99"
    os.truncate(path, 2**40)
    assert said(path, 2**30) == "FILE: found 1,099,511,627,776 bytes, expected at most 1,073,741,824"


def test_a_file_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own"
    path.write_bytes(bytes(10))
    with opened(path, 100) as file:
        path.write_bytes(bytes(1000))  # behind the check
        monkeypatch.setattr(files, "opened", lambda *_, **__: nullcontext(file))
        assert said(path) == "FILE: found more than 100 bytes, expected at most 100"


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A pipe of a shell, as `<(...)` gives it: where it is read, and where it is written."""
    begin, end = os.pipe()
    yield Path(f"/dev/fd/{begin}"), end
    os.close(begin)


def test_a_pipe_is_read_to_its_end(pipe: tuple[Path, int]) -> None:
    path, end = pipe

    def write() -> None:
        for _ in range(3):
            os.write(end, b"x" * 10)
            threading.Event().wait(0.05)
        os.close(end)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_file(path, 30, pipe=True) == b"x" * 30
    writer.join()
    assert read_file(path, 30, pipe=True) == b""  # whoever wrote has ended


def test_a_pipe_that_is_silent_or_without_end_is_given_up(
    pipe: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, end = pipe
    monkeypatch.setattr(files, "SILENCE", 0.2)
    assert said(path, pipe=True) == "FILE: found nothing to read in 0 s, expected a readable file"
    os.write(end, bytes(1000))
    os.close(end)
    assert said(path, pipe=True) == "FILE: found more than 100 bytes, expected at most 100"


def test_a_pipe_with_a_name_waits_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    timer = threading.Timer(0.2, path.write_bytes, [b"1,2\n"])
    timer.start()
    assert read_file(path, 30, pipe=True) == b"1,2\n"
    timer.join()


def test_memory_is_bounded_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_MEMORY", 2**26)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(InputError, match="own: found more than can be read in 64 MiB"), bounded(Path("own")):
        bytearray(2**28)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    with bounded(Path("own")):
        bytearray(2**24)
