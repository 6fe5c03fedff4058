"""Cancelling ends the right processes and jobs of a made-up queue, and says so."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import pytest
from cubes.writer import next_generation
from processes.commandline import sweep
from processes.sweeping import write_spec

from sweep_clustering.pipeline.jobs import queues
from sweep_clustering.pipeline.monitor import cancel as cancelling
from sweep_clustering.pipeline.monitor.cancel import CannotCancel, cancel
from sweep_clustering.pipeline.monitor.status import read_run_state
from sweep_clustering.storage.runfolder import folder as module
from sweep_clustering.storage.runfolder.lease import Cancelled, Lease


@pytest.fixture
def foreign_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lease]:
    """Yield a lease whose holder seems to be on another machine, so that only heartbeats show it."""
    monkeypatch.setattr("sweep_clustering.storage.runfolder.lease.BEAT_EVERY", 0.05)
    with Lease.acquire(tmp_path / "tiny.zarr") as lease:
        file = module.RunFolder(lease.cube).lease(lease.number)
        record = json.loads(file.read_text())
        record["process"] |= {"host": "far", "boot_id": "another"}
        file.write_text(json.dumps(record))
        yield lease


def test_a_holder_elsewhere_is_asked_and_waited_for(foreign_lease: Lease) -> None:
    messages, lost = list[str](), Event()
    foreign_lease._on_lost = lambda why: lost.set()
    with ThreadPoolExecutor() as pool:
        ended = pool.submit(lambda: (lost.wait(60), foreign_lease.release()))
        cancel(foreign_lease.cube, messages.append)
        ended.result()
    with pytest.raises(Cancelled):
        foreign_lease.check()
    assert messages[0] == f"waiting for {foreign_lease.holder} to end".replace(
        foreign_lease.holder.process.host, "far"
    )
    # left for every head (tests/trials/test_partitions.py has some that obey), until a submit takes it back
    run, folder = module.RunFolder(foreign_lease.cube), foreign_lease.cube.parent
    assert module.StopRequest.read(run.stop) is not None
    with Lease.acquire(foreign_lease.cube) as lease, pytest.raises(Cancelled):
        lease.check()
    line = ("submit", write_spec(folder), "--workers", 0, "--results", folder)
    assert sweep(*line, "--only", "iris/unsupervised").exit_code == 0
    assert not run.stop.exists()


def test_a_holder_that_does_not_obey_is_named_and_one_without_heartbeat_is_dead(
    foreign_lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "POLL_SECONDS", 0.05)
    with monkeypatch.context() as patched:
        patched.setattr(cancelling, "END_SECONDS", 0.3)
        with pytest.raises(CannotCancel, match=r"still running after 0 s, .* to end: process .* on far"):
            cancel(foreign_lease.cube, list[str]().append)
    monkeypatch.setattr(cancelling, "PATIENCE", 0.5)
    monkeypatch.setattr(Lease, "beat", lambda lease: None)
    time.sleep(0.2)
    messages = list[str]()
    cancel(foreign_lease.cube, messages.append)
    assert any("no heartbeat for" in line for line in messages)


class Queue:
    """Jobs of a user; those that are cancelled leave, maybe not at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.jobs = [queues.LiveJob(str(10 + n), name, "PENDING", "", "None") for n, name in enumerate(names)]
        self.cancelled, self.needed = Counter[str](), 1
        monkeypatch.setattr("shutil.which", lambda name: name)
        monkeypatch.setattr(queues.Queue, "live_jobs", self.live)
        monkeypatch.setattr(queues.Queue, "cancel", self.cancel)
        monkeypatch.setattr(cancelling, "POLL_SECONDS", 0.0)

    def live(self, prefix: str) -> list[queues.LiveJob]:
        return [job for job in self.jobs if job.name.startswith(prefix)]

    def cancel(self, numbers: Iterable[str]) -> None:
        self.cancelled.update(numbers)
        self.jobs = [job for job in self.jobs if self.cancelled[job.number] < self.needed]


def test_a_head_that_waits_and_worker_jobs_are_ended_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube, messages = tmp_path / "tiny.zarr", list[str]()
    run = module.RunFolder(cube)
    run.make()
    module.Submission(system="slurm", job="10", host="here", at=90.0).write(run.submission)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(CannotCancel, match="no squeue here: cancel it elsewhere"):
        cancel(cube, print)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(queues.Queue, "live_jobs", Mock(side_effect=queues.CommandFailed(["squeue"], "-")))
    with pytest.raises(CannotCancel, match="nothing was cancelled, the queue does not answer: squeue"):
        cancel(cube, print)
    assert read_run_state(cube).queued_job == "10"
    module.HeadRecord(spec="s", job="10", state=module.REQUEUED, at=100.0).write(next_generation(cube).head)
    queue = Queue(monkeypatch, queues.head_name(run), "another job")
    cancel(cube, messages.append)
    cancel(cube, list[str]().append)  # it has left the queue
    assert queue.cancelled == {"10": 1}
    assert messages == [
        "ended the head, job 10",
        "no job is left in the queue",
        f"what was finished is kept in {cube}; submit again to resume",
    ]
    assert read_run_state(cube).is_over
    assert not run.submission.exists()
    record = module.HeadRecord.read(run.last_run.head)
    assert record is not None
    assert record.state == module.ENDED
    assert record.how == "cancelled"
    run.job_logs.mkdir()  # there is such a folder where worker jobs have been
    prefix = queues.job_prefix(run)
    queue = Queue(monkeypatch, f"{prefix}0b1c-0", f"{prefix}0b1c-1", "another job")
    with monkeypatch.context() as patched:
        patched.setattr(cancelling, "END_SECONDS", 0.0)
        with pytest.raises(CannotCancel, match=r"still in the queue: 10 \(pending\)"):
            cancel(cube, messages.append)
    queue.needed = 4
    cancel(cube, messages.append)
    assert [job.name for job in queue.jobs] == ["another job"]
    assert "ended 2 worker jobs" in messages
