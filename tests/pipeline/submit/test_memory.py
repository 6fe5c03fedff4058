"""The memory of a worker: what is predicted, and what is refused before anything starts."""

import json
from dataclasses import replace
from pathlib import Path

import distributed.system
import pytest
from processes.commandline import sweep as run_sweep
from processes.sweeping import TINY, write_spec

from sweep_clustering.pipeline.cluster.profiles import load_profile
from sweep_clustering.pipeline.jobs.keys import job_queue
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.methods.process import PROCESS_BYTES
from sweep_clustering.pipeline.run.request import Sweep, prepare
from sweep_clustering.pipeline.submit.memory import (
    COPIES,
    DRAWN,
    NANNY,
    PROCESS,
    TABLES,
    memory_problems,
    worker_bytes,
)
from sweep_clustering.sweeps.plan import MethodPlan

MIB = 2**20


def prepared_in(folder: Path, text: str = TINY) -> Sweep:
    return prepare(write_spec(folder, text), results=folder, data_dir=None)


def test_each_size_counts(tmp_path: Path) -> None:
    sweep = prepared_in(tmp_path)
    plan = sweep.inputs.plans[0]
    base = worker_bytes(sweep, plan)
    n, d, k = plan.n_samples, plan.n_features, plan.n_clusters
    assert PROCESS + COPIES * 8 * n * d + TABLES * 8 * n * k < base < PROCESS + 3 * MIB
    larger = replace(plan, m=(*plan.m, max(plan.m) + 10**6))
    assert worker_bytes(sweep, larger) - base == DRAWN * 10**6
    asked = replace(larger, designs=("active",))
    assert worker_bytes(sweep, asked) - base > 2 * DRAWN * 10**6
    rows = worker_bytes(sweep, replace(plan, n_samples=n + 10**6)) - base
    assert rows >= 10**6 * 8 * (COPIES * d + TABLES * k)
    assert worker_bytes(sweep, replace(plan, n_features=d + 10**4)) - base >= COPIES * 8 * n * 10**4
    assert worker_bytes(sweep, replace(plan, n_clusters=k + 10**4)) - base >= TABLES * 8 * n * 10**4
    assert worker_bytes(sweep, replace(plan, restarts=plan.restarts + 10**4)) - base >= 10**4 * 2 * n
    wide = replace(plan, n_features=500)
    full = replace(wide, models=("conditional-full",))
    assert worker_bytes(sweep, full) - worker_bytes(sweep, wide) > 8 * k * 500**2
    methods = (MethodCall("mine", "mine.py:f", "# 1"),)
    of_methods = replace(plan, methods=(MethodPlan("mine", 1),))
    assert worker_bytes(replace(sweep, methods=methods), of_methods) - base > PROCESS_BYTES


def test_the_plan_says_it(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    sweep = prepared_in(tmp_path)
    most = max(worker_bytes(sweep, plan) for plan in sweep.inputs.plans)
    found = json.loads(run_sweep("plan", spec, "--workers", 1, "--json", "--results", tmp_path).stdout)
    assert found["worker_bytes"] == most == max(each["worker_bytes"] for each in found["datasets"])
    shown = run_sweep("plan", spec, "--workers", 1, "--results", tmp_path).stdout
    assert f"memory of a worker: about {most / MIB:.2f} MiB" in shown


def test_what_does_not_fit_is_refused_by_plan_and_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, results = write_spec(tmp_path), ("--results", tmp_path)
    names = [plan.name for plan in prepared_in(tmp_path).inputs.plans]
    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 1200 * MIB)
    site = tmp_path / "cluster.yaml"
    site.write_text(
        "local: {kind: local, workers: 1, memory_limit: 100MiB}\n"
        "jobs: {kind: slurm, cores: 4, memory: 1GiB}\n"
        "far: {kind: address, address: 'tcp://127.0.0.1:1'}\n"
    )
    each, many = "for each of", ("--workers", "4")
    queue = ("--cluster", str(site), "--profile", "jobs")
    cases = {
        many: (f"workers: found 300.00 MiB {each} 4 workers", "--workers 2 gives each enough"),
        queue[:2]: (f"local: memory_limit: found 100.00 MiB {each} 1 worker", "set memory_limit to"),
        queue: (f"jobs: memory: found 239.75 MiB {each} 4 workers", "set memory of a job to"),
    }
    for command in ("plan", "submit"):
        for arguments, words in cases.items():
            done = run_sweep(command, spec, *arguments, *results)
            assert done.exit_code == 2, done.output
            for word in words:
                assert word in done.stderr
            for name in names:
                assert f"takes for data set {name!r}" in done.stderr
        assert (
            run_sweep(
                command, spec, "--workers", 2, *results, *(("--dry-run",) * (command == "submit"))
            ).exit_code
            == 0
        )
    assert not (tmp_path / "tiny.zarr").exists()
    sweep = prepared_in(tmp_path)
    assert not list(memory_problems(sweep, load_profile("far", site), None)), "nobody knows what it has"
    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 50 * MIB)
    (first, *_) = memory_problems(sweep, None, 0)
    assert "50.00 MiB for each of 1 worker" in str(first)
    assert "more memory" in str(first)


def test_a_job_needs_room_for_all_its_workers(tmp_path: Path) -> None:
    sweep = prepared_in(tmp_path)
    need = max(worker_bytes(sweep, plan) for plan in sweep.inputs.plans)
    queue = job_queue("slurm")
    for memory, fits in ((NANNY + 3 * need, True), (NANNY + 3 * need - 10, False)):
        options = queue(kind="slurm", cores=3, memory=memory)
        profile = replace(load_profile(), options=options)
        assert (not list(memory_problems(sweep, profile, None))) == fits
