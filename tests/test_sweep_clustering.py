"""Every door says what stands before our packages, where ours are, and what to do."""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from checkout import ROOT
from processes.sweeping import TINY, write_spec

import sweep_clustering
from pipeline import common
from sweep_clustering import PACKAGES, check_shadowing, location

MAIN = "from sweep_clustering import main; main()"


def run(*command: object, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    line, environment = list(map(str, command)), {**os.environ, **variables}
    return subprocess.run(line, capture_output=True, check=False, text=True, cwd=folder, env=environment)


def python(code: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with our packages last on its path as in an installation."""
    start = f"import sys; sys.path.append({str(ROOT)!r}); "
    return run(sys.executable, "-c", start + code, *arguments, folder=folder)


def shadow(folder: Path, package: str, form: str = "{}.py") -> Path:
    """A module or package of the user's; what the messages call it."""
    path = folder / form.format(package)
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise SystemExit('imported')")
    return path.parent if path.name == "__init__.py" else path


def console_script() -> str:
    found = shutil.which("sweep", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("the command is not installed beside this Python")
    return found


def assert_said(text: str, package: str, stranger: Path) -> None:
    assert f"{package}: found {stranger}, expected {ROOT / package}\n" in text
    assert text.count("expected") == 1
    assert f"rename {stranger}, or run " in text
    assert "PYTHONSAFEPATH=1" in text
    assert "Traceback" not in text


def test_this_installation_is_whole() -> None:
    assert sweep_clustering.BAD_INPUT == common.BAD_INPUT
    assert check_shadowing() == str(ROOT)
    assert location("no_package_of_this_name") is None
    assert (location("this") or ROOT).name == "this.py"  # a module, not a package


@pytest.mark.parametrize(("package", "form"), [("pipeline", "{}.py"), ("kernels", "{}/__init__.py")])
def test_a_shadowed_package_is_named_and_not_imported(package: str, form: str, tmp_path: Path) -> None:
    stranger = shadow(tmp_path, package, form)
    code = "from sweep_clustering import check_shadowing\ntry: check_shadowing()\n"
    done = python(f"{code}except ImportError as error: print(error)", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_said(done.stdout, package, stranger)


def test_a_package_that_was_installed_is_to_be_uninstalled(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    stranger = shadow(packages, "kernels", "{}/__init__.py")
    done = python(f"sys.path.insert(0, {str(packages)!r}); {MAIN}", folder=tmp_path)
    assert (done.returncode, "rename" in done.stderr) == (2, False)
    remedy = "uninstall the other package"
    assert f"kernels: found {stranger}, expected {ROOT / 'kernels'}\n{remedy}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_every_way_to_start_the_command_says_so_before_it_imports_anything(
    package: str, tmp_path: Path
) -> None:
    stranger = shadow(tmp_path, package)
    here = os.pathsep.join((str(tmp_path), str(ROOT)))
    safe = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
    modules = ("sweep_clustering",) if package == "pipeline" else ("pipeline", "sweep_clustering")
    lines: list[tuple[list[str], dict[str, str], dict[str, str]]] = [
        # the console script does not look in the current folder, `python -m` does
        ([console_script()], {"PYTHONPATH": here}, {}),
        *(
            ([sys.executable, "-m", name], {"PYTHONPATH": safe}, {"PYTHONPATH": safe, "PYTHONSAFEPATH": "1"})
            for name in modules
        ),
    ]
    for line, shadowed, plain in lines:
        done = run(*line, "--help", folder=tmp_path, **shadowed)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("sweep: packages of this project are shadowed")
        assert_said(done.stderr, package, stranger)
        done = run(*line, "--help", folder=tmp_path, **plain)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: ")


@pytest.mark.slow
@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "pipeline"])
def test_a_script_beside_a_module_of_its_own_is_told(package: str, tmp_path: Path) -> None:
    stranger = shadow(tmp_path, package)
    for name in ("AnnotatedClustering", "open_cube", "load_sweep"):
        (tmp_path / "script.py").write_text(
            f"import sys\nsys.path.append({str(ROOT)!r})\n"
            f"try:\n    from pipeline import {name}\nexcept ImportError as error:\n    print(error)\n"
        )
        done = run(sys.executable, tmp_path / "script.py", folder=ROOT.parent)
        assert (done.returncode, done.stderr) == (0, "")
        assert_said(done.stdout, package, stranger)


@pytest.mark.slow
def test_a_folder_that_is_no_package_does_no_harm(tmp_path: Path) -> None:
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "notes.txt").touch()
    done = python("from pipeline import load_sweep; print(load_sweep.__module__)", folder=tmp_path)
    assert (done.stdout, done.stderr) == ("sweeps.file.reading\n", "")


@pytest.mark.slow
def test_worker_processes_do_not_look_in_the_current_folder(tmp_path: Path) -> None:
    for package in PACKAGES:
        shadow(tmp_path, package)
    small = TINY.replace("{mixture = {n_clusters = [2, 3], count = 2, n_samples = 30, n_features = 3}}, ", "")
    write_spec(tmp_path, small.replace("restarts = 5", "restarts = 1"))
    done = run(console_script(), "submit", "tiny.toml", "--workers", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("option", "variables"), [(["-O"], {}), ([], {"PYTHONOPTIMIZE": "2"})])
def test_python_without_checks_is_refused_before_anything_is_made(
    tmp_path: Path, option: list[str], variables: dict[str, str]
) -> None:
    write_spec(tmp_path)
    command = (sys.executable, *option, console_script(), "submit", "tiny.toml", "--workers", "0")
    done = run(*command, folder=tmp_path, **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("sweep: Python was started with -O or PYTHONOPTIMIZE")
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]
    script = (sys.executable, *option, "-c", "from pipeline import open_cube")
    assert "ImportError: Python was started with -O" in run(*script, folder=ROOT, **variables).stderr


@pytest.fixture
def old_numba(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which numpy says that it is newer than numba supports."""
    metadata = tmp_path / "packages" / "numpy-999.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 999.1\n")
    return {"PYTHONPATH": str(tmp_path / "packages")}


@pytest.fixture
def refusing_numba(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the import of numba fails as that of a numba older than numpy does."""
    module = tmp_path / "packages" / "numba.py"
    module.parent.mkdir()
    module.write_text("raise ImportError('Numba needs NumPy 1.9 or less. Got NumPy 2.9.')")
    return {"PYTHONPATH": str(tmp_path / "packages")}


def write_table(folder: Path) -> Path:
    path = folder / "table.csv"
    path.write_text("a,b\n1,2\n2,1\n8,9\n9,8\n")
    return path


def of_numba(numpy: str, supported: str) -> str:
    return f"sweep: numba {version('numba')} does not support numpy {numpy}: pip install 'numpy{supported}'\n"


def declared_by_numba() -> str:
    return next(line for line in requires("numba") or () if line.startswith("numpy")).removeprefix("numpy")


@pytest.mark.parametrize("command", ["fit table.csv -k 2", "ask table.csv -k 2", "submit tiny.toml"])
def test_a_numpy_that_numba_does_not_declare_is_refused_in_one_line(
    old_numba: dict[str, str], tmp_path: Path, command: str
) -> None:
    write_table(tmp_path)
    write_spec(tmp_path)
    done = run(console_script(), *command.split(), folder=tmp_path, **old_numba)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines(keepends=True)[0] == of_numba("999.1", declared_by_numba())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


def test_what_needs_no_kernels_runs_beside_a_numpy_that_is_too_new(
    old_numba: dict[str, str], tmp_path: Path
) -> None:
    done = run(console_script(), "datasets", "list", folder=tmp_path, **old_numba)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_refusal_of_numba_itself_ends_a_sweep_in_one_line_also_on_workers(
    refusing_numba: dict[str, str], tmp_path: Path, workers: int
) -> None:
    write_spec(tmp_path)
    done = run(
        console_script(), "submit", "tiny.toml", "--workers", workers, folder=tmp_path, **refusing_numba
    )
    assert done.returncode == 2
    assert of_numba(version("numpy"), "<1.10") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_is_told_which_numpy_numba_supports(refusing_numba: dict[str, str], tmp_path: Path) -> None:
    code = "from pipeline import AnnotatedClustering"
    done = run(sys.executable, "-c", code, folder=tmp_path, **refusing_numba)
    said = of_numba(version("numpy"), "<1.10").replace("sweep: ", "sweep_clustering.UnsupportedNumpyError: ")
    assert done.stderr.endswith(said)
    assert done.stderr.count("Traceback") == 1  # the refusal of numba is part of the message, not a cause


def test_another_error_of_numba_stays_as_it_is(refusing_numba: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "packages" / "numba.py").write_text("raise ImportError('no llvmlite')")
    done = run(sys.executable, "-c", "import kernels.jit", folder=ROOT, **refusing_numba)
    assert done.stderr.endswith("ImportError: no llvmlite\n")


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
    done = run("sh", "-c", script, console_script(), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 cell done" in (tmp_path / "results" / "tiny.run" / "log").read_text()


def test_an_archive_is_refused_in_one_line_that_says_how_to_install_it(tmp_path: Path) -> None:
    archive = tmp_path / "ours.whl"
    with zipfile.ZipFile(archive, "w") as wheel:
        for name in ("sweep_clustering.py", "pipeline/__init__.py", "pipeline/__main__.py"):
            wheel.write(ROOT / name, name)
    for arguments in (("--help",), ("fit", "table.csv", "-k", "2"), ("submit", "sweep.toml")):
        done = run(sys.executable, "-m", "pipeline", *arguments, folder=tmp_path, PYTHONPATH=str(archive))
        assert done.returncode == common.BAD_INPUT
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith(f"sweep: found this project in the archive {archive}, expected files")
        assert done.stderr.endswith(f"pip install {archive}\n")
    code = "from pipeline import AnnotatedClustering"
    done = run(sys.executable, "-c", code, folder=tmp_path, PYTHONPATH=str(archive))
    assert f"ArchiveError: found this project in the archive {archive}" in done.stderr
