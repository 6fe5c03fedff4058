"""Checksum and scaling of a table."""

from __future__ import annotations

import numpy as np
import pytest

from sweeps.data.tables import LabelledTable, scale


def test_checksum_sees_values_shape_and_labels() -> None:
    X = np.arange(6.0).reshape(3, 2)
    labels = np.array([0, 1, 1], dtype=np.int16)
    tables = [
        LabelledTable(X, labels, ()),
        LabelledTable(X.reshape(2, 3), labels, ()),
        LabelledTable(X, None, ()),
        LabelledTable(X, labels[::-1], ()),
        LabelledTable(np.nextafter(X, 9), labels, ()),
    ]
    assert len({table.checksum() for table in tables}) == len(tables)
    same = LabelledTable(np.asfortranarray(X).astype(">f8"), labels.astype(np.int64), ("a", "b"))
    assert same.checksum() == tables[0].checksum()


def test_scaling_standard_and_minmax() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(5, [1, 100, 0.01], size=(50, 3))
    standard = scale(X, "standard")
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose((standard**2).mean(axis=0), 1)
    np.testing.assert_allclose(standard * X.std(axis=0) + X.mean(axis=0), X)
    minmax = scale(X, "minmax")
    assert (minmax.min(axis=0) == 0).all()
    assert (minmax.max(axis=0) == 1).all()
    untouched = scale(X, "none")
    assert np.array_equal(untouched, X)
    assert not np.shares_memory(untouched, X)


@pytest.mark.parametrize("how", ["standard", "minmax"])
def test_scaling_turns_a_constant_column_into_zeros(how: str) -> None:
    # the computed standard deviation of 0.1 repeated 150 times is 2.8e-17, not 0
    X = np.column_stack([np.full(150, 0.1), np.arange(150.0)])
    assert (scale(X, how)[:, 0] == 0).all()


def test_unknown_scaling_is_refused() -> None:
    with pytest.raises(ValueError, match="'standart'"):
        scale(np.ones((2, 2)), "standart")
