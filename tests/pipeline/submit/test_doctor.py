"""A compute cluster is tried: what is wrong with it is found, named with its key, and nothing is left."""

import json
import math
import operator
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import LocalCluster
from hosts.queueing import cluster
from processes import grid_engine, slurm_site, sweeping
from processes.commandline import refuse, sweep

from sweep_clustering.installation import InstallationError
from sweep_clustering.pipeline.cluster.profiles import Local, Profile, load_profile
from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.jobs.keys import job_queue
from sweep_clustering.pipeline.submit import doctor
from sweep_clustering.pipeline.submit.doctor import FAILURE, OK, WARNING, Check, Node
from sweep_clustering.storage.runfolder.folder import JobList, JobRecord
from sweep_clustering.storage.runfolder.lease import Lease

HERE = Node(
    host="login",
    software={
        "sweep": "1.0.0",
        "python": "3.11",
        "numpy": "2.4.6",
        "xarray": "2026.9",
        "cpu": "A",
        "machine": "a",
    },
    limits={"cores": {"affinity": 2.0}, "memory": {"the machine": 8e9}, "walltime": {"SLURM": 3600.0}},
    starts=(),
)
SLURM = {"kind": "slurm", "cores": 2, "memory": "4GB", "walltime": "01:00:00"}


def profile_of(**keys: Any) -> Profile:
    options = (
        job_queue("slurm").model_validate(SLURM | keys) if keys.get("kind") != "local" else Local(**keys)
    )
    return Profile("site", options, Path("cluster.yaml"))


@pytest.mark.parametrize(
    ("changes", "levels", "words"),
    [
        ({}, [OK, OK], "numpy 2.4.6"),
        ({"numpy": "2.3.1"}, [FAILURE, OK], "numpy: 2.3.1 (n1), 2.4.6 (login)"),
        ({"python": "3.12"}, [FAILURE, OK], "python: 3.12 (n1), 3.11 (login)"),
        ({"xarray": "2026.8"}, [WARNING, OK], "xarray: 2026.8 (n1), 2026.9 (login)"),
        ({"machine": "b"}, [OK, WARNING], "machine: b (n1), a (login)"),
        ({"cpu": "B"}, [OK, OK], "machine a"),
    ],
)
def test_another_version_or_processor_is_found(
    changes: dict[str, str], levels: list[str], words: str
) -> None:
    node = replace(HERE, host="n1", software=HERE.software | changes)
    checks = list(doctor.software_checks(HERE, node))
    assert [check.level for check in checks] == levels
    assert any(words in check.value for check in checks)


def test_a_package_that_a_node_lacks_is_found() -> None:
    software = {name: text for name, text in HERE.software.items() if name != "numpy"}
    check = next(doctor.software_checks(HERE, replace(HERE, host="n1", software=software)))
    assert check.level == FAILURE
    assert check.value == "numpy: missing (n1), 2.4.6 (login)"
    assert check.key.startswith("python")


@pytest.mark.parametrize(
    ("offset", "trip", "level", "words"),
    [
        (0.5, 0.01, OK, "0.500 s ahead of the clock here, ± 0.005 s"),
        (10.0, 0.01, WARNING, "10.000 s ahead of"),
        (-10.0, 0.01, WARNING, "10.000 s behind"),
        (-300.0, 0.01, FAILURE, "300.000 s behind"),
        (10.0, 20.0, OK, "± 10.000 s"),  # it may be the way
    ],
)
def test_a_clock_is_judged_by_more_than_the_way_explains(
    offset: float, trip: float, level: str, words: str
) -> None:
    check = doctor.clock_check(offset, trip)
    assert check.level == level
    assert words in check.value


@pytest.mark.parametrize(
    ("limits", "failing", "words"),
    [
        ({}, [], ""),
        ({"cores": {"affinity": 8.0, "SLURM_CPUS_ON_NODE": 1.0}}, ["cores"], "1 (SLURM_CPUS_ON_NODE)"),
        (
            {"memory": {"the machine": 8e9, "control groups": 2.0**30}},
            ["memory"],
            "1.00 GiB (control groups)",
        ),
        ({"walltime": {"SLURM": 600.0}}, ["walltime"], "0:10:00 (SLURM)"),
    ],
)
def test_less_than_was_asked_for_is_found(
    limits: dict[str, dict[str, float]], failing: list[str], words: str
) -> None:
    node = replace(HERE, limits=HERE.limits | limits)
    checks = list(doctor.resource_checks(node, profile_of(), None))
    assert [check.name for check in checks if check.level == FAILURE] == failing
    assert [check.key for check in checks if check.level == FAILURE] == failing
    assert words in "".join(check.value for check in checks)


def test_local_workers_share_the_cores_and_the_memory() -> None:
    site = profile_of(kind="local", memory_limit="3GB")
    for workers, keys in ((2, []), (3, ["workers", "memory_limit, workers"])):
        checks = doctor.resource_checks(HERE, site, workers)
        assert [check.key for check in checks if check.level == FAILURE] == keys


def test_a_process_sees_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Node.current()
    assert before.software["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert before.limits["walltime"] == {"no limit is seen": math.inf}
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "3")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "512")
    limits = {resource.RLIMIT_AS: 2**40, resource.RLIMIT_CPU: 60}
    monkeypatch.setattr(resource, "getrlimit", lambda number: (limits[number], -1))
    node = Node.current()
    assert node.limits["cores"]["SLURM_CPUS_ON_NODE"] == 3
    assert node.limits["memory"]["SLURM_MEM_PER_NODE"] == 2**29
    assert node.limits["memory"]["ulimit -v"] == 2**40
    assert node.limits["walltime"]["ulimit -t"] == 60


# The shared folder.

Change = Callable[[Callable[..., Any], Path, tuple[Any, ...]], Any]


def side(change: Change) -> doctor.Side:
    """Return the other side, which calls functions as `change` does."""
    return lambda function, folder, *arguments: change(function, folder, arguments)


def look_privately(function: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]) -> Any:
    (folder / "private").mkdir(exist_ok=True)
    return function(folder / "private", *arguments)


def read_cached(function: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]) -> Any:
    """Read like a host that never sees that a file was replaced."""
    if function is doctor.wait_for and arguments[1].startswith("renames"):
        return math.inf
    return function(folder, *arguments)


def lock_apart(function: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]) -> Any:
    """Lock like a host whose locks the other side does not see."""
    return (
        look_privately(function, folder, arguments)
        if function is doctor.take_locks
        else function(folder, *arguments)
    )


def report_slow(function: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]) -> Any:
    return 0.3 if function is doctor.wait_for else function(folder, *arguments)


def not_durable(function: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]) -> Any:
    return function is not doctor.syncs_names and function(folder, *arguments)


@pytest.mark.parametrize(
    ("change", "levels"),
    [
        (lambda function, folder, arguments: function(folder, *arguments), [OK] * 4),
        (look_privately, [FAILURE]),
        (read_cached, [OK, FAILURE]),
        (report_slow, [WARNING, WARNING, OK, OK]),
        (not_durable, [OK, OK, WARNING, OK]),
        (lock_apart, [OK, OK, OK, FAILURE]),
    ],
)
def test_what_is_not_shared_is_found(
    change: Change, levels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SLOW_FILE", 0.2)
    monkeypatch.setattr(doctor, "FILE_PATIENCE", 0.4)
    checks = list(doctor.folder_checks(operator.call, side(change), tmp_path))
    assert [check.level for check in checks] == levels
    assert [check.name for check in checks] == ["files", "renames", "syncs", "locks"][: len(levels)]
    assert {check.key for check in checks} == {"--results"}


def test_links_that_replace_others_are_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def replace_in_place(source: Path, target: Path) -> None:
        target.unlink(missing_ok=True)
        link(source, target)

    monkeypatch.setattr(os, "link", replace_in_place)
    numbers = doctor.take_locks(tmp_path, "one")
    assert numbers == doctor.take_locks(tmp_path, "other") == set(range(doctor.LOCKS))


# The whole examination, with a stand-in for the client.


class Client:
    """A client of one worker, which is this process."""

    cluster, scheduler = None, SimpleNamespace(address="tls://10.0.0.1:1")

    def __init__(self, error: Exception | None = None, ahead: float = 0.0) -> None:
        self.error, self.ahead = error, ahead

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {"tls://10.0.0.2:1": {}}}

    def submit(self, function: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        if self.error is not None:
            raise self.error
        value = function(*arguments) + self.ahead if function is time.time else function(*arguments)
        return SimpleNamespace(result=lambda timeout: value)


Examine = Callable[..., list[Check]]


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Return a function that examines a site with a stand-in connection, in a folder that must end empty."""

    def checks_of(
        client: Client | None = None,
        error: Exception | None = None,
        state: str = "",
        log: str = "",
        **keys: Any,
    ) -> list[Check]:
        @contextmanager
        def connect(profile: Profile, *, n_workers: int | None, lease: Lease) -> Iterator[Client]:
            assert lease.cube.is_relative_to(tmp_path / "results" / "deep")
            if state:
                job = JobRecord(name="a", job="12", node="", state=state, workers=0)
                JobList(n_jobs=1, jobs=(job,), n_lost=0, lost=(), at=0.0).write(lease.generation.jobs)
            lease.generation.run.job_logs.mkdir()
            if log:
                (lease.generation.run.job_logs / "12.err").write_text(log)
            if error is not None:
                raise error
            assert client is not None
            yield client

        checks: list[Check] = []
        monkeypatch.setattr(doctor, "connect", connect)
        site = profile_of(**{"kind": "local", "workers": 1} | keys)
        doctor.examine(site, tmp_path / "results" / "deep", checks.append, workers=None, wait=15.0)
        assert list(tmp_path.iterdir()) == []
        return checks

    return checks_of


def test_a_cluster_that_works_is_ok(examine: Examine) -> None:
    checks = examine(Client())
    names = "worker software processor clock network cores memory walltime files renames syncs locks"
    assert [check.name for check in checks] == names.split()
    assert {check.level for check in checks} == {OK}


def test_what_a_worker_finds_is_judged(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = {check.name: check.level for check in examine(Client(ahead=10.0))}
    assert levels.pop("clock") == WARNING
    assert set(levels.values()) == {OK}
    (check,) = examine(
        Client(ModuleNotFoundError("No module named 'sweep_clustering.pipeline.submit.doctor'"))
    )
    assert check.level == FAILURE
    assert check.key == "python"
    assert "submit.doctor" in check.value

    def without_links(source: Path, target: Path) -> None:
        if target.name.startswith("lock."):
            raise PermissionError(1, "Operation not permitted", str(target))
        link(source, target)

    link = os.link
    monkeypatch.setattr(os, "link", without_links)
    check = examine(Client())[-1]
    assert check.level == FAILURE
    assert check.key == "--results"
    assert "Operation not permitted" in check.value


@pytest.mark.parametrize(
    ("state", "reason", "log", "value", "key"),
    [
        ("pending (Priority)", "no worker", "", "job 12 is still pending (Priority)", "queue, "),
        ("starting", "no worker", "", "job 12 runs and has no worker", "interface"),
        ("refused", "cannot\nsbatch: limit", "", "job 12 was refused\nsbatch: limit", "queue, account"),
        ("gone", "die at once\n  no python", "no python", "job 12 died at once\nno python", "python, "),
        ("gone", "die at once", "", "job 12 died at once\nit left no log", "--results"),
        ("running (None)", "no worker", "", "job 12 lost its worker", "memory"),
        ("", "no process can be started", "", "no process can be started", "workers"),
    ],
)
def test_a_job_without_a_worker_is_a_failure_with_its_reason(
    state: str, reason: str, log: str, value: str, key: str, examine: Examine
) -> None:
    (check,) = examine(error=queues.ComputeClusterError(reason), state=state, log=log)
    assert check.level == FAILURE
    assert check.value.startswith(value)
    assert check.key.startswith(key)
    assert check.expected


def test_packages_that_do_not_fit_are_a_failure(examine: Examine) -> None:
    (check,) = examine(error=InstallationError("numba 0.62 does not support numpy 2.5"))
    assert check == Check(
        "software", FAILURE, "numba 0.62 does not support numpy 2.5", check.expected, "python"
    )


@pytest.mark.parametrize("warnings", [[], ["2 jobs are more than the 1 that SLURM takes", "another"]])
def test_limits_of_the_queue_are_shown_first(
    warnings: list[str], examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "limit_warnings", lambda options, n_jobs: iter(warnings))
    monkeypatch.setattr(doctor, "job_problems", lambda options, where, run: [])
    limits, worker = examine(error=queues.ComputeClusterError("none"), kind="slurm")
    assert limits.level == (WARNING if warnings else OK)
    assert limits.value.splitlines() == (warnings or ["room for 1 job"])
    assert "workers" in limits.key
    assert worker.level == FAILURE


def test_rows_fit_into_a_terminal() -> None:
    check = Check("software", WARNING, "a long text " * 20 + "\nan end", "this " * 30, "python")
    lines = check.lines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("warning  software    a long text")
    assert lines[-1].split() == ["change:", "python"]
    assert replace(check, level=OK, value="fine").lines() == ["ok       software    fine"]


# As a user types it.


def run_doctor(folder: Path, *arguments: object) -> tuple[int, dict[str, dict[str, str]]]:
    """Return the exit code and the checks by name, and check that nothing is left."""
    result = sweep("doctor", "--results", folder / "results", "--json", *arguments)
    assert result.exit_code in (0, 1), result.output
    assert not (folder / "results").exists()
    return result.exit_code, {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_workers_of_this_machine_are_tried(tmp_path: Path) -> None:
    code, checks = run_doctor(tmp_path, "--workers", 1)
    assert code == 0
    assert {check["level"] for check in checks.values()} == {OK}
    assert len(checks) == 12


def test_an_unknown_profile_is_bad_input(tmp_path: Path) -> None:
    problems = refuse("doctor", "--profile", "nothing", "--results", tmp_path / "results")
    assert "no profile 'nothing'" in problems
    assert list(tmp_path.iterdir()) == []


def test_a_running_scheduler_is_tried(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    quiet = {"processes": False, "protocol": "tcp", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, host="127.0.0.1", **quiet) as scheduler:
        file.write_text(f"lab: {{kind: address, address: '{scheduler.scheduler_address}'}}\n")
        code, checks = run_doctor(tmp_path, "--profile", "lab", "--cluster", file)
    assert code == 0
    assert list(checks) == [
        "worker",
        "software",
        "processor",
        "clock",
        "network",
        "cores",
        "memory",
        "walltime",
    ]


PROFILES = """
slurm: {kind: slurm, cores: 2, memory: 2GB, walltime: "00:10:00", interface: lo}
waits: {kind: slurm, cores: 1, memory: 1GB, interface: lo, queue: closed}
dies: {kind: slurm, cores: 1, memory: 1GB, interface: lo, python: /nowhere/python}
refused: {kind: slurm, cores: 1, memory: 1GB, interface: lo, job_extra_directives: [--constraint=none]}
nowhere: {kind: slurm, cores: 1, memory: 1GB, interface: lo, queue: nowhere}
elsewhere: {kind: slurm, cores: 1, memory: 1GB, interface: lo, job_extra_directives: [--chdir=/]}
alone: {kind: slurm, cores: 1, memory: 1GB, interface: lo, job_script_prologue: ["sleep 60"]}
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    with slurm_site.slurm_site() as home:
        (home / "cluster.yaml").write_text(PROFILES)
        yield home


@pytest.mark.slow
def test_a_real_queue_is_tried(site: Path, tmp_path: Path) -> None:
    def try_profile(profile: str, *arguments: object) -> tuple[int, dict[str, dict[str, str]]]:
        places = "--profile", profile, "--cluster", site / "cluster.yaml"
        result = run_doctor(tmp_path, *places, *arguments)
        sweeping.wait_until(lambda: slurm_site.queue() == [], seconds=30)
        return result

    code, checks = try_profile("slurm")
    assert code == 0
    assert {check["level"] for check in checks.values()} == {OK}
    assert "0:10:00 (SLURM)" in checks["walltime"]["value"]
    assert "(SLURM_MEM_PER_NODE)" in checks["memory"]["value"]
    assert "its process began after" in checks["worker"]["value"]
    code, checks = try_profile("slurm", "--workers", 9)
    assert code == 0
    assert checks["limits"]["level"] == WARNING
    for profile, words, key in (
        ("waits", "is still pending (PartitionDown)", "--wait"),
        ("dies", "died at once\n", "python"),
        ("refused", "the job was refused\n", "queue"),
        ("alone", "runs and has no worker", "interface"),
    ):
        code, checks = try_profile(profile, "--wait", 5)
        assert code == 1, profile
        assert words in checks["worker"]["value"]
        assert key in checks["worker"]["key"]
    code, checks = try_profile("nowhere")
    assert code == 1
    assert checks["profile"]["key"].endswith("nowhere: queue")


@pytest.mark.slow
def test_a_real_grid_engine_is_tried(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("""
sge: {kind: sge, cores: 2, memory: 1GB, walltime: "00:10:00", interface: lo, pe: smp}
waits: {kind: sge, cores: 1, memory: 1GB, interface: lo, job_extra_directives: ["-pe smp 9"]}
""")
    with grid_engine.grid_engine():
        code, checks = run_doctor(tmp_path, "--profile", "sge", "--cluster", file)
        assert code == 0, checks
        assert {check["level"] for check in checks.values()} == {OK}
        assert checks["cores"]["value"] == "2 (NSLOTS)"
        assert checks["walltime"]["value"] == "0:10:00 (Grid Engine)"
        code, checks = run_doctor(tmp_path, "--profile", "waits", "--cluster", file, "--wait", 5)
        assert code == 1
        assert "is still pending" in checks["worker"]["value"]
        sweeping.wait_until(lambda: grid_engine.queue() == [], seconds=30)


@pytest.mark.slow
def test_a_job_that_starts_in_another_folder_finds_its_credentials(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, checks = run_doctor(Path(), "--profile", "elsewhere", "--cluster", site / "cluster.yaml")
    assert code == 0, checks


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "state"), [("waits", "PENDING"), ("alone", "RUNNING")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(profile: str, state: str, number: int, site: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sweep_clustering", "doctor", "--profile", profile]
    command += ["--cluster", str(site / "cluster.yaml"), "--results", str(tmp_path / "results")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        sweeping.wait_until(lambda: state in queues.run(["squeue", "--noheader", "--format=%T"]), process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert errors.splitlines()[-1] == f"stopped by {signal.Signals(number).name}"
    assert "Traceback" not in errors
    sweeping.wait_until(lambda: slurm_site.queue() == [], seconds=30)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_folder_of_one_node_is_found() -> None:
    """The nodes share the folder of the hosts, and not the disk of the login node."""
    with cluster() as hosts:
        for folder, codes in ((hosts.home / "results", (0,)), (hosts.login.local / "results", (1,))):
            words = (
                "doctor",
                "--profile",
                "slurm",
                "--cluster",
                hosts.profile,
                "--results",
                folder,
                "--json",
            )
            process = subprocess.run(
                hosts.login.command(sys.executable, "-m", "sweep_clustering", *words),
                capture_output=True,
                text=True,
                check=False,
                timeout=200,
            )
            assert process.returncode in codes, process.stdout + process.stderr
            checks = {check["name"]: check for check in json.loads(process.stdout)["checks"]}
            if codes == (0,):
                assert "host" in checks["worker"]["value"]
                assert "10.77.0." in checks["network"]["value"]
            else:
                assert checks["worker"]["key"] == "--results"
                assert "it left no log" in checks["worker"]["value"]
            assert hosts.login.run("ls", folder.parent).split().count("results") == 0
            assert hosts.queue() == {}


def test_a_profile_of_the_file_keeps_its_limits(tmp_path: Path) -> None:
    """The death of one job is an answer and the wait is short; the rest of the profile stays."""
    file = tmp_path / "cluster.yaml"
    file.write_text("none: {kind: slurm, cores: 1, memory: 1GB, interface: nothing}\n")
    assert load_profile("none", file).options.kind == "slurm"
    code, checks = run_doctor(tmp_path, "--profile", "none", "--cluster", file)
    assert code == 1
    assert checks["profile"]["key"].endswith("none: interface")
