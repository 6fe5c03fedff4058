"""Two cubes in pairs: through the command, in a browser, and what they were asked for."""

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

from pipeline.commands.main import main
from pipeline.report.compare import differences
from storage.cube.manifest import Manifest, read_manifest


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


@pytest.mark.usefixtures("page_alone")
def test_json_is_one_document_and_a_cube_equals_itself(cubes: tuple[Path, Path], tmp_path: Path) -> None:
    code, text, _ = compare(*cubes, "--json", "--out", tmp_path)
    document = json.loads(text)
    assert (code, document["cells"]) == (0, 23)
    assert document["unpaired"] == {"only in A": 25, "only in B": 50, "not done in A": 2}
    assert [row["score"] for row in document["table"]] == ["nmi"] * 9 + ["adjusted_rand"] * 9
    assert {row["model"] for row in document["total"]} == {"unsupervised", "likelihood", "posterior"}
    code, text, _ = compare(cubes[0], cubes[0], "--score", "objective", "--json", "--out", tmp_path)
    document = json.loads(text)
    assert (code, document["settings"]) == (0, [])
    assert all(row["ties"] == 1 and row["difference"] == 0 for row in document["table"])


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


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    cube = tmp_path_factory.mktemp("first") / "a.zarr"
    toy.write(cube, toy.plan("iris", models=(), p=(), m=()), spec=spec("a", "iris"))
    return read_manifest(cube)


def asked(manifest: Manifest, **more: object) -> Manifest:
    """The same cube, of a sweep file with other tables."""
    return replace(manifest, spec=toy.sweep(spec("a", "iris", **more)))


def test_keys_at_their_default_have_a_value_and_a_table_that_is_left_out_is_none(first: Manifest) -> None:
    other = asked(first, search={"generations": 3, "proportions": "free", "feature_weight": 0.5})
    lines = list(differences(first, other))
    assert len(lines) == 2
    assert "search.proportions: A " in "\n".join(lines)
    assert not any("A none" in line for line in lines)
    lines = list(differences(first, asked(first, stop={"risk": 0.05})))
    assert "stop.risk: A none, B 0.05" in lines
    assert all(line.startswith("stop.") for line in lines)
    assert list(differences(first, first)) == []


def test_searches_are_set_beside_those_of_their_settings_or_name(first: Manifest) -> None:
    def searched(**settings: dict[str, object]) -> Manifest:
        return asked(first, search=[{"name": name, **keys} for name, keys in settings.items()])

    several = searched(short={"generations": 3}, far={"generations": 9})
    for a, b, only, where in ((first, several, "A", "B"), (several, first, "B", "A")):
        called, line = differences(a, b)
        assert called == f"search: the one of {only} is short of {where}"
        assert line.startswith(
            f"search far: only in {where} (method published, population 10, offspring 10, gen"
        )
    one = searched(short={"generations": 3}, long={"generations": 9})
    two = searched(short={"generations": 3, "offspring": 4}, longer={"generations": 9})
    offspring, *others = differences(one, two)
    assert offspring == "search.short.offspring: A 10, B 4"
    told = [line.partition(" (")[0] for line in others]
    assert told == ["search long: only in A", "search longer: only in B"]


def test_seeds_and_data_that_differ_are_said(first: Manifest) -> None:
    plans = {"iris": replace(first.plans["iris"], checksum="1" * 64)}
    said = list(differences(first, replace(asked(first, seed=8), plans=plans)))
    assert said[0].startswith("seed: A 7, B 8")
    assert [line.partition(":")[0] for line in said[1:]] == [
        "the seeds differ",
        "iris is not the same data in both",
    ]
    assert np.unique(said).size == 3
