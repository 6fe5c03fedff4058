"""Credentials of a run: for their owner alone, and nobody is let in without them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cubes.small import SPEC, draw_inputs, make_plan
from cubes.writer import next_generation
from distributed import Client, LocalCluster
from processes import stranger

from pipeline.jobs.credentials import CA, CERT, KEY, credentials, fresh_credentials, new_credentials
from storage.cube.growth import create
from storage.runfolder.journal import Journal

NOBODY = 65534


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_files_are_for_their_owner_alone_whatever_the_umask_and_gone_in_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    (folder / KEY).write_text("of a killed run")
    before = os.umask(0)
    try:
        with fresh_credentials(folder) as security:
            assert mode(folder) == 0o700
            assert {path.name: mode(path) for path in folder.iterdir()} == dict.fromkeys(
                (CA, CERT, KEY), 0o600
            )
            assert "PRIVATE KEY" in (folder / KEY).read_text()
            assert security.require_encryption
    finally:
        os.umask(before)
    assert not folder.exists()


def test_in_memory_they_are_new_each_time_and_valid_where_clocks_differ() -> None:
    one, other = new_credentials(), new_credentials()
    assert one.require_encryption
    assert "PRIVATE KEY" in one.tls_worker_key
    assert one.tls_worker_key != other.tls_worker_key
    assert one.tls_ca_file != other.tls_ca_file
    certificate = x509.load_pem_x509_certificate(one.tls_ca_file.encode())
    hour = timedelta(hours=1)
    now = datetime.now(tz=UTC)
    assert certificate.not_valid_before_utc < now - hour
    assert certificate.not_valid_after_utc > now + 24 * 300 * hour
    assert one.tls_worker_key not in repr(one)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Credentials, and the address of a scheduler with one worker that asks for them."""
    folder = tmp_path_factory.mktemp("run") / "tls"
    with (
        fresh_credentials(folder) as security,
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            protocol="tls",
            host="127.0.0.1",
            security=security,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
    ):
        yield folder, cluster.scheduler_address


def test_who_has_the_files_is_let_in(guarded: tuple[Path, str]) -> None:
    folder, address = guarded
    with Client(address, security=credentials(folder), timeout=20) as client:
        assert client.submit(pow, 2, 10).result() == 1024


@pytest.mark.parametrize("way", [*stranger.WAYS, "other credentials"])
def test_nobody_else_is_let_in(guarded: tuple[Path, str], way: str, tmp_path: Path) -> None:
    _, address = guarded
    security = None
    if way == "plain tcp":
        address = address.replace("tls://", "tcp://")
    elif way == "other credentials":
        security = new_credentials()
    else:
        security = stranger.security(way)
    with pytest.raises(OSError, match=r"TLS|reset by peer|closed|timed out"):
        asyncio.run(stranger.connect(address, security))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_reads_the_cube_but_not_the_run() -> None:
    folder = Path(tempfile.mkdtemp())  # below pytest's own directory nobody else could read anything
    try:
        folder.chmod(0o755)
        cube = folder / "tiny.zarr"
        create(cube, [make_plan()], draw_inputs, SPEC)
        generation = next_generation(cube)
        with Journal(generation.journal, generation.files), fresh_credentials(generation.tls):
            assert read_as_nobody(cube / "zarr.json")
            assert not read_as_nobody(generation.journal)
            assert not read_as_nobody(generation.tls / KEY)
            for folder_of_the_run in (generation.run.path, generation.path):
                folder_of_the_run.chmod(0o755)  # even then
            assert not read_as_nobody(generation.journal)
            assert not read_as_nobody(generation.tls / KEY)
    finally:
        shutil.rmtree(folder)


def read_as_nobody(path: Path) -> bool:
    command = ["cat", str(path)]
    return subprocess.run(command, capture_output=True, user=NOBODY, extra_groups=[]).returncode == 0
