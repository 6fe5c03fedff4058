"""What a head is told of the choices that a user made."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from click import Context
from cubes.small import SPEC, draw_block, draw_inputs, make_plan
from cubes.writer import next_generation
from processes.sweeping import TINY, write_spec

from pipeline.cluster.profiles import Local, Profile
from pipeline.commands.main import main
from pipeline.jobs.keys import job_queue
from pipeline.run.request import (
    NOT_FORWARDED,
    Options,
    Prepared,
    Request,
    Wanted,
    is_settled,
    longest_batch,
    prepare,
)
from pipeline.work.timing import LONGEST
from storage.cube.blocks import BlockStore
from storage.cube.growth import create
from storage.cube.schema import DONE, FAILED, NO_SOLUTION, PENDING
from storage.runfolder.records import Pilot, TimedRestart
from sweeps.errors import InputError, given
from sweeps.inputs import Inputs
from sweeps.plan import Cell, DatasetPlan

# A sweep, its data and its cube, checked before anything starts.


def test_a_new_sweep_is_laid_out_and_nothing_is_written(tmp_path: Path) -> None:
    results = tmp_path / "deep" / "results"
    prepared = prepare(write_spec(tmp_path), results=results, data_dir=None)
    assert (prepared.cube, prepared.run.path) == (results / "tiny.zarr", results / "tiny.run")
    assert [plan.name for plan in prepared.inputs.plans] == ["mixtures_k2", "mixtures_k3", "iris"]
    assert not results.parent.exists()


def test_a_sweep_has_the_chunks_of_its_cube_and_extends_it(finished: Path, tmp_path: Path) -> None:
    text = TINY.replace("replicates = 2", "replicates = 4").replace("count = 2", "count = 6")
    for results, chunks in ((tmp_path, (4, 6)), (finished, (2, 2))):
        plan = prepare(write_spec(tmp_path, text), results=results, data_dir=None).inputs.plans[0]
        assert (plan.replicates, plan.mixtures) == (4, 6)
        assert (plan.replicate_chunk, plan.mixture_chunk) == chunks
    spec = write_spec(tmp_path, TINY.replace("seed = 99", "seed = 98").replace("[0.8, 1.0]", "[0.8]"))
    with pytest.raises(InputError) as refused:
        prepare(spec, results=finished, data_dir=None)
    assert len(refused.value.problems) >= 2
    assert "99, as in the cube" in str(refused.value)


@pytest.mark.parametrize("name", ["results", "results/tiny.run", "."])
def test_a_file_where_a_directory_belongs(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / name
    if name == ".":
        file.rmdir()
    file.parent.mkdir(exist_ok=True)
    file.touch()
    with pytest.raises(InputError) as refused:
        prepare(write_spec(tmp_path), results=tmp_path / "mine" / "results", data_dir=None)
    (problem,) = refused.value.problems
    found = f"{file} is a file" if name == "." else "a file"
    assert (problem.found, problem.expected) == (found, "a directory")


def test_a_restart_that_lasts_longer_than_a_batch_is_a_batch(tmp_path: Path) -> None:
    prepared = prepare(write_spec(tmp_path), results=tmp_path, data_dir=None)
    assert longest_batch(prepared) == LONGEST
    slow = (
        TimedRestart("iris", "posterior", 0.8, 75, LONGEST + 40),
        TimedRestart("iris", "unsupervised", None, None, 1.0),
    )
    Pilot(timed=slow).write(next_generation(prepared.cube).pilot)
    assert longest_batch(prepared) == LONGEST + 40


# Which cells a run computes, and when there is nothing left to do.

PLAN = make_plan()
CELL, OTHER = (Cell("a", None, 0.9, 4, replicate, "likelihood") for replicate in (0, 1))


def prepared(cube: Path, *plans: DatasetPlan) -> Prepared:
    return Prepared(Mock(), Inputs(plans or (PLAN,), {}, {}), cube)


@pytest.mark.parametrize(
    ("wanted", "of_cell", "of_other"),
    [
        (Wanted(), True, True),
        (Wanted(retry_failed=True), False, False),
        (Wanted(only=frozenset({CELL})), False, True),
        # The cells that are named are tried again, others of their blocks never.
        (Wanted(retry_failed=True, only=frozenset({CELL})), False, True),
    ],
)
def test_a_failed_cell_is_settled_unless_it_is_to_be_tried_again(
    wanted: Wanted, of_cell: bool, of_other: bool
) -> None:
    assert (wanted.settles(CELL, FAILED), wanted.settles(OTHER, FAILED)) == (of_cell, of_other)
    assert wanted.settles(CELL, DONE)
    assert not wanted.settles(CELL, PENDING)


def test_only_the_named_cells_run_and_only_their_blocks_are_read() -> None:
    plan = make_plan(p=(0.9, 0.8))
    assert list(Wanted().blocks(plan)) == list(plan.blocks())
    only = Wanted(only=frozenset({CELL, OTHER}))
    assert list(only.blocks(plan)) == [plan.block_of(CELL)]
    assert list(only.blocks(make_plan("b"))) == []
    other = replace(CELL, p=0.8)
    assert (only.runs(CELL), only.runs(other), Wanted().runs(other)) == (True, False, True)


@pytest.mark.parametrize(
    ("statuses", "wanted", "settled"),
    [
        ((DONE, FAILED, DONE), Wanted(), True),
        ((DONE, FAILED, DONE), Wanted(retry_failed=True), False),
        ((DONE, FAILED, DONE), Wanted(only=frozenset({OTHER})), True),
        ((DONE, FAILED, DONE), Wanted(only=frozenset({CELL})), False),
        ((DONE, PENDING, DONE), Wanted(only=frozenset({OTHER})), True),
        ((DONE, PENDING, DONE), Wanted(), False),
        ((PENDING, DONE, DONE), Wanted(only=frozenset({OTHER})), True),
        *[
            ((NO_SOLUTION, NO_SOLUTION, DONE), wanted, True)
            for wanted in (Wanted(), Wanted(retry_failed=True), Wanted(only=frozenset({CELL})))
        ],
    ],
)
def test_a_cube_is_settled_where_no_cell_is_wanted(
    statuses: tuple[int, ...], wanted: Wanted, settled: bool, tmp_path: Path
) -> None:
    cube = tmp_path / "tiny.zarr"
    create(cube, [PLAN], draw_inputs, SPEC)
    baseline, block = PLAN.blocks()
    for part, found in ((baseline, statuses[:1]), (block, statuses[1:])):
        BlockStore(cube).write(part, draw_block(PLAN, part) | {"status": np.array(found, np.int8)})
    assert is_settled(prepared(cube), wanted) == settled
    # a cube that is missing or to be grown is not
    assert not is_settled(prepared(cube, PLAN, make_plan("b")), wanted)
    assert not is_settled(prepared(cube, replace(PLAN, p=(0.9, 0.8))), wanted)
    assert not is_settled(prepared(tmp_path / "none.zarr"), wanted)


def test_a_head_is_told_every_choice_but_defaults(tmp_path: Path) -> None:
    options = Options(
        tmp_path,
        "p",
        Path("c.yaml"),
        3,
        only=("a/b", "c"),
        retry_failed=True,
        strict=True,
        data_dir=Path("d"),
    )
    flags = options.flags()
    assert flags[:6] == ["--profile", "p", "--cluster", str(Path("c.yaml").resolve()), "--workers", "3"]
    assert flags[6:8] == ["--retry-failed", "--strict"]
    assert flags[-4:] == ["--only", "a/b", "--only", "c"]
    known = {
        option
        for parameter in given(main.get_command(Context(main), "submit")).params
        for option in parameter.opts
    }
    for name in {field.name for field in fields(Options)} - NOT_FORWARDED:
        changed = replace(Options(tmp_path), **{name: ("x",) if name == "only" else True})
        assert changed.flags()[0] in known, name
    assert Options(tmp_path, detach=True, dry_run=True).flags() == []
    assert Options(tmp_path, workers=0).flags() == ["--workers", "0"]


def test_only_jobs_of_slurm_are_queued_workers(finished: Path) -> None:
    spec = finished / "tiny.toml"
    request = Request(spec, prepare(spec, results=finished, data_dir=None), Wanted(), None, Options(finished))
    assert (request.settled, request.queued) == (True, False)
    kinds = {kind: job_queue(kind)(kind=kind, cores=1, memory="1GB") for kind in ("slurm", "pbs")}
    for kind, options in (kinds | {"local": Local()}).items():
        assert replace(request, profile=Profile("p", options, None)).queued == (kind == "slurm")
