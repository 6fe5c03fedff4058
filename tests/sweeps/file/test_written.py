"""Sweeps as files: the schema an editor checks with, and what a resolved sweep looks like."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import sweeps
from sweeps.file.reading import load_sweep
from sweeps.file.written import as_file, as_toml, sweep_schema

FOLDER = Path(sweeps.__file__).parent
SHIPPED = sorted(FOLDER.glob("*.toml"))
SCHEMA = Draft202012Validator(json.loads(sweep_schema()))

EVERYTHING = """
name = "all"
seed = 7
[grid]
datasets = ["iris", {name = "mine", path = "tables/mine.csv", label_column = -1, scale = "minmax"},
            {name = "other", path = "other.npz", n_clusters = 3},
            {name = "mix", mixture = {n_clusters = [2, 4], count = 5, variance = [0.5, 1]}}]
p = [0.8, 1]
m = ["0.5N", 75, "N"]
replicates = 2
models = ["unsupervised", "posterior"]
restarts = 3
[search]
patience = 4
[data]
scale = "standard"
unavailable = "skip"
[stop]
risk = 0.1
r_min = 2
"""
BASELINE = 'name="x"\nseed=1\n[grid]\ndatasets=["iris"]\nmodels=["unsupervised"]\nrestarts=1\n'


def test_the_shipped_schema_is_the_printed_one() -> None:
    """`sweep schema > sweeps/sweep.schema.json` writes it again."""
    assert (FOLDER / "sweep.schema.json").read_text(encoding="utf-8") == sweep_schema()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_sweeps_name_the_schema_and_keep_to_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#:schema ./sweep.schema.json\n")
    SCHEMA.validate(tomllib.loads(text))


@pytest.mark.parametrize("text", [EVERYTHING, BASELINE])
def test_a_resolved_sweep_is_a_file_that_gives_the_same_sweep(tmp_path: Path, text: str) -> None:
    (tmp_path / "sweep.toml").write_text(text, encoding="utf-8")
    spec = load_sweep(tmp_path / "sweep.toml")
    (tmp_path / "elsewhere").mkdir()
    again = tmp_path / "elsewhere" / "again.toml"
    again.write_text(as_toml(spec), encoding="utf-8")
    assert load_sweep(again) == spec
    assert json.dumps(load_sweep(again).dump()) == json.dumps(spec.dump())
    SCHEMA.validate(as_file(spec))
    assert as_file(spec)["search"]["population"] == spec.search[0].population


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed = 7", "seeed = 7"),
        ("seed = 7", "seed = -1"),
        ('"iris"', '"irsi"'),
        ('"posterior"]', '"posteriro"]'),
        ("[0.8, 1]", "[0.8, 1.1]"),
        ("[0.8, 1]", "[0.8, 0.8]"),
        ('"0.5N"', '"half"'),
        ("count = 5", "count = 0"),
        ("label_column = -1", "label_colum = -1"),
        ("patience = 4", "patience = 4.5"),
        ("risk = 0.1", "risk = 1"),
        ("r_min = 2", "r_max = 2"),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(old: str, new: str) -> None:
    assert old in EVERYTHING
    assert SCHEMA.is_valid(tomllib.loads(EVERYTHING))
    assert not SCHEMA.is_valid(tomllib.loads(EVERYTHING.replace(old, new, 1)))


def test_every_key_has_a_description() -> None:
    schema = json.loads(sweep_schema())
    known = schema["$defs"]["KnownEntry"]["anyOf"][1]
    tables: list[dict[str, Any]] = [schema, *schema["$defs"].values(), known]
    keys = {
        f"{table['title']} {key}": said
        for table in tables
        for key, said in table.get("properties", {}).items()
    }
    assert len(keys) > 30
    assert [key for key, said in keys.items() if not said.get("description")] == []
