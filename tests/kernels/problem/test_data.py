"""Annotation layers as kernels see them: `test_gains` compares all they come to with dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.problem import data
from kernels.problem.data import CANNOT, MUST, Layer
from kernels.problem.problem import MODELS
from kernels.settings import COVARIANCES, TERMS


def test_codes_are_places_in_the_lists_of_names() -> None:
    assert [getattr(data, name.upper()) for name in COVARIANCES] == list(range(len(COVARIANCES)))
    assert {name: getattr(data, name.upper()) for name in TERMS} == MODELS


def test_inferred_accuracies() -> None:
    layers = [
        Layer(MUST, np.array([[0, 1], [0, 2], [3, 3]]), np.array([2.0, 1.0, 5.0]), annotator=2),
        Layer(CANNOT, np.array([[0, 3], [0, 1]]), np.array([1.0, 4.0]), annotator=2),
        Layer(CANNOT, np.array([[1, 1]]), annotator=1),
        Layer(CANNOT, np.empty((0, 2), dtype=np.int64), annotator=5),
    ]
    found = data.inferred_accuracies(layers, [0, 0, 1, 1])
    assert list(found) == [1, 2, 5]
    assert found[2] == pytest.approx(3 / 8)
    assert np.isnan([found[1], found[5]]).all()


def test_the_table_of_logarithms_reaches_every_count_or_is_left_out() -> None:
    pairs = np.array([[0, 1], [1, 2]])

    def table(*weights: float) -> NDArray[np.float64]:
        layer = Layer(MUST, np.repeat(pairs, len(weights) // 2, axis=0), np.array(weights))
        return data.adjacency([layer], 7, "likelihood")["x_log_x"]  # type: ignore[no-any-return]

    whole = table(2.0, 3.0)
    assert len(whole) > 4 * 5
    counts = np.arange(1.0, len(whole))
    assert whole[0] == 0.0
    np.testing.assert_array_equal(whole[1:], counts * np.log(counts))
    assert table(2.0, 0.5).size == table(2.0, 1e7).size == 0
    # Half weights that add up to whole ones per pair are counts.
    assert table(0.5, 0.5, 0.5, 0.5).size > 0
