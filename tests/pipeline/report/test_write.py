"""The report of a small cube on disk."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from cubes import toy
from cubes.reported import PLANS, make

from pipeline.commands.main import main
from pipeline.report.write import Report, write_report
from sweeps.errors import InputError


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("report")
    return write_report(make(folder, *PLANS), folder / "out")


def test_csv_files_hold_the_tables(report: Report) -> None:
    files = {file.name: file for file in report.files}
    assert {file.name for file in report.files if file.parent.name != "figures"} == {
        "report.html", "report.txt", "summary.csv", "cells.csv", "times.csv", "winners.csv", "ranks.csv",
        "pairs.csv", "robustness.csv",
    }  # fmt: skip
    assert files["report.txt"].read_text(encoding="utf-8") == report.text
    for name, table in (("summary.csv", report.summary), ("cells.csv", report.cells)):
        stored = pd.read_csv(files[name], dtype=dict.fromkeys(("m", "mixture", "replicate"), "Int64"))
        pd.testing.assert_frame_equal(stored, table, check_dtype=False)
    assert {"dataset", "n_clusters", "p", "m", "m_over_n", "model", "score"} < set(report.summary)
    assert files["nmi.svg"].read_text(encoding="utf-8").startswith("<?xml")
    assert files["nmi.png"].read_bytes().startswith(b"\x89PNG")


def test_without_true_labels_there_is_a_page_all_the_same(tmp_path: Path) -> None:
    report = write_report(make(tmp_path, toy.plan("own", has_labels=False)), tmp_path / "out")
    figures = {file.stem for file in report.files if file.parent.name == "figures"}
    assert figures == {"agreement", "cell-unsupervised", "cell-annotated", "gaps", "restarts", "seconds"}
    assert all(file.stat().st_size > 1000 for file in report.files if file.parent.name == "figures")


def test_what_is_no_cube_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        write_report(tmp_path / "none.zarr", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_of_the_output_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    cube = make(tmp_path, toy.plan("iris"))
    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(InputError, match="found a file, expected a folder"):
            write_report(cube, folder)


def test_every_bad_option_is_said_at_once_with_exit_code_2(tmp_path: Path) -> None:
    cube = make(tmp_path, toy.plan("iris"))
    table = tmp_path / "theirs.csv"
    table.write_text("p,m\n")
    options = ["--against", str(table), "--cell", "irys/unsupervised", "--out", str(table)]
    result = CliRunner().invoke(main, ["report", str(cube), *options])
    assert result.exit_code == 2
    for words in ("a folder to write to", "one column 'metric'", "did you mean 'iris'?"):
        assert words in result.stderr


def test_somebody_else_may_read_the_cube_but_not_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pipeline.report.write.read_failures", refused)
    monkeypatch.setattr("pipeline.report.write.read_lease", refused)
    cube = make(tmp_path, toy.plan("alone", models=(), p=(), m=()))
    assert write_report(cube, tmp_path / "out").page.is_file()
