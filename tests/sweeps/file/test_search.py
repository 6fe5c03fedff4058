"""Choices of the search's method in sweep files: what is read, refused, kept, and reaches the kernels."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from processes.sweeping import TINY, write_spec
from pydantic import TypeAdapter, ValidationError

import pipeline.work.tasks
from kernels.search.genetic import run_restart
from kernels.settings import METHOD, SETTINGS
from pipeline.work.records import Batch, Science, Work
from pipeline.work.tasks import run_batch
from sweeps.errors import InputError
from sweeps.file.reading import as_toml, load_sweep, sweep_schema
from sweeps.file.search import Search, asked
from sweeps.file.spec import load
from sweeps.inputs import RealSource
from sweeps.plan import Cell

BEFORE = {"population": 3, "offspring": 2, "generations": 1, "min_cluster_size": 2, "variance_prior": 0.0}
BEFORE_SEARCH = TINY.partition("[search]")[0]
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


def test_people_are_told_the_method(tmp_path: Path) -> None:
    (search,) = load_sweep(write_spec(tmp_path, TINY + 'relocation = "all"\npatience = 2\n')).search
    sizes = {"population": 3, "offspring": 2, "generations": 1, "min_cluster_size": 2, "variance_prior": 0.0}
    assert search.named() == {"method": "strong with relocation all", **sizes, "patience": 2}
    lengths = {"population": 3, "offspring": 2, "generations": 1, "patience": 2}
    assert search.written() == {"method": "strong", **lengths, "relocation": "all"}
    assert asked(relocation="all").written() == {"method": "strong", "relocation": "all"}
    assert Search().named()["method"] == "published"


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


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("patience = -1", "patience: found -1, expected a whole number"),
        ("patience = 1.5", "patience: found 1.5, expected a whole number"),
        (
            'crossover = "label"',
            "crossover: found 'label', expected one of centroids, labels (did you mean 'labels'?)",
        ),
        ("mutation = 1.5", "mutation: found 1.5, expected a probability in [0, 1]"),
        ("mutation = true", "mutation: found true, expected"),
        ('relocation = "none"', "relocation: found 'none', expected one of annotated, all, components"),
        (
            'method = "published"\ncrossover = "labels"',
            "mutation: found 1.0 by the method published, expected less than 1 for crossover labels,",
        ),
        ("mutation = 1", "found 1.0, expected less than 1 for crossover labels by the method strong,"),
        (
            'method = "publishd"\nmutation = 1\nrelocation = "all"',
            "method: found 'publishd', expected one of strong, published (did you mean 'published'?)",
        ),
        ("method = 1", "method: found 1, expected one of strong, published"),
    ],
)
def test_choices_that_are_not_possible(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        load_sweep(write_spec(tmp_path, TINY + line))
    (found,) = caught.value.problems
    assert problem in str(found)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = (
        BEFORE_SEARCH
        + '[search]\ngenerations = 0\nmutation = 1\npopulaton = 3\nvariance_prior = "1"\n'
        + 'method = 1\ncrossover = "labels"\n'
    )
    with pytest.raises(InputError) as caught:
        load_sweep(write_spec(tmp_path, text))
    places = [problem.where for problem in caught.value.problems]
    keys = ["method", "generations", "mutation", "variance_prior"]
    assert places == [*(f"tiny.toml [search] {key}" for key in keys), "tiny.toml [search]"]
    assert "did you mean 'population'?" in str(caught.value)


def test_a_record_of_pydantic_may_hold_it() -> None:
    kind = TypeAdapter(Search)
    assert kind.validate_python({"mutation": 1}) == Search()
    given = Search(patience=3)
    assert kind.validate_python(given) is given
    assert kind.dump_python(given) == given.to_dict() == kind.dump_python(given, mode="json")


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


def test_choices_reach_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(problem, given, rng):  # type: ignore[no-untyped-def]
        seen.append(given)
        return run_restart(problem, given, rng)

    monkeypatch.setattr("kernels.search.genetic.run_restart", spy)
    search = Search(
        population=3,
        offspring=2,
        generations=4,
        patience=1,
        crossover="labels",
        mutation=0.5,
        relocation="all",
    )
    X = np.random.default_rng(0).normal(size=(20, 2))
    cell = Cell("some", None, None, None, None, "unsupervised")
    batch = Batch(Science(1, (search,), 2), "some", (Work(cell, 0, 1),), 0.0)
    (partial,) = run_batch(batch, RealSource(X, None))
    assert isinstance(partial, pipeline.work.tasks.Partial)
    assert seen == [search]


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
