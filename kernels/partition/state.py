"""The workspace of a search: a partition, its statistics, and values derived from them, allocated once."""

import functools
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.interrupt import new_flag
from sweep_clustering.kernels.jit import by_pointer
from sweep_clustering.kernels.lanes import LANES
from sweep_clustering.kernels.problem.data import CONDITIONAL, DIAGONAL, FULL, TIED, Data, Floats

# Places in `State.counters`.
EVALUATIONS = 0
RELOCATIONS = 1
LOCAL_SEARCHES = 2
CAPS = 3  # loops that a limit on their length ended
STALE = 4  # `MOVED` or `REPLACED` until the statistics are recomputed from members

# How labels have changed since the statistics were recomputed: by relocations, or in any other way.
MOVED = 1
REPLACED = 2

# Rows of `State.join`; see objective.refresh_gaussians and objective.refresh_shaped.
FACTOR = 0
HALF = 1
OFFSET = 2
LIMIT = 3
SCALE = 4
LEVEL = 5
LEAVING_SCALE = 6
LEAVING_LEVEL = 7

# A bound on a gain is wider by this share of the sum of its terms, a thousand times their rounding.
SAFETY = 2.0**-40

by_pointer(Data)  # here, because commands that solve nothing load the module of Data without the compiler

T = TypeVar("T", bound=tuple[Any, ...])


def allocate(kind: type[T], sizes: dict[str, int], **values: Any) -> T:
    """Return a named tuple of these values, and of arrays of zeros of the shapes that fields declare.

    A field of type `Annotated` names its dimensions, of which `sizes` has the lengths, or their lengths.
    """
    arrays: dict[str, Any] = {
        name: np.zeros([sizes[dim] if dim in sizes else int(dim) for dim in dims], dtype)
        for name, (dtype, dims) in _declared_arrays(kind).items()
        if name not in values
    }
    return kind(**arrays, **values)


@functools.cache
def _declared_arrays(kind: type) -> dict[str, tuple[type, tuple[str, ...]]]:
    hints = get_type_hints(kind, include_extras=True)
    arrays = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Annotated}
    return {name: (_scalar_type(array), tuple(dims.split())) for name, (array, dims) in arrays.items()}


def _scalar_type(hint: Any) -> type[np.generic]:
    """Return the one numpy type that an annotation names; releases of numpy nest it in different ways."""
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
    """Partition, statistics and scratch memory, with clusters as the last axis."""

    labels: Annotated[NDArray[np.int16], "samples"]
    best: Annotated[NDArray[np.int16], "samples"]  # best round end of a local search
    own_distances: Annotated[Floats, "samples"]  # squared, to the sample's centroid; a weight in k-means++
    sums: Annotated[Floats, "samples"]  # cumulated weights in k-means++
    order: NDArray[np.int32]  # (n_annotated,)
    cluster_order: NDArray[np.int64]  # (n_clusters,)
    counters: Annotated[NDArray[np.int64], "5"]
    stop: NDArray[np.int64]  # (1,): if not 0, every long loop ends, and leaves incomplete results

    # Statistics of members.
    sizes: Annotated[NDArray[np.int64], "clusters"]
    means: Annotated[Floats, "dims lanes"]  # in the coordinates Z
    errors: Annotated[Floats, "clusters"]  # SSE_r
    squares: Annotated[Floats, "diagonals clusters"]  # s_rd + ridge of "diagonal"
    scatter: Annotated[Floats, "matrices dims dims"]  # S_r + ridge I of "full", one matrix for "tied"
    inverse: Annotated[Floats, "matrices dims dims"]  # inverse of the scatter
    logdets: Annotated[Floats, "clusters"]  # log-determinants of scatter or squares; one for "tied"
    drift: Annotated[Floats, "clusters"]  # bound on the relative error of scatter and inverse, see shaped
    edge_counts: Annotated[Floats, "blocks clusters lanes"]  # m_rs; none in the model "conditional"
    agreed: Annotated[Floats, "layers"]  # for "conditional", see blockmodel

    # Values derived from them whenever they change.
    terms: Annotated[Floats, "clusters"]  # part in gmm; the first has the sum if they share a variance
    join: Annotated[Floats, "8 lanes"]  # coefficients of the gain by joining a cluster, see FACTOR
    column: Annotated[Floats, "diagonals 1"]  # scratch: squares of one cluster
    ratios: Annotated[Floats, "diagonals clusters"]  # n / (n + 1) over the squares
    doubt: Annotated[Floats, "lanes"]  # bound, in nats, on the error of the gain by joining a cluster
    count_terms: Annotated[Floats, "blocks clusters lanes"]  # m_rs log m_rs
    denominators: Annotated[Floats, "5 clusters lanes"]  # scratch, as are the sides
    sides: Annotated[Floats, "4 lanes"]
    amounts: Annotated[Floats, "lanes"]  # sizes
    next_logs: Annotated[Floats, "lanes"]  # log(n + 1) of the sizes
    logs: Annotated[Floats, "blocks 5 clusters lanes"]  # see blockmodel.NOW; 0 without a prior on rates
    base: Annotated[Floats, "clusters lanes"]  # see blockmodel; -inf where no sample moves
    slack: Annotated[Floats, "2 clusters lanes"]  # see blockmodel

    # Values of the sample under test.
    links: Annotated[Floats, "layers lanes"]  # a_r
    touched: Annotated[NDArray[np.uint16], "layers places"]  # the clusters with a_r > 0, at the first places
    n_touched: Annotated[NDArray[np.int64], "layers"]  # their number; number of partners in "conditional"
    distances: Annotated[Floats, "lanes"]  # squared, by the inverses where there are any
    vectors: Annotated[Floats, "vectors dims"]  # scratch; "tied" has the inverse times each mean first
    matrix: Annotated[Floats, "matrix matrix"]  # scratch
    gains: Annotated[Floats, "lanes"]  # nats
    work: Annotated[Floats, "lanes"]
    lanes: NDArray[np.float64]  # 0, 1, ...: the numbers of the clusters


def sizes_of(data: Data) -> dict[str, int]:
    """Return the lengths of all dimensions, by their names in the declarations of fields."""
    (samples, dims), clusters, layers = data.Z.shape, data.n_clusters, data.totals.shape[0]
    matrices = {TIED: 1, FULL: clusters}.get(data.shape, 0)
    return {
        "samples": samples,
        "features": data.X.shape[1],
        "dims": dims,
        "clusters": clusters,
        "lanes": -(-clusters // LANES) * LANES,  # clusters, filled up to whole vectors
        "places": clusters + 1,
        "layers": layers,
        "blocks": 0 if data.model == CONDITIONAL else layers,
        "diagonals": dims * (data.shape == DIAGONAL),
        "matrices": matrices,
        "matrix": dims * (matrices > 0),
        "vectors": clusters + 2,
    }


def new_state(data: Data) -> State:
    """Return a workspace for `data`; all labels are 0, and the statistics are not set."""
    clusters = np.arange(data.n_clusters, dtype=np.int64)
    sizes = sizes_of(data)
    lanes = np.arange(sizes["lanes"], dtype=np.float64)
    state = allocate(
        State, sizes, order=data.annotated.copy(), cluster_order=clusters, lanes=lanes, stop=new_flag()
    )
    state.denominators[:] = 1.0
    state.counters[STALE] = REPLACED
    return state
