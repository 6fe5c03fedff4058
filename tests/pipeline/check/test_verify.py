"""Cells computed again from the cube alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from processes.sweeping import TINY, run, write_spec

import pipeline.work.tasks
from pipeline.check.verify import verify
from pipeline.commands.main import main
from pipeline.work.records import Partial, Science, Work
from storage.cube.manifest import ROOT_FILE
from sweeps.errors import InputError
from sweeps.inputs import Source


@pytest.fixture
def cube(finished: Path) -> Path:
    """Cube of the tiny sweep, not to be changed."""
    return finished / "tiny.zarr"


def test_every_cell_is_reproduced(cube: Path) -> None:
    verification = verify(cube, sample=1000)
    assert len(verification.checks) == len({check.cell for check in verification.checks}) == 85
    assert verification.good
    assert verification.lines() == [f"{cube}: 85 of 85 cells have the same bits"]


def test_the_sample_is_drawn_from_a_seed(cube: Path) -> None:
    cells = [[check.cell for check in verify(cube, sample=5, seed=seed).checks] for seed in (1, 1, 2)]
    assert cells[0] == cells[1] != cells[2]
    assert len(set(cells[0])) == 5


@pytest.mark.parametrize(
    ("path", "where", "variable"),
    [
        ("iris/labels", (0, 1, 0, 1, 17), "labels"),
        ("iris/log_likelihood", (0, 1, 0, 1, 2), "log_likelihood"),
        ("iris/centroids", (0, 1, 0, 1, 2, 3), "centroids"),
        ("iris/annotations", (0, 1, 0, 3, 0), "annotations"),
        ("mixtures_k2/unsupervised/covariances", (1, 0), "covariances"),
    ],
)
def test_a_flipped_value_is_found_and_named(
    cube: Path, tmp_path: Path, path: str, where: tuple[int, ...], variable: str
) -> None:
    copy = tmp_path / "tiny.zarr"
    shutil.copytree(cube, copy)
    array = zarr.open_array(copy / path, mode="r+")
    value = np.asarray(array[where])
    array[where] = np.nextafter(value, np.inf) if value.dtype.kind == "f" else (value + 1) % 3
    wrong = [check for check in verify(copy, sample=1000).checks if not check.good]
    assert wrong
    assert all(check.differs == (variable,) for check in wrong)
    if variable == "labels":
        result = CliRunner().invoke(main, ["verify", str(copy), "--sample", "1000"])
        assert result.exit_code == 1
        assert f"DIFFERS {wrong[0].cell}: {variable}" in result.stdout
        result = CliRunner().invoke(main, ["verify", str(copy), "--sample", "1000", "--json"])
        assert json.loads(result.stdout)["good"] is False


def test_what_a_cell_chose_is_computed_again(tmp_path: Path) -> None:
    models = '"likelihood", "posterior-auto", "posterior-common"'
    text = TINY[: TINY.index("datasets")] + 'datasets = ["iris"]\n' + TINY[TINY.index("p = [") :]
    text = text.replace('"unsupervised", "likelihood", "posterior"', models) + "held_out = true\n"
    assert run(write_spec(tmp_path, text), tmp_path) == 0
    cube = tmp_path / "tiny.zarr"
    assert verify(cube, sample=1000).good
    changes = {
        ("covariance_shape", (0, 1, 0, 1)): "posterior-auto",
        ("held_out", (0, 0, 0, 1, 2)): "posterior-auto",
        ("held_out_right", (0, 0, 1, 1, 0)): "posterior-auto",
        ("held_out", (0, 1, 0, 2, 4)): "posterior-common",
    }
    for name, index in changes:
        array = zarr.open_array(cube / "iris" / name, mode="r+")
        before = np.asarray(array[index])
        changed = (before + 1) % 5 if before.dtype.kind != "f" else np.nextafter(before, 9)
        array[index] = 0.5 if np.isnan(before) else changed
    wrong = [check for check in verify(cube, sample=1000).checks if not check.good]
    found = sorted((check.differs[0], check.cell.rpartition("/")[2]) for check in wrong)
    assert found == sorted((name, model) for (name, _), model in changes.items())


def test_a_cell_that_cannot_be_computed_is_said(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(science: Science, work: Work, source: Source) -> Partial:
        raise MemoryError("none left")

    monkeypatch.setattr(pipeline.work.tasks, "_run", broken)
    verification = verify(cube, sample=2)
    assert not verification.good
    assert [check.cause for check in verification.checks] == ["MemoryError: none left"] * 2


def test_another_machine_is_named_when_bits_differ(cube: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tiny.zarr"
    shutil.copytree(cube, copy)
    document = json.loads((copy / ROOT_FILE).read_text())
    document["attributes"]["runs"][0]["fingerprint"]["cpu"] = "an abacus"
    (copy / ROOT_FILE).write_text(json.dumps(document))
    assert verify(copy, sample=3).good
    zarr.open_array(copy / "iris/labels", mode="r+")[:] = 0
    lines = "\n".join(verify(copy, sample=1000).lines())
    assert "cpu an abacus" in lines
    assert "promised only for equal software" in lines


def test_nothing_done_is_bad_input(cube: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tiny.zarr"
    shutil.copytree(cube, copy)
    for path in copy.rglob("status"):
        zarr.open_array(path, mode="r+")[...] = 0
    with pytest.raises(InputError, match="no cell that is done"):
        verify(copy, sample=1)
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "none.zarr")]).exit_code == 2
