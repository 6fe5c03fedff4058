"""The inner loop of the local search alone: it evaluates candidates and accepts none."""

from sweep_clustering.kernels.jit import jit
from sweep_clustering.kernels.partition.gains import set_gains, set_links
from sweep_clustering.kernels.partition.statistics import State
from sweep_clustering.kernels.problem.data import IMPROVEMENT, Data


@jit
def sweep_candidates(data: Data, state: State, times: int) -> float:
    """Evaluate all targets of all annotated samples `times` times; the statistics must be set."""
    total = 0.0
    for _ in range(times):
        for place in range(len(data.annotated)):
            sample = data.annotated[place]
            degree = set_links(data, state, sample)
            total += set_gains(data, state, sample, degree, IMPROVEMENT)
    return total
