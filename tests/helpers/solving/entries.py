"""Kernels that only other kernels call are called here, compiled or as plain Python.

`collect`, `local_search`, `move`, `gains_of` and `gain_by_terms` are one kernel, compiled once on a machine.
`plain_kernel` gives any kernel as Python has it, for small operators with small input.
"""

from collections.abc import Collection
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher

from sweep_clustering.kernels.jit import jit
from sweep_clustering.kernels.partition.gains import exact_gain, set_distances, set_gains, set_links
from sweep_clustering.kernels.partition.objective import collect as collect_statistics
from sweep_clustering.kernels.partition.objective import relocate
from sweep_clustering.kernels.partition.statistics import State, new_state
from sweep_clustering.kernels.problem.data import IMPROVEMENT, Data
from sweep_clustering.kernels.search.local_search import local_search as search_locally

COLLECT, MOVE, GAINS, DECIDED, EXACT, SEARCH = range(6)
ANY = np.random.default_rng(0)


@jit
def _do(data: Data, state: State, rng: np.random.Generator, what: int, sample: int, target: int) -> float:
    if what == COLLECT:
        collect_statistics(data, state)
        return 0.0
    if what == SEARCH:
        return search_locally(data, state, rng)
    degree = set_links(data, state, sample)
    if what == GAINS:
        set_gains(data, state, sample, degree, -np.inf)
        return degree
    if what == DECIDED:
        return set_gains(data, state, sample, degree, IMPROVEMENT)
    set_distances(data, state, sample)
    if what == EXACT:
        return exact_gain(data, state, sample, target)
    relocate(data, state, sample, target)
    return 0.0


def collect(data: Data, state: State) -> None:
    _do(data, state, ANY, COLLECT, 0, 0)


def move(data: Data, state: State, sample: int, target: int) -> None:
    """Relocate a sample."""
    _do(data, state, ANY, MOVE, sample, target)


def gains_of(data: Data, state: State, sample: int) -> float:
    """Set links and gains of a sample and return its degree."""
    return float(_do(data, state, ANY, GAINS, sample, 0))


def largest_gain(data: Data, state: State, sample: int) -> float:
    """Set links of a sample and its gains as in the local search, and return the largest."""
    return float(_do(data, state, ANY, DECIDED, sample, 0))


def gain_by_terms(data: Data, state: State, sample: int, target: int) -> float:
    """Return the gain, term by term."""
    return float(_do(data, state, ANY, EXACT, sample, target))


def local_search(data: Data, state: State, rng: np.random.Generator) -> float:
    return float(_do(data, state, rng, SEARCH, 0, 0))


def collect_state(data: Data, labels: np.ndarray) -> State:
    """Return a workspace with the statistics of a partition."""
    state = new_state(data)
    state.labels[:] = labels
    collect(data, state)
    return state


def plain_kernel(kernel: Any, names: Collection[str] = ()) -> Any:
    """Return a kernel with all that it calls as plain Python; of a module, the functions that are named."""
    if isinstance(kernel, ModuleType) and kernel.__name__.startswith("sweep_clustering.kernels."):
        return SimpleNamespace(
            **{name: plain_kernel(item) for name, item in vars(kernel).items() if name in names}
        )
    if numba.config.DISABLE_JIT or not isinstance(kernel, Dispatcher):
        return kernel
    function = kernel.py_func
    names = set(function.__code__.co_names)
    used = {name: plain_kernel(value, names) for name, value in function.__globals__.items() if name in names}
    return FunctionType(function.__code__, function.__globals__ | used, function.__name__)
