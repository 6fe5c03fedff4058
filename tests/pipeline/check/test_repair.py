"""Cubes of real sweeps: cells computed again from the cube alone, damaged ones repaired and submitted."""

import json
import shutil
from collections import Counter
from itertools import permutations
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import zarr
from click.testing import CliRunner, Result
from cubes.rot import turn_bit
from processes.sweeping import assert_same_bits, run, write_spec

from sweep_clustering.pipeline.check.verify import verify
from sweep_clustering.pipeline.commands.main import main
from sweep_clustering.pipeline.work import tasks
from sweep_clustering.storage.cube.manifest import ROOT_FILE
from sweep_clustering.storage.runfolder.lease import Lease
from sweep_clustering.sweeps.errors import InputError

DAMAGED = (
    "iris/labels/c.0.0.0.0.0",
    "iris/annotations/c.1.1.0.0.0",
    "iris/status/c.0.1.0.0",
    "iris/unsupervised/log_likelihood/c.0",
    "iris/X/c.0.0",
    "mixtures_k2/X/c.0.0.0",
    "mixtures_k3/p/c.0",
)


@pytest.fixture
def cube(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished / "tiny.zarr", tmp_path / "tiny.zarr"))


@pytest.fixture
def noted(finished: Path, cube: Path) -> Path:
    """With the folder of its run, which holds a digest of every file."""
    shutil.copytree(finished / "tiny.run", cube.with_name("tiny.run"))
    return cube


def sweep(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_every_cell_is_reproduced_or_said(cube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verification = verify(cube, sample=1000)
    assert len(verification.checks) == len({check.cell for check in verification.checks}) == 85
    assert verification.lines() == [f"{cube}: 85 of 85 cells have the same bits"]
    cells = [[check.cell for check in verify(cube, sample=5, seed=seed).checks] for seed in (1, 1, 2)]
    assert cells[0] == cells[1] != cells[2]
    assert len(set(cells[0])) == 5
    monkeypatch.setattr(tasks, "run_cell", Mock(side_effect=MemoryError("none left")))
    verification = verify(cube, sample=2)
    assert not verification.good
    assert [check.cause for check in verification.checks] == ["MemoryError: none left"] * 2
    for path in cube.rglob("status"):
        zarr.open_array(path, mode="r+")[...] = 0
    with pytest.raises(InputError, match="no cell that is done"):
        verify(cube, sample=1)


def flip(path: Path, where: tuple[int, ...]) -> None:
    """Change a value of an array, a number by its last bit."""
    array = zarr.open_array(path, mode="r+")
    value = np.asarray(array[where])
    other = np.nextafter(value, 9) if value.dtype.kind == "f" else (value + 1) % 3
    array[where] = np.where(value == value, other, 0)


FLIPPED = {
    "iris/labels": (0, 0, 0, 1, 17),
    "iris/log_likelihood": (0, 0, 1, 1, 2),
    "iris/centroids": (0, 1, 0, 1, 2, 3),
    "iris/annotations": (1, 0, 0, 3, 0),
    "mixtures_k2/unsupervised/covariances": (1, 0),
}


def test_flipped_values_are_found_and_named_and_another_machine(cube: Path) -> None:
    for path, where in FLIPPED.items():
        flip(cube / path, where)
    result = sweep("verify", cube, "--sample", 1000, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert not found["good"]
    wrong = [check for check in found["checks"] if check["differs"]]
    # both models see the annotations
    names = Counter(tuple(check["differs"]) for check in wrong)
    assert names == {(path.rpartition("/")[2],): 1 + (path == "iris/annotations") for path in FLIPPED}
    assert "iris/p=0.8/m=75/replicate=0/posterior" in [check["cell"] for check in wrong]
    document = json.loads((cube / ROOT_FILE).read_text())
    document["attributes"]["runs"][0]["fingerprint"]["cpu"] = "an abacus"
    (cube / ROOT_FILE).write_text(json.dumps(document))
    zarr.open_array(cube / "iris/labels", mode="r+")[:] = 0
    lines = sweep("verify", cube, "--sample", 40).stdout
    for words in ("\nDIFFERS iris/", "cpu: an abacus (run 1), ", "promised only for equal software"):
        assert words in lines


def test_repaired_and_submitted_it_has_the_same_bits(finished: Path, cube: Path, tmp_path: Path) -> None:
    files = sum(file.is_file() for file in cube.rglob("c*"))
    said = f"\n{files} files not checked for being in the right place"
    assert said in sweep("verify", cube, "--checksums").stdout  # there are no digests
    for key in DAMAGED:
        turn_bit(cube / key)
    before = (cube / DAMAGED[0]).read_bytes()
    would = sweep("repair", cube, "--dry-run")
    assert would.exit_code == 0
    assert sweep("verify", cube, "--checksums").exit_code == 1
    with Lease.acquire(cube):
        held = sweep("repair", cube)
    assert held.exit_code == 1
    assert (cube / DAMAGED[0]).read_bytes() == before
    assert "is being written by" in held.stderr
    done = sweep("repair", cube)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == f"{cube}: damaged files: 7"
    for key in ("iris/X/c.0.0", "mixtures_k2/X/c.0.0.0", "mixtures_k3/p/c.0"):
        assert f"\nmade again: {key}\n" in done.stdout
        assert f"\nwould be made again: {key}\n" in would.stdout
    assert "13 cells are set back, in these blocks:\n" in done.stdout
    assert done.stdout.splitlines()[-1] == f"  sweep submit SPEC --results {tmp_path}"
    again = sweep("repair", cube)
    assert again.stdout == f"{cube}: every file is as it was written, nothing to repair\n"
    assert run(write_spec(tmp_path), tmp_path) == 0
    assert_same_bits(finished / "tiny.zarr", cube)


def test_what_cannot_be_made_again_and_what_is_no_cube_is_said(cube: Path, tmp_path: Path) -> None:
    root = cube / ROOT_FILE
    text = root.read_text()
    root.write_text(text.replace(json.loads(text)["attributes"]["datasets"]["iris"]["checksum"], "0" * 64))
    turn_bit(cube / "iris/X/c.0.0")
    done = sweep("repair", cube)
    assert done.exit_code == 1
    assert "cannot be made again: iris/X/c.0.0: data set iris, checksum: found '" in done.stdout
    (tmp_path / "other.zarr").mkdir()
    for name in ("none.zarr", "other.zarr"):
        assert sweep("repair", tmp_path / name).exit_code == 2
    assert not (tmp_path / "other.run").exists()


def test_whole_files_in_the_place_of_others_are_found(finished: Path, noted: Path, tmp_path: Path) -> None:
    assert "not checked" not in sweep("verify", noted, "--checksums").stdout
    swapped = {}  # two chunk files of each array, each of which is as good as the other
    for first, other in permutations(sorted(noted.rglob("c.*")), 2):
        if first.parent == other.parent and other.read_bytes() != first.read_bytes():
            swapped[first.parent.name] = first, other
    assert {"labels", "log_likelihood", "centroids", "seconds", "annotations"} <= set(swapped)
    for first, other in swapped.values():
        first.rename(noted / "first")
        other.rename(first)
        (noted / "first").rename(other)
    found = json.loads(sweep("verify", noted, "--checksums", "--json").stdout)
    keys = {str(file.relative_to(noted)) for pair in swapped.values() for file in pair}
    assert not found["good"]
    assert {damage["key"] for damage in found["damaged"]} == keys
    assert sweep("repair", noted).exit_code == 0
    assert run(write_spec(tmp_path), tmp_path) == 0
    assert_same_bits(finished / "tiny.zarr", noted)
    assert sweep("verify", noted, "--checksums").exit_code == 0


def test_a_root_file_that_no_run_wrote_is_found_and_put_back(noted: Path, tmp_path: Path) -> None:
    root = noted / ROOT_FILE
    before = root.read_bytes()
    for content in (before.replace(b'"seed": 99', b'"seed": 98'), before[:100], None):
        assert content != before
        root.unlink()
        if content is not None:
            root.write_bytes(content)
        found = sweep("verify", noted, "--checksums")
        assert found.exit_code == 1, found.output
        assert f"  {ROOT_FILE}: " in found.stdout
        refused = sweep("submit", write_spec(tmp_path), "--results", tmp_path, "--workers", 0)
        assert refused.exit_code == 2
        assert "sweep repair puts it back" in refused.stderr
        assert f"would be made again: {ROOT_FILE}" in sweep("repair", noted, "--dry-run").stdout
        assert f"\nmade again: {ROOT_FILE}\n" in sweep("repair", noted).stdout
        assert root.read_bytes() == before
        assert sweep("verify", noted, "--checksums").exit_code == 0
