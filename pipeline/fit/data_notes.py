"""Notes on features and on a solution, to be read before trusting it."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sweep_clustering.kernels import scores
from sweep_clustering.kernels.fits import Fit, Floats, Gaussians, variances_of
from sweep_clustering.kernels.problem.data import DEGENERATE, row_numbers
from sweep_clustering.kernels.problem.problem import ROUNDING, SPHERES
from sweep_clustering.pipeline.common import plural

# Ratio of the standard deviations of a feature and of all, below which the feature separates no samples.
FAINT = 1e-9

BOUND = "a variance prior (--variance-prior, variance_prior) bounds it"


def data_notes(X: NDArray[np.float64], n_clusters: int, *, may_degenerate: bool = False) -> Iterator[str]:
    """Yield sentences on features alone; most data have none.

    Clusters of equal rows may degenerate if variances are free and there is no variance prior.
    """
    yield from feature_notes(X)
    groups = equal_rows(X)
    yield from crowding_notes(groups, n_clusters)
    if may_degenerate:
        yield from repeat_notes(groups)


def equal_rows(X: NDArray[np.float64]) -> NDArray[np.integer]:
    """Return the sizes of groups of rows whose cluster would be degenerate (docs/model.md, eq. (6))."""
    means, cells = X.mean(axis=0), X - X.mean(axis=0)
    width = np.sqrt(DEGENERATE * np.mean(np.square(cells, out=cells)))

    def numbers(shift: float) -> NDArray[np.int64]:
        """Return the numbers of the cells of a grid, in the memory of the last one."""
        np.subtract(X, means, out=cells)
        np.divide(cells, width, out=cells)
        np.add(cells, shift, out=cells)
        return row_numbers(np.floor(cells, out=cells))

    # There are two grids, because rows that are alike may be on two sides of a line of one of them.
    first, second = numbers(0.0), numbers(0.5)
    n_cells = first.max() + 1
    ends = first, n_cells + second
    shape = (n_cells + second.max() + 1,) * 2
    _, group = connected_components(coo_array((np.ones(len(X)), ends), shape=shape), directed=False)
    return np.bincount(group[first])


def feature_notes(X: NDArray[np.float64], *, have_one_unit: bool = False) -> Iterator[str]:
    """Say in how many features samples differ by rounding alone, or too little if all have one unit."""
    is_constant, deviations = constant(X), X.std(axis=0)
    yield from feature_tally(is_constant.sum(), X.shape[1], "constant: no samples differ in {}")
    if have_one_unit:
        faint = ~is_constant & (deviations <= FAINT * np.sqrt(np.mean(np.square(deviations))))
        effect = "with one variance for all features, no samples differ in {}"
        yield from feature_tally(faint.sum(), X.shape[1], f"nearly constant: {effect}; scale the features")


def tally(count: int | np.integer, noun: str, verb: str, verb_of_several: str, text: str) -> Iterator[str]:
    """Yield a sentence on so many clusters or features, if there are any."""
    if count:
        yield f"{plural(int(count), noun)} {verb if count == 1 else verb_of_several} {text}"


def feature_tally(count: int | np.integer, n_features: int, text: str) -> Iterator[str]:
    """Yield a sentence on so many of the features, with "it" or "them" in its text, if there are any."""
    if count:
        subject = f"{count:,} of {plural(n_features, 'feature')} {'is' if count == 1 else 'are'}"
        yield f"{subject} {text.format('it' if count == 1 else 'them')}"


def constant(X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a feature varies by no more than rounding of its values, as for shapes with a prior."""
    low, high = X.min(axis=0), X.max(axis=0)
    return np.asarray(high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high)))


def crowding_notes(groups: NDArray[np.integer], n_clusters: int) -> Iterator[str]:
    """Say if there is a cluster for every row."""
    n_samples = int(groups.sum())
    if n_clusters >= len(groups):
        rows = "rows" if len(groups) == n_samples else f"distinct rows ({len(groups)} of {n_samples})"
        yield f"as many clusters as {rows}: each may be a cluster of its own, and there is nothing to learn"


def repeat_notes(groups: NDArray[np.integer]) -> Iterator[str]:
    """Say if there are rows that may be a degenerate cluster, whether the search finds it or not."""
    if groups.max() > 1:
        remedy = "set variance_prior = 1 (--variance-prior 1) to prevent it"
        effect = f"A cluster made of duplicates can distort the result; {remedy}"
        yield f"{groups.max():,} rows are almost identical. {effect}"


# Ratio of the variances of a cluster and of all samples, below which nearly equal rows outweigh all others.
NEARLY_DEGENERATE = 1e-6

NO_GAIN = "it adds nothing to the objective, whose best then depends on units"
SHAPE_BOUND = "a prior (--covariance-prior, covariance_prior above 0) bounds it"


def solution_notes(
    X: Floats, fit: Fit, *, covariance: str, dims: NDArray[np.int64], has_prior: bool
) -> Iterator[str]:
    """Say if the likelihood is unbounded, or if features have no information (docs/model.md, eqs. (6), (7)).

    The Gaussians of the fit have a density on the used features. There may be a variance prior.
    """
    n_clusters = len(fit.sizes)
    if fit.gaussians is not None:
        yield from _union_notes(X, fit.sizes, fit.gaussians)
        return
    groups = equal_rows(X)
    if covariance not in SPHERES:
        yield from feature_notes(X)
        n_explained = X.shape[1] - len(dims) - constant(X).sum()
        text = "given by the others: the covariances leave {} out"
        yield from feature_tally(max(n_explained, 0), X.shape[1], text)
        degenerate = ~fit.covariances.reshape(n_clusters, -1).any(axis=1)
        text = f"degenerate, without variance in some feature: {NO_GAIN}; {SHAPE_BOUND}"
        yield from tally(degenerate.sum(), "cluster", "is", "are", text)
        if covariance == "full":
            text = "no more samples than features: its covariance owes much to the prior"
            yield from tally((fit.sizes <= len(dims)).sum(), "cluster", "has", "have", text)
        yield from crowding_notes(groups, n_clusters)
        return
    yield from feature_notes(X, have_one_unit=True)
    yield from crowding_notes(groups, n_clusters)
    sizes, _, variances = scores.cluster_gaussians(X, fit.labels, n_clusters)
    ratios = variances / scores.total_variance(X)
    degenerate = (sizes <= 1) | (ratios <= DEGENERATE)
    if covariance == "common":
        if float(sizes @ ratios) / len(X) < NEARLY_DEGENERATE:
            effect = f"is next to 0, and the objective no measure of anything; {BOUND}"
            effect = "comes from the prior alone" if has_prior else effect
            yield f"all clusters hold nothing but (nearly) equal rows: the common variance {effect}"
    elif has_prior:
        text = "nothing but (nearly) equal rows: the variance comes from the prior alone"
        yield from tally(degenerate.sum(), "cluster", "holds", "hold", text)
    else:
        text = f"degenerate, a single row or (nearly) equal ones: {NO_GAIN}; {BOUND}"
        yield from tally(degenerate.sum(), "cluster", "is", "are", text)
        if not degenerate.any():
            yield from repeat_notes(groups)
        is_near = (ratios < NEARLY_DEGENERATE) & ~degenerate
        text = (
            f"a variance below {NEARLY_DEGENERATE:g} of the overall one: nearly equal rows, which outweigh"
            f" the rest of the objective; {BOUND}"
        )
        yield from tally(is_near.sum(), "cluster", "has", "have", text)


def _union_notes(X: Floats, sizes: NDArray[np.int64], gaussians: Gaussians) -> Iterator[str]:
    """Say if classes are empty or next to it, or components nearly flat."""
    yield from tally((sizes == 0).sum(), "cluster", "is", "are", "empty: no sample is likeliest there")
    yield from tally((sizes == 1).sum(), "cluster", "holds", "hold", "a single sample")
    overall = max(float(variances_of(gaussians.place(X)).max()), np.finfo(float).tiny)
    covariances = gaussians.covariances
    smallest = np.linalg.eigvalsh(covariances)[:, 0] if covariances.ndim == 3 else covariances.min(axis=1)
    flat = int((smallest < NEARLY_DEGENERATE * overall).sum())
    text = f"nearly flat: of a variance below {NEARLY_DEGENERATE:g} of the largest one, which is the prior's"
    yield from tally(flat, "component", "is", "are", text)
    yield from feature_notes(X)
    yield from crowding_notes(equal_rows(X), len(sizes))
