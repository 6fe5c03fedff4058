"""Choices of the search's method in sweep files: what is read, refused, kept, and reaches the kernels."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from processes.sweeping import TINY, write_spec
from pydantic import TypeAdapter, ValidationError

from kernels.settings import METHOD, SETTINGS
from sweeps.errors import InputError
from sweeps.file.reading import as_toml, load_sweep, sweep_schema
from sweeps.file.search import Search, asked
from sweeps.file.spec import load

BEFORE = {"population": 3, "offspring": 2, "generations": 1, "min_cluster_size": 2, "variance_prior": 0.0}
CHOSEN = 'patience = 4\ncrossover = "labels"\nmutation = 0.25\nrelocation = "all"\n'


def test_choices_are_read_and_kept(tmp_path: Path) -> None:
    spec = load_sweep(write_spec(tmp_path, TINY + CHOSEN))
    chosen = {"patience": 4, "crossover": "labels", "mutation": 0.25, "relocation": "all"}
    assert asdict(spec.search[0]) == asdict(Search(population=3, offspring=2, generations=1)) | chosen
    resolved = spec.dump()["search"]
    assert Search(**resolved) == spec.search[0]
    assert list(resolved) == [*BEFORE, *chosen]


def kept(folder: Path, more: str) -> dict[str, object]:
    """What a cube keeps of the search of a sweep file."""
    found: dict[str, object] = load_sweep(write_spec(folder, TINY + more)).dump()["search"]
    return found


def test_the_published_method_leaves_the_resolved_file_as_it_was(tmp_path: Path) -> None:
    """A cube of an older release, whose file lacks the keys, is then still one of the same sweep."""
    assert json.dumps(kept(tmp_path, 'method = "published"\n')) == json.dumps(BEFORE)
    spelled_out = 'patience = 0\ncrossover = "centroids"\nmutation = 1\nrelocation = "annotated"\n'
    assert kept(tmp_path, spelled_out) == BEFORE
    assert Search(**BEFORE) == Search(population=3, offspring=2, generations=1)  # type: ignore[arg-type]


def test_a_cube_keeps_values_whatever_named_them(tmp_path: Path) -> None:
    ways = {"crossover": "labels", "mutation": 0.2, "relocation": "components"}
    strong = {"patience": 4} | ways
    assert kept(tmp_path, "") == BEFORE | strong
    assert kept(tmp_path, 'method = "strong"\n') == BEFORE | strong
    keys = 'crossover = "labels"\nmutation = 0.2\nrelocation = "components"\n'
    assert kept(tmp_path, 'method = "published"\n' + keys) == BEFORE | ways
    assert kept(tmp_path, 'method = "published"\npatience = 4\n' + keys) == BEFORE | strong
    assert kept(tmp_path, 'relocation = "all"\n') == BEFORE | strong | {"relocation": "all"}
    assert kept(tmp_path, 'method = "published"\nmutation = 0.2\n') == BEFORE | {"mutation": 0.2}


def test_holding_annotations_out_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    plain = kept(tmp_path, "")
    assert kept(tmp_path, "held_out = false\n") == plain
    assert kept(tmp_path, "held_out = true\n") == plain | {"held_out": True}
    spec = load_sweep(write_spec(tmp_path, TINY + "held_out = true\n"))
    assert load("cube", spec.dump()) == spec
    assert spec.search[0].held_out
    assert spec.search[0].named()["held_out"] == "true"
    assert "held_out" not in Search().named()
    again = tmp_path / "again.toml"
    again.write_text(as_toml(spec))
    assert load_sweep(again) == spec


@pytest.mark.parametrize("value", [None, "published"])
def test_what_a_cube_keeps_has_no_method_and_nothing_empty(value: object) -> None:
    kind = TypeAdapter(Search)
    with pytest.raises(ValidationError):
        kind.validate_python({"method": value})
    with pytest.raises(ValidationError):
        kind.validate_python({"crossover": None})


def test_an_editor_is_told_all_that_is_declared() -> None:
    schemas = json.loads(sweep_schema())["$defs"]
    schema, shared = schemas["NamedSearch"], schemas["Search"]
    assert schema["additionalProperties"] is shared["additionalProperties"] is False
    keys = [METHOD.name, *(setting.name for setting in SETTINGS), "held_out"]
    assert (list(schema["properties"]), list(shared["properties"])) == ([*keys, "name"], keys)
    assert schema["required"] == ["name"]
    assert all(shared["properties"][key] == schema["properties"][key] for key in keys[1:])
    one, several = shared["properties"]["method"]["oneOf"]
    assert (one["enum"], several["items"]["enum"]) == (list(METHOD.choices), list(METHOD.choices))
    told = schema["properties"]["held_out"]
    assert (told["type"], told["default"]) == ("boolean", False)
    for setting in (METHOD, *SETTINGS):
        told = schema["properties"][setting.name]
        assert told.get("default") == setting.offered
        by_method = f" Left out: {setting.unless_given}." if setting.by_method else ""
        assert told["description"] == setting.meaning + by_method
        assert tuple(told.get("enum", ())) == setting.choices
        assert [each["const"] for each in told.get("anyOf", ())[1:]] == list(setting.words)
        told = told["anyOf"][0] if setting.words else told
        limits = (None, None) if setting.choices else (setting.low, setting.high)
        assert (told.get("minimum"), told.get("maximum")) == limits


# Several searches in one sweep file: what is read and kept, and everything that is refused.

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


def write(folder: Path, search: str, grid: str = GRID) -> Path:
    path = folder / "sweep.toml"
    path.write_text(grid + search, encoding="utf-8")
    return path


def test_a_list_of_methods_is_a_search_of_each(tmp_path: Path) -> None:
    spec = load_sweep(write(tmp_path, LIST))
    assert spec.search_names == ("published", "strong")
    for name in spec.search_names:
        assert spec.search_of(name).settings == asked(method=name, population=4).settings
    assert [each["name"] for each in spec.dump()["search"]] == ["published", "strong"]


@pytest.mark.parametrize(
    "search", [LIST, TABLES, TABLES.replace("[[search]]\n", "[[search]]\nheld_out = true\n")]
)
def test_what_is_kept_and_what_is_written_lead_back(tmp_path: Path, search: str) -> None:
    spec = load_sweep(write(tmp_path, search))
    assert load("cube", json.loads(json.dumps(spec.dump()))) == spec
    again = tmp_path / "again.toml"
    again.write_text(as_toml(spec), encoding="utf-8")
    assert load_sweep(again) == spec
    assert spec.held_out == ("held_out" in search)


@pytest.mark.parametrize(
    "search",
    [
        '[search]\nmethod = ["published"]\n',
        '[[search]]\nmethod = "published"\nname = "only"\n',
    ],
)
def test_one_search_is_no_dimension_however_it_is_written(tmp_path: Path, search: str) -> None:
    if "[[" in search:
        assert load_sweep(write(tmp_path, search)).search_names == ()
    spec = load_sweep(write(tmp_path, search))
    assert spec == load_sweep(write(tmp_path, '[search]\nmethod = "published"\n'))
    assert spec.dump()["search"] == Search().to_dict()
    with pytest.raises(StopIteration):
        spec.search_of("only")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda kept: [each | {"name": "same"} for each in kept], "again"),
        (lambda kept: [{k: v for k, v in each.items() if k != "name"} for each in kept], "without a name"),
        (lambda kept: kept[:1], "one search named 'published'"),
        (lambda kept: kept[0], "one search named 'published'"),
        (lambda kept: [kept[0], kept[0] | {"name": "other"}], "with the settings of"),
        (lambda kept: [], "an empty list"),
    ],
)
def test_a_cube_is_not_trusted(tmp_path: Path, change, said: str) -> None:  # type: ignore[no-untyped-def]
    dump = load_sweep(write(tmp_path, LIST)).dump()
    with pytest.raises(InputError, match=said):
        load("cube", dump | {"search": change(dump["search"])})
