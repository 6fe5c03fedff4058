"""Real compute clusters on this machine: worker processes, a running scheduler, TLS."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import dask
import psutil
import pytest
from checkout import ROOT
from distributed import Client, LocalCluster, Worker
from distributed.comm import CommClosedError
from distributed.security import Security
from distributed.system import MEMORY_LIMIT
from processes.sweeping import write_spec

from pipeline.cluster import connect as connecting
from pipeline.cluster.connect import (
    ALONE,
    LOSSES,
    OF_A_WORKER,
    LossesInOneLine,
    SamePackages,
    allow_open_files,
    connect,
    dashboard_address,
    register,
)
from pipeline.cluster.profiles import Address, Local, Profile, Tls
from pipeline.jobs.slurm import ComputeClusterError
from storage.runfolder.lease import Lease
from sweep_clustering import ShadowedPackageError
from sweeps.errors import InputError

# The limit of open files: raised where it can be, one message where it cannot.

Limits = list[tuple[int, int]]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], Limits]:
    """Stand-ins for the limits of this process; what is set is kept."""

    def given(soft: int, hard: int) -> Limits:
        kept = [(soft, hard)]
        monkeypatch.setattr(resource, "getrlimit", lambda which: kept[-1])
        monkeypatch.setattr(resource, "setrlimit", lambda which, values: kept.append(values))
        return kept

    return given


@pytest.mark.parametrize(("soft", "hard"), [(1024, 4096), (ALONE + OF_A_WORKER, 4096), (-1, -1)])
def test_a_limit_that_is_enough_stays(limits: Callable[[int, int], Limits], soft: int, hard: int) -> None:
    kept = limits(soft, hard)
    allow_open_files(1)
    assert kept == [(soft, hard)]


@pytest.mark.parametrize("hard", [ALONE + 200 * OF_A_WORKER, -1])
def test_a_limit_is_raised_to_what_is_needed(limits: Callable[[int, int], Limits], hard: int) -> None:
    kept = limits(64, hard)
    allow_open_files(200)
    assert kept[-1] == (ALONE + 200 * OF_A_WORKER, hard)


def test_what_is_missing_is_said(limits: Callable[[int, int], Limits]) -> None:
    kept = limits(64, 1024)
    with pytest.raises(ComputeClusterError) as caught:
        allow_open_files(200)
    assert str(caught.value) == (
        "found a limit of 1024 open files, expected 2448 for 200 worker processes: "
        "raise the limit (ulimit -Hn), or ask for fewer workers"
    )
    assert len(kept) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("hard", "code"), [(32, 1), (ALONE + 2 * OF_A_WORKER, 0)])
def test_a_run_with_few_open_files(tmp_path: Path, hard: int, code: int) -> None:
    """With 32 it once ended in 2,000 lines of tracebacks; with what is asked for it ends well."""
    command = [sys.executable, "-m", "pipeline", "submit", str(write_spec(tmp_path)), "--workers", "2"]
    done = subprocess.run(
        [*command, "--results", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20 + hard // 2), hard)),
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert "found a limit of 32 open files, expected 72 for 2 worker processes" in done.stderr
        assert len(done.stderr.splitlines()) <= 3  # a note on the data, "starting workers", and this


# Plugins of workers: what a worker says of a connection that broke.

WORKER = "distributed.worker"
STREAM = "Worker stream died during communication"
HEARTBEAT = "Failed to communicate with scheduler during heartbeat."
GONE = "in <TLS  tls://127.0.0.1:1>:\nStream is closed"


@pytest.fixture
def loggers() -> Iterator[Mapping[str, logging.Logger]]:
    """Those of workers in this process, with the plugin's filter set up twice, as by two workers."""
    loggers = {name: logging.getLogger(name) for name, _ in LOSSES}
    before = [(logger, list(logger.filters), logger.level) for logger in loggers.values()]
    for logger in loggers.values():
        logger.filters.clear()
        logger.setLevel(logging.INFO)
    for _ in range(2):
        LossesInOneLine().setup(None)
    assert {len(logger.filters) for logger in loggers.values()} == {1}
    yield loggers
    for logger, filters, level in before:
        logger.filters[:] = filters
        logger.setLevel(level)


def said(logger: logging.Logger, level: int, error: Exception, message: object, *args: object) -> str:
    """Text that a handler of this level shows of a failure that the logger reports."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    try:
        raise error
    except type(error):
        logger.exception(message, *args)
    finally:
        logger.removeHandler(handler)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "message", "args", "start"),
    [
        (WORKER, HEARTBEAT, (), "Failed to communicate with scheduler during heartbeat"),
        (WORKER, "failed during get data with %s -> %s", ("a", "b"), "failed during get data with a -> b"),
        (WORKER, f"{STREAM}: %s", ("b",), f"{STREAM}: b"),
        ("distributed.nanny", "Worker process died unexpectedly", (), "Worker process died unexpectedly"),
    ],
)
def test_a_connection_that_broke_is_one_warning(
    loggers: Mapping[str, logging.Logger], name: str, message: str, args: tuple[str, ...], start: str
) -> None:
    error = CommClosedError(GONE)
    expected = f"WARNING {start}: CommClosedError: in <TLS tls://127.0.0.1:1>: Stream is closed\n"
    assert said(loggers[name], logging.INFO, error, message, *args) == expected
    assert said(loggers[name], logging.ERROR, error, message, *args) == "", "as local workers show it"
    loggers[name].setLevel(logging.ERROR)
    assert said(loggers[name], logging.INFO, error, message, *args) == ""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CommClosedError(GONE), "Unexpected exception during heartbeat. Closing worker."),
        (CommClosedError(GONE), CommClosedError(GONE)),
        (ValueError("a fault"), HEARTBEAT),
    ],
)
def test_any_other_report_keeps_its_traceback(
    loggers: Mapping[str, logging.Logger], error: Exception, message: object
) -> None:
    text = said(loggers[WORKER], logging.ERROR, error, message)
    assert text.startswith(f"ERROR {message}\nTraceback")


class Leaving:
    """A scheduler that has closed its connections."""

    async def heartbeat_worker(self, **report: object) -> None:
        raise CommClosedError(GONE)


async def lose_a_heartbeat(dask_worker: Worker) -> int:
    """Make one heartbeat of a worker fail; how many filters its logger has."""
    scheduler, dask_worker.scheduler = dask_worker.scheduler, Leaving()
    try:
        await dask_worker.heartbeat()
    finally:
        dask_worker.scheduler = scheduler
    await dask_worker.heartbeat()
    return len(logging.getLogger(WORKER).filters)


def test_a_heartbeat_that_fails_shows_no_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As when the scheduler closes before its workers: a run that is stopped ends without one."""
    profile = Profile("local", Local(workers=2, dashboard_port=0), None)
    with Lease.acquire(tmp_path / "a.zarr") as lease, connect(profile, lease=lease) as client:
        assert list(client.run(lose_a_heartbeat).values()) == [1, 1]
        assert len(client.nthreads()) == 2, "a heartbeat that failed ends no worker"
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    assert "heartbeat" not in out + err


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    with Lease.acquire(tmp_path / "a.zarr") as lease:
        yield lease


KILLED = "worker-of-a-killed-run"
Cluster = tuple[Client, Lease, Path]


def interrupts_blocked() -> bool:
    """Ask the kernel for the mask of the worker's main thread; task code runs in another one."""
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    mask = next(line for line in lines if line.startswith("SigBlk:")).split()[1]
    return bool(int(mask, 16) >> (signal.SIGINT - 1) & 1)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two local workers of a lease, and a folder of scratch files that others could have made.

    A run that was killed left a folder of its workers behind.
    """
    folder = tmp_path_factory.mktemp("local")
    shared = folder / "shared"
    (shared / "dask-scratch-space").mkdir(parents=True)
    profile = Profile("local", Local(workers=3, dashboard_port=0), None)
    with Lease.acquire(folder / "a.zarr") as lease:
        (lease.generation.workers / "dask-scratch-space" / KILLED).mkdir(parents=True)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tempfile, "tempdir", str(shared))
            with connect(profile, n_workers=2, lease=lease) as client:
                yield client, lease, shared
    assert client.status == "closed"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert not lease.generation.workers.exists()


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
    if sys.platform == "linux":
        assert all(client.run(interrupts_blocked).values())


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


def test_a_local_worker_gone_with_its_nanny_is_replaced(lease: Lease, tmp_path: Path) -> None:
    """As when its new process dies while it starts, and the nanny gives up."""
    profile = Profile("local", Local(workers=1, dashboard_port=0), None)
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "100ms"}),
        connect(profile, lease=lease) as client,
    ):
        (nanny,) = client.cluster.workers.values()
        client.cluster.sync(nanny.close)
        assert client.submit(os.getpid).result(timeout=60) != os.getpid()


def test_workers_that_cannot_be_started_are_said(
    lease: Lease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: object) -> None:
        raise RuntimeError("Nanny failed to start.") from OSError("no more processes")

    monkeypatch.setattr(connecting, "LocalCluster", refuse)
    profile = Profile("local", Local(), None)
    with (
        pytest.raises(ComputeClusterError, match="no more processes"),
        connect(profile, lease=lease),
    ):
        pass


def test_a_busy_dashboard_port_is_left_alone() -> None:
    with socket.socket() as busy:
        busy.bind((connecting.LOOPBACK, 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert connecting._free_port(port) == 0
    assert connecting._free_port(port) == port


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a socket that tornado forgets
def test_a_dashboard_port_that_is_taken_meanwhile_is_not_waited_for(
    lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr("pipeline.cluster.connect._free_port", lambda wanted: port)
        with connect(Profile("local", Local(workers=1), None), lease=lease) as client:
            address = dashboard_address(client)
    gc.collect()
    assert address is not None
    assert not address.endswith(f":{port}/sweep")


@pytest.mark.slow
def test_interrupt_is_quiet_and_quick(tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(
        "import logging, sys, time\n"
        "from pathlib import Path\n"
        "from pipeline.cluster.connect import connect\n"
        "from pipeline.cluster.profiles import Local, Profile\n"
        "from storage.runfolder.lease import Lease\n"
        "if __name__ == '__main__':\n"
        "    logging.basicConfig(level=logging.WARNING)\n"
        "    try:\n"
        "        profile = Profile('local', Local(workers=2, dashboard_port=0), None)\n"
        "        with connect(profile, lease=Lease.acquire(Path(sys.argv[1]))) as client:\n"
        "            print('ready', flush=True)\n"
        "            running = client.map(time.sleep, [60, 60], pure=False)\n"
        "            time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        print('stopped')\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "a.zarr")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # a terminal's Ctrl-C reaches the workers, too
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("stopped\n", "", 0)
    assert time.monotonic() - start < 30


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Security, Tls]:
    security = Security.temporary()
    folder = tmp_path_factory.mktemp("tls")
    ca, cert, key = folder / "ca.pem", folder / "client.pem", folder / "client.key"
    ca.write_text(security.tls_ca_file)
    cert.write_text(security.tls_client_cert)
    key.write_text(security.tls_client_key)
    return security, Tls(ca=ca, cert=cert, key=key)


@pytest.fixture(scope="module")
def running(tls_files: tuple[Security, Tls]) -> Iterator[str]:
    """Address of a scheduler with one worker that speaks TLS only."""
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tls",
        host="127.0.0.1",
        security=tls_files[0],
        dashboard_address="127.0.0.1:0",
    ) as scheduler:
        yield scheduler.scheduler_address


def test_a_running_scheduler_over_tls(
    lease: Lease, running: str, tls_files: tuple[Security, Tls], tmp_path: Path
) -> None:
    profile = Profile("lab", Address(address=running, tls=tls_files[1]), tmp_path / "cluster.yaml")
    for _ in range(2):  # it goes on after the first client has left
        with connect(profile, lease=lease) as client:
            assert client.submit(pow, 2, 10).result() == 1024
            assert str(dashboard_address(client)).startswith("http")


def test_a_running_scheduler_in_plain_tcp_is_warned_of(
    lease: Lease,
    tls_files: tuple[Security, Tls],
    running: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with LocalCluster(
        n_workers=1, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as scheduler:
        options = {"plain": Address(address=scheduler.scheduler_address)}
        options["good"] = Address(address=running, tls=tls_files[1])
        for name, option in options.items():
            profile = Profile(name, option, tmp_path / "cluster.yaml")
            with connect(profile, lease=lease):
                pass
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith(f"{tmp_path}/cluster.yaml plain: address: plain tcp: every user of this machine")


def test_a_running_scheduler_has_its_own_workers(lease: Lease, tmp_path: Path) -> None:
    profile = Profile("lab", Address(address="tcp://127.0.0.1:1"), tmp_path / "cluster.yaml")
    with (
        pytest.raises(InputError, match="--workers: found 2, expected none"),
        connect(profile, n_workers=2, lease=lease),
    ):
        pass


def test_no_scheduler_and_no_worker_are_bad_input(
    lease: Lease, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connecting, "PATIENCE", 0.5)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    profile = Profile("lab", Address(address=f"tcp://127.0.0.1:{port}"), tmp_path / "cluster.yaml")
    with (
        pytest.raises(InputError, match="no scheduler at"),
        connect(profile, lease=lease),
    ):
        pass
    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as scheduler:
        profile = Profile("lab", Address(address=scheduler.scheduler_address), tmp_path / "cluster.yaml")
        with (
            pytest.raises(InputError, match="no worker at"),
            connect(profile, lease=lease),
        ):
            pass


def test_workers_are_checked_for_shadowed_packages(
    lease: Lease, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connecting, "check_shadowing", refuse)
    profile = Profile("local", Local(workers=1, dashboard_port=0), None)
    with (
        pytest.raises(ShadowedPackageError, match="kernels"),
        connect(profile, lease=lease),
    ):
        pass


def refuse() -> str:
    raise ShadowedPackageError("kernels")


def test_a_worker_that_joins_later_with_other_packages_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closed = []

    class Late:
        async def close(self, **how: object) -> None:
            closed.append(how)

    async def join() -> None:
        await SamePackages().setup(Late())
        await asyncio.sleep(0)

    asyncio.run(join())
    assert closed == []

    def shadowed() -> str:
        raise ShadowedPackageError("sweeps: found in another place")

    monkeypatch.setattr("pipeline.cluster.connect.check_shadowing", shadowed)
    asyncio.run(join())
    assert [how["nanny"] for how in closed] == [True]
    assert "found in another place" in caplog.text


def test_a_worker_that_is_lost_while_it_is_set_up_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Lossy:
        def register_plugin(self, plugin: object) -> None:
            raise CommClosedError("Stream is closed")

    register(Lossy(), SamePackages())
    assert "lost while it was set up: Stream is closed" in caplog.text
