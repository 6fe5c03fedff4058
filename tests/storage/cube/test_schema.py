"""The cube's variables against the table they are promised in."""

import numpy as np
import pytest
from cubes.small import make_plan

from storage.cube.schema import TOLD_TEXT, Role, array_specs, coordinate_values, result_names
from sweeps.shapes import CANDIDATES

RESULTS = result_names(make_plan(), ["likelihood"])
CELL = ("p", "m", "replicate", "model")
PROMISED = {
    "log_likelihood": ((*CELL, "restart"), "f8", np.nan),
    "labels": ((*CELL, "sample"), "i2", -1),
    "centroids": ((*CELL, "cluster", "feature"), "f8", np.nan),
    "covariances": ((*CELL, "cluster"), "f8", np.nan),
    "best_restart": (CELL, "i4", -1),
    "restarts_done": (CELL, "i4", 0),
    "seconds": (CELL, "f8", np.nan),
    "cpu_seconds": (CELL, "f8", np.nan),
    "status": (CELL, "i1", 0),
    "annotations": (("p", "m", "replicate", "annotation", "field"), "i4", -1),
    "X": (("sample", "feature"), "f8", np.nan),
    "labels_true": (("sample",), "i2", -1),
}
GRID = {"p": (0.9, 0.8), "m": (4, 9), "replicates": 4, "replicate_chunk": 2, "model_chunk": 1}
GRID |= {"models": ("likelihood", "posterior")}
LENGTHS = {"mixture": 6, "p": 2, "m": 2, "replicate": 4, "model": 2, "restart": 3, "sample": 5}
LENGTHS |= {"feature": 2, "cluster": 2, "annotation": 9, "field": 3}
CHUNKS = LENGTHS | {"mixture": 3, "p": 1, "m": 1, "replicate": 2, "model": 1}


def specs_by_path(**changes: object) -> dict:
    return {spec.path: spec for spec in array_specs(make_plan(**GRID | changes))}


@pytest.mark.parametrize("mixtures", [None, 6])
def test_arrays_are_those_promised(mixtures: int | None) -> None:
    specs = specs_by_path(mixtures=mixtures, mixture_chunk=3)
    mixture = () if mixtures is None else ("mixture",)
    for name, (dims, dtype, fill) in PROMISED.items():
        spec = specs[f"a/{name}"]
        assert spec.dims == mixture + dims
        assert spec.shape == tuple(LENGTHS[dim] for dim in spec.dims)
        assert spec.chunks == tuple(CHUNKS[dim] for dim in spec.dims)
        assert np.dtype(spec.variable.dtype) == np.dtype(dtype)
        assert np.array_equal(spec.variable.fill, fill, equal_nan=True)
    baseline = {spec.variable.name: spec.dims for spec in specs.values() if spec.node == "a/unsupervised"}
    assert baseline == {name: mixture + PROMISED[name][0][4:] for name in RESULTS}
    coordinates = {s.variable.name for s in specs.values() if s.variable.role is Role.COORDINATE}
    assert coordinates == {"p", "m", "m_over_n", "replicate", "model", "field", *mixture}
    values = coordinate_values(make_plan(**GRID, mixtures=mixtures))
    assert all(len(values[name]) == LENGTHS[specs[f"a/{name}"].dims[0]] for name in coordinates)
    assert values["m_over_n"].tolist() == [4 / 5, 9 / 5]
    alone = specs_by_path(models=(), p=(), m=(), has_labels=False)
    assert set(alone) == {"a/X"} | {f"a/unsupervised/{name}" for name in RESULTS}


@pytest.mark.parametrize(
    ("last", "held_out", "axes", "more"),
    [
        ("posterior-common", False, 0, set()),
        ("posterior-diagonal", False, 1, set()),
        ("posterior-auto", False, 2, {"covariance_shape", "held_out", "held_out_right"}),
        ("posterior-tied", True, 2, {"held_out", "held_out_right"}),
        ("posterior-auto", True, 2, {"covariance_shape", "held_out", "held_out_right"}),
    ],
)
def test_a_node_has_what_its_models_need(last: str, held_out: bool, axes: int, more: set[str]) -> None:
    baselines = ("unsupervised", "unsupervised-diagonal", "unsupervised-full")
    changes = {"models": ("likelihood", last), "held_out": held_out, "baselines": baselines}
    specs, plan = specs_by_path(**changes), make_plan(**GRID | changes)
    wide = ("cluster", "feature", "feature_2")
    assert specs["a/covariances"].dims == (*CELL, *wide[: 1 + axes])
    assert specs["a/covariances"].chunks == (1, 1, 2, 1, 2, *[2] * axes)
    for n, model in enumerate(baselines):
        assert specs[f"a/{model}/covariances"].dims == wide[: 1 + n]
    *names, status = result_names(plan, plan.models)
    assert ({*names, status}, status) == ({*RESULTS, *more}, "status")
    # blocks of other models have fewer, and baselines none
    fewer = more - {"covariance_shape"} if held_out else set()
    assert set(result_names(plan, ["likelihood"])) == {*RESULTS, *fewer}
    assert result_names(plan, ["unsupervised"]) == RESULTS
    assert {path for path in specs if "held_out" in path or "shape" in path} == {f"a/{name}" for name in more}
    candidates = (*(CANDIDATES if more else ()), *(("common",) if held_out else ()))
    assert tuple(coordinate_values(plan).get("candidate", ())) == candidates
    for name in more - {"covariance_shape"}:
        assert specs[f"a/{name}"].shape == (2, 2, 4, 2, len(candidates))
    if "covariance_shape" in more:
        attributes = specs["a/covariance_shape"].variable.attributes
        assert attributes["flag_values"] == [0, 1, 2, 3, 4]
        assert attributes["flag_meanings"] == "spherical common diagonal tied full"


def test_annotations_of_a_file_stand_in_the_node() -> None:
    specs = specs_by_path(n_annotations=9, annotations_checksum="c0ffee")
    assert specs.keys() - specs_by_path().keys() == {"a/annotation_pool"}
    assert (specs["a/annotation_pool"].dims, specs["a/annotation_pool"].chunks) == (
        ("pooled", "field"),
        (9, 3),
    )
    assert specs["a/p"].variable.text == TOLD_TEXT
