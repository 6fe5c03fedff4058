"""Where blocks lie: every cell in one block, every block in one region, and no other blocks."""

from __future__ import annotations

import numpy as np
from cubes.small import make_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.cube.chunks import ChunkFiles, chunk_name, chunk_position
from storage.cube.schema import array_specs
from sweeps.plan import DatasetPlan, MethodPlan

MODELS = ("likelihood", "posterior-full", "conditional")


@st.composite
def plans(draw: st.DrawFn) -> DatasetPlan:
    chunk = st.integers(1, 3)
    mixture_chunk, replicate_chunk = draw(chunk), draw(chunk)
    model_chunk = draw(st.sampled_from([1, 2]))
    return make_plan(
        "a",
        p=draw(st.permutations([0.7, 0.8, 0.95]))[: draw(st.integers(1, 3))],
        m=draw(st.permutations([2, 4, 9]))[: draw(st.integers(1, 3))],
        mixtures=draw(st.sampled_from([None, mixture_chunk * draw(chunk)])),
        mixture_chunk=mixture_chunk,
        replicates=replicate_chunk * draw(chunk),
        replicate_chunk=replicate_chunk,
        models=MODELS[: model_chunk * draw(st.integers(1, 2 // model_chunk))],
        model_chunk=model_chunk,
        baselines=("unsupervised", "unsupervised-full")[: draw(st.integers(0, 2))],
        designs=draw(st.sampled_from([("uniform",), ("active",), ("active", "uniform", "biased")])),
        searches=draw(st.sampled_from([(), ("quick", "long"), ("a", "b", "c")])),
        methods=draw(st.sampled_from([(), (MethodPlan("unsupervised-full", 1),)])),
    )


@settings(max_examples=40, deadline=None)
@given(plans())
def test_blocks_tile_each_node_and_hold_its_cells_in_order(plan: DatasetPlan) -> None:
    shapes = {spec.node: spec for spec in array_specs(plan) if spec.variable.name == "status"}
    hits = {path: np.zeros(spec.shape, int) for path, spec in shapes.items()}
    lists = {"p": plan.p, "m": plan.m, "design": plan.designs, "search": plan.searches, "model": plan.models}
    for block in plan.blocks():
        path = block.node.path
        hits[path][block.region] += 1
        lengths = [part.stop - part.start for part in block.region]
        assert np.prod(lengths, dtype=int) == block.n_cells
        for cell, index in zip(block.cells(), np.ndindex(*lengths), strict=True):
            for dim, part, at in zip(shapes[path].dims, block.region, index, strict=True):
                value = getattr(cell, dim)
                assert part.start + at == (lists[dim].index(value) if dim in lists else value)
    for node, count in hits.items():
        assert (count == 1).all(), node


def test_chunk_positions_in_file_names() -> None:
    for name, position in {"c": (), "c.0": (0,), "c.10.2": (10, 2)}.items():
        assert chunk_position(name) == position
        assert chunk_name(position) == name
    for name in ("c.0.partial", "c.-1", "c.", "zarr.json", "d.0"):
        assert chunk_position(name) is None


@settings(max_examples=40, deadline=None)
@given(plans())
def test_each_chunk_file_leads_back_to_the_blocks_that_write_it(plan: DatasetPlan) -> None:
    chunks = ChunkFiles(
        [plan], {"a/annotations": {"chunk_grid": {"configuration": {"chunk_shape": [1, 3, 3]}}}}
    )
    lengths = {spec.path: spec.chunks for spec in array_specs(plan)}
    for block in plan.blocks():
        path = block.node.path
        position = tuple(
            part.start // length for part, length in zip(block.region, lengths[f"{path}/status"], strict=True)
        )
        key = f"{path}/labels/{chunk_name((*position, 0))}"
        status = f"{path}/status/{chunk_name(position)}"
        assert list(chunks.blocks(key)) == list(chunks.blocks(status)) == [block]
        assert chunks.is_expected(key, {status}.__contains__)
        assert not chunks.is_expected(key, set[str]().__contains__)
        assert not chunks.is_expected(status, {status}.__contains__)
        assert str(block.first) in chunks.name(key)
        if not block.unsupervised:
            for part in range(5):  # chunks of three annotations
                key = f"a/annotations/{chunk_name((*position[: len(block.graph_region)], part, 0))}"
                found = list(chunks.blocks(key))
                assert (block in found) == chunks.is_expected(key, {status}.__contains__)
                assert (block in found) == (3 * part < (block.first.m or 0))
    for key in ("a/X/c.0.0", "a/p/c.0"):
        assert list(chunks.blocks(key)) == []
        assert chunks.is_expected(key, set[str]().__contains__) == ("a/p" not in key or plan.supervised)
    for key in ("zarr.json", "a/zarr.json", "b/X/c.0.0", "a/X/c.0.0.partial", "a/other/c.0"):
        assert not chunks.is_expected(key, lambda _: True)
