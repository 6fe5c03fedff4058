"""The head of a run: how it ends, what is recorded of it, and how long it waits for the lease."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from processes import sabotage
from processes.commandline import sweep
from processes.killing import kill_family
from processes.sweeping import start, wait_until, write_spec
from rich.console import Console

from pipeline.cluster.profiles import Profile
from pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL
from pipeline.jobs import slurm
from pipeline.jobs.head import HeadJob
from pipeline.jobs.keys import job_queue
from pipeline.jobs.slurm import CommandFailed, ComputeClusterError, head_name
from pipeline.monitor.status import read_status
from pipeline.run import head
from pipeline.run.head import End
from pipeline.run.request import Options, Request, Wanted, prepare
from pipeline.run.signals import Stopped
from storage.errors import StorageError
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import STALE_AFTER, Cancelled, Lease, LeaseHeld
from storage.runfolder.records import ENDED, REQUEUED, RUNNING, HeadRecord
from sweeps.plan import Cell

FAILING = "mixtures_k2/mixture=0/p=0.8/m=15/replicate=1/posterior"


def state_of(log: Path) -> Any:
    """What the page of a run says, whose address its log has."""
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    found = re.search(r"dashboard: (http\S+/sweep)", text)
    with suppress(HTTPError):  # it is starting
        return json.load(urlopen(f"{found[1]}/state.json", timeout=20))["head"] if found else None


@pytest.mark.slow
def test_a_run_is_seen_on_the_dashboard_while_it_lasts(tmp_path: Path) -> None:
    environment = sabotage.environment([("", "paced"), (FAILING, "raises")], pace=0.1)
    process = start(write_spec(tmp_path), tmp_path, "--workers", "2", environment=environment)
    try:
        log = tmp_path / "tiny.run" / "log"
        said = wait_until(lambda: (found := state_of(log)) and found["failures"]["last"] and found, process)
        assert "FloatingPointError: no such luck" in json.dumps(said["failures"])
        assert said["status"]["holder"] == read_status(tmp_path / "tiny.zarr").to_dict()["holder"]
        assert said["crew"]["connected"] == 2
        assert all(each["worker"].startswith("127.0.0.1:") for each in said["crew"]["at_work"])
    finally:
        kill_family(process.pid)
        process.communicate()


REFUSED = CommandFailed(["scontrol"], "Requested operation is presently disabled", transient=False)


def request_of(finished: Path, **options: object) -> Request:
    """A submit of the finished sweep."""
    spec = finished / "tiny.toml"
    prepared = prepare(spec, results=finished, data_dir=None)
    return Request(spec, prepared, Wanted(), None, Options(finished, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "queued", "end", "then"),
    [
        (Stopped(signal.SIGTERM), False, End(143, "stopped by SIGTERM"), "submit again to resume"),
        (
            Stopped(signal.SIGUSR1),
            True,
            End(128 + signal.SIGUSR1, "stopped by SIGUSR1", again=True),
            "the head resumes when its job starts again",
        ),
        (Cancelled("cancelled by sweep cancel"), True, End(143, "cancelled"), "submit again to resume"),
        (ComputeClusterError("no worker"), True, End(INTERNAL, "no worker"), "no worker"),
    ],
)
def test_what_ends_a_run_early_is_one_line_and_an_exit_code(
    error: BaseException, queued: bool, end: End, then: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert head._ended_by(error, HeadJob("5", 0) if queued else None) == end
    (said,) = caplog.messages
    assert said.endswith(then)


class Recorded:
    """A submit of the tiny sweep, of which something takes the place of the driver."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run = RunFolder(folder / "results" / "tiny.zarr")
        self.folder, self.monkeypatch = folder, monkeypatch

    def submit(self, action: Callable[[HeadRecord], object], of: str = "_run") -> Any:
        def stands_in(*arguments: Any, **_: Any) -> object:
            return action(arguments[1] if of == "_run" else arguments[0])

        self.monkeypatch.setattr(head, of, stands_in)
        (self.folder / "raw").mkdir(exist_ok=True)
        places = "--results", self.folder / "results", "--data-dir", self.folder / "raw"
        return sweep("submit", write_spec(self.folder), "--workers", 0, *places)

    @property
    def record(self) -> HeadRecord:
        found = HeadRecord.read(self.run.last_run.head)
        assert found is not None
        return found

    def in_job(self, requeue: Callable[[str], object], answers: Sequence[bool] = ()) -> None:
        """As the head that a job of the queue is."""
        left = list(answers)
        self.monkeypatch.setenv("SLURM_JOB_ID", "5")
        self.monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
        self.monkeypatch.setenv("SLURM_JOB_NAME", head_name(self.run))
        self.monkeypatch.setattr(slurm, "restarts", lambda number: 2)
        self.monkeypatch.setattr(slurm, "is_out_of_time", lambda job: left.pop())
        self.monkeypatch.setattr(slurm, "requeue", requeue)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    return Recorded(tmp_path, monkeypatch)


def raising(error: BaseException) -> Callable[..., Any]:
    def action(*_: object) -> object:
        raise error

    return action


def test_a_run_is_recorded_from_its_begin_to_its_end(recorded: Recorded) -> None:
    seen: list[HeadRecord] = []

    def action(record: HeadRecord) -> End:
        seen.extend((record, recorded.record))
        return End(COMPLETE, "finished")

    assert recorded.submit(action).exit_code == 0
    (record, written), after = seen, recorded.record
    assert record == written
    assert (record.state, record.restarts) == (RUNNING, 0)
    assert record.spec == str((recorded.folder / "tiny.toml").resolve())
    assert record.data_dir == str((recorded.folder / "raw").resolve())
    assert (after.state, after.how) == (ENDED, "finished")
    # an unknown error is recorded and not hidden, nor is one of a full disk
    ended = recorded.submit(raising(ZeroDivisionError("a fault")))
    assert isinstance(ended.exception, ZeroDivisionError)
    assert recorded.record.how == "ended by an error"

    def full(_: HeadRecord) -> None:
        recorded.monkeypatch.setattr(
            HeadRecord, "write", raising(StorageError(recorded.folder, "room", "full"))
        )
        raise ComputeClusterError("no worker for an hour")

    ended = recorded.submit(full)
    assert (ended.exit_code, "no worker for an hour" in ended.stderr) == (INTERNAL, True)


@pytest.mark.parametrize("interrupted", ["_run", "_lease"])
def test_a_head_asks_once_whether_its_time_is_over(recorded: Recorded, interrupted: str) -> None:
    queued = list[str]()
    recorded.in_job(queued.append, [True])
    ended = recorded.submit(raising(Stopped(signal.SIGTERM)), interrupted)
    assert (ended.exit_code, queued) == (128 + signal.SIGTERM, ["5"])
    if interrupted == "_run":
        assert (recorded.record.state, recorded.record.restarts) == (REQUEUED, 2)


def test_a_requeue_that_is_refused_is_recorded(recorded: Recorded) -> None:
    recorded.in_job(raising(REFUSED))
    ended = recorded.submit(raising(Stopped(signal.SIGUSR1)))
    assert ended.exit_code == 128 + signal.SIGUSR1
    assert "the head was not queued again" in ended.stderr
    found = recorded.record
    assert (found.state, found.how) == (ENDED, "stopped by SIGUSR1, and not queued again")


def test_exit_codes_of_a_finished_run(
    finished: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    strict = request_of(finished, strict=True)
    assert head._conclude(strict) == End(COMPLETE, "finished")
    assert "85 of 85 cells done" in caplog.text
    inputs = replace(strict.prepared.inputs, skipped={"ecoli": ("not here", "nor there")})
    skipping = replace(strict, prepared=replace(strict.prepared, inputs=inputs))
    assert head._conclude(skipping) == End(FAILED_CELLS, "finished")
    failed, other = (Cell("iris", None, 0.8, 75, replicate, "posterior") for replicate in (0, 1))
    monkeypatch.setattr(head, "failed_cells", lambda cube, plans: (failed,))
    assert head._conclude(strict) == End(FAILED_CELLS, "finished with failed cells")
    assert f'sweep why {strict.prepared.cube} "{failed}"' in caplog.text
    # A cell that failed earlier is no matter of a run of others.
    alone = replace(strict, wanted=Wanted(only=frozenset({other})))
    assert head._conclude(alone).code == COMPLETE


def test_a_queue_is_asked_for_another_head_and_may_be_silent(
    recorded: Recorded, finished: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prepared = replace(request_of(finished).prepared, cube=recorded.run.cube)
    profile = Profile("p", job_queue("slurm")(kind="slurm", cores=1, memory="1GB"), None)
    request = Request(finished / "tiny.toml", prepared, Wanted(), profile, Options(finished))
    monkeypatch.setattr(head, "other_head", lambda run: "job 7 is its head")
    assert head.run_head(request, Console()) == INTERNAL
    assert caplog.messages == ["job 7 is its head"]
    monkeypatch.setattr(head, "other_head", raising(REFUSED))
    monkeypatch.setattr(head, "_run", lambda *_: End(COMPLETE, "finished"))
    assert head.run_head(request, Console()) == COMPLETE


def test_a_head_in_a_job_waits_for_the_lease_of_one_that_died_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "LEASE_SECONDS", 0.1)
    monkeypatch.setattr("storage.runfolder.lease.PATIENCE", 0.1)
    cube = tmp_path / "tiny.zarr"
    Lease.acquire(cube).release()
    file = RunFolder(cube).lease(1)
    record = json.loads(file.read_text())
    record |= {"released": False, "process": record["process"] | {"host": "far", "boot_id": "another"}}
    file.write_text(json.dumps(record))
    os.utime(file, (time.time() - STALE_AFTER + 1,) * 2)
    with pytest.raises(LeaseHeld), head._lease(cube, wait=False, on_lost=print):
        pass
    started = time.monotonic()
    with head._lease(cube, wait=True, on_lost=print) as lease:
        assert lease.number == 2
    assert time.monotonic() - started > 0.1
