"""What is said of worker jobs that cannot work, with SLURM's answers made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from processes.sweeping import write_spec

from pipeline.jobs.keys import JobQueue, job_queue
from pipeline.jobs.slurm import CommandFailed
from pipeline.methods.loading import MethodCall
from pipeline.methods.process import MOST_PROCESSES
from pipeline.run.request import prepare
from pipeline.submit import jobplan


def profile(cores: int, memory: str, **keys: object) -> JobQueue:
    return job_queue("slurm")(kind="slurm", cores=cores, memory=memory, **keys)


HOUR = {"walltime": "01:00:00", "queue": "short"}
OPTIONS = profile(4, "4GiB", **HOUR)
PARTITION = "PartitionName=short Default=NO State=UP MaxTime=02:00:00 TotalCPUs=16 MaxMemPerNode=UNLIMITED"
ANSWERS = {
    "show partition": PARTITION,
    "sinfo": "4096 4\n8192+ 8\n",
    "show config": "MaxArraySize = 1001\nMaxJobCount             = 100\n",
}


def test_the_limits_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    def warnings(
        options: JobQueue = OPTIONS, n_jobs: int = 4, partition: str = PARTITION, **more: str
    ) -> list[str]:
        def run(command: list[str]) -> str:
            answers = {**ANSWERS, "show partition": partition, **more}
            (answer,) = (text for key, text in answers.items() if key in " ".join(command))
            if not partition:
                raise CommandFailed(command, "Unable to contact", transient=True)
            return answer

        monkeypatch.setattr(jobplan, "run", run)
        return list(jobplan.slurm_warnings(options, n_jobs))

    assert warnings() == warnings(sinfo="") == []
    wait = "5 jobs of 4 cores are more than the 16 of short: the others will wait"
    assert warnings(n_jobs=5) == [wait]
    large = profile(12, "10GiB", **HOUR)
    assert warnings(large, 101, "PartitionName=short State=DOWN MaxTime=00:30:00 TotalCPUs=16") == [
        "partition short is DOWN: no job starts there",
        "walltime 1:00:00 is above the 00:30:00 of partition short",
        "memory 10.00 GiB of a job is above the 8.00 GiB of a node of short",
        "cores 12 of a job are more than the 8 of a node of short",
        "101 jobs of 12 cores are more than the 16 of short: the others will wait",
        "101 jobs are more than the 100 that SLURM takes",
    ]
    # limits for each node are below its size
    assert warnings(partition="PartitionName=short State=UP MaxMemPerNode=2048 MaxCPUsPerNode=2") == [
        "memory 4.00 GiB of a job is above the 2.00 GiB of a node of short",
        "cores 4 of a job are more than the 2 of a node of short",
    ]
    # what a job books counts, and not what its workers use
    assert warnings(profile(4, "4GiB", **HOUR, job_mem="9 GiB", job_cpu=9), 1) == [
        "memory 9.00 GiB of a job is above the 8.00 GiB of a node of short",
        "cores 9 of a job are more than the 8 of a node of short",
    ]
    both = f"{PARTITION}\nPartitionName=long Default=YES State=INACTIVE"
    assert warnings(profile(4, "4GiB"), partition=both) == ["partition long is INACTIVE: no job starts there"]
    unchecked = "the limits of SLURM were not checked: scontrol: "
    assert warnings(profile(4, "4GiB")) == [f"{unchecked}no default partition"]
    assert warnings(partition="") == [f"{unchecked}Unable to contact"]


def test_what_a_dry_run_shows_of_jobs(tmp_path: Path) -> None:
    prepared = prepare(write_spec(tmp_path), results=tmp_path, data_dir=None)
    options = profile(2, "2GiB", walltime="01:00:00")

    def lines(n_methods: int, n_jobs: int = 1, options: JobQueue = options) -> list[str]:
        calls = tuple(MethodCall(f"m{each}", "mine.py:f", f"# {each}") for each in range(n_methods))
        return jobplan.job_lines(options, replace(prepared, methods=calls), where="profile", n_jobs=n_jobs)

    def needed(*arguments: Any) -> list[str]:
        return [line for line in lines(*arguments) if "memory" in line and "need" in line]

    assert lines(0)[:3] == ["1 worker job of this script would be kept running:", "", "#!/usr/bin/env bash"]
    assert lines(0, 2)[0].startswith("2 worker jobs of")
    need = "WARNING: memory {} of a job is below the {} that 2 worker processes need"
    assert needed(0, 1, profile(2, "1GiB")) == [need.format("1.00 GiB", "1.04 GiB")]
    assert (needed(2), needed(3)) == ([], [need.format("2.00 GiB", "2.12 GiB")])
    assert needed(MOST_PROCESSES) == needed(MOST_PROCESSES + 1) != needed(MOST_PROCESSES - 1)
