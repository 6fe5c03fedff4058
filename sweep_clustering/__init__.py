"""Benchmark sweeps of semi-supervised clustering with inaccurate pairwise annotations: the public names.

Each name is loaded when it is first asked for.

| name | what it is |
|---|---|
| `AnnotatedClustering`, `LinkScorer` | estimator of one table, by scikit-learn's conventions, and a scorer |
| `AnnotatedClusteringWarning` | the category of its warnings |
| `components` | the Gaussians of a cell of a cube whose classes are unions of them |
| `DamagedChunk` | the error of values whose file has changed or is missing |
| `load_sweep` | a sweep file, parsed and checked |
| `NoSolution`, `Solution` | what a method of your own may answer in place of labels |
| `open_cube` | the results of a sweep as an `xarray.DataTree`, while it runs too |
| `scores`, `baseline_scores` | scores of one data set of a cube, computed when asked for |

>>> from sweep_clustering import open_cube, scores
>>> tree = open_cube("results/quick.zarr")  # doctest: +SKIP
>>> scores(tree, "iris")["nmi"].mean("replicate").compute()  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweep_clustering.pipeline.fit.estimator import AnnotatedClustering, AnnotatedClusteringWarning
    from sweep_clustering.pipeline.fit.links import LinkScorer
    from sweep_clustering.pipeline.methods.contract import NoSolution, Solution
    from sweep_clustering.pipeline.scoring.scores import baseline_scores, components, scores
    from sweep_clustering.storage.cube.growth import open_cube
    from sweep_clustering.storage.files import DamagedChunk
    from sweep_clustering.sweeps.file.reading import load_sweep

    __version__: str

__all__ = ["AnnotatedClustering", "AnnotatedClusteringWarning", "DamagedChunk", "LinkScorer", "NoSolution"]
__all__ += ["Solution", "baseline_scores", "components", "load_sweep", "open_cube", "scores"]

# The rooms load numba, xarray and scikit-learn: `sweep --help` can do without these seconds.
_PLACES = {
    "AnnotatedClustering": "sweep_clustering.pipeline.fit.estimator",
    "AnnotatedClusteringWarning": "sweep_clustering.pipeline.fit.estimator",
    "DamagedChunk": "sweep_clustering.storage.files",
    "LinkScorer": "sweep_clustering.pipeline.fit.links",
    "NoSolution": "sweep_clustering.pipeline.methods.contract",
    "Solution": "sweep_clustering.pipeline.methods.contract",
    "baseline_scores": "sweep_clustering.pipeline.scoring.scores",
    "components": "sweep_clustering.pipeline.scoring.scores",
    "load_sweep": "sweep_clustering.sweeps.file.reading",
    "open_cube": "sweep_clustering.storage.cube.growth",
    "scores": "sweep_clustering.pipeline.scoring.scores",
}

# In a checkout the four folders stand beside this one, and relative links lead to them. A copy of a checkout
# that has lost the links (an archive, a file system without links) finds the folders beside it.
_HERE = Path(__file__).parent
if not all((_HERE / folder).is_dir() for folder in ("kernels", "pipeline", "storage", "sweeps")):
    __path__.append(str(_HERE.resolve().parent))


if not TYPE_CHECKING:  # a type checker knows the names above, and should know that there are no others

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                value = version("sweep-clustering")
            except PackageNotFoundError:  # a checkout on the import path that nobody installed
                value = "0+unknown"
        elif name in _PLACES:
            from sweep_clustering.installation import check_files

            check_files()
            value = getattr(import_module(_PLACES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
