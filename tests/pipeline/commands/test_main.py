"""The commands as a user types them: what they print, how they end, and that bad input starts nothing."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from checkout import ROOT
from click.shell_completion import ShellComplete
from processes.commandline import sweep
from processes.sweeping import TINY, write_spec

from pipeline.cluster.profiles import cluster_schema
from pipeline.commands.main import COMMANDS, main
from sweeps.data.builtin import Unavailable
from sweeps.file.reading import as_file, load_sweep, sweep_schema

IRIS = TINY[: TINY.index("datasets =")] + 'datasets = ["iris"]\n' + TINY[TINY.index("p = [") :]
SMALL = IRIS.replace("[0.8, 1.0]", "[0.8]").replace("restarts = 5", "restarts = 1").replace(', "1N"]', "]")


def test_the_table_of_commands_says_what_each_does() -> None:
    context = click.Context(main)
    for name, (_, text) in COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert " ".join(str(command.help).split()).startswith(text.removesuffix("."))
        assert f"  {name} " in sweep("--help").stdout
    unknown = sweep("statsu")
    assert (unknown.exit_code, "No such command 'statsu'" in unknown.stderr) == (2, True)


def test_words_are_completed() -> None:
    completion = ShellComplete(main, {}, "sweep", "_SWEEP_COMPLETE")
    for words, incomplete, expected in (
        ([], "st", "status"),
        (["datasets"], "f", "fetch"),
        (["compare", "a", "b", "--score"], "ce", "centroid_index"),
        (["fit", "--covariance"], "d", "diagonal"),
    ):
        assert [item.value for item in completion.get_completions(words, incomplete)] == [expected]


# From a plan to a finished run: each command says which comes next.


def test_every_command_says_which_comes_next(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path, SMALL), tmp_path / "tiny.zarr"
    submit = ("submit", spec, "--results", tmp_path, "--workers", 0)
    planned = json.loads(sweep(*submit, "--dry-run", "--json").stdout)
    assert (planned["total"]["cells"], cube.exists()) == (5, False)
    for command, following in (
        (("plan", spec), f"submit {spec}"),
        ((*submit, "--dry-run"), f"submit {spec}"),
        (submit, f"report {cube}"),
        (submit, f"report {cube}"),  # nothing is left to do
        (("status", cube), f"report {cube}"),
        (("why", cube), f"report {cube}"),
        (("verify", cube), f"report {cube}"),
        (("logs", cube, "--lines", 2), f"status {cube}"),
        (("cancel", cube), f"status {cube}"),
    ):
        done = sweep(*command)
        assert (done.exit_code, done.stderr.splitlines()[-1]) == (0, f"next: sweep {following}"), command
    for command in ("status", "why", "verify"):
        assert "next:" not in sweep(command, cube, "--json").output
    done = json.loads(sweep(*submit, "--json").stdout)
    assert (done["exit_code"], done["complete"], done["total"]["done"]) == (0, True, 5)
    for place in ("tiny.toml", "tiny.zarr"):
        state = json.loads(sweep("status", tmp_path / place, "--results", tmp_path, "--json").stdout)
        assert (state["total"], state["holder"]) == (done["total"], None)
    shown = sweep("logs", cube, "--lines", 2)
    assert shown.stderr.startswith(f"==> {tmp_path / 'tiny.run' / 'log'} <==\n")
    assert (len(shown.stdout.splitlines()), "results: " in shown.stdout) == (2, True)
    assert sweep("logs", cube, "--head", "--job", 1).exit_code == 2
    assert sweep("cancel", cube).stdout == f"{cube} is not running: nothing to cancel\n"
    assert sweep("cancel", tmp_path / "none.zarr").exit_code == 2


def test_a_resolved_sweep_needs_no_data_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_spec(tmp_path)
    monkeypatch.setattr("sweeps.inputs.find", None)
    assert tomllib.loads(sweep("plan", path, "--resolved").stdout) == as_file(load_sweep(path))
    assert json.loads(sweep("plan", path, "--resolved", "--json").stdout) == as_file(load_sweep(path))
    assert list(tmp_path.rglob("*")) == [path]
    assert sweep("schema").stdout == sweep_schema()
    assert sweep("schema", "--cluster").stdout == cluster_schema()


# What has a name: data sets, and the keys of files.


def test_data_sets_are_listed_checked_and_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, raw_data: Path
) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path))
    rows = json.loads(sweep("datasets", "list", "--json").stdout)
    assert len(rows) == 9
    assert {row["name"] for row in rows if "scikit-learn" in row["source"]} == {"iris", "wine"}
    assert "not on this machine" in sweep("datasets", "list").stdout
    assert sweep("datasets", "check", "iris", "wine").exit_code == 0
    missing = sweep("datasets", "check", "ecoli")
    assert (missing.exit_code, missing.stderr) == (1, "next: sweep datasets fetch ecoli\n")
    result = sweep("datasets", "check", "--data-dir", raw_data)
    assert (result.exit_code, result.stdout.count("good")) == (0, 9)

    def find(name: str, *, data_dir: Path | None) -> SimpleNamespace:
        if name == "ecoli":
            raise Unavailable(name, ("no network", "no mirror"))
        return SimpleNamespace(path="scikit-learn")

    monkeypatch.setattr("sweeps.data.builtin.find", find)
    fetched = sweep("datasets", "fetch", "ecoli", "iris")  # one that cannot be keeps no other
    assert (fetched.exit_code, fetched.stdout) == (1, "iris: scikit-learn\n")
    assert "ecoli: not available: no network; no mirror" in fetched.stderr
    assert sweep("datasets", "fetch", "iris").exit_code == 0


# What is loaded, and what is not.


ARRAYS = {"kernels.scores", "kernels.search", "numba", "numpy", "pandas", "scipy", "sklearn", "xarray"}
RUNS = {"dask", "distributed", "matplotlib", "pooch", "rich", "sweeps.inputs"}
NOTHING = ARRAYS | RUNS | {"pydantic", "storage", "yaml", "zarr"}
OTHERS = {f"pipeline.commands.{module}" for module in ("fit", "known", "results", "runs")}


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("--help", NOTHING | OTHERS | {"sweeps.words"}),
        ("submit --help", NOTHING | OTHERS - {"pipeline.commands.runs"}),
        ("fit --help", NOTHING | OTHERS - {"pipeline.commands.fit"}),
        ("report --help", NOTHING | OTHERS - {"pipeline.commands.results"}),
        (
            "status CUBE",
            (ARRAYS - {"numpy"}) | RUNS | OTHERS - {"pipeline.commands.runs"} | {"zarr", "sweeps.data"},
        ),
        ("logs CUBE", ARRAYS - {"numpy"} | RUNS | {"zarr"}),
    ],
)
def test_a_command_loads_what_it_needs(command: str, unwanted: set[str], finished: Path) -> None:
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from sweep_clustering import main\n"
        "main()\n"
    )
    line = [sys.executable, "-c", script, *command.replace("CUBE", str(finished / "tiny.zarr")).split()]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    names = [name.split(".") for name in done.stderr.splitlines()[-1].split()]
    assert {".".join(name[:n]) for name in names for n in (1, 2, 3)} & unwanted == set()


# Bad input of `sweep submit`: one exit code, every problem, and nothing touched.

OWN = 'datasets = [{name = "mine", path = "mine.csv", label_column = -1}, "iris"]\n'
OWN = TINY[: TINY.index("datasets =")] + OWN + TINY[TINY.index("p = [") :]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "tiny.toml|no such file|sweeps/quick.toml"),
        (TINY.replace("replicates", "replicatse", 1), "unknown key 'replicatse'|did you mean 'replicates'?"),
        (TINY.replace("n_samples = 30", "n_samples = 5"), "5 samples|3 · 2|results is a file"),
        (OWN, "3 problems|mine.csv|line 6|inf|results is a file|--data-dir: found"),
    ],
)
def test_bad_input_starts_nothing(text: str, words: str, tmp_path: Path) -> None:
    if text:
        write_spec(tmp_path, text)
    (tmp_path / "mine.csv").write_text("".join(f"{i if i != 5 else 'inf'},{i % 2}\n" for i in range(12)))
    (tmp_path / "results").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*")}
    places = [
        "--results",
        tmp_path / "results",
        *(["--data-dir", tmp_path / "nowhere"] if text == OWN else []),
    ]
    result = sweep("submit", tmp_path / "tiny.toml", "--workers", 0, *places)
    assert (result.exit_code, "Traceback" in result.output) == (2, False)
    assert [word for word in ("nothing was started", *words.split("|")) if word not in result.stderr] == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_verbose_may_stand_before_or_behind_the_command(tmp_path: Path) -> None:
    plain = ["plan", write_spec(tmp_path), "--results", tmp_path]
    lines = {logging.DEBUG: (["-v", *plain], [*plain, "-v"]), logging.INFO: (plain,)}
    for level, line in ((level, line) for level, several in lines.items() for line in several):
        assert sweep(*line).exit_code == 0
        assert logging.getLogger("pipeline").level == level


@pytest.mark.parametrize("command", [["--help"], ["schema"]])
def test_output_to_a_full_disk_ends_with_one_line(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        line = [sys.executable, "-m", "pipeline", *command]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("standard output: No space left on device")
