"""The directory beside a cube."""

import ast
from pathlib import Path

import pytest
from checkout import ROOT
from cubes.small import SPEC, draw_inputs, files, make_plan

from storage.cube.cube import create
from storage.runfolder import folder
from storage.runfolder.folder import RunFolder
from sweeps.errors import InputError


def test_it_stands_beside_the_cube() -> None:
    assert RunFolder(Path("results/uci.zarr")).path == Path("results/uci.run")
    assert RunFolder(Path("results/v1.2.zarr")).path == Path("results/v1.2.run")


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "results" / "uci.zarr").make()
    assert run.stat().st_mode & 0o777 == 0o700
    run.chmod(0o755)
    assert RunFolder(tmp_path / "results" / "uci.zarr").make() == run
    assert run.stat().st_mode & 0o777 == 0o700


def test_a_file_in_its_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "uci.run").write_text("")
    with pytest.raises(InputError, match=r"uci\.run: found a file"):
        RunFolder(tmp_path / "uci.zarr").make()


def test_leftovers_go_and_everything_else_stays(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    assert RunFolder(cube).clean() == []
    create(cube, [make_plan()], draw_inputs, SPEC)
    RunFolder(cube).make()
    (RunFolder(cube).journal).write_text("")
    (tmp_path / "other.zarr.new").mkdir()
    before = files(tmp_path)
    leftovers = [
        cube / "a" / "labels" / "c.0.0.0.0.0.partial",
        cube / "zarr.json.partial",
        RunFolder(cube).path / "journal.partial",
        tmp_path / "tiny.zarr.new" / "a" / "zarr.json",
    ]
    for path in leftovers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert set(RunFolder(cube).clean()) == {*leftovers[:3], tmp_path / "tiny.zarr.new"}
    assert files(tmp_path) == before
    assert (tmp_path / "other.zarr.new").exists()


def test_a_file_of_the_run_is_named_here_and_nowhere_else() -> None:
    run = RunFolder(Path("a.zarr"))
    names = {
        file.name for key, file in vars(run).items() if isinstance(file, Path) and key not in ("cube", "path")
    }
    assert len(names) == 13
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in ("pipeline", "storage", "sweeps")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _spells(node, names) and path != Path(folder.__file__)
    ]
    assert found == []


def _spells(node: ast.AST, names: set[str]) -> bool:
    """Whether code spells a name: one with an ending anywhere, `log` and the like where a path is made."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return isinstance(node.right, ast.Constant) and node.right.value in names
    return isinstance(node, ast.Constant) and node.value in {name for name in names if "." in name}
