"""The submit command checks its input and says what it does, up to the start of a run."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes.commandline import refuse, succeed, sweep
from processes.sweeping import TINY, start, wait_until, write_spec
from rich.console import Console

from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.jobs.keys import JobQueue, job_queue
from sweep_clustering.pipeline.jobs.queues import CommandFailed, head_name
from sweep_clustering.pipeline.monitor.status import read_run_state
from sweep_clustering.pipeline.run.head import head_script
from sweep_clustering.pipeline.run.request import Options, Request
from sweep_clustering.pipeline.submit import submission
from sweep_clustering.storage.runfolder.folder import RunFolder, Submission
from sweep_clustering.sweeps.errors import InputError, present

SMALL = TINY.replace("restarts = 5", "restarts = 1").replace("replicates = 2", "replicates = 1")
PROFILES = """
remote: {kind: pbs, cores: 1, memory: 1GB}
broken: {kind: slurm, cores: 1, memory: 1GB, head: {core: 1, memory: much, walltime: 3600, queue: a b}}
queue: {kind: slurm, cores: 2, memory: 2GB, interface: lo, workers: 3, head: {queue: long}}
typo: {kind: local, notify: mial me@example.org}
unknown: {kind: slurm, cores: 1, memory: 1GB, interface: eth99}
"""


def test_a_detached_run_goes_on_when_the_command_has_ended_and_is_cancelled(tmp_path: Path) -> None:
    cube, detached = tmp_path / "tiny.zarr", ("--detach", "--workers", 0, "--results", tmp_path)
    spec = write_spec(tmp_path, TINY.replace("restarts = 5", "restarts = 4000"))
    started = succeed("submit", spec, *detached)
    head = psutil.Process(present(read_run_state(cube).holder).process.pid)
    try:
        assert f"the head is process {head.pid} of this machine" in started.stderr
        assert os.getsid(head.pid) == head.pid  # no terminal's end reaches it
        assert head.environ()["PYTHONSAFEPATH"] == "1"
        wait_until(lambda: (json.loads(sweep("status", cube, "--json").stdout)["run"] or {}).get("restarts"))
        assert sweep("cancel", cube).exit_code == 0
        assert not head.is_running() or head.status() == psutil.STATUS_ZOMBIE
    finally:
        if head.is_running():
            head.kill()
    assert "not running: submit again to resume" in sweep("status", cube).stdout
    assert "restarts to run" in sweep("logs", cube, "--head").stdout


def test_a_head_that_ends_at_once_or_starts_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONHOME", str(tmp_path))  # no python starts with that
        result = sweep("submit", write_spec(tmp_path), "--detach", "--workers", 0, "--results", tmp_path)
    assert result.exit_code == 1
    assert "the head ended with exit code" in result.stderr
    assert "encodings" in (tmp_path / "tiny.run" / "head.log").read_text()

    def early_exit(script: str) -> tuple[int, int]:
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ)
        return submission._early_exit(tmp_path / "other.zarr", pid), pid

    assert early_exit("exit 7")[0] == 7
    monkeypatch.setattr(submission, "START_SECONDS", 0.2)
    code, pid = early_exit("sleep 0.8")
    assert code == 0
    assert f"process {pid} is there, but has not taken the lease" in caplog.text
    os.waitpid(pid, 0)


def test_a_head_in_the_queue_keeps_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds also for a head without a sign of life, as it may stand still and go on."""
    head = head_name(RunFolder(tmp_path / "tiny.zarr"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name, says in (("squeue", f"echo '7|{head}|RUNNING|n1|0:07|None'"), ("sbatch", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "cluster.yaml").write_text(PROFILES)
    places = ("--results", tmp_path, "--cluster", tmp_path / "cluster.yaml")
    result = sweep("submit", write_spec(tmp_path), "--detach", *places, "--profile", "queue")
    assert result.exit_code == 1
    assert "its head is job 7 already: running (n1)" in result.stderr
    assert not (tmp_path / "tiny.run").exists()


BUSY = "echo 'sbatch: error: Batch job submission failed: Unexpected message received' >&2; exit 1"


def make_programs(folder: Path, **programs: str) -> tuple[object, ...]:
    """Make programs that stand in for those of SLURM, and return options that submit to it."""
    for name, says in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{says}\n")
        (folder / name).chmod(0o755)
    (folder / "cluster.yaml").write_text(PROFILES)
    return "--detach", "--results", folder, "--cluster", folder / "cluster.yaml", "--profile", "queue"


def test_a_head_is_handed_over_when_the_queue_is_less_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(queues, "PAUSE", 0.0)
    calls = tmp_path / "calls"
    accepts = f"echo x >> {calls}; [ $(wc -l < {calls}) -ge 6 ] && echo 9 || {{ {BUSY}; }}"
    result = succeed("submit", write_spec(tmp_path), *make_programs(tmp_path, squeue="true", sbatch=accepts))
    assert "Unexpected message received; attempt 6 of 12 follows in 0 s" in result.stderr
    assert present(Submission.read(RunFolder(tmp_path / "tiny.zarr").submission)).job == "9"


def test_scripts_contain_the_name_of_a_sweep_and_not_that_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    options = make_programs(tmp_path, squeue="true", sbatch="echo 9", sinfo="echo long")
    spec = write_spec(tmp_path).rename(tmp_path / "my sweep.toml")
    succeed("submit", spec, *options)
    spec.write_text("name = 1\n")
    assert "--results" not in refuse("submit", spec, *options)


@pytest.mark.slow
@pytest.mark.parametrize("has_job", [True, False])
def test_nothing_is_left_of_a_head_that_waits_for_a_busy_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_job: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    run = RunFolder(tmp_path / "tiny.zarr")
    # the queue has taken it, though it did not say so, and shows it only later
    row = f"[ -e {tmp_path}/shown ] && echo '7|{head_name(run)}|PENDING||0:00|None'" if has_job else "true"
    options = make_programs(
        tmp_path, squeue=f"{row}; true", sbatch=BUSY, scancel=f"echo $@ > {tmp_path}/cancelled"
    )
    with start(write_spec(tmp_path), tmp_path, *map(str, options)) as process:
        line = present(process.stderr).readline()
        while "attempt 3 of 12 follows in 4 s" not in line:
            line = present(process.stderr).readline()
        (tmp_path / "shown").touch()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert ("the head was ended" if has_job else "nothing was submitted") in stderr
    assert f"if job {head_name(run)} appears in the queue later, sweep cancel" in stderr
    assert "Traceback" not in stderr
    assert (tmp_path / "cancelled").exists() is has_job
    assert not run.submission.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("remote", "--detach"), ["kind pbs", "expected a profile of kind slurm, sge, local or address"]),
        (("broken", "--detach"), ["unknown key 'core'", "found 'much'", "in quotes", "without blanks"]),
        (("unknown", "--detach"), ["unknown: interface: found 'eth99', expected one of this machine's: "]),
        (("lcoal",), ["no profile 'lcoal'", "2 problems, nothing was started", "seed: found -1"]),
    ],
)
def test_what_is_bad_input(arguments: tuple[str, ...], words: list[str], tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(PROFILES)
    spec = write_spec(tmp_path, TINY.replace("seed = 99", "seed = -1") if "lcoal" in arguments else TINY)
    places = ("--results", tmp_path / "r", "--cluster", tmp_path / "cluster.yaml")
    problems = refuse("submit", spec, *places, "--profile", *arguments)
    assert [word for word in words if word not in problems] == []
    assert not (tmp_path / "r").exists()


def test_skipped_data_sets_are_said_loudly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with_ecoli = SMALL.replace('"iris"]', '"ecoli"]')
    arguments = ("submit", write_spec(tmp_path, with_ecoli), "--results", tmp_path, "--workers", 0)
    assert 'unavailable = "skip"' in refuse(*arguments)
    assert not list(tmp_path.glob("tiny.[rz]*"))
    write_spec(tmp_path, with_ecoli + 'covariance_prior = 2.0\n[data]\nunavailable = "skip"\n')
    result = succeed(*arguments)
    assert "NOTE [search] covariance_prior" in result.stderr
    assert result.stderr.count("2 of 3 data sets at hand, 9 cells left out: sweep datasets fetch") == 1
    assert "36 of 45 cells done, 9 left out, because their data sets are not at hand" in result.stderr
    assert "complete, some data sets are not at hand" in sweep("status", tmp_path / "tiny.zarr").stdout
    assert sweep(*arguments, "--strict").exit_code == 3


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Return the requests that would have been run or handed over."""
    requests_made: list[Request] = []
    monkeypatch.setattr(submission, "run_head", lambda request, console: requests_made.append(request) or 0)
    monkeypatch.setattr(submission, "detach", lambda request: requests_made.append(request) or 0)
    return requests_made


def test_a_serial_run_needs_no_profile_and_has_its_cells(tmp_path: Path, requests: list[Request]) -> None:
    spec, console = write_spec(tmp_path), Console(stderr=True)
    for more in ({}, {"detach": True}):
        assert submission.submit(spec, Options(tmp_path, profile="nowhere", workers=0, **more), console) == 0
        assert requests.pop().profile is None
    with pytest.raises(InputError, match="no profile 'nowhere'"):
        submission.submit(spec, Options(tmp_path, profile="nowhere", workers=1), console)
    names = ("iris/unsupervised", "mixtures_k2/mixture=1/p=0.8/m=15/replicate=0/posterior")
    submission.submit(spec, Options(tmp_path, workers=0, only=names, retry_failed=True), console)
    (selection,) = (request.selection for request in requests)
    assert {str(cell) for cell in selection.cells} == set(names)
    assert selection.retry_failed


def test_a_dry_run_starts_nothing_and_shows_scripts(tmp_path: Path, requests: list[Request]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(PROFILES)
    arguments = ("submit", write_spec(tmp_path), "--results", tmp_path / "r", "--dry-run")
    assert "mixtures_k3" in sweep(*arguments).output
    warned = sweep(*arguments, "--profile", "typo", "--cluster", file).stderr
    assert "typo: notify: there is no command 'mial' on this machine" in warned
    result = succeed(*arguments, "--profile", "queue", "--cluster", file, "--detach")
    jobs, head = result.stderr.split("the head would be a job of this script:")
    expected = "batches for 6 workers", "3 worker jobs of this script would be kept running:"
    assert [text for text in expected if text not in jobs] == []
    lines = "#SBATCH -p long\n", "#SBATCH --signal=B:USR1@180\n", f"--cluster {file.resolve()}"
    assert [text for text in lines if text not in head] == []
    assert requests == []
    assert not (tmp_path / "r").exists()


def test_directives_of_a_head_are_added_and_left_out(tmp_path: Path) -> None:
    head = {"job_directives_skip": ["--mem", " -n "], "job_extra_directives": ["--mem-per-cpu=700M"]}
    options = profile(1, "1GiB", head=head, mail="me@example.org")
    lines = head_script(options, RunFolder(tmp_path / "a.zarr"), []).splitlines()
    directives = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")]
    names = ["-J", "-o", "--cpus-per-task", "-t", "--open-mode", "--signal", "--mail-user"]
    assert [re.split("[= ]", text)[0] for text in directives] == [*names, "--requeue", "--mem-per-cpu"]
    assert "--mail-user=me@example.org --mail-type=END,FAIL" in directives


def test_queues_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["main", "all.q"]
    monkeypatch.setattr(queues, "words_of", lambda command: names)
    monkeypatch.setattr(submission, "submits", lambda options: True)

    def problems(queue: str) -> list[str]:
        options = profile(1, "1GiB", queue=queue, head={"queue": queue})
        run = RunFolder(Path("/a.zarr"))
        return [str(problem) for problem in submission.job_problems(options, "big:", run)]

    assert [problems(queue) for queue in ("main", "main,all.q", "all.q@n1", "*.q")] == [[]] * 4
    expected = "found 'main,gone', expected one of all.q, main"
    assert problems("main,gone") == [f"big: queue: {expected}", f"big: head.queue: {expected}"]
    names.clear()  # the queue does not answer
    assert problems("gone") == []


# What is said of worker jobs that cannot work, with SLURM's answers made up.


def profile(cores: int, memory: str, **keys: object) -> JobQueue:
    return job_queue("slurm")(kind="slurm", cores=cores, memory=memory, **keys)


HOUR = {"walltime": "01:00:00", "queue": "short"}
OPTIONS = profile(4, "4GiB", **HOUR)
PARTITION = "PartitionName=short Default=NO State=UP MaxTime=02:00:00 TotalCPUs=16 MaxMemPerNode=UNLIMITED"
CONFIG = "MaxArraySize = 1001\nMaxJobCount             = 100\n"


@pytest.mark.parametrize(
    ("limit", "texts"),
    [
        ("0", []),
        ("4", []),
        ("3", ["4 jobs are more than the 3 that Grid Engine takes (max_u_jobs)"]),
        ("", ["the limits of Grid Engine were not checked: qconf: no answer"]),
    ],
)
def test_the_limit_of_grid_engine(limit: str, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str]) -> str:
        if not limit:
            raise CommandFailed(command, "no answer")
        return f"#global:\nmax_aj_instances             2000\nmax_u_jobs                   {limit}\n"

    monkeypatch.setattr(queues, "run", run)
    assert list(submission.limit_warnings(job_queue("sge")(kind="sge", cores=4, memory="4GiB"), 4)) == texts


def test_the_limits_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    def warnings(
        options: Any = OPTIONS,
        n_jobs: int = 4,
        partition: str = PARTITION,
        sinfo: str = "Note: 99 nodes\n4096 4\n8192+ 8\n",
        user: str = "",
    ) -> list[str]:
        def run(command: list[str]) -> str:
            answers = {"show partition": partition, "sinfo": sinfo, "show config": CONFIG}
            answers["show assoc_mgr"] = user
            (answer,) = (text for key, text in answers.items() if key in " ".join(command))
            if not partition:
                raise CommandFailed(command, "Unable to contact")
            return answer

        monkeypatch.setattr(queues, "run", run)
        return list(submission.limit_warnings(options, n_jobs))

    assert warnings() == warnings(sinfo="") == []
    wait = "5 jobs of 4 cores are more than the 16 of short: the others will wait"
    assert warnings(n_jobs=5) == [wait]
    large = profile(12, "10GiB", **HOUR)
    messages = warnings(large, 101, "PartitionName=short State=DOWN MaxTime=00:30:00 TotalCPUs=16")
    assert messages[0] == "partition short is DOWN: no job starts there"
    assert messages[1] == "walltime 1:00:00 is above the 00:30:00 of partition short"
    assert [text.partition(" ")[0] for text in messages[2:]] == ["memory", "cores", "101", "101"]
    assert messages[-1] == "101 jobs are more than the 100 that SLURM takes (MaxJobCount)"
    user = (
        "Account=lab UserName=\n  GrpJobs=N(0) MaxJobs=4(1)\nUserName=a(1)\n  MaxJobs=8(1) MaxSubmitJobs=3(1)"
    )
    assert warnings(user=user) == ["4 jobs are more than the 3 that SLURM takes (MaxSubmitJobs)"]
    # limits for each node are below its size
    messages = warnings(partition="PartitionName=short State=UP MaxMemPerNode=2048 MaxCPUsPerNode=2")
    sizes = [f"{size} of a node of short" for size in ("2.00 GiB", 2)]
    assert [text.rpartition(" the ")[2] for text in messages] == sizes
    # the resources that a job books count, and not those that its workers use
    messages = warnings(profile(4, "4GiB", **HOUR, job_mem="9 GiB", job_cpu=9), 1)
    assert [text.partition(" of a job")[0] for text in messages] == ["memory 9.00 GiB", "cores 9"]
    pair = f"{PARTITION}\nPartitionName=long Default=YES State=INACTIVE"
    assert warnings(profile(4, "4GiB"), partition=pair) == ["partition long is INACTIVE: no job starts there"]
    # a job of several partitions starts in any of them, and a site may print lines of its own
    lists = profile(4, "4GiB", queue="short,long")
    assert warnings(lists, partition=f"Note: maintenance\n{pair}") == []
    assert warnings(profile(4, "4GiB", queue="long"), partition=pair) == warnings(
        profile(4, "4GiB"), partition=pair
    )
    assert warnings(profile(4, "4GiB")) == ["there is no default partition: set queue"]
    unchecked = "the limits of SLURM were not checked: scontrol: "
    assert warnings(partition="") == [f"{unchecked}Unable to contact"]


def test_excluded_nodes_are_counted_in_several_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    records = (
        "PartitionName=a TotalNodes=3 Default=YES\nPartitionName=b TotalNodes=5\nPartitionName=c TotalNodes=9"
    )
    monkeypatch.setattr(queues, "run", lambda command: records)
    counts = [queues.SLURM.count_nodes(names) for names in ("b", "a,b", None, "none")]
    assert counts == [5, 5, 3, 0]
