"""Peak memory of a worker's process that runs one cell, beside what `sweep plan` predicts.

`python -m benchmarks memory [--write]`, four minutes: tables of mixtures, one worker of dask each, one cell
with the most annotations. Searches are short, as memory does not grow with their length.
"""

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from distributed import Client, LocalCluster
from large import Size, problem_of
from tables import Table

from sweep_clustering.pipeline.cluster.executor import DaskExecutor
from sweep_clustering.pipeline.run.request import prepare
from sweep_clustering.pipeline.submit.overview import worker_bytes
from sweep_clustering.pipeline.work.records import Failed, Science, Span, Task

MEASURED = Table("memory", ("N × D, K", "model", "annotations", "measured, MiB", "predicted, MiB", "ratio"))
TABLES = (MEASURED,)

SEARCH = {"method": "published", "population": 2, "offspring": 2, "generations": 1}


class Case(NamedTuple):
    """A table, and the model that is fitted to it."""

    size: Size
    model: str


CASES = (
    Case(Size(200, 4, 3, 1.0), "posterior"),
    Case(Size(20_000, 64, 20, 0.4), "posterior"),
    Case(Size(60_000, 10, 100, 1.6), "conditional"),
    Case(Size(20_000, 768, 20, 0.2), "conditional"),
    Case(Size(20_000, 768, 20, 0.2), "conditional-any"),
    Case(Size(20_000, 768, 20, 0.2), "conditional-groups"),
    Case(Size(4_000, 20, 10, 0.6), "conditional-groups"),
    Case(Size(50_000, 8, 10, 1.0, 20.0), "posterior"),
    Case(Size(5_000, 50, 20, 0.6), "conditional-full"),
)


def high_water() -> int:
    """Most bytes that this process has held."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 2**10


def run(case: Case, folder: Path) -> tuple[int, int]:
    """Measured and predicted bytes."""
    problem = problem_of(case.size)
    np.savez(folder / "table.npz", X=problem.X, y=problem.labels)
    grid = {"datasets": [{"name": "table", "path": str(folder / "table.npz")}], "p": [0.9], "replicates": 1}
    grid |= {"m": [round(case.size.pairs * case.size.n_samples)], "models": [case.model], "restarts": 1}
    sweep = {"name": "memory", "seed": 1, "grid": grid, "search": SEARCH}
    (folder / "memory.toml").write_text(_toml(sweep), encoding="utf-8")
    prepared = prepare(folder / "memory.toml", results=folder, data_dir=None)
    (plan,) = prepared.inputs.plans
    cell = next(plan.blocks()).first
    task = Task(Science.of(prepared.spec, plan), plan.name, (Span(cell, 0, 1),), 0.0)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, memory_limit=0, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        left = [task]
        ended = DaskExecutor(client, prepared.inputs.sources).results(lambda: left.pop() if left else None)
        for results in ended:
            for _, outcome in results:
                if isinstance(outcome, Exception):
                    raise outcome
                if any(isinstance(each, Failed) for each in outcome):
                    raise RuntimeError(outcome)
        (measured,) = client.run(high_water).values()
    return measured, worker_bytes(prepared, plan)


def _toml(sweep: dict[str, object]) -> str:
    """Keys and tables; values of both as JSON has them, tables in lists inline."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in sweep.items() if not isinstance(value, dict)]
    for name, table in sweep.items():
        if isinstance(table, dict):
            plain += [f"[{name}]", *(f"{key} = {_inline(value)}" for key, value in table.items())]
    return "\n".join(plain)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {json.dumps(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(map(_inline, value)) + "]" if isinstance(value, list) else json.dumps(value)


def measure() -> dict[str, str]:
    """The table of docs/explanation/scale.md."""
    rows = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            found, predicted = run(case, Path(folder))
        m = f"{round(case.size.pairs * case.size.n_samples):,}"
        of_both = (f"{found / 2**20:,.0f}", f"{predicted / 2**20:,.0f}", f"{predicted / found:.2f}")
        rows.append((case.size, case.model, m, *of_both))
    return {MEASURED.name: MEASURED.markdown(rows)}
