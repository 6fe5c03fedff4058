"""Ways into the two kernels that most tests and benchmarks call, with machine code that is kept."""

from __future__ import annotations

import numpy as np

import kernels.partition.relocation as relocation
import kernels.search.local_search as searching
from kernels.jit import jit
from kernels.partition.state import State
from kernels.problem.data import Data

# As global names: the compiler looks no attribute of a module up.
_collect = relocation.collect
_local_search = searching.local_search


@jit
def collect(data: Data, state: State) -> None:
    """See the kernel."""
    _collect(data, state)


@jit
def local_search(data: Data, state: State, rng: np.random.Generator) -> float:
    """See the kernel."""
    return _local_search(data, state, rng)
