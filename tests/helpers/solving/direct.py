"""Cells of sweeps are fitted here without a sweep, except for their random streams."""

from sweep_clustering.kernels.fits import Fit
from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.solver.contract import Model
from sweep_clustering.kernels.solver.prepare import prepare
from sweep_clustering.pipeline.work.records import Science
from sweep_clustering.sweeps import seeds
from sweep_clustering.sweeps.inputs import Source, cell_annotations
from sweep_clustering.sweeps.plan import Cell


def direct_fits(
    cell: Cell, science: Science, restarts: int, source: Source, *, has_groups: bool = False
) -> list[Fit]:
    """Return the fits of a cell whose model chooses a structure, one for each restart."""
    X, _ = source.arrays(cell.mixture)
    names = ("mixture", "p", "m", "replicate", "model")
    where = {name: getattr(cell, name) for name in names}
    annotations = cell_annotations(science.seed, cell, source, science.crowd)
    solver = prepare(
        Model("conditional", "any", science.searches[0], has_groups=has_groups),
        X,
        layers_from_annotations(annotations, cell.p),
        science.n_clusters,
        seeds.choice_seed(science.seed, cell.dataset, **where),
    )
    numbers = range(restarts)
    streams = [seeds.search_seed(science.seed, cell.dataset, **where, restart=number) for number in numbers]
    return list(solver.choose(streams).fits)
