"""Worker jobs on a real SLURM have private credentials, equal bits and clear ends."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography import x509
from distributed import Client, LocalCluster
from processes import slurm_site, stranger, sweeping
from processes.commandline import refuse, succeed, sweep
from processes.killing import reported_done
from processes.stranger import listening

from sweep_clustering.pipeline.cluster.connect import connect, dashboard_address
from sweep_clustering.pipeline.cluster.profiles import load_profile
from sweep_clustering.pipeline.jobs import cluster, queues
from sweep_clustering.pipeline.monitor.status import read_run_state
from sweep_clustering.pipeline.run.head import HeadJob
from sweep_clustering.storage.files import LeaseLost
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.lease import Lease

NOBODY = 65534


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_credentials_are_new_each_time_for_their_owner_alone_and_gone_in_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    (folder / cluster.KEY).write_text("of a killed run")
    before = os.umask(0)
    try:
        with cluster.fresh_credentials(folder):
            modes = {path.name: mode(path) for path in (folder, *folder.iterdir())}
            assert modes == {"tls": 0o700, cluster.CERT: 0o600, cluster.KEY: 0o600}
            assert "PRIVATE KEY" in (folder / cluster.KEY).read_text()
    finally:
        os.umask(before)
    assert not folder.exists()
    first, second = cluster.new_credentials(), cluster.new_credentials()
    assert first.require_encryption
    assert first.tls_worker_key != second.tls_worker_key
    certificate = x509.load_pem_x509_certificate(first.tls_ca_file.encode())
    now, day = datetime.now(tz=UTC), timedelta(days=1)
    assert certificate.not_valid_before_utc < now - day / 24, "clocks of nodes differ"
    assert certificate.not_valid_after_utc > now + 300 * day


def test_who_has_the_files_is_let_in_and_nobody_else(tmp_path: Path) -> None:
    quiet = {"processes": False, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "protocol": "tls"}
    credentials = cluster.fresh_credentials(tmp_path / "tls")
    with credentials as security, LocalCluster(n_workers=1, security=security, **quiet) as scheduler:
        address = scheduler.scheduler_address
        with Client(address, security=cluster.credentials(tmp_path / "tls"), timeout=20) as client:
            assert client.submit(pow, 2, 10).result() == 1024
        ways = {way: stranger.security(way) for way in stranger.WAYS}
        for way, security in {**ways, "other credentials": cluster.new_credentials()}.items():
            where = address.replace("tls://", "tcp://") if way == "plain tcp" else address
            with pytest.raises(OSError, match=r"TLS|reset by peer|closed|timed out"):
                asyncio.run(stranger.connect(where, security))


def test_a_head_that_is_to_end_leaves_no_job_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job is checked before it is handed to the queue."""
    submitted: list[str] = []
    monkeypatch.setattr(
        queues.Queue, "submit", staticmethod(lambda script, name: submitted.append(name) or "7")
    )

    def lose_lease() -> None:
        raise LeaseLost("another head runs it")

    async def start(check: Callable[[], None]) -> tuple[str, str | None]:
        keys = {"cores": 1, "processes": 1, "memory": "1GB"}
        job = cluster._job_class("slurm", check)("tcp://127.0.0.1:1", name="sweep-a-0", **keys)
        await job.start()
        return job.refusal, job.job_id

    assert asyncio.run(start(lambda: None)) == ("", "7")
    assert asyncio.run(start(lose_lease)) == ("another head runs it", None)
    assert submitted == ["sweep-a-0"]


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("place", "there", "scratch_place"),
    [
        (0o1777, "nothing", "usual"),
        (0o1777, "open", "usual"),
        (0o1777, "link", "beside"),
        (0o1777, "of another user", "beside"),
        (0o777, "nothing", "elsewhere"),  # others may replace it there
        (0o770, "nothing", "elsewhere"),
        (0o1777, "place of another user", "elsewhere"),
    ],
)
def test_scratch_is_private(place: int, there: str, scratch_place: str, shell: str, tmp_path: Path) -> None:
    tmp_path.chmod(place)
    usual = tmp_path / f"sweep-{os.getuid()}"
    if there == "link":
        usual.symlink_to(".")
    elif there in ("open", "of another user"):
        usual.mkdir()
        usual.chmod(0o777)
    if "another user" in there:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(tmp_path if "place" in there else usual, NOBODY, NOBODY)
    lines = cluster.SCRATCH.format(place="${TMPDIR:-/tmp}") + "\necho $DASK_TEMPORARY_DIRECTORY"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    scratch = Path(subprocess.check_output([shell, "-c", lines], env=environment, text=True).strip())
    assert not scratch.is_symlink()
    assert scratch.stat().st_uid == os.getuid()
    assert mode(scratch) == 0o700
    assert (scratch == usual) == (scratch_place == "usual")
    assert scratch.parent == (Path("/tmp") if scratch_place == "elsewhere" else tmp_path)
    scratch.rmdir()


# On a real SLURM.

PROFILES = """
pair: {kind: slurm, cores: 2, memory: 2GB, walltime: "00:10:00", interface: lo}
slurm: {kind: slurm, cores: 1, memory: 1GB, walltime: "00:10:00", interface: lo, workers: 2}
dies: {kind: slurm, cores: 1, memory: 1GB, interface: lo, failed_starts: 2, start_timeout: 60s,
       job_script_prologue: ["echo this node lacks the module >&2; exit 3"]}
broken: {kind: slurm, cores: 1, memory: 1GB, interface: lo, start_timeout: 120s,
         job_script_prologue: ['[ $SLURMD_NODENAME != n1 ] || exit 3']}
refused: {kind: slurm, cores: 1, memory: 1GB, interface: lo, failed_starts: 2,
          job_extra_directives: [--nodelist=nowhere]}
elsewhere: {kind: slurm, cores: 1, memory: 1GB, queue: nowhere, head: {queue: "main,gone"}}
waits: {kind: slurm, cores: 1, memory: 1GB, queue: closed, interface: lo, start_timeout: 4s}
short: {kind: slurm, cores: 3, memory: 2GB, queue: short, walltime: "00:07:00", job_mem: 4G, interface: lo}
"""
LONG = sweeping.TINY.replace("restarts = 5", "restarts = 60").replace("generations = 1", "generations = 4")
"""Some ten seconds of work: enough to lose a job in."""


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    with slurm_site.slurm_site() as home:
        yield home


@pytest.fixture
def cluster_file(site: Path, tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(PROFILES)
    return path


@pytest.mark.slow
def test_a_cancelled_job_is_replaced_and_the_bits_are_the_same(cluster_file: Path, tmp_path: Path) -> None:
    # The only job, of two processes: without another in its place the run would never end.
    spec, cube = sweeping.write_spec(tmp_path, LONG), tmp_path / "tiny.zarr"
    with sweeping.start(spec, tmp_path, "--profile", "pair", "--cluster", str(cluster_file)) as process:
        sweeping.wait_until(lambda: reported_done(cube), process)
        (name,) = slurm_site.queue()
        slurm_site.cancel(name)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert re.search(r"was (lost|cancelled)[^;]*; another one in [02] s", log)
    assert slurm_site.queue() == []
    assert sweeping.run(spec, tmp_path / "serial") == 0
    sweeping.assert_same_bits(tmp_path / "serial" / "tiny.zarr", cube)
    run = RunFolder(cube)
    logs = [path.name for path in run.job_logs.glob("*.err")]
    of_a_job = rf"{re.escape(queues.job_prefix(run))}[0-9a-f]{{4}}-[01]-\d+\.err"
    assert [bool(re.fullmatch(of_a_job, name)) for name in logs] == [True, True]
    assert not run.last_run.tls.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ("dies", r"worker jobs die at once: 2 times in a row[\s\S]*\.err:\s+this node lacks the module"),
        ("refused", r"cannot be submitted: 2 times in a row[\s\S]*[iI]nvalid node name specified"),
        ("waits", r"no worker for 0:00:04 \(start_timeout\): 1 pending \(PartitionDown\)"),
    ],
)
def test_jobs_that_bring_no_worker_end_the_run(
    profile: str, says: str, cluster_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    choices = "--results", tmp_path, "--profile", profile, "--cluster", cluster_file
    result = sweep("submit", sweeping.write_spec(tmp_path), *choices)
    assert result.exit_code == 1
    assert re.search(says, caplog.text)
    assert slurm_site.queue() == []
    assert not (tmp_path / "tiny.zarr").exists()


@pytest.mark.slow
def test_a_broken_node_is_left_out(
    cluster_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    choices = "--results", tmp_path, "--profile", "broken", "--cluster", cluster_file
    succeed("submit", sweeping.write_spec(tmp_path), *choices)
    assert caplog.text.count("died at once: exit code 3") == 3
    assert "node n1 is excluded from later jobs: 3 jobs died there in a row" in caplog.text
    lines = sweep("logs", tmp_path / "tiny.zarr", "--job").stdout.splitlines()
    assert [re.split("  +", line)[1] for line in lines] == ["n1", "n1", "n1", "n2"]
    assert "a worker job died at once: exit code 3, 3 times" in sweep("why", tmp_path / "tiny.zarr").stdout


@pytest.mark.slow
def test_a_run_goes_on_with_the_jobs_that_a_full_queue_takes(cluster_file: Path, tmp_path: Path) -> None:
    spec, cube = sweeping.write_spec(tmp_path, LONG), tmp_path / "tiny.zarr"
    where = "--profile", "slurm", "--cluster", str(cluster_file), "--workers", "4"
    with (
        slurm_site.slurm_site(MaxJobCount=3, MinJobAge=600),
        sweeping.start(spec, tmp_path, *where) as process,
    ):
        sweeping.wait_until(lambda: reported_done(cube), process)
        (remark,) = json.loads(sweep("status", cube, "--json").stdout)["jobs"]["remarks"]
        assert re.match("2 of 4 jobs: the queue is busy .*temporarily unable to accept job", remark)
        assert remark in sweep("why", cube).stdout
        _, log = process.communicate(timeout=120)
    assert process.returncode == 0, log
    assert f"{remark}; trying again in 4 s" in log


@pytest.mark.slow
def test_how_jobs_of_a_real_queue_ended(site: Path, tmp_path: Path) -> None:
    assert queues.SLURM.count_nodes(None) == queues.SLURM.count_nodes("short") == 2
    script = tmp_path / "job.sh"

    def end_of(line: str) -> queues.JobDetails:
        header = f"#SBATCH --output={tmp_path}/log"
        script.write_text(f"#!/bin/sh\n{header}\n#SBATCH {queues.SLURM.exclusion(header, ['n1'])}\n{line}\n")
        number = queues.SLURM.submit(str(script), "sweep-a-0")
        sweeping.wait_until(
            lambda: queues.SLURM.end_of(number).state not in ("", "PENDING", "RUNNING", "COMPLETING")
        )
        return queues.SLURM.end_of(number)

    failed = end_of("exit 3")
    assert failed.end == "exit code 3"
    assert failed.node == "n2"
    assert end_of("kill -9 $$").end == "signal 9"
    cancelled = end_of("scancel $SLURM_JOB_ID; sleep 60")
    assert cancelled.state == "CANCELLED"
    assert cancelled.end == ""  # this site has no accounting


@pytest.mark.slow
def test_nobody_without_the_credentials_is_let_in(cluster_file: Path, tmp_path: Path) -> None:
    profile = load_profile("slurm", cluster_file)
    with Lease.acquire(tmp_path / "a.zarr") as lease, connect(profile, n_workers=1, lease=lease) as client:
        assert client.cluster.scheduler_address.startswith("tls://127.0.0.1:")
        assert str(dashboard_address(client)).startswith("http://127.0.0.1:")
        tls = lease.generation.tls
        assert mode(tls) == 0o700
        assert {mode(path) for path in tls.iterdir()} == {0o600}
        secret = (tls / "key.pem").read_text().splitlines()[1]
        (worker,) = client.scheduler_info()["workers"].values()
        commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
        assert any(f"--name {worker['name']} " in line for line in commands)
        (job,) = queues.SLURM.live_jobs("sweep-")
        script = queues.run(["scontrol", "write", "batch_script", job.number, "-"])
        assert f"--tls-key {tls}/key.pem" in script
        assert not any(secret in text for text in (script, *commands))
        head, workers = listening(os.getpid()), list(map(listening, client.run(os.getpid).values()))
        nannies = list(map(listening, client.run(os.getpid, nanny=True).values()))
        # The network of this profile is loopback.
        assert {host for ports in (head, *workers, *nannies) for host, _ in ports} == {"127.0.0.1"}
        assert [len(ports) for ports in (*workers, *nannies)] == [2, 3]  # a nanny's with its worker's
        assert stranger.attack(port for ports in (head, *nannies) for _, port in ports) == []
        # <private>/dask-scratch-space/worker-...: Python imports from the second and the third first.
        private = Path(worker["local_directory"]).parents[1]
        assert private.stat().st_uid == os.getuid()
        assert mode(private) == 0o700
        assert client.run(os.getenv, "DASK_TEMPORARY_DIRECTORY", nanny=True).popitem()[1] == str(private)
    assert not tls.exists()
    assert job.name not in slurm_site.queue()


@pytest.mark.slow
def test_a_dry_run_compares_a_job_with_the_limits(cluster_file: Path, tmp_path: Path) -> None:
    def dry_run_warnings(*choices: str) -> list[str]:
        places = ["--results", str(tmp_path / "r"), "--cluster", str(cluster_file)]
        result = succeed("submit", sweeping.write_spec(tmp_path), "--dry-run", *places, "--profile", *choices)
        assert not (tmp_path / "r").exists()
        return re.findall("WARNING: (.*)", result.stderr.replace("00:05:00", "5:00"))

    assert dry_run_warnings("short", "--workers", "2") == [
        "walltime 0:07:00 is above the 5:00 of partition short",
        "memory 3.73 GiB of a job is above the 2.93 GiB of a node of short",
        "cores 3 of a job are more than the 2 of a node of short",
        "2 jobs of 3 cores are more than the 4 of short: the others will wait",
    ]
    assert dry_run_warnings("slurm") == []
    cluster_file.write_text(cluster_file.read_text().replace("memory: 2GB", "memory: 900MB"))
    places = "--results", tmp_path / "r", "--profile", "short", "--cluster", cluster_file
    result = succeed("submit", sweeping.write_spec(tmp_path), "--dry-run", *places)
    warning = r"memory: 264\.\d+ MiB for each of 3 workers, and data set 'iris' may need up to 5\d\d\."
    assert re.search(warning, result.stderr)


# Set in the shell of a user, each of these would change a job, or hide it from the run.
SHELL = {
    "SBATCH_JOB_NAME": "other",
    "SBATCH_PARTITION": "closed",
    "SBATCH_EXPORT": "NONE",
    "SLURM_CPU_BIND": "mask_cpu:0x1",
    "SLURM_MEM_PER_CPU": "50",
    "SQUEUE_STATES": "SUSPENDED",
    "SCANCEL_STATE": "SUSPENDED",
    "SINFO_PARTITION": "closed",
}


@pytest.mark.slow
def test_variables_of_a_shell_within_a_job_change_nothing(
    cluster_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SLURM 22.05 prefers them to the lines of a script."""
    cube, environment = tmp_path / "tiny.zarr", tmp_path / "environment"
    profiles = PROFILES.replace(", workers: 2", f", job_script_prologue: ['env > {environment}']")
    cluster_file.write_text(profiles)
    places = f"--results {tmp_path} --cluster {cluster_file} --profile slurm"
    command = f"{sys.executable} -m sweep_clustering submit {sweeping.write_spec(tmp_path)} {places}"
    script = tmp_path / "outer.sh"
    exports = [f"export {name}={value}" for name, value in SHELL.items()]
    script.write_text("\n".join(["#!/bin/sh", *exports, f"{command} --dry-run", f"{command} --detach", ""]))
    log = tmp_path / "outer.log"
    queues.run(["sbatch", "--ntasks=1", "--mem=1000", f"--output={log}", str(script)])
    sweeping.wait_until(lambda: (tmp_path / "tiny.run" / "submission.json").exists())
    sweeping.wait_until(lambda: slurm_site.queue() == [])
    log_text = log.read_text()
    names = re.findall(r"variables of this shell that no job gets: (.*)", log_text)[0].split(", ")
    assert {*SHELL, "SLURM_JOB_ID", "SLURM_MEM_PER_NODE"} <= set(names)
    assert "SLURM_CONF" not in names
    assert "WARNING" not in log_text
    assert json.loads(sweep("status", cube, "--json").stdout)["complete"]
    assert "died at once" not in RunFolder(cube).log.read_text()
    of_worker = dict(line.partition("=")[::2] for line in environment.read_text().splitlines())
    assert of_worker["SLURM_JOB_NAME"].startswith(queues.job_prefix(RunFolder(cube)))
    assert of_worker["SLURM_JOB_PARTITION"] == "main"
    assert of_worker.keys() & SHELL.keys() == set()
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    queues.run(["sbatch", "--hold", "--job-name=sweep-a-0", str(script)])
    assert queues.SLURM.cancel_all("sweep-a-") == 1
    sweeping.wait_until(lambda: queues.SLURM.live_jobs("sweep-a-") == [])


# Only there it can be run: a folder that is empty elsewhere is the Python of these tests.
CONTAINER = """#!/bin/sh
[ "$1" = "an image" ] || exit 3
shift
exec unshare --mount sh -c 'mount --bind {prefix} {image} && export INSIDE=container && exec "$@"' - "$@"
"""


@pytest.mark.slow
def test_workers_and_head_run_in_a_container(cluster_file: Path, tmp_path: Path) -> None:
    """A wrapper that mounts a folder for its command stands in for apptainer."""
    cube, image, enter = tmp_path / "tiny.zarr", tmp_path / "image", tmp_path / "enter"
    image.mkdir()
    enter.write_text(CONTAINER.format(prefix=sys.prefix, image=image))
    enter.chmod(0o755)
    if subprocess.run([enter, "an image", "true"], capture_output=True).returncode:
        pytest.skip("no folder can be mounted for one process here")
    inside = f"worker_prefix: [{enter}, an image], python: {image}/bin/python"
    cluster_file.write_text(PROFILES.replace("slurm: {", f"slurm: {{{inside}, ", 1))
    spec = sweeping.write_spec(tmp_path, LONG)
    places = ("--results", tmp_path, "--cluster", cluster_file, "--profile", "slurm")
    assert sweep("submit", spec, "--detach", *places).exit_code == 0
    of_head = rf"{image}/bin/python -m sweep_clustering submit"
    of_worker = rf"{image}/bin/python -m distributed\.cli\.dask_worker"

    def environments(command: str) -> list[str]:
        processes = psutil.process_iter(["cmdline"])
        lines = [(process, " ".join(process.info["cmdline"] or ())) for process in processes]
        return [process.environ().get("INSIDE", "") for process, line in lines if re.match(command, line)]

    sweeping.wait_until(lambda: len(environments(of_worker)) == 2)
    assert environments(of_worker) == ["container", "container"]
    assert environments(of_head) == ["container"]
    sweeping.wait_until(lambda: slurm_site.queue() == [])
    assert json.loads(sweep("status", cube, "--json").stdout)["complete"]
    assert not any(image.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["--dry-run", "--detach", "--verbose"])
def test_a_partition_that_does_not_exist_is_bad_input(how: str, cluster_file: Path, tmp_path: Path) -> None:
    places = "--results", tmp_path / "r", "--profile", "elsewhere", "--cluster", cluster_file
    problems = refuse("submit", sweeping.write_spec(tmp_path), *places, how)
    assert "elsewhere: queue: found 'nowhere', expected one of closed, main, short" in problems
    assert "elsewhere: head.queue: found 'main,gone', expected one of closed, main, short" in problems
    assert not (tmp_path / "r").exists()


# The head in a job of its own: it outlasts its walltime, and leaves nothing when ended.

LONGER = sweeping.TINY.replace("restarts = 5", "restarts = 300")


@pytest.mark.slow
def test_a_head_ended_and_one_after_its_walltime(cluster_file: Path, tmp_path: Path) -> None:
    cube, run = tmp_path / "tiny.zarr", RunFolder(tmp_path / "tiny.zarr")
    spec, places = sweeping.write_spec(tmp_path, LONGER), ("--results", tmp_path, "--cluster", cluster_file)
    notices, notify = tmp_path / "notices", f"notify: [sh, -c, 'head -n 1 >> {tmp_path}/notices']"
    cluster_file.write_text(PROFILES.replace("\nslurm: {", f"\nslurm: {{{notify}, "))

    def detach() -> tuple[int, str]:
        result = sweep("submit", spec, "--detach", *places, "--profile", "slurm")
        return result.exit_code, result.stderr

    def status() -> Any:
        return json.loads(sweep("status", cube, "--json").stdout)

    def head_number() -> str:
        return queues.run(["squeue", "--noheader", f"--name={queues.head_name(run)}", "--format=%i"]).strip()

    code, stderr = detach()
    number = head_number()
    assert code == 0
    assert f"the head is job {number} ({queues.head_name(run)})" in stderr
    sweeping.wait_until(lambda: (status()["run"] or {}).get("restarts"))
    code, stderr = detach()
    assert code == 1
    assert f"its head is job {number} already: running (n1)" in stderr
    report = status()
    head = {"state": "running", "job": number, "node": "n1", "restarts": 0, "how": ""}
    assert report["head"].items() >= head.items()
    assert "distributed" in sweep("logs", cube, "--job", report["jobs"]["jobs"][0]["job"]).stdout
    assert f"ended the head, job {number}" in succeed("cancel", cube).stdout
    assert slurm_site.queue() == []
    assert re.search("stopped by SIGTERM|cancelled", run.log.read_text())
    assert not run.last_run.tls.exists()

    assert detach()[0] == 0
    sweeping.wait_until(lambda: (status()["run"] or {}).get("restarts"))
    number = head_number()
    queues.run(["scancel", "--signal=USR1", "--batch", number])
    sweeping.wait_until(lambda: read_run_state(cube).queued_job == number)
    code, stderr = detach()  # running, completing or pending
    assert code == 1
    assert f"its head is job {number} already: " in stderr
    sweeping.wait_until(
        lambda: [job.state for job in queues.SLURM.live_jobs(queues.job_prefix(run))] == ["PENDING"]
    )
    assert "queued again 1 time" in sweep("status", cube).stdout
    code, stderr = detach()
    assert code == 1
    assert f"its head is job {number} already: pending" in stderr
    time.sleep(2)  # SLURM refuses a node that has just been told to end the job, and drops it then
    queues.run(["scontrol", "update", f"JobId={number}", "StartTime=now"])
    followed = sweep("logs", cube, "--follow").stdout
    assert re.search(r"stopped by SIGUSR1[\s\S]*the head resumes[\s\S]*100\.0 %[\s\S]*results: ", followed)
    sweeping.wait_until(lambda: slurm_site.queue() == [])
    report = status()
    assert report["complete"]
    assert report["head"]["restarts"] == 1
    stopped, finished = notices.read_text().splitlines()  # the head that was queued again sends none
    assert stopped.startswith(("tiny: stopped by SIGTERM", "tiny: cancelled"))
    assert finished.startswith("tiny: finished; ")
    assert sweep("verify", cube, "--sample", 3).exit_code == 0


def test_only_the_job_of_a_head_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path / "a.zarr")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("SLURM_JOB_NAME", queues.head_name(run))
    assert HeadJob.current(run) is None
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    assert HeadJob.current(run) == HeadJob(queues.SLURM, "5", 2)
    monkeypatch.setenv("SLURM_JOB_NAME", "something-else")
    assert HeadJob.current(run) is None
