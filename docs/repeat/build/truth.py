"""The true labels on the objectives of the evaluation: `python docs/repeat/build/truth.py`, a minute.

The program reads the scores of `run.py` and writes `truth.csv`. If a solution beats the true labels, no
better search would bring it nearer to them. If they beat it, the search has missed the optimum for certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from files import SCORES, cells_file, sweep_file, sweeps_with_scores

from sweep_clustering.kernels.partition.objective import objective_terms
from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.problem.problem import build_problem
from sweep_clustering.pipeline.common import SAME_OPTIMUM
from sweep_clustering.pipeline.scoring.tables import row_cell
from sweep_clustering.sweeps.file.reading import load_sweep
from sweep_clustering.sweeps.inputs import cell_annotations, load_inputs


def gaps(name: str) -> Iterator[dict[str, Any]]:
    """Yield the objective of each solution of a sweep less that of the true labels, in nats."""
    spec = load_sweep(sweep_file(name))
    sources = load_inputs(spec, sweep_file(name).name).sources
    integers = dict.fromkeys(("mixture", "m", "replicate"), "Int64")
    for _, row in pd.read_csv(cells_file(name)).astype(integers).iterrows():
        cell = row_cell(row)
        source = sources[cell.dataset]
        X, labels_true = source.arrays(cell.mixture)
        problem = build_problem(
            X,
            layers_from_annotations(cell_annotations(spec.seed, cell, source, spec.crowd), cell.p),
            n_clusters=row["n_clusters"],
            model=cell.model,
        )
        gap = row["objective"] - sum(objective_terms(problem, labels_true))
        yield {
            "sweep": name,
            "dataset": cell.dataset,
            "p": cell.p,
            "m": cell.m,
            "model": cell.model,
            "gap": gap,
        }


def main() -> None:
    """Write the summary of the sweeps that were run."""
    names = [*sweeps_with_scores("*-p[01][0-9]"), *sweeps_with_scores("uci-stronger")]
    table = pd.DataFrame(row for name in names for row in gaps(name))
    groups = table.groupby(["sweep", "dataset", "p", "m", "model"], dropna=False, sort=False)["gap"]
    summary = groups.agg(
        cells="size",
        solution_is_better=lambda gap: (gap > SAME_OPTIMUM).sum(),
        truth_is_better=lambda gap: (gap < -SAME_OPTIMUM).sum(),
        mean_gap="mean",
        least_gap="min",
    )
    summary.round(3).reset_index().to_csv(SCORES / "truth.csv", index=False)


if __name__ == "__main__":
    main()
