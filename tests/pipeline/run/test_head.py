"""The head of a run: how it ends, what is recorded of it, and how long it waits for the lease."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from browser import Page, chromium
from processes import sabotage
from processes.commandline import sweep
from processes.killing import kill_family
from processes.sweeping import TINY, start, wait_until, write_spec

from pipeline.common import COMPLETE, FAILED_CELLS, INTERNAL
from pipeline.jobs import slurm
from pipeline.jobs.head import HeadJob
from pipeline.jobs.slurm import CommandFailed, ComputeClusterError, head_name
from pipeline.monitor.status import read_status
from pipeline.run import head
from pipeline.run.driver import Outcomes
from pipeline.run.head import End, Ending, crew_of
from pipeline.run.request import Options, Request, Wanted, prepare
from pipeline.run.signals import Stopped
from storage.errors import StorageError
from storage.runfolder.folder import RunFolder
from storage.runfolder.lease import STALE_AFTER, Lease, LeaseHeld
from storage.runfolder.records import ENDED, REQUEUED, RUNNING, HeadRecord
from sweeps.plan import Cell

# The page of a run in progress, in Chromium: it fills up, a failed cell is red, workers are busy.

FAILING = "mixtures_k2/mixture=0/p=0.8/m=15/replicate=1/posterior"
LABELS = "return [...document.querySelectorAll('td[data-at]')].map((tile) => tile.getAttribute('aria-label'))"
SLOW = TINY.replace("restarts = 5", "restarts = 25")


class Stand:
    """In place of an executor: two tasks, one of them begun."""

    connected = 3

    def at_work(self) -> Iterator[tuple[str, dict[str, str], float]]:
        yield "a/p=0.9/likelihood", {"worker": "tls://127.0.0.1:41", "node": "n1", "job": "7"}, 12.0


def test_workers_are_named_without_their_protocol() -> None:
    crew = crew_of(Stand())  # type: ignore[arg-type]
    (row,) = crew.at_work
    assert (crew.connected, row.worker, row.node, row.job) == (3, "127.0.0.1:41", "n1", "7")
    assert (row.task, row.since) == ("a/p=0.9/likelihood", 12.0)


@contextmanager
def running(folder: Path) -> Iterator[tuple[Any, str]]:
    """A sweep that lasts, and the address of its page."""
    faults = [("", "paced"), (FAILING, "raises")]
    environment = sabotage.environment(faults, pace=0.01)
    process = start(write_spec(folder, SLOW), folder, "--workers", "2", environment=environment)
    try:
        yield process, wait_until(lambda: address_in(folder / "tiny.run" / "log"), process)
    finally:
        kill_family(process.pid)
        process.communicate()


def address_in(log: Path) -> str | None:
    found = re.search(r"dashboard: (http\S+)", log.read_text(encoding="utf-8")) if log.exists() else None
    return found and found[1]


def state_of(address: str) -> dict[str, Any] | None:
    try:
        with urlopen(f"{address}/state.json", timeout=20) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except HTTPError:
        return None  # it is starting


def shares(page: Page) -> tuple[int, int, int]:
    """Tiles, those that are begun, and those that are red."""
    labels = page.run(LABELS)
    begun = [label for label in labels if label and ": 0 of" not in label]
    return len(labels), len(begun), sum("failed" in label for label in begun)


@pytest.mark.slow
def test_a_run_is_seen_from_its_begin_to_its_end(tmp_path: Path) -> None:
    cube = tmp_path / "tiny.zarr"
    with running(tmp_path) as (process, address), chromium() as page:
        assert address.endswith("/sweep")
        wait_until(lambda: state_of(address), process)
        page.driver.get(address)
        seen = [wait_until(lambda: (found := shares(page))[1] and found, process)]
        at_work = "return document.querySelector('#workers td.long')?.textContent || ''"
        assert re.search(r"p=|unsupervised", wait_until(lambda: page.run(at_work), process))
        while not (seen[-1][2] and len({found[1] for found in seen}) > 2):
            seen.append(wait_until(lambda: shares(page), process))
        assert [found[1] for found in seen] == sorted(found[1] for found in seen)
        cause = "return document.getElementById('failures').innerText"
        assert "FloatingPointError: no such luck" in wait_until(lambda: page.run(cause), process)
        state = state_of(address)
        assert state is not None
        assert state["head"]["status"]["holder"] == read_status(cube).to_dict()["holder"]
        assert state["head"]["crew"]["connected"] == 2
        wait_until(
            lambda: (
                process.poll() is not None or state_of(address) is None or shares(page)[1] == shares(page)[0]
            ),
            process,
        )
        assert page.console() == []
        assert all(url.startswith(address) for url in page.requests())


REFUSED = CommandFailed(["scontrol"], "Requested operation is presently disabled", transient=False)


def request_of(finished: Path, **options: object) -> Request:
    """A submit of the finished sweep."""
    spec = finished / "tiny.toml"
    prepared = prepare(spec, results=finished, data_dir=None)
    return Request(spec, prepared, Wanted(), None, Options(finished, **options))  # type: ignore[arg-type]


def test_a_signal_ends_with_its_number_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    ending = Ending(None)
    with ending:
        raise Stopped(signal.SIGTERM)
    assert ending.end == End(128 + signal.SIGTERM, "stopped by SIGTERM")
    assert "stopped by SIGTERM; what was finished is kept, submit again to resume" in caplog.text


def test_a_signal_before_the_walltime_queues_the_job_again(caplog: pytest.LogCaptureFixture) -> None:
    ending = Ending(HeadJob("5", 0))
    with ending:
        raise Stopped(signal.SIGUSR1)
    assert ending.end == End(128 + signal.SIGUSR1, "stopped by SIGUSR1", again=True)
    assert "the head resumes when its job starts again" in caplog.text


def test_an_expected_error_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    ending = Ending(HeadJob("5", 0))
    with ending:
        raise ComputeClusterError("no worker for an hour")
    assert ending.end == End(INTERNAL, "no worker for an hour")
    assert [record.getMessage() for record in caplog.records] == ["no worker for an hour"]


def test_an_unknown_error_is_not_hidden() -> None:
    ending = Ending(None)
    with pytest.raises(ZeroDivisionError), ending:
        raise ZeroDivisionError
    assert ending.end == End(INTERNAL, "ended by an error")


def test_a_run_is_recorded_from_its_begin_to_its_end(finished: Path, tmp_path: Path) -> None:
    request = request_of(finished, data_dir=Path("raw"))
    request = replace(request, prepared=replace(request.prepared, cube=tmp_path / "other.zarr"))
    ending = Ending(None)
    with (
        Lease.acquire(request.prepared.cube) as lease,
        head._recorded(request, HeadJob("5", 2), ending, lease) as record,
    ):
        assert (record.state, record.restarts) == (RUNNING, 2)
        assert record.spec == str(request.spec.resolve())
        assert record.data_dir == str(Path("raw").resolve())
        assert HeadRecord.read(lease.generation.head) == record
        ending.end = End(COMPLETE, "finished")
    after = HeadRecord.read(request.prepared.run.last_run.head)
    assert after is not None
    assert (after.state, after.how) == (ENDED, "finished")
    assert after.at >= record.at


def test_a_full_disk_does_not_hide_how_a_run_ended(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StorageError(tmp_path, "room", "disk full")

    request = request_of(finished)
    request = replace(request, prepared=replace(request.prepared, cube=tmp_path / "other.zarr"))
    lease = Lease.acquire(request.prepared.cube)
    recorded = head._recorded(request, None, Ending(None), lease)
    monkeypatch.setattr(type(recorded.__enter__()), "write", full)
    with pytest.raises(ZeroDivisionError):
        recorded.gen.throw(ZeroDivisionError())  # type: ignore[attr-defined]
    monkeypatch.undo()
    lease.release()


def test_exit_codes_of_a_finished_run(finished: Path, caplog: pytest.LogCaptureFixture) -> None:
    strict = request_of(finished, strict=True)
    none = Outcomes(0, 0, 0, ())
    assert head._conclude(strict, none) == End(COMPLETE, "finished")
    inputs = replace(strict.prepared.inputs, skipped={"ecoli": ("not here", "nor there")})
    skipping = replace(strict, prepared=replace(strict.prepared, inputs=inputs))
    assert head._conclude(skipping, none) == End(FAILED_CELLS, "finished")
    assert "85 of 85 cells done" in caplog.text
    failed, other = (Cell("iris", None, 0.8, 75, replicate, "posterior") for replicate in (0, 1))
    ended = head._conclude(strict, replace(none, failed=(failed,)))
    assert ended == End(FAILED_CELLS, "finished with failed cells")
    assert f'failed: {failed} (for more: sweep why {strict.prepared.cube} "{failed}")' in caplog.text
    # A cell that failed earlier is no matter of a run of others.
    alone = replace(strict, wanted=Wanted(only=frozenset({other})))
    assert head._conclude(alone, replace(none, failed=(failed,))).code == COMPLETE


def test_the_line_of_the_dashboard() -> None:
    assert head._dashboard(None) == "none"
    assert "ssh -L 8787:127.0.0.1:8787 " in head._dashboard("http://127.0.0.1:8787/status")


def test_a_requeue_that_is_refused_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise Stopped(signal.SIGUSR1)

    def refuse(number: str) -> None:
        raise REFUSED

    run = RunFolder(tmp_path / "tiny.zarr")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_JOB_NAME", head_name(run))
    monkeypatch.setattr(head, "_executor", stopped)
    monkeypatch.setattr(slurm, "requeue", refuse)
    ended = sweep("submit", write_spec(tmp_path), "--workers", 0, "--results", tmp_path)
    assert ended.exit_code == 128 + signal.SIGUSR1
    assert "the head was not queued again" in ended.stderr
    record = HeadRecord.read(run.last_run.head)
    assert record is not None
    assert (record.state, record.how) == (ENDED, "stopped by SIGUSR1, and not queued again")


def test_a_queue_that_does_not_answer_hides_no_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(run: RunFolder) -> str:
        raise REFUSED

    monkeypatch.setattr(head, "other_head", silent)
    assert head._waiting_head(RunFolder(tmp_path / "tiny.zarr")) is None


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


@pytest.mark.parametrize("interrupted", ["_executor", "_lease"])
def test_a_head_asks_once_whether_its_time_is_over(
    interrupted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise Stopped(signal.SIGTERM)

    answers, queued = [True], list[str]()
    run = RunFolder(tmp_path / "results" / "tiny.zarr")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_JOB_NAME", head_name(run))
    monkeypatch.setattr(head, interrupted, stopped)
    monkeypatch.setattr(slurm, "is_out_of_time", lambda job: answers.pop())
    monkeypatch.setattr(slurm, "requeue", queued.append)
    ended = sweep("submit", write_spec(tmp_path), "--workers", 0, "--results", tmp_path / "results")
    assert ended.exit_code == 128 + signal.SIGTERM, ended.output
    assert (answers, queued) == ([], ["5"])
    if interrupted == "_executor":
        record = HeadRecord.read(run.last_run.head)
        assert record is not None
        assert record.state == REQUEUED
