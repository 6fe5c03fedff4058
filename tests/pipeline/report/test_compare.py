"""Two cubes in pairs: through the command, by hand, in a browser, and what they were asked for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import chromium
from click.testing import CliRunner
from cubes import toy
from cubes.reported import titles

from pipeline.commands.main import main
from pipeline.report.compare import aligned, differences, draw_differences, write_comparison
from storage.cube.manifest import Manifest, read_manifest


@pytest.fixture(scope="module")
def cubes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("compare")
    made = []
    for name, plans, seed, scale in (
        ("first", [toy.plan("iris"), toy.plan("wine")], 7, "none"),
        ("second", [toy.plan("iris"), toy.plan("mix_k3", mixtures=2)], 8, "standard"),
    ):
        grid = {"datasets": [{"name": plan.name, "scale": scale} for plan in plans], "m": ["12", "24"]}
        cube = folder / f"{name}.zarr"
        search = {"crossover": "labels", "mutation": 0.2, "relocation": "all"} if name == "second" else {}
        toy.write(cube, *plans, spec={"name": name, "seed": seed, "grid": grid, "search": search})
        made.append(cube)
    return made[0], made[1]


def compare(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["compare", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_says_what_differs_and_writes_it(cubes: tuple[Path, Path], tmp_path: Path) -> None:
    scores = ["--score", "nmi", "--score", "seconds"]
    code, text, _ = compare(*cubes, *scores, "--out", tmp_path)
    assert code == 0
    lines = text.splitlines()
    assert "  iris.scale: A none, B standard" in lines
    assert "  search.method: A published, B strong with relocation all" in lines
    assert not any("mutation" in line for line in lines)
    assert any("not the same draws" in line for line in lines)
    assert "23 cells are done in both" in lines
    assert "25 only in A:\n  wine/" in text
    assert "  and 20 more, in unpaired.csv" in lines
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 100
    tables = {"pairs.csv", "differences.csv", "unpaired.csv"}
    figures = {f"{score}.{suffix}" for score in ("nmi", "seconds") for suffix in ("svg", "png", "pdf")}
    assert {file.name for file in tmp_path.iterdir()} == {*tables, "compare.html", "figures"}
    assert {file.name for file in (tmp_path / "figures").iterdir()} == figures
    pairs = pd.read_csv(tmp_path / "pairs.csv")
    assert len(pairs) == 2 * 23
    rows = pairs[(pairs["score"] == "nmi") & (pairs["p"] == 0.8) & (pairs["m"] == 24)]
    table = pd.read_csv(tmp_path / "differences.csv")
    found = table[(table["score"] == "nmi") & (table["p"] == 0.8) & (table["m"] == 24)]
    for row in found.itertuples():
        assert row.difference == pytest.approx(rows.loc[rows["model"] == row.model, "difference"].mean())


def test_json_is_one_document(cubes: tuple[Path, Path], tmp_path: Path) -> None:
    code, text, _ = compare(*cubes, "--json", "--out", tmp_path)
    document = json.loads(text)
    assert code == 0
    assert document["cells"] == 23
    assert document["unpaired"] == {"only in A": 25, "only in B": 50, "not done in A": 2}
    assert len(document["table"]) == 18
    assert [row["score"] for row in document["table"]] == ["nmi"] * 9 + ["adjusted_rand"] * 9
    assert {row["model"] for row in document["total"]} == {"unsupervised", "likelihood", "posterior"}


def test_a_cube_equals_itself(cubes: tuple[Path, Path], tmp_path: Path) -> None:
    code, text, _ = compare(cubes[0], cubes[0], "--score", "objective", "--json", "--out", tmp_path)
    document = json.loads(text)
    assert code == 0
    assert document["settings"] == []
    assert all(row["ties"] == 1 and row["difference"] == 0 for row in document["table"])


def test_both_wrong_cubes_are_named_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    code, _, errors = compare(tmp_path / "a", tmp_path / "b", "--out", tmp_path / "out")
    assert code == 2
    assert f"{tmp_path / 'a'}" in errors
    assert f"{tmp_path / 'b'}" in errors
    assert not (tmp_path / "out").exists()


def test_names_are_not_cut_off() -> None:
    head = ("data set", "p", "m", "model", "cells", "n", "B - A", "B wins", "A wins", "ties")
    line = ("iris, uniform, a-search-of-a-long-name", "0.8", "75", "x" * 40, *head[4:])
    wide = list(aligned([head, line]))
    assert line[0] in wide[1]
    assert line[3] in wide[1]
    assert len(wide[0]) == len(wide[1]) > len(*aligned([head]))


def test_cubes_without_a_common_cell_are_compared_by_their_settings(tmp_path: Path) -> None:
    made = []
    for name in ("iris", "wine"):
        grid = {"datasets": [{"name": name, "scale": "none"}]}
        toy.write(tmp_path / f"{name}.zarr", toy.plan(name), spec={"name": name, "seed": 7, "grid": grid})
        made.append(tmp_path / f"{name}.zarr")
    code, text, _ = compare(*made, "--out", tmp_path / "out")
    assert code == 0
    assert "  data set wine: only in B" in text.splitlines()
    assert "0 cells are done in both" in text.splitlines()
    assert (tmp_path / "out" / "compare.html").is_file()


def spec(name: str, **search: object) -> dict[str, object]:
    grid = {"datasets": [{"name": "iris", "scale": "none"}], "m": ["0.5N", "1N"]}
    return {"name": name, "seed": 7, "grid": grid, "search": {"generations": 3, **search}}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparison")
    for name, more in (("a", {}), ("b", {"proportions": "free"})):
        toy.write(folder / f"{name}.zarr", toy.plan("iris"), spec=spec(name, **more))
    written = write_comparison(folder / "a.zarr", folder / "b.zarr", folder / "out", ["nmi"])
    return next(file for file in written.files if file.suffix == ".html")


def test_differences_come_first_and_settings_last(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    assert re.findall(r'<section id="([\w-]+)">', html) == ["by-nmi", "unpaired", "settings"]
    assert "search.proportions: A " in html
    assert "NMI, B minus A: " in html
    assert "all data sets" in html
    assert ">0.5N<" in html


def test_the_browser_shows_it_without_a_word_and_without_a_request(page: Path) -> None:
    with chromium() as found:
        for width in (400, 1280):
            found.resize(width)
            found.open(page)
            assert found.run("return document.documentElement.scrollWidth") <= width
        assert found.console() == []
        assert set(found.requests()) == {page.as_uri()}
        assert found.run("return document.querySelectorAll('svg use title').length") > 3


def rows(*changes: dict[str, object]) -> pd.DataFrame:
    usual = {"score": "nmi", "dataset": "iris", "p": 0.9, "m": 10, "model": "posterior", "n_cells": 3, "n": 3}
    table = pd.DataFrame([{**usual, "difference": 0.25, "se": 0.05, **row} for row in changes])
    return table.astype({"m": "Int64"})


def test_differences_stand_at_their_place_and_baselines_at_zero() -> None:
    baseline = {"p": np.nan, "m": pd.NA, "model": "unsupervised", "difference": -0.5, "se": np.nan}
    figure = draw_differences(rows({}, {"m": 20, "difference": 0.5}, {"p": 0.8}, baseline), "nmi")
    assert figure is not None
    assert titles(figure) == ["accuracy p = 0.8", "accuracy p = 0.9"]
    drawn = {
        str(container.get_label()): container.lines[0].get_xydata().tolist()
        for container in figure.axes[1].containers
    }
    assert drawn == {"posterior": [[10.0, 0.25], [20.0, 0.5]], "unsupervised": [[0.0, -0.5]]}


def test_baselines_alone_are_one_panel_without_a_title() -> None:
    alone = rows({"p": np.nan, "m": pd.NA, "model": "unsupervised"})
    figure = draw_differences(alone, "nmi")
    assert figure is not None
    assert titles(figure) == [""]


def test_each_of_many_shapes_has_a_row_of_its_own() -> None:
    models = ("posterior", "posterior-full", "unsupervised-diagonal")
    figure = draw_differences(rows(*({"model": model} for model in models)), "nmi")
    assert figure is not None
    labels = [axes.get_ylabel().split("\n")[0] for axes in figure.axes]
    assert labels == ["iris, spherical", "iris, diagonal", "iris, full"]
    drawn = [[str(container.get_label()) for container in axes.containers] for axes in figure.axes]
    assert drawn == [["posterior"], ["unsupervised-diagonal"], ["posterior-full"]]


@pytest.mark.parametrize("change", [{"n_cells": 0}, {"score": "seconds"}])
def test_without_a_pair_there_is_no_figure(change: dict[str, object]) -> None:
    assert draw_differences(rows(change), "nmi") is None


def spec_of_settings(**more: object) -> dict[str, object]:
    grid = {"datasets": [{"name": "iris", "scale": "none"}]}
    return {"name": "a", "seed": 7, "grid": grid, "search": {"generations": 3}, **more}


@pytest.fixture
def first(tmp_path: Path) -> Manifest:
    cube = tmp_path / "a.zarr"
    toy.write(cube, toy.plan("iris"), spec=spec_of_settings())
    return read_manifest(cube)


def other(folder: Path, **more: object) -> Manifest:
    cube = folder / "b.zarr"
    toy.write(cube, toy.plan("iris"), spec=spec_of_settings(**more))
    return read_manifest(cube)


def test_a_key_at_its_default_has_a_value(first: Manifest, tmp_path: Path) -> None:
    second = other(tmp_path, search={"generations": 3, "proportions": "free", "feature_weight": 0.5})
    lines = list(differences(first, second))
    assert "search.proportions: A " in "\n".join(lines)
    assert len(lines) == 2
    assert not any("not there" in line or "A none" in line for line in lines)


def test_a_table_that_one_leaves_out_is_none(first: Manifest, tmp_path: Path) -> None:
    lines = list(differences(first, other(tmp_path, stop={"risk": 0.05})))
    assert "stop.risk: A none, B 0.05" in lines
    assert all(line.startswith("stop.") for line in lines)


def test_the_same_sweep_differs_in_nothing(first: Manifest) -> None:
    assert list(differences(first, first)) == []


def searched(manifest: Manifest, **settings: dict[str, object]) -> Manifest:
    tables = [{"name": name, **keys} for name, keys in settings.items()]
    return replace(manifest, spec=toy.sweep(spec_of_settings(search=tables)))


def test_the_only_search_of_one_is_set_beside_that_of_its_settings(first: Manifest) -> None:
    several = searched(first, short={"generations": 3}, far={"generations": 9})
    for a, b, where in ((first, several, "B"), (several, first, "A")):
        called, line = differences(a, b)
        only = "A" if where == "B" else "B"
        assert called == f"search: the one of {only} is short of {where}"
        assert line.startswith(
            f"search far: only in {where} (method published, population 10, offspring 10, gen"
        )


def test_searches_of_one_name_are_set_beside_each_other(first: Manifest) -> None:
    one = searched(first, short={"generations": 3}, long={"generations": 9})
    two = searched(first, short={"generations": 3, "offspring": 4}, longer={"generations": 9})
    offspring, *others = differences(one, two)
    assert offspring == "search.short.offspring: A 10, B 4"
    assert [line.partition(" (")[0] for line in others] == [
        "search long: only in A",
        "search longer: only in B",
    ]
