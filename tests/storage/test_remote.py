"""Cubes behind an address: the same tree as on the disk, the same checks, and nothing of this machine."""

import functools
import http.server
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import fsspec
import pytest
from click.testing import CliRunner
from cubes import toy
from cubes.reported import make
from cubes.rot import turn_bit

from pipeline.commands.main import main
from storage import remote
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.errors import DamagedChunk, StorageError
from storage.remote import place_of
from sweeps.errors import InputError


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that reads no further is no error."""


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return make(tmp_path, toy.plan("iris"), toy.plan("drawn", mixtures=2))


@pytest.fixture
def address(cube: Path) -> Iterator[str]:
    """A plain web server, which knows of no parts of files."""
    handler = functools.partial(Quiet, directory=str(cube.parent))
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{cube.name}"
        server.shutdown()
        thread.join()


@pytest.fixture
def in_memory(cube: Path) -> Iterator[str]:
    """The same in a store of fsspec, as a bucket is one."""
    files = fsspec.filesystem("memory")
    files.put(str(cube), f"/{cube.name}", recursive=True)
    yield f"memory://{cube.name}"
    files.rm(f"/{cube.name}", recursive=True)


def test_the_same_tree_as_on_the_disk(address: str, in_memory: str, cube: Path) -> None:
    expected = open_cube(cube).load()
    for there in (address, in_memory):
        assert open_cube(there).load().identical(expected)
        assert str(read_manifest(place_of(there)).path) == there


def test_what_is_made_is_written_here(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    result = CliRunner().invoke(main, ["export", address])
    assert result.exit_code == 0, result.output
    assert f"next: sweep report {address}" in result.stderr
    assert [path.name for path in Path().iterdir()] == ["toy.export"]
    refused = CliRunner().invoke(main, ["repair", address])
    assert refused.exit_code == 2
    assert f"{address}: found an address, expected a cube on this machine" in refused.stderr


def test_what_is_not_there(address: str) -> None:
    with pytest.raises(InputError, match=r"none\.zarr: found no zarr\.json \(not there\), expected a cube"):
        open_cube(address.replace("toy", "none"))
    with pytest.raises(StorageError, match="needs a network, and a server that answers"):
        open_cube("http://127.0.0.1:9/toy.zarr")


def test_what_is_damaged_or_too_large(address: str, cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = cube / "iris/X/c.0.0"
    turn_bit(chunk)
    with pytest.raises(DamagedChunk, match=f"{address}/iris/X/c.0.0: has changed since it was written"):
        open_cube(address)["iris"]["X"].load()
    chunk.unlink()
    with pytest.raises(DamagedChunk, match="is missing"):
        open_cube(address)["iris"]["X"].load()
    monkeypatch.setattr(remote, "PART", 1024)
    with chunk.open("ab") as file:
        file.truncate(2**28)
    with pytest.raises(InputError, match=r"found more than [\d,]+ bytes"):
        open_cube(address)["iris"]["X"].load()


class NoCredentialsError(Exception):
    """As of botocore, which need not be there."""


def test_why_a_bucket_refuses(in_memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, told in (
        (PermissionError("Access Denied"), r"needs credentials that may read it.*\(Access Denied\)"),
        (NoCredentialsError("Unable to locate\n credentials"), r"needs cred.*\(Unable to locate cred"),
        (OSError(5, "Slow down."), r"needs a network, and a server that answers \(\[Errno 5\] Slow down\)"),
        (TimeoutError(), r"needs a network, and a server that answers \(TimeoutError\)"),
    ):
        monkeypatch.setattr(type(fsspec.filesystem("memory")), "cat_file", Mock(side_effect=error))
        with pytest.raises(StorageError, match=f"^{in_memory}/zarr.json: {told}"):
            open_cube(in_memory)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(InputError, match=r"s3fs.*sweep-clustering\[remote\]"):
        open_cube("s3://bucket/toy.zarr")


@pytest.mark.filterwarnings("default")  # of packages that are not this project's
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
    with pytest.raises(DamagedChunk, match="is missing"):
        open_cube(f"s3://results/{cube.name}")["iris"]["X"].values  # noqa: B018
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_what_is_an_address_and_what_a_path() -> None:
    for text in ("file:///etc/passwd", "simplecache::http://x/y", "ftp://x/y", "a/b", "/a"):
        assert place_of(text) == Path(text)
    for written in ("https://host/a/b.zarr/", Path("https://host/a/b.zarr")):
        assert place_of(written) == "https://host/a/b.zarr"
