"""Why a cell failed, and that the command which is shown runs it, alone."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from processes.commandline import sweep
from processes.sweeping import TINY, run, write_spec

from sweep_clustering.pipeline.live.site import Follower, State
from sweep_clustering.pipeline.monitor.status import explain
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.records import Science, Solved, Span
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.sweeps.errors import cause_of
from sweep_clustering.sweeps.inputs import Source
from sweep_clustering.sweeps.plan import Cell

CELLS = [Cell("iris", None, 0.8, 75, replicate, "posterior") for replicate in (0, 1)]
SMALL = TINY[: TINY.index("datasets")] + 'datasets = ["iris"]\n' + TINY[TINY.index("p = [") :]
SMALL = SMALL.replace("[0.8, 1.0]", "[0.8]").replace(', "1N"]', "]").replace('"unsupervised", ', "")
SOLVE = tasks.run_cell


def failing(error: Exception) -> Callable[[Science, Span, Source], Solved]:
    """A solver that does not solve two cells."""

    def picky(science: Science, work: Span, source: Source) -> Solved:
        if work.unit in CELLS:
            raise error
        return SOLVE(science, work, source)

    return picky


def test_a_failed_cell_its_log_and_the_command_that_runs_it_alone(tmp_path: Path) -> None:
    spec, cube = write_spec(tmp_path, SMALL), tmp_path / "tiny.zarr"
    with patch.object(tasks, "run_cell", failing(FloatingPointError("no such luck"))):
        assert run(spec, tmp_path) == 3
    shown = sweep("why", cube, CELLS[0])
    assert shown.exit_code == 0, shown.output
    assert all(word in shown.stdout for word in ("no such luck", "2 failed", "in picky", "sweep logs "))
    found = json.loads(sweep("why", cube, CELLS[0], "--json").stdout)
    assert found["state"] == "failed"
    assert [failure["attempt"] for failure in found["failures"]] == [1, 2]
    program, *arguments = shlex.split(shown.stdout.splitlines()[-1])
    done = sweep(*arguments)
    assert program == "sweep", done.output
    assert done.exit_code == 0, done.output
    assert "5 restarts, 1 block in" in done.stderr
    assert [explain(cube, str(cell)).state for cell in CELLS] == ["done", "failed"]
    again = sweep("why", cube, CELLS[0]).stdout
    assert "done, 5 restarts in" in again
    assert "failed 2 times before" in again
    assert sweep("why", cube).stdout == f"{CELLS[1]}: FloatingPointError: no such luck\n"
    causes = json.loads(sweep("why", cube, "--json").stdout)
    assert causes == {str(CELLS[1]): "FloatingPointError: no such luck"}
    # the log of the job that the last failure was in
    failures = RunFolder(cube).last_run.failures
    record = json.loads(failures.read_text().splitlines()[0])
    failures.write_text(json.dumps(record | {"job": "34", "cell": str(CELLS[1])}) + "\n")
    (RunFolder(cube).path / "jobs").mkdir()
    (RunFolder(cube).path / "jobs" / "sweep-tiny-0-34.err").write_text("the last words of job 34\n")
    log = json.loads(sweep("why", cube, CELLS[1], "--json").stdout)["log"]
    assert sweep(*shlex.split(log)[1:]).stdout == "the last words of job 34\n"
    assert log in sweep("why", cube, CELLS[1]).stdout


FORGED = "2026-01-01 00:00:00,000 INFO sweep_clustering.pipeline.run.head: 6 of 6 cells done"


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"one\n{FORGED}\r\x1b[2J\u202e\x00"),
        ExceptionGroup("two\udcff" + "x" * 1_000_000, [OSError("\ud800")]),
    ],
    ids=["forged", "long"],
)
def test_a_cause_is_one_line_wherever_it_is_shown(tmp_path: Path, error: Exception) -> None:
    with patch.object(tasks, "run_cell", failing(error)):
        submitted = sweep("submit", write_spec(tmp_path, SMALL), "--results", tmp_path, "--workers", 0)
    assert submitted.exit_code == 3
    cube, cause = tmp_path / "tiny.zarr", cause_of(error)
    state = State(cube, Follower(cube))
    (page,) = {each["cause"] for each in json.loads(state.document()[1])["head"]["failures"]["last"]}
    assert cause.startswith(page)
    assert f"{CELLS[0]}: {cause}" in sweep("why", cube).stdout.splitlines()
    assert f"  cause:    {cause}" in sweep("why", cube, CELLS[0]).stdout.splitlines()
    assert set(json.loads(sweep("why", cube, "--json").stdout).values()) == {cause}
    assert sweep("status", cube).exit_code == 0
    log = (tmp_path / "tiny.run" / "log").read_text().splitlines()
    assert any(line.endswith(f"{CELLS[0]} failed: {cause}") for line in log)
    for line in [*log, *submitted.stderr.splitlines()]:
        assert line.isprintable()
        assert not line.startswith(FORGED)
    assert "Logging error" not in submitted.stderr


def test_a_part_of_a_block_waits_in_the_journal_and_is_not_computed_again(tmp_path: Path) -> None:
    line = ("submit", write_spec(tmp_path, SMALL), "--results", tmp_path, "--workers", 0)
    assert "5 restarts, 0 blocks" in sweep(*line, "--only", CELLS[0]).stderr
    assert "pending: not finished yet" in sweep("why", tmp_path / "tiny.zarr", CELLS[0]).stdout
    assert "15 restarts, 1 block" in sweep(*line).stderr
