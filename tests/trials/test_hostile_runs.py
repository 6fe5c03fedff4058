"""Every command that opens a cube refuses one that was made to do harm, with exit code 2 and a message."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import zarr
from click.testing import CliRunner
from cubes import toy
from processes.sweeping import write_spec

from pipeline.commands.main import main
from pipeline.run.request import prepare
from storage.cube.growth import create
from storage.cube.manifest import ROOT_FILE
from storage.runfolder.folder import RunFolder

COMMANDS = {
    "status": ["status", "{cube}"],
    "report": ["report", "{cube}"],
    "verify": ["verify", "{cube}"],
    "why": ["why", "{cube}", "iris/unsupervised"],
    "plan": ["plan", "{spec}", "--results", "{results}"],
    "submit": ["submit", "{spec}", "--results", "{results}", "--workers", "0"],
    "dry run": ["submit", "{spec}", "--results", "{results}", "--dry-run"],
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    prepared = prepare(write_spec(folder), results=folder, data_dir=None)
    create(prepared.cube, prepared.inputs.plans, prepared.inputs.stacked, prepared.spec)
    return prepared.cube


@pytest.fixture(params=["codec", "link", "pipe", "nested"])
def hostile(request: pytest.FixtureRequest, good: Path, tmp_path: Path) -> Path:
    write_spec(tmp_path)
    cube = Path(shutil.copytree(good, tmp_path / good.name))
    root = cube / ROOT_FILE
    if request.param == "codec":
        document = json.loads(root.read_bytes())
        codecs = [{"name": "numcodecs.pickle", "configuration": {}}]
        document["consolidated_metadata"]["metadata"]["iris/labels"]["codecs"] = codecs
        root.write_text(json.dumps(document))
    elif request.param == "link":
        (cube / "iris").rename(tmp_path / "elsewhere")
        (cube / "iris").symlink_to(tmp_path / "elsewhere")
    elif request.param == "pipe":
        root.unlink()
        os.mkfifo(root)
    else:
        root.write_text("[" * 100_000)
    return cube


@pytest.mark.timeout(60)
@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_refused_by_every_command(hostile: Path, command: str) -> None:
    folder = hostile.parent
    before = sorted(folder.rglob("*"))
    words = {"cube": hostile, "spec": folder / "tiny.toml", "results": folder}
    arguments = [word.format(**words) for word in COMMANDS[command]]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert "nothing was started" in result.stderr
    assert str(hostile) in result.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(("name", "value"), [("labels", 30_000), ("labels_true", -5), ("annotations", 10**9)])
def test_values_that_no_solver_writes_are_bad_input(tmp_path: Path, name: str, value: int) -> None:
    cube = tmp_path / "toy.zarr"
    grid = {"datasets": [{"name": "iris", "scale": "none"}], "m": ["0.5N", "1N"]}
    toy.write(cube, toy.plan("iris"), spec={"name": "toy", "seed": 7, "grid": grid})
    array = zarr.open_array(cube / "iris" / name, mode="r+")
    array[(0,) * array.ndim] = value
    result = CliRunner().invoke(main, ["report", str(cube)])
    assert result.exit_code == 2, result.output
    assert "a cell of the cube: found" in result.stderr


@pytest.mark.parametrize("command", [["status"], ["logs"]])
def test_a_run_without_a_cube_leads_nowhere(tmp_path: Path, command: list[str]) -> None:
    run = RunFolder(tmp_path / "toy.zarr").make()
    (run / "log").symlink_to("/etc/passwd")
    result = CliRunner().invoke(main, [*command, str(tmp_path / "toy.zarr")])
    assert result.exit_code == 2, result.output
    assert "log: found a link, expected a file of the run" in result.stderr
