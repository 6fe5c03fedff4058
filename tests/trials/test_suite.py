"""Data sets in groups, as in the clustering suite, are run, grown, scored and checked."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from cubes.rot import turn_bit
from processes.commandline import refuse, succeed, sweep
from processes.sweeping import run, tiny, write_spec

from sweep_clustering import open_cube, scores
from sweep_clustering.pipeline.scoring.scores import store_scores
from sweep_clustering.pipeline.scoring.tables import cell_table
from sweep_clustering.storage.cube.manifest import read_manifest

NAMES = ("suite/fcps/hepta", "suite/uci/wine")


@pytest.fixture
def home(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not (shared_data / "suite").is_dir():
        pytest.skip("the clustering suite (../shared/data/suite) is not on this machine")
    monkeypatch.setenv("SWEEP_DATA_DIR", str(shared_data))
    return shared_data


def test_a_sweep_of_groups(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    grid = {"p": [0.9], "m": ["0.5N"], "replicates": 1, "restarts": 1}
    grid |= {"models": ["unsupervised", "posterior"]}
    assert run(write_spec(tmp_path, tiny(1, **grid, datasets=["suite/fcps/hept?", "iris"])), tmp_path) == 0
    # another set of the same kind, and one of another, are added
    grown = {**grid, "datasets": ["suite/fcps/hepta", "iris", "suite/uci/wi*"]}
    assert run(write_spec(tmp_path, tiny(1, **grown)), tmp_path) == 0
    cube = tmp_path / "tiny.zarr"
    tree, plans = open_cube(cube), read_manifest(cube).plans
    assert set(plans) == {*NAMES, "iris"}
    assert set(tree.groups) >= {"/suite", "/suite/uci", "/suite/uci/wine", "/suite/uci/wine/unsupervised"}
    for name in NAMES:
        assert scores(tree, name)["nmi"].notnull().all()
    table = cell_table(tree, plans)
    assert sorted(set(table["dataset"])) == sorted(plans)
    assert set(table["status"]) == {"done"}
    # beside the cube, scores of all of them
    path, _ = store_scores(cube, tree)
    stored = xr.open_datatree(path, engine="zarr")
    assert np.array_equal(stored["suite/uci/wine"]["nmi"], scores(tree, "suite/uci/wine")["nmi"])
    assert "suite/uci/wine/unsupervised" in {node.path.strip("/") for node in stored.subtree}
    # the names of their cells are used
    cell = "suite/uci/wine/p=0.9/m=89/replicate=0/posterior"
    assert sweep("why", cube, cell).stdout.startswith(f"{cell}: done")
    problems = refuse("why", cube, "suite/uci/win/p=0.9/m=89/replicate=0/posterior")
    assert "'suite/uci/win'" in problems
    assert "did you mean" in problems
    succeed("why", cube, "suite/fcps/hepta/unsupervised")
    assert "6 of 6 cells were computed again, and all are equal." in sweep("verify", cube).stdout
    # a file of a group is damaged, found and made again
    turn_bit(cube / "suite/uci/wine/labels/c.0.0.0.0.0")
    assert sweep("verify", cube, "--checksums").exit_code == 1
    succeed("repair", cube)
    assert run(tmp_path / "tiny.toml", tmp_path) == 0
    succeed("verify", cube, "--checksums")


def test_a_table_of_ones_own_has_another_name(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("1,2,a\n3,4,b\n5,6,a\n7,9,b\n")
    entry = {"name": "suite", "path": "own.csv", "label_column": 2}
    path = write_spec(tmp_path, tiny(1, datasets=[entry, "suite/nothing/*", "suite/uci/*", "suite/uci/wine"]))
    problems = refuse("plan", path)
    assert "found 'suite', expected another name" in problems
    assert "found 'suite/nothing/*', expected one of diabetes, " in problems
    assert "found the name 'suite/uci/wine' again" in problems
