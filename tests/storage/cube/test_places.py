"""Where blocks lie: every cell in one block, every block in one region, and no other blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cubes.small import make_plan
from hypothesis import given
from hypothesis import strategies as st

from storage.cube.places import ChunkFiles, Place, Places, chunk_name, chunk_position
from storage.cube.schema import array_specs
from sweeps.plan import Block, DatasetPlan, MethodPlan

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


@given(plans())
def test_blocks_tile_each_node_and_hold_its_cells_in_order(plan: DatasetPlan) -> None:
    lead = () if plan.mixtures is None else (plan.mixtures,)
    ways = (len(plan.designs),) if plan.has_designs else ()
    searches = (len(plan.searches),) if plan.searches else ()
    grid = (*lead, len(plan.p), len(plan.m), *ways, plan.replicates, *searches, len(plan.models))
    hits = {"a": np.zeros(grid, int)}
    for name in plan.baselines:
        alone = () if plan.searches_of(name) == (None,) else searches
        hits[f"a/{name}"] = np.zeros((*lead, *alone), int)
    places = Places(plan)
    for block in plan.blocks():
        place = places.locate(block)
        assert place is not None
        hits[place.node][place.region] += 1
        assert np.prod(place.shape, dtype=int) == block.n_cells
        for cell, index in zip(block.cells(), np.ndindex(*place.shape), strict=True):
            position = [part.start + i for part, i in zip(place.region, index, strict=True)]
            if plan.mixtures is not None:
                assert cell.mixture == position.pop(0)
            if block.unsupervised:
                assert [plan.searches[at] for at in position] == ([cell.search] if cell.search else [])
            else:
                if plan.searches:
                    assert cell.search == plan.searches[position.pop(-2)]
                at_p, at_m, *design, replicate, model = position
                assert cell.design == (plan.designs[design[0]] if design else plan.cell_designs[0])
                assert (plan.p[at_p], plan.m[at_m]) == (cell.p, cell.m)
                assert (replicate, plan.models[model]) == (cell.replicate, cell.model)
    for node, count in hits.items():
        assert (count == 1).all(), node


PLAN = make_plan(
    "a",
    p=(0.9, 0.8),
    m=(6, 4),
    replicates=4,
    replicate_chunk=2,
    models=("likelihood", "posterior"),
    model_chunk=1,
)
BLOCK = Block("a", 0.8, 6, None, (2, 4), ("posterior",))


def test_a_place_by_hand() -> None:
    found = Places(PLAN).locate(BLOCK)
    assert found == Place("a", (slice(1, 2), slice(0, 1), slice(2, 4), slice(1, 2)), 1)
    assert found.shape == (1, 1, 2, 1)
    baseline = Block("a", None, None, None, None, ("unsupervised",))
    assert Places(PLAN).locate(baseline) == Place("a/unsupervised", (), 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"p": 0.85},
        {"m": 5},
        {"replicates": (1, 3)},
        {"replicates": (2, 3)},
        {"replicates": (4, 6)},
        {"replicates": None},
        {"mixtures": (0, 1)},
        {"models": ("conditional",)},
        {"models": ("likelihood", "posterior")},
        {"p": None},
        {"design": "active"},
        {"design": "uniform"},
        {"search": "quick"},
    ],
)
def test_a_block_off_the_chunks_has_no_place(changes: dict[str, object]) -> None:
    assert Places(PLAN).locate(replace(BLOCK, **changes)) is None


def test_accuracies_are_those_that_share_a_random_stream() -> None:
    """0.1 + 0.2 and 0.3 are one coordinate: p counts in steps of 1e-9."""
    plan = make_plan("a", p=(0.9, 0.1 + 0.2))
    found = Places(plan).locate(Block("a", 0.3, 4, None, (0, 2), ("likelihood",)))
    assert found is not None
    assert found.region[0] == slice(1, 2)


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("c", ()),
        ("c.0", (0,)),
        ("c.10.2", (10, 2)),
        ("c.0.partial", None),
        ("c.-1", None),
        ("c.", None),
        ("zarr.json", None),
        ("d.0", None),
    ],
)
def test_chunk_positions_in_file_names(name: str, position: tuple[int, ...] | None) -> None:
    assert chunk_position(name) == position
    if position is not None:
        assert chunk_name(position) == name


@given(plans())
def test_each_chunk_file_leads_back_to_the_blocks_that_write_it(plan: DatasetPlan) -> None:
    chunks = ChunkFiles(
        [plan], {"a/annotations": {"chunk_grid": {"configuration": {"chunk_shape": [1, 3, 3]}}}}
    )
    places, lengths = Places(plan), {spec.path: spec.chunks for spec in array_specs(plan)}
    for block in plan.blocks():
        place = places.locate(block)
        assert place is not None
        position = tuple(
            part.start // length
            for part, length in zip(place.region, lengths[f"{place.node}/status"], strict=True)
        )
        key = f"{place.node}/labels/{chunk_name((*position, 0))}"
        status = f"{place.node}/status/{chunk_name(position)}"
        assert list(chunks.blocks(key)) == list(chunks.blocks(status)) == [block]
        assert chunks.is_expected(key, {status}.__contains__)
        assert not chunks.is_expected(key, set[str]().__contains__)
        assert not chunks.is_expected(status, {status}.__contains__)
        assert str(next(block.cells())) in chunks.name(key)
        if not block.unsupervised:
            for part in range(5):  # chunks of three annotations
                key = f"a/annotations/{chunk_name((*position[: len(place.graphs)], part, 0))}"
                found = list(chunks.blocks(key))
                assert (block in found) == chunks.is_expected(key, {status}.__contains__)
                assert (block in found) == (3 * part < (block.m or 0))
    for key in ("a/X/c.0.0", "a/p/c.0"):
        assert list(chunks.blocks(key)) == []
        assert chunks.is_expected(key, set[str]().__contains__) == ("a/p" not in key or plan.supervised)
    for key in ("zarr.json", "a/zarr.json", "b/X/c.0.0", "a/X/c.0.0.partial", "a/other/c.0"):
        assert not chunks.is_expected(key, lambda _: True)
