"""Peak memory of a worker's process that runs one cell, beside the prediction of `sweep plan`.

`python -m benchmarks memory [--write]` takes four minutes. Each table is a mixture, with one worker of dask
and one cell with the most annotations. Searches are short because memory does not grow with their length.
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

MEMORY = Table("memory", ("N × D, K", "model", "annotations", "measured, MiB", "predicted, MiB", "ratio"))
TABLES = (MEMORY,)

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
    """Return the peak memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 2**10


def run(case: Case, folder: Path) -> tuple[int, int]:
    """Return measured and predicted bytes."""
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
        tasks = [task]
        batches = DaskExecutor(client, prepared.inputs.sources).results(
            lambda: tasks.pop() if tasks else None
        )
        for results in batches:
            for _, outcome in results:
                if isinstance(outcome, BaseException):
                    raise outcome
                if any(isinstance(result, Failed) for result in outcome):
                    raise RuntimeError(outcome)
        (peak,) = client.run(high_water).values()
    return peak, worker_bytes(prepared, plan)


def _toml(sweep: dict[str, object]) -> str:
    """Return keys and tables as TOML; values are as in JSON, and tables in lists are inline."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in sweep.items() if not isinstance(value, dict)]
    for name, table in sweep.items():
        if isinstance(table, dict):
            plain += [f"[{name}]", *(f"{key} = {_inline(value)}" for key, value in table.items())]
    return "\n".join(plain)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {json.dumps(part)}" for key, part in value.items()) + "}"
    return "[" + ", ".join(map(_inline, value)) + "]" if isinstance(value, list) else json.dumps(value)


def measure() -> dict[str, str]:
    """Return the table of docs/explanation/scale.md."""
    rows = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            peak, prediction = run(case, Path(folder))
        m = f"{round(case.size.pairs * case.size.n_samples):,}"
        figures = (f"{peak / 2**20:,.0f}", f"{prediction / 2**20:,.0f}", f"{prediction / peak:.2f}")
        rows.append((case.size, case.model, m, *figures))
    return {MEMORY.name: MEMORY.markdown(rows)}
