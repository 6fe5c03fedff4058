"""What two sweeps have differently: values, defaults among them."""

from __future__ import annotations

from dataclasses import replace
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


def searched(manifest: Manifest, **settings: dict[str, object]) -> Manifest:
    tables = [{"name": name, **keys} for name, keys in settings.items()]
    return replace(manifest, spec=toy.sweep(spec(search=tables)))


def test_the_only_search_of_one_is_set_beside_that_of_its_settings(first: Manifest) -> None:
    several = searched(first, short={"generations": 3}, far={"generations": 9})
    for a, b, where in ((first, several, "B"), (several, first, "A")):
        called, line = differences(a, b)
        only = "A" if where == "B" else "B"
        assert called == f"search: the one of {only} is short of {where}"
        assert line.startswith(
            f"search far: only in {where} (method published, population 10, offspring 10, gen"
        )


def test_searches_of_one_name_are_set_beside_each_other(first: Manifest) -> None:
    one = searched(first, short={"generations": 3}, long={"generations": 9})
    two = searched(first, short={"generations": 3, "offspring": 4}, longer={"generations": 9})
    offspring, *others = differences(one, two)
    assert offspring == "search.short.offspring: A 10, B 4"
    assert [line.partition(" (")[0] for line in others] == [
        "search long: only in A",
        "search longer: only in B",
    ]
