"""The public names of the package are stable, documented, and loaded only on demand."""

import doctest
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT
from cubes.small import SPEC, draw_inputs, filled_cube, make_plan, with_unions

import sweep_clustering
from sweep_clustering.storage.cube.growth import create

NAMES = ["AnnotatedClustering", "AnnotatedClusteringWarning", "DamagedChunk", "LinkScorer", "NoSolution"]
NAMES += ["Solution", "baseline_scores", "components", "load_sweep", "open_cube", "scores"]
OURS = {f"sweep_clustering.{folder}" for folder in ("kernels", "pipeline", "storage", "sweeps")}
LIBRARIES = {"click", "dask", "distributed", "matplotlib", "numba", "numpy"}
LIBRARIES |= {"pandas", "pydantic", "scipy", "sklearn"}
RESULTS = {"sweep_clustering.storage", "xarray", "distributed"}


def loaded_packages(code: str) -> set[str]:
    """Return packages, and our folders, that a fresh process has loaded after some code."""
    code += "; import sys; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, check=True, text=True
    )
    parts = [name.split(".") for name in process.stdout.split()]
    return {".".join(part[:length]) for part in parts for length in (1, 2)}


def test_the_names_are_these() -> None:
    assert sweep_clustering.__all__ == NAMES
    assert set(NAMES) <= set(dir(sweep_clustering))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sweep of the examples and its empty cube, and with a cube of shapes."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "sweeps", folder / "sweeps", ignore=shutil.ignore_patterns("*.py"))
    plans = [make_plan("iris"), make_plan("mixtures_k3", mixtures=3)]
    create(folder / "results" / "quick.zarr", plans, draw_inputs, SPEC)
    grid = {"m": (75,), "n_samples": 150, "n_features": 4, "n_clusters": 3}
    shapes = with_unions(make_plan("iris", models=("conditional-any",), **grid))
    filled_cube(folder / "results" / "shapes.zarr", [shapes])
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_name_runs(name: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    assert f"`{name}`" in (sweep_clustering.__doc__ or "")
    value = getattr(sweep_clustering, name)
    assert getattr(sweep_clustering, name) is value
    assert "Parameters\n----------\n" in inspect.cleandoc(value.__doc__)
    (example,) = doctest.DocTestFinder(recurse=False).find(value, name, globs={})
    assert re.search(rf">>> from sweep_clustering import .*\b{name}\b", example.docstring)
    assert doctest.DocTestRunner().run(example).failed == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'sweep_clustering' has no attribute 'opencube'"):
        sweep_clustering.opencube  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'opencube'"):
        exec("from sweep_clustering import opencube")


def test_a_name_loads_what_it_needs_alone() -> None:
    names = loaded_packages("import sweep_clustering; dir(sweep_clustering); sweep_clustering.__version__")
    assert not names & (OURS | LIBRARIES | {"xarray", "zarr"})
    assert not loaded_packages("from sweep_clustering import load_sweep") & (RESULTS | {"numba"})
    assert not loaded_packages("from sweep_clustering import AnnotatedClustering") & RESULTS
