"""The input and the arrays of a soft fit, and densities and exponentials of samples in panels.

Loops over the samples of a panel call nothing, so that the compiler vectorises them.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweep_clustering.kernels.fits import squared_norms, variances_of
from sweep_clustering.kernels.interrupt import new_flag
from sweep_clustering.kernels.jit import by_pointer, jit_inner, jit_part
from sweep_clustering.kernels.partition.statistics import allocate
from sweep_clustering.kernels.problem.data import FULL, TIED, Floats, Links
from sweep_clustering.kernels.structure import COVARIANCES

# Shapes whose covariances are matrices.
MATRICES = (TIED, FULL)

# Samples whose densities and shares are computed together, few enough for the cache of a processor.
PANEL = 128

# Dimensions, or components, that are computed together; arrays have zeros up to a multiple of dimensions.
WIDE = 4

# Logarithm of the least share: smaller exponentials are not worth their time.
LEAST_LOG = -30.0


class Samples(NamedTuple):
    """Coordinates of all samples as kernels read them, which all fits in one space share."""

    Z: Floats  # (n_samples, n_dims)
    panels: Floats  # (n_panels, n_dims, PANEL)
    norms: Floats  # (n_samples,): squared norms
    variances: Floats  # (n_dims,)


@by_pointer
class Observed(NamedTuple):
    """The constant input of a fit: coordinates of the samples, and annotated pairs both ways."""

    Z: Floats  # (n_samples, n_dims)
    panels: Floats  # (n_panels, n_dims, PANEL): the same for loops over samples, with zeros at the end
    norms: Floats  # (n_samples,): squared norms
    total: Floats  # (n_dims, n_dims): sum of the outer squares of all samples, if the covariance is tied
    shape: int  # number of the shape of the covariances
    n_classes: int
    is_equal: bool  # whether all classes have the same prior probability
    scale: Floats  # (n_dims,): variances of the prior
    strength: float  # τ, samples that the prior counts as
    row_start: NDArray[np.int64]  # (n_samples + 1,)
    partners: NDArray[np.int32]  # (2 n_pairs,)
    entries: NDArray[np.int32]  # (2 n_pairs,): number of the pair of each partner
    pairs: NDArray[np.int32]  # (n_pairs, 2)
    signed: Floats  # (n_pairs,): number of annotations of the pair, negative for cannot-links
    odds: Floats  # (n_pairs,): log(p / (1 - p)), 0 if the accuracy is unknown
    sources: NDArray[np.int32]  # (n_pairs,): number of the annotator if the accuracy is unknown, else -1
    sureness: float  # what annotations of known accuracy add to the bound if none agrees, nats


@by_pointer
class Fields(NamedTuple):
    """The arrays that a fit changes; components and classes are the last axis."""

    shares: Annotated[Floats, "samples components"]  # r_ig
    classes: Annotated[Floats, "samples classes"]  # R_ic
    evidence: Annotated[Floats, "samples classes"]  # log-density of each class, with its weight
    class_of: Annotated[NDArray[np.int64], "components"]  # κ(g)
    sizes: Annotated[Floats, "components"]
    log_weights: Annotated[Floats, "components"]
    means: Annotated[Floats, "components dims"]
    covariances: Annotated[Floats, "shapes dims width"]  # one if tied; variances if the width is 1
    factors: Annotated[Floats, "shapes dims padded"]  # inverse of their Cholesky factors, or 1 / deviation
    offsets: Annotated[Floats, "components whites"]  # minus the means times the factors
    logdets: Annotated[Floats, "shapes"]
    densities: Annotated[Floats, "components panel"]  # log π_g N(z_i; g) + D/2 log 2 π of a panel
    tops: Annotated[Floats, "classes panel"]  # largest of each class, then the evidence
    sums: Annotated[Floats, "classes panel"]
    rows: Annotated[Floats, "2 panel"]
    whites: Annotated[Floats, "wide panel"]  # one if not tied
    logs: Annotated[Floats, "sources 4"]  # log a and log(1 - a) of both accuracies
    accuracies: Annotated[Floats, "sources 2"]  # on pairs that belong together, and on others
    agreements: Annotated[Floats, "sources 2"]
    totals: Annotated[Floats, "sources 2"]
    levels: Annotated[Floats, "sources"]  # mean of the two accuracies
    group: Annotated[Floats, "2"]
    links: Annotated[Floats, "components components"]  # r_gᵀ Θ r_h, over pairs both ways
    best_map: Annotated[NDArray[np.int64], "components"]
    n_components: Annotated[NDArray[np.int64], "classes"]
    field: Annotated[Floats, "classes"]
    work: Annotated[Floats, "classes"]
    pulls: Annotated[Floats, "pairs"]  # gain of each pair if its samples are of one class
    bound: Annotated[Floats, "3"]  # features with entropy, annotations, prior
    stop: NDArray[np.int64]  # (1,)


def samples_of(Z: Floats) -> Samples:
    """Lay features, an array of shape (n_samples, n_dims) in the coordinates of the components, out."""
    Z = np.ascontiguousarray(Z, np.float64)
    return Samples(Z, _panels(Z), squared_norms(Z), variances_of(Z))


def observe(
    samples: Samples,
    links: Links,
    *,
    n_classes: int,
    n_components: int,
    covariance: str,
    proportions: str = "free",
) -> Observed:
    """Lay features and annotations out for the kernels.

    Parameters
    ----------
    samples : Samples
        Features in the coordinates of the components.
    links : Links
        Annotations.
    n_classes, n_components : int
        Numbers of classes, K, and of components of all classes together, C.
    covariance : {"spherical", "diagonal", "tied", "full"}
        Shape of the covariances.
    proportions : {"free", "equal"}
        Proportions of the classes.
    """
    (Z, panels, norms, variances), shape = samples, COVARIANCES.index(covariance)
    n_dims = Z.shape[1]
    return Observed(
        Z=Z,
        panels=panels,
        norms=norms,
        total=np.einsum("nd,ne->de", Z, Z) if shape == TIED else np.empty((0, 0)),
        shape=shape,
        n_classes=n_classes,
        is_equal=proportions == "equal",
        scale=np.maximum(variances, np.finfo(float).tiny) / n_components ** (2.0 / n_dims),
        strength=(n_dims if shape in MATRICES else 2) + 2.0,
        **annotated_fields(links),
    )


def annotated_fields(links: Links) -> dict[str, Any]:
    """Return the fields of `Observed` for annotations."""
    fields: dict[str, Any] = links._asdict()
    del fields["annotators"]
    is_known = links.sources < 0
    sureness = np.abs(links.signed[is_known]) * np.logaddexp(0.0, links.odds[is_known])
    return {**fields, "sureness": -float(sureness.sum())}


def _panels(Z: Floats) -> Floats:
    n_samples, n_dims = Z.shape
    n_full, remainder = divmod(n_samples, PANEL)
    panels = np.zeros((n_full + (remainder > 0), n_dims + -n_dims % WIDE, PANEL))
    panels[:n_full, :n_dims] = Z[: n_samples - remainder].reshape(-1, PANEL, n_dims).transpose(0, 2, 1)
    if remainder:
        panels[-1, :n_dims, :remainder] = Z[-remainder:].T
    return panels


def new_fields(observed: Observed, n_components: int) -> Fields:
    """Return the arrays of a fit."""
    (n_samples, n_dims), is_matrix = observed.Z.shape, observed.shape in MATRICES
    sizes = {"samples": n_samples, "components": n_components, "classes": observed.n_classes, "dims": n_dims}
    sizes |= {"shapes": 1 if observed.shape == TIED else n_components, "panel": PANEL}
    sizes |= {"width": n_dims if is_matrix else 1, "padded": n_dims + -n_dims % WIDE if is_matrix else 1}
    sizes |= {"whites": n_dims if is_matrix else 0, "wide": n_dims if observed.shape == TIED else 1}
    sizes |= {"pairs": len(observed.pairs), "sources": int(observed.sources.max(initial=-1)) + 1}
    return allocate(Fields, sizes, stop=new_flag())


@jit_inner
def set_densities(observed: Observed, fields: Fields, panel: int) -> None:
    """Set the log-density of the samples of a panel in each component, with its weight.

    The constant D/2 log 2 π is left out.
    """
    n_components, is_matrix = len(fields.sizes), fields.covariances.shape[2] > 1
    if is_matrix and observed.shape == TIED:
        set_whites(observed, fields, panel)
    wide = 0 if is_matrix or observed.shape == TIED else n_components - n_components % WIDE
    for g in range(0, wide, WIDE):
        set_wide_distances(observed, fields, panel, g)
    for g in range(wide, n_components):
        if not is_matrix:  # a matrix of one dimension is a variance
            set_vector_distances(observed, fields, panel, g)
        elif observed.shape == TIED:
            set_tied_distances(observed, fields, g)
        else:
            set_matrix_distances(observed, fields, panel, g)
    for g in range(n_components):
        densities, log_weight = fields.densities[g], fields.log_weights[g]
        for j in range(PANEL):
            densities[j] = log_weight - 0.5 * densities[j]


@jit_inner
def set_vector_distances(observed: Observed, fields: Fields, panel: int, g: int) -> None:
    """Set the distances of the samples of a panel to a component with variances, plus its log-determinant."""
    samples, distances = observed.panels[panel], fields.densities[g]
    shape = g if observed.shape != TIED else 0
    distances[:] = fields.logdets[shape]
    for a in range(observed.Z.shape[1]):
        factor, mean = fields.factors[shape, a, 0], fields.means[g, a]
        for j in range(PANEL):
            white = factor * (samples[a, j] - mean)
            distances[j] += white * white


@jit_inner
def set_wide_distances(observed: Observed, fields: Fields, panel: int, g: int) -> None:
    """Set the distances to `WIDE` components from `g` on, with the same bits, reading the samples once."""
    samples, factors, means = observed.panels[panel], fields.factors, fields.means
    d0, d1, d2, d3 = (
        fields.densities[g],
        fields.densities[g + 1],
        fields.densities[g + 2],
        fields.densities[g + 3],
    )
    for k in range(WIDE):
        fields.densities[g + k, :] = fields.logdets[g + k]
    for a in range(observed.Z.shape[1]):
        f0, f1, f2, f3 = factors[g, a, 0], factors[g + 1, a, 0], factors[g + 2, a, 0], factors[g + 3, a, 0]
        m0, m1, m2, m3 = means[g, a], means[g + 1, a], means[g + 2, a], means[g + 3, a]
        for j in range(PANEL):
            x = samples[a, j]
            w0, w1, w2, w3 = f0 * (x - m0), f1 * (x - m1), f2 * (x - m2), f3 * (x - m3)
            d0[j] += w0 * w0
            d1[j] += w1 * w1
            d2[j] += w2 * w2
            d3[j] += w3 * w3


@jit_inner
def set_matrix_distances(observed: Observed, fields: Fields, panel: int, g: int) -> None:
    """Set the distances of the samples of a panel to a component with a matrix, plus its log-determinant."""
    white, distances = fields.whites[0], fields.densities[g]
    distances[:] = fields.logdets[g]
    for a in range(observed.Z.shape[1]):
        set_white(observed.panels[panel], fields.factors[g], fields.offsets[g, a], a, white)
        for j in range(PANEL):
            distances[j] += white[j] * white[j]


@jit_inner
def set_whites(observed: Observed, fields: Fields, panel: int) -> None:
    """Set the samples of a panel times the one factor of tied covariances."""
    for a in range(observed.Z.shape[1]):
        set_white(observed.panels[panel], fields.factors[0], 0.0, a, fields.whites[a])


@jit_part
def set_white(samples: Floats, factor: Floats, offset: float, a: int, white: Floats) -> None:
    """Set the samples of a panel times a row of a factor, plus an offset."""
    for j in range(PANEL):
        white[j] = offset
    for b in range(0, a + 1, WIDE):  # the rest are zeros
        f0, f1, f2, f3 = factor[a, b], factor[a, b + 1], factor[a, b + 2], factor[a, b + 3]
        for j in range(PANEL):
            first = f0 * samples[b, j] + f1 * samples[b + 1, j]
            white[j] += first + (f2 * samples[b + 2, j] + f3 * samples[b + 3, j])


@jit_inner
def set_tied_distances(observed: Observed, fields: Fields, g: int) -> None:
    """Set the distances of the samples of a panel, times the factor, to a component with the tied matrix."""
    distances = fields.densities[g]
    distances[:] = fields.logdets[0]
    for a in range(observed.Z.shape[1]):
        whites, offset = fields.whites[a], fields.offsets[g, a]
        for j in range(PANEL):
            white = whites[j] + offset
            distances[j] += white * white


# Exponentials of shares.

# 1 / ln 2
LOG2_E = 1.4426950408889634

# First part of ln 2, with so few bits that its multiples are exact.
LN2_HIGH = 0.6931471803691238

# Rest of ln 2.
LN2_LOW = 1.9082149292705877e-10

# Parts of an octave.
PARTS = 16

# Powers of one half, in parts of an octave.
POWERS = 0.5 ** (np.arange(45.0 * PARTS) / PARTS)
(_0, _1, T2, T3, T4, T5, T6, T7) = [1.0 / math.factorial(k) for k in range(8)]


@jit_part
def quick_exp(x: float) -> float:
    """Return exp(x) for x of at most 0, and 0 below `LEAST_LOG`, without a branch or a call.

    With x = r - n ln 2 / 16 and |r| ≤ ln 2 / 32, Taylor's series of exp(r) to r⁷ is exact up to rounding.
    """
    exponent = max(x, LEAST_LOG)
    n = math.floor(0.5 - exponent * (PARTS * LOG2_E))
    r = (exponent + n * (LN2_HIGH / PARTS)) + n * (LN2_LOW / PARTS)
    s = T7
    s = s * r + T6
    s = s * r + T5
    s = s * r + T4
    s = s * r + T3
    s = s * r + T2
    s = s * r + 1.0
    s = s * r + 1.0
    return s * POWERS[np.int32(n)] if x > LEAST_LOG else 0.0
