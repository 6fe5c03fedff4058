"""Cubes of every format that was released: opened, verified, reported and grown by this version."""

from __future__ import annotations

import tarfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from checkout import ROOT
from cubes.small import read_whole, result_files
from processes.sweeping import run

import pipeline.work.tasks
from pipeline.check.verify import check_files, verify
from pipeline.monitor.status import read_status
from pipeline.report.write import write_report
from pipeline.work.merge import from_record
from pipeline.work.records import Partial, Science, Work
from storage.cube.growth import open_cube
from storage.cube.manifest import FORMAT_VERSION, read_manifest
from storage.cube.schema import DONE
from storage.provenance import fingerprint
from storage.runfolder.folder import RunFolder
from storage.runfolder.journal import replay
from sweeps.errors import InputError
from sweeps.inputs import Source

ARCHIVES = sorted((ROOT / "tests" / "fixtures").glob("format-*.tar.gz"))
MOST_BYTES = 100_000


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unpacked archive: sweep file, table, cube, and run folder with a cell in its journal."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def published(spec: Path) -> Path:
    """Give a file of an earlier release, which knew one method of search, the name of that method."""
    spec.write_text(spec.read_text().replace("[search]\n", '[search]\nmethod = "published"\n'))
    return spec


def states(cube: Path) -> np.ndarray:
    nodes = [node for node in open_cube(cube).subtree if "status" in node.data_vars]
    return np.concatenate([node["status"].values.ravel() for node in nodes])


def test_there_is_one_of_this_format_and_all_are_small() -> None:
    assert f"format-{FORMAT_VERSION}.tar.gz" in [path.name for path in ARCHIVES]
    assert sum(path.stat().st_size for path in ARCHIVES) < MOST_BYTES


def test_it_opens_and_every_file_is_good(folder: Path) -> None:
    cube = folder / "release.zarr"
    tree = open_cube(cube).load()
    assert set(tree.children) == {"points", "mixtures_k2"}
    assert np.bincount(states(cube)).tolist() == [24, 30]  # pending, done
    assert np.isfinite(tree["points"].sel(p=0.9)["log_likelihood"].max("restart").values).all()
    assert read_whole(cube)["points"]["m"].values.tolist() == [7, 14]
    assert check_files(cube).good


def test_its_cells_are_computed_again(folder: Path) -> None:
    cube = folder / "release.zarr"
    verification = verify(cube, sample=1000)
    assert len(verification.checks) == 10 + 2 * 10  # of the points, and of each mixture
    assert [check.cause for check in verification.checks if check.cause] == []
    (first, *_) = read_manifest(cube).runs
    if first.fingerprint == fingerprint():
        assert verification.good, verification.lines()


@pytest.mark.usefixtures("page_alone")
def test_it_is_reported(folder: Path) -> None:
    report = write_report(folder / "release.zarr", folder / "report")
    assert report.page.is_file()
    assert len(report.cells) == 54
    assert report.cells["nmi"].count() == 30


def test_its_run_is_shown(folder: Path) -> None:
    found = read_status(folder / "release.zarr")
    assert found.to_dict()["total"]["left"] == 24
    assert found.lines()[-1] == "not running: submit again to resume"


def test_what_its_journal_holds_is_not_computed_again(folder: Path) -> None:
    cube = folder / "release.zarr"
    records = list(replay(RunFolder(cube).last_run.journal))
    partials = [partial for record in records for partial in from_record(*record)]
    (cell,) = {partial.work.cell for partial in partials}
    noted: list[Work] = []

    def note(science: Science, work: Work, source: Source) -> Partial:
        noted.append(work)
        return solve(science, work, source)

    solve = pipeline.work.tasks._run
    with patch("pipeline.work.tasks._run", note):
        assert run(published(folder / "release.toml"), folder) == 0
    assert cell not in [work.cell for work in noted]
    kept = open_cube(cube)["points"].sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
    for partial in partials:
        found = kept["log_likelihood"].values[partial.work.start : partial.work.stop]
        assert found.tobytes() == partial.objectives.tobytes()
    assert (states(cube) == DONE).all()


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_its_own_file_asks_for_another_search_now_and_is_refused(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(InputError) as caught:
        run(folder / "release.toml", folder)
    (problem,) = caught.value.problems
    assert problem.where.endswith("release.zarr: search.method")
    assert problem.found.startswith("'strong' (")
    assert problem.expected.startswith("'published' (")
    lengths = "population = 3, offspring = 2, generations = 2"  # of this file: with a method they are its own
    assert f'write method = "published", {lengths} under [search]' in problem.hint
    assert contents(folder) == before


def test_the_old_keys_name_its_search_as_well(folder: Path) -> None:
    spec = folder / "release.toml"
    keys = 'patience = 0\ncrossover = "centroids"\nmutation = 1.0\nrelocation = "annotated"\n'
    spec.write_text(spec.read_text().replace("[search]\n", f"[search]\n{keys}"))
    assert run(spec, folder) == 0
    assert (states(folder / "release.zarr") == DONE).all()


def test_the_published_method_finds_what_it_found(folder: Path) -> None:
    elsewhere = folder / "again"
    elsewhere.mkdir()
    for name in ("points.csv", "release.toml"):
        (elsewhere / name).write_bytes((folder / name).read_bytes())
    assert run(published(elsewhere / "release.toml"), elsewhere) == 0
    old, new = (open_cube(place / "release.zarr").load() for place in (folder, elsewhere))
    (first, *_) = read_manifest(folder / "release.zarr").runs
    for node in ("points", "mixtures_k2"):
        found, expected = (tree[node].sel(p=0.9) for tree in (new, old))
        for name in ("log_likelihood", "labels", "centroids", "covariances", "best_restart"):
            if first.fingerprint == fingerprint():
                assert found[name].values.tobytes() == expected[name].values.tobytes()
            else:
                np.testing.assert_allclose(found[name].values, expected[name].values, rtol=1e-9)


def test_it_grows_and_what_it_held_stays(folder: Path) -> None:
    cube, spec = folder / "release.zarr", published(folder / "release.toml")
    text = spec.read_text()
    before = result_files(cube)
    assert "replicates = 2" in text
    spec.write_text(text.replace("replicates = 2", "replicates = 4"))
    assert run(spec, folder) == 0
    assert result_files(cube).items() >= before.items()
    assert (states(cube) == DONE).all()
    assert len(states(cube)) == 6 + 2 * 48
