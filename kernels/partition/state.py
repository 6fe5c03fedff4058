"""The workspace of a search, allocated once: a partition, its statistics, and what is derived from them."""

import functools
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.interrupt import new_flag
from sweep_clustering.kernels.jit import by_pointer
from sweep_clustering.kernels.problem.data import COMMON, CONDITIONAL, DIAGONAL, FULL, TIED, Data, Floats

# Places in `State.counters`; STALE is 1 until the statistics are recomputed from members.
EVALUATIONS, RELOCATIONS, LOCAL_SEARCHES, CAPS, STALE, DISTANCES = 0, 1, 2, 3, 4, 5

# Rows of `State.join`; see objective.refresh_gaussians and objective.refresh_shaped.
FACTOR, HALF, OFFSET, LIMIT, SCALE, LEVEL, LEAVING_SCALE, LEAVING_LEVEL = range(8)

# A bound on a gain is wider by this share of all that the gain is made of, a thousand times what rounds.
SAFETY = 2.0**-40

# Clusters from which bounds on distances pay; see sweep_clustering.kernels.partition.bounds.
LEAST_CLUSTERS = 8

by_pointer(Data)  # here, as commands that solve nothing load its module, and not the compiler

T = TypeVar("T", bound=tuple[Any, ...])


def allocate(kind: type[T], sizes: dict[str, int], **given: Any) -> T:
    """A named tuple of arrays of zeros, of the shapes that its fields declare.

    Parameters
    ----------
    kind : type
        Each field is annotated with the names of its dimensions, or numbers, one after the other.
    sizes : dict of str to int
        Lengths of the dimensions by name.
    **given
        Fields that are there already.
    """
    arrays: dict[str, Any] = {
        name: np.zeros([sizes[dim] if dim in sizes else int(dim) for dim in dims], dtype)
        for name, (dtype, dims) in _declared(kind).items()
        if name not in given
    }
    return kind(**arrays, **given)


@functools.cache
def _declared(kind: type) -> dict[str, tuple[type, tuple[str, ...]]]:
    hints = get_type_hints(kind, include_extras=True)
    arrays = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Annotated}
    return {name: (_scalar_type(array), tuple(dims.split())) for name, (array, dims) in arrays.items()}


def _scalar_type(hint: Any) -> type[np.generic]:
    """Return the one numpy type that an annotation names; how `NDArray` holds it is up to numpy."""
    scalar_types, parts = [], [hint]
    for part in parts:
        if isinstance(part, type) and issubclass(part, np.generic):
            scalar_types.append(part)
        parts.extend(get_args(part))
    if len(scalar_types) != 1:
        raise TypeError(f"the annotation {hint} names {len(scalar_types)} numpy types, expected one")
    return scalar_types[0]


@by_pointer
class State(NamedTuple):
    """Partition, statistics and scratch memory; clusters are the last axis."""

    labels: Annotated[NDArray[np.int16], "samples"]
    best: Annotated[NDArray[np.int16], "samples"]  # best round end of a local search
    own: Annotated[Floats, "samples"]  # squared distance to the own centroid, or a sampling weight
    order: NDArray[np.int32]  # (n_annotated,)
    cluster_order: NDArray[np.int64]  # (n_clusters,)
    counters: Annotated[NDArray[np.int64], "6"]
    stop: NDArray[np.int64]  # (1,): not 0 ends every loop that lasts, whatever is then left behind

    # Statistics of members.
    sizes: Annotated[NDArray[np.int64], "clusters"]
    means: Annotated[Floats, "dims clusters"]  # of Z
    errors: Annotated[Floats, "clusters"]  # SSE_r
    squares: Annotated[Floats, "diagonals clusters"]  # s_rd + ridge; shape diagonal alone, as the ratios
    scatter: Annotated[Floats, "matrices dims dims"]  # S_r + ridge I; one for tied, none for other shapes
    inverse: Annotated[Floats, "matrices dims dims"]  # of the scatter
    logdets: Annotated[Floats, "clusters"]  # of the scatter or squares; tied: in the first
    drift: Annotated[Floats, "clusters"]  # bound on the relative error of scatter and inverse, see full
    edge_counts: Annotated[Floats, "blocks clusters clusters"]  # m_rs; none in the model "conditional"
    agreed: Annotated[Floats, "layers"]  # see blockmodel, of "conditional"

    # Derived from them whenever they change.
    terms: Annotated[Floats, "clusters"]  # part in gmm; of all in the first if they share a variance
    join: Annotated[Floats, "8 clusters"]  # coefficients of the gain by joining a cluster, see FACTOR
    column: Annotated[Floats, "diagonals 1"]  # scratch: squares of one cluster
    ratios: Annotated[Floats, "diagonals clusters"]  # n / (n + 1) over the squares
    doubt: Annotated[Floats, "clusters"]  # bound, in nats, on the error of the gain by joining a cluster
    count_terms: Annotated[Floats, "blocks clusters clusters"]  # m_rs log m_rs
    denominators: Annotated[Floats, "5 clusters clusters"]  # scratch, as are the sides
    sides: Annotated[Floats, "4 clusters"]
    logs: Annotated[Floats, "blocks 5 clusters clusters"]  # see blockmodel.NOW; 0 without a prior on rates
    base: Annotated[Floats, "clusters clusters"]  # see blockmodel
    slack: Annotated[Floats, "2 clusters clusters"]  # see blockmodel

    # Bounds on distances; none for few clusters, see bounds.
    nearest: Annotated[Floats, "bounded clusters"]  # lower bound, plus the path of the centroid until then
    path: Annotated[Floats, "clusters"]  # how far each centroid has gone
    anchors: Annotated[Floats, "dims clusters"]  # means at the end of the path

    # Of the sample under test.
    links: Annotated[Floats, "layers clusters"]  # a_r
    touched: Annotated[NDArray[np.int64], "layers places"]  # first the clusters with a_r > 0
    n_touched: Annotated[NDArray[np.int64], "layers"]  # their number; of partners in "conditional"
    distances: Annotated[Floats, "clusters"]  # squared, by the inverses where there are any
    vectors: Annotated[Floats, "vectors dims"]  # scratch; for tied, first the inverse times each mean
    matrix: Annotated[Floats, "matrix matrix"]  # scratch
    gains: Annotated[Floats, "clusters"]  # nats
    work: Annotated[Floats, "clusters"]


def sizes_of(data: Data) -> dict[str, int]:
    """Lengths of all dimensions, by their names in the declarations of fields."""
    (samples, dims), clusters, layers = data.Z.shape, data.n_clusters, data.totals.shape[0]
    matrices = {TIED: 1, FULL: clusters}.get(data.shape, 0)
    return {
        "samples": samples,
        "features": data.X.shape[1],
        "dims": dims,
        "clusters": clusters,
        "places": clusters + 1,
        "layers": layers,
        "blocks": 0 if data.model == CONDITIONAL else layers,
        "diagonals": dims * (data.shape == DIAGONAL),
        "bounded": samples * _bounds_pay(data),
        "matrices": matrices,
        "matrix": dims * (matrices > 0),
        "vectors": clusters + 2,
    }


def _bounds_pay(data: Data) -> bool:
    """Whether bounds on distances save time: see `kernels.partition.bounds`, and `benchmarks/bounds.py`."""
    if data.n_clusters < LEAST_CLUSTERS or data.shape > COMMON:
        return False
    # A block model uses them for samples without partners alone.
    alone = np.diff(data.row_start[:: len(data.totals)]) == 0 if len(data.totals) else np.ones(1, bool)
    return data.model == CONDITIONAL or bool(alone.mean() >= 0.5)


def new_state(data: Data) -> State:
    """Workspace for `data`; the partition is all zero and the statistics are not set."""
    clusters = np.arange(data.n_clusters, dtype=np.int64)
    state = allocate(
        State, sizes_of(data), order=data.annotated.copy(), cluster_order=clusters, stop=new_flag()
    )
    state.counters[STALE] = 1
    return state
