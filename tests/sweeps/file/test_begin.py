"""A first sweep file describes columns that are clear from their cells, or asks the user."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from processes.commandline import refuse, succeed, sweep

from sweep_clustering.sweeps.errors import InputError
from sweep_clustering.sweeps.file.begin import sweep_file_of
from sweep_clustering.sweeps.file.reading import load_sweep


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write tables with clear classes, with none, and with two columns that may be classes."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["width", "height"])
    frame.insert(0, "plant", [f"plant {row}" for row in range(30)])
    frame.insert(1, "nr", rng.permutation(30))
    frame["species"], frame["note"] = ["setosa", "other"] * 15, [f"text {row // 2}" for row in range(30)]
    frame.loc[3, "height"] = np.nan
    frame.to_csv("my plants.csv", index=False)
    frame[["width", "height"]].to_csv("bare.csv", index=False)
    frame[["width"]].assign(colour=["red", "blue"] * 15, size=["big", "small"] * 15).to_csv(
        "two.csv", index=False
    )


def test_clear_columns_are_described_and_the_file_passes_the_dry_run() -> None:
    result = succeed("init", "my plants.csv")
    text = Path("my plants.toml").read_text()
    assert text in result.stdout
    lines = text.splitlines()
    assert lines[1] == "#     sweep plan 'my plants.toml'"
    assert 'label_column = "species"  # 2 classes: other 14, setosa 15' in lines
    assert 'index_column = "plant"  # names of the rows' in lines
    assert "drop = [\"nr\", \"note\"]  # 'nr' tells rows apart; 'note' holds texts" in lines
    assert 'missing = "drop"  # rows with an empty cell are left out' in lines
    spec = load_sweep(Path("my plants.toml"))
    assert spec.name == "my-plants"
    assert [entry.name for entry in spec.grid.datasets] == ["my-plants"]
    succeed("submit", "my plants.toml", "--dry-run")


def test_a_file_that_is_there_stays_and_all_problems_come_at_once() -> None:
    Path("bare.toml").write_text("mine")
    problems = refuse("init", "bare.csv", "nothing.csv", "two.csv")
    assert "4 problems, nothing was started" in problems
    assert "bare.toml, which is there already, expected a new file\n" in problems
    assert "nothing.csv: no such file" in problems
    assert "no column that is clearly the class, expected --label-column COLUMN" in problems
    assert "two.csv: found no column that is clearly the class ('colour', 'size' may be)" in problems
    assert Path("bare.toml").read_text() == "mine"
    assert sweep("init", "two.csv", "--out", "none/two.toml", "--label-column", "size").exit_code == 2


def test_what_is_not_clear_can_be_named() -> None:
    text = sweep_file_of([Path("two.csv")], Path("two.toml"), label_column="size", n_clusters=3)
    assert 'label_column = "size"  # 2 classes: big 15, small 15\ndrop = ["colour"]' in text
    assert "\nn_clusters = 3\n" in text
    with pytest.raises(InputError, match="'length'"):
        sweep_file_of([Path("two.csv")], Path("two.toml"), label_column="length")
    # two tables of one name have two names, and paths are relative to the sweep file
    Path("far").mkdir()
    Path("far/two.csv").write_bytes(Path("two.csv").read_bytes())
    text = sweep_file_of([Path("two.csv"), Path("far/two.csv")], Path("far/all.toml"), label_column="size")
    assert 'name = "two"\npath = "../two.csv"' in text
    assert 'name = "two-2"\npath = "two.csv"' in text
