"""In sweeps of merged groups a cell is a direct fit, and its Gaussians come back from the cube."""

import html
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubes.small import make_plan
from processes.commandline import sweep
from processes.sweeping import assert_same_bits, run, write_spec
from solving.direct import direct_fits
from solving.same import assert_same_gaussians

from sweep_clustering.kernels import structure as module
from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.problem.data import layers_from_annotations
from sweep_clustering.kernels.settings import Settings
from sweep_clustering.kernels.unions.table import Table
from sweep_clustering.pipeline.check import verify
from sweep_clustering.pipeline.scoring.scores import components, gaussians_of
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.records import Chosen, Science
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.cube.schema import GROUPS_TEXT, STRUCTURE_TEXT, array_specs
from sweep_clustering.sweeps.file.search import Search, unions_of
from sweep_clustering.sweeps.file.spec import Crowd
from sweep_clustering.sweeps.inputs import RealSource, cell_annotations
from sweep_clustering.sweeps.plan import find_cell
from sweep_clustering.sweeps.shapes import from_rows, room_for, to_rows

N_CLASSES = 32

SWEEP = """
name = "people"
seed = 5
[grid]
datasets = [{name = "rows", path = "rows.csv", label_column = "class"}]
p = [0.9]
m = ["4N"]
design = ["near"]
replicates = 1
models = ["conditional-groups"]
restarts = 2
"""


@pytest.fixture(scope="module")
def source() -> RealSource:
    """Return thirty-two classes of 2 to 20 rows in six features."""
    rng = np.random.default_rng(0)
    sizes = rng.permutation(np.geomspace(2, 20, N_CLASSES).astype(int))
    labels = np.repeat(np.arange(N_CLASSES, dtype=np.int16), sizes)
    X = rng.normal(size=(N_CLASSES, 6))[labels] + 0.35 * rng.normal(size=(len(labels), 6))
    return RealSource(X, labels)


def fit_groups(structure: module.Structure, X: Any, n_classes: int) -> Gaussians:
    """Return merged groups of some rows with a few answers."""
    annotations = np.column_stack([np.arange(20), np.arange(20) + 3, np.arange(20) % 2]).astype(np.int32)
    table = Table(X, n_classes, np.random.SeedSequence(0))
    layers = layers_from_annotations(annotations, 0.9)
    return table.solve(structure, layers, np.random.default_rng(0)).bare


@pytest.mark.parametrize(("linkage", "components"), [*product(module.LINKAGES, (1, 8)), (module.SIGNED, 1)])
@pytest.mark.parametrize("space", [module.NONE, module.METRIC, module.WEIGHTS, module.MOST_LEARNED])
def test_rows_of_merged_groups_give_back_the_same_bits(linkage: str, components: int, space: Any) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, module.MOST_LEARNED + 5 if space == module.MOST_LEARNED else 6))
    if space == module.METRIC:
        X[:, 5] = X[:, 0] - X[:, 1]  # a metric has no more directions than the rank
    structure = module.Structure(space, components, linkage, proportions="equal")
    gaussians = fit_groups(structure, X, 3)
    room = room_for("groups", Settings(), *X.shape, 3)
    for rows in (to_rows(gaussians), to_rows(gaussians, room)):
        assert_same_gaussians(from_rows(rows, X.shape[1], 3), gaussians)
    damaged = to_rows(gaussians, room)
    damaged["component_class"][len(gaussians.class_of) - 1] = -1
    with pytest.raises(ValueError, match="that cannot be"):
        from_rows(damaged, X.shape[1], 3)


@pytest.mark.parametrize("space", [module.NONE, module.MOST_LEARNED])
@pytest.mark.parametrize("first_space", [module.NONE, module.METRIC])
def test_rows_of_linear_functions_give_back_the_same_bits(space: Any, first_space: Any) -> None:
    n_features = module.MOST_LEARNED + 5 if space == module.MOST_LEARNED else 6
    X = np.random.default_rng(3).normal(size=(90, n_features))
    first = module.Structure(space if first_space == module.NONE else first_space, 8, module.LINKAGES[0])
    structure = module.Structure(space, 1, module.LINEAR, first=first)
    gaussians = fit_groups(structure, X, 3)
    rows = to_rows(gaussians, room_for("groups", Settings(), *X.shape, 3))
    assert_same_gaussians(from_rows(rows, X.shape[1], 3), gaussians)


@pytest.mark.usefixtures("undrawn")
def test_cell_of_a_sweep_is_a_direct_fit_and_can_be_fitted_again(tmp_path: Path, source: RealSource) -> None:
    table = np.column_stack([source.X, source.labels_true])
    header = ",".join([*"abcdef", "class"])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header=header, comments="", fmt="%.17g")
    spec = write_spec(tmp_path, SWEEP)
    assert run(spec, tmp_path / "results") == 0
    assert run(spec, tmp_path / "split", batch_restarts=1) == 0
    cube = tmp_path / "results" / "people.zarr"
    assert_same_bits(cube, tmp_path / "split" / "people.zarr")
    manifest, tree = read_manifest(cube), open_cube(cube)
    (plan,) = manifest.plans.values()
    cell = find_cell(f"rows/p=0.9/m={4 * len(source.X)}/design=near/replicate=0/conditional-groups", [plan])
    node = tree["rows"].to_dataset()
    place = node.isel(dict.fromkeys(node["status"].dims, 0))
    annotations = cell_annotations(5, cell, source, Crowd())
    assert place["annotations"].values.tolist() == annotations.tolist()
    science = Science.of(manifest.spec, plan)
    fits = direct_fits(cell, science, 2, source, has_groups=True)
    best = max(range(2), key=lambda number: fits[number].objective)
    assert place["log_likelihood"].values.tolist() == [fit.objective for fit in fits]
    assert place["labels"].values.tolist() == fits[best].labels.tolist()
    stored = gaussians_of(place)
    assert_same_gaussians(stored, fits[best].bare.gaussians)
    assert stored is not None
    assert stored.structure.covariance in module.LINKAGES
    assert float(place["held_out"][0]) < float(place["distance_rate"])
    assert place["structure"].attrs["long_name"] == GROUPS_TEXT
    structure = tuple(place["structure"].values.tolist())
    solver = tasks.solver_of(
        science,
        cell,
        place["X"].values.astype(float),
        place["annotations"].values.astype(np.int32),
        Chosen("spherical", (), (), structure=structure),
    )
    again = solver.restart(tasks.stream_of(science, cell, int(place["best_restart"])))
    assert again.labels.tolist() == place["labels"].values.tolist()
    assert_same_gaussians(again.bare.gaussians, stored)
    assert verify(cube, sample=1).good
    parts = components(tree, "rows", p=0.9, m=cell.m, replicate=0, model="conditional-groups")
    assert parts.attrs["structure"] == str(stored.structure)
    assert parts.attrs["held_out"] < parts.attrs["distance_rate"]
    assert sweep("report", cube, "--cell", cell).exit_code == 0
    folder = cube.with_suffix(".report")
    (table,) = folder.rglob("structures.csv")
    assert "linkage" in table.read_text(encoding="utf-8")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"Its classes are made of {stored.structure}" in html.unescape(page)


def test_cubes_without_groups_have_the_rows_and_words_that_they_had() -> None:
    plan = make_plan("a", models=("conditional-any", "conditional"))
    plan = replace(plan, unions=unions_of([Search()], plan))
    arrays = {spec.variable.name: spec.variable for spec in array_specs(plan)}
    assert "distance_rate" not in arrays
    assert arrays["structure"].text == STRUCTURE_TEXT
    assert STRUCTURE_TEXT.endswith(
        "subspace 0 none, -2 discriminative;"
        " covariance 0 spherical, 1 common, 2 diagonal, 3 tied, 4 full, 5 k-means"
    )
    with_groups = replace(plan, models=("conditional-any", "conditional-groups"), unions=())
    assert "distance_rate" in {spec.variable.name for spec in array_specs(with_groups)}


@pytest.mark.parametrize(
    ("n_samples", "n_features", "n_classes", "megabytes"),
    [(3_000, 100, 80, 0.9), (60_000, 768, 100, 1.5)],
)
def test_rows_of_groups_take_the_memory_that_the_documents_name(
    n_samples: int, n_features: int, n_classes: int, megabytes: float
) -> None:
    room = room_for("groups", Settings(), n_samples, n_features, n_classes)
    size = 10 * room.components + 8 * room.entries
    assert 0.5e6 * megabytes < size < 1e6 * megabytes
