"""A sweep, its data and its cube, checked before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from cubes.writer import next_generation
from processes.sweeping import TINY, write_spec

from pipeline.prepare.sweep import longest_batch, prepare
from pipeline.work.timing import LONGEST
from storage.runfolder.folder import cube_path
from storage.runfolder.records import Pilot, TimedRestart
from sweeps.errors import InputError


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
