"""Two cubes in pairs: hand-made cells, then cubes on disk through the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from cubes import toy

from pipeline.commands.main import main
from pipeline.scoring.pairs import difference_table, pair, total_table


def cells(*rows: dict[str, object]) -> pd.DataFrame:
    usual = {
        "dataset": "iris",
        "mixture": pd.NA,
        "p": 0.9,
        "m": 10,
        "replicate": 0,
        "model": "posterior",
        "status": "done",
        "nmi": 0.5,
        "goldberger_kl": 1.0,
    }
    table = pd.DataFrame([{**usual, **row} for row in rows])
    return table.astype({**dict.fromkeys(("mixture", "m", "replicate"), "Int64"), "p": float})


BASELINE = {"p": np.nan, "m": pd.NA, "replicate": pd.NA, "model": "unsupervised"}


def test_differences_are_paired_cell_by_cell() -> None:
    a = cells(*({"replicate": r, "nmi": nmi} for r, nmi in enumerate((0.1, 0.5, 0.9))))
    b = cells(*({"replicate": r, "nmi": nmi} for r, nmi in ((2, 0.9), (0, 0.4), (1, 0.6))))
    pairs, unpaired = pair(a, b, ["nmi"])
    assert unpaired.empty
    (row,) = difference_table(pairs).itertuples()
    differences = np.array([0.3, 0.1, 0.0])
    assert (row.n, row.n_missing) == (3, 0)
    assert row.difference == pytest.approx(differences.mean())
    assert row.se == pytest.approx(differences.std(ddof=1) / np.sqrt(3))
    assert (row.wins_b, row.wins_a, row.ties) == pytest.approx((2 / 3, 0, 1 / 3))
    assert (row.mean_a, row.mean_b) == pytest.approx((0.5, 1.9 / 3))


def test_less_divergence_wins_and_rounding_does_not() -> None:
    a = cells(*({"replicate": r, "goldberger_kl": kl} for r, kl in enumerate((1.0,) * 4)))
    b = cells(*({"replicate": r, "goldberger_kl": kl} for r, kl in enumerate((0.5, 0.6, 2.0, 1.0 + 1e-12))))
    (row,) = difference_table(pair(a, b, ["goldberger_kl"])[0]).itertuples()
    assert (row.wins_b, row.wins_a, row.ties) == (0.5, 0.25, 0.25)


def test_baselines_pair_although_they_have_no_coordinates() -> None:
    pairs, unpaired = pair(cells(BASELINE, {}), cells({}, BASELINE), ["nmi"])
    assert len(pairs) == 2
    assert unpaired.empty


def test_cells_without_a_partner_are_named_with_the_reason() -> None:
    a = cells({}, {"m": 20}, {"m": 30, "status": "failed"}, {"m": 40}, {"dataset": "wine"})
    b = cells({}, {"m": 30}, {"m": 40, "status": "pending"}, {"dataset": "ecoli", "mixture": 3})
    pairs, unpaired = pair(a, b, ["nmi"])
    assert len(pairs) == 1
    assert unpaired.set_index("cell")["why"].to_dict() == {
        "iris/p=0.9/m=20/replicate=0/posterior": "only in A",
        "iris/p=0.9/m=30/replicate=0/posterior": "not done in A",
        "iris/p=0.9/m=40/replicate=0/posterior": "not done in B",
        "wine/p=0.9/m=10/replicate=0/posterior": "only in A",
        "ecoli/mixture=3/p=0.9/m=10/replicate=0/posterior": "only in B",
    }


def test_a_score_that_one_of_two_lacks_is_counted_and_left_out() -> None:
    a = cells({"nmi": 0.5}, {"replicate": 1, "nmi": np.nan})
    b = cells({"nmi": 0.7}, {"replicate": 1, "nmi": 0.9})
    (row,) = total_table(pair(a, b, ["nmi"])[0]).itertuples()
    assert (row.n, row.n_missing, row.mean_b) == (1, 1, 0.7)
    assert row.difference == pytest.approx(0.2)


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
        toy.write(cube, *plans, spec={"name": name, "seed": seed, "grid": grid})
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
    assert any("not the same draws" in line for line in lines)
    assert "23 cells are done in both" in lines
    assert "25 only in A:\n  wine/" in text
    assert "  and 20 more, in unpaired.csv" in lines
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 100
    tables = {"pairs.csv", "differences.csv", "unpaired.csv"}
    figures = {f"{score}.{suffix}" for score in ("nmi", "seconds") for suffix in ("svg", "png")}
    assert {file.name for file in tmp_path.iterdir()} == tables | figures
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
    assert len(document["table"]) == 9
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
