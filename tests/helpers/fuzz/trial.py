"""A trial damages a good file, runs a command on it, and checks how the command ends."""

import json
import logging
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import tomli_w
import yaml
from fuzz import damage
from processes.commandline import sweep
from processes.sweeping import run

from sweep_clustering.storage.runfolder import folder as records
from sweep_clustering.storage.runfolder import lease

SWEEP = """
name = "tiny"
seed = 5
[grid]
datasets = [{name = "own", path = "own.csv", label_column = "kind"},
            {mixture = {n_clusters = [2], count = 2, n_samples = 12, n_features = 2}}]
p = [0.9]
m = [6, "1N"]
replicates = 2
models = ["unsupervised", "likelihood"]
restarts = 2
[search]
population = 2
offspring = 2
generations = 1
"""
METHODS = """models = ["conditional-auto", "posterior-full"]
methods = ["k-means", {name = "mine", call = "own.py:cluster", options = {a = 1.5}, time_limit = 2.0}]
restarts = 3
"""
MORE = """method = "published"
crossover = "labels"
mutation = 0.2
held_out = true
variance_prior = 0.5
feature_weight = "effective"
proportions = "free"
[data]
scale = "standard"
unavailable = "skip"
[stop]
risk = 0.1
r_min = 2
"""
FULL = SWEEP.replace('models = ["unsupervised", "likelihood"]\nrestarts = 2\n', METHODS) + MORE
CELL = "own/p=0.9/m=6/replicate=0/likelihood"
LATER = "own/p=0.9/m=6/replicate=1/likelihood"
CLUSTER = """
local: {kind: local, workers: 2, dashboard_port: 0, memory_limit: 2GiB}
other:
  kind: address
  address: "tls://scheduler.example.org:8786"
  tls: {ca: ca.pem, cert: cert.pem, key: key.pem}
slurm:
  kind: slurm
  cores: 2
  memory: 4GB
  walltime: "10:00:00"
  queue: long
  workers: 3
  start_timeout: 12h
  job_extra_directives: ["--exclusive"]
  head: {cores: 1, memory: 2GiB, walltime: "1-00:00:00"}
pbs: &jobs {kind: pbs, cores: 1, memory: 2GB, walltime: "01:00:00"}
again: {<<: *jobs, kind: sge}
"""


@dataclass(frozen=True)
class Scene:
    """Folders of a trial, in which nothing outside of `results` may change."""

    inputs: Path
    results: Path

    @property
    def run(self) -> records.RunFolder:
        return records.RunFolder(self.results / "tiny.zarr")


@dataclass(frozen=True)
class Templates:
    """Input files, with the results of a whole run, and of one that left records in its journal."""

    finished: Scene
    begun: Scene


def make_templates(folder: Path) -> Templates:
    inputs = folder / "inputs"
    inputs.mkdir(parents=True)
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(5, 2)), rng.normal(4, 1, (4, 2))])
    rows, kinds = [f"{x!r},{y!r}" for x, y in X.tolist()], list("aaaaabbbb")
    texts = {
        "own.csv": "\n".join(["x,y,kind", *map("{},{}".format, rows, kinds), ""]),
        "plain.csv": "\n".join([*rows, ""]),
        "labels": "\n".join([*kinds, ""]),
        "links": "1,2,1\n3,4,0.5\n5,5,2\n# more\n1,6\n",
        "annotations": "1,2,must,1,ann\n3,9,cannot,2,bob,0.9\n5,5,m,2,ann\n",
        "tiny.toml": SWEEP,
        "full.toml": FULL,
        "cluster.yaml": CLUSTER,
        "own.py": "def cluster(X, n_clusters, **options):\n    return [0] * len(X)\n",
        **dict.fromkeys(("ca.pem", "cert.pem", "key.pem"), ""),
    }
    for name, text in texts.items():
        (inputs / name).write_text(text)
    np.savez(inputs / "own.npz", X=X, y=np.array(kinds), notes=np.arange(3))
    templates = Templates(Scene(inputs, folder / "finished"), Scene(inputs, folder / "begun"))
    level = logging.getLogger("sweep_clustering").level
    assert run(inputs / "tiny.toml", templates.finished.results) == 0
    # the second redraw alone: what it has waits in the journal for the first
    assert run(inputs / "tiny.toml", templates.begun.results, only=(LATER,)) == 0
    logging.getLogger("sweep_clustering").setLevel(level)
    assert templates.begun.run.last_run.journal.stat().st_size > 1000
    for scene in (templates.finished, templates.begun):
        _complete_run(scene.run)
    return templates


def _complete_run(run: records.RunFolder) -> None:
    """Write records of a detached head, worker jobs and failures, and a lease of another machine.

    So no trial can take this process for the head of a run, and end it.
    """
    work, place = (
        records.FailedWork(start=0, stop=2, objectives=(1.0,)),
        {"node": "n1", "job": "7", "at": "now"},
    )
    failure = records.FailureRecord(work=work, cause="E: no", traceback="a\nb", cell=LATER, **place)
    records.append_failure(run.last_run.failures, failure)
    records.Submission(system="slurm", job="12", host="login", at=1.0).write(run.submission)
    job = records.JobRecord(name="j-0", job="7", node="n1", state="running", workers=1)
    lost = records.LostJob(name="j-1", job="8", node="n2", how="FAILED", at=2.0)
    records.JobList(n_jobs=2, jobs=(job,), n_lost=1, lost=(lost,), at=3.0).write(run.last_run.jobs)
    run.job_logs.mkdir(exist_ok=True)
    (run.job_logs / "j-0-7.out").write_text("started\n")
    run.head_log.write_text("head\n")
    for path in map(run.lease, run.lease_numbers()):
        record = json.loads(path.read_bytes())
        record["process"].update(boot_id="another", host="elsewhere", pid=2**22)
        path.write_text(json.dumps(record))


NUMBERS = (
    *("0", "1", "-1", "nan", "inf", "", "1e400", "1_0", "x", "0x1", "٣", "1e-400", '"', "1e308", "-1e308"),
    "9" * 400,
)
PAIRS = (*NUMBERS, "must", "c", "ann", "a=b", "0.5", "1.0", "2", "3", "10", "é", "+", "#")

# Puts damaged files in place, and returns the arguments of `sweep`.
Kind = Callable[[random.Random, Templates, Scene], list[object]]


def sweep_file(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Damage a sweep file, as text or in its values."""
    path = scene.inputs / "tiny.toml"
    content = (scene.inputs / rng.choice(("tiny.toml", "full.toml"))).read_bytes()
    if rng.random() < 0.3:
        content = damage.damage_bytes(rng, content)
    else:
        tree = damage.damage_tree(rng, tomllib.loads(content.decode()))
        try:
            content = tomli_w.dumps(tree).encode(errors="surrogatepass")
        except (TypeError, AttributeError, RecursionError, ValueError):  # TOML has no null, for example
            content = str(tree).encode()
    path.write_bytes(content)
    results = ["--results", scene.results]
    ways = (
        ["plan", *results],
        ["submit", "--dry-run", *results],
        ["status", *results],
        ["plan", "--resolved"],
    )
    return [*rng.choice(ways), path]


def cluster(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Damage cluster.yaml, as text or in its values."""
    path = scene.inputs / "cluster.yaml"
    content = path.read_bytes()
    if rng.random() < 0.4:
        path.write_bytes(damage.damage_bytes(rng, content))
    else:
        tree = damage.damage_tree(rng, yaml.safe_load(content))
        path.write_text(yaml.safe_dump(tree, allow_unicode=rng.random() < 0.5), errors="replace")
    name = rng.choice(("local", "other", "slurm", "slurm", "pbs", "again", "on", "absent"))
    more = rng.choice(([], ["--detach"], ["--workers", "3"]))
    spec = ["submit", scene.inputs / "tiny.toml", "--results", scene.results]
    return [*spec, "--dry-run", "--cluster", path, "--profile", name, *more]


def text_table(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Damage a table in text of a sweep or a fit."""
    in_sweep = rng.random() < 0.3
    path = scene.inputs / ("own.csv" if in_sweep else "plain.csv")
    path.write_bytes(damage.damage_lines(rng, path.read_bytes(), NUMBERS))
    return ["plan", scene.inputs / "tiny.toml", "--results", scene.results] if in_sweep else _fit(rng, path)


def npz_table(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Damage a table in arrays."""
    path = scene.inputs / "own.npz"
    path.write_bytes(damage.damage_archive(rng, path.read_bytes()))
    return _fit(rng, path)


def annotations(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Damage a file of links, annotations or labels."""
    option = rng.choice(("--must-link", "--cannot-link", "--annotations", "--labels"))
    path = scene.inputs / ("links" if option.endswith("link") else option[2:])
    path.write_bytes(damage.damage_lines(rng, path.read_bytes(), PAIRS))
    model = rng.choice(([], ["--accuracy", "0.9"], ["--model", "conditional", "--accuracy", "0.8"]))
    return [*_fit(rng, scene.inputs / "plain.csv"), option, path, *model]


def _fit(rng: random.Random, path: Path) -> list[object]:
    scale = rng.choice(("none", "standard", "minmax"))
    small = ["--restarts", "1", "--generations", "1", "--population", "2", "--offspring", "2"]
    return ["fit", path, "-k", "2", "--scale", scale, *small, *rng.choice(([], ["--json"]))]


def journal(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Damage the journal of a run that did not end: its bytes, or bodies with a right checksum."""
    shutil.copytree(good.begun.results, scene.results)
    path = scene.run.last_run.journal
    change = damage.damage_bytes if rng.random() < 0.25 else damage.damage_record
    path.write_bytes(change(rng, path.read_bytes()))
    return _resume(scene)


def cube(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Damage metadata of a cube: its root, or a file beside an array."""
    shutil.copytree(good.finished.results, scene.results)
    paths = sorted((scene.results / "tiny.zarr").rglob("zarr.json"), key=lambda path: len(path.parts))
    path = rng.choice(paths) if rng.random() < 0.2 else paths[0]
    path.write_bytes(damage.damage_json(rng, path.read_bytes()))
    return rng.choice(_readers(scene))


def chunks(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Damage chunk files of a cube: other bytes or values, another chunk, a directory, nothing."""
    shutil.copytree(good.finished.results, scene.results)
    paths = sorted((scene.results / "tiny.zarr").rglob("*"))
    files = [path for path in paths if path.is_file() and path.name != "zarr.json"]
    for path in rng.sample(files, rng.choice((1, 1, 3))):
        how = rng.randrange(7)
        content = path.read_bytes()
        if how < 3:
            path.write_bytes(damage.damage_bytes(rng, content))
        elif how == 3:
            path.write_bytes(damage.damage_chunk(rng, content))
        elif how == 4:
            shutil.copyfile(rng.choice([file for file in files if file.is_file() and file != path]), path)
        else:
            path.unlink()
            if how == 5:
                path.mkdir()
    return rng.choice(_readers(scene))


def run_folder(rng: random.Random, good: Templates, scene: Scene) -> list[object]:
    """Damage records of a run: values of another type, other bytes, a directory or a pipe in their place."""
    shutil.copytree(rng.choice((good.finished, good.begun)).results, scene.results)
    run, last = scene.run, scene.run.last_run
    leases = [run.lease(number) for number in run.lease_numbers()]
    paths = [last.head, run.submission, last.jobs, last.state, last.pilot, last.failures, run.stop, *leases]
    path = rng.choice(sorted({path for path in paths if path.exists()}))
    how, content = rng.random(), path.read_bytes()
    if how < 0.9:
        lines = content.splitlines() if path == last.failures else [content]
        path.write_bytes(b"".join(damage.damage_json(rng, line) + b"\n" for line in lines))
    else:
        path.unlink()
        (path.mkdir if how < 0.95 else lambda: os.mkfifo(path))()
    # a lease that nobody gave back: its holder may be alive, or is not heard of any more
    for path in leases if rng.random() < 0.3 else ():
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"true", b"false", 1))
            os.utime(path, (age := rng.choice((0, 2**33, 2**31)), age))
    commands = [command for command in _readers(scene) if command[0] not in ("report", "verify", "compare")]
    more = [["logs"], ["logs", "--head"], ["logs", "--job", "7"], ["cancel"]]
    return rng.choice(commands + [[*command, scene.results / "tiny.zarr"] for command in more])


def _readers(scene: Scene) -> list[list[object]]:
    """List commands that open a cube; those that take long come seldom."""
    cube, spec = scene.results / "tiny.zarr", scene.inputs / "tiny.toml"
    often: list[list[object]] = [["status", cube], ["status", cube, "--json"]]
    often += [["why", cube], ["why", cube, CELL], ["why", cube, LATER, "--json"]]
    often += [["verify", cube, "--sample", "2"], ["plan", spec, "--results", scene.results], _resume(scene)]
    return [*often * 3, ["report", cube], ["compare", cube, cube]]


def _resume(scene: Scene) -> list[object]:
    return ["submit", scene.inputs / "tiny.toml", "--results", scene.results, "--workers", "0"]


ALL = (sweep_file, cluster, text_table, npz_table, annotations, journal, cube, chunks, run_folder)
KINDS: dict[str, Kind] = {kind.__name__: kind for kind in ALL}

# One trial.

SECONDS = 20.0  # these are seconds of processors, and so the same on a busy machine
PATIENCE = 180.0  # for whatever it waits for
MOST_BYTES = 2**30
lease.PATIENCE = 0.2  # for a heartbeat of a holder of another machine, which never comes here


class TooSlow(BaseException):
    """A trial took longer than `SECONDS`; nothing that is tested handles it."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a trial: arguments of `sweep`, its exit code and output, and a check that failed."""

    kind: str
    seed: int
    command: list[str]
    code: int
    output: str
    fault: str

    def __str__(self) -> str:
        alone = f"python -m tests.fuzz {self.kind} {self.seed}"
        return f"{self.fault or self.output}\nalone: {alone}\ncommand: sweep {' '.join(self.command)}"


# Exit code, the end of the output, and a check that failed.
Ending = tuple[int, str, str]


def run_trial(
    kind: str, seed: int, templates: Templates, folder: Path, run: Callable[[list[str]], Ending] | None = None
) -> Outcome:
    """Damage files as the seed says, run the command, and check what it did.

    The folder is made, and removed unless a check fails; without `run` the command runs in this process.
    """
    scene = Scene(folder / "inputs", folder / "results")
    shutil.copytree(templates.finished.inputs, scene.inputs)
    command = [str(word) for word in KINDS[kind](random.Random(f"{kind} {seed}"), templates, scene)]
    before = _outside_files(folder)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of memory
    memory, code, output = _memory("VmRSS"), 1, ""
    empty = folder / "here"
    empty.mkdir()
    try:  # the commands of a queue are hidden
        with chdir(empty), patch.dict(os.environ, PATH=str(empty)), _time_limit():
            code, output, fault = (run or in_this_process)(command)
    except TooSlow:
        limits = f"{SECONDS:g} s of processors, or {PATIENCE:g} s in all"
        fault = f"took longer than {limits}\n{traceback.format_exc(limit=-4)}"
    more = _memory("VmHWM") - memory
    if not fault and more > MOST_BYTES:
        fault = f"took {more:,} bytes of memory, expected at most {MOST_BYTES:,}"
    changed = {str(path) for path, _ in _outside_files(folder).items() ^ before.items()}
    if not fault and changed:
        fault = f"changed outside of the results: {', '.join(sorted(changed))}"
    if not fault:
        shutil.rmtree(folder)
    return Outcome(kind, seed, command, code, output, fault)


def in_this_process(command: list[str]) -> Ending:
    """Run a command with all that is loaded."""
    result = sweep(*command)
    error = None if isinstance(result.exception, SystemExit) else result.exception
    uncaught = "" if error is None else "".join(traceback.format_exception(error)[-6:])
    return result.exit_code, result.output[-1000:], uncaught or _failure_of(result.exit_code, result.stderr)


def as_a_process(command: list[str], most: int) -> Ending:
    """Run a command as users do, with a limit of its address space in bytes."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))

    whole, how = (
        [sys.executable, "-m", "sweep_clustering", *command],
        {"timeout": PATIENCE, "preexec_fn": limit},
    )
    try:
        process = subprocess.run(whole, capture_output=True, text=True, errors="replace", check=False, **how)
    except subprocess.TimeoutExpired as error:
        raise TooSlow from error
    return (
        process.returncode,
        (process.stdout + process.stderr)[-1000:],
        _failure_of(process.returncode, process.stderr),
    )


def _failure_of(code: int, stderr: str) -> str:
    if code not in range(4):
        return f"exit code {code}\n{stderr[-2000:]}"
    return f"a traceback on stderr:\n{stderr[-2000:]}" if "Traceback" in stderr else ""


def _outside_files(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return size and time of every file outside of the results."""
    paths = [path for path in folder.rglob("*") if "results" not in path.relative_to(folder).parts[:1]]
    return {path: (path.lstat().st_size, path.lstat().st_mtime_ns) for path in paths if not path.is_dir()}


def _memory(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise `TooSlow` in the main thread after `SECONDS`; another timer goes on afterwards."""

    def raise_too_slow(*_: object) -> None:
        raise TooSlow

    handlers = {number: signal.signal(number, raise_too_slow) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    remaining, _ = signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    begin = time.monotonic()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(
            signal.ITIMER_REAL, max(0.1, remaining - (time.monotonic() - begin)) if remaining else 0
        )
        for number, handler in handlers.items():
            signal.signal(number, handler)
