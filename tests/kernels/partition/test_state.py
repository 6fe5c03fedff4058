"""The workspace of a search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from solving.oracles import draw_case
from solving.tiny import MODELS

from kernels.partition.state import new_state


@pytest.mark.parametrize("model", MODELS)
def test_every_array_has_its_own_memory(model: str) -> None:
    """Kernels write into one array while they read another; the annotated samples are shuffled in place."""
    data = draw_case(0, model=model).problem().data
    arrays = [
        *new_state(data),
        *new_state(data),
        *(values for values in data._replace(Z=None) if isinstance(values, np.ndarray)),
    ]
    assert data.Z is data.X  # neither is written to
    for first, second in itertools.combinations(arrays, 2):
        assert not np.shares_memory(first, second)
