"""In sweeps, classes of any shape are chosen once, split, journalled, grown by and read back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from cubes.small import make_plan, result_files
from processes.commandline import succeed, sweep
from processes.sweeping import TINY, assert_same_bits, run, write_spec
from scipy.stats import multivariate_normal
from solving.direct import direct_fits
from solving.same import assert_same_gaussians

from sweep_clustering.kernels.fits import Fit
from sweep_clustering.kernels.settings import settings_of
from sweep_clustering.kernels.structure import STRUCTURE, Structure
from sweep_clustering.kernels.unions import race
from sweep_clustering.pipeline.check import verify
from sweep_clustering.pipeline.fit.solve import fit
from sweep_clustering.pipeline.scoring.scores import components, gaussians_of
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.records import Science, Solved, Span, Task, from_record, to_record
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.damage import scan
from sweep_clustering.sweeps.errors import InputError, present
from sweep_clustering.sweeps.file.search import Search, unions_of
from sweep_clustering.sweeps.file.spec import Mixtures
from sweep_clustering.sweeps.inputs import MixtureSource, RealSource, Source
from sweep_clustering.sweeps.plan import Cell, find_cell

RNG = np.random.default_rng(3)
LABELS = np.repeat(np.arange(3, dtype=np.int16), 20)
SOURCE = RealSource(RNG.normal(size=(60, 2)) + 2.0 * LABELS[:, np.newaxis], LABELS)
ANY = Cell("blobs", None, 0.9, 60, 0, "conditional-any")
SCIENCE = Science(11, (Search(),), 3)


SIZES = {"n_samples": 60, "n_clusters": 3, "m": (60,), "restarts": 4}
PLAN = make_plan("blobs", models=("conditional-any", "conditional-full"), **SIZES)


def best_restart(cell: Cell, science: Science, restarts: int, source: Source = SOURCE) -> Fit:
    """Return the best restart of a cell, fitted without a sweep."""
    return max(direct_fits(cell, science, restarts, source), key=lambda fit: fit.objective)


def solve(*spans: Span[Cell], science: Science = SCIENCE) -> list[Solved]:
    results = tasks.run_task(Task(science, "blobs", spans, 1.0), SOURCE)
    assert all(isinstance(result, Solved) for result in results), results
    return results  # type: ignore[return-value]


def test_restarts_of_any_split_have_the_same_bits_and_one_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,), (first,) = solve(Span(ANY, 0, 4)), solve(Span(ANY, 0, 1))
    assert whole.chosen is not None
    assert first.chosen == whole.chosen
    structure = Structure.from_codes(whole.chosen.structure)
    assert whole.shape == "spherical"
    assert whole.covariances.shape == (3,)
    assert np.isfinite(whole.chosen.held_out[0])
    assert np.isnan(whole.chosen.held_out[1:]).all()
    header, arrays = to_record([first])
    assert_same_gaussians(whole.gaussians, best_restart(ANY, SCIENCE, 4).bare.gaussians)
    plans = {"blobs": replace(PLAN, unions=unions_of([Search()], PLAN))}
    (copy,) = from_record(header, arrays, plans)
    assert copy.chosen.is_same(first.chosen)
    assert np.isfinite(copy.chosen.base_rate)
    assert_same_gaussians(copy.gaussians, first.gaussians)
    for name, at, wrong in (("component_class", 0, 3), ("component_values", 15, np.nan)):
        damaged = {**arrays, name: arrays[name].copy()}
        damaged[name][at] = wrong
        with pytest.raises(ValueError, match="of Gaussians that cannot be"):
            from_record(header, damaged, plans)
    older = replace(first, gaussians=None)  # a version that kept none wrote such records
    assert from_record(*to_record([older]), {"blobs": PLAN})[0].gaussians is None
    with pytest.raises(ValueError, match="without Gaussians"):
        from_record(*to_record([older]), plans)
    arrays["structure"][0, 1] = 0
    with pytest.raises(ValueError, match="codes"):
        from_record(header, arrays)
    monkeypatch.setattr(race, "choose_structure", None)
    (later,) = solve(Span(ANY, 1, 4, chosen=first.chosen))
    assert np.concatenate([first.objectives, later.objectives]).tobytes() == whole.objectives.tobytes()
    assert str(structure)
    assert whole.labels.shape == (60,)


def test_named_components_are_those_of_every_restart() -> None:
    search = replace(Search(), components=3, subspace=1)
    for model, shape in (
        ("conditional-full", (3, 2, 2)),
        ("unsupervised-diagonal", (3, 2)),
        ("conditional", (3,)),
    ):
        cell = replace(ANY, model=model)
        if model.startswith("unsupervised"):
            cell = Cell("blobs", None, None, None, None, model)
        (named,) = solve(Span(cell, 0, 2), science=Science(11, (search,), 3))
        assert named.covariances.shape == shape
        assert named.chosen is None
        assert named.gaussians is not None
        assert len(named.gaussians.weights) == 9
        assert named.gaussians.means.shape == (9, 1)
        assert named.gaussians.structure == Structure(1, 3, cell.model.partition("-")[2] or "spherical")
        (copy,) = from_record(*to_record([named]))
        assert_same_gaussians(copy.gaussians, named.gaussians)
        (scored,) = solve(Span(cell, 0, 2), science=Science(11, (replace(search, held_out=True),), 3))
        assert scored.objectives.tobytes() == named.objectives.tobytes()
        assert (scored.chosen is None) == model.startswith("unsupervised")
    plain = fit(
        SOURCE.X,
        n_clusters=3,
        model="unsupervised",
        covariance="diagonal",
        restarts=1,
        seed=0,
        settings=settings_of({"components": 3, "subspace": 1}),
    )
    assert plain.solution is not None
    assert len(plain.solution.weights) == 9


@pytest.mark.usefixtures("undrawn")
def test_sweep_grows_by_classes_of_any_shape_and_is_verified_and_shown(tmp_path: Path) -> None:
    text = TINY.replace('["unsupervised", "likelihood", "posterior"]', '["posterior"]')
    for key, few in (
        ("p = [0.8, 1.0]", "p = [0.9]"),
        ("restarts = 5", "restarts = 2"),
        ('"0.5N", "1N"', '"1N"'),
    ):
        text = text.replace(key, few)
    text = text.replace("n_clusters = [2, 3], count = 2", "n_clusters = [2], count = 1")
    text = text.replace(', "iris"]', "]")
    more = text.replace('["posterior"]', '["posterior", "conditional-any"]')
    grown, whole = tmp_path / "grown", tmp_path / "whole"
    assert run(write_spec(tmp_path, text), grown) == 0
    assert not [name for name in result_files(grown / "tiny.zarr") if "component" in name or "base" in name]
    before = result_files(grown / "tiny.zarr")
    assert run(write_spec(tmp_path, more), grown) == 0
    assert result_files(grown / "tiny.zarr").items() >= before.items()
    assert run(write_spec(tmp_path, more), whole, batch_restarts=1) == 0
    assert_same_bits(grown / "tiny.zarr", whole / "tiny.zarr")
    tree = xr.open_datatree(str(whole / "tiny.zarr"), engine="zarr")
    (structure,) = (node["structure"] for node in tree.subtree if "structure" in node)
    assert structure.dims[-1] == "part"
    assert structure["part"].values.tolist() == list(STRUCTURE)
    codes_of_cells = structure.sel(model="conditional-any").values.reshape(-1, len(STRUCTURE))
    assert all(Structure.from_codes(codes).codes == tuple(codes) for codes in codes_of_cells.tolist())
    assert (structure.sel(model="posterior").values == -1).all()
    assert "all are equal" in succeed("verify", whole / "tiny.zarr").output
    cell = "mixtures_k2/mixture=0/p=0.9/m=30/replicate=0/conditional-any"
    assert sweep("report", whole / "tiny.zarr", "--cell", cell).exit_code == 0
    assert "What classes are made of" in (whole / "tiny.report" / "report.txt").read_text(encoding="utf-8")
    assert (whole / "tiny.report" / "structures.csv").exists()
    page = (whole / "tiny.report" / "report.html").read_text(encoding="utf-8")
    assert "What classes are made of" in page
    assert "in a plane of these coordinates." in page
    manifest, opened = read_manifest(whole / "tiny.zarr"), open_cube(whole / "tiny.zarr")
    (plan,) = manifest.plans.values()
    named_cell = find_cell(cell, [plan])
    parts = components(opened, "mixtures_k2", mixture=0, p=0.9, m=30, replicate=0, model="conditional-any")
    recipe = manifest.spec.grid.datasets[0]
    assert isinstance(recipe, Mixtures)
    source = MixtureSource(recipe, manifest.spec.seed)
    direct = best_restart(named_cell, Science.of(manifest.spec, plan), 2, source)
    place = opened["mixtures_k2"].sel(mixture=0, p=0.9, m=30, replicate=0, model="conditional-any")
    assert_same_gaussians(gaussians_of(place.to_dataset()), direct.bare.gaussians)
    assert place["labels"].values.tolist() == direct.labels.tolist()
    assert parts.attrs["structure"] == str(present(direct.gaussians).structure)
    assert 0 < parts.attrs["held_out"] < parts.attrs["base_rate"] < 1
    X, _ = source.arrays(0)
    Z, densities = (X - parts.center.values) @ parts.axes.values, np.zeros((len(X), 2))
    for weight, mean, matrix, group in zip(
        parts.weights.values, parts.means.values, parts.covariances.values, parts.class_of.values, strict=True
    ):
        densities[:, group] += weight * multivariate_normal(mean, matrix).pdf(Z)
    posterior = densities / densities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(posterior, present(direct.gaussians).predict_for(X).classes, atol=1e-9)
    other_cells = opened["mixtures_k2"].sel(model="posterior")
    assert (other_cells["component_class"] == -1).all()
    assert other_cells["component_values"].isnull().all()


SEVERAL = """
name = "tiny"
seed = 99
[grid]
datasets = [{mixture = {n_clusters = [2], count = 1, n_samples = 30, n_features = 3}}]
p = [0.9]
m = ["1N"]
replicates = 1
models = ["unsupervised", "conditional-full"]
restarts = 2
[[search]]
name = "plain"
[[search]]
name = "longer"
generations = 30
"""


def test_named_components_of_one_search_are_kept_and_grown_by(tmp_path: Path) -> None:
    named = SEVERAL + '[[search]]\nname = "pairs"\ncomponents = 2\nsubspace = 2\n'
    grown, whole = tmp_path / "grown", tmp_path / "whole"
    assert run(write_spec(tmp_path, SEVERAL), grown) == 0
    before = result_files(grown / "tiny.zarr")
    assert run(write_spec(tmp_path, named), grown) == 0
    assert result_files(grown / "tiny.zarr").items() >= before.items()
    assert run(write_spec(tmp_path, named), whole) == 0
    assert_same_bits(grown / "tiny.zarr", whole / "tiny.zarr")
    assert scan(grown / "tiny.zarr").good
    assert verify(grown / "tiny.zarr", sample=10).good
    tree = open_cube(grown / "tiny.zarr")
    where = {"mixture": 0, "p": 0.9, "m": 30, "replicate": 0, "search": "pairs"}
    parts = components(tree, "mixtures_k2", **where, model="conditional-full")
    assert parts.attrs["structure"] == "2 full in 2 principal components"
    assert parts.sizes["component"] == 4
    assert parts.sizes["axis"] == 2
    assert parts.sizes["feature"] == 3
    alone = components(tree, "mixtures_k2", mixture=0, search="pairs", model="unsupervised")
    assert alone.attrs["structure"] == "2 spherical in 2 principal components"
    assert np.isnan(alone.attrs["base_rate"])
    for names, text in (("plain", "no Gaussians"), (["plain", "pairs"], "no search")):
        with pytest.raises(InputError, match=text):
            components(tree, "mixtures_k2", **{**where, "search": names}, model="conditional-full")
    with pytest.raises(InputError, match="expected at most 4 in "):
        run(write_spec(tmp_path, named + '[[search]]\nname = "more"\ncomponents = 3\n'), grown)


@pytest.mark.parametrize(
    ("models", "search", "expected"),
    [
        (["posterior"], "components = 2", "[search] components: found 2 with 'posterior'"),
        (["conditional-any"], "subspace = 2", "[search] subspace: found 2 with 'conditional-any'"),
        (["conditional"], 'components = "auto"', "[search] components: found 'auto'"),
        (["conditional"], "components = 2\nmin_cluster_size = 3", "[search] min_cluster_size: found 3"),
        (["conditional"], "components = 0", "[search] components: found 0"),
    ],
)
def test_what_has_no_place_in_a_sweep_is_refused(
    tmp_path: Path, models: list[str], search: str, expected: str
) -> None:
    text = TINY.replace('["unsupervised", "likelihood", "posterior"]', str(models).replace("'", '"'))
    spec = write_spec(tmp_path, text + search + "\n")
    result = sweep("plan", spec)
    assert result.exit_code == 2
    assert expected in result.output
