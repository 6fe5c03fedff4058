"""The start-up check finds packages of other projects under our names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

from pipeline.startup import PACKAGES, check_shadowing, installed_at


def test_this_installation_is_whole() -> None:
    assert check_shadowing() == str(Path(installed_at("pipeline") or ""))


def test_a_missing_package_is_nowhere() -> None:
    assert installed_at("no_package_of_this_name") is None
    assert installed_at("this") is None  # a module, not a package


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "pipeline"])
def test_a_shadowed_package_is_named_and_not_imported(package: str, tmp_path: Path) -> None:
    stranger = tmp_path / package
    stranger.mkdir()
    (stranger / "__init__.py").write_text("raise SystemExit('imported')")
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]\n"
        "from pipeline.startup import ShadowedPackageError, check_shadowing\n"
        "try: check_shadowing()\n"
        "except ShadowedPackageError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=tmp_path
    )
    assert f"{package}: found in {tmp_path}, expected in " in done.stdout
    assert done.stdout.count("expected in") == 1


def test_the_command_says_so_before_it_imports_anything(tmp_path: Path) -> None:
    stranger = tmp_path / "sweeps"
    stranger.mkdir()
    (stranger / "__init__.py").write_text("raise SystemExit('imported')")
    path = [str(tmp_path), str(ROOT)]
    code = f"import sys; sys.path[:0] = {path!r}; from pipeline.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("sweep: packages of this project are shadowed")
    assert f"sweeps: found in {tmp_path}" in done.stderr


def test_the_command_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "--help"], capture_output=True, check=False, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: sweep ")
