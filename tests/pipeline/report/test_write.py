"""The report of a small cube on disk."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from cubes import toy

from pipeline.commands.main import main
from pipeline.report.text import render
from pipeline.report.write import Report, write_report
from pipeline.scoring.tables import cell_table, summary_table
from storage.cube.cube import open_cube
from storage.cube.manifest import append_run, read_manifest
from sweeps.errors import InputError
from sweeps.models import MODEL_CODES
from sweeps.plan import DatasetPlan

RUN = {
    "started": "2026-01-02T03:04:05Z",
    "host": "node",
    "fingerprint": {"sweep": "0.1.0", "numba": "0.62.0", "numpy": "2.1.0", "cpu": "a CPU"},
    "skipped": {"wine": ["data directory: no wine.data", "download: no route"]},
}


def make(folder: Path, *plans: DatasetPlan, scales: tuple[str, ...] = ("standard",)) -> Path:
    entries = [
        {"name": plan.name, "scale": scales[number % len(scales)]} for number, plan in enumerate(plans)
    ]
    spec: dict[str, object] = {
        "name": "toy",
        "seed": 7,
        "grid": {"datasets": entries, "m": ["0.5N", "1N"]},
    }
    cube = folder / "toy.zarr"
    toy.write(cube, *plans, spec=spec)
    append_run(cube, RUN)
    return cube


def read(cube: Path) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """Text, cells and summary of a cube, without the page."""
    manifest = read_manifest(cube)
    cells = cell_table(open_cube(cube), manifest.plans)
    summary = summary_table(cells)
    return render(manifest, cells, summary), cells, summary


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("report")
    plans = (
        toy.plan("iris"),
        toy.plan("thyroid"),
        toy.plan("own", has_labels=False),
        toy.plan("mixtures_k3", mixtures=2, replicates=1, replicate_chunk=1),
        toy.plan("alone", models=(), p=(), m=()),
    )
    return write_report(make(folder, *plans), folder / "out")


def test_head_says_what_is_there(report: Report) -> None:
    head = report.text.split("\n\n")[0].splitlines()
    assert head[0] == "sweep toy, seed 7, features scaled: standard"
    assert head[2] == "cells: 85 done, 5 failed, 4 pending of 94"
    assert head[3:6] == [
        "LEFT OUT: wine, which was not available:",
        "  data directory: no wine.data",
        "  download: no route",
    ]
    assert "run 1: started 2026-01-02T03:04:05Z on node" in head
    assert "  sweep 0.1.0, numba 0.62.0, numpy 2.1.0, a CPU" in head
    assert head[-1].startswith("This sweep is not complete")


def test_text_fits_a_terminal(report: Report) -> None:
    assert max(map(len, report.text.splitlines())) <= 100


def test_every_grid_has_its_table(report: Report) -> None:
    titles = [block.splitlines()[0] for block in report.text.split("\n\n")[2:]]
    expected = [f"{name}: N = 24, D = 2, K = 3" for name in ("iris", "thyroid", "own", "mixtures_k3")]
    expected[3] += " × 2 mixtures"
    assert titles == [
        *(f"{title}, p = {p}" for title in expected for p in (0.8, 0.9)),
        "alone: N = 24, D = 2, K = 3",
    ]


def test_numbers_of_the_table_are_those_of_the_summary(report: Report) -> None:
    block = next(part for part in report.text.split("\n\n") if part.startswith("iris") and "p = 0.8" in part)
    rows = report.summary
    rows = rows[(rows["dataset"] == "iris") & (rows["score"] == "nmi")]
    level = rows[rows["model"] == "unsupervised"].iloc[0]
    posterior = rows[(rows["p"] == 0.8) & (rows["m"] == 12) & (rows["model"] == "posterior")].iloc[0]
    line = next(line for line in block.splitlines() if line.startswith("NMI"))
    assert f"{level['mean']:.3f} ± - ({level['median']:.3f})" in line
    assert line.endswith(f"{posterior['mean']:.3f} ± {posterior['se']:.3f} ({posterior['median']:.3f})")


def test_pooled_table_is_over_real_data_sets_with_labels(report: Report) -> None:
    lines = report.text.split("\n\n")[1].splitlines()
    assert lines[0].startswith("NMI, mean over data sets")
    expected = [["p", "=", p, m] for p in ("0.8", "0.9") for m in ("0.5N", "1N")]
    assert [line.split()[:4] for line in lines[2:6]] == expected
    assert all("(2)" in line for line in lines[2:6])
    assert lines[6].startswith("unsupervised: ")
    assert lines[6].endswith("(3)")


def test_csv_files_hold_the_tables(report: Report) -> None:
    files = {file.name: file for file in report.files}
    assert {file.name for file in report.files if file.parent.name != "figures"} == {
        "report.html", "report.txt", "summary.csv", "cells.csv",
    }  # fmt: skip
    assert files["report.txt"].read_text(encoding="utf-8") == report.text
    for name, table in (("summary.csv", report.summary), ("cells.csv", report.cells)):
        stored = pd.read_csv(files[name], dtype=dict.fromkeys(("m", "mixture", "replicate"), "Int64"))
        pd.testing.assert_frame_equal(stored, table, check_dtype=False)
    assert {"dataset", "n_clusters", "p", "m", "m_over_n", "model", "score"} < set(report.summary)
    assert files["nmi.svg"].read_text(encoding="utf-8").startswith("<?xml")
    assert files["nmi.png"].read_bytes().startswith(b"\x89PNG")


def test_left_out_means_are_named(report: Report) -> None:
    block = next(part for part in report.text.split("\n\n") if part.startswith("mixtures_k3"))
    assert "relative NMI leaves out cells where the baseline is not done (likelihood m = 12: 1 of 2;" in block


def test_a_complete_cube_says_nothing_of_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "_unfinish", lambda *_: None)
    cube = make(tmp_path, toy.plan("iris"), toy.plan("wine"), scales=("standard", "none"))
    text, cells, _ = read(cube)
    assert (cells["status"] == "done").all()
    assert "features scaled: iris standard, wine none" in text
    assert "LEFT OUT" not in text  # wine came in later
    assert "not complete" not in text


def test_many_models_go_on_below(tmp_path: Path) -> None:
    baselines = ("unsupervised", "unsupervised-common")
    models = tuple(model for model in MODEL_CODES if model not in baselines)
    wide = [toy.plan(name, models=models, model_chunk=6, baselines=baselines) for name in ("iris", "wine")]
    text, _, summary = read(make(tmp_path, *wide))
    assert max(map(len, text.splitlines())) <= 100
    block = next(part for part in text.split("\n\n") if part.startswith("iris") and "p = 0.9" in part)
    heads = [line.split("m ", 1)[1].split() for line in block.splitlines() if line.startswith("mean ±")]
    assert heads == [
        ["unsupervised", "unsupervised-common", "conditional"],
        ["conditional-common", "likelihood", "likelihood-common"],
        ["posterior", "posterior-common"],
    ]
    levels = [line for line in text.splitlines() if line.startswith(baselines)]
    assert [line.split(":")[0] for line in levels] == list(baselines)
    assert text.count("compare within one model on one data set only") == 1
    rows = summary[summary["score"] == "relative_nmi"]
    assert set(rows["model"]) == set(models)


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
