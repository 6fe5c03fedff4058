"""What a head is told of the choices that a user made."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from cubes.small import SPEC, draw_block, draw_inputs, fill, make_plan
from cubes.writer import next_generation
from processes.sweeping import TINY, write_spec

from pipeline.cluster.profiles import Local, Profile
from pipeline.commands.main import main
from pipeline.jobs.keys import JobQueue, job_queue
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
from storage.runfolder.folder import cube_path
from storage.runfolder.records import Pilot, TimedRestart
from sweeps.errors import InputError
from sweeps.inputs import Inputs
from sweeps.plan import Cell, DatasetPlan

# A sweep, its data and its cube, checked before anything starts.


def test_a_new_sweep_is_laid_out_and_nothing_is_written(tmp_path: Path) -> None:
    results = tmp_path / "deep" / "results"
    prepared = prepare(write_spec(tmp_path), results=results, data_dir=None)
    assert prepared.cube == cube_path(results, "tiny") == results / "tiny.zarr"
    assert prepared.run.path == results / "tiny.run"
    assert [plan.name for plan in prepared.inputs.plans] == ["mixtures_k2", "mixtures_k3", "iris"]
    assert not results.parent.exists()


def test_a_grown_sweep_has_the_chunks_of_its_cube(finished: Path, tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path, TINY.replace("replicates = 2", "replicates = 4").replace("count = 2", "count = 6")
    )
    fresh = prepare(spec, results=tmp_path, data_dir=None).inputs.plans[0]
    assert (fresh.replicate_chunk, fresh.mixture_chunk) == (4, 6)
    grown = prepare(spec, results=finished, data_dir=None).inputs.plans[0]
    assert (grown.replicates, grown.replicate_chunk, grown.mixtures, grown.mixture_chunk) == (4, 2, 6, 2)


def test_a_sweep_that_does_not_extend_its_cube_is_refused(finished: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, TINY.replace("seed = 99", "seed = 98").replace("[0.8, 1.0]", "[0.8]"))
    with pytest.raises(InputError) as refused:
        prepare(spec, results=finished, data_dir=None)
    assert len(refused.value.problems) >= 2
    assert "99, as in the cube" in str(refused.value)


@pytest.mark.parametrize("name", ["results", "results/tiny.run"])
def test_a_file_where_a_directory_belongs(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.touch()
    with pytest.raises(InputError) as refused:
        prepare(write_spec(tmp_path), results=tmp_path / "results", data_dir=None)
    (problem,) = refused.value.problems
    assert (problem.where, problem.found, problem.expected) == (str(file), "a file", "a directory")


def test_results_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match="mine is a file, expected a directory"):
        prepare(write_spec(tmp_path), results=tmp_path / "mine" / "results", data_dir=None)


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


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Cube of which one cell failed, and all others are done."""
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN], draw_inputs, SPEC)
    baseline, block = PLAN.blocks()
    store = BlockStore(path)
    store.write(baseline, draw_block(PLAN, baseline))
    store.write(block, draw_block(PLAN, block) | {"status": np.array([FAILED, DONE], np.int8)})
    return path


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
    assert only.runs(CELL)
    assert not only.runs(replace(CELL, p=0.8))
    assert Wanted().runs(replace(CELL, p=0.8))


def test_a_finished_cube_is_settled_unless_failed_cells_are_wanted(cube: Path) -> None:
    assert is_settled(prepared(cube), Wanted())
    assert not is_settled(prepared(cube), Wanted(retry_failed=True))
    assert is_settled(prepared(cube), Wanted(only=frozenset({OTHER})))
    assert not is_settled(prepared(cube), Wanted(only=frozenset({CELL})))


def test_a_cell_without_a_solution_is_settled_and_never_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "tiny.zarr"
    create(path, [PLAN], draw_inputs, SPEC)
    baseline, block = PLAN.blocks()
    for part, statuses in ((baseline, [NO_SOLUTION]), (block, [NO_SOLUTION, DONE])):
        BlockStore(path).write(part, draw_block(PLAN, part) | {"status": np.array(statuses, np.int8)})
    for wanted in (Wanted(), Wanted(retry_failed=True), Wanted(only=frozenset({CELL}))):
        assert wanted.settles(CELL, NO_SOLUTION)
        assert is_settled(prepared(path), wanted)


def test_a_cube_that_is_missing_or_to_be_grown_is_not_settled(cube: Path, tmp_path: Path) -> None:
    fill(cube, [PLAN])
    assert is_settled(prepared(cube), Wanted(retry_failed=True))
    assert not is_settled(prepared(cube, PLAN, make_plan("b")), Wanted())
    assert not is_settled(prepared(cube, replace(PLAN, p=(0.9, 0.8))), Wanted())
    assert not is_settled(prepared(tmp_path / "none.zarr"), Wanted())


def test_a_head_is_told_every_choice(tmp_path: Path) -> None:
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
    known = {option for parameter in main.commands["submit"].params for option in parameter.opts}
    for field in fields(Options):
        if field.name not in NOT_FORWARDED:
            value = ("x",) if field.name == "only" else True
            changed = replace(Options(tmp_path), **{field.name: value})
            assert changed.flags()[0] in known, field.name


def test_choices_left_at_their_default_are_not_told(tmp_path: Path) -> None:
    assert Options(tmp_path, detach=True, dry_run=True).flags() == []
    assert Options(tmp_path, workers=0).flags() == ["--workers", "0"]


def queue(kind: str) -> JobQueue:
    return job_queue(kind)(kind=kind, cores=1, memory="1GB")


def test_only_jobs_of_slurm_are_queued_workers(finished: Path) -> None:
    spec = finished / "tiny.toml"
    prepared = prepare(spec, results=finished, data_dir=None)
    serial = Request(spec, prepared, Wanted(), None, Options(finished))
    assert serial.settled
    assert not serial.queued
    for options, queued in (
        (queue("slurm"), True),
        (queue("pbs"), False),
        (Local(), False),
    ):
        assert replace(serial, profile=Profile("p", options, None)).queued == queued
