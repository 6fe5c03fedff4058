"""A grid has cells and blocks."""

import tomllib
from dataclasses import replace
from itertools import groupby, product
from math import prod
from pathlib import Path
from typing import Any

import pytest

from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.plan import (
    AskedPath,
    Cell,
    DatasetPlan,
    MethodPlan,
    UnionPlan,
    find_cell,
    find_cells,
    range_words,
)

SIZES: dict[str, Any] = {"n_samples": 150, "n_features": 4, "n_clusters": 3, "restarts": 50, "mixtures": None}
GRID: dict[str, Any] = {"p": (0.8, 1.0), "m": (75, 150, 225), "replicates": 4}
CHUNKS = {"mixture_chunk": 1, "replicate_chunk": 4, "model_chunk": 2}
NAMES: dict[str, Any] = {"name": "iris", "checksum": "", "source": "", "baselines": ("unsupervised",)}
REAL = DatasetPlan(has_labels=True, models=("likelihood", "posterior"), **NAMES, **SIZES, **GRID, **CHUNKS)
MIXTURES = replace(REAL, name="mixtures_k2", mixtures=6, mixture_chunk=3, replicate_chunk=2, model_chunk=1)

SEARCHED = replace(
    MIXTURES,
    designs=("uniform", "active"),
    searches=("quick", "long"),
    models=("likelihood", "pckmeans"),
    baselines=("unsupervised", "kmeans"),
    methods=(MethodPlan("pckmeans", 2), MethodPlan("kmeans", 3)),
)


@pytest.mark.parametrize("plan", [REAL, MIXTURES, SEARCHED], ids=["real", "mixtures", "searched"])
def test_every_cell_is_in_the_block_it_finds_and_nowhere_else(plan: DatasetPlan) -> None:
    mixtures = [None] if plan.mixtures is None else range(plan.mixtures)
    designs = plan.designs if len(plan.designs) > 1 else (None,)
    searches = plan.searches or (None,)
    expected = {
        Cell(plan.name, *values)
        for values in product(mixtures, plan.p, plan.m, range(4), plan.models, designs, searches)
    }
    for name in plan.baselines:
        cell_searches = (None,) if name == "kmeans" else searches
        expected |= {
            Cell(plan.name, *of, name, None, search)
            for of in product(mixtures, *[[None]] * 3)
            for search in cell_searches
        }
    cells = [cell for block in plan.blocks() for cell in block.cells()]
    assert len(cells) == len(set(cells)) == plan.n_cells
    assert set(cells) == expected
    for block in plan.blocks():
        assert block.n_cells == len(list(block.cells()))
        assert block.node.block_at(block.chunk) == block
        assert block.graph_region == block.region[: len(block.graph_region)]
        assert prod(part.stop - part.start for part in block.graph_region) == block.n_graphs
        for position, cell in enumerate(block.cells()):
            assert plan.has(cell)
            assert plan.block_of(cell) == block
            assert block.position(cell) == position
            assert block.graph(cell) == position // block.per_graph
        assert len({(cell.mixture, cell.replicate) for cell in block.cells()}) == block.n_graphs
    calls = {"pckmeans": 2, "kmeans": 3}
    assert plan.n_restarts == sum(calls.get(cell.model, 50) for cell in cells)


def test_a_block_is_one_chunk_position() -> None:
    assert len(list(REAL.blocks())) == 1 + 2 * 3
    assert len(list(MIXTURES.blocks())) == 2 + 2 * 3 * 2 * 2 * 2
    block = list(MIXTURES.blocks())[-1]
    assert block.chunk == (1, 1, 2, 1, 1)
    assert block.models == ("posterior",)
    assert [(cell.mixture, cell.replicate) for cell in block.cells()] == [
        (3, 2), (3, 3), (4, 2), (4, 3), (5, 2), (5, 3),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="replicate"):
        block.position(replace(block.first, replicate=0))
    uneven = replace(REAL, replicates=5)  # the last chunk has the fifth one alone
    assert [block.n_cells for block in uneven.nodes[-1].blocks()] == [8, 2] * 6


def test_blocks_follow_each_other_by_accuracy_count_design_and_search() -> None:
    """Runs go in this order: dimensions whose chunks hold several values vary first."""
    blocks = [str(block) for block in SEARCHED.blocks()]
    assert blocks[:4] == [
        "mixtures_k2/unsupervised/search=quick/mixtures=0:3",
        "mixtures_k2/unsupervised/search=quick/mixtures=3:6",
        "mixtures_k2/unsupervised/search=long/mixtures=0:3",
        "mixtures_k2/unsupervised/search=long/mixtures=3:6",
    ]
    grid = [name.split("/")[1:] for name in blocks if "p=" in name]
    assert grid[0] == ["p=0.8", "m=75", "design=uniform", "search=quick", "mixtures=0:3", "replicates=0:2"]
    assert [len(list(groupby(row[:n] for row in grid))) for n in (1, 2, 3, 4)] == [2, 6, 12, 24]


def test_values_of_other_types_are_no_cell() -> None:
    cell = Cell("iris", None, 0.8, 75, 0, "posterior")
    assert REAL.has(cell)
    for changes in (
        *({"replicate": value} for value in (None, -1, 4, 1.0, True, "0")),
        *({"p": value} for value in (None, 0.85, "0.8", float("nan"), True)),
        *({"m": value} for value in (None, 76, "75")),
        {"mixture": 0}, {"model": "conditional"}, {"design": "uniform"}, {"search": "quick"},
    ):  # fmt: skip
        assert not REAL.has(replace(cell, **changes)), changes
    # p counts in steps of 1e-9, as random streams do
    assert replace(REAL, p=(0.1 + 0.2,)).has(replace(cell, p=0.3))
    baseline = Cell("mixtures_k2", 5, None, None, None, "unsupervised")
    assert MIXTURES.has(baseline)
    assert not any(MIXTURES.has(replace(baseline, **{key: 0})) for key in ("p", "m", "replicate"))
    path = AskedPath("mixtures_k2", 5, 0.8, 3, "active")
    assert SEARCHED.has_path(path)
    for changes in ({"mixture": 6}, {"p": 0.9}, {"replicate": 4}, {"design": "uniform"}, {"design": "x"}):
        assert not SEARCHED.has_path(replace(path, **changes)), changes


def test_a_node_that_grew_has_the_blocks_it_had_as_far_as_they_are_whole() -> None:
    grown = replace(REAL, p=(*REAL.p, 0.9), replicates=6)
    blocks, (node,) = list(REAL.blocks())[1:], [node for node in grown.nodes if not node.baseline]
    assert all(map(node.has_block, blocks))
    turned = replace(REAL, p=REAL.p[::-1]).nodes[-1]
    assert not any(map(turned.has_block, blocks)), "the values of its positions are others"
    fewer = replace(REAL, replicates=3)
    assert not any(fewer.nodes[-1].has_block(block) for block in blocks)
    assert not any(replace(REAL, searches=("a", "b")).nodes[-1].has_block(block) for block in blocks)


def test_paths_are_those_of_designs_that_ask() -> None:
    assert SEVERAL.asking_designs == ("active",)
    assert SEVERAL.n_paths == 4 * 4 * 3
    assert replace(SEVERAL, models=()).n_paths == 0
    assert replace(ASKED, p=(0.8,)).n_paths == 3


def test_cells_with_gaussians_are_those_of_their_model_and_search() -> None:
    pairs = [(model, search) for model in ("likelihood", "posterior") for search in ("quick", "long")]
    unions = [UnionPlan(*pair, components=3, entries=10) for pair in pairs]
    plan = replace(REAL, unions=tuple(unions[1:]))
    assert plan.unions_of(["posterior"], ["quick", "long"]) == unions[2:]
    assert plan.unions_of(["posterior", "likelihood"], ["quick"]) == unions[2:3]
    assert plan.unions_of(["posterior"], [None]) == []
    for components, entries, is_longer in ((3, 10, False), (2, 10, True), (3, 9, True), (4, 9, True)):
        assert unions[0].is_longer(components, entries) == is_longer


def test_a_part_has_every_third_mixture() -> None:
    part = replace(MIXTURES, mixtures=2, first_mixture=1, mixture_step=3)
    assert [*part.dims[0].values] == [1, 4]
    assert part.n_cells == 2 + 2 * 2 * 3 * 4 * 2


def test_whole_numbers_have_words() -> None:
    for numbers, words in (
        (range(8), "0..7"), (range(2), "0..1"), (range(3, 4), "3..3"), (range(1, 4, 2), "1, 3"),
        (range(1, 2, 2), "1"), (range(1, 6, 2), "1, 3, ..5"),
    ):  # fmt: skip
        assert range_words(numbers) == words


# Names of cells are read back into the cells they name, and a wrong one is explained.


def test_cells_have_names_people_can_read() -> None:
    assert str(Cell("iris", None, 0.8, 75, 3, "posterior")) == "iris/p=0.8/m=75/replicate=3/posterior"
    searched = Cell("mix", 2, 0.8, 75, 3, "likelihood", "active", "long")
    assert str(searched) == "mix/mixture=2/p=0.8/m=75/design=active/replicate=3/search=long/likelihood"
    assert str(AskedPath.of(searched)) == "mix/mixture=2/p=0.8/design=active/replicate=3"


IRIS = replace(REAL, p=(0.8, 0.9, 0.900000001, 1.0), m=(75, 150), replicates=3, replicate_chunk=3, restarts=5)
DRAWN = replace(IRIS, name="drawn_k2", mixtures=4, mixture_chunk=4)
ASKED = replace(IRIS, name="asked", designs=("active",))
SEVERAL = replace(DRAWN, name="several_k2", designs=("uniform", "active", "biased"))
METHODS: dict[str, Any] = {"baselines": ("unsupervised", "kmeans"), "methods": (MethodPlan("kmeans", 1),)}
METHODS["searches"] = ("quick", "long")
PLANS = (IRIS, DRAWN, ASKED, SEVERAL, replace(SEVERAL, name="searched_k2", **METHODS))


def test_every_name_leads_back_to_its_cell() -> None:
    cells = [cell for plan in PLANS for block in plan.blocks() for cell in block.cells()]
    assert len({str(cell) for cell in cells}) == len(cells) == sum(plan.n_cells for plan in PLANS)
    assert [find_cell(str(cell), PLANS) for cell in cells] == cells
    # order, zeros and blanks do not matter
    cell = Cell("drawn_k2", 3, 0.9, 75, 2, "posterior")
    assert find_cell(" drawn_k2 / replicate=2/p=0.90/mixture=3/m=075/posterior ", PLANS) == cell
    # of several names of data sets at the beginning the longest counts
    inner = replace(IRIS, name="iris/small")
    assert find_cell("iris/small/unsupervised", (*PLANS, inner)).dataset == "iris/small"


WRONG = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))["case"]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case["name"])
def test_a_wrong_name_is_explained(case: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        find_cell(case["name"], PLANS)
    assert all(repr(case["name"]) in problem.where for problem in caught.value.problems)
    assert [word for word in case["words"] if word not in str(caught.value)] == []
    with pytest.raises(InputError) as caught:
        find_cells(["iris/unsupervised", "nowhere/x", "iris/y"], PLANS)
    assert len(caught.value.problems) == 2
