"""Real compute clusters on this machine: worker processes, a running scheduler, TLS."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import dask
import psutil
import pytest
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError
from distributed.security import Security
from distributed.system import MEMORY_LIMIT
from processes.sweeping import write_spec

from pipeline.cluster import connect as connecting
from pipeline.cluster.connect import ALONE, LOOPBACK, OF_A_WORKER, connect, dashboard_address
from pipeline.cluster.profiles import Address, Local, Profile, Tls
from pipeline.jobs.slurm import ComputeClusterError
from storage.runfolder.lease import Lease
from sweep_clustering import ShadowedPackageError
from sweeps.errors import InputError


@pytest.mark.parametrize(
    ("before", "n_workers", "after"),
    [
        ((ALONE + OF_A_WORKER, 4096), 1, None),
        ((-1, -1), 1, None),
        ((64, ALONE + 200 * OF_A_WORKER), 200, ALONE + 200 * OF_A_WORKER),
        ((64, -1), 200, ALONE + 200 * OF_A_WORKER),
        ((64, 1024), 200, "a limit of 1024 open files, expected 2448 for 200 worker processes"),
    ],
)
def test_the_limit_of_open_files_is_raised_where_it_can_be(
    before: tuple[int, int], n_workers: int, after: int | str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: before)
    monkeypatch.setattr(resource, "setrlimit", lambda which, values: changed.append(values))
    refused = pytest.raises(ComputeClusterError, match=after) if isinstance(after, str) else nullcontext()
    with refused:
        connecting.allow_open_files(n_workers)
    assert changed == ([(after, before[1])] if isinstance(after, int) else [])


@pytest.mark.slow
def test_a_run_with_few_open_files_ends_well(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline", "submit", str(write_spec(tmp_path)), "--workers", "2"]
    enough = ALONE + 2 * OF_A_WORKER
    done = subprocess.run(
        [*command, "--results", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20 + enough // 2, enough)),
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


# Reports of connections that broke.

WORKER = "distributed.worker"
HEARTBEAT = "Failed to communicate with scheduler during heartbeat."
BROKEN = CommClosedError("in <TLS  tls://127.0.0.1:1>:\nStream is closed")
SAID = "a connection broke: CommClosedError: in <TLS tls://127.0.0.1:1>: Stream is closed"


def test_a_connection_that_broke_is_one_warning_and_any_other_fault_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in {name for name, _ in connecting.LOSSES}:
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    for _ in range(2):  # two workers of one process
        connecting.LossesInOneLine().setup(None)
    assert len(logging.getLogger(WORKER).filters) == 1
    texts = [*connecting.LOSSES, (WORKER, "Unexpected exception during heartbeat.")]
    for error, (name, text) in product((BROKEN, ValueError("a fault")), texts):
        try:
            raise error
        except type(error):
            logging.getLogger(name).exception(text, *("a", "b")[: text.count("%s")])
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warnings] == [SAID] * len(connecting.LOSSES)
    faults = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(faults) == len(connecting.LOSSES) + 2
    assert all(record.exc_info for record in faults)


KILLED = "worker-of-a-killed-run"
Cluster = tuple[Client, Lease, Path]


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    with Lease.acquire(tmp_path / "a.zarr") as lease:
        yield lease


def profile_of(options: Local | Address) -> Profile:
    return Profile("lab", options, Path("cluster.yaml"))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two local workers of a lease, and a folder of scratch files that others could have made.

    A run that was killed left a folder of its workers behind, and the port of the dashboard is taken.
    """
    folder = tmp_path_factory.mktemp("local")
    shared = folder / "shared"
    (shared / "dask-scratch-space").mkdir(parents=True)
    with Lease.acquire(folder / "a.zarr") as lease, socket.create_server((LOOPBACK, 0)) as other:
        (lease.generation.workers / "dask-scratch-space" / KILLED).mkdir(parents=True)
        port = other.getsockname()[1]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tempfile, "tempdir", str(shared))
            with connect(
                profile_of(Local(workers=3, dashboard_port=port)), n_workers=2, lease=lease
            ) as client:
                assert dashboard_address(client) not in (None, f"http://{LOOPBACK}:{port}/sweep")
                yield client, lease, shared
    assert client.status == "closed"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert not lease.generation.workers.exists()


def interrupts_blocked() -> bool:
    """Ask the kernel for the mask of the worker's main thread; task code runs in another one."""
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    mask = next(line for line in lines if line.startswith("SigBlk:")).split()[1]
    return bool(int(mask, 16) >> (signal.SIGINT - 1) & 1)


def test_local_workers_are_processes_of_one_thread_on_loopback(local: Cluster) -> None:
    client, _, _ = local
    workers = client.scheduler_info()["workers"]
    assert [worker["nthreads"] for worker in workers.values()] == [1, 1]
    assert {worker["memory_limit"] for worker in workers.values()} == {MEMORY_LIMIT // 2}
    assert all(address.startswith("tls://127.0.0.1:") for address in workers)
    assert client.scheduler.address.startswith("inproc://"), "the run itself needs no port"
    assert len({os.getpid(), *client.run(os.getpid).values()}) == 3
    assert client.submit(pow, 2, 10).result() == 1024
    assert str(dashboard_address(client)).startswith("http://127.0.0.1:")
    assert all(client.run(interrupts_blocked).values())
    filters = client.run(lambda: logging.getLogger(WORKER).filters).values()
    assert [len(found) for found in filters] == [1, 1]


def test_credentials_are_in_the_memory_of_the_run_alone(local: Cluster) -> None:
    client, lease, shared = local
    secret = client.cluster.security.tls_worker_key.splitlines()[1]
    ours = [psutil.Process(pid) for pid in (os.getpid(), *client.run(os.getpid).values())]
    shown = [str((*process.cmdline(), *process.environ().values())) for process in ours]
    assert len(shown) == 3
    assert not any(secret in each for each in shown)
    files = [path for path in lease.generation.run.path.parent.rglob("*") if path.is_file()]
    assert not any(secret.encode() in path.read_bytes() for path in files)
    assert [path for path in shared.rglob("*") if path.is_file()] == []


def test_no_folder_that_others_can_make_is_imported_from(local: Cluster) -> None:
    """dask puts its folders of scratch files before all others that Python imports from."""
    client, lease, shared = local
    workers = lease.generation.workers
    assert not (workers / "dask-scratch-space" / KILLED).exists()
    places = [client.cluster.scheduler.local_directory]
    places += [nanny.local_directory for nanny in client.cluster.workers.values()]
    places += [worker["local_directory"] for worker in client.scheduler_info()["workers"].values()]
    assert all(Path(place).is_relative_to(workers) for place in places)
    for imports in client.run(eval, "__import__('sys').path").values():
        assert not [place for place in (*imports, *sys.path) if Path(place).is_relative_to(shared)]


def test_a_local_worker_gone_with_its_nanny_is_replaced(lease: Lease) -> None:
    """As when its new process dies while it starts, and the nanny gives up."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "100ms"}),
        connect(profile_of(Local(workers=1, dashboard_port=0)), lease=lease) as client,
    ):
        (nanny,) = client.cluster.workers.values()
        client.cluster.sync(nanny.close)
        assert client.submit(os.getpid).result(timeout=60) != os.getpid()


def test_workers_that_cannot_be_started_are_said(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "LocalCluster", Mock(side_effect=OSError("no more processes")))
    with pytest.raises(ComputeClusterError, match="no more"), connect(profile_of(Local()), lease=lease):
        pass


QUIET: dict[str, Any] = {"processes": False, "host": LOOPBACK, "dashboard_address": f"{LOOPBACK}:0"}


def test_a_running_scheduler_over_tls_and_one_in_plain_tcp_that_is_warned_of(
    lease: Lease, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    security = Security.temporary()
    files = [tmp_path / name for name in ("ca.pem", "client.pem", "client.key")]
    texts = (security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
    for path, text in zip(files, texts, strict=True):
        path.write_text(text)
    tls = Tls(ca=files[0], cert=files[1], key=files[2])
    with LocalCluster(
        n_workers=1, threads_per_worker=1, protocol="tls", security=security, **QUIET
    ) as scheduler:
        profile = profile_of(Address(address=scheduler.scheduler_address, tls=tls))
        for _ in range(2):  # it goes on after the first client has left
            with connect(profile, lease=lease) as client:
                assert client.submit(pow, 2, 10).result() == 1024
                assert str(dashboard_address(client)).startswith("http")
        with (
            pytest.raises(InputError, match="--workers: found 2, expected none"),
            connect(profile, n_workers=2, lease=lease),
        ):
            pass
    assert "every user" not in caplog.text
    with (
        LocalCluster(n_workers=1, protocol="tcp", **QUIET) as scheduler,
        connect(profile_of(Address(address=scheduler.scheduler_address)), lease=lease),
    ):
        pass
    assert "cluster.yaml lab: address: plain tcp: every user of this machine" in caplog.text


def test_no_scheduler_and_no_worker_are_bad_input(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "PATIENCE", 0.3)
    with socket.socket() as closed:
        closed.bind((LOOPBACK, 0))
        nobody = f"tcp://{LOOPBACK}:{closed.getsockname()[1]}"
    with LocalCluster(n_workers=0, host=LOOPBACK, dashboard_address=f"{LOOPBACK}:0") as scheduler:
        for address, expected in (
            (nobody, "a running dask"),
            (scheduler.scheduler_address, "at least one worker"),
        ):
            with (
                pytest.raises(InputError, match=f"lab: address: found {address}: .*, expected {expected}"),
                connect(profile_of(Address(address=address)), lease=lease),
            ):
                pass


def test_workers_with_other_packages_end_the_run_and_those_that_join_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shadowed = ShadowedPackageError("sweeps: found in another place")
    client = Mock()
    client.run.return_value = {"w0": None, "w1": shadowed, "w2": OSError("lost")}
    with pytest.raises(ShadowedPackageError):
        connecting.prepare_workers(client)
    client.run.return_value = {"w0": None}
    client.register_plugin.side_effect = BROKEN  # a worker that is lost while it is set up ends nothing
    connecting.prepare_workers(client)
    names = [call.args[0].name for call in client.register_plugin.call_args_list]
    assert names == ["same-packages", "losses-in-one-line"]
    assert "a worker was lost while it was set up: " in caplog.text
    worker = Mock(close=AsyncMock())
    for check, closed in ((Mock(), []), (Mock(side_effect=shadowed), [True])):
        monkeypatch.setattr(connecting, "check_shadowing", check)
        asyncio.run(connecting.SamePackages().setup(worker))
        assert [call.kwargs["nanny"] for call in worker.close.call_args_list] == closed
    assert "found in another place" in caplog.text
