"""The resolved sweep: what a cube keeps of it, and what is refused when that comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sweeps
from sweeps.errors import InputError
from sweeps.file.reading import load_sweep
from sweeps.file.spec import SweepSpec, load

SHIPPED = sorted(Path(sweeps.__file__).parent.glob("*.toml"))


@pytest.fixture
def spec() -> SweepSpec:
    return load_sweep(Path(sweeps.__file__).with_name("quick.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_what_a_cube_keeps_gives_the_same_sweep(path: Path) -> None:
    spec = load_sweep(path)
    dump = spec.dump()
    assert load("the cube", json.loads(json.dumps(dump))) == spec
    assert load("the cube", dump).dump() == dump


@pytest.mark.parametrize(
    ("table", "key", "value", "said"),
    [
        (None, "seed", -1, "the cube seed: found -1"),
        (None, "colour", 1, "the cube: found unknown key 'colour'"),
        ("grid", "m", ["0N"], "the cube grid m[0]: found '0N'"),
        ("grid", "datasets", ["iris"], "the cube grid.datasets[0]: found 'iris'"),
        ("search", "generations", 0, "the cube search generations: found 0"),
        ("data", "unavailable", "", "the cube data unavailable: found ''"),
    ],
)
def test_what_no_sweep_has_written_is_refused(
    spec: SweepSpec, table: str | None, key: str, value: Any, said: str
) -> None:
    dump = spec.dump()
    (dump if table is None else dump[table])[key] = value
    with pytest.raises(InputError) as refused:
        load("the cube", dump)
    assert str(refused.value).startswith(said)


def test_resolving_again_changes_nothing(spec: SweepSpec) -> None:
    assert type(spec) is SweepSpec
    assert [count.resolve(100) for count in load("the cube", spec.dump()).grid.m] == [
        count.resolve(100) for count in spec.grid.m
    ]
