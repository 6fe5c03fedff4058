"""The repository has a known shape, and some words are in no file.

ruff, mypy and the contracts of imports are a step of `.ci/run`.
"""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from wording import counts

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"pipeline", "kernels", "sweeps", "storage"}
TOP_LEVEL = PACKAGES | {
    ".ci",
    ".github",
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "benchmarks",  # they measure what the documents say, and test nothing
    "hatch_build.py",
    "cluster.yaml",
    "distribution",  # how others package the project: a recipe of conda-forge, a Containerfile
    "docs",
    "pyproject.toml",
    "sweep_clustering",  # what is imported: the public names, the entry, and links to the four folders
    "tests",
}
# The first letters are in brackets, so that this file does not contain the words itself.
FORBIDDEN = re.compile(
    r"(?<![\w.])/[w]ork/|/tmp/[v]env|/[r]oot/|/[h]ome/\w|/[U]sers/\w|[p]ythonhosted|[i]ndex-url|[f]ind-links",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    return [path for path in map(Path, filter(None, listed)) if (ROOT / path).is_file()]


TABLES = {"narwhals", "pandas", "pyarrow", "openpyxl"}
"""Read tables of the user's own; each is imported where such a file is read."""


ALLOWED = {
    # llvmlite is numba's own compiler: its version is part of the key of the kernels' cache;
    # scipy has connected groups and paths of graphs, for hard links
    "kernels": {"numpy", "numba", "llvmlite", "scipy", "threadpoolctl"},
    # of kernels the declared settings alone: an import contract says so
    "sweeps": {"kernels", "numpy", "pooch", "pydantic", "pydantic_core", "scipy", "sklearn", "tomli_w"}
    | TABLES,
}


@pytest.mark.parametrize("package", ALLOWED)
def test_light_packages_stay_light(package: str) -> None:
    graph = grimp.build_graph("sweep_clustering", include_external_packages=True, cache_dir=None)
    modules = graph.find_descendants(f"sweep_clustering.{package}") | {f"sweep_clustering.{package}"}
    imported = set().union(*map(graph.find_modules_directly_imported_by, modules)) - modules
    folders = {".".join(name.split(".")[:2]) for name in imported if name.startswith("sweep_clustering")}
    libraries = {name for name in imported if graph.is_module_squashed(name)}
    assert folders <= {f"sweep_clustering.{name}" for name in {"installation"} | ALLOWED[package] & PACKAGES}
    assert libraries - set(sys.stdlib_module_names) <= ALLOWED[package]


def test_top_level_holds_nothing_else(tracked_files: list[Path]) -> None:
    assert {path.parts[0] for path in tracked_files} <= TOP_LEVEL


def test_modules_stay_short(tracked_files: list[Path]) -> None:
    lengths = {
        path: len((ROOT / path).read_bytes().splitlines()) for path in tracked_files if path.suffix == ".py"
    }
    assert {path: length for path, length in lengths.items() if length > 900} == {}


def test_every_room_has_its_tests(tracked_files: list[Path]) -> None:
    assert [path for path in tracked_files if path.parts[0] == "tests" and path.name == "__init__.py"] == []
    rooms = {
        path.parent for path in tracked_files if path.name == "__init__.py" and path.parts[0] in PACKAGES
    }
    tests = [path for path in tracked_files if path.parts[0] == "tests" and path.name.startswith("test_")]
    tested = {path.parent.relative_to("tests") for path in tests}
    tested |= {path.parent for path in tested} | {
        path.parent.relative_to("tests") / path.stem.removeprefix("test_") for path in tests
    }
    assert sorted(map(str, rooms - tested)) == []


def test_every_promise_names_its_tests() -> None:
    page = (ROOT / "docs" / "explanation" / "promises.md").read_text().split("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 10
    assert [
        promise for _, promise, tests, _ in rows if not re.search(r"`tests/\S+/test_\w+\.py`", tests)
    ] == []


def test_pages_name_files_that_exist(tracked_files: list[Path]) -> None:
    pages = [path for path in tracked_files if path.suffix == ".md" and path.name != "CHANGELOG.md"]
    named = {
        (page, name)
        for page in pages
        for name in re.findall(
            r"`((?:benchmarks|kernels|pipeline|storage|sweeps|tests)/[\w/.-]+\.\w+)`",
            (ROOT / page).read_text(),
        )
    }
    assert len(named) > 20
    assert [f"{page}: {name}" for page, name in sorted(named) if not (ROOT / name).is_file()] == []


def test_no_file_speaks_of_one_machine(tracked_files: list[Path]) -> None:
    places = []
    for path in tracked_files:
        content = (ROOT / path).read_bytes()
        if b"\0" not in content and FORBIDDEN.search(text := content.decode()):
            lines = enumerate(text.splitlines(), start=1)
            places += [
                f"{path}:{number}: {line.strip()[:100]}" for number, line in lines if FORBIDDEN.search(line)
            ]
    assert places == []


READS = re.compile(
    r"(?<![\w.])open\(|\.(open|read_text|read_bytes)\(|\b(np|numpy)\.(load|loadtxt|genfromtxt|fromfile|memmap)\("
    r"|\bpd\.read_\w+\(|\bFileIO\("
)
"""Calls that open a file."""

OWN_FILES = {
    "sweeps/files.py": "the one that opens what a user names",
    "sweeps/data/formats.py": "members of an open archive",
    "sweeps/data/builtin.py": "the list of data sets, a file of the package, and files of scikit-learn",
    "kernels/": "code, and the cache of its own, which checks what it opens",
    "storage/": "cubes and run folders, which have doors of their own",
    "pipeline/ask/answers.py": "written to, once it was read",
    "pipeline/cluster/connect.py": "the log of a run, which is written",
    "pipeline/commands/known.py": "a file of the package",
    "pipeline/publish/description.py": "files of the package",
    "pipeline/common.py": "quotas of control groups",
    "pipeline/commands/results.py": "a browser",
    "pipeline/jobs/keys.py": "a file of a package",
    "pipeline/jobs/cluster.py": "the log of a job",
    "pipeline/live/site.py": "files of the package",
    "pipeline/looks.py": "a file of the package",
    "pipeline/monitor/status.py": "logs of a run folder",
    "pipeline/report/write.py": "written",
    "pipeline/report/elements.py": "files of the package",
    "pipeline/run/signals.py": "the null device",
    "pipeline/submit/doctor.py": "files of its own",
}
"""Where files are opened that no user names, or not to be read."""


def test_files_that_a_user_names_have_one_door(tracked_files: list[Path]) -> None:
    modules = [path for path in tracked_files if path.parts[0] in PACKAGES and path.suffix == ".py"]
    opening = [str(path) for path in modules if READS.search((ROOT / path).read_text())]
    assert [path for path in opening if not path.startswith(tuple(OWN_FILES))] == []
    assert [name for name in OWN_FILES if not any(path.startswith(name) for path in opening)] == []


ROOM = re.compile(r"^\| `([a-z/]+)` \| (.+) \|$", re.MULTILINE)


def test_the_map_of_the_design_has_every_module_in_its_room() -> None:
    page = (ROOT / "docs/design.md").read_text()
    rooms = dict(ROOM.findall(page[page.index("### Rooms") : page.index("### Two walks")]))
    modules = [
        path.relative_to(ROOT)
        for package in sorted(PACKAGES)
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert rooms.keys() == {path.parent.as_posix() for path in modules}
    assert [str(path) for path in modules if f"`{path.stem}`" not in rooms[path.parent.as_posix()]] == []


MOST = {
    "vague names": 0,
    "names that are no nouns": 0,
    "descriptions with Of or What": 0,
    "docstring longer than body": 85,
    "tuples of three": 2,
    "statements with several constants": 1,
    "calls with splats": 119,
    "uses of Any": 568,
    "modules with code": 149,
    "lines of code": 34_501,
    "lines of imports": 3_068,
    "lines of docstrings for 100 lines of code": 26,
}
"""What there may be of each fault of `wording.counts`: a change that mends some lowers the number here."""


@pytest.mark.parametrize("fault", MOST)
def test_the_code_gets_no_harder_to_read(fault: str) -> None:
    assert counts()[fault] <= MOST[fault]


# A line of a section that begins a description: names, then maybe a type.
DESCRIBED = re.compile(r"^(\w+(?:, \w+)*)(?: : .*)?$")


def undescribed_names(tree: ast.Module) -> list[str]:
    """Return names that docstrings describe as parameters, and that the function or class does not have."""
    wrong_names = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        text = ast.get_docstring(node) or ""
        _, _, after_heading = text.partition("Parameters\n----------\n")
        section, _, _ = after_heading.partition("\n\n")
        makers = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
        fields = {item.target for item in node.body if isinstance(item, ast.AnnAssign)}
        names = {target.id for target in fields if isinstance(target, ast.Name)}
        for function in [node] if isinstance(node, ast.FunctionDef) else makers:
            names |= {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
        lines = [match[1].split(", ") for line in section.splitlines() if (match := DESCRIBED.match(line))]
        wrong_names += [
            f"{node.name}: {name}" for line in lines for name in line if names and name not in names
        ]
    return wrong_names


def test_docstrings_describe_parameters_that_there_are() -> None:
    source = (
        'def f(a):\n    """Do.\n\n    Parameters\n    ----------\n    a, b : int\n        Numbers.\n    """\n'
    )
    assert undescribed_names(ast.parse(source)) == ["f: b"]
    paths = [path for package in sorted(PACKAGES) for path in (ROOT / package).rglob("*.py")]
    assert [name for path in paths for name in undescribed_names(ast.parse(path.read_text()))] == []
