"""Why a cell failed, and that the command which is shown runs it, alone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cubes.small import SPEC, draw_cell, draw_inputs, fill, make_plan
from processes.sweeping import TINY, assert_same_bits, run, write_spec

import pipeline.work.tasks
from pipeline.commands.main import main
from pipeline.live.sources import Follower
from pipeline.live.state import State
from pipeline.monitor.why import explain
from pipeline.work.records import Partial, Science, Work
from storage.cube.blocks import BlockStore
from storage.cube.growth import create
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, FAILED
from storage.runfolder.folder import RunFolder
from sweeps.errors import cause_of
from sweeps.inputs import Source
from sweeps.plan import Cell
from sweeps.shapes import CODES

BROKEN = [Cell("iris", None, 0.8, 75, replicate, "posterior") for replicate in (0, 1)]
PENDING = Cell("iris", None, 1.0, 75, 0, "posterior")
SMALL = TINY[: TINY.index("datasets")] + 'datasets = ["iris"]\n' + TINY[TINY.index("p = [") :]


def sweep(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def state(cube: Path, cell: Cell) -> int:
    block = read_manifest(cube).plans[cell.dataset].block_of(cell)
    return int(BlockStore(cube, read_only=True).statuses(block)[list(block.cells()).index(cell)])


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cube of a finished run of two failed cells."""
    solve = pipeline.work.tasks._run

    def picky(science: Science, work: Work, source: Source) -> Partial:
        if work.cell in BROKEN:
            raise FloatingPointError("no such luck")
        return solve(science, work, source)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline.work.tasks, "_run", picky)
        assert run(write_spec(tmp_path, SMALL), tmp_path) == 3
    return tmp_path / "tiny.zarr"


def test_a_failed_cell_and_the_command_that_runs_it_alone(failed: Path) -> None:
    shown = sweep("why", failed, BROKEN[0])
    assert shown.exit_code == 0, shown.output
    for words in (
        "failed",
        "FloatingPointError: no such luck",
        "2 failed",
        "in picky",
        "none",
        "sweep logs ",
    ):
        assert words in shown.stdout
    found = json.loads(sweep("why", failed, BROKEN[0], "--json").stdout)
    assert (found["state"], len(found["failures"])) == ("failed", 2)
    assert [failure["attempt"] for failure in found["failures"]] == [1, 2]
    assert found["failures"][0]["at"].endswith("+00:00")
    program, *arguments = shlex.split(shown.stdout.splitlines()[-1])
    assert program == "sweep"
    done = sweep(*arguments)
    assert done.exit_code == 0, done.output
    assert "5 restarts, 1 block in" in done.stderr
    assert [state(failed, cell) for cell in BROKEN] == [DONE, FAILED]
    again = sweep("why", failed, BROKEN[0]).stdout
    assert "done, 5 restarts in" in again
    assert "failed 2 times before" in again
    listed = sweep("why", failed)
    assert listed.stdout == f"{BROKEN[1]}: FloatingPointError: no such luck\n"
    assert json.loads(sweep("why", failed, "--json").stdout) == {
        str(BROKEN[1]): "FloatingPointError: no such luck"
    }


FORGED = "2026-01-01 00:00:00,000 INFO pipeline.run.head: 6 of 6 cells done"


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"one\n{FORGED}\r\x1b[2J\u202e\x00"),
        ExceptionGroup("two\udcff" + "x" * 1_000_000, [OSError("\ud800")]),
    ],
    ids=["forged", "long"],
)
def test_a_cause_is_one_line_wherever_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(science: Science, work: Work, source: Source) -> Partial:
        raise error

    spec = SMALL.replace('"unsupervised", ', "")
    assert "unsupervised" not in spec
    with monkeypatch.context() as patched:
        patched.setattr(pipeline.work.tasks, "_run", fail)
        submitted = sweep("submit", write_spec(tmp_path, spec), "--results", tmp_path, "--workers", 0)
    assert submitted.exit_code == 3
    cube, cause = tmp_path / "tiny.zarr", cause_of(error)
    state = State(cube, Follower(cube), skipped={})
    (page,) = {each["cause"] for each in json.loads(state.document()[1])["head"]["failures"]["last"]}
    assert cause.startswith(page)
    assert f"{BROKEN[0]}: {cause}" in sweep("why", cube).stdout.splitlines()
    assert f"  cause:    {cause}" in sweep("why", cube, BROKEN[0]).stdout.splitlines()
    assert set(json.loads(sweep("why", cube, "--json").stdout).values()) == {cause}
    assert sweep("status", cube).exit_code == sweep("report", cube).exit_code == 0
    assert (tmp_path / "tiny.report" / "report.html").stat().st_size < 5_000_000
    log = (tmp_path / "tiny.run" / "log").read_text().splitlines()
    assert any(line.endswith(f"{BROKEN[0]} failed: {cause}") for line in log)
    for line in [*log, *submitted.stderr.splitlines()]:
        assert line.isprintable()
        assert not line.startswith(FORGED)
    assert "Logging error" not in submitted.stderr


def test_the_log_of_the_job_is_named(failed: Path) -> None:
    run = failed.with_name("tiny.run")
    failures = RunFolder(failed).last_run.failures
    record = json.loads(failures.read_text().splitlines()[0])
    failures.write_text(json.dumps(record | {"job": "34", "cell": str(BROKEN[0])}) + "\n")
    (run / "jobs").mkdir()
    (run / "jobs" / "sweep-tiny-0-34.err").write_text("the last words of job 34\n")
    found = json.loads(sweep("why", failed, BROKEN[0], "--json").stdout)
    program, *arguments = shlex.split(found["log"])
    assert program == "sweep"
    assert sweep(*arguments).stdout == "the last words of job 34\n"
    assert found["log"] in sweep("why", failed, BROKEN[0]).stdout


def test_the_shape_that_a_cell_chose_is_named(tmp_path: Path) -> None:
    plan = make_plan(models=("likelihood", "posterior-auto"))
    create(tmp_path / "tiny.zarr", [plan], draw_inputs, SPEC)
    fill(tmp_path / "tiny.zarr", [plan])
    cell = Cell("a", None, 0.9, 4, 1, "posterior-auto")
    code = int(draw_cell(plan, cell)["covariance_shape"])
    found = explain(tmp_path / "tiny.zarr", str(cell))
    assert found.covariance == list(CODES)[code]
    assert found.lines()[0].endswith(f"; it chose {found.covariance} covariances")
    other = explain(tmp_path / "tiny.zarr", "a/p=0.9/m=4/replicate=1/likelihood")
    assert other.covariance is None
    assert "chose" not in other.lines()[0]


def test_an_unknown_cell_is_bad_input(failed: Path) -> None:
    shown = sweep("why", failed, "iris/p=0.7/m=75/replicate=9/posterior")
    assert shown.exit_code == 2
    assert "p=0.7, expected p=0.8 | 1" in shown.stderr
    assert "replicate=9, expected replicate=0..1" in shown.stderr
    assert sweep("why", failed.with_name("none.zarr")).exit_code == 2


def test_a_part_of_a_block_waits_in_the_journal_and_is_not_computed_again(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, SMALL)
    assert run(spec, tmp_path / "serial") == 0
    alone = sweep("submit", spec, "--results", tmp_path, "--workers", 0, "--only", PENDING)
    assert alone.exit_code == 0, alone.output
    assert "5 restarts, 0 blocks" in alone.stderr
    cube = tmp_path / "tiny.zarr"
    assert "pending: not finished yet" in sweep("why", cube, PENDING).stdout
    rest = sweep("submit", spec, "--results", tmp_path, "--workers", 0)
    assert "80 restarts, 5 blocks" in rest.stderr
    assert_same_bits(tmp_path / "serial" / "tiny.zarr", cube)


def test_unknown_cells_start_nothing(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, SMALL)
    shown = sweep("submit", spec, "--results", tmp_path / "r", "--only", "irs/x", "--only", "iris/y")
    assert shown.exit_code == 2
    assert "2 problems, nothing was started" in shown.stderr
    assert "did you mean 'iris'?" in shown.stderr
    assert not (tmp_path / "r").exists()
