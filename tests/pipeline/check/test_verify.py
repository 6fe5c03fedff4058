"""Cells computed again from the cube alone."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import pipeline.work.tasks
from pipeline.check.verify import verify
from pipeline.commands.main import main
from storage.cube.manifest import ROOT_FILE
from sweeps.errors import InputError


@pytest.fixture
def cube(finished: Path) -> Path:
    """Cube of the tiny sweep, not to be changed."""
    return finished / "tiny.zarr"


def test_every_cell_is_reproduced_and_a_sample_drawn_from_a_seed(cube: Path) -> None:
    verification = verify(cube, sample=1000)
    assert len(verification.checks) == len({check.cell for check in verification.checks}) == 85
    assert verification.good
    assert verification.lines() == [f"{cube}: 85 of 85 cells have the same bits"]
    cells = [[check.cell for check in verify(cube, sample=5, seed=seed).checks] for seed in (1, 1, 2)]
    assert cells[0] == cells[1] != cells[2]
    assert len(set(cells[0])) == 5


def flip(path: Path, where: tuple[int, ...]) -> None:
    """Change a value of an array, a number by its last bit."""
    array = zarr.open_array(path, mode="r+")
    value = np.asarray(array[where])
    other = np.nextafter(value, 9) if value.dtype.kind == "f" else (value + 1) % 3
    array[where] = np.where(value == value, other, 0)


FLIPPED = {
    "iris/labels": (0, 0, 0, 1, 17),
    "iris/log_likelihood": (0, 0, 1, 1, 2),
    "iris/centroids": (0, 1, 0, 1, 2, 3),
    "iris/annotations": (1, 0, 0, 3, 0),
    "mixtures_k2/unsupervised/covariances": (1, 0),
}


def test_flipped_values_are_found_and_named_and_another_machine(cube: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tiny.zarr"
    shutil.copytree(cube, copy)
    for path, where in FLIPPED.items():
        flip(copy / path, where)
    result = CliRunner().invoke(main, ["verify", str(copy), "--sample", "1000", "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    wrong = [check for check in found["checks"] if check["differs"]]
    assert not found["good"]
    # both models see the annotations
    names = Counter(tuple(check["differs"]) for check in wrong)
    assert names == {(path.rpartition("/")[2],): 1 + (path == "iris/annotations") for path in FLIPPED}
    assert "iris/p=0.8/m=75/replicate=0/posterior" in [check["cell"] for check in wrong]
    document = json.loads((copy / ROOT_FILE).read_text())
    document["attributes"]["runs"][0]["fingerprint"]["cpu"] = "an abacus"
    (copy / ROOT_FILE).write_text(json.dumps(document))
    zarr.open_array(copy / "iris/labels", mode="r+")[:] = 0
    lines = CliRunner().invoke(main, ["verify", str(copy), "--sample", "40"]).stdout
    assert "\nDIFFERS iris/" in lines
    assert "cpu an abacus" in lines
    assert "promised only for equal software" in lines


def test_a_cell_that_cannot_be_computed_is_said(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.work.tasks, "_run", Mock(side_effect=MemoryError("none left")))
    verification = verify(cube, sample=2)
    assert not verification.good
    assert [check.cause for check in verification.checks] == ["MemoryError: none left"] * 2


def test_nothing_done_is_bad_input(cube: Path, tmp_path: Path) -> None:
    shutil.copytree(cube, tmp_path / "tiny.zarr")
    for path in tmp_path.rglob("status"):
        zarr.open_array(path, mode="r+")[...] = 0
    with pytest.raises(InputError, match="no cell that is done"):
        verify(tmp_path / "tiny.zarr", sample=1)
