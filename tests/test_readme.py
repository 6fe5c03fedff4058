"""README and docs speak the truth: examples run, keys, commands, links and equations exist."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import yaml
from cubes import toy
from cubes.reported import make

from sweep_clustering.kernels.settings import METHOD, OFFERED
from sweep_clustering.pipeline.cluster.profiles import Address, Local, Tls
from sweep_clustering.pipeline.commands.main import COMMANDS
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.sweeps.file.methods import MethodEntry
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.file.search import HELD_OUT, search_from
from sweep_clustering.sweeps.file.spec import Ask, Crowd, Stop, UserTable
from sweep_clustering.sweeps.shapes import CODES
from sweep_clustering.sweeps.words import DESIGNS, chooses, shape_of

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CUBE = (DOCS / "reference" / "cube.md").read_text(encoding="utf-8")
API = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
COMMAND_PAGE = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
CLUSTER = (DOCS / "guides" / "cluster.md").read_text(encoding="utf-8")
MODEL = (DOCS / "model.md").read_text(encoding="utf-8")
STOPPING = (DOCS / "guides" / "stopping.md").read_text(encoding="utf-8")
TUTORIAL = (DOCS / "start" / "tutorial.md").read_text(encoding="utf-8")
FIRST_SWEEP_FILE = (DOCS / "guides" / "sweep-file.md").read_text(encoding="utf-8")
SWEEP_FILE = (DOCS / "reference" / "sweep-file.md").read_text(encoding="utf-8")

# docs/repeat.md is made by a program, and tests/test_repeat.py looks at it.
PAGES = [
    ROOT / "README.md",
    *(
        page
        for page in sorted(DOCS.rglob("*.md"))
        if page.relative_to(DOCS).parts[0] not in ("_build", "repeat", "repeat.md")
    ),
]


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)


def command_after(marker: str) -> str:
    commands = re.findall(rf"^<!-- {marker} -->\n```sh\n(.*)\n```$", README, flags=re.MULTILINE)
    assert len(commands) == 1
    return str(commands[0])


def run(*command: str, folder: Path) -> str:
    """Return the output of a command, which must end well and without a warning."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    process = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "Warning" not in process.stderr, process.stderr
    return process.stdout


def consoles() -> list[tuple[str, str]]:
    """Return the commands of the README, each with the output below it."""
    parts = "".join(blocks("console")).split("$ sweep ")
    assert parts[0] == ""
    return [(command, text) for command, _, text in (part.partition("\n") for part in parts[1:])]


@pytest.fixture(scope="module")
def printed_outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a folder with the files of the tutorial, and the outputs of the README's commands there."""
    folder = tmp_path_factory.mktemp("readme")
    run("-c", blocks(r"\{code-cell\} python", TUTORIAL)[0], folder=folder)
    (folder / "first.toml").write_text(blocks("toml")[0], encoding="utf-8")
    commands = [shlex.split(command) for command, _ in consoles()]
    return folder, [run("-m", "sweep_clustering", *command, folder=folder) for command in commands]


@pytest.fixture(scope="module")
def folder(printed_outputs: tuple[Path, list[str]]) -> Path:
    return printed_outputs[0]


@pytest.mark.slow
def test_output_is_what_the_command_prints(
    printed_outputs: tuple[Path, list[str]], pytestconfig: pytest.Config
) -> None:
    """`pytest tests/test_readme.py -n 0 -m slow --golden` writes it into the README again."""

    page = README
    outputs = [(old, new) for (_, old), new in zip(consoles(), printed_outputs[1], strict=True) if old]
    (example,) = blocks("python")
    outputs.append(
        (example[example.rindex("  # ") :], f"  # {run('-c', example, folder=printed_outputs[0])}")
    )
    assert len(outputs) == 3
    for old, new in outputs:
        if old.endswith("...\n"):  # the README has the first lines of a long output
            new = "".join([*new.splitlines(keepends=True)[: old.count("\n") - 1], "...\n"])
        if not pytestconfig.getoption("golden"):
            assert old == new
        page = page.replace(old, new)
    if pytestconfig.getoption("golden"):
        (ROOT / "README.md").write_text(page, encoding="utf-8")


@pytest.mark.slow
def test_console_lines_leave_a_cube_and_a_report(folder: Path) -> None:
    assert (folder / "results" / "first.zarr" / "zarr.json").is_file()
    report = (folder / "results" / "first.report" / "report.txt").read_text(encoding="utf-8")
    assert re.search(r"(\d+) of \1 cells are done", " ".join(report.split()))
    assert (folder / "results" / "first.report" / "report.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("example", [*blocks("python"), *blocks("python", API)])
def test_python_examples_run(example: str, folder: Path) -> None:
    run("-c", example, folder=folder)


def test_code_that_the_site_does_not_execute_is_run_here() -> None:
    with_python = {page for page in PAGES if blocks("python", page.read_text(encoding="utf-8"))}
    reference = {DOCS / "reference" / name for name in ("api.md", "cube.md")}
    assert with_python == {ROOT / "README.md", DOCS / "guides" / "cube.md", *reference}


def test_a_cube_of_several_shapes_gives_what_its_guide_says(tmp_path: Path) -> None:
    models = ("posterior", "posterior-diagonal", "posterior-full", "conditional-auto", "conditional-any")
    plan = toy.plan("iris", models=models, model_chunk=5, held_out=True)
    tree = open_cube(make(tmp_path, plan))
    scope: dict[str, Any] = {"tree": tree}
    for example in blocks("python", CUBE):
        # a toy cube has no Gaussians, and is no part of a sweep; other tests have both
        if "import components" not in example and ".part-" not in example:
            exec(example, scope)
    node = tree["iris"].to_dataset()
    arrays = node["covariances"].isel(p=0, m=0, replicate=0).values
    assert np.array_equal(scope["spherical"].isel(p=0, m=0, replicate=0), arrays[0, :, 0, 0])
    assert np.array_equal(scope["diagonal"].isel(p=0, m=0, replicate=0), arrays[1].diagonal(axis1=1, axis2=2))
    assert np.array_equal(scope["full"].isel(p=0, m=0, replicate=0), arrays[2])
    assert [scope["names"][code] for code in range(5)] == list(CODES)
    assert (scope["gain"].sel(candidate="spherical").fillna(0.0) == 0.0).all()
    assert set(scope["gain"].dims) == {"p", "m", "candidate"}
    fixed, losses = [model for model in plan.models if not chooses(model)], node["held_out"]
    assert scope["log_loss"]["model"].values.tolist() == fixed
    for model in fixed:
        losses_of_model = losses.sel(model=model, candidate=shape_of(model), drop=True)
        assert losses_of_model.notnull().any()
        xr.testing.assert_equal(scope["log_loss"].sel(model=model, drop=True), losses_of_model)


def test_the_sweep_file_example_is_one(tmp_path: Path) -> None:
    example, *searches, crowd, methods = blocks("toml", SWEEP_FILE)
    path = tmp_path / "example.toml"
    path.write_text(example, encoding="utf-8")
    spec = load_sweep(path)
    assert spec.search == (search_from(),)  # "with these defaults"
    search = {"method": METHOD.default, **vars(search_from().settings), HELD_OUT: search_from().held_out}
    assert tomllib.loads(example)["search"] == search
    before, _, after = example.partition("[search]")
    for several, names in zip(searches, [("published", "strong"), ("short", "patient")], strict=True):
        path.write_text(before + several + "[data]" + after.partition("[data]")[2], encoding="utf-8")
        assert load_sweep(path).search_names == names
    for name in (item.name for item in OFFERED):
        assert re.search(rf"^{name} = ", example, flags=re.MULTILINE)
    path.write_text(crowd, encoding="utf-8")
    assert load_sweep(path).crowd == Crowd(unsure=0.05)
    (tmp_path / "mymethod.py").write_text("def cluster(*arguments, **more): ...\n", encoding="utf-8")
    path.write_text(example.replace("[grid]\n", f"[grid]\n{methods}"), encoding="utf-8")
    assert [item.name for item in load_sweep(path).grid.methods] == ["k-means", "pckmeans", "mine"]


def test_the_first_sweep_file_is_one(tmp_path: Path) -> None:
    example, methods = blocks("toml", FIRST_SWEEP_FILE)
    path = tmp_path / "mine.toml"
    (tmp_path / "mymethod.py").write_text("def cluster(*arguments, **more): ...\n", encoding="utf-8")
    path.write_text(example.replace("[grid]\n", f"[grid]\n{methods}"), encoding="utf-8")
    spec = load_sweep(path)
    assert spec.name == "mine"
    assert list(spec.grid.models) == tomllib.loads(example)["grid"]["models"]
    assert [method.name for method in spec.grid.methods] == ["k-means", "mine"]


def test_every_design_and_the_defaults_of_stopping_are_explained() -> None:
    (example,) = blocks("toml", STOPPING)
    assert tomllib.loads(example) == {"stop": Stop(risk=0.05).model_dump()}
    table = SWEEP_FILE.partition("\n## Designs\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, flags=re.MULTILINE) == list(DESIGNS)


def _explanations(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| `?([^|`]+?)`? \| .* \|$", text, flags=re.MULTILINE))


def test_the_tables_of_the_sweep_file_have_every_key_and_its_default() -> None:
    tables = {
        "path": "needed",
        "columns": "all others",
        "sheet": "the first",
        "n_clusters": "number of classes",
        "scale": "that of the file",
        **dict.fromkeys(
            ("drop", "index_column", "label_column", "annotations", "licence", "citation"), "none"
        ),
        **dict.fromkeys(("missing", "links_outside", "categories"), "error"),
        "first_row": "auto",
    }
    assert tables.keys() == UserTable.model_fields.keys() - {"name"}
    # both [ask] and a method have restarts, and both [data] and a table a scale
    before, title, remaining = SWEEP_FILE.partition("## `[ask]`\n")
    of_asking, heading, after = remaining.partition("\n## ")
    first, start, remaining = (before + heading + after).partition("**Tables of your own**")
    of_tables, of_annotations, last = remaining.partition("**Annotations of your own**")
    parts = (first + start + of_annotations + last, title + of_asking, of_tables)
    explained, asking, of_columns = map(_explanations, parts)
    assert of_columns == tables
    assert asking == {key: getattr(value, "text", str(value)) for key, value in dict(Ask()).items()}
    stop = {
        key: "needed" if key == "risk" else str(value) for key, value in Stop(risk=0.05).model_dump().items()
    }
    search = {setting.name: "by method" if setting.by_method else str(setting.default) for setting in OFFERED}
    data = {"scale": "none", "unavailable": "error"}
    crowd = {key: json.dumps(value) for key, value in dict(Crowd()).items()}
    methods = {
        "name": "that of a shipped method",
        "call": "needed",
        "uses": "links",
        "restarts": "1, or the method's own",
        "time_limit": f"{MethodEntry.model_fields['time_limit'].default:g}",
        "options": "none",
        "citation": "none",
    }
    assert methods.keys() == MethodEntry.model_fields.keys()
    assert explained == search | {"held_out": "false"} | crowd | data | stop | methods


def test_every_key_of_a_profile_is_explained_and_every_command_is_named() -> None:
    keys = {key for kind in (Local, Address) for key in kind.model_fields} - {"kind"}
    explained = set(re.findall(r"^\| (?:`\w+`)? *\| `(\w+)` \|", CLUSTER, flags=re.MULTILINE))
    assert explained == keys
    assert all(f"{key}: FILE" in CLUSTER for key in Tls.model_fields)
    linked = re.findall(r"^\| \[`sweep (\w+)`\]\(commands/(\w+)\.md\)", COMMAND_PAGE, flags=re.MULTILINE)
    assert [name for name, _ in linked] == [page for _, page in linked]
    assert {name for name, _ in linked} == set(COMMANDS)
    assert set(re.findall(r"^commands/(\w+)$", COMMAND_PAGE, flags=re.MULTILINE)) == set(COMMANDS)
    for name, row in COMMANDS.items():
        page = (DOCS / "reference" / "commands" / f"{name}.md").read_text(encoding="utf-8")
        directive = f".. click:: sweep_clustering.pipeline.commands.{row[0]}\n   :prog: sweep {name}\n"
        assert page.startswith(f"```{{eval-rst}}\n{directive}")


def test_the_two_commands_stand_once_and_are_what_ci_runs() -> None:
    assert command_after("main command").endswith(".venv/bin/sweep submit sweeps/uci.toml")
    assert command_after("test command").endswith(".venv/bin/python -m pytest")
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "<!-- test command -->" in script.read_text()


def test_the_first_page_is_short() -> None:
    assert len(README.splitlines()) <= 100


FIRST_SCREEN = " ".join(README.splitlines()[:25])


@pytest.mark.parametrize(
    "words",
    [
        "benchmark grids of semi-supervised clustering with wrong annotations",
        "on a laptop, on a SLURM cluster or on any dask scheduler",
        "resumable at any moment",
        "one xarray cube",
        "numba",
        "dashboard",
        "sweep submit sweeps/uci.toml",
        "-m pytest",
    ],
)
def test_the_first_screen_says_what_it_is_for_and_has_both_commands(words: str) -> None:
    assert words in FIRST_SCREEN


def test_the_badges_say_what_the_project_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    for name, words in (("python", " | ".join(versions)), ("licence", project["license"])):
        assert f">{words}</text>" in (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8")


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]


def test_linked_files_exist() -> None:
    for page in PAGES:
        links = re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text(encoding="utf-8"))
        assert links or page.name != "README.md"
        assert [link for link in links if not (page.parent / link).is_file()] == [], page


def test_equations_are_numbered_in_order_and_docstrings_cite_those_there_are() -> None:
    numbers = [int(number) for number in re.findall(r"^ *\$\$ \(eq-(\d+)\)$", MODEL, flags=re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    cited = {
        int(number)
        for package in ("kernels", "pipeline", "storage", "sweeps", "tests")
        for path in (ROOT / package).rglob("*.py")
        for group in re.findall(r"model\.md, eqs?\.((?:[\s,a-z]+\(\d+\))+)", path.read_text(encoding="utf-8"))
        for number in re.findall(r"\d+", group)
    }
    assert cited <= set(numbers)
