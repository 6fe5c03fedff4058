"""A way into kernels that only other kernels call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def from_python(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel without a way in from Python, to be called by a test."""

    @numba.njit(error_model="numpy", _nrt=False)
    def call(*arguments: Any) -> Any:
        return kernel(*arguments)

    return call
