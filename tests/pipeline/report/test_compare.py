"""Two cubes in pairs, through the command and in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from browser import chromium
from click.testing import CliRunner
from cubes import toy

from pipeline.commands.main import main


def compare(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["compare", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def cubes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("compare")
    for name, plans, seed, scale in (
        ("first", [toy.plan("iris"), toy.plan("wine")], 7, "none"),
        ("second", [toy.plan("iris"), toy.plan("mix_k3", mixtures=2)], 8, "standard"),
    ):
        entries = [{"name": plan.name, "scale": scale} for plan in plans]
        search = {"crossover": "labels", "mutation": 0.2, "relocation": "all"} if name == "second" else {}
        spec = {
            "name": name,
            "seed": seed,
            "grid": {"datasets": entries, "m": ["12", "1N"]},
            "search": search,
        }
        toy.write(folder / f"{name}.zarr", *plans, spec=spec)
    return folder / "first.zarr", folder / "second.zarr"


@pytest.fixture(scope="module")
def compared(cubes: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder of the comparison of both by two scores, and what was said of it."""
    folder = tmp_path_factory.mktemp("compared")
    code, text, _ = compare(*cubes, "--score", "nmi", "--score", "seconds", "--out", folder)
    assert code == 0
    return folder, text


def test_the_command_says_what_differs_and_writes_it(compared: tuple[Path, str]) -> None:
    folder, text = compared
    lines = text.splitlines()
    assert "  iris.scale: A none, B standard" in lines
    assert "  search.method: A published, B strong with relocation all" in lines
    assert not any("mutation" in line for line in lines)
    assert any("not the same draws" in line for line in lines)
    assert "23 cells are done in both" in lines
    assert "25 only in A:\n  wine/" in text
    assert "  and 20 more, in unpaired.csv" in lines
    assert max(len(line) for line in lines if str(folder) not in line) <= 100
    tables = {"pairs.csv", "differences.csv", "unpaired.csv"}
    figures = {f"{score}.{suffix}" for score in ("nmi", "seconds") for suffix in ("svg", "png", "pdf")}
    assert {file.name for file in folder.iterdir()} == {*tables, "compare.html", "figures"}
    assert {file.name for file in (folder / "figures").iterdir()} == figures
    pairs, table = (pd.read_csv(folder / f"{name}.csv") for name in ("pairs", "differences"))
    assert len(pairs) == 2 * 23
    for row in table[table["p"].notna()].itertuples():
        same = (pairs["score"] == row.score) & (pairs["p"] == row.p) & (pairs["m"] == row.m)
        rows = pairs[same & (pairs["model"] == row.model)]
        assert row.difference == pytest.approx((rows["b"] - rows["a"]).mean())


def test_differences_come_first_and_settings_last(compared: tuple[Path, str]) -> None:
    html = (compared[0] / "compare.html").read_text(encoding="utf-8")
    sections = ["by-nmi", "by-seconds", "unpaired", "settings"]
    assert re.findall(r'<section id="([\w-]+)">', html) == sections
    assert "search.method: A " in html
    assert "NMI, B minus A: " in html
    assert "all data sets" in html
    assert ">1N<" in html


@pytest.mark.slow
def test_the_browser_shows_it_without_a_word_and_without_a_request(compared: tuple[Path, str]) -> None:
    page = compared[0] / "compare.html"
    with chromium() as found:
        for width in (400, 1280):
            found.resize(width)
            found.open(page)
            assert found.run("return document.documentElement.scrollWidth") <= width
        assert found.console() == []
        assert set(found.requests()) == {page.as_uri()}
        assert found.run("return document.querySelectorAll('svg use title').length") > 3


def test_both_wrong_cubes_are_named_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    code, _, errors = compare(tmp_path / "a", tmp_path / "b", "--out", tmp_path / "out")
    assert code == 2
    assert all(str(tmp_path / name) in errors for name in ("a", "b"))
    assert not (tmp_path / "out").exists()


def spec(name: str, *datasets: str, **more: object) -> dict[str, object]:
    grid = {"datasets": [{"name": dataset, "scale": "none"} for dataset in datasets]}
    return {"name": name, "seed": 7, "grid": grid, "search": {"generations": 3}, **more}


def test_cubes_without_a_common_cell_are_compared_by_their_settings(tmp_path: Path) -> None:
    for name in ("iris", "wine"):
        toy.write(tmp_path / f"{name}.zarr", toy.plan(name, models=(), p=(), m=()), spec=spec(name, name))
    code, text, _ = compare(tmp_path / "iris.zarr", tmp_path / "wine.zarr", "--out", tmp_path / "out")
    assert code == 0
    assert {"  data set wine: only in B", "0 cells are done in both"} < set(text.splitlines())
    assert (tmp_path / "out" / "compare.html").is_file()
