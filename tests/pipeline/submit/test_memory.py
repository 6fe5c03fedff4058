"""The memory of a worker: what is predicted, and what is warned of before anything starts."""

import json
from dataclasses import replace
from pathlib import Path

import distributed.system
import pytest
from processes.commandline import sweep
from processes.sweeping import TINY, write_spec

from sweep_clustering.pipeline.cluster.profiles import load_profile
from sweep_clustering.pipeline.jobs.keys import job_queue
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.methods.process import PROCESS_BYTES
from sweep_clustering.pipeline.run.request import Sweep, prepare
from sweep_clustering.pipeline.submit.overview import (
    COPIES,
    DRAWN,
    NANNY,
    PROCESS,
    TABLES,
    memory_warnings,
    worker_bytes,
)
from sweep_clustering.sweeps.plan import MethodPlan

MIB = 2**20


def prepared_in(folder: Path, text: str = TINY) -> Sweep:
    return prepare(write_spec(folder, text), results=folder, data_dir=None)


def test_each_size_counts(tmp_path: Path) -> None:
    inputs = prepared_in(tmp_path)
    plan = inputs.inputs.plans[0]
    base = worker_bytes(inputs, plan)
    n, d, k = plan.n_samples, plan.n_features, plan.n_clusters
    assert PROCESS + COPIES * 8 * n * d + TABLES * 8 * n * k < base < PROCESS + 3 * MIB
    larger = replace(plan, m=(*plan.m, max(plan.m) + 10**6))
    assert worker_bytes(inputs, larger) - base == DRAWN * 10**6
    asked = replace(larger, designs=("active",))
    assert worker_bytes(inputs, asked) - base > 2 * DRAWN * 10**6
    rows = worker_bytes(inputs, replace(plan, n_samples=n + 10**6)) - base
    assert rows >= 10**6 * 8 * (COPIES * d + TABLES * k)
    assert worker_bytes(inputs, replace(plan, n_features=d + 10**4)) - base >= COPIES * 8 * n * 10**4
    assert worker_bytes(inputs, replace(plan, n_clusters=k + 10**4)) - base >= TABLES * 8 * n * 10**4
    assert worker_bytes(inputs, replace(plan, restarts=plan.restarts + 10**4)) - base >= 10**4 * 2 * n
    wide = replace(plan, n_features=500)
    full = replace(wide, models=("conditional-full",))
    assert worker_bytes(inputs, full) - worker_bytes(inputs, wide) > 8 * k * 500**2
    methods = (MethodCall("mine", "mine.py:f", "# 1"),)
    of_methods = replace(plan, methods=(MethodPlan("mine", 1),))
    assert worker_bytes(replace(inputs, methods=methods), of_methods) - base > PROCESS_BYTES


def test_the_plan_says_it(tmp_path: Path) -> None:
    spec, inputs = write_spec(tmp_path), prepared_in(tmp_path)
    most = max(worker_bytes(inputs, plan) for plan in inputs.inputs.plans)
    arguments = ("plan", spec, "--workers", 1, "--results", tmp_path)
    document = json.loads(sweep(*arguments, "--json").stdout)
    assert document["worker_bytes"] == most == max(row["worker_bytes"] for row in document["datasets"])
    assert f"memory of a worker: about {most / MIB:.2f} MiB" in sweep(*arguments).stdout


SITE = """
local: {kind: local, workers: 1, memory_limit: 100MiB}
jobs: {kind: slurm, cores: 4, memory: 1GiB}
far: {kind: address, address: 'tcp://127.0.0.1:1'}
"""


@pytest.mark.parametrize("command", [("plan",), ("submit", "--dry-run")])
@pytest.mark.parametrize(
    ("profile", "options", "limit", "remedy"),
    [
        ("", ["--workers", "4"], "workers: 300.00 MiB for each of 4 workers", "take --workers 2"),
        ("local", [], "local: memory_limit: 100.00 MiB for each of 1 worker", "set memory_limit to"),
        ("jobs", [], "jobs: memory: 239.75 MiB for each of 4 workers", "set memory of a job to"),
    ],
)
def test_a_worker_with_less_than_it_may_take_is_warned_of(
    command: tuple[str, ...],
    profile: str,
    options: list[str],
    limit: str,
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The prediction may be too high: nothing is refused."""
    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 1200 * MIB)
    (tmp_path / "cluster.yaml").write_text(SITE)
    place = ["--cluster", str(tmp_path / "cluster.yaml"), "--profile", profile] if profile else []
    arguments = (*command, write_spec(tmp_path), *place, "--results", tmp_path)
    done = sweep(*arguments, *options)
    assert done.exit_code == 0, done.output
    warnings = [line for line in (done.stderr + caplog.text).splitlines() if "may need up to" in line]
    for plan in prepared_in(tmp_path).inputs.plans:
        (warning,) = {line[line.index(limit) :] for line in warnings if repr(plan.name) in line}
        assert remedy in warning
    if not profile:
        assert "may need up to" not in sweep(*arguments, "--workers", "2").stderr


def test_the_memory_of_this_machine_counts_and_that_of_another_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster.yaml").write_text(SITE)
    inputs, far = prepared_in(tmp_path), load_profile("far", tmp_path / "cluster.yaml")
    monkeypatch.setattr(distributed.system, "MEMORY_LIMIT", 50 * MIB)
    assert not list(memory_warnings(inputs, far, None))
    (first, *_) = memory_warnings(inputs, None, 0)
    assert first.startswith("memory of this machine: 50.00 MiB for each of 1 worker")
    assert "take a machine with more memory" in first


@pytest.mark.parametrize(("missing", "fits"), [(0, True), (10, False)])
def test_a_job_needs_room_for_all_its_workers(missing: int, fits: bool, tmp_path: Path) -> None:
    inputs = prepared_in(tmp_path)
    need = max(worker_bytes(inputs, plan) for plan in inputs.inputs.plans)
    options = job_queue("slurm")(kind="slurm", cores=3, memory=NANNY + 3 * need - missing)
    warnings = list(memory_warnings(inputs, replace(load_profile(), options=options), None))
    assert (not warnings) == fits
