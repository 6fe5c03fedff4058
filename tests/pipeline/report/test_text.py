"""The report of a small cube as text."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import zarr
from cubes import toy
from cubes.reported import PLANS, make

from pipeline.report.sections.content import Content
from pipeline.report.sections.heading import state
from pipeline.report.text import render
from pipeline.scoring.tables import cell_table, summary_table
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from storage.cube.schema import DONE, NO_SOLUTION
from sweeps.words import TERM_CODES, UNSUPERVISED, model_of


class Read(NamedTuple):
    """What is shown of a cube, without the page."""

    text: str
    cells: pd.DataFrame
    summary: pd.DataFrame


def read(cube: Path) -> Read:
    manifest = read_manifest(cube)
    cells = cell_table(open_cube(cube), manifest.plans)
    summary = summary_table(cells)
    content = Content(manifest, open_cube(cube), cells, summary, None, None, (), None, Path("figures"))
    return Read(render(content), cells, summary)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Read:
    return read(make(tmp_path_factory.mktemp("text"), *PLANS))


def test_head_says_what_is_there(report: Read) -> None:
    head = report.text.split("\n\n")[0].splitlines()
    assert head[0] == "sweep toy, seed 7, features scaled: standard"
    assert head[2] == "cells: 85 done, 5 failed, 4 pending, 1 left out, of 95"
    assert head[3] == "Not at hand: wine; 1 cell of the sweep left out (sweep datasets list says why)"
    assert "run 1: started 2026-01-02T03:04:05Z on node" in head
    assert "  sweep 0.1.0, numba 0.62.0, numpy 2.1.0, a CPU" in head
    assert head[-1].startswith("This sweep is not complete")


def test_text_fits_a_terminal(report: Read) -> None:
    assert max(map(len, report.text.splitlines())) <= 100


def test_every_grid_has_its_table(report: Read) -> None:
    titles = [block.splitlines()[0] for block in report.text.split("\n\n")[4:]]
    expected = [f"{name}: N = 24, D = 2, K = 3" for name in ("iris", "thyroid", "own", "mixtures_k3")]
    expected[3] += " × 2 mixtures"
    units = {title: "mixtures" if "mixtures" in title else "redraws" for title in expected}
    assert titles == [
        *(f"{title}, p = {p}, s.e. over {units[title]}" for title in expected for p in (0.8, 0.9)),
        "alone: N = 24, D = 2, K = 3",
    ]


def test_numbers_of_the_table_are_those_of_the_summary(report: Read) -> None:
    block = next(part for part in report.text.split("\n\n") if part.startswith("iris") and "p = 0.8" in part)
    rows = report.summary
    rows = rows[(rows["dataset"] == "iris") & (rows["score"] == "nmi")]
    level = rows[rows["model"] == "unsupervised"].iloc[0]
    posterior = rows[(rows["p"] == 0.8) & (rows["m"] == 12) & (rows["model"] == "posterior")].iloc[0]
    line = next(line for line in block.splitlines() if line.startswith("NMI"))
    assert f"{level['mean']:.3f} ± - ({level['median']:.3f})" in line
    assert line.endswith(f"{posterior['mean']:.3f} ± {posterior['se']:.3f} ({posterior['median']:.3f})")


def test_pooled_table_is_over_real_data_sets_with_labels(report: Read) -> None:
    pooled = report.text.split("\n\n")[2:4]
    assert [part.split(",")[0] for part in pooled] == ["NMI", "ARI"]
    lines = pooled[0].splitlines()
    assert lines[0].startswith("NMI, mean over real data sets (number of them)")
    expected = [["p", "=", p, m] for p in ("0.8", "0.9") for m in ("0.5N", "1N")]
    assert [line.split()[:4] for line in lines[2:6]] == expected
    assert all("(2)" in line for line in lines[2:6])
    assert lines[6].startswith("unsupervised: ")
    assert lines[6].endswith("(3)")


def test_left_out_means_are_named(report: Read) -> None:
    block = next(part for part in report.text.split("\n\n") if part.startswith("mixtures_k3"))
    assert (
        "relative NMI leaves out cells where the baseline is not done (likelihood m = 0.5N: 1 of 2;" in block
    )


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
    report = read(cube)
    assert "cells: 23 done, 0 failed, 0 pending, 2 no solution, 1 left out, of 26\n" in report.text
    assert "not complete" not in report.text
    text = state(Mock(manifest=read_manifest(cube), all_cells=report.cells, every=None, holder=None))
    assert text[:2] == ["23 of 26 cells are done, 0 failed, 0 are left.", "2 cells have no solution."]
