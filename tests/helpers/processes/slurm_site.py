"""A SLURM of two small nodes runs on this machine, on free ports of loopback."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
NODES = ("n1", "n2")
CORES, MEGABYTES = 2, 8000
SHAPE = f"CPUs={CORES} CoresPerSocket={CORES} RealMemory={MEGABYTES} State=UNKNOWN"
COMMON = {
    "ClusterName": "test",
    "SlurmUser": "root",
    "AuthType": "auth/munge",
    "CredType": "cred/munge",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "SwitchType": "switch/none",
    "MpiDefault": "none",
    "ReturnToService": 2,
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0",
    "SelectType": "select/cons_tres",
    "SlurmdParameters": "config_overrides",
    "AccountingStorageType": "accounting_storage/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "DefMemPerCPU": 1000,
    "KillWait": 20,
}
"""Settings of any SLURM without accounting and without limits on its machine."""


@contextmanager
def slurm_site(**settings: object) -> Iterator[Path]:
    """Run the daemons, with more settings; `SLURM_CONF` points at the site meanwhile. Yields its folder.

    Skips the test where SLURM is not installed, needs another user, or does not start.
    """
    skip_without_slurm()
    home = Path(tempfile.mkdtemp(prefix="slurm-"))
    home.chmod(0o755)
    variables = {"SLURM_CONF": str(_configure(home, settings))}
    with run_daemons("SLURM", home, variables, _start, _stop):
        yield home


@contextmanager
def run_daemons(
    title: str,
    home: Path,
    variables: Mapping[str, str],
    start: Callable[[Path], None],
    stop: Callable[[Path], None],
) -> Iterator[None]:
    """Run the daemons of a queue whose files are in `home`, with its variables, and remove `home`.

    Skips the test where they do not start.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            try:
                start(home)
            except (subprocess.SubprocessError, TimeoutError) as error:
                pytest.skip(f"{title} does not start here: {error} {getattr(error, 'stderr', '')}")
            yield
        finally:
            stop(home)
            shutil.rmtree(home, ignore_errors=True)


def skip_without_slurm() -> None:
    """Skip the test where SLURM is not installed, or its daemons are not allowed."""
    missing = [name for name in (*DAEMONS, *COMMANDS) if shutil.which(name) is None]
    if missing:
        pytest.skip(f"SLURM is not installed here: no {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("SLURM's daemons for more than one user need root")


def write_settings(home: Path, local: Path, settings: Mapping[str, object], more: Iterable[str]) -> Path:
    """Write `slurm.conf`: settings beside the common ones, and lines of nodes and partitions.

    Logs go to `home`, which all hosts share, what is of one host to `local`.
    """
    places = {"SlurmctldLogFile": home / "slurmctld.log", "SlurmdLogFile": home / "slurmd.%n.log"}
    places |= {"SlurmctldPidFile": local / "slurmctld.pid", "SlurmdPidFile": local / "slurmd.%n.pid"}
    places |= {"StateSaveLocation": local / "state", "SlurmdSpoolDir": local / "spool.%n"}
    values = {"AuthInfo": f"socket={local}/munge/socket,cred_expire=6", **places, **settings}
    lines = [f"{key}={value}" for key, value in {**COMMON, **values}.items()]
    (home / "slurm.conf").write_text("\n".join([*lines, *more, ""]))
    return home / "slurm.conf"


def munged(folder: Path, key: Path) -> list[str | Path]:
    """Return the command that starts SLURM's authentication with its files and `socket` in a folder."""
    places = {"key-file": key, "socket": folder / "socket", "pid-file": folder / "pid"}
    places |= {"log-file": folder / "log", "seed-file": folder / "seed"}
    return ["munged", "--force", *(f"--{option}={place}" for option, place in places.items())]


def write_key(key: Path) -> None:
    """Write a key for SLURM's authentication that its owner alone can read."""
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))


def queue() -> list[str]:
    """Return the names of the jobs in the queue, without completing ones."""
    lines = run("squeue", "--noheader", "--format=%j %T").splitlines()
    return [line.split()[0] for line in lines if not line.endswith("COMPLETING")]


def cancel(name: str) -> None:
    """End the job of that name."""
    run("scancel", f"--name={name}")


def _configure(home: Path, more: Mapping[str, object]) -> Path:
    host = socket.gethostname().split(".")[0]
    controller, *daemons = free_ports(1 + len(NODES))
    settings = {
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": controller,
        "SelectTypeParameters": "CR_Core_Memory",
        **more,
    }
    nodes = [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {SHAPE}"
        for name, port in zip(NODES, daemons, strict=True)
    ]
    everywhere = f"Nodes={','.join(NODES)}"
    partitions = [
        f"PartitionName=main {everywhere} Default=YES MaxTime=INFINITE State=UP",
        f"PartitionName=short {everywhere} MaxTime=5 MaxMemPerNode=3000 State=UP",
        f"PartitionName=closed {everywhere} MaxTime=INFINITE State=DOWN",
    ]
    return write_settings(home, home, settings, [*nodes, *partitions])


def _start(home: Path) -> None:
    munge = home / "munge"
    for folder in (munge, home / "state", *(home / f"spool.{name}" for name in NODES)):
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
    write_key(munge / "key")
    run(*map(str, munged(munge, munge / "key")))
    run("slurmctld", "-f", str(home / "slurm.conf"))
    for name in NODES:
        run("slurmd", "-f", str(home / "slurm.conf"), "-N", name)
    deadline = time.monotonic() + 20
    while run("sinfo", "--noheader", "--partition=main", "--format=%D %T").split() != ["2", "idle"]:
        if time.monotonic() > deadline:
            raise TimeoutError("the nodes are not idle after 20 s")
        time.sleep(0.1)


def _stop(home: Path) -> None:
    subprocess.run(["scancel", "--user=root"], capture_output=True, check=False, timeout=30)
    end_daemons([*home.glob("slurmd.*.pid"), home / "slurmctld.pid", home / "munge" / "pid"])


def end_daemons(files: Iterable[Path], patience: float = 10.0) -> None:
    """End the daemons whose numbers are in these files."""
    daemons = []
    for file in files:
        with suppress(OSError, ValueError, psutil.NoSuchProcess):
            daemons.append(psutil.Process(int(file.read_text())))
    # A daemon's parent may not reap it: a zombie is as good as gone.
    lives = lambda daemon: daemon.is_running() and daemon.status() != psutil.STATUS_ZOMBIE  # noqa: E731
    for number in (signal.SIGTERM, signal.SIGKILL):
        for daemon in filter(lives, daemons):
            daemon.send_signal(number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and any(map(lives, daemons)):
            time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


def run(*command: str) -> str:
    """Return the output of a command."""
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return process.stdout
