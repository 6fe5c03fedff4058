"""The names that `pipeline` gives: stable, documented, and loaded only when one is asked for."""

import doctest
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT
from cubes.small import SPEC, draw_inputs, fill, make_plan, with_unions

import pipeline
from storage.cube.growth import create

NAMES = ["AnnotatedClustering", "LinkScorer", "NoSolution", "Solution"]
NAMES += ["baseline_scores", "components", "load_sweep", "open_cube", "scores"]
HEAVY = {
    "click", "dask", "distributed", "kernels", "matplotlib", "numba", "numpy", "pandas", "pydantic", "scipy",
    "sklearn", "storage", "sweeps", "xarray", "zarr",
}  # fmt: skip


def loaded(code: str) -> set[str]:
    """Packages that a fresh process has loaded after some code."""
    code += "; import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return set(done.stdout.split())


def test_the_names_are_these() -> None:
    assert pipeline.__all__ == NAMES
    assert set(NAMES) <= set(dir(pipeline))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sweep of the examples and its cube, in which nothing is done yet, and one of shapes."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "sweeps", folder / "sweeps", ignore=shutil.ignore_patterns("*.py"))
    plans = [make_plan("iris"), make_plan("mixtures_k3", mixtures=3)]
    create(folder / "results" / "quick.zarr", plans, draw_inputs, SPEC)
    grid = {"m": (75,), "n_samples": 150, "n_features": 4, "n_clusters": 3}
    shapes = with_unions(make_plan("iris", models=("conditional-any",), **grid))
    create(folder / "results" / "shapes.zarr", [shapes], draw_inputs, SPEC)
    fill(folder / "results" / "shapes.zarr", [shapes])
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_name_runs(name: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    assert f"`{name}`" in (pipeline.__doc__ or "")
    value = getattr(pipeline, name)
    assert getattr(pipeline, name) is value
    assert "Parameters\n----------\n" in inspect.cleandoc(value.__doc__)
    (example,) = doctest.DocTestFinder(recurse=False).find(value, name, globs={})
    assert re.search(rf">>> from pipeline import .*\b{name}\b", example.docstring)
    assert doctest.DocTestRunner().run(example).failed == 0


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'pipeline' has no attribute 'opencube'"):
        pipeline.opencube  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'opencube'"):
        exec("from pipeline import opencube")


def test_a_name_loads_what_it_needs_alone() -> None:
    assert not loaded("import pipeline; dir(pipeline)") & HEAVY
    assert not loaded("from pipeline import load_sweep") & {"numba", "storage", "xarray", "distributed"}
    assert not loaded("from pipeline import AnnotatedClustering") & {"storage", "xarray", "distributed"}
