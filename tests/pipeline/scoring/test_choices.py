"""Shapes that cells chose, counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cubes import toy
from cubes.reported import tables

from pipeline.scoring.choices import COLUMNS, PREDICTED, choice_table, prediction_table
from storage.cube.schema import DONE
from sweeps.shapes import CANDIDATES, CODES
from sweeps.words import shape_of

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


def test_predictions_are_means_over_the_cells_that_held_annotations_out() -> None:
    usual = {"covariance_shape": np.nan, "model": "posterior"}
    cells = pd.DataFrame(
        [
            row("full", 0.2, 0.9),
            row("spherical"),
            row("full", 0.5, 0.6),
            row("", 0.4, 0.8, **usual),
            row("", 9.0, 0.1, **usual | {"status": "failed"}),
            row("", **usual | {"m": 5}),
            row("", 0.1, 1.0, **usual | {"dataset": "iris"}),
            row("", **usual | {"model": "pckmeans"}),  # a method predicts nothing, and has not too few
            row("", **usual | {"p": np.nan, "m": np.nan, "m_over_n": np.nan, "model": "unsupervised"}),
        ]
    )
    found = prediction_table(cells)
    assert tuple(found.columns) == PREDICTED
    where = zip(found["dataset"], found["m"], found["model"], strict=True)
    assert list(where) == [
        ("wine", 5, "posterior"),
        ("wine", 10, "posterior"),
        ("wine", 10, "posterior-auto"),
        ("iris", 10, "posterior"),
    ]
    assert found["n"].tolist() == [1, 1, 3, 1]
    assert found["too_few"].tolist() == [1, 0, 1, 0]
    assert found["predicted"].tolist() == pytest.approx([np.nan, 0.8, 0.75, 1.0], nan_ok=True)
    assert found["log_loss"].tolist() == pytest.approx([np.nan, 0.4, 0.35, 0.1], nan_ok=True)
    nothing = prediction_table(cells.assign(status="pending"))
    assert nothing.empty
    assert tuple(nothing.columns) == PREDICTED


@pytest.mark.parametrize("last", ["posterior-full", "conditional-auto"])
def test_every_cell_has_the_scores_of_its_own_shape(last: str) -> None:
    plan = toy.plan("iris", models=("likelihood", "posterior-common", last), model_chunk=3, held_out=True)
    cells, _, _ = tables(plan)
    node = toy.tree(plan)["iris"].to_dataset()
    done = cells[cells["p"].notna() & (cells["status"] == "done")]
    for cell in done.itertuples():
        one = node.sel(p=cell.p, m=cell.m, replicate=cell.replicate, model=cell.model)
        own = cell.covariance_shape if cell.model.endswith("-auto") else shape_of(cell.model)
        assert pd.isna(cell.covariance_shape) == (not cell.model.endswith("-auto"))
        assert cell.log_loss == float(one["held_out"].sel(candidate=own))
        assert cell.predicted == float(one["held_out_right"].sel(candidate=own))
    found = prediction_table(cells)
    assert set(found["model"]) == set(plan.models)
    assert found["n"].sum() == len(done)
    assert cells[cells["p"].isna()]["log_loss"].isna().all()
