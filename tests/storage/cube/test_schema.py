"""The cube's variables against the table they are promised in."""

import textwrap

import numpy as np
import pytest
from cubes.small import make_plan

from storage.cube.schema import (
    COVARIANCE_TEXTS,
    SCORED_TEXT,
    TOLD_TEXT,
    VARIABLES,
    Role,
    array_specs,
    coordinate_values,
    groups,
    result_names,
)
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
LENGTHS = {
    "mixture": 6,
    "p": 2,
    "m": 2,
    "replicate": 4,
    "model": 2,
    "restart": 3,
    "sample": 5,
    "feature": 2,
    "cluster": 2,
    "annotation": 9,
    "field": 3,
}
CHUNKS = LENGTHS | {"mixture": 3, "p": 1, "m": 1, "replicate": 2, "model": 1}
GRID = {
    "p": (0.9, 0.8),
    "m": (4, 9),
    "replicates": 4,
    "replicate_chunk": 2,
    "models": ("likelihood", "posterior"),
    "model_chunk": 1,
}


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


@pytest.mark.parametrize("mixtures", [None, 6])
def test_baseline_has_results_without_the_grid(mixtures: int | None) -> None:
    specs = specs_by_path(mixtures=mixtures, mixture_chunk=3)
    mixture = () if mixtures is None else ("mixture",)
    baseline = {path: spec for path, spec in specs.items() if path.startswith("a/unsupervised/")}
    assert {spec.variable.name for spec in baseline.values()} == set(RESULTS)
    for spec in baseline.values():
        assert spec.dims == mixture + PROMISED[spec.variable.name][0][4:]


def test_coordinates_of_the_cube_are_those_of_its_dimensions() -> None:
    specs = specs_by_path(mixtures=6)
    coordinates = {s.variable.name for s in specs.values() if s.variable.role is Role.COORDINATE}
    assert coordinates == {"p", "m", "m_over_n", "replicate", "mixture", "model", "field"}
    values = coordinate_values(make_plan(**GRID, mixtures=6))
    assert all(len(values[name]) == LENGTHS[specs[f"a/{name}"].dims[0]] for name in coordinates)
    assert values["m_over_n"].tolist() == [4 / 5, 9 / 5]


def test_a_set_without_models_has_inputs_and_baseline_only() -> None:
    paths = set(specs_by_path(models=(), p=(), m=(), has_labels=False))
    assert paths == {"a/X"} | {f"a/unsupervised/{name}" for name in RESULTS}


@pytest.mark.parametrize(
    ("models", "dims"),
    [
        (("likelihood", "posterior-common"), ()),
        (("likelihood", "posterior-diagonal"), ("feature",)),
        (("likelihood-tied", "posterior-diagonal"), ("feature", "feature_2")),
        (("conditional-common", "posterior-full"), ("feature", "feature_2")),
    ],
)
def test_covariances_have_the_dims_of_the_widest_model_of_their_node(
    models: tuple[str, ...], dims: tuple[str, ...]
) -> None:
    baselines = ("unsupervised", "unsupervised-diagonal", "unsupervised-full")
    specs = specs_by_path(models=models, baselines=baselines)
    spec = specs["a/covariances"]
    assert spec.dims == (*CELL, "cluster", *dims)
    assert spec.shape == (2, 2, 4, 2, 2, *[2 for _ in dims])
    assert spec.chunks == (1, 1, 2, 1, 2, *[2 for _ in dims])
    assert spec.dims[len(CELL) :] == spec.variable.dims
    others = set(PROMISED) - {"covariances"}
    assert all(specs[f"a/{name}"].dims == PROMISED[name][0] for name in others)
    own = [specs[f"a/{model}/covariances"].dims for model in baselines]
    assert own == [("cluster",), ("cluster", "feature"), ("cluster", "feature", "feature_2")]
    texts = {specs[f"a/{model}/covariances"].variable.text for model in baselines}
    assert len(texts) == 3


def test_a_node_with_a_model_that_chooses_says_what_and_why() -> None:
    specs = specs_by_path(models=("likelihood", "posterior-auto"), baselines=("unsupervised",))
    names = ("covariance_shape", "held_out", "held_out_right")
    assert [specs[f"a/{name}"].dims for name in names] == [CELL, (*CELL, "candidate"), (*CELL, "candidate")]
    assert specs["a/held_out"].shape == (2, 2, 4, 2, len(CANDIDATES))
    assert specs["a/held_out"].chunks == (1, 1, 2, 1, len(CANDIDATES))
    assert specs["a/covariances"].dims[len(CELL) :] == ("cluster", "feature", "feature_2")
    attributes = specs["a/covariance_shape"].variable.attributes
    assert attributes["flag_values"] == [0, 1, 2, 3, 4]
    assert attributes["flag_meanings"] == "spherical common diagonal tied full"
    plan = make_plan(**GRID | {"models": ("likelihood", "posterior-auto")})
    assert coordinate_values(plan)["candidate"].tolist() == list(CANDIDATES)
    # not of other nodes, nor of blocks of other models
    assert "candidate" not in coordinate_values(make_plan(**GRID))
    assert not {"a/candidate", *(f"a/{name}" for name in names)} & set(specs_by_path())
    assert not {f"a/unsupervised/{name}" for name in names} & set(specs)
    assert result_names(plan, ["likelihood"]) == RESULTS
    assert set(result_names(plan, plan.models)) == {*RESULTS, *names}
    assert result_names(plan, plan.models)[-1] == "status"


def test_annotations_of_a_file_stand_in_the_node_and_p_is_what_models_are_told() -> None:
    plan = make_plan(n_annotations=9, annotations_checksum="c0ffee")
    specs = {spec.path: spec for spec in array_specs(plan)}
    pool = specs["a/annotation_pool"]
    assert (pool.dims, pool.shape, pool.chunks) == (("pooled", "field"), (9, 3), (9, 3))
    assert specs["a/p"].variable.attributes["long_name"].startswith("accuracy the models are told")
    assert groups(plan)["a"]["annotations"] == "drawn without replacement from the 9 of a file"
    assert groups(plan)["a"]["annotations_checksum"] == "c0ffee"
    drawn = {spec.path: spec for spec in array_specs(make_plan())}
    assert specs.keys() - drawn.keys() == {"a/annotation_pool"}
    assert drawn["a/p"].variable.attributes["long_name"] == "accuracy of the annotations"
    assert "annotations" not in groups(make_plan())["a"]


def test_fill_values_are_no_valid_coordinates() -> None:
    values = coordinate_values(make_plan(**GRID, mixtures=6))
    assert all(VARIABLES[name].fill not in values[name].tolist() for name in values)


def test_where_every_model_holds_annotations_out_every_cell_with_some_has_scores() -> None:
    changes = {"models": ("likelihood", "posterior-common"), "baselines": ("unsupervised",), "held_out": True}
    specs = specs_by_path(**changes)
    plan = make_plan(**GRID | changes)
    names = ("held_out", "held_out_right")
    assert coordinate_values(plan)["candidate"].tolist() == [*CANDIDATES, "common"]
    for name in names:
        assert specs[f"a/{name}"].dims == (*CELL, "candidate")
        assert specs[f"a/{name}"].shape == (2, 2, 4, 2, 5)
        assert specs[f"a/{name}"].chunks == (1, 1, 2, 1, 5)
        assert f"a/unsupervised/{name}" not in specs
    # nothing was chosen
    assert "a/covariance_shape" not in specs
    for models in (["likelihood"], plan.models):
        assert set(result_names(plan, models)) == {*RESULTS, *names}
    assert result_names(plan, ["unsupervised"]) == RESULTS
    choosing = make_plan(**GRID | changes | {"models": ("likelihood", "posterior-auto")})
    assert set(result_names(choosing, choosing.models)) == {*RESULTS, *names, "covariance_shape"}
    assert set(result_names(choosing, ["likelihood"])) == {*RESULTS, *names}
    assert coordinate_values(choosing)["candidate"].tolist() == [*CANDIDATES, "common"]
    alone = make_plan(models=(), p=(), m=(), baselines=("unsupervised",), held_out=True)
    assert "candidate" not in coordinate_values(alone)


def test_names_for_people_fit_two_lines_beside_a_figure() -> None:
    texts = [*(variable.text for variable in VARIABLES.values()), *COVARIANCE_TEXTS.values()]
    # xarray breaks them at 30 letters, units among them; a third line is cut off
    for text in [*texts, TOLD_TEXT, SCORED_TEXT]:
        assert len(textwrap.wrap(f"{text} [nats]", 30)) <= 3, text
        assert len(text) <= 60
