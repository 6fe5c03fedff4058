"""Several searches in one sweep file: what is read and kept, and everything that is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeps.errors import InputError
from sweeps.file.reading import load_sweep
from sweeps.file.search import Search, asked
from sweeps.file.spec import load
from sweeps.file.written import as_toml, sweep_schema

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
HELD_OUT = TABLES.replace("[[search]]\n", "[[search]]\nheld_out = true\n")


def write(folder: Path, search: str, grid: str = GRID) -> Path:
    path = folder / "sweep.toml"
    path.write_text(grid + search, encoding="utf-8")
    return path


def problems_of(folder: Path, search: str, grid: str = GRID) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_sweep(write(folder, search, grid))
    return [str(problem).partition("sweep.toml ")[2] for problem in caught.value.problems]


def test_a_list_of_methods_is_a_search_of_each(tmp_path: Path) -> None:
    spec = load_sweep(write(tmp_path, LIST))
    assert spec.search_names == ("published", "strong")
    for name in spec.search_names:
        assert spec.search_of(name).settings == asked(method=name, population=4).settings
    assert [each["name"] for each in spec.dump()["search"]] == ["published", "strong"]


def test_tables_name_searches(tmp_path: Path) -> None:
    spec = load_sweep(write(tmp_path, TABLES))
    assert spec.search_names == ("wide", "free")
    assert spec.search_of("wide").settings == asked(population=30).settings
    assert spec.search_of("free").proportions == "free"


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
    ("search", "said"),
    [
        (
            '[search]\nmethod = ["published", "strng", "published"]\nmutation = 3\n',
            [
                "[search] method[1]: found 'strng', expected one of strong, published (did you mean 'strong'",
                "[search] method[2]: found 'published' again, expected each value once",
                "[search] mutation: found 3, expected a probability in [0, 1]",
            ],
        ),
        ("[search]\nmethod = []\n", ["[search] method: found an empty list, expected at least one value"]),
        (
            '[search]\nmethod = ["strong", "published"]\ncrossover = "labels"\n',
            [
                "[search] mutation: found 1.0 by the method published, expected less than 1 for crossover"
                " labels, which mutated offspring do not take"
            ],
        ),
        (
            '[[search]]\nname = "a"\n[[search]]\nname = "a"\npopulaton = 3\nmethod = "publishd"\n',
            [
                "[[search]][1] method: found 'publishd', expected one of strong, published (did you mean"
                " 'published'?)",
                "[[search]][1] name: found the name 'a' again, expected a name used once",
                "[[search]][1]: found unknown key 'populaton', expected one of",
            ],
        ),
        (
            '[[search]]\nmethod = ["strong", "published"]\n[[search]]\nname = "b c"\n',
            [
                "[[search]][0] method: found ['strong', 'published'], expected one of strong, published",
                "[[search]][0] name: found nothing, expected this key",
                "[[search]][1] name: found 'b c', expected a name of letters",
            ],
        ),
        (
            '[[search]]\nname = "a"\n[[search]]\nname = "b"\nheld_out = true\n',
            ["[[search]][1] held_out: found true, expected false, as in the first search"],
        ),
        (
            '[[search]]\nname = "a"\n[[search]]\nname = "b"\nmethod = "strong"\n',
            ["search: found 'b' with the settings of 'a', expected searches that differ"],
        ),
    ],
)
def test_everything_wrong_is_said_at_once(tmp_path: Path, search: str, said: list[str]) -> None:
    found = problems_of(tmp_path, search)
    assert len(found) == len(said)
    for each, start in zip(found, said, strict=True):
        assert each.startswith(start)


def test_what_models_rule_out_is_looked_for_in_every_table(tmp_path: Path) -> None:
    grid = GRID.replace('"posterior"', '"posterior-full"')
    tables = '[[search]]\nname = "a"\n[[search]]\nname = "b"\ncovariance_prior = 0\nmethod = "published"\n'
    (problem,) = problems_of(tmp_path, tables, grid)
    assert problem.startswith("[[search]][1] covariance_prior: found 0 with 'posterior-full'")
    alone = GRID.replace('models = ["unsupervised", "posterior"]', 'models = ["unsupervised"]')
    found = problems_of(tmp_path, HELD_OUT, alone)
    assert len(found) == 2
    assert all("held_out: found true without a model" in each for each in found)


@pytest.mark.parametrize("search", [LIST, TABLES])
def test_methods_do_not_search(tmp_path: Path, search: str) -> None:
    grid = GRID.replace('models = ["unsupervised", "posterior"]', 'methods = ["pckmeans"]')
    (problem,) = problems_of(tmp_path, search, grid)
    assert problem.startswith("[search]: found several searches without a model")
    both = GRID.replace("restarts = 2", 'restarts = 2\nmethods = ["pckmeans"]')
    assert len(load_sweep(write(tmp_path, search, both)).search) == 2


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


def test_an_editor_knows_both_forms() -> None:
    schema = json.loads(sweep_schema())
    one, several = schema["properties"]["search"]["oneOf"]
    assert one["$ref"].endswith("/Search")
    assert several["items"]["$ref"].endswith("/NamedSearch")
    assert schema["properties"]["search"]["default"] == {"method": "strong"}
