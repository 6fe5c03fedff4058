"""Logarithms: of whole arrays at once, and x log x of counts."""

from __future__ import annotations

import math

import numpy as np

from kernels.jit import jit_inner, jit_part
from kernels.problem.data import Floats

LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 33 bits: exact times any exponent
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
# Bits of sqrt(1/2): mantissas are brought to [sqrt(1/2), sqrt(2)), where the series is shortest.
ROOT_HALF = 0x3FE6A09E667F3BCD


@jit_inner
def array_log(values: Floats, logs: Floats) -> None:
    """Natural logarithms of positive normal numbers, to about one unit in the last place.

    log x = e ln 2 + 2 atanh((f - 1) / (f + 1)) for x = 2^e f; the series is cut where it no longer changes a
    double. Two plain loops without a call, which the compiler vectorises; numba's log is scalar.
    """
    bits = values.view(np.int64)
    for i in range(len(values)):
        exponent = (bits[i] - ROOT_HALF) >> 52
        logs[i] = exponent
    fractions = logs.view(np.int64)
    for i in range(len(values)):
        exponent_value = logs[i]
        fractions[i] = bits[i] - (np.int64(exponent_value) << 52)
        fraction = logs[i]
        s = (fraction - 1.0) / (fraction + 1.0)
        z = s * s
        tail = z * (1 / 19 + z * (1 / 21))
        tail = z * (1 / 11 + z * (1 / 13 + z * (1 / 15 + z * (1 / 17 + tail))))
        tail = z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + tail))))
        logs[i] = exponent_value * LN2_HIGH + (2.0 * (s + s * tail) + exponent_value * LN2_LOW)


@jit_part
def x_log_x(table: Floats, x: float) -> float:
    """Value of x log x with 0 log 0 = 0, from the table of whole numbers where there is one."""
    if table.shape[0] > 0:
        return float(table[int(x)])
    return x * math.log(x) if x > 0.0 else 0.0
