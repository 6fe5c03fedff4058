"""Whether every file of a cube is as it was written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner
from cubes.rot import turn_bit

from pipeline.commands.main import main
from pipeline.monitor.checksums import Checksums, check_files
from storage.damage import Damage


def test_every_file_of_a_finished_cube_is_good(finished: Path) -> None:
    found = check_files(finished / "tiny.zarr")
    files = [file for file in (finished / "tiny.zarr").rglob("c*") if file.is_file()]
    assert (found.files, found.size) == (len(files), sum(file.stat().st_size for file in files))
    assert found.good


def test_the_summary_in_words() -> None:
    lines = Checksums(Path("x.zarr"), 1234, 2_500_000, 0.5, ()).lines()
    assert lines == ["x.zarr: 1,234 files are as they were written, 2.5 MB in 0.5 s (5 MB/s)"]
    damage = Damage("a/X/c.0", "a/X, chunk c.0", "is missing")
    assert Checksums(Path("x.zarr"), 1, 1, 0.5, (damage,)).lines()[1:] == [
        "damaged files: 1",
        "  a/X/c.0: is missing; it holds a/X, chunk c.0",
        "to have them made again: sweep repair x.zarr",
    ]


def test_the_command_names_all_that_is_damaged(finished: Path, tmp_path: Path) -> None:
    cube = Path(shutil.copytree(finished / "tiny.zarr", tmp_path / "tiny.zarr"))
    assert CliRunner().invoke(main, ["verify", str(cube), "--checksums"]).exit_code == 0
    keys = ["iris/labels/c.0.0.0.0.0", "iris/status/c.0.0.0.0", "iris/X/c.0.0"]
    for key in keys:
        turn_bit(cube / key)
    result = CliRunner().invoke(main, ["verify", str(cube), "--checksums", "--json"])
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["good"] is False
    assert {damage["key"] for damage in document["damaged"]} == set(keys)
