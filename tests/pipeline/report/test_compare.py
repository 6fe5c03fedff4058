"""Two cubes in pairs: hand-made cells, then cubes on disk through the command."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from cubes import toy

from pipeline.commands.main import main
from pipeline.report.compare import _rows


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
    wide = list(_rows([head, line]))
    assert line[0] in wide[1]
    assert line[3] in wide[1]
    assert len(wide[0]) == len(wide[1]) > len(*_rows([head]))


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
