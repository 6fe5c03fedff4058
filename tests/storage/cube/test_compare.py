"""The same bits: what counts as a difference, and between which cells."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import numpy as np
import pytest
from cubes.small import draw_block, make_plan
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from storage.cube.compare import CellMismatch, compare_cells, compare_set_back, differing_rows
from storage.cube.schema import DONE, FAILED, PENDING
from sweeps.plan import Block

PLAN = make_plan("a", replicates=3, models=("likelihood", "posterior"))
BLOCK = Block("a", 0.9, 4, None, (0, 3), ("likelihood", "posterior"))
KNOWN = np.array([True, True, True])


def bits(value: float) -> bytes:
    return b"NaN" if np.isnan(value) else struct.pack("<d", value)


FLOATS = st.sampled_from([0.0, -0.0, 1.0, np.nextafter(1.0, 2.0), np.nan, -np.nan, np.inf, 5e-324])


@given(st.data(), st.integers(1, 3), st.integers(0, 3))
def test_a_row_differs_if_one_of_its_values_has_other_bits(
    data: st.DataObject, rows: int, columns: int
) -> None:
    shape = (rows, columns) if columns else (rows,)
    one, other = (data.draw(hnp.arrays(np.float64, shape, elements=FLOATS)) for _ in range(2))
    wanted = [
        any(bits(a) != bits(b) for a, b in zip(np.ravel(first), np.ravel(second), strict=True))
        for first, second in zip(one, other, strict=True)
    ]
    assert differing_rows(one, other).tolist() == wanted
    assert not differing_rows(one, one.copy()).any()


def test_whole_numbers_differ_by_value() -> None:
    one, other = np.array([[1, 2], [3, 4]], np.int16), np.array([[1, 2], [3, 5]], np.int16)
    assert differing_rows(one, other).tolist() == [False, True]


def results(**changes: Any) -> dict[str, np.ndarray]:
    return draw_block(PLAN, BLOCK) | {name: np.asarray(value) for name, value in changes.items()}


def test_times_and_cells_that_are_not_done_say_nothing() -> None:
    stored = results(status=[DONE, FAILED, DONE, PENDING, DONE, DONE])
    new = results(seconds=np.arange(6.0), status=[DONE, DONE, PENDING, DONE, DONE, DONE])
    for name in ("labels", "log_likelihood", "best_restart"):
        new[name][[1, 2, 3]] += 1
    compare_cells(BLOCK, stored, new, KNOWN)


def test_the_first_cell_that_differs_is_named_with_both_values() -> None:
    new = results()
    new["covariances"][4, 1] = -0.0
    new["best_restart"][[4, 5]] += 1
    stored = results()
    stored["covariances"][4, 1] = 0.0
    with pytest.raises(CellMismatch) as caught:
        compare_cells(BLOCK, stored, new, KNOWN)
    found = caught.value
    assert found.cell == list(BLOCK.cells())[4]
    assert found.n_others == 1
    assert list(found.values) == ["covariances", "best_restart"]
    assert "covariances[1] stored 0.0, new -0.0 (1 of 2 values differ)" in str(found)
    assert f"best_restart stored {stored['best_restart'][4]}, new {new['best_restart'][4]}" in str(found)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_a_cell_that_failed_now_and_was_done_is_a_mismatch() -> None:
    with pytest.raises(CellMismatch, match=rf"status stored {DONE}, new {FAILED}"):
        compare_cells(BLOCK, results(), results(status=[DONE, FAILED] + [DONE] * 4), KNOWN)


@pytest.mark.parametrize("known", [True, False])
def test_annotations_are_compared_where_a_done_cell_has_used_them(known: bool) -> None:
    """Also where another model, in another block, has."""
    stored, new = results(status=[DONE, DONE, PENDING, PENDING, DONE, DONE]), results()
    new["annotations"][1, 2, 0] += 1
    where = np.array([True, known, True])
    if not known:
        compare_cells(BLOCK, stored, new, where)
        return
    with pytest.raises(CellMismatch, match=r"annotations\[2, 0\]") as caught:
        compare_cells(BLOCK, stored, new, where)
    assert caught.value.cell == list(BLOCK.cells())[2]
    assert caught.value.n_others == 1, "both models of the replicate"


ALL = np.ones(6, dtype=bool)


def test_of_cells_set_back_what_was_lost_may_be_anything_and_the_rest_must_agree() -> None:
    stored = results(status=np.zeros(6), labels=np.full((6, 5), -1, np.int16))
    stored["annotations"][2] = -1
    new = results(seconds=np.arange(6.0), cpu_seconds=np.arange(6.0))
    new["annotations"][2] = 0
    compare_set_back(BLOCK, stored, new, ALL)
    new["centroids"][3] += 1
    with pytest.raises(CellMismatch, match=r"replicate=1/posterior: .*centroids") as caught:
        compare_set_back(BLOCK, stored, new, ALL)
    assert list(caught.value.values) == ["centroids"]
    compare_set_back(BLOCK, stored, new, ALL & (np.arange(6) != 3))
    new["status"][3] = FAILED
    compare_set_back(BLOCK, stored, new, ALL)
    new["annotations"][0, 1] = 0
    with pytest.raises(CellMismatch, match="annotations"):
        compare_set_back(BLOCK, stored, new, ALL)
