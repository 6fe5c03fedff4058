"""Choices of the search's method in sweep files: what is read, refused, kept, and reaches the kernels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from processes.sweeping import TINY, write_spec

import pipeline.work.tasks
from kernels import settings
from kernels.search.hgs import run_restart
from pipeline.work.records import Batch, Science, Work
from pipeline.work.tasks import run_batch
from sweeps.errors import InputError
from sweeps.file.spec import CROSSOVERS, METHOD, RELOCATED, Search, load_spec
from sweeps.inputs.load import RealSource
from sweeps.plan import Cell

CHOSEN = 'patience = 4\ncrossover = "labels"\nmutation = 0.25\nrelocation = "all"\n'


def test_choices_are_read_and_kept(tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path, TINY + CHOSEN))
    chosen = {"patience": 4, "crossover": "labels", "mutation": 0.25, "relocation": "all"}
    assert asdict(spec.search) == asdict(Search(population=3, offspring=2, generations=1)) | chosen
    resolved = spec.to_dict()["search"]
    assert Search(**resolved) == spec.search
    assert set(METHOD) <= set(resolved)


def test_defaults_leave_the_resolved_file_as_it_was(tmp_path: Path) -> None:
    """A cube of an older release, whose file lacks the keys, is then still one of the same sweep."""
    resolved = load_spec(write_spec(tmp_path)).to_dict()["search"]
    before = {"population": 3, "offspring": 2, "generations": 1, "min_cluster_size": 2, "variance_prior": 0.0}
    assert resolved == before
    spelled_out = TINY + 'patience = 0\ncrossover = "centroids"\nmutation = 1\nrelocation = "annotated"\n'
    assert load_spec(write_spec(tmp_path, spelled_out)).to_dict()["search"] == before


def test_names_and_defaults_are_those_of_the_kernels() -> None:
    assert (CROSSOVERS, RELOCATED) == (settings.CROSSOVERS, settings.RELOCATED)
    default = settings.SearchSettings()._asdict()
    assert {name: getattr(Search(), name) for name in default} == default


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("patience = -1", "patience: found -1, expected a whole number"),
        ("patience = 1.5", "patience: found 1.5, expected a whole number"),
        ('crossover = "label"', "crossover: found 'label', expected one of centroids, labels"),
        ("mutation = 1.5", "mutation: found 1.5, expected a probability in [0, 1]"),
        ("mutation = true", "mutation: found true, expected"),
        ('relocation = "none"', "relocation: found 'none', expected one of annotated, all, components"),
        ('crossover = "labels"', "crossover: found 'labels' with mutation = 1, expected mutation below 1"),
    ],
)
def test_choices_that_are_not_possible(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        load_spec(write_spec(tmp_path, TINY + line))
    (found,) = caught.value.problems
    assert problem in str(found)


def test_choices_reach_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(problem, given, rng):  # type: ignore[no-untyped-def]
        seen.append(given)
        return run_restart(problem, given, rng)

    monkeypatch.setattr("kernels.search.hgs.run_restart", spy)
    search = Search(3, 2, 4, patience=1, crossover="labels", mutation=0.5, relocation="all")
    X = np.random.default_rng(0).normal(size=(20, 2))
    cell = Cell("some", None, None, None, None, "unsupervised")
    batch = Batch(Science(1, search, 2), "some", (Work(cell, 0, 1),), 0.0)
    (partial,) = run_batch(batch, RealSource(X, None))
    assert isinstance(partial, pipeline.work.tasks.Partial)
    assert seen == [settings.SearchSettings(3, 2, 4, 1, "labels", 0.5, "all")]
