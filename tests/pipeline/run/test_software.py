"""A run that continues with other software than the cube was made with says so wherever the run is shown."""

import json
from pathlib import Path

import pytest
from processes.commandline import succeed, sweep
from processes.sweeping import run, tiny, write_spec

from sweep_clustering.storage import provenance
from sweep_clustering.storage.cube.blocks import BlockStore
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.storage.runfolder.folder import RunFolder

HERE = provenance.fingerprint()["python"]
WORDS = f"runs with different software or processors: python: {HERE} (run 1), 3.99 (run 2)"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cube that one Python began and another one finished."""
    folder = tmp_path_factory.mktemp("mixed")
    spec = write_spec(folder, tiny(99, datasets=[{"name": "iris"}], p=[0.8]))
    assert run(spec, folder) == 0
    assert read_manifest(folder / "tiny.zarr").software == ""
    assert BlockStore(folder / "tiny.zarr", read_only=True).made_here
    write_spec(folder, tiny(99, datasets=[{"name": "iris"}], p=[0.8, 1.0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance.platform, "python_version_tuple", lambda: ("3", "99", "1"))
        assert run(spec, folder) == 0
    return folder / "tiny.zarr"


def test_the_log_says_so(mixed: Path) -> None:
    log = RunFolder(mixed).log.read_text()
    assert log.count("different software") == 1
    assert f"{WORDS}; equal bits are promised only for equal software" in log


def test_status_says_so(mixed: Path) -> None:
    assert WORDS in sweep("status", mixed).stdout.splitlines()
    assert json.loads(sweep("status", mixed, "--json").stdout)["software"] == WORDS


@pytest.mark.usefixtures("undrawn")
def test_the_report_says_so(mixed: Path, tmp_path: Path) -> None:
    report = sweep("report", mixed, "--out", tmp_path).stdout
    assert WORDS in " ".join(report.split())
    assert "\nThis sweep has runs with different software" in report
    assert WORDS in (tmp_path / "report.html").read_text()


def test_verify_says_so_although_no_cell_differs(mixed: Path) -> None:
    result = succeed("verify", mixed, "--sample", 2)
    assert f"different software or processors: python: {HERE} (run 1, here), 3.99 (run 2)" in result.stdout


def test_other_bits_are_no_error_then(mixed: Path) -> None:
    assert not BlockStore(mixed, read_only=True).made_here


def test_a_cube_without_these_fields_says_nothing(mixed: Path) -> None:
    root = mixed / "zarr.json"
    document = json.loads(root.read_text())
    for record in document["attributes"]["runs"]:
        fewer = {name: record["fingerprint"][name] for name in ("sweep", "numba", "numpy", "libc", "cpu")}
        record["fingerprint"] = fewer
    older = mixed.with_name("older.zarr")
    older.mkdir()
    (older / "zarr.json").write_text(json.dumps(document))
    assert read_manifest(older).software == ""
    assert read_manifest(older).made_with[0]["python"] == HERE
