"""Classes of any shape in sweeps: what is chosen once, split, journalled, grown by and read back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from processes.sweeping import TINY, assert_same_bits, run, write_spec

import kernels.choice.structures
from kernels.settings import STRUCTURE, Structure, settings_of
from pipeline.commands.main import main
from pipeline.fit.solve import fit
from pipeline.report.components import solution_of
from pipeline.work import tasks
from pipeline.work.journalled import from_record, to_record
from pipeline.work.records import Science, Solved, Span, Task
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from sweeps.file.search import Search
from sweeps.inputs import RealSource
from sweeps.plan import Cell, find_cell

RNG = np.random.default_rng(3)
LABELS = np.repeat(np.arange(3, dtype=np.int16), 20)
SOURCE = RealSource(RNG.normal(size=(60, 2)) + 2.0 * LABELS[:, np.newaxis], LABELS)
ANY = Cell("blobs", None, 0.9, 60, 0, "conditional-any")
SCIENCE = Science(11, (Search(),), 3)


def solve(*spans: Span[Cell], science: Science = SCIENCE) -> list[Solved]:
    results = tasks.run_task(Task(science, "blobs", spans, 1.0), SOURCE)
    assert all(isinstance(result, Solved) for result in results), results
    return results  # type: ignore[return-value]


def test_restarts_of_any_split_have_the_same_bits_and_one_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,), (first,) = solve(Span(ANY, 0, 4)), solve(Span(ANY, 0, 1))
    assert whole.chosen is not None
    assert first.chosen == whole.chosen
    structure = Structure.of(whole.chosen.structure)
    assert (whole.shape, whole.covariances.shape) == ("spherical", (3,))
    assert np.isfinite(whole.chosen.held_out[0])
    assert np.isnan(whole.chosen.held_out[1:]).all()
    header, arrays = to_record([first])
    (read,) = from_record(header, arrays)
    assert read.chosen.is_same(first.chosen)
    arrays["structure"][0, 1] = 0
    with pytest.raises(ValueError, match="codes"):
        from_record(header, arrays)
    monkeypatch.setattr(kernels.choice.structures, "choose_structure", None)
    (rest,) = solve(Span(ANY, 1, 4, chosen=first.chosen))
    assert np.concatenate([first.objectives, rest.objectives]).tobytes() == whole.objectives.tobytes()
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
        (one,) = solve(Span(cell, 0, 2), science=Science(11, (search,), 3))
        assert one.covariances.shape == shape
        assert one.chosen is None
        (scored,) = solve(Span(cell, 0, 2), science=Science(11, (replace(search, held_out=True),), 3))
        assert scored.objectives.tobytes() == one.objectives.tobytes()
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
    assert len(plain.solution.union.weights) == 9


@pytest.mark.parametrize("code", range(8))
def test_structures_have_codes(code: int) -> None:
    first = Structure("none", 4, "diagonal")
    every = [
        Structure(5, 2, "full"),
        Structure("none", 1, "k-means", annotated=False),
        Structure("none", 1, "tied", proportions="equal", annotated=False),
        Structure("discriminative", 4, "spherical", first=first),
    ]
    for each in every:
        assert len(each.codes) == len(STRUCTURE)
        assert Structure.of(each.codes) == each
    wrong = list(every[-1].codes)
    wrong[code] = -7
    with pytest.raises((ValueError, IndexError)):
        Structure.of(wrong)


def test_sweep_grows_by_classes_of_any_shape_and_is_verified_and_shown(tmp_path: Path) -> None:
    text = TINY.replace('["unsupervised", "likelihood", "posterior"]', '["posterior"]')
    for key, few in (
        ("p = [0.8, 1.0]", "p = [0.9]"),
        ("restarts = 5", "restarts = 2"),
        ('"0.5N", "1N"', '"1N"'),
    ):
        text = text.replace(key, few)
    text = text.replace("n_clusters = [2, 3], count = 2", "n_clusters = [2], count = 1").replace(
        ', "iris"]', "]"
    )
    more = text.replace('["posterior"]', '["posterior", "conditional-any"]')
    grown, whole = tmp_path / "grown", tmp_path / "whole"
    assert run(write_spec(tmp_path, text), grown) == 0
    assert run(write_spec(tmp_path, more), grown) == 0
    assert run(write_spec(tmp_path, more), whole, batch_restarts=1) == 0
    assert_same_bits(grown / "tiny.zarr", whole / "tiny.zarr")
    tree = xr.open_datatree(str(whole / "tiny.zarr"), engine="zarr")
    (structure,) = (node["structure"] for node in tree.subtree if "structure" in node)
    assert structure.dims[-1] == "part"
    assert structure["part"].values.tolist() == list(STRUCTURE)
    found = structure.sel(model="conditional-any").values.reshape(-1, len(STRUCTURE))
    assert all(Structure.of(codes).codes == tuple(codes) for codes in found.tolist())
    assert (structure.sel(model="posterior").values == -1).all()
    verified = CliRunner().invoke(main, ["verify", str(whole / "tiny.zarr")], catch_exceptions=False)
    assert verified.exit_code == 0
    assert "same bits" in verified.output
    cell = "mixtures_k2/mixture=0/p=0.9/m=30/replicate=0/conditional-any"
    command = ["report", str(whole / "tiny.zarr"), "--cell", cell]
    shown = CliRunner().invoke(main, command, catch_exceptions=False)
    assert shown.exit_code == 0
    assert "what classes are made of" in shown.output
    assert (whole / "tiny.report" / "structures.csv").exists()
    page = (whole / "tiny.report" / "report.html").read_text(encoding="utf-8")
    assert "What classes are made of" in page
    assert "fitted again from the cube" in page
    manifest = read_manifest(whole / "tiny.zarr")
    again = solution_of(open_cube(whole / "tiny.zarr"), manifest, find_cell(cell, manifest.plans.values()))
    (labels,) = (node["labels"] for node in tree.subtree if "structure" in node)
    kept = labels.sel(model="conditional-any").isel(mixture=0, p=0, m=0, replicate=0)
    assert again.union.labels.tolist() == kept.values.tolist()


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
    found = CliRunner().invoke(main, ["plan", str(spec)])
    assert found.exit_code == 2
    assert expected in found.output
