"""Every door says what stands before our packages, where ours are, and what to do."""

import os
import shutil
import subprocess
import sys
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
