"""The table of solvers, and the solver of a model."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.random import SeedSequence

from sweep_clustering.kernels.fits import Floats, Runner
from sweep_clustering.kernels.problem.data import Layer
from sweep_clustering.kernels.problem.hard import has_hard_links
from sweep_clustering.kernels.solver.clusters import Clusters
from sweep_clustering.kernels.solver.contract import Model, Solver
from sweep_clustering.kernels.solver.hard import Hard
from sweep_clustering.kernels.solver.unions import Unions
from sweep_clustering.kernels.structure import ONE_GAUSSIAN, UNION

# The solver of each kind of clusters.
SOLVERS: dict[str, type[Solver]] = {ONE_GAUSSIAN.name: Clusters, UNION.name: Unions}


def prepare(
    model: Model,
    X: Floats,
    layers: Sequence[Layer],
    n_clusters: int,
    seed: SeedSequence,
    run: Runner = map,
) -> Solver:
    """Prepare the solver of a model for some data; `Solver` describes the parameters.

    Raises
    ------
    ValueError
        If the problem admits no solution; some solvers only see that when they choose.
    """
    solver = SOLVERS[model.kind.name](model, X, layers, n_clusters, seed, run)
    return Hard(solver, layers) if has_hard_links(layers) else solver
