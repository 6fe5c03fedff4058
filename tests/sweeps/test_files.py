"""Users may name regular files, and pipes where these can be read, and only so much is read."""

import os
import resource
import socket
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from sweep_clustering.sweeps import files
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.files import bounded, opened, read_file

NONE = "FILE: found {}, expected a readable file"
NOT_READ = "FILE: cannot be read ({})"


def message_of(path: Path, most: int = 100, *, pipe: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        read_file(path, most, pipe=pipe)
    (problem,) = caught.value.problems
    return str(problem).replace(str(path), "FILE")


def test_a_device_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("zero", "null", "full", "tty"):
        link = tmp_path / device
        link.symlink_to(f"/dev/{device}")
        for path in (Path(f"/dev/{device}"), link):
            for pipe in (False, True):
                assert message_of(path, pipe=pipe) == NONE.format("a device")
    (tmp_path / "own").write_bytes(b"1")
    status = (tmp_path / "own").stat()  # the file that is opened later is another one
    monkeypatch.setattr(Path, "stat", lambda path: status)
    assert message_of(Path("/dev/zero")) == NONE.format("a device")


def test_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "UNWRITTEN", 0.1)
    fifo, loop = tmp_path / "fifo", tmp_path / "loop"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert message_of(tmp_path / "socket") == NONE.format("a socket")
    assert message_of(fifo) == NONE.format("a pipe")
    assert message_of(fifo, pipe=True) == NOT_READ.format("nothing to read in 0 s")
    assert message_of(tmp_path) == NONE.format("a folder")
    assert message_of(loop) == NOT_READ.format("Too many levels of symbolic links")
    assert "NUL" in message_of(Path("a\0b"))
    assert message_of(Path("x" * 300)) == NOT_READ.format("File name too long")


def test_sizes_and_files_of_the_system_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert message_of(Path("/proc/self/maps"), 10) == "FILE: found more than 10 bytes, expected at most 10"
    assert message_of(Path("/proc/self/mem")) == NOT_READ.format("Input/output error")
    assert read_file(Path("/proc/self/stat"), 10_000)
    path = tmp_path / "own"
    path.write_bytes(bytes(100))
    assert read_file(path, 100) == bytes(100)
    assert message_of(path, 99) == "FILE: found 100 bytes, expected at most 99"
    os.truncate(path, 2**40)
    assert message_of(path, 2**30) == "FILE: found 1,099,511,627,776 bytes, expected at most 1,073,741,824"
    path.write_bytes(bytes(10))
    with opened(path, 100) as file:
        path.write_bytes(bytes(1000))  # behind the check
        monkeypatch.setattr(files, "opened", lambda *_, **__: nullcontext(file))
        assert message_of(path) == "FILE: found more than 100 bytes, expected at most 100"


def test_a_pipe_is_read_to_its_end_or_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell gives a pipe for `<(...)`, and a pipe with a name waits for its writer."""
    begin, end = os.pipe()
    path, fifo = Path(f"/dev/fd/{begin}"), tmp_path / "fifo"
    os.mkfifo(fifo)
    with monkeypatch.context() as patch:
        patch.setattr(files, "SILENCE", 0.2)
        assert message_of(path, pipe=True) == NOT_READ.format("nothing to read in 0 s")

    def write() -> None:
        for _ in range(3):
            os.write(end, b"x" * 10)
            threading.Event().wait(0.05)
        os.close(end)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_file(path, 30, pipe=True) == b"x" * 30
    writer.join()
    assert read_file(path, 30, pipe=True) == b""  # the writer has ended
    os.close(begin)
    threading.Timer(0.2, fifo.write_bytes, [b"1,2\n"]).start()
    assert read_file(fifo, 30, pipe=True) == b"1,2\n"
    threading.Timer(0.2, fifo.write_bytes, [bytes(1000)]).start()
    assert message_of(fifo, pipe=True) == "FILE: found more than 100 bytes, expected at most 100"


def test_memory_is_bounded_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_MEMORY", 2**26)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(InputError, match="own: found more than can be read in 64 MiB"), bounded(Path("own")):
        bytearray(2**28)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    with bounded(Path("own")):
        bytearray(2**24)
