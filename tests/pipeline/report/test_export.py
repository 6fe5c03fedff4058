"""Tables and grids of a cube for other programs: the same values as the cube, and whole files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from cubes import toy
from cubes.reported import make

from pipeline.commands.main import main
from pipeline.report.elements import cells_of
from pipeline.report.export import label_tables, write_export, write_rows
from pipeline.scoring.scores import baseline_scores, scores
from pipeline.scoring.tables import cell_table, summary_table
from storage.cube.growth import open_cube
from storage.cube.manifest import read_manifest
from sweeps.errors import InputError


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("exported"), toy.plan("iris"), toy.plan("drawn", mixtures=2))


def read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


@pytest.mark.parametrize(("how", "suffix"), [("csv", ".csv"), ("parquet", ".parquet")])
def test_tables_are_those_of_the_cube(how: str, suffix: str, cube: Path, tmp_path: Path) -> None:
    tree, plans = open_cube(cube), read_manifest(cube).plans
    written = write_export(cube, tmp_path / "out", how)
    assert sorted(written) == sorted((tmp_path / "out").iterdir())
    assert [path.name for path in written] == [
        f"{name}{suffix}" for name in ("cells", "summary", *(f"labels-{name}" for name in plans))
    ]
    cells = cell_table(tree, plans)
    for name, expected in (("cells", cells), ("summary", summary_table(cells))):
        found = read(tmp_path / "out" / f"{name}{suffix}")
        assert found.columns.tolist() == expected.columns.tolist()
        for column in expected:
            if pd.api.types.is_float_dtype(expected[column].dtype):
                assert np.array_equal(found[column], expected[column].astype(float), equal_nan=True), column
    for name, plan in plans.items():
        found = read(tmp_path / "out" / f"labels-{name}{suffix}")
        n_done = int((cells["dataset"].eq(name) & cells["status"].eq("done")).sum())
        assert len(found) == n_done * plan.n_samples
        groups = found.groupby(["mixture", "p", "m", "replicate", "model"], dropna=False)
        assert all(len(rows) == plan.n_samples for _, rows in groups)
        nodes = {"": tree[name], **{model: tree[f"{name}/{model}"] for model in plan.baselines}}
        for model, node in nodes.items():
            one = found[found["model"].eq(model) if model else ~found["model"].isin(plan.baselines)]
            if "labels" in node:
                labels = node["labels"].values
                assert sorted(one["label"]) == sorted(labels[labels >= 0].tolist())


def test_labels_stand_at_their_cell(cube: Path) -> None:
    tree, plans = open_cube(cube), read_manifest(cube).plans
    for plan in plans.values():
        rows = pd.concat(label_tables(tree, plan))
        rows = rows[rows["p"].notna()]
        for _, one in rows.groupby(["mixture", "p", "m", "replicate", "model"], dropna=False):
            head = one.iloc[0]
            place = {
                key: head[key] for key in ("mixture", "p", "m", "replicate", "model") if pd.notna(head[key])
            }
            assert one["label"].tolist() == tree[plan.name]["labels"].sel(place).values.tolist()
            truth = tree[plan.name]["labels_true"].sel(
                {key: place[key] for key in ("mixture",) if key in place}
            )
            assert one["label_true"].tolist() == truth.values.tolist()
            assert one["sample"].tolist() == list(range(1, plan.n_samples + 1))


def test_grids_open_without_this_package(cube: Path, tmp_path: Path) -> None:
    tree, plans = open_cube(cube), read_manifest(cube).plans
    write_export(cube, tmp_path / "out", "netcdf")
    for name, plan in plans.items():
        nodes = {name: scores(tree, name)} if plan.supervised else {}
        nodes |= {f"{name}-{model}": baseline_scores(tree, name, model) for model in plan.baselines}
        for stem, expected in nodes.items():
            with xr.open_dataset(tmp_path / "out" / f"{stem}.nc", engine="scipy") as found:
                for score, values in expected.items():
                    assert np.array_equal(found[score].values, values.values, equal_nan=True)
                assert found["labels"].dims[-1] == "sample"


def test_nothing_is_overwritten_unasked(cube: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "cells.csv").write_text("mine")
    with pytest.raises(InputError, match="found files, expected an empty folder, or none"):
        write_export(cube, out, "csv")
    assert (out / "cells.csv").read_text() == "mine"
    write_export(cube, out, "csv", overwrite=True)
    assert (out / "cells.csv").read_text() != "mine"
    assert not list(tmp_path.glob(".*"))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="found a file, expected a folder, or nothing"):
        write_export(cube, tmp_path / "file", "csv")
    with pytest.raises(InputError, match="--format: found 'cvs'"):
        write_export(cube, out, "cvs")


def test_the_command(cube: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["export", str(cube), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "out" / "cells.csv") in result.stdout
    both = CliRunner().invoke(main, ["export", str(cube), "--scores", "--force"])
    assert both.exit_code == 2
    assert "--force: found --scores as well, expected one of them" in both.stderr
    for said in ("", ", as they were"):
        stored = CliRunner().invoke(main, ["export", str(cube), "--scores"])
        assert stored.stdout == f"scores: {cube.with_suffix('.scores.zarr')}{said}\n"


@pytest.mark.parametrize("column", ["design", "search"])
def test_parts_with_and_without_a_name_are_one_table(column: str, tmp_path: Path) -> None:
    names = [pd.NA, "quick"]  # a method among the baselines has no search, and a baseline no design
    parts = [pd.DataFrame({column: [name, name], "label": [0, 1]}).astype({column: object}) for name in names]
    for kind in ("csv", "parquet"):
        path = tmp_path / f"labels.{kind}"
        write_rows(path, iter(parts))
        found = read(path)
        assert found[column].isna().tolist() == [True, True, False, False]
        assert found[column][2:].tolist() == ["quick", "quick"]


def test_texts_are_no_formulas() -> None:
    table = pd.DataFrame({"sample": ["=1+2", "-3", "@x", "a\x1b[2J", "b"], "p": [-0.5, 1, 2, 3, 4]})
    found = pd.read_csv(io.StringIO(cells_of(table).to_csv(index=False)), dtype=str)
    assert found["sample"].tolist() == ["'=1+2", "-3", "'@x", "a [2J", "b"]
    assert found["p"].tolist() == ["-0.5", "1.0", "2.0", "3.0", "4.0"]
