"""Shapes that cells chose, counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cubes import toy
from cubes.reported import tables

from pipeline.scoring.choices import COLUMNS, choice_table
from storage.cube.schema import DONE
from sweeps.shapes import CANDIDATES, CODES

PLAN = toy.plan("iris", models=("likelihood", "posterior-auto", "conditional-auto"), model_chunk=3)


def row(shape: str, log_loss: float = np.nan, predicted: float = np.nan, **changes: object) -> dict:
    usual = {"dataset": "wine", "p": 0.9, "m": 10, "m_over_n": 0.5, "model": "posterior-auto"}
    usual |= {"status": "done", "covariance_shape": shape, "log_loss": log_loss, "predicted": predicted}
    return usual | changes


def test_choices_are_counted_and_cells_without_one_left_out_of_the_means() -> None:
    cells = pd.DataFrame(
        [
            row("full", 0.2, 0.9),
            row("full", 0.4, 0.7),
            row("spherical"),
            row("spherical", 0.6, 0.5),
            row("tied", 9.0, 0.1, status="pending"),
            row("spherical", 9.0, 0.1, model="posterior"),
            row("tied", 0.1, 1.0, dataset="iris", m=5),
            row("tied", 0.1, 1.0, m=5),
        ]
    )
    found = choice_table(cells)
    assert list(zip(found["dataset"], found["m"], strict=True)) == [("wine", 5), ("wine", 10), ("iris", 5)]
    ten = found.loc[1]
    assert [ten[name] for name in ("n", *CANDIDATES, "too_few")] == [4, 2, 0, 0, 2, 1]
    assert ten["log_loss"] == pytest.approx(0.4)
    assert ten["predicted"] == pytest.approx(0.7)


def test_a_cell_has_the_scores_of_the_shape_it_chose() -> None:
    cells, _, _ = tables(PLAN)
    node = toy.tree(PLAN)["iris"].to_dataset()
    for cell in cells[cells["p"].notna()].itertuples():
        one = node.sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
        if not cell.model.endswith("-auto") or int(one["status"]) != DONE:
            assert pd.isna([cell.covariance_shape, cell.log_loss, cell.predicted]).all()
            continue
        assert CODES[cell.covariance_shape] == int(one["covariance_shape"])
        assert cell.log_loss == float(one["held_out"].sel(candidate=cell.covariance_shape))
        assert cell.predicted == float(one["held_out_right"].sel(candidate=cell.covariance_shape))
    found = choice_table(cells)
    assert set(found["model"]) == {"posterior-auto", "conditional-auto"}
    assert (found[list(CANDIDATES)].sum(axis=1) == found["n"]).all()


def test_a_cube_of_other_models_has_no_choices() -> None:
    cells, _, _ = tables(toy.plan("iris"))
    assert choice_table(cells).empty
    assert tuple(choice_table(cells).columns) == COLUMNS
