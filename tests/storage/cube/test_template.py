"""A cube in memory: what zarr reads from it, what growth keeps, and which chunks belong to a cube."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from cubes.small import draw_inputs, make_plan
from hypothesis import given
from hypothesis import strategies as st

from storage.cube.schema import array_specs
from storage.cube.template import Template, chunk_counts, coordinate_values, is_committed, render
from storage.files import PLAIN

PLAN = make_plan("a", p=(0.9, 0.8), m=(6, 4), mixtures=4, mixture_chunk=2)


def test_zarr_reads_back_what_was_rendered(tmp_path: Path) -> None:
    template = render(PLAN, {}, draw_inputs(PLAN))
    PLAIN.put_all(tmp_path, (template.metadata_files() | template.coordinates | template.inputs).items())
    X, labels = draw_inputs(PLAN)
    wanted = coordinate_values(PLAN) | {"X": X, "labels_true": labels}
    specs = list(array_specs(PLAN))
    assert {spec.path for spec in specs} < template.metadata.keys()
    for spec in specs:
        array = zarr.open_array(tmp_path / spec.path, mode="r")
        assert (array.shape, array.chunks) == (spec.shape, spec.chunks)
        assert array.metadata.dimension_names == spec.dims
        found, name = np.asarray(array[...]), spec.variable.name
        if name in wanted and spec.path == f"a/{name}":
            np.testing.assert_array_equal(found, wanted[name])
        else:
            fill = np.full_like(found, spec.variable.fill)
            assert np.array_equal(found, fill, equal_nan=found.dtype.kind == "f"), spec.path


def test_results_have_metadata_but_no_chunks() -> None:
    template = render(PLAN, {}, draw_inputs(PLAN))
    written = {key.rpartition("/")[0] for key in template.coordinates | template.inputs}
    assert written == {f"a/{name}" for name in (*coordinate_values(PLAN), "X", "labels_true")}
    assert render(PLAN, {}, None).inputs == {}


def test_a_grown_array_keeps_all_but_its_shape() -> None:
    """Chunk lengths above all: files that are there would mean other cells."""
    old = render(PLAN, {}, draw_inputs(PLAN)).metadata
    grown = replace(PLAN, p=(0.9, 0.8, 0.7), m=(6, 4, 12), mixtures=8)
    new = render(grown, old, draw_inputs(grown)).metadata
    assert new.keys() == old.keys()
    for path, entry in old.items():
        if entry["node_type"] == "array":
            assert new[path] == entry | {"shape": new[path]["shape"]}
    assert new["a/annotations"]["shape"][-2] == 12
    assert new["a/annotations"]["chunk_grid"]["configuration"]["chunk_shape"][-2] == 6
    assert chunk_counts(new["a/annotations"]) == (4, 3, 3, 1, 2, 1)


def test_annotations_of_a_file_are_inputs_that_must_agree_with_the_plan() -> None:
    plan = make_plan("a", n_annotations=2, annotations_checksum="c0ffee")
    X, labels = draw_inputs(plan)
    pool = np.array([[0, 1, 0], [2, 2, 1]], dtype=np.int32)
    template = render(plan, {}, (X, labels, pool))
    assert {key.rpartition("/")[0] for key in template.inputs} == {
        "a/X",
        "a/labels_true",
        "a/annotation_pool",
    }
    for wrong in (None, pool[:1]):
        with pytest.raises(ValueError, match="annotations of a have shape"):
            render(plan, {}, (X, labels, wrong))


def test_rendering_is_repeatable() -> None:
    """Growth compares files byte for byte, and rewrites those that differ."""
    first, second = (render(PLAN, {}, draw_inputs(PLAN)) for _ in range(2))
    assert first == second
    assert json.loads(first.metadata_files()["a/X/zarr.json"]) == first.metadata["a/X"]
    assert Template() == Template({}, {}, {})


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 4)), min_size=1, max_size=2))
def test_chunks_of_an_array_are_those_that_hold_an_element(dims: list[tuple[int, int]]) -> None:
    shape, chunks = zip(*dims, strict=True)
    entry = {
        "node_type": "array",
        "shape": list(shape),
        "chunk_grid": {"configuration": {"chunk_shape": list(chunks)}},
    }
    elements = itertools.product(*map(range, shape))
    held = {tuple(i // n for i, n in zip(element, chunks, strict=True)) for element in elements}
    for position in itertools.product(range(8), repeat=len(shape)):
        key = "a/x/c." + ".".join(map(str, position))
        assert is_committed(key, {"a/x": entry}) == (position in held)


def test_other_files_belong_to_no_array() -> None:
    metadata = render(PLAN, {}, None).metadata
    assert is_committed("a/status/c.0.0.0.0.0", metadata)
    for key in (
        "a/status/c.0.0.0.0",
        "a/status/c.2.0.0.0.0",
        "a/other/c.0",
        "a/c.0",
        "a/status/zarr.json",
        "c.0",
    ):
        assert not is_committed(key, metadata), key


def test_inputs_that_contradict_their_plan_are_refused() -> None:
    X, labels = draw_inputs(PLAN)
    for wrong, said in (
        ((X[:3], labels), r"X of a has shape \(3, 5, 2\), its plan says \(4, 5, 2\)"),
        ((X, None), "true labels"),
        ((X, labels[:, 1:]), "true labels"),
    ):
        with pytest.raises(ValueError, match=said):
            render(PLAN, {}, wrong)
