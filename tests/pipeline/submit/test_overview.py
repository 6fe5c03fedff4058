"""How much work a sweep is, counted before it runs."""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cubes.small import SPEC, make_plan
from cubes.writer import next_generation
from processes.commandline import sweep
from processes.sweeping import TINY, run, write_spec

from pipeline.run.request import prepare
from pipeline.submit import overview
from pipeline.submit.overview import (
    CALL_SECONDS,
    DIAGONAL,
    MATRICES,
    SEARCH_SECONDS,
    PlanOverview,
    plan_overview,
    rough_seconds,
    search_notes,
)
from pipeline.work.records import Failure, Partial, Work
from pipeline.work.timing import Timing, pilot_cells
from pipeline.work.timing import _key as cell_key
from storage.runfolder.records import Moment
from sweeps.file.reading import load_sweep
from sweeps.file.search import Search
from sweeps.plan import Cell, DatasetPlan

# What is said of a sweep before it is run.


MODELS = '"unsupervised", "likelihood", "posterior"'


def noted(folder: Path, models: str, more: str) -> list[str]:
    return search_notes(load_sweep(write_spec(folder, TINY.replace(MODELS, models) + more)))


def planned(folder: Path, text: str = TINY, **options: object) -> PlanOverview:
    """What a sweep would be, without a cube."""
    prepared = prepare(write_spec(folder, text), results=folder, data_dir=None)
    return plan_overview(prepared, **options)  # type: ignore[arg-type]


def iris_hours(folder: Path, models: str, more: str = "") -> float:
    """Core hours of iris, guessed."""
    found = planned(folder, TINY.replace(MODELS, models) + more)
    return {dataset.name: dataset.core_hours for dataset in found.datasets}["iris"]


@pytest.mark.parametrize(
    ("models", "unused", "shapes"),
    [
        ('"posterior"', "covariance_prior", "spherical"),
        ('"unsupervised-common", "posterior"', "covariance_prior", "common, spherical"),
        ('"unsupervised-full", "posterior-tied"', "variance_prior", "full, tied"),
        ('"posterior-diagonal"', "variance_prior", "diagonal"),
        ('"unsupervised", "posterior-full"', "", ""),
        ('"posterior-auto"', "", ""),
        ('"posterior-auto", "posterior-full"', "", ""),
    ],
)
def test_a_prior_that_no_model_has_is_said(tmp_path: Path, models: str, unused: str, shapes: str) -> None:
    for name, value in (("variance_prior", 0.5), ("covariance_prior", 2.0)):
        found = noted(tmp_path, models, f"{name} = {value}\n")
        assert found == ([f"[search] {name} is not used by {shapes} covariances"] if name == unused else [])
    # nothing is said of what was not asked for
    assert noted(tmp_path, models, "variance_prior = 0\ncovariance_prior = 1\n") == []


def test_plan_and_submit_say_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = TINY.replace('"unsupervised", "likelihood", "posterior"', '"unsupervised-diagonal"')
    spec = write_spec(tmp_path, text.replace("[2, 3]", "[2]") + "variance_prior = 0.5\n")
    said = "[search] variance_prior is not used by diagonal covariances"
    assert f"NOTE {said}" in sweep("plan", spec, "--results", tmp_path).stdout
    document = json.loads(sweep("plan", spec, "--results", tmp_path, "--json").stdout)
    assert document["search_notes"] == [said]
    with caplog.at_level(logging.WARNING):
        assert run(spec, tmp_path) == 0
    assert f"NOTE {said}" in [record.getMessage() for record in caplog.records]


# A guess before anything was timed, by hand.


def guess(plan: DatasetPlan, model: str, restarts: int = 1, **settings: float) -> float:
    search = Search(**{"population": 10, "offspring": 10, "generations": 10, "patience": 0} | settings)
    return rough_seconds(search, plan, Work(Cell(plan.name, None, 0.9, 4, 0, model), 0, restarts))


def test_a_restart_by_hand() -> None:
    plan = make_plan(n_samples=1000, n_features=16, n_clusters=4)
    # ten starts at random worth four offspring each, a hundred offspring, with annotations
    expected = 140 * SEARCH_SECONDS * 2 * 1000**1.22 * 4**1.27 * 2**0.36
    assert guess(plan, "posterior") == pytest.approx(expected)
    assert guess(plan, "posterior", restarts=3) == pytest.approx(3 * expected)
    assert guess(plan, "conditional") == pytest.approx(expected / 2)
    assert guess(plan, "unsupervised-full") == pytest.approx(expected / 2 * 2**1.85)


def test_patience_ends_a_restart_early() -> None:
    plan = make_plan(n_samples=1000, n_features=16, n_clusters=4)
    assert guess(plan, "posterior", patience=4) == guess(plan, "posterior", generations=4)
    assert guess(plan, "posterior", patience=40) == guess(plan, "posterior")
    many = make_plan(n_samples=1000, n_features=16, n_clusters=8)
    assert guess(many, "posterior", patience=4) == guess(many, "posterior", generations=8)


def test_a_method_is_a_call() -> None:
    plan = make_plan()
    assert (
        rough_seconds(SPEC.search[0], plan, Work(Cell("a", None, 0.9, 4, 0, "ward"), 0, 3))
        == 3 * CALL_SECONDS
    )


def test_the_plan_counts_what_is_written(finished: Path, tmp_path: Path) -> None:
    result = sweep("plan", finished / "tiny.toml", "--results", tmp_path, "--json")
    plan = json.loads(result.stdout)
    assert plan["total"]["cells"] == 5 * 17
    assert plan["total"]["restarts"] == 5 * 17 * 5
    assert (
        plan["total"]["files"] == sum(1 for path in (finished / "tiny.zarr").rglob("*") if path.is_file()) - 1
    )
    assert plan["timed"] is False
    assert plan["search"]["method"] == "strong"
    assert plan["search"].items() > {"crossover": "labels", "mutation": 0.2, "generations": 1}.items()
    measured = json.loads(
        sweep("plan", finished / "tiny.toml", "--results", tmp_path, "--json", "--pilot").stdout
    )
    assert measured["timed"] is True
    assert measured["total"]["core_hours"] > 0
    assert measured["batches"] >= 1
    assert not list(tmp_path.iterdir())


def test_the_plan_counts_the_bytes_of_the_widest_covariances(tmp_path: Path) -> None:
    def sizes(*more: str) -> dict[str, int]:
        models = ", ".join(f'"{model}"' for model in ("likelihood", "unsupervised", *more))
        return {each.name: each.bytes for each in planned(tmp_path, TINY.replace(MODELS, models)).datasets}

    base, full = sizes("posterior"), sizes("posterior-full")
    flat, alone = sizes("posterior-diagonal"), sizes("posterior", "unsupervised-full")
    spherical = sizes("posterior", "unsupervised-common")
    cells = 2 * 2 * 2 * 2  # p, m, replicates and models
    for name, n_mixtures, k, d in (("iris", 1, 3, 4), ("mixtures_k2", 2, 2, 3)):
        assert full[name] - base[name] == 8 * n_mixtures * cells * k * (d * d - 1)
        assert flat[name] - base[name] == 8 * n_mixtures * cells * k * (d - 1)
        assert alone[name] - spherical[name] == 8 * n_mixtures * k * (d * d - 1)


def test_a_guess_takes_the_shape_and_folds_into_account(tmp_path: Path) -> None:
    spherical, diagonal, tied, full, chosen = (
        iris_hours(tmp_path, f'"posterior{shape}"') for shape in ("", "-diagonal", "-tied", "-full", "-auto")
    )
    assert diagonal == pytest.approx(spherical * DIAGONAL)
    assert tied == full == pytest.approx(spherical * (1 + 4 / 16) ** MATRICES)
    # five restarts of one generation, and four candidates with five folds of one generation
    assert chosen == pytest.approx(full + spherical * (1 + DIAGONAL) + 2 * full)
    # a model of one shape that holds annotations out: five folds of it alone
    for model, plain in (("posterior", spherical), ("posterior-full", full)):
        assert iris_hours(tmp_path, f'"{model}"', "held_out = true\n") == pytest.approx(2 * plain)
    assert iris_hours(tmp_path, '"posterior-auto"', "held_out = true\n") == chosen
    baseline = iris_hours(tmp_path, '"unsupervised"')
    both = iris_hours(tmp_path, '"unsupervised", "posterior"', "held_out = true\n")
    assert both == pytest.approx(baseline + 2 * spherical), "nothing is held out of none"


def test_a_guess_of_methods_counts_their_calls(tmp_path: Path) -> None:
    alone = TINY.replace(MODELS, '"posterior"')
    more = alone.replace("restarts = 5", 'restarts = 5\nmethods = ["ward", "pckmeans"]')
    found = [planned(tmp_path, text).datasets for text in (more, alone)]
    for one, other, mixtures in zip(*found, (2, 2, 1), strict=True):
        calls = mixtures * (1 + 5 * 2 * 2 * 2)
        assert one.restarts - other.restarts == calls
        assert one.core_hours - other.core_hours == pytest.approx(calls * CALL_SECONDS / 3600)


def test_a_pilot_goes_on_without_a_failed_method(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "bad.py").write_text("def f(*a, **b):\n    raise ValueError('bad')\n")
    text = TINY.replace("restarts = 5", 'restarts = 5\nmethods = [{name = "bad", call = "bad.py:f"}]')
    prepared = prepare(write_spec(tmp_path, text), results=tmp_path, data_dir=None)
    assert plan_overview(prepared, pilot=True).datasets
    assert "/bad failed, and is taken to last a second: ValueError: bad" in caplog.text


def test_the_plan_for_people(finished: Path) -> None:
    result = sweep("plan", finished / "tiny.toml", "--results", finished)
    assert result.exit_code == 0
    assert "mixtures_k2" in result.stdout
    assert "425" in result.stdout
    assert "search: method strong, population 3, offspring 2, generations 1, " in result.stdout
    # the cube's own run timed its restarts
    assert re.search(
        r"\(timed \d+ (second|minute)s? ago on \S+, at a load of [\d.]+ for each core;", result.stdout
    )
    assert "; --pilot measures now)" in result.stdout


def test_the_plan_counts_questions(tmp_path: Path) -> None:
    text = TINY.replace(
        "[search]", 'design = ["uniform", "active", "committee"]\n[ask]\nbatch = 7\n[search]', 1
    )
    found = planned(tmp_path, text)
    total = found.to_dict()["total"]
    # two designs that ask, two accuracies, two redraws; batches of 7 up to 30 for four mixtures, up to 150
    assert total["paths"] == 8 * 4 + 8
    assert total["questions"] == 8 * 4 * 35 + 8 * 154
    assert total["asking_hours"] > 0
    lines = "\n".join(found.lines())
    assert "2,352 questions to ask in 40 paths, " in lines
    assert " batches of restarts for " in lines


def test_measured_seconds_are_counted_by_model_and_place(tmp_path: Path) -> None:
    """By hand: every restart lasts a second, those of "posterior" two."""
    prepared = prepare(write_spec(tmp_path), results=tmp_path, data_dir=None)
    timing = Timing({})
    for plan in prepared.inputs.plans:
        for cell in pilot_cells(plan):
            timing.note_done(cell, 2.0 if cell.model == "posterior" else 1.0)
    timing.save(next_generation(prepared.cube).pilot)
    found = plan_overview(prepared, workers=2)
    assert found.timed
    (iris,) = (dataset for dataset in found.datasets if dataset.name == "iris")
    assert (iris.cells, iris.restarts, iris.blocks) == (17, 85, 5)
    seconds = 5 * (1 + 8 * 1 + 8 * 2)  # restarts of the baseline and of eight cells of each model
    assert iris.core_hours * 3600 == pytest.approx(seconds)
    assert iris.seconds_per_restart == pytest.approx(seconds / 85)
    # A fiftieth of a worker's share, 5 * 125 s for two workers: 6.25 s, four restarts of 1.47 s.
    assert found.batches == sum(-(-dataset.restarts // 4) for dataset in found.datasets)
    assert found.to_dict()["total"]["core_hours"] * 3600 == pytest.approx(5 * seconds)


def test_core_hours_are_cpu_time_and_the_rest_is_what_passes_for_a_worker(tmp_path: Path) -> None:
    """By hand: every restart lasts two seconds, of which the processor works one and a half."""
    prepared = prepare(write_spec(tmp_path), results=tmp_path, data_dir=None)
    timing = Timing({})
    for plan in prepared.inputs.plans:
        for cell in pilot_cells(plan):
            solution = np.zeros(1, np.int16), np.zeros((1, 1)), np.zeros(1)
            timing.note(Partial(Work(cell, 0, 2), np.zeros(2), 0, *solution, 4.0, 3.0))
    timing.save(next_generation(prepared.cube).pilot)
    found = plan_overview(prepared, workers=2)
    (iris,) = (dataset for dataset in found.datasets if dataset.name == "iris")
    assert iris.worker_hours * 3600 == pytest.approx(2 * 85)
    assert iris.core_hours * 3600 == pytest.approx(1.5 * 85)
    assert iris.seconds_per_restart == pytest.approx(2.0)


def test_a_pilot_measures_now_whatever_was_timed_before(tmp_path: Path) -> None:
    prepared = prepare(write_spec(tmp_path), results=tmp_path, data_dir=None)
    old = Timing({cell_key(cell): 1000.0 for plan in prepared.inputs.plans for cell in pilot_cells(plan)})
    old.moment = Moment(time.time() - 3 * 3600 - 60, "elsewhere", 1.75)
    old.save(next_generation(prepared.cube).pilot)
    stale, fresh = plan_overview(prepared), plan_overview(prepared, pilot=True)
    assert stale.datasets[0].seconds_per_restart == pytest.approx(1000.0)
    assert any(
        "(timed 3 hours ago on elsewhere, at a load of 1.8 for each core;" in line for line in stale.lines()
    )
    assert fresh.datasets[0].seconds_per_restart < 10
    assert any("(measured now, at a load of " in line for line in fresh.lines())
    assert fresh.to_dict()["moment"]["at"] == pytest.approx(time.time(), abs=600)


def test_an_adaptive_stop_shows_the_least_work(tmp_path: Path) -> None:
    found = planned(tmp_path, TINY + "[stop]\nrisk = 0.2\nr_min = 2\n", workers=1)
    assert found.least == 2 / 5
    assert any("the adaptive stop may end after 170 restarts" in line for line in found.lines())


def test_skipped_data_sets_and_notes_are_shown(tmp_path: Path) -> None:
    prepared = prepare(write_spec(tmp_path), results=tmp_path, data_dir=None)
    inputs = replace(prepared.inputs, skipped={"ecoli": ("not here", "nor there")})
    found = plan_overview(replace(prepared, inputs=inputs), workers=1)
    assert found.to_dict()["skipped"] == {"ecoli": ["not here", "nor there"]}
    assert found.at_hand is None  # no data set of this file
    gone = replace(prepared.inputs, skipped={"iris": ("not here",)})
    lines = plan_overview(replace(prepared, inputs=gone), workers=1).lines()
    assert "2 of 3 data sets at hand, 17 cells left out: sweep datasets fetch" in lines
    assert any("rough, within a factor of two; --pilot measures" in line for line in lines)


def test_a_pilot_that_fails_is_no_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        overview, "run_batch", lambda batch, source: [Failure(batch.work[0], "ValueError: no", "", "", "")]
    )
    prepared = prepare(write_spec(tmp_path), results=tmp_path, data_dir=None)
    with pytest.raises(RuntimeError, match=r"mixtures_k2/.*: ValueError: no"):
        plan_overview(prepared, pilot=True)


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0.0, "1 second"),
        (0.05, "180 seconds"),
        (0.5, "30 minutes"),
        (1.9, "114 minutes"),
        (2.5, "2.5 hours"),
    ],
)
def test_times_are_shown_in_the_unit_that_fits(hours: float, text: str) -> None:
    assert overview._hours(hours) == text
