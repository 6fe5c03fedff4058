"""Searches in sweep files, one or several: what is read, refused and kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from own_tables import write
from processes.sweeping import TINY

from sweeps.errors import InputError
from sweeps.file.reading import as_toml, load_sweep
from sweeps.file.search import Search, asked
from sweeps.file.spec import SweepSpec, load

BEFORE = {"population": 3, "offspring": 2, "generations": 1, "min_cluster_size": 2, "variance_prior": 0.0}
WAYS = {"crossover": "labels", "mutation": 0.2, "relocation": "components"}
PUBLISHED = 'method = "published"\n'
KEYS = 'crossover = "labels"\nmutation = 0.2\nrelocation = "components"\n'


def read(folder: Path, search: str, sweep: str = TINY) -> SweepSpec:
    return load_sweep(write(folder, sweep + search, "sweep.toml"))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        # values, whatever named them
        ("", BEFORE | {"patience": 4} | WAYS),
        ('method = "strong"\n', BEFORE | {"patience": 4} | WAYS),
        (PUBLISHED + KEYS, BEFORE | WAYS),
        (PUBLISHED + "patience = 4\n" + KEYS, BEFORE | {"patience": 4} | WAYS),
        ('relocation = "all"\n', BEFORE | {"patience": 4} | WAYS | {"relocation": "all"}),
        (PUBLISHED + "mutation = 0.2\n", BEFORE | {"mutation": 0.2}),
        # a cube of an older release, whose file lacks the keys, is then still one of the same sweep
        (PUBLISHED, BEFORE),
        ('patience = 0\ncrossover = "centroids"\nmutation = 1\nrelocation = "annotated"\n', BEFORE),
        (PUBLISHED + "held_out = false\n", BEFORE),
        (PUBLISHED + "held_out = true\n", BEFORE | {"held_out": True}),
    ],
)
def test_a_cube_keeps_values_whatever_named_them(text: str, kept: dict[str, Any], tmp_path: Path) -> None:
    spec = read(tmp_path, text)
    found = spec.dump()["search"]
    assert json.dumps(found) == json.dumps(kept)
    assert Search(**found) == spec.search[0] == Search(**kept)
    assert asdict(spec.search[0]) == asdict(Search()) | kept
    assert load("cube", spec.dump()) == spec
    assert spec.search[0].held_out == ("held_out" in spec.search[0].named()) == ("held_out" in kept)
    assert load_sweep(write(tmp_path, as_toml(spec), "again.toml")) == spec

    # Several searches in one sweep file.


GRID = """
name = "several"
seed = 7
[grid]
datasets = ["iris"]
p = [0.9]
m = ["1N"]
replicates = 1
models = ["unsupervised", "posterior"]
restarts = 2
"""
LIST = '[search]\nmethod = ["published", "strong"]\npopulation = 4\n'
TABLES = '[[search]]\nname = "wide"\npopulation = 30\n[[search]]\nname = "free"\nproportions = "free"\n'


def test_several_searches_are_kept_and_written_back(tmp_path: Path) -> None:
    spec = read(tmp_path, LIST, GRID)
    assert spec.search_names == ("published", "strong")
    for name in spec.search_names:
        assert spec.search_of(name).settings == asked(method=name, population=4).settings
    assert [each["name"] for each in spec.dump()["search"]] == ["published", "strong"]
    for search in (LIST, TABLES, TABLES.replace("[[search]]\n", "[[search]]\nheld_out = true\n")):
        spec = read(tmp_path, search, GRID)
        assert load("cube", json.loads(json.dumps(spec.dump()))) == spec
        assert load_sweep(write(tmp_path, as_toml(spec), "again.toml")) == spec
        assert spec.held_out == ("held_out" in search)


def test_one_search_is_no_dimension_however_it_is_written(tmp_path: Path) -> None:
    alone = read(tmp_path, f"[search]\n{PUBLISHED}", GRID)
    assert alone.dump()["search"] == Search().to_dict()
    for text in ('[search]\nmethod = ["published"]\n', f'[[search]]\n{PUBLISHED}name = "only"\n'):
        spec = read(tmp_path, text, GRID)
        assert (spec, spec.search_of(None)) == (alone, spec.search[0])


def test_a_cube_is_not_trusted(tmp_path: Path) -> None:
    dump = read(tmp_path, LIST, GRID).dump()
    first, second = dump["search"]
    nameless = {key: value for key, value in first.items() if key != "name"}
    kept: Any
    for kept, said in (
        ([first, second | {"name": "published"}], "again"),
        ([nameless, nameless], "without a name"),
        ([first], "one search named 'published'"),
        (first, "one search named 'published'"),
        ([first, first | {"name": "other"}], "with the settings of"),
        ([], "an empty list"),
    ):
        with pytest.raises(InputError, match=said):
            load("cube", dump | {"search": kept})
