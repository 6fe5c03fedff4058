"""Two cubes in pairs, through the command: other scores, bad input, and nothing in common."""

import re
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from cubes import toy

from sweep_clustering.pipeline.commands.main import main


def compare(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["compare", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_differences_are_of_the_cells_in_both(tmp_path: Path) -> None:
    for name, plans, scale in (
        ("first", [toy.plan("iris"), toy.plan("wine")], "none"),
        ("second", [toy.plan("iris"), toy.plan("mix_k3", mixtures=2)], "standard"),
    ):
        entries = [{"name": plan.name, "scale": scale} for plan in plans]
        grid = {"datasets": entries, "m": ["12", "1N"]}
        toy.write(tmp_path / f"{name}.zarr", *plans, spec={"name": name, "seed": 7, "grid": grid})
    code, text, _ = compare(
        *(tmp_path / f"{name}.zarr" for name in ("first", "second")),
        *("--score", "seconds", "--score", "nmi", "--out", tmp_path / "out"),
    )
    assert code == 0
    lines = {"  iris.scale: A none, B standard", "23 cells are done in both", "25 only in A:"}
    assert lines | {"  and 20 more, in unpaired.csv"} < set(text.splitlines())
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 100
    pairs, table = (pd.read_csv(tmp_path / "out" / f"{name}.csv") for name in ("pairs", "differences"))
    assert len(pairs) == 2 * 23
    for row in table[table["p"].notna()].itertuples():
        same = (pairs["score"] == row.score) & (pairs["p"] == row.p) & (pairs["m"] == row.m)
        rows = pairs[same & (pairs["model"] == row.model)]
        assert row.difference == pytest.approx((rows["b"] - rows["a"]).mean())
    html = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    sections = ["by-seconds", "by-nmi", "unpaired", "settings"]
    assert re.findall(r'<section id="([\w-]+)">', html) == sections


def test_both_wrong_cubes_are_named_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    code, _, errors = compare(tmp_path / "a", tmp_path / "b", "--out", tmp_path / "out")
    assert code == 2
    assert all(str(tmp_path / name) in errors for name in ("a", "b"))
    assert not (tmp_path / "out").exists()


def test_cubes_without_a_common_cell_are_compared_by_their_settings(tmp_path: Path) -> None:
    for name in ("iris", "wine"):
        spec = {"name": name, "seed": 7, "grid": {"datasets": [{"name": name, "scale": "none"}]}}
        toy.write(tmp_path / f"{name}.zarr", toy.plan(name, models=(), p=(), m=()), spec=spec)
    code, text, _ = compare(tmp_path / "iris.zarr", tmp_path / "wine.zarr", "--out", tmp_path / "out")
    assert code == 0
    assert {"  data set wine: only in B", "0 cells are done in both"} < set(text.splitlines())
    assert (tmp_path / "out" / "compare.html").is_file()
