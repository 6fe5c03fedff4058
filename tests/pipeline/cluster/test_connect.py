"""Real compute clusters run on this machine: worker processes, a running scheduler, and TLS."""

import asyncio
import logging
import os
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock
from urllib.parse import urlsplit

import dask
import dask.array as da
import psutil
import pytest
from dask import delayed
from distributed import LocalCluster
from distributed.comm import CommClosedError
from distributed.core import Status
from distributed.security import Security
from distributed.system import MEMORY_LIMIT
from processes.sweeping import start, write_spec

from sweep_clustering.installation import UnsupportedNumpyError
from sweep_clustering.pipeline.cluster import connect as connecting
from sweep_clustering.pipeline.cluster.connect import (
    FILES_OF_HEAD,
    FILES_OF_WORKER,
    connect,
    dashboard_address,
)
from sweep_clustering.pipeline.cluster.profiles import Address, Local, Profile, Tls
from sweep_clustering.pipeline.jobs.cluster import LOOPBACK
from sweep_clustering.pipeline.jobs.queues import ComputeClusterError
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.errors import InputError


def test_the_limit_of_open_files_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    need = FILES_OF_HEAD + 200 * FILES_OF_WORKER
    for before, after in (
        ((need, 4096), []),
        ((-1, -1), []),
        ((64, need), [(need, need)]),
        ((64, -1), [(need, -1)]),
    ):
        changed = list[tuple[int, int]]()
        monkeypatch.setattr(resource, "getrlimit", Mock(return_value=before))
        monkeypatch.setattr(resource, "setrlimit", lambda which, values, calls=changed: calls.append(values))
        connecting.allow_open_files(200)
        assert changed == after
    monkeypatch.setattr(resource, "getrlimit", Mock(return_value=(64, 1024)))
    with pytest.raises(ComputeClusterError, match="a limit of 1024 open files, expected 2448 for 200 worker"):
        connecting.allow_open_files(200)


@pytest.mark.slow
def test_a_run_with_few_open_files_ends_well(tmp_path: Path) -> None:
    enough = FILES_OF_HEAD + 2 * FILES_OF_WORKER
    process = start(write_spec(tmp_path), tmp_path, "--workers", "2")
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (20 + enough // 2, enough))
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr, stderr


# Reports of connections that broke.

WORKER = "distributed.worker"
BROKEN = CommClosedError("in <TLS  tls://127.0.0.1:1>:\nStream is closed")
SAID = "a connection broke: CommClosedError: in <TLS tls://127.0.0.1:1>: Stream is closed"


class StandIn:
    """A worker as far as its state goes."""

    status = Status.running


def test_broken_connections(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name in {name for name, _ in connecting.LOSSES}:
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    workers: list[Any] = [StandIn(), StandIn()]  # both are of one process
    for worker in workers:
        connecting.LossesInOneLine().setup(worker)
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
    workers[0].status = Status.closing  # it cannot be set up any more
    try:
        raise RuntimeError("cannot schedule new futures after shutdown")
    except RuntimeError:
        logging.getLogger(WORKER).exception("Worker plugin %s failed to setup", "ready")
    assert caplog.records[-1].levelno == logging.WARNING
    assert caplog.records[-1].exc_info is None


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    with Lease.acquire(tmp_path / "a.zarr") as lease:
        yield lease


def profile_of(options: Local | Address) -> Profile:
    return Profile("lab", options, Path("cluster.yaml"))


def interrupts_blocked() -> bool:
    """Return whether the worker's main thread masks interrupts; task code runs in another thread."""
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    mask = next(line for line in lines if line.startswith("SigBlk:")).split()[1]
    return bool(int(mask, 16) >> (signal.SIGINT - 1) & 1)


def test_a_port_that_is_taken_just_before_the_scheduler_starts_is_no_error(
    lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warnings are errors here, as dask warns of the port and Python of the socket that dask leaves open."""
    with socket.create_server((LOOPBACK, 0)) as server:
        used_port = server.getsockname()[1]
        monkeypatch.setattr(connecting.jobs, "page_address", lambda port: f"{LOOPBACK}:{used_port}")
        with connect(profile_of(Local(workers=1)), lease=lease) as client:
            assert urlsplit(dashboard_address(client)).port != used_port


def where_arrays_are_computed() -> int:
    """Return the process that computes a lazy array, such as one of a cube on the page of a run."""
    return int(da.from_delayed(delayed(os.getpid)(), (), dtype=int).compute())


def test_local_workers_are_processes_on_loopback_whose_secrets_and_folders_are_their_own(
    lease: Lease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users made the folder of scratch files, and the port of the dashboard is taken."""
    shared, folder = tmp_path / "shared", lease.generation.workers
    level = logging.getLogger("asyncio").level
    (shared / "dask-scratch-space").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    with socket.create_server((LOOPBACK, 0)) as server:
        profile = profile_of(Local(workers=3, dashboard_port=server.getsockname()[1]))
        with connect(profile, n_workers=2, lease=lease) as client:
            workers = client.scheduler_info()["workers"]
            assert [worker["nthreads"] for worker in workers.values()] == [1, 1]
            assert {worker["memory_limit"] for worker in workers.values()} == {MEMORY_LIMIT // 2}
            assert all(address.startswith("tls://127.0.0.1:") for address in workers)
            assert client.scheduler.address.startswith("inproc://"), "the run itself needs no port"
            pids = {os.getpid(), *client.run(os.getpid).values()}
            assert len(pids) == 3
            assert client.submit(pow, 2, 10).result() == 1024
            assert where_arrays_are_computed() == os.getpid()
            assert str(dashboard_address(client)).startswith("http://127.0.0.1:")
            assert urlsplit(dashboard_address(client)).port != server.getsockname()[1]
            assert all(client.run(interrupts_blocked).values())
            filters = client.run(lambda: logging.getLogger(WORKER).filters).values()
            assert [len(filters_of_worker) for filters_of_worker in filters] == [1, 1]

            secret = client.cluster.security.tls_worker_key.splitlines()[1]
            ours = map(psutil.Process, pids)
            visible = [str((*process.cmdline(), *process.environ().values())) for process in ours]
            assert not any(secret in text for text in visible)
            files = [path for path in tmp_path.rglob("*") if path.is_file()]
            assert not any(secret.encode() in path.read_bytes() for path in files)

            assert not [path for path in files if path.is_relative_to(shared)]
            places = [client.cluster.scheduler.local_directory]
            places += [nanny.local_directory for nanny in client.cluster.workers.values()]
            places += [worker["local_directory"] for worker in workers.values()]
            assert all(Path(place).is_relative_to(folder) for place in places)
            for imports in client.run(eval, "__import__('sys').path").values():
                assert not [place for place in (*imports, *sys.path) if Path(place).is_relative_to(shared)]
    assert client.status == "closed"
    assert not folder.exists()
    assert logging.getLogger("asyncio").level == level
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_what_a_local_worker_prints_is_in_the_log_of_its_run(
    lease: Lease, capfd: pytest.CaptureFixture[str]
) -> None:
    """Connections that break while a run is stopped show no traceback on the terminal."""
    log = lease.generation.run.log
    with connect(profile_of(Local(workers=1, dashboard_port=0)), lease=lease) as client:
        client.run(lambda: logging.getLogger("distributed.worker").error("a broken connection"))
        client.run(os.write, 2, b"printed by compiled code\n")
    assert "a broken connection" in log.read_text()
    assert "printed by compiled code" in log.read_text()
    assert "a broken connection" not in "".join(capfd.readouterr())


def test_a_local_worker_gone_with_its_nanny_is_replaced(lease: Lease) -> None:
    """This happens when its new process dies while it starts, and the nanny gives up."""
    profile, soon = profile_of(Local(workers=1, dashboard_port=0)), "distributed.deploy.lost-worker-timeout"
    with dask.config.set({soon: "100ms"}), connect(profile, lease=lease) as client:
        (nanny,) = client.cluster.workers.values()
        client.cluster.sync(nanny.close)
        assert client.submit(os.getpid).result(timeout=60) != os.getpid()


def test_workers_that_cannot_be_started_are_said(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "LocalCluster", Mock(side_effect=OSError("no more processes")))
    with pytest.raises(ComputeClusterError, match="no more"), connect(profile_of(Local()), lease=lease):
        pass


QUIET: dict[str, Any] = {"processes": False, "host": LOOPBACK, "dashboard_address": f"{LOOPBACK}:0"}


def test_schedulers_of_tls_and_of_tcp(lease: Lease, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    security = Security.temporary()
    texts = {"ca": security.tls_ca_file, "cert": security.tls_client_cert, "key": security.tls_client_key}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    tls = Tls(**{name: tmp_path / name for name in texts})
    with LocalCluster(n_workers=1, protocol="tls", security=security, **QUIET) as scheduler:
        profile = profile_of(Address(address=scheduler.scheduler_address, tls=tls))
        for _ in range(2):  # it goes on after the first client has left
            with connect(profile, lease=lease) as client:
                assert client.submit(pow, 2, 10).result() == 1024
                assert where_arrays_are_computed() == os.getpid()
                assert str(dashboard_address(client)).startswith("http")
                assert client.security.tls_ca_file == str(tls.ca)
        refused = pytest.raises(InputError, match="--workers: found 2, expected none")
        with refused, connect(profile, n_workers=2, lease=lease):
            pass
    assert "every user" not in caplog.text
    with LocalCluster(n_workers=1, protocol="tcp", **QUIET) as scheduler:
        profile = profile_of(Address(address=scheduler.scheduler_address))
        with connect(profile, lease=lease):
            pass
    assert "cluster.yaml lab: address: plain tcp: every user of this machine" in caplog.text


def test_no_scheduler_and_no_worker_are_bad_input(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "PATIENCE", 0.3)
    with socket.socket() as closed:
        closed.bind((LOOPBACK, 0))
        nobody = f"tcp://{LOOPBACK}:{closed.getsockname()[1]}"
    with LocalCluster(n_workers=0, host=LOOPBACK, dashboard_address=f"{LOOPBACK}:0") as scheduler:
        expectations = {nobody: "a running dask", scheduler.scheduler_address: "at least one worker"}
        for address, expected in expectations.items():
            message = f"lab: address: found {address}: .*, expected {expected}"
            profile = profile_of(Address(address=address))
            with pytest.raises(InputError, match=message), connect(profile, lease=lease):
                pass


def test_workers_whose_numpy_is_too_new(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unusable = UnsupportedNumpyError("numba 1 does not support numpy 9")
    client = Mock()
    client.run.return_value = {"w0": None, "w1": unusable, "w2": OSError("lost")}
    with pytest.raises(UnsupportedNumpyError):
        connecting.prepare_workers(client)
    client.reset_mock()
    client.run.return_value = {"w0": None}
    client.register_plugin.side_effect = BROKEN  # a worker that is lost while it is set up ends nothing
    connecting.prepare_workers(client)
    names = [call.args[0].name for call in client.register_plugin.call_args_list]
    assert names == ["losses-in-one-line", "usable-installation"]
    assert "a worker was lost while it was set up: " in caplog.text
    worker = Mock(close=AsyncMock())
    for check, closed in ((Mock(), []), (Mock(side_effect=unusable), [True])):
        monkeypatch.setattr(connecting, "check_kernels", check)
        asyncio.run(connecting.UsableInstallation().setup(worker))
        assert [call.kwargs["nanny"] for call in worker.close.call_args_list] == closed
    assert "does not support numpy 9" in caplog.text
