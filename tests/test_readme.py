"""The README speaks the truth: its examples run, its keys and commands exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from pipeline.cluster.profiles import Address, Local, Tls
from pipeline.commands.main import main
from sweeps.file.spec import Search, load_spec

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def command_after(marker: str) -> str:
    found = re.findall(rf"^<!-- {marker} -->\n```sh\n(.*)\n```$", README, flags=re.MULTILINE)
    assert len(found) == 1
    return str(found[0])


def run(*command: str, folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Empty folder in which the console lines of the README ran, one after the other."""
    empty = tmp_path_factory.mktemp("readme")
    for line in "".join(blocks("console")).splitlines():
        prompt, program, *arguments = shlex.split(line)
        assert (prompt, program) == ("$", "sweep")
        run("-m", "pipeline", *arguments, folder=empty)
    return empty


def test_console_lines_leave_a_cube_and_a_report(folder: Path) -> None:
    assert (folder / "results" / "quick.zarr" / "zarr.json").is_file()
    report = (folder / "results" / "quick.report" / "report.txt").read_text(encoding="utf-8")
    assert re.search(r"^cells: \d+ done, 0 failed, 0 pending", report, flags=re.MULTILINE)
    assert (folder / "results" / "quick.report" / "report.html").is_file()


@pytest.mark.parametrize("example", blocks("python"))
def test_python_examples_run(example: str, folder: Path) -> None:
    run("-c", example, folder=folder)


def test_the_sweep_file_example_is_one(tmp_path: Path) -> None:
    (example,) = blocks("toml")
    path = tmp_path / "example.toml"
    path.write_text(example, encoding="utf-8")
    spec = load_spec(path)
    assert spec.search == Search()  # "with these defaults"
    for name in (field.name for field in fields(Search)):
        assert re.search(rf"^{name} = ", example, flags=re.MULTILINE)


def test_every_profile_key_is_explained() -> None:
    keys = {field.name for kind in (Local, Address) for field in fields(kind)}
    explained = set(re.findall(r"^\| (?:`\w+`)? *\| `(\w+)` \|", README, flags=re.MULTILINE))
    assert explained == keys
    assert all(f"{field.name}: FILE" in README for field in fields(Tls))


def test_every_command_is_named() -> None:
    named = set(re.findall(r"^\| `sweep (\w+)", README, flags=re.MULTILINE))
    assert named == set(main.commands)


def test_the_two_commands_stand_once_and_are_what_ci_runs() -> None:
    assert command_after("main command").endswith(".venv/bin/sweep submit sweeps/uci.toml")
    assert command_after("test command").endswith(".venv/bin/python -m pytest")
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "<!-- test command -->" in script.read_text()


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []
