"""Soft fits of classes that are unions of Gaussian components (docs/model.md, section 12).

Annotations depend on classes, features on components. Component g belongs to class κ(g), and each class has
one or more. `fit_components` raises a lower bound of the log-likelihood by coordinate steps over the shares
of the samples, the parameters of the components, the classes of the components, and unknown accuracies.
The shares of the classes give labels, memberships and the probability that two samples belong together.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sweep_clustering.kernels import beliefs
from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.jit import jit, jit_inner, jit_part
from sweep_clustering.kernels.partition.statistics import State, array_log, new_state
from sweep_clustering.kernels.problem.data import (
    DIAGONAL,
    FULL,
    GROUP_PRIOR,
    HALF_AN_ANSWER,
    MUST,
    OWN_PRIOR,
    SPHERICAL,
    TIED,
    UNSURE,
    Data,
    Floats,
    Layer,
    Links,
    link,
)
from sweep_clustering.kernels.problem.problem import build_problem
from sweep_clustering.kernels.search.genetic import MAX_KMEANS_ITERATIONS, kmeans, seed_centroids
from sweep_clustering.kernels.search.local_search import shuffle
from sweep_clustering.kernels.settings import ObjectiveSettings
from sweep_clustering.kernels.structure import COVARIANCES, NONE, Structure
from sweep_clustering.kernels.unions import panels

# First steps, without annotations.
WARM_STEPS = 5

# Most steps with annotations.
STEPS = 100

# Rounds over the annotated samples in each step.
ROUNDS = 3

# Rounds of shrinking in each step: accuracies of the step before are near.
SHRINKING_STEPS = 3

# Steps from one change of the classes of the components to the next.
CLASS_STEPS = 5

# Draws of each centroid at the start, besides log C more: k-means then misses fewer of 31 clusters.
DRAWS = 2

# k-means starts, of which the best by inertia is taken.
TRIES = 5

# Random maps from components to classes, from each of which the first choice climbs.
MAPS = 30

# Least rise of the bound in a step, nats: with less the step is the last one.
MIN_RISE = 0.01

# Products beyond this are put into a sum by their logarithm; one factor more does not overflow.
LARGE = 1e200

# Least share that counts for a mean or a scatter.
NEGLIGIBLE = 1e-9


def fit_components(
    Z: Floats,
    layers: Sequence[Layer] | Links,
    *,
    n_classes: int,
    components: int,
    covariance: str,
    rng: Generator,
    proportions: str = "free",
    labels: NDArray[np.integer] | None = None,
    steps: int = STEPS,
    min_rise: float = MIN_RISE,
) -> Gaussians:
    """Fit classes that are unions of Gaussians to features and annotations, from one start.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_dims)
        Features in the coordinates of the components.
    layers : sequence of Layer, or Links
        Annotations, which `link` may have laid out.
    n_classes : int
        Number of classes.
    components : int
        Gaussians of each class at the start; annotations may give some classes more and others fewer.
    covariance : {"spherical", "diagonal", "tied", "full"}
        Shape of the covariances.
    rng : numpy.random.Generator
        The only source of randomness.
    proportions : {"free", "equal"}
        Proportions of the classes: each as likely as it is large, or all equally likely beforehand.
    labels : ndarray of shape (n_samples,), optional
        Components of the samples at the start, in place of those of `first_labels`.
    steps : int
        Most steps of the fit.
    min_rise : float
        Least rise of the bound in a step, nats; a step of less is the last one.

    Returns
    -------
    Gaussians
        Gaussians in the coordinates of `Z`, with the shares of the classes.

    Raises
    ------
    ValueError
        If there are fewer distinct rows than components.
    """
    n_components = n_classes * components
    links = layers if isinstance(layers, Links) else link(layers, len(Z))
    if labels is None:
        labels = first_labels(Z, n_components, rng)
    beginning = begin(
        panels.samples_of(Z),
        labels,
        n_classes=n_classes,
        n_components=n_components,
        covariance=covariance,
        proportions=proportions,
    )
    return finish(beginning, links, rng, steps, min_rise)


class Beginning(NamedTuple):
    """A fit after its first steps, which are without annotations: fits to all folds go on from there."""

    observed: panels.Observed  # without annotations
    shares: Floats  # (n_samples, n_components)


def begin(
    samples: panels.Samples,
    labels: NDArray[np.integer],
    *,
    n_classes: int,
    n_components: int,
    covariance: str,
    proportions: str = "free",
) -> Beginning:
    """Take the first steps of a fit from the components of the samples; `observe` has the parameters."""
    observed = panels.observe(
        samples,
        link((), len(labels)),
        n_classes=n_classes,
        n_components=n_components,
        covariance=covariance,
        proportions=proportions,
    )
    fields = panels.new_fields(observed, n_components)
    fields.shares[np.arange(len(labels)), labels] = 1.0
    _begin(observed, fields)
    return Beginning(observed, fields.shares)


def finish(
    beginning: Beginning, links: Links, rng: Generator, steps: int = STEPS, min_rise: float = MIN_RISE
) -> Gaussians:
    """Fit features and annotations from the first steps on; `fit_components` has the parameters."""
    observed = beginning.observed._replace(**panels.annotated_fields(links))
    n_components, n_classes = beginning.shares.shape[1], observed.n_classes
    fields = panels.new_fields(observed, n_components)
    fields.shares[:] = beginning.shares
    n_steps = _fit(observed, fields, rng, steps, min_rise, True)
    if beliefs.escape(fields.evidence, links.ways, fields.pulls, fields.classes) > min_rise:
        n_steps += _fit(observed, fields, rng, steps, min_rise, False)
    is_matrix = observed.shape in panels.MATRICES
    bound = fields.bound.tolist()
    proportions = "equal" if observed.is_equal else "free"
    return Gaussians(
        structure=Structure(NONE, n_components // n_classes, COVARIANCES[observed.shape], proportions),
        class_of=fields.class_of,
        weights=np.exp(fields.log_weights),
        means=fields.means,
        covariances=fields.covariances if is_matrix else fields.covariances[:, :, 0],
        center=np.zeros(observed.Z.shape[1]),
        classes=fields.classes,
        accuracies=dict(zip(links.annotators, map(tuple, fields.accuracies.tolist()), strict=True)),
        terms=(bound[0], bound[1], bound[2]),
        steps=n_steps,
    )


@cache
def warm_up() -> None:
    """Load or compile the kernels of fits, so that timings of fits do not include it."""
    Z, layer = np.arange(8.0)[:, None], Layer(MUST, np.array([[0, 1]]), None, None)
    rng = np.random.default_rng(0)
    fit_components(Z, [layer], n_classes=2, components=1, covariance="spherical", steps=1, rng=rng)


def first_labels(
    Z: Floats, n_components: int, rng: Generator, first_steps: int = MAX_KMEANS_ITERATIONS
) -> NDArray[np.int64]:
    """Return components of the samples to start from, by the best of some k-means starts by inertia.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_dims)
        Features in the coordinates of the components.
    n_components : int
        Number of components of all classes together.
    rng : numpy.random.Generator
        The only source of randomness.
    first_steps : int
        Iterations of k-means after which the starts are compared.

    Raises
    ------
    ValueError
        If there are fewer distinct rows than components.
    """
    settings = ObjectiveSettings(min_cluster_size=1)
    data = build_problem(Z, n_clusters=n_components, model="unsupervised", settings=settings).data
    state = new_state(data)
    best = np.zeros((Z.shape[1], len(state.distances)))
    _start(data, state, best, np.zeros_like(best), rng, DRAWS + int(math.log(n_components)), first_steps)
    return state.labels.astype(np.int64)


@jit
def _start(
    data: Data, state: State, best: Floats, centroids: Floats, rng: Generator, trials: int, first_steps: int
) -> None:
    min_inertia = np.inf
    for _ in range(TRIES):
        seed_centroids(data, state, rng, centroids, trials)
        kmeans(data, state, centroids, first_steps)
        inertia = 0.0
        for distance in state.own_distances:
            inertia += distance
        if inertia < min_inertia:
            min_inertia = inertia
            for d in range(best.shape[0]):
                for k in range(best.shape[1]):
                    best[d, k] = centroids[d, k]
    kmeans(data, state, best, MAX_KMEANS_ITERATIONS)


@jit
def _begin(observed: panels.Observed, fields: panels.Fields) -> None:
    """Take the first steps, without annotations."""
    for _ in range(WARM_STEPS):
        set_parameters(observed, fields)
        set_shares(observed, fields, 0)


@jit
def _fit(
    observed: panels.Observed,
    fields: panels.Fields,
    rng: Generator,
    steps: int,
    min_rise: float,
    is_new: bool,
) -> int:
    """Raise the bound as long as it rises enough, and return the number of steps.

    A fit that is not new goes on with its parameters and the classes of its annotated samples.
    """
    if is_new:
        fields.accuracies[:] = 0.75
        set_pulls(observed, fields)
        choose_classes(observed, fields, rng)
    else:
        set_shares(observed, fields, ROUNDS)
    old_bound = -np.inf
    # A start knows too little of each annotator: one accuracy for all comes first, half of the steps at most.
    is_common = is_new and len(fields.accuracies) > 1
    are_classes = len(fields.sizes) == observed.n_classes
    for step in range(steps):
        if fields.stop[0] != 0:
            return step
        set_parameters(observed, fields)
        set_shares(observed, fields, ROUNDS)
        set_accuracies(observed, fields, is_common)
        if not are_classes and step % CLASS_STEPS == CLASS_STEPS - 1:
            set_links(observed, fields)
            if climb(fields) > 0:
                set_classes(fields)
        set_bound(observed, fields)
        new_bound = fields.bound.sum()
        is_still = new_bound < old_bound + min_rise and (are_classes or step > CLASS_STEPS)
        if is_still and not is_common:
            return step + 1
        is_common = is_common and not is_still and 2 * (step + 1) < steps
        old_bound = new_bound
    return steps


# Parameters of the components, given the shares of the samples.


@jit_inner
def set_parameters(observed: panels.Observed, fields: panels.Fields) -> None:
    """Set the weights, means and covariances that are best for the shares and the prior."""
    n_samples, n_dims = observed.Z.shape
    n_components = len(fields.sizes)
    set_moments(observed, fields)
    work, class_of = fields.work, fields.class_of
    work[:] = 0.0
    for g in range(n_components):
        work[class_of[g]] += fields.sizes[g] + 1.0
    for g in range(n_components):
        # each component counts as one sample more, so that none vanishes
        total = work[class_of[g]] * observed.n_classes if observed.is_equal else n_samples + n_components
        fields.log_weights[g] = math.log((fields.sizes[g] + 1.0) / total)
        for d in range(n_dims):
            fields.means[g, d] /= max(fields.sizes[g], NEGLIGIBLE)
    set_scatters(observed, fields)
    fields.bound[2] = 0.0
    for g in range(n_components):
        fields.bound[2] += fields.log_weights[g]
    for shape in range(len(fields.logdets)):
        trace = factorise(observed, fields, shape)
        fields.bound[2] -= 0.5 * observed.strength * (trace + fields.logdets[shape])
    for g in range(n_components):
        factor = fields.factors[g if observed.shape != TIED else 0]
        for a in range(fields.offsets.shape[1]):
            offset = 0.0
            for b in range(a + 1):
                offset -= factor[a, b] * fields.means[g, b]
            fields.offsets[g, a] = offset


@jit_inner
def set_moments(observed: panels.Observed, fields: panels.Fields) -> None:
    """Set the sums of the members of each component: their number, and first and second moments.

    Coordinates are centred, and the prior adds some of the variance of all samples to each covariance, so
    that the scatter about the mean loses no digits that count by being a difference of moments.
    """
    n_samples, n_dims = observed.Z.shape
    covariances, means, sizes, Z = fields.covariances, fields.means, fields.sizes, observed.Z
    variances = covariances.reshape(covariances.shape[0], covariances.shape[1] * covariances.shape[2])
    sizes[:] = 0.0
    means[:] = 0.0
    covariances[:] = 0.0
    for i in range(n_samples):
        row = Z[i]
        for g in range(len(sizes)):
            share = fields.shares[i, g]
            if share <= NEGLIGIBLE:
                continue
            sizes[g] += share
            add_scaled(share, row, means[g], n_dims)
            if observed.shape == SPHERICAL:
                variances[g, 0] += share * observed.norms[i]
            elif observed.shape == DIAGONAL:
                squares = variances[g]
                for d in range(n_dims):
                    squares[d] += share * row[d] * row[d]
            elif observed.shape == FULL:
                for d in range(n_dims):
                    add_scaled(share * row[d], row, covariances[g, d], d + 1)


@jit_inner
def add_scaled(factor: float, row: Floats, target: Floats, count: int) -> None:
    """Add a multiple of the first elements of a row to another one."""
    for d in range(count):
        target[d] += factor * row[d]


@jit_inner
def set_scatters(observed: panels.Observed, fields: panels.Fields) -> None:
    """Set the covariances from the moments: the scatter of the members, the prior counting as members."""
    n_samples, n_dims = observed.Z.shape
    covariances, means, width = fields.covariances, fields.means, fields.covariances.shape[2]
    if observed.shape == TIED:
        for d in range(n_dims):
            for e in range(d + 1):
                covariances[0, d, e] = observed.total[d, e]
    for g in range(len(fields.sizes)):
        matrix = covariances[g if observed.shape != TIED else 0]
        for d in range(n_dims):
            moment = fields.sizes[g] * means[g, d]
            if observed.shape == SPHERICAL:
                matrix[0, 0] -= moment * means[g, d]
            elif width == 1:
                matrix[d, 0] -= moment * means[g, d]
            else:
                for e in range(d + 1):
                    matrix[d, e] -= moment * means[g, e]
    for shape in range(len(covariances)):
        size = fields.sizes[shape] if observed.shape != TIED else float(n_samples)
        matrix = covariances[shape]
        if observed.shape == SPHERICAL:
            for d in range(n_dims):
                matrix[0, 0] += observed.strength * observed.scale[d]
            mean = matrix[0, 0] / (n_dims * (size + observed.strength))
            for d in range(n_dims):
                matrix[d, 0] = mean
            continue
        for d in range(n_dims):
            column = min(d, width - 1)
            matrix[d, column] += observed.strength * observed.scale[d]
            for e in range(column + 1):
                matrix[d, e] /= size + observed.strength
                if width > 1:
                    matrix[e, d] = matrix[d, e]


@jit_inner
def factorise(observed: panels.Observed, fields: panels.Fields, shape: int) -> float:
    """Set the inverse Cholesky factor of a covariance, and its log-determinant; return tr(scale / Σ)."""
    matrix, factor = fields.covariances[shape], fields.factors[shape]
    n_dims, width = matrix.shape
    trace, logdet = 0.0, 0.0
    for a in range(n_dims):
        if width == 1:
            factor[a, 0] = 1.0 / math.sqrt(matrix[a, 0])
            logdet += math.log(matrix[a, 0])
            trace += observed.scale[a] / matrix[a, 0]
            continue
        for b in range(a + 1):
            remainder = matrix[a, b]
            for c in range(b):
                remainder -= factor[a, c] * factor[b, c]
            factor[a, b] = math.sqrt(remainder) if a == b else remainder / factor[b, b]
        logdet += 2.0 * math.log(factor[a, a])
    if width > 1:
        for a in range(n_dims):  # row by row, each from those above it
            diagonal = factor[a, a]
            for c in range(a):
                total = 0.0
                for b in range(c, a):
                    total -= factor[a, b] * factor[b, c]
                factor[a, c] = total / diagonal
            factor[a, a] = 1.0 / diagonal
            for c in range(a + 1):
                trace += observed.scale[c] * factor[a, c] * factor[a, c]
    fields.logdets[shape] = logdet
    return trace


# Shares of the samples, given the parameters and the shares of the samples that they are annotated with.


@jit_inner
def set_shares(observed: panels.Observed, fields: panels.Fields, rounds: int) -> None:
    """Set the shares that are best one sample at a time; annotations count in `rounds` rounds.

    Samples without annotations have the same shares in each round. Annotations do not change the proportions
    of the components within a class, so that rounds go over classes alone. Without rounds, classes are not
    chosen yet.
    """
    n_samples, n_components = len(observed.Z), len(fields.sizes)
    are_classes = rounds > 0 and n_components == observed.n_classes
    fields.bound[0] = 0.0
    for panel in range(len(observed.panels)):
        if fields.stop[0] != 0:
            return
        panels.set_densities(observed, fields, panel)
        set_evidence(fields, are_classes, rounds > 0)
        if rounds > 0:
            set_panel_classes(observed, fields, panel)
        start = panel * panels.PANEL
        for i in range(start, min(start + panels.PANEL, n_samples)):
            for g in range(0 if are_classes else n_components):
                fields.shares[i, g] = fields.densities[g, i - start]
    if rounds == 0:
        return
    set_annotated_classes(observed, fields, rounds)
    for i in range(n_samples):
        if are_classes:
            for g in range(n_components):
                fields.shares[i, g] = fields.classes[i, g]
        else:
            for g in range(n_components):
                fields.shares[i, g] *= fields.classes[i, fields.class_of[g]]


@jit_inner
def set_evidence(fields: panels.Fields, are_classes: bool, has_logs: bool) -> None:
    """Set the log-density of a panel in each class, and the shares of the components within their class.

    If each component is a class, these shares are 1 and are not computed.
    """
    tops, sums, class_of, logs = fields.tops, fields.sums, fields.class_of, fields.rows[0]
    if are_classes:
        for g in range(len(class_of)):
            top, densities = tops[g], fields.densities[g]
            for j in range(panels.PANEL):
                top[j] = densities[j]
        return
    tops[:] = -np.inf
    sums[:] = 0.0
    for g in range(len(class_of)):
        top, densities = tops[class_of[g]], fields.densities[g]
        for j in range(panels.PANEL):
            top[j] = max(top[j], densities[j])
    for g in range(len(class_of)):
        top, total, densities = tops[class_of[g]], sums[class_of[g]], fields.densities[g]
        for j in range(panels.PANEL):
            densities[j] = panels.quick_exp(densities[j] - top[j])
        for j in range(panels.PANEL):
            total[j] += densities[j]
    for g in range(len(class_of)):
        total, densities = sums[class_of[g]], fields.densities[g]
        for j in range(panels.PANEL):
            densities[j] /= total[j]
    for c in range(len(tops) if has_logs else 0):
        top = tops[c]
        array_log(sums[c], logs)
        for j in range(panels.PANEL):
            top[j] += logs[j]


@jit_inner
def set_panel_classes(observed: panels.Observed, fields: panels.Fields, panel: int) -> None:
    """Set the class shares of the samples of a panel without annotations, and keep the evidence of all."""
    n_classes, tops, sums = observed.n_classes, fields.tops, fields.sums
    largest, total = fields.rows[0], fields.rows[1]
    largest[:] = -np.inf
    total[:] = 0.0
    for c in range(n_classes):
        top = tops[c]
        for j in range(panels.PANEL):
            largest[j] = max(largest[j], top[j])
    for c in range(n_classes):
        top, shares = tops[c], sums[c]
        for j in range(panels.PANEL):
            shares[j] = panels.quick_exp(top[j] - largest[j])
        for j in range(panels.PANEL):
            total[j] += shares[j]
    product, start = 1.0, panel * panels.PANEL
    for i in range(start, min(start + panels.PANEL, len(observed.Z))):
        j = i - start
        for c in range(n_classes):
            fields.evidence[i, c] = tops[c, j]
        if observed.row_start[i] == observed.row_start[i + 1]:
            for c in range(n_classes):
                fields.classes[i, c] = sums[c, j] / total[j]
            fields.bound[0] += largest[j]
            product = with_factor(fields, product, total[j])
    fields.bound[0] += math.log(product)


@jit_part
def with_factor(fields: panels.Fields, product: float, factor: float) -> float:
    """Return a product with one factor more, or 1 after adding the logarithm of a large one to the bound.

    One logarithm for many factors takes less time than one for each.
    """
    product *= factor
    if product > LARGE:
        fields.bound[0] += math.log(product)
        return 1.0
    return product


@jit_inner
def set_annotated_classes(observed: panels.Observed, fields: panels.Fields, rounds: int) -> None:
    """Set the class shares of annotated samples, one after the other, in some rounds."""
    product = 1.0
    for turn in range(rounds):
        for i in range(len(observed.Z)):
            if fields.stop[0] != 0:
                return
            if observed.row_start[i] == observed.row_start[i + 1]:
                continue
            set_field(observed, fields, i)
            value, total = set_class_shares(observed, fields, i)
            if turn == rounds - 1:
                fields.bound[0] += value
                product = with_factor(fields, product, total)
    fields.bound[0] += math.log(product)


@jit_part
def set_field(observed: panels.Observed, fields: panels.Fields, i: int) -> None:
    """Set the log-odds of each class by the annotations of a sample."""
    fields.field[:] = 0.0
    for place in range(observed.row_start[i], observed.row_start[i + 1]):
        pull, partner = fields.pulls[observed.entries[place]], observed.partners[place]
        for c in range(observed.n_classes):
            fields.field[c] += pull * fields.classes[partner, c]


@jit_part
def set_class_shares(observed: panels.Observed, fields: panels.Fields, i: int) -> tuple[float, float]:
    """Set the class shares of a sample, given `field`.

    The sum of the first number and of the logarithm of the second is its features and entropy in the bound.
    """
    classes, evidence = fields.classes[i], fields.evidence[i]
    field, n_classes = fields.field, observed.n_classes
    # four sums, and four maxima, at a time: one alone waits for itself
    wide = n_classes - n_classes % panels.WIDE
    largest = -np.inf
    m0, m1, m2, m3 = largest, largest, largest, largest
    for c in range(0, wide, panels.WIDE):
        m0, m1 = max(m0, evidence[c] + field[c]), max(m1, evidence[c + 1] + field[c + 1])
        m2, m3 = max(m2, evidence[c + 2] + field[c + 2]), max(m3, evidence[c + 3] + field[c + 3])
    for c in range(wide, n_classes):
        largest = max(largest, evidence[c] + field[c])
    largest = max(largest, max(max(m0, m1), max(m2, m3)))
    for c in range(n_classes):
        classes[c] = panels.quick_exp(evidence[c] + field[c] - largest)
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    p0, p1, p2, p3 = 0.0, 0.0, 0.0, 0.0
    for c in range(0, wide, panels.WIDE):
        s0, s1, s2, s3 = s0 + classes[c], s1 + classes[c + 1], s2 + classes[c + 2], s3 + classes[c + 3]
        p0, p1 = p0 + classes[c] * field[c], p1 + classes[c + 1] * field[c + 1]
        p2, p3 = p2 + classes[c + 2] * field[c + 2], p3 + classes[c + 3] * field[c + 3]
    for c in range(wide, n_classes):
        s0, p0 = s0 + classes[c], p0 + classes[c] * field[c]
    total, pulled = (s0 + s1) + (s2 + s3), (p0 + p1) + (p2 + p3)
    share = 1.0 / total
    for c in range(n_classes):
        classes[c] *= share
    return largest - pulled * share, total


@jit_inner
def set_accuracies(observed: panels.Observed, fields: panels.Fields, is_common: bool) -> None:
    """Set the accuracies that were not given: one for all, or two for each annotator, shrunk (eq. (81)).

    An annotator alone has one: answers that nobody else gives are judged by the clusters that they made.
    """
    accuracies, agreements, totals = fields.accuracies, fields.agreements, fields.totals
    agreements[:] = HALF_AN_ANSWER
    totals[:] = 2.0 * HALF_AN_ANSWER
    for pair in range(len(observed.signed)):
        source, weight = observed.sources[pair], abs(observed.signed[pair])
        if source >= 0:
            share = joint_share(observed, fields, pair)
            totals[source, 0] += weight * share
            totals[source, 1] += weight * (1.0 - share)
            if observed.signed[pair] > 0:
                agreements[source, 0] += weight * share
            else:
                agreements[source, 1] += weight * (1.0 - share)
    is_one = is_common or len(accuracies) == 1
    if is_one and len(accuracies) > 0:
        accuracies[:] = min(max(agreements.sum() / totals.sum(), 0.5 + UNSURE), 1.0 - UNSURE)
    set_levels(fields)
    for _ in range(0 if is_one else SHRINKING_STEPS):
        for source in range(len(accuracies)):
            for side in range(2):
                prior = OWN_PRIOR * fields.levels[source] + GROUP_PRIOR * fields.group[side]
                answers = totals[source, side] + OWN_PRIOR + GROUP_PRIOR
                accuracy = (agreements[source, side] + prior) / answers
                accuracies[source, side] = min(max(accuracy, UNSURE), 1.0 - UNSURE)
        set_levels(fields)
    set_pulls(observed, fields)


@jit_inner
def set_levels(fields: panels.Fields) -> None:
    """Set the mean accuracy of each annotator, and the two of the group, which is never below chance."""
    n_annotators = len(fields.accuracies)
    fields.group[:] = 0.0
    for source in range(n_annotators):
        fields.levels[source] = 0.0
        for side in range(2):
            odds = log_odds(fields.accuracies[source, side])
            fields.levels[source] += 0.5 * odds
            fields.group[side] += odds / n_annotators
        fields.levels[source] = 1.0 / (1.0 + math.exp(-fields.levels[source]))
    for side in range(2):
        fields.group[side] = 1.0 / (1.0 + math.exp(-fields.group[side]))
    if fields.group[0] + fields.group[1] < 1.0:
        fields.group[:] = 0.5


@jit_part
def log_odds(p: float) -> float:
    """Return the logarithm of the odds of a probability."""
    return math.log(p / (1.0 - p))


@jit_inner
def set_pulls(observed: panels.Observed, fields: panels.Fields) -> None:
    """Set what each pair adds to the log-likelihood when its samples are of one class rather than two."""
    logs = fields.logs
    for source in range(len(fields.accuracies)):
        for side in range(2):
            logs[source, side] = math.log(fields.accuracies[source, side])
            logs[source, 2 + side] = math.log1p(-fields.accuracies[source, side])
    for pair in range(len(observed.signed)):
        source, odds = observed.sources[pair], observed.odds[pair]
        if source >= 0:
            side = 0 if observed.signed[pair] > 0 else 1
            odds = logs[source, side] - logs[source, 3 - side]
        fields.pulls[pair] = observed.signed[pair] * odds


@jit_part
def joint_share(observed: panels.Observed, fields: panels.Fields, pair: int) -> float:
    """Return the probability that the two samples of a pair are of one class."""
    first, second, total = observed.pairs[pair, 0], observed.pairs[pair, 1], 0.0
    for c in range(observed.n_classes):
        total += fields.classes[first, c] * fields.classes[second, c]
    return total


# Classes of the components, given the shares of the samples: correlation clustering of the components.


@jit_inner
def choose_classes(observed: panels.Observed, fields: panels.Fields, rng: Generator) -> None:
    """Set the map from components to classes that fits the annotations best, by several climbs."""
    n_components = len(fields.class_of)
    for g in range(n_components):
        fields.class_of[g] = g % observed.n_classes
    if n_components > observed.n_classes:
        set_links(observed, fields)
        best = -np.inf
        for _ in range(MAPS):
            shuffle(rng, fields.class_of)
            climb(fields)
            value = 0.0
            for g in range(n_components):
                for h in range(n_components):
                    if g != h and fields.class_of[g] == fields.class_of[h]:
                        value += fields.links[g, h]
            if value > best:
                best = value
                for g in range(n_components):
                    fields.best_map[g] = fields.class_of[g]
        for g in range(n_components):
            fields.class_of[g] = fields.best_map[g]
    set_classes(fields)


@jit_inner
def set_links(observed: panels.Observed, fields: panels.Fields) -> None:
    """Set the gain of each two components from being of one class, a sum over annotated pairs, both ways."""
    n_components = len(fields.class_of)
    fields.links[:] = 0.0
    for pair in range(len(observed.signed)):
        first, second, pull = observed.pairs[pair, 0], observed.pairs[pair, 1], fields.pulls[pair]
        for g in range(n_components):
            if fields.shares[first, g] > NEGLIGIBLE:
                weight = pull * fields.shares[first, g]
                for h in range(n_components):
                    fields.links[g, h] += weight * fields.shares[second, h]
    for g in range(n_components):
        for h in range(g + 1):
            gain = fields.links[g, h] + fields.links[h, g]
            fields.links[g, h] = gain
            fields.links[h, g] = gain


@jit_inner
def climb(fields: panels.Fields) -> int:
    """Move components between classes while annotations gain, without emptying one; return the moves made."""
    n_components, moves = len(fields.class_of), 0
    fields.n_components[:] = 0
    for g in range(n_components):
        fields.n_components[fields.class_of[g]] += 1
    has_moved = True
    while has_moved and moves < n_components * n_components:
        has_moved = False
        for g in range(n_components):
            source = fields.class_of[g]
            if fields.n_components[source] == 1:
                continue
            fields.field[:] = 0.0
            for h in range(n_components):
                if h != g:
                    fields.field[fields.class_of[h]] += fields.links[g, h]
            target = source
            for c in range(len(fields.field)):
                if fields.field[c] > fields.field[target] + NEGLIGIBLE:
                    target = c
            if target != source:
                fields.class_of[g] = target
                fields.n_components[source] -= 1
                fields.n_components[target] += 1
                moves, has_moved = moves + 1, True
    return moves


@jit_inner
def set_classes(fields: panels.Fields) -> None:
    """Set the shares of the classes, which are sums over their components."""
    fields.classes[:] = 0.0
    for i in range(len(fields.shares)):
        for g in range(len(fields.class_of)):
            fields.classes[i, fields.class_of[g]] += fields.shares[i, g]


@jit_inner
def set_bound(observed: panels.Observed, fields: panels.Fields) -> None:
    """Set the term of the annotations in the lower bound; the others are set where they are changed."""
    annotations = observed.sureness
    for pair in range(len(observed.signed)):
        share, weight = joint_share(observed, fields, pair), abs(observed.signed[pair])
        agreement = share if observed.signed[pair] > 0 else 1.0 - share
        source = observed.sources[pair]
        if source < 0:
            annotations += weight * agreement * observed.odds[pair]
            continue
        side = 0 if observed.signed[pair] > 0 else 1
        logs = fields.logs[source]
        annotations += weight * (agreement * logs[side] + (1.0 - agreement) * logs[3 - side])
    for source in range(len(fields.accuracies)):
        for side in range(2):
            accuracy = fields.accuracies[source, side]
            annotations += HALF_AN_ANSWER * (fields.logs[source, side] + fields.logs[source, 2 + side])
            annotations -= OWN_PRIOR * divergence(fields.levels[source], accuracy)
            annotations -= GROUP_PRIOR * divergence(fields.group[side], accuracy)
    fields.bound[1] = annotations


@jit_part
def divergence(p: float, q: float) -> float:
    """Return the divergence of a coin of probability p from one of q, nats."""
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
