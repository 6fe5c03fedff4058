"""Annotations of cells by their design: functions of coordinates, and none for a design that asks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sweeps.annotations.draw import draw_annotations, draw_biased
from sweeps.inputs.annotations import cell_annotations
from sweeps.plan import Cell
from sweeps.seeds import annotation_seed, order_seed

LABELS = (np.arange(30) % 3).astype(np.int16)
CELL = Cell("a", 2, 0.9, 12, 1, "posterior")
WHERE = {"mixture": 2, "p": 0.9, "m": 12, "replicate": 1}


def test_a_sweep_that_names_no_design_draws_uniformly() -> None:
    rng = np.random.default_rng(annotation_seed(7, "a", **WHERE))  # type: ignore[arg-type]
    expected = draw_annotations(rng, LABELS, p=0.9, m=12)
    for cell in (CELL, replace(CELL, design="uniform"), replace(CELL, model="likelihood")):
        assert np.array_equal(cell_annotations(7, cell, LABELS, None), expected)


def test_the_order_of_a_biased_design_is_that_of_its_replicate() -> None:
    rng = np.random.default_rng(annotation_seed(7, "a", **WHERE))  # type: ignore[arg-type]
    order = np.random.default_rng(order_seed(7, "a", mixture=2, replicate=1)).permutation(30)
    expected = draw_biased(rng, LABELS, order, p=0.9, m=12)
    found = cell_annotations(7, replace(CELL, design="biased"), LABELS, None)
    assert np.array_equal(found, expected)
    assert not np.array_equal(found, cell_annotations(7, CELL, LABELS, None))


def test_pairs_that_are_asked_for_are_not_drawn() -> None:
    with pytest.raises(ValueError, match="are asked for, not drawn"):
        cell_annotations(7, replace(CELL, design="active"), LABELS, None)
