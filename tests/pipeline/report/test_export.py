"""Tables and grids of a cube for other programs: the same values as the cube, and whole files."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from cubes import toy
from cubes.reported import make

from sweep_clustering.pipeline.commands.main import main
from sweep_clustering.pipeline.report.elements import spreadsheet
from sweep_clustering.pipeline.report.write import write_export, write_rows
from sweep_clustering.pipeline.scoring.scores import score_datasets
from sweep_clustering.pipeline.scoring.tables import cell_table, summary_table
from sweep_clustering.storage.cube.growth import open_cube
from sweep_clustering.storage.cube.manifest import read_manifest
from sweep_clustering.sweeps.errors import InputError

CELL = ["mixture", "p", "m", "replicate", "model"]


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    drawn = toy.plan("drawn", mixtures=2, replicates=1, replicate_chunk=1)
    return make(tmp_path_factory.mktemp("exported"), toy.plan("iris", replicates=1, replicate_chunk=1), drawn)


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


@pytest.mark.parametrize("how", ["csv", "parquet"])
def test_tables_are_those_of_the_cube(how: str, cube: Path, tmp_path: Path) -> None:
    tree, plans = open_cube(cube), read_manifest(cube).plans
    written = write_export(cube, tmp_path / "out", how)
    assert sorted(written) == sorted((tmp_path / "out").iterdir())
    names = ("cells", "summary", *(f"labels-{name}" for name in plans))
    assert [path.name for path in written] == [f"{name}.{how}" for name in names]
    cells = cell_table(tree, plans)
    for path, expected in zip(written, (cells, summary_table(cells)), strict=False):
        pd.testing.assert_frame_equal(read(path), expected, check_dtype=False, check_exact=True)
    for path, plan in zip(written[2:], plans.values(), strict=True):
        found, data = read(path), tree[plan.name]
        n_done = int((cells["dataset"].eq(plan.name) & cells["status"].eq("done")).sum())
        assert len(found) == n_done * plan.n_samples
        for place, rows in found.groupby(CELL, dropna=False):
            there = {key: value for key, value in zip(CELL, place, strict=True) if pd.notna(value)}
            mixture = {key: there[key] for key in ("mixture",) if key in there}
            node = data if "p" in there else data[there.pop("model")]
            assert rows["label"].tolist() == node["labels"].sel(there).values.tolist()
            assert rows["label_true"].tolist() == data["labels_true"].sel(mixture).values.tolist()
            assert rows["sample"].tolist() == list(range(1, plan.n_samples + 1))


def test_grids_open_without_this_package(cube: Path, tmp_path: Path) -> None:
    tree, plans = open_cube(cube), read_manifest(cube).plans
    write_export(cube, tmp_path / "out", "netcdf")
    for name in plans:
        for path, expected in score_datasets(tree, name).items():
            file = tmp_path / "out" / f"{path.replace('/', '-')}.nc"
            with xr.open_dataset(file, engine="scipy") as found:
                assert set(found) == {*expected, "labels", "status"}
                for score, values in expected.items():
                    assert np.array_equal(found[score].values, values.values, equal_nan=True)
                assert np.array_equal(found["labels"].values, tree[path]["labels"].values)


def test_nothing_is_overwritten_unasked(cube: Path, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "file"
    out.mkdir()
    for path in (out / "cells.csv", file):
        path.write_text("mine")
    for folder, how, found in (
        (out, "csv", "found files, expected an empty folder, or none"),
        (file, "csv", "found a file, expected a folder to write to"),
    ):
        with pytest.raises(InputError, match=found):
            write_export(cube, folder, how)
    assert (out / "cells.csv").read_text() == file.read_text() == "mine"
    result = CliRunner().invoke(main, ["export", str(cube), "--out", str(out), "--force"])
    assert result.exit_code == 0, result.output
    assert str(out / "cells.csv") in result.stdout
    assert (out / "cells.csv").read_text() != "mine"
    assert not list(tmp_path.glob(".*"))
    both = CliRunner().invoke(main, ["export", str(cube), "--scores", "--force"])
    assert both.exit_code == 2
    assert "--force: found --scores as well, expected one of them" in both.stderr


def test_parts_with_and_without_a_name_are_one_table(tmp_path: Path) -> None:
    # a method among the baselines has no search, and a baseline no design
    parts = [
        pd.DataFrame({"design": pd.NA, "search": pd.NA, "label": [0, 1]}, dtype=object),
        pd.DataFrame({"design": "active", "search": "quick", "label": [0, 1]}, dtype=object),
    ]
    for kind in ("csv", "parquet"):
        write_rows(tmp_path / f"labels.{kind}", iter(parts))
        found = read(tmp_path / f"labels.{kind}")
        assert found[["design", "search"]].isna().all(axis=1).tolist() == [True, True, False, False]
        assert found["search"][2:].tolist() == ["quick", "quick"]


def test_texts_are_no_formulas() -> None:
    table = pd.DataFrame({"sample": ["=1+2", "-3", "@x", "a\x1b[2J", "b"], "p": [-0.5, 1, 2, 3, 4]})
    found = pd.read_csv(io.StringIO(spreadsheet(table).to_csv(index=False)), dtype=str)
    assert found["sample"].tolist() == ["'=1+2", "-3", "'@x", "a [2J", "b"]
    assert found["p"].tolist() == ["-0.5", "1.0", "2.0", "3.0", "4.0"]
