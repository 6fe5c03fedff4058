"""A head gets the choices that a user made."""

from dataclasses import fields, replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from click import Context
from cubes.small import SPEC, draw_block, draw_inputs, make_plan
from processes.sweeping import TINY, write_spec

from sweep_clustering.pipeline.commands.main import main
from sweep_clustering.pipeline.run import request
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.growth import create
from sweep_clustering.storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from sweep_clustering.sweeps.errors import InputError, present
from sweep_clustering.sweeps.inputs import Inputs
from sweep_clustering.sweeps.plan import Cell

# A sweep, its data and its cube, checked before anything starts.


def test_a_sweep_has_the_chunks_of_its_cube_and_extends_it(tiny_run: Path, tmp_path: Path) -> None:
    text = TINY.replace("replicates = 2", "replicates = 4").replace("count = 2", "count = 6")
    for results, replicate_chunk, mixture_chunk in ((tmp_path / "new", 4, 6), (tiny_run, 2, 2)):
        plan = request.prepare(write_spec(tmp_path, text), results=results, data_dir=None).inputs.plans[0]
        assert plan.replicates == 4
        assert plan.mixtures == 6
        assert plan.replicate_chunk == replicate_chunk
        assert plan.mixture_chunk == mixture_chunk
    assert not (tmp_path / "new").exists(), "nothing is written"
    spec = write_spec(tmp_path, TINY.replace("seed = 99", "seed = 98"))
    with pytest.raises(InputError, match="99, as in the cube"):
        request.prepare(spec, results=tiny_run, data_dir=None)


@pytest.mark.parametrize("name", ["results", "results/tiny.run"])
def test_a_file_where_a_directory_belongs(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mine" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    with pytest.raises(InputError) as refused:
        request.prepare(write_spec(tmp_path), results=tmp_path / "mine" / "results", data_dir=None)
    (problem,) = refused.value.problems
    assert problem.value == f"{file} is a file"
    assert problem.expected == "a directory"


# Which cells a run computes, and when there is nothing left to do.

PLAN = make_plan()
CELL, OTHER = (Cell("a", None, 0.9, 4, replicate, "likelihood") for replicate in (0, 1))


def test_only_the_named_cells_run_and_only_their_blocks_are_read() -> None:
    plan = make_plan(p=(0.9, 0.8))
    assert list(request.Selection().blocks(plan)) == list(plan.blocks())
    only = request.Selection(cells=frozenset({CELL, OTHER}))
    assert list(only.blocks(plan)) == [plan.block_of(CELL)]
    assert list(only.blocks(make_plan("b"))) == []
    # cells that are named are tried again, others of their blocks never
    named = request.Selection(retry_failed=True, cells=frozenset({CELL}))
    assert [named.settles(cell, FAILED) for cell in (CELL, OTHER)] == [False, True]


def test_a_settled_cube(tmp_path: Path) -> None:
    retry, other_alone = request.Selection(retry_failed=True), request.Selection(cells=frozenset({OTHER}))
    cell_alone = request.Selection(cells=frozenset({CELL}))
    cases: dict[tuple[int, ...], dict[request.Selection, bool]] = {
        (DONE, FAILED, DONE): {request.Selection(): True, retry: False, other_alone: True, cell_alone: False},
        (DONE, PENDING, DONE): {request.Selection(): False, other_alone: True},
        (PENDING, DONE, DONE): {other_alone: True},
        (NO_SOLUTION, NO_SOLUTION, DONE): {retry: True, cell_alone: True},
    }
    for statuses, answers in cases.items():
        cube = tmp_path / f"{statuses}.zarr"
        create(cube, [PLAN], draw_inputs, SPEC)
        for part, status in zip(PLAN.blocks(), (statuses[:1], statuses[1:]), strict=True):
            BlockStore(cube).write(part, draw_block(PLAN, part) | {"status": np.array(status, np.int8)})
        sweep = request.Sweep(Mock(), Inputs((PLAN,), {}, {}), cube)
        assert {selection: request.is_settled(sweep, selection) for selection in answers} == answers
        # a cube that is missing or has to grow is not settled
        assert not request.is_settled(replace(sweep, cube=tmp_path / "none.zarr"), other_alone)
        for plans in ((PLAN, make_plan("b")), (replace(PLAN, p=(0.9, 0.8)),)):
            assert not request.is_settled(replace(sweep, inputs=Inputs(plans, {}, {})), other_alone)


def test_a_head_is_told_every_choice_but_defaults(tmp_path: Path) -> None:
    more = {"only": ("a/b", "c"), "retry_failed": True, "strict": True, "data_dir": Path("d")}
    options = request.Options(tmp_path, "p", Path("c.yaml"), 3, **more)  # type: ignore[arg-type]
    first = ["--profile", "p", "--cluster", str(Path("c.yaml").resolve()), "--workers", "3"]
    assert options.flags()[:8] == [*first, "--retry-failed", "--strict"]
    assert options.flags()[-4:] == ["--only", "a/b", "--only", "c"]
    submit = present(main.get_command(Context(main), "submit"))
    options_of_submit = {option for parameter in submit.params for option in parameter.opts}
    for name in {field.name for field in fields(request.Options)} - request.NOT_FORWARDED:
        changed = replace(request.Options(tmp_path), **{name: ("x",) if name == "only" else True})
        assert changed.flags()[0] in options_of_submit, name
    assert request.Options(tmp_path, detach=True, dry_run=True).flags() == []
    assert request.Options(tmp_path, workers=0).flags() == ["--workers", "0"]
