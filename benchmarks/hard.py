"""Soft partitions of components beside hard ones: `python -m benchmarks hard`, ten minutes.

On the half of the clustering suite that constants were set on, with as many pairs as samples. The structure
that annotations choose is fitted from the same ten starts by the soft steps, by hard ones, which move whole
samples between components and whole components between classes, and by hard steps from where the soft ones
end. Of each, the fit of the largest value of its own objective is taken.
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
from sweep_clustering.kernels.problem.data import link
from sweep_clustering.kernels.problem.problem import Layer
from sweep_clustering.kernels.scores import adjusted_rand
from sweep_clustering.kernels.settings import Settings
from sweep_clustering.kernels.solver.contract import Model
from sweep_clustering.kernels.solver.prepare import prepare
from sweep_clustering.kernels.unions import panels
from sweep_clustering.kernels.unions import soft as components
from sweep_clustering.kernels.unions.panels import Fields, Observed
from sweep_clustering.kernels.unions.soft import CLASS_STEPS, ENOUGH, ROUNDS, STEPS, WARM_STEPS, first_labels
from sweep_clustering.sweeps.errors import present

ACCURACIES = (0.8, 0.9, 1.0)
RESTARTS = 10
RESULTS = Table("hard", ("p", "sets", "soft", "hard", "soft, then hard"))
TABLES = (RESULTS,)


@jit_inner
def move_samples(seen: Observed, fields: Fields, rounds: int) -> float:
    """Move samples to their best components, those annotated in some rounds; the term of the features."""
    for turn in range(max(rounds, 1)):
        for i in range(seen.Z.shape[0]):
            is_annotated = rounds > 0 and seen.row_start[i] < seen.row_start[i + 1]
            if turn > 0 and not is_annotated:
                continue
            components.set_field(seen, fields, i, is_annotated)
            best, most = 0, -np.inf
            for g in range(len(fields.sizes)):
                value = fields.log_weights[g] + fields.densities[i, g] + fields.field[fields.class_of[g]]
                if value > most:
                    best, most = g, value
            fields.shares[i] = 0.0
            fields.classes[i] = 0.0
            fields.shares[i, best] = 1.0
            fields.classes[i, fields.class_of[best]] = 1.0
    total = 0.0
    for i in range(seen.Z.shape[0]):
        for g in range(len(fields.sizes)):
            if fields.shares[i, g] == 1.0:
                total += fields.log_weights[g] + fields.densities[i, g]
    return total


@jit
def search(seen: Observed, fields: Fields, rng: Generator, is_begun: bool) -> float:
    """Hard steps until the objective rises no more; its value."""
    components.set_pulls(seen, fields)
    if is_begun:
        components.set_classes(fields)
    else:
        for _ in range(WARM_STEPS):
            components.set_parameters(seen, fields)
            panels.set_densities(seen, fields)
            move_samples(seen, fields, 0)
        components.choose_classes(seen, fields, rng)
    before = -np.inf
    for step in range(STEPS):
        components.set_parameters(seen, fields)
        panels.set_densities(seen, fields)
        features = move_samples(seen, fields, ROUNDS)
        if step % CLASS_STEPS == CLASS_STEPS - 1:
            components.set_links(seen, fields)
            if components.climb(fields) > 0:
                components.set_classes(fields)
        components.set_bound(seen, fields)
        now = features + fields.bound[1] + fields.bound[2]
        if now < before + ENOUGH and step > CLASS_STEPS:
            return now
        before = now
    return before


def hard(
    X: NDArray[np.float64], layers: list[Layer], k: int, soft: Gaussians, stream: SeedSequence, is_begun: bool
) -> tuple[float, NDArray[np.int64]]:
    """Objective and labels of hard steps in the coordinates of a soft fit, or from where it ended."""
    Z, made, many = soft.place(X), soft.structure, len(soft.class_of)
    given = {"n_classes": k, "n_components": many, "covariance": made.covariance}
    seen = panels.observe(panels.samples_of(Z), link(layers, len(Z)), proportions=made.proportions, **given)
    rng = np.random.default_rng(stream)
    within = soft.log_densities(Z) - soft.class_densities(Z)[:, soft.class_of]
    shares = np.exp(within) * soft.classes[:, soft.class_of]
    labels = shares.argmax(axis=1) if is_begun else first_labels(Z, many, rng)
    fields = panels.new_fields(seen, many)
    fields.shares[np.arange(len(Z)), labels] = 1.0
    fields.class_of[:] = soft.class_of
    objective = search(seen, fields, rng, is_begun)
    return objective, fields.class_of[fields.shares.argmax(axis=1)]


def measured(task: tuple[float, str]) -> tuple[float, float, float]:
    """ARI of the soft fit, the hard one, and the hard one that begins at the soft one."""
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
            hard(X, layers, k, each, stream, is_begun)
            for each, stream in zip(solutions, streams, strict=True)
        ]
        aris.append(adjusted_rand(truth, max(fits, key=lambda fit: fit[0])[1]))
    return soft, *aris


def rows() -> Iterator[tuple[str, ...]]:
    """Means at each accuracy."""
    names = list(best_published(SUITE))[0::2]
    with ProcessPoolExecutor(2) as pool:
        for p in ACCURACIES:
            found = np.array(list(pool.map(measured, product([p], names))))
            yield f"{p:g}", str(len(names)), *(f"{mean:.3f}" for mean in found.mean(axis=0))


def measure() -> dict[str, str]:
    """On the sets of the suite, which have to be at hand."""
    return {RESULTS.name: RESULTS.markdown(rows())} if SUITE.is_dir() else {}
