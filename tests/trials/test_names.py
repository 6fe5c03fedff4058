"""Names of features, samples and classes: from a table to the cube, kept when it grows, and no others."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from cubes.rot import turn_bit
from processes.sweeping import run, write_spec

from pipeline.check.repair import repair_cube
from pipeline.check.verify import verify
from pipeline.report.cell import read_cell
from pipeline.scoring.scores import scores
from storage.cube.growth import open_cube
from storage.cube.manifest import NAMES, read_manifest
from sweeps import inputs
from sweeps.errors import InputError
from sweeps.plan import find_cell

SWEEP = """
name = "tiny"
seed = 3
[grid]
datasets = [{name = "own", path = "own.csv", index_column = "id", label_column = "kind", missing = "drop"}]
p = [0.8]
m = [10]
replicates = 1
models = ["unsupervised", "posterior"]
restarts = 2
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    write_table(folder)
    made(folder)
    return folder


@pytest.fixture
def cube(finished: Path, tmp_path: Path) -> Path:
    """Of a finished sweep of a table, which stands two folders above."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path / "results" / "tiny.zarr"


def write_table(folder: Path, width: str = "width", name: str = "row", kind: str = "a kind") -> None:
    rng = np.random.default_rng(0)
    lines = [f"{name} {n},{rng.normal() + 5 * (n % 2)!r},{rng.normal()!r},{kind}{n % 2}" for n in range(20)]
    lines[4] = f"{name} 4,,1,{kind}0"
    (folder / "own.csv").write_text(f"id,{width},height,kind\n" + "\n".join(lines) + "\n")


def made(folder: Path, text: str = SWEEP) -> Path:
    run(write_spec(folder, text), folder / "results")
    return folder / "results/tiny.zarr"


def test_names_are_coordinates_and_made_again_where_they_are_damaged(cube: Path) -> None:
    node = open_cube(cube)["own"]
    assert node["feature"].values.tolist() == ["width", "height"]
    assert node["sample"].values.tolist() == [f"row {n}" for n in range(20) if n != 4]
    assert node.attrs["class_names"] == ["a kind0", "a kind1"]
    assert node["labels"].sel(sample="row 7").shape == (1, 1, 1, 1)
    assert np.isfinite(scores(open_cube(cube), "own")["nmi"].values).all()
    cell = find_cell("own/p=0.8/m=10/replicate=0/posterior", read_manifest(cube).plans.values())
    drawn = read_cell(open_cube(cube), cell)
    assert [drawn.feature(n) for n in range(2)] == ["width", "height"]
    assert drawn.class_names == ("a kind0", "a kind1")
    assert verify(cube, sample=1000).good
    for name in ("sample", "feature"):
        file = cube / f"own/{name}/c.0"
        content = file.read_bytes()
        turn_bit(file)
        assert repair_cube(cube, data_dir=None, dry_run=False).damaged
        assert file.read_bytes() == content


def test_a_cube_grows_with_its_names_and_not_with_others(tmp_path: Path, cube: Path) -> None:
    more = SWEEP.replace("m = [10]", "m = [10, 20]")
    for change in ({"width": "breadth"}, {"name": "sample"}, {"kind": "sort"}):
        write_table(tmp_path, **change)
        with pytest.raises(InputError, match=r"as in the cube .name them as the cube does"):
            made(tmp_path, more)
    write_table(tmp_path)
    made(tmp_path, more)
    assert open_cube(cube)["own"]["labels"].sel(sample="row 7").shape == (1, 2, 1, 1)


def test_a_cube_without_names_stays_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(inputs, "LONGEST_NAME", 0)
        cube = made(tmp_path)
    before = read_manifest(cube)
    assert "sample" not in open_cube(cube)["own"].coords
    assert not any(getattr(before.plans["own"], key) for key in NAMES)
    made(tmp_path, SWEEP.replace("m = [10]", "m = [10, 20]"))
    assert read_manifest(cube).plans["own"].feature_names == ()
    assert set(open_cube(cube)["own"].coords) == {"p", "m", "m_over_n", "replicate", "model", "field"}
