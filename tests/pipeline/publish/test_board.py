"""The board joins, ranks and writes its lines, and a browser shows it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import zarr
from browser import Page, chromium
from cubes import toy
from processes.commandline import sweep

from sweep_clustering.pipeline.check import (
    CellCheck,
    Drawable,
    Verification,
    draw,
    published_hash,
    verify,
    write_record,
)
from sweep_clustering.pipeline.publish.board import Board, file_names, read_manifests, source_of, write_board
from sweep_clustering.pipeline.publish.bundle import write_bundle
from sweep_clustering.storage.archive import Archive
from sweep_clustering.storage.cube.manifest import append_run
from sweep_clustering.storage.cube.schema import FAILED
from sweep_clustering.storage.provenance import RunRecord
from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.plan import DatasetPlan, MethodPlan

HOSTILE = "<img src=x onerror=alert(1)> \"q'"
NO_CELL = 10**9
SETS = ("iris", "suite/wut/x2")


def cube(
    path: Path, *plans: DatasetPlan, code: str = "", seed: int = 7, cpu: str = "a CPU", **search: Any
) -> Path:
    """Cube of random results, in which every cell is done; with some `code`, of a stranger's method alone."""
    names = [plan.name for plan in plans]
    grid: dict[str, Any] = {"datasets": [{"name": name} for name in names], "m": ["0.5N", "1N"]}
    if code:
        method = {"name": "own", "call": "own.py:cluster", "restarts": 1, "code": code, "path": "/x/own.py"}
        grid |= {"models": [], "methods": [method]}
    with patch.multiple(toy, FAILED_CELL=NO_CELL, PENDING_CELL=NO_CELL):
        toy.write(path, *plans, spec={"name": path.stem, "seed": seed, "grid": grid, "search": search})
    append_run(path, RunRecord(fingerprint={"sweep": "1.0.0", "cpu": cpu}))
    return path


def plans(*names: str, **changes: Any) -> list[DatasetPlan]:
    return [toy.plan(name, **changes) for name in names or SETS]


def stranger(*names: str, **changes: Any) -> list[DatasetPlan]:
    """Return plans of the same cells with one method of somebody else."""
    grid = {"models": ("own",), "baselines": (), "methods": (MethodPlan("own", 1),), "model_chunk": 1}
    return plans(*names, **grid | changes)


def board(*paths: Path) -> Board:
    return Board.of([source_of(manifest, name) for name, manifest in read_manifests(paths).items()])


def set_status(path: Path, dataset: str, code: int) -> None:
    zarr.open_array(path / dataset / "status", mode="r+")[...] = code


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cube(tmp_path_factory.mktemp("base") / "base.zarr", *plans())


def test_a_newcomer_with_all_results_is_ranked_and_changes_no_score_of_others(
    base: Path, tmp_path: Path
) -> None:
    alone = board(base)
    whole = board(base, cube(tmp_path / "whole.zarr", *stranger(), code="sha256:1"))
    assert whole.gaps == dict.fromkeys(("unsupervised", "likelihood", "posterior", "own"), 0)
    for before, after in zip(alone.content.rankings, whole.content.rankings, strict=True):
        assert set(after.models) - set(before.models) == {"own"}
        pd.testing.assert_frame_equal(after.means[before.models], before.means)


def test_cells_of_own_methods_alone_are_not_verified_without_their_code(tmp_path: Path) -> None:
    alone = cube(tmp_path / "own.zarr", *stranger("iris"), code="sha256:1")
    n_cells = len(board(alone).cells)
    with pytest.raises(InputError, match=f"found {n_cells} cells of own methods, .* the code of own, if it"):
        verify(alone, sample=1)
    with pytest.raises(InputError, match=r"/x/own\.py"):
        verify(alone, sample=1, run_methods=True)
    # so the command that is printed runs it, but only then
    bundled = sweep("bundle", alone, "--out", tmp_path / "own.zip")
    assert bundled.stderr.endswith(f"next: sweep verify {tmp_path}/own.zip --run-methods\n")
    assert b"sweep verify own.zip --run-methods\n" in Archive(tmp_path / "own.zip").read("README.md")
    models = cube(tmp_path / "models.zarr", *plans("iris"))
    assert sweep("repair", models).stderr.endswith(f"next: sweep verify {models}\n")
    assert sweep("repair", alone).stderr.endswith(f"next: sweep verify {alone} --run-methods\n")


def test_a_newcomer_that_lacks_results_is_shown_without_a_rank(base: Path, tmp_path: Path) -> None:
    alone = board(base)
    part = cube(tmp_path / "part.zarr", *stranger("iris", "extra"), code="sha256:1")
    some = board(base, part)
    # 2 accuracies, 2 numbers of annotations and 3 redraws of the data set that it has not
    assert some.gaps["own"] == 12
    for before, after in zip(alone.content.rankings, some.content.rankings, strict=True):
        pd.testing.assert_frame_equal(after.ranks, before.ranks)
    assert list(some.pages) == [*SETS, "extra"]
    assert any("own lacks 12 results" in line for line in some.lead())
    page = some.page("extra")[0].tables[0]
    assert [row[0].text for row in page.rows] == ["own"]
    assert page.rows[0][1].text == "-"
    set_status(part, "iris", FAILED)
    assert board(base, part).gaps["own"] == 24


def test_namesakes_are_one_line_only_if_they_were_made_alike_and_agree(base: Path, tmp_path: Path) -> None:
    copy = cube(tmp_path / "copy.zarr", *plans())
    lines = {line.name: line for line in board(base, copy).lines}
    assert {name: line.sources for name, line in lines.items()} == dict.fromkeys(lines, ("base", "copy"))
    assert len(lines) == 3
    # the other cube has the cells that one lacks
    set_status(copy, "iris", FAILED)
    joined = board(base, copy)
    assert (joined.cells["status"] == "done").all()
    labels = zarr.open_array(copy / "suite/wut/x2" / "labels", mode="r+")
    labels[..., 0, :] = 0
    names = {line.name: line.note for line in board(base, copy).lines}
    assert [name for name in names if "(copy)" in name] == ["likelihood (copy)"]
    assert names["likelihood (copy)"].startswith(
        "not likelihood: 12 of 12 common cells differ, first suite/wut/x2/"
    )
    unlike = cube(tmp_path / "other.zarr", *plans(), generations=9)
    assert [line.note for line in board(base, unlike).lines if line.sources == ("other",)] == [
        f"not {model}: other settings, or other code" for model in ("unsupervised", "likelihood", "posterior")
    ]
    strangers = [cube(tmp_path / f"{at}.zarr", *stranger(), code=f"sha256:{at}") for at in range(2)]
    assert [line.name for line in board(base, *strangers).lines][3:] == ["own", "own (1)"]


def test_what_cannot_be_compared_is_refused_in_one_report(base: Path, tmp_path: Path) -> None:
    stranger_cube = cube(tmp_path / "other.zarr", *plans(checksum="1" * 64), seed=8)
    place = tmp_path / "out"
    place.mkdir()
    (place / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError) as error:
        write_board([base, stranger_cube, tmp_path / "none.zarr"], place)
    report = str(error.value)
    assert "files of something else: thesis.tex" in report
    assert "setting seed: found 8, expected 7" in report
    assert "data set iris" in report
    assert "data set suite/wut/x2" in report
    assert "none.zarr" in report
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert (place / "thesis.tex").read_text() == "years of work"
    for command in ((tmp_path / "none.zarr",), (base, "--out", base), (base, stranger_cube)):
        assert sweep("board", *command).exit_code == 2


def test_names_of_files_are_safe_and_differ_on_every_file_system() -> None:
    names = ("suite/a-b", "suite-a/b", "Iris", "iris", "wine", *("x" * 100 + f"/{at}" for at in range(2)))
    files = file_names(names)
    assert files["wine"] == "wine"
    assert len({file.casefold() for file in files.values()}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", file) for file in files.values())


@pytest.fixture(scope="module")
def site(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a board of two cubes twice into one place; one of them has hostile texts."""
    folder = tmp_path_factory.mktemp("site")
    own_cube = cube(folder / "own.zarr", *stranger(*SETS, "extra"), code="sha256:1", cpu=HOSTILE)
    # a record lies beside its cube
    drawable = Drawable.of(own_cube, True)
    digest = published_hash(own_cube)
    checks = tuple(CellCheck(str(cell), ()) for cell in draw(drawable.cells, 5, digest, None))
    outcome = Verification(own_cube, digest, None, checks, len(drawable.cells))
    write_record(own_cube.with_name("own.verified.json"), outcome, "Ana <b>")
    write_board([base, own_cube], folder / "first")
    page = write_board([base, own_cube], folder / "board")
    assert write_board([base, own_cube], folder / "board") == page
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["board", "first", "own.verified.json", "own.zarr"]
    return page.parent


@pytest.mark.slow
def test_a_bundle_without_its_data_has_the_scores_of_its_cube(base: Path, tmp_path: Path) -> None:
    bundle = write_bundle(base, tmp_path / "base.zip")
    before, after = board(base), board(bundle)
    assert after.content.manifest.plans["suite/wut/x2"].left_out
    for old, new in zip(before.content.rankings, after.content.rankings, strict=True):
        assert set(old.datasets) == set(SETS)
        pd.testing.assert_frame_equal(old.means, new.means)
    assert after.origin("suite/wut/x2").licence == ""
    # a bundle is itself again beside its cube
    assert [line.sources for line in board(base, bundle).lines] == [("base", "base-2")] * 3


@pytest.mark.slow
def test_the_same_cubes_give_the_same_files_whose_links_lead_somewhere(site: Path) -> None:
    files = {
        path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()
    }
    before = site.with_name("first")
    assert files == {path.relative_to(before).as_posix(): path.read_bytes() for path in before.rglob("*.*")}
    listing = json.loads(files.pop("board.json"))
    assert listing["files"] == sorted(files)
    pages = [name for name in files if name.endswith(".html")]
    assert len(pages) == 4
    for name in pages:
        text = files[name].decode()
        assert "<img" not in text
        assert str(site.parent) not in text
        links = set(re.findall(r'<a href="(?!https://)([^"#]+)', text))
        assert {link for link in links if not (site / name).parent.joinpath(link).is_file()} == set()
        tables = re.findall(r"<figure class=\"table\">.*?</figure>", text, flags=re.DOTALL)
        assert len(tables) > 2
        assert all('.csv">' in table for table in tables if ">checksum</td>" not in table)
    assert "&lt;img src=x onerror=alert(1)&gt;" in files["index.html"].decode()
    record = "".join(re.findall("Ana &lt;b&gt;.*?</tr>", files["index.html"].decode(), flags=re.DOTALL))
    assert "5 of 36 cells were computed again, and all are equal." in record
    assert "No verification of base is here." in files["index.html"].decode()
    with pytest.raises(InputError, match=r"board.json: format: found .sweep board."):
        write_board([site.parent / "own.zarr"], site, [before / "board.json"])
    counts = pd.read_csv(site / "cells.csv").groupby("line").size().to_dict()
    assert counts == {"likelihood": 24, "own": 36, "posterior": 24, "unsupervised": 2}
    ranks = pd.read_csv(site / "ranks.csv")
    assert set(ranks["line"]) == {"likelihood", "own", "posterior", "unsupervised"}
    assert np.isfinite(ranks["mean_rank"]).all()


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium() as page:
        yield page


TYPE = """const field = document.querySelector("#data input");
    field.value = arguments[0];
    field.dispatchEvent(new Event("input"));
    const rows = [...field.closest("figure").querySelector("tbody").rows].filter((row) => row.offsetParent);
    return [rows.map((row) => row.cells[0].textContent), field.nextElementSibling.textContent];"""


@pytest.mark.slow
def test_a_browser_sorts_and_filters_and_no_page_is_wider_than_its_screen(site: Path, browser: Page) -> None:
    for page in (site / "index.html", site / "datasets" / "suite-wut-x2.html"):
        browser.open(page)
        for width in (1280, 400):
            browser.resize(width)
            assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.console() == []
        assert browser.requests() == [page.as_uri()]
    # numbers are sorted as numbers, by keyboard too
    head = browser.driver.find_elements("css selector", "#scores th button")[-1]
    browser.run("arguments[0].focus();", head)
    head.send_keys("\n")
    column = """const rows = document.querySelectorAll("#scores tbody")[1].rows;
        return [...rows].map((row) => +row.lastElementChild.dataset.order);"""
    seconds = browser.run(column)
    assert seconds == sorted(seconds)
    assert len(set(seconds)) > 1
    assert browser.run(TYPE, "SCALE") == [["features scaled"], "1 of 9 rows"]
    assert browser.run(TYPE, "class largest") == [["largest by smallest class"], "1 of 9 rows"]
    assert browser.run(TYPE, "nothing of this")[0] == []
    rows, count = browser.run(TYPE, " ")
    assert len(rows) == 9
    assert count == ""
    assert (
        browser.run("return document.querySelector('#data input').ariaLabel;") == "Filter the rows of: Data"
    )
    # a table is a table without scripts: no dead control is offered
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.open(page)
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    script = (
        "return [...document.querySelectorAll('.live, #theme, input')].filter((part) => part.offsetParent);"
    )
    assert browser.run(script) == []
    assert len(browser.driver.find_elements("css selector", "#scores tbody tr")) == 8
