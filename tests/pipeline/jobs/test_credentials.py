"""Credentials of a run: for their owner alone, and nobody is let in without them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cubes.small import SPEC, draw_inputs, make_plan
from distributed import Client, LocalCluster
from distributed.security import Security
from processes import stranger

from pipeline.jobs.credentials import CA, CERT, KEY, credentials, fresh_credentials
from storage.cube.cube import create
from storage.runfolder.folder import make_run_directory
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


@pytest.mark.parametrize("way", ["plain tcp", "no certificate", "other credentials"])
def test_nobody_else_is_let_in(guarded: tuple[Path, str], way: str, tmp_path: Path) -> None:
    folder, address = guarded
    security = None
    if way == "plain tcp":
        address = address.replace("tls://", "tcp://")
    elif way == "no certificate":
        security = Security(require_encryption=True, tls_ca_file=str(folder / CA))
    else:
        security = Security.temporary()
    with pytest.raises((OSError, TypeError)):
        asyncio.run(stranger.connect(address, security))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_reads_the_cube_but_not_the_run() -> None:
    folder = Path(tempfile.mkdtemp())  # below pytest's own directory nobody else could read anything
    try:
        folder.chmod(0o755)
        cube = folder / "tiny.zarr"
        create(cube, [make_plan()], draw_inputs, SPEC)
        run = make_run_directory(cube)
        with Journal(run / "journal"), fresh_credentials(run / "tls"):
            assert read_as_nobody(cube / "zarr.json")
            assert not read_as_nobody(run / "journal")
            assert not read_as_nobody(run / "tls" / KEY)
            run.chmod(0o755)  # even then
            assert not read_as_nobody(run / "journal")
            assert not read_as_nobody(run / "tls" / KEY)
    finally:
        shutil.rmtree(folder)


def read_as_nobody(path: Path) -> bool:
    command = ["cat", str(path)]
    return subprocess.run(command, capture_output=True, user=NOBODY, extra_groups=[]).returncode == 0
