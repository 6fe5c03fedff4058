"""What is said of worker jobs that cannot work, with SLURM's answers made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from processes.sweeping import write_spec

from pipeline.jobs.keys import JobQueue, job_queue
from pipeline.jobs.slurm import CommandFailed
from pipeline.methods.loading import MethodCall
from pipeline.methods.process import MOST_PROCESSES
from pipeline.run.request import prepare
from pipeline.submit import jobplan
from pipeline.submit.jobplan import COPIES, JobPlan, largest_node, most_jobs, partition, plan_jobs

GIB = 2**30


def profile(cores: int, memory: str, **keys: object) -> JobQueue:
    return job_queue("slurm")(kind="slurm", cores=cores, memory=memory, **keys)


HOUR = {"walltime": "01:00:00", "queue": "short"}
OPTIONS = profile(4, "4GiB", **HOUR)
ANSWERS = {
    "show partition": "PartitionName=short Default=NO State=UP MaxTime=02:00:00 TotalCPUs=16 "
    "MaxMemPerNode=UNLIMITED MaxCPUsPerNode=UNLIMITED",
    "sinfo": "4096|4\n8192+|8\n",
    "show config": "MaxArraySize = 1001\nMaxJobCount             = 100\n",
}

Site = Callable[..., None]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    """Sets what SLURM answers."""

    def set_answers(**changes: str) -> None:
        answers = ANSWERS | {key.replace("_", " "): text for key, text in changes.items()}

        def run(command: list[str]) -> str:
            (answer,) = (text for key, text in answers.items() if key in " ".join(command))
            return answer

        monkeypatch.setattr(jobplan, "run", run)

    set_answers()
    return set_answers


def warnings(options: JobQueue = OPTIONS, n_jobs: int = 4) -> list[str]:
    return list(jobplan._slurm_warnings(options, n_jobs))


def test_jobs_that_fit_are_not_warned_of(site: Site) -> None:
    assert warnings() == []


def test_the_limits_of_a_partition(site: Site) -> None:
    site(show_partition="PartitionName=short State=DOWN MaxTime=00:30:00 TotalCPUs=16")
    large = profile(12, "10GiB", **HOUR)
    assert warnings(large, 101) == [
        "partition short is DOWN: no job starts there",
        "walltime 1:00:00 is above the 00:30:00 of partition short",
        "memory 10.00 GiB of a job is above the 8.00 GiB of a node of short",
        "cores 12 of a job are more than the 8 of a node of short",
        "101 jobs of 12 cores are more than the 16 of short: the others will wait",
        "101 jobs are more than the 100 that SLURM takes",
    ]


def test_limits_for_each_node_are_below_its_size(site: Site) -> None:
    site(show_partition="PartitionName=short State=UP MaxMemPerNode=2048 MaxCPUsPerNode=2")
    assert warnings() == [
        "memory 4.00 GiB of a job is above the 2.00 GiB of a node of short",
        "cores 4 of a job are more than the 2 of a node of short",
    ]


def test_what_a_job_books_counts_and_not_what_its_workers_use(site: Site) -> None:
    booked = profile(4, "4GiB", **HOUR, job_mem="9 GiB", job_cpu=9)
    assert len(warnings(booked, 1)) == 2
    assert "9.00 GiB" in warnings(booked, 1)[0]
    assert "cores 9" in warnings(booked, 1)[1]


def test_a_slurm_that_is_silent_is_a_warning_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(command: list[str]) -> str:
        raise CommandFailed(command, "Unable to contact slurm controller", transient=True)

    monkeypatch.setattr(jobplan, "run", silent)
    (warning,) = warnings()
    assert warning == "the limits of SLURM were not checked: scontrol: Unable to contact slurm controller"


def test_without_a_queue_the_default_partition_counts(site: Site) -> None:
    both = "PartitionName=short Default=NO\nPartitionName=long Default=YES\n"
    site(show_partition=both)
    assert partition(None)["PartitionName"] == "long"
    site(show_partition="PartitionName=short Default=NO\n")
    assert partition("short")["PartitionName"] == "short"
    with pytest.raises(CommandFailed, match="no default partition"):
        partition(None)


def test_sizes_are_read_and_missing_ones_are_zero(site: Site) -> None:
    assert largest_node("short") == (8 * GIB, 8)
    assert most_jobs() == 100
    site(sinfo="", show_config="")
    assert largest_node("short") == (0, 0)
    assert most_jobs() == 0


def test_memory_of_the_workers_with_their_data() -> None:
    small = profile(2, "1GiB")
    (warning,) = jobplan._memory_warnings(small, 0)
    assert warning == "memory 1.00 GiB of a job is below the 1.04 GiB that 2 worker processes need"
    enough = profile(2, "2GiB")
    assert list(jobplan._memory_warnings(enough, 0)) == []
    assert len(list(jobplan._memory_warnings(enough, COPIES * GIB // 8))) == 1


def test_memory_of_the_processes_of_methods(tmp_path: Path) -> None:
    prepared = prepare(write_spec(tmp_path), results=tmp_path, data_dir=None)
    options = profile(2, "2GiB", walltime="01:00:00")

    def wanted(n_methods: int) -> list[str]:
        calls = tuple(MethodCall(f"m{each}", "mine.py:f", f"# {each}") for each in range(n_methods))
        found = plan_jobs(options, replace(prepared, methods=calls), where="profile", n_jobs=1).warnings
        return [warning for warning in found if "memory" in warning and "need" in warning]

    assert wanted(2) == []
    (warning,) = wanted(3)
    assert warning == "memory 2.00 GiB of a job is below the 2.12 GiB that 2 worker processes need"
    assert wanted(MOST_PROCESSES) == wanted(MOST_PROCESSES + 1) != wanted(MOST_PROCESSES - 1)


def test_a_walltime_of_less_than_two_batches() -> None:
    brief = profile(4, "4GiB", walltime="00:02:00")
    (warning,) = jobplan._walltime_warnings(brief, 60.0)
    assert "workers end after 0:01:42 for their walltime, and a batch may last 60 s" in warning
    assert "if 2 times its seconds are left" in warning
    assert list(jobplan._walltime_warnings(brief, 50.0)) == []
    assert list(jobplan._walltime_warnings(OPTIONS, 60.0)) == []


def test_the_script_stands_between_its_head_and_the_warnings(tmp_path: Path) -> None:
    lines = JobPlan(1, "#!/bin/sh\nrun\n\n", ("too short",)).lines()
    head = "1 worker job of this script would be kept running:"
    assert lines == [head, "", "#!/bin/sh", "run", "", "WARNING: too short"]
