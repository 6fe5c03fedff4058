"""Every command that opens a cube refuses one that was made to do harm, or has changed, with a message."""

import json
import os
import shutil
from pathlib import Path

import pytest
import zarr
from click.testing import Result
from cubes import toy
from processes.commandline import refuse, sweep

from sweep_clustering.storage.cube.manifest import ROOT_FILE
from sweep_clustering.storage.runfolder.folder import RunFolder

COMMANDS = {
    "status": "status CUBE",
    "report": "report CUBE --out OUT",
    "compare": "compare CUBE CUBE --out OUT",
    "verify": "verify CUBE --sample 1000",
    "why": "why CUBE iris/p=0.8/m=75/replicate=0/posterior",
    "plan": "plan SPEC --results RESULTS",
    "submit": "submit SPEC --results RESULTS --workers 0",
    "dry run": "submit SPEC --results RESULTS --dry-run",
}


def damage(cube: Path, how: str) -> None:
    """Put something into a cube that no run writes."""
    root = cube / ROOT_FILE
    if how == "codec":
        document = json.loads(root.read_bytes())
        codecs = [{"name": "numcodecs.pickle", "configuration": {}}]
        document["consolidated_metadata"]["metadata"]["iris/labels"]["codecs"] = codecs
        root.write_text(json.dumps(document))
    elif how == "link":
        (cube / "iris").rename(cube.with_name("elsewhere"))
        (cube / "iris").symlink_to(cube.with_name("elsewhere"))
    elif how == "pipe":
        root.unlink()
        os.mkfifo(root)
    else:
        root.write_text("[" * 100_000)


@pytest.fixture
def cube(tiny_run: Path, tmp_path: Path) -> Path:
    """Return a copy of a finished cube beside its sweep file."""
    shutil.copy(tiny_run / "tiny.toml", tmp_path)
    return Path(shutil.copytree(tiny_run / "tiny.zarr", tmp_path / "tiny.zarr"))


def call(command: str, cube: Path) -> Result:
    folder = cube.parent
    places = {"CUBE": cube, "OUT": folder / "out", "SPEC": folder / "tiny.toml", "RESULTS": folder}
    return sweep(*(places.get(word, word) for word in COMMANDS[command].split()))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("how", ["codec", "link", "pipe", "nested"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_cube_made_to_do_harm_is_refused_by_every_command(cube: Path, how: str, command: str) -> None:
    damage(cube, how)
    before = sorted(cube.parent.rglob("*"))
    result = call(command, cube)
    assert result.exit_code == 2, result.output
    assert "nothing was started" in result.stderr
    assert str(cube) in result.stderr
    assert sorted(cube.parent.rglob("*")) == before


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("plan", "dry run")])
def test_commands_end_with_the_message_of_a_file_that_has_changed_alone(cube: Path, command: str) -> None:
    key = "iris/status/c.0.0.0.0" if command in ("status", "submit") else "iris/labels/c.0.0.0.0.0"
    (cube / key).write_bytes(b"\0" * 40)
    result = call(command, cube)
    assert result.exit_code == 1
    array = key.rpartition("/")[0]
    assert f"{cube}/{key}: has changed since it was written; it holds {array}" in result.stderr
    assert result.stderr.rstrip().endswith(f"To have it made again: sweep repair {cube}")


@pytest.mark.parametrize(("name", "value"), [("labels", 30_000), ("labels_true", -5), ("annotations", 10**9)])
def test_values_that_no_solver_writes_are_bad_input(tmp_path: Path, name: str, value: int) -> None:
    cube = tmp_path / "toy.zarr"
    grid = {"datasets": [{"name": "iris", "scale": "none"}], "m": ["0.5N", "1N"]}
    toy.write(cube, toy.plan("iris"), spec={"name": "toy", "seed": 7, "grid": grid})
    array = zarr.open_array(cube / "iris" / name, mode="r+")
    array[(0,) * array.ndim] = value
    assert "a cell of the cube: found" in refuse("report", cube)


@pytest.mark.parametrize("command", ["status", "logs"])
def test_a_run_without_a_cube_leads_nowhere(tmp_path: Path, command: str) -> None:
    run = RunFolder(tmp_path / "toy.zarr").make()
    (run / "log").symlink_to("/etc/passwd")
    assert "log: found a link, expected a file of the run" in refuse(command, tmp_path / "toy.zarr")
