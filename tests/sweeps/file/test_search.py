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
from sweeps.file.reading import load_sweep
from sweeps.file.search import Search, asked
from sweeps.file.spec import load
from sweeps.file.written import as_toml, sweep_schema
from sweeps.inputs.load import RealSource
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
