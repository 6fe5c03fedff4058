"""Worker jobs, watched and on a real SLURM: credentials and folders of their own, equal bits, clear ends."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from cryptography import x509
from distributed import Client, LocalCluster
from processes import slurm_site, stranger, sweeping
from processes.commandline import sweep
from processes.killing import reported_done
from processes.stranger import listening

from sweep_clustering.pipeline.cluster.connect import connect, dashboard_address
from sweep_clustering.pipeline.cluster.profiles import load_profile
from sweep_clustering.pipeline.jobs import cluster, queues
from sweep_clustering.pipeline.jobs import cluster as module
from sweep_clustering.pipeline.jobs.cluster import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    LOST_SECONDS,
    MOST_ABSENT,
    SETTLED_SECONDS,
    HeadJob,
    JobWatch,
)
from sweep_clustering.pipeline.jobs.keys import JobQueue
from sweep_clustering.pipeline.jobs.queues import (
    SLURM,
    CommandFailed,
    ComputeClusterError,
    JobDetails,
    LiveJob,
    Queue,
    head_name,
    job_prefix,
)
from sweep_clustering.pipeline.monitor.status import read_run_state
from sweep_clustering.storage.files import LeaseLost
from sweep_clustering.storage.runfolder.folder import GenerationFolder, JobList, RunFolder
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.errors import present

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
            found = {path.name: mode(path) for path in (folder, *folder.iterdir())}
            assert found == {"tls": 0o700, cluster.CERT: 0o600, cluster.KEY: 0o600}
            assert "PRIVATE KEY" in (folder / cluster.KEY).read_text()
    finally:
        os.umask(before)
    assert not folder.exists()
    one, other = cluster.new_credentials(), cluster.new_credentials()
    assert one.require_encryption
    assert one.tls_worker_key != other.tls_worker_key
    certificate = x509.load_pem_x509_certificate(one.tls_ca_file.encode())
    now, day = datetime.now(tz=UTC), timedelta(days=1)
    assert certificate.not_valid_before_utc < now - day / 24, "clocks of nodes differ"
    assert certificate.not_valid_after_utc > now + 300 * day


def test_who_has_the_files_is_let_in_and_nobody_else(tmp_path: Path) -> None:
    quiet = {"processes": False, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "protocol": "tls"}
    made = cluster.fresh_credentials(tmp_path / "tls")
    with made as security, LocalCluster(n_workers=1, security=security, **quiet) as scheduler:
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
    monkeypatch.setattr(Queue, "submit", staticmethod(lambda script, name: submitted.append(name) or "7"))

    def lost() -> None:
        raise LeaseLost("another head runs it")

    async def start(check: Callable[[], None]) -> tuple[str, str | None]:
        keys = {"cores": 1, "processes": 1, "memory": "1GB"}
        job = cluster._job_class("slurm", check)("tcp://127.0.0.1:1", name="sweep-a-0", **keys)
        await job.start()
        return job.refusal, job.job_id

    assert asyncio.run(start(lambda: None)) == ("", "7")
    assert asyncio.run(start(lost)) == ("another head runs it", None)
    assert submitted == ["sweep-a-0"]


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("place", "there", "found"),
    [
        (0o1777, "nothing", "usual"),
        (0o1777, "open", "usual"),
        (0o1777, "link", "beside"),
        (0o1777, "of another user", "beside"),
        (0o777, "nothing", "elsewhere"),  # where others may replace it
        (0o770, "nothing", "elsewhere"),
        (0o1777, "place of another user", "elsewhere"),
    ],
)
def test_scratch_is_private(place: int, there: str, found: str, shell: str, tmp_path: Path) -> None:
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
    assert (scratch == usual) == (found == "usual")
    assert scratch.parent == (Path("/tmp") if found == "elsewhere" else tmp_path)
    scratch.rmdir()


# On a real SLURM.

PROFILES = """
pair: {kind: slurm, cores: 2, memory: 2GB, walltime: "00:10:00", interface: lo}
slurm: {kind: slurm, cores: 1, memory: 1GB, walltime: "00:10:00", interface: lo, workers: 2}
dies: {kind: slurm, cores: 1, memory: 1GB, interface: lo, failed_starts: 2, start_timeout: 60s,
       job_script_prologue: ["echo this node lacks the module >&2; exit 3"]}
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
    assert re.search(r"was lost; another one in 0 s|was cancelled; another one in 2 s", log)
    assert slurm_site.queue() == []
    assert sweeping.run(spec, tmp_path / "serial") == 0
    sweeping.assert_same_bits(tmp_path / "serial" / "tiny.zarr", cube)
    run = RunFolder(cube)
    logs = [path.name for path in run.job_logs.glob("*.err")]
    of_a_job = rf"{re.escape(job_prefix(run))}[0-9a-f]{{4}}-[01]-\d+\.err"
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
    done = sweep("submit", sweeping.write_spec(tmp_path), *choices)
    assert done.exit_code == 1
    assert re.search(says, caplog.text)
    assert slurm_site.queue() == []
    assert not (tmp_path / "tiny.zarr").exists()


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
        shown = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
        assert any(f"--name {worker['name']} " in line for line in shown)
        (job,) = SLURM.live_jobs("sweep-")
        script = queues.run(["scontrol", "write", "batch_script", job.number, "-"])
        assert f"--tls-key {tls}/key.pem" in script
        assert not any(secret in text for text in (script, *shown))
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
    def shown(*choices: str) -> list[str]:
        places = ["--results", str(tmp_path / "r"), "--cluster", str(cluster_file)]
        done = sweep("submit", sweeping.write_spec(tmp_path), "--dry-run", *places, "--profile", *choices)
        assert done.exit_code == 0
        assert not (tmp_path / "r").exists()
        return re.findall("WARNING: (.*)", done.stderr.replace("00:05:00", "5:00"))

    assert shown("short", "--workers", "2") == [
        "walltime 0:07:00 is above the 5:00 of partition short",
        "memory 3.73 GiB of a job is above the 2.93 GiB of a node of short",
        "cores 3 of a job are more than the 2 of a node of short",
        "2 jobs of 3 cores are more than the 4 of short: the others will wait",
    ]
    assert shown("slurm") == []
    cluster_file.write_text(cluster_file.read_text().replace("memory: 2GB", "memory: 900MB"))
    places = "--results", tmp_path / "r", "--profile", "short", "--cluster", cluster_file
    done = sweep("submit", sweeping.write_spec(tmp_path), "--dry-run", *places)
    assert done.exit_code == 0
    assert re.search(
        r"memory: 264\.\d+ MiB for each of 3 workers, and data set 'iris' may need up to 5\d\d\.", done.stderr
    )


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
    cube, kept = tmp_path / "tiny.zarr", tmp_path / "environment"
    profiles = PROFILES.replace(", workers: 2", f", job_script_prologue: ['env > {kept}']")
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
    said = log.read_text()
    names = re.findall(r"variables of this shell that no job gets: (.*)", said)[0].split(", ")
    assert {*SHELL, "SLURM_JOB_ID", "SLURM_MEM_PER_NODE"} <= set(names)
    assert "SLURM_CONF" not in names
    assert "WARNING" not in said
    assert json.loads(sweep("status", cube, "--json").stdout)["complete"]
    assert "died at once" not in RunFolder(cube).log.read_text()
    of_worker = dict(line.partition("=")[::2] for line in kept.read_text().splitlines())
    assert of_worker["SLURM_JOB_NAME"].startswith(job_prefix(RunFolder(cube)))
    assert of_worker["SLURM_JOB_PARTITION"] == "main"
    assert of_worker.keys() & SHELL.keys() == set()
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    queues.run(["sbatch", "--hold", "--job-name=sweep-a-0", str(script)])
    assert SLURM.cancel_all("sweep-a-") == 1
    sweeping.wait_until(lambda: SLURM.live_jobs("sweep-a-") == [])


# Only there it can be run: a folder that is empty elsewhere is the Python of these tests.
CONTAINER = """#!/bin/sh
[ "$1" = "an image" ] || exit 3
shift
exec unshare --mount sh -c 'mount --bind {prefix} {image} && export INSIDE=container && exec "$@"' - "$@"
"""


@pytest.mark.slow
def test_workers_and_head_run_in_a_container(cluster_file: Path, tmp_path: Path) -> None:
    """A wrapper that mounts a folder for its command alone stands in for apptainer."""
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
    done = sweep("submit", sweeping.write_spec(tmp_path), *places, how)
    assert done.exit_code == 2
    assert "elsewhere: queue: found 'nowhere', expected one of closed, main, short" in done.stderr
    assert "elsewhere: head.queue: found 'main,gone', expected one of closed, main, short" in done.stderr
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
        done = sweep("submit", spec, "--detach", *places, "--profile", "slurm")
        return done.exit_code, done.stderr

    def status() -> Any:
        return json.loads(sweep("status", cube, "--json").stdout)

    def head_number() -> str:
        return queues.run(["squeue", "--noheader", f"--name={head_name(run)}", "--format=%i"]).strip()

    code, said = detach()
    number = head_number()
    assert code == 0
    assert f"the head is job {number} ({head_name(run)})" in said
    sweeping.wait_until(lambda: (status()["run"] or {}).get("restarts"))
    code, said = detach()
    assert code == 1
    assert f"its head is job {number} already: running (n1)" in said
    found = status()
    head = {"state": "running", "job": number, "node": "n1", "restarts": 0, "how": ""}
    assert found["head"].items() >= head.items()
    assert "distributed" in sweep("logs", cube, "--job", found["jobs"]["jobs"][0]["job"]).stdout
    ended = sweep("cancel", cube)
    assert ended.exit_code == 0
    assert f"ended the head, job {number}" in ended.stdout
    assert slurm_site.queue() == []
    assert re.search("stopped by SIGTERM|cancelled", run.log.read_text())
    assert not run.last_run.tls.exists()

    assert detach()[0] == 0
    sweeping.wait_until(lambda: (status()["run"] or {}).get("restarts"))
    number = head_number()
    queues.run(["scancel", "--signal=USR1", "--batch", number])
    sweeping.wait_until(lambda: read_run_state(cube).waiting == number)
    code, said = detach()  # running, completing or pending
    assert code == 1
    assert f"its head is job {number} already: " in said
    sweeping.wait_until(lambda: [job.state for job in SLURM.live_jobs(job_prefix(run))] == ["PENDING"])
    assert "queued again 1 time" in sweep("status", cube).stdout
    code, said = detach()
    assert code == 1
    assert f"its head is job {number} already: pending" in said
    time.sleep(2)  # SLURM refuses a node that has just been told to end the job, and drops it then
    queues.run(["scontrol", "update", f"JobId={number}", "StartTime=now"])
    followed = sweep("logs", cube, "--follow").stdout
    assert re.search(r"stopped by SIGUSR1[\s\S]*the head resumes[\s\S]*100\.0 %[\s\S]*results: ", followed)
    sweeping.wait_until(lambda: slurm_site.queue() == [])
    found = status()
    assert found["complete"]
    assert found["head"]["restarts"] == 1
    stopped, finished = notices.read_text().splitlines()  # and none of the head that was queued again
    assert stopped.startswith(("tiny: stopped by SIGTERM", "tiny: cancelled"))
    assert finished.startswith("tiny: finished; ")
    assert sweep("verify", cube, "--sample", 3).exit_code == 0


def test_only_the_job_of_a_head_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path / "a.zarr")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("SLURM_JOB_NAME", head_name(run))
    assert HeadJob.current(run) is None
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    assert HeadJob.current(run) == HeadJob(queues.SLURM, "5", 2)
    monkeypatch.setenv("SLURM_JOB_NAME", "something-else")
    assert HeadJob.current(run) is None


NAME = "sweep-tiny-"
NO_NODE = "sbatch: error: Batch job submission failed: Requested node configuration is not available"
LIMIT = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)"


@dataclass
class Job:
    """A worker job as dask-jobqueue keeps it; `workers` are connected."""

    job_id: str | None
    refusal: str = ""
    workers: int = 0


class Site:
    """A watch without its thread, a queue and jobs without processes: time passes when a test says so."""

    def __init__(
        self,
        generation: GenerationFolder,
        n_jobs: int = 1,
        kind: str = "slurm",
        limit: int = 100,
        refusal: str = "",
        **options: Any,
    ):
        self.queue, self.ends, self.jobs = dict[str, LiveJob](), dict[str, str](), dict[str, Job]()
        self.futures, self.cancelled = {"batch-1": None, "batch-2": None}, dict[str, str]()
        self.answers, self.refusal, self.dropped = True, refusal, list[str]()
        self.limit = limit
        self.asked = self.asked_for_ends = 0
        self._numbers = count(1)
        for number in range(n_jobs):
            self.submit(f"{NAME}{number}")
        self.generation = generation
        profile = JobQueue(kind=kind, cores=1, memory=2**30, **options)
        self.cluster = client = cast(Any, self)  # it stands for both
        self.watch = JobWatch(client, profile, name=NAME, generation=generation, n_jobs=n_jobs)
        self.now = time.monotonic()

    # What the queue, the compute cluster and the client do.

    def put(self, number: str, state: str = "RUNNING", reason: str = "None", node: str = "") -> None:
        self.queue[number] = LiveJob(number, f"{NAME}{number}", state, node, reason)

    def live_jobs(self, prefix: str) -> list[LiveJob]:
        self.asked += 1
        if not self.answers:
            raise CommandFailed(["squeue"], "timed out", transient=True)
        return list(self.queue.values())

    def details(self, number: str) -> JobDetails:
        self.asked_for_ends += 1
        return JobDetails(self.ends.get(number, ""))

    def submit(self, name: str) -> None:
        number = str(next(self._numbers))
        refusal = self.refusal or (LIMIT if len(self.queue) >= self.limit else "")
        self.jobs[name] = Job(None if refusal else number, refusal)
        if not refusal:
            self.put(number)

    def sync(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def watched(self) -> dict[str, tuple[Job, int]]:
        return {name: (job, job.workers) for name, job in self.jobs.items()}

    def drop(self, names: list[str]) -> None:
        self.dropped += names
        for name in names:
            del self.jobs[name]

    def cancel(self, futures: list[str], *, force: bool, msg: str) -> None:
        self.cancelled |= dict.fromkeys(futures, msg)

    # What a test does.

    def wait(self, seconds: float = 0.5, step: float = 0.5) -> None:
        """Let time pass, with two looks at every step; a dropped job is submitted again after them."""
        end = self.now + seconds
        while self.now < end:
            self.now += step
            self.watch.look(self.now)
            self.watch.look(self.now)
            for name in set(self.dropped) - set(self.jobs):
                self.submit(name)

    def job(self, number: int = 0) -> Job:
        return self.jobs[f"{NAME}{number}"]

    def end(self, number: int = 0, state: str = "FAILED") -> None:
        """A job and its workers are gone."""
        job = self.job(number)
        job.workers = 0
        if job.job_id is not None:
            self.queue.pop(job.job_id, None)
            self.ends[job.job_id] = state

    def settle(self, number: int = 0) -> None:
        """Its workers come, and stay long enough."""
        self.job(number).workers = 1
        self.wait(SETTLED_SECONDS + 1)

    def end_often(self, times: int, state: str = "FAILED") -> int:
        """Job after job ends before a worker comes; how many did until the run was given up."""
        for number in range(1, times + 1):
            self.end(state=state)
            dropped = len(self.dropped)
            while len(self.dropped) == dropped:
                self.wait()
                if self.failure:
                    return number
        return times

    @property
    def failure(self) -> str:
        return str(self.watch.failure or "")

    @property
    def listed(self) -> JobList:
        return present(JobList.read(self.generation.jobs))

    @property
    def lost(self) -> list[tuple[str, str]]:
        return [(job.job, job.how) for job in self.listed.lost]


MakeSite = Callable[..., Site]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> MakeSite:
    """Makes a site, which stands in for SLURM's commands."""
    caplog.set_level(logging.INFO, logger="sweep_clustering.pipeline.jobs")
    generation = GenerationFolder(RunFolder(tmp_path / "a.zarr"), 1)
    generation.run.make()
    generation.open()
    generation.run.job_logs.mkdir()

    def made(**options: Any) -> Site:
        site = Site(generation, **options)
        monkeypatch.setattr(Queue, "live_jobs", site.live_jobs)
        monkeypatch.setattr(Queue, "details", site.details)
        return site

    return made


def test_a_lost_job_is_replaced_at_once_and_once(make: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    site = make(n_jobs=2)
    site.settle(0)
    site.settle(1)
    site.watch.wait_for_worker()
    site.end(0, "NODE_FAIL")
    site.wait(10)
    assert site.dropped == [f"{NAME}0"]
    assert site.job(0).job_id == "3"
    assert site.lost == [("1", "was lost")]
    assert site.asked_for_ends == 0  # how it ended does not matter: it had worked
    assert f"worker job {NAME}0 (1) was lost; another one in 0 s" in caplog.messages
    site.job(0).workers = 1
    site.wait(60)
    assert len(site.dropped) == 1
    assert site.failure == ""
    assert [(job.state, job.workers) for job in site.listed.jobs] == [("running", 1)] * 2


def test_one_answer_without_the_job_says_nothing(make: MakeSite) -> None:
    site = make()
    site.settle()
    for _ in range(3):
        site.queue.pop("1")
        site.job().workers = 0
        site.wait()
        site.put("1")  # it was on its way
        site.wait(FIRST_PAUSE)
        assert site.dropped == []
        assert site.listed.jobs[0].state == "starting"
        site.job().workers = 1
        site.wait()
    # one that is being cleaned up is waited for, but not for ever
    site = make()
    site.end(state="COMPLETING")
    site.wait(5)
    assert site.listed.lost == ()
    assert site.asked < MOST_ABSENT
    site.wait(1000, step=2)
    assert site.lost[0] == ("1", "died at once")


def test_each_early_end_is_answered_later(make: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    site = make(failed_starts=100)
    assert site.end_often(9) == 9
    pauses = [text.rpartition(" in ")[2] for text in caplog.messages if "another one" in text]
    assert pauses == ["2 s", "4 s", "8 s", "16 s", "32 s", "64 s", "128 s", "256 s", "300 s"]


@pytest.mark.parametrize(
    ("state", "how", "ends", "others"),
    [
        ("FAILED", "died at once", 2, 0),
        ("", "died at once", 2, 0),
        ("CANCELLED", "was cancelled", 9, 0),
        ("NODE_FAIL", "was lost", 9, 0),
        ("FAILED", "died at once", 3 * 2, 1),  # a third, while another job starts
    ],
)
def test_which_early_ends_count(make: MakeSite, state: str, how: str, ends: int, others: int) -> None:
    site = make(failed_starts=2, n_jobs=1 + others)
    assert site.end_often(9, state) == ends
    assert bool(site.failure) == (ends < 9)
    assert site.lost == [(str(number), how) for number in (1, *range(2 + others, 1 + others + ends))]


def test_jobs_that_die_at_once_end_the_run_with_the_end_of_a_log(make: MakeSite) -> None:
    site = make(failed_starts=3)
    logs = site.generation.run.job_logs
    (logs / "dask-worker-3.err").write_text("".join(f"line {number}\n" for number in range(40)))
    (logs / "dask-worker-3.out").touch()
    (logs / "dask-worker-2.err").write_text("another job\n")
    assert site.end_often(9) == 3
    first, place, *log_lines = site.failure.splitlines()
    assert first == "worker jobs die at once: 3 times in a row, and no worker is left"
    assert place == f"the end of {logs / 'dask-worker-3.err'}:"
    assert log_lines == [f"  line {number}" for number in range(25, 40)]
    with pytest.raises(ComputeClusterError, match="die at once"):
        site.watch.wait_for_worker()
    site = make(failed_starts=1)
    assert site.end_often(9) == 1
    assert site.failure.endswith(f"\njob 1 left no log in {logs}")
    site = make(failed_starts=2)
    site.queue.clear()
    site.refusal = "sbatch: error: Invalid account"
    site.submit(f"{NAME}0")
    assert site.end_often(9) == 2
    assert re.search(f"cannot be submitted: 2 times in a row.*\n{site.refusal}$", site.failure)
    assert site.lost == [("", "could not be submitted")] * 2
    assert site.listed.jobs[0].state == "refused"


def test_a_settled_worker_clears_the_count(make: MakeSite) -> None:
    site = make(failed_starts=2)
    for _ in range(3):
        site.end_often(1)
        site.settle()
    site.end_often(1)
    assert not site.failure
    site.job().workers = 1
    site.wait(SETTLED_SECONDS / 2)  # not for long enough
    site.end_often(2)
    assert "die at once" in site.failure


def test_nothing_is_given_up_while_a_worker_is_left(make: MakeSite) -> None:
    site = make(n_jobs=2, failed_starts=1, start_timeout=60.0)
    site.settle(1)
    site.end(0)
    site.wait(100)
    assert site.lost[0] == ("1", "died at once")
    assert not site.failure
    site.job(1).workers = 0
    site.wait(55)  # the time without any worker begins when the last one goes
    assert not site.failure
    site.wait(10)
    assert site.failure == "no worker for 0:01:00 (start_timeout): 2 running (None)"


def test_what_a_limit_leaves_is_kept_and_the_rest_is_tried_slowly(
    make: MakeSite, caplog: pytest.LogCaptureFixture
) -> None:
    site = make(n_jobs=8, limit=3, failed_starts=1)
    site.wait(1)
    assert site.listed.refusal == f"3 of 8 jobs: limit of the site ({LIMIT})"
    assert [job.state for job in site.listed.jobs][2:4] == ["starting", "refused"]
    assert caplog.messages[0] == f"{site.listed.refusal}; trying again in 60 s"
    for number in range(3):
        site.job(number).workers = 1
    site.wait(58)
    assert site.dropped == []
    site.wait(1000)
    assert site.dropped == [f"{NAME}3"] * 5, "one job at a time, after 1, 2, 4, 5 and 5 minutes"
    pauses = [text.rpartition(" in ")[2] for text in caplog.messages if "trying again" in text]
    assert pauses == ["60 s", "120 s", "240 s", "300 s", "300 s", "300 s"]
    assert site.listed.lost == ()
    assert not site.failure
    site.end(0)
    site.limit = 2  # another run of this user has begun
    site.wait(10)
    assert site.listed.refusal.startswith("2 of 8 jobs: limit")
    assert [job.job for job in site.listed.lost] == ["1"]
    site.limit = 8
    site.wait(310)
    assert all(site.job(number).job_id for number in range(8)), "all of them follow the first"
    site.wait(1)
    assert site.listed.refusal == ""
    assert not site.failure


def test_a_limit_that_admits_no_job_ends_the_run_in_time(make: MakeSite) -> None:
    site = make(n_jobs=2, limit=0, failed_starts=1, start_timeout=3600.0)
    site.wait(3590)
    assert not site.failure
    assert len(site.dropped) == 13
    site.wait(15)
    assert site.failure == f"no worker for 1:00:00 (start_timeout): 0 of 2 jobs: limit of the site ({LIMIT})"


@pytest.mark.parametrize(("refusal", "ends"), [("Unexpected message received", False), (NO_NODE, True)])
def test_a_busy_queue_is_waited_for_and_an_impossible_request_is_not(
    make: MakeSite, refusal: str, ends: bool
) -> None:
    site = make(n_jobs=2, refusal=refusal, failed_starts=3)
    site.wait(100)
    assert not site.failure
    assert len(site.dropped) <= 5
    assert refusal in site.listed.refusal
    for _ in range(300):
        if not site.failure:
            site.wait(1)
    expected = "worker jobs cannot be submitted: 3 times in a row, and no worker is left\n" + refusal
    assert site.failure == (expected if ends else "")


@pytest.mark.parametrize("known", [True, False])
def test_without_any_worker_the_run_ends_in_time(make: MakeSite, known: bool) -> None:
    site = make(start_timeout=3600.0)
    site.put("1", "PENDING", "Resources")
    site.answers = known
    site.wait(3590, step=10)
    assert not site.failure
    site.wait(15)
    states = "1 pending (Resources)" if known else "nothing is known of the jobs"
    assert site.failure == f"no worker for 1:00:00 (start_timeout): {states}"


def test_a_queue_is_asked_less_and_less(make: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    site = make(n_jobs=3)
    site.put("1", "PENDING", "Priority")
    site.put("2", "PENDING", "Priority")
    site.wait(10)
    assert 4 <= site.asked <= 6
    site.wait(300, step=2)
    site.put("1", "PENDING", "Resources")
    site.wait(300, step=2)
    assert site.asked <= 600 / LONGEST_PAUSE + 12
    states = "2 pending (Priority)", "1 pending (Priority), 1 pending (Resources)"
    assert caplog.messages == [f"worker jobs without workers: {each}, 1 running (None)" for each in states]
    found = [job.state for job in site.listed.jobs]
    assert found == ["pending (Resources)", "pending (Priority)", "starting"]


def test_a_queue_without_an_answer_charges_nobody(make: MakeSite, caplog: pytest.LogCaptureFixture) -> None:
    site = make()
    site.answers = False
    site.wait(600, step=5)
    assert "the queue does not answer: squeue: timed out" in caplog.messages
    assert site.dropped == []
    assert site.failure == ""
    site.settle()
    site.job().workers = 0
    site.wait(LOST_SECONDS - 5)
    assert site.dropped == []
    site.wait(LOST_SECONDS)
    assert site.dropped == [f"{NAME}0"]
    site = make(kind="pbs", failed_starts=2)  # a queue that is never asked
    site.job().workers = 1
    site.wait(2)
    site.job().workers = 0
    site.wait(LOST_SECONDS)
    assert site.dropped == []
    site.wait(LONGEST_PAUSE + 5)
    assert site.dropped == [f"{NAME}0"]
    assert site.asked == 0
    assert site.lost == [("1", "died at once")]


def test_nodes_are_looked_up_for_jobs_with_workers(make: MakeSite) -> None:
    site = make()
    site.put("1", node="n7")
    site.wait(300, step=2)
    site.answers = False
    site.job().workers = 1
    site.wait(10)
    assert site.listed.jobs[0].node == ""
    site.answers = True
    site.wait(20)
    asked = site.asked
    site.wait(60)
    assert site.asked == asked, "not asked any more"
    assert site.listed.jobs[0].node == "n7", "not asked any more"
    site.job().workers = 0
    site.wait(5)
    assert site.asked > asked + 2  # again as soon as the workers are gone
    site.end()
    site.wait(5)
    assert site.listed.lost[0].node == "n7"


def test_the_thread_survives_a_silent_cluster(make: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "Future", lambda key, client: key)
    site = make(start_timeout=0.001)
    failing = threading.Event()

    def sync(function: Callable[..., Any], *arguments: Any) -> Any:
        if failing.is_set():
            return function(*arguments)
        failing.set()
        raise OSError("closing")

    monkeypatch.setattr(site, "sync", sync)
    with site.watch as watch:
        with pytest.raises(ComputeClusterError, match="start_timeout"):
            watch.wait_for_worker()
        assert failing.is_set()
        while len(site.cancelled) < 2:
            time.sleep(0.01)
        assert site.cancelled == dict.fromkeys(site.futures, site.failure)
    assert not watch._thread.is_alive()
