"""The workspace of a search, allocated once: a partition, its statistics, and values derived from them.

Statistics are computed from members here, and so are the terms of the objective that depend on one cluster.
"""

import functools
import math
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.interrupt import new_flag
from sweep_clustering.kernels.jit import by_pointer, jit_inner, jit_part
from sweep_clustering.kernels.lanes import LANES, Vector, load, look_up, store
from sweep_clustering.kernels.problem.data import (
    COMMON,
    CONDITIONAL,
    DEGENERATE,
    DIAGONAL,
    FULL,
    TIED,
    Data,
    Floats,
)

# Places in `State.counters`.
EVALUATIONS = 0
RELOCATIONS = 1
LOCAL_SEARCHES = 2
CAPS = 3  # loops that a limit on their length ended
STALE = 4  # `SINGLE_MOVES` or `REPLACEMENT` until the statistics are recomputed from members

# How labels have changed since the statistics were recomputed: by relocations, or in any other way.
SINGLE_MOVES = 1
REPLACEMENT = 2

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

# Distance from 1 to the next number: the unit of the bounds on rounding.
EPSILON = 2.0**-52

# A removal that leaves less than this share of a squared error has lost digits: recompute from members.
CANCELLATION = 1e-6

# ln 2 in two parts. The first has 33 bits, so that its product with an exponent is exact.
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")

# Bits of sqrt(1/2): mantissas are brought to [sqrt(1/2), sqrt(2)), where the series is shortest.
ROOT_HALF = 0x3FE6A09E667F3BCD


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
    agreements: Annotated[Floats, "layers"]  # for "conditional", see blockmodel

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
    logs: Annotated[Floats, "blocks 5 clusters lanes"]  # see blockmodel.STAY; 0 without a prior on rates
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
    state.counters[STALE] = REPLACEMENT
    return state


@jit_inner
def array_log(values: Floats, logs: Floats) -> None:
    """Set the natural logarithms of positive normal numbers, to about one unit in the last place.

    log x = e ln 2 + 2 atanh((f - 1) / (f + 1)) for x = 2^e f, by the series to double precision.
    The compiler vectorises the two loops, which call nothing; numba's log is scalar.
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
    """Return x log x with 0 log 0 = 0, from the table of whole numbers where there is one."""
    if table.shape[0] > 0:
        return float(table[np.uint64(np.int64(x))])  # unsigned, so that no index counts from the end
    return x * math.log(x) if x > 0.0 else 0.0


@jit_part
def x_log_x_lanes(table: Floats, values: Vector, scratch: Floats) -> Vector:
    """Return x log x of eight numbers."""
    if table.shape[0] > 0:
        return look_up(table, values)
    store(scratch, 0, values)
    for lane in range(LANES):
        scratch[lane] = x_log_x(table, scratch[lane])
    return load(scratch, 0)


@jit_part
def is_degenerate(data: Data, size: int, error: float) -> bool:
    """Return whether a cluster of this size and squared error adds nothing (docs/model.md, eq. (6))."""
    if data.kappa > 0.0:
        return False
    return size <= 1 or error <= DEGENERATE * data.total_variance * data.X.shape[1] * size


@jit_part
def cluster_term(data: Data, size: int, error: float) -> float:
    """Return the part in gmm of a cluster, or of all under a common variance (eqs. (5), (34)), nats."""
    if is_degenerate(data, size, error):
        return 0.0
    n_features = data.X.shape[1]
    total_error = error + data.kappa * n_features * data.total_variance
    freedom = n_features * (size + data.kappa)
    scale = -0.5 * data.feature_weight * freedom
    return float(scale * (1.0 + math.log(total_error) - data.log_freedom[size]))


@jit_part
def pooled_error(data: Data, state: State) -> float:
    """Return the squared error of all clusters."""
    total = 0.0
    for k in range(data.n_clusters):
        total += state.errors[k]
    return total


@jit_part
def shaped_term(data: Data, size: int, logdet: float) -> float:
    """Return the part of `size` samples of one covariance in gmm, nats (docs/model.md, eqs. (46) to (48)).

    The log-determinant is that of S + ridge I, and infinite for a degenerate cluster, which adds 0.
    """
    if size == 0 or logdet == np.inf:
        return 0.0
    n_dims = data.Z.shape[1]
    freedom = size + data.freedom
    value = freedom * (logdet - n_dims * (data.log_freedom[size] - 1.0))
    return float(-0.5 * data.feature_weight * (value - data.ground))


@jit_part
def proportions_gain(data: Data, n_source: int, n_target: int) -> float:
    """Return the change of gmm by the proportions when a sample moves between clusters of two sizes."""
    if not data.proportions:
        return 0.0
    log_size = data.log_size
    # An empty cluster is no source, but its index must be valid.
    leave = (n_source - 1) * log_size[max(n_source - 1, 0)] - n_source * log_size[n_source]
    return float(leave + (n_target + 1) * log_size[n_target + 1] - n_target * log_size[n_target])


@jit_part
def prior_rate(data: Data, layer: int, squares: float) -> float:
    """Return the rate lambda_in of a layer if the squared sizes sum to `squares`."""
    n_samples = float(data.X.shape[0])
    inner_pairs = 0.5 * (squares + n_samples)
    outer_pairs = 0.5 * (n_samples * n_samples - squares)
    return float((inner_pairs + data.spread[layer] * outer_pairs) / data.totals[layer])


@jit_part
def sum_of_squares(sizes: NDArray[np.int64]) -> float:
    """Return the sum of the squared sizes."""
    total = 0.0
    for k in range(len(sizes)):
        total += float(sizes[k]) * float(sizes[k])
    return total


@jit_inner
def set_means(X: Floats, state: State, means: Floats) -> None:
    """Set the mean of every cluster that has samples, from labels and sizes; others keep theirs."""
    n_features, n_clusters = len(means), len(state.sizes)
    for k in range(n_clusters):
        if state.sizes[k] > 0:
            for d in range(n_features):
                means[d, k] = 0.0
    for i in range(len(X)):
        label = state.labels[i]
        for d in range(n_features):
            means[d, label] += X[i, d]
    for k in range(n_clusters):
        if state.sizes[k] > 0:
            for d in range(n_features):
                means[d, k] /= state.sizes[k]


@jit_inner
def collect_gaussians(data: Data, state: State) -> None:
    """Set sizes and means, and for one variance the squared errors; the mean of an empty cluster is 0."""
    n_samples, n_features = data.Z.shape
    means = state.means
    state.sizes[:] = 0
    means[:] = 0.0
    state.errors[:] = 0.0
    for label in state.labels:
        state.sizes[label] += 1
    set_means(data.Z, state, means)
    if data.shape > COMMON:
        return
    # A second pass takes differences from the means: a difference of sums of squares would cancel.
    for i in range(n_samples):
        label = state.labels[i]
        total = 0.0
        for d in range(n_features):
            difference = data.Z[i, d] - means[d, label]
            total += difference * difference
        state.errors[label] += total


@jit_inner
def collect_annotations(data: Data, state: State) -> None:
    """Set the edge counts of all layers, or the agreement in the model "conditional"."""
    n_layers = data.totals.shape[0]
    labels = state.labels
    state.edge_counts[:] = 0.0
    state.agreements[:] = 0.0
    for place in range(len(data.annotated)):
        i = data.annotated[place]
        label = labels[i]
        for layer in range(n_layers):
            start = i * n_layers + layer
            if data.model == CONDITIONAL:
                for entry in range(data.row_start[start], data.row_start[start + 1]):
                    if labels[data.partners[entry]] == label:
                        state.agreements[layer] += data.weights[entry]
            else:
                row = state.edge_counts[layer, label]
                row[label] += data.self_weights[i, layer]
                for entry in range(data.row_start[start], data.row_start[start + 1]):
                    row[labels[data.partners[entry]]] += data.weights[entry]
    for layer in range(n_layers):
        # Every pair was counted from both of its ends.
        state.agreements[layer] = data.base_agreements[layer] + 0.5 * state.agreements[layer]


@jit_inner
def add_feature_error(
    data: Data, state: State, sample: int, cluster: int, feature: int, total: float
) -> float:
    """Add to `total` the squared error in one feature of the members of `cluster` except `sample`."""
    n_samples = data.Z.shape[0]
    mean = 0.0
    size = 0
    for i in range(n_samples):
        if state.labels[i] == cluster and i != sample:
            mean += data.Z[i, feature]
            size += 1
    mean /= max(size, 1)
    for i in range(n_samples):
        if state.labels[i] == cluster and i != sample:
            difference = data.Z[i, feature] - mean
            total += difference * difference
    return total
