"""A record of a journal that a run wrote is read, and any other with a right checksum is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cubes.small import draw_gaussians, make_plan
from solving.same import assert_same_gaussians

from sweep_clustering.pipeline.work import records
from sweep_clustering.sweeps.plan import AskedPath, Cell, MethodPlan, UnionPlan
from sweep_clustering.sweeps.shapes import DIMS, to_rows
from sweep_clustering.sweeps.words import shape_of

NAN = float("nan")
MODELS, TIED = ("likelihood", "posterior-diagonal", "posterior-auto"), "unsupervised-tied"
PLANS = {
    "a": make_plan(designs=("uniform", "active")),
    "mixed": make_plan("mixed", mixtures=2, designs=("active",)),
    "shapes": make_plan("shapes", models=MODELS, baselines=("unsupervised-full", TIED)),
    "scored": make_plan("scored", held_out=True),
    "methods": make_plan("methods", models=("mine",), methods=(MethodPlan("mine", 2),)),
}
SCIENCES = {name: records.Science(7, (), 2, asking=records.Asking(2, 1, "auto")) for name in PLANS}
CELL = Cell("a", None, 0.9, 4, 1, "likelihood", "uniform")
BASELINE = Cell("a", None, None, None, None, "unsupervised")
SHAPES, SCORED = (Cell(name, None, 0.9, 4, 1, "likelihood") for name in ("shapes", "scored"))
CHOICE = records.Chosen("tied", (0.1, 0.2, NAN, 0.4), (0.9, 0.8, NAN, 0.6))
FIXED = records.Chosen("spherical", (0.1, *[NAN] * 4), (0.9, *[NAN] * 4))


def make_solved(cell: Cell, chosen: records.Chosen | None = None) -> records.Solved:
    shape = shape_of(cell.model) if chosen is None else chosen.covariance
    solution = np.zeros(5, dtype=np.int16), np.zeros((2, 2)), np.ones((2, *[2] * len(DIMS[shape])))
    return records.Solved(
        records.Span(cell, 0, 3), np.array([1.0, 3.0, 2.0]), 1, *solution, 0.5, 0.25, chosen
    )


ANSWERS = np.array([[0, 1, 0], [1, 4, 1], [2, 3, 0], [0, 4, 1], [0, 2, 1], [3, 4, 0]], dtype=np.int32)
PATHS = AskedPath("a", None, 0.9, 1, "active"), AskedPath("mixed", 1, 0.9, 0, "active")
CELLS = [make_solved(CELL), make_solved(BASELINE)]
OF_PATHS = [
    records.Answered(records.Span(PATHS[0], 2, 6), ANSWERS[:4], 0.5, 0.25),
    records.Answered(records.Span(PATHS[1], 0, 2), ANSWERS[4:], 0.25, 0.2),
]
OTHER = replace(CELLS[0], span=records.Span(replace(CELL, replicate=0), 1, 2), objectives=np.zeros(1))
CALLS = replace(
    make_solved(Cell("methods", None, 0.9, 4, 1, "mine")),
    span=records.Span(Cell("methods", None, 0.9, 4, 1, "mine"), 0, 2),
    objectives=np.full(2, NAN),
    best_restart=-1,
    labels=np.full(5, -1, dtype=np.int16),
    machine="m" * records.LONGEST_MACHINE,
)
RECORDS: dict[str, list[Any]] = {
    "calls without a solution": [CALLS],
    "restarts": [*CELLS, OTHER],
    "a mixture": [make_solved(Cell("mixed", 1, 0.9, 4, 0, "likelihood", "active"))],
    "several shapes": [make_solved(replace(SHAPES, model=model)) for model in MODELS[:2]]
    + [
        make_solved(replace(BASELINE, dataset="shapes", model=model)) for model in ("unsupervised-full", TIED)
    ],
    "choices": [make_solved(SHAPES), make_solved(replace(SHAPES, model="posterior-auto"), CHOICE)],
    "scores of every model": [make_solved(SCORED, FIXED), make_solved(replace(BASELINE, dataset="scored"))],
    "answers": OF_PATHS,
}


@pytest.mark.parametrize("case", RECORDS)
def test_a_record_gives_back_what_went_in(case: str) -> None:
    header, arrays = records.to_record(RECORDS[case])
    header = json.loads(json.dumps(header))
    assert records.from_record(header, arrays, {})[0].span == RECORDS[case][0].span, (
        "of data sets that are not there"
    )
    assert records.spans_of(header) == [result.span for result in RECORDS[case]]
    assert len(records.from_record(header, arrays, PLANS)) == len(RECORDS[case]), "of settings not there"
    for before, after in zip(
        RECORDS[case], records.from_record(header, arrays, PLANS, SCIENCES), strict=True
    ):
        assert not getattr(after, "choosing", 0.0), "the time of a choice counts once"
        for name in (field for field in type(before).__dataclass_fields__ if field != "choosing"):
            old, new = getattr(before, name), getattr(after, name)
            if isinstance(old, np.ndarray):
                assert old.dtype == new.dtype
                assert old.shape == new.shape
                assert old.tobytes() == new.tobytes()
                assert name == "objectives" or new.base is None, "no view of the whole record"
            else:
                assert repr(old) == repr(new)


def test_the_form_of_records_is_that_of_older_releases() -> None:
    header, arrays = records.to_record(CELLS)
    times = {"seconds": 0.5, "cpu_seconds": 0.25}
    cell = ["a", None, 0.9, 4, 1, "likelihood", "uniform"]
    expected = {"cell": cell, "start": 0, "stop": 3, "best_restart": 1, **times}
    assert list(header["partials"][0].items()) == list(expected.items())
    assert header["partials"][1]["cell"] == ["a", None, None, None, None, "unsupervised"]
    assert list(arrays) == ["labels", "centroids", "covariances", "objectives"]
    header, arrays = records.to_record(OF_PATHS)
    assert header["paths"][0] == {"path": ["a", None, 0.9, 1, "active"], "start": 2, "stop": 6, **times}
    np.testing.assert_array_equal(arrays["answers"], ANSWERS)
    del header["paths"][0]["cpu_seconds"]  # older releases did not measure it
    assert records.from_record(header, arrays)[0].cpu_seconds == 0.5
    # a thousand cells have as many arrays as one
    assert records.to_record(RECORDS["several shapes"] * 250)[1]["covariances"].shape == (1000, 2, 2, 2)
    assert records.to_record(RECORDS["choices"])[1]["covariance_shape"].tolist() == [3]
    assert records.to_record(RECORDS["scores of every model"])[1]["held_out"].shape == (1, 5)


def test_the_class_of_a_machine_has_an_end() -> None:
    header, arrays = records.to_record([replace(CALLS, machine="m" * 1000)])
    assert records.from_record(header, arrays)[0].machine == "m" * 197 + "..."


@pytest.mark.parametrize(("more_components", "more_entries"), [(0, 0), (1, 0), (0, 1)])
def test_gaussians_of_a_record_are_as_long_as_the_rows_of_the_cube(
    more_components: int, more_entries: int
) -> None:
    gaussians = draw_gaussians(np.random.default_rng(0), 2, 2)
    lengths = [*map(len, to_rows(gaussians).values())]
    room = UnionPlan("likelihood", None, lengths[0] - more_components, lengths[-1] - more_entries)
    plans = {"a": replace(PLANS["a"], unions=(room,))}
    header, arrays = records.to_record([replace(CELLS[0], gaussians=gaussians)])
    if more_components or more_entries:
        with pytest.raises(ValueError, match=f"with rows of .*expected {room.components} and {room.entries}"):
            records.from_record(header, arrays, plans)
    else:
        assert_same_gaussians(records.from_record(header, arrays, plans)[0].gaussians, gaussians)


Damage = Callable[[dict[str, Any], dict[str, Any]], object]


def entry(**changes: object) -> Damage:
    return lambda header, arrays: next(iter(header.values()))[0].update(changes)


def cell(*values: object) -> Damage:
    return entry(cell=list(values))


def array(name: str, change: Any) -> Damage:
    """Return damage that replaces or changes an array."""
    return lambda header, arrays: arrays.update({name: change(arrays[name]) if callable(change) else change})


SCORES = ("held_out", "held_out_right", "covariance_shape")
WRONG: dict[str, dict[str, Damage]] = {
    "calls without a solution": {
        "labels of a cluster": array("labels", np.zeros((1, 5), dtype=np.int16)),
        "more calls": lambda header, arrays: [
            entry(stop=3)(header, arrays),
            arrays.update(objectives=np.full(3, NAN)),
        ],
        "a best call before all of them": entry(best_restart=-2),
    },
    "restarts": {
        "a truth value": entry(start=False),
        "another best": entry(best_restart=3),
        "no solution of a model": entry(best_restart=-1),
        "more restarts": entry(stop=4, best_restart=3),
        "no time": entry(seconds=NAN),
        "a time beyond all numbers": entry(seconds=10**400),
        "another cell": cell("a", None, 0.8, 4, 1, "likelihood", "uniform"),
        "covariances of another shape": cell("shapes", None, 0.9, 4, 1, "posterior-diagonal"),
        "other samples": array("labels", np.zeros((3, 4), dtype=np.int16)),
        "other clusters": array("labels", np.full((3, 5), 2, dtype=np.int16)),
        "fewer objectives": array("objectives", np.zeros(5)),
    },
    "choices": {
        "no shapes": lambda header, arrays: arrays.pop("covariance_shape"),
        "a shape that cannot be chosen": array("covariance_shape", np.array([1])),
        "scores of other candidates": array("held_out", np.zeros((1, 3))),
    },
    "scores of every model": {
        "none": lambda header, arrays: [arrays.pop(name) for name in SCORES],
        "of candidates alone": lambda _, arrays: arrays.update({n: arrays[n][:, :4] for n in SCORES[:2]}),
        "of another shape": array("covariance_shape", np.array([3])),
        "not asked for": cell("a", None, 0.9, 4, 1, "likelihood", "uniform"),
    },
    "answers": {
        "another accuracy": entry(path=["a", None, 0.8, 1, "active"]),
        "no batches of 2": entry(start=1, stop=5),
        "a text": entry(start="2"),
        "no time": entry(seconds=NAN),
        "fewer answers": array("answers", lambda answers: answers[:5]),
        "another type": array("answers", lambda answers: answers.astype(np.int64)),
        "none of 5 samples": array("answers", lambda answers: answers + np.array([0, 3, 0], dtype=np.int32)),
        "another kind": array("answers", lambda answers: answers + np.array([0, 0, 1], dtype=np.int32)),
    },
}


@pytest.mark.parametrize(("kind", "fault"), [(kind, fault) for kind in WRONG for fault in WRONG[kind]])
def test_what_no_run_writes_is_refused(kind: str, fault: str) -> None:
    header, arrays = records.to_record(RECORDS[kind])
    WRONG[kind][fault](header, arrays)
    with pytest.raises(ValueError, match="a record of other content"):
        records.from_record(header, arrays, PLANS, SCIENCES)
