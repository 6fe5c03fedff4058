"""Keys of queue profiles: what dask-jobqueue takes, what is refused, what the jobs are made of."""

from __future__ import annotations

import inspect
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import pytest
from checkout import ROOT
from dask_jobqueue import SLURMCluster
from dask_jobqueue.slurm import SLURMJob
from pydantic_core import PydanticCustomError

from pipeline.cluster.profiles import load_profile
from pipeline.jobs.cluster import job_script, lifetime, path_problems
from pipeline.jobs.keys import (
    CLASSES,
    DEPRECATED,
    OURS,
    JobQueue,
    SlurmQueue,
    cluster_class,
    known_keys,
    lines,
    name,
    pairs,
    plain,
    size,
    time_span,
    walltime,
    word,
)
from pipeline.jobs.slurm import run_id, walltime_seconds
from storage.runfolder.folder import RunFolder
from sweeps.errors import InputError

# Types of the values in a profile, one by one.


@pytest.mark.parametrize(
    ("check", "value", "taken"),
    [
        (size, "4GiB", 4 * 2**30),
        (size, "1GB", 10**9),
        (size, 2**20, 2**20),
        (time_span, "12h", 43_200.0),
        (time_span, "90 s", 90.0),
        (time_span, 2.5, 2.5),
        (walltime("slurm"), "2-00:00:00", "2-00:00:00"),
        (walltime("pbs"), "as the site writes it", "as the site writes it"),
        (lines, ["--exclusive", "a b"], ["--exclusive", "a b"]),
        (pairs, {"request_gpus": 0}, {"request_gpus": 0}),
        (name, "a b", "a b"),
        (name, 8, "8"),
        (plain, "a b", "a b"),
        (plain, True, True),
        (word, "long", "long"),
    ],
)
def test_what_is_taken(check: Callable[[Any], Any], value: object, taken: object) -> None:
    assert check(value) == taken


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (size, ["", "much", "0", 0, -1, True, None, 1.5, 1, 64, "1kB", "GB", " GiB", "1e400GB", 10**400]),
        (time_span, ["", "soon", "0s", 0, -1, True, None, "h", "1e400h", "nan", 1e300, 10**400]),
        (walltime("slurm"), [36_000, "ten hours", "", None]),
        (walltime("pbs"), [36_000, "", "a\nb"]),
        (lines, ["--exclusive", [1], ["a\nb"], [""], None]),
        (pairs, [["a"], {"a": None}, {"a": "b\nc"}, {"": 1}]),
        (name, [None, [], "", " ", "a\nb", True, 1.5, float("nan")]),
        (plain, [None, [], "", " ", "a\nb", "a\x1b[0m"]),
        (word, [1, "", "a b", " a", "a\nb"]),
    ],
)
def test_what_is_refused_of_values(check: Callable[[Any], Any], values: list[object]) -> None:
    for value in values:
        with pytest.raises((PydanticCustomError, ValueError)):
            check(value)


def read(tmp_path: Path, text: str) -> JobQueue:
    path = tmp_path / "cluster.yaml"
    path.write_text(f"big: {{{text}}}")
    options = load_profile("big", path).options
    assert isinstance(options, JobQueue)
    return options


def test_keys_are_those_of_the_installed_class() -> None:
    parameters = {
        name
        for kind in (*SLURMCluster.__mro__, *SLURMJob.__mro__)
        if kind.__module__.startswith("dask_jobqueue")
        for name in inspect.signature(kind.__init__).parameters
    }
    catch_all = {"kwargs", "job_kwargs", "base_class_kwargs", "args"}
    expected = parameters - OURS - DEPRECATED - catch_all - {"project"}
    assert set(known_keys("slurm")) == expected
    assert {"queue", "account", "walltime", "interface", "job_extra_directives"} <= expected


@pytest.mark.parametrize("system", CLASSES)
def test_every_system_prints_its_script(system: str, tmp_path: Path) -> None:
    needed = {"htcondor": ", disk: 1GB", "oar": ", memory_per_core_property_name: mem_core"}
    options = read(tmp_path, f"kind: {system}, cores: 4, memory: 8GB, interface: lo{needed.get(system, '')}")
    assert options.keys["processes"] == 4
    script = job_script(options, RunFolder(tmp_path / "some.zarr"))
    assert "export PYTHONSAFEPATH=1" in script
    assert "distributed.cli.dask_worker tls://SCHEDULER:PORT " in script
    assert "--nthreads 1 " in script
    assert "--nworkers 4 " in script
    assert f"--tls-key {tmp_path}/some.run/generation.1/tls/key.pem" in script
    assert not (tmp_path / "some.run").exists()


def test_slurm_starts_no_worker_job_again(tmp_path: Path) -> None:
    """The watch does; but a site's own words come last, and count."""
    options = read(tmp_path, "kind: slurm, cores: 1, memory: 1GB, job_extra_directives: [--requeue]")
    script = job_script(options, RunFolder(tmp_path / "some.zarr"))
    directives = [line.split()[1] for line in script.splitlines() if "requeue" in line]
    assert directives == ["--no-requeue", "--requeue"]


def test_importing_dask_jobqueue_leaves_ctrl_c_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    cluster_class("slurm")
    assert signal.getsignal(signal.SIGINT) is before


def test_defaults_are_not_those_of_dask_s_configuration(tmp_path: Path) -> None:
    mine = {"walltime": "07:00:00", "queue": "mine", "worker-extra-args": ["--no-such"], "extra": []}
    with dask.config.set({"jobqueue": {"slurm": mine}}):
        options = read(tmp_path, "kind: slurm, cores: 2, memory: 4GB")
        script = job_script(options, RunFolder(tmp_path / "a.zarr"))
    assert "mine" not in script
    assert "--no-such" not in script
    assert (options.workers, options.start_timeout, options.failed_starts) == (1, 43_200.0, 3)
    assert (options.memory, options.walltime_seconds, options.insecure) == (4_000_000_000, 1800.0, False)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("quue: long", "unknown key 'quue'"),
        ("quue: long", "did you mean 'queue'?"),
        ("protocol: tcp", "unknown key 'protocol'"),
        ("job_name: mine", "unknown key 'job_name'"),
        ("extra: []", "unknown key 'extra'"),
        ("processes: 1", "processes: found 1, expected 2, as many as cores"),
        ("walltime: 10:00:00", 'walltime: found 36000, expected a time in quotes, such as "10:00:00"'),
        ('walltime: "ten hours"', "expected a time such as"),
        ("job_extra_directives: --exclusive", "expected a list of texts"),
        ('queue: "a\\nb"', "expected a text of one line"),
        ('job_script_prologue: ["a\\nb"]', "expected a text of one line"),
        ("workers: 0", "workers: found 0, expected a whole number 1..100000"),
        ("start_timeout: soon", 'expected a time such as "30min"'),
        ("failed_starts: 0", "failed_starts: found 0"),
        ("insecure: 1", "insecure: found 1, expected true or false"),
    ],
)
def test_what_is_refused(keys: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        read(tmp_path, f"kind: slurm, cores: 2, memory: 4GB, {keys}")


def test_the_guide_explains_our_keys_and_its_example_is_one(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^<!-- cluster.yaml -->\n```yaml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    path = tmp_path / "cluster.yaml"
    path.write_text(example)
    options = load_profile("slurm", path).options
    assert isinstance(options, SlurmQueue)
    assert (options.cores, options.workers, options.walltime_seconds) == (2, 2, 3600.0)
    own = {*SlurmQueue.model_fields} - {"kind"}
    section = guide[guide.index("## On your cluster") :]
    assert own <= set(re.findall(r"`(\w+)`", section))
    assert all(f"`{system}`" in section or f"kind: {system}" in section for system in CLASSES)


def test_cores_and_memory_are_wanted_together(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, "kind: slurm, memory: much")
    assert [problem.where.rsplit(" ", 1)[1] for problem in caught.value.problems] == ["cores", "memory"]


@pytest.mark.parametrize(
    ("system", "text", "seconds"),
    [
        ("slurm", "30", 1800),
        ("slurm", "30:10", 1810),
        ("slurm", "1:00:00", 3600),
        ("slurm", "2-00", 172_800),
        ("slurm", "2-01:30:10", 178_210),
        ("slurm", "UNLIMITED", None),
        ("pbs", "01:00:00", 3600),
        ("lsf", "00:30", None),
    ],
)
def test_walltimes(system: str, text: str, seconds: float | None) -> None:
    assert walltime_seconds(system, text) == seconds


@pytest.mark.parametrize("minutes", [2, 60, 2880])
def test_workers_are_gone_before_the_walltime(minutes: int, tmp_path: Path) -> None:
    options = read(tmp_path, f'kind: slurm, cores: 1, memory: 1GB, walltime: "{minutes}"')
    found = lifetime(options)
    assert found is not None
    assert found[0] + 2 * found[1] == pytest.approx(60 * minutes)
    assert 0 < found[1] <= 300
    script = job_script(options, RunFolder(tmp_path / "a.zarr"))
    assert f"--lifetime {found[0]:.0f}s --lifetime-stagger {found[1]:.0f}s" in script


def test_no_lifetime_where_the_walltime_is_unknown(tmp_path: Path) -> None:
    options = read(tmp_path, 'kind: lsf, cores: 1, memory: 1GB, walltime: "00:30"')
    assert lifetime(options) is None
    assert "--lifetime" not in job_script(options, RunFolder(tmp_path / "a.zarr"))


def test_a_lifetime_of_ones_own_is_kept(tmp_path: Path) -> None:
    options = read(tmp_path, 'kind: slurm, cores: 1, memory: 1GB, worker_extra_args: ["--lifetime", "1h"]')
    script = job_script(options, RunFolder(tmp_path / "a.zarr"))
    assert script.count("--lifetime") == 1
    assert "--lifetime 1h" in script


def test_names_are_plain_and_each_cube_has_its_own(tmp_path: Path) -> None:
    names = {run_id(RunFolder(tmp_path / folder / "ünï x.zarr")) for folder in ("a", "b")}
    assert len(names) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)


def test_paths_that_a_script_cannot_hold(tmp_path: Path) -> None:
    assert path_problems(RunFolder(tmp_path / "plain.zarr")) == []
    for cube in ("a b.zarr", "a%j.zarr", "a;b.zarr", "$HOME.zarr"):
        assert [problem.where for problem in path_problems(RunFolder(tmp_path / cube))] == ["--results"]
