"""What two sweeps have differently: values, defaults among them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cubes import toy

from pipeline.report.settings import differences
from storage.cube.manifest import Manifest, read_manifest


def spec(**more: object) -> dict[str, object]:
    grid = {"datasets": [{"name": "iris", "scale": "none"}]}
    return {"name": "a", "seed": 7, "grid": grid, "search": {"generations": 3}, **more}


@pytest.fixture
def first(tmp_path: Path) -> Manifest:
    cube = tmp_path / "a.zarr"
    toy.write(cube, toy.plan("iris"), spec=spec())
    return read_manifest(cube)


def other(folder: Path, **more: object) -> Manifest:
    cube = folder / "b.zarr"
    toy.write(cube, toy.plan("iris"), spec=spec(**more))
    return read_manifest(cube)


def test_a_key_at_its_default_has_a_value(first: Manifest, tmp_path: Path) -> None:
    second = other(tmp_path, search={"generations": 3, "proportions": "free", "feature_weight": 0.5})
    lines = list(differences(first, second))
    assert "search.proportions: A " in "\n".join(lines)
    assert len(lines) == 2
    assert not any("not there" in line or "A none" in line for line in lines)


def test_a_table_that_one_leaves_out_is_none(first: Manifest, tmp_path: Path) -> None:
    lines = list(differences(first, other(tmp_path, stop={"risk": 0.05})))
    assert "stop.risk: A none, B 0.05" in lines
    assert all(line.startswith("stop.") for line in lines)


def test_the_same_sweep_differs_in_nothing(first: Manifest) -> None:
    assert list(differences(first, first)) == []
