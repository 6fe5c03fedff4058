"""The commands that check cubes and set them right: what they print, and how they end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cubes.rot import turn_bit

from pipeline.commands.cubes import progress_bar
from pipeline.commands.main import main


@pytest.fixture
def damaged(finished: Path, tmp_path: Path) -> Path:
    cube = Path(shutil.copytree(finished / "tiny.zarr", tmp_path / "tiny.zarr"))
    turn_bit(cube / "iris/labels/c.0.0.0.0.0")
    return cube


def sweep(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_files_are_read_and_no_cell_is_computed(
    finished: Path, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.work.tasks._run", None)
    good = sweep("verify", finished / "tiny.toml", "--results", finished, "--checksums")
    assert good.exit_code == 0
    assert " files are as they were written, " in good.stdout
    bad = sweep("verify", damaged, "--checksums")
    assert bad.exit_code == 1
    assert (
        "\n  iris/labels/c.0.0.0.0.0: has changed since it was written; it holds iris/labels of 4 cells"
        in bad.stdout
    )
    assert sweep("verify", damaged, "--checksums", "--json").stdout.startswith("{")


def test_a_repair_says_what_it_would_do_and_does_it(damaged: Path) -> None:
    would = sweep("repair", damaged, "--dry-run")
    done = sweep("repair", damaged)
    assert (would.exit_code, done.exit_code) == (0, 0)
    assert "4 cells would be set back, in these blocks:\n  iris/p=0.8/m=75/replicates=0:2\n" in would.stdout
    assert "4 cells are set back, in these blocks:\n" in done.stdout
    assert would.stderr.endswith(f"next: sweep repair {damaged}\n")
    assert done.stderr.splitlines()[-1].startswith("next: sweep submit ")
    assert sweep("verify", damaged, "--checksums").exit_code == 0
    assert sweep("status", damaged, "--json").stdout.count('"left": 4') == 2  # of iris, and of all


@pytest.mark.parametrize("command", [["verify", "--checksums"], ["repair"], ["repair", "--dry-run"]])
def test_what_is_no_cube_is_bad_input(tmp_path: Path, command: list[str]) -> None:
    for path in (tmp_path / "none.zarr", tmp_path):
        result = sweep(*command, path)
        assert result.exit_code == 2
        assert "nothing was started" in result.stderr


def test_progress_passes_every_file_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress_bar(["a", "b"])) == ["a", "b"]
    assert capsys.readouterr().out == ""
