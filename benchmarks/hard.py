"""Soft partitions of components beside hard ones: `python -m benchmarks hard`, ten minutes.

The sets are the half of the clustering suite that constants were set on, with as many pairs as samples. The
structure that annotations choose is fitted from the same ten starts by the soft steps, by hard steps, and by
hard steps from the ends of the soft ones. Hard steps move whole samples between components, and whole
components between classes. The best fit counts, by the objective of its method.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray
from suite import SUITE, best_published, draw_layers, read
from tables import Table

from sweep_clustering.kernels.fits import Gaussians
from sweep_clustering.kernels.jit import jit, jit_inner
from sweep_clustering.kernels.problem.data import Floats, link
from sweep_clustering.kernels.problem.problem import Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import Settings
from sweep_clustering.kernels.solver.contract import Model
from sweep_clustering.kernels.solver.prepare import prepare
from sweep_clustering.kernels.unions import panels
from sweep_clustering.kernels.unions import soft as components
from sweep_clustering.kernels.unions.panels import Fields, Observed
from sweep_clustering.sweeps.errors import present

ACCURACIES = (0.8, 0.9, 1.0)
RESTARTS = 10
RESULTS = Table("hard", ("p", "sets", "soft", "hard", "soft, then hard"))
TABLES = (RESULTS,)


@jit_inner
def set_densities(observed: Observed, fields: Fields, densities: Floats) -> None:
    """Set the log-density of each sample in each component, with its weight."""
    for panel in range(len(observed.panels)):
        panels.set_densities(observed, fields, panel)
        start = panel * panels.PANEL
        for i in range(start, min(start + panels.PANEL, len(densities))):
            for g in range(len(fields.sizes)):
                densities[i, g] = fields.densities[g, i - start]


@jit_inner
def move_samples(observed: Observed, fields: Fields, densities: Floats, rounds: int) -> float:
    """Move samples to their best components in some rounds, and return the term of the features."""
    for turn in range(max(rounds, 1)):
        for i in range(observed.Z.shape[0]):
            is_annotated = rounds > 0 and observed.row_start[i] < observed.row_start[i + 1]
            if turn > 0 and not is_annotated:
                continue
            fields.field[:] = 0.0
            if is_annotated:
                components.set_field(observed, fields, i)
            best, largest = 0, -np.inf
            for g in range(len(fields.sizes)):
                value = densities[i, g] + fields.field[fields.class_of[g]]
                if value > largest:
                    best, largest = g, value
            fields.shares[i] = 0.0
            fields.classes[i] = 0.0
            fields.shares[i, best] = 1.0
            fields.classes[i, fields.class_of[best]] = 1.0
    total = 0.0
    for i in range(observed.Z.shape[0]):
        for g in range(len(fields.sizes)):
            if fields.shares[i, g] == 1.0:
                total += densities[i, g]
    return total


@jit
def search(observed: Observed, fields: Fields, densities: Floats, rng: Generator, is_begun: bool) -> float:
    """Make hard steps until the objective rises no more, and return its value."""
    components.set_pulls(observed, fields)
    if is_begun:
        components.set_classes(fields)
    else:
        for _ in range(components.WARM_STEPS):
            components.set_parameters(observed, fields)
            set_densities(observed, fields, densities)
            move_samples(observed, fields, densities, 0)
        components.choose_classes(observed, fields, rng)
    previous = -np.inf
    for step in range(components.STEPS):
        components.set_parameters(observed, fields)
        set_densities(observed, fields, densities)
        features = move_samples(observed, fields, densities, components.ROUNDS)
        if step % components.CLASS_STEPS == components.CLASS_STEPS - 1:
            components.set_links(observed, fields)
            if components.climb(fields) > 0:
                components.set_classes(fields)
        components.set_bound(observed, fields)
        objective: float = features + fields.bound[1] + fields.bound[2]
        if objective < previous + components.MIN_RISE and step > components.CLASS_STEPS:
            return objective
        previous = objective
    return previous


def fit_hard(
    X: NDArray[np.float64], layers: list[Layer], k: int, soft: Gaussians, stream: SeedSequence, is_begun: bool
) -> tuple[float, NDArray[np.int64]]:
    """Return objective and labels of hard steps in the coordinates of a soft fit, or from its end."""
    Z, structure, n_components = soft.place(X), soft.structure, len(soft.class_of)
    observed = panels.observe(
        panels.samples_of(Z),
        link(layers, len(Z)),
        n_classes=k,
        n_components=n_components,
        covariance=structure.covariance,
        proportions=structure.proportions,
    )
    rng = np.random.default_rng(stream)
    log_shares = soft.log_densities(Z) - soft.class_densities(Z)[:, soft.class_of]
    shares = np.exp(log_shares) * soft.classes[:, soft.class_of]
    labels = shares.argmax(axis=1) if is_begun else components.first_labels(Z, n_components, rng)
    fields = panels.new_fields(observed, n_components)
    fields.shares[np.arange(len(Z)), labels] = 1.0
    fields.class_of[:] = soft.class_of
    objective = search(observed, fields, np.empty_like(fields.shares), rng, is_begun)
    return objective, fields.class_of[fields.shares.argmax(axis=1)]


def measure_set(task: tuple[float, str]) -> tuple[float, float, float]:
    """Return ARI of the soft fit, the hard one, and the hard one that begins at the soft one."""
    p, name = task
    X, truth = read(SUITE, name)
    layers, k = draw_layers(truth, len(X), p), int(truth.max()) + 1
    streams = SeedSequence(0).spawn(RESTARTS)
    choice = prepare(Model("conditional", "any", Settings()), X, layers, k, SeedSequence(0)).choose(streams)
    soft = adjusted_rand(truth, max(choice.fits, key=lambda fit: fit.objective).labels)
    solutions = [present(fit.gaussians) for fit in choice.fits]
    if not solutions[0].structure.annotated:
        return soft, soft, soft
    aris = []
    for is_begun in (False, True):
        fits = [
            fit_hard(X, layers, k, solution, stream, is_begun)
            for solution, stream in zip(solutions, streams, strict=True)
        ]
        aris.append(adjusted_rand(truth, max(fits, key=lambda fit: fit[0])[1]))
    return soft, aris[0], aris[1]


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the means at each accuracy."""
    names = list(best_published(SUITE))[0::2]
    with ProcessPoolExecutor(2) as pool:
        for p in ACCURACIES:
            aris = np.array(list(pool.map(measure_set, product([p], names))))
            yield f"{p:g}", str(len(names)), *(f"{mean:.3f}" for mean in aris.mean(axis=0))


def measure() -> dict[str, str]:
    """Measure on the sets of the suite, if they are at hand."""
    return {RESULTS.name: RESULTS.markdown(rows())} if SUITE.is_dir() else {}
