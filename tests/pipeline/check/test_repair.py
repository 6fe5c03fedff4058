"""A damaged cube of a real sweep, repaired and submitted again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cubes.rot import turn_bit
from processes.sweeping import assert_same_bits, run, write_spec

from pipeline.commands.main import main
from storage.cube.manifest import ROOT_FILE
from storage.runfolder.lease import Lease

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
    """The cube with the folder of its run, which holds a digest of every file."""
    shutil.copytree(finished / "tiny.run", cube.with_name("tiny.run"))
    return cube


def sweep(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_repaired_and_submitted_again_it_has_the_same_bits(
    finished: Path, cube: Path, tmp_path: Path
) -> None:
    found = sweep("verify", cube, "--checksums")
    files = sum(file.is_file() for file in cube.rglob("c*"))
    assert f"\n{files} files not checked for being in the right place" in found.stdout  # there are no digests
    for key in DAMAGED:
        turn_bit(cube / key)
    assert sweep("verify", cube, "--checksums").exit_code == 1
    would = sweep("repair", cube, "--dry-run")
    assert would.exit_code == 0
    assert sweep("verify", cube, "--checksums").exit_code == 1
    done = sweep("repair", cube)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == f"{cube}: damaged files: 7"
    for key in ("iris/X/c.0.0", "mixtures_k2/X/c.0.0.0", "mixtures_k3/p/c.0"):
        assert f"\nmade again: {key}\n" in done.stdout
        assert f"\nwould be made again: {key}\n" in would.stdout
    assert "13 cells are set back, in these blocks:\n" in done.stdout
    assert done.stdout.splitlines()[-1] == f"  sweep submit SPEC --results {tmp_path}"
    again = sweep("repair", cube)
    assert (again.exit_code, again.stdout) == (
        0,
        f"{cube}: every file is as it was written, nothing to repair\n",
    )
    assert run(write_spec(tmp_path), tmp_path) == 0
    assert_same_bits(finished / "tiny.zarr", cube)
    assert sweep("verify", cube, "--checksums").exit_code == 0


def test_data_that_has_changed_is_not_put_into_the_cube(cube: Path) -> None:
    root = cube / ROOT_FILE
    document = json.loads(root.read_bytes())
    document["attributes"]["datasets"]["iris"]["checksum"] = "0" * 64
    document["consolidated_metadata"]["metadata"]["iris"]["attributes"]["checksum"] = "0" * 64
    root.write_text(json.dumps(document))
    turn_bit(cube / "iris/X/c.0.0")
    before = (cube / "iris/X/c.0.0").read_bytes()
    done = sweep("repair", cube)
    assert done.exit_code == 1
    assert "cannot be made again: iris/X/c.0.0: data set iris, checksum: found '" in done.stdout
    assert (cube / "iris/X/c.0.0").read_bytes() == before


def test_a_cube_that_is_being_written_is_left_alone(cube: Path) -> None:
    turn_bit(cube / "iris/labels/c.0.0.0.0.0")
    before = (cube / "iris/labels/c.0.0.0.0.0").read_bytes()
    with Lease.acquire(cube):
        result = sweep("repair", cube)
        assert result.exit_code == 1
        assert "is being written by" in result.stderr
        assert sweep("repair", cube, "--dry-run").exit_code == 0
    assert (cube / "iris/labels/c.0.0.0.0.0").read_bytes() == before


def test_no_cube_is_bad_input(tmp_path: Path) -> None:
    assert sweep("repair", tmp_path / "none.zarr").exit_code == 2
    (tmp_path / "tiny.zarr").mkdir()
    assert sweep("repair", tmp_path / "tiny.zarr").exit_code == 2
    assert not (tmp_path / "tiny.run").exists()


def pairs(cube: Path) -> dict[str, tuple[str, str]]:
    """Two chunk files of an array, each of which is as good as the other; of each array that has such."""
    found: dict[str, tuple[str, str]] = {}
    for first in sorted(cube.rglob("c.*")):
        for other in sorted(first.parent.glob("c.*")):
            if other.read_bytes() != first.read_bytes():
                found[first.parent.name] = str(first.relative_to(cube)), str(other.relative_to(cube))
    return found


def swap(cube: Path, first: str, second: str) -> None:
    contents = (cube / first).read_bytes(), (cube / second).read_bytes()
    (cube / first).write_bytes(contents[1])
    (cube / second).write_bytes(contents[0])


def test_whole_files_in_the_place_of_others_are_found_and_computed_again(
    finished: Path, noted: Path, tmp_path: Path
) -> None:
    assert "not checked" not in sweep("verify", noted, "--checksums").stdout
    swapped = pairs(noted)
    assert {"labels", "log_likelihood", "centroids", "seconds", "annotations"} <= set(swapped)
    for pair in swapped.values():
        swap(noted, *pair)
    found = json.loads(sweep("verify", noted, "--checksums", "--json").stdout)
    assert {damage["key"] for damage in found["damaged"]} == {
        key for pair in swapped.values() for key in pair
    }
    assert sweep("repair", noted).exit_code == 0
    assert sweep("verify", noted, "--checksums").exit_code == 0
    assert run(write_spec(tmp_path), tmp_path) == 0
    assert_same_bits(finished / "tiny.zarr", noted)
    assert sweep("verify", noted, "--checksums").exit_code == 0


def other_seed(content: bytes) -> bytes:
    document = json.loads(content)
    document["attributes"]["spec"]["seed"] += 1
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "change",
    [
        other_seed,
        lambda content: content.replace(b'"p": [0.8, 1.0]', b'"p": [0.7, 1.0]'),
        lambda content: content[:100],
        None,
    ],
    ids=["seed", "p", "torn", "gone"],
)
def test_a_root_file_that_no_run_wrote_is_found_and_put_back(
    noted: Path, tmp_path: Path, change: Callable[[bytes], bytes] | None
) -> None:
    root = noted / ROOT_FILE
    before = root.read_bytes()
    if change is None:
        root.unlink()
    else:
        root.write_bytes(change(before))
        assert root.read_bytes() != before
    found = sweep("verify", noted, "--checksums")
    assert found.exit_code == 1, found.output
    assert f"  {ROOT_FILE}: " in found.stdout
    refused = sweep("submit", write_spec(tmp_path), "--results", tmp_path, "--workers", 0)
    assert refused.exit_code == 2
    assert "sweep repair puts it back" in refused.stderr
    assert f"would be made again: {ROOT_FILE}" in sweep("repair", noted, "--dry-run").stdout
    done = sweep("repair", noted)
    assert done.exit_code == 0
    assert f"\nmade again: {ROOT_FILE}\n" in done.stdout
    assert root.read_bytes() == before
    assert sweep("verify", noted, "--checksums").exit_code == 0
    assert run(write_spec(tmp_path), tmp_path) == 0
