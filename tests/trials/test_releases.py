"""Cubes of every format that was released: opened, verified, reported and grown by this version."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
from checkout import ROOT
from cubes.small import files, load, result_files
from processes.sweeping import run

from pipeline.monitor.checksums import check_files
from pipeline.report.write import write_report
from pipeline.work.verify import verify
from storage.cube.cube import open_cube
from storage.cube.manifest import FORMAT_VERSION, read_manifest
from storage.cube.schema import DONE
from storage.provenance import fingerprint

ARCHIVES = sorted((ROOT / "tests" / "fixtures").glob("format-*.tar.gz"))
MOST_BYTES = 100_000


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unpacked archive: a sweep file, its table and its cube."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def all_done(cube: Path) -> bool:
    nodes = [node for node in open_cube(cube).subtree if "status" in node.data_vars]
    return bool(nodes) and all((node["status"].values == DONE).all() for node in nodes)


def test_there_is_one_of_this_format_and_all_are_small() -> None:
    assert f"format-{FORMAT_VERSION}.tar.gz" in [path.name for path in ARCHIVES]
    assert sum(path.stat().st_size for path in ARCHIVES) < MOST_BYTES


def test_it_opens_and_every_file_is_good(folder: Path) -> None:
    cube = folder / "release.zarr"
    tree = open_cube(cube).load()
    assert set(tree.children) == {"points", "mixtures_k2"}
    assert all_done(cube)
    assert np.isfinite(tree["points"]["log_likelihood"].max("restart").values).all()
    assert load(cube)["points"]["m"].values.tolist() == [7, 14]
    assert check_files(cube).good


def test_its_cells_are_computed_again(folder: Path) -> None:
    cube = folder / "release.zarr"
    verification = verify(cube, sample=1000)
    assert len(verification.checks) == 10 + 2 * 10  # of the points, and of each mixture
    assert [check.cause for check in verification.checks if check.cause] == []
    (first, *_) = read_manifest(cube).runs
    if first.fingerprint == fingerprint():
        assert verification.good, verification.lines()


def test_it_is_reported(folder: Path) -> None:
    report = write_report(folder / "release.zarr", folder / "report")
    assert report.page.is_file()
    assert len(report.cells) == 30
    assert report.cells["nmi"].notna().all()


def test_it_grows_and_what_it_held_stays(folder: Path) -> None:
    cube, spec = folder / "release.zarr", folder / "release.toml"
    text = spec.read_text()
    before = result_files(cube)
    assert run(spec, folder) == 0  # nothing to do
    assert files(cube).items() >= before.items()
    spec.write_text(text.replace("p = [0.9]", "p = [0.9, 1.0]").replace("replicates = 2", "replicates = 4"))
    assert run(spec, folder) == 0
    assert result_files(cube).items() >= before.items()
    assert len(result_files(cube)) > 2 * len(before)
    assert all_done(cube)
