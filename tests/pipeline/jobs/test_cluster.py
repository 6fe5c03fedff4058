"""Worker jobs on a real SLURM: same bits, lost jobs replaced, clear ends, nobody else let in."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from checkout import ROOT
from click.testing import CliRunner
from cryptography import x509
from cubes.small import SPEC, draw_inputs, make_plan
from cubes.writer import next_generation
from distributed import Client, LocalCluster
from distributed.security import Security
from processes import slurm_site, stranger, sweeping
from processes.listening import listening

from pipeline.cluster.connect import connect, dashboard_address, load_profile
from pipeline.commands.main import main
from pipeline.jobs import slurm
from pipeline.jobs.cluster import CA, CERT, KEY, SCRATCH, credentials, fresh_credentials, new_credentials
from pipeline.jobs.slurm import live_jobs, run_id
from pipeline.jobs.slurm import run as slurm_run
from storage.cube.growth import create
from storage.runfolder.folder import GenerationFolder, RunFolder
from storage.runfolder.journal import Journal
from storage.runfolder.lease import Lease

# Credentials of a run: for their owner alone, and nobody is let in without them.

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


PROFILES = """
slurm: {kind: slurm, cores: 1, memory: 1GB, walltime: "00:10:00", interface: lo, workers: 2}
pair: {kind: slurm, cores: 2, memory: 2GB, walltime: "00:10:00", interface: lo}
dies: {kind: slurm, cores: 1, memory: 1GB, interface: lo, failed_starts: 2, start_timeout: 60s,
       job_script_prologue: ["echo this node lacks the module >&2; exit 3"]}
refused: {kind: slurm, cores: 1, memory: 1GB, queue: nowhere, interface: lo, failed_starts: 2}
waits: {kind: slurm, cores: 1, memory: 1GB, queue: closed, interface: lo, start_timeout: 4s}
short: {kind: slurm, cores: 3, memory: 900MB, queue: short, walltime: "00:07:00", job_mem: 4G, interface: lo}
wrong: {kind: slurm, cores: 1, memory: 1GB, interface: eth99}
open: {kind: slurm, cores: 1, memory: 1GB, interface: lo, insecure: true}
"""
LONG = sweeping.TINY.replace("restarts = 5", "restarts = 100").replace("generations = 1", "generations = 4")
"""Some ten seconds of work: enough to lose a job in."""


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    with slurm_site.slurm_site() as home:
        yield home


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(PROFILES)
    return path


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return sweeping.write_spec(tmp_path)


@contextmanager
def submitted(*arguments: Any) -> Iterator[subprocess.Popen[str]]:
    """`sweep submit` as a process, killed when the block ends."""
    with sweeping.start(*arguments) as process:
        try:
            yield process
        finally:
            process.kill()


def restarts_done(run: Path) -> int:
    try:
        return int(json.loads(last_run(run).state.read_text())["restarts"])
    except FileNotFoundError:
        return 0


def last_run(run: Path) -> GenerationFolder:
    return RunFolder(run.with_suffix(".zarr")).last_run


def submitted_jobs(run: Path) -> set[str]:
    return {path.name for path in (run / "jobs").glob("*.err")}


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_worker_jobs_give_the_same_bits(spec: Path, cluster_file: Path, tmp_path: Path) -> None:
    assert sweeping.run(spec, tmp_path / "serial") == 0
    assert sweeping.run(spec, tmp_path, profile="slurm", cluster_file=cluster_file, workers=None) == 0
    sweeping.assert_same_bits(tmp_path / "serial" / "tiny.zarr", tmp_path / "tiny.zarr")
    assert slurm_site.queue() == []
    run = tmp_path / "tiny.run"
    name = re.escape(run_id(RunFolder(tmp_path / "tiny.zarr")))
    named = re.compile(rf"sweep-{name}-[0-9a-f]{{4}}-[01]-\d+\.err")
    assert len(submitted_jobs(run)) == 2
    assert all(named.fullmatch(name) for name in submitted_jobs(run))
    assert not last_run(run).tls.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_a_cancelled_job_is_replaced(cluster_file: Path, tmp_path: Path) -> None:
    # The only job, of two processes: without another in its place the run would never end.
    spec = sweeping.write_spec(tmp_path, LONG)
    assert sweeping.run(spec, tmp_path / "serial") == 0
    run = tmp_path / "tiny.run"
    with submitted(spec, tmp_path, "--profile", "pair", "--cluster", str(cluster_file)) as process:
        sweeping.wait_until(lambda: restarts_done(run) > 0)
        (name,) = slurm_site.queue()
        slurm_site.cancel(name)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert re.search(r"was lost; another one in 0 s|was cancelled; another one in 2 s", log)
    assert "100.0 %" in log
    assert len(submitted_jobs(run)) == 2
    sweeping.assert_same_bits(tmp_path / "serial" / "tiny.zarr", tmp_path / "tiny.zarr")
    assert slurm_site.queue() == []


@pytest.mark.slow
@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ("dies", r"worker jobs die at once: 2 times in a row[\s\S]*\.err:\s+this node lacks the module"),
        ("refused", r"cannot be submitted: 2 times in a row[\s\S]*invalid partition specified: nowhere"),
        ("waits", r"no worker for 0:00:04 \(start_timeout\): 1 pending \(PartitionDown\)"),
    ],
)
def test_jobs_that_bring_no_worker_end_the_run(
    profile: str, says: str, spec: Path, cluster_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert sweeping.run(spec, tmp_path, profile=profile, cluster_file=cluster_file, workers=None) == 1
    assert re.search(says, caplog.text)
    assert slurm_site.queue() == []
    assert not (tmp_path / "tiny.zarr").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_jobs_that_die_later_end_the_run_too(
    spec: Path, cluster_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first job works for a while; those that take its place die at once."""
    flag = tmp_path / "broken"
    prologue = f"if test -e {flag}; then echo broken >&2; exit 3; fi"
    cluster_file.write_text(re.sub(r'(?<=job_script_prologue: \[").*(?="])', prologue, PROFILES))
    spec = sweeping.write_spec(tmp_path, LONG)
    run = tmp_path / "tiny.run"
    with submitted(spec, tmp_path, "--profile", "dies", "--cluster", str(cluster_file)) as process:
        sweeping.wait_until(lambda: restarts_done(run) > 0)
        flag.touch()
        (name,) = slurm_site.queue()
        slurm_site.cancel(name)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 1, log
    assert "die at once" in log
    assert "Traceback" not in log
    assert log.rstrip().endswith("broken")
    assert slurm_site.queue() == []


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_nobody_without_the_credentials_is_let_in(cluster_file: Path, tmp_path: Path) -> None:
    profile = load_profile("slurm", cluster_file)
    with Lease.acquire(tmp_path / "a.zarr") as lease, connect(profile, n_workers=1, lease=lease) as client:
        address = client.cluster.scheduler_address
        assert address.startswith("tls://127.0.0.1:")
        assert str(dashboard_address(client)).startswith("http://127.0.0.1:")
        strangers = {address: Security.temporary(), address.replace("tls", "tcp"): None}
        for where, security in strangers.items():
            with pytest.raises(OSError, match=r"TLS|reset by peer"):
                asyncio.run(stranger.connect(where, security))
        tls = lease.generation.tls
        assert tls.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in tls.iterdir()} == {0o600}
        secret = (tls / "key.pem").read_text().splitlines()[1]
        (worker,) = client.scheduler_info()["workers"].values()
        shown = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
        assert any(f"--name {worker['name']} " in line for line in shown)
        assert not any(secret in line for line in shown)
        (job,) = live_jobs("sweep-")
        script = slurm_run(["scontrol", "write", "batch_script", job.number, "-"])
        assert f"--tls-key {tls}/key.pem" in script
        assert secret not in script
        head, workers = listening(os.getpid()), list(map(listening, client.run(os.getpid).values()))
        nannies = list(map(listening, client.run(os.getpid, nanny=True).values()))
        # The network of this profile is loopback.
        assert {host for ports in (head, *workers, *nannies) for host, _ in ports} == {"127.0.0.1"}
        assert [len(ports) for ports in (*workers, *nannies)] == [2, 3]  # a nanny's with its worker's
        assert stranger.attack(port for ports in (head, *nannies) for _, port in ports) == []
        for _, port in nannies[0]:
            assert status_of_page(port, "status") in (404, None)
        # <private>/dask-scratch-space/worker-...: Python imports from the second and the third first.
        private = Path(worker["local_directory"]).parents[1]
        assert (private.stat().st_uid, private.stat().st_mode & 0o777) == (os.getuid(), 0o700)
        assert client.run(os.getenv, "DASK_TEMPORARY_DIRECTORY", nanny=True).popitem()[1] == str(private)
    assert not tls.exists()
    assert job.name not in slurm_site.queue()


def scratch(shell: str, place: str, temporary: Path) -> Path:
    """Folder that the lines of a job make, looked at: it is private, and its user's."""
    lines = SCRATCH.format(place=place) + "\necho $DASK_TEMPORARY_DIRECTORY"
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([shell, "-c", lines], env=environment, capture_output=True, text=True, check=True)
    found = Path(done.stdout.strip())
    assert not found.is_symlink()
    assert (found.stat().st_uid, found.stat().st_mode & 0o777) == (os.getuid(), 0o700)
    return found


@pytest.mark.parametrize("there", ["nothing", "open", "link", "of another user"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_scratch_is_private_whatever_is_there(there: str, shell: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    usual = tmp_path / f"sweep-{os.getuid()}"
    if there == "link":
        (tmp_path / "elsewhere").mkdir()
        usual.symlink_to("elsewhere")
    elif there != "nothing":
        usual.mkdir()
        usual.chmod(0o777)
    if there == "of another user":
        give_away(usual)
    found = scratch(shell, "${TMPDIR:-/tmp}", tmp_path)
    assert found.parent == tmp_path
    assert (found == usual) == (there in ("nothing", "open"))


@pytest.mark.parametrize("place", ["open to all", "open to the group", "of another user"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_scratch_is_nowhere_that_others_may_replace_it(place: str, shell: str, tmp_path: Path) -> None:
    tmp_path.chmod({"open to all": 0o777, "open to the group": 0o770}.get(place, 0o1777))
    if place == "of another user":
        give_away(tmp_path)
    found = scratch(shell, str(tmp_path), tmp_path)
    assert found.parent == Path("/tmp")
    found.rmdir()


def give_away(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, NOBODY, NOBODY)


def status_of_page(port: int, path: str) -> int | None:
    """Answer of http, None where something else listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", f"/{path}")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_plain_tcp_only_when_asked_for_and_one_command_ends_all_jobs(
    cluster_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[list[str]] = []
    really_cancel = slurm.cancel

    def cancel(numbers: Iterable[str]) -> None:
        ended.append(sorted(numbers))
        really_cancel(ended[-1])

    monkeypatch.setattr(slurm, "cancel", cancel)
    profile = load_profile("open", cluster_file)
    with Lease.acquire(tmp_path / "a.zarr") as lease, connect(profile, n_workers=2, lease=lease) as client:
        sweeping.wait_until(lambda: len(live_jobs("sweep-")) == 2)
        numbers = sorted(job.number for job in live_jobs("sweep-"))
        ended.clear()
        assert client.cluster.scheduler_address.startswith("tcp://127.0.0.1:")
        assert client.submit(pow, 2, 10).result() == 1024
    assert [jobs for jobs in ended if jobs] == [numbers]
    assert "insecure" in caplog.text
    assert not lease.generation.tls.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_dry_run_shows_the_script(spec: Path, cluster_file: Path, tmp_path: Path) -> None:
    arguments = ["submit", str(spec), "--results", str(tmp_path / "r"), "--cluster", str(cluster_file)]
    done = CliRunner().invoke(main, [*arguments, "--dry-run", "--profile", "short", "--workers", "2"])
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "r").exists()
    assert "2 worker jobs of this script" in done.stderr
    script = done.stderr[done.stderr.index("#!/usr/bin/env bash") : done.stderr.index("WARNING")]
    assert "#SBATCH -p short\n" in script
    assert "\nexport PYTHONSAFEPATH=1\n" in script
    assert " --nworkers 3 " in script
    warnings = [line.split(": ", 1)[1] for line in done.stderr.splitlines() if line.startswith("WARNING")]
    expected = [
        "memory 858.31 MiB of a job is below the 1.53 GiB that 3 worker processes need",
        "walltime 0:07:00 is above the 5:00 of partition short",
        "memory 3.73 GiB of a job is above the 2.93 GiB of a node of short",
        "cores 3 of a job are more than the 2 of a node of short",
        "2 jobs of 3 cores are more than the 4 of short: the others will wait",
    ]
    assert [warning.replace("00:05:00", "5:00") for warning in warnings] == expected
    fine = CliRunner().invoke(main, [*arguments, "--dry-run", "--profile", "slurm"])
    assert "WARNING" not in fine.output
    file = tmp_path / "job.sh"
    file.write_text(fine.stderr[fine.stderr.index("#!/usr/bin/env bash") :])
    subprocess.run(["sbatch", "--test-only", str(file)], check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.usefixtures("site")
def test_an_unknown_interface_is_bad_input(spec: Path, cluster_file: Path, tmp_path: Path) -> None:
    arguments = ["submit", str(spec), "--results", str(tmp_path), "--cluster", str(cluster_file)]
    done = CliRunner().invoke(main, [*arguments, "--profile", "wrong"])
    assert done.exit_code == 2
    assert "wrong: interface: found 'eth99', expected one of this machine's: " in done.output
    assert slurm_site.queue() == []


@pytest.mark.heavy
@pytest.mark.usefixtures("site")
def test_the_guide_followed_to_the_letter(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text(encoding="utf-8")
    fence = r"^<!-- {} -->\n```\w+\n(.*?)^```$"
    (profile,) = re.findall(fence.format("cluster.yaml"), guide, re.MULTILINE | re.DOTALL)
    (commands,) = re.findall(fence.format("on your cluster"), guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "cluster.yaml").write_text(profile)
    said = {}
    for line in commands.splitlines():
        program, *arguments = line.split()
        assert program == "sweep"
        command = [sys.executable, "-m", "pipeline", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said[arguments[0], arguments[-1]] = done.stdout + done.stderr
    assert "the head is job" in said["submit", "--detach"]
    assert "100.0 %" in said["logs", "--follow"]
    assert slurm_site.queue() == []


@pytest.mark.heavy
@pytest.mark.usefixtures("site")
def test_jobs_of_a_killed_driver_are_ended_by_the_next(cluster_file: Path, tmp_path: Path) -> None:
    spec = sweeping.write_spec(tmp_path, LONG)
    assert sweeping.run(spec, tmp_path / "serial") == 0
    run = tmp_path / "tiny.run"
    # A third job finds no core and waits in the queue: nothing but its name tells whose it is.
    arguments = ("--profile", "pair", "--cluster", str(cluster_file), "--workers", "3")
    with submitted(spec, tmp_path, *arguments):
        sweeping.wait_until(lambda: restarts_done(run) > 0)
    assert len(slurm_site.queue()) >= 1
    with submitted(spec, tmp_path, *arguments) as again:
        _, log = again.communicate(timeout=120)
    assert again.returncode == 0, log
    assert "of a run that did not end by itself" in log
    sweeping.assert_same_bits(tmp_path / "serial" / "tiny.zarr", tmp_path / "tiny.zarr")
    assert slurm_site.queue() == []
