"""The installed package has an entry and stands beside others, also in checkouts without links."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from checkout import ROOT
from processes.sweeping import write_spec

import sweep_clustering
import sweep_clustering.__main__ as entry
from sweep_clustering.pipeline import common

FOLDERS = ("kernels", "pipeline", "storage", "sweeps")


def run(*command: object, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    line, environment = list(map(str, command)), {**os.environ, **variables}
    return subprocess.run(line, capture_output=True, check=False, text=True, cwd=folder, env=environment)


def console_script() -> str:
    script = shutil.which("sweep", path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("the command is not installed beside this Python")
    return script


def copy_without_links(folder: Path) -> Path:
    """Copy what a build reads of the checkout, as an archive of a file system without links has it."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    (folder / "sweep_clustering").mkdir()
    for path in (ROOT / "sweep_clustering").glob("*.py"):
        shutil.copy(path, folder / "sweep_clustering")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "cluster.yaml"):
        shutil.copy(ROOT / name, folder)
    return folder


def build(checkout: Path, folder: Path) -> Path:
    """Build the wheel of a checkout."""
    process = run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, checkout, folder=checkout)
    assert process.returncode == 0, process.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment(folder: Path) -> Path:
    """Make an environment with the dependencies of this one, but not the project, and return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder)
    # A folder that a .pth file names is searched, but not its own .pth files, as of an editable installation.
    (Path(site.stdout.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def test_the_code_of_bad_input_is_that_of_every_command() -> None:
    assert entry.BAD_INPUT == common.BAD_INPUT


def test_the_version_is_that_of_the_distribution() -> None:
    process = run(sys.executable, "-m", "sweep_clustering", "--version", folder=ROOT)
    assert process.stdout == f"sweep, version {sweep_clustering.__version__}\n"


def test_links_of_the_checkout_lead_to_the_four_folders() -> None:
    links = {path.name: path for path in (ROOT / "sweep_clustering").iterdir() if path.is_symlink()}
    if not links:
        pytest.skip("this copy of the checkout has lost its links")
    assert sorted(links) == list(FOLDERS)
    assert {str(path.readlink()) for path in links.values()} == {f"../{name}" for name in FOLDERS}


def test_a_copy_of_the_checkout_without_links_runs(tmp_path: Path) -> None:
    copy = copy_without_links(tmp_path)
    code = "import sweep_clustering.kernels.settings as module; print(module.__file__)"
    process = run(sys.executable, "-c", code, folder=copy, PYTHONPATH=str(copy))
    assert process.stdout.strip() == str(copy / "kernels" / "settings.py")
    assert process.stderr == ""


@pytest.mark.slow
def test_wheels_with_and_without_links_have_the_same_files(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copy = copy_without_links(tmp_path / "copy")
    names = []
    for checkout, folder in ((ROOT, tmp_path / "a"), (copy, tmp_path / "b")):
        with zipfile.ZipFile(build(checkout, folder)) as wheel:
            names.append(wheel.namelist())
        assert len(names[-1]) == len(set(names[-1]))
    code = {name for name in names[0] if name.endswith(".py")}
    modules = {path.relative_to(ROOT) for name in FOLDERS for path in (ROOT / name).rglob("*.py")}
    top = {path.relative_to(ROOT / "sweep_clustering") for path in (ROOT / "sweep_clustering").glob("*.py")}
    assert code == {f"sweep_clustering/{path}" for path in modules | top}
    assert {name.partition("/")[0] for name in names[0]} == {
        "sweep_clustering",
        f"sweep_clustering-{sweep_clustering.__version__}.dist-info",
    }
    profiles = {"cluster.yaml", "pipeline/cluster/cluster.schema.json"}
    assert {f"sweep_clustering/{name}" for name in profiles} <= set(names[0])
    # The commit is known where git is.
    assert set(names[0]) - {"sweep_clustering/storage/commit.txt"} == set(names[1])


IMPORTS = {
    "sweep-clustering": "import sweep_clustering.kernels.scores, sweep_clustering.sweeps.plan",
    "kernels": "from kernels import get_kernel",
}
"""An import that each distribution is installed for; the second one is published by Hugging Face."""


@pytest.mark.slow
def test_a_package_called_kernels_and_ours_leave_each_other_alone(tmp_path: Path) -> None:
    python = environment(tmp_path / "environment")
    sources = {"sweep-clustering": ["--no-deps", build(ROOT, tmp_path / "built")], "kernels": ["kernels"]}

    def pip(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        return run(python, "-m", "pip", command, "--quiet", *arguments, folder=tmp_path)

    def install(name: str) -> None:
        process = pip("install", *sources[name])
        if process.returncode and name == "kernels":
            pytest.skip(f"the package kernels could not be installed: {process.stderr.splitlines()[-1]}")
        assert process.returncode == 0, process.stderr

    def working_imports() -> list[str]:
        codes = {
            name: run(python, "-W", "ignore", "-c", code, folder=tmp_path) for name, code in IMPORTS.items()
        }
        return [name for name, process in codes.items() if process.returncode == 0]

    install("sweep-clustering")
    install("kernels")
    assert working_imports() == ["sweep-clustering", "kernels"]
    pip("uninstall", "--yes", "sweep-clustering")
    assert working_imports() == ["kernels"]
    install("sweep-clustering")
    assert working_imports() == ["sweep-clustering", "kernels"]
    pip("uninstall", "--yes", "kernels")
    assert working_imports() == ["sweep-clustering"]


@pytest.mark.parametrize(("option", "variables"), [(["-O"], {}), ([], {"PYTHONOPTIMIZE": "2"})])
def test_python_without_checks_is_refused_before_anything_is_made(
    tmp_path: Path, option: list[str], variables: dict[str, str]
) -> None:
    write_spec(tmp_path)
    command = (sys.executable, *option, console_script(), "submit", "tiny.toml", "--workers", "0")
    process = run(*command, folder=tmp_path, **variables)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.startswith("sweep: Python was started with -O or PYTHONOPTIMIZE")
    assert "Traceback" not in process.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]
    script = (sys.executable, *option, "-c", "from sweep_clustering import open_cube")
    assert "ImportError: Python was started with -O" in run(*script, folder=ROOT, **variables).stderr


def with_package(folder: Path, name: str, content: str) -> dict[str, str]:
    """Return an environment with one more file among its packages."""
    file = folder / "packages" / name
    file.parent.mkdir(parents=True)
    file.write_text(content)
    return {"PYTHONPATH": str(folder / "packages")}


@pytest.fixture
def old_numba(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which numpy says that it is newer than numba supports."""
    metadata = "Metadata-Version: 2.1\nName: numpy\nVersion: 999.1\n"
    return with_package(tmp_path, "numpy-999.1.dist-info/METADATA", metadata)


@pytest.fixture
def refusing_numba(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the import of numba fails as that of a numba older than numpy does."""
    code = "raise ImportError('Numba needs NumPy 1.9 or less. Got NumPy 2.9.')"
    return with_package(tmp_path, "numba.py", code)


def of_numba(numpy: str, supported: str) -> str:
    return f"sweep: numba {version('numba')} does not support numpy {numpy}: pip install 'numpy{supported}'\n"


def declared_by_numba() -> str:
    return next(line for line in requires("numba") or () if line.startswith("numpy")).removeprefix("numpy")


@pytest.mark.parametrize("command", ["fit table.csv -k 2", "ask table.csv -k 2", "submit tiny.toml"])
def test_a_numpy_that_numba_does_not_declare_is_refused_in_one_line(
    old_numba: dict[str, str], tmp_path: Path, command: str
) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,2\n2,1\n8,9\n9,8\n")
    write_spec(tmp_path)
    process = run(console_script(), *command.split(), folder=tmp_path, **old_numba)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.splitlines(keepends=True)[0] == of_numba("999.1", declared_by_numba())
    assert "Traceback" not in process.stderr
    assert not (tmp_path / "results").exists()


def test_what_needs_no_kernels_runs_beside_a_numpy_that_is_too_new(
    old_numba: dict[str, str], tmp_path: Path
) -> None:
    process = run(console_script(), "datasets", "list", folder=tmp_path, **old_numba)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_refusal_of_numba_itself_ends_a_sweep_in_one_line_also_on_workers(
    refusing_numba: dict[str, str], tmp_path: Path, workers: int
) -> None:
    write_spec(tmp_path)
    process = run(
        console_script(), "submit", "tiny.toml", "--workers", workers, folder=tmp_path, **refusing_numba
    )
    assert process.returncode == 2
    assert of_numba(version("numpy"), "<1.10") in process.stderr
    assert "Traceback" not in process.stderr


def test_a_script_is_told_which_numpy_numba_supports(refusing_numba: dict[str, str], tmp_path: Path) -> None:
    code = "from sweep_clustering import AnnotatedClustering"
    process = run(sys.executable, "-c", code, folder=tmp_path, **refusing_numba)
    message = of_numba(version("numpy"), "<1.10").replace(
        "sweep: ", "sweep_clustering.installation.UnsupportedNumpyError: "
    )
    assert process.stderr.endswith(message)
    assert process.stderr.count("Traceback") == 1  # the refusal of numba is part of the message, not a cause


def test_another_error_of_numba_stays_as_it_is(refusing_numba: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "packages" / "numba.py").write_text("raise ImportError('no llvmlite')")
    process = run(sys.executable, "-c", "import sweep_clustering.kernels.jit", folder=ROOT, **refusing_numba)
    assert process.stderr.endswith("ImportError: no llvmlite\n")


METHOD = """
def cluster(X, n_clusters, must_link, cannot_link, *, weights, accuracy, random_state):
    print("words")
    return [0] * len(X)
"""


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "<&-", ">&-", "2>&-"])
def test_standard_streams_may_be_closed(tmp_path: Path, closed: str) -> None:
    (tmp_path / "m.py").write_text(METHOD)
    write_spec(
        tmp_path,
        'name = "tiny"\nseed = 1\n[grid]\ndatasets = ["iris"]\nrestarts = 1\n'
        'methods = [{name = "own", call = "m.py:cluster", uses = "nothing", restarts = 1}]\n',
    )
    script = f'"$0" submit tiny.toml --workers 0 {closed}'
    process = run("sh", "-c", script, console_script(), folder=tmp_path)
    assert process.returncode == 0, process.stderr
    assert "1 of 1 cell done" in (tmp_path / "results" / "tiny.run" / "log").read_text()


def test_an_archive_is_refused_in_one_line_that_says_how_to_install_it(tmp_path: Path) -> None:
    archive = tmp_path / "ours.whl"
    with zipfile.ZipFile(archive, "w") as wheel:
        for path in (ROOT / "sweep_clustering").glob("*.py"):
            wheel.write(path, path.relative_to(ROOT))
    for arguments in (("--help",), ("fit", "table.csv", "-k", "2"), ("submit", "sweep.toml")):
        ended = run(
            sys.executable, "-m", "sweep_clustering", *arguments, folder=tmp_path, PYTHONPATH=str(archive)
        )
        assert ended.returncode == common.BAD_INPUT
        assert ended.stderr.count("\n") == 1
        assert ended.stderr.startswith(f"sweep: found this project in the archive {archive}, expected files")
        assert ended.stderr.endswith(f"pip install {archive}\n")
    code = "from sweep_clustering import AnnotatedClustering"
    ended = run(sys.executable, "-c", code, folder=tmp_path, PYTHONPATH=str(archive))
    assert f"ArchiveError: found this project in the archive {archive}" in ended.stderr
