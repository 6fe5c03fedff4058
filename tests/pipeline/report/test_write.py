"""The report of a cube: its files, its text, and what it is made from."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from cubes import toy
from cubes.reported import PLANS, content, make, tables
from matplotlib.figure import Figure

from pipeline.commands.main import main
from pipeline.report.content import Section
from pipeline.report.effort import state
from pipeline.report.write import Report, render, write_report
from pipeline.scoring.tables import cell_table, summary_table
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, NO_SOLUTION
from sweeps.errors import InputError
from sweeps.words import TERM_CODES, UNSUPERVISED, model_of

NOTHING = "Nothing to show: no cell that is done has what this needs."


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


class Read(NamedTuple):
    """What is shown of a cube, without the page."""

    text: str
    cells: pd.DataFrame
    summary: pd.DataFrame


def read(cube: Path) -> Read:
    manifest = read_manifest(cube)
    cells = cell_table(open_cube(cube), manifest.plans)
    summary = summary_table(cells)
    return Read(render(content(cells, manifest=manifest, summary=summary)), cells, summary)


def test_head_and_tables_say_what_is_there(report: Report) -> None:
    blocks = report.text.split("\n\n")
    head = blocks[0].splitlines()
    assert head[0] == "sweep toy, seed 7, features scaled: standard"
    assert head[2] == "cells: 85 done, 5 failed, 4 pending, 1 left out, of 95"
    assert head[-1].startswith("This sweep is not complete")
    assert max(map(len, report.text.splitlines())) <= 100
    assert [part.split(",")[0] for part in blocks[2:4]] == ["NMI", "ARI"]
    expected = [f"{name}: N = 24, D = 2, K = 3" for name in ("iris", "thyroid", "own", "mixtures_k3")]
    expected[3] += " × 2 mixtures"
    units = {title: "mixtures" if "mixtures" in title else "redraws" for title in expected}
    assert [block.splitlines()[0] for block in blocks[4:]] == [
        *(f"{title}, p = {p}, s.e. over {units[title]}" for title in expected for p in (0.8, 0.9)),
        "alone: N = 24, D = 2, K = 3",
    ]


def test_a_complete_cube_says_nothing_of_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "_unfinish", lambda *_: None)
    cube = make(tmp_path, toy.plan("iris"), toy.plan("wine"), scales=("standard", "none"))
    text, cells, _ = read(cube)
    assert (cells["status"] == "done").all()
    assert "features scaled: iris standard, wine none" in text
    assert "Not at hand" not in text  # wine came in later
    assert "not complete" not in text


TERMS = [term for term in TERM_CODES if term != UNSUPERVISED]


def test_many_models_go_on_below(tmp_path: Path) -> None:
    baselines = ("unsupervised", "unsupervised-common")
    models = tuple(model_of(term, shape) for shape in ("spherical", "common") for term in TERMS)
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
    levels = [line for line in text.splitlines() if line.startswith(baselines) and ":" in line]
    assert [line.split(":")[0] for line in levels] == [*baselines, *baselines]  # NMI, ARI
    assert text.count("compare within one model on one data set only") == 1
    rows = summary[summary["score"] == "relative_nmi"]
    assert set(rows["model"]) == set(models)


def test_cells_without_a_solution_are_counted_and_make_no_sweep_incomplete(tmp_path: Path) -> None:
    cube = make(tmp_path, toy.plan("iris"))
    for node in ("iris", "iris/unsupervised"):
        status = zarr.open_array(cube / node / "status", mode="r+")
        values = np.asarray(status[...])
        status[...] = np.where(values == DONE, DONE, NO_SOLUTION)
    found = read(cube)
    assert "cells: 23 done, 0 failed, 0 pending, 2 no solution, 1 left out, of 26\n" in found.text
    assert "not complete" not in found.text
    text = state(content(found.cells, manifest=read_manifest(cube)))
    assert text[:2] == ["23 of 26 cells are done, 0 failed, 0 are left.", "2 cells have no solution."]


def test_many_accuracies_are_shown_in_part_and_counts_as_in_the_sweep_file(tmp_path: Path) -> None:
    cells, _, _ = tables(toy.plan("iris", p=tuple(0.5 + 0.05 * step for step in range(9))))
    found = content(cells, manifest=read_manifest(make(tmp_path, toy.plan("iris"))))
    assert len(found.accuracies) == 6
    assert (found.accuracies[0], found.accuracies[-1]) == (0.5, 0.9)
    assert found.written == {("iris", 12): "0.5N", ("iris", 24): "1N"}


def test_only_what_was_drawn_is_written_and_a_section_without_figures_says_why(tmp_path: Path) -> None:
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([0, 1])
    drawn = [("none", None, ""), ("line", figure, "A line.")]
    for figures, text in ((drawn, ("more",)), (drawn[:1], (NOTHING, "more"))):
        section = Section("k", "Title", lambda _: ["more"], figures=lambda _, of=figures: of, says_why=True)
        chapter = section.chapter(content(figures=tmp_path / "figures"))
        assert chapter is not None
        assert chapter.text == text
        assert [(each.name, each.caption) for each in chapter.pictures] == [("line", "A line.")][
            : len(figures) - 1
        ]
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"line.svg", "line.png", "line.pdf"}
    assert Section("k", "Title", needs=lambda _: False).chapter(content()) is None
