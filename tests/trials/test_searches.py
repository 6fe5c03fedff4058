"""Sweeps of several searches: paired with each other, and the same bits however they are run."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from processes.sweeping import assert_same_bits, kill_when, run, write_spec

from pipeline.check.verify import verify
from pipeline.monitor.status import read_status
from pipeline.monitor.why import explain
from pipeline.report.compare import write_comparison
from pipeline.report.write import write_report
from pipeline.scoring.scores import store_scores
from pipeline.scoring.tables import cell_table
from storage.cube.blocks import UNPROMISED
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE
from sweeps.errors import InputError

SPEC = """
name = "tiny"
seed = 5
[grid]
datasets = ["iris", {name = "drawn", mixture = {n_clusters = [3], count = 2, n_samples = 30, n_features = 2}}]
p = [0.8]
m = [20, 30]
replicates = 2
models = ["unsupervised", "likelihood", "posterior-auto"]
methods = ["pckmeans", "k-means"]
restarts = 2
design = ["uniform", "active"]
[ask]
batch = 15
restarts = 1
covariance = "spherical"
"""
QUICK = {"method": '"published"', "population": "3", "offspring": "2", "generations": "1"}
# "longer" is "quick" with more generations: from the same stream it is never worse
SEARCHES = {
    "quick": QUICK,
    "longer": QUICK | {"generations": "3"},
    "prior": QUICK | {"covariance_prior": "2.0"},
}
N_INPUTS = 3
N_CELLS = N_INPUTS * ((2 * 2 * 2) * 3 * 3 + 3 + 1)


def table(head: str, settings: dict[str, str]) -> str:
    return "\n".join([head, *(f"{key} = {value}" for key, value in settings.items()), ""])


def spec(folder: Path, *names: str) -> Path:
    """A sweep of some searches by name, or of the only one that is given without its name."""
    folder.mkdir(exist_ok=True)
    if len(names) == 1:
        return write_spec(folder, SPEC + table("[search]", SEARCHES[names[0]]))
    return write_spec(
        folder, SPEC + "".join(table(f'[[search]]\nname = "{name}"', SEARCHES[name]) for name in names)
    )


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    assert run(spec(folder, *SEARCHES), folder) == 0
    return folder / "tiny.zarr"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Cubes of one search each."""
    cubes = {}
    for name in SEARCHES:
        folder = tmp_path_factory.mktemp(name)
        assert run(spec(folder, name), folder) == 0
        cubes[name] = folder / "tiny.zarr"
    return cubes


def test_the_cube_has_a_dimension_of_searches(reference: Path) -> None:
    tree = xr.open_datatree(reference, engine="zarr", chunks={})
    node = tree["drawn_k3"]
    assert node["labels"].dims == ("mixture", "p", "m", "design", "replicate", "search", "model", "sample")
    assert node["annotations"].dims == ("mixture", "p", "m", "design", "replicate", "annotation", "field")
    assert node["search"].values.tolist() == ["quick", "longer", "prior"]
    assert node["unsupervised"]["status"].dims == ("mixture", "search")
    assert tree["iris/k-means"]["status"].dims == (), "a method does not search"
    assert sum(int((each["status"] == DONE).sum()) for each in tree.subtree if "status" in each) == N_CELLS
    chunks = node["labels"].encoding["preferred_chunks"]
    assert (chunks["search"], chunks["model"]) == (1, 1)


@pytest.mark.parametrize("name", SEARCHES)
def test_each_search_has_the_bits_of_a_sweep_of_its_own(
    reference: Path, alone: dict[str, Path], name: str
) -> None:
    """Streams do not depend on the search, so that differences between searches are paired."""
    tree, single = open_cube(reference), open_cube(alone[name])
    assert [node.path for node in tree.subtree] == [node.path for node in single.subtree]
    for node in single.subtree:
        here, there = tree[node.path].to_dataset(), node.to_dataset()
        here = here.sel(search=name, drop=True) if "search" in here.dims else here
        for key in set(there.data_vars) - set(UNPROMISED):
            assert here[key].dims == there[key].dims
            assert here[key].values.tobytes() == there[key].values.tobytes(), (node.path, key)


def test_local_workers_give_the_bits_of_the_serial_run(reference: Path, tmp_path: Path) -> None:
    assert run(spec(tmp_path, *SEARCHES), tmp_path, workers=2) == 0
    assert_same_bits(reference, tmp_path / "tiny.zarr")


def test_cells_of_every_search_are_verified(reference: Path) -> None:
    found = verify(reference, sample=N_CELLS)
    assert found.good
    assert len(found.checks) == N_CELLS
    assert {
        name.partition("search=")[2].partition("/")[0] for name in (each.cell for each in found.checks)
    } == {
        *SEARCHES,
        "",
    }


def test_grown_by_a_search_it_is_as_made_at_once(
    reference: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cube = tmp_path / "tiny.zarr"
    assert run(spec(tmp_path, "quick", "longer"), tmp_path) == 0
    before = {path: path.read_bytes() for path in cube.rglob("c.*") if "annotations" not in path.parts}
    with caplog.at_level(logging.INFO):
        assert run(spec(tmp_path, "prior", "quick", "longer"), tmp_path) == 0
    assert_same_bits(reference, cube)
    assert all(path.read_bytes() == bytes_ for path, bytes_ in before.items() if path.parent.name != "search")
    with pytest.raises(
        InputError, match="search: found one search, expected also searches prior, quick, longer"
    ):
        run(spec(tmp_path, "quick"), tmp_path)


def test_killed_it_resumes_with_the_same_bits(reference: Path, tmp_path: Path) -> None:
    file, cube = spec(tmp_path, *SEARCHES), tmp_path / "tiny.zarr"

    def third_done() -> bool:
        return cube.exists() and sum(each.done for each in read_status(cube).datasets) >= N_CELLS // 3

    kill_when(third_done, file, tmp_path, "--workers", "2")
    assert run(file, tmp_path) == 0
    assert_same_bits(reference, cube)


def test_a_cell_is_named_with_its_search(reference: Path) -> None:
    cell = "iris/p=0.8/m=20/design=active/replicate=1/search=longer/posterior-auto"
    assert explain(reference, cell).state == "done"
    with pytest.raises(InputError, match="did you mean 'longer'"):
        explain(reference, cell.replace("longer", "longr"))


@pytest.mark.usefixtures("page_alone")
def test_the_report_compares_searches(reference: Path, tmp_path: Path) -> None:
    report = write_report(reference, tmp_path / "report")
    assert "What follows is of quick, but for searches." in " ".join(report.text.split())
    assert "search longer beside quick, the same cells in pairs" in report.text
    page = report.page.read_text(encoding="utf-8")
    assert "How solutions were searched for" in page
    names = {file.name for file in report.files}
    assert {"searches.csv", "search-costs.csv", "search-longer.svg", "search-prior.png"} <= names
    table = pd.read_csv(tmp_path / "report" / "searches.csv")
    assert set(table["model"]) == {"unsupervised", "likelihood", "posterior-auto"}, "methods do not search"
    assert set(table.loc[table["search"] == "longer", "score"]) == {"objective", "nmi", "adjusted_rand"}
    assert set(table.loc[table["search"] == "prior", "score"]) == {"nmi", "adjusted_rand"}
    cells = report.cells
    assert len(cells) == N_CELLS
    assert cells["search"].isna().sum() == N_INPUTS
    assert set(report.summary["search"].dropna()) == set(SEARCHES)
    longer = table[
        (table["search"] == "longer") & (table["dataset"] == "iris") & (table["score"] == "objective")
    ]
    shares = longer[["wins_a", "wins_b", "ties"]].sum(axis=1)
    np.testing.assert_allclose(shares, 1.0)
    assert (longer["wins_a"] == 0).all(), "the same stream, and more generations"


def test_scores_are_those_of_sweeps_of_one_search(reference: Path, alone: dict[str, Path]) -> None:
    """The divergence depends on the prior, which is another one in each search."""
    cells = cell_table(open_cube(reference), read_manifest(reference).plans)
    for name, cube in alone.items():
        single = cell_table(open_cube(cube), read_manifest(cube).plans)
        here = cells[(cells["search"] == name) | cells["search"].isna()]
        keys = ["dataset", "mixture", "p", "m", "design", "replicate", "model"]
        both = here.merge(single, on=keys, suffixes=("", "_alone"))
        assert len(both) == len(single) == len(here)
        for score in ("objective", "nmi", "goldberger_kl", "relative_nmi"):
            np.testing.assert_array_equal(both[score], both[f"{score}_alone"])


def test_a_sweep_of_one_search_is_compared_by_its_settings(
    reference: Path, alone: dict[str, Path], tmp_path: Path
) -> None:
    found = write_comparison(alone["longer"], reference, tmp_path, ["nmi"])
    assert set(found.pairs["search"].dropna()) == {"longer"}
    assert (found.pairs["difference"].dropna() == 0).all()
    own = (N_CELLS - N_INPUTS) // 3
    assert found.pairs["search"].notna().sum() == own
    assert (found.unpaired["why"] == "only in B").all()
    assert len(found.unpaired) == 2 * own
    assert found.unpaired["cell"].str.contains("search=").all()


def test_stored_scores_have_the_dimension(reference: Path) -> None:
    path, _ = store_scores(reference, open_cube(reference))
    stored = xr.open_datatree(path, engine="zarr")
    assert stored["iris"]["nmi"].dims == ("p", "m", "design", "replicate", "search", "model")
    assert stored["iris/unsupervised"]["nmi"].dims == ("search",)
