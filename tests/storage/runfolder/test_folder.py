"""The directory beside a cube."""

from pathlib import Path

import pytest
from cubes.small import SPEC, draw_inputs, files, make_plan

from storage.cube.cube import create
from storage.runfolder.folder import clean_leftovers, make_run_directory, run_directory
from sweeps.errors import InputError


def test_it_stands_beside_the_cube() -> None:
    assert run_directory(Path("results/uci.zarr")) == Path("results/uci.run")
    assert run_directory(Path("results/v1.2.zarr")) == Path("results/v1.2.run")


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    run = make_run_directory(tmp_path / "results" / "uci.zarr")
    assert run.stat().st_mode & 0o777 == 0o700
    run.chmod(0o755)
    assert make_run_directory(tmp_path / "results" / "uci.zarr") == run
    assert run.stat().st_mode & 0o777 == 0o700


def test_a_file_in_its_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "uci.run").write_text("")
    with pytest.raises(InputError, match=r"uci\.run: found a file"):
        make_run_directory(tmp_path / "uci.zarr")


def test_leftovers_go_and_everything_else_stays(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    assert clean_leftovers(cube) == []
    create(cube, [make_plan()], draw_inputs, SPEC)
    make_run_directory(cube)
    (run_directory(cube) / "journal").write_text("")
    (tmp_path / "other.zarr.new").mkdir()
    before = files(tmp_path)
    leftovers = [
        cube / "a" / "labels" / "c.0.0.0.0.0.partial",
        cube / "zarr.json.partial",
        run_directory(cube) / "journal.partial",
        tmp_path / "tiny.zarr.new" / "a" / "zarr.json",
    ]
    for path in leftovers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert set(clean_leftovers(cube)) == {*leftovers[:3], tmp_path / "tiny.zarr.new"}
    assert files(tmp_path) == before
    assert (tmp_path / "other.zarr.new").exists()
