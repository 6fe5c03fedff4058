"""The list of worker jobs, as others read it."""

from __future__ import annotations

import json
from pathlib import Path

from storage.runfolder.jobs import KEPT, JobList, JobListFile, JobRecord


def test_the_list_of_jobs_is_written_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    assert JobList.read(path) is None
    file = JobListFile(path, 2)
    job = JobRecord(name="sweep-a-0", job="7", node="n1", state="running", workers=2)
    file.show([job])
    before = path.stat().st_mtime_ns
    file.show([job])
    assert path.stat().st_mtime_ns == before
    file.lose(job, "was lost")
    file.show([JobRecord(name="sweep-a-0", job="8", node="", state="pending (Priority)", workers=0)])
    found = JobList.read(path)
    assert found is not None
    assert (found.wanted, found.running, found.workers, found.n_lost) == (2, 0, 0, 1)
    assert (found.jobs[0].job, found.lost[0].job, found.lost[0].how) == ("8", "7", "was lost")
    path.write_text('{"wanted": 2, "jobs"')
    assert JobList.read(path) is None


def lost(number: int) -> JobRecord:
    return JobRecord(name=f"sweep-a-{number}", job=str(number), node="n1", state="running", workers=1)


def test_the_last_jobs_lost_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    file = JobListFile(path, 3)
    for number in range(KEPT + 5):
        file.lose(lost(number), "timeout")
    file.show([])
    found = JobList.read(path)
    assert found is not None
    assert found.n_lost == KEPT + 5
    assert [job.job for job in found.lost] == [str(number) for number in range(5, KEPT + 5)]


def test_running_jobs_are_those_with_workers(tmp_path: Path) -> None:
    jobs = [lost(1), lost(2).model_copy(update={"workers": 3}), lost(3).model_copy(update={"workers": 0})]
    JobListFile(tmp_path / "jobs.json", 3).show(jobs)
    found = JobList.read(tmp_path / "jobs.json")
    assert found is not None
    assert (found.running, found.workers) == (2, 4)
    shown = found.to_dict()
    assert (shown["running"], shown["workers"], shown["wanted"]) == (2, 4, 3)
    assert json.loads(json.dumps(shown))["jobs"][1]["workers"] == 3


def test_a_disk_that_refuses_is_tried_again(tmp_path: Path) -> None:
    """The list is for readers: a run does not end for it."""
    folder = tmp_path / "run"
    file = JobListFile(folder / "jobs.json", 1)
    file.show([lost(1)])
    assert not folder.exists()
    folder.mkdir()
    file.show([lost(1)])
    found = JobList.read(folder / "jobs.json")
    assert found is not None
    assert found.jobs == (lost(1),)
