"""A damaged cube of a real sweep, repaired and submitted again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cubes.rot import turn_bit
from processes.sweeping import assert_same_bits, run, write_spec

from pipeline.commands.main import main
from pipeline.prepare.repair import repair_cube
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


def sweep(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_repaired_and_submitted_again_it_has_the_same_bits(
    finished: Path, cube: Path, tmp_path: Path
) -> None:
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


def test_progress_is_passed_on(cube: Path) -> None:
    seen: list[str] = []

    def progress(keys: list[str]) -> list[str]:
        seen.extend(keys)
        return keys

    assert repair_cube(cube, data_dir=None, dry_run=True, progress=progress).damaged == ()
    assert len(seen) > 100
