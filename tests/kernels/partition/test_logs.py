"""Logarithms of whole arrays, and x log x."""

from __future__ import annotations

import numpy as np
from solving.from_python import from_python


def test_array_log() -> None:
    from kernels.partition.logs import array_log

    rng = np.random.default_rng(0)
    values = np.concatenate([np.exp(rng.normal(0, 20, 5000)), 1 + rng.normal(0, 1e-6, 5000), [0.5, 1.0, 2.0]])
    logs = np.empty_like(values)
    from_python(array_log)(values, logs)
    np.testing.assert_array_max_ulp(logs, np.log(values), 3)
    assert logs[-2] == 0.0
