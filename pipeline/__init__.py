"""The public face: names that stay, each loaded when it is first asked for.

How a sweep runs is in the rooms below: tasks, batches, compute cluster, driver, scores, report, commands.

| name | what it is |
|---|---|
| `AnnotatedClustering`, `LinkScorer` | estimator of one table, by scikit-learn's conventions, and a scorer |
| `components` | the Gaussians of a cell of a cube whose classes are unions of them |
| `load_sweep` | a sweep file, parsed and checked |
| `NoSolution`, `Solution` | what a method of your own may answer in place of labels |
| `open_cube` | the results of a sweep as an `xarray.DataTree`, while it runs too |
| `scores`, `baseline_scores` | scores of one data set of a cube, computed when asked for |

>>> from pipeline import open_cube, scores
>>> tree = open_cube("results/quick.zarr")  # doctest: +SKIP
>>> scores(tree, "iris")["nmi"].mean("replicate").compute()  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.fit.estimator import AnnotatedClustering
    from pipeline.fit.scorer import LinkScorer
    from pipeline.methods.contract import NoSolution, Solution
    from pipeline.scoring.components import components
    from pipeline.scoring.scores import baseline_scores, scores
    from storage.cube.growth import open_cube
    from sweeps.file.reading import load_sweep

__all__ = ["AnnotatedClustering", "LinkScorer", "NoSolution", "Solution"]
__all__ += ["baseline_scores", "components", "load_sweep", "open_cube", "scores"]

# The rooms load numba, xarray, scikit-learn: seconds that `sweep --help` can do without.
_PLACES = {
    "AnnotatedClustering": "pipeline.fit.estimator",
    "LinkScorer": "pipeline.fit.scorer",
    "NoSolution": "pipeline.methods.contract",
    "Solution": "pipeline.methods.contract",
    "baseline_scores": "pipeline.scoring.scores",
    "components": "pipeline.scoring.components",
    "load_sweep": "sweeps.file.reading",
    "open_cube": "storage.cube.growth",
    "scores": "pipeline.scoring.scores",
}


if not TYPE_CHECKING:  # a type checker knows the names above, and should know that there are no others

    def __getattr__(name):
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from sweep_clustering import check_shadowing

        check_shadowing()  # a script beside another `sweeps.py` would otherwise end in a puzzling ImportError
        value = globals()[name] = getattr(import_module(_PLACES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
