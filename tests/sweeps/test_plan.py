"""Cells and blocks of a grid."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sweeps.errors import InputError
from sweeps.plan import Cell, DatasetPlan, MethodPlan, find_cell, find_cells

REAL = DatasetPlan(
    name="iris",
    n_samples=150,
    n_features=4,
    n_clusters=3,
    checksum="",
    source="",
    has_labels=True,
    mixtures=None,
    p=(0.8, 1.0),
    m=(75, 150, 225),
    replicates=4,
    models=("likelihood", "posterior"),
    baselines=("unsupervised",),
    restarts=50,
    mixture_chunk=1,
    replicate_chunk=4,
    model_chunk=2,
)
MIXTURES = replace(REAL, name="mixtures_k2", mixtures=6, mixture_chunk=3, replicate_chunk=2, model_chunk=1)

SEARCHED = replace(
    MIXTURES,
    designs=("uniform", "active"),
    searches=("quick", "long"),
    models=("likelihood", "pckmeans"),
    baselines=("unsupervised", "kmeans"),
    methods=(MethodPlan("pckmeans", 2), MethodPlan("kmeans", 3)),
)


@pytest.mark.parametrize("plan", [REAL, MIXTURES], ids=["real", "mixtures"])
def test_blocks_hold_every_cell_once(plan: DatasetPlan) -> None:
    cells = [cell for block in plan.blocks() for cell in block.cells()]
    wanted = {
        Cell(plan.name, mixture, p, m, replicate, model)
        for mixture in ([None] if plan.mixtures is None else range(plan.mixtures))
        for p, m, replicate, model in [
            (None, None, None, "unsupervised"),
            *[(p, m, r, model) for p in plan.p for m in plan.m for r in range(4) for model in plan.models],
        ]
    }
    assert len(cells) == len(set(cells)) == plan.n_cells
    assert set(cells) == wanted


def test_a_block_is_one_chunk_position() -> None:
    assert len(list(REAL.blocks())) == 1 + 2 * 3
    assert len(list(MIXTURES.blocks())) == 2 + 2 * 3 * 2 * 2 * 2
    block = list(MIXTURES.blocks())[-1]
    assert (block.mixtures, block.replicates, block.models) == ((3, 6), (2, 4), ("posterior",))
    assert [(cell.mixture, cell.replicate) for cell in block.cells()] == [
        (3, 2), (3, 3), (4, 2), (4, 3), (5, 2), (5, 3),
    ]  # fmt: skip


def test_searches_are_a_coordinate_of_all_that_searches() -> None:
    cells = [cell for block in SEARCHED.blocks() for cell in block.cells()]
    assert len(cells) == len(set(cells)) == SEARCHED.n_cells == 6 * (2 * 3 * 2 * 4 * 2 * 2 + 2 + 1)
    assert all(map(SEARCHED.has, cells))
    assert {cell.search for cell in cells if cell.model == "unsupervised"} == {"quick", "long"}
    assert {cell.search for cell in cells if cell.model == "kmeans"} == {None}
    calls = {"likelihood": 50, "pckmeans": 2, "unsupervised": 50, "kmeans": 3}
    assert SEARCHED.n_restarts == sum(calls[cell.model] for cell in cells)
    for cell in cells:
        assert not SEARCHED.has(replace(cell, search="other"))
        assert SEARCHED.has(replace(cell, search=None)) == (cell.model == "kmeans")
    assert not REAL.has(Cell("iris", None, 0.8, 75, 0, "posterior", None, "quick"))


@pytest.mark.parametrize("plan", [REAL, MIXTURES, SEARCHED], ids=["real", "mixtures", "searched"])
def test_each_cell_finds_its_block(plan: DatasetPlan) -> None:
    for block in plan.blocks():
        assert block.n_cells == len(list(block.cells()))
        for cell in block.cells():
            assert plan.block_of(cell) == block


def test_a_plan_without_supervised_models_has_the_baseline_alone() -> None:
    plan = replace(REAL, models=(), p=(), m=(), model_chunk=1)
    assert [str(block) for block in plan.blocks()] == ["iris/unsupervised"]
    assert plan.n_cells == 1


def test_cells_and_blocks_have_names_people_can_read() -> None:
    assert str(Cell("iris", None, 0.8, 75, 3, "posterior")) == "iris/p=0.8/m=75/replicate=3/posterior"
    assert str(Cell("mix", 2, None, None, None, "unsupervised")) == "mix/mixture=2/unsupervised"
    searched = Cell("mix", 2, 0.8, 75, 3, "likelihood", "active", "long")
    assert str(searched) == "mix/mixture=2/p=0.8/m=75/design=active/replicate=3/search=long/likelihood"
    assert str(SEARCHED.block_of(searched)).endswith(
        "m=75/design=active/search=long/mixtures=0:3/replicates=2:4"
    )
    alone = Cell("mix", 2, None, None, None, "unsupervised", None, "long")
    assert str(alone) == "mix/mixture=2/search=long/unsupervised"


# Names of cells are read back into the cells they name, and a wrong one is explained.

IRIS = DatasetPlan(
    name="iris",
    n_samples=150,
    n_features=4,
    n_clusters=3,
    checksum="",
    source="",
    has_labels=True,
    mixtures=None,
    p=(0.8, 0.9, 0.900000001, 1.0),
    m=(75, 150),
    replicates=3,
    models=("likelihood", "posterior"),
    baselines=("unsupervised",),
    restarts=5,
    mixture_chunk=1,
    replicate_chunk=3,
    model_chunk=2,
)
DRAWN = replace(IRIS, name="drawn_k2", mixtures=4, mixture_chunk=4)
ASKED = replace(IRIS, name="asked", designs=("active",))
SEVERAL = replace(DRAWN, name="several_k2", designs=("uniform", "active", "biased"))
SEARCHED_OF_CELLNAMES = replace(
    SEVERAL,
    name="searched_k2",
    searches=("quick", "long"),
    baselines=("unsupervised", "kmeans"),
    methods=(MethodPlan("kmeans", 1),),
)
PLANS = (IRIS, DRAWN, ASKED, SEVERAL, SEARCHED_OF_CELLNAMES)


def test_every_name_leads_back_to_its_cell() -> None:
    cells = [cell for plan in PLANS for block in plan.blocks() for cell in block.cells()]
    assert len({str(cell) for cell in cells}) == len(cells) == sum(plan.n_cells for plan in PLANS)
    assert [find_cell(str(cell), PLANS) for cell in cells] == cells


def test_a_design_is_named_where_the_sweep_names_one() -> None:
    cell = find_cell("several_k2/mixture=1/p=0.9/m=75/design=active/replicate=2/posterior", PLANS)
    assert cell.design == "active"
    assert str(find_cell("asked/p=1/m=75/replicate=0/design=active/posterior", PLANS)).count("design=") == 1
    for name, words in (
        ("asked/p=1/m=75/replicate=0/posterior", "found no design, expected design=active"),
        ("asked/p=1/m=75/design=uniform/replicate=0/posterior", "found design=uniform"),
        ("several_k2/mixture=1/p=0.9/m=75/design=bias/replicate=2/posterior", "did you mean 'biased'?"),
        ("iris/p=0.9/m=75/design=uniform/replicate=2/posterior", "found 'design=uniform'"),
    ):
        with pytest.raises(InputError, match=re.escape(words)):
            find_cell(name, PLANS)


def test_a_search_is_named_where_there_are_several() -> None:
    cell = find_cell("searched_k2/search=long/mixture=1/unsupervised", PLANS)
    assert (cell.search, cell.mixture) == ("long", 1)
    assert find_cell("searched_k2/mixture=0/kmeans", PLANS).search is None
    for name, words in (
        ("searched_k2/mixture=1/unsupervised", "found no search, expected search=quick | long"),
        ("searched_k2/mixture=1/search=lon/unsupervised", "did you mean 'long'?"),
        (
            "searched_k2/mixture=0/search=long/kmeans",
            "found 'search=long', expected each of mixture once (the form is DATASET/mixture=NUMBER/kmeans)",
        ),
        ("several_k2/mixture=1/search=long/unsupervised", "found 'search=long'"),
        ("searched_k2/mixture=1/unsuperv", "did you mean 'unsupervised'?"),
        (
            "searched_k2/x",
            "(the form is DATASET/mixture=NUMBER/p=ACCURACY/m=NUMBER/design=DESIGN/replicate=NUMBER"
            "/search=SEARCH/MODEL, or DATASET/mixture=NUMBER/search=SEARCH/BASELINE)",
        ),
    ):
        with pytest.raises(InputError, match=re.escape(words)):
            find_cell(name, PLANS)


def test_order_zeros_and_blanks_do_not_matter() -> None:
    cell = find_cell("drawn_k2/mixture=3/p=0.9/m=75/replicate=2/posterior", PLANS)
    parts = ["replicate=2", "p=0.90", "mixture=3", "m=075"]
    assert find_cell(" drawn_k2 / " + "/".join(parts) + "/posterior ", PLANS) == cell


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("irsi/p=0.8/m=75/replicate=0/posterior", ["'irsi'", "iris, drawn_k2", "did you mean 'iris'?"]),
        ("iris", ["''", "likelihood, posterior, unsupervised", "the form is DATASET/"]),
        ("iris/unsupervized", ["did you mean 'unsupervised'?"]),
        ("iris/p=0.7/m=75/replicate=0/posterior", ["p=0.7", "p=0.8 | 0.9 | 0.900000001 | 1"]),
        ("iris/p=nan/m=75/replicate=0/posterior", ["p=nan"]),
        ("iris/p=x/m=-75/replicate=3/posterior", ["p=x", "m=-75", "m=75 | 150", "replicate=3", "0..2"]),
        ("iris/p=0.8/posterior", ["no m", "m=75 | 150", "no replicate"]),
        ("iris/p=0.8/p=0.8/m=75/replicate=0/posterior", ["'p' again"]),
        ("iris/p=0.8/q=3/m=75/replicate=0/posterior", ["'q=3'", "p, m, replicate"]),
        ("iris/p=0.8/unsupervised", ["'p=0.8', expected no coordinate (the form is DATASET/unsupervised)"]),
        ("drawn_k2/unsupervised", ["no mixture", "mixture=0..3"]),
        ("", ["a data set: iris, drawn_k2"]),
    ],
)
def test_a_wrong_name_is_explained(name: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        find_cell(name, PLANS)
    assert all(repr(name) in problem.where for problem in caught.value.problems)
    for word in words:
        assert word in str(caught.value)


def test_what_is_wrong_with_all_names_is_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        find_cells(["iris/unsupervised", "nowhere/x", "iris/y"], PLANS)
    assert len(caught.value.problems) == 2
