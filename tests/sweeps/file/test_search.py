"""Choices of the search's method in sweep files: what is read, refused, kept, and reaches the kernels."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from processes.sweeping import TINY, write_spec
from pydantic import TypeAdapter

import pipeline.work.tasks
from kernels.search.hgs import run_restart
from kernels.settings import SETTINGS
from pipeline.work.records import Batch, Science, Work
from pipeline.work.tasks import run_batch
from sweeps.errors import InputError
from sweeps.file.reading import load_sweep
from sweeps.file.search import Search
from sweeps.inputs.load import RealSource
from sweeps.plan import Cell

BEFORE = {"population": 3, "offspring": 2, "generations": 1, "min_cluster_size": 2, "variance_prior": 0.0}
BEFORE_SEARCH = TINY.partition("[search]")[0]
CHOSEN = 'patience = 4\ncrossover = "labels"\nmutation = 0.25\nrelocation = "all"\n'


def test_choices_are_read_and_kept(tmp_path: Path) -> None:
    spec = load_sweep(write_spec(tmp_path, TINY + CHOSEN))
    chosen = {"patience": 4, "crossover": "labels", "mutation": 0.25, "relocation": "all"}
    assert asdict(spec.search) == asdict(Search(population=3, offspring=2, generations=1)) | chosen
    resolved = spec.dump()["search"]
    assert Search(**resolved) == spec.search
    assert list(resolved) == [*BEFORE, *chosen]


def test_defaults_leave_the_resolved_file_as_it_was(tmp_path: Path) -> None:
    """A cube of an older release, whose file lacks the keys, is then still one of the same sweep."""
    resolved = load_sweep(write_spec(tmp_path)).dump()["search"]
    assert json.dumps(resolved) == json.dumps(BEFORE)
    spelled_out = TINY + 'patience = 0\ncrossover = "centroids"\nmutation = 1\nrelocation = "annotated"\n'
    assert load_sweep(write_spec(tmp_path, spelled_out)).dump()["search"] == BEFORE


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
        ('crossover = "labels"', "mutation: found 1.0, expected less than 1 for crossover labels"),
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
        + '[search]\ngenerations = 0\ncrossover = "labels"\npopulaton = 3\nvariance_prior = "1"\n'
    )
    with pytest.raises(InputError) as caught:
        load_sweep(write_spec(tmp_path, text))
    places = [problem.where for problem in caught.value.problems]
    keys = ["generations", "mutation", "variance_prior"]
    assert places == [*(f"tiny.toml [search] {key}" for key in keys), "tiny.toml [search]"]
    assert "did you mean 'population'?" in str(caught.value)


def test_a_record_of_pydantic_may_hold_it() -> None:
    kind = TypeAdapter(Search)
    assert kind.validate_python({"mutation": 1}) == Search()
    given = Search(patience=3)
    assert kind.validate_python(given) is given
    assert kind.dump_python(given) == given.to_dict() == kind.dump_python(given, mode="json")


def test_an_editor_is_told_all_that_is_declared() -> None:
    schema = TypeAdapter(Search).json_schema()
    assert schema["additionalProperties"] is False
    for setting in SETTINGS:
        told = schema["properties"][setting.name]
        assert (told["default"], told["description"]) == (setting.default, setting.meaning)
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

    monkeypatch.setattr("kernels.search.hgs.run_restart", spy)
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
    batch = Batch(Science(1, search, 2), "some", (Work(cell, 0, 1),), 0.0)
    (partial,) = run_batch(batch, RealSource(X, None))
    assert isinstance(partial, pipeline.work.tasks.Partial)
    assert seen == [search]
