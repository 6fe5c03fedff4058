"""Files are durable, cubes have addresses, and refusals of the file system are explained."""

import errno
import functools
import http.server
import os
import pickle
import re
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import fsspec
import pytest
from cubes import toy
from cubes.reported import make
from cubes.rot import turn_bit
from processes.commandline import refuse, succeed, sweep
from processes.crash import crash_everywhere

from sweep_clustering.storage import files as module
from sweep_clustering.storage.archive import write_zip
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.sweeps.errors import InputError


def test_a_file_is_whole_or_old(tmp_path: Path) -> None:
    def fresh_path(number: int) -> Path:
        path = tmp_path / str(number)
        path.write_bytes(b"old")
        return path

    def check(path: Path) -> None:
        assert path.read_bytes() in (b"old", b"new content")
        module.PLAIN.put(path, b"new content")
        assert path.read_bytes() == b"new content"
        assert not path.with_name(path.name + ".partial").exists()

    assert (
        len(
            crash_everywhere(tmp_path, fresh_path, lambda path: module.PLAIN.put(path, b"new content"), check)
        )
        == 2
    )


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "kept").write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        module.PLAIN.put(tmp_path / "kept", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_content_is_durable_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda d: (order.append(Path(os.readlink(f"/proc/self/fd/{d}")).name), fsync(d))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(f"{Path(b).name} named"), replace(a, b)))
    module.PLAIN.put_all(tmp_path, [("one/two/file", b"content")])
    assert order[:2] == ["file.partial", "file named"]
    assert sorted(order[2:]) == sorted([tmp_path.name, "one", "two"])
    assert (tmp_path / "one/two/file").read_bytes() == b"content"
    order.clear()
    module.PLAIN.build(tmp_path / "cube", [("file", b"content")])
    assert order[0] == "file.partial"
    assert order[-3:] == ["cube.partial", "cube named", tmp_path.name]


def refuse_directories(monkeypatch: pytest.MonkeyPatch, function: str, code: int) -> None:
    """Let `os.open` or `os.fsync` answer with an error where it is called for a directory."""
    original, opened = getattr(os, function), os.fstat if function == "fsync" else os.stat

    def call(target: Any, *arguments: Any) -> Any:
        if os.path.exists(target) and stat.S_ISDIR(opened(target).st_mode):
            raise OSError(code, os.strerror(code))
        return original(target, *arguments)

    monkeypatch.setattr(os, function, call)


CANNOT = [("fsync", code) for code in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)]
CANNOT += [("open", code) for code in (errno.EACCES, errno.EISDIR, errno.EINVAL, errno.EOPNOTSUPP)]


@pytest.mark.parametrize(("function", "code"), CANNOT)
def test_a_directory_that_cannot_be_synced_is_noted_once(
    function: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refuse_directories(monkeypatch, function, code)
    module.unsynced_devices.clear()
    module.PLAIN.put_all(tmp_path, [("one/two/file", b"content")])
    module.PLAIN.build(tmp_path / "cube", [("file", b"content")])
    assert (tmp_path / "one/two/file").read_bytes() == b"content"
    assert (tmp_path / "cube/file").read_bytes() == b"content"
    (record,) = caplog.records
    assert f"cannot sync a directory ({os.strerror(code)})" in record.getMessage()


def test_a_note_before_the_log_is_left_to_a_later_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse_directories(monkeypatch, "fsync", errno.EINVAL)
    module.unsynced_devices.clear()
    module.sync_directory(tmp_path, has_note=False)
    assert not caplog.records
    module.sync_directory(tmp_path)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE, errno.EROFS])
def test_other_errors_of_a_directory_are_errors(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_directories(monkeypatch, "fsync", code)
    with pytest.raises(OSError, match=re.escape(os.strerror(code))):
        module.sync_directory(tmp_path)


def test_a_directory_that_is_gone_or_has_no_permission_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        module.sync_directory(tmp_path / "gone")
    refuse_directories(monkeypatch, "open", errno.EACCES)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError):
        module.sync_directory(tmp_path)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO])
def test_content_of_a_file_that_cannot_be_synced_is_an_error(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(code, os.strerror(code))))
    with pytest.raises(OSError, match=re.escape(os.strerror(code))):
        module.PLAIN.put(tmp_path / "file", b"content")


@pytest.fixture
def fenced_files(tmp_path: Path) -> module.Files:
    folder = tmp_path / "tiny.run" / "generation.1" / "writing"
    folder.mkdir(parents=True)
    return module.Files(folder, 1)


def close(tmp_path: Path) -> None:
    """Do what the next holder of the lease does first."""
    writing = tmp_path / "tiny.run/generation.1/writing"
    writing.rename(writing.with_name("closed"))


def test_a_holder_writes_until_the_next_one_comes(tmp_path: Path, fenced_files: module.Files) -> None:
    with pytest.raises(FileNotFoundError):  # a disk that is gone is no lost lease
        fenced_files.put(tmp_path / "gone" / "one", b"1")
    fenced_files.put(tmp_path / "one", b"1")
    fenced_files.put_all(tmp_path, [("deep/two", b"2")])
    fenced_files.build(tmp_path / "cube", [("a/three", b"3"), ("four", b"4")])
    fenced_files.remove(tmp_path / "deep")
    fenced_files.remove(tmp_path / "nothing")
    fenced_files.check()
    assert (tmp_path / "cube" / "a" / "three").read_bytes() == b"3"
    assert not (tmp_path / "deep").exists()
    close(tmp_path)
    for write in (
        lambda: fenced_files.put_all(tmp_path, [("one", b"late")]),
        lambda: fenced_files.build(tmp_path / "other", [("a", b"late")]),
        lambda: fenced_files.remove(tmp_path / "one"),
        lambda: fenced_files.remove(tmp_path / "nothing"),
        fenced_files.check,
    ):
        with pytest.raises(module.LeaseLost, match=r"tiny\.run: another process has taken the lease"):
            write()
    assert (tmp_path / "one").read_bytes() == b"1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cube", "one", "tiny.run"]
    module.remove(tmp_path / "tiny.run")
    with pytest.raises(FileNotFoundError):
        fenced_files.put(tmp_path / "one", b"1")


@pytest.mark.parametrize("late", ["os.open", "os.fsync", "os.replace"])
def test_a_holder_that_slept_in_a_write_changes_nothing(
    late: str, tmp_path: Path, fenced_files: module.Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is suspended before a call of a write, and woken when another has the lease."""
    name = late.removeprefix("os.")
    real, closed = getattr(os, name), []

    def replace_slowly(*arguments: object, **named: object) -> object:
        if not closed:
            closed.append(True)
            close(tmp_path)
            (tmp_path / "one").write_bytes(b"of the next holder")
        return real(*arguments, **named)

    (tmp_path / "one").write_bytes(b"old")
    monkeypatch.setattr(os, name, replace_slowly)
    with pytest.raises(module.LeaseLost):
        fenced_files.put(tmp_path / "one", b"late")
    assert (tmp_path / "one").read_bytes() == b"of the next holder"


def test_remove_takes_no_more_than_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    module.remove(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    module.remove(tmp_path / "folder")
    module.remove(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_two_processes_may_remove_one_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / "folder" / f"{number}").mkdir(parents=True)
    names, remove_directory = ["0", "1", "folder"], os.rmdir

    def remove_late(path: str, **options: Any) -> None:
        """Remove a directory after another process has removed it."""
        if names and Path(path).name == names[0]:
            names.pop(0)
            remove_directory(path, **options)
        remove_directory(path, **options)

    monkeypatch.setattr(os, "rmdir", remove_late)
    module.remove(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []
    assert names == []


def test_a_directory_whose_files_always_vanish_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_tree = Mock(side_effect=FileNotFoundError)
    monkeypatch.setattr(module.shutil, "rmtree", remove_tree)
    monkeypatch.setattr(module, "MOST_COLLISIONS", 3)
    with pytest.raises(FileNotFoundError):
        module.remove(tmp_path)
    assert remove_tree.call_count == 3


def error_of(code: int, *names: str) -> module.StorageError:
    with pytest.raises(module.StorageError) as caught, module.storage_errors(Path("cube"), 1000):
        raise OSError(code, os.strerror(code), *names)
    return caught.value


@pytest.mark.parametrize("code", [*module.NEED_OF_ERROR, errno.ELOOP])
def test_an_error_names_path_and_need_and_a_size_where_space_is_missing(code: int) -> None:
    error = error_of(code)
    assert error.path == Path("cube")
    assert error.need.endswith(module.NEED_OF_ERROR.get(code, "accepts the operation"))
    assert os.strerror(code) in str(error)
    assert ("1,000 bytes" in error.need) == (code in (errno.ENOSPC, errno.EDQUOT))
    assert error_of(code, "no such/file").path == Path("no such/file")  # the system knows it better
    for original in (error, module.DamagedChunk(Path("chunk"), "labels", "is missing", Path("cube"))):
        again = pickle.loads(pickle.dumps(original))
        assert type(again) is type(original)
        assert str(again) == str(original)
        assert vars(again) == vars(original)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Notes the requests that come, as method and path below the cube."""

    requests: list[str]

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def parse_request(self) -> bool:
        is_valid = super().parse_request()
        self.requests.append(f"{self.command} {self.path.partition('.zarr/')[2]}")
        return is_valid


class Forbidding(Quiet):
    def do_GET(self) -> None:
        self.send_error(403)


class CutShort(Quiet):
    """Sends half of what it says it will send."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        outputfile.write(content[: len(content) // 2])


class Ranged(Quiet):
    """Sends parts of files, as the servers of archives do."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.exists():
            return self.send_error(404)
        content = path.read_bytes()
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(len(content[first : last + 1])))
        self.end_headers()
        self.wfile.write(content[first : last + 1])


class Broken(Quiet):
    def do_GET(self) -> None:
        self.send_error(500)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that read no further."""


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return make(tmp_path, toy.plan("iris"), toy.plan("drawn", mixtures=2))


@contextmanager
def serve(cube: Path, handler: type[Quiet] = Quiet) -> Iterator[str]:
    """Yield the address of a cube on a plain web server, which does not serve parts of files."""
    handler.requests = []
    with Server(("127.0.0.1", 0), functools.partial(handler, directory=str(cube.parent))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{cube.name}"
        server.shutdown()
        thread.join()


@pytest.fixture
def address(cube: Path) -> Iterator[str]:
    with serve(cube) as address:
        yield address


@pytest.fixture
def in_memory(cube: Path) -> Iterator[str]:
    """Yield the address of a cube in a store of fsspec, like a bucket."""
    files = fsspec.filesystem("memory")
    files.put(str(cube), f"/{cube.name}", recursive=True)
    yield f"memory://{cube.name}"
    files.rm(f"/{cube.name}", recursive=True)


def test_a_bundle_at_an_address_is_read_in_parts(cube: Path, tmp_path: Path) -> None:
    inner, bundle = tmp_path / "toy.zarr.zip", tmp_path / "toy.zip"
    files = [file for file in cube.rglob("*") if file.is_file()]
    write_zip(inner, [(file.relative_to(cube).as_posix(), file) for file in files])
    write_zip(bundle, [("README.md", b"text"), (inner.name, inner)])
    expected = open_cube(cube).load()
    for path in (inner, bundle):
        with serve(path, Ranged) as address:
            assert open_cube(address).load().identical(expected)
            assert Ranged.requests.count("HEAD ") == 1
            with pytest.raises(InputError, match="nothing there"):
                open_cube(address.replace("toy.", "none."))
    with serve(bundle) as address, pytest.raises(module.StorageError, match="range requests"):
        open_cube(address)
    bundle.write_bytes(bundle.read_bytes()[:5000])
    with serve(bundle, Ranged) as address, pytest.raises(InputError, match="a whole zip"):
        open_cube(address)


def test_the_same_tree_as_on_the_disk(address: str, in_memory: str, cube: Path) -> None:
    expected = open_cube(cube).load()
    for there in (address, in_memory):
        assert open_cube(there).load().identical(expected)
        assert str(read_manifest(module.place_of(there)).path) == there


def test_one_request_for_the_root_and_one_for_each_array_that_is_used(tmp_path: Path) -> None:
    """Each array is one file here, and coordinates are in the root."""
    shape = {"p": (0.9,), "m": (12,), "mixture_chunk": 1}
    cube = make(tmp_path, *(toy.plan(f"set{number}", **shape) for number in range(20)))
    with serve(cube) as address:
        tree = open_cube(address)
        assert Quiet.requests == ["GET zarr.json"]
        assert tree["set7"]["replicate"].values.tolist() == [0, 1, 2]
        assert str(tree["set7"]["model"].values[1]) == "posterior"
        assert len(Quiet.requests) == 1
        tree["set7"]["X"].load()
        assert Quiet.requests[1:] == ["GET set7/X/c.0.0"]
        tree["set7"]["labels"].load()
        files = ["GET set7/labels/c.0.0.0.0.0", "GET set7/status/c.0.0.0.0"]
        assert sorted(Quiet.requests[2:]) == files
        tree["set7"]["seconds"].load()
        assert Quiet.requests[4:] == ["GET set7/seconds/c.0.0.0.0"]
        tree["set7"]["status"].load()
        assert len(Quiet.requests) == 5


@pytest.mark.usefixtures("undrawn")
def test_a_report_asks_for_no_file_twice(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert " cells are done, " in succeed("report", address).stdout
    files = [request.removeprefix("GET ") for request in Quiet.requests]
    assert [file for file in files if files.count(file) > 1] == []


def test_all_arrays_show_the_moment_at_which_the_status_was_read(cube: Path) -> None:
    with serve(cube) as address:
        tree = open_cube(address)
        expected = tree["iris"]["labels"].values
        (cube / "iris/status/c.0.0.0.0").unlink()
        assert (tree["iris"]["labels"].values == expected).all()
        assert (open_cube(address)["iris"]["labels"].values[-1, 0] == -1).all()


def last_line(arguments: list[str]) -> tuple[int, str]:
    """Return the exit code of a command that fails, and the last line of its output."""
    result = sweep(*arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result.exit_code, result.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("command", ["report", "export", "compare"])
@pytest.mark.parametrize(
    ("handler", "code", "words"),
    [
        (Quiet, 2, "not there"),
        (Forbidding, 1, "credentials that may read it"),
        (Broken, 1, "500"),
        (CutShort, 1, "a network, and a server that answers"),
    ],
)
def test_servers_that_fail_are_one_line(
    cube: Path, command: str, handler: type[Quiet], code: int, words: str
) -> None:
    with serve(cube, handler) as address:
        place = address.replace("toy", "none") if handler is Quiet else address
        places = [place, place] if command == "compare" else [place]
        exit_code, line = last_line([command, *places])
    assert exit_code == code
    assert place in line
    assert words in line


def test_a_server_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and says nothing
        code, line = last_line(["report", f"http://127.0.0.1:{silent.getsockname()[1]}/toy.zarr"])
    assert code == 1
    assert "needs a network, and a server that answers" in line


def test_a_chunk_that_is_cut_short_is_one_error_too(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(cube) as address:
        tree = open_cube(address)
        monkeypatch.setattr(Quiet, "copyfile", CutShort.copyfile)
        with pytest.raises(module.StorageError, match="needs a network, and a server that answers"):
            tree["iris"]["X"].load()


def test_what_is_made_is_written_here(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert f"next: sweep report {address}" in succeed("export", address).stderr
    assert [path.name for path in Path().iterdir()] == ["toy.export"]
    assert f"{address}: found an address, expected a cube on this machine" in refuse("repair", address)


def test_what_is_not_there(address: str) -> None:
    with pytest.raises(InputError, match=r"none\.zarr: found no zarr\.json \(not there\), expected a cube"):
        open_cube(address.replace("toy", "none"))
    with pytest.raises(module.StorageError, match="needs a network, and a server that answers"):
        open_cube("http://127.0.0.1:9/toy.zarr")


def test_what_is_damaged_or_too_large(address: str, cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = cube / "iris/X/c.0.0"
    turn_bit(chunk)
    with pytest.raises(
        module.DamagedChunk, match=f"{address}/iris/X/c.0.0: has changed since it was written"
    ):
        open_cube(address)["iris"]["X"].load()
    chunk.unlink()
    with pytest.raises(module.DamagedChunk, match="is missing"):
        open_cube(address)["iris"]["X"].load()
    monkeypatch.setattr(module, "PART_BYTES", 1024)
    with chunk.open("ab") as file:
        file.truncate(2**28)
    with pytest.raises(InputError, match=r"found more than [\d,]+ bytes"):
        open_cube(address)["iris"]["X"].load()


def test_a_file_of_the_largest_size_is_read_and_a_larger_one_refused(address: str, in_memory: str) -> None:
    for file in (f"{address}/zarr.json", f"{in_memory}/zarr.json"):
        content = module.read(file, 2**20)
        assert module.read(file, len(content)) == content
        with pytest.raises(InputError, match=r"found more than [\d,]+ bytes"):
            module.read(file, len(content) - 1)


class NoCredentialsError(Exception):
    """As of botocore, which need not be there."""


def test_why_a_bucket_refuses(in_memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, message in (
        (PermissionError("Access Denied"), r"needs credentials that may read it.*\(Access Denied\)"),
        (NoCredentialsError("Unable to locate\n credentials"), r"needs cred.*\(Unable to locate cred"),
        (OSError(5, "Slow down."), r"needs a network, and a server that answers \(\[Errno 5\] Slow down\)"),
        (TimeoutError(), r"needs a network, and a server that answers \(TimeoutError\)"),
    ):
        monkeypatch.setattr(type(fsspec.filesystem("memory")), "cat_file", Mock(side_effect=error))
        with pytest.raises(module.StorageError, match=f"^{in_memory}/zarr.json: {message}"):
            open_cube(in_memory)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(InputError, match=r"s3fs.*sweep-clustering\[remote\]"):
        open_cube("s3://bucket/toy.zarr")


@pytest.mark.filterwarnings("default")  # these warnings are of other packages
def test_a_cube_in_a_bucket(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "a bucket needs pip install s3fs 'moto[server]'"
    s3fs = pytest.importorskip("s3fs", reason=reason)
    server = pytest.importorskip("moto.server", reason=reason).ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"ENDPOINT_URL": f"http://{host}:{port}", "DEFAULT_REGION": "us-east-1"}
    for name, value in (keys | {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}).items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("NO_PROXY", host)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    files.mkdir("results")
    files.put(str(cube), f"results/{cube.name}", recursive=True)
    tree, expected = open_cube(f"s3://results/{cube.name}/"), open_cube(cube)
    assert tree.load().identical(expected.load())
    for address, words in (("results/none", "key does not exist"), ("nobody/toy", "bucket does not exist")):
        with pytest.raises(InputError, match=rf"no zarr\.json \(The specified {words}\)"):
            open_cube(f"s3://{address}.zarr")
    files.rm(f"results/{cube.name}/iris/X/c.0.0")
    with pytest.raises(module.DamagedChunk, match="is missing"):
        open_cube(f"s3://results/{cube.name}")["iris"]["X"].values  # noqa: B018
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_what_is_an_address_and_what_a_path() -> None:
    for text in ("file:///etc/passwd", "simplecache::http://x/y", "ftp://x/y", "a/b", "/a"):
        assert module.place_of(text) == Path(text)
    for location in ("https://host/a/b.zarr/", Path("https://host/a/b.zarr")):
        assert module.place_of(location) == "https://host/a/b.zarr"
