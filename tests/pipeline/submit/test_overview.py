"""The work of a sweep and the memory of its workers are counted before it runs."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import distributed.system
import numpy as np
import pytest
from checkout import ROOT
from cubes.small import make_plan
from cubes.writer import next_generation
from processes.commandline import succeed, sweep
from processes.sweeping import TINY, run, tiny, write_spec

from sweep_clustering.pipeline.cluster.profiles import load_profile
from sweep_clustering.pipeline.common import estimate
from sweep_clustering.pipeline.jobs.keys import job_queue
from sweep_clustering.pipeline.methods.loading import MethodCall
from sweep_clustering.pipeline.methods.process import PROCESS_BYTES
from sweep_clustering.pipeline.run.request import Sweep, prepare
from sweep_clustering.pipeline.submit import overview
from sweep_clustering.pipeline.submit.overview import (
    COPIES,
    DRAWN_BYTES,
    NANNY,
    PROCESS,
    TABLES,
    memory_warnings,
    plan_lines,
    plan_overview,
    worker_bytes,
)
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.records import Failed, Science, Solved, Span
from sweep_clustering.pipeline.work.timing import Key, Times, Timing, pilot_cells
from sweep_clustering.storage.runfolder.folder import Moment
from sweep_clustering.sweeps.errors import present
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.inputs import Source
from sweep_clustering.sweeps.plan import Cell, MethodPlan


def prepared_in(folder: Path, text: str = TINY) -> Sweep:
    return prepare(write_spec(folder, text), results=folder, data_dir=None)


def iris(plan: dict[str, Any]) -> dict[str, Any]:
    return next(dataset for dataset in plan["datasets"] if dataset["name"] == "iris")


# A guess before anything was timed, by hand.


def test_a_restart_by_hand() -> None:
    def guess(model: str, restarts: int = 1, n_clusters: int = 4, **settings: float) -> float:
        plan = make_plan(n_samples=1000, n_features=16, n_clusters=n_clusters)
        search = Search(**{"population": 10, "offspring": 10, "generations": 10, "patience": 0} | settings)
        cell = Cell(plan.name, None, 0.9, 4, 0, model)
        return overview.rough_seconds(search, plan, Span(cell, 0, restarts))

    # ten starts at random worth an offspring each, a hundred offspring, with annotations
    expected = 110 * overview.SEARCH_SECONDS * 1.69 * 1000**1.27 * 4**0.89 * 2**0.52
    assert guess("posterior") == pytest.approx(expected)
    assert guess("posterior", restarts=3) == pytest.approx(3 * expected)
    assert guess("conditional") == pytest.approx(expected / 1.69)
    assert guess("unsupervised-full") == pytest.approx(expected / 1.69 * 2**2.05)
    assert guess("posterior-diagonal") == pytest.approx(expected * overview.DIAGONAL)
    assert guess("ward", restarts=3) == 3 * overview.CALL_SECONDS, "a method is a call"
    # patience ends a restart early
    for clusters, patience, generations in ((4, 4, 3), (4, 40, 10), (8, 4, 6)):
        early = guess("posterior", n_clusters=clusters, patience=patience)
        assert early == guess("posterior", n_clusters=clusters, generations=generations)
    # five restarts of one generation, and four candidates with five folds of one generation
    short = {"restarts": 5, "generations": 1}
    spherical, full = (guess(f"posterior{shape}", **short) for shape in ("", "-full"))
    chosen = full + spherical * (1 + overview.DIAGONAL) + 2 * full
    assert guess("posterior-auto", **short) == pytest.approx(chosen)
    # a model that holds annotations out has five folds, and nothing is held out without annotations
    assert guess("posterior", **short, held_out=True) == pytest.approx(2 * spherical)
    assert guess("unsupervised", **short, held_out=True) == guess("unsupervised", **short)


def test_the_plan_counts_what_is_written(tiny_run: Path, tmp_path: Path) -> None:
    arguments = ("plan", tiny_run / "tiny.toml", "--json", "--results", tmp_path)
    plan = json.loads(sweep(*arguments).stdout)  # for people: in the golden outputs
    assert plan["total"]["cells"] == 5 * 17
    assert plan["total"]["restarts"] == 5 * 17 * 5
    files = sum(path.is_file() for path in (tiny_run / "tiny.zarr").rglob("*")) - 1
    assert plan["total"]["files"] == files
    assert not plan["timed"]
    assert plan["search"]["method"] == "strong"
    assert plan["search"]["mutation"] == 0.2
    measured = json.loads(sweep(*arguments, "--pilot").stdout)
    assert measured["timed"]
    assert measured["total"]["core_hours"] > 0
    assert not list(tmp_path.iterdir())


def test_measured_seconds_are_counted_by_model_and_place(tmp_path: Path) -> None:
    """By hand, a restart lasts two seconds, and four of "posterior", of which three quarters are CPU time."""
    sweep = prepared_in(tmp_path)
    timing = Timing()
    for plan in sweep.inputs.plans:
        for cell in pilot_cells(plan):
            cost = 4.0 if cell.model == "posterior" else 2.0
            solution = np.zeros(1, np.int16), np.zeros((1, 1)), np.zeros(1)
            timing.note(Solved(Span(cell, 0, 2), np.zeros(2), 0, *solution, 2 * cost, 1.5 * cost))
    timing.save(next_generation(sweep.cube).pilot)
    fields = plan_overview(sweep, workers=2)
    counts = iris(fields)
    assert counts["cells"] == 17
    assert counts["restarts"] == 85
    assert counts["blocks"] == 5
    seconds = 2 * 5 * (1 + 8 * 1 + 8 * 2)  # restarts of the baseline and of eight cells of each model
    assert counts["worker_hours"] * 3600 == pytest.approx(seconds)
    assert counts["core_hours"] * 3600 == pytest.approx(0.75 * seconds)
    assert counts["seconds_per_restart"] == pytest.approx(seconds / 85)
    # A fiftieth of a worker's share, 5 * 250 s for two workers: 12.5 s, four restarts of 2.94 s.
    assert fields["batches"] == sum(-(-row["restarts"] // 4) for row in fields["datasets"])
    assert fields["total"]["worker_hours"] * 3600 == pytest.approx(5 * seconds)


def test_a_pilot_measures_now_whatever_was_timed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = prepared_in(tmp_path)
    cells = [cell for plan in sweep.inputs.plans for cell in pilot_cells(plan)]
    old = Timing({Key.of(cell): Times(1000.0) for cell in cells})
    old.moment = Moment(time.time() - 3 * 3600 - 60, "elsewhere", 1.75)
    old.save(next_generation(sweep.cube).pilot)
    stale, fresh = plan_overview(sweep), plan_overview(sweep, pilot=True)
    assert iris(stale)["seconds_per_restart"] == pytest.approx(1000.0)
    earlier = "(timed 3 hours ago on elsewhere, at a load of 1.8 for each core;"
    assert earlier in "\n".join(plan_lines(sweep, stale))
    assert iris(fresh)["seconds_per_restart"] < 10
    assert "(measured now, at a load of " in "\n".join(plan_lines(sweep, fresh))
    methods = 'restarts = 5\nmethods = [{name = "bad", call = "bad.py:f"}]'
    (tmp_path / "bad.py").write_text("def f(*a, **b):\n    raise ValueError('bad')\n")
    plan_overview(prepared_in(tmp_path, TINY.replace("restarts = 5", methods)), pilot=True)
    assert "/bad failed, and is taken to last a second: ValueError: bad" in caplog.text
    failing = lambda batch, source: [Failed(batch.spans[0], "ValueError: no", "", "", "")]  # noqa: E731
    monkeypatch.setattr(overview, "run_task", failing)
    with pytest.raises(RuntimeError, match=r"mixtures_k2/.*: ValueError: no"):
        plan_overview(sweep, pilot=True)


def test_stops_skipped_data_sets_questions_and_times_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = prepared_in(tmp_path, TINY + "[stop]\nrisk = 0.2\nr_min = 2\n")
    fields = plan_overview(sweep)
    assert fields["least"] == 2 / 5
    assert "the adaptive stop may end after 170 restarts" in "\n".join(plan_lines(sweep, fields))
    assert fields["total"]["core_hours_least"] == pytest.approx(2 / 5 * fields["total"]["core_hours"])
    sweep = prepared_in(tmp_path)
    inputs = replace(sweep.inputs, skipped={"iris": ("not here",)})
    sweep = replace(sweep, inputs=inputs)
    lines = plan_lines(sweep, plan_overview(sweep, workers=1))
    assert "2 of 3 data sets at hand, 17 cells left out: sweep datasets fetch" in lines
    assert "(rough, for a quiet machine; --pilot measures)" in "\n".join(lines)
    # questions are counted in whole batches, and timed by a pilot
    guessed = Mock(wraps=overview.rough_batch_seconds)
    monkeypatch.setattr(overview, "rough_batch_seconds", guessed)
    asking = TINY.replace("replicates = 2", 'replicates = 2\ndesign = ["uniform", "active"]')
    total = plan_overview(prepared_in(tmp_path, asking + "[ask]\nbatch = 40\n"), pilot=True)["total"]
    assert "iris" not in {call.args[1].name for call in guessed.call_args_list}, "it has two batches to time"
    # two accuracies and replicates; 150 answers on iris, 30 on each of two mixtures of two data sets
    assert total["paths"] == 4 + 16
    assert total["questions"] == 4 * 160 + 16 * 40


def test_times_are_said_in_the_unit_that_suits_them() -> None:
    words = {
        (0.0, 0.2): "about 1 second",
        (1.0, 15.0): "1 to 15 seconds",
        (4.0, 90.0): "4 to 90 seconds",
        (90.0, 150.0): "90 seconds to 2 minutes",
        (480.0, 1200.0): "8 to 20 minutes",
        (3600.0, 3600.0): "about 60 minutes",
        (480.0, 4 * 3600.0): "8 minutes to 4.0 hours",
        (5 * 3600.0, 40 * 3600.0): "5.0 to 40 hours",
    }
    assert {times: estimate(*times) for times in words} == words


# What a cube leaves to do.

SMALL = {"datasets": ["iris"], "p": [0.8], "m": ["0.5N"], "restarts": 5}
"""A baseline, and two models on two replicates: 5 cells of 5 restarts."""


def read_plan(spec: Path, *options: str) -> dict[str, Any]:
    document = json.loads(sweep("plan", spec, "--json", "--results", spec.parent, *options).stdout)
    assert json.loads(dry_run(spec, "--json", *options).stdout)["total"] == document["total"]
    return dict(document["total"])


def dry_run(spec: Path, *options: str) -> Any:
    return sweep("submit", spec, "--dry-run", "--results", spec.parent, "--workers", "2", *options)


def test_a_plan_counts_what_is_left_of_a_sweep_and_what_it_has_grown_by(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, tiny(99, **SMALL))
    before = read_plan(spec)
    check(before, cells=5, cells_left=5, restarts=25, restarts_left=25)
    assert run(spec, tmp_path) == 0
    check(read_plan(spec), cells_done=5, restarts=25, restarts_left=0, core_hours=0)
    lines = dry_run(spec).stderr
    assert "done: 5 of 5 cells\nnothing to run\n" in lines
    # another replicate: two cells more
    spec.write_text(tiny(99, **SMALL, replicates=3))
    check(read_plan(spec), cells=7, cells_done=5, cells_left=2, restarts=35, restarts_left=10)
    assert "left: 2 cells with 10 of 35 restarts" in dry_run(spec).stderr


def test_a_plan_counts_restarts_of_the_journal_and_those_of_a_cell_that_is_asked_for(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, tiny(99, **SMALL))
    cell = "iris/p=0.8/m=75/replicate=1/posterior"
    assert run(spec, tmp_path, only=(cell,)) == 0  # it stays in the journal, as its block is not complete
    check(read_plan(spec), cells_done=0, restarts_left=20)
    second = cell.replace("posterior", "likelihood")
    result = dry_run(spec, "--only", second)
    assert "left: 1 cell with 5 of 25 restarts\n4 other cells not asked for" in result.stderr


def check(total: dict[str, Any], **expected: int) -> None:
    for key, value in expected.items():
        assert total[key] == value, key


ASKING = SMALL | {"design": ["uniform", "active"]}
"""A baseline, and four cells whose pairs are drawn beside four whose pairs are asked for on two paths."""

BATCHES = "[ask]\nbatch = 16\nrestarts = 1\n"


def outcome(spec: Path, caplog: pytest.LogCaptureFixture, *flags: str, **options: Any) -> dict[str, Any]:
    """Plan a run and return the total, after a run that announced what was planned and ended with it."""
    total = dict(json.loads(dry_run(spec, "--json", *flags).stdout)["total"])
    unwanted = total["cells"] - total["cells_done"] - total["cells_failed"] - total["cells_left"]
    assert bool(unwanted) == ("--only" in flags)
    caplog.clear()
    run(spec, spec.parent, **options)
    assert f"{total['restarts_left']} restarts to run" in caplog.text
    assert (f"{total['questions_left']} questions to ask" in caplog.text) == (total["questions_left"] > 0)
    last = re.findall(r"100\.0 % .*", caplog.text)[-1]
    for count, whole in re.findall(r"(\d+) of (?:at most )?(\d+) (?:restarts|questions)", last):
        assert count == whole
    assert json.loads(dry_run(spec, "--json", *flags).stdout)["total"]["restarts_left"] == 0
    return total


def test_a_plan_counts_the_questions_of_asked_paths_that_have_grown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The last eleven of 75 answers in a cube are asked again, as they are no whole batch."""
    spec = write_spec(tmp_path, tiny(99, **ASKING) + BATCHES)
    cell = "iris/p=0.8/m=75/design=active/replicate=1/posterior"
    check(outcome(spec, caplog, "--only", cell, only=(cell,)), questions=2 * 80, questions_left=80)
    check(outcome(spec, caplog), cells_left=9, restarts_left=40, questions_left=80)
    assert "to ask" not in dry_run(spec).stderr
    # more answers on the same paths, of which 112 are seven batches
    spec.write_text(tiny(99, **ASKING | {"m": ["0.5N", "0.75N"]}) + BATCHES)
    longer = outcome(spec, caplog)
    check(longer, cells_done=9, cells_left=8, questions=2 * 112, questions_left=2 * (112 - 64))
    # fewer answers are there already; another path is asked as far as one of its cells needs
    spec.write_text(tiny(99, **ASKING | {"m": ["0.25N", "0.5N", "0.75N"]}) + BATCHES)
    assert outcome(spec, caplog)["questions_left"] == 0
    spec.write_text(tiny(99, **ASKING | {"m": ["0.25N", "0.5N", "0.75N"], "replicates": 3}) + BATCHES)
    cell = "iris/p=0.8/m=37/design=active/replicate=2/posterior"
    assert outcome(spec, caplog, "--only", cell, only=(cell,))["questions_left"] == 48
    assert outcome(spec, caplog)["questions_left"] == 112 - 48


def test_a_plan_counts_a_single_cell_by_which_a_sweep_has_grown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = write_spec(tmp_path, tiny(99, **SMALL))
    assert run(spec, tmp_path) == 0
    spec.write_text(tiny(99, **SMALL, replicates=3))
    cell = "iris/p=0.8/m=75/replicate=2/posterior"
    assert outcome(spec, caplog, "--only", cell, only=(cell,))["restarts_left"] == 5
    check(outcome(spec, caplog), cells_left=2, restarts_left=5)  # one of them is in the journal


@pytest.mark.parametrize("stop", ["", "[stop]\nrisk = 0.9\nr_min = 2\nstep = 1\n"])
def test_a_plan_counts_failed_cells_apart_and_those_that_are_tried_again_as_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stop: str
) -> None:
    solve = tasks.run_cell

    def fail(science: Science, span: Span[Cell], source: Source) -> Solved:
        if span.unit.model == "posterior" and span.unit.replicate == 1:
            raise FloatingPointError("no such luck")
        return solve(science, span, source)

    spec = write_spec(tmp_path, tiny(99, **SMALL) + stop)
    with monkeypatch.context() as patched:
        patched.setattr(tasks, "run_cell", fail)
        assert outcome(spec, caplog)["restarts_left"] == 25
    check(read_plan(spec), cells_done=4, cells_failed=1, cells_left=0)
    words = "done: 4 of 5 cells\n1 cell failed: sweep submit --retry-failed tries them again\nnothing to run"
    assert words in dry_run(spec).stderr
    # another replicate: its two cells are left, and the failed one only if it is tried again
    spec.write_text(tiny(99, **SMALL, replicates=3) + stop)
    assert read_plan(spec)["restarts_left"] == 10
    most = "at most " if stop else ""
    words = f"done: 4 of 7 cells\nleft: 3 cells with {most}15 of {most}35 restarts\n"
    assert words in dry_run(spec, "--retry-failed").stderr
    total = outcome(spec, caplog, "--retry-failed", retry_failed=True)
    check(total, cells_failed=0, cells_left=3, restarts_left=15)


@pytest.mark.parametrize(
    ("command", "options", "workers"),
    [
        (("plan",), ("--profile", "local"), 3),
        (("plan",), ("--profile", "jobs"), 20),
        (("plan",), ("--profile", "jobs", "--workers", "2"), 2),
        (("submit", "--dry-run"), ("--profile", "local"), 3),
        (("submit", "--dry-run"), ("--profile", "local", "--workers", "2"), 2),
        (("submit", "--dry-run"), ("--workers", "0"), 1),
        (("submit", "--dry-run"), ("--profile", "jobs"), 20),
        (("submit", "--dry-run"), ("--profile", "jobs", "--workers", "2"), 8),
    ],
)
def test_a_plan_is_for_the_workers_that_a_run_has(
    tmp_path: Path, command: tuple[str, ...], options: tuple[str, ...], workers: int
) -> None:
    spec, site = write_spec(tmp_path, tiny(99, **SMALL)), tmp_path / "cluster.yaml"
    jobs = "jobs: {kind: slurm, cores: 4, workers: 5, memory: 8GiB, interface: lo}"
    site.write_text(f"local: {{kind: local, workers: 3}}\n{jobs}\n")
    arguments = (*command, spec, "--cluster", site, "--results", tmp_path, *options)
    assert json.loads(sweep(*arguments, "--json").stdout)["workers"] == workers
    text = sweep(*arguments).output
    assert re.findall(r"1 batch for (\d+) worker", text) == [str(workers)]


# In place of the command: a system with eight cores and without affinity, as macOS is, and control groups in
# a folder.
ELSEWHERE = """
import os, sys
from pathlib import Path
import psutil
from sweep_clustering.pipeline import common

del os.sched_getaffinity, psutil.Process.cpu_affinity
os.cpu_count = os.process_cpu_count = lambda: 8
common.core_count.__defaults__ = (Path(sys.argv.pop(1)),)
sys.argv[0] = "sweep"
from sweep_clustering.pipeline.commands.main import main
main()
"""

VERSION_1 = {
    "proc/self/cgroup": "3:cpu,cpuacct:/job\n0::/\n",
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "200000\n",
    "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
}
VERSION_2 = {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "250000 100000\n"}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system is one without affinity")
@pytest.mark.parametrize(
    ("command", "groups", "cores"),
    [
        (("plan",), {}, 8),
        (("plan",), VERSION_2, 3),  # part of a core is one
        (("submit", "--dry-run"), VERSION_1, 2),
    ],
)
def test_plans_of_a_system_without_affinity_and_with_quotas_of_control_groups(
    tmp_path: Path, command: tuple[str, ...], groups: dict[str, str], cores: int
) -> None:
    for name, text in groups.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    spec = write_spec(tmp_path, tiny(99, **SMALL))
    arguments = [sys.executable, "-c", ELSEWHERE, tmp_path, *command, spec, "--results", tmp_path, "--json"]
    process = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    assert json.loads(process.stdout)["workers"] == cores


def test_a_stop_spares_no_call_of_a_method_and_no_restart_before_its_next_test(tmp_path: Path) -> None:
    """The rule is tested after two and after five of at most nine restarts."""
    (tmp_path / "mine.py").write_text(
        "def cluster(X, n_clusters, *links, **others):\n    return [0] * len(X)\n"
    )
    method = {"name": "mine", "call": "mine.py:cluster", "restarts": 7}
    stop = "[stop]\nrisk = 0.2\nr_min = 2\nstep = 3\n"
    grid: dict[str, Any] = SMALL | {"restarts": 9}
    spec = write_spec(tmp_path, tiny(99, **grid, methods=[method]) + stop)
    whole = read_plan(spec)
    calls = whole["restarts"] - 5 * 9
    assert calls % 7 == 0
    assert calls > 0
    assert whole["restarts_least"] == 5 * 2 + calls
    span = Span(Cell("iris", None, 0.8, 75, 0, "posterior"), 0, 9)
    rule = present(prepared_in(tmp_path, spec.read_text()).spec.stop)
    ends = {start: overview._before_stop(replace(span, start=start), rule).stop for start in range(9)}
    assert ends == {0: 2, 1: 2, 2: 5, 3: 5, 4: 5, 5: 8, 6: 8, 7: 8, 8: 9}


def test_the_page_of_commands_has_every_key_of_a_plan(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "commands" / "plan.md").read_text(encoding="utf-8")
    section = page.partition("# The JSON of a plan")[2].partition("\n# ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    keys = [(re.findall(r"`(\w+)`", names), [cell.strip() for cell in columns]) for names, *columns in rows]
    plan = plan_overview(prepared_in(tmp_path))
    assert {key for names, columns in keys if len(columns) == 1 for key in names} == set(plan)
    assert {key for names, columns in keys if len(columns) == 2 for key in names} == set(iris(plan))
    assert {key for names, columns in keys if columns[0] == "yes" for key in names} == set(plan["total"])


MIB = 2**20


def test_each_size_counts(tmp_path: Path) -> None:
    inputs = prepared_in(tmp_path)
    plan = inputs.inputs.plans[0]
    base = worker_bytes(inputs, plan)
    n, d, k = plan.n_samples, plan.n_features, plan.n_clusters
    assert PROCESS + COPIES * 8 * n * d + TABLES * 8 * n * k < base < PROCESS + 3 * MIB
    larger = replace(plan, m=(*plan.m, max(plan.m) + 10**6))
    assert worker_bytes(inputs, larger) - base == DRAWN_BYTES * 10**6
    asking = replace(larger, designs=("active",))
    assert worker_bytes(inputs, asking) - base > 2 * DRAWN_BYTES * 10**6
    rows = worker_bytes(inputs, replace(plan, n_samples=n + 10**6)) - base
    assert rows >= 10**6 * 8 * (COPIES * d + TABLES * k)
    assert worker_bytes(inputs, replace(plan, n_features=d + 10**4)) - base >= COPIES * 8 * n * 10**4
    assert worker_bytes(inputs, replace(plan, n_clusters=k + 10**4)) - base >= TABLES * 8 * n * 10**4
    assert worker_bytes(inputs, replace(plan, restarts=plan.restarts + 10**4)) - base >= 10**4 * 2 * n
    wide = replace(plan, n_features=500)
    full = replace(wide, models=("conditional-full",))
    assert worker_bytes(inputs, full) - worker_bytes(inputs, wide) > 8 * k * 500**2
    chosen = replace(wide, models=("conditional-groups",), restarts=10**4)
    assert MIB < worker_bytes(inputs, chosen) - worker_bytes(inputs, replace(wide, models=())) < 500 * MIB
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
    result = succeed(*arguments, *options)
    warnings = [line for line in (result.stderr + caplog.text).splitlines() if "may need up to" in line]
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
