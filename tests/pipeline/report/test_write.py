"""The report of a cube: its text, what ran, what it is made from. Its files are looked at with the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from cubes import toy
from cubes.reported import RUN, content, make, texts
from matplotlib.figure import Figure

from pipeline.commands.main import main
from pipeline.report import effort
from pipeline.report.content import Content, Section
from pipeline.report.write import render, write_report
from pipeline.scoring.tables import cell_table, summary_table
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, NO_SOLUTION
from sweeps.errors import InputError

NOTHING = "Nothing to show: no cell that is done has what this needs."
ONCE = {"replicates": 1, "replicate_chunk": 1}


@pytest.mark.usefixtures("page_alone")
def test_somebody_else_sees_a_page_without_true_labels_and_without_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pipeline.report.write.read_failures", refused)
    monkeypatch.setattr("pipeline.report.write.read_lease", refused)
    report = write_report(make(tmp_path, toy.plan("own", has_labels=False, **ONCE)), tmp_path / "out")
    figures = {file.stem for file in report.files if file.parent.name == "figures"}
    assert figures == {"agreement", "cell-unsupervised", "cell-annotated", "gaps", "restarts", "seconds"}


def test_every_bad_input_is_said_at_once_with_exit_code_2(tmp_path: Path) -> None:
    cube = make(tmp_path, toy.plan("iris", models=(), p=(), m=()))
    table = tmp_path / "theirs.csv"
    table.write_text("p,m\n")
    options = ["--against", str(table), "--cell", "irys/unsupervised", "--out", str(table)]
    result = CliRunner().invoke(main, ["report", str(cube), *options])
    assert result.exit_code == 2
    for words in ("a folder to write to", "one column 'metric'", "did you mean 'iris'?"):
        assert words in result.stderr
    with pytest.raises(InputError, match="found a file, expected a folder"):
        write_report(cube, table / "below")
    with pytest.raises(InputError):
        write_report(tmp_path / "none.zarr", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def read(cube: Path, **more: object) -> Content:
    manifest = read_manifest(cube)
    cells = cell_table(open_cube(cube), manifest.plans)
    return content(cells, manifest=manifest, summary=summary_table(cells), **more)


def test_many_models_of_a_complete_cube_go_on_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "_unfinish", lambda *_: None)
    baselines, terms = ("unsupervised", "unsupervised-common"), ("conditional", "likelihood", "posterior")
    models = tuple(f"{term}{shape}" for shape in ("", "-common") for term in terms)
    more = {"models": models, "model_chunk": 6, "baselines": baselines, "p": (0.9,), "m": (12,), **ONCE}
    plans = [toy.plan(name, **more) for name in ("iris", "wine")]
    text = render(read(make(tmp_path, *plans, scales=("standard", "none"))))
    assert max(map(len, text.splitlines())) <= 100
    assert "features scaled: iris standard, wine none" in text
    assert "Not at hand" not in text  # wine came in later
    assert "not complete" not in text
    block = next(part for part in text.split("\n\n") if part.startswith("iris") and "p = 0.9" in part)
    heads = [line.split("m ", 1)[1].split() for line in block.splitlines() if line.startswith("mean ±")]
    assert heads == [
        ["unsupervised", "unsupervised-common", "conditional"],
        ["conditional-common", "likelihood", "likelihood-common"],
        ["posterior", "posterior-common"],
    ]
    levels = [line for line in text.splitlines() if line.startswith(baselines) and ":" in line]
    assert [line.split(":")[0] for line in levels] == [*baselines, *baselines]  # NMI, ARI


def test_what_ran_is_counted_and_what_is_left_out_is_named(tmp_path: Path) -> None:
    cube = make(tmp_path, toy.plan("iris"), toy.plan("thyroid"), scales=("standard", "none"))
    found = read(cube, holder="process 7")
    count, running, incomplete, missing = effort.state(found)
    assert count == "46 of 51 cells are done, 2 failed, 2 are left."
    assert running == "This sweep is running: process 7."
    assert "not complete" in incomplete
    assert missing.startswith("Not at hand: wine; 1 cell of the sweep left out")
    facts, datasets, runs = map(texts, effort.head(found))
    told = dict(facts)
    assert told["features scaled"] == "iris standard, thyroid none, wine standard"
    assert told["processor"] == "a CPU"
    assert [row[6:9] for row in datasets] == [["23", "1", "1"]] * 2
    assert [row[:2] for row in runs] == [["1", RUN.started]]
    # cells without a solution are no incomplete sweep
    for node in (f"{name}{baseline}" for name in ("iris", "thyroid") for baseline in ("", "/unsupervised")):
        status = zarr.open_array(cube / node / "status", mode="r+")
        status[...] = np.where(np.asarray(status[...]) == DONE, DONE, NO_SOLUTION)
    found = read(cube)
    text = render(found)
    assert "cells: 46 done, 0 failed, 0 pending, 4 no solution, 1 left out, of 51\n" in text
    assert "not complete" not in text
    said = ["46 of 51 cells are done, 0 failed, 0 are left.", "4 cells have no solution."]
    assert effort.state(found)[:2] == said
    assert found.written == {
        (name, m): t for name in ("iris", "thyroid") for m, t in ((12, "0.5N"), (24, "1N"))
    }


def test_sections_show_some_of_many_accuracies_and_say_why_nothing_is_drawn(tmp_path: Path) -> None:
    cells = read(make(tmp_path, toy.plan("iris", p=tuple(0.5 + 0.05 * step for step in range(9))))).cells
    shown = content(cells).accuracies
    assert (len(shown), shown[0], shown[-1]) == (6, 0.5, 0.9)
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([0, 1])
    drawn = [("none", None, ""), ("line", figure, "A line.")]
    for figures, text in ((drawn, ("more",)), (drawn[:1], (NOTHING, "more"))):
        section = Section("k", "Title", lambda _, of=figures: [*of, "more"], says_why=True)
        chapter = section.chapter(content(figures=tmp_path / "figures"))
        assert chapter is not None
        assert chapter.text == text
        assert [(each.name, each.caption) for each in chapter.pictures] == [each[::2] for each in figures[1:]]
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"line.svg", "line.png", "line.pdf"}
    assert Section("k", "Title", lambda _: ["more"], needs=lambda _: False).chapter(content()) is None
