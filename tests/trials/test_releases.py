"""Cubes of every released format are opened, verified, reported and grown by this version."""

import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr
from checkout import ROOT
from cubes.small import files, read_whole, result_files
from processes.sweeping import run

from sweep_clustering.pipeline.check import verify
from sweep_clustering.pipeline.monitor.status import read_status
from sweep_clustering.pipeline.report.write import write_export, write_report
from sweep_clustering.pipeline.scoring.raw import read_raw
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.pipeline.work.records import from_record
from sweep_clustering.storage.cube.blocks import UNPROMISED
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import FORMAT_VERSIONS, read_manifest
from sweep_clustering.storage.cube.schema import DONE
from sweep_clustering.storage.damage import scan
from sweep_clustering.storage.provenance import fingerprint, software_differences, unrecorded
from sweep_clustering.storage.runfolder.folder import RunFolder
from sweep_clustering.storage.runfolder.journal import replay
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.plan import AskedPath
from sweep_clustering.sweeps.shapes import ROWS
from sweep_clustering.sweeps.words import SOLVERS

ARCHIVES = sorted((ROOT / "tests" / "fixtures").glob("format-*.tar.gz"))
MOST_BYTES = 205_000


class Release(NamedTuple):
    """What an archive holds: cells by state, paths that `verify` asks again, answers in the journal; and of
    the grown sweep its cells, and the replacements in the sweep file that grow it."""

    pending: int
    done: int
    cells: int
    paths: int = 0
    answers: int = 0
    grows: tuple[tuple[str, str], ...] = (("replicates = 2", "replicates = 4"),)


RELEASES = {
    "format-2": Release(pending=24, done=30, cells=6 + 2 * 48),
    "format-2-several": Release(
        pending=96,
        done=105,
        cells=3 * (4 + (2 * 2 * 3 * 2) * (3 * 2)),
        paths=5,
        answers=8,
        grows=(
            ('"active"]', '"active", "biased"]'),
            ('[[search]]\nname = "published"', '[[search]]\nname = "long"\n\n[[search]]\nname = "published"'),
        ),
    ),
    "format-2-any": Release(pending=24, done=27, cells=3 + 2 * 48),  # these cells have no Gaussians
    "format-3": Release(pending=24, done=27, cells=3 + 2 * 48),
    "format-3-named": Release(
        pending=48,
        done=54,
        cells=3 * (3 + 2 * 2 * 3 * 3 * 2),
        grows=(
            ("replicates = 2", "replicates = 3"),
            ('name = "pairs"', 'name = "short"\ngenerations = 1\n[[search]]\nname = "pairs"'),
        ),
    ),
    "format-5": Release(pending=24, done=27, cells=3 + 2 * 48),
    "format-4": Release(
        pending=48,
        done=51,
        cells=3 + 2 * 2 * 3 * 4 * 2 * 3,
        grows=(("replicates = 2", "replicates = 4"), ('"crowd"]', '"crowd", "near"]')),
    ),
}


# Archives that the default tests read, and those whose sweeps they run, too; .ci/run reads and runs them all.
QUICK = ("format-2", "format-2-several", "format-5")
RUN = ("format-2", "format-5")


def of_archives(quick: Sequence[str]) -> Any:
    """Run a test for each archive, as a slow one for those that are not quick."""
    names = sorted(RELEASES)
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]
    )


@pytest.fixture
def release(name: str) -> Release:
    return RELEASES[name]


@pytest.fixture
def folder(name: str, tmp_path: Path) -> Path:
    """Unpack an archive: sweep file, table, cube, and run folder with a cell in its journal."""
    with tarfile.open(ROOT / "tests" / "fixtures" / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def publish(spec: Path, name: str) -> Path:
    """Give a file of an earlier release, which knew one method of search, the name of that method."""
    if name == "format-2":
        spec.write_text(spec.read_text().replace("\n[search]\n", '\n[search]\nmethod = "published"\n'))
    return spec


def states(cube: Path) -> np.ndarray:
    nodes = [node for node in open_cube(cube).subtree if "status" in node.data_vars]
    return np.concatenate([node["status"].values.ravel() for node in nodes])


def test_there_are_those_of_these_formats_and_all_are_small() -> None:
    assert set(RELEASES) == {path.name.partition(".")[0] for path in ARCHIVES}
    assert {int(name.split("-")[1]) for name in RELEASES} == set(FORMAT_VERSIONS)
    assert sum(path.stat().st_size for path in ARCHIVES) < MOST_BYTES


@pytest.mark.usefixtures("without_sections")
@of_archives(QUICK)
def test_it_opens_is_whole_and_is_shown(name: str, release: Release, folder: Path) -> None:
    cube = folder / "release.zarr"
    assert read_manifest(cube).format_version == int(name.split("-")[1])
    tree = open_cube(cube).load()
    assert set(tree.children) == {"points", "mixtures_k2"}
    assert np.bincount(states(cube)).tolist() == [release.pending, release.done]
    assert np.isfinite(tree["points"].sel(p=0.9)["log_likelihood"].max("restart").values).all()
    assert read_whole(cube)["points"]["m"].values.tolist() == [7, 14]
    assert scan(cube).good
    report = write_report(cube, folder / "report")
    assert report.page.is_file()
    assert len(report.cells) == release.pending + release.done
    assert report.cells["nmi"].count() == release.done
    status = read_status(cube)
    assert status.to_dict()["total"]["left"] == release.pending
    assert status.lines()[-1] == "not running: submit again to resume"


@of_archives(QUICK)
def test_its_cells_are_computed_again(name: str, release: Release, folder: Path) -> None:
    cube = folder / "release.zarr"
    verification = verify(cube, sample=1000)
    assert len(verification.checks) == release.done
    assert len(verification.paths) == release.paths
    assert [check.cause for check in verification.checks if check.cause] == []
    # Fits of classes of any shape have begun at other starts since the archive of format 2 was made.
    assert ("solver of conditional-any: 1 (runs 1 to 2)" in verification.software) == (name == "format-2-any")
    # An archive does not say which instructions of the processor its code had, so bits may be others here.
    if not verification.software and not verification.unrecorded:
        assert verification.good, verification.lines()


@of_archives(RUN)
def test_it_grows_keeps_what_it_held_and_does_not_compute_what_its_journal_holds(
    name: str, release: Release, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube = folder / "release.zarr"
    records = list(replay(RunFolder(cube).last_run.journal))
    partials = [partial for record in records if "partials" in record[0] for partial in from_record(*record)]
    (cell,) = {partial.span.unit for partial in partials}
    solve, ask = Mock(wraps=tasks.run_cell), Mock(wraps=tasks.ask_batch)
    monkeypatch.setattr(tasks, "run_cell", solve)
    monkeypatch.setattr(tasks, "ask_batch", ask)
    spec = publish(folder / "release.toml", name)
    text = spec.read_text()
    before = result_files(cube)
    for old, new in release.grows:
        assert old in text
        text = text.replace(old, new)
    spec.write_text(text)
    assert run(spec, folder) == 0
    assert result_files(cube).items() >= before.items()
    assert cell not in [call.args[1].unit for call in solve.call_args_list]
    n_known = [len(call.args[2]) for call in ask.call_args_list if call.args[1] == AskedPath.of(cell)]
    assert min(n_known, default=0) == release.answers
    node = open_cube(cube)["points"]
    where = ("p", "m", "design", "replicate", "search", "model")
    cell_data = node.sel({name: getattr(cell, name) for name in where if name in node.dims})
    for partial in partials:
        best = cell_data["log_likelihood"].values[partial.span.start : partial.span.stop]
        assert best.tobytes() == partial.objectives.tobytes()
    assert (states(cube) == DONE).all()
    assert len(states(cube)) == release.cells
    assert read_manifest(cube).runs[-1].fingerprint.items() >= fingerprint(read_manifest(cube).spec).items()


@pytest.mark.parametrize("name", ["format-2-any"])
def test_cells_of_another_solver_are_another_software(
    release: Release, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cube, spec = folder / "release.zarr", folder / "release.toml"
    assert "solver" not in read_manifest(cube).software
    for old, new in release.grows:
        spec.write_text(spec.read_text().replace(old, new))
    assert run(spec, folder) == 0
    version = SOLVERS["union of Gaussians"]
    words = f"solver of conditional-any: 1 (runs 1 to 2), {version} (run 3)"
    assert words in caplog.text
    assert words in read_manifest(cube).software
    assert words.replace("(run 3)", "(run 3, here)") in verify(cube, sample=1).software
    (path,) = write_export(cube, folder / "export", "raw")
    assert [software.get("solver of conditional-any") for software in read_raw(path).head.made_with] == [
        "1",
        str(version),
    ]


@pytest.mark.parametrize("name", ["format-2"])  # its sweep file names no method of search
def test_its_own_file_asks_for_another_search_now_and_is_refused(folder: Path) -> None:
    before = files(folder)
    with pytest.raises(InputError) as caught:
        run(folder / "release.toml", folder)
    (problem,) = caught.value.problems
    assert problem.where.endswith("release.zarr: search.method")
    assert problem.value == "'strong'"
    assert problem.expected == "'published', as in the cube"
    lengths = "population = 3, offspring = 2, generations = 2"  # with a method, the file has these lengths
    assert f'write method = "published", {lengths} under [search]' in problem.hint
    assert files(folder) == before


@pytest.mark.parametrize("name", ["format-2"])  # its sweep file names no method of search
def test_the_old_keys_name_its_search_as_well(folder: Path) -> None:
    spec = folder / "release.toml"
    keys = 'patience = 0\ncrossover = "centroids"\nmutation = 1.0\nrelocation = "annotated"\n'
    spec.write_text(spec.read_text().replace("[search]\n", f"[search]\n{keys}"))
    assert run(spec, folder) == 0
    assert (states(folder / "release.zarr") == DONE).all()


# What has an order of clusters or of Gaussians.
ORDERED = ("centroids", "covariances", *ROWS)


def compare_winners(rerun: xr.Dataset, expected: xr.Dataset) -> None:
    """Compare winners: last bits name the best of equal restarts, whose clusters may have another order."""
    scores = expected["log_likelihood"]
    best = [scores.isel(restart=data["best_restart"]).values for data in (rerun, expected)]
    np.testing.assert_allclose(*best, rtol=1e-9)
    together, pairs = (data["labels"] == data["labels"].rename(sample="other") for data in (rerun, expected))
    assert together.equals(pairs)
    is_same = rerun["best_restart"] == expected["best_restart"]
    names = {"labels", *ORDERED} & set(expected.data_vars)
    for variable in names:
        values = [data[variable].where(is_same).values for data in (rerun, expected)]
        # fits of several components a class take a few steps more than they did when releases were made
        np.testing.assert_allclose(*values, rtol=1e-5)
    for variable in names - {"labels"}:
        values = [data[variable].where(~is_same).values for data in (rerun, expected)]
        shape = (*is_same.shape, -1)
        np.testing.assert_allclose(*(np.sort(data.reshape(shape)) for data in values), rtol=1e-9)


def copy_inputs(folder: Path) -> Path:
    """Copy the table and the sweep file of a release, and return the folder of the copies."""
    elsewhere = folder / "again"
    elsewhere.mkdir()
    for file in ("points.csv", "release.toml"):
        shutil.copy(folder / file, elsewhere)
    return elsewhere


@of_archives(RUN)
def test_a_new_run_finds_what_it_found(name: str, folder: Path) -> None:
    elsewhere = copy_inputs(folder)
    spec = publish(elsewhere / "release.toml", name)
    spec.write_text(spec.read_text().replace("p = [0.9, 1.0]", "p = [0.9]"))
    assert run(spec, elsewhere) == 0
    old, new = (open_cube(place / "release.zarr").load() for place in (folder, elsewhere))
    (first, *_) = read_manifest(folder / "release.zarr").made_with
    here = fingerprint()
    is_same = not software_differences([("there", first), ("here", here)]) and not unrecorded(first, here)
    for node in (data.path for data in old.subtree if "status" in data.data_vars):
        rerun, expected = (tree[node].to_dataset() for tree in (new, old))
        if "p" in expected.dims:
            rerun, expected = (data.sel(p=0.9) for data in (rerun, expected))
        # another solver has fitted classes of any shape since releases were made
        models = [model for model in expected["model"].values if model != "conditional-any"]
        rerun, expected = (data.sel(model=models) for data in (rerun, expected))
        shared = {"log_likelihood", "annotations", "base_rate"} & set(expected.data_vars)
        winners = {"labels", "best_restart", *ORDERED} & set(expected.data_vars)
        if is_same:
            for variable in shared | winners:
                assert rerun[variable].values.tobytes() == expected[variable].values.tobytes()
        else:
            for variable in shared:
                np.testing.assert_allclose(rerun[variable].values, expected[variable].values, rtol=1e-9)
            compare_winners(rerun, expected)


@pytest.mark.parametrize("name", ["format-2"])
def test_it_grows_by_classes_of_any_shape_as_a_new_run_has_them(name: str, folder: Path) -> None:
    spec = publish(folder / "release.toml", name)
    spec.write_text(
        spec.read_text().replace('"posterior"]', '"posterior", "conditional", "conditional-any"]')
    )
    elsewhere = copy_inputs(folder)
    before = result_files(folder / "release.zarr")
    assert run(spec, folder) == run(elsewhere / "release.toml", elsewhere) == 0
    cube = folder / "release.zarr"
    assert result_files(cube).items() >= before.items()
    assert read_manifest(cube).format_version == 3
    assert scan(cube).good
    grown, whole = (open_cube(place / "release.zarr").load() for place in (folder, elsewhere))
    for dataset in ("points", "mixtures_k2"):
        data, expected = (tree[dataset].to_dataset().sel(model="conditional-any") for tree in (grown, whole))
        assert (data["component_class"].isel(component=0) >= 0).all()
        for variable in set(expected.data_vars) - set(UNPROMISED):
            assert data[variable].values.tobytes() == expected[variable].values.tobytes(), variable
