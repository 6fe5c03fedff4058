"""Commands run as a user types them: they print, write and end as promised, or start nothing."""

import inspect
import json
import logging
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click
import pytest
from checkout import ROOT
from click.shell_completion import ShellComplete, get_completion_class
from click.testing import CliRunner
from processes.commandline import refuse, succeed, sweep
from processes.sweeping import TINY, write_spec

from sweep_clustering.kernels.settings import OFFERED
from sweep_clustering.pipeline.cluster.profiles import cluster_schema
from sweep_clustering.pipeline.commands import arguments, output
from sweep_clustering.pipeline.commands.arguments import find_cube, find_places, find_run, find_spec
from sweep_clustering.pipeline.commands.fit import GROUPS, MAIN_NAMES, fit_command
from sweep_clustering.pipeline.commands.main import COMMANDS, main
from sweep_clustering.pipeline.common import plural
from sweep_clustering.pipeline.methods.loading import MethodCall, load
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.sweeps.data.builtin import Unavailable
from sweep_clustering.sweeps.errors import InputError, Problem, present
from sweep_clustering.sweeps.file.reading import as_file, load_sweep, sweep_schema
from sweep_clustering.sweeps.words import SHIPPED

IRIS = TINY[: TINY.index("datasets =")] + 'datasets = ["iris"]\n' + TINY[TINY.index("p = [") :]
SMALL = IRIS.replace("[0.8, 1.0]", "[0.8]").replace("restarts = 5", "restarts = 1").replace(', "1N"]', "]")


def run(command: str, finished: Path, folder: Path, script: str = "", **streams: Any) -> Any:
    """Run a command as a process on the finished cube, or on a table and answers in another folder."""
    (folder / "x.csv").write_text("".join(f"{i % 5}.5,{i * i % 11}\n" for i in range(12)))
    (folder / "links.csv").write_text("1,2,must\n3,12,cannot\n")
    places = {"CUBE": finished / "tiny.zarr", "TABLE": folder / "x.csv", "ANSWERS": folder / "answers.csv"}
    places |= {"LINKS": folder / "links.csv", "OUT": folder / "report"}
    words = [str(places.get(word, word)) for word in command.split()]
    line = [sys.executable, *(("-c", script) if script else ("-m", "sweep_clustering")), *words]
    return subprocess.run(line, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False, **streams)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a cube of five cells; it is for reading only."""
    folder = tmp_path_factory.mktemp("small")
    succeed("submit", write_spec(folder, SMALL), "--results", folder, "--workers", 0)
    return folder


def test_the_table_of_commands_says_what_each_does() -> None:
    context = click.Context(main)
    for name, (_, text) in COMMANDS.items():
        command: Any = main.get_command(context, name)
        assert command.name == name
        assert " ".join(command.help.split()).startswith(text.removesuffix("."))
        assert f"  {name} " in sweep("--help").stdout
    assert "No such command 'statsu'" in refuse("statsu")


def test_words_are_completed() -> None:
    completion = ShellComplete(main, {}, "sweep", "_SWEEP_COMPLETE")
    for words, incomplete, expected in (
        ([], "st", "status"),
        (["datasets"], "f", "fetch"),
        (["compare", "a", "b", "--score"], "ce", "centroid_index"),
        (["fit", "--covariance"], "d", "diagonal"),
    ):
        assert [item.value for item in completion.get_completions(words, incomplete)] == [expected]
    bash = get_completion_class("bash")
    assert bash is not None
    assert "COMP_WORDBREAKS//[=:]" in bash(main, {}, "sweep", "_SWEEP_COMPLETE").source()


def test_names_of_data_sets_methods_and_cells_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    completion = ShellComplete(main, {}, "sweep", "_SWEEP_COMPLETE")

    def completions(words: Sequence[object], incomplete: str) -> list[str]:
        items = completion.get_completions(list(map(str, words)), incomplete)
        return [item.value for item in items]

    assert completions(["datasets", "fetch"], "wi") == ["wine"]
    assert len(completions(["datasets", "list", "wine"], "suite/uci/")) == 8
    for command in (["methods", "check"], ["methods", "sweep"], ["verify", "s.csv", "--method"]):
        assert completions(command, "spect") == ["spectral-links", "spectral"]
    assert completion.get_completions(["methods", "check"], "own.p")[0].type == "file"
    spec, cube = write_spec(tmp_path, SMALL), tmp_path / "tiny.zarr"
    commands = (["why", cube], ["report", cube, "--cell"], ["submit", spec, "--results", tmp_path, "--only"])
    for words in commands:
        assert completions(words, "") == []  # there is no cube yet
    assert sweep("submit", spec, "--results", tmp_path, "--workers", 0).exit_code == 0
    (plan,) = read_manifest(cube).plans.values()
    cells = [str(cell) for block in plan.blocks() for cell in block.cells()]
    for words in commands:
        assert completions(words, "") == cells
        assert completions(words, cells[0][:-3]) == [cells[0]]
        assert completions(words, "none") == []
    monkeypatch.setattr("sweep_clustering.storage.cube.blocks.failed_cells", lambda cube, plans: cells[-1:])
    assert completions(["why", cube], "") == [cells[-1], *cells[:-1]]


# From a plan to a finished run: each command says which comes next.


def test_every_command_says_which_comes_next(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path, SMALL), tmp_path / "tiny.zarr"
    submit = ("submit", spec, "--results", tmp_path, "--workers", 0)
    planned = json.loads(sweep(*submit, "--dry-run", "--json").stdout)
    assert planned["total"]["cells"] == 5
    assert not cube.exists()
    for command, following in (
        (("plan", spec), f"submit {spec}"),
        (("plan", *submit[1:-1], 2, "--profile", "local"), f"submit {spec} --results {tmp_path} --workers 2"),
        ((*submit, "--dry-run"), f"submit {spec} --results {tmp_path} --workers 0"),
        (submit, f"report {cube}"),
        (submit, f"report {cube}"),  # nothing is left to do
        (("status", cube), f"report {cube}"),
        (("why", cube), f"report {cube}"),
        (("verify", cube), f"report {cube}"),
        (("logs", cube, "--lines", 2), f"status {cube}"),
        (("cancel", cube), f"status {cube}"),
    ):
        assert succeed(*command).stderr.splitlines()[-1] == f"next: sweep {following}", command
    for command in ("status", "why", "verify"):
        assert "next:" not in sweep(command, cube, "--json").output
    summary = json.loads(sweep(*submit, "--json").stdout)
    assert summary["exit_code"] == 0
    assert summary["complete"]
    assert summary["total"]["done"] == 5
    for place in ("tiny.toml", "tiny.zarr"):
        state = json.loads(sweep("status", tmp_path / place, "--results", tmp_path, "--json").stdout)
        assert state["total"] == summary["total"]
        assert state["holder"] is None
    logs = sweep("logs", cube, "--lines", 2)
    assert logs.stderr.startswith(f"==> {tmp_path / 'tiny.run' / 'log'} <==\n")
    assert len(logs.stdout.splitlines()) == 2
    assert "results: " in logs.stdout
    assert sweep("logs", cube, "--head", "--job", 1).exit_code == 2
    assert sweep("cancel", cube).stdout == f"{cube} is not running: nothing to cancel\n"


def test_a_resolved_sweep_needs_no_data_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_spec(tmp_path)
    monkeypatch.setattr("sweep_clustering.sweeps.inputs.find", None)
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
    assert len(rows) == 12 + 78
    bundled = {row["name"] for row in rows if "scikit-learn" in row["source"]}
    assert bundled == {"iris", "wine", "wdbc", "digits", "digits-389"}
    listed = sweep("datasets", "list").stdout
    assert "not on this machine" in listed
    assert "0 of 78 data sets of the clustering suite are here" in listed
    assert sweep("datasets", "list", "suite/uci/w*").stdout.count("suite/uci/w") == 4  # names and files
    assert sweep("datasets", "check", "iris", "wine").exit_code == 0
    missing = sweep("datasets", "check", "ecoli")
    assert missing.exit_code == 1
    assert missing.stderr == "next: sweep datasets fetch ecoli\n"
    assert succeed("datasets", "check", "--data-dir", raw_data).stdout.count("good") == 12

    def find(name: str, *, data_dir: Path | None) -> SimpleNamespace:
        if name == "ecoli":
            raise Unavailable(name, ("no network", "no mirror"))
        return SimpleNamespace(path="scikit-learn")

    monkeypatch.setattr("sweep_clustering.sweeps.data.builtin.find", find)
    fetched = sweep("datasets", "fetch", "ecoli", "iris")  # a data set that cannot be fetched keeps no other
    assert fetched.exit_code == 1
    assert fetched.stdout == "iris: scikit-learn\n"
    assert "\n  no mirror\n" in fetched.stderr
    assert "1 of 2 are not available, 1 are here; the same again goes on: ecoli" in fetched.stderr
    assert sweep("datasets", "fetch", "iris").exit_code == 0


# What is loaded, and what is not.


OURS = "sweep_clustering"
ARRAYS = {
    f"{OURS}.kernels.scores",
    f"{OURS}.kernels.search",
    "numba",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "xarray",
}
RUNS = {"dask", "distributed", "matplotlib", "pooch", "rich", f"{OURS}.sweeps.inputs"}
NOTHING = ARRAYS | RUNS | {"pydantic", f"{OURS}.storage", "yaml", "zarr"}
STATUS = ARRAYS - {"numpy"} | RUNS | {"zarr"}
OTHERS = {f"{OURS}.pipeline.commands.{module}" for module in ("fit", "known", "results", "runs")}


FIT = "fit TABLE -k 2 --restarts 1 --generations 1"


@pytest.mark.parametrize(
    ("command", "code", "unwanted"),
    [
        ("--help", 0, NOTHING | OTHERS | {f"{OURS}.sweeps.words"}),
        ("submit --help", 0, NOTHING | OTHERS - {f"{OURS}.pipeline.commands.runs"}),
        ("fit --help", 0, NOTHING | OTHERS - {f"{OURS}.pipeline.commands.fit"}),
        ("report --help", 0, NOTHING | OTHERS - {f"{OURS}.pipeline.commands.results"}),
        ("status CUBE", 0, STATUS | OTHERS - {f"{OURS}.pipeline.commands.runs"} | {f"{OURS}.sweeps.data"}),
        ("logs CUBE", 0, STATUS),
        ("fit TABLE -k 99", 2, {"numba"}),
        ("ask TABLE -k 99 --strategy none", 2, {"numba"}),
        ("report CUBE --out OUT", 0, {"distributed", "scipy.optimize", "scipy.stats"}),
        (
            f"{FIT} --annotations LINKS",
            0,
            {"pandas", "pyarrow", "sklearn", "scipy.optimize", "xarray", "joblib"},
        ),
    ],
)
def test_a_command_loads_what_it_needs(
    command: str, code: int, unwanted: set[str], small_run: Path, tmp_path: Path
) -> None:
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from sweep_clustering.__main__ import main\n"
        "main()\n"
    )
    process = run(command, small_run, tmp_path, script, stdout=subprocess.PIPE)
    assert process.returncode == code, process.stderr
    assert code == 0 or process.stdout == "", process.stderr
    names = [name.split(".") for name in process.stderr.splitlines()[-1].split()]
    assert {".".join(name[:n]) for name in names for n in (1, 2, 3, 4)} & unwanted == set()


ASK = "ask TABLE -k 2 --restarts 1 --generations 1 --strategy uniform --covariance spherical --interactive"


@pytest.mark.parametrize(
    ("command", "full", "code"),
    [
        ("status --json CUBE", False, 0),
        ("logs CUBE", False, 0),
        ("datasets check ecoli", False, 1),
        ("--help", True, 1),
        ("schema", True, 1),
        (f"{ASK} --annotations ANSWERS", True, 0),  # a session that nobody sees has ended
    ],
)
def test_a_reader_that_leaves_is_no_fault_and_a_full_disk_is_said_in_one_line(
    command: str, full: bool, code: int, small_run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SWEEP_DATA_DIR", raising=False)
    monkeypatch.setenv("SWEEP_USER_CACHE", str(tmp_path))  # no data set is there, read or not
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed_pipe, open("/dev/full", "wb") as disk:
        process = run(command, small_run, tmp_path, stdout=disk if full else closed_pipe)
    stderr = process.stderr
    assert process.returncode == code
    assert "Traceback" not in stderr
    assert "Broken" not in stderr
    assert stderr.startswith("standard output: No space left on device") == (full and code == 1)
    assert not full or len(stderr.splitlines()) == code


def test_verbose_may_stand_before_or_behind_the_command(tmp_path: Path) -> None:
    plain = ["plan", write_spec(tmp_path), "--results", tmp_path]
    lines = {logging.DEBUG: (["-v", *plain], [*plain, "-v"]), logging.INFO: (plain,)}
    for level, line in ((level, line) for level, several in lines.items() for line in several):
        assert sweep(*line).exit_code == 0
        assert logging.getLogger("sweep_clustering").level == level


# What commands share: what arguments name, words of help, problems on stderr, readers that leave.


def test_a_sweep_file_of_the_user_comes_before_an_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("quick.toml", "sweeps/quick.toml"):
        assert find_spec(Path(name)) == (ROOT / "sweeps" / "quick.toml", True)
    (tmp_path / "quick.toml").touch()
    assert find_spec(Path("quick.toml")) == (Path("quick.toml"), False)
    for name in ("elsewhere/quick.toml", "sweeps/quick", "sweeps/none.toml", str(tmp_path / "none.toml")):
        with pytest.raises(InputError, match=r"no such file.*sweeps/quick\.toml, sweeps/"):
            find_spec(Path(name))


def test_a_cube_and_its_run_are_found_by_path_and_by_sweep_file(tmp_path: Path) -> None:
    spec, results = write_spec(tmp_path), tmp_path / "results"
    cube = results / "tiny.zarr"
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "tiny.run").symlink_to("other.run")
    for path, text in ((cube, "no such directory"), (tmp_path / "linked" / "tiny.zarr", "a link, expected")):
        with pytest.raises(InputError, match=text):
            find_run(path, results)
    (results / "tiny.run").mkdir(parents=True)
    assert find_run(spec, results) == find_run(cube, tmp_path) == cube  # before the cube is there
    assert find_run(results / "tiny", tmp_path) == cube
    with pytest.raises(InputError, match="no such directory"):
        find_run(results / "tin", tmp_path)
    cube.mkdir()
    assert find_cube(spec, results) == find_cube(cube, tmp_path) == cube
    (results / "tiny").mkdir()  # this is a folder of exported tables
    assert find_cube(results / "tiny", tmp_path) == find_places([results / "tiny"], tmp_path)[0] == cube


# Options of settings, and commands that are shown.


@click.command("some")
@click.argument("table")
@arguments.takes_settings(patience=7)
@arguments.repeatable("--show", "shown")
@arguments.flag("--force")
def some(**options: Any) -> None:
    chosen = arguments.settings_in(options)
    changed = {key.name: chosen[key.name] for key in OFFERED if chosen[key.name] != key.preset}
    click.echo(f"{changed}\n{output.typed(some, {**options, **chosen, 'other': 1})}")


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x", {"patience": 7}),
        ("x --patience 0 --crossover labels", {"patience": 0, "crossover": "labels"}),
        ("x --method paper --mutation 1.0", {"method": "paper", "patience": 7, "mutation": 1.0}),
        ("x --feature-weight half --force", {"patience": 7, "feature_weight": "half"}),
        ("'a table.csv' --show 'a long name of a column' --show -c --show 'a b'", {"patience": 7}),
    ],
)
def test_a_command_gets_settings_and_is_shown_as_it_was_typed(line: str, changed: dict[str, object]) -> None:
    settings_line, *lines = CliRunner().invoke(some, shlex.split(line)).stdout.splitlines()
    assert settings_line == str(changed)
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == ["sweep", "some", *shlex.split(line)]
    assert all(len(line) <= 78 for line in lines)
    assert len(lines) == 1 + ("'a b'" in line)


def test_the_parameters_of_every_command_are_those_of_its_function() -> None:
    def commands(command: click.Command) -> Iterator[click.Command]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield from commands(present(command.get_command(context, name)))
        else:
            yield command

    for command in commands(main):
        parameters = inspect.signature(inspect.unwrap(present(command.callback))).parameters
        names = {parameter.name for parameter in command.params if parameter.expose_value}
        if all(parameter.kind != parameter.VAR_KEYWORD for parameter in parameters.values()):
            assert names == set(parameters), command.name


def test_help_shows_words_and_ranges_that_are_checked_with_all_else() -> None:
    text = " ".join(CliRunner().invoke(some, ["--help"]).stdout.split())
    assert all(words in text for words in ("[strong|published]", "FLOAT|effective", "x>=1]", "[default: "))
    assert "'many' is not a valid" in CliRunner().invoke(some, ["x", "--patience", "many"]).stderr


def test_help_of_a_fit_shows_eleven_options_and_all_in_groups_when_asked() -> None:
    few, every = (sweep("fit", option).stdout for option in ("--help", "--help-all"))
    helps = [text.partition("\nOptions:\n")[2].splitlines() for text in (few, every)]
    options = [[line for line in lines if line.startswith("  -")] for lines in helps]
    assert [len(options[0]), options[0][0].split()[0]] == [11, "-k,"]
    assert len(options[1]) == len(fit_command.params)  # its argument is no option, help is one more
    for title in GROUPS:
        assert f"\n{title}:\n" in every
        assert f"\n{title}:\n" not in few
    names = {name for group in (MAIN_NAMES, *GROUPS.values()) for name in group}
    assert names <= {"help"} | {str(parameter.name) for parameter in fit_command.params}


def test_every_problem_of_a_command_line_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = tomllib.loads(Path(__file__).with_name("problems.toml").read_text(encoding="utf-8"))
    for name, text in refused["files"].items():
        (tmp_path / name).write_text(text)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for case in refused["case"]:
        result = sweep(*case["line"].split())
        first, *lines = result.stderr.replace(str(tmp_path), "FOLDER").splitlines()
        assert [line.removeprefix("  ") for line in lines] == case["problems"], case["line"]
        assert result.exit_code == 2
        assert result.stdout == ""
        count = case.get("count", len(lines))  # one line may stand for the same problem of several rows
        assert first == f"{plural(count, 'problem')}, nothing was started:", case["line"]
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


# The commands on cubes and on methods.


def test_files_are_beside_the_cube_unless_told_otherwise(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube, against, calls = tiny_run / "tiny.zarr", tiny_run / "tiny-against-tiny.compare", []

    def refuse(*arguments: object, **options: object) -> None:
        calls.append((*arguments, *options.values()))
        raise InputError([Problem("--cell", "'x'", "a cell of the cube")])

    bar = output.progress_bar
    usual = ("svg",), False, bar
    for place in ("write.write_report", "write.write_export", "compare.write_comparison"):
        monkeypatch.setattr(f"sweep_clustering.pipeline.report.{place}", refuse)
    for words, expected in [
        (
            ("report", tiny_run / "tiny.toml", "--cell", "x"),
            (cube, tiny_run / "tiny.report", None, "x", *usual),
        ),
        (("report", cube, "--out", "elsewhere"), (cube, Path("elsewhere"), None, None, *usual)),
        (
            ("report", cube, "--pdf", "--png"),
            (cube, tiny_run / "tiny.report", None, None, ("svg", "png", "pdf"), False, bar),
        ),
        (("export", cube, "--force"), (cube, tiny_run / "tiny.export", "csv", True)),
        (("compare", cube, cube, "--score", "nmi"), (cube, cube, against, ("nmi",), ("svg",))),
    ]:
        result = sweep(*words, "--results", tiny_run)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert calls.pop() == expected
        assert "1 problem, nothing was started:\n  --cell: found 'x'" in result.stderr
    assert all(name in sweep("compare", "--help").stdout for name in ("nmi", "goldberger_kl", "seconds"))


def test_open_serves_until_it_is_interrupted(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socketserver.BaseServer.serve_forever", Mock(side_effect=KeyboardInterrupt))
    result = succeed("open", tiny_run / "tiny.zarr", "--no-browser")
    assert result.stderr == "Ctrl-C ends it\n"
    assert re.match(r"page: http://127\.0\.0\.1:\d+/sweep \(from elsewhere: ssh -L ", result.stdout)


# `sweep methods`.


def test_methods_are_listed_and_a_shipped_one_goes_by_what_it_uses() -> None:
    rows = json.loads(sweep("methods", "list", "--json").stdout)
    assert rows == [{"name": name, **asdict(shipped)} for name, shipped in SHIPPED.items()]
    text = sweep("methods", "list").stdout
    assert all(name in text and shipped.text in text for name, shipped in SHIPPED.items())
    assert "not installed" not in text
    fields = json.loads(sweep("methods", "check", "k-means", "--json").stdout)
    assert fields["uses"] == "nothing"
    assert fields["breaches"] == []
    assert fields["version"].startswith("scikit-learn ")


def test_a_method_whose_package_is_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep_clustering.sweeps.words.find_spec", lambda package: None)
    text = sweep("methods", "list").stdout
    assert "needs genieclust, which is not installed: pip install 'sweep-clustering[suite]'\n" in text
    with pytest.raises(InputError, match=r"no genieclust, .*expected genieclust \(pip install"):
        load(MethodCall("mine", "genie"))


def test_the_template_keeps_the_contract_and_breaches_end_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = sweep("methods", "template").stdout
    wrong = source.replace("    rng = ", '    print("here")\n    X -= 1\n    rng = ', 1)
    for name, text in {"template": source, "wrong": wrong, "broken": "def cluster(:\n"}.items():
        Path(f"{name}.py").write_text(text)
    checked = succeed("methods", "check", "template.py:cluster", "--options", '{"max_iter": 20}')
    first, second, *_, last = checked.stdout.splitlines()
    assert first == "template.py:cluster"
    assert "3 clusters" in second
    assert last == "keeps the contract"
    assert "expected what can be imported" in refuse("methods", "check", "broken.py:cluster")
    checked = sweep("methods", "check", "wrong.py:cluster")
    assert checked.exit_code == 3
    for words in ("3 breaches of the", "  fails: ValueError: output", " (links)", "    X -= 1\n", "'here'"):
        assert words in checked.stdout
