"""Versions of the solvers behind the models, designs and methods of a sweep.

Every run keeps them in its cube, so that cells of two releases whose solvers differ can be told apart.
"""

from sweep_clustering.kernels.structure import ONE_GAUSSIAN, kind_of
from sweep_clustering.sweeps.file.search import Search
from sweep_clustering.sweeps.file.spec import SweepSpec
from sweep_clustering.sweeps.words import SHIPPED, asked_of, holds_out, shape_of

# Versions by kind of model. Raise one in the commit that changes a bit of what such a cell holds while data,
# seeds, settings and libraries stay the same: other starts, another order of a sum, another default. Golden
# bits and archives of releases that change are the sign. A number is never lowered or used again. A change of
# the search that all kinds share raises all of them.
SOLVERS = {
    "one Gaussian": 1,
    "chosen shape": 1,
    "union of Gaussians": 2,  # 1 fitted them in cubes of format 2, which hold no Gaussians
    "method": 1,
    "questions": 1,
}

PREFIX = "solver of "


def solver_name(model: str, search: str | None = None) -> str:
    """Return the name of the solver of a model in fingerprints, with its search where there are several."""
    return f"{PREFIX}{model}" if search is None else f"{PREFIX}search={search}/{model}"


def solvers_of(spec: SweepSpec) -> dict[str, str]:
    """Return the version of each solver that a sweep needs, by its name."""
    kinds = {
        solver_name(model, search.name): _kind_of(model, search)
        for model in spec.grid.models
        for search in spec.search
    }
    kinds |= {solver_name(each.name): "method" for each in spec.grid.methods if each.call in SHIPPED}
    kinds |= {solver_name(f"design={design}"): "questions" for design in asked_of(spec.grid.design)}
    return {name: str(SOLVERS[kind]) for name, kind in kinds.items()}


def _kind_of(model: str, search: Search) -> str:
    """Return the kind of a model in a search, as `SOLVERS` names it."""
    kind = kind_of(shape_of(model), search)
    return "chosen shape" if kind is ONE_GAUSSIAN and holds_out(model, search.held_out) else kind.name
