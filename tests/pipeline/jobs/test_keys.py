"""Keys of queue profiles are those of dask-jobqueue, bad ones are refused, and scripts contain the rest."""

import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import dask
import pytest
import yaml
from checkout import ROOT
from pydantic_core import PydanticCustomError

from sweep_clustering.pipeline.cluster.profiles import load_profile
from sweep_clustering.pipeline.jobs import keys
from sweep_clustering.pipeline.jobs.cluster import job_script, lifetime
from sweep_clustering.pipeline.jobs.queues import job_prefix
from sweep_clustering.pipeline.run.head import head_script
from sweep_clustering.pipeline.submit.submission import job_problems
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.sweeps.errors import InputError

NO_NUMBERS = ["", "much", 0, -1, True, None, [], 10**400]
SIZES = {"4GiB": 4 * 2**30, "1GB": 10**9, 2**20: 2**20}
TIMES = {"12h": 43_200.0, "90 s": 90.0, 2.5: 2.5}


@pytest.mark.parametrize(
    ("check", "values", "refused"),
    [
        (keys.size, SIZES, [*NO_NUMBERS, 1.5, 2e9, 64, "1kB", "GB", " GiB", "1e400GB"]),
        (keys.time_span, TIMES, [*NO_NUMBERS, "0s", "h", "1e400h", "nan", float("nan"), 1e300]),
        (partial(keys.walltime, "slurm"), {"2-00:00:00": "2-00:00:00"}, [36_000, "ten hours", "", None]),
        (partial(keys.walltime, "pbs"), {"as it is": "as it is"}, [36_000, "", "a\nb"]),
        (keys.name, {"a b": "a b", 8: "8"}, [None, [], "", " ", "a\nb", True, 1.5, float("nan")]),
        (keys.plain, {"a b": "a b", True: True, 0: 0}, [None, [], "", " ", "a\nb", "a\x1b[0m"]),
        (keys.word, {"long": "long"}, [1, "", "a b", " a", "a\nb"]),
        (keys.command, {"a 'b c'": ["a", "b c"]}, ["", [], "a 'b", 1, None, ["a\n"]]),
        (keys.lines, {}, ["--exclusive", [1], ["a\nb"], [""], None]),
        (keys.pairs, {}, [["a"], {"a": None}, {"a": "b\nc"}, {"": 1}]),
    ],
)
def test_values_one_by_one(check: Any, values: dict[Any, Any], refused: list[Any]) -> None:
    for value, expected in values.items():
        assert check(value) == expected
        assert type(check(value)) is type(expected)
    for value in refused:
        with pytest.raises(PydanticCustomError):
            check(value)
    assert keys.lines(["--exclusive", "a b"]) == ["--exclusive", "a b"]
    assert keys.pairs({"request_gpus": 0}) == {"request_gpus": 0}


def read(folder: Path, text: str) -> Any:
    (folder / "cluster.yaml").write_text(f"big: {{{text}}}")
    return load_profile("big", folder / "cluster.yaml").options


def script_of(folder: Path, text: str) -> str:
    return job_script(read(folder, text), RunFolder(folder / "some.zarr"))


def test_keys_and_defaults_are_those_of_the_installed_package_alone(tmp_path: Path) -> None:
    names = set(keys.known_keys("slurm"))
    assert {"queue", "account", "walltime", "interface", "job_extra_directives"} <= names
    assert not names & (keys.OURS | keys.DEPRECATED | {"project", "kwargs", "job_kwargs"})
    before = signal.getsignal(signal.SIGINT)
    mine = {"walltime": "07:00:00", "queue": "mine", "worker-extra-args": ["--no-such"], "extra": []}
    with dask.config.set({"jobqueue": {"slurm": mine}}):
        options = read(tmp_path, "kind: slurm, cores: 2, memory: 4GB")
        script = job_script(options, RunFolder(tmp_path / "a.zarr"))
    assert not re.search("mine|--no-such", script)
    assert options.memory == 4_000_000_000
    assert options.walltime_seconds == 1800.0
    assert not options.insecure
    assert signal.getsignal(signal.SIGINT) is before, "importing dask-jobqueue leaves Ctrl-C alone"


@pytest.mark.parametrize("system", keys.CLASSES)
def test_every_system_prints_its_script(system: str, tmp_path: Path) -> None:
    needed = {"htcondor": ", disk: 1GB", "oar": ", memory_per_core_property_name: mem_core"}.get(system, "")
    prefix = "worker_prefix: [enter, --bind, /a b, 'it''s.sif']"
    script = script_of(tmp_path, f"kind: {system}, cores: 4, memory: 8GB, interface: lo, {prefix}{needed}")
    words = """enter --bind '/a b' 'it'"'"'s.sif' """ + f"{sys.executable} -m distributed"
    assert words in (script.replace("''", "'").replace('""', '"') if system == "htcondor" else script)
    parts = "export PYTHONSAFEPATH=1", "distributed.cli.dask_worker tls://SCHEDULER:PORT ", "--nthreads 1 "
    key = f"--tls-key {tmp_path}/some.run/generation.1/tls/key.pem"
    assert [text for text in (*parts, "--nworkers 4 ", key) if text not in script] == []
    assert not (tmp_path / "some.run").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("quue: long", "did you mean 'queue'?"),
        ("protocol: tcp", "unknown key 'protocol'"),
        ("extra: []", "unknown key 'extra'"),
        ("processes: 1", "processes: found 1, expected 2, as many as cores"),
        ("walltime: 10:00:00", 'walltime: found 36000, expected a time in quotes, such as "10:00:00"'),
        ("job_extra_directives: --exclusive", "expected a list of texts"),
        ('queue: "a\\nb"', "expected a text of one line"),
        ("start_timeout: soon", 'expected a time such as "30min"'),
        ("memory: 64", "a number without a unit counts bytes"),
        ("insecure: 1", "insecure: found 1, expected true or false"),
    ],
)
def test_what_is_refused(text: str, says: str, tmp_path: Path) -> None:
    memory = "" if "memory" in text else "memory: 4GB, "
    with pytest.raises(InputError, match=re.escape(says)):
        read(tmp_path, f"kind: slurm, cores: 2, {memory}{text}")


def test_the_reference_explains_our_keys_and_the_example_of_the_guide_is_one(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^<!-- cluster.yaml -->\n```yaml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    options = read(tmp_path, yaml.safe_dump(yaml.safe_load(example)["slurm"], default_flow_style=True)[1:-2])
    assert isinstance(options, keys.KnownQueue)
    assert options.cores == 2
    assert options.workers == 2
    assert options.walltime_seconds == 3600.0
    section = (ROOT / "docs" / "reference" / "profiles.md").read_text(encoding="utf-8")
    assert {*keys.KnownQueue.model_fields} - {"kind"} <= set(re.findall(r"`(\w+)`", section))
    assert all(f"`{system}`" in section or f"kind: {system}" in section for system in keys.CLASSES)


def test_the_example_of_the_guide_to_grid_engine_is_one(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "grid-engine.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    options = read(tmp_path, yaml.safe_dump(yaml.safe_load(example)["sge"], default_flow_style=True)[1:-2])
    assert isinstance(options, keys.KnownQueue)
    script = job_script(options, RunFolder(tmp_path / "a.zarr"))
    assert [line for line in script.splitlines() if line.startswith(("#$ -pe", "#$ -S", "#$ -l"))] == [
        "#$ -l mem_free=2G",
        "#$ -l h_rt=01:00:00",
        "#$ -pe smp 2",
        "#$ -S /bin/bash",
    ]
    (line,) = re.findall("export SWEEP_JOB_END=.*", script)
    end = subprocess.check_output(["sh", "-c", f"{line}; echo $SWEEP_JOB_END"], text=True)
    assert 3590 < int(end) - time.time() < 3610
    script = head_script(options, RunFolder(tmp_path / "a.zarr"), ["submit", "a.toml"])
    assert "#$ -l h_rt=3600,s_rt=3420\n" in script
    assert "#$ -q main.q\n" in script


def test_workers_are_gone_before_the_walltime(tmp_path: Path) -> None:
    text = "kind: slurm, cores: 1, memory: 1GB"
    for minutes in (2, 2880):
        options = f'{text}, walltime: "{minutes}"'
        life, stagger = lifetime(read(tmp_path, options)) or (0.0, 0.0)
        assert life + 2 * stagger == pytest.approx(60 * minutes)
        assert 0 < stagger <= 300
        assert f"--lifetime {life:.0f}s --lifetime-stagger {stagger:.0f}s" in script_of(tmp_path, options)
    unknown = 'kind: lsf, cores: 1, memory: 1GB, walltime: "00:30"'
    assert lifetime(read(tmp_path, unknown)) is None
    assert "--lifetime" not in script_of(tmp_path, unknown)
    with_lifetime = script_of(tmp_path, f'{text}, worker_extra_args: ["--lifetime", "1h"]')
    assert with_lifetime.count("--lifetime") == 1, "one of ones own is kept"
    assert with_lifetime.count("--lifetime 1h") == 1, "one of ones own is kept"
    # the watch starts jobs again, and not SLURM; but a site's own words come last, and count
    requeued = script_of(tmp_path, f"{text}, job_extra_directives: [--requeue]")
    assert re.findall(r"#SBATCH (\S*requeue)", requeued) == ["--no-requeue", "--requeue"]


def test_names_are_plain_and_paths_that_a_script_cannot_hold_are_said(tmp_path: Path) -> None:
    names = {job_prefix(RunFolder(tmp_path / folder / "ünï x.zarr")) for folder in ("a", "b")}
    assert len(names) == 2, "each cube has its own"
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)
    options = read(tmp_path, "kind: slurm, cores: 1, memory: 1GB")
    for cube in ("plain.zarr", "a b.zarr", "a%j.zarr", "a;b.zarr", "$HOME.zarr"):
        places = [problem.where for problem in job_problems(options, "big:", RunFolder(tmp_path / cube))]
        assert ("--results" in places) == (cube != "plain.zarr")
