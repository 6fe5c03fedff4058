"""Records of a journal with a right checksum: what a run wrote is read, anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cubes.small import make_plan

from pipeline.work.journalled import is_of_paths, paths_to_record, written_partials, written_paths
from pipeline.work.merge import to_record
from pipeline.work.records import Asking, Chosen, Partial, PathPart, Work
from sweeps.plan import AskedPath, Cell, DatasetPlan
from sweeps.shapes import DIMS
from sweeps.words import shape_of

SHAPES = make_plan(
    "shapes",
    models=("likelihood", "posterior-diagonal"),
    baselines=("unsupervised-full", "unsupervised-tied"),
)
PLANS = {"a": make_plan(), "mixed": make_plan("mixed", mixtures=2), "shapes": SHAPES}
CELLS = (
    Cell("a", None, 0.9, 4, 1, "likelihood"),
    Cell("a", None, None, None, None, "unsupervised"),
)
Header = dict[str, Any]
Arrays = dict[str, np.ndarray]


def partial(cell: Cell, plan: DatasetPlan) -> Partial:
    return Partial(
        work=Work(cell, 0, 3),
        objectives=np.array([1.0, 3.0, 2.0]),
        best_restart=1,
        labels=np.zeros(plan.n_samples, dtype=np.int16),
        centroids=np.zeros((plan.n_clusters, plan.n_features)),
        covariances=np.ones((plan.n_clusters, *[plan.n_features] * len(DIMS[shape_of(cell.model)]))),
        seconds=0.5,
        cpu_seconds=0.25,
    )


def record() -> tuple[Header, Arrays]:
    return to_record([partial(cell, PLANS[cell.dataset]) for cell in CELLS])


def test_what_a_run_wrote_is_read() -> None:
    assert [partial.work.cell for partial in written_partials(*record(), PLANS)] == list(CELLS)
    mixed = Cell("mixed", 1, 0.9, 4, 0, "likelihood")
    found = written_partials(*to_record([partial(mixed, PLANS["mixed"])]), PLANS)
    assert found[0].work == Work(mixed, 0, 3)


def test_covariances_of_every_model_have_the_form_of_its_shape() -> None:
    of_grid = [Cell("shapes", None, 0.9, 4, 0, model) for model in SHAPES.models]
    cells = [*of_grid, *(Cell("shapes", None, None, None, None, model) for model in SHAPES.baselines)]
    header, arrays = to_record([partial(cell, SHAPES) for cell in cells])
    found = written_partials(header, arrays, PLANS)
    assert [each.covariances.shape for each in found] == [(2,), (2, 2), (2, 2, 2), (2, 2, 2)]
    # the form is the widest of the models of the record, whatever others are in it
    narrow = to_record([partial(cell, SHAPES) for cell in cells[:2]])
    narrow[1]["covariances"] = arrays["covariances"][:2]
    with pytest.raises(ValueError, match=r"covariances of shape \(2, 2, 2, 2\), expected \(2, 2, 2\)"):
        written_partials(*narrow, PLANS)


CHOOSING = make_plan("chosen", models=("likelihood", "posterior-auto"))
WRONG_CHOICES = {
    "no shapes": {"covariance_shape": None},
    "a shape that cannot be chosen": {"covariance_shape": np.array([1])},
    "another shape": {"covariance_shape": np.array([2])},
    "shapes of more cells": {"covariance_shape": np.array([3, 3])},
    "scores of other candidates": {"held_out": np.zeros((1, 3))},
    "scores as texts": {"held_out_right": np.zeros((1, 4), dtype="U3")},
}


@pytest.mark.parametrize("what", ["nothing", *WRONG_CHOICES])
def test_choices_are_those_of_candidates(what: str) -> None:
    cell = Cell("chosen", None, 0.9, 4, 0, "posterior-auto")
    choice = Chosen("tied", (0.1, 0.2, 0.3, 0.4), (0.9, 0.8, 0.7, 0.6))
    made = [partial(replace(cell, model="likelihood"), CHOOSING), partial(cell, CHOOSING)]
    made[1] = replace(made[1], covariances=np.ones((2, 2, 2)), chosen=choice)
    header, arrays = to_record(made)
    if what == "nothing":
        found = written_partials(header, arrays, {"chosen": CHOOSING})
        assert [each.chosen for each in found] == [None, choice]
        return
    for name, values in WRONG_CHOICES[what].items():
        if values is None:
            del arrays[name]
        else:
            arrays[name] = values
    with pytest.raises(ValueError, match="a record "):
        written_partials(header, arrays, {"chosen": CHOOSING})


FIXED = Chosen("spherical", (0.1, *[float("nan")] * 4), (0.9, *[float("nan")] * 4))
WRONG_SCORES: dict[str, tuple[bool, Chosen | None, str]] = {
    "none": (True, None, "scores of 0 shapes on held-out annotations, expected 5"),
    "not asked for": (False, FIXED, "scores of 5 shapes on held-out annotations, expected 0"),
    "of candidates alone": (
        True,
        replace(FIXED, held_out=FIXED.held_out[:4], right=FIXED.right[:4]),
        "shapes",
    ),
    "of another shape": (
        True,
        replace(FIXED, covariance="tied"),
        "the shape 3 of .*, expected one of spherical",
    ),
}


@pytest.mark.parametrize("what", ["nothing", *WRONG_SCORES])
def test_scores_are_those_that_the_sweep_asks_for(what: str) -> None:
    asked, scores, said = WRONG_SCORES.get(what, (True, FIXED, ""))
    plan = make_plan("a", held_out=asked)
    form = np.ones((2, 2, 2)) if scores is not None and scores.covariance == "tied" else np.ones(2)
    made = replace(partial(CELLS[0], plan), covariances=form, chosen=scores)
    header, arrays = to_record([made, partial(CELLS[1], plan)])
    if said:
        with pytest.raises(ValueError, match=f"a record .*{said}"):
            written_partials(header, arrays, {"a": plan})
        return
    found = written_partials(header, arrays, {"a": plan})
    assert found[0].chosen is not None
    assert found[0].chosen.is_same(FIXED)
    assert found[1].chosen is None


def test_a_data_set_that_is_not_available_this_time_stays_in_the_journal() -> None:
    assert len(written_partials(*record(), {})) == 2


def entry(**changes: object) -> Callable[[Header, Arrays], object]:
    return lambda header, arrays: header["partials"][0].update(changes)


def cell(*values: object) -> Callable[[Header, Arrays], object]:
    return entry(cell=list(values))


def array(name: str, values: np.ndarray) -> Callable[[Header, Arrays], object]:
    return lambda header, arrays: arrays.update({name: values})


WRONG: dict[str, Callable[[Header, Arrays], object]] = {
    "no partials": lambda header, arrays: header.clear(),
    "partials of another type": lambda header, arrays: header.update(partials=3),
    "no entry": lambda header, arrays: header.update(partials=[None]),
    "no start": lambda header, arrays: header["partials"][0].pop("start"),
    "a truth value": entry(start=False),
    "a fraction": entry(stop=3.0),
    "negative": entry(start=-1),
    "backwards": entry(start=3, best_restart=3),
    "another best": entry(best_restart=3),
    "more restarts": entry(stop=4, best_restart=3),
    "no time": entry(seconds=float("nan")),
    "time as text": entry(cpu_seconds="long"),
    "no cell": cell(),
    "another cell": cell("a", None, 0.8, 4, 1, "likelihood"),
    "another model": cell("a", None, 0.9, 4, 1, "posterior"),
    "a model without annotations": cell("a", None, 0.9, 4, 1, "unsupervised"),
    "a mixture of none": cell("a", 0, 0.9, 4, 1, "likelihood"),
    "another replicate": cell("a", None, 0.9, 4, 2, "likelihood"),
    "a replicate as text": cell("a", None, 0.9, 4, "1", "likelihood"),
    "a list as data set": cell([], None, 0.9, 4, 1, "likelihood"),
    "no labels": lambda header, arrays: arrays.pop("labels"),
    "one solution": lambda header, arrays: arrays.update(labels=arrays["labels"][:1]),
    "other samples": array("labels", np.zeros((2, 4), dtype=np.int16)),
    "other types": array("labels", np.zeros((2, 5), dtype=np.int32)),
    "other clusters": array("labels", np.full((2, 5), 2, dtype=np.int16)),
    "other features": array("centroids", np.zeros((2, 2, 3))),
    "other covariances": array("covariances", np.zeros((2, 2, 2))),
    "covariances of other features": array("covariances", np.zeros((2, 3))),
    "covariances of another shape": lambda header, arrays: header["partials"][0].update(
        cell=["shapes", None, 0.9, 4, 1, "posterior-diagonal"]
    ),
    "covariances of no shape": cell("a", None, 0.9, 4, 1, "posterior-square"),
    "fewer objectives": array("objectives", np.zeros(5)),
    "objectives as texts": array("objectives", np.zeros(6, dtype="U3")),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_no_run_writes_is_refused(what: str) -> None:
    header, arrays = record()
    WRONG[what](header, arrays)
    with pytest.raises(ValueError, match=r"a record |could not convert"):
        written_partials(header, arrays, PLANS)


# Answers in the journal: what a run wrote is read, anything else is a named error.

ASKED_PLANS = {
    "a": make_plan(designs=("uniform", "active")),
    "mixed": make_plan("mixed", mixtures=2, designs=("active",)),
}
ASKING = dict.fromkeys(ASKED_PLANS, Asking(seed=7, n_clusters=2, batch=2, restarts=1, covariance="auto"))
PATHS = (AskedPath("a", None, 0.9, 1, "active"), AskedPath("mixed", 1, 0.9, 0, "active"))


def record_of_answers() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    answers = np.array([[0, 1, 0], [1, 4, 1], [2, 3, 0], [0, 4, 1], [0, 2, 1], [3, 4, 0]], dtype=np.int32)
    first = PathPart(PATHS[0], 2, answers[:4], 0.5, 0.25)
    return paths_to_record([first, PathPart(PATHS[1], 0, answers[4:], 0.25, 0.2)])


def test_answers_that_a_run_wrote_are_read() -> None:
    header, arrays = record_of_answers()
    assert is_of_paths(header)
    assert not is_of_paths({"partials": []})
    found = written_paths(header, arrays, ASKED_PLANS, ASKING)
    assert [(part.path, part.start, part.stop, part.seconds) for part in found] == [
        (PATHS[0], 2, 6, 0.5),
        (PATHS[1], 0, 2, 0.25),
    ]
    assert np.array_equal(np.concatenate([part.answers for part in found]), arrays["answers"])
    assert all(part.answers.base is None for part in found)


def test_answers_about_other_data_sets_stay_unchecked() -> None:
    found = written_paths(*record_of_answers(), {"a": ASKED_PLANS["a"]}, {"a": ASKING["a"]})
    assert [part.path for part in found] == list(PATHS)


WRONG_PATHS = {
    "no path of the sweep": {"path": ["a", None, 0.8, 1, "active"]},
    "which is no path": {"path": ["a", None, 0.9, 2, "active"]},
    "is no path of": {"path": ["a", None, 0.9, 1, "uniform"]},
    "'mixed', 2": {"path": ["mixed", 2, 0.9, 0, "active"]},
    "other content": {"path": ["a", None, 0.9]},
    "a record of other content": {"path": [["a"], None, 0.9, 1, "active"]},
    "no batches of 2": {"start": 1, "stop": 5},
    "answers 3 to 1": {"start": 3, "stop": 1},
    "answers '2' to 6": {"start": "2"},
    "that took nan and 0.25 seconds": {"seconds": float("nan")},
}


@pytest.mark.parametrize("message", WRONG_PATHS)
def test_records_of_other_paths_are_refused(message: str) -> None:
    header, arrays = record_of_answers()
    header["paths"][0] |= WRONG_PATHS[message]
    with pytest.raises(ValueError, match=message):
        written_paths(header, arrays, ASKED_PLANS, ASKING)


ANSWERS = {
    "int32 \\(5, 3\\), expected int32 \\(6, 3\\)": lambda answers: answers[:5],
    "int64": lambda answers: answers.astype(np.int64),
    "none of 5 samples": lambda answers: answers + np.array([0, 3, 0], dtype=np.int32),
    "neither 0 nor 1": lambda answers: answers + np.array([0, 0, 1], dtype=np.int32),
}


@pytest.mark.parametrize("message", ANSWERS)
def test_other_answers_are_refused(message: str) -> None:
    header, arrays = record_of_answers()
    with pytest.raises(ValueError, match=message):
        written_paths(header, {"answers": ANSWERS[message](arrays["answers"])}, ASKED_PLANS, ASKING)


def test_a_record_without_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="other content"):
        written_paths(record_of_answers()[0], {}, ASKED_PLANS, ASKING)
    with pytest.raises(ValueError, match="other content"):
        written_paths({"paths": [3]}, record_of_answers()[1], ASKED_PLANS, ASKING)
