"""The resolved sweep: what a cube keeps of it, and what is refused when that comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sweeps
from sweeps.data.registry import BUILTIN
from sweeps.errors import InputError
from sweeps.file.reading import load_sweep
from sweeps.file.spec import Builtin, Mixtures, UserTable, load

SWEEP = """
name = "own"
seed = 7
[grid]
datasets = [{}]
p = [0.8]
m = [5]
replicates = 1
models = ["posterior"]
restarts = 1
[data]
scale = "standard"
"""


def datasets(folder: Path, text: str) -> tuple[Any, ...]:
    path = folder / "sweep.toml"
    path.write_text(SWEEP.format(text), encoding="utf-8")
    return load_sweep(path).grid.datasets


def test_names_tables_and_their_scale(tmp_path: Path) -> None:
    for name in BUILTIN:
        found = datasets(tmp_path, f'"{name}"')
        assert found == datasets(tmp_path, f'{{name = "{name}"}}') == (Builtin(name=name, scale="standard"),)
    iris, wine = datasets(tmp_path, '{name = "iris", scale = "none"}, "wine"')
    assert (iris.scale, wine.scale) == ("none", "standard")


def test_paths_are_relative_to_the_sweep_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    (own,) = datasets(tmp_path, '{name = "own", path = "deep/../own.csv", label_column = "kind"}')
    wanted = str((tmp_path / "own.csv").resolve())
    assert own == UserTable(name="own", path=wanted, label_column="kind", n_clusters=None, scale="standard")
    assert "annotations" not in load_sweep(tmp_path / "sweep.toml").dump()["grid"]["datasets"][0]
    (asked,) = datasets(
        tmp_path, '{name = "own", path = "/own.csv", n_clusters = 3, annotations = "a/b.txt"}'
    )
    assert (asked.path, asked.annotations) == ("/own.csv", str((tmp_path / "a/b.txt").resolve()))
    kept = load_sweep(tmp_path / "sweep.toml").dump()["grid"]["datasets"][0]
    assert kept["annotations"] == asked.annotations


def test_mixtures_give_a_data_set_for_each_number_of_clusters(tmp_path: Path) -> None:
    found = datasets(tmp_path, '{name = "far", mixture = {n_clusters = [6, 2], count = 5, center = [-9, 9]}}')
    assert [(m.name, m.n_clusters) for m in found] == [("far_k6", 6), ("far_k2", 2)]
    sizes: dict[str, Any] = {"n_clusters": 6, "count": 5, "n_samples": 200, "n_features": 10}
    drawn: dict[str, Any] = {"center": (-9.0, 9.0), "variance": (0.0, 5.0)}
    assert found[0] == Mixtures(name="far_k6", **sizes, **drawn, scale="standard")
    (default,) = datasets(tmp_path, "{mixture = {n_clusters = [2], count = 1}}")
    assert (default.name, default.center) == ("mixtures_k2", (-1.0, 1.0))


FOLDER = Path(sweeps.__file__).parent


def test_what_a_cube_keeps_gives_the_same_sweep() -> None:
    for path in sorted(FOLDER.glob("*.toml")):
        spec = load_sweep(path)
        assert load("the cube", json.loads(json.dumps(spec.dump()))) == spec
        assert load("the cube", spec.dump()).dump() == spec.dump()


@pytest.mark.parametrize(
    ("table", "key", "value", "said"),
    [
        (None, "seed", -1, "the cube seed: found -1"),
        (None, "colour", 1, "the cube: found unknown key 'colour'"),
        ("grid", "m", ["0N"], "the cube grid m[0]: found '0N'"),
        ("grid", "datasets", ["iris"], "the cube grid.datasets[0]: found 'iris'"),
        ("search", "generations", 0, "the cube search generations: found 0"),
        ("search", "method", "published", "the cube search: found unknown key 'method'"),
        ("search", "crossover", None, "the cube search crossover: found None"),
        ("data", "unavailable", "", "the cube data unavailable: found ''"),
    ],
)
def test_what_no_sweep_has_written_is_refused(table: str | None, key: str, value: Any, said: str) -> None:
    dump = load_sweep(FOLDER / "quick.toml").dump()
    (dump if table is None else dump[table])[key] = value
    with pytest.raises(InputError) as refused:
        load("the cube", dump)
    assert str(refused.value).startswith(said)
