"""What the arguments of commands name."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout import ROOT
from processes.sweeping import write_spec

from pipeline.commands.paths import find_cube, find_run, find_spec
from sweeps.errors import InputError


def test_a_sweep_file_of_the_user_comes_before_an_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("quick.toml", "sweeps/quick.toml"):
        assert find_spec(Path(name)) == (ROOT / "sweeps" / "quick.toml", True)
    (tmp_path / "quick.toml").touch()
    assert find_spec(Path("quick.toml")) == (Path("quick.toml"), False)
    for name in ("elsewhere/quick.toml", "sweeps/quick", "sweeps/none.toml", str(tmp_path / "none.toml")):
        with pytest.raises(InputError, match=r"no such file.*sweeps/quick\.toml, sweeps/"):
            find_spec(Path(name))


def test_a_cube_is_found_by_its_path_and_by_its_sweep_file(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path), tmp_path / "results" / "tiny.zarr"
    with pytest.raises(InputError, match='run "sweep submit" first'):
        find_cube(spec, cube.parent)
    with pytest.raises(InputError, match="no such directory, expected a cube, or a sweep file"):
        find_cube(cube, cube.parent)
    cube.mkdir(parents=True)
    assert find_cube(spec, cube.parent) == find_cube(cube, tmp_path) == cube


def test_a_run_is_found_before_its_cube_is_there(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path), tmp_path / "tiny.zarr"
    with pytest.raises(InputError, match="no such directory"):
        find_run(cube, tmp_path)
    cube.with_name("tiny.run").mkdir()
    assert find_run(spec, tmp_path) == find_run(cube, tmp_path) == cube
    with pytest.raises(InputError, match="no such directory"):
        find_run(tmp_path / "tiny", tmp_path)  # no name of a cube, though its run folder would be the same


def test_a_run_folder_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tiny.run").symlink_to("elsewhere")
    with pytest.raises(InputError, match="a link, expected the directory of a run"):
        find_run(tmp_path / "tiny.zarr", tmp_path)
